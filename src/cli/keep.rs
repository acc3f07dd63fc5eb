//! Where what several rounds came to is kept, and how it is told: the same for every command that runs rounds.

use std::path::PathBuf;

use clap::Args;

use super::parse_name;

/// Flags of a command that runs rounds, about what comes of them.
#[derive(Debug, Clone, Args)]
pub struct KeepArgs {
    /// Where to save what was found; results/runs/TIME-NAME unless given
    #[arg(long, value_name = "DIR", help_heading = "Results")]
    pub out: Option<PathBuf>,
    /// A short name for it; that of the command unless given
    #[arg(long, value_parser = parse_name, help_heading = "Results")]
    pub name: Option<String>,
    /// How it is printed.
    #[command(flatten)]
    pub form: FormArgs,
    /// Print nothing but errors (and what --json or --markdown asks for)
    #[arg(long, help_heading = "Results")]
    pub quiet: bool,
    /// Do not show what is being done
    #[arg(long, help_heading = "Results")]
    pub no_progress: bool,
}

impl KeepArgs {
    /// What it is called, by a command of this name.
    #[must_use]
    pub fn name_or(&self, command: &str) -> String {
        self.name.clone().unwrap_or_else(|| command.to_owned())
    }

    /// Whether what was found is printed.
    #[must_use]
    pub const fn is_printed(&self) -> bool {
        !self.quiet || self.form.json || self.form.markdown
    }
}

/// What a finding is printed as.
#[derive(Debug, Clone, Copy, Args)]
pub struct FormArgs {
    /// Print what was found as JSON to standard output, and nothing else there
    #[arg(long, conflicts_with = "markdown", help_heading = "Results")]
    pub json: bool,
    /// Print what was found as Markdown to standard output, for a step summary or a comment on a change
    #[arg(long, help_heading = "Results")]
    pub markdown: bool,
}
