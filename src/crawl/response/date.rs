//! Dates of header fields.

use std::time::{Duration, SystemTime};

use jiff::civil::{DateTime, datetime};

const EPOCH: DateTime = datetime(1970, 1, 1, 0, 0, 0, 0);

/// Parse a date by the rules of cookies (RFC 6265, 5.1.1), which read all that servers write: the
/// three formats of HTTP, hyphens, years of two digits, and any name of the zone, which is taken
/// for UTC. A date before 1970 has passed as 1970 has.
pub(crate) fn time(text: &[u8]) -> Option<SystemTime> {
    let since_epoch = u64::try_from(seconds(text)?).unwrap_or(0);
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(since_epoch))
}

const fn is_delimiter(byte: u8) -> bool {
    matches!(byte, 0x09 | 0x20..=0x2f | 0x3b..=0x40 | 0x5b..=0x60 | 0x7b..=0x7e)
}

/// Return seconds since 1970.
fn seconds(text: &[u8]) -> Option<i64> {
    let (mut time, mut day, mut month, mut year) = (None, None, None, None);
    for token in text.split(|byte| is_delimiter(*byte)) {
        let [read_time, read_day] = [time.is_none(), day.is_none()];
        if let Some(read) = time_of_day(token).filter(|_| read_time) {
            time = Some(read);
        } else if let Some(read) = number(token, 1..=2).filter(|_| read_day) {
            day = Some(read);
        } else if let Some(read) = month_of(token).filter(|_| month.is_none()) {
            month = Some(read);
        } else if year.is_none() {
            year = number(token, 2..=4);
        }
    }
    let year = match year? {
        year @ 0..=69 => year + 2000,
        year @ 70..=99 => year + 1900,
        year => year,
    };
    let ([hour, minute, second], day) = (time?, i8::try_from(day?).ok()?);
    let date = DateTime::new(year, month?, day, hour, minute, second, 0)
        .ok()
        .filter(|_| year >= 1601)?;
    Some(date.duration_since(EPOCH).as_secs())
}

/// The digits that a token begins with, if they are so many.
fn number(token: &[u8], digits: std::ops::RangeInclusive<usize>) -> Option<i16> {
    let count = token
        .iter()
        .take_while(|byte| byte.is_ascii_digit())
        .count();
    digits.contains(&count).then(|| {
        token[..count]
            .iter()
            .fold(0, |number, digit| number * 10 + i16::from(digit - b'0'))
    })
}

fn time_of_day(token: &[u8]) -> Option<[i8; 3]> {
    let mut fields = token.splitn(3, |byte| *byte == b':');
    let mut time = [0; 3];
    for (at, part) in time.iter_mut().enumerate() {
        let field = fields.next()?;
        let is_whole = at == 2 || field.iter().all(u8::is_ascii_digit);
        *part = i8::try_from(number(field, 1..=2).filter(|_| is_whole)?).ok()?;
    }
    Some(time)
}

fn month_of(token: &[u8]) -> Option<i8> {
    const MONTHS: &[u8; 36] = b"janfebmaraprmayjunjulaugsepoctnovdec";
    let name = token.first_chunk::<3>()?.to_ascii_lowercase();
    MONTHS
        .as_chunks::<3>()
        .0
        .iter()
        .zip(1..)
        .find(|(month, _)| **month == *name)
        .map(|(_, number)| number)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `YYYY-MM-DD hh:mm:ss` of the date in `text`.
    fn read(text: &str) -> Option<String> {
        let instant = jiff::Timestamp::from_second(seconds(text.as_bytes())?).unwrap();
        Some(instant.strftime("%Y-%m-%d %H:%M:%S").to_string())
    }

    #[test]
    fn dates_are_read_as_the_standard_and_its_test_suite_have_them() {
        for (text, date) in [
            // http-state, tests/data/dates/examples.json.
            ("Wed, 09 Dec 2009 16:27:23 GMT", Some("2009-12-09 16:27:23")),
            ("Mon Dec 10 16:32:30 2007 GMT", Some("2007-12-10 16:32:30")),
            ("Mon, 10-Dec-07 20:35:03 GMT", Some("2007-12-10 20:35:03")),
            (
                "Saturday, 8-Dec-2012 21:24:09 GMT",
                Some("2012-12-08 21:24:09"),
            ),
            ("Sun,  9 Dec 2012 13:42:05 GMT", Some("2012-12-09 13:42:05")),
            ("Mon, 01-Jan-2011 00: 00:00 GMT", None),
            (
                "Wednesday, 01-Jan-10 0:0:00 GMT",
                Some("2010-01-01 00:00:00"),
            ),
            // Bounds of RFC 6265, 5.1.1.
            ("31 DECEMBER 1600 23:59:59", None),
            ("1 Jan 70 00:00:00", Some("1970-01-01 00:00:00")),
            ("29 Feb 2023 00:00:00", None),
            ("32 Jan 2023 00:00:00", None),
            ("0 Jan 2023 00:00:00", None),
            ("1 Jan 2023 24:00:00", None),
            ("1 Jan 2023 00:60:00", None),
            ("1 Jan 2023 00:00:60", None),
            ("1 Jan 12345 00:00:00", None),
            ("1 2023 00:00:00", None),
            ("Jan 2023 00:00:00", None),
            ("1 Jan 00:00:00", None),
            ("1 Jan 2023", None),
            ("1 Jan 2023 00:00", None),
            ("2023-01-01T00:00:00Z", None),
            ("60", None),
            ("", None),
        ] {
            assert_eq!(read(text).as_deref(), date, "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_time_in_any_format_is_read_as_itself(second in 0..253_402_207_200_i64) {
            let instant = jiff::Timestamp::from_second(second).unwrap();
            for format in [
                "%a, %d %b %Y %H:%M:%S GMT",
                "%a, %d %b %Y %H:%M:%S UTC",
                "%a, %d %b %Y %H:%M:%S +0000",
                "%a, %d %b %Y %H:%M:%S -0000",
                "%a, %-d %b %Y %H:%M:%S GMT",
                "%a, %d-%b-%Y %H:%M:%S GMT",
                "%d %B %Y %H:%M:%S",
                "%a %b %e %H:%M:%S %Y",
                "%a %b %d %Y %H:%M:%S GMT+0000 (UTC)",
            ] {
                prop_assert_eq!(seconds(instant.strftime(format).to_string().as_bytes()), Some(second), "{}", format);
            }
            if (0..3_155_760_000).contains(&second) {
                let short = instant.strftime("%A, %d-%b-%y %H:%M:%S GMT").to_string();
                prop_assert_eq!(seconds(short.as_bytes()), Some(second), "{}", short);
            }
        }

        #[test]
        fn no_bytes_are_too_strange(bytes: Vec<u8>, text in "[0-9: a-zA-Z-]{0,30}") {
            let _ = (seconds(&bytes), seconds(text.as_bytes()));
        }
    }
}
