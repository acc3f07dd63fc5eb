//! Course of a second in short steps: what ended in each by outcome, the most in flight at once, and
//! the times of what was due in it. Shards record it, the supervisor merges it; it must not decide
//! what a stall is.
//!
//! Constant in size: a shard has 7,200 numbers for each second that is open, of which those that are
//! not 0 travel.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::table::{Count, counters};
use crate::clock::{Nanos, duration_ns};
use crate::sample::Outcome;

/// Steps in a second.
pub const STEPS: usize = 50;

/// Length of a step.
pub const STEP: Duration = Duration::from_millis(1_000 / STEPS as u64);

/// Cells of times in a factor of ten: each is a seventh wider than the one below.
pub const CELLS_PER_DECADE: usize = 16;

/// Cells of times. Cell `n` holds from 10^(n/16) to below 10^((n+1)/16) us, the first one what was
/// faster as well, and the last one, from 866 s on, what was slower.
pub const CELLS: usize = 9 * CELLS_PER_DECADE;

counters! {
    /// Counts of a step, by when something ended.
    #[derive(Copy)]
    pub struct StepCounts {
        /// Good answers.
        good: u64,
        /// The target has no such item.
        not_found: u64,
        /// Throttled.
        throttled: u64,
        /// Rejected, challenged, without a valid answer, or cut off.
        failed: u64,
        /// Answers of any status.
        answers: u64,
        /// The most requests under way at once; of several shards, the sum of theirs.
        in_flight: u64,
    }
}

/// Course of a second of a shard, or of all shards together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SecondCourse {
    /// By step; empty if nothing was.
    steps: Vec<StepCounts>,
    /// Number of times by place, which is that of the step times [`CELLS`], and the cell; in order.
    times: Vec<(u16, u64)>,
}

impl SecondCourse {
    /// Count requests that ended in a step.
    pub(crate) fn add(&mut self, step: usize, outcome: Outcome, is_answer: bool, count: u64) {
        let counts = self.at(step);
        counts.answers += if is_answer { count } else { 0 };
        *match outcome {
            Outcome::Ok | Outcome::NotModified | Outcome::Stepped => &mut counts.good,
            Outcome::NotFound => &mut counts.not_found,
            Outcome::Throttled => &mut counts.throttled,
            Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => &mut counts.failed,
            Outcome::Redirected => return,
        } += count;
    }

    /// Return the counts of a step below [`STEPS`].
    pub(crate) fn at(&mut self, step: usize) -> &mut StepCounts {
        if self.steps.is_empty() {
            self.steps.resize(STEPS, StepCounts::default());
        }
        &mut self.steps[step]
    }

    /// Take the times of what was due in it.
    pub(crate) fn set_times(&mut self, times: &StepTimes) {
        let filled = (0..).zip(&times.0).filter(|(_, count)| **count > 0);
        self.times = filled.map(|(at, count)| (at, u64::from(*count))).collect();
    }

    /// Add that of another shard in the same second.
    pub fn merge(&mut self, other: &Self) {
        self.steps.add(&other.steps);
        self.times.extend(&other.times);
        // Two runs in order, which a stable sort merges.
        self.times.sort_by_key(|(place, _)| *place);
        self.times.dedup_by(|(next, count), (place, sum)| {
            let is_same = next == place;
            *sum = sum.saturating_add(if is_same { *count } else { 0 });
            is_same
        });
    }

    /// The counts of each step.
    pub fn steps(&self) -> impl Iterator<Item = StepCounts> + '_ {
        (0..STEPS).map(|step| self.steps.get(step).copied().unwrap_or_default())
    }

    /// Number of times by step and cell, without those that are 0.
    pub fn times(&self) -> impl Iterator<Item = (usize, usize, u64)> + '_ {
        self.times
            .iter()
            .map(|(place, count)| {
                let place = usize::from(*place);
                (place / CELLS, place % CELLS, *count)
            })
            .filter(|(step, ..)| *step < STEPS)
    }
}

/// Times of what was due in a second, by step and cell, where they are recorded: every cell is
/// there, so that a time costs as little as adding one to a number.
#[derive(Debug, Default)]
pub(crate) struct StepTimes(Vec<u32>);

impl StepTimes {
    /// Record a time of what was due in a step below [`STEPS`].
    #[inline]
    pub(crate) fn record(&mut self, step: usize, ns: u64) {
        if self.0.is_empty() {
            self.0.resize(STEPS * CELLS, 0);
        }
        self.0[step * CELLS + cell(ns)] += 1;
    }
}

/// The step of a second that a moment is in; the nearest one if it is in another second.
#[inline]
pub(crate) fn step_of(second: Nanos, at: Nanos) -> usize {
    let into = at.since(second) / duration_ns(STEP);
    usize::try_from(into).unwrap_or(usize::MAX).min(STEPS - 1)
}

/// Leading binary digits that say which cell a time is in, or the one below: numbers that share them
/// differ by an eighth at most, and a cell is a seventh wide.
const DIGITS: u32 = 4;

/// Numbers that a power of two adds to those of [`DIGITS`].
const HALF: usize = 1 << (DIGITS - 1);

/// 10^(n/16), in units of 10^-15, rounded up.
const ROOTS: [u64; CELLS_PER_DECADE] = [
    1_000_000_000_000_000,
    1_154_781_984_689_459,
    1_333_521_432_163_325,
    1_539_926_526_059_492,
    1_778_279_410_038_923,
    2_053_525_026_457_147,
    2_371_373_705_661_656,
    2_738_419_634_264_362,
    3_162_277_660_168_380,
    3_651_741_272_548_378,
    4_216_965_034_285_823,
    4_869_675_251_658_632,
    5_623_413_251_903_491,
    6_493_816_315_762_114,
    7_498_942_093_324_559,
    8_659_643_233_600_654,
];

/// The least time of each cell, ns. None is beyond the last one.
const LEAST: [u64; CELLS + 1] = {
    let mut least = [u64::MAX; CELLS + 1];
    // A decade of times of a microsecond has 1,000 ns.
    let (mut at, mut unit) = (0, 1_000_000_000_000);
    while at < CELLS {
        least[at] = ROOTS[at % CELLS_PER_DECADE].div_ceil(unit);
        at += 1;
        if at % CELLS_PER_DECADE == 0 && unit > 1 {
            unit /= 10;
        }
    }
    least[0] = 0;
    least
};

/// The cell of the least time with these leading digits.
#[expect(clippy::cast_possible_truncation, reason = "there are 144 cells")]
const LOWEST: [u8; (64 - DIGITS as usize) * HALF + 2 * HALF] = {
    let mut lowest = [0; (64 - DIGITS as usize) * HALF + 2 * HALF];
    let (mut at, mut cell) = (0, 0);
    while at < lowest.len() {
        let shift = (at / HALF).saturating_sub(1);
        let ns = ((at - shift * HALF) as u64) << shift;
        while LEAST[cell + 1] <= ns && cell + 1 < CELLS {
            cell += 1;
        }
        lowest[at] = cell as u8;
        at += 1;
    }
    lowest
};

/// The cell of a time.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "below 16 after the shift")]
fn cell(ns: u64) -> usize {
    let shift = (ns | (2 * HALF as u64 - 1)).ilog2() + 1 - DIGITS;
    let lowest = usize::from(LOWEST[shift as usize * HALF + (ns >> shift) as usize]);
    (lowest + usize::from(ns >= LEAST[lowest + 1])).min(CELLS - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_cell_begins_where_the_one_below_it_ends() {
        for (n, least) in LEAST.into_iter().enumerate().take(CELLS).skip(1) {
            assert_eq!([least - 1, least].map(cell), [n - 1, n]);
            let exact = 1e3 * 10f64.powf(n as f64 / CELLS_PER_DECADE as f64);
            assert!(
                (least as f64 - exact.ceil()).abs() <= exact * 1e-12,
                "{n}: {least}, {exact}"
            );
        }
        assert_eq!([0, 999, u64::MAX].map(cell), [0, 0, CELLS - 1]);
    }

    proptest! {
        #[test]
        fn each_time_is_in_the_cell_of_its_logarithm(digits in 0.0..18.0_f64) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "below 10^18")]
            let ns = 10f64.powf(digits) as u64;
            prop_assert_eq!(cell(ns), LEAST.partition_point(|least| *least <= ns).max(1) - 1);
        }

        #[test]
        fn seconds_of_shards_add_up_in_any_order_and_to_that_of_one(
            times in prop::collection::vec((0..STEPS, 0..1_u64 << 42, 0..3_usize), 0..200),
        ) {
            let second = |shards: &[usize]| {
                let (mut course, mut recorded) = (SecondCourse::default(), StepTimes::default());
                for (step, ns, _) in times.iter().filter(|(.., shard)| shards.contains(shard)) {
                    course.add(*step, if ns % 7 == 0 { Outcome::Throttled } else { Outcome::Ok }, true, 1);
                    recorded.record(*step, *ns);
                }
                course.set_times(&recorded);
                course
            };
            let merged = |order: [usize; 3]| {
                order.iter().fold(SecondCourse::default(), |mut all, shard| {
                    all.merge(&second(&[*shard]));
                    all
                })
            };
            let all = second(&[0, 1, 2]);
            prop_assert_eq!(&merged([0, 1, 2]), &all);
            prop_assert_eq!(&merged([2, 0, 1]), &all);
            let count = times.len() as u64;
            prop_assert_eq!(all.times().map(|(.., count)| count).sum::<u64>(), count);
            prop_assert_eq!(all.steps().map(|step| step.good + step.throttled).sum::<u64>(), count);
        }
    }
}
