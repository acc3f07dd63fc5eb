//! Limits of one host within a shard: requests in flight, rate, and throttle pauses.
//!
//! Called by the gate before it admits a request to the host. It must not read a clock or wait.
//! Most crawls have one host; its limits are then those of the whole shard.

use super::deferred::Deferred;
use super::limiter::Limiter;
use super::pauses::ThrottlePauses;
use crate::adaptive::{Adaptive, ControllerState};
use crate::clock::Nanos;
use crate::pacer::{Pace, Pacer};
use crate::plan::{ShardPlan, split_share};
use crate::sample::{Attempt, Outcome, Permit};
use crate::wire::{Binding, PauseCause, PauseOrder};

/// Requests in flight that an adaptive run begins with, over all shards.
const FIRST: u64 = 10;

/// One host.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) pauses: ThrottlePauses,
    /// Its own rate limit.
    pub(super) limiter: Limiter,
    /// Limits that it taught; none if the shard learns nothing, or less than half was refused.
    adaptive: Option<Adaptive>,
    /// What a shard that learns a rate knows before it begins to; none from then on.
    before: Option<BeforeLearning>,
    /// Requests that may be under way at most.
    most: u32,
    pub(super) under_way: u32,
    /// Requests that were let through and are not written yet, those `held` included. It is not
    /// counted down where nothing limits the shard (`Gate::clear_at_once`), so it is too high after
    /// that.
    starting: u32,
    /// Those of them that have their connections and wait until they may be written.
    pub(super) held: u32,
    /// When one of as many requests as may be under way ended last.
    freed: Nanos,
    /// Work for it that had to let others go first.
    pub(super) deferred: Deferred,
}

/// Refusal of a request that asks to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Not before this moment; the end of time if not before something happens.
    pub(super) until: Nanos,
    /// The limit that refuses it.
    pub(super) binding: Binding,
}

impl Refusal {
    pub(super) const fn at(until: Nanos, binding: Binding) -> Self {
        Self { until, binding }
    }

    /// Not before something happens.
    pub(super) const fn blocked(binding: Binding) -> Self {
        Self::at(Nanos(u64::MAX), binding)
    }

    /// True if no moment is known at which it ends.
    pub(super) fn is_blocked(self) -> bool {
        self.until == Nanos(u64::MAX)
    }

    /// The one of two refusals that may end sooner.
    pub(super) fn sooner(self, other: Self) -> Self {
        if other.until < self.until {
            other
        } else {
            self
        }
    }
}

/// Answers of a host that has taught no rate so far. Where pauses are enough, they cost less than a
/// search of the rate: a quota of a second gives all that it has, and what refuses one request in
/// ten at random has no rate. Where half of all is refused, they are not.
#[derive(Debug)]
struct BeforeLearning {
    /// Place of the shard between the requests of the others, from 0 to 1.
    place: f64,
    /// Requests that were taken and refused, of the time of the last [`MEMORY`] refusals or so.
    taken: f64,
    refused: f64,
}

/// Refusals that the share of refusals is known from: about so many, and half of them at least.
const MEMORY: f64 = 16.0;

impl BeforeLearning {
    fn new(plan: &ShardPlan) -> Self {
        Self {
            place: place(plan),
            taken: 0.0,
            refused: 0.0,
        }
    }

    /// Takes in an attempt; true if half of all is refused.
    fn is_refused_half(&mut self, attempt: &Attempt) -> bool {
        if attempt.outcome != Outcome::Throttled {
            self.taken += f64::from(u8::from(attempt.outcome.is_answer()));
            return false;
        }
        self.refused += 1.0;
        let is_half = self.refused * 2.0 >= MEMORY && self.refused >= self.taken;
        (self.taken, self.refused) = (
            self.taken * (1.0 - 1.0 / MEMORY),
            self.refused * (1.0 - 1.0 / MEMORY),
        );
        is_half
    }
}

/// Place of a shard between the requests of the others, from 0 to 1.
fn place(plan: &ShardPlan) -> f64 {
    f64::from(plan.shard) / f64::from(plan.siblings.max(1))
}

/// The controller of a shard that begins at `start` and has `most` requests in flight at most; none
/// unless it is adaptive.
fn adaptive(plan: &ShardPlan, most: u32, start: Nanos) -> Option<Adaptive> {
    let (siblings, shard) = (u64::from(plan.siblings), u64::from(plan.shard));
    let first = u32::try_from(split_share(FIRST, siblings, shard)).unwrap_or(most);
    let kind = plan.throttling.adaptive?;
    Some(Adaptive::new(place(plan), start).limiting(kind, most, first, start))
}

impl Host {
    /// Host number `host` of a shard that starts at `start`.
    pub(super) fn new(host: u32, plan: &ShardPlan, start: Nanos) -> Self {
        let most = plan.per_host.connections.min(plan.in_flight());
        Self {
            pauses: ThrottlePauses::new(host, plan),
            limiter: Limiter::new(Pacer::new(plan.per_host.budget, start), start),
            adaptive: adaptive(plan, most, start),
            before: plan.learns_rate().then(|| BeforeLearning::new(plan)),
            most,
            under_way: 0,
            starting: 0,
            held: 0,
            freed: Nanos::default(),
            deferred: Deferred::default(),
        }
    }

    /// Learns what the target sustains from `from` on.
    pub(super) fn begin_late(&mut self, plan: &ShardPlan, from: Nanos) {
        self.adaptive = adaptive(plan, self.most, from);
    }

    /// True if nothing has to be timed, as far as can be seen.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limiter.pacer.is_unlimited() && self.adaptive.is_none() && self.pauses.is_unused()
    }

    /// True if fewer requests are under way than may be.
    pub(super) const fn has_room(&self) -> bool {
        self.under_way < self.most
    }

    /// True if at least two more requests are `held` than are connecting: another request would
    /// only wait behind them.
    ///
    /// A request that was let through counts in `starting` until it is written, and in `held`, too,
    /// while it has its connection and may not be written. So `starting - held` are connecting, and
    /// `held <= starting - held + 1` must hold for another one to be let through. (A request that
    /// was written and is to be written again may count in `held` alone: hence `saturating_sub`.)
    ///
    /// Why refuse: requests are let through slightly faster than they are written (0.4 % come late,
    /// for instance), and those held would add up. Why two: in a simulation of that with 5,000
    /// requests over 64 lanes,
    ///
    /// - without a refusal, 8 to 28 were held;
    /// - with a refusal at two more than are connecting, 2 to 8;
    /// - with a refusal at one more, 1 to 7. But that lost up to 6 % of the rate where each request
    ///   opens a connection of its own that takes one to three intervals (1,500 cases of 500
    ///   requests, one at a time), and two more lost nothing there.
    const fn is_backed_up(&self) -> bool {
        self.held > self.starting.saturating_sub(self.held) + 1
    }

    /// Ask if a request may go there at `now`, and since when. Nothing is charged.
    #[inline]
    pub(super) fn permission(&mut self, now: Nanos) -> Result<Nanos, Refusal> {
        if self.pauses.resume() > now {
            return Err(Refusal::at(self.pauses.resume(), Binding::Pause));
        }
        if !self.has_room() {
            return Err(Refusal::blocked(Binding::Concurrency));
        }
        if self.is_backed_up() {
            return Err(Refusal::blocked(Binding::Rate));
        }
        // What its limits did not allow before is not the client's lateness.
        let mut since = self.freed.max(self.pauses.resume());
        if let Some(adaptive) = &mut self.adaptive {
            if adaptive
                .limit()
                .is_some_and(|limit| self.under_way >= limit)
            {
                return Err(Refusal::blocked(Binding::Target));
            }
            match adaptive.poll(now) {
                Pace::Go(at) => since = since.max(at),
                Pace::Wait(next) => return Err(Refusal::at(next, Binding::Target)),
            }
        }
        match self.pauses.quota.poll(now) {
            Pace::Go(at) => since = since.max(at),
            Pace::Wait(next) => return Err(Refusal::at(next, Binding::Target)),
        }
        match self.limiter.pacer.peek(now) {
            Pace::Go(at) => Ok(since.max(at)),
            Pace::Wait(next) => Err(Refusal::at(next, Binding::Rate)),
        }
    }

    /// Counts a request that goes there at `now`, which was [allowed](Self::permission).
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.under_way += 1;
        self.starting = self.starting.saturating_add(1);
        self.pauses.admitted(now);
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.admitted();
        }
        self.limiter.admitted(now);
    }

    /// A request that was let through is written, or will not be.
    pub(super) const fn started(&mut self) {
        self.starting = self.starting.saturating_sub(1);
    }

    /// Takes in how an attempt ended. Some when all shards have to leave the host alone.
    pub(super) fn ended(&mut self, permit: &Permit, attempt: &Attempt) -> Option<PauseOrder> {
        let mut order = self.pauses.ended(permit, attempt);
        let before = self.before.as_mut();
        if before.is_some_and(|before| before.is_refused_half(attempt)) {
            self.begin_learning();
            if let Some(order) = &mut order {
                order.cause = PauseCause::Limited;
            }
        }
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.ended(attempt.done, self.under_way, attempt);
        }
        let limit = self.adaptive.as_ref().and_then(Adaptive::limit);
        if self.under_way >= limit.unwrap_or(self.most).min(self.most) {
            self.freed = self.freed.max(attempt.done);
        }
        self.under_way -= 1;
        match (attempt.outcome, &order) {
            (_, Some(order)) => self.learn(*order),
            (Outcome::Throttled, None) => self.throttled(attempt.done, attempt.done),
            _ => {}
        }
        order
    }

    fn learn(&mut self, order: PauseOrder) {
        match order.cause {
            PauseCause::Refused => self.throttled(order.at, order.until),
            PauseCause::Limited => {
                self.begin_learning();
                self.throttled(order.at, order.until);
            }
            // That was no refusal: nothing was learnt but what the pause says.
            PauseCause::UsedUp => {}
        }
    }

    /// From now on a rate is learnt from refusals.
    fn begin_learning(&mut self) {
        if let Some(before) = self.before.take() {
            let new = || Adaptive::new(before.place, Nanos::default());
            self.adaptive.get_or_insert_with(new);
        }
    }

    fn throttled(&mut self, at: Nanos, until: Nanos) {
        if let Some(adaptive) = &mut self.adaptive {
            adaptive.throttled(at, until);
        }
    }

    /// Limits that adaptation found; none unless the run is adaptive.
    pub(super) fn controller(&self) -> Option<ControllerState> {
        self.adaptive.as_ref()?.state()
    }

    /// Leaves it alone, as it told another shard.
    pub(super) fn ordered(&mut self, order: PauseOrder) {
        self.pauses.ordered(order);
        self.learn(order);
    }
}
