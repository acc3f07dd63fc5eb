//! Size of a tendency: the Hodges-Lehmann estimate and its exact interval.
//!
//! Hodges, J. L. and Lehmann, E. L. (1963), *Estimates of location based on rank tests*, Annals of
//! Mathematical Statistics 34; the interval: Tukey, J. W. (1949), and Lehmann (1975),
//! *Nonparametrics*, chapter 4.
//!
//! # Formulas
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

use serde::{Deserialize, Serialize};

use super::signed_rank::NullDistribution;
use crawlmark_harness::stats::median;

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
    #[must_use]
    pub fn map(self, growing: impl Fn(f64) -> f64) -> Self {
        Self {
            low: growing(self.low),
            high: growing(self.high),
        }
    }

    /// True if `value` is in it, ends included.
    #[must_use]
    pub fn contains(self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

/// The centre of some differences.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Centre {
    /// Hodges and Lehmann's.
    pub(super) estimate: f64,
    /// At [`LEVEL`]; none of fewer than 6 differences, which cannot tell so much.
    pub(super) interval: Option<Interval>,
}

impl Centre {
    /// Estimate of finite `differences`; none of none.
    pub(super) fn of(differences: &[f64]) -> Option<Self> {
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
    let mut averages = Vec::with_capacity(differences.len() * (differences.len() + 1) / 2);
    for (index, one) in differences.iter().enumerate() {
        averages.extend(
            differences[..=index]
                .iter()
                .map(|other| f64::midpoint(*one, *other)),
        );
    }
    averages
}

/// The standard deviation, with `n - 1`; none of fewer than 2.
pub(super) fn standard_deviation(differences: &[f64]) -> Option<f64> {
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let squares: f64 = differences.iter().map(|d| (d - mean).powi(2)).sum();
    (differences.len() > 1).then(|| (squares / (n - 1.0)).sqrt())
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "order statistics are taken, not computed")]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::studies::compare::signed_rank::p_above_zero;

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
    fn a_published_example_comes_out() {
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

    #[test]
    fn six_differences_are_the_fewest_with_an_interval() {
        let of = |n: i32| {
            Centre::of(&(1..=n).map(f64::from).collect::<Vec<_>>())
                .unwrap()
                .interval
        };
        assert_eq!(of(5), None);
        assert_eq!(
            of(6),
            Some(Interval {
                low: 1.0,
                high: 6.0
            })
        );
    }

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(
            standard_deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]),
            Some((32.0_f64 / 7.0).sqrt())
        );
        assert_eq!(standard_deviation(&[3.0]), None);
    }

    fn differences() -> impl Strategy<Value = Vec<f64>> {
        proptest::collection::vec(-1.0..1.0_f64, 6..=44)
    }

    proptest! {
        #[test]
        fn parting_finds_what_sorting_finds(differences in differences()) {
            let mut sorted = walsh_averages(&differences);
            sorted.sort_by(f64::total_cmp);
            let k = NullDistribution::untied(differences.len()).critical((1.0 - LEVEL) / 2.0).unwrap();
            let (last, half) = (sorted.len() - 1, sorted.len() / 2);
            let Centre { estimate, interval } = Centre::of(&differences).unwrap();
            prop_assert_eq!(estimate, f64::midpoint(sorted[last / 2], sorted[half]));
            prop_assert_eq!(interval, Some(Interval { low: sorted[k], high: sorted[last - k] }));
        }

        #[test]
        fn the_interval_holds_the_estimate(differences in differences()) {
            let centre = Centre::of(&differences).unwrap();
            prop_assert!(centre.interval.unwrap().contains(centre.estimate), "{:?}", centre);
        }

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
}
