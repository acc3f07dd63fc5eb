//! Shape of the times of both sides: a second mode or a wider spread, which a median does not see.
//!
//! Each round has its quantiles as logarithms of their ratio to its median. A pair's difference of
//! one of them is as likely of either sign if the sides are equal, so that it is tested as a metric
//! is, two-sided and corrected over the quantiles (Holm). It decides nothing: a shape is neither
//! better nor worse.

use crawlmark_harness::stats::{Percentile, Series};
use crawlmark_harness::units::whole;
use serde::{Deserialize, Serialize};

use super::contest::RoundReport;
use super::design::Arm;
use super::judgement::LOOKS;
use super::statistics::{Centre, Interval, holm, two_sided};
use crate::metrics::Execution;
use crate::run::report::Report;
use crate::studies::StudyFinding;

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

/// Compare the shapes of the counted pairs; none where no such pair has them on both sides.
pub(super) fn compare_shapes(rounds: &[RoundReport]) -> Vec<QuantileResult> {
    let pairs: Vec<[RoundShape; 2]> = rounds
        .chunks_exact(2)
        .filter(|pair| pair[0].counts())
        .filter_map(|pair| {
            let of = |arm| pair.iter().find(|of| of.round.arm == arm)?.shape;
            Some([of(Arm::Base)?, of(Arm::Candidate)?])
        })
        .collect();
    let differences = |at: usize| -> Vec<f64> {
        let pairs = pairs.iter();
        pairs
            .map(|[base, candidate]| candidate[at] - base[at])
            .collect()
    };
    let all: Vec<Vec<f64>> = (0..QUANTILES.len()).map(differences).collect();
    let raw: Vec<f64> = all.iter().map(|of| two_sided(of)).collect();
    let adjusted = holm(&raw);
    let results = QUANTILES.iter().enumerate().filter_map(|(at, quantile)| {
        let centre = Centre::of(&all[at])?;
        let mean = |side: usize| {
            let sum: f64 = pairs.iter().map(|pair| pair[side][at]).sum();
            (sum / pairs.len() as f64).exp()
        };
        let is_large = centre.estimate.abs() >= SMALLEST.ln_1p();
        Some(QuantileResult {
            quantile: *quantile,
            base: mean(0),
            candidate: mean(1),
            ratio: centre.estimate.exp(),
            interval: centre.interval.map(|interval| interval.map(f64::exp)),
            p_adjusted: adjusted[at],
            differs: adjusted[at] <= ALPHA && is_large && pairs.len() >= LOOKS[0].pairs,
        })
    });
    results.collect()
}

/// The quantile that differs most surely, as a finding.
pub(super) fn shape_finding(shape: &[QuantileResult], of: &str) -> Option<StudyFinding> {
    let differing = shape.iter().filter(|it| it.differs);
    let it = differing.min_by(|one, other| one.p_adjusted.total_cmp(&other.p_adjusted))?;
    Some(StudyFinding::ShapeChanged {
        of: of.to_owned(),
        quantile: it.quantile,
        base: it.base,
        candidate: it.candidate,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::compare::{Readings, Round};

    /// Pairs whose rounds have executions of these times.
    fn rounds(seed: u64, mut us: impl FnMut(&mut fastrand::Rng, Arm) -> f64) -> Vec<RoundReport> {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut all = Vec::new();
        for pair in 1..=16 {
            // Of the machine, in both rounds.
            let mood = 1.0 + random.f64() * 0.3;
            for arm in [Arm::Base, Arm::Candidate] {
                let mut times: Vec<f64> = (0..40).map(|_| us(&mut random, arm) * mood).collect();
                times.sort_by(f64::total_cmp);
                let executions = times.iter().map(|wall_us| Execution {
                    wall_us: *wall_us,
                    exit_code: Some(0),
                    ..Execution::default()
                });
                let executions: Vec<Execution> = executions.collect();
                let times = ["", ""].map(str::to_owned);
                let shape = shape_of_executions(&executions);
                let mut round = RoundReport::of_command(executions, pair, arm, times);
                round.round = Round::of(arm, Readings::default());
                round.shape = shape;
                all.push(round);
            }
        }
        all
    }

    fn differs(rounds: &[RoundReport]) -> bool {
        compare_shapes(rounds).iter().any(|it| it.differs)
    }

    #[test]
    fn a_second_mode_with_the_same_median_is_found() {
        let mut found = 0;
        for seed in 0..50 {
            let rounds = rounds(seed, |random, arm| {
                let slow = arm == Arm::Candidate && random.f64() < 0.12;
                (100.0 + random.f64() * 10.0) * if slow { 1.5 } else { 1.0 }
            });
            found += usize::from(differs(&rounds));
        }
        assert!(found >= 40, "{found} of 50");
    }

    #[test]
    fn equal_sides_and_a_slower_one_of_the_same_shape_do_not_differ() {
        let mut found = 0;
        for seed in 0..2_000 {
            let slower = if seed % 2 == 0 { 1.0 } else { 1.2 };
            let rounds = rounds(seed, |random, arm| {
                let tail = random.f64();
                let own = if arm == Arm::Candidate { slower } else { 1.0 };
                (100.0 + tail.powi(8) * 300.0) * own
            });
            found += usize::from(differs(&rounds));
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
