//! Counts and times by host, URL template, source address and stage of the rate, of a crawl of
//! several: `by_host`, `by_template`, `by_source` and `by_stage` in `result.json`.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Limit;
use super::share;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{GroupCounts, Groups, HostTimes, MOST_GROUPS};
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
    /// open loop, the service time in a closed one. Null with too few of them.
    pub p50_us: Option<u64>,
    /// 99th percentile of these times. Null with too few of them.
    pub p99_us: Option<u64>,
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
        let times = [&counts.times, &counts.service];
        let [[p50_us, p99_us], [service_p50_us, service_p99_us]] =
            times.map(|of| [0.5, 0.99].map(|q| of.percentile_us(q)));
        let [exceeded_us, service_exceeded_us] = times.map(|of| of.exceeded_by_us(EXCEEDED_BY));
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
