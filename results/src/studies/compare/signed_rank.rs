//! Wilcoxon's signed-rank test, exact: ties and zeros, too.
//!
//! Wilcoxon, F. (1945), *Individual comparisons by ranking methods*, Biometrics Bulletin 1; Pratt,
//! J. W. (1959), *Remarks on zeros and ties in the Wilcoxon signed rank procedures*, JASA 54;
//! Lehmann, E. L. (1975), *Nonparametrics: Statistical Methods Based on Ranks*, chapter 3.
//!
//! # The test
//!
//! For differences `d_1 .. d_n`, let `r_i` be the rank of `|d_i|` among all, 1 for the smallest,
//! and
//!
//! ```text
//! W+ = sum of r_i over the i with d_i > 0
//! ```
//!
//! When each sign is plus or minus with even odds, whatever the magnitudes, `W+` is a sum of
//! independent coins that show 0 or `r_i`. Its distribution is built one rank at a time:
//!
//! ```text
//! P_k(W+ = w) = (P_(k-1)(W+ = w) + P_(k-1)(W+ = w - r_k)) / 2
//! ```
//!
//! Every probability is a multiple of `2^-n`, which `f64` holds exactly for n up to 52. Nothing is
//! assumed of the noise but that either sign is equally likely, which the random order of the arms
//! sees to.
//!
//! - **Ties** share the mean of their ranks, and the distribution is that of those ranks: doubled,
//!   they are integers.
//! - **Zeros** are ranked with the others and then take no part (Pratt's way): dropping them before
//!   ranking could make a result significant by adding pairs without a difference.

use std::sync::{Arc, OnceLock};

/// Distributions of fewer pairs than this are kept once they are made, at most 0.4 MB of them: each
/// costs as much as hundreds of tests.
const KEPT_BELOW: usize = 64;

/// `P(W+ >= w)` under the null hypothesis, for the sums `w` of some ranks.
#[derive(Debug)]
pub(super) struct NullDistribution {
    at_least: Vec<f64>,
}

impl NullDistribution {
    /// Distribution of any ranks. `O(ranks x sum)`.
    fn of(ranks: impl IntoIterator<Item = usize>) -> Self {
        let mut density = vec![1.0];
        for rank in ranks {
            let mut next = vec![0.0; density.len() + rank];
            for (sum, half) in density.iter().map(|p| p / 2.0).enumerate() {
                next[sum] += half;
                next[sum + rank] += half;
            }
            density = next;
        }
        let mut above = 0.0;
        for p in density.iter_mut().rev() {
            above += *p;
            *p = above;
        }
        Self { at_least: density }
    }

    /// Distribution of `1 ..= n`, the ranks of `n` differences without ties and zeros.
    pub(super) fn untied(n: usize) -> Arc<Self> {
        static KEPT: [OnceLock<Arc<NullDistribution>>; KEPT_BELOW] =
            [const { OnceLock::new() }; KEPT_BELOW];
        let make = || Arc::new(Self::of(1..=n));
        KEPT.get(n)
            .map_or_else(make, |kept| Arc::clone(kept.get_or_init(make)))
    }

    /// `P(W+ >= w)`; 0 beyond the greatest sum. More than 52 ranks round, by less than 1e-12.
    fn at_least(&self, w: usize) -> f64 {
        self.at_least.get(w).map_or(0.0, |p| p.min(1.0))
    }

    /// `P(W+ <= w)`: the distribution is symmetric.
    #[cfg(test)]
    fn at_most(&self, w: usize) -> f64 {
        let greatest = self.at_least.len() - 1;
        if w >= greatest {
            1.0
        } else {
            self.at_least(greatest - w)
        }
    }

    /// The greatest `w` with `P(W+ <= w) <= tail`; none when even 0 is likelier than that.
    pub(super) fn critical(&self, tail: f64) -> Option<usize> {
        // By symmetry P(W+ <= w) is P(W+ >= greatest - w), which grows from the end on.
        let within = self
            .at_least
            .iter()
            .rev()
            .take_while(|p| **p <= tail)
            .count();
        within.checked_sub(1)
    }
}

/// The one-sided p value: how often differences without a tendency would tend above zero as clearly
/// as these. In `(0, 1]`; 1 of nothing, and of nothing but zeros. The differences are to be finite.
pub(super) fn p_above_zero(differences: &[f64]) -> f64 {
    let mut by_size: Vec<f64> = differences.to_vec();
    by_size.sort_unstable_by(|one, other| one.abs().total_cmp(&other.abs()));
    let ranks = doubled_ranks(&by_size);
    let sum = |taken: &dyn Fn(f64) -> bool| -> usize {
        by_size
            .iter()
            .zip(&ranks)
            .filter(|(difference, _)| taken(**difference))
            .map(|(_, rank)| rank)
            .sum()
    };
    let above = sum(&|difference| difference > 0.0);
    if ranks
        .iter()
        .enumerate()
        .all(|(index, rank)| *rank == 2 * (index + 1))
        && by_size.first() != Some(&0.0)
    {
        return NullDistribution::untied(by_size.len()).at_least(above / 2);
    }
    let taking_part = by_size
        .iter()
        .zip(&ranks)
        .filter(|(difference, _)| **difference != 0.0)
        .map(|(_, rank)| *rank);
    NullDistribution::of(taking_part).at_least(above)
}

/// Twice the mid-rank of each magnitude; `by_size` is sorted by it.
fn doubled_ranks(by_size: &[f64]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(by_size.len());
    for tied in by_size.chunk_by(|one, other| one.abs().total_cmp(&other.abs()).is_eq()) {
        let (first, last) = (ranks.len() + 1, ranks.len() + tied.len());
        ranks.extend(std::iter::repeat_n(first + last, tied.len()));
    }
    ranks
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the probabilities are exact")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// By the definition: over all `2^n` signs of the magnitudes.
    fn by_enumeration(differences: &[f64]) -> f64 {
        let mut by_size = differences.to_vec();
        by_size.sort_by(|one, other| one.abs().total_cmp(&other.abs()));
        let ranks = doubled_ranks(&by_size);
        let above: usize = (0..ranks.len())
            .filter(|&i| by_size[i] > 0.0)
            .map(|i| ranks[i])
            .sum();
        let free: Vec<usize> = (0..ranks.len())
            .filter(|&i| by_size[i] != 0.0)
            .map(|i| ranks[i])
            .collect();
        let sums = (0_u32..1 << free.len()).map(|signs| {
            (0..free.len())
                .filter(|&i| signs >> i & 1 == 1)
                .map(|i| free[i])
                .sum::<usize>()
        });
        sums.filter(|&sum| sum >= above).count() as f64 / f64::from(1_u32 << free.len())
    }

    /// Critical values at the one-sided 2.5 % from 6 pairs on: OEIS A226330, which counts them
    /// exactly (after P. Mitic, *Critical values for the Wilcoxon signed rank statistic*, The
    /// Mathematica Journal 6). Tables made from the normal approximation differ by one here and
    /// there.
    const ONE_SIDED_025: [usize; 35] = [
        0, 2, 3, 5, 8, 10, 13, 17, 21, 25, 29, 34, 40, 46, 52, 58, 65, 73, 81, 89, 98, 107, 116,
        126, 137, 147, 159, 170, 182, 195, 208, 221, 235, 249, 264,
    ];

    #[test]
    fn critical_values_are_the_published_ones() {
        for (n, critical) in (6..).zip(ONE_SIDED_025) {
            assert_eq!(
                NullDistribution::untied(n).critical(0.025),
                Some(critical),
                "{n} pairs"
            );
        }
        assert_eq!(
            NullDistribution::untied(5).critical(0.025),
            None,
            "2^-5 is more than 2.5 %"
        );
    }

    #[test]
    fn probabilities_are_the_published_ones() {
        // Counts of subsets of 1..=n by their sum, over 2^n: Wilcoxon, Katti and Wilcox (1970),
        // Selected Tables in Mathematical Statistics 1, have them to four digits: .0244 and .0322;
        // .0240 and .0277; .0222 and .0253.
        for (n, w, published) in [
            (3, 0, 0.1250),
            (5, 0, 0.0312),
            (10, 8, 0.0244),
            (10, 9, 0.0322),
            (15, 25, 0.0240),
            (15, 26, 0.0277),
            (16, 29, 0.0222),
            (16, 30, 0.0253),
        ] {
            let p = NullDistribution::untied(n).at_most(w);
            assert!(
                (p - published).abs() < 0.000_051,
                "P(W+ <= {w}) of {n} is {p}, not {published}"
            );
        }
        // 25 subsets of 1..=16 have a sum of 8 or less.
        assert_eq!(NullDistribution::untied(16).at_most(8), 25.0 / 65_536.0);
    }

    #[test]
    fn a_published_example_comes_out() {
        // Siegel, S. (1956), Nonparametric Statistics, p. 79, as in the manual of the NAG library,
        // g08ag: the sum of the positive ranks is 32, and the two-tailed probability .0547.
        let differences = [19.0, 27.0, -1.0, 6.0, 7.0, 13.0, -4.0, 3.0];
        assert!((2.0 * p_above_zero(&differences) - 0.0547).abs() < 0.000_05);
    }

    #[test]
    fn the_ends_are_where_they_should_be() {
        let all: Vec<f64> = (1..=16).map(f64::from).collect();
        assert_eq!(p_above_zero(&all), 2.0_f64.powi(-16));
        assert_eq!(
            p_above_zero(&all.iter().map(|d| -d).collect::<Vec<_>>()),
            1.0
        );
        assert_eq!(p_above_zero(&[]), 1.0);
        assert_eq!(p_above_zero(&[0.0, -0.0, 0.0]), 1.0);
        let more_than_are_kept: Vec<f64> = (1..=70).map(f64::from).collect();
        assert_eq!(p_above_zero(&more_than_are_kept), 2.0_f64.powi(-70));
    }

    #[test]
    fn zeros_are_ranked_and_take_no_part() {
        // Ranks 1.5, 1.5, 3, 4, 5 of 0, 0, 1, 2, -3: of the eight ways to sign 3, 4 and 5, four
        // reach 3 + 4.
        assert_eq!(p_above_zero(&[0.0, 2.0, -3.0, 1.0, 0.0]), 4.0 / 8.0);
        // Without the zeros they are 1, 2 and 3, and five of eight ways reach 1 + 2.
        assert_eq!(p_above_zero(&[2.0, -3.0, 1.0]), 5.0 / 8.0);
    }

    /// Coarse values, so that ties and zeros are common.
    fn tied() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec((-4_i8..=4).prop_map(f64::from), 0..=11)
    }

    proptest! {
        #[test]
        fn the_exact_p_is_the_share_of_all_signs(differences in tied()) {
            prop_assert_eq!(p_above_zero(&differences), by_enumeration(&differences));
        }

        #[test]
        fn the_exact_p_without_ties_is_the_share_of_all_signs(
            differences in proptest::collection::vec(-1.0..1.0_f64, 0..=11),
        ) {
            prop_assert_eq!(p_above_zero(&differences), by_enumeration(&differences));
        }

        #[test]
        fn a_p_value_is_above_nought_and_at_most_one(differences in proptest::collection::vec(-1e3..1e3_f64, 0..=44)) {
            let p = p_above_zero(&differences);
            prop_assert!(p > 0.0 && p <= 1.0, "{}", p);
        }

        #[test]
        fn adding_to_every_difference_never_makes_it_less_clear(
            differences in proptest::collection::vec(-1.0..1.0_f64, 1..=20),
            more in 0.0..1.0_f64,
        ) {
            let moved: Vec<f64> = differences.iter().map(|d| d + more).collect();
            prop_assert!(p_above_zero(&moved) <= p_above_zero(&differences) + 1e-12);
        }
    }
}
