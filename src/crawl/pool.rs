//! Idle connections, by host, with a limit on their number.
//!
//! Called by the crawl on the hot path; it opens nothing itself. With one host there are never more
//! connections than lanes: one is opened only when none is idle.

use std::cell::{Cell, RefCell};

/// Connections at rest for each lane, at most. Lanes go from host to host; two for each lane are
/// enough for two hosts never to need a new one, and keep a crawl of very many hosts from keeping a
/// connection to each.
pub(super) const RESTING_PER_LANE: usize = 2;

/// The connections of one shard that are not in use.
#[derive(Debug)]
pub(super) struct Pool<C> {
    /// Per host, the most recently used last: it is the one whose state is still in the caches.
    idle: RefCell<Vec<Vec<C>>>,
    resting: Cell<usize>,
    most: usize,
    /// The host that was last looked at for a connection to close.
    closed_of: Cell<usize>,
}

impl<C> Pool<C> {
    /// An empty pool for so many hosts and lanes.
    pub(super) fn new(hosts: usize, lanes: u32) -> Self {
        Self {
            idle: RefCell::new((0..hosts).map(|_| Vec::new()).collect()),
            resting: Cell::new(0),
            most: (lanes as usize).saturating_mul(RESTING_PER_LANE),
            closed_of: Cell::new(0),
        }
    }

    /// Close the connections to `host` that were unused for longest, as long as they are `old`.
    pub(super) fn expire(&self, host: usize, old: impl Fn(&C) -> bool) {
        let mut idle = self.idle.borrow_mut();
        let expired = idle[host]
            .iter()
            .take_while(|connection| old(connection))
            .count();
        idle[host].drain(..expired);
        self.resting.set(self.resting.get() - expired);
    }

    /// A connection to `host`, if one is at rest.
    pub(super) fn take(&self, host: usize) -> Option<C> {
        let connection = self.idle.borrow_mut()[host].pop()?;
        self.resting.set(self.resting.get() - 1);
        Some(connection)
    }

    /// Keeps a connection to `host` for later. Beyond what may rest, another one is closed; the
    /// hosts give one in turn.
    pub(super) fn keep(&self, host: usize, connection: C) {
        let mut idle = self.idle.borrow_mut();
        idle[host].push(connection);
        self.resting.set(self.resting.get() + 1);
        while self.resting.get() > self.most {
            let next = (self.closed_of.get() + 1) % idle.len();
            self.closed_of.set(next);
            if !idle[next].is_empty() {
                // The one that was unused for longest.
                drop(idle[next].remove(0));
                self.resting.set(self.resting.get() - 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_most_recently_used_is_taken_and_the_least_is_closed() {
        let pool = Pool::new(2, 1);
        (0..3).for_each(|n| pool.keep(0, n));
        assert_eq!(
            [pool.take(1), pool.take(0), pool.take(0), pool.take(0)],
            [None, Some(2), Some(1), None]
        );
        (3..5).for_each(|n| pool.keep(0, n));
        pool.expire(1, |_| true);
        pool.expire(0, |n| *n == 3);
        assert_eq!(
            (pool.resting.get(), pool.take(0), pool.take(0)),
            (1, Some(4), None)
        );
    }

    proptest! {
        #[test]
        fn one_or_two_hosts_never_lose_one_and_others_are_bounded(
            hosts in 1..5_usize, lanes in 1..6_u32, turns in prop::collection::vec((0..6_u32, 0..5_usize), 0..200),
        ) {
            let (pool, all, mut opened) = (Pool::new(hosts, lanes), Rc::new(()), 0);
            let mut busy: Vec<Option<(usize, Rc<()>)>> = (0..lanes).map(|_| None).collect();
            for (lane, host) in turns {
                let (lane, host) = ((lane % lanes) as usize, host % hosts);
                if let Some((host, connection)) = busy[lane].take() {
                    pool.keep(host, connection);
                } else {
                    let connection = pool.take(host).unwrap_or_else(|| {
                        opened += 1;
                        Rc::clone(&all)
                    });
                    busy[lane] = Some((host, connection));
                }
                let open = Rc::strong_count(&all) - 1;
                prop_assert!(open <= lanes as usize * hosts.min(1 + RESTING_PER_LANE));
                prop_assert!(hosts > 2 || open == opened, "{open} of {opened}");
            }
        }
    }
}
