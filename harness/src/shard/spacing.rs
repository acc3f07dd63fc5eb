//! Keeping any two requests of a slow rate limit apart, whichever shards they come from and however late they are.
//!
//! A schedule alone cannot do that: when a request is late and the next one is not, they arrive too close together. So
//! the time until the next one counts from when the target was at the last one. That was between sending it and its
//! answer, and is taken for a little after it was sent. Of a target that was seen to answer at once, an answer that took
//! much longer than others may have been late because its request was: then the time counts from the answer. Until the
//! answer is there, it counts from when the request was sent; one that still waits for its connection keeps nobody else
//! back, and is sent no sooner than the others allow. The shards take turns: whoever is next in line may go at once, each of
//! the others a moment later, in which it would hear of the one before it. Called by a limiter. It must not read a clock.

use std::time::Duration;

use crate::clock::Nanos;
use crate::plan::ShardPlan;
use crate::sample::Attempt;

/// A target is taken to come to a request within this part of the spacing, if nothing says otherwise: more would cost
/// more of the budget.
const AT_ONCE: u32 = 400;

/// An answer that took this many times as long as the quickest one was late, and so was, perhaps, its request.
const LATE: u32 = 4;

/// What a shard waits for each one that is before it in line: longer than it takes to hear of another shard's request.
const TURN: Duration = Duration::from_millis(5);

/// The spacing of a shard's requests.
#[derive(Debug)]
pub(super) struct Spacing {
    apart: Option<Duration>,
    /// The quickest answer so far took so long.
    quickest: Duration,
    shard: u32,
    siblings: u32,
    /// What a shard waits for each one that is before it in line.
    turn: Duration,
    /// The next request is let through no sooner than this.
    next: Nanos,
    /// Whatever was let through is sent no sooner than this: the same, without requests that were not sent yet.
    next_send: Nanos,
}

impl Spacing {
    /// Keeps the requests of this shard and of its siblings this far `apart`, if they are to be.
    pub(super) fn new(apart: Option<Duration>, plan: &ShardPlan) -> Self {
        let siblings = plan.siblings.max(1);
        // All turns together are a tenth of the time at most.
        let turn = apart.map_or(TURN, |apart| TURN.min(apart / 10 / siblings));
        let (next, next_send) = (Nanos(0), Nanos(0));
        Self { apart, quickest: Duration::MAX, shard: plan.shard, siblings, turn, next, next_send }
    }

    /// The next request is let through no sooner than this.
    pub(super) const fn next(&self) -> Nanos {
        self.next
    }

    /// The next request is sent no sooner than this.
    pub(super) const fn next_send(&self) -> Nanos {
        self.next_send
    }

    /// Takes in a request that is let through at `now`.
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.next = self.next.max(self.after(now, self.shard));
    }

    /// Takes in a request that is sent at `now`. Some when the other shards have to know.
    pub(super) fn sent(&mut self, now: Nanos) -> Option<Nanos> {
        self.apart?;
        self.arrived(now, self.shard);
        Some(now)
    }

    /// Takes in an attempt that ended. Some when the other shards have to know: when the target was at it.
    pub(super) fn ended(&mut self, attempt: &Attempt) -> Option<Nanos> {
        let (at_once, sent) = (self.apart? / AT_ONCE, attempt.sent?);
        let took = Duration::from_nanos(attempt.done.since(sent));
        let is_first = self.quickest == Duration::MAX;
        self.quickest = self.quickest.min(took);
        let is_slow = self.quickest > at_once && !is_first;
        let is_late = is_first || took > self.quickest.saturating_mul(LATE);
        let arrived = if is_late && !is_slow { attempt.done } else { attempt.done.min(sent.plus(at_once)) };
        self.arrived(arrived, self.shard);
        Some(arrived)
    }

    /// Takes in that the target was at a request of shard `by` at `at`.
    pub(super) fn arrived(&mut self, at: Nanos, by: u32) {
        let after = self.after(at, by);
        (self.next, self.next_send) = (self.next.max(after), self.next_send.max(after));
    }

    /// When this shard's next request may follow one of shard `by` at `at`.
    fn after(&self, at: Nanos, by: u32) -> Nanos {
        let before_it = (self.shard + self.siblings - 1 - by.min(self.siblings - 1)) % self.siblings;
        self.apart.map_or(Nanos(0), |apart| at.plus(apart + self.turn * before_it))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::plan;
    use crate::sample::{Advice, Outcome};
    use crate::units::Rate;

    fn spacing(permits: u64, burst: u64) -> Spacing {
        spacing_of(0, permits, burst)
    }

    fn spacing_of(shard: usize, permits: u64, burst: u64) -> Spacing {
        let mut run = plan();
        (run.rate, run.burst) = (Some(Rate { permits, period_ns: 1_000_000_000 }), burst);
        let plan = &run.split(&[])[shard];
        Spacing::new(plan.spacing, plan)
    }

    const MS: u64 = 1_000_000;

    fn attempt(sent: Option<u64>, done: u64) -> Attempt {
        Attempt {
            sent: sent.map(|sent| Nanos(sent * MS)),
            first_byte: None,
            done: Nanos(done * MS),
            connect_ns: None,
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
        spacing.admitted(Nanos(0));
        assert_eq!(
            (spacing.next(), spacing.next_send()),
            (Nanos(505 * MS), Nanos(0)),
            "it is let through, and not sent"
        );
        assert_eq!(spacing.sent(Nanos(0)), Some(Nanos(0)));
        assert_eq!((spacing.next(), spacing.next_send()), (Nanos(505 * MS), Nanos(505 * MS)));
        spacing.ended(&attempt(Some(3), 4));
        assert_eq!(spacing.next(), Nanos(509 * MS));
        // It answers at once, so this request was late.
        spacing.ended(&attempt(Some(10), 400));
        assert_eq!(spacing.next(), Nanos(905 * MS));
        assert_eq!(spacing.ended(&attempt(None, 900)), None, "what was never sent never arrived");
        spacing.arrived(Nanos(7 * MS), 1);
        assert_eq!(spacing.next(), Nanos(905 * MS));
    }

    #[test]
    fn whoever_is_next_in_line_goes_first() {
        let next = |shard: usize, by: u32| {
            let mut spacing = spacing_of(shard, 2, 2);
            spacing.arrived(Nanos(0), by);
            spacing.next()
        };
        assert_eq!([next(0, 1), next(1, 0)], [Nanos(500 * MS); 2]);
        assert_eq!([next(0, 0), next(1, 1)], [Nanos(505 * MS); 2]);
    }

    #[test]
    fn a_slow_target_costs_hardly_anything_of_the_budget() {
        let mut spacing = spacing(2, 2);
        for at in [0, 600, 1_200, 1_800] {
            spacing.ended(&attempt(Some(at), at + 590));
        }
        assert_eq!(spacing.next(), Nanos(2_306 * MS + MS / 4));
    }

    #[test]
    fn bursts_and_quick_rates_are_not_spaced() {
        for (permits, burst) in [(2, 3), (6, 2), (5_000, 52)] {
            assert_eq!(spacing(permits, burst).sent(Nanos(5)), None, "{permits}/s, {burst} at once");
        }
        assert!(spacing(5, 2).sent(Nanos(5)).is_some());
    }
}
