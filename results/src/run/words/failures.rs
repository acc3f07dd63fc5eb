//! Failed requests of a run by cause.

use std::cmp::Reverse;

use crate::run::report::{Report, cause_in_words, failures, listed, remedy_in_words};
use crawlmark_harness::stats::{Counters, FailureCause};

/// Name of the cause of requests that had no answer when the run ended.
pub(super) const CUT_OFF: &str = "cut off at the end";

/// Errors after the warm-up, those that were cut off included, as a part of all requests; none
/// without a request.
pub(crate) fn error_share(report: &Report) -> Option<f64> {
    let counted = report.measured();
    let attempts = counted.requests.attempts;
    (attempts > 0).then(|| counted.errors() as f64 / attempts as f64)
}

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

/// `2,519 connection refused, 3 × status 500`, of the errors after the warm-up; none without any.
pub(super) fn causes_in_words(report: &Report) -> Option<String> {
    Some(listed(errors(&report.measured()))).filter(|causes| !causes.is_empty())
}

/// Join the details of a failure and the remedy of its cause: `it expired 3days ago (renew ...)`.
/// Empty without any.
pub fn explained(cause: FailureCause, details: Option<&str>, excerpt: Option<&str>) -> String {
    let remedy = remedy_in_words(cause, excerpt).map(|remedy| format!("({remedy})"));
    details
        .map(str::to_owned)
        .into_iter()
        .chain(remedy)
        .collect::<Vec<_>>()
        .join(" ")
}
