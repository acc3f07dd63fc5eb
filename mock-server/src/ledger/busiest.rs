//! The busiest windows: how closely requests followed one another, which tells a client that
//! spreads its budget evenly from one that spends it in bursts.
//!
//! It must not know what a limit is.

use crate::shared::{ArrivalCounts, Traffic};
use serde::{Deserialize, Serialize};

/// The busiest windows of three widths, exact at a resolution of a millisecond: a window is so many
/// consecutive milliseconds of the target's clock, and begins at any of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busiest {
    /// Windows of 10 ms.
    #[serde(rename = "10ms")]
    pub ten_ms: Peaks,
    /// Windows of 100 ms.
    #[serde(rename = "100ms")]
    pub hundred_ms: Peaks,
    /// Windows of 1000 ms.
    #[serde(rename = "1s")]
    pub second: Peaks,
}

/// The most that any window of one width saw. The two may be of different windows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peaks {
    /// The greatest number of requests that arrived within one, whether they were let through or
    /// not.
    pub requests: u64,
    /// The greatest number of requests that the limiter let through within one; those that it
    /// delayed count when they go on.
    pub admitted: u64,
}

impl Busiest {
    pub(super) fn read(window: &ArrivalCounts) -> Self {
        let [ten_ms, hundred_ms, second] = window.busiest([10, 100, 1000]).map(Peaks::from);
        Self {
            ten_ms,
            hundred_ms,
            second,
        }
    }
}

impl From<Traffic> for Peaks {
    fn from(Traffic { requests, admitted }: Traffic) -> Self {
        Self { requests, admitted }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_named_as_they_are_said() {
        let peaks = |requests, admitted| Peaks { requests, admitted };
        let busiest = Busiest {
            ten_ms: peaks(2, 1),
            hundred_ms: peaks(4, 3),
            second: peaks(6, 5),
        };
        let json = serde_json::json!({
            "10ms": { "requests": 2, "admitted": 1 },
            "100ms": { "requests": 4, "admitted": 3 },
            "1s": { "requests": 6, "admitted": 5 },
        });
        assert_eq!(serde_json::to_value(busiest).unwrap(), json);
        assert_eq!(serde_json::from_value::<Busiest>(json).unwrap(), busiest);
    }
}
