//! Arguments of `selftest`, and the names of its rows.

use std::fmt;

use clap::{Args, ValueEnum};

use super::OutputArgs;

pub(super) const EXAMPLES: &str = "\
Rows (--quick leaves out R8, unless --rows names it):
  R1  some items take 500 ms, the others 20 ms: the number of slow responses
      and the percentiles
  R2  for each response: service time minus the delay that the target reports
  R3  open loop through a stall: the percentiles include every wait
  R4  closed loop through the same stall, which hides the waits
  R5  requests scheduled in R3: the report and the target's count agree
  R6  two shards do twice the work of one
  R7  a shard is stopped for 500 ms: the report blames this client
  R8  21 ms against 20 ms in pairs of runs: the ratio, and the verdict

A row is tried up to three times, and passes if one try is within its tolerances.
It fails if two tries with valid runs miss the tolerances, or if one try shows
something that noise cannot cause. If every try was disturbed, the row neither
passes nor fails.

Exit codes: 0 every row passed · 3 a row failed
            5 no row failed, but some could not be judged
            1 a row could not run · 2 usage
            129 / 130 / 143 ended by a signal, partial result saved

Examples:
  How far off are measurements on this machine?
    crawlmark selftest
  The short form, for CI, and its result as JSON:
    crawlmark selftest --quick --json --out selftest";

/// Arguments of `selftest`.
#[derive(Debug, Args)]
pub struct SelftestArgs {
    /// Run the short form: at most 40 s in all, and no R8
    ///
    /// Rows are shorter, with the same tolerances.
    #[arg(long, visible_alias = "short")]
    pub quick: bool,
    /// Measure only these rows, R1 to R8, comma-separated
    #[arg(
        long,
        value_name = "ROW,..",
        value_delimiter = ',',
        value_enum,
        ignore_case = true,
        hide_possible_values = true
    )]
    pub rows: Vec<Row>,

    /// Output options.
    #[command(flatten)]
    pub keep: OutputArgs,
}

/// Row of the selftest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
#[value(rename_all = "UPPER")]
pub enum Row {
    /// Two holds, told apart by ID.
    R1,
    /// Service time minus the hold.
    R2,
    /// Open loop through a stall.
    R3,
    /// Closed loop through a stall.
    R4,
    /// Achieved of what was scheduled.
    R5,
    /// Two shards against one.
    R6,
    /// A shard that is stopped.
    R7,
    /// Five percent more.
    R8,
}

impl Row {
    /// All, in order.
    pub const ALL: [Self; 8] = [
        Self::R1,
        Self::R2,
        Self::R3,
        Self::R4,
        Self::R5,
        Self::R6,
        Self::R7,
        Self::R8,
    ];
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}
