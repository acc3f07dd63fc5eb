//! Comparison of the bundled target's own counts with those of the crawl.

use std::collections::BTreeMap;

use crawlmark_harness::sample::ErrorKind;
use crawlmark_mock_server::{KeepAlive, Ledger};
use crawlmark_results::run::report::{Report, ShardReport, Witness};

/// The name in the target's counts of heads that may be longer than the crawl reads.
const HUGE_HEADERS: &str = "huge_headers";

/// Statuses with which a proxy responds itself.
const OF_PROXIES: [u16; 6] = [401, 403, 407, 502, 503, 504];

/// Compares the report with the target's counts.
///
/// What was cut off (aborted, timed out) may or may not have reached the target, and of what the
/// target answered some may not have been read: there the two may differ, by that many and no more.
/// The target never sees a request or a connection that is not counted here: both count from when
/// they are sent and open. The same is true of the status of an answer whose head was longer than
/// the crawl reads, as a fault of the target makes it. What was sent on a connection that a limit
/// of the target refused, or that it closed without an announcement, never arrived, and what found no connection was not sent: if it was tried
/// again, the target saw the item for the first time. A connection is in the target's counts with
/// its first request, so one whose first request was held back until the end is not. A shard that
/// died has not told what it sent, so nothing can be compared then. IDs are compared as far as the
/// target tracks them. A proxy opens connections of its own, which are not compared then, and may
/// refuse a request itself.
pub(crate) fn compare(report: &Report, ledger: &Ledger) -> Witness {
    let totals = &report.totals;
    let cut_off = report.ledger.aborted + totals.errors_of(ErrorKind::Timeout);
    let huge_heads = ledger.faults.get(HUGE_HEADERS).copied().unwrap_or(0);
    let unread_heads = huge_heads.min(totals.errors_of(ErrorKind::Malformed));
    let is_proxied = report.plan.run.workload.proxy.is_some();
    let by_proxy: BTreeMap<u16, u64> = totals
        .attempts_by_status
        .iter()
        .filter(|(status, _)| is_proxied && OF_PROXIES.contains(status))
        .map(|(status, count)| (*status, *count))
        .collect();
    let refused_by_proxy = by_proxy.values().sum::<u64>() + totals.errors_of(ErrorKind::ProxyAuth);
    let unreceived = closed_before_receipt(report, ledger) + refused_by_proxy;
    let (unsent, unused) = (
        totals.attempts.saturating_sub(totals.attempts_sent),
        totals.connections_unused,
    );
    let mut differences = Vec::new();
    let mut check = |what: &str, (ours, theirs): (u64, u64), (fewer, more): (u64, u64)| {
        if ours > theirs + cut_off + fewer || theirs > ours + more {
            differences.push(format!("{what}: {ours} here, {theirs} there"));
        }
    };
    check(
        "requests",
        (totals.attempts_sent, ledger.requests),
        (unreceived, 0),
    );
    if !is_proxied {
        check(
            "connections",
            (totals.connections_opened, ledger.connections),
            (unreceived + unsent + unused, 0),
        );
    }
    if ledger.uniqueness_exact {
        let items = totals.attempts_sent.saturating_sub(totals.retries);
        check(
            "different IDs",
            (items, ledger.unique_ids),
            (unreceived, cut_off + unsent),
        );
        check(
            "IDs asked for again",
            (totals.retries, ledger.duplicate_ids),
            (unreceived + unsent, cut_off),
        );
    }
    for (status, both) in statuses(report, ledger) {
        check(
            &format!("status {status}"),
            both,
            (
                by_proxy.get(&status).copied().unwrap_or(0),
                cut_off + unread_heads,
            ),
        );
    }
    let whole = report.shards.iter().all(ShardReport::is_whole);
    Witness {
        agrees: whole.then_some(differences.is_empty()),
        cut_off,
        differences: if whole { differences } else { Vec::new() },
        ledger: serde_json::to_value(ledger).unwrap_or(serde_json::Value::Null),
    }
}

/// Requests that never arrived: sent on connections that a limit of the target refused, or that it
/// closed without an announcement.
fn closed_before_receipt(report: &Report, ledger: &Ledger) -> u64 {
    let closed_silently = report
        .plan
        .run
        .workload
        .bundled
        .as_ref()
        .and_then(|bundled| bundled.target_keep_alive.parse::<KeepAlive>().ok())
        .filter(|limit| limit.is_silent)
        .map_or(0, |_| ledger.connections);
    let totals = &report.totals;
    (ledger.connections_refused + closed_silently)
        .min(totals.errors_of(ErrorKind::Closed) + totals.errors_of(ErrorKind::Reset))
}

/// Responses by status: those of the client, and those of the target.
fn statuses(report: &Report, ledger: &Ledger) -> BTreeMap<u16, (u64, u64)> {
    let mut statuses: BTreeMap<u16, (u64, u64)> = BTreeMap::new();
    for (status, count) in &report.totals.attempts_by_status {
        statuses.entry(*status).or_default().0 = *count;
    }
    for (status, count) in &ledger.by_status {
        statuses.entry(*status).or_default().1 = *count;
    }
    statuses
}
