//! Time in the plots: a run's seconds, or tenths of a second, gathered into no more steps than there
//! is room for.

use std::borrow::Cow;

use crate::run::report::{BinRow, IntervalRow, Report};
use crate::show::chart::scale::trimmed;
use crate::show::chart::{Axis, Format, Range, Step};
use crawlmark_harness::stats::Bins;

/// The most steps of a line: a pixel each, half a minute in tenths, and an hour in steps of 12 s.
const MOST_STEPS: u64 = 300;

/// A step of which less than this was part of the run has no value: a single attempt would be a
/// peak, and nothing is in flight at the end.
pub(super) const LEAST_S: f64 = 0.2;

/// Part of a tick that is rounding: 28 tenths of a second are no part of a 29th.
const ROUNDING: f64 = 1e-6;

/// The least requests in a tenth of a second, on average over a run, for lines of tenths: fewer are
/// noise.
const LEAST_PER_BIN: f64 = 10.0;

/// How the values of a step's rows become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gather {
    /// Counts per second.
    Rate,
    /// The greatest.
    Most,
    /// The mean.
    Mean,
}

impl Gather {
    /// One value of several that took this time.
    pub(super) fn of(self, values: &[f64], time_s: f64) -> f64 {
        let sum: f64 = values.iter().sum();
        match self {
            Self::Rate => sum / time_s,
            Self::Most => values.iter().copied().fold(0.0, f64::max),
            Self::Mean => sum / values.len() as f64,
        }
    }
}

/// The seconds of a run, or their tenths.
pub(super) struct Seconds<'a> {
    /// By the number of ticks before each.
    rows: Vec<(u64, Cow<'a, IntervalRow>)>,
    /// Ticks in a second: 1, or as many as there are bins.
    per_s: u64,
    /// When the run ended, since its start; above 0.
    pub(super) end_s: f64,
    /// Ticks in a step.
    width: u64,
    pub(super) axis: TimeAxis,
}

/// An axis of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeAxis {
    end_s: f64,
    /// Seconds in its unit.
    unit_s: f64,
    unit: &'static str,
}

/// The rows of a step.
pub(super) struct Gathered<'a> {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    rows: &'a [(u64, Cow<'a, IntervalRow>)],
}

impl Gathered<'_> {
    /// Its rows, in order.
    pub(super) fn rows(&self) -> impl Iterator<Item = &IntervalRow> {
        self.rows.iter().map(|(_, row)| &**row)
    }
}

impl TimeAxis {
    /// Return an axis that all of these runs fit on.
    pub(super) fn of<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Self {
        let end_s = reports.into_iter().map(end_s).fold(0.0, f64::max);
        let (unit_s, unit) = match end_s {
            s if s <= 300.0 => (1.0, "seconds"),
            s if s <= 18_000.0 => (60.0, "minutes"),
            _ => (3_600.0, "hours"),
        };
        Self {
            end_s,
            unit_s,
            unit,
        }
    }

    /// Place of a moment.
    pub(super) fn at(&self, s: f64) -> f64 {
        s / self.unit_s
    }

    /// Describe the axis; `width_s` is the length of a step, where it is not that of a tick.
    pub(super) fn axis(&self, width_s: Option<f64>) -> Axis {
        let steps = width_s.map_or_else(String::new, |s| format!(" (steps of {} s)", trimmed(s)));
        let range = Range::Between(0.0, self.at(self.end_s));
        let label = format!("{} since start{steps}", self.unit);
        Axis::new(label, range, Format::Number)
    }
}

impl<'a> Seconds<'a> {
    /// Gather the seconds of a run.
    pub(super) fn of(report: &'a Report, axis: TimeAxis) -> Self {
        let rows = report.intervals.iter();
        Self {
            rows: rows.map(|row| (row.start_s, Cow::Borrowed(row))).collect(),
            per_s: 1,
            end_s: end_s(report),
            width: whole(axis.end_s).div_ceil(MOST_STEPS).max(1),
            axis,
        }
    }

    /// Gather the tenths of a second of a short run; none of one with few requests.
    pub(super) fn tenths(report: &'a Report, axis: TimeAxis) -> Option<Self> {
        let per_s = Bins::COUNT as u64;
        let attempts: u64 = report.intervals.iter().map(|row| row.attempts).sum();
        if !report
            .intervals
            .iter()
            .all(|row| row.bins.is_some() || row.attempts == 0)
            || (attempts as f64) < LEAST_PER_BIN * end_s(report) * per_s as f64
        {
            return None;
        }
        let mut rows = Vec::new();
        for row in &report.intervals {
            for (n, bin) in (row.start_s * per_s..).zip(row.bins.iter().flatten()) {
                rows.push((n, Cow::Owned(tenth(bin))));
            }
        }
        Some(Self {
            rows,
            per_s,
            end_s: end_s(report),
            width: whole(axis.end_s * per_s as f64).div_ceil(MOST_STEPS).max(1),
            axis,
        })
    }

    /// Length of a step, where it is not that of a tick.
    pub(super) fn step_s(&self) -> Option<f64> {
        (self.width > 1).then(|| self.width as f64 / self.per_s as f64)
    }

    /// The rows of each step.
    pub(super) fn gathered(&self) -> Vec<Gathered<'_>> {
        let (mut rest, mut out) = (&self.rows[..], Vec::new());
        let end = whole(self.end_s * self.per_s as f64);
        for from in (0..end).step_by(usize::try_from(self.width).unwrap_or(1)) {
            let to = (from + self.width).min(end);
            let count = rest.iter().take_while(|(at, _)| *at < to).count();
            let (rows, later) = rest.split_at(count);
            rest = later;
            out.push(Gathered {
                from_s: self.seconds(from),
                to_s: self.seconds(to),
                rows,
            });
        }
        out
    }

    /// Seconds before a tick, in the run.
    fn seconds(&self, tick: u64) -> f64 {
        (tick as f64 / self.per_s as f64).min(self.end_s)
    }

    /// A value for each step; none of one that has too little time with a value.
    pub(super) fn steps(
        &self,
        how: Gather,
        value: impl Fn(&IntervalRow) -> Option<f64>,
    ) -> Vec<Step> {
        let least_s = LEAST_S.min(0.5 / self.per_s as f64).min(self.end_s);
        let mut steps = Vec::new();
        for Gathered { from_s, to_s, rows } in self.gathered() {
            let (mut values, mut time_s) = (Vec::new(), 0.0);
            for (at, row) in rows {
                if let Some(value) = value(row).filter(|value| value.is_finite()) {
                    values.push(value);
                    time_s += self.seconds(at + 1) - self.seconds(*at);
                }
            }
            let is_known = !values.is_empty() && time_s >= least_s;
            steps.push(Step {
                from: self.axis.at(from_s),
                to: self.axis.at(to_s),
                value: is_known.then(|| how.of(&values, time_s)),
                base: 0.0,
            });
        }
        steps
    }
}

/// When a run ended, since its start; above 0.
fn end_s(report: &Report) -> f64 {
    // Shards that wait report seconds after the last attempt; of one that died, the last attempt
    // may be unknown.
    let last = report.intervals.iter().rev().find(|row| row.attempts > 0);
    let last_s = last.map_or(0.0, |row| row.start_s as f64);
    let known_s = report.totals.duration_s;
    if known_s.is_finite() && known_s > last_s {
        known_s
    } else {
        last_s + 1.0
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time since the start, which is finite"
)]
fn whole(ticks: f64) -> u64 {
    (ticks - ROUNDING).ceil() as u64
}

/// The row of a bin: its counts and times, without what only seconds have.
fn tenth(bin: &BinRow) -> IntervalRow {
    let [p50_us, p90_us, p99_us] =
        [bin.p50_us, bin.p90_us, bin.p99_us].map(|us| us.map(|us| us as f64));
    IntervalRow {
        counts: bin.counts.clone(),
        p50_us,
        p90_us,
        p99_us,
        max_us: bin.max_us,
        ..IntervalRow::default()
    }
}
