//! Patterns of crawls side by side: the ways in which field reports limit a crawl, each a run of
//! its own on one target.
//!
//! Each row is read from the report of its run. It must not know the flags of a pattern.

mod words;

pub(crate) use self::words::figures;
pub use self::words::{pattern_standing, patterns_headline};

use serde::{Deserialize, Serialize};

use crate::run::report::{Environment, Report, Verdict};
use crawlmark_harness::stats::Series;

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.patterns/1";

/// The name of the file.
pub const FILE: &str = "patterns.json";

/// Patterns that were run, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Patterns {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that ran them.
    pub crawlmark_version: String,
    /// Name that the user gives it.
    pub name: String,
    /// RFC 3339, UTC: the start of the first run.
    pub started_at: String,
    /// RFC 3339, UTC: the end of the last one.
    pub finished_at: String,
    /// True if a signal, or a run that failed, ended it before it was over.
    pub interrupted: bool,
    /// The machine.
    pub environment: Environment,
    /// Each pattern, in the order in which they were run.
    pub patterns: Vec<PatternReport>,
}

/// Readings of the run of a pattern. Rates and times are of after its warm-up.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PatternReport {
    /// The pattern, in a few words.
    pub pattern: String,
    /// The flags of `run` that it is.
    pub flags: Vec<String>,
    /// The directory of its result.
    pub result: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// Good items per second.
    pub ok_per_s: f64,
    /// Attempts.
    pub attempts: u64,
    /// Part of the attempts that the target throttled.
    pub throttled_share: f64,
    /// 99th percentile of the good answers, from the first byte sent to the last one read; null
    /// with too few samples.
    pub service_p99_us: Option<f64>,
    /// Requests in flight at most, over all shards.
    pub peak_in_flight: u64,
    /// Memory of all shards at most; null where the machine does not tell.
    pub memory_bytes: Option<u64>,
}

impl PatternReport {
    /// Read the run of a pattern with these flags, whose result is in `result`.
    #[must_use]
    pub fn of(report: &Report, pattern: &str, (flags, result): (Vec<String>, String)) -> Self {
        let (totals, counted) = (&report.totals, report.measured());
        Self {
            pattern: pattern.to_owned(),
            flags,
            result,
            validity: report.validity.verdict,
            ok_per_s: totals.good_per_s(&report.ledger),
            attempts: totals.attempts,
            throttled_share: counted.requests.throttled as f64
                / counted.requests.attempts.max(1) as f64,
            service_p99_us: report
                .latency(Series::ServiceOk)
                .and_then(|service| service.p99_us),
            peak_in_flight: totals.peak_in_flight,
            memory_bytes: report
                .shards
                .iter()
                .map(|shard| shard.usage.max_rss_bytes)
                .sum(),
        }
    }
}

impl Patterns {
    /// Build the result of these runs, of which the first began and the last ended at `times`.
    #[must_use]
    pub fn new(
        name: String,
        patterns: Vec<PatternReport>,
        (times, environment): ([String; 2], Environment),
    ) -> Self {
        let [started_at, finished_at] = times;
        let crawlmark_version = env!("CARGO_PKG_VERSION").to_owned();
        let (schema, interrupted) = (SCHEMA.to_owned(), false);
        Self {
            schema,
            crawlmark_version,
            name,
            started_at,
            finished_at,
            interrupted,
            environment,
            patterns,
        }
    }

    /// Return the pattern with most good items per second.
    #[must_use]
    pub fn fastest(&self) -> Option<&PatternReport> {
        self.patterns
            .iter()
            .max_by(|a, b| a.ok_per_s.total_cmp(&b.ok_per_s))
    }
}
