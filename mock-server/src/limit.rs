//! Limits: how many requests of one key the target lets through, by which algorithm, for whom, and what the others are
//! told. The limiter asks a limit's [`Algorithm`] about each request, with the key's word in shared memory.
//!
//! It must not read the time, and it must not keep state anywhere but in that one word: this is what makes several
//! processes admit exactly what one would.

mod algorithm;
mod concurrency;
mod connections;
mod error;
mod fixed_window;
mod gcra;
mod key;
mod leaky_bucket;
mod pace;
mod refusal;
mod sliding_window;
mod text;
mod token_bucket;

pub use algorithm::Algorithm;
pub use concurrency::Concurrency;
pub use connections::{Connections, Over};
pub use error::LimitError;
pub use fixed_window::FixedWindow;
pub use gcra::Gcra;
pub use key::{KeyBy, Paths, Prefix, Whom};
pub use leaky_bucket::{Delay, LeakyBucket};
pub use pace::{MAX_PERIOD, Pace};
pub use refusal::{Dialect, Dialects, RefusalBody, RefusalStatus, RetryAfter};
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

pub(crate) use algorithm::{LARGEST, Quota, Standing, Step, Unit};
pub(crate) use key::KeyHash;

use std::fmt;
use std::ops::Deref;

/// How many limits a target can have: the books have a page for each.
pub const MAX_LIMITS: usize = 16;

/// The longest name.
const MAX_NAME: usize = 32;

/// One limit: an algorithm, whose requests it counts together, and what those that it turns away are told.
///
/// On the command line: `[ALGORITHM:]RATE[:OPTION[=VALUE]]...`, with the algorithm `gcra` if none is named:
///
/// - `1000/s`, `500/min:burst=50`, `10/90s`: [`Gcra`], one request per interval, `burst` at once
/// - `bucket:100/min:burst=20`: [`TokenBucket`], a period's permits at once unless told otherwise
/// - `fixed:100/min`: [`FixedWindow`]
/// - `sliding:100/min`: [`SlidingWindow`]
/// - `leaky:10/s:burst=20:delay=5` or `:nodelay`: [`LeakyBucket`]
/// - `concurrency:8`: [`Concurrency`]
/// - `connections:16:over=reset`: [`Connections`]; or `over=close`, `over=503`
///
/// `key=` says whose requests are counted together: `address` (the default), `everyone`, `/64` (IPv6 prefix, IPv4
/// whole), `/24,/48` (IPv4 and IPv6), `header=NAME`, `session`, each with `+path` or not. `status=` is 429, 503 or 403;
/// `retry=` is `seconds`, `date` or `none`; `headers=` adds `x-ratelimit`, `x-ratelimit-delta`, `ietf`, `draft-07` or
/// `draft-03`, several with `+` between; `body=problem` is a problem in JSON; `name=` is for headers and books.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    algorithm: Algorithm,
    key: KeyBy,
    status: RefusalStatus,
    retry_after: RetryAfter,
    headers: Dialects,
    body: RefusalBody,
    name: Option<Name>,
}

impl Limit {
    /// A limit per address that answers 429 with `Retry-After` in seconds.
    #[must_use]
    pub const fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            key: KeyBy::ADDRESS,
            status: RefusalStatus::TooManyRequests,
            retry_after: RetryAfter::Seconds,
            headers: Dialects::NONE,
            body: RefusalBody::Plain,
            name: None,
        }
    }

    /// The same for other keys.
    ///
    /// # Errors
    ///
    /// It is a cap on connections, and the key is not known before a request.
    pub fn with_key(self, key: KeyBy) -> Result<Self, LimitError> {
        let is_of_connections = key.of_connection(std::net::Ipv4Addr::LOCALHOST.into()).is_some();
        if matches!(self.algorithm, Algorithm::Connections(_)) && !is_of_connections {
            return Err(LimitError::ConnectionKey { key: key.to_string() });
        }
        Ok(Self { key, ..self })
    }

    /// The same with another status of refusals.
    #[must_use]
    pub fn with_status(self, status: RefusalStatus) -> Self {
        Self { status, ..self }
    }

    /// The same with another way to say when to come back.
    #[must_use]
    pub fn with_retry_after(self, retry_after: RetryAfter) -> Self {
        Self { retry_after, ..self }
    }

    /// The same with other fields on its answers.
    #[must_use]
    pub fn with_headers(self, headers: Dialects) -> Self {
        Self { headers, ..self }
    }

    /// The same with another body of refusals.
    #[must_use]
    pub fn with_body(self, body: RefusalBody) -> Self {
        Self { body, ..self }
    }

    /// The same with a name.
    #[must_use]
    pub fn with_name(self, name: Name) -> Self {
        Self { name: Some(name), ..self }
    }

    /// How requests are counted.
    #[must_use]
    pub const fn algorithm(&self) -> &Algorithm {
        &self.algorithm
    }

    /// Whose are counted together.
    #[must_use]
    pub const fn key(&self) -> &KeyBy {
        &self.key
    }

    /// The status of a refusal.
    #[must_use]
    pub const fn status(&self) -> RefusalStatus {
        self.status
    }

    /// How a refusal says when to come back.
    #[must_use]
    pub const fn retry_after(&self) -> RetryAfter {
        self.retry_after
    }

    /// Which fields its answers carry.
    #[must_use]
    pub const fn headers(&self) -> Dialects {
        self.headers
    }

    /// What the body of a refusal is.
    #[must_use]
    pub const fn body(&self) -> RefusalBody {
        self.body
    }

    /// Its name in headers and books: the one given, or that of its algorithm.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_ref().map_or(self.algorithm.name(), Name::as_str)
    }

    /// Its name, if one was given.
    pub(crate) const fn given_name(&self) -> Option<&Name> {
        self.name.as_ref()
    }
}

/// The name of a limit: 1 to 32 of a-z, 0-9, `-`, `_` and `.`, so that it needs no escapes anywhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// The longest, in bytes.
    pub(crate) const LONGEST: usize = MAX_NAME;

    /// Checks a name.
    ///
    /// # Errors
    ///
    /// It is empty, too long or has other characters.
    pub fn new(given: &str) -> Result<Self, LimitError> {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
        if (1..=MAX_NAME).contains(&given.len()) && given.bytes().all(is_plain) {
            Ok(Self(given.to_owned()))
        } else {
            Err(LimitError::Name { given: given.to_owned() })
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The limits of a target: [`MAX_LIMITS`] at most, each with a name of its own. A request is let through if all let it
/// through that concern it, and takes from none if one does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    all: Vec<Limit>,
    /// How many of them, from the first, concern every request. The others concern what certain stubs answer.
    common: usize,
}

impl Limits {
    /// Checks the limits and names those that have no name: after their algorithm, with a number if there are several.
    ///
    /// # Errors
    ///
    /// There are too many, or two were given the same name.
    pub fn new(limits: Vec<Limit>) -> Result<Self, LimitError> {
        if limits.len() > MAX_LIMITS {
            return Err(LimitError::TooManyLimits { count: limits.len(), most: MAX_LIMITS });
        }
        let mut taken: Vec<String> = Vec::new();
        for name in limits.iter().filter_map(Limit::given_name) {
            if taken.contains(&name.0) {
                return Err(LimitError::SameName { name: name.0.clone() });
            }
            taken.push(name.0.clone());
        }
        let named = limits.into_iter().map(|limit| {
            if limit.name.is_some() {
                return limit;
            }
            let plain = limit.name().to_owned();
            let numbered = (2..).map(|number| format!("{plain}-{number}"));
            let name = std::iter::once(plain.clone()).chain(numbered).find(|name| !taken.contains(name));
            let name = name.unwrap_or(plain);
            taken.push(name.clone());
            // The only limit of its kind needs no name: it writes itself as it was read.
            if name == limit.name() { limit } else { limit.with_name(Name(name)) }
        });
        let all: Vec<Limit> = named.collect();
        Ok(Self { common: all.len(), all })
    }

    /// The same and `of_stubs` behind them, which concern only what certain stubs answer.
    pub(crate) fn and_of_stubs(&self, of_stubs: &[Limit]) -> Result<Self, LimitError> {
        let all = Self::new(self.all.iter().chain(of_stubs).cloned().collect())?;
        Ok(Self { common: self.common, ..all })
    }

    /// How many of them, from the first, concern every request.
    pub(crate) const fn common(&self) -> usize {
        self.common
    }
}

impl Deref for Limits {
    type Target = [Limit];

    fn deref(&self) -> &[Limit] {
        &self.all
    }
}

impl TryFrom<Vec<Limit>> for Limits {
    type Error = LimitError;

    fn try_from(limits: Vec<Limit>) -> Result<Self, LimitError> {
        Self::new(limits)
    }
}

/// The limits as they are typed, with a space between.
impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let texts: Vec<String> = self.iter().map(Limit::to_string).collect();
        f.write_str(&texts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(texts: &[&str]) -> Result<Limits, LimitError> {
        Limits::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn every_limit_has_a_name_of_its_own() {
        let named = limits(&["10/s", "20/s", "fixed:5/min", "30/s:name=gcra-2", "40/s"]).unwrap();
        assert_eq!(named.iter().map(Limit::name).collect::<Vec<_>>(), ["gcra", "gcra-3", "fixed", "gcra-2", "gcra-4"]);
        assert_eq!(named.to_string(), "10/s 20/s:name=gcra-3 fixed:5/min 30/s:name=gcra-2 40/s:name=gcra-4");
        assert_eq!(Limits::default().to_string(), "none");
    }

    #[test]
    fn limits_that_cannot_be_told_apart_or_are_too_many_are_refused() {
        let error = limits(&["10/s:name=a", "20/s:name=a"]).unwrap_err().to_string();
        assert!(error.contains("two limits are named `a`"), "{error}");
        assert!(limits(&["10/s"; MAX_LIMITS]).is_ok());
        let error = limits(&["10/s"; MAX_LIMITS + 1]).unwrap_err().to_string();
        assert!(error.contains("17 limits are too many: write 16 or fewer"), "{error}");
    }
}
