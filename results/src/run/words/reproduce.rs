//! Reproduction of the run: its command for a POSIX shell, parts to add to it, and the plan.

use crate::run::report::{CommandLine, Report};
use crate::show::doc::Part;
use crate::show::text::shell_word;

pub(super) fn command_and_plan(report: &Report) -> Vec<Part> {
    let mut parts = match &report.command {
        Some(command) if !command.is_of_run() => vec![Part::Text(
            "No command can be shown for this result; see its plan.".to_owned(),
        )],
        Some(CommandLine {
            arguments,
            withheld,
        }) => {
            let left_out = "Left out (secret or unknown), add by hand:";
            let heading = if withheld.is_empty() { "" } else { left_out };
            vec![
                Part::Commands(shell(arguments)),
                Part::Text(heading.to_owned()),
                Part::List(withheld.clone()),
            ]
        }
        None => vec![Part::Text(
            "No command line started this run; see its plan.".to_owned(),
        )],
    };
    let hash = &report.plan.config_hash;
    let plan = serde_json::to_string_pretty(&report.plan).unwrap_or_default();
    parts.extend([
        Part::Text(format!("Plan hash (identical plans share it): {hash}")),
        Part::Code("The plan as JSON", plan),
    ]);
    parts
}

/// The arguments as a POSIX shell reads them.
pub(super) fn shell(arguments: &[String]) -> String {
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
