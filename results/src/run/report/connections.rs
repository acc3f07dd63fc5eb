//! What the kernel says of the connections: network time, retransmissions, requests that were never
//! acknowledged; closed connections; the parts of the response times; the slowest requests.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::latency::REPORTED;
use super::{rfc3339, share};
use crawlmark_harness::clock::us;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{
    ConnectionCounts, Series, ShardStats, SlowRequest, Slowest, SplitSums, TcpCounts,
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
        let without = service
            .zip(waited)
            .map(|(all, waited)| all.clone().without(waited));
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

/// Parts of the mean response time of good and not-found responses: they add up to `response_us`,
/// where `reported_us` is a part of `target_us`. Of a second, means over a sample; of a run, means
/// over all responses, which the sample is calibrated to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    /// Interval of each part that holds its mean with 95 %, us, by its name; absent of a second.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub intervals: BTreeMap<String, [f64; 2]>,
}

/// Responses of a sample below which it is not shown: a single slow one may be most of its mean.
const LEAST_SAMPLE: u64 = 50;

/// Quantiles of Student's distribution for intervals of 95 %, from one degree of freedom on. The
/// last one serves all higher ones.
const T: [f64; 9] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262,
];

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
            intervals: BTreeMap::new(),
        })
    }

    fn service_us(&self) -> f64 {
        self.response_us - self.client_queue_us
    }

    /// Deviations of the sums of a part in these seconds from those of its mean.
    fn deviations(&self, seconds: &[&Self], part: impl Fn(&Self) -> Option<f64>) -> Vec<f64> {
        let mean = part(self).unwrap_or(0.0);
        seconds
            .iter()
            .map(|it| it.n as f64 * (part(it).unwrap_or(mean) - mean))
            .collect()
    }

    /// Move the means of the sample of some seconds to those of all responses, whose mean service
    /// time is `service_us`, and whose mean response time, if it is measured, is `response_us`. None
    /// of a sample that is too small for an interval.
    ///
    /// Each part moves by its regression on the service time over the seconds, so that they add up
    /// (Deville and Sarndal 1992, *Calibration estimators in survey sampling*, JASA 87). Its interval
    /// spans two, by the deviations of the seconds: that of its own sample, and what the others'
    /// leave of the mean of all. Where rare responses that are not in the sample spent their time in
    /// one part, one of the two is right.
    pub(super) fn calibrated(
        &self,
        seconds: &[&Self],
        service_us: f64,
        response_us: Option<f64>,
    ) -> Option<Self> {
        let count = seconds.len();
        if self.n < LEAST_SAMPLE || count < 2 {
            return None;
        }
        let by_service = self.deviations(seconds, |it| Some(it.service_us()));
        let squares: f64 = by_service.iter().map(|it| it * it).sum();
        let missed_us = service_us - self.service_us();
        let moved = |part: fn(&Self) -> f64| {
            let own = self.deviations(seconds, |it| Some(part(it)));
            let product: f64 = own.iter().zip(&by_service).map(|(a, b)| a * b).sum();
            let slope = if squares > 0.0 {
                product / squares
            } else {
                share(part(self), self.service_us())
            };
            (part(self) + slope * missed_us).max(0.0)
        };
        let parts = [
            moved(|it| it.network_us),
            moved(|it| it.target_us),
            moved(|it| it.body_us),
            moved(|it| it.receive_delay_us),
        ];
        let [network_us, target_us, body_us, receive_delay_us] =
            parts.map(|us| us * share(service_us, parts.iter().sum()));
        let client_queue_us =
            response_us.map_or(self.client_queue_us, |us| (us - service_us).max(0.0));
        let mut all = Self {
            response_us: client_queue_us + service_us,
            client_queue_us,
            network_us,
            target_us,
            reported_us: self
                .reported_us
                .map(|us| us * share(target_us, self.target_us)),
            body_us,
            receive_delay_us,
            ..self.clone()
        };
        let t = T[(count - 2).min(T.len() - 1)];
        for (at, (name, part)) in Self::PARTS.into_iter().enumerate() {
            let (Some(us), Some(sampled_us)) = (part(&all), part(self)) else {
                continue;
            };
            let own = self.deviations(seconds, part);
            let others = by_service.iter().zip(&own).map(|(all, own)| all - own);
            let [others_us, own_us] = [others.collect(), own].map(|deviations: Vec<f64>| {
                let squares: f64 = deviations.iter().map(|it| it * it).sum();
                t * (squares * count as f64 / (count - 1) as f64).sqrt() / self.n as f64
            });
            // What waited in the client is no part of the service time.
            let (below_us, above_us) = match (at, response_us) {
                (0, Some(_)) => (us - sampled_us, us - sampled_us),
                (0, None) => (-own_us, own_us),
                _ => (
                    f64::min(-own_us, missed_us - others_us),
                    f64::max(own_us, missed_us + others_us),
                ),
            };
            let low = (sampled_us + below_us).max(0.0).min(us);
            let high = (sampled_us + above_us).min(all.response_us).max(us);
            all.intervals.insert(name.replace(' ', "_"), [low, high]);
        }
        Some(all)
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
        slowest
            .iter()
            .map(|request| Self::of(request, record, traces))
            .collect()
    }

    fn of(request: &SlowRequest, record: &RunRecord, traces: Option<Traces>) -> Self {
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

    /// One response in 64 of ten seconds, of a target of a skewed time, some of which lay unread
    /// for long: the parts of the sample, and the means of all.
    fn sampled(draw: &mut fastrand::Rng, late_one_in: u32) -> (Option<Split>, [f64; 4]) {
        let (mut all, mut whole) = (SplitSums::default(), SplitSums::default());
        let mut seconds = Vec::new();
        for _ in 0..10 {
            let mut second = SplitSums::default();
            for _ in 0..1_500 {
                let target = 200_000 + draw.u64(0..400_000) * draw.u64(0..3);
                let is_late = draw.u32(0..late_one_in) == 0;
                let late = if is_late {
                    draw.u64(10_000_000..40_000_000)
                } else {
                    draw.u64(5_000..30_000)
                };
                let (network, body) = (draw.u64(20_000..40_000), draw.u64(0..50_000));
                let one = SplitSums {
                    requests: 1,
                    response_ns: target + late + network + body,
                    network_ns: network,
                    body_ns: body,
                    receive_delay_ns: late,
                    ..SplitSums::default()
                };
                all.merge(&one);
                if draw.u32(0..64) == 0 {
                    second.merge(&one);
                }
            }
            whole.merge(&second);
            seconds.extend(Split::of(&second));
        }
        let truth = Split::of(&all).unwrap();
        let seconds: Vec<&Split> = seconds.iter().collect();
        let split = Split::of(&whole)
            .unwrap()
            .calibrated(&seconds, truth.response_us, None);
        (
            split,
            [
                truth.network_us,
                truth.target_us,
                truth.body_us,
                truth.receive_delay_us,
            ],
        )
    }

    #[test]
    fn a_sample_agrees_with_all_responses_and_each_part_is_in_its_interval() {
        let mut draw = fastrand::Rng::with_seed(54);
        // Late ones that the sample has none, one or several of.
        for late_one_in in [20_000, 3_000, 600, 60] {
            let (mut missed, mut of) = (0, 0);
            for _ in 0..100 {
                let (split, truth) = sampled(&mut draw, late_one_in);
                let split = split.unwrap();
                let sum: f64 = truth.iter().sum();
                assert!((split.response_us - sum).abs() < 1e-6 * sum);
                let known: f64 = Split::PARTS.iter().filter_map(|(_, of)| of(&split)).sum();
                assert!((known - sum).abs() < 1e-6 * sum);
                for (_, us) in Split::PARTS {
                    let Some(us) = us(&split) else { continue };
                    assert!(
                        split
                            .intervals
                            .values()
                            .any(|[low, high]| *low <= us && us <= *high)
                    );
                }
                for (name, us) in ["network", "target", "body", "read_late"].iter().zip(truth) {
                    let [low, high] = split.intervals[*name];
                    missed += u32::from(us < low || us > high);
                    of += 1;
                }
            }
            // Of 5 %, and four standard deviations of so few.
            assert!(
                missed <= of * 5 / 100 + of * 4 / 100,
                "{missed} of {of}, late {late_one_in}"
            );
        }
    }

    #[test]
    fn a_small_sample_or_one_of_a_single_second_has_no_parts() {
        let of = |requests| {
            Split::of(&SplitSums {
                requests,
                response_ns: requests * 1_000_000,
                ..SplitSums::default()
            })
            .unwrap()
        };
        let shown = |each: u64, seconds: usize| {
            let second = of(each);
            let all = of(each * seconds as u64);
            all.calibrated(&vec![&second; seconds], 1_000.0, None)
                .is_some()
        };
        assert_eq!(
            [shown(25, 2), shown(24, 2), shown(10, 5), shown(60, 1)],
            [true, false, true, false]
        );
    }
}
