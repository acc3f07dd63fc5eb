//! Answers against what WireMock makes of the same `response`.

use super::*;
use crate::draw::Stream;
use crate::stubs::request::RequestView;
use crate::stubs::template::Scheme;
use hyper::Method;
use hyper::header::HeaderMap;
use serde_json::json;
use std::net::IpAddr;
use std::time::{Duration, SystemTime};

fn read(response: &Value) -> Result<Reply, String> {
    Reply::read(Some(&Node::root(response)), &Files::None).map_err(|problem| problem.to_string())
}

/// Renders for `GET /a?x=…`, and gives what is sent to `look`.
fn looked_at<T>(reply: &Reply, x: &str, look: impl FnOnce(Rendered<'_>) -> T) -> T {
    let target = format!("/a?x={x}");
    let headers = HeaderMap::new();
    let client = IpAddr::from([127, 0, 0, 1]);
    let asked = RequestView {
        method: &Method::GET,
        target: &target,
        headers: &headers,
        body: &[],
        client,
    };
    let occasion = Occasion {
        asked: &asked,
        path_variables: &[],
        now: SystemTime::UNIX_EPOCH,
        scheme: Scheme::Http,
    };
    look(reply.render(&occasion, &mut Draws::new(Stream::Body, 1, 1)))
}

/// Status, headers and body.
type Sent = (u16, Vec<(String, Vec<u8>)>, Vec<u8>);

fn sent(reply: &Reply, x: &str) -> Sent {
    looked_at(reply, x, |rendered| {
        let headers = rendered
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), value.as_bytes().to_vec()));
        (
            rendered.status.as_u16(),
            headers.collect(),
            rendered.body.to_vec(),
        )
    })
}

fn body(response: &Value) -> String {
    String::from_utf8(sent(&read(response).unwrap(), "1").2).unwrap()
}

#[test]
fn body_files_are_read_when_the_stub_is() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("a.json"), "x is {{request.query.x}}").unwrap();
    std::fs::write(folder.path().join("latin"), b"\xe9").unwrap();
    let files = Files::Under(folder.path().to_path_buf());
    let read = |response: &Value| {
        Reply::read(Some(&Node::root(response)), &files).map_err(|problem| problem.to_string())
    };
    let plain = read(&json!({"bodyFileName": "a.json"})).unwrap();
    let on = json!(["response-template"]);
    let filled = read(&json!({"bodyFileName": "a.json", "transformers": on})).unwrap();
    let off = json!({"bodyFileName": "latin", "transformers": on, "transformerParameters": {"disableBodyFileTemplating": true}});
    let raw = read(&off).unwrap();
    std::fs::remove_file(folder.path().join("a.json")).unwrap();
    assert_eq!(sent(&plain, "1").2, b"x is {{request.query.x}}");
    assert_eq!(sent(&filled, "1").2, b"x is 1");
    assert_eq!(sent(&raw, "1").2, b"\xe9");
    for response in [
        json!({"bodyFileName": "a.json"}),
        json!({"bodyFileName": "../a.json"}),
        json!({"bodyFileName": "{{x}}"}),
        json!({"bodyFileName": "latin", "transformers": on}),
    ] {
        let problem = read(&response).unwrap_err();
        assert!(problem.starts_with("/bodyFileName: "), "{problem}");
    }
}

#[test]
fn templates_fill_bodies_and_headers_where_they_are_asked_for() {
    let response = json!({
        "headers": {"X": "{{request.query.x}}", "Y": "fixed"},
        "jsonBody": {"x": "{{request.query.x}}", "p": "{{parameters.p}}"},
        "transformers": ["response-template"],
        "transformerParameters": {"p": "π"}
    });
    let (_, headers, body) = sent(&read(&response).unwrap(), "%C3%A9%0D%0AX-Split:%E2%82%AC");
    // A line break from outside does not break the line.
    assert_eq!(headers[0], ("x".to_owned(), b"\xe9  X-Split: ".to_vec()));
    assert_eq!(headers[1].1, b"fixed");
    assert_eq!(
        String::from_utf8(body).unwrap(),
        "{\"x\":\"é\r\nX-Split:€\",\"p\":\"π\"}"
    );
    let plain = json!({"headers": {"X": "{{request.url}}"}, "body": "{{#if}}"});
    assert_eq!(sent(&read(&plain).unwrap(), "1").2, b"{{#if}}");
    let base64 = json!({"base64Body": "e3t4fX0=", "transformers": ["response-template"]});
    assert_eq!(self::body(&base64), "{{x}}");
}

#[test]
fn a_template_that_fails_is_a_500() {
    let reply = read(&json!({
        "status": 201, "statusMessage": "Made", "headers": {"X": "1"}, "body": "{{math 1 '/' request.query.x}}",
        "transformers": ["response-template"]
    }));
    let reply = reply.unwrap();
    assert_eq!(
        sent(&reply, "2"),
        (201, vec![("x".to_owned(), b"1".to_vec())], b"1".to_vec())
    );
    let (status, headers, body) = sent(&reply, "0");
    assert_eq!(
        (status, body),
        (500, b"a template failed: math divides by zero".to_vec())
    );
    assert_eq!(
        headers,
        [("content-type".to_owned(), b"text/plain".to_vec())]
    );
}

#[test]
fn delays_dribble_and_breakage_are_read() {
    let reply = read(&json!({
        "fixedDelayMilliseconds": 500,
        "delayDistribution": {"type": "uniform", "lower": 1, "upper": 2},
        "chunkedDribbleDelay": {"numberOfChunks": 5, "totalDuration": 1000},
        "fault": "RANDOM_DATA_THEN_CLOSE",
        "fromConfiguredStub": true
    }));
    let reply = reply.unwrap();
    let hold = reply.delays.hold(&Delays::default(), 1, 1);
    assert!((501..=502).contains(&hold.as_millis()), "{hold:?}");
    assert_eq!(reply.dribble.unwrap().pieces.get(), 5);
    let tail =
        json!({"delayDistribution": {"type": "lognormal", "median": 2, "sigma": 5, "maxValue": 4}});
    let tail = read(&tail).unwrap();
    let longest = (0..100)
        .map(|id| tail.delays.hold(&Delays::default(), 1, id))
        .max();
    assert_eq!(longest, Some(Duration::from_millis(4)));
    assert_eq!(reply.fault, Some(Fault::Garbage));
}

#[test]
fn what_is_wrong_is_named_with_its_place() {
    let on = json!(["response-template"]);
    for (response, pointer) in [
        (json!({"stauts": 200}), "/stauts"),
        (json!({"status": 1000}), "/status"),
        (json!({"statusMessage": "a\nb"}), "/statusMessage"),
        (json!({"headers": {"X Y": "1"}}), "/headers/X Y"),
        (json!({"headers": {"X": ["a", true]}}), "/headers/X/1"),
        (json!({"base64Body": "a!"}), "/base64Body"),
        (
            json!({"fixedDelayMilliseconds": 3_600_001}),
            "/fixedDelayMilliseconds",
        ),
        (
            json!({"delayDistribution": {"type": "uniform", "lower": 2, "upper": 1}}),
            "/delayDistribution",
        ),
        (
            json!({"chunkedDribbleDelay": {"numberOfChunks": 0}}),
            "/chunkedDribbleDelay/numberOfChunks",
        ),
        (json!({"transformers": ["mine"]}), "/transformers/0"),
        (json!({"proxyBaseUrl": "http://a"}), "/proxyBaseUrl"),
        (
            json!({"headers": {"X": ["a", "{{trim}}"]}, "transformers": on}),
            "/headers/X/1",
        ),
    ] {
        let problem = Reply::read(Some(&Node::root(&response)), &Files::None).unwrap_err();
        assert_eq!(problem.pointer, pointer, "{response}");
    }
    let empty = json!({"proxyBaseUrl": "", "proxyUrlPrefixToRemove": null, "additionalProxyRequestHeaders": {}, "removeProxyRequestHeaders": []});
    assert!(read(&empty).is_ok());
}

#[test]
fn a_reply_without_templates_is_rendered_by_pointing_at_it() {
    let reply =
        read(&json!({"body": "a long body", "headers": {"X": "a long header value"}})).unwrap();
    let pointers = || {
        looked_at(&reply, "1", |rendered| {
            // What the server does with a header: a copy that shares its bytes.
            (
                rendered.body.as_ptr(),
                rendered.headers[0].1.clone().as_bytes().as_ptr(),
            )
        })
    };
    assert_eq!(pointers(), pointers());
    // A template without gaps is none.
    let constant = json!({"body": "{{parameters.a}}", "transformers": ["response-template"], "transformerParameters": {"a": "b"}});
    let constant = read(&constant).unwrap();
    assert!(constant.ready().is_some());
}
