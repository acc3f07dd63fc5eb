//! The generic cell rate algorithm: one request per interval, and a few at once if there was time to rest.
//!
//! It must not keep anything but the one word.

use super::algorithm::{Quota, Standing, Step, Unit};
use super::error::LimitError;
use super::pace::{Pace, Schedule};
use std::num::NonZeroU32;

/// At most `burst` requests at once, and one more per interval of the pace.
///
/// **Guarantee.** In any window of `w` nanoseconds it admits at most `burst + w / t`, with `t` the interval.
///
/// It is a token bucket that holds `burst` tokens and starts full, kept as one instant; see [`TokenBucket`] for the same
/// law under the other name. The burst is 1 if left out, the strictest reading of a rate: no two requests closer
/// together than one interval. A client that paces itself exactly still meets refusals then, because the network moves
/// its requests a little; a burst of a few forgives that.
///
/// [`TokenBucket`]: super::TokenBucket
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gcra {
    pace: Pace,
    burst: NonZeroU32,
    schedule: Schedule,
}

impl Gcra {
    /// One request per interval of `pace`, `burst` at once.
    ///
    /// # Errors
    ///
    /// The burst would take more than 73 years to fill.
    pub fn new(pace: Pace, burst: NonZeroU32) -> Result<Self, LimitError> {
        let tolerance_ns = pace.span_ns(burst.get() - 1)?;
        Ok(Self { pace, burst, schedule: Schedule { interval_ns: pace.interval_ns(), tolerance_ns } })
    }

    /// The rate.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// How many requests are admitted at once after a rest.
    #[must_use]
    pub const fn burst(&self) -> NonZeroU32 {
        self.burst
    }

    pub(super) fn step(&self, tat: u64, now_ns: u64) -> Step {
        self.schedule.step(tat, now_ns)
    }

    pub(super) const fn is_idle(tat: u64, now_ns: u64) -> bool {
        Schedule::is_idle(tat, now_ns)
    }

    pub(super) fn give_back(&self, tat: u64, taken: u64, now_ns: u64) -> Option<u64> {
        self.schedule.give_back(tat, taken, now_ns)
    }

    pub(super) fn standing(&self, tat: u64, now_ns: u64) -> Standing {
        self.schedule.standing(tat, now_ns)
    }

    pub(super) fn quota(&self) -> Quota {
        let unit = Unit::PerNs(self.schedule.tolerance_ns.saturating_add(self.schedule.interval_ns));
        Quota { requests: self.burst.get(), unit }
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::drive::{ask, fought_over, is_within};
    use super::super::{Algorithm, Limit};
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;
    use std::time::Duration;

    fn algorithm(text: &str) -> Algorithm {
        *text.parse::<Limit>().unwrap().algorithm()
    }

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let limit = algorithm("10/s");
        let tat = AtomicU64::new(0);
        assert_eq!(ask(&tat, 5, &limit), Ok(0));
        assert_eq!(ask(&tat, 6, &limit), Err(99_999_999));
        assert_eq!(ask(&tat, 100_000_004, &limit), Err(1));
        assert_eq!(ask(&tat, 100_000_005, &limit), Ok(0));
    }

    #[test]
    fn threads_that_share_a_word_admit_exactly_what_one_would() {
        let instants: Vec<u64> = (0..=400).map(|quarter| quarter * 250).collect();
        let admitted = fought_over(&algorithm("1000000/s:burst=10"), &instants);
        assert_eq!(admitted[0], 10);
        assert_eq!(admitted.iter().sum::<u64>(), 10 + 100);
    }

    #[test]
    fn threads_that_fight_for_one_burst_get_exactly_the_burst() {
        assert_eq!(fought_over(&algorithm("1000000/s:burst=400000"), &[0]), [400_000]);
    }

    fn any_gcra() -> impl Strategy<Value = Gcra> {
        (1_u32..5_000, 1_u64..10_000_000, 1_u32..50).prop_filter_map("valid", |(permits, period_us, burst)| {
            let pace = Pace::new(NonZeroU32::new(permits)?, Duration::from_micros(period_us)).ok()?;
            Gcra::new(pace, NonZeroU32::new(burst)?).ok()
        })
    }

    proptest! {
        #[test]
        fn no_window_admits_more_than_its_share(
            limit in any_gcra(), quarters in proptest::collection::vec(0_u64..12, 1..300),
        ) {
            // Arrivals come at random gaps of 0 to 3 intervals; each admitted pair spans a window.
            let tat = AtomicU64::new(0);
            let mut now = 0;
            let mut admitted = Vec::new();
            for gap in quarters {
                now += gap * limit.pace().interval_ns() / 4;
                if ask(&tat, now, &Algorithm::Gcra(limit)).is_ok() {
                    admitted.push(now);
                }
            }
            prop_assert!(is_within(&admitted, limit.burst().get().into(), limit.pace().interval_ns()));
        }

        #[test]
        fn it_admits_what_a_bucket_of_tokens_does(
            limit in any_gcra(), gaps in proptest::collection::vec(0_u64..300, 1..200),
        ) {
            // The model: tokens in 1/t, capped at the burst.
            let (tat, t) = (AtomicU64::new(0), u128::from(limit.pace().interval_ns()));
            let full = u128::from(limit.burst().get()) * t;
            let (mut tokens, mut now) = (full, 0);
            for gap in gaps {
                let gap_ns = gap * limit.pace().interval_ns() / 100;
                now += gap_ns;
                tokens = (tokens + u128::from(gap_ns)).min(full);
                let expected = tokens >= t;
                prop_assert_eq!(ask(&tat, now, &Algorithm::Gcra(limit)).is_ok(), expected);
                if expected {
                    tokens -= t;
                }
                prop_assert_eq!(u128::from(limit.standing(tat.load(std::sync::atomic::Ordering::Relaxed), now).remaining), tokens / t);
            }
        }

        #[test]
        fn a_refused_client_is_admitted_when_told_and_not_before(limit in any_gcra(), start in 0_u64..1 << 40) {
            let (tat, limit) = (AtomicU64::new(0), Algorithm::Gcra(limit));
            let wait = std::iter::repeat_with(|| ask(&tat, start, &limit)).find_map(Result::err).unwrap();
            prop_assert!(wait >= 1);
            prop_assert!(ask(&tat, start + wait - 1, &limit).is_err());
            prop_assert!(ask(&tat, start + wait, &limit).is_ok());
        }

        #[test]
        fn extreme_words_and_clocks_do_not_overflow(word: u64, now: u64, taken: u64, limit in any_gcra()) {
            limit.step(word, now);
            limit.standing(word.min(super::super::algorithm::LARGEST), now);
            limit.give_back(word, taken, now);
        }
    }
}
