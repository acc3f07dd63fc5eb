//! Output options of every command that runs rounds: where the result is saved, and how it is
//! printed.

use std::path::PathBuf;

use clap::Args;

use super::parse_name;

/// Output options of a command that runs rounds.
#[derive(Debug, Clone, Args)]
pub struct OutputArgs {
    /// Save the result to DIR [default: results/runs/TIME-NAME]
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// Result name [default: the command's name]
    #[arg(long, value_parser = parse_name, help_heading = "Results")]
    pub name: Option<String>,
    /// Output format.
    #[command(flatten)]
    pub form: FormArgs,
    /// Print only errors (and the output of --json or --markdown)
    #[arg(long, help_heading = "Results")]
    pub quiet: bool,
    /// Do not show progress
    #[arg(long, help_heading = "Results")]
    pub no_progress: bool,
}

impl OutputArgs {
    /// Return the name of the result: the one that was given, or else `command`.
    #[must_use]
    pub fn name_or(&self, command: &str) -> String {
        self.name.clone().unwrap_or_else(|| command.to_owned())
    }

    /// True if what was found is printed.
    #[must_use]
    pub const fn is_printed(&self) -> bool {
        !self.quiet || self.form.json || self.form.markdown
    }
}

/// Format of a printed result.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormArgs {
    /// Print the result as JSON to standard output
    #[arg(long, conflicts_with = "markdown", help_heading = "Results")]
    pub json: bool,
    /// Print the result as Markdown to standard output
    #[arg(long, help_heading = "Results")]
    pub markdown: bool,
}
