//! The proxy's part of the shared memory: its counters, one set per process, and what all processes have in common: the
//! labels of its sessions, the first 64 by name, and the turn of what has no label.
//!
//! It must not know when to count what, and it never forgets a label: a reset zeroes counts, not names.

use super::counters::Counter;
use super::roll::Roll;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many labels have a name of their own. More sessions are counted under `other`.
pub(crate) const SESSIONS: usize = 64;

/// The longest label that can have one, in bytes: a UUID as text has 36. A longer one is counted under `other`.
const LABEL_BYTES: usize = 40;

const WORDS: usize = LABEL_BYTES / size_of::<u64>();

/// What one process counts as a proxy.
#[repr(C)]
pub(crate) struct ProxyCounters {
    pub(crate) requests: Counter,
    pub(crate) tunnels: Counter,
    pub(crate) auth_failures: Counter,
    pub(crate) refused: Counter,
    pub(crate) upstream_failures: Counter,
    pub(crate) sessionless: Counter,
    pub(crate) bytes_up: Counter,
    pub(crate) bytes_down: Counter,
    pub(crate) by_session: [Counter; SESSIONS + 1],
}

impl ProxyCounters {
    pub(super) fn zero(&self) {
        let Self {
            requests,
            tunnels,
            auth_failures,
            refused,
            upstream_failures,
            sessionless,
            bytes_up,
            bytes_down,
            by_session,
        } = self;
        let alone = [requests, tunnels, auth_failures, refused, upstream_failures, sessionless, bytes_up, bytes_down];
        for counter in alone.into_iter().chain(by_session) {
            counter.zero();
        }
    }
}

/// Where a session's counter is: below [`SESSIONS`] a named one, [`SESSIONS`] itself all others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionIndex(usize);

impl SessionIndex {
    pub(crate) const OTHER: Self = Self(SESSIONS);

    pub(crate) const fn get(self) -> usize {
        self.0
    }
}

/// The table of labels, and the number of turns taken.
#[repr(C)]
pub(crate) struct Sessions {
    turns: AtomicU64,
    /// Their bytes, filled up with zeros, which no label has.
    labels: Roll<SESSIONS, WORDS>,
}

impl Sessions {
    /// The next turn: each is taken once, by whichever process.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }

    /// The index of `label`, if it fits. One label may have two; see [`Roll::find`].
    pub(crate) fn find(&self, label: &str) -> SessionIndex {
        words(label).and_then(|words| self.labels.find(words)).map_or(SessionIndex::OTHER, SessionIndex)
    }

    /// The label behind each index, if there is one.
    pub(crate) fn labels(&self) -> impl Iterator<Item = (SessionIndex, String)> {
        self.labels.names().map(|(index, words)| {
            let bytes = words.map(u64::to_ne_bytes).concat();
            let text = String::from_utf8_lossy(&bytes);
            (SessionIndex(index), text.trim_end_matches('\0').to_owned())
        })
    }
}

fn words(label: &str) -> Option<[u64; WORDS]> {
    let mut words = [0; WORDS];
    if label.len() > LABEL_BYTES {
        return None;
    }
    for (word, bytes) in words.iter_mut().zip(label.as_bytes().chunks(size_of::<u64>())) {
        let mut filled = [0; size_of::<u64>()];
        filled[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_ne_bytes(filled);
    }
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::Shared;
    use proptest::prelude::*;

    #[test]
    fn labels_keep_their_slots_until_there_are_none_left() {
        let shared = Shared::new().unwrap();
        let sessions = &shared.region().sessions;
        for _ in 0..2 {
            for number in 0..SESSIONS {
                assert_eq!(sessions.find(&format!("s{number}")).get(), number);
            }
            assert_eq!(sessions.find("one more"), SessionIndex::OTHER);
        }
        let labels: Vec<String> = sessions.labels().map(|(_, label)| label).collect();
        assert_eq!(labels, (0..SESSIONS).map(|number| format!("s{number}")).collect::<Vec<_>>());
    }

    #[test]
    fn a_slot_lost_to_a_killed_process_is_passed_over_and_a_long_label_has_none() {
        let shared = Shared::new().unwrap();
        let sessions = &shared.region().sessions;
        sessions.labels.lose(0);
        assert_eq!(sessions.find("a").get(), 1);
        assert_eq!(sessions.find("a").get(), 1);
        assert_eq!(sessions.find(&"a".repeat(LABEL_BYTES)).get(), 2);
        assert_eq!(sessions.find(&"a".repeat(LABEL_BYTES + 1)), SessionIndex::OTHER);
    }

    #[test]
    fn each_turn_is_taken_once() {
        let shared = Shared::new().unwrap();
        assert_eq!([0; 3].map(|_| shared.region().sessions.next_turn()), [0, 1, 2]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn any_label_is_read_as_it_was_written(label in "\\PC{1,40}") {
            let shared = Shared::new().unwrap();
            let sessions = &shared.region().sessions;
            let found = sessions.find(&label);
            let expected = if label.len() > LABEL_BYTES { vec![] } else { vec![(found, label)] };
            prop_assert_eq!(sessions.labels().collect::<Vec<_>>(), expected);
        }
    }
}
