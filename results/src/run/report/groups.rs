//! Counts and times by host, URL template, source address and stage of the rate, of a crawl of
//! several: `by_host`, `by_template`, `by_source` and `by_stage` in `result.json`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Limit;
use super::share;
use crate::show::text::micros;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{CoarseTimes, GroupCounts, Groups, HostTimes, MOST_GROUPS};
use crawlmark_harness::supervisor::{RunRecord, ShardRecord};

/// Samples that must lie beyond a percentile before it is judged: as many beyond its limit break
/// it, however many others there are.
pub const EXCEEDED_BY: u64 = 100;

/// Most groups with a row.
const MOST: usize = 50;

/// Kind of a group, and its number, from 0 in the order in which the URLs or `--local-ips` name
/// them; null of all that have no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Requests to one host.
    Host(Option<u32>),
    /// Requests whose URLs differ in IDs and values of the query alone.
    Template(Option<u32>),
    /// Requests from one address of this machine.
    Source(Option<u32>),
    /// Requests that were scheduled in one stage of the rate. Counted from 1.
    Stage(Option<u32>),
}

/// Names of groups: of a host with its port. Stages have names of their own.
pub type GroupNames = BTreeMap<Group, String>;

/// Name of a stage of the rate, counted from 1, as in `service_p99{stage=2}`.
pub fn stage_name(number: impl std::fmt::Display) -> String {
    format!("stage={number}")
}

impl Group {
    /// Its number; none of all that have no row.
    pub const fn number(self) -> Option<u32> {
        match self {
            Self::Host(number)
            | Self::Template(number)
            | Self::Source(number)
            | Self::Stage(number) => number,
        }
    }
}

/// Counts and times of one group of requests, or of all that have no row together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupRow {
    /// The group.
    #[serde(flatten)]
    pub group: Group,
    /// Its name: of a host with its port. Null of all that have no row.
    pub name: Option<String>,
    /// Requests tried, the failed ones and those cut off at the end included.
    pub attempts: u64,
    /// Good answers.
    pub ok: u64,
    /// Answers that there is no such item.
    pub not_found: u64,
    /// Throttled answers.
    pub throttled: u64,
    /// Requests that were neither good, nor not found, nor throttled.
    pub errors: u64,
    /// Median time of good and not-found answers, at most 1.6 % too low: the response time in an
    /// open loop, the service time in a closed one. Those of requests that never went count as
    /// slower than all others. Null with too few of them, or too many of these.
    pub p50_us: Option<u64>,
    /// 99th percentile of these times. Null as `p50_us` is.
    pub p99_us: Option<u64>,
    /// The two of which is only known that they are no less: so many requests never went.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at_least: Vec<String>,
    /// The longest of these times that 100 of them exceed: no threshold needs more to fail. Absent
    /// with no more than 100.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exceeded_us: Option<u64>,
    /// The same of service times in an open loop. Absent in a closed one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_p50_us: Option<u64>,
    /// 99th percentile of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_p99_us: Option<u64>,
    /// The longest of these that 100 of them exceed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_exceeded_us: Option<u64>,
    /// Requests that were due in a stage and never went. Absent of other groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u64>,
    /// Requests that met the objectives. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub met: Option<u64>,
    /// Time of a stage within the run, s. Absent of other groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lasted_s: Option<f64>,
    /// Limits that held back the requests to a host. Absent for templates, for all that have no
    /// row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<HostLimits>,
}

/// Limits that held back the requests to one of several hosts, as parts of the shards' time. The
/// rest of the time nothing did.
pub type HostLimits = BTreeMap<Limit, f64>;

/// Percentiles of each group, with the names of their keys.
const REPORTED: [(f64, &str); 2] = [(0.5, "p50_us"), (0.99, "p99_us")];

/// Two times are one if they differ by less than two cells, of at most 1.6 %: by 1 in so many.
const CLOSE: u64 = 60;

/// The `q`-th quantile of these times and of `unknown` more that may be any, µs, and true if it is
/// known, false if it is only known to be no less; none with too few of them. It is no less than if
/// the unknown ones were below all others, and no more than if they were above them.
fn percentile(times: &CoarseTimes, unknown: u64, q: f64) -> Option<(u64, bool)> {
    if unknown == 0 {
        return times.percentile_us(q).map(|us| (us, true));
    }
    let rank = (q * (times.count() + unknown) as f64).ceil();
    let least = at_rank(times, rank - unknown as f64)?;
    let most = at_rank(times, rank).filter(|most| (most - least) * CLOSE <= least);
    Some((most.unwrap_or(least), most.is_some()))
}

/// The time of this rank, from 1 on, µs; none outside of them.
fn at_rank(times: &CoarseTimes, rank: f64) -> Option<u64> {
    let part = (rank - 0.5) / times.count() as f64;
    (part > 0.0 && part < 1.0).then(|| times.percentile_us(part))?
}

fn limits(times: &HostTimes, shards_ns: u64) -> HostLimits {
    let parts = [
        (Limit::PerHostRate, times.own_rate_ns),
        (Limit::PerHostConnections, times.own_connections_ns),
        (Limit::Pause, times.pause_ns),
        (Limit::Quota, times.quota_ns),
        (Limit::Rate, times.rate_ns),
        (Limit::Connections, times.connections_ns),
    ];
    parts
        .map(|(limit, ns)| (limit, share(ns as f64, shards_ns as f64).min(1.0)))
        .into()
}

impl GroupRow {
    /// The groups of a run. None of a crawl of one.
    pub(super) fn all(
        record: &RunRecord,
        of: fn(&ShardRecord) -> &Groups,
        group: fn(Option<u32>) -> Group,
    ) -> Vec<Self> {
        let mut groups = Groups::default();
        record
            .shards
            .iter()
            .for_each(|shard| groups.merge(of(shard)));
        let shards_ns = record
            .shards
            .iter()
            .map(|shard| shard.binding.sum_ns())
            .sum();
        let mut rows = Self::busiest(&groups, group);
        let has_objectives = record
            .shards
            .iter()
            .any(|it| !it.plan.objectives.is_empty());
        for row in &mut rows {
            row.met = row.met.filter(|_| has_objectives);
            let Group::Host(Some(number)) = row.group else {
                continue;
            };
            let counts = groups.as_slice().get(number as usize);
            row.limited_by = counts.map(|counts| limits(&counts.limits, shards_ns));
        }
        rows
    }

    /// The stages of the rate in a run of so many seconds. None without several.
    pub(super) fn stages(record: &RunRecord, plan: &RunPlan, run_s: f64) -> Vec<Self> {
        let times: Vec<(f64, f64)> = plan.shape.times_s(run_s).collect();
        let of: fn(Option<u32>) -> Group = |at| Group::Stage(at.map(|at| at + 1));
        let mut rows = Self::all(record, |shard| &shard.stages, of);
        for row in &mut rows {
            let number = row.group.number();
            let time = number.and_then(|number| times.get(number as usize - 1));
            row.name = number.map(stage_name);
            row.lasted_s = time.map(|(from_s, to_s)| to_s - from_s);
        }
        rows
    }

    /// The busiest groups in the order of their numbers, and the others together. Source addresses
    /// that were not used have no row.
    fn busiest(groups: &Groups, group: fn(Option<u32>) -> Group) -> Vec<Self> {
        let (counted, others) = groups
            .as_slice()
            .split_at(groups.as_slice().len().min(MOST_GROUPS));
        let mut busiest: Vec<(u32, &GroupCounts)> = (0..).zip(counted).collect();
        busiest
            .retain(|(_, counts)| counts.attempts > 0 || !matches!(group(None), Group::Source(_)));
        busiest.sort_by_key(|(_, counts)| Reverse(counts.attempts));
        let rest = busiest.split_off(busiest.len().min(MOST));
        let others = rest
            .into_iter()
            .map(|(_, counts)| counts)
            .chain(others)
            .fold(GroupCounts::default(), GroupCounts::plus);
        busiest.sort_by_key(|(number, _)| *number);
        busiest
            .into_iter()
            .map(|(number, counts)| Self::new(group(Some(number)), counts))
            .chain((others.attempts > 0).then(|| Self::new(group(None), &others)))
            .collect()
    }

    fn new(group: Group, counts: &GroupCounts) -> Self {
        let GroupCounts { times, service, .. } = counts;
        let known = REPORTED.map(|(q, name)| (name, percentile(times, counts.dropped, q)));
        let [p50_us, p99_us] = known.map(|(_, known)| known.map(|(us, _)| us));
        let [service_p50_us, service_p99_us] = REPORTED.map(|(q, _)| service.percentile_us(q));
        let [exceeded_us, service_exceeded_us] =
            [times, service].map(|of| of.exceeded_by_us(EXCEEDED_BY));
        let is_stage = matches!(group, Group::Stage(_));
        Self {
            group,
            name: None,
            attempts: counts.attempts,
            ok: counts.ok,
            not_found: counts.not_found,
            throttled: counts.throttled,
            errors: counts.errors,
            p50_us,
            p99_us,
            at_least: known
                .iter()
                .filter(|(_, known)| matches!(known, Some((_, false))))
                .map(|(name, _)| (*name).to_owned())
                .collect(),
            service_p50_us,
            service_p99_us,
            exceeded_us,
            service_exceeded_us,
            met: Some(counts.met),
            dropped: is_stage.then_some(counts.dropped),
            lasted_s: None,
            limited_by: None,
        }
    }

    /// True if `key` (`p50_us`) is only known to be no less than its value.
    pub(crate) fn is_at_least(&self, key: &str) -> bool {
        self.at_least.iter().any(|name| name == key)
    }

    /// Its median and its 99th percentile as text; each none when it is not known.
    pub(crate) fn shown(&self) -> [Option<String>; 2] {
        [("p50_us", self.p50_us), ("p99_us", self.p99_us)].map(|(key, us)| {
            let at_least = if self.is_at_least(key) { ">= " } else { "" };
            us.map(|us| format!("{at_least}{}", micros(us as f64)))
        })
    }

    /// The limit that held for longest, with its part of the time.
    pub(crate) fn limit(&self, plan: &RunPlan) -> Option<(f64, Limit)> {
        let (limit, part) = self
            .limited_by
            .iter()
            .flatten()
            .max_by(|a, b| a.1.total_cmp(b.1))?;
        Some((*part, limit.in_run(plan, self.throttled)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Times below 128 us, each of which has a cell of its own.
    fn times(us: &[usize]) -> CoarseTimes {
        let mut cells = vec![0_u64; 128];
        for us in us {
            cells[*us] += 1;
        }
        serde_json::from_value(cells.into()).unwrap()
    }

    proptest! {
        #[test]
        fn a_percentile_holds_whatever_those_that_never_went_would_have_taken(
            ended in prop::collection::vec(0..128_usize, 0..600),
            dropped in prop::collection::vec(0..128_usize, 0..600),
            q in prop::sample::select(vec![0.5, 0.9, 0.99]),
        ) {
            let seen = percentile(&times(&ended), dropped.len() as u64, q);
            let truth = times(&[&*ended, &dropped].concat()).percentile_us(q);
            if let Some((us, is_known)) = seen {
                let truth = truth.unwrap();
                prop_assert!(us <= truth || is_known && (us - truth) * CLOSE <= us, "{us}, {truth}");
                prop_assert!(us >= truth || !is_known, "{us}, {truth}");
                prop_assert!(!is_known || dropped.len() <= ended.len());
            }
            if dropped.is_empty() {
                prop_assert_eq!(seen, truth.map(|us| (us, true)));
            }
        }
    }
}
