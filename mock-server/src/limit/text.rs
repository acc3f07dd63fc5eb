//! Limits as they are typed, and back.
//!
//! It must not decide what a limit means, only how it is written.

use super::algorithm::Algorithm;
use super::concurrency::Concurrency;
use super::connections::{Connections, Over};
use super::error::LimitError;
use super::fixed_window::FixedWindow;
use super::gcra::Gcra;
use super::key::KeyBy;
use super::leaky_bucket::{Delay, LeakyBucket};
use super::pace::Pace;
use super::refusal::{Dialects, RefusalBody, RefusalStatus, RetryAfter};
use super::sliding_window::SlidingWindow;
use super::token_bucket::TokenBucket;
use super::{Limit, Name};
use crate::duration;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

/// An algorithm before its numbers are known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Gcra,
    Bucket,
    Fixed,
    Sliding,
    Leaky,
    Concurrency,
    Connections,
}

impl Kind {
    const ALL: [Self; 7] =
        [Self::Gcra, Self::Bucket, Self::Fixed, Self::Sliding, Self::Leaky, Self::Concurrency, Self::Connections];

    const fn name(self) -> &'static str {
        match self {
            Self::Gcra => "gcra",
            Self::Bucket => "bucket",
            Self::Fixed => "fixed",
            Self::Sliding => "sliding",
            Self::Leaky => "leaky",
            Self::Concurrency => "concurrency",
            Self::Connections => "connections",
        }
    }

    /// The options that it knows.
    const fn options(self) -> &'static [&'static str] {
        match self {
            Self::Gcra | Self::Bucket => &["burst", "key", "status", "retry", "headers", "body", "name"],
            Self::Fixed | Self::Sliding | Self::Concurrency => &["key", "status", "retry", "headers", "body", "name"],
            Self::Leaky => &["burst", "delay", "nodelay", "key", "status", "retry", "headers", "body", "name"],
            Self::Connections => &["key", "over", "name"],
        }
    }

    fn known(self) -> String {
        let shape = |option: &&str| match *option {
            "nodelay" => "nodelay".to_owned(),
            "burst" | "delay" => format!("{option}=N"),
            other => format!("{other}=.."),
        };
        self.options().iter().map(shape).collect::<Vec<_>>().join(", ")
    }
}

/// The options behind a rate, each at most once.
struct Options<'a> {
    kind: Kind,
    given: Vec<(&'a str, &'a str)>,
}

impl<'a> Options<'a> {
    fn read(kind: Kind, parts: impl Iterator<Item = &'a str>) -> Result<Self, LimitError> {
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let part = part.trim();
            let (name, value) = match part.split_once('=') {
                None if part == "nodelay" => (part, ""),
                Some((name, value)) if name != "nodelay" => (name, value),
                _ => return Err(unknown(part, kind)),
            };
            if !kind.options().contains(&name) {
                return Err(unknown(part, kind));
            }
            if given.iter().any(|(other, _)| *other == name) {
                return Err(LimitError::Repeated { name: name.to_owned() });
            }
            given.push((name, value));
        }
        Ok(Self { kind, given })
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.given.iter().find(|(given, _)| *given == name).map(|(_, value)| *value)
    }

    /// One of several words, or the default.
    fn choice<T: Copy + Default>(&self, option: &Choice<'_, T>) -> Result<T, LimitError> {
        let Some(given) = self.get(option.name) else { return Ok(T::default()) };
        let known = option.known.iter().find(|(word, _)| *word == given);
        known.map(|(_, value)| *value).ok_or_else(|| LimitError::Choice {
            given: given.to_owned(),
            option: option.name,
            choices: option.choices,
        })
    }
}

struct Choice<'a, T> {
    name: &'static str,
    choices: &'static str,
    known: &'a [(&'static str, T)],
}

const STATUSES: [(&str, RefusalStatus); 3] =
    [("429", RefusalStatus::TooManyRequests), ("503", RefusalStatus::Unavailable), ("403", RefusalStatus::Forbidden)];
const RETRIES: [(&str, RetryAfter); 3] =
    [("seconds", RetryAfter::Seconds), ("date", RetryAfter::Date), ("none", RetryAfter::None)];
const BODIES: [(&str, RefusalBody); 2] = [("plain", RefusalBody::Plain), ("problem", RefusalBody::Problem)];
const OVERS: [(&str, Over); 3] = [("close", Over::Close), ("reset", Over::Reset), ("503", Over::Unavailable)];

fn unknown(given: &str, kind: Kind) -> LimitError {
    LimitError::UnknownOption { given: given.to_owned(), algorithm: kind.name(), known: kind.known() }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(given: &str) -> Result<Self, LimitError> {
        let mut parts = given.split(':').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let (kind, rate) = if first.starts_with(|first: char| first.is_ascii_alphabetic()) {
            let kind = Kind::ALL.into_iter().find(|kind| kind.name() == first);
            let kind = kind.ok_or_else(|| LimitError::Algorithm { given: first.to_owned() })?;
            (kind, parts.next().ok_or(LimitError::NoRate { algorithm: kind.name() })?)
        } else {
            (Kind::Gcra, first)
        };
        let options = Options::read(kind, parts)?;
        let mut limit = Self::new(algorithm(rate, &options)?);
        if let Some(key) = options.get("key") {
            limit = limit.with_key(key.parse()?)?;
        }
        if let Some(headers) = options.get("headers") {
            limit = limit.with_headers(headers.parse()?);
        }
        if let Some(name) = options.get("name") {
            limit = limit.with_name(name.parse()?);
        }
        let status = Choice { name: "status", choices: "429, 503 or 403", known: &STATUSES };
        let retry = Choice { name: "retry", choices: "seconds, date or none", known: &RETRIES };
        let body = Choice { name: "body", choices: "plain or problem", known: &BODIES };
        Ok(limit
            .with_status(options.choice(&status)?)
            .with_retry_after(options.choice(&retry)?)
            .with_body(options.choice(&body)?))
    }
}

fn algorithm(rate: &str, options: &Options<'_>) -> Result<Algorithm, LimitError> {
    let kind = options.kind;
    if matches!(kind, Kind::Concurrency | Kind::Connections) {
        if rate.contains('/') {
            return Err(LimitError::NotACap { given: rate.to_owned(), algorithm: kind.name() });
        }
        let cap = count(rate)?;
        return Ok(match kind {
            Kind::Connections => {
                let over = Choice { name: "over", choices: "close, reset or 503", known: &OVERS };
                Algorithm::Connections(Connections::new(cap, options.choice(&over)?))
            }
            _ => Algorithm::Concurrency(Concurrency::new(cap)),
        });
    }
    let (permits, period) = rate.split_once('/').unwrap_or((rate, "s"));
    let (permits, period) = (count(permits)?, self::period(period)?);
    let burst = options.get("burst");
    Ok(match kind {
        Kind::Fixed => Algorithm::FixedWindow(FixedWindow::new(permits, period)?),
        Kind::Sliding => Algorithm::SlidingWindow(SlidingWindow::new(permits, period)?),
        Kind::Bucket => {
            let size = burst.map_or(Ok(permits), count)?;
            Algorithm::TokenBucket(TokenBucket::new(Pace::new(permits, period)?, size)?)
        }
        Kind::Leaky => {
            let burst = burst.map_or(Ok(0), count_or_none)?;
            let delay = match (options.get("delay"), options.get("nodelay")) {
                (Some(_), Some(_)) => return Err(LimitError::Repeated { name: "delay".to_owned() }),
                (Some(undelayed), None) => Delay::After(count_or_none(undelayed)?),
                (None, Some(_)) => Delay::Never,
                (None, None) => Delay::After(0),
            };
            Algorithm::LeakyBucket(LeakyBucket::new(Pace::new(permits, period)?, burst, delay)?)
        }
        Kind::Gcra | Kind::Concurrency | Kind::Connections => {
            let burst = burst.map_or(Ok(NonZeroU32::MIN), count)?;
            Algorithm::Gcra(Gcra::new(Pace::new(permits, period)?, burst)?)
        }
    })
}

fn count(given: &str) -> Result<NonZeroU32, LimitError> {
    given.trim().parse().map_err(|source| LimitError::NotACount { given: given.to_owned(), source })
}

fn count_or_none(given: &str) -> Result<u32, LimitError> {
    given.trim().parse().map_err(|source| LimitError::NotACount { given: given.to_owned(), source })
}

fn period(given: &str) -> Result<Duration, LimitError> {
    match given.trim() {
        "s" => Ok(SECOND),
        "min" => Ok(MINUTE),
        "h" => Ok(HOUR),
        other => duration::parse(other).map_err(|source| LimitError::NotAPeriod { given: other.to_owned(), source }),
    }
}

/// A rate as it is typed.
struct Rate(NonZeroU32, Duration);

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.0)?;
        match self.1 {
            SECOND => f.write_str("s"),
            MINUTE => f.write_str("min"),
            HOUR => f.write_str("h"),
            other => f.write_str(&duration::text(other)),
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Gcra(limit) => {
                write!(f, "{}", Rate(limit.pace().permits(), limit.pace().period()))?;
                match limit.burst() {
                    NonZeroU32::MIN => Ok(()),
                    burst => write!(f, ":burst={burst}"),
                }
            }
            Self::TokenBucket(limit) => {
                let pace = limit.pace();
                write!(f, "{name}:{}", Rate(pace.permits(), pace.period()))?;
                if limit.size() == pace.permits() { Ok(()) } else { write!(f, ":burst={}", limit.size()) }
            }
            Self::FixedWindow(limit) => write!(f, "{name}:{}", Rate(limit.permits(), limit.window())),
            Self::SlidingWindow(limit) => write!(f, "{name}:{}", Rate(limit.permits(), limit.window())),
            Self::LeakyBucket(limit) => {
                write!(f, "{name}:{}", Rate(limit.pace().permits(), limit.pace().period()))?;
                if limit.burst() > 0 {
                    write!(f, ":burst={}", limit.burst())?;
                }
                match limit.delay() {
                    Delay::After(0) => Ok(()),
                    Delay::After(undelayed) => write!(f, ":delay={undelayed}"),
                    Delay::Never => f.write_str(":nodelay"),
                }
            }
            Self::Concurrency(limit) => write!(f, "{name}:{}", limit.cap()),
            Self::Connections(limit) => {
                write!(f, "{name}:{}", limit.cap())?;
                word(f, "over", &OVERS, limit.over())
            }
        }
    }
}

/// Writes a choice, unless it is what goes without saying.
fn word<T: Copy + Default + PartialEq>(
    f: &mut fmt::Formatter<'_>,
    option: &str,
    known: &[(&str, T)],
    chosen: T,
) -> fmt::Result {
    match known.iter().find(|(_, value)| *value == chosen && chosen != T::default()) {
        Some((word, _)) => write!(f, ":{option}={word}"),
        None => Ok(()),
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.algorithm())?;
        if *self.key() != KeyBy::ADDRESS {
            write!(f, ":key={}", self.key())?;
        }
        word(f, "status", &STATUSES, self.status())?;
        word(f, "retry", &RETRIES, self.retry_after())?;
        if self.headers() != Dialects::NONE {
            write!(f, ":headers={}", self.headers())?;
        }
        word(f, "body", &BODIES, self.body())?;
        match self.given_name() {
            Some(name) => write!(f, ":name={name}"),
            None => Ok(()),
        }
    }
}

impl FromStr for Name {
    type Err = LimitError;

    fn from_str(given: &str) -> Result<Self, LimitError> {
        Self::new(given)
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::{Paths, Prefix, Whom};
    use super::super::refusal::Dialect;
    use super::*;
    use proptest::prelude::*;

    fn n(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn gcra(permits: u32, period: Duration, burst: u32) -> Algorithm {
        Algorithm::Gcra(Gcra::new(Pace::new(n(permits), period).unwrap(), n(burst)).unwrap())
    }

    #[test]
    fn every_form_is_read() {
        let per_minute = Pace::new(n(100), MINUTE).unwrap();
        let leaky = |burst, delay| Algorithm::LeakyBucket(LeakyBucket::new(per_minute, burst, delay).unwrap());
        for (given, expected) in [
            ("1000/s", gcra(1000, SECOND, 1)),
            ("500/min", gcra(500, MINUTE, 1)),
            ("10/h", gcra(10, HOUR, 1)),
            ("1000", gcra(1000, SECOND, 1)),
            ("1000:burst=5", gcra(1000, SECOND, 5)),
            (" 7/90s:burst=2 ", gcra(7, Duration::from_secs(90), 2)),
            ("gcra:7/90s:burst=2", gcra(7, Duration::from_secs(90), 2)),
            ("bucket:100/min", Algorithm::TokenBucket(TokenBucket::new(per_minute, n(100)).unwrap())),
            ("bucket:100/min:burst=5", Algorithm::TokenBucket(TokenBucket::new(per_minute, n(5)).unwrap())),
            ("fixed:100/min", Algorithm::FixedWindow(FixedWindow::new(n(100), MINUTE).unwrap())),
            ("sliding:100/min", Algorithm::SlidingWindow(SlidingWindow::new(n(100), MINUTE).unwrap())),
            ("leaky:100/min", leaky(0, Delay::After(0))),
            ("leaky:100/min:burst=0:delay=0", leaky(0, Delay::After(0))),
            ("leaky:100/min:delay=5:burst=20", leaky(20, Delay::After(5))),
            ("leaky:100/min:burst=20:nodelay", leaky(20, Delay::Never)),
            ("concurrency:8", Algorithm::Concurrency(Concurrency::new(n(8)))),
            ("connections:8", Algorithm::Connections(Connections::new(n(8), Over::Close))),
            ("connections:8:over=503", Algorithm::Connections(Connections::new(n(8), Over::Unavailable))),
        ] {
            assert_eq!(given.parse(), Ok(Limit::new(expected)), "{given}");
        }
        let full: Limit =
            "fixed:100/min:key=/64:status=503:headers=x-ratelimit+ietf:retry=date:body=problem:name=a".parse().unwrap();
        assert_eq!(full.key().whom, Whom::Prefix(Prefix::new(32, 64).unwrap()));
        assert_eq!((full.status(), full.retry_after()), (RefusalStatus::Unavailable, RetryAfter::Date));
        assert!(full.headers().has(Dialect::XRateLimit) && full.headers().has(Dialect::Ietf));
        assert_eq!((full.body(), full.name()), (RefusalBody::Problem, "a"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (given, said) in [
            ("", "`` is not a number of requests"),
            ("0/s", "`0` is not a number of requests"),
            ("-1/s", "`-1` is not a number of requests"),
            ("1.5/s", "`1.5` is not a number of requests"),
            ("10/m", "`m` is not a period: write s, min, h"),
            ("10/fortnight", "write s, min, h or a duration, as in 5/s"),
            ("10/0s", "write a period above zero"),
            ("10/2days", "up to a day"),
            ("2000000000/s", "more than one per nanosecond"),
            ("10/s:burst=0", "`0` is not a number of requests"),
            ("10/s:bust=3", "`bust=3` cannot stand behind gcra: write burst=N, key=.."),
            ("10/s:", "`` cannot stand behind gcra"),
            ("10/s:nodelay", "`nodelay` cannot stand behind gcra"),
            ("1/24h:burst=4000000000", "a burst of 3999999999"),
            ("fast:10/s", "`fast` is no algorithm: write gcra, bucket, fixed, sliding, leaky, concurrency or conn"),
            ("fixed", "fixed is not said how much"),
            ("fixed:10/s:burst=3", "`burst=3` cannot stand behind fixed: write key=.., status=.."),
            ("fixed:10/100us", "a window of 100us does not work: write one from 1ms to a day"),
            ("fixed:17000000/h", "17000000 are more than a window can count: write 16777215 or fewer"),
            ("sliding:10/10ms", "write one from 100ms to a day"),
            ("sliding:1048576/h", "write 1048575 or fewer"),
            ("leaky:10/s:burst=2:delay=3", "delay=3 is more than the burst of 2"),
            ("leaky:10/s:burst=2:delay=2:nodelay", "`delay` is given twice"),
            ("leaky:10/s:burst=2:nodelay=1", "`nodelay=1` cannot stand behind leaky"),
            ("concurrency:8/s", "`8/s` has a period, but concurrency counts what is open at a time"),
            ("concurrency:none", "`none` is not a number of requests"),
            ("connections:8:key=session", "connections cannot be told apart by `session`"),
            ("connections:8:key=address+path", "connections cannot be told apart by `address+path`"),
            ("connections:8:over=drop", "`drop` is no choice for over: write close, reset or 503"),
            ("connections:8:status=503", "`status=503` cannot stand behind connections: write key=.., over=.."),
            ("10/s:key=mac", "`mac` is no key"),
            ("10/s:key=/200", "`/200` is no prefix"),
            ("10/s:key=/64:key=/48", "`key` is given twice: write it once"),
            ("10/s:status=418", "`418` is no choice for status: write 429, 503 or 403"),
            ("10/s:retry=soon", "`soon` is no choice for retry: write seconds, date or none"),
            ("10/s:body=html", "`html` is no choice for body: write plain or problem"),
            ("10/s:headers=", "`` are no headers"),
            ("10/s:headers=github", "`github` are no headers: write x-ratelimit, x-ratelimit-delta, ietf"),
            ("10/s:headers=ietf+draft-07", "headers ietf and draft-07 write the same field"),
            ("10/s:name=", "`` is no name of a limit"),
            ("10/s:name=Über", "is no name of a limit: write 1 to 32 of a-z"),
        ] {
            let error = given.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }

    fn any_algorithm() -> impl Strategy<Value = Algorithm> {
        (0_u8..7, 1_u32..5_000, 100_000_u64..10_000_000, 1_u32..50, 0_u32..50, 0_usize..3).prop_filter_map(
            "valid",
            |(kind, permits, period_us, burst, undelayed, over)| {
                let period = Duration::from_micros(period_us);
                let pace = Pace::new(n(permits), period).ok()?;
                Some(match kind {
                    0 => Algorithm::Gcra(Gcra::new(pace, n(burst)).ok()?),
                    1 => Algorithm::TokenBucket(TokenBucket::new(pace, n(burst)).ok()?),
                    2 => Algorithm::FixedWindow(FixedWindow::new(n(permits), period).ok()?),
                    3 => Algorithm::SlidingWindow(SlidingWindow::new(n(permits), period).ok()?),
                    4 => {
                        let delay = if undelayed > burst { Delay::Never } else { Delay::After(undelayed) };
                        Algorithm::LeakyBucket(LeakyBucket::new(pace, burst, delay).ok()?)
                    }
                    5 => Algorithm::Concurrency(Concurrency::new(n(permits))),
                    _ => Algorithm::Connections(Connections::new(n(permits), OVERS[over].1)),
                })
            },
        )
    }

    fn any_key() -> impl Strategy<Value = KeyBy> {
        let whom = prop_oneof![
            Just(Whom::Everyone),
            Just(Whom::Address),
            Just(Whom::Session),
            "x-[a-z]{1,8}".prop_map(|name| Whom::Header(name.parse().unwrap())),
            (0_u8..=32, 0_u8..=128).prop_map(|(v4, v6)| Whom::Prefix(Prefix::new(v4, v6).unwrap())),
        ];
        let paths = prop_oneof![Just(Paths::Together), Just(Paths::Apart)];
        (whom, paths).prop_map(|(whom, paths)| KeyBy { whom, paths })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            algorithm in any_algorithm(), key in any_key(), choices in (0_usize..3, 0_usize..3, 0_usize..2),
            dialects in proptest::collection::vec(0_usize..5, 0..4), name in proptest::option::of("[a-z0-9._-]{1,32}"),
        ) {
            let mut limit = Limit::new(algorithm);
            if let Some(name) = name {
                limit = limit.with_name(name.parse().unwrap());
            }
            if matches!(algorithm, Algorithm::Connections(_)) {
                limit = limit.clone().with_key(key).unwrap_or(limit);
            } else {
                let headers = dialects.into_iter().fold(Dialects::NONE, |dialects, dialect| {
                    dialects.with(Dialect::ALL[dialect]).unwrap_or(dialects)
                });
                limit = limit
                    .with_key(key)
                    .unwrap()
                    .with_status(STATUSES[choices.0].1)
                    .with_retry_after(RETRIES[choices.1].1)
                    .with_body(BODIES[choices.2].1)
                    .with_headers(headers);
            }
            prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        }

        #[test]
        fn nothing_that_is_typed_makes_it_panic(text in "[a-z0-9:/=+, .-]{0,40}") {
            drop(text.parse::<Limit>());
        }
    }
}
