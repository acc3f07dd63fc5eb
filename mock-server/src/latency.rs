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

/// Delay before an answer. The default is none.
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
#[derive(Clone, Debug, PartialEq)]
pub struct Latency {
    model: Model,
    text: String,
}

#[derive(Clone, Debug, PartialEq)]
enum Model {
    None,
    /// Straight lines between points; shared, so that a description of a target stays cheap to
    /// clone. Fixed, uniform and bimodal latencies are of this kind, too.
    Points(Arc<[Point]>),
    /// Most near the median, a long tail, as the latencies of real services roughly are.
    LogNormal {
        median: Duration,
        /// The standard deviation of the hold's natural logarithm.
        sigma: f64,
        /// Longer holds are cut to this.
        max: Duration,
    },
    /// A heavy tail, in which a hold k times as long is k^alpha times as rare; at an alpha of 1 and
    /// below the mean is the maximum's doing.
    Pareto {
        min: Duration,
        alpha: f64,
        max: Duration,
    },
    /// Longer and longer, or shorter and shorter, from id to id.
    Drift {
        from: Duration,
        to: Duration,
        /// Number of ids; then it begins again.
        over: u64,
    },
}

/// `share` of the holds are `hold` or shorter.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    share: f64,
    hold: Duration,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            model: Model::None,
            text: "none".to_owned(),
        }
    }
}

impl Latency {
    /// Hold a share of the answers, 0 to 1, for `second`, and the others for `first`.
    pub fn bimodal(first: Duration, second: Duration, share_of_second: f64) -> Self {
        let [one, other] = [first, second].map(duration_text);
        Self {
            model: steps(first, second, share_of_second),
            text: format!("bimodal:{one},{other},{share_of_second}"),
        }
    }

    /// Return how long the answer for `id` is held back, in whole microseconds, at most
    /// [`MAX_HOLD`]; zero means that it is not held at all. `attempt` is how many requests for it
    /// came before, `0..=15`, 15 for more.
    ///
    /// With `u`, `u1`, `u2` uniform in [0, 1) and drawn from (seed, id, attempt):
    ///
    /// - `uniform`: `low + floor(u (high - low + 1))` in microseconds;
    /// - `lognormal`: `min(median exp(sigma z), max)` with `z = sqrt(-2 ln(1 - u1)) cos(2 pi u2)`
    ///   standard normal. Source: Box and Muller, "A Note on the Generation of Random Normal
    ///   Deviates" (1958);
    /// - `pareto`: `min(minimum (1 - u)^(-1/alpha), max)`, the inverse of
    ///   `F(x) = 1 - (minimum/x)^alpha`;
    /// - `bimodal`: the second if `u < share`, else the first;
    /// - `drift`: `from + (to - from) (id mod over) / over`, the same for each attempt;
    /// - `quantiles`: the quantile of `u`.
    ///
    /// Logarithm, cosine and power are the platform's, so two platforms may differ in the last
    /// microsecond.
    pub fn hold(&self, seed: u64, id: u64, attempt: u8) -> Duration {
        self.drawn(id, || Draws::for_attempt(Stream::Hold, seed, id, attempt))
    }

    /// Return the hold of `id` that draws lead to. They are asked for only where they matter.
    pub(crate) fn drawn(&self, id: u64, draws: impl FnOnce() -> Draws) -> Duration {
        let hold = match &self.model {
            Model::None => return Duration::ZERO,
            Model::Points(points) => between(points, draws().unit()),
            Model::LogNormal { median, sigma, max } => {
                scaled(*median, (sigma * draws().normal()).exp(), *max)
            }
            Model::Pareto { min, alpha, max } => {
                scaled(*min, (1.0 - draws().unit()).powf(-1.0 / alpha), *max)
            }
            Model::Drift { from, to, over } => {
                let way = (id % over) as f64 / *over as f64;
                from.mul_f64(1.0 - way) + to.mul_f64(way)
            }
        };
        let limited = hold.min(MAX_HOLD);
        Duration::new(limited.as_secs(), limited.subsec_micros() * 1000)
    }
}

/// Return the hold that `share` of all holds do not exceed.
fn between(points: &[Point], share: f64) -> Duration {
    let above = points.partition_point(|point| point.share <= share);
    match (points.get(above.saturating_sub(1)), points.get(above)) {
        (Some(below), Some(above)) => {
            let part = (share - below.share) / (above.share - below.share);
            below.hold + above.hold.saturating_sub(below.hold).mul_f64(part)
        }
        (end, _) => end.map_or(Duration::ZERO, |end| end.hold),
    }
}

/// `factor` times `hold`, at most `max`; `max` if that is no duration.
fn scaled(hold: Duration, factor: f64, max: Duration) -> Duration {
    Duration::try_from_secs_f64(hold.as_secs_f64() * factor).map_or(max, |hold| hold.min(max))
}

fn line(low: Duration, high: Duration) -> Model {
    let ends = [(0.0, low), (1.0, high)];
    Model::Points(ends.map(|(share, hold)| Point { share, hold }).into())
}

fn steps(first: Duration, second: Duration, share: f64) -> Model {
    let points = [(0.0, second), (share, second), (share, first), (1.0, first)];
    Model::Points(points.map(|(share, hold)| Point { share, hold }).into())
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

impl FromStr for Latency {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let text = given.trim();
        let (model, rest) = match text.split_once(':') {
            Some((model, rest)) => (model.trim(), rest),
            None => ("fixed", text),
        };
        let parts: Vec<&str> = rest.split(',').map(str::trim).collect();
        let read = Model::read(model, &parts).ok_or_else(|| {
            let right = MODELS
                .iter()
                .find(|(name, _)| *name == model && model != text)
                .map_or_else(
                    || "none, or ".to_owned() + &MODELS.map(|(_, form)| form).join("; "),
                    |(_, form)| format!("{form}; times are 0 to 1h with a unit"),
                );
            SettingError::new(given, "latency", right)
        });
        let model = read?;
        let text = match model {
            Model::Points(_) if !text.contains(':') => format!("fixed:{text}"),
            _ => text.to_owned(),
        };
        Ok(Self { model, text })
    }
}

impl Model {
    fn read(model: &str, parts: &[&str]) -> Option<Self> {
        Some(match (model, parts) {
            ("fixed", ["none"]) => Self::None,
            ("fixed", &[time]) => line(hold(time)?, hold(time)?),
            ("uniform", &[low, high]) => {
                let low = hold(low)?;
                let high = hold(high).filter(|high| *high >= low)?;
                // Cut to whole microseconds, the highest is as likely as the others.
                line(low, high + Duration::from_nanos(999))
            }
            ("lognormal", &[median, sigma, ref max @ ..]) => {
                let median = hold(median)?;
                Self::LogNormal {
                    median,
                    sigma: number(sigma, 0.0..=5.0)?,
                    max: maximum(max, median, 10)?,
                }
            }
            ("pareto", &[min, alpha, ref max @ ..]) => {
                let min = hold(min)?;
                Self::Pareto {
                    min,
                    alpha: number(alpha, 0.1..=100.0)?,
                    max: maximum(max, min, 1000)?,
                }
            }
            ("bimodal", &[first, second, share_of_second]) => {
                steps(hold(first)?, hold(second)?, share(share_of_second)?)
            }
            ("drift", &[from, to, over]) => Self::Drift {
                from: hold(from)?,
                to: hold(to)?,
                over: over.parse().ok().filter(|over| *over > 0)?,
            },
            ("quantiles", pairs) => {
                let points: Vec<Point> = pairs
                    .iter()
                    .map(|pair| point(pair))
                    .collect::<Option<_>>()?;
                let rises = points
                    .windows(2)
                    .all(|of| of[0].share < of[1].share && of[0].hold <= of[1].hold);
                let is_whole = (..=0.0).contains(&points.first()?.share)
                    && (1.0..).contains(&points.last()?.share);
                (is_whole && rises).then(|| Self::Points(points.into()))?
            }
            _ => return None,
        })
    }
}

fn number(text: &str, range: RangeInclusive<f64>) -> Option<f64> {
    text.parse().ok().filter(|number| range.contains(number))
}

fn point(pair: &str) -> Option<Point> {
    let (at, time) = pair.split_once('=')?;
    Some(Point {
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
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn latency(text: &str) -> Latency {
        text.parse().unwrap()
    }

    /// The holds of 10,000 items, in seconds, the shortest first.
    fn holds(text: &str, seed: u64) -> Vec<f64> {
        let latency = latency(text);
        let mut holds: Vec<f64> = (0..10_000)
            .map(|id| latency.hold(seed, id, 0).as_secs_f64())
            .collect();
        holds.sort_by(f64::total_cmp);
        holds
    }

    #[test]
    fn quantiles_are_those_of_the_definition() {
        for (text, rank, expected) in [
            // z of the 15.87th, 50th and 84.13th percentile is -1, 0 and 1.
            ("lognormal:20ms,0.4,1h", 1587, 0.020 * (-0.4_f64).exp()),
            ("lognormal:20ms,0.4,1h", 5000, 0.020),
            ("lognormal:20ms,0.4,1h", 8413, 0.020 * 0.4_f64.exp()),
            ("lognormal:20ms,0.4,21ms", 9000, 0.021),
            ("pareto:10ms,1.2", 0, 0.010),
            ("pareto:10ms,1.2", 5000, 0.010 * 0.5_f64.powf(-1.0 / 1.2)),
            ("pareto:10ms,3", 9000, 0.010 * 0.1_f64.powf(-1.0 / 3.0)),
            ("pareto:10ms,1.2,1s", 9999, 1.0),
            ("quantiles:0=5ms,0.5=15ms,0.75=15ms,1=115ms", 2500, 0.010),
            ("quantiles:0=5ms,0.5=15ms,0.75=15ms,1=115ms", 6000, 0.015),
            ("quantiles:0=5ms,0.5=15ms,0.75=15ms,1=115ms", 8750, 0.065),
            // Each of five microseconds is a fifth, with a standard deviation of 40 in 10,000.
            ("uniform:3us,7us", 1700, 3e-6),
            ("uniform:3us,7us", 2300, 4e-6),
            ("uniform:3us,7us", 7700, 6e-6),
            ("uniform:3us,7us", 8300, 7e-6),
            ("bimodal:2ms,200ms,0.25", 7400, 0.002),
            ("bimodal:2ms,200ms,0.25", 7600, 0.200),
            ("bimodal:2ms,200ms,0", 9999, 0.002),
            ("bimodal:2ms,200ms,1", 0, 0.200),
            ("20ms", 3000, 0.020),
        ] {
            let found = holds(text, 3)[rank];
            assert!(
                (found / expected - 1.0).abs() < 0.1,
                "{text} at {rank}: {found} instead of {expected}"
            );
        }
    }

    #[test]
    fn a_drift_goes_from_end_to_end_and_begins_again() {
        let latency = latency("drift:10ms,30ms,4");
        assert_eq!(
            [0, 1, 2, 3, 4, 7].map(|id| latency.hold(9, id, 3)),
            [10, 15, 20, 25, 10, 25].map(|ms| ms * MS)
        );
    }

    proptest! {
        #[test]
        fn a_hold_is_pure_bounded_and_whole_microseconds(
            seed: u64, id: u64, attempt in 0_u8..16, low_us in 0_u64..1_000_000, more_us in 0_u64..1_000_000, share in 0.01..0.99_f64,
        ) {
            let (low, high) = (Duration::from_micros(low_us), Duration::from_micros(low_us + more_us));
            let [from, to] = [low, high].map(duration_text);
            for (text, least) in [
                (format!("fixed:{to}"), high),
                (format!("uniform:{from},{to}"), low),
                (format!("lognormal:{from},{},{to}", 5.0 * share), Duration::ZERO),
                (format!("pareto:{from},{},{to}", 0.1 + share), low),
                (format!("bimodal:{from},{to},{share}"), low),
                (format!("quantiles:0={from},{share}={from},1={to}"), low),
            ] {
                let latency = latency(&text);
                prop_assert_eq!(latency.to_string(), &text[..]);
                let hold = latency.hold(seed, id, attempt);
                prop_assert_eq!(hold, latency.hold(seed, id, attempt));
                prop_assert!(least <= hold && hold <= high, "{}: {:?}", text, hold);
                prop_assert_eq!(hold.subsec_nanos() % 1000, 0);
            }
        }
    }

    #[test]
    fn what_is_no_latency_is_refused() {
        for given in [
            "none",
            "0",
            "1h",
            "uniform:10ms, 30ms",
            "quantiles:0=5ms,0.5=20ms, 0.99 = 100ms,1=2s",
        ] {
            assert!(given.parse::<Latency>().is_ok(), "{given}");
        }
        for given in [
            "slow",
            "",
            "-5ms",
            "20",
            "uniform:10ms,30",
            "fixed:61m",
            "uniform:2ms,1ms",
            "lognormal:20ms,5.1",
            "lognormal:20ms,NaN",
            "lognormal:20ms,0.4,10ms",
            "pareto:5ms,0",
            "bimodal:2ms,200ms,5",
            "drift:1s,2s,0",
            "quantiles:0=1ms,0.5=2ms",
            "quantiles:0.1=1ms,1=2ms",
            "quantiles:0=1ms,0.5=2ms,0.5=3ms,1=4ms",
            "quantiles:0=2ms,1=1ms",
        ] {
            assert!(given.parse::<Latency>().is_err(), "{given}");
        }
    }
}
