//! How many requests may be in flight: by additive increase and multiplicative decrease, or by the gradient of the
//! latency.
//!
//! Kept by a shard's `Adaptive`, which tells it what ended and when throttling was noticed. Knows nothing of paces.

use crate::clock::Nanos;
use crate::sample::{Attempt, ErrorKind, Outcome};

use super::AdaptiveKind;

/// What is left of the limit after throttling or a timeout.
const CUT: f64 = 0.7;

/// Cuts for attempts that never got a connection are at least this far apart: when they began is not known, so they
/// cannot be told from those that the last cut answered.
const UNSENT_CUT_NS: u64 = 1_000_000_000;

/// The part of the way back to where it was cut that the limit goes in a window.
const RECOVERY: f64 = 0.25;

/// Gradient2: the part of the new limit that is taken at once.
const SMOOTHING: f64 = 0.2;

/// Gradient2: how many requests may queue at the target.
const QUEUE: f64 = 4.0;

/// Gradient2: how many answers the long latency remembers, and of how many it is the plain mean at first.
const LONG_WINDOW: f64 = 600.0;
const WARM_UP: f64 = 10.0;

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
    Aimd { window: Nanos, peak: u32, reach: Reach },
    Gradient { long_ns: f64, samples: f64 },
}

/// How far a limit may grow in leaps.
#[derive(Debug, Clone, Copy)]
enum Reach {
    /// Nothing is known yet: it doubles.
    Unknown,
    /// It was fine up to here.
    Was(f64),
}

impl Concurrency {
    /// A limit of `first` out of `lanes`.
    pub(super) fn new(kind: AdaptiveKind, lanes: u32, first: u32, start: Nanos) -> Self {
        let lanes = f64::from(lanes.max(1));
        let growth = match kind {
            AdaptiveKind::Aimd => Growth::Aimd { window: start, peak: 0, reach: Reach::Unknown },
            AdaptiveKind::Gradient => Growth::Gradient { long_ns: 0.0, samples: 0.0 },
        };
        Self { limit: f64::from(first).clamp(1.0, lanes), lanes, growth, cut_at: None }
    }

    /// The limit now, 1 to all lanes.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and a u32, always")]
    pub(super) fn limit(&self) -> u32 {
        self.limit as u32
    }

    /// An attempt ended while `in_flight` were under way, itself included.
    pub(super) fn ended(&mut self, in_flight: u32, attempt: &Attempt) {
        if is_overload(attempt) {
            if self.is_news(attempt) {
                self.cut(attempt.done, Some(Reach::Was(self.limit * CUT)));
            }
            return;
        }
        let used = f64::from(in_flight) * 2.0 >= self.limit;
        match &mut self.growth {
            Growth::Aimd { window, peak, reach } => {
                *peak = (*peak).max(in_flight);
                if attempt.sent.unwrap_or(attempt.done) < *window {
                    return;
                }
                if attempt.outcome != Outcome::Throttled && f64::from(*peak) * 2.0 >= self.limit {
                    let step = match *reach {
                        Reach::Unknown => self.limit,
                        Reach::Was(limit) => ((limit - self.limit) * RECOVERY).max(1.0),
                    };
                    self.limit = (self.limit + step).clamp(1.0, self.lanes);
                }
                (*window, *peak) = (attempt.done, 0);
            }
            Growth::Gradient { long_ns, samples } => {
                let Some(sent) = attempt.sent.filter(|_| matches!(attempt.outcome, Outcome::Ok | Outcome::NotFound))
                else {
                    return;
                };
                let short_ns = attempt.done.since(sent).max(1) as f64;
                *samples = (*samples + 1.0).min(LONG_WINDOW);
                let weight = if *samples <= WARM_UP { 1.0 / *samples } else { 2.0 / (LONG_WINDOW + 1.0) };
                *long_ns += (short_ns - *long_ns) * weight;
                if *long_ns > 2.0 * short_ns {
                    *long_ns *= 0.9;
                }
                if used {
                    let gradient = (*long_ns / short_ns).clamp(0.5, 1.0);
                    let aim = self.limit * gradient + QUEUE;
                    self.limit = (self.limit * (1.0 - SMOOTHING) + aim * SMOOTHING).clamp(1.0, self.lanes);
                }
            }
        }
    }

    /// An episode of throttling was noticed.
    pub(super) fn throttled(&mut self, at: Nanos) {
        self.cut(at, None);
    }

    fn is_news(&self, attempt: &Attempt) -> bool {
        self.cut_at.is_none_or(|cut| match attempt.sent {
            Some(sent) => sent >= cut,
            None => attempt.done.since(cut) >= UNSENT_CUT_NS,
        })
    }

    fn cut(&mut self, at: Nanos, back_to: Option<Reach>) {
        self.limit = (self.limit * CUT).floor().clamp(1.0, self.lanes);
        self.cut_at = Some(at);
        if let Growth::Aimd { window, peak, reach } = &mut self.growth {
            (*window, *peak) = (at, 0);
            *reach = back_to.unwrap_or(*reach);
        }
    }
}

/// Whether an attempt says that more is under way than the target copes with.
fn is_overload(attempt: &Attempt) -> bool {
    use ErrorKind::{ConnectFailed, ConnectRefused, ConnectTimeout, Timeout};
    matches!(attempt.outcome, Outcome::Error(Timeout | ConnectTimeout | ConnectRefused | ConnectFailed))
}
