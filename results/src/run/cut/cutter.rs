//! Adds up the lines of a log that belong to a part of a run, and returns its results.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use super::ask::end_s;
use super::cut_report::{Answered, Counted, CutReport, CutSeconds, CutSource, SCHEMA};
use super::{Cut, Entry, Kind};
use crate::run::report::{BindingReport, Detail, IntervalRow, Latency, Report, ShardReport, share};
use crate::show::text::seconds;
use crawlmark_harness::stats::{Bounds, Exact, SecondCounts, Series, Timing};
use crawlmark_harness::units::{grouped, micros};

/// A line that is not of the run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Foreign {
    /// A shard that the run did not have.
    #[error("it is of shard {0}, which the result does not have: the log is another run's")]
    Shard(u32),
    /// A second that the run did not have.
    #[error("it is of second {0}, which the result does not have: the log is another run's")]
    Second(u64),
}

/// Adds up the lines that belong to a cut.
#[derive(Debug)]
pub struct Cutter<'a> {
    report: &'a Report,
    cut: Cut,
    bounds: Bounds,
    /// Value of each cell of the run's histograms.
    values: Vec<u64>,
    sums: BTreeMap<Series, SeriesSum>,
    /// Values that the log holds of a series, for the shards of the cut and the seconds that the
    /// report's times cover.
    logged: BTreeMap<Series, u64>,
    run_s: u64,
}

impl<'a> Cutter<'a> {
    /// For a part of `report`'s run.
    #[must_use]
    pub fn new(report: &'a Report, cut: Cut) -> Self {
        let bounds = Bounds::for_timeout(report.plan.run.timeout);
        let cells = bounds.histogram();
        Self {
            bounds,
            values: cells
                .iter_all()
                .map(|cell| cell.value_iterated_to())
                .collect(),
            sums: BTreeMap::new(),
            logged: BTreeMap::new(),
            run_s: end_s(report),
            report,
            cut,
        }
    }

    /// The bounds of the run's histograms.
    #[must_use]
    pub const fn bounds(&self) -> Bounds {
        self.bounds
    }

    /// Adds a line, if it belongs to the cut.
    ///
    /// # Errors
    /// When it does not belong to the run.
    pub fn add(&mut self, entry: &Entry) -> Result<(), Foreign> {
        let Entry {
            shard,
            series,
            second,
            count,
            ..
        } = *entry;
        if !self.report.shards.iter().any(|known| known.shard == shard) {
            return Err(Foreign::Shard(shard));
        }
        if second >= self.run_s {
            return Err(Foreign::Second(second));
        }
        if self.cut.shards.binary_search(&shard).is_err() {
            return Ok(());
        }
        // What was measured in the second in which the warm-up ended is in the log, too.
        if second >= self.report.plan.run.warmup.as_secs() {
            let logged = self.logged.entry(series).or_default();
            *logged = logged.saturating_add(count);
        }
        if (self.cut.from_s..self.cut.to_s).contains(&second) {
            let sum = self.sums.entry(series);
            sum.or_insert_with(|| SeriesSum::new(self.bounds))
                .add(entry, &self.values);
        }
        Ok(())
    }

    /// Build the report from the lines that were added.
    #[must_use]
    pub fn finish(mut self) -> CutReport {
        let report = self.report;
        let duration_s = self.duration_s();
        let [_, series] = Series::of(report.plan.run.arrivals);
        let answers = self.answers(duration_s);
        let (mut notes, mut latency) = (Vec::new(), BTreeMap::new());
        let outcomes = self.cut.outcomes;
        for series in series.iter().filter(|one| outcomes.has(**one)) {
            let times = self.latency(*series, &mut notes);
            latency.insert(series.name().to_owned(), times);
        }
        for shard in report.shards.iter().filter(|shard| self.holds(shard)) {
            if let Some(fault) = &shard.fault {
                notes.push(format!(
                    "shard {} ended early ({fault}): only what it had reported by then is included",
                    shard.shard
                ));
            }
        }
        let warmup_s = report.plan.run.warmup.as_secs_f64();
        let warm_s = warmup_s.min(self.cut.to_s as f64) - self.cut.from_s as f64;
        if warm_s > 0.0 {
            notes.push(format!(
                "{} of this part are warm-up, which the figures of the result leave out",
                seconds(warm_s)
            ));
        }
        CutReport {
            schema: SCHEMA.to_owned(),
            crawlmark_version: env!("CARGO_PKG_VERSION").to_owned(),
            source: CutSource {
                run_id: report.run_id.clone(),
                name: report.name.clone(),
                started_at: report.started_at.clone(),
                target: report.plan.run.target.clone(),
                shards: u32::try_from(report.shards.len()).unwrap_or(u32::MAX),
                verdict: report.validity.verdict,
            },
            answers,
            latency,
            counted: self.counted(duration_s),
            outcome: self.cut.outcomes.name().to_owned(),
            part: CutSeconds {
                from_s: self.cut.from_s,
                to_s: self.cut.to_s,
                duration_s,
                run_s: self.run_s,
                run_duration_s: report.totals.duration_s,
                chosen: self.cut.chosen.to_owned(),
                steady: self.cut.steady,
            },
            shards: self.cut.shards,
            notes,
        }
    }

    fn holds(&self, shard: &ShardReport) -> bool {
        self.cut.shards.contains(&shard.shard)
    }

    /// The run's last second ends with its last answer, as its rates do.
    fn duration_s(&self) -> f64 {
        let from = self.cut.from_s as f64;
        (self.cut.to_s as f64).min(self.report.totals.duration_s.max(from)) - from
    }

    fn answers(&self, duration_s: f64) -> BTreeMap<String, Answered> {
        let kinds = [
            ("ok", Series::ServiceOk),
            ("throttled", Series::ServiceThrottled),
            ("error", Series::ServiceError),
        ];
        let answered = kinds.map(|(name, series)| {
            let count = self.sums.get(&series).map_or(0, |sum| sum.times.len());
            let per_s = share(count as f64, duration_s);
            (name.to_owned(), Answered { count, per_s })
        });
        answered.into()
    }

    /// The times of a series. Those of the run that have no second in the log, as they lie beyond
    /// the histogram, did not end or are missing, may be in this part: they leave percentiles open.
    fn latency(&mut self, series: Series, notes: &mut Vec<String>) -> Latency {
        let shards = self.report.shards.iter().filter(|shard| self.holds(shard));
        let told = shards.filter_map(|shard| shard.latency.get(series.name()));
        let all = told.map(|told| told.count.saturating_add(told.censored));
        let logged = self.logged.get(&series).copied().unwrap_or(0);
        let astray = all.fold(0, u64::saturating_add).saturating_sub(logged);
        if astray > 0 {
            notes.push(format!(
                "the log has no second for {} {} times of the run (beyond {}, unfinished or missing), so the percentiles count all of \
                 them in this part",
                grouped(astray),
                series.name(),
                micros(self.bounds.highest_ns() as f64 / 1e3)
            ));
        }
        let sum = self.sums.remove(&series);
        let sum = sum.unwrap_or_else(|| SeriesSum::new(self.bounds));
        Latency::of_timing(&sum.timing(self.bounds, astray), Detail::Histogram)
    }

    fn counted(&self, duration_s: f64) -> Option<Counted> {
        if self.cut.shards.len() < self.report.shards.len() {
            return None;
        }
        let seconds = self.cut.from_s..self.cut.to_s;
        let rows: Vec<&IntervalRow> = self
            .report
            .intervals
            .iter()
            .filter(|row| seconds.contains(&row.start_s))
            .collect();
        let mut counts = SecondCounts::default();
        for row in &rows {
            counts.merge(&row.counts);
        }
        let SecondCounts {
            attempts,
            items,
            aborted,
            ..
        } = counts;
        let cpu_us = rows
            .iter()
            .map(|row| row.cpu_us)
            .fold(0, u64::saturating_add);
        let lags_us = rows.iter().map(|row| row.max_sched_lag_us);
        Some(Counted {
            counts,
            attempts_per_s: share(attempts.saturating_sub(aborted) as f64, duration_s),
            items_per_s: share(items.saturating_sub(aborted) as f64, duration_s),
            most_in_flight: rows.iter().map(|row| row.in_flight).max().unwrap_or(0),
            max_sched_lag_us: lags_us.fold(0.0, f64::max),
            cpu_us_per_attempt: (attempts > 0).then(|| cpu_us as f64 / attempts as f64),
            binding: BindingReport::mean(rows.iter().map(|row| &row.binding)),
        })
    }
}

/// Values of a series in a part of the run.
#[derive(Debug)]
struct SeriesSum {
    times: Histogram<u64>,
    ages: Histogram<u64>,
}

impl SeriesSum {
    fn new(bounds: Bounds) -> Self {
        Self {
            times: bounds.histogram(),
            ages: bounds.histogram(),
        }
    }

    /// Add a line, whose cells are within the run's bounds, given the value of each cell. Costs no
    /// more than the cells that the line fills; counts that no run reaches stay at the most there
    /// can be.
    fn add(&mut self, entry: &Entry, values: &[u64]) {
        let sum = match entry.kind {
            Kind::Times => &mut self.times,
            Kind::Ages => &mut self.ages,
        };
        for (cell, count) in &entry.cells {
            // Its own values are within its bounds.
            let _ = values.get(*cell).map(|value| sum.record_n(*value, *count));
        }
    }

    /// The distribution, to which may belong `astray` values of which nothing is known.
    ///
    /// Least, greatest and mean are those of the cells, so within 0.1 %. A value that may be
    /// missing counts as if it had been cut off at no age: the percentiles that it could change are
    /// then only known to be no less.
    fn timing(mut self, bounds: Bounds, astray: u64) -> Timing {
        let _ = self.ages.record_n(0, astray);
        let Self { times, ages } = self;
        let sum_ns = times.iter_recorded().map(|cell| {
            let middle = times.median_equivalent(cell.value_iterated_to());
            u128::from(middle) * u128::from(cell.count_since_last_iteration())
        });
        let exact = Exact {
            count: times.len(),
            min_ns: if times.is_empty() {
                u64::MAX
            } else {
                times.min()
            },
            max_ns: times.max(),
            sum_ns: sum_ns.fold(0, u128::saturating_add),
            overflow: 0,
            censored: ages.len(),
            oldest_ns: ages.max(),
            ages_ns: least_sum(&ages),
        };
        let ages = (!ages.is_empty()).then_some(&ages);
        Timing::from_parts(bounds, &times, ages, exact)
    }
}

/// The least that the values of a histogram can add up to.
fn least_sum(histogram: &Histogram<u64>) -> u128 {
    let least = histogram.iter_recorded().map(|cell| {
        u128::from(histogram.lowest_equivalent(cell.value_iterated_to()))
            * u128::from(cell.count_since_last_iteration())
    });
    least.fold(0, u128::saturating_add)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crawlmark_harness::stats::Percentile;

    fn sum(counts: &[(usize, u64)]) -> SeriesSum {
        let bounds = Bounds::for_timeout(Duration::from_secs(1));
        let values: Vec<u64> = (0..1_000).collect();
        let mut sum = SeriesSum::new(bounds);
        for cell in counts {
            let entry = Entry {
                shard: 0,
                series: Series::ServiceOk,
                kind: Kind::Times,
                second: 0,
                cells: vec![*cell],
                count: cell.1,
            };
            sum.add(&entry, &values);
        }
        sum
    }

    #[test]
    fn a_value_that_may_be_missing_blurs_only_the_percentiles_it_could_move() {
        let bounds = Bounds::for_timeout(Duration::from_secs(1));
        let timing = |astray| sum(&[(10, 90_000), (900, 10_000)]).timing(bounds, astray);
        assert_eq!(timing(0).percentile(0.899_9), Percentile::Exact(10));
        assert_eq!(timing(0).percentile(0.999), Percentile::Exact(900));
        let blurred = timing(50);
        assert_eq!(blurred.percentile(0.5), Percentile::Exact(10));
        assert_eq!(blurred.percentile(0.899_9), Percentile::AtLeast(10));
        let exact = blurred.exact();
        assert_eq!((exact.count, exact.censored), (100_000, 50));
    }

    #[test]
    fn counts_that_no_run_reaches_do_not_wrap() {
        let sum = sum(&[(10, u64::MAX), (10, 2)]);
        assert_eq!(sum.times.len(), u64::MAX);
    }
}
