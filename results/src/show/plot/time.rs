//! The axis of time of a run's pictures.

use crate::show::chart::{Axis, Format, Range, Step};
use crate::show::page::columns::{Columns, Steps};

/// An axis of time.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeAxis {
    from_s: f64,
    pub(super) to_s: f64,
    /// Seconds in its unit.
    unit_s: f64,
    unit: &'static str,
}

impl TimeAxis {
    pub(super) fn of(columns: &Columns<'_>) -> Self {
        let (from_s, to_s) = (columns.from_s, columns.to_s);
        let (unit_s, unit) = match to_s - from_s {
            s if s <= 300.0 => (1.0, "s"),
            s if s <= 18_000.0 => (60.0, "min"),
            _ => (3_600.0, "h"),
        };
        Self {
            from_s,
            to_s,
            unit_s,
            unit,
        }
    }

    /// Place of a moment of the run.
    pub(super) fn at(&self, s: f64) -> f64 {
        s.min(self.to_s) / self.unit_s
    }

    /// Describe the axis.
    pub(super) fn axis(&self) -> Axis {
        let range = Range::Between(self.at(self.from_s), self.at(self.to_s));
        Axis::new(self.unit, range, Format::Number)
    }

    /// The ends of one of equal steps.
    pub(super) fn ends(&self, step: usize, step_s: f64) -> [f64; 2] {
        [step, step + 1].map(|n| self.at(self.from_s + n as f64 * step_s))
    }

    /// Values with their places.
    pub(super) fn steps(&self, steps: &Steps) -> Vec<Step> {
        steps
            .values
            .iter()
            .enumerate()
            .map(|(n, value)| {
                let [from, to] = self.ends(n, steps.step_s);
                Step {
                    from,
                    to,
                    value: *value,
                    base: 0.0,
                }
            })
            .collect()
    }
}
