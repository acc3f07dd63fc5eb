//! Recently accepted requests, by the time they were sent: the evidence from which a pace is
//! learnt.
//!
//! Filled by the learnt pace with every answer, read once per episode of throttling. A fixed ring:
//! memory does not depend on how long a run takes or on how fast it goes.

use crate::clock::Nanos;

/// The width of a slot. Finer than the fastest search needs to tell one doubling from the next.
const SLOT_NS: u64 = 5_000_000;

/// Number of slots: 2.56 s in all, so that a window of a second or two lies in the ring whole.
const SLOTS: usize = 512;

/// Accepted requests of a span of time before an episode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct AcceptedWindow {
    /// The width, in seconds; positive.
    pub(super) seconds: f64,
    /// Requests sent in it that were accepted.
    pub(super) accepted: f64,
}

/// The requests accepted of late, and of the whole time since it was cleared.
#[derive(Debug)]
pub(super) struct History {
    slots: Box<[Slot]>,
    first: Option<Nanos>,
    accepted: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    index: u64,
    first: Nanos,
    accepted: u32,
}

impl History {
    /// Nothing sent yet.
    pub(super) fn new() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS].into_boxed_slice(),
            first: None,
            accepted: 0,
        }
    }

    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.slots.fill(Slot::default());
        (self.first, self.accepted) = (None, 0);
    }

    /// A request goes at `now`.
    pub(super) fn sent(&mut self, now: Nanos) {
        self.first.get_or_insert(now);
    }

    /// A request that was sent at `sent` was accepted. One from before the history was cleared is
    /// none of its business.
    pub(super) fn accepted(&mut self, sent: Nanos) {
        if self.first.is_none_or(|first| sent < first) {
            return;
        }
        self.accepted += 1;
        let index = sent.0 / SLOT_NS;
        let place = usize::try_from(index % SLOTS as u64).unwrap_or(0);
        let slot = &mut self.slots[place];
        if slot.accepted == 0 || slot.index < index {
            *slot = Slot {
                index,
                first: sent,
                accepted: 1,
            };
        } else if slot.index == index {
            slot.first = slot.first.min(sent);
            slot.accepted += 1;
        }
    }

    /// Return the number of requests accepted since the history was last cleared.
    pub(super) const fn total(&self) -> u64 {
        self.accepted
    }

    /// The windows that end at `end`, from the shortest to the longest: one per slot that has
    /// anything in it, and the whole.
    pub(super) fn windows(&self, end: Nanos) -> Vec<AcceptedWindow> {
        let oldest = (end.0 / SLOT_NS).saturating_sub(SLOTS as u64 - 1);
        let mut slots: Vec<&Slot> = self
            .slots
            .iter()
            .filter(|slot| slot.accepted > 0 && slot.index >= oldest && slot.first <= end)
            .collect();
        slots.sort_unstable_by_key(|slot| std::cmp::Reverse(slot.index));
        let mut accepted = 0.0;
        let mut windows: Vec<AcceptedWindow> = slots
            .into_iter()
            .map(|slot| {
                accepted += f64::from(slot.accepted);
                AcceptedWindow {
                    seconds: seconds(end.since(slot.first)),
                    accepted,
                }
            })
            .collect();
        if let Some(first) = self.first
            && windows
                .last()
                .is_none_or(|longest| seconds(end.since(first)) > longest.seconds)
        {
            windows.push(AcceptedWindow {
                seconds: seconds(end.since(first)),
                accepted: self.accepted as f64,
            });
        }
        windows
    }
}

/// Nanoseconds as seconds; never 0, so that a rate over them is finite.
pub(super) fn seconds(ns: u64) -> f64 {
    ns.max(1_000) as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn at(ms: u64) -> Nanos {
        Nanos(ms * MS)
    }

    #[test]
    fn windows_end_at_the_same_moment_and_add_up() {
        let mut history = History::new();
        history.sent(at(1_000));
        // Answers come in any order; one from before the history began is not its own.
        for sent in [1_012, 1_000, 1_010, 999] {
            history.accepted(at(sent));
        }
        assert_eq!(history.total(), 3);
        let window = |seconds: f64, accepted: f64| AcceptedWindow { seconds, accepted };
        assert_eq!(
            history.windows(at(1_020)),
            [window(0.01, 2.0), window(0.02, 3.0)]
        );
        assert_eq!(
            history.windows(at(1_005)),
            [window(0.005, 1.0),],
            "what came later is left out"
        );
        history.clear();
        assert_eq!((history.total(), history.windows(at(1_020))), (0, vec![]));
    }

    #[test]
    fn it_forgets_details_and_keeps_the_whole() {
        let mut history = History::new();
        history.sent(at(0));
        for ms in 0..10_000 {
            history.accepted(at(ms));
        }
        history.accepted(at(0));
        let windows = history.windows(at(10_000));
        assert_eq!(windows.len(), SLOTS);
        assert_eq!(
            windows.last(),
            Some(&AcceptedWindow {
                seconds: 10.0,
                accepted: 10_001.0
            })
        );
        for pair in windows.windows(2) {
            assert!(pair[0].seconds < pair[1].seconds && pair[0].accepted < pair[1].accepted);
        }
    }

    #[test]
    fn no_window_has_no_width() {
        let mut history = History::new();
        history.sent(at(7));
        history.accepted(at(7));
        assert_eq!(
            history.windows(at(7)),
            [AcceptedWindow {
                seconds: 1e-6,
                accepted: 1.0
            }]
        );
    }
}
