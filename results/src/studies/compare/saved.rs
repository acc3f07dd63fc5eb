//! A comparison as it is saved: `comparison.json` (schema `crawlmark.comparison/1`).
//!
//! Made by `ab` from rounds that it ran, and by `compare` from rounds that were saved. What it
//! found is the [`Comparison`] of [`judge`].

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::design::{Arm, DesignError, Disturbance, Round, pair_up};
use super::differences::Difference;
use super::finding::{Comparison, Overall};
use super::judge;
use super::metric::{Metric, Reading, Readings};
use super::rule::Rule;
use super::taken::TargetCpu;
use crate::run::report::{Report, Totals, Verdict, cause_in_words, failures};
use crate::studies::Header;

/// The name of the file.
pub const FILE: &str = "comparison.json";

/// A comparison, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// All but the rounds, and what follows from them.
    #[serde(flatten)]
    pub context: ContestContext,
    /// Over all: the comparison's.
    pub verdict: Overall,
    /// Result of the comparison.
    pub comparison: Comparison,
    /// Parts of their items that failed or were given up.
    pub failures: Failures,
    /// Every round, in the order in which they ran.
    pub rounds: Vec<RoundReport>,
}

/// One of the two.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Side {
    /// Name that the user gives it.
    pub name: String,
    /// The side as typed.
    pub what: String,
}

/// Items that failed or were given up, as parts of those that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Failures {
    /// Part of the base's items.
    pub base: f64,
    /// Part of the candidate's items.
    pub candidate: f64,
}

/// A round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RoundReport {
    /// The pair that it belongs to, counted from 1.
    pub pair: usize,
    /// Arm of the round.
    pub arm: Arm,
    /// The directory of its result.
    pub result: String,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// Verdict on the run itself.
    pub validity: Verdict,
    /// State of the machine during its pair.
    pub disturbance: Disturbance,
    /// Readings of the round.
    pub readings: Readings,
    /// Items that ended by themselves.
    pub items: u64,
    /// Items that failed or were given up.
    pub failed: u64,
    /// Causes of failure, the most frequent first, of a round without a good item; empty of any
    /// other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub causes: Vec<String>,
}

impl RoundReport {
    /// The round that `report` tells of; its pair shows whether it was disturbed
    /// ([`Disturbance::of_pair`]).
    #[must_use]
    pub fn new(report: &Report, place: (usize, Arm, String), target_cpu: TargetCpu) -> Self {
        let (pair, arm, result) = place;
        let items = report.ledger.items;
        Self {
            pair,
            arm,
            result,
            started_at: report.started_at.clone(),
            finished_at: report.finished_at.clone(),
            validity: report.validity.verdict,
            disturbance: Disturbance::None,
            readings: Readings::taken_from(report, target_cpu),
            items: items.completed(),
            failed: items.failed + items.gave_up,
            causes: if items.ok == 0 {
                causes(&report.totals)
            } else {
                Vec::new()
            },
        }
    }

    /// The round made again from its report. Only its file knows the CPU that its target used.
    fn again(&self, pair: usize, report: &Report) -> Self {
        let target_us = self
            .readings
            .target_cpu_per_attempt
            .value()
            .map(|us| us * report.totals.attempts as f64);
        let target_cpu = target_us.and_then(|us| Duration::try_from_secs_f64(us / 1e6).ok());
        let folder = Path::new(&self.result).parent().unwrap_or(Path::new(""));
        let result = folder
            .join(round_folder(pair, self.arm))
            .display()
            .to_string();
        Self::new(report, (pair, self.arm, result), target_cpu)
    }

    /// True if no item was good.
    pub(super) fn had_no_good(&self) -> bool {
        let is_none = |value: Option<f64>| value.is_none_or(|value| value <= 0.0);
        is_none(self.readings.ok_share.value()) && is_none(self.readings.throughput.value())
    }

    /// Readings as they are judged. A round without a good item counts as one with half an item, so
    /// that it has a logarithm, too; the shares of all other rounds are as they were read, in
    /// either arm.
    fn judged(&self, is_corrected: bool) -> Readings {
        let ok_share = match self.readings.ok_share {
            Reading::Gating(share) if is_corrected => {
                Reading::Gating(share.max(0.5 / self.items.max(1) as f64))
            }
            share => share,
        };
        Readings {
            ok_share,
            ..self.readings
        }
    }
}

/// Return the name of the folder of a round.
#[must_use]
pub fn round_folder(pair: usize, arm: Arm) -> String {
    format!("{pair:03}-{arm}")
}

/// Causes of failure in words, the most frequent first.
fn causes(totals: &Totals) -> Vec<String> {
    failures(&totals.requests)
        .into_iter()
        .map(|(cause, _)| cause_in_words(cause))
        .collect()
}

/// True if no round of `arm` had a good item.
pub(super) fn had_no_good(rounds: &[RoundReport], arm: Arm) -> bool {
    rounds
        .iter()
        .filter(|round| round.arm == arm)
        .all(RoundReport::had_no_good)
}

impl Failures {
    fn of(rounds: &[RoundReport]) -> Self {
        let part = |arm| {
            let own = || rounds.iter().filter(|round| round.arm == arm);
            // Read from a file, they may be anything, and more together than a number of items can
            // be.
            let items: f64 = own().map(|round| round.items as f64).sum();
            own().map(|round| round.failed as f64).sum::<f64>() / items.max(1.0)
        };
        Self {
            base: part(Arm::Base),
            candidate: part(Arm::Candidate),
        }
    }
}

/// Judge rounds that ran in pairs.
///
/// # Errors
/// When they are no pairs, or their order does not allow a verdict: see [`DesignError`].
pub fn judge_rounds(rounds: &[RoundReport]) -> Result<Comparison, DesignError> {
    // What is 1 throughout tells nothing, and would cost the others a share of the error.
    let all_ok = rounds
        .iter()
        .all(|round| round.readings.ok_share == Reading::Gating(1.0));
    // Of an arm without a good item there is no ratio: half an item would invent one, which depends
    // on the number of items.
    let [base, candidate] = [Arm::Base, Arm::Candidate].map(|arm| had_no_good(rounds, arm));
    let round = |round: &RoundReport| {
        let readings = round.judged(!base && !candidate);
        let ok_share = if all_ok {
            Reading::Absent
        } else {
            readings.ok_share
        };
        Round {
            arm: round.arm,
            readings: Readings {
                ok_share,
                ..readings
            },
            disturbance: round.disturbance,
        }
    };
    let pairs = pair_up(&rounds.iter().map(round).collect::<Vec<_>>())?;
    let comparison = judge(&pairs, &Rule::standard())?;
    // One run of each decides nothing, and a disturbed pair neither.
    let counted = pairs.iter().filter(|pair| pair.undisturbed()).count();
    Ok(if candidate && !base && counted > 1 {
        comparison.without_good()
    } else {
        comparison
    })
}

/// Parts of a contest that do not follow from its rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ContestContext {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// The side that is compared with.
    pub base: Side,
    /// The side that is judged.
    pub candidate: Side,
    /// Differences between their plans and machines, besides the measurements.
    pub differences: Vec<Difference>,
    /// Result of two equal arms on this machine just before; null when that was not requested.
    pub noise_floor: Option<Comparison>,
}

impl Contest {
    /// Build a contest from these rounds, given in the order in which they ran.
    ///
    /// # Errors
    /// When that order does not allow a verdict: see [`DesignError`].
    pub fn new(rounds: Vec<RoundReport>, context: ContestContext) -> Result<Self, DesignError> {
        let comparison = judge_rounds(&rounds)?;
        Ok(Self {
            context,
            verdict: comparison.verdict,
            comparison,
            failures: Failures::of(&rounds),
            rounds,
        })
    }

    /// Make the comparison again: each round from its result where `report` has it, and the verdict
    /// from the rounds. Returns also how many rounds have no result, and are taken as they are.
    ///
    /// # Errors
    /// When a result cannot be read, or the rounds allow no verdict.
    pub fn again<E: From<DesignError>>(
        &self,
        report: impl Fn(&RoundReport) -> Result<Option<Report>, E>,
    ) -> Result<(Self, usize), E> {
        let (mut rounds, mut missing) = (Vec::new(), 0);
        for (number, pair) in (1..).zip(self.rounds.chunks(2)) {
            let reports = pair.iter().map(&report).collect::<Result<Vec<_>, E>>()?;
            let disturbance = match &*reports {
                [Some(first), Some(second)] => Some(Disturbance::of_pair([first, second])),
                _ => None,
            };
            missing += reports.iter().filter(|report| report.is_none()).count();
            let made = pair.iter().zip(&reports).map(|(round, report)| {
                let again = report
                    .as_ref()
                    .map_or_else(|| round.clone(), |report| round.again(number, report));
                RoundReport {
                    disturbance: disturbance.unwrap_or(round.disturbance),
                    ..again
                }
            });
            rounds.extend(made);
        }
        let mut context = self.context.clone();
        env!("CARGO_PKG_VERSION").clone_into(&mut context.header.crawlmark_version);
        Ok((Self::new(rounds, context)?, missing))
    }

    /// True if the machine was disturbed in every pair: what was read is shown, and decides
    /// nothing.
    #[must_use]
    pub fn is_all_disturbed(&self) -> bool {
        self.rounds.chunks(2).all(|pair| {
            pair.iter()
                .any(|round| round.disturbance != Disturbance::None)
        })
    }

    /// Return the readings of a metric in the undisturbed rounds of an arm, in the order in which
    /// they ran; in all of them when there is none.
    #[must_use]
    pub fn values(&self, arm: Arm, metric: Metric) -> Vec<f64> {
        let all = self.is_all_disturbed();
        let counts = |round: &&RoundReport| all || round.disturbance == Disturbance::None;
        let of_arm = self
            .rounds
            .iter()
            .filter(|round| round.arm == arm)
            .filter(counts);
        of_arm
            .filter_map(|round| round.readings.of(metric).value())
            .collect()
    }
}
