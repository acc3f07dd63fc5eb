//! Facts of a response head that are needed after its bytes: the read buffer is reused for the
//! content.
//!
//! Read once, when the head arrives; used by outcomes and expectations. It must not judge them.

use std::time::UNIX_EPOCH;

use crawlmark_harness::clock::wall_time;

use super::compressed::Coding;
use super::header_fields::HeaderFields;
use super::throttling::{self, Signals};

/// Cloudflare's header field of every challenge page, with the only value `challenge`.
const MITIGATED: &str = "cf-mitigated";

/// The bundled target's header field of every answer that it held back: the time, µs.
const HELD_US: &str = "x-mock-held-us";

/// Use of the target's header about how long it held an answer back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum HoldHeader {
    /// Not read, which costs nothing.
    #[default]
    Ignored,
    /// Read from the responses of the bundled target, which sends it.
    Read,
}

/// Facts of the head of a response.
#[derive(Debug, Clone, Copy)]
pub(super) struct HeadFacts {
    pub(super) status: u16,
    /// Throttling signals; none for a success without quota fields, whose fields are not read.
    pub(super) signals: Option<Signals>,
    /// True if a content delivery network marked it as a challenge page.
    pub(super) is_challenge: bool,
    /// True if the content type is HTML's.
    pub(super) is_markup: bool,
    /// True if the content type is JSON's (`text/json` included) or ends in `+json` (RFC 6839,
    /// 3.1), with any parameters.
    pub(super) is_json: bool,
    /// [Number](super::expect::Expected::content_type) of the content type of a response that is
    /// saved.
    pub(super) content_type: u16,
    /// Coding of the content, where it is to be decoded.
    pub(super) coding: Coding,
    /// Time for which the bundled target held the response back, ns, where that is used.
    pub(super) held_ns: Option<u64>,
}

impl HeadFacts {
    /// Read the head of a response that has just arrived.
    pub(super) fn read(status: u16, fields: HeaderFields<'_>, held: HoldHeader) -> Self {
        let (mut content_type, mut mitigated) = (None, None);
        for (name, value) in fields
            .iter()
            .filter(|(name, _)| name.len() == MITIGATED.len())
        {
            if name.eq_ignore_ascii_case("content-type") {
                content_type = content_type.or(Some(value));
            } else if name.eq_ignore_ascii_case(MITIGATED) {
                mitigated = mitigated.or(Some(value));
            }
        }
        let may_throttle = !(200..300).contains(&status) || throttling::tells_of_quota(fields);
        Self {
            status,
            signals: may_throttle.then(|| {
                let received = wall_time().duration_since(UNIX_EPOCH);
                throttling::read(status, fields, received.unwrap_or_default())
            }),
            is_challenge: mitigated.is_some_and(|value| value.eq_ignore_ascii_case(b"challenge")),
            is_markup: content_type.is_some_and(is_markup),
            is_json: content_type.is_some_and(is_json),
            content_type: 0,
            coding: Coding::Identity,
            held_ns: if held == HoldHeader::Read {
                fields.all(HELD_US).next().and_then(microseconds)
            } else {
                None
            },
        }
    }
}

fn is_markup(content_type: &[u8]) -> bool {
    const HTML: &[u8] = b"text/html";
    content_type
        .get(..HTML.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(HTML))
}

fn is_json(content_type: &[u8]) -> bool {
    let essence = content_type
        .split(|&byte| byte == b';')
        .next()
        .unwrap_or_default()
        .trim_ascii();
    let end = essence.last_chunk().map_or(&[][..], |end: &[u8; 5]| end);
    end.eq_ignore_ascii_case(b"+json")
        || essence.eq_ignore_ascii_case(b"application/json")
        || essence.eq_ignore_ascii_case(b"text/json")
}

/// Parse microseconds; return ns.
fn microseconds(value: &[u8]) -> Option<u64> {
    let us: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    us.checked_mul(1_000)
}

/// The facts of a head with these fields.
#[cfg(test)]
pub(super) fn facts(status: u16, fields: &[(&str, &str)]) -> HeadFacts {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| httparse::Header {
            name,
            value: value.as_bytes(),
        })
        .collect();
    HeadFacts::read(status, HeaderFields::new(&fields), HoldHeader::Read)
}

#[cfg(test)]
mod tests {
    use super::facts;

    #[test]
    fn fields_are_read_by_name_in_any_case_and_the_first_counts() {
        let read = facts(
            200,
            &[
                ("Content-Type", "text/html"),
                ("content-type", "application/json"),
            ],
        );
        assert!((read.is_markup, read.is_json) == (true, false));
        let read = facts(
            200,
            &[("x-not-a-type", "text/html"), ("CF-Mitigated", "Challenge")],
        );
        assert!((read.is_markup, read.is_challenge) == (false, true));
        assert_eq!(facts(200, &[("X-Mock-Held-Us", "7")]).held_ns, Some(7_000));
        assert_eq!(facts(200, &[("x-mock-held-us", "-7")]).held_ns, None);
        assert_eq!(
            facts(200, &[("x-mock-held-us", "18446744073709551615")]).held_ns,
            None
        );
        for (status, name, is_read) in [
            (200, "date", false),
            (200, "X-RateLimit-Limit", true),
            (200, "RateLimit", true),
            (404, "date", true),
        ] {
            assert_eq!(
                facts(status, &[(name, "")]).signals.is_some(),
                is_read,
                "{status} {name}"
            );
        }
    }
}
