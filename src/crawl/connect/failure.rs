//! Failures of TLS, a proxy or dialing, which have a kind of their own. They pass as an [`io::Error`]
//! through layers that know nothing of it; [`failure_of`] recovers the kind.

use std::io;

use crawlmark_harness::sample::ErrorKind;

/// Most characters of details: the target chooses the names of its certificate.
const MOST_DETAILS: usize = 200;

/// A failure with a kind of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{details}")]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) details: String,
}

impl Failure {
    /// Create a failure. Control characters in its details are replaced, and the rest is cut to a
    /// bounded length.
    pub(crate) fn new(kind: ErrorKind, details: &str) -> Self {
        let shown = details
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .take(MOST_DETAILS);
        Self {
            kind,
            details: shown.collect(),
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::new(io::ErrorKind::InvalidData, failure)
    }
}

/// Return the [`Failure`] that an error is.
pub(crate) fn failure_of(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_bounded_and_printable() {
        let failure = Failure::new(
            ErrorKind::TlsWrongName,
            &("\u{1b}[2J".to_owned() + &"x".repeat(10_000)),
        );
        assert_eq!(failure.details.chars().count(), MOST_DETAILS);
        assert!(!failure.details.contains('\u{1b}'), "{}", failure.details);
    }
}
