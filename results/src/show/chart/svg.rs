//! Painter of a chart as SVG, at any width: head, keys, axes and marks, by the coordinate systems
//! of `plotters`.

mod marks;

use plotters::coord::Shift;
use plotters::coord::cartesian::Cartesian2d;
use plotters::drawing::{DrawingArea, IntoDrawingArea};

use self::marks::Field;
pub(super) use self::marks::pen;
use super::backend::{Anchor, DrawnShape, Element, SvgBackend, escaped, fine};
use super::palette::{Ink, style_sheet};
use super::scale::Scale;
use super::{Axis, Chart, Dash, Mark, Panel, Range, Role, Shape, Ticks};
use crate::show::visible;

/// Width of a file, and of a chart in a page where there is room, CSS pixels.
const FULL: f64 = 640.0;

/// Width of a chart in a page on a phone, CSS pixels.
const PHONE: f64 = 360.0;

/// Left and right of everything.
const MARGIN: f64 = 16.0;

/// Width of a character over its size: that of the widest common sans-serif, so that nothing is cut
/// in another.
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
        let words = format!(
            "<title>{title}</title>\n<desc>{caption}</desc>\n<style>{}</style>\n",
            style_sheet()
        );
        root((FULL, height), "crawlmark-plot", "", &(words + &body))
    }

    /// Return the chart for a page that has the [style sheet](style_sheet()), title and caption as
    /// text in elements with the IDs `NAME-title` and `NAME-caption`: once for a wide page, once
    /// for a narrow one.
    pub(in crate::show) fn figure(&self) -> String {
        let name = self.name;
        let labels =
            format!(" aria-labelledby=\"{name}-title\" aria-describedby=\"{name}-caption\"");
        let variant = |(width, class): (f64, &str)| {
            let (body, height) = self.painted(width, Words::Outside);
            root((width, height), class, &labels, &body)
        };
        [
            (FULL, "crawlmark-plot full"),
            (PHONE, "crawlmark-plot phone"),
        ]
        .map(variant)
        .concat()
    }

    /// Return the shapes of the chart, and its height.
    fn painted(&self, width: f64, words: Words) -> (String, f64) {
        let mut out = String::new();
        let area = SvgBackend::new(&mut out, width).into_drawing_area();
        let mut painter = Painter {
            area,
            width,
            y: 4.0,
            keyed: Vec::new(),
        };
        if words == Words::Inside {
            painter.words(self);
        }
        let has_rows = |panel: &Panel| matches!(panel.y.range, Range::Rows { .. });
        for panel in &self.panels {
            // Fields of a kind begin below each other.
            let alike = self
                .panels
                .iter()
                .filter(|other| has_rows(other) == has_rows(panel));
            painter.panel(
                panel,
                alike.map(|panel| left(panel, width)).fold(0.0, f64::max),
            );
        }
        let height = painter.y.ceil();
        drop(painter);
        let ground = format!(
            "<rect class=\"paper\" x=\"0\" y=\"0\" width=\"{width}\" height=\"{height}\"/>\n"
        );
        (ground + &out, height)
    }
}

fn root((width, height): (f64, f64), class: &str, attributes: &str, body: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\" \
         font-family=\"system-ui, sans-serif\" role=\"img\" class=\"{class}\"{attributes}>\n{body}</svg>\n"
    )
}

/// Left end of a field: right of the labels of its axis, or of the margin where they stand above
/// their rows.
fn left(panel: &Panel, width: f64) -> f64 {
    if let Range::Rows { names, .. } = &panel.y.range {
        let names = widest(names);
        return if names <= width * MOST_NAMES {
            MARGIN + names + APART
        } else {
            MARGIN
        };
    }
    let labels: Vec<String> = ticks(&panel.y, y_scale(panel))
        .iter()
        .map(|y| panel.y.format.label(*y))
        .collect();
    MARGIN + widest(&labels) + APART
}

fn widest(texts: &[String]) -> f64 {
    texts
        .iter()
        .map(|text| text_width(text, LABEL))
        .fold(0.0, f64::max)
}

/// True if the names of the rows stand above them.
fn has_names_above(panel: &Panel, width: f64) -> bool {
    matches!(panel.y.range, Range::Rows { .. }) && left(panel, width) <= MARGIN
}

fn x_scale(panel: &Panel) -> Scale {
    Scale::of(
        &panel.x.range,
        panel
            .marks
            .iter()
            .flat_map(|mark| mark.shape.extent())
            .filter_map(|(x, _)| x),
    )
}

fn y_scale(panel: &Panel) -> Scale {
    Scale::of(
        &panel.y.range,
        panel
            .marks
            .iter()
            .flat_map(|mark| mark.shape.extent())
            .filter_map(|(_, y)| y),
    )
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
            Some(last) if last.ends_with(|c: char| c.is_ascii_digit()) => {
                *last = format!("{last} {word}");
            }
            _ => words.push(word.to_owned()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        match lines.last_mut() {
            Some(line)
                if text_width(line, size) + text_width(&word, size) + size * CHARACTER <= width =>
            {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
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
        let _ = self.area.draw(&Element {
            points: &points,
            ink,
            figure,
        });
    }

    fn line(&self, points: [(f64, f64); 2], ink: Ink) {
        self.draw(&points, ink, DrawnShape::Line(1.0, Dash::Solid));
    }

    fn label(&self, text: &str, at: (f64, f64), ink: Ink, anchor: Anchor) {
        if !text.trim().is_empty() {
            self.draw(
                &[at],
                ink,
                DrawnShape::Text {
                    text,
                    size: LABEL,
                    anchor,
                    bold: false,
                },
            );
        }
    }

    fn words(&mut self, chart: &Chart) {
        let (title, caption) = (chart.title, visible(&chart.caption));
        self.y = 24.0;
        let figure = DrawnShape::Text {
            text: title,
            size: TITLE,
            anchor: Anchor::Start,
            bold: true,
        };
        self.draw(&[(MARGIN, self.y)], Ink::Text, figure);
        for line in wrapped(&caption, self.width - 2.0 * MARGIN, CAPTION) {
            self.y += 20.0;
            let figure = DrawnShape::Text {
                text: &line,
                size: CAPTION,
                anchor: Anchor::Start,
                bold: false,
            };
            self.draw(&[(MARGIN, self.y + 3.0)], Ink::Quiet, figure);
        }
        self.y += 18.0;
    }

    fn panel(&mut self, panel: &Panel, left: f64) {
        for line in wrapped(&panel.y.label, self.width - 2.0 * MARGIN, LABEL) {
            self.label(
                &line,
                (MARGIN, self.y + LINE / 2.0),
                Ink::Quiet,
                Anchor::Start,
            );
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
            _ => self.line(
                [
                    (field.across.0, field.down.1),
                    (field.across.1, field.down.1),
                ],
                Ink::Quiet,
            ),
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
        let area = self
            .area
            .apply_coord_spec(Cartesian2d::<Scale, Scale>::new(x, y, units));
        Field {
            area,
            x,
            y,
            across,
            down,
        }
    }

    /// Draw the keys of the marks that have not been explained, in rows.
    fn keys(&mut self, panel: &Panel) {
        let is_level = |mark: &Mark| matches!(mark.role, Role::Level(_));
        let mut x = MARGIN;
        let mut is_first = true;
        for mark in &panel.marks {
            let text = mark.legend.as_deref().unwrap_or("");
            if !is_level(mark) && (text.is_empty() || self.keyed.iter().any(|keyed| keyed == text))
            {
                continue;
            }
            let swatch = if is_level(mark) { 18.0 } else { 28.0 };
            let width = swatch
                + if text.is_empty() {
                    0.0
                } else {
                    6.0 + text_width(text, LABEL)
                };
            if is_first || x + width > self.width - MARGIN {
                x = MARGIN;
                self.y += if is_first { 0.0 } else { LINE };
                is_first = false;
            }
            let y = self.y + LINE / 2.0;
            self.key(mark, (x, y), swatch);
            self.label(text, (x + swatch + 6.0, y), Ink::Text, Anchor::Start);
            x += width + if text.is_empty() { 0.0 } else { 16.0 };
            self.keyed
                .extend(mark.legend.clone().filter(|_| !is_level(mark)));
        }
        self.y += if is_first { 0.0 } else { LINE };
    }

    /// Draw a sample of a mark; `y` is its middle.
    fn key(&self, mark: &Mark, (x, y): (f64, f64), width: f64) {
        let ink = mark.role.ink();
        let middle = (x + width / 2.0, y);
        match &mark.shape {
            Shape::Areas { .. } | Shape::Blocks(_) | Shape::Band(..) => {
                self.draw(
                    &[(x, y - 6.0), (x + width, y + 6.0)],
                    ink,
                    DrawnShape::Rectangle(0.0),
                );
                if matches!(mark.shape, Shape::Band(..)) {
                    for x in [x, x + width] {
                        self.line([(x, y - 6.0), (x, y + 6.0)], Ink::Quiet);
                    }
                }
            }
            Shape::Dots(dots) => {
                let hollow = dots.first().is_some_and(|dot| dot.hollow);
                self.draw(
                    &[middle],
                    ink,
                    DrawnShape::Circle(if hollow { 4.5 } else { 3.5 }),
                );
                if hollow {
                    self.draw(&[middle], Ink::Paper, DrawnShape::Circle(2.75));
                }
            }
            Shape::Steps(_) | Shape::Line(_) | Shape::Across(_) | Shape::Upright(_) => {
                let (thickness, dash) = pen(mark);
                self.draw(
                    &[(x, y), (x + width, y)],
                    ink,
                    DrawnShape::Line(thickness, dash),
                );
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
            let x = field
                .x_of(tick)
                .min(self.width - 4.0 - half)
                .max(4.0 + half);
            if !label.is_empty() && x + half <= free {
                self.line(
                    [(field.x_of(tick), y), (field.x_of(tick), y + 5.0)],
                    Ink::Quiet,
                );
                self.label(&label, (x, y + 15.0), Ink::Quiet, Anchor::Middle);
                free = x - half - APART;
            }
        }
        self.y += 26.0;
        for line in wrapped(&panel.x.label, self.width - 2.0 * MARGIN, LABEL) {
            self.label(
                &line,
                (self.width / 2.0, self.y + 8.0),
                Ink::Quiet,
                Anchor::Middle,
            );
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
                self.draw(
                    &[at],
                    Ink::Vermilion,
                    DrawnShape::Text {
                        text: name,
                        size: LABEL,
                        anchor,
                        bold: true,
                    },
                );
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
            for x in ticks(&panel.x, field.x)
                .into_iter()
                .map(|tick| field.x_of(tick))
            {
                self.line([(x, top), (x, bottom)], Ink::Grid);
            }
        } else {
            for y in ticks(&panel.y, field.y)
                .into_iter()
                .map(|tick| field.y_of(tick))
            {
                self.line([(left, y), (right, y)], Ink::Grid);
            }
        }
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
    let texts = blocks
        .flatten()
        .filter(|one| !one.text.is_empty())
        .map(|one| room((one.x.1, &one.text)));
    texts.fold(width - 24.0, f64::min).max(left + 60.0)
}
