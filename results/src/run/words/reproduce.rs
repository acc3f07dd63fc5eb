//! Reproduction of the run: its command for a POSIX shell, parts to add to it, and the plan.

use crate::run::report::{CommandLine, Report};
use crate::show::doc::{Doc, Readers};
use crate::show::text::shell_word;

pub(super) fn parts(report: &Report) -> Doc {
    let doc = Doc::default();
    let doc = match &report.command {
        Some(command) if !command.is_of_run() => {
            doc.text("No command can be shown for this result; see its plan.")
        }
        Some(CommandLine {
            arguments,
            withheld,
        }) => doc.commands("", &[shell(arguments)]).list(
            "Left out (secret or unknown), add by hand:",
            withheld.clone(),
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

/// The arguments as a POSIX shell reads them.
fn shell(arguments: &[String]) -> String {
    let words: Vec<String> = arguments.iter().map(|word| shell_word(word)).collect();
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_words_stay_as_they_are() {
        let words = ["a", "--rate", "5k", "http://h/{id}?b&c", "it's", ""];
        assert_eq!(
            shell(&words.map(str::to_owned)),
            "a --rate 5k 'http://h/{id}?b&c' \"it's\" ''"
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
