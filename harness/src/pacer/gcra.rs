//! `Gcra`: the generic cell rate algorithm in its form as a virtual schedule (ITU-T I.371, Annex
//! A). The budget of a run and the quota that a target announces are kept by it.
//!
//! With an interval `t` and a tolerance `tau`, a request may go from `tat - tau` on, and moves
//! `tat` to `max(tat, now) + t`. Both are passed to each call, because a learnt pace changes them
//! between two requests. Pure.

use crate::clock::Nanos;

/// The schedule of one limit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Gcra {
    /// The theoretical arrival time of the next request.
    tat: Nanos,
}

impl Gcra {
    /// A schedule whose next request is expected at `tat`.
    pub(crate) const fn new(tat: Nanos) -> Self {
        Self { tat }
    }

    /// Return when the next request is expected.
    pub(crate) const fn tat(self) -> Nanos {
        self.tat
    }

    /// Return since when the next request has been allowed, or will be.
    pub(crate) const fn allowed_since(self, tolerance_ns: u64) -> Nanos {
        Nanos(self.tat.0.saturating_sub(tolerance_ns))
    }

    /// Charge a request that goes at `now`.
    pub(crate) fn admit(&mut self, now: Nanos, interval_ns: u64) {
        self.tat = Nanos(self.tat.max(now).0.saturating_add(interval_ns));
    }

    /// Expect the next request at `at` or later.
    pub(crate) fn postpone(&mut self, at: Nanos) {
        self.tat = self.tat.max(at);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;
    use std::time::Duration;

    use governor::clock::FakeRelativeClock;
    use governor::{Quota, RateLimiter};
    use proptest::prelude::*;

    use super::*;
    use crate::pacer::{Pace, Pacer};
    use crate::plan::Budget;

    proptest! {
        /// The limiter of another library, on the same clock: each request is decided alike, and a
        /// refused one is told the same moment.
        #[test]
        fn a_budget_decides_as_governor_does(
            interval_ns in 1..1_000_u64, burst in 1..20_u32, pauses in prop::collection::vec(0..3_000_u64, 1..300),
        ) {
            let quota = Quota::with_period(Duration::from_nanos(interval_ns)).unwrap();
            let quota = quota.allow_burst(NonZeroU32::new(burst).unwrap());
            let clock = FakeRelativeClock::default();
            let governor = RateLimiter::direct_with_clock(quota, clock.clone());
            let burst = u64::from(burst);
            let budget = Budget { interval_ns, burst, at_start: burst, phase_ns: 0, apart_ns: 0 };
            let mut pacer = Pacer::new(Some(budget), Nanos(0));
            let mut now = Nanos(0);
            for pause in pauses {
                now.0 += pause;
                clock.advance(Duration::from_nanos(pause));
                let theirs = governor.check().map_err(|refused| refused.wait_time_from(governor::clock::Clock::now(&clock)));
                match pacer.poll(now) {
                    Pace::Go(_) => prop_assert!(theirs.is_ok(), "{now:?}"),
                    Pace::Wait(due) => prop_assert_eq!(theirs, Err(Duration::from_nanos(due.since(now)))),
                }
            }
        }
    }
}
