//! Durations on the command line and back, for `latency` and `limit`.
//!
//! It must not decide which durations make sense; its callers do.

use std::time::Duration;

/// Reads `20ms`, `1s500ms`, `2m`, `1h`; a bare whole number means seconds.
pub(crate) fn parse(text: &str) -> Result<Duration, humantime::DurationError> {
    let text = text.trim();
    match text.parse() {
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => humantime::parse_duration(text),
    }
}

/// Writes what [`parse`] reads, without the spaces that a shell would split at.
pub(crate) fn text(duration: Duration) -> String {
    humantime::format_duration(duration).to_string().replace(' ', "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn units_and_bare_seconds_are_read() {
        for (given, expected) in [
            ("20ms", Duration::from_millis(20)),
            ("2", Duration::from_secs(2)),
            ("250us", Duration::from_micros(250)),
            ("1s500ms", Duration::from_millis(1500)),
            ("1h", Duration::from_hours(1)),
        ] {
            assert_eq!(parse(given), Ok(expected), "{given}");
        }
        for given in ["", "ms", "20 parsecs", "-1s", "1e3"] {
            assert!(parse(given).is_err(), "{given}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(nanos in 0_u64..10_000_000_000_000) {
            let duration = Duration::from_nanos(nanos);
            prop_assert_eq!(parse(&text(duration)), Ok(duration));
        }
    }
}
