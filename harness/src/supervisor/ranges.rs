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
#[derive(Debug, Clone, Default)]
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
    /// IDs not started, as last received; never less than there are.
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

    /// Shard `i` has nothing left of the `received` IDs that it was given. True if they are all that
    /// it was `given`: one that was given more since it said so will say so again.
    pub(super) fn idle(&mut self, i: usize, received: u64, given: u64) -> bool {
        let is_idle = received >= given;
        if is_idle {
            self.hungry.push_back(i);
        }
        is_idle
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
    let Some(at) = held.iter().position(|range| {
        !given.is_empty() && range.start <= given.start && given.end <= range.end
    }) else {
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
        ranges.idle(0, 0, 0);
        assert_eq!(ranges.feed(&rests(&[0, 5, 9, 1])), [RangeMessage::Shed(2)]);
        ranges.idle(1, 0, 0);
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

    /// What a shard of a small world says.
    #[derive(Debug, Clone, Copy)]
    enum SmallFrame {
        Idle(u64),
        Shed(IdRange),
    }

    /// A shard of a small world: what it holds, and the two ends of its pipes.
    #[derive(Debug, Clone, Default)]
    struct Small {
        held: Vec<IdRange>,
        done: Vec<u64>,
        control: VecDeque<RangeMessage>,
        frames: VecDeque<SmallFrame>,
        /// IDs that it was given, and those of them that it has read of.
        given: u64,
        received: u64,
        is_idle: bool,
        is_home: bool,
        is_dead: bool,
    }

    /// Shards, what the supervisor knows of them, and what it has been told.
    #[derive(Debug, Clone)]
    struct SmallWorld {
        shards: Vec<Small>,
        rests: Vec<RemainingIds>,
        ranges: Ranges,
        may_die: bool,
    }

    impl SmallWorld {
        /// Everything that may happen next to shard `i`, each in a world of its own.
        fn steps(&self, i: usize) -> Vec<Self> {
            let (mut next, shard) = (Vec::new(), &self.shards[i]);
            let mut step = |change: fn(&mut Self, usize)| {
                let mut world = self.clone();
                change(&mut world, i);
                next.push(world);
            };
            let lives = !shard.is_dead && !shard.is_home;
            if lives && !shard.held.is_empty() {
                step(Self::work);
            }
            if lives && !shard.control.is_empty() {
                step(Self::obey);
            }
            if !shard.frames.is_empty() || shard.is_dead && self.rests[i].works {
                step(Self::receive);
            }
            if lives && self.may_die {
                step(Self::die);
            }
            next
        }

        fn die(&mut self, i: usize) {
            (self.shards[i].is_dead, self.may_die) = (true, false);
            // What was given and not read of is lost with the shard.
            let shard = &mut self.shards[i];
            for message in shard.control.drain(..) {
                if let RangeMessage::Take(_, range) = message {
                    shard.held.push(range);
                }
            }
        }

        fn work(&mut self, i: usize) {
            let shard = &mut self.shards[i];
            shard.done.push(shard.held[0].start);
            shard.held[0].start += 1;
            shard.held.retain(|range| !range.is_empty());
            shard.rest();
        }

        fn obey(&mut self, i: usize) {
            let shard = &mut self.shards[i];
            match shard.control.pop_front() {
                Some(RangeMessage::Shed(_)) => {
                    let mut given = IdRange { start: 0, end: 0 };
                    if let Some(last) = shard.held.last_mut() {
                        given = IdRange {
                            start: last.start + last.len().div_ceil(2),
                            end: last.end,
                        };
                        last.end = given.start;
                    }
                    shard.frames.push_back(SmallFrame::Shed(given));
                }
                Some(RangeMessage::Take(_, range)) => {
                    shard.received += range.len();
                    shard.held.push(range);
                    shard.is_idle = false;
                }
                Some(RangeMessage::Finish(_)) => {
                    assert!(shard.held.is_empty(), "sent home with work to do");
                    shard.is_home = true;
                }
                None => {}
            }
        }

        /// The supervisor reads a frame of shard `i`, or the end of its pipe.
        fn receive(&mut self, i: usize) {
            match self.shards[i].frames.pop_front() {
                Some(SmallFrame::Idle(received)) => {
                    if self.ranges.idle(i, received, self.shards[i].given) {
                        self.rests[i].ids = 0;
                    }
                }
                Some(SmallFrame::Shed(range)) => {
                    let rest = self.rests[i].ids.saturating_sub(range.len());
                    self.rests[i].ids = if range.is_empty() { 0 } else { rest };
                    if let Some(RangeMessage::Take(thief, range)) = self.ranges.shed(i, range) {
                        self.give(thief, range);
                    }
                }
                None => {
                    self.rests[i].works = false;
                    self.ranges.gone(i);
                }
            }
            for message in self.ranges.feed(&self.rests) {
                match message {
                    RangeMessage::Take(to, range) => self.give(to, range),
                    RangeMessage::Shed(to) | RangeMessage::Finish(to) => {
                        self.shards[to].control.push_back(message);
                    }
                }
            }
        }

        fn give(&mut self, to: usize, range: IdRange) {
            self.rests[to].ids += range.len();
            let shard = &mut self.shards[to];
            shard.given += range.len();
            if shard.is_dead {
                // Nobody reads it: lost with the shard.
                shard.held.push(range);
            } else {
                shard.control.push_back(RangeMessage::Take(to, range));
            }
        }

        /// IDs wherever they are: done, held, or on their way.
        fn ids(&self) -> Vec<u64> {
            let mut ids = Vec::new();
            for shard in &self.shards {
                ids.extend(&shard.done);
                let given = shard.frames.iter().filter_map(|frame| match frame {
                    SmallFrame::Shed(range) => Some(range),
                    SmallFrame::Idle(_) => None,
                });
                let taken = shard.control.iter().filter_map(|message| match message {
                    RangeMessage::Take(_, range) => Some(range),
                    _ => None,
                });
                let ranges = shard.held.iter().chain(given).chain(taken);
                ids.extend(ranges.flat_map(|range| range.start..range.end));
            }
            ids.sort_unstable();
            ids
        }
    }

    impl Small {
        fn rest(&mut self) {
            if self.held.is_empty() && !self.is_idle {
                self.is_idle = true;
                self.frames.push_back(SmallFrame::Idle(self.received));
            }
        }
    }

    /// Each way to deal `ids` to `shards`.
    fn splits(ids: u64, shards: usize) -> Vec<Vec<u64>> {
        if shards == 1 {
            return vec![vec![ids]];
        }
        (0..=ids)
            .flat_map(|first| {
                let rest = splits(ids - first, shards - 1).into_iter();
                rest.map(move |rest| [vec![first], rest].concat())
            })
            .collect()
    }

    /// Every split of a few IDs, and every order of what happens: everybody goes home, and each ID is
    /// somewhere once. In the smaller worlds one dies.
    #[test]
    fn in_every_small_world_each_id_is_somewhere_once_and_everybody_goes_home() {
        for (shards, most, may_die) in [(1, 6, true), (2, 6, true), (3, 4, false), (4, 2, false)] {
            for sizes in (0..=most).flat_map(|ids| splits(ids, shards)) {
                let mut world = SmallWorld {
                    shards: vec![Small::default(); shards],
                    rests: rests(&sizes),
                    ranges: Ranges::default(),
                    may_die,
                };
                let mut start = 0;
                for (shard, size) in world.shards.iter_mut().zip(&sizes) {
                    shard.held = vec![IdRange {
                        start,
                        end: start + size,
                    }];
                    shard.held.retain(|range| !range.is_empty());
                    shard.rest();
                    start += size;
                }
                let mut seen = std::collections::HashSet::new();
                let mut open = vec![world];
                while let Some(world) = open.pop() {
                    if !seen.insert(format!("{world:?}")) {
                        continue;
                    }
                    assert!(
                        world.ids().into_iter().eq(0..start),
                        "{sizes:?}: {world:#?}"
                    );
                    let before = open.len();
                    open.extend((0..shards).flat_map(|i| world.steps(i)));
                    let is_over = world.shards.iter().all(|it| it.is_home || it.is_dead);
                    assert!(
                        is_over || open.len() > before,
                        "stuck: {sizes:?}: {world:#?}"
                    );
                }
            }
        }
    }
}
