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
/// its file.
const WRONG: [(&str, &str); 26] = [
    ("{\n \"request\": {,}\n}", "line 2, column 14: "),
    ("{'request': {'url': '/'}", "line 1, column 25: "),
    (
        r#"{"request": {"urlPaht": "/"}}"#,
        "/request/urlPaht: unknown field `urlPaht`; did you mean urlPath",
    ),
    (
        r#"{"request": {"urlPattern": "/(?U)a.*"}}"#,
        "/request/urlPattern: a regular expression with the flag",
    ),
    (
        r#"{"request": {"urlPathPattern": "/a\\R"}}"#,
        "/request/urlPathPattern: this escape in a regular expression",
    ),
    (
        r#"{"request": {"urlPattern": "/("}}"#,
        "/request/urlPattern: not a regular expression: unclosed group",
    ),
    (
        r#"{"request": {"headers": {"A": {"matches": "(?U)a"}}}}"#,
        "/request/headers/A/matches: a regular expression with",
    ),
    (
        r#"{"response": {"fixedDelayMilliseconds": -1}}"#,
        "/response/fixedDelayMilliseconds: a delay of -1 ms is negative",
    ),
    (
        r#"{"response": {"fixedDelayMilliseconds": 3600001}}"#,
        "/response/fixedDelayMilliseconds: a delay of 3600001 ms is longer than an hour",
    ),
    (
        r#"{"response": {"chunkedDribbleDelay": {"numberOfChunks": 0, "totalDuration": 1}}}"#,
        "/response/chunkedDribbleDelay/numberOfChunks: ",
    ),
    (
        r#"{"response": {"delayDistribution": {"type": "lognormal", "median": 9, "sigma": 1, "maxValue": 8}}}"#,
        "/response/delayDistribution/maxValue: the maximum 8 is below the median 9",
    ),
    (
        r#"{"response": {"delayDistribution": {"type": "uniform", "lower": 2, "upper": 1}}}"#,
        "/response/delayDistribution: the lower end 2 is above the upper end 1",
    ),
    (
        r#"{"response": {"bodyFileName": "none.txt"}}"#,
        "/response/bodyFileName: the body file `",
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
        r#"{"request": {"customMatcher": {"name": "x"}}}"#,
        "/request/customMatcher: `customMatcher` is not supported",
    ),
    (
        r#"{"request": {"bodyPatterns": [{"matchesXPath": "//a"}]}}"#,
        "/request/bodyPatterns/0/matchesXPath: the operator `matchesXPath` is not supported",
    ),
    (
        r#"{"response": {"proxyBaseUrl": "http://a.example"}}"#,
        "/response/proxyBaseUrl: answering as a proxy is not supported",
    ),
    (
        r#"{"response": {"transformers": ["own"]}}"#,
        "/response/transformers/0: the transformer `own` is not supported",
    ),
    (
        r#"{"response": {"transformers": ["response-template"], "body": "{{xPath request.body '/a'}}"}}"#,
        "/response/body: the helper `xPath` is not supported",
    ),
    (
        r#"{"response": {"fault": "FIRE"}}"#,
        "/response/fault: `FIRE` is not a valid fault: write one of CONNECTION_RESET_BY_PEER",
    ),
    (
        r#"{"response": {"status": 42}}"#,
        "/response/status: `42` is not an HTTP status",
    ),
    (
        r#"{"mappings": [{"id": "6f9a3c1e-0000-4000-8000-000000000001"}, {"uuid": "6f9a3c1e-0000-4000-8000-000000000001"}]}"#,
        "/mappings/1: the id 6f9a3c1e-0000-4000-8000-000000000001 is already taken",
    ),
    (
        r#"{"request": {"bodyPatterns": [{"equalToJson": ""}]}}"#,
        "/request/bodyPatterns/0/equalToJson: not JSON: ",
    ),
    ("[]", "the whole document: expected an object"),
    ("", "line 1, column 1: there is no value"),
];

#[test]
fn each_is_refused_with_its_file_and_place() {
    for (stub, said) in WRONG {
        let root = place(&[
            ("mappings/deep/er.json", stub),
            ("mappings/fine.json", "{}"),
            ("__files/fine.txt", ""),
        ]);
        std::os::unix::fs::symlink("/etc/hostname", root.path().join("__files/out.txt")).unwrap();
        let refusal = refusal(root.path(), &[]);
        assert!(
            refusal.contains(&format!("deep/er.json: {said}")),
            "{stub}\n{said}\n{refusal}"
        );
    }
}

#[test]
fn all_are_listed_at_once() {
    let named: Vec<(String, &str)> = WRONG
        .iter()
        .take(18)
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
    for (index, (_, said)) in WRONG.iter().take(18).enumerate() {
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
