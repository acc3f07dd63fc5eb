//! A field with two axes, and what is drawn in it.

use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, LABEL, Lettering, WIDTH, text_width};
use super::palette::Ink;
use super::scale::Scale;

/// Left end of panels: room for the labels of the axis.
pub(super) const LEFT: f64 = 72.0;

/// Right end of panels: room for half a label.
pub(super) const RIGHT: f64 = WIDTH - 24.0;

/// Above a panel, for its unit.
pub(super) const ABOVE: f64 = 26.0;

/// Below a panel, for ticks and the unit of the horizontal axis.
pub(super) const BELOW: f64 = 50.0;

/// An axis: what its values are, and how they are written.
pub(super) struct Axis<'a> {
    pub(super) unit: &'a str,
    pub(super) label: &'a dyn Fn(f64) -> String,
}

/// A field.
pub(super) struct Panel<'c, 'b> {
    pub(super) canvas: &'c Canvas<'b>,
    top: f64,
    bottom: f64,
    x: Scale,
    y: Scale,
}

impl<'c, 'b> Panel<'c, 'b> {
    /// The field between two heights, empty.
    pub(super) fn between(canvas: &'c Canvas<'b>, [top, bottom]: [f64; 2], [x, y]: [Scale; 2]) -> Self {
        Self { canvas, top, bottom, x, y }
    }

    /// Draws the vertical axis: its grid, its labels, and its unit above.
    pub(super) fn vertical(&self, axis: &Axis<'_>) {
        self.vertical_at(&self.y.ticks(), axis);
    }

    /// Draw the vertical axis with a grid at these values.
    pub(super) fn vertical_at(&self, ticks: &[f64], axis: &Axis<'_>) {
        for tick in ticks.iter().copied() {
            let y = self.y_of(tick);
            self.canvas.line(&[(LEFT, y), (RIGHT, y)], Ink::Grid, 1.0);
            self.tick(&(axis.label)(tick), tick);
        }
        self.unit(axis.unit);
    }

    /// A label of the vertical axis.
    pub(super) fn tick(&self, label: &str, at: f64) {
        self.canvas.text(label, (LEFT - 8.0, self.y_of(at)), Lettering::label(Ink::Quiet, HPos::Right));
    }

    /// Write the unit of the vertical axis above it.
    pub(super) fn unit(&self, unit: &str) {
        self.canvas.text(unit, (16.0, self.top - 15.0), Lettering::label(Ink::Quiet, HPos::Left));
    }

    /// Draws the horizontal axis below: its ticks, labels and unit.
    pub(super) fn horizontal(&self, axis: &Axis<'_>) {
        self.horizontal_at(&self.x.ticks(), axis);
    }

    /// Draw the horizontal axis with ticks at these values.
    pub(super) fn horizontal_at(&self, ticks: &[f64], axis: &Axis<'_>) {
        self.base();
        for (tick, label) in ticks.iter().map(|tick| (*tick, (axis.label)(*tick))) {
            // An axis of whole steps has no word for what lies between them.
            if label.is_empty() {
                continue;
            }
            let x = self.x_of(tick);
            self.canvas.line(&[(x, self.bottom), (x, self.bottom + 5.0)], Ink::Quiet, 1.0);
            // The last one may be wider than the margin, and ends with the sheet.
            let x = x.min(WIDTH - 4.0 - text_width(&label, LABEL) / 2.0);
            self.canvas.text(&label, (x, self.bottom + 14.0), Lettering::label(Ink::Quiet, HPos::Center));
        }
        let middle = f64::midpoint(LEFT, RIGHT);
        self.canvas.text(axis.unit, (middle, self.bottom + 34.0), Lettering::label(Ink::Quiet, HPos::Center));
    }

    /// The line at the bottom.
    pub(super) fn base(&self) {
        self.canvas.line(&[(LEFT, self.bottom), (RIGHT, self.bottom)], Ink::Quiet, 1.0);
    }

    /// Says something where there is nothing to draw.
    pub(super) fn note(&self, text: &str) {
        let place = (f64::midpoint(LEFT, RIGHT), f64::midpoint(self.top, self.bottom));
        let half = text_width(text, LABEL) / 2.0 + 8.0;
        self.canvas.area([place.0 - half, place.1 - 12.0, place.0 + half, place.1 + 12.0], Ink::Paper);
        self.canvas.text(text, place, Lettering::label(Ink::Text, HPos::Center));
    }

    pub(super) fn x_of(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (RIGHT - LEFT)
    }

    pub(super) fn y_of(&self, value: f64) -> f64 {
        self.bottom - self.y.place(value) * (self.bottom - self.top)
    }

    /// A line through points, in the order of `points`.
    pub(super) fn curve(&self, points: &[(f64, f64)], ink: Ink, width: f64) {
        let places: Vec<_> = points.iter().map(|(x, y)| (self.x_of(*x), self.y_of(*y))).collect();
        if places.len() > 1 {
            self.canvas.line(&places, ink, width);
        }
    }

    /// A line that keeps a value from the beginning of its step to the end; broken where there is none.
    pub(super) fn steps(&self, steps: &[Step], ink: Ink, width: f64) {
        let mut run: Vec<(f64, f64)> = Vec::new();
        for step in steps {
            match step.value {
                Some(value) => run.extend([(step.from_s, value), (step.to_s, value)]),
                None => self.curve(&std::mem::take(&mut run), ink, width),
            }
        }
        self.curve(&run, ink, width);
    }

    /// A line from top to bottom.
    pub(super) fn line_at(&self, x: f64, ink: Ink) {
        self.canvas.line(&[(self.x_of(x), self.top), (self.x_of(x), self.bottom)], ink, 1.0);
    }

    /// A line from left to right.
    pub(super) fn line_across(&self, y: f64, ink: Ink) {
        self.canvas.line(&[(LEFT, self.y_of(y)), (RIGHT, self.y_of(y))], ink, 1.0);
    }

    /// A rectangle from top to bottom, two pixels wide at least.
    pub(super) fn strip(&self, [from, to]: [f64; 2], ink: Ink) {
        let (left, right) = (self.x_of(from), if to.is_finite() { self.x_of(to) } else { RIGHT });
        self.canvas.area([left, self.top, right.max(left + 2.0), self.bottom], ink);
    }

    /// A dot.
    pub(super) fn dot(&self, x: f64, y: f64) {
        self.canvas.dot((self.x_of(x), self.y_of(y)), Ink::Blue);
    }

    /// A dot, or a ring for what is there and does not count.
    pub(super) fn point(&self, (x, y): (f64, f64), ink: Ink, counts: bool) {
        let place = (self.x_of(x), self.y_of(y));
        if counts { self.canvas.dot(place, ink) } else { self.canvas.ring(place, ink) }
    }

    /// A short line across.
    pub(super) fn mark(&self, x: f64, y: f64, ink: Ink) {
        let (x, y) = (self.x_of(x), self.y_of(y));
        self.canvas.line(&[(x, y - 6.0), (x, y + 6.0)], ink, 3.0);
    }

    /// A rectangle between two values of either axis.
    pub(super) fn cell(&self, [x0, x1]: [f64; 2], [y0, y1]: [f64; 2], ink: Ink) {
        self.canvas.area([self.x_of(x0), self.y_of(y1), self.x_of(x1), self.y_of(y0)], ink);
    }
}

/// A value over a part of the run; none where nothing is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Step {
    pub(super) from_s: f64,
    pub(super) to_s: f64,
    pub(super) value: Option<f64>,
}
