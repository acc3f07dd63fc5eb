//! Lines of items: their fields, the form of their bodies, and their digests.

use proptest::prelude::*;

use super::*;

const ALL: &str = "id,url,status,outcome,attempts,at,latency_us,content_type,digest,body";

fn item<'a>(content_type: Option<&'a [u8]>, body: Option<&'a [u8]>) -> Item<'a> {
    Item {
        number: 7,
        id: 7,
        url: None,
        status: Some(200),
        outcome: Some(Outcome::Ok),
        attempts: 1,
        at_us: 1_764_000_765_123_456,
        latency_us: Some(812),
        content_type,
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

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let json = "[ \\[\\]{}\",:a0e\\\\u\n\r.-]{0,12}|\\{\"a\":[ \n]?\"[a-z\\\\\"é]{0,9}\"[\r\n]*\\}|\\[[0-9e.,\n -]{0,9}\\]";
    prop_oneof![
        json.prop_map(String::into_bytes),
        any::<String>().prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..9)
    ]
}

proptest! {
    #[test]
    fn a_line_is_one_object_whose_body_is_that_of_the_response_and_of_the_digest(
        content_type in prop::option::of(prop_oneof![Just(b"application/json".to_vec()), prop::collection::vec(any::<u8>(), 0..9)]),
        body in any_body(), url: Option<String>, at_us in 0..253_402_300_800_000_000_u64,
    ) {
        let item = Item { url: url.as_deref(), at_us, ..item(content_type.as_deref(), Some(&body)) };
        let line = line(ALL, &item);
        prop_assert!(line.ends_with('\n') && !line[..line.len() - 1].contains(['\n', '\r']));
        let record: serde_json::Map<String, serde_json::Value> = serde_json::from_str(&line).unwrap();
        prop_assert_eq!(record.get("url").map(|url| url.as_str().unwrap().to_owned()), url);
        let at = humantime::parse_rfc3339(record["at"].as_str().unwrap()).unwrap();
        prop_assert_eq!(at.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_micros(), u128::from(at_us));
        let spaces: Vec<u8> = body.iter().map(|byte| if is_break(*byte) { b' ' } else { *byte }).collect();
        let start = line.find(",\"body\":").unwrap() + 8;
        let is_embedded = line.as_bytes()[start..line.len() - 2] == spaces;
        let saved = match record.get("body_encoding") {
            _ if is_embedded => spaces,
            None => record["body"].as_str().unwrap().as_bytes().to_vec(),
            Some(_) => STANDARD.decode(record["body"].as_str().unwrap()).unwrap(),
        };
        prop_assert!(saved == body || is_embedded, "{}", line);
        let digest = format!("{:x}", Sha256::digest(&saved));
        prop_assert_eq!(record["digest"].as_str(), Some(&digest[..2 * DIGEST]));
    }
}
