//! The Universal Scalability Law (Gunther), fitted.
//!
//! ```text
//! X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))
//! ```
//!
//! `sigma` is what has to wait in turn (alone, it is Amdahl's law), `kappa` what each has to agree
//! on with each other. Divided through, it is linear: `N / X = a + b (N - 1) + c N (N - 1)` with
//! `lambda = 1/a`, `sigma = b/a`, `kappa = c/a`. Noise is a part of X, so each equation is weighted
//! by `X / N`, which makes the residuals relative ones. None of the three may be below 0: of the
//! four ways to leave `b` and `c` away, the one with the least residuals among those that obey is
//! the non-negative least squares solution (Lawson and Hanson 1974, chapter 23; with two bounds it
//! can be listed).
//!
//! A part of the work cannot exceed all of it. Where the nearest law has a `sigma` above 1, and
//! where sizes are further from it than noise explains (a lack-of-fit test), it does not describe
//! the points, and there is no fit.
//!
//! # What is known of it
//!
//! Each repeat is fitted by itself, too, without the bounds. Whatever makes a whole repeat faster
//! or slower cancels in `b/a` and `c/a`, so these are independent readings of `sigma` and `kappa`,
//! and have the interval of [`Estimate`], which may reach below 0. Of five repeats of a linear
//! system all five have a `kappa` above 0 in 1 case of 32: so often a peak is claimed that is not
//! there.
//!
//! Below four sizes, or where the largest is below 8, `kappa` cannot be told from noise (simulated:
//! four sizes up to 4, ten repeats, noise of 3 %: a peak anywhere from 10 to infinity of one at
//! 22), and there is no fit.

use crawlmark_harness::units::{percent, rounded_percent};
use serde::{Deserialize, Serialize};

use super::estimate::Estimate;

/// Sizes that a fit needs.
const SIZES: usize = 4;

/// Least size of the largest one.
const LARGEST: f64 = 8.0;

/// A part of the throughput that is too small to measure: a term that makes less of a difference is
/// rounding.
const NEGLIGIBLE: f64 = 1e-6;

/// Limit on the position of a reported peak, as a multiple of the largest size.
const BEYOND: f64 = 2.0;

/// Excess of `sigma` over 1 that is rounding: a curve that is flat has a `sigma` of 1.
const HARDLY_MORE: f64 = 0.005;

/// Distance of the sizes from the law, as a part of its value, above which it may not describe
/// them.
const POOR: f64 = 0.1;

/// Ratio of the variance between sizes to that within them above which the distance is no noise. By
/// chance a ratio of 20 comes once in a hundred thousand fits of five sizes and five repeats.
const BEYOND_NOISE: f64 = 20.0;

/// A round that counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Datum {
    pub(super) replicate: usize,
    pub(super) n: f64,
    /// Good items per second.
    pub(super) x: f64,
}

/// The law that a curve follows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Items per second of one.
    pub lambda: f64,
    /// The part that has to wait in turn.
    pub sigma: f64,
    /// The part that each has to agree on with each other.
    pub kappa: f64,
    /// `sigma` by repeats, each without bounds.
    pub sigma_by_replicate: Option<Estimate>,
    /// `kappa` by repeats, each without bounds.
    pub kappa_by_replicate: Option<Estimate>,
    /// Distance of the rounds from the law, as a part of its value: the root of the mean square.
    pub misfit: f64,
    /// Peak above which more do less; none unless `kappa` is surely above 0, and none far beyond
    /// what was measured.
    pub peak: Option<Peak>,
}

/// Point of the greatest throughput.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Peak {
    /// `sqrt((1 - sigma) / kappa)`.
    pub n: f64,
    /// Items per second there.
    pub items_per_s: f64,
}

/// Reason why there is no fit.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum NoFit {
    /// Too few sizes count.
    #[error("4 sizes that count are needed, and there {} {counted}", if *.counted == 1 { "is" } else { "are" })]
    TooFew {
        /// Number of sizes that count.
        counted: usize,
    },
    /// The largest is too small.
    #[error("a size of 8 or more is needed, and the largest that counts is {largest}")]
    TooSmall {
        /// Largest size that counts.
        largest: u32,
    },
    /// No law of this kind is near.
    #[error("no item ended at some size")]
    Nothing,
    /// More would have to wait in turn than there is.
    #[error(
        "the law does not describe these points: they fall so fast that its serial fraction would be {}, above 100 %", percent(*.sigma)
    )]
    TooSerial {
        /// `sigma` of the law that is nearest.
        sigma: f64,
    },
    /// The sizes are too far from the nearest law for that to be noise.
    #[error(
        "the law does not describe these points: they lie {} from its curve, far more than rounds of one size differ", rounded_percent(*.misfit)
    )]
    Poor {
        /// Distance of the sizes from the law, as a part of its value: the root of the mean square.
        misfit: f64,
    },
}

/// The three of them.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Law {
    lambda: f64,
    sigma: f64,
    kappa: f64,
}

impl Law {
    fn at(self, n: f64) -> f64 {
        self.lambda * n / (1.0 + self.sigma * (n - 1.0) + self.kappa * n * (n - 1.0))
    }
}

impl Fit {
    /// Items per second that the law has at `n`.
    #[must_use]
    pub fn at(&self, n: f64) -> f64 {
        Law {
            lambda: self.lambda,
            sigma: self.sigma,
            kappa: self.kappa,
        }
        .at(n)
    }
}

/// The law that the rounds follow.
pub(super) fn fit(mut data: Vec<Datum>) -> Result<Fit, NoFit> {
    // The order in which they ran must not even change the last digit.
    data.sort_by(|a, b| a.n.total_cmp(&b.n).then(a.x.total_cmp(&b.x)));
    let mut sizes: Vec<f64> = data.iter().map(|datum| datum.n).collect();
    sizes.dedup();
    let largest = sizes.last().copied().unwrap_or(0.0);
    if sizes.len() < SIZES {
        return Err(NoFit::TooFew {
            counted: sizes.len(),
        });
    }
    if largest < LARGEST {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count below 8"
        )]
        return Err(NoFit::TooSmall {
            largest: largest as u32,
        });
    }
    if data.iter().any(|datum| datum.x.is_nan() || datum.x <= 0.0) {
        return Err(NoFit::Nothing);
    }
    let mut law = bounded(&data).ok_or(NoFit::Nothing)?;
    if law.sigma > 1.0 + HARDLY_MORE {
        return Err(NoFit::TooSerial { sigma: law.sigma });
    }
    law.sigma = law.sigma.min(1.0);
    if let Some(misfit) = lack_of_fit(&data, law) {
        return Err(NoFit::Poor { misfit });
    }
    let by_replicate: Vec<Law> = replicates(&data, &sizes)
        .iter()
        .filter_map(|own| free(own))
        .collect();
    let kappa_by_replicate = Estimate::of(by_replicate.iter().map(|law| law.kappa));
    let squares: f64 = data
        .iter()
        .map(|datum| (datum.x / law.at(datum.n) - 1.0).powi(2))
        .sum();
    Ok(Fit {
        lambda: law.lambda,
        sigma: law.sigma,
        kappa: law.kappa,
        sigma_by_replicate: Estimate::of(by_replicate.iter().map(|law| law.sigma)),
        kappa_by_replicate,
        misfit: (squares / data.len() as f64).sqrt(),
        peak: kappa_by_replicate
            .filter(|kappa| kappa.is_above(0.0))
            .and_then(|_| peak(law, largest)),
    })
}

/// Distance of the sizes' means from a law, as a part of its value, where it is more than [`POOR`]
/// and than noise makes it.
///
/// The variance of these means is compared with that within the sizes (N. R. Draper, H. Smith,
/// *Applied Regression Analysis*, 2.1).
fn lack_of_fit(data: &[Datum], law: Law) -> Option<f64> {
    let sizes: Vec<Vec<f64>> = data
        .chunk_by(|a, b| a.n.total_cmp(&b.n).is_eq())
        .map(|own| own.iter().map(|d| d.x / law.at(d.n)).collect())
        .collect();
    let (mut between, mut within) = (0.0, 0.0);
    for ratios in &sizes {
        let count = ratios.len() as f64;
        let mean = ratios.iter().sum::<f64>() / count;
        between += count * (mean - 1.0).powi(2);
        within += ratios
            .iter()
            .map(|ratio| (ratio - mean).powi(2))
            .sum::<f64>();
    }
    let misfit = (between / data.len() as f64).sqrt();
    let degrees = [sizes.len() - 1, data.len() - sizes.len()].map(|degrees| degrees as f64);
    // Of one round of each size nothing is known of the noise.
    let by_noise = if degrees[1] > 0.0 {
        BEYOND_NOISE * within / degrees[1]
    } else {
        0.0
    };
    (misfit > POOR && between / degrees[0] > by_noise).then_some(misfit)
}

/// Return the peak of a law, if that is near enough to what was measured.
fn peak(law: Law, largest: f64) -> Option<Peak> {
    let n = ((1.0 - law.sigma) / law.kappa).sqrt();
    (n.is_finite() && n >= 1.0 && n <= BEYOND * largest).then(|| Peak {
        n,
        items_per_s: law.at(n),
    })
}

/// The rounds of each repeat that has one of every size.
fn replicates(data: &[Datum], sizes: &[f64]) -> Vec<Vec<Datum>> {
    let mut numbers: Vec<usize> = data.iter().map(|datum| datum.replicate).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let own = |number: usize| {
        data.iter()
            .copied()
            .filter(|datum| datum.replicate == number)
            .collect::<Vec<_>>()
    };
    numbers
        .into_iter()
        .map(own)
        .filter(|own| own.len() == sizes.len())
        .collect()
}

/// The law without bounds.
fn free(data: &[Datum]) -> Option<Law> {
    solved(data, [true, true]).map(|(law, _)| law)
}

/// The law of which no part is below 0.
fn bounded(data: &[Datum]) -> Option<Law> {
    let ways = [[false, false], [true, false], [false, true], [true, true]];
    let obeys = |law: &Law| law.lambda > 0.0 && law.sigma >= 0.0 && law.kappa >= 0.0;
    let found = ways
        .into_iter()
        .filter_map(|way| solved(data, way))
        .filter(|(law, _)| obeys(law));
    found.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(law, _)| law)
}

/// The law with these of `sigma` and `kappa`, and the sum of its squared residuals.
fn solved(data: &[Datum], [with_sigma, with_kappa]: [bool; 2]) -> Option<(Law, f64)> {
    let column = |term: &dyn Fn(f64) -> f64| {
        data.iter()
            .map(|d| term(d.n) * d.x / d.n)
            .collect::<Vec<f64>>()
    };
    let mut columns = vec![column(&|_| 1.0)];
    if with_sigma {
        columns.push(column(&|n| n - 1.0));
    }
    if with_kappa {
        columns.push(column(&|n| n * (n - 1.0)));
    }
    let (found, residual) = least_squares(&columns)?;
    let mut found = found.into_iter();
    let a = found.next()?;
    let largest = data.iter().map(|datum| datum.n).fold(0.0, f64::max);
    let mut part = |with: bool, reach: f64| {
        let value = if with {
            found.next().unwrap_or(0.0) / a
        } else {
            0.0
        };
        if (value * reach).abs() < NEGLIGIBLE {
            0.0
        } else {
            value
        }
    };
    let sigma = part(with_sigma, largest - 1.0);
    let kappa = part(with_kappa, largest * (largest - 1.0));
    Some((
        Law {
            lambda: 1.0 / a,
            sigma,
            kappa,
        },
        residual,
    ))
}

/// The factors with which the columns come nearest to ones, and the sum of the squares that are
/// left: by modified Gram-Schmidt. None when a column is a sum of the others.
fn least_squares(columns: &[Vec<f64>]) -> Option<(Vec<f64>, f64)> {
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut left: Vec<f64> = columns.first()?.iter().map(|_| 1.0).collect();
    // Upper triangle: of each column its part along each direction before, and its own length.
    let (mut directions, mut triangle, mut along): (Vec<Vec<f64>>, Vec<Vec<f64>>, Vec<f64>) =
        Default::default();
    for column in columns {
        let mut rest = column.clone();
        let mut parts = Vec::new();
        for direction in &directions {
            let part = dot(&rest, direction);
            rest.iter_mut()
                .zip(direction)
                .for_each(|(value, unit)| *value -= part * unit);
            parts.push(part);
        }
        let length = dot(&rest, &rest).sqrt();
        if length <= 1e-9 * dot(column, column).sqrt() {
            return None;
        }
        for value in &mut rest {
            *value /= length;
        }
        parts.push(length);
        let part = dot(&left, &rest);
        left.iter_mut()
            .zip(&rest)
            .for_each(|(value, unit)| *value -= part * unit);
        directions.push(rest);
        triangle.push(parts);
        along.push(part);
    }
    let mut found = vec![0.0; columns.len()];
    for row in (0..columns.len()).rev() {
        let known: f64 = (row + 1..columns.len())
            .map(|later| triangle[later][row] * found[later])
            .sum();
        found[row] = (along[row] - known) / triangle[row][row];
    }
    Some((found, dot(&left, &left)))
}
