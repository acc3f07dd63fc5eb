//! Open loops from outside: requests come when the timetable says, what they waited is told, and
//! everything that was scheduled is accounted for, with the target's counts as the second witness.

use crate::command::run;
use crate::run::ONE_ATTEMPT;
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
    // Six connections of 50 ms each bear 120/s: the rest finds a queue full, or is due until the end
    // and is dropped then.
    for queue in ["--queue 4", ""] {
        let slow = Target::start("--processes 1 --latency 50ms");
        let line = "--rate 500 -d 2s --arrivals constant -s 2 -c 6";
        let (report, _) = confirmed(&slow, &format!("{line} {queue}"));
        assert_eq!(report.count("/schedule/scheduled"), 1_000);
        let dropped = report.count("/totals/dropped");
        assert!(dropped > 700, "{queue}: {dropped}");
        assert_eq!(report.count("/schedule/dropped_by/concurrency"), dropped);
        let at_least = report.at("/latency/response/at_least/0");
        assert_eq!(at_least, "p50_us", "{queue}");
    }
}

#[test]
fn a_spike_and_its_end_are_sent_and_judged_by_stage() {
    let target = Target::start("--processes 1");
    let flags = "--arrivals constant -s 2 -c 100";
    let rate = "100/s@1s, 100/s..500/s@500ms, 500/s@500ms, 100/s@1s";
    let (report, _) = confirmed(&target, &format!("{flags} --rate '{rate}'"));
    let rows = report.at("/by_stage").as_array().unwrap().clone();
    let counts =
        |key: &str| -> Vec<u64> { rows.iter().map(|row| row[key].as_u64().unwrap()).collect() };
    let due: Vec<u64> = std::iter::zip(counts("attempts"), counts("dropped"))
        .map(|(sent, dropped)| sent + dropped)
        .collect();
    assert_eq!(due, [100, 150, 250, 100]);
    assert_eq!(report.count("/schedule/scheduled"), 600);
    assert_eq!(rows[1]["name"], "stage=2");
    let url = target.url();
    for (more, code) in [
        ("--threshold 'attempts{stage=2} <= 150'", 0),
        ("--threshold 'attempts{stage=5} <= 150'", 2),
        ("-d 2s", 2),
        ("-d 4s", 2),
    ] {
        run(&format!(
            "run {url} {flags} --rate '{rate}' {more} --out {code}"
        ))
        .code(&[code]);
    }
    let judged = "--objective 'service < 1h' --objective 'ttfb < 1h' --threshold 'goodput_share{stage=2} > 99%' --threshold 'goodput > 1'";
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(&target, &format!("{flags} --rate '{rate}' {judged}"));
    assert_eq!(
        (report.count("/totals/met"), report.at("/goodput/share")),
        (600, &1.0.into())
    );
    let target = Target::start("--processes 1");
    let (report, _) = confirmed(
        &target,
        "-n 100 --objective 'service < 1ns' --arrivals asap",
    );
    assert_eq!(report.at("/goodput/share"), &0.0);
    for flaw in [
        "--objective 'response < 1s'",
        "--objective 'service < 200'",
        "--deadline 1s",
        "--deadline 1us --rate 9",
        "--threshold 'goodput > 1'",
    ] {
        run(&format!("run {url} -n 10 --arrivals asap {flaw}")).code(&[2]);
    }
}

#[test]
fn a_deadline_drops_what_waits_too_long() {
    // One connection of 100 ms bears 10/s of 100/s: all others wait for more than 50 ms.
    let slow = Target::start("--processes 1 --latency 100ms");
    let line = "--rate 100 -d 2s --arrivals constant -s 1 -c 1 --deadline 50ms";
    let (report, _) = confirmed(&slow, line);
    let (sent, dropped) = (
        report.count("/totals/attempts"),
        report.count("/totals/dropped"),
    );
    assert_eq!(report.count("/schedule/scheduled"), 200);
    assert!(sent + dropped == 200 && sent <= 21, "{sent} and {dropped}");
    assert_eq!(report.count("/plan/deadline_us"), 50_000);
    assert_eq!(report.count("/schedule/dropped_by/concurrency"), dropped);
}
