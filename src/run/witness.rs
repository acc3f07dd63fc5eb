//! The second witness: what the bundled target counted, beside what the crawl counted.

use std::collections::BTreeMap;

use crawlmark_harness::report::{Report, Witness};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_mock_server::Ledger;

/// Compares the report with the target's books.
///
/// What was cut off (aborted, timed out) may or may not have reached the target, and of what the target answered some
/// may not have been read: there the two may differ, by that many and no more. A shard that died has not told what it
/// sent, so nothing can be compared then. IDs are compared as far as the target tracks them.
pub(super) fn compare(report: &Report, books: &Ledger) -> Witness {
    let totals = &report.totals;
    let timed_out = totals.errors_by_kind.get(ErrorKind::Timeout.name()).copied().unwrap_or(0);
    let cut_off = report.ledger.aborted + timed_out;
    let mut differences = Vec::new();
    let mut check = |what: &str, ours: u64, theirs: u64| {
        if ours.abs_diff(theirs) > cut_off {
            differences.push(format!("{what}: {ours} here, {theirs} there"));
        }
    };
    check("requests", totals.attempts_sent, books.requests);
    if books.uniqueness_exact {
        let items = totals.attempts_sent.saturating_sub(totals.retries);
        check("different IDs", items, books.unique_ids);
        check("IDs asked for again", totals.attempts_sent - items, books.duplicate_ids);
    }
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
    let whole = report.shards.iter().all(|shard| shard.fault.is_none());
    Witness {
        agrees: whole.then_some(differences.is_empty()),
        cut_off,
        differences: if whole { differences } else { Vec::new() },
        ledger: serde_json::to_value(books).unwrap_or(serde_json::Value::Null),
    }
}
