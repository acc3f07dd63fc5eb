//! Adds up the lines of a log that belong to a part of a run, and returns its results.

use std::collections::BTreeMap;

use super::cells::CellCounts;
use super::cut_report::{Answered, Counted, CutReport, CutSeconds, CutSource, SCHEMA};
use super::{Chosen, Cut, Entry, Kind};
use crate::run::report::{BindingReport, Detail, IntervalRow, Latency, Report};
use crate::show::text::seconds;
use crawlmark_harness::stats::{Bounds, SecondCounts, Series};
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

/// Counts that the log holds of a shard's series, for the seconds that the report's times cover.
#[derive(Debug, Clone, Copy, Default)]
struct Logged {
    times: u64,
    ages: u64,
}

/// Values of a series that are in no line of the log, though the result has them.
#[derive(Debug, Clone, Copy, Default)]
struct Astray {
    /// Times beyond the histogram's bounds.
    overflow: u64,
    /// Values that were cut off.
    censored: u64,
    /// Times that the log should have.
    missing: u64,
}

/// Adds up the lines that belong to a cut.
#[derive(Debug)]
pub struct Cutter<'a> {
    report: &'a Report,
    cut: Cut,
    bounds: Bounds,
    piles: BTreeMap<Series, CellCounts>,
    logged: BTreeMap<(u32, Series), Logged>,
    warm_s: u64,
    run_s: u64,
}

impl<'a> Cutter<'a> {
    /// For a part of `report`'s run.
    #[must_use]
    pub fn new(report: &'a Report, cut: Cut) -> Self {
        let plan = &report.plan.run;
        Self {
            bounds: Bounds::for_timeout(plan.timeout),
            piles: BTreeMap::new(),
            logged: BTreeMap::new(),
            // What was measured in the second in which the warm-up ended is in the log, too.
            warm_s: plan.warmup.as_secs(),
            run_s: report
                .intervals
                .iter()
                .map(|row| row.start_s.saturating_add(1))
                .max()
                .unwrap_or(0),
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
            kind,
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
        if second >= self.warm_s {
            let logged = self.logged.entry((shard, series)).or_default();
            match kind {
                Kind::Times => logged.times = logged.times.saturating_add(count),
                Kind::Ages => logged.ages = logged.ages.saturating_add(count),
            }
        }
        if (self.cut.from_s..self.cut.to_s).contains(&second) {
            self.piles.entry(series).or_default().add(entry);
        }
        Ok(())
    }

    /// Build the report from the lines that were added.
    #[must_use]
    pub fn finish(self) -> CutReport {
        let report = self.report;
        let duration_s = self.duration_s();
        let [_, series] = Series::of(report.plan.run.arrivals);
        let told = series
            .iter()
            .copied()
            .filter(|series| self.cut.outcomes.has(*series));
        let mut notes = Vec::new();
        let latency = told
            .map(|series| (series.name().to_owned(), self.latency(series, &mut notes)))
            .collect();
        self.note_shards(&mut notes);
        let warm_s = self
            .report
            .plan
            .run
            .warmup
            .as_secs_f64()
            .min(self.cut.to_s as f64)
            - self.cut.from_s as f64;
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
            answers: self.answers(duration_s),
            latency,
            counted: self.counted(duration_s),
            outcome: self.cut.outcomes.name().to_owned(),
            part: self.part(duration_s),
            shards: self.cut.shards,
            notes,
        }
    }

    /// The run's last second ends with its last answer, as its rates do.
    fn duration_s(&self) -> f64 {
        let from = self.cut.from_s as f64;
        (self.cut.to_s as f64).min(self.report.totals.duration_s.max(from)) - from
    }

    fn part(&self, duration_s: f64) -> CutSeconds {
        let (chosen, steady) = match &self.cut.chosen {
            Chosen::Whole => ("whole", None),
            Chosen::Asked => ("asked", None),
            Chosen::SteadyState(steady) => ("steady", Some(steady.clone())),
        };
        let Cut { from_s, to_s, .. } = self.cut;
        let run_duration_s = Some(self.report.totals.duration_s);
        CutSeconds {
            from_s,
            to_s,
            duration_s,
            run_s: self.run_s,
            run_duration_s,
            chosen: chosen.to_owned(),
            steady,
        }
    }

    fn answers(&self, duration_s: f64) -> BTreeMap<String, Answered> {
        let kinds = [
            ("ok", Series::ServiceOk),
            ("throttled", Series::ServiceThrottled),
            ("error", Series::ServiceError),
        ];
        let answered = |series| {
            let count = self.piles.get(&series).map_or(0, CellCounts::count);
            Answered {
                count,
                per_s: per(count as f64, duration_s),
            }
        };
        kinds
            .map(|(name, series)| (name.to_owned(), answered(series)))
            .into()
    }

    fn latency(&self, series: Series, notes: &mut Vec<String>) -> Latency {
        let Astray {
            overflow,
            censored,
            missing,
        } = self.astray(series);
        let name = series.name();
        if overflow > 0 {
            let most = micros(self.bounds.highest_ns() as f64 / 1e3);
            notes.push(format!(
                "{} {name} times of the run were beyond {most}, so their seconds are unknown and they are left out",
                grouped(overflow)
            ));
        }
        if censored > 0 {
            notes.push(format!(
                "for {} unfinished requests (timed out, cut off at the end or never sent), the log has no time, so the {name} percentiles \
                 count all of them in this part",
                grouped(censored)
            ));
        }
        if missing > 0 {
            notes.push(format!(
                "the log lacks {} {name} times of the result, so these figures are incomplete",
                grouped(missing)
            ));
        }
        let astray = overflow.saturating_add(censored).saturating_add(missing);
        let empty = CellCounts::default();
        let timing = self
            .piles
            .get(&series)
            .unwrap_or(&empty)
            .timing(self.bounds, astray);
        Latency::of_timing(&timing, Detail::Histogram)
    }

    /// Count the values of a series that the shards of the cut have and the log does not.
    fn astray(&self, series: Series) -> Astray {
        let mut astray = Astray::default();
        for shard in self
            .report
            .shards
            .iter()
            .filter(|shard| self.cut.shards.contains(&shard.shard))
        {
            let Some(told) = shard.latency.get(series.name()) else {
                continue;
            };
            let logged = self
                .logged
                .get(&(shard.shard, series))
                .copied()
                .unwrap_or_default();
            let missing = told
                .count
                .saturating_sub(told.overflow)
                .saturating_sub(logged.times);
            astray.overflow = astray.overflow.saturating_add(told.overflow);
            astray.censored = astray
                .censored
                .saturating_add(told.censored.saturating_sub(logged.ages));
            astray.missing = astray.missing.saturating_add(missing);
        }
        astray
    }

    fn note_shards(&self, notes: &mut Vec<String>) {
        for shard in self
            .report
            .shards
            .iter()
            .filter(|shard| self.cut.shards.contains(&shard.shard))
        {
            if let Some(fault) = &shard.fault {
                notes.push(format!(
                    "shard {} ended early ({fault}): only what it had reported by then is included",
                    shard.shard
                ));
            }
        }
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
        let cpu_us: u64 = rows
            .iter()
            .fold(0, |all, row| all.saturating_add(row.cpu_us));
        Some(Counted {
            counts,
            attempts_per_s: per(attempts.saturating_sub(aborted) as f64, duration_s),
            items_per_s: per(items.saturating_sub(aborted) as f64, duration_s),
            most_in_flight: rows.iter().map(|row| row.in_flight).max().unwrap_or(0),
            max_sched_lag_us: rows
                .iter()
                .map(|row| row.max_sched_lag_us)
                .fold(0.0, f64::max),
            cpu_us_per_attempt: (attempts > 0).then(|| cpu_us as f64 / attempts as f64),
            binding: mean_binding(&rows),
        })
    }
}

fn per(count: f64, duration_s: f64) -> f64 {
    if duration_s > 0.0 {
        count / duration_s
    } else {
        0.0
    }
}

/// The mean over the seconds in which something is known.
fn mean_binding(rows: &[&IntervalRow]) -> BindingReport {
    let mut sum = BindingReport::default();
    for BindingReport {
        rate,
        concurrency,
        pause,
        target,
        storage,
        idle,
    } in rows.iter().map(|row| row.binding)
    {
        sum.rate += rate;
        sum.concurrency += concurrency;
        sum.pause += pause;
        sum.target += target;
        sum.storage += storage;
        sum.idle += idle;
    }
    let BindingReport {
        rate,
        concurrency,
        pause,
        target,
        storage,
        idle,
    } = sum;
    let all = rate + concurrency + pause + target + storage + idle;
    BindingReport {
        rate: per(rate, all),
        concurrency: per(concurrency, all),
        pause: per(pause, all),
        target: per(target, all),
        storage: per(storage, all),
        idle: per(idle, all),
    }
}
