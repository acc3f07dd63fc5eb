//! Seconds and shards as CSV (RFC 4180), a row each. An empty field is what was not measured. Each row ends with the run's
//! ID and its verdict: tables of several runs may be put under each other, and none of them passes for valid.

use crate::run::report::{IntervalRow, Latency, Report, ShardReport};
use crawlmark_harness::stats::Series;

/// A column: its name, with the unit where there is one, and its field in a row.
type Column<T> = (&'static str, fn(&T) -> String);

const SECONDS: [Column<IntervalRow>; 33] = [
    ("start_s", |row| row.start_s.to_string()),
    ("offered", |row| optional(row.offered)),
    ("scheduled", |row| count(row.scheduled)),
    ("scheduled_good", |row| count(row.scheduled_good)),
    ("scheduled_failed", |row| count(row.scheduled_failed)),
    ("attempts", |row| row.attempts.to_string()),
    ("items", |row| row.items.to_string()),
    ("ok", |row| row.ok.to_string()),
    ("not_found", |row| row.not_found.to_string()),
    ("failed", |row| row.failed.to_string()),
    ("retries", |row| row.retries.to_string()),
    ("throttled", |row| row.throttled.to_string()),
    ("soft_blocked", |row| row.soft_blocked.to_string()),
    ("aborted", |row| row.aborted.to_string()),
    ("connections_opened", |row| row.connections_opened.to_string()),
    ("bytes_received", |row| row.bytes_received.to_string()),
    ("in_flight", |row| row.in_flight.to_string()),
    ("p50_us", |row| optional(row.p50_us)),
    ("p90_us", |row| optional(row.p90_us)),
    ("p99_us", |row| optional(row.p99_us)),
    ("response_p50_us", |row| optional(row.response_p50_us)),
    ("response_p90_us", |row| optional(row.response_p90_us)),
    ("response_p99_us", |row| optional(row.response_p99_us)),
    ("max_us", |row| optional(row.max_us)),
    ("max_sched_lag_us", |row| number(row.max_sched_lag_us)),
    ("cpu_us", |row| row.cpu_us.to_string()),
    ("rate_share", |row| number(row.binding.rate)),
    ("concurrency_share", |row| number(row.binding.concurrency)),
    ("pause_share", |row| number(row.binding.pause)),
    ("target_share", |row| number(row.binding.target)),
    ("idle_share", |row| number(row.binding.idle)),
    ("limit", |row| row.limit.map_or_else(String::new, |limit| limit.to_string())),
    ("pace_per_s", |row| optional(row.pace_per_s)),
];

const SHARDS: [Column<ShardReport>; 36] = [
    ("shard", |shard| shard.shard.to_string()),
    ("pid", |shard| shard.pid.to_string()),
    ("cpu", |shard| shard.cpu.map_or_else(String::new, |cpu| cpu.to_string())),
    ("id_start", |shard| shard.id_range.start.to_string()),
    ("id_end", |shard| shard.id_range.end.to_string()),
    ("connections", |shard| shard.connections.to_string()),
    ("planned", |shard| shard.ledger.planned.to_string()),
    ("ok", |shard| shard.ledger.ok.to_string()),
    ("not_found", |shard| shard.ledger.not_found.to_string()),
    ("failed", |shard| shard.ledger.failed.to_string()),
    ("gave_up", |shard| shard.ledger.gave_up.to_string()),
    ("aborted", |shard| shard.ledger.aborted.to_string()),
    ("unfinished", |shard| shard.ledger.unfinished.to_string()),
    ("not_attempted", |shard| shard.ledger.not_attempted.to_string()),
    ("lost", |shard| shard.ledger.lost.to_string()),
    ("attempts", |shard| shard.totals.attempts.to_string()),
    ("retries", |shard| shard.totals.retries.to_string()),
    ("throttled", |shard| shard.totals.throttled.to_string()),
    ("connections_opened", |shard| shard.totals.connections_opened.to_string()),
    ("bytes_sent", |shard| shard.totals.bytes_sent.to_string()),
    ("bytes_received", |shard| shard.totals.bytes_received.to_string()),
    ("duration_s", |shard| number(shard.totals.duration_s)),
    ("items_per_s", |shard| number(shard.totals.items_per_s)),
    ("ok_per_s", |shard| optional(shard.totals.ok_per_s)),
    ("attempts_per_s", |shard| number(shard.totals.attempts_per_s)),
    ("service_p50_us", |shard| percentile(shard, "p50_us", |service| service.p50_us)),
    ("service_p90_us", |shard| percentile(shard, "p90_us", |service| service.p90_us)),
    ("service_p99_us", |shard| percentile(shard, "p99_us", |service| service.p99_us)),
    ("service_max_us", |shard| optional(service(shard).and_then(|service| service.max_us))),
    ("cpu_user_s", |shard| optional(shard.usage.cpu_user_s)),
    ("cpu_system_s", |shard| optional(shard.usage.cpu_system_s)),
    ("cpu_us_per_attempt", |shard| optional(shard.usage.cpu_us_per_attempt)),
    ("run_delay_s", |shard| optional(shard.usage.run_delay_s)),
    ("max_rss_bytes", |shard| shard.usage.max_rss_bytes.map_or_else(String::new, |bytes| bytes.to_string())),
    ("fault", |shard| shard.fault.clone().unwrap_or_default()),
    ("exits", |shard| shard.exits.join("; ")),
];

/// A row for each second.
pub(super) fn intervals(report: &Report) -> String {
    table(report, &SECONDS, &report.intervals)
}

/// A row for each shard. A percentile that is only known to be no less than its value is an empty field.
pub(super) fn shards(report: &Report) -> String {
    table(report, &SHARDS, &report.shards)
}

fn table<T>(report: &Report, columns: &[Column<T>], rows: &[T]) -> String {
    let of_run = [("run_id", report.run_id.as_str()), ("validity", report.validity.verdict.name())];
    let mut out = String::new();
    let names = columns.iter().map(|(name, _)| *name).chain(of_run.map(|(name, _)| name));
    line(&mut out, names.map(ToOwned::to_owned));
    for row in rows {
        let fields = columns.iter().map(|(_, field)| field(row));
        line(&mut out, fields.chain(of_run.map(|(_, value)| value.to_owned())));
    }
    out
}

fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    out.push_str(&fields.map(quoted).collect::<Vec<_>>().join(","));
    out.push_str("\r\n");
}

/// A field as RFC 4180 has it.
fn quoted(field: String) -> String {
    if field.contains(['"', ',', '\r', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field }
}

fn service(shard: &ShardReport) -> Option<&Latency> {
    shard.latency.get(Series::ServiceOk.name())
}

fn percentile(shard: &ShardReport, key: &str, of: fn(&Latency) -> Option<f64>) -> String {
    optional(service(shard).filter(|service| !service.is_at_least(key)).and_then(of))
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(String::new, |count| count.to_string())
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// As short as it can be without loss; empty for what is no number.
fn number(value: f64) -> String {
    if value.is_finite() { value.to_string() } else { String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_quoted_when_it_has_to_be() {
        let fields = ["plain", "a b", "a,b", "say \"no\"", "two\nlines", ""].map(|text| quoted(text.to_owned()));
        assert_eq!(fields, ["plain", "a b", "\"a,b\"", "\"say \"\"no\"\"\"", "\"two\nlines\"", ""]);
    }

    #[test]
    fn what_is_no_number_is_empty() {
        assert_eq!(
            [f64::NAN, f64::INFINITY, 0.1, 1e21, 2.0].map(number),
            ["", "", "0.1", "1000000000000000000000", "2"]
        );
    }
}
