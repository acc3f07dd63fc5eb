//! Arguments of `watch`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use crawlmark_harness::units::parse_duration;

pub(super) const EXAMPLES: &str = "\
Shows the state of each part, the total rate beside the budget of the plan, and
how long it will take. It reads what the parts write each second and changes
nothing, so it may run on any machine that has the directory, and as often as you
like. It ends when all parts have a result.

A part is lost when it has written nothing for --lost-after, by the clock of this
machine. Its scheduler may start it again, and its program may still run.

Times are the highest ones among the running parts, each over its last second:
percentiles cannot be added up before the merge. With many parts, each look reads
some of them, and the first line says how old the oldest figure is.

Exit codes: 0 done · 1 (--once) a part cannot be read · 2 DIR holds no plan

Examples:
  Watch a crawl until all of its parts are done:
    crawlmark watch crawl
  A snapshot for a script:
    crawlmark watch crawl --once --json | jq .parts.lost";

/// Arguments of `watch`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Directory of the parts (`crawlmark run --plan FILE --into DIR`)
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Print one snapshot, once it is known which parts are alive
    ///
    /// Printed at once if every part has a result or no live attempt. Fails if a part cannot be
    /// read for --lost-after, or has a damaged result.
    #[arg(long)]
    pub once: bool,
    /// Print the snapshot as JSON to standard output
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Call a part lost when it has written nothing for TIME
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub lost_after: Duration,
}
