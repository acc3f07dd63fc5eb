//! Work of a host that was passed over in favour of other hosts.
//!
//! Called by the gate. IDs that were passed over are not listed: they are the host's IDs in the
//! ranges that were passed since, so an hour's pause costs no memory while the other hosts are
//! crawled. To find the next one, the host of each ID in between is computed once.

use std::collections::VecDeque;

use super::supply::{Again, Task};
use crate::units::IdRange;

/// The work of one host that waits for it.
#[derive(Debug, Default)]
pub(super) struct Deferred {
    again: VecDeque<Again>,
    /// Ranges whose IDs of this host were all passed over; each ends behind one of them.
    passed: VecDeque<Passed>,
    /// Number of IDs of this host in `passed`.
    firsts: u64,
}

/// A range without holes in what was passed over.
#[derive(Debug)]
struct Passed {
    /// Number of the shard's range that it lies in. IDs between two ranges may be another shard's.
    stretch: u64,
    ids: IdRange,
}

impl Deferred {
    /// True if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.firsts == 0 && self.again.is_empty()
    }

    /// IDs that were never tried.
    pub(super) const fn firsts(&self) -> u64 {
        self.firsts
    }

    /// Items that were tried before.
    pub(super) fn agains(&self) -> u64 {
        self.again.len() as u64
    }

    /// Adds an item that was tried before.
    pub(super) fn again(&mut self, again: Again) {
        self.again.push_back(again);
    }

    /// Adds an ID, which is the next one of this host in that stretch.
    pub(super) fn first(&mut self, id: u64, stretch: u64) {
        self.firsts += 1;
        match self
            .passed
            .back_mut()
            .filter(|last| last.stretch == stretch)
        {
            Some(last) => last.ids.end = id + 1,
            None => self.passed.push_back(Passed {
                stretch,
                ids: IdRange {
                    start: id,
                    end: id + 1,
                },
            }),
        }
    }

    /// Takes what has waited longest, what was tried before first. `is_own` tells the IDs of this
    /// host.
    pub(super) fn take(&mut self, is_own: impl Fn(u64) -> bool) -> Option<Task> {
        if let Some(again) = self.again.pop_front() {
            return Some(Task::Again(again));
        }
        while let Some(Passed { ids, .. }) = self.passed.front_mut() {
            let next = (ids.start..ids.end).find(|id| is_own(*id));
            ids.start = next.map_or(ids.end, |id| id + 1);
            if ids.is_empty() {
                self.passed.pop_front();
            }
            if let Some(id) = next {
                self.firsts -= 1;
                return Some(Task::First(id));
            }
        }
        None
    }

    /// Gives up on whatever was tried before.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Again> + use<> {
        std::mem::take(&mut self.again).into_iter()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_was_passed_over_is_taken_once_and_in_order(
            hosts in 1..6_u64, stretches in prop::collection::vec((0..50_u64, 0..30_u64), 1..5), takes in 0..40_usize,
        ) {
            let is_own = |id: u64| id.is_multiple_of(hosts);
            let (mut deferred, mut expected, mut taken, mut start) = (Deferred::default(), Vec::new(), Vec::new(), 0);
            for (stretch, (gap, len)) in (0..).zip(stretches) {
                start += gap;
                for id in (start..start + len).filter(|id| is_own(*id)) {
                    deferred.first(id, stretch);
                    expected.push(id);
                }
                start += len;
                taken.extend((0..takes).map_while(|_| deferred.take(is_own)));
            }
            prop_assert_eq!(deferred.firsts(), (expected.len() - taken.len()) as u64);
            taken.extend(std::iter::from_fn(|| deferred.take(is_own)));
            prop_assert!(deferred.is_empty() && deferred.passed.is_empty());
            let expected: Vec<Task> = expected.into_iter().map(Task::First).collect();
            prop_assert_eq!(taken, expected);
        }
    }
}
