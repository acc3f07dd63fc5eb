//! Expectations that a good response meets, and their text form. The command line makes them, the
//! plan records them, and the crawl checks responses against them with a checker (`checker`).
//!
//! It must not know the outcome of a response that does not meet them: `answer` decides that.

mod checker;

use std::fmt;
use std::str::FromStr;

use regex::bytes::Regex;

pub(crate) use self::checker::{Checker, Expected, SavedResponse};
use super::compressed::MOST_BYTES;
use super::events::EventStream;

/// One thing that a good answer must be. A body that breaks off is never good, whatever is
/// expected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Expect {
    /// Any whole body.
    #[default]
    Whole,
    /// The body that the bundled target of this seed serves for the item: a pure function of seed
    /// and ID.
    Items(u64),
    /// One JSON value by RFC 8259, under a content type that says so: `application/json`,
    /// `text/json`, or one that ends in `+json`.
    ///
    /// A body that is longer than [`Expectations::MAX_READ`] is not looked at, and wrong.
    Json,
    /// One of these statuses, in the place of 200 to 299.
    Status(Statuses),
    /// A body in which this is found. As with JSON, it is not looked for in one longer than
    /// [`Expectations::MAX_READ`].
    Matching(BodyRegex),
    /// A body of such a length.
    Length(Lengths),
    /// A stream of events, read as it arrives.
    Events(EventStream),
    /// JSON with another value than null at this pointer (RFC 6901). Like a pattern, it is looked
    /// for in no body longer than [`Expectations::MAX_READ`].
    Value(String),
    /// A response for which another expectation does not hold, and which was read to know that.
    Not(Box<Self>),
}

/// Everything that a good answer must be, all at once: a list of [`Expect`], in which nothing is
/// said twice. An empty one expects any whole body.
///
/// | an answer is | when |
/// |---|---|
/// | a challenge | it says so, or is markup in the place of what was expected, whatever statuses are listed |
/// | throttled | it is a throttling response (429, 503 with Retry-After), even if its status is listed |
/// | good | its status is listed, by default 200 to 299, and its body is as expected |
/// | a wrong body | its status is listed, and its body is not as expected |
/// | not found | its status is 404 or 410, and not listed |
/// | rejected | its status is any other that is not listed, a success included |
///
/// It is written as its only member is (`items:7`), and with several members as a JSON array of
/// them (`["json","status:200"]`), for a pattern may hold any separator.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expectations(Vec<Expect>);

/// Reason why a text is no expectation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` {why}")]
pub struct ExpectError {
    text: String,
    why: String,
}

impl ExpectError {
    fn new(text: &str, why: impl Into<String>) -> Self {
        Self {
            text: text.to_owned(),
            why: why.into(),
        }
    }
}

impl Expectations {
    /// The longest body, in bytes, that is kept to be read as JSON or searched: 16 MiB. Each
    /// connection may hold one, so that without a bound a target could use up this client's memory.
    pub const MAX_READ: usize = MOST_BYTES;

    /// All of `list` at once. What is there twice counts once.
    ///
    /// # Errors
    ///
    /// If two members are of one kind and differ. Only patterns may: a body can match several.
    pub fn new(list: impl IntoIterator<Item = Expect>) -> Result<Self, ExpectError> {
        let mut kept: Vec<Expect> = Vec::new();
        for expect in list {
            if expect == Expect::Whole || kept.contains(&expect) {
                continue;
            }
            if let Some(rival) = kept.iter().find(|other| other.excludes(&expect)) {
                let why = format!("and `{expect}` exclude each other: keep one of them");
                return Err(ExpectError::new(&rival.to_string(), why));
            }
            kept.push(expect);
        }
        Ok(Self(kept))
    }

    /// The one body for each item that the bundled target of this seed serves.
    #[must_use]
    pub fn items(seed: u64) -> Self {
        Self(vec![Expect::Items(seed)])
    }

    /// Each of them, without [`Expect::Whole`], which says nothing beside others.
    #[must_use]
    pub fn as_slice(&self) -> &[Expect] {
        &self.0
    }

    /// The stream of events that is expected, if one is.
    pub(crate) fn events(&self) -> Option<&EventStream> {
        self.0.iter().find_map(|expect| match expect {
            Expect::Events(stream) => Some(stream),
            _ => None,
        })
    }

    /// True if calls of gRPC are expected.
    pub(crate) fn are_calls(&self) -> bool {
        self.events() == Some(&EventStream::GRPC)
    }

    /// True if each status from 200 to 299 is accepted, and no other: none was listed or denied.
    pub(crate) fn are_any_2xx(&self) -> bool {
        !self.0.iter().any(|expect| match expect {
            Expect::Status(_) => true,
            Expect::Not(inner) => matches!(**inner, Expect::Status(_)),
            _ => false,
        })
    }

    /// True if a good response may have this status.
    pub(crate) fn accepts_status(&self, status: u16) -> bool {
        let listed = self.0.iter().find_map(|expect| match expect {
            Expect::Status(statuses) => Some(statuses.contains(status)),
            _ => None,
        });
        let is_denied = self.0.iter().any(|expect| match expect {
            Expect::Not(inner) => matches!(&**inner, Expect::Status(it) if it.contains(status)),
            _ => false,
        });
        listed.unwrap_or((200..=299).contains(&status)) && !is_denied
    }
}

impl Expect {
    /// True if another of the same kind leaves it unclear what is meant.
    fn excludes(&self, other: &Self) -> bool {
        let is_denied = |one: &Self, two: &Self| matches!(one, Self::Not(it) if **it == *two);
        let may_be_several = matches!(self, Self::Matching(_) | Self::Value(_) | Self::Not(_));
        is_denied(self, other)
            || is_denied(other, self)
            || !may_be_several && std::mem::discriminant(self) == std::mem::discriminant(other)
    }

    /// Read what must not hold.
    fn denied(text: &str, inner: &str) -> Result<Self, ExpectError> {
        let inner = inner.parse();
        match inner.map_err(|error: ExpectError| ExpectError::new(text, error.why))? {
            Self::Whole | Self::Items(_) | Self::Events(_) | Self::Not(_) => Err(ExpectError::new(
                text,
                "cannot be denied: write `not` before json, json:/pointer, status, regex or len",
            )),
            inner => Ok(Self::Not(Box::new(inner))),
        }
    }
}

impl FromStr for Expect {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        let denied = text.strip_prefix("not");
        if let Some(inner) = denied.and_then(|rest| rest.strip_prefix([' ', '-'])) {
            return Self::denied(text, inner.trim_start());
        }
        let (kind, value) = text
            .split_once(':')
            .map_or((text, None), |(kind, value)| (kind, Some(value)));
        let (read, why) = match (kind, value) {
            ("whole", None) => return Ok(Self::Whole),
            ("json", None) => return Ok(Self::Json),
            ("json", Some(pointer)) => (
                pointer
                    .starts_with('/')
                    .then(|| Self::Value(pointer.to_owned())),
                "names no value: write its JSON pointer, as in `json:/data/id`",
            ),
            ("sse" | "ndjson" | "grpc", end) => (
                EventStream::parse(kind, end).map(Self::Events),
                "is not a stream of events: write `sse`, `sse:[DONE]` for a stream whose last event has this data, `ndjson` or `grpc`",
            ),
            ("items", Some(seed)) => (
                seed.parse().ok().map(Self::Items),
                "names no seed: write `items:SEED` for a target started with `serve --seed SEED`",
            ),
            ("status", Some(list)) => {
                let statuses = Statuses::read(list);
                if statuses
                    .as_ref()
                    .is_some_and(|statuses| statuses.names(Statuses::TOO_MANY_REQUESTS))
                {
                    let why = "lists 429, which always counts as throttled: leave it out";
                    return Err(ExpectError::new(text, why));
                }
                (
                    statuses.map(Self::Status),
                    "lists no statuses: write numbers from 200 to 999, as in `status:200-299` or `status:200,404`",
                )
            }
            ("regex", Some(pattern)) => {
                return BodyRegex::read(pattern).map(Self::Matching).map_err(|why| {
                    ExpectError::new(text, format!("is not a regular expression: {why}"))
                });
            }
            ("len", Some(range)) => (
                Lengths::read(range).map(Self::Length),
                "is not a valid length: write bytes, as in `len:115`, `len:1-1000` or `len:1-`",
            ),
            _ => (
                None,
                "is not a valid expectation: write `whole`, `items:SEED`, `json`, `sse`, `ndjson`, `grpc`, `json:/pointer`, `status:200-299`, `regex:PATTERN` or `len:1-1000`, perhaps after `not`",
            ),
        };
        read.ok_or_else(|| ExpectError::new(text, why))
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "whole"),
            Self::Items(seed) => write!(f, "items:{seed}"),
            Self::Json => write!(f, "json"),
            Self::Value(pointer) => write!(f, "json:{pointer}"),
            Self::Not(inner) => write!(f, "not {inner}"),
            Self::Status(statuses) => write!(f, "status:{statuses}"),
            Self::Matching(pattern) => write!(f, "regex:{pattern}"),
            Self::Length(lengths) => write!(f, "len:{lengths}"),
            Self::Events(stream) => stream.fmt(f),
        }
    }
}

impl FromStr for Expectations {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        if !text.starts_with('[') {
            return Self::new([text.parse()?]);
        }
        let list: Vec<String> = serde_json::from_str(text).map_err(|_| {
            ExpectError::new(
                text,
                "is not a list of expectations: write a JSON array of texts",
            )
        })?;
        Self::new(
            list.iter()
                .map(|member| member.parse())
                .collect::<Result<Vec<_>, _>>()?,
        )
    }
}

impl fmt::Display for Expectations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.as_slice() {
            [] => Expect::Whole.fmt(f),
            [only] => only.fmt(f),
            several => several
                .iter()
                .map(Expect::to_string)
                .collect::<serde_json::Value>()
                .fmt(f),
        }
    }
}

/// A regular expression over bytes, in the syntax of the crate `regex`. Two are the same when they
/// are written the same.
#[derive(Debug, Clone)]
pub struct BodyRegex(Regex);

impl BodyRegex {
    /// Reads a pattern, or says in one line what is wrong with it.
    fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            // It would be found everywhere.
            return Err(
                "it is empty: write what is to be found, as in `regex:\"id\":\\d+`".to_owned(),
            );
        }
        Regex::new(text).map(Self).map_err(|error| {
            // The lines before the last repeat the pattern and point at the place.
            let last = error
                .to_string()
                .lines()
                .last()
                .map(str::to_owned)
                .unwrap_or_default();
            last.strip_prefix("error:")
                .unwrap_or(&last)
                .trim()
                .to_owned()
        })
    }

    /// True if it is found anywhere in `body`.
    fn is_in(&self, body: &[u8]) -> bool {
        self.0.is_match(body)
    }
}

impl PartialEq for BodyRegex {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for BodyRegex {}

impl fmt::Display for BodyRegex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.as_str())
    }
}

/// Statuses, as in `200-299` or `200,404`: never an empty list, and all from 200 to 999. Those
/// below are never an answer's last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statuses(Vec<(u16, u16)>);

/// Lengths from one to another in bytes, both included, as in `115`, `1-1000` or `1-`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lengths {
    shortest: u64,
    longest: u64,
}

impl Statuses {
    /// The status that asks for patience, and for nothing else.
    const TOO_MANY_REQUESTS: u16 = 429;

    fn read(text: &str) -> Option<Self> {
        text.split(',').map(range).collect::<Option<_>>().map(Self)
    }

    /// True if `status` is one of them.
    #[must_use]
    pub fn contains(&self, status: u16) -> bool {
        self.0
            .iter()
            .any(|(first, last)| (*first..=*last).contains(&status))
    }

    /// True if `status` is listed by itself, and not only within a range.
    fn names(&self, status: u16) -> bool {
        self.0.contains(&(status, status))
    }
}

impl FromStr for Statuses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let why = || format!("`{text}` lists no statuses from 200 to 999: write 409,520-529");
        Self::read(text).ok_or_else(why)
    }
}

impl Lengths {
    fn read(text: &str) -> Option<Self> {
        let (shortest, longest) = match text.split_once('-') {
            None => (number(text)?, number(text)?),
            Some(("", _)) => return None,
            Some((shortest, "")) => (number(shortest)?, u64::MAX),
            Some((shortest, longest)) => (number(shortest)?, number(longest)?),
        };
        (shortest <= longest).then_some(Self { shortest, longest })
    }

    /// True if `length` is one of them.
    #[must_use]
    pub const fn contains(self, length: u64) -> bool {
        self.shortest <= length && length <= self.longest
    }
}

fn range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((status(first)?, status(last)?)).filter(|(first, last)| first <= last)
}

fn status(text: &str) -> Option<u16> {
    let status = u16::try_from(number(text)?).ok();
    status.filter(|status| (200..=999).contains(status))
}

/// Digits and nothing else: no sign.
fn number(text: &str) -> Option<u64> {
    text.bytes()
        .all(|byte| byte.is_ascii_digit())
        .then_some(text)?
        .parse()
        .ok()
}

impl fmt::Display for Statuses {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (first, last)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Lengths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.shortest, self.longest) {
            (shortest, longest) if shortest == longest => write!(f, "{shortest}"),
            (shortest, u64::MAX) => write!(f, "{shortest}-"),
            (shortest, longest) => write!(f, "{shortest}-{longest}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_expectation_is_read_as_it_is_written() {
        for text in [
            "whole",
            "items:7",
            "json",
            "status:200,404",
            "regex:a:b",
            "len:0",
            "len:1-",
            "len:5-10",
            "sse",
            "sse:[DONE]",
            "ndjson",
            "grpc",
            "json:/data/a~1b",
            "not json:/errors",
            "not json",
            "not regex:a b",
            "not status:404",
            "not len:0",
        ] {
            assert_eq!(text.parse::<Expect>().unwrap().to_string(), text);
            assert_eq!(text.parse::<Expectations>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "items",
            "JSON",
            "json:",
            "json:errors",
            "not",
            "not json:",
            "not whole",
            "not items:7",
            "not sse",
            "not not json",
            " json",
            "items:x",
            "status:",
            "status:199",
            "status:1000",
            "status:299-200",
            "status:200,",
            "status:2xx",
            "status:200,429",
            "status:429-429",
            "sse:",
            "ndjson:x",
            "grpc:x",
            "regex:",
            "regex:(",
            "len:",
            "len:-5",
            "len:9-1",
            "len:+1",
            "len:18446744073709551616",
        ] {
            let error = text.parse::<Expect>().unwrap_err().to_string();
            assert!(!error.contains('\n'), "{error}");
            assert!(error.starts_with(&format!("`{text}` ")), "{text}: {error}");
        }
    }

    fn all(texts: &[&str]) -> Result<Expectations, ExpectError> {
        Expectations::new(texts.iter().map(|text| text.parse().unwrap()))
    }

    #[test]
    fn of_each_kind_one_is_meant_save_of_patterns() {
        assert_eq!(all(&[]).unwrap(), Expectations::default());
        assert_eq!(
            all(&["whole", "json", "whole", "json"])
                .unwrap()
                .to_string(),
            "json"
        );
        let several = all(&[
            "json",
            "regex:a",
            "regex:\"b\\\\",
            "regex:a",
            "len:1-",
            "items:7",
        ])
        .unwrap()
        .to_string();
        assert_eq!(
            several,
            r#"["json","regex:a","regex:\"b\\\\","len:1-","items:7"]"#
        );
        for (one, other) in [
            ("items:1", "items:2"),
            ("status:200", "status:404"),
            ("len:1-", "len:2-"),
        ] {
            assert_eq!(all(&["json", one, other]).unwrap_err().text, one);
        }
        for text in [
            "[",
            "[1]",
            "[\"json\",\"nothing\"]",
            "[\"len:1\",\"len:2\"]",
            "[\"json\"] x",
        ] {
            assert!(text.parse::<Expectations>().is_err(), "{text}");
        }
    }

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            Just("whole".to_owned()),
            Just("json".to_owned()),
            any::<u64>().prop_map(|seed| format!("items:{seed}")),
            "status:([2-9][0-9]{2}|[2-4][0-9]{2}-[5-9][0-9]{2})(,[2-9][0-9]{2}){0,2}",
            "len:([0-9]{1,4}|[0-9]{1,3}-[0-9]{3,19}|[0-9]{1,19}-|-[0-9]{1,5})",
            "regex:\\PC{1,12}",
            "(status|len|regex|items)?:?[-,0-9a-z\\[\\](\"]{0,6}",
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1_000))]

        #[test]
        fn what_was_printed_parses_to_itself(texts in prop::collection::vec(text(), 0..5)) {
            let read: Vec<Expect> = texts.iter().filter_map(|text| text.parse().ok()).collect();
            for expect in &read {
                prop_assert_eq!(&expect.to_string().parse::<Expect>().unwrap(), expect);
            }
            if let Ok(all) = Expectations::new(read) {
                prop_assert_eq!(all.to_string().parse::<Expectations>().unwrap(), all);
            }
        }
    }
}

#[cfg(test)]
mod ranges_tests {
    use super::*;

    #[test]
    fn both_ends_are_included() {
        let statuses = Statuses::read("200-204,404").unwrap();
        let good: Vec<u16> = (0..=u16::MAX)
            .filter(|status| statuses.contains(*status))
            .collect();
        assert_eq!(good, [200, 201, 202, 203, 204, 404]);
        for (text, inside, outside) in [
            ("5", [5, 5], [4, 6]),
            ("0", [0, 0], [1, u64::MAX]),
            ("5-9", [5, 9], [4, 10]),
            ("1-", [1, u64::MAX], [0, 0]),
        ] {
            let lengths = Lengths::read(text).unwrap();
            assert!(
                inside.iter().all(|length| lengths.contains(*length)),
                "{text}"
            );
            assert!(
                !outside.iter().any(|length| lengths.contains(*length)),
                "{text}"
            );
        }
    }
}
