//! Pages of the reference for each command, from the help that clap has.

use std::fmt::Write as _;

use clap::{Arg, Command, CommandFactory};
use crawlmark::cli::{Cli, OTHER_FLAGS};

/// Opening of each page.
const GENERATED: &str = "<!-- Generated from the program: UPDATE_DOCS=1 cargo test -p crawlmark --test end_to_end docs:: -->\n\n";

/// Path below the reference and text of each page.
pub(super) fn pages() -> Vec<(String, String)> {
    let mut command = Cli::command().term_width(100);
    command.build();
    let shown: Vec<_> = command
        .get_subcommands()
        .filter(|sub| sub.get_name() != "help" && !sub.is_hide_set())
        .cloned()
        .collect();
    let mut index =
        format!("{GENERATED}# Commands and flags\n\n| command | what it does |\n|---|---|\n");
    for sub in &shown {
        let about = sub.get_about().map(ToString::to_string).unwrap_or_default();
        let _ = writeln!(
            index,
            "| [`crawlmark {0}`](commands/{0}.md) | {1} |",
            sub.get_name(),
            prose(&about)
        );
    }
    index.push_str("\nFlags of every command:\n\n");
    for arg in command.get_arguments().filter(|arg| !arg.is_hide_set()) {
        index.push_str(&argument(arg));
    }
    index.push_str("\nThe exit codes have [a page of their own](exit-codes.md).\n");
    let pages = shown
        .into_iter()
        .map(|sub| (format!("commands/{}.md", sub.get_name()), page(sub)));
    std::iter::once(("commands.md".to_owned(), index))
        .chain(pages)
        .collect()
}

fn page(mut command: Command) -> String {
    let about = command
        .get_about()
        .map(ToString::to_string)
        .unwrap_or_default();
    let usage = command.render_usage().to_string();
    let usage = usage
        .trim_start_matches("Usage: ")
        .replace("\n       ", "\n");
    let mut text = format!(
        "{GENERATED}# crawlmark {}\n\n{}.\n\n```text\n{usage}\n```\n",
        command.get_name(),
        prose(&about)
    );
    let own: Vec<&Arg> = command
        .get_arguments()
        .filter(|arg| {
            !arg.is_hide_set() && !["help", "version", "color"].contains(&arg.get_id().as_str())
        })
        .collect();
    let mut headings: Vec<&str> = Vec::new();
    for arg in &own {
        let heading = heading(arg);
        if !headings.contains(&heading) {
            headings.push(heading);
        }
    }
    if headings.len() > 5 {
        text.push_str(&index(&own, &headings));
    }
    for name in headings {
        let _ = writeln!(text, "\n## {name}\n");
        own.iter()
            .filter(|arg| heading(arg) == name)
            .for_each(|arg| text.push_str(&argument(arg)));
    }
    if let Some(after) = command.get_after_long_help() {
        text.push_str(&after_help(&after.to_string()));
    }
    if command.get_name() == "run" {
        text.push_str("\n## Flags of other programs\n\n| refused | use |\n|---|---|\n");
        for (flags, ours) in OTHER_FLAGS {
            let flags = flags.replace(' ', "`, `");
            let _ = writeln!(text, "| `{flags}` | `{ours}` |");
        }
    }
    text
}

/// The flags of each group, in a table.
fn index(own: &[&Arg], headings: &[&str]) -> String {
    let mut text = "\n| group | flags |\n|---|---|\n".to_owned();
    for name in headings {
        let flags: Vec<String> = own
            .iter()
            .filter(|arg| heading(arg) == *name)
            .filter_map(|arg| {
                let short = arg.get_short().map(|short| format!("-{short} "));
                Some(format!(
                    "`{}--{}`",
                    short.unwrap_or_default(),
                    arg.get_long()?
                ))
            })
            .collect();
        let anchor: String = name
            .chars()
            .filter(|c| c.is_alphanumeric() || *c == ' ')
            .map(|c| {
                if c == ' ' {
                    '-'
                } else {
                    c.to_ascii_lowercase()
                }
            })
            .collect();
        if !flags.is_empty() {
            let _ = writeln!(text, "| [{name}](#{anchor}) | {} |", flags.join(", "));
        }
    }
    text
}

fn heading(arg: &Arg) -> &str {
    match arg.get_help_heading() {
        Some(heading) => heading,
        None if arg.is_positional() => "Arguments",
        None => "Options",
    }
}

/// An argument: its names, then its help.
fn argument(arg: &Arg) -> String {
    let values = arg.get_value_names().unwrap_or_default();
    let value = if arg.get_action().takes_values() {
        format!(
            "<{}>",
            values
                .iter()
                .map(AsRef::as_ref)
                .collect::<Vec<&str>>()
                .join("> <")
        )
    } else {
        String::new()
    };
    let is_optional = arg
        .get_num_args()
        .is_some_and(|number| number.min_values() == 0)
        && !value.is_empty();
    let value = match (arg.is_positional(), is_optional) {
        (true, _) => format!("[{}]", value.trim_matches(['<', '>'])),
        (false, true) => format!("[={value}]"),
        (false, false) if value.is_empty() => value,
        (false, false) => format!(" {value}"),
    };
    let short = arg.get_short().map(|short| format!("`-{short}`"));
    let long = arg.get_long().map(|long| format!("`--{long}{value}`"));
    let names = match (short, long) {
        (None, None) => format!("`{value}`"),
        (short, long) => short.into_iter().chain(long).collect::<Vec<_>>().join(", "),
    };
    let help = arg
        .get_long_help()
        .or(arg.get_help())
        .map(ToString::to_string)
        .unwrap_or_default();
    let mut notes = Vec::new();
    let default: Vec<_> = arg
        .get_default_values()
        .iter()
        .map(|value| value.to_string_lossy())
        .collect();
    if !default.is_empty() && !arg.is_hide_default_value_set() && arg.get_action().takes_values() {
        notes.push(format!("Default: `{}`.", default.join(" ")));
    }
    let aliases: Vec<_> = arg
        .get_all_short_aliases()
        .unwrap_or_default()
        .iter()
        .map(|alias| format!("`-{alias}`"))
        .chain(
            arg.get_all_aliases()
                .unwrap_or_default()
                .iter()
                .map(|alias| format!("`--{alias}`")),
        )
        .collect();
    if !aliases.is_empty() {
        notes.push(format!("Also: {}.", aliases.join(", ")));
    }
    let notes = if notes.is_empty() {
        String::new()
    } else {
        format!("{}\n\n", notes.join(" "))
    };
    format!("### {names}\n\n{}{notes}", paragraphs(&help))
}

/// Text of the help as Markdown: lines that are indented are blocks.
fn paragraphs(help: &str) -> String {
    let (mut text, mut block, mut paragraph) = (String::new(), Vec::new(), Vec::new());
    let flush = |paragraph: &mut Vec<&str>, text: &mut String| {
        if !paragraph.is_empty() {
            text.push_str(&prose(&paragraph.join("\n")));
            text.push_str("\n\n");
            paragraph.clear();
        }
    };
    for line in help.lines().chain([""]) {
        if line.starts_with("  ") {
            flush(&mut paragraph, &mut text);
            block.push(line);
            continue;
        }
        if !block.is_empty() && !line.is_empty() || line.is_empty() && !block.is_empty() {
            text.push_str(&fenced(&std::mem::take(&mut block)));
        }
        if line.is_empty() {
            flush(&mut paragraph, &mut text);
        } else {
            paragraph.push(line);
        }
    }
    flush(&mut paragraph, &mut text);
    text
}

/// A block without its common indentation; of shell if it begins with a command.
fn fenced(lines: &[&str]) -> String {
    let indent = lines
        .iter()
        .map(|line| line.len() - line.trim_start().len())
        .min()
        .unwrap_or_default();
    let lines: Vec<&str> = lines
        .iter()
        .map(|line| line.get(indent..).unwrap_or_default())
        .collect();
    let is_shell = ["crawlmark ", "curl ", "duckdb ", "CRAWLMARK_"]
        .iter()
        .any(|name| lines[0].starts_with(name));
    format!(
        "```{}\n{}\n```\n\n",
        if is_shell { "sh" } else { "text" },
        lines.join("\n")
    )
}

/// Explanations and examples after the flags.
fn after_help(help: &str) -> String {
    let (rest, examples) = help.split_once("Examples:\n").unwrap_or((help, ""));
    let mut text = String::new();
    if !rest.trim().is_empty() {
        let _ = writeln!(text, "\n## Notes\n\n```text\n{}\n```", rest.trim());
    }
    if !examples.is_empty() {
        text.push_str("\n## Examples\n\n");
        let mut block = Vec::new();
        for line in examples.lines().chain(["  "]) {
            if line.starts_with("    ") {
                block.push(line);
                continue;
            }
            if !block.is_empty() {
                text.push_str(&fenced(&std::mem::take(&mut block)));
            }
            if !line.trim().is_empty() {
                let _ = writeln!(text, "{}\n", prose(line.trim()));
            }
        }
    }
    format!("{}\n", text.trim_end())
}

/// Text with flags and names as code, so that Markdown changes nothing in it.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate().map(|(at, part)| {
        if at % 2 == 1 {
            format!("`{part}`")
        } else {
            marked(part)
        }
    });
    parts.collect()
}

fn marked(text: &str) -> String {
    let lines = text.split('\n').map(|line| {
        let (mut words, mut rest) = (Vec::new(), line.split(' '));
        while let Some(word) = rest.next() {
            let mut word = word.to_owned();
            // A quotation is one piece.
            while word.starts_with('\'') && !without_stops(&word[1..]).ends_with('\'') {
                let Some(next) = rest.next() else { break };
                word = format!("{word} {next}");
            }
            words.push(piece(&word));
        }
        // A flag and its value are one piece.
        words.join(" ").replace("` `", " ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn without_stops(word: &str) -> &str {
    word.trim_end_matches([',', '.', ':', ';', ')'])
}

/// A word or a quotation, as code if it is one.
fn piece(word: &str) -> String {
    let letters = without_stops(word).trim_start_matches('(');
    let is_short = letters.len() == 2
        && letters.starts_with('-')
        && letters.ends_with(|c: char| c.is_ascii_alphabetic());
    let is_range = letters.contains("..") && !letters.contains("...");
    let has_signs =
        is_range || letters.contains(['_', '{', '<', '*', '|', '=']) && letters.len() > 1;
    let start = word.len() - word.trim_start_matches('(').len();
    let end = without_stops(word).len();
    if start < end && (is_short || has_signs || letters.starts_with("--")) {
        format!("{}`{}`{}", &word[..start], &word[start..end], &word[end..])
    } else {
        word.replace('[', "\\[")
    }
}
