//! Turns to send under a limit that keeps any two requests apart: one shard after another.
//!
//! One shard at a time may send under such a limit. The next one receives the time of that request
//! before it gets its turn, because the frames of a pipe keep their order. So two requests cannot
//! be sent at the same instant, however long messages take. Called by the supervisor with the
//! messages of shards. It must not read a clock.

use std::collections::{BTreeMap, VecDeque};

use crate::wire::Scope;

/// The turns of every limit.
#[derive(Debug, Default)]
pub(super) struct Turns {
    /// The shards that asked, first come, first served. The first of them has the turn.
    asked: BTreeMap<Scope, VecDeque<usize>>,
}

impl Turns {
    /// Shard `i` asks for the turn. Some when it is its turn now.
    pub(super) fn ask(&mut self, scope: Scope, i: usize) -> Option<usize> {
        let asked = self.asked.entry(scope).or_default();
        if asked.contains(&i) {
            return None;
        }
        asked.push_back(i);
        (asked.len() == 1).then_some(i)
    }

    /// The turn of shard `i` is over. Returns the shard whose turn it is now.
    pub(super) fn end(&mut self, scope: Scope, i: usize) -> Option<usize> {
        let asked = self
            .asked
            .get_mut(&scope)
            .filter(|asked| asked.front() == Some(&i))?;
        asked.pop_front();
        asked.front().copied()
    }

    /// Shard `i` sends nothing any more. Returns whose turn it is now, where it was that of `i`.
    pub(super) fn gone(&mut self, i: usize) -> Vec<(Scope, Option<usize>)> {
        let mut next = Vec::new();
        for (scope, asked) in &mut self.asked {
            let had_turn = asked.front() == Some(&i);
            asked.retain(|k| *k != i);
            if had_turn {
                next.push((*scope, asked.front().copied()));
            }
        }
        next
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_one_shards_until_it_ends_or_the_shard_is_gone() {
        let mut turns = Turns::default();
        assert_eq!(turns.ask(Scope::Run, 2), Some(2));
        assert_eq!(
            [
                turns.ask(Scope::Run, 0),
                turns.ask(Scope::Run, 1),
                turns.ask(Scope::Run, 2)
            ],
            [None; 3]
        );
        assert_eq!(turns.ask(Scope::Host(1), 0), Some(0), "a limit of its own");
        assert_eq!(turns.end(Scope::Run, 0), None, "it is not its turn");
        assert_eq!(turns.end(Scope::Run, 2), Some(0));
        assert_eq!(
            turns.gone(0),
            [(Scope::Run, Some(1)), (Scope::Host(1), None)]
        );
        assert_eq!(turns.gone(0), []);
        assert_eq!(turns.end(Scope::Run, 1), None);
        assert_eq!(turns.ask(Scope::Run, 1), Some(1));
    }
}
