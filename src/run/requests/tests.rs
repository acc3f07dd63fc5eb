//! The formats of request files, and their errors.

use crawlmark_harness::text_file::plain;
use proptest::prelude::*;

use super::laws::{check, shape};
use super::*;

fn file(text: &str, base: Option<&str>) -> Result<RequestFile, Fault> {
    let base = base.map(|url| url.parse::<Template>().unwrap());
    let text = plain(text.as_bytes().to_vec());
    build(parse(&text)?, base.as_ref(), &shape())
}

/// Method and URL of each line.
fn requests(file: &RequestFile) -> Vec<String> {
    let method = |line: &Line| {
        line.shape
            .as_ref()
            .map_or("-", |shape| shape.method().as_str())
            .to_owned()
    };
    file.lines
        .iter()
        .map(|line| format!("{} {}", method(line), line.template))
        .collect()
}

#[test]
fn each_format_is_found_by_its_content() {
    let base = Some("http://h:81");
    let combined = "::1 - bob smith [31/Jan/2026:23:59:59 +0200] \"GET /b?{x} HTTP/1.1\" 200 5 \"http://r/\" \"agent 1\"\n";
    let har = r#" { "log": {"version": "1.2", "entries": [
        {"startedDateTime": "2026-01-31T22:59:59.250+01:00", "request": {"method": "POST", "url": "https://h/p?q={x}#top",
         "headers": [{"name": ":path", "value": "/p"}, {"name": "Host", "value": "h"}, {"name": "X-A", "value": "1"}],
         "postData": {"mimeType": "text/plain", "text": "hello {id}"}}, "response": {"status": 200}},
        {"startedDateTime": "2026-01-31T22:00:00.000Z", "request": {"method": "GET", "url": "data:text/plain,x", "headers": []}}]}}"#;
    for (text, base, found) in [
        (r#"{"url":"http://a/{id}"}"#, None, &["- http://a/{id}"][..]),
        (
            "\u{feff}\n{\"method\":\"PUT\",\"url\":\"/x\"}\r\n\n{\"url\":\"/y\"}\n",
            base,
            &["PUT http://h:81/x", "- http://h:81/y"],
        ),
        (combined, base, &["GET http://h:81/b?%7Bx%7D"]),
        (
            &combined.replace("::1", "UNKNOWN"),
            base,
            &["GET http://h:81/b?%7Bx%7D"],
        ),
        (har, None, &["POST https://h/p?q=%7Bx%7D"]),
    ] {
        assert_eq!(requests(&file(text, base).unwrap()), found, "{text}");
    }
    let (archive, log) = (file(har, None).unwrap(), file(combined, base).unwrap());
    let names = |file: &RequestFile| {
        file.lines[0]
            .shape
            .as_ref()
            .unwrap()
            .header_names()
            .join(" ")
    };
    assert_eq!(
        names(&archive),
        "host user-agent accept x-all content-length x-a"
    );
    let recorded = archive.lines[0].shape.as_ref().unwrap();
    assert!(
        !recorded.has_id() && recorded.body(7) == "hello {id}",
        "what was recorded is text"
    );
    assert!(
        archive
            .skipped
            .unwrap()
            .contains("1 line or entry cannot be sent again and is left out")
    );
    assert!(
        names(&log).contains("referer") && log.skipped.is_none(),
        "{}",
        names(&log)
    );
}

#[test]
fn times_count_from_the_earliest() {
    let ms = |file: &RequestFile| {
        file.times
            .clone()
            .map(|times| times.iter().map(Duration::as_millis).collect::<Vec<_>>())
    };
    let line = |at: &str| format!("{{\"url\":\"http://a/\",\"at\":{at}}}\n");
    let seconds = [line("2.5"), line("1"), line("1.001")].concat();
    assert_eq!(ms(&file(&seconds, None).unwrap()), Ok(vec![1_500, 0, 1]));
    let zones = [
        line("\"2026-01-01T00:00:00.5Z\""),
        line("\"2026-01-01T01:30:01+01:30\""),
        line("\"2025-12-31T18:00:00-06:00\""),
    ];
    assert_eq!(
        ms(&file(&zones.concat(), None).unwrap()),
        Ok(vec![500, 1_000, 0])
    );
    let untimed = [line("1"), "{\"url\":\"http://a/\"}\n".to_owned()].concat();
    assert_eq!(ms(&file(&untimed, None).unwrap()), Err("line 2".to_owned()));
    // A log has whole seconds, over which its requests are spread; most of them are written when
    // they end.
    let log = |second: u32, path: &str| {
        format!("h - - [01/Feb/2026:00:00:{second:02} +0000] \"GET /{path} HTTP/1.1\" 200 1\n")
    };
    let text = [
        log(0, "a"),
        log(1, "b"),
        log(0, "c"),
        log(3, "d"),
        log(0, "e"),
        log(0, "f"),
    ]
    .concat();
    assert_eq!(
        ms(&file(&text, Some("http://h")).unwrap()),
        Ok(vec![0, 1_000, 250, 3_000, 500, 750])
    );
}

#[test]
fn what_is_wrong_is_refused_without_secrets() {
    let log = "h - - [01/Fev/2026:00:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
    for (text, base) in [
        ("# nothing\n\n", None),
        ("http://a/\n", None),
        ("{\"url\":\"http://a/\"}\n{\"url\":\"http://secret", None),
        (r#"{"url":"http://a/","header":{"x":["secret",5]}}"#, None),
        (r#"{"url":"http://a/","header":{"x":"se\ncret"}}"#, None),
        (r#"{"url":"http://a/","body":"secret!"}"#, None),
        (
            r#"{"url":"http://a/","body":"e30=","body_text":"secret"}"#,
            None,
        ),
        (
            "{\"url\":\"http://a/\",\"at\":1}\n{\"url\":\"http://a/\",\"at\":\"2026-01-01T00:00:00Z\"}",
            None,
        ),
        (r#"{"method":"GET"}"#, None),
        (r#"{"url":"http://a{\nb}/"}"#, None),
        (r#"{"url":"http://u:secret@a/"}"#, None),
        (r#"{"url":"/x"}"#, None),
        (r#"{"url":"http://a/"}"#, Some("http://h")),
        (r#"{"url":"/x"}"#, Some("http://h/y")),
        (
            r#"{"log":{"entries":[{"request":{"method":"GET","url":5}}]}}"#,
            None,
        ),
        (log, Some("http://h")),
    ] {
        let said = file(text, base).unwrap_err();
        assert!(!said.contains("secret"), "{said}");
    }
}

#[test]
fn a_line_of_a_log_that_cannot_be_sent_is_left_out_and_counted() {
    let line = |user: &str, request: &str| {
        format!("1.2.3.4 - {user} [01/Feb/2026:00:00:00 +0000] \"{request}\" 200 1 \"-\" \"x\"\n")
    };
    let good = line("-", "GET /good HTTP/1.1");
    for (other, sent) in [
        (line("\"\"", "GET /2 HTTP/1.0"), Some("/2")),
        (line("j[o", "GET /2 HTTP/1.0"), Some("/2")),
        (line("-", "GET /a b/c HTTP/1.1"), Some("/a%20b/c")),
        (
            line("-", "GET /caf\u{e9}?q=\u{fc} HTTP/2.0"),
            Some("/caf%C3%A9?q=%C3%BC"),
        ),
        (line("-", "GET /a?b|c=[d] HTTP/1.1"), Some("/a?b|c=[d]")),
        (line("-", "-"), None),
        (line("-", "POST /2 HTTP/1.1"), None),
        (line("-", "GET /a\\x22b HTTP/1.1"), None),
        (line("-", "GET http://u:secret@h/ HTTP/1.1"), None),
        (line("-", "GET /2 HTTP/1.1")[..50].to_owned() + "\n", None),
        ("logrotate: rotated\n".to_owned(), None),
    ] {
        for text in [
            [&*other, &good, &good].concat(),
            [&*good, &other, &good].concat(),
            [&*good, &good, &other].concat(),
        ] {
            let file = file(&text, Some("http://h")).unwrap();
            let wanted = sent.map(|path| format!("GET http://h{path}"));
            let found = requests(&file);
            let others: Vec<_> = found
                .iter()
                .filter(|request| *request != "GET http://h/good")
                .collect();
            assert_eq!(
                (others, found.len()),
                (wanted.iter().collect(), 2 + wanted.iter().len()),
                "{text}"
            );
            assert_eq!(file.skipped.is_some(), wanted.is_none(), "{text}");
            assert_eq!(file.times.unwrap().len(), found.len());
        }
    }
}

#[test]
fn null_in_an_archive_is_as_good_as_nothing() {
    let entry = |started: &str, request: &str| {
        format!(
            r#"{{"startedDateTime": {started}, "request": {{"method": "POST", "url": "http://a/", {request}}}}}"#
        )
    };
    let time = "\"2026-01-31T22:00:00.000Z\"";
    for (other, body) in [
        (
            entry(time, r#""headers": null, "postData": null"#),
            Some(""),
        ),
        (
            entry(
                time,
                r#""headers": [{"name": "x-a"}, {"name": "x-b", "value": null}, {"name": null}]"#,
            ),
            Some(""),
        ),
        (
            entry(
                time,
                r#""postData": {"mimeType": null, "text": "x", "params": null}"#,
            ),
            Some("x"),
        ),
        (
            entry(
                time,
                r#""postData": {"text": "eA==", "encoding": "base64"}"#,
            ),
            Some("x"),
        ),
        (
            entry(
                time,
                r#""postData": {"text": null, "params": [{"name": "a b", "value": "&"}, {"name": "c"}]}"#,
            ),
            Some("a+b=%26&c="),
        ),
        (entry("null", r#""headers": []"#), Some("")),
        (
            entry(time, r#""postData": {"text": "!", "encoding": "base64"}"#),
            None,
        ),
        (
            entry(
                time,
                r#""postData": {"mimeType": "multipart/form-data", "params": [{"name": "a"}]}"#,
            ),
            None,
        ),
        (
            entry(time, r#""headers": [{"name": "x y", "value": "1"}]"#),
            None,
        ),
        (
            entry(time, r#""headers": []"#).replace("http://a/", "http://u:secret@a/"),
            None,
        ),
    ] {
        let text = format!(
            "{{\"log\": {{\"entries\": [{}, {other}]}}}}",
            entry(time, "\"headers\": []")
        );
        let file = file(&text, None).unwrap();
        let bodies = file
            .lines
            .iter()
            .skip(1)
            .map(|line| line.shape.as_ref().unwrap().body(0));
        assert_eq!(
            bodies.collect::<Vec<_>>(),
            body.into_iter().collect::<Vec<_>>(),
            "{other}"
        );
        assert_eq!(
            (file.skipped.is_some(), file.lines.len()),
            (body.is_none(), 1 + body.iter().len()),
            "{other}"
        );
    }
}

const PARTS: &[&str] = &[
    "{",
    "}",
    "\"log\":",
    "{\"entries\":[",
    "\"request\":",
    "\"url\":\"http://a/\"",
    "\"url\":\"/\"",
    ",",
    "\"at\":1",
    "\"at\":\"2026-01-01T00:00:00+é1:00\"",
    "\"header\":{\"x\":\"1\"}",
    "\"weight\":3",
    "\n",
    "GET ",
    "http://a/",
    "/x",
    "@file",
    "x-a: 1",
    "h - - [01/Feb/2026:00:00:00 +0000] ",
    "\"GET / HTTP/1.1\" ",
    "200 1",
    "\"-\" ",
    "\\\"",
    "é",
    "\0",
    "\u{feff}",
    "#",
];

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        check(&bytes);
    }

    #[test]
    fn any_pieces_of_the_formats_are_read_or_refused(parts in prop::collection::vec(prop::sample::select(PARTS), 0..40)) {
        check(parts.concat().as_bytes());
    }
}
