//! The percentiles of the main series in milliseconds, in the text that `wrk2 --latency` prints and
//! that the plotter of `HdrHistogram` and other tools read.
//!
//! An attempt that was cut off, or lies beyond the histogram's bounds, counts as slower than all
//! that have a value: such attempts rank last, and the table ends where they begin instead of
//! ending with a greatest value. Lines that begin with `#` say so, and whether the measurement is
//! valid.

use std::fmt::Write;

use super::{ExportError, Format};
use crate::run::report::Report;

/// Rows in each halving of the distance to 100 %, as the others have it.
const TICKS_PER_HALF: u32 = 5;

const NS_PER_MS: f64 = 1e6;

/// The table.
pub(super) fn hgrm(report: &Report) -> Result<String, ExportError> {
    let series = report.main_series();
    let found = report
        .latency(series)
        .and_then(|latency| Some((latency, latency.distribution()?)));
    let Some((latency, distribution)) =
        found.filter(|(_, distribution)| !distribution.histogram().is_empty())
    else {
        return Err(ExportError::NoTimes(Format::Hgrm, series.name()));
    };
    let measured = distribution.histogram();
    let inside = measured.len();
    let missing = distribution.all().saturating_sub(inside);
    let mut ranked = measured.clone();
    // In the highest cell, where they rank above all that has a value.
    let _ = ranked.record_n(ranked.high().max(1), missing);
    let mut out = format!(
        "{:>12} {:>12} {:>12} {:>12}\n\n",
        "Value", "Percentile", "TotalCount", "1/(1-Percentile)"
    );
    let mut count = 0;
    let mut told = 0;
    for row in ranked.iter_quantiles(TICKS_PER_HALF) {
        count += row.count_since_last_iteration();
        let quantile = row.quantile_iterated_to();
        // The greatest value is there twice, as the others have it: at the first tick that it has,
        // and at 100 %.
        let is_again = told == inside && quantile < 1.0;
        if count <= inside && !is_again {
            write_row(&mut out, row.value_iterated_to(), quantile, count);
            told = count;
        }
    }
    if missing > 0 {
        // Where the last that has a value is, which is at no tick.
        write_row(
            &mut out,
            measured.max(),
            inside as f64 / distribution.all() as f64,
            inside,
        );
    }
    let mean = latency.mean_us.unwrap_or(0.0) / 1e3;
    let _ = writeln!(
        out,
        "#[Mean    = {mean:>12.3}, StdDeviation   = {:>12.3}]",
        measured.stdev() / NS_PER_MS
    );
    let max = latency.slowest_us().unwrap_or(0.0) / 1e3;
    let _ = writeln!(
        out,
        "#[Max     = {max:>12.3}, Total count    = {:>12}]",
        distribution.all()
    );
    let _ = writeln!(
        out,
        "#[Series  = {}, ms; validity = {}]",
        series.name(),
        report.validity.verdict.name()
    );
    if missing > 0 {
        let _ = writeln!(
            out,
            "#[CutOff  = {missing:>12} requests of the total count did not finish: the table ends below their percentiles, and Mean, \
             StdDeviation and Max leave them out]"
        );
    }
    Ok(out)
}

fn write_row(out: &mut String, ns: u64, quantile: f64, count: u64) {
    let value = ns as f64 / NS_PER_MS;
    let _ = writeln!(
        out,
        "{value:>12.3} {quantile:>12.6} {count:>12} {:>12.2}",
        1.0 / (1.0 - quantile)
    );
}
