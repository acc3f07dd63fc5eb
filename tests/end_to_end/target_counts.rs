//! What the program reports equals what the target counted, request by request.

use crawlmark_mock_server::{Fault, Faults};
use serde_json::json;

use crate::process::have_the_machine_alone;
use crate::report::counts;
use crate::run::{ONE_ATTEMPT, crawl};
use crate::target::{Target, confirmed};

#[test]
fn a_plain_crawl_asks_for_every_id_once() {
    let target = Target::start("--processes 2");
    let (report, _) = confirmed(&target, "--ids 0..20k --shards 2 -c 64 --expect items:1");
    report.assert_states(&[("ok", 20_000)]);
    let books = target.books();
    assert_eq!(
        (&books["requests"], &books["unique_ids"]),
        (&json!(20_000), &json!(20_000))
    );
    assert_eq!(report.count("/totals/connections_opened"), 64);
    assert_eq!(report.count("/totals/peak_in_flight"), 64);
    // The counts printed at the end are those read before.
    assert_eq!(target.stop(), books);
}

#[test]
fn injected_faults_are_all_found_and_nothing_else() {
    const IDS: u64 = 10_000;
    let target = Target::start("--processes 2 --seed 7 --fault error:0.02:502 --fault drop:0.01");
    let (report, _) = confirmed(
        &target,
        &format!("--ids 0..10k --shards 2 -c 32 --expect items:7 {ONE_ATTEMPT}"),
    );
    let faults: Faults = "error:0.02:502,drop:0.01".parse().unwrap();
    let picked = |fault| {
        (0..IDS)
            .filter(|id| faults.pick(7, *id, 0) == Some(fault))
            .count() as u64
    };
    let (errors, drops) = (picked(Fault::Status(502)), picked(Fault::Drop));
    assert!(errors > 0 && drops > 0);
    assert_eq!(
        counts(&target.books()["faults"]),
        [("drop".to_owned(), drops), ("error".to_owned(), errors)].into()
    );
    assert_eq!(
        report.statuses(),
        [
            ("200".to_owned(), IDS - errors - drops),
            ("502".to_owned(), errors)
        ]
        .into()
    );
    assert_eq!(report.errors(), [("closed".to_owned(), drops)].into());
    report.assert_states(&[("ok", IDS - errors - drops), ("failed", errors + drops)]);
}

#[test]
fn what_the_target_turns_away_is_throttled() {
    // A burst and then nothing for an hour: how many are let through depends on no clock.
    let target = Target::start("--processes 2 --limit 1/h:burst=300");
    let (report, _) = confirmed(
        &target,
        &format!("--ids 0..1k --shards 2 -c 16 {ONE_ATTEMPT}"),
    );
    report.assert_states(&[("ok", 300), ("gave_up", 700)]);
    assert_eq!(report.count("/totals/throttled"), 700);
    assert_eq!(
        report.statuses(),
        [("200".to_owned(), 300), ("429".to_owned(), 700)].into()
    );
    assert_eq!(report.count("/latency/service_throttled/count"), 700);
}

#[test]
fn a_body_of_another_seed_is_wrong_for_every_item() {
    let target = Target::start("--seed 2");
    let (report, _) = confirmed(&target, "--ids 0..500 --shards 2 -c 8 --expect items:3");
    report.assert_states(&[("failed", 500)]);
    assert_eq!(report.errors(), [("wrong_body".to_owned(), 500)].into());
    assert_eq!(report.statuses(), [("200".to_owned(), 500)].into());
    let report = crawl(&format!(
        "{} --ids 500..1k --shards 2 -c 8 --expect items:2",
        target.url()
    ));
    report.assert_states(&[("ok", 500)]);
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
        let (report, _) = confirmed(
            &target,
            "--ids 0..2500 --rate 1k/s --burst 500 --shards 2 -c 256",
        );
        report.assert_states(&[("ok", 2_500)]);
        assert_eq!(*report.at("/budget/kept"), json!(true));
        assert_eq!(report.count("/budget/burst"), BURST);
        let (admitted, allowed) = (
            report.count("/budget/worst_window/admitted"),
            report.count("/budget/worst_window/allowed"),
        );
        assert!(admitted <= allowed, "{admitted} of {allowed}");
        // What was let through in time may arrive late, and fall into one second with what came
        // after it; but of that there is never more than one request on each connection.
        let busiest = target.books()["max_admitted_in_1s"].as_u64().unwrap();
        assert!(busiest <= BURST + RATE + CONNECTIONS, "{busiest}");
        assert_eq!(
            target.books()["busiest"]["1s"],
            json!({ "requests": busiest, "admitted": busiest })
        );
        // What falls due in the very last moment cannot be used: a whole request less than what was
        // offered.
        let offered = BURST as f64 + RATE as f64 * report.number("/totals/duration_s");
        assert!(offered >= 2_500.0, "{offered}");
        let share = (2_500.0 / (offered.ceil() - 1.0)).min(1.0);
        assert!(
            (share - report.number("/budget/utilisation")).abs() < 1e-9,
            "{share} of {offered}"
        );
        let rows = report.at("/intervals").as_array().unwrap();
        let first_two = rows
            .iter()
            .filter(|row| row["start_s"].as_u64().unwrap() < 2);
        in_time.push(
            first_two
                .map(|row| row["attempts"].as_u64().unwrap())
                .sum::<u64>(),
        );
        if in_time
            .iter()
            .any(|attempts| attempts * 100 >= (BURST + 2 * RATE) * 99)
        {
            return;
        }
    }
    panic!(
        "the budget was not used: {in_time:?} of {}",
        BURST + 2 * RATE
    );
}

#[test]
fn more_shards_than_ids_leave_some_with_nothing_to_do() {
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(&target, "--ids 7..10 --shards 5 -c 5");
    report.assert_states(&[("ok", 3)]);
    assert_eq!(
        report
            .shards()
            .iter()
            .filter(|shard| shard["ledger"]["planned"] == json!(0))
            .count(),
        2
    );
}

#[test]
fn a_single_id_is_asked_for_once() {
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(&target, "--ids 42..=42 --shards 2 -c 64 --expect items:1");
    report.assert_states(&[("ok", 1)]);
    assert_eq!(report.count("/totals/connections_opened"), 1);
}

#[test]
fn the_greatest_ids_are_ids() {
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(
        &target,
        "--ids 18446744073709551610..18446744073709551615 --shards 2 -c 4 --expect items:1",
    );
    report.assert_states(&[("ok", 5)]);
    assert_eq!(report.count("/plan/ids/end"), u64::MAX);
    assert_eq!(target.books()["ids_beyond_tracking"], json!(5));
}

#[test]
fn a_count_of_requests_ends_a_range_early() {
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(&target, "--ids 100..1k -n 250 --shards 2 -c 8");
    report.assert_states(&[("ok", 250)]);
    assert_eq!(
        (
            report.count("/plan/ids/start"),
            report.count("/plan/ids/end")
        ),
        (100, 350)
    );
}

#[test]
fn time_ends_a_crawl_between_items() {
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(&target, "--ids 0..100m -d 300ms --shards 2 -c 4");
    assert_eq!(
        report.items("ok") + report.items("not_attempted"),
        100_000_000,
        "nothing is cut off"
    );
    assert!(report.items("ok") > 0);
    assert_eq!(*report.at("/interrupted"), json!(false));
}
