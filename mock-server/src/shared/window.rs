//! How many requests were admitted in each millisecond, which tells the busiest second exactly. `Books` adds every
//! admitted request, `Ledger` asks for the busiest second.
//!
//! It must not read the time, and it must not decide what is admitted.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// Milliseconds per block. Blocks that were never touched are skipped when the busiest second is looked for; 1024
/// counts of four bytes are one page, so their memory is never even read.
const BLOCK_MS: usize = 1024;

/// How many blocks are tracked, in words of 64 bits.
const BLOCK_WORDS: usize = 220;

/// How many milliseconds are tracked: four hours.
const HORIZON_MS: usize = BLOCK_WORDS * 64 * BLOCK_MS;
const _: () = assert!(HORIZON_MS >= 4 * 3600 * 1000);

/// The width of the window, in milliseconds.
const SECOND_MS: usize = 1000;

const NS_PER_MS: u64 = 1_000_000;

/// Admissions per millisecond since the start of the books.
#[repr(C)]
pub(crate) struct Window {
    /// The millisecond of the clock that bucket 0 stands for.
    start_ms: AtomicU64,
    /// Admissions that came too late to be tracked.
    beyond: AtomicU64,
    /// One bit per block that has a count.
    touched: [AtomicU64; BLOCK_WORDS],
    per_ms: PerMs,
}

/// The counts, apart from the rest because they are discarded in whole pages.
#[repr(C, align(4096))]
pub(crate) struct PerMs {
    buckets: [AtomicU32; HORIZON_MS],
}

impl Window {
    /// Counts one admission at `now_ns` on the common clock.
    pub(crate) fn admit(&self, now_ns: u64) {
        let ms = (now_ns / NS_PER_MS).saturating_sub(self.start_ms.load(Ordering::Relaxed));
        let Some((ms, bucket)) =
            usize::try_from(ms).ok().and_then(|ms| self.per_ms.buckets.get(ms).map(|bucket| (ms, bucket)))
        else {
            self.beyond.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let block = ms / BLOCK_MS;
        let word = &self.touched[block / 64];
        let bit = 1 << (block % 64);
        // The bit is written once per block: reading it first keeps its line shared among the processes.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        bucket.fetch_add(1, Ordering::Relaxed);
    }

    /// The greatest number of admissions in any 1000 consecutive milliseconds of the clock.
    pub(crate) fn busiest_second(&self) -> u64 {
        // The milliseconds of the current window that have a count, oldest first.
        let mut window: VecDeque<(usize, u64)> = VecDeque::new();
        let mut sum = 0;
        let mut busiest = 0;
        for (ms, count) in self.counts() {
            window.push_back((ms, count));
            sum += count;
            while let Some(&(oldest, count)) = window.front()
                && oldest + SECOND_MS <= ms
            {
                window.pop_front();
                sum -= count;
            }
            busiest = busiest.max(sum);
        }
        busiest
    }

    /// Whether every admission since the start is within the horizon.
    pub(crate) fn is_exact(&self) -> bool {
        self.beyond.load(Ordering::Relaxed) == 0
    }

    /// Starts over at `now_ns`; the caller has cleared or discarded the counts.
    pub(crate) fn restart(&self, now_ns: u64) {
        for word in &self.touched {
            word.store(0, Ordering::Relaxed);
        }
        self.beyond.store(0, Ordering::Relaxed);
        self.start_ms.store(now_ns / NS_PER_MS, Ordering::Relaxed);
    }

    pub(crate) fn per_ms(&self) -> &PerMs {
        &self.per_ms
    }

    /// Every millisecond with a count, in order.
    fn counts(&self) -> impl Iterator<Item = (usize, u64)> {
        let is_touched = |block: &usize| self.touched[block / 64].load(Ordering::Relaxed) >> (block % 64) & 1 == 1;
        (0..BLOCK_WORDS * 64)
            .filter(is_touched)
            .flat_map(|block| block * BLOCK_MS..(block + 1) * BLOCK_MS)
            .map(|ms| (ms, u64::from(self.per_ms.buckets[ms].load(Ordering::Relaxed))))
            .filter(|(_, count)| *count > 0)
    }
}

impl PerMs {
    /// Zeroes the counts, the slow way: those that are zero are read and not written.
    pub(crate) fn clear(&self) {
        for bucket in self.buckets.iter().filter(|bucket| bucket.load(Ordering::Relaxed) != 0) {
            bucket.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use proptest::prelude::*;

    #[test]
    fn a_window_is_a_thousand_milliseconds_wide() {
        let shared = Shared::new().unwrap();
        let window = &shared.region().window;
        for ms in [5, 1004, 1005, 2005] {
            window.admit(ms * NS_PER_MS);
        }
        // 5 and 1004 are within one window, 1004 and 1005 too, but 5 and 1005 are not.
        assert_eq!(window.busiest_second(), 2);
        window.admit(1004 * NS_PER_MS + 999_999);
        assert_eq!(window.busiest_second(), 3);
    }

    #[test]
    fn the_horizon_is_counted_from_the_last_restart() {
        let shared = Shared::new().unwrap();
        let window = &shared.region().window;
        let beyond_ns = HORIZON_MS as u64 * NS_PER_MS;
        window.admit(beyond_ns - 1);
        assert!(window.is_exact());
        assert_eq!(window.busiest_second(), 1);
        window.admit(beyond_ns);
        assert!(!window.is_exact());
        assert_eq!(window.busiest_second(), 1);
        window.restart(beyond_ns);
        window.per_ms().clear();
        window.admit(beyond_ns);
        assert!(window.is_exact());
        assert_eq!(window.busiest_second(), 1);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_agrees_with_counting_every_window(
            mut instants in proptest::collection::vec(prop_oneof![0_u64..3_000, 0_u64..100_000], 1..200),
        ) {
            let shared = Shared::new().unwrap();
            let window = &shared.region().window;
            for ms in &instants {
                window.admit(ms * NS_PER_MS);
            }
            instants.sort_unstable();
            let expected = instants.iter().map(|end| {
                instants.iter().filter(|ms| **ms <= *end && **ms + 1000 > *end).count() as u64
            });
            prop_assert_eq!(Some(window.busiest_second()), expected.max());
        }
    }
}
