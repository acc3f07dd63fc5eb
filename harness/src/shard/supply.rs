//! Next work of a shard: IDs that it has not started, and items that wait for a retry.
//!
//! Called by the gate. It must not decide whether anything may go, nor whether an item deserves
//! another attempt.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};

use crate::clock::Nanos;
use crate::sample::Tries;
use crate::units::IdRange;

/// The work of one shard. Its size does not depend on the number of IDs; of items to be tried again
/// it holds as many as the gate allows.
#[derive(Debug)]
pub(super) struct Supply {
    ids: IdRange,
    /// Number of times that it went on to another range.
    stretch: u64,
    /// Ranges that come after it; none while it is empty.
    more: VecDeque<IdRange>,
    /// Number of IDs that it received from other shards.
    received: u64,
    again: BinaryHeap<Reverse<Again>>,
}

/// An item that is to be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Again {
    /// Not before this moment.
    pub(super) due: Nanos,
    /// The item.
    pub(super) id: u64,
    /// Number of attempts that it has had.
    pub(super) attempt: u32,
    /// Those of them that were for its present request.
    pub(super) tries: Tries,
    /// When its first attempt was scheduled.
    pub(super) first_intended: Nanos,
}

impl Ord for Again {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.due, self.id).cmp(&(other.due, other.id))
    }
}

impl PartialOrd for Again {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// State of the supply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// There is.
    Now,
    /// There will be.
    At(Nanos),
    /// There is not, unless an item under way has to be tried again.
    Nothing,
}

/// One thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Task {
    /// An ID that was never tried.
    First(u64),
    /// An item that was.
    Again(Again),
}

impl Task {
    /// The item.
    pub(super) const fn id(&self) -> u64 {
        match self {
            Self::First(id) | Self::Again(Again { id, .. }) => *id,
        }
    }
}

impl Supply {
    /// The work of a shard with the IDs in `ranges`.
    pub(super) fn new(ranges: &[IdRange]) -> Self {
        let mut more: VecDeque<IdRange> = ranges
            .iter()
            .copied()
            .filter(|range| !range.is_empty())
            .collect();
        let ids = more.pop_front().unwrap_or(IdRange { start: 0, end: 0 });
        Self {
            ids,
            stretch: 0,
            more,
            received: 0,
            again: BinaryHeap::new(),
        }
    }

    /// Ask if there is something to do at `now`.
    #[inline]
    pub(super) fn next(&self, now: Nanos) -> Next {
        match self.again.peek() {
            Some(Reverse(again)) if again.due <= now => Next::Now,
            _ if !self.ids.is_empty() => Next::Now,
            Some(Reverse(again)) => Next::At(again.due),
            None => Next::Nothing,
        }
    }

    /// Until when there is nothing to do: none when there are IDs, the end of time when there is
    /// nothing at all.
    pub(super) fn nothing_before(&self) -> Option<Nanos> {
        self.ids.is_empty().then(|| {
            self.again
                .peek()
                .map_or(Nanos(u64::MAX), |again| again.0.due)
        })
    }

    /// Takes an item that was tried before and is due at `now`.
    #[inline]
    pub(super) fn take_due(&mut self, now: Nanos) -> Option<Again> {
        if self.again.is_empty() {
            None
        } else {
            self.take_again(now)
        }
    }

    fn take_again(&mut self, now: Nanos) -> Option<Again> {
        let due = self.again.peek_mut().filter(|again| again.0.due <= now)?;
        Some(std::collections::binary_heap::PeekMut::pop(due).0)
    }

    /// The ID of what [`Supply::take`] would take at `now`.
    pub(super) fn peek(&self, now: Nanos) -> Option<u64> {
        let due = self
            .again
            .peek()
            .filter(|again| again.0.due <= now)
            .map(|again| again.0.id);
        due.or_else(|| self.first())
    }

    /// Takes the next thing to do at `now`. What was tried before goes first: it has waited
    /// longest.
    pub(super) fn take(&mut self, now: Nanos) -> Option<Task> {
        if let Some(again) = self.take_due(now) {
            return Some(Task::Again(again));
        }
        self.take_first().map(Task::First)
    }

    /// The ID that [`Supply::take_first`] would take.
    pub(super) fn first(&self) -> Option<u64> {
        (!self.ids.is_empty()).then_some(self.ids.start)
    }

    /// Takes the next ID.
    #[inline]
    pub(super) fn take_first(&mut self) -> Option<u64> {
        if self.ids.is_empty() {
            return None;
        }
        let id = self.ids.start;
        self.ids.start += 1;
        if self.ids.is_empty()
            && let Some(more) = self.more.pop_front()
        {
            self.ids = more;
            self.stretch += 1;
        }
        Some(id)
    }

    /// Return the number of the range that the next ID comes from; ranges are numbered in the order
    /// of their use. Within one, it has had all IDs in between.
    pub(super) const fn stretch(&self) -> u64 {
        self.stretch
    }

    /// Adds an item that is to be tried again.
    pub(super) fn again(&mut self, again: Again) {
        self.again.push(Reverse(again));
    }

    /// IDs that were not started.
    pub(super) fn not_started(&self) -> u64 {
        self.ids.len() + self.more.iter().map(IdRange::len).sum::<u64>()
    }

    /// Items that wait for another attempt.
    pub(super) fn waiting_again(&self) -> u64 {
        self.again.len() as u64
    }

    /// Adds IDs.
    pub(super) fn receive(&mut self, range: IdRange) {
        self.received += range.len();
        if self.ids.is_empty() {
            self.ids = range;
            self.stretch += 1;
        } else if !range.is_empty() {
            self.more.push_back(range);
        }
    }

    /// IDs that were added.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Gives away half of what was not started, as far as the upper end of the largest range holds
    /// it; an empty range when that is less than two IDs.
    pub(super) fn shed(&mut self) -> IdRange {
        let half = self.not_started() / 2;
        let largest = self.more.iter_mut().max_by_key(|range| range.len());
        let (donor, kept) = match largest.filter(|range| range.len() >= self.ids.len()) {
            Some(range) => (range, 0),
            None => (&mut self.ids, 1),
        };
        let given = IdRange {
            start: donor.end - half.min(donor.len().saturating_sub(kept)),
            end: donor.end,
        };
        donor.end = given.start;
        self.more.retain(|range| !range.is_empty());
        given
    }

    /// Gives up on whatever waits for another attempt.
    pub(super) fn give_up(&mut self) -> impl Iterator<Item = Again> + use<> {
        std::mem::take(&mut self.again)
            .into_iter()
            .map(|again| again.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn again(due: u64, id: u64) -> Again {
        Again {
            due: Nanos(due),
            id,
            attempt: 1,
            tries: Tries::NONE,
            first_intended: Nanos(0),
        }
    }

    #[test]
    fn what_was_tried_before_goes_first_once_it_is_due() {
        let mut supply = Supply::new(&[IdRange { start: 5, end: 6 }]);
        supply.again(again(20, 1));
        supply.again(again(10, 2));
        assert_eq!(
            (supply.next(Nanos(0)), supply.take(Nanos(0))),
            (Next::Now, Some(Task::First(5)))
        );
        assert_eq!(
            (supply.next(Nanos(9)), supply.take(Nanos(9))),
            (Next::At(Nanos(10)), None)
        );
        assert_eq!(supply.take(Nanos(30)), Some(Task::Again(again(10, 2))));
        assert_eq!(supply.take(Nanos(30)), Some(Task::Again(again(20, 1))));
        assert_eq!(supply.next(Nanos(30)), Next::Nothing);
    }

    proptest! {
        #[test]
        fn however_ranges_are_shed_each_id_is_taken_once(
            lens in prop::collection::vec(0..100_u64, 0..6),
            moves in prop::collection::vec((0..4_usize, 0..4_usize, 0..20_u64), 0..60),
        ) {
            let ranges: Vec<IdRange> = (1..).map(|n: u64| n * 100).zip(lens).map(|(start, len)| IdRange { start, end: start + len }).collect();
            let mut shards: Vec<Supply> = (0..4).map(|_| Supply::new(&[])).collect();
            shards[0] = Supply::new(&ranges);
            let mut held = [ranges.clone(), Vec::new(), Vec::new(), Vec::new()];
            let mut taken = Vec::new();
            for (from, to, take) in moves {
                let before: u64 = shards.iter().map(Supply::not_started).sum();
                let range = shards[from].shed();
                let is_within = |held: &IdRange| held.start <= range.start && range.end <= held.end;
                prop_assert!(range.is_empty() || held[from].iter().any(is_within), "{range:?}: not of one range");
                held[to].push(range);
                shards[to].receive(range);
                prop_assert_eq!(shards.iter().map(Supply::not_started).sum::<u64>(), before);
                for _ in 0..take {
                    taken.extend(shards[to].take(Nanos(0)));
                }
            }
            for shard in &mut shards {
                taken.extend(std::iter::from_fn(|| shard.take(Nanos(0))));
            }
            let mut ids: Vec<u64> = taken.into_iter().map(|task| match task {
                Task::First(id) => id,
                Task::Again(_) => unreachable!("nothing failed"),
            }).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, ranges.iter().flat_map(|range| range.start..range.end).collect::<Vec<_>>());
        }
    }
}
