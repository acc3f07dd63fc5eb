//! The rate learnt from throttling: the earliest time of the next request, and its growth.
//!
//! Kept by a shard's `Adaptive`; it never waits. Until the first refusal there is no rate and no
//! cost. From the end of each throttle pause on, the rate follows a [`Curve`], which all shards
//! compute from the same two times, so that their requests stay interleaved.

use crate::clock::Nanos;
use crate::pacer::Pace;
use crate::sample::{Attempt, Outcome};

/// The slowest and the fastest rate, requests per second.
const SLOWEST: f64 = 0.1;
const FASTEST: f64 = 1e9;

/// After the first refusal: a rate below any limit worth crawling, and the time in which it
/// doubles, unless a round trip is longer. It passes 1,000/s after half a second.
const FIRST_PER_S: f64 = 1.0;
const FIRST_DOUBLING_S: f64 = 0.05;

/// Each refusal makes the next doubling so many times as long, up to so many throttle pauses. Of
/// 4 to 40 and 40 to 200, these lost least over a minute of every simulated limit.
const SLOWER: f64 = 10.0;
const LONGEST_DOUBLING_PAUSES: f64 = 80.0;

/// A rate that was refused after a second is known for no more than so many seconds.
const KNOWN: f64 = 20.0;

/// A bucket that holds fewer requests for a shard leaves no room for what jitter does to its rate.
const LEAST_BURST: f64 = 2.0;

/// The shortest pause that anything is computed from, s: a refusal costs the target something
/// even if no shard waits.
const LEAST_PAUSE_S: f64 = 0.1;

/// The least and the most of a refused rate that is cut off, as shares. The rest of the cut is
/// by what the refusal cost: see [`LearntRate::learn`].
const CUT: f64 = 0.1;
const MOST_CUT: f64 = 0.5;

/// Lateness that is made up for, s: an alarm rings late beside other work.
const SLACK_S: f64 = 0.004;

/// News value of a report of throttling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum News {
    /// A new episode.
    Episode,
    /// A part of one that is known.
    Aftermath,
}

/// A rate that is nearly constant at first and then grows faster and faster: after `s` seconds it
/// is `base * (1 + (s / doubling)^3)`. This is the convex half of CUBIC (RFC 9438, section 4.2)
/// without the concave one, which would approach a rate that is known to be refused.
#[derive(Debug, Clone, Copy)]
struct Curve {
    base: f64,
    doubling_s: f64,
}

impl Curve {
    fn per_s(self, s: f64) -> f64 {
        self.base * (1.0 + (s / self.doubling_s).powi(3))
    }

    /// Requests in the first `s` seconds: the integral.
    fn requests(self, s: f64) -> f64 {
        self.base * (s + s.powi(4) / (4.0 * self.doubling_s.powi(3)))
    }

    /// Requests in the first `s` seconds beyond a constant rate, from when the curve passes it: what
    /// a bucket of that rate held, if it refused then.
    fn excess(self, s: f64, rate: f64) -> f64 {
        let passes_s = self.doubling_s * (rate / self.base - 1.0).max(0.0).cbrt();
        let from_s = passes_s.min(s);
        self.requests(s) - self.requests(from_s) - rate * (s - from_s)
    }

    /// The time of so many requests, by Newton's method from a time that is no earlier.
    fn time_of(self, requests: f64) -> f64 {
        let quartic = 4.0 * requests / self.base * self.doubling_s.powi(3);
        let mut s = (requests / self.base).min(quartic.powf(0.25));
        for _ in 0..6 {
            s -= (self.requests(s) - requests) / self.per_s(s);
        }
        s
    }
}

/// A curve, and the time on it at which a request was sent that was refused.
#[derive(Debug, Clone, Copy)]
struct Refused {
    curve: Curve,
    s: f64,
}

impl Refused {
    /// The rate of the bucket that refused both, no lower than `least`: both emptied it, so that
    /// its rate is the one beyond which they sent as much. None if there is no such rate, or if one
    /// request more would change it by more than [`CUT`].
    fn bucket(self, before: Self, least: f64) -> Option<f64> {
        let most = self.curve.per_s(self.s).min(before.curve.per_s(before.s));
        let (mut low, mut high) = (least, most);
        let more =
            |rate: f64| self.curve.excess(self.s, rate) > before.curve.excess(before.s, rate);
        let is_more = more(low);
        if low >= high || more(high) == is_more {
            return None;
        }
        while high - low > high * 1e-6 {
            let middle = low.midpoint(high);
            if more(middle) == is_more {
                low = middle;
            } else {
                high = middle;
            }
        }
        let is_exact = low * (self.s - before.s).abs() >= 1.0 / CUT;
        let has_burst = self.curve.excess(self.s, low) >= LEAST_BURST;
        (is_exact && has_burst).then_some(low)
    }
}

/// The way of a curve from the end of a pause.
#[derive(Debug)]
struct Climb {
    curve: Curve,
    began: Nanos,
    at: Nanos,
    /// Time for which the rate was used, s: an unused rate does not grow.
    grown_s: f64,
    /// True if a request waited for it since the shard was last late.
    is_used: bool,
    /// Requests allowed so far, and the number at which the next one goes.
    allowed: f64,
    next: f64,
    /// When the last request that had to wait was due.
    due: Nanos,
}

impl Climb {
    fn advance(&mut self, now: Nanos) {
        let s = seconds(now.since(self.at));
        self.at = self.at.max(now);
        let used = self.curve.requests(self.grown_s + s) - self.curve.requests(self.grown_s);
        let per_s = self.curve.per_s(self.grown_s);
        let slack = (per_s * SLACK_S).max(1.0);
        self.is_used &= self.allowed + used - self.next <= slack + 1.0;
        if self.is_used {
            self.allowed += used;
            self.grown_s += s;
            return;
        }
        self.allowed += per_s * s;
        // Whole requests, so that the others keep their places between those of other shards.
        self.next += (self.allowed - self.next - slack).max(0.0).floor();
    }

    fn poll(&mut self, now: Nanos) -> Pace {
        self.advance(now);
        if self.allowed >= self.next {
            return Pace::Go(self.due.min(now));
        }
        self.is_used = true;
        let grown = self.curve.requests(self.grown_s);
        let due_s = self.curve.time_of(grown + self.next - self.allowed);
        self.due = later(now, (due_s - self.grown_s).max(1e-6));
        Pace::Wait(self.due)
    }
}

/// The learnt rate of one shard.
#[derive(Debug)]
pub(super) struct LearntRate {
    /// Place of the shard between the requests of the others, from 0 to 1.
    place: f64,
    climb: Option<Climb>,
    /// The last climb that was refused.
    refused: Option<Refused>,
    /// A smoothed round trip, s; 0 before the first.
    rtt_s: f64,
    /// When an episode was noticed that nothing was learnt from yet: its aftermath is still coming
    /// in.
    noticed: Option<Nanos>,
    quiet_until: Nanos,
    /// When the last refused request of this shard was sent, and when it was noticed.
    last_refused: Option<(Nanos, Nanos)>,
}

impl LearntRate {
    /// No rate, from `start` on.
    pub(super) const fn new(place: f64, start: Nanos) -> Self {
        Self {
            place,
            climb: None,
            refused: None,
            rtt_s: 0.0,
            noticed: None,
            quiet_until: start,
            last_refused: None,
        }
    }

    /// The rate in requests per second; none while none was learnt.
    pub(super) fn per_second(&self) -> Option<f64> {
        let climb = self.climb.as_ref()?;
        Some(climb.curve.per_s(climb.grown_s).min(FASTEST))
    }

    /// Asks for one request at `now`; without a rate it was allowed since ever.
    pub(super) fn poll(&mut self, now: Nanos) -> Pace {
        if now < self.quiet_until {
            return Pace::Wait(self.quiet_until);
        }
        if let Some(noticed) = self.noticed.take() {
            self.learn(noticed);
        }
        self.climb
            .as_mut()
            .map_or(Pace::Go(Nanos::default()), |climb| climb.poll(now))
    }

    /// A request goes.
    pub(super) const fn admitted(&mut self) {
        if let Some(climb) = &mut self.climb {
            climb.next += 1.0;
        }
    }

    /// An attempt ended.
    pub(super) fn ended(&mut self, attempt: &Attempt) {
        let Some(sent) = attempt.sent else { return };
        let took_s = seconds(attempt.done.since(sent));
        // The smoothing of TCP's round trip (RFC 6298).
        self.rtt_s = if self.rtt_s == 0.0 {
            took_s
        } else {
            self.rtt_s + (took_s - self.rtt_s) / 8.0
        };
        if attempt.outcome == Outcome::Throttled {
            self.last_refused = Some((sent, attempt.done));
        }
    }

    /// Throttling was noticed at `at`; nothing will be sent until `until`.
    pub(super) fn throttled(&mut self, at: Nanos, until: Nanos) -> News {
        let is_known = self.noticed.is_some() || (self.climb.is_some() && self.is_aftermath(at));
        // Where no request waits, later refusals must not put off the end of their own aftermath.
        if until > at || !is_known {
            self.quiet_until = self.quiet_until.max(until);
        }
        if !is_known {
            self.noticed = Some(at);
            return News::Episode;
        }
        // Shards that noticed refusals at once all go by the first of them.
        if let Some(first) = &mut self.noticed {
            *first = at.min(*first);
        }
        News::Aftermath
    }

    /// True if the request whose refusal was noticed at `at` was sent before the last pause ended.
    fn is_aftermath(&self, at: Nanos) -> bool {
        match self.last_refused {
            Some((sent, noticed)) if noticed == at => sent < self.quiet_until,
            // Another shard's: what is noticed within half a round trip after a pause was sent
            // before it.
            _ => at < later(self.quiet_until, self.rtt_s / 2.0),
        }
    }

    /// Learns from an episode that was noticed at `at`, and whose pause is over.
    ///
    /// The estimate is what was accepted in the last second. Two climbs that were both refused
    /// within a second tell the rate of a bucket exactly ([`Refused::bucket`]); one whose rate is
    /// lower than what was accepted is none. The estimate is cut by [`CUT`] times the square root
    /// of the share of time that the pause took: a refusal after a long time is cheap, and says
    /// that the rate is nearly right. A bucket's rate is held for long, and cut as after such a
    /// climb.
    fn learn(&mut self, at: Nanos) {
        let began = self.quiet_until;
        let pause_s = seconds(began.since(at)).max(LEAST_PAUSE_S);
        // A power of two, so that shards with nearly the same round trip have the same.
        let rtt_s = self.rtt_s.log2().ceil().exp2();
        let curve = match &mut self.climb {
            None => Curve {
                base: FIRST_PER_S,
                doubling_s: rtt_s.max(FIRST_DOUBLING_S),
            },
            Some(climb) => {
                climb.advance(at);
                let s = (climb.grown_s - seconds(climb.at.since(at))).max(0.0);
                let (curve, refused) = (climb.curve, climb.curve.per_s(s));
                let accepted = curve.requests(s);
                let last_second = accepted - curve.requests((s - 1.0).max(0.0));
                let cycle_s = seconds(at.since(climb.began)) + pause_s;
                let longest_s = LONGEST_DOUBLING_PAUSES * pause_s;
                let slower_s = (curve.doubling_s * SLOWER).min(s * KNOWN);
                // It was sent a round trip before it was noticed.
                let sent_s = (s - self.rtt_s).max(0.0);
                let now = Refused { curve, s: sent_s };
                let before = self.refused.replace(now);
                let bucket = before
                    .filter(|before| s < 1.0 && before.s < 1.0)
                    .and_then(|before| now.bucket(before, last_second));
                let counted = last_second.clamp(refused * MOST_CUT, refused);
                let (estimate, lasts_s, doubling_s) = match bucket {
                    Some(rate) => (rate, longest_s, longest_s),
                    None => (counted, cycle_s, slower_s),
                };
                Curve {
                    base: estimate * (1.0 - CUT * (pause_s / lasts_s).sqrt()),
                    doubling_s: doubling_s.clamp(FIRST_DOUBLING_S, longest_s),
                }
            }
        };
        self.climb = Some(Climb {
            curve: Curve {
                base: curve.base.clamp(SLOWEST, FASTEST),
                ..curve
            },
            began,
            at: began,
            grown_s: 0.0,
            is_used: true,
            allowed: 0.0,
            next: 1.0 + self.place,
            due: began,
        });
    }
}

/// Nanoseconds as seconds; never 0, so that a rate over them is finite.
fn seconds(ns: u64) -> f64 {
    ns.max(1) as f64 / 1e9
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturating is what is meant"
)]
fn later(at: Nanos, s: f64) -> Nanos {
    Nanos(at.0.saturating_add((s * 1e9).ceil() as u64))
}
