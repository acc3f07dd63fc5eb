//! Looks of a comparison: the pairs and the error of each, and the smallest loss that it would have
//! found.
//!
//! Constants of the method: [`super::judge`] applies them.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A loss that is surely below this fraction of the base passes. Below the 5 % that are promised to
/// be found: a bound of 5 % would let 2.5 % of such losses pass.
pub const PASSES_BELOW: f64 = 0.04;

/// The power at which the minimum detectable effect is stated.
pub const STATED_POWER: f64 = 0.95;

/// Limit on disturbed pairs: no more than one in this many of the pairs run up to a look.
const ONE_DISTURBED_IN: usize = 4;

/// One look at the pairs so far.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Number of undisturbed pairs that it looks at.
    pub pairs: usize,
    /// The adjusted p value that it takes for significant.
    pub alpha: f64,
}

/// The looks of a comparison, by growing numbers of pairs.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    looks: Vec<Look>,
}

impl Rule {
    /// Three looks, at 16, 28 and 44 pairs, at .0015, .003 and .0075.
    ///
    /// The probability that a true null hypothesis is rejected at any of them is at most their sum,
    /// 1.2 %, and is in fact less, because the looks share pairs (alpha spending: Lan, K. K. G. and
    /// `DeMets`, D. L. (1983), *Discrete sequential boundaries for clinical trials*, Biometrika
    /// 70). How much less was simulated, 4,000,000 trials of Gaussian noise: 0.98 % for one metric,
    /// and 0.97 % for any of four, whichever way they depend on each other (four times the
    /// probability that one is rejected at a quarter of the alphas; 0.005 % standard error).
    ///
    /// The looks were first to be at 16, 28 and 40 pairs at .002, .003 and .0075. In the same
    /// simulation that was 1.005 % for any of four, and found a cost that is 5 % higher in one of
    /// four metrics, at a noise of 5 %, in 87.9 % of trials; with 40 pairs even a single look that
    /// spends all of 1 % finds only 89.4 %. With 44 it is 91.6 %.
    #[must_use]
    pub fn standard() -> Self {
        let looks = [(16, 0.0015), (28, 0.003), (44, 0.0075)];
        Self {
            looks: looks.map(|(pairs, alpha)| Look { pairs, alpha }).to_vec(),
        }
    }

    /// A single look at `pairs` pairs, at least one. Its exact test rejects a true null hypothesis
    /// with the greatest probability of at most `alpha` that so many signs can have.
    #[must_use]
    pub fn one_look(pairs: usize, alpha: f64) -> Self {
        Self {
            looks: vec![Look {
                pairs: pairs.max(1),
                alpha,
            }],
        }
    }

    /// The looks.
    #[must_use]
    pub fn looks(&self) -> &[Look] {
        &self.looks
    }
}

impl Look {
    /// True if `disturbed` pairs, run again on the way to this look, are more than a quarter of all
    /// that were run.
    #[must_use]
    pub(super) const fn is_too_disturbed(self, disturbed: usize) -> bool {
        disturbed * ONE_DISTURBED_IN > self.pairs + disturbed
    }

    /// The smallest true loss, as a logarithm, that `pairs` pairs of this noise would have shown to
    /// be a regression in 95 of 100 comparisons:
    ///
    /// ```text
    /// max(t(1 - alpha/m), smallest / e) e + t(0.95) e        e = s / sqrt(n)
    /// ```
    ///
    /// with `s` the standard deviation of the log ratios, `n` the pairs, `m` the metrics of the
    /// family, `smallest` the loss below which nothing is called a regression, and `t` the
    /// quantiles of Student's distribution with `n - 1` degrees of freedom. It takes the noise for
    /// Gaussian, for which the signed-rank test needs 5 % more pairs than the t test that this
    /// describes. None of fewer than two pairs.
    pub(super) fn minimum_detectable(self, noise: Noise) -> Option<f64> {
        let Noise {
            pairs,
            deviation,
            family,
            smallest,
        } = noise;
        let degrees = pairs.checked_sub(1).filter(|degrees| *degrees > 0)?;
        let student = StudentsT::new(0.0, 1.0, degrees as f64).ok()?;
        let error = deviation / (pairs as f64).sqrt();
        let significant = student.inverse_cdf(1.0 - self.alpha / family.max(1) as f64) * error;
        Some(significant.max(smallest) + student.inverse_cdf(STATED_POWER) * error)
    }
}

/// Inputs of a minimum detectable effect beside the look.
#[derive(Debug, Clone, Copy)]
pub(super) struct Noise {
    /// Number of pairs.
    pub(super) pairs: usize,
    /// The standard deviation of their log ratios.
    pub(super) deviation: f64,
    /// Number of metrics that share the error.
    pub(super) family: usize,
    /// The smallest loss that counts, as a logarithm.
    pub(super) smallest: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_the_published_ones() {
        // Student's t, one-sided: any table (for instance NIST/SEMATECH e-Handbook, 1.3.6.7.2).
        for (degrees, p, published) in [
            (1.0, 0.95, 6.314),
            (15.0, 0.95, 1.753),
            (15.0, 0.999, 3.733),
            (30.0, 0.975, 2.042),
            (100.0, 0.99, 2.364),
        ] {
            let quantile = StudentsT::new(0.0, 1.0, degrees).unwrap().inverse_cdf(p);
            assert!(
                (quantile - published).abs() < 0.0006,
                "t({p}; {degrees}) is {quantile}, not {published}"
            );
        }
    }

    #[test]
    fn what_can_be_found_follows_from_noise_and_pairs() {
        let look = Look {
            pairs: 16,
            alpha: 0.004,
        };
        let noise = Noise {
            pairs: 16,
            deviation: 0.04,
            family: 4,
            smallest: 0.0,
        };
        // (3.733 + 1.753) x .04 / 4
        let found = look.minimum_detectable(noise).unwrap();
        assert!((found - 0.054_86).abs() < 0.000_01, "{found}");
        let quiet = Noise {
            deviation: 0.0,
            smallest: 0.02,
            ..noise
        };
        assert_eq!(
            look.minimum_detectable(quiet),
            Some(0.02),
            "less than that is never a regression"
        );
        assert_eq!(look.minimum_detectable(Noise { pairs: 1, ..noise }), None);
    }

    #[test]
    fn a_quarter_of_the_pairs_may_be_disturbed() {
        let look = Look {
            pairs: 16,
            alpha: 0.01,
        };
        // 5 of 21 are less than a quarter, 6 of 22 more.
        assert!(!look.is_too_disturbed(5));
        assert!(look.is_too_disturbed(6));
    }

    #[test]
    fn looks_come_by_growing_numbers_of_pairs_in_whole_blocks() {
        let rule = Rule::standard();
        assert!(
            rule.looks()
                .is_sorted_by(|one, next| one.pairs < next.pairs)
        );
        assert!(
            rule.looks()
                .iter()
                .all(|look| look.pairs % 2 == 0 && look.alpha < 0.01)
        );
    }
}
