//! The documents: the pages of the book, the README files and the change log. Links lead somewhere,
//! command lines are understood by this build, pages that are marked `sh,run` do what they say, and
//! the reference is what the program and the schemas say.
//!
//! `UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs::` writes the generated pages of
//! the reference again.

mod commands;
mod fields;
mod markdown;
mod shell;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crawlmark::cli::{Cli, Command as Typed};
use crawlmark_harness::clock::{Clock, duration_ns};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::FailureCause;
use crawlmark_results::judge::FindingKind;
use crawlmark_results::run::report::{Verdict, cause_in_words};
use nix::sys::signal::Signal;

use self::markdown::{Block, Page};
use crate::command::program;
use crate::process::{DEADLINE, signal, wait_for, working_in};

/// Address of the project; links to it lead to files of this tree.
const HOME: &str = "https://github.com/crawlmark/crawlmark/";

/// Programs that the documents name beside crawlmark; any other name is a misspelling.
const OTHERS: &str = "brew cargo cat cp curl do docker done duckdb echo fi for gh git grep head hq hyperfine if ip jq kill kubectl ls man mdbook mkdir \
    openssl parallel podman printf protoc python rm sbatch scontrol seq sleep ssh tar tee then until wait zstdcat .ci/pgo unshare tc";

/// Pictures of the book, with the plots that they are copies of: GitHub shows no picture through a
/// symbolic link.
const PICTURES: &[(&str, &str)] = &[
    ("capacity.svg", "results/capacity/search/plots/capacity.svg"),
    ("costs.svg", "results/side-by-side/costs.svg"),
    ("ladder.svg", "results/ladder/plots/scenarios.svg"),
    ("latency.svg", "results/example/plots/latency.svg"),
    ("patterns.svg", "results/patterns/plots/scenarios.svg"),
    ("pairs.svg", "results/ab/plots/pairs.svg"),
    ("scaling.svg", "results/scale/plots/scaling.svg"),
    ("spectrum.svg", "results/example/plots/spectrum.svg"),
];

/// The root of the tree.
fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn markdown_below(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            markdown_below(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
}

/// Every document, with its path from the root.
fn pages() -> Vec<Page> {
    let mut files = Vec::new();
    markdown_below(&root().join("docs/src"), &mut files);
    for entry in [".", "results", "mock-server", "harness", "fuzz"] {
        for entry in fs::read_dir(root().join(entry)).unwrap() {
            let path = entry.unwrap().path();
            files.extend(
                (path.extension().is_some_and(|extension| extension == "md")).then_some(path),
            );
        }
    }
    files.sort();
    files.iter().map(|file| Page::read(root(), file)).collect()
}

#[test]
fn links_lead_somewhere() {
    let (pages, mut seen, mut wrong) = (pages(), 0, Vec::new());
    for page in &pages {
        for link in page.links() {
            let (to, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let own = to
                .strip_prefix(HOME)
                .and_then(|path| path.split_once('/')?.1.split_once('/'));
            let file = match (to, own) {
                ("", _) => root().join(&page.path),
                (_, Some((_, path))) => root().join(path),
                _ if to.contains("://") || to.starts_with("mailto:") => continue,
                _ => root().join(&page.path).parent().unwrap().join(to),
            };
            seen += 1;
            let is_book = page.path.starts_with("docs/src");
            if !file.exists() {
                wrong.push(format!("{}: there is no {link}", page.path.display()));
            } else if is_book
                && own.is_none()
                && !file
                    .canonicalize()
                    .unwrap()
                    .starts_with(root().join("docs"))
            {
                wrong.push(format!(
                    "{}: {link} is not in the book: write {HOME}blob/main/...",
                    page.path.display()
                ));
            } else if !anchor.is_empty() && !Page::read(root(), &file).anchors().contains(anchor) {
                wrong.push(format!(
                    "{}: {link}: there is no such heading",
                    page.path.display()
                ));
            }
        }
    }
    assert!(seen > 150, "{seen} links");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn pictures_of_the_book_are_those_of_the_results() {
    let images = root().join("docs/src/images");
    for (picture, plot) in PICTURES {
        let plot = fs::read(root().join(plot)).unwrap();
        if std::env::var_os("UPDATE_DOCS").is_some() {
            fs::write(images.join(picture), &plot).unwrap();
        }
        let is_same = fs::read(images.join(picture)).is_ok_and(|copy| copy == plot);
        assert!(
            is_same,
            "{picture} is stale: run UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs::"
        );
    }
    assert_eq!(fs::read_dir(images).unwrap().count(), PICTURES.len());
}

#[test]
fn the_summary_lists_every_page_of_the_book() {
    let summary = Page::read(root(), &root().join("docs/src/SUMMARY.md"));
    let listed: BTreeSet<PathBuf> = summary
        .links()
        .map(|link| Path::new("docs/src").join(link))
        .collect();
    let mut there = Vec::new();
    markdown_below(&root().join("docs/src"), &mut there);
    let there: BTreeSet<PathBuf> = there
        .iter()
        .map(|path| path.strip_prefix(root()).unwrap().to_owned())
        .collect();
    let missing: Vec<_> = there
        .difference(&listed)
        .filter(|path| !path.ends_with("SUMMARY.md"))
        .collect();
    assert!(missing.is_empty(), "docs/src/SUMMARY.md lacks {missing:?}");
}

/// Check that a command line is one that this build understands, flags of its rounds included.
fn understood(words: &[String]) -> Result<(), String> {
    let cli = match Cli::of(words) {
        Ok(cli) => cli,
        // Help and version.
        Err(error) if !error.use_stderr() => return Ok(()),
        Err(error) => return Err(error.to_string()),
    };
    let round = |own: &str, run: &[String]| {
        let line = ["crawlmark".to_owned(), "run".to_owned()]
            .into_iter()
            .chain(run.iter().cloned());
        let line = line.chain(shlex::split(own).unwrap_or_default());
        Cli::of(line).map(|_| ()).map_err(|error| error.to_string())
    };
    match &cli.command {
        Typed::Ab(args) => round(&args.base, &args.run).and_then(|()| round(&args.cand, &args.run)),
        Typed::Scale(args) => round("", &args.run),
        Typed::Ladder(args) => round("", &args.run),
        Typed::Capacity(args) => round("", &args.run),
        _ => Ok(()),
    }
}

#[test]
fn command_lines_are_understood() {
    let (mut ours, mut wrong) = (0, Vec::new());
    for page in pages() {
        for block in page.blocks.iter().filter(|block| block.is("sh")) {
            let place = format!("{}:{}", page.path.display(), block.line);
            let shell = Command::new("bash")
                .args(["-n", "-c", &block.text])
                .stdin(Stdio::null())
                .output()
                .unwrap();
            if !shell.status.success() {
                wrong.push(format!(
                    "{place}: {}",
                    String::from_utf8_lossy(&shell.stderr)
                ));
            }
            for command in shell::commands(&block.text) {
                match shell::of_crawlmark(&command) {
                    Ok(Some(words)) => {
                        ours += 1;
                        wrong.extend(
                            understood(&words)
                                .err()
                                .map(|error| format!("{place}: {command}: {error}")),
                        );
                    }
                    Ok(None) => {}
                    Err(name)
                        if OTHERS.split_whitespace().any(|other| other == name)
                            || name.starts_with("./") => {}
                    Err(name) => {
                        wrong.push(format!(
                            "{place}: {command}: `{name}` is not a program that the documents use"
                        ));
                    }
                }
            }
        }
    }
    assert!(ours > 150, "{ours} command lines");
    assert!(
        wrong.is_empty(),
        "{} of {ours} command lines:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Notes the exit code of each crawlmark that a page runs, beside the code that its block allows.
const WRAPPER: &str = r#"#!/bin/bash
[ "$1" != serve ] || exec "$PROGRAM" "$@"
"$PROGRAM" "$@"
code=$?
printf '%s %s %s\n' "$code" "$ALLOWED" "$*" >> "$CODES"
exit "$code"
"#;

/// End what was started in the background, and name other programs that fail.
const TRAPS: &str = r#"
trap 'trap - ERR; kill $(jobs -p) 2>/dev/null' EXIT
trap 'case "$BASH_COMMAND" in crawlmark*) ;; *) echo "failed: $BASH_COMMAND" ;; esac' ERR
"#;

/// Run the blocks of a page that are marked `sh,run`, one after another in one shell, as a reader
/// would. `exit-3` allows exit code 3, too; `readers` needs the Python of `.ci/run`.
fn run_page(page: &Page) {
    let readers = root().join("target/consumers/bin");
    let has_readers = readers.join("python").is_file();
    let has_curl = Command::new("curl").arg("--version").output().is_ok();
    let can_run = |block: &&Block| {
        let can =
            (has_readers || !block.is("readers")) && (has_curl || !block.text.contains("curl "));
        if !can {
            eprintln!(
                "skipped: {}:{}: a program that it uses is missing",
                page.path.display(),
                block.line
            );
        }
        can
    };
    let runs = page
        .blocks
        .iter()
        .filter(|block| block.is("sh") && block.is("run"));
    let blocks: Vec<_> = runs.filter(can_run).collect();
    if blocks.is_empty() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (work, bin, codes) = (
        place.path().join("work"),
        place.path().join("bin"),
        place.path().join("codes"),
    );
    fs::create_dir(&work).unwrap();
    fs::create_dir(&bin).unwrap();
    fs::write(bin.join("crawlmark"), WRAPPER).unwrap();
    fs::set_permissions(bin.join("crawlmark"), fs::Permissions::from_mode(0o755)).unwrap();
    // Ports that were free a moment ago, held until all are chosen.
    let listeners: Vec<_> = (0..4)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let mut script = TRAPS.to_owned();
    for block in blocks {
        let allowed: Vec<&str> = block
            .info
            .split(',')
            .filter_map(|word| word.strip_prefix("exit-"))
            .collect();
        let _ = writeln!(script, "export ALLOWED=0,{}", allowed.join(","));
        for line in block.text.lines() {
            script.push_str(line);
            script.push('\n');
            if let Some(port) = line
                .strip_suffix('&')
                .and_then(|line| line.split("--listen 127.0.0.1:").nth(1))
            {
                let port = port.split_whitespace().next().unwrap();
                let _ = writeln!(
                    script,
                    "for try in {{1..600}}; do (exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.05; done"
                );
            }
        }
    }
    for (written, listener) in ["8080", "8081", "8443", "3128"].iter().zip(&listeners) {
        script = script.replace(
            &format!("127.0.0.1:{written}"),
            &format!("127.0.0.1:{}", listener.local_addr().unwrap().port()),
        );
        script = script.replace(
            &format!("127.0.0.1/{written}"),
            &format!("127.0.0.1/{}", listener.local_addr().unwrap().port()),
        );
    }
    drop(listeners);
    let path = format!(
        "{}:{}:{}",
        bin.display(),
        readers.display(),
        std::env::var("PATH").unwrap()
    );
    let (said, work) = (place.path().join("said"), work.canonicalize().unwrap());
    let output = fs::File::create(&said).unwrap();
    let mut shell = Command::new("bash")
        .args(["-c", &script])
        .current_dir(&work)
        .env("PATH", path)
        .env("PROGRAM", program())
        .env("CODES", &codes)
        .stdin(Stdio::null())
        .stdout(output.try_clone().unwrap())
        .stderr(output)
        .spawn()
        .unwrap();
    let clock = Clock::start();
    let status = loop {
        if let Some(status) = shell.try_wait().unwrap() {
            break status;
        }
        if clock.now().0 > duration_ns(DEADLINE) {
            for pid in working_in(&work) {
                signal(pid, Signal::SIGKILL);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let said = fs::read_to_string(&said).unwrap();
    wait_for("the end of the page's processes", || {
        working_in(&work).is_empty().then_some(())
    });
    assert!(
        !said.contains("connection refused"),
        "{}: {said}",
        page.path.display()
    );
    let codes = fs::read_to_string(&codes).unwrap_or_default();
    for line in codes.lines() {
        let (code, rest) = line.split_once(' ').unwrap();
        let (allowed, command) = rest.split_once(' ').unwrap();
        assert!(
            allowed.split(',').any(|allowed| allowed == code),
            "{}: exit code {code}: crawlmark {command}\n{said}",
            page.path.display()
        );
    }
    assert!(
        !codes.is_empty() && !said.contains("command not found") && !said.contains("\nfailed: "),
        "{}: {status}\n{said}",
        page.path.display()
    );
}

#[test]
fn pages_that_are_marked_do_what_they_say() {
    for page in pages() {
        run_page(&page);
    }
}

/// Compare a generated page with the committed one, or write it.
fn assert_generated(path: &str, text: &str) {
    let path = root().join("docs/src/reference").join(path);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    let differs = committed
        .lines()
        .zip(text.lines())
        .find(|(there, here)| there != here);
    assert!(
        committed == text,
        "{} is stale ({differs:?}): run UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs::",
        path.display()
    );
}

/// The summary with an entry for each page of a list, below the entry of the list.
fn listing(summary: &str, list: &str, pages: &[(String, String)]) -> String {
    let mut text = String::new();
    let mut is_below = false;
    for line in summary.lines() {
        if is_below && line.starts_with("  - ") {
            continue;
        }
        text.push_str(line);
        text.push('\n');
        is_below = line.ends_with(&format!("(reference/{list})"));
        for (path, page) in pages.iter().filter(|(path, _)| is_below && path != list) {
            let title = page
                .lines()
                .find_map(|line| line.strip_prefix("# "))
                .unwrap();
            let _ = writeln!(
                text,
                "  - [{}](reference/{path})",
                title.trim_start_matches("crawlmark ")
            );
        }
    }
    text
}

fn assert_listed(list: &str, pages: &[(String, String)]) {
    let summary = fs::read_to_string(root().join("docs/src/SUMMARY.md")).unwrap();
    assert_generated("../SUMMARY.md", &listing(&summary, list, pages));
}

#[test]
fn the_reference_is_that_of_the_program_and_the_schemas() {
    for (list, pages) in [
        ("commands.md", commands::pages()),
        ("json.md", fields::pages(&root().join("results/schema"))),
    ] {
        for (path, text) in &pages {
            let silent = text
                .lines()
                .find(|line| line.ends_with("|  |") || line.contains("|  *(may"));
            assert_eq!(silent, None, "{path}: a field has no description");
            assert_generated(path, text);
        }
        assert_listed(list, &pages);
    }
}

/// The page on findings, from their table.
/// Each test that a row of the threat table names exists.
#[test]
fn tests_of_the_threat_table_exist() {
    let read = |name: &str| fs::read_to_string(root().join(name)).unwrap();
    let page = read("docs/src/reference/secrets.md");
    let (_, table) = page.split_once("## Threats").unwrap();
    let rows = table.lines().filter_map(|line| line.strip_suffix(" |"));
    let mut count = 0;
    for tests in rows.filter_map(|row| row.rsplit('|').next()) {
        let named: Vec<&str> = tests.split('`').skip(1).step_by(2).collect();
        for name in &named {
            if let Some((module, test)) = name.split_once("::") {
                let text = read(&format!("tests/end_to_end/{module}.rs"));
                assert!(text.contains(&format!("fn {test}(")), "{name}");
                count += 1;
            } else if Path::new(name).extension().is_some_and(|it| it == "rs") {
                assert!(read(name).contains("#[test]"), "{name}");
                count += 1;
            }
        }
    }
    assert!(count >= 20, "{count}");
}

fn findings_page() -> String {
    let mut text = "<!-- Generated from the program: UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs:: -->\n\n\
        # Findings\n\n\
        A finding is a fact about a run. The summary, the page and `findings` in [result.json](json/result.md) list them, the most\n\
        severe first, without those that others make redundant. Each has a kind, a severity (`info`, `warning` or `error`), its effect\n\
        on the verdict, its numbers, a `headline` of at most 48 characters, a sentence (`text`), the times in which it happened\n\
        (`events`) where they are known and, where that does not depend on the target, a `remedy`.\n\n\
        ## Verdicts\n\n\
        The verdict is the gravest effect of a finding, in this order. [Verdicts](verdicts.md) has the limits of the checks.\n\n\
        | verdict | meaning | what to do |\n|---|---|---|\n"
        .to_owned();
    for verdict in Verdict::ALL {
        let _ = writeln!(
            text,
            "| `{}` | {} | {} |",
            verdict.name(),
            verdict.meaning(),
            verdict.remedy()
        );
    }
    text.push_str(
        "\n## Kinds\n\nIn the order in which those of one severity are listed.\n\n| kind | found when |\n|---|---|\n",
    );
    for kind in FindingKind::ALL {
        let name = serde_json::to_value(kind).unwrap();
        let _ = writeln!(text, "| `{}` |{} |", name.as_str().unwrap(), kind.meaning());
    }
    text
}

#[test]
fn the_page_on_findings_is_that_of_the_program() {
    assert_generated("findings.md", &findings_page());
}

#[test]
fn every_kind_of_failure_has_its_row() {
    let failures = fs::read_to_string(root().join("docs/src/reference/failures.md")).unwrap();
    for kind in ErrorKind::ALL {
        let key = serde_json::to_value(kind).unwrap();
        let row = format!(
            "\n| `{}` | {} |",
            key.as_str().unwrap(),
            cause_in_words(FailureCause::Error(kind))
        );
        assert!(failures.contains(&row), "failures.md lacks {row}");
    }
}
