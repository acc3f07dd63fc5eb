//! Delays: the time for which the target holds each response. The server calls [`Latency::hold`]
//! for every item, and a client may call it to know the time that it should have measured.
//!
//! It must not sleep, and a hold must stay a pure function of (seed, id, attempt). Delays that
//! depend on more than that (requests in flight, stalls) are added by the server.

use crate::draw::{Draws, Stream};
pub use crate::text::MAX_HOLD;
use crate::text::{SettingError, duration_text, hold, share};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

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
/// Values read by [`FromStr`] are within range. Values made by hand may be
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
            Self::Uniform { low, high } => uniform(*low, *high, &mut draws()),
            Self::LogNormal { median, sigma, max } => {
                scaled(*median, (sigma * draws().normal()).exp(), *max)
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
fn uniform(low: Duration, high: Duration, draws: &mut Draws) -> Duration {
    let whole_us = |end: Duration| u64::try_from(end.min(MAX_HOLD).as_micros()).unwrap_or(u64::MAX);
    let (low_us, high_us) = (whole_us(low), whole_us(high));
    let choices = high_us.saturating_sub(low_us) + 1;
    Duration::from_micros(low_us + draws.below(choices))
}

/// `factor` times `hold`, at most `max`; `max` if that is no duration.
fn scaled(hold: Duration, factor: f64, max: Duration) -> Duration {
    Duration::try_from_secs_f64(hold.as_secs_f64() * factor).map_or(max, |hold| hold.min(max))
}

/// One point of a distribution: `share` of the holds are `hold` or shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantile {
    /// `0.0..=1.0`.
    pub share: f64,
    /// The hold at it.
    pub hold: Duration,
}

/// A distribution as a monitoring system reports it: quantiles from 0 to 1, whose shares rise and
/// whose holds do not fall.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantiles {
    // Shared, so that a description of a target stays cheap to clone.
    points: Arc<[Quantile]>,
}

impl Quantiles {
    /// Takes the quantiles of a distribution, in order; nothing if the first share is not 0, the
    /// last not 1, a share does not rise, or a hold falls.
    #[must_use]
    pub fn new(points: &[Quantile]) -> Option<Self> {
        let (first, last) = (points.first()?, points.last()?);
        let rises =
            |pair: &[Quantile]| pair[0].share < pair[1].share && pair[0].hold <= pair[1].hold;
        let is_whole = (0.0..=0.0).contains(&first.share) && (1.0..=1.0).contains(&last.share);
        (is_whole && points.windows(2).all(rises)).then(|| Self {
            points: points.into(),
        })
    }

    /// Return the hold that `share` of all holds do not exceed: straight between two points.
    #[must_use]
    pub fn at(&self, share: f64) -> Duration {
        let above = self.points.partition_point(|point| point.share <= share);
        let below = above.saturating_sub(1);
        match (self.points.get(below), self.points.get(above)) {
            (Some(below), Some(above)) if above.share > below.share => {
                let part = (share - below.share) / (above.share - below.share);
                let rise = above.hold.saturating_sub(below.hold);
                below.hold + rise.mul_f64(part.clamp(0.0, 1.0))
            }
            (Some(end), _) | (None, Some(end)) => end.hold,
            (None, None) => Duration::ZERO,
        }
    }
}

/// Models, and how each is written.
const MODELS: [(&str, &str); 7] = [
    ("fixed", "fixed:TIME, as in fixed:20ms"),
    ("uniform", "uniform:LOW,HIGH, as in uniform:10ms,30ms"),
    (
        "lognormal",
        "lognormal:MEDIAN,SIGMA[,MAX] with a sigma of 0 to 5, as in lognormal:20ms,0.4,2s",
    ),
    (
        "pareto",
        "pareto:MIN,ALPHA[,MAX] with an alpha of 0.1 to 100, as in pareto:5ms,1.5,10s",
    ),
    (
        "bimodal",
        "bimodal:FIRST,SECOND,SHARE of the second, as in bimodal:2ms,200ms,0.05",
    ),
    ("drift", "drift:FROM,TO,IDS, as in drift:500ms,30s,1200"),
    (
        "quantiles",
        "quantiles:SHARE=TIME,.. rising from 0 to 1, as in quantiles:0=5ms,0.5=20ms,1=2s",
    ),
];

/// A maximum that is left out is so many medians, or minimums.
const DEFAULT_MAX_MEDIANS: u32 = 10;
const DEFAULT_MAX_MINIMUMS: u32 = 1000;

impl FromStr for Latency {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        Self::read(given.trim()).ok_or_else(|| {
            let model = given.split_once(':').map_or("", |(model, _)| model.trim());
            let known = MODELS.iter().find(|(name, _)| *name == model);
            let right = known.map_or_else(
                || "none, or ".to_owned() + &MODELS.map(|(_, form)| form).join("; "),
                |(_, form)| format!("{form}; times are 0 to 1h with a unit"),
            );
            SettingError::new(given, "latency", right)
        })
    }
}

impl Latency {
    fn read(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("none") {
            return Some(Self::None);
        }
        let (model, rest) = text.split_once(':').unwrap_or(("fixed", text));
        let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        Some(match (model, parts.as_slice()) {
            ("fixed", &[time]) => Self::Fixed(hold(time)?),
            ("uniform", &[low, high]) => {
                let low = hold(low)?;
                let high = hold(high).filter(|high| *high >= low)?;
                Self::Uniform { low, high }
            }
            ("lognormal", &[median, sigma, ref max @ ..]) => {
                let median = hold(median)?;
                let (sigma, max) = (
                    number(sigma, 0.0..=5.0)?,
                    maximum(max, median, DEFAULT_MAX_MEDIANS)?,
                );
                Self::LogNormal { median, sigma, max }
            }
            ("pareto", &[min, alpha, ref max @ ..]) => {
                let min = hold(min)?;
                let (alpha, max) = (
                    number(alpha, 0.1..=100.0)?,
                    maximum(max, min, DEFAULT_MAX_MINIMUMS)?,
                );
                Self::Pareto { min, alpha, max }
            }
            ("bimodal", &[first, second, of_second]) => Self::Bimodal {
                first: hold(first)?,
                second: hold(second)?,
                share_of_second: share(of_second)?,
            },
            ("drift", &[from, to, over]) => Self::Drift {
                from: hold(from)?,
                to: hold(to)?,
                over: over.parse().ok().filter(|over| *over > 0)?,
            },
            ("quantiles", pairs) => {
                let points: Option<Vec<_>> = pairs.iter().map(|pair| quantile(pair)).collect();
                Self::Quantiles(Quantiles::new(&points?)?)
            }
            _ => return None,
        })
    }
}

fn number(text: &str, range: RangeInclusive<f64>) -> Option<f64> {
    text.parse().ok().filter(|number| range.contains(number))
}

fn quantile(pair: &str) -> Option<Quantile> {
    let (at, time) = pair.split_once('=')?;
    Some(Quantile {
        share: share(at)?,
        hold: hold(time.trim())?,
    })
}

/// Read a maximum of at least `least`, or take so many times that if it is left out.
fn maximum(given: &[&str], least: Duration, times: u32) -> Option<Duration> {
    match given {
        [] => Some(least.saturating_mul(times).min(MAX_HOLD)),
        [max] => hold(max).filter(|max| *max >= least),
        _ => None,
    }
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |hold: &Duration| duration_text(*hold);
        match self {
            Self::None => f.write_str("none"),
            Self::Fixed(delay) => write!(f, "fixed:{}", text(delay)),
            Self::Uniform { low, high } => write!(f, "uniform:{},{}", text(low), text(high)),
            Self::LogNormal { median, sigma, max } => {
                write!(f, "lognormal:{},{sigma},{}", text(median), text(max))
            }
            Self::Pareto { min, alpha, max } => {
                write!(f, "pareto:{},{alpha},{}", text(min), text(max))
            }
            Self::Bimodal {
                first,
                second,
                share_of_second,
            } => {
                write!(
                    f,
                    "bimodal:{},{},{share_of_second}",
                    text(first),
                    text(second)
                )
            }
            Self::Drift { from, to, over } => write!(f, "drift:{},{},{over}", text(from), text(to)),
            Self::Quantiles(quantiles) => {
                let points = quantiles.points.iter();
                let points: Vec<_> = points
                    .map(|Quantile { share, hold }| format!("{share}={}", text(hold)))
                    .collect();
                write!(f, "quantiles:{}", points.join(","))
            }
        }
    }
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

        #[test]
        fn what_is_written_is_read_back(
            low_us in 0_u64..1_000_000_000, more_us in 0_u64..1_000_000_000,
            sigma in 0.0..5.0_f64, alpha in 0.1..100.0_f64, share in 0.0..=1.0_f64, middle in 0.001..0.999_f64,
        ) {
            let low = Duration::from_micros(low_us);
            let high = Duration::from_micros(low_us + more_us);
            let point = |share, hold| Quantile { share, hold };
            let points = [point(0.0, low), point(middle, low + Duration::from_micros(more_us / 7)), point(1.0, high)];
            for latency in [
                Latency::None,
                Latency::Fixed(low),
                Latency::Uniform { low, high },
                Latency::LogNormal { median: low, sigma, max: high },
                Latency::Pareto { min: low, alpha, max: high },
                Latency::Bimodal { first: high, second: low, share_of_second: share },
                Latency::Drift { from: high, to: low, over: more_us + 1 },
                Latency::Quantiles(Quantiles::new(&points).unwrap()),
            ] {
                prop_assert_eq!(latency.to_string().parse(), Ok(latency));
            }
        }
    }

    #[test]
    fn every_model_is_read() {
        let log_normal = |max| Latency::LogNormal {
            median: 20 * MS,
            sigma: 0.4,
            max,
        };
        let pareto = |max| Latency::Pareto {
            min: 5 * MS,
            alpha: 1.5,
            max,
        };
        let point = |share, ms| Quantile {
            share,
            hold: ms * MS,
        };
        let measured = Quantiles::new(&[
            point(0.0, 5),
            point(0.5, 20),
            point(0.99, 100),
            point(1.0, 2000),
        ])
        .unwrap();
        for (given, expected) in [
            ("none", Latency::None),
            ("fixed:20ms", Latency::Fixed(20 * MS)),
            ("20ms", Latency::Fixed(20 * MS)),
            ("0", Latency::Fixed(Duration::ZERO)),
            ("2s", Latency::Fixed(2000 * MS)),
            (
                "uniform:10ms, 30ms",
                Latency::Uniform {
                    low: 10 * MS,
                    high: 30 * MS,
                },
            ),
            (
                "uniform:0,0",
                Latency::Uniform {
                    low: Duration::ZERO,
                    high: Duration::ZERO,
                },
            ),
            ("lognormal:20ms,0.4", log_normal(200 * MS)),
            ("lognormal:20ms, 0.4, 2s", log_normal(2000 * MS)),
            ("pareto:5ms,1.5", pareto(5000 * MS)),
            ("pareto:5ms,1.5,10s", pareto(10_000 * MS)),
            (
                "bimodal:2ms,200ms,0.05",
                Latency::Bimodal {
                    first: 2 * MS,
                    second: 200 * MS,
                    share_of_second: 0.05,
                },
            ),
            (
                "quantiles:0=5ms,0.5=20ms, 0.99 = 100ms,1=2s",
                Latency::Quantiles(measured),
            ),
            ("1h", Latency::Fixed(MAX_HOLD)),
        ] {
            assert_eq!(given.parse(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_no_latency_is_refused_with_the_form_of_its_model() {
        for given in [
            "slow",
            "",
            "normal:1ms,2ms",
            "-5ms",
            "20",
            "uniform:10ms,30",
            "fixed:61m",
            "uniform:1ms",
            "uniform:1ms,2ms,3ms",
            "uniform:2ms,1ms",
            "lognormal:20ms",
            "lognormal:20ms,5.1",
            "lognormal:20ms,NaN",
            "lognormal:20ms,0.4,10ms",
            "lognormal:20ms,0.4,2h",
            "pareto:5ms,0",
            "pareto:5ms,inf",
            "bimodal:2ms,200ms",
            "bimodal:2ms,200ms,5",
            "drift:1s,2s",
            "drift:1s,2s,0",
            "quantiles:",
            "quantiles:0=1ms,50ms",
            "quantiles:0=1ms,0.5=2ms",
            "quantiles:0=1ms,1=2h",
            "quantiles:0=1ms",
            "quantiles:0.1=1ms,1=2ms",
            "quantiles:0=1ms,0.5=2ms,0.5=3ms,1=4ms",
            "quantiles:0=1ms,NaN=2ms,1=4ms",
            "quantiles:0=2ms,1=1ms",
        ] {
            assert!(given.parse::<Latency>().is_err(), "{given}");
        }
        let error = "drift:1s,2s".parse::<Latency>().unwrap_err().to_string();
        assert!(
            error.starts_with(
                "`drift:1s,2s` is not a valid latency: write drift:FROM,TO,IDS, as in"
            ),
            "{error}"
        );
    }

    fn points(points: &[(f64, u32)]) -> Vec<Quantile> {
        points
            .iter()
            .map(|(share, ms)| Quantile {
                share: *share,
                hold: *ms * MS,
            })
            .collect()
    }

    #[test]
    fn between_two_quantiles_the_line_is_straight() {
        let quantiles =
            Quantiles::new(&points(&[(0.0, 5), (0.5, 15), (0.75, 15), (1.0, 115)])).unwrap();
        for (share, hold_us) in [
            (0.0, 5_000),
            (0.25, 10_000),
            (0.5, 15_000),
            (0.6, 15_000),
            (0.75, 15_000),
            (0.875, 65_000),
            (1.0, 115_000),
            (-1.0, 5_000),
            (2.0, 115_000),
        ] {
            assert_eq!(
                quantiles.at(share),
                Duration::from_micros(hold_us),
                "{share}"
            );
        }
    }
}
