//! The bundled target's stubs as its users run them: `serve --stubs`, over real processes and
//! connections, with the counts as the second witness. That their answers are WireMock's is what
//! `wiremock` tests.

mod admin;
mod answers;
mod refusals;

use std::fs;

use tempfile::TempDir;

/// A directory with these files.
pub(crate) fn place(files: &[(&str, &str)]) -> TempDir {
    let place = tempfile::tempdir().unwrap();
    for (name, content) in files {
        let path = place.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    place
}

/// A directory whose mapping files hold these stubs.
pub(crate) fn stubs(stubs: &serde_json::Value) -> TempDir {
    place(&[(
        "mappings/all.json",
        &serde_json::json!({ "mappings": stubs }).to_string(),
    )])
}

/// The flags of a target with these stubs.
pub(crate) fn flags(place: &TempDir, more: &str) -> String {
    format!("--stubs {} {more}", place.path().display())
}
