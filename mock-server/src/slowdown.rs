//! What makes all answers slower, whatever their latency: a delay for each connection or for each
//! request in flight, stalls, a pool of workers, and CPU time.
//!
//! It must not read the time: a stall is a pure function of the clock's reading.

use crate::latency::MAX_HOLD;
use crate::text::{duration, duration_text, from_text, hold};
use std::fmt;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::time::Duration;

/// Time that is added to a hold, `0..=1h`; the default is none. Written as a duration, `50us`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AddedDelay(Duration);

from_text!(AddedDelay, "time", "0 to 1h with a unit, as in 90ms");

impl AddedDelay {
    fn read(text: &str) -> Option<Self> {
        hold(text).map(Self)
    }

    /// True if nothing is added.
    pub const fn is_none(self) -> bool {
        self.0.is_zero()
    }

    /// Return the time itself.
    pub const fn get(self) -> Duration {
        self.0
    }

    /// Return the time for so many others, at most [`MAX_HOLD`].
    pub fn times(self, others: u64) -> Duration {
        let others = u32::try_from(others).unwrap_or(u32::MAX);
        self.0.saturating_mul(others).min(MAX_HOLD)
    }
}

impl fmt::Display for AddedDelay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&duration_text(self.0))
    }
}

/// A recurring window in which the target sends no response. Written `10s,1s`: the last second of
/// every ten.
///
/// A long period is a service that collects garbage or flushes a log; one of 100 ms a container that
/// used up its CPU quota. A stall as long as its period leaves single instants: a service that wakes
/// up once in a period, takes all requests and sends all responses.
///
/// Counted from the clock's epoch, which is the making of the target's shared memory just before it
/// serves; all processes of a target stall together, and a reset of the ledger moves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    every: Duration,
    length: Duration,
}

/// A stall less often than once a day is none that a benchmark would meet.
const MAX_EVERY: Duration = Duration::from_hours(24);

from_text!(
    Stall,
    "stall",
    "EVERY,LENGTH with a length up to 1h and up to the period, which is up to 24h, as in 10s,1s for the last second of every ten"
);

impl Stall {
    fn read(text: &str) -> Option<Self> {
        let (every, length) = text.split_once(',')?;
        let (every, length) = (duration(every)?, duration(length)?);
        let is_possible = !length.is_zero() && length <= every;
        (is_possible && length <= MAX_HOLD && every <= MAX_EVERY).then_some(Self { every, length })
    }

    /// Return the end of the stall at `now_ns`, ns of the same clock; none if there is none. In
    /// period k, counted from 0, the target stalls from `(k + 1) every - length`, included, to
    /// `(k + 1) every`, excluded; never at `k every`.
    pub fn until_ns(&self, now_ns: u64) -> Option<u64> {
        // An hour at most, and a day at most: far below 2^64 ns. Neither is 0.
        let [every_ns, length_ns] =
            [self.every, self.length].map(|part| u64::try_from(part.as_nanos()).unwrap_or(1));
        let left_ns = every_ns - now_ns % every_ns;
        (left_ns <= length_ns.min(every_ns - 1)).then(|| now_ns.saturating_add(left_ns))
    }
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [every, length] = [self.every, self.length].map(duration_text);
        write!(f, "{every},{length}")
    }
}

/// Workers, `1..=1024`, and the queue before them: so many requests are served at the same time.
/// Written `8`, `8:fifo`, `8:lifo` or `8:100`.
///
/// A worker is taken for the time of a hold, stalls in it included. A client that leaves does not end
/// the work for its request: it is done all the same, in its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Workers {
    number: NonZeroUsize,
    pub(crate) queue: Queue,
}

/// Queue of the requests that wait for a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    /// First come, first served, over all processes, without a bound.
    Fifo,
    /// The latest first, without a bound. Each process has a queue and workers of its own.
    Lifo,
    /// As `Fifo`, but so many wait at most, `0..=MAX_QUEUE`; the others are refused at once.
    Bounded(usize),
}

/// The most workers.
pub(crate) const MAX_WORKERS: usize = 1024;

/// The most places of a bounded queue.
pub(crate) const MAX_QUEUE: usize = 65_536;

from_text!(
    Workers,
    "number of workers",
    "1 to 1024, and :fifo, :lifo or the places of a queue (0 to 65536) behind it, as in 8, 8:lifo or 8:100"
);

impl Workers {
    fn read(text: &str) -> Option<Self> {
        let (number, queue) = text.split_once(':').unwrap_or((text, "fifo"));
        let queue = match queue {
            "fifo" => Queue::Fifo,
            "lifo" => Queue::Lifo,
            places => Queue::Bounded(places.parse().ok().filter(|most| *most <= MAX_QUEUE)?),
        };
        let number = number.parse::<NonZeroUsize>().ok()?;
        (number.get() <= MAX_WORKERS).then_some(Self { number, queue })
    }

    pub(crate) const fn get(self) -> usize {
        self.number.get()
    }

    /// True if the latest request is served first, which one process alone can do.
    pub fn is_lifo(self) -> bool {
        self.queue == Queue::Lifo
    }
}

impl fmt::Display for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.queue {
            Queue::Fifo => self.number.fmt(f),
            Queue::Lifo => write!(f, "{}:lifo", self.number),
            Queue::Bounded(places) => write!(f, "{}:{places}", self.number),
        }
    }
}

/// Rounds of arithmetic for every item that is answered, `0..=100m`; a round takes about a
/// nanosecond. The default is none.
///
/// It is counted in rounds rather than time: a round costs the same in every process and under any
/// load, so 5 % more rounds are 5 % more work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work(u32);

/// The most rounds: about a tenth of a second, in which a process answers no client.
const MAX_ROUNDS: u32 = 100_000_000;

from_text!(
    Work,
    "number of rounds",
    "0 to 100,000,000, as in 50000 (about 50 µs of CPU)"
);

impl Work {
    fn read(text: &str) -> Option<Self> {
        let rounds = text.replace('_', "").parse().ok()?;
        (rounds <= MAX_ROUNDS).then_some(Self(rounds))
    }

    /// Does it, each round on what the last one left.
    pub(crate) fn burn(self, seed: u64) {
        let mut state = seed | 1;
        for _ in 0..self.0 {
            // Marsaglia's xorshift, of which no compiler knows the end beforehand.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
        }
        black_box(state);
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_possible_slowdowns_are_read() {
        let is_delay = |text: &str| text.parse::<AddedDelay>().is_ok();
        assert!(is_delay("0") && is_delay("90ms") && is_delay(" 1h "));
        assert!(!is_delay("90") && !is_delay("1h1us") && !is_delay("-1ms") && !is_delay(""));
        let is_work = |text: &str| text.parse::<Work>().is_ok();
        assert!(is_work("0") && is_work("1_000") && is_work("100000000"));
        assert!(!is_work("") && !is_work("-1") && !is_work("1.5") && !is_work("100000001"));
        for text in ["1", "1024:lifo", "8:0", "8:65536"] {
            let workers: Workers = text.parse().unwrap();
            assert_eq!(workers.to_string(), text);
        }
        assert_eq!("8:fifo".parse::<Workers>(), "8".parse());
        for wrong in ["", "0", "1025", "8:", "8:-1", "8:65537", "8:filo", ":lifo"] {
            assert!(wrong.parse::<Workers>().is_err(), "{wrong}");
        }
        for wrong in [
            "10s",
            "10s,1s,1s",
            "often,1s",
            "10s,0",
            "10s,11s",
            "3h,2h",
            "2days,1s",
        ] {
            assert!(wrong.parse::<Stall>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_delay_grows_in_proportion_and_never_beyond_an_hour() {
        let growth: AddedDelay = "50us".parse().unwrap();
        assert_eq!(growth.times(0), Duration::ZERO);
        assert_eq!(growth.times(7), Duration::from_micros(350));
        assert_eq!(growth.times(u64::MAX), MAX_HOLD);
    }

    proptest! {
        #[test]
        fn a_stall_ends_outside_itself_and_within_its_length(
            now_ns in 0_u64..1 << 62, every_us in 2_u64..7_200_000_000, share in 0.0..1.5_f64, is_edge: bool,
        ) {
            let every = Duration::from_micros(every_us);
            let length = every.mul_f64(share).clamp(Duration::from_nanos(1), MAX_HOLD.min(every));
            let now_ns = if is_edge { now_ns - now_ns % (every_us * 1000) } else { now_ns };
            let stall = Stall { every, length };
            prop_assert_eq!(stall.to_string().parse(), Ok(stall));
            let into_ns = u128::from(now_ns) % every.as_nanos();
            let is_stalled = into_ns > 0 && into_ns + length.as_nanos() >= every.as_nanos();
            prop_assert_eq!(stall.until_ns(now_ns).is_some(), is_stalled);
            if let Some(until_ns) = stall.until_ns(now_ns) {
                prop_assert!(until_ns > now_ns && u128::from(until_ns - now_ns) <= length.as_nanos());
                prop_assert_eq!(u128::from(until_ns) % every.as_nanos(), 0);
            }
        }
    }
}
