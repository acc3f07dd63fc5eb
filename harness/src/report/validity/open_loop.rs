//! Gates on what only an open loop has to keep: what was due went, and the response times are the target's.

use super::shards::{highest_known, times};
use super::thresholds::{DROPPED, WAIT_OF_RESPONSE, WAIT_US};
use super::wording::{Worst, percent};
use super::{Evidence, Seen};
use crate::plan::REQUESTS_PER_CONNECTION;
use crate::report::{ShardReport, share};
use crate::stats::Series;
use crate::units::{grouped, micros};

/// Requests that were due and never went.
pub(super) fn dropped(evidence: &Evidence<'_>) -> Seen {
    let part = |shard: &ShardReport| Some(share(shard.totals.dropped as f64, shard.scheduled? as f64));
    let beyond = evidence.shards.iter().filter_map(|shard| Some((shard, part(shard)?)));
    Seen::perhaps(Worst::of(beyond.filter(|(_, part)| *part > DROPPED)).map(|worst| {
        format!(
            "{} never sent {} of the requests that were due ({}) because none of its connections was free; they count in response \
             times at the age they had reached. The target did not sustain the rate over {} connections: use more connections \
             (-c, --per-host-connections), or a lower --rate",
            worst.who(),
            percent(worst.reading),
            grouped(worst.shard.totals.dropped),
            evidence.plan.connections,
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
