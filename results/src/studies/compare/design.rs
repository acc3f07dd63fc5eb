//! Design of a comparison: arms, rounds, pairs, their order, and the orders that allow no verdict
//! and are refused.
//!
//! Used by [`super::judge`] on every call, and by callers that turn rounds, in the order in which
//! they ran, into pairs. It looks at order and disturbance only, never at a reading.
//!
//! # Why so strict
//!
//! A machine drifts. With a noise of 5 % per round and a drift that is shared by neighbours, all
//! rounds of one arm before all of the other called 45 % of A/A comparisons different at a nominal
//! 5 %; a fixed order within pairs called 16 % different when the second round of a pair was 2 %
//! slower; pairs in random order called 5 % different (simulated). No formula repairs data that
//! were taken in the wrong order, so they are refused.
//!
//! # Disturbance
//!
//! Whether the machine was disturbed in one of the two rounds of a pair is judged without a look at
//! which arm is which: a machine that is called disturbed because of what the candidate did to it
//! would be a way to choose the result.

use std::fmt;

use crawlmark_harness::stats::Series;
use serde::{Deserialize, Serialize};

use crate::judge::thresholds::{FREEZE_US, SHORTEST_FOR_STEAL_S, SPEED, STEAL};
use crate::metrics::{Metric, Readings, Statistic, log_change, readings_of_run, run_metrics};
use crate::run::report::Report;

/// One of the two things compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The arm that is compared with.
    Base,
    /// The arm that is judged.
    Candidate,
}

/// One round: fresh processes, one arm.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Arm of the round.
    pub arm: Arm,
    /// Readings of the round.
    pub readings: Readings,
    /// State of the machine.
    pub disturbance: Disturbance,
}

impl Round {
    /// A round of an arm with these readings, undisturbed as far as is known.
    pub(super) fn of(arm: Arm, readings: Readings) -> Self {
        Self {
            arm,
            readings,
            disturbance: Disturbance::None,
        }
    }
}

/// Two rounds that ran one right after the other, one of each arm, with the same seed and IDs: the
/// unit of a comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    /// The arm that ran first.
    pub first: Arm,
    /// The base's.
    pub base: Readings,
    /// The candidate's.
    pub candidate: Readings,
    /// The same of its parts, base first, where the two rounds took turns: executions of commands.
    pub parts: Vec<[Readings; 2]>,
    /// State of the machine during both.
    pub disturbance: Disturbance,
}

/// Reason why no verdict can be drawn from the rounds, whatever they read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DesignError {
    /// Nothing to compare.
    #[error("there are no rounds to compare: run both sides, in pairs")]
    NoRounds,
    /// A round has no partner of the other arm.
    #[error(
        "round {round} is of the {arm}, and no round of the other side is right before or after it: changes of the machine would \
         look like an effect; run the sides in pairs, in random order"
    )]
    Unpaired {
        /// The round, counted from 1.
        round: usize,
        /// Its arm.
        arm: Arm,
    },
    /// Two pairs that should be a block ran in the same order.
    #[error(
        "counted pairs {} and {} both ran the {first} first: swap the rounds of one. In each two counted pairs the base goes first once and \
         second once, so that a second round that is always slower does not look like an effect", .pair, .pair + 1
    )]
    NotInBlocks {
        /// The first of the two, counted from 1 over the undisturbed pairs.
        pair: usize,
        /// The arm that ran first in both.
        first: Arm,
    },
}

impl fmt::Display for Arm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Base => "base",
            Self::Candidate => "candidate",
        })
    }
}

impl Arm {
    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Base => Self::Candidate,
            Self::Candidate => Self::Base,
        }
    }

    /// Both, this one first.
    pub const fn and_other(self) -> [Self; 2] {
        [self, self.other()]
    }
}

impl Pair {
    /// True if it may be looked at.
    pub fn undisturbed(&self) -> bool {
        self.disturbance == Disturbance::None
    }

    /// What both read of a metric, base first: in each part, or in all where a part has a value
    /// without a logarithm.
    pub(super) fn values(&self, metric: &str) -> Vec<[Option<f64>; 2]> {
        let parts: Vec<_> = self
            .parts
            .iter()
            .map(|part| part.each_ref().map(|of| of.of(metric).value()))
            .collect();
        let mut values = parts.iter().flatten();
        if !parts.is_empty() && values.all(|value| value.is_some_and(|value| value > 0.0)) {
            return parts;
        }
        vec![[&self.base, &self.candidate].map(|of| of.of(metric).value())]
    }
}

/// Makes pairs of rounds in the order in which they ran: the first with the second, the third with
/// the fourth. A pair is as disturbed as either of its rounds.
///
/// # Errors
/// When the rounds were not run in pairs: see [`DesignError`]. The order of the pairs is looked at
/// by [`super::judge`].
pub fn pair_up(rounds: &[Round]) -> Result<Vec<Pair>, DesignError> {
    if rounds.is_empty() {
        return Err(DesignError::NoRounds);
    }
    rounds
        .chunks(2)
        .zip((1..).step_by(2))
        .map(|(two, round)| match two {
            [first, second] if first.arm != second.arm => Ok(paired(first, second)),
            // The second one of two is what the first one is no partner of.
            _ => Err(DesignError::Unpaired {
                round: round + two.len() - 1,
                arm: two[two.len() - 1].arm,
            }),
        })
        .collect()
}

/// The pair of two neighbours.
fn paired(first: &Round, second: &Round) -> Pair {
    let (base, candidate) = match first.arm {
        Arm::Base => (first, second),
        Arm::Candidate => (second, first),
    };
    Pair {
        first: first.arm,
        base: base.readings.clone(),
        candidate: candidate.readings.clone(),
        parts: Vec::new(),
        disturbance: first.disturbance.max(second.disturbance),
    }
}

/// Refuses pairs that did not run in permuted blocks of AB and BA. The last block may be half done.
/// Where a disturbed pair is run again in its own order, the others are in blocks; where none is
/// run again, all of them are.
pub(super) fn check(pairs: &[Pair]) -> Result<(), DesignError> {
    if pairs.is_empty() {
        return Err(DesignError::NoRounds);
    }
    let all: Vec<Arm> = pairs.iter().map(|pair| pair.first).collect();
    let kept: Vec<Arm> = pairs
        .iter()
        .filter(|pair| pair.undisturbed())
        .map(|pair| pair.first)
        .collect();
    match (uneven(&kept), uneven(&all)) {
        (Some(block), Some(_)) => Err(DesignError::NotInBlocks {
            pair: 2 * block + 1,
            first: kept[2 * block],
        }),
        _ => Ok(()),
    }
}

/// The first block of two with one order.
fn uneven(first: &[Arm]) -> Option<usize> {
    let mut blocks = first.chunks_exact(2);
    blocks.position(|block| block[0] == block[1])
}

/// The arms that go first in the pairs of a comparison, without end: each two make a block, one of
/// either order, and a fair coin says which comes first. The same seed gives the same orders.
///
/// A pair that turns out to be disturbed is run again in its own order, right away: ask for the
/// next order only after an undisturbed pair.
#[derive(Debug, Clone)]
pub struct OrderSchedule {
    draw: fastrand::Rng,
    second: Option<Arm>,
}

impl OrderSchedule {
    /// The schedule of `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            draw: fastrand::Rng::with_seed(seed),
            second: None,
        }
    }
}

impl Iterator for OrderSchedule {
    type Item = Arm;

    fn next(&mut self) -> Option<Arm> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let first = if self.draw.bool() {
            Arm::Base
        } else {
            Arm::Candidate
        };
        self.second = Some(first.other());
        Some(first)
    }
}

/// Difference in the state of the machine between the rounds of a pair: it decides if the pair
/// counts. Other findings of a round, such as a CPU wait or a retransmission, may be the arm's own
/// doing, so that leaving them out would choose the result; they are counted. To be judged without
/// knowing which arm ran: otherwise it is a way to choose the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// Nothing was noticed.
    #[default]
    None,
    /// The fixed work before and after took more time in one of the rounds.
    SpeedProbe,
    /// The hypervisor took more time away from one of the rounds.
    Steal,
    /// In one of the rounds, a shard was not run for longer.
    RunQueue,
}

impl Disturbance {
    /// The reason in words; empty without one.
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "",
            Self::SpeedProbe => "the CPU changed its speed",
            Self::Steal => "CPU time was stolen",
            Self::RunQueue => "a shard froze",
        }
    }
}

/// Factor by which a reading has to differ for a disturbance not to explain it: more than a change
/// of the CPU's speed, stolen time or a freeze in one of the rounds does.
pub(super) const BEYOND: f64 = 1.5;

/// State of the machine during a round, as far as it can be measured.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineState {
    /// Mean time of the fixed work before and after, µs; 0 if that is unknown.
    pub work_us: f64,
    /// The greatest part of a CPU's time that was stolen; 0 of a round shorter than 1 s, in which
    /// that cannot be told.
    pub stolen: f64,
    /// The longest time in which a shard did not run, µs.
    pub frozen_us: f64,
}

impl MachineState {
    /// The state during a run.
    pub fn of_run(report: &Report) -> Self {
        let usages = || report.shards.iter().map(|shard| &shard.usage);
        let works: Vec<f64> = usages()
            .flat_map(|usage| [usage.speed_before_us, usage.speed_after_us])
            .flatten()
            .collect();
        let long =
            usages().filter(|usage| usage.measured_s.is_some_and(|s| s >= SHORTEST_FOR_STEAL_S));
        let stolen = long.filter_map(|usage| usage.steal_share);
        let lag = report.latency(Series::LoopLag);
        Self {
            work_us: works.iter().sum::<f64>() / works.len().max(1) as f64,
            stolen: stolen.fold(0.0, f64::max),
            frozen_us: lag.and_then(|lag| lag.max_us).unwrap_or(0.0),
        }
    }
}

impl Disturbance {
    /// Find the disturbance of a pair in its two rounds: that by which they differ. None if both
    /// were disturbed alike, or if one is better or worse than the other by more than a disturbance
    /// explains. Neither looks at which arm is which, so under the hypothesis of equal arms the
    /// differences of the pairs that count stay as likely of either sign.
    pub fn of_pair(
        [one, other]: [MachineState; 2],
        readings: [&Readings; 2],
        metrics: &[Metric],
    ) -> Self {
        let is_explained = metrics
            .iter()
            .filter(|metric| metric.statistic != Statistic::Tail).all(|metric| {
            let values = readings.map(|of| of.of(&metric.name).value());
            !matches!(values, [Some(one), Some(other)] if log_change([one, other]).abs() > BEYOND.ln())
        });
        // NaN or infinite if either is unknown.
        let slower = one.work_us.max(other.work_us) / one.work_us.min(other.work_us);
        if !is_explained {
            Self::None
        } else if slower.is_finite() && slower > 1.0 + SPEED {
            Self::SpeedProbe
        } else if (one.stolen - other.stolen).abs() > STEAL {
            Self::Steal
        } else if (one.frozen_us - other.frozen_us).abs() > FREEZE_US {
            Self::RunQueue
        } else {
            Self::None
        }
    }

    /// The disturbance of a pair of runs: see [`Disturbance::of_pair`].
    pub fn of_runs(runs: [&Report; 2]) -> Self {
        let readings = runs.map(readings_of_run);
        let states = runs.map(MachineState::of_run);
        Self::of_pair(states, readings.each_ref(), &run_metrics())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::studies::compare::Reading;

    fn rounds(arms: &str) -> Vec<Round> {
        let round = |(index, arm)| Round {
            arm: if arm == 'A' {
                Arm::Base
            } else {
                Arm::Candidate
            },
            readings: Readings::from_iter([("m", Reading::Gating(index as f64))]),
            disturbance: Disturbance::None,
        };
        arms.chars().enumerate().map(round).collect()
    }

    #[test]
    fn rounds_that_were_not_run_in_pairs_are_refused() {
        let unpaired = |round, arm| DesignError::Unpaired { round, arm };
        for (arms, expected) in [
            ("", DesignError::NoRounds),
            ("A", unpaired(1, Arm::Base)),
            ("ABB", unpaired(3, Arm::Candidate)),
            ("AABB", unpaired(2, Arm::Base)),
            ("ABBBAA", unpaired(4, Arm::Candidate)),
        ] {
            assert_eq!(pair_up(&rounds(arms)), Err(expected), "{arms}");
        }
    }

    #[test]
    fn neighbours_become_pairs_in_the_order_in_which_they_ran() {
        let mut rounds = rounds("ABBA");
        rounds[3].disturbance = Disturbance::Steal;
        let pairs = pair_up(&rounds).unwrap();
        let seen: Vec<_> = pairs
            .iter()
            .map(|pair| {
                (
                    pair.first,
                    pair.base.of("m").value(),
                    pair.candidate.of("m").value(),
                    pair.disturbance,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (Arm::Base, Some(0.0), Some(1.0), Disturbance::None),
                (Arm::Candidate, Some(3.0), Some(2.0), Disturbance::Steal),
            ]
        );
        assert!(pair_up(&rounds[..2]).is_ok(), "one pair is no sequence");
    }

    #[test]
    fn pairs_in_a_fixed_order_are_refused() {
        let pairs = |arms: &str| pair_up(&rounds(arms)).unwrap();
        for good in ["AB", "ABBA", "BAAB", "ABBAABBA", "ABBABAABBA"] {
            assert_eq!(check(&pairs(good)), Ok(()), "{good}");
        }
        let refused = |pair, first| Err(DesignError::NotInBlocks { pair, first });
        assert_eq!(check(&pairs("ABAB")), refused(1, Arm::Base));
        assert_eq!(check(&pairs("ABBABABA")), refused(3, Arm::Candidate));
        assert_eq!(check(&[]), Err(DesignError::NoRounds));
    }

    #[test]
    fn a_disturbed_pair_that_was_run_again_in_its_order_leaves_the_blocks_whole() {
        let mut pairs = pair_up(&rounds("ABABBA")).unwrap();
        assert!(check(&pairs).is_err());
        pairs[0].disturbance = Disturbance::SpeedProbe;
        assert_eq!(check(&pairs), Ok(()));
    }

    #[test]
    fn a_seed_is_an_order_for_good() {
        let orders = |seed, count| -> String {
            OrderSchedule::new(seed)
                .take(count)
                .map(|o| if o == Arm::Base { 'A' } else { 'B' })
                .collect()
        };
        assert_eq!(orders(1, 16), orders(1, 16));
        // A recorded comparison can be run again: a generator that changes breaks that, and is to
        // be noticed.
        assert_eq!(orders(1, 16), "BABAABABBAABBAAB");
        assert_ne!(orders(1, 40), orders(2, 40));
    }

    #[test]
    fn blocks_are_whole_and_a_fair_coin_opens_them() {
        let orders: Vec<Arm> = OrderSchedule::new(7).take(20_000).collect();
        assert!(orders.chunks_exact(2).all(|block| block[0] != block[1]));
        let opened = orders
            .chunks_exact(2)
            .filter(|block| block[0] == Arm::Base)
            .count();
        // Five standard deviations of 10,000 fair coins.
        assert!(opened.abs_diff(5_000) < 250, "{opened}");
    }
}
