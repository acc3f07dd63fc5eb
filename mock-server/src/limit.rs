//! Limits: how many requests of one key the target lets through. The server asks [`decide`] once per request with the
//! key's word in shared memory.
//!
//! It must not read the time, and it must not keep state anywhere but in that one word: this is what makes several
//! processes admit exactly what one would.

use crate::duration;
use std::fmt;
use std::num::{NonZeroU32, ParseIntError};
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The longest period: a limit per more than a day cannot be seen at work in a benchmark.
pub const MAX_PERIOD: Duration = Duration::from_hours(24);

/// The greatest tolerance, 73 years. It keeps every sum of times below 2^64 for as long as the clock runs.
const MAX_TOLERANCE_NS: u64 = 1 << 61;

/// At most `permits` requests per `period`, and at most `burst` of them at once.
///
/// It is a token bucket that holds `burst` tokens, starts full, and gains one token every `period / permits`; the
/// interval is rounded up to whole nanoseconds, so never more is granted than asked.
///
/// On the command line: `1000/s`, `500/min`, `10/h`, `10/90s`, `1000` (per second), each with `:burst=N` behind it if
/// wanted. The burst is 1 if left out, the strictest reading of a rate: no two requests closer together than one
/// interval. A client that paces itself exactly still meets refusals then, because the network moves its requests a
/// little; a burst of a few forgives that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    permits: NonZeroU32,
    period: Duration,
    burst: NonZeroU32,
    interval_ns: u64,
    tolerance_ns: u64,
}

impl Limit {
    /// A limit of `permits` per `period` with at most `burst` at once.
    ///
    /// # Errors
    ///
    /// The period is zero or longer than [`MAX_PERIOD`], the rate is above one per nanosecond, or the burst would take
    /// more than 73 years to fill.
    pub fn new(permits: NonZeroU32, period: Duration, burst: NonZeroU32) -> Result<Self, LimitError> {
        if period.is_zero() || period > MAX_PERIOD {
            return Err(LimitError::Period { period });
        }
        let period_ns = u64::try_from(period.as_nanos()).unwrap_or(u64::MAX);
        if u64::from(permits.get()) > period_ns {
            return Err(LimitError::TooFast { permits, period });
        }
        let interval_ns = period_ns.div_ceil(u64::from(permits.get()));
        let tolerance_ns = interval_ns
            .checked_mul(u64::from(burst.get() - 1))
            .filter(|tolerance| *tolerance <= MAX_TOLERANCE_NS)
            .ok_or(LimitError::Burst { burst })?;
        Ok(Self { permits, period, burst, interval_ns, tolerance_ns })
    }

    /// How many requests are admitted per period.
    #[must_use]
    pub const fn permits(&self) -> NonZeroU32 {
        self.permits
    }

    /// The period that the permits are for.
    #[must_use]
    pub const fn period(&self) -> Duration {
        self.period
    }

    /// How many requests are admitted at once by a bucket that had time to fill.
    #[must_use]
    pub const fn burst(&self) -> NonZeroU32 {
        self.burst
    }

    /// Nanoseconds until a bucket gains a token: the period over the permits, rounded up.
    #[must_use]
    pub const fn interval_ns(&self) -> u64 {
        self.interval_ns
    }
}

/// What becomes of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// It is let through, and has taken a token.
    Admitted,
    /// It is turned away, and has taken nothing.
    Rejected {
        /// Nanoseconds until the bucket will have a token, at least 1.
        retry_after_ns: u64,
    },
}

/// Decides about one request of the key whose theoretical arrival time is `tat`, at `now_ns` on the common clock.
///
/// This is the generic cell rate algorithm: admit if and only if `now >= TAT - tau`, and then let
/// `TAT = max(TAT, now) + t`, with `t` the interval in nanoseconds, `tau = t * (burst - 1)` the tolerance, and TAT the
/// instant at which the bucket will be full again less one interval. A fresh key has TAT 0, a full bucket. Source:
/// ITU-T I.371, virtual scheduling. In any window of `w` nanoseconds it admits at most `burst + w / t`.
///
/// The word is changed by compare-and-swap only, so deciders in other threads and processes that share it never admit
/// one token twice. Their clock readings may reach the word slightly out of order, which `max` takes care of.
pub fn decide(tat: &AtomicU64, now_ns: u64, limit: &Limit) -> Decision {
    // The word is the whole state and guards no other memory: no ordering beyond its own is needed.
    let mut seen = tat.load(Ordering::Relaxed);
    loop {
        let due_ns = seen.saturating_sub(limit.tolerance_ns);
        if now_ns < due_ns {
            return Decision::Rejected { retry_after_ns: due_ns - now_ns };
        }
        let next = seen.max(now_ns).saturating_add(limit.interval_ns);
        match tat.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Decision::Admitted,
            Err(newer) => seen = newer,
        }
    }
}

/// Why a limit was refused. It stands for itself.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum LimitError {
    /// The period is zero or too long.
    #[error("a limit per {} is none: write a period above zero and up to a day", duration::text(*.period))]
    Period {
        /// The period given.
        period: Duration,
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
        /// The burst given.
        burst: NonZeroU32,
    },
    /// A count is not one.
    #[error("`{given}` is no number of requests from 1 to 4294967295 ({source})")]
    NotACount {
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: ParseIntError,
    },
    /// The period is not one.
    #[error("`{given}` is no period ({source}): write s, min, h or a duration such as 90s")]
    NotAPeriod {
        /// What was given.
        given: String,
        /// What is wrong with it.
        source: humantime::DurationError,
    },
    /// What follows the rate is not a burst.
    #[error("`{given}` cannot stand behind a rate: write burst=N, as in 1000/s:burst=10")]
    UnknownOption {
        /// What was given.
        given: String,
    },
}

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);
const HOUR: Duration = Duration::from_hours(1);

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(given: &str) -> Result<Self, LimitError> {
        let (rate, burst) = match given.trim().split_once(':') {
            None => (given.trim(), NonZeroU32::MIN),
            Some((rate, option)) => match option.split_once('=') {
                Some(("burst", burst)) => (rate, count(burst)?),
                _ => return Err(LimitError::UnknownOption { given: option.to_owned() }),
            },
        };
        let (permits, period) = rate.split_once('/').unwrap_or((rate, "s"));
        let period = match period.trim() {
            "s" => SECOND,
            "min" => MINUTE,
            "h" => HOUR,
            other => {
                duration::parse(other).map_err(|source| LimitError::NotAPeriod { given: other.to_owned(), source })?
            }
        };
        Self::new(count(permits)?, period, burst)
    }
}

fn count(given: &str) -> Result<NonZeroU32, LimitError> {
    given.trim().parse().map_err(|source| LimitError::NotACount { given: given.to_owned(), source })
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/", self.permits)?;
        match self.period {
            SECOND => f.write_str("s"),
            MINUTE => f.write_str("min"),
            HOUR => f.write_str("h"),
            other => f.write_str(&duration::text(other)),
        }?;
        match self.burst {
            NonZeroU32::MIN => Ok(()),
            burst => write!(f, ":burst={burst}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Barrier;

    fn limit(text: &str) -> Limit {
        text.parse().unwrap()
    }

    fn is_admitted(tat: &AtomicU64, now_ns: u64, limit: &Limit) -> bool {
        decide(tat, now_ns, limit) == Decision::Admitted
    }

    #[test]
    fn every_form_is_read() {
        for (given, permits, period, burst) in [
            ("1000/s", 1000, SECOND, 1),
            ("500/min", 500, MINUTE, 1),
            ("10/h", 10, HOUR, 1),
            ("1000", 1000, SECOND, 1),
            ("1000:burst=5", 1000, SECOND, 5),
            (" 7/90s:burst=2 ", 7, Duration::from_secs(90), 2),
        ] {
            let read = limit(given);
            assert_eq!((read.permits().get(), read.period(), read.burst().get()), (permits, period, burst), "{given}");
        }
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (given, said) in [
            ("", "`` is no number of requests"),
            ("0/s", "`0` is no number of requests"),
            ("-1/s", "`-1` is no number"),
            ("1.5/s", "`1.5` is no number"),
            ("10/m", "`m` is no period"),
            ("10/fortnight", "write s, min, h or a duration such as 90s"),
            ("10/0s", "write a period above zero"),
            ("10/2days", "up to a day"),
            ("2000000000/s", "more than one per nanosecond"),
            ("10/s:burst=0", "`0` is no number of requests"),
            ("10/s:bust=3", "`bust=3` cannot stand behind a rate: write burst=N"),
            ("1/24h:burst=4000000000", "a burst of 4000000000"),
        ] {
            let error = given.parse::<Limit>().unwrap_err().to_string();
            assert!(error.contains(said), "{given}: {error}");
        }
    }

    #[test]
    fn a_refusal_says_when_to_come_back() {
        let limit = limit("10/s");
        let tat = AtomicU64::new(0);
        assert_eq!(decide(&tat, 5, &limit), Decision::Admitted);
        assert_eq!(decide(&tat, 6, &limit), Decision::Rejected { retry_after_ns: 99_999_999 });
        assert_eq!(decide(&tat, 100_000_004, &limit), Decision::Rejected { retry_after_ns: 1 });
        assert_eq!(decide(&tat, 100_000_005, &limit), Decision::Admitted);
    }

    #[test]
    fn an_interval_is_never_rounded_down() {
        assert_eq!(limit("3/s").interval_ns(), 333_333_334);
    }

    #[test]
    fn threads_that_share_a_word_admit_exactly_what_one_would() {
        const THREADS: usize = 4;
        const QUARTERS: u64 = 400;
        let limit = limit("1000000/s:burst=10");
        let tat = AtomicU64::new(0);
        let admitted = AtomicU64::new(0);
        let tick = Barrier::new(THREADS);
        std::thread::scope(|scope| {
            for _ in 0..THREADS {
                scope.spawn(|| {
                    for quarter in 0..=QUARTERS {
                        tick.wait();
                        let now_ns = quarter * limit.interval_ns() / 4;
                        while is_admitted(&tat, now_ns, &limit) {
                            admitted.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), 10 + QUARTERS / 4);
    }

    #[test]
    fn threads_that_fight_for_one_burst_get_exactly_the_burst() {
        const BURST: u64 = 400_000;
        let limit = limit(&format!("1000000/s:burst={BURST}"));
        let tat = AtomicU64::new(0);
        let admitted = AtomicU64::new(0);
        // All start together, and the burst lasts long enough for them to get in each other's way.
        let start = Barrier::new(8);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    start.wait();
                    while is_admitted(&tat, 0, &limit) {
                        admitted.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(admitted.into_inner(), BURST);
    }

    fn any_limit() -> impl Strategy<Value = Limit> {
        (1_u32..5_000, 1_u64..10_000_000, 1_u32..50).prop_filter_map("valid", |(permits, period_us, burst)| {
            let (permits, burst) = (NonZeroU32::new(permits)?, NonZeroU32::new(burst)?);
            Limit::new(permits, Duration::from_micros(period_us), burst).ok()
        })
    }

    proptest! {
        #[test]
        fn no_window_admits_more_than_its_share(
            limit in any_limit(), quarters in proptest::collection::vec(0_u64..12, 1..300),
        ) {
            // Arrivals come at random gaps of 0 to 3 intervals; each admitted pair spans a window.
            let tat = AtomicU64::new(0);
            let mut now = 0;
            let mut admitted = Vec::new();
            for gap in quarters {
                now += gap * limit.interval_ns() / 4;
                if is_admitted(&tat, now, &limit) {
                    admitted.push(now);
                }
            }
            for first in 0..admitted.len() {
                for last in first..admitted.len() {
                    let window_ns = admitted[last] - admitted[first];
                    let count = (last - first + 1) as u64;
                    prop_assert!(count <= u64::from(limit.burst().get()) + window_ns / limit.interval_ns());
                }
            }
        }

        #[test]
        fn a_greedy_client_gets_the_burst_and_one_per_interval(limit in any_limit(), quarters in 0_u64..400) {
            let tat = AtomicU64::new(0);
            // It comes at every multiple of a quarter interval and at every multiple of the interval, and each time
            // until it is refused.
            let step = (limit.interval_ns() / 4).max(1);
            let end = quarters * step;
            let mut instants: Vec<u64> = (0..=end / step).map(|n| n * step).collect();
            instants.extend((0..=end / limit.interval_ns()).map(|n| n * limit.interval_ns()));
            instants.sort_unstable();
            let mut admitted = 0;
            for now in instants {
                while is_admitted(&tat, now, &limit) {
                    admitted += 1;
                }
            }
            prop_assert_eq!(admitted, u64::from(limit.burst().get()) + end / limit.interval_ns());
        }

        #[test]
        fn a_refused_client_is_admitted_when_told_and_not_before(limit in any_limit(), start in 0_u64..1 << 40) {
            let tat = AtomicU64::new(0);
            while is_admitted(&tat, start, &limit) {}
            let Decision::Rejected { retry_after_ns } = decide(&tat, start, &limit) else { panic!("admitted") };
            prop_assert!(retry_after_ns >= 1);
            prop_assert!(!is_admitted(&tat, start + retry_after_ns - 1, &limit));
            prop_assert!(is_admitted(&tat, start + retry_after_ns, &limit));
        }

        #[test]
        fn what_is_written_is_read_back(limit in any_limit()) {
            prop_assert_eq!(limit.to_string().parse(), Ok(limit));
        }

        #[test]
        fn extreme_words_and_clocks_do_not_overflow(word: u64, now: u64, limit in any_limit()) {
            decide(&AtomicU64::new(word), now, &limit);
        }
    }
}
