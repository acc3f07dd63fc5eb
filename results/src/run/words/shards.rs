//! Shards of a run, a row each.

use crate::run::report::{Report, ShardReport};
use crate::show::doc::{Column, Table};
use crate::show::text::{grouped, grouped_f64, micros};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::rounded_percent;

/// A cell without a number.
const UNKNOWN: &str = "-";

/// A row per shard.
pub(super) fn table(report: &Report) -> Table {
    let columns = [
        "ids",
        "items",
        "items/s",
        "p50",
        "p99",
        "CPU per request",
        "CPU",
        "send delay p99",
        "send delay max",
    ];
    let columns = [Column::words(report.shard_word())]
        .into_iter()
        .chain(columns.map(Column::numbers));
    Table {
        columns: columns.chain([Column::sentences("exit")]).collect(),
        rows: report.shards.iter().map(|of| shard(report, of)).collect(),
        ..Table::default()
    }
}

fn shard(report: &Report, shard: &ShardReport) -> Vec<String> {
    let (p50, p99) = shard_percentiles(shard);
    let own_time = own_time(report, shard);
    let (per_attempt, of_a_cpu) = shard_cpu(shard, own_time);
    let lag = shard.latency.get(Series::SchedLag.name());
    let shown = |us: Option<f64>| us.map_or_else(|| UNKNOWN.to_owned(), micros);
    let ended =
        shard.ledger.ok + shard.ledger.not_found + shard.ledger.failed + shard.ledger.gave_up;
    vec![
        shard.shard.to_string(),
        format!(
            "{}..{}",
            grouped(shard.id_range.start),
            grouped(shard.id_range.end)
        ),
        grouped(ended),
        grouped_f64(items_per_s(report, shard) / own_time),
        p50,
        p99,
        per_attempt,
        of_a_cpu,
        shown(lag.and_then(|lag| lag.p99_us)),
        shown(lag.and_then(|lag| lag.max_us)),
        shard_end(shard),
    ]
}

/// Items per second over the measured time of the run: a shard may have ended before. Over its own
/// time if it died.
fn items_per_s(report: &Report, shard: &ShardReport) -> f64 {
    if report.merged.is_some() {
        return shard.totals.items_per_s;
    }
    let warm_s = report.warmup.as_ref().map_or(0.0, |warm| warm.duration_s);
    let part = (shard.totals.duration_s - warm_s) / (report.totals.duration_s - warm_s);
    let part = if shard.fault.is_none() && part.is_finite() {
        part.clamp(0.0, 1.0)
    } else {
        1.0
    };
    shard.totals.items_per_s * part
}

/// Return the share of the time until the end of a shard in which it ran: parts of a crawl run one
/// after another.
fn own_time(report: &Report, shard: &ShardReport) -> f64 {
    let Some(before) = shard
        .course
        .attempts
        .iter()
        .position(Option::is_some)
        .filter(|_| report.merged.is_some())
    else {
        return 1.0;
    };
    let began_s = before as f64 * shard.course.step_s as f64;
    let ran = 1.0 - began_s / shard.totals.duration_s;
    if ran > 0.0 { ran } else { 1.0 }
}

/// Median and 99th percentile of a shard's service times.
fn shard_percentiles(shard: &ShardReport) -> (String, String) {
    let service = shard.latency.get(Series::ServiceOk.name());
    let shown = |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), micros);
    (
        shown(service.and_then(|s| s.p50_us)),
        shown(service.and_then(|s| s.p99_us)),
    )
}

/// Return the fault of the shard, or the ends of its processes.
fn shard_end(shard: &ShardReport) -> String {
    shard
        .fault
        .clone()
        .unwrap_or_else(|| shard.exits.join(", "))
}

/// CPU per request, and part of a CPU in the time in which the shard ran.
fn shard_cpu(shard: &ShardReport, own_time: f64) -> (String, String) {
    let shown = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    let of_a_cpu = shard
        .usage
        .cpu_share
        .map(|share| rounded_percent(share / own_time));
    (
        shown(shard.usage.cpu_us_per_attempt.map(micros)),
        shown(of_a_cpu),
    )
}
