//! Failed requests by cause: `failures` in `result.json`, with the time of each and an example.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crawlmark_harness::clock::seconds;
use crawlmark_harness::stats::{FailureCause, Failures, RequestCounts};
use crawlmark_harness::supervisor::RunRecord;

/// Failed requests of one cause.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FailureReport {
    /// End of the first one, since the common start.
    pub first_s: f64,
    /// End of the last one, since the common start.
    pub last_s: f64,
    /// Status of the first one's answer; null without an answer.
    pub status: Option<u16>,
    /// Start of the first one's body, behind the `Location` of a redirect, without the secrets of the
    /// request; null without either.
    pub excerpt: Option<String>,
    /// Details of the first one: the rule that its answer broke, the part of its body that arrived,
    /// why TLS failed. Null without any.
    pub details: Option<String>,
}

impl FailureReport {
    /// Return the failures of a run by the key of their cause.
    pub(super) fn all(record: &RunRecord) -> BTreeMap<String, Self> {
        let mut failures = Failures::default();
        for shard in &record.shards {
            failures.merge(&shard.failures);
        }
        failures
            .iter()
            .map(|(cause, failure)| {
                let reported = Self {
                    first_s: seconds(failure.first.since(record.start)),
                    last_s: seconds(failure.last.since(record.start)),
                    status: failure.status,
                    excerpt: failure.excerpt.clone(),
                    details: failure.details.clone(),
                };
                (cause.key(), reported)
            })
            .collect()
    }
}

/// Failed requests by cause, the commonest first.
pub fn failures(requests: &RequestCounts) -> Vec<(FailureCause, u64)> {
    let rejected = requests
        .rejected_by_status
        .iter()
        .map(|(status, n)| (FailureCause::Status(*status), *n));
    let errors = requests
        .errors_by_kind
        .iter()
        .map(|(kind, n)| (FailureCause::Error(*kind), *n));
    let challenges = (FailureCause::Challenge, requests.soft_blocked);
    let mut causes: Vec<_> = rejected
        .chain(errors)
        .chain([challenges])
        .filter(|(_, n)| *n > 0)
        .collect();
    causes.sort_by_key(|(_, n)| Reverse(*n));
    causes
}
