//! Flags of `run` that crawl one part of a crawl on several machines.

use std::path::PathBuf;

use clap::Args;

use crate::cluster::node::Node;

const PLAN: &str = "\
Crawl one part of the plan that `crawlmark plan` made

The plan holds the flags of the crawl, but no secrets: give headers, bodies and
passwords again. Each task of a job array runs the same command:

  crawlmark run --plan plan.json --node auto --into crawl

The part waits for one of the plan's slots, crawls its IDs with the slot's
share of the rate and of the connections, and publishes its result in DIR.
`crawlmark merge DIR` adds up the results. A part that was lost may be run
again: only one attempt at each part counts. With --save, the new attempt goes
on from what the lost one had saved.

An attempt holds its slot by a lease of 10 s, which it renews every 2 s in
DIR/slots. One that cannot renew it sends nothing until it can; after 12 s
another attempt may take the slot, and this one ends. The rate is never
exceeded, whatever is stopped, lost or run again.

Exit codes, for schedulers:
  0        the part has a result, of this attempt or of another one. Do not
           retry an invalid measurement: --strict and thresholds are for merge
  2        the command or the plan is wrong: do not retry
  1        the part has no result: a shard or the slot was lost, or the target
           or DIR could not be reached. Run it again
  130 143  stopped by a signal (137: killed). Run it again";

const NODE: &str = "\
Part to crawl: i/N, from 0/N, or auto for a scheduler's task

auto reads SLURM_ARRAY_TASK_ID (with _MIN and _COUNT), HQ_TASK_ID of HyperQueue
or JOB_COMPLETION_INDEX of a Kubernetes Indexed Job. If several are set, they have
to name the same part.";

/// Part of a crawl, as typed.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Several machines")]
pub struct PartArgs {
    /// Crawl one part of the plan that `crawlmark plan` made
    #[arg(long, value_name = "FILE", long_help = PLAN, requires_all = ["node", "into"], conflicts_with_all = ["resume", "out"])]
    pub plan: Option<PathBuf>,
    /// Part to crawl: i/N, from 0/N, or auto for a scheduler's task
    #[arg(long, value_name = "i/N|auto", long_help = NODE, requires = "plan")]
    pub node: Option<Node>,
    /// Directory that all parts share
    #[arg(long, value_name = "DIR", requires = "plan")]
    pub into: Option<PathBuf>,
}
