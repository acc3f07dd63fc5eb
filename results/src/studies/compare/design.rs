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

use std::fmt;

use serde::{Deserialize, Serialize};

use super::disturbance::Disturbance;
use super::metric::Readings;

/// One of the two things compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arm {
    /// The arm that is compared with.
    Base,
    /// The arm that is judged.
    Candidate,
}

/// Order in which the two rounds of a pair ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// AB.
    BaseFirst,
    /// BA.
    CandidateFirst,
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
    /// Order of the two: the arm that ran first.
    pub order: Order,
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
        "counted pairs {} and {} both ran {order}: swap the rounds of one. In each two counted pairs the base goes first once and \
         second once, so that a second round that is always slower does not look like an effect", .pair, .pair + 1
    )]
    NotInBlocks {
        /// The first of the two, counted from 1 over the undisturbed pairs.
        pair: usize,
        /// The order of both.
        order: Order,
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

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BaseFirst => "the base first",
            Self::CandidateFirst => "the candidate first",
        })
    }
}

impl Arm {
    /// The order of a pair whose first round is this arm's.
    pub const fn first(self) -> Order {
        match self {
            Self::Base => Order::BaseFirst,
            Self::Candidate => Order::CandidateFirst,
        }
    }
}

impl Order {
    /// The arms in this order.
    pub const fn arms(self) -> [Arm; 2] {
        match self {
            Self::BaseFirst => [Arm::Base, Arm::Candidate],
            Self::CandidateFirst => [Arm::Candidate, Arm::Base],
        }
    }

    /// The other one.
    pub const fn reversed(self) -> Self {
        match self {
            Self::BaseFirst => Self::CandidateFirst,
            Self::CandidateFirst => Self::BaseFirst,
        }
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
        let of_parts = self.parts.iter();
        let of_parts = of_parts.map(|part| part.each_ref().map(|of| of.of(metric).value()));
        let parts: Vec<_> = of_parts.collect();
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
    let pairs = rounds.chunks(2).zip((1..).step_by(2));
    pairs
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
        order: first.arm.first(),
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
    let kept: Vec<Order> = pairs
        .iter()
        .filter(|pair| pair.undisturbed())
        .map(|pair| pair.order)
        .collect();
    let all: Vec<Order> = pairs.iter().map(|pair| pair.order).collect();
    match (uneven(&kept), uneven(&all)) {
        (Some(block), Some(_)) => Err(DesignError::NotInBlocks {
            pair: 2 * block + 1,
            order: kept[2 * block],
        }),
        _ => Ok(()),
    }
}

/// The first block of two with one order.
fn uneven(orders: &[Order]) -> Option<usize> {
    orders
        .chunks_exact(2)
        .position(|block| block[0] == block[1])
}

/// The orders of the pairs of a comparison, without end: each two make a block, one of either
/// order, and a fair coin says which comes first. The same seed gives the same orders.
///
/// A pair that turns out to be disturbed is run again in its own order, right away: ask for the
/// next order only after an undisturbed pair.
#[derive(Debug, Clone)]
pub struct OrderSchedule {
    draw: fastrand::Rng,
    second: Option<Order>,
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
    type Item = Order;

    fn next(&mut self) -> Option<Order> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let first = if self.draw.bool() {
            Order::BaseFirst
        } else {
            Order::CandidateFirst
        };
        self.second = Some(first.reversed());
        Some(first)
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
                    pair.order,
                    pair.base.of("m").value(),
                    pair.candidate.of("m").value(),
                    pair.disturbance,
                )
            })
            .collect();
        assert_eq!(
            seen,
            [
                (Order::BaseFirst, Some(0.0), Some(1.0), Disturbance::None),
                (
                    Order::CandidateFirst,
                    Some(3.0),
                    Some(2.0),
                    Disturbance::Steal
                ),
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
        let refused = |pair, order| Err(DesignError::NotInBlocks { pair, order });
        assert_eq!(check(&pairs("ABAB")), refused(1, Order::BaseFirst));
        assert_eq!(check(&pairs("ABBABABA")), refused(3, Order::CandidateFirst));
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
                .map(|o| if o == Order::BaseFirst { 'A' } else { 'B' })
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
        let orders: Vec<Order> = OrderSchedule::new(7).take(20_000).collect();
        assert!(orders.chunks_exact(2).all(|block| block[0] != block[1]));
        let opened = orders
            .chunks_exact(2)
            .filter(|block| block[0] == Order::BaseFirst)
            .count();
        // Five standard deviations of 10,000 fair coins.
        assert!(opened.abs_diff(5_000) < 250, "{opened}");
    }
}
