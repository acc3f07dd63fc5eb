//! The part of a run in which it went evenly, found in its seconds.
//!
//! # How
//!
//! 1. What cannot be steady is left out first: the warm-up, and at the end every second that was
//!    not over, or was not crawled in by all shards to its end.
//! 2. The settling at the start is found by MSER: of a series of `n` values, leave out the first
//!    `d` that minimise `S(d) / (n - d)^2`, where `S(d)` is the sum of the squared deviations of
//!    the rest from its own mean. That is the squared standard error of the rest's mean (but for a
//!    constant): leaving out what differs makes it smaller, leaving out what does not makes it
//!    larger. White, "An effective truncation heuristic for bias reduction in simulation output",
//!    Simulation 69 (1997). From a minute on the values are means of five seconds each, MSER-5:
//!    White, Cobb and Spratt, "A comparison of five steady-state truncation heuristics for
//!    simulation", WSC 2000, and Franklin and White, "Stationarity, autocorrelation and
//!    bias-reduction with MSER", WSC 2008; shorter runs are looked at by the second. Of the series
//!    looked at, the one that settles last decides.
//! 3. A series that still settles when half of it has gone by has not settled: the `d` found is
//!    then the last one allowed. That is the rule of the same authors.
//! 4. MSER looks for a start only. What is left must also stay as it is: wherever it is divided in
//!    two, with 15 % of it on either side at least, the means of the two parts may differ by 5 %,
//!    or by five standard errors. The division at which they differ most is the likeliest point of
//!    a lasting change: Quandt, "Tests of the hypothesis that a linear regression system obeys two
//!    separate regimes", JASA 55 (1960); the 15 % are those of Andrews, "Tests for parameter
//!    instability and structural change with unknown change point", Econometrica 61 (1993).
//!
//! The items of a second are the first series, the median time of its good answers the second,
//! where it is known.

use serde::{Deserialize, Serialize};

use super::ask::{end_s, warm_s};
use crate::run::report::Report;
use crawlmark_harness::units::RateShape;

/// The shortest stretch that is judged, s. Its half, ten values, is the least that a start is found
/// in.
pub const SHORTEST_S: u64 = 20;

/// From so many seconds on, a value is the mean of five of them.
const BATCHED_FROM_S: usize = 60;
const BATCH_S: usize = 5;

/// Parts that differ by no more than this part of the whole's mean are alike to any reader.
const ALIKE: f64 = 0.05;

/// Parts that differ by no more than so many standard errors may differ by chance, also where they
/// were divided because they differ most there, and where a second goes a little with the one
/// before.
const LIKELY: f64 = 5.0;

/// Least size of either side of a division, as a part of the whole, and in values.
const SIDE: f64 = 0.15;
const LEAST_SIDE: usize = 2;

/// The stretch that was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SteadyState {
    /// Its first second, from the common start.
    pub from_s: u64,
    /// The second after its last one.
    pub to_s: u64,
    /// Seconds that a value of the series is the mean of: 5 (MSER-5), or 1 in a run of less than a
    /// minute.
    pub batch_s: u64,
    /// Series that were examined, with the part of its start that MSER left out of each.
    pub series: Vec<SettledSeries>,
    /// Time left out at the end, s.
    pub end_left_out_s: u64,
    /// The choice in a sentence.
    pub sentence: String,
}

/// A series that settles.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SettledSeries {
    /// `items_per_s`, `service_p50` or `response_p50`.
    pub name: String,
    /// Time left out at its start, after the warm-up, s.
    pub left_out_s: u64,
}

/// Reason why there is no such stretch.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum NotSteady {
    /// Too little to judge by.
    #[error(
        "{whole_s} whole seconds between warm-up and end are too few: {SHORTEST_S} are needed; name a window with --from and --to"
    )]
    Short {
        /// Time available, s.
        whole_s: u64,
    },
    /// The load was meant to change.
    #[error(
        "the rate was planned to change ({0}): no part of the run is like the others; name a window with --from and --to"
    )]
    Planned(String),
    /// The series took too long to settle.
    #[error("{0} still changed when half of the run was over; name a window with --from and --to")]
    Settling(&'static str),
    /// The series did not stay at one level: where the two parts meet that differ most, s.
    #[error("{0} changed for good at {1} s; name a window with --from and --to")]
    Drifting(&'static str, u64),
    /// Nothing came of it.
    #[error(
        "no item ended in any of the whole seconds of the run, so there is nothing to measure; make a longer run"
    )]
    Nothing,
}

/// A series of seconds.
struct SecondSeries {
    name: &'static str,
    values: Vec<f64>,
}

/// Finds the steady part of a run.
///
/// # Errors
/// When it is too short to have one that can be told, or has none.
pub fn find(report: &Report) -> Result<SteadyState, NotSteady> {
    let plan = &report.plan.run;
    if let Some(shaped) = plan
        .shaped_rate()
        .filter(|shaped| shaped.shape != RateShape::Constant)
    {
        return Err(NotSteady::Planned(shaped.to_string()));
    }
    let start = warm_s(report);
    let rows_end = end_s(report);
    let end = end_of_all(report).min(rows_end);
    let whole_s = end.saturating_sub(start);
    if whole_s < SHORTEST_S {
        return Err(NotSteady::Short { whole_s });
    }
    let courses = courses(report, start, end);
    let batch = if usize::try_from(whole_s).unwrap_or(usize::MAX) < BATCHED_FROM_S {
        1
    } else {
        BATCH_S
    };
    let mut series = Vec::new();
    for course in &courses {
        let left_out = settle(&course.values, batch);
        let left_out = left_out.ok_or(NotSteady::Settling(words(course.name)))?;
        series.push(SettledSeries {
            name: course.name.to_owned(),
            left_out_s: left_out as u64,
        });
    }
    let left_out_s = series
        .iter()
        .map(|settled| settled.left_out_s)
        .max()
        .ok_or(NotSteady::Nothing)?;
    for course in &courses {
        let left_out = usize::try_from(left_out_s)
            .unwrap_or(usize::MAX)
            .min(course.values.len());
        if let Some(at) = lasting_change(&course.values[left_out..], batch) {
            let at_s = start + left_out_s + at as u64;
            return Err(NotSteady::Drifting(words(course.name), at_s));
        }
    }
    let from_s = start + left_out_s;
    let mut steady = SteadyState {
        from_s,
        to_s: end,
        batch_s: batch as u64,
        series,
        end_left_out_s: rows_end - end,
        sentence: String::new(),
    };
    steady.sentence = sentence(&steady, start);
    Ok(steady)
}

/// The end of the last second that all shards crawled in to its end.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "seconds of a run are positive and few"
)]
fn end_of_all(report: &Report) -> u64 {
    let planned = report.plan.run.duration;
    let mut end = planned.map_or(u64::MAX, |duration| duration.as_secs());
    for shard in &report.shards {
        // One that had more to do when the time was over crawled to the end, whenever its last
        // answer came.
        if !shard.ledger.has_more() || shard.fault.is_some() || report.interrupted {
            end = end.min(shard.totals.duration_s as u64);
        }
    }
    end
}

fn courses(report: &Report, start: u64, end: u64) -> Vec<SecondSeries> {
    let seconds = usize::try_from(end - start)
        .unwrap_or(0)
        .min(report.intervals.len());
    let (mut items, mut service, mut response) =
        (vec![0.0; seconds], vec![None; seconds], vec![None; seconds]);
    for row in report
        .intervals
        .iter()
        .filter(|row| (start..end).contains(&row.start_s))
    {
        let Some(at) = usize::try_from(row.start_s - start)
            .ok()
            .filter(|at| *at < seconds)
        else {
            continue;
        };
        (items[at], service[at], response[at]) = (
            row.items.saturating_sub(row.aborted) as f64,
            row.p50_us,
            row.response_p50_us,
        );
    }
    if items.iter().all(|items| *items == 0.0) {
        return Vec::new();
    }
    let mut courses = vec![SecondSeries {
        name: "items_per_s",
        values: items,
    }];
    // Where a second has too few answers for a median, there is no series of them.
    for (name, values) in [("response_p50", response), ("service_p50", service)] {
        if let Some(values) = values.into_iter().collect::<Option<Vec<f64>>>() {
            courses.push(SecondSeries { name, values });
            break;
        }
    }
    courses
}

/// Return the number of first values that MSER leaves out, in whole batches; none when it would
/// leave out half of them.
fn settle(values: &[f64], batch: usize) -> Option<usize> {
    let batches: Vec<f64> = values.chunks_exact(batch).map(mean).collect();
    let last_allowed = batches.len() / 2;
    let (mut best, mut least) = (0, f64::INFINITY);
    for left_out in 0..=last_allowed {
        let rest = &batches[left_out..];
        let (centre, n) = (mean(rest), rest.len() as f64);
        let error = squares(rest, centre) / (n * n);
        // What is no better by more than rounding leaves out nothing more.
        if error < least - 1e-12 * centre * centre {
            (best, least) = (left_out, error);
        }
    }
    (best < last_allowed).then_some(best * batch)
}

/// The division at which the parts differ by most standard errors, if that is more than chance and
/// readers allow.
fn lasting_change(values: &[f64], batch: usize) -> Option<usize> {
    let batches: Vec<f64> = values.chunks_exact(batch).map(mean).collect();
    let (n, whole) = (batches.len(), mean(&batches));
    let side = least_side(n);
    let (mut most, mut found) = (0.0, None);
    for at in side..=n.saturating_sub(side) {
        let (first, second) = batches.split_at(at);
        let (before, after) = (mean(first), mean(second));
        let apart = (before - after).abs();
        let squares = squares(first, before) + squares(second, after);
        let error = (squares / (n as f64 - 2.0).max(1.0)
            * (1.0 / first.len() as f64 + 1.0 / second.len() as f64))
            .sqrt();
        let errors = if error > 0.0 {
            apart / error
        } else {
            f64::INFINITY
        };
        if apart > ALIKE * whole.abs() && errors > LIKELY && errors > most {
            (most, found) = (errors, Some(at * batch));
        }
    }
    found
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a part of a length"
)]
fn least_side(n: usize) -> usize {
    ((n as f64 * SIDE).ceil() as usize).max(LEAST_SIDE)
}

fn squares(values: &[f64], centre: f64) -> f64 {
    values.iter().map(|value| (value - centre).powi(2)).sum()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// `steady from 7 s to 58 s: MSER left out 7 s at the start, and 2 s at the end are not whole`.
fn sentence(steady: &SteadyState, start: u64) -> String {
    let SteadyState {
        from_s,
        to_s,
        batch_s,
        end_left_out_s,
        ..
    } = steady;
    let method = if *batch_s > 1 { "MSER-5" } else { "MSER" };
    let left_out = from_s - start;
    let warmup = if start > 0 { " after the warm-up" } else { "" };
    format!(
        "steady from {from_s} s to {to_s} s: {method} left out {left_out} s at the start{warmup}, and {end_left_out_s} s at the end were \
         not crawled to their end by all shards"
    )
}

/// Name of a series in a sentence.
fn words(series: &str) -> &'static str {
    match series {
        "items_per_s" => "items per second",
        "service_p50" => "the median service time",
        _ => "the median response time",
    }
}

#[cfg(test)]
mod tests;
