//! The leaky bucket that delays first: requests above the rate wait in a queue, and only above that they are turned
//! away. The semantics are those of nginx's `limit_req`.
//!
//! It must not keep anything but the one word, and it must not wait itself: it says for how long.

use super::algorithm::{Quota, Standing, Step, Unit};
use super::error::LimitError;
use super::pace::{Pace, Schedule};

/// Requests leave at one per interval; up to `burst` of them are in excess at a time, and of these all but the first
/// `undelayed` are held until their turn.
///
/// With E the requests in excess of the rate, this one included but for the first of a key: E <= undelayed passes at
/// once, E <= burst is delayed by (E - undelayed) intervals, and above that it is turned away and takes nothing. Source:
/// `ngx_http_limit_req_module`, whose `delay=` is `undelayed` here and whose `nodelay` is
/// [`Delay::Never`]; it counts in thousandths of a request and in milliseconds where this counts in nanoseconds, so its
/// delays are up to a millisecond shorter.
///
/// **Guarantee.** In any window of `w` it admits at most `burst + 1 + w / t`; and with nothing undelayed no two requests
/// leave it less than one interval `t` apart. A client that leaves while it is delayed has taken its turn all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeakyBucket {
    pace: Pace,
    burst: u32,
    delay: Delay,
    schedule: Schedule,
    undelayed_ns: u64,
}

/// Which of the requests in excess are delayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Those after the first so many; 0 delays all.
    After(u32),
    /// None: a burst passes at once.
    Never,
}

impl LeakyBucket {
    /// A queue that is emptied at `pace` and takes `burst` in excess.
    ///
    /// # Errors
    ///
    /// The queue would take more than 73 years to empty, or more are undelayed than it takes.
    pub fn new(pace: Pace, burst: u32, delay: Delay) -> Result<Self, LimitError> {
        let tolerance_ns = pace.span_ns(burst)?;
        let undelayed_ns = match delay {
            Delay::Never => u64::MAX,
            Delay::After(undelayed) if undelayed > burst => return Err(LimitError::Delay { undelayed, burst }),
            Delay::After(undelayed) => pace.span_ns(undelayed)?,
        };
        let schedule = Schedule { interval_ns: pace.interval_ns(), tolerance_ns };
        Ok(Self { pace, burst, delay, schedule, undelayed_ns })
    }

    /// How fast the queue is emptied.
    #[must_use]
    pub const fn pace(&self) -> Pace {
        self.pace
    }

    /// How many requests may be in excess.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// Which of those are delayed.
    #[must_use]
    pub const fn delay(&self) -> Delay {
        self.delay
    }

    /// The word is the instant of the next turn.
    pub(super) fn step(&self, turn_ns: u64, now_ns: u64) -> Step {
        match self.schedule.step(turn_ns, now_ns) {
            Step::Admitted { next, .. } => {
                // What it is ahead of its turn is its excess, in intervals.
                let excess_ns = turn_ns.saturating_sub(now_ns);
                Step::Admitted { next, delay_ns: excess_ns.saturating_sub(self.undelayed_ns) }
            }
            rejected @ Step::Rejected { .. } => rejected,
        }
    }

    pub(super) const fn is_idle(turn_ns: u64, now_ns: u64) -> bool {
        Schedule::is_idle(turn_ns, now_ns)
    }

    pub(super) fn give_back(&self, turn_ns: u64, taken: u64, now_ns: u64) -> Option<u64> {
        self.schedule.give_back(turn_ns, taken, now_ns)
    }

    pub(super) fn standing(&self, turn_ns: u64, now_ns: u64) -> Standing {
        self.schedule.standing(turn_ns, now_ns)
    }

    pub(super) fn quota(&self) -> Quota {
        let unit = Unit::PerNs(self.schedule.tolerance_ns.saturating_add(self.schedule.interval_ns));
        Quota { requests: self.burst.saturating_add(1), unit }
    }
}

#[cfg(test)]
mod tests {
    use super::super::algorithm::drive::{ask, fought_over};
    use super::super::{Algorithm, Limit};
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;

    const MS: u64 = 1_000_000;

    fn algorithm(text: &str) -> Algorithm {
        *text.parse::<Limit>().unwrap().algorithm()
    }

    fn at_once(text: &str) -> Vec<Result<u64, u64>> {
        let (word, limit) = (AtomicU64::new(0), algorithm(text));
        (0..5).map(|_| ask(&word, 1000 * MS, &limit)).collect()
    }

    #[test]
    fn the_excess_is_delayed_and_then_turned_away() {
        assert_eq!(at_once("leaky:10/s"), [Ok(0), Err(100 * MS), Err(100 * MS), Err(100 * MS), Err(100 * MS)]);
        let waits = |waits: [u64; 3]| waits.map(|ms| Ok(ms * MS));
        let all = |admitted: [Result<u64, u64>; 3]| [&[Ok(0)][..], &admitted, &[Err(100 * MS)]].concat();
        assert_eq!(at_once("leaky:10/s:burst=3"), all(waits([100, 200, 300])));
        assert_eq!(at_once("leaky:10/s:burst=3:delay=1"), all(waits([0, 100, 200])));
        assert_eq!(at_once("leaky:10/s:burst=3:nodelay"), all(waits([0, 0, 0])));
        assert_eq!(at_once("leaky:10/s:burst=3:delay=3"), all(waits([0, 0, 0])));
    }

    #[test]
    fn threads_fill_exactly_the_queue() {
        let instants: Vec<u64> = (0..100).map(|half| half * 500).collect();
        let admitted = fought_over(&algorithm("leaky:1000000/s:burst=99999"), &instants);
        assert_eq!((admitted[0], admitted.iter().sum::<u64>()), (100_000, 100_000 + 49));
    }

    proptest! {
        /// nginx's own arithmetic, with nanoseconds for milliseconds: `excess = max(0, excess - rate * passed + 1)`.
        #[test]
        fn it_does_what_nginx_does(
            burst in 0_u32..10, undelayed in 0_u32..10, gaps in proptest::collection::vec(0_u64..250, 1..200),
        ) {
            let t = 10 * MS;
            let undelayed = undelayed.min(burst);
            let limit = algorithm(&format!("leaky:100/s:burst={burst}:delay={undelayed}"));
            let word = AtomicU64::new(0);
            // Excess in units of 1 / t; none before the first request of a key, which is free.
            let mut last: Option<(u64, u64)> = None;
            let mut now = 0;
            let mut departures = Vec::new();
            for gap in gaps {
                now += gap * t / 100;
                let excess = last.map_or(0, |(at, excess)| (excess + t).saturating_sub(now - at));
                let expected = if excess > u64::from(burst) * t {
                    None
                } else {
                    last = Some((now, excess));
                    Some(excess.saturating_sub(u64::from(undelayed) * t))
                };
                prop_assert_eq!(ask(&word, now, &limit).ok(), expected);
                departures.extend(expected.map(|delay| now + delay));
            }
            if undelayed == 0 {
                prop_assert!(departures.windows(2).all(|pair| pair[1] - pair[0] >= t));
            }
        }
    }
}
