//! Everything that is asked before an attempt may go, and what becomes of it afterwards: the gate's own books.
//!
//! Called by the gate, which does the waiting and knows the lanes. It must not read a clock.

use std::collections::VecDeque;
use std::time::Duration;

use super::super::alarm::Ring;
use super::super::binding::Ribbon;
use super::super::deferred::Deferred;
use super::super::host::{Host, Leave};
use super::super::limiter::Limiter;
use super::super::retry::{RetryBudget, Spent, backoff};
use super::super::spacing::Spacing;
use super::super::supply::{Again, Next, Supply, Task};
use super::lateness::{Going, Stalls, Stamps};
use crate::adaptive::Standing;
use crate::clock::Nanos;
use crate::pacer::{Curve, Pace, Pacer, Slack, Timetable};
use crate::plan::{OnThrottle, ShardPlan};
use crate::sample::{Attempt, Outcome, Permit, Repeat};
use crate::wire::{Binding, BudgetUse, Scope, Sends, TimetableUse};

/// Create the pacer of a shard: the timetable of an open loop, or a budget.
fn pacer(plan: &ShardPlan, start: Nanos) -> Pacer {
    let curve = Curve::of(plan.shape, plan.duration);
    let ends = plan.duration.map_or(Nanos(u64::MAX), |duration| start.plus(duration));
    plan.timetable.map_or_else(
        || Pacer::shaped(plan.budget, curve, start),
        |timetable| Pacer::Timed(Box::new(Timetable::new(timetable, curve, start, ends))),
    )
}

/// The number of an ID's host.
pub(in crate::shard) type HostOf = Box<dyn Fn(u64) -> u32>;

/// A request of an open loop that was due and did not go.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) struct Dropped {
    pub(in crate::shard) intended: Nanos,
    /// Begin of its wait for a connection; none where it waited for another limit.
    pub(in crate::shard) admitted: Option<Nanos>,
}

/// Work and limits of a shard, by which its gate decides.
pub(super) struct Limits {
    pub(super) supply: Supply,
    pub(super) hosts: Vec<Host>,
    pub(super) host_of: HostOf,
    /// The numbers of the hosts that something was deferred for, whoever was served last at the end.
    pub(super) behind: VecDeque<u32>,
    /// Event that the waiting lanes wait for.
    pub(super) waits: Waits,
    /// Pacer of the run.
    pub(super) limiter: Limiter,
    /// When the client did not run.
    pub(super) stalls: Stalls,
    /// In an open loop, since when the hosts of all turns taken have allowed them.
    in_turn_since: Nanos,
    pub(super) retries: RetryBudget,
    pub(super) ribbon: Ribbon,
    pub(super) plan: ShardPlan,
    /// Attempts that were let through and have not ended.
    pub(super) under_way: u32,
    pub(super) waiting: VecDeque<(usize, Nanos)>,
    /// Lanes whose requests have their connections and may not be written yet, and the IDs.
    pub(super) sending: VecDeque<(usize, u64)>,
    /// The turns to send that were asked for, or that this shard has.
    turns: Vec<Turn>,
    pub(super) state: State,
    /// IDs whose requests were let through and withdrawn at the end, before they were sent.
    pub(super) returned: u64,
    /// The timetable's use, noted when the gate is closed.
    left_over: LeftOver,
}

/// A turn to send under a limit that keeps any two requests apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    scope: Scope,
    /// True once it is the shard's.
    is_held: bool,
}

/// Answer to a request that has its connection and wants to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Clearance {
    /// The request may be written now.
    Go,
    /// Not before this moment.
    At(Nanos),
    /// Not before it is this shard's turn.
    NeedsTurn(Scope),
}

/// Rest of an open loop's timetable when the gate was closed.
#[derive(Debug, Clone, Copy, Default)]
struct LeftOver {
    postponed: u64,
    dropped_by: Option<Binding>,
    shifted_ns: u64,
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
    /// The end of any attempt: a host with as many under way as it may have would allow another then, however long the
    /// others want to be left alone.
    ForAnEnd,
}

/// Answer to a lane that asks for an attempt.
#[derive(Debug, Clone, Copy)]
pub(super) enum Asked {
    /// The attempt may go.
    Go(Permit),
    /// Not before this moment.
    At(Nanos, Binding),
    /// Not before something happens.
    Blocked(Binding),
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

/// Items that may wait for another attempt at once: it bounds the memory of a shard whose target asks for long waits.
const MOST_WAITING: u64 = 10_000;

/// Answer when there is nothing to do.
const NOTHING: Leave = Leave::Blocked(Binding::Idle);

impl Limits {
    /// The limits of a shard that starts at `start`.
    pub(super) fn new(plan: &ShardPlan, start: Nanos, host_of: HostOf) -> Self {
        Self {
            supply: Supply::new(plan.ids),
            hosts: (0..plan.per_host.hosts.max(1)).map(|host| Host::new(host, plan, start)).collect(),
            host_of,
            behind: VecDeque::new(),
            waits: Waits::ForTime,
            limiter: Limiter::new(pacer(plan, start), Spacing::new(plan.spacing, plan), start),
            stalls: Stalls::default(),
            in_turn_since: Nanos::default(),
            retries: RetryBudget::new(plan),
            ribbon: Ribbon::new(start),
            plan: plan.clone(),
            under_way: 0,
            waiting: VecDeque::with_capacity(plan.lanes()),
            sending: VecDeque::new(),
            turns: Vec::new(),
            state: State::Open,
            returned: 0,
            left_over: LeftOver::default(),
        }
    }

    /// IDs that were not started and had to let those of other hosts go first.
    pub(super) fn deferred_firsts(&self) -> u64 {
        self.deferred().map(Deferred::firsts).sum()
    }

    /// Items that were tried before and had to.
    pub(super) fn deferred_agains(&self) -> u64 {
        self.deferred().map(Deferred::agains).sum()
    }

    /// Return the limit and the pace of adaptive hosts, summed over them; none unless they are adaptive.
    pub(super) fn standing(&self) -> Option<Standing> {
        self.hosts.iter().filter_map(Host::standing).reduce(Standing::plus)
    }

    /// True if nothing has to be timed: a lane goes on at the moment at which it became free.
    pub(super) fn is_unlimited(&self) -> bool {
        self.limiter.pacer.is_unlimited() && matches!(&self.hosts[..], [host] if host.is_unlimited())
    }

    fn host_of(&self, id: u64) -> usize {
        // With one host, nobody is asked.
        if self.hosts.len() > 1 { (self.host_of)(id) as usize % self.hosts.len() } else { 0 }
    }

    pub(super) fn host(&mut self, id: u64) -> &mut Host {
        let host = self.host_of(id);
        &mut self.hosts[host]
    }

    /// Return the work that had to let others go first, by host.
    fn deferred(&self) -> impl Iterator<Item = &Deferred> {
        self.behind.iter().map(|host| &self.hosts[*host as usize].deferred)
    }

    /// Lets an attempt go at `now`, for a lane that has been free since `free`, if every limit allows it.
    pub(super) fn ask(&mut self, free: Nanos, now: Nanos) -> Asked {
        self.waits = Waits::ForTime;
        self.skip_idle(now);
        let since = match self.limiter.peek(now) {
            Pace::Go(since) => since,
            Pace::Wait(next) => return self.refused(next, now),
        };
        // What is tried again takes a turn that comes after it is due: an earlier one is somebody else's, and late.
        let chosen =
            if self.limiter.pacer.timetable().is_some() { self.next_in_turn(since, now) } else { self.choose(now) };
        match chosen {
            Ok((task, allowed)) => Asked::Go(self.admit(task, Moments { due: since, allowed, free, now })),
            Err(Leave::At(next, binding)) => Asked::At(next, binding),
            Err(Leave::Blocked(binding)) => Asked::Blocked(binding),
            Err(Leave::Go(_)) => Asked::Blocked(Binding::Idle),
        }
    }

    /// Return the refusal of an attempt that the budget allows no sooner than `next`. The limit that it names is not the budget if there
    /// is nothing to do, or if a host would not allow the attempt then.
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
            // A pause puts the timetable off, which is why nothing is due before its end.
            Leave::At(_, Binding::Pause) if self.limiter.pacer.timetable().is_some() => Asked::At(next, Binding::Pause),
            Leave::Blocked(binding) => Asked::Blocked(binding),
            Leave::At(..) | Leave::Go(_) => Asked::At(next, Binding::Rate),
        }
    }

    /// When to wake for a request that may go at `next`: then, or a moment later with those that come due meanwhile, as far
    /// as there are lanes for them.
    pub(super) fn ring(&self, next: Nanos) -> Ring {
        let span = self.plan.pacing.slack();
        match self.limiter.pacer.rings(Slack { span, most: self.waiting.len() }) {
            Some((at, then)) if at >= next && at <= next.plus(span) => Ring { at, then },
            // It is not the pacer that it waits for.
            Some(_) | None => Ring::from(next),
        }
    }

    /// Take the task for the turn of an open loop that is scheduled at `due`, and the moment since which its host has allowed it; the
    /// refusal if its host does not allow it at `now`.
    ///
    /// No other item goes first: the turn would be given to another host's item, and the wait would belong to no item.
    fn next_in_turn(&mut self, due: Nanos, now: Nanos) -> Result<(Task, Nanos), Leave> {
        let Some(id) = self.supply.peek(due) else {
            return Err(match self.supply.next(now) {
                // A turn of this very moment, before what is to be tried again is due.
                Next::At(again) => Leave::At(again, Binding::Idle),
                Next::Now | Next::Nothing => NOTHING,
            });
        };
        match self.host(id).leave(now) {
            Leave::Go(since) => {
                // What the turn before it waited for, it waited for as well.
                self.in_turn_since = self.in_turn_since.max(since);
                self.supply.take(due).map(|task| (task, self.in_turn_since)).ok_or(NOTHING)
            }
            leave => Err(leave),
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

    /// Take a deferred task that may go at `now`, and the moment since which its host has allowed it.
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

    /// Leaves out what the timetable says of a time before `now` in which there was nothing to do.
    pub(super) fn skip_idle(&mut self, now: Nanos) {
        if let Some(table) = self.limiter.pacer.timetable()
            && let Some(since) = self.supply.nothing_before()
            && self.behind.is_empty()
        {
            table.skip_before(since.min(now));
        }
    }

    /// Lets `task` go.
    fn admit(&mut self, task: Task, moments: Moments) -> Permit {
        let Moments { due, allowed, free, now } = moments;
        self.under_way += 1;
        match &mut self.limiter.pacer {
            Pacer::Unlimited => {}
            Pacer::Timed(table) => table.take(),
            Pacer::Budgeted(_) => self.limiter.admitted(now),
        }
        self.host(task.id()).admitted(now);
        let due = match (&self.limiter.pacer, task) {
            (Pacer::Unlimited | Pacer::Budgeted(_), Task::Again(again)) => due.max(again.due),
            _ => due,
        };
        let (intended, Stamps { ready, admitted }) = match self.limiter.pacer {
            Pacer::Timed(_) => (due, Going { intended: due, free, allowed, now }.stamps(&mut self.stalls)),
            Pacer::Unlimited | Pacer::Budgeted(_) => {
                (due.max(allowed).max(free).min(now), Stamps { ready: now, admitted: now })
            }
        };
        match task {
            Task::First(id) => {
                self.retries.earn();
                Permit { id, attempt: 0, first_intended: intended, intended, ready, admitted }
            }
            Task::Again(Again { id, attempt, first_intended, .. }) => {
                Permit { id, attempt, first_intended, intended, ready, admitted }
            }
        }
    }

    /// Postpone what an open loop has not let go yet by as long as the target has asked to be left alone.
    pub(super) fn shift(&mut self) {
        // Of several hosts, the others go on.
        if let [host] = &mut self.hosts[..]
            && let Some(table) = self.limiter.pacer.timetable()
        {
            table.shift_to(host.brake().paused_ns());
        }
    }

    /// Takes back what was let through and has not begun, if it can be dealt out again as if it never had been.
    pub(super) fn revoke(&mut self, permit: &Permit) -> bool {
        // Of several hosts, others may have gone past it since.
        let is_back = permit.attempt == 0 && self.hosts.len() == 1 && self.supply.take_back(permit.id);
        if is_back {
            self.under_way -= 1;
            self.hosts[0].revoked();
            self.limiter.end_pending();
            if let Some(table) = self.limiter.pacer.timetable() {
                table.give_back(permit.intended);
                // Nothing takes it up again.
                self.left_over.postponed += u64::from(self.state == State::Closed);
            }
        }
        is_back
    }

    /// Takes back what was let through and is withdrawn at `now`, after the gate was closed. True if the timetable had scheduled it by
    /// then: a pause of the only host moves it past the end.
    pub(super) fn withdraw(&mut self, permit: &Permit, now: Nanos) -> bool {
        self.under_way -= 1;
        self.host(permit.id).revoked();
        self.returned += u64::from(permit.attempt == 0);
        let (is_paused, hosts) = (self.resume(permit.id) > now, self.hosts.len());
        let Some(table) = self.limiter.pacer.timetable() else { return false };
        let is_postponed = is_paused && hosts == 1;
        if is_postponed {
            table.give_back(permit.intended);
            self.left_over.postponed += 1;
        } else {
            let held_by = if is_paused { Binding::Pause } else { Binding::Rate };
            self.left_over.dropped_by.get_or_insert(held_by);
        }
        !is_postponed
    }

    /// Empties the timetable, and returns each request that was due before `now` and did not go, as far as there was something
    /// to do for it. Notes those that would have been due without a pause.
    pub(super) fn drop_due(&mut self, now: Nanos) -> Vec<Dropped> {
        self.skip_idle(now);
        let work = self.work();
        let shifted_ns = match &mut self.hosts[..] {
            [host] => host.brake().books(now).paused_ns,
            // Of several hosts, the others go on.
            _ => 0,
        };
        let dropped_by = self.ribbon.binding();
        let Some(table) = self.limiter.pacer.timetable() else { return Vec::new() };
        let most = usize::try_from(work).unwrap_or(usize::MAX);
        let due: Vec<Nanos> = table.drain_due(now).take(most).collect();
        let postponed = table.postponed(now, work - due.len() as u64);
        self.left_over = LeftOver { postponed, dropped_by: (!due.is_empty()).then_some(dropped_by), shifted_ns };
        let waits_for_connection = matches!(dropped_by, Binding::Concurrency | Binding::Idle);
        let dropped = due.into_iter().map(|intended| {
            let going = Going { intended, free: now, allowed: now, now };
            let admitted = waits_for_connection.then(|| going.stamps(&mut self.stalls).admitted);
            Dropped { intended, admitted }
        });
        dropped.collect()
    }

    /// Items that wait for an attempt.
    fn work(&self) -> u64 {
        self.supply.not_started() + self.supply.waiting_again() + self.deferred_firsts() + self.deferred_agains()
    }

    /// When the oldest requests were intended that are due before `now` and did not go, `most` at most.
    pub(super) fn overdue(&mut self, now: Nanos, most: usize) -> Vec<Nanos> {
        let most = usize::try_from(self.work()).unwrap_or(usize::MAX).min(most);
        let table = self.limiter.pacer.timetable().filter(|table| table.due() < now);
        table.map(|table| table.clone().drain_due(now).take(most).collect()).unwrap_or_default()
    }

    /// The use of the timetable; none in a closed loop.
    pub(super) fn timetable_use(&mut self) -> Option<TimetableUse> {
        let LeftOver { postponed, dropped_by, shifted_ns } = self.left_over;
        let taken = self.limiter.pacer.timetable()?.taken();
        Some(TimetableUse { scheduled: taken + postponed, postponed, dropped_by, shifted_ns })
    }

    /// The limiters that a request for `id` is sent under.
    fn limiters(&mut self, id: u64) -> [(Scope, &mut Limiter); 2] {
        let host = self.host_of(id);
        let number = u32::try_from(host).unwrap_or(u32::MAX);
        [(Scope::Run, &mut self.limiter), (Scope::Host(number), &mut self.hosts[host].limiter)]
    }

    /// Ask if a request for `id` that has its connection may be written at `now`. The turn is the last thing to ask for: who has it
    /// keeps the other shards waiting.
    pub(super) fn clearance(&self, id: u64, now: Nanos) -> Clearance {
        let resume = self.resume(id);
        if resume > now {
            return Clearance::At(resume);
        }
        match (self.peek_send(id, now), self.turn_of(id)) {
            (Pace::Wait(due), _) => Clearance::At(due),
            (Pace::Go(_), Some(scope)) if !self.turns.contains(&Turn { scope, is_held: true }) => {
                Clearance::NeedsTurn(scope)
            }
            (Pace::Go(_), _) => Clearance::Go,
        }
    }

    /// Before this moment the host of `id` is not to receive anything, as it asked.
    pub(super) fn resume(&self, id: u64) -> Nanos {
        self.hosts[self.host_of(id)].resume()
    }

    /// Intends a request later that a pause of the only host held back for `ns` after it had its connection, as the pause does with all
    /// requests of an open loop that were not let through: the wait is not the target's latency.
    pub(super) fn put_off(&mut self, permit: &mut Permit, ns: u64) {
        if self.hosts.len() == 1 && self.limiter.pacer.timetable().is_some() {
            permit.first_intended.0 += if permit.attempt == 0 { ns } else { 0 };
            permit.intended.0 += ns;
            permit.ready.0 += ns;
        }
    }

    /// The limit whose turn a request for `id` takes; none where requests are not kept apart. Under that of the run, no other shard sends
    /// to any host.
    fn turn_of(&self, id: u64) -> Option<Scope> {
        if self.limiter.has_turns() {
            return Some(Scope::Run);
        }
        let host = self.host_of(id);
        self.hosts[host].limiter.has_turns().then(|| Scope::Host(u32::try_from(host).unwrap_or(u32::MAX)))
    }

    /// Notes that the turn is needed. True if it has to be asked for.
    pub(super) fn needs_turn(&mut self, scope: Scope) -> bool {
        let is_new = self.turns.iter().all(|turn| turn.scope != scope);
        if is_new {
            self.turns.push(Turn { scope, is_held: false });
        }
        is_new
    }

    /// Takes note that it is this shard's turn.
    pub(super) fn got_turn(&mut self, scope: Scope) {
        self.turns.retain(|turn| turn.scope != scope);
        self.turns.push(Turn { scope, is_held: true });
    }

    /// Ends the turn that a request for `id` was sent in, and says which.
    pub(super) fn end_turn(&mut self, id: u64) -> Option<Scope> {
        let scope = self.turn_of(id)?;
        self.turns.retain(|turn| turn.scope != scope);
        Some(scope)
    }

    /// Ends a turn that no waiting request needs any more, and says which.
    pub(super) fn end_unused_turn(&mut self) -> Option<Scope> {
        let is_unused =
            |turn: &Turn| turn.is_held && self.sending.iter().all(|(_, id)| self.turn_of(*id) != Some(turn.scope));
        let unused = self.turns.iter().position(is_unused)?;
        Some(self.turns.remove(unused).scope)
    }

    /// Ask if the limits allow a request for `id` that has its connection to be written at `now`, or when.
    fn peek_send(&self, id: u64, now: Nanos) -> Pace {
        let host = &self.hosts[self.host_of(id)].limiter;
        match (self.limiter.peek_send(now), host.peek_send(now)) {
            (Pace::Wait(one), Pace::Wait(other)) => Pace::Wait(one.max(other)),
            (wait @ Pace::Wait(_), _) | (_, wait) => wait,
        }
    }

    /// A request for `id` that was let through is about to be written, or never will be.
    pub(super) fn end_pending(&mut self, id: u64) {
        for (_, limiter) in self.limiters(id) {
            limiter.end_pending();
        }
    }

    /// Counts a request for `id` that is written at `now`. Returns from what limits the other shards have to be told of it.
    pub(super) fn sent(&mut self, id: u64, now: Nanos) -> impl Iterator<Item = (Scope, Nanos)> {
        self.host(id).brake().sent(now);
        let told = self.limiters(id).map(|(scope, limiter)| Some((scope, limiter.sent(now)?)));
        told.into_iter().flatten()
    }

    /// Takes in how an attempt for `id` ended, in the same way.
    pub(super) fn ended(&mut self, id: u64, attempt: &Attempt) -> impl Iterator<Item = (Scope, Nanos)> {
        let told = self.limiters(id).map(|(scope, limiter)| Some((scope, limiter.ended(attempt)?)));
        told.into_iter().flatten()
    }

    /// Every limiter.
    fn all_limiters(&mut self) -> impl Iterator<Item = (Scope, &mut Limiter)> {
        let hosts = (0..).map(Scope::Host).zip(self.hosts.iter_mut().map(|host| &mut host.limiter));
        std::iter::once((Scope::Run, &mut self.limiter)).chain(hosts)
    }

    /// The limiter of that scope; none of a host that there is not.
    pub(super) fn limiter(&mut self, scope: Scope) -> Option<&mut Limiter> {
        match scope {
            Scope::Run => Some(&mut self.limiter),
            Scope::Host(host) => self.hosts.get_mut(host as usize).map(|host| &mut host.limiter),
        }
    }

    /// Use of the limits.
    pub(super) fn budget_uses(&mut self) -> Vec<(Scope, BudgetUse)> {
        self.all_limiters().filter_map(|(scope, limiter)| Some((scope, limiter.budget_use()?))).collect()
    }

    /// Take the counts of requests sent in slots that ended by `now`, once each; none without any limit.
    pub(super) fn take_sends(&mut self, now: Nanos) -> Option<Sends> {
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

    /// Gives up on whatever waits for another attempt, which it returns, and puts the rest back.
    pub(super) fn give_up(&mut self) -> Vec<Again> {
        let mut given_up: Vec<Again> = self.supply.give_up().collect();
        for host in &self.behind {
            given_up.extend(self.hosts[*host as usize].deferred.give_up());
        }
        let hosts = &self.hosts;
        self.behind.retain(|host| !hosts[*host as usize].deferred.is_empty());
        given_up
    }

    /// Has the item of an attempt that ended tried again, if it may be. Returns when at the earliest.
    pub(super) fn try_again(&mut self, permit: &Permit, attempt: &Attempt) -> Option<Nanos> {
        let is_throttled = attempt.outcome == Outcome::Throttled;
        let on_throttle = self.plan.manners.on_throttle;
        if attempt.advice.repeat == Repeat::Never
            || self.state == State::Closed
            || (is_throttled && on_throttle == OnThrottle::Count)
        {
            return None;
        }
        if self.supply.waiting_again() >= MOST_WAITING {
            self.host(permit.id).brake().denied();
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
        self.supply.again(Again { due, id: permit.id, attempt: attempts, first_intended: permit.first_intended });
        Some(due)
    }
}
