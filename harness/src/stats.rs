//! `ShardStats`: counters and fixed-bound histograms; constant in size, exact to merge.
//!
//! `record` takes a [`Sample`]; `merge` is associative and commutative with an identity, and merged shards equal one
//! recorder that was fed everything, cell by cell. Percentiles are computed after merging and never averaged.

use std::collections::BTreeMap;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::clock::duration_ns;
use crate::sample::{ErrorKind, Outcome, Sample};

/// Significant decimal digits of every histogram: a relative error of 0.1 % at most, 216 KiB at a limit of a minute.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Samples that must lie beyond a percentile before it is printed.
const SAMPLES_BEYOND: f64 = 10.0;

/// The bounds of every histogram of a run: 1 ns to twice the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    highest_ns: u64,
}

impl Bounds {
    /// The bounds for attempts that may take `timeout`.
    #[must_use]
    pub fn for_timeout(timeout: Duration) -> Self {
        Self { highest_ns: duration_ns(timeout).saturating_mul(2).max(2) }
    }

    /// The greatest value that a histogram of these bounds takes, ns.
    #[must_use]
    pub const fn highest_ns(&self) -> u64 {
        self.highest_ns
    }

    /// An empty histogram of these bounds.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        match Histogram::new_with_bounds(1, self.highest_ns, SIGNIFICANT_DIGITS) {
            Ok(histogram) => histogram,
            Err(_) => unreachable!("bounds are 1 to at least 2, digits are 3: always valid"),
        }
    }
}

/// A percentile, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// Fewer than ten samples lie beyond it.
    TooFew,
    /// Its value, ns, at most 0.1 % too high.
    Exact(u64),
    /// So many attempts were cut off that all that is known is that it is no less than this, ns.
    AtLeast(u64),
}

/// A distribution of times in nanoseconds, with exact count, sum and extremes beside the histogram.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    bounds: Bounds,
    histogram: Histogram<u64>,
    /// Values recorded, those beyond the bounds included.
    pub count: u64,
    /// Exact least value; `u64::MAX` when empty.
    pub min_ns: u64,
    /// Exact greatest value; 0 when empty.
    pub max_ns: u64,
    /// Exact sum.
    pub sum_ns: u128,
    /// Values beyond the histogram's bounds.
    pub overflow: u64,
    /// Attempts that were cut off: their time is only known to be longer than what they had.
    pub censored: u64,
}

impl Timing {
    /// An empty distribution.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let histogram = bounds.histogram();
        Self { bounds, histogram, count: 0, min_ns: u64::MAX, max_ns: 0, sum_ns: 0, overflow: 0, censored: 0 }
    }

    /// A distribution from its parts, as they came over a pipe or from a file.
    #[must_use]
    pub fn from_parts(bounds: Bounds, histogram: Histogram<u64>, exact: &Exact) -> Self {
        let Exact { count, min_ns, max_ns, sum_ns, overflow, censored } = *exact;
        Self { bounds, histogram, count, min_ns, max_ns, sum_ns, overflow, censored }
    }

    /// The exact figures.
    #[must_use]
    pub fn exact(&self) -> Exact {
        let Self { bounds: _, histogram: _, count, min_ns, max_ns, sum_ns, overflow, censored } = *self;
        Exact { count, min_ns, max_ns, sum_ns, overflow, censored }
    }

    /// The histogram, without the values that overflowed.
    #[must_use]
    pub const fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Records one value.
    pub fn record(&mut self, ns: u64) {
        self.count += 1;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.sum_ns += u128::from(ns);
        // A value beyond the bounds is counted, not clipped: clipping hides the very outliers that matter.
        if ns > self.bounds.highest_ns || self.histogram.record(ns).is_err() {
            self.overflow += 1;
        }
    }

    /// Adds `other`, which must have the same bounds: all histograms of one run do.
    pub fn merge(&mut self, other: &Self) {
        let Self { bounds: _, histogram, count, min_ns, max_ns, sum_ns, overflow, censored } = other;
        let added = self.histogram.add(histogram);
        debug_assert!(added.is_ok(), "histograms of one run share their bounds");
        self.count += count;
        self.min_ns = self.min_ns.min(*min_ns);
        self.max_ns = self.max_ns.max(*max_ns);
        self.sum_ns += sum_ns;
        self.overflow += overflow;
        self.censored += censored;
    }

    /// The arithmetic mean, ns; none when empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64)
    }

    /// The `q`-th quantile, `0 < q < 1`, by rank `ceil(q * n)` over the recorded and the censored attempts.
    #[must_use]
    pub fn percentile(&self, q: f64) -> Percentile {
        let known = self.count;
        let all = known + self.censored;
        if all as f64 * (1.0 - q) < SAMPLES_BEYOND {
            return Percentile::TooFew;
        }
        let rank = (q * all as f64).ceil();
        if rank > known as f64 {
            return Percentile::AtLeast(self.max_ns);
        }
        let inside = (known - self.overflow) as f64;
        if rank > inside {
            return Percentile::AtLeast(self.bounds.highest_ns);
        }
        // The histogram knows only the values inside its bounds; ask it by rank among those.
        Percentile::Exact(self.histogram.value_at_quantile(rank / inside).min(self.max_ns))
    }
}

/// The exact figures of a [`Timing`]: all of it but the histogram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exact {
    /// See [`Timing::count`].
    pub count: u64,
    /// See [`Timing::min_ns`].
    pub min_ns: u64,
    /// See [`Timing::max_ns`].
    pub max_ns: u64,
    /// See [`Timing::sum_ns`].
    pub sum_ns: u128,
    /// See [`Timing::overflow`].
    pub overflow: u64,
    /// See [`Timing::censored`].
    pub censored: u64,
}

/// Which distribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Series {
    /// First byte sent to last byte read, of good and not-found answers. Censored: attempts that timed out.
    ServiceOk,
    /// The same of throttled answers.
    ServiceThrottled,
    /// The same of rejected and failed attempts that were sent.
    ServiceError,
    /// First byte sent to first byte read, of every attempt that had an answer.
    Ttfb,
    /// Intended to released.
    SchedLag,
    /// Released to admitted.
    BudgetWait,
    /// Admitted to sent.
    PoolWait,
    /// Opening a connection.
    Connect,
}

impl Series {
    /// Every series, in the order of its discriminant.
    pub const ALL: [Self; 8] = [
        Self::ServiceOk,
        Self::ServiceThrottled,
        Self::ServiceError,
        Self::Ttfb,
        Self::SchedLag,
        Self::BudgetWait,
        Self::PoolWait,
        Self::Connect,
    ];

    /// Those that are kept per interval as well.
    pub const PER_INTERVAL: [Self; 3] = [Self::ServiceOk, Self::ServiceThrottled, Self::ServiceError];

    /// The name used in reports and as a tag in `.hlog` files.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ServiceOk => "service",
            Self::ServiceThrottled => "service_throttled",
            Self::ServiceError => "service_error",
            Self::Ttfb => "ttfb",
            Self::SchedLag => "sched_lag",
            Self::BudgetWait => "budget_wait",
            Self::PoolWait => "pool_wait",
            Self::Connect => "connect",
        }
    }
}

/// What is counted. Constant in size: statuses and kinds of error are few.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Items that ended well.
    pub ok: u64,
    /// Items that the target does not have.
    pub not_found: u64,
    /// Items that ended in a rejection or an error.
    pub failed: u64,
    /// Items that were throttled until no attempt was left.
    pub gave_up: u64,
    /// Items cut off when the run was stopped.
    pub aborted: u64,
    /// Requests tried, the failed ones included.
    pub attempts: u64,
    /// Requests of which at least a byte went out.
    pub attempts_sent: u64,
    /// Attempts beyond the first of their item.
    pub retries: u64,
    /// Attempts that the target throttled.
    pub throttled: u64,
    /// Attempts whose good status hid a challenge page.
    pub soft_blocked: u64,
    /// Connections opened.
    pub connections_opened: u64,
    /// Bytes of requests, heads included.
    pub bytes_sent: u64,
    /// Bytes of answers' bodies.
    pub bytes_received: u64,
    /// Answers by status.
    pub by_status: BTreeMap<u16, u64>,
    /// Failures by kind.
    pub by_error: BTreeMap<ErrorKind, u64>,
}

impl Counters {
    /// Items in a final state.
    #[must_use]
    pub const fn items(&self) -> u64 {
        self.ok + self.not_found + self.failed + self.gave_up + self.aborted
    }

    /// Failed attempts of all kinds: errors and rejections.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.by_error.values().sum()
    }

    /// Adds `other`.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            ok,
            not_found,
            failed,
            gave_up,
            aborted,
            attempts,
            attempts_sent,
            retries,
            throttled,
            soft_blocked,
            connections_opened,
            bytes_sent,
            bytes_received,
            by_status,
            by_error,
        } = other;
        self.ok += ok;
        self.not_found += not_found;
        self.failed += failed;
        self.gave_up += gave_up;
        self.aborted += aborted;
        self.attempts += attempts;
        self.attempts_sent += attempts_sent;
        self.retries += retries;
        self.throttled += throttled;
        self.soft_blocked += soft_blocked;
        self.connections_opened += connections_opened;
        self.bytes_sent += bytes_sent;
        self.bytes_received += bytes_received;
        for (status, count) in by_status {
            *self.by_status.entry(*status).or_default() += count;
        }
        for (kind, count) in by_error {
            *self.by_error.entry(*kind).or_default() += count;
        }
    }

    fn record(&mut self, sample: &Sample) {
        let attempt = &sample.attempt;
        self.attempts += 1;
        self.attempts_sent += u64::from(attempt.sent.is_some());
        self.connections_opened += u64::from(attempt.connect_ns.is_some());
        self.bytes_sent += attempt.bytes_sent;
        self.bytes_received += attempt.bytes_received;
        if let Some(status) = attempt.status {
            *self.by_status.entry(status).or_default() += 1;
        }
        match attempt.outcome {
            Outcome::Ok => self.ok += 1,
            Outcome::NotFound => self.not_found += 1,
            Outcome::Throttled => {
                self.throttled += 1;
                self.gave_up += 1;
            }
            Outcome::Rejected => self.failed += 1,
            Outcome::Error(kind) => {
                self.failed += 1;
                *self.by_error.entry(kind).or_default() += 1;
            }
        }
    }
}

/// Counters and distributions of one shard, of one interval of a shard, or of the whole run once merged.
#[derive(Debug, Clone, PartialEq)]
pub struct ShardStats {
    bounds: Bounds,
    /// What was counted.
    pub counters: Counters,
    /// By series; none until something is recorded.
    timings: [Option<Box<Timing>>; Series::ALL.len()],
}

impl ShardStats {
    /// Empty: the identity of [`ShardStats::merge`].
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self { bounds, counters: Counters::default(), timings: Default::default() }
    }

    /// Empty, with its distributions allocated, so that recording allocates nothing.
    #[must_use]
    pub fn with_series(bounds: Bounds, series: &[Series]) -> Self {
        let mut stats = Self::new(bounds);
        for series in series {
            stats.timing_mut(*series);
        }
        stats
    }

    /// From parts, as they came over a pipe.
    #[must_use]
    pub fn from_parts(bounds: Bounds, counters: Counters, timings: BTreeMap<Series, Timing>) -> Self {
        let mut stats = Self { counters, ..Self::new(bounds) };
        for (series, timing) in timings {
            stats.timings[series as usize] = Some(Box::new(timing));
        }
        stats
    }

    /// The bounds of its histograms.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// A distribution; none when nothing was recorded.
    #[must_use]
    pub fn timing(&self, series: Series) -> Option<&Timing> {
        self.timings[series as usize].as_deref()
    }

    /// Every distribution that exists.
    pub fn timings(&self) -> impl Iterator<Item = (Series, &Timing)> {
        Series::ALL.into_iter().filter_map(|series| Some((series, self.timing(series)?)))
    }

    /// Books one attempt that ended.
    pub fn record(&mut self, sample: &Sample) {
        self.record_only(sample, &Series::ALL);
    }

    /// Books one attempt that ended, in some of the distributions.
    pub fn record_only(&mut self, sample: &Sample, kept: &[Series]) {
        self.counters.record(sample);
        let sent = sample.attempt.sent.is_some();
        for series in kept {
            let value = match series {
                Series::ServiceOk | Series::ServiceThrottled | Series::ServiceError => {
                    (sent && *series == service_series(sample.attempt.outcome)).then(|| sample.service_ns())
                }
                Series::Ttfb => sample.ttfb_ns(),
                Series::SchedLag => Some(sample.sched_lag_ns()),
                Series::BudgetWait => Some(sample.budget_wait_ns()),
                Series::PoolWait => Some(sample.pool_wait_ns()),
                Series::Connect => sample.attempt.connect_ns,
            };
            if let Some(ns) = value {
                self.timing_mut(*series).record(ns);
            }
        }
        if matches!(sample.attempt.outcome, Outcome::Error(kind) if kind.is_censored()) {
            self.timing_mut(Series::ServiceOk).censored += 1;
        }
    }

    /// Books an item that was under way when the run was stopped.
    pub fn abort(&mut self) {
        self.counters.attempts += 1;
        self.counters.aborted += 1;
        self.timing_mut(Series::ServiceOk).censored += 1;
    }

    /// Adds `other`, which must have the same bounds.
    pub fn merge(&mut self, other: &Self) {
        let Self { bounds: _, counters, timings } = other;
        self.counters.merge(counters);
        for (series, timing) in Series::ALL.into_iter().zip(timings) {
            if let Some(timing) = timing {
                self.timing_mut(series).merge(timing);
            }
        }
    }

    fn timing_mut(&mut self, series: Series) -> &mut Timing {
        self.timings[series as usize].get_or_insert_with(|| Box::new(Timing::new(self.bounds)))
    }
}

const fn service_series(outcome: Outcome) -> Series {
    match outcome {
        Outcome::Ok | Outcome::NotFound => Series::ServiceOk,
        Outcome::Throttled => Series::ServiceThrottled,
        Outcome::Rejected | Outcome::Error(_) => Series::ServiceError,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Nanos;
    use crate::sample::{Attempt, Permit};

    pub(crate) fn bounds() -> Bounds {
        Bounds::for_timeout(Duration::from_secs(1))
    }

    /// Any attempt that a workload may report.
    pub(crate) fn any_sample() -> impl Strategy<Value = Sample> {
        let outcome = prop_oneof![
            Just((Outcome::Ok, Some(200))),
            Just((Outcome::NotFound, Some(404))),
            Just((Outcome::Throttled, Some(429))),
            Just((Outcome::Rejected, Some(500))),
            Just((Outcome::Error(ErrorKind::Timeout), None)),
            Just((Outcome::Error(ErrorKind::ConnectRefused), None)),
        ];
        let times = (0..1_u64 << 40, 0..1_u64 << 24, 0..1_u64 << 24, 0..1_u64 << 24, 0..3_000_000_000_u64);
        (times, outcome, any::<bool>(), prop::option::of(0..1_u64 << 24)).prop_map(
            |((at, lag, budget, pool, service), (outcome, status), answered, connect_ns)| {
                let (ready, admitted) = (Nanos(at + lag), Nanos(at + lag + budget));
                let sent = Nanos(admitted.0 + pool);
                let refused = outcome == Outcome::Error(ErrorKind::ConnectRefused);
                Sample {
                    permit: Permit { id: at, intended: Nanos(at), ready, admitted },
                    attempt: Attempt {
                        sent: (!refused).then_some(sent),
                        first_byte: (answered && !refused).then_some(Nanos(sent.0 + service / 2)),
                        done: Nanos(sent.0 + service),
                        connect_ns,
                        bytes_sent: 100,
                        bytes_received: 119,
                        status,
                        outcome,
                    },
                }
            },
        )
    }

    fn stats_of(samples: &[Sample]) -> ShardStats {
        let mut stats = ShardStats::new(bounds());
        for sample in samples {
            stats.record(sample);
        }
        stats
    }

    proptest! {
        // Each case clones and merges megabytes of histograms.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn merged_shards_equal_one_recorder_fed_everything(
            samples in prop::collection::vec(any_sample(), 0..200), cuts in (0..200_usize, 0..200_usize),
        ) {
            let (a, b) = (cuts.0.min(cuts.1).min(samples.len()), cuts.0.max(cuts.1).min(samples.len()));
            let parts = [stats_of(&samples[..a]), stats_of(&samples[a..b]), stats_of(&samples[b..])];
            let whole = stats_of(&samples);
            let mut left = parts[0].clone();
            left.merge(&parts[1]);
            left.merge(&parts[2]);
            let mut right = parts[2].clone();
            right.merge(&parts[1]);
            right.merge(&parts[0]);
            let mut with_identity = ShardStats::new(bounds());
            with_identity.merge(&left);
            prop_assert_eq!(&left, &whole);
            prop_assert_eq!(&right, &whole);
            prop_assert_eq!(&with_identity, &whole);
        }

        #[test]
        fn every_attempt_ends_in_one_state(samples in prop::collection::vec(any_sample(), 0..200), aborts in 0..5_u64) {
            let mut stats = stats_of(&samples);
            (0..aborts).for_each(|_| stats.abort());
            let counters = &stats.counters;
            prop_assert_eq!(counters.items(), samples.len() as u64 + aborts);
            prop_assert_eq!(counters.attempts, counters.items());
            let answered: u64 = counters.by_status.values().sum();
            prop_assert_eq!(answered + counters.errors() + aborts, counters.attempts);
            let timed: u64 = stats.timings().filter(|(s, _)| Series::PER_INTERVAL.contains(s)).map(|(_, t)| t.count).sum();
            prop_assert_eq!(timed, counters.attempts_sent);
        }
    }

    #[test]
    fn c4_a_percentile_is_the_exact_one_or_at_most_a_thousandth_above() {
        let mut values: Vec<u64> = (0..100_000_u64).map(|i| 1_000 + i * i % 1_900_000_000).collect();
        let mut timing = Timing::new(bounds());
        for ns in &values {
            timing.record(*ns);
        }
        values.sort_unstable();
        for (q, rank) in [(0.5, 50_000), (0.9, 90_000), (0.99, 99_000), (0.999, 99_900)] {
            let exact = values[rank - 1];
            let Percentile::Exact(got) = timing.percentile(q) else { panic!("p{q} is known") };
            assert!(got >= exact && (got - exact) as f64 <= exact as f64 * 0.000_977, "p{q}: {got} for {exact}");
        }
    }

    #[test]
    fn a_percentile_needs_ten_samples_beyond_it() {
        let mut timing = Timing::new(bounds());
        (0..999).for_each(|_| timing.record(5));
        assert_eq!(timing.percentile(0.99), Percentile::TooFew);
        timing.record(5);
        assert_eq!(timing.percentile(0.99), Percentile::Exact(5));
    }

    #[test]
    fn censored_attempts_push_a_percentile_out_of_sight() {
        let mut timing = Timing::new(bounds());
        (0..980).for_each(|_| timing.record(7));
        timing.censored = 20;
        assert_eq!(timing.percentile(0.5), Percentile::Exact(7));
        assert_eq!(timing.percentile(0.99), Percentile::AtLeast(7));
    }

    #[test]
    fn a_value_beyond_the_bounds_is_counted_and_not_clipped() {
        let mut timing = Timing::new(bounds());
        (0..100).for_each(|_| timing.record(9_000_000_000));
        assert_eq!((timing.overflow, timing.max_ns, timing.histogram().len()), (100, 9_000_000_000, 0));
        assert_eq!(timing.percentile(0.5), Percentile::AtLeast(bounds().highest_ns()));
    }
}
