//! A comparison as it is saved: `comparison.json` (schema `crawlmark.comparison/1`).
//!
//! Made by `ab` from rounds that it ran, and by `compare` from rounds that were saved. What it found is the
//! [`Comparison`] of [`judge`].

use serde::{Deserialize, Serialize};

use super::design::{Arm, DesignError, Disturbance, Round, pair_up};
use super::differences::Difference;
use super::finding::{Comparison, Overall};
use super::judge;
use super::metric::{Metric, Reading, Readings};
use super::rule::Rule;
use super::taken::TargetCpu;
use crate::run::report::{Ledger, Report, Verdict};

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.comparison/1";

/// The name of the file.
pub const FILE: &str = "comparison.json";

/// A comparison, whole.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contest {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that judged.
    pub crawlmark_version: String,
    /// Name that the user gives it.
    pub name: String,
    /// RFC 3339, UTC: the start of the first round.
    pub started_at: String,
    /// RFC 3339, UTC: the end of the last one.
    pub finished_at: String,
    /// True if a signal, or a round that failed, ended it before it was over.
    pub interrupted: bool,
    /// The side that is compared with.
    pub base: Side,
    /// The side that is judged.
    pub candidate: Side,
    /// Differences between their plans and machines, besides the measurements.
    pub differences: Vec<Difference>,
    /// Over all: the comparison's.
    pub verdict: Overall,
    /// Result of the comparison.
    pub comparison: Comparison,
    /// Parts of their items that failed or were given up.
    pub failures: Failures,
    /// Result of two equal arms on this machine just before; null when that was not requested.
    pub noise_floor: Option<Comparison>,
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
}

impl RoundReport {
    /// The round that `report` tells of.
    #[must_use]
    pub fn new(report: &Report, place: (usize, Arm, String), target_cpu: TargetCpu) -> Self {
        let (pair, arm, result) = place;
        let Ledger { failed, gave_up, aborted, .. } = report.ledger;
        Self {
            pair,
            arm,
            result,
            started_at: report.started_at.clone(),
            finished_at: report.finished_at.clone(),
            validity: report.validity.verdict,
            disturbance: Disturbance::of(report),
            readings: Readings::taken_from(report, target_cpu),
            items: report.ledger.ended() - aborted,
            failed: failed + gave_up,
        }
    }
}

impl Failures {
    fn of(rounds: &[RoundReport]) -> Self {
        let part = |arm| {
            let own = || rounds.iter().filter(|round| round.arm == arm);
            // Read from a file, they may be anything, and more together than a number of items can be.
            let items: f64 = own().map(|round| round.items as f64).sum();
            own().map(|round| round.failed as f64).sum::<f64>() / items.max(1.0)
        };
        Self { base: part(Arm::Base), candidate: part(Arm::Candidate) }
    }
}

/// Judge rounds that ran in pairs.
///
/// # Errors
/// When they are no pairs, or their order does not allow a verdict: see [`DesignError`].
pub fn judge_rounds(rounds: &[RoundReport]) -> Result<Comparison, DesignError> {
    // What is 1 throughout tells nothing, and would cost the others a share of the error.
    let all_ok = rounds.iter().all(|round| round.readings.ok_share == Reading::Gating(1.0));
    let round = |round: &RoundReport| {
        let ok_share = if all_ok { Reading::Absent } else { round.readings.ok_share };
        let readings = Readings { ok_share, ..round.readings };
        Round { arm: round.arm, readings, disturbance: round.disturbance }
    };
    let pairs = pair_up(&rounds.iter().map(round).collect::<Vec<_>>())?;
    judge(&pairs, &Rule::standard())
}

/// Parts of a contest other than its rounds.
#[derive(Debug, Clone)]
pub struct Circumstances {
    /// Name that the user gives it.
    pub name: String,
    /// The base and the candidate.
    pub sides: [Side; 2],
    /// Differences between them.
    pub differences: Vec<Difference>,
    /// True if a signal, or a round that failed, ended it before it was over.
    pub interrupted: bool,
    /// Result of two equal arms.
    pub noise_floor: Option<Comparison>,
}

impl Contest {
    /// Build a contest from these rounds, given in the order in which they ran.
    ///
    /// # Errors
    /// When that order does not allow a verdict: see [`DesignError`].
    pub fn new(rounds: Vec<RoundReport>, circumstances: Circumstances) -> Result<Self, DesignError> {
        let Circumstances { name, sides: [base, candidate], differences, interrupted, noise_floor } = circumstances;
        let comparison = judge_rounds(&rounds)?;
        let told = |round: Option<&RoundReport>, time: fn(&RoundReport) -> &String| {
            round.map_or_else(String::new, |r| time(r).clone())
        };
        Ok(Self {
            schema: SCHEMA.to_owned(),
            crawlmark_version: env!("CARGO_PKG_VERSION").to_owned(),
            name,
            started_at: told(rounds.first(), |round| &round.started_at),
            finished_at: told(rounds.last(), |round| &round.finished_at),
            interrupted,
            base,
            candidate,
            differences,
            verdict: comparison.verdict,
            comparison,
            failures: Failures::of(&rounds),
            noise_floor,
            rounds,
        })
    }

    /// True if the machine was disturbed in every pair: what was read is shown, and decides nothing.
    #[must_use]
    pub fn is_all_disturbed(&self) -> bool {
        self.rounds.chunks(2).all(|pair| pair.iter().any(|round| round.disturbance != Disturbance::None))
    }

    /// Return the readings of a metric in the undisturbed rounds of an arm, in the order in which they ran; in all of them when
    /// there is none.
    #[must_use]
    pub fn values(&self, arm: Arm, metric: Metric) -> Vec<f64> {
        let all = self.is_all_disturbed();
        let counts = |round: &&RoundReport| all || round.disturbance == Disturbance::None;
        let of_arm = self.rounds.iter().filter(|round| round.arm == arm).filter(counts);
        of_arm.filter_map(|round| round.readings.of(metric).value()).collect()
    }
}
