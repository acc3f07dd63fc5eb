//! The cap on open connections, and what becomes of those above it.
//!
//! It must not touch a connection: the server does.

use super::algorithm::{Standing, Step};
use super::concurrency::{at_most, left};
use std::num::NonZeroU32;

/// At most `cap` connections at the same time, from their being accepted until they are closed.
///
/// **Guarantee.** Never more than `cap` of a key are served at a time, over all processes.
///
/// What a connection is for is not known yet when it is accepted: those that only want to read the books count, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connections {
    cap: NonZeroU32,
    over: Over,
}

/// What becomes of a connection above the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Over {
    /// It is closed as soon as it is accepted. The client sees its end, or a reset if the request was there already.
    #[default]
    Close,
    /// It is reset as soon as it is accepted.
    Reset,
    /// Its first request is answered with 503, and it is closed.
    Unavailable,
}

impl Connections {
    /// A cap of `cap` connections.
    #[must_use]
    pub const fn new(cap: NonZeroU32, over: Over) -> Self {
        Self { cap, over }
    }

    /// The cap.
    #[must_use]
    pub const fn cap(&self) -> NonZeroU32 {
        self.cap
    }

    /// What becomes of the others.
    #[must_use]
    pub const fn over(&self) -> Over {
        self.over
    }

    pub(super) fn step(self, open: u64) -> Step {
        at_most(self.cap, open)
    }

    pub(super) fn standing(self, open: u64) -> Standing {
        left(self.cap, open)
    }
}
