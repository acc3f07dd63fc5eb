//! The journal: received requests and the responses of stubs, kept in shared memory with
//! `--journal`, so that a test can count those that match a pattern, and find those that no stub
//! matched.
//!
//! It must not grow without bound: once full it keeps its requests, and the ledger counts those
//! that it missed.

use crate::clock;
use crate::shared::{Cursor, Shared};
use crate::stubs::{Rendered, RequestPattern, RequestView, Stub};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hyper::Method;
use hyper::header::{HeaderMap, HeaderName, HeaderValue};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::net::IpAddr;
use std::time::{Duration, UNIX_EPOCH};

/// One request as it is kept.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Logged {
    method: String,
    target: String,
    /// Values with one character per byte.
    headers: Vec<(String, String)>,
    /// In base64.
    body: String,
    client: IpAddr,
    /// Milliseconds since 1970.
    at_ms: u64,
    /// Response of the stub that matched; none where no stub did.
    response: Option<LoggedResponse>,
    /// Bytes of the record.
    #[serde(skip)]
    pub(super) size: usize,
}

/// Response of a stub as it is kept: as rendered, before any fault.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct LoggedResponse {
    stub: String,
    status: u16,
    headers: Vec<(String, String)>,
    /// In base64.
    body: String,
}

impl Logged {
    fn of(asked: &RequestView<'_>, matched: Option<(&Stub, &Rendered<'_>)>) -> Self {
        let response = matched.map(|(stub, rendered)| LoggedResponse {
            stub: stub.id.to_string(),
            status: rendered.status.as_u16(),
            headers: texts(rendered.headers.iter().map(|(name, value)| (name, value))),
            body: BASE64_STANDARD.encode(&rendered.body),
        });
        Self {
            method: asked.method.to_string(),
            target: asked.target.to_owned(),
            headers: texts(asked.headers.iter()),
            body: BASE64_STANDARD.encode(asked.body),
            client: asked.client,
            at_ms: u64::try_from(clock::wall().as_millis()).unwrap_or(u64::MAX),
            response,
            size: 0,
        }
    }

    /// True if a stub matched it.
    pub(super) const fn is_matched(&self) -> bool {
        self.response.is_some()
    }

    /// True if it is of the kind that `pattern` means.
    fn is(&self, pattern: &RequestPattern) -> bool {
        let Ok(method) = Method::from_bytes(self.method.as_bytes()) else {
            return false;
        };
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let bytes: Vec<u8> = value
                .chars()
                .filter_map(|char| u8::try_from(char).ok())
                .collect();
            if let (Ok(name), Ok(value)) =
                (HeaderName::try_from(name), HeaderValue::from_bytes(&bytes))
            {
                headers.append(name, value);
            }
        }
        let body = self.body();
        let (target, client) = (self.target.as_str(), self.client);
        pattern.matches(&RequestView {
            method: &method,
            target,
            headers: &headers,
            body: &body,
            client,
        })
    }

    fn body(&self) -> Vec<u8> {
        BASE64_STANDARD.decode(&self.body).unwrap_or_default()
    }

    /// As WireMock shows a request.
    pub(super) fn to_json(&self) -> Value {
        let at = UNIX_EPOCH + Duration::from_millis(self.at_ms);
        json!({
            "url": self.target,
            "method": self.method,
            "clientIp": self.client,
            "headers": shown(&self.headers),
            "loggedDate": self.at_ms,
            "loggedDateString": humantime::format_rfc3339_millis(at).to_string(),
            "body": String::from_utf8_lossy(&self.body()),
            "bodyAsBase64": self.body,
        })
    }

    /// As WireMock shows a serve event: the request, if a stub matched it, and which response that
    /// gave.
    pub(super) fn to_event(&self) -> Value {
        let mut event = json!({"request": self.to_json(), "wasMatched": self.is_matched()});
        if let Some(LoggedResponse {
            stub,
            status,
            headers,
            body,
        }) = &self.response
        {
            event["stubMapping"] = json!({"id": stub});
            let text = BASE64_STANDARD.decode(body).unwrap_or_default();
            event["response"] = json!({
                "status": status,
                "headers": shown(headers),
                "body": String::from_utf8_lossy(&text),
                "bodyAsBase64": body,
            });
        }
        event
    }
}

/// Header fields as they are kept: values with one character per byte.
fn texts<'h>(
    fields: impl Iterator<Item = (&'h HeaderName, &'h HeaderValue)>,
) -> Vec<(String, String)> {
    let text = |value: &HeaderValue| value.as_bytes().iter().copied().map(char::from).collect();
    fields
        .map(|(name, value)| (name.to_string(), text(value)))
        .collect()
}

/// Header fields as WireMock shows them: several of a name as a list.
fn shown(fields: &[(String, String)]) -> Map<String, Value> {
    let mut headers = Map::new();
    for (name, value) in fields {
        match headers.get_mut(name) {
            None => drop(headers.insert(name.clone(), json!(value))),
            Some(Value::Array(several)) => several.push(json!(value)),
            Some(one) => *one = json!([one.clone(), value]),
        }
    }
    headers
}

/// There was no room for the request.
pub(super) struct Missed;

/// Keep a request, with the stub that matched it and its response.
pub(super) fn keep(
    shared: &Shared,
    asked: &RequestView<'_>,
    matched: Option<(&Stub, &Rendered<'_>)>,
) -> Result<(), Missed> {
    let record = serde_json::to_vec(&Logged::of(asked, matched)).map_err(|_| Missed)?;
    shared
        .region()
        .journal
        .append(&record)
        .map(|_| ())
        .map_err(|_| Missed)
}

/// Return the places of the requests, in the order in which they arrived. Nothing of them is read
/// for it.
pub(super) fn places(shared: &Shared) -> Vec<Cursor> {
    let mut cursor = Cursor::default();
    let next = || {
        let here = cursor;
        shared.region().journal.skip(&mut cursor).then_some(here)
    };
    std::iter::from_fn(next).collect()
}

/// The request at a place.
pub(super) fn at(shared: &Shared, mut place: Cursor) -> Option<Logged> {
    read(&shared.region().journal.next(&mut place)?)
}

/// The requests that `pattern` means, of all or, without one, all, in the order in which they
/// arrived.
pub(super) fn find(
    shared: &Shared,
    pattern: Option<&RequestPattern>,
) -> impl Iterator<Item = Logged> {
    let journal = &shared.region().journal;
    let mut cursor = Cursor::default();
    let all = std::iter::from_fn(move || journal.next(&mut cursor));
    let read = all.filter_map(|record| read(&record));
    read.filter(move |logged| pattern.is_none_or(|pattern| logged.is(pattern)))
}

fn read(record: &[u8]) -> Option<Logged> {
    let mut logged: Logged = serde_json::from_slice(record).ok()?;
    logged.size = record.len();
    Some(logged)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stubs::Node;
    use std::net::Ipv4Addr;

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
            assert!(keep(&shared, &asked, None).is_ok());
        }
        let count = |pattern: Value| {
            let pattern = RequestPattern::read(&Node::root(&pattern)).unwrap();
            find(&shared, Some(&pattern)).count()
        };
        assert_eq!(find(&shared, None).count(), 2);
        let places = places(&shared);
        let targets: Vec<String> = places
            .iter()
            .map(|place| at(&shared, *place).unwrap().target)
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
        let shown = find(&shared, None).next().unwrap().to_json();
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
