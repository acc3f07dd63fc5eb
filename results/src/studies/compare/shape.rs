//! Shape of the times of both sides: a second mode or a wider spread, which a median does not see.
//!
//! Each round has its quantiles as logarithms of their ratio to its median. A pair's difference of
//! one of them is as likely of either sign if the sides are equal, so that it is tested as a metric
//! is, two-sided and corrected over the quantiles (Holm). It decides nothing: a shape is neither
//! better nor worse.

use crawlmark_harness::stats::{Percentile, Series};
use crawlmark_harness::units::whole;
use serde::{Deserialize, Serialize};

use super::judgement::LOOKS;
use super::statistics::{Centre, Interval, holm, two_sided};
use crate::metrics::Execution;
use crate::run::report::Report;

/// Quantiles that are compared with the median.
const QUANTILES: [f64; 4] = [0.05, 0.25, 0.75, 0.95];

/// Values that a round needs: ten beyond the outer quantiles of a crawl; of a command's executions,
/// as many as let the outer quantiles be the least and the greatest of some.
const LEAST_RESPONSES: u64 = 200;
const LEAST_EXECUTIONS: usize = 10;

/// Level at which a shape differs. Beside the metrics, whose error is 0.97 %, it stays below 1 % in
/// all that equal sides differ.
const ALPHA: f64 = 0.000_3;

/// Least change of a ratio to the median that counts.
const SMALLEST: f64 = 0.02;

/// The quantiles of a round, each as the logarithm of its ratio to the median.
pub type RoundShape = [f64; QUANTILES.len()];

/// Read the shape of the service times of a run; none with too few of them.
pub(super) fn shape_of_run(report: &Report) -> Option<RoundShape> {
    let latency = report.latency(Series::ServiceOk)?;
    let distribution = latency.distribution()?;
    let at = |part: f64| match distribution.percentile(part) {
        Percentile::Exact(ns) if ns > 0 => Some((ns as f64).ln()),
        _ => None,
    };
    if latency.count < LEAST_RESPONSES {
        return None;
    }
    shape(at)
}

/// Read the shape of the wall times of executions; none with too few of them.
pub(super) fn shape_of_executions(executions: &[Execution]) -> Option<RoundShape> {
    let mut times: Vec<f64> = executions.iter().map(|one| one.wall_us).collect();
    times.sort_by(f64::total_cmp);
    // The least of them that a part of all do not exceed.
    let at = |part: f64| {
        let rank = whole(part * times.len() as f64).min(times.len() as u64 - 1);
        Some(times[usize::try_from(rank).ok()?].ln()).filter(|it| it.is_finite())
    };
    if times.len() < LEAST_EXECUTIONS {
        return None;
    }
    shape(at)
}

fn shape(at: impl Fn(f64) -> Option<f64>) -> Option<RoundShape> {
    let middle = at(0.5)?;
    let mut shape = RoundShape::default();
    for (ratio, part) in shape.iter_mut().zip(QUANTILES) {
        *ratio = at(part)? - middle;
    }
    Some(shape)
}

/// A quantile of both sides.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct QuantileResult {
    /// The quantile, as a part of 1.
    pub quantile: f64,
    /// Its ratio to the median on the base: geometric mean of the counted rounds.
    pub base: f64,
    /// That of the candidate.
    pub candidate: f64,
    /// Ratio of the two in a pair: Hodges and Lehmann's estimate.
    pub ratio: f64,
    /// Its exact interval; null for fewer than 6 pairs.
    pub interval: Option<Interval>,
    /// Two-sided p value, adjusted for the other quantiles.
    pub p_adjusted: f64,
    /// True if it differs. Never before 16 counted pairs.
    pub differs: bool,
}

/// Compare the shapes of counted pairs; nothing of none.
pub(super) fn compare_shapes(pairs: &[[RoundShape; 2]]) -> Vec<QuantileResult> {
    let differences: Vec<Vec<f64>> = (0..QUANTILES.len())
        .map(|at| {
            pairs
                .iter()
                .map(|[base, candidate]| candidate[at] - base[at])
                .collect()
        })
        .collect();
    let raw: Vec<f64> = differences.iter().map(|of| two_sided(of)).collect();
    let adjusted = holm(&raw);
    (0..QUANTILES.len())
        .filter_map(|at| {
            let centre = Centre::of(&differences[at])?;
            let mean = |side: usize| {
                let sum: f64 = pairs.iter().map(|pair| pair[side][at]).sum();
                (sum / pairs.len() as f64).exp()
            };
            let is_large = centre.estimate.abs() >= SMALLEST.ln_1p();
            Some(QuantileResult {
                quantile: QUANTILES[at],
                base: mean(0),
                candidate: mean(1),
                ratio: centre.estimate.exp(),
                interval: centre.interval.map(|interval| interval.map(f64::exp)),
                p_adjusted: adjusted[at],
                differs: adjusted[at] <= ALPHA && is_large && pairs.len() >= LOOKS[0].pairs,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::compare::Arm;

    /// Pairs whose rounds have executions of these times.
    fn pairs(seed: u64, us: impl Fn(&mut fastrand::Rng, Arm) -> f64) -> Vec<[RoundShape; 2]> {
        let mut random = fastrand::Rng::with_seed(seed);
        (0..16)
            .map(|_| {
                // Of the machine, in both rounds.
                let mood = 1.0 + random.f64() * 0.3;
                [Arm::Base, Arm::Candidate].map(|arm| {
                    let execution = |_| Execution {
                        wall_us: us(&mut random, arm) * mood,
                        ..Execution::default()
                    };
                    let executions: Vec<Execution> = (0..40).map(execution).collect();
                    shape_of_executions(&executions).unwrap()
                })
            })
            .collect()
    }

    fn differs(pairs: &[[RoundShape; 2]]) -> bool {
        compare_shapes(pairs).iter().any(|it| it.differs)
    }

    #[test]
    fn a_second_mode_with_the_same_median_is_found() {
        let mut found = 0;
        for seed in 0..50 {
            let pairs = pairs(seed, |random, arm| {
                let slow = arm == Arm::Candidate && random.f64() < 0.12;
                (100.0 + random.f64() * 10.0) * if slow { 1.5 } else { 1.0 }
            });
            found += usize::from(differs(&pairs));
        }
        assert!(found >= 40, "{found} of 50");
    }

    #[test]
    fn equal_sides_and_a_slower_one_of_the_same_shape_do_not_differ() {
        let mut found = 0;
        for seed in 0..2_000 {
            let slower = if seed % 2 == 0 { 1.0 } else { 1.2 };
            let pairs = pairs(seed, |random, arm| {
                let tail = random.f64();
                let own = if arm == Arm::Candidate { slower } else { 1.0 };
                (100.0 + tail.powi(8) * 300.0) * own
            });
            found += usize::from(differs(&pairs));
        }
        assert!(found <= 3, "{found} of 2,000: 0.6 are allowed, and chance");
    }

    #[test]
    fn a_round_of_few_values_has_no_shape() {
        let executions = vec![Execution::default(); LEAST_EXECUTIONS - 1];
        assert_eq!(shape_of_executions(&executions), None);
        assert_eq!(shape_of_executions(&[]), None);
    }
}
