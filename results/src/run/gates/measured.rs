//! Measured value of a metric for a run, or for a part of it.
//!
//! A whole run is measured by its report alone, so that a saved one can be judged as well; some
//! seconds by their merged statistics. A figure with too few samples is unknown, with the reason.

use super::metric::{Figure, Share};
use super::{Condition, Metric, Quantile, Quantity, Stat};
use crate::run::report::{Detail, EXCEEDED_BY, GroupRow, Latency, Report};
use crawlmark_harness::plan::OnThrottle;
use crawlmark_harness::stats::{Counters, ItemCounts, Percentile, Series, ShardStats};
use crawlmark_harness::units::grouped;

/// Samples that must lie beyond a percentile before it is judged: ten times as many as before it is
/// printed.
pub const SAMPLES_BEYOND: u64 = EXCEEDED_BY;

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
    /// Nothing, and why.
    Unknown(String),
}

impl Measured {
    fn of(value: Option<f64>) -> Self {
        value.map_or_else(|| Self::Unknown(NONE.to_owned()), Self::Exactly)
    }

    const fn count(n: u64) -> Self {
        Self::Exactly(n as f64)
    }

    /// True if the value is only known to be no less.
    pub const fn is_at_least(&self) -> bool {
        matches!(self, Self::AtLeast(_))
    }

    /// Its value, or the least that it can be.
    pub const fn value(&self) -> Option<f64> {
        match self {
            Self::Exactly(value) | Self::AtLeast(value) => Some(*value),
            Self::Unknown(_) => None,
        }
    }
}

/// Measure `metric` from the report of a run.
pub fn of_report(metric: Metric, report: &Report) -> Measured {
    let quantity = match metric {
        Metric::Time(series, stat) => {
            let latency = report.latency(series);
            return latency.map_or_else(
                || Measured::Unknown(format!("the run has no {} times", series.name())),
                |latency| of_latency(latency, stat, 1),
            );
        }
        Metric::Of(quantity) => quantity,
    };
    if let Figure::AtEnd(value) = quantity.figure() {
        return Measured::of(value(report));
    }
    let counted = report.measured();
    // A run that only counts throttling has a metric for it, `throttled_rate`.
    let throttling_is_failure = report.plan.run.throttling.on_throttle != OnThrottle::Count;
    match of_counters(quantity, &counted, report.measured_s(), 1) {
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
pub fn of_condition(condition: &Condition, report: &Report) -> Measured {
    let Condition { metric, group, .. } = condition;
    let group = group.as_deref();
    let seen = group.map_or_else(
        || of_report(*metric, report),
        |name| of_group(*metric, name, report),
    );
    let (Metric::Time(series, Stat::Percentile(quantile)), Measured::Unknown(_)) = (*metric, &seen)
    else {
        return seen;
    };
    let least = match group {
        None => report.latency(series).and_then(exceeded_by_enough),
        Some(name) => row_of(name, report).and_then(|row| least_us(row, series, quantile, report)),
    };
    match least.map(Measured::AtLeast) {
        Some(least) if condition.judge(&least) == Some(false) => least,
        _ => seen,
    }
}

fn row_of<'a>(name: &str, report: &'a Report) -> Option<&'a GroupRow> {
    report
        .groups()
        .find(|row| row.name.as_deref() == Some(name))
}

/// True if a group's times of the series are those from when its requests were sent, beside times
/// that count from their schedule: those of requests that never went are not missing from these.
fn is_of_sent(series: Series, report: &Report) -> bool {
    report.plan.run.arrivals.gaps().is_some() && series == Series::ServiceOk
}

/// Requests of a group whose times are known, or known to be missing.
fn timed(row: &GroupRow, series: Series, report: &Report) -> u64 {
    let dropped = row.dropped.filter(|_| !is_of_sent(series, report));
    row.ok + row.not_found + dropped.unwrap_or(0)
}

/// Requests of a group that were sent and had no good response.
const fn unanswered(row: &GroupRow) -> u64 {
    let answered = row.ok + row.not_found + row.throttled;
    row.attempts.saturating_sub(answered)
}

/// Return a lower bound of a percentile of a group, µs: a time that as many of its requests exceed
/// as may exceed the percentile, however fast those were whose times are not known.
fn least_us(row: &GroupRow, series: Series, quantile: Quantile, report: &Report) -> Option<f64> {
    let (median_us, exceeded_us) = if is_of_sent(series, report) {
        (row.service_p50_us, row.service_exceeded_us)
    } else {
        (row.p50_us, row.exceeded_us)
    };
    let all = timed(row, series, report) + unanswered(row);
    let beyond = all as f64 * (1.0 - quantile.part());
    let answered = row.ok + row.not_found;
    [(median_us, answered / 2), (exceeded_us, EXCEEDED_BY)]
        .into_iter()
        .filter(|(_, exceeding)| *exceeding as f64 >= beyond)
        .filter_map(|(us, _)| us.map(|us| us as f64))
        .reduce(f64::max)
}

/// Measure a percentile of the times of a group.
fn of_times(row: &GroupRow, series: Series, quantile: Quantile, report: &Report) -> Measured {
    let need = quantile.samples_for(SAMPLES_BEYOND);
    if let Some(unknown) = too_few(timed(row, series, report), need) {
        return unknown;
    }
    let unanswered = unanswered(row);
    if unanswered * FEW > row.attempts {
        return Measured::Unknown(format!(
            "{} of {} requests had no good response, and by group their times are not known",
            grouped(unanswered),
            grouped(row.attempts)
        ));
    }
    let is_median = quantile == Quantile::P50;
    let key = if is_median { "p50_us" } else { "p99_us" };
    let us = match (is_of_sent(series, report), is_median) {
        (false, true) => row.p50_us,
        (false, false) => row.p99_us,
        (true, true) => row.service_p50_us,
        (true, false) => row.service_p99_us,
    };
    match (us, row.dropped) {
        (Some(us), _) if !is_of_sent(series, report) && row.is_at_least(key) => {
            Measured::AtLeast(us as f64)
        }
        (None, Some(dropped)) if dropped > 0 => Measured::Unknown(format!(
            "{} of {} requests were never sent",
            grouped(dropped),
            grouped(row.attempts + dropped)
        )),
        _ => Measured::of(us.map(|us| us as f64)),
    }
}

/// Measure a metric of the requests of one group: a URL template, a host, a source address or a stage, by
/// its name in the report.
fn of_group(metric: Metric, name: &str, report: &Report) -> Measured {
    let Some(row) = row_of(name, report) else {
        let names: Vec<&str> = report
            .groups()
            .filter_map(|row| row.name.as_deref())
            .collect();
        return Measured::Unknown(if names.is_empty() {
            "the run has no groups: its requests are of one URL template, one host and one stage"
                .to_owned()
        } else {
            format!("no group has this name; the run has {}", names.join(", "))
        });
    };
    let share = |part| {
        let share = Share {
            part,
            whole: row.attempts,
        };
        Measured::of(share.value())
    };
    match metric {
        Metric::Time(series, Stat::Percentile(quantile)) => of_times(row, series, quantile, report),
        Metric::Of(Quantity::ErrorRate) => share(row.errors),
        Metric::Of(Quantity::ThrottledRate) => share(row.throttled),
        Metric::Of(Quantity::GoodputShare) => {
            let whole = row.attempts + row.dropped.unwrap_or(0);
            Measured::of(row.met.and_then(|part| Share { part, whole }.value()))
        }
        Metric::Of(Quantity::Goodput) => {
            let lasted_s = row.lasted_s.filter(|lasted_s| *lasted_s > 0.0);
            let met = row.met.zip(lasted_s);
            Measured::of(met.map(|(met, lasted_s)| met as f64 / lasted_s))
        }
        Metric::Of(Quantity::Attempts) => Measured::count(row.attempts),
        Metric::Of(Quantity::Ok) => Measured::count(row.ok),
        Metric::Of(Quantity::NotFound) => Measured::count(row.not_found),
        Metric::Of(Quantity::Throttled) => Measured::count(row.throttled),
        Metric::Of(Quantity::Errors) => Measured::count(row.errors),
        _ => Measured::Unknown("it is not counted by group".to_owned()),
    }
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
pub fn of_stats(metric: Metric, stats: &ShardStats, seconds: f64) -> Measured {
    match metric {
        Metric::Time(series, stat) => {
            let latency = Latency::of(stats, series, Detail::Histogram);
            of_latency(&latency, stat, SAMPLES_LIVE)
        }
        Metric::Of(quantity) => of_counters(quantity, &stats.counters, seconds, SAMPLES_LIVE),
    }
}

/// Measure a quantity in so many seconds. A share is judged with at least `least` samples.
fn of_counters(quantity: Quantity, all: &Counters, seconds: f64, least: u64) -> Measured {
    match quantity.figure() {
        Figure::PerS(count) if seconds > 0.0 => Measured::Exactly(count(all) as f64 / seconds),
        Figure::Count(count) => Measured::count(count(all)),
        Figure::Share(of) => {
            let share = of(all);
            let few = too_few(share.whole, least);
            few.unwrap_or_else(|| Measured::of(share.value()))
        }
        Figure::PerS(_) => Measured::Unknown("no time was measured".to_owned()),
        Figure::AtEnd(_) => Measured::Unknown("known only when the run is over".to_owned()),
    }
}

impl Share {
    /// Part over whole, of however few; none of nothing.
    pub(super) fn value(self) -> Option<f64> {
        (self.whole > 0).then(|| self.part as f64 / self.whole as f64)
    }
}

impl Metric {
    /// Samples that a part of a run must have before the metric is judged; 0 of a count.
    pub(super) fn samples_of_part(self) -> u64 {
        match self {
            Self::Time(_, Stat::Percentile(quantile)) => quantile.samples_for(SAMPLES_BEYOND),
            Self::Time(_, Stat::Mean) => SAMPLES_LIVE,
            Self::Time(_, Stat::Min | Stat::Max) => 1,
            Self::Of(quantity) => match quantity.figure() {
                Figure::Share(_) => SAMPLES_LIVE,
                _ => 0,
            },
        }
    }

    /// The share that it is in some seconds, merged; none of another metric.
    pub(super) fn share(self, stats: &ShardStats) -> Option<Share> {
        match self {
            Self::Of(quantity) => match quantity.figure() {
                Figure::Share(of) => Some(of(&stats.counters)),
                _ => None,
            },
            Self::Time(..) => None,
        }
    }

    /// Number of samples that some seconds, merged, have of it; 0 of a count.
    pub(super) fn samples(self, stats: &ShardStats) -> u64 {
        let timing = self.series().and_then(|series| stats.timing(series));
        let timed = timing.map(|timing| timing.exact().count + timing.exact().censored);
        let shared = self.share(stats).map(|share| share.whole);
        timed.or(shared).unwrap_or(0)
    }
}

/// Say that there are too few samples; none if there are enough.
fn too_few(have: u64, need: u64) -> Option<Measured> {
    (have < need).then(|| {
        let (have, need) = (grouped(have), grouped(need));
        Measured::Unknown(format!("not enough data: {have} samples, {need} needed"))
    })
}

/// Measure a figure of a distribution. A mean is judged with at least `least` samples.
fn of_latency(latency: &Latency, stat: Stat, least: u64) -> Measured {
    let need = match stat {
        Stat::Mean => least,
        Stat::Percentile(quantile) => quantile.samples_for(SAMPLES_BEYOND),
        Stat::Min | Stat::Max => 1,
    };
    if let Some(unknown) = too_few(latency.count + latency.censored, need) {
        return unknown;
    }
    match stat {
        Stat::Min => Measured::of(latency.min_us),
        Stat::Max => match latency.max_us {
            Some(us) if latency.censored > 0 => Measured::AtLeast(us),
            us => Measured::of(us),
        },
        Stat::Mean => mean(latency),
        Stat::Percentile(quantile) => percentile(latency, quantile),
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
        (mean, None) => Measured::of(mean),
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

    /// Service times of 1 to `count` us, and so many that were cut off at this age, ns.
    fn times(count: u64, cut_off: u64, age_ns: u64) -> ShardStats {
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
        for (name, need) in [("service_p99", 10_000), ("service_p(98)", 5_000)] {
            let few = seen(name, &times(need - 1, 0, 0));
            assert!(matches!(few, Measured::Unknown(_)), "{name}");
            let Measured::Exactly(us) = seen(name, &times(need, 0, 0)) else {
                panic!("{name}")
            };
            assert!((us - (need - 100) as f64).abs() < 10.0, "{name}: {us}");
            let Measured::AtLeast(us) = seen(name, &times(10_000, 500, 5_000)) else {
                panic!("{name}")
            };
            assert!((9_000.0..9_990.0).contains(&us), "{name}: {us}");
        }
    }

    #[test]
    fn few_samples_bound_a_percentile_by_those_beyond_which_a_hundred_lie() {
        let bound = |count, cut_off| {
            let stats = times(count, cut_off, 5_000);
            exceeded_by_enough(&Latency::of(&stats, Series::ServiceOk, Detail::Histogram))
        };
        assert_eq!(bound(100, 0), None);
        // Of 1 to 300 us, with a hundred of these beyond it; of those that were cut off at 5 us no
        // more is known.
        assert!(bound(300, 0).is_some_and(|us| (us - 200.0).abs() < 4.0));
        assert!(bound(300, 50).is_some_and(|us| us <= 251.0 && us > 190.0));
    }

    #[test]
    fn a_maximum_and_a_mean_are_least_values_when_requests_were_cut_off() {
        let least = |part: f64, cut: f64| Measured::AtLeast((200.0 * 100.5 + part) / (200.0 + cut));
        for (name, cut_off, age_ns, value) in [
            ("service_max", 0, 0, Measured::Exactly(200.0)),
            ("service_max", 1, 5_000, Measured::AtLeast(200.0)),
            ("service_max", 2, 900_000_000, Measured::AtLeast(900_000.0)),
            ("service_min", 9, 5_000, Measured::Exactly(1.0)),
            ("service_mean", 2, 5_000, Measured::Exactly(100.5)),
            // Three of 203 may have taken any time; two are few, unless they are old.
            ("service_mean", 3, 5_000, least(3.0 * 5.0, 3.0)),
            ("service_mean", 2, 900_000_000, least(2.0 * 900_000.0, 2.0)),
        ] {
            assert_eq!(seen(name, &times(200, cut_off, age_ns)), value, "{name}");
        }
    }

    #[test]
    fn a_part_of_a_run_has_shares_once_there_are_enough_to_have_some_of() {
        let mut stats = ShardStats::new(bounds());
        (stats.counters.items.ok, stats.counters.items.failed) = (70, 9);
        stats.counters.requests = RequestCounts {
            attempts: 99,
            throttled: 20,
            retries: 10,
            rejected_by_status: [(500, 9)].into(),
            ..RequestCounts::default()
        };
        let seen = |stats: &ShardStats, name| of_stats(metric(name), stats, 2.0);
        let few = "not enough data: 99 samples, 100 needed".to_owned();
        assert_eq!(seen(&stats, "error_rate"), Measured::Unknown(few));
        stats.counters.items.ok += 1;
        stats.counters.requests.attempts += 1;
        for (name, value) in [
            ("error_rate", 0.09),
            ("throttled_rate", 0.2),
            ("retry_rate", 0.1),
            ("errors", 9.0),
            ("rate", 40.0),
            ("attempts_rate", 50.0),
        ] {
            assert_eq!(seen(&stats, name), Measured::Exactly(value), "{name}");
        }
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
