//! Files that flags of `run` name: lists of URLs and of requests, and bodies. Each is read once,
//! before anything is sent, and to a limit: what has no end must not be read to it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use bytes::Bytes;
use crawlmark_harness::text_file::plain;

use crate::crawl::{Targets, Template, TemplateError};

/// The name of standard input.
const STDIN: &str = "-";

/// Largest list, MiB. It is in memory while it is read, beside about 500 bytes per request.
const MOST_LIST: u64 = 256;

/// Largest body, MiB: each shard keeps it.
const MOST_BODY: u64 = 64;

/// Read the list at `path`, or standard input, as [`plain`] text. Errors read after the name of the file.
pub(super) fn read_list(path: &Path) -> Result<Vec<u8>, String> {
    let remedy = "Check the path, or write - for standard input";
    let text = if path == Path::new(STDIN) {
        read(io::stdin().lock(), MOST_LIST, remedy)
    } else {
        open(path, MOST_LIST, remedy)
    };
    text.map(plain)
}

/// Read a body. Errors read after the name of the file.
pub(super) fn read_body(path: &Path) -> Result<Bytes, String> {
    open(path, MOST_BODY, "Check the path").map(Bytes::from)
}

fn open(path: &Path, most: u64, remedy: &str) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| unreadable(&error, remedy))?;
    read(file, most, remedy)
}

fn read(file: impl Read, most: u64, remedy: &str) -> Result<Vec<u8>, String> {
    let mut text = Vec::new();
    file.take((most << 20) + 1)
        .read_to_end(&mut text)
        .map_err(|error| unreadable(&error, remedy))?;
    if text.len() as u64 > most << 20 {
        return Err(format!(" is longer than {most} MiB"));
    }
    Ok(text)
}

fn unreadable(error: &io::Error, remedy: &str) -> String {
    format!(" cannot be read: {error}. {remedy}")
}

/// Iterate over the lines of a list without white space around them, by their numbers.
pub(super) fn lines(text: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    text.split(|byte| *byte == b'\n')
        .enumerate()
        .map(|(at, line)| (at + 1, line.trim_ascii()))
}

/// Read the URLs of a list, one per line. Errors read after the name of the file.
pub(super) fn parse_urls(text: &[u8]) -> Result<Targets, String> {
    let templates: Vec<Template> = lines(text)
        .filter(|(_, line)| !line.is_empty() && !line.starts_with(b"#"))
        .map(|(number, line)| {
            let line = std::str::from_utf8(line).map_err(|_| {
                format!(": line {number} is not UTF-8 text: save the file as UTF-8")
            })?;
            let template = line.parse::<Template>();
            template.map_err(|error| format!(": line {number}: {error}"))
        })
        .collect::<Result<_, String>>()?;
    let targets = Targets::collect::<_, TemplateError>(templates.into_iter().map(Ok))
        .map_err(|error| format!(": {error}"))?;
    if targets.lines() == 0 {
        return Err(": holds no URL: write one per line".to_owned());
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blank_lines_and_comments_are_no_urls() {
        let text =
            "# what is crawled\n\nhttp://a/{id}\n  http://b:81/x  \n#http://c/\n\nhttp://A/z";
        let targets = parse_urls(text.as_bytes()).unwrap();
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
            (b"http://a/\n\xff\xfe\n", "line 2 is not UTF-8 text"),
            (long.as_bytes(), "line 1: "),
        ] {
            let said = parse_urls(text).unwrap_err();
            assert!(said.contains(says) && !said.contains("secret"), "{said}");
        }
    }
}
