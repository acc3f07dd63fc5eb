//! What the kernel says of the connections: network time, retransmissions, requests that were never
//! acknowledged; closed connections; the parts of the response times; the slowest requests.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latency::REPORTED;
use super::rfc3339;
use crawlmark_harness::clock::us;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{
    ConnectionCounts, Series, ShardStats, Slowest, SplitSums, TcpCounts,
};
use crawlmark_harness::supervisor::RunRecord;
use crawlmark_harness::trace::Traces;

/// Readings of the TCP connections (`TCP_INFO`): of requests that were slow, failed or timed out, and
/// of a sample of the others. Through a proxy, they end at the proxy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TcpReport {
    /// Median of the connections' shortest round trips, over the sample; null without a reading.
    pub min_rtt_us: Option<f64>,
    /// Counts.
    #[serde(flatten)]
    pub counts: TcpCounts,
    /// The 99th percentile of the service time.
    pub p99_us: Option<f64>,
    /// The same without the responses that waited for a retransmission.
    pub p99_without_us: Option<f64>,
}

impl TcpReport {
    pub(super) fn new(counts: TcpCounts, stats: &ShardStats) -> Self {
        let (p99, _) = REPORTED[2];
        let service = stats.timing(Series::ServiceOk);
        let waited = stats.timing(Series::ServiceRetransmitted);
        let without = service.zip(waited);
        let without = without.map(|(all, waited)| all.clone().without(waited));
        let p99_us = service.and_then(|all| all.percentile(p99).least_us());
        let network = stats.timing(Series::Network);
        Self {
            min_rtt_us: network.and_then(|network| network.percentile(0.5).least_us()),
            counts,
            p99_us,
            p99_without_us: without.map_or(p99_us, |some| some.percentile(p99).least_us()),
        }
    }
}

/// Connections that ended before the run did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionsReport {
    /// Connections that opened only after the kernel had sent something again.
    pub opened_after_retransmit: u64,
    /// Connections by the side that closed them.
    pub closed_by: ClosedBy,
    /// The most requests of a connection that the target closed, to three digits; null without one.
    pub served_max: Option<u64>,
    /// The median of them, to three digits; null without one.
    pub served_median: Option<u64>,
    /// The fewest streams that a target allowed on a connection of HTTP/2, if fewer than
    /// `--streams`; null otherwise.
    pub streams_allowed: Option<u32>,
}

/// Connections by the side that closed them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClosedBy {
    /// The target, which had said so (`connection: close`, GOAWAY).
    pub announced: u64,
    /// The target, without a word.
    pub target: u64,
    /// This client.
    pub client: u64,
}

impl From<&ConnectionCounts> for ConnectionsReport {
    fn from(counts: &ConnectionCounts) -> Self {
        Self {
            opened_after_retransmit: counts.opened_after_retransmit,
            closed_by: ClosedBy {
                announced: counts.announced,
                target: counts.target,
                client: counts.client,
            },
            served_max: counts.most(),
            served_median: counts.median(),
            streams_allowed: counts.allowed.keys().next().copied(),
        }
    }
}

/// Parts of the response time of good and not-found responses, means over a sample: they add up to
/// `response_us`, where `reported_us` is a part of `target_us`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Split {
    /// Responses of the sample.
    pub n: u64,
    /// Response time: scheduled to last byte read.
    pub response_us: f64,
    /// Waits in this client before the request was sent.
    pub client_queue_us: f64,
    /// Shortest round trip of the connection; through a proxy, to that.
    pub network_us: f64,
    /// What is left: in the target until its first byte, in its queues and those of the network.
    pub target_us: f64,
    /// Time that the target says it took (`Server-Timing`); null where it does not say.
    pub reported_us: Option<f64>,
    /// First to last byte.
    pub body_us: f64,
    /// Unread in this client.
    pub receive_delay_us: f64,
}

/// A part of the response time: its name, and its mean, µs; none where it is not known apart.
pub type SplitPart = (&'static str, fn(&Split) -> Option<f64>);

impl Split {
    /// The parts in the order of time. Those that are known add up to the response time.
    pub const PARTS: [SplitPart; 7] = [
        ("client queue", |it| Some(it.client_queue_us)),
        ("network", |it| Some(it.network_us)),
        ("target", |it| {
            it.reported_us.is_none().then_some(it.target_us)
        }),
        ("in front of the handler", |it| {
            Some((it.target_us - it.reported_us?).max(0.0))
        }),
        ("handler", |it| Some(it.reported_us?.min(it.target_us))),
        ("body", |it| Some(it.body_us)),
        ("read late", |it| Some(it.receive_delay_us)),
    ];

    /// The means of sums; none of an empty sample.
    pub(super) fn of(sums: &SplitSums) -> Option<Self> {
        let n = sums.requests;
        let of = n as f64;
        (n > 0).then(|| Self {
            n,
            response_us: us(sums.response_ns) / of,
            client_queue_us: us(sums.client_queue_ns) / of,
            network_us: us(sums.network_ns) / of,
            target_us: us(sums.target_ns()) / of,
            reported_us: (sums.reported > 0).then(|| us(sums.reported_ns) / sums.reported as f64),
            body_us: us(sums.body_ns) / of,
            receive_delay_us: us(sums.receive_delay_ns) / of,
        })
    }
}

/// A request among the slowest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowRow {
    /// Its ID.
    pub id: u64,
    /// Its number among the attempts of its item, from 1 on.
    pub attempt: u32,
    /// Its trace id; null where none was sent.
    pub trace_id: Option<String>,
    /// True if it asked the target to record its trace. Absent where no trace id was sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recorded: Option<bool>,
    /// Scheduled time, s after the common start.
    pub at_s: f64,
    /// Scheduled time, RFC 3339, UTC.
    pub at: String,
    /// Scheduled to its end.
    pub response_us: f64,
    /// Sent to its end; null of a request that was not sent.
    pub service_us: Option<f64>,
    /// Waits in this client before it was sent.
    pub queue_us: f64,
    /// Sent to its first byte; null without a response.
    pub ttfb_us: Option<f64>,
    /// Its number among the requests of its connection, from 1 on.
    pub nth_on_connection: Option<u64>,
    /// TCP segments sent again that it may have waited for; null where the connection was not read.
    pub retransmits: Option<u32>,
    /// Its outcome, as `--save` has it.
    pub outcome: String,
    /// Status of its response.
    pub status: Option<u16>,
}

impl SlowRow {
    /// The slowest requests of a run, the slowest first.
    pub(super) fn all(plan: &RunPlan, record: &RunRecord) -> Vec<Self> {
        let traces = Traces::of(plan);
        let mut slowest = Slowest::default();
        for shard in &record.shards {
            slowest.merge(&shard.slowest);
        }
        let rows = slowest.iter().map(|request| {
            let since_start = Duration::from_nanos(request.intended.since(record.start));
            let service_ns = request.service_ns.unwrap_or(0);
            let trace = traces.map(|traces| traces.request(request.id, request.attempt));
            Self {
                id: request.id,
                attempt: request.attempt + 1,
                trace_id: trace.map(|trace| trace.trace_id()),
                recorded: trace.map(|trace| trace.is_recorded),
                at_s: since_start.as_secs_f64(),
                at: rfc3339(record.started_at + since_start),
                response_us: us(request.response_ns),
                service_us: request.service_ns.map(us),
                queue_us: us(request.response_ns.saturating_sub(service_ns)),
                ttfb_us: request.ttfb_ns.map(us),
                nth_on_connection: request.nth,
                retransmits: request.retransmits,
                outcome: request.outcome.name().to_owned(),
                status: request.status,
            }
        });
        rows.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parts_that_are_known_add_up_to_the_response_time(
            parts in prop::array::uniform5(0..1_u64 << 30), reported in 0..3_u64, held in 0..1_u64 << 30,
        ) {
            let sums = SplitSums {
                requests: 3,
                response_ns: parts.iter().sum(),
                client_queue_ns: parts[0],
                network_ns: parts[1],
                body_ns: parts[2],
                receive_delay_ns: parts[3],
                reported,
                reported_ns: held,
            };
            let split = Split::of(&sums).unwrap();
            let known: Vec<f64> = Split::PARTS.iter().filter_map(|(_, of)| of(&split)).collect();
            prop_assert!(known.iter().all(|us| *us >= -1e-6));
            let sum: f64 = known.iter().sum();
            prop_assert!((sum - split.response_us).abs() <= 1e-9 * split.response_us + 1e-6);
        }
    }
}
