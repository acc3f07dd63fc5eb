//! Size of the difference between two unpaired samples.
//!
//! Hodges and Lehmann's estimate (1963): the median of `ln(candidate_j / base_i)` over all pairs of
//! a value of each sample. As many of them lie below a shift as the Mann-Whitney statistic of the
//! shifted samples says, so the interval is that test turned round (Lehmann, E. L. (1975),
//! *Nonparametrics: Statistical Methods Based on Ranks*, chapter 2), with the normal approximation.
//! Samples of four have the shortest that is one, of 97 %.

use crawlmark_harness::stats::median;
use serde::{Deserialize, Serialize};

use super::compare::{Interval, change};
use crate::show::text::decimal;

/// The most values of a sample that are taken, evenly by size.
const MOST: usize = 1_000;

/// Quantile of the normal distribution for an interval of 95 %.
const Z: f64 = 1.959_964;

/// Difference of two samples.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Shift {
    /// Median of the first sample.
    pub before: f64,
    /// Median of the second one.
    pub after: f64,
    /// Estimate of the ratio of the second to the first; null where values are not above 0.
    pub ratio: Option<f64>,
    /// Interval of the ratio at 95 %; null where values are too few.
    pub ratio_interval: Option<Interval>,
}

impl Shift {
    /// The difference of two samples; none where one is empty.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place among the ratios"
    )]
    pub fn between(before: &[f64], after: &[f64]) -> Option<Self> {
        let mut shift = Self {
            before: median(&mut before.to_vec())?,
            after: median(&mut after.to_vec())?,
            ratio: None,
            ratio_interval: None,
        };
        if before.iter().chain(after).all(|value| *value > 0.0) {
            let mut logarithms = Vec::new();
            let seconds = thinned(after);
            for first in thinned(before) {
                logarithms.extend(seconds.iter().map(|second| (second / first).ln()));
            }
            logarithms.sort_unstable_by(f64::total_cmp);
            let (m, n) = (before.len() as f64, after.len() as f64);
            let beyond = m * n / 2.0 - 0.5 - Z * (m * n * (m + n + 1.0) / 12.0).sqrt();
            if beyond >= 0.0 {
                let end = (beyond / (m * n) * logarithms.len() as f64) as usize;
                let [low, high] = [end, logarithms.len() - 1 - end].map(|at| logarithms[at].exp());
                shift.ratio_interval = Some(Interval { low, high });
            }
            shift.ratio = median(&mut logarithms).map(f64::exp);
        }
        Some(shift)
    }

    /// The estimate and its interval: `+4.9 % (+4.7 .. +5.1)`; a dash without one.
    pub fn words(&self) -> String {
        let ratio = self.ratio;
        ratio.map_or_else(
            || "-".to_owned(),
            |ratio| change(ratio, self.ratio_interval),
        )
    }

    /// The same in a sentence: both medians without an estimate.
    pub fn in_sentence(&self) -> String {
        if self.ratio.is_some() {
            return self.words();
        }
        format!("{} to {}", decimal(self.before), decimal(self.after))
    }
}

/// At most [`MOST`] of the values, evenly by size.
fn thinned(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let taken = sorted.len().min(MOST);
    (0..taken)
        .map(|n| sorted[(2 * n + 1) * sorted.len() / (2 * taken)])
        .collect()
}
