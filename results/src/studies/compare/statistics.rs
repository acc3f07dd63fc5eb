//! The test of a tendency, its size, and the correction for several metrics.
//!
//! # Signed-rank test
//!
//! Wilcoxon's signed-rank test, exact: ties and zeros, too.
//!
//! Wilcoxon, F. (1945), *Individual comparisons by ranking methods*, Biometrics Bulletin 1; Pratt,
//! J. W. (1959), *Remarks on zeros and ties in the Wilcoxon signed rank procedures*, JASA 54;
//! Lehmann, E. L. (1975), *Nonparametrics: Statistical Methods Based on Ranks*, chapter 3.
//!
//! ## The test
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
//!
//! # Estimate
//!
//! Size of a tendency: the Hodges-Lehmann estimate and its exact interval.
//!
//! Hodges, J. L. and Lehmann, E. L. (1963), *Estimates of location based on rank tests*, Annals of
//! Mathematical Statistics 34; the interval: Tukey, J. W. (1949), and Lehmann (1975),
//! *Nonparametrics*, chapter 4.
//!
//! ## Formulas
//!
//! The *Walsh averages* of `d_1 .. d_n` are `(d_i + d_j)/2` over all `i <= j`: `N = n(n+1)/2` of
//! them. The estimate is their median. As many of them lie above a centre `c` as the `W+` of
//! `d_i - c` says. So with `k` the greatest number that has `P(W+ <= k) <= (1 - level)/2`, the
//! interval from the `(k+1)`-th smallest to the `(k+1)`-th greatest holds the centre with a
//! probability of `1 - 2 P(W+ <= k)`, which is at least `level`: 95.6 % for 95 % of 16 pairs. Noise
//! needs to be symmetric, which the difference of two equal noises is.
//!
//! An end of the interval is the inversion of the one-sided test: the test with every difference
//! made smaller by `x` is significant at `(1 - level)/2` exactly for the `x` below the lower end.
//!
//! # Correction
//!
//! Holm's step-down correction: several p values, of which the smallest may be small by chance.
//!
//! Holm, S. (1979), *A simple sequentially rejective multiple test procedure*, Scandinavian Journal
//! of Statistics 6. It assumes nothing about how the tests depend on each other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use crawlmark_harness::stats::median;
use crawlmark_harness::units::micros;
use serde::{Deserialize, Serialize};

/// `P(W+ >= w)` under the null hypothesis, for the sums `w` of some ranks.
#[derive(Debug)]
struct NullDistribution {
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

    /// Distribution of `1 ..= n`, the ranks of `n` differences without ties and zeros. It is kept
    /// once it is made: it costs as much as hundreds of tests.
    fn untied(n: usize) -> Arc<Self> {
        static KEPT: Mutex<BTreeMap<usize, Arc<NullDistribution>>> = Mutex::new(BTreeMap::new());
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let known = kept.entry(n).or_insert_with(|| Arc::new(Self::of(1..=n)));
        Arc::clone(known)
    }

    /// `P(W+ >= w)`; 0 beyond the greatest sum. More than 52 ranks round, by less than 1e-12.
    fn at_least(&self, w: usize) -> f64 {
        self.at_least.get(w).map_or(0.0, |p| p.min(1.0))
    }

    /// The greatest `w` with `P(W+ <= w) <= tail`; none when even 0 is likelier than that.
    fn critical(&self, tail: f64) -> Option<usize> {
        // By symmetry P(W+ <= w) is P(W+ >= greatest - w), which grows from the end on.
        self.at_least
            .iter()
            .rev()
            .take_while(|p| **p <= tail)
            .count()
            .checked_sub(1)
    }
}

/// The one-sided p value: how often differences without a tendency would tend above zero as clearly
/// as these. In `(0, 1]`; 1 of nothing, and of nothing but zeros. The differences are to be finite.
pub(in crate::studies) fn p_above_zero(differences: &[f64]) -> f64 {
    let mut by_size: Vec<f64> = differences.to_vec();
    by_size.sort_unstable_by(|one, other| one.abs().total_cmp(&other.abs()));
    let ranks = doubled_ranks(&by_size);
    let ranked = || by_size.iter().zip(ranks.iter().copied());
    let above: usize = ranked()
        .filter(|(difference, _)| **difference > 0.0)
        .map(|(_, rank)| rank)
        .sum();
    let is_untied = (1..).zip(&ranks).all(|(n, rank)| *rank == 2 * n);
    if is_untied && by_size.first() != Some(&0.0) {
        return NullDistribution::untied(by_size.len()).at_least(above / 2);
    }
    let taking_part = ranked().filter(|(difference, _)| **difference != 0.0);
    NullDistribution::of(taking_part.map(|(_, rank)| rank)).at_least(above)
}

/// The two-sided p value of the same test.
pub(in crate::studies) fn two_sided(differences: &[f64]) -> f64 {
    let turned: Vec<f64> = differences.iter().map(|difference| -difference).collect();
    let p = p_above_zero(differences).min(p_above_zero(&turned));
    (2.0 * p).min(1.0)
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

/// The autocorrelation of neighbours in segments, `sum (d_i - m)(d_(i+1) - m) / sum (d_i - m)^2`
/// with the mean `m` of each segment; none where all of each are equal.
pub(in crate::studies) fn autocorrelation<'a>(
    segments: impl IntoIterator<Item = &'a [f64]>,
) -> Option<f64> {
    let (mut products, mut squares) = (0.0, 0.0);
    // The mean of equal values differs from them by rounding, which is correlated.
    let varied = segments.into_iter().filter(|segment| {
        segment
            .windows(2)
            .any(|two| two[0].total_cmp(&two[1]).is_ne())
    });
    for segment in varied {
        let mean = segment.iter().sum::<f64>() / segment.len() as f64;
        let beyond: Vec<f64> = segment.iter().map(|value| value - mean).collect();
        squares += beyond.iter().map(|one| one * one).sum::<f64>();
        products += beyond.windows(2).map(|two| two[0] * two[1]).sum::<f64>();
    }
    (squares > 0.0).then(|| products / squares)
}

/// The two-sided level of every interval: its upper end is the one-sided bound of 97.5 % that a
/// pass needs.
pub const LEVEL: f64 = 0.95;

/// An interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Interval {
    /// The interval of something that grows with this one's.
    pub fn map(self, growing: impl Fn(f64) -> f64) -> Self {
        Self {
            low: growing(self.low),
            high: growing(self.high),
        }
    }

    /// True if `value` is in it, ends included.
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The centre of some differences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(in crate::studies) struct Centre {
    /// Hodges and Lehmann's.
    pub(in crate::studies) estimate: f64,
    /// At [`LEVEL`]; none of fewer than 6 differences, which cannot tell so much.
    pub(in crate::studies) interval: Option<Interval>,
}

impl Centre {
    /// Estimate of finite `differences`; none of none.
    pub(in crate::studies) fn of(differences: &[f64]) -> Option<Self> {
        let mut walsh = walsh_averages(differences);
        // Parting at the ends of the interval first leaves the middle for the median: half the work
        // of sorting.
        let critical = NullDistribution::untied(differences.len()).critical((1.0 - LEVEL) / 2.0);
        let ends = critical.map(|k| {
            let greatest = walsh.len() - 1 - k;
            let (below, high, _) = walsh.select_nth_unstable_by(greatest, f64::total_cmp);
            let high = *high;
            let (_, low, _) = below.select_nth_unstable_by(k, f64::total_cmp);
            Interval { low: *low, high }
        });
        let between = critical.map_or(0..walsh.len(), |k| k..walsh.len() - k);
        Some(Self {
            estimate: median(walsh.get_mut(between)?)?,
            interval: ends,
        })
    }
}

/// All averages of two differences and of each with itself.
fn walsh_averages(differences: &[f64]) -> Vec<f64> {
    let mut averages = Vec::new();
    for (index, one) in differences.iter().enumerate() {
        let others = differences[..=index].iter();
        averages.extend(others.map(|other| f64::midpoint(*one, *other)));
    }
    averages
}

/// The standard deviation, with `n - 1`; none of fewer than 2.
pub(in crate::studies) fn standard_deviation(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
    (differences.len() > 1).then(|| (squares / (n - 1.0)).sqrt())
}

/// The adjusted p values, in the order given. With the `m` raw ones sorted, `p_(1) <= .. <= p_(m)`,
/// the adjusted i-th is the greatest of `(m - j + 1) p_(j)` over `j <= i`, and at most 1. Rejecting
/// those that are at most alpha rejects any true null hypothesis with a probability of at most
/// alpha.
pub fn holm(raw: &[f64]) -> Vec<f64> {
    let mut by_size: Vec<usize> = (0..raw.len()).collect();
    by_size.sort_by(|&one, &other| raw[one].total_cmp(&raw[other]));
    let mut adjusted = vec![1.0; raw.len()];
    let mut greatest: f64 = 0.0;
    for (rank, &index) in by_size.iter().enumerate() {
        greatest = greatest
            .max((raw.len() - rank) as f64 * raw[index])
            .min(1.0);
        adjusted[index] = greatest;
    }
    adjusted
}

/// A ratio and its interval as a change: `+4.9 % (+4.7 .. +5.1)`.
pub(crate) fn change(ratio: f64, interval: Option<Interval>) -> String {
    let interval = interval.map_or_else(String::new, |interval| {
        format!(" ({} .. {})", signed(interval.low), signed(interval.high))
    });
    format!("{} %{interval}", signed(ratio))
}

/// A ratio as a change, and its interval: `−4.9 %` and `−5.1 to −4.6 %`, empty without one.
pub(crate) fn change_in_two(ratio: f64, interval: Option<Interval>) -> [String; 2] {
    let interval = match interval {
        Some(Interval { low, high }) => format!("{} to {} %", with_minus(low), with_minus(high)),
        None => String::new(),
    };
    [format!("{} %", with_minus(ratio)), interval]
}

/// A ratio as a change in percent, with a minus sign in place of a hyphen.
fn with_minus(ratio: f64) -> String {
    signed(ratio).replace('-', "\u{2212}")
}

/// A change of a time, µs, and its interval: `+3.1 µs (+2.6 µs .. +3.7 µs)`.
pub(crate) fn time_change(us: f64, interval: Option<Interval>) -> String {
    let signed = |us: f64| {
        let sign = if us < 0.0 { "-" } else { "+" };
        format!("{sign}{}", micros(us.abs()))
    };
    let interval = interval.map_or_else(String::new, |Interval { low, high }| {
        format!(" ({} .. {})", signed(low), signed(high))
    });
    format!("{}{interval}", signed(us))
}

/// A ratio as a change in percent, with its sign.
fn signed(ratio: f64) -> String {
    let percent = (ratio - 1.0) * 100.0;
    match percent.abs() {
        // A small loss would be shown as -0.0.
        size if size < 0.05 => "+0.0".to_owned(),
        size if size < 9.95 => format!("{percent:+.1}"),
        _ => format!("{percent:+.0}"),
    }
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
    fn a_published_example_comes_out() {
        // Siegel, S. (1956), Nonparametric Statistics, p. 79, as in the manual of the NAG library,
        // g08ag: the sum of the positive ranks is 32, and the two-tailed probability .0547.
        let differences = [19.0, 27.0, -1.0, 6.0, 7.0, 13.0, -4.0, 3.0];
        assert!((2.0 * p_above_zero(&differences) - 0.0547).abs() < 0.000_05);
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
        fn adding_to_every_difference_never_makes_it_less_clear(
            differences in proptest::collection::vec(-1.0..1.0_f64, 1..=20),
            more in 0.0..1.0_f64,
        ) {
            let moved: Vec<f64> = differences.iter().map(|d| d + more).collect();
            prop_assert!(p_above_zero(&moved) <= p_above_zero(&differences) + 1e-12);
        }
    }

    #[test]
    fn the_estimate_is_the_median_of_the_walsh_averages() {
        let mut averages = walsh_averages(&[1.0, 5.0, 2.0]);
        averages.sort_by(f64::total_cmp);
        assert_eq!(averages, [1.0, 1.5, 2.0, 3.0, 3.5, 5.0]);
        let centre = Centre::of(&[1.0, 5.0, 2.0]).unwrap();
        assert_eq!((centre.estimate, centre.interval), (2.5, None));
        assert_eq!(Centre::of(&[]), None);
        assert_eq!(Centre::of(&[4.0]).unwrap().estimate, 4.0);
    }

    #[test]
    #[expect(clippy::approx_constant, reason = "one of the patients scored 3.14")]
    fn a_published_estimate_comes_out() {
        // Hollander and Wolfe (1973), Nonparametric Statistical Methods, p. 29 ff: a depression
        // scale before and after therapy. Their estimate is -.46, and -.786 to -.010 an interval of
        // 96.1 % (P(W+ <= 5) = .0195).
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let differences: Vec<f64> = before
            .iter()
            .zip(after)
            .map(|(before, after)| after - before)
            .collect();
        let Centre { estimate, interval } = Centre::of(&differences).unwrap();
        let Interval { low, high } = interval.unwrap();
        assert!((estimate + 0.46).abs() < 0.000_1, "{estimate}");
        assert!(
            (low + 0.786).abs() < 0.000_6 && (high + 0.010).abs() < 0.000_6,
            "{low} to {high}"
        );
    }

    fn differences() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(-1.0..1.0_f64, 6..=44)
    }

    proptest! {
        #[test]
        fn the_interval_is_the_test_turned_round(differences in differences()) {
            let Interval { low, high } = Centre::of(&differences).unwrap().interval.unwrap();
            let p = |x: f64| p_above_zero(&differences.iter().map(|d| d - x).collect::<Vec<_>>());
            let (tail, a_little) = ((1.0 - LEVEL) / 2.0, 1e-9);
            prop_assert!(p(low - a_little) <= tail && p(low + a_little) > tail, "{} {}", p(low - a_little), p(low + a_little));
            let p_below = |x: f64| p_above_zero(&differences.iter().map(|d| x - d).collect::<Vec<_>>());
            prop_assert!(p_below(high + a_little) <= tail && p_below(high - a_little) > tail);
        }
    }

    fn close(adjusted: &[f64], expected: &[f64]) {
        assert_eq!(adjusted.len(), expected.len());
        for (one, other) in adjusted.iter().zip(expected) {
            assert!(
                (one - other).abs() < 1e-12,
                "{adjusted:?} is not {expected:?}"
            );
        }
    }

    #[test]
    fn steps_down_and_never_back() {
        close(&holm(&[]), &[]);
        close(&holm(&[0.03]), &[0.03]);
        // By hand: 4 x .005, 3 x .01, then 2 x .03 and 1 x .04, which may not fall below the .06
        // before it.
        close(&holm(&[0.01, 0.04, 0.03, 0.005]), &[0.03, 0.06, 0.06, 0.02]);
        close(&holm(&[0.6, 0.5]), &[1.0, 1.0]);
    }
}
