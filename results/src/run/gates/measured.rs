//! Measured value of a metric for a run, or for a part of it.
//!
//! A whole run is measured by its report alone, so that a saved one can be judged as well; some
//! seconds by their merged statistics. A figure with too few samples is unknown, with the reason.

use super::{Condition, Metric, Quantile, Quantity, Stat};
use crate::run::report::{Latency, Report, Verdict};
use crawlmark_harness::plan::OnThrottle;
use crawlmark_harness::stats::{Counters, ItemCounts, Percentile, Series, ShardStats, Timing};
use crawlmark_harness::units::grouped;

/// Samples that must lie beyond a percentile before it is judged: ten times as many as before it is
/// printed.
pub const SAMPLES_BEYOND: u64 = 100;

/// Samples that a part of a run must have before its means and shares are judged.
pub(super) const SAMPLES_LIVE: u64 = 100;

/// Known value of a metric, in its unit.
#[derive(Debug, Clone, PartialEq)]
pub enum Measured {
    /// Its value.
    Exactly(f64),
    /// Lower bound: too many attempts were cut off to know more.
    AtLeast(f64),
    /// Lower bound, and the number of requests that have no time: they were due, found the queue
    /// full and were never sent.
    Without(f64, u64),
    /// Nothing, and why.
    Unknown(String),
}

/// Basis of a figure: a whole run or a part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// A whole run: its means and shares are what they are.
    Run,
    /// A part of one: its means and shares are judged with 100 samples only.
    Part,
}

impl Measured {
    fn of(value: Option<f64>, none: &str) -> Self {
        value.map_or_else(|| Self::Unknown(none.to_owned()), Self::Exactly)
    }

    /// True if the value is only known to be no less.
    #[must_use]
    pub const fn is_at_least(&self) -> bool {
        matches!(self, Self::AtLeast(_) | Self::Without(..))
    }

    /// Its value, or the least that it can be.
    #[must_use]
    pub const fn value(&self) -> Option<f64> {
        match self {
            Self::Exactly(value) | Self::AtLeast(value) | Self::Without(value, _) => Some(*value),
            Self::Unknown(_) => None,
        }
    }
}

/// Measure `metric` from the report of a run.
#[must_use]
pub fn of_report(metric: Metric, report: &Report) -> Measured {
    let quantity = match metric {
        Metric::Time(series, stat) => {
            let untimed = if series == Series::ResponseOk {
                report.found_queue_full()
            } else {
                0
            };
            let of_latency = |latency| of_latency(latency, stat, untimed);
            return report
                .latency(series)
                .map_or_else(|| nothing_of(series), of_latency);
        }
        Metric::Of(quantity) => quantity,
    };
    let totals = &report.totals;
    match quantity {
        Quantity::Rate => rate_of(totals.items_per_s, totals.duration_s),
        Quantity::AttemptsRate => rate_of(totals.attempts_per_s, totals.duration_s),
        Quantity::BudgetUtilisation => Measured::of(
            report.budget.as_ref().map(|budget| budget.utilisation),
            "the run has no budget",
        ),
        Quantity::CpuUsPerAttempt => cpu_us_per_attempt(report),
        Quantity::Valid => Measured::Exactly(f64::from(report.validity.verdict == Verdict::Valid)),
        Quantity::Unfinished => Measured::Exactly(report.ledger.unfinished as f64),
        Quantity::NotAttempted => Measured::Exactly(report.ledger.not_attempted as f64),
        Quantity::Lost => Measured::Exactly(report.ledger.lost as f64),
        Quantity::Dropped => Measured::Exactly(totals.dropped as f64),
        Quantity::ConnectionsOpened => Measured::Exactly(totals.connections_opened as f64),
        // Who only counts throttling has a metric for it, `throttled_rate`.
        Quantity::ErrorRate if report.plan.run.throttling.on_throttle != OnThrottle::Count => {
            let counted = report.measured();
            match measure(&counted, quantity, Basis::Run) {
                Measured::Exactly(of_requests) => {
                    Measured::Exactly(of_requests.max(missed_share(&counted.items)))
                }
                unknown => unknown,
            }
        }
        other => measure(&report.measured(), other, Basis::Run),
    }
}

/// Items without an answer as a part of all that were tried: failed, abandoned, cut off, or waiting
/// for a retry at the end. Retries hide them among the requests.
fn missed_share(items: &ItemCounts) -> f64 {
    let missed = items.failed + items.gave_up + items.aborted + items.unfinished;
    missed as f64 / items.begun().max(1) as f64
}

/// Measure the metric of `condition` from the report of a run. With too few samples, return a lower
/// bound if it breaks the condition: enough samples exceed the limit that fast ones could not make
/// up for them.
#[must_use]
pub fn of_condition(condition: &Condition, report: &Report) -> Measured {
    let seen = of_report(condition.metric, report);
    let (Metric::Time(series, Stat::Percentile(_)), Measured::Unknown(_)) =
        (condition.metric, &seen)
    else {
        return seen;
    };
    let least = report
        .latency(series)
        .and_then(exceeded_by_enough)
        .map(Measured::AtLeast);
    least
        .filter(|least| condition.judge(least) == Some(false))
        .unwrap_or(seen)
}

/// Say why a percentile is a lower bound by [`of_condition`]; none if the report has enough samples
/// to know it.
pub(super) fn reason_of_bound(condition: &Condition, report: &Report) -> Option<String> {
    let Metric::Time(series, Stat::Percentile(quantile)) = condition.metric else {
        return None;
    };
    let latency = report.latency(series)?;
    let (have, need) = (
        latency.count + latency.censored,
        quantile.samples_for(SAMPLES_BEYOND),
    );
    let reason = || {
        let (have, need) = (grouped(have), grouped(need));
        format!(
            "lower bound: {SAMPLES_BEYOND} of {have} samples took longer; it takes {need} to evaluate a {quantile}"
        )
    };
    (have < need).then(reason)
}

/// Return the greatest value that [`SAMPLES_BEYOND`] samples exceed, µs: a lower bound of the
/// percentile.
fn exceeded_by_enough(latency: &Latency) -> Option<f64> {
    let all = latency.count + latency.censored;
    let rank = all.checked_sub(SAMPLES_BEYOND).filter(|rank| *rank > 0)?;
    match latency
        .distribution()?
        .percentile((rank as f64 - 0.5) / all as f64)
    {
        Percentile::Exact(ns) | Percentile::AtLeast(ns) => Some(ns as f64 / 1e3),
        Percentile::TooFew => None,
    }
}

/// Measure `metric` from the merged statistics of some seconds of a run. A figure that only the end
/// of a run shows is unknown.
#[must_use]
pub fn of_stats(metric: Metric, stats: &ShardStats, seconds: f64) -> Measured {
    let per_second = |n: u64| rate_of(n as f64 / seconds, seconds);
    match metric {
        Metric::Time(series, stat) => of_timing(stats, series, stat),
        Metric::Of(Quantity::Rate) => per_second(stats.counters.items.completed()),
        Metric::Of(Quantity::AttemptsRate) => per_second(stats.counters.completed()),
        Metric::Of(quantity) => measure(&stats.counters, quantity, Basis::Part),
    }
}

/// The least that some seconds, merged, say about `metric` when they are over and requests that
/// were due in them have not ended; such requests are in the distribution at an age that they have
/// at least. Other metrics than times are what they are.
#[must_use]
pub fn least_of_stats(metric: Metric, stats: &ShardStats, seconds: f64) -> Measured {
    let Metric::Time(series, stat) = metric else {
        return of_stats(metric, stats, seconds);
    };
    let Some(timing) = stats.timing(series) else {
        return Measured::Unknown("nothing was measured".to_owned());
    };
    let (exact, at_least) = (timing.exact(), |ns: Option<f64>| {
        ns.map(|ns| Measured::AtLeast(ns / 1e3))
    });
    if let Err(why) = enough(
        exact.count + exact.censored,
        stat.samples_of_part(),
        "samples",
    ) {
        return Measured::Unknown(why);
    }
    let least = match stat {
        Stat::Percentile(quantile) => at_least(
            timing
                .least_percentile_ns(quantile.part())
                .map(|ns| ns as f64),
        ),
        Stat::Mean => at_least(exact.least_mean_ns()),
        Stat::Max => at_least(exact.greatest_ns().map(|ns| ns as f64)),
        // What has not ended may be less.
        Stat::Min => None,
    };
    least.unwrap_or_else(|| Measured::Unknown("not all of them ended".to_owned()))
}

impl Stat {
    /// Samples that a part of a run must have before the figure is judged.
    pub(super) fn samples_of_part(self) -> u64 {
        match self {
            Self::Percentile(quantile) => quantile.samples_for(SAMPLES_BEYOND),
            Self::Mean => SAMPLES_LIVE,
            Self::Min | Self::Max => 1,
        }
    }
}

fn nothing_of(series: Series) -> Measured {
    Measured::Unknown(format!("the run has no {} times", series.name()))
}

fn rate_of(per_s: f64, seconds: f64) -> Measured {
    Measured::of((seconds > 0.0).then_some(per_s), "no time was measured")
}

fn cpu_us_per_attempt(report: &Report) -> Measured {
    let told = || {
        report
            .shards
            .iter()
            .filter_map(|shard| Some((shard.totals.attempts, shard.usage.cpu_s()?)))
    };
    let attempts: u64 = told().map(|(attempts, _)| attempts).sum();
    let cpu_s: f64 = told().map(|(_, cpu_s)| cpu_s).sum();
    let why = if told().next().is_none() {
        "no shard reported its CPU use"
    } else {
        "nothing was attempted"
    };
    Measured::of((attempts > 0).then(|| cpu_s * 1e6 / attempts as f64), why)
}

fn measure(counters: &Counters, quantity: Quantity, basis: Basis) -> Measured {
    if let Some(share) = Share::of(counters, quantity) {
        return share.measure(basis);
    }
    let named = || {
        counters
            .iter()
            .find(|(counter, _)| counter.name == quantity.name())
            .map(|(_, count)| count)
    };
    let count = match quantity {
        Quantity::Items => Some(counters.items.completed()),
        Quantity::Errors => Some(counters.errors()),
        _ => named().filter(|_| basis == Basis::Run || quantity.is_live()),
    };
    Measured::of(
        count.map(|count| count as f64),
        "known only when the run is over",
    )
}

/// A part of a number of things.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub(super) part: u64,
    /// Name of the part.
    pub(super) parts: &'static str,
    pub(super) whole: u64,
    /// Name of the whole.
    pub(super) things: &'static str,
}

impl Share {
    /// The share that a quantity is; none of another one.
    fn of(counters: &Counters, quantity: Quantity) -> Option<Self> {
        let Counters {
            items, requests, ..
        } = counters;
        let (part, parts, whole, things) = match quantity {
            Quantity::ThrottledRate => (
                requests.throttled,
                "throttled requests",
                requests.attempts,
                "requests",
            ),
            Quantity::ErrorRate => (counters.errors(), "errors", requests.attempts, "requests"),
            Quantity::RetryRate => (requests.retries, "retries", requests.attempts, "requests"),
            Quantity::OkRate => (items.ok, "good items", items.ended(), "items"),
            _ => return None,
        };
        Some(Self {
            part,
            parts,
            whole,
            things,
        })
    }

    /// The share that `metric` is of some seconds, merged; none of another metric.
    pub(super) fn of_stats(metric: Metric, stats: &ShardStats) -> Option<Self> {
        match metric {
            Metric::Of(quantity) => Self::of(&stats.counters, quantity),
            Metric::Time(..) => None,
        }
    }

    /// Both together.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            part: self.part + other.part,
            whole: self.whole + other.whole,
            ..self
        }
    }

    /// Without another, which is a part of it.
    pub(super) const fn minus(self, other: Self) -> Self {
        Self {
            part: self.part - other.part,
            whole: self.whole - other.whole,
            ..self
        }
    }

    /// Part over whole, of however few; none of nothing.
    pub(super) fn value(self) -> Option<f64> {
        (self.whole > 0).then(|| self.part as f64 / self.whole as f64)
    }

    fn measure(self, basis: Basis) -> Measured {
        match enough(
            self.whole,
            if basis == Basis::Run { 1 } else { SAMPLES_LIVE },
            self.things,
        ) {
            Ok(()) => Measured::of(self.value(), "nothing was counted"),
            Err(why) => Measured::Unknown(why),
        }
    }
}

/// Number of samples that some seconds, merged, have of a metric that takes some to be judged; none
/// of a count.
pub(super) fn samples_of(metric: Metric, stats: &ShardStats) -> Option<u64> {
    let Metric::Time(series, _) = metric else {
        return Share::of_stats(metric, stats).map(|share| share.whole);
    };
    let exact = stats.timing(series).map(Timing::exact);
    Some(exact.map_or(0, |exact| exact.count + exact.censored))
}

/// Check that there are enough of these.
fn enough(have: u64, need: u64, things: &str) -> Result<(), String> {
    if have >= need {
        Ok(())
    } else {
        Err(format!(
            "not enough data: {} {things}, {} needed",
            grouped(have),
            grouped(need)
        ))
    }
}

/// One request in so many may be missing from a mean.
const FEW: u64 = 100;

/// Figures of a distribution, those that a report has and those that a second has alike.
struct Figures {
    count: u64,
    censored: u64,
    /// Requests that were due and are in no figure: they found the queue full.
    untimed: u64,
    min_us: Option<f64>,
    mean_us: Option<f64>,
    /// The least that the mean can be, where attempts were cut off.
    mean_at_least_us: Option<f64>,
    max_us: Option<f64>,
}

impl Figures {
    /// A figure that is no percentile, of a distribution with at least so many values.
    fn measure(&self, stat: Stat, least: u64) -> Measured {
        const NONE: &str = "nothing was measured";
        let Self {
            count, censored, ..
        } = *self;
        match stat {
            Stat::Min => Measured::of(self.min_us, NONE),
            Stat::Max if censored > 0 => self
                .max_us
                .map_or_else(|| Measured::Unknown(NONE.to_owned()), Measured::AtLeast),
            Stat::Max => Measured::of(self.max_us, NONE),
            _ => match enough(count + censored, least, "samples") {
                Ok(()) => self.mean(NONE),
                Err(why) => Measured::Unknown(why),
            },
        }
    }

    /// The mean. Those that were cut off are not in it, which does not matter while they are few,
    /// and not old enough to make it greater. Of others only the least that it can be is known.
    fn mean(&self, none: &str) -> Measured {
        let (censored, all) = (self.censored, self.count + self.censored);
        let few = censored.saturating_mul(FEW) <= all;
        match (self.mean_us, self.mean_at_least_us) {
            (Some(mean), None) if few => Measured::Exactly(mean),
            (Some(mean), Some(least)) if few && least <= mean => Measured::Exactly(mean),
            (_, Some(least)) => Measured::AtLeast(least),
            // Results of earlier versions do not have it.
            (Some(_), None) => Measured::Unknown(format!(
                "{} of {} did not finish",
                grouped(censored),
                grouped(all)
            )),
            (None, None) => Measured::Unknown(none.to_owned()),
        }
    }

    /// A figure, bounded by the requests that have no time if they may be above it.
    fn bounded(&self, stat: Stat, measured: Measured) -> Measured {
        let (untimed, all) = (self.untimed, self.count + self.censored + self.untimed);
        let is_bound = match stat {
            Stat::Min => false,
            Stat::Max => untimed > 0,
            Stat::Mean => untimed.saturating_mul(FEW) > all,
            Stat::Percentile(quantile) => untimed as f64 > all as f64 * (1.0 - quantile.part()),
        };
        match measured {
            Measured::Exactly(value) | Measured::AtLeast(value) if is_bound => {
                Measured::Without(value, untimed)
            }
            measured => measured,
        }
    }

    /// Check that there are enough to judge a percentile by.
    fn suffice_for(&self, quantile: Quantile) -> Result<(), String> {
        enough(
            self.count + self.censored,
            quantile.samples_for(SAMPLES_BEYOND),
            "samples",
        )
    }
}

fn of_timing(stats: &ShardStats, series: Series, stat: Stat) -> Measured {
    let Some(timing) = stats.timing(series) else {
        return Measured::Unknown("nothing was measured".to_owned());
    };
    let (exact, us) = (timing.exact(), |ns: u64| ns as f64 / 1e3);
    // Without a queue that can be full, all that were dropped count at their age.
    let dropped = stats.counters.requests.dropped;
    let figures = Figures {
        count: exact.count,
        censored: exact.censored,
        untimed: if series == Series::ResponseOk {
            dropped.saturating_sub(exact.censored)
        } else {
            0
        },
        min_us: (exact.count > 0).then(|| us(exact.min_ns)),
        mean_us: timing.mean_ns().map(|ns| ns / 1e3),
        mean_at_least_us: exact
            .least_mean_ns()
            .filter(|_| exact.censored > 0)
            .map(|ns| ns / 1e3),
        max_us: exact.greatest_ns().map(us),
    };
    let Stat::Percentile(quantile) = stat else {
        return figures.bounded(stat, figures.measure(stat, SAMPLES_LIVE));
    };
    if let Err(why) = figures.suffice_for(quantile) {
        return Measured::Unknown(why);
    }
    let measured = match timing.percentile(quantile.part()) {
        Percentile::Exact(ns) => Measured::Exactly(us(ns)),
        Percentile::AtLeast(ns) => Measured::AtLeast(us(ns)),
        Percentile::TooFew => Measured::Unknown("none of them finished".to_owned()),
    };
    figures.bounded(stat, measured)
}

fn of_latency(latency: &Latency, stat: Stat, untimed: u64) -> Measured {
    let Latency {
        count,
        censored,
        min_us,
        mean_us,
        mean_at_least_us,
        max_us,
        ..
    } = *latency;
    let figures = Figures {
        count,
        censored,
        untimed,
        min_us,
        mean_us,
        mean_at_least_us,
        max_us,
    };
    let Stat::Percentile(quantile) = stat else {
        return figures.bounded(stat, figures.measure(stat, 1));
    };
    if let Err(why) = figures.suffice_for(quantile) {
        return Measured::Unknown(why);
    }
    let key = format!("{quantile}_us");
    let reported = match key.as_str() {
        "p50_us" => latency.p50_us,
        "p90_us" => latency.p90_us,
        "p99_us" => latency.p99_us,
        "p999_us" => latency.p999_us,
        _ => return figures.bounded(stat, of_histogram(latency, quantile)),
    };
    let measured = match reported {
        Some(us) if latency.is_at_least(&key) => Measured::AtLeast(us),
        other => Measured::of(other, "none of them finished"),
    };
    figures.bounded(stat, measured)
}

/// A percentile that the report does not name, from its histogram.
fn of_histogram(latency: &Latency, quantile: Quantile) -> Measured {
    let Some(distribution) = latency.distribution() else {
        return Measured::Unknown("the report has no histogram".to_owned());
    };
    let us = |ns: u64| ns as f64 / 1e3;
    match distribution.percentile(quantile.part()) {
        Percentile::Exact(ns) => Measured::Exactly(us(ns)),
        Percentile::AtLeast(ns) => Measured::AtLeast(us(ns)),
        Percentile::TooFew => Measured::Unknown("none of them finished".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::report::Detail;
    use crawlmark_harness::fixtures::bounds;
    use crawlmark_harness::stats::{ItemCounts, RequestCounts};
    use proptest::prelude::*;

    fn metric(name: &str) -> Metric {
        Metric::named(name).unwrap()
    }

    /// Service times of 1 to `count` us, and so many that were cut off at 5 us.
    fn times(count: u64, cut_off: u64) -> ShardStats {
        times_and_age(count, (cut_off, 5_000))
    }

    /// As [`times`], with the age of those that were cut off, ns.
    fn times_and_age(count: u64, (cut_off, age_ns): (u64, u64)) -> ShardStats {
        let mut timing = Timing::new(bounds());
        (1..=count).for_each(|us| timing.record(us * 1_000));
        (0..cut_off).for_each(|_| timing.censor(age_ns));
        let timings = [(Series::ServiceOk, timing)].into();
        ShardStats::from_parts(bounds(), Counters::default(), timings)
    }

    /// Measure one metric from a part, and from a report.
    fn both(name: &str, stats: &ShardStats) -> [Measured; 2] {
        let metric = metric(name);
        let Metric::Time(series, stat) = metric else {
            panic!("{name} is no time")
        };
        let untimed = stats.counters.requests.dropped;
        [
            of_stats(metric, stats, 1.0),
            of_latency(
                &Latency::of(stats, series, Detail::Histogram),
                stat,
                untimed,
            ),
        ]
    }

    #[test]
    fn a_percentile_is_judged_with_a_hundred_samples_beyond_it() {
        for name in ["service_p99", "service_p(98)"] {
            let need = if name == "service_p99" { 10_000 } else { 5_000 };
            for seen in both(name, &times(need - 1, 0)) {
                assert!(matches!(seen, Measured::Unknown(_)), "{name}: {seen:?}");
            }
            for seen in both(name, &times(need, 0)) {
                let Measured::Exactly(us) = seen else {
                    panic!("{name}: {seen:?}")
                };
                assert!((us - (need - 100) as f64).abs() < 10.0, "{name}: {us}");
            }
        }
    }

    #[test]
    fn few_samples_bound_a_percentile_by_those_beyond_which_a_hundred_lie() {
        let bound = |count, cut_off| {
            exceeded_by_enough(&Latency::of(
                &times(count, cut_off),
                Series::ServiceOk,
                Detail::Histogram,
            ))
        };
        assert_eq!(bound(100, 0), None);
        // Of 1 to 300 us, with a hundred of these beyond it; of those that were cut off at 5 us no
        // more is known.
        assert!(
            bound(300, 0).is_some_and(|us| (us - 200.0).abs() < 4.0),
            "{:?}",
            bound(300, 0)
        );
        assert!(
            bound(300, 50).is_some_and(|us| us <= 251.0 && us > 190.0),
            "{:?}",
            bound(300, 50)
        );
    }

    #[test]
    fn what_was_cut_off_leaves_a_percentile_a_least_value() {
        for name in ["service_p99", "service_p98"] {
            for seen in both(name, &times(10_000, 500)) {
                let Measured::AtLeast(us) = seen else {
                    panic!("{name}: {seen:?}")
                };
                assert!((9_000.0..9_990.0).contains(&us), "{name}: {us}");
            }
        }
        for seen in both("service_p50", &times(10_000, 1)) {
            assert!(matches!(seen, Measured::Exactly(_)), "{seen:?}");
        }
    }

    #[test]
    fn a_maximum_and_a_mean_are_least_values_when_requests_were_cut_off() {
        assert_eq!(
            both("service_max", &times(200, 0)),
            [Measured::Exactly(200.0), Measured::Exactly(200.0)]
        );
        assert_eq!(
            both("service_max", &times(200, 1)),
            [Measured::AtLeast(200.0), Measured::AtLeast(200.0)]
        );
        assert_eq!(
            both("service_mean", &times(200, 2)),
            [Measured::Exactly(100.5), Measured::Exactly(100.5)]
        );
        // 3 of 203 may have taken any time: at least (200 * 100.5 + 3 * 5) / 203.
        let least = Measured::AtLeast((200.0 * 100.5 + 3.0 * 5.0) / 203.0);
        assert_eq!(both("service_mean", &times(200, 3)), [least.clone(), least]);
        // One in a hundred makes the mean greater, if it is old enough; and the maximum.
        let slow = times_and_age(200, (2, 900_000_000));
        let least = Measured::AtLeast((200.0 * 100.5 + 2.0 * 900_000.0) / 202.0);
        assert_eq!(both("service_mean", &slow), [least.clone(), least]);
        assert_eq!(
            both("service_max", &slow),
            [Measured::AtLeast(900_000.0), Measured::AtLeast(900_000.0)]
        );
        assert_eq!(
            both("service_min", &times(200, 9)),
            [Measured::Exactly(1.0), Measured::Exactly(1.0)]
        );
    }

    #[test]
    fn requests_that_found_the_queue_full_bound_what_they_may_be_above() {
        let figure = |name: &str, dropped| {
            let mut timing = Timing::new(bounds());
            (1..=20_000_u64).for_each(|us| timing.record(us * 1_000));
            let mut counters = Counters::default();
            counters.requests.dropped = dropped;
            let stats =
                ShardStats::from_parts(bounds(), counters, [(Series::ResponseOk, timing)].into());
            let [of_seconds, of_run] = both(name, &stats);
            assert_eq!(of_seconds, of_run, "{name}");
            let condition: Condition = format!("{name} < 1s").parse().unwrap();
            (of_run.is_at_least(), condition.judge(&of_run))
        };
        // One in a hundred of 20,202, and one more.
        for name in ["response_p99", "response_p(98.999)", "response_mean"] {
            assert_eq!(figure(name, 202), (false, Some(true)), "{name}");
        }
        for name in [
            "response_p99",
            "response_p(99.001)",
            "response_mean",
            "response_max",
        ] {
            assert_eq!(figure(name, 204), (true, None), "{name}");
        }
        assert_eq!(figure("response_p50", 204), (false, Some(true)));
        assert_eq!(figure("response_min", 50_000), (false, Some(true)));
    }

    #[test]
    fn nothing_says_nothing() {
        for name in ["service_p50", "service_min", "service_max", "service_mean"] {
            for seen in both(name, &times(0, 0)) {
                assert!(matches!(seen, Measured::Unknown(_)), "{name}: {seen:?}");
            }
        }
        // Of what was cut off, all of it, the ages bound all but the minimum.
        for seen in both("service_min", &times(0, 500)) {
            assert!(matches!(seen, Measured::Unknown(_)), "{seen:?}");
        }
        for name in ["service_p50", "service_max", "service_mean"] {
            for seen in both(name, &times(0, 500)) {
                let Measured::AtLeast(us) = seen else {
                    panic!("{name}: {seen:?}")
                };
                assert!((us - 5.0).abs() < 0.01, "{name}: {us}");
            }
        }
        assert!(matches!(
            of_stats(metric("ok_rate"), &ShardStats::new(bounds()), 1.0),
            Measured::Unknown(_)
        ));
    }

    #[test]
    fn a_part_of_a_run_has_shares_once_there_are_enough_to_have_some_of() {
        let mut stats = ShardStats::new(bounds());
        stats.counters = Counters {
            items: ItemCounts {
                ok: 70,
                failed: 9,
                ..ItemCounts::default()
            },
            requests: RequestCounts {
                attempts: 99,
                throttled: 20,
                retries: 10,
                ..RequestCounts::default()
            },
            ..Counters::default()
        };
        let seen = |stats: &ShardStats, name| of_stats(metric(name), stats, 2.0);
        assert_eq!(
            seen(&stats, "error_rate"),
            Measured::Unknown("not enough data: 99 requests, 100 needed".to_owned())
        );
        stats.counters.items.ok += 1;
        stats.counters.requests.attempts += 1;
        assert_eq!(seen(&stats, "error_rate"), Measured::Exactly(0.09));
        assert_eq!(seen(&stats, "throttled_rate"), Measured::Exactly(0.2));
        assert_eq!(seen(&stats, "retry_rate"), Measured::Exactly(0.1));
        assert_eq!(seen(&stats, "errors"), Measured::Exactly(9.0));
        assert_eq!(seen(&stats, "rate"), Measured::Exactly(40.0));
        assert_eq!(seen(&stats, "attempts_rate"), Measured::Exactly(50.0));
    }

    proptest! {
        #[test]
        fn every_item_without_an_answer_counts_as_missed(
            [ok, not_found, failed, gave_up, aborted, unfinished] in prop::array::uniform6(0_u64..1_000)
        ) {
            let items = ItemCounts { ok, not_found, failed, gave_up, aborted, unfinished, ..ItemCounts::default() };
            let (missed, all) = (failed + gave_up + aborted + unfinished, items.begun());
            let share = missed_share(&items);
            prop_assert!((share * all as f64 - missed as f64).abs() < 1e-6 && share <= 1.0);
            prop_assert_eq!(share == 0.0, missed == 0);
        }
    }
}
