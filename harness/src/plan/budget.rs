//! Shares of a rate: one shard's part of a budget, and of the limits of each host.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::split::split_share;
use crate::clock::duration_ns;
use crate::units::Rate;

/// Lateness of a shard that the default burst makes up for. A limiter forgets what its client was
/// too late to use.
///
/// A shard's alarm rings tens of microseconds late at the median, but beside other work some rings
/// come milliseconds late. In interleaved runs at 5,000/s over two shards on two virtual cores, a
/// burst of 2 ms lost more than a hundredth of the budget, and one of 10 ms more than a
/// two-hundredth in one run of three. A stall of a tenth of a second costs budget with any of them.
/// Such a burst makes arrivals no less even while all goes well: it is not there at the start, and
/// is used only after the shard was late or had no connection free.
const CATCH_UP: Duration = Duration::from_millis(25);

/// Requests of all shards that are this far apart, or further, go one at a time, spaced by when they
/// are sent: a target that allows no burst (nginx' `limit_req` by default) turns away two that are
/// closer. With a burst to catch up, it turned away 29 % to 48 % of 10/s to 100/s.
const SPACED: Duration = Duration::from_millis(5);

/// The part of a rate that may be lost so that requests are whole milliseconds apart: a limit that
/// counts in these, as nginx does, takes 333.3 ms for 333, and refuses 4 of 10 requests of 3/s.
const ROUNDED: u64 = 150;

/// Least share of a shard, per second. One shard sends many times that; shards do not know of each
/// other's requests, and two that are a little late each may send within less than an interval.
const LEAST_SHARE_PER_S: u64 = 200;

/// The bursts of a budget.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bursts {
    pub(super) any: u64,
    pub(super) at_start: u64,
}

/// A share of a rate: one request per `interval_ns`, `burst` at once at most, the first at
/// `phase_ns`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Budget {
    /// Nanoseconds per request, at least 1.
    pub interval_ns: u64,
    /// Requests at once, at least 1.
    pub burst: u64,
    /// Requests at once at the start; at least 1, at most the burst.
    pub at_start: u64,
    /// Nanoseconds from the common start to the first request.
    pub phase_ns: u64,
    /// Nanoseconds between two requests of all shards together, where they go one at a time; else 0.
    pub apart_ns: u64,
}

impl Budget {
    pub(super) fn of(rate: &Rate, bursts: Bursts, parts: u64, i: u64) -> Self {
        let interval_ns = shard_interval_ns(rate, parts);
        let is_spaced = bursts.any <= parts && is_spaced(rate);
        let phase = u128::from(i) * u128::from(interval_ns) / u128::from(parts.max(1));
        Self {
            interval_ns,
            burst: split_share(bursts.any, parts, i).max(1),
            at_start: split_share(bursts.at_start, parts, i).max(1),
            phase_ns: u64::try_from(phase).unwrap_or(u64::MAX),
            apart_ns: if is_spaced { apart_ns(rate) } else { 0 },
        }
    }
}

impl Budget {
    /// The share of a shard that has `permits` requests in each window of `every_ns`: all of them
    /// fit into one, so none is lost to rounding.
    pub(super) fn of_window(every_ns: u64, permits: u64) -> Self {
        let permits = permits.max(1);
        Self {
            interval_ns: (every_ns / permits).max(1),
            burst: permits,
            at_start: permits,
            phase_ns: 0,
            apart_ns: 0,
        }
    }
}

/// Nanoseconds between the requests of one of `parts` shards, at least 1.
fn shard_interval_ns(rate: &Rate, parts: u64) -> u64 {
    let interval =
        (u128::from(parts) * u128::from(rate.period_ns)).div_ceil(u128::from(rate.permits.max(1)));
    u64::try_from(interval).unwrap_or(u64::MAX).max(1)
}

/// Nanoseconds between the requests of all shards, where they go one at a time: in whole
/// milliseconds where that costs less than [`ROUNDED`].
fn apart_ns(rate: &Rate) -> u64 {
    let exact_ns = shard_interval_ns(rate, 1);
    let whole_ns = exact_ns.next_multiple_of(1_000_000);
    if whole_ns - exact_ns <= exact_ns / ROUNDED {
        whole_ns
    } else {
        exact_ns
    }
}

/// True if requests of this rate go one at a time, unless a burst is asked for.
fn is_spaced(rate: &Rate) -> bool {
    shard_interval_ns(rate, 1) >= duration_ns(SPACED)
}

/// The burst that a budget gets when none is asked for: for each shard the one request that is
/// due, and as many as fall due in 25 ms, rounded up. Up to 200/s it is the one alone.
///
/// A burst of `b` forgives lateness of up to `b - 1` intervals, so the one by itself would
/// forgive none.
pub fn default_burst(rate: &Rate, shards: u32) -> u64 {
    let late = if is_spaced(rate) {
        0
    } else {
        duration_ns(CATCH_UP).div_ceil(shard_interval_ns(rate, u64::from(shards)))
    };
    (1 + late).saturating_mul(u64::from(shards))
}

/// Most shards that a budget is worth splitting into: one where the share of each of two would
/// be below 200/s.
pub fn most_shards(rate: &Rate) -> u32 {
    let per_s = rate.permits_in(1_000_000_000);
    u32::try_from(per_s / LEAST_SHARE_PER_S)
        .unwrap_or(u32::MAX)
        .max(1)
}

/// The hosts of a run and the limits of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerHost {
    /// Number of hosts; at least 1.
    pub hosts: u32,
    /// Requests in flight at one host at most, over all shards; none is as many as there are
    /// connections.
    pub connections: Option<u32>,
    /// The budget of one host, over all shards; none is what the run's budget allows.
    pub rate: Option<Rate>,
    /// Requests to one host at once, over all shards of all slots of a crawl in parts; none where
    /// rate and shards say it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst: Option<u64>,
}

impl Default for PerHost {
    fn default() -> Self {
        Self {
            hosts: 1,
            connections: None,
            rate: None,
            burst: None,
        }
    }
}

impl PerHost {
    pub(super) fn share(&self, parts: u64, i: u64) -> HostShare {
        let shards = u32::try_from(parts).unwrap_or(u32::MAX);
        let connections = self
            .connections
            .map(|all| u32::try_from(split_share(u64::from(all), parts, i)).unwrap_or(u32::MAX));
        let bursts = Bursts {
            any: self.at_once(shards).unwrap_or(0),
            at_start: parts,
        };
        HostShare {
            hosts: self.hosts,
            connections: connections.unwrap_or(u32::MAX),
            budget: self.rate.map(|rate| Budget::of(&rate, bursts, parts, i)),
        }
    }

    /// Most requests that may arrive at one host at once, from all `shards` together; none without
    /// a rate.
    pub fn at_once(&self, shards: u32) -> Option<u64> {
        self.rate
            .map(|rate| self.burst.unwrap_or_else(|| default_burst(&rate, shards)))
    }
}

/// A shard's share of the limits of each host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShare {
    /// Number of hosts; at least 1.
    pub hosts: u32,
    /// Requests in flight at one host at most; at least 1.
    pub connections: u32,
    /// Its share of the budget of one host.
    pub budget: Option<Budget>,
}
