//! What a crawl does when its target asks for patience or fails for a moment, with the target's
//! counts as the second witness: retries within their budget, waits that are kept, and ranges that
//! move from shards that are slow.
//!
//! Where a wait must not be over by itself, the target's period is so long that nothing comes back
//! during a test.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose target cannot be started is over"
)]

use std::fs;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crawlmark_harness::clock::Clock;
use crawlmark_mock_server::{Fault, Faults};
use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::bad_input::assert_refused;
use crate::bad_input::call;
use crate::process::{children, have_the_machine_alone, is_stopped, signal, wait_for};
use crate::report::Report;
use crate::run::{Run, crawl};
use crate::scripted::{OK, Peer, with_server};
use crate::target::{Target, confirmed};

/// How many requests came to the target before the moment at which it had asked to be asked again:
/// those whose client could know, and those that may have crossed its answer.
fn early_retries(books: &Value) -> (u64, u64) {
    (
        books["early_retries"].as_u64().unwrap(),
        books["crossed_promises"].as_u64().unwrap(),
    )
}

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
fn what_may_pass_is_tried_again_and_the_books_know_each_time() {
    const IDS: u64 = 4_000;
    const FAULTS: &str = "error:0.08:503,reset:0.04";
    let expected = fates(&FAULTS.parse().unwrap(), 7, IDS);
    assert!(expected.errors > 0 && expected.resets > 0);
    let target = Target::start(&format!("--processes 2 --seed 7 --fault {FAULTS}"));
    let (report, books) = confirmed(
        &target,
        &format!("--ids 0..{IDS} --shards 2 -c 32 --expect items:7 --backoff 5ms,50ms"),
    );
    report.assert_states(&[("ok", expected.ok), ("failed", expected.failed)]);
    assert_eq!(report.count("/totals/retries"), expected.retries);
    assert_eq!(books["duplicate_ids"], json!(expected.retries));
    assert_eq!(
        (&books["requests"], &books["unique_ids"]),
        (&json!(IDS + expected.retries), &json!(IDS))
    );
    assert_eq!(
        report.statuses(),
        [
            ("200".to_owned(), expected.ok),
            ("503".to_owned(), expected.errors)
        ]
        .into()
    );
    assert_eq!(
        report.errors(),
        [("reset".to_owned(), expected.resets)].into()
    );
    assert!(expected.retries * 100 <= 20 * IDS + 100 * 100);
    let throttling = report.at("/manners");
    assert_eq!(
        (
            &throttling["retries_denied"],
            &throttling["pauses"],
            &throttling["paused_s"]
        ),
        (&json!(0), &json!(0), &json!(0.0))
    );
    assert_eq!(report.count("/latency/item/count"), IDS);
    let wasted = (expected.errors + expected.resets) as f64 / (IDS + expected.retries) as f64;
    assert!((report.number("/manners/wasted_share") - wasted).abs() < 1e-9);
}

#[test]
fn a_target_that_fails_always_is_not_asked_much_more_often() {
    let target = Target::start("--processes 2 --fault error:1");
    let (report, books) = confirmed(&target, "--ids 0..2k --shards 2 -c 16 --backoff 1ms,5ms");
    report.assert_states(&[("failed", 2_000)]);
    // A fifth of the first attempts and the reserve, of which each shard may leave less than one.
    let retries = report.count("/totals/retries");
    assert!((498..=500).contains(&retries), "{retries}");
    assert_eq!(books["duplicate_ids"], json!(retries));
    assert!(report.count("/manners/retries_denied") > 0);
    let (report, books) = confirmed(
        &Target::start("--processes 1 --fault error:1"),
        "-n 100 --shards 2 -c 4 --retry-budget 0",
    );
    report.assert_states(&[("failed", 100)]);
    assert_eq!(
        (
            report.count("/manners/retries_denied"),
            &books["duplicate_ids"]
        ),
        (100, &json!(0))
    );
}

#[test]
fn an_item_is_tried_as_often_as_was_said() {
    for retries in 0..=4 {
        let target = Target::start("--processes 1 --fault drop:1");
        let (report, _) = confirmed(
            &target,
            &format!("-n 10 --shards 2 -c 4 --backoff 1ms --retries {retries}"),
        );
        report.assert_states(&[("failed", 10)]);
        assert_eq!(report.count("/totals/retries"), 10 * retries);
        assert_eq!(
            report.errors(),
            [("closed".to_owned(), 10 * (retries + 1))].into()
        );
    }
}

#[test]
fn what_will_not_pass_is_not_tried_again() {
    for (fault, state) in [
        ("error:1:501", "failed"),
        ("redirect:1", "failed"),
        ("challenge:1", "failed"),
    ] {
        let target = Target::start(&format!("--processes 1 --fault {fault}"));
        let (report, _) = confirmed(&target, "-n 20 --shards 2 -c 4 --expect items:1");
        report.assert_states(&[(state, 20)]);
        assert_eq!(
            (
                report.count("/totals/retries"),
                report.count("/manners/retries_denied")
            ),
            (0, 0),
            "{fault}"
        );
    }
    // Nobody knows whether it was done.
    let target = Target::start("--processes 1 --fault reset:1");
    let report = crawl(&format!("{} -n 20 --shards 2 -c 4 -m POST", target.url()));
    report.assert_states(&[("failed", 20)]);
    assert_eq!(report.count("/totals/retries"), 0);
}

#[test]
fn a_wait_is_kept_by_all_shards_and_everything_comes_in_the_end() {
    // What one shard was told the others know within a few milliseconds; a machine that stalls in
    // that moment may make it more than the target forgives, so this is tried more than once.
    let mut early = Vec::new();
    for _ in 0..3 {
        let target = Target::start("--processes 2 --limit bucket:50/s:burst=20");
        let (report, books) = confirmed(&target, "--ids 0..120 --shards 2 -c 4");
        check_kept_waits(&report, &books, 120);
        early.push(early_retries(&books).0);
        if early.contains(&0) {
            return;
        }
    }
    panic!("requests came early: {early:?}");
}

#[track_caller]
fn check_kept_waits(report: &Report, books: &Value, items: u64) {
    report.assert_states(&[("ok", items)]);
    let throttled = report.count("/totals/throttled");
    assert!(throttled > 0);
    assert_eq!(report.count("/totals/retries"), throttled);
    assert_eq!(
        report.statuses(),
        [("200".to_owned(), items), ("429".to_owned(), throttled)].into()
    );
    assert_eq!(books["rejected"], json!(throttled));
    for (field, count) in [
        ("violated", 0),
        ("early_attempts", 0),
        ("cut_pauses", 0),
        ("promises", throttled),
    ] {
        assert_eq!(report.count(&format!("/manners/{field}")), count, "{field}");
    }
    // Each pause is of a second at least, which is the least that Retry-After can ask for, and none
    // overlaps another.
    let pauses = report.count("/manners/pauses");
    assert!(
        pauses > 0 && report.number("/totals/duration_s") >= pauses as f64,
        "{pauses}"
    );
    assert!(report.number("/manners/paused_s") > 0.0 && report.number("/binding/pause") > 0.0);
    // A shard that was throttled waited; one whose items the other had taken over by then may not
    // have.
    let waited = |shard: &Value| shard["binding"]["pause"].as_f64().unwrap() > 0.0;
    assert!(
        report
            .shards()
            .iter()
            .all(|shard| shard["totals"]["throttled"] == json!(0) || waited(shard))
    );
    assert!(report.count("/manners/honoured") >= pauses && report.count("/manners/recoveries") > 0);
    assert!(report.number("/manners/recovery_max_s") >= 1.0);
}

#[test]
fn who_only_counts_never_waits_and_never_repeats() {
    let target = Target::start("--processes 2 --limit 1/h:burst=50");
    let (report, books) = confirmed(&target, "--ids 0..300 --shards 2 -c 8 --on-throttle count");
    report.assert_states(&[("ok", 50), ("gave_up", 250)]);
    assert_eq!(
        (&books["duplicate_ids"], &books["rejected"]),
        (&json!(0), &json!(250))
    );
    let throttling = report.at("/manners");
    assert_eq!(
        (&throttling["pauses"], &throttling["paused_s"]),
        (&json!(0), &json!(0.0))
    );
    assert_eq!(
        (
            report.count("/totals/retries"),
            report.number("/binding/pause").to_bits()
        ),
        (0, 0.0_f64.to_bits())
    );
    assert!(report.count("/manners/violated") >= 1, "it says so, though");
}

#[test]
fn abandoned_items_are_part_of_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    // Whatever its speed, the target admits five, and none again within an hour.
    let line =
        "run --target-limit 1/h:burst=5 --ids 0..20 -c 20 --shards 1 --retries 0 --on-throttle";
    let said = |on_throttle: &str| {
        let said = call(
            folder.path(),
            &line.split(' ').chain([on_throttle]).collect::<Vec<_>>(),
        );
        assert_eq!(said.code, Some(0), "{}", said.stderr);
        said.stdout + &said.stderr
    };
    let honest = said("honor");
    assert!(
        honest.contains(" 75 % of the items (15) were abandoned because the target throttled them"),
        "{honest}"
    );
    let meant = said("count");
    assert!(!meant.contains("were abandoned"), "{meant}");
}

#[test]
fn who_ignores_repeats_early_and_says_so() {
    let target = Target::start("--processes 2 --limit 1/h:burst=50");
    let (report, books) = confirmed(
        &target,
        "--ids 0..100 --shards 2 -c 8 --on-throttle ignore --backoff 1ms,5ms",
    );
    report.assert_states(&[("ok", 50), ("gave_up", 50)]);
    let retries = report.count("/totals/retries");
    assert!(
        retries > 0 && books["duplicate_ids"] == json!(retries),
        "{retries}: {books}"
    );
    assert!(
        report.count("/manners/violated") >= 1
            && report.count("/manners/early_attempts") >= retries
    );
    let (early, crossed) = early_retries(&books);
    assert!(early > 0 && early + crossed >= retries, "{books}");
    assert_eq!(*report.at("/manners/paused_s"), json!(0.0));
}

#[test]
fn no_pause_is_longer_than_the_longest_that_was_allowed() {
    // Twenty, and then nothing for hours: the four that are turned away are tried five times, a
    // second apart.
    let target = Target::start("--processes 2 --limit fixed:20/24h");
    let (report, books) = confirmed(&target, "--ids 0..24 --shards 2 -c 8 --max-pause 1s");
    report.assert_states(&[("ok", 20), ("gave_up", 4)]);
    assert_eq!(
        (
            report.count("/totals/throttled"),
            report.count("/totals/retries")
        ),
        (20, 16)
    );
    assert_eq!(books["rejected"], json!(20));
    let (cut, pauses) = (
        report.count("/manners/cut_pauses"),
        report.count("/manners/pauses"),
    );
    assert!(cut >= 1 && pauses >= 1, "{}", report.at("/manners"));
    let (paused_s, duration_s) = (
        report.number("/manners/paused_s"),
        report.number("/totals/duration_s"),
    );
    assert!(paused_s >= 1.0 && paused_s <= cut as f64, "{paused_s}");
    // Four waits lie between five attempts; what is longer is the machine's, and only a hang takes
    // a minute.
    assert!((4.0..60.0).contains(&duration_s), "{duration_s}");
    assert!(report.count("/manners/violated") >= 1 && early_retries(&books).0 >= 16);
}

#[test]
fn time_ends_a_crawl_that_waits() {
    have_the_machine_alone();
    let target = Target::start("--processes 1 --limit 1/h:burst=10");
    let (report, _) = confirmed(&target, "--ids 0..1k -d 2s --shards 2 -c 4");
    let throttled = report.count("/totals/throttled");
    assert!((1..=4).contains(&throttled), "{throttled}");
    report.assert_states(&[
        ("ok", 10),
        ("unfinished", throttled),
        ("not_attempted", 990 - throttled),
    ]);
    assert_eq!(
        (
            report.count("/latency/item/count"),
            report.count("/manners/violated")
        ),
        (10, 0)
    );
    assert!(
        report.number("/manners/paused_s") < 60.0,
        "what was left of the hour is no pause"
    );
}

#[test]
fn a_signal_ends_a_crawl_that_waits() {
    let target = Target::start("--processes 1 --limit 1/h:burst=10");
    let run = Run::start(format!("{} --ids 0..1k --shards 2 -c 4", target.url()).split(' '));
    target.wait_for_requests(11);
    let clock = Clock::start();
    run.signal(Signal::SIGINT);
    let ended = run.end();
    assert!(clock.now().0 < 5_000_000_000, "it took {:?}", clock.now());
    let report = ended.report(130);
    assert_eq!(
        (report.items("ok"), report.count("/totals/throttled")),
        (10, report.items("unfinished"))
    );
    assert!(
        (1..=4).contains(&report.items("unfinished")),
        "{}",
        report.at("/ledger")
    );
}

#[test]
fn what_never_arrived_is_tried_again_and_is_no_difference_to_the_books() {
    for over in ["close", "reset"] {
        let limit = format!("connections:6:key=everyone:over={over}");
        let report = crawl(&format!(
            "-n 400 --shards 2 -c 12 --backoff 5ms,50ms --target-processes 1 --target-limit {limit}"
        ));
        assert_eq!(
            *report.at("/witness/agrees"),
            json!(true),
            "{over}: {}",
            report.at("/witness")
        );
        assert_eq!(
            report.items("ok") + report.items("failed"),
            400,
            "{over}: {}",
            report.at("/ledger")
        );
        assert!(report.count("/totals/retries") > 0, "{over}");
    }
}

#[test]
fn manners_that_make_no_sense_are_refused_by_their_name() {
    assert_refused(&[
        (&["URL", "--retries", "5"], "--retries"),
        (&["URL", "--retries=-1"], "--retries"),
        (&["URL", "--retry-budget", "101%"], "--retry-budget"),
        (&["URL", "--retry-budget", "0.5"], "--retry-budget"),
        (&["URL", "--max-pause", "0"], "--max-pause"),
        (&["URL", "--max-pause", "long"], "--max-pause"),
        (&["URL", "--backoff", "soon"], "--backoff"),
        (&["URL", "--backoff", "1s,2s,3s"], "--backoff"),
        (&["URL", "--on-throttle", "polite"], "--on-throttle"),
        (&["URL", "--adaptive=fast"], "--adaptive"),
    ]);
}

/// A target whose first 200 items take their time, 20 ms each, and the next 200 none.
fn half_slow() -> (Target, tempfile::TempDir) {
    let place = tempfile::tempdir().unwrap();
    fs::create_dir(place.path().join("mappings")).unwrap();
    let stubs = json!({ "mappings": [
        {
            "priority": 1,
            "request": { "urlPathPattern": "/items/1?[0-9]?[0-9]" },
            "response": { "fixedDelayMilliseconds": 20 },
        },
        { "priority": 2, "request": { "urlPathPattern": "/items/[0-9]+" } },
    ] });
    fs::write(place.path().join("mappings/all.json"), stubs.to_string()).unwrap();
    let target = Target::start(&format!("--processes 1 --stubs {}", place.path().display()));
    (target, place)
}

#[test]
fn a_shard_that_is_done_takes_over_what_a_slow_one_has_left() {
    let (target, _place) = half_slow();
    let (report, books) = confirmed(&target, "--ids 0..400 --shards 2 -c 4");
    report.assert_states(&[("ok", 400)]);
    assert_eq!(
        (&books["unique_ids"], &books["duplicate_ids"]),
        (&json!(400), &json!(0))
    );
    assert_eq!(books["held_us"]["count"], json!(200));
    let (ranges, ids) = (report.count("/moved/ranges"), report.count("/moved/ids"));
    assert!(ranges > 0 && ids >= ranges, "{}", report.at("/moved"));
    let [slow, quick] = report.shards() else {
        panic!("{} shards", report.shards().len())
    };
    let planned = |shard: &Value| shard["ledger"]["planned"].as_u64().unwrap();
    assert!(
        planned(slow) < 200 && planned(quick) > 200,
        "{slow} {quick}"
    );
    // What each was planned stays what it was.
    assert_eq!(slow["id_range"], json!({ "start": 0, "end": 200 }));
    assert_eq!(quick["id_range"], json!({ "start": 200, "end": 400 }));
    assert_eq!(slow["held"][0]["start"], json!(0));
    assert!(quick["held"].as_array().unwrap().len() >= 2);
}

#[test]
fn what_was_given_to_a_shard_that_had_ended_is_not_lost() {
    const LAST: u64 = 99;
    let (is_full, is_stopped_now, is_over) = (
        AtomicU64::new(0),
        AtomicBool::new(false),
        AtomicBool::new(false),
    );
    // The first shard is stopped in the middle of its items; the second asks it for more, and is
    // gone when it answers.
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            let id: u64 = path
                .rsplit('/')
                .next()
                .unwrap_or_default()
                .parse()
                .unwrap_or(0);
            if id < 50 {
                is_full.fetch_add(1, Ordering::SeqCst);
                wait_for("the end of the second shard", || {
                    is_over.load(Ordering::SeqCst).then_some(())
                });
            }
            if id == LAST {
                wait_for("a stopped shard", || {
                    is_stopped_now.load(Ordering::SeqCst).then_some(())
                });
            }
            peer.send(OK);
        }
    };
    let report = with_server(serve, |address| {
        let flags = "--ids 0..100 --shards 2 -c 4 -d 2s --shard-deadline 1h --timeout 1h";
        let run = Run::start(format!("http://{address}/{{id}} {flags}").split(' '));
        wait_for("the first shard to be full", || {
            (is_full.load(Ordering::SeqCst) == 2).then_some(())
        });
        let (first, second) = (run.shard(0), run.shard(1));
        signal(first, Signal::SIGSTOP);
        wait_for("a stopped shard", || is_stopped(first).then_some(()));
        is_stopped_now.store(true, Ordering::SeqCst);
        let is_gone = || children(run.pid()).iter().all(|(pid, _)| *pid != second);
        wait_for("the end of the second shard", || is_gone().then_some(()));
        signal(first, Signal::SIGCONT);
        is_over.store(true, Ordering::SeqCst);
        run.end().report(0)
    });
    report.assert_states(&[("ok", 52), ("not_attempted", 48)]);
    assert_eq!(
        report.count("/moved/ranges"),
        0,
        "what comes back has not moved"
    );
}

#[test]
fn a_budget_is_kept_while_ranges_move() {
    let (target, _place) = half_slow();
    let (report, _) = confirmed(
        &target,
        "--ids 0..400 --shards 3 -c 6 --rate 300 --burst 30",
    );
    report.assert_states(&[("ok", 400)]);
    assert_eq!(
        *report.at("/budget/kept"),
        json!(true),
        "{}",
        report.at("/budget")
    );
    for window in report.at("/budget/busiest").as_array().unwrap() {
        assert!(
            window["admitted"].as_u64() <= window["allowed"].as_u64(),
            "{window}"
        );
    }
}

#[test]
fn a_crawl_that_waits_shows_it_while_it_runs() {
    // The first second holds all good answers, the pause lies in those that follow.
    let target = Target::start("--processes 1 --limit fixed:20/24h");
    let (report, _) = confirmed(
        &target,
        "--ids 0..22 --shards 1 -c 2 --max-pause 2s --retries 1",
    );
    report.assert_states(&[("ok", 20), ("gave_up", 2)]);
    let rows = report.at("/intervals").as_array().unwrap();
    assert!(rows.len() >= 2, "{rows:?}");
    assert!(
        rows.iter()
            .any(|row| row["binding"]["pause"].as_f64().unwrap() > 0.5),
        "{rows:?}"
    );
}

#[test]
fn what_a_target_says_of_its_quota_and_of_when_to_come_back_is_heeded() {
    const S: u64 = 1_000_000_000;
    // The first answer, the flags, and how many of the first were throttled.
    for (first, flags, throttled) in [
        (good("ratelimit: \"x\";r=0;t=1"), "", 0),
        (
            good("x-ratelimit-remaining: 0\r\nx-ratelimit-reset: 1"),
            "",
            0,
        ),
        (refusal(403, "retry-after: 1"), "", 1),
        (
            refusal(403, "retry-after: 99999999999"),
            "--max-pause 1s",
            1,
        ),
        (
            refusal(429, "retry-after: 99999999999999999999999"),
            "--max-pause 1s",
            1,
        ),
        (
            refusal(503, "retry-after: Fri, 31 Dec 9999 23:59:59 GMT"),
            "--max-pause 1s",
            1,
        ),
    ] {
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
                "http://{address}/{{id}} -n 2 --shards 1 -c 1 {flags}"
            ))
        });
        report.assert_states(&[("ok", 2)]);
        assert_eq!(report.count("/totals/throttled"), throttled, "{first}");
        assert_eq!(report.count("/manners/pauses"), 1, "{first}");
        let came = came.into_inner().unwrap();
        assert!(came[1].since(came[0]) >= S, "{first}: {came:?}");
    }
}

fn good(header: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n{header}\r\n\r\nok")
}

fn refusal(status: u16, header: &str) -> String {
    format!("HTTP/1.1 {status} No\r\ncontent-length: 0\r\n{header}\r\n\r\n")
}
