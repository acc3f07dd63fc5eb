//! `ThrottlingPolicy`: reaction of a run to throttling, and its retries.
//!
//! Part of the plan; the shard's gate acts on it. It must not decide anything itself.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{PlanError, micros};
use crate::units::{UnitError, parse_duration};

/// The most retries of an item: five attempts in all. After five refusals, a sixth one says nothing
/// new.
pub const MAX_RETRIES: u32 = 4;

/// Retries that a run may spend before its first attempts have earned any, over all shards: the
/// floor of Finagle's and tower's retry budgets (10 a second, kept for 10 seconds).
pub const RETRY_RESERVE: u64 = 100;

/// Reaction of a run to throttling, and its retries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThrottlingPolicy {
    /// Reaction to a throttled attempt.
    pub on_throttle: OnThrottle,
    /// The longest that a target can make the run wait.
    #[serde(rename = "max_pause_us", with = "micros")]
    pub max_pause: Duration,
    /// Retries of an item at most, up to [`MAX_RETRIES`].
    pub retries: u32,
    /// Retries in all, as parts per hundred of first attempts; a small [reserve](RETRY_RESERVE)
    /// comes on top.
    pub retry_budget_percent: u32,
    /// Backoff before a retry when the target does not ask for a wait.
    pub backoff: Backoff,
    /// Adapts requests in flight and their pace to the target; none: they are fixed.
    pub adaptive: Option<AdaptiveKind>,
}

/// Reaction to a throttled attempt.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnThrottle {
    /// All shards wait as told, then the item is tried again; what is left of a quota is spread
    /// over the time it must last.
    #[default]
    Honor,
    /// Count the attempt and abandon its item. No shard waits.
    Count,
    /// Its item is tried again after a back-off, whatever the target asked for. No other request
    /// waits.
    Ignore,
}

/// Algorithm that adapts the requests in flight to the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AdaptiveKind {
    /// One more after a good window, three in ten fewer after throttling.
    Aimd,
    /// By how much slower answers have become (Netflix' Gradient2).
    Gradient,
}

/// Waits before retries: before the n-th, counted from 0, evenly drawn from 0 to
/// `min(cap, base * 2^n)` ("full jitter").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backoff {
    /// The first one at most.
    #[serde(rename = "base_us", with = "micros")]
    pub base: Duration,
    /// Any of them at most.
    #[serde(rename = "cap_us", with = "micros")]
    pub cap: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_millis(100),
            cap: Duration::from_secs(20),
        }
    }
}

impl Default for ThrottlingPolicy {
    fn default() -> Self {
        Self {
            on_throttle: OnThrottle::Honor,
            // Long enough for the quotas of an hour that APIs have, short enough to be noticed.
            max_pause: Duration::from_hours(1),
            retries: MAX_RETRIES,
            retry_budget_percent: 20,
            backoff: Backoff::default(),
            adaptive: None,
        }
    }
}

impl ThrottlingPolicy {
    /// Checks the ranges.
    ///
    /// # Errors
    /// Names the first flag that makes no sense.
    pub(super) fn validate(&self) -> Result<(), PlanError> {
        if self.retries > MAX_RETRIES {
            return Err(PlanError::Retries(self.retries));
        }
        if self.retry_budget_percent > 100 {
            return Err(PlanError::RetryBudget(self.retry_budget_percent));
        }
        if self.max_pause < SHORTEST || self.max_pause > LONGEST {
            return Err(PlanError::MaxPause(self.max_pause));
        }
        Ok(())
    }
}

/// Shorter pauses than this are none: they would only cost messages.
const SHORTEST: Duration = Duration::from_millis(1);

/// Longer waits than this are no waits.
const LONGEST: Duration = Duration::from_hours(24 * 365);

impl OnThrottle {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Honor, Self::Count, Self::Ignore];

    /// The name used on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Honor => "honor",
            Self::Count => "count",
            Self::Ignore => "ignore",
        }
    }
}

impl AdaptiveKind {
    /// The name used on the command line and in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aimd => "aimd",
            Self::Gradient => "gradient",
        }
    }
}

/// Reason why a text names nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not one of {known}")]
pub struct UnknownName {
    given: String,
    known: String,
}

impl UnknownName {
    pub(super) fn new(given: &str, known: &[&str]) -> Self {
        Self {
            given: given.to_owned(),
            known: known.join(", "),
        }
    }
}

impl FromStr for OnThrottle {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let found = Self::ALL.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| UnknownName::new(text, &Self::ALL.map(Self::name)))
    }
}

impl FromStr for AdaptiveKind {
    type Err = UnknownName;

    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let all = [Self::Aimd, Self::Gradient];
        let found = all.into_iter().find(|one| one.name() == text);
        found.ok_or_else(|| UnknownName::new(text, &all.map(Self::name)))
    }
}

/// Reason why a text is not a backoff.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BackoffError {
    /// Not one or two durations.
    #[error("{0}; write BASE or BASE,CAP, for example 100ms,20s")]
    Duration(#[from] UnitError),
    /// The cap is below the base.
    #[error(
        "`{text}` has a cap below its base: write BASE,CAP with the shorter time first, for example {right}"
    )]
    Order {
        /// As typed.
        text: String,
        /// Both times in the right order.
        right: Backoff,
    },
    /// More than a year.
    #[error("`{0}` is too long: a backoff is at most a year")]
    TooLong(String),
}

impl FromStr for Backoff {
    type Err = BackoffError;

    /// `BASE` or `BASE,CAP`.
    fn from_str(text: &str) -> Result<Self, BackoffError> {
        let (base, cap) = match text.split_once(',') {
            Some((base, cap)) => (base, Some(parse_duration(cap.trim())?)),
            None => (text, None),
        };
        let base = parse_duration(base.trim())?;
        // A base above the default cap is the cap as well.
        let read = Self {
            base,
            cap: cap.unwrap_or(Self::default().cap.max(base)),
        };
        match read {
            Self { base, cap } if base > LONGEST || cap > LONGEST => {
                Err(BackoffError::TooLong(text.to_owned()))
            }
            Self { base, cap } if base > cap => Err(BackoffError::Order {
                text: text.to_owned(),
                right: Self {
                    base: cap,
                    cap: base,
                },
            }),
            read => Ok(read),
        }
    }
}

impl fmt::Display for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{},{}",
            humantime::format_duration(self.base),
            humantime::format_duration(self.cap)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for one in OnThrottle::ALL {
            assert_eq!(one.name().parse(), Ok(one));
        }
        for one in [AdaptiveKind::Aimd, AdaptiveKind::Gradient] {
            assert_eq!(one.name().parse(), Ok(one));
        }
        let error = "polite".parse::<OnThrottle>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "`polite` is not one of honor, count, ignore"
        );
    }

    #[test]
    fn a_back_off_is_a_base_and_a_cap() {
        let ms = Duration::from_millis;
        assert_eq!(
            "50ms".parse(),
            Ok(Backoff {
                base: ms(50),
                cap: ms(20_000)
            })
        );
        assert_eq!(
            "50ms, 2s".parse(),
            Ok(Backoff {
                base: ms(50),
                cap: ms(2_000)
            })
        );
        assert_eq!(
            "30s".parse(),
            Ok(Backoff {
                base: ms(30_000),
                cap: ms(30_000)
            })
        );
        let default = Backoff::default();
        assert_eq!(default.to_string().parse(), Ok(default));
        let refusal = "20s,1s".parse::<Backoff>().unwrap_err().to_string();
        assert!(refusal.ends_with("for example 1s,20s"), "{refusal}");
        for text in ["", ",", "soon", "1s,", "1s,2s,3s", "99999h", "99999h,1s"] {
            assert!(text.parse::<Backoff>().is_err(), "{text}");
        }
    }
}
