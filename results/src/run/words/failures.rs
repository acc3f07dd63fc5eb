//! Failed requests of a run, and their causes.

use std::cmp::Reverse;

use crate::run::report::{Report, WarmUpReport, error_in_words, status_in_words};
use crate::show::text::grouped;
use crawlmark_harness::stats::Counters;

/// Causes that are listed at most.
const MOST: usize = 4;

/// Counts after the warm-up.
fn measured(report: &Report) -> Counters {
    WarmUpReport::measured(report.warmup.as_ref(), &report.ledger.items, &report.totals.requests)
}

/// Failed requests after the warm-up, as a part of all of them; none without a request.
pub(super) fn failed_share(report: &Report) -> Option<f64> {
    let Counters { items, requests } = measured(report);
    (requests.attempts > 0).then(|| requests.failed(&items) as f64 / requests.attempts as f64)
}

/// Causes of the failures after the warm-up, the commonest first.
pub(super) fn causes(report: &Report) -> Vec<(String, u64)> {
    let requests = measured(report).requests;
    let rejected = requests.rejected_by_status.iter().map(|(status, n)| (status_in_words(*status), *n));
    let errors = requests.errors_by_kind.iter().map(|(kind, n)| (error_in_words(*kind), *n));
    let challenges = ("challenge pages".to_owned(), requests.soft_blocked);
    let mut causes: Vec<(String, u64)> = rejected.chain(errors).chain([challenges]).filter(|(_, n)| *n > 0).collect();
    causes.sort_by_key(|(_, n)| Reverse(*n));
    causes
}

/// `2,519 connection refused, 3 status 500`; none without failures.
pub(super) fn causes_in_words(report: &Report) -> Option<String> {
    let causes = causes(report);
    let rest: u64 = causes.iter().skip(MOST).map(|(_, n)| n).sum();
    let others = (rest > 0).then(|| ("others".to_owned(), rest));
    let listed: Vec<String> =
        causes.into_iter().take(MOST).chain(others).map(|(cause, n)| format!("{} {cause}", grouped(n))).collect();
    (!listed.is_empty()).then(|| listed.join(", "))
}
