//! Types of user input: ID ranges, counts, rates and durations; and numbers as people read them.
//!
//! Called by the command line (through `FromStr`) and by the plan. Parsing touches nothing but its
//! text; every error says what was wrong and what would be right.

mod alike;
mod names;
mod rate;
mod words;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::alike::nearest;
pub use self::names::UnknownName;
pub(crate) use self::names::names;
pub(crate) use self::rate::LONGEST_STAGE;
pub use self::rate::{Rate, RateError, RateShape, ShapedRate, Stage};
pub use self::words::{grouped, micros, percent, rounded_percent};

/// The whole part of a number; 0 of one below 0, and the greatest of one that is too large.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
pub const fn whole(number: f64) -> u64 {
    number as u64
}

/// The whole part of a number as a place in a list, or a length of one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it saturates"
)]
pub const fn place(number: f64) -> usize {
    number as usize
}

/// Reason why a text is no valid quantity.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnitError {
    /// Not a whole number with an optional suffix.
    #[error(
        "`{0}` is not a count: write a whole number, with `_` and k, m or g if you like (200k, 1_000_000)"
    )]
    Count(String),
    /// Larger than 2^64 - 1.
    #[error("`{0}` is larger than 2^64 - 1")]
    TooLarge(String),
    /// Not `A..B` or `A..=B`.
    #[error("`{0}` is not a range: write A..B (B excluded) or A..=B, for example 0..200k")]
    Range(String),
    /// A range that holds no ID.
    #[error("the range `{0}` is empty: its end must be greater than its start")]
    EmptyRange(String),
    /// Not a rate, in any of its forms.
    #[error(transparent)]
    Rate(#[from] RateError),
    /// The range up to 2^64 - 1, whose end no ID can follow.
    #[error(
        "`{0}` ends too high: the last ID can be 18446744073709551614 (2^64 - 2); write {1}..=18446744073709551614"
    )]
    LastId(String, u64),
    /// Not a duration.
    #[error(
        "`{0}` is not a duration: write a number with µs, ms, s, m or h (250ms, 1m 30s); a bare number is seconds"
    )]
    Duration(String),
}

/// Parses a count such as `42`, `1_000`, `200k`, `5m` or `1g` (powers of 1000).
///
/// # Errors
/// When the text is no whole number with an optional suffix, or exceeds 2^64 - 1.
pub fn parse_count(text: &str) -> Result<u64, UnitError> {
    let bad = || UnitError::Count(text.to_owned());
    let digits: String = text.chars().filter(|c| *c != '_').collect();
    let (digits, factor) = match digits.chars().last().ok_or_else(bad)? {
        'k' | 'K' => (&digits[..digits.len() - 1], 1_000),
        'm' | 'M' => (&digits[..digits.len() - 1], 1_000_000),
        'g' | 'G' => (&digits[..digits.len() - 1], 1_000_000_000),
        _ => (&digits[..], 1),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let number: Option<u64> = digits.parse().ok();
    number
        .and_then(|number| number.checked_mul(factor))
        .ok_or_else(|| UnitError::TooLarge(text.to_owned()))
}

/// Parses a duration such as `250ms`, `1m 30s` or `10` (seconds).
///
/// # Errors
/// When the text is neither a bare number of seconds nor numbers with units.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let time = if text.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        let seconds = text.parse().ok();
        seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
    } else {
        // A Greek mu is as good as the sign for micro that looks the same.
        humantime::parse_duration(&text.replace('μ', "µ")).ok()
    };
    time.ok_or_else(|| UnitError::Duration(text.to_owned()))
}

/// A half-open range of IDs: `start` belongs to it, `end` does not. Never empty when it was parsed;
/// a shard's part of a range may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdRange {
    /// The first ID.
    pub start: u64,
    /// One past the last ID.
    pub end: u64,
}

impl IdRange {
    /// Return the number of IDs in the range.
    pub const fn len(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// True if the range holds no ID.
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first `count` IDs of the range, or all of it.
    pub const fn first(&self, count: u64) -> Self {
        let end = if count < self.len() {
            self.start + count
        } else {
            self.end
        };
        Self {
            start: self.start,
            end,
        }
    }
}

impl fmt::Display for IdRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

impl FromStr for IdRange {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (start, rest) = text
            .split_once("..")
            .ok_or_else(|| UnitError::Range(text.to_owned()))?;
        let (end, inclusive) = match rest.strip_prefix('=') {
            Some(end) => (end, 1),
            None => (rest, 0),
        };
        if start.is_empty() || end.is_empty() {
            return Err(UnitError::Range(text.to_owned()));
        }
        let start = parse_count(start)?;
        let end = parse_count(end)?
            .checked_add(inclusive)
            .ok_or_else(|| UnitError::LastId(text.to_owned(), start.min(u64::MAX - 1)))?;
        if end <= start {
            return Err(UnitError::EmptyRange(text.to_owned()));
        }
        Ok(Self { start, end })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn counts_take_separators_and_suffixes() {
        for (text, value) in [
            ("0", 0),
            ("42", 42),
            ("1_000", 1_000),
            ("200k", 200_000),
            ("5M", 5_000_000),
            ("1g", 1_000_000_000),
        ] {
            assert_eq!(parse_count(text), Ok(value), "{text}");
        }
        for text in ["", "k", "-1", "1.5k", "1kk", "0x10", "1 000", "_", "é"] {
            assert!(
                matches!(parse_count(text), Err(UnitError::Count(_))),
                "{text}"
            );
        }
        assert!(matches!(
            parse_count("99999999999g"),
            Err(UnitError::TooLarge(_))
        ));
    }

    #[test]
    fn ranges_are_half_open_unless_they_say_otherwise() {
        assert_eq!(
            "0..200k".parse(),
            Ok(IdRange {
                start: 0,
                end: 200_000
            })
        );
        assert_eq!("5..=7".parse(), Ok(IdRange { start: 5, end: 8 }));
        assert!(matches!(
            "7..7".parse::<IdRange>(),
            Err(UnitError::EmptyRange(_))
        ));
        assert!(matches!(
            "9..7".parse::<IdRange>(),
            Err(UnitError::EmptyRange(_))
        ));
        assert_eq!(
            "0..18446744073709551615".parse(),
            Ok(IdRange {
                start: 0,
                end: u64::MAX
            })
        );
        for text in [
            "5..=18446744073709551615",
            "",
            "7",
            "..",
            "1..",
            "..9",
            "a..b",
            "1..2..3",
        ] {
            assert!(text.parse::<IdRange>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_bare_duration_is_seconds() {
        assert_eq!(parse_duration("10"), Ok(Duration::from_secs(10)));
        assert_eq!(parse_duration("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("1m 30s"), Ok(Duration::from_secs(90)));
        assert_eq!(
            ["5us", "5µs", "5μs"].map(parse_duration),
            [const { Ok(Duration::from_micros(5)) }; 3]
        );
        for text in ["", "abc", "-1s", "10 parsecs", "1.2.3"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_parser_panic(text in ".{0,24}") {
            let _ = parse_count(&text);
            let _ = parse_duration(&text);
            let _ = text.parse::<IdRange>();
        }

        #[test]
        fn a_printed_range_parses_to_itself(start in 0..u64::MAX - 1, more in 1..1_000_000_u64) {
            let range = IdRange { start, end: start.saturating_add(more) };
            prop_assert_eq!(range.to_string().parse(), Ok(range));
        }
    }
}
