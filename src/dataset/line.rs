//! Writes one record as a JSON line ([`LineWriter`]), and names what its outcome says of the item.
//!
//! `log` calls it for each record, on the writer's thread; it allocates nothing after warm-up but
//! what `serde_json` needs for strings with escapes. `record` reads a line back; `records` counts
//! many records. It must not know what a segment is.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io::Write as _;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use crawlmark_harness::sample::{ErrorKind, Outcome};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use sha2::{Digest as _, Sha256};

use super::batch::{Item, Place, ReceivedBody};
use super::manifest::{Fields, RecordField};

/// Bytes of a digest that are saved: the first half of a SHA-256.
pub(super) const DIGEST: usize = 16;

/// Memory that is kept of a long body, bytes.
const MOST_KEPT: usize = 1 << 20;

/// Writer of lines with the same fields.
pub struct LineWriter {
    fields: Fields,
    /// Last second that was written, and its text.
    second: (u64, Vec<u8>),
    /// Last body that was JSON.
    json: Vec<u8>,
}

/// Return the name of an outcome, as results have it: `skipped` of an item that robots.txt forbids.
pub const fn outcome_name(outcome: Option<Outcome>) -> &'static str {
    match outcome {
        None => "skipped",
        Some(outcome) => outcome.name(),
    }
}

/// State of an item, by a record of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ItemState {
    /// Another request of it follows the response of the record.
    UnderWay,
    /// A good response.
    Good,
    /// The response of an earlier session still holds.
    NotModified,
    /// The target has no such item.
    NotFound,
    /// robots.txt forbids it, or the path that it was redirected to.
    Skipped,
    /// Its last attempt failed.
    Failed,
    /// Its last attempt was throttled.
    Abandoned,
}

impl ItemState {
    /// Return the state of an item whose record has an outcome of this name.
    pub fn of(outcome: &str) -> Self {
        match outcome {
            _ if outcome == ErrorKind::RobotsForbidden.name() => Self::Skipped,
            "stepped" => Self::UnderWay,
            "ok" => Self::Good,
            "not_modified" => Self::NotModified,
            "not_found" => Self::NotFound,
            "skipped" => Self::Skipped,
            "throttled" => Self::Abandoned,
            _ => Self::Failed,
        }
    }

    /// True if the item is never requested again.
    pub const fn is_finished(self) -> bool {
        matches!(
            self,
            Self::Good | Self::NotModified | Self::NotFound | Self::Skipped
        )
    }

    /// True if the record is the last one of its item.
    pub const fn is_end(self) -> bool {
        !matches!(self, Self::UnderWay)
    }
}

/// Form in which a body is saved.
enum Saved<'a> {
    /// JSON, whose line breaks become spaces.
    Json,
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl LineWriter {
    /// Create the writer of lines with these fields.
    pub const fn new(fields: Fields) -> Self {
        Self {
            fields,
            second: (u64::MAX, Vec::new()),
            json: Vec::new(),
        }
    }

    /// Append the line of an item.
    pub fn append(&mut self, item: &Item<'_>, line: &mut Vec<u8>) {
        let fields = self.fields;
        line.extend_from_slice(b"{\"id\":");
        number(item.id, line);
        if let Some(Place {
            step,
            element,
            page,
        }) = item.place
        {
            line.extend_from_slice(b",\"step\":");
            number(step.into(), line);
            if let Some(element) = element {
                line.extend_from_slice(b",\"element\":");
                number(element.into(), line);
            }
            line.extend_from_slice(b",\"page\":");
            number(page.into(), line);
        }
        if let Some(url) = item.url.filter(|_| fields.has(RecordField::Url)) {
            line.extend_from_slice(b",\"url\":");
            text(url, line);
        }
        if let Some(status) = item.status.filter(|_| fields.has(RecordField::Status)) {
            line.extend_from_slice(b",\"status\":");
            number(status.into(), line);
        }
        line.extend_from_slice(b",\"outcome\":");
        text(outcome_name(item.outcome), line);
        if fields.has(RecordField::Attempts) {
            line.extend_from_slice(b",\"attempts\":");
            number(item.attempts.into(), line);
        }
        if fields.has(RecordField::At) {
            line.extend_from_slice(b",\"at\":\"");
            self.time(item.at_us, line);
            line.push(b'"');
        }
        let has_latency = fields.has(RecordField::LatencyUs);
        if let Some(latency_us) = item.latency_us.filter(|_| has_latency) {
            line.extend_from_slice(b",\"latency_us\":");
            number(latency_us, line);
        }
        let has_type = fields.has(RecordField::ContentType);
        if let Some(content_type) = item.content_type.filter(|_| has_type) {
            line.extend_from_slice(b",\"content_type\":");
            text(&String::from_utf8_lossy(content_type), line);
        }
        for (field, value) in [
            (RecordField::Etag, item.etag),
            (RecordField::LastModified, item.last_modified),
        ] {
            if let Some(value) = value.filter(|_| fields.has(field)) {
                line.extend_from_slice(b",\"");
                line.extend_from_slice(field.key().as_bytes());
                line.extend_from_slice(b"\":");
                text(value, line);
            }
        }
        let has_body = fields.has(RecordField::Digest) || fields.has(RecordField::Body);
        if let Some(body) = item.body.filter(|_| has_body) {
            self.body(&body, item.content_type, line);
        }
        line.extend_from_slice(b"}\n");
    }

    /// Append the digest of a body, and the body.
    fn body(&mut self, body: &ReceivedBody<'_>, content_type: Option<&[u8]>, line: &mut Vec<u8>) {
        let form = Saved::of(body, content_type);
        let saved = match form {
            Saved::Json => {
                let unbroken = body.bytes.iter().map(|byte| match byte {
                    b'\n' | b'\r' => b' ',
                    other => *other,
                });
                self.json.clear();
                self.json.extend(unbroken);
                &self.json
            }
            Saved::Text(text) => text.as_bytes(),
            Saved::Bytes(bytes) => bytes,
        };
        if self.fields.has(RecordField::Digest) {
            line.extend_from_slice(b",\"digest\":\"");
            for byte in &Sha256::digest(saved)[..DIGEST] {
                line.extend([byte >> 4, byte & 15].map(|digit| HEX[usize::from(digit)]));
            }
            line.push(b'"');
        }
        if !self.fields.has(RecordField::Body) {
            return;
        }
        line.extend_from_slice(b",\"body\":");
        match form {
            Saved::Json => line.extend_from_slice(saved),
            Saved::Text(body) => text(body, line),
            Saved::Bytes(bytes) => {
                line.push(b'"');
                let start = line.len();
                line.resize(start + bytes.len().div_ceil(3) * 4, 0);
                // The room is exact.
                let _ = STANDARD.encode_slice(bytes, &mut line[start..]);
                line.extend_from_slice(b"\",\"body_encoding\":\"base64\"");
            }
        }
        self.json.shrink_to(MOST_KEPT);
        if body.is_cut() {
            line.extend_from_slice(b",\"body_bytes\":");
            number(body.whole, line);
        }
    }

    /// Append a time, µs since 1970, as RFC 3339.
    fn time(&mut self, at_us: u64, line: &mut Vec<u8>) {
        let (second, micros) = (at_us / 1_000_000, at_us % 1_000_000);
        let (last, text) = &mut self.second;
        if *last != second {
            *last = second;
            text.clear();
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            // Writing to memory fails only beyond the year 9999.
            let _ = write!(text, "{}", humantime::format_rfc3339_seconds(time));
            text.pop();
        }
        line.extend_from_slice(text);
        // Six digits behind a 1, in the place of which the point comes.
        let start = line.len();
        number(1_000_000 + micros, line);
        line[start] = b'.';
        line.push(b'Z');
    }
}

const HEX: &[u8; 16] = b"0123456789abcdef";

impl<'a> Saved<'a> {
    fn of(body: &ReceivedBody<'a>, content_type: Option<&[u8]>) -> Self {
        let is_json = !body.is_cut() && content_type.is_some_and(is_json_type);
        match std::str::from_utf8(body.bytes) {
            Ok(text) if is_json && self::is_json(text) => Self::Json,
            Ok(text) => Self::Text(text),
            // A character that was cut in two is left out.
            Err(error) if body.is_cut() && error.error_len().is_none() => Self::Text(
                std::str::from_utf8(&body.bytes[..error.valid_up_to()]).unwrap_or_default(),
            ),
            Err(_) => Self::Bytes(body.bytes),
        }
    }
}

/// True for `application/json` and its kin, whatever their parameters.
fn is_json_type(content_type: &[u8]) -> bool {
    let essence = content_type
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let subtype = essence.rsplit(|byte| b"/+".contains(byte)).next();
    essence.len() > 4 && subtype.is_some_and(|subtype| subtype.eq_ignore_ascii_case(b"json"))
}

/// True if any reader of JSON takes the text: whole surrogate pairs, numbers within an `f64`, fewer
/// than 128 levels. A JSON string is saved as text: embedded, it could not be told from one.
fn is_json(text: &str) -> bool {
    !text.trim_ascii_start().starts_with('"') && serde_json::from_str::<Readable>(text).is_ok()
}

/// JSON value that is read and not kept. [`IgnoredAny`](serde::de::IgnoredAny) would not look into
/// strings and numbers.
struct Readable;

impl<'de> Deserialize<'de> for Readable {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for Readable {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self, A::Error> {
        while members.next_entry::<Self, Self>()?.is_some() {}
        Ok(self)
    }
}

fn number(number: u64, line: &mut Vec<u8>) {
    line.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Append a JSON string.
fn text(text: &str, line: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = serde_json::to_writer(line, text);
}
