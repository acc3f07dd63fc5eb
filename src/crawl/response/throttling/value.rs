//! Numbers, spans and instants as header fields write them. `fields` calls it.
//!
//! It must not guess what a field means beyond the size of its number: fields that break their
//! standard are not read.

use std::time::{Duration, UNIX_EPOCH};

use jiff::{Span, SpanRelativeTo, Unit};

use crate::crawl::response::{date, fields::HeaderFields};

/// The longest span that is believed. No quota is counted over more than a year; what says so is in
/// the wrong unit, or overflowed, and is not read. `Retry-After` has one unit only, and is cut to
/// this.
const LONGEST: Duration = Duration::from_hours(24 * 366);

/// A number from here on is no span of seconds (of 31 years) but seconds since 1970, as of GitHub.
const EPOCH_S_FROM: u64 = 1_000_000_000;
/// From here on it is milliseconds since 1970.
const EPOCH_MS_FROM: u64 = 1_000_000_000_000;

/// The answer's time since 1970, worked out only when it is needed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Now<'a> {
    headers: HeaderFields<'a>,
    received: Duration,
}

impl<'a> Now<'a> {
    pub(crate) const fn new(headers: HeaderFields<'a>, received: Duration) -> Self {
        Self { headers, received }
    }

    /// Return the time until an instant; zero once it has passed.
    ///
    /// It is held against the answer's own date, and so by one clock. That date is rounded down, so
    /// the span is never too short; of several dates the earliest counts, for the same reason.
    fn until(self, instant: Duration) -> Duration {
        let own = self.headers.all("date").filter_map(date).min();
        instant.saturating_sub(own.unwrap_or(self.received))
    }
}

/// `Retry-After`: seconds, or a date; of some targets a duration with units, or several delays, of
/// which the longest holds. What follows a semicolon describes it. One that is too long to be believed is cut: a target that asks for a
/// century wants no request now.
pub(crate) fn delay(value: &[u8], now: Now<'_>) -> Option<Duration> {
    let value = unquoted(value);
    let one = |value: &[u8]| {
        let value = value.split(|byte| *byte == b';').next()?;
        let value = unquoted(value.trim_ascii());
        seconds(value)
            .or_else(|| is_digits(value).then_some(LONGEST))
            .or_else(|| duration(value))
    };
    let several = || {
        let all = value.split(|byte| *byte == b',');
        let all: Option<Vec<_>> = all.map(one).collect();
        all?.into_iter().max()
    };
    let value = value.trim_ascii();
    let delay = several().or_else(|| date(value).map(|instant| now.until(instant)));
    delay.map(|delay| delay.min(LONGEST))
}

/// A value without the quotes around it.
fn unquoted(value: &[u8]) -> &[u8] {
    let inner = value.strip_prefix(b"\"");
    inner
        .and_then(|inner| inner.strip_suffix(b"\""))
        .unwrap_or(value)
}

/// The same in milliseconds.
pub(crate) fn delay_ms(value: &[u8], _: Now<'_>) -> Option<Duration> {
    let ms = seconds(value).or_else(|| is_digits(value).then_some(LONGEST * 1_000));
    ms.map(|ms| (ms / 1_000).min(LONGEST))
}

/// A reset: seconds from now, seconds or milliseconds since 1970 (told apart by their size), a date,
/// or a duration with units (`6m0s`).
///
/// Milliseconds from now look like seconds. They are read as seconds: if that is wrong, the crawl
/// waits too long, not too briefly.
pub(crate) fn reset(value: &[u8], now: Now<'_>) -> Option<Duration> {
    let span = match seconds(value) {
        Some(number) if number.as_secs() >= EPOCH_MS_FROM => {
            now.until(Duration::from_millis(number.as_secs()))
        }
        Some(number) if number.as_secs() >= EPOCH_S_FROM => now.until(number),
        Some(number) => number,
        None => match duration(value) {
            Some(span) => span,
            None => now.until(date(value)?),
        },
    };
    Some(span).filter(is_plausible)
}

/// A span of whole or decimal seconds.
pub(crate) fn span(value: &[u8]) -> Option<Duration> {
    seconds(value).filter(is_plausible)
}

/// True if a span is short enough to be meant.
pub(crate) fn is_plausible(span: &Duration) -> bool {
    *span <= LONGEST
}

/// A count; of a list of counts, as several policies in one line, the lowest. What follows a
/// semicolon describes it.
pub(crate) fn count(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?;
    text.split(',')
        .map(|piece| {
            let number = piece.split(';').next().unwrap_or_default().trim();
            number.parse().ok().filter(|_| is_digits(number.as_bytes()))
        })
        .collect::<Option<Vec<u64>>>()?
        .into_iter()
        .min()
}

/// Digits, and perhaps a decimal fraction: no sign, no exponent.
fn seconds(value: &[u8]) -> Option<Duration> {
    let is_decimal = value.split(|byte| *byte == b'.').all(is_digits);
    let text = std::str::from_utf8(value).ok().filter(|_| is_decimal)?;
    Duration::try_from_secs_f64(text.parse().ok()?).ok()
}

/// A duration with units, as of Go (`1h2m3.5s`) and of ISO 8601 (`PT30S`).
fn duration(value: &[u8]) -> Option<Duration> {
    let span: Span = std::str::from_utf8(value).ok()?.parse().ok()?;
    let seconds = span.total((Unit::Second, SpanRelativeTo::days_are_24_hours()));
    Duration::try_from_secs_f64(seconds.ok()?).ok()
}

fn is_digits(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

/// A date in UTC, as time since 1970.
fn date(value: &[u8]) -> Option<Duration> {
    const UTC: [&[u8]; 4] = [b"GMT", b"UTC", b"UT", b"Z"];
    let text = std::str::from_utf8(value).ok();
    // RFC 3339, as of Anthropic.
    if let Some(Ok(instant)) = text.map(str::parse::<jiff::Timestamp>) {
        return Some(Duration::try_from(instant.as_duration()).unwrap_or_default());
    }
    let is_utc = match value.trim_ascii().rsplit(|byte| *byte == b' ').next()? {
        [b'+' | b'-', offset @ ..] => offset.iter().all(|digit| *digit == b'0'),
        // The year or the time: no zone is named.
        [b'0'..=b'9', ..] => true,
        name => UTC.iter().any(|utc| name.eq_ignore_ascii_case(utc)),
    };
    date::time(value)
        .filter(|_| is_utc && value.is_ascii())?
        .duration_since(UNIX_EPOCH)
        .ok()
}

#[cfg(test)]
mod tests {
    use httparse::Header;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_digits_with_at_most_a_fraction() {
        let now = Now::new(HeaderFields::new(&[]), Duration::ZERO);
        for (text, expected) in [
            ("0", Some(0)),
            ("007", Some(7_000)),
            ("0.5", Some(500)),
            ("31622401", Some(31_622_400_000)),
            ("99999999999999999999999", Some(31_622_400_000)),
            ("90s", Some(90_000)),
            ("1d", Some(86_400_000)),
            ("\"30\"", Some(30_000)),
            ("30, 60", Some(60_000)),
            ("30;x=1", Some(30_000)),
            ("\"30\"; x=1, 60", Some(60_000)),
            ("PT30S", Some(30_000)),
            ("PT1H2M3.5S", Some(3_723_500)),
            ("P1DT1S", Some(86_401_000)),
            ("1h2m3.5s", Some(3_723_500)),
            ("120ms", Some(120)),
            ("6m0s", Some(360_000)),
            ("P1M", None),
            ("-PT30S", None),
            ("30;", Some(30_000)),
            (";30", None),
            ("30, x", None),
            ("Fri, 31 Dec 9999 23:59:59 GMT", Some(31_622_400_000)),
            ("", None),
            (".5", None),
            ("5.", None),
            ("-1", None),
            ("1e3", None),
            ("NaN", None),
            ("1.2.3", None),
            ("٣", None),
            ("5, soon", None),
        ] {
            let read = delay(text.as_bytes(), now).map(|span| span.as_millis());
            assert_eq!(read, expected, "{text:?}");
        }
        assert_eq!(count(b"100, 100;window=60, 10000;window=86400"), Some(100));
        for garbage in [b"3,".as_slice(), b"3;\xe9", b"3 4", b"", b";w=1", b"+3"] {
            assert_eq!(count(garbage), None, "{garbage:?}");
        }
    }

    #[test]
    fn a_number_is_a_span_or_an_instant_by_its_size() {
        let received = Duration::from_secs(1_700_000_000);
        let at = |value: &str, dates: &[&str]| {
            let dates: Vec<_> = dates
                .iter()
                .map(|date| Header {
                    name: "Date",
                    value: date.as_bytes(),
                })
                .collect();
            reset(
                value.as_bytes(),
                Now::new(HeaderFields::new(&dates), received),
            )
        };
        let minute = Some(Duration::from_mins(1));
        for text in [
            "60",
            "60.0",
            "1700000060",
            "1700000060.0",
            "1700000060000",
            "Tue, 14 Nov 2023 22:14:20 GMT",
        ] {
            assert_eq!(at(text, &[]), minute, "{text}");
        }
        assert_eq!(at("1699999999", &[]), Some(Duration::ZERO));
        assert_eq!(at("999999999", &[]), None);
        assert_eq!(at("99999999999", &[]), None);
        // The answer's own date counts, and of two the earlier one.
        let own = "Tue, 14 Nov 2023 22:14:10 GMT";
        assert_eq!(at("1700000060", &[own]), Some(Duration::from_secs(10)));
        let several = [
            own,
            "Tue, 14 Nov 2023 22:14:00 GMT",
            "Tue, 14 Nov 2023 22:14:19 GMT",
            "yesterday",
        ];
        assert_eq!(at("1700000060", &several), Some(Duration::from_secs(20)));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(value: Vec<u8>, received: u64) {
            let now = Now::new(HeaderFields::new(&[]), Duration::from_secs(received));
            for span in [delay(&value, now), reset(&value, now), span(&value)].into_iter().flatten() {
                prop_assert!(span <= LONGEST);
            }
            count(&value);
        }
    }
}
