//! The helper `now`: a time, moved by an offset, in a zone, in a format of Java's
//! `SimpleDateFormat`.
//!
//! The time is handed in. Formats are checked when a stub is loaded. Without a time zone it is UTC;
//! WireMock takes its machine's for formats of one's own. Names are English.

use super::Failed;
use super::{malformed, unsupported};
use crate::stubs::node::ValueProblem;
use jiff::civil::Weekday;
use jiff::tz::{self, TimeZone};
use jiff::{Span, Timestamp, Zoned};
use std::fmt::Write;
use std::time::SystemTime;

/// A compiled `now`.
#[derive(Clone, Debug)]
pub(super) struct CompiledNow {
    offset: Span,
    zone: TimeZone,
    format: DateFormat,
}

#[derive(Clone, Debug)]
enum DateFormat {
    /// Milliseconds since 1970.
    EpochMs,
    /// Seconds since 1970.
    EpochSeconds,
    /// ISO 8601 to the second.
    Iso,
    Custom(Vec<PatternPart>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum PatternPart {
    Text(String),
    /// A letter of the pattern and how often it stands there.
    Letter(char, usize),
}

impl CompiledNow {
    /// Compiles the three arguments of `now`.
    pub(super) fn compile(
        format: Option<&str>,
        offset: Option<&str>,
        timezone: Option<&str>,
    ) -> Result<Self, ValueProblem> {
        let format = match format {
            None => DateFormat::Iso,
            Some("epoch") => DateFormat::EpochMs,
            Some("unix") => DateFormat::EpochSeconds,
            Some(pattern) => DateFormat::Custom(pattern_parts(pattern)?),
        };
        Ok(Self {
            offset: offset.map_or(Ok(Span::new()), span)?,
            zone: timezone.map_or(Ok(TimeZone::UTC), zone)?,
            format,
        })
    }

    /// The time as a text.
    pub(super) fn text(&self, now: SystemTime) -> Result<String, Failed> {
        let beyond = |_| Failed("now is beyond the years -9999 to 9999".to_owned());
        let now = Timestamp::try_from(now).map_err(beyond)?;
        // Days, months and years are those of UTC, in whatever zone they are written.
        let moved = now
            .to_zoned(TimeZone::UTC)
            .checked_add(self.offset)
            .map_err(beyond)?;
        let at = moved.with_time_zone(self.zone.clone());
        Ok(match &self.format {
            DateFormat::EpochMs => at.timestamp().as_millisecond().to_string(),
            DateFormat::EpochSeconds => at.timestamp().as_second().to_string(),
            DateFormat::Iso => format!(
                "{}{}",
                at.strftime("%Y-%m-%dT%H:%M:%S"),
                offset_text(&at, "Z", ":")
            ),
            DateFormat::Custom(parts) => {
                let mut out = String::new();
                for part in parts {
                    match part {
                        PatternPart::Text(text) => out.push_str(text),
                        PatternPart::Letter(letter, count) => {
                            write_letter(&at, *letter, *count, &mut out);
                        }
                    }
                }
                out
            }
        })
    }
}

/// `3 days`, `-3 days`, `now +3 days`, `now`.
fn span(text: &str) -> Result<Span, ValueProblem> {
    let wrong = || {
        ValueProblem::Malformed(format!(
            "`{text}` is not a valid offset of now: write 3 days, -3 days or now +3 days"
        ))
    };
    if text.eq_ignore_ascii_case("now") {
        return Ok(Span::new());
    }
    let parts: Vec<&str> = text.split(' ').collect();
    let (amount, unit) = match parts.as_slice() {
        [amount, unit] | [_, amount, unit] => (amount.parse::<i32>().map_err(|_| wrong())?, *unit),
        _ => return Err(wrong()),
    };
    let none = Span::new();
    let span = match unit.to_ascii_lowercase().as_str() {
        "seconds" => none.try_seconds(amount),
        "minutes" => none.try_minutes(amount),
        "hours" => none.try_hours(amount),
        "days" => none.try_days(amount),
        "months" => none.try_months(amount),
        "years" => none.try_years(amount),
        _ => return Err(wrong()),
    };
    span.map_err(|_| wrong())
}

/// A zone's name, or a fixed offset: `Z`, `+02:00`, `UTC+2`.
fn zone(name: &str) -> Result<TimeZone, ValueProblem> {
    let fixed = ["UTC", "GMT", "UT"]
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name);
    if matches!(fixed, "" | "Z") && !name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    let found = if fixed.starts_with(['+', '-']) {
        fixed_offset(fixed).map(TimeZone::fixed)
    } else {
        tz::db().get(name).ok()
    };
    found.ok_or_else(|| {
        ValueProblem::Malformed(format!(
            "`{name}` is not a valid time zone: write Europe/Berlin, UTC or +02:00"
        ))
    })
}

/// `+2`, `+02`, `+02:00`, `+0200`, up to 18 hours either way.
fn fixed_offset(text: &str) -> Option<tz::Offset> {
    let (sign, digits) = (if text.starts_with('-') { -1 } else { 1 }, text.get(1..)?);
    if !digits
        .bytes()
        .all(|byte| byte.is_ascii_digit() || byte == b':')
    {
        return None;
    }
    let (hours, minutes) = match (digits.split_once(':'), digits.len()) {
        (Some((hours, minutes)), 5) => (hours, minutes),
        (None, 1 | 2) => (digits, "0"),
        (None, 4) => digits.split_at(2),
        _ => return None,
    };
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let seconds = (hours * 60 + minutes) * 60;
    (minutes < 60 && seconds <= 18 * 3600)
        .then(|| tz::Offset::from_seconds(sign * seconds).ok())
        .flatten()
}

/// Letters of `SimpleDateFormat` that are served.
const LETTERS: &str = "yMLdDEuaHkKhmsSZX";
/// Letters that it has and that are not.
const OTHER_LETTERS: &str = "GYwWFz";

fn pattern_parts(pattern: &str) -> Result<Vec<PatternPart>, ValueProblem> {
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = pattern;
    while let Some(char) = rest.chars().next() {
        let (count, after) = match char {
            '\'' => quoted(rest, &mut text)?,
            'a'..='z' | 'A'..='Z' => {
                let count = rest.chars().take_while(|next| *next == char).count();
                check_letter(char, count, pattern)?;
                if !text.is_empty() {
                    parts.push(PatternPart::Text(std::mem::take(&mut text)));
                }
                parts.push(PatternPart::Letter(char, count));
                (count, &rest[count..])
            }
            other => {
                text.push(other);
                (1, &rest[other.len_utf8()..])
            }
        };
        debug_assert!(count > 0, "a pattern gets shorter");
        rest = after;
    }
    if !text.is_empty() {
        parts.push(PatternPart::Text(text));
    }
    Ok(parts)
}

/// A text in quotes at the front of `rest`; two quotes are one, inside and outside.
fn quoted<'p>(rest: &'p str, text: &mut String) -> Result<(usize, &'p str), ValueProblem> {
    let mut inside = &rest[1..];
    if let Some(after) = inside.strip_prefix('\'') {
        text.push('\'');
        return Ok((2, after));
    }
    loop {
        let Some((quoted, after)) = inside.split_once('\'') else {
            return malformed(format!(
                "a quote in the format of a date is not closed: `{rest}`"
            ));
        };
        text.push_str(quoted);
        match after.strip_prefix('\'') {
            Some(after) => {
                text.push('\'');
                inside = after;
            }
            None => return Ok((rest.len() - after.len(), after)),
        }
    }
}

fn check_letter(letter: char, count: usize, pattern: &str) -> Result<(), ValueProblem> {
    // Wider fields are a mistake, and would be padded to whatever width.
    const WIDEST: usize = 32;
    if count > WIDEST
        || (letter == 'X' && count > 3)
        || !(LETTERS.contains(letter) || OTHER_LETTERS.contains(letter))
    {
        return malformed(format!(
            "the format of a date `{pattern}` has no {}",
            letter.to_string().repeat(count.min(WIDEST))
        ));
    }
    if OTHER_LETTERS.contains(letter) {
        return unsupported(format!("the letter {letter} in the format of a date"));
    }
    Ok(())
}

fn write_letter(at: &Zoned, letter: char, count: usize, out: &mut String) {
    let name = |short, long| {
        at.strftime(if count >= 4 { long } else { short })
            .to_string()
    };
    let number = match letter {
        'M' | 'L' if count >= 3 => return out.push_str(&name("%b", "%B")),
        'E' => return out.push_str(&name("%a", "%A")),
        'a' => return out.push_str(if at.hour() < 12 { "AM" } else { "PM" }),
        'Z' => return out.push_str(&offset_text(at, "+0000", "")),
        'X' if count == 1 => return out.extend(offset_text(at, "Z", ":").split(':').take(1)),
        'X' => return out.push_str(&offset_text(at, "Z", if count == 2 { "" } else { ":" })),
        'y' if count == 2 => i64::from(at.year().rem_euclid(100)),
        'y' => i64::from(at.year()),
        'M' | 'L' => i64::from(at.month()),
        'd' => i64::from(at.day()),
        'D' => i64::from(at.day_of_year()),
        'u' => i64::from(weekday(at.weekday())),
        'H' => i64::from(at.hour()),
        'k' => i64::from(if at.hour() == 0 { 24 } else { at.hour() }),
        'K' => i64::from(at.hour() % 12),
        'h' => i64::from(if at.hour() % 12 == 0 {
            12
        } else {
            at.hour() % 12
        }),
        'm' => i64::from(at.minute()),
        's' => i64::from(at.second()),
        // 'S', the only one left.
        _ => i64::from(at.millisecond()),
    };
    // Writing to memory cannot fail.
    let _ = write!(out, "{number:0count$}");
}

/// 1 for Monday to 7 for Sunday.
fn weekday(day: Weekday) -> i8 {
    day.to_monday_one_offset()
}

/// `+02:00` with this between hours and minutes, or the text for no offset.
fn offset_text(at: &Zoned, zero: &str, between: &str) -> String {
    let seconds = at.offset().seconds();
    if seconds == 0 {
        return zero.to_owned();
    }
    let minutes = seconds.unsigned_abs() / 60;
    let sign = if seconds < 0 { '-' } else { '+' };
    format!("{sign}{:02}{between}{:02}", minutes / 60, minutes % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    /// 2023-10-07T03:04:05.067Z, a Saturday.
    const NOW_MS: u64 = 1_696_647_845_067;

    fn now(format: &str, offset: &str, timezone: &str) -> String {
        let given = |text: &'static str| (!text.is_empty()).then_some(text);
        let leak = |text: &str| given(Box::leak(text.to_owned().into_boxed_str()));
        match CompiledNow::compile(leak(format), leak(offset), leak(timezone)) {
            Ok(now) => now
                .text(SystemTime::UNIX_EPOCH + Duration::from_millis(NOW_MS))
                .unwrap(),
            Err(fault) => fault.to_string(),
        }
    }

    #[test]
    fn times_are_moved_and_written_as_java_does() {
        for (format, offset, timezone, expected) in [
            ("", "", "", "2023-10-07T03:04:05Z"),
            (
                "",
                "3 days",
                "Australia/Sydney",
                "2023-10-10T14:04:05+11:00",
            ),
            ("", "-3 days", "Europe/Berlin", "2023-10-04T05:04:05+02:00"),
            ("", "now +5 years", "UTC", "2028-10-07T03:04:05Z"),
            ("", "now", "-03:30", "2023-10-06T23:34:05-03:30"),
            ("", "16 months", "", "2025-02-07T03:04:05Z"),
            ("", "", "GMT+2", "2023-10-07T05:04:05+02:00"),
            ("epoch", "1 SECONDS", "", "1696647846067"),
            ("unix", "", "Asia/Tokyo", "1696647845"),
            (
                "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
                "",
                "",
                "2023-10-07T03:04:05.067+0000",
            ),
            (
                "yyyy-MM-dd HH:mm:ssXXX",
                "",
                "Asia/Kolkata",
                "2023-10-07 08:34:05+05:30",
            ),
            ("X XX XXX", "", "Asia/Kolkata", "+05 +0530 +05:30"),
            ("X Z", "", "", "Z +0000"),
            (
                "yy y M MMM MMMM d D E EEEE u",
                "",
                "",
                "23 2023 10 Oct October 7 280 Sat Saturday 6",
            ),
            ("H k K h a m s S SSSSS", "", "", "3 3 3 3 AM 4 5 67 00067"),
            ("h:mm a kk KK", "9 hours", "", "12:04 PM 12 00"),
            ("'it''s' yyyy ''", "", "", "it's 2023 '"),
        ] {
            assert_eq!(
                now(format, offset, timezone),
                expected,
                "{format} {offset} {timezone}"
            );
        }
    }

    #[test]
    fn the_last_of_a_month_stays_within_the_next() {
        let leap = CompiledNow::compile(None, Some("1 months"), None).unwrap();
        // 2024-01-31T00:00:00Z.
        let end_of_january = SystemTime::UNIX_EPOCH + Duration::from_hours(474_072);
        assert_eq!(leap.text(end_of_january).unwrap(), "2024-02-29T00:00:00Z");
        let far = CompiledNow::compile(None, Some("9000 years"), None).unwrap();
        assert!(far.text(end_of_january).is_err());
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        for (format, offset, timezone, expected) in [
            (
                "yyyy-bb",
                "",
                "",
                "the format of a date `yyyy-bb` has no bb",
            ),
            ("XXXX", "", "", "the format of a date `XXXX` has no XXXX"),
            (
                "'open",
                "",
                "",
                "a quote in the format of a date is not closed: `'open`",
            ),
            (
                "z",
                "",
                "",
                "the letter z in the format of a date is not supported",
            ),
            (
                "YYYY",
                "",
                "",
                "the letter Y in the format of a date is not supported",
            ),
            (
                "",
                "3",
                "",
                "`3` is not a valid offset of now: write 3 days, -3 days or now +3 days",
            ),
            (
                "",
                "3 weeks",
                "",
                "`3 weeks` is not a valid offset of now: write 3 days, -3 days or now +3 days",
            ),
            (
                "",
                "",
                "Mars/Phobos",
                "`Mars/Phobos` is not a valid time zone: write Europe/Berlin, UTC or +02:00",
            ),
            (
                "",
                "",
                "+19:00",
                "`+19:00` is not a valid time zone: write Europe/Berlin, UTC or +02:00",
            ),
        ] {
            assert_eq!(now(format, offset, timezone), expected);
        }
    }

    proptest! {
        #[test]
        fn any_arguments_are_compiled_or_refused(format in "([yMdHmsSXZaE'é:-]|\\PC){0,12}", offset in "\\PC{0,12}", timezone in "[-+0-9:UTCGMZé]{0,8}") {
            let _ = CompiledNow::compile(Some(&format), Some(&offset), Some(&timezone));
            if let Ok(now) = CompiledNow::compile(Some(&format), None, None) {
                prop_assert!(now.text(SystemTime::UNIX_EPOCH).is_ok());
            }
        }
    }
}
