//! Workers that serve requests: when each of them is free. A request takes the one that is free
//! first, which is known beforehand, so that no process has to wake another.

use super::lock::{Lock, Word};
use crate::slowdown::{MAX_WORKERS, Workers};

/// Workers of all processes.
#[repr(C, align(64))]
pub(crate) struct Pool {
    lock: Lock,
    /// Nanoseconds on the common clock.
    free_ns: [Word; MAX_WORKERS],
}

impl Pool {
    /// Take the worker that is free first until the instant that `due_ns` makes of the one at which
    /// it is free, and return that.
    pub(crate) fn take(&self, workers: Workers, due_ns: impl FnOnce(u64) -> u64) -> u64 {
        let _held = self.lock.hold();
        let first = self
            .free_ns
            .iter()
            .take(workers.get())
            .min_by_key(|worker| worker.get());
        let due_ns = due_ns(first.map_or(0, Word::get));
        if let Some(first) = first {
            first.set(due_ns);
        }
        due_ns
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
            workers in 1_usize..6, stalls: bool,
            requests in proptest::collection::vec((0_u64..3_000, 0_u64..5_000), 1..60),
        ) {
            let shared = Shared::new().unwrap();
            let stall = stalls.then(|| "10us,4us".parse().unwrap());
            let config = Config { stall, ..Config::default() };
            let (mut now_ns, mut served) = (0, Vec::<(u64, u64)>::new());
            for (pause_ns, own_ns) in requests {
                now_ns += pause_ns;
                let mut begun_ns = 0;
                let due_ns = shared.region().pool.take(workers.to_string().parse().unwrap(), |free_ns| {
                    begun_ns = now_ns.max(free_ns);
                    config.due_ns(begun_ns, Duration::from_nanos(own_ns))
                });
                prop_assert!(due_ns >= begun_ns + own_ns);
                let busy_at = |at_ns: u64| served.iter().filter(|(from, to)| *from <= at_ns && at_ns < *to).count();
                prop_assert!(busy_at(begun_ns) < workers);
                prop_assert!(begun_ns == now_ns || busy_at(begun_ns - 1) == workers, "{} {:?}", begun_ns, served);
                served.push((begun_ns, due_ns));
            }
        }
    }
}
