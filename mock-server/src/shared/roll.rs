//! A roll of names: the first so many that are looked up get a number each, the same in all processes. `sources` and
//! `proxy` keep theirs in one.
//!
//! It must not know what its names mean, and it never strikes one off: others hold numbers.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// A roll of at most `NAMES` names, each of `WORDS` words.
#[repr(C)]
pub(super) struct Roll<const NAMES: usize, const WORDS: usize> {
    entries: [Entry<WORDS>; NAMES],
}

#[repr(C)]
struct Entry<const WORDS: usize> {
    state: AtomicU32,
    words: [AtomicU64; WORDS],
}

const FREE: u32 = 0;
/// A process is writing the name. If it is killed in the middle the entry stays so, and is lost to all.
const CLAIMED: u32 = 1;
const WRITTEN: u32 = 2;

impl<const NAMES: usize, const WORDS: usize> Roll<NAMES, WORDS> {
    /// The number of `name`, which gets a free entry if it has none; nothing when there are none left.
    ///
    /// Nobody waits: an entry that another process is writing right now is passed over. One name may so get two, and
    /// whoever reads must add up what belongs to equal names.
    pub(super) fn find(&self, name: [u64; WORDS]) -> Option<usize> {
        self.entries.iter().position(|entry| entry.is(name) || entry.take(name))
    }

    /// The names by their numbers.
    pub(super) fn names(&self) -> impl Iterator<Item = (usize, [u64; WORDS])> {
        self.entries.iter().enumerate().filter_map(|(number, entry)| Some((number, entry.name()?)))
    }

    /// As if a process had been killed while it wrote the name of that number.
    #[cfg(test)]
    pub(super) fn lose(&self, number: usize) {
        self.entries[number].state.store(CLAIMED, Ordering::Relaxed);
    }
}

impl<const WORDS: usize> Entry<WORDS> {
    fn name(&self) -> Option<[u64; WORDS]> {
        (self.state.load(Ordering::Acquire) == WRITTEN)
            .then(|| self.words.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    fn is(&self, name: [u64; WORDS]) -> bool {
        self.name() == Some(name)
    }

    /// Whether the entry was free and is the name's now.
    fn take(&self, name: [u64; WORDS]) -> bool {
        if self.state.load(Ordering::Relaxed) != FREE
            || self.state.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Acquire).is_err()
        {
            return false;
        }
        for (place, word) in self.words.iter().zip(name) {
            place.store(word, Ordering::Relaxed);
        }
        // Release: whoever sees WRITTEN sees the name.
        self.state.store(WRITTEN, Ordering::Release);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roll() -> Roll<4, 2> {
        let entry = |_| Entry { state: AtomicU32::new(FREE), words: [AtomicU64::new(0), AtomicU64::new(0)] };
        Roll { entries: std::array::from_fn(entry) }
    }

    #[test]
    fn names_keep_their_numbers_until_there_are_none_left() {
        let roll = roll();
        for _ in 0..2 {
            for number in 0..4 {
                assert_eq!(roll.find([number, 7]), usize::try_from(number).ok());
            }
            assert_eq!(roll.find([4, 7]), None);
        }
        assert_eq!(roll.names().map(|(_, name)| name[0]).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn an_entry_lost_to_a_killed_process_is_passed_over() {
        let roll = roll();
        roll.lose(0);
        assert_eq!((roll.find([1, 1]), roll.find([1, 1])), (Some(1), Some(1)));
    }

    #[test]
    fn threads_that_enrol_the_same_names_use_few_entries_for_each() {
        let roll: Roll<64, 2> = Roll {
            entries: std::array::from_fn(|_| Entry {
                state: AtomicU32::new(FREE),
                words: [AtomicU64::new(0), AtomicU64::new(0)],
            }),
        };
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..16).for_each(|name| assert!(roll.find([name, name]).is_some())));
            }
        });
        let mut names: Vec<u64> = roll.names().map(|(_, name)| name[0]).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names, (0..16).collect::<Vec<_>>());
    }
}
