//! Objectives of single requests: `response < 200ms`. Pure; parsed by the command line, checked when a
//! request has ended.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::duration_ns;
use crate::units::{names, parse_duration};

names! {
    /// Time of a request that an objective bounds.
    pub enum RequestTime {
        /// Scheduled to last byte read; in open loops only.
        Response = "response",
        /// First byte sent to last byte read.
        Service = "service",
        /// First byte sent to first byte read.
        Ttfb = "ttfb",
    }
}

/// Bound of a time. A request meets the objectives of its run if it had a good or not-found answer
/// within all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestObjective {
    /// The time.
    pub time: RequestTime,
    /// It has to be less, ns; at least 1.
    pub below_ns: u64,
}

/// Reason why a text is no objective.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is not an objective of a request: write response, service or ttfb, then < and a time with its unit, as in 'response < 200ms'"
)]
pub struct RequestObjectiveError(String);

impl fmt::Display for RequestObjective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let below = humantime::format_duration(Duration::from_nanos(self.below_ns));
        write!(f, "{} < {below}", self.time)
    }
}

impl FromStr for RequestObjective {
    type Err = RequestObjectiveError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let read = || {
            let (time, below) = text.split_once('<')?;
            let below = below.trim();
            let has_unit = !below.ends_with(|last: char| last.is_ascii_digit());
            let below = has_unit.then(|| parse_duration(below).ok())??;
            Some(Self {
                time: time.trim().parse().ok()?,
                below_ns: Some(duration_ns(below)).filter(|ns| *ns > 0)?,
            })
        };
        read().ok_or_else(|| RequestObjectiveError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_objective_is_a_time_and_a_limit_with_a_unit() {
        for text in ["response < 200ms", "service < 1h 500ms", "ttfb < 50us"] {
            let read: RequestObjective = text.parse().unwrap();
            assert_eq!(read.to_string().replace('µ', "u"), text);
        }
        assert_eq!(
            "service<2ms".parse::<RequestObjective>().unwrap().below_ns,
            2_000_000
        );
        for text in [
            "",
            "response",
            "response < 200",
            "response < 0ms",
            "response > 2ms",
            "p99 < 2ms",
            "response < -2ms",
            "response <= 2ms",
        ] {
            assert!(text.parse::<RequestObjective>().is_err(), "{text}");
        }
    }
}
