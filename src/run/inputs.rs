//! Files that flags of `run` name: the list of `--urls`, one URL per line, and bodies. Read once,
//! before anything is sent.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use bytes::Bytes;

use crate::crawl::{Targets, Template, TemplateError};

/// The name of standard input.
const STDIN: &str = "-";

/// Longest line: no URL of 64 KiB can be parsed, and a file that is no text may never end a line.
const LONGEST_LINE: u64 = 64 << 10;

/// No body is longer: each shard keeps it, and what has no end must not be read to it.
const LONGEST_BODY: u64 = 64 << 20;

/// Reason why there are no lines. Reads after "--urls FILE: ", and repeats no credentials.
#[derive(Debug, thiserror::Error)]
pub(super) enum UrlsError {
    /// The file, or one of its lines.
    #[error("{0}")]
    File(String),
    /// Error without a known line.
    #[error("{0}")]
    Template(#[from] TemplateError),
}

fn unreadable(error: &io::Error) -> UrlsError {
    UrlsError::File(format!(
        "cannot be read: {error}. Name a file with one URL per line, or - for standard input"
    ))
}

/// Read the URLs of the file at `path`, or of standard input.
pub(super) fn read_urls(path: &Path) -> Result<Targets, UrlsError> {
    if path == Path::new(STDIN) {
        parse(io::stdin().lock())
    } else {
        let file = File::open(path).map_err(|error| unreadable(&error))?;
        parse(BufReader::new(file))
    }
}

fn parse(mut text: impl BufRead) -> Result<Targets, UrlsError> {
    let (mut buffer, mut line) = (Vec::new(), 0);
    let templates = std::iter::from_fn(|| {
        loop {
            buffer.clear();
            line += 1;
            let failed = |why: &str| Some(Err(UrlsError::File(format!("line {line} {why}"))));
            match io::Read::take(&mut text, LONGEST_LINE).read_until(b'\n', &mut buffer) {
                Err(error) => return Some(Err(unreadable(&error))),
                Ok(0) => return None,
                Ok(read) if read as u64 == LONGEST_LINE => {
                    return failed("is longer than 64 KiB");
                }
                Ok(_) => {}
            }
            let Ok(text) = std::str::from_utf8(&buffer) else {
                return failed("is not UTF-8 text: save the file as UTF-8, with one URL per line");
            };
            // Some editors begin a file with an invisible byte order mark.
            let text = text.trim_start_matches('\u{feff}').trim();
            if !text.is_empty() && !text.starts_with('#') {
                let read = text.parse::<Template>();
                return Some(
                    read.map_err(|error| UrlsError::File(format!("line {line}: {error}"))),
                );
            }
        }
    });
    let targets = Targets::collect(templates)?;
    if targets.lines() == 0 {
        Err(UrlsError::File(
            "holds no URL: write one per line".to_owned(),
        ))
    } else {
        Ok(targets)
    }
}

/// Read a file, or say why it cannot be sent.
pub(super) fn read_body(path: &Path) -> Result<Bytes, String> {
    let unreadable = |error| format!("cannot be read: {error}. Check the path");
    let file = File::open(path).map_err(unreadable)?;
    let mut body = Vec::new();
    file.take(LONGEST_BODY + 1)
        .read_to_end(&mut body)
        .map_err(unreadable)?;
    if body.len() as u64 > LONGEST_BODY {
        return Err(format!("is longer than {} MiB", LONGEST_BODY >> 20));
    }
    Ok(body.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_are_no_urls() {
        let text =
            "# what is crawled\n\nhttp://a/{id}\r\n  http://b:81/x  \n#http://c/\n\nhttp://A/z";
        let targets = parse(text.as_bytes()).unwrap();
        assert_eq!((targets.lines(), targets.hosts().len()), (3, 2));
        assert_eq!(targets.to_string(), "http://a/{id} and 2 more");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line_and_without_secrets() {
        let long = format!("http://a/{}\n", "x".repeat(70_000));
        for (text, says) in [
            (&b""[..], "holds no URL"),
            (b"http://a/\n\nftp://b/\n", "line 3: the URL `ftp://b/`"),
            (
                b"#\nhttp://u:secret@a/\n",
                "line 2: the URL holds a user name",
            ),
            (b"\xef\xbb\xbfftp://b/", "line 1: the URL `ftp://b/`"),
            (b"http://a/\n\xff\xfe\n", "line 2 is not UTF-8 text"),
            (long.as_bytes(), "line 1 is longer than 64 KiB"),
        ] {
            let said = parse(text).unwrap_err().to_string();
            assert!(said.contains(says) && !said.contains("secret"), "{said}");
        }
        assert!(
            read_urls(Path::new("/nowhere/urls"))
                .unwrap_err()
                .to_string()
                .starts_with("cannot be read")
        );
    }
}
