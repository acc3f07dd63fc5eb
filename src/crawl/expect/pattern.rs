//! A regular expression that bodies are searched by.
//!
//! It must not know where a body comes from, nor how much of it was kept.

use std::fmt;

use regex::bytes::Regex;

/// A regular expression over bytes, in the syntax of the crate `regex`. Two are the same when they
/// are written the same.
#[derive(Debug, Clone)]
pub struct BodyRegex(Regex);

impl BodyRegex {
    /// Reads a pattern, or says in one line what is wrong with it.
    pub(super) fn read(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            // It would be found everywhere.
            return Err(
                "it is empty: write what is to be found, as in `regex:\"id\":\\d+`".to_owned(),
            );
        }
        Regex::new(text).map(Self).map_err(|error| {
            let said = error.to_string();
            // The lines before the last repeat the pattern and point at the place.
            let last = said.lines().last().unwrap_or_default();
            last.strip_prefix("error: ").unwrap_or(last).to_owned()
        })
    }

    /// True if it is found anywhere in `body`.
    pub(super) fn is_in(&self, body: &[u8]) -> bool {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_searched_as_well() {
        let found = |pattern: &str, body: &[u8]| BodyRegex::read(pattern).unwrap().is_in(body);
        assert!(found("\"id\":\\d+", b"\xff\xfe{\"id\":42}\xff"));
        assert!(!found("\"id\":\\d+", b"{\"id\":\"x\"}"));
        assert!(found("^$", b""));
        assert!(found("(?-u)\\xff", b"a\xff"));
        assert!(found("(?i)STRASSE", b"strasse"));
        assert!(!found("a.b", b"a\nb"));
    }

    #[test]
    fn a_pattern_too_large_to_use_is_refused() {
        let error = BodyRegex::read("\\w{1000}{1000}").unwrap_err();
        assert!(error.contains("exceeds size limit"), "{error}");
    }
}
