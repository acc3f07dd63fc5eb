//! Requests counted as they are sent, in slots of 10 µs, so that a report can audit a rate limit
//! over all shards.
//!
//! Called by a limiter for each request, and by the reporter. It must not read a clock.

use crate::clock::{Nanos, duration_ns};
use crate::wire::SLOT;

/// Slots that are kept until they are taken: more than a second has. What comes after counts in the
/// last of them.
const MOST_KEPT: usize = 200_000;

/// The slots that were not handed out yet, without those in which nothing was sent.
#[derive(Debug)]
pub(super) struct Slots {
    start: Nanos,
    counts: Vec<(u64, u32)>,
}

impl Slots {
    /// None yet, in a run that starts at `start`.
    pub(super) const fn new(start: Nanos) -> Self {
        Self {
            start,
            counts: Vec::new(),
        }
    }

    /// Counts a request that is sent at `now`.
    pub(super) fn sent(&mut self, now: Nanos) {
        let slot = self.number(now);
        let is_full = self.counts.len() >= MOST_KEPT;
        match self
            .counts
            .last_mut()
            .filter(|(last, _)| is_full || *last == slot)
        {
            Some((_, count)) => *count += 1,
            None => self.counts.push((slot, 1)),
        }
    }

    /// Takes the slots before `complete`, each once: how far it is from the one before it, the
    /// first from the start; and how many were sent in it.
    pub(super) fn take(&mut self, complete: u64) -> Vec<(u64, u32)> {
        let over = self.counts.partition_point(|(slot, _)| *slot < complete);
        let mut before = 0;
        self.counts
            .drain(..over)
            .map(|(slot, count)| (slot - std::mem::replace(&mut before, slot), count))
            .collect()
    }

    /// The number of the slot of `at`: all before it are over then.
    pub(super) fn number(&self, at: Nanos) -> u64 {
        at.since(self.start) / duration_ns(SLOT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_is_handed_out_once() {
        let us = |us: u64| Nanos(7 + us * 1_000);
        let mut slots = Slots::new(us(0));
        for at in [0, 9, 10, 35, 41] {
            slots.sent(us(at));
        }
        assert_eq!(slots.take(slots.number(us(39))), [(0, 2), (1, 1)]);
        slots.sent(us(49));
        assert_eq!(slots.take(slots.number(us(1_000))), [(3, 1), (1, 2)]);
        assert_eq!(slots.take(slots.number(us(1_001))), []);
    }
}
