//! Received and admitted requests by millisecond, from which the busiest windows are computed
//! exactly. `LedgerWriter` adds every request, `Ledger` reads the busiest windows.
//!
//! It must not read the time, and it must not decide what is admitted.

use super::atomics::{AtomicU32, AtomicU64, Ordering};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

/// Milliseconds per block. Blocks that were never touched are skipped when the busiest windows are
/// looked for; 1024 milliseconds of eight bytes are two pages, so their memory is never even read.
const BLOCK_MS: usize = 1024;

/// Blocks that are tracked, in words of 64 bits.
const BLOCK_WORDS: usize = 220;

/// Milliseconds that are tracked: four hours.
const HORIZON_MS: usize = BLOCK_WORDS * 64 * BLOCK_MS;
const _: () = assert!(HORIZON_MS >= 4 * 3600 * 1000);

const NS_PER_MS: u64 = 1_000_000;

/// Requests per millisecond since the start of the ledger.
#[repr(C)]
pub(crate) struct ArrivalCounts {
    /// The millisecond of the clock that the first one here stands for.
    start_ms: AtomicU64,
    /// Requests and admissions that came too late to be tracked.
    beyond: AtomicU64,
    /// One bit per block that has a count.
    touched: [AtomicU64; BLOCK_WORDS],
    per_ms: PerMs,
}

/// The counts, apart from the rest because they are discarded in whole pages.
#[repr(C, align(4096))]
pub(crate) struct PerMs {
    milliseconds: [Millisecond; HORIZON_MS],
}

/// Counts of one millisecond. Both share a cache line: a request that is admitted at once touches
/// no second one.
#[repr(C)]
struct Millisecond {
    requests: AtomicU32,
    admitted: AtomicU32,
}

/// Requests within a window of time, or the most in any, which for the two may be different windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    /// Requests that arrived within it, whether they were let through or not.
    pub requests: u64,
    /// Requests that the limiter let through within it; those that it delayed count when they go
    /// on.
    pub admitted: u64,
}

impl ArrivalCounts {
    /// Counts one request that came at `now_ns` on the common clock.
    pub(crate) fn come(&self, now_ns: u64) {
        if let Some(millisecond) = self.touch(now_ns) {
            millisecond.requests.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts one admission at `now_ns` on the common clock.
    pub(crate) fn admit(&self, now_ns: u64) {
        if let Some(millisecond) = self.touch(now_ns) {
            millisecond.admitted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The millisecond that something is to be counted in.
    fn touch(&self, now_ns: u64) -> Option<&Millisecond> {
        let ms = (now_ns / NS_PER_MS).saturating_sub(self.start_ms.load(Ordering::Relaxed));
        let Some((ms, millisecond)) = usize::try_from(ms).ok().and_then(|ms| {
            self.per_ms
                .milliseconds
                .get(ms)
                .map(|millisecond| (ms, millisecond))
        }) else {
            self.beyond.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        let block = ms / BLOCK_MS;
        let word = &self.touched[block / 64];
        let bit = 1 << (block % 64);
        // The bit is written once per block: reading it first keeps its line shared among the
        // processes.
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
        Some(millisecond)
    }

    /// The most of each in any window of so many consecutive milliseconds of the clock, in one pass
    /// over the counts.
    pub(crate) fn busiest<const WIDTHS: usize>(
        &self,
        widths_ms: [usize; WIDTHS],
    ) -> [Peaks; WIDTHS] {
        let mut sweeps = widths_ms.map(Sweep::new);
        for (ms, counts) in self.counts() {
            for sweep in &mut sweeps {
                sweep.add(ms, counts);
            }
        }
        sweeps.map(|sweep| sweep.peaks)
    }

    /// True if every request and every admission since the start is within the horizon.
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
    fn counts(&self) -> impl Iterator<Item = (usize, Peaks)> {
        (0..BLOCK_WORDS * 64)
            .filter(|block| {
                self.touched[block / 64].load(Ordering::Relaxed) >> (block % 64) & 1 == 1
            })
            .flat_map(|block| block * BLOCK_MS..(block + 1) * BLOCK_MS)
            .map(|ms| (ms, self.per_ms.milliseconds[ms].read()))
            .filter(|(_, counts)| *counts != Peaks::default())
    }
}

impl Millisecond {
    fn read(&self) -> Peaks {
        Peaks {
            requests: self.requests.load(Ordering::Relaxed).into(),
            admitted: self.admitted.load(Ordering::Relaxed).into(),
        }
    }
}

impl PerMs {
    /// Zeroes the counts, the slow way: those that are zero are read and not written.
    pub(crate) fn clear(&self) {
        let counts = self
            .milliseconds
            .iter()
            .flat_map(|Millisecond { requests, admitted }| [requests, admitted]);
        for count in counts.filter(|count| count.load(Ordering::Relaxed) != 0) {
            count.store(0, Ordering::Relaxed);
        }
    }
}

/// A window that goes over the counts from the first to the last.
struct Sweep {
    width_ms: usize,
    /// The milliseconds within it that have a count, oldest first.
    within: VecDeque<(usize, Peaks)>,
    sum: Peaks,
    peaks: Peaks,
}

impl Sweep {
    fn new(width_ms: usize) -> Self {
        Self {
            width_ms,
            within: VecDeque::new(),
            sum: Peaks::default(),
            peaks: Peaks::default(),
        }
    }

    /// Moves its end to `ms`, which is later than all before.
    fn add(&mut self, ms: usize, counts: Peaks) {
        self.within.push_back((ms, counts));
        self.sum.requests += counts.requests;
        self.sum.admitted += counts.admitted;
        while let Some(&(oldest, counts)) = self.within.front()
            && oldest + self.width_ms <= ms
        {
            self.within.pop_front();
            self.sum.requests -= counts.requests;
            self.sum.admitted -= counts.admitted;
        }
        self.peaks.requests = self.peaks.requests.max(self.sum.requests);
        self.peaks.admitted = self.peaks.admitted.max(self.sum.admitted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use proptest::prelude::*;

    #[test]
    fn the_horizon_is_counted_from_the_last_restart() {
        let beyond_ns = HORIZON_MS as u64 * NS_PER_MS;
        for count in [ArrivalCounts::come, ArrivalCounts::admit] {
            let shared = Shared::new().unwrap();
            let window = &shared.region().window;
            let counted = || {
                let [Peaks { requests, admitted }] = window.busiest([1000]);
                requests + admitted
            };
            count(window, beyond_ns - 1);
            assert!(window.is_exact());
            assert_eq!(counted(), 1);
            count(window, beyond_ns);
            assert!(!window.is_exact());
            assert_eq!(counted(), 1);
            window.restart(beyond_ns);
            window.per_ms().clear();
            count(window, beyond_ns);
            assert!(window.is_exact());
            assert_eq!(counted(), 1);
        }
    }

    /// The greatest number of `instants` within windows of a width, by looking at every one that
    /// ends with one of them.
    fn most_within(instants: &[u64], width_ms: u64) -> u64 {
        let within = |end: u64| {
            instants
                .iter()
                .filter(|ms| **ms <= end && **ms + width_ms > end)
                .count() as u64
        };
        instants.iter().map(|end| within(*end)).max().unwrap_or(0)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_agrees_with_counting_every_window(
            instants in proptest::collection::vec(
                (prop_oneof![0_u64..300, 0_u64..3_000, 0_u64..100_000], any::<bool>()), 1..200,
            ),
        ) {
            let shared = Shared::new().unwrap();
            let window = &shared.region().window;
            for (ms, is_admitted) in &instants {
                window.come(ms * NS_PER_MS);
                if *is_admitted {
                    window.admit(ms * NS_PER_MS);
                }
            }
            let all: Vec<u64> = instants.iter().map(|(ms, _)| *ms).collect();
            let admitted: Vec<u64> = instants.iter().filter(|(_, is)| *is).map(|(ms, _)| *ms).collect();
            let expected = [10, 100, 1000].map(|width_ms| Peaks {
                requests: most_within(&all, width_ms),
                admitted: most_within(&admitted, width_ms),
            });
            prop_assert_eq!(window.busiest([10, 100, 1000]), expected);
        }
    }
}
