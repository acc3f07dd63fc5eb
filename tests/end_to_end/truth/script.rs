//! What the target does, as arithmetic: when a request that arrived at an instant is answered, and
//! with what.
//!
//! It must not wait, and it must not know of connections.

use std::cell::Cell;
use std::ops::Range;
use std::time::Duration;

use crawlmark_harness::clock::Nanos;

/// A target's behaviour. Times count from the common start.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// How long opening a connection takes.
    pub(crate) connect: Duration,
    /// How long an answer takes.
    pub(crate) base: Duration,
    /// Requests that arrive within it begin at its end.
    pub(crate) stall: Range<Duration>,
    /// What is let in.
    pub(crate) limit: Option<Bucket>,
    /// Answers come one after another, and each takes so much more.
    pub(crate) server: Option<Server>,
}

/// What a request gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// 200.
    Good,
    /// 429, and in how many seconds to come back.
    Refused {
        /// `Retry-After`.
        retry_after_s: u64,
    },
}

impl Script {
    /// When a request that arrives at `at` is answered, and with what. Called once for each, in the
    /// order of arrival.
    pub(crate) fn answer(&self, at: Nanos) -> (Nanos, Answer) {
        if self.limit.as_ref().is_some_and(|limit| !limit.admits(at)) {
            return (at.plus(self.base), Answer::Refused { retry_after_s: 1 });
        }
        let [from, to] = [self.stall.start, self.stall.end].map(|edge| Nanos::default().plus(edge));
        let begins = if (from..to).contains(&at) { to } else { at };
        let begins = self
            .server
            .as_ref()
            .map_or(begins, |server| server.serves(begins));
        (begins.plus(self.base), Answer::Good)
    }
}

/// A token bucket, full at the start: counted in nanoseconds, so that it is exact.
#[derive(Debug)]
pub(crate) struct Bucket {
    interval_ns: u64,
    /// How far ahead of the clock it may be.
    tolerance_ns: u64,
    /// When it will be full.
    full_at: Cell<u64>,
}

impl Bucket {
    pub(crate) fn new(per_s: u64, burst: u64) -> Self {
        let interval_ns = 1_000_000_000 / per_s;
        Self {
            interval_ns,
            tolerance_ns: interval_ns * (burst - 1),
            full_at: Cell::new(0),
        }
    }

    fn admits(&self, Nanos(at): Nanos) -> bool {
        let full_at = self.full_at.get().max(at);
        let admits = full_at <= at + self.tolerance_ns;
        if admits {
            self.full_at.set(full_at + self.interval_ns);
        }
        admits
    }
}

/// One server with exponential times.
#[derive(Debug)]
pub(crate) struct Server {
    mean_ns: f64,
    state: Cell<u64>,
    free_at: Cell<Nanos>,
}

impl Server {
    pub(crate) fn new(mean: Duration, seed: u64) -> Self {
        Self {
            mean_ns: mean.as_secs_f64() * 1e9,
            state: Cell::new(seed),
            free_at: Cell::default(),
        }
    }

    /// When it has served a request that arrives at `at`.
    fn serves(&self, at: Nanos) -> Nanos {
        let done = self
            .free_at
            .get()
            .max(at)
            .plus(Duration::from_secs_f64(self.draw_ns() / 1e9));
        self.free_at.set(done);
        done
    }

    /// Exponential, by inversion of a draw of `SplitMix64`.
    fn draw_ns(&self) -> f64 {
        self.state
            .set(self.state.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mut z = self.state.get();
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        // 53 bits, above 0 and up to 1.
        let unit = ((z >> 11) + 1) as f64 / (1_u64 << 53) as f64;
        -unit.ln() * self.mean_ns
    }
}
