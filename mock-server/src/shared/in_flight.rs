//! Number of requests in flight over all processes. `LedgerWriter` counts each request of a target
//! whose settings depend on it.
//!
//! It must not know what a request is, and a reset of the ledger does not change it: requests in
//! flight stay in flight.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of requests under way, on cache lines of its own: every process writes it.
#[repr(C, align(128))]
pub(crate) struct InFlight {
    requests: AtomicU64,
}

impl InFlight {
    /// Counts a request until what this returns is dropped, however the request ends.
    pub(crate) fn enter(&self) -> UnderWay<'_> {
        UnderWay {
            others: self.requests.fetch_add(1, Ordering::Relaxed),
            of: self,
        }
    }
}

/// One request under way.
#[must_use]
pub(crate) struct UnderWay<'a> {
    /// Number of others under way when it came: exact, for additions to one number have an order.
    pub(crate) others: u64,
    of: &'a InFlight,
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.of.requests.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sees_the_others_that_are_still_under_way() {
        let in_flight = InFlight {
            requests: AtomicU64::new(0),
        };
        let first = in_flight.enter();
        let second = in_flight.enter();
        assert_eq!((first.others, second.others), (0, 1));
        drop(first);
        assert_eq!(in_flight.enter().others, 1);
        drop(second);
        assert_eq!(in_flight.enter().others, 0);
    }

    #[test]
    fn threads_see_every_number_once() {
        let in_flight = InFlight {
            requests: AtomicU64::new(0),
        };
        let (threads, each) = (4_u64, 1000_u64);
        let mut seen: Vec<u64> = std::thread::scope(|scope| {
            let enter = || (0..each).map(|_| in_flight.enter()).collect::<Vec<_>>();
            let handles: Vec<_> = (0..threads).map(|_| scope.spawn(enter)).collect();
            let entered: Vec<_> = handles
                .into_iter()
                .flat_map(|handle| handle.join().unwrap())
                .collect();
            entered.iter().map(|under_way| under_way.others).collect()
        });
        seen.sort_unstable();
        assert!(seen.into_iter().eq(0..threads * each));
        assert_eq!(in_flight.enter().others, 0);
    }
}
