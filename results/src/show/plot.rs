//! The report as pictures: SVG files that stand alone, follow the reader's light or dark, and need no font of ours; and
//! PNG files, for what shows none.
//!
//! Pure functions from a [`Report`]; called when a result is saved and by whoever makes a page of it. What was not
//! measured is a gap, never a zero, and what is longer than the sheet is wide is gathered into steps that say what they
//! hold. Nothing here reads files or the clock.

mod bars;
mod budget;
mod canvas;
mod capacity;
mod chart;
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
mod palette;
mod panel;
mod png;
mod scale;
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
    /// The picture alone, for a page that has [`style_sheet`], and title and caption as text in elements with the IDs
    /// `NAME-title` and `NAME-caption`.
    pub figure: String,
}

/// Return the style sheet that a page with [figures](Plot::figure) has once: the colours as `--paper`, `--text`, `--quiet`,
/// `--grid` and by hue, light and dark, and the rules of the plots.
#[must_use]
pub fn style_sheet() -> String {
    palette::variables() + &palette::style_sheet()
}

/// Every plot that the report has something for, in the order in which they are read.
#[must_use]
pub fn all(report: &Report) -> Vec<Plot> {
    let times = [latency::plot(report), spectrum::plot(report), heat::plot(report)];
    let mut plots = vec![throughput::plot(report)];
    plots.extend(times.into_iter().flatten());
    plots.push(flight::plot(report));
    plots.extend(lanes::plot(report));
    plots.extend([errors::plot(report), connections::plot(report)]);
    plots.extend(budget::plot(report));
    plots
}

/// Reason why plots of latency are not among `plots`, in a sentence; none when all of them are.
#[must_use]
pub fn left_out(plots: &[Plot]) -> Option<&'static str> {
    let is_there = |name: &str| plots.iter().any(|plot| plot.name == name);
    match (is_there("heat"), is_there("latency")) {
        (false, _) => Some("No request succeeded, so there is no plot of latencies over time."),
        (true, false) => Some("Fewer than 20 requests in every second, so there is no plot of percentiles over time."),
        (true, true) => None,
    }
}

/// The list of plots for a summary in Markdown, with links to where a result directory holds them.
#[must_use]
pub fn markdown(plots: &[Plot]) -> String {
    let line = |Plot { name, title, caption, .. }: &Plot| format!("- [{title}]({FOLDER}/{name}.svg): {caption}\n");
    plots.iter().map(line).chain(left_out(plots).map(|why| format!("- {why}\n"))).collect()
}

/// `1 attempt`, `2 attempts`.
pub(crate) fn counted(count: u64, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {what}{plural}", crawlmark_harness::units::grouped(count))
}
