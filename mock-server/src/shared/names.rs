//! Names by number, the same in all processes: of client addresses, of a proxy's sessions, of
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
        let words = bytes
            .as_chunks()
            .0
            .iter()
            .map(|chunk| u64::from_ne_bytes(*chunk));
        let is = |entry: &[Word; WORDS], words: &mut dyn Iterator<Item = u64>| {
            entry.iter().map(Word::get).eq(words)
        };
        let _held = self.lock.hold();
        if let Some(known) = self
            .names
            .iter()
            .position(|entry| is(entry, &mut words.clone()))
        {
            return known;
        }
        let free = self
            .names
            .iter()
            .position(|entry| is(entry, &mut std::iter::repeat_n(0, WORDS)));
        for (place, word) in free
            .map_or(&[][..], |free| &self.names[free])
            .iter()
            .zip(words)
        {
            place.set(word);
        }
        free.unwrap_or(Self::OTHER)
    }

    /// Return the names with their numbers, in order.
    pub(crate) fn all(&self) -> Vec<(usize, String)> {
        let _held = self.lock.hold();
        let text = |entry: &[Word; WORDS]| {
            let bytes = entry
                .each_ref()
                .map(|word| word.get().to_ne_bytes())
                .concat();
            String::from_utf8_lossy(&bytes)
                .trim_end_matches('\0')
                .to_owned()
        };
        self.names
            .iter()
            .map(text)
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
        let names = &shared.region().sessions;
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

    #[test]
    fn threads_that_look_up_the_same_names_find_the_same_numbers() {
        let shared = Shared::new().unwrap();
        let names = &shared.region().sources;
        let find_all = || {
            (0..16)
                .map(|name| names.find(&name.to_string()))
                .collect::<Vec<_>>()
        };
        let found: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(find_all)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        assert!(found.windows(2).all(|pair| pair[0] == pair[1]), "{found:?}");
        assert_eq!(names.all().len(), 16);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_name_is_read_as_it_was_written(name in "\\PC{1,40}") {
            let shared = Shared::new().unwrap();
            let names = &shared.region().sessions;
            let found = names.find(&name);
            let expected = if name.len() > NAME_BYTES { vec![] } else { vec![(found, name)] };
            prop_assert_eq!(names.all(), expected);
        }
    }
}
