//! The audit of the budget over all shards together: how many requests were admitted in the busiest hundredth, tenth and
//! whole second.
//!
//! Called by the supervisor's loop with what the shards counted in slots of 10 ms. A slot counts once every shard has told
//! it.

use std::collections::VecDeque;

use crate::wire::Admissions;

/// The widths of the windows, in slots of 10 ms.
const WIDTHS: [usize; 3] = [1, 10, 100];

/// The busiest windows so far.
#[derive(Debug)]
pub(super) struct Windows {
    /// Per shard, the slot before which it will tell no more.
    complete: Vec<u64>,
    /// The first slot that is not whole yet.
    next: u64,
    /// What was told of the slots from there on.
    pending: VecDeque<u64>,
    /// The last slots that are whole, as many as the widest window has.
    last: VecDeque<u64>,
    busiest: [BusiestWindow; WIDTHS.len()],
}

/// The busiest window of a width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BusiestWindow {
    /// Its width, in slots of 10 ms.
    pub slots: usize,
    /// How many requests were admitted in it, over all shards.
    pub admitted: u64,
    /// The slot that it ended with.
    pub last_slot: u64,
}

impl Windows {
    /// No window yet, for `shards`.
    pub(super) fn new(shards: usize) -> Self {
        Self {
            complete: vec![0; shards],
            next: 0,
            pending: VecDeque::new(),
            last: VecDeque::new(),
            busiest: WIDTHS.map(|slots| BusiestWindow { slots, admitted: 0, last_slot: 0 }),
        }
    }

    /// Takes in what shard `i` admitted.
    pub(super) fn add(&mut self, i: usize, admissions: &Admissions) {
        for (k, count) in admissions.counts.iter().enumerate() {
            // A shard that told a slot of the past would be counted in the present: too much, never too little.
            let slot = usize::try_from((admissions.first + k as u64).saturating_sub(self.next)).unwrap_or(usize::MAX);
            if self.pending.len() <= slot {
                self.pending.resize(slot + 1, 0);
            }
            self.pending[slot] += u64::from(*count);
        }
        self.complete[i] = self.complete[i].max(admissions.complete);
        self.advance();
    }

    /// Shard `i` will tell no more.
    pub(super) fn over(&mut self, i: usize) {
        self.complete[i] = u64::MAX;
        self.advance();
    }

    fn advance(&mut self) {
        let whole = self.complete.iter().copied().min().unwrap_or(u64::MAX);
        while self.next < whole {
            let Some(count) = self.pending.pop_front() else {
                // Nothing was told of what follows, perhaps for ever.
                let quiet = (whole - self.next).min(WIDTHS[WIDTHS.len() - 1] as u64);
                (0..quiet).for_each(|_| self.push(0));
                self.next = whole;
                return;
            };
            self.push(count);
            self.next += 1;
        }
    }

    fn push(&mut self, count: u64) {
        self.last.push_back(count);
        if self.last.len() > WIDTHS[WIDTHS.len() - 1] {
            self.last.pop_front();
        }
        for busiest in &mut self.busiest {
            let admitted = self.last.iter().rev().take(busiest.slots).sum();
            if admitted > busiest.admitted {
                (busiest.admitted, busiest.last_slot) = (admitted, self.next);
            }
        }
    }

    /// The busiest window of each width.
    pub(super) fn busiest(&self) -> Vec<BusiestWindow> {
        self.busiest.to_vec()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admissions(first: u64, counts: &[u32], complete: u64) -> Admissions {
        Admissions { first, counts: counts.to_vec(), complete }
    }

    fn busiest(windows: &Windows) -> Vec<u64> {
        windows.busiest().iter().map(|window| window.admitted).collect()
    }

    #[test]
    fn a_slot_counts_once_every_shard_has_told_it() {
        let mut windows = Windows::new(2);
        windows.add(0, &admissions(0, &[1, 2, 3], 3));
        assert_eq!(busiest(&windows), [0, 0, 0]);
        windows.add(1, &admissions(0, &[4, 1], 2));
        assert_eq!(busiest(&windows), [5, 8, 8]);
        windows.over(1);
        assert_eq!(busiest(&windows), [5, 11, 11]);
        windows.add(0, &admissions(3, &[], 150));
        windows.add(0, &admissions(150, &[9], 151));
        assert_eq!(busiest(&windows), [9, 11, 11]);
        assert_eq!(windows.busiest()[0].last_slot, 150);
    }

    #[test]
    fn a_window_slides() {
        let mut windows = Windows::new(1);
        let counts: Vec<u32> = (0..300).map(|i| if (95..105).contains(&i) { 7 } else { 1 }).collect();
        windows.add(0, &admissions(0, &counts, 300));
        assert_eq!(busiest(&windows), [7, 70, 160]);
    }
}
