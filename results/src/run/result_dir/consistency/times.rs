//! Distributions: figures in order, those of the histogram, and those of the shards.

use std::collections::BTreeMap;

use super::{at_most, close, close_to, equal, is_whole};
use crate::run::report::{Latency, Report, Spread};
use crawlmark_harness::stats::{CLOSE, SAMPLES_BEYOND, Series, rank, samples_for};

/// The percentiles that a report carries, by the names of their keys.
const NAMED: [(f64, &str); 4] = [(0.5, "p50_us"), (0.9, "p90_us"), (0.99, "p99_us"), (0.999, "p999_us")];

/// Limit on the error of a figure read from the cells of a histogram, as a part of the exact one.
const CELL: f64 = 0.0011;

pub(super) fn check(report: &Report) -> Result<(), String> {
    for (name, latency) in &report.latency {
        let field = format!("latency.{}", super::super::foreign::short(name));
        figures(&field, latency)?;
        histogram(&field, latency)?;
        shards(&field, report, name, latency)?;
    }
    for (i, shard) in report.shards.iter().enumerate() {
        for (name, latency) in &shard.latency {
            figures(&format!("shards[{i}].latency.{}", super::super::foreign::short(name)), latency)?;
        }
    }
    for (i, row) in report.intervals.iter().enumerate() {
        let all = [
            ("p50_us", [row.p50_us, row.p90_us, row.p99_us]),
            ("response_p50_us", [row.response_p50_us, row.response_p90_us, row.response_p99_us]),
        ];
        for (name, percentiles) in all {
            in_order(&format!("intervals[{i}].{name}"), percentiles.into_iter().flatten())?;
        }
    }
    occasions(report)?;
    spreads(report)
}

fn in_order(field: &str, values: impl Iterator<Item = f64>) -> Result<(), String> {
    let values: Vec<f64> = values.collect();
    values.windows(2).try_for_each(|two| match two {
        // Where requests were cut off, neighbours are known to within that much.
        [below, above] => at_most(field, *below, "a percentile above it", above * CLOSE),
        _ => Ok(()),
    })
}

fn percentiles(latency: &Latency) -> [(f64, &'static str, Option<f64>); 4] {
    let Latency { p50_us, p90_us, p99_us, p999_us, .. } = *latency;
    let values = [p50_us, p90_us, p99_us, p999_us];
    std::array::from_fn(|i| (NAMED[i].0, NAMED[i].1, values[i]))
}

/// Check that the figures of a distribution agree with each other.
fn figures(field: &str, latency: &Latency) -> Result<(), String> {
    let Latency { count, min_us, mean_us, mean_at_least_us, max_us, overflow, censored, .. } = *latency;
    let slowest_us = latency.slowest_us();
    let named = |name: &str| format!("{field}.{name}");
    at_most(named("overflow"), overflow, "its count", count)?;
    for (name, figure) in [("min_us", min_us), ("mean_us", mean_us), ("max_us", slowest_us)] {
        if figure.is_some() != (count > 0) {
            let is = figure.map_or_else(|| "null".to_owned(), |us| us.to_string());
            return Err(format!("`{}` is {is}, but its count is {count}", named(name)));
        }
    }
    let slack = 1.0 + super::ROUNDING;
    if let (Some(min), Some(mean), Some(max)) = (min_us, mean_us, slowest_us) {
        at_most(named("min_us"), min, "mean_us", mean * slack)?;
        at_most(named("mean_us"), mean, "the greatest that ended", max * slack)?;
    }
    let all = count.saturating_add(censored);
    if let (Some(max), 0) = (max_us, all) {
        return Err(format!("`{}` is {max}, but nothing was timed", named("max_us")));
    }
    for (name, figure) in [("ended_max_us", slowest_us), ("mean_at_least_us", mean_at_least_us)] {
        at_most(named(name), figure.unwrap_or_default(), "max_us", max_us.unwrap_or(f64::MAX) * slack)?;
    }
    for (q, name, value) in percentiles(latency) {
        let needed = samples_for(q, SAMPLES_BEYOND);
        match value {
            Some(us) if all < needed => {
                return Err(format!("`{}` is {us}, but {all} samples are too few: it takes {needed}", named(name)));
            }
            None if all >= needed && count > 0 => {
                return Err(format!("`{}` is null, but {all} samples are enough: it takes {needed}", named(name)));
            }
            Some(us) if !latency.is_at_least(name) => at_most(named(name), us, "max_us", max_us.unwrap_or(f64::MAX))?,
            _ => {}
        }
    }
    let values = percentiles(latency).into_iter().filter_map(|(.., value)| value);
    // What was cut off may be younger than the quickest that ended.
    in_order(&named("p50_us"), min_us.filter(|_| censored == 0).into_iter().chain(values))
}

/// Check the figures of a distribution against its histogram.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times are positive, far below 2^63 ns")]
fn histogram(field: &str, latency: &Latency) -> Result<(), String> {
    let Some(distribution) = latency.distribution() else { return Ok(()) };
    let cells = distribution.histogram();
    let named = |name: &str| format!("{field}.{name}");
    let inside = cells.len();
    equal(
        named("count"),
        latency.count,
        "the number of values in its histogram and beyond",
        inside + latency.overflow,
    )?;
    let ns = |us: f64| (us * 1e3).round() as u64;
    if let (Some(min), Some(mean), Some(max), 0) =
        (latency.min_us, latency.mean_us, latency.slowest_us(), latency.overflow)
    {
        let mut recorded = cells.iter_recorded().map(|cell| cell.value_iterated_to());
        let lowest = recorded.next().unwrap_or_default();
        let highest = recorded.last().unwrap_or(lowest);
        for (name, us, edge) in [("min_us", min, lowest), ("max_us", max, highest)] {
            if !cells.equivalent(ns(us), edge) {
                return Err(format!("`{}` is {us}, but that of its histogram is {}", named(name), edge as f64 / 1e3));
            }
        }
        close_to(CELL, named("mean_us"), mean, "that of its histogram", cells.mean() / 1e3)?;
    }
    let max_ns = latency.slowest_us().map_or(u64::MAX, ns);
    // Half a rank lower the quotient is of that rank, however it is rounded.
    let at = |rank: u64| {
        let quantile = (rank.max(1) as f64 - 0.5) / inside as f64;
        (rank > 0 && rank <= inside).then(|| cells.value_at_quantile(quantile).min(max_ns))
    };
    for (q, name, value) in percentiles(latency) {
        let Some(value) = value else { continue };
        let rank = rank(q, latency.count + latency.censored);
        // Those that were cut off may rank anywhere.
        let bounds = [at(rank.saturating_sub(latency.censored)).unwrap_or(0), at(rank).unwrap_or(u64::MAX)];
        if !(bounds[0]..=bounds[1]).contains(&ns(value)) {
            let [least, most] = bounds.map(|ns| ns as f64 / 1e3);
            return Err(format!("`{}` is {value}, but its histogram has it from {least} to {most}", named(name)));
        }
    }
    Ok(())
}

/// The figures of a series over all shards are those of its shards.
fn shards(field: &str, report: &Report, name: &str, whole: &Latency) -> Result<(), String> {
    let parts: Vec<&Latency> = report.shards.iter().filter_map(|shard| shard.latency.get(name)).collect();
    let named = |name: &str| format!("{field}.{name}");
    let sum = |of: fn(&Latency) -> u64| parts.iter().map(|part| of(part)).fold(0, u64::saturating_add);
    let counts = [
        ("count", whole.count, sum(|part| part.count)),
        ("overflow", whole.overflow, sum(|part| part.overflow)),
        ("censored", whole.censored, sum(|part| part.censored)),
    ];
    for (name, is, wanted) in counts {
        equal(named(name), is, "the sum over the shards", wanted)?;
    }
    let of = |figure: fn(&Latency) -> Option<f64>| parts.iter().filter_map(move |part| figure(part));
    let greatest = of(|part| part.max_us).fold(0.0, f64::max);
    close(named("max_us"), whole.max_us.unwrap_or_default(), "the greatest of the shards", greatest)?;
    let (Some(min), Some(mean), Some(max)) = (whole.min_us, whole.mean_us, whole.slowest_us()) else { return Ok(()) };
    close(named("min_us"), min, "the least of the shards", of(|part| part.min_us).fold(f64::INFINITY, f64::min))?;
    let greatest = of(Latency::slowest_us).fold(0.0, f64::max);
    close(named("ended_max_us"), max, "the greatest of the shards", greatest)?;
    let weighted: f64 = parts.iter().filter_map(|part| Some(part.mean_us? * part.count as f64)).sum();
    close(named("mean_us"), mean, "the mean of the shards", weighted / whole.count as f64)?;
    if whole.censored > 0 || whole.overflow > 0 {
        return Ok(());
    }
    for (at, (_, name, value)) in percentiles(whole).into_iter().enumerate() {
        let of_shards: Option<Vec<f64>> =
            parts.iter().filter(|part| part.count > 0).map(|part| percentiles(part)[at].2).collect();
        // A quantile of a whole lies between those of its parts.
        if let (Some(value), Some(of_shards)) = (value, of_shards.filter(|all| !all.is_empty())) {
            let least = of_shards.iter().copied().fold(f64::INFINITY, f64::min);
            let most = of_shards.iter().copied().fold(0.0, f64::max);
            at_most(named(name), value, "the greatest of the shards", most * (1.0 + CELL))?;
            at_most(named(name), least, "(the least of the shards) that of the whole", value * (1.0 + CELL))?;
        }
    }
    Ok(())
}

/// A distribution holds as many values as there were occasions for one. A warm-up is counted and not timed.
fn occasions(report: &Report) -> Result<(), String> {
    if !is_whole(report) || report.warmup.is_some() {
        return Ok(());
    }
    let (ledger, totals) = (&report.ledger, &report.totals);
    let (good, ended) = (ledger.ok + ledger.not_found, totals.attempts - ledger.aborted);
    let handshakes = report.tls.as_ref().map_or(0, |tls| tls.full.saturating_add(tls.resumed));
    let occasions = [
        (Series::ServiceOk, "the number of good and not-found answers", good),
        (Series::ServiceThrottled, "totals.throttled", totals.throttled),
        (Series::SchedLag, "the number of attempts that ended", ended),
        (Series::BudgetWait, "the number of attempts that ended", ended),
        (Series::Connect, "totals.connections_opened", totals.connections_opened),
        (Series::Tls, "the sum of full and resumed in tls", handshakes),
        (Series::ResponseOk, "the number of good and not-found answers", good),
        (Series::ResponseThrottled, "totals.throttled", totals.throttled),
        (Series::ResponseError, "the number of attempts that failed", totals.failed(ledger)),
    ];
    for (series, what, wanted) in occasions {
        if let Some(latency) = report.latency(series) {
            equal(format_args!("latency.{}.count", series.name()), latency.count, what, wanted)?;
        }
    }
    if let Some(tunnels) = report.latency(Series::Tunnel) {
        at_most("latency.tunnel.count", tunnels.count, "totals.connections_opened", totals.connections_opened)?;
    }
    if let Some(delays) = report.latency(Series::ReceiveDelay) {
        at_most("latency.receive_delay.count", delays.count, "totals.attempts_sent", totals.attempts_sent)?;
    }
    if let Some(waits) = report.latency(Series::BudgetWait) {
        at_most("latency.budget_wait.censored", waits.censored, "totals.dropped", totals.dropped)?;
    }
    report.latency(Series::PoolWait).map_or(Ok(()), |waits| connection_waits(report, waits))
}

/// A request that was sent has waited for its connection for a known time, any other one for longer than it did. Older versions
/// have a time of each attempt that ended instead.
fn connection_waits(report: &Report, waits: &Latency) -> Result<(), String> {
    let totals = &report.totals;
    if (waits.count, waits.censored) == (totals.attempts - report.ledger.aborted, 0) {
        return Ok(());
    }
    equal("latency.pool_wait.count", waits.count, "totals.attempts_sent", totals.attempts_sent)?;
    let all = waits.count.saturating_add(waits.censored);
    at_most("totals.attempts", totals.attempts, "the sum of count and censored in latency.pool_wait", all)?;
    at_most(
        "latency.pool_wait",
        all,
        "(count and censored) attempts and dropped requests",
        totals.attempts + totals.dropped,
    )
}

/// The seconds' answers by time are those of the whole run.
fn spreads(report: &Report) -> Result<(), String> {
    for (i, row) in report.intervals.iter().enumerate() {
        if let Some(Spread { first, counts }) = &row.spread {
            at_most(
                format_args!("intervals[{i}].spread.first"),
                *first as usize + counts.len(),
                "the cells that there are",
                256,
            )?;
        }
    }
    let whole = report.latency(report.main_series()).and_then(Latency::distribution);
    let (true, None, Some(whole)) = (is_whole(report), &report.warmup, whole) else { return Ok(()) };
    let mut cells: BTreeMap<usize, u64> = BTreeMap::new();
    for Spread { first, counts } in report.intervals.iter().filter_map(|row| row.spread.as_ref()) {
        for (at, count) in counts.iter().enumerate() {
            *cells.entry(*first as usize + at).or_default() += count;
        }
    }
    let wanted = Spread::of_histogram(whole.histogram()).unwrap_or(Spread { first: 0, counts: Vec::new() });
    let wanted = wanted.counts.iter().enumerate().map(|(at, count)| (wanted.first as usize + at, *count));
    let wanted: BTreeMap<usize, u64> = wanted.collect();
    cells.keys().chain(wanted.keys()).try_for_each(|cell| {
        let of = |cells: &BTreeMap<usize, u64>| cells.get(cell).copied().unwrap_or_default();
        let field =
            format!("intervals[].spread ({:.0} µs)", Spread::starts_us(u32::try_from(*cell).unwrap_or(u32::MAX)));
        equal(field, of(&cells), "(the sum) that of the histogram of the run", of(&wanted))
    })
}
