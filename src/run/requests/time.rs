//! Times of recorded requests, and their URLs.

use std::mem::discriminant;
use std::time::Duration;

use jiff::Timestamp;
use jiff::fmt::strtime;
use serde_json::Value;

use super::{Fault, RecordedRequest};

/// Time of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd)]
pub(super) enum At {
    /// Since a start of the file's own.
    Seconds(Duration),
    /// Since the Unix epoch.
    Clock(Duration),
}

impl At {
    /// Read seconds, or a time of RFC 3339.
    pub(super) fn of_json(value: &Value) -> Option<Self> {
        match value.as_f64() {
            Some(seconds) => Duration::try_from_secs_f64(seconds).ok().map(Self::Seconds),
            None => Self::of_text(value.as_str()?),
        }
    }

    /// Read a time of RFC 3339.
    pub(super) fn of_text(text: &str) -> Option<Self> {
        Self::of(text.parse().ok()?)
    }

    /// Read a time as access logs have it.
    pub(super) fn of_log(text: &str) -> Option<Self> {
        let parsed = strtime::parse("%d/%b/%Y:%H:%M:%S %z", text).ok()?;
        Self::of(parsed.to_timestamp().ok()?)
    }

    /// None before the Unix epoch.
    fn of(time: Timestamp) -> Option<Self> {
        let since = time.duration_since(Timestamp::UNIX_EPOCH);
        since.try_into().ok().map(Self::Clock)
    }
}

/// Return the time of each request after the earliest one; the place of the first one without a
/// time if there is one.
///
/// # Errors
/// When some are seconds and others times of day.
pub(super) fn since_first(
    entries: &[RecordedRequest],
) -> Result<Result<Vec<Duration>, String>, Fault> {
    let mut times = Vec::with_capacity(entries.len());

    let mut first: Option<At> = None;
    for entry in entries {
        let Some(at) = entry.at else {
            return Ok(Err(entry.place.to_string()));
        };
        if discriminant(first.get_or_insert(at)) != discriminant(&at) {
            return Err(entry.place.failed(
                "`at` is a number in some lines and a time in others: write all of them alike",
            ));
        }
        let (At::Seconds(since) | At::Clock(since)) = at;
        times.push(since);
    }
    let earliest = times.iter().min().copied().unwrap_or_default();
    for time in &mut times {
        *time -= earliest;
    }
    Ok(Ok(times))
}

/// Return the URL of a recording as it is sent again: without its fragment, and with braces that
/// are no place for an ID.
pub(super) fn recorded_url(url: &str) -> String {
    url.split('#')
        .next()
        .unwrap_or_default()
        .replace('{', "%7B")
        .replace('}', "%7D")
}
