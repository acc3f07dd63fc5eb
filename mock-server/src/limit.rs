//! Limits on the requests of one key: the algorithm that admits or refuses them, and the form of a
//! refusal. `server/limiter.rs` asks a limit's `Algorithm` about each request, with the key's word
//! in shared memory; `server/quota.rs` writes the response.
//!
//! It must not read the time, and it must not keep state anywhere but in that one word: this is
//! what makes several processes admit exactly what one would.
//!
//! | room | for |
//! |---|---|
//! | `key` | keys: everyone, address, prefix, header, session |
//! | `algorithm` | GCRA and buckets, windows, caps, and their decisions |

mod algorithm;
mod key;

pub(crate) use algorithm::{Algorithm, LimitDecision, Remaining};
pub(crate) use key::{KeyBy, KeyHash};

use crate::text::{SettingError, duration, list, meaning};
use algorithm::{Bucket, Window};
use hyper::StatusCode;
use serde::de::Error as _;
use serde::de::value::{Error as ValueError, MapDeserializer};
use serde::{Deserialize, Deserializer};
use std::fmt;
use std::net::Ipv4Addr;
use std::num::NonZeroU32;
use std::ops::Deref;
use std::str::FromStr;
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
/// - `1000/s`, `500/min:burst=50`, `10/90s`: one request per interval, `burst` at once
/// - `bucket:100/min:burst=20`: a period's permits at once unless told otherwise
/// - `fixed:100/min`: a count per window
/// - `sliding:100/min`: the same with a share of the last window
/// - `leaky:10/s:burst=20:delay=5` or `:nodelay`: a queue that delays before it turns away
/// - `concurrency:8`: requests at the same time
/// - `connections:16:over=reset`: connections at the same time; or `over=close`, `over=503`
///
/// `key=` says whose requests are counted together: `address` (the default), `everyone`, `/64`
/// (IPv6 prefix, IPv4 whole), `/24,/48` (IPv4 and IPv6), `header=NAME`, `session`, each with
/// `+path` or not. `status=` is 429, 503 or 403; `retry=` is `seconds`, `date` or `none`;
/// `headers=` adds `x-ratelimit`, `x-ratelimit-delta`, `ietf`, `draft-07` or `draft-03`, several
/// with `+` between; `body=problem` is a problem in JSON; `name=` is for headers and the ledger;
/// `path=/search` counts only requests whose path begins so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub(crate) algorithm: Algorithm,
    /// Requests that are counted together.
    pub(crate) key: KeyBy,
    pub(crate) over: Over,
    /// Status of a refusal: 429, 503 as of nginx, or 403 as of GitHub together with
    /// `x-ratelimit-remaining: 0`.
    pub(crate) status: StatusCode,
    pub(crate) retry_after: RetryAfter,
    /// Fields on its answers.
    pub(crate) headers: Vec<Dialect>,
    /// Body of a refusal.
    pub(crate) body: RefusalBody,
    /// The name that was given, or else that of its algorithm: a-z, 0-9, `-`, `_` and `.`, so that
    /// it needs no escapes anywhere.
    name: String,
    is_named: bool,
    text: String,
}

/// Fate of a connection above the cap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Over {
    /// Close as soon as it is accepted. The client sees its end, or a reset if the request was
    /// there already.
    #[default]
    Close,
    /// Reset as soon as it is accepted.
    Reset,
    /// Its first request is answered with 503, and it is closed.
    #[serde(rename = "503")]
    Unavailable,
}

/// Form of `Retry-After` on a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RetryAfter {
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RefusalBody {
    /// A line of JSON that says so.
    #[default]
    Plain,
    /// A problem of type `quota-exceeded` (RFC 9457, draft-ietf-httpapi-ratelimit-headers), which
    /// names the limit.
    Problem,
}

/// A family of header fields that say how much is left, on every answer that the limit had a part
/// in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
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

/// An algorithm, how its rate is written, and the options that are its own.
struct Form {
    name: &'static str,
    rate: &'static str,
    options: &'static str,
}

/// Options of all limits on requests.
const OF_REQUESTS: &str = "key path name status retry headers body";

const FORMS: [Form; 7] = [
    Form {
        name: "gcra",
        rate: "N/s, N/min, N/h or N/90s, at most one per nanosecond, as in 1000/s:burst=50",
        options: "burst",
    },
    Form {
        name: "bucket",
        rate: "bucket:N/PERIOD, as in bucket:100/min:burst=20",
        options: "burst",
    },
    Form {
        name: "fixed",
        rate: "fixed:N/PERIOD with a period of 1ms to 24h and N up to 1048575, as in fixed:100/min",
        options: "",
    },
    Form {
        name: "sliding",
        rate: "sliding:N/PERIOD with a period of 1ms to 24h and N up to 1048575, as in sliding:100/min",
        options: "",
    },
    Form {
        name: "leaky",
        rate: "leaky:N/PERIOD with a delay of at most the burst, as in leaky:10/s:burst=20:delay=5",
        options: "burst delay nodelay",
    },
    Form {
        name: "concurrency",
        rate: "concurrency:N, as in concurrency:8",
        options: "",
    },
    Form {
        name: "connections",
        rate: "connections:N, as in connections:16",
        options: "key name over",
    },
];

/// Options that stand behind the rate of a limit. `nodelay` is read as `delay=none`.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Options {
    #[serde(deserialize_with = "parsed")]
    burst: Option<u32>,
    #[serde(deserialize_with = "parsed")]
    delay: Option<String>,
    #[serde(deserialize_with = "parsed")]
    key: Option<KeyBy>,
    #[serde(deserialize_with = "parsed")]
    path: Option<String>,
    #[serde(deserialize_with = "parsed")]
    name: Option<Name>,
    over: Over,
    #[serde(deserialize_with = "parsed")]
    status: Option<Status>,
    retry: RetryAfter,
    #[serde(deserialize_with = "parsed")]
    headers: Option<Dialects>,
    body: RefusalBody,
}

/// Reads what is written as one text.
fn parsed<'de, T: FromStr<Err: fmt::Display>, D: Deserializer<'de>>(
    text: D,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(text)?;
    text.parse().map(Some).map_err(D::Error::custom)
}

impl FromStr for Limit {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let text = given.trim();
        let mut parts = text.split(':').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let (name, rate) = if first.starts_with(|first: char| first.is_ascii_alphabetic()) {
            (first, parts.next().unwrap_or_default())
        } else {
            ("gcra", first)
        };
        let Some(form) = FORMS.iter().find(|form| form.name == name) else {
            let right = FORMS.map(|form| form.name).join(", ");
            return Err(SettingError::new(name, "algorithm of a limit", right));
        };
        let common = if name == "connections" {
            ""
        } else {
            OF_REQUESTS
        };
        let known = [common, form.options].join(" ");
        let mut pairs = Vec::new();
        for part in parts {
            let (option, value) = part.split_once('=').unwrap_or((part, ""));
            if option.is_empty() || !known.split(' ').any(|known| known == option) {
                let right = format!("one of {}", known.trim().replace(' ', ", "));
                return Err(SettingError::new(part, "option of this limit", right));
            }
            pairs.push(match part {
                "nodelay" => ("delay", "none"),
                _ => (option, value),
            });
        }
        let options = Options::deserialize(MapDeserializer::new(pairs.into_iter()))
            .map_err(|error: ValueError| SettingError::because(text, "limit", &error))?;
        let algorithm = algorithm(name, rate, &options)
            .ok_or_else(|| SettingError::new(text, "limit", form.rate))?;
        let mut key = options.key.unwrap_or(KeyBy::ADDRESS);
        key.below = options.path;
        let limit = Self {
            key,
            over: options.over,
            status: options
                .status
                .map_or(StatusCode::TOO_MANY_REQUESTS, |status| status.0),
            retry_after: options.retry,
            headers: options.headers.map_or_else(Vec::new, |dialects| dialects.0),
            body: options.body,
            is_named: options.name.is_some(),
            name: options.name.map_or_else(|| name.to_owned(), |name| name.0),
            algorithm,
            text: text.to_owned(),
        };
        // The key of a connection is known before its first request.
        let address = Ipv4Addr::LOCALHOST.into();
        if limit.is_of_connections() && limit.key.of_connection(address).is_none() {
            let right =
                "everyone, address or a prefix such as /64: more is not known of a connection";
            return Err(SettingError::new(text, "limit on connections", right));
        }
        Ok(limit)
    }
}

fn algorithm(name: &str, rate: &str, options: &Options) -> Option<Algorithm> {
    match name {
        "concurrency" => return rate.parse().ok().map(Algorithm::Concurrency),
        "connections" => return rate.parse().ok().map(Algorithm::Connections),
        _ => {}
    }
    let (permits, period) = rate.split_once('/').unwrap_or((rate, "s"));
    let permits = permits.trim().parse::<NonZeroU32>().ok()?.get();
    let period = meaning(&PERIODS, period.trim()).or_else(|| duration(period))?;
    let period_ns = u64::try_from(period.as_nanos()).ok()?;
    if period_ns == 0 || period > MAX_PERIOD {
        return None;
    }
    let (excess, undelayed) = match name {
        "fixed" | "sliding" => {
            let window = Window::new(permits, period_ns, name == "sliding");
            return window.map(Algorithm::Window);
        }
        "leaky" => {
            let undelayed = match options.delay.as_deref() {
                None => Some(0),
                Some("none") => None,
                Some(number) => Some(number.parse().ok()?),
            };
            (options.burst.unwrap_or(0), undelayed)
        }
        "bucket" => (options.burst.unwrap_or(permits).checked_sub(1)?, None),
        _ => (options.burst.unwrap_or(1).checked_sub(1)?, None),
    };
    Bucket::new(permits, period_ns, excess, undelayed).map(Algorithm::Bucket)
}

const PERIODS: [(&str, Duration); 3] = [
    ("s", Duration::from_secs(1)),
    ("min", Duration::from_mins(1)),
    ("h", Duration::from_hours(1)),
];

/// Longest period: a limit per more than a day cannot be seen at work in a benchmark.
const MAX_PERIOD: Duration = Duration::from_hours(24);

/// Status of a refusal.
struct Status(StatusCode);

impl FromStr for Status {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        match given {
            "429" => Ok(Self(StatusCode::TOO_MANY_REQUESTS)),
            "503" => Ok(Self(StatusCode::SERVICE_UNAVAILABLE)),
            "403" => Ok(Self(StatusCode::FORBIDDEN)),
            _ => Err(SettingError::new(given, "status", "429, 503 or 403")),
        }
    }
}

/// Name of a limit: it needs no escapes anywhere.
struct Name(String);

impl FromStr for Name {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let mut bytes = given.bytes();
        let is_plain =
            bytes.all(|byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.'));
        if is_plain && (1..=MAX_NAME).contains(&given.len()) {
            return Ok(Self(given.to_owned()));
        }
        let right = "1 to 32 of a-z, 0-9, `-`, `_` and `.`";
        Err(SettingError::new(given, "name", right))
    }
}

/// Families of header fields, of which no two write the same field.
struct Dialects(Vec<Dialect>);

const CLASHES: [[Dialect; 2]; 2] = [
    [Dialect::XRateLimit, Dialect::XRateLimitDelta],
    [Dialect::Ietf, Dialect::Draft07],
];

impl FromStr for Dialects {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let all: Option<Vec<Dialect>> = given
            .split('+')
            .map(|name| meaning(&DIALECTS, name))
            .collect();
        all.filter(|all| {
            let mut clashes = CLASHES.iter();
            !clashes.any(|pair| pair.iter().all(|dialect| all.contains(dialect)))
        })
        .map(Self)
        .ok_or_else(|| {
            let right = list(&DIALECTS) + ", joined by +, of which no two write the same field";
            SettingError::new(given, "headers", right)
        })
    }
}

/// In the order in which they are written to an answer.
pub(crate) const DIALECTS: [(&str, Dialect); 5] = [
    ("x-ratelimit", Dialect::XRateLimit),
    ("x-ratelimit-delta", Dialect::XRateLimitDelta),
    ("ietf", Dialect::Ietf),
    ("draft-07", Dialect::Draft07),
    ("draft-03", Dialect::Draft03),
];

impl Limit {
    /// Return its name in headers and ledger: the one given, or that of its algorithm.
    pub fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_of_connections(&self) -> bool {
        matches!(self.algorithm, Algorithm::Connections(_))
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The limits of a target: [`MAX_LIMITS`] at most, each with a name of its own. A request is let
/// through if all let it through that concern it, and takes from none if one does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits(Vec<Limit>);

impl Limits {
    /// Checks the limits and numbers those that have no name and whose algorithm is not the only
    /// one of its kind.
    ///
    /// # Errors
    ///
    /// There are too many, or two were given the same name.
    pub fn new(mut limits: Vec<Limit>) -> Result<Self, SettingError> {
        if limits.len() > MAX_LIMITS {
            let right = format!("{MAX_LIMITS} or fewer");
            return Err(SettingError::new(&limits.len(), "number of limits", right));
        }
        let mut taken: Vec<String> = Vec::new();
        for limit in limits.iter().filter(|limit| limit.is_named) {
            if taken.contains(&limit.name) {
                let right = "another one";
                return Err(SettingError::new(
                    &limit.name,
                    "name of a second limit",
                    right,
                ));
            }
            taken.push(limit.name.clone());
        }
        for limit in limits.iter_mut().filter(|limit| !limit.is_named) {
            let plain = limit.name.clone();
            let mut number = 1;
            while taken.contains(&limit.name) {
                number += 1;
                limit.name = format!("{plain}-{number}");
            }
            taken.push(limit.name.clone());
        }
        Ok(Self(limits))
    }
}

impl Deref for Limits {
    type Target = [Limit];

    fn deref(&self) -> &[Limit] {
        &self.0
    }
}

impl TryFrom<Vec<Limit>> for Limits {
    type Error = SettingError;

    fn try_from(limits: Vec<Limit>) -> Result<Self, SettingError> {
        Self::new(limits)
    }
}

impl fmt::Display for Limits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("none");
        }
        let texts: Vec<&str> = self.iter().map(|limit| &*limit.text).collect();
        f.write_str(&texts.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limits(texts: &[&str]) -> Result<Limits, SettingError> {
        Limits::new(texts.iter().map(|text| text.parse().unwrap()).collect())
    }

    fn algorithm(text: &str) -> Algorithm {
        text.parse::<Limit>().unwrap().algorithm
    }

    #[test]
    fn every_form_is_read() {
        const MIN_NS: u64 = 60_000_000_000;
        let bucket = |permits, per_ns, excess, undelayed| {
            Algorithm::Bucket(Bucket::new(permits, per_ns, excess, undelayed).unwrap())
        };
        let eight = NonZeroU32::new(8).unwrap();
        for (given, expected) in [
            ("1000/s", bucket(1000, MIN_NS / 60, 0, None)),
            ("1000", bucket(1000, MIN_NS / 60, 0, None)),
            ("10/h:burst=5", bucket(10, 60 * MIN_NS, 4, None)),
            (
                " gcra: 7/90s : burst=2 ",
                bucket(7, MIN_NS * 3 / 2, 1, None),
            ),
            ("bucket:100/min", bucket(100, MIN_NS, 99, None)),
            ("bucket:100/min:burst=5", bucket(100, MIN_NS, 4, None)),
            ("leaky:100/min", bucket(100, MIN_NS, 0, Some(0))),
            (
                "leaky:100/min:delay=5:burst=20",
                bucket(100, MIN_NS, 20, Some(5)),
            ),
            (
                "leaky:100/min:burst=20:nodelay",
                bucket(100, MIN_NS, 20, None),
            ),
            ("concurrency:8", Algorithm::Concurrency(eight)),
            ("connections:8", Algorithm::Connections(eight)),
        ] {
            assert_eq!(algorithm(given), expected, "{given}");
        }
        let full: Limit =
            "fixed:100/min:key=/64:status=503:headers=x-ratelimit+ietf:retry=date:body=problem:name=a".parse().unwrap();
        assert_eq!(Ok(full.key), "/64".parse());
        assert_eq!(
            (full.status.as_u16(), full.retry_after),
            (503, RetryAfter::Date)
        );
        assert_eq!(full.headers, [Dialect::XRateLimit, Dialect::Ietf]);
        assert_eq!((full.body, &*full.name), (RefusalBody::Problem, "a"));
        let over = |text: &str| text.parse::<Limit>().unwrap().over;
        assert_eq!(over("connections:8:over=503"), Over::Unavailable);
    }

    #[test]
    fn what_is_no_limit_is_refused() {
        for given in [
            "",
            "0/s",
            "10/m",
            "2000000000/s",
            "10/s:burst=0",
            "10/s:bust=3",
            "10/s:nodelay",
            "1/24h:burst=4000000000",
            "fast:10/s",
            "fixed:10/100us",
            "sliding:10/900us",
            "sliding:1048576/h",
            "leaky:10/s:burst=2:delay=3",
            "leaky:10/s:burst=2:delay=2:nodelay",
            "connections:8:path=/a",
            "connections:8:key=session",
            "connections:8:status=503",
            "10/s:over=close",
            "10/s:key=mac",
            "10/s:key=/64:key=/48",
            "10/s:status=418",
            "10/s:headers=github",
            "10/s:headers=ietf+draft-07",
            "10/s:name=Über",
        ] {
            assert!(given.parse::<Limit>().is_err(), "{given}");
        }
    }

    #[test]
    fn every_limit_has_a_name_of_its_own_and_writes_itself_as_it_was_read() {
        let texts = ["10/s", "20/s", "fixed:5/min", "30/s:name=gcra-2", "40/s"];
        let named = limits(&texts).unwrap();
        assert_eq!(
            named.iter().map(Limit::name).collect::<Vec<_>>(),
            ["gcra", "gcra-3", "fixed", "gcra-2", "gcra-4"]
        );
        assert_eq!(named.to_string(), texts.join(" "));
        assert_eq!(Limits::default().to_string(), "none");
    }

    #[test]
    fn limits_that_cannot_be_told_apart_or_are_too_many_are_refused() {
        assert!(limits(&["10/s:name=a", "20/s:name=a"]).is_err());
        assert!(limits(&["10/s"; MAX_LIMITS]).is_ok());
        assert!(limits(&["10/s"; MAX_LIMITS + 1]).is_err());
    }

    proptest! {
        #[test]
        fn nothing_that_is_typed_makes_it_panic(text in "[a-z0-9:/=+, .-]{0,40}") {
            drop(text.parse::<Limit>());
        }
    }
}
