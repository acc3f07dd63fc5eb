//! Lingering: a shard that would sleep until the next response waits a moment for more of them, and
//! wakes up once for all.
//!
//! A wake-up costs as much as two requests of HTTP/2. Lingering makes responses later by at most the
//! time to linger, so that is a small part of what is measured; and a shard does not linger where
//! it would gather nothing, or where several responses come at once anyway. It finds out in its
//! first quarter of a second, and again in each sixteenth. Called by the shard's life. It must not
//! read a clock.
//!
//! Measured with 8 connections of 16 streams to nginx on another core, beside h2load in seven
//! interleaved rounds: 0.96 times its CPU per request without, 0.63 with 20 us, 0.52 with 50 us,
//! 0.45 with 100 us, and 2, 10, 10 and 12 % more requests/s. Two responses came per wake-up
//! there. Of the bundled target ten to fourteen come, and lingering cost requests/s.
//!
//! With one request per connection, eight came at a time as long as this client took more time for a
//! response than nginx did. Now few do, and long bodies come in parts. Beside wrk in three
//! interleaved rounds, without and with 50 us: 1.00 and 0.92 times its CPU per request with 64
//! connections, 1.06 and 0.95 with 1,024; of 16 kB 1.12 and 0.93, of 64 kB 0.98 and 0.62, of 1 MB
//! 0.32 and 0.33.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use nix::sys::prctl::set_timerslack;
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, ClockNanosleepFlags, clock_nanosleep};

use crate::clock::{Nanos, duration_ns};
use crate::plan::LEAST_LINGERING;
use crate::wire::Progress;

/// Parts of the mean time of a request, of which one is the longest linger: it adds half of that on
/// average.
const PARTS: u32 = 20;

/// Responses that come within a linger that pays.
const FEWEST: u32 = 2;

const _: () = assert!(LEAST_LINGERING == PARTS * FEWEST);

/// Responses per wake-up that are enough without lingering.
const ENOUGH: u64 = 4;

/// Choices of which one is not to linger, so that the responses per wake-up are known.
const PROBE_EVERY: u32 = 16;

/// The time to linger of one shard.
#[derive(Debug)]
pub(super) struct Linger {
    most: Duration,
    runtime: Arc<Sleeps>,
    longest: Cell<Duration>,
    before: Cell<Answered>,
    choices: Cell<u32>,
    /// When it last did not linger, few responses came per wake-up.
    comes_singly: Cell<bool>,
}

/// What the runtime's hook reads and counts.
#[derive(Debug, Default)]
struct Sleeps {
    /// Time to linger now, ns.
    linger_ns: AtomicU64,
    count: AtomicU64,
}

/// Counts until a moment.
#[derive(Debug, Clone, Copy, Default)]
struct Answered {
    at: Nanos,
    responses: u64,
    sleeps: u64,
}

impl Linger {
    /// Of a shard that lingers for `most` at most; none if that is zero.
    pub(super) fn new(most: Duration) -> Self {
        Self {
            most,
            runtime: Arc::default(),
            longest: Cell::default(),
            before: Cell::default(),
            choices: Cell::default(),
            comes_singly: Cell::default(),
        }
    }

    /// What the runtime is to call before it sleeps; none if it never lingers. The kernel must
    /// not make the wait longer, so timers of the calling thread lose their slack.
    pub(super) fn hook(&self) -> Option<impl Fn() + Send + Sync + use<>> {
        let runtime = Arc::clone(&self.runtime);
        if self.most.is_zero() {
            return None;
        }
        // Refused, it lingers by some microseconds longer.
        let _ = set_timerslack(1);
        Some(move || runtime.linger())
    }

    /// Choose the time to linger by what was answered since the last call.
    pub(super) fn adapt(&self, progress: &Progress) {
        let now = Answered {
            at: progress.at,
            responses: progress.counters.requests.attempts,
            sleeps: self.runtime.count.load(Ordering::Relaxed),
        };
        let before = self.before.replace(now);
        let answered = now.responses - before.responses;
        if self.runtime.linger_ns.load(Ordering::Relaxed) == 0 {
            let sleeps = now.sleeps - before.sleeps;
            self.comes_singly.set(answered < sleeps * ENOUGH);
        }
        let choice = self.choices.get();
        self.choices.set(choice.wrapping_add(1));
        let span = if self.comes_singly.get() && choice % PROBE_EVERY != PROBE_EVERY - 1 {
            let time = Duration::from_nanos(now.at.since(before.at));
            span(self.most, progress.in_flight, answered, time)
        } else {
            Duration::ZERO
        };
        self.longest.set(self.longest.get().max(span));
        self.runtime
            .linger_ns
            .store(duration_ns(span), Ordering::Relaxed);
    }

    /// Return the longest time to linger that it chose.
    pub(super) const fn longest(&self) -> Duration {
        self.longest.get()
    }
}

impl Sleeps {
    fn linger(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        let ns = self.linger_ns.load(Ordering::Relaxed);
        if ns > 0 {
            let time = TimeSpec::from_duration(Duration::from_nanos(ns));
            // Interrupted, it has lingered less.
            let _ = clock_nanosleep(
                ClockId::CLOCK_MONOTONIC,
                ClockNanosleepFlags::empty(),
                &time,
            );
        }
    }
}

/// Time to linger with `in_flight` requests under way, of which `answered` ended within `time`. Their
/// mean time is that of Little's law.
fn span(most: Duration, in_flight: u32, answered: u64, time: Duration) -> Duration {
    if answered == 0 {
        return Duration::ZERO;
    }
    let each = time.div_f64(answered as f64);
    let span = most.min(each * in_flight / PARTS);
    if span < each * FEWEST {
        return Duration::ZERO;
    }
    span
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const US: Duration = Duration::from_micros(1);

    /// Times to linger, us, of a shard of which 128 requests are under way and `responses` end in
    /// each quarter of a second; it sleeps `sleeps` times meanwhile when it does not linger.
    fn lingers(responses: u64, sleeps: u64) -> Vec<u64> {
        let linger = Linger::new(50 * US);
        let mut progress = Progress {
            in_flight: 128,
            ..Progress::default()
        };
        let mut spans = Vec::new();
        for _ in 0..33 {
            progress.at = progress.at.plus(250_000 * US);
            progress.counters.requests.attempts += responses;
            let before = linger.runtime.linger_ns.load(Ordering::Relaxed);
            let slept = if before > 0 { sleeps / 100 } else { sleeps };
            linger.runtime.count.fetch_add(slept, Ordering::Relaxed);
            linger.adapt(&progress);
            spans.push(linger.runtime.linger_ns.load(Ordering::Relaxed) / 1_000);
        }
        spans
    }

    #[test]
    fn it_lingers_where_responses_come_singly_and_looks_again_now_and_then() {
        let spans = lingers(25_000, 12_000);
        assert_eq!(spans.iter().filter(|us| **us == 0).count(), 2, "{spans:?}");
        assert_eq!(
            spans.iter().filter(|us| **us == 50).count(),
            31,
            "{spans:?}"
        );
        assert_eq!(lingers(25_000, 3_000), [0; 33]);
    }

    proptest! {
        #[test]
        fn it_adds_a_small_part_of_the_mean_time_and_only_for_more_than_one_response(
            most_us in 0..1_000_u32, in_flight in 0..10_000_u32, answered in 0..1_000_000_u64, ms in 1..1_000_u32,
        ) {
            let (most, time) = (US * most_us, US * 1_000 * ms);
            let span = span(most, in_flight, answered, time);
            let each_ns = time.as_nanos() as f64 / answered as f64;
            prop_assert!(span <= most);
            prop_assert!(span.as_nanos() as f64 <= each_ns * f64::from(in_flight) / 20.0 + 1_000.0);
            prop_assert!(span.is_zero() || span.as_nanos() as f64 >= 1.9 * each_ns);
        }
    }

    #[test]
    fn it_lingers_where_many_requests_are_under_way_and_come_fast() {
        let second = Duration::from_secs(1);
        for (in_flight, answered, us) in [
            (128, 100_000, 50),
            // A twentieth of 640 us.
            (64, 100_000, 32),
            // No two responses in 50 us.
            (128, 30_000, 0),
            // No two in a twentieth of the mean time.
            (30, 100_000, 0),
            (128, 0, 0),
        ] {
            let span = span(50 * US, in_flight, answered, second);
            assert_eq!(span, us * US, "{in_flight} {answered}");
        }
        assert_eq!(span(Duration::ZERO, 128, 100_000, second), Duration::ZERO);
    }
}
