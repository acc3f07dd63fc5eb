//! A history of results as text: where each metric changed.

use std::fmt::Write;

use super::contest::{in_unit, short_name};
use super::write_row;
use crate::studies::compare::{Change, History, Metric};

/// The history for a terminal of so many columns.
#[must_use]
pub fn history_text(history: &History, columns: usize) -> String {
    let mut out = String::new();
    let count = history.results.len();
    let results = if count == 1 { "result" } else { "results" };
    let _ = writeln!(out, "{count} {results} named {} of one plan on one kind of machine", history.name);
    for (name, past) in [("first", history.results.first()), ("latest", history.results.last())] {
        if let Some(past) = past {
            write_row(&mut out, name, &format!("{}, {}", past.started_at, past.result), columns);
        }
    }
    if history.left_out > 0 {
        write_row(
            &mut out,
            "left out",
            &format!("{} results of other plans, machines or names", history.left_out),
            columns,
        );
    }
    if !history.is_enough() {
        let is = if count == 1 { "is" } else { "are" };
        let needed = history.results_needed;
        write_row(
            &mut out,
            "changes",
            &format!("{count} {results} {is} not enough to find a change: {needed} needed"),
            columns,
        );
        return out;
    }
    for found in &history.metrics {
        let rows: Vec<String> = found.changes.iter().map(|change| told(history, found.metric, change)).collect();
        let row = if rows.is_empty() { "no change".to_owned() } else { rows.join("\n") };
        write_row(&mut out, short_name(found.metric), &row, columns);
    }
    let advice = "advice on where to look and no verdict: what changed may be the machine; `crawlmark ab` of the two versions knows";
    write_row(&mut out, "note", advice, columns);
    out
}

fn told(history: &History, metric: Metric, change: &Change) -> String {
    let [before, after] = [change.before, change.after].map(|value| in_unit(metric, value));
    let percent = (change.after / change.before - 1.0) * 100.0;
    let since = history.results.get(change.at).map_or("-", |past| &past.started_at);
    let result = history.results.get(change.at).map_or("-", |past| &past.result);
    format!("{percent:+.1} % since {since} ({before} before, {after} after, p {:.3}): {result}", change.p)
}
