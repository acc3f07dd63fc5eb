//! A rate limit as one shard keeps it: its share of the rate, and what was sent.
//!
//! The run has one, and so has each of its hosts. Checked by the gate twice: before a request is
//! admitted, and again once it has its connection, because requests admitted one after another may
//! get their connections together. It must not wait or read a clock.

use std::sync::atomic::{AtomicU64, Ordering};

use super::slots::Slots;
use crate::clock::Nanos;
use crate::pacer::{Pace, Pacer};
use crate::process::SharedWords;
use crate::sample::Attempt;
use crate::wire::BudgetUse;

/// A request may keep the next one waiting for this part of its distance on average, because it
/// seems to have arrived late: more would cost too much of the budget.
const ALLOWANCE: u64 = 256;

/// One rate limit.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) pacer: Pacer,
    slots: Slots,
    spacing: Option<Spacing>,
}

/// Distance between the requests of a budget that lets them go one at a time, over all shards.
///
/// The shards' schedules alone cannot keep it: when one request is late and the next one is not,
/// they are too close together, and a target that allows no burst either (nginx' `limit_req` by
/// default) turns the second away. So whoever sends claims the time until the next request in a
/// word that all shards share.
///
/// The distance counts from when the target received the last request. That is between sending it
/// and its response: a response that took longer than the quickest one may be late because its
/// request was. Of targets that take longer for some requests than for others that is no sign, so
/// it is believed up to an allowance that each request adds to.
#[derive(Debug)]
struct Spacing {
    apart_ns: u64,
    /// The next request is sent no sooner than this.
    next: Word,
    quickest_ns: u64,
    /// Responses until the quickest one is known: the first ones may all have been late.
    unsure: u8,
    allowance_ns: u64,
}

/// An integer, of this shard or of all.
#[derive(Debug)]
enum Word {
    Own(AtomicU64),
    Shared(SharedWords, usize),
}

impl Word {
    fn get(&self) -> &AtomicU64 {
        match self {
            Self::Own(word) => word,
            Self::Shared(words, at) => &words[*at],
        }
    }
}

impl Spacing {
    fn new(apart_ns: u64) -> Self {
        Self {
            apart_ns,
            next: Word::Own(AtomicU64::new(0)),
            quickest_ns: u64::MAX,
            unsure: 4,
            allowance_ns: apart_ns / 8,
        }
    }

    /// Claims the time from `now` on, if no other request has it.
    fn claim(&mut self, now: Nanos) -> bool {
        let after = now.0.saturating_add(self.apart_ns);
        let is_claimed = self
            .next
            .get()
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |next| {
                (next <= now.0).then_some(after)
            })
            .is_ok();
        if is_claimed {
            self.allowance_ns = (self.allowance_ns + self.apart_ns / ALLOWANCE).min(self.apart_ns);
        }
        is_claimed
    }

    fn ended(&mut self, sent: Nanos, done: Nanos) {
        let took_ns = done.since(sent);
        self.quickest_ns = self.quickest_ns.min(took_ns);
        let late_ns = if self.unsure == 0 {
            took_ns - self.quickest_ns
        } else {
            took_ns
        };
        self.unsure = self.unsure.saturating_sub(1);
        let next =
            (sent.0.saturating_add(self.apart_ns)).saturating_add(late_ns.min(self.allowance_ns));
        let before = self.next.get().fetch_max(next, Ordering::AcqRel);
        self.allowance_ns -= next.saturating_sub(before).min(self.allowance_ns);
    }
}

impl Limiter {
    /// A limiter of a run that starts at `start`.
    pub(super) fn new(pacer: Pacer, start: Nanos) -> Self {
        Self {
            spacing: pacer.apart().map(Spacing::new),
            pacer,
            slots: Slots::new(start),
        }
    }

    /// Keeps its distance from the requests of other shards, too, by the word `at` of `words`.
    pub(super) fn share(&mut self, words: &SharedWords, at: usize) {
        if let Some(spacing) = &mut self.spacing {
            spacing.next = Word::Shared(words.clone(), at);
        }
    }

    /// Charge a request that is admitted at `now`, which [`Pacer::peek`] allowed.
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.pacer.poll(now);
    }

    /// Ask if a request that was let through may be written at `now`. Nothing is charged.
    pub(super) fn peek_send(&self, now: Nanos) -> Pace {
        let spacing = self.spacing.as_ref();
        let next = spacing.map_or(0, |spacing| spacing.next.get().load(Ordering::Acquire));
        self.pacer.peek_send(now).no_sooner(Nanos(next), now)
    }

    /// Take in an attempt that ended.
    pub(super) fn ended(&mut self, attempt: &Attempt) {
        if let (Some(spacing), Some(sent)) = (&mut self.spacing, attempt.sent) {
            spacing.ended(sent, attempt.done);
        }
    }

    /// True if a request that [`Limiter::peek_send`] allowed may still be written at `now`: no other
    /// shard sent one in the meantime, nor will.
    pub(super) fn claim(&mut self, now: Nanos) -> bool {
        let spacing = self.spacing.as_mut();
        spacing.is_none_or(|spacing| spacing.claim(now))
    }

    /// Counts a request that is written at `now`.
    pub(super) fn sent(&mut self, now: Nanos) {
        self.pacer.sent(now);
        if self.pacer.audit().is_some() {
            self.slots.sent(now);
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_next_request_waits_for_a_late_one_as_far_as_the_allowance_goes() {
        let mut spacing = Spacing::new(512 * MS);
        // The allowance begins with 64 ms, and each request adds 2 ms.
        let waits = [10, 1, 9, 1, 11, 400].map(|took| {
            let sent = spacing.next.get().load(Ordering::Relaxed);
            assert!(spacing.claim(Nanos(sent)) && !spacing.claim(Nanos(sent + 511 * MS)));
            spacing.ended(Nanos(sent), Nanos(sent + took * MS));
            (spacing.next.get().load(Ordering::Relaxed) - sent) / MS - 512
        });
        assert_eq!(waits, [10, 1, 9, 1, 10, 64 + 6 * 2 - 31]);
    }
}
