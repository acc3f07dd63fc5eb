//! Access logs in the common and combined formats of Apache and nginx, perhaps with the virtual host before them. They hold
//! neither bodies nor most headers, so only GET, HEAD and OPTIONS are sent again.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use regex::bytes::{Captures, Regex};

use super::time::{At, recorded_url};
use super::{FilePosition, Parsed, RecordedRequest, RequestsError, lines};

/// Up to the time, the request, and what the combined format adds.
static LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?x-u)^[^"\[]*\[(?<day>\d\d)/(?<month>[A-Z][a-z]{2})/(?<year>\d{4}):(?<time>\d\d:\d\d:\d\d)\ (?<offset>[+-]\d{4})\]
        \ "(?<request>(?:[^"\\]|\\.)*)"\ (?:\d{3}|-)
        (?:\ \S+(?:\ "(?<referer>(?:[^"\\]|\\.)*)"\ "(?<agent>(?:[^"\\]|\\.)*)")?)?"#,
    )
    .ok()
});

/// Headers of the combined format.
const HEADERS: [(&str, &str); 2] = [("referer", "referer"), ("agent", "user-agent")];

fn captures(line: &[u8]) -> Option<Captures<'_>> {
    LINE.as_ref()?.captures(line)
}

/// True if a line is one of an access log.
pub(super) fn is_line(line: &[u8]) -> bool {
    captures(line).is_some()
}

pub(super) fn parse(text: &[u8]) -> Result<Parsed, RequestsError> {
    const FORM: &str = "it is no line of an access log: HOST - USER [31/Jan/2026:12:00:00 +0000] \"GET /path HTTP/1.1\" STATUS BYTES; \
                        remove it";
    let mut parsed = Parsed::default();
    for (place, line) in lines(text).filter(|(_, line)| !line.is_empty()) {
        let captures = captures(line).ok_or_else(|| place.failed(FORM))?;
        let at =
            at(&captures).ok_or_else(|| place.failed("its time cannot be read: correct it, or remove the line"))?;
        match entry(place, &captures) {
            Ok(entry) => parsed.add(RecordedRequest { at: Some(At::Clock(at)), ..entry })?,
            Err(why) => parsed.skip(place, why),
        }
    }
    spread(&mut parsed.entries);
    Ok(parsed)
}

fn group<'a>(captures: &'a Captures<'_>, name: &str) -> Option<&'a str> {
    std::str::from_utf8(captures.name(name)?.as_bytes()).ok()
}

fn at(captures: &Captures<'_>) -> Option<Duration> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let part = |name| group(captures, name);
    let month = MONTHS.find(part("month")?).filter(|at| at % 3 == 0)? / 3 + 1;
    let (hours, minutes) = part("offset")?.split_at(3);
    At::clock(&format!("{}-{month:02}-{}T{}{hours}:{minutes}", part("year")?, part("day")?, part("time")?))
}

fn entry(place: FilePosition, captures: &Captures<'_>) -> Result<RecordedRequest, &'static str> {
    let mut words = group(captures, "request").ok_or("its request is not text")?.split(' ');
    let (method, url) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    if !["GET", "HEAD", "OPTIONS"].contains(&method) {
        return Err("its method is none of GET, HEAD and OPTIONS, and a log has no bodies");
    }
    let is_valid = url.starts_with('/') || url.starts_with("http://") || url.starts_with("https://");
    if !is_valid || url.contains('\\') || url.parse::<http::Uri>().is_err() {
        return Err("it has no valid path");
    }
    let header = |(name, header): (&str, &str)| {
        let value =
            group(captures, name).filter(|value| !value.is_empty() && *value != "-" && !value.contains('\\'))?;
        Some(format!("{header}: {value}"))
    };
    let headers = HEADERS.into_iter().filter_map(header).collect();
    Ok(RecordedRequest {
        method: Some(method.to_owned()),
        url: recorded_url(url),
        headers,
        ..RecordedRequest::new(place)
    })
}

/// Spread the requests of each second evenly over it: a log has no finer times.
fn spread(entries: &mut [RecordedRequest]) {
    let mut seconds: HashMap<Duration, (u32, u32)> = HashMap::new();
    for entry in &*entries {
        if let Some(At::Clock(at)) = entry.at {
            seconds.entry(at).or_default().0 += 1;
        }
    }
    for entry in entries {
        if let Some(At::Clock(at)) = &mut entry.at
            && let Some((count, taken)) = seconds.get_mut(at)
        {
            *at += Duration::from_secs(1) / *count * *taken;
            *taken += 1;
        }
    }
}
