//! Numbers, spans and instants as header fields write them. `fields` calls it.
//!
//! It must not guess what a field means beyond the size of its number: fields that break their
//! standard are not read.

use std::time::Duration;

use crate::crawl::date;
use crate::crawl::header_fields::HeaderFields;

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
pub(super) struct Now<'a> {
    headers: HeaderFields<'a>,
    received: Duration,
}

impl<'a> Now<'a> {
    pub(super) const fn new(headers: HeaderFields<'a>, received: Duration) -> Self {
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

/// `Retry-After`: seconds, or a date. One that is too long to be believed is cut: a target that
/// asks for a century wants no request now.
pub(super) fn delay(value: &[u8], now: Now<'_>) -> Option<Duration> {
    let too_long = |piece: &[u8]| is_digits(piece).then_some(LONGEST);
    let numeric = longest(value, |piece| seconds(piece).or_else(|| too_long(piece)));
    numeric
        .or_else(|| date(value).map(|instant| now.until(instant)))
        .map(|delay| delay.min(LONGEST))
}

/// A reset: seconds from now, seconds or milliseconds since 1970 (told apart by their size), or a
/// date.
///
/// Milliseconds from now look like seconds. They are read as seconds: if that is wrong, the crawl
/// waits too long, not too briefly.
pub(super) fn reset(value: &[u8], now: Now<'_>) -> Option<Duration> {
    let numeric = longest(value, |piece| {
        let number = seconds(piece)?;
        Some(match number.as_secs() {
            EPOCH_MS_FROM.. => now.until(Duration::from_millis(number.as_secs())),
            EPOCH_S_FROM.. => now.until(number),
            _ => number,
        })
    });
    numeric
        .or_else(|| date(value).map(|instant| now.until(instant)))
        .filter(is_plausible)
}

/// A span of whole or decimal seconds.
pub(super) fn span(value: &[u8]) -> Option<Duration> {
    longest(value, seconds).filter(is_plausible)
}

/// True if a span is short enough to be meant.
pub(super) fn is_plausible(span: &Duration) -> bool {
    *span <= LONGEST
}

/// A count; of a list of counts, as several policies in one line, the lowest. What follows a
/// semicolon describes it.
pub(super) fn count(value: &[u8]) -> Option<u64> {
    let mut lowest = None;
    for piece in value.split(|&byte| byte == b',') {
        let (number, description) = match piece.iter().position(|&byte| byte == b';') {
            Some(at) => (&piece[..at], &piece[at + 1..]),
            None => (piece, [].as_slice()),
        };
        let number = whole(number.trim_ascii()).filter(|_| description.is_ascii())?;
        lowest = Some(lowest.map_or(number, |lowest: u64| lowest.min(number)));
    }
    lowest
}

/// The longest of the spans in a list, as a proxy joins lines; none if any is not one.
fn longest(value: &[u8], read: impl Fn(&[u8]) -> Option<Duration>) -> Option<Duration> {
    let mut longest = None;
    for piece in value.split(|&byte| byte == b',') {
        longest = longest.max(Some(read(piece.trim_ascii())?));
    }
    longest
}

/// Digits, and perhaps a decimal fraction, rounded up to the nanosecond.
fn seconds(value: &[u8]) -> Option<Duration> {
    const PLACES: usize = 9;
    let Some(point) = value.iter().position(|&byte| byte == b'.') else {
        return whole(value).map(Duration::from_secs);
    };
    let (integer, fraction) = (whole(&value[..point])?, &value[point + 1..]);
    if fraction.is_empty() || !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().chain(std::iter::repeat(&b'0')).take(PLACES);
    let nanos = digits.fold(0, |nanos, digit| nanos * 10 + u64::from(digit - b'0'));
    let beyond = fraction.iter().skip(PLACES).any(|&digit| digit != b'0');
    Duration::from_secs(integer).checked_add(Duration::from_nanos(nanos + u64::from(beyond)))
}

/// Digits and nothing else: no sign, no exponent.
fn whole(value: &[u8]) -> Option<u64> {
    if is_digits(value) {
        std::str::from_utf8(value).ok()?.parse().ok()
    } else {
        None
    }
}

fn is_digits(value: &[u8]) -> bool {
    !value.is_empty() && value.iter().all(u8::is_ascii_digit)
}

/// A date in UTC, under any of its names, as time since 1970. One in another zone would be hours
/// off: it is not read.
fn date(value: &[u8]) -> Option<Duration> {
    const UTC: [&[u8]; 4] = [b"GMT", b"UTC", b"UT", b"Z"];
    let is_utc = match value.trim_ascii().rsplit(|byte| *byte == b' ').next()? {
        [b'+' | b'-', offset @ ..] => offset.iter().all(|digit| *digit == b'0'),
        // The year or the time: no zone is named.
        [b'0'..=b'9', ..] => true,
        name => UTC.iter().any(|utc| name.eq_ignore_ascii_case(utc)),
    };
    let instant = date::seconds(value).filter(|_| is_utc && value.is_ascii())?;
    u64::try_from(instant).ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use httparse::Header;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn seconds_are_digits_with_at_most_a_fraction() {
        for (text, expected) in [
            ("0", Some(Duration::ZERO)),
            ("007", Some(Duration::from_secs(7))),
            ("1.000", Some(Duration::from_secs(1))),
            ("0.5", Some(Duration::from_millis(500))),
            ("0.0000000001", Some(Duration::from_nanos(1))),
            ("1.9999999999", Some(Duration::from_secs(2))),
            ("18446744073709551615.9999999999", None),
            ("18446744073709551616", None),
            ("", None),
            (".5", None),
            ("5.", None),
            ("-1", None),
            ("+1", None),
            ("1e3", None),
            ("NaN", None),
            ("0x10", None),
            ("1.2.3", None),
            ("٣", None),
        ] {
            assert_eq!(seconds(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn lists_come_to_the_patient_reading() {
        let now = Now::new(HeaderFields::new(&[]), Duration::ZERO);
        assert_eq!(delay(b"5, 120", now), Some(Duration::from_mins(2)));
        assert_eq!(delay(b"5, soon", now), None);
        for long in [
            &b"31622401"[..],
            b"4000000000",
            b"99999999999999999999999",
            b"5, 99999999999999999999999",
        ] {
            assert_eq!(delay(long, now), Some(LONGEST));
        }
        assert_eq!(delay(b"Fri, 31 Dec 9999 23:59:59 GMT", now), Some(LONGEST));
        assert_eq!(count(b"100, 100;window=60, 10000;window=86400"), Some(100));
        for garbage in [b"3,".as_slice(), b"3;\xe9", b"3 4", b"", b";w=1"] {
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
            "Tue, 14 Nov 2023 22:14:20 UTC",
            "Tue, 14 Nov 2023 22:14:20 +0000",
            "Tue, 14 Nov 2023 22:14:20 -0000",
            "14 Nov 2023 22:14:20 z",
            "Tue, 14-Nov-23 22:14:20",
            "Tue Nov 14 22:14:20 2023",
        ] {
            assert_eq!(at(text, &[]), minute, "{text}");
        }
        for zone in ["+0100", "-0500", "EST", "CET"] {
            assert_eq!(
                at(&format!("Tue, 14 Nov 2023 22:14:20 {zone}"), &[]),
                None,
                "{zone}"
            );
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

        #[test]
        fn a_decimal_is_never_read_too_short(whole in 0..1_000_000_u64, fraction in "[0-9]{1,20}") {
            let text = format!("{whole}.{fraction}");
            let read = seconds(text.as_bytes()).unwrap();
            prop_assert!(read >= Duration::from_secs(whole) && read <= Duration::from_secs(whole + 1));
            prop_assert!((read.as_secs_f64() - text.parse::<f64>().unwrap()).abs() < 1e-6);
        }
    }
}
