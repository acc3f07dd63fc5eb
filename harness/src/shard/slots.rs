//! Admissions counted in slots of a hundredth of a second, so that a report can audit the budget over all shards.
//!
//! Called by the gate for each admission, and by the reporter. It must not read a clock.

use std::collections::VecDeque;

use crate::clock::{Nanos, duration_ns};
use crate::wire::{Admissions, SLOT};

/// Slots that are kept when nobody takes them: ten minutes. What belongs to newer ones is then counted in the newest.
const MOST_KEPT: usize = 60_000;

/// The slots that were not handed out yet.
#[derive(Debug)]
pub(super) struct Slots {
    start: Nanos,
    first: u64,
    counts: VecDeque<u32>,
}

impl Slots {
    /// None yet, in a run that starts at `start`.
    pub(super) const fn new(start: Nanos) -> Self {
        Self { start, first: 0, counts: VecDeque::new() }
    }

    /// Counts a request that was admitted at `now`.
    pub(super) fn admitted(&mut self, now: Nanos) {
        let slot = usize::try_from(self.slot(now).saturating_sub(self.first)).unwrap_or(MOST_KEPT).min(MOST_KEPT - 1);
        if self.counts.len() <= slot {
            self.counts.resize(slot + 1, 0);
        }
        self.counts[slot] += 1;
    }

    /// The slots that are over at `now`, each handed out once.
    pub(super) fn take(&mut self, now: Nanos) -> Admissions {
        let complete = self.slot(now).max(self.first);
        let over = usize::try_from(complete - self.first).unwrap_or(usize::MAX).min(self.counts.len());
        let admissions = Admissions { first: self.first, counts: self.counts.drain(..over).collect(), complete };
        self.first = complete;
        admissions
    }

    fn slot(&self, at: Nanos) -> u64 {
        at.since(self.start) / duration_ns(SLOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_handed_out_once() {
        let ms = |ms: u64| Nanos(7 + ms * 1_000_000);
        let mut slots = Slots::new(ms(0));
        for at in [0, 9, 10, 35, 41] {
            slots.admitted(ms(at));
        }
        assert_eq!(slots.take(ms(39)), Admissions { first: 0, counts: vec![2, 1, 0], complete: 3 });
        slots.admitted(ms(39));
        assert_eq!(slots.take(ms(1_000)), Admissions { first: 3, counts: vec![2, 1], complete: 100 });
        assert_eq!(slots.take(ms(1_001)), Admissions { first: 100, counts: vec![], complete: 100 });
    }
}
