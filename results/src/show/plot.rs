//! The charts of a report, as SVG files that stand alone, follow the reader's light or dark, and
//! need no font of ours.
//!
//! Each file describes a [`Chart`]; pure functions, called when a result is saved and when a page is
//! made of it. What was not measured is a gap, never a zero, and what is longer than the sheet is
//! wide is gathered into steps. A chart of nothing is not drawn.
//!
//! | room | for |
//! |---|---|
//! | `over_time`, `time` | pictures of the [panels](super::page) of a page, and their axis |
//! | `spectrum`, `cells` | percentiles, heat map and shards of a run |
//! | `sums` | all parts of a crawl while they go on |
//! | `answers`, `source` | the title of each picture, and its last line |

mod answers;
mod cells;
mod over_time;
mod source;
mod spectrum;
mod sums;
mod time;

use self::over_time::chart;
pub(crate) use self::source::{date, source};
pub use self::sums::sums;
use super::page::columns::{Columns, Most};
use super::page::panels::{self, Run};
use crate::run::report::Report;
use crate::show::chart::Chart;
pub use crate::show::chart::{Plot, PngError};

/// The folder of a result directory that holds them.
pub const FOLDER: &str = "plots";

/// Name of a chart of a run, and what makes it.
type RunChart = (&'static str, fn(&'static str, &Run<'_>) -> Option<Chart>);

/// Every chart of a run, in reading order.
const CHARTS: [RunChart; 8] = [
    ("throughput", |name, run| {
        let words = [name, "Throughput"];
        chart(words, answers::throughput, &[panels::throughput], run)
    }),
    ("latency", |name, run| {
        let words = [name, "Latency over time"];
        chart(words, answers::heat, &[panels::latency], run)
    }),
    ("split", |name, run| {
        let words = [name, "Where a request's time goes"];
        chart(words, answers::split, &[panels::split, panels::cpu], run)
    }),
    ("spectrum", |name, run| spectrum::chart(name, run.report)),
    ("in-flight", |name, run| {
        let words = [name, "Requests in flight, and their limit"];
        let rows = [panels::in_flight, panels::limits];
        chart(words, answers::in_flight, &rows, run)
    }),
    ("shards", cells::shards),
    ("errors", |name, run| {
        let words = [name, "Errors and retries"];
        chart(words, answers::errors, &[panels::errors], run)
    }),
    ("connections", |name, run| {
        let words = [name, "Connections opened"];
        chart(words, answers::connections, &[panels::connections], run)
    }),
];

/// Names of the plots that a report can have.
pub fn names() -> [&'static str; 8] {
    CHARTS.map(|(name, _)| name)
}

/// Every chart that the report has something for, as a picture, in reading order.
pub fn all(report: &Report) -> Vec<Plot> {
    let columns = Columns::at_most(report, Most::PICTURE);
    let run = Run {
        report,
        columns: &columns,
    };
    CHARTS
        .iter()
        .filter_map(|(name, chart)| chart(name, &run))
        .map(Plot::of)
        .collect()
}

/// Plots as PNG files, by their names in a result directory.
///
/// # Errors
/// When one cannot be drawn.
pub fn pngs(plots: &[Plot]) -> Result<Vec<(String, Vec<u8>)>, PngError> {
    plots
        .iter()
        .filter(|plot| !plot.is_empty)
        .map(|plot| Ok((format!("{FOLDER}/{}.png", plot.name), plot.png()?)))
        .collect()
}
