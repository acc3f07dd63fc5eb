//! The algorithms behind one name: what each makes of a word of state and an instant. The limiter asks, and changes the
//! word by compare-and-swap; nothing here touches memory.
//!
//! It must not read the time or keep state. All of a key's state is one word, so that one compare-and-swap decides about
//! one request: this is what makes several processes admit exactly what one would.

use super::concurrency::Concurrency;
use super::connections::Connections;
use super::fixed_window::FixedWindow;
use super::gcra::Gcra;
use super::leaky_bucket::LeakyBucket;
use super::sliding_window::SlidingWindow;
use super::token_bucket::TokenBucket;

/// The greatest word that is a state; those above it mean something to the table of keys.
pub(crate) const LARGEST: u64 = u64::MAX - (1 << 20);

/// How requests are counted against a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    /// One per interval, with a tolerance.
    Gcra(Gcra),
    /// A bucket of tokens that is refilled steadily.
    TokenBucket(TokenBucket),
    /// A count per aligned window.
    FixedWindow(FixedWindow),
    /// A count per aligned window, with a share of the one before.
    SlidingWindow(SlidingWindow),
    /// A queue that delays before it turns away.
    LeakyBucket(LeakyBucket),
    /// Requests at the same time.
    Concurrency(Concurrency),
    /// Connections at the same time.
    Connections(Connections),
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is let through if the word can be changed to `next`, and is to be held for `delay_ns` first.
    Admitted { next: u64, delay_ns: u64 },
    /// It is turned away and takes nothing. If nobody else comes it will be let through that much later, at least 1.
    Rejected { retry_after_ns: u64 },
}

/// How a key stands with a limit at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Standing {
    /// How many more requests would be let through at that instant.
    pub(crate) remaining: u64,
    /// Nanoseconds until there would be more; 0 if there is no more to come, or if nobody can know.
    pub(crate) reset_ns: u64,
}

/// What a client is told about a limit, once and for all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quota {
    /// The most that is ever let through at once.
    pub(crate) requests: u32,
    /// What that is for.
    pub(crate) unit: Unit,
}

/// What a quota is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// Requests per so many nanoseconds.
    PerNs(u64),
    /// Requests, or connections, at the same time.
    AtOnce,
}

impl Algorithm {
    /// Decides about one request of a key whose word is `state`.
    pub(crate) fn step(&self, state: u64, now_ns: u64) -> Step {
        match self {
            Self::Gcra(limit) => limit.step(state, now_ns),
            Self::TokenBucket(limit) => limit.step(state, now_ns),
            Self::FixedWindow(limit) => limit.step(state, now_ns),
            Self::SlidingWindow(limit) => limit.step(state, now_ns),
            Self::LeakyBucket(limit) => limit.step(state, now_ns),
            Self::Concurrency(limit) => limit.step(state),
            Self::Connections(limit) => limit.step(state),
        }
    }

    /// Whether a key with this word will be treated like one that never came, from `now_ns` on.
    pub(crate) fn is_idle(&self, state: u64, now_ns: u64) -> bool {
        match self {
            Self::Gcra(_) => Gcra::is_idle(state, now_ns),
            Self::TokenBucket(_) => TokenBucket::is_idle(state, now_ns),
            Self::FixedWindow(limit) => limit.is_idle(state, now_ns),
            Self::SlidingWindow(limit) => limit.is_idle(state, now_ns),
            Self::LeakyBucket(_) => LeakyBucket::is_idle(state, now_ns),
            Self::Concurrency(_) | Self::Connections(_) => state == 0,
        }
    }

    /// The word without the admission that made it `taken`, or none if there is nothing to give back any more.
    /// `now_ns` must have been read after `state`.
    pub(crate) fn give_back(&self, state: u64, taken: u64, now_ns: u64) -> Option<u64> {
        match self {
            Self::Gcra(limit) => limit.give_back(state, taken, now_ns),
            Self::TokenBucket(limit) => limit.give_back(state, taken, now_ns),
            Self::FixedWindow(_) => FixedWindow::give_back(state, taken),
            Self::SlidingWindow(_) => SlidingWindow::give_back(state, taken),
            Self::LeakyBucket(limit) => limit.give_back(state, taken, now_ns),
            Self::Concurrency(_) | Self::Connections(_) => state.checked_sub(1),
        }
    }

    /// How a key with this word stands.
    pub(crate) fn standing(&self, state: u64, now_ns: u64) -> Standing {
        match self {
            Self::Gcra(limit) => limit.standing(state, now_ns),
            Self::TokenBucket(limit) => limit.standing(state, now_ns),
            Self::FixedWindow(limit) => limit.standing(state, now_ns),
            Self::SlidingWindow(limit) => limit.standing(state, now_ns),
            Self::LeakyBucket(limit) => limit.standing(state, now_ns),
            Self::Concurrency(limit) => limit.standing(state),
            Self::Connections(limit) => limit.standing(state),
        }
    }

    /// What a client is told that it may do.
    pub(crate) fn quota(&self) -> Quota {
        match self {
            Self::Gcra(limit) => limit.quota(),
            Self::TokenBucket(limit) => limit.quota(),
            Self::FixedWindow(limit) => limit.quota(),
            Self::SlidingWindow(limit) => limit.quota(),
            Self::LeakyBucket(limit) => limit.quota(),
            Self::Concurrency(limit) => Quota { requests: limit.cap().get(), unit: Unit::AtOnce },
            Self::Connections(limit) => Quota { requests: limit.cap().get(), unit: Unit::AtOnce },
        }
    }

    /// Whether what is admitted is given back when it ends.
    pub(crate) const fn counts_what_is_open(&self) -> bool {
        matches!(self, Self::Concurrency(_) | Self::Connections(_))
    }

    /// The name on the command line.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Gcra(_) => "gcra",
            Self::TokenBucket(_) => "bucket",
            Self::FixedWindow(_) => "fixed",
            Self::SlidingWindow(_) => "sliding",
            Self::LeakyBucket(_) => "leaky",
            Self::Concurrency(_) => "concurrency",
            Self::Connections(_) => "connections",
        }
    }
}

/// What the tests of all algorithms share: a word, driven as the limiter drives it.
#[cfg(test)]
pub(crate) mod drive {
    use super::{Algorithm, Step};
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// Decides about one request; the delay if it is admitted.
    pub(crate) fn ask(word: &AtomicU64, now_ns: u64, algorithm: &Algorithm) -> Result<u64, u64> {
        let mut state = word.load(Ordering::Relaxed);
        loop {
            match algorithm.step(state, now_ns) {
                Step::Rejected { retry_after_ns } => return Err(retry_after_ns),
                Step::Admitted { next, delay_ns } => {
                    match word.compare_exchange_weak(state, next, Ordering::Relaxed, Ordering::Relaxed) {
                        Ok(_) => return Ok(delay_ns),
                        Err(newer) => state = newer,
                    }
                }
            }
        }
    }

    /// How many of endlessly many requests of eight threads are admitted at each of some instants.
    pub(crate) fn fought_over(algorithm: &Algorithm, instants_ns: &[u64]) -> Vec<u64> {
        const THREADS: usize = 8;
        let word = AtomicU64::new(0);
        let admitted: Vec<AtomicU64> = instants_ns.iter().map(|_| AtomicU64::new(0)).collect();
        let tick = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for (now_ns, admitted) in instants_ns.iter().zip(&admitted) {
                        tick.wait();
                        while ask(&word, *now_ns, algorithm).is_ok() {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        admitted.into_iter().map(AtomicU64::into_inner).collect()
    }

    /// No window of any two of `admitted`, both included, holds more than `burst` and one per whole interval of it.
    pub(crate) fn is_within(admitted: &[u64], burst: u64, interval_ns: u64) -> bool {
        (0..admitted.len()).all(|first| {
            (first..admitted.len()).all(|last| {
                let window_ns = admitted[last] - admitted[first];
                (last - first + 1) as u64 <= burst + window_ns / interval_ns
            })
        })
    }
}
