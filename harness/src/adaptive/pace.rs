//! The pace learnt from throttling: the earliest time of the next request, and its changes.
//!
//! Kept by a shard's `Adaptive`. It plans (a schedule with a little slack, as the budget's pacer)
//! and it learns (once per episode, from [`super::ceiling`]); it never waits.
//!
//! # Phases
//!
//! ```text
//! Free --1st episode--> Search --refused--> Rise --refused--> Rise ... --agreed--> Hold --time is up--> Rise
//! ```
//!
//! - *Free*: never throttled. No pace, no cost.
//! - *Search*: doubles, from half of what was accepted in the second before the first refusal,
//!   until it is refused.
//! - *Rise*: starts a little below the estimate and grows faster and faster until it is refused.
//! - *Hold*: stays just below an estimate that was confirmed. A failed attempt to go faster costs a
//!   whole pause, so it is made once in sixty pauses: it may cost a sixtieth of what the target
//!   allows, and a limit that was raised is found in about a minute when pauses take a second. A
//!   hold that is refused steps down.
//!
//! Growth is by the clock since the end of the pause, which all shards know, so that shards that
//! resume staggered have the same curve; a shard that does not use its pace does not grow it.

use std::f64::consts::LN_2;

use super::ceiling::{Ceiling, Certainty, Episode, FLOOR};
use super::history::{History, seconds};
use crate::clock::Nanos;
use crate::pacer::{Gcra, Pace};
use crate::sample::{Attempt, Outcome};

/// The fastest pace: one request per nanosecond, the grain of the schedule.
const CEILING: f64 = 1e9;

/// Limit on the lateness that is made up for, ns: an alarm rings late beside other work. With a
/// known burst it is half of that, if less.
const SLACK_NS: f64 = 4e6;

/// Time in which a search doubles, ns, unless a round trip is longer: a shorter one would fly
/// further past the limit before it receives a refusal, and would locate the limit less well; a
/// longer one loses more on the way.
const DOUBLING_NS: f64 = 50e6;

/// While a pace grows, a wait is asked about again after this time, ns: the moment that an old pace
/// gave is too far away.
const LOOK_AGAIN_NS: u64 = 10_000_000;

/// The share of an estimate that a rise starts from, and the one that is held. The latter leaves
/// room for the count's own error; more would cost more than the pause that it saves.
const COARSE_SHARE: f64 = 0.95;
const HELD_SHARE: f64 = 0.988;

/// Length of a hold, in pauses: after episodes that agreed, and after the best estimate available.
const AGREED_PAUSES: f64 = 60.0;
const FAIR_PAUSES: f64 = 30.0;

/// Shortest pause that the length of a hold is computed from, s: even if no shard waits, a refusal
/// costs the target something.
const LEAST_PAUSE_S: f64 = 0.1;

/// A rise's growth, as a part of the pace per second: at first at least, and at most. It doubles
/// every second.
const FIRST_GROWTH: f64 = 0.01;
const FASTEST_GROWTH: f64 = 2.8;

/// The part of the way (as a ratio) to the refused pace that a rise covers in its first second.
const STRIDE: f64 = 0.3;

/// At least so many requests must go by for each e-fold of a rise: without them growth would be
/// blind.
const REQUESTS_PER_FOLD: f64 = 4.0;

/// Fewer accepted requests than these carry no estimate.
const FEW: f64 = 3.0;

/// News value of a report of throttling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// A new episode.
    Episode,
    /// A part of one that is known.
    Aftermath,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    Free,
    Search,
    /// Grows by this part of itself per second.
    Rise {
        growth: f64,
    },
    Hold {
        until: Nanos,
    },
}

/// The learnt pace of one shard.
#[derive(Debug)]
pub(super) struct LearntPace {
    phase: Phase,
    /// Requests per second; means nothing while free.
    per_s: f64,
    schedule: Gcra,
    last_admitted: Option<Nanos>,
    grown_at: Nanos,
    usage: PaceUsage,
    history: History,
    ceiling: Ceiling,
    /// A smoothed round trip, ns; 0 before the first.
    rtt_ns: f64,
    /// The end of the last pause that is over.
    began: Nanos,
    /// The pace at that moment.
    base: f64,
    last_episode: Option<Nanos>,
    /// An episode that nothing was learnt from yet: its aftermath is still coming in.
    noticed: Option<Nanos>,
    quiet_until: Nanos,
    /// Last refusal of a request of this shard.
    refused: Option<Refused>,
    /// Holds in a row that were refused within 2 s; at most 4.
    hasty: i32,
}

impl LearntPace {
    /// No pace, from `start` on.
    pub(super) fn new(start: Nanos) -> Self {
        Self {
            phase: Phase::Free,
            per_s: FLOOR,
            schedule: Gcra::new(start),
            last_admitted: None,
            grown_at: start,
            usage: PaceUsage::new(),
            history: History::new(),
            ceiling: Ceiling::new(),
            rtt_ns: 0.0,
            began: start,
            base: FLOOR,
            last_episode: None,
            noticed: None,
            quiet_until: start,
            refused: None,
            hasty: 0,
        }
    }

    /// The pace in requests per second; none while none was learnt.
    pub(super) fn per_second(&self) -> Option<f64> {
        (self.phase != Phase::Free).then_some(self.per_s)
    }

    /// Asks for one request at `now`.
    pub(super) fn poll(&mut self, now: Nanos) -> Pace {
        if now < self.quiet_until {
            return Pace::Wait(self.quiet_until);
        }
        if let Some(noticed) = self.noticed.take() {
            self.learn(noticed, now);
        }
        if self.phase == Phase::Free {
            return Pace::Go(now);
        }
        self.grow(now);
        let slack = self.slack_ns();
        // Under a faster pace than the one that it was planned with, the next request is nearer.
        self.schedule
            .advance(later(now, self.interval_ns().saturating_add(slack)));
        let due = self.schedule.allowed_since(slack);
        if due <= now {
            return Pace::Go(due.max(self.quiet_until).min(now));
        }
        match self.phase {
            Phase::Hold { .. } | Phase::Free => Pace::Wait(due),
            Phase::Search | Phase::Rise { .. } => Pace::Wait(due.min(later(now, LOOK_AGAIN_NS))),
        }
    }

    /// A request goes at `now`.
    pub(super) fn admitted(&mut self, now: Nanos) {
        self.history.sent(now);
        self.usage.admitted();
        self.last_admitted = Some(now);
        if self.phase != Phase::Free {
            self.schedule.admit(now, self.interval_ns());
        }
    }

    /// An attempt ended.
    pub(super) fn ended(&mut self, attempt: &Attempt) {
        let Some(sent) = attempt.sent else { return };
        let took_ns = attempt.done.since(sent) as f64;
        // The smoothing of TCP's round trip (RFC 6298).
        self.rtt_ns = if self.rtt_ns == 0.0 {
            took_ns
        } else {
            self.rtt_ns + (took_ns - self.rtt_ns) / 8.0
        };
        if attempt.outcome == Outcome::Throttled {
            self.refused = Some(Refused {
                sent,
                noticed: attempt.done,
            });
        }
        let accepted = match attempt.outcome {
            Outcome::Throttled => false,
            Outcome::Ok
            | Outcome::NotFound
            | Outcome::Redirected
            | Outcome::SoftBlocked
            | Outcome::Rejected => true,
            Outcome::Error(_) => attempt.status.is_some(),
        };
        if accepted {
            self.history.accepted(sent);
        }
    }

    /// Throttling was noticed at `at`; nothing will be sent until `until`.
    pub(super) fn throttled(&mut self, at: Nanos, until: Nanos) -> News {
        let known = self.noticed.is_some()
            || (self.last_episode.is_some() && self.was_sent_before_the_end(at));
        // Where no request waits, later refusals must not put off the end of their own aftermath.
        if until > at || !known {
            self.quiet_until = self.quiet_until.max(until);
        }
        if known {
            return News::Aftermath;
        }
        self.noticed = Some(at);
        News::Episode
    }

    /// True if the request whose refusal was noticed at `at` was sent before the last pause ended.
    fn was_sent_before_the_end(&self, at: Nanos) -> bool {
        match self.refused {
            Some(refused) if refused.noticed == at => refused.sent < self.quiet_until,
            // Another shard's: what is noticed within half a round trip after a pause was sent
            // before it.
            _ => at < later(self.quiet_until, whole_ns(self.rtt_ns / 2.0)),
        }
    }

    /// Grows the pace for the time since it last grew.
    fn grow(&mut self, now: Nanos) {
        let elapsed_s = now.since(self.grown_at) as f64 / 1e9;
        self.grown_at = now;
        if self.usage.is_idle(elapsed_s, self.per_s) {
            return;
        }
        match self.phase {
            Phase::Free => {}
            Phase::Search => {
                self.set(self.per_s * (self.growth_per_s() * elapsed_s).min(4.0 * LN_2).exp());
            }
            Phase::Rise { growth } => {
                self.set(self.per_s * (self.growth_per_s() * elapsed_s).min(2.0).exp());
                self.phase = Phase::Rise {
                    growth: (growth * elapsed_s.exp2()).min(FASTEST_GROWTH),
                };
            }
            Phase::Hold { until } => {
                if now >= until {
                    self.ceiling.look_higher();
                    self.phase = Phase::Rise {
                        growth: FIRST_GROWTH,
                    };
                }
            }
        }
    }

    /// By which part of itself the pace grows per second.
    fn growth_per_s(&self) -> f64 {
        match self.phase {
            Phase::Free | Phase::Hold { .. } => 0.0,
            Phase::Search => LN_2 * 1e9 / DOUBLING_NS.max(self.rtt_ns),
            Phase::Rise { growth } => growth.min(self.per_s / REQUESTS_PER_FOLD),
        }
    }

    /// Learns from the episode that was noticed at `noticed`, whose pause is over.
    fn learn(&mut self, noticed: Nanos, now: Nanos) {
        let episode = self.episode(noticed);
        let pause_s = seconds(self.quiet_until.since(noticed)).max(LEAST_PAUSE_S);
        let hold = |pauses: f64| Phase::Hold {
            until: later(now, whole_ns(pauses * pause_s * 1e9)),
        };
        let (per_s, phase) = match self.phase {
            Phase::Free => {
                self.ceiling.first(&episode);
                (episode.last_second() / 2.0, Phase::Search)
            }
            Phase::Search if episode.accepted < FEW => (self.per_s / 4.0, rise(1.0)),
            Phase::Rise { .. } | Phase::Hold { .. } if episode.accepted < FEW => {
                (self.per_s * 0.7, rise(1.0))
            }
            Phase::Search | Phase::Rise { .. } => {
                let estimate = match self.phase {
                    Phase::Search => self.ceiling.after_search(&episode),
                    _ => self.ceiling.after_rise(&episode),
                };
                match estimate.certainty {
                    Certainty::Agreed => (estimate.per_s * HELD_SHARE, hold(AGREED_PAUSES)),
                    Certainty::Fair => (estimate.per_s * HELD_SHARE, hold(FAIR_PAUSES)),
                    Certainty::Coarse => (
                        estimate.per_s * COARSE_SHARE,
                        rise(episode.refused / estimate.per_s),
                    ),
                }
            }
            Phase::Hold { .. } => match self.step_down(&episode) {
                (per_s, StepDown::Small) => (per_s, hold(AGREED_PAUSES)),
                (per_s, StepDown::Large { ratio }) => (per_s, rise(ratio)),
            },
        };
        if !matches!(phase, Phase::Hold { .. }) {
            self.hasty = 0;
        }
        self.phase = phase;
        self.set(per_s);
        self.base = self.per_s;
        self.last_episode = Some(noticed);
        self.ceiling.keep(episode);
        self.resume(now);
    }

    /// Return the observations of the episode that was noticed at `noticed`.
    fn episode(&self, noticed: Nanos) -> Episode {
        // What is sent between the refused request and its answer meets a bucket that stays empty,
        // and is accepted at just the rate that is sought: counting up to the answer needs no guess
        // of when the refused request was sent.
        let end = noticed.max(self.began);
        let accepted = self.history.total() as f64;
        Episode {
            windows: self.history.windows(end),
            active_s: seconds(end.since(self.began)),
            accepted,
            least: self
                .last_episode
                .map_or(0.0, |last| accepted / seconds(end.since(last))),
            refused: self.per_s * (-self.growth_per_s() * self.rtt_ns / 1e9).exp(),
            base: self.base,
        }
    }

    /// A hold was refused: the limit fell, or another shard rose into it, or the estimate was too
    /// high.
    fn step_down(&mut self, episode: &Episode) -> (f64, StepDown) {
        self.hasty = if episode.active_s < 2.0 {
            (self.hasty + 1).min(4)
        } else {
            0
        };
        if self.ceiling.burst().is_none() && episode.active_s < 1.0 {
            // Far too fast, but by how much depends on how full the target's count still was: half
            // of the way down.
            let middle = (episode.least * self.per_s).sqrt();
            return (
                middle,
                StepDown::Large {
                    ratio: self.per_s / middle,
                },
            );
        }
        let part = match episode.active_s {
            ..0.25 => 0.6,
            // Once may be bad luck. A hold that is refused again and again at once is far off.
            ..10.0 => 0.96_f64.powi(self.hasty.max(1)),
            _ => 0.97,
        };
        let mut per_s = self.per_s * part;
        if self.ceiling.is_window() {
            per_s = per_s.min(episode.last_second() * HELD_SHARE);
        }
        self.ceiling.corrected(per_s);
        (
            per_s.max(episode.least),
            if part < 0.9 {
                StepDown::Large { ratio: 1.0 }
            } else {
                StepDown::Small
            },
        )
    }

    /// Starts afresh after a pause.
    fn resume(&mut self, now: Nanos) {
        self.history.clear();
        self.usage = PaceUsage::new();
        let late_s = now.since(self.quiet_until) as f64 / 1e9;
        self.set(self.per_s * (self.growth_per_s() * late_s).min(2.0).exp());
        self.grown_at = now;
        self.began = self.quiet_until;
        // Nothing to catch up with: the first moments after a pause would be a burst. At a slow
        // pace the first request also keeps its distance from the last one, or all shards would
        // begin together after every pause.
        let spaced = self
            .last_admitted
            .map_or(now, |last| later(last, self.interval_ns()));
        self.schedule = Gcra::new(later(spaced.max(now), self.slack_ns()));
    }

    fn set(&mut self, per_s: f64) {
        self.per_s = if per_s.is_finite() {
            per_s.clamp(FLOOR, CEILING)
        } else {
            FLOOR
        };
    }

    fn interval_ns(&self) -> u64 {
        whole_ns(1e9 / self.per_s)
    }

    fn slack_ns(&self) -> u64 {
        let burst_ns = self
            .ceiling
            .burst()
            .map_or(SLACK_NS, |burst| burst / 2.0 * 1e9 / self.per_s);
        whole_ns(burst_ns.min(SLACK_NS))
    }
}

/// A refused request of this shard.
#[derive(Debug, Clone, Copy)]
struct Refused {
    sent: Nanos,
    noticed: Nanos,
}

/// Size of the step down from a refused hold.
#[derive(Debug, Clone, Copy, PartialEq)]
enum StepDown {
    /// To a pace that is held.
    Small,
    /// To a pace that the limit is looked for from, which may be so many times as high.
    Large { ratio: f64 },
}

/// True if the pace is what limits the shard.
#[derive(Debug)]
struct PaceUsage {
    state: Use,
    seconds: f64,
    expected: f64,
    admitted: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Full,
    Idle,
}

impl PaceUsage {
    const fn new() -> Self {
        Self {
            state: Use::Full,
            seconds: 0.0,
            expected: 0.0,
            admitted: 0.0,
        }
    }

    fn admitted(&mut self) {
        self.admitted += 1.0;
    }

    /// After `elapsed_s` more at `per_s`: whether less than 70 % of what the pace allowed was sent
    /// in the last step of at least 50 ms and three requests. Two requests are forgiven: a schedule
    /// that accelerates is late by as many.
    fn is_idle(&mut self, elapsed_s: f64, per_s: f64) -> bool {
        self.expected += elapsed_s * per_s;
        self.seconds += elapsed_s;
        if self.seconds >= 0.05 && self.expected >= 3.0 {
            let full = self.admitted + 2.0 >= 0.7 * self.expected;
            *self = Self {
                state: if full { Use::Full } else { Use::Idle },
                ..Self::new()
            };
        }
        self.state == Use::Idle
    }
}

/// A rise towards a pace that is `ratio` times the one it starts near.
fn rise(ratio: f64) -> Phase {
    let growth = ratio.max(1.0).ln() * STRIDE;
    Phase::Rise {
        growth: if growth.is_finite() {
            growth.clamp(FIRST_GROWTH, FASTEST_GROWTH)
        } else {
            FIRST_GROWTH
        },
    }
}

fn later(at: Nanos, ns: u64) -> Nanos {
    Nanos(at.0.saturating_add(ns))
}

/// `ns` as a whole number; what is negative or no number is 0, what is too large is the largest.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating is what is meant"
)]
fn whole_ns(ns: f64) -> u64 {
    ns as u64
}
