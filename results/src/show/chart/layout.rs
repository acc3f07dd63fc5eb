//! Places of the parts of a chart, CSS pixels: the words at the top, the panels below each other,
//! and the room beside and below each of them.

use super::scale::{MOST_TICKS, Scale};
use super::{Axis, Chart, Face, Mark, Note, Panel, Range, Shape};

/// Width of a chart.
pub(super) const WIDTH: f64 = 720.0;

/// Left and right of everything.
pub(super) const MARGIN: f64 = 24.0;

/// Base lines of the title and of the subtitle, the top of the first field, and the base line of the
/// source above the bottom.
const TITLE: f64 = 32.0;
const SUBTITLE: f64 = 53.0;
const FIRST: f64 = 84.0;
const SOURCE: f64 = 12.0;

/// Top of the first field where a page has title and subtitle.
const FIRST_OF_PAGE: f64 = 20.0;

/// Height of a further line of the title, and of the subtitle.
const TITLE_LINE: f64 = 24.0;
const SUBTITLE_LINE: f64 = 17.0;

/// Left end of a field at the least, and its right end where nothing stands beside it.
const LEFT: f64 = 64.0;
const RIGHT: f64 = WIDTH - MARGIN;

/// Between an axis and its labels, or what is beside it.
pub(super) const APART: f64 = 8.0;

/// Least width of a field.
const NARROWEST: f64 = 180.0;

/// Longest name of a row or of a line.
pub(super) const LONGEST: f64 = 210.0;

/// From a number of a row to its name.
pub(super) const NUMBER: f64 = 22.0;

/// Least distance of the labels beside a field.
pub(super) const LABEL_LINE: f64 = 15.0;

/// Height of a row of text under the ticks, the first of them, and the line above the second.
pub(super) const CELL: f64 = 21.0;
pub(super) const FIRST_CELL: f64 = 22.0;

/// Height of a tick of the vertical axis, so that a field has no more than it has room for.
const TICK: f64 = 21.0;

/// A line of words: its text, its look and its base line.
pub(super) type Words = (String, Face, f64);

/// A chart with a place for each of its panels.
pub(super) struct Layout<'a> {
    pub(super) panels: Vec<Placed<'a>>,
    /// Title, subtitle and source.
    pub(super) words: Vec<Words>,
    pub(super) height: f64,
}

/// A panel and its place.
pub(super) struct Placed<'a> {
    pub(super) panel: &'a Panel,
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) x: Scale,
    pub(super) y: Scale,
    /// Marks with a label at their end, in the order of the chart.
    pub(super) ends: Vec<&'a Mark>,
    /// True if its label stands above the field.
    pub(super) is_named: bool,
}

impl<'a> Layout<'a> {
    /// Find a place for everything; a page has the words itself.
    pub(super) fn of(chart: &'a Chart, on_page: bool) -> Self {
        let mut layout = Self {
            panels: Vec::new(),
            words: Vec::new(),
            height: FIRST_OF_PAGE,
        };
        if !on_page {
            layout.head(chart);
        }
        let left = chart.panels.iter().map(left).fold(LEFT, f64::max);
        let right = chart
            .panels
            .iter()
            .map(|panel| right(panel, left))
            .fold(RIGHT, f64::min)
            .max(left + NARROWEST);
        for (n, panel) in chart.panels.iter().enumerate() {
            layout.add(panel, [left, right], n > 0 || chart.panels.len() > 1);
        }
        layout.height = if on_page {
            layout.height + 8.0
        } else {
            layout.height.ceil() + 30.0
        };
        if !on_page && !chart.source.is_empty() {
            let source = Face::Source.fitted(&chart.source, RIGHT - MARGIN);
            let y = layout.height - SOURCE;
            layout.words.push((source, Face::Source, y));
        }
        layout
    }

    fn head(&mut self, chart: &Chart) {
        let mut more = 0.0;
        let lines = Face::Title.lines(&chart.answer, RIGHT - MARGIN, 2);
        for (n, line) in lines.into_iter().enumerate() {
            more = n as f64 * TITLE_LINE;
            self.words.push((line, Face::Title, TITLE + more));
        }
        let (first, lines) = (
            SUBTITLE + more,
            Face::Subtitle.lines(&chart.subtitle, RIGHT - MARGIN, 3),
        );
        for (n, line) in lines.into_iter().enumerate() {
            let y = first + n as f64 * SUBTITLE_LINE;
            more = y - SUBTITLE;
            self.words.push((line, Face::Subtitle, y));
        }
        self.height = FIRST + more;
    }

    fn add(&mut self, panel: &'a Panel, [left, right]: [f64; 2], may_have_name: bool) {
        let (x, y) = panel.scales();
        let ends = ends(panel);
        let is_named = may_have_name && !panel.y.label.is_empty();
        if is_named {
            let above = self.panels.last();
            let is_below_ticks = above.is_some_and(|above| !above.panel.x.is_hidden());
            self.height += if is_below_ticks { 24.0 } else { 14.0 };
        }
        let top = self.height;
        let labels = ends.len() as f64 * LABEL_LINE;
        let height = panel.height.max(labels);
        self.height += height;
        self.height += match panel.cells.len() {
            0 if panel.x.is_hidden() => 14.0,
            0 => 30.0,
            rows => FIRST_CELL + CELL * rows as f64 + 8.0,
        };
        self.panels.push(Placed {
            panel,
            left,
            top,
            width: right - left,
            height,
            x,
            y,
            ends,
            is_named,
        });
    }
}

/// Marks whose names stand beside the field.
fn ends(panel: &Panel) -> Vec<&Mark> {
    let mut ends: Vec<&Mark> = Vec::new();
    for mark in &panel.marks {
        let is_known = ends.iter().any(|other| other.legend == mark.legend);
        if !mark.legend.is_empty() && !is_known && mark.ending().is_some() {
            ends.push(mark);
        }
    }
    ends
}

/// Left end of a field: right of the labels of its axis.
fn left(panel: &Panel) -> f64 {
    if let Range::Rows(rows) = &panel.y.range {
        let widths = rows.iter().flat_map(|row| {
            let number = if row.number.is_empty() { 0.0 } else { NUMBER };
            [
                number + name_face(rows).width(&row.name),
                number + Face::Label.width(&row.detail),
            ]
        });
        return MARGIN + widths.fold(0.0, f64::max).min(LONGEST) + 2.0 * APART;
    }
    let ticks = y_ticks(panel, panel.scales().1, panel.height)
        .into_iter()
        .map(|(_, label)| Face::Label.width(&label));
    let cells = panel
        .cells
        .iter()
        .map(|row| Face::Label.width(&row.name) + first_half(panel, row));
    MARGIN + ticks.map(|px| px + APART).chain(cells).fold(0.0, f64::max)
}

/// Room for the left half of the first text of a row under the ticks.
fn first_half(panel: &Panel, row: &super::Cells) -> f64 {
    let (x, _) = panel.scales();
    let ticks = panel.x.ticks.as_deref().unwrap_or_default();
    let place = ticks.first().map_or(0.0, |(tick, _)| x.place(*tick));
    let half = row
        .texts
        .iter()
        .map(|text| Face::Label.width(text))
        .fold(0.0, f64::max)
        / 2.0;
    (half + APART - place * 400.0).max(0.0)
}

/// Face of the names of rows: those with a second line stand out.
pub(super) fn name_face(rows: &[super::RowName]) -> Face {
    if rows.iter().any(|row| !row.detail.is_empty()) {
        Face::Heading
    } else {
        Face::Name
    }
}

/// Right end of a field: where everything beside a mark has room.
fn right(panel: &Panel, left: f64) -> f64 {
    let mut right = RIGHT;
    let (x, _) = panel.scales();
    for mark in ends(panel) {
        let text = Face::Label.width(&mark.legend).min(LONGEST);
        right = right.min(RIGHT - 2.0 * APART - SWATCH - text);
    }
    if !panel.x.label.is_empty() && !panel.x.is_hidden() {
        right = right.min(RIGHT - APART - Face::Label.width(&panel.x.label));
    }
    for note in panel.marks.iter().flat_map(notes) {
        let place = x.place(note.at.0).max(0.01);
        if note.away[0] > 0.0 && place > 0.6 {
            let room = RIGHT - note.away[0] - note.face.width(&note.text) - left;
            right = right.min(left + room / place);
        }
    }
    right
}

/// Width of the sample of an area beside its name, and the distance to it.
pub(super) const SWATCH: f64 = 15.0;

/// Texts of a mark.
pub(super) fn notes(mark: &Mark) -> &[Note] {
    match &mark.shape {
        Shape::Notes(notes) => notes,
        _ => &[],
    }
}

/// Values that have a tick with their labels, and no more than these unless they are given.
pub(super) fn ticks(axis: &Axis, scale: Scale, most: usize) -> Vec<(f64, String)> {
    axis.ticks.clone().unwrap_or_else(|| {
        scale
            .ticks(most)
            .into_iter()
            .map(|tick| (tick, axis.format.label(tick)))
            .collect()
    })
}

/// Ticks of the vertical axis of a field of this height.
pub(super) fn y_ticks(panel: &Panel, scale: Scale, height: f64) -> Vec<(f64, String)> {
    let mut most = (2..=MOST_TICKS)
        .rev()
        .filter(|ticks| *ticks as f64 * TICK <= height);
    ticks(&panel.y, scale, most.next().unwrap_or(2))
}
