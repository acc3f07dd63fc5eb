//! The seconds of a run: of a short one as a table, of any as lines of characters.

use super::sparkline::sparkline;
use super::times::Clocked;
use crate::run::report::{IntervalRow, Report};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{counted, decimal, grouped, grouped_f64, micros};

/// Most rows worth reading, for which a page has room.
const MOST: usize = 120;

/// A row for each second, unless there are too many.
pub(super) fn table(report: &Report) -> Doc {
    let count = report.intervals.len();
    if count == 0 || count > MOST {
        let text = match count {
            0 => "No second was measured.".to_owned(),
            _ => format!(
                "{} seconds are too many for a table: see the plots, or `intervals` in result.json.",
                grouped(count as u64)
            ),
        };
        return Doc::default().text(text);
    }
    let clocked = Clocked::of(report);
    let columns = [
        "second",
        "offered",
        "scheduled",
        "requests",
        "items",
        "ok",
        "failed",
        "throttled",
        "retries",
        "in flight",
    ];
    let percentiles = ["p50", "p99"].map(|name| format!("{} {name}", clocked.name()));
    let columns = columns.map(str::to_owned).into_iter().chain(percentiles);
    let columns = columns.chain([
        "send delay".to_owned(),
        format!("CPU of the {}s", report.shard_word()),
    ]);
    let table = Table {
        columns: columns.map(Column::numbers).collect(),
        rows: report
            .intervals
            .iter()
            .map(|row| second(row, &clocked))
            .collect(),
        ..Table::default()
    };
    let summary = format!(
        "{}: times by scheduled send time, counts by when they ended",
        counted(count as u64, "second")
    );
    Doc::default().details(summary, Doc::default().table(table))
}

fn second(row: &IntervalRow, clocked: &Clocked<'_>) -> Vec<String> {
    let or_none = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let (p50, p99) = match clocked {
        Clocked::Response(_) => (row.response_p50_us, row.response_p99_us),
        Clocked::Service(_) | Clocked::Nothing => (row.p50_us, row.p99_us),
    };
    vec![
        row.start_s.to_string(),
        or_none(row.offered.map(decimal)),
        or_none(row.scheduled.map(grouped)),
        grouped(row.attempts),
        grouped(row.items),
        grouped(row.ok),
        grouped(row.failed),
        grouped(row.throttled),
        grouped(row.retries),
        grouped(u64::from(row.in_flight)),
        or_none(p50.map(micros)),
        or_none(p99.map(micros)),
        micros(row.max_sched_lag_us),
        micros(row.cpu_us as f64),
    ]
}

/// A line of characters for each of the main figures; nothing of a run without two seconds.
pub(super) fn course(report: &Report) -> Table {
    let end = report
        .intervals
        .iter()
        .map(|row| row.start_s + 1)
        .max()
        .unwrap_or(0);
    let row = |name: &str, of: fn(&IntervalRow) -> Option<f64>, unit: fn(f64) -> String| {
        let line = sparkline(
            report
                .intervals
                .iter()
                .filter_map(|row| Some((row.start_s, of(row)?))),
            end,
        )?;
        Some(vec![name.to_owned(), line.drawn, unit(line.greatest)])
    };
    let p90 = match report.schedule {
        Some(_) => row("response p90", |row| row.response_p90_us, micros),
        None => row("service p90", |row| row.p90_us, micros),
    };
    let rows = [
        row("requests/s", |row| Some(row.attempts as f64), grouped_f64),
        p90,
        row("throttled/s", |row| Some(row.throttled as f64), grouped_f64),
        row("failed/s", |row| Some(row.failed as f64), grouped_f64),
    ];
    Table {
        columns: vec![
            Column::words("over time"),
            Column::sparkline("from 0 to the peak"),
            Column::numbers("peak"),
        ],
        rows: rows.into_iter().flatten().collect(),
        ..Table::default()
    }
}
