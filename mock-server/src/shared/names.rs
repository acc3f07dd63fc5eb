//! Names by number, the same in all processes: of client addresses, of
//! limits. The first so many that are looked up get a number each.
//!
//! It must not know what its names mean, and it never forgets one: open connections hold numbers.

use super::lock::{Lock, Word};

/// Longest name, in bytes: an IPv6 address as text has up to 39, a UUID 36. A longer one gets no
/// number.
const NAME_BYTES: usize = 40;

const WORDS: usize = NAME_BYTES / size_of::<u64>();

/// Table of at most `NAMES` names: their bytes, filled up with zeros, which no name has.
#[repr(C)]
pub(crate) struct Names<const NAMES: usize> {
    lock: Lock,
    names: [[Word; WORDS]; NAMES],
}

impl<const NAMES: usize> Names<NAMES> {
    /// Number of everything that has no name of its own.
    pub(crate) const OTHER: usize = NAMES;

    /// Return the number of `name`, which gets a free one if it has none; [`Self::OTHER`] if there
    /// is none left.
    pub(crate) fn find(&self, name: &str) -> usize {
        if name.len() > NAME_BYTES {
            return Self::OTHER;
        }
        let mut bytes = [0; NAME_BYTES];
        bytes[..name.len()].copy_from_slice(name.as_bytes());
        let mut words = [0; WORDS];
        for (word, chunk) in words.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_ne_bytes(*chunk);
        }
        let _held = self.lock.hold();
        if let Some(known) = self.position(words) {
            return known;
        }
        let Some(free) = self.position([0; WORDS]) else {
            return Self::OTHER;
        };
        for (place, word) in self.names[free].iter().zip(words) {
            place.set(word);
        }
        free
    }

    fn position(&self, words: [u64; WORDS]) -> Option<usize> {
        self.names
            .iter()
            .position(|entry| entry.each_ref().map(Word::get) == words)
    }

    /// Return the names with their numbers, in order, and `other` for everything else.
    pub(crate) fn all_and_other(&self) -> impl Iterator<Item = (usize, String)> {
        let other = (Self::OTHER, "other".to_owned());
        self.all().into_iter().chain([other])
    }

    /// Return the names with their numbers, in order.
    pub(crate) fn all(&self) -> Vec<(usize, String)> {
        let _held = self.lock.hold();
        self.names
            .iter()
            .map(|entry| {
                let bytes = entry.each_ref().map(|word| word.get().to_ne_bytes());
                let name = String::from_utf8_lossy(bytes.as_flattened());
                name.trim_end_matches('\0').to_owned()
            })
            .enumerate()
            .take_while(|(_, name)| !name.is_empty())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use proptest::prelude::*;

    #[test]
    fn names_keep_their_numbers_until_there_are_none_left() {
        let shared = Shared::new().unwrap();
        let names = &shared.region().sources;
        for _ in 0..2 {
            for number in 0..64 {
                assert_eq!(names.find(&format!("s{number}")), number);
            }
            assert_eq!(names.find("one more"), 64);
        }
        let expected: Vec<_> = (0..64)
            .map(|number| (number, format!("s{number}")))
            .collect();
        assert_eq!(names.all(), expected);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_name_is_read_as_it_was_written(name in "\\PC{1,40}") {
            let shared = Shared::new().unwrap();
            let names = &shared.region().sources;
            let found = names.find(&name);
            let expected = if name.len() > NAME_BYTES { vec![] } else { vec![(found, name)] };
            prop_assert_eq!(names.all(), expected);
        }
    }
}
