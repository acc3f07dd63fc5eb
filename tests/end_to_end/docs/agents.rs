//! The page for agents and `llms.txt`, from the tables that the reference is made from.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::CommandFactory;
use crawlmark::cli::Cli;
use crawlmark_results::run::report::Verdict;
use serde_json::Value;

const GENERATED: &str = "<!-- Generated from the program: UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs:: -->\n\n";

const HOME: &str = "https://github.com/crawlmark/crawlmark/blob/main/";

/// How a program calls crawlmark, for both.
const RULES: &str = "\
- `--json` prints the result to standard output. Progress and messages go to standard error. `--quiet` prints only errors and the path of the report.
- Read `.validity.verdict` before any figure, then `.findings[0].text` and `.findings[0].remedy`. In a program, test `.findings[].kind` and the exit code, never the text of a message.
- Unknown figures are `null`. The key of a figure contains its unit (`p99_us`, `duration_s`).
- For public hosts, set `--rate`. crawlmark obeys the robots.txt of public hosts. For a token, name an environment variable: `--bearer-env NAME`.
- `--out DIR` sets the directory of the result. `--out -` writes no files.
";

/// The page of the book.
pub(super) fn page(root: &Path) -> String {
    format!(
        "{GENERATED}# For agents and scripts\n\nThis page describes how a program calls crawlmark and reads its results. \
         [`llms.txt`]({HOME}llms.txt) has the same content and a list of all pages.\n\n{}",
        tables(root, "../reference/", "##")
    )
}

/// The file in the root of the repository, in the form of llmstxt.org.
pub(super) fn llms(root: &Path) -> String {
    let mut text = format!(
        "# crawlmark\n\n> An HTTP load generator and crawler that tells you whether to believe its numbers. \
         Linux, one binary, no server. This file is generated.\n\n{}",
        tables(root, &format!("{HOME}docs/src/reference/"), "##")
    );
    let summary = fs::read_to_string(root.join("docs/src/SUMMARY.md")).unwrap();
    for line in summary.lines() {
        if let Some(group) = line.strip_prefix("# ").filter(|it| *it != "Summary") {
            let _ = writeln!(text, "\n## {group}\n");
        } else if let Some(link) = line.strip_prefix("- ") {
            let _ = writeln!(
                text,
                "- {}",
                link.replace("](", &format!("]({HOME}docs/src/"))
            );
        }
    }
    text
}

fn tables(root: &Path, reference: &str, level: &str) -> String {
    let mut text = format!("{level} Rules\n\n{RULES}\n{level} Commands\n\n");
    let mut command = Cli::command();
    command.build();
    for sub in command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
    {
        let (name, about) = (sub.get_name(), sub.get_about().unwrap());
        let _ = writeln!(
            text,
            "- [`crawlmark {name}`]({reference}commands/{name}.md): {about}"
        );
    }
    let codes = command.get_after_long_help().unwrap().to_string();
    let (_, codes) = codes.split_once("Exit codes:\n").unwrap();
    let _ = writeln!(
        text,
        "\n{level} Exit codes\n\n```text\n{}\n```\n\n{level} Verdicts\n",
        codes.trim_end()
    );
    for verdict in Verdict::ALL {
        let _ = writeln!(
            text,
            "- `{}`: {} {}",
            verdict.name(),
            verdict.meaning(),
            verdict.remedy()
        );
    }
    let _ = writeln!(
        text,
        "\n{level} JSON schemas\n\nUnknown values are null. Ignore fields that are not described.\n"
    );
    let mut schemas: Vec<_> = fs::read_dir(root.join("results/schema"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    schemas.sort();
    for file in schemas {
        let schema: Value = serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        let words = schema["description"].as_str().unwrap();
        let first = words
            .split_inclusive(". ")
            .next()
            .unwrap_or_default()
            .trim();
        let _ = writeln!(text, "- [`{name}`]({HOME}results/schema/{name}): {first}");
    }
    text
}
