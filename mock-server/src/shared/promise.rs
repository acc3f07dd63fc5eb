//! What a key was promised: until when it was told to wait, and when it was first told so. Each slot of `keys` has one.
//!
//! It must not know who was told, and it must not judge who comes too soon (`limiter` does).

use std::sync::atomic::{AtomicU64, Ordering};

/// The running promise of one key. It runs from its first making until the end of the latest wait that was told while
/// it ran; what is told after that is a new promise.
///
/// Of two promises that begin at the same time in two processes one comes about, made at the earlier instant, whichever
/// process is faster. One that is killed between the two words of a new promise leaves the next to look as old as that.
#[repr(C)]
pub(super) struct Promise {
    /// The end of the latest wait that was told, nanoseconds on the common clock; 0 before the first.
    until_ns: AtomicU64,
    /// One more than the instant of the first making, so that 0 is never. At most `until_ns`, but for a moment while a
    /// new promise begins.
    made: AtomicU64,
}

/// A refusal that tells how long to wait. All on the common clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::struct_field_names, reason = "the unit belongs to the name of every instant")]
pub(crate) struct Telling {
    /// When its request came.
    pub(crate) asked_ns: u64,
    /// When it is answered, not earlier than that.
    pub(crate) answered_ns: u64,
    /// Until when the client is told to wait.
    pub(crate) until_ns: u64,
}

impl Promise {
    /// Makes a promise, or extends the one that runs.
    pub(super) fn make(&self, Telling { asked_ns, answered_ns, until_ns }: Telling) {
        let begun = answered_ns.saturating_add(1).min(until_ns);
        let mut made = self.made.load(Ordering::Acquire);
        loop {
            // Read after `made`: if that is still the same when it is changed, no promise has begun since.
            let passed_ns = self.until_ns.load(Ordering::Acquire);
            let first = if passed_ns <= asked_ns && made <= passed_ns {
                begun
            } else if made <= until_ns {
                // It runs already, or is just beginning elsewhere: with a request that may have come after this one.
                made.min(begun)
            } else {
                made
            };
            if first == made {
                break;
            }
            match self.made.compare_exchange(made, first, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(other) => made = other,
            }
        }
        // Release: whoever sees the end sees the beginning.
        self.until_ns.fetch_max(until_ns, Ordering::Release);
    }

    /// When the promise that runs at `now_ns` was first made; none if none runs.
    pub(super) fn first_made_ns(&self, now_ns: u64) -> Option<u64> {
        loop {
            let made = self.made.load(Ordering::Acquire);
            if self.has_passed(now_ns) {
                return None;
            }
            // The two are of one promise if none has begun in between.
            if self.made.load(Ordering::Relaxed) == made {
                return Some(made.saturating_sub(1));
            }
        }
    }

    /// Whether no promise runs at `now_ns`.
    pub(super) fn has_passed(&self, now_ns: u64) -> bool {
        self.until_ns.load(Ordering::Acquire) <= now_ns
    }

    /// As if there had never been one. Nobody else may make one meanwhile.
    pub(super) fn clear(&self) {
        self.until_ns.store(0, Ordering::Relaxed);
        self.made.store(0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Barrier;

    fn fresh() -> Promise {
        Promise { until_ns: AtomicU64::new(0), made: AtomicU64::new(0) }
    }

    /// Answered at once.
    fn telling(asked_ns: u64, until_ns: u64) -> Telling {
        Telling { asked_ns, answered_ns: asked_ns, until_ns }
    }

    #[test]
    fn a_promise_that_is_extended_was_first_made_when_it_was() {
        let promise = fresh();
        assert_eq!(promise.first_made_ns(0), None);
        promise.make(telling(0, 10));
        promise.make(telling(5, 15));
        // Shorter than what was told already.
        promise.make(telling(6, 7));
        promise.make(telling(14, 24));
        assert_eq!([4, 6, 15, 23].map(|now_ns| promise.first_made_ns(now_ns)), [Some(0); 4]);
        assert_eq!(promise.first_made_ns(24), None);
    }

    #[test]
    fn what_is_told_after_its_end_is_a_new_promise() {
        let promise = fresh();
        promise.make(telling(0, 10));
        promise.make(telling(10, 20));
        assert_eq!(promise.first_made_ns(11), Some(10));
        promise.make(telling(50, 60));
        assert_eq!(promise.first_made_ns(50), Some(50));
        promise.clear();
        assert_eq!(promise.first_made_ns(50), None);
    }

    #[test]
    fn a_promise_is_made_when_it_is_answered_but_never_after_its_end() {
        let promise = fresh();
        promise.make(Telling { asked_ns: 0, answered_ns: 7, until_ns: 10 });
        promise.make(Telling { asked_ns: 1, answered_ns: 7, until_ns: 11 });
        assert_eq!(promise.first_made_ns(2), Some(7));
        promise.make(Telling { asked_ns: 11, answered_ns: 70, until_ns: 21 });
        assert_eq!(promise.first_made_ns(12), Some(20));
        promise.make(telling(21, 31));
        assert_eq!(promise.first_made_ns(22), Some(21));
    }

    #[test]
    fn of_promises_that_begin_together_the_first_counts() {
        const THREADS: u64 = 4;
        let promise = fresh();
        let turn = Barrier::new(usize::try_from(THREADS).unwrap());
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (promise, turn) = (&promise, &turn);
                scope.spawn(move || {
                    for round in 1..3_000 {
                        let begin_ns = round * 1_000;
                        // Nobody is earlier than the end of the round before.
                        assert_eq!(promise.first_made_ns(begin_ns), None);
                        turn.wait();
                        let asked_ns = begin_ns + (thread + round) % THREADS;
                        promise.make(telling(asked_ns, asked_ns + 500));
                        // Whoever has made one never sees an older one.
                        assert!(promise.first_made_ns(asked_ns).is_some_and(|made_ns| made_ns >= begin_ns));
                        turn.wait();
                        assert_eq!(promise.first_made_ns(begin_ns + 500), Some(begin_ns));
                        turn.wait();
                    }
                });
            }
        });
    }

    proptest! {
        #[test]
        fn one_after_the_other_it_is_what_its_definition_says(
            tellings in proptest::collection::vec((0_u64..20, 1_u64..30), 1..60),
        ) {
            let promise = fresh();
            // The running promise: when it was first made, and its end.
            let mut running = (0, 0);
            let mut now_ns = 0;
            for (step, wait) in tellings {
                now_ns += step;
                prop_assert_eq!(promise.first_made_ns(now_ns), (now_ns < running.1).then_some(running.0));
                promise.make(telling(now_ns, now_ns + wait));
                let made_ns = if now_ns < running.1 { running.0 } else { now_ns };
                running = (made_ns, running.1.max(now_ns + wait));
            }
        }
    }
}
