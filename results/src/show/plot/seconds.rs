//! Time in the plots: a run's seconds, gathered into no more steps than there is room for.

use crate::run::report::{IntervalRow, Report};
use crate::show::chart::{Axis, Format, Range, Step};

/// The most steps of a line: a pixel each, and an hour in steps of 12 s.
const MOST_STEPS: u64 = 300;

/// A step of which less than this was part of the run has no value: a single attempt would be a
/// peak, and nothing is in flight at the end.
pub(super) const LEAST_S: f64 = 0.2;

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

/// The seconds of a run.
pub(super) struct Seconds<'a> {
    rows: &'a [IntervalRow],
    /// When the run ended, since its start; above 0.
    pub(super) end_s: f64,
    /// Seconds in a step.
    width: u64,
    pub(super) axis: TimeAxis,
}

/// An axis of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeAxis {
    /// The first second; 0 of a whole run.
    start_s: u64,
    end_s: f64,
    /// Seconds in its unit.
    unit_s: f64,
    unit: &'static str,
}

/// The rows of a step.
pub(super) struct Gathered<'a> {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) rows: &'a [IntervalRow],
}

impl TimeAxis {
    /// Return an axis that all of these runs, or parts of runs, fit on.
    pub(super) fn of<'a>(reports: impl IntoIterator<Item = &'a Report>) -> Self {
        let (mut start_s, mut end_s) = (u64::MAX, 0.0);
        for report in reports {
            let first = report.intervals.first().map_or(0, |row| row.start_s);
            (start_s, end_s) = (start_s.min(first), f64::max(end_s, self::end_s(report)));
        }
        let (unit_s, unit) = match end_s - start_s as f64 {
            s if s <= 300.0 => (1.0, "s"),
            s if s <= 18_000.0 => (60.0, "min"),
            _ => (3_600.0, "h"),
        };
        Self {
            start_s,
            end_s,
            unit_s,
            unit,
        }
    }

    /// Place of a moment.
    pub(super) fn at(&self, s: f64) -> f64 {
        s / self.unit_s
    }

    /// Describe the axis.
    pub(super) fn axis(&self) -> Axis {
        let range = Range::Between(self.at(self.start_s as f64), self.at(self.end_s));
        Axis::new(self.unit, range, Format::Number)
    }
}

impl<'a> Seconds<'a> {
    /// Gather the seconds of a run.
    pub(super) fn of(report: &'a Report, axis: TimeAxis) -> Self {
        Self {
            rows: &report.intervals,
            end_s: end_s(report),
            width: whole(axis.end_s)
                .saturating_sub(axis.start_s)
                .div_ceil(MOST_STEPS)
                .max(1),
            axis,
        }
    }

    /// Length of a step, where it is not that of a second.
    pub(super) fn step_s(&self) -> Option<f64> {
        (self.width > 1).then_some(self.width as f64)
    }

    /// The rows of each step.
    pub(super) fn gathered(&self) -> Vec<Gathered<'a>> {
        let (mut rest, mut out) = (self.rows, Vec::new());
        let end = whole(self.end_s);
        for from in (self.axis.start_s..end).step_by(usize::try_from(self.width).unwrap_or(1)) {
            let to = (from + self.width).min(end);
            let (rows, later) = rest.split_at(rest.partition_point(|row| row.start_s < to));
            rest = later;
            out.push(Gathered {
                from_s: self.within(from),
                to_s: self.within(to),
                rows,
            });
        }
        out
    }

    /// A second, or the end of the run if that is earlier.
    fn within(&self, second: u64) -> f64 {
        (second as f64).min(self.end_s)
    }

    /// A value for each step; none of one that has too little time with a value.
    pub(super) fn steps(
        &self,
        how: Gather,
        value: impl Fn(&IntervalRow) -> Option<f64>,
    ) -> Vec<Step> {
        let mut steps = Vec::new();
        for Gathered { from_s, to_s, rows } in self.gathered() {
            let (mut values, mut time_s) = (Vec::new(), 0.0);
            for row in rows {
                if let Some(value) = value(row).filter(|value| value.is_finite()) {
                    values.push(value);
                    time_s += self.within(row.start_s + 1) - self.within(row.start_s);
                }
            }
            let is_known = !values.is_empty() && time_s >= LEAST_S.min(self.end_s);
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
    let last_s = report
        .intervals
        .iter()
        .rev()
        .find(|row| row.attempts > 0)
        .map_or(0.0, |row| row.start_s as f64);
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
fn whole(seconds: f64) -> u64 {
    seconds.ceil() as u64
}
