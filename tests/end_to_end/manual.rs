//! Completions and manual pages, as bash and man read them. A program that is not installed is
//! skipped, aloud.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::command::call_line;

fn output(program: &str, arguments: &[&str], place: &Path) -> Option<Output> {
    let mut command = Command::new(program);
    match command
        .args(arguments)
        .current_dir(place)
        .env("TERM", "vt100")
        .output()
    {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            eprintln!("skipped: {program} is not installed");
            None
        }
        Err(error) => panic!("{program}: {error}"),
    }
}

#[test]
fn bash_completes_commands_flags_and_values() {
    let place = tempfile::tempdir().unwrap();
    let script = call_line(place.path(), "completions bash");
    assert_eq!(script.code, Some(0), "{}", script.stderr);
    fs::write(place.path().join("crawlmark.bash"), script.stdout).unwrap();
    for (before, typed, expected) in [
        ("crawlmark", "sel", &["selftest"][..]),
        ("run", "--connections-p", &[]),
        (
            "run",
            "--conn",
            &[
                "--connect-rate",
                "--connect-timeout",
                "--connect-to",
                "--connections",
            ],
        ),
        ("--color", "al", &["always"]),
        ("completions", "z", &["zsh"]),
    ] {
        let (words, at) = match before {
            "crawlmark" => (format!("crawlmark {typed}"), 1),
            _ => (format!("crawlmark {before} {typed}"), 2),
        };
        let script = format!(
            "source crawlmark.bash; COMP_WORDS=({words}); COMP_CWORD={at}; \
             _crawlmark crawlmark '{typed}' '{before}'; echo \"${{COMPREPLY[*]}}\""
        );
        let Some(output) = output("bash", &["--norc", "-c", &script], place.path()) else {
            return;
        };
        let found = String::from_utf8(output.stdout).unwrap();
        let mut found: Vec<&str> = found.split_whitespace().collect();
        found.sort_unstable();
        assert_eq!(found, expected, "{before} {typed}");
    }
    for (shell, says) in [
        ("fish", "complete -c crawlmark"),
        ("zsh", "#compdef crawlmark"),
    ] {
        let script = call_line(place.path(), &format!("completions {shell}")).stdout;
        assert!(
            script.contains(says) && script.contains("retry-budget"),
            "{script}"
        );
    }
}

#[test]
fn man_reads_the_page_of_each_command() {
    let place = tempfile::tempdir().unwrap();
    let written = call_line(place.path(), "man --out man1");
    assert_eq!(written.code, Some(0), "{}", written.stderr);
    let pages = fs::read_dir(place.path().join("man1")).unwrap();
    let pages: Vec<String> = pages
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    // A page for each command, and none for what `help` takes.
    assert!(
        pages.len() > 15 && !pages.iter().any(|page| page.contains("help")),
        "{pages:?}"
    );
    for (page, says) in [
        ("crawlmark", "Exit codes:"),
        ("crawlmark-run", "--retry-budget"),
    ] {
        let path = format!("./man1/{page}.1");
        let flags = ["--warnings", "-E", "UTF-8", "-l", &path];
        let Some(output) = output("man", &flags, place.path()) else {
            return;
        };
        // Man warns of what it cannot set.
        let complaints = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && complaints.is_empty(),
            "{page}: {complaints}"
        );
        assert!(
            String::from_utf8_lossy(&output.stdout).contains(says),
            "{page}"
        );
    }
    let one = call_line(place.path(), "man").stdout;
    assert_eq!(
        one,
        fs::read_to_string(place.path().join("man1/crawlmark.1")).unwrap()
    );
}

#[test]
fn the_long_version_names_the_build() {
    let [short, long] = ["-V", "--version"].map(|flag| call_line(Path::new("."), flag).stdout);
    let version = concat!("crawlmark ", env!("CARGO_PKG_VERSION"));
    assert_eq!(short.trim_end(), version);
    let lines: Vec<&str> = long.lines().collect();
    assert_eq!(lines[0], version);
    for (line, name) in lines[1..].iter().zip(["commit:", "date:", "target:"]) {
        let value = line.strip_prefix(name).unwrap().trim();
        let is_hash = value.len() == 40 && value.bytes().all(|byte| byte.is_ascii_hexdigit());
        assert!(name != "commit:" || is_hash || value == "unknown", "{long}");
        assert!(!value.is_empty(), "{long}");
    }
}
