//! Failed requests of a run by cause.

use std::cmp::Reverse;

use crate::run::report::{FailureReport, Report, failures};
use crate::show::doc::{Column, Table};
use crate::show::text::{cause_in_words, grouped, remedy_in_words};
use crawlmark_harness::stats::{Counters, FailureCause};
use crawlmark_harness::units::rounded_percent;

/// Name of the cause of requests that had no answer when the run ended.
const CUT_OFF: &str = "cut off at the end";

/// Most causes in the table.
const MOST: usize = 20;

/// Errors by cause, those that were cut off included, the commonest first.
pub fn errors(counted: &Counters) -> Vec<(String, u64)> {
    let mut causes: Vec<_> = failures(&counted.requests)
        .into_iter()
        .map(|(cause, n)| (cause_in_words(cause), n))
        .collect();
    causes.extend(Some((CUT_OFF.to_owned(), counted.items.aborted)).filter(|(_, n)| *n > 0));
    causes.sort_by_key(|(_, n)| Reverse(*n));
    causes
}

/// Failed requests by cause, the commonest first, each with its first and last time and an example.
pub(super) fn table(report: &Report) -> Table {
    let causes = failures(&report.totals.requests);
    let (listed, rest) = causes.split_at(causes.len().min(MOST));
    let rest = rest.iter().map(|(_, n)| *n).fold(0, u64::saturating_add);
    let named = listed.iter().map(|(cause, n)| {
        let seen = report.failures.get(&cause.key());
        (cause_in_words(*cause), *n, seen.map(|seen| (*cause, seen)))
    });
    let others = [("others", rest), (CUT_OFF, report.ledger.aborted)]
        .map(|(name, n)| (name.to_owned(), n, None));
    let rows = named
        .chain(others.into_iter().filter(|(_, n, _)| *n > 0))
        .map(|(name, n, seen)| {
            let [first, last] = seen.map_or(["-".to_owned(), "-".to_owned()], |(_, seen)| {
                [seen.first_s, seen.last_s].map(|at| format!("{at:.2} s"))
            });
            vec![
                name,
                grouped(n),
                rounded_percent(n as f64 / report.totals.attempts.max(1) as f64),
                first,
                last,
                seen.map_or_else(String::new, |(cause, seen)| example(cause, seen)),
            ]
        });
    Table {
        caption: "Errors by kind".to_owned(),
        rows: rows.collect(),
        columns: vec![
            Column::words("error"),
            Column::numbers("requests"),
            Column::numbers("share"),
            Column::numbers("first").leaving(1),
            Column::numbers("last").leaving(2),
            Column::details("example"),
        ],
        ..Table::default()
    }
}

/// The first failure of a cause: its status, its details or the start of its body, and the remedy.
fn example(cause: FailureCause, seen: &FailureReport) -> String {
    let body = seen
        .excerpt
        .as_deref()
        .map(|text| text.split_whitespace().collect::<Vec<_>>().join(" "));
    let status = seen.status.map(|status| status.to_string());
    let answer: Vec<String> = [status, seen.details.clone().or(body)]
        .into_iter()
        .flatten()
        .collect();
    let details = (!answer.is_empty()).then(|| answer.join(", "));
    explained(cause, details.as_deref(), seen.excerpt.as_deref())
}

/// Join the details of a failure and the remedy of its cause: `it expired 3days ago (renew ...)`.
/// Empty without any.
pub fn explained(cause: FailureCause, details: Option<&str>, excerpt: Option<&str>) -> String {
    match (details, remedy_in_words(cause, excerpt)) {
        (Some(details), Some(remedy)) => format!("{details} ({remedy})"),
        (Some(only), None) | (None, Some(only)) => only.to_owned(),
        (None, None) => String::new(),
    }
}
