//! The helper `now`: a time, moved by an offset, in a zone, in a format of Java's
//! `SimpleDateFormat`.
//!
//! The time is handed in. Formats are checked when a stub is loaded. Without a time zone it is UTC;
//! WireMock takes its machine's for formats of one's own. Names are English.

use super::{Failed, malformed, unsupported};
use crate::stubs::node::ValueProblem;
use jiff::fmt::{strtime, temporal::DateTimeParser};
use jiff::tz::TimeZone;
use jiff::{Span, Timestamp};
use std::time::SystemTime;

/// A compiled `now`.
#[derive(Clone, Debug)]
pub(super) struct Now {
    offset: Span,
    zone: TimeZone,
    format: Vec<Part>,
}

#[derive(Clone, Debug)]
enum Part {
    /// As of `strftime`.
    Time(String),
    /// The same for an offset from UTC, which is `Z` if there is none.
    Zone(&'static str),
}

impl Now {
    /// Compiles the three arguments of `now`.
    pub(super) fn compile(
        format: Option<&str>,
        offset: Option<&str>,
        timezone: Option<&str>,
    ) -> Result<Self, ValueProblem> {
        Ok(Self {
            offset: offset.map_or(Ok(Span::new()), span)?,
            zone: timezone.map_or(Ok(TimeZone::UTC), zone)?,
            format: match format {
                None => parts("yyyy-MM-dd'T'HH:mm:ssXXX")?,
                // Milliseconds, and seconds, since 1970.
                Some("epoch") => vec![Part::Time("%s%3f".to_owned())],
                Some("unix") => vec![Part::Time("%s".to_owned())],
                Some(pattern) => parts(pattern)?,
            },
        })
    }

    /// The time as a text.
    pub(super) fn text(&self, now: SystemTime) -> Result<String, Failed> {
        self.try_text(now)
            .map_err(|error| Failed(format!("now: {error}")))
    }

    fn try_text(&self, now: SystemTime) -> Result<String, jiff::Error> {
        // Days, months and years are those of UTC, in whatever zone they are written.
        let moved = Timestamp::try_from(now)?
            .to_zoned(TimeZone::UTC)
            .checked_add(self.offset)?;
        let at = moved.with_time_zone(self.zone.clone());
        self.format
            .iter()
            .map(|part| match part {
                Part::Zone(_) if at.offset().is_zero() => Ok("Z".to_owned()),
                Part::Zone(format) => strtime::format(format, &at),
                Part::Time(format) => strtime::format(format, &at),
            })
            .collect()
    }
}

/// `3 days`, `-3 days`, `now +3 days`, `now`.
fn span(text: &str) -> Result<Span, ValueProblem> {
    let lower = text.to_lowercase();
    match lower.strip_prefix("now").unwrap_or(&lower).trim() {
        "" => Ok(Span::new()),
        span => span.parse().or_else(|_| {
            malformed(format!(
                "`{text}` is not a valid offset of now: write 3 days, -3 days or now +3 days"
            ))
        }),
    }
}

/// A zone's name, or a fixed offset: `Z`, `+02:00`, `UTC+02`.
fn zone(name: &str) -> Result<TimeZone, ValueProblem> {
    let fixed = name
        .strip_prefix("UTC")
        .or_else(|| name.strip_prefix("GMT"))
        .unwrap_or(name);
    if matches!(fixed, "" | "Z") && !name.is_empty() {
        return Ok(TimeZone::UTC);
    }
    DateTimeParser::new().parse_time_zone(fixed).or_else(|_| {
        malformed(format!(
            "`{name}` is not a valid time zone: write Europe/Berlin, UTC or +02:00"
        ))
    })
}

/// Fields of `SimpleDateFormat`, and of `strftime`.
const FIELDS: [(&str, &str); 23] = [
    ("y", "%Y"),
    ("yy", "%y"),
    ("yyyy", "%Y"),
    ("M", "%-m"),
    ("MM", "%m"),
    ("MMM", "%b"),
    ("MMMM", "%B"),
    ("d", "%-d"),
    ("dd", "%d"),
    ("D", "%-j"),
    ("E", "%a"),
    ("EEE", "%a"),
    ("EEEE", "%A"),
    ("u", "%u"),
    ("H", "%-H"),
    ("HH", "%H"),
    ("h", "%-I"),
    ("hh", "%I"),
    ("a", "%p"),
    ("mm", "%M"),
    ("ss", "%S"),
    ("SSS", "%3f"),
    ("Z", "%z"),
];

fn parts(pattern: &str) -> Result<Vec<Part>, ValueProblem> {
    // Two quotes are one, inside of quotes and outside.
    let pattern = pattern.replace("''", "\0");
    let mut parts = Vec::new();
    let mut text = String::new();
    let mut rest = pattern.as_str();
    while let Some(first) = rest.chars().next() {
        if let Some(inside) = rest.strip_prefix('\'') {
            let Some((quoted, after)) = inside.split_once('\'') else {
                return malformed("a quote in the format of a date is not closed");
            };
            text += &literal(quoted);
            rest = after;
            continue;
        }
        let after = if first.is_ascii_alphabetic() {
            rest.trim_start_matches(first)
        } else {
            &rest[first.len_utf8()..]
        };
        let field = &rest[..rest.len() - after.len()];
        rest = after;
        let zone = match field {
            "XX" => "%z",
            "XXX" => "%:z",
            _ if !first.is_ascii_alphabetic() => {
                text += &literal(field);
                continue;
            }
            _ => match FIELDS.iter().find(|(known, _)| *known == field) {
                Some((_, format)) => {
                    text += format;
                    continue;
                }
                None => return unsupported(format!("`{field}` in the format of a date")),
            },
        };
        parts.push(Part::Time(std::mem::take(&mut text)));
        parts.push(Part::Zone(zone));
    }
    parts.push(Part::Time(text));
    Ok(parts)
}

fn literal(text: &str) -> String {
    text.replace('%', "%%").replace('\0', "'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    /// 2023-10-07T03:04:05.067Z, a Saturday.
    const NOW_MS: u64 = 1_696_647_845_067;

    fn now(format: &str, offset: &str, timezone: &str) -> Result<String, ValueProblem> {
        let given = |text| Some(text).filter(|text: &&str| !text.is_empty());
        let now = Now::compile(given(format), given(offset), given(timezone))?;
        let at = SystemTime::UNIX_EPOCH + Duration::from_millis(NOW_MS);
        Ok(now.text(at).unwrap())
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
            ("", "", "GMT+02", "2023-10-07T05:04:05+02:00"),
            ("epoch", "1 SECONDS", "", "1696647846067"),
            ("unix", "", "Asia/Tokyo", "1696647845"),
            (
                "yyyy-MM-dd'T'HH:mm:ss.SSSZ",
                "",
                "",
                "2023-10-07T03:04:05.067+0000",
            ),
            ("XX XXX Z", "", "Asia/Kolkata", "+0530 +05:30 +0530"),
            (
                "yy y M MMM MMMM d D E EEEE u",
                "",
                "",
                "23 2023 10 Oct October 7 280 Sat Saturday 6",
            ),
            ("h:mm a H", "9 hours", "", "12:04 PM 12"),
            ("'it''s' yyyy '' '100%'", "", "", "it's 2023 ' 100%"),
        ] {
            assert_eq!(
                now(format, offset, timezone).unwrap(),
                expected,
                "{format} {offset} {timezone}"
            );
        }
    }

    #[test]
    fn the_last_of_a_month_stays_within_the_next() {
        let leap = Now::compile(None, Some("1 months"), None).unwrap();
        // 2024-01-31T00:00:00Z.
        let end_of_january = SystemTime::UNIX_EPOCH + Duration::from_hours(474_072);
        assert_eq!(leap.text(end_of_january).unwrap(), "2024-02-29T00:00:00Z");
        let far = Now::compile(None, Some("9000 years"), None).unwrap();
        assert!(far.text(end_of_january).is_err());
    }

    proptest! {
        #[test]
        fn any_arguments_are_compiled_or_refused(format in "([yMdHmsSXZaE'é:%-]|\\PC){0,12}", offset in "\\PC{0,12}", timezone in "[-+0-9:UTCGMZé]{0,8}") {
            let _ = Now::compile(Some(&format), Some(&offset), Some(&timezone));
            if let Ok(now) = Now::compile(Some(&format), None, None) {
                prop_assert!(now.text(SystemTime::UNIX_EPOCH).is_ok());
            }
            for wrong in ["3", "3 fortnights", "yesterday"] {
                prop_assert!(Now::compile(None, Some(wrong), None).is_err());
            }
            prop_assert!(Now::compile(None, None, Some("Mars/Phobos")).is_err());
        }
    }
}
