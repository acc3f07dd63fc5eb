//! Arguments of rounds that execute commands.

use clap::{Args, ValueEnum};

use super::{PrintedValue, whole};

/// Better direction of a number.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Better {
    /// A cost.
    Lower,
    /// A yield.
    Higher,
}

/// How commands are executed, and what is read of them. The commands are in the group `commands`.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Commands")]
pub struct CommandArgs {
    /// Executions in a round [default: as many as take 0.5 s, 100 at most]
    #[arg(hide_short_help = true, long, value_name = "N", value_parser = whole::<u64>(1..=10_000), requires = "commands")]
    pub executions: Option<u64>,
    /// Executions of each side before the first round, not counted
    #[arg(hide_short_help = true, long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>(0..=1_000), requires = "commands")]
    pub warmup: u64,
    /// Compare a number that the commands print; repeatable
    ///
    /// NAME=REGEX takes the text that the first group of the pattern matches, in standard output or
    /// else in standard error. NAME=json:/POINTER takes the number at this JSON pointer (RFC 6901).
    /// Standard output then has to be JSON. If --value is given, time and memory are only shown.
    #[arg(long, value_name = "NAME=PLACE", value_parser = PrintedValue::parse, requires = "commands")]
    pub value: Vec<PrintedValue>,
    /// Better direction of a --value
    ///
    /// The first --better belongs to the first --value, and so on. The last --better also applies
    /// to all further values.
    #[arg(
        hide_short_help = true,
        long,
        value_name = "DIRECTION",
        default_value = "lower",
        value_enum,
        requires = "value"
    )]
    pub better: Vec<Better>,
    /// Unit of a --value, for display; assigned in the same way as --better
    #[arg(hide_short_help = true, long, value_name = "UNIT", requires = "value")]
    pub unit: Vec<String>,
    /// Shell command to run before each execution (not timed)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "COMMAND",
        requires = "commands"
    )]
    pub prepare: Option<String>,
    /// Shell command to run after each execution (not timed)
    #[arg(
        hide_short_help = true,
        long,
        value_name = "COMMAND",
        requires = "commands"
    )]
    pub cleanup: Option<String>,
    /// Shell that runs the commands, or none to execute them directly
    #[arg(
        hide_short_help = true,
        long,
        value_name = "SHELL",
        default_value = "sh",
        requires = "commands"
    )]
    pub shell: String,
    /// Use executions even if their exit code is not 0
    #[arg(hide_short_help = true, short, long, requires = "commands")]
    pub ignore_failure: bool,
}

impl CommandArgs {
    /// The flags that decide what is read of an execution, and how it is executed, as they are typed.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        let mut add = |flag: &str, value: String| words.extend([flag.to_owned(), value]);
        for value in &self.value {
            add("--value", value.typed());
        }
        if !self.value.is_empty() {
            for better in self.better.iter().filter_map(ValueEnum::to_possible_value) {
                add("--better", better.get_name().to_owned());
            }
        }
        for unit in &self.unit {
            add("--unit", unit.clone());
        }
        let lines = [("--prepare", &self.prepare), ("--cleanup", &self.cleanup)];
        for (flag, line) in lines {
            if let Some(line) = line {
                add(flag, line.clone());
            }
        }
        if self.shell != "sh" {
            add("--shell", self.shell.clone());
        }
        if let Some(executions) = self.executions {
            add("--executions", executions.to_string());
        }
        if self.ignore_failure {
            words.push("--ignore-failure".to_owned());
        }
        words
    }
}
