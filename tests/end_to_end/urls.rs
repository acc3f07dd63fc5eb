//! Several URLs and hosts in one run: each line is asked as often as it should be, and each host is
//! dealt with by itself. The hosts are bundled targets; what is claimed of a host is read from its
//! own counts.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot write its URLs is over"
)]

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::command::Started;
use crate::process::have_the_machine_alone;
use crate::raw::nobody;
use crate::report::Report;
use crate::run::{ONE_ATTEMPT, Run, crawl};
use crate::target::Target;

/// A file of URLs.
struct Urls {
    path: PathBuf,
    _place: TempDir,
}

impl Urls {
    fn write(lines: &[String]) -> Self {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("urls.txt");
        std::fs::write(&path, lines.join("\n")).unwrap();
        Self {
            path,
            _place: place,
        }
    }

    /// The items of each target in turn.
    fn of_items(targets: &[&Target]) -> Self {
        Self::write(
            &targets
                .iter()
                .map(|target| target.url())
                .collect::<Vec<_>>(),
        )
    }

    fn crawl(&self, line: &str) -> Report {
        self.start(line).end().report(0)
    }

    fn start(&self, line: &str) -> Run {
        Run::start(format!("--urls {} {line}", self.path.display()).split_whitespace())
    }
}

fn book(books: &Value, name: &str) -> u64 {
    books.pointer(name).and_then(Value::as_u64).unwrap()
}

#[test]
fn every_line_of_a_list_is_asked_once() {
    let targets = [
        Target::start("--processes 1"),
        Target::start("--processes 2"),
    ];
    // Two of three lines are the first target's.
    let lines: Vec<String> = (0..301)
        .map(|i| format!("{}/items/{i}", targets[usize::from(i % 3 == 2)].origin()))
        .collect();
    let urls = Urls::write(&[vec!["# a list".to_owned(), String::new()], lines].concat());
    let report = urls.crawl("--shards 2 -c 8");
    report.assert_states(&[("ok", 301)]);
    let hosts = report.at("/by_host").as_array().unwrap();
    let named = hosts
        .iter()
        .map(|host| (host["name"].as_str().unwrap(), host["ok"].as_u64().unwrap()));
    let origins = targets
        .each_ref()
        .map(|target| target.origin().replace("http://", ""));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [(&*origins[0], 201), (&*origins[1], 100)]
    );
    let templates = report.at("/by_template").as_array().unwrap();
    let named = templates
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["ok"].as_u64().unwrap()));
    let urls_of_items = origins
        .each_ref()
        .map(|origin| format!("{origin}/items/{{id}}"));
    assert_eq!(
        named.collect::<Vec<_>>(),
        [(&*urls_of_items[0], 201), (&*urls_of_items[1], 100)]
    );
    let workload = report.at("/plan/workload");
    assert_eq!(
        (&workload["lines"], &workload["urls"]),
        (&json!("301"), &json!(urls.path.to_str().unwrap()))
    );
    assert_eq!(
        report.text("/plan/target"),
        format!("{}/items/0 and 300 more", targets[0].origin())
    );
    assert_eq!(
        *report.at("/plan/per_host"),
        json!({"hosts": 2, "connections": null, "rate": null})
    );
    let opened: u64 = targets
        .into_iter()
        .zip([201, 100])
        .map(|(target, count)| {
            let books = target.stop();
            assert_eq!(
                (book(&books, "/requests"), book(&books, "/unique_ids")),
                (count, count),
                "{books}"
            );
            assert_eq!(books["duplicate_ids"], json!(0));
            book(&books, "/connections")
        })
        .sum();
    // Each shard keeps its connections to either host.
    assert!(opened <= 16, "{opened} connections");
    assert_eq!(opened, report.count("/totals/connections_opened"));
}

#[test]
fn a_url_without_an_id_is_the_request_of_every_item() {
    let target = Target::start("--processes 1");
    let report = crawl(&format!(
        "{}/items/7?caf\u{e9}=\"1\" -n 20 --shards 2 -c 2",
        target.origin()
    ));
    report.assert_states(&[("ok", 20)]);
    assert_eq!(
        report.text("/plan/target"),
        format!("{}/items/7?caf%C3%A9=%221%22", target.origin())
    );
    assert_eq!(*report.at("/plan/workload/same_request"), json!("true"));
    let books = target.stop();
    assert_eq!(
        (book(&books, "/requests"), book(&books, "/unique_ids")),
        (20, 1),
        "{books}"
    );
}

#[test]
fn items_go_round_the_templates() {
    let targets = [
        Target::start("--processes 1"),
        Target::start("--processes 1"),
    ];
    let report = Urls::of_items(&[&targets[0], &targets[1], &targets[0]])
        .crawl("-n 300 --shards 2 -c 2 --expect items:1");
    report.assert_states(&[("ok", 300)]);
    for (target, count) in targets.into_iter().zip([200, 100]) {
        let books = target.stop();
        assert_eq!(
            (book(&books, "/requests"), book(&books, "/unique_ids")),
            (count, count),
            "{books}"
        );
    }
}

#[test]
fn a_host_that_throttles_does_not_stop_the_other() {
    // Five good answers, and then none for a day.
    let strict = Target::start("--processes 1 --limit fixed:5/24h:key=everyone");
    let free = Target::start("--processes 1");
    let urls = Urls::of_items(&[&strict, &free]);
    let run = urls.start("--ids 0..6k --shards 2 -c 8 --max-pause 24h");
    // More of them than could be remembered one by one.
    free.wait_for_requests(3_000);
    run.signal(Signal::SIGINT);
    let report = run.end().report(130);
    let (asked, books) = (strict.stop(), free.stop());
    assert_eq!(
        (book(&books, "/requests"), book(&books, "/unique_ids")),
        (3_000, 3_000),
        "{books}"
    );
    // Nothing but the strict host's items is left over; no request that the pause held back is
    // waited for, or cut off.
    let throttled = report.count("/totals/throttled");
    report.assert_states(&[
        ("ok", 3_005),
        ("unfinished", throttled),
        ("not_attempted", 2_995 - throttled),
    ]);
    assert_eq!(book(&asked, "/by_status/200"), 5);
    let held =
        |host: usize, limit: &str| report.number(&format!("/by_host/{host}/limited_by/{limit}"));
    assert!(
        held(0, "pause") > 0.5 && held(1, "pause") < 0.1,
        "{}",
        report.at("/by_host")
    );
    // Both shards heard of the pause: requests that came nevertheless were on the way.
    assert_eq!(book(&asked, "/early_retries"), 0, "{asked}");
    assert!(book(&asked, "/rejected") <= 8, "{asked}");
}

#[test]
fn each_host_has_a_budget_of_its_own() {
    let targets = [
        Target::start("--processes 1"),
        Target::start("--processes 2"),
    ];
    let urls = Urls::of_items(&[&targets[0], &targets[1], &targets[1]]);
    // 25 items of the first host and 50 of the second, 50 a second: the second needs a second.
    let report = urls.crawl("--ids 0..75 --shards 2 -c 8 --per-host-rate 50/s");
    report.assert_states(&[("ok", 75)]);
    assert!(
        report.number("/totals/duration_s") >= 0.9,
        "{}",
        report.number("/totals/duration_s")
    );
    assert_eq!(
        report.at("/plan/per_host")["rate"],
        json!({"permits": 50, "period_ns": 1_000_000_000})
    );
    for (target, count) in targets.into_iter().zip([25, 50]) {
        let books = target.stop();
        assert_eq!(book(&books, "/requests"), count);
        // A burst of two at most in each shard, and what falls due; what was late on the way may
        // come together.
        assert!(book(&books, "/busiest/1s/admitted") <= 50 + 4, "{books}");
        assert!(book(&books, "/busiest/100ms/admitted") < 25, "{books}");
    }
}

#[test]
fn a_rate_per_host_is_named_as_the_limit_of_a_run_with_a_higher_rate() {
    let target = Target::start("--processes 1");
    let ended = Urls::of_items(&[&target])
        .start("--ids 0..30 --shards 2 -c 8 --per-host-rate 20/s --rate 200")
        .end();
    let summary = std::fs::read_to_string(ended.result().join("summary.md")).unwrap();
    assert!(
        summary.contains("/s instead of 200/s: limited by --per-host-rate "),
        "{summary}"
    );
}

#[test]
fn each_host_has_connections_of_its_own() {
    let limits = "--processes 1 --latency 1ms --limit concurrency:3 --limit connections:3:over=503:name=connections";
    let targets = [Target::start(limits), Target::start(limits)];
    let report = Urls::of_items(&[&targets[0], &targets[1]])
        .crawl("--ids 0..600 --shards 3 -c 24 --per-host-connections 3");
    report.assert_states(&[("ok", 600)]);
    assert_eq!(report.count("/totals/retries"), 0);
    for target in targets {
        let books = target.stop();
        assert_eq!(
            (book(&books, "/requests"), book(&books, "/rejected")),
            (300, 0),
            "{books}"
        );
    }
}

#[test]
fn limits_per_host_hold_for_a_single_url() {
    let target = Target::start("--processes 1 --latency 1ms --limit concurrency:2");
    let report = crawl(&format!(
        "{} -n 100 -c 16 --shards 2 --per-host-connections 2",
        target.url()
    ));
    report.assert_states(&[("ok", 100)]);
    assert_eq!(report.count("/totals/peak_in_flight"), 2);
    assert_eq!(book(&target.stop(), "/rejected"), 0);
}

#[test]
fn a_pause_is_for_its_host_and_for_all_shards() {
    have_the_machine_alone();
    // Every window of 500 ms has three answers for everyone: pauses end while the run goes on.
    let strict = Target::start("--processes 1 --limit fixed:3/500ms:key=everyone");
    let free = Target::start("--processes 1");
    let mut lines = vec![strict.url()];
    lines.resize(200, free.url());
    let report = Urls::write(&lines).crawl("--ids 0..2k --shards 2 -c 4");
    report.assert_states(&[("ok", 2_000)]);
    let (asked, books) = (strict.stop(), free.stop());
    assert_eq!(
        (
            book(&asked, "/by_status/200"),
            book(&asked, "/early_retries")
        ),
        (10, 0),
        "{asked}"
    );
    assert_eq!(
        (book(&books, "/requests"), book(&books, "/rejected")),
        (1_990, 0),
        "{books}"
    );
    assert!(report.count("/manners/pauses") >= 1);
    assert_eq!(report.count("/manners/violated"), 0);
}

#[test]
fn a_host_that_cannot_be_reached_fails_its_items_and_no_others() {
    let (_socket, refused) = nobody();
    for (dead, kind) in [
        (refused.as_str(), "connect_refused"),
        ("nosuch.invalid", "connect_failed"),
    ] {
        let target = Target::start("--processes 1");
        let urls = Urls::write(&[format!("http://{dead}/{{id}}"), target.url()]);
        let line = format!(
            "run --urls {} -n 40 -s 2 -c 4 --out out {ONE_ATTEMPT}",
            urls.path.display()
        );
        let done = Started::new(&line.split(' ').collect::<Vec<_>>())
            .end()
            .code(&[0]);
        let warning = done
            .stderr
            .lines()
            .find(|line| line.starts_with("warning: "))
            .unwrap_or_default();
        assert!(
            warning.contains(dead) && warning.contains("--urls"),
            "{}",
            done.stderr
        );
        let report = Report::read(&done.out().join("result.json"));
        report.assert_states(&[("ok", 20), ("failed", 20)]);
        assert_eq!(report.errors(), [(kind.to_owned(), 20)].into());
        assert_ne!(report.text("/validity/verdict"), "valid");
        let unreached = report.finding("host_unreached");
        assert!(unreached.to_string().contains(dead), "{unreached}");
        assert_eq!(book(&target.stop(), "/requests"), 20);
    }
}

#[test]
fn a_run_that_can_reach_no_host_does_not_start() {
    let (_socket, refused) = nobody();
    for lines in [
        vec![
            format!("http://{refused}/{{id}}"),
            "http://nosuch.invalid/".to_owned(),
        ],
        vec![
            "http://nosuch.invalid/".to_owned(),
            "http://nosuch2.invalid/".to_owned(),
        ],
    ] {
        let ended = Urls::write(&lines).start("-n 4 -s 1 -c 1").end();
        assert_eq!(
            (ended.code(), ended.left()),
            (Some(1), Vec::new()),
            "{}",
            ended.stderr()
        );
        assert!(
            ended.stderr().contains("2 hosts") && ended.stderr().contains("nosuch.invalid"),
            "{}",
            ended.stderr()
        );
    }
}
