//! Tolerance of a shared file system that fails for a moment, as when its server restarts.

use std::io;
use std::thread::sleep;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, duration_ns};

/// Time for which failures are tolerated.
pub(crate) const TOLERANCE: Duration = Duration::from_mins(1);

/// Interval between two tries.
const RETRY: Duration = Duration::from_millis(500);

/// Do what may be done again until it succeeds, or has failed for [`TOLERANCE`].
///
/// # Errors
/// The last one.
pub(crate) fn retried<T>(clock: Clock, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let began = clock.now();
    loop {
        match work() {
            Err(_) if clock.now().since(began) < duration_ns(TOLERANCE) => sleep(RETRY),
            ended => return ended,
        }
    }
}
