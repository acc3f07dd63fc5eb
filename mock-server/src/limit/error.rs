//! What can be wrong with a limit. `text` and the constructors refuse with it.
//!
//! It must not decide what is refused.

use crate::duration;
use std::num::{NonZeroU32, ParseIntError};
use std::time::Duration;

/// Why a limit was refused. It stands for itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// The period is zero or too long.
    #[error("a limit per {} is none: write a period above zero and up to a day", duration::text(*.period))]
    Period {
        /// The period given.
        period: Duration,
    },
    /// The window is too short or too long.
    #[error("a window of {} does not work: write one from {} to a day", duration::text(*.window), duration::text(*.least))]
    Window {
        /// The window given.
        window: Duration,
        /// The shortest.
        least: Duration,
    },
    /// More than a window can count.
    #[error("{permits} are more than a window can count: write {most} or fewer, or use gcra or bucket")]
    TooMany {
        /// The permits given.
        permits: u32,
        /// The most.
        most: u32,
    },
    /// More than one request per nanosecond.
    #[error("{permits} per {} is more than one per nanosecond: leave the limit out", duration::text(*.period))]
    TooFast {
        /// The permits given.
        permits: NonZeroU32,
        /// The period given.
        period: Duration,
    },
    /// The burst would take a lifetime to fill.
    #[error("a burst of {burst} at that rate would take 73 years to fill: write a smaller burst")]
    Burst {
        /// The burst given, or one less.
        burst: u32,
    },
    /// More pass at once than may be in excess.
    #[error("delay={undelayed} is more than the burst of {burst}: write a delay of at most the burst, or nodelay")]
    Delay {
        /// How many were to pass at once.
        undelayed: u32,
        /// The burst.
        burst: u32,
    },
    /// A count is not one.
    #[error(
        "`{given}` is not a number of requests: write a whole number from 1 to 4294967295; less than 1/s is N/min or N/h, as in 30/min"
    )]
    NotACount {
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: ParseIntError,
    },
    /// The period is not one.
    #[error("`{given}` is not a period: write s, min, h or a duration, as in 5/s, 5/min or 5/90s")]
    NotAPeriod {
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: humantime::DurationError,
    },
    /// A cap was given a period.
    #[error(
        "`{given}` has a period, but {algorithm} counts what is open at a time: write a number, as in {algorithm}:8"
    )]
    NotACap {
        /// What was given.
        given: String,
        /// The algorithm.
        algorithm: &'static str,
    },
    /// There is an algorithm and nothing behind it.
    #[error("{algorithm} is not said how much: write {algorithm}:8 or {algorithm}:100/min")]
    NoRate {
        /// The algorithm.
        algorithm: &'static str,
    },
    /// There is no such algorithm.
    #[error("`{given}` is no algorithm: write gcra, bucket, fixed, sliding, leaky, concurrency or connections")]
    Algorithm {
        /// What was given.
        given: String,
    },
    /// The algorithm does not know what follows the rate.
    #[error("`{given}` cannot stand behind {algorithm}: write {known}")]
    UnknownOption {
        /// What was given.
        given: String,
        /// The algorithm.
        algorithm: &'static str,
        /// What could be written.
        known: String,
    },
    /// An option is there twice.
    #[error("`{name}` is given twice: write it once")]
    Repeated {
        /// The option.
        name: String,
    },
    /// There is no such key.
    #[error(
        "`{given}` is no key: write everyone, address, /64 or another prefix, header=NAME or session, with +path or not"
    )]
    Key {
        /// What was given.
        given: String,
    },
    /// A prefix is not one.
    #[error("`{given}` is no prefix: write /0 to /128 for IPv6, or /24,/48 for IPv4 and IPv6")]
    Prefix {
        /// What was given.
        given: String,
    },
    /// A connection has no headers and no path.
    #[error("connections cannot be told apart by `{key}`: write key=everyone, key=address or a prefix such as key=/64")]
    ConnectionKey {
        /// The key given.
        key: String,
    },
    /// The choice is not one of those there are.
    #[error("`{given}` is no choice for {option}: write {choices}")]
    Choice {
        /// What was given.
        given: String,
        /// The option.
        option: &'static str,
        /// What could be written.
        choices: &'static str,
    },
    /// There is no such family of header fields.
    #[error(
        "`{given}` are no headers: write x-ratelimit, x-ratelimit-delta, ietf, draft-07 or draft-03, several with + between"
    )]
    Dialect {
        /// What was given.
        given: String,
    },
    /// Two families write the same header field.
    #[error("headers {one} and {other} write the same field: write one of them")]
    Clash {
        /// One.
        one: &'static str,
        /// The other.
        other: &'static str,
    },
    /// A name cannot be one.
    #[error("`{given}` is no name of a limit: write 1 to 32 of a-z, 0-9, `-`, `_` and `.`")]
    Name {
        /// What was given.
        given: String,
    },
    /// Two limits with one name.
    #[error("two limits are named `{name}`: give one of them another name")]
    SameName {
        /// The name.
        name: String,
    },
    /// More limits than the books have pages for.
    #[error("{count} limits are too many: write {most} or fewer")]
    TooManyLimits {
        /// How many there are.
        count: usize,
        /// The most.
        most: usize,
    },
}
