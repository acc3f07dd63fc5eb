//! `MetricVerdict`: is the candidate worse than the base? Judges paired rounds of two arms, metric
//! by metric.
//!
//! Called with the pairs of a comparison, all of them each time: by the code that runs pairs, to
//! know whether more are needed, and by the code that reads them back, which then gets the same
//! verdict. Pure: it runs nothing, reads no clock, draws no number. It never compares two single
//! runs, and never data that were taken one arm after the other.
//!
//! | file | holds |
//! |---|---|
//! | `design` | arms, rounds and pairs; the order in which pairs run; what disturbed them |
//! | `statistics` | test of a difference, its size, correction for several metrics |
//! | `judgement` | looks and their error, verdicts at a look, result |
//! | `shape` | times of both sides beside their medians: a second mode, a wider spread |
//! | `profile` | functions of both sides: which of them use more CPU time |
//! | `contest` | `comparison.json`: its findings and tables |
//! | `chart` | its pairs and estimates on one axis |
//!
//! # Method
//!
//! The unit is a [`Pair`] of rounds with fresh processes and the same seed and IDs, one right after
//! the other, in an order drawn at random in blocks of AB and BA ([`OrderSchedule`]). Rounds of
//! commands take turns, and the unit is a pair of their executions. For each metric and pair `i`
//!
//! ```text
//! d_i = ln(candidate_i / base_i)          w_i = d_i for a cost, -d_i for a yield: above 0 is worse
//! ```
//!
//! Numbers that commands print may be 0 or negative. Of two below 0, `d_i` is that of their sizes,
//! turned round; of two equal ones it is 0; of any others it is greater than any ratio, and its sign
//! alone counts. (A rate, a time or a share of 0 is no reading.)
//!
//! A slow drift is in both readings and drops out of `d_i`; the random order makes either sign
//! equally likely when the arms are equal, whatever else drifts or repeats between pairs. So the
//! test needs no other assumption. What it does assume is that a round leaves nothing behind for
//! the next one: hence fresh processes.
//!
//! 1. **p**: exact one-sided signed-rank test of the `w_i` (Wilcoxon 1945), corrected over the at
//!    most five metrics that may decide (Holm 1979).
//! 2. **Effect**: Hodges and Lehmann's estimate of the centre of the `d_i` (1963), with an exact
//!    interval of at least 95 %.
//! 3. **Looks** after 16, 28 and 44 undisturbed pairs, each with its own share of the error
//!    ([`LOOKS`]). The first look at which a metric is a regression, or all pass, ends the
//!    comparison; pairs beyond it are not looked at.
//!
//! | verdict | when |
//! |---|---|
//! | regression | corrected p is at most the look's alpha, and the estimate is a loss of at least 2 % (99th percentile: 5 %; commands: 1 %) |
//! | pass | the upper end of the interval, a bound of at least 97.5 %, is a loss below 4 % (commands: 2.5 %; [`Metric::passes_below`]) |
//! | regression | also where a metric is worse by more than half of the base in every one of six pairs or more, or a yield is 0 in each of two |
//! | regression | also where readings too coarse to decide are worse by more than half in every one of sixteen pairs or more |
//! | inconclusive | also where all of the interval of such readings is a loss that counts: a pass stands above nothing that surely got worse |
//! | inconclusive | neither, or readings are missing; says what could have been found, and why nothing was |
//! | informational | a reading is too coarse to decide ([`Reading::percentile`], [`Reading::of_much`]), or the base has no such percentile |
//!
//! `judgement` decides for one metric, `Overall::of` over all.
//!
//! A loss of the 99th percentile that is surely between 4 and 5 % stays inconclusive: it is too
//! much to pass, and too little to be called a regression.
//!
//! Disturbed pairs are not looked at: those whose rounds were disturbed unequally
//! ([`Disturbance::of_pair`]). Each is run again in the same order; when that would be more than a
//! quarter of all pairs, the comparison is over and inconclusive.
//!
//! # How often it is wrong
//!
//! Simulated, 40,000 comparisons of four metrics each, of which the first is worse by `loss` of the
//! base (a cost times 1.05 or 1.1; the harder way: a throughput times 0.95 is a greater effect).
//! *Noise* is the standard deviation of a round of one arm after pairing, `sd(d)/sqrt(2)`, as every
//! [`Evidence`] has it. *Outliers*: one round in ten takes longer by 30 % on average, beside
//! Gaussian noise. In percent of the comparisons; the rest is inconclusive.
//!
//! | noise | loss 0: regression, pass, mean pairs | loss 5 %: regression, pass, mean pairs | loss 10 %: regression |
//! |---|---|---|---|
//! | 1 % | 0.00, 100.0, 16.0 | 100.0, 0.00, 16.0 | 100.0 |
//! | 2 % | 0.06, 99.9, 16.1 | 100.0, 0.03, 16.4 | 100.0 |
//! | 3 % | 0.26, 99.7, 19.7 | 99.8, 0.23, 21.5 | 100.0 |
//! | 5 % | 0.69, 81.0, 36.6 | 91.8, 0.38, 34.2 | 100.0 |
//! | 10 % | 0.94, 3.6, 43.8 | 23.8, 0.08, 42.8 | 90.2 |
//! | 3 % and outliers | 0.66, 87.6, 34.2 | 91.8, 0.27, 32.3 | 99.6 |
//! | 5 % and outliers | 0.82, 34.2, 42.3 | 61.2, 0.24, 39.5 | 98.9 |
//!
//! Of commands, whose three metrics have narrower limits ([`Metric::of_command`]), with one execution
//! a round; ten have the verdicts of a third of the noise:
//!
//! | noise | loss 0: regression, pass, mean pairs | loss 1 %: regression, pass | loss 3 %: regression, pass, mean pairs |
//! |---|---|---|---|
//! | 1 % | 0.07, 99.9, 16.0 | 14.5, 85.5 | 100.0, 0.01, 16.0 |
//! | 2 % | 0.46, 99.5, 20.1 | 16.4, 83.1 | 99.5, 0.47, 22.7 |
//! | 3 % | 0.94, 89.2, 32.8 | 9.9, 57.6 | 93.5, 0.84, 32.9 |
//! | 5 % | 0.99, 23.6, 42.6 | 3.7, 10.9 | 43.0, 0.51, 41.4 |
//! | 2 % and outliers | 0.88, 82.4, 34.6 | 11.4, 55.3 | 85.5, 0.56, 34.3 |
//!
//! At any noise, a regression is called of any of four equal metrics in at most 0.97 % of
//! comparisons ([`LOOKS`]); where items fail there are five, and their p values are a
//! quarter greater: without that it would be 1.05 % (60,000). The promises, each held by a test of
//! `truth_s` where neighbouring rounds share an autocorrelated, drifting noise and the second round
//! of a pair is always 2 % slower: at most 1 % false regressions over all metrics; at least 95 % of
//! losses of 5 % found at 3 % of noise and at least 90 % at 5 %; at most 2 % of them pass. A loss
//! of 5 % of the 99th percentile is found at most every second time, for its estimate has to reach
//! 5 %, too.
//!
//! # Sources
//!
//! Wilcoxon, F. (1945), Biometrics Bulletin 1, 80-83. Hodges, J. L. and Lehmann, E. L. (1963),
//! Annals of Mathematical Statistics 34, 598-611. Holm, S. (1979), Scandinavian Journal of
//! Statistics 6, 65-70. Lehmann, E. L. (1975), *Nonparametrics: Statistical Methods Based on
//! Ranks*. Lan, K. K. G. and `DeMets`, D. L. (1983), Biometrika 70, 659-663.

mod chart;
mod contest;
mod design;
mod judgement;
mod profile;
mod shape;
mod statistics;
#[cfg(test)]
mod tests;

pub use self::contest::{
    Contest, ContestContext, RoundReport, Side, contest_estimate, judge_rounds, round_folder,
};
pub use self::design::*;
pub use self::judgement::*;
pub use self::profile::{FunctionResult, Per, ProfileResult, RoundProfile};
pub use self::shape::{QuantileResult, RoundShape};
pub(super) use self::statistics::{
    Centre, autocorrelation, change, change_in_two, p_above_zero, standard_deviation, time_change,
    two_sided,
};
pub use self::statistics::{Interval, LEVEL, holm};
pub use crate::metrics::*;

/// Judges the pairs by these metrics, given in the order in which they ran, disturbed ones included.
///
/// Takes one look after the other, as far as the pairs reach, and returns the finding of the first
/// one that ended the comparison, or else of the last one; and the number of further pairs that the
/// next look needs. Before the first look, the findings say what the pairs show so far, and decide
/// nothing.
///
/// # Errors
/// [`DesignError`] when there are no pairs, or when their order does not allow a verdict.
pub fn judge(
    metrics: &[Metric],
    pairs: &[Pair],
    looks: &[Look],
) -> Result<Comparison, DesignError> {
    design::check(pairs)?;
    let mut comparison = Comparison::new(Vec::new(), 0);
    for (number, &look) in (1..).zip(looks) {
        let seen = Seen::until(metrics, pairs, look.pairs);
        let doubt = seen.doubt(look);
        if let Some(Undecided::TooFewPairs { needed }) = doubt {
            let so_far = if number == 1 {
                seen.comparison(look, doubt)
            } else {
                comparison
            };
            return Ok(Comparison {
                pairs_wanted: needed - seen.pairs(),
                ..so_far
            });
        }
        comparison = seen.comparison(look, doubt);
        if doubt.is_some() {
            break;
        }
        comparison.look = Some(FinalLook { number, look });
        if comparison.is_decided() {
            break;
        }
    }
    Ok(comparison)
}
