//! Strategies by which a shard waits for the moment at which a request may go.
//!
//! Pure data; the shard's alarm does the waiting.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::UnknownName;

/// Longest slack: the tick of other clients.
const COARSE: Duration = Duration::from_millis(1);

/// Strategy by which a shard waits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pacing {
    /// Asleep, until a kernel timer wakes it: some tens of microseconds late. Requests that come
    /// due within a slack of each other go together. The slack is a twentieth of the median service
    /// time, and 50 us to 1 ms.
    #[default]
    Sleep,
    /// Asleep as well, and requests that come due within a millisecond of each other go together:
    /// half a millisecond late at the median at high rates, as clients are that wake up once in a
    /// millisecond, and for less CPU.
    Coarse,
    /// Awake for the last millisecond, looking at the clock again and again: a few microseconds
    /// late, and at a thousand requests a second or more it uses a whole core per shard.
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

    /// Return the time for which a request may wait for others that are due a moment later, so that
    /// the shard wakes once for all of them, given the median service time of the last responses.
    ///
    /// Asleep, the alarm itself rings some tens of microseconds late. A slack of less would save
    /// nothing, and one of a twentieth of what is measured adds a fortieth to it on average. A
    /// shard that is awake anyway saves nothing by waiting.
    #[must_use]
    pub fn slack(self, service_median: Duration) -> Duration {
        match self {
            Self::Sleep => (service_median / 20).clamp(Duration::from_micros(50), COARSE),
            Self::Coarse => COARSE,
            Self::Spin => Duration::ZERO,
        }
    }

    /// Return the time for which a shard is awake before the moment of a request.
    ///
    /// When spinning, this is longer than the lateness of a kernel timer in all but one of a
    /// thousand cases, also on a busy virtual machine.
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
        Self::ALL
            .into_iter()
            .find(named)
            .ok_or_else(|| UnknownName::new(text, &Self::ALL.map(Self::name)))
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
        assert!(
            "Spin"
                .parse::<Pacing>()
                .unwrap_err()
                .to_string()
                .contains("sleep")
        );
    }
}
