//! Result of a comparison: a verdict per metric and over all, each with the numbers behind it, as
//! saved in JSON.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::estimate::Interval;
use super::metric::Metric;
use super::rule::Look;
use crate::show::text::counted;

/// Verdict on one metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "verdict", rename_all = "snake_case")]
pub enum MetricVerdict {
    /// Surely worse, and by enough to count.
    Regression,
    /// Surely not worse by as much as [`super::PASSES_BELOW`].
    Pass,
    /// Neither is sure.
    Inconclusive {
        /// The smallest loss, as a fraction of the base, that this many pairs of this noise would
        /// have found in 95 of 100 comparisons; null when there are too few pairs to know their
        /// noise.
        minimum_detectable_effect: Option<f64>,
        /// Reason.
        because: Undecided,
    },
    /// The readings are not there, or are no readings.
    Incomparable {
        /// Reason.
        because: Mismatch,
    },
    /// Too coarse to be judged in some round: the numbers are shown and decide nothing.
    Informational,
}

/// Reason why a metric is undecided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
    /// The noise leaves room for both.
    Noise,
}

/// Reason why a metric cannot be compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mismatch {
    /// A reading is missing in either arm.
    Missing {
        /// In so many pairs.
        pairs: usize,
    },
    /// A reading has no logarithm: it is 0, negative or not finite.
    NotPositive {
        /// In so many pairs.
        pairs: usize,
    },
}

/// Verdict on all metrics together, the gravest last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overall {
    /// Every metric that may decide passed.
    Pass,
    /// One did not, and none is a regression.
    Inconclusive,
    /// One could not be compared, or none may decide.
    Incomparable,
    /// One is a regression.
    Regression,
}

/// The numbers behind a verdict.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Number of pairs that were looked at.
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
    /// The exact one-sided p value of "the candidate is not worse", in `(0, 1]`.
    pub p_value: f64,
    /// Adjusted for the other metrics that may decide (Holm); null for a metric that may not.
    pub p_adjusted: Option<f64>,
}

/// Result of a comparison for one metric.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// The metric.
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
    /// Each metric that was read, in the order of [`Metric::ALL`].
    pub findings: Vec<Finding>,
}

impl MetricVerdict {
    /// Return the verdict on all metrics that this one leads to; none when it has no weight.
    pub(super) const fn weight(self) -> Option<Overall> {
        match self {
            Self::Regression => Some(Overall::Regression),
            Self::Pass => Some(Overall::Pass),
            Self::Inconclusive { .. } => Some(Overall::Inconclusive),
            Self::Incomparable { .. } => Some(Overall::Incomparable),
            Self::Informational => None,
        }
    }
}

impl Overall {
    /// Over all findings.
    pub(super) fn of(findings: &[Finding]) -> Self {
        findings
            .iter()
            .filter_map(|finding| finding.verdict.weight())
            .max()
            .unwrap_or(Self::Incomparable)
    }

    /// The name used in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Inconclusive => "inconclusive",
            Self::Incomparable => "incomparable",
            Self::Regression => "regression",
        }
    }
}

impl Comparison {
    /// Build a comparison of these findings, at no look, and wanting no pairs.
    pub(super) fn new(findings: Vec<Finding>, disturbed_pairs: usize) -> Self {
        Self {
            verdict: Overall::of(&findings),
            look: None,
            disturbed_pairs,
            pairs_wanted: 0,
            findings,
        }
    }

    /// The comparison of a candidate without a good item and a base that had some is a regression,
    /// of any size of sample.
    pub(super) fn without_good(mut self) -> Self {
        for finding in &mut self.findings {
            if matches!(finding.metric, Metric::Throughput | Metric::OkShare) {
                (finding.verdict, finding.evidence) = (MetricVerdict::Regression, None);
            }
        }
        let pairs_wanted = if self.look.is_some() {
            0
        } else {
            self.pairs_wanted
        };
        Self {
            verdict: Overall::Regression,
            pairs_wanted,
            ..self
        }
    }

    /// True if a further look is of no use: something is a regression, or nothing is undecided.
    pub(super) fn is_decided(&self) -> bool {
        // More pairs make no reading finer.
        let undecided = |finding: &Finding| match finding.verdict {
            MetricVerdict::Inconclusive { because, .. } => {
                !matches!(because, Undecided::Coarse { .. })
            }
            _ => false,
        };
        self.verdict == Overall::Regression || !self.findings.iter().any(undecided)
    }

    /// Return the finding of `metric`; none when it was never read.
    #[must_use]
    pub fn finding(&self, metric: Metric) -> Option<&Finding> {
        self.findings
            .iter()
            .find(|finding| finding.metric == metric)
    }

    /// True if no further pairs are wanted.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.pairs_wanted == 0
    }
}

impl fmt::Display for Undecided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooFewPairs { needed } => write!(f, "a verdict needs {needed} counted pairs"),
            Self::TooDisturbed { disturbed } => {
                write!(
                    f,
                    "disturbed: {}, more than a quarter; use a quieter machine",
                    counted(*disturbed as u64, "pair")
                )
            }
            Self::Coarse { pairs } => write!(
                f,
                "in {}, the candidate's value is a lower bound or too coarse, and the base's is not: use longer rounds (-d)",
                counted(*pairs as u64, "pair")
            ),
            Self::Noise => f.write_str("the values vary too much between pairs to exclude a loss"),
        }
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { pairs } => write!(
                f,
                "readings are missing in {}",
                counted(*pairs as u64, "pair")
            ),
            Self::NotPositive { pairs } => {
                write!(
                    f,
                    "a value is 0 in {}, which gives no ratio",
                    counted(*pairs as u64, "pair")
                )
            }
        }
    }
}
