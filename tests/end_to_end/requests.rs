//! Requests as they are in real life: bodies, credentials, formats and orders of IDs, compressed
//! responses, cookies; and where and how fast connections are opened. The servers are the test's
//! own and see every byte; the bundled target's counts are the witness of what was asked for.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot write its files is over"
)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;

use crate::bad_input::{assert_refused, call};
use crate::report::Report;
use crate::run::{ONE_ATTEMPT, Run, crawl};
use crate::scripted::{OK, Peer, with_server};
use crate::target::Target;

/// Crawl a server that answers every request with [`OK`], and return the requests in their order,
/// with their bodies.
fn requests_of(words: &[&str], variables: &[&str]) -> (Report, Vec<String>) {
    let requests = Mutex::new(Vec::new());
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
            let Some(body) = peer.bytes(length.unwrap_or(0)) else {
                return;
            };
            requests
                .lock()
                .unwrap()
                .push(head + &String::from_utf8(body).unwrap());
            peer.send(OK);
        }
    };
    let report = with_server(serve, |address| {
        let url = format!("http://{address}/a/{{id}}");
        let mut launcher = Command::new("env");
        launcher.args(variables);
        Run::start_by(launcher, [&[&*url], words].concat())
            .end()
            .report(0)
    });
    (report, requests.into_inner().unwrap())
}

/// The IDs in the paths of requests.
fn ids(requests: &[String]) -> Vec<u64> {
    let id = |request: &String| request.split([' ', '/']).nth(3).unwrap().parse().unwrap();
    requests.iter().map(id).collect()
}

#[test]
fn bodies_and_credentials_are_sent_and_not_recorded() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("body");
    std::fs::write(&file, "from a file").unwrap();
    let file = file.to_str().unwrap();
    let at_file = format!("@{file}.json");
    std::fs::write(format!("{file}.json"), "[1, 2]").unwrap();
    // `user:hidden`, as RFC 7617 encodes it.
    let basic = "authorization: Basic dXNlcjpoaWRkZW4=";
    for (words, lines, body, withheld) in [
        (
            &["--body-file", file][..],
            &["POST /a/0 ", "content-length: 11"][..],
            "from a file",
            json!([]),
        ),
        (
            &["--json-body", "{\"a\": 1}"],
            &["POST /a/0 ", "content-type: application/json"],
            "{\"a\": 1}",
            json!(["--json-body ..."]),
        ),
        (
            &["--json-body", "{\"item\": {id}, \"name\": \"{id}\"}"],
            &["POST /a/0 ", "content-length: 24"],
            "{\"item\": 0, \"name\": \"0\"}",
            json!(["--json-body ..."]),
        ),
        (
            &[
                "--json-body",
                &at_file,
                "-m",
                "PUT",
                "-H",
                "content-type: application/x+json",
            ],
            &["PUT /a/0 ", "content-type: application/x+json"],
            "[1, 2]",
            json!(["--header 'content-type: ...'", "--json-body ..."]),
        ),
        (
            &["-a", "user:hidden"],
            &["GET /a/0 ", basic],
            "",
            json!(["--auth ..."]),
        ),
        (
            &["--bearer-env", "API_TOKEN"],
            &["GET /a/0 ", "authorization: Bearer hid.den-1"],
            "",
            json!([]),
        ),
    ] {
        let (report, requests) =
            requests_of(&[words, &["-n", "1"]].concat(), &["API_TOKEN=hid.den-1"]);
        let [request] = &requests[..] else {
            unreachable!("{requests:?}")
        };
        let (head, sent) = request.split_once("\r\n\r\n").unwrap();
        assert!(
            lines.iter().all(|line| head.contains(line)),
            "{lines:?}: {head}"
        );
        assert_eq!(
            (sent, head.matches("content-type: ").count() < 2),
            (body, true),
            "{head}"
        );
        assert_eq!(report.at("/command/withheld"), &withheld);
        assert!(
            !report.json().to_string().contains("hidden")
                && !report.json().to_string().contains("hid.den")
        );
        let command = report.at("/command/arguments").to_string();
        assert!(
            !command.contains("bearer") || command.contains("\"--bearer-env\",\"API_TOKEN\""),
            "{command}"
        );
    }
    let missing = format!("{file}.none");
    assert_refused(&[
        (
            &["URL", "--body-file", &missing],
            "cannot be read: No such file or directory (os error 2). Check the path",
        ),
        (
            &["URL", "--body-file", file, "--body", "x"],
            "cannot be used with",
        ),
        (
            &["URL", "-H", "x hidden"],
            "--header has no colon (its text is not shown): write `name: value`",
        ),
        (&["URL", "--tag", "x"], "`x` is not NAME=VALUE"),
        (
            &["URL", "--json-body", "{"],
            "--json-body is not one JSON value",
        ),
        (
            &["URL", "--json-body", "@/nowhere"],
            "--json-body @FILE: the file cannot be read",
        ),
        (&["URL", "-a", "user"], "--auth is USER:PASSWORD"),
        (
            &["URL", "-a", "u:p", "--bearer-env", "HOME"],
            "cannot be used with",
        ),
        (
            &["URL", "-a", "u:p", "-H", "Authorization: x"],
            "as well as --auth or --bearer-env: keep one of them",
        ),
        (
            &["URL", "--bearer-env", "CRAWLMARK_NO_SUCH_VARIABLE"],
            "is empty or not set: export it",
        ),
    ]);
}

#[test]
fn shuffled_ids_are_crawled_once_each_by_any_number_of_shards() {
    let target = Target::start("--processes 1");
    let report = crawl(&format!(
        "{} --ids 1k..6k --shards 2 -c 8 --shuffle --expect items:1",
        target.url()
    ));
    report.assert_states(&[("ok", 5_000)]);
    assert_eq!(report.text("/plan/workload/shuffle"), "1000..6000");
    let books = target.stop();
    assert_eq!(
        (
            &books["requests"],
            &books["unique_ids"],
            &books["duplicate_ids"]
        ),
        (&json!(5_000), &json!(5_000), &json!(0))
    );
    let crawled = |words: &str| {
        let words: Vec<_> = words.split(' ').collect();
        ids(&requests_of(&[&words[..], &["--shuffle"]].concat(), &[]).1)
    };
    let one = crawled("--ids 100..400 -s 1 -c 1");
    let set: BTreeSet<u64> = one.iter().copied().collect();
    assert_eq!(
        (one.len(), set.first(), set.len(), set.last()),
        (300, Some(&100), 300, Some(&399))
    );
    let ascending = one.windows(2).filter(|pair| pair[0] < pair[1]).count();
    assert!(
        (100..200).contains(&ascending),
        "{ascending} of 299 in order: {one:?}"
    );
    assert_eq!(
        crawled("--ids 100..400 -s 1 -c 1"),
        one,
        "the same seed is the same order"
    );
    assert_ne!(crawled("--ids 100..400 -s 1 -c 1 --seed 2"), one);
    // The first of them, in the order of one shard, from two.
    let some: BTreeSet<u64> = crawled("--ids 100..400 -n 40 -s 2 -c 2")
        .into_iter()
        .collect();
    assert_eq!(some, one[..40].iter().copied().collect());
}

#[test]
fn ids_are_written_in_their_format() {
    for (format, paths) in [
        ("width=4", ["/a/0034", "/a/0035", "/a/0036"]),
        ("hex", ["/a/22", "/a/23", "/a/24"]),
        ("base36,width=3", ["/a/00y", "/a/00z", "/a/010"]),
    ] {
        let words = [
            "--id-format",
            format,
            "--ids",
            "34..37",
            "-c",
            "1",
            "-s",
            "1",
        ];
        let (report, requests) = requests_of(&words, &[]);
        let asked: Vec<_> = requests
            .iter()
            .map(|request| request.split(' ').nth(1).unwrap())
            .collect();
        assert_eq!(asked, paths);
        assert_eq!(report.text("/plan/workload/id_format"), format);
    }
    assert_refused(&[
        (&["URL", "--id-format", "octal"], "write width=N"),
        (&["--id-format", "hex"], "--id-format is for a URL"),
    ]);
}

/// Compressed by brotli: `{"ok":true}`.
const BROTLI: &[u8] = b"\x0b\x05\x80{\x22ok\x22:true}\x03";

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
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
    ];
    let heads = Mutex::new(Vec::new());
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let (coding, body) =
                &bodies[usize::try_from(ids(std::slice::from_ref(&head))[0]).unwrap() % 8];
            heads.lock().unwrap().push(head);
            let length = body.len();
            let head = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-encoding: {coding}\r\ncontent-length: {length}\r\n\r\n"
            );
            peer.send(&head);
            peer.send_bytes(body);
        }
    };
    let run = |flags: &str| {
        with_server(serve, |address| {
            crawl(&format!(
                "http://{address}/a/{{id}} -n 16 -c 1 --shards 1 --expect json {ONE_ATTEMPT} {flags}"
            ))
        })
    };
    let report = run("--compressed");
    report.assert_states(&[("ok", 8), ("failed", 8)]);
    let errors = [("bad_encoding", 4), ("body_too_long", 2), ("wrong_body", 2)]
        .map(|(kind, n)| (kind.to_owned(), n));
    assert_eq!(report.errors(), errors.into());
    let too_long = report.text("/failures/body_too_long/details");
    assert!(
        too_long.ends_with("bytes of compressed content decompress to more than 16 MiB"),
        "{too_long}"
    );
    // A bad connection would not have been kept.
    assert_eq!(report.count("/totals/connections_opened"), 1);
    assert_eq!(report.text("/failures/wrong_body/excerpt"), "no JSON");
    let asked = std::mem::take(&mut *heads.lock().unwrap());
    assert!(
        asked
            .iter()
            .all(|head| head.contains("\r\naccept-encoding: gzip, br, zstd\r\n")),
        "{asked:?}"
    );
    let plain = run("");
    plain.assert_states(&[("ok", 4), ("failed", 12)]);
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
            let session = header(&head, "proxy-authorization")
                .unwrap_or("none")
                .replace("Basic ", "");
            match header(&head, "cookie") {
                None => {
                    count.fetch_add(1, Ordering::SeqCst);
                    let cookies =
                        format!("set-cookie: s={session}; Path=/a\r\nset-cookie: other=1; Path=/b");
                    peer.send(
                        &OK.replace("content-length", &format!("{cookies}\r\ncontent-length")),
                    );
                }
                Some(cookie) => {
                    if cookie != format!("s={session}") {
                        wrong.lock().unwrap().push(head);
                    }
                    peer.send(OK);
                }
            }
        }
    };
    with_server(serve, |address| {
        let without_cookie = |flags: &str| {
            count.store(0, Ordering::SeqCst);
            let report = crawl(&format!(
                "{flags} -n 60 --shards 1 --rate 5k --retries 0 --robots ignore"
            ));
            report.assert_states(&[("ok", 60)]);
            assert!(
                !report.json().to_string().contains("s=none"),
                "cookies may be secrets"
            );
            count.load(Ordering::SeqCst)
        };
        let url = format!("http://{address}/a/{{id}}");
        assert_eq!(without_cookie(&format!("{url} -c 1 --cookies")), 1);
        assert_eq!(
            without_cookie(&format!("{url} -c 1 --cookies --disable-keepalive")),
            1
        );
        assert!((1..=4).contains(&without_cookie(&format!(
            "{url} -c 4 --cookies --max-requests-per-connection 3"
        ))));
        assert_eq!(without_cookie(&format!("{url} -c 4")), 60);
        let proxied =
            format!("http://a.test/a/{{id}} --cookies -x http://u-{{session}}:p@{address}");
        // One request at a time, so that each session has its cookie when it comes round again.
        assert_eq!(
            without_cookie(&format!(
                "{proxied} -c 1 --session sticky=3 --disable-keepalive"
            )),
            3
        );
        assert_eq!(
            without_cookie(&format!("{proxied} -c 1 --session per-request")),
            60
        );
        assert_eq!(
            without_cookie(&format!("{proxied} -c 1 --max-requests-per-connection 6")),
            10
        );
        without_cookie(&format!(
            "{proxied} -c 8 --session sticky=3 --disable-keepalive"
        ));
    });
    assert_eq!(wrong.into_inner().unwrap(), Vec::<String>::new());
}

#[test]
fn connections_rest_and_are_opened_as_the_flags_say() {
    let target = Target::start("--processes 1");
    for (flags, opened) in [("--idle-timeout 1us", 30), ("--idle-timeout 1h", 1)] {
        let report = crawl(&format!("{} -n 30 -c 1 --shards 1 {flags}", target.url()));
        report.assert_states(&[("ok", 30)]);
        assert_eq!(
            report.count("/totals/connections_opened"),
            opened,
            "{flags}"
        );
    }
    for shards in [1, 2] {
        let flags = format!("-n 40 -c 10 --shards {shards} --disable-keepalive --connect-rate 50");
        let report = crawl(&format!("{} {flags}", target.url()));
        report.assert_states(&[("ok", 40)]);
        // The last of 40 connections at 50/s; shards take over work of others, each at its share.
        let took = report.number("/totals/duration_s");
        assert!(
            took >= 0.02 * f64::from(40 - 2 * shards),
            "{took} s with {shards} shards"
        );
    }
    assert_eq!(target.stop()["requests"], json!(140));
    assert_refused(&[(
        &["URL", "--idle-timeout", "0"],
        "--idle-timeout must be longer than 0",
    )]);
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
    let heads = std::thread::scope(|scope| {
        let server = scope.spawn(serve);
        // Also when the run fails: the scope waits for its thread.
        let _knock = Knock(&path);
        let report = crawl(&format!(
            "http://api.test/a/{{id}} --unix-socket {socket} -n 20 -c 1 --shards 1"
        ));
        report.assert_states(&[("ok", 20)]);
        assert_eq!(report.count("/totals/connections_opened"), 1);
        assert_eq!(report.text("/plan/workload/unix_socket"), socket);
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
    let place = tempfile::tempdir().unwrap();
    let said = call(
        place.path(),
        &[
            "run",
            "http://api.test/",
            "--unix-socket",
            socket,
            "-n",
            "1",
        ],
    );
    assert!(
        said.code == Some(1) && said.stderr.contains("check --unix-socket"),
        "{}",
        said.stderr
    );
    assert_refused(&[
        (&["--unix-socket", socket], "--unix-socket is for a URL"),
        (
            &["URL", "--unix-socket", socket, "--local-ips", "127.0.0.1"],
            "cannot be used with",
        ),
    ]);
}

#[test]
fn redirects_are_followed_within_the_plan_and_charged() {
    let target = Target::start("--processes 1");
    let (origin, seen) = (target.origin(), Mutex::new(Vec::new()));
    let serve = |mut peer: Peer| {
        while let Some(head) = peer.head() {
            let path = head.split(' ').nth(1).unwrap().to_owned();
            let length =
                header(&head, "content-length").map_or(0, |length| length.parse().unwrap());
            let body = peer.bytes(length).unwrap();
            seen.lock().unwrap().push((head.clone(), body));
            let id: u64 = path.rsplit(['/', '=']).next().unwrap().parse().unwrap();
            let (status, location) = match path.split('/').nth(1).unwrap() {
                "chain" if id > 0 => (302, format!("/chain/{}", id - 1)),
                "relative" => (301, format!("../done/x?y={id}")),
                "away" => (307, format!("http://other.test:81/{id}")),
                "items" => (308, format!("{origin}/items/{id}")),
                "login" if header(&head, "cookie").is_none() => {
                    (302, format!("{id}\r\nset-cookie: user=1"))
                }
                "post" => (303, format!("../../done/{id}")),
                _ => (200, String::new()),
            };
            peer.send(&format!(
                "HTTP/1.1 {status} X\r\nlocation: {location}\r\ncontent-length: 0\r\n\r\n"
            ));
        }
    };
    with_server(serve, |address| {
        let url = |path: &str| format!("http://{address}/{path}/{{id}} -s 1 -c 2");
        let counts = |report: &Report| {
            ["attempts", "redirects", "retries"]
                .map(|name| report.count(&format!("/totals/{name}")))
        };
        // Items 0 to 3 take as many redirects, item 4 one too many.
        let chain = crawl(&format!("{} --ids 0..5 --follow 3", url("chain")));
        chain.assert_states(&[("ok", 4), ("failed", 1)]);
        assert_eq!(counts(&chain), [14, 9, 9]);
        assert_eq!(
            chain.errors(),
            [("too_many_redirects".to_owned(), 1)].into()
        );
        assert_eq!(
            chain.statuses(),
            [("200".to_owned(), 4), ("302".to_owned(), 10)].into()
        );
        assert_eq!(chain.count("/latency/service/count"), 4);
        let relative = crawl(&format!(
            "{} -n 30 --follow 1 --shuffle --retry-budget 0%",
            url("relative")
        ));
        relative.assert_states(&[("ok", 30)]);
        assert_eq!(counts(&relative), [60, 30, 30]);
        let away = crawl(&format!("{} -n 4 --follow 9", url("away")));
        away.assert_states(&[("failed", 4)]);
        assert_eq!(
            (away.errors(), counts(&away)),
            ([("redirect_refused".to_owned(), 4)].into(), [4, 0, 0])
        );
        let details = away.text("/failures/redirect_refused/details");
        assert_eq!(
            details,
            "to http://other.test:81, which is no host of the URLs"
        );
        let as_sent = crawl(&format!("{} -n 4", url("away")));
        as_sent.assert_states(&[("failed", 4)]);
        assert_eq!(as_sent.statuses(), [("307".to_owned(), 4)].into());
        let good = crawl(&format!(
            "{} -n 4 --follow 9 --expect status:307",
            url("away")
        ));
        good.assert_states(&[("ok", 4)]);
        seen.lock().unwrap().clear();
        let post = crawl(&format!(
            "{} -n 1 --follow 1 --body abc -H x-a:1",
            url("post/a")
        ));
        post.assert_states(&[("ok", 1)]);
        // A login: the redirect sets the cookie that the next request needs, whichever connection
        // that goes on.
        let login = crawl(&format!(
            "{} -n 200 -c 16 --rate 2k --follow 1 --cookies",
            url("login").replace("-c 2", "")
        ));
        login.assert_states(&[("ok", 200)]);
        assert!((1..=200).contains(&login.count("/totals/redirects")));
        // Another host of the plan, which checks what it is asked for; and its limit of 40 requests
        // a second.
        let place = tempfile::tempdir().unwrap();
        let urls = place.path().join("urls");
        std::fs::write(
            &urls,
            format!("http://{address}/items/{{id}}\n{}", target.url()),
        )
        .unwrap();
        let both = format!(
            "--urls {} -n 40 -s 2 -c 4 --rate 40 --follow 1 -a user:hidden",
            urls.display()
        );
        let both = crawl(&both);
        both.assert_states(&[("ok", 40)]);
        assert_eq!(counts(&both), [60, 20, 20]);
        assert!(
            both.number("/totals/duration_s") > 1.3,
            "60 requests at 40/s"
        );
        let refused = format!("{} --follow 2 --per-host-rate 5", url("x"));
        let place = tempfile::tempdir().unwrap();
        let words: Vec<&str> = refused.split(' ').collect();
        assert_eq!(
            call(place.path(), &[&["run"], &words[..], &["-n", "1"]].concat()).code,
            Some(0),
            "one host keeps its limits"
        );
    });
    let seen = seen.into_inner().unwrap();
    let [(post, body), (get, nothing)] = &seen[..2] else {
        unreachable!("{seen:?}")
    };
    assert!(
        post.starts_with("POST /post/a/0 ") && body == b"abc",
        "{post}"
    );
    assert!(
        get.starts_with("GET /done/0 ") && nothing.is_empty() && get.contains("\r\nx-a: 1\r\n"),
        "{get}"
    );
    assert!(!get.contains("content-"), "{get}");
    assert!(
        seen.iter()
            .all(|(head, _)| !head.starts_with("GET /items")
                || head.contains("authorization: Basic"))
    );
    let books = target.stop();
    assert_eq!(
        (&books["requests"], &books["unique_ids"]),
        (&json!(40), &json!(40))
    );
}
