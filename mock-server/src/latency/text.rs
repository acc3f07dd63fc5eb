//! Latencies as they are typed and written.
//!
//! It must not know what a latency does: that it reads back what it writes is all it promises.

use super::error::{LatencyError, Model, Part};
use super::quantiles::{Quantile, Quantiles};
use super::{Latency, MAX_HOLD};
use crate::duration;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// The longest hold of a log-normal latency, in medians, if none is given. At sigma 0.4 about one item in 10^8 reaches
/// it, at sigma 1 one in a hundred.
const DEFAULT_MAX_MEDIANS: u32 = 10;

/// The longest hold of a Pareto latency, in minimums, if none is given. At alpha 1.5 about one item in 30,000 reaches
/// it, at alpha 1 one in a thousand.
const DEFAULT_MAX_MINIMUMS: u32 = 1000;

/// At sigma 5 the 99th percentile is already 100,000 medians.
const SIGMAS: RangeInclusive<f64> = 0.0..=5.0;

/// At alpha 0.1 the median is 1024 minimums, at 100 it is 1.007 of them: beyond, it is either always the maximum or
/// always the minimum.
const ALPHAS: RangeInclusive<f64> = 0.1..=100.0;

impl FromStr for Latency {
    type Err = LatencyError;

    fn from_str(given: &str) -> Result<Self, LatencyError> {
        let text = given.trim();
        match text.split_once(':') {
            None if text.eq_ignore_ascii_case("none") => Ok(Self::None),
            // A plain delay starts with a digit; a minus sign is let through to be told what is wrong with it.
            None if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') => fixed(text),
            Some(("fixed", delay)) => fixed(delay),
            Some(("uniform", parts)) => uniform(parts),
            Some(("lognormal", parts)) => log_normal(parts),
            Some(("pareto", parts)) => pareto(parts),
            Some(("bimodal", parts)) => bimodal(parts),
            Some(("drift", parts)) => drift(parts),
            Some(("quantiles", parts)) => quantiles(parts),
            _ => Err(LatencyError::UnknownModel { given: given.to_owned() }),
        }
    }
}

fn fixed(delay: &str) -> Result<Latency, LatencyError> {
    Ok(Latency::Fixed(bounded(Part::Delay, delay)?))
}

fn uniform(given: &str) -> Result<Latency, LatencyError> {
    let [low, high] = parts(given)[..] else { return Err(wrong(Model::Uniform, given)) };
    let low = bounded(Part::LowEnd, low)?;
    let high = bounded(Part::HighEnd, high)?;
    in_order((Part::LowEnd, low), (Part::HighEnd, high))?;
    Ok(Latency::Uniform { low, high })
}

fn log_normal(given: &str) -> Result<Latency, LatencyError> {
    let (median, sigma, max) = match parts(given)[..] {
        [median, sigma] => (median, sigma, None),
        [median, sigma, max] => (median, sigma, Some(max)),
        _ => return Err(wrong(Model::LogNormal, given)),
    };
    let median = bounded(Part::Median, median)?;
    let sigma = number(sigma, SIGMAS).ok_or_else(|| LatencyError::Sigma { given: sigma.to_owned() })?;
    let max = match max {
        Some(max) => bounded(Part::Maximum, max)?,
        None => median.saturating_mul(DEFAULT_MAX_MEDIANS).min(MAX_HOLD),
    };
    in_order((Part::Median, median), (Part::Maximum, max))?;
    Ok(Latency::LogNormal { median, sigma, max })
}

fn pareto(given: &str) -> Result<Latency, LatencyError> {
    let (min, alpha, max) = match parts(given)[..] {
        [min, alpha] => (min, alpha, None),
        [min, alpha, max] => (min, alpha, Some(max)),
        _ => return Err(wrong(Model::Pareto, given)),
    };
    let min = bounded(Part::Minimum, min)?;
    let alpha = number(alpha, ALPHAS).ok_or_else(|| LatencyError::Alpha { given: alpha.to_owned() })?;
    let max = match max {
        Some(max) => bounded(Part::Maximum, max)?,
        None => min.saturating_mul(DEFAULT_MAX_MINIMUMS).min(MAX_HOLD),
    };
    in_order((Part::Minimum, min), (Part::Maximum, max))?;
    Ok(Latency::Pareto { min, alpha, max })
}

fn bimodal(given: &str) -> Result<Latency, LatencyError> {
    let [first, second, share] = parts(given)[..] else { return Err(wrong(Model::Bimodal, given)) };
    Ok(Latency::Bimodal {
        first: bounded(Part::FirstMode, first)?,
        second: bounded(Part::SecondMode, second)?,
        share_of_second: share_of_items(share)?,
    })
}

fn drift(given: &str) -> Result<Latency, LatencyError> {
    let [from, to, over] = parts(given)[..] else { return Err(wrong(Model::Drift, given)) };
    let ids = || over.parse().ok().filter(|ids| *ids > 0);
    Ok(Latency::Drift {
        from: bounded(Part::Start, from)?,
        to: bounded(Part::End, to)?,
        over: ids().ok_or_else(|| LatencyError::Ids { given: over.to_owned() })?,
    })
}

fn quantiles(given: &str) -> Result<Latency, LatencyError> {
    let points: Vec<Quantile> = parts(given)
        .into_iter()
        .map(|pair| {
            let (share, hold) = pair.split_once('=').ok_or_else(|| wrong(Model::Quantiles, given))?;
            Ok(Quantile { share: share_of_items(share.trim())?, hold: bounded(Part::Quantile, hold.trim())? })
        })
        .collect::<Result<_, _>>()?;
    Quantiles::new(&points).map(Latency::Quantiles)
}

fn parts(given: &str) -> Vec<&str> {
    given.split(',').map(str::trim).collect()
}

fn wrong(model: Model, given: &str) -> LatencyError {
    LatencyError::WrongParts { model, given: given.to_owned() }
}

fn number(given: &str, range: RangeInclusive<f64>) -> Option<f64> {
    given.parse().ok().filter(|number| range.contains(number))
}

fn share_of_items(given: &str) -> Result<f64, LatencyError> {
    number(given, 0.0..=1.0).ok_or_else(|| LatencyError::Share { given: given.to_owned() })
}

fn in_order((lower, below): (Part, Duration), (upper, above): (Part, Duration)) -> Result<(), LatencyError> {
    if above < below { Err(LatencyError::OutOfOrder { upper, above, lower, below }) } else { Ok(()) }
}

/// Reads a duration of 0 to [`MAX_HOLD`].
pub(super) fn bounded(part: Part, given: &str) -> Result<Duration, LatencyError> {
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
        let text = |hold: &Duration| duration::text(*hold);
        match self {
            Self::None => f.write_str("none"),
            Self::Fixed(delay) => write!(f, "fixed:{}", text(delay)),
            Self::Uniform { low, high } => write!(f, "uniform:{},{}", text(low), text(high)),
            Self::LogNormal { median, sigma, max } => write!(f, "lognormal:{},{sigma},{}", text(median), text(max)),
            Self::Pareto { min, alpha, max } => write!(f, "pareto:{},{alpha},{}", text(min), text(max)),
            Self::Bimodal { first, second, share_of_second } => {
                write!(f, "bimodal:{},{},{share_of_second}", text(first), text(second))
            }
            Self::Drift { from, to, over } => write!(f, "drift:{},{},{over}", text(from), text(to)),
            Self::Quantiles(quantiles) => {
                f.write_str("quantiles:")?;
                for (position, Quantile { share, hold }) in quantiles.points().iter().enumerate() {
                    let comma = if position == 0 { "" } else { "," };
                    write!(f, "{comma}{share}={}", text(hold))?;
                }
                Ok(())
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
        let pareto = |max| Latency::Pareto { min: 5 * MS, alpha: 1.5, max };
        let point = |share, ms| Quantile { share, hold: ms * MS };
        let measured = Quantiles::new(&[point(0.0, 5), point(0.5, 20), point(0.99, 100), point(1.0, 2000)]).unwrap();
        for (given, expected) in [
            ("none", Latency::None),
            ("fixed:20ms", Latency::Fixed(20 * MS)),
            ("20ms", Latency::Fixed(20 * MS)),
            ("0", Latency::Fixed(Duration::ZERO)),
            ("2", Latency::Fixed(2000 * MS)),
            ("uniform:10ms, 30ms", Latency::Uniform { low: 10 * MS, high: 30 * MS }),
            ("uniform:0,0", Latency::Uniform { low: Duration::ZERO, high: Duration::ZERO }),
            ("lognormal:20ms,0.4", log_normal(200 * MS)),
            ("lognormal:20ms, 0.4, 2s", log_normal(2000 * MS)),
            ("pareto:5ms,1.5", pareto(5000 * MS)),
            ("pareto:5ms,1.5,10s", pareto(10_000 * MS)),
            ("bimodal:2ms,200ms,0.05", Latency::Bimodal { first: 2 * MS, second: 200 * MS, share_of_second: 0.05 }),
            ("quantiles:0=5ms,0.5=20ms, 0.99 = 100ms,1=2s", Latency::Quantiles(measured)),
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
            ("normal:1ms,2ms", "`normal:1ms,2ms` is no latency: write none,"),
            ("-5ms", "the delay `-5ms` is negative: write 0 or more"),
            ("fixed:61m", "the delay `61m` is longer than an hour"),
            ("fixed:20parsecs", "`20parsecs` is not a duration for the delay of a latency"),
            ("uniform:1ms", "`1ms` is no uniform latency: write low,high as in 10ms,30ms"),
            ("uniform:1ms,2ms,3ms", "`1ms,2ms,3ms` is no uniform latency: write low,high"),
            ("uniform:2ms,1ms", "the high end 1ms is below the low end 2ms: write a high end of at least the low end"),
            ("lognormal:20ms", "`20ms` is no log-normal latency: write median,sigma or median,sigma,max"),
            ("lognormal:20ms,5.1", "`5.1` is no sigma"),
            ("lognormal:20ms,-0.1", "`-0.1` is no sigma"),
            ("lognormal:20ms,NaN", "`NaN` is no sigma"),
            ("lognormal:20ms,0.4,10ms", "the maximum 10ms is below the median 20ms: write a maximum of at least the"),
            ("lognormal:20ms,0.4,2h", "the maximum `2h` is longer"),
            ("lognormal:-20ms,0.4", "the median `-20ms` is negative"),
            ("pareto:5ms", "`5ms` is no Pareto latency: write min,alpha or min,alpha,max"),
            ("pareto:5ms,0", "`0` is no alpha of a Pareto latency: write a number from 0.1 to 100"),
            ("pareto:5ms,inf", "`inf` is no alpha"),
            ("pareto:5ms,1.5,4ms", "the maximum 4ms is below the minimum 5ms"),
            ("bimodal:2ms,200ms", "`2ms,200ms` is no bimodal latency: write first,second,share"),
            ("bimodal:2ms,200ms,5", "`5` is no share of the items: write a number from 0 to 1"),
            ("bimodal:2ms,2h,0.5", "the second mode `2h` is longer"),
            ("drift:1s,2s", "`1s,2s` is no drift latency: write from,to,ids as in 500ms,30s,1200"),
            ("drift:1s,2s,0", "`0` is no number of ids for a drift: write a whole number of at least 1"),
            ("drift:1s,2h,5", "the end `2h` is longer"),
            ("quantiles:", "`` is no quantiles latency: write share=hold pairs"),
            ("quantiles:0=1ms,50ms", "`0=1ms,50ms` is no quantiles latency: write share=hold pairs"),
            ("quantiles:0=1ms,p50=2ms", "`p50` is no share of the items"),
            ("quantiles:0=1ms,0.5=2ms", "the quantiles go from 0 to 0.5: write the shortest hold as 0=.. and"),
            ("quantiles:0.5=1ms,1=2ms", "the quantiles go from 0.5 to 1"),
            ("quantiles:0=1ms,0.9=2ms,0.5=3ms,1=4ms", "the quantile 0.5 comes after 0.9: write each share once"),
            ("quantiles:0=1ms,0.5=3ms,1=2ms", "the quantile 1 is 2ms, shorter than the quantile 0.5: write holds"),
            ("quantiles:0=1ms,1=2h", "the quantile `2h` is longer"),
        ] {
            let error = given.parse::<Latency>().unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }

    proptest! {
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
}
