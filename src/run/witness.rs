//! The second witness: what the bundled target counted, beside what the crawl counted.

use std::collections::BTreeMap;

use crawlmark_harness::report::{Report, Witness};
use crawlmark_mock_server::Ledger;

/// Compares the report with the target's books.
///
/// What was cut off (aborted, timed out, lost with its shard) may or may not have reached the target, and of what the
/// target answered some may not have been read; only there may the two differ, and only by that much.
pub(super) fn compare(report: &Report, books: &Ledger) -> Witness {
    let mut differences = Vec::new();
    let totals = &report.totals;
    let errors = |kind: &str| totals.errors_by_kind.get(kind).copied().unwrap_or(0);
    let cut_off = report.ledger.aborted + report.ledger.lost + errors("timeout");
    let mut check = |what: &str, ours: u64, theirs: u64| {
        if ours.abs_diff(theirs) > cut_off {
            differences.push(format!("{what}: {ours} here, {theirs} there"));
        }
    };
    check("requests", totals.attempts_sent, books.requests);
    let sent_items = totals.attempts_sent - totals.retries.min(totals.attempts_sent);
    check("different IDs", sent_items, books.unique_ids);
    check("IDs asked for again", totals.attempts_sent - sent_items, books.duplicate_ids);
    let mut statuses: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (status, count) in &totals.attempts_by_status {
        statuses.entry(status.clone()).or_default().0 = *count;
    }
    for (status, count) in &books.by_status {
        statuses.entry(status.to_string()).or_default().1 = *count;
    }
    for (status, (ours, theirs)) in statuses {
        check(&format!("status {status}"), ours, theirs);
    }
    Witness {
        agrees: differences.is_empty(),
        differences,
        ledger: serde_json::to_value(books).unwrap_or(serde_json::Value::Null),
    }
}
