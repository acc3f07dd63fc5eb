//! The commonest plot: lines over the time of the run.

use super::Plot;
use super::canvas::{Head, Key, Mark, sheet};
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, Panel, Step};
use super::scale::{Scale, short, time, trimmed};
use super::seconds::{Seconds, known};

/// The height of a chart's field.
const FIELD: f64 = 220.0;

/// A line and what it is.
pub(super) struct Line<'a> {
    pub(super) steps: Vec<Step>,
    pub(super) key: Key<'a>,
}

impl<'a> Line<'a> {
    pub(super) const fn new(steps: Vec<Step>, label: &'a str, (ink, width): (Ink, f64)) -> Self {
        Self { steps, key: Key::new(label, Mark::Line(ink, width)) }
    }

    /// True if it has a value anywhere.
    pub(super) fn is_known(&self) -> bool {
        known(&self.steps).next().is_some()
    }

    /// True if it is above 0 anywhere.
    pub(super) fn is_above_zero(&self) -> bool {
        known(&self.steps).any(|value| value > 0.0)
    }
}

/// Kind of the values, with their unit.
#[derive(Clone, Copy)]
pub(super) enum Values {
    /// Counts or rates, from 0.
    Amounts(&'static str),
    /// Microseconds, each line ten times the one below.
    Times(&'static str),
}

/// A chart.
pub(super) struct Chart<'a> {
    pub(super) seconds: &'a Seconds<'a>,
    pub(super) values: Values,
    /// Meaning of a step that holds several seconds: `the mean of`.
    pub(super) each: &'static str,
    /// The first one at the back.
    pub(super) lines: Vec<Line<'a>>,
    /// Text shown when no line has a value.
    pub(super) nothing: &'static str,
}

impl Chart<'_> {
    /// Draws it. The keys are those of the lines.
    pub(super) fn plot(&self, name: &'static str, title: &'static str, caption: String) -> Plot {
        let keys = self.lines.iter().map(|line| line.key).collect();
        let head = Head { name, title, caption, keys };
        sheet(head, ABOVE + FIELD + BELOW, |canvas, top| {
            let top = top + ABOVE;
            let values = self.lines.iter().flat_map(|line| known(&line.steps));
            let (y, unit) = match self.values {
                Values::Amounts(unit) => (Scale::from_zero(values), unit),
                Values::Times(unit) => (Scale::log(values), unit),
            };
            let label: &dyn Fn(f64) -> String = match self.values {
                Values::Amounts(_) => &short,
                Values::Times(_) => &time,
            };
            let panel = Panel::between(canvas, [top, top + FIELD], [self.seconds.scale(), y]);
            panel.vertical(&Axis { unit, label });
            panel.horizontal(&Axis { unit: &self.seconds.axis_name(self.each), label: &trimmed });
            for line in &self.lines {
                if let Mark::Line(ink, width) = line.key.mark {
                    panel.steps(&self.seconds.on_axis(line.steps.clone()), ink, width);
                }
            }
            if !self.lines.iter().any(Line::is_known) {
                panel.note(self.nothing);
            }
        })
    }
}
