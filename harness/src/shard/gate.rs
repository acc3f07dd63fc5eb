//! The gate that every attempt of a shard passes: it hands out work, checks every limit, and waits
//! for them.
//!
//! Lanes call [`Gate::admit`] before an attempt, [`Gate::clear_to_send`] before they write and
//! [`Gate::settle`] after it; one task runs [`Gate::keep`], which waits for the next moment with
//! the shard's alarm and lets the waiting lanes through first come, first served. While no lane
//! waits, the alarm is not set. Nothing is allocated per request.
//!
//! There are two decisions. [`Gate::admit`] lets an attempt begin (`Limits::admit_next` in
//! `limits.rs`). It checks these in this order, and the first that refuses is recorded as the limit
//! (`binding`):
//!
//! | order | condition | recorded as |
//! |---|---|---|
//! | 1 | the workload has room for results | `Storage` |
//! | 2 | the lease of the budget has not ended | `Rate` |
//! | 3 | an ID that robots.txt allows comes within the next `MOST_SKIPPED` | `Idle` |
//! | 4 | the current wave has room (`--arrivals waves`) | `Concurrency` |
//! | 5 | the pacer of the run lets a request go | `Rate`; see below |
//! | 6 | there is an item to request | `Idle` |
//! | 7 | its host allows it (`Host::permission`), in the order of the next rows: | |
//! | | no throttle pause | `Pause` |
//! | | fewer requests under way than allowed | `Concurrency` |
//! | | few requests that have a connection and wait to be written | `Rate` |
//! | | the learned limit and pace of an adaptive run | `Target` |
//! | | the quota that the target reported | `Target` |
//! | | the rate of the host | `Rate` |
//!
//! 1 and 2 refuse only while there is something to do. Where 5 refuses and there is one host,
//! `Limits::refused` (`limits/choosing.rs`) records 6 instead if no item may go yet, and 7 if the
//! host would refuse for longer than the pacer, or has postponed the timetable by a pause. `Idle`
//! becomes `Pause` or `Rate` while a request waits for the second decision (`Limits::ask`). In a
//! closed loop, requests to other hosts go first while one host refuses; in an open loop, each turn
//! belongs to the next item.
//!
//! [`Gate::clear_to_send`] then lets the request be written once it has its connection
//! (`Limits::clearance` in `limits/sending.rs`): lease, throttle pause, then the rates of the run
//! and of the host.

mod keeper;
mod lateness;
mod limits;
mod running_median;

use std::cell::{Cell, RefCell, RefMut};
use std::future::poll_fn;
use std::pin::pin;
use std::task::{Poll, Waker};

use self::keeper::{Call, Keeper};
pub(super) use self::limits::{Dropped, HostOf, Limits, MayRequest};
use self::limits::{State, Waits};
use super::alarm::{Alarm, Ring};
use super::messages::Messages;
use super::supply::Again;
use crate::clock::{Clock, Nanos};
use crate::pacer::{Growth, Pace};
use crate::plan::ShardPlan;
use crate::sample::{Attempt, Fate, Permit};
use crate::units::IdRange;
use crate::wire::{Binding, Frame, PauseOrder};

/// The gate of one shard.
pub(super) struct Gate {
    clock: Clock,
    inner: RefCell<Limits>,
    lanes: Vec<LaneSlot>,
    keeper: Keeper,
    /// Requests under way, without those that wait for a connection or a stream.
    on_the_wire: Cell<u32>,
    peak_in_flight: Cell<u32>,
    /// Made when the workload has no more room for results.
    filled: Call,
    /// Made when IDs were skipped and are yet to be counted.
    skipped: Call,
    /// Urgent frames for the supervisor.
    pub(super) messages: Messages,
}

/// A keeper that wakes later than this has been kept from running.
const LATE_NS: u64 = 2_000_000;

/// For as long as nobody calls the keeper.
const WHEN_CALLED: Ring = Ring {
    at: Nanos(u64::MAX),
    then: None,
};

/// Slot in which a waiting lane finds its answer.
// The first cache line is all that a lane touches that never waits.
#[repr(C, align(64))]
#[derive(Default)]
struct LaneSlot {
    /// True once its request was counted as sent.
    is_sent: Cell<bool>,
    /// For how long its request had to wait although it had its connection, ns.
    held_ns: Cell<u64>,
    /// The part of it in which its host asked to be left alone, ns.
    paused_ns: Cell<u64>,
    /// Made when it need wait no more.
    called: Call,
    waker: Cell<Option<Waker>>,
    answer: Cell<Option<Answer>>,
}

#[derive(Debug, Clone, Copy)]
enum Answer {
    Go(Permit),
    NoMore,
}

impl Gate {
    /// The gate of a shard that starts at `start`.
    pub(super) fn new(clock: Clock, plan: &ShardPlan, start: Nanos, host_of: HostOf) -> Self {
        let lanes = plan.lanes();
        let inner = Limits::new(plan, start, host_of);
        let gate = Self {
            clock,
            inner: RefCell::new(inner),
            lanes: (0..lanes).map(|_| LaneSlot::default()).collect(),
            keeper: Keeper::default(),
            on_the_wire: Cell::new(0),
            peak_in_flight: Cell::new(0),
            filled: Call::default(),
            skipped: Call::default(),
            messages: Messages::default(),
        };
        gate.note_idleness(&mut gate.inner.borrow_mut());
        gate
    }

    /// Its limits, to read.
    pub(super) fn limits(&self) -> RefMut<'_, Limits> {
        self.inner.borrow_mut()
    }

    /// Have IDs skipped that `may_request` refuses.
    pub(super) fn skip_unless(&self, may_request: MayRequest) {
        let mut inner = self.inner.borrow_mut();
        inner.may_request = Some(may_request);
    }

    /// Return once IDs were skipped that are yet to be counted.
    pub(super) async fn skipped(&self) {
        self.skipped.made().await;
    }

    /// Take the IDs that were skipped because they may not be requested, each once.
    pub(super) fn take_skipped(&self) -> Vec<u64> {
        std::mem::take(&mut self.inner.borrow_mut().skipped)
    }

    /// Permit for the next attempt, for a lane that has been free since `free`. None once the gate
    /// is closed.
    pub(super) async fn admit(&self, lane: usize, free: Nanos) -> Option<Permit> {
        if let Poll::Ready(permit) = self.try_admit(lane, free) {
            return permit;
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

    #[inline]
    fn try_admit(&self, lane: usize, free: Nanos) -> Poll<Option<Permit>> {
        let mut inner = self.inner.borrow_mut();
        if inner.state == State::Closed {
            return Poll::Ready(None);
        }
        if inner.waiting.is_empty() {
            // Without a budget nothing has to be timed: the lane goes on where it was.
            let now = if inner.is_unlimited() {
                free
            } else {
                self.clock.now()
            };
            match inner.ask(free, now) {
                Ok(permit) => return Poll::Ready(Some(permit)),
                Err(refusal) => inner.limited_by(refusal.binding, now),
            }
            self.note_skipped(&mut inner);
        }
        inner.wait(lane, free);
        drop(inner);
        self.keeper.call_before(Nanos(u64::MAX));
        Poll::Pending
    }

    /// Lets waiting lanes through when every limit allows it. Returns once the gate is closed and
    /// nothing is under way.
    pub(super) async fn keep(&self, alarm: &mut Alarm) {
        loop {
            let send = self.call_sender();
            let Some(ring) = self.grant_due() else {
                return;
            };
            let ring = if send < ring.at {
                Ring {
                    at: send,
                    then: Some(ring.at),
                }
            } else {
                ring
            };
            self.keeper.asleep_until.set(Some(ring.at));
            if ring.at == Nanos(u64::MAX) {
                self.keeper.called().await;
            } else {
                let mut ring = pin!(alarm.until(ring));
                let mut called = pin!(self.keeper.called());
                tokio::select! {
                    biased;
                    () = &mut ring => {}
                    () = &mut called => {}
                }
            }
            self.keeper.asleep_until.set(None);
            // A shard that did not run for so long may have been told to wait: that is read first.
            if self.clock.now().since(ring.at) > LATE_NS {
                tokio::task::yield_now().await;
            }
        }
    }

    /// Waits until the limits allow the request to a host of a lane that has its connection to be
    /// written, counts it, and returns the moment; none if they do not when the gate is closed. It
    /// is counted once, however often it asks; a pause that began in the meantime holds it back
    /// each time.
    pub(super) async fn clear_to_send(&self, lane: usize, host: u32) -> Option<Nanos> {
        if let Some(now) = self.clear_at_once(lane) {
            return Some(now);
        }
        let (slot, began) = (&self.lanes[lane], self.clock.now());
        let (mut now, mut has_waited) = (began, false);
        while !self.try_send(lane, host, now, has_waited)? {
            slot.called.made().await;
            (now, has_waited) = (self.clock.now(), true);
        }
        let resumed = self.inner.borrow_mut().host(host).pauses.resume().min(now);
        slot.held_ns.set(slot.held_ns.get() + now.since(began));
        slot.paused_ns
            .set(slot.paused_ns.get() + resumed.since(began));
        Some(now)
    }

    /// As [`clear_to_send`](Self::clear_to_send) where nothing limits any request; none where
    /// something does.
    #[inline]
    pub(super) fn clear_at_once(&self, lane: usize) -> Option<Nanos> {
        if !self.inner.borrow().is_unlimited() {
            return None;
        }
        self.count_sent(lane);
        Some(self.clock.now())
    }

    /// Count the request of a lane as sent, once.
    #[inline]
    fn count_sent(&self, lane: usize) {
        if !self.lanes[lane].is_sent.replace(true) {
            let on_the_wire = self.on_the_wire.get() + 1;
            self.on_the_wire.set(on_the_wire);
            self.peak_in_flight
                .set(self.peak_in_flight.get().max(on_the_wire));
        }
    }

    /// The most requests that were on the wire at once.
    pub(super) const fn peak_in_flight(&self) -> u32 {
        self.peak_in_flight.get()
    }

    /// Has the request of a lane written at `now` if it may be; otherwise the lane waits to be
    /// called. None if it never may.
    fn try_send(&self, lane: usize, host: u32, now: Nanos, has_waited: bool) -> Option<bool> {
        let (slot, mut inner) = (&self.lanes[lane], self.inner.borrow_mut());
        let is_counted = slot.is_sent.get();
        let may_go = matches!(inner.clearance(host, now, is_counted)?, Pace::Go(_));
        // Those that waited go first.
        let is_next = may_go && (has_waited || inner.sending.is_empty());
        let goes = is_next && (is_counted || inner.sent(host, now));
        if goes {
            self.count_sent(lane);
        } else {
            inner.hold(lane, host, has_waited);
        }
        if !inner.sending.is_empty() {
            self.keeper.call();
        }
        Some(goes)
    }

    /// Calls the first of the lanes whose request may be written now or never, which has the keeper
    /// look for the next one. Otherwise says when one may be: the end of time when none waits.
    fn call_sender(&self) -> Nanos {
        let mut inner = self.inner.borrow_mut();
        let mut next = Nanos(u64::MAX);
        for at in 0..inner.held_to_ask() {
            let (lane, host) = inner.sending[at];
            let is_sent = self.lanes[lane].is_sent.get();
            match inner.clearance(host, self.clock.now(), is_sent) {
                Some(Pace::Wait(due)) => next = next.min(due),
                Some(Pace::Go(_)) | None => {
                    inner.release(at);
                    self.lanes[lane].called.make();
                    return Nanos(u64::MAX);
                }
            }
        }
        next
    }

    /// Takes back the permit of a request that was not sent, at `now`, after the gate was closed.
    /// True if its open loop had scheduled it by then, so that it is dropped.
    pub(super) fn take_back(&self, permit: &Permit, now: Nanos) -> bool {
        self.keeper.call();
        self.inner.borrow_mut().take_back(permit, now)
    }

    /// Lets lanes through as long as the limits allow it. Returns when to look again; none when
    /// nothing is left to do.
    fn grant_due(&self) -> Option<Ring> {
        let mut inner = self.inner.borrow_mut();
        loop {
            if inner.state == State::Closed {
                while let Some((lane, _)) = inner.waiting.pop_front() {
                    self.answer(lane, Answer::NoMore);
                }
                // What was let through may still have to wait before it is written.
                return (inner.under_way > 0).then_some(WHEN_CALLED);
            }
            let Some(&(lane, free)) = inner.waiting.front() else {
                if !inner.sending.is_empty() || inner.timeline.binding() != Binding::Concurrency {
                    let now = self.clock.now();
                    let binding = match inner.holds_sending(now) {
                        Binding::Idle => Binding::Concurrency,
                        binding => binding,
                    };
                    inner.limited_by(binding, now);
                }
                return Some(WHEN_CALLED);
            };
            let now = self.clock.now();
            match inner.ask(free, now) {
                Ok(permit) => {
                    inner.waiting.pop_front();
                    self.answer(lane, Answer::Go(permit));
                    if inner.waiting.is_empty() {
                        inner.limited_by(Binding::Concurrency, now);
                    }
                }
                Err(refusal) => {
                    inner.limited_by(refusal.binding, now);
                    self.note_skipped(&mut inner);
                    return Some(if refusal.is_blocked() {
                        WHEN_CALLED
                    } else {
                        inner.ring(refusal.until)
                    });
                }
            }
        }
    }

    fn answer(&self, lane: usize, answer: Answer) {
        let slot = &self.lanes[lane];
        slot.answer.set(Some(answer));
        if let Some(waker) = slot.waker.take() {
            waker.wake();
        }
    }

    /// Takes in how an attempt of a lane ended, and says what becomes of its item. A wait for permission
    /// to be written is the budget's from then on, not one for a connection.
    #[inline]
    pub(super) fn settle(&self, lane: usize, permit: &mut Permit, attempt: &Attempt) -> Fate {
        let mut inner = self.inner.borrow_mut();
        inner.drop_overflow(attempt.done);
        inner.under_way -= 1;
        let slot = &self.lanes[lane];
        if slot.is_sent.take() {
            self.on_the_wire.set(self.on_the_wire.get() - 1);
        } else {
            inner.unsent(lane, permit.host);
        }
        if let Some(order) = inner.ended(permit, attempt) {
            self.messages.send(Frame::Pause(order));
        }
        let again = inner.try_again(permit, attempt);
        // Lanes may have waited for this attempt to end, or may take up its item sooner than what
        // they wait for.
        if !inner.waiting.is_empty() {
            match inner.waits {
                Waits::ForTime => self.keeper.call_before(again.unwrap_or(Nanos(u64::MAX))),
                Waits::ForAnEnd => self.keeper.call(),
            }
        }
        if inner.state == State::Closed && inner.under_way == 0 {
            self.keeper.call();
        }
        self.note_idleness(&mut inner);
        permit.admitted.0 += slot.held_ns.take();
        inner.put_off(permit, slot.paused_ns.take());
        if again.is_some() {
            Fate::Again
        } else {
            Fate::Ended
        }
    }

    /// Take the lanes that were let through and wait for a limit, and those that have not begun,
    /// with their permits, once nothing is to begin any more.
    pub(super) fn take_waiting(&self) -> Vec<(usize, Option<Permit>)> {
        let held = std::mem::take(&mut self.inner.borrow_mut().sending);
        let mut waiting: Vec<_> = held.into_iter().map(|(lane, _)| (lane, None)).collect();
        waiting.extend(self.granted().map(|(lane, permit)| (lane, Some(permit))));
        for (lane, _) in waiting.iter().filter(|(_, permit)| permit.is_some()) {
            self.lanes[*lane].answer.set(Some(Answer::NoMore));
        }
        waiting
    }

    /// The lanes that were let through and have not begun.
    fn granted(&self) -> impl Iterator<Item = (usize, Permit)> {
        self.lanes
            .iter()
            .enumerate()
            .filter_map(|(lane, slot)| match slot.answer.get() {
                Some(Answer::Go(permit)) => Some((lane, permit)),
                Some(Answer::NoMore) | None => None,
            })
    }

    /// Have skipped IDs counted; there may be nothing left to do after them.
    fn note_skipped(&self, inner: &mut Limits) {
        if !inner.skipped.is_empty() {
            self.skipped.make();
            self.note_idleness(inner);
        }
    }

    /// Report to the supervisor when there is nothing to do, and nothing under way that may have to
    /// be done again.
    #[inline]
    fn note_idleness(&self, inner: &mut Limits) {
        if inner.state == State::Open && inner.under_way == 0 && inner.has_nothing() {
            inner.state = State::Idle;
            self.messages.send(Frame::Idle(inner.received()));
        }
    }

    /// Admits nothing until [`Gate::empty`]: the workload has no room for more results.
    pub(super) fn fill(&self) {
        if !std::mem::replace(&mut self.inner.borrow_mut().is_full, true) {
            self.filled.make();
        }
    }

    /// Return once the gate was filled.
    pub(super) async fn filled(&self) {
        self.filled.made().await;
    }

    /// Admits attempts again: the workload has room for results.
    pub(super) fn empty(&self) {
        let mut inner = self.inner.borrow_mut();
        (inner.is_full, inner.room_since) = (false, self.clock.now());
        self.keeper.call();
    }

    /// Waits as the target told another shard.
    pub(super) fn pause(&self, order: PauseOrder) {
        let mut inner = self.inner.borrow_mut();
        inner.order(order);
        inner.shift();
        drop(inner);
        self.keeper.call_before(Nanos(u64::MAX));
    }

    /// Crawls these IDs, too.
    pub(super) fn receive(&self, range: IdRange) {
        self.inner.borrow_mut().receive(range, self.clock.now());
        self.keeper.call();
    }

    /// Uses this much more of the budget than at the start.
    pub(super) fn grow(&self, growth: Growth) {
        self.inner.borrow_mut().grow(growth, self.clock.now());
        self.keeper.call();
    }

    /// Send no request from `end` on. A later call extends it.
    pub(super) fn set_lease(&self, end: Nanos) {
        self.inner.borrow_mut().set_lease(end);
        self.keeper.call();
    }

    /// Gives away the upper half of the IDs that were not started, and says which.
    pub(super) fn shed(&self) {
        let range = self.inner.borrow_mut().supply.shed();
        self.messages.send(Frame::Shed(range));
        self.note_idleness(&mut self.inner.borrow_mut());
    }

    /// Lets no request through any more; the waiting lanes are told so. Nothing was to go from
    /// `end` on. Returns what will not happen any more.
    pub(super) fn close(&self, end: Nanos) -> Closed {
        if self.inner.borrow_mut().due().is_some() {
            // What was due a moment ago and has a connection waiting for it is not to be dropped
            // because this came first.
            self.grant_due();
        }
        let mut inner = self.inner.borrow_mut();
        if inner.state == State::Closed {
            return Closed::default();
        }
        inner.drop_overflow(end);
        inner.state = State::Closed;
        let dropped = inner.drop_due(end);
        let given_up = inner.give_up();
        drop(inner);
        // The keeper may sleep until a moment far away, so the lanes are told from here.
        self.grant_due();
        self.keeper.call();
        Closed { given_up, dropped }
    }

    /// True if nothing is admitted any more: items that wait for a retry get none.
    pub(super) fn is_closed(&self) -> bool {
        self.inner.borrow().state == State::Closed
    }

    /// IDs not yet started: not dealt out, or dealt to a lane that has not taken them.
    pub(super) fn remaining(&self) -> u64 {
        let inner = self.inner.borrow();
        let untaken = self.lanes.iter().filter(
            |lane| matches!(lane.answer.get(), Some(Answer::Go(permit)) if permit.attempt == 0),
        );
        inner.not_started() + untaken.count() as u64
    }

    /// In an open loop, for how long the next request to go has been due at `now`, ms; 0 when none
    /// is, and in a closed one.
    pub(super) fn behind_ms(&self, now: Nanos) -> u32 {
        let mut inner = self.inner.borrow_mut();
        inner.update_timetable(now);
        let behind_ns = inner.due().map_or(0, |due| now.since(due));
        u32::try_from(behind_ns / 1_000_000).unwrap_or(u32::MAX)
    }

    /// In an open loop, when the oldest request was scheduled that has yet to go; the end of time
    /// when there is none, and in a closed one.
    pub(super) fn yet_to_go(&self, now: Nanos) -> Nanos {
        let mut inner = self.inner.borrow_mut();
        inner.update_timetable(now);
        let is_open = inner.state != State::Closed;
        let Some(due) = inner.due() else {
            return Nanos(u64::MAX);
        };
        let due = if is_open { due } else { Nanos(u64::MAX) };
        self.granted()
            .map(|(_, permit)| permit.intended)
            .fold(due, Nanos::min)
    }
}

/// Items and requests that a closed gate gives up.
#[derive(Debug, Default)]
pub(super) struct Closed {
    /// The items that would have been tried again.
    pub(super) given_up: Vec<Again>,
    /// The requests that were due and had not gone. Only an open loop has such.
    pub(super) dropped: Vec<Dropped>,
}

impl Answer {
    fn permit(self) -> Option<Permit> {
        match self {
            Self::Go(permit) => Some(permit),
            Self::NoMore => None,
        }
    }
}

#[cfg(test)]
mod tests;
