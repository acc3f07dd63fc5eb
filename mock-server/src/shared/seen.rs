//! Which ids were requested: one bit per id, set once, by whichever process gets there first. `Books` marks every
//! request here.
//!
//! It must not count: the caller counts what each mark tells it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Ids below this are tracked: 2^30, a gigantic crawl, in 128 MiB that are touched only where ids are.
pub(crate) const TRACKED_IDS: u64 = 1 << 30;

/// The bitmap.
#[repr(C, align(4096))]
pub(crate) struct Seen {
    words: [AtomicU64; (TRACKED_IDS / 64) as usize],
}

/// What is known about one request's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sighting {
    /// Nobody asked for it before.
    First,
    /// Somebody asked for it before.
    Again,
    /// It is not tracked.
    Beyond,
}

impl Seen {
    /// Marks `id`. Of several marks of one id at the same time, exactly one is the first.
    pub(crate) fn mark(&self, id: u64) -> Sighting {
        if id >= TRACKED_IDS {
            return Sighting::Beyond;
        }
        let word = &self.words[(id / 64) as usize];
        let bit = 1 << (id % 64);
        if word.fetch_or(bit, Ordering::Relaxed) & bit == 0 { Sighting::First } else { Sighting::Again }
    }

    /// Forgets every id, the slow way: words that are zero are read and not written.
    pub(crate) fn clear(&self) {
        for word in self.words.iter().filter(|word| word.load(Ordering::Relaxed) != 0) {
            word.store(0, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use proptest::prelude::*;
    use std::collections::HashSet;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn it_agrees_with_a_set(ids in proptest::collection::vec(prop_oneof![
            0_u64..200, TRACKED_IDS - 5..TRACKED_IDS + 5, any::<u64>()
        ], 0..200)) {
            let shared = Shared::new().unwrap();
            let mut set = HashSet::new();
            for id in ids {
                let expected = match (id < TRACKED_IDS, set.insert(id)) {
                    (false, _) => Sighting::Beyond,
                    (true, true) => Sighting::First,
                    (true, false) => Sighting::Again,
                };
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
                        if shared.region().seen.mark(id) == Sighting::First {
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
        assert_eq!(seen.mark(TRACKED_IDS - 1), Sighting::First);
    }
}
