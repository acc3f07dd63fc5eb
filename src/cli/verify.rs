//! Arguments of `verify`.

use std::path::PathBuf;

use clap::Args;

pub(super) const EXAMPLES: &str = "\
Checks that no ID is finished twice or has two records of a session, that every
ID is in the range of the crawl, that checkpoints say what their
records say, and that digests of bodies and segments, checksums of frames and
seek tables are right. Changes nothing. Finished is what
is good, not found or forbidden by robots.txt: --resume asks for the other IDs.
Such a crawl is no violation: the output says how many IDs are left, and the
exit code is 0 unless --complete is given.

Of a crawl in parts (`crawlmark plan`), name the directory of the parts: the
saved crawls of all attempts that count are read one after another, and each
has to be that of its part, with as many items as its result counts.

Exit codes: 0 no violation · 4 violations (the first ten are listed), or
            items left with --complete

Examples:
  Audit a saved crawl:
    crawlmark verify crawl
  For a script:
    crawlmark verify crawl --complete --json | jq .violations";

/// Arguments of `verify`.
#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// Directory of a saved crawl (`crawlmark run --save DIR`), or of parts
    #[arg(value_name = "DIR")]
    pub crawl: PathBuf,
    /// Fail if items are left, or failed or abandoned (exit code 4)
    #[arg(long)]
    pub complete: bool,
    /// Print the audit as JSON to standard output
    #[arg(long)]
    pub json: bool,
    /// Print only errors (and the output of --json)
    #[arg(long)]
    pub quiet: bool,
}
