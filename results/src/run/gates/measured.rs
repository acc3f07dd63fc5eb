//! Measured value of a metric for a run, or for a part of it.
//!
//! A whole run is measured by its report alone, so that a saved one can be judged as well; some
//! seconds by their merged statistics. A figure with too few samples is unknown, with the reason.

use super::{Condition, Metric, Quantile, Quantity, Stat};
use crate::run::report::{Detail, Latency, Report, Verdict};
use crawlmark_harness::plan::OnThrottle;
use crawlmark_harness::stats::{Counters, ItemCounts, Percentile, Series, ShardStats};
use crawlmark_harness::units::grouped;

/// Samples that must lie beyond a percentile before it is judged: ten times as many as before it is
/// printed.
pub const SAMPLES_BEYOND: u64 = 100;

/// Samples that a part of a run must have before its means and shares are judged.
pub(super) const SAMPLES_LIVE: u64 = 100;

/// One request in so many may be missing from a mean.
const FEW: u64 = 100;

const NONE: &str = "nothing was measured";

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
    let totals = &report.totals;
    let quantity = match metric {
        Metric::Time(series, stat) => {
            let untimed = if series == Series::ResponseOk {
                report.found_queue_full()
            } else {
                0
            };
            return match report.latency(series) {
                Some(latency) => of_latency(latency, stat, untimed, 1),
                None => Measured::Unknown(format!("the run has no {} times", series.name())),
            };
        }
        Metric::Of(quantity) => quantity,
    };
    let count = match quantity {
        Quantity::Rate => return rate_of(totals.items_per_s, totals.duration_s),
        Quantity::AttemptsRate => return rate_of(totals.attempts_per_s, totals.duration_s),
        Quantity::BudgetUtilisation => {
            let used = report.budget.as_ref().map(|budget| budget.utilisation);
            return Measured::of(used, "the run has no budget");
        }
        Quantity::CpuUsPerAttempt => return cpu_us_per_attempt(report),
        Quantity::Valid => u64::from(report.validity.verdict == Verdict::Valid),
        Quantity::Unfinished => report.ledger.unfinished,
        Quantity::NotAttempted => report.ledger.not_attempted,
        Quantity::Lost => report.ledger.lost,
        Quantity::Dropped => totals.dropped,
        Quantity::ConnectionsOpened => totals.connections_opened,
        _ => return of_counters(quantity, report),
    };
    Measured::Exactly(count as f64)
}

fn of_counters(quantity: Quantity, report: &Report) -> Measured {
    let counted = report.measured();
    let measured = match Share::of(&counted, quantity) {
        Some(share) => share.measure(1),
        None => count(&counted, quantity),
    };
    // A run that only counts throttling has a metric for it, `throttled_rate`.
    let throttling_is_failure = report.plan.run.throttling.on_throttle != OnThrottle::Count;
    match measured {
        Measured::Exactly(share) if quantity == Quantity::ErrorRate && throttling_is_failure => {
            Measured::Exactly(share.max(missed_share(&counted.items)))
        }
        other => other,
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
    let least = report.latency(series).and_then(exceeded_by_enough);
    match least.map(Measured::AtLeast) {
        Some(least) if condition.judge(&least) == Some(false) => least,
        _ => seen,
    }
}

/// Say why a percentile is a lower bound by [`of_condition`]; none if the report has enough samples
/// to know it.
pub(super) fn reason_of_bound(condition: &Condition, report: &Report) -> Option<String> {
    let Metric::Time(series, Stat::Percentile(quantile)) = condition.metric else {
        return None;
    };
    let latency = report.latency(series)?;
    let have = latency.count + latency.censored;
    let need = quantile.samples_for(SAMPLES_BEYOND);
    (have < need).then(|| {
        format!(
            "lower bound: {SAMPLES_BEYOND} of {} samples took longer; it takes {} to evaluate a {quantile}",
            grouped(have),
            grouped(need)
        )
    })
}

/// Return the greatest value that [`SAMPLES_BEYOND`] samples exceed, µs: a lower bound of the
/// percentile.
fn exceeded_by_enough(latency: &Latency) -> Option<f64> {
    let all = latency.count + latency.censored;
    let rank = all.checked_sub(SAMPLES_BEYOND).filter(|rank| *rank > 0)?;
    let q = (rank as f64 - 0.5) / all as f64;
    match latency.distribution()?.percentile(q) {
        Percentile::Exact(ns) | Percentile::AtLeast(ns) => Some(ns as f64 / 1e3),
        Percentile::TooFew => None,
    }
}

/// Measure `metric` from the merged statistics of some seconds of a run. A figure that only the end
/// of a run shows is unknown.
#[must_use]
pub fn of_stats(metric: Metric, stats: &ShardStats, seconds: f64) -> Measured {
    let counters = &stats.counters;
    let quantity = match metric {
        Metric::Time(series, stat) => {
            let latency = Latency::of(stats, series, Detail::Histogram);
            // Without a queue that can be full, all that were dropped count at their age.
            let untimed = match series {
                Series::ResponseOk => counters.requests.dropped.saturating_sub(latency.censored),
                _ => 0,
            };
            return of_latency(&latency, stat, untimed, SAMPLES_LIVE);
        }
        Metric::Of(quantity) => quantity,
    };
    match (quantity, Share::of(counters, quantity)) {
        (Quantity::Rate, _) => rate_of(counters.items.completed() as f64 / seconds, seconds),
        (Quantity::AttemptsRate, _) => rate_of(counters.completed() as f64 / seconds, seconds),
        (_, Some(share)) => share.measure(SAMPLES_LIVE),
        (live, None) if live.is_live() => count(counters, live),
        _ => Measured::Unknown("known only when the run is over".to_owned()),
    }
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

fn rate_of(per_s: f64, seconds: f64) -> Measured {
    Measured::of((seconds > 0.0).then_some(per_s), "no time was measured")
}

fn cpu_us_per_attempt(report: &Report) -> Measured {
    let (mut cpu_s, mut attempts, mut none) = (0.0, 0, "no shard reported its CPU use");
    for shard in &report.shards {
        if let Some(used_s) = shard.usage.cpu_s() {
            cpu_s += used_s;
            attempts += shard.totals.attempts;
            none = "nothing was attempted";
        }
    }
    Measured::of((attempts > 0).then(|| cpu_s * 1e6 / attempts as f64), none)
}

fn count(counters: &Counters, quantity: Quantity) -> Measured {
    let count = match quantity {
        Quantity::Items => Some(counters.items.completed()),
        Quantity::Errors => Some(counters.errors()),
        _ => counters
            .iter()
            .find(|(counter, _)| counter.name == quantity.name())
            .map(|(_, count)| count),
    };
    Measured::of(count.map(|count| count as f64), NONE)
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
    pub(super) fn of(counters: &Counters, quantity: Quantity) -> Option<Self> {
        let Counters {
            items, requests, ..
        } = counters;
        let (part, parts) = match quantity {
            Quantity::ThrottledRate => (requests.throttled, "throttled requests"),
            Quantity::ErrorRate => (counters.errors(), "errors"),
            Quantity::RetryRate => (requests.retries, "retries"),
            Quantity::OkRate => (items.ok, "good items"),
            _ => return None,
        };
        let (whole, things) = if quantity == Quantity::OkRate {
            (items.ended(), "items")
        } else {
            (requests.attempts, "requests")
        };
        Some(Self {
            part,
            parts,
            whole,
            things,
        })
    }

    /// Both together.
    pub(super) const fn plus(self, other: Self) -> Self {
        Self {
            part: self.part + other.part,
            whole: self.whole + other.whole,
            ..self
        }
    }

    /// Part over whole, of however few; none of nothing.
    pub(super) fn value(self) -> Option<f64> {
        (self.whole > 0).then(|| self.part as f64 / self.whole as f64)
    }

    /// The share, if it is of at least so many.
    fn measure(self, least: u64) -> Measured {
        too_few(self.whole, least, self.things)
            .unwrap_or_else(|| Measured::of(self.value(), "nothing was counted"))
    }
}

/// Number of samples that some seconds, merged, have of a metric that takes some to be judged; 0 of
/// a count.
pub(super) fn samples_of(metric: Metric, stats: &ShardStats) -> u64 {
    match metric {
        Metric::Time(series, _) => stats
            .timing(series)
            .map_or(0, |timing| timing.exact().count + timing.exact().censored),
        Metric::Of(quantity) => Share::of(&stats.counters, quantity).map_or(0, |share| share.whole),
    }
}

/// Say that there are too few of these; none if there are enough.
fn too_few(have: u64, need: u64, things: &str) -> Option<Measured> {
    (have < need).then(|| {
        Measured::Unknown(format!(
            "not enough data: {} {things}, {} needed",
            grouped(have),
            grouped(need)
        ))
    })
}

/// Measure a figure of a distribution. `untimed` requests were due and are not in it, as they found
/// the queue full: a figure that they may be above is a lower bound. A mean is judged with at least
/// `least` samples.
fn of_latency(latency: &Latency, stat: Stat, untimed: u64, least: u64) -> Measured {
    let ended_or_cut_off = latency.count + latency.censored;
    let need = match stat {
        Stat::Mean => least,
        other => other.samples_of_part(),
    };
    if let Some(unknown) = too_few(ended_or_cut_off, need, "samples") {
        return unknown;
    }
    let all = ended_or_cut_off + untimed;
    let (measured, is_bound) = match stat {
        Stat::Min => (Measured::of(latency.min_us, NONE), false),
        Stat::Max => match latency.max_us {
            Some(us) if latency.censored > 0 => (Measured::AtLeast(us), untimed > 0),
            us => (Measured::of(us, NONE), untimed > 0),
        },
        Stat::Mean => (mean(latency), untimed.saturating_mul(FEW) > all),
        Stat::Percentile(quantile) => (
            percentile(latency, quantile),
            untimed as f64 > all as f64 * (1.0 - quantile.part()),
        ),
    };
    match measured {
        Measured::Exactly(value) | Measured::AtLeast(value) if is_bound => {
            Measured::Without(value, untimed)
        }
        measured => measured,
    }
}

/// The mean. Those that were cut off are not in it, which does not matter while they are few, and
/// not old enough to make it greater. Of others only the least that it can be is known.
fn mean(latency: &Latency) -> Measured {
    let Latency {
        count,
        censored,
        mean_us,
        mean_at_least_us,
        ..
    } = *latency;
    let are_few = censored.saturating_mul(FEW) <= count + censored;
    match (mean_us, mean_at_least_us) {
        (Some(mean), Some(least)) if are_few && least <= mean => Measured::Exactly(mean),
        (_, Some(least)) => Measured::AtLeast(least),
        (mean, None) => Measured::of(mean, NONE),
    }
}

fn percentile(latency: &Latency, quantile: Quantile) -> Measured {
    let known = latency
        .distribution()
        .map(|distribution| distribution.percentile(quantile.part()));
    match known {
        Some(Percentile::Exact(ns)) => Measured::Exactly(ns as f64 / 1e3),
        Some(Percentile::AtLeast(ns)) => Measured::AtLeast(ns as f64 / 1e3),
        Some(Percentile::TooFew) => Measured::Unknown("none of them finished".to_owned()),
        None => Measured::Unknown("the report has no histogram".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crawlmark_harness::fixtures::bounds;
    use crawlmark_harness::stats::{RequestCounts, Timing};
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

    /// Measure a time from a part of a run.
    fn seen(name: &str, stats: &ShardStats) -> Measured {
        of_stats(metric(name), stats, 1.0)
    }

    #[test]
    fn a_percentile_is_judged_with_a_hundred_samples_beyond_it() {
        for name in ["service_p99", "service_p(98)"] {
            let need = if name == "service_p99" { 10_000 } else { 5_000 };
            assert!(
                matches!(seen(name, &times(need - 1, 0)), Measured::Unknown(_)),
                "{name}"
            );
            let Measured::Exactly(us) = seen(name, &times(need, 0)) else {
                panic!("{name}")
            };
            assert!((us - (need - 100) as f64).abs() < 10.0, "{name}: {us}");
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
            let Measured::AtLeast(us) = seen(name, &times(10_000, 500)) else {
                panic!("{name}")
            };
            assert!((9_000.0..9_990.0).contains(&us), "{name}: {us}");
        }
        assert!(matches!(
            seen("service_p50", &times(10_000, 1)),
            Measured::Exactly(_)
        ));
    }

    #[test]
    fn a_maximum_and_a_mean_are_least_values_when_requests_were_cut_off() {
        assert_eq!(
            seen("service_max", &times(200, 0)),
            Measured::Exactly(200.0)
        );
        assert_eq!(
            seen("service_max", &times(200, 1)),
            Measured::AtLeast(200.0)
        );
        assert_eq!(
            seen("service_mean", &times(200, 2)),
            Measured::Exactly(100.5)
        );
        // 3 of 203 may have taken any time: at least (200 * 100.5 + 3 * 5) / 203.
        let least = Measured::AtLeast((200.0 * 100.5 + 3.0 * 5.0) / 203.0);
        assert_eq!(seen("service_mean", &times(200, 3)), least);
        // One in a hundred makes the mean greater, if it is old enough; and the maximum.
        let slow = times_and_age(200, (2, 900_000_000));
        let least = Measured::AtLeast((200.0 * 100.5 + 2.0 * 900_000.0) / 202.0);
        assert_eq!(seen("service_mean", &slow), least);
        assert_eq!(seen("service_max", &slow), Measured::AtLeast(900_000.0));
        assert_eq!(seen("service_min", &times(200, 9)), Measured::Exactly(1.0));
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
            let of_run = seen(name, &stats);
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
            assert!(
                matches!(seen(name, &times(0, 0)), Measured::Unknown(_)),
                "{name}"
            );
        }
        // Of what was cut off, all of it, the ages bound all but the minimum.
        assert!(matches!(
            seen("service_min", &times(0, 500)),
            Measured::Unknown(_)
        ));
        for name in ["service_p50", "service_max", "service_mean"] {
            let Measured::AtLeast(us) = seen(name, &times(0, 500)) else {
                panic!("{name}")
            };
            assert!((us - 5.0).abs() < 0.01, "{name}: {us}");
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
