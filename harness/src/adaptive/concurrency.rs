//! Limit on the requests in flight: by additive increase and multiplicative decrease, or by the
//! gradient of the latency.
//!
//! Kept by a shard's `Adaptive`, which reports what ended and when throttling was noticed. Knows
//! nothing of paces.

use crate::clock::Nanos;
use crate::plan::AdaptiveKind;
use crate::sample::{Attempt, ErrorKind, Outcome};

/// Share of the limit that is left after throttling or a timeout.
const CUT: f64 = 0.7;

/// Cuts for attempts that never got a connection are at least this far apart, ns: when they began
/// is not known, so they cannot be told from those that the last cut answered.
const UNSENT_CUT_NS: u64 = 1_000_000_000;

/// The gradient holds the mean latency at this multiple of what it is at half of the limit: where
/// latency grows with the requests in flight, that is a little above what the target works on at
/// once.
const TOLERANCE: f64 = 1.25;

/// Part of a change of the limit that is made after each round trip (that of Gradient2 in Netflix's
/// concurrency-limits).
const SMOOTHING: f64 = 0.2;

/// Responses that a mean latency takes at least.
const SAMPLES: f64 = 16.0;

/// Time between two looks at the latency at half of the limit, ns (BBR looks every 10 s).
const LOOK_EVERY_NS: u64 = 2_000_000_000;

/// The limit of one shard.
#[derive(Debug)]
pub(super) struct Concurrency {
    limit: f64,
    lanes: f64,
    growth: Growth,
    /// An attempt sent before this was answered by the last cut.
    cut_at: Option<Nanos>,
}

#[derive(Debug)]
enum Growth {
    Aimd(RoundTrip),
    Gradient(Latency),
}

/// One round trip: it ends when an attempt ends that was sent in it.
#[derive(Debug)]
struct RoundTrip {
    since: Nanos,
    peak: u32,
    step: GrowthStep,
}

/// Step by which a limit grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GrowthStep {
    /// By doubling: the target has not shown any strain yet.
    Double,
    /// By one.
    One,
}

/// The latency with few requests in flight, and now.
#[derive(Debug)]
struct Latency {
    phase: Phase,
    /// Mean latency that the target has without a queue, ns; 0 before it is known.
    base_ns: f64,
    /// The limit after the last look, which half of it is the least until the next one: what was
    /// measured may have been chance.
    looked: f64,
    next_look: Nanos,
    /// Responses to requests that were sent since then count.
    since: Nanos,
    peak: u32,
    samples: f64,
    sum_ns: f64,
}

/// Phase of the gradient.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// From one request in flight, the limit doubles until latency grows.
    Double,
    /// The limit follows the latency.
    Follow,
    /// Half of the limit, `full`, measures the latency without a queue.
    Look { full: f64 },
}

impl Concurrency {
    /// A limit of `first` out of `lanes`, from `start` on.
    pub(super) fn new(kind: AdaptiveKind, lanes: u32, first: u32, start: Nanos) -> Self {
        let lanes = f64::from(lanes.max(1));
        // All shards look at the same moments: the queue is that of all of them.
        let first = if kind == AdaptiveKind::Gradient {
            1
        } else {
            first
        };
        let growth = match kind {
            AdaptiveKind::Aimd => Growth::Aimd(RoundTrip {
                since: start,
                peak: 0,
                step: GrowthStep::Double,
            }),
            AdaptiveKind::Gradient => Growth::Gradient(Latency::new(start)),
        };
        Self {
            limit: f64::from(first).clamp(1.0, lanes),
            lanes,
            growth,
            cut_at: None,
        }
    }

    /// The limit now: 1 to all lanes.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "always between 1 and a u32"
    )]
    pub(super) fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// An attempt ended at `now` while `in_flight` were under way, itself included.
    pub(super) fn ended(&mut self, now: Nanos, in_flight: u32, attempt: &Attempt) {
        if is_strain(attempt) {
            if self.is_news(now, attempt) {
                self.cut(now);
                if let Growth::Aimd(window) = &mut self.growth {
                    window.step = GrowthStep::One;
                }
            }
            return;
        }
        let grown = match &mut self.growth {
            Growth::Aimd(window) => window.ended(now, self.limit, in_flight, attempt),
            Growth::Gradient(latency) => latency.ended(now, self.limit, in_flight, attempt),
        };
        self.limit = grown.clamp(1.0, self.lanes);
    }

    /// An episode of throttling was noticed at `at`. It says nothing of how many requests in flight
    /// are too many, so afterwards the limit grows as it did: what keeps the rate is the pace.
    pub(super) fn throttled(&mut self, at: Nanos) {
        self.cut(at);
    }

    fn is_news(&self, now: Nanos, attempt: &Attempt) -> bool {
        self.cut_at.is_none_or(|cut| match attempt.sent {
            Some(sent) => sent >= cut,
            None => now.since(cut) >= UNSENT_CUT_NS,
        })
    }

    fn cut(&mut self, at: Nanos) {
        self.limit = (self.limit * CUT).floor().clamp(1.0, self.lanes);
        self.cut_at = Some(at);
        match &mut self.growth {
            Growth::Aimd(window) => (window.since, window.peak) = (at, 0),
            Growth::Gradient(latency) => {
                (latency.phase, latency.looked) = (Phase::Follow, self.limit);
                latency.start(at);
            }
        }
    }
}

impl RoundTrip {
    /// The limit after an attempt that ended.
    fn ended(&mut self, now: Nanos, limit: f64, in_flight: u32, attempt: &Attempt) -> f64 {
        self.peak = self.peak.max(in_flight);
        if attempt.sent.unwrap_or(now) < self.since {
            return limit;
        }
        let used = f64::from(self.peak) * 2.0 >= limit;
        (self.since, self.peak) = (now, 0);
        match self.step {
            _ if !used || attempt.outcome == Outcome::Throttled => limit,
            GrowthStep::Double => limit * 2.0,
            GrowthStep::One => limit + 1.0,
        }
    }
}

impl Latency {
    const fn new(start: Nanos) -> Self {
        Self {
            phase: Phase::Double,
            base_ns: 0.0,
            looked: 1.0,
            next_look: Nanos(start.0.saturating_add(LOOK_EVERY_NS / 2)),
            since: start,
            peak: 0,
            samples: 0.0,
            sum_ns: 0.0,
        }
    }

    /// Measure anew from `now` on.
    const fn start(&mut self, now: Nanos) {
        (self.since, self.peak, self.samples, self.sum_ns) = (now, 0, 0.0, 0.0);
    }

    /// The limit after an attempt that ended. Only good answers tell how long the target takes.
    fn ended(&mut self, now: Nanos, limit: f64, in_flight: u32, attempt: &Attempt) -> f64 {
        let good = attempt.outcome.is_answer();
        let Some(sent) = attempt.sent.filter(|sent| good && *sent >= self.since) else {
            return limit;
        };
        self.peak = self.peak.max(in_flight);
        self.samples += 1.0;
        self.sum_ns += attempt.done.since(sent).max(1) as f64;
        if self.samples < SAMPLES.max(limit.floor()) {
            return limit;
        }
        let mean_ns = self.sum_ns / self.samples;
        let used = f64::from(self.peak) * 2.0 >= limit;
        self.start(now);
        if self.base_ns == 0.0 {
            self.base_ns = mean_ns;
        }
        if let Phase::Look { full } = self.phase {
            (self.phase, self.base_ns, self.looked) = (Phase::Follow, mean_ns, full);
            return full;
        }
        if now >= self.next_look {
            while self.next_look <= now {
                self.next_look.0 += LOOK_EVERY_NS;
            }
            self.phase = Phase::Look { full: limit };
            return limit / 2.0;
        }
        let most = if used { TOLERANCE } else { 1.0 };
        let gradient = (TOLERANCE * self.base_ns / mean_ns).min(most);
        match self.phase {
            Phase::Double if !used => limit,
            Phase::Double if gradient >= 1.0 => limit * 2.0,
            Phase::Double => {
                (self.phase, self.looked) = (Phase::Follow, limit * gradient);
                limit * gradient
            }
            _ => (limit * (gradient - 1.0).mul_add(SMOOTHING, 1.0)).max(self.looked / 2.0),
        }
    }
}

/// True if an attempt says that more is under way than the target or its proxy copes with. A cap on
/// connections shows as connections that are refused or not answered.
const fn is_strain(attempt: &Attempt) -> bool {
    use ErrorKind::{
        ConnectFailed, ConnectRefused, ConnectTimeout, ProxyTargetUnreachable, ProxyUnreachable,
        Timeout,
    };
    matches!(
        attempt.outcome,
        Outcome::Error(
            Timeout
                | ConnectTimeout
                | ConnectRefused
                | ConnectFailed
                | ProxyTargetUnreachable
                | ProxyUnreachable
        )
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::attempt_of;

    const MS: u64 = 1_000_000;

    fn attempt(sent_ms: u64, done_ms: u64, outcome: Outcome) -> Attempt {
        attempt_of(Nanos(sent_ms * MS), Nanos(done_ms * MS), outcome)
    }

    fn end(concurrency: &mut Concurrency, in_flight: u32, attempt: &Attempt) -> u32 {
        concurrency.ended(attempt.done, in_flight, attempt);
        concurrency.limit()
    }

    #[test]
    fn aimd_grows_once_per_round_trip_and_only_when_used() {
        let mut aimd = Concurrency::new(AdaptiveKind::Aimd, 100, 10, Nanos(0));
        assert_eq!(
            end(&mut aimd, 4, &attempt(0, 1, Outcome::Ok)),
            10,
            "hardly used"
        );
        assert_eq!(
            end(&mut aimd, 5, &attempt(1, 2, Outcome::Ok)),
            20,
            "doubles while nothing is known"
        );
        assert_eq!(
            end(&mut aimd, 20, &attempt(1, 2, Outcome::Ok)),
            20,
            "sent before the window"
        );
        assert_eq!(
            end(
                &mut aimd,
                20,
                &attempt(2, 3, Outcome::Error(ErrorKind::Timeout))
            ),
            14
        );
        assert_eq!(
            end(
                &mut aimd,
                13,
                &attempt(2, 4, Outcome::Error(ErrorKind::Timeout))
            ),
            14,
            "cut once for all"
        );
        assert_eq!(
            end(&mut aimd, 14, &attempt(3, 5, Outcome::Ok)),
            15,
            "one more after trouble"
        );
        assert_eq!(
            end(&mut aimd, 14, &attempt(4, 5, Outcome::Ok)),
            15,
            "within the same round trip"
        );
        assert_eq!(
            end(&mut aimd, 15, &attempt(5, 6, Outcome::Throttled)),
            15,
            "no growth on a refusal"
        );
        aimd.throttled(Nanos(6 * MS));
        assert_eq!(aimd.limit(), 10);
        for round in 7..500 {
            end(&mut aimd, 100, &attempt(round, round + 1, Outcome::Ok));
        }
        assert_eq!(aimd.limit(), 100, "all lanes and no more");
    }

    #[test]
    fn a_limit_never_falls_below_one() {
        for kind in [AdaptiveKind::Aimd, AdaptiveKind::Gradient] {
            let mut concurrency = Concurrency::new(kind, 3, 0, Nanos(0));
            for round in 0..20 {
                end(
                    &mut concurrency,
                    1,
                    &attempt(round, round, Outcome::Error(ErrorKind::Timeout)),
                );
                assert_eq!(concurrency.limit(), 1, "{kind:?}");
            }
        }
    }

    #[test]
    fn connections_that_fail_together_cut_once_a_second() {
        let mut aimd = Concurrency::new(AdaptiveKind::Aimd, 100, 100, Nanos(0));
        for done_ms in [10, 11, 12, 1_009, 1_010] {
            let failed = attempt(0, done_ms, Outcome::Error(ErrorKind::ConnectRefused));
            end(
                &mut aimd,
                50,
                &Attempt {
                    sent: None,
                    ..failed
                },
            );
        }
        assert_eq!(aimd.limit(), 49);
    }
}
