//! `--robots`: what robots.txt forbids is not requested, counted, and recorded; its crawl-delay is
//! kept.
#![expect(clippy::unwrap_used, reason = "a test without its files is over")]

use std::collections::BTreeMap;
use std::io::Write;
use std::process::Command;
use std::sync::Mutex;

use crawlmark_harness::clock::Clock;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};

use crate::bad_input::call;
use crate::run::{Run, crawl, program};
use crate::scripted::{OK, Peer, with_server};

/// Rules that forbid items 1, 10 to 19 but for 15, and those that end with 7.
const RULES: &str = "User-agent: *\nDisallow: /\n\nUser-agent: CrawlMark\nDisallow: /items/1\nAllow: /items/15\nAllow: /items/2\n\
                     Disallow: /*7$\n";

/// Paths that were requested, with their counts.
type Requested = Mutex<BTreeMap<String, u32>>;

/// Serve `robots` as robots.txt, and every other path.
fn serving<'a>(
    robots: &'a (impl AsRef<[u8]> + Sync + ?Sized),
    requested: &'a Requested,
) -> impl Fn(Peer) + Sync + 'a {
    move |mut peer| {
        while let Some(path) = peer.request() {
            peer.send_bytes(if path == "/robots.txt" {
                robots.as_ref()
            } else {
                OK.as_bytes()
            });
            *requested.lock().unwrap().entry(path).or_default() += 1;
        }
    }
}

fn good(body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn is_forbidden(id: u64) -> bool {
    id != 15 && (id == 1 || (10..20).contains(&id) || id == 7)
        || id % 10 == 7 && !(20..30).contains(&id)
}

#[test]
fn what_robots_txt_forbids_is_skipped_counted_and_recorded() {
    let (requested, folder) = (Requested::default(), tempfile::tempdir().unwrap());
    let items = folder.path().join("items");
    let (robots, place) = (good(RULES), items.to_str().unwrap());
    with_server(serving(&robots, &requested), |address| {
        let line = format!(
            "http://{address}/items/{{id}} --ids 0..60 --shards 2 -c 4 --robots honor --shuffle --save {place} --save-bodies all"
        );
        let report = crawl(&line);
        let forbidden = (0..60).filter(|id| is_forbidden(*id)).count() as u64;
        report.assert_states(&[("ok", 60 - forbidden), ("skipped", forbidden)]);
        assert_eq!(
            (
                report.count("/totals/attempts"),
                report.count("/robots/requests")
            ),
            (60 - forbidden, 1)
        );
        assert_eq!(report.at("/robots/hosts/0/outcome"), &json!("rules"));
        assert!(report.is_whole());
    });
    let requested = requested.into_inner().unwrap();
    assert_eq!(requested["/robots.txt"], 1);
    for id in 0..60 {
        assert_eq!(
            requested.contains_key(&format!("/items/{id}")),
            !is_forbidden(id),
            "{id}"
        );
    }
    let verified = call(folder.path(), &["verify", "items"]);
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    let lines = Command::new(program())
        .args(["export", place, "--to", "jsonl", "--out", "-"])
        .output()
        .unwrap()
        .stdout;
    let records: Vec<Value> = String::from_utf8(lines)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 60);
    for record in records {
        let outcome = if is_forbidden(record["id"].as_u64().unwrap()) {
            "skipped"
        } else {
            "ok"
        };
        assert_eq!(record["outcome"], outcome, "{record}");
    }
    let again = call(folder.path(), &["run", "--resume", place]);
    assert!(
        again.stderr.contains("nothing is left to crawl"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_compressed_robots_txt_is_obeyed_and_one_in_another_coding_unreachable() {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(b"User-agent: *\nDisallow: /items/1\n")
        .unwrap();
    let gzip = gzip.finish().unwrap();
    for (coding, code) in [("gzip", 0), ("x-unknown", 1)] {
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {}\r\n\r\n",
            gzip.len()
        );
        let (robots, requested) = ([head.as_bytes(), &gzip].concat(), Requested::default());
        with_server(serving(&robots, &requested), |address| {
            let line =
                format!("http://{address}/items/{{id}} -n 3 -s 1 -c 1 --robots honor --retries 0");
            assert_eq!(
                Run::start(line.split(' ')).end().code(),
                Some(code),
                "{coding}"
            );
        });
        let requested = requested.into_inner().unwrap();
        let items: Vec<_> = requested
            .keys()
            .filter(|path| path.starts_with("/items/"))
            .collect();
        assert_eq!(
            items,
            if code == 0 {
                vec!["/items/0", "/items/2"]
            } else {
                vec![]
            }
        );
    }
}

#[test]
fn without_a_robots_txt_all_is_crawled_and_with_a_broken_one_nothing() {
    let empty = |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
    let elsewhere = "301 Moved\r\nlocation: http://127.0.0.1:1/robots.txt";
    for (robots, why) in [
        (empty("404 Not Found"), None),
        (empty("403 Forbidden"), None),
        (empty("500 Oops"), Some("status 500")),
        (empty("429 Too Many Requests"), Some("status 429")),
        (empty(elsewhere), Some("status 301")),
    ] {
        let (requested, folder) = (Requested::default(), tempfile::tempdir().unwrap());
        with_server(serving(&robots, &requested), |address| {
            let flags = "-n 20 --shards 2 -c 4 --robots honor --retries 1 --backoff 1ms --save";
            let items = folder.path().join("items");
            let line = format!("http://{address}/{{id}} {flags} {}", items.display());
            let ended = Run::start(line.split(' ')).end();
            let Some(why) = why else {
                let report = ended.report(0);
                report.assert_states(&[("ok", 20)]);
                assert_eq!(report.text("/robots/hosts/0/outcome"), "none");
                return;
            };
            assert_eq!(ended.code(), Some(1), "{}", ended.stderr());
            assert!(ended.stderr().contains(why), "{}", ended.stderr());
            // Nothing of it is final.
            let verified = call(folder.path(), &["verify", "items", "--json"]);
            assert!(
                verified.stdout.contains("\"recorded\": 0"),
                "{}",
                verified.stdout
            );
        });
        let requested = requested.into_inner().unwrap();
        let items = requested
            .keys()
            .filter(|path| *path != "/robots.txt")
            .count();
        assert_eq!(items, if why.is_none() { 20 } else { 0 });
    }
}

#[test]
fn each_host_has_its_rules_also_long_ones_behind_a_redirect() {
    // As long as a robots.txt of a site may be, with the rules at its end.
    let long = good(
        &(format!("# {}\n", "x".repeat(98)).repeat(2_000)
            + "User-agent: *\nDisallow: /b\nCrawl-delay: 0.002\n"),
    );
    let (here, there, folder) = (
        Requested::default(),
        Requested::default(),
        tempfile::tempdir().unwrap(),
    );
    let redirecting = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            let answer = match &*path {
                "/robots.txt" => {
                    "HTTP/1.1 301 Moved\r\nlocation: /rules.txt\r\ncontent-length: 0\r\n\r\n"
                }
                "/rules.txt" => &long,
                _ => OK,
            };
            peer.send(answer);
            *here.lock().unwrap().entry(path).or_default() += 1;
        }
    };
    let other = good("User-agent: *\nDisallow: /a\nCrawl-delay: 0.001\n");
    with_server(redirecting, |one| {
        with_server(serving(&other, &there), |two| {
            let urls = folder.path().join("urls");
            let lines = [one, two]
                .map(|host| format!("http://{host}/a\nhttp://{host}/b\n"))
                .concat();
            std::fs::write(&urls, lines).unwrap();
            let flags = "-n 4 --shards 2 -c 2 --robots honor --per-host-rate 50/s";
            let report = crawl(&format!("--urls {} {flags}", urls.display()));
            report.assert_states(&[("ok", 2), ("skipped", 2)]);
            // The limit that was asked for is the stricter one.
            assert_eq!(report.at("/robots/crawl_delay_s"), &json!(0.002));
            assert_eq!(
                report.at("/plan/per_host/rate"),
                &json!({"permits": 50, "period_ns": 1_000_000_000})
            );
        });
    });
    let paths = |requested: Requested| {
        requested
            .into_inner()
            .unwrap()
            .into_keys()
            .collect::<Vec<_>>()
    };
    assert_eq!(paths(here), ["/a", "/robots.txt", "/rules.txt"]);
    assert_eq!(paths(there), ["/b", "/robots.txt"]);
}

#[test]
fn of_a_host_without_an_answer_nothing_is_crawled_and_nothing_is_saved_as_skipped() {
    let (here, there, folder) = (
        Requested::default(),
        Requested::default(),
        tempfile::tempdir().unwrap(),
    );
    let (rules, broken) = (
        good("User-agent: *\nAllow: /\n"),
        "HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n",
    );
    with_server(serving(&rules, &here), |one| {
        with_server(serving(broken, &there), |two| {
            let urls = folder.path().join("urls");
            std::fs::write(
                &urls,
                [one, two].map(|host| format!("http://{host}/a\n")).concat(),
            )
            .unwrap();
            let line = format!(
                "--urls {} -n 2 -c 2 --robots honor --retries 0",
                urls.display()
            );
            let report = crawl(&line);
            report.assert_states(&[("ok", 1), ("skipped", 1)]);
            assert_eq!(report.count("/robots/unreachable"), 1);
            let saving = format!("{line} --save {}", folder.path().join("items").display());
            let ended = Run::start(saving.split(' ')).end();
            assert_eq!(ended.code(), Some(1), "{}", ended.stderr());
        });
    });
    assert_eq!(here.into_inner().unwrap()["/a"], 1);
    assert!(!there.into_inner().unwrap().contains_key("/a"));
}

#[test]
fn the_request_for_robots_txt_is_one_of_the_rate() {
    let (robots, arrivals, clock) = (
        good("User-agent: *\nAllow: /\n"),
        Mutex::new(Vec::new()),
        Clock::start(),
    );
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            arrivals.lock().unwrap().push(clock.now());
            peer.send(if path == "/robots.txt" { &robots } else { OK });
        }
    };
    with_server(serve, |address| {
        crawl(&format!(
            "http://{address}/{{id}} -n 1 --shards 1 -c 1 --rate 1/s --burst 1 --robots honor"
        ));
    });
    let arrivals = arrivals.into_inner().unwrap();
    assert_eq!(arrivals.len(), 2);
    // A second from one to the next, less what the first may have been late.
    let apart_ms = arrivals[1].since(arrivals[0]) / 1_000_000;
    assert!(apart_ms > 500, "{apart_ms} ms");
}

#[test]
fn a_run_that_robots_txt_forbids_altogether_measures_nothing() {
    let (robots, requested) = (good("User-agent: *\nDisallow: /\n"), Requested::default());
    with_server(serving(&robots, &requested), |address| {
        let line = format!("http://{address}/{{id}} -n 20 --shards 1 -c 4 --robots honor --strict");
        let report = Run::start(line.split(' ')).end().report(4);
        report.assert_states(&[("skipped", 20)]);
        assert_eq!(report.text("/validity/verdict"), "nothing_measured");
    });
}

#[test]
fn a_crawl_delay_is_the_rate_of_the_host() {
    let (robots, requested) = (
        good("User-agent: *\nCrawl-delay: 0.05\n"),
        Requested::default(),
    );
    with_server(serving(&robots, &requested), |address| {
        let report = crawl(&format!(
            "http://{address}/{{id}} -n 20 --shards 2 -c 4 --robots honor"
        ));
        report.assert_states(&[("ok", 20)]);
        assert_eq!(report.at("/robots/crawl_delay_s"), &json!(0.05));
        assert_eq!(
            report.at("/plan/per_host/rate"),
            &json!({"permits": 1, "period_ns": 50_000_000})
        );
        assert_eq!(
            report.at("/plan/workload/per_host_rate_from"),
            &json!("crawl-delay of robots.txt")
        );
        // 19 pauses of 50 ms, however fast the machine is; a burst may go at once.
        assert!(
            report.number("/totals/duration_s") > 0.8,
            "{}",
            report.number("/totals/duration_s")
        );
        let line = format!(
            "http://{address}/{{id}} -d 1s -R 60 --arrivals constant --shards 1 -c 4 --robots honor"
        );
        let ended = Run::start(line.split(' ')).end();
        let report = ended.report(0);
        let never_sent = report.finding("never_sent");
        assert_eq!(never_sent["limit"], "crawl_delay", "{never_sent}");
    });
}

#[test]
fn a_host_on_this_machine_is_not_asked_unless_it_is_to_be() {
    let (robots, requested) = (good("User-agent: *\nDisallow: /\n"), Requested::default());
    with_server(serving(&robots, &requested), |address| {
        let report = crawl(&format!("http://{address}/{{id}} -n 20 -c 4"));
        report.assert_states(&[("ok", 20)]);
        assert_eq!(report.json().get("robots"), None);
    });
    assert!(!requested.into_inner().unwrap().contains_key("/robots.txt"));
    let refused = call(std::path::Path::new("."), &["run", "--robots", "honor"]);
    assert_eq!(refused.code, Some(2));
    assert!(
        refused
            .stderr
            .contains("the bundled target has no robots.txt"),
        "{}",
        refused.stderr
    );
}
