//! The fixed window: a count that starts over at the edge of each window.
//!
//! It must not keep anything but the one word.

use super::algorithm::{LimitDecision, Standing};
use super::window_of;
use crate::setting::SettingError;
use std::num::NonZeroU32;
use std::time::Duration;

/// Bits of the word that count; the others number the window.
const COUNT_BITS: u32 = 24;

/// The most that a window can admit.
const MAX_PERMITS: u32 = (1 << COUNT_BITS) - 1;

/// The shortest window: their numbers have 40 bits, which last for 34 years then.
const MIN_WINDOW: Duration = Duration::from_millis(1);

/// At most `permits` requests in each window.
///
/// Windows are counted from the epoch of the target's clock, the moment it was started, and not
/// from midnight or any other mark of the wall clock: what a run sees does not depend on when it
/// was started.
///
/// **Guarantee.** Each aligned window admits at most `permits`, by the instants of decision. Across
/// an edge it may be twice that in no time: this is what the algorithm is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FixedWindow {
    pub(super) permits: NonZeroU32,
    pub(super) window: Duration,
    pub(super) window_ns: u64,
}

/// The word, taken apart.
#[derive(Clone, Copy)]
struct WindowCount {
    window: u64,
    count: u64,
}

impl WindowCount {
    const fn of(state: u64) -> Self {
        Self {
            window: state >> COUNT_BITS,
            count: state & MAX_PERMITS as u64,
        }
    }

    const fn state(self) -> u64 {
        self.window << COUNT_BITS | self.count
    }
}

impl FixedWindow {
    /// A window of `window` that admits `permits`.
    ///
    /// # Errors
    ///
    /// The window is shorter than a millisecond or longer than a day, or admits more than 2^24 - 1.
    pub fn new(permits: NonZeroU32, window: Duration) -> Result<Self, SettingError> {
        let window_ns = window_of((permits, MAX_PERMITS), (window, MIN_WINDOW))?;
        Ok(Self {
            permits,
            window,
            window_ns,
        })
    }

    /// The count at `now_ns`. A reading of the clock that reaches the word after a later one counts
    /// for the later window: the earlier one is over.
    fn at(&self, state: u64, now_ns: u64) -> WindowCount {
        let window = now_ns / self.window_ns;
        let seen = WindowCount::of(state);
        if seen.window >= window {
            seen
        } else {
            WindowCount { window, count: 0 }
        }
    }

    fn left_ns(&self, count: WindowCount, now_ns: u64) -> u64 {
        (count.window.saturating_add(1))
            .saturating_mul(self.window_ns)
            .saturating_sub(now_ns)
            .max(1)
    }

    pub(super) fn step(&self, state: u64, now_ns: u64) -> LimitDecision {
        let WindowCount { window, count } = self.at(state, now_ns);
        if count >= u64::from(self.permits.get()) {
            return LimitDecision::Rejected {
                retry_after_ns: self.left_ns(WindowCount { window, count }, now_ns),
            };
        }
        LimitDecision::Admitted {
            next: WindowCount {
                window,
                count: count + 1,
            }
            .state(),
            delay_ns: 0,
        }
    }

    pub(super) fn is_idle(&self, state: u64, now_ns: u64) -> bool {
        self.at(state, now_ns).count == 0
    }

    /// Exact: while the window lasts it has one less; after it there is nothing to give back.
    pub(super) fn give_back(state: u64, taken: u64) -> Option<u64> {
        let (now, then) = (WindowCount::of(state), WindowCount::of(taken));
        (now.window == then.window && now.count > 0).then(|| state - 1)
    }

    pub(super) fn standing(&self, state: u64, now_ns: u64) -> Standing {
        let count = self.at(state, now_ns);
        let reset_ns = if count.count == 0 {
            0
        } else {
            self.left_ns(count, now_ns)
        };
        Standing {
            remaining: u64::from(self.permits.get()).saturating_sub(count.count),
            reset_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Algorithm;
    use super::super::algorithm::drive::{ask, fought_over};
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};

    fn fixed(permits: u32, window_ms: u64) -> FixedWindow {
        FixedWindow::new(
            NonZeroU32::new(permits).unwrap(),
            Duration::from_millis(window_ms),
        )
        .unwrap()
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn an_edge_starts_over_and_the_late_count_for_the_window_that_goes_on() {
        let limit = Algorithm::FixedWindow(fixed(2, 10));
        let word = AtomicU64::new(0);
        assert_eq!(ask(&word, 9 * MS, &limit), Ok(0));
        assert_eq!(ask(&word, 9 * MS, &limit), Ok(0));
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Err(1));
        assert_eq!(ask(&word, 10 * MS, &limit), Ok(0));
        // Read before the edge, decided after it.
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Ok(0));
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Err(10 * MS + 1));
        assert_eq!(ask(&word, 11 * MS, &limit), Err(9 * MS));
    }

    #[test]
    fn threads_get_exactly_one_window_after_the_other() {
        let instants: Vec<u64> = (0..20).map(|half| half * 5 * MS).collect();
        let admitted = fought_over(&Algorithm::FixedWindow(fixed(20_000, 10)), &instants);
        for (half, admitted) in admitted.into_iter().enumerate() {
            assert_eq!(admitted, if half % 2 == 0 { 20_000 } else { 0 }, "{half}");
        }
    }

    #[test]
    fn a_gift_returns_only_within_its_window() {
        let limit = fixed(5, 10);
        let LimitDecision::Admitted { next, .. } = limit.step(0, 25 * MS) else {
            panic!("rejected")
        };
        assert_eq!(
            FixedWindow::give_back(next, next)
                .map(|state| limit.standing(state, 26 * MS).remaining),
            Some(5)
        );
        let LimitDecision::Admitted { next: later, .. } = limit.step(next, 30 * MS) else {
            panic!("rejected")
        };
        assert_eq!(FixedWindow::give_back(later, next), None);
    }

    proptest! {
        #[test]
        fn it_admits_what_a_count_per_window_does(
            permits in 1_u32..20, window_ms in 1_u64..50, gaps in proptest::collection::vec(0_u64..20_000_000, 1..300),
        ) {
            let limit = fixed(permits, window_ms);
            let word = AtomicU64::new(0);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let count = model.entry(now / (window_ms * MS)).or_default();
                let expected = *count < u64::from(permits);
                let asked = ask(&word, now, &Algorithm::FixedWindow(limit));
                prop_assert_eq!(asked.is_ok(), expected);
                *count += u64::from(expected);
                let state = word.load(Ordering::Relaxed);
                prop_assert_eq!(limit.standing(state, now).remaining, u64::from(permits) - *count);
                prop_assert!(!limit.is_idle(state, now));
                prop_assert!(limit.is_idle(state, (now / (window_ms * MS) + 1) * window_ms * MS));
                if let Err(wait) = asked {
                    prop_assert_eq!((now + wait) % (window_ms * MS), 0);
                }
            }
        }

        #[test]
        fn extreme_words_and_clocks_do_not_overflow(word: u64, now: u64, taken: u64) {
            let limit = fixed(1000, 1);
            limit.step(word, now);
            limit.standing(word, now);
            FixedWindow::give_back(word, taken);
        }
    }
}
