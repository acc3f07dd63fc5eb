//! The bundled target's limits over real processes and connections, against a client that shares no
//! code with it: what the client counts, what the counts say and what the algorithm allows are one
//! and the same, however many processes serve and however fast they are asked.
//!
//! Where time matters, the period is so long that nothing comes back during a test.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose client cannot go on is over"
)]

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::client::Client;
use crate::process::wait_for;
use crate::target::Target;

/// Asks over eight connections at once, `each` times on each, and counts the answers by status.
fn statuses(target: &Target, each: u64) -> BTreeMap<u16, u64> {
    let ask = || {
        let mut client = Client::connect(target);
        (0..each)
            .map(|id| client.get(&format!("/items/{id}"), "").status)
            .collect::<Vec<_>>()
    };
    let mut counts = BTreeMap::new();
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..8).map(|_| scope.spawn(ask)).collect();
        for status in clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
        {
            *counts.entry(status).or_default() += 1;
        }
    });
    counts
}

#[test]
fn any_number_of_processes_admits_exactly_what_the_algorithm_allows() {
    // 8 connections, 50 requests each.
    for (limit, name, admitted) in [
        ("50/h:burst=50", "gcra", 50),
        ("bucket:70/24h", "bucket", 70),
        ("fixed:90/24h", "fixed", 90),
        ("sliding:110/24h", "sliding", 110),
        ("leaky:1/24h:burst=129:nodelay:status=503", "leaky", 130),
    ] {
        for processes in [1, 2, 4] {
            let target = Target::start(&format!("--processes {processes} --limit {limit}"));
            let status = if limit.ends_with("503") { 503 } else { 429 };
            let expected = [(200, admitted), (status, 400 - admitted)].into();
            assert_eq!(statuses(&target, 50), expected, "{limit} of {processes}");
            let books = target.books();
            let of_limit =
                json!({ "admitted": admitted, "rejected": 400 - admitted, "delayed": 0 });
            assert_eq!(books["by_limit"][name], of_limit, "{limit} of {processes}");
            assert_eq!(
                (&books["requests"], &books["rejected"]),
                (&json!(400), &json!(400 - admitted))
            );
            assert_eq!(
                books["by_status"],
                json!({ "200": admitted, status.to_string(): 400 - admitted })
            );
            assert_eq!(books["limiter_overflows"], json!(0));
        }
    }
}

#[test]
fn several_limits_admit_what_the_strictest_does_and_the_others_keep_the_rest() {
    let target = Target::start(
        "--processes 2 --limit 1/h:burst=200:name=hourly --limit fixed:60/24h:key=everyone:name=daily \
         --limit concurrency:100:name=wide",
    );
    assert_eq!(statuses(&target, 50), [(200, 60), (429, 340)].into());
    let books = target.books();
    let of =
        |admitted, rejected| json!({ "admitted": admitted, "rejected": rejected, "delayed": 0 });
    assert_eq!(
        books["by_limit"],
        json!({ "daily": of(60, 340), "hourly": of(60, 0), "wide": of(60, 0) })
    );
}

#[test]
fn each_key_has_a_budget_of_its_own() {
    let key = "X-Api-Key: one\r\n";
    let basic = |label: &str| {
        use base64::Engine;
        let user = base64::engine::general_purpose::STANDARD
            .encode(format!("user-session-{label}:secret"));
        format!("proxy-authorization: Basic {user}\r\n")
    };
    let session = |label: &str| format!("x-session: {label}\r\n");
    let from = |last: u8| (Ipv4Addr::new(127, 9, 8, last), "/a", String::new());
    let with = |lines: &str| (Ipv4Addr::LOCALHOST, "/a", lines.to_owned());
    for (key, one, same, other) in [
        ("address", from(1), from(1), from(2)),
        ("/31,/64", from(2), from(3), from(4)),
        (
            "header=x-api-key",
            with(key),
            with(&key.to_lowercase()),
            with(""),
        ),
        (
            "session",
            with(&basic("a")),
            with(&session("a")),
            with(&basic("b")),
        ),
        (
            "address+path",
            from(1),
            from(1),
            (Ipv4Addr::new(127, 9, 8, 1), "/b", String::new()),
        ),
    ] {
        let target = Target::start(&format!("--processes 2 --limit 3/24h:burst=3:key={key}"));
        let ask = |(source, path, lines): &(Ipv4Addr, &str, String)| {
            Client::connect_from(&target, *source)
                .get(path, lines)
                .status
        };
        assert_eq!(
            [&one, &same, &one, &same].map(ask),
            [200, 200, 200, 429],
            "{key}"
        );
        assert_eq!([&other; 4].map(ask), [200, 200, 200, 429], "{key}");
    }
}

#[test]
fn requests_in_flight_are_capped_until_their_answer_or_their_client_is_gone() {
    for processes in [1, 2, 4] {
        let target = Target::start(&format!(
            "--processes {processes} --latency 30s --limit concurrency:3:headers=ietf"
        ));
        let ask = || {
            let mut client = Client::connect(&target);
            client.send("/items/1", "");
            client
        };
        // A request is counted before it takes its place: where one was stopped in between, the
        // fourth one took it.
        let full = (1..=3).find_map(|attempt| {
            let held = vec![ask(), ask(), ask()];
            target.wait_for_requests(4 * attempt - 1);
            Some((held, ask().receive().unwrap())).filter(|(_, refused)| refused.status == 429)
        });
        let (mut held, refused) = full.unwrap();
        assert_eq!(refused.header("retry-after"), "1");
        assert_eq!(
            refused.header("ratelimit-policy"),
            "\"concurrency\";q=3;qu=\"concurrent-requests\""
        );
        assert_eq!(refused.header("ratelimit"), "\"concurrency\";r=0");
        // A client that leaves makes room for one more, and for one only.
        let count = |of: &str| target.books()[of].as_u64().unwrap();
        let admitted = count("requests") - count("rejected");
        held.pop();
        let next = wait_for("room for one more", || {
            let requests = count("requests");
            let client = ask();
            target.wait_for_requests(requests + 1);
            (requests + 1 - count("rejected") == admitted + 1).then_some(client)
        });
        assert_eq!(ask().receive().unwrap().status, 429);
        drop((held, next));
    }
}

#[test]
fn connections_are_capped_and_the_others_end_as_asked() {
    for (over, processes) in [("close", 1), ("reset", 2), ("503", 4)] {
        let target = Target::start(&format!(
            "--processes {processes} --limit connections:3:key=/24,/64:over={over}"
        ));
        // Different addresses of one prefix; another is only for looking at the counts.
        let connect = |last| Client::connect_from(&target, Ipv4Addr::new(127, 7, 7, last));
        let mut open: Vec<Client> = (1..=3).map(connect).collect();
        for client in &mut open {
            assert_eq!(client.get("/items/1", "").status, 200);
        }
        for last in 4..8 {
            let mut client = connect(last);
            client.send("/items/2", "");
            match client.receive() {
                None => assert_ne!(over, "503"),
                Some(answer) => {
                    assert_eq!(
                        (over, answer.status, answer.header("connection")),
                        ("503", 503, "close")
                    );
                    assert!(client.receive().is_none());
                }
            }
        }
        let books = wait_for("four refused", || {
            let books = target.books();
            (books["connections_refused"] == json!(4)).then_some(books)
        });
        let rejected = if over == "503" { 4 } else { 0 };
        assert_eq!(
            (&books["rejected"], &books["requests"]),
            (&json!(rejected), &json!(3 + rejected)),
            "{over}"
        );
        assert_eq!(books["by_limit"]["connections"]["rejected"], json!(4));
        // One that leaves makes room.
        open.pop();
        wait_for("room for another connection", || {
            let mut client = connect(9);
            client.send("/items/3", "");
            client.receive().filter(|answer| answer.status == 200)
        });
    }
}

#[test]
fn a_leaky_bucket_delays_before_it_turns_away() {
    // One per 50 ms: five requests at once leave at 0, 50, 100, 150 and 200 ms.
    let target = Target::start("--processes 2 --limit leaky:20/s:burst=50:delay=1");
    let mut clients: Vec<Client> = (0..5).map(|_| Client::connect(&target)).collect();
    for client in &mut clients {
        client.send("/items/1", "");
    }
    let held_us: Vec<u64> = clients
        .iter_mut()
        .map(|client| {
            let answer = client.receive().unwrap();
            assert_eq!(answer.status, 200);
            answer
                .headers
                .get("x-mock-hold-us")
                .map_or(0, |us| us.parse().unwrap())
        })
        .collect();
    let delayed = held_us.iter().filter(|us| **us > 0).count();
    assert!(held_us.iter().max() <= Some(&150_000), "{held_us:?}");
    let books = target.books();
    assert_eq!(
        books["by_limit"]["leaky"],
        json!({ "admitted": 5, "rejected": 0, "delayed": delayed })
    );
    assert_eq!(books["held_us"]["count"], json!(delayed));
}

/// Seconds from one date of a header field to another.
fn seconds_between(from: &str, until: &str) -> u64 {
    let at = |date| httpdate::parse_http_date(date).unwrap();
    at(until).duration_since(at(from)).unwrap().as_secs()
}

#[test]
fn every_dialect_tells_the_same_truth() {
    let target = Target::start(
        "--processes 1 --limit fixed:2/24h:key=header=x-a:status=403:retry=none:headers=x-ratelimit+draft-03 \
         --limit fixed:5/24h:key=everyone:name=all:headers=ietf:retry=date:body=problem",
    );
    let mut client = Client::connect(&target);
    let first = client.get("/", "x-a: 1\r\n");
    assert_eq!(
        (
            first.number("x-ratelimit-limit"),
            first.number("x-ratelimit-remaining")
        ),
        (2, 1)
    );
    assert_eq!(first.header("ratelimit-policy"), "\"all\";q=5;w=86400");
    let field = first.header("ratelimit");
    let reset: u64 = field
        .strip_prefix("\"all\";r=4;t=")
        .unwrap()
        .parse()
        .unwrap();
    assert!((86_000..=86_400).contains(&reset), "{field}");
    assert_eq!(
        (
            first.number("ratelimit-limit"),
            first.number("ratelimit-remaining")
        ),
        (2, 1)
    );
    // The same instant as an epoch; a minute is far more than a slow machine needs, and far less
    // than the window.
    let epoch = httpdate::parse_http_date(first.header("date")).unwrap();
    let epoch = epoch
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap()
        .as_secs()
        + first.number("ratelimit-reset");
    assert!(first.number("x-ratelimit-reset").abs_diff(epoch) <= 60);
    assert_eq!(
        client
            .get("/", "x-a: 1\r\n")
            .number("x-ratelimit-remaining"),
        0
    );

    // As of GitHub: forbidden, and nothing remains.
    let forbidden = client.get("/", "x-a: 1\r\n");
    assert_eq!(
        (forbidden.status, forbidden.number("x-ratelimit-remaining")),
        (403, 0)
    );
    assert!(
        !forbidden.headers.contains_key("retry-after")
            && !forbidden.headers.contains_key("ratelimit")
    );

    for remaining in [2, 1, 0] {
        let answer = client.get("/", &format!("x-a: other-{remaining}\r\n"));
        assert!(
            answer
                .header("ratelimit")
                .starts_with(&format!("\"all\";r={remaining};t=")),
            "{answer:?}"
        );
    }
    let rejected = client.get("/", "x-a: fresh\r\n");
    assert_eq!(
        (rejected.status, rejected.header("content-type")),
        (429, "application/problem+json")
    );
    let problem: Value = serde_json::from_slice(&rejected.body).unwrap();
    assert_eq!(
        problem["type"],
        json!("https://iana.org/assignments/http-problem-types#quota-exceeded")
    );
    assert_eq!(
        (&problem["status"], &problem["violated-policies"]),
        (&json!(429), &json!(["all"]))
    );
    let wait = seconds_between(rejected.header("date"), rejected.header("retry-after"));
    assert!((86_000..=86_401).contains(&wait), "{wait}");
    // Whom one limit turns away, the other has not charged.
    assert_eq!(target.books()["by_limit"]["fixed"]["admitted"], json!(5));
}
