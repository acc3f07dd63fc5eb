//! Limits on the requests of one key: the algorithm that admits or refuses them, and the form of a
//! refusal. The limiter asks a limit's [`Algorithm`] about each request, with the key's word in
//! shared memory.
//!
//! The status 429 is in `Limit::new`, and others for `status=` in `limit/text.rs`;
//! `server/quota.rs` writes the response.
//!
//! It must not read the time, and it must not keep state anywhere but in that one word: this is
//! what makes several processes admit exactly what one would.
//!
//! | room | for |
//! |---|---|
//! | `key` | keys: everyone, address, prefix, header, session |
//! | `algorithm` | one type for all algorithms, and their decisions |
//! | `bucket`, `fixed_window`, `sliding_window` | algorithms with a rate: GCRA and buckets, windows |
//! | `refusal` | `Retry-After`, body and quota fields |
//! | `text` | limits as text: parsed and formatted |

mod algorithm;
mod bucket;
mod fixed_window;
mod key;
mod refusal;
mod sliding_window;
mod text;

pub use algorithm::{Algorithm, Over};
pub use bucket::{Bucket, BucketPace, Delay, MAX_PERIOD};
pub use fixed_window::FixedWindow;
pub use key::{Clients, KeyBy, Paths, Prefix};
pub use refusal::{Dialect, Dialects, RefusalBody, RetryAfter};
pub use sliding_window::SlidingWindow;

pub(crate) use algorithm::{LimitDecision, Quota, Standing};
pub(crate) use key::KeyHash;

use crate::setting::{SettingError, duration_text};
use hyper::StatusCode;
use std::fmt;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::time::Duration;

/// Most limits of a target: the ledger has counters for each.
pub const MAX_LIMITS: usize = 16;

/// Longest name, in bytes.
pub(crate) const MAX_NAME: usize = 32;

/// One limit: an algorithm, whose requests it counts together, and what those that it turns away
/// are told.
///
/// On the command line: `[ALGORITHM:]RATE[:OPTION[=VALUE]]...`, with the algorithm `gcra` if none
/// is named:
///
/// - `1000/s`, `500/min:burst=50`, `10/90s`: [`Bucket`], one request per interval, `burst` at once
/// - `bucket:100/min:burst=20`: [`Bucket`], a period's permits at once unless told otherwise
/// - `fixed:100/min`: [`FixedWindow`]
/// - `sliding:100/min`: [`SlidingWindow`]
/// - `leaky:10/s:burst=20:delay=5` or `:nodelay`: [`Bucket`]
/// - `concurrency:8`: [`Algorithm::Concurrency`]
/// - `connections:16:over=reset`: [`Algorithm::Connections`]; or `over=close`, `over=503`
///
/// `key=` says whose requests are counted together: `address` (the default), `everyone`, `/64`
/// (IPv6 prefix, IPv4 whole), `/24,/48` (IPv4 and IPv6), `header=NAME`, `session`, each with
/// `+path` or not. `status=` is 429, 503 or 403; `retry=` is `seconds`, `date` or `none`;
/// `headers=` adds `x-ratelimit`, `x-ratelimit-delta`, `ietf`, `draft-07` or `draft-03`, several
/// with `+` between; `body=problem` is a problem in JSON; `name=` is for headers and the ledger.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub(crate) algorithm: Algorithm,
    /// Requests that are counted together.
    pub(crate) key: KeyBy,
    /// Status of a refusal: 429, 503 as of nginx, or 403 as of GitHub together with
    /// `x-ratelimit-remaining: 0`.
    pub(crate) status: StatusCode,
    pub(crate) retry_after: RetryAfter,
    /// Fields on its answers.
    pub(crate) headers: Dialects,
    /// Body of a refusal.
    pub(crate) body: RefusalBody,
    /// Name, if one was given: 1 to 32 of a-z, 0-9, `-`, `_` and `.`, so that it needs no escapes
    /// anywhere.
    name: Option<String>,
}

impl Limit {
    /// Limit each address, and answer 429 with `Retry-After` in seconds.
    #[must_use]
    pub const fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            key: KeyBy::ADDRESS,
            status: StatusCode::TOO_MANY_REQUESTS,
            retry_after: RetryAfter::Seconds,
            headers: Dialects::NONE,
            body: RefusalBody::Plain,
            name: None,
        }
    }

    /// Count requests with the same key together.
    ///
    /// # Errors
    ///
    /// It is a cap on connections, and the key is not known before a request.
    pub fn with_key(self, key: KeyBy) -> Result<Self, SettingError> {
        let is_of_connections = key
            .of_connection(std::net::Ipv4Addr::LOCALHOST.into())
            .is_some();
        if matches!(self.algorithm, Algorithm::Connections(..)) && !is_of_connections {
            let right = "write key=everyone, key=address or a prefix such as key=/64";
            return Err(SettingError::new(format!(
                "connections cannot be told apart by `{key}`: {right}"
            )));
        }
        Ok(Self { key, ..self })
    }

    /// Return its name in headers and ledger: the one given, or that of its algorithm.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name.as_deref().unwrap_or(self.algorithm.name())
    }
}

/// Check the numbers of a limit per window; returns the window in nanoseconds.
fn window_of(
    (permits, most): (NonZeroU32, u32),
    (window, shortest): (Duration, Duration),
) -> Result<u64, SettingError> {
    if window < shortest || window > MAX_PERIOD {
        let (window, shortest) = (duration_text(window), duration_text(shortest));
        let what =
            format!("a window of {window} does not work: write one from {shortest} to a day");
        return Err(SettingError::new(what));
    }
    if permits.get() > most {
        let right = format!("write {most} or fewer, or use gcra or bucket");
        return Err(SettingError::new(format!(
            "{permits} are more than a window can count: {right}"
        )));
    }
    Ok(bucket::nanos(window))
}

/// The limits of a target: [`MAX_LIMITS`] at most, each with a name of its own. A request is let
/// through if all let it through that concern it, and takes from none if one does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    all: Vec<Limit>,
    /// Number of of them, from the first, concern every request. The others concern what certain
    /// stubs answer.
    common: usize,
}

impl Limits {
    /// Checks the limits and names those that have no name: after their algorithm, with a number if
    /// there are several.
    ///
    /// # Errors
    ///
    /// There are too many, or two were given the same name.
    pub fn new(limits: Vec<Limit>) -> Result<Self, SettingError> {
        if limits.len() > MAX_LIMITS {
            let what = format!(
                "{} limits are too many: write {MAX_LIMITS} or fewer",
                limits.len()
            );
            return Err(SettingError::new(what));
        }
        let mut taken: Vec<String> = Vec::new();
        for name in limits.iter().filter_map(|limit| limit.name.as_ref()) {
            if taken.contains(name) {
                let what = format!("two limits are named `{name}`: give one of them another name");
                return Err(SettingError::new(what));
            }
            taken.push(name.clone());
        }
        let named = limits.into_iter().map(|limit| {
            if limit.name.is_some() {
                return limit;
            }
            let plain = limit.name().to_owned();
            let numbered = (2..).map(|number| format!("{plain}-{number}"));
            let name = std::iter::once(plain.clone())
                .chain(numbered)
                .find(|name| !taken.contains(name));
            let name = name.unwrap_or(plain);
            taken.push(name.clone());
            // The only limit of its kind needs no name: it writes itself as it was read.
            if name == limit.name() {
                limit
            } else {
                Limit {
                    name: Some(name),
                    ..limit
                }
            }
        });
        let all: Vec<Limit> = named.collect();
        Ok(Self {
            common: all.len(),
            all,
        })
    }

    /// Append `of_stubs`, which concern only what certain stubs answer.
    pub(crate) fn and_of_stubs(&self, of_stubs: &[Limit]) -> Result<Self, SettingError> {
        let all = Self::new(self.all.iter().chain(of_stubs).cloned().collect())?;
        Ok(Self {
            common: self.common,
            ..all
        })
    }

    /// Number of of them, from the first, concern every request.
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
    type Error = SettingError;

    fn try_from(limits: Vec<Limit>) -> Result<Self, SettingError> {
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

    fn limits(texts: &[&str]) -> Result<Limits, SettingError> {
        Limits::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    #[test]
    fn every_limit_has_a_name_of_its_own() {
        let named = limits(&["10/s", "20/s", "fixed:5/min", "30/s:name=gcra-2", "40/s"]).unwrap();
        assert_eq!(
            named.iter().map(Limit::name).collect::<Vec<_>>(),
            ["gcra", "gcra-3", "fixed", "gcra-2", "gcra-4"]
        );
        assert_eq!(
            named.to_string(),
            "10/s 20/s:name=gcra-3 fixed:5/min 30/s:name=gcra-2 40/s:name=gcra-4"
        );
        assert_eq!(Limits::default().to_string(), "none");
    }

    #[test]
    fn limits_that_cannot_be_told_apart_or_are_too_many_are_refused() {
        let error = limits(&["10/s:name=a", "20/s:name=a"])
            .unwrap_err()
            .to_string();
        assert!(error.contains("two limits are named `a`"), "{error}");
        assert!(limits(&["10/s"; MAX_LIMITS]).is_ok());
        let error = limits(&["10/s"; MAX_LIMITS + 1]).unwrap_err().to_string();
        assert!(
            error.contains("17 limits are too many: write 16 or fewer"),
            "{error}"
        );
    }
}
