//! The gate that every attempt of a shard passes: it deals out what there is to do, asks every limit, and does the
//! waiting for them.
//!
//! Lanes call [`Gate::admit`] before an attempt and [`Gate::settle`] after it; one task runs [`Gate::keep`], which waits
//! for the next moment with the shard's alarm and lets the waiting lanes through first come, first served. While nobody
//! waits, the alarm is not set. Nothing is allocated per request.
//!
//! Limits are asked in this order: is there something to do, does its host allow it (does it ask for patience, are as many
//! requests under way there as it may have, is its own budget used), does the budget? The first that says no is the one
//! that is binding. What one host does not allow lets others go first.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::alarm::Alarm;
use super::binding::Ribbon;
use super::deferred::Deferred;
use super::host::{Host, Leave};
use super::messages::Messages;
use super::retry::{RetryBudget, Spent, backoff};
use super::slots::Slots;
use super::spacing::Spacing;
use super::supply::{Again, Next, Supply, Task};
use crate::adaptive::Standing;
use crate::clock::{Clock, Nanos};
use crate::pacer::{Curve, Pace, Pacer, Share};
use crate::plan::{OnThrottle, ShardPlan};
use crate::sample::{Attempt, Fate, Outcome, Permit, Repeat};
use crate::units::IdRange;
use crate::wire::{Admissions, Binding, BindingTimes, BudgetUse, Courtesy, Frame, PauseOrder};

/// The gate of one shard.
pub(super) struct Gate {
    clock: Clock,
    inner: RefCell<Inner>,
    lanes: Vec<LaneSlot>,
    keeper: Keeper,
    /// What the supervisor has to know at once.
    messages: Messages,
}

/// The number of an ID's host.
pub(super) type HostOf = Box<dyn Fn(u64) -> u32>;

struct Inner {
    supply: Supply,
    hosts: Vec<Host>,
    host_of: HostOf,
    /// The numbers of the hosts that something was deferred for, whoever was served last at the end.
    behind: VecDeque<u32>,
    /// What the lanes that wait are waiting for.
    waits: Waits,
    pacer: Pacer,
    retries: RetryBudget,
    ribbon: Ribbon,
    slots: Slots,
    spacing: Spacing,
    plan: ShardPlan,
    /// Attempts that were let through and have not ended.
    under_way: u32,
    waiting: VecDeque<(usize, Nanos)>,
    state: State,
}

/// Whether the gate lets anybody through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// It has said that it has nothing to do.
    Idle,
    Closed,
}

/// What waiting lanes wait for, beside being called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// A moment.
    ForTime,
    /// The end of any attempt: a host with as many under way as it may have would allow another then, however long the
    /// others want to be left alone.
    ForAnEnd,
}

/// Where a waiting lane finds its answer.
#[derive(Default)]
struct LaneSlot {
    answer: Cell<Option<Answer>>,
    waker: Cell<Option<Waker>>,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Go(Permit),
    NoMore,
}

/// The task that lets waiting lanes through, as seen by those who may have to wake it.
#[derive(Default)]
struct Keeper {
    waker: Cell<Option<Waker>>,
    /// Until when it sleeps unless it is called; the end of time when it waits to be called.
    asleep_until: Cell<Option<Nanos>>,
    called: Cell<bool>,
}

/// What asking for an attempt came to.
#[derive(Debug, Clone, Copy)]
enum Asked {
    /// It goes.
    Go(Permit),
    /// Not before this moment.
    At(Nanos, Binding),
    /// Not before something happens.
    Blocked(Binding),
}

/// What is said when there is nothing to do.
const NOTHING: Leave = Leave::Blocked(Binding::Idle);

impl Gate {
    /// The gate of a shard that starts at `start`.
    pub(super) fn new(clock: Clock, plan: &ShardPlan, start: Nanos, host_of: HostOf) -> Self {
        let lanes = plan.connections as usize;
        let inner = Inner {
            supply: Supply::new(plan.ids),
            hosts: (0..plan.per_host.hosts.max(1)).map(|host| Host::new(host, plan, start)).collect(),
            host_of,
            behind: VecDeque::new(),
            waits: Waits::ForTime,
            pacer: Pacer::shaped(plan.budget, Curve::of(plan.shape, plan.duration), start),
            retries: RetryBudget::new(plan),
            ribbon: Ribbon::new(start),
            slots: Slots::new(start),
            spacing: Spacing::new(plan),
            plan: plan.clone(),
            under_way: 0,
            waiting: VecDeque::with_capacity(lanes),
            state: State::Open,
        };
        let gate = Self {
            clock,
            inner: RefCell::new(inner),
            lanes: (0..lanes).map(|_| LaneSlot::default()).collect(),
            keeper: Keeper::default(),
            messages: Messages::default(),
        };
        gate.note_idleness(&mut gate.inner.borrow_mut());
        gate
    }

    /// Leave for the next attempt, for a lane that has been free since `free`. None once the gate is closed.
    pub(super) async fn admit(&self, lane: usize, free: Nanos) -> Option<Permit> {
        if let Some(answer) = self.try_admit(lane, free) {
            return answer.permit();
        }
        let slot = &self.lanes[lane];
        poll_fn(|cx| {
            if let Some(answer) = slot.answer.take() {
                return Poll::Ready(answer.permit());
            }
            slot.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    fn try_admit(&self, lane: usize, free: Nanos) -> Option<Answer> {
        let mut inner = self.inner.borrow_mut();
        if inner.state == State::Closed {
            return Some(Answer::NoMore);
        }
        if inner.waiting.is_empty() {
            // Without a budget nothing has to be timed: the lane goes on where it was.
            let now = if inner.is_unlimited() { free } else { self.clock.now() };
            match inner.ask(free, now) {
                Asked::Go(permit) => {
                    self.announce(&mut inner, now);
                    return Some(Answer::Go(permit));
                }
                Asked::At(_, binding) | Asked::Blocked(binding) => inner.ribbon.set(binding, now),
            }
        }
        inner.waiting.push_back((lane, free));
        drop(inner);
        self.keeper.call_before(Nanos(u64::MAX));
        None
    }

    /// Lets waiting lanes through when every limit allows it. Returns once the gate is closed.
    pub(super) async fn keep(&self, alarm: &mut Alarm) {
        loop {
            let until = match self.grant_due() {
                Due::At(next) => next,
                Due::WhenCalled => Nanos(u64::MAX),
                Due::Never => return,
            };
            self.keeper.asleep_until.set(Some(until));
            if until == Nanos(u64::MAX) {
                self.keeper.called().await;
            } else {
                let mut ring = pin!(alarm.until(until));
                let mut called = pin!(self.keeper.called());
                tokio::select! {
                    biased;
                    () = &mut ring => {}
                    () = &mut called => {}
                }
            }
            self.keeper.asleep_until.set(None);
        }
    }

    fn grant_due(&self) -> Due {
        let mut inner = self.inner.borrow_mut();
        loop {
            if inner.state == State::Closed {
                while let Some((lane, _)) = inner.waiting.pop_front() {
                    self.answer(lane, Answer::NoMore);
                }
                return Due::Never;
            }
            let Some(&(lane, free)) = inner.waiting.front() else { return Due::WhenCalled };
            let now = self.clock.now();
            match inner.ask(free, now) {
                Asked::Go(permit) => {
                    self.announce(&mut inner, now);
                    inner.waiting.pop_front();
                    self.answer(lane, Answer::Go(permit));
                    if inner.waiting.is_empty() {
                        inner.ribbon.set(Binding::Concurrency, now);
                    }
                }
                Asked::At(next, binding) => {
                    inner.ribbon.set(binding, now);
                    return Due::At(next);
                }
                Asked::Blocked(binding) => {
                    inner.ribbon.set(binding, now);
                    return Due::WhenCalled;
                }
            }
        }
    }

    /// Has the other shards keep their distance from a request that goes at `now`.
    fn announce(&self, inner: &mut Inner, now: Nanos) {
        if let Some(at) = inner.spacing.admitted(now) {
            self.messages.send(Frame::Arrived(at));
        }
    }

    fn answer(&self, lane: usize, answer: Answer) {
        let slot = &self.lanes[lane];
        slot.answer.set(Some(answer));
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// Takes in how an attempt ended, and says what becomes of its item.
    pub(super) fn settle(&self, permit: &Permit, attempt: &Attempt) -> Fate {
        let mut inner = self.inner.borrow_mut();
        inner.under_way -= 1;
        if let Some(order) = inner.host(permit.id).ended(permit, attempt) {
            self.messages.send(Frame::Pause(order));
        }
        if let Some(at) = inner.spacing.ended(attempt) {
            self.messages.send(Frame::Arrived(at));
        }
        let again = inner.try_again(permit, attempt);
        // Lanes may have waited for this attempt to end, or may take up its item sooner than what they wait for.
        if !inner.waiting.is_empty() {
            match inner.waits {
                Waits::ForTime => self.keeper.call_before(again.unwrap_or(Nanos(u64::MAX))),
                Waits::ForAnEnd => self.keeper.call(),
            }
        }
        self.note_idleness(&mut inner);
        if again.is_some() { Fate::Again } else { Fate::Ended }
    }

    /// Says so when there is nothing to do, and nothing under way that may have to be done again.
    fn note_idleness(&self, inner: &mut Inner) {
        if inner.state == State::Open && inner.under_way == 0 && inner.has_nothing() {
            inner.state = State::Idle;
            self.messages.send(Frame::Idle);
        }
    }

    /// What the supervisor has to know at once, as soon as there is something. Dropping the future loses nothing.
    pub(super) async fn messages(&self) -> Vec<Frame> {
        self.messages.next().await
    }

    /// What the supervisor has not been told yet, perhaps nothing. For the end of the shard.
    pub(super) fn last_messages(&self) -> Vec<Frame> {
        self.messages.take()
    }

    /// Waits as the target told another shard.
    pub(super) fn pause(&self, order: PauseOrder) {
        if let Some(host) = self.inner.borrow_mut().hosts.get_mut(order.host as usize) {
            host.ordered(order);
        }
    }

    /// Takes in that the target was at a request of shard `by` at `at`.
    pub(super) fn arrived(&self, at: Nanos, by: u32) {
        self.inner.borrow_mut().spacing.arrived(at, by);
    }

    /// Crawls these IDs, too.
    pub(super) fn receive(&self, range: IdRange) {
        let mut inner = self.inner.borrow_mut();
        inner.supply.receive(range);
        if inner.state == State::Idle && !range.is_empty() {
            inner.state = State::Open;
        }
        drop(inner);
        self.keeper.call();
    }

    /// Keeps within another share of the budget from now on, and says so.
    pub(super) fn set_share(&self, share: u32) {
        let mut inner = self.inner.borrow_mut();
        let parts = inner.plan.siblings;
        inner.pacer.set_share(Share(share), parts, self.clock.now());
        drop(inner);
        self.messages.send(Frame::Share(share));
        self.keeper.call();
    }

    /// What an adaptive shard allows itself now; none for others.
    pub(super) fn standing(&self) -> Option<Standing> {
        self.inner.borrow().hosts.iter().filter_map(Host::standing).reduce(Standing::plus)
    }

    /// Gives away the upper half of the IDs that were not started, and says which.
    pub(super) fn shed(&self) {
        let range = self.inner.borrow_mut().supply.shed();
        self.messages.send(Frame::Shed(range));
        self.note_idleness(&mut self.inner.borrow_mut());
    }

    /// Lets nobody through any more; the waiting lanes are told so. Returns what the last attempts of the items came to
    /// that would have been tried again.
    pub(super) fn close(&self) -> Vec<Outcome> {
        let mut inner = self.inner.borrow_mut();
        inner.state = State::Closed;
        let given_up = inner.give_up();
        drop(inner);
        // The keeper may sleep until a moment far away, so the lanes are told from here.
        self.grant_due();
        self.keeper.call();
        given_up
    }

    /// IDs not yet started: not dealt out, or dealt to a lane that has not taken them.
    pub(super) fn remaining(&self) -> u64 {
        let untaken = |lane: &&LaneSlot| matches!(lane.answer.get(), Some(Answer::Go(permit)) if permit.attempt == 0);
        let inner = self.inner.borrow();
        let deferred: u64 = inner.deferred().map(Deferred::firsts).sum();
        inner.supply.not_started() + deferred + self.lanes.iter().filter(untaken).count() as u64
    }

    /// IDs that it was given.
    pub(super) fn received(&self) -> u64 {
        self.inner.borrow().supply.received()
    }

    /// Items that wait for another attempt.
    pub(super) fn waiting_again(&self) -> u64 {
        let inner = self.inner.borrow();
        inner.supply.waiting_again() + inner.deferred().map(Deferred::agains).sum::<u64>()
    }

    /// How the budget was used; none without one.
    pub(super) fn budget_use(&self) -> Option<BudgetUse> {
        self.inner.borrow().pacer.audit().map(|audit| BudgetUse { worst: audit.worst(), kept: audit.kept() })
    }

    /// What has held the shard back until `now`.
    pub(super) fn binding(&self, now: Nanos) -> BindingTimes {
        self.inner.borrow().ribbon.times(now)
    }

    /// How the shard behaved until `now` when the target asked for patience.
    pub(super) fn courtesy(&self, now: Nanos) -> Courtesy {
        let mut inner = self.inner.borrow_mut();
        inner.hosts.iter_mut().fold(Courtesy::default(), |all, host| all.plus(host.brake().books(now)))
    }

    /// The admissions of the slots that are over at `now`, and were not handed out before.
    pub(super) fn take_admissions(&self, now: Nanos) -> Admissions {
        self.inner.borrow_mut().slots.take(now)
    }
}

impl Keeper {
    /// Wakes the keeper if it would sleep beyond `due`.
    fn call_before(&self, due: Nanos) {
        if self.asleep_until.get().is_some_and(|until| until >= due) {
            self.call();
        }
    }

    /// Has the keeper look again.
    fn call(&self) {
        self.called.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    async fn called(&self) {
        poll_fn(|cx| {
            if self.called.replace(false) {
                return Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}

#[derive(Debug)]
enum Due {
    At(Nanos),
    WhenCalled,
    Never,
}

impl Inner {
    /// Whether nothing has to be timed: a lane goes on at the moment at which it became free.
    fn is_unlimited(&self) -> bool {
        self.pacer.is_unlimited() && matches!(&self.hosts[..], [host] if host.is_unlimited())
    }

    fn host_of(&self, id: u64) -> usize {
        // With one host, nobody is asked.
        if self.hosts.len() > 1 { (self.host_of)(id) as usize % self.hosts.len() } else { 0 }
    }

    fn host(&mut self, id: u64) -> &mut Host {
        let host = self.host_of(id);
        &mut self.hosts[host]
    }

    /// What had to let others go first.
    fn deferred(&self) -> impl Iterator<Item = &Deferred> {
        self.behind.iter().map(|host| &self.hosts[*host as usize].deferred)
    }

    /// Lets an attempt go at `now`, for a lane that has been free since `free`, if every limit allows it.
    fn ask(&mut self, free: Nanos, now: Nanos) -> Asked {
        self.waits = Waits::ForTime;
        let since = match self.pacer.peek(now) {
            Pace::Go(_) if self.spacing.next() > now => return self.refused(self.spacing.next(), now),
            Pace::Go(since) => since.max(self.spacing.next()),
            Pace::Wait(next) => return self.refused(next, now),
        };
        match self.choose(now) {
            Ok((task, allowed)) => Asked::Go(self.admit(task, since.max(allowed).max(free), now)),
            Err(Leave::At(next, binding)) => Asked::At(next, binding),
            Err(Leave::Blocked(binding)) => Asked::Blocked(binding),
            Err(Leave::Go(_)) => Asked::Blocked(Binding::Idle),
        }
    }

    /// What is binding when the budget allows nothing before `next`: it is not the budget if there is nothing to do, or a
    /// host that would not allow it then.
    fn refused(&mut self, next: Nanos, now: Nanos) -> Asked {
        if self.hosts.len() > 1 {
            // What one of them wants says nothing of the others.
            return Asked::At(next, Binding::Rate);
        }
        match self.supply.next(now) {
            Next::Now => {}
            Next::At(due) => return Asked::At(due.max(next), Binding::Idle),
            Next::Nothing => return Asked::Blocked(Binding::Idle),
        }
        match self.hosts[0].leave(now) {
            Leave::At(later, binding) if later > next => Asked::At(later, binding),
            Leave::Blocked(binding) => Asked::Blocked(binding),
            Leave::At(..) | Leave::Go(_) => Asked::At(next, Binding::Rate),
        }
    }

    /// The next thing to do whose host allows it at `now`, and since when it does; or what all of them wait for.
    fn choose(&mut self, now: Nanos) -> Result<(Task, Nanos), Leave> {
        if let [host] = &mut self.hosts[..] {
            // There is nobody to go first.
            return match self.supply.next(now) {
                Next::Now => match host.leave(now) {
                    Leave::Go(since) => self.supply.take(now).map(|task| (task, since)).ok_or(NOTHING),
                    leave => Err(leave),
                },
                Next::At(due) => Err(Leave::At(due, Binding::Idle)),
                Next::Nothing => Err(NOTHING),
            };
        }
        while let Some(again) = self.supply.take_due(now) {
            let host = self.host_of(again.id);
            self.fall_behind(host);
            self.hosts[host].deferred.again(again);
        }
        let mut refusal = None;
        if let Some(chosen) = self.choose_deferred(now, &mut refusal) {
            return Ok(chosen);
        }
        // Nothing overtakes what was deferred for the same host, so there is no reason to look further once every host
        // has something.
        while self.behind.len() < self.hosts.len() {
            let stretch = self.supply.stretch();
            let Some(id) = self.supply.take_first() else {
                if let Next::At(due) = self.supply.next(now) {
                    self.refuse(&mut refusal, Leave::At(due, Binding::Idle));
                }
                break;
            };
            let number = self.host_of(id);
            let host = &mut self.hosts[number];
            // A host that is behind has refused already.
            if host.deferred.is_empty() {
                match host.leave(now) {
                    Leave::Go(since) => return Ok((Task::First(id), since)),
                    leave => self.refuse(&mut refusal, leave),
                }
                self.fall_behind(number);
            }
            self.hosts[number].deferred.first(id, stretch);
        }
        Err(refusal.unwrap_or(NOTHING))
    }

    /// Notes that something is about to be deferred for that host.
    fn fall_behind(&mut self, host: usize) {
        if self.hosts[host].deferred.is_empty() {
            self.behind.push_back(u32::try_from(host).unwrap_or(u32::MAX));
        }
    }

    /// What was deferred and may go at `now`.
    fn choose_deferred(&mut self, now: Nanos, refusal: &mut Option<Leave>) -> Option<(Task, Nanos)> {
        for at in 0..self.behind.len() {
            let number = self.behind[at] as usize;
            match self.hosts[number].leave(now) {
                Leave::Go(since) => {
                    let (count, host_of) = (self.hosts.len(), &self.host_of);
                    let host = &mut self.hosts[number];
                    let task = host.deferred.take(|id| host_of(id) as usize % count == number);
                    let is_behind = !host.deferred.is_empty();
                    if let Some(number) = self.behind.remove(at).filter(|_| is_behind) {
                        self.behind.push_back(number);
                    }
                    return task.map(|task| (task, since));
                }
                leave => self.refuse(refusal, leave),
            }
        }
        None
    }

    /// Takes in that a host does not allow anything.
    fn refuse(&mut self, refusal: &mut Option<Leave>, leave: Leave) {
        if matches!(leave, Leave::Blocked(_)) {
            self.waits = Waits::ForAnEnd;
        }
        *refusal = Some(refusal.map_or(leave, |before| before.sooner(leave)));
    }

    /// Lets `task` go at `now`, which everything has been ready for since `since`.
    fn admit(&mut self, task: Task, since: Nanos, now: Nanos) -> Permit {
        self.under_way += 1;
        if !self.pacer.is_unlimited() {
            self.pacer.poll(now);
            self.slots.admitted(now);
        }
        self.host(task.id()).admitted(now);
        match task {
            Task::First(id) => {
                self.retries.earn();
                let intended = since.min(now);
                Permit { id, attempt: 0, first_intended: intended, intended, ready: now, admitted: now }
            }
            Task::Again(Again { due, id, attempt, first_intended, .. }) => {
                let intended = since.max(due).min(now);
                Permit { id, attempt, first_intended, intended, ready: now, admitted: now }
            }
        }
    }

    /// Whether there is nothing to do, not even later.
    fn has_nothing(&self) -> bool {
        self.supply.next(Nanos::default()) == Next::Nothing && self.behind.is_empty()
    }

    /// Gives up on whatever waits for another attempt, and puts the rest back. Returns what the last attempts came to.
    fn give_up(&mut self) -> Vec<Outcome> {
        let mut given_up: Vec<Outcome> = self.supply.give_up().map(|again| again.outcome).collect();
        for host in &self.behind {
            given_up.extend(self.hosts[*host as usize].deferred.give_up().map(|again| again.outcome));
        }
        let hosts = &self.hosts;
        self.behind.retain(|host| !hosts[*host as usize].deferred.is_empty());
        given_up
    }

    /// Has the item of an attempt that ended tried again, if it may be. Returns when at the earliest.
    fn try_again(&mut self, permit: &Permit, attempt: &Attempt) -> Option<Nanos> {
        let is_throttled = attempt.outcome == Outcome::Throttled;
        let on_throttle = self.plan.manners.on_throttle;
        if attempt.advice.repeat == Repeat::Never
            || self.state == State::Closed
            || (is_throttled && on_throttle == OnThrottle::Count)
        {
            return None;
        }
        let attempts = permit.attempt + 1;
        match self.retries.spend(attempts) {
            Spent::Granted => {}
            Spent::ItemHadItsShare => return None,
            Spent::BudgetIsEmpty => {
                self.host(permit.id).brake().denied();
                return None;
            }
        }
        let wait = if is_throttled && on_throttle == OnThrottle::Honor {
            // Everybody waits; whoever was refused goes first afterwards.
            Duration::ZERO
        } else {
            let told = attempt.advice.wait.filter(|_| on_throttle != OnThrottle::Ignore || !is_throttled);
            let unit = self.host(permit.id).brake().draw();
            let drawn = backoff(permit.attempt, unit, self.plan.manners.backoff);
            told.map_or(drawn, |told| told.max(drawn).min(self.plan.manners.max_pause))
        };
        let due = attempt.done.plus(wait);
        self.supply.again(Again {
            due,
            id: permit.id,
            attempt: attempts,
            first_intended: permit.first_intended,
            outcome: attempt.outcome,
        });
        Some(due)
    }
}

impl Answer {
    fn permit(self) -> Option<Permit> {
        match self {
            Self::Go(permit) => Some(permit),
            Self::NoMore => None,
        }
    }
}
