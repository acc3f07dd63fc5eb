//! Expectations that a good response meets, and their text form. The command line makes them, the
//! plan records them, and the crawl checks responses against them with a checker (`checker`).
//!
//! It must not know the outcome of a response that does not meet them: `answer` decides that.

mod checker;
mod pattern;
mod ranges;

use std::fmt;
use std::str::FromStr;

pub(super) use self::checker::{BodyCheck, CheckResult, Checker, Expected, SavedResponse, Status};
pub use self::pattern::BodyRegex;
pub use self::ranges::{Lengths, Statuses};

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
pub enum ExpectError {
    /// Unknown kind of expectation.
    #[error(
        "`{0}` is not a valid expectation: write `whole`, `items:SEED`, `json`, `status:200-299`, `regex:PATTERN` or `len:1-1000`"
    )]
    Unknown(String),
    /// Invalid seed.
    #[error(
        "`{0}` names no seed: write `items:SEED` for a target started with `serve --seed SEED`"
    )]
    Seed(String),
    /// Invalid statuses.
    #[error(
        "`{0}` lists no statuses: write numbers from 200 to 999, as in `status:200-299` or `status:200,404`"
    )]
    Statuses(String),
    /// 429 was asked for.
    #[error("`{0}` lists 429, which always counts as throttled: leave it out")]
    TooManyRequests(String),
    /// Invalid length.
    #[error("`{0}` is not a valid length: write bytes, as in `len:115`, `len:1-1000` or `len:1-`")]
    Lengths(String),
    /// Invalid regular expression.
    #[error("`{text}` is not a regular expression: {why}")]
    Pattern {
        /// Pattern as given.
        text: String,
        /// Reason why it is invalid.
        why: String,
    },
    /// Two that no answer, or only a part of the second's, can be.
    #[error("`{0}` and `{1}` exclude each other: keep one of them")]
    Both(String, String),
    /// Invalid list of expectations: not a JSON array of texts.
    #[error("`{0}` is not a list of expectations: write a JSON array of texts")]
    List(String),
}

impl Expectations {
    /// The longest body, in bytes, that is kept to be read as JSON or searched: 16 MiB. Each
    /// connection may hold one, so that without a bound a target could use up this client's memory.
    pub const MAX_READ: u64 = 16 << 20;

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
                return Err(ExpectError::Both(rival.to_string(), expect.to_string()));
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

    /// The statuses that were listed, if any were.
    pub(super) fn statuses(&self) -> Option<&Statuses> {
        self.0.iter().find_map(|expect| {
            if let Expect::Status(statuses) = expect {
                Some(statuses)
            } else {
                None
            }
        })
    }
}

impl Expect {
    /// True if another of the same kind leaves it unclear what is meant.
    fn excludes(&self, other: &Self) -> bool {
        !matches!(self, Self::Matching(_))
            && std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

impl FromStr for Expect {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        let said = || text.to_owned();
        match text.split_once(':') {
            None if text == "whole" => Ok(Self::Whole),
            None if text == "json" => Ok(Self::Json),
            Some(("items", seed)) => Ok(Self::Items(
                seed.parse().map_err(|_| ExpectError::Seed(said()))?,
            )),
            Some(("status", list)) => {
                let statuses = Statuses::read(list).ok_or_else(|| ExpectError::Statuses(said()))?;
                if statuses.names(Statuses::TOO_MANY_REQUESTS) {
                    return Err(ExpectError::TooManyRequests(said()));
                }
                Ok(Self::Status(statuses))
            }
            Some(("regex", pattern)) => match BodyRegex::read(pattern) {
                Ok(pattern) => Ok(Self::Matching(pattern)),
                Err(why) => Err(ExpectError::Pattern { text: said(), why }),
            },
            Some(("len", range)) => Lengths::read(range)
                .map(Self::Length)
                .ok_or_else(|| ExpectError::Lengths(said())),
            _ => Err(ExpectError::Unknown(said())),
        }
    }
}

impl fmt::Display for Expect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Whole => write!(f, "whole"),
            Self::Items(seed) => write!(f, "items:{seed}"),
            Self::Json => write!(f, "json"),
            Self::Status(statuses) => write!(f, "status:{statuses}"),
            Self::Matching(pattern) => write!(f, "regex:{pattern}"),
            Self::Length(lengths) => write!(f, "len:{lengths}"),
        }
    }
}

impl FromStr for Expectations {
    type Err = ExpectError;

    fn from_str(text: &str) -> Result<Self, ExpectError> {
        if !text.starts_with('[') {
            return Self::new([text.parse()?]);
        }
        let list: Vec<String> =
            serde_json::from_str(text).map_err(|_| ExpectError::List(text.to_owned()))?;
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
            "status:200-299",
            "status:200,404",
            "status:200",
            "status:400-499",
            "regex:\"id\":\\d+",
            "regex:a:b",
            "len:0",
            "len:1-",
            "len:5-10",
        ] {
            assert_eq!(text.parse::<Expect>().unwrap().to_string(), text);
            assert_eq!(text.parse::<Expectations>().unwrap().to_string(), text);
        }
        for (text, why) in [
            ("", "is not a valid expectation"),
            ("items", "is not a valid expectation"),
            ("JSON", "is not a valid expectation"),
            ("json:", "is not a valid expectation"),
            ("whole:", "is not a valid expectation"),
            (" json", "is not a valid expectation"),
            ("items:", "names no seed"),
            ("items:x", "names no seed"),
            ("status:", "lists no statuses"),
            ("status:20", "lists no statuses"),
            ("status:199", "lists no statuses"),
            ("status:1000", "lists no statuses"),
            ("status:299-200", "lists no statuses"),
            ("status:200,", "lists no statuses"),
            ("status:200-", "lists no statuses"),
            ("status:2xx", "lists no statuses"),
            ("status:200,429", "lists 429"),
            ("status:429-429", "lists 429"),
            ("regex:", "write what is to be found"),
            ("regex:(", "unclosed group"),
            ("regex:[z-a]", "range"),
            ("len:", "is not a valid length"),
            ("len:-", "is not a valid length"),
            ("len:-5", "is not a valid length"),
            ("len:x", "is not a valid length"),
            ("len:9-1", "is not a valid length"),
            ("len:+1", "is not a valid length"),
            ("len:18446744073709551616", "is not a valid length"),
        ] {
            let error = text.parse::<Expect>().unwrap_err().to_string();
            assert!(
                error.contains(why) && !error.contains('\n'),
                "{text}: {error}"
            );
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
            let error = all(&["json", one, other]).unwrap_err();
            assert_eq!(error, ExpectError::Both(one.to_owned(), other.to_owned()));
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
