//! Signals of a limit to its clients: `Retry-After` and body of a refusal, and header fields with
//! the remaining quota.
//!
//! It must not write a header: the server does.

use crate::setting::SettingError;
use std::fmt;
use std::str::FromStr;

/// Form of `Retry-After` on a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAfter {
    /// In whole seconds, rounded up, so never 0.
    #[default]
    Seconds,
    /// As a date, rounded up, so that neither waiting for it nor waiting for as long as it is after
    /// the answer's own `Date` is too short.
    Date,
    /// Not at all.
    None,
}

/// Body of a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RefusalBody {
    /// A line of JSON that says so.
    #[default]
    Plain,
    /// A problem of type `quota-exceeded` (RFC 9457, draft-ietf-httpapi-ratelimit-headers), which
    /// names the limit.
    Problem,
}

/// A family of header fields that say how much is left, on every answer that the limit had a part
/// in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// `X-RateLimit-Limit`, `-Remaining` and `-Reset`, the reset in seconds of UTC since 1970, as
    /// of GitHub.
    XRateLimit,
    /// As [`Dialect::XRateLimit`], with the reset in seconds from now.
    XRateLimitDelta,
    /// `RateLimit-Policy: "name";q=100;w=60` and `RateLimit: "name";r=50;t=30`
    /// (draft-ietf-httpapi-ratelimit-headers-08 and later).
    Ietf,
    /// `RateLimit: limit=100, remaining=50, reset=30`, as of draft 07.
    Draft07,
    /// `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset`, as of draft 03.
    Draft03,
}

impl Dialect {
    /// All of them, in the order in which they are written.
    pub(crate) const ALL: [Self; 5] = [
        Self::XRateLimit,
        Self::XRateLimitDelta,
        Self::Ietf,
        Self::Draft07,
        Self::Draft03,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::XRateLimit => "x-ratelimit",
            Self::XRateLimitDelta => "x-ratelimit-delta",
            Self::Ietf => "ietf",
            Self::Draft07 => "draft-07",
            Self::Draft03 => "draft-03",
        }
    }

    const fn bit(self) -> u8 {
        1 << self as u8
    }
}

/// A set of dialects whose fields do not clash.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialects(u8);

impl Dialects {
    /// None of them.
    pub const NONE: Self = Self(0);

    /// Add a dialect.
    ///
    /// # Errors
    ///
    /// One is in it that writes the same field.
    pub fn with(self, dialect: Dialect) -> Result<Self, SettingError> {
        let clashing = match dialect {
            Dialect::XRateLimit => Some(Dialect::XRateLimitDelta),
            Dialect::XRateLimitDelta => Some(Dialect::XRateLimit),
            Dialect::Ietf => Some(Dialect::Draft07),
            Dialect::Draft07 => Some(Dialect::Ietf),
            Dialect::Draft03 => None,
        };
        match clashing.filter(|other| self.has(*other)) {
            Some(other) => {
                let (one, other) = (other.name(), dialect.name());
                let what =
                    format!("headers {one} and {other} write the same field: write one of them");
                Err(SettingError::new(what))
            }
            None => Ok(Self(self.0 | dialect.bit())),
        }
    }

    /// True if the dialect is in the set.
    #[must_use]
    pub const fn has(self, dialect: Dialect) -> bool {
        self.0 & dialect.bit() != 0
    }

    /// True if there is none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Display for Dialects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Dialect::ALL
            .into_iter()
            .filter(|dialect| self.has(*dialect))
            .map(Dialect::name);
        f.write_str(&names.collect::<Vec<_>>().join("+"))
    }
}

impl FromStr for Dialects {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        given.split('+').try_fold(Self::NONE, |dialects, name| {
            let known = Dialect::ALL.into_iter().find(|dialect| dialect.name() == name);
            let right = "write x-ratelimit, x-ratelimit-delta, ietf, draft-07 or draft-03, several with + between";
            dialects.with(
                known.ok_or_else(|| SettingError::new(format!("`{name}` is not a set of quota headers: {right}")))?,
            )
        })
    }
}
