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
    let columns =
        ["ids", "items", "items/s", "p50", "p99", "CPU per request", "CPU", "send delay p99", "send delay max"];
    let columns = [Column::words("shard")].into_iter().chain(columns.map(Column::numbers));
    Table {
        columns: columns.chain([Column::sentences("exit")]).collect(),
        rows: report.shards.iter().map(|of| shard(report, of)).collect(),
        ..Table::default()
    }
}

fn shard(report: &Report, shard: &ShardReport) -> Vec<String> {
    let (p50, p99) = shard_percentiles(shard);
    let (per_attempt, of_a_cpu) = shard_cpu(shard);
    let lag = shard.latency.get(Series::SchedLag.name());
    let shown = |us: Option<f64>| us.map_or_else(|| UNKNOWN.to_owned(), micros);
    let ended = shard.ledger.ok + shard.ledger.not_found + shard.ledger.failed + shard.ledger.gave_up;
    vec![
        shard.shard.to_string(),
        format!("{}..{}", grouped(shard.id_range.start), grouped(shard.id_range.end)),
        grouped(ended),
        grouped_f64(items_per_s(report, shard)),
        p50,
        p99,
        per_attempt,
        of_a_cpu,
        shown(lag.and_then(|lag| lag.p99_us)),
        shown(lag.and_then(|lag| lag.max_us)),
        shard_end(shard),
    ]
}

/// Items per second over the measured time of the run: a shard may have ended before. Over its own time if it died.
fn items_per_s(report: &Report, shard: &ShardReport) -> f64 {
    let warm_s = report.warmup.as_ref().map_or(0.0, |warm| warm.duration_s);
    let part = (shard.totals.duration_s - warm_s) / (report.totals.duration_s - warm_s);
    let part = if shard.fault.is_none() && part.is_finite() { part.clamp(0.0, 1.0) } else { 1.0 };
    shard.totals.items_per_s * part
}

/// Median and 99th percentile of a shard's service times.
fn shard_percentiles(shard: &ShardReport) -> (String, String) {
    let service = shard.latency.get(Series::ServiceOk.name());
    let shown = |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), micros);
    (shown(service.and_then(|s| s.p50_us)), shown(service.and_then(|s| s.p99_us)))
}

/// Return the fault of the shard, or the ends of its processes.
fn shard_end(shard: &ShardReport) -> String {
    shard.fault.clone().unwrap_or_else(|| shard.exits.join(", "))
}

/// CPU per request, and part of a CPU.
fn shard_cpu(shard: &ShardReport) -> (String, String) {
    let shown = |value: Option<String>| value.unwrap_or_else(|| UNKNOWN.to_owned());
    let of_a_cpu = shard.usage.cpu_share.map(rounded_percent);
    (shown(shard.usage.cpu_us_per_attempt.map(micros)), shown(of_a_cpu))
}
