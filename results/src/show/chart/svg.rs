//! Painter of a chart as SVG, at any width: head, keys, axes and marks, by the coordinate systems of `plotters`.

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, IntoDrawingArea};

use super::backend::{Anchor, DrawnShape, Element, SvgBackend, escaped, fine};
use super::palette::{Ink, style_sheet};
use super::scale::Scale;
use super::{Axis, Block, Chart, Dash, Mark, Panel, Range, Role, Shape, Step, Ticks};
use crate::show::visible;

/// Width of a file, and of a chart in a page where there is room, CSS pixels.
const FULL: f64 = 640.0;

/// Width of a chart in a page on a phone, CSS pixels.
const PHONE: f64 = 360.0;

/// Left and right of everything.
const MARGIN: f64 = 16.0;

/// Width of a character over its size: that of the widest common sans-serif, so that nothing is cut in another.
const CHARACTER: f64 = 0.56;

const TITLE: f64 = 18.0;
const CAPTION: f64 = 14.0;
/// The size of keys, ticks and units.
const LABEL: f64 = 13.0;

/// Height of a line of labels.
const LINE: f64 = 19.0;

/// Part of the width that names of rows take at most; longer ones stand above their rows.
const MOST_NAMES: f64 = 0.3;

/// Height of a name above its row.
const NAME: f64 = 20.0;

/// Between two labels of an axis.
const APART: f64 = 8.0;

/// Between two panels.
const GAP: f64 = 12.0;

/// Painted words above the panels.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Words {
    /// Title and caption.
    Inside,
    /// None: the page around it has them.
    Outside,
}

impl Chart {
    /// Return the chart as a file that stands alone.
    pub(in crate::show) fn svg(&self) -> String {
        let (body, height) = self.painted(FULL, Words::Inside);
        let (title, caption) = (escaped(self.title), escaped(&visible(&self.caption)));
        let words = format!("<title>{title}</title>\n<desc>{caption}</desc>\n<style>{}</style>\n", style_sheet());
        root((FULL, height), "crawlmark-plot", "", &(words + &body))
    }

    /// Return the chart for a page that has the [style sheet](style_sheet()), title and caption as text in elements with the
    /// IDs `NAME-title` and `NAME-caption`: once for a wide page, once for a narrow one.
    pub(in crate::show) fn figure(&self) -> String {
        let name = self.name;
        let labels = format!(" aria-labelledby=\"{name}-title\" aria-describedby=\"{name}-caption\"");
        let variant = |(width, class): (f64, &str)| {
            let (body, height) = self.painted(width, Words::Outside);
            root((width, height), class, &labels, &body)
        };
        [(FULL, "crawlmark-plot full"), (PHONE, "crawlmark-plot phone")].map(variant).concat()
    }

    /// Return the shapes of the chart, and its height.
    fn painted(&self, width: f64, words: Words) -> (String, f64) {
        let mut out = String::new();
        let area = SvgBackend::new(&mut out, width).into_drawing_area();
        let mut painter = Painter { area, width, y: 4.0, keyed: Vec::new() };
        if words == Words::Inside {
            painter.words(self);
        }
        let has_rows = |panel: &Panel| matches!(panel.y.range, Range::Rows { .. });
        for panel in &self.panels {
            // Fields of a kind begin below each other.
            let alike = self.panels.iter().filter(|other| has_rows(other) == has_rows(panel));
            painter.panel(panel, alike.map(|panel| left(panel, width)).fold(0.0, f64::max));
        }
        let height = painter.y.ceil();
        drop(painter);
        let ground = format!("<rect class=\"paper\" x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\"/>\n");
        (ground + &out, height)
    }
}

fn root((width, height): (f64, f64), class: &str, attributes: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" role=\"img\" class=\"{class}\"{attributes}>\n{body}</svg>\n"
    )
}

/// Left end of a field: right of the labels of its axis, or of the margin where they stand above their rows.
fn left(panel: &Panel, width: f64) -> f64 {
    if let Range::Rows { names, .. } = &panel.y.range {
        let names = widest(names);
        return if names <= width * MOST_NAMES { MARGIN + names + APART } else { MARGIN };
    }
    let labels: Vec<String> = ticks(&panel.y, y_scale(panel)).iter().map(|y| panel.y.format.label(*y)).collect();
    MARGIN + widest(&labels) + APART
}

fn widest(texts: &[String]) -> f64 {
    texts.iter().map(|text| text_width(text, LABEL)).fold(0.0, f64::max)
}

/// True if the names of the rows stand above them.
fn has_names_above(panel: &Panel, width: f64) -> bool {
    matches!(panel.y.range, Range::Rows { .. }) && left(panel, width) <= MARGIN
}

fn x_scale(panel: &Panel) -> Scale {
    Scale::of(&panel.x.range, panel.marks.iter().flat_map(|mark| mark.shape.extent()).filter_map(|(x, _)| x))
}

fn y_scale(panel: &Panel) -> Scale {
    Scale::of(&panel.y.range, panel.marks.iter().flat_map(|mark| mark.shape.extent()).filter_map(|(_, y)| y))
}

fn ticks(axis: &Axis, scale: Scale) -> Vec<f64> {
    match &axis.ticks {
        Ticks::Round => scale.ticks(),
        Ticks::None => Vec::new(),
        Ticks::At(values) => values.clone(),
    }
}

/// About as wide as the text is at most.
fn text_width(text: &str, size: f64) -> f64 {
    text.chars().count() as f64 * size * CHARACTER
}

/// Break a text into lines; a number stays with its unit.
fn wrapped(text: &str, width: f64, size: f64) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match words.last_mut() {
            Some(last) if last.ends_with(|c: char| c.is_ascii_digit()) => *last = format!("{last} {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line) if text_width(line, size) + text_width(&word, size) + size * CHARACTER <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Field of a panel: its edges, and how values become places in it.
struct Field<'a> {
    area: DrawingArea<SvgBackend<'a>, Cartesian2d<Scale, Scale>>,
    x: Scale,
    y: Scale,
    /// Left, right.
    across: (f64, f64),
    /// Top, bottom.
    down: (f64, f64),
}

impl Field<'_> {
    fn draw(&self, points: &[(f64, f64)], ink: Ink, figure: DrawnShape<'_>) {
        let _ = self.area.draw(&Element { points, ink, figure });
    }

    fn line(&self, points: &[(f64, f64)], ink: Ink, (width, dash): (f64, Dash)) {
        if points.len() > 1 {
            self.draw(points, ink, DrawnShape::Line(width, dash));
        }
    }

    /// A line that keeps a value from the beginning of its step to the end; broken where there is none.
    fn steps(&self, steps: &[Step], ink: Ink, pen: (f64, Dash)) {
        for run in steps.split(|step| step.value.is_none()) {
            let level = |alike: &[Step]| {
                let (first, last) = alike.first().zip(alike.last())?;
                first.value.map(|value| [(first.from, value), (last.to, value)])
            };
            let points: Vec<(f64, f64)> = run.chunk_by(|a, b| a.value == b.value).filter_map(level).flatten().collect();
            self.line(&points, ink, pen);
        }
    }

    /// Draw neighbours above 0 as one area: along their tops, and back along their bases.
    fn areas(&self, steps: &[Step], base: &[f64], ink: Ink) {
        let areas: Vec<(&Step, f64, f64)> =
            steps.iter().zip(base).map(|(step, base)| (step, step.value.unwrap_or(0.0), *base)).collect();
        for area in areas.chunk_by(|a, b| (a.1 > 0.0) == (b.1 > 0.0)).filter(|area| area.iter().any(|one| one.1 > 0.0))
        {
            let tops = area.iter().flat_map(|(step, value, base)| [step.from, step.to].map(|x| (x, base + value)));
            let bases = area.iter().rev().flat_map(|(step, _, base)| [step.to, step.from].map(|x| (x, *base)));
            let corners: Vec<(f64, f64)> = tops.chain(bases).collect();
            // Only the ends of a level line are corners.
            let levels = corners.chunk_by(|a, b| a.1.total_cmp(&b.1).is_eq());
            let ends: Vec<_> =
                levels.flat_map(|level| level.first().into_iter().chain(level.last())).copied().collect();
            self.draw(&ends, ink, DrawnShape::Area);
        }
    }

    fn dot(&self, at: (f64, f64), ink: Ink, hollow: bool) {
        self.draw(&[at], ink, DrawnShape::Circle(if hollow { 4.5 } else { 3.5 }));
        if hollow {
            self.draw(&[at], Ink::Paper, DrawnShape::Circle(2.75));
        }
    }

    fn x_of(&self, value: f64) -> f64 {
        self.across.0 + self.x.place(value) * (self.across.1 - self.across.0)
    }

    fn y_of(&self, value: f64) -> f64 {
        self.down.1 - self.y.place(value) * (self.down.1 - self.down.0)
    }
}

/// Position on a sheet, from top to bottom.
struct Painter<'a> {
    area: DrawingArea<SvgBackend<'a>, Shift>,
    width: f64,
    /// Bottom of what is painted.
    y: f64,
    /// Texts of the keys so far: each is explained once.
    keyed: Vec<String>,
}

impl<'a> Painter<'a> {
    fn draw(&self, points: &[(f64, f64)], ink: Ink, figure: DrawnShape<'_>) {
        let points: Vec<(i32, i32)> = points.iter().map(|(x, y)| (fine(*x), fine(*y))).collect();
        let _ = self.area.draw(&Element { points: &points, ink, figure });
    }

    fn line(&self, points: [(f64, f64); 2], ink: Ink) {
        self.draw(&points, ink, DrawnShape::Line(1.0, Dash::Solid));
    }

    fn label(&self, text: &str, at: (f64, f64), ink: Ink, anchor: Anchor) {
        if !text.trim().is_empty() {
            self.draw(&[at], ink, DrawnShape::Text { text, size: LABEL, anchor, bold: false });
        }
    }

    fn words(&mut self, chart: &Chart) {
        let (title, caption) = (chart.title, visible(&chart.caption));
        self.y = 24.0;
        let figure = DrawnShape::Text { text: title, size: TITLE, anchor: Anchor::Start, bold: true };
        self.draw(&[(MARGIN, self.y)], Ink::Text, figure);
        for line in wrapped(&caption, self.width - 2.0 * MARGIN, CAPTION) {
            self.y += 20.0;
            let figure = DrawnShape::Text { text: &line, size: CAPTION, anchor: Anchor::Start, bold: false };
            self.draw(&[(MARGIN, self.y + 3.0)], Ink::Quiet, figure);
        }
        self.y += 18.0;
    }

    fn panel(&mut self, panel: &Panel, left: f64) {
        for line in wrapped(&panel.y.label, self.width - 2.0 * MARGIN, LABEL) {
            self.label(&line, (MARGIN, self.y + LINE / 2.0), Ink::Quiet, Anchor::Start);
            self.y += LINE;
        }
        self.keys(panel);
        self.y += 7.0;
        let field = self.field(panel, left);
        let bands = |mark: &&Mark| matches!(mark.shape, Shape::Band(..));
        for mark in panel.marks.iter().filter(bands) {
            self.band(mark, &field);
        }
        self.grid(panel, &field);
        self.axes(panel, &field);
        for mark in panel.marks.iter().filter(|mark| !bands(mark)) {
            self.mark(mark, &field);
        }
        // Over the shapes, so that their ends do not hide it.
        match panel.y.range {
            Range::Rows { .. } if panel.x.label.is_empty() => {}
            _ => self.line([(field.across.0, field.down.1), (field.across.1, field.down.1)], Ink::Quiet),
        }
        self.y += GAP;
    }

    fn field(&mut self, panel: &Panel, left: f64) -> Field<'a> {
        let (x, mut y) = (x_scale(panel), y_scale(panel));
        let mut height = panel.height;
        let above = has_names_above(panel, self.width);
        if let (Scale::Rows(count, _), true) = (y, above) {
            height += count * NAME;
            y = Scale::Rows(count, NAME * count / height);
        }
        let left = if above { MARGIN } else { left };
        let across = (left, right(panel, x, left, self.width));
        let down = (self.y, self.y + height);
        self.y = down.1;
        let units = (fine(across.0)..fine(across.1), fine(down.1)..fine(down.0));
        let area = self.area.apply_coord_spec(Cartesian2d::<Scale, Scale>::new(x, y, units));
        Field { area, x, y, across, down }
    }

    /// Draw the keys of the marks that have not been explained, in rows.
    fn keys(&mut self, panel: &Panel) {
        let is_level = |mark: &Mark| matches!(mark.role, Role::Level(_));
        let mut x = MARGIN;
        let mut is_first = true;
        for mark in &panel.marks {
            let text = mark.legend.as_deref().unwrap_or("");
            if !is_level(mark) && (text.is_empty() || self.keyed.iter().any(|keyed| keyed == text)) {
                continue;
            }
            let swatch = if is_level(mark) { 18.0 } else { 28.0 };
            let width = swatch + if text.is_empty() { 0.0 } else { 6.0 + text_width(text, LABEL) };
            if is_first || x + width > self.width - MARGIN {
                x = MARGIN;
                self.y += if is_first { 0.0 } else { LINE };
                is_first = false;
            }
            let y = self.y + LINE / 2.0;
            self.key(mark, (x, y), swatch);
            self.label(text, (x + swatch + 6.0, y), Ink::Text, Anchor::Start);
            x += width + if text.is_empty() { 0.0 } else { 16.0 };
            self.keyed.extend(mark.legend.clone().filter(|_| !is_level(mark)));
        }
        self.y += if is_first { 0.0 } else { LINE };
    }

    /// Draw a sample of a mark; `y` is its middle.
    fn key(&self, mark: &Mark, (x, y): (f64, f64), width: f64) {
        let ink = mark.role.ink();
        let middle = (x + width / 2.0, y);
        match &mark.shape {
            Shape::Areas { .. } | Shape::Blocks(_) | Shape::Band(..) => {
                self.draw(&[(x, y - 6.0), (x + width, y + 6.0)], ink, DrawnShape::Rectangle(0.0));
                if matches!(mark.shape, Shape::Band(..)) {
                    for x in [x, x + width] {
                        self.line([(x, y - 6.0), (x, y + 6.0)], Ink::Quiet);
                    }
                }
            }
            Shape::Dots(dots) => {
                let hollow = dots.first().is_some_and(|dot| dot.hollow);
                self.draw(&[middle], ink, DrawnShape::Circle(if hollow { 4.5 } else { 3.5 }));
                if hollow {
                    self.draw(&[middle], Ink::Paper, DrawnShape::Circle(2.75));
                }
            }
            Shape::Steps(_) | Shape::Line(_) | Shape::Across(_) | Shape::Upright(_) => {
                let (thickness, dash) = pen(mark);
                self.draw(&[(x, y), (x + width, y)], ink, DrawnShape::Line(thickness, dash));
            }
        }
    }

    /// Draw the labels of both axes.
    fn axes(&mut self, panel: &Panel, field: &Field<'_>) {
        if let Range::Rows { names, emphasis } = &panel.y.range {
            self.names(names, *emphasis, field);
        } else {
            for tick in ticks(&panel.y, field.y) {
                let at = (field.across.0 - APART, field.y_of(tick));
                self.label(&panel.y.format.label(tick), at, Ink::Quiet, Anchor::End);
            }
        }
        if panel.x.label.is_empty() {
            return;
        }
        let (mut free, y) = (self.width, field.down.1);
        // The last one first: it is the one that is not left out.
        for tick in ticks(&panel.x, field.x).into_iter().rev() {
            let label = panel.x.format.label(tick);
            let half = text_width(&label, LABEL) / 2.0;
            // It may be wider than the margin, and ends with the sheet.
            let x = field.x_of(tick).min(self.width - 4.0 - half).max(4.0 + half);
            if !label.is_empty() && x + half <= free {
                self.line([(field.x_of(tick), y), (field.x_of(tick), y + 5.0)], Ink::Quiet);
                self.label(&label, (x, y + 15.0), Ink::Quiet, Anchor::Middle);
                free = x - half - APART;
            }
        }
        self.y += 26.0;
        for line in wrapped(&panel.x.label, self.width - 2.0 * MARGIN, LABEL) {
            self.label(&line, (self.width / 2.0, self.y + 8.0), Ink::Quiet, Anchor::Middle);
            self.y += LINE;
        }
    }

    /// Draw the names of rows: all that there is room for, the one that stands out in any case.
    fn names(&self, names: &[String], emphasis: Option<usize>, field: &Field<'_>) {
        let row = (field.down.1 - field.down.0) / names.len().max(1) as f64;
        let above = field.across.0 <= MARGIN;
        let every = if above { 1.0 } else { (16.0 / row).ceil() };
        let mut free = 0.0;
        for (n, name) in names.iter().enumerate() {
            let top = field.down.0 + n as f64 * row;
            let (at, anchor) = if above {
                ((MARGIN, top + NAME / 2.0), Anchor::Start)
            } else {
                ((field.across.0 - APART, top + row / 2.0), Anchor::End)
            };
            if above {
                self.ground(name, at);
            }
            let near = emphasis.is_some_and(|at| (at as f64 - n as f64).abs() < every);
            if Some(n) == emphasis {
                self.draw(&[at], Ink::Vermilion, DrawnShape::Text { text: name, size: LABEL, anchor, bold: true });
            } else if n as f64 >= free && !near {
                self.label(name, at, Ink::Text, anchor);
            }
            if n as f64 >= free {
                free += every;
            }
        }
    }

    fn grid(&self, panel: &Panel, field: &Field<'_>) {
        let ((left, right), (top, bottom)) = (field.across, field.down);
        if matches!(panel.y.range, Range::Rows { .. }) {
            for x in ticks(&panel.x, field.x).into_iter().map(|tick| field.x_of(tick)) {
                self.line([(x, top), (x, bottom)], Ink::Grid);
            }
        } else {
            for y in ticks(&panel.y, field.y).into_iter().map(|tick| field.y_of(tick)) {
                self.line([(left, y), (right, y)], Ink::Grid);
            }
        }
    }

    /// A part of the field, with edges where it does not end with the field.
    fn band(&self, mark: &Mark, field: &Field<'_>) {
        let Shape::Band(from, to) = mark.shape else { return };
        let (left, right) = (field.x_of(from), field.x_of(to));
        let (top, bottom) = field.down;
        self.draw(&[(left, top), (right, bottom)], mark.role.ink(), DrawnShape::Rectangle(2.0));
        for x in [left, right].into_iter().filter(|x| *x > field.across.0 && *x < field.across.1) {
            self.draw(&[(x, top), (x, bottom)], Ink::Quiet, DrawnShape::Line(1.0, Dash::Dashed));
        }
    }

    fn mark(&self, mark: &Mark, field: &Field<'_>) {
        let (ink, pen) = (mark.role.ink(), pen(mark));
        match &mark.shape {
            Shape::Steps(steps) => field.steps(steps, ink, pen),
            Shape::Areas { steps, base } => field.areas(steps, base, ink),
            Shape::Line(points) => field.line(points, ink, pen),
            Shape::Dots(dots) => {
                for dot in dots {
                    if let Some((low, high)) = dot.interval {
                        field.line(&[(dot.at.0, low), (dot.at.0, high)], ink, (2.0, Dash::Solid));
                    }
                    field.dot(dot.at, ink, dot.hollow);
                }
            }
            Shape::Blocks(blocks) => {
                let corners = |one: &Block| [(one.x.0, one.y.0), (one.x.1, one.y.1)];
                let (cells, bars): (Vec<&Block>, Vec<&Block>) = blocks.iter().partition(|one| one.text.is_empty());
                let cells: Vec<_> = cells.into_iter().filter(|one| one.x.0 < one.x.1).map(corners).collect();
                let height = |[low, high]: [(f64, f64); 2]| fine(field.y_of(low.1) - field.y_of(high.1));
                for row in cells.chunk_by(|a, b| height(*a) == height(*b)) {
                    field.draw(row.as_flattened(), ink, DrawnShape::Cells);
                }
                for one in bars {
                    if one.x.0 < one.x.1 {
                        // Little is not taken for nothing.
                        field.draw(&corners(one), ink, DrawnShape::Rectangle(2.0));
                    }
                    self.behind(&one.text, (field.x_of(one.x.1), one.y), field);
                }
            }
            Shape::Across(y) => {
                let y = field.y_of(*y);
                self.draw(&[(field.across.0, y), (field.across.1, y)], ink, DrawnShape::Line(pen.0, pen.1));
            }
            Shape::Upright(x) => {
                let x = field.x_of(*x);
                self.draw(&[(x, field.down.0), (x, field.down.1)], ink, DrawnShape::Line(pen.0, pen.1));
            }
            Shape::Band(..) => {}
        }
    }

    /// Write the text of a bar behind its end, over the lines of the grid.
    fn behind(&self, text: &str, (x, (from, to)): (f64, (f64, f64)), field: &Field<'_>) {
        if text.is_empty() {
            return;
        }
        let y = f64::midpoint(field.y_of(from), field.y_of(to));
        self.ground(text, (x + 7.0, y));
        self.label(text, (x + 7.0, y), Ink::Text, Anchor::Start);
    }

    /// Cover the lines of the grid behind a text.
    fn ground(&self, text: &str, (x, y): (f64, f64)) {
        let width = text_width(text, LABEL) * 0.9;
        self.draw(&[(x - 4.0, y - 7.0), (x + width, y + 7.0)], Ink::Paper, DrawnShape::Rectangle(0.0));
    }
}

/// Right end of a field: where every bar has room for its text behind it.
fn right(panel: &Panel, x: Scale, left: f64, width: f64) -> f64 {
    let blocks = panel.marks.iter().filter_map(|mark| match &mark.shape {
        Shape::Blocks(blocks) => Some(blocks),
        _ => None,
    });
    let room = |(end, text): (f64, &str)| {
        left + (width - MARGIN - 7.0 - text_width(text, LABEL) - left) / x.place(end).max(0.01)
    };
    let texts = blocks.flatten().filter(|one| !one.text.is_empty()).map(|one| room((one.x.1, &one.text)));
    texts.fold(width - 24.0, f64::min).max(left + 60.0)
}

/// Width and pattern of a mark's lines.
pub(super) const fn pen(mark: &Mark) -> (f64, Dash) {
    let width = match (mark.role, &mark.shape) {
        (Role::Asked, Shape::Steps(_)) => 5.0,
        (Role::Asked, Shape::Line(_)) => 3.0,
        (_, Shape::Across(_) | Shape::Upright(_)) => 1.5,
        _ => 2.0,
    };
    (width, mark.dash)
}
