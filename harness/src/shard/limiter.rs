//! A rate limit as one shard keeps it: its share of the rate, and what was sent.
//!
//! The run has one, and so has each of its hosts. Checked by the gate twice: before a request is
//! admitted, and again once it has its connection, because requests admitted one after another may
//! get their connections together. It must not wait or read a clock.

use std::time::Duration;

use super::slots::Slots;
use crate::clock::{Nanos, duration_ns};
use crate::pacer::{Growth, Pace, Pacer};
use crate::sample::Attempt;
use crate::wire::BudgetUse;

/// Requests that are this far apart, or further, keep their distance also when one of them is late.
/// That costs the budget what a request is late each time, half a millisecond or so, which is too
/// much of anything shorter.
const SPACED: Duration = Duration::from_millis(200);

/// A target is taken to receive a request within this part of the distance to the next one, if
/// nothing says otherwise: more would cost more of the budget.
const AT_ONCE: u32 = 400;

/// A response that took this many times as long as the quickest one was late, and so was, perhaps,
/// its request.
const LATE: u32 = 4;

/// One rate limit.
#[derive(Debug)]
pub(super) struct Limiter {
    pub(super) pacer: Pacer,
    slots: Slots,
    distance: Option<Distance>,
}

/// Least distance between two requests of a slow budget that allows no burst.
///
/// A schedule alone cannot keep it: when a request is late and the next one is not, they arrive too
/// close together, and a target that allows no burst either (nginx' `limit_req` by default) turns
/// the second away. So the distance counts from when the target received the last request. That is
/// between sending it and its response, and taken to be shortly after it was sent; of a target that
/// responds at once, a response that took much longer may be late because its request was, and then
/// the distance counts from the response.
#[derive(Debug)]
struct Distance {
    apart: Duration,
    quickest: Duration,
    /// The next request is sent no sooner than this.
    next: Nanos,
}

impl Distance {
    fn received(&mut self, at: Nanos) {
        self.next = self.next.max(at.plus(self.apart));
    }

    fn ended(&mut self, sent: Nanos, done: Nanos) {
        let at_once = self.apart / AT_ONCE;
        let took = Duration::from_nanos(done.since(sent));
        let is_first = self.quickest == Duration::MAX;
        self.quickest = self.quickest.min(took);
        let is_slow = self.quickest > at_once && !is_first;
        let is_late = is_first || took > self.quickest.saturating_mul(LATE);
        self.received(if is_late && !is_slow {
            done
        } else {
            done.min(sent.plus(at_once))
        });
    }
}

impl Limiter {
    /// A limiter of a run that starts at `start`.
    pub(super) fn new(pacer: Pacer, start: Nanos) -> Self {
        let apart = pacer.apart().filter(|apart| *apart >= SPACED);
        Self {
            pacer,
            slots: Slots::new(start),
            distance: apart.map(|apart| Distance {
                apart,
                quickest: Duration::MAX,
                next: Nanos(0),
            }),
        }
    }

    /// Uses this much more of the budget than at the start.
    pub(super) fn grow(&mut self, growth: Growth, now: Nanos) {
        self.pacer.grow(growth, now);
        if let Some(distance) = &mut self.distance {
            let apart_ns = self.pacer.apart().map_or(0, duration_ns);
            distance.apart = Duration::from_nanos(growth.needed(apart_ns));
        }
    }

    /// Charge a request that is admitted at `now`, which [`Pacer::peek`] allowed.
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.pacer.poll(now);
    }

    /// Ask if a request that was let through may be written at `now`. Nothing is charged.
    pub(super) fn peek_send(&self, now: Nanos) -> Pace {
        let next = self
            .distance
            .as_ref()
            .map_or(Nanos(0), |distance| distance.next);
        self.pacer.peek_send(now).no_sooner(next, now)
    }

    /// Take in an attempt that ended.
    pub(super) fn ended(&mut self, attempt: &Attempt) {
        if let (Some(distance), Some(sent)) = (&mut self.distance, attempt.sent) {
            distance.ended(sent, attempt.done);
        }
    }

    /// Counts a request that is written at `now`.
    pub(super) fn sent(&mut self, now: Nanos) {
        self.pacer.sent(now);
        if let Some(distance) = &mut self.distance {
            distance.received(now);
        }
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
    use crate::plan::Budget;

    const MS: u64 = 1_000_000;

    fn slow() -> Limiter {
        let budget = Budget {
            interval_ns: 500 * MS,
            burst: 1,
            at_start: 1,
            phase_ns: 0,
            turn_ns: 0,
        };
        Limiter::new(Pacer::new(Some(budget), Nanos(0)), Nanos(0))
    }

    #[test]
    fn a_request_keeps_its_distance_from_when_the_target_received_the_last_one() {
        let mut distance = slow().distance.unwrap();
        // Sent at 0, 1000, 2000 ms; responses after 1, 1 and 20 ms.
        for (sent, took, next) in [(0, 1, 501.0), (1_000, 1, 1_501.0), (2_000, 20, 2_520.0)] {
            distance.received(Nanos(sent * MS));
            distance.ended(Nanos(sent * MS), Nanos((sent + took) * MS));
            let found = distance.next.0 as f64 / MS as f64;
            assert!((found - next).abs() < 1e-9, "{found} instead of {next}");
        }
    }

    #[test]
    fn only_slow_budgets_without_a_burst_keep_a_distance() {
        let with = |interval_ns, burst| {
            let budget = Budget {
                interval_ns,
                burst,
                at_start: 1,
                phase_ns: 0,
                turn_ns: 0,
            };
            Limiter::new(Pacer::new(Some(budget), Nanos(0)), Nanos(0))
        };
        assert!(slow().distance.is_some());
        assert!(with(500 * MS, 2).distance.is_none());
        assert!(with(100 * MS, 1).distance.is_none());
    }
}
