//! The seconds of a short run as a table. Those of a long one are in the plots, and all of them in `result.json`.

use super::frame::Html;
use super::headline::Clocked;
use crate::run::report::{IntervalRow, Report};
use crate::show::doc::{Column, Table};
use crate::show::plot::counted;
use crate::show::text::{decimal, grouped, micros};

/// The most rows that somebody reads, and that a page has room for.
const MOST: usize = 120;

pub(super) fn write(html: &mut Html, report: &Report) {
    let count = report.intervals.len();
    if count == 0 || count > MOST {
        let what = if count == 0 { "There are none." } else { "They are in the plots, and each is in result.json." };
        html.say("p", &format!("Seconds that were measured: {}. {what}", grouped(count as u64)));
        return;
    }
    let clocked = Clocked::of(report);
    let (p50, p99) = match clocked {
        Clocked::Response(_) => ("response p50", "response p99"),
        Clocked::Service(_) | Clocked::Nothing => ("service p50", "service p99"),
    };
    html.details(
        &format!(
            "{}: times and scheduled by when requests were due, counts by when they ended",
            counted(count as u64, "second")
        ),
        |html| {
            Table {
                caption: "Each second".to_owned(),
                columns: vec![
                    Column::numbers("second"),
                    Column::numbers("offered"),
                    Column::numbers("scheduled"),
                    Column::numbers("attempts"),
                    Column::numbers("items"),
                    Column::numbers("ok"),
                    Column::numbers("failed"),
                    Column::numbers("throttled"),
                    Column::numbers("retries"),
                    Column::numbers("in flight"),
                    Column::numbers(p50),
                    Column::numbers(p99),
                    Column::numbers("greatest lag"),
                    Column::numbers("CPU of the shards"),
                ],
                rows: report.intervals.iter().map(|row| second(row, &clocked)).collect(),
                ..Table::default()
            }
            .write(html);
        },
    );
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
