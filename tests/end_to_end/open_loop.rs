//! Open loops from outside: requests come when the timetable says, what they waited is told, and
//! everything that was scheduled is accounted for, with the target's counts as the second witness.

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
        // Some were due before the end of the warm-up, and ended after it.
        let timed = report.count("/latency/service/count");
        assert!((1..=all - warm).contains(&timed), "{timed} of {all}");
        let measured_s = report.number("/totals/duration_s") - report.number("/warmup/duration_s");
        let per_s = (all - warm) as f64 / measured_s;
        assert!(
            (report.number("/totals/items_per_s") / per_s - 1.0).abs() < 0.02,
            "{per_s}: {}",
            report.at("/totals")
        );
    }
}
