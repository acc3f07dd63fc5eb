//! The run's seconds as the plots need them: no more of them than there is room for.

use super::events::events;
use crate::run::report::{IntervalRow, Report};
use crate::show::chart::scale::trimmed;
use crate::show::chart::{Axis, Format, Mark, Panel, Range, Role, Shape, Step};

/// The most steps that a line of a picture has: four pixels each or more, and an hour in steps of 30 s.
pub(super) const PICTURE: u64 = 120;

/// The most steps of a line on a page, where a reader can zoom: the seconds of an hour.
pub(super) const PAGE: u64 = 3_600;

/// A step of which less than this was part of the run has no value: a single attempt would be a peak, and nothing is in
/// flight at the end.
pub(super) const LEAST_S: f64 = 0.2;

/// The seconds of a run, gathered into steps.
pub(super) struct Seconds<'a> {
    rows: &'a [IntervalRow],
    /// When the run ended, since its start; above 0.
    pub(super) end_s: f64,
    /// Seconds in a step.
    pub(super) width: u64,
    /// Time left out of the run's figures at its start, s; in plots over time it is shaded.
    warmup_s: f64,
    /// Seconds in the unit of the time axis, and its name.
    unit: (f64, &'static str),
    /// Events on the time axis.
    events: Vec<Mark>,
}

/// The seconds of a step.
pub(super) struct Gathered<'a> {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) rows: &'a [IntervalRow],
}

impl<'a> Seconds<'a> {
    /// Gather the seconds into at most `most` steps.
    pub(super) fn of(report: &'a Report, most: u64) -> Self {
        let rows = &report.intervals;
        // Shards that wait report seconds after the last attempt; of one that died, the last attempt may be unknown.
        let last_s = rows.iter().rev().find(|row| row.attempts > 0).map_or(0.0, |row| row.start_s as f64);
        let known_s = if report.totals.duration_s.is_finite() { report.totals.duration_s } else { 0.0 };
        let end_s = if known_s > last_s { known_s } else { last_s + 1.0 };
        let warmup_s = report.plan.run.warmup.as_secs_f64();
        let unit = match end_s {
            s if s <= 300.0 => (1.0, "seconds"),
            s if s <= 18_000.0 => (60.0, "minutes"),
            _ => (3_600.0, "hours"),
        };
        let events = events(report, end_s, |s| s / unit.0);
        Self { rows, end_s, warmup_s, unit, events, width: whole_seconds(end_s).div_ceil(most).max(1) }
    }

    /// In the steps and the unit of another run, which is the longest.
    pub(super) fn like(longest: &Seconds<'_>, report: &'a Report) -> Self {
        Self { width: longest.width, unit: longest.unit, ..Self::of(report, PICTURE) }
    }

    /// One value for each step, of the rows in it and the time that it took.
    fn steps(&self, value: impl Fn(&'a [IntervalRow], f64) -> Option<f64>) -> Vec<Step> {
        let step = |Gathered { from_s, to_s, rows }| {
            // Seconds that nobody reported are no part of a rate.
            let unknown_s = (f64::ceil(to_s - from_s) - rows.len() as f64).max(0.0);
            let known_s = to_s - from_s - unknown_s;
            let enough = !rows.is_empty() && known_s >= LEAST_S.min(self.end_s);
            let value = if enough { value(rows, known_s) } else { None };
            Step { from: self.at(from_s), to: self.at(to_s), value: value.filter(|v| v.is_finite()) }
        };
        self.gathered().into_iter().map(step).collect()
    }

    /// The rows of each step.
    pub(super) fn gathered(&self) -> Vec<Gathered<'a>> {
        let (mut rest, mut out) = (self.rows, Vec::new());
        let mut from = 0;
        while (from as f64) < self.end_s {
            let to = from + self.width;
            let count = rest.iter().take_while(|row| row.start_s < to).count();
            let (rows, later) = rest.split_at(count);
            rest = later;
            out.push(Gathered { from_s: from as f64, to_s: (to as f64).min(self.end_s), rows });
            from = to;
        }
        out
    }

    /// Return the counts per second, by step.
    pub(super) fn rates(&self, count: impl Fn(&IntervalRow) -> Option<f64>) -> Vec<Step> {
        self.steps(|rows, time_s| {
            let counts: Vec<f64> = rows.iter().filter_map(&count).collect();
            // A step may hold seconds that have no such count: after the last offer, for one.
            let time_s = time_s * counts.len() as f64 / rows.len() as f64;
            (!counts.is_empty()).then(|| counts.iter().sum::<f64>() / time_s)
        })
    }

    /// The greatest of each step.
    pub(super) fn greatest(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Vec<Step> {
        self.steps(|rows, _| rows.iter().filter_map(&value).reduce(f64::max))
    }

    /// The mean over the seconds of each step.
    pub(super) fn means(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Vec<Step> {
        self.steps(|rows, _| {
            let values: Vec<f64> = rows.iter().filter_map(&value).collect();
            (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
        })
    }

    /// Place of a moment on the time axis.
    pub(super) fn at(&self, s: f64) -> f64 {
        s / self.unit.0
    }

    /// Return the time axis; `each` says what a step holds of several seconds.
    pub(super) fn axis(&self, each: &str) -> Axis {
        let unit = self.unit.1;
        let label = match self.width {
            1 => format!("{unit} since start"),
            width => format!("{unit} since start (each step: {each} of {width} s)"),
        };
        Axis::new(label, Range::Between(0.0, self.at(self.end_s)), Format::Number)
    }

    /// Return a panel over time, with its warm-up shaded and its events, which areas do not hide.
    pub(super) fn panel(&self, y: Axis, height: f64, marks: Vec<Mark>, each: &str) -> Panel {
        let (areas, others): (Vec<Mark>, Vec<Mark>) =
            marks.into_iter().partition(|mark| matches!(mark.shape, Shape::Areas { .. }));
        let marks = self.warmup().into_iter().chain(areas).chain(self.events.clone()).chain(others);
        Panel { x: self.axis(each), y, height, marks: marks.collect() }
    }

    fn warmup(&self) -> Option<Mark> {
        let shade = || Mark::new(Role::Shade, "warm-up", Shape::Band(0.0, self.at(self.warmup_s.min(self.end_s))));
        (self.warmup_s > 0.0).then(shade)
    }

    /// Name of the time axis's unit.
    pub(super) const fn unit(&self) -> &'static str {
        self.unit.1
    }

    /// True if the run has a warm-up.
    pub(super) fn has_warmup(&self) -> bool {
        self.warmup_s > 0.0
    }

    /// A place on the time axis as people say it: `the start`, `12 s`, `4.5 min`.
    pub(super) fn spoken(&self, at: f64) -> String {
        if at <= 0.0 {
            return "the start".to_owned();
        }
        let unit = match self.unit.1 {
            "seconds" => "s",
            "minutes" => "min",
            _ => "h",
        };
        format!("{} {unit}", trimmed((at * 10.0).round() / 10.0))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time since the start, which is finite")]
fn whole_seconds(s: f64) -> u64 {
    s.ceil() as u64
}

/// The step with the greatest value above 0, the first one of equals.
pub(super) fn peak(steps: &[Step]) -> Option<(Step, f64)> {
    let values = steps.iter().filter_map(|step| Some((*step, step.value?))).filter(|(_, value)| *value > 0.0);
    values.reduce(|a, b| if b.1 > a.1 { b } else { a })
}
