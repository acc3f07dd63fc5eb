//! Lines of items: their fields, the form of their bodies, and their digests.

use super::*;

const ALL: &str =
    "id,url,status,outcome,attempts,at,latency_us,content_type,etag,last_modified,digest,body";

fn item<'a>(content_type: Option<&'a [u8]>, body: Option<&'a [u8]>) -> Item<'a> {
    Item {
        number: 7,
        id: 7,
        place: None,
        url: None,
        status: Some(200),
        outcome: Some(Outcome::Ok),
        attempts: 1,
        at_us: 1_764_000_765_123_456,
        latency_us: Some(812),
        content_type,
        etag: None,
        last_modified: None,
        body: body.map(|bytes| ReceivedBody {
            bytes,
            whole: bytes.len() as u64,
        }),
    }
}

fn line(fields: &str, item: &Item<'_>) -> String {
    let mut line = Vec::new();
    LineWriter::new(fields.parse().unwrap()).append(item, &mut line);
    String::from_utf8(line).unwrap()
}

#[test]
fn a_line_has_the_fields_that_are_asked_for_in_their_order() {
    let body = Some(&b"{\"a\":\r\n[1]}\n"[..]);
    let whole = Item {
        url: Some("http://h/\"7"),
        ..item(Some(b"application/json; charset=utf-8"), body)
    };
    assert_eq!(
        line(ALL, &whole),
        "{\"id\":7,\"url\":\"http://h/\\\"7\",\"status\":200,\"outcome\":\"ok\",\"attempts\":1,\"at\":\"2025-11-24T16:12:45.123456Z\",\
         \"latency_us\":812,\"content_type\":\"application/json; charset=utf-8\",\"digest\":\"cb21e9097a98d757a2627ac22451534f\",\
         \"body\":{\"a\":  [1]} }\n"
    );
    assert_eq!(
        line("body,status", &whole),
        "{\"id\":7,\"status\":200,\"outcome\":\"ok\",\"body\":{\"a\":  [1]} }\n"
    );
    let none = Item {
        status: None,
        latency_us: None,
        outcome: Some(Outcome::SoftBlocked),
        ..item(None, None)
    };
    assert_eq!(
        line(ALL, &none),
        "{\"id\":7,\"outcome\":\"soft_blocked\",\"attempts\":1,\"at\":\"2025-11-24T16:12:45.123456Z\"}\n"
    );
}

#[test]
fn a_body_is_embedded_only_if_any_reader_takes_it() {
    let json = |body: &str| {
        line(
            "body",
            &item(Some(b"application/problem+JSON"), Some(body.as_bytes())),
        )
    };
    for body in [
        "1",
        "null",
        " [1, 2.5e300] ",
        "{\"a\":{\"a\":\"\\u00e9\\ud83d\\ude00\"}}",
        &("[".repeat(127) + &"]".repeat(127)),
    ] {
        assert_eq!(
            json(body),
            format!("{{\"id\":7,\"outcome\":\"ok\",\"body\":{body}}}\n")
        );
    }
    let deep = "[".repeat(128) + &"]".repeat(128);
    for body in [
        "",
        "{",
        "1 2",
        "\u{feff}1",
        "[1e999]",
        "\"\\ud83d\"",
        "{\"\\udc00\":1}",
        "\"\u{1}\"",
        "NaN",
        &deep,
    ] {
        assert_eq!(
            json(body),
            format!(
                "{{\"id\":7,\"outcome\":\"ok\",\"body\":{}}}\n",
                serde_json::to_string(body).unwrap()
            )
        );
    }
    assert_eq!(
        line("body", &item(Some(b"text/html"), Some(b"1"))),
        "{\"id\":7,\"outcome\":\"ok\",\"body\":\"1\"}\n"
    );
    assert_eq!(
        line("body", &item(None, Some(b"\xff"))),
        "{\"id\":7,\"outcome\":\"ok\",\"body\":\"/w==\",\"body_encoding\":\"base64\"}\n"
    );
}
