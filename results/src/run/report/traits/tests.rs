//! A planted cause is named first, and traits that have nothing to do with the times are not named.

use std::time::UNIX_EPOCH;

use fastrand::Rng;

use super::*;
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::fixtures::{TraitResponse, count_traits, plan};

const SHARDS: u32 = 4;
/// Hosts, templates and addresses: four of these to each shard.
const GROUPS: u32 = 16;
const RESPONSES: usize = 4_000;
const SEEDS: u64 = 50;

/// What makes a response slow.
type Cause = fn(&TraitResponse) -> bool;

/// The causes, with the trait and the value that is to be named first, and the part of the responses
/// with it that are slow.
const CAUSES: [(TraitKind, &str, f64, Cause); 8] = [
    (TraitKind::Header, "2", 0.8, |it| it.header == 2),
    (TraitKind::Host, "5", 0.4, |it| it.host == 5),
    (TraitKind::Nth, "1st", 0.6, |it| it.nth == 1 && !it.is_tls),
    (TraitKind::Size, "1.00 MiB to 16.0 MiB", 0.9, |it| {
        it.body_bytes >= 1 << 20
    }),
    (TraitKind::Source, "6", 0.5, |it| it.source == 6),
    // A step of a flow has a template of its own.
    (TraitKind::Template, "2", 0.1, |it| it.template == 2),
    (TraitKind::Retransmission, "yes", 1.0, |it| {
        it.retransmits == Some(1)
    }),
    (TraitKind::Template, "9", 0.7, |it| it.template == 9),
];

/// One of 16 numbers, the lower ones more often.
fn skewed(draw: &mut Rng) -> u32 {
    let n = draw.f64() * draw.f64() * f64::from(GROUPS);
    (0..GROUPS).find(|most| n < f64::from(most + 1)).unwrap()
}

fn exponential(draw: &mut Rng, mean: f64) -> f64 {
    -(1.0 - draw.f64()).ln() * mean
}

/// Responses of a shard with skewed traits, whose times are `healthy`.
fn shard(number: u32, draw: &mut Rng, healthy: fn(&mut Rng, f64) -> f64) -> Vec<TraitResponse> {
    let mut nth = 0;
    (0..RESPONSES)
        .map(|n| {
            // Connections serve 30 requests in the mean.
            nth = if nth == 0 || draw.u8(0..30) == 0 {
                1
            } else {
                nth + 1
            };
            let us = healthy(draw, n as f64 / RESPONSES as f64);
            let is_lossy = draw.u8(0..200) == 0;
            let size = exponential(draw, 40.0).exp2().min(1e7);
            TraitResponse {
                us: us.clamp(50.0, 1e7).round().to_string().parse().unwrap(),
                at: Nanos(n as u64 * 60_000_000),
                nth,
                is_tls: draw.bool(),
                status: if draw.u8(0..20) == 0 { 404 } else { 200 },
                body_bytes: if draw.u8(0..25) == 0 {
                    2 << 20
                } else {
                    size.to_string().len() as u64 * 900
                },
                retransmits: (draw.u8(0..64) == 0).then_some(u32::from(is_lossy)),
                header: [0, 1, 1, 1, 1, 1, 1, 1, 1, 3][draw.usize(0..10)],
                host: skewed(draw),
                template: skewed(draw),
                source: number + SHARDS * draw.u32(0..4),
            }
        })
        .collect()
}

/// The record of shards, merged into so many.
fn record(shards: &[Vec<TraitResponse>], parts: u32) -> RunRecord {
    let mut plan = plan();
    (plan.shards, plan.connections) = (parts, 64);
    let mut record = RunRecord::missing(&plan, UNIX_EPOCH);
    let each = shards.len() / parts as usize;
    for (part, shards) in record.shards.iter_mut().zip(shards.chunks(each)) {
        for responses in shards {
            let mut counted = part.outcome.clone();
            count_traits(&mut counted, responses, GROUPS);
            let outcome = &mut part.outcome;
            outcome.traits.merge(&counted.traits);
            outcome.hosts.merge(&counted.hosts);
            outcome.templates.merge(&counted.templates);
            outcome.sources.merge(&counted.sources);
        }
    }
    record
}

fn slow(shards: &mut [Vec<TraitResponse>], draw: &mut Rng, part: f64, cause: Cause) {
    for response in shards.iter_mut().flatten() {
        if draw.u8(0..32) == 0 {
            response.header = 2;
        }
        if cause(response) && draw.f64() < part {
            response.us = response.us * 10 + draw.u64(5_000..20_000);
        }
    }
}

#[test]
fn a_planted_cause_is_named_first_and_by_merged_parts_as_well() {
    for (number, (kind, value, part, cause)) in (0..).zip(CAUSES) {
        for seed in 0..SEEDS {
            let draw = &mut Rng::with_seed(number * SEEDS + seed);
            let mut shards: Vec<_> = (0..SHARDS)
                .map(|number| shard(number, draw, |draw, _| 500.0 + exponential(draw, 300.0)))
                .collect();
            if kind == TraitKind::Retransmission {
                for response in shards.iter_mut().flatten() {
                    if draw.u8(0..100) == 0 {
                        response.retransmits = Some(1);
                    }
                }
            }
            slow(&mut shards, draw, part, cause);
            let first = |parts| {
                let rows = TraitRow::all(&record(&shards, parts), &[]);
                rows.first().map(|row| (row.kind, row.value.clone()))
            };
            let named = [first(4), first(2), first(1)];
            assert_eq!(
                named,
                [(); 3].map(|()| Some((kind, value.to_owned()))),
                "seed {seed}"
            );
        }
    }
}

#[test]
fn of_healthy_targets_nothing_is_named() {
    let healthy: [fn(&mut Rng, f64) -> f64; 8] = [
        |draw, _| exponential(draw, 2_000.0),
        // Lognormal, nearly.
        |draw, _| ((0..12).map(|_| draw.f64()).sum::<f64>() - 6.0).exp() * 1_000.0,
        |draw, _| exponential(draw, 100.0) + if draw.u8(0..20) == 0 { 20_000.0 } else { 500.0 },
        // Pareto, with an infinite variance.
        |draw, _| 300.0 / (1.0 - draw.f64()).powf(0.7),
        |draw, _| 200.0 + draw.f64() * 800.0,
        |_, _| 10_000.0,
        // Slower and slower.
        |draw, at| 500.0 + 5_000.0 * at + exponential(draw, 200.0),
        // Two stalls of all shards.
        |draw, at| {
            let is_stalled = (0.3..0.304).contains(&at) || (0.8..0.805).contains(&at);
            exponential(draw, 200.0) + if is_stalled { 80_000.0 } else { 400.0 }
        },
    ];
    for (number, healthy) in (0..).zip(healthy) {
        for seed in 0..SEEDS {
            let draw = &mut Rng::with_seed(10_000 + number * SEEDS + seed);
            let shards: Vec<_> = (0..SHARDS)
                .map(|number| shard(number, draw, healthy))
                .collect();
            for parts in [4, 2] {
                let rows = TraitRow::all(&record(&shards, parts), &[]);
                assert!(rows.is_empty(), "target {number}, seed {seed}: {rows:?}");
            }
        }
    }
}

#[test]
fn a_second_of_the_minute_is_named_if_it_is_slow_in_most_minutes() {
    let rows = |minutes: u64, is_slow: fn(u64) -> bool| {
        let responses: Vec<TraitResponse> = (0..minutes * 6_000)
            .map(|n| TraitResponse {
                us: if n % 6_000 / 100 == 7 && is_slow(n / 6_000) {
                    9_000
                } else {
                    500 + n % 97
                },
                at: Nanos(n * 10_000_000),
                nth: n + 100,
                status: 200,
                ..TraitResponse::default()
            })
            .collect();
        let intervals: Vec<IntervalRow> = (0..minutes * 60)
            .map(|start_s| IntervalRow {
                start_s,
                p90_us: Some(if start_s % 60 == 7 && is_slow(start_s / 60) {
                    9_000.0
                } else {
                    590.0
                }),
                ..IntervalRow::default()
            })
            .collect();
        let named = TraitRow::all(&record(&[responses], 1), &intervals);
        named
            .iter()
            .map(|row| row.value.clone())
            .collect::<Vec<_>>()
    };
    assert_eq!(rows(4, |_| true), ["07"]);
    assert_eq!(rows(2, |_| true), [""; 0]);
    assert_eq!(rows(6, |minute| minute == 2), [""; 0]);
}

#[test]
fn few_responses_prove_nothing() {
    // Two of the slowest ten have a value that one of a hundred others has: by chance, of many.
    let bound = chance(2, 10, 0.01);
    assert!((0.004..0.05).contains(&bound), "{bound}");
    assert!(chance(10, 10, 0.01) < 1e-19);
    assert!(chance(30, 1_000, 0.03) > 0.99);
    assert!(chance(0, 10, 0.5) > 0.0009);
}
