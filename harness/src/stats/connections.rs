//! Counts of what the kernel says of connections (`TCP_INFO`), of connections that were closed, and
//! the parts of the response times of a sample.
//!
//! Recorded by the engine from the [readings](TcpReading) of the workload; merged by addition. It
//! must not judge what they mean.

use std::collections::BTreeMap;

use super::counters::by_number;
use super::table::counters;
use crate::sample::{ClosedBy, ClosedConnection, ErrorKind, Opened, Outcome, Sample, TcpReading};

counters! {
    /// Counts of readings of connections, of requests after the warm-up.
    #[derive(Copy)]
    pub struct TcpCounts {
        /// Good and not-found answers that took much longer than those before them: four times the
        /// running mean, or 100 ms more than that.
        slow: u64 as "slow",
        /// Slow answers that waited for a retransmission.
        slow_with_retransmit: u64 as "slow, waited for a retransmission",
        /// Slow answers to the first request of a connection that waited for a retransmission.
        first_with_retransmit: u64,
        /// First requests of a connection that timed out, and were never acknowledged.
        first_unacknowledged: u64,
        /// Requests that timed out, and that the kernel of the target, or of the proxy, had not
        /// acknowledged.
        timeouts_unacknowledged: u64 as "timed out, never acknowledged",
        /// Requests that timed out after that kernel had acknowledged them.
        timeouts_acknowledged: u64 as "timed out, acknowledged",
    }
}

impl TcpCounts {
    /// Count a reading of the connection of an attempt that ended.
    pub(crate) fn record(&mut self, sample: &Sample, reading: &TcpReading, nth: Option<u64>) {
        let (has_waited, is_first) = (u64::from(reading.retransmits > 0), nth == Some(1));
        match sample.attempt.outcome {
            outcome if outcome.is_answer() && reading.is_slow => {
                self.slow += 1;
                self.slow_with_retransmit += has_waited;
                self.first_with_retransmit += u64::from(is_first) * has_waited;
            }
            Outcome::Error(ErrorKind::Timeout) if reading.is_acknowledged => {
                self.timeouts_acknowledged += 1;
            }
            Outcome::Error(ErrorKind::Timeout) => {
                self.timeouts_unacknowledged += 1;
                self.first_unacknowledged += u64::from(is_first);
            }
            _ => {}
        }
    }
}

counters! {
    /// Connections that ended before the run did.
    pub struct ConnectionCounts {
        /// Connections that opened only after the kernel had sent something again.
        opened_after_retransmit: u64 as "opened after a retransmission",
        /// Closed by the target, which had said so (`connection: close`, GOAWAY).
        announced: u64 as "closed by the target as announced",
        /// Closed by the target without a word.
        target: u64 as "closed by the target unannounced",
        /// Closed by this client.
        client: u64 as "closed by this client",
        /// Connections that the target closed by the number of their requests, rounded down to
        /// three digits.
        #[serde(deserialize_with = "by_number")]
        requests: BTreeMap<u64, u64>,
        /// Connections whose target allowed fewer requests at once than were wanted, by how many.
        #[serde(deserialize_with = "by_number")]
        allowed: BTreeMap<u32, u64>,
    }
}

impl ConnectionCounts {
    /// Count a connection that was closed.
    pub(crate) fn record(&mut self, closed: ClosedConnection) {
        let ClosedConnection { by, requests } = closed;
        match by {
            ClosedBy::Announced => self.announced += 1,
            ClosedBy::Target => self.target += 1,
            ClosedBy::Client => {
                self.client += 1;
                return;
            }
        }
        *self.requests.entry(three_digits(requests)).or_default() += 1;
    }

    /// Count a connection that was opened.
    pub(crate) fn open(&mut self, opened: &Opened) {
        if let Some(allowed) = opened.allowed {
            *self.allowed.entry(allowed).or_default() += 1;
        }
    }

    /// The most requests of a connection that the target closed.
    #[must_use]
    pub fn most(&self) -> Option<u64> {
        self.requests.keys().next_back().copied()
    }

    /// The median number of requests of the connections that the target closed.
    #[must_use]
    pub fn median(&self) -> Option<u64> {
        let all: u64 = self.requests.values().sum();
        let mut seen = 0;
        self.requests
            .iter()
            .find(|(_, count)| {
                seen += *count;
                seen * 2 >= all
            })
            .map(|(requests, _)| *requests)
    }
}

/// Round down to three digits: it bounds the number of counts, and keeps a limit that somebody has
/// set.
fn three_digits(number: u64) -> u64 {
    let digits = number.checked_ilog10().unwrap_or(0);
    let unit = 10_u64.pow(digits.saturating_sub(2));
    number / unit * unit
}

counters! {
    /// Sums of the parts of the response times of a sample of the good and not-found answers.
    #[derive(Copy)]
    pub struct SplitSums {
        /// Answers of the sample.
        requests: u64,
        /// Response time, ns: the sum of the parts.
        response_ns: u64,
        /// Waits in this client before the request was sent, ns.
        client_queue_ns: u64,
        /// Shortest round trip of the connection, ns.
        network_ns: u64,
        /// First to last byte, without the time for which that lay unread, ns.
        body_ns: u64,
        /// Time for which the last byte lay unread in this client, ns.
        receive_delay_ns: u64,
        /// Answers whose target said what it took.
        reported: u64,
        /// Time that the target says it took, ns.
        reported_ns: u64,
    }
}

impl SplitSums {
    /// The parts of an answer on a connection with a round trip of `network_ns` that lay unread for
    /// `receive_delay_ns`. Of parts that claim more than there is, the later ones are cut.
    pub(crate) fn of(sample: &Sample, network_ns: u64, receive_delay_ns: Option<u64>) -> Self {
        let service_ns = sample.service_ns();
        let network_ns = network_ns.min(service_ns);
        let receive_delay_ns = receive_delay_ns.unwrap_or(0).min(service_ns - network_ns);
        let rest_ns = service_ns - network_ns - receive_delay_ns;
        let body_ns = sample
            .body_ns()
            .unwrap_or(0)
            .saturating_sub(receive_delay_ns)
            .min(rest_ns);
        let reported_ns = sample.attempt.advice.held_ns;
        Self {
            requests: 1,
            response_ns: sample.response_ns(),
            client_queue_ns: sample.response_ns() - service_ns,
            network_ns,
            body_ns,
            receive_delay_ns,
            reported: u64::from(reported_ns.is_some()),
            reported_ns: reported_ns.unwrap_or(0).min(rest_ns - body_ns),
        }
    }

    /// Time in the target until its first byte, ns: what is left of the sum.
    #[must_use]
    pub const fn target_ns(&self) -> u64 {
        self.response_ns
            .saturating_sub(self.client_queue_ns)
            .saturating_sub(self.network_ns)
            .saturating_sub(self.body_ns)
            .saturating_sub(self.receive_delay_ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::tests::any_sample;

    proptest! {
        #[test]
        fn the_parts_of_an_answer_add_up_whatever_is_claimed(
            mut sample in any_sample(), network in 0..1_u64 << 40, late in 0..1_u64 << 40, held in 0..1_u64 << 40,
        ) {
            sample.attempt.advice.held_ns = Some(held);
            let split = SplitSums::of(&sample, network, Some(late));
            prop_assert_eq!(split.client_queue_ns + sample.service_ns(), split.response_ns);
            prop_assert!(split.reported_ns <= split.target_ns());
            let parts = split.client_queue_ns + split.network_ns + split.body_ns + split.receive_delay_ns;
            prop_assert_eq!(parts + split.target_ns(), split.response_ns);
        }

        #[test]
        fn the_median_of_closed_connections_is_one_of_them_and_merging_is_adding(
            closed in prop::collection::vec(1..5_000_u64, 1..50), split in 0..50_usize,
        ) {
            let of = |some: &[u64]| {
                let mut counts = ConnectionCounts::default();
                for requests in some {
                    counts.record(ClosedConnection { by: ClosedBy::Target, requests: *requests });
                }
                counts
            };
            let (all, split) = (of(&closed), split.min(closed.len()));
            prop_assert_eq!(&of(&closed[..split]).plus(&of(&closed[split..])), &all);
            let mut sorted = closed.clone();
            sorted.sort_unstable();
            prop_assert_eq!(all.median(), Some(three_digits(sorted[(sorted.len() - 1) / 2])));
            prop_assert_eq!(all.most(), sorted.last().map(|most| three_digits(*most)));
        }
    }
}
