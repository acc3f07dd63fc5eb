//! Arguments of `compare`.

use std::path::PathBuf;

use clap::Args;

use super::FormArgs;

pub(super) const EXAMPLES: &str = "\
Two directories of results, whose runs took turns (base, candidate, candidate,
base, ...), get a verdict; so does the directory of an `ab`. Two single results
get a table of their figures and no verdict: single runs prove nothing. Runs that
did not take turns are refused.

Exit codes: 0 pass · 3 regression · 5 inconclusive, single results, or too few for a history
            2 the results differ in rate, arrivals, warm-up, --expect or
              machine, or were not run in pairs

Examples:
  Two runs beside each other:
    crawlmark compare results/runs/before results/runs/after
  The verdict of a saved `ab` as Markdown, for a comment on a change:
    crawlmark compare results/runs/2026-11-22T10-00-00Z-ab --markdown
  Rounds that a script ran in turn:
    crawlmark compare rounds/base rounds/candidate --json
  When did it change?
    crawlmark compare --history results/runs --out history";

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArgs {
    /// A result, a directory of results, or what `ab` saved
    #[arg(value_name = "BASE", required_unless_present = "history")]
    pub base: Option<PathBuf>,
    /// A result, or a directory of results
    #[arg(value_name = "CAND")]
    pub candidate: Option<PathBuf>,
    /// Find changes over time among the results in DIR (advice only)
    ///
    /// Only results with the plan, machine and name of the latest one count. A change is shown if
    /// it is at least 2 %, significant at 1 %, and has five results on each side. The exit code is
    /// 0 with or without a change, and 5 with fewer than ten results.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["base", "candidate"])]
    pub history: Option<PathBuf>,
    /// Save the comparison or history, with page and plot, to DIR
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,
    /// Format of the comparison.
    #[command(flatten)]
    pub form: FormArgs,
}
