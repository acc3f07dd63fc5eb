//! Small texts that set the behaviour of the target, on the command line and in stubs:
//! `lognormal:20ms,0.4`, `10/s:burst=5`, `error:0.01:503`.
//!
//! Each is a name with parts behind it. What cannot be read has one form of error: what was read,
//! what it should be, and an example.

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::time::Duration;

/// Reads base64 as the JDK's decoder does: with padding or without, and with whatever bits are left
/// over at the end.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Longest hold. A delay of more than an hour is taken for a typing error.
pub const MAX_HOLD: Duration = Duration::from_hours(1);

/// Reason why a setting is refused: the text that was read, and what it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not a valid {what}: {why}")]
pub struct SettingError {
    given: String,
    what: &'static str,
    why: String,
}

impl SettingError {
    pub(crate) fn new(
        given: &(impl ToString + ?Sized),
        what: &'static str,
        right: impl Into<String>,
    ) -> Self {
        Self {
            given: given.to_string(),
            what,
            why: format!("write {}", right.into()),
        }
    }

    /// Reject a text for the reason that its reader had.
    pub(crate) fn because(given: &str, what: &'static str, why: &impl ToString) -> Self {
        Self {
            given: given.to_owned(),
            what,
            why: why.to_string(),
        }
    }
}

/// Implements `FromStr` by a function `read` of the type, which returns nothing for a text that is
/// wrong.
macro_rules! from_text {
    ($type:ty, $what:literal, $right:expr) => {
        impl std::str::FromStr for $type {
            type Err = $crate::text::SettingError;

            fn from_str(given: &str) -> Result<Self, Self::Err> {
                Self::read(given.trim())
                    .ok_or_else(|| $crate::text::SettingError::new(given, $what, $right))
            }
        }
    };
}
pub(crate) use from_text;

/// Words, and what each stands for.
pub(crate) type Words<T> = [(&'static str, T)];

/// Return what a word stands for.
pub(crate) fn meaning<T: Copy>(words: &Words<T>, given: &str) -> Option<T> {
    words
        .iter()
        .find(|(word, _)| *word == given)
        .map(|(_, value)| *value)
}

/// Return the word for a value.
pub(crate) fn word<T: PartialEq>(words: &Words<T>, value: &T) -> &'static str {
    words
        .iter()
        .find(|(_, other)| other == value)
        .map_or("", |(word, _)| word)
}

/// List words, for the error that asks for one of them.
pub(crate) fn list<T>(words: &Words<T>) -> String {
    let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

/// Read a duration: whole seconds, or a number with a unit.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    text.parse()
        .map(Duration::from_secs)
        .ok()
        .or_else(|| humantime::parse_duration(text).ok())
}

/// Read a time for which a response is held: up to an hour. It needs a unit, for people who mean
/// milliseconds leave it out.
pub(crate) fn hold(text: &str) -> Option<Duration> {
    let is_bare = text.ends_with(|last: char| last.is_ascii_digit());
    duration(text).filter(|hold| *hold <= MAX_HOLD && (hold.is_zero() || !is_bare))
}

/// Read a share of requests, from 0 to 1.
pub(crate) fn share(text: &str) -> Option<f64> {
    let share = text.trim().parse().ok()?;
    (0.0..=1.0).contains(&share).then_some(share)
}

/// Format a duration as [`duration`] reads it, without the spaces that a shell would split at.
pub(crate) fn duration_text(duration: Duration) -> String {
    humantime::format_duration(duration)
        .to_string()
        .replace(' ', "")
}
