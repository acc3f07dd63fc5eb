//! Running median of service times: an estimate that follows them, of constant size.
//!
//! Fed by the gate's limits with each response, and read when they choose the slack of the pacing.
//! It must not read a clock.

use std::time::Duration;

/// Bounds of the estimate, ns: the slack that it is for is the same below and above them.
const LEAST_NS: u64 = 1_000_000;
const MOST_NS: u64 = 20_000_000;

/// Step of the estimate with each time, as a part of it: from one bound to the other in 200 times.
const STEP: u64 = 64;

/// Estimate that rises with each time above it and falls with each one below it, so that half of
/// the last ones are on either side (the frugal streaming of Ma, Muthukrishnan and Sandler 2013, in
/// steps that grow with it).
#[derive(Debug)]
pub(super) struct RunningMedian {
    ns: u64,
}

impl Default for RunningMedian {
    fn default() -> Self {
        Self { ns: LEAST_NS }
    }
}

impl RunningMedian {
    /// Take in a time, ns.
    pub(super) fn record(&mut self, ns: u64) {
        let step = self.ns / STEP;
        self.ns = if ns > self.ns {
            (self.ns + step).min(MOST_NS)
        } else {
            (self.ns - step).max(LEAST_NS)
        };
    }

    /// Return the estimate, from 1 ms to 20 ms.
    pub(super) const fn median(&self) -> Duration {
        Duration::from_nanos(self.ns)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_follows_the_median_whatever_it_was_before(
            before in prop::collection::vec(0..100_000_000_u64, 0..500), median in 0..100_000_000_u64, seed: u64,
        ) {
            let mut running = RunningMedian::default();
            for ns in before {
                running.record(ns);
            }
            // From half to half as much again, evenly.
            let mut draws = fastrand::Rng::with_seed(seed);
            (0..1_000).for_each(|_| running.record(median / 2 + draws.u64(0..=median)));
            let expected = median.clamp(LEAST_NS, MOST_NS);
            prop_assert!(running.ns.abs_diff(expected) <= expected / 4, "{} for {expected}", running.ns);
        }
    }
}
