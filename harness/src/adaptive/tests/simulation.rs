//! A crawl against a limited target in simulated time: several shards with their controllers, the
//! supervisor's broadcast of pauses, and limiters that the controllers know nothing of.
//!
//! Deterministic: events are taken in the order of time, ties in the order in which they were made,
//! and everything drawn comes from a seeded generator. Used by the tests of `adaptive` only.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crate::adaptive::{Adaptive, ControllerState};
use crate::clock::Nanos;
use crate::pacer::Pace;
use crate::plan::AdaptiveKind;
use crate::sample::Outcome;
use crate::stats::tests::attempt_of;

/// A second, ns.
const SECOND: u64 = 1_000_000_000;

/// Time that a shard's report of throttling takes to reach the others through the supervisor, ns.
const BROADCAST_NS: u64 = 1_000_000;

/// Counting algorithm of the target's limiter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Algorithm {
    /// A token bucket (as GCRA admits) that holds so many.
    Bucket(f64),
    /// Requests per second of the clock.
    FixedWindow,
    /// Requests in any second.
    SlidingWindow,
    /// No limit.
    None,
}

/// One crawl.
#[derive(Debug, Clone)]
pub(super) struct SimulatedCrawl {
    /// None: only the rate is learnt.
    pub(super) kind: Option<AdaptiveKind>,
    /// Counting algorithm of the target's limiter.
    pub(super) algorithm: Algorithm,
    /// From each moment on (seconds), so many requests per second.
    pub(super) rates: Vec<(u64, f64)>,
    /// Number of shards, and the limit on the requests in flight in each.
    pub(super) shards: u32,
    pub(super) lanes: u32,
    /// An alarm rings up to this much late, ns.
    pub(super) late_ns: u64,
    /// The mean round trip; each way is drawn from 0.9 to 1.1 of its half.
    pub(super) rtt_ns: u64,
    /// Requests that the target works on at once, each for so many ns; none for all at once, in no
    /// time.
    pub(super) workers: Option<(usize, u64)>,
    /// Duration of the crawl, s.
    pub(super) seconds: usize,
}

impl SimulatedCrawl {
    /// A minute against 1,000/s, by AIMD.
    pub(super) fn new(algorithm: Algorithm, shards: u32, rtt_us: u64) -> Self {
        Self {
            kind: Some(AdaptiveKind::Aimd),
            algorithm,
            rates: vec![(0, 1_000.0)],
            shards,
            lanes: 256,
            late_ns: 0,
            rtt_ns: rtt_us * 1_000,
            workers: None,
            seconds: 60,
        }
    }
}

/// Outcomes of one crawl.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Accepted, per second.
    pub(super) accepted: Vec<u64>,
    /// Throttled, per second.
    pub(super) throttled: Vec<u64>,
    /// When each request was sent and how long its response took, ns.
    pub(super) took: Vec<(u64, u64)>,
    /// State of each shard's controller at the end.
    pub(super) states: Vec<ControllerState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives {
        shard: usize,
        sent: u64,
        back: u64,
    },
    Returns {
        shard: usize,
        sent: u64,
        retry_after: Option<u64>,
    },
    Paused {
        shard: usize,
        noticed: u64,
        until: u64,
    },
    Wakes {
        shard: usize,
    },
}

/// The target's limiter.
struct TargetLimiter {
    algorithm: Algorithm,
    tokens: f64,
    at: u64,
    window: u64,
    count: u64,
    log: VecDeque<u64>,
}

impl TargetLimiter {
    /// Counts a request that arrives at `now`. When it is refused, in how many nanoseconds one
    /// would be accepted.
    fn refuses(&mut self, now: u64, rate: f64) -> Option<u64> {
        match self.algorithm {
            Algorithm::None => None,
            Algorithm::Bucket(burst) => {
                self.tokens = (self.tokens + (now - self.at) as f64 / 1e9 * rate).min(burst);
                self.at = now;
                if self.tokens >= 1.0 {
                    self.tokens -= 1.0;
                    return None;
                }
                Some(whole((1.0 - self.tokens) / rate * 1e9))
            }
            Algorithm::FixedWindow => {
                if now / SECOND != self.window {
                    (self.window, self.count) = (now / SECOND, 0);
                }
                if (self.count as f64) < rate {
                    self.count += 1;
                    return None;
                }
                Some((self.window + 1) * SECOND - now)
            }
            Algorithm::SlidingWindow => {
                while self.log.front().is_some_and(|&at| at + SECOND <= now) {
                    self.log.pop_front();
                }
                if (self.log.len() as f64) < rate {
                    self.log.push_back(now);
                    return None;
                }
                Some(
                    self.log[self.log.len() - usize::try_from(whole(rate)).unwrap_or(1)] + SECOND
                        - now,
                )
            }
        }
    }
}

/// One shard, as its gate knows it.
struct Shard {
    adaptive: Adaptive,
    in_flight: u32,
    paused_until: u64,
    wakes: u64,
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating is what is meant"
)]
fn whole(number: f64) -> u64 {
    number as u64
}

/// The second of the crawl that `now` is in.
fn second(now: u64) -> usize {
    usize::try_from(now / SECOND).unwrap_or(usize::MAX)
}

/// A crawl under way.
pub(super) struct Simulation {
    case: SimulatedCrawl,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    shards: Vec<Shard>,
    limiter: TargetLimiter,
    /// When each of the target's workers is free.
    free: Vec<u64>,
    draws: u64,
    known_until: u64,
    outcomes: Outcomes,
}

impl Outcomes {
    /// The part of what `rate` per second allows that was accepted in these seconds.
    pub(super) fn accepted_share(&self, seconds: std::ops::Range<usize>, rate: f64) -> f64 {
        let length = seconds.len() as f64;
        self.accepted[seconds].iter().sum::<u64>() as f64 / (rate * length)
    }

    /// The part of the attempts from second `from` on that was throttled.
    pub(super) fn throttled_share(&self, from: usize) -> f64 {
        let from = from.min(self.accepted.len());
        let throttled = self.throttled[from..].iter().sum::<u64>() as f64;
        let accepted = self.accepted[from..].iter().sum::<u64>() as f64;
        throttled / (throttled + accepted).max(1.0)
    }
}

impl Simulation {
    /// Crawls.
    pub(super) fn run(case: &SimulatedCrawl) -> Outcomes {
        let first = (10 / case.shards).max(1);
        let shard = |i| Shard {
            adaptive: {
                let learns = Adaptive::new(f64::from(i) / f64::from(case.shards), Nanos(0));
                match case.kind {
                    Some(kind) => learns.limiting(kind, case.lanes, first, Nanos(0)),
                    None => learns,
                }
            },
            in_flight: 0,
            paused_until: 0,
            wakes: u64::MAX,
        };
        let tokens = if let Algorithm::Bucket(burst) = case.algorithm {
            burst
        } else {
            0.0
        };
        let limiter = TargetLimiter {
            algorithm: case.algorithm,
            tokens,
            at: 0,
            window: 0,
            count: 0,
            log: VecDeque::new(),
        };
        let mut this = Self {
            case: case.clone(),
            events: BinaryHeap::new(),
            made: 0,
            shards: (0..case.shards).map(shard).collect(),
            limiter,
            free: vec![0; case.workers.map_or(0, |(workers, _)| workers)],
            draws: 1,
            known_until: 0,
            outcomes: Outcomes {
                accepted: vec![0; case.seconds],
                throttled: vec![0; case.seconds],
                ..Outcomes::default()
            },
        };
        for shard in 0..this.shards.len() {
            this.send_what_may_go(shard, 0);
        }
        while let Some(Reverse((now, _, event))) = this.events.pop() {
            let second = second(now);
            if second >= case.seconds {
                break;
            }
            this.happens(now, event);
        }
        this.outcomes.states = this
            .shards
            .iter()
            .filter_map(|shard| shard.adaptive.state())
            .collect();
        this.outcomes
    }

    fn happens(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrives { shard, sent, back } => {
                let rate = self
                    .case
                    .rates
                    .iter()
                    .rev()
                    .find(|(from, _)| from * SECOND <= now)
                    .map_or(1.0, |r| r.1);
                let refused = self.limiter.refuses(now, rate);
                let second = second(now);
                if refused.is_some() {
                    self.outcomes.throttled[second] += 1;
                } else {
                    self.outcomes.accepted[second] += 1;
                }
                let retry_after = refused.map(|wait| wait.div_ceil(SECOND).max(1) * SECOND);
                let mut done = now;
                if let (Some(free), Some((_, service_ns))) =
                    (self.free.iter_mut().min(), self.case.workers)
                {
                    done = now.max(*free) + service_ns;
                    *free = done;
                }
                self.at(
                    done + back,
                    Event::Returns {
                        shard,
                        sent,
                        retry_after,
                    },
                );
            }
            Event::Returns {
                shard,
                sent,
                retry_after,
            } => {
                self.outcomes.took.push((sent, now - sent));
                let outcome = if retry_after.is_some() {
                    Outcome::Throttled
                } else {
                    Outcome::Ok
                };
                let attempt = attempt_of(Nanos(sent), Nanos(now), outcome);
                let (in_flight, controller) = (
                    self.shards[shard].in_flight,
                    &mut self.shards[shard].adaptive,
                );
                controller.ended(Nanos(now), in_flight, &attempt);
                self.shards[shard].in_flight -= 1;
                if let Some(wait) = retry_after {
                    self.pause(shard, now, now + wait);
                    // Told to the supervisor, which tells everybody.
                    if now + wait > self.known_until {
                        for other in (0..self.shards.len()).filter(|other| *other != shard) {
                            self.at(
                                now + BROADCAST_NS,
                                Event::Paused {
                                    shard: other,
                                    noticed: now,
                                    until: now + wait,
                                },
                            );
                        }
                    }
                    self.known_until = self.known_until.max(now + wait);
                }
                self.send_what_may_go(shard, now);
            }
            Event::Paused {
                shard,
                noticed,
                until,
            } => {
                self.pause(shard, noticed, until);
                self.send_what_may_go(shard, now);
            }
            Event::Wakes { shard } => {
                if self.shards[shard].wakes <= now {
                    self.shards[shard].wakes = u64::MAX;
                }
                self.send_what_may_go(shard, now);
            }
        }
    }

    fn pause(&mut self, shard: usize, noticed: u64, until: u64) {
        let it = &mut self.shards[shard];
        it.adaptive.throttled(Nanos(noticed), Nanos(until));
        it.paused_until = it.paused_until.max(until);
    }

    fn send_what_may_go(&mut self, shard: usize, now: u64) {
        loop {
            let it = &mut self.shards[shard];
            if it.in_flight >= it.adaptive.limit().unwrap_or(u32::MAX).min(self.case.lanes) {
                return;
            }
            let next = if now < it.paused_until {
                it.paused_until
            } else {
                match it.adaptive.poll(Nanos(now)) {
                    Pace::Go(since) => {
                        assert!(since.0 <= now);
                        it.adaptive.admitted();
                        it.in_flight += 1;
                        let there =
                            self.draw(self.case.rtt_ns * 45 / 100, self.case.rtt_ns * 55 / 100);
                        let back =
                            self.draw(self.case.rtt_ns * 45 / 100, self.case.rtt_ns * 55 / 100);
                        self.at(
                            now + there,
                            Event::Arrives {
                                shard,
                                sent: now,
                                back,
                            },
                        );
                        continue;
                    }
                    Pace::Wait(next) => next.0,
                }
            };
            assert!(next > now);
            if next < it.wakes {
                it.wakes = next;
                let late = self.draw(self.case.late_ns / 4, self.case.late_ns);
                self.at(next + late, Event::Wakes { shard });
            }
            return;
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.made += 1;
        self.events.push(Reverse((time, self.made, event)));
    }

    /// A number from `low` to `high`, by `SplitMix64` (Steele, Lea and Flood, 2014).
    fn draw(&mut self, low: u64, high: u64) -> u64 {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.draws;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        low + (z ^ (z >> 31)) % (high - low + 1)
    }
}
