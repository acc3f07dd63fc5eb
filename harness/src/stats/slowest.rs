//! The slowest requests, by name.
//!
//! Recorded by the engine, merged by the report. A request is first compared with the quickest of
//! those that are kept, so that nearly all cost one comparison.

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::sample::{Outcome, Sample, TcpReading};

/// Number of requests that are kept.
pub const MOST_SLOWEST: usize = 20;

/// A request among the slowest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlowRequest {
    /// Response time, ns.
    pub response_ns: u64,
    /// Time for which it was in flight, ns; none of one that was not sent.
    pub service_ns: Option<u64>,
    /// Time to its first byte, ns.
    pub ttfb_ns: Option<u64>,
    /// Scheduled time.
    pub intended: Nanos,
    /// The ID, as users know it.
    pub id: u64,
    /// Number of earlier attempts of its item.
    pub attempt: u32,
    /// Its number among the requests of its connection, from 1 on.
    pub nth: Option<u64>,
    /// Segments sent again that it may have waited for; none where the connection was not read.
    pub retransmits: Option<u32>,
    /// Its outcome.
    pub outcome: Outcome,
    /// Status of its answer.
    pub status: Option<u16>,
}

/// The slowest requests, the slowest first.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slowest(Vec<SlowRequest>);

impl Slowest {
    /// True if a request with this response time is to be kept.
    pub(crate) fn takes(&self, response_ns: u64) -> bool {
        self.0.len() < MOST_SLOWEST
            || self
                .0
                .last()
                .is_some_and(|quickest| response_ns > quickest.response_ns)
    }

    /// Keep the request of an attempt that ended, which users know by `id`; it was the `nth` of its
    /// connection, which may have been read.
    pub(crate) fn record(
        &mut self,
        sample: &Sample,
        id: u64,
        nth: Option<u64>,
        reading: Option<&TcpReading>,
    ) {
        let is_sent = sample.attempt.sent.is_some();
        self.add(SlowRequest {
            response_ns: sample.response_ns(),
            service_ns: is_sent.then(|| sample.service_ns()),
            ttfb_ns: sample.ttfb_ns(),
            intended: sample.permit.intended,
            id,
            attempt: sample.permit.attempt,
            nth: nth.filter(|_| is_sent),
            retransmits: reading.map(|reading| reading.retransmits),
            outcome: sample.attempt.outcome,
            status: sample.attempt.status,
        });
    }

    fn add(&mut self, request: SlowRequest) {
        let at = self.0.partition_point(|kept| {
            (kept.response_ns, request.intended, request.id)
                >= (request.response_ns, kept.intended, kept.id)
        });
        self.0.insert(at, request);
        self.0.truncate(MOST_SLOWEST);
    }

    /// Merge with those of another shard.
    pub fn merge(&mut self, other: &Self) {
        for request in &other.0 {
            self.add(request.clone());
        }
    }

    /// The requests, the slowest first.
    pub fn iter(&self) -> impl Iterator<Item = &SlowRequest> {
        self.0.iter()
    }

    /// Move all moments to another clock.
    pub(crate) fn shift(&mut self, clock: impl Fn(Nanos) -> Nanos) {
        for request in &mut self.0 {
            request.intended = clock(request.intended);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::tests::any_sample;

    proptest! {
        #[test]
        fn the_slowest_of_all_are_kept_however_they_are_dealt_out_to_shards(
            samples in prop::collection::vec((any_sample(), 0..4_usize), 0..200), first in 0..4_usize,
        ) {
            let mut shards = vec![Slowest::default(); 4];
            for (sample, shard) in &samples {
                if shards[*shard].takes(sample.response_ns()) {
                    shards[*shard].record(sample, sample.permit.id, Some(1), None);
                }
            }
            shards.rotate_left(first);
            let mut merged = Slowest::default();
            for shard in &shards {
                merged.merge(shard);
            }
            let mut times: Vec<u64> = samples.iter().map(|(sample, _)| sample.response_ns()).collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            times.truncate(MOST_SLOWEST);
            let kept: Vec<u64> = merged.iter().map(|request| request.response_ns).collect();
            prop_assert_eq!(kept, times);
            prop_assert!(merged.iter().all(|kept| samples.iter().any(|(sample, _)| sample.permit.id == kept.id)));
        }
    }
}
