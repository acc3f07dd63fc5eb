//! Knee: the rate at which the curve of latency against rate turns upward.
//!
//! Kneedle (Satopaa, Albrecht, Irwin, Raghavan: "Finding a 'Kneedle' in a Haystack", 2011): both
//! axes are scaled to 0..1, and the knee of a rising convex curve is where it lies furthest below
//! its chord. The points are few and are medians of probes already, so the paper's smoothing spline
//! and its sensitivity for several knees are left out; times are taken by their logarithm, since
//! the last point of an overloaded target may be thousands of times the first.

use serde::{Deserialize, Serialize};

/// Points that a curve needs before it may have a knee.
const LEAST_POINTS: usize = 5;

/// Least ratio of the last time to the greatest one up to the knee: a flat line has no knee, and
/// neither has noise.
const LEAST_RISE: f64 = 2.0;

/// Least depth of a knee below its chord, as a part of the height.
const LEAST_BEND: f64 = 0.1;

/// A point of the curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct CurvePoint {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Microseconds, above 0.
    pub us: f64,
}

/// The knee of a curve whose points are ordered by rate; none of one that does not turn.
#[must_use]
pub fn knee(points: &[CurvePoint]) -> Option<CurvePoint> {
    let [first, .., last] = points else {
        return None;
    };
    if points.len() < LEAST_POINTS || last.rate_per_s <= first.rate_per_s {
        return None;
    }
    // Noise makes times longer, not shorter: what is longer than at a higher rate is noise.
    let mut ahead = f64::INFINITY;
    let mut rising: Vec<f64> = points
        .iter()
        .rev()
        .map(|point| {
            ahead = ahead.min(point.us);
            ahead
        })
        .collect();
    rising.reverse();
    let (lowest, highest) = (*rising.first()?, *rising.last()?);
    let mut greatest = 0.0_f64;
    let below = |(point, us): (&CurvePoint, &f64)| {
        greatest = greatest.max(point.us);
        let x = (point.rate_per_s - first.rate_per_s) / (last.rate_per_s - first.rate_per_s);
        let y = (us / lowest).ln() / (highest / lowest).ln();
        (x - y, greatest, *point)
    };
    let (depth, before, point) = points
        .iter()
        .zip(&rising)
        .map(below)
        .max_by(|a, b| a.0.total_cmp(&b.0))?;
    (depth >= LEAST_BEND && highest >= before * LEAST_RISE).then_some(point)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn curve(us: impl Fn(f64) -> f64) -> Vec<CurvePoint> {
        (1..=20)
            .map(|n| f64::from(n) * 50.0)
            .map(|rate_per_s| CurvePoint {
                rate_per_s,
                us: us(rate_per_s),
            })
            .collect()
    }

    #[test]
    fn a_queue_turns_before_it_is_full() {
        let queue = curve(|rate| 1e6 / (1_050.0 - rate));
        let found = knee(&queue).unwrap();
        assert!((700.0..=950.0).contains(&found.rate_per_s), "{found:?}");
    }

    #[test]
    fn a_cliff_turns_at_its_edge() {
        let cliff = curve(|rate| {
            if rate <= 600.0 {
                1_000.0 + rate / 10.0
            } else {
                500_000.0
            }
        });
        assert!((knee(&cliff).unwrap().rate_per_s - 600.0).abs() < 1.0);
    }

    #[test]
    fn a_probe_that_was_disturbed_on_the_way_is_no_knee() {
        let mut cliff = curve(|rate| {
            if rate <= 600.0 {
                1_000.0 + rate / 10.0
            } else {
                500_000.0
            }
        });
        cliff[4].us = 60_000.0;
        assert!((knee(&cliff).unwrap().rate_per_s - 600.0).abs() < 1.0);
    }

    #[test]
    fn what_does_not_turn_has_no_knee() {
        assert_eq!(knee(&curve(|_| 1_000.0)), None);
        assert_eq!(
            knee(&curve(|rate| 1_000.0 * (rate / 200.0).exp())),
            None,
            "straight on this axis"
        );
        assert_eq!(knee(&curve(|rate| 1e6 / (1_050.0 - rate))[..4]), None);
        assert_eq!(knee(&[]), None);
        let noise: Vec<CurvePoint> = [200.0, 150.0, 120.0, 80.0, 170.0]
            .into_iter()
            .zip(curve(|_| 1.0))
            .map(|(us, point)| CurvePoint { us, ..point })
            .collect();
        assert_eq!(knee(&noise), None, "lower rates had longer times");
    }
}
