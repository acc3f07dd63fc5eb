//! Doc comments open with the verb or the noun: see that none opens with a word that puts off saying what a thing is.

#![expect(clippy::unwrap_used, reason = "a test that panics is a test that fails")]

use std::fs;
use std::path::{Path, PathBuf};

/// Openings that say nothing yet.
const RIDDLES: &[&str] = &[
    "Why", "Whether", "How", "What", "Where", "Which", "Who", "Whose", "Whoever", "It", "This", "These", "That", "Of",
    "So many", "The same", "Nobody", "Somebody",
];

fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The first line of each doc comment, without its marker, with its file and line.
fn openings() -> Vec<(String, String)> {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut files, mut openings) = (Vec::new(), Vec::new());
    for directory in
        ["src", "../src", "../results/src", "../mock-server/src", "../benches"].map(|directory| harness.join(directory))
    {
        sources(&directory, &mut files);
    }
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        let comment = |line: &str| {
            let line = line.trim_start();
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(|text| text.trim().to_owned())
        };
        let mut is_open = false;
        for (number, line) in (1..).zip(text.lines()) {
            let opening = comment(line).filter(|_| !is_open);
            is_open = comment(line).is_some();
            openings.extend(opening.map(|opening| (format!("{}:{number}", file.display()), opening)));
        }
    }
    openings
}

#[test]
fn doc_comments_open_with_a_verb_or_a_noun() {
    let openings = openings();
    assert!(openings.len() > 3_000, "{} doc comments", openings.len());
    let mut wrong = Vec::new();
    for word in RIDDLES {
        let opens = |text: &str| text.strip_prefix(word).is_some_and(|rest| rest.starts_with(' '));
        let those = openings.iter().filter(|(_, text)| opens(text));
        wrong.extend(those.map(|(place, text)| format!("  {place}: {text}")));
    }
    assert!(wrong.is_empty(), "open with the verb or the noun (a bool is \"True if ...\"):\n{}", wrong.join("\n"));
}
