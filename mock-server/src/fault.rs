//! Faults: which answers go wrong. The server asks [`Faults::pick`] for every admitted item, and a client may ask the
//! same question to know what it should have seen.
//!
//! It must not act on what it picks, and a pick must stay a pure function of (seed, id, attempt): a second try at an item
//! may fare better, and is as predictable.

use crate::draw::{Draws, Stream};
use std::fmt;
use std::str::FromStr;

/// What goes wrong with one answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The answer has this status and a body that names no item.
    Status(u16),
    /// The connection is closed without an answer.
    Drop,
}

impl Fault {
    /// How many names there are.
    pub(crate) const KINDS: usize = 2;

    /// The names of the faults, by [`Fault::index`].
    pub(crate) const NAMES: [&'static str; Self::KINDS] = ["error_status", "drop"];

    /// The position of the fault's counter in the books.
    pub(crate) const fn index(self) -> usize {
        match self {
            Self::Status(_) => 0,
            Self::Drop => 1,
        }
    }

    /// The fault's key in the ledger.
    #[must_use]
    pub const fn name(self) -> &'static str {
        Self::NAMES[self.index()]
    }
}

/// A share of requests, `0.0..=1.0`.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Rate(f64);

impl Rate {
    /// Takes a share of 0 to 1.
    ///
    /// # Errors
    ///
    /// The share is outside `0.0..=1.0` or not a number.
    pub fn new(share: f64) -> Result<Self, FaultError> {
        if (0.0..=1.0).contains(&share) { Ok(Self(share)) } else { Err(FaultError::Rate { given: share.to_string() }) }
    }

    /// The share, `0.0..=1.0`.
    #[must_use]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl FromStr for Rate {
    type Err = FaultError;

    fn from_str(given: &str) -> Result<Self, FaultError> {
        let share = given.trim().parse().map_err(|_| FaultError::Rate { given: given.to_owned() })?;
        Self::new(share)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A server error, `500..=599`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorStatus(u16);

impl ErrorStatus {
    /// Takes a status of 500 to 599.
    ///
    /// # Errors
    ///
    /// The status is not a server error.
    pub fn new(status: u16) -> Result<Self, FaultError> {
        if (500..=599).contains(&status) {
            Ok(Self(status))
        } else {
            Err(FaultError::Status { given: status.to_string() })
        }
    }

    /// The status, `500..=599`.
    #[must_use]
    pub const fn get(self) -> u16 {
        self.0
    }
}

impl Default for ErrorStatus {
    /// 500 Internal Server Error.
    fn default() -> Self {
        Self(500)
    }
}

impl FromStr for ErrorStatus {
    type Err = FaultError;

    fn from_str(given: &str) -> Result<Self, FaultError> {
        let status = given.trim().parse().map_err(|_| FaultError::Status { given: given.to_owned() })?;
        Self::new(status)
    }
}

impl fmt::Display for ErrorStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How often which fault happens. The default is never.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Faults {
    error_rate: Rate,
    error_status: ErrorStatus,
    drop_rate: Rate,
}

impl Faults {
    /// No faults.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The same with `rate` of the items answered with `status`.
    ///
    /// # Errors
    ///
    /// All rates together exceed 1.
    pub fn with_errors(self, rate: Rate, status: ErrorStatus) -> Result<Self, FaultError> {
        Self { error_rate: rate, error_status: status, ..self }.checked()
    }

    /// The same with the connection closed without an answer for `rate` of the items.
    ///
    /// # Errors
    ///
    /// All rates together exceed 1.
    pub fn with_drops(self, rate: Rate) -> Result<Self, FaultError> {
        Self { drop_rate: rate, ..self }.checked()
    }

    fn checked(self) -> Result<Self, FaultError> {
        let sum = self.error_rate.0 + self.drop_rate.0;
        if sum > 1.0 { Err(FaultError::Sum { sum }) } else { Ok(self) }
    }

    /// The share of items answered with [`Faults::error_status`].
    #[must_use]
    pub const fn error_rate(&self) -> Rate {
        self.error_rate
    }

    /// The status of an erroneous answer.
    #[must_use]
    pub const fn error_status(&self) -> ErrorStatus {
        self.error_status
    }

    /// The share of items whose connection is closed without an answer.
    #[must_use]
    pub const fn drop_rate(&self) -> Rate {
        self.drop_rate
    }

    /// What goes wrong with item `id`, if anything, after `attempt` requests for it, `0..=15`, 15 for more.
    #[must_use]
    pub fn pick(&self, seed: u64, id: u64, attempt: u8) -> Option<Fault> {
        if *self == Self::default() {
            return None;
        }
        // One draw decides for all faults: they exclude each other, and each is exactly as frequent as asked.
        let unit = Draws::for_attempt(Stream::Fault, seed, id, attempt).unit();
        if unit < self.drop_rate.0 {
            Some(Fault::Drop)
        } else if unit < self.drop_rate.0 + self.error_rate.0 {
            Some(Fault::Status(self.error_status.0))
        } else {
            None
        }
    }
}

/// Why faults were refused. It stands for itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum FaultError {
    /// A rate is not a share.
    #[error("`{given}` is no share of requests: write a number from 0 to 1, as in 0.05 for 5 %")]
    Rate {
        /// What was given.
        given: String,
    },
    /// A status is not a server error.
    #[error("`{given}` is no status of a fault: write a server error from 500 to 599")]
    Status {
        /// What was given.
        given: String,
    },
    /// The rates together exceed 1.
    #[error("they add up to {sum}, more than all requests: their sum is 1 at most")]
    Sum {
        /// The sum of the rates.
        sum: f64,
    },
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rate(share: f64) -> Rate {
        Rate::new(share).unwrap()
    }

    #[test]
    fn rates_and_statuses_are_checked() {
        for given in ["-0.1", "1.1", "NaN", "inf", "5%", ""] {
            let error = given.parse::<Rate>().unwrap_err().to_string();
            assert!(error.contains("is no share of requests"), "{given}: {error}");
        }
        assert_eq!("0.25".parse(), Ok(rate(0.25)));
        for given in ["499", "600", "-1", "many"] {
            assert!(given.parse::<ErrorStatus>().is_err(), "{given}");
        }
        assert_eq!("503".parse(), Ok(ErrorStatus(503)));
        let too_many = Faults::none().with_drops(rate(0.6)).unwrap().with_errors(rate(0.5), ErrorStatus::default());
        assert!(matches!(too_many, Err(FaultError::Sum { .. })));
    }

    #[test]
    fn names_are_those_of_the_ledger() {
        assert_eq!(Fault::Status(503).name(), "error_status");
        assert_eq!(Fault::Drop.name(), "drop");
    }

    #[test]
    fn none_and_always_are_exact() {
        let never = Faults::none();
        let always = Faults::none().with_drops(rate(1.0)).unwrap();
        for id in 0..1000 {
            assert_eq!(never.pick(1, id, 0), None);
            assert_eq!(always.pick(1, id, 0), Some(Fault::Drop));
        }
    }

    proptest! {
        #[test]
        fn picks_are_pure_and_as_frequent_as_asked(seed: u64, attempt in 0_u8..16, drop in 0.0..0.5_f64, error in 0.0..0.5_f64) {
            let status = ErrorStatus::new(502).unwrap();
            let faults = Faults::none().with_drops(rate(drop)).unwrap().with_errors(rate(error), status).unwrap();
            let picks: Vec<_> = (0..2000).map(|id| faults.pick(seed, id, attempt)).collect();
            prop_assert_eq!(&picks, &(0..2000).map(|id| faults.pick(seed, id, attempt)).collect::<Vec<_>>());
            for (fault, share) in [(Fault::Drop, drop), (Fault::Status(502), error)] {
                let count = picks.iter().filter(|pick| **pick == Some(fault)).count() as f64;
                // Standard deviation at most 22: six of them either way.
                prop_assert!((count - 2000.0 * share).abs() < 135.0, "{:?}: {} of {}", fault, count, share);
            }
        }
    }
}
