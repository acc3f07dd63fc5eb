//! Laws that hold for any file whatever: it is read or refused in one line, and what is read can be
//! sent. Fuzzing calls them, and so does a test.

use std::time::Duration;

use bytes::Bytes;
use crawlmark_harness::text_file::plain;
use http::header::CONTENT_LENGTH;

use super::{Fault, RequestFile, build, lines, parse};
use crate::crawl::{RequestShape, Template};

/// Return the request of lines without one of their own.
pub(super) fn shape() -> RequestShape {
    let read = RequestShape::new("GET", &["x-all: 1".to_owned()], Bytes::new());
    read.unwrap_or_else(|error| unreachable!("{error}"))
}

/// Check the laws on a file with these bytes. Files that name body files are left out: those are
/// not read.
///
/// # Panics
/// If one does not hold.
pub fn check(bytes: &[u8]) {
    if lines(&plain(bytes.to_vec())).any(|(_, line)| line.starts_with(b"@")) {
        return;
    }
    match read_bytes(bytes) {
        Ok(file) => check_read(&file),
        Err(error) => {
            let said = error;
            // Other control characters are written by their numbers at the terminal.
            assert!(said.len() > 10 && !said.contains('\n'), "{said:?}");
        }
    }
}

fn read_bytes(bytes: &[u8]) -> Result<RequestFile, Fault> {
    let parsed = parse(&plain(bytes.to_vec()))?;
    let base = "http://h"
        .parse::<Template>()
        .map_err(|error| error.to_string())?;
    let has_paths = parsed
        .entries
        .iter()
        .any(|entry| entry.url.starts_with('/'));
    let places = parsed.entries.len();
    let file = build(parsed, has_paths.then_some(&base), &shape())?;
    assert!(file.lines.len() <= places);
    Ok(file)
}

fn check_read(file: &RequestFile) {
    let lines = file.lines.len();
    assert!(
        lines > 0
            && file
                .weights
                .as_ref()
                .is_none_or(|weights| weights.len() == lines)
    );
    if let Ok(times) = &file.times {
        assert_eq!(
            (times.len(), times.iter().min()),
            (lines, Some(&Duration::ZERO))
        );
    }
    for line in &file.lines {
        let (before, after) = line.template.path();
        let url = [line.template.authority(), before, after.unwrap_or_default()].concat();
        assert!(
            url.bytes().all(|byte| byte.is_ascii_graphic()),
            "{url:?} cannot stand in a request line"
        );
        let Some(shape) = &line.shape else { continue };
        let body = shape.body(7);
        let length = shape
            .values(&CONTENT_LENGTH)
            .next()
            .map(|length| length.to_str().map(str::to_owned));
        assert!(
            length.is_none_or(|length| length.is_ok_and(|length| length == body.len().to_string())),
            "{url:?}"
        );
    }
}
