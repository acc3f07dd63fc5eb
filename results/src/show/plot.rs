//! The charts of a report and of each study, as SVG files that stand alone, follow the reader's light or dark, and need no
//! font of ours; and as PNG files, for what shows none.
//!
//! Each file describes one [`Chart`]; pure functions, called when a result is saved and when a page is made of it. What was
//! not measured is a gap, never a zero, and what is longer than the sheet is wide is gathered into steps that say what they
//! hold. A chart of nothing is not drawn.

mod budget;
mod capacity;
mod climb;
mod connections;
mod costs;
mod errors;
mod flight;
mod heat;
mod lanes;
mod latency;
pub mod overlay;
mod pairs;
mod png;
mod scaling;
mod seconds;
mod spectrum;
mod throughput;

pub use self::capacity::capacity;
pub use self::climb::climb;
pub use self::costs::{Cost, costs};
pub use self::pairs::pairs;
pub use self::png::{Ground, PngError, Rasterizer};
pub use self::scaling::scaling;
use crate::run::report::Report;
use crate::show::chart::{Chart, palette};
pub(crate) use crate::show::text::counted;
use crate::show::visible;

/// The folder of a result directory that holds them.
pub const FOLDER: &str = "plots";

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
    /// The picture alone, in two widths, for a page that has [`style_sheet`], and title and caption as text in elements with
    /// the IDs `NAME-title` and `NAME-caption`.
    pub figure: String,
}

impl Plot {
    /// Paint a chart.
    pub(super) fn of(chart: &Chart) -> Self {
        let Chart { name, title, caption, .. } = chart;
        Self { name, title, caption: visible(caption).into_owned(), svg: chart.svg(), figure: chart.figure() }
    }
}

/// Return the style sheet that a page with [figures](Plot::figure) has once: the colours as `--paper`, `--text`, `--quiet`,
/// `--grid` and by hue, light and dark, and the rules of the plots.
#[must_use]
pub fn style_sheet() -> String {
    palette::variables() + &palette::style_sheet() + palette::WIDTHS
}

/// Every chart that the report has something for, in the order in which they are read.
#[must_use]
pub fn charts(report: &Report) -> Vec<Chart> {
    let charts = [
        throughput::chart(report),
        latency::chart(report),
        spectrum::chart(report),
        heat::chart(report),
        flight::chart(report),
        lanes::chart(report),
        errors::chart(report),
        connections::chart(report),
        budget::chart(report),
    ];
    charts.into_iter().flatten().collect()
}

/// Every chart that the report has something for, as a picture.
#[must_use]
pub fn all(report: &Report) -> Vec<Plot> {
    charts(report).iter().map(Plot::of).collect()
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
        (false, _) => out.push("No request succeeded, so there is no plot of latencies over time.".to_owned()),
        (true, false) => {
            out.push(
                "Fewer than 20 successful responses in every second, so there is no plot of percentiles over time."
                    .to_owned(),
            );
        }
        (true, true) => {}
    }
    out.extend(errors::none(report).filter(|_| !has("errors")).map(|none| format!("{none}.")));
    if !has("connections") {
        out.push("No second with a new connection was reported, so there is no plot of them.".to_owned());
    }
    if report.budget.is_some() && !has("budget") {
        out.push("No shard reported how much of the rate limit it used, so there is no audit of it.".to_owned());
    }
    out
}
