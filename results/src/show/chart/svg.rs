//! The painter: a chart as SVG, for files and for pages.
//!
//! Places are whole tenths of a CSS pixel. Each panel is an `svg` element of its
//! own, of which the script of a page shows a part when a reader zooms; `data-key` joins a key with
//! its marks.

use std::fmt::Write;

use super::palette::{Ink, style_sheet};
use super::scale::{MOST_TICKS, Scale};
use super::{Axis, Block, Chart, Dash, Dot, Mark, Panel, Range, Role, Shape, Step};
use crate::show::text::wrapped;
use crate::show::xml::escaped;

/// Width of a chart, CSS pixels.
const WIDTH: f64 = 640.0;

/// Left and right of everything.
const MARGIN: f64 = 16.0;

/// Width of a character of a label: that of the widest common sans-serif, so that nothing is cut in
/// another.
const CHARACTER: f64 = 7.3;

/// The most characters of a line of labels, and of the caption.
const COLUMNS: [usize; 2] = [82, 76];

/// Attributes of texts.
const TITLE: &str = "font-size=\"18\" font-weight=\"bold\"";
const CAPTION: &str = "font-size=\"14\"";
const START: &str = "font-size=\"13\"";
const MIDDLE: &str = "font-size=\"13\" text-anchor=\"middle\"";
const END: &str = "font-size=\"13\" text-anchor=\"end\"";

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

/// Units of a place in a CSS pixel.
const FINE: f64 = 10.0;

/// A place in a field, in tenths of a CSS pixel.
type Place = (i32, i32);

impl Chart {
    /// Return the chart as a file that stands alone.
    pub(in crate::show) fn svg(&self) -> String {
        let mut head = Sheet::at(24.0);
        head.text(self.title, MARGIN, head.y, Ink::Text, TITLE);
        for line in wrapped(&self.caption, COLUMNS[1]) {
            head.y += 20.0;
            head.text(line, MARGIN, head.y + 3.0, Ink::Quiet, CAPTION);
        }
        let top = head.y + 14.0;
        let body = self.body();
        let words = format!(
            "<title>{}</title>\n<desc>{}</desc>\n<style>{}</style>\n",
            escaped(self.title),
            escaped(&self.caption),
            style_sheet()
        );
        let height = top + body.y;
        let content = format!(
            "{words}{}{}<g transform=\"translate(0 {top})\">\n{}</g>\n",
            ground(height),
            head.out,
            body.out
        );
        root(height, "", &content)
    }

    /// Return the chart for a page that has the [style sheet](style_sheet()), title and caption as
    /// text in elements with the IDs `NAME-title` and `NAME-caption`.
    pub(in crate::show) fn figure(&self) -> String {
        let body = self.body();
        let name = self.name;
        let labels =
            format!(" aria-labelledby=\"{name}-title\" aria-describedby=\"{name}-caption\"");
        root(body.y, &labels, &(ground(body.y) + &body.out))
    }

    /// Paint the panels. Their fields begin below each other.
    fn body(&self) -> Sheet {
        let mut sheet = Sheet::at(4.0);
        let left = self.panels.iter().map(left).fold(0.0, f64::max);
        for panel in &self.panels {
            sheet.panel(panel, left);
        }
        sheet.y = sheet.y.ceil();
        sheet
    }
}

fn root(height: f64, attributes: &str, content: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" \
         font-family=\"system-ui, sans-serif\" role=\"img\" class=\"crawlmark-plot\"{attributes}>\n{content}</svg>\n"
    )
}

fn ground(height: f64) -> String {
    format!("<rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\"/>\n")
}

/// Left end of a field: right of the labels of its axis.
fn left(panel: &Panel) -> f64 {
    let label = |tick: &f64| panel.y.format.label(*tick);
    let labels: Vec<String> = match &panel.y.range {
        Range::Rows(names) => names.iter().flat_map(|name| lines_of(name)).collect(),
        _ => y_ticks(panel, panel.scales().1).iter().map(label).collect(),
    };
    let widths = labels.iter().map(|label| text_width(label));
    MARGIN + widths.fold(0.0, f64::max) + APART
}

/// Right end of a field: where every bar has room for its text behind it.
fn right(panel: &Panel, x: Scale, left: f64) -> f64 {
    let mut right = WIDTH - 24.0;
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
fn ticks(axis: &Axis, scale: Scale, most: f64) -> Vec<f64> {
    axis.ticks.clone().unwrap_or_else(|| scale.ticks(most))
}

fn x_ticks(panel: &Panel, scale: Scale) -> Vec<f64> {
    ticks(&panel.x, scale, MOST_TICKS)
}

fn y_ticks(panel: &Panel, scale: Scale) -> Vec<f64> {
    let most = (panel.height / TICK).clamp(2.0, MOST_TICKS);
    ticks(&panel.y, scale, most)
}

/// Lines of the name of a row.
fn lines_of(name: &str) -> Vec<String> {
    let lines = wrapped(name, MOST_NAME).into_iter().take(2);
    lines
        .map(|line| line.chars().take(MOST_NAME).collect())
        .collect()
}

/// About as wide as the text is at most.
fn text_width(text: &str) -> f64 {
    let wide = text.chars().filter(|c| "mwMW%".contains(*c)).count();
    (text.chars().count() as f64 + wide as f64 / 2.0) * CHARACTER
}

/// Field of a panel: its edges on the sheet, and its scales.
struct Field {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
    x: Scale,
    y: Scale,
}

impl Field {
    fn of(panel: &Panel, left: f64, top: f64) -> Self {
        let (x, y) = panel.scales();
        let (width, height) = (right(panel, x, left) - left, panel.height);
        Self {
            left,
            top,
            width,
            height,
            x,
            y,
        }
    }

    fn at(&self, x: f64, y: f64) -> Place {
        let across = px(fine(self.width)) * self.x.place(x);
        let down = px(fine(self.height)) * (1.0 - self.y.place(y));
        (fine(across), fine(down))
    }

    /// Place of a value of the horizontal axis on the sheet.
    fn x_of(&self, value: f64) -> f64 {
        self.left + px(self.at(value, 0.0).0)
    }

    /// Place of a value of the vertical axis on the sheet.
    fn y_of(&self, value: f64) -> f64 {
        self.top + px(self.at(0.0, value).1)
    }

    /// A line upright through the field.
    fn upright(&self, x: f64) -> [Place; 2] {
        let (x, _) = self.at(x, 0.0);
        [(x, 0), (x, fine(self.height))]
    }

    /// A line across the field.
    fn across(&self, y: f64) -> [Place; 2] {
        let (_, y) = self.at(0.0, y);
        [(0, y), (fine(self.width), y)]
    }

    /// Lines that keep a value from the beginning of its step to the end, broken where there is
    /// none.
    fn steps(&self, steps: &[Step]) -> String {
        let mut path = String::new();
        for run in steps.split(|step| step.value.is_none()) {
            path += &line(
                &run.iter()
                    .flat_map(|step| {
                        let value = step.value.unwrap_or_default();
                        [self.at(step.from, value), self.at(step.to, value)]
                    })
                    .collect::<Vec<_>>(),
            );
        }
        path
    }

    /// Neighbours above 0 as one area: along their tops, and back along their bases.
    fn areas(&self, steps: &[Step]) -> String {
        let mut path = String::new();
        let height = |step: &Step| step.value.unwrap_or(0.0);
        for area in steps.split(|step| height(step) <= 0.0) {
            let tops = area.iter().flat_map(|step| {
                [step.from, step.to].map(|x| self.at(x, step.base + height(step)))
            });
            let bases = area
                .iter()
                .rev()
                .flat_map(|step| [step.to, step.from].map(|x| self.at(x, step.base)));
            let corners: Vec<Place> = tops.chain(bases).collect();
            if !corners.is_empty() {
                path += &(line(&corners) + "z");
            }
        }
        path
    }

    /// The dots, and their intervals, as paths.
    fn dots(&self, dots: &[Dot]) -> [String; 2] {
        let (mut points, mut intervals) = (String::new(), String::new());
        for Dot { at, interval } in dots {
            points += &dot(self.at(at.0, at.1));
            if let Some((low, high)) = interval {
                intervals += &line(&[*low, *high].map(|y| self.at(at.0, y)));
            }
        }
        [points, intervals]
    }

    /// Left, top, width and height of a block, at least 2 px wide.
    fn rectangle(&self, block: &Block) -> [f64; 4] {
        let (x0, y0) = self.at(block.x.0, block.y.0);
        let (x1, y1) = self.at(block.x.1, block.y.1);
        [x0, y0.min(y1), (x1 - x0).max(20), (y1 - y0).abs()].map(px)
    }
}

/// Convert pixels to units.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a sheet has some ten thousand units"
)]
fn fine(px: f64) -> i32 {
    (px * FINE).round() as i32
}

/// Convert units to pixels.
fn px(units: i32) -> f64 {
    f64::from(units) / FINE
}

/// A path through places, without those in the middle of a level line.
fn line(places: &[Place]) -> String {
    let mut path = String::new();
    for (n, (x, y)) in places.iter().enumerate() {
        let before = n.checked_sub(1).and_then(|n| places.get(n));
        let is_level = |other: Option<&Place>| other.is_some_and(|(_, other)| other == y);
        let _ = match before {
            None => write!(path, "M{} {}", px(*x), px(*y)),
            Some(_) if is_level(before) && is_level(places.get(n + 1)) => Ok(()),
            Some(_) if is_level(before) => write!(path, "H{}", px(*x)),
            Some((other, _)) if other == x => write!(path, "V{}", px(*y)),
            Some(_) => write!(path, "L{} {}", px(*x), px(*y)),
        };
    }
    path
}

/// A line without a length, whose round ends are a dot.
fn dot((x, y): Place) -> String {
    format!("M{} {}h.01", px(x), px(y))
}

/// A position on a sheet, from top to bottom, and what is painted above it.
struct Sheet {
    out: String,
    y: f64,
    /// Texts of the keys so far: each is explained once.
    keys: Vec<String>,
}

impl Sheet {
    const fn at(y: f64) -> Self {
        Self {
            out: String::new(),
            y,
            keys: Vec::new(),
        }
    }

    /// Write a text whose middle is at this height.
    fn text(&mut self, text: &str, x: f64, y: f64, ink: Ink, attributes: &str) {
        let _ = writeln!(
            self.out,
            "<text class=\"{}\" x=\"{}\" y=\"{}\" {attributes}>{}</text>",
            ink.class(),
            tenths(x),
            // From the middle to the base line of common letters.
            tenths(y + 5.0),
            escaped(text)
        );
    }

    /// Write lines of labels below each other.
    fn lines(&mut self, text: &str, x: f64, attributes: &str) {
        let lines = wrapped(text, COLUMNS[0]).into_iter();
        for line in lines.filter(|line| !line.is_empty()) {
            self.text(line, x, self.y + LINE / 2.0, Ink::Quiet, attributes);
            self.y += LINE;
        }
    }

    fn rectangle(&mut self, [x, y, width, height]: [f64; 4], ink: Ink) {
        let _ = writeln!(
            self.out,
            "<rect class=\"{}\" x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\"/>",
            ink.class(),
            tenths(x),
            tenths(y),
            tenths(width),
            tenths(height)
        );
    }

    fn stroke(&mut self, path: &str, ink: Ink, pen: Pen) {
        if !path.is_empty() {
            let _ = writeln!(
                self.out,
                "<path class=\"{}{} line\" stroke-width=\"{}\"{} d=\"{path}\"/>",
                ink.class(),
                pen.dash.class(),
                pen.width,
                pen.cap
            );
        }
    }

    fn thin(&mut self, from: [f64; 2], to: [f64; 2], ink: Ink) {
        let path = line(&[from, to].map(|[x, y]| (fine(x), fine(y))));
        self.stroke(&path, ink, Pen::THIN);
    }

    fn panel(&mut self, panel: &Panel, left: f64) {
        self.lines(&panel.y.label, MARGIN, START);
        self.explain(panel);
        self.y += 7.0;
        let field = Field::of(panel, left, self.y);
        self.y += panel.height;
        let Field {
            left,
            top,
            width,
            height,
            ..
        } = field;
        let _ = writeln!(
            self.out,
            "<svg class=\"field\" x=\"{}\" y=\"{}\" width=\"{2}\" height=\"{3}\" viewBox=\"0 0 {2} {3}\" \
             preserveAspectRatio=\"none\" overflow=\"visible\">",
            tenths(left),
            tenths(top),
            tenths(width),
            tenths(height)
        );
        let is_band = |mark: &&Mark| matches!(mark.shape, Shape::Band(..));
        for mark in panel.marks.iter().filter(is_band) {
            self.mark(mark, &field);
        }
        self.grid(panel, &field);
        for mark in panel.marks.iter().filter(|mark| !is_band(mark)) {
            self.mark(mark, &field);
        }
        self.out.push_str("</svg>\n");
        for block in panel.marks.iter().flat_map(blocks) {
            self.behind(block, &field);
        }
        self.axes(panel, &field);
        self.y += GAP;
    }

    /// Draw the keys of the marks that have not been explained, in rows.
    fn explain(&mut self, panel: &Panel) {
        let mut x = MARGIN;
        for mark in &panel.marks {
            if mark.legend.is_empty() || self.keys.contains(&mark.legend) {
                continue;
            }
            let width = 34.0 + text_width(&mark.legend);
            if x > MARGIN && x + width > WIDTH - MARGIN {
                x = MARGIN;
                self.y += LINE;
            }
            let y = self.y + LINE / 2.0;
            let _ = writeln!(
                self.out,
                "<g class=\"key\" data-key=\"{}\">",
                self.keys.len()
            );
            self.sample(mark, x, y);
            self.text(&mark.legend, x + 34.0, y, Ink::Text, START);
            self.out.push_str("</g>\n");
            self.keys.push(mark.legend.clone());
            x += width + 16.0;
        }
        self.y += if x > MARGIN { LINE } else { 0.0 };
    }

    /// Draw a sample of a mark; `y` is its middle.
    fn sample(&mut self, mark: &Mark, x: f64, y: f64) {
        let ink = mark.role.ink();
        let [left, right] = [x, x + 28.0].map(|x| (fine(x), fine(y)));
        match &mark.shape {
            Shape::Areas(_) | Shape::Blocks(_) | Shape::Band(..) => {
                self.rectangle([x, y - 6.0, 28.0, 12.0], ink);
                if matches!(mark.shape, Shape::Band(..)) {
                    for x in [x, x + 28.0] {
                        self.thin([x, y - 6.0], [x, y + 6.0], Ink::Quiet);
                    }
                }
            }
            Shape::Dots(_) | Shape::Rings(_) => self.points(&dot((left.0 + 140, left.1)), mark),
            _ => self.stroke(&line(&[left, right]), ink, Pen::of(mark)),
        }
    }

    /// Draw dots, or rings.
    fn points(&mut self, path: &str, mark: &Mark) {
        if matches!(mark.shape, Shape::Rings(_)) {
            self.stroke(path, mark.role.ink(), Pen::round(9.0));
            self.stroke(path, Ink::Paper, Pen::round(5.5));
        } else {
            self.stroke(path, mark.role.ink(), Pen::round(7.0));
        }
    }

    fn grid(&mut self, panel: &Panel, field: &Field) {
        let lines: Vec<[Place; 2]> = if matches!(panel.y.range, Range::Rows(..)) {
            let ticks = x_ticks(panel, field.x).into_iter();
            ticks.map(|x| field.upright(x)).collect()
        } else {
            let ticks = y_ticks(panel, field.y).into_iter();
            ticks.map(|y| field.across(y)).collect()
        };
        let path: String = lines.iter().map(|ends| line(ends)).collect();
        self.stroke(&path, Ink::Grid, Pen::THIN);
    }

    fn mark(&mut self, mark: &Mark, field: &Field) {
        let ink = mark.role.ink();
        let key = self.keys.iter().position(|key| *key == mark.legend);
        let key = key.map_or_else(String::new, |n| format!(" data-key=\"{n}\""));
        let _ = writeln!(self.out, "<g{key}>");
        match &mark.shape {
            Shape::Steps(steps) => self.stroke(&field.steps(steps), ink, Pen::of(mark)),
            Shape::Areas(steps) => {
                let path = field.areas(steps);
                if !path.is_empty() {
                    let _ = writeln!(self.out, "<path class=\"{}\" d=\"{path}\"/>", ink.class());
                }
            }
            Shape::Line(points) => {
                let places: Vec<Place> = points.iter().map(|(x, y)| field.at(*x, *y)).collect();
                self.stroke(&line(&places), ink, Pen::of(mark));
            }
            Shape::Dots(dots) | Shape::Rings(dots) => {
                let [points, intervals] = field.dots(dots);
                self.stroke(&intervals, ink, Pen::of(mark));
                self.points(&points, mark);
            }
            Shape::Blocks(blocks) => self.blocks(blocks, ink, field),
            Shape::Across(y) => self.stroke(&line(&field.across(*y)), ink, Pen::of(mark)),
            Shape::Upright(x) => self.stroke(&line(&field.upright(*x)), ink, Pen::of(mark)),
            Shape::Band(from, to) => self.band(*from, *to, ink, field),
        }
        self.out.push_str("</g>\n");
    }

    /// Bars; and cells of one height as a path of thick lines, a sixth of the bytes of elements of
    /// their own.
    fn blocks(&mut self, blocks: &[Block], ink: Ink, field: &Field) {
        let wide = blocks.iter().filter(|block| block.x.0 < block.x.1);
        let (cells, bars): (Vec<&Block>, Vec<&Block>) = wide.partition(|one| one.text.is_empty());
        let cells: Vec<[f64; 4]> = cells.iter().map(|cell| field.rectangle(cell)).collect();
        for row in cells.chunk_by(|a, b| fine(a[3]) == fine(b[3])) {
            let mut path = String::new();
            for [x, y, width, height] in row {
                let _ = write!(path, "M{x} {}h{}", tenths(y + height / 2.0), tenths(*width));
            }
            let _ = writeln!(
                self.out,
                "<path class=\"{} cells\" stroke-width=\"{}\" d=\"{path}\"/>",
                ink.class(),
                row[0][3]
            );
        }
        for bar in bars {
            self.rectangle(field.rectangle(bar), ink);
        }
    }

    /// A part of the field, with edges where it does not end with the field.
    fn band(&mut self, from: f64, to: f64, ink: Ink, field: &Field) {
        let y = field.y.ends();
        let block = Block {
            x: (from, to),
            y: (y.start, y.end),
            text: String::new(),
        };
        self.rectangle(field.rectangle(&block), ink);
        let inside = 1.0..field.width - 1.0;
        let ends = [from, to];
        for x in ends
            .iter()
            .filter(|x| inside.contains(&(field.x_of(**x) - field.left)))
        {
            let pen = Pen {
                dash: Dash::Dashed,
                ..Pen::THIN
            };
            self.stroke(&line(&field.upright(*x)), Ink::Quiet, pen);
        }
    }

    /// Write the text of a bar behind its end, over the lines of the grid.
    fn behind(&mut self, block: &Block, field: &Field) {
        if !block.text.is_empty() {
            let x = field.x_of(block.x.1) + 7.0;
            let y = f64::midpoint(field.y_of(block.y.0), field.y_of(block.y.1));
            let width = text_width(&block.text) * 0.9;
            self.rectangle([x - 4.0, y - 7.0, width + 4.0, 14.0], Ink::Paper);
            self.text(&block.text, x, y, Ink::Text, START);
        }
    }

    /// Draw the labels of both axes, and a line below the field.
    fn axes(&mut self, panel: &Panel, field: &Field) {
        if let Range::Rows(names) = &panel.y.range {
            self.names(names, field);
        } else {
            for tick in y_ticks(panel, field.y) {
                let label = panel.y.format.label(tick);
                self.text(
                    &label,
                    field.left - APART,
                    field.y_of(tick),
                    Ink::Quiet,
                    END,
                );
            }
        }
        let y = field.top + field.height;
        if !panel.x.is_hidden() {
            self.out.push_str("<g class=\"ticks\">\n");
            self.label_x(panel, field, y);
            self.out.push_str("</g>\n");
            self.y += 26.0;
            self.lines(&panel.x.label, WIDTH / 2.0, MIDDLE);
        }
        if !(panel.x.is_hidden() && matches!(panel.y.range, Range::Rows(..))) {
            self.thin([field.left, y], [field.left + field.width, y], Ink::Quiet);
        }
    }

    /// Label the horizontal axis: as many ticks as there is room for, the last one in any case.
    fn label_x(&mut self, panel: &Panel, field: &Field, y: f64) {
        let mut free = WIDTH;
        for tick in x_ticks(panel, field.x).into_iter().rev() {
            let label = panel.x.format.label(tick);
            let half = text_width(&label) / 2.0;
            let x = field.x_of(tick);
            // It may be wider than the margin, and ends with the sheet.
            let middle = x.min(WIDTH - 4.0 - half).max(4.0 + half);
            if !label.is_empty() && middle + half <= free {
                self.thin([x, y], [x, y + 5.0], Ink::Quiet);
                self.text(&label, middle, y + 15.0, Ink::Quiet, MIDDLE);
                free = middle - half - APART;
            }
        }
    }

    /// Draw the names of rows, as many as there is room for.
    fn names(&mut self, names: &[String], field: &Field) {
        let mut last = f64::NEG_INFINITY;
        for (n, name) in names.iter().enumerate() {
            let y = field.y_of(n as f64 + 0.5);
            if y - last >= 15.0 {
                let lines = lines_of(name);
                let top = y - (lines.len() as f64 - 1.0) * 7.5;
                for (row, line) in lines.iter().enumerate() {
                    let y = top + row as f64 * 15.0;
                    self.text(line, field.left - APART, y, Ink::Text, END);
                }
                last = y;
            }
        }
    }
}

/// Without the noise of binary fractions.
fn tenths(px: f64) -> f64 {
    (px * FINE).round() / FINE
}

/// Width, pattern and ends of a line.
#[derive(Clone, Copy)]
struct Pen {
    width: f64,
    dash: Dash,
    cap: &'static str,
}

impl Pen {
    const THIN: Self = Self {
        width: 1.0,
        dash: Dash::Solid,
        cap: "",
    };
    /// A dot of this width.
    const fn round(width: f64) -> Self {
        Self {
            width,
            dash: Dash::Solid,
            cap: " stroke-linecap=\"round\"",
        }
    }

    const fn of(mark: &Mark) -> Self {
        let width = match (mark.role, &mark.shape) {
            (Role::Asked, Shape::Steps(_)) => 4.0,
            (Role::Asked, Shape::Line(_)) => 3.0,
            (_, Shape::Across(_) | Shape::Upright(_)) => 1.5,
            _ => 2.0,
        };
        Self {
            width,
            dash: mark.dash,
            cap: "",
        }
    }
}
