//! The journal: received requests and the responses of stubs, kept in shared memory with
//! `--journal`, so that a test can count those that match a pattern, and find those that no stub
//! matched.
//!
//! It must not grow without bound: once full it keeps its requests, and the ledger counts those
//! that it missed.

use crate::clock;
use crate::shared::{Cursor, Full, Shared};
use crate::stubs::{Rendered, RequestPattern, RequestView, Stub};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};
use std::net::Ipv4Addr;
use std::time::UNIX_EPOCH;
use uuid::Uuid;

/// One request, with the response of the stub that matched it, as WireMock shows a serve event. A
/// response is kept as rendered, before any fault. Values of headers have one character per byte.
pub(super) struct Logged(pub(super) Value);

impl Logged {
    /// True if a stub matched it.
    pub(super) fn is_matched(&self) -> bool {
        self.0["wasMatched"] == true
    }

    /// Show the request to `see`, as patterns look at it. What is not said of it is as of a GET
    /// from this machine without headers or a body. None if it is no request.
    pub(super) fn see<T>(&self, see: impl FnOnce(&RequestView<'_>) -> T) -> Option<T> {
        let request = &self.0["request"];
        let mut headers = HeaderMap::new();
        for (name, values) in request["headers"].as_object().into_iter().flatten() {
            let name = HeaderName::try_from(name).ok()?;
            let one = std::slice::from_ref(values);
            for value in values.as_array().map_or(one, Vec::as_slice) {
                let bytes: Option<Vec<u8>> = value
                    .as_str()?
                    .chars()
                    .map(|char| u8::try_from(char).ok())
                    .collect();
                headers.append(name.clone(), HeaderValue::from_bytes(&bytes?).ok()?);
            }
        }
        let text = |name: &str| request[name].as_str();
        let body = text("bodyAsBase64").map_or_else(
            || Ok(text("body").unwrap_or_default().into()),
            |body| BASE64_STANDARD.decode(body),
        );
        let client = text("clientIp").map_or(Ok(Ipv4Addr::LOCALHOST.into()), str::parse);
        Some(see(&RequestView {
            method: &Method::from_bytes(text("method").unwrap_or("GET").as_bytes()).ok()?,
            target: text("url")?,
            headers: &headers,
            body: &body.ok()?,
            client: client.ok()?,
        }))
    }

    /// True if it came after a time, in milliseconds since 1970.
    pub(super) fn is_after(&self, since: u128) -> bool {
        let logged = self.0["request"]["loggedDate"].as_u64();
        logged.is_some_and(|logged| u128::from(logged) > since)
    }
}

/// First half of the id of each request: of a UUID of version 8.
const ID_BEGINS: u64 = 0x6372_6177_6c6d_8000;

/// Bits of the second half that make it one; the others are the request's number.
const ID_ENDS: u64 = 1 << 63;

/// Header fields, several of a name as a list.
fn shown<'h>(
    fields: impl Iterator<Item = (&'h HeaderName, &'h HeaderValue)>,
) -> Map<String, Value> {
    let mut headers = Map::new();
    for (name, value) in fields {
        let value: String = value.as_bytes().iter().copied().map(char::from).collect();
        match headers.get_mut(name.as_str()) {
            None => drop(headers.insert(name.to_string(), json!(value))),
            Some(Value::Array(several)) => several.push(json!(value)),
            Some(one) => *one = json!([one.take(), value]),
        }
    }
    headers
}

/// A request that is kept: the response of the stub that matched it, or the status without one.
pub(super) struct Served<'s> {
    /// Its number.
    pub(super) ordinal: u64,
    pub(super) asked: &'s RequestView<'s>,
    pub(super) outcome: Outcome<'s>,
}

/// What a request came to.
#[derive(Clone, Copy)]
pub(super) enum Outcome<'s> {
    /// The response of this stub.
    Matched(&'s Stub, &'s Rendered<'s>),
    /// 404, for no stub matches.
    Refused,
    /// No stub matches, and the response is none of theirs.
    Other,
}

/// Keep a request.
pub(super) fn keep(shared: &Shared, served: &Served<'_>) -> Result<(), Full> {
    let Served {
        ordinal,
        asked,
        outcome,
    } = served;
    let now = clock::wall();
    let mut event = json!({
        "id": Uuid::from_u64_pair(ID_BEGINS, ID_ENDS | ordinal),
        "request": {
            "url": asked.target,
            "method": asked.method.as_str(),
            "clientIp": asked.client,
            "headers": shown(asked.headers.iter()),
            "loggedDate": u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
            "loggedDateString": humantime::format_rfc3339_millis(UNIX_EPOCH + now).to_string(),
            "bodyAsBase64": BASE64_STANDARD.encode(asked.body),
            "body": String::from_utf8_lossy(asked.body),
        },
        "wasMatched": matches!(outcome, Outcome::Matched(..)),
    });
    match outcome {
        Outcome::Matched(stub, rendered) => {
            event["stubMapping"] = json!({"id": stub.id});
            event["response"] = json!({
                "status": rendered.status.as_u16(),
                "headers": shown(rendered.headers.iter().map(|(name, value)| (name, value))),
                "bodyAsBase64": BASE64_STANDARD.encode(&rendered.body),
                "body": String::from_utf8_lossy(&rendered.body),
            });
        }
        Outcome::Refused => event["response"] = json!({"status": 404}),
        Outcome::Other => {}
    }
    let journal = &shared.region().journal;
    journal.append(event.to_string().as_bytes())
}

/// Return the places of the requests, in the order in which they arrived. Nothing of them is read
/// for it.
pub(super) fn places(shared: &Shared) -> Vec<Cursor> {
    let journal = &shared.region().journal;
    let mut cursor = Cursor::default();
    std::iter::from_fn(|| {
        let here = cursor;
        journal.skip(&mut cursor).then_some(here)
    })
    .collect()
}

/// The request at a place.
pub(super) fn at(shared: &Shared, mut place: Cursor) -> Option<Logged> {
    let record = shared.region().journal.next(&mut place)?;
    serde_json::from_slice(&record).ok().map(Logged)
}

/// The requests that `pattern` means, of all or, without one, all, in the order in which they
/// arrived.
pub(super) fn find(
    shared: &Shared,
    pattern: Option<&RequestPattern>,
) -> impl Iterator<Item = Logged> {
    places(shared)
        .into_iter()
        .filter_map(|place| at(shared, place))
        .filter(move |logged| {
            pattern.is_none_or(|pattern| {
                let is_meant = logged.see(|asked| pattern.matches(asked));
                is_meant.unwrap_or_default()
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::Node;
    use std::net::IpAddr;

    #[test]
    fn what_is_kept_is_found_as_it_was() {
        let shared = Shared::new().unwrap();
        let mut headers = HeaderMap::new();
        headers.append("x-one", HeaderValue::from_bytes(b"gr\xfc\xdfe").unwrap());
        headers.append("x-many", HeaderValue::from_static("1"));
        headers.append("x-many", HeaderValue::from_static("2"));
        headers.append("x-many", HeaderValue::from_static("3"));
        let client = IpAddr::V4(Ipv4Addr::LOCALHOST);
        for (method, target, body) in [
            (Method::GET, "/a?x=1", &b""[..]),
            (Method::POST, "/b", b"\xff{\"a\":1}"),
        ] {
            let asked = RequestView {
                method: &method,
                target,
                headers: &headers,
                body,
                client,
            };
            let served = Served {
                ordinal: 1,
                asked: &asked,
                outcome: Outcome::Refused,
            };
            assert!(keep(&shared, &served).is_ok());
        }
        let count = |pattern: Value| {
            let pattern = RequestPattern::read(&Node::root(&pattern)).unwrap();
            find(&shared, Some(&pattern)).count()
        };
        assert_eq!(find(&shared, None).count(), 2);
        let places = places(&shared);
        let targets: Vec<String> = places
            .iter()
            .map(|place| {
                at(&shared, *place).unwrap().0["request"]["url"]
                    .as_str()
                    .unwrap()
                    .to_owned()
            })
            .collect();
        assert_eq!(targets, ["/a?x=1", "/b"]);
        assert_eq!(count(json!({"method": "GET"})), 1);
        assert_eq!(
            count(json!({"urlPath": "/a", "queryParameters": {"x": {"equalTo": "1"}}})),
            1
        );
        assert_eq!(
            count(json!({"headers": {"X-One": {"equalTo": "grüße"}}})),
            2
        );
        assert_eq!(
            count(
                json!({"headers": {"X-Many": {"hasExactly": [{"equalTo": "1"}, {"equalTo": "2"}]}}})
            ),
            0
        );
        assert_eq!(count(json!({"bodyPatterns": [{"contains": "\"a\""}]})), 1);
        let shown = &find(&shared, None).next().unwrap().0["request"];
        assert_eq!(
            shown["headers"],
            json!({"x-one": "grüße", "x-many": ["1", "2", "3"]})
        );
        assert_eq!(
            (&shown["url"], &shown["method"], &shown["clientIp"]),
            (&json!("/a?x=1"), &json!("GET"), &json!("127.0.0.1"))
        );
        shared.forget_journal();
        assert_eq!(find(&shared, None).count(), 0);
    }
}
