//! Choices of a plan: arrivals of an open or closed loop, strategies of waiting, and the reaction to
//! throttling, with the durations of JSON.
//!
//! Pure data; `pacer` makes instants of arrivals, the shard's alarm waits, its gate acts on
//! throttling.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::units::{Rate, UnitError, names, parse_duration};

names! {
    /// Arrival process of the requests.
    #[derive(Default)]
    pub enum Arrivals {
        /// Closed loop: the next item starts as soon as a connection is free and the budget allows. A
        /// target that is slow slows its client down, so the waiting that it would cause others is not
        /// seen.
        #[default]
        Asap = "asap",
        /// Closed loop in waves: as many items as may be in flight start at once, and the next ones
        /// when all of them have ended.
        Waves = "waves",
        /// Open loop: the rate says when each request is scheduled, at even intervals, however the
        /// target does.
        Constant = "constant",
        /// Open loop, at random instants: as many independent users arrive (a Poisson process of the
        /// same rate).
        Poisson = "poisson",
        /// Open loop, as recorded: each item has a time of its own.
        Replay = "replay",
    }
}

impl Arrivals {
    /// Return the kind of the gaps between scheduled instants; none in a closed loop, which has no
    /// such instants.
    pub const fn gaps(self) -> Option<Gaps> {
        match self {
            Self::Asap | Self::Waves => None,
            Self::Constant => Some(Gaps::Even),
            Self::Poisson => Some(Gaps::Exponential),
            Self::Replay => Some(Gaps::Recorded),
        }
    }
}

/// The gaps between scheduled instants.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Gaps {
    /// All the same.
    Even,
    /// Drawn from an exponential distribution.
    Exponential,
    /// Those between the times of the items.
    Recorded,
}

/// Time of each item of a recording, ns after the start, in the order of the IDs; ascending within
/// the IDs of each shard. Shared by the shards as it is: 8 bytes per item. Empty without a
/// recording.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Recorded(pub Arc<[u64]>);

impl fmt::Debug for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} times", self.0.len())
    }
}

/// A shard's part of the run's timetable: of its instants, numbered from 0, those whose number
/// leaves `offset` when divided by `stride`. The shards so take turns, and together they keep the
/// timetable of one, however many they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimetablePlan {
    /// The gaps.
    pub gaps: Gaps,
    /// The rate of the whole run; the highest one when it changes, the mean one of a recording.
    pub rate: Rate,
    /// Number of shards; at least 1.
    pub stride: u32,
    /// Number of this shard, from 0.
    pub offset: u32,
    /// The seed of the gaps.
    pub seed: u64,
}

/// Linger of shards in a closed loop.
pub const LINGER: Duration = Duration::from_micros(50);

/// Requests in flight from which on a shard lingers: of fewer, no two end in a twentieth of their mean
/// time, which is its longest linger.
pub const LEAST_LINGERING: u32 = 40;

/// The longest linger that can be asked for: the tick of other clients.
pub const MOST_LINGER: Duration = Duration::from_millis(1);

/// Longest slack: the tick of other clients.
const COARSE: Duration = Duration::from_millis(1);

names! {
    /// Strategy by which a shard waits.
    #[derive(Default)]
    pub enum Pacing {
        /// Asleep, until a kernel timer wakes it: some tens of microseconds late. Requests that come
        /// due within a slack of each other go together. The slack is a twentieth of the median service
        /// time, and 50 us to 1 ms.
        #[default]
        Sleep = "sleep",
        /// Asleep as well, and requests that come due within a millisecond of each other go together:
        /// half a millisecond late at the median at high rates, as clients are that wake up once in a
        /// millisecond, and for less CPU.
        Coarse = "coarse",
        /// Awake for the last millisecond, looking at the clock again and again: a few microseconds
        /// late, and at a thousand requests a second or more it uses a whole core per shard.
        Spin = "spin",
    }
}

impl Pacing {
    /// Return the time for which a request may wait for others that are due a moment later, so that
    /// the shard wakes once for all of them, given the median service time of the last responses.
    ///
    /// Asleep, the alarm itself rings some tens of microseconds late. A slack of less would save
    /// nothing, and one of a twentieth of what is measured adds a fortieth to it on average. A
    /// shard that is awake anyway saves nothing by waiting.
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
    pub const fn awake(self) -> Duration {
        match self {
            Self::Sleep | Self::Coarse => Duration::ZERO,
            Self::Spin => Duration::from_millis(1),
        }
    }
}

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
    /// True if an open loop sends retries in addition to its schedule, of which they take turns
    /// otherwise.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retries_on_top: bool,
    /// Backoff before a retry when the target does not ask for a wait.
    pub backoff: Backoff,
    /// Adapts requests in flight and their pace to the target; none: they are fixed.
    pub adaptive: Option<AdaptiveKind>,
}

impl ThrottlingPolicy {
    /// Return the time after which a saved crawl without a time limit ends if it is only throttled: as
    /// long as a target may ask, a day's number of times. None if it does not wait for the target.
    pub fn longest_wait(&self) -> Option<Duration> {
        (self.on_throttle == OnThrottle::Honor).then(|| self.max_pause.saturating_mul(24))
    }
}

names! {
    /// Reaction to a throttled attempt.
    #[derive(Default)]
    pub enum OnThrottle {
        /// All shards wait as told, then the item is tried again; what is left of a quota is spread
        /// over the time it must last.
        #[default]
        Honor = "honor",
        /// Count the attempt and abandon its item. No shard waits.
        Count = "count",
        /// Its item is tried again after a back-off, whatever the target asked for. No other request
        /// waits.
        Ignore = "ignore",
    }
}

names! {
    /// Algorithm that adapts the requests in flight to the target.
    pub enum AdaptiveKind {
        /// One more after a good window, three in ten fewer after throttling.
        Aimd = "aimd",
        /// By how much slower answers have become (Netflix' Gradient2).
        Gradient = "gradient",
    }
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
            retries_on_top: false,
            backoff: Backoff::default(),
            adaptive: None,
        }
    }
}

/// Shorter pauses than this are none: they would only cost messages.
pub(super) const SHORTEST_PAUSE: Duration = Duration::from_millis(1);

/// Longer waits than this are no waits.
pub(super) const LONGEST_PAUSE: Duration = Duration::from_hours(24 * 365);

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
            Self { base, cap } if base > LONGEST_PAUSE || cap > LONGEST_PAUSE => {
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

/// Durations as whole microseconds.
pub(crate) mod micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(
        value: &Duration,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(u64::try_from(value.as_micros()).unwrap_or(u64::MAX))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Duration, D::Error> {
        u64::deserialize(deserializer).map(Duration::from_micros)
    }
}

/// Durations that may be absent, as whole microseconds.
pub(super) mod optional_micros {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's `with` fixes this signature")]
    pub(crate) fn serialize<S: Serializer>(
        value: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        value
            .map(|duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
            .serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_micros))
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
        let error = "polite".parse::<OnThrottle>().unwrap_err().to_string();
        assert_eq!(error, "`polite` is not one of honor, count, ignore");
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
