//! Settings as text: the error of an invalid one, and values that several settings share, such as
//! durations and choices. All options of the target are parsed and formatted with this.

use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use std::time::Duration;

/// Base64 as lenient as Java's: clients disagree on padding.
pub(crate) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Reason why a setting was refused: a sentence of its own, with what was given and what to write
/// instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SettingError(String);

impl SettingError {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }
}

/// Parse `20ms`, `1s500ms`, `2m`, `1h`; a bare whole number means seconds.
pub(crate) fn parse_duration(text: &str) -> Option<Duration> {
    let text = text.trim();
    text.parse()
        .map(Duration::from_secs)
        .ok()
        .or_else(|| humantime::parse_duration(text).ok())
}

/// Format a duration as [`parse_duration`] reads it, without the spaces that a shell would split
/// at.
pub(crate) fn duration_text(duration: Duration) -> String {
    humantime::format_duration(duration)
        .to_string()
        .replace(' ', "")
}

/// Return the value of one of the words in `known`.
pub(crate) fn choice<T: Copy>(
    option: &str,
    known: &[(&str, T)],
    given: &str,
) -> Result<T, SettingError> {
    let found = known
        .iter()
        .find(|(word, _)| *word == given)
        .map(|(_, value)| *value);
    found.ok_or_else(|| {
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let (last, others) = words.split_last().unwrap_or((&"", &[]));
        SettingError(format!(
            "`{given}` is not a valid choice for {option}: write {} or {last}",
            others.join(", ")
        ))
    })
}

/// Return the word for a value in `known`.
pub(crate) fn word<'k, T: PartialEq>(known: &[(&'k str, T)], value: &T) -> &'k str {
    known
        .iter()
        .find(|(_, other)| other == value)
        .map_or("", |(word, _)| word)
}
