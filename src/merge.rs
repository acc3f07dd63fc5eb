//! `crawlmark merge`: adds up the parts of a crawl on several machines.

use crawlmark_results::run::parts::{Completeness, PartsDirectory, PlanFile, merge as merge_parts};
use crawlmark_results::run::result_dir::ResultDir;

use crate::cli::{Cli, Command, FileCommand, MergeArgs};
use crate::cluster::digest;
use crate::error::Error;
use crate::run;

/// Merges, saves and shows the report, and returns the exit code.
pub(crate) fn merge(args: &MergeArgs) -> Result<u8, Error> {
    let directory = PartsDirectory::at(&args.directory);
    let plan = PlanFile::shared(&directory)?;
    let again = FileCommand::of(&plan, &directory.plan()).typed_again();
    let directory = directory.typing(again);
    let Some(Command::Run(crawl)) = Cli::of(&plan.command.arguments).ok().map(|cli| cli.command)
    else {
        let path = directory.plan();
        return Err(Error::Usage(format!(
            "{}: its `command` is not one of `crawlmark run`. Restore the file",
            path.display()
        )));
    };
    let objectives = run::objectives(&crawl, &plan.crawl)?;
    let completeness = if args.partial {
        Completeness::Partial
    } else {
        Completeness::All
    };
    let result = ResultDir::begin(args.out.as_deref(), "merged")?;
    match merge_parts(&directory, completeness, &objectives, Some(result.log()?)) {
        Ok(report) => run::save_merged(&report, result, args, crawl.strict),
        Err(error) => {
            // All of it is in the parts still.
            if let Some(place) = result.leave() {
                let _ = std::fs::remove_dir_all(place);
            }
            Err(digest::explain(error, &plan))
        }
    }
}
