//! Tests of the results of known rounds.

use proptest::prelude::*;

use super::*;
use crate::run::report::{BindingReport, Verdict};
use crate::studies::RoundRun;
use crate::studies::compare::Interval;

/// A machine large enough for whatever is tried here.
const ROOM: Room = Room {
    cores: 1_000,
    target_processes: 1,
};

/// A round of so many shards with 8 connections each that did so much.
fn round(replicate: usize, shards: u32, items_per_s: f64) -> Round {
    Round {
        replicate,
        size: Size {
            shards,
            connections: shards * 8,
        },
        run: RoundRun {
            result: Some(format!("rounds/{replicate}-{shards}")),
            started_at: "2026-01-01T00:00:00.000Z".to_owned(),
            finished_at: "2026-01-01T00:00:03.000Z".to_owned(),
            validity: Verdict::Valid,
            findings: Vec::new(),
        },
        in_flight: shards * 8,
        items_per_s,
        binding: BindingReport::default(),
        cpu_us_per_attempt: Some(50.0),
        balance: Some(1.0),
        p50_us: Some(50_000.0),
        p99_us: Some(51_000.0),
        run_delay_share: Some(0.01),
        machine_cpu_share: Some(0.1),
        target: None,
    }
}

/// Replicates of these sizes that do what `x` says of repeat and size.
fn rounds(repeats: usize, sizes: &[u32], x: impl Fn(usize, f64) -> f64) -> Vec<Round> {
    let replicate = |number| sizes.iter().map(move |n| (number, *n));
    (1..=repeats)
        .flat_map(replicate)
        .map(|(number, n)| round(number, n, x(number, f64::from(n))))
        .collect()
}

fn curve(rounds: &[Round]) -> Curve {
    Curve::new(FixedQuantity::ConnectionsPerShard(8), rounds, ROOM)
}

/// Seeded noise of a few percent, another one for each round.
fn noise(seed: u64, part: f64) -> impl Fn(usize, f64) -> f64 {
    move |replicate, n| {
        let mut draw = fastrand::Rng::with_seed(seed ^ (replicate as u64) << 32 ^ n.to_bits());
        // Nearly normal, of standard deviation 1.
        let normal = (0..12).map(|_| draw.f64()).sum::<f64>() - 6.0;
        1.0 + part * normal
    }
}

const SIZES: [u32; 5] = [1, 2, 4, 8, 16];

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-6 * b.abs().max(1e-3)
}

#[test]
fn ratios_are_those_of_a_replicate() {
    // The second repeat ran on a machine twice as fast: no ratio may see that.
    let rounds = rounds(2, &[1, 2], |replicate, n| {
        100.0 * n * if replicate == 2 { 2.0 } else { 1.0 }
    });
    let curve = curve(&rounds);
    let [one, two] = &*curve.points else {
        panic!("{curve:?}")
    };
    assert_eq!(
        one.speedup.unwrap().interval,
        Some(Interval {
            low: 1.0,
            high: 1.0
        })
    );
    assert_eq!(
        two.speedup.unwrap().interval,
        Some(Interval {
            low: 2.0,
            high: 2.0
        })
    );
    assert_eq!(
        two.items_per_s.unwrap().interval,
        Some(Interval {
            low: 200.0,
            high: 400.0
        })
    );
    assert_eq!((two.factor, two.efficiency.unwrap().median), (2.0, 1.0));
}

#[test]
fn what_does_not_count_is_left_out_with_its_partner() {
    let mut rounds = rounds(3, &[1, 2], |_, n| 100.0 * n);
    rounds[0].run.validity = Verdict::Disturbed;
    rounds[3].items_per_s = 1.0;
    rounds[3].run.validity = Verdict::Disturbed;
    let curve = curve(&rounds);
    let [one, two] = &*curve.points else {
        panic!("{curve:?}")
    };
    assert_eq!((one.rounds, one.left_out, two.left_out), (3, 1, 1));
    assert_eq!(one.items_per_s.unwrap().count, 2);
    assert_eq!(
        (two.items_per_s.unwrap().count, two.speedup.unwrap().count),
        (2, 1),
        "of the third replicate alone"
    );
    assert!(close(two.speedup.unwrap().median, 2.0));
    let mut none = rounds;
    for round in &mut none {
        round.run.validity = Verdict::Disturbed;
    }
    let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), &none, ROOM);
    assert!(curve.told().is_none() && curve.points.iter().all(|point| !point.counts()));
}

#[test]
fn shards_and_target_on_too_few_cpus_count_only_where_cpu_was_not_scarce() {
    let room = Room {
        cores: 4,
        target_processes: 2,
    };
    let of = |rounds: &[Round]| {
        let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), rounds, room);
        curve
            .points
            .iter()
            .map(|point| (point.colocated, point.counts()))
            .collect::<Vec<_>>()
    };
    let mut rounds = rounds(5, &[1, 2, 4], |_, n| 100.0 * n);
    assert_eq!(of(&rounds), [(false, true), (false, true), (true, true)]);
    // Beside 1.4 % of the CPU, a wait for one is due to other programs.
    for (used, waited, counts) in [
        (Some(0.8), Some(0.0), false),
        (Some(0.3), Some(0.06), false),
        (Some(0.3), None, false),
        (Some(0.3), Some(0.0), true),
        (Some(0.014), Some(0.36), true),
        (None, Some(0.0), false),
    ] {
        for round in &mut rounds {
            (round.machine_cpu_share, round.run_delay_share) = (used, waited);
        }
        assert_eq!(
            of(&rounds),
            [(false, true), (false, true), (true, counts)],
            "{used:?}, {waited:?}"
        );
    }
    let elsewhere = Room {
        cores: 2,
        target_processes: 0,
    };
    let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), &rounds, elsewhere);
    assert!(
        curve
            .points
            .iter()
            .all(|point| !point.colocated && point.counts()),
        "the target has other CPUs"
    );
}

#[test]
fn the_answer_is_the_largest_size_that_counts() {
    let room = Room {
        cores: 4,
        target_processes: 1,
    };
    let mut rounds = rounds(5, &[1, 2, 4, 8], |_, n| 100.0 * n);
    for round in &mut rounds {
        round.machine_cpu_share = Some(0.9);
    }
    let told = |room| {
        let curve = Curve::new(FixedQuantity::ConnectionsPerShard(8), &rounds, room);
        let point = curve.told().unwrap();
        (point.size.shards, curve.is_answer(point))
    };
    assert_eq!(told(room), (2, true));
    // Where not even one shard had room beside the target, no size is an answer.
    assert_eq!(
        told(Room {
            target_processes: 4,
            ..room
        }),
        (8, false)
    );
}

#[test]
fn the_same_load_on_more_shards_and_more_load_on_the_same_are_curves_of_their_own() {
    let mut rounds = rounds(3, &[1, 2], |_, n| 100.0 * n);
    for round in &mut rounds {
        round.size.connections = 16;
    }
    let mut more = rounds.clone();
    for round in &mut more {
        (round.size.connections, round.items_per_s) = (32, round.items_per_s * 1.5);
    }
    rounds.extend(more);
    let curve = |held| Curve::new(held, &rounds, ROOM);
    assert!(close(
        curve(FixedQuantity::Connections(16)).points[1]
            .speedup
            .unwrap()
            .median,
        2.0
    ));
    let of_connections = curve(FixedQuantity::Shards(2));
    assert_eq!(of_connections.points.len(), 2);
    let more = &of_connections.points[1];
    assert_eq!(
        (
            more.factor,
            more.speedup.unwrap().median,
            more.efficiency.unwrap().median
        ),
        (2.0, 1.5, 0.75)
    );
    assert_eq!(
        more.serial_fraction, None,
        "of a base that is not 1 there is none"
    );
}

proptest! {
    #[test]
    fn amdahls_law_gives_its_serial_fraction(serial in 0.0..0.9_f64, lambda in 1.0..1e6_f64) {
        let curve = curve(&rounds(3, &SIZES, |_, n| lambda / (serial + (1.0 - serial) / n)));
        for point in &curve.points[1..] {
            prop_assert!((point.serial_fraction.unwrap().median - serial).abs() < 1e-9, "{point:?}");
        }
    }

    #[test]
    fn the_order_of_rounds_and_of_replicates_changes_nothing(seed: u64, repeats in 1..8_usize) {
        let noise = noise(seed, 0.05);
        let rounds = rounds(repeats, &SIZES, |r, n| 100.0 * n.sqrt() * noise(r, n));
        let mut draw = fastrand::Rng::with_seed(seed);
        let mut shuffled = rounds.clone();
        let mut numbers: Vec<usize> = (1..=repeats).collect();
        draw.shuffle(&mut numbers);
        for round in &mut shuffled {
            round.replicate = numbers[round.replicate - 1];
        }
        draw.shuffle(&mut shuffled);
        prop_assert_eq!(curve(&rounds), curve(&shuffled));
    }
}
