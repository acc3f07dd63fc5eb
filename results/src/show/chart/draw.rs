//! The drawing of a chart: its marks as elements of `plotters` in coordinates of `plotters`, over
//! any backend of it.

use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::{CoordTranslate, Shift};
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, RGBColor, ShapeStyle, TextStyle};
use plotters_backend::{BackendCoord, DrawingBackend};

use super::layout::{Layout, MARGIN, Placed, WIDTH};
use super::lettering::Room;
use super::palette::Ink;
use super::scale::Scale;
use super::{Block, Dash, Dot, Face, Mark, Role, Shape, Step};

/// Part of a speck's colour that covers what is behind it.
const SPECK: f64 = 0.6;

/// Width of a column that stands on the axis, CSS pixels.
const COLUMN: f64 = 4.0;

/// Half of the length of a cross, CSS pixels.
const CROSS: f64 = 4.0;

/// What a backend has besides shapes and letters.
pub(super) trait Surface {
    /// Width of the paper around a letter that the drawing has to draw, CSS pixels; 0 where the
    /// backend does it.
    const HALO: f64;

    /// From the height of a text that is asked for to its base line, at a font size of 1.
    const TO_BASE: f64;

    /// Font size that is asked for, at a font size of 1.
    const SIZE: f64;

    /// Draw the next lines with these dashes and gaps, CSS pixels, until told otherwise; false where
    /// a backend has none, and the drawing has to.
    fn dash(&self, lengths: Option<[f64; 2]>) -> bool;
}

/// CSS pixels in units of a backend.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a sheet has some ten thousand units"
)]
fn units(px: f64, unit: i32) -> i32 {
    (px * f64::from(unit)).round() as i32
}

/// Colour, width and pattern of a line.
#[derive(Clone, Copy)]
pub(super) struct Pen {
    ink: Ink,
    width: f64,
    dash: Dash,
}

impl Pen {
    pub(super) const fn thin(ink: Ink) -> Self {
        Self {
            ink,
            width: 1.0,
            dash: Dash::Solid,
        }
    }

    fn of(mark: &Mark) -> Self {
        let usual = match (mark.role, &mark.shape) {
            (Role::Asked | Role::Reference, _) | (_, Shape::Across(_) | Shape::Upright(_)) => 1.5,
            (Role::Good | Role::P99 | Role::Run(0), _) => 2.25,
            _ => 1.75,
        };
        Self {
            ink: mark.role.ink(),
            width: mark.width.unwrap_or(usual),
            dash: mark.dash,
        }
    }
}

/// Errors of a backend.
pub(super) type Drawn<DB, T = ()> =
    Result<T, DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// An area of a backend whose units are so many to a CSS pixel, and the room for its texts.
pub(super) struct Canvas<'a, DB: DrawingBackend, S> {
    pub(super) area: &'a DrawingArea<DB, Shift>,
    pub(super) surface: &'a S,
    pub(super) unit: i32,
    pub(super) room: Room,
}

/// A field of a canvas, in the coordinates of its axes.
pub(super) type FieldArea<DB> = DrawingArea<DB, Cartesian2d<Scale, Scale>>;

/// Draw a chart in a layout over an area of `unit` units to a CSS pixel.
pub(super) fn draw<DB: DrawingBackend, S: Surface>(
    layout: &Layout<'_>,
    area: &DrawingArea<DB, Shift>,
    surface: &S,
    unit: i32,
) -> Drawn<DB> {
    let canvas = Canvas {
        area,
        surface,
        unit,
        room: Room::of([WIDTH, layout.height]),
    };
    for (text, face, y) in &layout.words {
        let ink = if *face == Face::Title {
            Ink::Text
        } else {
            Ink::Quiet
        };
        canvas.say(text, *face, ink, HPos::Left, &[[MARGIN, *y]])?;
    }
    for (n, placed) in layout.panels.iter().enumerate() {
        canvas.panel(placed, n == 0)?;
    }
    Ok(())
}

impl<DB: DrawingBackend, S: Surface> Canvas<'_, DB, S> {
    pub(super) fn units(&self, px: f64) -> i32 {
        units(px, self.unit)
    }

    fn panel(&self, placed: &Placed<'_>, is_first: bool) -> Drawn<DB> {
        let [left, top, width, height] =
            [placed.left, placed.top, placed.width, placed.height].map(|px| self.units(px));
        let field = self.area.clone().apply_coord_spec(Cartesian2d::new(
            placed.x,
            placed.y,
            (left..left + width, top + height..top),
        ));
        let marks = placed.panel.marks.iter();
        let (bands, others): (Vec<_>, Vec<_>) =
            marks.partition(|mark| matches!(mark.shape, Shape::Band(..)));
        for mark in bands {
            self.mark(mark, &field)?;
        }
        self.grid(placed, &field)?;
        for mark in others {
            self.mark(mark, &field)?;
        }
        self.axes(placed, &field)?;
        self.names_at_ends(placed, &field)?;
        self.notes(placed, &field, is_first)
    }

    /// Draw a line in the coordinates of an area.
    pub(super) fn stroke<CT: CoordTranslate>(
        &self,
        area: &DrawingArea<DB, CT>,
        points: Vec<CT::From>,
        pen: Pen,
    ) -> Drawn<DB>
    where
        CT::From: Clone,
        Vec<CT::From>: Clone,
    {
        let places: Vec<BackendCoord> = points
            .iter()
            .map(|point| area.map_coordinate(point))
            .collect();
        let width = u32::try_from(self.units(pen.width)).unwrap_or(1);
        let style = pen.ink.light().stroke_width(width);
        let lengths = pen.dash.lengths();
        let Some([dash, gap]) = lengths.filter(|_| !self.surface.dash(lengths)) else {
            let drawn = self.area.draw(&PathElement::new(places, style));
            self.surface.dash(None);
            return drawn;
        };
        let [dash, gap] = [dash, gap].map(|px| self.units(px));
        let dashed = DashedPathElement::new(places, dash, gap, style);
        self.area.draw(&dashed)
    }

    /// Write a text with its base line at the first of these places that has room.
    pub(super) fn say(
        &self,
        text: &str,
        face: Face,
        ink: Ink,
        anchor: HPos,
        places: &[[f64; 2]],
    ) -> Drawn<DB> {
        if text.trim().is_empty() {
            return Ok(());
        }
        let Some([x, y]) = self.room.take(text, face, anchor, places) else {
            return Ok(());
        };
        let middle = y - S::TO_BASE * face.size();
        let halo = S::HALO;
        if halo > 0.0 {
            let around = [-halo, 0.0, halo];
            for (across, down) in around.iter().flat_map(|x| around.map(|y| (*x, y))) {
                self.letters(text, face, Ink::Paper, anchor, [x + across, middle + down])?;
            }
        }
        self.letters(text, face, ink, anchor, [x, middle])
    }

    fn letters(
        &self,
        text: &str,
        face: Face,
        ink: Ink,
        anchor: HPos,
        middle: [f64; 2],
    ) -> Drawn<DB> {
        let size = face.size() * S::SIZE * f64::from(self.unit);
        let colour = ink.light();
        let style = TextStyle::from((FontFamily::SansSerif, size, face.weight()))
            .color(&colour)
            .pos(Pos::new(anchor, VPos::Center));
        let [x, y] = middle.map(|px| self.units(px));
        self.area.draw(&Text::new(text, (x, y), style))
    }

    /// Draw a rectangle of the canvas: left, top, width and height.
    pub(super) fn rectangle(&self, [x, y, width, height]: [f64; 4], ink: Ink) -> Drawn<DB> {
        let [left, top, right, bottom] = [x, y, x + width, y + height].map(|px| self.units(px));
        let shape = Rectangle::new([(left, top), (right, bottom)], ink.light().filled());
        self.area.draw(&shape)
    }

    pub(super) fn thin(&self, from: [f64; 2], to: [f64; 2], ink: Ink) -> Drawn<DB> {
        let ends = [from, to].map(|[x, y]| (self.units(x), self.units(y)));
        self.stroke(self.area, ends.to_vec(), Pen::thin(ink))
    }

    fn circle(&self, at: BackendCoord, px: f64, style: ShapeStyle) -> Drawn<DB> {
        self.area.draw(&Circle::new(at, self.units(px), style))
    }

    /// Draw a point in the shape of a mark.
    fn point(&self, dot: &Dot, mark: &Mark, field: &FieldArea<DB>) -> Drawn<DB> {
        let at = field.map_coordinate(&dot.at);
        let ink = mark.role.ink();
        let radius = if dot.interval.is_some() { 4.5 } else { 3.5 };
        match mark.shape {
            Shape::Rings(_) => {
                self.circle(at, 4.5, ink.light().filled())?;
                self.circle(at, 2.75, Ink::Paper.light().filled())
            }
            Shape::Specks(_) => self.circle(at, 3.0, ink.light().mix(SPECK).filled()),
            Shape::Crosses(_) => {
                let ((x, y), arm) = (at, self.units(CROSS));
                for down in [arm, -arm] {
                    let ends = vec![(x - arm, y - down), (x + arm, y + down)];
                    self.stroke(self.area, ends, Pen::of(mark))?;
                }
                Ok(())
            }
            Shape::Columns(_) => {
                let (half, foot) = (self.units(COLUMN / 2.0), field.get_y_range().start);
                let (x, y) = at;
                let (_, bottom) = field.map_coordinate(&(dot.at.0, foot));
                let corners = [(x - half, y), (x + half, bottom)];
                self.area
                    .draw(&Rectangle::new(corners, ink.light().filled()))
            }
            _ => self.circle(at, radius, ink.light().filled()),
        }
    }

    fn mark(&self, mark: &Mark, field: &FieldArea<DB>) -> Drawn<DB> {
        let pen = Pen::of(mark);
        let (across, up) = (field.get_x_range(), field.get_y_range());
        match &mark.shape {
            Shape::Steps(steps) => {
                for run in steps.split(|step| step.value.is_none()) {
                    self.stroke(field, tops(run), pen)?;
                }
                Ok(())
            }
            Shape::Areas(steps) => {
                for run in steps
                    .split(|step| step.value.unwrap_or(0.0) <= 0.0)
                    .filter(|run| !run.is_empty())
                {
                    field.draw(&Polygon::new(around(run), pen.ink.light().filled()))?;
                }
                Ok(())
            }
            Shape::Line(points) => self.stroke(field, points.clone(), pen),
            Shape::Dots(dots)
            | Shape::Rings(dots)
            | Shape::Specks(dots)
            | Shape::Crosses(dots)
            | Shape::Columns(dots) => {
                for Dot { at, interval } in dots {
                    if let Some((low, high)) = interval {
                        let wide = Pen { width: 5.0, ..pen };
                        self.stroke(field, vec![(at.0, *low), (at.0, *high)], wide)?;
                    }
                }
                dots.iter().try_for_each(|dot| self.point(dot, mark, field))
            }
            Shape::Blocks(blocks) => blocks
                .iter()
                .filter(|block| block.x.0 < block.x.1)
                .try_for_each(|block| self.block(block, pen.ink, field)),
            Shape::Across(y) => {
                let ends = vec![(across.start, *y), (across.end, *y)];
                self.stroke(field, ends, pen)
            }
            Shape::Upright(x) => self.stroke(field, vec![(*x, up.start), (*x, up.end)], pen),
            Shape::Band(from, to) => {
                let corners = [(*from, up.start), (*to, up.end)];
                field.draw(&Rectangle::new(corners, pen.ink.light().filled()))
            }
            Shape::Notes(_) => Ok(()),
        }
    }

    /// A bar or a cell, at least 2 px wide.
    fn block(&self, block: &Block, ink: Ink, field: &FieldArea<DB>) -> Drawn<DB> {
        let (left, y0) = field.map_coordinate(&(block.x.0, block.y.0));
        let (right, y1) = field.map_coordinate(&(block.x.1, block.y.1));
        let right = right.max(left + self.units(2.0));
        let corners = [(left, y0.min(y1)), (right, y0.max(y1))];
        self.area
            .draw(&Rectangle::new(corners, ink.light().filled()))
    }

    /// Place of a value on the canvas, CSS pixels.
    pub(super) fn px_of(&self, field: &FieldArea<DB>, value: (f64, f64)) -> [f64; 2] {
        let (x, y) = field.map_coordinate(&value);
        [x, y].map(|units| f64::from(units) / f64::from(self.unit))
    }
}

/// Corners of values that last from the beginning of their step to its end.
fn tops(run: &[Step]) -> Vec<(f64, f64)> {
    run.iter()
        .flat_map(|step| {
            let top = step.base + step.value.unwrap_or(0.0);
            [(step.from, top), (step.to, top)]
        })
        .collect()
}

/// Corners of neighbours as one area: along their tops, and back along their bases.
fn around(run: &[Step]) -> Vec<(f64, f64)> {
    let mut corners = tops(run);
    for step in run.iter().rev() {
        corners.extend([(step.to, step.base), (step.from, step.base)]);
    }
    corners
}

impl Ink {
    /// Its colour on white: what `plotters` draws in.
    pub(super) fn light(self) -> RGBColor {
        let [_, r, g, b] = self.on_white().to_be_bytes();
        RGBColor(r, g, b)
    }
}
