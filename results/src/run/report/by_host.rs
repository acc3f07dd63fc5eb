//! Counts and times by host, of a crawl of several hosts: `by_host` in `result.json`.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};

use crawlmark_harness::stats::{HostCounts, Hosts, MOST_HOSTS};
use crawlmark_harness::supervisor::RunRecord;

/// Most hosts with a row.
const MOST: usize = 50;

/// Counts and times of one host, or of all that have no row together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostRow {
    /// Its number, from 0 in the order in which the URLs name the hosts; null of all that have no row.
    pub host: Option<u32>,
    /// Its name and port; null of all that have no row.
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
    /// Median time of good and not-found answers, at most 1.6 % too low: the response time in an open loop, the service time in a
    /// closed one. Null with too few of them.
    pub p50_us: Option<u64>,
    /// 99th percentile of these times. Null with too few of them.
    pub p99_us: Option<u64>,
}

impl HostRow {
    /// The hosts of a run. None of a crawl of one.
    pub(super) fn all(record: &RunRecord) -> Vec<Self> {
        let mut hosts = Hosts::default();
        record.shards.iter().for_each(|shard| hosts.merge(&shard.hosts));
        Self::of(&hosts)
    }

    /// The busiest hosts in the order of their numbers, and the others together.
    fn of(hosts: &Hosts) -> Vec<Self> {
        let (counted, others) = hosts.as_slice().split_at(hosts.as_slice().len().min(MOST_HOSTS));
        let mut busiest: Vec<(u32, &HostCounts)> = (0..).zip(counted).collect();
        busiest.sort_by_key(|(_, counts)| Reverse(counts.attempts));
        let rest = busiest.split_off(busiest.len().min(MOST));
        let others = rest.into_iter().map(|(_, counts)| counts).chain(others);
        let others = others.fold(HostCounts::default(), HostCounts::plus);
        busiest.sort_by_key(|(host, _)| *host);
        let rows = busiest.into_iter().map(|(host, counts)| Self::new(Some(host), counts));
        rows.chain((others.attempts > 0).then(|| Self::new(None, &others))).collect()
    }

    fn new(host: Option<u32>, counts: &HostCounts) -> Self {
        let HostCounts { attempts, ok, not_found, throttled, errors, ref times } = *counts;
        let [p50_us, p99_us] = [0.5, 0.99].map(|q| times.percentile_us(q));
        Self { host, name: None, attempts, ok, not_found, throttled, errors, p50_us, p99_us }
    }
}
