//! Atomic integers of the shared memory. Those of the tests give way before each of their steps, so
//! that a test can run processes in every order, and have one die at any step.

#[cfg(not(test))]
pub(super) use std::hint::spin_loop;
#[cfg(not(test))]
pub(super) use std::sync::atomic::AtomicU64;
pub(super) use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

#[cfg(test)]
pub(super) use orders::{AtomicU64, patience, spin_loop};

/// Times that a process waits for a lock before it takes that over.
#[cfg(not(test))]
pub(super) const fn patience(times: u32) -> u32 {
    times
}

#[cfg(test)]
#[path = "atomics/tests/orders.rs"]
pub(super) mod orders;
