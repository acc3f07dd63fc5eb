//! Reads one record of a saved crawl from its JSON line ([`SavedRecord`]); `line` writes it.
//!
//! Called by `verify` and `export`. Counts of many records are in `records`.

use std::borrow::Cow;
use std::ops::Deref;
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use crawlmark_results::run::parts::digest::hexadecimal;
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::line::{DIGEST, ItemState};

/// A record. Each field but the ID and the outcome may be absent: `--save-fields` leaves fields
/// out, and an item without a response has no status.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(not(test), expect(dead_code, reason = "read for their types alone"))]
pub(crate) struct SavedRecord<'a> {
    /// ID in the URL.
    pub(crate) id: u64,
    /// Number of the request, of the element of a list that it is for, and of the response to it,
    /// of an item that has several requests.
    pub(crate) step: Option<u32>,
    pub(crate) element: Option<u32>,
    pub(crate) page: Option<u32>,
    /// URL, where it is not the template with the ID.
    #[serde(borrow)]
    pub(crate) url: Option<RecordText<'a>>,
    /// HTTP status.
    pub(crate) status: Option<u16>,
    /// Outcome, by the name that results use.
    #[serde(borrow)]
    pub(crate) outcome: RecordText<'a>,
    /// Requests for the item.
    pub(crate) attempts: Option<u32>,
    /// Time at which the last request was sent, RFC 3339 in UTC.
    #[serde(borrow)]
    pub(crate) at: Option<RecordText<'a>>,
    /// Service time of the last request, µs.
    pub(crate) latency_us: Option<u64>,
    /// Content type of the response.
    #[serde(borrow)]
    pub(crate) content_type: Option<RecordText<'a>>,
    /// `ETag` of the response.
    #[serde(borrow)]
    pub(crate) etag: Option<RecordText<'a>>,
    /// `Last-Modified` of the response.
    #[serde(borrow)]
    pub(crate) last_modified: Option<RecordText<'a>>,
    /// First 128 bits of the SHA-256 of the saved body, hexadecimal.
    #[serde(borrow)]
    pub(crate) digest: Option<RecordText<'a>>,
    #[serde(skip)]
    line: &'a str,
    #[serde(borrow, default, deserialize_with = "even_null")]
    body: Option<&'a RawValue>,
    #[serde(borrow)]
    body_encoding: Option<RecordText<'a>>,
    /// Length of the whole body, bytes, where it was cut.
    pub(crate) body_bytes: Option<u64>,
}

/// Text of a record, borrowed from its line unless the line escapes some of it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub(crate) struct RecordText<'a>(#[serde(borrow)] Cow<'a, str>);

impl Deref for RecordText<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A saved body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SavedBody<'a> {
    /// JSON, as it was received but for line breaks between its tokens.
    Json(&'a str),
    /// Text.
    Text(Cow<'a, str>),
    /// Anything else.
    Binary(Vec<u8>),
}

impl<'a> SavedRecord<'a> {
    /// Parse a line.
    ///
    /// # Errors
    /// When it is no JSON object, has no ID or no outcome, or a field of another type.
    pub(crate) fn parse(line: &'a str) -> Result<Self, serde_json::Error> {
        Ok(Self {
            line,
            ..serde_json::from_str(line)?
        })
    }

    /// Return the state in which its item ended.
    pub(crate) fn state(&self) -> ItemState {
        ItemState::of(&self.outcome)
    }

    /// Return the saved body; none where none was saved.
    ///
    /// # Errors
    /// When it is in an unknown encoding, or not in the one that it names.
    pub(crate) fn body(&self) -> Result<Option<SavedBody<'a>>, String> {
        let Some(raw) = self.body.map(RawValue::get) else {
            return Ok(None);
        };
        if !raw.starts_with('"') {
            // White space around JSON is part of the body.
            let start = raw.as_ptr().addr() - self.line.as_ptr().addr();
            let (before, after) = (&self.line[..start], &self.line[start + raw.len()..]);
            let (start, end) = (
                before.trim_end().len(),
                self.line.len() - after.trim_start().len(),
            );
            return Ok(Some(SavedBody::Json(&self.line[start..end])));
        }
        let RecordText(text) = serde_json::from_str(raw).map_err(|error| error.to_string())?;
        match self.body_encoding.as_deref() {
            None => Ok(Some(SavedBody::Text(text))),
            Some("base64") => match STANDARD.decode(text.as_bytes()) {
                Ok(bytes) => Ok(Some(SavedBody::Binary(bytes))),
                Err(error) => Err(format!("the body is not base64: {error}")),
            },
            Some(other) => Err(format!(
                "`{other}` is not an encoding of bodies: base64 is the only one"
            )),
        }
    }

    /// Return the time at which the last request was sent, µs since 1970 in UTC; none where it was
    /// not saved.
    ///
    /// # Errors
    /// When it is no such time.
    pub(crate) fn at_us(&self) -> Result<Option<u64>, String> {
        let Some(text) = self.at.as_deref() else {
            return Ok(None);
        };
        humantime::parse_rfc3339(text)
            .ok()
            .and_then(|time| time.duration_since(SystemTime::UNIX_EPOCH).ok())
            .and_then(|since| u64::try_from(since.as_micros()).ok())
            .map(Some)
            .ok_or_else(|| {
                format!("`{text}` is not a time: times are as in 2026-11-24T03:12:45.123456Z")
            })
    }
}

impl SavedBody<'_> {
    /// Return the bytes that were saved.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Json(text) => text.as_bytes(),
            Self::Text(text) => text.as_bytes(),
            Self::Binary(bytes) => bytes,
        }
    }
}

/// True if a saved body has the digest of its record.
pub(crate) fn has_digest(body: &[u8], digest: &str) -> bool {
    hexadecimal(&Sha256::digest(body)[..DIGEST]) == digest
}

/// Read a field that is present even when it is `null`: a body may be just that.
fn even_null<'de: 'a, 'a, D: Deserializer<'de>>(from: D) -> Result<Option<&'a RawValue>, D::Error> {
    <&RawValue>::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use crawlmark_harness::sample::{ErrorKind, Outcome};
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::batch::{self, Item};
    use crate::dataset::line::{LineWriter, outcome_name};
    use crate::dataset::manifest::{Fields, RecordField};

    /// Body of any kind, with its content type.
    fn body() -> impl Strategy<Value = (Vec<u8>, &'static str)> {
        let json = prop_oneof![
            any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap()),
            (any::<f64>(), any::<String>()).prop_map(|(number, text)| {
                serde_json::json!({"a": number, &text: [text, null]}).to_string()
            }),
            prop::sample::select(vec![
                "null",
                "true",
                "-0",
                "1e400",
                "{}",
                "[1,\n 2]",
                "{\r\n\t\"a\" : 1 }",
                "{\"a\":1,}",
                "\"",
                ""
            ])
            .prop_map(str::to_owned),
        ];
        let space = prop::sample::select(vec!["", " ", "\n", "\r\n\t"]);
        let json = (space.clone(), json, space)
            .prop_map(|(before, json, after)| [before, &json, after].concat().into_bytes());
        let content_types = prop::sample::select(vec![
            "application/json",
            "a/b+JSON; charset=\"utf-8\"",
            "text/html",
            "",
        ]);
        (
            prop_oneof![
                json,
                any::<String>().prop_map(String::into_bytes),
                any::<Vec<u8>>()
            ],
            content_types,
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

        #[test]
        fn a_record_is_read_as_it_was_written(
            id: u64, place: Option<(u32, Option<u32>, u32)>, url: Option<String>, status: Option<u16>, attempts: u32, at_us in 0..4_000_000_000_000_000_u64,
            latency_us: Option<u64>, etag: Option<String>, last_modified: Option<String>, outcome in prop::sample::select(vec![None, Some(Outcome::Ok), Some(Outcome::NotFound), Some(Outcome::NotModified), Some(Outcome::Error(ErrorKind::Reset))]),
            body in prop::option::of(body()), most in prop::option::of(0..40_usize), left_out in 0..4_096_u16,
        ) {
            let keys = RecordField::ALL.iter().filter(|(field, _)| left_out >> *field as u16 & 1 == 0).map(|(_, key)| *key);
            let fields: Fields = std::iter::once("id").chain(keys).collect::<Vec<_>>().join(",").parse().unwrap();
            let has = |field| fields.has(field).then_some(());
            let whole = body.as_ref().map_or(&[][..], |(bytes, _)| bytes);
            let saved = &whole[..most.map_or(whole.len(), |most| most.min(whole.len()))];
            let content_type = body.as_ref().map(|(_, content_type)| content_type.as_bytes());
            let place = place.map(|(step, element, page)| batch::Place { step, element, page });
            let item = Item {
                number: 0, id, place, url: url.as_deref(), status, outcome, attempts, at_us, latency_us, content_type,
                etag: etag.as_deref(), last_modified: last_modified.as_deref(),
                body: body.as_ref().map(|_| batch::ReceivedBody { bytes: saved, whole: whole.len() as u64 }),
            };
            let mut line = Vec::new();
            LineWriter::new(fields).append(&item, &mut line);
            let line = String::from_utf8(line).unwrap();
            let line = line.strip_suffix('\n').unwrap();
            prop_assert!(!line.contains('\n'));

            let record = SavedRecord::parse(line).unwrap();
            prop_assert_eq!(record.id, id);
            prop_assert_eq!(record.step.zip(record.page), place.map(|place| (place.step, place.page)));
            prop_assert_eq!(record.element, place.and_then(|place| place.element));
            prop_assert_eq!(record.url.as_deref(), url.as_deref().filter(|_| has(RecordField::Url).is_some()));
            prop_assert_eq!(record.status, status.filter(|_| has(RecordField::Status).is_some()));
            prop_assert_eq!(&*record.outcome, outcome_name(outcome));
            prop_assert_eq!(record.attempts, has(RecordField::Attempts).map(|()| attempts));
            prop_assert_eq!(record.at_us(), Ok(has(RecordField::At).map(|()| at_us)));
            prop_assert_eq!(record.latency_us, latency_us.filter(|_| has(RecordField::LatencyUs).is_some()));
            prop_assert_eq!(record.content_type.as_deref().map(str::as_bytes), content_type.filter(|_| has(RecordField::ContentType).is_some()));
            prop_assert_eq!(record.etag.as_deref(), etag.as_deref().filter(|_| has(RecordField::Etag).is_some()));
            prop_assert_eq!(record.last_modified.as_deref(), last_modified.as_deref().filter(|_| has(RecordField::LastModified).is_some()));
            let has_body = has(RecordField::Body).filter(|()| body.is_some());
            let read = record.body().unwrap();
            prop_assert_eq!(read.is_some(), has_body.is_some());
            let Some(read) = read else { return Ok(()) };
            if let Some(digest) = record.digest.as_deref() {
                prop_assert!(has_digest(read.bytes(), digest), "{line}");
            }
            let is_cut = saved.len() < whole.len();
            prop_assert_eq!(record.body_bytes, is_cut.then_some(whole.len() as u64));
            let unbroken = |bytes: &[u8]| bytes.iter().map(|byte| if b"\r\n".contains(byte) { b' ' } else { *byte }).collect::<Vec<_>>();
            match read {
                SavedBody::Json(json) => prop_assert_eq!(json.as_bytes(), unbroken(saved)),
                // A character that was cut in two is left out.
                SavedBody::Text(text) if is_cut => prop_assert!(saved.starts_with(text.as_bytes()) && saved.len() - text.len() < 4),
                read => prop_assert_eq!(read.bytes(), saved),
            }
        }
    }
}
