//! Scenarios from runs: what a run reads, what limited it, and what is said and drawn of all of
//! them.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test all scenarios` writes them again when
//! a change is meant.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use crawlmark_harness::plan::BundledSettings;
use crawlmark_results::run::report::{Audit, BindingReport, BudgetReport, Report, Verdict};
use crawlmark_results::studies::scenarios::{
    Scenario, ScenarioList, ScenarioReadings, ScenarioReport, Scenarios, limit_of,
};
use crawlmark_results::studies::{Header, StudyFinding, StudyResult};

use crate::saved;

/// A run of so many connections over so many shards, in which each good answer took this long, at
/// this rate for four seconds; `cores` are what client and target used of two.
fn run(
    (shards, connections): (u32, u32),
    service_us: f64,
    rate: f64,
    cores: [f64; 2],
) -> (Report, Duration) {
    let mut report = saved();
    report.plan.run.shards = shards;
    report.plan.run.connections = connections;
    report.plan.run.workload.bundled = Some(BundledSettings {
        target_handshake: "100ms".to_owned(),
        ..BundledSettings::default()
    });
    report.environment.cores = 2;
    report.environment.cpu_model = Some("a CPU".to_owned());
    let attempts = count(rate * 4.0);
    report.ledger = serde_json::from_value(cleared(&report.ledger)).unwrap();
    (report.ledger.planned, report.ledger.ok) = (attempts, attempts);
    report.totals.attempts = attempts;
    (
        report.totals.attempts_per_s,
        report.totals.items_per_s,
        report.totals.ok_per_s,
    ) = (rate, rate, rate);
    (report.totals.duration_s, report.totals.throttled) = (4.0, 0);
    report.totals.connections_opened = u64::from(connections);
    report.totals.peak_in_flight = u64::from(connections);
    report.budget = None;
    report.binding = BindingReport {
        concurrency: 1.0,
        ..BindingReport::default()
    };
    report.validity.verdict = Verdict::Valid;
    let service = report.latency.get_mut("service").unwrap();
    service.count = attempts;
    (service.mean_us, service.p50_us) = (Some(service_us), Some(service_us * 0.97));
    report.latency.get_mut("connect").unwrap().mean_us = Some(90.0);
    let mut shard = report.shards[0].clone();
    shard.usage.cpu_share = Some(cores[0] / f64::from(shards));
    (shard.usage.cpu_user_s, shard.usage.cpu_system_s) =
        (Some(cores[0] * 4.0 / f64::from(shards)), Some(0.0));
    shard.usage.run_delay_share = Some(0.0);
    report.shards = vec![shard; shards as usize];
    (report, Duration::from_secs_f64(4.0 * (cores[0] + cores[1])))
}

/// A ledger with every count 0.
fn cleared(ledger: &impl serde::Serialize) -> serde_json::Value {
    let mut fields = serde_json::to_value(ledger).unwrap();
    for count in fields.as_object_mut().unwrap().values_mut() {
        *count = 0.into();
    }
    fields
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a few hundred thousand"
)]
fn count(value: f64) -> u64 {
    value.round() as u64
}

/// The runs of the eight rungs as a machine of two cores gives them.
fn runs() -> Vec<(Report, Duration)> {
    let anew = |mut round: (Report, Duration)| {
        round.0.totals.connections_opened = round.0.totals.attempts;
        round
    };
    let mut runs = vec![
        anew(run((1, 1), 162_500.0, 6.14, [0.001, 0.001])),
        anew(run((20, 20), 162_900.0, 122.0, [0.03, 0.01])),
        anew(run((1, 20), 162_800.0, 122.4, [0.01, 0.01])),
        run((1, 20), 62_900.0, 317.0, [0.02, 0.02]),
        run((1, 80), 63_000.0, 1_268.0, [0.05, 0.04]),
        run((10, 800), 63_600.0, 12_540.0, [0.42, 0.31]),
        run((2, 16_384), 118_000.0, 138_200.0, [0.95, 1.01]),
        run((2, 160), 63_000.0, 1_500.0, [0.08, 0.05]),
    ];
    let courteous = &mut runs[7].0;
    courteous.binding = BindingReport {
        rate: 1.0,
        ..BindingReport::default()
    };
    courteous.budget = Some(BudgetReport {
        audit: Audit {
            rate: "1500/s".to_owned(),
            rate_per_s: 1_500.0,
            burst: 39,
            kept: true,
            unaudited_shards: 0,
            worst_window: None,
            busiest: Vec::new(),
        },
        achieved_per_s: 1_499.6,
        utilisation: 0.9997,
    });
    runs
}

/// These scenarios of a list.
fn ran(list: ScenarioList, numbers: &[u8]) -> Scenarios {
    let of = |(scenario, (mut report, cpu)): (&Scenario, (Report, Duration))| {
        let Scenario { number, .. } = scenario;
        report.started_at = format!("2026-01-01T00:00:{:02}.000Z", number * 5);
        ScenarioReport::new(
            scenario,
            vec!["-c".to_owned(), report.plan.run.connections.to_string()],
            format!("rounds/{number}"),
            &report,
            ScenarioReadings::of(&report, Some(cpu)),
        )
    };
    let all = list.scenarios().iter().zip(runs().into_iter().cycle());
    let all = all.filter(|(scenario, _)| numbers.contains(&scenario.number));
    Scenarios::new(
        Header::new::<Scenarios>("golden", ["2026-01-01T00:00:00.000Z"; 2]),
        list,
        runs()[0].0.environment.clone(),
        all.map(of).collect(),
    )
}

/// Scenarios that have every finding.
pub(crate) fn with_findings() -> Vec<Scenarios> {
    let mut doubted = ran(ScenarioList::Ladder, &ALL);
    doubted.scenarios[0].run.validity = Verdict::Disturbed;
    vec![doubted, patterns()]
}

/// The patterns, of which the fastest is throttled and one was disturbed.
fn patterns() -> Scenarios {
    let mut patterns = ran(ScenarioList::Patterns, &(1..=10).collect::<Vec<_>>());
    patterns.scenarios[6].readings.throttled = 200_000;
    patterns.scenarios[1].run.validity = Verdict::Disturbed;
    patterns
}

/// Limits that scenarios may have.
pub(crate) fn limits() -> Vec<&'static str> {
    type Change = fn(&mut ScenarioReadings);
    let (report, cpu) = run((1, 20), 62_900.0, 317.0, [0.02, 0.02]);
    let changes: [Change; 9] = [
        |_| {},
        |of| of.throttled = of.attempts,
        |of| of.failed = of.ok,
        |of| (of.budget_used, of.binding.rate) = (Some(1.0), 1.0),
        |of| of.cpu.target_cores = Some(2.0),
        |of| of.cpu.run_delay_share = Some(0.5),
        |of| (of.cpu.client_cores, of.cpu.cores) = (Some(1.0), 9),
        |of| of.service_mean_us = None,
        |of| (of.in_batches, of.attempts_per_s) = (true, 100.0),
    ];
    let limits = changes.map(|change| {
        let mut readings = ScenarioReadings::of(&report, Some(cpu));
        change(&mut readings);
        limit_of(&readings).kind()
    });
    limits.into()
}

const ALL: [u8; 8] = [1, 2, 3, 4, 5, 6, 7, 8];

fn golden(name: &str, text: &str) {
    let text = text.replace(env!("CARGO_PKG_VERSION"), "VERSION");
    crate::golden(name, &text);
}

#[test]
fn a_run_reads_as_its_good_items_and_what_it_cost() {
    let (mut report, cpu) = run((2, 80), 60_000.0, 1_000.0, [0.4, 0.6]);
    (report.ledger.ok, report.ledger.failed) = (3_000, 1_000);
    report.totals.ok_per_s = 750.0;
    let read = ScenarioReadings::of(&report, Some(cpu));
    assert!((read.ok_per_s - 750.0).abs() < 1e-9, "{}", read.ok_per_s);
    assert!((read.cpu.client_cores.unwrap() - 0.4).abs() < 1e-9);
    assert!((read.cpu.target_cores.unwrap() - 0.6).abs() < 1e-9);
    assert!((read.cpu.client_us_per_attempt.unwrap() - 400.0).abs() < 1e-6);
    assert!((read.handshake_us - 100_000.0).abs() < 1e-9);
    // What the machine did not tell is not known, and is not nothing.
    report.shards[1].usage.cpu_share = None;
    let blind = ScenarioReadings::of(&report, None).cpu;
    assert_eq!((blind.client_cores, blind.used_cores()), (None, None));
}

#[test]
fn the_limit_and_the_gain_of_each_scenario_follow_from_the_runs() {
    let all = ran(ScenarioList::Ladder, &ALL);
    let by: Vec<&str> = all.scenarios.iter().map(|of| of.limit.kind()).collect();
    assert_eq!(
        by,
        [&["Waiting"; 6][..], &["CpuFull", "OwnBudget"]].concat()
    );
    let handshakes = all.scenarios.iter().map(|of| {
        matches!(
            of.limit,
            StudyFinding::Waiting {
                opening_us: Some(_),
                ..
            }
        )
    });
    assert_eq!(handshakes.filter(|is| *is).count(), 3);
    // The same scenario with other figures has another limit: it is not its number that says it.
    let (mut report, cpu) = run((1, 20), 62_900.0, 317.0, [0.02, 0.02]);
    report.totals.throttled = report.totals.attempts / 2;
    let limit = limit_of(&ScenarioReadings::of(&report, Some(cpu)));
    assert!(matches!(limit, StudyFinding::Refusals { .. }));
    let some = ran(ScenarioList::Ladder, &[1, 4, 7]);
    let times: Vec<Option<f64>> = some.scenarios.iter().map(|of| of.times_before).collect();
    assert_eq!(times[0], None);
    assert!((times[1].unwrap() - 317.0 / 6.14).abs() < 1e-9, "{times:?}");
}

#[test]
fn scenarios_are_told_in_every_form() {
    let ladder = ran(ScenarioList::Ladder, &ALL);
    golden("ladder.txt", &crate::ended(&ladder));
    golden("ladder.md", &ladder.doc().markdown());
    let narrow = ran(ScenarioList::Ladder, &[1, 4]).doc().terminal(50);
    assert!(
        narrow.lines().all(|line| line.chars().count() <= 50),
        "{narrow}"
    );
    let patterns = patterns();
    golden("patterns.txt", &crate::ended(&patterns));
    golden("patterns.md", &patterns.doc().markdown());
    // One picture with every figure of every pattern.
    let [picture] = &patterns.plots()[..] else {
        panic!("one picture");
    };
    for figure in ["throttled ", "peak in flight ", "client CPU "] {
        let count = picture.svg.matches(figure).count();
        assert_eq!(count, patterns.scenarios.len(), "{figure}");
    }
}
