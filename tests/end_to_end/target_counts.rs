//! What the program reports equals what the target counted, request by request.

use crawlmark_mock_server::{Fault, Faults};
use serde_json::json;

use crate::process::have_the_machine_alone;
use crate::report::{counts, holds};
use crate::run::{ONE_ATTEMPT, crawl};
use crate::target::{Target, confirmed};

#[test]
fn a_plain_crawl_asks_for_every_id_once() {
    let target = Target::start("--processes 2");
    let (report, _) = confirmed(&target, "--ids 0..20k --shards 2 -c 64 --expect items:1");
    report.assert_states(&[("ok", 20_000)]);
    report.holds(&json!({"/totals/connections_opened": 64, "/totals/peak_in_flight": 64}));
    let books = target.books();
    holds(&books, &json!({"/requests": 20_000, "/unique_ids": 20_000}));
    // The counts printed at the end are those read before.
    assert_eq!(target.stop(), books);
    for (flags, ok) in [
        // More shards than IDs leave some with nothing to do.
        ("--ids 7..10 --shards 5 -c 5", 3),
        ("--ids 42..=42 --shards 2 -c 64", 1),
        (
            "--ids 18446744073709551610..18446744073709551615 --shards 2 -c 4",
            5,
        ),
        ("--ids 100..1k -n 250 --shards 2 -c 8", 250),
        (
            "--ids 5..2_005 --rate 4000 --arrivals poisson -s 7 -c 70",
            2_000,
        ),
    ] {
        let (report, _) = confirmed(&Target::start("--processes 1"), flags);
        report.assert_states(&[("ok", ok)]);
    }
    // Time ends a crawl between items: nothing is cut off.
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(&target, "--ids 0..100m -d 300ms --shards 2 -c 4");
    let ok = report.items("ok");
    assert!(ok > 0);
    report.assert_states(&[("ok", ok), ("not_attempted", 100_000_000 - ok)]);
}

#[test]
fn injected_faults_and_refusals_are_all_found_and_nothing_else() {
    const IDS: u64 = 10_000;
    let target = Target::start("--processes 2 --seed 7 --fault error:0.02:502 --fault drop:0.01");
    let line = format!("-n {IDS} --shards 2 -c 32 --expect items:7 {ONE_ATTEMPT}");
    let (report, books) = confirmed(&target, &line);
    let faults: Faults = "error:0.02:502,drop:0.01".parse().unwrap();
    let picked = |fault| {
        (0..IDS)
            .filter(|id| faults.pick(7, *id, 0) == Some(fault))
            .count() as u64
    };
    let (errors, drops) = (picked(Fault::Status(502)), picked(Fault::Drop));
    assert!(errors > 0 && drops > 0);
    let faults = [("drop".to_owned(), drops), ("error".to_owned(), errors)];
    assert_eq!(counts(&books["faults"]), faults.into());
    let good = IDS - errors - drops;
    report.assert_states(&[("ok", good), ("failed", errors + drops)]);
    report.holds(&json!({
        "/totals/attempts_by_status": {"200": good, "502": errors},
        "/totals/errors_by_kind": {"closed": drops},
    }));
    // A burst and then nothing for an hour: how many are let through depends on no clock.
    let target = Target::start("--processes 2 --limit 1/h:burst=300");
    let (report, _) = confirmed(&target, &format!("-n 1k --shards 2 -c 16 {ONE_ATTEMPT}"));
    report.assert_states(&[("ok", 300), ("gave_up", 700)]);
    report.holds(&json!({
        "/totals/throttled": 700, "/latency/service_throttled/count": 700,
        "/totals/attempts_by_status": {"200": 300, "429": 700},
    }));
    // A body of another seed is wrong for every item.
    let target = Target::start("--seed 2");
    let report = crawl(&format!(
        "{} -n 500 --shards 2 -c 8 --expect items:3",
        target.url()
    ));
    report.assert_states(&[("failed", 500)]);
    report.holds(&json!({"/totals/errors_by_kind": {"wrong_body": 500}}));
}

#[test]
fn a_budget_is_kept_and_used() {
    const RATE: u64 = 1_000;
    const BURST: u64 = 500;
    const CONNECTIONS: u64 = 256;
    have_the_machine_alone();
    let mut in_time = Vec::new();
    // The budget is never exceeded. It is used to the last percent as well: an attempt belongs to
    // the second in which it was to go, so a machine that stalls does not move it, as long as a
    // connection is free. A stall that blocks them all may come at a bad moment, so this is tried
    // more than once.
    for _ in 0..5 {
        let target = Target::start("--processes 1");
        let line = "--ids 0..2500 --rate 1k/s --burst 500 --shards 2 -c 256";
        let (report, books) = confirmed(&target, line);
        report.assert_states(&[("ok", 2_500)]);
        report.holds(&json!({"/budget/kept": true, "/budget/burst": BURST}));
        let window = |key: &str| report.count(&format!("/budget/worst_window/{key}"));
        assert!(
            window("admitted") <= window("allowed"),
            "{}",
            report.at("/budget")
        );
        // What was let through in time may arrive late, and fall into one second with what came
        // after it; but of that there is never more than one request on each connection.
        let busiest = books["max_admitted_in_1s"].as_u64().unwrap();
        assert!(busiest <= BURST + RATE + CONNECTIONS, "{busiest}");
        // What falls due in the very last moment cannot be used: a whole request less than what was
        // offered.
        let offered = BURST as f64 + RATE as f64 * report.number("/totals/duration_s");
        let share = (2_500.0 / (offered.ceil() - 1.0)).min(1.0);
        let used = report.number("/budget/utilisation");
        assert!((share - used).abs() < 1e-9, "{share} of {offered}");
        let rows = report.at("/intervals").as_array().unwrap().iter();
        let first_two = rows.filter(|row| row["start_s"].as_u64() < Some(2));
        let attempts: u64 = first_two.map(|row| row["attempts"].as_u64().unwrap()).sum();
        in_time.push(attempts);
        if attempts * 100 >= (BURST + 2 * RATE) * 99 {
            return;
        }
    }
    panic!(
        "the budget was not used: {in_time:?} of {}",
        BURST + 2 * RATE
    );
}
