//! What a crawl does when its target asks for patience or fails for a moment, with the target's
//! counts as the second witness: retries within their budget, and waits that are kept.
//!
//! Where a wait must not be over by itself, the target's period is so long that nothing comes back
//! during a test.

use std::sync::Mutex;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_mock_server::{Fault, Faults};
use serde_json::json;

use crate::command::{self, call_line};
use crate::report::holds;
use crate::run::{crawl, ended};
use crate::scripted::{OK, Peer, with_server};
use crate::target::{Target, confirmed};

/// What becomes of items whose attempts meet these faults, when each may be tried five times.
#[derive(Debug, Default, PartialEq)]
struct Fates {
    ok: u64,
    failed: u64,
    retries: u64,
    errors: u64,
    resets: u64,
}

fn fates(faults: &Faults, seed: u64, ids: u64) -> Fates {
    let mut fates = Fates::default();
    for id in 0..ids {
        let is_good = (0..5).any(|attempt| {
            fates.retries += u64::from(attempt > 0);
            match faults.pick(seed, id, attempt) {
                None => return true,
                Some(Fault::Reset) => fates.resets += 1,
                Some(_) => fates.errors += 1,
            }
            false
        });
        *(if is_good {
            &mut fates.ok
        } else {
            &mut fates.failed
        }) += 1;
    }
    fates
}

#[test]
fn a_target_that_throttles_for_ever_ends_a_crawl_that_is_saved() {
    let target = Target::start("--processes 1 --limit fixed:1/h");
    let line = "-n 20 -s 1 -c 2 --save items --max-pause 100ms --json";
    let done = command::run(&format!("run {} {line}", target.url())).code(&[4]);
    holds(
        &done.printed(),
        &json!({"/interrupted": true, "/stopped_by": null}),
    );
    let found = done.printed()["findings"].to_string();
    assert!(found.contains(r#""kind":"only_throttled""#), "{found}");
    let audit = call_line(&done.work(), "verify items --complete");
    assert_eq!(audit.code, Some(4), "items are left");
    let resumed = call_line(&done.work(), "run --resume items -d 100ms");
    assert_eq!(
        resumed.code,
        Some(1),
        "nothing was good: {}",
        resumed.stderr
    );
}

#[test]
fn what_may_pass_is_tried_again_and_counted_each_time() {
    const IDS: u64 = 4_000;
    const FAULTS: &str = "error:0.08:503,reset:0.04";
    let expected = fates(&FAULTS.parse().unwrap(), 7, IDS);
    assert!(expected.errors > 0 && expected.resets > 0);
    let target = Target::start(&format!("--processes 2 --seed 7 --fault {FAULTS}"));
    let line = "--shards 2 -c 32 --expect items:7 --backoff 5ms,50ms";
    let (report, ledger) = confirmed(&target, &format!("-n {IDS} {line}"));
    report.assert_states(&[("ok", expected.ok), ("failed", expected.failed)]);
    let retries = expected.retries;
    holds(
        &ledger,
        &json!({"/requests": IDS + retries, "/unique_ids": IDS, "/duplicate_ids": retries}),
    );
    report.holds(&json!({
        "/totals/retries": retries, "/latency/item/count": IDS,
        "/totals/attempts_by_status": {"200": expected.ok, "503": expected.errors},
        "/totals/errors_by_kind": {"reset": expected.resets},
        "/throttling/retries_denied": 0, "/throttling/pauses": 0, "/throttling/paused_s": 0.0,
    }));
    let wasted = (expected.errors + expected.resets) as f64 / (IDS + retries) as f64;
    assert!((report.number("/throttling/wasted_share") - wasted).abs() < 1e-9);
}

#[test]
fn retries_stay_within_what_an_item_and_a_run_may_have() {
    // A fifth of the first attempts and the reserve, of which each shard may leave less than one.
    let target = Target::start("--processes 2 --fault error:1");
    let (report, ledger) = confirmed(&target, "-n 2k --shards 2 -c 16 --backoff 1ms,5ms");
    report.assert_states(&[("failed", 2_000)]);
    let retries = report.count("/totals/retries");
    assert!((498..=500).contains(&retries), "{retries}");
    holds(&ledger, &json!({"/duplicate_ids": retries}));
    assert!(report.count("/throttling/retries_denied") > 0);
    for (fault, flags, retries, denied) in [
        ("error:1", "--retry-budget 0", 0, 10),
        ("drop:1", "--retries 0", 0, 0),
        ("drop:1", "--retries 4", 40, 0),
        // What will not pass is not tried again.
        ("error:1:501", "", 0, 0),
        ("redirect:1", "", 0, 0),
        ("challenge:1", "", 0, 0),
    ] {
        let target = Target::start(&format!("--processes 1 --fault {fault}"));
        let line = format!("-n 10 --shards 2 -c 4 --expect items:1 --backoff 1ms {flags}");
        let (report, _) = confirmed(&target, &line);
        report.assert_states(&[("failed", 10)]);
        report.holds(&json!({"/totals/retries": retries, "/throttling/retries_denied": denied}));
    }
    // Nobody knows whether it was done.
    let target = Target::start("--processes 1 --fault reset:1");
    let report = crawl(&format!("{} -n 10 --shards 2 -c 4 -m POST", target.url()));
    report.assert_states(&[("failed", 10)]);
    report.holds(&json!({"/totals/retries": 0}));
    // What never arrived is tried again, and is no difference between the counts.
    for over in ["close", "reset"] {
        let limit = format!("--target-limit connections:6:key=everyone:over={over}");
        let line = "-n 400 --shards 2 -c 12 --backoff 5ms,50ms --target-processes 1";
        let report = crawl(&format!("{line} {limit}"));
        report.holds(&json!({"/witness/agrees": true}));
        assert_eq!(report.items("ok") + report.items("failed"), 400, "{over}");
        assert!(report.count("/totals/retries") > 0, "{over}");
    }
}

#[test]
fn a_wait_is_kept_by_all_shards_and_everything_comes_in_the_end() {
    // What one shard was told the others know within a few milliseconds; a machine that stalls in
    // that moment may make it more than the target forgives, so this is tried more than once.
    let are_early = || {
        let target = Target::start("--processes 2 --limit bucket:50/s:burst=20");
        let (report, ledger) = confirmed(&target, "--ids 0..120 --shards 2 -c 4");
        report.assert_states(&[("ok", 120)]);
        let throttled = report.count("/totals/throttled");
        assert!(throttled > 0);
        holds(&ledger, &json!({"/rejected": throttled}));
        report.holds(&json!({
            "/totals/retries": throttled, "/throttling/promises": throttled,
            "/totals/attempts_by_status": {"200": 120, "429": throttled},
            "/throttling/violated": 0, "/throttling/early_attempts": 0, "/throttling/cut_pauses": 0,
        }));
        // Each pause is of a second at least, which is the least that Retry-After can ask for, and
        // none overlaps another.
        let pauses = report.count("/throttling/pauses");
        assert!(
            pauses > 0 && report.number("/totals/duration_s") >= pauses as f64,
            "{pauses}"
        );
        // A shard that was throttled waited; one whose items the other had taken over by then may
        // not have.
        for shard in report.shards() {
            let waited = shard["binding"]["pause"].as_f64().unwrap() > 0.0;
            assert!(
                waited || shard["totals"]["throttled"] == json!(0),
                "{shard}"
            );
        }
        assert!(report.count("/throttling/honoured") >= pauses);
        assert!(report.count("/throttling/recovery_max_ns") >= 1_000_000_000);
        ledger["early_retries"] != json!(0)
    };
    assert!(
        (0..3).any(|_| !are_early()),
        "requests came early in each of three runs"
    );
}

#[test]
fn a_closed_loop_finds_what_its_target_takes_and_a_wait_at_its_end_counts_as_its_time() {
    let report = crawl("--target-limit 50/s -n 100 -c 16 --shards 2");
    report.assert_states(&[("ok", 100)]);
    let throttled = report.count("/totals/throttled");
    assert!((1..100).contains(&throttled), "{throttled}");
    // Two are let through; the others wait for as long as the run may last.
    let report = crawl("--target-limit 1/h:burst=2 -n 8 -c 8 -d 2s");
    report.assert_states(&[("ok", 2), ("unfinished", 6)]);
    assert!(report.number("/totals/duration_s") >= 2.0);
    assert!(report.number("/totals/ok_per_s") <= 1.0);
}

#[test]
fn who_does_not_wait_says_so_and_abandons_items() {
    let target = Target::start("--processes 2 --limit 1/h:burst=50");
    let line = "--ids 0..300 --shards 2 -c 8 --on-throttle count";
    let (report, ledger) = confirmed(&target, line);
    report.assert_states(&[("ok", 50), ("gave_up", 250)]);
    holds(&ledger, &json!({"/duplicate_ids": 0, "/rejected": 250}));
    report.holds(
        &json!({"/totals/retries": 0, "/throttling/pauses": 0, "/throttling/paused_s": 0.0}),
    );
    assert!(report.count("/throttling/violated") >= 1 && report.finding("abandoned").is_null());
    let target = Target::start("--processes 2 --limit 1/h:burst=50");
    let line = "--ids 0..100 --shards 2 -c 8 --on-throttle ignore --backoff 1ms,5ms";
    let (report, ledger) = confirmed(&target, line);
    report.assert_states(&[("ok", 50), ("gave_up", 50)]);
    let retries = report.count("/totals/retries");
    assert!(retries > 0 && report.count("/throttling/early_attempts") >= retries);
    holds(&ledger, &json!({"/duplicate_ids": retries}));
    // Of the target's counts: those whose client could know, and those that may have crossed its
    // response.
    let [early, crossed] =
        ["early_retries", "crossed_promises"].map(|key| ledger[key].as_u64().unwrap());
    assert!(early > 0 && early + crossed >= retries, "{ledger}");
    report.holds(&json!({"/throttling/paused_s": 0.0}));
    // Abandoned items are errors of a run that honours the target.
    let line = "--target-limit 1/h:burst=5 -n 20 -c 20 --shards 1 --retries 0";
    let report = ended(&format!("{line} --max-error-rate 1%")).report(3);
    report.assert_states(&[("ok", 5), ("gave_up", 15)]);
    ended(&format!("{line} --strict")).report(4);
}

#[test]
fn what_a_target_says_of_its_quota_and_of_when_to_come_back_is_kept() {
    let good = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nHEADER\r\n\r\nok";
    let refusal = "HTTP/1.1 429 No\r\ncontent-length: 0\r\nHEADER\r\n\r\n";
    // The first response, its header, and how many of the first were throttled.
    for (first, header, throttled) in [
        (good, "ratelimit: \"x\";r=0;t=1", 0),
        (good, "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1", 0),
        (&refusal.replace("429", "403"), "retry-after: 1", 1),
        (refusal, "retry-after: 99999999999999999999999", 1),
        (
            &refusal.replace("429", "503"),
            "retry-after: Fri, 31 Dec 9999 23:59:59 GMT",
            1,
        ),
    ] {
        let first = first.replace("HEADER", header);
        let (clock, came) = (Clock::start(), Mutex::new(Vec::new()));
        let serve = |mut peer: Peer| {
            while peer.request().is_some() {
                let mut came = came.lock().unwrap();
                came.push(clock.now());
                peer.send(if came.len() == 1 { &first } else { OK });
            }
        };
        let report = with_server(serve, |address| {
            crawl(&format!(
                "http://{address}/{{id}} -n 2 --shards 1 -c 1 --max-pause 1s"
            ))
        });
        report.assert_states(&[("ok", 2)]);
        report.holds(&json!({"/totals/throttled": throttled, "/throttling/pauses": 1}));
        let came = came.into_inner().unwrap();
        assert!(came[1].since(came[0]) >= 1_000_000_000, "{first}: {came:?}");
    }
}

/// Run a command against a server that asks for a wait of so many seconds, now and then, each time
/// in another form; returns the number of waits, and of requests that came in one.
fn in_its_waits(command: &str, wait_s: u64) -> (usize, usize, command::Done) {
    const NS: u64 = 1_000_000_000;
    let refusals = [
        ("429", "retry-after: "),
        ("503", "retry-after: "),
        ("403", "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: "),
        ("200", "x-ratelimit-remaining: 0\r\nx-ratelimit-reset: "),
    ];
    let clock = Clock::start();
    // The end of the wait, the next one's begin; the waits, the requests in one.
    let state = Mutex::new((Nanos(0), Nanos(0), 0_usize, 0_usize));
    let serve = |mut peer: Peer| {
        while peer.request().is_some() {
            let mut state = state.lock().unwrap();
            let (now, pause) = (clock.now(), Duration::from_millis(600));
            state.3 += usize::from(now < state.0);
            if state.1 == Nanos(0) {
                state.1 = now.plus(pause);
            }
            if now < state.1 {
                peer.send(OK);
                continue;
            }
            let (status, header) = refusals[state.2 % refusals.len()];
            state.0 = Nanos(now.0 + wait_s * NS);
            state.1 = state.0.plus(pause);
            state.2 += 1;
            peer.send(&format!(
                "HTTP/1.1 {status} No\r\ncontent-length: 0\r\n{header}{wait_s}\r\n\r\n"
            ));
        }
    };
    let done = with_server(serve, |address| {
        command::run(&command.replace("URL", &format!("http://{address}/{{id}}")))
    });
    let (_, _, asked, early) = state.into_inner().unwrap();
    (asked, early, done)
}

#[test]
fn what_follows_a_run_begins_after_the_wait_that_its_target_asked_for() {
    // Requests that were under way when the target asked: one for each connection but one.
    const CROSSED: usize = 7;
    for line in [
        "run URL -c 4 -s 1 -d 1s --diagnose --json --out out",
        "scale URL -c 1,2 -s 1 -d 1s --repeats 2 --out out",
    ] {
        let (waits, early, done) = in_its_waits(line, 1);
        assert!(waits > 1, "{line}: {}", done.stderr);
        assert!(early <= waits * CROSSED, "{line}: {early} in {waits} waits");
    }
    let (waits, early, done) =
        in_its_waits("run URL -c 4 -s 1 -d 1s --diagnose --json --out out", 3_600);
    let report = done.report(0);
    assert!(waits == 1 && early <= CROSSED, "{early}");
    assert!(report.number("/throttling/wait_left_s") > 3_500.0);
    let made = report.json().get("experiments");
    assert!(made.is_none(), "after an hour? {made:?}");
    let (waits, early, done) =
        in_its_waits("scale URL -c 1,2 -s 1 -d 1s --repeats 2 --out out", 3_600);
    assert!(
        waits == 1 && early <= CROSSED && done.code != Some(0),
        "{early}"
    );
}
