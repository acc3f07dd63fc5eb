//! A rate limit as one shard keeps it: its share of the rate, and what was sent.
//!
//! The run has one, and so has each of its hosts. Checked by the gate twice: before a request is
//! admitted, and again once it has its connection, because requests admitted one after another may
//! get their connections together. It must not wait or read a clock.

use super::slots::Slots;
use crate::clock::Nanos;
use crate::pacer::{Pace, Pacer};
use crate::wire::BudgetUse;

/// One rate limit.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) pacer: Pacer,
    slots: Slots,
}

impl Limiter {
    /// A limiter of a run that starts at `start`.
    pub(super) const fn new(pacer: Pacer, start: Nanos) -> Self {
        Self {
            pacer,
            slots: Slots::new(start),
        }
    }

    /// True if requests may be let through and written at any time, and none of them is counted.
    pub(super) const fn is_unlimited(&self) -> bool {
        self.pacer.is_unlimited()
    }

    /// Ask if a request may be let through at `now`, and since when. Nothing is charged.
    pub(super) fn peek(&self, now: Nanos) -> Pace {
        self.pacer.peek(now)
    }

    /// Charge a request that is admitted at `now`, which [`Limiter::peek`] allowed.
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.pacer.poll(now);
    }

    /// Ask if a request that was let through may be written at `now`. Nothing is charged.
    pub(super) fn peek_send(&self, now: Nanos) -> Pace {
        self.pacer.peek_send(now)
    }

    /// Counts a request that is written at `now`.
    pub(super) fn sent(&mut self, now: Nanos) {
        self.pacer.sent(now);
        if self.pacer.audit().is_some() {
            self.slots.sent(now);
        }
    }

    /// One of the requests that were let through has its connection.
    pub(super) fn connected(&mut self) {
        self.pacer.connected();
    }

    /// One of the requests that have their connection will never be written.
    pub(super) fn withdrawn(&mut self) {
        self.pacer.withdrawn();
    }

    /// One of the requests that were let through will have no connection.
    pub(super) fn never_connected(&mut self) {
        self.connected();
        self.withdrawn();
    }

    /// Use of the limit; none without one.
    pub(super) fn budget_use(&self) -> Option<BudgetUse> {
        self.pacer.audit().map(|audit| BudgetUse {
            worst: audit.worst(),
            kept: audit.kept(),
        })
    }

    /// Requests sent, by slot; see [`Slots`].
    pub(super) const fn slots(&mut self) -> &mut Slots {
        &mut self.slots
    }
}
