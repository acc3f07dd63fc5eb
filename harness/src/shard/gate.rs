//! The gate that every item of a shard passes: it deals out IDs, asks the pacer, and does the waiting for it.
//!
//! Lanes call [`Gate::admit`]; one task runs [`Gate::keep`], which waits for the pacer's next moment with the shard's alarm
//! and lets the waiting lanes through first come, first served. While nobody waits, the alarm is not set. Nothing is
//! allocated per request.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use super::alarm::Alarm;
use crate::clock::{Clock, Nanos};
use crate::pacer::{Pace, Pacer};
use crate::sample::Permit;
use crate::units::IdRange;
use crate::wire::BudgetUse;

/// The gate of one shard.
pub(super) struct Gate {
    clock: Clock,
    inner: RefCell<Inner>,
    lanes: Vec<LaneSlot>,
    keeper: Cell<Option<Waker>>,
}

#[derive(Debug)]
struct Inner {
    pacer: Pacer,
    ids: IdRange,
    waiting: VecDeque<(usize, Nanos)>,
    closed: bool,
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

impl Gate {
    /// A gate to `ids` for `lanes` lanes.
    pub(super) fn new(clock: Clock, ids: IdRange, pacer: Pacer, lanes: usize) -> Self {
        Self {
            clock,
            inner: RefCell::new(Inner { pacer, ids, waiting: VecDeque::with_capacity(lanes), closed: false }),
            lanes: (0..lanes).map(|_| LaneSlot::default()).collect(),
            keeper: Cell::new(None),
        }
    }

    /// Leave to perform the next ID, for a lane that has been free since `free`. None when there is no more to do.
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
        if inner.closed || inner.ids.is_empty() {
            return Some(Answer::NoMore);
        }
        if matches!(inner.pacer, Pacer::Unlimited) {
            return Some(Answer::Go(inner.take(free, free, free)));
        }
        if inner.waiting.is_empty() {
            let now = self.clock.now();
            if let Pace::Go(allowed) = inner.pacer.poll(now) {
                return Some(Answer::Go(inner.take(allowed.max(free), now, now)));
            }
        }
        inner.waiting.push_back((lane, free));
        drop(inner);
        if let Some(keeper) = self.keeper.take() {
            keeper.wake();
        }
        None
    }

    /// Lets waiting lanes through when the pacer says so. Returns once the gate is closed or has no more IDs.
    pub(super) async fn keep(&self, alarm: &mut Alarm) {
        loop {
            match self.grant_due() {
                Due::At(next) => alarm.until(next).await,
                Due::WhenAsked => self.asked().await,
                Due::Never => return,
            }
        }
    }

    fn grant_due(&self) -> Due {
        let mut inner = self.inner.borrow_mut();
        loop {
            if inner.closed || inner.ids.is_empty() {
                while let Some((lane, _)) = inner.waiting.pop_front() {
                    self.answer(lane, Answer::NoMore);
                }
                return Due::Never;
            }
            let Some(&(lane, free)) = inner.waiting.front() else { return Due::WhenAsked };
            let now = self.clock.now();
            match inner.pacer.poll(now) {
                Pace::Wait(next) => return Due::At(next),
                Pace::Go(allowed) => {
                    inner.waiting.pop_front();
                    let permit = inner.take(allowed.max(free), now, now);
                    self.answer(lane, Answer::Go(permit));
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

    async fn asked(&self) {
        poll_fn(|cx| {
            let inner = self.inner.borrow();
            if inner.waiting.is_empty() && !inner.closed && !inner.ids.is_empty() {
                self.keeper.set(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Lets nobody through any more; the waiting lanes are told so.
    pub(super) fn close(&self) {
        self.inner.borrow_mut().closed = true;
        // The keeper may sleep until a moment far away, so the lanes are told from here.
        self.grant_due();
        if let Some(keeper) = self.keeper.take() {
            keeper.wake();
        }
    }

    /// IDs not yet started: not dealt out, or dealt to a lane that has not taken them.
    pub(super) fn remaining(&self) -> u64 {
        let untaken = |lane: &&LaneSlot| matches!(lane.answer.get(), Some(Answer::Go(_)));
        self.inner.borrow().ids.len() + self.lanes.iter().filter(untaken).count() as u64
    }

    /// How the budget was used; none without one.
    pub(super) fn budget_use(&self) -> Option<BudgetUse> {
        self.inner.borrow().pacer.audit().map(|audit| BudgetUse { worst: audit.worst(), kept: audit.kept() })
    }
}

#[derive(Debug)]
enum Due {
    At(Nanos),
    WhenAsked,
    Never,
}

impl Inner {
    fn take(&mut self, intended: Nanos, ready: Nanos, admitted: Nanos) -> Permit {
        let id = self.ids.start;
        self.ids.start += 1;
        Permit { id, intended, ready, admitted }
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
