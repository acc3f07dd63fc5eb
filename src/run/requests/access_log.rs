//! Access logs in the common and combined formats of Apache and nginx, perhaps with the virtual
//! host before them. They hold neither bodies nor most headers, so only GET, HEAD and OPTIONS are
//! sent again.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Duration;

use regex::bytes::{Captures, Regex};

use super::time::{At, recorded_url};
use super::{Fault, FilePosition, Parsed, RecordedRequest, lines};

/// Up to the time, where a user may be quoted, the request, and what the combined format adds.
static LINE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new(
        r#"(?x-u)^.*?\[(?<at>\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d\ [+-]\d{4})\]
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

pub(super) fn parse(text: &[u8]) -> Result<Parsed, Fault> {
    let mut parsed = Parsed {
        is_recording: true,
        ..Parsed::default()
    };
    for (place, line) in lines(text).filter(|(_, line)| !line.is_empty()) {
        match entry(place, line) {
            Ok(entry) => parsed.add(entry)?,
            Err(why) => parsed.skip(place, why),
        }
    }
    spread(&mut parsed.entries);
    Ok(parsed)
}

fn group<'a>(captures: &'a Captures<'_>, name: &str) -> Option<&'a str> {
    std::str::from_utf8(captures.name(name)?.as_bytes()).ok()
}

fn entry(place: FilePosition, line: &[u8]) -> Result<RecordedRequest, &'static str> {
    let captures = &captures(line).ok_or("it is no line of an access log")?;
    let at = group(captures, "at")
        .and_then(At::of_log)
        .ok_or("its time cannot be read")?;
    let request = group(captures, "request").ok_or("its request is not text")?;
    let (method, rest) = request.split_once(' ').unwrap_or((request, ""));
    // A path may have blanks, and HTTP/0.9 has no version.
    let url = rest
        .rsplit_once(' ')
        .filter(|(_, version)| version.starts_with("HTTP/"))
        .map_or(rest, |(url, _)| url);
    if !["GET", "HEAD", "OPTIONS"].contains(&method) {
        return Err("its method is none of GET, HEAD and OPTIONS, and a log has no bodies");
    }
    let is_valid =
        url.starts_with('/') || url.starts_with("http://") || url.starts_with("https://");
    if !is_valid || url.contains('\\') {
        return Err("it has no valid path");
    }
    let headers = HEADERS
        .into_iter()
        .filter_map(|(name, header)| {
            let value = group(captures, name)
                .filter(|value| !value.is_empty() && *value != "-" && !value.contains('\\'))?;
            Some(format!("{header}: {value}"))
        })
        .collect();
    Ok(RecordedRequest {
        method: Some(method.to_owned()),
        url: recorded_url(url),
        headers,
        at: Some(at),
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
