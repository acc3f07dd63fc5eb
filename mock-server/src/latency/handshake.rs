//! Handshakes: what opening a connection would cost over a network, which loopback does in no time. The server asks once
//! for each connection.
//!
//! It must not count connections, and it is no part of [`Latency`](super::Latency): which request is a connection's first
//! is no property of an item.

use super::error::{LatencyError, Part};
use super::{MAX_HOLD, text};
use crate::duration;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// For how much longer the first answer of a connection is held, `0..=1h`. The default is not at all.
///
/// Written as a duration, `100ms`: over a network that takes 25 ms there and back, TCP's handshake costs one round trip
/// and that of TLS 1.3 another; TLS 1.2 costs two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Handshake(Duration);

impl Handshake {
    /// Takes how long it lasts; more than [`MAX_HOLD`] becomes that.
    #[must_use]
    pub fn new(length: Duration) -> Self {
        Self(length.min(MAX_HOLD))
    }

    /// Whether it takes no time.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0.is_zero()
    }

    /// What it adds to the hold of the first answer.
    #[must_use]
    pub const fn hold(self) -> Duration {
        self.0
    }
}

impl FromStr for Handshake {
    type Err = LatencyError;

    fn from_str(given: &str) -> Result<Self, LatencyError> {
        text::bounded(Part::Handshake, given).map(Self)
    }
}

impl fmt::Display for Handshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration::text(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_it_is_written_and_has_an_end() {
        let handshake: Handshake = "100ms".parse().unwrap();
        assert_eq!((handshake.to_string().as_str(), handshake.hold()), ("100ms", Duration::from_millis(100)));
        assert!(Handshake::default().is_none() && !handshake.is_none());
        assert_eq!(Handshake::new(Duration::MAX).hold(), MAX_HOLD);
        assert!("1h1us".parse::<Handshake>().is_err() && "-1ms".parse::<Handshake>().is_err());
        let error = "slow".parse::<Handshake>().unwrap_err().to_string();
        assert!(error.contains("`slow` is not a duration for the handshake"), "{error}");
    }
}
