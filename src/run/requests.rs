//! The file of `--requests-file`: one request per line or entry, in one of three formats, found by
//! its content. Read once, before anything is sent.
//!
//! | room | for |
//! |---|---|
//! | `json_lines` | JSON lines, a superset of vegeta's JSON targets |
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
#[path = "requests/tests/laws.rs"]
pub mod laws;
mod time;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Method;

use self::time::At;
use super::inputs;
use crate::crawl::{Flow, Line, RequestShape, ShapeError, Step, Takes, Template, TemplateError};

/// Lines in which one of an access log is looked for: the first ones may be another program's.
const LOOKED_AT: usize = 100;

/// Most requests of a file.
const MOST_REQUESTS: usize = 2_000_000;

/// Reason why there are no requests: reads after the name of the file, in one line.
pub(super) type Fault = String;

const TOO_MANY: &str =
    " holds more than 2,000,000 requests: split it, and crawl its parts one after the other";
const UNKNOWN: &str = " begins with none of the formats: write JSON lines ({\"url\": \"http://...\"}), \
     or give a HAR file or an access log in the common or combined format";

fn empty(why: &str) -> Fault {
    format!(" holds no request{why}. Add one, as in {{\"url\": \"http://127.0.0.1:8080/items/1\"}}")
}

/// Place of a request in its file, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FilePosition {
    Line(usize),
    Entry(usize),
}

impl FilePosition {
    /// A line feed in JSON is written as there.
    fn failed(self, why: impl std::fmt::Display) -> Fault {
        format!(": {self}: {why}").replace('\n', "\\n")
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
    /// What its response is read for.
    takes: Takes,
    /// Further requests of the item.
    then: Vec<Self>,
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
            takes: Takes::default(),
            then: Vec::new(),
        }
    }

    /// Return its own headers and body.
    fn text(&self) -> String {
        let body = String::from_utf8_lossy(self.body.as_deref().unwrap_or_default());
        [&self.headers.join("\n"), &*body].join("\n")
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
    fn add(&mut self, entry: RecordedRequest) -> Result<(), Fault> {
        self.entries.push(entry);
        if self.entries.len() > MOST_REQUESTS {
            Err(TOO_MANY.to_owned())
        } else {
            Ok(())
        }
    }

    fn skip(&mut self, place: FilePosition, why: &str) {
        self.skipped
            .get_or_insert_with(|| (0, format!("{place}: {why}").replace('\n', "\\n")))
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
) -> Result<RequestFile, Fault> {
    build(parse(&inputs::read_list(path)?)?, base, shape)
}

/// Parse a file whose format is found by its content. Whatever the bytes, it returns.
fn parse(text: &[u8]) -> Result<Parsed, Fault> {
    if let Some(object) = text.trim_ascii_start().strip_prefix(b"{") {
        let is_har = object.trim_ascii_start().starts_with(b"\"log\"");
        return if is_har {
            har::parse(text)
        } else {
            json_lines::parse(text)
        };
    }
    let mut content = lines(text)
        .map(|(_, line)| line)
        .filter(|line| !line.is_empty() && !line.starts_with(b"#"))
        .peekable();
    if content.peek().is_none() {
        Err(empty(""))
    } else if content.take(LOOKED_AT).any(access_log::is_line) {
        access_log::parse(text)
    } else {
        Err(UNKNOWN.to_owned())
    }
}

/// Lines of a file without white space around them, with their places.
fn lines(text: &[u8]) -> impl Iterator<Item = (FilePosition, &[u8])> {
    inputs::lines(text).map(|(number, line)| (FilePosition::Line(number), line))
}

fn build(
    mut parsed: Parsed,
    base: Option<&Template>,
    shape: &RequestShape,
) -> Result<RequestFile, Fault> {
    let origin = base.map(Template::origin);
    if let (Some(base), Some(origin)) = (base, origin)
        && base.path() != ("/", None)
    {
        return Err(format!(
            " needs a URL without a path, to which its own paths are appended: write {origin}"
        ));
    }
    let mut lines = Vec::with_capacity(parsed.entries.len());
    for entry in std::mem::take(&mut parsed.entries) {
        if origin.is_none() && entry.url.starts_with('/') {
            return Err(format!(
                ": {} has a path without a host: add the URL of the host, as in `crawlmark run http://127.0.0.1:8080 --requests-file FILE`",
                entry.place
            ));
        }
        let own = if parsed.is_recording {
            RequestShape::recorded
        } else {
            RequestShape::own
        };
        match line(&entry, origin, shape, own) {
            Ok(line) => {
                lines.push(line);
                parsed.entries.push(entry);
            }
            Err(why) if parsed.is_recording => parsed.skip(entry.place, &why),
            Err(why) => return Err(entry.place.failed(why)),
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
        let why = skipped.map(|skipped| format!(": {skipped}"));
        return Err(empty(&why.unwrap_or_default()));
    }
    if origin.is_some() && entries.iter().all(|entry| !entry.url.starts_with('/')) {
        return Err(
            " names the host of each request, so the URL has no effect: remove it, or send them elsewhere with --connect-to"
                .to_owned(),
        );
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

/// Makes the request of a line out of that of the flags.
type Own =
    fn(&RequestShape, Option<&str>, &[String], Option<Bytes>) -> Result<RequestShape, ShapeError>;

/// Return what is sent for an entry, whose path is appended to `origin`.
fn line(
    entry: &RecordedRequest,
    origin: Option<&str>,
    shape: &RequestShape,
    own: Own,
) -> Result<Line, String> {
    let origin = origin.filter(|_| entry.url.starts_with('/'));
    let url = [origin.unwrap_or_default(), &entry.url].concat();
    let template: Template = url
        .parse()
        .map_err(|error: TemplateError| error.to_string())?;
    let flow = flow(entry, template.origin(), shape, own)?;
    let (shape, method) = own_shape(entry, shape, own)?;
    Ok(Line {
        template,
        shape,
        method,
        flow,
    })
}

/// Return the further requests of an entry; none if it has none, and no pages.
fn flow(
    entry: &RecordedRequest,
    origin: &str,
    shape: &RequestShape,
    own: Own,
) -> Result<Option<Flow>, String> {
    if entry.then.is_empty() && entry.takes == Takes::default() {
        return Ok(None);
    }
    let mut first = entry.takes.clone();
    first.read_next(&[], &entry.text())?;
    let mut lists = std::iter::once(entry)
        .chain(&entry.then)
        .enumerate()
        .filter(|(_, it)| it.takes.has_list());
    if let Some((at, _)) = lists.next()
        && (at == entry.then.len() || lists.next().is_some())
    {
        return Err(
            "each item of a list (`*` in `extract`) needs a later request, and a line has one list"
                .to_owned(),
        );
    }
    let mut names: Vec<String> = first.names().map(str::to_owned).collect();
    let mut steps = Vec::with_capacity(entry.then.len());
    for (at, step) in entry.then.iter().enumerate() {
        let origin = if step.url.starts_with('/') {
            origin
        } else {
            ""
        };
        let url = [origin, &step.url].concat();
        let number = at + 1;
        let (own, method) =
            own_shape(step, shape, own).map_err(|why| format!("`then` {number}: {why}"))?;
        let own = own.unwrap_or_else(|| shape.clone());
        let mut takes = step.takes.clone();
        takes
            .read_next(&names, &step.text())
            .map_err(|why| format!("`then` {number}: {why}"))?;
        let more: Vec<String> = takes.names().map(str::to_owned).collect();
        let read = Step::new(&url, own, method, takes, &names);
        steps.push(read.map_err(|why| format!("`then` {number}: {why}"))?);
        names.extend(more);
    }
    Ok(Some(Flow {
        first: Arc::new(first),
        steps,
    }))
}

/// Return the shape of an entry, and its method; none for those of the flags.
fn own_shape(
    entry: &RecordedRequest,
    shape: &RequestShape,
    own: Own,
) -> Result<(Option<RequestShape>, Option<Method>), String> {
    if entry.method.is_none() && entry.headers.is_empty() && entry.body.is_none() {
        return Ok((None, None));
    }
    // As with flags: a body is meant to be posted.
    let posts = entry.method.is_none() && entry.body.is_some() && *shape.method() == Method::GET;
    let method = if posts {
        Some(Method::POST.as_str())
    } else {
        entry.method.as_deref()
    };
    // Errors of flags begin with their dashes.
    let own = own(shape, method, &entry.headers, entry.body.clone())
        .map_err(|error| error.to_string().trim_start_matches("--").to_owned())?;
    let own_method = Some(own.method().clone()).filter(|method| method != shape.method());
    Ok((Some(own), own_method))
}

#[cfg(test)]
mod tests;
