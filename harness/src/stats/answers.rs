//! Number of answers in each short bin of a second, in which stalls shorter than a second are
//! visible. Shards record it, the supervisor merges it; it must not decide what a stall is.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Nanos, duration_ns};
use crate::sample::{Outcome, Sample};

/// Answers of any status in each bin of a second.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AnswerBins(Vec<u32>);

impl AnswerBins {
    /// Number of bins in a second.
    pub const COUNT: usize = 50;

    /// Length of a bin.
    pub const LENGTH: Duration = Duration::from_millis(1_000 / Self::COUNT as u64);

    /// Count the answer of `sample`, if it has one, in the second that begins at `second`.
    pub(crate) fn record(&mut self, second: Nanos, sample: &Sample) {
        let is_answer =
            sample.attempt.status.is_some() || !matches!(sample.attempt.outcome, Outcome::Error(_));
        let into = sample.attempt.done.since(second) / duration_ns(Self::LENGTH);
        let bin = usize::try_from(into).unwrap_or(usize::MAX);
        // One whose own second was handed over already is in no bin.
        if is_answer && sample.attempt.done >= second && bin < Self::COUNT {
            if self.0.is_empty() {
                self.0.resize(Self::COUNT, 0);
            }
            self.0[bin] += 1;
        }
    }

    /// Add those of another shard in the same second.
    pub fn merge(&mut self, other: &Self) {
        let Self(others) = other;
        if self.0.len() < others.len() {
            self.0.resize(others.len(), 0);
        }
        for (bin, other) in self.0.iter_mut().zip(others) {
            *bin = bin.saturating_add(*other);
        }
    }

    /// Number of answers in each bin.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        (0..Self::COUNT).map(|bin| self.0.get(bin).copied().unwrap_or(0))
    }
}
