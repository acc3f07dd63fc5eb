//! Bounds of saved files. A result may come from another person, or from a disk that failed: no
//! number, text or histogram in it may make a reader loop, allocate or draw without an end.
//! Everything that reads saved JSON calls this.
//!
//! Two passes: [`from_str`] bounds each value by its name alone, for names carry their unit;
//! `check` bounds what a report's values mean. Nothing is computed again to catch an editor.

use std::fmt;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor,
};

use crate::run::parts::MAX_PARTS;
use crate::run::report::{Latency, Report};
use crate::show::text::shortened;
use crate::show::visible;
use crawlmark_harness::plan::MAX_SHARDS;
use crawlmark_harness::text_file::plain;
use crawlmark_harness::units::grouped;
use crawlmark_harness::wire::v2;

/// The largest file that is read: a result of a day takes about 200 MB, and this is one of twenty
/// days.
const LARGEST_FILE: u64 = 1 << 32;

/// The largest file that describes a plan, a part or a saved crawl: that of a plan takes some KB.
const LARGEST_SMALL_FILE: u64 = 1 << 24;

/// The longest text, in bytes, and the longest histogram, in base64: one of an hour's timeout takes
/// 400 KB.
const LONGEST_TEXT: usize = 1 << 16;
const LONGEST_HISTOGRAM: usize = 1 << 22;

/// The longest run. A plot of a run takes memory for each of its seconds.
const LONGEST_RUN: Duration = Duration::from_hours(24 * 366);

/// The longest time that a plan may have, s: as many nanoseconds as are counted.
const LONGEST_PLAN_S: f64 = u64::MAX as f64 / 1e9;

/// The longest time of any kind, s: a target may ask to be left alone until a year that is far
/// away.
const LONGEST_TIME_S: f64 = 1e12;

/// The greatest count: beyond it JSON readers disagree, and below it sums of counts do not
/// overflow.
const GREATEST_COUNT: f64 = 9_007_199_254_740_992.0;

/// The greatest number of another program's results: a picture has room for its digits.
pub(crate) const GREATEST_NUMBER: f64 = 1e18;

/// The greatest of all other numbers: `FAR` of a comparison is a ratio of e^300, 1.9e130.
const GREATEST_RATIO: f64 = 1e131;

/// Numbers that may be greater: no counts, or those of planned items, which may be all that there are
/// IDs.
const ANY_NUMBER: [&str; 7] = [
    "start",
    "end",
    "id",
    "seed",
    "len",
    "planned",
    "not_attempted",
];

/// Reads a saved file, which may be no larger than a result can be.
///
/// # Errors
/// When it cannot be read, is too large or no UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    text_of(read_bytes(path)?)
}

/// Reads a file that describes a plan, a part or a saved crawl.
///
/// # Errors
/// As [`read_text`].
pub fn read_small_text(path: &Path) -> io::Result<String> {
    text_of(read_at_most(LARGEST_SMALL_FILE, path)?)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(plain(bytes))
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Text of a file that may have been cut in the middle of a letter.
///
/// # Errors
/// When it cannot be read or is too large.
pub fn read_bytes(path: &Path) -> io::Result<Vec<u8>> {
    read_at_most(LARGEST_FILE, path)
}

fn read_at_most(most: u64, path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > most {
        return Err(io::Error::other(format!(
            "it is larger than {} bytes, which no saved result is",
            grouped(most)
        )));
    }
    Ok(bytes)
}

/// Opens a file of a result. A FIFO would wait for a writer, and a device may have no end.
///
/// # Errors
/// When it is no regular file, or cannot be opened.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    if fs::metadata(path)?.is_file() {
        return File::open(path);
    }
    Err(io::Error::other("it is not a regular file"))
}

/// Reads JSON whose every value is within the bounds of its name. They are checked first, one after
/// the other, so that a file takes no more memory than its text until all of them are.
///
/// # Errors
/// When it is no JSON, or not of this type, or a value is out of bounds; the error names the field.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    Bounds("").deserialize(&mut json)?;
    json.end()?;
    serde_json::from_str(text)
}

/// The message of an error about a file, which may repeat any part of it: in one line, and without
/// the middle of a long one.
pub(crate) fn one_line(error: &serde_json::Error) -> String {
    const MOST: usize = 400;
    shortened(
        &visible(&error.to_string()).replace(['\n', '\t'], " "),
        MOST,
    )
}

/// A name as it is shown.
pub(crate) fn short(text: &str) -> String {
    const SHOWN: usize = 60;
    visible(text)
        .replace(['\n', '\t'], " ")
        .chars()
        .take(SHOWN)
        .collect()
}

/// Seconds in the unit of a value with this name; none of one that is no time.
fn unit_s(name: &str) -> Option<f64> {
    let (_, unit) = name.rsplit_once('_')?;
    match unit {
        "s" if is_rate(name) => None,
        "s" => Some(1.0),
        "ms" => Some(1e-3),
        "us" => Some(1e-6),
        "ns" => Some(1e-9),
        _ => None,
    }
}

fn is_rate(name: &str) -> bool {
    name == "per_s" || name.ends_with("_per_s")
}

/// Check of a value with this name, that of its list for one in a list. Keeps nothing.
#[derive(Clone, Copy)]
struct Bounds<'a>(&'a str);

impl Bounds<'_> {
    fn check<E: de::Error>(self, why: Option<String>) -> Result<(), E> {
        why.map_or(Ok(()), |why| {
            Err(E::custom(format!("`{}` {why}", short(self.0))))
        })
    }

    fn check_number<E: de::Error>(self, number: impl fmt::Display, size: f64) -> Result<(), E> {
        let why = match unit_s(self.0) {
            Some(unit_s) => (size.abs() * unit_s > LONGEST_TIME_S)
                .then(|| format!("is {size:e}, a longer time than any")),
            None => (size.abs() > GREATEST_COUNT && !ANY_NUMBER.contains(&self.0))
                .then(|| format!("is {number}, more than anything that is counted")),
        };
        self.check(why)
    }
}

impl<'de> DeserializeSeed<'de> for Bounds<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Bounds<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<(), E> {
        self.check_number(number, number as f64)
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<(), E> {
        self.check_number(number, number as f64)?;
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<(), E> {
        if unit_s(self.0).is_some() {
            return self.check_number(number, number);
        }
        self.check(match number {
            _ if number.abs() > GREATEST_RATIO => Some(format!(
                "is {number:e}, more than anything that is measured"
            )),
            ..0.0 if is_rate(self.0) => Some(format!("is {number}, less than any rate")),
            _ => None,
        })
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        let most = if self.0 == "hdr" {
            LONGEST_HISTOGRAM
        } else {
            LONGEST_TEXT
        };
        self.check((text.len() > most).then(|| {
            let [length, most] = [text.len() as u64, most as u64].map(grouped);
            format!("is a text of {length} bytes, and {most} are the most")
        }))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(self)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        while let Some(key) = fields.next_key::<String>()? {
            let bounds = Bounds(&key);
            bounds.visit_str(&key)?;
            fields.next_value_seed(bounds)?;
        }
        Ok(())
    }
}

/// Checks what the values of a report mean.
///
/// # Errors
/// Names the first field that no run can have, and says why.
pub(super) fn check(report: &Report) -> Result<(), String> {
    let plan = &report.plan.run;
    let most = if report.merged.is_some() {
        MAX_PARTS
    } else {
        MAX_SHARDS
    };
    let mut rates = [plan.rate, plan.per_host.rate].into_iter().flatten();
    // A plan may be as long as it likes; what was run cannot be.
    let planned_s = plan.duration.unwrap_or_default().max(plan.warmup);
    let of_shards = report.shards.iter().map(|shard| shard.totals.duration_s);
    let mut of_rows = report.intervals.iter().map(|row| row.start_s as f64);
    let mut times_s = of_shards.chain([report.totals.duration_s]);
    let run_s = 0.0..=LONGEST_RUN.as_secs_f64();
    let longest_ms = u64::try_from(LONGEST_RUN.as_millis()).unwrap_or(u64::MAX);
    let laws = [
        (
            "course",
            (report.course.iter()).all(|course| course.is_possible(longest_ms)),
            "is not columns of one length, at most 600",
        ),
        ("plan.ids", !plan.ids.is_empty(), "holds no item"),
        (
            "plan.shards",
            (1..=most).contains(&plan.shards),
            "is not a number of shards",
        ),
        (
            "shards",
            report.shards.len() <= most as usize,
            "holds more than any run has",
        ),
        (
            "plan.timeout_us",
            !plan.timeout.is_zero() && plan.timeout <= Duration::from_hours(1),
            "is none that a run takes: 1 ms to 1 h",
        ),
        (
            "plan.rate",
            rates.all(|rate| rate.permits > 0 && rate.period_ns > 0),
            "has no requests or no time",
        ),
        (
            "plan.duration_us",
            planned_s.as_secs_f64() <= LONGEST_PLAN_S,
            "is longer than a run can last",
        ),
        (
            "totals.duration_s",
            times_s.all(|time_s| run_s.contains(&time_s)),
            "is none of a run, which lasts 0 s to 366 days",
        ),
        (
            "latency",
            (report.latency.values().flat_map(Latency::figures))
                .all(|(_, _, us)| us.is_none_or(|us| us >= 0.0)),
            "has a time below 0",
        ),
        (
            "intervals.start_s",
            of_rows.all(|time_s| run_s.contains(&time_s)),
            "is beyond the longest run",
        ),
    ];
    if let Some((field, _, why)) = laws.iter().find(|(_, holds, _)| !holds) {
        return Err(format!("`{field}` {why}"));
    }
    let shards = report.shards.iter().map(|shard| &shard.latency);
    for (name, latency) in [&report.latency].into_iter().chain(shards).flatten() {
        check_histogram(&short(name), latency)?;
    }
    Ok(())
}

fn check_histogram(name: &str, latency: &Latency) -> Result<(), String> {
    let Some(text) = &latency.hdr else {
        return Ok(());
    };
    let plain = STANDARD
        .decode(text)
        .map_err(|_| format!("`latency.{name}.hdr` is not base64"))?;
    v2::check_header(&plain)
        .map_err(|why| format!("`latency.{name}.hdr` is not a histogram: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_out_of_bounds_is_refused_by_its_name() {
        let refused = |text: &str| {
            from_str::<serde::de::IgnoredAny>(text)
                .map(drop)
                .unwrap_err()
                .to_string()
        };
        let long = format!(
            "{{\"a\": [{{\"name\": \"{}\"}}]}}",
            "x".repeat(LONGEST_TEXT + 1)
        );
        for (text, says) in [
            (
                "{\"totals\": {\"duration_s\": 1e300}}",
                "`duration_s` is 1e300, a longer time than any",
            ),
            (
                "{\"waits_ms\": [1, 18446744073709551615]}",
                "`waits_ms` is 1.8446744073709552e19, a longer time",
            ),
            (
                "{\"ok\": 9007199254740994}",
                "`ok` is 9007199254740994, more than anything",
            ),
            (
                "{\"value\": -1e302}",
                "`value` is -1e302, more than anything",
            ),
            ("{\"ok_per_s\": -1}", "`ok_per_s` is -1, less than any"),
            ("{\"per_s\": [-0.5]}", "`per_s` is -0.5, less than any"),
            (
                &long,
                "`name` is a text of 65,537 bytes, and 65,536 are the most",
            ),
        ] {
            assert!(refused(text).contains(says), "{}", refused(text));
        }
        for text in [
            "{\"seed\": 18446744073709551615, \"ids\": {\"start\": 0, \"end\": 18446744073709551615}}",
            "{\"rate_per_s\": 1e15, \"per_s\": 1e18, \"ratio\": 1.9e130, \"planned\": 18446744073709551615, \"x\": null, \"b\": [true, -1.5]}",
        ] {
            assert!(from_str::<serde::de::IgnoredAny>(text).is_ok(), "{text}");
        }
        let deep = "[".repeat(100_000);
        assert!(
            refused(&deep).contains("recursion limit"),
            "{}",
            refused(&deep)
        );
    }

    #[test]
    fn a_file_that_is_too_large_or_no_regular_one_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("large");
        fs::write(&file, [b' '; 1_001]).unwrap();
        let refused = |path: &Path| read_at_most(1_000, path).unwrap_err().to_string();
        assert_eq!(
            refused(&file),
            "it is larger than 1,000 bytes, which no saved result is"
        );
        for path in [Path::new("/dev/zero"), place.path()] {
            assert_eq!(refused(path), "it is not a regular file");
        }
    }
}
