//! `RunPlan`, the validated description of a whole run, and `ShardPlan`, one shard's exact part of it.
//!
//! Made by the command line, read by everyone, stored inside the report. Nothing here touches the system.
//!
//! # The split laws
//!
//! Part `i` of `total` over `parts` runs from `floor(i * total / parts)` to `floor((i + 1) * total / parts)`, in
//! 128-bit arithmetic. The parts are disjoint, ordered and covering, their sizes differ by at most one, and a split of
//! a split is again such a split. IDs, connections and bursts are dealt out by it.
//!
//! A rate of `N` per `P` becomes one interval of `ceil(S * P / N)` per shard with a phase of `i * P / N`: the shards
//! interleave evenly, each gets the same rate (so equal ranges end together, which whole-number shares of 3 and 4 would
//! not), and a rate below one per shard needs no special case. Rounding the interval up keeps the total at or under
//! the asked rate, by less than `N / P` nanoseconds per second.

mod arrivals;
mod manners;
mod pacing;

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use self::arrivals::{Arrivals, Gaps, TimetablePlan};
pub use self::manners::{AdaptiveKind, Backoff, MAX_RETRIES, Manners, OnThrottle, RETRY_RESERVE, UnknownName};
pub use self::pacing::Pacing;
use crate::clock::duration_ns;
use crate::units::{IdRange, Rate, RateShape, ShapedRate};

/// The most shards that a run may have: well above any machine's cores, well below the limit on descriptors.
pub const MAX_SHARDS: u32 = 1024;

/// How much lateness of a shard the default burst makes up for. A limiter forgets what its client was too late to use.
///
/// A shard's alarm rings tens of microseconds late at the median, but beside other work some rings come milliseconds late.
/// In interleaved runs at 5,000/s over two shards on two virtual cores, a burst of 2 ms lost more than a hundredth of the
/// budget, and one of 10 ms more than a two-hundredth in one run of three. A stall of a tenth of a second costs budget with
/// any of them. Such a burst makes arrivals no less even while all goes well: it is not there at the start, and is used
/// only after the shard was late or had no connection free.
const CATCH_UP: Duration = Duration::from_millis(25);

/// A shard whose requests are this far apart, or further, has nothing to catch up: what it forgets by being a fraction of
/// a millisecond late is well below a hundredth of its budget, and two requests at once would be a surprise.
const SLOW_INTERVAL: Duration = Duration::from_millis(100);

/// Requests that are this far apart, or further, are kept so over all shards. That costs the budget what a request is late
/// each time, half a millisecond or so, which is too much of anything shorter.
const SPACED: Duration = Duration::from_millis(200);

/// The longest ramp: its arithmetic is exact up to here.
const LONGEST_RAMP: Duration = Duration::from_hours(24);

/// Where the part `i` of `total` over `parts` starts; `i == parts` gives the end of the last part.
///
/// `parts` of 0 counts as 1.
#[must_use]
pub fn split_point(total: u64, parts: u64, i: u64) -> u64 {
    let point = u128::from(i) * u128::from(total) / u128::from(parts.max(1));
    u64::try_from(point).unwrap_or(u64::MAX)
}

/// The size of part `i` of `total` over `parts`.
#[must_use]
pub fn split_share(total: u64, parts: u64, i: u64) -> u64 {
    split_point(total, parts, i + 1) - split_point(total, parts, i)
}

/// The hosts of a run, and what each of them is to bear at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PerHost {
    /// How many there are; at least 1.
    pub hosts: u32,
    /// Requests in flight at one host at most, over all shards; none is as many as there are connections.
    pub connections: Option<u32>,
    /// The budget of one host, over all shards; none is what the run's budget allows.
    pub rate: Option<Rate>,
}

impl Default for PerHost {
    fn default() -> Self {
        Self { hosts: 1, connections: None, rate: None }
    }
}

impl PerHost {
    fn share(&self, parts: u64, i: u64) -> HostShare {
        let shards = u32::try_from(parts).unwrap_or(u32::MAX);
        let connections =
            self.connections.map(|all| u32::try_from(split_share(u64::from(all), parts, i)).unwrap_or(u32::MAX));
        let bursts = |rate: &Rate| Bursts { any: RunPlan::default_burst(rate, shards), at_start: u64::from(shards) };
        let budget = |rate: Rate| Budget::of(&rate, bursts(&rate), parts, i);
        HostShare { hosts: self.hosts, connections: connections.unwrap_or(u32::MAX), budget: self.rate.map(budget) }
    }
}

/// A shard's share of what each host is to bear.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShare {
    /// How many hosts there are; at least 1.
    pub hosts: u32,
    /// Requests in flight at one host at most; at least 1.
    pub connections: u32,
    /// Its share of the budget of one host.
    pub budget: Option<Budget>,
}

/// Whether each shard stays on one CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pinning {
    /// Shard `i` runs on the `i`-th CPU that this process may use, round robin.
    PerCpu,
    /// The kernel places the shards.
    None,
}

/// The whole run, validated. Durations are whole microseconds where they are stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunPlan {
    /// What is crawled, for people: a URL with `{id}`, or the first of several.
    pub target: String,
    /// The workload's own settings, as resolved, for the record. Never holds a secret.
    pub workload: BTreeMap<String, String>,
    /// The IDs to crawl.
    pub ids: IdRange,
    /// How many processes crawl.
    pub shards: u32,
    /// Requests in flight at most, over all shards.
    pub connections: u32,
    /// The budget over all shards, or the rate at which requests arrive in an open loop; none is as fast as it goes. The
    /// highest one when it changes.
    pub rate: Option<Rate>,
    /// How it changes in the course of the run.
    pub shape: RateShape,
    /// How many requests the budget may let through at once, over all shards; 0 without a budget, as in an open loop.
    pub burst: u64,
    /// How many of them it lets through at once at the start: all of a burst that was asked for, but one per shard of a
    /// burst that is there to make up for lateness. 0 without a budget.
    pub at_start: u64,
    /// How requests arrive.
    pub arrivals: Arrivals,
    /// How a shard waits until a request may go.
    pub pacing: Pacing,
    /// What happens when the target asks for patience.
    pub manners: Manners,
    /// How many hosts are crawled, and what each of them is spared.
    pub per_host: PerHost,
    /// When to stop starting items; none is when the range is done.
    #[serde(rename = "duration_us", with = "optional_micros")]
    pub duration: Option<Duration>,
    /// What was intended within this time after the start is counted, and left out of the times and the rates.
    #[serde(rename = "warmup_us", with = "micros")]
    pub warmup: Duration,
    /// How long what is under way at the end of the duration may take to end; what has not is cut off and censored.
    #[serde(rename = "grace_us", with = "micros")]
    pub grace: Duration,
    /// The longest that one attempt may take from its first byte sent to its last byte read.
    #[serde(rename = "timeout_us", with = "micros")]
    pub timeout: Duration,
    /// A shard that is silent for this long is ended, and the run is incomplete.
    #[serde(rename = "shard_deadline_us", with = "micros")]
    pub shard_deadline: Duration,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// Where the shards run.
    pub pinning: Pinning,
}

/// Why a plan makes no sense. Each message names the flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// No ID.
    #[error("--ids {0} holds no ID")]
    NoIds(IdRange),
    /// No shard, or more than [`MAX_SHARDS`].
    #[error("--shards {0} is out of range: 1 to {MAX_SHARDS}")]
    Shards(u32),
    /// A shard would have no connection.
    #[error("--connections {connections} is less than --shards {shards}: each shard needs at least one connection")]
    Connections {
        /// As asked.
        connections: u32,
        /// As asked or resolved.
        shards: u32,
    },
    /// A shard would have no burst.
    #[error("--burst {burst} is less than --shards {shards}: each shard admits at least one request at a time")]
    Burst {
        /// As asked.
        burst: u64,
        /// As asked or resolved.
        shards: u32,
    },
    /// No time for it, or too much.
    #[error("--rate {0} is a ramp over the whole run: say with --duration how long that is, a day at most")]
    RampTime(String),
    /// Nothing says when requests are to arrive.
    #[error("--arrivals {0} needs a --rate: it says when each request is to arrive")]
    ArrivalsWithoutRate(Arrivals),
    /// A burst where none can be.
    #[error(
        "--burst is for budgets: with --arrivals {0} each request has its own time, and one that is late goes at once"
    )]
    BurstOfArrivals(Arrivals),
    /// Nothing to wait for.
    #[error("--pacing {0} needs a --rate, a --per-host-rate or --adaptive: without them no request waits for its time")]
    PacingOfNothing(Pacing),
    /// Nothing would be measured.
    #[error("--warmup {} leaves nothing of --duration {}", humantime::format_duration(*.warmup), humantime::format_duration(*.duration))]
    Warmup {
        /// As asked.
        warmup: Duration,
        /// As asked or resolved.
        duration: Duration,
    },
    /// Longer than an hour.
    #[error("--grace must be at most 1h")]
    Grace,
    /// Zero or beyond an hour.
    #[error("--timeout must be between 1ms and 1h")]
    Timeout,
    /// Zero.
    #[error("--duration must be at least 1ms")]
    Duration,
    /// A shard would have no connection to a host.
    #[error("--per-host-connections {connections} is less than --shards {shards}: each shard needs at least one")]
    PerHostConnections {
        /// As asked.
        connections: u32,
        /// As asked or resolved.
        shards: u32,
    },
    /// More than [`MAX_RETRIES`].
    #[error("--retries {0} is out of range: 0 to {MAX_RETRIES}, for five attempts in all")]
    Retries(u32),
    /// More retries than first attempts.
    #[error("--retry-budget {0}% is out of range: 0% to 100% of the first attempts")]
    RetryBudget(u32),
    /// Below a millisecond or beyond a year.
    #[error("--max-pause must be at least 1ms and at most a year")]
    MaxPause,
    /// Too short to tell silence from a busy machine.
    #[error("--shard-deadline must be at least 1s")]
    ShardDeadline,
}

impl RunPlan {
    /// The burst that a budget gets when none is asked for: for each shard the one request that is due, and as many as
    /// fall due in 10 ms, rounded up. Below 10/s per shard it is the one alone.
    ///
    /// A burst of `b` forgives lateness of up to `b - 1` intervals, so the one by itself would forgive none.
    #[must_use]
    pub fn default_burst(rate: &Rate, shards: u32) -> u64 {
        let interval_ns = shard_interval_ns(rate, u64::from(shards));
        let late =
            if interval_ns < duration_ns(SLOW_INTERVAL) { duration_ns(CATCH_UP).div_ceil(interval_ns) } else { 0 };
        (1 + late).saturating_mul(u64::from(shards))
    }

    /// The budget and how it changes; none without one.
    #[must_use]
    pub fn shaped_rate(&self) -> Option<ShapedRate> {
        self.rate.map(|peak| ShapedRate { peak, shape: self.shape })
    }

    /// Checks the plan as a whole.
    ///
    /// # Errors
    /// Names the first flag that makes no sense.
    pub fn validate(self) -> Result<Self, PlanError> {
        if self.ids.is_empty() {
            return Err(PlanError::NoIds(self.ids));
        }
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return Err(PlanError::Shards(self.shards));
        }
        if self.connections < self.shards {
            return Err(PlanError::Connections { connections: self.connections, shards: self.shards });
        }
        self.validate_arrivals()?;
        if self.has_budget() && self.burst < u64::from(self.shards) {
            return Err(PlanError::Burst { burst: self.burst, shards: self.shards });
        }
        self.manners.validate()?;
        if let (RateShape::Ramp { .. }, Some(rate)) = (self.shape, self.shaped_rate())
            && self.duration.is_none_or(|duration| duration > LONGEST_RAMP)
        {
            return Err(PlanError::RampTime(rate.to_string()));
        }
        if let Some(connections) = self.per_host.connections.filter(|connections| *connections < self.shards) {
            return Err(PlanError::PerHostConnections { connections, shards: self.shards });
        }
        if self.timeout < Duration::from_millis(1) || self.timeout > Duration::from_hours(1) {
            return Err(PlanError::Timeout);
        }
        if self.grace > Duration::from_hours(1) {
            return Err(PlanError::Grace);
        }
        if self.duration.is_some_and(|duration| duration < Duration::from_millis(1)) {
            return Err(PlanError::Duration);
        }
        if self.shard_deadline < Duration::from_secs(1) {
            return Err(PlanError::ShardDeadline);
        }
        Ok(self)
    }

    fn validate_arrivals(&self) -> Result<(), PlanError> {
        let Self { arrivals, warmup, pacing, .. } = *self;
        let is_paced = self.rate.is_some() || self.per_host.rate.is_some() || self.manners.adaptive.is_some();
        if pacing != Pacing::Sleep && !is_paced {
            return Err(PlanError::PacingOfNothing(pacing));
        }
        if arrivals.gaps().is_some() && self.rate.is_none() {
            return Err(PlanError::ArrivalsWithoutRate(arrivals));
        }
        if arrivals.gaps().is_some() && self.burst > 0 {
            return Err(PlanError::BurstOfArrivals(arrivals));
        }
        if let Some(duration) = self.duration.filter(|duration| !warmup.is_zero() && *duration <= warmup) {
            return Err(PlanError::Warmup { warmup, duration });
        }
        Ok(())
    }

    /// Whether the rate bounds what goes, as in a closed loop. In an open loop it says when requests are intended instead.
    #[must_use]
    pub fn has_budget(&self) -> bool {
        self.rate.is_some() && self.arrivals.gaps().is_none()
    }

    /// Each shard's part. `cpus` are those that this process may use; empty means unknown.
    #[must_use]
    pub fn split(&self, cpus: &[usize]) -> Vec<ShardPlan> {
        (0..self.shards).map(|shard| self.shard(shard, cpus)).collect()
    }

    fn bursts(&self) -> Bursts {
        Bursts { any: self.burst, at_start: self.at_start }
    }

    /// How many requests may arrive at once, over all shards: the burst, and one of a budget whose requests are
    /// [kept apart](ShardPlan::spacing).
    #[must_use]
    pub fn at_once(&self) -> u64 {
        if self.spacing().is_some() { 1 } else { self.burst }
    }

    /// The same at the start: one, of shards that begin with one each, for they take turns.
    #[must_use]
    pub fn at_once_at_start(&self) -> u64 {
        if self.at_start == u64::from(self.shards) { 1 } else { self.at_start.min(self.at_once()) }
    }

    /// The time between two requests of a budget that allows no burst.
    ///
    /// A target that allows no burst either (nginx' `limit_req` by default) turns away a request that comes a millisecond
    /// too soon after the one before it, be that one of another shard or late itself.
    fn spacing(&self) -> Option<Duration> {
        let rate = self.rate.filter(|_| self.has_budget() && self.burst == u64::from(self.shards))?;
        let spacing_ns = u128::from(rate.period_ns).div_ceil(u128::from(rate.permits.max(1)));
        let spacing = Duration::from_nanos(u64::try_from(spacing_ns).unwrap_or(u64::MAX));
        (spacing >= SPACED).then_some(spacing)
    }

    fn shard(&self, shard: u32, cpus: &[usize]) -> ShardPlan {
        let (parts, i) = (u64::from(self.shards), u64::from(shard));
        let ids = IdRange {
            start: self.ids.start + split_point(self.ids.len(), parts, i),
            end: self.ids.start + split_point(self.ids.len(), parts, i + 1),
        };
        let connections = split_share(u64::from(self.connections), parts, i);
        let cpu = match self.pinning {
            Pinning::PerCpu if !cpus.is_empty() => Some(cpus[shard as usize % cpus.len()]),
            Pinning::PerCpu | Pinning::None => None,
        };
        let timed = self.arrivals.gaps().zip(self.rate);
        ShardPlan {
            shard,
            ids,
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            budget: self.rate.filter(|_| self.has_budget()).map(|rate| Budget::of(&rate, self.bursts(), parts, i)),
            arrivals: self.arrivals,
            pacing: self.pacing,
            timetable: timed.map(|(gaps, rate)| TimetablePlan {
                gaps,
                rate,
                stride: self.shards,
                offset: shard,
                seed: self.seed,
            }),
            warmup: self.warmup,
            grace: self.grace,
            manners: self.manners,
            shape: self.shape,
            per_host: self.per_host.share(parts, i),
            spacing: self.spacing(),
            siblings: self.shards,
            duration: self.duration,
            timeout: self.timeout,
            seed: self.seed,
            cpu,
        }
    }
}

/// One shard's part of a [`RunPlan`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardPlan {
    /// 0 for the first.
    pub shard: u32,
    /// Its IDs; disjoint from every other shard's, possibly empty.
    pub ids: IdRange,
    /// Its requests in flight at most; at least 1.
    pub connections: u32,
    /// Its share of the budget.
    pub budget: Option<Budget>,
    /// How its requests arrive.
    pub arrivals: Arrivals,
    /// How it waits until a request may go.
    pub pacing: Pacing,
    /// Its part of the timetable; none in a closed loop.
    pub timetable: Option<TimetablePlan>,
    /// How the rate changes in the course of the run.
    pub shape: RateShape,
    /// What happens when the target asks for patience.
    pub manners: Manners,
    /// Its share of what each host is to bear.
    pub per_host: HostShare,
    /// How far apart any two requests of the run are to arrive, whichever shards they come from; none when bursts are
    /// allowed, or requests are too close together to be told of.
    #[serde(rename = "spacing_us", with = "optional_micros")]
    pub spacing: Option<Duration>,
    /// How many shards there are, this one among them.
    pub siblings: u32,
    /// When to stop starting items, after the common start.
    #[serde(rename = "duration_us", with = "optional_micros")]
    pub duration: Option<Duration>,
    /// What was intended within this time after the start is not measured.
    #[serde(rename = "warmup_us", with = "micros")]
    pub warmup: Duration,
    /// How long what is under way at the end may take to end.
    #[serde(rename = "grace_us", with = "micros")]
    pub grace: Duration,
    /// The longest that one attempt may take.
    #[serde(rename = "timeout_us", with = "micros")]
    pub timeout: Duration,
    /// The seed of everything that is drawn.
    pub seed: u64,
    /// The CPU that it stays on.
    pub cpu: Option<usize>,
}

/// The bursts of a budget.
#[derive(Debug, Clone, Copy)]
struct Bursts {
    any: u64,
    at_start: u64,
}

/// A share of a rate: one request per `interval_ns`, `burst` at once at most, the first at `phase_ns`.
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
}

impl Budget {
    fn of(rate: &Rate, bursts: Bursts, parts: u64, i: u64) -> Self {
        let permits = u128::from(rate.permits.max(1));
        let phase = u128::from(i) * u128::from(rate.period_ns) / permits;
        Self {
            interval_ns: shard_interval_ns(rate, parts),
            burst: split_share(bursts.any, parts, i).max(1),
            at_start: split_share(bursts.at_start, parts, i).max(1),
            phase_ns: u64::try_from(phase).unwrap_or(u64::MAX),
        }
    }
}

/// Nanoseconds between the requests of one of `parts` shards, at least 1.
fn shard_interval_ns(rate: &Rate, parts: u64) -> u64 {
    let interval = (u128::from(parts) * u128::from(rate.period_ns)).div_ceil(u128::from(rate.permits.max(1)));
    u64::try_from(interval).unwrap_or(u64::MAX).max(1)
}

/// Durations as whole microseconds.
mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_micros()).unwrap_or(u64::MAX))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

/// Durations that may be absent, as whole microseconds.
mod optional_micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's `with` fixes this signature")]
    pub(super) fn serialize<S: Serializer>(value: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(|duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_micros))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A plan that other modules' tests start from.
    pub(crate) fn plan() -> RunPlan {
        RunPlan {
            target: "test".to_owned(),
            workload: BTreeMap::new(),
            ids: IdRange { start: 0, end: 1000 },
            shards: 2,
            connections: 8,
            rate: None,
            shape: RateShape::Constant,
            burst: 0,
            at_start: 0,
            arrivals: Arrivals::Asap,
            pacing: Pacing::Sleep,
            manners: Manners::default(),
            per_host: PerHost::default(),
            duration: None,
            warmup: Duration::ZERO,
            grace: Duration::from_secs(10),
            timeout: Duration::from_secs(10),
            shard_deadline: Duration::from_secs(10),
            seed: 1,
            pinning: Pinning::None,
        }
    }

    #[test]
    fn a_plan_that_makes_no_sense_names_its_flag() {
        type Spoil = fn(&mut RunPlan);
        let cases: [(Spoil, &str); 11] = [
            (|p| p.ids.end = p.ids.start, "--ids"),
            (|p| p.shards = 0, "--shards"),
            (|p| p.connections = 1, "--connections"),
            (|p| (p.rate, p.burst) = (Some(Rate { permits: 5, period_ns: 1 }), 1), "--burst"),
            (|p| p.timeout = Duration::ZERO, "--timeout"),
            (|p| p.duration = Some(Duration::ZERO), "--duration"),
            (|p| p.arrivals = Arrivals::Constant, "--arrivals constant needs a --rate"),
            (|p| p.pacing = Pacing::Spin, "--pacing spin needs a --rate"),
            (
                |p| (p.arrivals, p.rate, p.burst) = (Arrivals::Poisson, Some(Rate { permits: 5, period_ns: 1 }), 8),
                "--burst",
            ),
            (|p| (p.warmup, p.duration) = (Duration::from_secs(1), Some(Duration::from_secs(1))), "--warmup 1s"),
            (|p| p.grace = Duration::from_hours(2), "--grace"),
        ];
        for (spoil, flag) in cases {
            let mut spoilt = plan();
            spoil(&mut spoilt);
            let message = spoilt.validate().unwrap_err().to_string();
            assert!(message.starts_with(flag), "{message}");
        }
        assert!(plan().validate().is_ok());
    }

    #[test]
    fn the_default_burst_forgives_milliseconds_and_is_small_where_requests_are_rare() {
        const SECOND: u64 = 1_000_000_000;
        let cases = [
            // One that is due and 63 that fall due in 25 ms, per shard.
            ((5_000, SECOND), 2, 128),
            ((5_000, SECOND), 8, 136),
            ((200, SECOND), 2, 8),
            ((1, 1), 1, 25_000_001),
            // As far apart as a shard's requests may be and still be caught up with, and a little further.
            ((21, SECOND), 2, 4),
            ((20, SECOND), 2, 2),
            ((3, SECOND), 8, 8),
            ((500, 60 * SECOND), 8, 8),
            ((10, 3_600 * SECOND), 8, 8),
        ];
        for ((permits, period_ns), shards, burst) in cases {
            let rate = Rate { permits, period_ns };
            assert_eq!(RunPlan::default_burst(&rate, shards), burst, "{rate} over {shards}");
        }
    }

    #[test]
    fn a_rate_below_one_per_shard_interleaves_evenly() {
        let mut run = plan();
        (run.shards, run.connections, run.rate, run.burst) =
            (8, 8, Some(Rate { permits: 3, period_ns: 1_000_000_000 }), 8);
        let budgets: Vec<Budget> = run.split(&[]).iter().filter_map(|shard| shard.budget).collect();
        assert!(budgets.iter().all(|budget| budget.interval_ns == 2_666_666_667 && budget.burst == 1));
        let gaps: Vec<u64> = budgets.windows(2).map(|pair| pair[1].phase_ns - pair[0].phase_ns).collect();
        assert!(gaps.iter().all(|gap| (333_333_333..=333_333_334).contains(gap)), "{gaps:?}");
    }

    #[test]
    fn a_plan_survives_json() {
        let mut run = plan();
        run.duration = Some(Duration::from_millis(1500));
        let json = serde_json::to_string(&run).unwrap();
        assert!(json.contains("\"duration_us\":1500000"), "{json}");
        assert_eq!(serde_json::from_str::<RunPlan>(&json).unwrap(), run);
    }

    proptest! {
        #[test]
        fn parts_are_disjoint_ordered_covering_and_even(total: u64, parts in 1..2000_u64) {
            let shares: Vec<u64> = (0..parts).map(|i| split_share(total, parts, i)).collect();
            prop_assert_eq!(shares.iter().map(|share| u128::from(*share)).sum::<u128>(), u128::from(total));
            let (least, most) = (shares.iter().min().unwrap(), shares.iter().max().unwrap());
            prop_assert!(most - least <= 1);
            prop_assert_eq!(split_point(total, parts, 0), 0);
            prop_assert_eq!(split_point(total, parts, parts), total);
            for i in 0..parts {
                prop_assert!(split_point(total, parts, i) <= split_point(total, parts, i + 1));
            }
        }

        #[test]
        fn the_default_burst_is_alike_in_all_shards_and_forgives_its_time(
            permits in 1..10_000_000_u64, period_s in 1..4_000_u64, shards in 1..=MAX_SHARDS,
        ) {
            let rate = Rate { permits, period_ns: period_s * 1_000_000_000 };
            let burst = RunPlan::default_burst(&rate, shards);
            for i in [0, u64::from(shards) - 1] {
                let budget = Budget::of(&rate, Bursts { any: burst, at_start: burst }, u64::from(shards), i);
                prop_assert_eq!(budget.burst * u64::from(shards), burst);
                let forgiven = (budget.burst - 1) * budget.interval_ns;
                if budget.interval_ns < 100_000_000 {
                    prop_assert!((25_000_000..25_000_000 + budget.interval_ns).contains(&forgiven));
                } else {
                    prop_assert_eq!(forgiven, 0);
                }
            }
        }

        #[test]
        fn a_split_nests(total: u64, nodes in 1..20_u64, cores in 1..20_u64) {
            // Node by node, then core by core, gives ranges that are as even and as gapless as one split over all.
            for node in 0..nodes {
                let share = split_share(total, nodes, node);
                let within: u128 = (0..cores).map(|core| u128::from(split_share(share, cores, core))).sum();
                prop_assert_eq!(within, u128::from(share));
            }
        }

        #[test]
        fn shards_cover_the_run(
            start in 0..u64::MAX / 2, len in 1..1_000_000_u64, shards in 1..64_u32, more in 0..500_u32,
            permits in 1..1_000_000_u64, spare in 0..500_u64,
        ) {
            let mut run = plan();
            run.ids = IdRange { start, end: start + len };
            (run.shards, run.connections) = (shards, shards + more);
            run.rate = Some(Rate { permits, period_ns: 1_000_000_000 });
            run.burst = u64::from(shards) + spare;
            let parts = run.split(&[]);
            prop_assert_eq!(parts.first().unwrap().ids.start, run.ids.start);
            prop_assert_eq!(parts.last().unwrap().ids.end, run.ids.end);
            for pair in parts.windows(2) {
                prop_assert_eq!(pair[0].ids.end, pair[1].ids.start);
            }
            prop_assert_eq!(parts.iter().map(|p| p.connections).sum::<u32>(), run.connections);
            let budgets: Vec<Budget> = parts.iter().filter_map(|p| p.budget).collect();
            prop_assert_eq!(budgets.iter().map(|b| b.burst).sum::<u64>(), run.burst);
            // The shards together never exceed the rate, and fall short of it by rounding only.
            let per_second: f64 = budgets.iter().map(|b| 1e9 / b.interval_ns as f64).sum();
            let asked = permits as f64;
            prop_assert!(per_second <= asked * (1.0 + 1e-12), "{} of {}", per_second, asked);
            prop_assert!(per_second >= asked * (1.0 - asked / (1e9 * f64::from(shards)) - 1e-12));
        }
    }
}
