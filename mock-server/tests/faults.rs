//! Each fault as it is on the wire, read from bare sockets, and what the target's counts say of it.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may stop at the first surprise, as the test itself may"
)]

use crate::client::{self, Client, PATIENCE, start};
use crawlmark_mock_server::{Clock, Config, Handle, items};
use std::collections::BTreeMap;
use std::io::{BufRead, ErrorKind, Read};
use std::net::Shutdown;
use std::time::Duration;

const SEED: u64 = 7;

/// A target that treats every item like this.
fn target(faults: &str) -> Handle {
    let config = Config {
        seed: SEED,
        faults: faults.parse().unwrap(),
        ..Config::default()
    };
    start(config)
}

fn body(id: u64) -> Vec<u8> {
    client::body(SEED, id)
}

/// Nothing comes, however patient one is, and the connection lasts until this side leaves.
fn assert_silent(client: &mut Client) {
    let stream = client.reader.get_ref();
    stream
        .set_read_timeout(Some(Duration::from_millis(50)))
        .unwrap();
    let waited = client
        .reader
        .read(&mut [0; 1])
        .map_err(|error| error.kind());
    assert!(
        matches!(waited, Err(ErrorKind::WouldBlock | ErrorKind::TimedOut)),
        "{waited:?}"
    );
    let stream = client.reader.get_ref();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), Ok(Vec::new()));
}

/// The head of the answer that comes next.
fn head_of(client: &mut Client) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        client.reader.read_line(&mut head).unwrap();
    }
    head
}

/// What comes on a connection for one request of item 42, until the target ends it.
fn bytes_of(target: &Handle, method: &str) -> Result<Vec<u8>, ErrorKind> {
    let mut client = Client::connect(target.address());
    client.send(method, "/items/42");
    client.rest()
}

/// The counts after `requests`, all of which met `fault`, with these answers.
#[track_caller]
fn assert_books(target: Handle, fault: &str, requests: u64, statuses: &[(u16, u64)]) {
    let ledger = target.stop().unwrap();
    assert_eq!(ledger.requests, requests);
    assert_eq!(
        ledger.faults,
        BTreeMap::from([(fault.to_owned(), requests)])
    );
    assert_eq!(ledger.by_status, statuses.iter().copied().collect());
}

/// Head and body as they came.
fn split(bytes: &[u8]) -> (String, Vec<u8>) {
    let end = bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .unwrap();
    (
        String::from_utf8(bytes[..end].to_vec())
            .unwrap()
            .to_ascii_lowercase(),
        bytes[end + 4..].to_vec(),
    )
}

#[test]
fn garbage_is_no_http_and_seeded() {
    let target = target("garbage:1");
    let mut seen: Vec<Vec<u8>> = Vec::new();
    for id in [1, 2] {
        let mut client = Client::connect(target.address());
        client.send("GET", &format!("/items/{id}"));
        seen.push(client.rest().unwrap());
    }
    assert!(
        seen.iter()
            .all(|bytes| bytes.len() == 64 && bytes.iter().all(|byte| *byte >= 0x80)),
        "{seen:?}"
    );
    assert_ne!(seen[0], seen[1]);
    assert_books(target, "garbage", 2, &[]);
    let again = self::target("garbage:1");
    let mut client = Client::connect(again.address());
    client.send("GET", "/items/1");
    assert_eq!(client.rest().unwrap(), seen[0]);
}

#[test]
fn a_malformed_chunk_follows_a_good_head() {
    let target = target("malformed-chunk:1");
    let (head, rest) = split(&bytes_of(&target, "GET").unwrap());
    assert!(
        head.starts_with("http/1.1 200 ok\r\n") && head.contains("\r\ntransfer-encoding: chunked"),
        "{head}"
    );
    assert!(!head.contains("content-length"), "{head}");
    assert_eq!(rest.len(), 64);
    assert!(rest.iter().all(|byte| *byte >= 0x80));
    assert_books(target, "malformed_chunk", 1, &[(200, 1)]);
}

#[test]
fn lengths_and_bodies_differ_as_the_fault_says() {
    let whole = body(42);
    for (fault, name, length, sent) in [
        ("truncated:1", "truncated", whole.len(), whole.len() / 2),
        (
            "short-length:1",
            "short_length",
            whole.len() / 2,
            whole.len(),
        ),
        ("long-length:1", "long_length", whole.len() * 2, whole.len()),
    ] {
        let target = target(fault);
        let mut client = Client::connect(target.address());
        client.send("GET", "/items/42");
        let lines = head_of(&mut client);
        assert!(lines.starts_with("HTTP/1.1 200 OK\r\n"), "{lines}");
        assert!(
            lines.contains("\r\ncontent-type: application/json\r\n"),
            "{lines}"
        );
        assert!(
            lines.contains(&format!("\r\ncontent-length: {length}\r\n")),
            "{fault}: {lines}"
        );
        let mut part = vec![0; sent];
        client.reader.read_exact(&mut part).unwrap();
        assert_eq!(part, whole[..sent]);
        match name {
            "long_length" => assert_silent(&mut client),
            _ => assert_eq!(client.rest(), Ok(Vec::new())),
        }
        // An answer to HEAD has no body to be long or short.
        let mut client = Client::connect(target.address());
        client.send("HEAD", "/items/42");
        head_of(&mut client);
        client.reader.get_ref().shutdown(Shutdown::Write).unwrap();
        assert_eq!(client.rest(), Ok(Vec::new()));
        assert_books(target, name, 2, &[(200, 2)]);
    }
}

#[test]
fn silence_lasts_until_the_client_leaves_or_the_target_stops() {
    let target = target("silence:1");
    let mut client = Client::connect(target.address());
    client.send("GET", "/items/42");
    while target.ledger().faults.is_empty() {
        std::thread::yield_now();
    }
    assert_silent(&mut client);
    let mut client = Client::connect(target.address());
    client.send("GET", "/items/42");
    while target.ledger().faults["silence"] < 2 {
        std::thread::yield_now();
    }
    assert_books(target, "silence", 2, &[]);
    assert_eq!(client.rest(), Ok(Vec::new()));
}

#[test]
fn an_error_is_an_answer_and_its_connection_goes_on() {
    let target = target("error:1:503");
    let mut client = Client::connect(target.address());
    for _ in 0..2 {
        let answer = client.request("GET", "/items/42").unwrap();
        assert_eq!(
            (answer.status, &answer.headers["content-type"][..]),
            (503, "application/json")
        );
        assert_ne!(answer.body, body(42));
    }
    assert_eq!(target.ledger().connections, 1);
    assert_books(target, "error", 2, &[(503, 2)]);
}

#[test]
fn a_drip_comes_in_pieces_over_its_time_and_is_whole() {
    let target = target("drip:1:300ms");
    let mut client = Client::connect(target.address());
    for _ in 0..2 {
        let clock = Clock::start();
        client.send("GET", "/items/42");
        // The head and the first piece do not wait for the rest.
        let head = head_of(&mut client);
        assert!(
            head.contains(&format!("content-length: {}\r\n", body(42).len())),
            "{head}"
        );
        let (mut bytes, mut pieces) = (vec![0; body(42).len()], 0);
        let mut filled = 0;
        while filled < bytes.len() {
            filled += client.reader.read(&mut bytes[filled..]).unwrap();
            pieces += 1;
        }
        assert!(clock.now_ns() >= 300_000_000, "{} ns", clock.now_ns());
        // A reader that is held up finds more than one there.
        assert!((2..=10).contains(&pieces), "{pieces}");
        assert_eq!(bytes, body(42));
    }
    assert_eq!(target.ledger().connections, 1);
    assert_books(target, "drip", 2, &[(200, 2)]);
}

#[test]
fn a_redirect_leads_to_the_same_item_and_no_further() {
    let target = target("redirect:1");
    for path in [
        "/items/42",
        "/items/42?full=1",
        "/about?x=1",
        "/moved",
        "//elsewhere.example/42",
    ] {
        let mut client = Client::connect(target.address());
        let answer = client.request("GET", path).unwrap();
        assert_eq!(
            (answer.status, &answer.headers["location"]),
            (302, &format!("/moved{path}"))
        );
        let answer = client.request("GET", &answer.headers["location"]).unwrap();
        assert_eq!(answer.status, 200);
        assert!(!answer.headers.contains_key("location"));
        assert_eq!(
            answer.body,
            body(items::ItemPath::parse(path).id()),
            "{path}"
        );
    }
    let ledger = target.stop().unwrap();
    assert_eq!(ledger.faults, [("redirect".to_owned(), 5)].into());
    assert_eq!(ledger.by_status, [(302, 5), (200, 5)].into());
    // Moved or not, it is one item: both /items/42 are, too, and the one on the host that is none.
    assert_eq!(
        (
            ledger.unique_ids,
            ledger.duplicate_ids,
            ledger.ids_beyond_tracking
        ),
        (1, 5, 4)
    );
}

#[test]
fn a_goodbye_is_said_and_meant() {
    let target = target("close:1");
    let mut client = Client::connect(target.address());
    let answer = client.request("GET", "/items/42").unwrap();
    assert_eq!(
        (answer.status, &answer.headers["connection"][..]),
        (200, "close")
    );
    assert_eq!(answer.body, body(42));
    assert_eq!(client.rest(), Ok(Vec::new()));
    assert_books(target, "close", 1, &[(200, 1)]);
}

#[test]
fn a_body_waits_for_the_acknowledgement_of_its_head() {
    let target = target("nagle:1");
    let mut client = Client::connect(target.address());
    // A client that speaks and listens in turn acknowledges late, 40 ms or more on Linux, after its
    // first answers.
    let (mut requests, mut waits) = (0, 0);
    while waits < 3 {
        client.send("GET", "/items/42");
        head_of(&mut client);
        let clock = Clock::start();
        let mut bytes = vec![0; body(42).len()];
        client.reader.read_exact(&mut bytes).unwrap();
        assert_eq!(bytes, body(42));
        waits += u32::from(clock.now_ns() >= 30_000_000);
        requests += 1;
        assert!(requests < 1000, "{waits} bodies came late");
    }
    assert_eq!(target.ledger().connections, 1);
    assert_books(target, "nagle", requests, &[(200, requests)]);
}

#[test]
fn a_challenge_is_a_page_with_the_status_asked_for() {
    for status in [200, 403, 429] {
        let target = target(&format!("challenge:1:{status}"));
        let mut client = Client::connect(target.address());
        for _ in 0..2 {
            let answer = client.request("GET", "/items/42").unwrap();
            assert_eq!(
                (answer.status, &answer.headers["cf-mitigated"][..]),
                (status, "challenge")
            );
            assert_eq!(answer.headers["content-type"], "text/html; charset=UTF-8");
            assert!(
                answer.body.starts_with(b"<!DOCTYPE html>") && answer.body.ends_with(b"</html>\n")
            );
            assert!(!answer.headers.contains_key("retry-after"));
        }
        assert_books(target, "challenge", 2, &[(status, 2)]);
    }
}

#[test]
fn what_is_huge_is_as_long_as_asked_and_has_the_item() {
    for (fault, name, padding, length) in [
        (
            "huge-headers:1",
            "huge_headers",
            Some(64 << 10),
            body(42).len(),
        ),
        (
            "huge-headers:1:1m",
            "huge_headers",
            Some(1 << 20),
            body(42).len(),
        ),
        ("huge-body:1", "huge_body", None, 8 << 20),
        ("huge-body:1:1k", "huge_body", None, 1 << 10),
        ("huge-body:1:100000", "huge_body", None, 100_000),
    ] {
        let target = target(fault);
        let mut client = Client::connect(target.address());
        for _ in 0..2 {
            let answer = client.request("GET", "/items/42").unwrap();
            assert_eq!((answer.status, answer.body.len()), (200, length));
            assert_eq!(
                answer.headers.get("x-mock-padding").map(String::len),
                padding
            );
            let (item, blanks) = answer.body.split_at(body(42).len());
            assert_eq!(item, body(42));
            assert!(blanks.iter().all(|byte| *byte == b' '));
        }
        assert_books(target, name, 2, &[(200, 2)]);
    }
}

#[test]
fn each_fault_is_held_like_the_answer_that_it_meets() {
    for fault in ["reset:1", "truncated:1", "challenge:1"] {
        let config = Config {
            latency: "20ms".parse().unwrap(),
            faults: fault.parse().unwrap(),
            ..Config::default()
        };
        let target = start(config);
        let clock = Clock::start();
        let mut client = Client::connect(target.address());
        client.send("GET", "/items/42");
        let mut first = [0; 1];
        drop(client.reader.read(&mut first));
        assert!(clock.now_ns() >= 20_000_000, "{fault}");
        assert_eq!(target.stop().unwrap().held_us.count, 1);
    }
}
