//! A part of a run, from one second to another: counts from the seconds of its report, times from
//! its log.
//!
//! Called by `report`. Everything that is known of the whole run alone is left out, so that no
//! figure of the whole stands beside those of a part.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::report::{
    BindingReport, Detail, IntervalRow, Latency, Ledger, Report, Totals, Validity, share,
};
use super::result_dir::{LOG, LoggedTimes, ReadError, files_of, read_log};
use super::words;
use crate::show::plot;
use crawlmark_harness::stats::{Bounds, Exact, SecondCounts, Series, Timing};

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.cut/1";

/// The name of its file.
const FILE: &str = "cut.json";

/// Reason why a part cannot be cut out.
#[derive(Debug, thiserror::Error)]
pub enum CutError {
    /// No second is in it.
    #[error("--from {0} s is not before --to {1} s: name a later end")]
    Empty(u64, u64),
    /// It is longer than the run.
    #[error("--to {0} s is after the end of the run, which has {1} seconds: name an earlier one")]
    Beyond(u64, u64),
    /// The log cannot be read, or is of another run.
    #[error(transparent)]
    Log(#[from] ReadError),
    /// The part has no JSON.
    #[error("write cut.json: {0}")]
    Json(#[from] serde_json::Error),
}

/// A part of a run, as it is saved. Fields have the names and the meaning that they have in a
/// result.
#[derive(Debug, Serialize)]
pub struct Cut<'a> {
    schema: &'static str,
    crawlmark_version: &'static str,
    run_id: &'a str,
    name: &'a str,
    /// Start of the whole run.
    started_at: &'a str,
    /// The first second.
    pub(super) from_s: u64,
    /// The second after the last one.
    pub(super) to_s: u64,
    /// Duration of the whole run.
    pub(super) run_duration_s: f64,
    target: &'a str,
    /// Counts of what ended in it.
    pub(super) totals: CutTotals,
    binding: BindingReport,
    /// Good responses of its requests whose times are not in the log: beyond the histogram, or of a
    /// shard that died. They may have taken any time.
    pub(super) not_timed: u64,
    /// Times of what was scheduled in it.
    latency: BTreeMap<String, Latency>,
    intervals: &'a [IntervalRow],
}

/// Counts of what ended in a part, and rates.
#[derive(Debug, Serialize)]
pub(super) struct CutTotals {
    #[serde(flatten)]
    pub(super) counts: SecondCounts,
    /// Length of the part: less than its seconds where the run ended before.
    pub(super) duration_s: f64,
    /// Attempts that ended by themselves.
    pub(super) attempts_per_s: f64,
    /// Items that ended by themselves.
    items_per_s: f64,
    /// Good responses.
    pub(super) ok_per_s: f64,
}

/// The seconds of a part of `report`; the whole run where an end is not named.
///
/// # Errors
/// When there is none, or it ends after the run.
pub fn part(report: &Report, from: Option<u64>, to: Option<u64>) -> Result<Range<u64>, CutError> {
    let end = report.intervals.last().map_or(0, |row| row.start_s + 1);
    let (from, to) = (from.unwrap_or(0), to.unwrap_or(end));
    if from >= to {
        return Err(CutError::Empty(from, to));
    }
    if to > end {
        return Err(CutError::Beyond(to, end));
    }
    Ok(from..to)
}

/// The files of a part of `report`, whose log is in `directory`: their names, and what they hold.
///
/// # Errors
/// When the log cannot be read, or is not that of the report.
pub fn cut(
    report: &Report,
    directory: &Path,
    part: &Range<u64>,
) -> Result<Vec<(String, String)>, CutError> {
    let all = &report.intervals;
    let [first, last] = [part.start, part.end].map(|s| all.partition_point(|row| row.start_s < s));
    let rows = &all[first..last];
    let (latency, not_timed) = times(report, read_log(directory, bounds(report), part)?, rows)?;
    let cut = Cut {
        schema: SCHEMA,
        crawlmark_version: env!("CARGO_PKG_VERSION"),
        run_id: &report.run_id,
        name: &report.name,
        started_at: &report.started_at,
        from_s: part.start,
        to_s: part.end,
        run_duration_s: report.totals.duration_s,
        target: &report.plan.run.target,
        totals: CutTotals::of(rows, part, report.totals.duration_s),
        binding: BindingReport::mean(rows.iter().map(|row| &row.binding)),
        not_timed,
        latency,
        intervals: rows,
    };
    let shown = cut.report(report);
    let plots = plot::all(&shown);
    let doc = words::part(&cut, &shown, &plots);
    let mut files = vec![(FILE.to_owned(), serde_json::to_string_pretty(&cut)? + "\n")];
    files.extend(files_of(&shown, &doc, plots));
    Ok(files)
}

fn bounds(report: &Report) -> Bounds {
    Bounds::for_timeout(report.plan.run.timeout)
}

/// The times of these seconds, and how many good responses have none in the log.
fn times(
    report: &Report,
    mut logged: LoggedTimes,
    rows: &[IntervalRow],
) -> Result<(BTreeMap<String, Latency>, u64), ReadError> {
    let bounds = bounds(report);
    let good = rows
        .iter()
        .map(|row| row.scheduled_good)
        .sum::<Option<u64>>();
    let (mut latency, mut not_timed) = (BTreeMap::new(), 0);
    for series in Series::of(report.plan.run.arrivals)[1] {
        let [times, mut ages] = logged
            .remove(series)
            .unwrap_or_else(|| [bounds.histogram(), bounds.histogram()]);
        if let (Series::ServiceOk | Series::ResponseOk, Some(counted)) = (series, good) {
            let logged = times.len();
            let missing = counted.checked_sub(logged);
            not_timed = missing.ok_or_else(|| ReadError::Bounds {
                path: LOG.into(),
                wrong: format!(
                    "it has {logged} good responses of these seconds, and result.json {counted}"
                ),
            })?;
            // Of any age: percentiles that they could change are then lower bounds.
            let _ = ages.record_n(0, not_timed);
        }
        let cut_off = (!ages.is_empty()).then_some(&ages);
        let timing = Timing::from_parts(bounds, &times, cut_off, exact(&times, &ages));
        let told = Latency::of_timing(&timing, Detail::Histogram);
        latency.insert(series.name().to_owned(), told);
    }
    if let Some([times, none]) = logged.remove(&Series::DropAge) {
        let timing = Timing::from_parts(bounds, &times, None, exact(&times, &none));
        let told = Latency::of_timing(&timing, Detail::Histogram);
        latency.insert(Series::DropAge.name().to_owned(), told);
    }
    Ok((latency, not_timed))
}

/// The sum of a histogram, of which each value counts as this one of its cell.
fn sum_of(histogram: &Histogram<u64>, value: fn(&Histogram<u64>, u64) -> u64) -> u128 {
    let mut sum = 0;
    for cell in histogram.iter_recorded() {
        let each = value(histogram, cell.value_iterated_to());
        sum += u128::from(each) * u128::from(cell.count_since_last_iteration());
    }
    sum
}

/// The least age of a cell, ns. Those of the topmost one are not known: they were beyond the bounds,
/// or what they are of was dropped.
fn least_age(ages: &Histogram<u64>, value: u64) -> u64 {
    if ages.equivalent(value, ages.high()) {
        0
    } else {
        ages.lowest_equivalent(value)
    }
}

/// The figures of times by their cells, so within 0.1 %.
fn exact(times: &Histogram<u64>, ages: &Histogram<u64>) -> Exact {
    Exact {
        count: times.len(),
        min_ns: if times.is_empty() {
            u64::MAX
        } else {
            times.min()
        },
        max_ns: times.max(),
        sum_ns: sum_of(times, Histogram::median_equivalent),
        overflow: 0,
        censored: ages.len(),
        oldest_ns: ages
            .iter_recorded()
            .map(|cell| least_age(ages, cell.value_iterated_to()))
            .max()
            .unwrap_or(0),
        // The least that they can add up to.
        ages_ns: sum_of(ages, least_age),
    }
}

impl CutTotals {
    fn of(rows: &[IntervalRow], part: &Range<u64>, run_s: f64) -> Self {
        let mut counts = SecondCounts::default();
        for row in rows {
            counts.merge(&row.counts);
        }
        // The last second of a run ends with its last response.
        let duration_s = (run_s.min(part.end as f64) - part.start as f64).max(0.0);
        Self {
            duration_s,
            attempts_per_s: share(
                counts.attempts.saturating_sub(counts.aborted) as f64,
                duration_s,
            ),
            items_per_s: share(
                counts.items.saturating_sub(counts.aborted) as f64,
                duration_s,
            ),
            ok_per_s: share(counts.ok as f64, duration_s),
            counts,
        }
    }
}

impl Cut<'_> {
    /// A report of the part alone, for plots and tables: without all that is known of the whole run
    /// only.
    fn report(&self, whole: &Report) -> Report {
        let mut report = whole.clone();
        report.plan.run.warmup = Duration::ZERO;
        report.intervals = self.intervals.to_vec();
        let course = whole.course.as_ref();
        report.course = course.map(|course| course.part(self.from_s, self.to_s));
        report.latency.clone_from(&self.latency);
        report.totals = Totals {
            duration_s: self.run_duration_s.min(self.to_s as f64),
            ..Totals::default()
        };
        let CutTotals { counts, .. } = &self.totals;
        report.totals.attempts = counts.attempts;
        report.totals.throttled = counts.throttled;
        report.totals.retries = counts.retries;
        report.totals.attempts_per_s = self.totals.attempts_per_s;
        report.totals.ok_per_s = self.totals.ok_per_s;
        let in_flight = report.course.iter().flat_map(|course| &course.in_flight);
        report.totals.peak_in_flight = in_flight.copied().max().unwrap_or(0);
        report.ledger = Ledger::default();
        report.ledger.items.ok = counts.ok;
        report.ledger.items.not_found = counts.not_found;
        report.binding = self.binding;
        report.gates = Vec::new();
        report.shards = Vec::new();
        report.slowest = Vec::new();
        report.interrupted = false;
        report.findings = Vec::new();
        report.validity = Validity::default();
        report.split = None;
        report
    }
}
