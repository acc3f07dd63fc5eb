//! Count of requests for each id: four bits per id, raised by whichever process gets the request.
//! `LedgerWriter` marks every request here.
//!
//! It must not count anything else: the caller does, with the number that each mark returns.

use super::atomics::{AtomicU64, Ordering};

/// Ids below this are tracked: 2^30, a gigantic crawl, in 512 MiB that are touched only where ids
/// are.
pub(crate) const TRACKED_IDS: u64 = 1 << 30;

/// Requests for one id are told apart up to this many; it is far above what a client that gives up
/// may try.
pub(crate) const MAX_ATTEMPT: u8 = 15;

/// The bits of one id's count.
const BITS: u32 = 4;

/// Ids that share a word.
const PER_WORD: u64 = (u64::BITS / BITS) as u64;

/// The counts.
#[repr(C, align(4096))]
pub(crate) struct Seen {
    words: [AtomicU64; (TRACKED_IDS / PER_WORD) as usize],
}

impl Seen {
    /// Marks `id` and returns how many marks it had, [`MAX_ATTEMPT`] for more, too; none if it is
    /// not tracked. Of several marks of one id at the same time, exactly one is the first, one the
    /// second, and so on.
    pub(crate) fn mark(&self, id: u64) -> Option<u8> {
        if id >= TRACKED_IDS {
            return None;
        }
        let word = &self.words[(id / PER_WORD) as usize];
        let shift = (id % PER_WORD) as u32 * BITS;
        #[expect(clippy::cast_possible_truncation, reason = "the bits of one id")]
        let before_in = |word: u64| (word >> shift & u64::from(MAX_ATTEMPT)) as u8;
        // A count that is full stays as it is, and is told by the word that could not be raised.
        let raised = word.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |word| {
            (before_in(word) < MAX_ATTEMPT).then(|| word + (1 << shift))
        });
        Some(raised.map_or_else(before_in, before_in))
    }

    /// Forgets every id, the slow way: words that are zero are read and not written.
    pub(crate) fn clear(&self) {
        for word in self
            .words
            .iter()
            .filter(|word| word.load(Ordering::Relaxed) != 0)
        {
            word.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_agrees_with_a_map(ids in proptest::collection::vec(prop_oneof![
            0_u64..20, TRACKED_IDS - 5..TRACKED_IDS + 5, any::<u64>()
        ], 0..200)) {
            let shared = Shared::new().unwrap();
            let mut marks: HashMap<u64, u8> = HashMap::new();
            for id in ids {
                let before = marks.entry(id).or_default();
                let expected = (id < TRACKED_IDS).then_some(*before);
                *before = (*before + 1).min(MAX_ATTEMPT);
                prop_assert_eq!(shared.region().seen.mark(id), expected);
            }
        }
    }

    #[test]
    fn of_many_marks_of_one_id_one_is_the_first() {
        let shared = Shared::new().unwrap();
        let firsts = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for id in 0..10_000 {
                        if shared.region().seen.mark(id) == Some(0) {
                            firsts.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(firsts.into_inner(), 10_000);
    }

    #[test]
    fn clearing_by_hand_forgets_everything() {
        let shared = Shared::new().unwrap();
        let seen = &shared.region().seen;
        seen.mark(TRACKED_IDS - 1);
        seen.clear();
        assert_eq!(seen.mark(TRACKED_IDS - 1), Some(0));
    }
}
