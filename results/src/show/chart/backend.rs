//! Backend of `plotters` that writes SVG: shapes with the class of their ink and of their dash
//! pattern, nothing else.
//!
//! `plotters` counts in whole units; ten of them are a CSS pixel, and this file alone knows.

use std::convert::Infallible;
use std::fmt::Write;

use plotters::element::{Drawable, PointCollection};
use plotters_backend::{BackendColor, BackendCoord, DrawingBackend, DrawingErrorKind};

use super::Dash;
use super::palette::Ink;
use crate::show::visible;

/// Units in a CSS pixel.
const FINE: f64 = 10.0;

/// Bottom of the drawing area, which the height of a chart stays below: its file says how high it
/// is.
const DEEP: u32 = 1_000_000;

/// Convert pixels to units.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a sheet has some ten thousand units"
)]
pub(super) fn fine(px: f64) -> i32 {
    (px * FINE).round() as i32
}

/// Writes elements of SVG.
pub(super) struct SvgBackend<'a> {
    out: &'a mut String,
    width: u32,
}

impl<'a> SvgBackend<'a> {
    pub(super) fn new(out: &'a mut String, width: f64) -> Self {
        Self {
            out,
            width: u32::try_from(fine(width)).unwrap_or(0),
        }
    }
}

impl DrawingBackend for SvgBackend<'_> {
    type ErrorType = Infallible;

    fn get_size(&self) -> (u32, u32) {
        (self.width, DEEP)
    }

    fn ensure_prepared(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    fn present(&mut self) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }

    /// Draws nothing: every [`Element`] writes itself.
    fn draw_pixel(
        &mut self,
        _: BackendCoord,
        _: BackendColor,
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        Ok(())
    }
}

/// A shape at points of a coordinate system.
pub(super) struct Element<'a, P> {
    pub(super) points: &'a [P],
    pub(super) ink: Ink,
    pub(super) figure: DrawnShape<'a>,
}

/// Shape that is drawn.
#[derive(Clone, Copy)]
pub(super) enum DrawnShape<'a> {
    /// Line of this width through all points.
    Line(f64, Dash),
    /// Rectangle between two corners, at least this wide.
    Rectangle(f64),
    /// Rectangles of one height, each between two corners, as one path of thick lines: a sixth of
    /// the bytes of elements of their own.
    Cells,
    /// Area within upright and level lines.
    Area,
    /// Circle of this radius around a point.
    Circle(f64),
    /// Text whose middle is at the height of a point.
    Text {
        text: &'a str,
        size: f64,
        anchor: Anchor,
        bold: bool,
    },
}

/// Part of a text that lies at its point.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

impl<'b, P: Clone> PointCollection<'b, P> for &'b Element<'_, P> {
    type Point = &'b P;
    type IntoIter = std::slice::Iter<'b, P>;

    fn point_iter(self) -> Self::IntoIter {
        self.points.iter()
    }
}

impl<P> Drawable<SvgBackend<'_>> for Element<'_, P> {
    fn draw<I: Iterator<Item = BackendCoord>>(
        &self,
        points: I,
        backend: &mut SvgBackend<'_>,
        _: (u32, u32),
    ) -> Result<(), DrawingErrorKind<Infallible>> {
        self.write(
            points.map(|(x, y)| (f64::from(x) / FINE, f64::from(y) / FINE)),
            backend.out,
        );
        Ok(())
    }
}

impl<P> Element<'_, P> {
    /// Write the element, with its points in CSS pixels. A string takes everything.
    fn write(&self, mut points: impl Iterator<Item = (f64, f64)>, out: &mut String) {
        let class = self.ink.class();
        match self.figure {
            DrawnShape::Line(width, dash) => {
                let space = if dash == Dash::Solid { "" } else { " " };
                let _ = write!(
                    out,
                    "<polyline class=\"{class}{space}{}\" stroke-width=\"{width}\" points=\"",
                    dash.class()
                );
                for (n, (x, y)) in points.enumerate() {
                    let _ = write!(out, "{}{x},{y}", if n > 0 { " " } else { "" });
                }
                out.push_str("\"/>\n");
            }
            DrawnShape::Rectangle(least) => {
                let Some(((x0, y0), (x1, y1))) = points.next().zip(points.next()) else {
                    return;
                };
                let (x, y, height) = (x0.min(x1), y0.min(y1), (y1 - y0).abs());
                let width = (x1 - x0).abs().max(least);
                let _ = writeln!(
                    out,
                    "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{}\"/>",
                    tenths(width),
                    tenths(height)
                );
            }
            DrawnShape::Cells => {
                let mut at: Option<(f64, f64)> = None;
                while let Some(((x0, y0), (x1, y1))) = points.next().zip(points.next()) {
                    let (x, y, width) = (
                        x0.min(x1),
                        tenths(f64::midpoint(y0, y1)),
                        tenths((x1 - x0).abs()),
                    );
                    let _ = match at {
                        None => {
                            let height = tenths((y1 - y0).abs());
                            write!(
                                out,
                                "<path class=\"{class} cells\" stroke-width=\"{height}\" d=\"M{x} {y}h{width}"
                            )
                        }
                        Some((from, of)) => {
                            write!(out, "m{} {}h{width}", tenths(x - from), tenths(y - of))
                        }
                    };
                    at = Some((x + width, y));
                }
                out.push_str("\"/>\n");
            }
            DrawnShape::Area => {
                let Some((mut at_x, mut at_y)) = points.next() else {
                    return;
                };
                let _ = write!(out, "<path class=\"{class}\" d=\"M{at_x} {at_y}");
                for (x, y) in points {
                    let _ = if y.total_cmp(&at_y).is_eq() {
                        write!(out, "h{}", tenths(x - at_x))
                    } else {
                        write!(out, "v{}", tenths(y - at_y))
                    };
                    (at_x, at_y) = (x, y);
                }
                out.push_str("z\"/>\n");
            }
            DrawnShape::Circle(radius) => {
                let Some((x, y)) = points.next() else { return };
                let _ = writeln!(
                    out,
                    "<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"{radius}\"/>"
                );
            }
            DrawnShape::Text {
                text,
                size,
                anchor,
                bold,
            } => {
                let Some((x, y)) = points.next() else { return };
                let anchor = match anchor {
                    Anchor::Start => "start",
                    Anchor::Middle => "middle",
                    Anchor::End => "end",
                };
                let weight = if bold { " font-weight=\"bold\"" } else { "" };
                let _ = writeln!(
                    out,
                    "<text class=\"{class}\" x=\"{x}\" y=\"{}\" font-size=\"{size}\" text-anchor=\"{anchor}\"{weight}>{}</text>",
                    // From the middle to the base line of common letters.
                    tenths(y + size * 0.36),
                    escaped(&visible(text))
                );
            }
        }
    }
}

/// Without the noise of binary fractions.
fn tenths(px: f64) -> f64 {
    (px * FINE).round() / FINE
}

pub(super) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
