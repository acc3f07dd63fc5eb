//! Named amounts as bars that lie below each other, for what has no time.

use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, LABEL, Lettering, WIDTH, text_width};
use super::palette::Ink;

/// The height of a bar with the space below it.
pub(super) const ROW: f64 = 26.0;

const THICKNESS: f64 = 16.0;

/// The least width of a bar of something, so that little is not taken for nothing.
const LEAST: f64 = 2.0;

/// A bar.
pub(super) struct Bar {
    /// Written before it.
    pub(super) name: String,
    /// Its length, as a part of the longest that there can be.
    pub(super) part: f64,
    /// Written behind all of them.
    pub(super) value: String,
    pub(super) ink: Ink,
}

/// Return the field of the bars: left end, and length of a whole one.
pub(super) fn field(bars: &[Bar]) -> (f64, f64) {
    let widest = |of: fn(&Bar) -> &str| bars.iter().map(|bar| text_width(of(bar), LABEL)).fold(0.0, f64::max);
    let left = 16.0 + widest(|bar| &bar.name) + 10.0;
    (left, (WIDTH - 16.0 - 10.0 - widest(|bar| &bar.value) - left).max(LEAST))
}

/// Draws a share of each, from its left end, over bars that were drawn from this height down.
pub(super) fn shares(canvas: &Canvas<'_>, bars: &[Bar], shares: impl Iterator<Item = f64>, (top, ink): (f64, Ink)) {
    let (left, length) = field(bars);
    let middles = std::iter::successors(Some(top + ROW / 2.0), |y| Some(y + ROW));
    for ((bar, share), y) in bars.iter().zip(shares).zip(middles) {
        let right = left + length * bar.part.clamp(0.0, 1.0) * share.clamp(0.0, 1.0);
        canvas.area([left, y - THICKNESS / 2.0, right, y + THICKNESS / 2.0], ink);
    }
}

/// Draws them from this height down.
pub(super) fn draw(canvas: &Canvas<'_>, bars: &[Bar], top: f64) {
    let (left, length) = field(bars);
    let middles = std::iter::successors(Some(top + ROW / 2.0), |y| Some(y + ROW));
    for (bar, y) in bars.iter().zip(middles) {
        let right = left + (length * bar.part.clamp(0.0, 1.0)).max(LEAST);
        canvas.text(&bar.name, (left - 10.0, y), Lettering::label(Ink::Text, HPos::Right));
        canvas.area([left, y - THICKNESS / 2.0, right, y + THICKNESS / 2.0], bar.ink);
        canvas.text(&bar.value, (left + length + 10.0, y), Lettering::label(Ink::Text, HPos::Left));
    }
}
