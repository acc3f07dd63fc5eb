//! Checks of an open loop: requests went when they were due, and the response times are the
//! target's.

use super::shards::times;
use super::thresholds::{DROPPED, WAIT_OF_RESPONSE, WAIT_US};
use super::wording::Worst;
use super::{CheckResult, Evidence, Validity, Verdict};
use crate::run::report::{
    Latency, LimitEvidence, LimitName, ShardReport, connections_in_words, share,
};
use crawlmark_harness::plan::REQUESTS_PER_CONNECTION;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, micros, rounded_percent};

/// Return the place of requests that were never sent in the response times.
const fn counted(evidence: &Evidence<'_>) -> &'static str {
    match evidence.plan.queue {
        None => "response times count each as the time it had waited",
        Some(_) => "response times leave out those that found the queue full (--queue)",
    }
}

/// Requests that were due and never went for lack of a connection.
pub(super) fn dropped_for_connections(evidence: &Evidence<'_>) -> CheckResult {
    let (connections, counted) = (connections_in_words(evidence.plan), counted(evidence));
    let is_client_slow = !Validity::findings(evidence, &[Verdict::ClientLimited]).is_empty();
    dropped(
        evidence,
        &[LimitName::Connections, LimitName::Unknown],
        |limit| {
            if limit == LimitName::Unknown {
                return format!(
                    "this client did not run when they were due; {counted}. Run again on an idle machine, or with a lower --rate"
                );
            }
            let why = if is_client_slow {
                "This client was too slow itself, which keeps connections in use: mend that first"
                    .to_owned()
            } else {
                let flags = if evidence.plan.per_host.connections.is_some() {
                    "-c, --per-host-connections"
                } else {
                    "-c"
                };
                format!(
                    "The target did not sustain the rate over {connections}: use more connections ({flags}), or a lower --rate"
                )
            };
            format!("none of its connections was free; {counted}. {why}")
        },
    )
}

/// Requests that were due and never went because another limit did not allow them.
pub(super) fn dropped_for_limits(evidence: &Evidence<'_>) -> CheckResult {
    dropped(
        evidence,
        &[
            LimitName::PerHostRate,
            LimitName::PerHostConnections,
            LimitName::Storage,
        ],
        |limit| {
            let (words, remedy) = (limit.words(evidence.plan), limit.remedy(evidence.plan));
            let why = if limit == LimitName::Storage {
                format!("there was no {words}")
            } else {
                format!("{words} did not allow them")
            };
            format!("{why}; {}. {remedy}", counted(evidence))
        },
    )
}

/// Requests that were due and never went because the target throttled.
pub(super) fn dropped_for_throttling(evidence: &Evidence<'_>) -> CheckResult {
    dropped(evidence, &[LimitName::Pause, LimitName::Target], |_| {
        format!(
            "a host throttled, or its quota was used up; {}. Use a lower --rate, or --on-throttle count to send them anyway",
            counted(evidence)
        )
    })
}

/// The shard that dropped the greatest part of its requests, of those that did so because of one of
/// `limits`.
fn dropped(
    evidence: &Evidence<'_>,
    limits: &[LimitName],
    why: impl Fn(LimitName) -> String,
) -> CheckResult {
    let part =
        |shard: &ShardReport| Some(share(shard.totals.dropped as f64, shard.scheduled? as f64));
    // An older version blamed the connections for all of them.
    let limit = |shard: &ShardReport| {
        shard.dropped_by.map_or(LimitName::Connections, |last| {
            LimitEvidence::shard(evidence.plan, shard).dropped(last)
        })
    };
    let is_by = |shard: &&ShardReport| limits.contains(&limit(shard));
    let beyond = evidence
        .shards
        .iter()
        .filter(is_by)
        .filter_map(|shard| Some((shard, part(shard)?)));
    CheckResult::perhaps(
        Worst::of(beyond.filter(|(_, part)| *part > DROPPED)).map(|worst| {
            format!(
                "shard {} never sent {} of the requests that were due ({}){} because {}",
                worst.shard.shard,
                rounded_percent(worst.reading),
                grouped(worst.shard.totals.dropped),
                worst.and_others(),
                why(limit(worst.shard))
            )
        }),
    )
}

/// Requests of the timetable that throttle pauses moved past the end.
pub(super) fn postponed(evidence: &Evidence<'_>) -> CheckResult {
    let total = |count: fn(&ShardReport) -> Option<u64>| {
        evidence.shards.iter().filter_map(count).sum::<u64>()
    };
    let (postponed, scheduled) = (
        total(|shard| shard.postponed),
        total(|shard| shard.scheduled),
    );
    let part = share(postponed as f64, scheduled as f64);
    CheckResult::perhaps((part > DROPPED).then(|| {
        format!(
            "{} of the requests on the schedule ({}) were never sent, because the target throttled and its pauses moved them past \
             the end: the figures are those of a lower rate than was asked for; use a lower --rate, or --on-throttle count to send \
             them anyway",
            rounded_percent(part),
            grouped(postponed)
        )
    }))
}

/// Waits for a connection while all were in use. Of a crawl that is to open new ones all the time,
/// opening them is what is measured, and no lack of them.
pub(super) fn connections(evidence: &Evidence<'_>) -> CheckResult {
    waits(evidence, |shard| {
        let is_full =
            LimitEvidence::shard(evidence.plan, shard).for_connection() == LimitName::Connections;
        is_full
            .then(|| PercentileWait::of(evidence, shard, Series::PoolWait, LimitName::Connections))
            .flatten()
    })
}

/// Waits for another limit than the timetable.
pub(super) fn limits(evidence: &Evidence<'_>) -> CheckResult {
    waits(evidence, |shard| {
        let held = LimitEvidence::shard(evidence.plan, shard);
        PercentileWait::of(
            evidence,
            shard,
            Series::BudgetWait,
            held.before_connection(),
        )
    })
}

/// The shard with the longest wait that is a notable part of the response time.
fn waits(
    evidence: &Evidence<'_>,
    wait: impl Fn(&ShardReport) -> Option<PercentileWait>,
) -> CheckResult {
    let notable = |shard: &ShardReport| {
        wait(shard).filter(|wait| wait.us > WAIT_US.max(wait.response_us * WAIT_OF_RESPONSE))
    };
    let found = evidence
        .shards
        .iter()
        .filter_map(|shard| Some((shard, notable(shard)?.us)));
    CheckResult::perhaps(Worst::of(found).and_then(|worst| {
        let PercentileWait { us, response_us, one_in, limit } = notable(worst.shard)?;
        let of_response = if us < response_us {
            format!("and 1 response in {one_in} took {} or longer", micros(response_us))
        } else {
            "which is all of the response time".to_owned()
        };
        Some(format!(
            "{}: 1 request in {one_in} waited {} or longer for {}, {of_response}. Response times include this wait. {}",
            worst.who(),
            micros(us),
            if limit == LimitName::Connections { "a free connection" } else { limit.words(evidence.plan) },
            limit.remedy(evidence.plan)
        ))
    }))
}

/// A wait at the highest percentile that it and the response time both have.
#[derive(Debug, Clone, Copy)]
struct PercentileWait {
    us: f64,
    response_us: f64,
    /// One request in so many took this long or longer.
    one_in: u32,
    limit: LimitName,
}

impl PercentileWait {
    /// The wait in `series`, without the time in which connections opened if each request takes a
    /// new one.
    fn of(
        evidence: &Evidence<'_>,
        shard: &ShardReport,
        series: Series,
        limit: LimitName,
    ) -> Option<Self> {
        let (waited, response) = (times(shard, series)?, times(shard, Series::ResponseOk)?);
        let is_opening = series == Series::PoolWait
            && evidence.plan.workload.contains_key(REQUESTS_PER_CONNECTION);
        let opened = [Series::Connect, Series::Tunnel, Series::Tls]
            .map(|series| times(shard, series).filter(|_| is_opening));
        let at = |percentile: fn(&Latency) -> Option<f64>, one_in: u32| {
            let opened: f64 = opened
                .into_iter()
                .filter_map(|times| percentile(times?))
                .sum();
            Some(Self {
                us: percentile(waited)? - opened,
                response_us: percentile(response)?,
                one_in,
                limit,
            })
        };
        at(|times| times.p99_us, 100).or_else(|| at(|times| times.p90_us, 10))
    }
}
