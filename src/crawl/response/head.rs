//! Facts of a response head that are needed after its bytes are gone. It must not judge them.

use std::time::{Duration, UNIX_EPOCH};

use crawlmark_harness::clock::{duration_ns, wall_time};
use crawlmark_harness::sample::ResponseTraits;

use super::compressed::{Codings, Content};
use super::fields::HeaderFields;
use super::grpc;
use super::throttling::{self, Signals};

/// Cloudflare's header field of every challenge page, with the only value `challenge`.
const MITIGATED: &str = "cf-mitigated";

/// Header field in which a target says what it took (Server-Timing, W3C).
const SERVER_TIMING: &str = "server-timing";

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

/// Parts of a head that are read only where they are used.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadUse {
    pub(crate) held: HoldHeader,
    pub(crate) content: Content,
    /// True if redirects are followed.
    pub(crate) follows: bool,
    /// True if values are taken from responses: each head is then read.
    pub(crate) takes: bool,
    /// True if the content is read, so that it matters how it is coded.
    pub(crate) reads_content: bool,
}

/// Kind of content, by its content type with any parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ContentKind {
    /// HTML.
    Markup,
    /// XML: `text/xml`, `application/xml`, or a type that ends in `+xml` (RFC 7303).
    Xml,
    /// `application/json`, `text/json`, or a type that ends in `+json` (RFC 6839, 3.1).
    Json,
    /// Server-sent events.
    Events,
    /// Messages of gRPC, `application/grpc+proto` and the like included.
    Grpc,
    Other,
}

impl ContentKind {
    fn of(content_type: &[u8]) -> Self {
        let essence = content_type
            .split(|&byte| byte == b';')
            .next()
            .unwrap_or_default()
            .trim_ascii();
        let is = |name: &[u8]| essence.eq_ignore_ascii_case(name);
        let ends = |end: &[u8; 5]| end.eq_ignore_ascii_case(b"+json");
        let is_xml = |end: &[u8; 3]| end.eq_ignore_ascii_case(b"xml");
        // The commonest first: a response of HTTP/1.1 has its type looked at each time.
        if is(b"application/json") || is(b"text/json") {
            Self::Json
        } else if is(b"text/event-stream") {
            Self::Events
        } else if is(b"text/html") {
            Self::Markup
        } else if is_grpc(essence) {
            Self::Grpc
        } else if essence.last_chunk().is_some_and(ends) {
            Self::Json
        } else if essence.last_chunk().is_some_and(is_xml) {
            Self::Xml
        } else {
            Self::Other
        }
    }
}

/// True for the content type of gRPC, with the name of a format or without.
fn is_grpc(essence: &[u8]) -> bool {
    let name = essence
        .splitn(2, |&byte| byte == b'+')
        .next()
        .unwrap_or_default();
    name.eq_ignore_ascii_case(grpc::CONTENT_TYPE.as_bytes())
}

/// Facts of the head of a response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HeadFacts {
    pub(crate) status: u16,
    /// Throttling signals; none for a success without quota fields, whose fields are not read.
    pub(crate) signals: Option<Signals>,
    /// True if a content delivery network marked it as a challenge page.
    pub(crate) is_challenge: bool,
    pub(crate) kind: ContentKind,
    /// Number of the content type of a response that is saved, among those seen so far.
    pub(crate) content_type: u16,
    /// Numbers of the values of the headers of `--trait`.
    pub(crate) traits: [u8; ResponseTraits::MOST_HEADERS],
    /// Codings of the content, where it is to be decoded or read.
    pub(crate) codings: Codings,
    /// True if nothing but the status and the content matters of it.
    pub(crate) is_plain: bool,
    /// Time that the target says it took (`Server-Timing`), or for which the bundled target held the
    /// response back where that is used, ns.
    pub(crate) held_ns: Option<u64>,
}

impl HeadFacts {
    /// Read the head of a response that has just arrived.
    pub(crate) fn read(status: u16, fields: HeaderFields<'_>, used: HeadUse) -> Self {
        let (mut content_type, mut mitigated, mut is_timed) = (None, None, false);
        for (name, value) in fields.iter() {
            if name.len() == SERVER_TIMING.len() {
                is_timed |= name.eq_ignore_ascii_case(SERVER_TIMING);
            } else if name.len() != MITIGATED.len() {
            } else if name.eq_ignore_ascii_case("content-type") {
                content_type = content_type.or(Some(value));
            } else if name.eq_ignore_ascii_case(MITIGATED) {
                mitigated = mitigated.or(Some(value));
            }
        }
        let may_throttle = !(200..300).contains(&status) || throttling::tells_of_quota(fields);
        let mut head = Self {
            status,
            is_plain: false,
            signals: may_throttle.then(|| {
                let received = wall_time().duration_since(UNIX_EPOCH);
                throttling::read(status, fields, received.unwrap_or_default())
            }),
            is_challenge: mitigated.is_some_and(|value| value.eq_ignore_ascii_case(b"challenge")),
            kind: content_type.map_or(ContentKind::Other, ContentKind::of),
            content_type: 0,
            traits: Default::default(),
            codings: if used.content == Content::Decoded || used.reads_content {
                Codings::of(fields)
            } else {
                Codings::NONE
            },
            held_ns: if used.held == HoldHeader::Read {
                fields.all(HELD_US).next().and_then(microseconds)
            } else if is_timed {
                server_timing_ns(fields)
            } else {
                None
            },
        };
        head.is_plain = head.signals.is_none() && !head.is_challenge && head.held_ns.is_none();
        head
    }
}

/// Return the time that a target says a response took, ns: that of its metric `total`, or else
/// `app`, or else the longest, of which the others are parts in the fields of most frameworks.
fn server_timing_ns(fields: HeaderFields<'_>) -> Option<u64> {
    let timed = fields
        .all(SERVER_TIMING)
        .filter_map(|value| std::str::from_utf8(value).ok())
        .flat_map(|value| value.split(','))
        .filter_map(|metric| {
            let mut parts = metric.split(';').map(str::trim);
            let rank = match parts.next()? {
                "total" => 2,
                "app" => 1,
                _ => 0,
            };
            let duration = parts.find_map(|part| part.strip_prefix("dur="))?;
            let ms: f64 = duration.trim_matches('"').parse().ok()?;
            let duration = Duration::try_from_secs_f64(ms / 1e3).ok()?;
            Some((rank, duration_ns(duration)))
        });
    timed.max().map(|(_, ns)| ns)
}

/// Parse microseconds; return ns.
fn microseconds(value: &[u8]) -> Option<u64> {
    let us: u64 = std::str::from_utf8(value).ok()?.parse().ok()?;
    us.checked_mul(1_000)
}

/// True if a response of this status redirects.
pub(crate) const fn is_redirect(status: u16) -> bool {
    matches!(status, 301 | 302 | 303 | 307 | 308)
}

/// The facts of a head with these fields.
#[cfg(test)]
pub(crate) fn facts(status: u16, fields: &[(&str, &str)]) -> HeadFacts {
    let used = HeadUse {
        held: HoldHeader::Read,
        ..HeadUse::default()
    };
    facts_with(status, fields, used)
}

#[cfg(test)]
fn facts_with(status: u16, fields: &[(&str, &str)], used: HeadUse) -> HeadFacts {
    let fields: Vec<_> = fields
        .iter()
        .map(|(name, value)| httparse::Header {
            name,
            value: value.as_bytes(),
        })
        .collect();
    HeadFacts::read(status, HeaderFields::new(&fields), used)
}

#[cfg(test)]
mod tests {
    use super::ContentKind;
    use super::{HeadUse, HoldHeader, facts, facts_with};

    #[test]
    fn fields_are_read_by_name_in_any_case_and_the_first_counts() {
        let read = facts(
            200,
            &[
                ("Content-Type", "text/html"),
                ("content-type", "application/json"),
            ],
        );
        assert!(read.kind == ContentKind::Markup);
        for (value, ns) in [
            ("total;dur=12.5, db;dur=40", Some(12_500_000)),
            (
                "cache;desc=\"hit\", db;dur=53;desc=sql, app;dur=\"47\"",
                Some(47_000_000),
            ),
            ("sql;dur=1, view;dur=2.25", Some(2_250_000)),
            ("cache;desc=hit, total;dur=-1, x;dur=NaN, y;dur=1e300", None),
        ] {
            let fields = [("Server-Timing", value)];
            let mut used = HeadUse::default();
            assert_eq!(facts_with(200, &fields, used).held_ns, ns, "{value}");
            used.held = HoldHeader::Read;
            assert_eq!(facts_with(200, &fields, used).held_ns, None);
        }
        let read = facts(
            200,
            &[("x-not-a-type", "text/html"), ("CF-Mitigated", "Challenge")],
        );
        assert!((read.kind, read.is_challenge) == (ContentKind::Other, true));
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
