//! Stalls: recurring windows in which the target sends no response, as when a service collects
//! garbage, flushes a log or is moved to another machine. The server calls [`Stall::until_ns`].
//!
//! It must not read the time: a stall is a pure function of the clock's reading.

use crate::latency::MAX_HOLD;
use crate::setting::{SettingError, duration_text, parse_duration};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A window that recurs. Written `10s,1s`: the last second of every ten.
///
/// Counted from the clock's epoch, which is the making of the target's shared memory just before it
/// serves; all processes of a target stall together, and a reset of the ledger moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    every: Duration,
    length: Duration,
}

impl Stall {
    /// Stalls for `length` at the end of `every` period.
    ///
    /// # Errors
    ///
    /// `length` is nothing, not shorter than `every`, or longer than [`MAX_HOLD`]; `every` is
    /// longer than a day.
    pub fn new(every: Duration, length: Duration) -> Result<Self, SettingError> {
        let problem = if length.is_zero() || length >= every {
            "is out of range: write a length above 0 and below the period"
        } else if length > MAX_HOLD || every > MAX_EVERY {
            "is too long: write a length of 1h or less and a period of 24h or less"
        } else {
            return Ok(Self { every, length });
        };
        let (every, length) = (duration_text(every), duration_text(length));
        Err(SettingError::new(format!(
            "a stall of {length} every {every} {problem}"
        )))
    }

    /// Return the end of the stall at `now_ns`, ns of the same clock; none if there is none. In
    /// period k, counted from 0, the target stalls from `(k + 1) every - length`, included, to
    /// `(k + 1) every`, excluded.
    #[must_use]
    pub fn until_ns(&self, now_ns: u64) -> Option<u64> {
        // An hour at most, and a day at most: far below 2^64 ns. Neither is 0.
        let [every_ns, length_ns] =
            [self.every, self.length].map(|part| u64::try_from(part.as_nanos()).unwrap_or(1));
        let left_ns = every_ns - now_ns % every_ns;
        if left_ns <= length_ns {
            Some(now_ns.saturating_add(left_ns))
        } else {
            None
        }
    }
}

/// The longest period: a stall less often than once a day is none that a benchmark would meet.
const MAX_EVERY: Duration = Duration::from_hours(24);

impl FromStr for Stall {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let right = "write how often and how long, as in 10s,1s for the last second of every ten";
        let shape = || SettingError::new(format!("`{given}` is not a valid stall: {right}"));
        let (every, length) = given.split_once(',').ok_or_else(shape)?;
        let read = |part| parse_duration(part).ok_or_else(shape);
        Self::new(read(every)?, read(length)?)
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{},{}",
            duration_text(self.every),
            duration_text(self.length)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_part_of_every_period_is_stalled() {
        const S: u64 = 1_000_000_000;
        let stall: Stall = "10s,1s".parse().unwrap();
        for (now_ns, until_ns) in [
            (0, None),
            (9 * S - 1, None),
            (9 * S, Some(10 * S)),
            (9 * S + S / 2, Some(10 * S)),
            (10 * S - 1, Some(10 * S)),
            (10 * S, None),
            (19 * S, Some(20 * S)),
            (20 * S, None),
        ] {
            assert_eq!(stall.until_ns(now_ns), until_ns, "{now_ns}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (given, said) in [
            (
                "10s",
                "`10s` is not a valid stall: write how often and how long, as in 10s,1s",
            ),
            ("10s,1s,1s", "`10s,1s,1s` is not a valid stall"),
            ("often,1s", "`often,1s` is not a valid stall"),
            ("10s,-1s", "`10s,-1s` is not a valid stall"),
            (
                "10s,0",
                "a stall of 0s every 10s is out of range: write a length above 0",
            ),
            ("10s,10s", "a stall of 10s every 10s is out of range"),
            ("1s,10s", "a stall of 10s every 1s is out of range"),
            (
                "3h,2h",
                "a stall of 2h every 3h is too long: write a length of 1h or less",
            ),
            ("2days,1s", "a stall of 1s every 2days is too long"),
        ] {
            let error = given.parse::<Stall>().unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_stall_ends_outside_itself_and_within_its_length(
            now_ns in 0_u64..1 << 62, every_us in 2_u64..86_400_000_000, share in 0.0..1.0_f64,
        ) {
            let every = Duration::from_micros(every_us);
            let length = every.mul_f64(share).clamp(Duration::from_nanos(1), MAX_HOLD.min(every / 2));
            let stall = Stall::new(every, length).unwrap();
            prop_assert_eq!(stall.to_string().parse(), Ok(stall));
            if let Some(until_ns) = stall.until_ns(now_ns) {
                prop_assert!(until_ns > now_ns && u128::from(until_ns - now_ns) <= length.as_nanos());
                prop_assert_eq!(u128::from(until_ns) % every.as_nanos(), 0);
                prop_assert_eq!(stall.until_ns(until_ns), None);
                prop_assert_eq!(stall.until_ns(until_ns - 1), Some(until_ns));
            }
        }
    }
}
