//! Framing of a response, read from its head: RFC 9112, 6.3, and the strict reading where that
//! leaves a choice; and recognition of a head that repeats the last parsed one.
//!
//! Servers send one head again and again, but for the content length and, once a second, the date.
//! Such a head is compared and not parsed. It must not recognise one that parsing would read
//! otherwise: every byte is equal, but for the digits of the only content length.

use std::ops::Range;

use http::Method;

use super::sink::{Malformed, RequestKind};
use crate::crawl::response::fields::HeaderFields;

/// Version of HTTP/1.0, as the parser numbers it.
const HTTP_1_0: u8 = 0;

/// Extent of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Framing {
    Length(u64),
    Chunked,
    UntilClose,
}

/// Facts of a head that decide what follows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) framing: Framing,
    pub(crate) keeps_alive: bool,
    /// Seconds for which the target keeps the connection at rest open (`Keep-Alive: timeout=5`).
    pub(crate) kept_s: Option<u32>,
}

/// Read the framing of a final response, and return the digits that it depends on, if they are all
/// that it depends on: the value of the only content length.
pub(crate) fn read(
    status: u16,
    version: u8,
    request: RequestKind,
    fields: HeaderFields<'_>,
) -> Result<(Facts, Option<&[u8]>), Malformed> {
    let (mut length, mut coding, mut only_length) = (None, None, None);
    let (mut closes, mut keeps, mut kept_s) = (false, version != HTTP_1_0, None);
    for (name, value) in fields.iter() {
        match name.len() {
            10 if name.eq_ignore_ascii_case("connection") => {
                for token in list(value) {
                    closes |= token.eq_ignore_ascii_case(b"close");
                    keeps |= token.eq_ignore_ascii_case(b"keep-alive");
                }
            }
            10 if name.eq_ignore_ascii_case("keep-alive") => {
                kept_s = list(value).find_map(kept_seconds).or(kept_s);
            }
            14 if name.eq_ignore_ascii_case("content-length") => {
                only_length = length.is_none().then_some(value);
                length = Some(add_lengths(length, value));
            }
            17 if name.eq_ignore_ascii_case("transfer-encoding") => {
                coding = Some(add_codings(coding, value));
            }
            _ => {}
        }
    }
    let has_content = request != RequestKind::Head && !matches!(status, 204 | 304);
    let framing = match (length, coding) {
        _ if !has_content => Framing::Length(0),
        (Some(_), Some(_)) => return Err(Malformed::BothLengths),
        (None, Some(Coding::Chunked)) if version != HTTP_1_0 => Framing::Chunked,
        (None, Some(_)) => return Err(Malformed::TransferEncoding),
        (Some(length), None) => Framing::Length(length.ok_or(Malformed::Length)?),
        (None, None) => Framing::UntilClose,
    };
    let facts = Facts {
        framing,
        keeps_alive: keeps && !closes && framing != Framing::UntilClose,
        kept_s,
    };
    let is_by_length = has_content && matches!(framing, Framing::Length(_));
    Ok((
        facts,
        only_length.filter(|value| is_by_length && digits(value).is_some()),
    ))
}

/// Last of the transfer codings so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    /// `chunked`, once.
    Chunked,
    /// Another one, which `chunked` may follow.
    Other,
    /// An invalid list, whatever follows.
    Invalid,
}

fn add_codings(before: Option<Coding>, value: &[u8]) -> Coding {
    list(value).fold(
        before.unwrap_or(Coding::Other),
        |before, token| match before {
            Coding::Other if token.eq_ignore_ascii_case(b"chunked") => Coding::Chunked,
            Coding::Other if is_coding(token) => Coding::Other,
            Coding::Chunked | Coding::Other | Coding::Invalid => Coding::Invalid,
        },
    )
}

/// True if an element of the list is a name, perhaps with parameters, in ASCII: RFC 9112, 7.
fn is_coding(text: &[u8]) -> bool {
    let name = text
        .split(|byte| *byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii_end();
    // A method is a token, too.
    Method::from_bytes(name).is_ok() && text.is_ascii()
}

/// The length that all fields so far agree on; none when they differ or are no numbers.
#[expect(
    clippy::option_option,
    reason = "no field, and fields that cannot be read"
)]
fn add_lengths(before: Option<Option<u64>>, value: &[u8]) -> Option<u64> {
    if before.is_none()
        && let Some(length) = digits(value)
    {
        return Some(length);
    }
    let mut all = before;
    for token in list(value) {
        let length = digits(token)?;
        if all.is_some_and(|other| other != Some(length)) {
            return None;
        }
        all = Some(Some(length));
    }
    all?
}

fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    if is_number {
        text.iter().try_fold(0_u64, |number, byte| {
            number
                .checked_mul(10)?
                .checked_add(u64::from(byte.checked_sub(b'0')?))
        })
    } else {
        None
    }
}

/// Return the seconds of `timeout=5`.
fn kept_seconds(parameter: &[u8]) -> Option<u32> {
    let equals = parameter.iter().position(|byte| *byte == b'=')?;
    let (name, value) = parameter.split_at(equals);
    let value = value[1..].trim_ascii();
    let inner = value
        .strip_prefix(b"\"")
        .and_then(|it| it.strip_suffix(b"\""));
    let is_meant = name.trim_ascii().eq_ignore_ascii_case(b"timeout");
    let seconds = digits(inner.unwrap_or(value)).filter(|_| is_meant)?;
    u32::try_from(seconds).ok()
}

fn list(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

/// Longest head that is kept. Longer ones hold values of the single response as a rule, such as
/// cookies and trace IDs.
const MOST_BYTES: usize = 1 << 10;

/// Most digits of a recognised content length: any such number fits 64 bits.
const MOST_DIGITS: usize = 18;

/// The last parsed head.
#[derive(Debug)]
pub(crate) struct LastHead {
    /// Its bytes; empty when no head is kept.
    bytes: Vec<u8>,
    /// Place of the digits of its content length; none of a head whose framing does not depend on
    /// any.
    digits: Option<Range<usize>>,
    facts: Facts,
}

impl LastHead {
    pub(crate) const fn new() -> Self {
        let facts = Facts {
            framing: Framing::UntilClose,
            keeps_alive: false,
            kept_s: None,
        };
        Self {
            bytes: Vec::new(),
            digits: None,
            facts,
        }
    }

    /// Forget it.
    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Keep a parsed head, given its bytes and the position of the digits of its content length, if
    /// that may differ.
    pub(crate) fn keep(&mut self, head: &[u8], digits: Option<Range<usize>>, facts: Facts) {
        self.bytes.clear();
        if head.len() > MOST_BYTES {
            return;
        }
        (self.digits, self.facts) = (digits, facts);
        self.bytes.extend_from_slice(head);
    }

    /// Return the length and the facts of the head that `input` starts with, if it repeats this
    /// one.
    #[inline]
    pub(crate) fn recognise(&self, input: &[u8]) -> Option<(usize, Facts)> {
        if self.bytes.is_empty() {
            return None;
        }
        if input.starts_with(&self.bytes) {
            return Some((self.bytes.len(), self.facts));
        }
        let digits = self.digits.clone()?;
        let (before, after) = (&self.bytes[..digits.start], &self.bytes[digits.end..]);
        let rest = input.strip_prefix(before)?;
        let (mut length, mut count) = (0, 0);
        while let Some(digit @ b'0'..=b'9') = rest.get(count)
            && count < MOST_DIGITS
        {
            length = 10 * length + u64::from(digit - b'0');
            count += 1;
        }
        let is_repeated = count > 0 && rest[count..].starts_with(after);
        is_repeated.then_some((
            before.len() + count + after.len(),
            Facts {
                framing: Framing::Length(length),
                ..self.facts
            },
        ))
    }
}
