//! `--robots`: what robots.txt forbids is not requested, counted, and recorded; its crawl-delay is
//! kept.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Mutex;

use crawlmark_harness::clock::Clock;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

use crate::command::call_line;
use crate::report::Report;
use crate::run::{crawl, ended};
use crate::scripted::{OK, Peer, with_server};

/// Rules that forbid items 1, 10 to 19 but for 15, and those that end with 7.
const RULES: &str = "User-agent: *\nDisallow: /\n\nUser-agent: CrawlMark\nDisallow: /items/1\n\
                     Allow: /items/15\nAllow: /items/2\nDisallow: /*7$\n";

/// Paths that were requested, with their counts.
#[derive(Default)]
struct Requested(Mutex<BTreeMap<String, u32>>);

impl Requested {
    /// Serve `robots` as robots.txt, and every other path.
    fn serve(&self, robots: &[u8], mut peer: Peer) {
        while let Some(path) = peer.request() {
            peer.send_bytes(if path == "/robots.txt" {
                robots
            } else {
                OK.as_bytes()
            });
            *self.0.lock().unwrap().entry(path).or_default() += 1;
        }
    }

    /// The paths of items, with that of robots.txt left out.
    fn items(self) -> Vec<String> {
        let mut requested = self.0.into_inner().unwrap();
        requested.remove("/robots.txt");
        requested.into_keys().collect()
    }
}

fn good(body: &str) -> String {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length:";
    format!("{head} {}\r\n\r\n{body}", body.len())
}

/// Crawl a server with these rules, and return the report and the paths that were requested.
#[track_caller]
fn crawl_with(rules: &str, line: &str) -> (Report, Vec<String>) {
    let (requested, rules) = (Requested::default(), good(rules));
    let report = with_server(
        |peer| requested.serve(rules.as_bytes(), peer),
        |address| crawl(&format!("http://{address}/items/{{id}} {line}")),
    );
    (report, requested.items())
}

fn is_forbidden(id: u64) -> bool {
    id != 15 && (id == 1 || (10..20).contains(&id) || id == 7)
        || id % 10 == 7 && !(20..30).contains(&id)
}

#[test]
fn what_robots_txt_forbids_is_skipped_counted_and_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("items");
    let flags = "--ids 0..60 --shards 2 -c 4 --robots honor --shuffle --save-bodies all --save";
    let (report, requested) = crawl_with(RULES, &format!("{flags} {}", place.display()));
    let (forbidden, allowed): (Vec<u64>, Vec<u64>) = (0..60).partition(|id| is_forbidden(*id));
    let [skipped, ok] = [&forbidden, &allowed].map(|ids| ids.len() as u64);
    report.assert_states(&[("ok", ok), ("skipped", skipped)]);
    report.holds(&json!({
        "/totals/attempts": ok, "/robots/requests": 1, "/robots/hosts/0/outcome": "rules",
    }));
    let mut expected: Vec<String> = allowed.iter().map(|id| format!("/items/{id}")).collect();
    expected.sort();
    assert_eq!(requested, expected);
    let verified = call_line(folder.path(), "verify items");
    assert_eq!(verified.code, Some(0), "{}", verified.stdout);
    let lines = call_line(folder.path(), "export items").stdout;
    let records: Vec<Value> = lines
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(records.len(), 60);
    for record in records {
        let is_forbidden = is_forbidden(record["id"].as_u64().unwrap());
        assert_eq!(
            record["outcome"],
            if is_forbidden { "skipped" } else { "ok" },
            "{record}"
        );
    }
    let again = call_line(folder.path(), "run --resume items");
    assert!(
        again.stderr.contains("nothing is left to crawl"),
        "{}",
        again.stderr
    );
}

#[test]
fn a_host_is_crawled_without_a_robots_txt_and_not_with_a_broken_one() {
    let empty =
        |status: &str| format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n").into_bytes();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::default());
    gzip.write_all(b"User-agent: *\nDisallow: /1\n").unwrap();
    let gzip = gzip.finish().unwrap();
    let coded = |coding: &str| {
        let head = "HTTP/1.1 200 OK\r\ncontent-encoding:";
        let head = format!("{head} {coding}\r\ncontent-length: {}\r\n\r\n", gzip.len());
        [head.as_bytes(), &gzip].concat()
    };
    let elsewhere = "301 Moved\r\nlocation: http://127.0.0.1:1/robots.txt";
    // The number of items that are crawled, or the reason why none is.
    for (robots, crawled) in [
        (empty("404 Not Found"), Ok(3)),
        (empty("403 Forbidden"), Ok(3)),
        (coded("gzip"), Ok(2)),
        (coded("x-unknown"), Err("status 200")),
        (empty("500 Oops"), Err("status 500")),
        (empty("429 Too Many Requests"), Err("status 429")),
        (empty(elsewhere), Err("status 301")),
    ] {
        let (requested, folder) = (Requested::default(), tempfile::tempdir().unwrap());
        with_server(
            |peer| requested.serve(&robots, peer),
            |address| {
                let save = folder.path().join("items");
                let flags = "-n 3 --shards 2 -c 2 --robots honor --retries 1 --backoff 1ms --save";
                let ended = ended(&format!(
                    "http://{address}/{{id}} {flags} {}",
                    save.display()
                ));
                let Err(why) = crawled else {
                    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
                    return;
                };
                assert!(
                    ended.code == Some(1) && ended.stderr.contains(why),
                    "{}",
                    ended.stderr
                );
                // Nothing of it is final.
                let verified = call_line(folder.path(), "verify items --json").stdout;
                assert!(verified.contains("\"recorded\": 0"), "{verified}");
            },
        );
        assert_eq!(requested.items().len(), crawled.unwrap_or(0));
    }
}

#[test]
fn each_host_has_its_rules_and_of_one_without_an_answer_nothing_is_crawled() {
    // As long as a robots.txt of a site may be, with the rules at its end.
    let rules = "User-agent: *\nDisallow: /b\nCrawl-delay: 0.002\n";
    let long = good(&(format!("# {}\n", "x".repeat(98)).repeat(2_000) + rules));
    let [here, there, broken] = [(); 3].map(|()| Requested::default());
    let redirecting = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            peer.send(match &*path {
                "/robots.txt" => {
                    "HTTP/1.1 301 X\r\nlocation: /rules.txt\r\ncontent-length: 0\r\n\r\n"
                }
                "/rules.txt" => &long,
                _ => OK,
            });
            *here.0.lock().unwrap().entry(path).or_default() += 1;
        }
    };
    let other = good("User-agent: *\nDisallow: /a\nCrawl-delay: 0.001\n");
    let oops = b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n";
    with_server(redirecting, |one| {
        with_server(
            |peer| there.serve(other.as_bytes(), peer),
            |two| {
                with_server(
                    |peer| broken.serve(oops, peer),
                    |three| {
                        let mut urls = NamedTempFile::new().unwrap();
                        for host in [one, two, three] {
                            write!(urls, "http://{host}/a\nhttp://{host}/b\n").unwrap();
                        }
                        let flags =
                            "-n 6 --shards 2 -c 6 --robots honor --per-host-rate 50/s --retries 0";
                        let line = format!("--urls {} {flags}", urls.path().display());
                        let report = crawl(&line);
                        report.assert_states(&[("ok", 2), ("skipped", 4)]);
                        let found = report.array("/findings");
                        let is_said = found.iter().any(|it| it["kind"] == "robots_unreachable");
                        assert!(is_said, "{found:?}");
                        report.holds(&json!({
                            "/robots/crawl_delay_s": 0.002, "/robots/unreachable": 1,
                            // The limit that was asked for is the stricter one.
                            "/plan/per_host/rate": {"permits": 50, "period_ns": 1_000_000_000},
                        }));
                        // Saved, what was not asked for would be final.
                        let place = tempfile::tempdir().unwrap();
                        let ended =
                            ended(&format!("{line} --save {}/items", place.path().display()));
                        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
                    },
                );
            },
        );
    });
    assert_eq!(here.items(), ["/a", "/rules.txt"]);
    assert_eq!(there.items(), ["/b"]);
    assert_eq!(broken.items(), Vec::<String>::new());
}

#[test]
fn the_request_for_robots_txt_is_one_of_the_rate() {
    let rules = good("User-agent: *\nAllow: /\n");
    let (arrivals, clock) = (Mutex::new(Vec::new()), Clock::start());
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            arrivals.lock().unwrap().push(clock.now());
            peer.send(if path == "/robots.txt" { &rules } else { OK });
        }
    };
    with_server(serve, |address| {
        let line = "-n 1 --shards 1 -c 1 --rate 1/s --burst 1 --robots honor";
        crawl(&format!("http://{address}/{{id}} {line}"));
    });
    let arrivals = arrivals.into_inner().unwrap();
    assert_eq!(arrivals.len(), 2);
    // A second from one to the next, less what the first may have been late.
    let apart_ms = arrivals[1].since(arrivals[0]) / 1_000_000;
    assert!(apart_ms > 500, "{apart_ms} ms");
}

#[test]
fn a_crawl_delay_is_the_rate_of_the_host() {
    let rules = "User-agent: *\nCrawl-delay: 0.05\n";
    let (report, _) = crawl_with(rules, "-n 20 --shards 2 -c 4 --robots honor");
    report.assert_states(&[("ok", 20)]);
    report.holds(&json!({
        "/robots/crawl_delay_s": 0.05,
        "/plan/per_host/rate": {"permits": 1, "period_ns": 50_000_000},
        "/plan/workload/per_host_rate_from": "crawl-delay of robots.txt",
    }));
    // 19 pauses of 50 ms, however fast the machine is; a burst may go at once.
    let took = report.number("/totals/duration_s");
    assert!(took > 0.8, "{took}");
    let line = "-d 1s -R 60 --arrivals constant --shards 1 -c 4 --robots honor";
    let (report, _) = crawl_with(rules, line);
    assert_eq!(report.finding("never_sent")["limit"], "crawl_delay");
    // A run that is forbidden altogether measures nothing; a host on this machine is not asked
    // unless it is to be.
    let rules = "User-agent: *\nDisallow: /\n";
    let (report, _) = crawl_with(rules, "-n 20 -c 4");
    report.assert_states(&[("ok", 20)]);
    assert_eq!(report.json().get("robots"), None);
    let forbidden = good(rules);
    let serve = |peer| Requested::default().serve(forbidden.as_bytes(), peer);
    let line = "-n 20 --shards 1 -c 4 --robots honor --strict";
    let ended = with_server(serve, |address| {
        ended(&format!("http://{address}/{{id}} {line}"))
    });
    let report = ended.report(4);
    report.assert_states(&[("skipped", 20)]);
    report.holds(&json!({"/validity/verdict": "nothing_measured"}));
}
