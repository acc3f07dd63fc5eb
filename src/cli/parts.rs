//! Arguments of the commands of a crawl in parts: `plan`, `watch`, `merge`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args};
use crawlmark_harness::units::parse_duration;
use crawlmark_results::run::parts::MAX_PARTS;

use super::{RunArgs, table, whole};

pub(super) const PLAN_EXAMPLES: &str = "\
The command takes the flags of `crawlmark run`, and resolves them once for all
parts. The IDs, --rate, --burst, --connections and the limits per host apply to the
whole crawl. --shards applies to each part. Each of the W slots has an equal share of
the rate and of the connections, so at most W parts run together. The rate is never
exceeded, even if parts are lost and run again. Use more parts than machines, so that
the loss of a machine loses little work. With --save NAME, each part saves its items
in its own directory. `crawlmark verify DIR` and `crawlmark export DIR` read the items
of all parts. `crawlmark run --help` lists the exit codes of parts.

The IDs are those of --ids or -n, or the lines of --urls. With -d, each part stops
that long after its own start, and the rest of its IDs counts as not attempted. -d
needs as many slots as parts.

A plan may come from another person, so secrets, commands, files, variables and
proxies are not taken from it. `plan` prints a command for the parts, with flags for
all of these. Only a list (--urls) in the directory of the plan is read from there.

Examples:
  A million IDs in 64 parts, 8 at a time, at 4,000 requests a second in total:
    crawlmark plan 'http://127.0.0.1:8080/items/{id}' --ids 0..1m --rate 4000 \\
        -c 256 --nodes 64 --slots 8 --out plan.json
  The first part, and the merged report:
    crawlmark run --plan plan.json --node 0/64 --into crawl
    crawlmark merge crawl
  As a Slurm job array, with the script in results/cluster/slurm:
    sbatch --array=0-63%8 part.sh crawlmark plan.json crawl 0 64";

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Split the crawl into N parts, each a task of its own
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MAX_PARTS.into()), help_heading = "Parts")]
    pub nodes: u32,
    /// Run at most W parts at the same time [default: all]
    #[arg(long, value_name = "W", value_parser = whole::<u32>(1..=MAX_PARTS.into()), help_heading = "Parts")]
    pub slots: Option<u32>,
    /// Start all parts at TIME, as in 2026-01-31T12:00:00Z
    ///
    /// TIME must be in the future, within 30 days. TIME is read on the clock of the file server
    /// that holds the shared directory. Each machine compares its own clock with that one. If a
    /// part gets its slot later, it starts immediately, and the merged report says how late it was.
    #[arg(long, value_name = "TIME", value_parser = parse_start, help_heading = "Parts")]
    pub start_at: Option<humantime::Timestamp>,
    /// Flags of the crawl.
    #[command(flatten)]
    pub run: RunArgs,
}

/// Parse a time in UTC.
fn parse_start(text: &str) -> Result<humantime::Timestamp, String> {
    text.parse()
        .map_err(|_| format!("`{text}` is not a time in UTC: write it as in 2026-01-31T12:00:00Z"))
}

/// Show an argument in the help of `plan` if it is one of its own.
pub(super) fn shown(argument: Arg) -> Arg {
    let argument = table::described(argument);
    match argument.get_id().as_str() {
        "nodes" | "slots" | "start_at" | "url" => argument,
        "out" => argument
            .help("Write the plan to FILE, or - for standard output [default: plan.json]")
            .long_help(None::<&str>)
            .value_name("FILE")
            .help_heading("Parts"),
        _ => argument.hide(true),
    }
}

pub(super) const WATCH_EXAMPLES: &str = "\
The command prints a line every 10 s: the parts by state, the items, the total rate,
and the budget of the plan. --once prints the state of each part once. The command
reads what the parts write each second, and changes nothing. So it may run on any
machine that can read the directory. It ends when all parts have a result. A part is
lost if it has written nothing for --lost-after. Its program may still run, or the
scheduler may start the part again.

Each time is the highest value of any running part, over the last second of that part.

Exit codes: 0 done · 1 (--once) a part cannot be read · 2 DIR contains no plan

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
    /// Print one snapshot, as soon as it is known which parts are alive
    ///
    /// If every part has a result or no live attempt, the snapshot is printed immediately. The
    /// command fails if a part has a damaged result, or cannot be read for as long as --lost-after.
    #[arg(long)]
    pub once: bool,
    /// Print the snapshot as JSON to standard output
    #[arg(long, requires = "once")]
    pub json: bool,
    /// Call a part lost when it has written nothing for TIME
    #[arg(long, value_name = "TIME", default_value = "30s", value_parser = parse_duration)]
    pub lost_after: Duration,
    /// Serve a live page of all parts on 127.0.0.1
    ///
    /// The page works like the page of `run --page`: the first line on standard error is its
    /// address, which contains a secret path. Without PORT, a free port is used. The page has the
    /// sums of all machines, and a table of the parts.
    #[arg(conflicts_with = "once", long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub page: Option<u16>,
}

pub(super) const MERGE_EXAMPLES: &str = "\
The command adds the counts of all parts, and adds their histograms bucket by bucket.
So the result is the one that a single machine would have measured. In the result,
each part is a shard. Parts of another plan, of another program or of other IDs are
refused. Parts without a result are named.

If other attempts at a part sent requests, the report has their number, and no figure
includes them.

Exit codes: 0 done · 3, 5 a threshold of the plan failed, or was undecided
            2 the directory contains no parts, or parts of another plan
            1 parts are missing, or a file is damaged
            4 merged with --partial, although parts are missing

Examples:
  Merge the parts in crawl, and save the report:
    crawlmark merge crawl --out merged
  Merge the existing results, although parts are missing:
    crawlmark merge crawl --partial";

/// Arguments of `merge`.
#[derive(Debug, Args)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches as they are typed; resolved, they become enums"
)]
pub struct MergeArgs {
    /// Directory of the parts (`crawlmark run --plan FILE --into DIR`)
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    /// Merge the parts that have a result, even if others have none
    #[arg(long)]
    pub partial: bool,
    /// Save the result to DIR [default: results/runs/TIME-merged]
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Print the result as JSON to standard output
    #[arg(long)]
    pub json: bool,
    /// Print every table before the closing summary
    #[arg(long, short = 'v', conflicts_with = "json")]
    pub verbose: bool,
    /// Print errors and the page's path only; with --json, the JSON
    #[arg(long, conflicts_with = "verbose")]
    pub quiet: bool,
}
