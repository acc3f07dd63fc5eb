//! The one place where time enters this crate. `Shared` starts the clock, every serving process copies it, and the
//! limiter and the books are handed its readings.
//!
//! It must not know wall-clock time: everything here is a difference, and a clock that may be set back would refill a
//! bucket or lose a request.

use std::time::Instant;

/// Nanoseconds since an epoch that is fixed when the clock starts.
///
/// The clock is monotonic and system-wide (`CLOCK_MONOTONIC`), so the copy that a forked process inherits agrees with
/// its parent's and its siblings'.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    epoch: Instant,
}

impl Clock {
    /// Starts a clock: its reading is 0 now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place where time enters")]
    pub fn start() -> Self {
        Self { epoch: Instant::now() }
    }

    /// Nanoseconds since the epoch. It saturates after 584 years.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "this is the one place where time enters")]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(Instant::now().saturating_duration_since(self.epoch).as_nanos()).unwrap_or(u64::MAX)
    }
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
}
