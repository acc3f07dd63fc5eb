//! The file of `--requests-file`: one request per line or entry, in one of four formats, found by
//! its content. Read once, before anything is sent.
//!
//! | room | for |
//! |---|---|
//! | `json_lines` | JSON lines, a superset of vegeta's JSON targets |
//! | `vegeta` | vegeta's text targets |
//! | `har` | HTTP archives, as browsers save them |
//! | `access_log` | access logs, common and combined |
//! | `time` | times of requests |
//! | `laws` | laws for any file, for fuzzing |
//!
//! No error may repeat the value of a header, or a body.

mod access_log;
mod har;
mod json_lines;
#[cfg(any(test, fuzzing))]
pub mod laws;
mod time;
mod vegeta;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use http::Method;

use self::time::At;
use crate::crawl::{Line, RequestShape, ShapeError, Template, TemplateError};

/// The name of standard input.
const STDIN: &str = "-";

/// Largest file, bytes. It is in memory while it is read, beside about 500 bytes per request.
const MOST_BYTES: u64 = 256 << 20;

/// Lines in which one of an access log is looked for: the first ones may be another program's.
const LOOKED_AT: usize = 100;

/// Most requests of a file.
const MOST_REQUESTS: usize = 2_000_000;

/// Reason why there are no requests. Reads after "--requests-file FILE ".
#[derive(Debug, thiserror::Error)]
pub(super) enum RequestsError {
    /// The file, or standard input.
    #[error("cannot be read: {0}. Check the path, or write - for standard input")]
    Io(#[from] io::Error),
    /// Longer than [`MOST_BYTES`].
    #[error("is larger than 256 MiB: split it, and crawl its parts one after the other")]
    TooLarge,
    /// More than [`MOST_REQUESTS`].
    #[error(
        "holds more than 2,000,000 requests: split it, and crawl its parts one after the other"
    )]
    TooMany,
    /// None of the formats.
    #[error(
        "begins with none of the formats: write JSON lines ({{\"url\": \"http://...\"}}) or vegeta's text (GET http://...), or give a HAR \
         file or an access log in the common or combined format"
    )]
    Unknown,
    /// No request in it.
    #[error("holds no request{0}. Add one, as in {{\"url\": \"http://127.0.0.1:8080/items/1\"}}")]
    Empty(String),
    /// Not a HAR file.
    #[error("is no valid HAR file at line {0}, column {1}: save it again from the browser")]
    Har(usize, usize),
    /// A line or an entry that is no request.
    #[error("{place}: {why}")]
    Request {
        /// Its place: `line 3`.
        place: String,
        /// The error, with a remedy.
        why: String,
    },
    /// Paths without a host.
    #[error(
        "{0} has a path without a host: add the URL of the host, as in `crawlmark run http://127.0.0.1:8080 --requests-file FILE`"
    )]
    NoHost(String),
    /// A host for paths, and no path.
    #[error(
        "names the host of each request, so the URL has no effect: remove it, or send them elsewhere with --connect-to"
    )]
    UselessUrl,
    /// A URL that is more than a host.
    #[error("needs a URL without a path, to which its own paths are appended: write {0}")]
    LongUrl(String),
    /// Error without a known line.
    #[error("{0}")]
    Template(#[from] TemplateError),
}

impl RequestsError {
    /// Return the message, to follow the name of the file. A line feed in JSON is written as there,
    /// so that it stays one line.
    pub(super) fn message(&self) -> String {
        let message = match self {
            Self::Request { .. } | Self::NoHost(_) | Self::Template(_) => format!(": {self}"),
            _ => format!(" {self}"),
        };
        message.replace('\n', "\\n")
    }
}

/// Place of a request in its file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilePosition {
    Line(usize),
    Entry(usize),
}

impl FilePosition {
    fn failed(self, why: impl Into<String>) -> RequestsError {
        RequestsError::Request {
            place: self.to_string(),
            why: why.into(),
        }
    }
}

impl std::fmt::Display for FilePosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(line) => write!(f, "line {line}"),
            Self::Entry(entry) => write!(f, "entry {entry}"),
        }
    }
}

/// A request as its file has it.
#[derive(Debug, Clone, PartialEq)]
struct RecordedRequest {
    place: FilePosition,
    /// None for that of the flags.
    method: Option<String>,
    /// URL, or a path.
    url: String,
    /// Headers, `name: value`.
    headers: Vec<String>,
    /// None for that of the flags.
    body: Option<Bytes>,
    weight: Option<u32>,
    at: Option<At>,
}

impl RecordedRequest {
    fn new(place: FilePosition) -> Self {
        let (url, headers) = (String::new(), Vec::new());
        Self {
            place,
            method: None,
            url,
            headers,
            body: None,
            weight: None,
            at: None,
        }
    }
}

/// Content of a file.
#[derive(Debug, Default)]
struct Parsed {
    entries: Vec<RecordedRequest>,
    /// Number of lines or entries that are no request which can be sent again, and the first of
    /// them with its reason.
    skipped: Option<(usize, String)>,
    /// True if another program wrote the file: what cannot be sent is skipped, and refuses no file.
    is_recording: bool,
}

impl Parsed {
    fn add(&mut self, entry: RecordedRequest) -> Result<(), RequestsError> {
        self.entries.push(entry);
        if self.entries.len() > MOST_REQUESTS {
            Err(RequestsError::TooMany)
        } else {
            Ok(())
        }
    }

    fn skip(&mut self, place: FilePosition, why: &str) {
        self.skipped
            .get_or_insert_with(|| (0, format!("{place}: {why}")))
            .0 += 1;
    }
}

/// Requests of a file, in its order.
#[derive(Debug)]
pub(super) struct RequestFile {
    /// URL and request of each line.
    pub(super) lines: Vec<Line>,
    /// Weight of each line; none if no line has one.
    pub(super) weights: Option<Vec<u32>>,
    /// Time of each line after the earliest one; the place of the first line without a time if
    /// there is one.
    pub(super) times: Result<Vec<Duration>, String>,
    /// Note on the lines or entries that cannot be sent again.
    pub(super) skipped: Option<String>,
}

/// Read the file at `path`, or standard input. `base` is the URL of the requests that are paths;
/// `shape` has what lines leave out.
pub(super) fn read(
    path: &Path,
    base: Option<&Template>,
    shape: &RequestShape,
) -> Result<RequestFile, RequestsError> {
    let mut text = Vec::new();
    let limit = MOST_BYTES + 1;
    if path == Path::new(STDIN) {
        io::stdin().lock().take(limit).read_to_end(&mut text)?;
    } else {
        File::open(path)?.take(limit).read_to_end(&mut text)?;
    }
    if text.len() as u64 > MOST_BYTES {
        Err(RequestsError::TooLarge)
    } else {
        build(parse(&text)?, base, shape)
    }
}

/// Parse a file whose format is found by its content. Whatever the bytes, it returns.
fn parse(text: &[u8]) -> Result<Parsed, RequestsError> {
    // Some editors begin a file with an invisible byte order mark.
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    if let Some(object) = text.trim_ascii_start().strip_prefix(b"{") {
        let is_har = object.trim_ascii_start().starts_with(b"\"log\"");
        return if is_har {
            har::parse(text)
        } else {
            json_lines::parse(text)
        };
    }
    let content = || {
        lines(text)
            .map(|(_, line)| line)
            .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
    };
    let Some(first) = content().next() else {
        return Err(RequestsError::Empty(String::new()));
    };
    let mut words = first.split(u8::is_ascii_whitespace);
    let is_method = |word: &[u8]| !word.is_empty() && word.iter().all(u8::is_ascii_uppercase);
    match () {
        // First: the name of a host may look like a method, but no target has the time of a log.
        () if content().take(LOOKED_AT).any(access_log::is_line) => access_log::parse(text),
        () if words.next().is_some_and(is_method) && words.next().is_some() => vegeta::parse(text),
        () => Err(RequestsError::Unknown),
    }
}

/// Lines of a file without white space around them, with their places.
fn lines(text: &[u8]) -> impl Iterator<Item = (FilePosition, &[u8])> {
    text.split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(at, line)| (FilePosition::Line(at + 1), line.trim_ascii()))
}

fn build(
    mut parsed: Parsed,
    base: Option<&Template>,
    shape: &RequestShape,
) -> Result<RequestFile, RequestsError> {
    let origin = base.map(origin).transpose()?;
    let mut lines = Vec::with_capacity(parsed.entries.len());
    for entry in std::mem::take(&mut parsed.entries) {
        match line(&entry, origin, (shape, parsed.is_recording)) {
            Ok(line) => {
                lines.push(line);
                parsed.entries.push(entry);
            }
            Err(RequestsError::Request { why, .. }) if parsed.is_recording => {
                parsed.skip(entry.place, &why);
            }
            Err(error) => return Err(error),
        }
    }
    let Parsed {
        entries, skipped, ..
    } = parsed;
    let skipped = skipped.map(|(count, first)| {
        let are = if count == 1 {
            "line or entry cannot be sent again and is"
        } else {
            "lines or entries cannot be sent again and are"
        };
        format!("{count} {are} left out (the first: {first})")
    });
    if entries.is_empty() {
        return Err(RequestsError::Empty(
            skipped
                .map(|skipped| format!(": {skipped}"))
                .unwrap_or_default(),
        ));
    }
    if origin.is_some() && entries.iter().all(|entry| !entry.url.starts_with('/')) {
        return Err(RequestsError::UselessUrl);
    }
    let has_weights = entries.iter().any(|entry| entry.weight.is_some());
    let weights = has_weights.then(|| {
        entries
            .iter()
            .map(|entry| entry.weight.unwrap_or(1))
            .collect()
    });
    let times = time::since_first(&entries)?;
    Ok(RequestFile {
        lines,
        weights,
        times,
        skipped,
    })
}

/// Return scheme and host of the URL that paths are appended to.
fn origin(base: &Template) -> Result<&str, RequestsError> {
    if base.path() == ("/", None) {
        Ok(base.origin())
    } else {
        Err(RequestsError::LongUrl(base.origin().to_owned()))
    }
}

fn line(
    entry: &RecordedRequest,
    origin: Option<&str>,
    (shape, is_recording): (&RequestShape, bool),
) -> Result<Line, RequestsError> {
    let RecordedRequest {
        place,
        method,
        url,
        headers,
        body,
        ..
    } = entry;
    let origin = match origin {
        _ if !url.starts_with('/') => "",
        None => return Err(RequestsError::NoHost(place.to_string())),
        Some(origin) => origin,
    };
    let template: Template = [origin, url]
        .concat()
        .parse()
        .map_err(|error: TemplateError| place.failed(error.to_string()))?;
    if method.is_none() && headers.is_empty() && body.is_none() {
        return Ok(template.into());
    }
    // As with flags: a body is meant to be posted.
    let posts = method.is_none() && body.is_some() && *shape.method() == Method::GET;
    let method = if posts {
        Some(Method::POST.as_str())
    } else {
        method.as_deref()
    };
    // Errors of flags begin with their dashes.
    let failed = |error: ShapeError| place.failed(error.to_string().trim_start_matches("--"));
    let own = if is_recording {
        RequestShape::recorded
    } else {
        RequestShape::own
    };
    let own = own(shape, method, headers, body.clone()).map_err(failed)?;
    let method = Some(own.method().clone()).filter(|method| method != shape.method());
    Ok(Line {
        template,
        shape: Some(own),
        method,
    })
}

#[cfg(test)]
mod tests;
