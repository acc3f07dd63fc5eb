//! The token bucket: a bucket of tokens, refilled at a steady rate; each request takes one.
//!
//! It must not keep anything but the one word.

use super::algorithm::{Quota, Standing, Step, Unit};
use super::error::LimitError;
use super::pace::{Pace, Schedule};
use std::num::NonZeroU32;

/// A bucket that holds `size` tokens, starts full, and gains one per interval of the pace.
///
/// **Guarantee.** In any window of `w` nanoseconds it admits at most `size + w / t`, with `t` the interval.
///
/// Its arithmetic is that of [`Gcra`](super::Gcra): the word is the instant at which the bucket will be full again, in
/// whole nanoseconds, so no fraction of a token is ever lost to rounding. To a client the two differ in the size that
/// goes without saying: a bucket of `100/min` holds a whole minute's 100 tokens, where GCRA of `100/min` spaces requests
/// by 600 ms. What is announced is the same for both: as the limit what may come at once, as what remains the whole
/// tokens there are, as the reset the instant of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenBucket {
    pace: Pace,
    size: NonZeroU32,
    schedule: Schedule,
}

impl TokenBucket {
    /// A bucket of `size` tokens refilled at `pace`.
    ///
    /// # Errors
    ///
    /// The bucket would take more than 73 years to fill.
    pub fn new(pace: Pace, size: NonZeroU32) -> Result<Self, LimitError> {
        let tolerance_ns = pace.span_ns(size.get() - 1)?;
        Ok(Self { pace, size, schedule: Schedule { interval_ns: pace.interval_ns(), tolerance_ns } })
    }

    /// How fast it is refilled.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// How many tokens it holds.
    #[must_use]
    pub const fn size(&self) -> NonZeroU32 {
        self.size
    }

    pub(super) fn step(&self, full_at_ns: u64, now_ns: u64) -> Step {
        self.schedule.step(full_at_ns, now_ns)
    }

    pub(super) const fn is_idle(full_at_ns: u64, now_ns: u64) -> bool {
        Schedule::is_idle(full_at_ns, now_ns)
    }

    pub(super) fn give_back(&self, full_at_ns: u64, taken: u64, now_ns: u64) -> Option<u64> {
        self.schedule.give_back(full_at_ns, taken, now_ns)
    }

    pub(super) fn standing(&self, full_at_ns: u64, now_ns: u64) -> Standing {
        self.schedule.standing(full_at_ns, now_ns)
    }

    pub(super) fn quota(&self) -> Quota {
        let unit = Unit::PerNs(self.schedule.tolerance_ns.saturating_add(self.schedule.interval_ns));
        Quota { requests: self.size.get(), unit }
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::drive::{ask, fought_over, is_within};
    use super::super::{Algorithm, Limit};
    use proptest::prelude::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn algorithm(text: &str) -> Algorithm {
        *text.parse::<Limit>().unwrap().algorithm()
    }

    #[test]
    fn a_bucket_holds_a_period_unless_told_otherwise() {
        assert_eq!(fought_over(&algorithm("bucket:30000/min"), &[0, 2_000_000]), [30_000, 1]);
        assert_eq!(fought_over(&algorithm("bucket:30000/min:burst=7"), &[0, 2_000_000]), [7, 1]);
    }

    proptest! {
        /// Whole tokens of integers, refilled at each multiple of the interval after the bucket was last full.
        #[test]
        fn it_admits_what_counted_tokens_do(
            size in 1_u32..20, per_s in 1_u32..1000, gaps in proptest::collection::vec(0_u64..250, 1..200),
        ) {
            let limit = algorithm(&format!("bucket:{per_s}/s:burst={size}"));
            let t = 1_000_000_000_u64.div_ceil(per_s.into());
            let word = AtomicU64::new(0);
            let (mut tokens, mut since, mut now) = (u64::from(size), 0_u64, 0_u64);
            let mut admitted = Vec::new();
            for gap in gaps {
                now += gap * t / 100;
                if tokens < u64::from(size) {
                    let gained = (now - since) / t;
                    tokens += gained;
                    since += gained * t;
                }
                if tokens >= u64::from(size) {
                    (tokens, since) = (size.into(), now);
                }
                prop_assert_eq!(ask(&word, now, &limit).is_ok(), tokens > 0);
                if tokens > 0 {
                    tokens -= 1;
                    admitted.push(now);
                }
                prop_assert_eq!(limit.standing(word.load(Ordering::Relaxed), now).remaining, tokens);
            }
            prop_assert!(is_within(&admitted, size.into(), t));
        }
    }
}
