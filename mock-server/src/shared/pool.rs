//! Workers that serve requests: when each of them is free. A request takes the one that is free
//! first, which is known beforehand, so that no process has to wake another.

use super::lock::{Lock, Word};
use crate::slowdown::{MAX_QUEUE, MAX_WORKERS, Queue, Workers};

/// Workers of all processes.
#[repr(C, align(64))]
pub(crate) struct Pool {
    lock: Lock,
    /// Nanoseconds on the common clock.
    free_ns: [Word; MAX_WORKERS],
    /// Requests that a bounded queue took.
    taken: Word,
    /// When each of the last ones of these began or begins to be served, as many as it has places.
    begun_ns: [Word; MAX_QUEUE],
}

impl Pool {
    /// Take the worker that is free first, from `now_ns` or the instant at which it is free until the
    /// one that `due_ns` makes of that, and return the latter; none if the queue is full.
    pub(crate) fn take(
        &self,
        workers: Workers,
        now_ns: u64,
        due_ns: impl FnOnce(u64) -> u64,
    ) -> Option<u64> {
        let _held = self.lock.hold();
        let first = self
            .free_ns
            .iter()
            .take(workers.get())
            .min_by_key(|worker| worker.get())?;
        let begun_ns = now_ns.max(first.get());
        match workers.queue {
            Queue::Bounded(0) if begun_ns > now_ns => return None,
            Queue::Bounded(places @ 1..) => {
                let taken = self.taken.get();
                // Requests begin in the order in which they came: if the one that came `places`
                // before this one still waits, so do all behind it.
                let before = &self.begun_ns[usize::try_from(taken).unwrap_or(0) % places];
                if before.get() > now_ns {
                    return None;
                }
                before.set(begun_ns);
                self.taken.set(taken + 1);
            }
            _ => {}
        }
        let due_ns = due_ns(begun_ns);
        first.set(due_ns);
        Some(due_ns)
    }
}

#[cfg(test)]
mod tests {
    use crate::config::Config;
    use crate::shared::Shared;
    use proptest::prelude::*;
    use std::time::Duration;

    proptest! {
        #[test]
        fn as_many_are_served_at_once_as_there_are_workers_and_none_waits_without_need(
            workers in 1_usize..6, places in proptest::option::of(0_usize..5), stalls: bool,
            requests in proptest::collection::vec((0_u64..3_000, 0_u64..5_000), 1..60),
        ) {
            let shared = Shared::new().unwrap();
            let stall = stalls.then(|| "10us,4us".parse().unwrap());
            let config = Config { stall, ..Config::default() };
            let text = places.map_or_else(|| workers.to_string(), |places| format!("{workers}:{places}"));
            let (mut now_ns, mut served) = (0, Vec::<(u64, u64)>::new());
            for (pause_ns, own_ns) in requests {
                now_ns += pause_ns;
                let mut begun_ns = 0;
                let due_ns = shared.region().pool.take(text.parse().unwrap(), now_ns, |begins_ns| {
                    begun_ns = begins_ns;
                    config.due_ns(begun_ns, Duration::from_nanos(own_ns))
                });
                let waiting = served.iter().filter(|(from, _)| *from > now_ns).count();
                let busy = served.iter().filter(|(from, to)| *from <= now_ns && now_ns < *to).count();
                let is_full = places.is_some_and(|places| waiting >= places && busy >= workers);
                prop_assert_eq!(due_ns.is_none(), is_full);
                let Some(due_ns) = due_ns else { continue };
                prop_assert!(due_ns >= begun_ns + own_ns);
                let busy_at = |at_ns: u64| served.iter().filter(|(from, to)| *from <= at_ns && at_ns < *to).count();
                prop_assert!(busy_at(begun_ns) < workers);
                prop_assert!(begun_ns == now_ns || busy_at(begun_ns - 1) == workers, "{} {:?}", begun_ns, served);
                served.push((begun_ns, due_ns));
            }
        }
    }
}
