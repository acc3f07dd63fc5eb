//! Version of the program, with its commit and target, for `crawlmark --version`.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Stands for what is not known: the sources may come without git, and git without a history.
const UNKNOWN: &str = "unknown";

/// File that `cargo package` adds, with the commit of the sources.
const OF_PACKAGE: &str = ".cargo_vcs_info.json";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let target = env::var("TARGET").unwrap_or_else(|_| UNKNOWN.to_owned());
    let (commit, date) = commit().unwrap_or_else(|| (UNKNOWN.to_owned(), UNKNOWN.to_owned()));
    for (name, value) in [("COMMIT", commit), ("DATE", date), ("TARGET", target)] {
        println!("cargo::rustc-env=CRAWLMARK_{name}={value}");
    }
}

/// Commit of the sources and its date: that which a packager names, that which cargo packaged, or
/// that of the git repository whose root this is.
fn commit() -> Option<(String, String)> {
    let named = ["CRAWLMARK_COMMIT", "CRAWLMARK_DATE"].map(|name| {
        println!("cargo::rerun-if-env-changed={name}");
        env::var(name).ok().filter(|value| !value.is_empty())
    });
    if let [Some(commit), date] = named {
        return Some((commit, date.unwrap_or_else(|| UNKNOWN.to_owned())));
    }
    // A path that does not exist would have cargo run this each time, and compile the program after
    // it.
    if let Ok(text) = fs::read_to_string(OF_PACKAGE) {
        println!("cargo::rerun-if-changed={OF_PACKAGE}");
        let (_, rest) = text.split_once("\"sha1\":")?;
        let commit = rest.split('"').nth(1)?;
        return Some((commit.to_owned(), UNKNOWN.to_owned()));
    }
    // Sources within another repository, as a vendored copy is, have no commit of their own.
    if !Path::new(".git").exists() {
        return None;
    }
    let head = git(&["log", "-1", "--format=%H %cs"])?;
    // A commit appends to this log.
    let log = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists());
    println!(
        "cargo::rerun-if-changed={}",
        log.unwrap_or_else(|| ".git".to_owned())
    );
    let (commit, date) = head.split_once(' ')?;
    Some((commit.to_owned(), date.to_owned()))
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git")
        .args(arguments)
        .output()
        .ok()
        .filter(|output| output.status.success())?;
    String::from_utf8(output.stdout)
        .ok()
        .map(|text| text.trim().to_owned())
}
