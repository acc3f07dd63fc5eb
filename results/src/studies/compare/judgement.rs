//! Judgement of a comparison: its looks and their error, the verdict of each metric at a look, and
//! that over all.

use std::fmt;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::design::Pair;
use super::statistics::{
    Centre, Interval, autocorrelation, change, holm, p_above_zero, standard_deviation,
};
use crate::metrics::{
    FAR, MICROSECONDS, Metric, PER_SECOND, Reading, SHARE, Statistic, log_change,
};
use crate::show::text::{counted, decimal};

/// Verdict on one metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum MetricVerdict {
    /// Surely worse, and by enough to count.
    Regression,
    /// Surely not worse by as much as [`Metric::passes_below`].
    Pass,
    /// Neither is sure.
    Inconclusive {
        /// The smallest loss, as a fraction of the base, that this many pairs of this noise would
        /// have found in 95 of 100 comparisons; null when there are too few pairs to know their
        /// noise, or they would have found none below a thousand.
        minimum_detectable_effect: Option<f64>,
        /// Reason.
        because: Undecided,
    },
    /// Not judged: the numbers are shown and decide nothing.
    Informational {
        /// How many times as much each round has to read for a verdict; null of a metric that only
        /// informs.
        longer: Option<f64>,
    },
}

/// Reason why a metric is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Undecided {
    /// The first look needs more pairs than there are.
    TooFewPairs {
        /// So many, undisturbed.
        needed: usize,
    },
    /// More than a quarter of the pairs were disturbed: a quiet machine may decide, this one
    /// cannot.
    TooDisturbed {
        /// So many.
        disturbed: usize,
    },
    /// The candidate's reading is too coarse, or only a bound, where the base's is not: a
    /// percentile of fewer answers, or of answers that were cut off. Left out, it would let a
    /// candidate pass that is slower than can be told.
    Coarse {
        /// In so many pairs.
        pairs: usize,
    },
    /// The candidate is surely worse, by readings of too little for a verdict.
    WorseButCoarse {
        /// How many times as much each round has to read.
        longer: f64,
    },
    /// A reading is missing in either arm, or is a rate, a time or a share of 0.
    Unread {
        /// In so many pairs.
        pairs: usize,
    },
    /// The noise leaves room for both.
    Noise,
}

/// Verdict on all metrics together, the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overall {
    /// Not judged: of one pair, the figures are shown.
    NotJudged,
    /// Every metric that may decide passed.
    Pass,
    /// One did not, or none may decide, and none is a regression.
    Inconclusive,
    /// One is a regression.
    Regression,
}

/// The numbers behind a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Number of pairs that were looked at: of crawls or, of commands, of executions.
    pub pairs: usize,
    /// Candidate over base: Hodges and Lehmann's estimate.
    pub ratio: f64,
    /// Its exact interval of at least [`super::LEVEL`]; null for fewer than 6 pairs.
    pub ratio_interval: Option<Interval>,
    /// The natural logarithm of `ratio`: on this scale the estimate is made.
    pub log_ratio: f64,
    /// Confidence of `ratio_interval`.
    pub log_ratio_interval: Option<Interval>,
    /// The standard deviation of the pairs' log ratios; over the square root of 2, the noise of a
    /// round of one arm after pairing. Null for one pair.
    pub log_ratio_sd: Option<f64>,
    /// Autocorrelation of neighbouring pairs' log ratios, in `-1..=1`: near 0 if a pair tells
    /// nothing of the next. Null where all are equal.
    pub autocorrelation: Option<f64>,
    /// The exact one-sided p value of "the candidate is not worse", in `(0, 1]`.
    pub p_value: f64,
    /// Adjusted for the other metrics that may decide (Holm); null for a metric that may not.
    pub p_adjusted: Option<f64>,
}

/// Result of a comparison for one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricResult {
    /// The metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// Verdict on the metric.
    #[serde(flatten)]
    pub verdict: MetricVerdict,
    /// The numbers; null when there are none.
    pub evidence: Option<Evidence>,
}

/// The look at which a comparison stands.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct FinalLook {
    /// Counted from 1.
    pub number: usize,
    /// Pairs and alpha.
    #[serde(flatten)]
    pub look: Look,
}

/// Result of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// Over all metrics.
    pub verdict: Overall,
    /// The look that decided, or the last one that was taken; null before the first.
    pub look: Option<FinalLook>,
    /// Disturbed pairs that were run on the way, and not looked at.
    pub disturbed_pairs: usize,
    /// Undisturbed pairs that would lead to the next look; 0 when the comparison is over.
    pub pairs_wanted: usize,
    /// Each metric that was read, in the order of those that were asked for.
    pub metrics: Vec<MetricResult>,
}

impl Overall {
    /// Over all metrics.
    pub(super) fn of(metrics: &[MetricResult]) -> Self {
        metrics
            .iter()
            .filter_map(|one| one.verdict.weight())
            .max()
            .unwrap_or(Self::Inconclusive)
    }

    /// The name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotJudged => "not judged",
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Regression => "regression",
        }
    }
}

impl Comparison {
    /// The figures of this comparison, without a verdict.
    pub(super) fn without_verdict(mut self) -> Self {
        for one in &mut self.metrics {
            one.verdict = MetricVerdict::Informational { longer: None };
        }
        self.verdict = Overall::NotJudged;
        self.pairs_wanted = 0;
        self
    }

    /// Build a comparison of these metrics, at no look, and wanting no pairs.
    pub(super) fn new(metrics: Vec<MetricResult>, disturbed_pairs: usize) -> Self {
        Self {
            verdict: Overall::of(&metrics),
            look: None,
            disturbed_pairs,
            pairs_wanted: 0,
            metrics,
        }
    }

    /// The comparison of a candidate that is plainly worse in these metrics: a regression of any
    /// size of sample.
    pub(super) fn plain(mut self, worse: &[&str]) -> Self {
        for metric in &mut self.metrics {
            if worse.contains(&&*metric.metric.name) {
                metric.verdict = MetricVerdict::Regression;
            }
        }
        self.verdict = Overall::Regression;
        if self.look.is_some() {
            self.pairs_wanted = 0;
        }
        self
    }

    /// True if a further look is of no use: something is a regression, or no metric may be decided
    /// by more pairs.
    pub(super) fn is_decided(&self) -> bool {
        let mut reasons = self.metrics.iter().map(|one| one.verdict.because());
        self.verdict == Overall::Regression || reasons.all(|why| why != Some(Undecided::Noise))
    }

    /// The result of the metric with this name; none when it was never read.
    pub fn of(&self, metric: &str) -> Option<&MetricResult> {
        self.metrics.iter().find(|one| one.metric.name == metric)
    }

    /// True if no further pairs are wanted.
    pub const fn is_over(&self) -> bool {
        self.pairs_wanted == 0
    }
}

impl MetricVerdict {
    /// The verdict on all metrics that this one leads to; none when it has no weight.
    pub(super) const fn weight(self) -> Option<Overall> {
        match self {
            Self::Regression => Some(Overall::Regression),
            Self::Pass => Some(Overall::Pass),
            Self::Inconclusive { .. } => Some(Overall::Inconclusive),
            Self::Informational { .. } => None,
        }
    }

    /// How many times as much each round has to read for a verdict, where that would help.
    pub(in crate::studies) const fn longer(self) -> Option<f64> {
        match self {
            Self::Informational { longer } => longer,
            Self::Inconclusive {
                because: Undecided::WorseButCoarse { longer },
                ..
            } => Some(longer),
            _ => None,
        }
    }

    /// The reason why it is undecided.
    pub(in crate::studies) const fn because(self) -> Option<Undecided> {
        match self {
            Self::Inconclusive { because, .. } => Some(because),
            _ => None,
        }
    }

    /// The name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Regression => "REGRESSION",
            Self::Pass => "pass",
            Self::Inconclusive { .. } => "inconclusive",
            Self::Informational { .. } => "shown only",
        }
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::WorseButCoarse { longer } = self {
            return write!(
                f,
                "it got worse, by rounds that read too little of it: {} is needed",
                times_as_much(*longer)
            );
        }
        let (Self::TooFewPairs { needed: count }
        | Self::TooDisturbed { disturbed: count }
        | Self::Coarse { pairs: count }
        | Self::Unread { pairs: count }) = *self
        else {
            return f.write_str("the values vary too much between pairs to exclude a loss");
        };
        let pairs = counted(count as u64, "pair");
        match self {
            Self::TooFewPairs { .. } => write!(f, "a verdict needs {count} counted pairs"),
            Self::TooDisturbed { .. } => write!(
                f,
                "disturbed: {pairs}, more than a quarter; use a quieter machine"
            ),
            Self::Coarse { .. } => write!(
                f,
                "in {pairs}, the candidate's value is a lower bound or too coarse, and the base's is not: use longer rounds (-d)"
            ),
            _ => write!(
                f,
                "in {pairs}, a reading is missing, or a time, rate or share is not above 0: use longer rounds"
            ),
        }
    }
}

/// `1.3 times as much`.
pub(in crate::studies) fn times_as_much(longer: f64) -> String {
    let tenths = (longer * 10.0).ceil() / 10.0;
    format!("{} times as much", decimal(tenths))
}

/// The power at which the minimum detectable effect is stated.
pub const STATED_POWER: f64 = 0.95;

/// Effect that is as good as none to detect: so few or so noisy pairs show nothing, and the number
/// would be beyond what a file may say.
const NOTHING: f64 = 1e3;

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
pub const LOOKS: [Look; 3] = [
    Look::new(16, 0.0015),
    Look::new(28, 0.003),
    Look::new(44, 0.0075),
];

impl Look {
    /// A look at so many pairs. Its exact test rejects a true null hypothesis with the greatest
    /// probability of at most `alpha` that so many signs can have.
    pub const fn new(pairs: usize, alpha: f64) -> Self {
        Self { pairs, alpha }
    }

    /// True if `disturbed` pairs, run again on the way to this look, are more than a quarter of all
    /// that were run.
    const fn is_too_disturbed(self, disturbed: usize) -> bool {
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
    pub(in crate::studies) fn minimum_detectable(
        self,
        pairs: usize,
        deviation: f64,
        family: usize,
        smallest: f64,
    ) -> Option<f64> {
        let degrees = pairs.checked_sub(1).filter(|degrees| *degrees > 0)?;
        let student = StudentsT::new(0.0, 1.0, degrees as f64).ok()?;
        let error = deviation / (pairs as f64).sqrt();
        let significant = student.inverse_cdf(1.0 - self.alpha / family.max(1) as f64) * error;
        Some(significant.max(smallest) + student.inverse_cdf(STATED_POWER) * error)
    }
}

/// The pairs that a look sees.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    metrics: &'a [Metric],
    /// All that were run until then.
    run: &'a [Pair],
    /// The undisturbed ones of them.
    pairs: Vec<&'a Pair>,
}

impl<'a> Seen<'a> {
    /// View the pairs up to the `most`-th undisturbed one, or to the last.
    pub(super) fn until(metrics: &'a [Metric], pairs: &'a [Pair], most: usize) -> Self {
        let last = pairs
            .iter()
            .enumerate()
            .filter(|(_, pair)| pair.undisturbed())
            .map(|(at, _)| at)
            .nth(most - 1);
        let seen = last.map_or(pairs.len(), |last| last + 1);
        let run = &pairs[..seen];
        Self {
            metrics,
            run,
            pairs: run.iter().filter(|pair| pair.undisturbed()).collect(),
        }
    }

    /// Return the number of undisturbed pairs.
    pub(super) fn pairs(&self) -> usize {
        self.pairs.len()
    }

    /// Return the number of disturbed pairs.
    fn disturbed(&self) -> usize {
        self.run.len() - self.pairs.len()
    }

    /// Reason why this look cannot be taken.
    pub(super) fn doubt(&self, look: Look) -> Option<Undecided> {
        if look.is_too_disturbed(self.disturbed()) {
            return Some(Undecided::TooDisturbed {
                disturbed: self.disturbed(),
            });
        }
        (self.pairs() < look.pairs).then_some(Undecided::TooFewPairs { needed: look.pairs })
    }

    /// Return the comparison at this look, with the finding of each metric that was read; a `doubt`
    /// leaves every metric undecided.
    pub(super) fn comparison(&self, look: Look, doubt: Option<Undecided>) -> Comparison {
        let mut all: Vec<MetricReadings> = self
            .metrics
            .iter()
            .filter_map(|it| self.readings(it))
            .collect();
        let mut gating: Vec<&mut Evidence> = all
            .iter_mut()
            .filter(|of| of.role == MetricRole::Gating)
            .filter_map(|of| of.evidence.as_mut())
            .collect();
        let raw: Vec<f64> = gating.iter().map(|evidence| evidence.p_value).collect();
        let crowd = (raw.len() as f64 / CHOSEN_FOR).max(1.0);
        for (evidence, p) in gating.iter_mut().zip(holm(&raw)) {
            evidence.p_adjusted = Some((p * crowd).min(1.0));
        }
        // The smallest of n p values is multiplied by n (Holm) and max(1, n/4) (`crowd`): a single
        // loss needs p <= alpha / family, with n, or n²/4 rounded up if n > 4 (of five, 25/4: 7).
        let family = raw.len().max((raw.len() * raw.len()).div_ceil(4));
        let results = all.iter().map(|readings| MetricResult {
            metric: readings.metric.clone(),
            verdict: readings.verdict(look, family, doubt),
            evidence: readings.evidence,
        });
        Comparison::new(results.collect(), self.disturbed())
    }

    /// The readings of `metric`; none when no round has any.
    fn readings(&self, metric: &'a Metric) -> Option<MetricReadings<'a>> {
        let mut rounds = self
            .run
            .iter()
            .flat_map(|pair| [&pair.base, &pair.candidate]);
        if rounds.all(|round| round.of(&metric.name) == Reading::Absent) {
            return None;
        }
        let values = self.pairs.iter().flat_map(|pair| pair.values(&metric.name));
        let log_ratios = log_ratios(metric, &values.collect::<Vec<_>>());
        Some(MetricReadings {
            metric,
            role: self.role(metric),
            longer: self.longer(metric),
            mismatch: log_ratios.as_ref().err().copied(),
            evidence: log_ratios
                .ok()
                .and_then(|ratios| Evidence::of(metric, &ratios)),
        })
    }

    /// How many times as much the coarsest round has to read.
    fn longer(&self, metric: &Metric) -> Option<f64> {
        self.pairs
            .iter()
            .flat_map(|pair| [&pair.base, &pair.candidate])
            .filter_map(|round| round.of(&metric.name).longer())
            .max_by(f64::total_cmp)
    }

    fn role(&self, metric: &Metric) -> MetricRole {
        let is_coarse = |reading: Reading| {
            matches!(reading, Reading::Informational(_) | Reading::Coarse { .. })
        };
        // A base of too few responses for any percentile is coarser still.
        let is_base_coarse = |pair: &&Pair| match pair.base.of(&metric.name) {
            Reading::Absent => metric.statistic != Statistic::Mean,
            reading => is_coarse(reading),
        };
        let coarse = self
            .pairs
            .iter()
            .copied()
            .filter(|pair| is_coarse(pair.candidate.of(&metric.name)));
        match coarse.count() {
            _ if self.pairs.iter().any(is_base_coarse) => MetricRole::Informational,
            0 => MetricRole::Gating,
            // Less CPU in all hides nothing: it is as many attempts for less, or fewer, which the
            // throughput has.
            _ if metric.statistic == Statistic::Mean => MetricRole::Informational,
            pairs => MetricRole::Lopsided(pairs),
        }
    }
}

/// Metrics for which the looks were chosen: of as many, they keep 1 %. The bound of Holm's
/// correction, their sum of 1.2 %, is nearly reached by more, so the adjusted p values of more are
/// greater in proportion: a fifth costs a quarter, 0.96 %.
const CHOSEN_FOR: f64 = 4.0;

/// Role of a metric in the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricRole {
    Gating,
    Informational,
    /// Gating by the base's readings, but informational by the candidate's in this number of pairs.
    Lopsided(usize),
}

/// The changes of pairs of readings on the scale of logarithms. A rate, a time or a share of 0 is
/// nothing to compare with: a base that answered nothing is as fast as nothing.
fn log_ratios(metric: &Metric, values: &[[Option<f64>; 2]]) -> Result<Vec<f64>, Undecided> {
    let is_above_0 = [PER_SECOND, MICROSECONDS, SHARE].contains(&&*metric.unit);
    let ratios: Vec<f64> = values
        .iter()
        .filter_map(|[base, candidate]| {
            let both = [(*base)?, (*candidate)?];
            let is_reading = !is_above_0 || both.iter().all(|one| *one > 0.0);
            Some(log_change(both)).filter(|change| is_reading && change.is_finite())
        })
        .collect();
    match values.len() - ratios.len() {
        0 => Ok(ratios),
        pairs => Err(Undecided::Unread { pairs }),
    }
}

impl Evidence {
    /// The estimate and its interval, as a change in percent, or in words where there is no ratio.
    pub(in crate::studies) fn change(&self) -> String {
        if self.has_ratio() {
            return change(self.ratio, self.shown_interval());
        }
        if self.log_ratio > 0.0 {
            "far more".to_owned()
        } else {
            "far less".to_owned()
        }
    }

    /// True if the estimate is a ratio of two numbers of one sign.
    pub(super) const fn has_ratio(&self) -> bool {
        self.log_ratio.abs() < FAR
    }

    /// The interval of the ratio, where both ends are one.
    pub(super) fn shown_interval(&self) -> Option<Interval> {
        let ends = self.log_ratio_interval?;
        let has_ends = ends.low > -FAR && ends.high < FAR;
        self.ratio_interval.filter(|_| has_ends)
    }

    /// True if neighbouring pairs depend on each other by more than chance explains: by more than
    /// three standard errors of `1/sqrt(n)` (Bartlett, M. S. (1946), Supplement to the Journal of
    /// the Royal Statistical Society 8, 27-41), of 16 pairs or more.
    pub fn is_autocorrelated(&self) -> bool {
        let error = (self.pairs as f64).sqrt().recip();
        self.pairs >= 16 && self.autocorrelation.is_some_and(|r| r.abs() > 3.0 * error)
    }

    /// The numbers, without the correction for other metrics; none without a pair.
    pub(in crate::studies) fn of(metric: &Metric, log_ratios: &[f64]) -> Option<Self> {
        let Centre { estimate, interval } = Centre::of(log_ratios)?;
        let worse: Vec<f64> = log_ratios.iter().map(|d| metric.toward_worse(*d)).collect();
        Some(Self {
            pairs: log_ratios.len(),
            ratio: estimate.exp(),
            ratio_interval: interval.map(|interval| interval.map(f64::exp)),
            log_ratio: estimate,
            log_ratio_interval: interval,
            log_ratio_sd: standard_deviation(log_ratios),
            autocorrelation: autocorrelation([log_ratios]),
            p_value: p_above_zero(&worse),
            p_adjusted: None,
        })
    }
}

/// The readings of one metric.
#[derive(Debug)]
struct MetricReadings<'a> {
    metric: &'a Metric,
    role: MetricRole,
    longer: Option<f64>,
    mismatch: Option<Undecided>,
    evidence: Option<Evidence>,
}

impl MetricReadings<'_> {
    /// The verdict at a look, where `family` metrics share the error.
    fn verdict(&self, look: Look, family: usize, doubt: Option<Undecided>) -> MetricVerdict {
        if self.role == MetricRole::Informational {
            return match self.longer {
                Some(longer) if doubt.is_none() && self.is_surely_worse() => {
                    MetricVerdict::Inconclusive {
                        minimum_detectable_effect: None,
                        because: Undecided::WorseButCoarse { longer },
                    }
                }
                longer => MetricVerdict::Informational { longer },
            };
        }
        let because = match (self.mismatch.or(doubt), self.role, &self.evidence) {
            (Some(doubt), ..) => doubt,
            (None, MetricRole::Lopsided(pairs), _) => Undecided::Coarse { pairs },
            (None, _, Some(evidence)) if self.is_regression(evidence, look) => {
                return MetricVerdict::Regression;
            }
            (None, _, Some(evidence)) if self.passes(evidence) => return MetricVerdict::Pass,
            (None, ..) => Undecided::Noise,
        };
        let smallest = self.metric.loss(self.metric.smallest_effect);
        let detectable = self.evidence.and_then(|evidence| {
            look.minimum_detectable(evidence.pairs, evidence.log_ratio_sd?, family, smallest)
        });
        MetricVerdict::Inconclusive {
            minimum_detectable_effect: detectable
                .map(|loss| self.metric.fraction(loss))
                .filter(|effect| *effect < NOTHING),
            because,
        }
    }

    fn is_regression(&self, evidence: &Evidence, look: Look) -> bool {
        let counts = self.metric.toward_worse(evidence.log_ratio)
            >= self.metric.loss(self.metric.smallest_effect);
        counts && evidence.p_adjusted.is_some_and(|p| p <= look.alpha)
    }

    /// True if all of the interval is a loss that counts.
    fn is_surely_worse(&self) -> bool {
        let interval = self
            .evidence
            .and_then(|evidence| evidence.log_ratio_interval);
        interval.is_some_and(|interval| {
            let ends = [interval.low, interval.high].map(|end| self.metric.toward_worse(end));
            ends[0].min(ends[1]) >= self.metric.loss(self.metric.smallest_effect)
        })
    }

    fn passes(&self, evidence: &Evidence) -> bool {
        evidence.log_ratio_interval.is_some_and(|interval| {
            let ends = [interval.low, interval.high].map(|end| self.metric.toward_worse(end));
            ends[0].max(ends[1]) < self.metric.loss(self.metric.passes_below)
        })
    }
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
        // (3.733 + 1.753) x .04 / 4
        let found = look.minimum_detectable(16, 0.04, 4, 0.0).unwrap();
        assert!((found - 0.054_86).abs() < 0.000_01, "{found}");
        assert_eq!(
            look.minimum_detectable(16, 0.0, 4, 0.02),
            Some(0.02),
            "less than that is never a regression"
        );
        assert_eq!(look.minimum_detectable(1, 0.04, 4, 0.0), None);
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
}
