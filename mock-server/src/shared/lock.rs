//! A lock between processes, and the words that it guards. The table of keys holds one per bucket
//! for the few instructions of a decision.

use super::atomics::{AtomicU64, Ordering, patience, spin_loop};

/// Tries in a row before the CPU is left to others, one of which may be the holder.
const SPINS: u32 = 64;

/// Times that the CPU is left to others before the lock is taken over. It comes to a second or
/// more: by then the holder was killed within a decision. One that was only stopped and goes on
/// later may spoil one decision of its key.
const YIELDS: u32 = 1 << 20;

/// Lock of several processes. Odd while it is held; all-zero memory is free.
#[derive(Default)]
#[repr(transparent)]
pub(super) struct Lock(AtomicU64);

/// A lock that is held until this is dropped.
pub(super) struct LockGuard<'a> {
    lock: &'a Lock,
    turn: u64,
}

impl Lock {
    /// Wait for the lock.
    pub(super) fn hold(&self) -> LockGuard<'_> {
        self.hold_after(patience(YIELDS))
    }

    fn hold_after(&self, most: u32) -> LockGuard<'_> {
        let (mut yields, mut holder) = (0, 0);
        loop {
            for _ in 0..patience(SPINS) {
                let seen = self.0.load(Ordering::Relaxed);
                let is_free = seen.is_multiple_of(2);
                // Whoever took it over meanwhile is alive.
                if !is_free && seen != holder {
                    (yields, holder) = (0, seen);
                }
                let turn = seen.wrapping_add(if is_free { 1 } else { 2 });
                if (is_free || yields > most)
                    && self
                        .0
                        .compare_exchange(seen, turn, Ordering::Acquire, Ordering::Relaxed)
                        .is_ok()
                {
                    return LockGuard { lock: self, turn };
                }
                spin_loop();
            }
            yields += 1;
            std::thread::yield_now();
        }
    }
}

impl Drop for LockGuard<'_> {
    fn drop(&mut self) {
        // It fails where the lock was taken over: then it is another's to give back.
        let next = self.turn.wrapping_add(1);
        let _ = self
            .lock
            .0
            .compare_exchange(self.turn, next, Ordering::Release, Ordering::Relaxed);
    }
}

/// Shared word that is read and written while a [`Lock`] is held.
#[repr(transparent)]
pub(super) struct Word(AtomicU64);

impl Word {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    pub(super) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time_holds_it() {
        let (lock, word) = (Lock(AtomicU64::new(0)), Word(AtomicU64::new(0)));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let _held = lock.hold();
                        word.set(word.get() + 1);
                    }
                });
            }
        });
        assert_eq!((word.get(), lock.0.into_inner() % 2), (160_000, 0));
    }

    #[test]
    fn the_lock_of_a_killed_process_is_taken_over() {
        let lock = Lock(AtomicU64::new(0));
        let killed = lock.hold();
        drop(lock.hold_after(100));
        drop(killed);
        drop(lock.hold());
        assert_eq!(lock.0.into_inner() % 2, 0);
    }
}
