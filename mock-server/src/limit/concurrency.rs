//! The cap on requests at the same time.
//!
//! It must not keep anything but the one word, the number of requests in flight; whoever was admitted gives back.

use super::algorithm::{Standing, Step};
use std::num::NonZeroU32;

/// At most `cap` requests at the same time: from their decision until their answer is handed over, or their client has
/// left.
///
/// **Guarantee.** Never more than `cap` of a key are in flight, over all processes.
///
/// When the next place is free nobody can know, so a refusal asks to wait for the least that `Retry-After` can say, a
/// second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Concurrency {
    cap: NonZeroU32,
}

impl Concurrency {
    /// A cap of `cap` requests.
    #[must_use]
    pub const fn new(cap: NonZeroU32) -> Self {
        Self { cap }
    }

    /// The cap.
    #[must_use]
    pub const fn cap(&self) -> NonZeroU32 {
        self.cap
    }

    pub(super) fn step(self, in_flight: u64) -> Step {
        at_most(self.cap, in_flight)
    }

    pub(super) fn standing(self, in_flight: u64) -> Standing {
        left(self.cap, in_flight)
    }
}

/// One more, if the cap is not reached.
pub(super) fn at_most(cap: NonZeroU32, open: u64) -> Step {
    if open >= u64::from(cap.get()) {
        return Step::Rejected { retry_after_ns: 1 };
    }
    Step::Admitted { next: open + 1, delay_ns: 0 }
}

/// What is left below the cap; until when, nobody knows.
pub(super) fn left(cap: NonZeroU32, open: u64) -> Standing {
    Standing { remaining: u64::from(cap.get()).saturating_sub(open), reset_ns: 0 }
}

#[cfg(test)]
mod tests {
    use super::super::Algorithm;
    use super::super::algorithm::drive::{ask, fought_over};
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn threads_get_the_cap_and_no_more() {
        let limit = Algorithm::Concurrency(Concurrency::new(NonZeroU32::new(300_000).unwrap()));
        assert_eq!(fought_over(&limit, &[0, 1 << 60]), [300_000, 0]);
    }

    #[test]
    fn never_more_than_the_cap_are_in_flight() {
        const CAP: u64 = 3;
        let limit = Algorithm::Concurrency(Concurrency::new(NonZeroU32::new(3).unwrap()));
        let (word, in_flight, most) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        if ask(&word, 0, &limit).is_ok() {
                            most.fetch_max(in_flight.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                            in_flight.fetch_sub(1, Ordering::SeqCst);
                            word.fetch_sub(1, Ordering::SeqCst);
                        }
                    }
                });
            }
        });
        assert!(most.into_inner() <= CAP);
        assert_eq!(word.into_inner(), 0);
    }
}
