//! `crawlmark report`: read saved results, make of them what people and other tools look at.

use crawlmark_harness::results::{self, PAGE};

use crate::cli::ReportArgs;
use crate::error::{DONE, Error};
use crate::terminal;

/// Remakes, and returns the exit code.
pub(crate) fn report(args: &ReportArgs) -> Result<u8, Error> {
    let [result] = &*args.results else {
        return Err(Error::Usage("several results cannot be laid over each other yet: name one".to_owned()));
    };
    let report = results::read(result)?;
    // A `result.json` may be named by itself.
    let own = if result.is_dir() { result } else { result.parent().unwrap_or(result) };
    let directory = args.out.as_deref().unwrap_or(own);
    results::remake(directory, &results::made_from(&report))?;
    if !args.quiet {
        terminal::print(&format!("{}\n", directory.join(PAGE).display()))?;
    }
    Ok(DONE)
}
