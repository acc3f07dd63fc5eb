//! Command line of a run, recorded so that the run can be repeated.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The command line that asks for the same plan again. Made by the reader of the one that was
/// typed: the plan alone does not say which of its values were asked for, and the harness knows no
/// flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandLine {
    /// Its arguments, the program's name first. No secret is among them.
    pub arguments: Vec<String>,
    /// Parts to be added by hand because they may be secret, or were never seen: for people.
    pub withheld: Vec<String>,
    /// Arguments that were not typed, by their names, and where their values came from: a file, or
    /// a variable of the environment.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sources: BTreeMap<String, String>,
}

impl CommandLine {
    /// True if it begins with the program and the command that save results: only then is it shown
    /// as a command to repeat.
    pub(crate) fn is_of_run(&self) -> bool {
        matches!(&*self.arguments, [program, command, ..] if program == "crawlmark" && command == "run")
    }
}
