//! Delays: the time for which the target holds each response. The server calls [`Latency::hold`]
//! for every item, and a client may call it to know the time that it should have measured.
//!
//! It must not sleep, and a hold must stay a pure function of (seed, id, attempt). Delays that
//! depend on more than that (requests in flight, stalls) are added by the server.

mod added;
mod quantiles;
mod text;

pub use added::{Handshake, PerInFlight};
pub use quantiles::{Quantile, Quantiles};

use crate::draw::{Draws, Stream};
use std::time::Duration;

/// Longest hold. A delay of more than an hour is taken for a typing error.
pub const MAX_HOLD: Duration = Duration::from_hours(1);

/// Delay before an answer.
///
/// On the command line, where a bare number means seconds:
///
/// | written | meaning |
/// |---|---|
/// | `none` | at once |
/// | `20ms`, `fixed:20ms` | every answer equally long |
/// | `uniform:10ms,30ms` | every whole microsecond from the low to the high end equally likely, both ends included |
/// | `lognormal:20ms,0.4`, `lognormal:20ms,0.4,2s` | median, sigma and maximum, which is ten medians if left out |
/// | `pareto:5ms,1.5`, `pareto:5ms,1.5,10s` | minimum, alpha and maximum, which is a thousand minimums if left out |
/// | `bimodal:2ms,200ms,0.05` | the first, or the second for a share of the items (a cache and its misses) |
/// | `drift:500ms,30s,1200` | from the first to the second over so many ids, and then again: a target that tires |
/// | `quantiles:0=5ms,0.5=20ms,0.99=100ms,1=2s` | measured quantiles, straight lines in between |
///
/// Values read by [`FromStr`](std::str::FromStr) are within range. Values made by hand may be
/// anything: [`Latency::hold`] is defined for all of them and never longer than [`MAX_HOLD`].
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Latency {
    /// At once.
    #[default]
    None,
    /// Every answer equally long.
    Fixed(Duration),
    /// Evenly spread.
    Uniform {
        /// The shortest hold, included.
        low: Duration,
        /// The longest hold, included.
        high: Duration,
    },
    /// Log-normally distributed, as the latencies of real services roughly are: most near the
    /// median, a long tail.
    LogNormal {
        /// Half of the holds are shorter.
        median: Duration,
        /// The standard deviation of the hold's natural logarithm, `0.0..=5.0`, without unit.
        sigma: f64,
        /// Longer holds are cut to this.
        max: Duration,
    },
    /// Pareto distributed: a heavy tail, in which a hold k times as long is k^alpha times as rare.
    Pareto {
        /// The shortest hold.
        min: Duration,
        /// Exponent of the tail, `0.1..=100.0`, without unit; at 1 and below the mean is the
        /// maximum's doing.
        alpha: f64,
        /// Longer holds are cut to this.
        max: Duration,
    },
    /// One of two holds.
    Bimodal {
        /// The hold of most items, or rather of those that are not `second`.
        first: Duration,
        /// The hold of the others.
        second: Duration,
        /// The share of items with the second hold, `0.0..=1.0`.
        share_of_second: f64,
    },
    /// Longer and longer, or shorter and shorter, from id to id.
    Drift {
        /// The hold of id 0, and of each id with which it begins again.
        from: Duration,
        /// The hold that it comes close to.
        to: Duration,
        /// Over how many ids; then it begins again. 0 counts as 1.
        over: u64,
    },
    /// As measured elsewhere.
    Quantiles(Quantiles),
}

impl Latency {
    /// Return how long the answer for `id` is held back, in whole microseconds; zero means that it
    /// is not held at all. `attempt` is how many requests for it came before, `0..=15`, 15 for
    /// more.
    ///
    /// With `u`, `u1`, `u2` uniform in [0, 1) and drawn from (seed, id, attempt):
    ///
    /// - [`Latency::Uniform`]: `low + floor(u (high - low + 1))` in microseconds; `low` if `high`
    ///   is below it;
    /// - [`Latency::LogNormal`]: `min(median exp(sigma z), max)` with
    ///   `z = sqrt(-2 ln(1 - u1)) cos(2 pi u2)` standard normal. Source: Box and Muller, "A Note on
    ///   the Generation of Random Normal Deviates" (1958);
    /// - [`Latency::Pareto`]: `min(minimum (1 - u)^(-1/alpha), max)`, the inverse of
    ///   `F(x) = 1 - (minimum/x)^alpha`;
    /// - [`Latency::Bimodal`]: `second` if `u < share`, else `first`;
    /// - [`Latency::Drift`]: `from + (to - from) (id mod over) / over`, the same for each attempt;
    /// - [`Latency::Quantiles`]: the quantile of `u`.
    ///
    /// Logarithm, cosine and power are the platform's, so two platforms may differ in the last
    /// microsecond.
    #[must_use]
    pub fn hold(&self, seed: u64, id: u64, attempt: u8) -> Duration {
        let draws = || Draws::for_attempt(Stream::Hold, seed, id, attempt);
        let hold = match self {
            Self::None => Duration::ZERO,
            Self::Fixed(hold) => *hold,
            Self::Uniform { low, high } => uniform(*low, *high, draws().word()),
            Self::LogNormal { median, sigma, max } => {
                let mut draws = draws();
                let u1 = 1.0 - draws.unit();
                let u2 = draws.unit();
                let z = (-2.0 * u1.ln()).sqrt() * (std::f64::consts::TAU * u2).cos();
                scaled(*median, (sigma * z).exp(), *max)
            }
            Self::Pareto { min, alpha, max } => {
                scaled(*min, (1.0 - draws().unit()).powf(-1.0 / alpha), *max)
            }
            Self::Bimodal {
                first,
                second,
                share_of_second,
            } => {
                if draws().unit() < *share_of_second {
                    *second
                } else {
                    *first
                }
            }
            Self::Drift { from, to, over } => {
                let way = (id % over.max(&1)) as f64 / *over.max(&1) as f64;
                let near = |end: &Duration| end.min(&MAX_HOLD).as_secs_f64();
                Duration::from_secs_f64(near(from) * (1.0 - way) + near(to) * way)
            }
            Self::Quantiles(quantiles) => quantiles.at(draws().unit()),
        };
        let hold = hold.min(MAX_HOLD);
        Duration::new(hold.as_secs(), hold.subsec_micros() * 1000)
    }
}

/// A whole number of microseconds, `low` and `high` included.
fn uniform(low: Duration, high: Duration, word: u64) -> Duration {
    let whole_us = |end: Duration| u64::try_from(end.min(MAX_HOLD).as_micros()).unwrap_or(u64::MAX);
    let (low_us, high_us) = (whole_us(low), whole_us(high));
    let choices = u128::from(high_us.saturating_sub(low_us)) + 1;
    // The high half of the product is below `choices`, which an hour of microseconds keeps within
    // 64 bits; what it favours some choices by is below 2^-32.
    let choice = u64::try_from((u128::from(word) * choices) >> u64::BITS).unwrap_or_default();
    Duration::from_micros(low_us + choice)
}

/// `factor` times `hold`, at most `max`; `max` if that is no duration.
fn scaled(hold: Duration, factor: f64, max: Duration) -> Duration {
    Duration::try_from_secs_f64(hold.as_secs_f64() * factor).map_or(max, |hold| hold.min(max))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn a_hold_is_defined_for_any_value() {
        let max = Duration::MAX;
        let mut all = vec![
            Latency::Fixed(max),
            Latency::Uniform {
                low: max,
                high: max,
            },
        ];
        all.push(Latency::Uniform {
            low: 5 * MS,
            high: MS,
        });
        all.push(Latency::Drift {
            from: max,
            to: MS,
            over: 0,
        });
        all.push(Latency::Drift {
            from: MS,
            to: max,
            over: u64::MAX,
        });
        for odd in [
            f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            -3.0,
            0.0,
            -0.0,
            1e300,
            1e-300,
        ] {
            all.push(Latency::LogNormal {
                median: max,
                sigma: odd,
                max,
            });
            all.push(Latency::Pareto {
                min: max,
                alpha: odd,
                max,
            });
            all.push(Latency::Pareto {
                min: Duration::ZERO,
                alpha: odd,
                max,
            });
            all.push(Latency::Bimodal {
                first: max,
                second: MS,
                share_of_second: odd,
            });
        }
        for latency in all {
            for id in 0..100 {
                assert!(latency.hold(1, id, 0) <= MAX_HOLD, "{latency:?}");
            }
        }
    }

    #[test]
    fn a_drift_goes_from_end_to_end_and_begins_again() {
        let latency = Latency::Drift {
            from: 10 * MS,
            to: 30 * MS,
            over: 4,
        };
        assert_eq!(
            [0, 1, 2, 3, 4, 7].map(|id| latency.hold(9, id, 3)),
            [10, 15, 20, 25, 10, 25].map(|ms| ms * MS)
        );
    }

    /// The hold that a share of the items stays below or at, judged over `0..10_000`.
    fn holds(latency: &Latency, seed: u64) -> Vec<f64> {
        let mut holds: Vec<f64> = (0..10_000)
            .map(|id| latency.hold(seed, id, 0).as_secs_f64())
            .collect();
        holds.sort_by(f64::total_cmp);
        holds
    }

    #[test]
    fn quantiles_of_a_log_normal_latency_are_those_of_its_definition() {
        let holds = holds(
            &Latency::LogNormal {
                median: 20 * MS,
                sigma: 0.4,
                max: MAX_HOLD,
            },
            3,
        );
        // z of the 15.87th, 50th and 84.13th percentile is -1, 0 and 1.
        for (rank, z) in [(1587, -1.0_f64), (5000, 0.0), (8413, 1.0)] {
            let expected = 0.020 * (0.4 * z).exp();
            let found = holds[rank];
            assert!(
                (found / expected - 1.0).abs() < 0.04,
                "z {z}: {found} instead of {expected}"
            );
        }
    }

    #[test]
    fn quantiles_of_a_pareto_latency_are_those_of_its_definition() {
        for alpha in [1.2_f64, 3.0] {
            let holds = holds(
                &Latency::Pareto {
                    min: 10 * MS,
                    alpha,
                    max: MAX_HOLD,
                },
                3,
            );
            for (rank, share) in [(1000, 0.1_f64), (5000, 0.5), (9000, 0.9), (9900, 0.99)] {
                let expected = 0.010 * (1.0 - share).powf(-1.0 / alpha);
                let found = holds[rank];
                // At the 99th percentile 100 holds remain: a relative standard deviation of 0.1 /
                // alpha.
                assert!(
                    (found / expected - 1.0).abs() < 0.3,
                    "alpha {alpha}, {share}: {found} instead of {expected}"
                );
            }
            assert!(holds[0] >= 0.010 && holds[0] < 0.0101, "{}", holds[0]);
        }
    }

    #[test]
    fn a_cut_pareto_tail_is_at_its_maximum() {
        let latency = Latency::Pareto {
            min: MS,
            alpha: 1.0,
            max: 10 * MS,
        };
        let cut = (0..10_000)
            .filter(|id| latency.hold(5, *id, 0) == 10 * MS)
            .count();
        // One in ten expected, standard deviation 30: six of them either way.
        assert!((820..=1180).contains(&cut), "{cut}");
    }

    #[test]
    fn a_uniform_latency_reaches_every_microsecond_of_its_range_equally_often() {
        let latency = Latency::Uniform {
            low: Duration::from_micros(3),
            high: Duration::from_micros(7),
        };
        let mut counts = [0_u32; 10];
        for id in 0..10_000 {
            counts[usize::try_from(latency.hold(4, id, 0).as_micros()).unwrap()] += 1;
        }
        // 2,000 expected in each of five, standard deviation 40: six of them either way.
        assert_eq!(
            (
                counts[..3].iter().sum::<u32>(),
                counts[8..].iter().sum::<u32>()
            ),
            (0, 0),
            "{counts:?}"
        );
        assert!(
            counts[3..8]
                .iter()
                .all(|count| (1760..=2240).contains(count)),
            "{counts:?}"
        );
    }

    proptest! {
        #[test]
        fn a_hold_is_pure_bounded_and_whole_microseconds(
            seed: u64, id: u64, attempt in 0_u8..16, low_us in 0_u64..1_000_000, more_us in 0_u64..1_000_000, share in 0.0..1.0_f64,
        ) {
            let (low, high) = (Duration::from_micros(low_us), Duration::from_micros(low_us + more_us));
            let middle = Quantile { share: 0.5, hold: low + Duration::from_micros(more_us / 3) };
            let ends = |share, hold| Quantile { share, hold };
            let quantiles = Quantiles::new(&[ends(0.0, low), middle, ends(1.0, high)]).unwrap();
            for (latency, least) in [
                (Latency::Fixed(high), high),
                (Latency::Uniform { low, high }, low),
                (Latency::LogNormal { median: low, sigma: 5.0 * share, max: high }, Duration::ZERO),
                (Latency::Pareto { min: low, alpha: 0.1 + share, max: high }, low),
                (Latency::Bimodal { first: low, second: high, share_of_second: share }, low),
                (Latency::Quantiles(quantiles), low),
            ] {
                let hold = latency.hold(seed, id, attempt);
                prop_assert_eq!(hold, latency.hold(seed, id, attempt));
                prop_assert!(least <= hold && hold <= high, "{}: {:?}", latency, hold);
                prop_assert_eq!(hold.subsec_nanos() % 1000, 0);
            }
        }

        #[test]
        fn half_of_the_holds_are_below_the_median(seed: u64, sigma in 0.05..5.0_f64) {
            let median = Duration::from_millis(50);
            let latency = Latency::LogNormal { median, sigma, max: MAX_HOLD };
            let below = (0..1000).filter(|id| latency.hold(seed, *id, 0) < median).count();
            // 500 expected, standard deviation 16: six of them either way.
            prop_assert!((405..=595).contains(&below), "{} below", below);
        }

        #[test]
        fn the_second_mode_is_as_frequent_as_asked(seed: u64, share in 0.0..=1.0_f64) {
            let latency = Latency::Bimodal { first: MS, second: 2 * MS, share_of_second: share };
            let second = (0..1000).filter(|id| latency.hold(seed, *id, 0) == 2 * MS).count() as f64;
            // Standard deviation at most 16: six of them either way.
            prop_assert!((second - 1000.0 * share).abs() <= 95.0, "{} of {}", second, share);
        }

        #[test]
        fn given_quantiles_are_met(seed: u64, shares in proptest::array::uniform2(0.05..0.45_f64)) {
            let knee = shares[0];
            let bend = 0.5 + shares[1];
            let points: Vec<_> = [(0.0, 1), (knee, 2), (bend, 50), (1.0, 51)]
                .map(|(share, ms)| Quantile { share, hold: ms * MS }).into();
            let latency = Latency::Quantiles(Quantiles::new(&points).unwrap());
            for (share, hold) in [(knee, 2 * MS), (bend, 50 * MS)] {
                let below = (0..1000).filter(|id| latency.hold(seed, *id, 0) < hold).count() as f64;
                prop_assert!((below - 1000.0 * share).abs() <= 95.0, "{} below {:?}, not {}", below, hold, share);
            }
        }
    }
}
