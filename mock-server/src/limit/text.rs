//! Limits as text: parse what is typed, and format it in its shortest form.

use super::algorithm::{Algorithm, Over};
use super::bucket::{Bucket, BucketPace, Delay};
use super::fixed_window::FixedWindow;
use super::key::KeyBy;
use super::refusal::{Dialects, RefusalBody, RetryAfter};
use super::sliding_window::SlidingWindow;
use super::{Limit, MAX_NAME};
use crate::setting::{SettingError, choice, duration_text, parse_duration, word};
use hyper::StatusCode;
use std::fmt;
use std::num::{NonZeroU32, ParseIntError};
use std::str::FromStr;
use std::time::Duration;

/// Units of periods as they are typed.
const UNITS: [(&str, Duration); 3] = [
    ("s", Duration::from_secs(1)),
    ("min", Duration::from_mins(1)),
    ("h", Duration::from_hours(1)),
];

const STATUSES: [(&str, StatusCode); 3] = [
    ("429", StatusCode::TOO_MANY_REQUESTS),
    ("503", StatusCode::SERVICE_UNAVAILABLE),
    ("403", StatusCode::FORBIDDEN),
];

const RETRIES: [(&str, RetryAfter); 3] = [
    ("seconds", RetryAfter::Seconds),
    ("date", RetryAfter::Date),
    ("none", RetryAfter::None),
];

const BODIES: [(&str, RefusalBody); 2] = [
    ("plain", RefusalBody::Plain),
    ("problem", RefusalBody::Problem),
];

const OVERS: [(&str, Over); 3] = [
    ("close", Over::Close),
    ("reset", Over::Reset),
    ("503", Over::Unavailable),
];

/// Options that an algorithm knows, as messages write them. None for no algorithm.
fn known_options(algorithm: &str) -> Option<&'static str> {
    Some(match algorithm {
        "gcra" | "bucket" => "burst=N, key=.., status=.., retry=.., headers=.., body=.., name=..",
        "fixed" | "sliding" | "concurrency" => {
            "key=.., status=.., retry=.., headers=.., body=.., name=.."
        }
        "leaky" => {
            "burst=N, delay=N, nodelay, key=.., status=.., retry=.., headers=.., body=.., name=.."
        }
        "connections" => "key=.., over=.., name=..",
        _ => return None,
    })
}

/// Options behind a rate, each at most once.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    fn parse(algorithm: &str, parts: impl Iterator<Item = &'a str>) -> Result<Self, SettingError> {
        let known = known_options(algorithm).unwrap_or_default();
        let mut given: Vec<(&str, &str)> = Vec::new();
        for part in parts {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let is_known = known.split(", ").any(|known| match known.split_once('=') {
                Some((known, _)) => known == name && part.contains('='),
                None => known == part,
            });
            if !is_known {
                let what = format!("`{part}` cannot stand behind {algorithm}: write {known}");
                return Err(SettingError::new(what));
            }
            if given.iter().any(|(other, _)| *other == name) {
                return Err(repeated(name));
            }
            given.push((name, value));
        }
        Ok(Self(given))
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.0
            .iter()
            .find(|(given, _)| *given == name)
            .map(|(_, value)| *value)
    }

    /// Return the value of one of several words, or `default` if the option is not given.
    fn choice<T: Copy>(
        &self,
        option: &str,
        known: &[(&str, T)],
        default: T,
    ) -> Result<T, SettingError> {
        self.get(option)
            .map_or(Ok(default), |given| choice(option, known, given))
    }
}

fn repeated(option: &str) -> SettingError {
    SettingError::new(format!("`{option}` is given twice: write it once"))
}

impl FromStr for Limit {
    type Err = SettingError;

    fn from_str(given: &str) -> Result<Self, SettingError> {
        let mut parts = given.split(':').map(str::trim);
        let first = parts.next().unwrap_or_default();
        let (name, rate) = if first.starts_with(|first: char| first.is_ascii_alphabetic()) {
            if known_options(first).is_none() {
                let right = "write gcra, bucket, fixed, sliding, leaky, concurrency or connections";
                return Err(SettingError::new(format!(
                    "`{first}` is not a valid algorithm: {right}"
                )));
            }
            let what = || format!("`{first}` lacks its number: write {first}:8 or {first}:100/min");
            (
                first,
                parts.next().ok_or_else(|| SettingError::new(what()))?,
            )
        } else {
            ("gcra", first)
        };
        let options = Options::parse(name, parts)?;
        let limit = Self::new(algorithm(name, rate, &options)?);
        let key = options.get("key").map_or(Ok(KeyBy::ADDRESS), str::parse)?;
        Ok(Self {
            status: options.choice("status", &STATUSES, limit.status)?,
            retry_after: options.choice("retry", &RETRIES, limit.retry_after)?,
            headers: options
                .get("headers")
                .map_or(Ok(Dialects::NONE), str::parse)?,
            body: options.choice("body", &BODIES, limit.body)?,
            name: options.get("name").map(parse_name).transpose()?,
            ..limit.with_key(key)?
        })
    }
}

fn parse_name(given: &str) -> Result<String, SettingError> {
    let is_plain =
        |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-_.".contains(&byte);
    if (1..=MAX_NAME).contains(&given.len()) && given.bytes().all(is_plain) {
        return Ok(given.to_owned());
    }
    let right = "write 1 to 32 of a-z, 0-9, `-`, `_` and `.`";
    Err(SettingError::new(format!(
        "`{given}` is not a valid name of a limit: {right}"
    )))
}

fn algorithm(name: &str, rate: &str, options: &Options<'_>) -> Result<Algorithm, SettingError> {
    if matches!(name, "concurrency" | "connections") {
        if rate.contains('/') {
            let right = format!("write a number, as in {name}:8");
            let what =
                format!("`{rate}` has a period, but {name} counts what is open at a time: {right}");
            return Err(SettingError::new(what));
        }
        let cap = parse_count(rate)?;
        let over = options.choice("over", &OVERS, Over::Close)?;
        return Ok(if name == "connections" {
            Algorithm::Connections(cap, over)
        } else {
            Algorithm::Concurrency(cap)
        });
    }
    let (permits, period) = rate.split_once('/').unwrap_or((rate, "s"));
    let (permits, period) = (parse_count(permits)?, parse_period(period)?);
    if name == "fixed" {
        return FixedWindow::new(permits, period).map(Algorithm::FixedWindow);
    }
    if name == "sliding" {
        return SlidingWindow::new(permits, period).map(Algorithm::SlidingWindow);
    }
    let pace = BucketPace::new(permits, period)?;
    let at_once = |default: NonZeroU32| {
        let burst = options.get("burst").map_or(Ok(default), parse_count)?;
        Bucket::new(pace, burst.get() - 1, Delay::Never)
    };
    match name {
        "bucket" => at_once(permits).map(Algorithm::TokenBucket),
        "leaky" => {
            let delay = match (options.get("delay"), options.get("nodelay")) {
                (Some(_), Some(_)) => return Err(repeated("delay")),
                (Some(undelayed), None) => Delay::After(parse_count(undelayed)?),
                (None, Some(_)) => Delay::Never,
                (None, None) => Delay::After(0),
            };
            let burst = options.get("burst").map_or(Ok(0), parse_count)?;
            Bucket::new(pace, burst, delay).map(Algorithm::LeakyBucket)
        }
        _ => at_once(NonZeroU32::MIN).map(Algorithm::Gcra),
    }
}

fn parse_count<T: FromStr<Err = ParseIntError>>(given: &str) -> Result<T, SettingError> {
    let right =
        "write a whole number from 1 to 4294967295; less than 1/s is N/min or N/h, as in 30/min";
    let wrong = |_| SettingError::new(format!("`{given}` is not a number of requests: {right}"));
    given.trim().parse().map_err(wrong)
}

fn parse_period(given: &str) -> Result<Duration, SettingError> {
    let given = given.trim();
    let unit = UNITS
        .iter()
        .find(|(unit, _)| *unit == given)
        .map(|(_, period)| *period);
    let right = "write s, min, h or a duration, as in 5/s, 5/min or 5/90s";
    let wrong = || SettingError::new(format!("`{given}` is not a period: {right}"));
    unit.or_else(|| parse_duration(given)).ok_or_else(wrong)
}

/// Format a rate as it is typed.
fn rate(permits: NonZeroU32, period: Duration) -> String {
    match word(&UNITS, &period) {
        "" => format!("{permits}/{}", duration_text(period)),
        unit => format!("{permits}/{unit}"),
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Gcra(limit) => {
                write!(f, "{}", rate(limit.pace.permits, limit.pace.period))?;
                option(f, "burst", &(u64::from(limit.excess) + 1), &1)
            }
            Self::TokenBucket(limit) => {
                write!(f, "{name}:{}", rate(limit.pace.permits, limit.pace.period))?;
                option(
                    f,
                    "burst",
                    &(u64::from(limit.excess) + 1),
                    &limit.pace.permits.get().into(),
                )
            }
            Self::LeakyBucket(limit) => {
                write!(f, "{name}:{}", rate(limit.pace.permits, limit.pace.period))?;
                option(f, "burst", &limit.excess, &0)?;
                match limit.delay {
                    Delay::After(undelayed) => option(f, "delay", &undelayed, &0),
                    Delay::Never => f.write_str(":nodelay"),
                }
            }
            Self::FixedWindow(limit) => write!(f, "{name}:{}", rate(limit.permits, limit.window)),
            Self::SlidingWindow(limit) => write!(f, "{name}:{}", rate(limit.permits, limit.window)),
            Self::Concurrency(cap) => write!(f, "{name}:{cap}"),
            Self::Connections(cap, over) => {
                write!(f, "{name}:{cap}")?;
                option(f, "over", word(&OVERS, over), "close")
            }
        }
    }
}

/// Write an option, unless it is the default.
fn option<T: PartialEq + fmt::Display + ?Sized>(
    f: &mut fmt::Formatter<'_>,
    name: &str,
    value: &T,
    default: &T,
) -> fmt::Result {
    if value == default {
        Ok(())
    } else {
        write!(f, ":{name}={value}")
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.algorithm)?;
        option(f, "key", &self.key.to_string(), &KeyBy::ADDRESS.to_string())?;
        option(f, "status", word(&STATUSES, &self.status), "429")?;
        option(f, "retry", word(&RETRIES, &self.retry_after), "seconds")?;
        option(f, "headers", &self.headers.to_string(), &String::new())?;
        option(f, "body", word(&BODIES, &self.body), "plain")?;
        option(f, "name", self.name.as_deref().unwrap_or_default(), "")
    }
}

#[cfg(test)]
mod tests {
    use super::super::key::{Clients, Paths, Prefix};
    use super::super::refusal::Dialect;
    use super::*;
    use proptest::prelude::*;

    const SECOND: Duration = UNITS[0].1;
    const MINUTE: Duration = UNITS[1].1;
    const HOUR: Duration = UNITS[2].1;

    fn n(count: u32) -> NonZeroU32 {
        NonZeroU32::new(count).unwrap()
    }

    fn gcra(permits: u32, period: Duration, burst: u32) -> Algorithm {
        Algorithm::Gcra(
            Bucket::new(
                BucketPace::new(n(permits), period).unwrap(),
                burst - 1,
                Delay::Never,
            )
            .unwrap(),
        )
    }

    #[test]
    fn every_form_is_read() {
        let per_minute = BucketPace::new(n(100), MINUTE).unwrap();
        let token = |size: u32| {
            Algorithm::TokenBucket(Bucket::new(per_minute, size - 1, Delay::Never).unwrap())
        };
        let leaky =
            |burst, delay| Algorithm::LeakyBucket(Bucket::new(per_minute, burst, delay).unwrap());
        for (given, expected) in [
            ("1000/s", gcra(1000, SECOND, 1)),
            ("500/min", gcra(500, MINUTE, 1)),
            ("10/h", gcra(10, HOUR, 1)),
            ("1000", gcra(1000, SECOND, 1)),
            ("1000:burst=5", gcra(1000, SECOND, 5)),
            (" 7/90s:burst=2 ", gcra(7, Duration::from_secs(90), 2)),
            ("gcra:7/90s:burst=2", gcra(7, Duration::from_secs(90), 2)),
            ("bucket:100/min", token(100)),
            ("bucket:100/min:burst=5", token(5)),
            (
                "fixed:100/min",
                Algorithm::FixedWindow(FixedWindow::new(n(100), MINUTE).unwrap()),
            ),
            (
                "sliding:100/min",
                Algorithm::SlidingWindow(SlidingWindow::new(n(100), MINUTE).unwrap()),
            ),
            ("leaky:100/min", leaky(0, Delay::After(0))),
            ("leaky:100/min:burst=0:delay=0", leaky(0, Delay::After(0))),
            ("leaky:100/min:delay=5:burst=20", leaky(20, Delay::After(5))),
            ("leaky:100/min:burst=20:nodelay", leaky(20, Delay::Never)),
            ("concurrency:8", Algorithm::Concurrency(n(8))),
            ("connections:8", Algorithm::Connections(n(8), Over::Close)),
            (
                "connections:8:over=503",
                Algorithm::Connections(n(8), Over::Unavailable),
            ),
        ] {
            assert_eq!(given.parse(), Ok(Limit::new(expected)), "{given}");
        }
        let full: Limit =
            "fixed:100/min:key=/64:status=503:headers=x-ratelimit+ietf:retry=date:body=problem:name=a".parse().unwrap();
        assert_eq!(
            full.key.clients,
            Clients::Prefix(Prefix::new(32, 64).unwrap())
        );
        assert_eq!(
            (full.status, full.retry_after),
            (StatusCode::SERVICE_UNAVAILABLE, RetryAfter::Date)
        );
        assert!(full.headers.has(Dialect::XRateLimit) && full.headers.has(Dialect::Ietf));
        assert_eq!((full.body, full.name()), (RefusalBody::Problem, "a"));
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
            ("10/0s", "write a period above 0"),
            ("10/2days", "up to a day"),
            ("2000000000/s", "more than one per nanosecond"),
            ("10/s:burst=0", "`0` is not a number of requests"),
            (
                "10/s:bust=3",
                "`bust=3` cannot stand behind gcra: write burst=N, key=..",
            ),
            ("10/s:", "`` cannot stand behind gcra"),
            ("10/s:nodelay", "`nodelay` cannot stand behind gcra"),
            ("1/24h:burst=4000000000", "a burst of 3999999999"),
            (
                "fast:10/s",
                "`fast` is not a valid algorithm: write gcra, bucket, fixed, sliding, leaky, concurrency or conn",
            ),
            ("fixed", "`fixed` lacks its number"),
            (
                "fixed:10/s:burst=3",
                "`burst=3` cannot stand behind fixed: write key=.., status=..",
            ),
            (
                "fixed:10/100us",
                "a window of 100us does not work: write one from 1ms to a day",
            ),
            (
                "fixed:17000000/h",
                "17000000 are more than a window can count: write 16777215 or fewer",
            ),
            ("sliding:10/10ms", "write one from 100ms to a day"),
            ("sliding:1048576/h", "write 1048575 or fewer"),
            (
                "leaky:10/s:burst=2:delay=3",
                "delay=3 is more than the burst of 2",
            ),
            (
                "leaky:10/s:burst=2:delay=2:nodelay",
                "`delay` is given twice",
            ),
            (
                "leaky:10/s:burst=2:nodelay=1",
                "`nodelay=1` cannot stand behind leaky",
            ),
            (
                "concurrency:8/s",
                "`8/s` has a period, but concurrency counts what is open at a time",
            ),
            ("concurrency:none", "`none` is not a number of requests"),
            (
                "connections:8:key=session",
                "connections cannot be told apart by `session`",
            ),
            (
                "connections:8:key=address+path",
                "connections cannot be told apart by `address+path`",
            ),
            (
                "connections:8:over=drop",
                "`drop` is not a valid choice for over: write close, reset or 503",
            ),
            (
                "connections:8:status=503",
                "`status=503` cannot stand behind connections: write key=.., over=..",
            ),
            ("10/s:key=mac", "`mac` is not a valid key"),
            ("10/s:key=/200", "`/200` is not a valid prefix"),
            (
                "10/s:key=/64:key=/48",
                "`key` is given twice: write it once",
            ),
            (
                "10/s:status=418",
                "`418` is not a valid choice for status: write 429, 503 or 403",
            ),
            (
                "10/s:retry=soon",
                "`soon` is not a valid choice for retry: write seconds, date or none",
            ),
            (
                "10/s:body=html",
                "`html` is not a valid choice for body: write plain or problem",
            ),
            ("10/s:headers=", "`` is not a set of quota headers"),
            (
                "10/s:headers=github",
                "`github` is not a set of quota headers: write x-ratelimit, x-ratelimit-delta, ietf",
            ),
            (
                "10/s:headers=ietf+draft-07",
                "headers ietf and draft-07 write the same field",
            ),
            ("10/s:name=", "`` is not a valid name of a limit"),
            (
                "10/s:name=Über",
                "is not a valid name of a limit: write 1 to 32 of a-z",
            ),
        ] {
            let error = given.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }

    fn any_algorithm() -> impl Strategy<Value = Algorithm> {
        (
            0_u8..7,
            1_u32..5_000,
            100_000_u64..10_000_000,
            1_u32..50,
            0_u32..50,
            0_usize..3,
        )
            .prop_filter_map(
                "valid",
                |(kind, permits, period_us, burst, undelayed, over)| {
                    let period = Duration::from_micros(period_us);
                    let pace = BucketPace::new(n(permits), period).ok()?;
                    Some(match kind {
                        0 => Algorithm::Gcra(Bucket::new(pace, burst - 1, Delay::Never).ok()?),
                        1 => {
                            Algorithm::TokenBucket(Bucket::new(pace, burst - 1, Delay::Never).ok()?)
                        }
                        2 => Algorithm::FixedWindow(FixedWindow::new(n(permits), period).ok()?),
                        3 => Algorithm::SlidingWindow(SlidingWindow::new(n(permits), period).ok()?),
                        4 => {
                            let delay = if undelayed > burst {
                                Delay::Never
                            } else {
                                Delay::After(undelayed)
                            };
                            Algorithm::LeakyBucket(Bucket::new(pace, burst, delay).ok()?)
                        }
                        5 => Algorithm::Concurrency(n(permits)),
                        _ => Algorithm::Connections(n(permits), OVERS[over].1),
                    })
                },
            )
    }

    fn any_key() -> impl Strategy<Value = KeyBy> {
        let clients = prop_oneof![
            Just(Clients::Everyone),
            Just(Clients::Address),
            Just(Clients::Session),
            "x-[a-z]{1,8}".prop_map(|name| Clients::Header(name.parse().unwrap())),
            (0_u8..=32, 0_u8..=128)
                .prop_map(|(v4, v6)| Clients::Prefix(Prefix::new(v4, v6).unwrap())),
        ];
        let paths = prop_oneof![Just(Paths::Together), Just(Paths::Apart)];
        (clients, paths).prop_map(|(clients, paths)| KeyBy { clients, paths })
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(
            algorithm in any_algorithm(), key in any_key(), choices in (0_usize..3, 0_usize..3, 0_usize..2),
            dialects in proptest::collection::vec(0_usize..5, 0..4), name in proptest::option::of("[a-z0-9._-]{1,32}"),
        ) {
            let mut limit = Limit::new(algorithm);
            limit.name = name;
            if matches!(algorithm, Algorithm::Connections(..)) {
                limit = limit.clone().with_key(key).unwrap_or(limit);
            } else {
                let headers = dialects.into_iter().fold(Dialects::NONE, |dialects, dialect| {
                    dialects.with(Dialect::ALL[dialect]).unwrap_or(dialects)
                });
                limit = Limit {
                    status: STATUSES[choices.0].1,
                    retry_after: RETRIES[choices.1].1,
                    body: BODIES[choices.2].1,
                    headers,
                    ..limit.with_key(key).unwrap()
                };
            }
            prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        }

        #[test]
        fn nothing_that_is_typed_makes_it_panic(text in "[a-z0-9:/=+, .-]{0,40}") {
            drop(text.parse::<Limit>());
        }
    }
}
