//! One type for all algorithms of limits: each decides about a key from a word of 64 bits and a
//! reading of the clock. The table of keys stores the words, the limiter asks.
//!
//! It must not read a clock or store anything.

use super::bucket::Bucket;
use super::window::{FixedWindow, SlidingWindow};
use std::num::NonZeroU32;

/// Algorithm of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Algorithm {
    /// GCRA, token bucket or leaky bucket.
    Bucket(Bucket),
    /// A count per aligned window.
    FixedWindow(FixedWindow),
    /// A count per aligned window, with a share of the one before.
    SlidingWindow(SlidingWindow),
    /// At most this many requests of a key at the same time, over all processes: from their
    /// decision until their answer is handed over, or their client has left.
    ///
    /// It is not known when the next place is free, so a refusal asks to wait for the least that
    /// `Retry-After` can say, a second.
    Concurrency(NonZeroU32),
    /// At most this many connections of a key at the same time, over all processes, from their
    /// being accepted until they are closed. Those that only read the ledger count, too: what a
    /// connection is for is not known when it is accepted.
    Connections(NonZeroU32),
}

/// Fate of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LimitDecision {
    /// Let through if the word can be changed to `next`, and held for `delay_ns` first.
    Admitted { next: u64, delay_ns: u64 },
    /// Turned away; takes nothing. If no other request arrives, it will be let through that much
    /// later, at least 1.
    Rejected { retry_after_ns: u64 },
}

/// State of a key at an instant, as clients are told about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Number of more requests would be let through at that instant.
    pub(crate) remaining: u64,
    /// Nanoseconds until there would be more; 0 if there is no more to come, or if that is not
    /// known.
    pub(crate) reset_ns: u64,
}

/// Size of a limit, as clients are told about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The most that is ever let through at once.
    pub(crate) requests: u32,
    /// Nanoseconds that this is for; none for what is counted while it is open.
    pub(crate) per_ns: Option<u64>,
}

impl Algorithm {
    /// Decide about one request of a key whose word is `state`.
    pub(crate) fn step(&self, state: u64, now_ns: u64) -> LimitDecision {
        match self {
            Self::Bucket(limit) => limit.step(state, now_ns),
            Self::FixedWindow(limit) => limit.step(state, now_ns),
            Self::SlidingWindow(limit) => limit.step(state, now_ns),
            Self::Concurrency(cap) | Self::Connections(cap) if state >= u64::from(cap.get()) => {
                LimitDecision::Rejected { retry_after_ns: 1 }
            }
            Self::Concurrency(_) | Self::Connections(_) => LimitDecision::Admitted {
                next: state + 1,
                delay_ns: 0,
            },
        }
    }

    /// True if a key with this word will be treated like one that never came, from `now_ns` on.
    pub(crate) fn is_idle(&self, state: u64, now_ns: u64) -> bool {
        match self {
            Self::Bucket(_) => state <= now_ns,
            Self::FixedWindow(limit) => limit.is_idle(state, now_ns),
            Self::SlidingWindow(limit) => limit.is_idle(state, now_ns),
            Self::Concurrency(_) | Self::Connections(_) => state == 0,
        }
    }

    /// Return what a client with this word is told.
    pub(crate) fn standing(&self, state: u64, now_ns: u64) -> Standing {
        match self {
            Self::Bucket(limit) => limit.standing(state, now_ns),
            Self::FixedWindow(limit) => limit.standing(state, now_ns),
            Self::SlidingWindow(limit) => limit.standing(state, now_ns),
            Self::Concurrency(cap) | Self::Connections(cap) => Standing {
                remaining: u64::from(cap.get()).saturating_sub(state),
                reset_ns: 0,
            },
        }
    }

    /// Return the quota that clients are told.
    pub(crate) fn quota(&self) -> Quota {
        match self {
            Self::Bucket(limit) => limit.quota(),
            Self::FixedWindow(FixedWindow { permits, window_ns })
            | Self::SlidingWindow(SlidingWindow { permits, window_ns }) => Quota {
                requests: *permits,
                per_ns: Some(*window_ns),
            },
            Self::Concurrency(cap) | Self::Connections(cap) => Quota {
                requests: cap.get(),
                per_ns: None,
            },
        }
    }

    /// True if what is admitted is given back when it ends.
    pub(crate) const fn counts_open(&self) -> bool {
        matches!(self, Self::Concurrency(_) | Self::Connections(_))
    }
}

/// Shared by the tests of all algorithms: a word, driven as the limiter drives it.
#[cfg(test)]
pub(crate) mod drive {
    use super::{Algorithm, LimitDecision};
    use std::cell::Cell;

    /// Decides about one request; the delay if it is admitted.
    pub(crate) fn ask(word: &Cell<u64>, now_ns: u64, algorithm: &Algorithm) -> Result<u64, u64> {
        match algorithm.step(word.get(), now_ns) {
            LimitDecision::Rejected { retry_after_ns } => Err(retry_after_ns),
            LimitDecision::Admitted { next, delay_ns } => {
                word.set(next);
                Ok(delay_ns)
            }
        }
    }
}
