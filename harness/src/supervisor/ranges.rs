//! IDs that move from shards that are slow to shards that are done, so that one slow shard does not
//! decide when a run ends.
//!
//! The upper half of the largest remaining range moves, and only once its owner has confirmed where
//! its own range now ends: at every moment each ID belongs to one shard at most. Called by the
//! supervisor's loop; it must not send to shards itself.

use std::collections::VecDeque;

use crate::plan::Arrivals;
use crate::units::IdRange;

/// Shards that have nothing left to do, and those that were asked to share.
#[derive(Debug, Default)]
pub(super) struct Ranges {
    /// True if IDs stay where they are: those of a recording, of which each shard has the times of
    /// its own.
    are_fixed: bool,
    hungry: VecDeque<usize>,
    asked: Vec<RangeRequest>,
}

/// A shard that was asked to share.
#[derive(Debug, Clone, Copy)]
struct RangeRequest {
    donor: usize,
    /// None once it is gone.
    thief: Option<usize>,
}

/// A shard as far as its IDs are concerned.
#[derive(Debug, Clone, Copy)]
pub(super) struct RemainingIds {
    /// IDs not started, as last heard; never less than there are.
    pub(super) ids: u64,
    /// True if it still works and listens.
    pub(super) works: bool,
    /// True if it died, and another process will take its place and have its IDs.
    pub(super) returns: bool,
}

/// Message that has to be sent to a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RangeMessage {
    /// Share what you have.
    Shed(usize),
    /// Crawl this, too.
    Take(usize, IdRange),
    /// There is nothing more.
    Finish(usize),
}

impl Ranges {
    /// The moves of a run with these arrivals.
    pub(super) fn of(arrivals: Arrivals) -> Self {
        Self {
            are_fixed: arrivals == Arrivals::Replay,
            ..Self::default()
        }
    }

    /// Shard `i` has nothing left.
    pub(super) fn idle(&mut self, i: usize) {
        self.hungry.push_back(i);
    }

    /// Donor `i` gives `range`, which may be empty. It gets it back when the shard that it was for
    /// is gone.
    pub(super) fn shed(&mut self, i: usize, range: IdRange) -> Option<RangeMessage> {
        let at = self.asked.iter().position(|ask| ask.donor == i);
        let thief = at.and_then(|at| self.asked.swap_remove(at).thief);
        match thief {
            Some(thief) if range.is_empty() => {
                self.hungry.push_front(thief);
                None
            }
            None if range.is_empty() => None,
            thief => Some(RangeMessage::Take(thief.unwrap_or(i), range)),
        }
    }

    /// Shard `i` is gone: it needs nothing, and what it was asked for will not come.
    pub(super) fn gone(&mut self, i: usize) {
        self.hungry.retain(|hungry| *hungry != i);
        for ask in self.asked.iter_mut().filter(|ask| ask.thief == Some(i)) {
            ask.thief = None;
        }
        let (lost, kept): (Vec<RangeRequest>, Vec<RangeRequest>) = std::mem::take(&mut self.asked)
            .into_iter()
            .partition(|ask| ask.donor == i);
        self.asked = kept;
        self.hungry.extend(lost.iter().filter_map(|ask| ask.thief));
    }

    /// Finds a shard that shares with each one that has nothing left, or ends that one.
    pub(super) fn feed(&mut self, rests: &[RemainingIds]) -> Vec<RangeMessage> {
        let mut say = Vec::new();
        for _ in 0..self.hungry.len() {
            let Some(thief) = self.hungry.pop_front() else {
                break;
            };
            let donor = (0..rests.len())
                .filter(|i| !self.are_fixed && rests[*i].works && rests[*i].ids >= 2)
                .filter(|i| {
                    *i != thief
                        && !self.hungry.contains(i)
                        && self
                            .asked
                            .iter()
                            .all(|ask| ask.donor != *i && ask.thief != Some(*i))
                })
                .max_by_key(|i| rests[*i].ids);
            match donor {
                Some(donor) => {
                    self.asked.push(RangeRequest {
                        donor,
                        thief: Some(thief),
                    });
                    say.push(RangeMessage::Shed(donor));
                }
                // Another shard may still give, and what is given may be shared again.
                None if !self.asked.is_empty() || rests.iter().any(|rest| rest.returns) => {
                    self.hungry.push_back(thief);
                }
                None => say.push(RangeMessage::Finish(thief)),
            }
        }
        say
    }
}

/// Takes `given`, which lies within one of the ranges that a shard holds, out of them.
pub(super) fn give_away(held: &mut Vec<IdRange>, given: IdRange) {
    let of = |range: &IdRange| range.start <= given.start && given.end <= range.end;
    let Some(at) = held.iter().position(|range| !given.is_empty() && of(range)) else {
        return;
    };
    let above = IdRange {
        start: given.end,
        end: std::mem::replace(&mut held[at].end, given.start),
    };
    held.insert(at + 1, above);
    held.retain(|range| !range.is_empty());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rests(ids: &[u64]) -> Vec<RemainingIds> {
        ids.iter()
            .map(|ids| RemainingIds {
                ids: *ids,
                works: true,
                returns: false,
            })
            .collect()
    }

    #[test]
    fn the_largest_rest_is_shared_and_who_gets_nothing_is_sent_home() {
        let mut ranges = Ranges::default();
        ranges.idle(0);
        assert_eq!(ranges.feed(&rests(&[0, 5, 9, 1])), [RangeMessage::Shed(2)]);
        ranges.idle(1);
        // The largest was asked already; a shard with a single ID keeps it.
        assert_eq!(ranges.feed(&rests(&[0, 0, 9, 1])), []);
        let range = IdRange { start: 4, end: 9 };
        assert_eq!(ranges.shed(2, range), Some(RangeMessage::Take(0, range)));
        assert_eq!(ranges.feed(&rests(&[5, 0, 4, 1])), [RangeMessage::Shed(0)]);
        assert_eq!(ranges.shed(0, IdRange { start: 9, end: 9 }), None);
        assert_eq!(
            ranges.feed(&rests(&[0, 0, 1, 1])),
            [RangeMessage::Finish(1)]
        );
        assert_eq!(
            ranges.shed(3, range),
            Some(RangeMessage::Take(3, range)),
            "nobody asked"
        );
    }

    #[test]
    fn what_is_given_away_leaves_the_rest_on_both_sides() {
        let range = |start, end| IdRange { start, end };
        let mut held = vec![range(0, 10), range(20, 30)];
        for (given, left) in [
            (
                range(25, 28),
                vec![range(0, 10), range(20, 25), range(28, 30)],
            ),
            (range(0, 10), vec![range(20, 25), range(28, 30)]),
            (range(22, 22), vec![range(20, 25), range(28, 30)]),
            (range(20, 25), vec![range(28, 30)]),
        ] {
            give_away(&mut held, given);
            assert_eq!(held, left, "{given}");
        }
    }

    proptest! {
        /// Shards of any speed and any appetite, some of which die: everybody is sent home, and no
        /// ID is ever held twice.
        #[test]
        fn every_id_is_held_once_and_everybody_goes_home(
            sizes in prop::collection::vec(0..200_u64, 1..6), speeds in prop::collection::vec(1..10_u64, 6),
            dies in prop::option::of((0..6_usize, 0..20_usize)),
        ) {
            let mut start = 0;
            let mut held: Vec<Vec<IdRange>> = Vec::new();
            for size in &sizes {
                held.push(vec![IdRange { start, end: start + size }]);
                start += size;
            }
            let mut done: Vec<Vec<IdRange>> = vec![Vec::new(); sizes.len()];
            let (mut ranges, mut home) = (Ranges::default(), vec![false; sizes.len()]);
            let mut idle = vec![false; sizes.len()];
            for round in 0..2_000 {
                if home.iter().all(|home| *home) {
                    break;
                }
                for i in (0..sizes.len()).filter(|i| !home[*i]).collect::<Vec<_>>() {
                    if dies == Some((i, round)) {
                        ranges.gone(i);
                        home[i] = true;
                        continue;
                    }
                    for _ in 0..speeds[i] {
                        let Some(first) = held[i].first_mut() else { break };
                        if first.is_empty() { held[i].remove(0); continue; }
                        done[i].push(IdRange { start: first.start, end: first.start + 1 });
                        first.start += 1;
                    }
                    held[i].retain(|range| !range.is_empty());
                    if held[i].is_empty() && !idle[i] {
                        idle[i] = true;
                        ranges.idle(i);
                    }
                }
                let rests: Vec<RemainingIds> = (0..sizes.len())
                    .map(|i| RemainingIds { ids: held[i].iter().map(IdRange::len).sum(), works: !home[i], returns: false })
                    .collect();
                for said in ranges.feed(&rests) {
                    match said {
                        RangeMessage::Shed(donor) => {
                            let last = *held[donor].last().unwrap();
                            let given = IdRange { start: last.start + last.len().div_ceil(2), end: last.end };
                            give_away(&mut held[donor], given);
                            if let Some(RangeMessage::Take(thief, range)) = ranges.shed(donor, given) {
                                held[thief].push(range);
                                idle[thief] = false;
                            }
                        }
                        RangeMessage::Finish(i) => home[i] = true,
                        RangeMessage::Take(..) => unreachable!("only what was shed is taken"),
                    }
                }
            }
            prop_assert!(home.iter().all(|home| *home));
            let mut ids: Vec<u64> = done.iter().chain(&held).flatten().flat_map(|range| range.start..range.end).collect();
            ids.sort_unstable();
            prop_assert_eq!(ids, (0..start).collect::<Vec<_>>());
        }
    }
}
