//! How throughput grows, from rounds as they are read from reports to what is said and drawn of
//! them.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test scaling` writes them again when a
//! change is meant.

use std::time::Duration;

use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{BindingReport, Report, Verdict};
use crawlmark_results::studies::scale::{FixedQuantity, Round, ScaleContext, Scaling, Size};
use crawlmark_results::studies::{Conclusion, Header, RoundRun, StudyFinding, StudyResult};

use crate::{golden, saved};

const SIZE: Size = Size {
    shards: 2,
    connections: 8,
};

fn read(report: &Report) -> Round {
    Round::new(
        report,
        1,
        SIZE,
        "rounds/001".to_owned(),
        Some(Duration::from_millis(100)),
    )
}

#[test]
fn a_round_is_read_from_its_report() {
    let mut report = saved();
    report.validity.verdict = Verdict::Valid;
    let round = read(&report);
    let good = report.ledger.ok as f64;
    let ended = (report.ledger.ended() - report.ledger.aborted) as f64;
    assert!(
        (round.items_per_s - report.totals.items_per_s * good / ended).abs() < 1e-9,
        "what failed is no throughput"
    );
    assert_eq!(round.p50_us, report.latency["service"].p50_us);
    let share = 0.1 / (report.environment.cores as f64 * report.totals.duration_s);
    assert!((round.machine_cpu_share.unwrap() - share).abs() < 1e-12);
    assert!(round.counts());
    // The slowest shard of two takes 1/1 per item, the other 1/3: the mean of which is two thirds
    // of the greatest.
    report.shards[0].totals.items_per_s = 3.0;
    report.shards[1].totals.items_per_s = 1.0;
    report.shards.truncate(2);
    assert!((read(&report).balance.unwrap() - 2.0 / 3.0).abs() < 1e-12);
    report.shards[1].totals.items_per_s = 0.0;
    assert_eq!(
        read(&report).balance,
        Some(0.0),
        "a shard that does nothing is waited for without end"
    );
    report.shards[0].totals.items_per_s = 0.0;
    assert_eq!(read(&report).balance, None);
}

#[test]
fn what_the_client_is_the_limit_of_counts_and_what_was_disturbed_does_not() {
    let mut report = saved();
    for (verdict, counts) in [
        (Verdict::Valid, true),
        (Verdict::ClientLimited, true),
        (Verdict::TargetLimited, false),
        (Verdict::Disturbed, false),
        (Verdict::Incomplete, false),
    ] {
        report.validity.verdict = verdict;
        let round = read(&report);
        assert_eq!(round.counts(), counts, "{verdict:?}");
    }
}

/// A sweep of 1 to 16 shards: what it would look like on a machine of `cores`.
fn scaling(cores: usize, machine_cpu_share: f64, x: impl Fn(usize, f64) -> f64) -> Scaling {
    let mut report = saved();
    report.validity.verdict = Verdict::Valid;
    report.environment.cores = cores;
    let mut rounds = Vec::new();
    for replicate in 1..=5 {
        for shards in [1, 2, 4, 8, 16] {
            let size = Size {
                shards,
                connections: shards * 8,
            };
            let round = Round::new(
                &report,
                replicate,
                size,
                format!("rounds/{replicate}-{shards}"),
                None,
            );
            let n = f64::from(shards);
            rounds.push(Round {
                items_per_s: x(replicate, n),
                cpu_us_per_attempt: Some(60.0 + n / 16.0 + replicate as f64 * 0.1),
                balance: Some(1.0 - n * 1e-3),
                p50_us: Some(50_200.0),
                p99_us: Some(51_900.0),
                run_delay_share: Some(0.01),
                machine_cpu_share: Some(machine_cpu_share),
                run: RoundRun {
                    started_at: "2026-01-01T00:00:00.000Z".to_owned(),
                    finished_at: "2026-01-01T00:00:03.000Z".to_owned(),
                    findings: Vec::new(),
                    ..round.run
                },
                ..round
            });
        }
    }
    // One that was disturbed.
    rounds[8].run.findings = vec![Finding::CpuSpeed {
        before_us: 1_000.0,
        after_us: 2_000.0,
        is_disturbed: true,
    }];
    rounds[8].run.validity = Verdict::Disturbed;
    let circumstances = ScaleContext {
        header: Header::new::<Scaling>("scale", ["2026-01-01T00:00:00.000Z"; 2]),
        target: "the bundled target (--target-latency 50ms; 1 process) | <b>".to_owned(),
        round_s: 3.0,
        repeats: 5,
        seed: 1,
        environment: report.environment,
        target_processes: 1,
    };
    Scaling::new(
        rounds,
        &[FixedQuantity::ConnectionsPerShard(8)],
        circumstances,
    )
}

/// Nearly linear, with a little noise that repeats.
fn linear(replicate: usize, n: f64) -> f64 {
    159.0 * n * (1.0 + (replicate as f64 * 7.0 + n * 3.0) % 5.0 * 1e-3 - 2e-3)
}

/// Number of dots of a plot.
fn dots(svg: &str) -> usize {
    svg.matches("<circle").count()
}

#[test]
fn what_waits_for_answers_scales_and_says_so() {
    let scaling = scaling(2, 0.1, linear);
    let StudyFinding::Grew { sizes, cost, .. } = &scaling.findings()[0] else {
        panic!("{:?}", scaling.findings())
    };
    assert_eq!(format!("{sizes:?}"), "[1.0, 16.0]");
    assert!((cost.unwrap().median - 1.02).abs() < 0.01);
    // A ratio whose interval holds 1 is in the table alone.
    let mut unclear = scaling.clone();
    let noisy = unclear
        .rounds
        .iter_mut()
        .filter(|round| round.replicate == 2 && round.size.shards == 16);
    noisy.for_each(|round| round.cpu_us_per_attempt = Some(50.0));
    let unclear = Scaling::new(
        unclear.rounds,
        &[unclear.curves[0].held],
        unclear.circumstances,
    );
    assert!(matches!(
        unclear.findings()[0],
        StudyFinding::Grew { cost: None, .. }
    ));
    let text = unclear.doc().terminal(200);
    assert!(text.contains("(0.83 to 1.02)"), "{text}");
    let point = scaling.curves[0].told().unwrap();
    assert!(point.colocated && point.counts(), "CPU was not scarce");
    golden("scaling.txt", &crate::ended(&scaling));
    golden("scaling.md", &scaling.doc().markdown());
    let svg = scaling.plots()[0].svg.clone();
    // Five sizes, whose other figures are rows of text.
    assert_eq!(dots(&svg), 5);
    for told in [
        "efficiency",
        "CPU / request",
        "balance",
        "linear",
        "16 shards: ",
    ] {
        assert!(svg.contains(told), "{told}");
    }
    assert!(!svg.contains("NaN") && !svg.contains("inf"));
}

#[test]
fn more_than_linear_growth_is_claimed_only_where_chance_is_excluded() {
    let of = |noise: f64| {
        let gain = move |replicate: usize| 1.01 + (replicate as f64 - 3.0) * noise;
        let scaling = scaling(2, 0.1, move |replicate, n| {
            if n > 1.0 {
                159.0 * n * gain(replicate)
            } else {
                159.0
            }
        });
        scaling.notices()[0].sentence()
    };
    assert!(of(0.01).contains(": 100 % efficient"), "{}", of(0.01));
    assert!(of(0.004).contains(": 101.0 % efficient"), "{}", of(0.004));
}

#[test]
fn what_fights_for_cpus_is_hollow_and_no_answer() {
    let scaling = scaling(1, 0.9, |_, n| 10_000.0 * n.sqrt().min(1.3));
    assert!(matches!(
        scaling.findings()[0],
        StudyFinding::CpuScarce { .. }
    ));
    assert_eq!(scaling.conclusion(), Conclusion::Inconclusive);
    let plot = &scaling.plots()[0];
    // A ring is two dots.
    let hollow = scaling.curves[0].points.len() - 1;
    assert_eq!(dots(&plot.svg), 2 * hollow + 1);
    assert!(plot.caption.starts_with(&scaling.findings()[0].headline()));
    let page = |scaling: &Scaling| scaling.doc().html(&scaling.plots());
    assert!(
        page(&scaling).contains("hero t-warn"),
        "a result that is no answer is no good news"
    );
    let mut single = scaling.clone();
    single
        .curves
        .iter_mut()
        .for_each(|curve| curve.points.truncate(1));
    assert!(page(&single).contains("nothing to compare") && page(&single).contains("hero t-warn"));
    assert!(
        !page(&single).contains("<figure"),
        "a plot of the growth from one size"
    );
}

#[test]
fn what_held_most_sizes_back_is_in_the_table_and_what_rounds_found_is_listed() {
    let mut rounds = scaling(2, 0.1, |_, _| 160.0).rounds;
    for round in &mut rounds {
        round.binding = BindingReport {
            pause: 0.9,
            concurrency: 0.1,
            ..BindingReport::default()
        };
        round.run.findings = vec![Finding::NotFound {
            share: 1.0,
            count: 9,
            verdict: None,
        }];
    }
    let held = [FixedQuantity::ConnectionsPerShard(8)];
    let scaling = Scaling::new(rounds, &held, scaling(2, 0.1, linear).circumstances);
    let text = scaling.doc().terminal(1_000);
    assert_eq!(text.matches("throttle pauses (90").count(), 5, "{text}");
    assert!(text.contains("In 25 of 25 rounds: "), "{text}");
    // A part that is small is not none.
    assert!(
        scaling.notices()[0]
            .sentence()
            .contains(": 6.2 % efficient")
    );
}

/// Sweeps that have every finding.
pub(crate) fn with_findings() -> Vec<Scaling> {
    let grew = scaling(2, 0.1, linear);
    let scarce = scaling(1, 0.9, |_, n| 10_000.0 * n.sqrt().min(1.3));
    let mut rounds = grew.rounds.clone();
    for round in &mut rounds {
        round.run.validity = Verdict::Disturbed;
    }
    let nothing = Scaling::new(rounds, &[grew.curves[0].held], grew.circumstances.clone());
    vec![grew, scarce, nothing]
}
