//! Speed of the CPU at the moment: a fixed piece of work, timed by the time it had a CPU.
//!
//! No counter shows that a CPU is slower because it is clocked down, shares its core with a
//! neighbour, or belongs to a virtual machine whose host does not report the time it takes away.
//! The same work, timed before and after a run, shows it.

use std::hint::black_box;
use std::thread::sleep;
use std::time::Duration;

use crate::clock::thread_cpu_ns;

/// Rounds of the work: about 1.5 ms of a CPU of 3 GHz. Built without optimisation, a round takes
/// many times as long.
const ROUNDS: u32 = if cfg!(debug_assertions) {
    250_000
} else {
    1_200_000
};

/// Times that a probe does the work; the quickest counts, because a momentary disturbance does not
/// describe the run.
const RUNS: usize = 3;

/// Return the CPU time that a fixed piece of work takes this thread, ns; none when the kernel does
/// not report it. It is comparable only with another reading of the same program on the same CPU.
fn probe_speed() -> Option<u64> {
    (0..RUNS).map(|_| time_work()).min().flatten()
}

/// Relative difference of two readings up to which a third is not needed.
const ALIKE: f64 = 0.05;

/// Limit on further readings of a CPU whose speed seems to have changed, and the pause between
/// them.
const MORE: usize = 6;
const APART: Duration = Duration::from_millis(5);

/// Probe the speed after something that began with a reading of `before`. If the CPU seems slower,
/// another process may be using it for a moment only: it is read again for up to some 60 ms, until
/// it no longer does. The quickest counts.
pub fn probe_speed_since(before: Option<u64>) -> Option<u64> {
    let mut quickest = probe_speed()?;
    for _ in 0..MORE {
        if before.is_none_or(|before| quickest as f64 <= before as f64 * (1.0 + ALIKE)) {
            break;
        }
        sleep(APART);
        quickest = quickest.min(probe_speed()?);
    }
    Some(quickest)
}

fn time_work() -> Option<u64> {
    let before = thread_cpu_ns()?;
    black_box(work(black_box(1)));
    Some(thread_cpu_ns()?.saturating_sub(before))
}

/// Integers only, each step waiting for the one before, nothing in memory: what it takes depends on
/// the clock alone.
fn work(seed: u64) -> u64 {
    (0..ROUNDS).fold(seed, |x, _| {
        let x = x.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        x ^ (x >> 29)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_takes_time_and_does_something() {
        assert!(probe_speed().unwrap() > 0);
        assert_ne!(work(1), work(2));
    }
}
