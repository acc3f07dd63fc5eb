//! Counts and times of each tenth of a second, in which stalls shorter than a second are visible.
//! Shards record them in short runs, the supervisor merges them; they must not decide what is
//! drawn.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::table::Count;
use super::{CoarseTimes, Counters};
use crate::clock::{Nanos, duration_ns};

/// Counts of what ended in a bin, and times of what was scheduled in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bin {
    /// Counts of what ended in it, and of what was due in it and never went.
    pub counters: Counters,
    /// [Times that users wait](crate::stats::Series::waited); of what was cut off, its age.
    pub times: CoarseTimes,
    /// The greatest of these, ns; 0 without any.
    pub max_ns: u64,
}

impl Bin {
    /// Record a time that users waited, ns.
    pub(crate) fn record(&mut self, ns: u64) {
        self.times.record(ns / 1_000);
        self.max_ns = self.max_ns.max(ns);
    }

    fn merge(&mut self, other: &Self) {
        let Self {
            counters,
            times,
            max_ns,
        } = other;
        self.counters.merge(counters);
        self.times.add(times);
        self.max_ns = self.max_ns.max(*max_ns);
    }
}

/// The bins of a second; empty of a second without them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bins(Vec<Bin>);

impl Bins {
    /// Number of bins in a second.
    pub const COUNT: usize = 10;

    /// Length of a bin.
    pub const LENGTH: Duration = Duration::from_millis(1_000 / Self::COUNT as u64);

    /// Empty bins of a second.
    pub(crate) fn new() -> Self {
        Self(vec![Bin::default(); Self::COUNT])
    }

    /// The bin of `moment` in the second that begins at `second`; the first or the last one of a
    /// moment outside of it.
    pub(crate) fn at(&mut self, second: Nanos, moment: Nanos) -> Option<&mut Bin> {
        let bin =
            usize::try_from(moment.since(second) / duration_ns(Self::LENGTH)).unwrap_or(usize::MAX);
        let last = self.0.len().checked_sub(1)?;
        self.0.get_mut(bin.min(last))
    }

    /// Add those of another shard in the same second.
    pub fn merge(&mut self, other: &Self) {
        let Self(others) = other;
        if self.0.len() < others.len() {
            self.0.resize(others.len(), Bin::default());
        }
        self.0
            .iter_mut()
            .zip(others)
            .for_each(|(own, other)| own.merge(other));
    }

    /// Each bin, in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Bin] {
        &self.0
    }
}
