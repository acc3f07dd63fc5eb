//! The one source of time.
//!
//! Every stamp of a run is a [`Nanos`]: nanoseconds on `CLOCK_MONOTONIC` since the epoch that the
//! supervisor chose before it forked. The clock is machine-wide and the epoch is copied by the
//! fork, so the shards' stamps can be compared and their intervals cut at common instants. Nothing
//! else in this workspace reads a clock; with tokio's paused clock the whole engine runs in virtual
//! time.

use std::time::{Duration, SystemTime};

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A point in time: nanoseconds since the epoch of the run's [`Clock`]. Covers 584 years.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nanoseconds from `earlier` to `self`; 0 when `earlier` is later.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// The point `duration` later; the end of time when that is beyond it.
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration_ns(duration)))
    }
}

/// Nanoseconds in microseconds.
pub const fn us(ns: u64) -> f64 {
    ns as f64 / 1e3
}

/// Nanoseconds in seconds.
pub const fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// `duration` in whole nanoseconds, at most `u64::MAX` (584 years).
pub fn duration_ns(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// A monotonic clock with a fixed epoch. Copying it, also by a fork, keeps the epoch.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    epoch: tokio::time::Instant,
    /// Reading of the kernel's clock at the epoch, or a moment later, ns: `epoch` does not expose it.
    kernel_epoch: u64,
}

/// Number of readings of the two epochs; the closest pair is kept, so that one interruption between
/// them does no harm.
const EPOCH_READINGS: usize = 5;

impl Clock {
    /// A clock whose epoch is now. Call once per run, before the first fork.
    pub fn start() -> Self {
        let (mut closest, mut apart) = Self::read();
        for _ in 1..EPOCH_READINGS {
            let (clock, this_apart) = Self::read();
            if this_apart < apart {
                (closest, apart) = (clock, this_apart);
            }
        }
        closest
    }

    /// A clock whose epoch is now, and how far apart its two epochs may be.
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the clock that everyone else is sent to"
    )]
    fn read() -> (Self, u64) {
        let before = monotonic_ns();
        let epoch = tokio::time::Instant::now();
        let kernel_epoch = monotonic_ns();
        (
            Self {
                epoch,
                kernel_epoch,
            },
            kernel_epoch.saturating_sub(before),
        )
    }

    /// The time now.
    #[cfg(feature = "virtual-time")]
    pub fn now(&self) -> Nanos {
        Nanos(duration_ns(self.epoch.elapsed()))
    }

    /// The time now: half of the instructions of the way through an [`Instant`](std::time::Instant).
    #[inline]
    #[cfg(not(feature = "virtual-time"))]
    pub fn now(&self) -> Nanos {
        Nanos(monotonic_ns().saturating_sub(self.kernel_epoch))
    }

    /// Return the calendar time at the epoch, ns since the Unix epoch; 0 in virtual time, so that a
    /// rehearsal can be repeated.
    pub(crate) fn epoch_ns(&self) -> u64 {
        if cfg!(feature = "virtual-time") {
            return 0;
        }
        let now = wall_time().duration_since(SystemTime::UNIX_EPOCH);
        now.map_or(0, duration_ns).saturating_sub(self.now().0)
    }

    /// `at` as an instant that tokio's timers understand.
    pub fn instant(&self, at: Nanos) -> tokio::time::Instant {
        self.epoch + Duration::from_nanos(at.0)
    }

    /// Return the reading of `CLOCK_MONOTONIC` when this clock reads `at`, or a moment later (the
    /// time of one reading); for the kernel's timers, which know no other epoch. Meaningless in
    /// virtual time.
    pub(crate) fn monotonic(&self, at: Nanos) -> TimeSpec {
        TimeSpec::from_duration(Duration::from_nanos(self.kernel_epoch.saturating_add(at.0)))
    }
}

/// The reading of `CLOCK_MONOTONIC`, ns: for times that another process of this machine, or of
/// another one, compares with its own. Every Linux has this clock, and reading it can fail for no
/// other reason.
#[inline]
pub(crate) fn monotonic_ns() -> u64 {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |time| {
        time.tv_sec().cast_unsigned() * 1_000_000_000 + time.tv_nsec().cast_unsigned()
    })
}

/// CPU time that this thread has used, ns; none when the kernel does not say. For work that is
/// timed by itself, never for anything that waits.
pub(crate) fn thread_cpu_ns() -> Option<u64> {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID)
        .ok()
        .map(|time| duration_ns(time.into()))
}

/// The calendar time now, for the stamps in a report and for dates that a target writes. Never used
/// to measure anything.
#[must_use]
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everyone else is sent to"
)]
pub fn wall_time() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_names_the_kernels_instants_never_early_and_hardly_late() {
        let (clock, apart) = Clock::read();
        for _ in 0..1_000 {
            let before = Duration::from(clock.monotonic(clock.now()));
            let kernel = Duration::from_nanos(monotonic_ns());
            let after = Duration::from(clock.monotonic(clock.now()));
            assert!(
                before <= kernel + Duration::from_nanos(apart) && kernel <= after,
                "{before:?} {kernel:?} {after:?}, {apart} ns apart"
            );
        }
    }
}
