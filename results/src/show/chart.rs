//! Description of a chart as plain data: panels, axes and marks, without a colour value or a pixel.
//!
//! The files of [`plot`](super::plot) turn a report or a study into a [`Chart`].
//!
//! | room | for |
//! |---|---|
//! | `scale` | its axes as coordinates of `plotters`, their ticks and labels |
//! | `layout` | a place for each panel, and for the words around it |
//! | `draw`, `axes` | marks, and what stands beside them, as elements of `plotters` |
//! | `lettering` | the width of a text, and room for it |
//! | `backend`, `svg` | a backend of `plotters` that writes SVG, and the document around it |
//! | `png` | the same over the bitmap backend of `plotters` |
//! | `palette` | the inks and dashes of each meaning |

mod axes;
mod backend;
mod draw;
mod layout;
mod lettering;
pub(super) mod palette;
mod png;
pub(super) mod scale;
mod svg;
#[cfg(test)]
mod tests;

pub(in crate::show) use self::palette::{RULES, inks};
pub use self::png::PngError;
use self::scale::Scale;
pub(in crate::show) use self::scale::{round_values, short};
use crate::show::text::capital;
use crate::show::visible;

/// A picture and its words.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The name of its file, without `.svg`.
    pub name: &'static str,
    /// Subject, for links and headings.
    pub title: &'static str,
    /// The answer in a sentence with its number: the title of the picture.
    pub answer: String,
    /// What is drawn, of how many, and the kind of the intervals.
    pub subtitle: String,
    /// Command, target, machine and date.
    pub source: String,
    /// Fields, from top to bottom.
    pub panels: Vec<Panel>,
}

/// A picture and what it says.
#[derive(Debug, Clone, PartialEq)]
pub struct Plot {
    /// The name of its file, without `.svg`.
    pub name: &'static str,
    /// Subject, for links and headings.
    pub title: &'static str,
    /// The answer, and what is drawn.
    pub caption: String,
    /// The picture: a whole SVG document, 720 wide.
    pub svg: String,
    /// The picture alone, for a page that has `RULES` and a colour for each class, and title and caption as text in
    /// elements with the IDs `NAME-title` and `NAME-caption`.
    pub figure: String,
    /// True if it has nothing to show; a page leaves it out.
    pub is_empty: bool,
    chart: Chart,
}

impl Plot {
    /// Draw a chart.
    pub(crate) fn of(chart: Chart) -> Self {
        Self {
            name: chart.name,
            title: chart.title,
            caption: visible(&chart.caption()).into_owned(),
            svg: chart.svg(),
            figure: chart.figure(),
            is_empty: chart.panels.is_empty(),
            chart,
        }
    }

    /// Return the picture as a PNG file, 1,440 pixels wide.
    ///
    /// # Errors
    /// When a shape cannot be drawn, or the pixels cannot be encoded.
    pub fn png(&self) -> Result<Vec<u8>, PngError> {
        self.chart.png()
    }
}

impl Chart {
    /// The answer, and what is drawn.
    fn caption(&self) -> String {
        [&self.answer, &self.subtitle]
            .into_iter()
            .filter(|part| !part.is_empty())
            .map(|part| capital(part))
            .collect::<Vec<_>>()
            .join(". ")
    }
}

/// A field with two axes, and what is drawn in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Horizontal axis.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Height of the field, CSS pixels.
    pub height: f64,
    /// The first one at the back.
    pub marks: Vec<Mark>,
    /// Rows of text under the ticks.
    pub cells: Vec<Cells>,
}

/// A row of text under the horizontal axis.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cells {
    /// Heading, at the left.
    pub name: String,
    /// A text under each tick.
    pub texts: Vec<String>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Of a vertical axis, the quantity, above the field; of a horizontal one, the unit, behind the
    /// last tick.
    pub label: String,
    /// Values that it shows.
    pub range: Range,
    /// Format of the labels of its ticks.
    pub format: Format,
    /// Values that have a tick, and their labels; round ones unless given.
    pub ticks: Option<Vec<(f64, String)>>,
}

/// Values that an axis shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Range {
    /// From 0 to a round value above all marks.
    FromZero,
    /// From 0 to a round value above this, whatever the marks are.
    UpTo(f64),
    /// From the first to the second.
    Between(f64, f64),
    /// By factors, between round values around all marks.
    Log,
    /// By factors, from the first to the second.
    LogBetween(f64, f64),
    /// By factors, from the first to the second with a margin, the wider on the left.
    LogAround(f64, f64),
    /// By factors, between powers of ten around the first and the second.
    Decades(f64, f64),
    /// Percentiles of so many samples by their nines.
    Nines(f64),
    /// Named rows, the first at the top; row `n` lies between `n` and `n + 1`.
    Rows(Vec<RowName>),
}

/// Name of a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowName {
    /// Number of the row; empty without one.
    pub number: String,
    /// Name of the row.
    pub name: String,
    /// A second line, smaller; empty without one.
    pub detail: String,
}

/// Format of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A number: `1,200`, `25k`.
    Number,
    /// A time, from microseconds: `5 ms`.
    Micros,
    /// A part: 0.5 is `50 %`.
    Percent,
    /// A change in percent: `+5 %`.
    Change,
    /// A percentile by the number of its nines: 2 is `99 %`.
    Nines,
}

/// Shapes of one meaning.
#[derive(Debug, Clone, PartialEq)]
pub struct Mark {
    /// Meaning, which decides the colour.
    pub role: Role,
    /// Pattern of its lines.
    pub dash: Dash,
    /// Width of its lines, CSS pixels; that of its role unless given.
    pub width: Option<f64>,
    /// Its name, which is written where it ends; nothing is written of a mark without one, nor of
    /// one with a name that the panel has already.
    pub legend: String,
    /// Shapes to draw.
    pub shape: Shape,
}

/// Meaning of a mark. Each has one colour in all charts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Good requests, or what was measured.
    Good,
    /// Requests for what does not exist.
    NotFound,
    /// Throttled requests, and the time that throttling took.
    Throttled,
    /// Failures, broken limits.
    Failed,
    /// Challenge pages.
    Challenged,
    /// Requests that were cut off.
    CutOff,
    /// Retries.
    Retried,
    /// Requested rates and allowed counts.
    Asked,
    /// A limit that was learnt or published.
    Limit,
    /// Limited by connections.
    Connections,
    /// Limited by the storing of results.
    Storage,
    /// Nothing to do.
    Idle,
    /// Time in the queue of this client.
    ClientQueue,
    /// Time for which a response lay unread in this client.
    ReadLate,
    /// Time in the network.
    Network,
    /// Time in the target.
    Target,
    /// Time in the target's handler.
    AtWork,
    /// Time in the target in front of its handler.
    AtRest,
    /// Median.
    P50,
    /// 99th percentile.
    P99,
    /// A law, an estimate or a threshold.
    Reference,
    /// One of several runs or curves.
    Run(usize),
    /// A level of a heat map, from 0 to 5.
    Level(usize),
    /// Paper around a line that crosses others.
    Casing,
    /// A part of the field to be read differently: warm-up, a band.
    Shade,
    /// A part of the field that an answer lies in.
    Highlight,
    /// A part of the field in which the target had asked to wait.
    Paused,
}

/// Pattern of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dash {
    /// Solid.
    Solid,
    /// Long dashes.
    Dashed,
    /// Dots.
    Dotted,
    /// Dashes and dots by turns.
    DashDot,
    /// Short dashes.
    Short,
    /// A dash and two dots by turns.
    DashDotDot,
    /// Very long dashes.
    Long,
    /// Wide gaps.
    Sparse,
}

/// Shapes to draw.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// Values that last from one place to another; a gap where there is none.
    Steps(Vec<Step>),
    /// Areas below such values, down to their bases.
    Areas(Vec<Step>),
    /// A line through points.
    Line(Vec<(f64, f64)>),
    /// Points, each with its interval where one is known.
    Dots(Vec<Dot>),
    /// Points that are known and do not count.
    Rings(Vec<Dot>),
    /// Points of which there are many, behind others.
    Specks(Vec<Dot>),
    /// Points that failed.
    Crosses(Vec<Dot>),
    /// Rectangles: bars or cells.
    Blocks(Vec<Block>),
    /// Thin bars that stand on the horizontal axis, by their ends.
    Columns(Vec<Dot>),
    /// Texts beside places.
    Notes(Vec<Note>),
    /// A part of the horizontal axis, over the height of the field.
    Band(f64, f64),
    /// A threshold on the vertical axis, over the width of the field.
    Across(f64),
    /// A threshold on the horizontal axis, over the height of the field.
    Upright(f64),
}

/// A value over a part of an axis; none where nothing is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Step {
    /// Start.
    pub from: f64,
    /// End.
    pub to: f64,
    /// Value between them.
    pub value: Option<f64>,
    /// Value that an area begins at: the sum of those below it.
    pub base: f64,
}

/// A point, with its vertical interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Its place.
    pub at: (f64, f64),
    /// Vertical interval around it.
    pub interval: Option<(f64, f64)>,
}

/// A rectangle between values of both axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Left and right.
    pub x: (f64, f64),
    /// Bottom and top; in rows, top and bottom.
    pub y: (f64, f64),
}

/// A text beside a place.
#[derive(Debug, Clone, PartialEq)]
pub struct Note {
    /// The place. A value beyond the axis is that of its end.
    pub at: (f64, f64),
    /// The text.
    pub text: String,
    /// Meaning, which decides the colour.
    pub role: Role,
    /// Size and weight.
    pub face: Face,
    /// From the place to the text, CSS pixels: its left end if the first is above 0, its right end
    /// if it is below, and its middle if it is 0; and down to its base line.
    pub away: [f64; 2],
}

/// Size and weight of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// Title of the picture.
    Title,
    /// Line below the title.
    Subtitle,
    /// An answer within the field.
    Strong,
    /// A name.
    Name,
    /// A name before another line.
    Heading,
    /// Value of a mark.
    Value,
    /// Everything else.
    Label,
    /// Last line.
    Source,
}

impl Axis {
    /// Return an axis with round ticks.
    pub(crate) fn new(label: impl Into<String>, range: Range, format: Format) -> Self {
        Self {
            label: label.into(),
            range,
            format,
            ticks: None,
        }
    }

    /// Return the axis with these ticks.
    pub(crate) fn ticks(self, ticks: Vec<(f64, String)>) -> Self {
        Self {
            ticks: Some(ticks),
            ..self
        }
    }

    /// Return the axis without ticks: it is drawn as a line.
    pub(crate) fn hidden(self) -> Self {
        self.ticks(Vec::new())
    }

    /// True if it has no labels.
    fn is_hidden(&self) -> bool {
        self.ticks.as_ref().is_some_and(Vec::is_empty)
    }
}

impl Panel {
    /// Return panels of one horizontal axis, which only the last one labels.
    pub(crate) fn below_each_other(mut panels: Vec<Self>) -> Vec<Self> {
        let last = panels.len().saturating_sub(1);
        for panel in &mut panels[..last] {
            panel.x = panel.x.clone().hidden();
        }
        panels
    }

    fn scales(&self) -> (Scale, Scale) {
        let (across, up): (Vec<_>, Vec<_>) = self
            .marks
            .iter()
            .flat_map(|mark| mark.shape.extent())
            .unzip();
        (
            Scale::of(&self.x.range, across.into_iter().flatten()),
            Scale::of(&self.y.range, up.into_iter().flatten()),
        )
    }
}

impl Mark {
    /// Return a mark in the usual pattern of its role.
    pub(crate) fn new(role: Role, legend: impl Into<String>, shape: Shape) -> Self {
        Self {
            role,
            dash: role.dash(),
            width: None,
            legend: legend.into(),
            shape,
        }
    }

    /// Return a mark of texts.
    pub(crate) fn notes(notes: Vec<Note>) -> Self {
        Self::new(Role::Reference, "", Shape::Notes(notes))
    }

    /// Return the mark with lines of this width, CSS pixels.
    pub(crate) fn wide(self, px: f64) -> Self {
        let width = Some(px);
        Self { width, ..self }
    }

    /// Return the mark in another pattern.
    pub(crate) fn dashed(self, dash: Dash) -> Self {
        Self { dash, ..self }
    }

    /// True if it shows anything.
    pub(crate) fn is_known(&self) -> bool {
        matches!(
            self.shape,
            Shape::Band(..) | Shape::Upright(_) | Shape::Notes(_)
        ) || self.shape.extent().iter().any(|(_, y)| y.is_some())
    }

    /// True if it shows a value above 0.
    pub(crate) fn is_above_zero(&self) -> bool {
        match &self.shape {
            Shape::Steps(steps) | Shape::Areas(steps) => {
                steps.iter().any(|step| step.value.is_some_and(|v| v > 0.0))
            }
            shape => shape
                .extent()
                .iter()
                .any(|(_, y)| y.is_some_and(|y| y > 0.0)),
        }
    }

    /// The place at which the mark ends, where its name stands; none of a mark that is named elsewhere.
    fn ending(&self) -> Option<(f64, f64)> {
        match &self.shape {
            Shape::Steps(steps) => {
                let last = steps.iter().rev().find(|step| step.value.is_some())?;
                Some((last.to, last.base + last.value?))
            }
            Shape::Areas(steps) => {
                let known = steps.iter().rev().find(|step| step.value.is_some());
                let last = known.or(steps.last())?;
                Some((last.to, last.base + last.value.unwrap_or(0.0) / 2.0))
            }
            Shape::Line(points) => points.last().copied(),
            Shape::Dots(dots) | Shape::Rings(dots) => dots.last().map(|dot| dot.at),
            _ => None,
        }
    }
}

/// A place on both axes.
const fn both(x: f64, y: f64) -> (Option<f64>, Option<f64>) {
    (Some(x), Some(y))
}

impl Shape {
    /// Places that the axes have to show.
    fn extent(&self) -> Vec<(Option<f64>, Option<f64>)> {
        match self {
            Self::Steps(steps) | Self::Areas(steps) => steps
                .iter()
                .filter_map(|step| Some(both(step.to, step.base + step.value?)))
                .collect(),
            Self::Line(points) => points.iter().map(|(x, y)| both(*x, *y)).collect(),
            Self::Dots(dots)
            | Self::Rings(dots)
            | Self::Specks(dots)
            | Self::Crosses(dots)
            | Self::Columns(dots) => dots
                .iter()
                .flat_map(
                    |Dot {
                         at: (x, y),
                         interval,
                     }| {
                        [
                            both(*x, *y),
                            both(*x, interval.map_or(*y, |(_, high)| high)),
                        ]
                    },
                )
                .collect(),
            Self::Blocks(blocks) => blocks
                .iter()
                .flat_map(|b| [both(b.x.0, b.y.0), both(b.x.1, b.y.1)])
                .collect(),
            Self::Across(y) => vec![(None, Some(*y))],
            Self::Upright(x) => vec![(Some(*x), None)],
            Self::Band(..) | Self::Notes(_) => Vec::new(),
        }
    }
}

impl Note {
    /// Return a text in quiet letters, so far away from a place.
    pub(crate) fn new(text: impl Into<String>, at: (f64, f64), away: [f64; 2]) -> Self {
        Self {
            at,
            text: text.into(),
            role: Role::Asked,
            face: Face::Label,
            away,
        }
    }

    /// Return the text as a value of this meaning.
    pub(crate) fn of(self, role: Role, face: Face) -> Self {
        Self { role, face, ..self }
    }
}

impl Dot {
    /// Return a point without an interval.
    pub(crate) const fn at(x: f64, y: f64) -> Self {
        Self {
            at: (x, y),
            interval: None,
        }
    }
}

impl Block {
    /// Return a bar of a row, between these parts of the row's height.
    pub(crate) fn row(row: usize, parts: [f64; 2], x: [f64; 2]) -> Self {
        let [top, bottom] = parts.map(|part| row as f64 + part);
        Self {
            x: x.into(),
            y: (top, bottom),
        }
    }
}

/// The least and the greatest of some values; infinite ones of none.
pub(crate) fn least_and_most(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold(
        (f64::INFINITY, f64::NEG_INFINITY),
        |(least, most), value| (least.min(value), most.max(value)),
    )
}
