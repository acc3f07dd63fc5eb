//! `crawlmark merge`: adds up the parts of a crawl on several machines.

use crawlmark_results::run::parts::{Completeness, PartsDirectory, PlanFile, merge as merge_parts};

use crate::cli::{Cli, Command, MergeArgs};
use crate::cluster::digest;
use crate::error::Error;
use crate::run;

/// Merges, saves and shows the report, and returns the exit code.
pub(crate) fn merge(args: &MergeArgs) -> Result<u8, Error> {
    let directory = PartsDirectory::at(&args.directory);
    let (plan, _) = PlanFile::read(&directory.plan())?;
    let (cli, _) = Cli::of(&plan.command.arguments)
        .map_err(|error| Error::Usage(format!("{}: {error}", directory.plan().display())))?;
    let Command::Run(crawl) = cli.command else {
        return Err(Error::Usage(format!("{}: its command is not `crawlmark run`", directory.plan().display())));
    };
    let objectives = run::objectives(&crawl, &plan.crawl)?;
    let completeness = if args.partial { Completeness::Partial } else { Completeness::All };
    let report = merge_parts(&directory, completeness, &objectives, digest::of_text)?;
    run::save_merged(&report, args)
}
