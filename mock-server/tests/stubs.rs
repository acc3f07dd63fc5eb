//! Stubs over real loopback sockets: what they answer together with limits, and that every process
//! has the same.
#![expect(
    clippy::unwrap_used,
    reason = "the helpers of a test may stop at the first surprise, as the test itself may"
)]

use crate::client::{Answer, Client, start};
use crawlmark_mock_server::{Config, Handle, Mappings, OnUnsupported, Unmatched};

/// A target with the stubs of one mapping file.
fn target(mapping: &str, config: Config) -> Handle {
    let stubs = Some(Mappings::parse(mapping.as_bytes(), OnUnsupported::Refuse).unwrap());
    let config = Config {
        stubs,
        unmatched: Unmatched::NotFound,
        ..config
    };
    start(config)
}

/// One request on a connection of its own.
fn ask(target: &Handle, path: &str) -> Answer {
    let mut client = Client::connect(target.address());
    client.request("GET", path).unwrap()
}

fn statuses(target: &Handle, path: &str, times: usize) -> Vec<u16> {
    (0..times).map(|_| ask(target, path).status).collect()
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
    let ledger = target.stop().unwrap();
    let of = |name: &str| {
        (
            ledger.by_limit[name].admitted,
            ledger.by_limit[name].rejected,
        )
    };
    assert_eq!((of("gcra"), of("all")), ((3, 1), (6, 1)));
}

#[test]
fn what_a_template_draws_does_not_repeat_for_one_id_nor_after_a_reset() {
    let mapping = r#"{"request": {"urlPathPattern": "/.*"}, "response":
        {"transformers": ["response-template"], "body": "{{randomValue type='UUID'}}"}}"#;
    let target = target(mapping, Config::default());
    let mut drawn = Vec::new();
    for round in 0..2 {
        drawn.extend((0..24).map(|_| ask(&target, "/users/7").body));
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
        let mut client = Client::connect(target.address());
        client.write(&format!("POST / HTTP/1.1\r\nhost: a\r\n{request}"));
        client
    };
    let mut malformed = send("transfer-encoding: chunked\r\n\r\nno chunk\r\n");
    assert_eq!(malformed.rest(), Ok(Vec::new()));
    // A client that leaves before the end gets no answer either, and none is counted.
    let left = send("content-length: 10\r\n\r\nabc");
    while target.ledger().requests < 2 {
        std::thread::yield_now();
    }
    drop(left);
    let mut whole = send("content-length: 5\r\n\r\nwhole");
    assert_eq!(whole.receive("POST").unwrap().status, 200);
    let ledger = target.stop().unwrap();
    assert_eq!(
        (ledger.requests, ledger.by_status.values().sum::<u64>()),
        (3, 1),
        "{:?}",
        ledger.by_status
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
    let ledger = target.stop().unwrap();
    assert_eq!(ledger.by_limit["leaky"].delayed, 2);
    assert_eq!(ledger.held_us.count, 2);
}
