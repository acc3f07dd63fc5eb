//! `CutReport`: results of a part of a run, as printed and saved (schema `crawlmark.cut/1`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::steady::SteadyState;
use crate::run::report::{BindingReport, Latency, Verdict};
use crawlmark_harness::stats::SecondCounts;

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.cut/1";

/// Report on a part of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CutReport {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that cut.
    pub crawlmark_version: String,
    /// The result that it is a part of.
    pub source: CutSource,
    /// The seconds.
    pub part: CutSeconds,
    /// The shards, in order.
    pub shards: Vec<u32>,
    /// Answers whose times are reported: `all`, `ok`, `throttled` or `error`.
    pub outcome: String,
    /// Attempts that were scheduled in these seconds, were sent and ended by themselves, by what
    /// they came to: `ok`, `throttled`, `error`.
    pub answers: BTreeMap<String, Answered>,
    /// The times of the chosen answers, by series, as in a result; to 0.1 %, the least, the
    /// greatest and the mean included.
    pub latency: BTreeMap<String, Latency>,
    /// Counts of what ended in these seconds; null for a part of the shards, for it is only known
    /// of all of them.
    pub counted: Option<Counted>,
    /// Unknown figures and caveats of this part, in sentences.
    pub notes: Vec<String>,
}

/// The result that a cut is of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CutSource {
    /// See [`Report`](crate::run::report::Report).
    pub run_id: String,
    /// See [`Report`](crate::run::report::Report).
    pub name: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// Target that was crawled.
    pub target: String,
    /// Number of shards that crawled.
    pub shards: u32,
    /// Validity of the whole result.
    pub verdict: Verdict,
}

/// Seconds that the cut holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CutSeconds {
    /// The first, from the common start.
    pub from_s: u64,
    /// The one after the last.
    pub to_s: u64,
    /// Length of time that rates are counted over: without the time after the run's last answer.
    pub duration_s: f64,
    /// End of the run's last second.
    pub run_s: u64,
    /// Duration of the run, `totals.duration_s` of its result.
    pub run_duration_s: f64,
    /// `whole`, `asked` or `steady`.
    pub chosen: String,
    /// Steady state, and the way it was found; null unless requested.
    pub steady: Option<SteadyState>,
}

/// Number and rate of answers of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    /// In these seconds.
    pub count: u64,
    /// Over their duration.
    pub per_s: f64,
}

/// Sums over the seconds of a result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// Counts of what ended in them.
    #[serde(flatten)]
    pub counts: SecondCounts,
    /// Attempts that ended by themselves, over the duration.
    pub attempts_per_s: f64,
    /// Items that ended by themselves, over the duration: the aborted ones did not.
    pub items_per_s: f64,
    /// The most requests under way at the end of a second.
    pub most_in_flight: u32,
    /// The client's greatest lateness.
    pub max_sched_lag_us: f64,
    /// CPU of the shards, user and system; null without an attempt.
    pub cpu_us_per_attempt: Option<f64>,
    /// Limits that held the shards back, as parts of their time: the mean over the seconds.
    pub binding: BindingReport,
}
