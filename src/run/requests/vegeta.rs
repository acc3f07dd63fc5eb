//! Vegeta's text targets: `METHOD URL`, then headers, then `@FILE` for a body, and a blank line
//! before the next one.

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;

use super::{Fault, FilePosition, Parsed, RecordedRequest, lines};
use crate::run::inputs::read_body;

pub(super) fn parse(text: &[u8]) -> Result<Parsed, Fault> {
    let (mut parsed, mut bodies) = (Parsed::default(), Bodies::default());
    let mut open: Option<RecordedRequest> = None;
    for (place, line) in lines(text) {
        let line = std::str::from_utf8(line)
            .map_err(|_| place.failed("it is not UTF-8 text: save the file as UTF-8"))?;
        if line.starts_with('#') {
            continue;
        }
        match &mut open {
            _ if line.is_empty() => open.take().map_or(Ok(()), |entry| parsed.add(entry))?,
            Some(entry) if line.starts_with('@') => {
                if entry.body.is_some() {
                    return Err(
                        place.failed("the request has a body file already: keep one of them")
                    );
                }
                entry.body = Some(bodies.read(place, &line[1..])?);
            }
            Some(_) if !is_target(line) && !line.contains(':') => {
                return Err(place
                    .failed("it is no header (`name: value`), no @FILE, and no METHOD URL: correct it, or remove it"));
            }
            Some(entry) if !is_target(line) => entry.headers.push(line.to_owned()),
            _ => {
                open.take().map_or(Ok(()), |entry| parsed.add(entry))?;
                open = Some(target(place, line)?);
            }
        }
    }
    open.map_or(Ok(()), |entry| parsed.add(entry))?;
    Ok(parsed)
}

/// True if the line begins a request: a word in capitals, and a URL or a path. No header has a
/// space before its colon.
fn is_target(line: &str) -> bool {
    let method = line.split(' ').next().unwrap_or_default();
    line.len() > method.len()
        && !method.is_empty()
        && method.bytes().all(|byte| byte.is_ascii_uppercase())
}

fn target(place: FilePosition, line: &str) -> Result<RecordedRequest, Fault> {
    let mut words = line.split_whitespace();
    match (words.next(), words.next(), words.next()) {
        (Some(method), Some(url), None) if is_target(line) => Ok(RecordedRequest {
            method: Some(method.to_owned()),
            url: url.to_owned(),
            ..RecordedRequest::new(place)
        }),
        // It may be a header, whose value may be a secret.
        _ => Err(place
            .failed("a request begins with METHOD URL, as in GET http://127.0.0.1:8080/items/1")),
    }
}

/// Most bytes of all body files: they are held in memory.
const MOST_BYTES: usize = 256 << 20;

/// Body files, each read once.
#[derive(Default)]
struct Bodies {
    read: HashMap<String, Bytes>,
    bytes: usize,
}

impl Bodies {
    fn read(&mut self, place: FilePosition, path: &str) -> Result<Bytes, Fault> {
        if let Some(body) = self.read.get(path) {
            return Ok(body.clone());
        }
        let body = read_body(Path::new(path))
            .map_err(|why| place.failed(format!("the body file {path}{why}")))?;
        self.bytes += body.len();
        if self.bytes > MOST_BYTES {
            return Err(
                place.failed("the body files are larger than 256 MiB together: split the requests")
            );
        }
        self.read.insert(path.to_owned(), body.clone());
        Ok(body)
    }
}
