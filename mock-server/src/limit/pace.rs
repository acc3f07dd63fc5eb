//! A steady rate and the arithmetic of theoretical arrival times, which `gcra`, `token_bucket` and `leaky_bucket` share.
//!
//! It must not know what a refusal looks like, nor where its word is kept.

use super::algorithm::{LARGEST, Standing, Step};
use super::error::LimitError;
use std::num::NonZeroU32;
use std::time::Duration;

/// The longest period: a limit per more than a day cannot be seen at work in a benchmark.
pub const MAX_PERIOD: Duration = Duration::from_hours(24);

/// The greatest tolerance, 73 years. It keeps every sum of times below 2^64 for as long as the clock runs.
const MAX_TOLERANCE_NS: u64 = 1 << 61;

/// `permits` requests per `period`, evenly: one per interval, which is the period over the permits, rounded up to whole
/// nanoseconds, so never more is granted than asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    permits: NonZeroU32,
    period: Duration,
    interval_ns: u64,
}

impl Pace {
    /// A pace of `permits` per `period`.
    ///
    /// # Errors
    ///
    /// The period is zero or longer than [`MAX_PERIOD`], or the rate is above one per nanosecond.
    pub fn new(permits: NonZeroU32, period: Duration) -> Result<Self, LimitError> {
        if period.is_zero() || period > MAX_PERIOD {
            return Err(LimitError::Period { period });
        }
        let period_ns = nanos(period);
        if u64::from(permits.get()) > period_ns {
            return Err(LimitError::TooFast { permits, period });
        }
        Ok(Self { permits, period, interval_ns: period_ns.div_ceil(u64::from(permits.get())) })
    }

    /// How many requests are admitted per period.
    #[must_use]
    pub const fn permits(&self) -> NonZeroU32 {
        self.permits
    }

    /// The period that the permits are for.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// Nanoseconds from one permit to the next: the period over the permits, rounded up.
    #[must_use]
    pub const fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    /// How long `requests` take at this pace, in nanoseconds.
    pub(super) fn span_ns(&self, requests: u32) -> Result<u64, LimitError> {
        self.interval_ns
            .checked_mul(u64::from(requests))
            .filter(|span| *span <= MAX_TOLERANCE_NS)
            .ok_or(LimitError::Burst { burst: requests })
    }
}

/// What two of the algorithms are to the arithmetic: a pace, and how far ahead of it a client may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    pub(super) interval_ns: u64,
    /// The interval times one less than what may come at once.
    pub(super) tolerance_ns: u64,
}

impl Schedule {
    /// Admit if and only if `now >= TAT - tau`, and then let `TAT = max(TAT, now) + t`, with `t` the interval and `tau`
    /// the tolerance. TAT, the theoretical arrival time, is the instant at which all that was admitted is paid for. A
    /// fresh key has TAT 0. Source: ITU-T I.371, virtual scheduling.
    pub(super) fn step(self, tat: u64, now_ns: u64) -> Step {
        let due_ns = tat.saturating_sub(self.tolerance_ns);
        if now_ns < due_ns {
            return Step::Rejected { retry_after_ns: due_ns - now_ns };
        }
        Step::Admitted { next: tat.max(now_ns).saturating_add(self.interval_ns).min(LARGEST), delay_ns: 0 }
    }

    /// Nothing is owed: as good as fresh.
    pub(super) const fn is_idle(tat: u64, now_ns: u64) -> bool {
        tat <= now_ns
    }

    /// The word without one admission that left `taken` behind, given back at `now_ns`, a reading later than that of
    /// the word.
    ///
    /// In the meantime others may have been admitted. Without the one that is given back, some of them might have met
    /// a full bucket, which gains nothing more; what they would have lost so is at most the time that has passed since
    /// the instant that the admission was counted from. That much is kept: what is left never admits more than if the
    /// admission had not been, and at most that much less.
    pub(super) fn give_back(self, tat: u64, taken: u64, now_ns: u64) -> Option<u64> {
        let counted_from_ns = taken.saturating_sub(self.interval_ns);
        let kept_ns = now_ns.saturating_sub(counted_from_ns);
        let back_ns = self.interval_ns.checked_sub(kept_ns).filter(|back| *back > 0)?;
        tat.checked_sub(back_ns)
    }

    pub(super) fn standing(self, tat: u64, now_ns: u64) -> Standing {
        let ahead_ns = tat.saturating_sub(now_ns);
        // Room for so many more at once: whole intervals between what is owed and what may be owed.
        let may_owe_ns = self.tolerance_ns.saturating_add(self.interval_ns);
        let room_ns = may_owe_ns.saturating_sub(ahead_ns);
        let remaining = room_ns / self.interval_ns;
        // The next permit is there when the room has grown to one more interval; a full bucket gains nothing.
        let reset_ns = if ahead_ns == 0 { 0 } else { (remaining + 1) * self.interval_ns - room_ns };
        Standing { remaining, reset_ns }
    }
}

pub(super) fn nanos(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_interval_is_never_rounded_down() {
        let pace = Pace::new(NonZeroU32::new(3).unwrap(), Duration::from_secs(1)).unwrap();
        assert_eq!(pace.interval_ns(), 333_333_334);
    }

    #[test]
    fn what_is_given_back_at_once_was_never_taken() {
        let schedule = Schedule { interval_ns: 100, tolerance_ns: 300 };
        for tat in [0, 900, 1000, 1100, 1300] {
            let Step::Admitted { next, .. } = schedule.step(tat, 1000) else { panic!("{tat}") };
            let back = schedule.give_back(next, next, 1000).unwrap();
            assert_eq!(back, tat.max(1000), "{tat}");
        }
    }

    proptest! {
        /// One admission is given back later, others come in between: they and those after it get no more than they
        /// would have without it, and no less than if it had been kept.
        #[test]
        fn giving_back_is_never_worth_more_than_what_was_taken(
            owed in 0_u64..600, gaps in proptest::collection::vec(0_u64..150, 0..20), burst in 1_u64..6,
        ) {
            let schedule = Schedule { interval_ns: 100, tolerance_ns: 100 * (burst - 1) };
            let start = 10_000;
            let Step::Admitted { next: taken, .. } = schedule.step(start + owed, start) else { return Ok(()) };
            let (mut with, mut without, mut now) = (taken, start + owed, start);
            for gap in gaps {
                now += gap;
                // Only those that are admitted beside the one in doubt; without it they are admitted all the more.
                if let Step::Admitted { next, .. } = schedule.step(with, now) {
                    let Step::Admitted { next: alone, .. } = schedule.step(without, now) else { panic!("stricter") };
                    (with, without) = (next, alone);
                }
            }
            let after = schedule.give_back(with, taken, now).unwrap_or(with);
            prop_assert!(after.max(now) >= without.max(now), "{} below {} at {}", after, without, now);
            prop_assert!(after <= with);
            // Where the bucket was never full, it is exact.
            if start + owed >= now {
                prop_assert_eq!(after, without);
            }
        }

        #[test]
        fn remaining_is_what_would_be_admitted_now_and_one_more_at_the_reset(tat in 0_u64..5_000, burst in 1_u64..9) {
            let schedule = Schedule { interval_ns: 100, tolerance_ns: 100 * (burst - 1) };
            let now = 1_000;
            let admitted_at = |now: u64| {
                let mut word = tat;
                (0..100).take_while(|_| match schedule.step(word, now) {
                    Step::Admitted { next, .. } => { word = next; true }
                    Step::Rejected { .. } => false,
                }).count() as u64
            };
            let Standing { remaining, reset_ns } = schedule.standing(tat, now);
            prop_assert_eq!(remaining, admitted_at(now));
            if reset_ns > 0 {
                prop_assert_eq!(admitted_at(now + reset_ns - 1), remaining);
                // More than one bucket's worth behind, the room is gained only once the debt is paid.
                if remaining < burst && tat <= now + schedule.tolerance_ns + 100 {
                    prop_assert_eq!(admitted_at(now + reset_ns), remaining + 1);
                }
            } else {
                prop_assert_eq!(remaining, burst);
            }
        }
    }
}
