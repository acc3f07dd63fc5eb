//! Arguments of `plan`.

use clap::{Arg, Args};

use super::{RunArgs, whole};
use crawlmark_results::run::parts::MAX_PARTS;

pub(super) const EXAMPLES: &str = "\
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

The file holds no secrets: give headers, bodies and passwords to each part.

Examples:
  A million IDs in 64 parts, 8 at a time, at 4,000 requests a second in total:
    crawlmark plan 'http://127.0.0.1:8080/items/{id}' --ids 0..1m --rate 4000 \\
        -c 256 --nodes 64 --slots 8 --out plan.json
  The first of the parts, and the merged report:
    crawlmark run --plan plan.json --node 0/64 --into crawl
    crawlmark merge crawl
  As a Slurm job array:
    crawlmark submit slurm plan.json --into crawl --go";

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
    match argument.get_id().as_str() {
        "nodes" | "slots" | "start_at" | "url" => argument,
        "out" => argument
            .help("Write the plan to FILE, or - for standard output [default: plan.json]")
            .value_name("FILE")
            .help_heading("Parts"),
        _ => argument.hide(true),
    }
}
