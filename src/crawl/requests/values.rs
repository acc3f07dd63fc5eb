//! Values of an item, and how they are written into its requests: so that the target, which decodes
//! what it gets, has the value that was taken.
//!
//! Called for each request of an item after its first. It must not know where values come from.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, NON_ALPHANUMERIC, percent_encode};
use serde_json::value::RawValue;

use super::redact;
use super::shape::SHORTEST_WORD;
use super::template::PLACE;

/// Characters of a value that are percent-encoded in a URL or a form: all but the unreserved ones
/// (RFC 3986, 2.3), so that a value is one part of a path, query or form and nothing else.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Characters that no URL holds: encoded in a URL also of a value that is inserted as it is.
const NO_URL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'<')
    .add(b'>')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// End of a place whose value is inserted as it is.
const RAW: &str = ":raw";

/// Text that values are inserted into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// A path and query.
    Url,
    /// A form: names and values, percent-encoded.
    Form,
    /// JSON, with places in its strings and for its values.
    Json,
    /// A header, or any other body.
    Text,
}

/// Row of the book's table of places: where a value stands, and how it is written there.
#[cfg(test)]
pub(crate) const PLACES: [(&str, &str); 6] = [
    ("a path or query", "percent-encoded"),
    (
        "a body with `content-type: application/x-www-form-urlencoded`",
        "percent-encoded",
    ),
    ("a string of JSON: `\"{name}\"`", "escaped as in JSON"),
    (
        "elsewhere in JSON: `{\"n\": {name}}`",
        "as a JSON value: a string in quotes, a number exactly as received",
    ),
    ("a header, and any other body", "unchanged"),
    (
        "anywhere as `{name:raw}`",
        "unchanged; in a URL, only characters that URLs may not contain are percent-encoded",
    ),
];

impl Context {
    /// Return that of a body: by its content type, and without one by what the body is around its
    /// places, for which `bare` has zeros.
    pub(super) fn of_body(content_type: Option<&[u8]>, bare: impl FnOnce() -> Vec<u8>) -> Self {
        let Some(content_type) = content_type else {
            let bare = bare();
            let is_json = bare.trim_ascii_start().starts_with(b"{") || bare.starts_with(b"[");
            let is_json = is_json && serde_json::from_slice::<&RawValue>(&bare).is_ok();
            return if is_json { Self::Json } else { Self::Text };
        };
        let essence = content_type
            .split(|byte| *byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii()
            .to_ascii_lowercase();
        // `application/json`, `application/ld+json`, `application/x-ndjson`.
        if essence.ends_with(b"json") {
            return Self::Json;
        }
        if essence == b"application/x-www-form-urlencoded" {
            return Self::Form;
        }
        Self::Text
    }
}

/// Kind of a value, which decides how it is written as a JSON value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ValueKind {
    /// A text of JSON.
    Text,
    /// A number or a boolean of JSON.
    Literal,
    /// Text of a header or a pattern, which may be JSON or not.
    Plain,
    /// No value.
    Nothing,
}

/// A value that was taken from a response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TakenValue {
    pub(crate) text: String,
    pub(crate) kind: ValueKind,
}

impl TakenValue {
    /// No value: null as a JSON value, and no text.
    pub(super) const NOTHING: Self = Self {
        text: String::new(),
        kind: ValueKind::Nothing,
    };

    /// Return the value as a JSON value.
    fn as_json(&self) -> Cow<'_, str> {
        let is_json = match self.kind {
            ValueKind::Nothing => return "null".into(),
            ValueKind::Text => false,
            ValueKind::Literal => true,
            ValueKind::Plain => serde_json::from_str::<&RawValue>(&self.text).is_ok(),
        };
        if is_json {
            self.text.as_str().into()
        } else {
            quoted(&self.text).into()
        }
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Values of an item, by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Values(pub(crate) Vec<(String, TakenValue)>);

impl Values {
    /// Return these values and, where they are missing here, those of earlier responses.
    pub(crate) fn over(mut self, earlier: &Self) -> Self {
        for (name, value) in &earlier.0 {
            if !self.0.iter().any(|(other, _)| other == name) {
                self.0.push((name.clone(), value.clone()));
            }
        }
        self
    }

    /// Length of all values, bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.iter().map(|(_, value)| value.text.len()).sum()
    }

    /// Return a text with its places filled: `{name}` by the value as it is written there, and
    /// `{id}` by `id`. Other braces are text.
    pub(crate) fn fill(&self, text: &[u8], id: &str, context: Context) -> Vec<u8> {
        let (mut filled, mut rest) = (Vec::with_capacity(text.len()), text);
        // Text since the last value.
        let (mut before, mut is_in_string) = (text, false);
        while let Some(at) = rest.iter().position(|&byte| byte == b'{') {
            filled.extend_from_slice(&rest[..at]);
            rest = &rest[at..];
            let length = if rest.starts_with(PLACE.as_bytes()) {
                filled.extend_from_slice(id.as_bytes());
                PLACE.len()
            } else if let Some((value, is_raw, length)) = self.place(rest) {
                is_in_string ^= quotes(&before[..before.len() - rest.len()]) % 2 == 1;
                before = &rest[length..];
                let text = value.text.as_str();
                let written: Cow<'_, str> = match context {
                    Context::Url if is_raw => percent_encode(text.as_bytes(), NO_URL).into(),
                    Context::Text => text.into(),
                    _ if is_raw => text.into(),
                    Context::Url | Context::Form => {
                        percent_encode(text.as_bytes(), RESERVED).into()
                    }
                    Context::Json if is_in_string => {
                        let quoted = quoted(text);
                        quoted[1..quoted.len() - 1].to_owned().into()
                    }
                    Context::Json => value.as_json(),
                };
                filled.extend_from_slice(written.as_bytes());
                length
            } else {
                filled.push(b'{');
                1
            };
            rest = &rest[length..];
        }
        filled.extend_from_slice(rest);
        filled
    }

    /// Return a URL without those of these values whose names are of secrets.
    pub(crate) fn redacted(&self, url: String) -> String {
        let forms = self
            .0
            .iter()
            .filter(|(name, value)| value.text.len() >= SHORTEST_WORD && redact::is_secret(name))
            .flat_map(|(_, TakenValue { text, .. })| {
                [RESERVED, NO_URL].map(|set| percent_encode(text.as_bytes(), set).to_string())
            });
        forms.fold(url, |url, form| url.replace(&form, redact::WITHHELD))
    }

    /// Return a text with `0` in all its places.
    pub(crate) fn bare(&self, text: &[u8]) -> Vec<u8> {
        let (text_of_zero, kind) = ("0".to_owned(), ValueKind::Literal);
        let zero = TakenValue {
            text: text_of_zero,
            kind,
        };
        let zeros = self.0.iter().map(|(name, _)| (name.clone(), zero.clone()));
        Self(zeros.collect()).fill(text, "0", Context::Text)
    }

    /// Return the value whose place a text begins with, true if it is inserted as it is, and the
    /// length of the place.
    fn place(&self, text: &[u8]) -> Option<(&TakenValue, bool, usize)> {
        let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b':');
        let length = text.iter().skip(1).take_while(|byte| is_name(byte)).count();
        let inner = std::str::from_utf8(text.get(1..=length)?).ok()?;
        let raw = inner.strip_suffix(RAW);
        let (_, value) = self
            .0
            .iter()
            .find(|(name, _)| name == raw.unwrap_or(inner))?;
        (text.get(length + 1) == Some(&b'}')).then_some((value, raw.is_some(), length + 2))
    }
}

/// Return a text with `0` in the places of the ID and of these values.
pub(crate) fn without_places(text: &str, names: &[String]) -> String {
    names
        .iter()
        .flat_map(|name| [format!("{{{name}}}"), format!("{{{name}{RAW}}}")])
        .chain([PLACE.to_owned()])
        .fold(text.to_owned(), |text, place| text.replace(&place, "0"))
}

/// True if a text has a place for this value.
pub(crate) fn has_place(text: &str, name: &str) -> bool {
    text.contains(&format!("{{{name}}}")) || text.contains(&format!("{{{name}{RAW}}}"))
}

/// Count the quotes of a text of JSON that begin or end a string.
fn quotes(text: &[u8]) -> usize {
    let (mut count, mut is_escaped) = (0, false);
    for byte in text {
        count += usize::from(*byte == b'"' && !is_escaped);
        is_escaped = *byte == b'\\' && !is_escaped;
    }
    count
}
