//! Delays of a stub's answer: a fixed one plus one sample of a distribution, each of which falls
//! back to the server's settings on its own; and the pieces that a body comes in. `reply` reads
//! them from stubs, the server delays from its settings.
//!
//! It must not wait, and what it draws must stay a function of the given draws.
//!
//! Source: `Response.Builder.configureDelay`, `LogNormal`, `UniformDistribution`,
//! `ChunkedDribbleDelay` of WireMock 3.13.

use crate::draw::Draws;
use crate::stubs::node::{Node, Problem};
use crate::text::MAX_HOLD;
use std::num::NonZeroUsize;
use std::ops::Range;
use std::time::Duration;

/// The delays of one stub, or of the settings of the server:
/// `{"fixedDelay":500,"delayDistribution":{…}}`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Delays {
    /// Milliseconds: `fixedDelayMilliseconds` of a stub, `fixedDelay` of the settings.
    fixed: Option<u32>,
    /// `delayDistribution`.
    random: Option<DelayDistribution>,
}

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
            fixed: node.read(fixed, Node::milliseconds)?,
            random: node.read("delayDistribution", DelayDistribution::read)?,
        })
    }

    /// Return how long an answer is held: both parts together, each from `settings` if it is not
    /// set here. At most two [`MAX_HOLD`]. Draws are asked for only where there is a distribution.
    pub(crate) fn hold(&self, settings: &Self, draws: impl FnOnce() -> Draws) -> Duration {
        let fixed = self.fixed.or(settings.fixed).unwrap_or_default();
        let random = self.random.or(settings.random);
        let random = random.map_or(0, |random| random.sample(&mut draws()));
        Duration::from_millis(u64::from(fixed) + random)
    }
}

/// A distribution of delays, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum DelayDistribution {
    LogNormal {
        median: f64,
        sigma: f64,
        max: Option<f64>,
    },
    /// Both ends included.
    Uniform {
        lower: u32,
        upper: u32,
    },
    Fixed(u32),
}

/// How often a sample above the maximum is drawn again, before it is cut.
const REDRAWS: usize = 10;

impl DelayDistribution {
    fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only("type lower upper milliseconds median sigma maxValue")?;
        node.need("type", |kind| match kind.text()? {
            "lognormal" => Self::log_normal(node),
            "uniform" => {
                let lower = node.need("lower", Node::milliseconds)?;
                let upper = node.need("upper", Node::milliseconds)?;
                if lower > upper {
                    let what = format!("the lower end {lower} is above the upper end {upper}");
                    return Err(node.malformed(what));
                }
                Ok(Self::Uniform { lower, upper })
            }
            "fixed" => node
                .need("milliseconds", Node::milliseconds)
                .map(Self::Fixed),
            _ => Err(kind.malformed("expected lognormal, uniform or fixed")),
        })
    }

    fn log_normal(node: &Node<'_>) -> Result<Self, Problem> {
        let median = node.need("median", Node::delay)?;
        let sigma = node.need("sigma", Node::number)?;
        let max = node.read("maxValue", Node::delay)?;
        if !(0.0..=f64::MAX).contains(&sigma) || max.is_some_and(|max| max < median) {
            let what = "a sigma is 0 or more, and a maximum not below the median";
            return Err(node.malformed(what));
        }
        Ok(Self::LogNormal { median, sigma, max })
    }

    /// Draws a delay in milliseconds.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to an hour; no number is 0"
    )]
    fn sample(self, draws: &mut Draws) -> u64 {
        match self {
            Self::Fixed(always) => always.into(),
            Self::Uniform { lower, upper } => {
                let choices = u64::from(upper.saturating_sub(lower)) + 1;
                u64::from(lower) + draws.below(choices)
            }
            Self::LogNormal { median, sigma, max } => {
                let most = max.unwrap_or(f64::INFINITY);
                let fitting = std::iter::repeat_with(|| (draws.normal() * sigma).exp() * median)
                    .take(1 + REDRAWS)
                    .find(|drawn| *drawn <= most);
                // As Java's `Math.round`.
                let rounded = (fitting.unwrap_or(most) + 0.5).floor();
                rounded.clamp(0.0, MAX_HOLD.as_secs_f64() * 1000.0) as u64
            }
        }
    }
}

/// In how many pieces a body is sent, and over what time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dribble {
    pieces: NonZeroUsize,
    total_ms: u32,
}

/// Pieces of one body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Pieces {
    /// The wait before each piece, the first included, in whole milliseconds.
    pub(crate) interval: Duration,
    count: usize,
    length: usize,
}

impl Dribble {
    /// Reads `{"numberOfChunks":5,"totalDuration":1000}`.
    pub(crate) fn read(node: &Node<'_>) -> Result<Self, Problem> {
        node.only("numberOfChunks totalDuration")?;
        let pieces = node.need("numberOfChunks", |number| {
            let pieces = usize::try_from(number.whole()?).ok();
            pieces.and_then(NonZeroUsize::new).ok_or_else(|| {
                number.malformed("a body comes in at least one piece: write 1 or more")
            })
        })?;
        let total_ms = node.need("totalDuration", Node::milliseconds)?;
        Ok(Self { pieces, total_ms })
    }

    /// Cut a body of `length` bytes: into as many pieces as asked for, but none of them empty. An
    /// empty body is sent at once, in no piece. What the division of the time leaves over is not
    /// waited for.
    pub(crate) fn pieces(self, length: usize) -> Pieces {
        let count = self.pieces.get().min(length);
        // An hour at most: its milliseconds fit.
        let interval = u64::from(self.total_ms).checked_div(count as u64);
        Pieces {
            interval: Duration::from_millis(interval.unwrap_or_default()),
            count,
            length,
        }
    }
}

impl Pieces {
    /// Return the range of each piece in the body. All are equally long, but for the last, which
    /// has the remainder, too.
    pub(crate) fn ranges(self) -> impl ExactSizeIterator<Item = Range<usize>> {
        let each = self.length.checked_div(self.count).unwrap_or_default();
        (0..self.count).map(move |piece| {
            let end = if piece + 1 == self.count {
                self.length
            } else {
                (piece + 1) * each
            };
            piece * each..end
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draw::Stream;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn draws(seed: u64, id: u64) -> Draws {
        Draws::new(Stream::Hold, seed, id)
    }

    fn is_read(document: &Value) -> bool {
        DelayDistribution::read(&Node::root(document)).is_ok()
    }

    #[test]
    fn only_possible_delays_are_read() {
        for right in [
            json!({"type": "lognormal", "median": 80, "sigma": 0.4, "maxValue": 2000.0}),
            json!({"type": "lognormal", "median": 80.5, "sigma": 0.4}),
            json!({"type": "uniform", "lower": 50, "upper": "60"}),
            json!({"type": "fixed", "milliseconds": 100.9}),
        ] {
            assert!(is_read(&right), "{right}");
        }
        for wrong in [
            json!("fixed"),
            json!({}),
            json!({"type": "normal"}),
            json!({"type": "fixed"}),
            json!({"type": "fixed", "ms": 1}),
            json!({"type": "fixed", "milliseconds": 3_600_001}),
            json!({"type": "uniform", "lower": -1, "upper": 6}),
            json!({"type": "uniform", "lower": 7, "upper": 6}),
            json!({"type": "lognormal", "median": 80}),
            json!({"type": "lognormal", "median": 80, "sigma": -0.1}),
            json!({"type": "lognormal", "median": 80, "sigma": 0.1, "maxValue": 79}),
            json!({"type": "lognormal", "median": 80, "sigma": 0.1, "maxValue": 1e9}),
        ] {
            assert!(!is_read(&wrong), "{wrong}");
        }
        let settings = json!({"fixedDelay": null, "delayDistribution": null, "extended": {"a": 1}, "proxyPassThrough": true});
        assert_eq!(Delays::read(&Node::root(&settings)), Ok(Delays::default()));
        assert!(Delays::read(&Node::root(&json!({"fixedDelay": -3}))).is_err());
        for wrong in [
            json!({"numberOfChunks": 5}),
            json!({"chunks": 5}),
            json!({"numberOfChunks": 0, "totalDuration": 5}),
            json!({"numberOfChunks": 1, "totalDuration": -5}),
        ] {
            assert!(Dribble::read(&Node::root(&wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn both_delays_add_up_and_fall_back_each_on_its_own() {
        let delays = |fixed, random: Option<u32>| Delays {
            fixed,
            random: random.map(DelayDistribution::Fixed),
        };
        let (none, both) = (Delays::default(), delays(Some(1), Some(20)));
        for (own, settings, expected) in [
            (none, none, 0),
            (both, none, 21),
            (none, both, 21),
            (delays(Some(300), None), both, 320),
            (delays(None, Some(4000)), both, 4001),
            (delays(Some(0), Some(0)), both, 0),
        ] {
            let hold = own.hold(&settings, || draws(1, 1));
            assert_eq!(hold, Duration::from_millis(expected));
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
            .filter(|id| half.sample(&mut draws(3, *id)) == 100)
            .count();
        // Cutting alone would put half of them there; after ten redraws one in 2,000 is cut, and a
        // few round to it.
        assert!(at_most < 40, "{at_most}");
        let never = DelayDistribution::LogNormal {
            median: 100.4,
            sigma: 0.0,
            max: Some(100.4),
        };
        assert_eq!(never.sample(&mut draws(1, 1)), 100);
        for sigma in [1e3, f64::MAX] {
            let wild = DelayDistribution::LogNormal {
                median: 1.0,
                sigma,
                max: None,
            };
            assert!((0..100).all(|id| wild.sample(&mut draws(1, id)) <= 3_600_000));
        }
    }

    #[test]
    fn uniform_delays_reach_both_ends_equally_often() {
        let uniform = DelayDistribution::Uniform { lower: 3, upper: 5 };
        let mut counts = [0_u32; 8];
        for id in 0..9000 {
            counts[usize::try_from(uniform.sample(&mut draws(4, id))).unwrap()] += 1;
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
                (DelayDistribution::Fixed(lower), lower),
            ] {
                let sample = delays.sample(&mut draws(seed, 1));
                prop_assert_eq!(sample, delays.sample(&mut draws(seed, 1)));
                prop_assert!((u64::from(least)..=u64::from(upper)).contains(&sample), "{:?}: {:?}", delays, sample);
            }
        }


        #[test]
        fn pieces_add_up(number in 1_usize..100, total_ms in 0_u32..10_000, length in 0_usize..5000) {
            let pieces = Dribble { pieces: NonZeroUsize::new(number).unwrap(), total_ms }.pieces(length);
            let mut at = 0;
            for range in pieces.ranges() {
                prop_assert_eq!(range.start, at);
                prop_assert!(!range.is_empty());
                at = range.end;
            }
            prop_assert_eq!(at, length);
            let count = pieces.ranges().len();
            prop_assert_eq!(count, number.min(length));
            let total = Duration::from_millis(total_ms.into());
            let waited = pieces.interval * u32::try_from(count).unwrap();
            prop_assert!(waited <= total);
            prop_assert!(count == 0 || total.saturating_sub(waited) < Duration::from_millis(u64::try_from(count).unwrap()));
        }

    }
}
