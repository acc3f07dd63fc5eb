//! Saved crawl in words: what has a record, and what is left.

use crate::run::report::{Report, SavedReport, SavedSession};
use crate::show::doc::{Column, Table};
use crate::show::text::{bytes, counted, decimal, grouped, micros, shell_word};

/// Return the row of the summary, and the next step.
pub(super) fn row(saved: &SavedReport) -> String {
    let SavedReport {
        directory,
        items,
        saved: done,
        sessions,
        ..
    } = saved;
    let of_sessions = match sessions.len() {
        0 | 1 => String::new(),
        several => format!(" in {several} sessions"),
    };
    let rate = saved.items_per_s().filter(|_| sessions.len() > 1);
    let rate = rate.map_or_else(String::new, |rate| {
        format!(", {}/s without the gaps", decimal(rate))
    });
    let sent = saved.sent().filter(|_| sessions.len() > 1);
    let sent = sent.map_or_else(String::new, |sent| {
        format!(", {} sent", counted(sent, "request"))
    });
    if saved.is_complete() {
        return format!(
            "all {} to {directory}{of_sessions}{sent}{rate}",
            counted(*items, "item")
        );
    }
    let left = grouped(items - done);
    format!(
        "{} of {} to {directory}{of_sessions}{sent}{rate}; {left} left: crawlmark run --resume {}",
        grouped(*done),
        counted(*items, "item"),
        shell_word(directory)
    )
}

/// Return a row for each session; an empty table for one.
pub(super) fn sessions(report: &Report) -> Table {
    let columns = [
        "session",
        "from",
        "to",
        "items",
        "requests for them",
        "requests sent",
        "on disk",
        "p50",
        "p99",
    ];
    let time = |us: Option<u64>| us.map_or_else(|| "-".to_owned(), |us| micros(us as f64));
    let row = |session: &SavedSession| {
        let moment = |at: &Option<String>| at.clone().unwrap_or_else(|| "-".to_owned());
        vec![
            session.session.to_string(),
            moment(&session.from),
            moment(&session.to),
            grouped(session.items),
            grouped(session.requests),
            session.sent.map_or_else(|| "-".to_owned(), grouped),
            bytes(session.bytes),
            time(session.p50_us),
            time(session.p99_us),
        ]
    };
    let sessions = report
        .saved
        .iter()
        .filter(|saved| saved.sessions.len() > 1)
        .flat_map(|saved| &saved.sessions);
    let rows = sessions.map(row).collect();
    Table {
        columns: columns.into_iter().map(Column::words).collect(),
        rows,
        ..Table::default()
    }
}
