//! Counts and times by host, URL template and source address, of a crawl of several: `by_host`,
//! `by_template` and `by_source` in `result.json`.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::Limit;
use super::share;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::stats::{GroupCounts, Groups, HostTimes, MOST_GROUPS};
use crawlmark_harness::supervisor::{RunRecord, ShardRecord};

/// Most groups with a row.
const MOST: usize = 50;

/// Kind of a group, and its number, from 0 in the order in which the URLs or `--local-ips` name
/// them; null of all that have no row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Group {
    /// Requests to one host.
    Host(Option<u32>),
    /// Requests whose URLs differ in IDs and values of the query alone.
    Template(Option<u32>),
    /// Requests from one address of this machine.
    Source(Option<u32>),
}

impl Group {
    /// Its number; none of all that have no row.
    #[must_use]
    pub const fn number(self) -> Option<u32> {
        match self {
            Self::Host(number) | Self::Template(number) | Self::Source(number) => number,
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
    /// Limits that held back the requests to a host. Absent for templates, for all that have no
    /// row.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<HostLimits>,
}

/// Limits that held back the requests to one of several hosts, as parts of the shards' time. The
/// rest of the time nothing did.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct HostLimits {
    /// `--per-host-rate`, or the crawl-delay of robots.txt.
    pub per_host_rate: f64,
    /// `--per-host-connections`.
    pub per_host_connections: f64,
    /// A throttle pause of this host.
    pub pause: f64,
    /// Its quota, or what `--adaptive` found.
    pub quota: f64,
    /// `--rate`, while none of the above did.
    pub rate: f64,
    /// The connections of a shard were all in use, while none of the above did.
    pub connections: f64,
}

impl HostLimits {
    fn new(times: HostTimes, shards_ns: u64) -> Self {
        let HostTimes {
            own_rate_ns,
            own_connections_ns,
            pause_ns,
            quota_ns,
            rate_ns,
            connections_ns,
        } = times;
        let part = |ns: u64| share(ns as f64, shards_ns as f64).min(1.0);
        Self {
            per_host_rate: part(own_rate_ns),
            per_host_connections: part(own_connections_ns),
            pause: part(pause_ns),
            quota: part(quota_ns),
            rate: part(rate_ns),
            connections: part(connections_ns),
        }
    }

    /// The limit that held for longest, with its part of the time.
    pub(crate) fn foremost(&self, plan: &RunPlan, throttled: u64) -> (f64, Limit) {
        let Self {
            per_host_rate,
            per_host_connections,
            pause,
            quota,
            rate,
            connections,
        } = *self;
        let parts = [
            (pause, Limit::Pause),
            (quota, Limit::of_target(plan, throttled)),
            (per_host_rate, Limit::per_host(plan)),
            (per_host_connections, Limit::PerHostConnections),
            (rate, Limit::total(plan)),
            (connections, Limit::Connections),
        ];
        parts
            .into_iter()
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .unwrap_or_default()
    }
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
        for row in &mut rows {
            let Group::Host(Some(number)) = row.group else {
                continue;
            };
            let counts = groups.as_slice().get(number as usize);
            row.limited_by = counts.map(|counts| HostLimits::new(counts.limits, shards_ns));
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
        let others = rest.into_iter().map(|(_, counts)| counts).chain(others);
        let others = others.fold(GroupCounts::default(), GroupCounts::plus);
        busiest.sort_by_key(|(number, _)| *number);
        let rows = busiest
            .into_iter()
            .map(|(number, counts)| Self::new(group(Some(number)), counts));
        rows.chain((others.attempts > 0).then(|| Self::new(group(None), &others)))
            .collect()
    }

    fn new(group: Group, counts: &GroupCounts) -> Self {
        let GroupCounts {
            attempts,
            ok,
            not_found,
            throttled,
            errors,
            ref times,
            limits: _,
        } = *counts;
        let [p50_us, p99_us] = [0.5, 0.99].map(|q| times.percentile_us(q));
        Self {
            group,
            name: None,
            attempts,
            ok,
            not_found,
            throttled,
            errors,
            p50_us,
            p99_us,
            limited_by: None,
        }
    }
}
