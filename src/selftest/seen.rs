//! Figures of a run that the rows need. Read from a report and from the histograms behind it;
//! judged in `judge`.

use std::time::Duration;

use crawlmark_harness::stats::{Bounds, Percentile, Series, ShardStats, Timing};
use crawlmark_harness::supervisor::RunRecord;
use crawlmark_mock_server::Ledger;
use crawlmark_results::run::report::{Report, Verdict};
use crawlmark_results::show::text::micros;

/// One run.
#[derive(Debug, Clone)]
pub(super) struct ObservedRun {
    /// May it be believed?
    pub(super) verdict: Verdict,
    /// Reason why not.
    pub(super) reasons: Vec<String>,
    /// All shards together.
    pub(super) stats: ShardStats,
    /// As reported.
    pub(super) items_per_s: f64,
    /// As reported, of an open loop.
    pub(super) achieved_per_s: Option<f64>,
    /// Requests that the target counted.
    pub(super) asked: u64,
    /// One hold in a hundred ended later than planned by this or more, as the target says, us.
    pub(super) target_late_us: u64,
}

/// Lateness of the target itself: with more, it was the target that was disturbed. What it holds
/// too long it reports as held, but a target that is late for that is late for everything.
const TARGET_LATE_US: u64 = 2_000;

impl ObservedRun {
    /// Reason why it is no evidence; nothing when it is.
    ///
    /// A run whose parts do not add up is no noise: it is evidence against.
    pub(super) fn troubles(&self) -> Vec<String> {
        let mut troubles = match self.verdict {
            Verdict::Valid | Verdict::Incomplete => Vec::new(),
            _ => self.reasons.clone(),
        };
        // After a stall an open loop's answers are due all at once, and the last of them late, on a
        // machine however quiet.
        if self.achieved_per_s.is_none() && self.target_late_us > TARGET_LATE_US {
            let late = micros(self.target_late_us as f64);
            troubles.push(format!(
                "the target itself ended 1 % of its holds at least {late} late"
            ));
        }
        troubles
    }

    /// Counts by the crawl's report and by the target.
    pub(super) fn new(report: &Report, record: &RunRecord, ledger: &Ledger) -> Self {
        let mut stats = ShardStats::new(Bounds::for_timeout(report.plan.run.timeout));
        record
            .shards
            .iter()
            .for_each(|shard| shard.stats.add_to(&mut stats));
        Self {
            verdict: report.validity.verdict,
            reasons: report.validity.reasons.clone(),
            stats,
            items_per_s: report.totals.items_per_s,
            achieved_per_s: report
                .schedule
                .as_ref()
                .map(|schedule| schedule.achieved_per_s),
            asked: ledger.requests,
            // The counts know it by powers of two, and say the upper end.
            target_late_us: ledger
                .hold_error_us
                .p99_at_most_us
                .map_or(0, |us| us.div_ceil(2)),
        }
    }

    /// A quantile of a series, us; none when there are too few values for it, or too many were cut
    /// off.
    pub(super) fn quantile_us(&self, series: Series, q: f64) -> Option<f64> {
        match self.stats.timing(series)?.percentile(q) {
            Percentile::Exact(ns) => Some(ns as f64 / 1e3),
            Percentile::AtLeast(_) | Percentile::TooFew => None,
        }
    }

    /// The greatest value of a series, us.
    pub(super) fn max_us(&self, series: Series) -> Option<f64> {
        let exact = self.stats.timing(series)?.exact();
        (exact.count > 0).then(|| exact.max_ns as f64 / 1e3)
    }

    /// Values of a series above `than`.
    pub(super) fn above(&self, series: Series, than: Duration) -> u64 {
        let than_ns = u64::try_from(than.as_nanos()).unwrap_or(u64::MAX);
        let count = |timing: &Timing| {
            timing.histogram().count_between(
                than_ns.saturating_add(1),
                timing.exact().max_ns.max(than_ns + 1),
            ) + timing.exact().overflow
        };
        self.stats.timing(series).map_or(0, count)
    }

    /// Values of a series that are 0.
    pub(super) fn at_zero(&self, series: Series) -> u64 {
        self.stats
            .timing(series)
            .map_or(0, |timing| timing.histogram().count_at(0))
    }

    /// Return the number of values of a series.
    pub(super) fn count(&self, series: Series) -> u64 {
        self.stats
            .timing(series)
            .map_or(0, |timing| timing.exact().count)
    }
}
