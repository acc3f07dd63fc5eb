//! Stubs over real loopback sockets: what they answer together with limits, and that every process has the same.
#![expect(clippy::unwrap_used, reason = "the helpers of a test may stop at the first surprise, as the test itself may")]

use crawlmark_mock_server::{Config, Handle, Mappings, OnUnsupported, Unmatched, serve};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

/// A target with the stubs of one mapping file.
fn target(mapping: &str, config: Config) -> Handle {
    let stubs = Some(Mappings::parse(mapping.as_bytes(), OnUnsupported::Refuse).unwrap());
    let config = Config { stubs, unmatched: Unmatched::NotFound, ..config };
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
    (0..times).map(|_| status(&ask(target, "GET", path, ""))).collect()
}

#[test]
fn a_limit_in_the_metadata_is_for_its_stubs_alone() {
    let mapping = r#"{"mappings": [
        {"request": {"url": "/a"}, "metadata": {"x-ratelimit": "3/h:burst=3"}, "response": {"body": "a"}},
        {"request": {"url": "/b"}, "metadata": {"x-ratelimit": "2/h:burst=2:status=503:name=of-b"}},
        {"request": {"url": "/also-b"}, "metadata": {"x-ratelimit": "2/h:burst=2:status=503:name=of-b"}},
        {"request": {"url": "/free"}, "metadata": {"owner": "nobody"}}
    ]}"#;
    let target = target(mapping, Config::default());
    assert_eq!(statuses(&target, "/a", 5), [200, 200, 200, 429, 429]);
    // Two stubs with one and the same limit share it.
    assert_eq!(statuses(&target, "/b", 1), [200]);
    assert_eq!(statuses(&target, "/also-b", 2), [200, 503]);
    assert_eq!(statuses(&target, "/b", 1), [503]);
    assert_eq!(statuses(&target, "/free", 20), [200; 20]);
    assert!(ask(&target, "GET", "/a", "").contains("\r\nretry-after: "));
    let books = target.stop().unwrap();
    let of = |name: &str| (books.by_limit[name].admitted, books.by_limit[name].rejected);
    assert_eq!((of("gcra"), of("of-b")), ((3, 3), (2, 2)));
    assert_eq!((books.stub_answers, books.rejected), (25, 5));
}

#[test]
fn a_stub_s_limit_and_the_target_s_are_asked_together() {
    let mapping = r#"{"mappings": [
        {"request": {"url": "/a"}, "metadata": {"x-ratelimit": "1/h:burst=4:name=of-a"}},
        {"request": {"url": "/b"}}
    ]}"#;
    let limits = vec!["1/h:burst=6:name=of-all".parse().unwrap()].try_into().unwrap();
    let target = target(mapping, Config { limits, ..Config::default() });
    // What the one turns away takes nothing from the other.
    assert_eq!(statuses(&target, "/a", 9), [200, 200, 200, 200, 429, 429, 429, 429, 429]);
    assert_eq!(statuses(&target, "/b", 3), [200, 200, 429]);
    let books = target.stop().unwrap();
    assert_eq!((books.by_limit["of-a"].admitted, books.by_limit["of-all"].admitted), (4, 6));
}

#[test]
fn a_limit_that_is_none_or_comes_too_late_is_refused() {
    let refused = |limit: &str| {
        let mapping = format!(r#"{{"metadata": {{"x-ratelimit": {limit}}}}}"#);
        Mappings::parse(mapping.as_bytes(), OnUnsupported::Refuse).unwrap_err().to_string()
    };
    assert!(refused("\"often\"").contains("/metadata/x-ratelimit: "), "{}", refused("\"often\""));
    assert!(refused("7").contains("/metadata/x-ratelimit: expected a text, found a number"));
    assert!(refused("\"connections:5\"").contains("/metadata/x-ratelimit: a cap on connections"));
    let known = r#"{"request": {"url": "/a"}, "metadata": {"x-ratelimit": "3/h:burst=3"}}"#;
    let target = target(known, Config::default());
    let also = r#"{"request": {"url": "/b"}, "metadata": {"x-ratelimit": "3/h:burst=3"}}"#;
    assert_eq!(status(&ask(&target, "POST", "/__admin/mappings", also)), 201);
    assert_eq!(statuses(&target, "/b", 4), [200, 200, 200, 429]);
    let new = ask(&target, "POST", "/__admin/mappings", &also.replace("3/h", "4/h"));
    assert_eq!(status(&new), 422);
    assert!(new.contains("the limit `4/h:burst=3` is of no stub that was loaded at the start"), "{new}");
}

#[test]
fn too_many_limits_are_an_error_before_anything_is_served() {
    let stubs: Vec<String> =
        (1..=17).map(|number| format!(r#"{{"metadata": {{"x-ratelimit": "{number}/h"}}}}"#)).collect();
    let mapping = format!(r#"{{"mappings": [{}]}}"#, stubs.join(","));
    let stubs = Some(Mappings::parse(mapping.as_bytes(), OnUnsupported::Refuse).unwrap());
    let config = Config { stubs, ..Config::default() };
    assert!(config.check().unwrap_err().to_string().contains("17 limits are too many"));
    let target = serve(TcpListener::bind("127.0.0.1:0").unwrap(), config).unwrap();
    assert!(target.stop().unwrap_err().to_string().contains("17 limits are too many"));
}
