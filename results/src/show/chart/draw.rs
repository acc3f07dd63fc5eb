//! The drawing of a chart: its layout in CSS pixels, and its marks, axes and keys as elements of
//! `plotters` in coordinates of `plotters`, over any backend of it.

use plotters::coord::cartesian::Cartesian2d;
use plotters::coord::{CoordTranslate, Shift};
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, DashedPathElement, PathElement, Polygon, Rectangle, Text};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontFamily, FontStyle, RGBColor, TextStyle};
use plotters_backend::{BackendCoord, DrawingBackend};

use super::backend::text_width;
use super::palette::Ink;
use super::scale::{MOST_TICKS, Scale};
use super::{Axis, Block, Chart, Dash, Dot, Mark, Panel, Range, Role, Shape, Step};
use crate::show::text::wrapped;

/// Width of a chart, CSS pixels.
pub(super) const WIDTH: f64 = 720.0;

/// Left and right of everything.
pub(super) const MARGIN: f64 = 24.0;

/// The most characters of a line of labels.
const COLUMNS: usize = 90;

/// Size of labels.
const LABEL: f64 = 13.0;

/// Height of a line of labels.
const LINE: f64 = 19.0;

/// The most characters of a line of the name of a row, which has two of them at most.
const MOST_NAME: usize = 26;

/// Height of a tick of the vertical axis, so that a field has no more than it has room for.
const TICK: f64 = 28.0;

/// Between two labels of an axis.
const APART: f64 = 8.0;

/// Between two panels.
const GAP: f64 = 12.0;

/// Length of the sample of a key.
const SAMPLE: f64 = 28.0;

/// Part of a drawing that a page can find again.
#[derive(Debug, Clone, Copy)]
pub(super) enum Group {
    /// The key with this number.
    Key(usize),
    /// Shapes of the mark that the key with this number explains.
    Mark(Option<usize>),
    /// The field of a panel: left, top, width and height in units.
    Field([i32; 4]),
    /// Labels of the horizontal axis.
    Ticks,
}

/// Where a backend has groups, they are opened and closed between its shapes.
pub(super) trait Groups {
    fn open(&self, group: Group);
    fn close(&self, group: Group);
}

/// A chart with a place for each of its panels.
pub(super) struct Layout<'a> {
    panels: Vec<Placed<'a>>,
    /// Marks by the number of their key.
    keys: Vec<&'a Mark>,
    /// Height of all, CSS pixels.
    pub(super) height: f64,
}

/// A panel and its place, CSS pixels.
struct Placed<'a> {
    panel: &'a Panel,
    /// Lines of text: left or middle, and height of the middle of each.
    lines: Vec<(String, f64, HPos)>,
    /// Numbers of the keys that it explains, and their places.
    keys: Vec<(usize, f64, f64)>,
    left: f64,
    top: f64,
    width: f64,
    x: Scale,
    y: Scale,
}

impl<'a> Layout<'a> {
    /// Find a place for everything, from `top` down.
    pub(super) fn of(chart: &'a Chart, top: f64) -> Self {
        let left = chart.panels.iter().map(left).fold(0.0, f64::max);
        let mut layout = Self {
            panels: Vec::new(),
            keys: Vec::new(),
            height: top,
        };
        for panel in &chart.panels {
            layout.add(panel, left);
        }
        layout.height = layout.height.ceil();
        layout
    }

    fn add(&mut self, panel: &'a Panel, left: f64) {
        let (x, y) = panel.scales();
        let mut lines = Vec::new();
        for line in wrapped(&panel.y.label, COLUMNS) {
            self.line(line.to_owned(), HPos::Left, &mut lines);
        }
        let keys = self.place_keys(panel);
        self.height += 7.0;
        let top = self.height;
        self.height += panel.height;
        if !panel.x.is_hidden() {
            self.height += 26.0;
            for line in wrapped(&panel.x.label, COLUMNS) {
                self.line(line.to_owned(), HPos::Center, &mut lines);
            }
        }
        self.height += GAP;
        self.panels.push(Placed {
            panel,
            lines,
            keys,
            left,
            top,
            width: right(panel, x, left) - left,
            x,
            y,
        });
    }

    fn line(&mut self, text: String, side: HPos, lines: &mut Vec<(String, f64, HPos)>) {
        if !text.is_empty() {
            lines.push((text, self.height + LINE / 2.0, side));
            self.height += LINE;
        }
    }

    /// Place the keys of the marks that no panel before has explained, in rows.
    fn place_keys(&mut self, panel: &'a Panel) -> Vec<(usize, f64, f64)> {
        let (mut x, mut placed) = (MARGIN, Vec::new());
        for mark in &panel.marks {
            let is_known = self.keys.iter().any(|key| key.legend == mark.legend);
            if mark.legend.is_empty() || is_known {
                continue;
            }
            let width = SAMPLE + 6.0 + text_width(&mark.legend);
            if x > MARGIN && x + width > WIDTH - MARGIN {
                x = MARGIN;
                self.height += LINE;
            }
            placed.push((self.keys.len(), x, self.height + LINE / 2.0));
            self.keys.push(mark);
            x += width + 16.0;
        }
        self.height += if x > MARGIN { LINE } else { 0.0 };
        placed
    }
}

/// Left end of a field: right of the labels of its axis.
fn left(panel: &Panel) -> f64 {
    let labels: Vec<String> = if let Range::Rows(names) = &panel.y.range {
        names.iter().flat_map(|name| lines_of(name)).collect()
    } else {
        let ticks = y_ticks(panel, panel.scales().1).into_iter();
        ticks.map(|tick| panel.y.format.label(tick)).collect()
    };
    let widths = labels.iter().map(|label| text_width(label));
    MARGIN + widths.fold(0.0, f64::max) + APART
}

/// Right end of a field: where every bar has room for its text behind it.
fn right(panel: &Panel, x: Scale, left: f64) -> f64 {
    let mut right = WIDTH - MARGIN;
    for block in panel.marks.iter().flat_map(blocks) {
        if !block.text.is_empty() {
            let room = WIDTH - MARGIN - 7.0 - text_width(&block.text) - left;
            right = right.min(left + room / x.place(block.x.1).max(0.01));
        }
    }
    right.max(left + 60.0)
}

fn blocks(mark: &Mark) -> &[Block] {
    match &mark.shape {
        Shape::Blocks(blocks) => blocks,
        _ => &[],
    }
}

/// Values that have a tick, and no more than these unless they are given.
fn ticks(axis: &Axis, scale: Scale, most: usize) -> Vec<f64> {
    axis.ticks.clone().unwrap_or_else(|| scale.ticks(most))
}

fn y_ticks(panel: &Panel, scale: Scale) -> Vec<f64> {
    let room = (2..=MOST_TICKS).rev();
    let mut most = room.filter(|ticks| *ticks as f64 * TICK <= panel.height);
    ticks(&panel.y, scale, most.next().unwrap_or(2))
}

/// Lines of the name of a row.
fn lines_of(name: &str) -> Vec<String> {
    let lines = wrapped(name, MOST_NAME).into_iter().take(2);
    lines
        .map(|line| line.chars().take(MOST_NAME).collect())
        .collect()
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
struct Pen {
    ink: Ink,
    width: f64,
    dash: Dash,
}

impl Pen {
    const fn thin(ink: Ink) -> Self {
        Self {
            ink,
            width: 1.0,
            dash: Dash::Solid,
        }
    }

    const fn of(mark: &Mark) -> Self {
        let width = match (mark.role, &mark.shape) {
            (Role::Asked, Shape::Steps(_)) => 4.0,
            (Role::Asked, Shape::Line(_)) => 3.0,
            (_, Shape::Across(_) | Shape::Upright(_)) => 1.5,
            _ => 2.25,
        };
        Self {
            ink: mark.role.ink(),
            width,
            dash: mark.dash,
        }
    }
}

/// Look of a text, and which end of it a place names.
pub(super) struct Lettering {
    /// CSS pixels.
    pub(super) size: f64,
    pub(super) weight: FontStyle,
    pub(super) ink: Ink,
    pub(super) anchor: HPos,
}

/// Errors of a backend.
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// An area of a backend whose units are so many to a CSS pixel.
pub(super) struct Canvas<'a, DB: DrawingBackend, G> {
    pub(super) area: &'a DrawingArea<DB, Shift>,
    pub(super) groups: &'a G,
    pub(super) unit: i32,
}

/// A field of a canvas, in the coordinates of its axes.
type FieldArea<DB> = DrawingArea<DB, Cartesian2d<Scale, Scale>>;

impl<DB: DrawingBackend, G: Groups> Canvas<'_, DB, G> {
    fn units(&self, px: f64) -> i32 {
        units(px, self.unit)
    }

    fn within(&self, group: Group, draw: impl FnOnce() -> Drawn<DB>) -> Drawn<DB> {
        self.groups.open(group);
        let drawn = draw();
        self.groups.close(group);
        drawn
    }

    /// Draw a chart.
    pub(super) fn chart(&self, layout: &Layout<'_>) -> Drawn<DB> {
        for placed in &layout.panels {
            self.panel(layout, placed)?;
        }
        Ok(())
    }

    fn panel(&self, layout: &Layout<'_>, placed: &Placed<'_>) -> Drawn<DB> {
        for (line, y, side) in &placed.lines {
            let x = if matches!(side, HPos::Left) {
                MARGIN
            } else {
                WIDTH / 2.0
            };
            self.text(line, [x, *y], Ink::Quiet, *side)?;
        }
        for (n, x, y) in &placed.keys {
            self.within(Group::Key(*n), || self.key(layout.keys[*n], [*x, *y]))?;
        }
        let [left, top, width, height] =
            [placed.left, placed.top, placed.width, placed.panel.height].map(|px| self.units(px));
        let field = self.area.clone().apply_coord_spec(Cartesian2d::new(
            placed.x,
            placed.y,
            (left..left + width, top + height..top),
        ));
        let marks = &placed.panel.marks;
        let key_of = |mark: &Mark| layout.keys.iter().position(|key| key.legend == mark.legend);
        self.within(Group::Field([left, top, width, height]), || {
            let is_band = |mark: &&Mark| matches!(mark.shape, Shape::Band(..));
            for mark in marks.iter().filter(is_band) {
                self.within(Group::Mark(key_of(mark)), || self.mark(mark, &field))?;
            }
            self.grid(placed, &field)?;
            for mark in marks.iter().filter(|mark| !is_band(mark)) {
                self.within(Group::Mark(key_of(mark)), || self.mark(mark, &field))?;
            }
            Ok(())
        })?;
        for block in marks.iter().flat_map(blocks) {
            self.behind(block, &field)?;
        }
        self.axes(placed, &field)
    }

    /// Draw a line in the coordinates of an area.
    fn stroke<CT: CoordTranslate>(
        &self,
        area: &DrawingArea<DB, CT>,
        points: Vec<CT::From>,
        pen: Pen,
    ) -> Drawn<DB>
    where
        CT::From: Clone,
        Vec<CT::From>: Clone,
    {
        let places = points.iter().map(|point| area.map_coordinate(point));
        let places: Vec<BackendCoord> = places.collect();
        let width = u32::try_from(self.units(pen.width)).unwrap_or(1);
        let style = pen.ink.light().stroke_width(width);
        match pen.dash.lengths() {
            None => self.area.draw(&PathElement::new(places, style)),
            Some(lengths) => {
                let [dash, gap] = lengths.map(|px| self.units(px));
                let dashed = DashedPathElement::new(places, dash, gap, style);
                self.area.draw(&dashed)
            }
        }
    }

    /// Write a text whose middle is at this height.
    fn text(&self, text: &str, at: [f64; 2], ink: Ink, anchor: HPos) -> Drawn<DB> {
        let label = Lettering {
            size: LABEL,
            weight: FontStyle::Normal,
            ink,
            anchor,
        };
        self.letters(text, at, &label)
    }

    /// Write a text in this look.
    pub(super) fn letters(&self, text: &str, at: [f64; 2], look: &Lettering) -> Drawn<DB> {
        let size = look.size * f64::from(self.unit);
        let colour = look.ink.light();
        let style = TextStyle::from((FontFamily::SansSerif, size, look.weight))
            .color(&colour)
            .pos(Pos::new(look.anchor, VPos::Center));
        let [x, y] = at.map(|px| self.units(px));
        self.area.draw(&Text::new(text, (x, y), style))
    }

    /// Draw a rectangle of the canvas: left, top, width and height.
    fn rectangle(&self, [x, y, width, height]: [f64; 4], ink: Ink) -> Drawn<DB> {
        let [left, top, right, bottom] = [x, y, x + width, y + height].map(|px| self.units(px));
        let shape = Rectangle::new([(left, top), (right, bottom)], ink.light().filled());
        self.area.draw(&shape)
    }

    fn thin(&self, from: [f64; 2], to: [f64; 2], ink: Ink) -> Drawn<DB> {
        let ends = [from, to].map(|[x, y]| (self.units(x), self.units(y)));
        self.stroke(self.area, ends.to_vec(), Pen::thin(ink))
    }

    /// Draw a sample of a mark, and its text; the height is that of the middle.
    fn key(&self, mark: &Mark, [x, y]: [f64; 2]) -> Drawn<DB> {
        let ink = mark.role.ink();
        let end = x + SAMPLE;
        match &mark.shape {
            Shape::Areas(_) | Shape::Blocks(_) => {
                self.rectangle([x, y - 6.0, SAMPLE, 12.0], ink)?;
            }
            Shape::Band(..) => {
                self.rectangle([x, y - 6.0, SAMPLE, 12.0], ink)?;
                for x in [x, end] {
                    self.thin([x, y - 6.0], [x, y + 6.0], Ink::Quiet)?;
                }
            }
            Shape::Dots(_) | Shape::Rings(_) => {
                let middle = (self.units(x + SAMPLE / 2.0), self.units(y));
                self.point(middle, mark)?;
            }
            _ => {
                let ends = [x, end].map(|x| (self.units(x), self.units(y)));
                self.stroke(self.area, ends.to_vec(), Pen::of(mark))?;
            }
        }
        self.text(&mark.legend, [end + 6.0, y], Ink::Text, HPos::Left)
    }

    /// Draw a dot, or a ring.
    fn point(&self, at: BackendCoord, mark: &Mark) -> Drawn<DB> {
        let ink = mark.role.ink();
        let circle = |px: f64, ink: Ink| Circle::new(at, self.units(px), ink.light().filled());
        if matches!(mark.shape, Shape::Rings(_)) {
            self.area.draw(&circle(4.5, ink))?;
            return self.area.draw(&circle(2.75, Ink::Paper));
        }
        self.area.draw(&circle(3.5, ink))
    }

    fn grid(&self, placed: &Placed<'_>, field: &FieldArea<DB>) -> Drawn<DB> {
        let (across, up) = (placed.x.ends(), placed.y.ends());
        let look = Pen::thin(Ink::Grid);
        if matches!(placed.panel.y.range, Range::Rows(..)) {
            for x in ticks(&placed.panel.x, placed.x, MOST_TICKS) {
                self.stroke(field, vec![(x, up.start), (x, up.end)], look)?;
            }
            return Ok(());
        }
        for y in y_ticks(placed.panel, placed.y) {
            self.stroke(field, vec![(across.start, y), (across.end, y)], look)?;
        }
        Ok(())
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
                let height = |step: &Step| step.value.unwrap_or(0.0);
                let runs = steps.split(|step| height(step) <= 0.0);
                for run in runs.filter(|run| !run.is_empty()) {
                    field.draw(&Polygon::new(around(run), pen.ink.light().filled()))?;
                }
                Ok(())
            }
            Shape::Line(points) => self.stroke(field, points.clone(), pen),
            Shape::Dots(dots) | Shape::Rings(dots) => {
                for Dot { at, interval } in dots {
                    if let Some((low, high)) = interval {
                        self.stroke(field, vec![(at.0, *low), (at.0, *high)], pen)?;
                    }
                }
                dots.iter()
                    .try_for_each(|dot| self.point(field.map_coordinate(&dot.at), mark))
            }
            Shape::Blocks(blocks) => {
                let wide = blocks.iter().filter(|block| block.x.0 < block.x.1);
                wide.into_iter()
                    .try_for_each(|block| self.block(block, pen.ink, field))
            }
            Shape::Across(y) => {
                let ends = vec![(across.start, *y), (across.end, *y)];
                self.stroke(field, ends, pen)
            }
            Shape::Upright(x) => self.stroke(field, vec![(*x, up.start), (*x, up.end)], pen),
            Shape::Band(from, to) => self.band([*from, *to], pen.ink, field),
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

    /// A part of the field, with edges where it does not end with the field.
    fn band(&self, ends: [f64; 2], ink: Ink, field: &FieldArea<DB>) -> Drawn<DB> {
        let (across, up) = (field.get_x_range(), field.get_y_range());
        let corners = [(ends[0], up.start), (ends[1], up.end)];
        field.draw(&Rectangle::new(corners, ink.light().filled()))?;
        for x in ends
            .into_iter()
            .filter(|x| across.start < *x && *x < across.end)
        {
            self.stroke(
                field,
                vec![(x, up.start), (x, up.end)],
                Pen::thin(Ink::Quiet),
            )?;
        }
        Ok(())
    }

    /// Write the text of a bar behind its end, over the lines of the grid.
    fn behind(&self, block: &Block, field: &FieldArea<DB>) -> Drawn<DB> {
        if block.text.is_empty() {
            return Ok(());
        }
        let middle = f64::midpoint(block.y.0, block.y.1);
        let [x, y] = self.px_of(field, (block.x.1, middle));
        let width = text_width(&block.text) * 0.9;
        self.rectangle([x + 3.0, y - 7.0, width + 4.0, 14.0], Ink::Paper)?;
        self.text(&block.text, [x + 7.0, y], Ink::Text, HPos::Left)
    }

    /// Place of a value on the canvas, CSS pixels.
    fn px_of(&self, field: &FieldArea<DB>, value: (f64, f64)) -> [f64; 2] {
        let (x, y) = field.map_coordinate(&value);
        [x, y].map(|units| f64::from(units) / f64::from(self.unit))
    }

    /// Draw the labels of both axes, and a line below the field.
    fn axes(&self, placed: &Placed<'_>, field: &FieldArea<DB>) -> Drawn<DB> {
        let Placed {
            panel,
            left,
            top,
            width,
            ..
        } = placed;
        let is_named = matches!(panel.y.range, Range::Rows(..));
        if let Range::Rows(names) = &panel.y.range {
            self.names(names, *left, field)?;
        } else {
            for tick in y_ticks(panel, placed.y) {
                let [_, y] = self.px_of(field, (0.0, tick));
                let label = panel.y.format.label(tick);
                self.text(&label, [left - APART, y], Ink::Quiet, HPos::Right)?;
            }
        }
        let bottom = top + panel.height;
        if !panel.x.is_hidden() {
            self.within(Group::Ticks, || self.label_x(placed, bottom, field))?;
        }
        if !(panel.x.is_hidden() && is_named) {
            self.thin([*left, bottom], [left + width, bottom], Ink::Quiet)?;
        }
        Ok(())
    }

    /// Label the horizontal axis: as many ticks as there is room for, the last one in any case.
    fn label_x(&self, placed: &Placed<'_>, y: f64, field: &FieldArea<DB>) -> Drawn<DB> {
        let mut free = WIDTH;
        let axis = &placed.panel.x;
        for tick in ticks(axis, placed.x, MOST_TICKS).into_iter().rev() {
            let label = axis.format.label(tick);
            let half = text_width(&label) / 2.0;
            let [x, _] = self.px_of(field, (tick, 0.0));
            // It may be wider than the margin, and ends with the sheet.
            let middle = x.min(WIDTH - 4.0 - half).max(4.0 + half);
            if !label.is_empty() && middle + half <= free {
                self.thin([x, y], [x, y + 5.0], Ink::Quiet)?;
                self.text(&label, [middle, y + 15.0], Ink::Quiet, HPos::Center)?;
                free = middle - half - APART;
            }
        }
        Ok(())
    }

    /// Write the names of rows, as many as there is room for.
    fn names(&self, names: &[String], left: f64, field: &FieldArea<DB>) -> Drawn<DB> {
        let mut last = f64::NEG_INFINITY;
        for (n, name) in names.iter().enumerate() {
            let [_, y] = self.px_of(field, (0.0, n as f64 + 0.5));
            if y - last < 15.0 {
                continue;
            }
            let lines = lines_of(name);
            let top = y - (lines.len() as f64 - 1.0) * 7.5;
            for (row, line) in lines.iter().enumerate() {
                let y = top + row as f64 * 15.0;
                self.text(line, [left - APART, y], Ink::Text, HPos::Right)?;
            }
            last = y;
        }
        Ok(())
    }
}

/// Corners of values that last from the beginning of their step to its end.
fn tops(run: &[Step]) -> Vec<(f64, f64)> {
    let corners = run.iter().flat_map(|step| {
        let top = step.base + step.value.unwrap_or(0.0);
        [(step.from, top), (step.to, top)]
    });
    corners.collect()
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
