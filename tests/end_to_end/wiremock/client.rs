//! WireMock's own Python client against WireMock and against the bundled target: one script of calls,
//! one outcome (`tests/consumers/wiremock_admin.py`).

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use super::WireMock;
use crate::stubs::{flags, place};
use crate::target::Target;

const LOADED: &str = r#"{"id": "6f9a3c1e-0000-4000-8000-0000000000ff", "request": {"url": "/loaded"}, "response": {"body": "loaded"}}"#;

#[test]
#[ignore = "needs WireMock, Java and WireMock's Python client: .ci/run"]
fn wiremocks_python_client_has_the_same_outcome() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let python = here.join("target/consumers/bin/python");
    let client = Command::new(&python)
        .args(["-c", "import wiremock.client"])
        .output();
    if !client.is_ok_and(|said| said.status.success()) {
        eprintln!("skipped: {} has no package wiremock", python.display());
        return;
    }
    let drive = |address: &str| -> Vec<Value> {
        let script = here.join("tests/consumers/wiremock_admin.py");
        let said = Command::new(&python)
            .arg(script)
            .arg(format!("http://{address}"))
            .output()
            .unwrap();
        assert!(
            said.status.success(),
            "{}",
            String::from_utf8_lossy(&said.stderr)
        );
        serde_json::from_slice(&said.stdout).unwrap()
    };
    // Each has files of its own: WireMock removes those whose stubs are removed.
    let files = || place(&[("mappings/loaded.json", LOADED)]);
    let expected = {
        let files = files();
        drive(&WireMock::start(files.path()).address)
    };
    assert!(expected.len() > 30, "{expected:?}");
    for processes in [1, 3] {
        let files = files();
        let target = Target::start(&flags(
            &files,
            &format!("--journal --processes {processes}"),
        ));
        let outcome = drive(target.address());
        let differences: Vec<String> = expected
            .iter()
            .zip(&outcome)
            .filter(|(expected, outcome)| expected != outcome)
            .map(|(expected, outcome)| format!("WireMock {expected}\ntarget   {outcome}"))
            .collect();
        assert!(
            differences.is_empty() && expected.len() == outcome.len(),
            "{processes} processes:\n{}",
            differences.join("\n")
        );
        target.stop();
    }
}
