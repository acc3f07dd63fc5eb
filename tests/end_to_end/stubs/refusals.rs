//! Stubs that cannot be served are refused before anything listens: exit code 2, and a message that
//! names file, place and feature, for all that is wrong at once. All places are tested where they
//! are read.

use std::path::Path;

use serde_json::json;

use crate::client::Client;
use crate::command::call_line;
use crate::report::holds;
use crate::target::Target;

use super::{flags, place};

/// The message of `serve --stubs` about a directory that it refuses.
#[track_caller]
fn refusal(root: &Path, more: &str) -> String {
    let line = format!(
        "serve --listen 127.0.0.1:0 --stubs {} {more}",
        root.display()
    );
    let said = call_line(root, &line);
    assert_eq!((said.code, &*said.stdout), (Some(2), ""), "{}", said.stderr);
    assert_eq!(
        said.stderr.matches("error: ").count(),
        1,
        "one message: {}",
        said.stderr
    );
    said.stderr
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
            r#"{"mappings": [{"request": {"url": "/two"}}, {"request": {"port": 1}}]}"#,
        ),
    ];
    let root = place(&lenient);
    let line = flags(&root, "--lenient --processes 2");
    let target = Target::start(&line);
    let said = target.stderr();
    for expected in [
        "warning: 2 of 4 stubs are left out:\n",
        "own.json: /response/transformers/0: the transformer `own` is not supported",
        "two.json: /mappings/1/request/port: `port` is not supported",
    ] {
        assert!(said.contains(expected), "{expected}\n{said}");
    }
    let mut client = Client::connect(&target);
    let asked = ["/good", "/two", "/own", "/other"].map(|path| client.get(path, "").status);
    assert_eq!(asked, [200, 200, 404, 404]);
    holds(
        &target.stop(),
        &json!({"/stub_answers": 2, "/unmatched": 2}),
    );
    let wrong = ("mappings/wrong.json", r#"{"request": {"urll": "/"}}"#);
    let root = place(&[&lenient[..], &[wrong]].concat());
    let refusal = refusal(root.path(), "--lenient");
    assert!(
        refusal.contains("wrong.json: /request/urll: unknown field"),
        "{refusal}"
    );
    assert!(!refusal.contains("own.json"), "{refusal}");
}
