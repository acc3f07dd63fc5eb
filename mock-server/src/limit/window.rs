//! Windows: the fixed window, a count that starts over at the edge of each window, and the sliding
//! window counter, the count of this window and of the last one the share that still lies within
//! a window's length.
//!
//! It must not keep anything but the one word.

use super::algorithm::{LimitDecision, Standing};

/// Bits of the word that count; the others number the window.
const FIXED_COUNT_BITS: u32 = 24;

/// The most that a window can admit.
const FIXED_MAX_PERMITS: u32 = (1 << FIXED_COUNT_BITS) - 1;

/// At most `permits` requests in each window.
///
/// Windows are counted from the epoch of the target's clock, the moment it was started, and not
/// from midnight or any other mark of the wall clock: what a run sees does not depend on when it
/// was started.
///
/// **Guarantee.** Each aligned window admits at most `permits`, by the instants of decision. Across
/// an edge it may be twice that in no time: this is what the algorithm is known for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FixedWindow {
    pub(super) permits: u32,
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
            window: state >> FIXED_COUNT_BITS,
            count: state & FIXED_MAX_PERMITS as u64,
        }
    }

    const fn state(self) -> u64 {
        self.window << FIXED_COUNT_BITS | self.count
    }
}

impl FixedWindow {
    /// Make a window that admits `permits`; nothing if it is shorter than 1 ms or admits more than
    /// fit into the word.
    pub(super) fn new(permits: u32, window_ns: u64) -> Option<Self> {
        // Numbers of windows have 40 bits: they last for 34 years.
        let is_possible = window_ns >= 1_000_000 && permits <= FIXED_MAX_PERMITS;
        is_possible.then_some(Self { permits, window_ns })
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
        if count >= u64::from(self.permits) {
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

    pub(super) fn standing(&self, state: u64, now_ns: u64) -> Standing {
        let count = self.at(state, now_ns);
        let reset_ns = if count.count == 0 {
            0
        } else {
            self.left_ns(count, now_ns)
        };
        Standing {
            remaining: u64::from(self.permits).saturating_sub(count.count),
            reset_ns,
        }
    }
}

/// Bits of each of the two counts; the other 24 number the window.
const COUNT_BITS: u32 = 20;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
const WINDOW_BITS: u32 = 64 - 2 * COUNT_BITS;
const WINDOW_MASK: u64 = (1 << WINDOW_BITS) - 1;

/// The most that a window can admit.
const SLIDING_MAX_PERMITS: u32 = (1 << COUNT_BITS) - 1;

/// At most `permits` requests in a window that slides, if those of the last aligned window had come
/// evenly.
///
/// A request is admitted if
/// `current + 1 + previous * (1 - elapsed share of the current window) <= permits`, in exact
/// integers. Windows are counted from the epoch of the target's clock.
///
/// **Guarantee.** Each aligned window of length `w` admits at most `permits`, and any window of
/// length `T`, wherever it begins, at most `permits * (1 + T / w)`: the assumption that the last
/// window's requests came evenly is an assumption, and a burst just before an edge followed by as
/// many as are let through after it comes to almost `2 * permits` within `w`. What it does not
/// allow is the fixed window's `2 * permits` in no time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlidingWindow {
    pub(super) permits: u32,
    pub(super) window_ns: u64,
}

/// The word, taken apart.
#[derive(Clone, Copy)]
struct Counts {
    /// Modulo 2^24.
    window: u64,
    previous: u64,
    current: u64,
}

impl Counts {
    const fn of(state: u64) -> Self {
        Self {
            window: state >> (2 * COUNT_BITS),
            previous: state >> COUNT_BITS & COUNT_MASK,
            current: state & COUNT_MASK,
        }
    }

    const fn state(self) -> u64 {
        self.window << (2 * COUNT_BITS) | self.previous << COUNT_BITS | self.current
    }
}

/// The counts that hold at an instant, and how long their window has lasted then.
struct WindowCounts {
    counts: Counts,
    elapsed_ns: u64,
}

impl SlidingWindow {
    /// Make a window that admits `permits`; nothing if it is shorter than 100 ms or admits more than
    /// fit into the word.
    pub(super) fn new(permits: u32, window_ns: u64) -> Option<Self> {
        // Numbers of windows are compared modulo 2^24: a key is mistaken only after a rest of 2^23
        // windows, nine days of the shortest.
        let is_possible = window_ns >= 100_000_000 && permits <= SLIDING_MAX_PERMITS;
        is_possible.then_some(Self { permits, window_ns })
    }

    fn at(&self, state: u64, now_ns: u64) -> WindowCounts {
        let window = (now_ns / self.window_ns) & WINDOW_MASK;
        let elapsed_ns = now_ns % self.window_ns;
        let seen = Counts::of(state);
        match window.wrapping_sub(seen.window) & WINDOW_MASK {
            0 => WindowCounts {
                counts: seen,
                elapsed_ns,
            },
            1 => WindowCounts {
                counts: Counts {
                    window,
                    previous: seen.current,
                    current: 0,
                },
                elapsed_ns,
            },
            // A reading of the clock that comes after a later one: the later window has begun.
            behind if behind > WINDOW_MASK / 2 => WindowCounts {
                counts: seen,
                elapsed_ns: 0,
            },
            _ => WindowCounts {
                counts: Counts {
                    window,
                    previous: 0,
                    current: 0,
                },
                elapsed_ns,
            },
        }
    }

    /// Number of more would be admitted: the greatest n with
    /// `(current + n) w + previous (w - elapsed) <= permits w`.
    fn room(&self, now: &WindowCounts) -> u64 {
        let w = u128::from(self.window_ns);
        let weighted =
            u128::from(now.counts.previous) * u128::from(self.window_ns - now.elapsed_ns);
        let used = u128::from(now.counts.current) + weighted.div_ceil(w);
        u64::try_from(u128::from(self.permits).saturating_sub(used)).unwrap_or(u64::MAX)
    }

    /// Nanoseconds until there is room for `wanted`, of which none is there now, if no other
    /// request arrives: room only grows then, and is whole once two windows have passed behind that
    /// of the word.
    fn wait_ns(&self, state: u64, now_ns: u64, wanted: u64) -> u64 {
        let (mut early_ns, mut late_ns) = (0, 3 * self.window_ns);
        while late_ns - early_ns > 1 {
            let middle_ns = early_ns.midpoint(late_ns);
            let then = self.at(state, now_ns.saturating_add(middle_ns));
            if self.room(&then) >= wanted {
                late_ns = middle_ns;
            } else {
                early_ns = middle_ns;
            }
        }
        late_ns
    }

    pub(super) fn step(&self, state: u64, now_ns: u64) -> LimitDecision {
        let now = self.at(state, now_ns);
        if self.room(&now) == 0 {
            return LimitDecision::Rejected {
                retry_after_ns: self.wait_ns(state, now_ns, 1),
            };
        }
        let next = Counts {
            current: now.counts.current + 1,
            ..now.counts
        };
        LimitDecision::Admitted {
            next: next.state(),
            delay_ns: 0,
        }
    }

    pub(super) fn is_idle(&self, state: u64, now_ns: u64) -> bool {
        let Counts {
            previous, current, ..
        } = self.at(state, now_ns).counts;
        previous == 0 && current == 0
    }

    pub(super) fn standing(&self, state: u64, now_ns: u64) -> Standing {
        let now = self.at(state, now_ns);
        let remaining = self.room(&now);
        let is_whole = remaining >= u64::from(self.permits);
        Standing {
            remaining,
            reset_ns: if is_whole {
                0
            } else {
                self.wait_ns(state, now_ns, remaining + 1)
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Algorithm;
    use super::super::algorithm::drive::ask;
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;
    use std::collections::BTreeMap;

    fn fixed(permits: u32, window_ms: u64) -> FixedWindow {
        FixedWindow::new(permits, window_ms * MS).unwrap()
    }

    const MS: u64 = 1_000_000;

    #[test]
    fn an_edge_starts_over_and_the_late_count_for_the_window_that_goes_on() {
        let limit = Algorithm::FixedWindow(fixed(2, 10));
        let word = Cell::new(0);
        assert_eq!(ask(&word, 9 * MS, &limit), Ok(0));
        assert_eq!(ask(&word, 9 * MS, &limit), Ok(0));
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Err(1));
        assert_eq!(ask(&word, 10 * MS, &limit), Ok(0));
        // Read before the edge, decided after it.
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Ok(0));
        assert_eq!(ask(&word, 10 * MS - 1, &limit), Err(10 * MS + 1));
        assert_eq!(ask(&word, 11 * MS, &limit), Err(9 * MS));
    }

    const W: u64 = 100 * MS;

    fn sliding(permits: u32) -> SlidingWindow {
        SlidingWindow::new(permits, W).unwrap()
    }

    proptest! {
        #[test]
        fn it_admits_what_a_count_per_window_does(
            permits in 1_u32..20, window_ms in 1_u64..50, gaps in proptest::collection::vec(0_u64..20_000_000, 1..300),
        ) {
            let limit = fixed(permits, window_ms);
            let word = Cell::new(0);
            let mut model: BTreeMap<u64, u64> = BTreeMap::new();
            let mut now = 0;
            for gap in gaps {
                now += gap;
                let count = model.entry(now / (window_ms * MS)).or_default();
                let expected = *count < u64::from(permits);
                let asked = ask(&word, now, &Algorithm::FixedWindow(limit));
                prop_assert_eq!(asked.is_ok(), expected);
                *count += u64::from(expected);
                let state = word.get();
                prop_assert_eq!(limit.standing(state, now).remaining, u64::from(permits) - *count);
                prop_assert!(!limit.is_idle(state, now));
                prop_assert!(limit.is_idle(state, (now / (window_ms * MS) + 1) * window_ms * MS));
                if let Err(wait) = asked {
                    prop_assert_eq!((now + wait) % (window_ms * MS), 0);
                }
            }
        }

        #[test]
        fn it_admits_what_the_formula_says_and_keeps_its_law(
            permits in 1_u32..20, gaps in proptest::collection::vec(0..2 * W / 3, 1..200), dense in 1_u64..60,
        ) {
            let limit = sliding(permits);
            let word = Cell::new(0);
            let mut admitted: Vec<u64> = Vec::new();
            let mut now = 0;
            for gap in gaps {
                now += gap / dense;
                let window = now / W;
                let count = |of: u64| admitted.iter().filter(|at| **at / W == of).count() as u64;
                let (current, previous) = (count(window), if window == 0 { 0 } else { count(window - 1) });
                // In units of 1 / w.
                let weight = u128::from(previous) * u128::from(W - now % W);
                let used = u128::from(current + 1) * u128::from(W) + weight;
                let expected = used <= u128::from(permits) * u128::from(W);
                let asked = ask(&word, now, &Algorithm::SlidingWindow(limit));
                prop_assert_eq!(asked.is_ok(), expected);
                let state = word.get();
                match asked {
                    Ok(_) => admitted.push(now),
                    Err(wait) => {
                        let is_admitted = |now| matches!(limit.step(state, now), LimitDecision::Admitted { .. });
                        prop_assert!(!is_admitted(now + wait - 1), "{} is too long", wait);
                        prop_assert!(is_admitted(now + wait), "{} is too short", wait);
                    }
                }
                let Standing { remaining, reset_ns } = limit.standing(state, now);
                let at = |now: u64| {
                    let word = Cell::new(state);
                    (0..=permits).take_while(|_| ask(&word, now, &Algorithm::SlidingWindow(limit)).is_ok()).count() as u64
                };
                prop_assert_eq!(remaining, at(now));
                if reset_ns > 0 {
                    prop_assert_eq!(at(now + reset_ns - 1), remaining);
                    prop_assert!(at(now + reset_ns) > remaining);
                }
            }
            for first in 0..admitted.len() {
                for last in first..admitted.len() {
                    let span = u128::from(admitted[last] - admitted[first] + 1);
                    let count = (last - first + 1) as u128;
                    prop_assert!(count * u128::from(W) <= u128::from(permits) * (u128::from(W) + span));
                }
            }
        }

        #[test]
        fn extreme_words_and_clocks_do_not_overflow(word: u64, now: u64) {
            for limit in [Algorithm::FixedWindow(fixed(1000, 1)), Algorithm::SlidingWindow(sliding(1000))] {
                limit.step(word, now);
                limit.standing(word, now);
            }
        }
    }
}
