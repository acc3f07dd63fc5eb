//! A crawl against a limited target in simulated time: several shards with their controllers, the supervisor's broadcast
//! of pauses, and limiters that the controllers know nothing of.
//!
//! Deterministic: events are taken in the order of time, ties in the order in which they were made, and everything drawn
//! comes from a seeded generator. Used by the tests of `adaptive` only.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::{Adaptive, AdaptiveKind};
use crate::clock::Nanos;
use crate::pacer::Pace;
use crate::sample::{Attempt, Outcome};

pub(super) const SECOND: u64 = 1_000_000_000;

/// How the target counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Algorithm {
    /// A token bucket (as GCRA admits) that holds so many.
    Bucket(f64),
    /// So many per second of the clock.
    FixedWindow,
    /// So many in any second.
    SlidingWindow,
    /// No limit.
    None,
}

/// One crawl.
#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) kind: AdaptiveKind,
    pub(super) algorithm: Algorithm,
    /// From each moment on (seconds), so many requests per second.
    pub(super) rates: Vec<(u64, f64)>,
    pub(super) shards: usize,
    pub(super) lanes: u32,
    /// The mean round trip; each way is drawn from 0.9 to 1.1 of its half.
    pub(super) rtt_ns: u64,
    pub(super) seconds: u64,
    pub(super) seed: u64,
}

/// What became of it.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    /// Accepted, per second.
    pub(super) accepted: Vec<u64>,
    /// Throttled, per second.
    pub(super) throttled: Vec<u64>,
    pub(super) episodes: Vec<u64>,
    pub(super) limits: Vec<u32>,
    pub(super) paces: Vec<Option<f64>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Arrives { shard: usize, sent: u64, back: u64 },
    Returns { shard: usize, sent: u64, retry_after: Option<u64> },
    Paused { shard: usize, noticed: u64, until: u64 },
    Wakes { shard: usize },
}

struct Limiter {
    algorithm: Algorithm,
    tokens: f64,
    at: u64,
    window: u64,
    count: u64,
    log: VecDeque<u64>,
}

impl Limiter {
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
                Some(((1.0 - self.tokens) / rate * 1e9) as u64)
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
                Some(self.log[self.log.len() - rate as usize] + SECOND - now)
            }
        }
    }
}

struct Shard {
    adaptive: Adaptive,
    in_flight: u32,
    paused_until: u64,
    wakes: u64,
}

pub(super) struct Simulation {
    case: Case,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    shards: Vec<Shard>,
    limiter: Limiter,
    draws: u64,
    known_until: u64,
    outcomes: Outcomes,
}

impl Simulation {
    pub(super) fn run(case: &Case) -> Outcomes {
        let first = (10 / case.shards as u32).max(1);
        let shard = |_| Shard {
            adaptive: Adaptive::new(case.kind, case.lanes, first, Nanos(0)),
            in_flight: 0,
            paused_until: 0,
            wakes: u64::MAX,
        };
        let tokens = if let Algorithm::Bucket(burst) = case.algorithm { burst } else { 0.0 };
        let limiter = Limiter { algorithm: case.algorithm, tokens, at: 0, window: 0, count: 0, log: VecDeque::new() };
        let mut this = Self {
            case: case.clone(),
            events: BinaryHeap::new(),
            made: 0,
            shards: (0..case.shards).map(shard).collect(),
            limiter,
            draws: case.seed,
            known_until: 0,
            outcomes: Outcomes {
                accepted: vec![0; case.seconds as usize],
                throttled: vec![0; case.seconds as usize],
                ..Outcomes::default()
            },
        };
        for shard in 0..case.shards {
            this.send_what_may_go(shard, 0);
        }
        while let Some(Reverse((now, _, event))) = this.events.pop() {
            if now >= case.seconds * SECOND {
                break;
            }
            this.happens(now, event);
        }
        this.outcomes.limits = this.shards.iter().map(|shard| shard.adaptive.limit()).collect();
        this.outcomes.paces = this.shards.iter().map(|shard| shard.adaptive.standing().pace_per_s).collect();
        this.outcomes
    }

    fn happens(&mut self, now: u64, event: Event) {
        match event {
            Event::Arrives { shard, sent, back } => {
                let rate = self.case.rates.iter().rev().find(|(from, _)| from * SECOND <= now).map_or(1.0, |r| r.1);
                let refused = self.limiter.refuses(now, rate);
                let second = (now / SECOND) as usize;
                if refused.is_some() {
                    self.outcomes.throttled[second] += 1;
                } else {
                    self.outcomes.accepted[second] += 1;
                }
                let retry_after = refused.map(|wait| wait.div_ceil(SECOND).max(1) * SECOND);
                self.at(now + back, Event::Returns { shard, sent, retry_after });
            }
            Event::Returns { shard, sent, retry_after } => {
                let outcome = if retry_after.is_some() { Outcome::Throttled } else { Outcome::Ok };
                let attempt = Attempt {
                    sent: Some(Nanos(sent)),
                    first_byte: None,
                    done: Nanos(now),
                    connect_ns: None,
                    bytes_sent: 0,
                    bytes_received: 0,
                    status: Some(200),
                    outcome,
                    advice: crate::sample::Advice::default(),
                };
                let (in_flight, controller) = (self.shards[shard].in_flight, &mut self.shards[shard].adaptive);
                controller.ended(Nanos(now), in_flight, &attempt);
                self.shards[shard].in_flight -= 1;
                if let Some(wait) = retry_after {
                    self.pause(shard, now, now + wait);
                    // Told to the supervisor, which tells everybody.
                    if now >= self.known_until {
                        self.outcomes.episodes.push(now);
                    }
                    if now + wait > self.known_until + 10_000_000 {
                        for other in (0..self.shards.len()).filter(|other| *other != shard) {
                            self.at(now + 1_000_000, Event::Paused { shard: other, noticed: now, until: now + wait });
                        }
                    }
                    self.known_until = self.known_until.max(now + wait);
                }
                self.send_what_may_go(shard, now);
            }
            Event::Paused { shard, noticed, until } => {
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

    /// A shard resumes up to a tenth later than it may, each at its own place in that tenth.
    fn pause(&mut self, shard: usize, noticed: u64, until: u64) {
        let stagger = (until - noticed) / 10 * shard as u64 / self.case.shards as u64;
        let it = &mut self.shards[shard];
        it.adaptive.throttled(Nanos(noticed), Nanos(until));
        it.paused_until = it.paused_until.max(until + stagger);
    }

    fn send_what_may_go(&mut self, shard: usize, now: u64) {
        loop {
            let it = &mut self.shards[shard];
            if it.in_flight >= it.adaptive.limit().min(self.case.lanes) {
                return;
            }
            let next = if now < it.paused_until {
                it.paused_until
            } else {
                match it.adaptive.poll(Nanos(now)) {
                    Pace::Go(since) => {
                        assert!(since.0 <= now);
                        it.adaptive.admitted(Nanos(now));
                        it.in_flight += 1;
                        let there = self.draw(self.case.rtt_ns * 45 / 100, self.case.rtt_ns * 55 / 100);
                        let back = self.draw(self.case.rtt_ns * 45 / 100, self.case.rtt_ns * 55 / 100);
                        self.at(now + there, Event::Arrives { shard, sent: now, back });
                        continue;
                    }
                    Pace::Wait(next) => next.0,
                }
            };
            assert!(next > now);
            if next < it.wakes {
                it.wakes = next;
                self.at(next, Event::Wakes { shard });
            }
            return;
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        self.made += 1;
        self.events.push(Reverse((time, self.made, event)));
    }

    /// A number from `low` to `high`, by SplitMix64 (Steele, Lea and Flood, 2014).
    fn draw(&mut self, low: u64, high: u64) -> u64 {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.draws;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        low + (z ^ (z >> 31)) % (high - low + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table() {
        let only = std::env::var("ONLY").unwrap_or_default();
        let rate: f64 = std::env::var("RATE").map_or(1000.0, |r| r.parse().unwrap());
        let secs: u64 = std::env::var("SECS").map_or(60, |r| r.parse().unwrap());
        let lanes: u32 = std::env::var("LANES").map_or(256, |r| r.parse().unwrap());
        let kind = if std::env::var("GRAD").is_ok() { AdaptiveKind::Gradient } else { AdaptiveKind::Aimd };
        let (mut sum, mut n) = (0.0, 0);
        let mut groups: std::collections::BTreeMap<String, Vec<f64>> = Default::default();
        for algorithm in [
            Algorithm::Bucket(10.0),
            Algorithm::Bucket(100.0),
            Algorithm::Bucket(rate),
            Algorithm::FixedWindow,
            Algorithm::SlidingWindow,
        ] {
            for shards in [1, 2, 4] {
                for rtt_us in [100, 2_000, 20_000, 200_000] {
                    let name = format!("{algorithm:?} x{shards} {rtt_us}us");
                    if !name.contains(&only) {
                        continue;
                    }
                    let mut line = String::new();
                    let first: u64 = std::env::var("SEED").map_or(1, |s| s.parse().unwrap());
                    for seed in first..=(if std::env::var("TRACE").is_ok() { first } else { 8 }) {
                        let case = Case {
                            kind,
                            algorithm,
                            rates: vec![(0, rate)],
                            shards,
                            lanes,
                            rtt_ns: rtt_us * 1000,
                            seconds: secs,
                            seed,
                        };
                        let out = Simulation::run(&case);
                        let ok: u64 = out.accepted.iter().sum();
                        let late: u64 = out.throttled[5..].iter().sum();
                        let late_ok: u64 = out.accepted[5..].iter().sum();
                        let share = ok as f64 / (rate * secs as f64) * 100.0;
                        sum += share;
                        n += 1;
                        groups.entry(format!("{algorithm:?}")).or_default().push(share);
                        groups.entry(format!("_{rtt_us:06}us")).or_default().push(share);
                        groups.entry(format!("_x{shards}")).or_default().push(share);
                        let ep: Vec<String> = out.episodes.iter().map(|e| format!("{:.1}", *e as f64 / 1e9)).collect();
                        line += &format!(
                            " | {share:5.1}% {:4.2}% {:2} [{:28}]",
                            late as f64 / (late + late_ok).max(1) as f64 * 100.0,
                            ep.len(),
                            ep.iter().take(6).cloned().collect::<Vec<_>>().join(" ")
                        );
                    }
                    if std::env::var("SHORT").is_err() {
                        println!("{name:28}{line}");
                    }
                }
            }
        }
        let g: Vec<String> = groups
            .iter()
            .map(|(k, v)| {
                format!(
                    "{k} {:.1}/{:.1}",
                    v.iter().sum::<f64>() / v.len() as f64,
                    v.iter().cloned().fold(200.0, f64::min)
                )
            })
            .collect();
        println!("mean {:.2} {}", sum / n as f64, g.join(", "));
    }

    #[test]
    fn changes() {
        for (name, to) in if std::env::var("TRACE").is_ok() {
            vec![("x2", 2000.0)]
        } else {
            vec![("x2", 2000.0), ("x0.5", 500.0), ("x0.1", 100.0)]
        } {
            for algorithm in [
                Algorithm::Bucket(10.0),
                Algorithm::Bucket(100.0),
                Algorithm::Bucket(1000.0),
                Algorithm::FixedWindow,
                Algorithm::SlidingWindow,
            ] {
                for rtt_us in [100, 20_000] {
                    let mut line = String::new();
                    for seed in 1..=2 {
                        let case = Case {
                            kind: AdaptiveKind::Aimd,
                            algorithm,
                            rates: vec![(0, 1000.0), (100, to)],
                            shards: 2,
                            lanes: 256,
                            rtt_ns: rtt_us * 1000,
                            seconds: 300,
                            seed,
                        };
                        let out = Simulation::run(&case);
                        let share = |a: usize, b: usize, r: f64| {
                            out.accepted[a..b].iter().sum::<u64>() as f64 / r / (b - a) as f64 * 100.0
                        };
                        let thr: u64 = out.throttled[100..].iter().sum();
                        line += &format!(
                            " | {:5.1} {:5.1} {:5.1} {:5.1} {:5.1} {:5.1} thr {thr} ep {}",
                            share(10, 100, 1000.0),
                            share(100, 120, to),
                            share(120, 150, to),
                            share(150, 200, to),
                            share(200, 250, to),
                            share(250, 300, to),
                            out.episodes.len()
                        );
                    }
                    println!("{name:5}{algorithm:?} {rtt_us}us {line}");
                }
            }
        }
    }
}
