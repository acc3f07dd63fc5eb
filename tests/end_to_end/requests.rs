//! Requests as they are in real life: bodies, credentials, formats and orders of IDs, compressed
//! responses, cookies, redirects. The servers are the test's own and see every byte; the bundled
//! target's counts are the witness of what was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crawlmark_harness::trace::TraceContext;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::json;

use crate::client::Client;
use crate::command::run as run_line;
use crate::report::{Report, holds};
use crate::run::{crawl, crawl_once, ended, start_by};
use crate::scripted::{OK, Peer, with_server};
use crate::target::{Target, confirmed};

/// Crawl a server that answers every request with [`OK`], and return the requests in their order,
/// with their bodies.
fn requests_of(flags: &str, variables: &[&str]) -> (Report, Vec<String>) {
    let requests = Mutex::new(Vec::new());
    let serve = |mut peer: Peer| {
        while let Some(request) = peer.request_with_body() {
            requests.lock().unwrap().push(request);
            peer.send(OK);
        }
    };
    let report = with_server(serve, |address| {
        let mut launcher = Command::new("env");
        launcher.args(variables);
        let line = format!("http://{address}/a/{{id}} {flags}");
        start_by(launcher, &line).end().report(0)
    });
    (report, requests.into_inner().unwrap())
}

/// The ID in the path of a request.
fn id(request: &str) -> u64 {
    request.split([' ', '/']).nth(3).unwrap().parse().unwrap()
}

#[test]
fn bodies_and_credentials_are_sent_and_not_recorded() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("body");
    std::fs::write(&file, "from a file").unwrap();
    std::fs::write(place.path().join("body.json"), "[1, 2]").unwrap();
    let file = file.display();
    // `user:hidden`, as RFC 7617 encodes it.
    let basic = "authorization: Basic dXNlcjpoaWRkZW4=";
    let json = ["--json-body ..."];
    for (flags, lines, body, withheld) in [
        (
            format!("--body-file {file}"),
            ["POST /a/0 ", "content-length: 11"],
            "from a file",
            &[][..],
        ),
        (
            "--json-body '{\"item\": {id}}'".to_owned(),
            ["POST /a/0 ", "content-type: application/json"],
            "{\"item\": 0}",
            &json,
        ),
        (
            format!("--json-body @{file}.json -m PUT -H 'content-type: application/x+json'"),
            ["PUT /a/0 ", "content-type: application/x+json"],
            "[1, 2]",
            &["--header 'content-type: ...'", json[0]],
        ),
        (
            "-a user:hidden".to_owned(),
            ["GET /a/0 ", basic],
            "",
            &["--auth ..."],
        ),
        (
            "--bearer-env API_TOKEN".to_owned(),
            ["GET /a/0 ", "authorization: Bearer hid.den-1"],
            "",
            &[],
        ),
    ] {
        let (report, requests) = requests_of(&format!("{flags} -n 1"), &["API_TOKEN=hid.den-1"]);
        assert_eq!(requests.len(), 1);
        let (head, sent) = requests[0].split_once("\r\n\r\n").unwrap();
        assert!(
            lines.iter().all(|line| head.contains(line)),
            "{lines:?}: {head}"
        );
        assert!(
            sent == body && head.matches("content-type: ").count() < 2,
            "{head}"
        );
        report.holds(&json!({"/command/withheld": withheld}));
        let text = report.json().to_string();
        assert!(!text.contains("hidden") && !text.contains("hid.den"));
        assert!(!flags.contains("bearer") || text.contains("\"--bearer-env\",\"API_TOKEN\""));
    }
}

#[test]
fn a_request_arrives_as_it_was_asked_for() {
    let flags = "--ids 5..8 -s 1 -c 1 -m POST --body 'a=1&b=\u{e9}' -H 'X-Token: s3cret' \
                 -H 'x-many: 1' -H 'x-many: 2' -H 'user-agent: me/2' -H accept:text/plain";
    let (report, requests) = requests_of(flags, &[]);
    for (request, id) in requests.iter().zip(5..8) {
        assert!(
            request.starts_with(&format!("POST /a/{id} HTTP/1.1\r\n")),
            "{request}"
        );
        assert!(request.ends_with("\r\n\r\na=1&b=\u{e9}"), "{request}");
        let lines = [
            "content-length: 8",
            "x-token: s3cret",
            "x-many: 1",
            "x-many: 2",
        ];
        for line in lines
            .into_iter()
            .chain(["user-agent: me/2", "accept: text/plain"])
        {
            assert_eq!(request.matches(line).count(), 1, "{line}: {request}");
        }
    }
    // The value of a header may be a secret.
    assert!(requests.len() == 3 && !report.json().to_string().contains("s3cret"));
    // Without flags, a request names the tool and carries nothing else.
    let (_, requests) = requests_of("-n 1", &[]);
    let tool = concat!("user-agent: crawlmark/", env!("CARGO_PKG_VERSION"), "\r\n");
    assert!(
        requests[0].contains(tool) && requests[0].lines().count() == 5,
        "{requests:?}"
    );
}

#[test]
fn shuffled_ids_are_crawled_once_each_by_any_number_of_shards() {
    let target = Target::start("--processes 1");
    let line = "--ids 1k..6k --shards 2 -c 8 --shuffle --expect items:1";
    let (report, ledger) = confirmed(&target, line);
    report.assert_states(&[("ok", 5_000)]);
    report.holds(&json!({"/plan/workload/shuffle": "1000..6000"}));
    holds(
        &ledger,
        &json!({"/requests": 5_000, "/unique_ids": 5_000, "/duplicate_ids": 0}),
    );
    let crawled = |flags: &str| -> Vec<u64> {
        let (_, requests) = requests_of(&format!("--ids 100..400 --shuffle {flags}"), &[]);
        requests.iter().map(|request| id(request)).collect()
    };
    let one = crawled("-s 1 -c 1");
    let sorted: BTreeSet<u64> = one.iter().copied().collect();
    assert!(
        one.len() == 300 && sorted.into_iter().eq(100..400),
        "{one:?}"
    );
    let ascending = one.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(
        (100..200).contains(&ascending),
        "{ascending} of 299 in order: {one:?}"
    );
    assert_eq!(crawled("-s 1 -c 1"), one, "the same seed is the same order");
    assert_ne!(crawled("-s 1 -c 1 --seed 2"), one);
    // The first of them, in the order of one shard, from two.
    let some = BTreeSet::from_iter(crawled("-n 40 -s 2 -c 2"));
    assert_eq!(some, one[..40].iter().copied().collect());
}

/// Compressed by brotli: `{"ok":true}`.
const BROTLI: &[u8] = b"\x0b\x05\x80{\x22ok\x22:true}\x03";

pub(crate) fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn compressed_responses_are_decoded_before_they_are_checked() {
    let json = b"{\"ok\":true}";
    let zstd = zstd::encode_all(&json[..], 0).unwrap();
    let bodies = [
        ("gzip", gzip(json)),
        ("br", BROTLI.to_vec()),
        ("zstd", zstd.clone()),
        ("identity", json.to_vec()),
        ("gzip", gzip(b"no JSON")),
        ("gzip", gzip(&vec![b' '; 17 << 20])),
        ("zstd", zstd[..zstd.len() - 1].to_vec()),
        ("compress", json.to_vec()),
        ("gzip, zstd", zstd::encode_all(&gzip(json)[..], 0).unwrap()),
    ];
    let heads = Mutex::new(Vec::new());
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let (coding, body) = &bodies[usize::try_from(id(&head)).unwrap()];
            heads.lock().unwrap().push(head);
            peer.send(&format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: {coding}\r\n\
                 content-length: {}\r\n\r\n",
                body.len()
            ));
            peer.send_bytes(body);
        }
    };
    let run = |flags: &str| {
        with_server(serve, |address| {
            let url = format!("http://{address}/a/{{id}}");
            crawl_once(&format!("{url} -n 9 -c 1 --shards 1 --expect json {flags}"))
        })
    };
    let report = run("--compressed");
    report.assert_states(&[("ok", 5), ("failed", 4)]);
    report.holds(&json!({
        "/totals/errors_by_kind": {"bad_encoding": 2, "body_too_long": 1, "wrong_body": 1},
        "/failures/wrong_body/excerpt": "no JSON",
        // A bad connection would not have been kept.
        "/totals/connections_opened": 1,
    }));
    let asked = std::mem::take(&mut *heads.lock().unwrap());
    let accepts = "\r\naccept-encoding: gzip, br, zstd\r\n";
    assert!(asked.iter().all(|head| head.contains(accepts)), "{asked:?}");
    run("").assert_states(&[("ok", 2), ("failed", 7)]);
    assert!(!heads.lock().unwrap()[0].contains("accept-encoding"));
}

/// The value of a header of a request.
fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

#[test]
fn cookies_stay_with_their_slot_or_session() {
    // Each client without a cookie gets one, which names its proxy session if it has one.
    let (count, wrong) = (AtomicU64::new(0), Mutex::new(Vec::new()));
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let session = header(&head, "proxy-authorization").unwrap_or("none");
            let session = session.replace("Basic ", "");
            let cookies =
                format!("set-cookie: s={session}; Path=/a\r\nset-cookie: other=1; Path=/b");
            let sets = OK.replace("content-length", &format!("{cookies}\r\ncontent-length"));
            let cookie = header(&head, "cookie").map(str::to_owned);
            peer.send(if cookie.is_none() { &sets } else { OK });
            match cookie {
                None => _ = count.fetch_add(1, Ordering::SeqCst),
                Some(cookie) if cookie == format!("s={session}") => {}
                Some(_) => wrong.lock().unwrap().push(head),
            }
        }
    };
    with_server(serve, |address| {
        let plain = format!("http://{address}/a/{{id}}");
        let proxied = format!("http://a.test/a/{{id}} -x http://u-{{session}}:p@{address}");
        // The number of requests without a cookie.
        for (url, flags, most) in [
            (&plain, "-c 1 --cookies", 1),
            (&plain, "-c 1 --cookies --disable-keepalive", 1),
            (&plain, "-c 4", 60),
            // One request at a time, so that each session has its cookie when it comes round again.
            (
                &proxied,
                "-c 1 --cookies --session sticky=3 --disable-keepalive",
                3,
            ),
            (&proxied, "-c 1 --cookies --session per-request", 60),
            (
                &proxied,
                "-c 1 --cookies --max-requests-per-connection 6",
                10,
            ),
        ] {
            count.store(0, Ordering::SeqCst);
            let line = "-n 60 --shards 1 --rate 5k --retries 0 --robots ignore";
            let report = crawl(&format!("{url} {flags} {line}"));
            report.assert_states(&[("ok", 60)]);
            assert!(
                !report.json().to_string().contains("s=none"),
                "cookies may be secrets"
            );
            assert_eq!(count.load(Ordering::SeqCst), most, "{flags}");
        }
    });
    assert_eq!(wrong.into_inner().unwrap(), Vec::<String>::new());
}

#[test]
fn each_attempt_has_a_trace_that_leads_back_to_its_item() {
    let place = tempfile::tempdir().unwrap();
    let list = place.path().join("list.jsonl");
    let serve = "--processes 1 --journal --fault error:0.2:503,redirect:0.2";
    let run = "--ids 0..100 --shards 2 -c 8 --follow 3 --trace=0.2";
    for (is_list, flags) in [(false, "--shuffle"), (false, "--http 2"), (true, "")] {
        let target = Target::start(serve);
        let url = if is_list {
            let line = |id| {
                let recorded = json!({"traceparent": "recorded", "x-own": "1"});
                let url = format!("{}/items/{id}", target.origin());
                json!({"url": url, "header": recorded}).to_string() + "\n"
            };
            std::fs::write(&list, (0..100).map(line).collect::<String>()).unwrap();
            format!("--requests-file {}", list.display())
        } else {
            target.url()
        };
        let done = ended(&format!("{url} {run} {flags}")).code(&[0]);
        let report = Report::read(&done.out().join("result.json"));
        let (key, kept) = (report.text("/plan/workload/trace_run"), done.out());
        let requests = Client::connect(&target).admin("GET /requests", "").json();
        let mut attempts: BTreeMap<u64, Vec<TraceContext>> = BTreeMap::new();
        for entry in requests["requests"].as_array().unwrap() {
            let request = &entry["request"];
            let trace = request["headers"]["traceparent"].as_str().unwrap();
            let trace: TraceContext = trace.parse().unwrap();
            let path = request["url"].as_str().unwrap();
            let id = path.rsplit('/').next().unwrap().parse().unwrap();
            assert_eq!(
                (trace.id(), format!("{:016x}", trace.run())),
                (id, key.to_owned())
            );
            attempts.entry(id).or_default().push(trace);
        }
        let sent: usize = attempts.values().map(Vec::len).sum();
        assert_eq!(
            (attempts.len(), sent as u64),
            (100, report.count("/totals/attempts"))
        );
        assert!(sent > 110, "{sent}");
        let recorded = attempts.values().filter(|all| all[0].is_recorded).count();
        assert!((10..90).contains(&recorded), "{recorded}");
        for (id, traces) in &mut attempts {
            traces.sort_by_key(TraceContext::attempt);
            let numbers: Vec<_> = traces
                .iter()
                .map(|trace| trace.attempt().unwrap())
                .collect();
            assert!(
                numbers.iter().copied().eq((0..).take(numbers.len())),
                "{id}: {numbers:?}"
            );
            assert!(
                traces
                    .iter()
                    .all(|trace| trace.is_recorded == traces[0].is_recorded)
            );
        }
        let slowest = report.array("/slowest");
        let recorded = slowest.iter().filter(|row| row["recorded"] == json!(true));
        assert!(recorded.count() >= 5 && (20..=25).contains(&slowest.len()));
        for row in slowest {
            let attempt = row["attempt"].as_u64().unwrap();
            let all = &attempts[&row["id"].as_u64().unwrap()];
            let sent = all[usize::try_from(attempt).unwrap() - 1];
            assert_eq!(row["trace_id"], json!(sent.trace_id()));
            assert_eq!(row["recorded"], json!(sent.is_recorded));
        }
        let longest = attempts
            .values()
            .max_by_key(|all| all.len())
            .unwrap()
            .last()
            .unwrap();
        let find = |trace: &str| run_line(&format!("report {} --trace {trace}", kept.display()));
        let (id, number) = (longest.id(), longest.attempt().unwrap() + 1);
        let said = find(&longest.to_string()).code(&[0]).stdout;
        assert!(
            said.contains(&id.to_string()) && said.contains(&number.to_string()),
            "{said}"
        );
        find(&format!("{:032x}", 1)).code(&[2]);
    }
    ended("http://127.0.0.1:9/ -n 1 --trace -H 'traceparent: mine'").code(&[2]);
}

#[test]
fn connections_are_opened_no_faster_than_the_flags_say() {
    for shards in [1, 2] {
        let target = Target::start("--processes 1");
        let flags = format!("-n 40 -c 10 --shards {shards} --disable-keepalive --connect-rate 50");
        let (report, _) = confirmed(&target, &flags);
        report.assert_states(&[("ok", 40)]);
        // The last of 40 connections at 50/s; shards take over work of others, each at its share.
        let took = report.number("/totals/duration_s");
        assert!(
            took >= 0.02 * f64::from(40 - 2 * shards),
            "{took} s with {shards} shards"
        );
    }
}

/// Connects to a server often enough for it to end when dropped.
struct Knock<'a>(&'a Path);

impl Drop for Knock<'_> {
    fn drop(&mut self) {
        (0..2).for_each(|_| drop(UnixStream::connect(self.0)));
    }
}

#[test]
fn a_unix_socket_is_crawled_in_the_place_of_the_host() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("api.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let socket = path.to_str().unwrap();
    // It serves the check before the run, and the one connection of the run.
    let serve = move || {
        let mut heads = Vec::new();
        for stream in listener.incoming().take(2) {
            let mut reader = BufReader::new(stream.unwrap());
            let mut head = String::new();
            while reader.read_line(&mut head).unwrap() > 0 {
                if head.ends_with("\r\n\r\n") {
                    reader.get_mut().write_all(OK.as_bytes()).unwrap();
                    heads.push(std::mem::take(&mut head));
                }
            }
        }
        heads
    };
    let line = format!("http://api.test/a/{{id}} --unix-socket {socket} -n 20 -c 1 --shards 1");
    let heads = std::thread::scope(|scope| {
        let server = scope.spawn(serve);
        // Also when the run fails: the scope waits for its thread.
        let _knock = Knock(&path);
        let report = crawl(&line);
        report.assert_states(&[("ok", 20)]);
        report
            .holds(&json!({"/totals/connections_opened": 1, "/plan/workload/unix_socket": socket}));
        server.join().unwrap()
    });
    assert_eq!(heads.len(), 20);
    assert!(
        heads
            .iter()
            .all(|head| head.contains("\r\nhost: api.test\r\n")),
        "{heads:?}"
    );
    // Nobody listens any more.
    let ended = ended(&line);
    assert!(ended.code == Some(1) && ended.stderr.contains("check --unix-socket"));
}

#[test]
fn redirects_are_followed_within_the_plan_and_charged() {
    let target = Target::start("--processes 1");
    let (origin, seen) = (target.origin(), Mutex::new(Vec::new()));
    let serve = |mut peer: Peer| {
        while let Some(request) = peer.head() {
            let path = request.split(' ').nth(1).unwrap();
            let id: u64 = path.rsplit('/').next().unwrap().parse().unwrap();
            let (status, location) = match path.split('/').nth(1).unwrap() {
                "chain" if id > 0 => (302, format!("/chain/{}", id - 1)),
                "away" => (307, format!("http://other.test:81/{id}")),
                "items" => (308, format!("{origin}/items/{id}")),
                "login" if header(&request, "cookie").is_none() => {
                    (302, format!("{id}\r\nset-cookie: user=1"))
                }
                _ => (200, String::new()),
            };
            seen.lock().unwrap().push(request);
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            ));
        }
    };
    with_server(serve, |address| {
        let run = |path: &str, flags: &str| {
            crawl(&format!("http://{address}/{path}/{{id}} -s 1 {flags}"))
        };
        let counts = |attempts, redirects, retries| {
            json!({
                "/totals/attempts": attempts, "/totals/redirects": redirects,
                "/totals/retries": retries,
            })
        };
        // Items 0 to 3 take as many redirects, item 4 one too many.
        let chain = run("chain", "--ids 0..5 --follow 3");
        chain.assert_states(&[("ok", 4), ("failed", 1)]);
        chain.holds(&counts(14, 9, 9));
        chain.holds(&json!({
            "/totals/errors_by_kind": {"too_many_redirects": 1}, "/latency/service/count": 4,
            "/totals/attempts_by_status": {"200": 4, "302": 10},
        }));
        let away = run("away", "-n 4 --follow 9");
        away.assert_states(&[("failed", 4)]);
        away.holds(&counts(4, 0, 0));
        away.holds(&json!({
            "/totals/errors_by_kind": {"redirect_refused": 4},
            "/failures/redirect_refused/details":
                "to http://other.test:81, which is no host of the URLs",
        }));
        run("away", "-n 4").assert_states(&[("failed", 4)]);
        run("away", "-n 4 --follow 9 --expect status:307").assert_states(&[("ok", 4)]);
        // A login: the redirect sets the cookie that the next request needs, whichever connection
        // that goes on.
        let login = run("login", "-n 200 -c 16 --rate 2k --follow 1 --cookies");
        login.assert_states(&[("ok", 200)]);
        assert!((1..=200).contains(&login.count("/totals/redirects")));
        // Another host of the plan, which checks what it is asked for; and its limit of 40 requests
        // a second.
        let mut urls = tempfile::NamedTempFile::new().unwrap();
        write!(urls, "http://{address}/items/{{id}}\n{}", target.url()).unwrap();
        let flags = "-n 40 -s 2 -c 4 --rate 40 --follow 1 -a user:hidden";
        let both = crawl(&format!("--urls {} {flags}", urls.path().display()));
        both.assert_states(&[("ok", 40)]);
        both.holds(&counts(60, 20, 20));
        assert!(
            both.number("/totals/duration_s") > 1.3,
            "60 requests at 40/s"
        );
    });
    let seen = seen.into_inner().unwrap();
    let keeps =
        |head: &String| !head.starts_with("GET /items") || head.contains("authorization: Basic");
    assert!(seen.iter().all(keeps));
    holds(&target.stop(), &json!({"/requests": 40, "/unique_ids": 40}));
}
