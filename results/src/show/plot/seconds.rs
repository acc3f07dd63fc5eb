//! The run's seconds as the plots need them: no more of them than there is room for.

use super::panel::Step;
use super::scale::{Scale, trimmed};
use crate::run::report::{IntervalRow, Report};

/// The most steps that a line has: two pixels each.
const MOST_STEPS: u64 = 272;

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
    /// Time left out of the run's figures at its start, s; in plots over time it is shown.
    pub(super) warmup_s: f64,
}

/// The seconds of a step.
pub(super) struct Gathered<'a> {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) rows: &'a [IntervalRow],
}

impl<'a> Seconds<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        Self::in_at_most(MOST_STEPS, report)
    }

    /// In so many steps at most.
    pub(super) fn in_at_most(most: u64, report: &'a Report) -> Self {
        let rows = &report.intervals;
        // Shards that wait report seconds after the last attempt; of one that died, the last attempt may be unknown.
        let last_s = rows.iter().rev().find(|row| row.attempts > 0).map_or(0.0, |row| row.start_s as f64);
        let known_s = if report.totals.duration_s.is_finite() { report.totals.duration_s } else { 0.0 };
        let end_s = if known_s > last_s { known_s } else { last_s + 1.0 };
        let warmup_s = report.plan.run.warmup.as_secs_f64();
        Self { rows, end_s, warmup_s, width: whole_seconds(end_s).div_ceil(most).max(1) }
    }

    /// In steps of so many seconds, above 0, as another run has them.
    pub(super) fn in_steps_of(width: u64, report: &'a Report) -> Self {
        Self { width, ..Self::of(report) }
    }

    /// One value for each step, of the rows in it and the time that it took.
    fn steps(&self, value: impl Fn(&'a [IntervalRow], f64) -> Option<f64>) -> Vec<Step> {
        let step = |Gathered { from_s, to_s, rows }| {
            // Seconds that nobody reported are no part of a rate.
            let unknown_s = (f64::ceil(to_s - from_s) - rows.len() as f64).max(0.0);
            let known_s = to_s - from_s - unknown_s;
            let enough = !rows.is_empty() && known_s >= LEAST_S.min(self.end_s);
            let value = if enough { value(rows, known_s) } else { None };
            Step { from_s, to_s, value: value.filter(|v| v.is_finite()) }
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

    /// The time axis.
    pub(super) fn scale(&self) -> Scale {
        Scale::Linear(0.0, self.end_s / self.unit().0)
    }

    /// Seconds in the unit of the time axis, and its name.
    pub(super) fn unit(&self) -> (f64, &'static str) {
        match self.end_s {
            s if s <= 300.0 => (1.0, "s"),
            s if s <= 18_000.0 => (60.0, "min"),
            _ => (3_600.0, "h"),
        }
    }

    /// Return the label of the time axis; `each` says what a step of several seconds holds of them.
    pub(super) fn axis_name(&self, each: &str) -> String {
        let unit = self.unit().1;
        let warmup = match self.warmup_s {
            none if none <= 0.0 => String::new(),
            warmup_s => format!("; the first {} s are warm-up", trimmed(warmup_s)),
        };
        match self.width {
            1 => format!("time since the start, {unit}{warmup}"),
            width => format!("time since the start, {unit} (each step is {each} {width} s){warmup}"),
        }
    }

    /// Steps on the time axis's own unit.
    pub(super) fn on_axis(&self, mut steps: Vec<Step>) -> Vec<Step> {
        let unit_s = self.unit().0;
        for step in &mut steps {
            step.from_s /= unit_s;
            step.to_s /= unit_s;
        }
        steps
    }

    /// A moment as people say it: `the start`, `12 s`, `4.5 min`.
    pub(super) fn spoken(&self, at_s: f64) -> String {
        if at_s <= 0.0 {
            return "the start".to_owned();
        }
        let (unit_s, unit) = self.unit();
        format!("{} {unit}", trimmed((at_s / unit_s * 10.0).round() / 10.0))
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time since the start, which is finite")]
fn whole_seconds(s: f64) -> u64 {
    s.ceil() as u64
}

/// The values that there are.
pub(super) fn known(steps: &[Step]) -> impl Iterator<Item = f64> + Clone + '_ {
    steps.iter().filter_map(|step| step.value)
}

/// The step with the greatest value above 0, the first one of equals.
pub(super) fn peak(steps: &[Step]) -> Option<(Step, f64)> {
    let values = steps.iter().filter_map(|step| Some((*step, step.value?))).filter(|(_, value)| *value > 0.0);
    values.reduce(|a, b| if b.1 > a.1 { b } else { a })
}
