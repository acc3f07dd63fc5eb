//! Budgets that are used and never exceeded, on the bundled target and by the target's own counts.
//!
//! How far a budget is used depends on how much of the machine there is; such a figure is judged in
//! the best of a few runs. What must never happen is judged in all of them.

use serde_json::{Value, json};

use crate::command::Started;
use crate::process::have_the_machine_alone;
use crate::report::Report;
use crate::run::crawl;
use crate::target::{Target, assert_agree};

/// How often a figure that other work on the machine may spoil is asked for.
const TRIES: u32 = 4;

/// The busiest windows: what our report says was admitted and allowed, and what the target says
/// arrived.
fn busiest(report: &Report, ledger: &Value) -> Vec<(u64, u64, u64)> {
    let windows = report.at("/budget/busiest").as_array().unwrap();
    let names = ["10ms", "100ms", "1s"];
    let arrived = |name: &str| ledger["busiest"][name]["requests"].as_u64().unwrap();
    let count = |window: &Value, key: &str| window[key].as_u64().unwrap();
    windows
        .iter()
        .zip(names)
        .map(|(window, name)| {
            (
                count(window, "admitted"),
                count(window, "allowed"),
                arrived(name),
            )
        })
        .collect()
}

/// The client's greatest lateness in a run, us.
fn greatest_lateness_us(report: &Report) -> f64 {
    let rows = report.at("/intervals").as_array().unwrap();
    rows.iter()
        .filter_map(|row| row["max_sched_lag_us"].as_f64())
        .fold(0.0, f64::max)
}

/// Shards that have not run for so long, us, may all be due when they wake up, before one has heard
/// of another: what keeps requests of a low rate apart needs somebody who is awake.
const STOOD_STILL_US: f64 = 100_000.0;

/// Runs all of these, each on a target of its own, at one and the same time, and has each target
/// confirm its report. Returns the reports with the ledgers of their targets, in order.
fn confirmed_at_once(runs: &[&str]) -> Vec<(Report, Value)> {
    let start = |flags: &&str| {
        let target = Target::start("--processes 1");
        let url = target.url();
        (crate::run::start(&format!("{url} {flags}")), target)
    };
    let started: Vec<(Started, Target)> = runs.iter().map(start).collect();
    let end = |(run, target): (Started, Target)| {
        let (report, ledger) = (run.end().report(0), target.ledger());
        assert_agree(&report, &ledger);
        (report, ledger)
    };
    started.into_iter().map(end).collect()
}

/// Budget used, and the busiest windows: admitted, allowed and arrived.
type Shortfall = (f64, Vec<(u64, u64, u64)>);

/// Fails unless the budget was kept by both counts. None where all of it was used, and what was
/// admitted arrived within it.
fn shortfall(flags: &str, report: &Report, ledger: &Value) -> Option<Shortfall> {
    assert_eq!(
        *report.at("/budget/kept"),
        json!(true),
        "{flags}: {}",
        report.at("/budget")
    );
    let windows = busiest(report, ledger);
    assert!(
        windows
            .iter()
            .all(|(admitted, allowed, _)| admitted <= allowed),
        "{flags}: {windows:?}"
    );
    let used = report.number("/budget/utilisation");
    assert!(used <= 1.0, "{flags}: {used}");
    // What was admitted in time may be late on its way, and then come together with what came after
    // it.
    let arrived_in_time = windows
        .iter()
        .all(|(_, allowed, arrived)| arrived <= allowed);
    (used < 0.995 || !arrived_in_time).then_some((used, windows))
}

/// Crawls at each of these rates at once, and holds the budgets against both counts. How far one
/// was used is judged in runs in which the client was never later than `forgiven_us`: what other
/// work takes from it, it cannot use.
fn keep_and_use(rates: &[&str], forgiven_us: f64) {
    let mut wanting: Vec<(&str, Vec<Shortfall>)> =
        rates.iter().map(|flags| (*flags, Vec::new())).collect();
    for _ in 0..TRIES {
        let runs: Vec<&str> = wanting.iter().map(|(flags, _)| *flags).collect();
        let ended = confirmed_at_once(&runs);
        let judged = wanting.into_iter().zip(ended).filter_map(
            |((flags, mut figures), (report, ledger))| {
                let lateness_us = greatest_lateness_us(&report);
                if lateness_us <= STOOD_STILL_US {
                    let figure = shortfall(flags, &report, &ledger)?;
                    if lateness_us <= forgiven_us {
                        figures.push(figure);
                    }
                }
                Some((flags, figures))
            },
        );
        wanting = judged.collect();
    }
    for (flags, figures) in wanting {
        if figures.is_empty() {
            println!("not judged: the client was disturbed in each of {TRIES} runs with {flags}");
        }
        assert_eq!(
            figures,
            [],
            "{flags}: no run used 99.5 % of its budget and arrived within it"
        );
    }
}

#[test]
fn a_budget_is_used_and_never_exceeded_at_any_rate() {
    have_the_machine_alone();
    keep_and_use(&["--rate 2000/s --shards 2 -d 3"], 20_000.0);
    keep_and_use(&["--rate 300:900:300@1s --shards 2 -d 3"], 20_000.0);
    // Each shard opens its connection with its first request, which is late by that: eight of sixty
    // at the lowest rate, where no shard has a request in every second.
    let slow = [
        "--rate 500/min --shards 2 -d 6",
        "--rate 500/min --shards 8 -d 6",
        "--rate 6/s --shards 8 -d 10",
    ];
    keep_and_use(&slow, 300.0);
}

#[test]
fn a_rate_that_is_sent_in_windows_is_the_rate_that_was_asked_for() {
    // Each window has a second for its few requests, so that a busy machine sends them, too.
    for flags in ["20 per 1s' -s 1 -d 2s", "10 per 2s' -s 2 -d 3s"] {
        let report = crawl(&format!("--rate '{flags}"));
        let sent = if flags.starts_with("20") { 40 } else { 20 };
        assert_eq!(report.count("/ledger/ok"), sent, "{flags}");
        assert_eq!(*report.at("/rate_ratio"), json!(1.0), "{flags}");
    }
}
