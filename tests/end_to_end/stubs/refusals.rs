//! What cannot be served is refused before anything listens: exit code 2, and a message that names
//! file, place and feature, for all that is wrong at once.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::path::Path;

use assert_cmd::Command;

use super::{flags, place};
use crate::client::Client;
use crate::process::DEADLINE;
use crate::run::program;
use crate::target::Target;

/// What `serve --stubs` says of a directory that it refuses.
#[track_caller]
fn refusal(root: &Path, more: &[&str]) -> String {
    let mut command = Command::new(program());
    command
        .args([
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--processes",
            "2",
            "--stubs",
        ])
        .arg(root)
        .args(more);
    // A target that serves after all is ended by the deadline.
    let output = command.timeout(DEADLINE).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), output.stdout.as_slice()),
        (Some(2), &b""[..]),
        "{stderr}"
    );
    assert!(
        stderr.starts_with("error: --stubs: ") && stderr.matches("error: ").count() == 1,
        "one message: {stderr}"
    );
    stderr
}

/// Stubs that are wrong, or ask for what is not served, and what is said of each behind the name of
/// its file. All other places are tested where they are read.
const WRONG: [(&str, &str); 7] = [
    ("{\n \"request\": {,}\n}", "line 2, column 14: "),
    (
        r#"{"request": {"urlPaht": "/"}}"#,
        "/request/urlPaht: unknown field `urlPaht`; did you mean urlPath",
    ),
    (
        r#"{"response": {"fixedDelayMilliseconds": -1}}"#,
        "/response/fixedDelayMilliseconds: a delay of -1 ms",
    ),
    (
        r#"{"response": {"bodyFileName": "../mappings/00.json"}}"#,
        "/response/bodyFileName: `../mappings/00.json` is outside the folder",
    ),
    (
        r#"{"response": {"bodyFileName": "out.txt"}}"#,
        "/response/bodyFileName: `out.txt` is outside the folder",
    ),
    (
        r#"{"response": {"proxyBaseUrl": "http://a.example"}}"#,
        "/response/proxyBaseUrl: answering as a proxy is not supported",
    ),
    ("", "line 1, column 1: there is no value"),
];

#[test]
fn all_are_listed_at_once() {
    let named: Vec<(String, &str)> = WRONG
        .iter()
        .enumerate()
        .map(|(i, (stub, _))| (format!("mappings/{i:02}.json"), *stub))
        .collect();
    let files: Vec<(&str, &str)> = named
        .iter()
        .map(|(name, stub)| (name.as_str(), *stub))
        .collect();
    let root = place(&[&files[..], &[("__files/fine.txt", "")]].concat());
    std::os::unix::fs::symlink("/etc/hostname", root.path().join("__files/out.txt")).unwrap();
    let refusal = refusal(root.path(), &[]);
    for (index, (_, said)) in WRONG.iter().enumerate() {
        assert!(
            refusal.contains(&format!("\n{index:02}.json: {said}")),
            "{said}\n{refusal}"
        );
    }
    // Those that are beyond a screen are counted.
    let many: Vec<String> = (0..30).map(|i| format!("mappings/{i}.json")).collect();
    let files: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "{")).collect();
    assert!(self::refusal(place(&files).path(), &[]).contains("\nand 10 more"));
}

#[test]
fn a_directory_that_is_none_is_refused() {
    let root = place(&[("__files/a.txt", "")]);
    let none = root.path().join("nothing");
    let refusal_of_none = refusal(&none, &[]);
    assert!(
        refusal_of_none.contains(none.to_str().unwrap())
            && refusal_of_none.contains("No such file")
    );
    assert!(refusal(root.path(), &[]).contains("has no directory `mappings`"));
    assert!(refusal(&root.path().join("__files/a.txt"), &[]).contains("Not a directory"));
}

#[test]
fn lenient_serves_the_rest_and_refuses_what_is_malformed() {
    let lenient = [
        (
            "mappings/good.json",
            r#"{"request": {"url": "/good"}, "response": {"body": "good"}}"#,
        ),
        (
            "mappings/own.json",
            r#"{"request": {"url": "/own"}, "response": {"transformers": ["own"]}}"#,
        ),
        (
            "mappings/two.json",
            r#"{"mappings": [{"request": {"urlPattern": "/(?U)a.*"}}, {"request": {"url": "/two"}}, {"request": {"port": 1}}]}"#,
        ),
    ];
    let root = place(&lenient);
    let (target, said) =
        Target::start_and_listen_to_stderr(&flags(&root, "--lenient --processes 2"));
    for expected in [
        "warning: 3 of 5 stubs are left out:\n",
        "own.json: /response/transformers/0: the transformer `own` is not supported",
        "two.json: /mappings/0/request/urlPattern: a regular expression with the flag",
        "two.json: /mappings/2/request/port: `port` is not supported",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let mut client = Client::connect(&target);
    let asked = ["/good", "/two", "/own", "/other"].map(|path| client.get(path, "").status);
    assert_eq!(asked, [200, 200, 404, 404]);
    let books = target.stop();
    assert_eq!(
        (&books["stub_answers"], &books["unmatched"]),
        (&2.into(), &2.into())
    );

    let root = place(
        &[
            &lenient[..],
            &[("mappings/wrong.json", r#"{"request": {"urll": "/"}}"#)],
        ]
        .concat(),
    );
    let refusal = refusal(root.path(), &["--lenient"]);
    assert!(
        refusal.contains("wrong.json: /request/urll: unknown field")
            && !refusal.contains("own.json"),
        "{refusal}"
    );
}
