//! The charts of a report, as SVG files that stand alone, follow the reader's
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
//! | `png` | PNG files |
//! | `../doc/page.js` | interaction on a page: values, zoom, keys |

mod bars;
mod cells;
mod over_time;
pub mod overlay;
mod png;
mod seconds;
mod spectrum;

use self::over_time::OverTime;
pub use self::png::{CAN_DRAW_PNG, PngError, Rasterizer};
use crate::run::report::Report;
use crate::show::chart::Chart;
pub use crate::show::chart::{Ground, Plot, style_sheet};

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

/// Names of the plots that a report can have.
#[must_use]
pub fn names() -> [&'static str; 10] {
    CHARTS.map(|(name, ..)| name)
}

/// Every chart that the report has something for, as a picture, in reading order.
#[must_use]
pub fn all(report: &Report) -> Vec<Plot> {
    let charts = CHARTS.iter().filter_map(|(_, chart, _)| chart(report));
    charts.map(|chart| Plot::of(&chart)).collect()
}

/// Reasons why plots are not among `plots`, in a sentence each.
#[must_use]
pub fn left_out(plots: &[Plot]) -> Vec<String> {
    let is_there = |name: &str| plots.iter().any(|plot| plot.name == name);
    let absent = CHARTS.iter().filter(|(name, ..)| !is_there(name));
    absent
        .map(|(name, _, why)| format!("No plot of {name}: {why}."))
        .collect()
}
