//! Several requests per item (`then`, `next` of a request file): sent in order with values of
//! responses, each under every limit, and the item ends once. The servers are the test's own, and
//! what they received is the witness.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::Mutex;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::process::{signal, wait_for};
use crate::report::{Report, counts};
use crate::requests::gzip;
use crate::run::{crawl, ended, start};
use crate::scripted::{Peer, with_server};
use crate::stubs::{flags, stubs};
use crate::target::Target;

/// Three requests: a value of a body, one of a header, and one of a pattern.
const STEPS: &str = r#"{"url": "/login/{id}", "extract": {"token": "json:/user/token"}, "then": [
    {"url": "/list/{token}?of={id}", "header": {"authorization": "Bearer {id}-{token}"}, "extract": {"place": "header:X-Place", "n": "regex:n=(\\d+)"}},
    {"method": "POST", "url": "/item/{place}", "body_text": "{\"id\": {id}, \"n\": {n}, \"t\": \"{token}\"}"}]}"#;

/// A header of a request.
fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    let mut lines = request.lines();
    lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// A target whose requests are known.
#[derive(Default)]
struct Log(Mutex<Vec<String>>);

impl Log {
    /// Answer the three requests of an item, each of which needs the one before it.
    fn serve(&self, mut peer: Peer) {
        while let Some(request) = peer.request_with_body() {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let (head, body) = match path.split('/').nth(1).unwrap() {
                "login" => {
                    let id = path.rsplit('/').next().unwrap();
                    let token = json!({"user": {"token": format!("t/{id} ?&")}});
                    (String::new(), token.to_string())
                }
                "list" => {
                    let id = path.rsplit('=').next().unwrap();
                    assert_eq!(path, format!("/list/t%2F{id}%20%3F%26?of={id}"));
                    let sent = header(&request, "authorization").unwrap();
                    assert_eq!(sent, format!("Bearer {id}-t/{id} ?&"));
                    (format!("x-place: p{id}\r\n"), format!("n=1{id};"))
                }
                _ => {
                    let id = path.rsplit("/p").next().unwrap();
                    let body = format!("{{\"id\": {id}, \"n\": 1{id}, \"t\": \"t/{id} ?&\"}}");
                    assert!(request.starts_with("POST ") && request.ends_with(&body));
                    (String::new(), "done".to_owned())
                }
            };
            let seen = |log: &Vec<String>| log.iter().filter(|other| **other == path).count();
            let is_first = {
                let mut log = self.0.lock().unwrap();
                log.push(path.clone());
                seen(&log) == 1
            };
            // Each seventh list is throttled once.
            let is_unlucky = is_first && path.starts_with("/list") && path.ends_with('7');
            let status = if is_unlucky { 429 } else { 200 };
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\n{head}content-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    }

    /// Number of requests of each kind.
    fn kinds(&self) -> BTreeMap<String, u64> {
        let mut kinds = BTreeMap::new();
        for path in self.0.lock().unwrap().iter() {
            let kind = path.split('/').nth(1).unwrap().to_owned();
            *kinds.entry(kind).or_default() += 1;
        }
        kinds
    }

    fn requests(&self) -> u64 {
        self.0.lock().unwrap().len() as u64
    }
}

/// Crawl with a file of one line.
fn crawl_file(text: &str, line: &str) -> Report {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), text.replace('\n', " ")).unwrap();
    crawl(&format!("--requests-file {} {line}", file.path().display()))
}

#[test]
fn an_item_sends_its_requests_in_order_and_a_retry_repeats_one_of_them() {
    let log = Log::default();
    with_server(
        |peer| log.serve(peer),
        |address| {
            let flags =
                "--ids 0..100 -s 1 -c 8 --retries 1 --retry-budget 100% --threshold retry_rate<5%";
            let report = crawl_file(STEPS, &format!("http://{address} {flags}"));
            report.assert_states(&[("ok", 100)]);
            report.holds(&json!({
                "/totals/attempts": 310, "/totals/attempts_sent": 310, "/totals/steps": 200,
                "/totals/throttled": 10, "/totals/retries": 210, "/latency/service/count": 300,
            }));
            // Neither a step nor its next request is wasted, or a retry.
            assert!((report.number("/throttling/wasted_share") - 10.0 / 310.0).abs() < 1e-9);
            let by_template = report.array("/by_template");
            let ok: Vec<&Value> = by_template.iter().map(|row| &row["ok"]).collect();
            assert_eq!(ok, [100, 100, 100]);
            let attempts: Vec<&Value> = by_template.iter().map(|row| &row["attempts"]).collect();
            assert_eq!(attempts, [100, 110, 100]);
        },
    );
    let kinds = [("item", 100), ("list", 110), ("login", 100)];
    assert!(
        log.kinds()
            .into_iter()
            .eq(kinds.map(|(kind, count)| (kind.to_owned(), count)))
    );
}

#[test]
fn items_go_over_each_version_and_as_calls() {
    let stubbed = json!([
        {"request": {"urlPath": "/login"}, "response": {"body": "token=t1;"}},
        {
            "request": {"urlPath": "/read", "headers": {"authorization": {"equalTo": "Bearer t1"}}},
            "response": {"body": "read"},
        },
    ]);
    let line = r#"{"url": "/login?{id}", "extract": {"token": "regex:token=(\\w+)"}, "then": [{"url": "/read?{id}", "header": {"authorization": "Bearer {token}"}}]}"#;
    let root = stubs(&stubbed);
    for (version, calls) in [
        ("1.1", ""),
        ("2", ""),
        ("2", "--expect grpc"),
        #[cfg(feature = "http3")]
        ("3", ""),
        #[cfg(feature = "http3")]
        ("3", "--expect grpc"),
    ] {
        let http3 = if version == "3" { "--http 3" } else { "" };
        let served = format!("--processes 1 --tls {http3} --limit 200/s:burst=20");
        let target = Target::start(&flags(&root, &served));
        let report = crawl_file(
            line,
            &format!(
                "{} -k --http {version} {calls} --ids 0..100 -s 1 -c 4 --retry-budget 100%",
                target.origin()
            ),
        );
        report.assert_states(&[("ok", 100)]);
        let throttled = report.count("/totals/throttled");
        assert!(throttled > 0, "{version} {calls}");
        report.holds(&json!({
            "/totals/steps": 100, "/totals/attempts": 200 + throttled,
            "/totals/retries": 100 + throttled,
            "/totals/events": if calls.is_empty() { 0 } else { 200 },
        }));
        let ledger = target.stop();
        assert_eq!(report.statuses(), counts(&ledger["by_status"]));
    }
}

#[test]
fn a_login_of_a_shard_is_repeated_when_it_fails_or_has_expired() {
    const USES: usize = 40;
    // Logins, and good reads.
    let log = Mutex::new((0, 0));
    let serve = |mut peer: Peer| {
        while let Some(request) = peer.request_with_body() {
            let (logins, reads) = &mut *log.lock().unwrap();
            let (status, body) = if request.starts_with("GET /login") {
                *logins += 1;
                let status = if *logins == 1 { 500 } else { 200 };
                (status, format!("token=t{logins};"))
            } else {
                let is_known = header(&request, "authorization") == Some(&format!("t{logins}"));
                // The first token is used so often, so that no item is refused twice.
                let is_good = is_known && (*logins > 2 || *reads < USES);
                *reads += usize::from(is_good);
                (if is_good { 200 } else { 401 }, String::new())
            };
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    };
    let line = r#"{"url": "/login/{id}", "once": "shard", "extract": {"t": "regex:token=(\\w+)"}, "then": [{"url": "/read/{id}", "header": {"authorization": "{t}"}}]}"#;
    with_server(serve, |address| {
        let report = crawl_file(line, &format!("http://{address} --ids 0..100 -s 1 -c 8"));
        report.assert_states(&[("ok", 100)]);
        let (logins, reads) = *log.lock().unwrap();
        assert_eq!((logins, reads), (3, 100));
        let refused = report.count("/totals/rejected_by_status/401");
        report.holds(&json!({
            "/totals/attempts": 103 + refused, "/totals/steps": 2,
            "/totals/rejected_by_status/500": 1,
        }));
        assert!((1..=8).contains(&refused), "{refused}");
        let [logins, reads] = report.array("/by_template") else {
            panic!("two rows")
        };
        assert_eq!(logins["attempts"], json!(3));
        assert_eq!(reads["attempts"], json!(100 + refused));
    });
}

#[test]
fn each_request_is_under_the_limits_of_its_own_host() {
    let targets = [(); 3].map(|()| Target::start("--processes 1"));
    let [one, other, last] = targets.each_ref().map(Target::url);
    let then = |first: String| {
        let url = |n| format!("{{\"url\": \"{last}?n={n}\"}}");
        let steps = [1, 2].map(url).join(",");
        format!("{{\"url\": \"{first}\", \"then\": [{steps}]}}\n")
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), [one, other].map(then).concat()).unwrap();
    let flags = "-n 60 -s 1 -c 8 --per-host-rate 100/s";
    let report = crawl(&format!(
        "--requests-file {} {flags}",
        file.path().display()
    ));
    report.assert_states(&[("ok", 60)]);
    let by_host = report.array("/by_host");
    assert_eq!(by_host.len(), 3);
    let [one, other, last] = targets;
    for (target, row) in [one, last, other].into_iter().zip(by_host) {
        let ledger = target.stop();
        assert_eq!(row["attempts"], ledger["requests"], "{row}");
        let busiest = ledger["busiest"]["1s"]["admitted"].as_u64().unwrap();
        assert!(busiest <= 100 + 4, "{ledger}");
    }
}

#[test]
fn a_value_that_is_missing_or_cannot_be_sent_fails_its_item_once() {
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            let body = match path.rsplit('/').next().unwrap() {
                "0" => "{}".to_owned(),
                "1" => r#"{"a": [1]}"#.to_owned(),
                "2" => r#"{"a": "x\r\ny"}"#.to_owned(),
                "3" => format!(r#"{{"a": "{}"}}"#, "x".repeat(70_000)),
                "4" => format!(r#"{{"a": 1, "b": "{}"}}"#, "x".repeat(1 << 20)),
                "5" => "[".repeat(100_000),
                _ => r#"{"a": true}"#.to_owned(),
            };
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    };
    let file = r#"{"url": "/x/{id}", "extract": {"a": "json:/a"}, "then": [{"url": "/y", "header": {"x-a": "{a}"}}]}"#;
    with_server(serve, |address| {
        let report = crawl_file(file, &format!("http://{address} --ids 0..8 -s 1 -c 1"));
        report.assert_states(&[("ok", 2), ("failed", 6)]);
        report.holds(&json!({
            "/totals/attempts": 10, "/totals/retries": 2, "/totals/steps": 2,
            "/totals/errors_by_kind": {"extract_failed": 6},
        }));
        let details = report.text("/failures/extract_failed/details");
        assert!(
            details.contains("{a}") && details.contains("json:/a"),
            "{details}"
        );
    });
}

#[test]
fn pages_are_followed_to_the_last_and_endless_ones_to_their_bound() {
    let log = Mutex::new(Vec::new());
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            log.lock().unwrap().push(path.clone());
            let (kind, number) = path[1..].split_once('/').unwrap();
            let number: u64 = number.parse().unwrap();
            let (link, body) = match kind {
                "endless" => (String::new(), json!({"next": (number + 1).to_string()})),
                "json" if number % 10 < 3 => {
                    (String::new(), json!({"next": (number + 1).to_string()}))
                }
                "link" if number % 10 < 3 => {
                    let link = format!("link: </x>; rel=prev, <{}>; rel=\"next\"\r\n", number + 1);
                    (link, json!({}))
                }
                "away" => (String::new(), json!({"next": "http://other.test/"})),
                _ => (String::new(), json!({"next": null})),
            };
            let body = body.to_string();
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\n{link}content-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    };
    with_server(serve, |address| {
        for (kind, next, pages, requests, is_good) in [
            ("json", "json:/next", 9, 4, true),
            ("link", "link", 9, 4, true),
            ("json", "json:/next", 2, 2, true),
            ("endless", "json:/next", 50, 50, true),
            ("away", "json:/next", 9, 1, false),
            ("json", "json:/more", 9, 1, true),
        ] {
            log.lock().unwrap().clear();
            let line = json!({"url": format!("/{kind}/{{id}}0"), "next": next, "pages": pages});
            let flags = format!("http://{address} --ids 1..5 -s 1 -c 2");
            let report = crawl_file(&line.to_string(), &flags);
            report.assert_states(&[(if is_good { "ok" } else { "failed" }, 4)]);
            let cut = if requests == pages { 4 } else { 0 };
            let (followed, without) =
                (4 * (requests - 1), if next == "json:/more" { 4 } else { 0 });
            report.holds(&json!({
                "/totals/attempts": 4 * requests, "/totals/pages_followed": followed, "/totals/pages_cut": cut,
                "/totals/pages_without_next": without,
            }));
            assert_eq!(report.has_finding("pages_cut"), cut > 0);
            assert_eq!(report.has_finding("next_not_found"), without > 0);
            assert_eq!(log.lock().unwrap().len(), 4 * requests, "{kind}");
        }
    });
}

/// Items of the list of an item, in pages of two.
fn list_of(id: u64) -> Vec<Value> {
    (0..id)
        .map(|n| json!({"id": format!("{id}/{n}&")}))
        .collect()
}

#[test]
fn later_requests_are_sent_for_each_item_of_a_list_over_pages_with_a_cursor() {
    let log = Mutex::new(Vec::new());
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            log.lock().unwrap().push(path.clone());
            let mut body = "{}".to_owned();
            if let Some(rest) = path.strip_prefix("/list?of=") {
                let (id, cursor) = rest.split_once("&c=").unwrap_or((rest, ""));
                let (id, at) = (id.parse().unwrap(), cursor.parse().unwrap_or(0));
                let items = list_of(id);
                let items = items.chunks(2).nth(at).unwrap_or_default();
                let is_last = (at + 1) * 2 >= usize::try_from(id).unwrap();
                // As services say that there is no other page.
                let none = [json!(null), json!(false), json!(""), json!([]), json!({})];
                let next = if is_last {
                    none[at % 5].clone()
                } else {
                    json!(at + 1)
                };
                body = format!("\u{feff}{}", json!({"items": items, "next": next}));
            }
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    };
    let line = r#"{"url": "/list?of={id}", "extract": {"cursor": "json:/next", "i": "json:/items/*/id"}, "next": "/list?of={id}&c={cursor}", "pages": 9,
        "then": [{"url": "/read/{i}"}, {"url": "/likes?of={i}"}]}"#;
    with_server(serve, |address| {
        let report = crawl_file(line, &format!("http://{address} --ids 0..12 -s 1 -c 3"));
        report.assert_states(&[("ok", 12)]);
        let log = log.lock().unwrap();
        report.holds(&json!({"/totals/attempts": log.len(), "/totals/steps": log.len() - 12}));
        for id in 0..12_u64 {
            let pages = (1..id.div_ceil(2)).map(|at| format!("/list?of={id}&c={at}"));
            let items = (0..id)
                .flat_map(|n| ["/read/", "/likes?of="].map(|at| format!("{at}{id}%2F{n}%26")));
            let first = std::iter::once(format!("/list?of={id}"));
            let expected: Vec<_> = first.chain(pages).chain(items).collect();
            let is_of_item = |path: &&String| expected.contains(path);
            let sent: Vec<_> = log.iter().filter(is_of_item).cloned().collect();
            assert_eq!(sent, expected);
        }
    });
}

#[test]
fn a_response_that_is_compressed_unasked_is_named_where_its_content_is_read() {
    let serve = |mut peer: Peer| {
        while peer.head().is_some() {
            let body = gzip(br#"{"a": 1}"#);
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
                body.len()
            ));
            peer.send_bytes(&body);
        }
    };
    let taking = r#"{"url": "/a/{id}", "extract": {"a": "json:/a"}, "then": [{"url": "/b/{a}"}]}"#;
    let plain = r#"{"url": "/a/{id}"}"#;
    with_server(serve, |address| {
        for (line, flags, is_good) in [
            (taking, "", false),
            (plain, "--expect json", false),
            (plain, "--expect json:/a", false),
            (plain, "--expect not-json:/errors", false),
            (plain, "", true),
            (plain, "--expect len:1-", true),
            (plain, "--expect status:200", true),
            (
                taking,
                "--compressed --expect json:/a --expect not-json:/errors",
                true,
            ),
        ] {
            let flags = format!("http://{address} --ids 0..4 -s 1 -c 1 {flags}");
            let report = crawl_file(line, &flags);
            report.assert_states(&[(if is_good { "ok" } else { "failed" }, 4)]);
            if !is_good {
                report.holds(&json!({"/totals/errors_by_kind": {"bad_encoding": 4}}));
            }
        }
    });
}

#[test]
fn a_saved_crawl_that_is_killed_repeats_the_items_that_were_under_way_from_their_first_request() {
    const ITEMS: u64 = 2_000;
    let (place, log) = (tempfile::tempdir().unwrap(), Log::default());
    let (file, items) = (place.path().join("steps"), place.path().join("items"));
    fs::write(&file, STEPS.replace('\n', " ")).unwrap();
    with_server(
        |peer| log.serve(peer),
        |address| {
            let begin = format!(
                "http://{address} --requests-file {} --ids 0..{ITEMS} -s 2 -c 8 --save {}",
                file.display(),
                items.display()
            );
            let run = start(&begin);
            wait_for("requests", || (log.requests() > 2 * ITEMS).then_some(()));
            signal(run.pid(), Signal::SIGKILL);
            let killed = run.end();
            assert_eq!(killed.code, None);
            killed.wait_for_its_processes();
            let resume = format!(
                "--resume {} --requests-file {}",
                items.display(),
                file.display()
            );
            let resumed = ended(&resume).report(0);
            resumed.holds(&json!({"/saved/saved": ITEMS}));
        },
    );
    let records = ids(&items);
    assert!(records.iter().copied().eq(0..ITEMS), "{}", records.len());
    // Every item was sent whole; what was under way was sent again, at most one for each connection
    // and those whose records were not written yet.
    let kinds = log.kinds();
    assert!(kinds.values().all(|count| *count >= ITEMS), "{kinds:?}");
    assert!(kinds["login"] >= kinds["item"], "{kinds:?}");
}

/// The IDs of all records, in order.
fn ids(directory: &Path) -> Vec<u64> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "zst") {
            let lines = zstd::decode_all(fs::File::open(&path).unwrap()).unwrap();
            for line in String::from_utf8(lines).unwrap().lines() {
                let record: Value = serde_json::from_str(line).unwrap();
                assert_eq!(record["outcome"], "ok");
                ids.push(record["id"].as_u64().unwrap());
            }
        }
    }
    ids.sort_unstable();
    ids
}

#[test]
fn a_file_with_a_request_that_cannot_be_sent_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("steps");
    for line in [
        r#"{"url": "/a", "then": [{"url": "/{token}"}]}"#,
        r#"{"url": "/a/{token}", "extract": {"token": "json:/a"}, "then": []}"#,
        r#"{"url": "/a", "extract": {"id": "json:/a"}}"#,
        r#"{"url": "/a", "extract": {"a": "xpath:/a"}}"#,
        r#"{"url": "/a", "extract": {"a": "regex:("}}"#,
        r#"{"url": "/a", "next": "link"}"#,
        r#"{"url": "/a", "pages": 2}"#,
        r#"{"url": "/a", "once": "shard"}"#,
        r#"{"url": "/a", "once": "run", "then": [{"url": "/b"}]}"#,
        r#"{"url": "/a", "once": "shard", "save": true, "then": [{"url": "/b"}]}"#,
        r#"{"url": "/a", "then": [{"url": "/b", "weight": 2}]}"#,
        r#"{"url": "/a", "then": [{"url": "/b", "then": []}]}"#,
        r#"{"url": "/a", "extract": {"a": "json:/a"}, "then": [{"url": "http://{a}/b"}]}"#,
    ] {
        fs::write(&file, line).unwrap();
        let refused = ended(&format!(
            "http://127.0.0.1:1 --requests-file {}",
            file.display()
        ));
        assert_eq!(refused.code, Some(2), "{line}: {}", refused.stderr);
    }
    // Cookies are those of a connection, a login that of a shard.
    let line = r#"{"url": "/a", "once": "shard", "then": [{"url": "/b"}]}"#;
    fs::write(&file, line).unwrap();
    let flags = format!("--cookies --requests-file {}", file.display());
    assert_eq!(ended(&format!("http://127.0.0.1:1 {flags}")).code, Some(2));
}

/// A target that counts requests by path, and responds with these statuses in turn, the last one
/// again and again.
fn counting(
    statuses: &'static [u16],
    body: &'static str,
) -> (impl Fn(Peer) + Sync, &'static Counts) {
    let counts: &'static Counts = Box::leak(Box::default());
    let serve = move |mut peer: Peer| {
        while let Some(path) = peer.request_with_body() {
            let path = path.split(' ').nth(1).unwrap().to_owned();
            let turn = {
                let mut counts = counts.lock().unwrap();
                let count = counts.entry(path.clone()).or_default();
                *count += 1;
                *count - 1
            };
            let status = statuses[turn.min(statuses.len() - 1)];
            let status = if path.starts_with("/login") {
                status
            } else {
                200
            };
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            ));
        }
    };
    (serve, counts)
}

/// Requests by path.
type Counts = Mutex<BTreeMap<String, usize>>;

#[test]
fn a_crawl_that_asks_for_something_else_is_not_resumed() {
    const LINE: &str = r#"{"method": "POST", "url": "/a/{id}?k=v&token=1", "header": {"x-a": "1", "authorization": "one"}, "body_text": "b", "extract": {"t": "json:/t"}, "then": [{"url": "/b/{t}", "next": "link", "pages": 3}]}"#;
    let (serve, counts) = counting(&[200], "{}");
    with_server(serve, |address| {
        let place = tempfile::tempdir().unwrap();
        let (file, saved) = (place.path().join("flow"), place.path().join("items"));
        let resumed = |line: &str| {
            fs::write(&file, line).unwrap();
            let (file, saved) = (file.display(), saved.display());
            ended(&format!("--resume {saved} --requests-file {file}")).code
        };
        fs::write(&file, LINE).unwrap();
        // No response has the value: all items fail.
        let begin = format!(
            "http://{address} --ids 0..4 -s 1 --requests-file {} --save {}",
            file.display(),
            saved.display()
        );
        assert_ne!(ended(&begin).code, Some(2));
        let sent = || counts.lock().unwrap().values().sum::<usize>();
        let before = sent();
        for (was, is) in [
            ("POST", "PUT"),
            ("/a/{id}", "/c/{id}"),
            ("k=v", "k=w"),
            ("\"x-a\": \"1\"", "\"x-a\": \"2\""),
            ("\"b\"", "\"c\""),
            ("json:/t", "json:/u"),
            ("/b/{t}", "/c/{t}"),
            ("\"link\"", "\"json:/next\""),
            ("\"pages\": 3", "\"pages\": 4"),
            ("\"pages\": 3", "\"pages\": 3, \"save\": false"),
            ("]}", "], \"once\": \"shard\"}"),
        ] {
            let changed = LINE.replacen(was, is, 1);
            assert_ne!(changed, LINE);
            assert_eq!(resumed(&changed), Some(2), "{changed}");
        }
        assert_eq!(sent(), before);
        // Credentials are renewed.
        let renewed = LINE.replace("one", "two").replace("token=1", "token=2");
        assert_ne!(resumed(&renewed), Some(2));
        assert_eq!(sent(), before + 4);
    });
}

/// A login of a shard, and a request with its token.
const LOGIN: &str = r#"{"method": "POST", "url": "/login", "once": "shard", "extract": {"token": "json:/token"}, "then": [{"method": "GET", "url": "/read?{token}&{id}"}]}"#;

#[test]
fn a_login_that_failed_for_good_ends_the_run_and_its_items_are_left_for_another() {
    const TOKEN: &str = r#"{"token": 1}"#;
    const CLOSED: (u16, &str) = (0, "");
    for (method, failures, is_good) in [
        ("GET", &[(403, TOKEN)][..], false),
        ("GET", &[(200, "{}")], false),
        ("GET", &[(404, TOKEN)], false),
        ("GET", &[(500, TOKEN); 3], false),
        ("GET", &[(500, TOKEN), (429, TOKEN), (500, TOKEN)], true),
        ("GET", &[CLOSED], true),
        ("POST", &[(429, TOKEN)], true),
        // It may have had an effect.
        ("POST", &[(502, TOKEN)], false),
        ("POST", &[CLOSED], false),
        // The user says that it has none.
        ("POST", &[(503, TOKEN)], true),
    ] {
        // Logins, and reads by their paths.
        let log = Mutex::new((0, Vec::new()));
        let serve = |mut peer: Peer| {
            while let Some(request) = peer.request_with_body() {
                let path = request.split(' ').nth(1).unwrap().to_owned();
                let (logins, reads) = &mut *log.lock().unwrap();
                let (status, body) = if path == "/login" {
                    *logins += 1;
                    failures.get(*logins - 1).copied().unwrap_or((200, TOKEN))
                } else {
                    reads.push(path);
                    (200, "")
                };
                if status == CLOSED.0 {
                    return;
                }
                let length = body.len();
                peer.send(&format!(
                    "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n\r\n{body}"
                ));
            }
        };
        let place = tempfile::tempdir().unwrap();
        let (file, saved) = (place.path().join("flow"), place.path().join("items"));
        fs::write(&file, LOGIN.replace("POST", method)).unwrap();
        let (file, saved) = (file.display(), saved.display());
        let flags = format!(
            "--requests-file {file} -c 8 --retries 2 --retry-on 503 --backoff 1ms,2ms --retry-budget 100%"
        );
        with_server(serve, |address| {
            let code = if is_good { 0 } else { 4 };
            let report = ended(&format!(
                "http://{address} --ids 0..200 -s 1 --save {saved} {flags}"
            ))
            .report(code);
            let sent = {
                let (logins, reads) = &*log.lock().unwrap();
                logins + reads.len()
            };
            report.holds(
                &json!({"/totals/shared_failed": u64::from(!is_good), "/totals/attempts": sent}),
            );
            if is_good {
                assert_eq!(sent, 200 + failures.len() + 1);
                return report.assert_states(&[("ok", 200)]);
            }
            // Nothing else was sent, and no item ended.
            assert_eq!(sent, failures.len());
            assert!(report.has_finding("shared_failed"));
            assert_eq!(
                report.items("unfinished") + report.items("not_attempted"),
                200
            );
            let by_template = report.array("/by_template").iter();
            let attempts: Vec<_> = by_template.map(|row| row["attempts"].clone()).collect();
            assert_eq!(attempts, [json!(sent), json!(0)]);
            ended(&format!("--resume {saved} {flags}"))
                .report(0)
                .assert_states(&[("ok", 200)]);
        });
        let (logins, mut reads) = log.into_inner().unwrap();
        reads.sort_unstable();
        reads.dedup();
        assert_eq!(
            (logins, reads.len()),
            (failures.len() + 1, 200),
            "{failures:?}"
        );
    }
}

#[test]
fn a_login_that_failed_for_good_ends_no_other_line_of_its_file() {
    // Logins, and the other requests by their paths.
    let log = Mutex::new((0, Vec::new()));
    let serve = |mut peer: Peer| {
        while let Some(request) = peer.request_with_body() {
            let path = request.split(' ').nth(1).unwrap().to_owned();
            let (logins, others) = &mut *log.lock().unwrap();
            let is_login = path == "/login";
            *logins += u32::from(is_login);
            if !is_login {
                others.push(path);
            }
            let status = if is_login && *logins == 1 { 403 } else { 200 };
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\ncontent-length: 12\r\n\r\n{{\"token\": 1}}"
            ));
        }
    };
    let place = tempfile::tempdir().unwrap();
    let (file, saved) = (place.path().join("flow"), place.path().join("items"));
    fs::write(&file, format!("{LOGIN}\n{{\"url\": \"/plain?{{id}}\"}}\n")).unwrap();
    let (file, saved) = (file.display(), saved.display());
    with_server(serve, |address| {
        let report = ended(&format!(
            "http://{address} --ids 0..200 -s 1 -c 8 --save {saved} --requests-file {file}"
        ))
        .report(4);
        report.assert_states(&[("ok", 100), ("failed", 100)]);
        report.holds(&json!({
            "/totals/shared_failed": 1, "/totals/attempts_sent": 101,
            "/totals/errors_by_kind/shared_failed": 100,
        }));
        assert!(report.has_finding("shared_failed"));
        ended(&format!("--resume {saved} -c 8 --requests-file {file}"))
            .report(0)
            .assert_states(&[("ok", 100)]);
    });
    let (logins, mut others) = log.into_inner().unwrap();
    others.sort_unstable();
    others.dedup();
    assert_eq!((logins, others.len()), (2, 200));
}

#[test]
fn a_login_whose_values_no_request_can_use_is_not_sent_for_each_item() {
    let serve_reads = Mutex::new((0, 0));
    let serve = |mut peer: Peer| {
        while let Some(request) = peer.request_with_body() {
            let (logins, reads) = &mut *serve_reads.lock().unwrap();
            let is_login = request.starts_with("POST /login");
            *(if is_login { logins } else { reads }) += 1;
            let status = if is_login { 200 } else { 401 };
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\ncontent-length: 12\r\n\r\n{{\"token\": 1}}"
            ));
        }
    };
    with_server(serve, |address| {
        let report = crawl_file(
            LOGIN,
            &format!("http://{address} --ids 0..50 -s 1 -c 1 --retries 3"),
        );
        report.assert_states(&[("failed", 50)]);
    });
    let (logins, reads) = serve_reads.into_inner().unwrap();
    assert_eq!((logins, reads), (5, 50 + 4));
}

#[test]
fn a_redirect_that_is_listed_as_good_is_followed_by_the_next_request() {
    const FLOW: &str = r#"{"url": "/authorize", "extract": {"code": "header:location:code=([0-9]+)"}, "then": [{"url": "/token?{code}"}]}"#;
    let log = Mutex::new(BTreeMap::new());
    let serve = |mut peer: Peer| {
        while let Some(path) = peer.request() {
            *log.lock().unwrap().entry(path.clone()).or_insert(0) += 1;
            let head = if path == "/authorize" {
                "302 Found\r\nlocation: /callback?code=7"
            } else {
                "200 OK"
            };
            peer.send(&format!("HTTP/1.1 {head}\r\ncontent-length: 0\r\n\r\n"));
        }
    };
    with_server(serve, |address| {
        let flags = "--ids 0..20 -s 1 -c 4 --follow 5 --expect status:200,302";
        let report = crawl_file(FLOW, &format!("http://{address} {flags}"));
        report.assert_states(&[("ok", 20)]);
    });
    let expected = [("/authorize", 20), ("/token?7", 20)];
    let expected = expected.map(|(path, count)| (path.to_owned(), count));
    assert_eq!(*log.lock().unwrap(), BTreeMap::from(expected));
}

#[test]
fn a_page_that_its_item_had_is_not_requested_again() {
    // Each page, by the page that it names as the next.
    for (next, requests, items) in [
        ([1, 1, 1], 2, "ok"),
        ([1, 2, 1], 3, "ok"),
        ([0, 0, 0], 1, "ok"),
    ] {
        let log = Mutex::new(0);
        let serve = |mut peer: Peer| {
            while let Some(path) = peer.request() {
                *log.lock().unwrap() += 1;
                let (path, page) = path.split_once("?page=").unwrap_or((&path, "0"));
                let next = next[page.parse::<usize>().unwrap()];
                let next = if next == 0 {
                    path.to_owned()
                } else {
                    format!("{path}?page={next}")
                };
                let body = json!({"next": next}).to_string();
                peer.send(&format!(
                    "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                    body.len()
                ));
            }
        };
        with_server(serve, |address| {
            let file = tempfile::NamedTempFile::new().unwrap();
            fs::write(file.path(), r#"{"url": "/list/{id}", "header": {"x": "{id}"}, "next": "json:/next", "pages": 50}"#).unwrap();
            let report = crawl(&format!(
                "http://{address} --requests-file {} --ids 0..20 -s 1 -c 4",
                file.path().display()
            ));
            report.assert_states(&[(items, 20)]);
            report.holds(&json!({"/totals/attempts": 20 * requests, "/totals/pages_repeated": 20}));
            assert!(report.has_finding("pages_repeated"));
        });
        assert_eq!(*log.lock().unwrap(), 20 * requests);
    }
}

#[test]
fn a_cursor_in_a_body_is_nothing_on_the_first_page() {
    let bodies = [
        (
            r#"{\"of\": {id}, \"after\": {cursor}, \"text\": \"<{cursor}>\"}"#,
            r#"{"of": 7, "after": null, "text": "<>"}"#,
            r#"{"of": 7, "after": "c2", "text": "<c2>"}"#,
        ),
        ("of={id}&after={cursor}", "of=7&after=", "of=7&after=c2"),
    ];
    for (body, first, second) in bodies {
        // As the first request of a line, and as a later one.
        for line in [
            r#"{"method": "POST", "url": "/search", "body_text": "BODY", "extract": {"cursor": "json:/cursor"}, "next": "/search", "pages": 9}"#,
            r#"{"url": "/first", "extract": {"token": "json:/token"}, "then": [{"method": "POST", "url": "/search", "header": {"x-t": "{token}"}, "body_text": "BODY", "extract": {"cursor": "json:/cursor", "token": "json:/token"}, "next": "/search", "pages": 9}]}"#,
        ] {
            let log = Mutex::new(Vec::new());
            let serve = |mut peer: Peer| {
                while let Some(request) = peer.request_with_body() {
                    let (head, body) = request.split_once("\r\n\r\n").unwrap();
                    let is_first = head.starts_with("GET /first ");
                    assert!(
                        is_first || !line.contains("x-t") || head.contains("\r\nx-t: t\r\n"),
                        "{head}"
                    );
                    let cursor = (body == first).then_some("c2");
                    if !is_first {
                        log.lock().unwrap().push(body.to_owned());
                    }
                    let body = json!({"cursor": cursor, "token": "t"}).to_string();
                    peer.send(&format!(
                        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}",
                        body.len()
                    ));
                }
            };
            with_server(serve, |address| {
                let report = crawl_file(
                    &line.replace("BODY", body),
                    &format!("http://{address} --ids 7..8 -s 1 -c 1"),
                );
                report.assert_states(&[("ok", 1)]);
            });
            assert_eq!(*log.lock().unwrap(), [first, second]);
        }
    }
}

#[test]
fn a_status_that_is_listed_is_retried_whatever_it_is_and_however_it_was_asked_for() {
    for status in [202, 404, 409, 410, 500] {
        for method in ["GET", "POST"] {
            for (turns, is_good) in [(2, true), (9, false)] {
                let log = Mutex::new(BTreeMap::<String, u32>::new());
                let serve = |mut peer: Peer| {
                    while let Some(request) = peer.request_with_body() {
                        let path = request.split(' ').nth(1).unwrap().to_owned();
                        let count = {
                            let mut log = log.lock().unwrap();
                            let count = log.entry(path).or_default();
                            *count += 1;
                            *count
                        };
                        let status = if count <= turns { status } else { 200 };
                        peer.send(&format!("HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{{}}"));
                    }
                };
                with_server(serve, |address| {
                    let report = crawl(&format!(
                        "http://{address}/{{id}} -m {method} --ids 0..20 -s 1 -c 4 --expect json --retry-on {status} --retries 3 --retry-budget 100% --backoff 1ms,2ms"
                    ));
                    report.assert_states(&[(if is_good { "ok" } else { "failed" }, 20)]);
                });
                let sent = if is_good { 3 } else { 4 };
                assert!(
                    log.lock().unwrap().values().all(|count| *count == sent),
                    "{status} {method}"
                );
            }
        }
    }
}
