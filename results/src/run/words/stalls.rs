//! Stalls of a target: seconds of which many answers took far longer than those of the others.

use super::times::{Clocked, figure};
use crate::run::report::{IntervalRow, Report, Spread};
use crate::show::text::micros;

/// Factor beyond the median from which on an answer is slow.
const FAR: f64 = 10.0;

/// Time from which on an answer is slow, µs: below that, nobody waits.
const SLOW_US: f64 = 100_000.0;

/// Part of the answers of a second that are slow in a stall.
const MANY: f64 = 0.01;

/// Part of the seconds that may have stalled: beyond it, the target is just slow.
const FEW: f64 = 0.25;

/// Stalls that are listed at most.
const LISTED: usize = 3;

/// Describe the stalls in a sentence; none of a run without any.
pub(super) fn stalls(report: &Report) -> Option<String> {
    let clocked = Clocked::of(report);
    let latency = clocked.latency()?;
    let slow_us = (latency.p50_us? * FAR).max(SLOW_US);
    let measured = |row: &&IntervalRow| row.start_s as f64 >= report.plan.run.warmup.as_secs_f64();
    let rows: Vec<&IntervalRow> = report.intervals.iter().filter(measured).collect();
    let stalled: Vec<u64> = rows.iter().filter(|row| is_stalled(row, slow_us)).map(|row| row.start_s).collect();
    if stalled.is_empty() || stalled.len() as f64 > rows.len() as f64 * FEW {
        return None;
    }
    // One that crosses the end of a second is in both.
    let starts: Vec<u64> = stalled.chunk_by(|a, b| a + 1 == *b).filter_map(|run| run.first().copied()).collect();
    let listed: Vec<String> = starts.iter().take(LISTED).map(|start| format!("{start} s")).collect();
    let more = starts.len().saturating_sub(LISTED);
    let at = match (&listed[..], more) {
        ([rest @ .., last], 0) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        (_, 0) => listed.join(", "),
        _ => format!("{} and {more} more times", listed.join(", ")),
    };
    let most = figure(latency, "max_us", latency.max_us)?;
    let what = match starts.len() {
        1 => format!("a stall of {most}"),
        several => format!("{several} stalls of up to {most}"),
    };
    let p99 =
        figure(latency, "p99_us", latency.p99_us).map_or_else(|| format!("max {most}"), |p99| format!("p99 {p99}"));
    Some(format!("{p99} (median {}): {what}, at {at}", micros(latency.p50_us?)))
}

fn is_stalled(row: &IntervalRow, slow_us: f64) -> bool {
    let Some(Spread { first, counts }) = &row.spread else { return false };
    let cells = (*first..).zip(counts);
    let slow: u64 = cells.filter(|(cell, _)| Spread::starts_us(*cell) >= slow_us).map(|(_, count)| count).sum();
    slow > 1 && slow as f64 >= counts.iter().sum::<u64>() as f64 * MANY
}
