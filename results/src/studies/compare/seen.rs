//! View of one look: the undisturbed pairs up to it, and what they say of each metric.
//!
//! Used by [`super::judge`], once per look.

use super::design::Pair;
use super::estimate::{Centre, standard_deviation};
use super::finding::{Comparison, Evidence, Finding, MetricVerdict, Mismatch, Undecided};
use super::holm::holm;
use super::metric::{Metric, Reading, Worse};
use super::rule::{Look, Noise, PASSES_BELOW};
use super::signed_rank::p_above_zero;

/// The pairs that a look sees.
#[derive(Debug)]
pub(super) struct Seen<'a> {
    /// All that were run until then.
    run: &'a [Pair],
    /// The undisturbed ones of them.
    pairs: Vec<&'a Pair>,
}

/// The readings of one metric.
#[derive(Debug)]
struct MetricReadings {
    metric: Metric,
    role: MetricRole,
    /// `ln(candidate/base)` of each pair.
    log_ratios: Result<Vec<f64>, Mismatch>,
}

/// Role of a metric in the decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MetricRole {
    Gating,
    Informational,
    /// Gating by the base's readings, but informational by the candidate's in this number of pairs.
    Lopsided(usize),
}

impl<'a> Seen<'a> {
    /// View the pairs up to the `most`-th undisturbed one, or to the last.
    pub(super) fn until(pairs: &'a [Pair], most: usize) -> Self {
        let places = pairs
            .iter()
            .enumerate()
            .filter(|(_, pair)| pair.undisturbed())
            .map(|(index, _)| index);
        let run = &pairs[..places
            .take(most)
            .nth(most.saturating_sub(1))
            .map_or(pairs.len(), |last| last + 1)];
        Self {
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

    /// Return the comparison at this look; see [`Seen::findings`].
    pub(super) fn comparison(&self, look: Look, doubt: Option<Undecided>) -> Comparison {
        Comparison::new(self.findings(look, doubt), self.disturbed())
    }

    /// Return the finding of each metric that was read; a `doubt` leaves every metric undecided.
    fn findings(&self, look: Look, doubt: Option<Undecided>) -> Vec<Finding> {
        let series: Vec<MetricReadings> = Metric::ALL
            .into_iter()
            .filter_map(|metric| self.series(metric))
            .collect();
        let evidence: Vec<Option<Evidence>> = series.iter().map(MetricReadings::evidence).collect();
        let gating: Vec<usize> = (0..series.len())
            .filter(|&i| series[i].role == MetricRole::Gating)
            .collect();
        let raw: Vec<f64> = gating
            .iter()
            .filter_map(|&i| evidence[i])
            .map(|numbers| numbers.p_value)
            .collect();
        let more = crowd(raw.len());
        // As if there were so many: 25/4 of five.
        let family = raw.len().max((raw.len() * raw.len()).div_ceil(4));
        let mut adjusted = holm(&raw).into_iter().map(|p| (p * more).min(1.0));
        series
            .iter()
            .zip(evidence)
            .map(|(series, evidence)| {
                let gates = series.role == MetricRole::Gating;
                let evidence = evidence.map(|e| Evidence {
                    p_adjusted: if gates { adjusted.next() } else { None },
                    ..e
                });
                let verdict = series.verdict(
                    evidence.as_ref(),
                    JudgedBy {
                        look,
                        family,
                        doubt,
                    },
                );
                Finding {
                    metric: series.metric,
                    verdict,
                    evidence,
                }
            })
            .collect()
    }

    /// The readings of `metric`; none when no round has any.
    fn series(&self, metric: Metric) -> Option<MetricReadings> {
        let both = |pair: &Pair| [pair.base.of(metric), pair.candidate.of(metric)];
        if self
            .run
            .iter()
            .flat_map(both)
            .all(|reading| reading == Reading::Absent)
        {
            return None;
        }
        let is_coarse = |reading: Reading| matches!(reading, Reading::Informational(_));
        // A base of too few responses for any percentile is coarser still.
        let is_base_coarse = |reading: Reading| {
            is_coarse(reading) || (metric.is_percentile() && reading == Reading::Absent)
        };
        let role = match self
            .pairs
            .iter()
            .filter(|pair| is_coarse(pair.candidate.of(metric)))
            .count()
        {
            _ if self
                .pairs
                .iter()
                .any(|pair| is_base_coarse(pair.base.of(metric))) =>
            {
                MetricRole::Informational
            }
            0 => MetricRole::Gating,
            // Less CPU in all hides nothing: it is as many attempts for less, or fewer, which the
            // throughput has.
            _ if matches!(metric, Metric::TargetCpuPerAttempt | Metric::CpuPerAttempt) => {
                MetricRole::Informational
            }
            pairs => MetricRole::Lopsided(pairs),
        };
        let values = self.pairs.iter().map(|pair| both(pair).map(Reading::value));
        Some(MetricReadings {
            metric,
            role,
            log_ratios: log_ratios(values),
        })
    }
}

/// Return the factor that adjusted p values of `family` metrics are multiplied by. The looks were
/// chosen for four of them, and keep those to 1 %; the bound of Holm's correction, their sum of 1.2
/// %, is nearly reached by more. A fifth costs a quarter: 0.96 %.
fn crowd(family: usize) -> f64 {
    (family as f64 / 4.0).max(1.0)
}

/// The logarithms of candidate over base of pairs of readings.
fn log_ratios(values: impl Iterator<Item = [Option<f64>; 2]>) -> Result<Vec<f64>, Mismatch> {
    let (mut ratios, mut missing, mut not_positive) = (Vec::new(), 0, 0);
    for pair in values {
        match pair {
            [Some(base), Some(candidate)] if is_positive(base) && is_positive(candidate) => {
                // The difference of logarithms: the ratio itself may be too great or too small for
                // a number.
                ratios.push(candidate.ln() - base.ln());
            }
            [Some(_), Some(_)] => not_positive += 1,
            _ => missing += 1,
        }
    }
    match (missing, not_positive) {
        (0, 0) => Ok(ratios),
        (0, pairs) => Err(Mismatch::NotPositive { pairs }),
        (pairs, _) => Err(Mismatch::Missing { pairs }),
    }
}

fn is_positive(reading: f64) -> bool {
    reading.is_finite() && reading > 0.0
}

/// On what terms a metric is judged.
#[derive(Debug, Clone, Copy)]
struct JudgedBy {
    look: Look,
    /// Number of metrics that share the error.
    family: usize,
    doubt: Option<Undecided>,
}

impl MetricReadings {
    /// The numbers, without the correction for other metrics; none without a pair, or without
    /// readings.
    fn evidence(&self) -> Option<Evidence> {
        let log_ratios = self.log_ratios.as_ref().ok()?;
        let Centre { estimate, interval } = Centre::of(log_ratios)?;
        let worse: Vec<f64> = log_ratios
            .iter()
            .map(|d| self.metric.toward_worse(*d))
            .collect();
        Some(Evidence {
            pairs: log_ratios.len(),
            ratio: estimate.exp(),
            ratio_interval: interval.map(|interval| interval.map(f64::exp)),
            log_ratio: estimate,
            log_ratio_interval: interval,
            log_ratio_sd: standard_deviation(log_ratios),
            p_value: p_above_zero(&worse),
            p_adjusted: None,
        })
    }

    fn verdict(&self, evidence: Option<&Evidence>, terms: JudgedBy) -> MetricVerdict {
        if self.role == MetricRole::Informational {
            return MetricVerdict::Informational;
        }
        if let Err(because) = self.log_ratios {
            return MetricVerdict::Incomparable { because };
        }
        let minimum_detectable_effect =
            evidence.and_then(|evidence| self.minimum_detectable(evidence, terms));
        let undecided = |because| MetricVerdict::Inconclusive {
            minimum_detectable_effect,
            because,
        };
        if let (MetricRole::Lopsided(pairs), None) = (self.role, terms.doubt) {
            return undecided(Undecided::Coarse { pairs });
        }
        match (terms.doubt, evidence) {
            (Some(doubt), _) => undecided(doubt),
            (None, Some(evidence)) if self.is_regression(evidence, terms.look) => {
                MetricVerdict::Regression
            }
            (None, Some(evidence)) if self.passes(evidence) => MetricVerdict::Pass,
            (None, _) => undecided(Undecided::Noise),
        }
    }

    fn is_regression(&self, evidence: &Evidence, look: Look) -> bool {
        let counts = self.metric.toward_worse(evidence.log_ratio)
            >= self.metric.loss(self.metric.smallest_effect());
        counts && evidence.p_adjusted.is_some_and(|p| p <= look.alpha)
    }

    fn passes(&self, evidence: &Evidence) -> bool {
        evidence.log_ratio_interval.is_some_and(|interval| {
            let most = match self.metric.worse() {
                Worse::More => interval.high,
                Worse::Less => -interval.low,
            };
            most < self.metric.loss(PASSES_BELOW)
        })
    }

    /// As a fraction of the base.
    fn minimum_detectable(
        &self,
        evidence: &Evidence,
        JudgedBy { look, family, .. }: JudgedBy,
    ) -> Option<f64> {
        let smallest = self.metric.loss(self.metric.smallest_effect());
        let noise = Noise {
            pairs: evidence.pairs,
            deviation: evidence.log_ratio_sd?,
            family,
            smallest,
        };
        look.minimum_detectable(noise)
            .map(|loss| self.metric.fraction(loss))
    }
}
