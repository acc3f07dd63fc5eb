//! The one place where time enters this crate. `Shared` starts the clock, every serving process
//! copies it, and the limiter, the ledger and the timer are handed its readings.
//!
//! Nothing may be decided by wall-clock time: everything here but `wall` is a difference, and a
//! clock that may be set back would refill a bucket or lose a request.

use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Nanoseconds since an epoch that is fixed when the clock starts.
///
/// The clock is monotonic and system-wide (`CLOCK_MONOTONIC`), so the copy that a forked process
/// inherits agrees with its parent's and its siblings', and with the kernel's timers.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Duration,
}

impl Clock {
    /// Starts a clock: its reading is 0 now.
    pub fn start() -> Self {
        Self { epoch: monotonic() }
    }

    /// Nanoseconds since the epoch. It saturates after 584 years.
    pub fn now_ns(&self) -> u64 {
        u64::try_from(monotonic().saturating_sub(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }

    /// Return what `CLOCK_MONOTONIC` reads when this clock reads `at_ns`; for the kernel's timers,
    /// which know no other epoch.
    pub(crate) fn monotonic(&self, at_ns: u64) -> TimeSpec {
        TimeSpec::from_duration(self.epoch.saturating_add(Duration::from_nanos(at_ns)))
    }
}

/// The time since 1970, for header fields that name a date.
pub(crate) fn wall() -> Duration {
    clock_gettime(ClockId::CLOCK_REALTIME).map_or(Duration::ZERO, Duration::from)
}

/// The kernel's own reading. Every Linux has this clock, and reading it can fail for no other
/// reason.
fn monotonic() -> Duration {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_agrees_with_its_original_and_never_runs_backwards() {
        let clock = Clock::start();
        let copy = clock;
        let readings = [clock.now_ns(), copy.now_ns(), clock.now_ns(), copy.now_ns()];
        assert!(readings.is_sorted(), "{readings:?}");
    }

    #[test]
    fn it_goes_on_and_agrees_with_the_kernel() {
        let clock = Clock::start();
        let before = clock.now_ns();
        std::thread::sleep(Duration::from_millis(2));
        let kernel = monotonic();
        let after = clock.now_ns();
        assert!(after - before >= 2_000_000);
        assert!(
            Duration::from(clock.monotonic(before)) < kernel
                && kernel <= Duration::from(clock.monotonic(after))
        );
    }
}
