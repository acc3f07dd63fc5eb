//! Texts of the sources that a compiler does not check: doc comments open with the verb or the noun, and modules import each
//! other in the order that the table of their crate claims.

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
    for directory in ["src", "../src", "../results/src", "../mock-server/src", "../benches", "../examples"]
        .map(|directory| harness.join(directory))
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

/// Modules in the table of a crate's documentation, from the first column of its rows, in order.
fn listed(lib: &str) -> Vec<&str> {
    let rows = lib.lines().filter_map(|line| line.strip_prefix("//! | "));
    let first = rows.filter_map(|row| row.split(" | ").next());
    first.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

/// Modules of the crate that `text` imports or names by `crate::`, outside of comments and of its tests at the end.
fn imports(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().zip(text.lines().skip(1).chain([""]));
    let code = lines.take_while(|(line, next)| line.trim() != "#[cfg(test)]" || !next.ends_with('{'));
    let code = code.map(|(line, _)| line).filter(|line| !line.trim_start().starts_with("//"));
    let paths = code.flat_map(|line| line.split("crate::").skip(1));
    paths.filter_map(|path| path.split(|letter: char| !letter.is_ascii_lowercase() && letter != '_').next())
}

#[test]
fn modules_import_only_those_listed_above_them() {
    let harness = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut seen, mut wrong) = (0, Vec::new());
    for root in ["src", "../mock-server/src"].map(|root| harness.join(root)) {
        let lib = fs::read_to_string(root.join("lib.rs")).unwrap();
        let order = listed(&lib);
        let place = |module: &str| order.iter().position(|&listed| listed == module);
        let mut files = Vec::new();
        sources(&root, &mut files);
        for file in files.iter().filter(|file| !file.to_string_lossy().contains("tests")) {
            let path = file.strip_prefix(&root).unwrap();
            let module = Path::new(path.iter().next().unwrap()).file_stem().unwrap().to_string_lossy();
            let Some(own) = place(&module) else {
                assert!(["lib", "main"].contains(&&*module), "{} is not in the table of its crate", file.display());
                continue;
            };
            let text = fs::read_to_string(file).unwrap();
            for import in imports(&text).filter(|import| !import.is_empty()) {
                seen += 1;
                // A macro or a type at the root is not a module.
                if place(import).is_some_and(|other| other > own) {
                    wrong.push(format!("  {}: {import}", file.display()));
                }
            }
        }
    }
    assert!(seen > 300, "{seen} imports");
    assert!(wrong.is_empty(), "imports of modules that their crate lists further down:\n{}", wrong.join("\n"));
}
