//! The charts of a report and of each study, as SVG files that stand alone, follow the reader's
//! light or dark, and need no font of ours; and as PNG files, for what shows none.
//!
//! Each file describes one [`Chart`]; pure functions, called when a result is saved and when a page
//! is made of it. What was not measured is a gap, never a zero, and what is longer than the sheet
//! is wide is gathered into steps that say what they hold. A chart of nothing is not drawn.
//!
//! | room | for |
//! |---|---|
//! | `throughput`, `latency`, `spectrum`, `heat` | requests and times of a run |
//! | `flight`, `lanes`, `connections`, `budget` | requests in flight, shards, connections, rate budget |
//! | `errors`, `events` | errors and their causes; stalls, pauses and other marks in plots over time |
//! | [`overlay`] | several runs on one page |
//! | `pairs`, `history`, `scaling`, `capacity`, `climb`, `patterns` | studies: `ab`, `compare`, `scale`, `capacity`, `ladder`, `patterns` |
//! | `seconds` | steps of plots over time |
//! | `png` | PNG files |
//! | `../doc/page.js` | interaction on a page: values, zoom, legends |

mod budget;
mod capacity;
mod climb;
mod connections;
mod errors;
mod events;
mod flight;
mod heat;
mod history;
mod lanes;
mod latency;
pub mod overlay;
mod pairs;
mod patterns;
mod png;
mod scaling;
mod seconds;
mod spectrum;
mod throughput;

pub use self::capacity::capacity;
pub use self::climb::climb;
pub use self::history::history;
pub use self::pairs::pairs;
pub use self::patterns::patterns;
pub use self::png::{CAN_DRAW_PNG, Ground, PngError, Rasterizer};
pub use self::scaling::scaling;
use self::seconds::{PAGE, PICTURE, Seconds};
use crate::run::report::Report;
use crate::show::chart::{Chart, palette};
pub(crate) use crate::show::text::counted;
use crate::show::visible;

/// The folder of a result directory that holds them.
pub const FOLDER: &str = "plots";

/// Names of the plots that a report can have.
pub const NAMES: [&str; 10] = [
    "throughput",
    "latency",
    "spectrum",
    "heat",
    "in-flight",
    "shards",
    "errors",
    "causes",
    "connections",
    "budget",
];

/// A picture and what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plot {
    /// The name of its file, without `.svg`.
    pub name: &'static str,
    /// Title of the plot.
    pub title: &'static str,
    /// Caption: the plot's finding in this run, in a sentence.
    pub caption: String,
    /// The picture: a whole SVG document, 640 wide.
    pub svg: String,
    /// The picture alone, in two widths, for a page that has [`style_sheet`], and title and caption
    /// as text in elements with the IDs `NAME-title` and `NAME-caption`.
    pub figure: String,
    /// Description for the script of a page, as JSON; none of a picture of bars.
    pub data: Option<String>,
    /// True if it has nothing to show; a page leaves it out.
    pub is_empty: bool,
}

impl Plot {
    /// Paint a chart.
    pub(super) fn of(chart: &Chart) -> Self {
        Self::over_time(chart, None)
    }

    /// Paint a chart whose lines have few steps, with the same chart of more steps for the page's
    /// script if there are more.
    fn over_time(picture: &Chart, page: Option<&Chart>) -> Self {
        let Chart {
            name,
            title,
            caption,
            ..
        } = picture;
        let (caption, data) = (
            visible(caption).into_owned(),
            page.unwrap_or(picture).json(),
        );
        Self {
            name,
            title,
            caption,
            svg: picture.svg(),
            figure: picture.figure(),
            data,
            is_empty: picture.panels.is_empty(),
        }
    }
}

/// Return the style sheet that a page with [figures](Plot::figure) has once: the colours as
/// `--paper`, `--text`, `--quiet`, `--grid` and by hue, light and dark, and the rules of the plots.
#[must_use]
pub fn style_sheet() -> String {
    palette::variables() + &palette::style_sheet() + palette::WIDTHS
}

/// Every chart that the report has something for, as a picture, in reading order.
#[must_use]
pub fn all(report: &Report) -> Vec<Plot> {
    let is_long = [
        Seconds::of(report, PICTURE),
        Seconds::finest(report, PICTURE),
    ]
    .iter()
    .any(|steps| steps.width > 1);
    let over_time = |chart: fn(&Report, u64) -> Option<Chart>| {
        let page = if is_long { chart(report, PAGE) } else { None };
        Some(Plot::over_time(&chart(report, PICTURE)?, page.as_ref()))
    };
    let plot = |chart: Option<Chart>| chart.as_ref().map(Plot::of);
    let plots = [
        over_time(throughput::chart),
        over_time(latency::chart),
        plot(spectrum::chart(report)),
        plot(heat::chart(report)),
        over_time(flight::chart),
        plot(lanes::chart(report)),
        over_time(errors::chart),
        plot(errors::causes(report)),
        over_time(connections::chart),
        plot(budget::chart(report)),
    ];
    plots.into_iter().flatten().collect()
}

/// Reasons why plots are not among `plots`, in a sentence each.
#[must_use]
pub fn left_out(report: &Report, plots: &[Plot]) -> Vec<String> {
    let has = |name: &str| plots.iter().any(|plot| plot.name == name);
    let mut out: Vec<String> = Vec::new();
    if !has("throughput") {
        out.push("No second was reported, so there are no plots over time.".to_owned());
    }
    match (has("heat"), has("latency")) {
        (false, _) => {
            out.push(
                "No request succeeded, so there is no plot of latencies over time.".to_owned(),
            );
        }
        (true, false) => {
            out.push(
                "Fewer than 20 successful responses in every second, so there is no plot of percentiles over time."
                    .to_owned(),
            );
        }
        (true, true) => {}
    }
    out.extend(
        errors::none(report)
            .filter(|_| !has("errors"))
            .map(|none| format!("{none}.")),
    );
    if !has("connections") {
        out.push(
            "No second with a new connection was reported, so there is no plot of them.".to_owned(),
        );
    }
    if report.budget.is_some() && !has("budget") {
        out.push(
            "No shard reported how much of the rate limit it used, so there is no audit of it."
                .to_owned(),
        );
    }
    out
}
