//! Latencies as text: parse what is typed, and format it in its shortest form.

use super::quantiles::{Quantile, Quantiles};
use super::{Latency, MAX_HOLD};
use crate::setting::{SettingError, duration_text, parse_duration};
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// Longest hold of a log-normal latency, in medians, if none is given. At sigma 0.4 about one item
/// in 10^8 reaches it, at sigma 1 one in a hundred.
const DEFAULT_MAX_MEDIANS: u32 = 10;

/// Longest hold of a Pareto latency, in minimums, if none is given. At alpha 1.5 about one item in
/// 30,000 reaches it, at alpha 1 one in a thousand.
const DEFAULT_MAX_MINIMUMS: u32 = 1000;

/// At sigma 5 the 99th percentile is already 100,000 medians.
const SIGMAS: RangeInclusive<f64> = 0.0..=5.0;

/// At alpha 0.1 the median is 1024 minimums, at 100 it is 1.007 of them: beyond, it is either
/// always the maximum or always the minimum.
const ALPHAS: RangeInclusive<f64> = 0.1..=100.0;

/// Models with several numbers: as typed, as named in messages, and the numbers.
const SHAPES: [(&str, &str, &str); 6] = [
    ("uniform", "uniform", "low,high as in 10ms,30ms"),
    (
        "lognormal",
        "log-normal",
        "median,sigma or median,sigma,max as in 20ms,0.4,2s",
    ),
    (
        "pareto",
        "Pareto",
        "min,alpha or min,alpha,max as in 5ms,1.5,10s",
    ),
    (
        "bimodal",
        "bimodal",
        "first,second,share of the second as in 2ms,200ms,0.05",
    ),
    ("drift", "drift", "from,to,ids as in 500ms,30s,1200"),
    (
        "quantiles",
        "quantiles",
        "share=hold pairs from 0 to 1 as in 0=5ms,0.5=20ms,1=2s",
    ),
];

impl FromStr for Latency {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let text = given.trim();
        let (model, rest) = match text.split_once(':') {
            Some(named) => named,
            None if text.eq_ignore_ascii_case("none") => return Ok(Self::None),
            // A minus sign is let through, so that the message can say what is wrong with it.
            None if text.starts_with(|first: char| first.is_ascii_digit() || first == '-') => {
                ("fixed", text)
            }
            None => ("", text),
        };
        let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        Ok(match (model, parts.as_slice()) {
            ("fixed", _) => Self::Fixed(parse_hold("delay", rest)?),
            ("uniform", &[low, high]) => {
                let low = parse_hold("low end", low)?;
                Self::Uniform {
                    low,
                    high: parse_not_below("high end", high, ("low end", low))?,
                }
            }
            ("lognormal", &[median, sigma, ref max @ ..]) if max.len() < 2 => {
                let median = parse_hold("median", median)?;
                let sigma = parse_number(
                    sigma,
                    SIGMAS,
                    "sigma of a log-normal latency: write a number from 0 to 5, as in 0.4",
                )?;
                let max = parse_max(max, ("median", median), DEFAULT_MAX_MEDIANS)?;
                Self::LogNormal { median, sigma, max }
            }
            ("pareto", &[min, alpha, ref max @ ..]) if max.len() < 2 => {
                let min = parse_hold("minimum", min)?;
                let alpha = parse_number(
                    alpha,
                    ALPHAS,
                    "alpha of a Pareto latency: write a number from 0.1 to 100, as in 1.5",
                )?;
                Self::Pareto {
                    min,
                    alpha,
                    max: parse_max(max, ("minimum", min), DEFAULT_MAX_MINIMUMS)?,
                }
            }
            ("bimodal", &[first, second, share]) => Self::Bimodal {
                first: parse_hold("first mode", first)?,
                second: parse_hold("second mode", second)?,
                share_of_second: parse_share(share)?,
            },
            ("drift", &[from, to, over]) => Self::Drift {
                from: parse_hold("start", from)?,
                to: parse_hold("end", to)?,
                over: over.parse().ok().filter(|ids| *ids > 0).ok_or_else(|| {
                    let right = "write a whole number of at least 1, as in 1200";
                    SettingError::new(format!(
                        "`{over}` is not a valid number of ids for a drift: {right}"
                    ))
                })?,
            },
            ("quantiles", pairs) if pairs.iter().all(|pair| pair.contains('=')) => {
                let pairs = pairs.iter().filter_map(|pair| pair.split_once('='));
                let points = pairs.map(|(share, hold)| {
                    Ok(Quantile {
                        share: parse_share(share.trim())?,
                        hold: parse_hold("quantile", hold.trim())?,
                    })
                });
                Self::Quantiles(Quantiles::new(&points.collect::<Result<Vec<_>, _>>()?)?)
            }
            _ => return Err(wrong_shape(given, model, rest)),
        })
    }
}

fn wrong_shape(given: &str, model: &str, rest: &str) -> SettingError {
    SettingError::new(match SHAPES.iter().find(|(name, ..)| *name == model) {
        Some((_, model, shape)) => {
            format!("`{rest}` is not a valid {model} latency: write {shape}")
        }
        None => format!(
            "`{given}` is not a valid latency: write none, fixed:20ms, uniform:10ms,30ms, lognormal:20ms,0.4, pareto:5ms,1.5, \
             bimodal:2ms,200ms,0.05, drift:500ms,30s,1200 or quantiles:0=5ms,0.5=20ms,1=2s"
        ),
    })
}

fn parse_number(given: &str, range: RangeInclusive<f64>, right: &str) -> Result<f64, SettingError> {
    let number = given.parse().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| SettingError::new(format!("`{given}` is not a valid {right}")))
}

fn parse_share(given: &str) -> Result<f64, SettingError> {
    parse_number(
        given,
        0.0..=1.0,
        "share of the items: write a number from 0 to 1, as in 0.05 for 5 %",
    )
}

/// Parse a duration of 0 to [`MAX_HOLD`]; `part` names it in messages.
pub(super) fn parse_hold(part: &str, given: &str) -> Result<Duration, SettingError> {
    if given.trim_start().starts_with('-') {
        return Err(SettingError::new(format!(
            "the {part} `{given}` is negative: write 0 or more"
        )));
    }
    match parse_duration(given) {
        // Other tools take it for milliseconds.
        Some(duration)
            if !duration.is_zero()
                && given.trim().ends_with(|last: char| last.is_ascii_digit()) =>
        {
            Err(SettingError::new(format!(
                "the {part} `{given}` has no unit: write {given}ms or {given}s"
            )))
        }
        Some(duration) if duration <= MAX_HOLD => Ok(duration),
        Some(_) => Err(SettingError::new(format!(
            "the {part} `{given}` is longer than an hour: write 1h or less"
        ))),
        None => {
            let what = format!(
                "`{given}` is not a duration for the {part} of a latency: write 20ms, 1s or the like"
            );
            Err(SettingError::new(what))
        }
    }
}

fn parse_not_below(
    upper: &str,
    given: &str,
    (lower, least): (&str, Duration),
) -> Result<Duration, SettingError> {
    let hold = parse_hold(upper, given)?;
    if hold >= least {
        return Ok(hold);
    }
    let (hold, least) = (duration_text(hold), duration_text(least));
    let what = format!(
        "the {upper} {hold} is below the {lower} {least}: write a {upper} of at least the {lower}"
    );
    Err(SettingError::new(what))
}

/// Parse a maximum, or return `default` times the least if none is given.
fn parse_max(
    given: &[&str],
    least: (&str, Duration),
    default: u32,
) -> Result<Duration, SettingError> {
    match given.first() {
        Some(max) => parse_not_below("maximum", max, least),
        None => Ok(least.1.saturating_mul(default).min(MAX_HOLD)),
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
                let points = quantiles.points().iter();
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
    fn what_is_wrong_is_said() {
        for (given, said) in [
            ("slow", "`slow` is not a valid latency: write none,"),
            ("", "`` is not a valid latency: write none,"),
            (
                "normal:1ms,2ms",
                "`normal:1ms,2ms` is not a valid latency: write none,",
            ),
            ("-5ms", "the delay `-5ms` is negative: write 0 or more"),
            ("20", "the delay `20` has no unit: write 20ms or 20s"),
            ("uniform:10ms,30", "the high end `30` has no unit"),
            ("fixed:61m", "the delay `61m` is longer than an hour"),
            (
                "fixed:20parsecs",
                "`20parsecs` is not a duration for the delay of a latency",
            ),
            (
                "uniform:1ms",
                "`1ms` is not a valid uniform latency: write low,high as in 10ms,30ms",
            ),
            (
                "uniform:1ms,2ms,3ms",
                "`1ms,2ms,3ms` is not a valid uniform latency: write low,high",
            ),
            (
                "uniform:2ms,1ms",
                "the high end 1ms is below the low end 2ms: write a high end of at least the low end",
            ),
            (
                "lognormal:20ms",
                "`20ms` is not a valid log-normal latency: write median,sigma or median,sigma,max",
            ),
            ("lognormal:20ms,5.1", "`5.1` is not a valid sigma"),
            ("lognormal:20ms,-0.1", "`-0.1` is not a valid sigma"),
            ("lognormal:20ms,NaN", "`NaN` is not a valid sigma"),
            (
                "lognormal:20ms,0.4,10ms",
                "the maximum 10ms is below the median 20ms: write a maximum of at least the",
            ),
            ("lognormal:20ms,0.4,2h", "the maximum `2h` is longer"),
            ("lognormal:-20ms,0.4", "the median `-20ms` is negative"),
            (
                "pareto:5ms",
                "`5ms` is not a valid Pareto latency: write min,alpha or min,alpha,max",
            ),
            (
                "pareto:5ms,0",
                "`0` is not a valid alpha of a Pareto latency: write a number from 0.1 to 100",
            ),
            ("pareto:5ms,inf", "`inf` is not a valid alpha"),
            (
                "pareto:5ms,1.5,4ms",
                "the maximum 4ms is below the minimum 5ms",
            ),
            (
                "bimodal:2ms,200ms",
                "`2ms,200ms` is not a valid bimodal latency: write first,second,share",
            ),
            (
                "bimodal:2ms,200ms,5",
                "`5` is not a valid share of the items: write a number from 0 to 1",
            ),
            ("bimodal:2ms,2h,0.5", "the second mode `2h` is longer"),
            (
                "drift:1s,2s",
                "`1s,2s` is not a valid drift latency: write from,to,ids as in 500ms,30s,1200",
            ),
            (
                "drift:1s,2s,0",
                "`0` is not a valid number of ids for a drift: write a whole number of at least 1",
            ),
            ("drift:1s,2h,5", "the end `2h` is longer"),
            (
                "quantiles:",
                "`` is not a valid quantiles latency: write share=hold pairs",
            ),
            (
                "quantiles:0=1ms,50ms",
                "`0=1ms,50ms` is not a valid quantiles latency: write share=hold pairs",
            ),
            (
                "quantiles:0=1ms,p50=2ms",
                "`p50` is not a valid share of the items",
            ),
            (
                "quantiles:0=1ms,0.5=2ms",
                "the quantiles go from 0 to 0.5: write the shortest hold as 0=.. and",
            ),
            ("quantiles:0.5=1ms,1=2ms", "the quantiles go from 0.5 to 1"),
            (
                "quantiles:0=1ms,0.9=2ms,0.5=3ms,1=4ms",
                "the quantile 0.5 comes after 0.9: write each share once",
            ),
            (
                "quantiles:0=1ms,0.5=3ms,1=2ms",
                "the quantile 1 is 2ms, shorter than the quantile 0.5: write holds",
            ),
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
