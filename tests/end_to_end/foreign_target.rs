//! The crawl against the `wiremock` crate: a target that nobody here wrote, whose record of what it
//! received is the second witness.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crawlmark_harness::clock::Clock;
use jiff::Timestamp;
use jiff::fmt::rfc2822::DateTimePrinter;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};
use wiremock::matchers::{any, body_json, header, method, path, path_regex};
use wiremock::{Mock, MockBuilder, MockServer, Request, Respond, ResponseTemplate};

use crate::command::call_line;
use crate::process::wait_for;
use crate::report::Report;
use crate::run::{ONE_ATTEMPT, crawl, crawl_once, ended, start};

/// A server with its mocks.
struct Foreign {
    runtime: Runtime,
    server: MockServer,
}

impl Foreign {
    fn start(mocks: impl IntoIterator<Item = Mock>) -> Self {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let server = runtime.block_on(async {
            let server = MockServer::builder().start().await;
            for mock in mocks {
                server.register(mock).await;
            }
            server
        });
        Self { runtime, server }
    }

    /// A server that answers every item.
    fn of_items(respond: impl Respond + 'static) -> Self {
        Self::start([items().respond_with(respond)])
    }

    /// The arguments of a crawl of its items.
    fn items(&self, flags: &str) -> String {
        format!("{}/items/{{id}} {flags}", self.server.uri())
    }

    /// What it received, but for what a crawl asks of its own accord.
    fn received(&self) -> Vec<Request> {
        let all = self.runtime.block_on(self.server.received_requests());
        let all = all.unwrap().into_iter();
        all.filter(|request| request.url.path() != "/robots.txt")
            .collect()
    }

    /// How often each item was received.
    fn requests_of_ids(&self) -> BTreeMap<u64, u64> {
        let mut counts = BTreeMap::new();
        for request in self.received() {
            *counts.entry(id_of(&request)).or_default() += 1;
        }
        counts
    }
}

/// Requests of items.
fn items() -> MockBuilder {
    Mock::given(path_regex(r"^/items/\d+$"))
}

/// The ID at the end of a request's path.
fn id_of(request: &Request) -> u64 {
    let path = request.url.path();
    path.rsplit('/').next().unwrap().parse().unwrap()
}

/// Each of these IDs, this often.
fn each(ids: u64, times: u64) -> BTreeMap<u64, u64> {
    (0..ids).map(|id| (id, times)).collect()
}

fn ok() -> ResponseTemplate {
    ResponseTemplate::new(200)
}

/// Answers an item's first request in another way than the later ones, and keeps when each came.
#[derive(Clone)]
struct Once {
    first: ResponseTemplate,
    times: Arc<Mutex<BTreeMap<u64, Vec<Timestamp>>>>,
}

impl Once {
    fn new(first: ResponseTemplate) -> Self {
        Self {
            first,
            times: Arc::default(),
        }
    }
}

impl Respond for Once {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let mut times = self.times.lock().unwrap();
        let of_item = times.entry(id_of(request)).or_default();
        of_item.push(Timestamp::now());
        if of_item.len() == 1 {
            self.first.clone()
        } else {
            ok()
        }
    }
}

#[test]
fn every_item_is_received_once_as_it_was_meant() {
    let mock = Mock::given(method("POST"))
        .and(header("x-key", "a b"))
        .and(header("content-type", "application/json"))
        .and(body_json(json!({"of": "all"})))
        .respond_with(ResponseTemplate::new(201).set_body_string("made"));
    let target = Foreign::start([mock]);
    let flags = r#"-n 300 -s 2 -c 8 -m POST -H 'x-key: a b' --json-body '{"of": "all"}'"#;
    let report = crawl_once(&target.items(flags));
    report.assert_states(&[("ok", 300)]);
    report.holds(&json!({"/totals/attempts": 300, "/totals/attempts_by_status": {"201": 300}}));
    assert_eq!(target.requests_of_ids(), each(300, 1));
}

#[test]
fn a_wait_is_kept_as_seconds_and_as_a_date() {
    let now = Timestamp::now();
    // A date has no parts of a second.
    let until = Timestamp::from_second(now.as_second() + 2).unwrap();
    let date = DateTimePrinter::new()
        .timestamp_to_rfc9110_string(&until)
        .unwrap();
    let in_1_s = now + Duration::from_secs(1);
    for (wait, until) in [("1", in_1_s), (&*date, until)] {
        let once = Once::new(ResponseTemplate::new(429).insert_header("retry-after", wait));
        let target = Foreign::of_items(once.clone());
        let report = crawl(&target.items("-n 1 -s 1 -c 1"));
        report.assert_states(&[("ok", 1)]);
        report.holds(&json!({"/totals/throttled": 1, "/totals/attempts": 2}));
        assert_eq!(target.requests_of_ids(), each(1, 2));
        let times = once.times.lock().unwrap();
        let second = times[&0][1];
        assert!(second >= until, "{wait}: at {second}, before {until}");
    }
}

#[test]
fn what_is_unavailable_for_a_moment_is_asked_again() {
    let once = Once::new(ResponseTemplate::new(503));
    let target = Foreign::of_items(once);
    let flags = "-n 40 -s 2 -c 4 --retries 1 --retry-budget 100% --backoff 40ms,40ms";
    let report = crawl(&target.items(flags));
    report.assert_states(&[("ok", 40)]);
    report.holds(&json!({
        "/totals/retries": 40,
        "/totals/attempts_by_status": {"200": 40, "503": 40},
    }));
    assert_eq!(target.requests_of_ids(), each(40, 2));
}

#[test]
fn what_is_held_longer_than_the_timeout_times_out() {
    let target = Foreign::of_items(|request: &Request| {
        if id_of(request).is_multiple_of(4) {
            ok().set_delay(Duration::from_hours(1))
        } else {
            ok()
        }
    });
    // Enough for an answer on a machine with other work, and far below the hold.
    let flags = format!("-n 20 -s 1 -c 20 --timeout 2s {ONE_ATTEMPT}");
    let report = ended(&target.items(&flags)).report(0);
    report.assert_states(&[("ok", 15), ("failed", 5)]);
    report.holds(&json!({"/totals/errors_by_kind": {"timeout": 5}}));
    assert_eq!(target.requests_of_ids(), each(20, 1));
}

#[test]
fn redirects_are_followed_and_each_place_is_received_once() {
    let away = items().respond_with(|request: &Request| {
        let to = format!("/moved/{}", id_of(request));
        ResponseTemplate::new(302).insert_header("location", to)
    });
    let there = Mock::given(path_regex(r"^/moved/\d+$")).respond_with(ok());
    let target = Foreign::start([away, there]);
    let report = crawl_once(&target.items("-n 50 -s 1 -c 4 --follow 2"));
    report.assert_states(&[("ok", 50)]);
    assert_eq!(target.requests_of_ids(), each(50, 2));
    let moved = target.received().into_iter();
    let moved = moved.filter(|request| request.url.path().starts_with("/moved/"));
    assert_eq!(moved.count(), 50);
}

#[test]
fn a_cookie_comes_back_on_the_requests_after_it() {
    let first = Mock::given(any()).respond_with(ok().insert_header("set-cookie", "s=1; Path=/"));
    let target = Foreign::start([first]);
    let report = crawl_once(&target.items("-n 30 -s 1 -c 1 --cookies"));
    report.assert_states(&[("ok", 30)]);
    let cookies = target.received().into_iter();
    let cookies: Vec<Option<String>> = cookies
        .map(|request| Some(request.headers.get("cookie")?.to_str().unwrap().to_owned()))
        .collect();
    let mut expected = vec![Some("s=1".to_owned()); 30];
    expected[0] = None;
    assert_eq!(cookies, expected);
}

#[test]
fn a_budget_is_kept_by_the_times_of_receipt() {
    const RATE: f64 = 100.0;
    for (flags, burst) in [("-s 1 --burst 1", 1), ("-s 2 --burst 8", 8)] {
        let times: Arc<Mutex<Vec<f64>>> = Arc::default();
        let (log, clock) = (times.clone(), Clock::start());
        let target = Foreign::of_items(move |_: &Request| {
            let at = Duration::from_nanos(clock.now().0);
            log.lock().unwrap().push(at.as_secs_f64());
            ok()
        });
        let report = crawl_once(&target.items(&format!("-n 150 -c 8 --rate 100/s {flags}")));
        report.assert_states(&[("ok", 150)]);
        // A request may come late, never early: by any time after the start no more have come than
        // the budget gave.
        for (number, at) in times.lock().unwrap().iter().enumerate() {
            let allowed = at * RATE + f64::from(burst);
            let received = (number + 1) as f64;
            assert!(received <= allowed, "{flags}: {received} of {allowed}");
        }
    }
}

#[test]
fn a_saved_crawl_that_is_stopped_and_resumed_has_each_body_once() {
    let served = |request: &Request| {
        let body = format!("body of {}", id_of(request));
        ok().set_body_string(body)
            .set_delay(Duration::from_millis(20))
    };
    let target = Foreign::of_items(served);
    let run = start(&target.items("-n 120 -s 2 -c 4 --save items"));
    wait_for("some items", || {
        (target.received().len() >= 20).then_some(())
    });
    run.signal(Signal::SIGINT);
    let done = run.end().code(&[130]);
    let place = done.work();
    let _ = call_line(&place, "run --resume items --quiet").code(&[0]);
    let export = call_line(&place, "export items").code(&[0]);
    let records = export.stdout.lines().map(|line| {
        let record: Value = serde_json::from_str(line).unwrap();
        (
            record["id"].as_u64().unwrap(),
            record["body"].as_str().unwrap().to_owned(),
        )
    });
    let expected = (0..120).map(|id| (id, format!("body of {id}")));
    let mut records: Vec<(u64, String)> = records.collect();
    records.sort();
    assert!(records.into_iter().eq(expected));
    let received = target.requests_of_ids();
    assert_eq!(received.len(), 120);
    // Those that were under way when it was stopped may have been asked twice, no other.
    assert!(received.values().sum::<u64>() <= 128);
}

#[test]
fn a_flow_sends_what_it_was_told() {
    let login = Mock::given(method("POST"))
        .and(path("/login"))
        .respond_with(|request: &Request| {
            let user: Value = request.body_json().unwrap();
            ok().set_body_json(json!({"token": format!("t{}", user["user"])}))
        });
    let item = items().respond_with(|request: &Request| {
        let sent = request.headers.get("authorization");
        let wanted = format!("Bearer t{}", id_of(request));
        let is_known = sent.is_some_and(|sent| *sent == *wanted);
        ResponseTemplate::new(if is_known { 200 } else { 401 })
    });
    let target = Foreign::start([login, item]);
    let file = tempfile::NamedTempFile::new().unwrap();
    let line = json!({
        "method": "POST", "url": "/login", "body_text": "{\"user\": {id}}",
        "extract": {"token": "json:/token"},
        "then": [{"url": "/items/{id}", "header": {"authorization": "Bearer {token}"}}],
    });
    fs::write(file.path(), line.to_string()).unwrap();
    let flags = format!(
        "--requests-file {} --ids 0..80 -s 2 -c 8",
        file.path().display()
    );
    let report: Report = crawl_once(&format!("{} {flags}", target.server.uri()));
    report.assert_states(&[("ok", 80)]);
    let received = target.received().into_iter();
    let (logins, items): (Vec<Request>, Vec<Request>) =
        received.partition(|request| request.url.path() == "/login");
    assert_eq!((logins.len(), items.len()), (80, 80));
}
