//! When answers arrive by phase, in which clocks of the target are. Shards record it, the supervisor
//! merges it; it must not decide what a clock is.

use serde::{Deserialize, Serialize};

use super::table::Count;

/// Answers of any status by the time of their end since the start of the run, modulo
/// [`PERIOD`](Self::PERIOD), in bins of 1 ms. A target whose answers leave in step with a clock
/// fills few bins, whatever its load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases(Vec<u64>);

impl Phases {
    /// Time after which the bins repeat, ms: the period of Linux' CPU quota (CFS), and a multiple of the
    /// ticks of 1, 4, 5, 10 and 20 ms.
    pub const PERIOD: usize = 100;

    /// Count an answer that ended so many ns after the start of the run.
    pub(crate) fn record(&mut self, ended_ns: u64) {
        if self.0.is_empty() {
            self.0.resize(Self::PERIOD, 0);
        }
        self.0[(ended_ns / 1_000_000 % Self::PERIOD as u64) as usize] += 1;
    }

    /// Add those of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.0.add(&other.0);
    }

    /// Number of answers.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().fold(0, |sum, bin| sum.saturating_add(*bin))
    }

    /// Mean resultant length of the answers on a circle of `period_ms`: 1 where all end at one
    /// phase of it, about `1 / sqrt(count)` where they end at any (Rayleigh's test; Mardia and Jupp,
    /// "Directional Statistics", 2000). 0 without answers.
    #[must_use]
    pub fn in_step(&self, period_ms: f64) -> f64 {
        let count = self.count();
        if count == 0 {
            return 0.0;
        }
        let (cos, sin) = self
            .0
            .iter()
            .enumerate()
            .fold((0.0, 0.0), |sum, (ms, bin)| {
                let (sin, cos) = (std::f64::consts::TAU * ms as f64 / period_ms).sin_cos();
                (sum.0 + cos * *bin as f64, sum.1 + sin * *bin as f64)
            });
        (f64::hypot(cos, sin) / count as f64).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn answers_of_a_clock_are_in_step_with_it_and_others_are_not(at in 0..100_u64, period in prop::sample::select(vec![10_u64, 20, 100])) {
            let mut ticking = Phases(vec![0; Phases::PERIOD]);
            (0..100 / period).for_each(|n| ticking.0[((at + n * period) % 100) as usize] += 7);
            prop_assert!(ticking.in_step(period as f64) > 0.99);
            let mut free = Phases(vec![7; Phases::PERIOD]);
            prop_assert!(free.in_step(period as f64) < 0.01);
            free.merge(&ticking);
            prop_assert_eq!(free.count(), 700 + ticking.count());
        }
    }
}
