//! The audit of the rate limits over all shards together: how many requests were sent in the
//! busiest 10 ms, 100 ms and second, wherever these begin.
//!
//! Called by the supervisor's loop with what the shards counted in slots of 10 µs. A slot is
//! evaluated once every shard has reported it. A window that begins at any instant touches one slot
//! more than its width has, so one more is counted: no window of the width holds more requests than
//! that. A second has 100,000 slots, which bounds the memory at any rate.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::clock::duration_ns;
use crate::wire::{SLOT, Scope, Sends};

/// The widths of the windows.
const WIDTHS: [Duration; 3] = [
    Duration::from_millis(10),
    Duration::from_millis(100),
    Duration::from_secs(1),
];

/// The busiest windows so far.
#[derive(Debug)]
pub(super) struct Windows {
    /// Per shard, the slot before which it will tell no more.
    complete: Vec<u64>,
    of: BTreeMap<Scope, Sliding>,
}

/// The windows of one limit.
#[derive(Debug)]
struct Sliding {
    /// Counts in slots that are not complete yet, shard by shard.
    pending: Vec<(u64, u32)>,
    windows: [WidthWindows; WIDTHS.len()],
}

/// The windows of one width.
#[derive(Debug)]
struct WidthWindows {
    /// The last slots with anything in them, as far as they fit.
    slots: VecDeque<(u64, u32)>,
    sent: u64,
    busiest: BusiestWindow,
}

/// The busiest window of a width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusiestWindow {
    /// Its width.
    pub width: Duration,
    /// Most requests sent in a window of that width, over all shards.
    pub sent: u64,
    /// When it ended at the latest, ns after the common start; it began a width and a [slot](SLOT)
    /// before that at the earliest.
    pub end_ns: u64,
}

impl BusiestWindow {
    /// The window of all that was counted: the width, and the slot that its ends may share.
    pub fn counted(&self) -> std::ops::Range<u64> {
        self.end_ns.saturating_sub(duration_ns(self.width + SLOT))..self.end_ns
    }
}

impl Windows {
    /// No window yet, for `shards`.
    pub(super) fn new(shards: usize) -> Self {
        Self {
            complete: vec![0; shards],
            of: BTreeMap::new(),
        }
    }

    /// Takes in what shard `i` sent.
    pub(super) fn add(&mut self, i: usize, sends: &Sends) {
        for (scope, slots) in &sends.slots {
            let pending = &mut self.of.entry(*scope).or_insert_with(Sliding::new).pending;
            let mut slot = 0_u64;
            pending.extend(slots.iter().map(|(gap, count)| {
                slot = slot.saturating_add(*gap);
                (slot, *count)
            }));
        }
        self.complete[i] = self.complete[i].max(sends.complete);
        self.advance();
    }

    /// Shard `i` will tell no more.
    pub(super) fn over(&mut self, i: usize) {
        if self.complete[i] < u64::MAX {
            self.complete[i] = u64::MAX;
            self.advance();
        }
    }

    /// Another process of shard `i` will tell more.
    pub(super) fn again(&mut self, i: usize) {
        self.complete[i] = 0;
    }

    fn advance(&mut self) {
        let whole = self.complete.iter().copied().min().unwrap_or(u64::MAX);
        self.of
            .values_mut()
            .for_each(|sliding| sliding.advance(whole));
    }

    /// The busiest window of each width, by limit.
    pub(super) fn busiest(&self) -> BTreeMap<Scope, Vec<BusiestWindow>> {
        self.of
            .iter()
            .map(|(scope, sliding)| {
                let busiest = sliding.windows.iter().map(|window| window.busiest);
                (*scope, busiest.collect())
            })
            .collect()
    }
}

impl Sliding {
    fn new() -> Self {
        Self {
            pending: Vec::new(),
            windows: WIDTHS.map(|width| {
                let busiest = BusiestWindow {
                    width,
                    sent: 0,
                    end_ns: 0,
                };
                WidthWindows {
                    slots: VecDeque::new(),
                    sent: 0,
                    busiest,
                }
            }),
        }
    }

    /// Counts the slots before `whole`.
    fn advance(&mut self, whole: u64) {
        // What each shard told is in order already, which this sort makes use of.
        self.pending.sort_by_key(|(slot, _)| *slot);
        let over = self.pending.partition_point(|(slot, _)| *slot < whole);
        for (slot, count) in self.pending.drain(..over) {
            self.windows
                .iter_mut()
                .for_each(|window| window.push(slot, count));
        }
    }
}

impl WidthWindows {
    fn push(&mut self, slot: u64, count: u32) {
        let slot_ns = duration_ns(SLOT);
        let fits = duration_ns(self.busiest.width) / slot_ns;
        // A shard that told a slot of the past would be counted in the present: too much, never too
        // little.
        let slot = self.slots.back().map_or(slot, |(last, _)| slot.max(*last));
        while let Some((_, gone)) = self
            .slots
            .front()
            .copied()
            .filter(|(first, _)| slot - *first > fits)
        {
            self.slots.pop_front();
            self.sent -= u64::from(gone);
        }
        match self.slots.back_mut().filter(|(last, _)| *last == slot) {
            Some((_, counted)) => *counted = counted.saturating_add(count),
            None => self.slots.push_back((slot, count)),
        }
        self.sent += u64::from(count);
        if self.sent > self.busiest.sent {
            (self.busiest.sent, self.busiest.end_ns) =
                (self.sent, slot.saturating_add(1).saturating_mul(slot_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const WHOLE: u64 = u64::MAX;

    fn sends(slots: &[(u64, u32)], complete: u64) -> Sends {
        let mut before = 0;
        let gaps = slots
            .iter()
            .map(|(slot, count)| (slot - std::mem::replace(&mut before, *slot), *count));
        Sends {
            slots: vec![(Scope::Run, gaps.collect())],
            complete,
        }
    }

    fn busiest(windows: &Windows) -> Vec<u64> {
        windows.busiest()[&Scope::Run]
            .iter()
            .map(|window| window.sent)
            .collect()
    }

    #[test]
    fn a_slot_counts_once_every_shard_has_told_it() {
        let mut windows = Windows::new(2);
        windows.add(0, &sends(&[(0, 1), (1, 2), (2, 3)], 3));
        assert_eq!(busiest(&windows), [0, 0, 0]);
        windows.add(1, &sends(&[(0, 4), (1, 1)], 2));
        assert_eq!(busiest(&windows), [8, 8, 8]);
        windows.over(1);
        assert_eq!(busiest(&windows), [11, 11, 11]);
        windows.add(0, &sends(&[(500_000, 9)], 500_001));
        assert_eq!(busiest(&windows), [11, 11, 11]);
        assert_eq!(windows.busiest()[&Scope::Run][0].counted(), 0..30_000);
    }

    proptest! {
        /// Ten requests at each of these instants, from these shards.
        #[test]
        fn no_window_wherever_it_begins_holds_more_and_one_a_slot_wider_holds_as_many(
            gaps_us in prop::collection::vec((0..30_000_u64, 0..3_usize), 1..120),
        ) {
            let (mut at, mut sent, mut by) = (0, Vec::new(), vec![Vec::<(u64, u32)>::new(); 3]);
            for (gap_us, shard) in gaps_us {
                at += gap_us * 1_000 + 7;
                sent.push(at);
                by[shard].push((at / 10_000, 10));
            }
            let mut windows = Windows::new(3);
            for (shard, slots) in by.iter().enumerate() {
                windows.add(shard, &sends(slots, WHOLE));
            }
            let holds = |width_ns: u64| {
                let from = |first: usize| sent[first..].iter().take_while(|at| **at < sent[first] + width_ns).count() as u64;
                (0..sent.len()).map(from).max().unwrap() * 10
            };
            for window in &windows.busiest()[&Scope::Run] {
                let width_ns = duration_ns(window.width);
                prop_assert!(holds(width_ns) <= window.sent, "{} in {:?}", holds(width_ns), window);
                prop_assert!(window.sent <= holds(width_ns + 10_000), "{} in {:?}", holds(width_ns + 10_000), window);
            }
        }
    }
}
