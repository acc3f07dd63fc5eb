//! Waiting because the target asks for it: pauses, the pace at which a quota lasts, and the counts
//! of waits respected.
//!
//! Called by the gate. It must not read a clock or wait; draws come from a seeded generator.
//!
//! Nothing is sent before a wait that the target asked for is over. Waits are jittered upward only:
//! the shards resume one after another within a tenth of the wait, so that they do not all come
//! back at the same instant. Their order changes from pause to pause: the first to resume may use
//! up all that the target lets through until it throttles again. A wait longer than `--max-pause`
//! is cut, and what is then sent early is counted.

use std::time::Duration;

use super::quota::{QuotaPace, is_renewed_at_once};
use super::retry::backoff_ceiling;
use crate::clock::{Nanos, duration_ns};
use crate::plan::{OnThrottle, ShardPlan, ThrottlingPolicy};
use crate::sample::{Attempt, Outcome, Permit, Quota};
use crate::wire::{PauseCause, PauseOrder, ThrottlingCounts};

/// Divisor that gives the most by which a pause is made longer than promised: a tenth of it, enough
/// to spread shards that received the same wait, too little to be felt.
const SPREAD: u32 = 10;

/// For this long the shards resume in the same order, ns: throttled answers come in bursts, and
/// each shard follows the latest of a burst.
const TURN_NS: u64 = 1_000_000_000;

/// Throttle pauses of one shard at one host.
#[derive(Debug)]
pub(super) struct ThrottlePauses {
    host: u32,
    throttling: ThrottlingPolicy,
    shard: u32,
    siblings: u32,
    draw: fastrand::Rng,
    /// Nothing goes before this.
    resume: Nanos,
    /// End of the wait that the target asked for.
    promised: Nanos,
    /// State of that promise: broken by what went before its end.
    broken: Broken,
    /// Since when the shard has been throttled and the end of that pause, until a good answer to a
    /// request that was admitted after it.
    throttled_since: Option<(Nanos, Nanos)>,
    /// When the current or latest pause began, and when the one before it was over.
    paused_at: Nanos,
    resumed: Nanos,
    /// Number of throttled answers in a row that did not say how long to wait.
    untold: u32,
    pub(super) quota: QuotaPace,
    pub(super) counts: ThrottlingCounts,
}

/// State of the running promise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broken {
    /// There is none.
    NoPromise,
    /// Not so far.
    No,
    /// The promise was broken.
    Yes,
}

impl Broken {
    /// Count a promise that is over.
    const fn settle(self, counts: &mut ThrottlingCounts) {
        match self {
            Self::NoPromise => {}
            Self::No => counts.honoured += 1,
            Self::Yes => counts.violated += 1,
        }
    }
}

impl ThrottlePauses {
    /// The pauses of a shard at host number `host`.
    pub(super) fn new(host: u32, plan: &ShardPlan) -> Self {
        Self {
            host,
            throttling: plan.throttling,
            shard: plan.shard,
            siblings: plan.siblings.max(1),
            draw: fastrand::Rng::with_seed(
                plan.seed ^ (u64::from(plan.shard) << 32) ^ u64::from(host),
            ),
            resume: Nanos::default(),
            promised: Nanos::default(),
            broken: Broken::NoPromise,
            throttled_since: None,
            paused_at: Nanos::default(),
            resumed: Nanos::default(),
            untold: 0,
            quota: QuotaPace::new(plan.siblings.max(1), plan.throttling.max_pause),
            counts: ThrottlingCounts::default(),
        }
    }

    /// Before this moment nothing may go.
    pub(super) const fn resume(&self) -> Nanos {
        self.resume
    }

    /// True if the target has not asked to wait so far.
    pub(super) fn is_unused(&self) -> bool {
        self.resume == Nanos::default() && self.promised == Nanos::default()
    }

    /// A draw from 0 to 1.
    pub(super) fn draw(&mut self) -> f64 {
        self.draw.f64()
    }

    /// Count a request that is admitted at `now`.
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.quota.admitted(now);
    }

    /// Counts a request that is written at `now`: with all that is known of pauses by then, it is
    /// decided now that it goes.
    pub(super) fn sent(&mut self, now: Nanos) {
        if now < self.promised {
            self.counts.early_attempts += 1;
            self.broken = Broken::Yes;
        }
    }

    /// Takes in how an attempt ended. Some when all shards have to wait.
    pub(super) fn ended(&mut self, permit: &Permit, attempt: &Attempt) -> Option<PauseOrder> {
        match attempt.outcome {
            Outcome::Throttled => return self.throttled(attempt),
            Outcome::Ok | Outcome::NotModified | Outcome::NotFound | Outcome::Stepped => {
                self.recovered(permit, attempt);
            }
            Outcome::Redirected | Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => {}
        }
        let quota = attempt.advice.quota.as_deref()?;
        self.told(attempt.done, quota)
    }

    /// Takes in what is left of a quota at `now`.
    fn told(&mut self, now: Nanos, quota: &Quota) -> Option<PauseOrder> {
        let ThrottlingPolicy {
            on_throttle,
            adaptive,
            ..
        } = self.throttling;
        let is_renewed_soon = adaptive.is_some() && is_renewed_at_once(quota);
        if on_throttle != OnThrottle::Honor || is_renewed_soon {
            return None;
        }
        let wait = self.quota.update(now, *quota)?;
        Some(self.order(PauseCause::UsedUp, now, wait, now))
    }

    fn throttled(&mut self, attempt: &Attempt) -> Option<PauseOrder> {
        let told = attempt.advice.wait;
        if let Some(told) = told {
            self.counts.promises += 1;
            self.counts.longest_promise_ns = self.counts.longest_promise_ns.max(duration_ns(told));
            self.promise(attempt.done, attempt.done.plus(told));
        }
        if self.throttling.on_throttle != OnThrottle::Honor {
            return None;
        }
        let wait = match told {
            Some(told) => told,
            // Half of it at least: a wait of nothing is no answer to a refusal.
            None => backoff_ceiling(self.untold, self.throttling.backoff)
                .mul_f64(0.5 + self.draw() / 2.0),
        };
        if told.is_none() && attempt.done >= self.resume {
            self.untold = self.untold.saturating_add(1);
        }
        Some(self.order(
            PauseCause::Refused,
            attempt.done,
            wait,
            told.map_or(attempt.done, |told| attempt.done.plus(told)),
        ))
    }

    fn order(
        &mut self,
        cause: PauseCause,
        at: Nanos,
        wait: Duration,
        promised: Nanos,
    ) -> PauseOrder {
        let taken = wait.min(self.throttling.max_pause);
        // An adaptive run resumes by its learnt rate, in which each shard has a place of its own.
        let spread = if taken < wait || self.throttling.adaptive.is_some() {
            Duration::ZERO
        } else {
            taken / SPREAD
        };
        self.counts.cut_pauses += u64::from(taken < wait);
        let order = PauseOrder {
            host: self.host,
            cause,
            at,
            until: at.plus(taken),
            spread_ns: duration_ns(spread),
            promised,
        };
        self.pause(order);
        order
    }

    /// Does as the target told another shard.
    pub(super) fn ordered(&mut self, order: PauseOrder) {
        if order.promised > order.at {
            self.promise(order.at, order.promised);
        }
        self.pause(order);
    }

    fn pause(&mut self, order: PauseOrder) {
        // All shards draw the same turn for the answers of one burst, and only the first half of
        // each shard's part is used: what is left keeps it apart from the next one.
        let turn = fastrand::Rng::with_seed(order.at.0 / TURN_NS).u32(..self.siblings);
        let place = (self.shard + turn) % self.siblings;
        let place = (f64::from(place) + self.draw() / 2.0) / f64::from(self.siblings);
        let resume = order
            .until
            .plus(Duration::from_nanos(order.spread_ns).mul_f64(place));
        if order.at >= self.resume {
            (self.paused_at, self.resumed) = (order.at, self.resume);
        }
        if resume > self.resume {
            self.counts.paused_ns += resume.since(self.resume.max(order.at));
            self.resume = resume;
        }
        self.throttled_since.get_or_insert((order.at, self.resume));
    }

    /// Notes that the target asked for a wait until `until`.
    fn promise(&mut self, at: Nanos, until: Nanos) {
        if at >= self.promised {
            self.broken.settle(&mut self.counts);
            self.broken = Broken::No;
        }
        self.promised = self.promised.max(until);
    }

    fn recovered(&mut self, permit: &Permit, attempt: &Attempt) {
        // What was sent together with a request that was refused may be answered after it.
        if permit.admitted >= self.resumed {
            self.untold = 0;
        }
        // What was in flight when the target throttled says nothing of the time after it.
        if let Some((since, _)) = self
            .throttled_since
            .filter(|(_, until)| permit.admitted >= *until)
        {
            // The target may have throttled again before this answer arrived.
            self.throttled_since =
                (permit.admitted < self.resume).then_some((self.paused_at, self.resume));
            let took = attempt.done.since(since);
            self.counts.recoveries += 1;
            self.counts.recovery_sum_ns += took;
            self.counts.recovery_max_ns = self.counts.recovery_max_ns.max(took);
        }
    }

    /// The counts as they would be if the run ended at `now`.
    pub(super) fn counts(&self, now: Nanos) -> ThrottlingCounts {
        let mut end = ThrottlingCounts {
            paused_ns: self.counts.paused_ns - self.resume.since(now),
            ..self.counts
        };
        self.broken.settle(&mut end);
        end
    }
}

#[cfg(test)]
mod tests;
