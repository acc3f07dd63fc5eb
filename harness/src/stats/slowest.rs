//! The slowest requests, by name.
//!
//! Recorded by the engine, merged by the report. A request is first compared with the quickest of
//! those that are kept, so that nearly all cost one comparison.

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::sample::{Outcome, Sample, TcpReading};

/// Number of requests that are kept.
pub const MOST_SLOWEST: usize = 20;

/// Number of those whose traces the target was asked to record that are kept beside them.
const MOST_RECORDED: usize = 5;

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

/// The slowest requests, the slowest first: of all, and of those with a recorded trace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slowest {
    all: Vec<SlowRequest>,
    recorded: Vec<SlowRequest>,
    /// The least response time of a request that may be kept.
    from_ns: u64,
}

impl Slowest {
    /// True if a request with this response time may be kept.
    pub(crate) const fn takes(&self, response_ns: u64) -> bool {
        response_ns >= self.from_ns
    }

    /// Keep the request of an attempt that ended if it is among the slowest. Users know it by `id`,
    /// and it was the `nth` of its connection, which may have been read. `is_recorded` is none in a
    /// run whose traces are not recorded.
    pub(crate) fn record(
        &mut self,
        sample: &Sample,
        id: u64,
        is_recorded: Option<bool>,
        nth: Option<u64>,
        reading: Option<&TcpReading>,
    ) {
        let is_sent = sample.attempt.sent.is_some();
        let request = SlowRequest {
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
        };
        if is_recorded == Some(true) {
            add(&mut self.recorded, request.clone(), MOST_RECORDED);
        }
        add(&mut self.all, request, MOST_SLOWEST);
        self.from_ns = least(&self.all, MOST_SLOWEST);
        if is_recorded.is_some() {
            self.from_ns = self.from_ns.min(least(&self.recorded, MOST_RECORDED));
        }
    }

    /// Merge with those of another shard.
    pub fn merge(&mut self, other: &Self) {
        for request in &other.all {
            add(&mut self.all, request.clone(), MOST_SLOWEST);
        }
        for request in &other.recorded {
            add(&mut self.recorded, request.clone(), MOST_RECORDED);
        }
    }

    /// The requests, the slowest first, and then those of the slowest with a recorded trace that are
    /// not among them.
    pub fn iter(&self) -> impl Iterator<Item = &SlowRequest> {
        let others = self
            .recorded
            .iter()
            .filter(|request| !self.all.contains(request));
        self.all.iter().chain(others)
    }

    /// Move all moments to another clock.
    pub(crate) fn shift(&mut self, clock: impl Fn(Nanos) -> Nanos) {
        for request in self.all.iter_mut().chain(&mut self.recorded) {
            request.intended = clock(request.intended);
        }
    }
}

/// Add a request to the slowest, of which so many are kept.
fn add(slowest: &mut Vec<SlowRequest>, request: SlowRequest, most: usize) {
    let at = slowest.partition_point(|kept| {
        (kept.response_ns, request.intended, request.id)
            >= (request.response_ns, kept.intended, kept.id)
    });
    if at < most {
        slowest.truncate(most - 1);
        slowest.insert(at, request);
    }
}

/// Return the least response time of a request that is to be kept.
fn least(slowest: &[SlowRequest], most: usize) -> u64 {
    most.checked_sub(1)
        .and_then(|last| slowest.get(last))
        .map_or(0, |quickest| quickest.response_ns.saturating_add(1))
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
            is_traced: bool,
        ) {
            let is_recorded = |sample: &Sample| sample.permit.id.is_multiple_of(3);
            let mut shards = vec![Slowest::default(); 4];
            for (sample, shard) in &samples {
                if shards[*shard].takes(sample.response_ns()) {
                    let is_recorded = is_traced.then(|| is_recorded(sample));
                    shards[*shard].record(sample, sample.permit.id, is_recorded, Some(1), None);
                }
            }
            shards.rotate_left(first);
            let mut merged = Slowest::default();
            for shard in &shards {
                merged.merge(shard);
            }
            let slowest = |of: &dyn Fn(&Sample) -> bool, most| {
                let mut times: Vec<u64> = samples.iter().map(|(sample, _)| sample).filter(|sample| of(sample)).map(Sample::response_ns).collect();
                times.sort_unstable_by(|a, b| b.cmp(a));
                times.truncate(most);
                times
            };
            let kept = |of: &[SlowRequest]| of.iter().map(|request| request.response_ns).collect::<Vec<_>>();
            prop_assert_eq!(kept(&merged.all), slowest(&|_| true, MOST_SLOWEST));
            prop_assert_eq!(kept(&merged.recorded), slowest(&|it| is_traced && is_recorded(it), MOST_RECORDED));
            prop_assert!(merged.recorded.iter().all(|kept| merged.iter().any(|it| it == kept)));
            prop_assert!(merged.iter().all(|kept| samples.iter().any(|(sample, _)| sample.permit.id == kept.id)));
        }
    }
}
