//! Description of a chart as plain data: panels, axes and marks, without a size, a colour value or
//! a pixel.
//!
//! The files of [`plot`](super::plot) turn a report or a study into a [`Chart`]; `svg` paints it at
//! any width, and `data` hands it to the script of a page.

mod backend;
mod data;
pub(super) mod palette;
pub(super) mod scale;
mod svg;

use serde::Serialize;

/// A picture and its words.
#[derive(Debug, Clone, PartialEq)]
pub struct Chart {
    /// The name of its file, without `.svg`.
    pub name: &'static str,
    /// Title of the plot.
    pub title: &'static str,
    /// Caption: the plot's finding, in a sentence.
    pub caption: String,
    /// Fields, from top to bottom.
    pub panels: Vec<Panel>,
}

/// A field with two axes, and what is drawn in it.
#[derive(Debug, Clone, PartialEq)]
pub struct Panel {
    /// Horizontal axis. Without a label it is that of the next panel.
    pub x: Axis,
    /// Vertical axis.
    pub y: Axis,
    /// Height of the field, CSS pixels.
    pub height: f64,
    /// The first one at the back.
    pub marks: Vec<Mark>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    /// Quantity and unit.
    pub label: String,
    /// Values that it shows.
    pub range: Range,
    /// Format of the labels of its ticks.
    pub format: Format,
    /// Values that have a tick.
    pub ticks: Ticks,
}

/// Values that an axis shows.
#[derive(Debug, Clone, PartialEq)]
pub enum Range {
    /// From 0 to a round value above all marks.
    FromZero,
    /// From the first to the second.
    Between(f64, f64),
    /// By factors, between round values around all marks.
    Log,
    /// By factors, from the first to the second.
    LogBetween(f64, f64),
    /// Named rows, the first at the top; row `n` lies between `n` and `n + 1`.
    Rows {
        /// Name of each row.
        names: Vec<String>,
        /// Row whose name stands out.
        emphasis: Option<usize>,
    },
}

/// Values that have a tick.
#[derive(Debug, Clone, PartialEq)]
pub enum Ticks {
    /// Round values.
    Round,
    /// No value.
    None,
    /// Listed values, as far as their labels fit.
    At(Vec<f64>),
}

/// Format of values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Format {
    /// A number: `1,200`, `25k`.
    Number,
    /// A rate: `25k/s`.
    PerSecond,
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
    /// Text of its key; a mark without one is explained by another.
    pub legend: Option<String>,
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
    /// Limited by the target's quota.
    Quota,
    /// Limited by the storing of results.
    Storage,
    /// Nothing to do.
    Idle,
    /// Median.
    P50,
    /// 90th percentile.
    P90,
    /// 99th percentile.
    P99,
    /// Maximum.
    Max,
    /// A law, an estimate or a threshold.
    Reference,
    /// One of several runs or curves.
    Run(usize),
    /// A level of a heat map, from 0 to 5.
    Level(usize),
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
    /// Areas below such values, each on top of the area of the mark before it.
    Areas {
        /// Heights of the areas.
        steps: Vec<Step>,
        /// Values that they begin at, one for each step.
        base: Vec<f64>,
    },
    /// A line through points.
    Line(Vec<(f64, f64)>),
    /// Points, each with its interval where one is known.
    Dots(Vec<Dot>),
    /// Rectangles: bars or cells.
    Blocks(Vec<Block>),
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
}

/// A point.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Dot {
    /// Its place.
    pub at: (f64, f64),
    /// Vertical interval around it.
    pub interval: Option<(f64, f64)>,
    /// True if it is there and does not count.
    pub hollow: bool,
}

/// A rectangle between values of both axes.
#[derive(Debug, Clone, PartialEq)]
pub struct Block {
    /// Left and right.
    pub x: (f64, f64),
    /// Bottom and top; in rows, top and bottom.
    pub y: (f64, f64),
    /// Written behind its right end.
    pub text: String,
}

impl Axis {
    /// Return an axis with round ticks.
    pub(super) fn new(label: impl Into<String>, range: Range, format: Format) -> Self {
        Self {
            label: label.into(),
            range,
            format,
            ticks: Ticks::Round,
        }
    }

    /// Return a vertical axis of named rows.
    pub(super) fn rows(label: impl Into<String>, names: Vec<String>) -> Self {
        Self::new(
            label,
            Range::Rows {
                names,
                emphasis: None,
            },
            Format::Number,
        )
    }

    /// Return the axis with these ticks.
    pub(super) fn ticks(self, ticks: Ticks) -> Self {
        Self { ticks, ..self }
    }

    /// Return the axis without label and ticks.
    pub(super) fn hidden(range: Range) -> Self {
        Self::new("", range, Format::Number).ticks(Ticks::None)
    }
}

impl Mark {
    /// Return a mark in the usual pattern of its role.
    pub(super) fn new(role: Role, legend: impl Into<String>, shape: Shape) -> Self {
        let legend = Some(legend.into()).filter(|legend| !legend.is_empty());
        Self {
            role,
            dash: role.dash(),
            legend,
            shape,
        }
    }

    /// Return the mark in another pattern.
    pub(super) fn dashed(self, dash: Dash) -> Self {
        Self { dash, ..self }
    }

    /// True if it shows anything.
    pub(super) fn is_known(&self) -> bool {
        self.shape.ys().next().is_some()
    }

    /// True if it shows a value above 0.
    pub(super) fn is_above_zero(&self) -> bool {
        match &self.shape {
            Shape::Areas { steps, .. } => steps
                .iter()
                .any(|step| step.value.is_some_and(|value| value > 0.0)),
            shape => shape.ys().any(|y| y > 0.0),
        }
    }

    /// Return areas on top of each other, the first at the bottom.
    pub(super) fn stack<const N: usize>(layers: [(Role, &str, Vec<Step>); N]) -> [Self; N] {
        let mut tops: Vec<f64> = Vec::new();
        layers.map(|(role, legend, steps)| {
            tops.resize(steps.len(), 0.0);
            let base = tops.clone();
            tops.iter_mut()
                .zip(&steps)
                .for_each(|(top, step)| *top += step.value.unwrap_or(0.0));
            Self::new(role, legend, Shape::Areas { steps, base })
        })
    }
}

impl Shape {
    /// The values on the vertical axis.
    fn ys(&self) -> impl Iterator<Item = f64> + '_ {
        self.extent().into_iter().filter_map(|(_, y)| y)
    }

    /// The values on either axis, by shape.
    fn extent(&self) -> Vec<(Option<f64>, Option<f64>)> {
        let both = |x: f64, y: f64| (Some(x), Some(y));
        match self {
            Self::Steps(steps) => steps
                .iter()
                .filter_map(|step| Some(both(step.to, step.value?)))
                .collect(),
            Self::Areas { steps, base } => {
                let top = |(step, base): (&Step, &f64)| Some(both(step.to, base + step.value?));
                steps.iter().zip(base).filter_map(top).collect()
            }
            Self::Line(points) => points.iter().map(|(x, y)| both(*x, *y)).collect(),
            Self::Dots(dots) => {
                let ends = |dot: &Dot| [dot.at.1, dot.interval.map_or(dot.at.1, |(_, high)| high)];
                dots.iter()
                    .flat_map(|dot| ends(dot).map(|y| both(dot.at.0, y)))
                    .collect()
            }
            Self::Blocks(blocks) => blocks
                .iter()
                .flat_map(|b| [both(b.x.0, b.y.0), both(b.x.1, b.y.1)])
                .collect(),
            Self::Across(y) => vec![(None, Some(*y))],
            Self::Upright(x) => vec![(Some(*x), None)],
            Self::Band(..) => Vec::new(),
        }
    }
}

impl Block {
    /// Return a bar of a row, from 0, between these parts of the row's height.
    pub(super) fn bar(row: usize, parts: (f64, f64), value: f64, text: impl Into<String>) -> Self {
        Self {
            x: (0.0, value),
            y: (row as f64 + parts.0, row as f64 + parts.1),
            text: text.into(),
        }
    }
}

/// Parts of a row's height that a single bar takes.
pub(super) const BAR: (f64, f64) = (0.18, 0.82);

/// Height of a row of bars, CSS pixels.
pub(super) const ROW: f64 = 26.0;
