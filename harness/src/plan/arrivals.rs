//! Arrivals of requests: as soon as possible, or by a timetable that the whole run shares.
//!
//! Pure data; `pacer` makes instants of it.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::UnknownName;
use crate::units::Rate;

/// Arrival process of the requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Arrivals {
    /// Closed loop: the next item starts as soon as a connection is free and the budget allows. A
    /// target that is slow slows its client down, so the waiting that it would cause others is not
    /// seen.
    #[default]
    Asap,
    /// Closed loop in waves: as many items as may be in flight start at once, and the next ones
    /// when all of them have ended.
    Waves,
    /// Open loop: the rate says when each request is scheduled, at even intervals, however the
    /// target does.
    Constant,
    /// Open loop, at random instants: as many independent users arrive (a Poisson process of the
    /// same rate).
    Poisson,
    /// Open loop, as recorded: each item has a time of its own.
    Replay,
}

impl Arrivals {
    /// Every one, as typed.
    pub const ALL: [Self; 5] = [
        Self::Asap,
        Self::Waves,
        Self::Constant,
        Self::Poisson,
        Self::Replay,
    ];

    /// As typed and reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Asap => "asap",
            Self::Waves => "waves",
            Self::Constant => "constant",
            Self::Poisson => "poisson",
            Self::Replay => "replay",
        }
    }

    /// Return the kind of the gaps between scheduled instants; none in a closed loop, which has no
    /// such instants.
    #[must_use]
    pub const fn gaps(self) -> Option<Gaps> {
        match self {
            Self::Asap | Self::Waves => None,
            Self::Constant => Some(Gaps::Even),
            Self::Poisson => Some(Gaps::Exponential),
            Self::Replay => Some(Gaps::Recorded),
        }
    }
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Arrivals {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |arrivals: &Self| arrivals.name() == text;
        Self::ALL
            .into_iter()
            .find(named)
            .ok_or_else(|| UnknownName::new(text, &Self::ALL.map(Self::name)))
    }
}

/// The gaps between scheduled instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// All the same.
    Even,
    /// Drawn from an exponential distribution.
    Exponential,
    /// Those between the times of the items.
    Recorded,
}

/// Time of each item of a recording, ns after the start, in the order of the IDs; ascending within
/// the IDs of each shard. Shared by the shards as it is: 8 bytes per item. Empty without a
/// recording.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Recorded(pub Arc<[u64]>);

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times", self.0.len())
    }
}

/// A shard's part of the run's timetable: of its instants, numbered from 0, those whose number
/// leaves `offset` when divided by `stride`. The shards so take turns, and together they keep the
/// timetable of one, however many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimetablePlan {
    /// The gaps.
    pub gaps: Gaps,
    /// The rate of the whole run; the highest one when it changes, the mean one of a recording.
    pub rate: Rate,
    /// Number of shards; at least 1.
    pub stride: u32,
    /// Number of this shard, from 0.
    pub offset: u32,
    /// The seed of the gaps.
    pub seed: u64,
}
