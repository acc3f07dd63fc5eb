//! Reproduction of the run: its command for a POSIX shell, parts to add to it, and the plan.

use crate::run::report::{CommandLine, Report};
use crate::show::doc::{Doc, Readers};
use crate::show::text::shell_word;

/// Width at which a command is broken: that of a line of a page or of a terminal.
const WIDTH: usize = 84;

pub(super) fn parts(report: &Report) -> Doc {
    let doc = Doc::default();
    let doc = match &report.command {
        Some(command) if !command.is_of_run() => {
            doc.text("No command can be shown for this result; see its plan.")
        }
        Some(CommandLine {
            arguments,
            withheld,
            sources,
        }) => doc
            .commands("", &[shell(arguments)])
            .list(
                "Left out (secret or unknown), add by hand:",
                withheld.clone(),
            )
            .list(
                "Not typed, but configured:",
                sources
                    .iter()
                    .map(|(name, source)| format!("{name}: {source}"))
                    .collect(),
            ),
        None => doc.text("No command line started this run; see its plan."),
    };
    doc.text(format!(
        "Plan hash (identical plans share it): {}",
        report.plan.config_hash
    ))
    .only(Readers::PAGE)
    .details("The plan as JSON", Doc::default().code(json(&report.plan)))
}

/// A value as JSON, for readers who want to use it.
pub(super) fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// The arguments as a POSIX shell reads them, over several lines when they are long.
fn shell(arguments: &[String]) -> String {
    let mut out = String::new();
    let mut width = 0;
    for argument in arguments {
        let word = shell_word(argument);
        let length = word.chars().count();
        // A value stays with its flag: only what begins with a dash begins a line.
        if width + length > WIDTH && argument.starts_with('-') {
            out.push_str(" \\\n  ");
            width = 2;
        } else if width > 0 {
            out.push(' ');
            width += 1;
        }
        out.push_str(&word);
        width += length;
    }
    out
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    fn owned(arguments: &[&str]) -> Vec<String> {
        arguments
            .iter()
            .map(|argument| (*argument).to_owned())
            .collect()
    }

    #[test]
    fn plain_words_stay_as_they_are_and_long_commands_are_broken_before_a_flag() {
        assert_eq!(
            shell(&owned(&["crawlmark", "run", "--rate", "5k"])),
            "crawlmark run --rate 5k"
        );
        assert_eq!(
            shell(&owned(&["a", "http://h/{id}?b&c", "it's", ""])),
            "a 'http://h/{id}?b&c' \"it's\" ''"
        );
        let long = "x".repeat(48);
        let said = shell(&owned(&[
            "crawlmark",
            "run",
            "--name",
            &long,
            "--tag",
            "a=b",
            "--threshold",
            "rate > 5",
        ]));
        assert_eq!(
            said,
            format!("crawlmark run --name {long} --tag a=b \\\n  --threshold 'rate > 5'")
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_shell_reads_what_was_typed(arguments in prop::collection::vec("[ -~\n\t\u{e9}]{0,40}", 1..6)) {
            let command = format!("printf '%s\\0' {}", shell(&arguments));
            let output = Command::new("sh").args(["-c", &command]).output().unwrap();
            let read = String::from_utf8(output.stdout).unwrap();
            prop_assert_eq!(read.split_terminator('\0').collect::<Vec<_>>(), arguments);
        }
    }
}
