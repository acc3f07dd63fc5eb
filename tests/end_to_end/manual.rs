//! Completions and manual pages, as shells and man read them. A shell that is not installed is
//! skipped, aloud.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test whose program cannot be started is over"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::run::program;

#[expect(
    clippy::print_stderr,
    reason = "a shell that is not installed is skipped aloud"
)]
fn output(program: &str, arguments: &[&str], place: &Path) -> Option<Output> {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(place)
        .env("HOME", place)
        .env("TERM", "vt100")
        .stdin(Stdio::null());
    match command.output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

/// A directory with the completions of a shell in `file`.
fn with_completions(shell: &str, file: &str) -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let script = Command::new(program())
        .args(["completions", shell])
        .output()
        .unwrap();
    assert!(script.status.success(), "{script:?}");
    fs::write(place.path().join(file), script.stdout).unwrap();
    place
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let place = with_completions("bash", "crawlmark.bash");
    for (words, expected) in [
        (&["sel"][..], "selftest"),
        (&["run", "--connections-p"], ""),
        (
            &["run", "--conn"],
            "--connections --connect-rate --connect-to --connect-timeout",
        ),
        (&["--color", "al"], "always"),
        (&["completions", "z"], "zsh"),
    ] {
        let line = ["crawlmark"]
            .iter()
            .chain(words)
            .map(|word| format!("'{word}'"))
            .collect::<Vec<_>>()
            .join(" ");
        let last = words.last().unwrap();
        let before = if words.len() > 1 {
            words[words.len() - 2]
        } else {
            "crawlmark"
        };
        let script = format!(
            "source crawlmark.bash; COMP_WORDS=({line}); COMP_CWORD={}; _crawlmark crawlmark '{last}' '{before}'; echo \"${{COMPREPLY[*]}}\"",
            words.len()
        );
        let Some(output) = output("bash", &["--norc", "-c", &script], place.path()) else {
            return;
        };
        let mut found: Vec<String> = text(&output)
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let mut expected: Vec<&str> = expected.split_whitespace().collect();
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{words:?}");
    }
}

#[test]
fn fish_completes_commands_and_flags() {
    let place = with_completions("fish", "crawlmark.fish");
    for (line, expected) in [
        ("crawlmark self", "selftest"),
        ("crawlmark run --retry-b", "--retry-budget"),
        ("crawlmark run --color ne", "never"),
    ] {
        let script = format!("source crawlmark.fish; complete --do-complete '{line}'");
        let Some(output) = output("fish", &["--no-config", "-c", &script], place.path()) else {
            return;
        };
        let found = text(&output);
        assert!(
            found
                .lines()
                .any(|found| found.split('\t').next() == Some(expected)),
            "{line}: {found}"
        );
    }
}

#[test]
fn zsh_completes_commands_and_flags() {
    let place = with_completions("zsh", "_crawlmark");
    // A shell on a terminal of its own: completion is part of zsh's line editor. Each read waits
    // for its text; a hang ends with `timeout`.
    let script = r#"
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; PROMPT=is-"ready "'
zpty -r -m shell line '*is-ready*'
zpty -w -n shell $'crawlmark '"$1"$'\t'
zpty -r -m shell line "*$2*"
print -r -- is-completed
zpty -d shell
"#;
    for (typed, expected) in [("selft", "selftest"), ("run --retry-b", "--retry-budget")] {
        let words = ["20", "zsh", "-f", "-c", script, "zsh", typed, expected];
        if output("zsh", &["--version"], place.path()).is_none() {
            return;
        }
        let output = output("timeout", &words, place.path()).unwrap();
        assert!(
            text(&output).contains("is-completed"),
            "{typed}: {}",
            text(&output)
        );
    }
}

#[test]
fn man_reads_the_page_of_each_command() {
    let place = tempfile::tempdir().unwrap();
    let written = Command::new(program())
        .args(["man", "--out", "share/man1"])
        .current_dir(place.path())
        .output()
        .unwrap();
    assert!(written.status.success(), "{written:?}");
    let mut pages: Vec<String> = fs::read_dir(place.path().join("share/man1"))
        .unwrap()
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    pages.sort();
    assert!(
        pages.len() > 15 && pages.iter().all(|page| page.ends_with(".1")),
        "{pages:?}"
    );
    // A page for each command, and none for what `help` takes.
    assert!(!pages.iter().any(|page| page.contains("help")), "{pages:?}");
    for (page, says) in [
        ("crawlmark.1", "Exit codes:"),
        ("crawlmark-run.1", "--retry-budget"),
        ("crawlmark-ab.1", "Examples:"),
    ] {
        assert!(pages.iter().any(|name| name == page), "{page}: {pages:?}");
        let path = format!("./share/man1/{page}");
        let Some(output) = output(
            "man",
            &["--warnings", "-E", "UTF-8", "-l", &path],
            place.path(),
        ) else {
            return;
        };
        // Man warns of what it cannot set.
        assert!(
            output.status.success() && output.stderr.is_empty(),
            "{page}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        assert!(
            String::from_utf8_lossy(&output.stdout).contains(says),
            "{page}"
        );
    }
    let one = Command::new(program()).arg("man").output().unwrap();
    assert_eq!(
        one.stdout,
        fs::read(place.path().join("share/man1/crawlmark.1")).unwrap()
    );
}

#[test]
fn the_long_version_names_the_build() {
    let [short, long] =
        ["-V", "--version"].map(|flag| text(&Command::new(program()).arg(flag).output().unwrap()));
    let version = concat!("crawlmark ", env!("CARGO_PKG_VERSION"));
    assert_eq!(short.trim_end(), version);
    let mut lines = long.lines();
    assert_eq!(lines.next(), Some(version));
    for name in ["commit:", "date:", "target:", "features:"] {
        let line = lines.next().unwrap_or_default();
        let value = line.strip_prefix(name).unwrap_or_default().trim();
        assert!(!value.is_empty(), "{long}");
        let is_hash = value.len() == 40 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(name != "commit:" || is_hash || value == "unknown", "{long}");
    }
}
