//! Random requests and stubs: for fuzzers of mapping files, and for the tests.

use crate::draw::{Draws, Stream};
use crate::stubs::{Occasion, RequestView, STARTED, Scheme, Stubs};
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, UNIX_EPOCH};

const HEADERS: [(&str, &[u8]); 6] = [
    ("host", b"[::1]:8080"),
    ("cookie", b"session=\"abc\"; a=1; a=$2;; b"),
    ("x-one", b"one"),
    ("x-one", b"gr\xfc\xdfe"),
    ("content-type", b"application/x-www-form-urlencoded"),
    ("authorization", b"Basic dXNlcjpwYXNz"),
];

const ASKED: [(Method, &str, &[u8]); 4] = [
    (
        Method::GET,
        "/things/a%2Fb/parts/%c3%28?q=1&q=a+b&id=%zz&q&since=2026-01-31T12:00:00+01:00",
        b"",
    ),
    (
        Method::POST,
        "/b/json?x=%F0%9F%92%A9",
        b"{\"a\": [1, {\"b\": \"caf\xc3\xa9\"}], \"n\": 1.5e3}",
    ),
    (Method::PUT, "*", b"name=a+b&x=%ff&&=1"),
    (Method::DELETE, "//a//?", b"\xff\x00\xfe"),
];

pub(super) fn rehearse(stubs: &Stubs) {
    let headers: HeaderMap = HEADERS
        .into_iter()
        .filter_map(|(name, value)| {
            Some((
                HeaderName::from_static(name),
                HeaderValue::from_bytes(value).ok()?,
            ))
        })
        .collect();
    for (method, target, body) in &ASKED {
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let asked = RequestView {
            method,
            target,
            headers: &headers,
            body,
            client,
        };
        let _ = stubs.find(&asked, |_, state| state == STARTED);
        for stub in stubs.iter() {
            let is_match = stub.request.matches(&asked);
            let distance = stub.request.distance_from(&asked);
            assert!((0.0..=1.0).contains(&distance), "{distance}");
            assert_eq!(is_match, distance <= 0.0, "of {}", stub.json);
            let path_variables = stub.request.path_variables(asked.path());
            let now = UNIX_EPOCH + Duration::from_hours(500_000);
            let mut draws = Draws::new(Stream::Template, 1, 2);
            let occasion = Occasion {
                asked: &asked,
                path_variables: &path_variables,
                now,
                scheme: Scheme::Http,
            };
            let _ = stub.reply.render(&occasion, &mut draws);
            let _ = stub.reply.delays.hold(&stubs.settings.delays, 1, 2);
        }
    }
}
