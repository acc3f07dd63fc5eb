//! Arguments of `merge`.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Adds the counts of all parts and their histograms, cell by cell, so that the
result is the one that a single machine would have measured. The shards of the
result are the parts. Refuses parts of another plan, of another program or of
other IDs, and names those that have no result.

Requests that other attempts sent in addition (of machines that were called dead
and went on, of tasks that were cancelled) are counted in the report and are
part of no figure.

Exit codes: 0 done · 3, 5 a threshold of the plan failed, or was undecided
            2 the directory holds no parts, or foreign ones
            1 parts are missing, or a file is damaged
            4 merged with --partial, and parts are missing

Examples:
  Merge the parts in crawl, and save the report:
    crawlmark merge crawl --out merged
  What is there, though parts are missing:
    crawlmark merge crawl --partial";

/// Arguments of `merge`.
#[derive(Debug, Args)]
pub struct MergeArgs {
    /// Directory of the parts (`crawlmark run --plan FILE --into DIR`)
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Merge the parts that have a result, though others have none
    #[arg(long)]
    pub partial: bool,
    /// Save the result to DIR [default: results/runs/TIME-merged]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON to standard output
    #[arg(long)]
    pub json: bool,
    /// Print only errors (and the output of --json)
    #[arg(long)]
    pub quiet: bool,
}
