//! Open loops from outside: requests come when the timetable says, what they waited is told, and
//! everything that was scheduled is accounted for, with the target's counts as the second witness.

use std::fs;

use crate::bad_input::assert_refused;
use crate::process::have_the_machine_alone;
use crate::run::{ONE_ATTEMPT, Run};
use crate::target::{Target, confirmed};

#[test]
fn c1_all_that_was_scheduled_is_sent_or_dropped_and_the_target_counts_what_was_sent() {
    // Some are refused, some fail, some never get an answer; reading the report checks that it adds
    // up.
    let target = Target::start(
        "--processes 2 --limit 1/h:burst=900 --fault error:0.1:503 --fault silence:0.02",
    );
    let flags =
        format!("--rate 500 -d 3s --arrivals constant -s 3 -c 90 --timeout 500ms {ONE_ATTEMPT}");
    let (report, _) = confirmed(&target, &flags);
    assert_eq!(
        (
            report.count("/schedule/scheduled"),
            report.count("/totals/dropped")
        ),
        (1_500, 0)
    );
    assert!(
        report.count("/totals/throttled") > 0 && report.errors().contains_key("timeout"),
        "{:?}",
        report.errors()
    );
    // Six connections of 50 ms each bear 120/s: the rest is due until the end, and is dropped then.
    let slow = Target::start("--processes 1 --latency 50ms");
    let (report, _) = confirmed(&slow, "--rate 500 -d 2s --arrivals constant -s 2 -c 6");
    assert_eq!(report.count("/schedule/scheduled"), 1_000);
    assert!(
        report.count("/totals/dropped") > 700,
        "{}",
        report.at("/schedule")
    );
    assert!(
        report.text("/latency/response/at_least/0") == "p50_us",
        "{}",
        report.at("/latency/response/at_least")
    );
}

#[test]
fn a_bounded_queue_drops_what_it_has_no_room_for_and_each_item_is_done() {
    // Two connections of 50 ms each sustain 40 of 400 requests a second.
    let slow = Target::start("--processes 1 --latency 50ms");
    let (report, _) = confirmed(
        &slow,
        "--rate 400 --ids 0..60 --arrivals constant -s 2 -c 2 --queue 4",
    );
    report.assert_states(&[("ok", 60)]);
    let dropped = report.count("/totals/dropped");
    assert!(dropped > 300, "{dropped}");
    assert_eq!(report.count("/schedule/scheduled"), 60 + dropped);
    assert_eq!(report.count("/schedule/dropped_by/concurrency"), dropped);
    assert_eq!(report.count("/latency/response/censored"), dropped);
    assert_eq!(report.finding("never_sent")["limit"], "connections");
}

#[test]
fn c2_the_shards_ids_are_disjoint_and_together_the_range() {
    // Reading the report checks what the shards held; the target saw each ID once and no other.
    for shards in [1, 3, 7] {
        let target = Target::start("--processes 2");
        let (report, _) = confirmed(
            &target,
            &format!("--ids 5..2_005 --rate 4000 --arrivals poisson -s {shards} -c 70"),
        );
        let books = target.books();
        assert_eq!(
            (
                books["unique_ids"].as_u64(),
                books["duplicate_ids"].as_u64()
            ),
            (Some(2_000), Some(0))
        );
        assert_eq!(report.items("ok"), 2_000);
    }
}

#[test]
fn a_timetable_is_the_same_for_any_number_of_shards() {
    for arrivals in ["constant", "poisson"] {
        let scheduled = [1, 2, 5].map(|shards| {
            let target = Target::start("--processes 1");
            let flags =
                format!("--rate 300 -d 1s --arrivals {arrivals} -s {shards} -c 50 --seed 7");
            confirmed(&target, &flags).0.count("/schedule/scheduled")
        });
        assert_eq!(scheduled, [scheduled[0]; 3], "{arrivals}");
    }
}

#[test]
fn a_stall_shows_in_the_response_times_and_is_explained() {
    have_the_machine_alone();
    // One connection: each stall is the service time of one request, and the wait of 200. Whenever
    // the run starts, it sees a third of its time stalled, and at least one stall as a whole.
    let target = Target::start("--processes 1 --stall 1500ms,500ms");
    let line = format!(
        "{} --rate 400 -d 3s --arrivals constant -s 1 -c 1",
        target.url()
    );
    let ended = Run::start(line.split(' ')).end();
    let report = ended.report(0);
    assert_eq!(report.count("/schedule/scheduled"), 1_200);
    let (response, service) = (
        report.number("/latency/response/p90_us"),
        report.number("/latency/service/p90_us"),
    );
    assert!(response >= 200_000.0, "{response}");
    assert!(service < response / 2.0, "{service} of {response}");
    let summary = fs::read_to_string(ended.result().join("summary.md")).unwrap();
    assert!(
        summary.contains("corrected for coordinated omission"),
        "{summary}"
    );
    let findings = report.at("/findings").as_array().unwrap();
    let is_for_connections = |finding: &serde_json::Value| finding["limit"] == "connections";
    assert!(findings.iter().any(is_for_connections), "{summary}");
}

#[test]
fn a_warm_up_is_counted_and_not_timed() {
    for arrivals in ["asap", "constant"] {
        let target = Target::start("--processes 1");
        let (report, _) = confirmed(
            &target,
            &format!("--rate 200 -d 2s --warmup 1s --arrivals {arrivals} -s 2 -c 20"),
        );
        let (all, warm) = (
            report.count("/totals/attempts"),
            report.count("/warmup/attempts"),
        );
        // A busy machine takes from the rate, and nothing adds to it.
        assert!((150..=205).contains(&warm), "{arrivals}: {warm} of {all}");
        assert_eq!(report.count("/latency/service/count"), all - warm);
        let measured_s = report.number("/totals/duration_s") - report.number("/warmup/duration_s");
        let per_s = (all - warm) as f64 / measured_s;
        assert!(
            (report.number("/totals/items_per_s") / per_s - 1.0).abs() < 0.02,
            "{per_s}: {}",
            report.at("/totals")
        );
    }
}

#[test]
fn a_pause_that_the_target_asks_for_puts_the_timetable_off() {
    // Forty at once and ten per second: a client that is told to wait does, and comes back to its
    // timetable.
    let target = Target::start("--processes 1 --limit 10/s:burst=40");
    let (report, _) = confirmed(
        &target,
        "--rate 60 -d 3s --arrivals constant -s 2 -c 20 --max-pause 10s",
    );
    assert!(
        (0.0..=3.0).contains(&report.number("/schedule/shifted_s")),
        "{}",
        report.at("/schedule")
    );
    let postponed = report.count("/schedule/postponed");
    assert_eq!(
        (
            report.count("/totals/dropped"),
            report.count("/schedule/scheduled")
        ),
        (0, 180)
    );
    assert_eq!(
        postponed,
        180 - report.count("/totals/attempts"),
        "{}",
        report.at("/schedule")
    );
    assert!(
        postponed > 0 && report.text("/validity/verdict") != "valid",
        "{}",
        report.at("/validity")
    );
}

#[test]
fn arrivals_that_make_no_sense_are_refused() {
    assert_refused(&[
        (
            &["URL", "--arrivals", "constant"],
            "--arrivals constant needs a --rate",
        ),
        (
            &["URL", "--arrivals", "sometimes", "--rate", "1"],
            "asap, waves, constant, poisson, replay",
        ),
        (
            &[
                "URL",
                "--arrivals",
                "poisson",
                "--rate",
                "9",
                "--burst",
                "3",
            ],
            "--burst is for budgets",
        ),
        (
            &["URL", "-d", "1s", "-w", "1s"],
            "--warmup 1s leaves nothing of --duration 1s",
        ),
        (
            &["URL", "--grace", "2h"],
            "--grace 2h is out of range: at most 1h",
        ),
    ]);
}
