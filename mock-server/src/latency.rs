//! Delays: how long the target holds an answer back. The server asks [`Latency::hold`] for every item, and a client
//! may ask the same question to know what it should have measured.
//!
//! It must not sleep, and a hold must stay a pure function of (seed, id).

use crate::draw::{Draws, Stream};
use crate::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// No hold is longer: beyond an hour a delay is a typing error.
pub const MAX_HOLD: Duration = Duration::from_hours(1);

/// The longest hold of a log-normal latency, in medians, if none is given. At sigma 0.4 about one item in 10^8 reaches
/// it, at sigma 1 one in a hundred.
const DEFAULT_MAX_MEDIANS: u32 = 10;

/// The greatest sigma: at 5 the 99th percentile is already 100,000 medians.
const MAX_SIGMA: f64 = 5.0;

/// How long an answer is held back.
///
/// On the command line: `none`, `fixed:20ms` or just `20ms`, `lognormal:20ms,0.4` or `lognormal:20ms,0.4,2s` (median,
/// sigma, maximum; the maximum is ten medians if it is left out). A bare number means seconds.
///
/// Values read by [`FromStr`] are within range. Values made by hand may be anything: [`Latency::hold`] is defined for
/// all of them and never longer than [`MAX_HOLD`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Latency {
    /// At once.
    #[default]
    None,
    /// Every answer equally long.
    Fixed(Duration),
    /// Log-normally distributed, as the latencies of real services roughly are: most near the median, a long tail.
    LogNormal {
        /// Half of the holds are shorter.
        median: Duration,
        /// The standard deviation of the hold's natural logarithm, `0.0..=5.0`, without unit.
        sigma: f64,
        /// Longer holds are cut to this.
        max: Duration,
    },
}

impl Latency {
    /// How long the answer for `id` is held back, in whole microseconds; zero means that it is not held at all.
    ///
    /// For [`Latency::LogNormal`] it is `min(median * exp(sigma * z), max)` with `z = sqrt(-2 ln u1) cos(2 pi u2)`
    /// standard normal and `u1` in (0, 1], `u2` in [0, 1) drawn from (seed, id). Source: Box and Muller, "A Note on
    /// the Generation of Random Normal Deviates" (1958). The logarithm and the cosine are the platform's, so two
    /// platforms may differ in the last microsecond.
    #[must_use]
    pub fn hold(&self, seed: u64, id: u64) -> Duration {
        let hold = match *self {
            Self::None => Duration::ZERO,
            Self::Fixed(hold) => hold,
            Self::LogNormal { median, sigma, max } => {
                let mut draws = Draws::new(Stream::Hold, seed, id);
                let u1 = 1.0 - draws.unit();
                let u2 = draws.unit();
                let z = (-2.0 * u1.ln()).sqrt() * (std::f64::consts::TAU * u2).cos();
                Duration::try_from_secs_f64(median.as_secs_f64() * (sigma * z).exp()).map_or(max, |hold| hold.min(max))
            }
        };
        let hold = hold.min(MAX_HOLD);
        Duration::new(hold.as_secs(), hold.subsec_micros() * 1000)
    }
}

/// Why a latency was refused. It stands for itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LatencyError {
    /// The model is not one of the known ones.
    #[error("`{given}` is no latency: write none, fixed:20ms, lognormal:20ms,0.4 or lognormal:20ms,0.4,2s")]
    UnknownModel {
        /// What was given.
        given: String,
    },
    /// A model was given too few or too many numbers.
    #[error("`{given}` is no log-normal latency: write median,sigma or median,sigma,max as in 20ms,0.4,2s")]
    WrongParts {
        /// What was given after the model's name.
        given: String,
    },
    /// A duration is not one.
    #[error("`{given}` is no duration for the {part} of a latency ({source}): write 20ms, 1s or the like")]
    NotADuration {
        /// Which part of the latency.
        part: Part,
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: humantime::DurationError,
    },
    /// A duration is below zero.
    #[error("the {part} `{given}` is negative: write 0 or more")]
    Negative {
        /// Which part of the latency.
        part: Part,
        /// What was given.
        given: String,
    },
    /// A duration is longer than [`MAX_HOLD`].
    #[error("the {part} `{given}` is longer than an hour: write 1h or less")]
    TooLong {
        /// Which part of the latency.
        part: Part,
        /// What was given.
        given: String,
    },
    /// Sigma is not a number, or out of range.
    #[error("`{given}` is no sigma of a log-normal latency: write a number from 0 to 5, as in 0.4")]
    Sigma {
        /// What was given.
        given: String,
    },
    /// The longest hold is shorter than the median one.
    #[error("the maximum {} is below the median {}: write a maximum of at least the median", duration::text(*.max), duration::text(*.median))]
    MaxBelowMedian {
        /// The maximum given.
        max: Duration,
        /// The median given.
        median: Duration,
    },
}

/// Which duration of a latency an error speaks of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The delay of [`Latency::Fixed`].
    Delay,
    /// The median of [`Latency::LogNormal`].
    Median,
    /// The maximum of [`Latency::LogNormal`].
    Maximum,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delay => "delay",
            Self::Median => "median",
            Self::Maximum => "maximum",
        })
    }
}

impl FromStr for Latency {
    type Err = LatencyError;

    fn from_str(given: &str) -> Result<Self, LatencyError> {
        let text = given.trim();
        match text.split_once(':') {
            None if text.eq_ignore_ascii_case("none") => Ok(Self::None),
            // A plain delay starts with a digit; a minus sign is let through to be told what is wrong with it.
            None if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') => fixed(text),
            Some(("fixed", delay)) => fixed(delay),
            Some(("lognormal", parts)) => log_normal(parts),
            _ => Err(LatencyError::UnknownModel { given: given.to_owned() }),
        }
    }
}

fn fixed(delay: &str) -> Result<Latency, LatencyError> {
    Ok(Latency::Fixed(bounded(Part::Delay, delay)?))
}

fn log_normal(given: &str) -> Result<Latency, LatencyError> {
    let parts: Vec<&str> = given.split(',').map(str::trim).collect();
    let (median, sigma, max) = match parts[..] {
        [median, sigma] => (median, sigma, None),
        [median, sigma, max] => (median, sigma, Some(max)),
        _ => return Err(LatencyError::WrongParts { given: given.to_owned() }),
    };
    let median = bounded(Part::Median, median)?;
    let sigma = match sigma.parse() {
        Ok(number) if (0.0..=MAX_SIGMA).contains(&number) => number,
        _ => return Err(LatencyError::Sigma { given: sigma.to_owned() }),
    };
    let max = match max {
        Some(max) => bounded(Part::Maximum, max)?,
        None => (median * DEFAULT_MAX_MEDIANS).min(MAX_HOLD),
    };
    if max < median {
        return Err(LatencyError::MaxBelowMedian { max, median });
    }
    Ok(Latency::LogNormal { median, sigma, max })
}

fn bounded(part: Part, given: &str) -> Result<Duration, LatencyError> {
    let owned = || given.to_owned();
    if given.trim_start().starts_with('-') {
        return Err(LatencyError::Negative { part, given: owned() });
    }
    let duration =
        duration::parse(given).map_err(|source| LatencyError::NotADuration { part, given: owned(), source })?;
    if duration > MAX_HOLD {
        return Err(LatencyError::TooLong { part, given: owned() });
    }
    Ok(duration)
}

impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::None => f.write_str("none"),
            Self::Fixed(delay) => write!(f, "fixed:{}", duration::text(delay)),
            Self::LogNormal { median, sigma, max } => {
                write!(f, "lognormal:{},{sigma},{}", duration::text(median), duration::text(max))
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
    fn every_model_is_read() {
        let log_normal = |max| Latency::LogNormal { median: 20 * MS, sigma: 0.4, max };
        for (given, expected) in [
            ("none", Latency::None),
            ("fixed:20ms", Latency::Fixed(20 * MS)),
            ("20ms", Latency::Fixed(20 * MS)),
            ("0", Latency::Fixed(Duration::ZERO)),
            ("2", Latency::Fixed(2000 * MS)),
            ("lognormal:20ms,0.4", log_normal(200 * MS)),
            ("lognormal:20ms, 0.4, 2s", log_normal(2000 * MS)),
            ("1h", Latency::Fixed(MAX_HOLD)),
        ] {
            assert_eq!(given.parse(), Ok(expected), "{given}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (given, said) in [
            ("slow", "`slow` is no latency: write none,"),
            ("", "`` is no latency: write none,"),
            ("uniform:1ms,2ms", "`uniform:1ms,2ms` is no latency: write none,"),
            ("-5ms", "the delay `-5ms` is negative: write 0 or more"),
            ("fixed:61m", "the delay `61m` is longer than an hour"),
            ("fixed:20parsecs", "`20parsecs` is no duration for the delay of a latency"),
            ("lognormal:20ms", "`20ms` is no log-normal latency: write median,sigma"),
            ("lognormal:20ms,5.1", "`5.1` is no sigma"),
            ("lognormal:20ms,-0.1", "`-0.1` is no sigma"),
            ("lognormal:20ms,NaN", "`NaN` is no sigma"),
            ("lognormal:20ms,0.4,10ms", "the maximum 10ms is below the median 20ms"),
            ("lognormal:20ms,0.4,2h", "the maximum `2h` is longer"),
            ("lognormal:-20ms,0.4", "the median `-20ms` is negative"),
        ] {
            let error = given.parse::<Latency>().unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }

    #[test]
    fn a_hold_is_defined_for_any_value() {
        let odd = |sigma| Latency::LogNormal { median: Duration::MAX, sigma, max: Duration::MAX };
        for latency in [odd(f64::NAN), odd(f64::INFINITY), odd(-3.0), odd(1e300), Latency::Fixed(Duration::MAX)] {
            for id in 0..100 {
                assert!(latency.hold(1, id) <= MAX_HOLD);
            }
        }
    }

    #[test]
    fn quantiles_are_those_of_the_distribution() {
        let latency = Latency::LogNormal { median: 20 * MS, sigma: 0.4, max: MAX_HOLD };
        let mut holds: Vec<Duration> = (0..10_000).map(|id| latency.hold(3, id)).collect();
        holds.sort_unstable();
        // z of the 15.87th, 50th and 84.13th percentile is -1, 0 and 1.
        for (rank, z) in [(1587, -1.0_f64), (5000, 0.0), (8413, 1.0)] {
            let expected = 0.020 * (0.4 * z).exp();
            let found = holds[rank].as_secs_f64();
            assert!((found / expected - 1.0).abs() < 0.04, "z {z}: {found} instead of {expected}");
        }
    }

    proptest! {
        #[test]
        fn a_hold_is_pure_bounded_and_whole_microseconds(
            seed: u64, id: u64, median_us in 0_u64..1_000_000, sigma in 0.0..5.0_f64, medians in 1_u32..100,
        ) {
            let median = Duration::from_micros(median_us);
            let latency = Latency::LogNormal { median, sigma, max: median * medians };
            let hold = latency.hold(seed, id);
            prop_assert_eq!(hold, latency.hold(seed, id));
            prop_assert!(hold <= median * medians);
            prop_assert_eq!(hold.subsec_nanos() % 1000, 0);
        }

        #[test]
        fn half_of_the_holds_are_below_the_median(seed: u64, sigma in 0.05..5.0_f64) {
            let median = Duration::from_millis(50);
            let latency = Latency::LogNormal { median, sigma, max: MAX_HOLD };
            let below = (0..1000).filter(|id| latency.hold(seed, *id) < median).count();
            // 500 expected, standard deviation 16: six of them either way.
            prop_assert!((405..=595).contains(&below), "{} below", below);
        }

        #[test]
        fn what_is_written_is_read_back(
            median_us in 0_u64..1_000_000_000, sigma in 0.0..5.0_f64, more_us in 0_u64..1_000_000_000,
        ) {
            let median = Duration::from_micros(median_us);
            let max = Duration::from_micros(median_us + more_us);
            for latency in [Latency::None, Latency::Fixed(median), Latency::LogNormal { median, sigma, max }] {
                prop_assert_eq!(latency.to_string().parse(), Ok(latency));
            }
        }
    }
}
