//! Seconds, their tenths, and shards as CSV (RFC 4180), a row each. An empty field is what was not
//! measured. Each row ends with the run's ID and its verdict: in tables of several runs below each
//! other, an invalid run stays marked.

use crate::run::report::{BinRow, IntervalRow, Latency, Report, ShardReport};
use crawlmark_harness::stats::{SecondCounts, Series};

/// A column: its name, with the unit where there is one, and its field in a row.
type CsvColumn<T> = (&'static str, fn(&T) -> String);

/// Columns of a second before its counts.
const DUE: [CsvColumn<IntervalRow>; 5] = [
    ("start_s", |row| row.start_s.to_string()),
    ("offered", |row| optional(row.offered)),
    ("scheduled", |row| count(row.scheduled)),
    ("scheduled_good", |row| count(row.scheduled_good)),
    ("scheduled_failed", |row| count(row.scheduled_failed)),
];

/// Columns of a second after its counts.
const SECONDS: [CsvColumn<IntervalRow>; 18] = [
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
    ("storage_share", |row| number(row.binding.storage)),
    ("idle_share", |row| number(row.binding.idle)),
    ("limit", |row| {
        row.limit
            .map_or_else(String::new, |limit| limit.to_string())
    }),
    ("pace_per_s", |row| optional(row.pace_per_s)),
];

/// Column of a tenth of a second before its counts.
const START: [CsvColumn<(f64, BinRow)>; 1] = [("start_s", |(start_s, _)| number(*start_s))];

/// Columns of a tenth of a second after its counts.
const TENTHS: [CsvColumn<(f64, BinRow)>; 4] = [
    ("p50_us", |(_, bin)| count(bin.p50_us)),
    ("p90_us", |(_, bin)| count(bin.p90_us)),
    ("p99_us", |(_, bin)| count(bin.p99_us)),
    ("max_us", |(_, bin)| optional(bin.max_us)),
];

/// Columns of a shard before its counts.
const PROCESS: [CsvColumn<ShardReport>; 6] = [
    ("shard", |shard| shard.shard.to_string()),
    ("pid", |shard| shard.pid.to_string()),
    ("cpu", |shard| {
        shard.cpu.map_or_else(String::new, |cpu| cpu.to_string())
    }),
    ("id_start", |shard| shard.id_range.start.to_string()),
    ("id_end", |shard| shard.id_range.end.to_string()),
    ("connections", |shard| shard.connections.to_string()),
];

/// Columns of a shard after its counts.
const SHARDS: [CsvColumn<ShardReport>; 15] = [
    ("duration_s", |shard| number(shard.totals.duration_s)),
    ("items_per_s", |shard| number(shard.totals.items_per_s)),
    ("ok_per_s", |shard| optional(shard.totals.ok_per_s)),
    ("attempts_per_s", |shard| {
        number(shard.totals.attempts_per_s)
    }),
    ("service_p50_us", |shard| {
        percentile(shard, "p50_us", |service| service.p50_us)
    }),
    ("service_p90_us", |shard| {
        percentile(shard, "p90_us", |service| service.p90_us)
    }),
    ("service_p99_us", |shard| {
        percentile(shard, "p99_us", |service| service.p99_us)
    }),
    ("service_max_us", |shard| {
        optional(service(shard).and_then(|service| service.max_us))
    }),
    ("cpu_user_s", |shard| optional(shard.usage.cpu_user_s)),
    ("cpu_system_s", |shard| optional(shard.usage.cpu_system_s)),
    ("cpu_us_per_attempt", |shard| {
        optional(shard.usage.cpu_us_per_attempt)
    }),
    ("run_delay_s", |shard| optional(shard.usage.run_delay_s)),
    ("max_rss_bytes", |shard| {
        shard
            .usage
            .max_rss_bytes
            .map_or_else(String::new, |bytes| bytes.to_string())
    }),
    ("fault", |shard| shard.fault.clone().unwrap_or_default()),
    ("exits", |shard| shard.exits.join("; ")),
];

/// A row for each second.
pub(super) fn intervals(report: &Report) -> String {
    let counts = |counts: SecondCounts| counts.iter().map(|(counter, count)| (counter.name, count));
    table(report, (&DUE, &SECONDS), &report.intervals, |row| {
        counts(row.map_or_else(Default::default, |row| row.counts.clone()))
    })
}

/// A row for each tenth of a second; none of a run without them.
pub(super) fn tenths(report: &Report) -> Option<String> {
    let binned = report
        .intervals
        .iter()
        .filter_map(|row| Some((row.start_s * 10, row.bins.as_ref()?)));
    let rows: Vec<(f64, BinRow)> = binned
        .flat_map(|(first, bins)| {
            (first..)
                .map(|tenth| tenth as f64 / 10.0)
                .zip(bins.iter().cloned())
        })
        .collect();
    let counts = |counts: SecondCounts| counts.iter().map(|(counter, count)| (counter.name, count));
    let table = || {
        table(report, (&START, &TENTHS), &rows, |row| {
            counts(row.map_or_else(Default::default, |row| row.1.counts.clone()))
        })
    };
    (!rows.is_empty()).then(table)
}

/// A row for each shard. A percentile that is only known to be no less than its value is an empty
/// field.
pub(super) fn shards(report: &Report) -> String {
    table(report, (&PROCESS, &SHARDS), &report.shards, |shard| {
        let (ledger, requests) = shard.map_or_else(Default::default, |shard| {
            (shard.ledger, shard.totals.requests.clone())
        });
        let requests = requests
            .iter()
            .filter(|(counter, _)| counter.label.is_some());
        let states = ledger.states().map(|(name, _, count)| (name, count));
        [("planned", ledger.planned)]
            .into_iter()
            .chain(states)
            .chain(requests.map(|(counter, count)| (counter.name, count)))
    })
}

/// A table of columns, the counts between them. The names of the counts are those of no row.
fn table<T, I: Iterator<Item = (&'static str, u64)>>(
    report: &Report,
    (before, after): (&[CsvColumn<T>], &[CsvColumn<T>]),
    rows: &[T],
    counts: impl Fn(Option<&T>) -> I,
) -> String {
    let of_run = [
        ("run_id", report.run_id.as_str()),
        ("validity", report.validity.verdict.name()),
    ];
    let mut out = String::new();
    let name = |column: &CsvColumn<T>| column.0;
    let names = before
        .iter()
        .map(name)
        .chain(counts(None).map(|(name, _)| name))
        .chain(after.iter().map(name));
    line(
        &mut out,
        names
            .chain(of_run.map(|(name, _)| name))
            .map(ToOwned::to_owned),
    );
    for row in rows {
        let field = |column: &CsvColumn<T>| column.1(row);
        let counts = counts(Some(row)).map(|(_, count)| count.to_string());
        let fields = before
            .iter()
            .map(field)
            .chain(counts)
            .chain(after.iter().map(field));
        line(
            &mut out,
            fields.chain(of_run.map(|(_, value)| value.to_owned())),
        );
    }
    out
}

fn line(out: &mut String, fields: impl Iterator<Item = String>) {
    out.push_str(&fields.map(quoted).collect::<Vec<_>>().join(","));
    out.push_str("\r\n");
}

/// A field as RFC 4180 has it.
fn quoted(field: String) -> String {
    if field.contains(['"', ',', '\r', '\n']) {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field
    }
}

fn service(shard: &ShardReport) -> Option<&Latency> {
    shard.latency.get(Series::ServiceOk.name())
}

fn percentile(shard: &ShardReport, key: &str, of: fn(&Latency) -> Option<f64>) -> String {
    optional(
        service(shard)
            .filter(|service| !service.is_at_least(key))
            .and_then(of),
    )
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(String::new, |count| count.to_string())
}

fn optional(value: Option<f64>) -> String {
    value.map_or_else(String::new, number)
}

/// As short as it can be without loss; empty for what is no number.
fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        String::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_quoted_when_it_has_to_be() {
        let fields = ["plain", "a b", "a,b", "say \"no\"", "two\nlines", ""]
            .map(|text| quoted(text.to_owned()));
        assert_eq!(
            fields,
            [
                "plain",
                "a b",
                "\"a,b\"",
                "\"say \"\"no\"\"\"",
                "\"two\nlines\"",
                ""
            ]
        );
    }

    #[test]
    fn what_is_no_number_is_empty() {
        assert_eq!(
            [f64::NAN, f64::INFINITY, 0.1, 1e21, 2.0].map(number),
            ["", "", "0.1", "1000000000000000000000", "2"]
        );
    }
}
