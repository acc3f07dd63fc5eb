//! Delays that are added to an answer's own: for each other request in flight, and for the first
//! answer of a connection.

use super::MAX_HOLD;
use super::text::parse_hold;
use crate::setting::{SettingError, duration_text};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Define a duration of `0..=1h` that is typed as such; `$part` names it in messages.
macro_rules! added_delay {
    ($(#[$doc:meta])+ $name:ident, $part:literal) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(Duration);

        impl $name {
            /// Wrap a duration; more than [`MAX_HOLD`] becomes that.
            #[must_use]
            pub fn new(delay: Duration) -> Self {
                Self(delay.min(MAX_HOLD))
            }

            /// True if nothing is added.
            #[must_use]
            pub const fn is_none(self) -> bool {
                self.0.is_zero()
            }
        }

        impl FromStr for $name {
            type Err = SettingError;

            fn from_str(given: &str) -> Result<Self, SettingError> {
                parse_hold($part, given).map(Self)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&duration_text(self.0))
            }
        }
    };
}

added_delay! {
    /// Growth of a hold with every other request in flight, `0..=1h`. The default is none.
    ///
    /// Written as a duration, `50us`.
    PerInFlight, "growth per request in flight"
}

added_delay! {
    /// Time that the first answer of a connection is held longer, `0..=1h`. The default is none.
    ///
    /// Written as a duration, `100ms`: over a network that takes 25 ms there and back, TCP's
    /// handshake costs one round trip and that of TLS 1.3 another; TLS 1.2 costs two.
    Handshake, "handshake"
}

impl PerInFlight {
    /// Return what `others` requests in flight add to a hold, at most [`MAX_HOLD`].
    #[must_use]
    pub fn hold(self, others: u64) -> Duration {
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        self.0.saturating_mul(others).min(MAX_HOLD)
    }
}

impl Handshake {
    /// Return what is added to the hold of the first answer.
    #[must_use]
    pub const fn hold(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_reads_as_it_is_written_and_has_an_end() {
        let handshake: Handshake = "100ms".parse().unwrap();
        assert_eq!(
            (handshake.to_string().as_str(), handshake.hold()),
            ("100ms", Duration::from_millis(100))
        );
        assert!(Handshake::default().is_none() && !handshake.is_none());
        assert_eq!(Handshake::new(Duration::MAX).hold(), MAX_HOLD);
        assert!("1h1us".parse::<Handshake>().is_err() && "-1ms".parse::<Handshake>().is_err());
        let error = "slow".parse::<Handshake>().unwrap_err().to_string();
        assert!(
            error.contains("`slow` is not a duration for the handshake"),
            "{error}"
        );
    }

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
        assert!(
            error.contains("`fast` is not a duration for the growth per request in flight"),
            "{error}"
        );
    }
}
