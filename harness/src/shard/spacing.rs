//! Least distance between any two requests of a slow rate limit, whichever shards they come from
//! and however late they are.
//!
//! A schedule alone cannot keep it: when a request is late and the next one is not, they arrive too
//! close together. So the distance counts from the time at which the target received the last
//! request. That time lies between sending it and its response, and is assumed to be shortly after
//! it was sent. If the target is known to respond at once, a response that took much longer than
//! others may have been late because its request was: then the distance counts from the response.
//! Until the response arrives, it counts from when the request was sent. A request that still waits
//! for its connection delays no other one, and is sent no sooner than the others allow.
//!
//! The shards take turns, which the supervisor hands out: the shard with the turn has received the
//! times of all requests before it. Called by a limiter. It must not read a clock.

use std::time::Duration;

use crate::clock::Nanos;
use crate::plan::ShardPlan;
use crate::sample::Attempt;

/// A target is taken to come to a request within this part of the spacing, if nothing says
/// otherwise: more would cost more of the budget.
const AT_ONCE: u32 = 400;

/// An answer that took this many times as long as the quickest one was late, and so was, perhaps,
/// its request.
const LATE: u32 = 4;

/// The spacing of a shard's requests.
#[derive(Debug)]
pub(super) struct Spacing {
    apart: Option<Duration>,
    /// The quickest answer so far took so long.
    quickest: Duration,
    siblings: u32,
    /// The next request is sent no sooner than this.
    next: Nanos,
}

impl Spacing {
    /// Keeps the requests of this shard and of its siblings this far `apart`, if they are to be.
    pub(super) fn new(apart: Option<Duration>, plan: &ShardPlan) -> Self {
        Self {
            apart,
            quickest: Duration::MAX,
            siblings: plan.siblings,
            next: Nanos(0),
        }
    }

    /// True if requests are kept apart.
    pub(super) const fn is_set(&self) -> bool {
        self.apart.is_some()
    }

    /// True if a request is sent in the shard's turn only.
    pub(super) const fn has_turns(&self) -> bool {
        self.apart.is_some() && self.siblings > 1
    }

    /// The next request is sent no sooner than this.
    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    /// Takes in a request that is sent at `now`. Some when the other shards have to know.
    pub(super) fn sent(&mut self, now: Nanos) -> Option<Nanos> {
        self.apart?;
        self.arrived(now);
        Some(now)
    }

    /// Takes in an attempt that ended. Some when the other shards have to know: when the target was
    /// at it.
    pub(super) fn ended(&mut self, attempt: &Attempt) -> Option<Nanos> {
        let (at_once, sent) = (self.apart? / AT_ONCE, attempt.sent?);
        let took = Duration::from_nanos(attempt.done.since(sent));
        let is_first = self.quickest == Duration::MAX;
        self.quickest = self.quickest.min(took);
        let is_slow = self.quickest > at_once && !is_first;
        let is_late = is_first || took > self.quickest.saturating_mul(LATE);
        let arrived = if is_late && !is_slow {
            attempt.done
        } else {
            attempt.done.min(sent.plus(at_once))
        };
        self.arrived(arrived);
        Some(arrived)
    }

    /// Takes in that the target was at a request of any shard at `at`.
    pub(super) fn arrived(&mut self, at: Nanos) {
        self.next = self
            .next
            .max(self.apart.map_or(Nanos(0), |apart| at.plus(apart)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures::plan;
    use crate::sample::{Advice, Outcome};
    use crate::units::Rate;

    fn spacing(permits: u64, burst: u64) -> Spacing {
        let mut run = plan();
        (run.rate, run.burst) = (
            Some(Rate {
                permits,
                period_ns: 1_000_000_000,
            }),
            burst,
        );
        let plan = &run.split(&[])[0];
        Spacing::new(plan.spacing, plan)
    }

    const MS: u64 = 1_000_000;

    fn attempt(sent: Option<u64>, done: u64) -> Attempt {
        Attempt {
            sent: sent.map(|sent| Nanos(sent * MS)),
            first_byte: None,
            done: Nanos(done * MS),
            bytes_sent: 0,
            bytes_received: 0,
            status: None,
            outcome: Outcome::Ok,
            advice: Advice::default(),
        }
    }

    #[test]
    fn the_time_counts_from_when_the_target_was_at_the_request() {
        let mut spacing = spacing(2, 2);
        assert_eq!(spacing.sent(Nanos(0)), Some(Nanos(0)));
        assert_eq!(spacing.next(), Nanos(500 * MS));
        spacing.ended(&attempt(Some(3), 4));
        assert_eq!(spacing.next(), Nanos(504 * MS));
        // It answers at once, so this request was late.
        spacing.ended(&attempt(Some(10), 400));
        assert_eq!(spacing.next(), Nanos(900 * MS));
        assert_eq!(
            spacing.ended(&attempt(None, 900)),
            None,
            "what was never sent never arrived"
        );
        spacing.arrived(Nanos(7 * MS));
        assert_eq!(spacing.next(), Nanos(900 * MS));
    }

    #[test]
    fn a_slow_target_costs_hardly_anything_of_the_budget() {
        let mut spacing = spacing(2, 2);
        for at in [0, 600, 1_200, 1_800] {
            spacing.ended(&attempt(Some(at), at + 590));
        }
        assert_eq!(spacing.next(), Nanos(2_301 * MS + MS / 4));
    }

    #[test]
    fn bursts_and_quick_rates_are_not_spaced() {
        for (permits, burst) in [(2, 3), (6, 2), (5_000, 52)] {
            assert_eq!(
                spacing(permits, burst).sent(Nanos(5)),
                None,
                "{permits}/s, {burst} at once"
            );
        }
        assert!(spacing(5, 2).sent(Nanos(5)).is_some());
    }
}
