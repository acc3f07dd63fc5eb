//! Strategies by which a shard waits for the moment at which a request may go.
//!
//! Pure data; the shard's alarm does the waiting.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::UnknownName;

/// Strategy by which a shard waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// Asleep, until a kernel timer wakes it: some tens of microseconds late. Requests that come due within 50 us of each
    /// other go together.
    #[default]
    Sleep,
    /// Asleep as well, and requests that come due within a millisecond of each other go together: half a millisecond late
    /// at the median at high rates, as clients are that wake up once in a millisecond, and for less CPU.
    Coarse,
    /// Awake for the last millisecond, looking at the clock again and again: a few microseconds late, and at a thousand
    /// requests a second or more it uses a whole core per shard.
    Spin,
}

impl Pacing {
    /// Every one, as typed.
    pub const ALL: [Self; 3] = [Self::Sleep, Self::Coarse, Self::Spin];

    /// As typed and reported.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sleep => "sleep",
            Self::Coarse => "coarse",
            Self::Spin => "spin",
        }
    }

    /// Return the time for which a request may wait for others that are due a moment later, so that the shard wakes once for all of them.
    ///
    /// Asleep, the alarm itself rings some tens of microseconds late, and both together are to stay around 60 µs at the median. A shard
    /// that is awake anyway saves nothing by waiting.
    #[must_use]
    pub const fn slack(self) -> Duration {
        match self {
            Self::Sleep => Duration::from_micros(50),
            Self::Coarse => Duration::from_millis(1),
            Self::Spin => Duration::ZERO,
        }
    }

    /// Return the time for which a shard is awake before the moment of a request.
    ///
    /// When spinning, this is longer than the lateness of a kernel timer in all but one of a thousand cases, also on a busy virtual
    /// machine.
    #[must_use]
    pub const fn awake(self) -> Duration {
        match self {
            Self::Sleep | Self::Coarse => Duration::ZERO,
            Self::Spin => Duration::from_millis(1),
        }
    }
}

impl fmt::Display for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Pacing {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let named = |pacing: &Self| pacing.name() == text;
        Self::ALL.into_iter().find(named).ok_or_else(|| UnknownName::new(text, &Self::ALL.map(Self::name)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_read_as_it_is_printed() {
        for pacing in Pacing::ALL {
            assert_eq!(pacing.to_string().parse(), Ok(pacing));
        }
        assert!("Spin".parse::<Pacing>().unwrap_err().to_string().contains("sleep"));
    }
}
