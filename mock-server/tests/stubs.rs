//! Stubs over real loopback sockets: what they answer together with limits, and that every process
//! has the same.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may stop at the first surprise, as the test itself may"
)]

use crawlmark_mock_server::{Config, Handle, Mappings, OnUnsupported, Unmatched, serve};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// A target with the stubs of one mapping file.
fn target(mapping: &str, config: Config) -> Handle {
    let stubs = Some(Mappings::parse(mapping.as_bytes(), OnUnsupported::Refuse).unwrap());
    let config = Config {
        stubs,
        unmatched: Unmatched::NotFound,
        ..config
    };
    serve(TcpListener::bind("127.0.0.1:0").unwrap(), config).unwrap()
}

/// The whole answer to one request.
fn ask(target: &Handle, method: &str, path: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(target.address()).unwrap();
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: target\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

fn statuses(target: &Handle, path: &str, times: usize) -> Vec<u16> {
    (0..times)
        .map(|_| status(&ask(target, "GET", path, "")))
        .collect()
}

#[test]
fn a_limit_with_a_path_is_for_what_begins_with_it() {
    let mapping =
        r#"{"mappings": [{"request": {"urlPattern": "/a.*"}}, {"request": {"url": "/b"}}]}"#;
    let texts = ["3/h:burst=3:path=/a", "1/h:burst=6:name=all"];
    let limits: Vec<_> = texts.iter().map(|text| text.parse().unwrap()).collect();
    let target = target(
        mapping,
        Config {
            limits: limits.try_into().unwrap(),
            ..Config::default()
        },
    );
    // What the one turns away takes nothing from the other.
    assert_eq!(statuses(&target, "/a/1", 2), [200, 200]);
    assert_eq!(statuses(&target, "/ab", 2), [200, 429]);
    assert_eq!(statuses(&target, "/b", 4), [200, 200, 200, 429]);
    let books = target.stop().unwrap();
    let of = |name: &str| (books.by_limit[name].admitted, books.by_limit[name].rejected);
    assert_eq!((of("gcra"), of("all")), ((3, 1), (6, 1)));
}

#[test]
fn what_a_template_draws_does_not_repeat_for_one_id_nor_after_a_reset() {
    let mapping = r#"{"request": {"urlPathPattern": "/.*"}, "response":
        {"transformers": ["response-template"], "body": "{{randomValue type='UUID'}}"}}"#;
    let target = target(mapping, Config::default());
    let mut drawn: Vec<String> = Vec::new();
    for round in 0..2 {
        drawn.extend((0..24).map(|_| {
            ask(&target, "GET", "/users/7", "")
                .split("\r\n\r\n")
                .nth(1)
                .unwrap()
                .to_owned()
        }));
        if round == 0 {
            target.reset_ledger();
        }
    }
    assert!(drawn.iter().all(|uuid| uuid.len() == 36), "{drawn:?}");
    drawn.sort_unstable();
    drawn.dedup();
    assert_eq!(drawn.len(), 48);
}

#[test]
fn a_body_that_does_not_come_is_the_end_of_its_connection() {
    let target = target(r#"{"request": {"method": "POST"}}"#, Config::default());
    let send = |request: &str| {
        let mut stream = TcpStream::connect(target.address()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        stream
    };
    let mut malformed =
        send("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\nno chunk\r\n");
    let mut answer = String::new();
    malformed.read_to_string(&mut answer).unwrap();
    assert_eq!(answer, "");
    // A client that leaves before the end gets no answer either, and none is counted.
    let left = send("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc");
    while target.ledger().requests < 2 {
        std::thread::yield_now();
    }
    drop(left);
    assert_eq!(status(&ask(&target, "POST", "/", "whole")), 200);
    let books = target.stop().unwrap();
    assert_eq!(
        (books.requests, books.by_status.values().sum::<u64>()),
        (3, 1),
        "{:?}",
        books.by_status
    );
}

#[test]
fn a_turn_that_a_limit_lets_a_request_wait_for_is_waited_for_whatever_the_answer() {
    let mapping = r#"{"request": {"url": "/known"}}"#;
    let limits = vec!["leaky:20/s:burst=5".parse().unwrap()]
        .try_into()
        .unwrap();
    let target = target(
        mapping,
        Config {
            limits,
            ..Config::default()
        },
    );
    assert_eq!(statuses(&target, "/unknown", 3), [404; 3]);
    let books = target.stop().unwrap();
    assert_eq!(books.by_limit["leaky"].delayed, 2);
    assert_eq!(books.held_us.count, 2);
}
