//! The charts of a report and of each study, as SVG files that stand alone, follow the reader's
//! light or dark, and need no font of ours; and as PNG files, for what shows none.
//!
//! Each file describes a [`Chart`]; pure functions, called when a result is saved and when a page is
//! made of it. What was not measured is a gap, never a zero, and what is longer than the sheet is
//! wide is gathered into steps. A chart of nothing is not drawn.
//!
//! | room | for |
//! |---|---|
//! | `over_time`, `seconds` | charts of a run over time: a table, and its steps |
//! | `spectrum`, `cells`, `bars` | percentiles, heat map and shards, causes and budget of a run |
//! | [`overlay`] | several runs on one page |
//! | `pairs`, `history`, `scaling`, `capacity`, `climb`, `patterns` | studies: `ab`, `compare`, `scale`, `capacity`, `ladder`, `patterns` |
//! | `png` | PNG files |
//! | `../doc/page.js` | interaction on a page: values, zoom, keys |

mod bars;
mod capacity;
mod cells;
mod climb;
mod history;
mod over_time;
pub mod overlay;
mod pairs;
mod patterns;
mod png;
mod scaling;
mod seconds;
mod spectrum;

pub use self::capacity::capacity;
pub use self::climb::climb;
pub use self::history::history;
use self::over_time::OverTime;
pub use self::pairs::pairs;
pub use self::patterns::patterns;
pub use self::png::{CAN_DRAW_PNG, Ground, PngError, Rasterizer};
pub use self::scaling::scaling;
use crate::run::report::Report;
use crate::show::chart::{Chart, palette};
use crate::show::visible;

/// The folder of a result directory that holds them.
pub const FOLDER: &str = "plots";

/// A chart of a run: its name, and why a run may not have it.
type RunChart = (&'static str, fn(&Report) -> Option<Chart>, &'static str);

/// Every chart of a run, in reading order.
const CHARTS: [RunChart; 10] = [
    (
        "throughput",
        |it| over_time("throughput", it),
        "no second was reported",
    ),
    (
        "latency",
        |it| over_time("latency", it),
        "no second has a response",
    ),
    ("spectrum", spectrum::chart, "no request was timed"),
    ("heat", cells::heat, "no request succeeded"),
    (
        "in-flight",
        |it| over_time("in-flight", it),
        "no second was reported",
    ),
    ("shards", cells::shards, "no shard reported a second"),
    (
        "errors",
        |it| over_time("errors", it),
        "no errors, throttling or retries",
    ),
    ("causes", bars::causes, "no errors"),
    (
        "connections",
        |it| over_time("connections", it),
        "no second has a new connection",
    ),
    (
        "budget",
        bars::budget,
        "no rate limit whose use a shard reported",
    ),
];

fn over_time(name: &str, report: &Report) -> Option<Chart> {
    OverTime::named(name)?.chart(report)
}

/// A picture and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// The name of its file, without `.svg`.
    pub name: &'static str,
    /// Title of the plot.
    pub title: &'static str,
    /// Caption: the plot's figures in this run.
    pub caption: String,
    /// The picture: a whole SVG document, 640 wide.
    pub svg: String,
    /// The picture alone, for a page that has [`style_sheet`], and title and caption as text in
    /// elements with the IDs `NAME-title` and `NAME-caption`.
    pub figure: String,
    /// Values for the script of a page, as JSON; none of a picture of bars.
    pub data: Option<String>,
    /// True if it has nothing to show; a page leaves it out.
    pub is_empty: bool,
}

impl Plot {
    /// Paint a chart.
    pub(super) fn of(chart: &Chart) -> Self {
        Self {
            name: chart.name,
            title: chart.title,
            caption: visible(&chart.caption).into_owned(),
            svg: chart.svg(),
            figure: chart.figure(),
            data: chart.json(),
            is_empty: chart.panels.is_empty(),
        }
    }
}

/// Return the style sheet that a page with [figures](Plot::figure) has once: the colours as
/// `--paper`, `--text`, `--quiet`, `--grid` and by hue, light and dark, and the rules of the plots.
#[must_use]
pub fn style_sheet() -> String {
    palette::variables() + &palette::style_sheet()
}

/// Names of the plots that a report can have.
#[must_use]
pub fn names() -> [&'static str; 10] {
    CHARTS.map(|(name, ..)| name)
}

/// Every chart that the report has something for, as a picture, in reading order.
#[must_use]
pub fn all(report: &Report) -> Vec<Plot> {
    let plot = |(_, chart, _): RunChart| Some(Plot::of(&chart(report)?));
    CHARTS.into_iter().filter_map(plot).collect()
}

/// Reasons why plots are not among `plots`, in a sentence each.
#[must_use]
pub fn left_out(plots: &[Plot]) -> Vec<String> {
    let reason = |(name, _, why): RunChart| {
        let is_there = plots.iter().any(|plot| plot.name == name);
        (!is_there).then(|| format!("No plot of {name}: {why}."))
    };
    CHARTS.into_iter().filter_map(reason).collect()
}
