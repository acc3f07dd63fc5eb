//! Paths of results: files that are none of a result, and names that hide what they are.

use std::fs;
use std::path::Path;

use nix::sys::stat::Mode;
use serde_json::Value;

use crate::command::{call, json as read_json};
use crate::lost::path;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/results/example");

#[test]
fn a_result_that_is_no_plain_file_is_refused_by_its_path() {
    let place = tempfile::tempdir().unwrap();
    let fifo = place.path().join("fifo");
    nix::unistd::mkfifo(&fifo, Mode::S_IRUSR | Mode::S_IWUSR).unwrap();
    fs::create_dir_all(place.path().join("nested/result.json")).unwrap();
    for given in [path(&fifo), "/dev/zero", "nested"] {
        for args in [&["report", given][..], &["compare", EXAMPLE, given]] {
            let said = call(place.path(), args).code(&[2]);
            assert!(said.stderr.contains(given), "{args:?}: {}", said.stderr);
        }
    }
}

#[test]
fn a_character_that_hides_or_reorders_text_is_shown_by_its_number() {
    // Right-to-left override, zero-width space, escape.
    let evil = "evil\u{202e}txt.\u{200b}\u{1b}[31mred";
    let place = tempfile::tempdir().unwrap();
    for name in ["result", "other"] {
        let mut saved = read_json(&Path::new(EXAMPLE).join("result.json"));
        saved["name"] = format!("{evil}{name}").into();
        saved["environment"]["cpu_model"] = evil.into();
        fs::create_dir(place.path().join(name)).unwrap();
        fs::write(
            place.path().join(name).join("result.json"),
            saved.to_string(),
        )
        .unwrap();
    }
    let mut texts = Vec::new();
    for args in [
        &["report", "result"][..],
        &["report", "result", "--export", "step-summary=summary.txt"],
        &["compare", "result", "other", "--out", "compared"],
        &["report", "result", "evil\u{202e}"],
    ] {
        let said = call(place.path(), args);
        texts.push(said.stdout + &said.stderr);
    }
    for file in ["result/summary.md", "result/report.html", "summary.txt"] {
        let text = fs::read_to_string(place.path().join(file)).unwrap();
        // Markdown has a backslash before its own characters.
        let plain = text.replace("\\\\", "\\").replace("\\[", "[");
        assert!(
            plain.contains("evil\\u202etxt.\\u200b\\u001b[31mred"),
            "{file}: {text}"
        );
        texts.push(text);
    }
    let hides = |c: char| c != '\n' && (c.is_control() || matches!(c, '\u{202e}' | '\u{200b}'));
    for text in &texts {
        assert!(!text.contains(hides), "{text:?}");
    }
    // For programs it is what it was.
    let json = call(place.path(), &["compare", "result", "other", "--json"]);
    serde_json::from_str::<Value>(&json.stdout).unwrap();
}
