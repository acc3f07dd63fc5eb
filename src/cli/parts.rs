//! Arguments of the commands of a crawl in parts: `plan`, `watch`, `merge`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args};
use crawlmark_harness::units::parse_duration;
use crawlmark_results::run::parts::MAX_PARTS;

use super::{RunArgs, table, whole};

pub(super) const PLAN_EXAMPLES: &str = "\
Takes the flags of `crawlmark run`, and resolves them once: IDs, rate, seed. The
IDs, --rate, --burst, --connections and the limits per host are of the whole
crawl; --shards are of each part. Each of the W slots has an equal share of the
rate and of the connections, so that at most W parts run at once and the rate is
never exceeded, whatever is lost and run again. Use more parts than machines: a
machine that is lost then costs little. With --save NAME, each part saves its
items in its own directory; `crawlmark verify DIR` and `crawlmark export DIR`
read those of all parts. `crawlmark run --help` lists the exit codes of parts.

The IDs are those of --ids or -n, or the lines of --urls. With -d, which needs as
many slots as parts, each part stops that long after its own start; the rest of
its IDs counts as not attempted.

Secrets, commands, files, variables and proxies are not taken from a plan, which
may be of somebody else: the command that is printed has them for each part. A list
(--urls) in the directory of the plan is taken.

Examples:
  A million IDs in 64 parts, 8 at a time, at 4,000 requests a second in total:
    crawlmark plan 'http://127.0.0.1:8080/items/{id}' --ids 0..1m --rate 4000 \\
        -c 256 --nodes 64 --slots 8 --out plan.json
  The first of the parts, and the merged report:
    crawlmark run --plan plan.json --node 0/64 --into crawl
    crawlmark merge crawl
  As a Slurm job array, with the script of results/cluster/slurm:
    sbatch --array=0-63%8 part.sh crawlmark plan.json crawl 0 64";

/// Arguments of `plan`.
#[derive(Debug, Args)]
pub struct PlanArgs {
    /// Split the crawl into N parts, each a task of its own
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=MAX_PARTS.into()), help_heading = "Parts")]
    pub nodes: u32,
    /// Run at most W parts at once [default: all]
    #[arg(long, value_name = "W", value_parser = whole::<u32>(1..=MAX_PARTS.into()), help_heading = "Parts")]
    pub slots: Option<u32>,
    /// Start all parts at TIME, as in 2026-01-31T12:00:00Z
    ///
    /// A time to come, within 30 days, by the clock of the directory's file server, with which each
    /// machine compares its own. A part that has its slot only later starts at once; the merged
    /// report says how late.
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
            .value_name("FILE")
            .help_heading("Parts"),
        _ => argument.hide(true),
    }
}

pub(super) const WATCH_EXAMPLES: &str = "\
Prints a line every 10 s: parts by state, items, and the total rate beside the
budget of the plan. --once prints the state of each part, once. It reads what the
parts write each second and changes nothing, so it may run on any machine that has
the directory. It ends when all parts have a result. A part is lost when it has
written nothing for --lost-after; its scheduler may start it again, and its
program may still run.

Times are the highest ones among the running parts, each over its last second.

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
    /// Serve the page of all parts while it goes on, on 127.0.0.1
    ///
    /// As that of `run --page`: the first line on standard error has its address, with a secret in its path. Without PORT, a free one. It has
    /// the sums of all machines, and a table of the parts.
    #[arg(conflicts_with = "once", long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    pub page: Option<u16>,
}

pub(super) const MERGE_EXAMPLES: &str = "\
Adds the counts of all parts and their histograms, cell by cell, so that the
result is the one that a single machine would have measured. The shards of the
result are the parts. Refuses parts of another plan, of another program or of
other IDs, and names those that have no result.

Requests that other attempts sent in addition are counted in the report and are
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
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches as they are typed; resolved, they become enums"
)]
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
    /// Print every table before the end
    #[arg(long, short = 'v', conflicts_with = "json")]
    pub verbose: bool,
    /// Print only the page's path and errors (or the JSON)
    #[arg(long, conflicts_with = "verbose")]
    pub quiet: bool,
}
