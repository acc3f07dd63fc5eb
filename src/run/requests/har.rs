//! HTTP archives (HAR 1.2), as browsers save them: the requests of `log.entries`, without what
//! their connections needed.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Deserialize;
use url::form_urlencoded::Serializer;

use super::time::{At, recorded_url};
use super::{Fault, FilePosition, Parsed, RecordedRequest};

/// Headers of the connection that was recorded, and of its messages' frames: each crawl has its
/// own.
const OF_CONNECTION: [&str; 8] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-connection",
    "te",
    "transfer-encoding",
    "upgrade",
];

/// A HAR file. Exporters write null for what they do not have.
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
    method: Option<String>,
    url: Option<String>,
    headers: Option<Vec<Field>>,
    #[serde(rename = "postData")]
    body: Option<PostData>,
}

/// A header or a field of a form.
#[derive(Deserialize)]
struct Field {
    name: Option<String>,
    value: Option<String>,
}

#[derive(Deserialize)]
struct PostData {
    #[serde(rename = "mimeType")]
    media_type: Option<String>,
    text: Option<String>,
    encoding: Option<String>,
    params: Option<Vec<Field>>,
}

pub(super) fn parse(text: &[u8]) -> Result<Parsed, Fault> {
    let har: Har = serde_json::from_slice(text).map_err(|error| {
        format!(
            " is no valid HAR file at line {}, column {}: save it again from the browser",
            error.line(),
            error.column()
        )
    })?;
    let mut parsed = Parsed {
        is_recording: true,
        ..Parsed::default()
    };
    for (at, recorded) in har.log.entries.into_iter().enumerate() {
        let place = FilePosition::Entry(at + 1);
        match entry(place, recorded) {
            Ok(entry) => parsed.add(entry)?,
            Err(why) => parsed.skip(place, why),
        }
    }
    Ok(parsed)
}

fn entry(place: FilePosition, recorded: HarEntry) -> Result<RecordedRequest, &'static str> {
    let HarEntry {
        started,
        request:
            HarRequest {
                method,
                url,
                headers,
                body,
            },
    } = recorded;
    let url = url.unwrap_or_default();
    if !["http://", "https://"]
        .iter()
        .any(|scheme| url.starts_with(scheme))
    {
        return Err("its URL is neither http:// nor https://");
    }
    Ok(RecordedRequest {
        method,
        url: recorded_url(&url),
        headers: headers
            .into_iter()
            .flatten()
            .filter_map(|Field { name, value }| {
                let name: String = name?;
                let is_sent = !name.starts_with(':')
                    && !OF_CONNECTION
                        .iter()
                        .any(|of| of.eq_ignore_ascii_case(&name));
                is_sent.then(|| format!("{name}: {}", value.unwrap_or_default()))
            })
            .collect(),
        body: body.map(content).transpose()?,
        at: started.and_then(|text| At::of_text(&text)),
        ..RecordedRequest::new(place)
    })
}

fn content(body: PostData) -> Result<Bytes, &'static str> {
    let PostData {
        media_type,
        text,
        encoding,
        params,
    } = body;
    let (text, params) = (text.unwrap_or_default(), params.unwrap_or_default());
    if !text.is_empty() || params.is_empty() {
        return match encoding.as_deref() {
            Some("base64") => STANDARD
                .decode(text)
                .map(Bytes::from)
                .map_err(|_| "its body is not base64"),
            _ => Ok(text.into()),
        };
    }
    if media_type.is_some_and(|media_type| media_type.starts_with("multipart/")) {
        return Err("its form has no text, only fields");
    }
    let pairs = params.into_iter().map(|field| {
        (
            field.name.unwrap_or_default(),
            field.value.unwrap_or_default(),
        )
    });
    Ok(Serializer::new(String::new())
        .extend_pairs(pairs)
        .finish()
        .into())
}
