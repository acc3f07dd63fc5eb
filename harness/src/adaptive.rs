//! `Adaptive`: TODO
use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::pacer::Pace;
use crate::plan::AdaptiveKind;
use crate::sample::Attempt;

mod ceiling;
mod concurrency;
mod history;
mod pace;
#[cfg(test)]
mod simulation;

use concurrency::Concurrency;
use pace::LearntPace;

/// One shard's controller.
#[derive(Debug)]
pub struct Adaptive {
    concurrency: Concurrency,
    pace: LearntPace,
}

/// Where a controller stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Standing {
    /// Requests in flight allowed.
    pub limit: u32,
    /// The learnt pace, requests per second of this shard; none while none was learnt.
    pub pace_per_s: Option<f64>,
}

impl Adaptive {
    /// new
    #[must_use]
    pub fn new(kind: AdaptiveKind, lanes: u32, first: u32, start: Nanos) -> Self {
        Self { concurrency: Concurrency::new(kind, lanes, first, start), pace: LearntPace::new(start) }
    }

    /// limit
    #[must_use]
    pub fn limit(&self) -> u32 {
        self.concurrency.limit()
    }

    /// poll
    pub fn poll(&mut self, now: Nanos) -> Pace {
        self.pace.poll(now)
    }

    /// admitted
    pub fn admitted(&mut self, now: Nanos) {
        self.pace.admitted(now);
    }

    /// ended
    pub fn ended(&mut self, _now: Nanos, in_flight: u32, attempt: &Attempt) {
        self.concurrency.ended(in_flight, attempt);
        self.pace.ended(attempt);
    }

    /// throttled
    pub fn throttled(&mut self, at: Nanos, until: Nanos) {
        if self.pace.throttled(at, until) == pace::News::Episode {
            self.concurrency.throttled(at);
        }
    }

    /// standing
    #[must_use]
    pub fn standing(&self) -> Standing {
        Standing { limit: self.limit(), pace_per_s: self.pace.per_second() }
    }
}

impl Standing {
    /// With another shard's: none of the pace as long as one of them has none.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        let pace_per_s = self.pace_per_s.zip(other.pace_per_s).map(|(one, another)| one + another);
        Self { limit: self.limit + other.limit, pace_per_s }
    }
}
