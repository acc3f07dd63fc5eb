//! Delays of a stub's answer: a fixed one plus one sample of a distribution, each of which falls
//! back to the server's settings on its own. `reply` reads it from stubs, the server from its
//! settings.
//!
//! It must not wait, and what it draws must stay a function of the given draws.
//!
//! Source: `Response.Builder.configureDelay`, `LogNormal`, `UniformDistribution` of WireMock 3.13.

use super::fields::{hold, milliseconds, required, whole};
use crate::draw::Draws;
use crate::latency::MAX_HOLD;
use crate::stubs::node::{Node, Problem};
use serde_json::{Map, Value, json};
use std::time::Duration;

/// The delays of one stub, or of the settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delays {
    /// `fixedDelayMilliseconds` of a stub, `fixedDelay` of the settings.
    pub(crate) fixed: Option<Duration>,
    /// `delayDistribution`.
    pub(crate) random: Option<DelayDistribution>,
}

/// Delays as the settings of the server: `{"fixedDelay":500,"delayDistribution":{…}}`.
pub(crate) type Settings = Delays;

impl Delays {
    /// Reads the settings. `extended` and `proxyPassThrough`, which are about things that are not
    /// served here, may be there and say nothing.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only("fixedDelay delayDistribution extended proxyPassThrough")?;
        Self::under(node, "fixedDelay")
    }

    /// The two delays among the fields of a stub's answer.
    pub(super) fn of_stub(node: &Node<'_>) -> Result<Self, Problem> {
        Self::under(node, "fixedDelayMilliseconds")
    }

    fn under(node: &Node<'_>, fixed: &str) -> Result<Self, Problem> {
        Ok(Self {
            fixed: node
                .get(fixed)
                .map(|fixed| milliseconds(&fixed))
                .transpose()?,
            random: node
                .get("delayDistribution")
                .map(|random| DelayDistribution::read(&random))
                .transpose()?,
        })
    }

    /// The settings as JSON; what is not set is left out.
    pub(crate) fn to_json(self) -> Value {
        let mut fields = Map::new();
        if let Some(fixed) = self.fixed {
            fields.insert("fixedDelay".to_owned(), json!(whole_ms(fixed)));
        }
        if let Some(random) = self.random {
            fields.insert("delayDistribution".to_owned(), random.to_json());
        }
        Value::Object(fields)
    }

    /// Return how long an answer is held: both parts together, each from `settings` if it is not
    /// set here. At most two [`MAX_HOLD`]. Draws are asked for only where there is a distribution.
    pub(crate) fn hold(&self, settings: &Settings, draws: impl FnOnce() -> Draws) -> Duration {
        let fixed = self.fixed.or(settings.fixed).unwrap_or_default();
        fixed
            + self
                .random
                .or(settings.random)
                .map_or(Duration::ZERO, |random| random.sample(&mut draws()))
    }
}

/// A distribution of delays.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum DelayDistribution {
    /// Log-normal: half of the samples are below the median.
    LogNormal {
        /// In milliseconds.
        median: f64,
        /// The standard deviation of the logarithm.
        sigma: f64,
        /// In milliseconds; what is above it is drawn again, ten times at most, and then cut.
        max: Option<f64>,
    },
    /// Whole milliseconds, both ends included.
    Uniform {
        /// In milliseconds.
        lower: u32,
        /// In milliseconds, at least `lower`.
        upper: u32,
    },
    /// Always the same.
    Fixed(Duration),
}

/// Most times that a log-normal sample above its maximum is drawn again.
const REDRAWS: usize = 10;

impl DelayDistribution {
    /// Reads `{"type":"lognormal","median":80,"sigma":0.4,"maxValue":2000}`,
    /// `{"type":"uniform","lower":50,"upper":60}` or `{"type":"fixed","milliseconds":100}`. Numbers
    /// that are left out are refused: WireMock takes 0 for them.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        let kind = node.fields().and_then(|_| required(node, "type"))?;
        match kind.text()? {
            "lognormal" => Self::log_normal(node),
            "uniform" => {
                node.only("type lower upper")?;
                let end = |name| {
                    required(node, name)
                        .and_then(|end| hold(&end, f64::from(whole(&end)?)).and(whole(&end)))
                };
                let (lower, upper) = (end("lower")?, end("upper")?);
                if lower > upper {
                    return Err(node.malformed(format!(
                        "the lower end {lower} is above the upper end {upper}"
                    )));
                }
                // Neither is negative.
                Ok(Self::Uniform {
                    lower: lower.unsigned_abs(),
                    upper: upper.unsigned_abs(),
                })
            }
            "fixed" => {
                node.only("type milliseconds")?;
                milliseconds(&required(node, "milliseconds")?).map(Self::Fixed)
            }
            other => Err(kind.malformed(format!(
                "`{other}` is not a valid distribution of delays: write lognormal, uniform or fixed"
            ))),
        }
    }

    fn log_normal(node: &Node<'_>) -> Result<Self, Problem> {
        node.only("type median sigma maxValue")?;
        let median = required(node, "median")?;
        let median = hold(&median, median.number()?)?;
        let sigma_at = required(node, "sigma")?;
        let sigma = sigma_at.number()?;
        if !(0.0..=f64::MAX).contains(&sigma) {
            return Err(
                sigma_at.malformed(format!("`{sigma}` is not a valid sigma: write 0 or more"))
            );
        }
        let max_at = node.get("maxValue");
        let max = max_at
            .as_ref()
            .map(|max| hold(max, max.number()?))
            .transpose()?;
        match (max_at, max) {
            (Some(at), Some(max)) if max < median => {
                Err(at.malformed(format!("the maximum {max} is below the median {median}")))
            }
            _ => Ok(Self::LogNormal { median, sigma, max }),
        }
    }

    /// Format the distribution as JSON.
    pub(crate) fn to_json(self) -> Value {
        match self {
            Self::LogNormal {
                median,
                sigma,
                max: None,
            } => {
                json!({"type": "lognormal", "median": median, "sigma": sigma})
            }
            Self::LogNormal {
                median,
                sigma,
                max: Some(max),
            } => {
                json!({"type": "lognormal", "median": median, "sigma": sigma, "maxValue": max})
            }
            Self::Uniform { lower, upper } => {
                json!({"type": "uniform", "lower": lower, "upper": upper})
            }
            Self::Fixed(always) => json!({"type": "fixed", "milliseconds": whole_ms(always)}),
        }
    }

    /// One delay in whole milliseconds, at most [`MAX_HOLD`].
    ///
    /// [`DelayDistribution::LogNormal`] is `round(median exp(sigma z))` with `z` standard normal
    /// (Box and Muller, 1958); [`DelayDistribution::Uniform`] is
    /// `lower + floor(u (upper - lower + 1))` with `u` uniform in [0, 1).
    pub(crate) fn sample(&self, draws: &mut Draws) -> Duration {
        let milliseconds = match *self {
            Self::Fixed(always) => return always,
            Self::Uniform { lower, upper } => {
                let choices = u64::from(upper.saturating_sub(lower)) + 1;
                // The high half of a product of two 64-bit numbers, one of which is below 2^33.
                let choice = (u128::from(draws.word()) * u128::from(choices)) >> u64::BITS;
                return Duration::from_millis(
                    u64::from(lower) + u64::try_from(choice).unwrap_or_default(),
                );
            }
            Self::LogNormal { median, sigma, max } => {
                let most = max.unwrap_or(f64::INFINITY);
                let mut sample = log_normal(median, sigma, draws);
                for _ in 0..REDRAWS {
                    if sample <= most {
                        break;
                    }
                    sample = log_normal(median, sigma, draws);
                }
                rounded(sample.min(most))
            }
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "whole, and clamped to an hour"
        )]
        let whole = milliseconds.clamp(0.0, whole_ms(MAX_HOLD) as f64) as u64;
        Duration::from_millis(whole)
    }
}

fn log_normal(median: f64, sigma: f64, draws: &mut Draws) -> f64 {
    let u1 = 1.0 - draws.unit();
    let u2 = draws.unit();
    let z = (-2.0 * u1.ln()).sqrt() * (std::f64::consts::TAU * u2).cos();
    rounded((z * sigma).exp() * median)
}

/// Java's `Math.round`: halves go up, and what is no number (an infinite multiple of 0) is 0.
fn rounded(number: f64) -> f64 {
    if number.is_nan() {
        0.0
    } else {
        (number + 0.5).floor()
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Stream;
    use proptest::prelude::*;

    fn draws(seed: u64, id: u64) -> Draws {
        Draws::new(Stream::Hold, seed, id)
    }

    fn read(document: &Value) -> Result<DelayDistribution, String> {
        DelayDistribution::read(&Node::root(document)).map_err(|problem| problem.to_string())
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (document, expected) in [
            (
                json!("fixed"),
                "the whole document: expected an object, found a text",
            ),
            (json!({}), "the whole document: the field type is missing"),
            (
                json!({"type": "normal"}),
                "/type: `normal` is not a valid distribution of delays: write lognormal, uniform or fixed",
            ),
            (
                json!({"type": "fixed"}),
                "the whole document: the field milliseconds is missing",
            ),
            (
                json!({"type": "fixed", "ms": 1}),
                "/ms: unknown field `ms`; known here: type, milliseconds",
            ),
            (
                json!({"type": "fixed", "milliseconds": 3_600_001}),
                "/milliseconds: a delay of 3600001 ms is longer than an hour: write 3600000 or less",
            ),
            (
                json!({"type": "uniform", "lower": -1, "upper": 6}),
                "/lower: a delay of -1 ms is negative: write 0 or more",
            ),
            (
                json!({"type": "uniform", "lower": 7, "upper": 6}),
                "the whole document: the lower end 7 is above the upper end 6",
            ),
            (
                json!({"type": "lognormal", "median": 80}),
                "the whole document: the field sigma is missing",
            ),
            (
                json!({"type": "lognormal", "median": 80, "sigma": -0.1}),
                "/sigma: `-0.1` is not a valid sigma: write 0 or more",
            ),
            (
                json!({"type": "lognormal", "median": 80, "sigma": 0.1, "maxValue": 79}),
                "/maxValue: the maximum 79 is below the median 80",
            ),
            (
                json!({"type": "lognormal", "median": 80, "sigma": 0.1, "maxValue": 1e9}),
                "/maxValue: a delay of 1000000000 ms is longer than an hour: write 3600000 or less",
            ),
        ] {
            assert_eq!(read(&document), Err(expected.to_owned()));
        }
        let settings = json!({"fixedDelay": -3});
        let problem = Settings::read(&Node::root(&settings)).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "/fixedDelay: a delay of -3 ms is negative: write 0 or more"
        );
    }

    #[test]
    fn settings_are_read_and_written_back() {
        for document in [
            json!({}),
            json!({"fixedDelay": 500}),
            json!({"delayDistribution": {"type": "lognormal", "median": 80.0, "sigma": 0.4, "maxValue": 2000.0}}),
            json!({"delayDistribution": {"type": "lognormal", "median": 80.5, "sigma": 0.4}}),
            json!({"fixedDelay": 1, "delayDistribution": {"type": "uniform", "lower": 50, "upper": 60}}),
            json!({"delayDistribution": {"type": "fixed", "milliseconds": 100}}),
        ] {
            assert_eq!(
                Settings::read(&Node::root(&document)).unwrap().to_json(),
                document
            );
        }
        let nulls = json!({"fixedDelay": null, "delayDistribution": null, "extended": {"a": 1}, "proxyPassThrough": true});
        assert_eq!(Settings::read(&Node::root(&nulls)), Ok(Settings::default()));
    }

    #[test]
    fn both_delays_add_up_and_fall_back_each_on_its_own() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let always = |ms| Some(DelayDistribution::Fixed(Duration::from_millis(ms)));
        let none = Delays::default();
        let both = Delays {
            fixed: ms(1),
            random: always(20),
        };
        for (own, settings, expected) in [
            (none, none, 0),
            (both, none, 21),
            (none, both, 21),
            (
                Delays {
                    fixed: ms(300),
                    random: None,
                },
                both,
                320,
            ),
            (
                Delays {
                    fixed: None,
                    random: always(4000),
                },
                both,
                4001,
            ),
            (
                Delays {
                    fixed: ms(0),
                    random: always(0),
                },
                both,
                0,
            ),
        ] {
            assert_eq!(
                own.hold(&settings, || draws(1, 1)),
                Duration::from_millis(expected)
            );
        }
    }

    #[test]
    fn a_log_normal_delay_is_cut_only_where_redrawing_did_not_help() {
        let half = DelayDistribution::LogNormal {
            median: 100.0,
            sigma: 1.0,
            max: Some(100.0),
        };
        let at_most = (0..2000)
            .filter(|id| half.sample(&mut draws(3, *id)) == Duration::from_millis(100))
            .count();
        // Cutting alone would put half of them there; after ten redraws one in 2,000 is cut, and a
        // few round to it.
        assert!(at_most < 40, "{at_most}");
        let never = DelayDistribution::LogNormal {
            median: 100.4,
            sigma: 0.0,
            max: Some(100.4),
        };
        assert_eq!(never.sample(&mut draws(1, 1)), Duration::from_millis(100));
        for sigma in [1e3, f64::MAX] {
            let wild = DelayDistribution::LogNormal {
                median: 1.0,
                sigma,
                max: None,
            };
            assert!((0..100).all(|id| wild.sample(&mut draws(1, id)) <= MAX_HOLD));
        }
    }

    #[test]
    fn uniform_delays_reach_both_ends_equally_often() {
        let uniform = DelayDistribution::Uniform { lower: 3, upper: 5 };
        let mut counts = [0_u32; 8];
        for id in 0..9000 {
            counts[usize::try_from(uniform.sample(&mut draws(4, id)).as_millis()).unwrap()] += 1;
        }
        // 3,000 expected in each of three, standard deviation 45: six of them either way.
        assert!(
            counts[3..6]
                .iter()
                .all(|count| (2730..=3270).contains(count)),
            "{counts:?}"
        );
        assert_eq!(counts.iter().sum::<u32>(), counts[3..6].iter().sum::<u32>());
    }

    proptest! {
        #[test]
        fn samples_are_pure_bounded_and_whole(seed: u64, lower in 0_u32..3_600_000, more in 0_u32..1000, sigma in 0.0..9.0_f64) {
            let upper = (lower + more).min(3_600_000);
            let (low, high) = (f64::from(lower), f64::from(upper));
            for (delays, least) in [
                (DelayDistribution::Uniform { lower, upper }, lower),
                (DelayDistribution::LogNormal { median: low, sigma, max: Some(high) }, 0),
                (DelayDistribution::Fixed(Duration::from_millis(lower.into())), lower),
            ] {
                let sample = delays.sample(&mut draws(seed, 1));
                prop_assert_eq!(sample, delays.sample(&mut draws(seed, 1)));
                prop_assert_eq!(sample.subsec_nanos() % 1_000_000, 0);
                prop_assert!((u128::from(least)..=u128::from(upper)).contains(&sample.as_millis()), "{:?}: {:?}", delays, sample);
            }
        }

        #[test]
        fn half_of_the_log_normal_delays_are_below_the_median(seed: u64, sigma in 0.1..3.0_f64) {
            let delays = DelayDistribution::LogNormal { median: 5000.0, sigma, max: None };
            let below = (0..1000).filter(|id| delays.sample(&mut draws(seed, *id)) < Duration::from_secs(5)).count();
            // 500 expected, standard deviation 16: six of them either way.
            prop_assert!((405..=595).contains(&below), "{} below", below);
        }
    }
}
