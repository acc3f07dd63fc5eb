//! CPU cost of an item, simulated by arithmetic that the compiler cannot skip.
//!
//! It is counted in rounds rather than time: a round costs the same in every process and under any
//! load, so 5 % more rounds are 5 % more work.

use crate::setting::SettingError;
use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

/// The most rounds: about a tenth of a second, in which a process answers no client.
const MOST: u32 = 100_000_000;

/// Rounds of arithmetic for every item that is answered, `0..=100m`; a round takes about a
/// nanosecond. The default is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work(u32);

impl Work {
    /// Wrap a number of rounds; more than 100 million become that.
    #[must_use]
    pub fn new(rounds: u32) -> Self {
        Self(rounds.min(MOST))
    }

    /// Does it, each round on what the last one left.
    pub(crate) fn burn(self, seed: u64) {
        let mut state = seed | 1;
        for _ in 0..self.0 {
            // Marsaglia's xorshift, of which no compiler knows the end beforehand.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}

impl FromStr for Work {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let rounds = given
            .replace('_', "")
            .parse::<u32>()
            .ok()
            .filter(|rounds| *rounds <= MOST);
        rounds.map(Self).ok_or_else(|| {
            let right = "write 0 to 100,000,000, as in 50000 (about 50 µs of CPU)";
            SettingError::new(format!(
                "`{given}` is not a valid number of rounds: {right}"
            ))
        })
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_read_and_written() {
        for (given, rounds) in [
            ("0", 0),
            ("50000", 50_000),
            ("1_000", 1_000),
            ("100000000", MOST),
        ] {
            assert_eq!(given.parse(), Ok(Work::new(rounds)));
        }
        assert_eq!(Work::new(50_000).to_string(), "50000");
        for given in ["", "-1", "1.5", "100000001", "50us", "99999999999"] {
            assert!(
                given
                    .parse::<Work>()
                    .unwrap_err()
                    .to_string()
                    .contains("is not a valid number of rounds"),
                "{given}"
            );
        }
        assert_eq!(Work::new(u32::MAX), Work::new(MOST));
    }
}
