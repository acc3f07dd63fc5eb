//! Growth with concurrency: what each other request in flight adds to a hold. The server counts and asks.
//!
//! It must not count, and it is no part of [`Latency`](super::Latency): how much is in flight is no property of an item.

use super::error::{LatencyError, Part};
use super::{MAX_HOLD, text};
use crate::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// What a hold grows by for every other request in flight, `0..=1h`. The default is nothing.
///
/// Written as a duration, `50us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PerInFlight(Duration);

impl PerInFlight {
    /// Takes what each other request in flight adds; more than [`MAX_HOLD`] becomes that.
    #[must_use]
    pub fn new(growth: Duration) -> Self {
        Self(growth.min(MAX_HOLD))
    }

    /// Whether nothing is added.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0.is_zero()
    }

    /// What `others` requests in flight add to a hold, at most [`MAX_HOLD`].
    #[must_use]
    pub fn hold(self, others: u64) -> Duration {
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        self.0.saturating_mul(others).min(MAX_HOLD)
    }
}

impl FromStr for PerInFlight {
    type Err = LatencyError;

    fn from_str(given: &str) -> Result<Self, LatencyError> {
        text::bounded(Part::Growth, given).map(Self)
    }
}

impl fmt::Display for PerInFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::text(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_in_proportion_and_never_beyond_an_hour() {
        let growth: PerInFlight = "50us".parse().unwrap();
        assert_eq!(growth.to_string(), "50us");
        assert_eq!(growth.hold(0), Duration::ZERO);
        assert_eq!(growth.hold(7), Duration::from_micros(350));
        assert_eq!(growth.hold(u64::MAX), MAX_HOLD);
        assert_eq!(PerInFlight::new(Duration::MAX).hold(2), MAX_HOLD);
        assert!(PerInFlight::default().is_none() && !growth.is_none());
        assert!("1h1us".parse::<PerInFlight>().is_err());
        let error = "fast".parse::<PerInFlight>().unwrap_err().to_string();
        assert!(error.contains("`fast` is not a duration for the growth per request in flight"), "{error}");
    }
}
