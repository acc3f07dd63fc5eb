//! HTTP archives (HAR 1.2), as browsers save them: the requests of `log.entries`, without what their connections needed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::time::At;
use super::{FilePosition, Parsed, RecordedRequest, RequestsError};

/// Headers of the connection that was recorded, and of its messages' frames: each crawl has its own.
const OF_CONNECTION: [&str; 8] =
    ["connection", "content-length", "host", "keep-alive", "proxy-connection", "te", "transfer-encoding", "upgrade"];

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
struct HarEntry {
    #[serde(rename = "startedDateTime")]
    started: Option<String>,
    request: HarRequest,
}

#[derive(Deserialize)]
struct HarRequest {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Header>,
    #[serde(rename = "postData")]
    body: Option<PostData>,
}

#[derive(Deserialize)]
struct Header {
    name: String,
    value: String,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(default)]
    text: String,
    #[serde(default)]
    encoding: String,
    #[serde(default)]
    params: Vec<IgnoredAny>,
}

pub(super) fn parse(text: &[u8]) -> Result<Parsed, RequestsError> {
    let har: Har = serde_json::from_slice(text).map_err(|error| RequestsError::Har(error.line(), error.column()))?;
    let mut parsed = Parsed::default();
    for (at, recorded) in har.log.entries.into_iter().enumerate() {
        let place = FilePosition::Entry(at + 1);
        let HarEntry { started, request: HarRequest { method, url, headers, body } } = recorded;
        if !["http://", "https://"].iter().any(|scheme| url.starts_with(scheme)) {
            parsed.skip(place, "its URL is neither http:// nor https://");
            continue;
        }
        let is_sent = |header: &Header| {
            !header.name.starts_with(':') && !OF_CONNECTION.iter().any(|name| name.eq_ignore_ascii_case(&header.name))
        };
        let headers = headers.iter().filter(|header| is_sent(header));
        parsed.add(RecordedRequest {
            method: Some(method),
            url: super::time::recorded_url(&url),
            headers: headers.map(|Header { name, value }| format!("{name}: {value}")).collect(),
            body: body.map(|body| content(body).map_err(|why| place.failed(why))).transpose()?,
            at: started
                .map(|text| At::of_text(&text).ok_or_else(|| place.failed("startedDateTime is not a time")))
                .transpose()?,
            ..RecordedRequest::new(place)
        })?;
    }
    Ok(parsed)
}

fn content(body: PostData) -> Result<Bytes, &'static str> {
    match &*body.encoding {
        _ if body.text.is_empty() && !body.params.is_empty() => {
            Err("its form has no text, only fields: record it again, or write the request as a JSON line")
        }
        "base64" => STANDARD.decode(body.text).map(Bytes::from).map_err(|_| "its body is not base64: record it again"),
        _ => Ok(body.text.into()),
    }
}
