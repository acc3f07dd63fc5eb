//! Decide if a failed item gets another attempt, and when: the retry budget and the backoff.
//!
//! Called by the gate (`Limits::try_again`), for attempts whose workload allows a repetition (the
//! crawl: `src/crawl/retry.rs`). It must not read a clock; draws come from a seeded
//! generator, so that a run can be repeated.

use std::time::Duration;

use crate::plan::{Backoff, RETRY_RESERVE, ShardPlan, ThrottlingPolicy, split_share};

/// Cost of one retry, in the unit in which first attempts earn: a hundredth of a retry.
const COST: u64 = 100;

/// Retries that a shard can save up at most. It bounds what a long good time can unleash in a bad
/// one.
const MOST_SAVED: u64 = 1_000;

/// A shard's part of the retry budget: first attempts earn a share of a retry each, and there is a
/// small reserve.
#[derive(Debug)]
pub(super) struct RetryBudget {
    earned_each: u64,
    saved: u64,
    most: u64,
    most_retries: u32,
}

impl RetryBudget {
    /// The budget of a shard.
    pub(super) fn new(plan: &ShardPlan) -> Self {
        let ThrottlingPolicy {
            retries,
            retry_budget_percent,
            ..
        } = plan.throttling;
        let reserve = split_share(
            RETRY_RESERVE,
            u64::from(plan.siblings),
            u64::from(plan.shard),
        )
        .max(1);
        // No budget means none: the reserve is there for runs that have just begun.
        let reserve = if retry_budget_percent == 0 {
            0
        } else {
            reserve
        };
        Self {
            earned_each: u64::from(retry_budget_percent),
            saved: reserve * COST,
            most: (reserve + MOST_SAVED) * COST,
            most_retries: retries,
        }
    }

    /// The shard takes the place of one that may have used the reserve.
    pub(super) const fn begin_late(&mut self) {
        self.saved = 0;
    }

    /// Counts a first attempt.
    pub(super) fn earn(&mut self) {
        self.saved = (self.saved + self.earned_each).min(self.most);
    }

    /// Takes retry `number` of its kind for an item, if it may have one.
    pub(super) fn spend(&mut self, number: u32) -> RetryDecision {
        if number > self.most_retries {
            return RetryDecision::ItemHadItsShare;
        }
        match self.saved.checked_sub(COST) {
            Some(rest) => {
                self.saved = rest;
                RetryDecision::Granted
            }
            None => RetryDecision::BudgetIsEmpty,
        }
    }
}

/// Answer to a request for a retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RetryDecision {
    /// The item may be tried again.
    Granted,
    /// The item was tried as often as an item may be.
    ItemHadItsShare,
    /// The run has retried as much as it may.
    BudgetIsEmpty,
}

/// The back-off before retry number `n`, counted from 0: `unit * min(cap, base * 2^n)`, with `unit`
/// drawn evenly from 0 to 1 ("full jitter" of Brooker, "Exponential Backoff And Jitter", AWS
/// Architecture Blog, 2015).
///
/// Never longer than the cap. A unit that is no number counts as 0.
pub(super) fn backoff(n: u32, unit: f64, Backoff { base, cap }: Backoff) -> Duration {
    let ceiling = backoff_ceiling(n, Backoff { base, cap });
    let unit = if unit.is_nan() {
        0.0
    } else {
        unit.clamp(0.0, 1.0)
    };
    // The product of the longest durations may round up beyond what can be held.
    let drawn = Duration::try_from_secs_f64(ceiling.as_secs_f64() * unit);
    drawn.unwrap_or(ceiling).min(ceiling)
}

/// The longest that [`backoff`] may come to.
pub(super) fn backoff_ceiling(n: u32, Backoff { base, cap }: Backoff) -> Duration {
    let factor = 2_u32.checked_pow(n).unwrap_or(u32::MAX);
    base.saturating_mul(factor).min(cap)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fixtures::plan;

    fn budget(retries: u32, percent: u32, shards: u32) -> RetryBudget {
        let mut run = plan();
        (run.shards, run.connections) = (shards, shards);
        (run.throttling.retries, run.throttling.retry_budget_percent) = (retries, percent);
        RetryBudget::new(&run.split(&[])[0])
    }

    #[test]
    fn an_item_has_its_share_and_a_run_its_budget() {
        let mut budget = budget(2, 20, 10);
        assert_eq!(
            [1, 2, 3].map(|n| budget.spend(n)),
            [
                RetryDecision::Granted,
                RetryDecision::Granted,
                RetryDecision::ItemHadItsShare
            ]
        );
        let mut rest = 0;
        while budget.spend(1) == RetryDecision::Granted {
            rest += 1;
        }
        assert_eq!(rest, 8, "a tenth of the reserve, less two");
        (0..9).for_each(|_| budget.earn());
        assert_eq!(
            [1, 1].map(|n| budget.spend(n)),
            [RetryDecision::Granted, RetryDecision::BudgetIsEmpty]
        );
    }

    #[test]
    fn a_back_off_doubles_up_to_its_cap() {
        let ms = Duration::from_millis;
        let whole = |n| {
            backoff(
                n,
                1.0,
                Backoff {
                    base: ms(100),
                    cap: ms(20_000),
                },
            )
        };
        let expected = [
            100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 20_000, 20_000,
        ]
        .map(ms);
        assert_eq!([0, 1, 2, 3, 4, 5, 6, 7, 8, u32::MAX].map(whole), expected);
        assert_eq!(
            backoff(
                3,
                f64::NAN,
                Backoff {
                    base: ms(1),
                    cap: Duration::MAX
                }
            ),
            Duration::ZERO
        );
    }

    proptest! {
        #[test]
        fn a_back_off_stays_within_its_cap(n: u32, unit: f64, base: Duration, cap: Duration) {
            let backoff = backoff(n, unit, Backoff { base, cap });
            prop_assert!(backoff <= cap);
        }

        #[test]
        fn retries_never_exceed_their_part_of_first_attempts_and_the_reserve(
            percent in 0..=100_u32, shards in 1..20_u32, turns in prop::collection::vec((0..500_u64, 0..500_u64), 1..40),
        ) {
            let mut budget = budget(4, percent, shards);
            let (mut firsts, mut retries) = (0, 0);
            for (attempts, wanted) in turns {
                (0..attempts).for_each(|_| budget.earn());
                firsts += attempts;
                retries += (0..wanted).filter(|_| budget.spend(1) == RetryDecision::Granted).count() as u64;
                prop_assert!(retries <= firsts * u64::from(percent) / 100 + RETRY_RESERVE);
            }
        }
    }
}
