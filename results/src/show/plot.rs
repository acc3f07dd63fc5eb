//! The charts of a report, as SVG files that stand alone, follow the reader's light or dark, and
//! need no font of ours.
//!
//! Each file describes a [`Chart`]; pure functions, called when a result is saved and when a page is
//! made of it. What was not measured is a gap, never a zero, and what is longer than the sheet is
//! wide is gathered into steps. A chart of nothing is not drawn.
//!
//! | room | for |
//! |---|---|
//! | `over_time`, `seconds` | charts of a run over time: a table, and its steps |
//! | `course` | throughput and response times in the short steps of the course |
//! | `spectrum`, `cells` | percentiles, heat map and shards of a run |
//! | `answers`, `source` | the title of each picture, and its last line |

mod answers;
mod cells;
mod course;
mod over_time;
mod seconds;
mod source;
mod spectrum;

use self::over_time::OverTime;
pub(crate) use self::source::{date, source};
use crate::run::report::Report;
use crate::show::chart::Chart;
pub use crate::show::chart::{Plot, PngError};

/// The folder of a result directory that holds them.
pub const FOLDER: &str = "plots";

/// A chart of a run, with its name.
type RunChart = (&'static str, fn(&Report) -> Option<Chart>);

/// Every chart of a run, in reading order.
const CHARTS: [RunChart; 9] = [
    ("throughput", |it| {
        course::throughput(it).or_else(|| over_time("throughput", it))
    }),
    ("latency", |it| {
        course::latency(it).or_else(|| over_time("latency", it))
    }),
    ("split", |it| over_time("split", it)),
    ("spectrum", spectrum::chart),
    // The course has it in the picture of the latency.
    ("heat", |it| {
        cells::heat(it).filter(|_| course::latency(it).is_none())
    }),
    ("in-flight", |it| over_time("in-flight", it)),
    ("shards", cells::shards),
    ("errors", |it| over_time("errors", it)),
    ("connections", |it| over_time("connections", it)),
];

fn over_time(name: &str, report: &Report) -> Option<Chart> {
    OverTime::named(name)?.chart(report)
}

/// Names of the plots that a report can have.
pub fn names() -> [&'static str; 9] {
    CHARTS.map(|(name, _)| name)
}

/// Every chart that the report has something for, as a picture, in reading order.
pub fn all(report: &Report) -> Vec<Plot> {
    CHARTS
        .iter()
        .filter_map(|(_, chart)| chart(report))
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

/// The last line of the charts of a run.
fn source_of(report: &Report) -> String {
    let target = report.plan.run.target.clone();
    source(
        "run",
        [target],
        Some(&report.environment),
        &report.started_at,
    )
}
