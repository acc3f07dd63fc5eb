//! Gates on what only an open loop has to keep: what was due went, and the response times are the target's.

use super::shards::{highest_known, times};
use super::thresholds::{DROPPED, WAIT_OF_RESPONSE, WAIT_US};
use super::wording::{Worst, percent};
use super::{Evidence, Seen};
use crate::run::report::{ShardReport, share};
use crawlmark_harness::plan::REQUESTS_PER_CONNECTION;
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{grouped, micros};
use crawlmark_harness::wire::Binding;

/// Requests that were due and never went for lack of a connection.
pub(super) fn dropped_for_connections(evidence: &Evidence<'_>) -> Seen {
    let connections = evidence.plan.connections;
    dropped(evidence, &[Binding::Concurrency, Binding::Idle], || {
        format!(
            "none of its connections was free; they count in response times at the age they had reached. The target did not \
             sustain the rate over {connections} connections: use more connections (-c, --per-host-connections), or a lower --rate"
        )
    })
}

/// Requests that were due and never went because another limit did not allow them.
pub(super) fn dropped_for_limits(evidence: &Evidence<'_>) -> Seen {
    dropped(evidence, &[Binding::Rate], || {
        "--per-host-rate did not allow them; they count in response times at the age they had reached. Use a lower --rate"
            .to_owned()
    })
}

/// Requests that were due and never went because the target throttled.
pub(super) fn dropped_for_throttling(evidence: &Evidence<'_>) -> Seen {
    dropped(evidence, &[Binding::Pause, Binding::Target], || {
        "a host throttled, or its quota was used up; they count in response times at the age they had reached. Use a lower \
         --rate, or --on-throttle count to send them nevertheless"
            .to_owned()
    })
}

/// The shard that dropped the greatest part of its requests, of those that did so at the end because of one of `limits`.
fn dropped(evidence: &Evidence<'_>, limits: &[Binding], why: impl Fn() -> String) -> Seen {
    let part = |shard: &ShardReport| Some(share(shard.totals.dropped as f64, shard.scheduled? as f64));
    // An older version blamed the connections for all of them.
    let is_by = |shard: &&ShardReport| limits.contains(&shard.dropped_by.unwrap_or(Binding::Concurrency));
    let beyond = evidence.shards.iter().filter(is_by).filter_map(|shard| Some((shard, part(shard)?)));
    Seen::perhaps(Worst::of(beyond.filter(|(_, part)| *part > DROPPED)).map(|worst| {
        format!(
            "{} never sent {} of the requests that were due ({}) because {}",
            worst.who(),
            percent(worst.reading),
            grouped(worst.shard.totals.dropped),
            why()
        )
    }))
}

/// Requests of the timetable that throttle pauses moved past the end.
pub(super) fn postponed(evidence: &Evidence<'_>) -> Seen {
    let total = |count: fn(&ShardReport) -> Option<u64>| evidence.shards.iter().filter_map(count).sum::<u64>();
    let (postponed, scheduled) = (total(|shard| shard.postponed), total(|shard| shard.scheduled));
    let part = share(postponed as f64, scheduled as f64);
    Seen::perhaps((part > DROPPED).then(|| {
        format!(
            "{} of the requests on the schedule ({}) were never sent, because the target throttled and its pauses moved them past \
             the end: the figures are those of a lower rate than was asked for; use a lower --rate, or --on-throttle count to send \
             them nevertheless",
            percent(part),
            grouped(postponed)
        )
    }))
}

/// Waits for a connection that was in use. Of a crawl that is to open new ones all the time, opening them is what is
/// measured, and no lack of them.
pub(super) fn connections(evidence: &Evidence<'_>) -> Seen {
    waits(evidence, Series::PoolWait, |who, waited, response| {
        format!(
            "{who}: 1 request in 100 waited {waited} or longer for a free connection, of a response time of {response}, so \
             response times include waits that the target did not cause. Use more connections (-c; {} now)",
            evidence.plan.connections
        )
    })
}

/// Waits for another limit than the timetable.
pub(super) fn limits(evidence: &Evidence<'_>) -> Seen {
    waits(evidence, Series::BudgetWait, |who, waited, response| {
        format!(
            "{who}: 1 request in 100 waited {waited} or longer, of a response time of {response}, for another limit than --rate \
             (--per-host-rate, --per-host-connections, the target's quota, --adaptive). Lower --rate, or raise that limit"
        )
    })
}

/// Shards of which a wait is a notable part of the response time, at the 99th percentile.
fn waits(evidence: &Evidence<'_>, series: Series, say: impl Fn(String, String, String) -> String) -> Seen {
    let p99 = |shard: &ShardReport, series: Series| times(shard, series).and_then(highest_known);
    let is_opening = series == Series::PoolWait && evidence.plan.workload.contains_key(REQUESTS_PER_CONNECTION);
    let notable = evidence.shards.iter().filter_map(|shard| {
        let (waited, response) = (p99(shard, series)?, p99(shard, Series::ResponseOk)?);
        let opened = is_opening.then(|| p99(shard, Series::Connect)).flatten().unwrap_or_default();
        let waited = waited - opened;
        (waited > WAIT_US.max(response * WAIT_OF_RESPONSE)).then_some((shard, waited))
    });
    Seen::perhaps(Worst::of(notable).map(|worst| {
        let response = p99(worst.shard, Series::ResponseOk).unwrap_or_default();
        say(worst.who(), micros(worst.reading), micros(response))
    }))
}
