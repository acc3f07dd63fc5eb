//! JSON lines: an object per line, with the fields of vegeta's JSON targets (`method`, `url`,
//! `header`, and `body` in base64), and `body_text`, `weight`, `at`, and those of items of several
//! requests: `extract`, `next` with `pages`, `save`, `once` and `then`.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::Value;

use super::time::At;
use super::{Fault, FilePosition, Parsed, RecordedRequest, lines};
use crate::crawl::{MOST_STEPS, Takes};

/// Greatest weight of a line.
const MOST_WEIGHT: u32 = 1_000_000;

/// A line.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Target {
    method: Option<String>,
    url: String,
    #[serde(alias = "headers")]
    header: Option<BTreeMap<String, Values>>,
    body: Option<String>,
    body_text: Option<String>,
    weight: Option<u32>,
    at: Option<Value>,
    extract: Option<BTreeMap<String, String>>,
    next: Option<String>,
    pages: Option<u32>,
    save: Option<bool>,
    once: Option<String>,
    then: Option<Vec<Self>>,
}

/// Values of a header.
#[derive(Deserialize)]
#[serde(untagged)]
enum Values {
    One(String),
    Many(Vec<String>),
}

pub(super) fn parse(text: &[u8]) -> Result<Parsed, Fault> {
    let mut parsed = Parsed::default();
    for (place, line) in lines(text).filter(|(_, line)| !line.is_empty()) {
        let entry = entry(place, line).map_err(|why| place.failed(why))?;
        parsed.add(entry)?;
    }
    Ok(parsed)
}

fn entry(place: FilePosition, line: &[u8]) -> Result<RecordedRequest, String> {
    // The error's own message may repeat a value.
    let target: Target = serde_json::from_slice(line).map_err(|error| {
        format!(
            "it is no request, at column {}: write {{\"url\": \"http://...\"}} in one line, perhaps with method, header (an object of texts), \
             body (base64), body_text, weight, at, extract, next, pages, save, once and then",
            error.column()
        )
    })?;
    request(place, target)
}

fn request(place: FilePosition, target: Target) -> Result<RecordedRequest, String> {
    let extract = target.extract.unwrap_or_default();
    let named = extract
        .iter()
        .map(|(name, from)| (name.as_str(), from.as_str()));
    let mut takes = Takes::new(named, target.next.as_deref(), target.pages)?;
    takes.save = target.save;
    let then = steps(place, target.then.unwrap_or_default())?;
    takes.is_shared = match target.once.as_deref() {
        None => false,
        Some("shard")
            if !then.is_empty()
                && target.next.is_none()
                && target.save != Some(true)
                && !takes.has_list() =>
        {
            true
        }
        Some(_) => {
            return Err(
                "the field `once` may only be \"shard\", and needs `then`, no `next`, no list and no `save`: correct it"
                    .to_owned(),
            );
        }
    };
    let mut headers = Vec::new();
    for (name, values) in target.header.unwrap_or_default() {
        let values = match values {
            Values::One(value) => vec![value],
            Values::Many(values) => values,
        };
        headers.extend(values.iter().map(|value| format!("{name}: {value}")));
    }
    let body = match (target.body, target.body_text) {
        (Some(_), Some(_)) => {
            return Err("it has both `body` and `body_text`: keep one of them".to_owned());
        }
        (Some(body), None) => {
            let bytes = STANDARD.decode(body).map_err(|_| {
                "the field `body` is not base64, as in vegeta's targets: write a plain text as `body_text`"
            })?;
            Some(bytes.into())
        }
        (None, text) => text.map(Into::into),
    };
    let range = 1..=MOST_WEIGHT;
    if target.weight.is_some_and(|weight| !range.contains(&weight)) {
        return Err("the field `weight` is not a whole number from 1 to 1,000,000".to_owned());
    }
    let at = target.at.map(|at| {
        At::of_json(&at).ok_or(
            "the field `at` is not seconds, as in 1.5, or a time, as in \"2026-01-31T12:00:00.250Z\"",
        )
    });
    Ok(RecordedRequest {
        method: target.method,
        url: target.url,
        headers,
        body,
        weight: target.weight,
        at: at.transpose()?,
        takes,
        then,
        ..RecordedRequest::new(place)
    })
}

/// Read the further requests of an item.
fn steps(place: FilePosition, steps: Vec<Target>) -> Result<Vec<RecordedRequest>, String> {
    if steps.len() >= MOST_STEPS {
        return Err(format!("it has more than {MOST_STEPS} requests"));
    }
    if steps.iter().any(|step| {
        let is_beside = step.weight.is_some() || step.at.is_some();
        is_beside || step.then.is_some() || step.once.is_some()
    }) {
        return Err(
            "a request in `then` has `weight`, `at`, `once` or `then`: write them beside the first request"
                .to_owned(),
        );
    }
    steps.into_iter().map(|step| request(place, step)).collect()
}
