//! The flags of a round: parsed as `run` parses them, without those that rounds refuse.

use crate::cli::{Cli, Command, RunArgs, refused_in_rounds};
use crate::error::Error;

/// Placeholder of the port in a target's command.
pub(crate) const PORT: &str = "{port}";

/// Parse the words as flags of `run`; errors name them as `whose` does:
/// `--base and the flags after --, together`. A newer or older crawlmark may know other flags;
/// those of this one are what rounds know.
///
/// # Errors
/// When they are no flags of `run`, or do not fit together.
pub(crate) fn understood(whose: &str, words: &[String]) -> Result<RunArgs, Error> {
    let line = ["crawlmark", "run"]
        .into_iter()
        .chain(words.iter().map(String::as_str));
    match Cli::of(line).map(|(cli, _)| cli.command) {
        Ok(Command::Run(args)) => Ok(*args),
        Ok(_) => Err(Error::Usage(format!(
            "{whose}: not flags of `crawlmark run`"
        ))),
        Err(error) => {
            let text = error.render().to_string();
            let text = text.trim_start_matches("error: ").trim_end();
            Err(Error::Usage(format!("{whose}: {text}")))
        }
    }
}

/// Refuses what a round decides itself, and what is decided over all rounds. `out_of` says what to
/// remove it from, and why: `--base. Only the comparison is saved and judged`.
///
/// # Errors
/// When there is such a flag.
pub(crate) fn refuse(words: &[String], out_of: &str) -> Result<(), Error> {
    match refused_in_rounds(words) {
        Some(name) => Err(Error::Usage(format!(
            "{name} is for single runs: remove it from {out_of}"
        ))),
        None => Ok(()),
    }
}
