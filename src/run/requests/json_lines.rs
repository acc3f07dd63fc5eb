//! JSON lines: an object per line, with the fields of vegeta's JSON targets (`method`, `url`,
//! `header`, and `body` in base64), and `body_text`, `weight` and `at`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::time::At;
use super::{Fault, FilePosition, Parsed, RecordedRequest, lines};

/// Greatest weight of a line.
const MOST_WEIGHT: u32 = 1_000_000;

pub(super) fn parse(text: &[u8]) -> Result<Parsed, Fault> {
    let mut parsed = Parsed::default();
    for (place, line) in lines(text).filter(|(_, line)| !line.is_empty()) {
        let entry = entry(place, line).map_err(|why| place.failed(why))?;
        parsed.add(entry)?;
    }
    Ok(parsed)
}

fn entry(place: FilePosition, line: &[u8]) -> Result<RecordedRequest, String> {
    let fields: Map<String, Value> = serde_json::from_slice(line).map_err(|error| match error.column() {
        // Its message may repeat a value.
        0 => "it is not one JSON object: write {\"url\": \"http://...\"} in one line".to_owned(),
        column => {
            format!("it is not one JSON object, at column {column}: write {{\"url\": \"http://...\"}} in one line")
        }
    })?;
    let mut entry = RecordedRequest::new(place);
    for (name, value) in fields {
        let bad = |what: &str| format!("the field `{name}` is not {what}");
        let text = |what: &str| value.as_str().map(str::to_owned).ok_or_else(|| bad(what));
        match &*name {
            _ if value.is_null() => {}
            "method" => entry.method = Some(text("a text, as in \"GET\"")?),
            "url" => entry.url = text("a text, as in \"http://127.0.0.1:8080/items/1\"")?,
            "header" | "headers" => {
                entry.headers =
                    headers(&value).ok_or_else(|| bad("an object of texts or lists of texts"))?;
            }
            "body" | "body_text" if entry.body.is_some() => {
                return Err("it has both `body` and `body_text`: keep one of them".to_owned());
            }
            "body" => {
                let what = "base64, as in vegeta's targets: write a plain text as `body_text`";
                entry.body = Some(STANDARD.decode(text(what)?).map_err(|_| bad(what))?.into());
            }
            "body_text" => entry.body = Some(text("a text")?.into()),
            "weight" => {
                entry.weight =
                    Some(weight(&value).ok_or_else(|| bad("a whole number from 1 to 1,000,000"))?);
            }
            "at" => {
                entry.at = Some(At::of_json(&value).ok_or_else(|| {
                    bad("seconds, as in 1.5, or a time, as in \"2026-01-31T12:00:00.250Z\"")
                })?);
            }
            _ => {
                return Err(format!(
                    "`{name}` is no field of a request: use method, url, header, body, body_text, weight and at"
                ));
            }
        }
    }
    if entry.url.is_empty() {
        Err("it has no `url`: add one".to_owned())
    } else {
        Ok(entry)
    }
}

fn weight(value: &Value) -> Option<u32> {
    u32::try_from(value.as_u64()?)
        .ok()
        .filter(|weight| (1..=MOST_WEIGHT).contains(weight))
}

/// Headers as typed: `name: value`, once for each value.
fn headers(value: &Value) -> Option<Vec<String>> {
    let mut headers = Vec::new();
    for (name, value) in value.as_object()? {
        let values = value
            .as_array()
            .map_or(std::slice::from_ref(value), Vec::as_slice);
        for value in values {
            headers.push(format!("{name}: {}", value.as_str()?));
        }
    }
    Some(headers)
}
