//! `RunPlan`, the validated description of a whole run, and `ShardPlan`, one shard's exact part of
//! it.
//!
//! Made by the command line, read by all other modules, stored in the report. Nothing here touches
//! the system.
//!
//! | room | for |
//! |---|---|
//! | `choices` | arrivals of an open or closed loop; waiting strategies; throttling, retries and backoff |
//! | `budget` | shards' shares of a rate, and of each host's limits |
//! | `split` | parts of numbers and of ranges of IDs |
//! | `part` | a part of a crawl on several machines, and its slot's share of the budget |
//! | `settings` | settings of the workload that a result records |
//! | `objective` | objectives of single requests |
//! | `error` | limits and errors of a plan, by flag |
//!
//! # The split laws
//!
//! Part `i` of `total` over `parts` runs from `floor(i * total / parts)` to
//! `floor((i + 1) * total / parts)`, in 128-bit arithmetic. The parts are disjoint, ordered and
//! covering, their sizes differ by at most one, and a split of a split is again such a split. IDs,
//! connections and bursts are dealt out by it.
//!
//! A rate of `N` per `P` becomes one interval of `ceil(S * P / N)` per shard with a phase of
//! `i * P / N`: the shards interleave evenly, each gets the same rate (so equal ranges end
//! together, which whole-number shares of 3 and 4 would not), and a rate below one per shard needs
//! no special case. Rounding the interval up keeps the total at or under the asked rate, by less
//! than `N / P` nanoseconds per second.

mod budget;
mod choices;
mod error;
mod objective;
mod part;
mod settings;
mod split;

use std::time::Duration;

use serde::{Deserialize, Serialize};

use self::budget::Bursts;
pub use self::budget::{Budget, HostShare, PerHost, default_burst, most_shards};
pub(crate) use self::choices::micros;
pub use self::choices::{
    AdaptiveKind, Arrivals, Backoff, BackoffError, Gaps, LEAST_LINGERING, LINGER, MAX_RETRIES,
    MOST_LINGER, OnThrottle, Pacing, RETRY_RESERVE, Recorded, ThrottlingPolicy, TimetablePlan,
};
use self::choices::{LONGEST_PAUSE, SHORTEST_PAUSE, optional_micros};
pub use self::error::{MAX_ARRIVALS_PER_S, MAX_CONNECTIONS, MAX_SHARDS, PlanError};
pub use self::objective::{RequestObjective, RequestObjectiveError, RequestTime};
pub use self::part::{PartPlanError, SlotShare};
pub use self::settings::{
    BundledSettings, ContentForm, HostRateSource, ListOrder, ProxySource, RobotsRule, RunNumber,
    TlsTrust, WorkloadSettings,
};
use self::split::part_of;
pub(crate) use self::split::without;
pub use self::split::{split_point, split_share};
pub use crate::units::UnknownName;
use crate::units::{IdRange, LONGEST_STAGE, Rate, RateShape, ShapedRate};

/// The most requests that a budget may let through at once.
const MOST_AT_ONCE: u64 = 1_000_000_000_000;

/// A timer of the kernel's is about this late at the median on a virtual machine (23 to 53 us from
/// the hundredth to the ninetieth part, November 2026), and what wakes with it a little more.
const TIMER_LATE: Duration = Duration::from_micros(60);

/// Pinning of shards to CPUs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pinning {
    /// Shard `i` runs on the `i`-th CPU of those that the workload names, round robin.
    PerCpu,
    /// The kernel places the shards.
    None,
}

/// Streams of a connection that a result does not name.
const fn one_stream() -> u32 {
    1
}

/// True if connections have one stream.
#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde calls"
)]
const fn is_one(streams: &u32) -> bool {
    *streams == 1
}

/// The whole run, validated. Durations are whole microseconds where they are stored.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RunPlan {
    /// Target of the crawl, for people: a URL with `{id}`, or the first of several.
    pub target: String,
    /// The workload's own settings, as resolved, for the record.
    pub workload: WorkloadSettings,
    /// The IDs of the crawl.
    pub ids: IdRange,
    /// Those of them that earlier runs of the same crawl have finished: disjoint ranges in order.
    /// They are not crawled again, and are no items of this run. Too many for a result, which has
    /// their number.
    #[serde(skip)]
    pub finished: Vec<IdRange>,
    /// Number of shards, each a process.
    pub shards: u32,
    /// Connections at most to one host, over all shards.
    pub connections: u32,
    /// Requests in flight at most on each of them. A plan without several has the hash of one from
    /// before there were any.
    #[serde(default = "one_stream", skip_serializing_if = "is_one")]
    pub streams: u32,
    /// The budget over all shards, or the rate at which requests arrive in an open loop; none is as
    /// fast as it goes. The highest one when it changes.
    pub rate: Option<Rate>,
    /// Course of the rate over the run.
    pub shape: RateShape,
    /// Limit on the requests that the budget lets through at once, over all shards; 0 without a
    /// budget, as in an open loop.
    pub burst: u64,
    /// Limit on the requests that it lets through at once at the start: all of a burst that was
    /// asked for, but one per shard of a burst that is there to make up for lateness. 0 without a
    /// budget.
    pub at_start: u64,
    /// Arrival process of the requests.
    pub arrivals: Arrivals,
    /// Requests of an open loop that may wait for a connection, over all shards; more are dropped.
    /// None for no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<u32>,
    /// Time after which a request of an open loop that was due and could not be sent is dropped.
    #[serde(
        rename = "deadline_us",
        with = "optional_micros",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub deadline: Option<Duration>,
    /// Objectives of each request, all at once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub objectives: Vec<RequestObjective>,
    /// Times of the items, if they are replayed. Too many for a result, which has their mean rate.
    #[serde(skip)]
    pub recorded: Recorded,
    /// Strategy by which a shard waits until a request may go.
    pub pacing: Pacing,
    /// The longest that a shard waits for more responses before it sleeps; zero for not at all. A
    /// plan without has the hash of one from before there was any.
    #[serde(
        rename = "linger_us",
        with = "micros",
        default,
        skip_serializing_if = "Duration::is_zero"
    )]
    pub linger: Duration,
    /// Reaction to throttling, and the retries.
    pub throttling: ThrottlingPolicy,
    /// Number of hosts, and the limits of each.
    pub per_host: PerHost,
    /// Time after which no item is started; none ends the run with its range.
    #[serde(rename = "duration_us", with = "optional_micros")]
    pub duration: Option<Duration>,
    /// Warm-up: what is scheduled within this time after the start is counted, and left out of the
    /// times and the rates.
    #[serde(rename = "warmup_us", with = "micros")]
    pub warmup: Duration,
    /// Time that requests under way at the end of the duration have to end; those that have not
    /// ended then are cut off and censored.
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
    /// Pinning of the shards to CPUs.
    pub pinning: Pinning,
}

impl RunPlan {
    /// Create a plan with defaults: a closed loop of one shard and one connection, without a rate,
    /// until `ids` are done.
    pub fn new(target: impl Into<String>, ids: IdRange) -> Self {
        Self {
            target: target.into(),
            workload: WorkloadSettings::default(),
            ids,
            finished: Vec::new(),
            shards: 1,
            connections: 1,
            streams: 1,
            rate: None,
            shape: RateShape::Constant,
            burst: 0,
            at_start: 0,
            arrivals: Arrivals::Asap,
            queue: None,
            deadline: None,
            objectives: Vec::new(),
            recorded: Recorded::default(),
            pacing: Pacing::Sleep,
            linger: Duration::ZERO,
            throttling: ThrottlingPolicy::default(),
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

    /// Return the number of requests in flight at most, over all shards: one on each stream of each
    /// connection.
    pub const fn in_flight(&self) -> u32 {
        self.connections.saturating_mul(self.streams)
    }

    /// The budget and how it changes; none without one.
    pub fn shaped_rate(&self) -> Option<ShapedRate> {
        self.rate.map(|peak| ShapedRate {
            peak,
            shape: self.shape.clone(),
        })
    }

    /// Return the rate, requests per second, if it is the same all the time; none of a recording,
    /// whose rate is a mean.
    pub fn steady_rate(&self) -> Option<f64> {
        let is_steady = self.shape == RateShape::Constant && self.arrivals != Arrivals::Replay;
        self.rate
            .filter(|_| is_steady)
            .map(|rate| rate.per_second())
    }

    /// Checks the plan as a whole.
    ///
    /// # Errors
    /// Names the first flag that makes no sense.
    pub fn validate(self) -> Result<Self, PlanError> {
        if self.ids.is_empty() {
            return Err(PlanError::NoIds(self.ids));
        }
        self.validate_finished()?;
        if self.shards == 0 || self.shards > MAX_SHARDS {
            return Err(PlanError::Shards(self.shards));
        }
        if self.connections > MAX_CONNECTIONS {
            return Err(PlanError::TooManyConnections(self.connections));
        }
        if self.streams == 0 || self.in_flight() > MAX_CONNECTIONS {
            return Err(PlanError::Streams {
                streams: self.streams,
                connections: self.connections,
            });
        }
        if self.connections < self.shards {
            return Err(PlanError::Connections {
                connections: self.connections,
                shards: self.shards,
            });
        }
        self.validate_arrivals()?;
        if self.burst > MOST_AT_ONCE {
            return Err(PlanError::HugeBurst(self.burst));
        }
        if self.has_budget() && self.burst < u64::from(self.shards) {
            return Err(PlanError::Burst {
                burst: self.burst,
                shards: self.shards,
            });
        }
        self.validate_throttling()?;
        self.validate_stages()?;
        if let Some(connections) = self
            .per_host
            .connections
            .filter(|connections| *connections < self.shards)
        {
            return Err(PlanError::PerHostConnections {
                connections,
                shards: self.shards,
            });
        }
        if self.timeout < Duration::from_millis(1) || self.timeout > Duration::from_hours(1) {
            return Err(PlanError::Timeout(self.timeout));
        }
        if self.grace > Duration::from_hours(1) {
            return Err(PlanError::Grace(self.grace));
        }
        if let Some(duration) = self
            .duration
            .filter(|duration| *duration < Duration::from_millis(1))
        {
            return Err(PlanError::Duration(duration));
        }
        if self.shard_deadline < Duration::from_secs(1) {
            return Err(PlanError::ShardDeadline(self.shard_deadline));
        }
        Ok(self)
    }

    /// Check that the stages of the rate, if it has any, end with the run.
    fn validate_stages(&self) -> Result<(), PlanError> {
        let Some(rate) = self.shaped_rate() else {
            return Ok(());
        };
        let (length, has_end) = self.shape.length();
        let is_ramp = self.shape.needs_end();
        let Some(duration) = self.duration else {
            return if is_ramp {
                Err(PlanError::RampTime(rate.to_string()))
            } else {
                Ok(())
            };
        };
        if is_ramp && duration.saturating_sub(length) > LONGEST_STAGE {
            return Err(PlanError::RampTime(rate.to_string()));
        }
        let rate = rate.to_string();
        if has_end && duration.as_micros() != length.as_micros() {
            return Err(PlanError::StagesEnd {
                rate,
                length,
                duration,
            });
        }
        if !has_end && !length.is_zero() && duration <= length {
            return Err(PlanError::StageNever {
                rate,
                length,
                duration,
            });
        }
        Ok(())
    }

    fn validate_throttling(&self) -> Result<(), PlanError> {
        let ThrottlingPolicy {
            retries,
            retry_budget_percent,
            max_pause,
            ..
        } = self.throttling;
        if retries > MAX_RETRIES {
            return Err(PlanError::Retries(retries));
        }
        if retry_budget_percent > 100 {
            return Err(PlanError::RetryBudget(retry_budget_percent));
        }
        if !(SHORTEST_PAUSE..=LONGEST_PAUSE).contains(&max_pause) {
            return Err(PlanError::MaxPause(max_pause));
        }
        Ok(())
    }

    /// Return whether requests wait for their time: by a rate of all, of a host, or an adaptive one.
    pub fn is_paced(&self) -> bool {
        self.rate.is_some() || self.per_host.rate.is_some() || self.throttling.adaptive.is_some()
    }

    fn validate_arrivals(&self) -> Result<(), PlanError> {
        let Self {
            arrivals,
            warmup,
            pacing,
            ..
        } = *self;
        if pacing != Pacing::Sleep && !self.is_paced() {
            return Err(PlanError::PacingOfNothing(pacing));
        }
        if arrivals == Arrivals::Waves && self.shards > 1 {
            return Err(PlanError::Waves(self.shards));
        }
        let times = self.recorded.0.len() as u64;
        if arrivals == Arrivals::Replay && (times != self.ids.end || self.ids.start > 0) {
            return Err(PlanError::Recorded {
                items: self.ids.len(),
                times,
            });
        }
        if arrivals.gaps().is_some() && self.rate.is_none() {
            return Err(PlanError::ArrivalsWithoutRate(arrivals));
        }
        let per_s = self.rate.map_or(0, |rate| rate.permits_in(1_000_000_000));
        if arrivals.gaps().is_some() && per_s > MAX_ARRIVALS_PER_S * u64::from(self.shards) {
            return Err(PlanError::ArrivalsTooFast(per_s));
        }
        if let (Some(queue), Arrivals::Asap | Arrivals::Waves | Arrivals::Replay) =
            (self.queue, arrivals)
        {
            return Err(PlanError::Queue { queue, arrivals });
        }
        let has_schedule = matches!(arrivals, Arrivals::Constant | Arrivals::Poisson);
        if self.throttling.retries_on_top && !has_schedule {
            return Err(PlanError::RetriesOnTop(arrivals));
        }
        if let Some(deadline) = self.deadline
            && (deadline < Duration::from_millis(1) || !has_schedule)
        {
            return Err(PlanError::Deadline { deadline, arrivals });
        }
        let is_response = |it: &&RequestObjective| it.time == RequestTime::Response;
        let of_response = self.objectives.iter().find(is_response);
        if let (Some(objective), None) = (of_response, arrivals.gaps()) {
            return Err(PlanError::NoResponseTimes(*objective));
        }
        if arrivals.gaps().is_some() && self.burst > 0 {
            return Err(PlanError::BurstOfArrivals(arrivals));
        }
        if let Some(duration) = self
            .duration
            .filter(|duration| !warmup.is_zero() && *duration <= warmup)
        {
            return Err(PlanError::Warmup { warmup, duration });
        }
        Ok(())
    }

    /// Return the number of IDs to crawl: those of the range without the finished ones.
    pub fn items(&self) -> u64 {
        self.ids.len()
            - self
                .finished
                .iter()
                .map(IdRange::len)
                .sum::<u64>()
                .min(self.ids.len())
    }

    /// Return the ranges of IDs to crawl, in order: all of `ids` unless some are finished.
    fn remaining(&self) -> Vec<IdRange> {
        without(&[self.ids], &self.finished)
    }

    fn validate_finished(&self) -> Result<(), PlanError> {
        let mut next = self.ids.start;
        for range in &self.finished {
            if range.is_empty() || range.start < next || range.end > self.ids.end {
                return Err(PlanError::Finished {
                    finished: *range,
                    ids: self.ids,
                });
            }
            next = range.end;
        }
        if self.arrivals == Arrivals::Replay && !self.finished.is_empty() {
            return Err(PlanError::FinishedReplay);
        }
        if self.items() == 0 {
            Err(PlanError::NothingLeft(self.ids))
        } else {
            Ok(())
        }
    }

    /// True if the budget has windows, of which each shard has whole requests.
    pub fn has_windows(&self) -> bool {
        self.has_budget() && matches!(self.shape, RateShape::Windows { .. })
    }

    /// True if the rate bounds what goes, as in a closed loop. In an open loop it says when
    /// requests are scheduled instead.
    pub fn has_budget(&self) -> bool {
        self.rate.is_some() && self.arrivals.gaps().is_none()
    }

    /// Each shard's part. `cpus` are those to pin shards to; empty for none.
    pub fn split(&self, cpus: &[usize]) -> Vec<ShardPlan> {
        let remaining = self.remaining();
        (0..self.shards)
            .map(|shard| self.shard(shard, &remaining, cpus))
            .collect()
    }

    fn bursts(&self) -> Bursts {
        Bursts {
            any: self.burst,
            at_start: self.at_start,
        }
    }

    /// Return the number that may arrive at once at the start: 1 if each shard begins with one
    /// request, because the shards take turns.
    pub fn at_once_at_start(&self) -> u64 {
        if self.at_start == u64::from(self.shards) && !self.has_windows() {
            1
        } else {
            self.at_start.min(self.burst)
        }
    }

    /// Return shard `i`'s share of the budget. The shards take turns, but the windows of all begin
    /// at once.
    fn budget(&self, rate: &Rate, i: u64) -> Budget {
        match self.shape {
            RateShape::Windows { every_ns } => {
                Budget::of_window(every_ns, split_share(self.burst, self.shards.into(), i))
            }
            RateShape::Constant | RateShape::Stages(_) => {
                Budget::of(rate, self.bursts(), self.shards.into(), i)
            }
        }
    }

    fn shard(&self, shard: u32, remaining: &[IdRange], cpus: &[usize]) -> ShardPlan {
        let (parts, i) = (u64::from(self.shards), u64::from(shard));
        let connections = split_share(u64::from(self.connections), parts, i);
        let cpu = match self.pinning {
            Pinning::PerCpu if !cpus.is_empty() => Some(cpus[shard as usize % cpus.len()]),
            Pinning::PerCpu | Pinning::None => None,
        };
        let timed = self.arrivals.gaps().zip(self.rate);
        // In windows a shard may have a request more than others: in proportion to its IDs, so that
        // all end together.
        let weight = if self.has_windows() {
            self.burst
        } else {
            parts
        };
        let own = split_point(weight, parts, i)..split_point(weight, parts, i + 1);
        ShardPlan {
            shard,
            life: 0,
            ids: part_of(remaining, weight, own),
            connections: u32::try_from(connections).unwrap_or(u32::MAX),
            streams: self.streams,
            items_of_run: self.items(),
            budget: self
                .rate
                .filter(|_| self.has_budget())
                .map(|rate| self.budget(&rate, i)),
            arrivals: self.arrivals,
            queue: self
                .queue
                .and_then(|queue| usize::try_from(split_share(queue.into(), parts, i)).ok()),
            deadline: self.deadline,
            objectives: self.objectives.clone(),
            recorded: self.recorded.clone(),
            pacing: self.pacing,
            linger: self.linger,
            timetable: timed.map(|(gaps, rate)| TimetablePlan {
                gaps,
                rate,
                stride: self.shards,
                offset: shard,
                seed: self.seed,
            }),
            warmup: self.warmup,
            grace: self.grace,
            throttling: self.throttling,
            shape: self.shape.clone(),
            per_host: self.per_host.share(parts, i),
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
    /// Number of processes of the shard before this one, each of which died.
    pub life: u32,
    /// Its IDs: ranges in order, disjoint from each other and from every other shard's; none if it
    /// has no ID.
    pub ids: Vec<IdRange>,
    /// Its connections at most to one host; at least 1.
    pub connections: u32,
    /// Requests in flight at most on each of them; at least 1.
    pub streams: u32,
    /// Items of all shards together.
    pub items_of_run: u64,
    /// Its share of the budget.
    pub budget: Option<Budget>,
    /// Arrival process of its requests.
    pub arrivals: Arrivals,
    /// Its requests that may wait for a connection in an open loop; none for no limit.
    pub queue: Option<usize>,
    /// Time after which a request that was due and could not be sent is dropped.
    #[serde(rename = "deadline_us", with = "optional_micros", default)]
    pub deadline: Option<Duration>,
    /// Objectives of each request, all at once.
    pub objectives: Vec<RequestObjective>,
    /// Times of the items of the run, if they are replayed; that of item 0 is the first.
    #[serde(skip)]
    pub recorded: Recorded,
    /// Strategy by which it waits until a request may go.
    pub pacing: Pacing,
    /// The longest that it waits for more responses before it sleeps.
    #[serde(rename = "linger_us", with = "micros", default)]
    pub linger: Duration,
    /// Its part of the timetable; none in a closed loop.
    pub timetable: Option<TimetablePlan>,
    /// Course of the rate over the run.
    pub shape: RateShape,
    /// Reaction to throttling, and the retries.
    pub throttling: ThrottlingPolicy,
    /// Its share of the limits of each host.
    pub per_host: HostShare,
    /// Number of shards, this one included.
    pub siblings: u32,
    /// Time after the common start from which on no item is started.
    #[serde(rename = "duration_us", with = "optional_micros")]
    pub duration: Option<Duration>,
    /// Warm-up: what is scheduled within this time after the start is not measured.
    #[serde(rename = "warmup_us", with = "micros")]
    pub warmup: Duration,
    /// Time that requests under way at the end have to end.
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

impl ShardPlan {
    /// Return the number of its IDs.
    pub fn items(&self) -> u64 {
        self.ids.iter().map(IdRange::len).sum()
    }

    /// Return the range from its first ID to its last one, some in between perhaps not its own;
    /// empty if it has no ID.
    pub fn span(&self) -> IdRange {
        let start = self.ids.first().map_or(0, |range| range.start);
        IdRange {
            start,
            end: self.ids.last().map_or(start, |range| range.end),
        }
    }

    /// Return the number of its requests in flight at most.
    pub const fn in_flight(&self) -> u32 {
        self.connections.saturating_mul(self.streams)
    }

    /// Return the time for which it is awake before the moment of a request: longer where requests
    /// keep their distance, so that each one's lateness is lost to the budget.
    pub fn awake(&self) -> Duration {
        let budgets = [self.budget, self.per_host.budget];
        let is_spaced = budgets.iter().flatten().any(|budget| budget.apart_ns > 0);
        let least = if is_spaced {
            TIMER_LATE
        } else {
            Duration::ZERO
        };
        self.pacing.awake().max(least)
    }

    /// True if it may learn from refusals how many requests per second its targets take. Those of an
    /// open loop, and of waves, have times of their own.
    pub fn learns_rate(&self) -> bool {
        let waits = self.throttling.on_throttle == OnThrottle::Honor;
        self.throttling.adaptive.is_some() || (waits && self.arrivals == Arrivals::Asap)
    }

    /// Lanes to make room for: requests in flight, as far as there are items for them. Whatever the
    /// other shards hand over, no more items than there are can be under way.
    pub fn lanes(&self) -> usize {
        usize::try_from(u64::from(self.in_flight()).min(self.items_of_run)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
pub(crate) mod tests;
