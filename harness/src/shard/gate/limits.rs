//! Limits that are checked before an attempt may go, and its counts afterwards.
//!
//! Called by the gate, which does the waiting and knows the lanes. It must not read a clock.

mod choosing;
mod closing;
mod sending;

use std::collections::VecDeque;
use std::time::Duration;

pub(in crate::shard) use self::closing::Dropped;
use self::closing::LeftOver;
use super::super::alarm::Ring;
use super::super::binding::{HostHistory, LimitHistory};
use super::super::deferred::Deferred;
use super::super::host::{Host, Refusal};
use super::super::limiter::Limiter;
use super::super::retry::{RetryBudget, RetryDecision, backoff};
use super::super::supply::{Again, Next, Supply, Task};
use super::lateness::{Going, Stalls, Stamps};
use super::running_median::RunningMedian;
use crate::adaptive::ControllerState;
use crate::clock::Nanos;
use crate::pacer::{Curve, Growth, Pace, Pacer, Slack, Timetable};
use crate::plan::{Arrivals, OnThrottle, ShardPlan};
use crate::process::SharedWords;
use crate::sample::{Attempt, Outcome, Permit, Repeat, Tries};
use crate::stats::HostTimes;
use crate::units::IdRange;
use crate::wire::{Binding, BudgetUse, PauseOrder, Scope, Sends, ThrottlingCounts};

/// Create the pacer of a shard: the timetable of an open loop, or a budget.
fn pacer(plan: &ShardPlan, start: Nanos) -> Pacer {
    let curve = Curve::of(&plan.shape, plan.duration);
    let ends = plan
        .duration
        .map_or(Nanos(u64::MAX), |duration| start.plus(duration));
    let Some(timetable) = plan.timetable else {
        return Pacer::shaped(plan.budget, curve, start);
    };
    let table = Timetable::new(timetable, curve, start, ends);
    Pacer::Timed(Box::new(table.replaying(&plan.recorded, plan.span().start)))
}

/// The number of an ID's host.
pub(in crate::shard) type HostOf = Box<dyn Fn(u64) -> u32>;

/// Permission to request an ID.
pub(in crate::shard) type MayRequest = Box<dyn Fn(u64) -> bool>;

/// Most IDs that are skipped at once, after which the shard does what else it has to do: a fraction
/// of a millisecond.
const MOST_SKIPPED: usize = 512;

/// Time until more IDs are skipped.
pub(super) const SKIP_PAUSE: Duration = Duration::from_micros(20);

/// Work and limits of a shard, by which its gate decides.
pub(in crate::shard) struct Limits {
    pub(super) supply: Supply,
    hosts: Vec<Host>,
    host_of: HostOf,
    /// The numbers of the hosts that something was deferred for, the one served last at the end.
    behind: VecDeque<u32>,
    /// Event that the waiting lanes wait for.
    pub(super) waits: Waits,
    /// Pacer of the run.
    limiter: Limiter,
    /// When the client did not run.
    stalls: Stalls,
    /// In an open loop, since when the hosts of all turns taken have allowed them.
    in_turn_since: Nanos,
    retries: RetryBudget,
    /// Service times of the last good responses, by which the slack of the pacing is chosen.
    service: RunningMedian,
    pub(in crate::shard) timeline: LimitHistory,
    /// Limits of the shard without the rates of hosts: a host that waits for its own rate leaves
    /// the others free. Kept with several hosts.
    common_timeline: LimitHistory,
    /// Limits that held each host back; empty with one host.
    host_timelines: Vec<HostHistory>,
    plan: ShardPlan,
    /// Attempts that were let through and have not ended.
    pub(super) under_way: u32,
    /// Attempts that may still join the current wave.
    left_in_wave: u32,
    /// Free lanes, each with the moment at which it became free.
    pub(super) waiting: VecDeque<(usize, Nanos)>,
    /// Since when there has always been a free lane, while there is one.
    free_since: Nanos,
    /// Lanes whose requests have their connections and may not be written yet, and their hosts.
    pub(super) sending: VecDeque<(usize, u32)>,
    pub(super) state: State,
    /// True while the workload has no room for more results.
    pub(super) is_full: bool,
    /// Since when it has had some, if it ever had none.
    pub(super) room_since: Nanos,
    /// When the budget ceases to be the run's; the end of time if it is its own.
    lease: Nanos,
    /// IDs whose requests were let through and withdrawn at the end, before they were sent.
    returned: u64,
    /// Permission to request an ID; none if all may be.
    pub(super) may_request: Option<MayRequest>,
    /// IDs that were skipped because they may not be requested, and are yet to be counted.
    pub(super) skipped: Vec<u64>,
    /// When those were scheduled that found the queue full or were too old, and when they were
    /// dropped; yet to be counted.
    pub(in crate::shard) dropped: Vec<(Nanos, Nanos)>,
    /// The timetable's use, noted when the gate is closed.
    left_over: LeftOver,
    /// True if nothing has to be timed: a lane goes on at the moment at which it became free. Noted
    /// whenever it may change, for it is asked of each request.
    is_unlimited: bool,
}

/// State of the gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    Open,
    /// Reported to the supervisor as having nothing to do.
    Idle,
    Closed,
}

/// Event that waiting lanes wait for, beside being called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    /// A moment.
    ForTime,
    /// The end of any attempt: a host with as many under way as it may have would allow another
    /// then, however long the others want to be left alone.
    ForAnEnd,
}

/// Moments since which each limit has allowed an attempt, and the moment at which it goes.
#[derive(Debug, Clone, Copy)]
struct Moments {
    /// Since when the pacer has let it go.
    due: Nanos,
    /// Since when its host has.
    allowed: Nanos,
    /// Since when there has been a lane for it.
    free: Nanos,
    /// When it goes.
    now: Nanos,
}

/// Items that may wait for another attempt at once: it bounds the memory of a shard whose target
/// asks for long waits.
const MOST_WAITING: u64 = 10_000;

impl Limits {
    /// The limits of a shard that starts at `start`.
    pub(super) fn new(plan: &ShardPlan, start: Nanos, host_of: HostOf) -> Self {
        let mut limits = Self {
            supply: Supply::new(&plan.ids),
            hosts: (0..plan.per_host.hosts.max(1))
                .map(|host| Host::new(host, plan, start))
                .collect(),
            host_of,
            behind: VecDeque::new(),
            waits: Waits::ForTime,
            limiter: Limiter::new(pacer(plan, start), start),
            stalls: Stalls::default(),
            in_turn_since: Nanos::default(),
            retries: RetryBudget::new(plan),
            service: RunningMedian::default(),
            timeline: LimitHistory::new(start),
            common_timeline: LimitHistory::new(start),
            host_timelines: (0..plan.per_host.hosts)
                .filter(|_| plan.per_host.hosts > 1)
                .map(|_| HostHistory::new(start))
                .collect(),
            plan: plan.clone(),
            under_way: 0,
            left_in_wave: 0,
            waiting: VecDeque::with_capacity(plan.lanes()),
            free_since: start,
            sending: VecDeque::new(),
            state: State::Open,
            is_full: false,
            room_since: Nanos::default(),
            lease: Nanos(u64::MAX),
            returned: 0,
            may_request: None,
            skipped: Vec::new(),
            dropped: Vec::new(),
            left_over: LeftOver::default(),
            is_unlimited: false,
        };
        limits.note_unlimited();
        limits
    }

    /// Begins at `from`, after the common start: no time before it earns or counts.
    pub(in crate::shard) fn begin_late(&mut self, from: Nanos) {
        (self.timeline, self.common_timeline, self.free_since) =
            (LimitHistory::new(from), LimitHistory::new(from), from);
        self.host_timelines
            .iter_mut()
            .for_each(|timeline| *timeline = HostHistory::new(from));
        self.retries.begin_late();
        self.hosts
            .iter_mut()
            .for_each(|host| host.begin_late(&self.plan, from));
        self.all_limiters()
            .for_each(|(_, limiter)| limiter.pacer.begin_late(from));
    }

    /// Keeps its distance from the requests of the other shards: the run's by the first of `words`,
    /// then those to each host.
    pub(in crate::shard) fn share(&mut self, words: &SharedWords) {
        self.all_limiters()
            .zip(0..words.len())
            .for_each(|((_, limiter), at)| limiter.share(words, at));
    }

    /// Uses this much more of each budget than at the start.
    pub(super) fn grow(&mut self, growth: Growth, now: Nanos) {
        self.all_limiters()
            .for_each(|(_, limiter)| limiter.pacer.grow(growth, now));
    }

    /// IDs that were not started, or whose requests were withdrawn before they were sent.
    pub(super) fn not_started(&self) -> u64 {
        self.supply.not_started()
            + self.returned
            + self.deferred().map(Deferred::firsts).sum::<u64>()
    }

    /// Items that wait for another attempt.
    pub(in crate::shard) fn waiting_again(&self) -> u64 {
        self.supply.waiting_again() + self.deferred().map(Deferred::agains).sum::<u64>()
    }

    /// Adds IDs at `now`.
    pub(super) fn receive(&mut self, range: IdRange, now: Nanos) {
        self.update_timetable(now);
        self.supply.receive(range);
        if self.state == State::Idle && !range.is_empty() {
            self.state = State::Open;
        }
    }

    /// IDs that it was given.
    pub(in crate::shard) const fn received(&self) -> u64 {
        self.supply.received()
    }

    /// Applies a pause that another shard received.
    pub(super) fn order(&mut self, order: PauseOrder) {
        if let Some(host) = self.hosts.get_mut(order.host as usize) {
            host.ordered(order);
            self.note_unlimited();
        }
    }

    /// Return the counts of throttle pauses and retries until `now`.
    pub(in crate::shard) fn throttling(&mut self, now: Nanos) -> ThrottlingCounts {
        self.hosts
            .iter_mut()
            .fold(ThrottlingCounts::default(), |all, host| {
                all.plus(&host.pauses.counts(now))
            })
    }

    /// The client did not run from `from` to `to`.
    pub(in crate::shard) fn stalled(&mut self, from: Nanos, to: Nanos) {
        self.stalls.note(from, to);
    }

    /// In an open loop, when the next request is due; none in a closed one.
    pub(super) fn due(&mut self) -> Option<Nanos> {
        self.limiter.pacer.timetable().map(|table| table.due())
    }

    /// Return the limit and the pace of adaptive hosts, summed over them; none unless they are
    /// adaptive.
    pub(in crate::shard) fn controller(&self) -> Option<ControllerState> {
        self.hosts
            .iter()
            .filter_map(Host::controller)
            .reduce(ControllerState::plus)
    }

    /// True if nothing has to be timed.
    #[inline]
    pub(super) const fn is_unlimited(&self) -> bool {
        self.is_unlimited
    }

    fn note_unlimited(&mut self) {
        self.is_unlimited = self.lease == Nanos(u64::MAX)
            && self.limiter.pacer.is_unlimited()
            && matches!(&self.hosts[..], [host] if host.is_unlimited());
    }

    /// Send no request from `end` on.
    pub(super) fn set_lease(&mut self, end: Nanos) {
        self.lease = end;
        self.note_unlimited();
    }

    fn host_of(&self, id: u64) -> usize {
        // With one host, there is no choice.
        if self.hosts.len() > 1 {
            (self.host_of)(id) as usize % self.hosts.len()
        } else {
            0
        }
    }

    pub(super) fn host(&mut self, number: u32) -> &mut Host {
        // Of one host, there is nothing to divide.
        let at = match self.hosts.len() {
            1 => 0,
            count => number as usize % count,
        };
        &mut self.hosts[at]
    }

    /// Ask if a request may go to that host at `now`, and note what holds it back.
    fn permission(&mut self, host: usize, now: Nanos) -> Result<Nanos, Refusal> {
        let permission = self.hosts[host].permission(now);
        if let Some(timeline) = self.host_timelines.get_mut(host) {
            let binding = permission.map_or_else(|refusal| refusal.binding, |_| Binding::Idle);
            timeline.set(binding, &self.common_timeline, now);
        }
        permission
    }

    /// Note the limit that holds the shard back from `now` on.
    pub(super) fn limited_by(&mut self, binding: Binding, now: Nanos) {
        self.timeline.set(binding, now);
        if self.host_timelines.is_empty() {
            return;
        }
        let is_of_run = now >= self.lease
            || matches!(self.limiter.pacer.peek(now), Pace::Wait(_))
            || matches!(self.limiter.peek_send(now), Pace::Wait(_));
        let is_of_host = binding == Binding::Rate && !is_of_run;
        self.common_timeline
            .set(if is_of_host { Binding::Idle } else { binding }, now);
    }

    /// Return the times for which each limit has held back each host until `now`; empty with one
    /// host.
    pub(in crate::shard) fn host_times(&self, now: Nanos) -> Vec<HostTimes> {
        self.host_timelines
            .iter()
            .map(|timeline| timeline.times(&self.common_timeline, now))
            .collect()
    }

    /// Return the work that had to let others go first, by host.
    fn deferred(&self) -> impl Iterator<Item = &Deferred> {
        self.behind
            .iter()
            .map(|host| &self.hosts[*host as usize].deferred)
    }

    /// Admit an attempt at `now`, for a lane that has been free since `free`, if every limit allows
    /// it. Without an item for it, the shard is held back by what holds its last requests back, if
    /// any.
    pub(super) fn ask(&mut self, free: Nanos, now: Nanos) -> Result<Permit, Refusal> {
        // Edited in place: a permit need not be moved for that.
        let mut asked = self.admit_next(free, now);
        if let Err(refusal) = &mut asked
            && refusal.binding == Binding::Idle
        {
            refusal.binding = self.holds_sending(now);
        }
        asked
    }

    fn admit_next(&mut self, free: Nanos, now: Nanos) -> Result<Permit, Refusal> {
        self.waits = Waits::ForTime;
        self.update_timetable(now);
        if self.is_full && !self.has_nothing() {
            return Err(Refusal::blocked(Binding::Storage));
        }
        if now >= self.lease && !self.has_nothing() {
            return Err(Refusal::blocked(Binding::Rate));
        }
        if !self.skip_forbidden() {
            return Err(Refusal::at(now.plus(SKIP_PAUSE), Binding::Idle));
        }
        if self.plan.arrivals == Arrivals::Waves {
            self.left_in_wave = if self.under_way == 0 {
                self.plan.in_flight()
            } else {
                self.left_in_wave
            };
            if self.left_in_wave == 0 {
                self.waits = Waits::ForAnEnd;
                return Err(Refusal::blocked(Binding::Concurrency));
            }
        }
        let since = match self.limiter.pacer.peek(now) {
            Pace::Go(since) => since,
            Pace::Wait(next) => return Err(self.refused(next, now)),
        };
        // What is tried again takes a turn that comes after it is due: an earlier one belongs to
        // another request, and is late.
        let (task, allowed) = if self.limiter.pacer.timetable().is_some() {
            self.next_in_turn(since, now)
        } else {
            self.choose(now)
        }?;
        let moments = Moments {
            due: since,
            allowed: allowed.max(self.room_since),
            free,
            now,
        };
        Ok(self.admit(task, moments))
    }

    /// Skip the IDs that may not be requested, up to the first that may be. False if there were so
    /// many that the shard has other things to do first.
    #[inline]
    pub(super) fn skip_forbidden(&mut self) -> bool {
        let Some(may_request) = &self.may_request else {
            return true;
        };
        // Those before are to be counted first.
        if self.skipped.len() >= MOST_SKIPPED {
            return false;
        }
        for _ in 0..MOST_SKIPPED {
            match self.supply.first().filter(|id| !may_request(*id)) {
                Some(_) => self.skipped.extend(self.supply.take_first()),
                None => return true,
            }
        }
        false
    }

    /// When to wake for a request that may go at `next`: then, or a moment later with those that
    /// come due in the meantime, as far as there are lanes for them.
    pub(super) fn ring(&mut self, next: Nanos) -> Ring {
        // Requests of a recording keep their own distances.
        let is_replay = self.plan.arrivals == Arrivals::Replay;
        let span = self.plan.pacing.slack(if is_replay {
            Duration::ZERO
        } else {
            self.service.median()
        });
        match self.limiter.pacer.rings(Slack {
            span,
            most: self.waiting.len(),
        }) {
            Some((at, then)) if at >= next && at <= next.plus(span) => Ring { at, then },
            // It is not the pacer that it waits for.
            Some(_) | None => Ring::from(next),
        }
    }

    /// Adds a lane that has been free since `free`, behind the others.
    pub(super) fn wait(&mut self, lane: usize, free: Nanos) {
        if self.waiting.is_empty() {
            self.free_since = free;
        }
        self.waiting.push_back((lane, free));
    }

    /// Leaves out what the timetable says of a time before `now` in which there was nothing to do,
    /// and drops what came in it while the queue was full.
    #[inline]
    pub(super) fn update_timetable(&mut self, now: Nanos) {
        if self.limiter.pacer.timetable().is_some() {
            self.update_turns(now);
        }
    }

    fn update_turns(&mut self, now: Nanos) {
        let Some(table) = self.limiter.pacer.timetable() else {
            return;
        };
        if let Some(since) = self.supply.nothing_before()
            && self.behind.is_empty()
        {
            table.skip_before(since.min(now));
        }
        if self.state == State::Closed {
            return;
        }
        if let Some(deadline) = self.plan.deadline {
            self.expire(deadline, now);
        }
        if let Some(queue) = self.plan.queue {
            self.bound_queue(queue, now);
        }
    }

    /// Let `task` go, with a permit that says when it was due and for what it waited.
    ///
    /// Open loop: `due` is the turn of the timetable, and `intended` of the permit. The moments, in
    /// the order in which they usually come:
    ///
    /// ```text
    /// due            free          allowed           now
    ///  |- no connection -|- a limit -----|- the client --|
    /// ```
    ///
    /// - `free`: from here on a lane is free (`free_since` while other lanes wait, too).
    /// - `allowed`: from here on its host allows it, and the workload has room (`room_since`).
    ///
    /// Nothing was waited for that came before `due`. The permit has the same waits as lengths, the
    /// client's first (`Going::stamps`). Time after `due` and before `free` in which the client did
    /// not run counts as the client's:
    ///
    /// ```text
    /// intended         ready          admitted          now
    ///  |- the client ----|- a limit -----|- no connection -|
    /// ```
    ///
    /// `Gate::settle` adds the wait for the second decision to the limit's: it moves `admitted`.
    ///
    /// Otherwise there is no timetable: `due` is when the pacer let it go, or the end of a retry's
    /// wait if that is later. `intended` is the latest of `due`, `allowed` and `free`, so that only
    /// the client's delay is left between it and `ready`; `ready` and `admitted` are `now`.
    fn admit(&mut self, task: Task, moments: Moments) -> Permit {
        let Moments {
            due,
            allowed,
            free,
            now,
        } = moments;
        self.under_way += 1;
        self.left_in_wave = self.left_in_wave.saturating_sub(1);
        match &mut self.limiter.pacer {
            Pacer::Unlimited => {}
            Pacer::Timed(table) => table.take(),
            Pacer::Budgeted(_) => self.limiter.admitted(now),
        }
        let host = u32::try_from(self.host_of(task.id())).unwrap_or(0);
        self.host(host).admitted(now);
        let due = match (&self.limiter.pacer, task) {
            (Pacer::Unlimited | Pacer::Budgeted(_), Task::Again(again)) => due.max(again.due),
            _ => due,
        };
        let (intended, Stamps { ready, admitted }) = match self.limiter.pacer {
            Pacer::Timed(_) => {
                // Any free lane would have done: this one may have been busy while others waited
                // for a limit.
                let free = if self.waiting.is_empty() {
                    free
                } else {
                    self.free_since
                };
                (
                    due,
                    Going {
                        intended: due,
                        free,
                        allowed,
                        now,
                    }
                    .stamps(&mut self.stalls),
                )
            }
            Pacer::Unlimited | Pacer::Budgeted(_) => (
                due.max(allowed).max(free).min(now),
                Stamps {
                    ready: now,
                    admitted: now,
                },
            ),
        };
        match task {
            Task::First(id) => {
                self.retries.earn();
                Permit {
                    id,
                    attempt: 0,
                    tries: Tries::NONE,
                    host,
                    first_intended: intended,
                    intended,
                    ready,
                    admitted,
                }
            }
            Task::Again(Again {
                id,
                attempt,
                tries,
                first_intended,
                ..
            }) => Permit {
                id,
                attempt,
                tries,
                host,
                first_intended,
                intended,
                ready,
                admitted,
            },
        }
    }

    /// Postpone the requests that an open loop has not admitted yet by the length of the throttle
    /// pause.
    pub(super) fn shift(&mut self) {
        // Of several hosts, the others go on.
        if let [host] = &mut self.hosts[..]
            && let Some(table) = self.limiter.pacer.timetable()
        {
            table.shift_to(host.pauses.counts.paused_ns);
        }
    }

    /// Items that wait for an attempt.
    fn work(&self) -> u64 {
        self.not_started() + self.waiting_again()
    }

    /// The limiters that a request to a host is sent under.
    fn limiters(&mut self, host: u32) -> [&mut Limiter; 2] {
        let host = host as usize % self.hosts.len();
        [&mut self.limiter, &mut self.hosts[host].limiter]
    }

    /// Takes in how an attempt ended. Some when all shards have to leave its host alone.
    #[inline]
    pub(super) fn ended(&mut self, permit: &Permit, attempt: &Attempt) -> Option<PauseOrder> {
        let order = self.host(permit.host).ended(permit, attempt);
        if order.is_some() || attempt.outcome == Outcome::Throttled {
            self.note_unlimited();
            self.shift();
        }
        // Of no use where nothing is timed.
        if !self.is_unlimited() {
            self.note_times(permit.host, attempt);
        }
        order
    }

    fn note_times(&mut self, host: u32, attempt: &Attempt) {
        for limiter in self.limiters(host) {
            limiter.ended(attempt);
        }
        if let (true, Some(sent)) = (attempt.outcome.is_answer(), attempt.sent) {
            self.service.record(attempt.done.since(sent));
        }
    }

    fn all_limiters(&mut self) -> impl Iterator<Item = (Scope, &mut Limiter)> {
        let hosts = (0..)
            .map(Scope::Host)
            .zip(self.hosts.iter_mut().map(|host| &mut host.limiter));
        std::iter::once((Scope::Run, &mut self.limiter)).chain(hosts)
    }

    /// Use of the limits.
    pub(in crate::shard) fn budget_uses(&mut self) -> Vec<(Scope, BudgetUse)> {
        self.all_limiters()
            .filter_map(|(scope, limiter)| Some((scope, limiter.budget_use()?)))
            .collect()
    }

    /// Take the counts of requests sent in slots that ended by `now`, once each; none without any
    /// limit.
    pub(in crate::shard) fn take_sends(&mut self, now: Nanos) -> Option<Sends> {
        let complete = self.limiter.slots().number(now);
        let mut is_limited = false;
        let slots = self.all_limiters().filter_map(|(scope, limiter)| {
            is_limited |= limiter.budget_use().is_some();
            Some((scope, limiter.slots().take(complete))).filter(|(_, slots)| !slots.is_empty())
        });
        let slots = slots.collect();
        is_limited.then_some(Sends { slots, complete })
    }

    /// True if there is nothing to do, not even later.
    pub(super) fn has_nothing(&self) -> bool {
        self.supply.next(Nanos::default()) == Next::Nothing && self.behind.is_empty()
    }

    /// Has the item of an attempt that ended tried again, if it may be. Returns when at the
    /// earliest; once the gate is closed, when that would have been.
    #[inline]
    pub(super) fn try_again(&mut self, permit: &Permit, attempt: &Attempt) -> Option<Nanos> {
        let is_final = attempt.outcome.is_final()
            || matches!(attempt.advice.repeat, Repeat::Never | Repeat::Refused);
        if is_final {
            return None;
        }
        self.repeat(permit, attempt)
    }

    fn repeat(&mut self, permit: &Permit, attempt: &Attempt) -> Option<Nanos> {
        let is_throttled = attempt.outcome == Outcome::Throttled;
        let on_throttle = self.plan.throttling.on_throttle;
        if is_throttled && on_throttle == OnThrottle::Count {
            return None;
        }
        if self.supply.waiting_again() >= MOST_WAITING {
            self.host(permit.host).pauses.counts.retries_denied += 1;
            return None;
        }
        let is_followed = attempt.advice.repeat == Repeat::Follow;
        let (tries, number) = permit.tries.with(attempt);
        let is_free = is_followed || attempt.advice.repeat == Repeat::UntilTheEnd;
        match if is_free {
            RetryDecision::Granted
        } else {
            self.retries.spend(number)
        } {
            RetryDecision::Granted => {}
            RetryDecision::ItemHadItsShare => return None,
            RetryDecision::BudgetIsEmpty => {
                self.host(permit.host).pauses.counts.retries_denied += 1;
                return None;
            }
        }
        let wait = if is_followed || (is_throttled && on_throttle == OnThrottle::Honor) {
            // Everybody waits; refused requests go first afterwards.
            Duration::ZERO
        } else {
            let told = attempt
                .advice
                .wait
                .filter(|_| on_throttle != OnThrottle::Ignore || !is_throttled);
            let unit = self.host(permit.host).pauses.draw();
            let drawn = backoff(number - 1, unit, self.plan.throttling.backoff);
            told.map_or(drawn, |told| {
                told.max(drawn).min(self.plan.throttling.max_pause)
            })
        };
        let due = attempt.done.plus(wait);
        if self.state == State::Closed {
            return Some(due);
        }
        if self.plan.throttling.retries_on_top
            && let Some(table) = self.limiter.pacer.timetable()
        {
            table.add(due);
        }
        self.supply.again(Again {
            due,
            id: permit.id,
            attempt: permit.attempt + 1,
            tries,
            first_intended: permit.first_intended,
        });
        Some(due)
    }
}
