//! Several URLs and hosts in one run: each line is asked as often as it should be, and each host is
//! dealt with by itself. The hosts are bundled targets; what is claimed of a host is read from its
//! own counts.

use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::command::{names, run};
use crate::raw::nobody;
use crate::report::{Report, holds};
use crate::run::{ONE_ATTEMPT, crawl, ended};
use crate::target::Target;

/// A file of URLs.
fn list(lines: &[String]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    std::fs::write(file.path(), lines.join("\n")).unwrap();
    file
}

/// Crawl these URLs.
#[track_caller]
fn crawl_all(urls: &[String], flags: &str) -> Report {
    let list = list(urls);
    crawl(&format!("--urls {} {flags}", list.path().display()))
}

#[test]
fn a_threshold_of_a_template_judges_its_requests_alone() {
    let target = Target::start("");
    let line = |i: usize| {
        let path = if i.is_multiple_of(4) {
            "others"
        } else {
            "items"
        };
        format!("{}/{path}/{i}", target.origin())
    };
    let urls = list(&(0..400).map(line).collect::<Vec<_>>());
    let flags = format!("--urls {} --shards 1 -c 8", urls.path().display());
    let of_template = |path: &str, limit: &str| {
        ended(&format!(
            "{flags} --threshold 'ok{{/{path}/{{id}}}} {limit}'"
        ))
    };
    of_template("items", "== 300").report(0);
    // An equality: delays of this client leave a broken limit of a count undecided.
    let failed = of_template("others", "== 101").report(3);
    failed.holds(&json!({"/gates/0/value": 100.0, "/gates/0/ok": false}));
    let unknown = of_template("item", "== 0").code(&[2]);
    assert!(unknown.stderr.contains("/items/{id}"), "{}", unknown.stderr);
    ended(&format!("{flags} --stop-unless 'errors{{a}} == 0'")).code(&[2]);
}

#[test]
fn every_line_of_a_list_is_asked_once() {
    let targets = [
        Target::start("--processes 1"),
        Target::start("--processes 2"),
    ];
    // Two of three lines are the first target's.
    let line = |i: usize| format!("{}/items/{i}", targets[usize::from(i % 3 == 2)].origin());
    let lines: Vec<String> = (0..301).map(line).collect();
    let head = vec!["# a list".to_owned(), String::new()];
    let report = crawl_all(&[head, lines].concat(), "--shards 2 -c 8");
    report.assert_states(&[("ok", 301)]);
    let hosts = targets.each_ref().map(|target| target.address().to_owned());
    report.holds(&json!({
        "/by_host/0/name": hosts[0], "/by_host/0/ok": 201, "/by_host/1/name": hosts[1],
        "/by_host/1/ok": 100, "/by_template/0/name": format!("{}/items/{{id}}", hosts[0]),
        "/by_template/0/ok": 201, "/plan/workload/lines": "301",
        "/plan/target": format!("http://{}/items/0 and 300 more", hosts[0]),
        "/plan/per_host": {"hosts": 2, "connections": null, "rate": null},
    }));
    let mut opened = 0;
    for (target, count) in targets.into_iter().zip([201, 100]) {
        let ledger = target.stop();
        holds(
            &ledger,
            &json!({"/requests": count, "/unique_ids": count, "/duplicate_ids": 0}),
        );
        opened += ledger["connections"].as_u64().unwrap();
    }
    // Each shard keeps its connections to either host.
    assert!(opened <= 16, "{opened} connections");
    report.holds(&json!({"/totals/connections_opened": opened}));
}

#[test]
fn each_host_has_a_budget_and_connections_of_its_own() {
    let targets = [
        Target::start("--processes 1"),
        Target::start("--processes 2"),
    ];
    let [one, two] = targets.each_ref().map(Target::url);
    // 25 items of the first host and 50 of the second, 50 a second: the second needs a second.
    let flags = "--ids 0..75 --shards 2 -c 8 --per-host-rate 50/s --expect items:1";
    let report = crawl_all(&[one, two.clone(), two], flags);
    report.assert_states(&[("ok", 75)]);
    assert!(report.number("/totals/duration_s") >= 0.9);
    let rate = json!({"permits": 50, "period_ns": 1_000_000_000});
    report.holds(&json!({"/plan/per_host/rate": rate}));
    for (target, count) in targets.into_iter().zip([25, 50]) {
        let ledger = target.stop();
        holds(&ledger, &json!({"/requests": count, "/unique_ids": count}));
        let busiest = |window: &str| ledger["busiest"][window]["admitted"].as_u64().unwrap();
        // A burst of two at most in each shard, and what falls due; what was late on the way may
        // come together.
        assert!(busiest("1s") <= 50 + 4 && busiest("100ms") < 25, "{ledger}");
    }
    let limits = "--processes 1 --latency 1ms --limit concurrency:3 \
                  --limit connections:3:over=503:name=connections";
    let targets = [(); 2].map(|()| Target::start(limits));
    let flags = "--ids 0..600 --shards 3 -c 24 --per-host-connections 3";
    let report = crawl_all(&targets.each_ref().map(Target::url), flags);
    report.assert_states(&[("ok", 600)]);
    report.holds(&json!({"/totals/retries": 0}));
    for target in targets {
        holds(&target.stop(), &json!({"/requests": 300, "/rejected": 0}));
    }
    // They hold for a single URL as well.
    let target = Target::start("--processes 1 --latency 1ms --limit concurrency:2");
    let flags = "-n 100 -c 16 --shards 2 --per-host-connections 2";
    let report = crawl(&format!("{} {flags}", target.url()));
    report.assert_states(&[("ok", 100)]);
    report.holds(&json!({"/totals/peak_in_flight": 2}));
    holds(&target.stop(), &json!({"/rejected": 0}));
}

#[test]
fn a_host_that_cannot_be_reached_fails_its_items_and_no_others() {
    let (_socket, refused) = nobody();
    for (dead, kind) in [
        (&*refused, "connect_refused"),
        ("nosuch.invalid", "connect_failed"),
    ] {
        let target = Target::start("--processes 1");
        let list = list(&[format!("http://{dead}/{{id}}"), target.url()]);
        let line = format!("-n 40 -s 2 -c 4 --out out {ONE_ATTEMPT}");
        let done = run(&format!("run --urls {} {line}", list.path().display())).code(&[0]);
        let is_warning = |line: &&str| line.starts_with("warning: ") && line.contains(dead);
        assert!(
            done.stderr.lines().any(|line| is_warning(&line)),
            "{}",
            done.stderr
        );
        let report = Report::read(&done.out().join("result.json"));
        report.assert_states(&[("ok", 20), ("failed", 20)]);
        assert_eq!(report.errors(), [(kind.to_owned(), 20)].into());
        assert_ne!(report.text("/validity/verdict"), "valid");
        let unreached: &Value = report.finding("host_unreached");
        assert!(unreached.to_string().contains(dead), "{unreached}");
        holds(&target.stop(), &json!({"/requests": 20}));
    }
    // A run that can reach no host does not start.
    let dead = list(&[
        format!("http://{refused}/{{id}}"),
        "http://nosuch.invalid/".to_owned(),
    ]);
    let ended = ended(&format!("--urls {} -n 4 -s 1 -c 1", dead.path().display()));
    assert_eq!(
        (ended.code, names(&ended.work())),
        (Some(1), Vec::new()),
        "{}",
        ended.stderr
    );
    for part in ["2 hosts", "nosuch.invalid"] {
        assert!(ended.stderr.contains(part), "{}", ended.stderr);
    }
}
