//! What can be typed after `report`.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Examples:
  Make the page and the plots of a result anew, in its own directory:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl
  The same elsewhere:
    crawlmark report results/runs/2026-11-22T10-00-00Z-crawl --out public";

/// Arguments of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// Directories that `crawlmark run` saved
    #[arg(value_name = "DIR", required = true)]
    pub results: Vec<PathBuf>,
    /// Where to write; the result's own directory unless given
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print nothing but errors
    #[arg(long)]
    pub quiet: bool,
}
