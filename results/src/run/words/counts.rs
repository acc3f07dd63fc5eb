//! Counts of a run: items by state, requests by outcome.

use super::{failures, groups, merged};
use crate::run::report::Report;
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{bytes, grouped};
use crawlmark_harness::units::rounded_percent;

/// States of items that no request is known of.
const UNTRIED: [&str; 2] = ["not_attempted", "lost"];

/// A part of a whole in percent; nothing is no part of nothing.
fn part(n: u64, of: u64) -> String {
    if of == 0 {
        "-".to_owned()
    } else {
        rounded_percent(n as f64 / of as f64)
    }
}

/// Items by state, requests by status, errors by kind.
pub(super) fn tables(report: &Report) -> Doc {
    let totals = &report.totals;
    let counted = |name: String, n: u64| vec![name, grouped(n), part(n, totals.attempts)];
    let shares = |caption: &str, [what, count]: [&str; 2], rows: Vec<Vec<String>>| Table {
        caption: caption.to_owned(),
        columns: vec![
            Column::words(what),
            Column::numbers(count),
            Column::numbers("share"),
        ],
        rows,
        ..Table::default()
    };
    // Of a run that the time ends, what is left of the range says nothing.
    let before = merged::finished_before(report).map(|(items, by)| (by, items));
    let planned = report
        .ledger
        .planned
        .saturating_add(before.map_or(0, |(_, items)| items));
    let (all, before, is_timed) = match report.plan.run.duration {
        Some(_) => (("tried", report.ledger.items.begun()), None, true),
        None => (("planned", planned), before, false),
    };
    let state = |(state, n): (&str, u64)| vec![state.to_owned(), grouped(n), part(n, all.1)];
    let is_shown =
        |name: &str, n: u64| (n > 0 && !(is_timed && UNTRIED.contains(&name))) || name == "ok";
    let states = report
        .ledger
        .states()
        .filter(|(name, _, n)| is_shown(name, *n))
        .map(|(_, state, n)| (state, n));
    let items = states.chain(before).chain([all]).map(state).collect();
    let statuses = totals
        .attempts_by_status
        .iter()
        .map(|(status, n)| counted(status.to_string(), *n))
        .collect();
    let tables = Doc::default()
        .table(Table {
            has_sum: true,
            ..shares("Items by state", ["state", "items"], items)
        })
        .table(shares(
            "Requests by status",
            ["status", "requests"],
            statuses,
        ))
        .table(requests(report));
    let missing = "The states do not add up to what was planned: see Validity.";
    let note = if report.ledger.adds_up() { "" } else { missing };
    Doc::default()
        .beside(tables)
        .table(failures::table(report))
        .table(groups::hosts(report, usize::MAX))
        .table(groups::templates(report, usize::MAX))
        .table(groups::sources(report, usize::MAX))
        .note(note)
}

fn requests(report: &Report) -> Table {
    let totals = &report.totals;
    let counts = totals.requests.iter().filter_map(|(counter, n)| {
        let shown = if counter.of_bytes().is_some() {
            bytes(n)
        } else {
            grouped(n)
        };
        Some((counter.label?, n, shown))
    });
    let others = [
        (
            "opened before the start, to check hosts",
            report.check_connections.unwrap_or(0),
        ),
        ("peak in flight", totals.peak_in_flight),
    ];
    let rows = counts.chain(others.map(|(label, n)| (label, n, grouped(n))));
    let rows = rows.filter(|(label, n, _)| *n > 0 || *label == "requests");
    Table {
        caption: "Requests".to_owned(),
        columns: vec![Column::words("what"), Column::numbers("count")],
        rows: rows
            .map(|(label, _, shown)| vec![label.to_owned(), shown])
            .collect(),
        ..Table::default()
    }
}
