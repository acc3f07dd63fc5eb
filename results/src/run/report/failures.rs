//! Failed requests by cause, with the time of each and an example: `failures` in `result.json`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crawlmark_harness::stats::{Failure, Failures};
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
    /// Start of the first one's body, without the secrets of the request; null without a body.
    pub excerpt: Option<String>,
    /// Details of the first one: the rule that its answer broke, the part of its body that arrived,
    /// why TLS failed. Null without any.
    pub details: Option<String>,
}

impl FailureReport {
    /// Return the failures of a run by the key of their cause.
    pub(super) fn all(record: &RunRecord) -> BTreeMap<String, Self> {
        let mut failures = Failures::default();
        record
            .shards
            .iter()
            .for_each(|shard| failures.merge(&shard.failures));
        let since_start = |at: crawlmark_harness::clock::Nanos| at.since(record.start) as f64 / 1e9;
        let reported = failures.iter().map(|(cause, failure)| {
            let (first_s, last_s) = (since_start(failure.first), since_start(failure.last));
            let Failure {
                status,
                excerpt,
                details,
                ..
            } = failure.clone();
            (
                cause.key(),
                Self {
                    first_s,
                    last_s,
                    status,
                    excerpt,
                    details,
                },
            )
        });
        reported.collect()
    }
}
