//! Connections at rest, for each host its own. Never more of them, with those in use, than the shard may have.
//!
//! Called by the crawl on the hot path; it opens nothing itself.

use std::cell::{Cell, RefCell};

/// The connections of one shard that are not in use.
#[derive(Debug)]
pub(super) struct Pool<C> {
    /// Per host, the most recently used last: it is the one whose state is still in the caches.
    idle: Vec<RefCell<Vec<C>>>,
    resting: Cell<usize>,
    in_use: Cell<usize>,
    most: usize,
    /// The host that was last looked at for a connection to close.
    closed_of: Cell<usize>,
}

/// A connection that is in use until this is dropped.
#[derive(Debug)]
pub(super) struct InUse<'a>(&'a Cell<usize>);

impl<C> Pool<C> {
    /// An empty pool for so many hosts, and so many connections in all.
    pub(super) fn new(hosts: usize, most: u32) -> Self {
        Self {
            idle: (0..hosts).map(|_| RefCell::default()).collect(),
            resting: Cell::new(0),
            in_use: Cell::new(0),
            most: most as usize,
            closed_of: Cell::new(0),
        }
    }

    /// Counts a connection that is about to be taken or opened.
    pub(super) fn count_one_in_use(&self) -> InUse<'_> {
        self.in_use.set(self.in_use.get() + 1);
        InUse(&self.in_use)
    }

    /// A connection to `host`, if one is at rest.
    pub(super) fn take(&self, host: usize) -> Option<C> {
        let connection = self.idle[host].borrow_mut().pop()?;
        self.resting.set(self.resting.get() - 1);
        Some(connection)
    }

    /// Keeps a connection to `host` for later.
    pub(super) fn keep(&self, host: usize, connection: C) {
        self.idle[host].borrow_mut().push(connection);
        self.resting.set(self.resting.get() + 1);
    }

    /// Closes connections at rest until another one may be opened beside those in use. The hosts give one in turn.
    pub(super) fn make_room(&self) {
        while self.resting.get() > 0 && self.resting.get() + self.in_use.get() > self.most {
            let next = (self.closed_of.get() + 1) % self.idle.len();
            self.closed_of.set(next);
            let mut idle = self.idle[next].borrow_mut();
            if !idle.is_empty() {
                // The one that was unused for longest.
                drop(idle.remove(0));
                self.resting.set(self.resting.get() - 1);
            }
        }
    }
}

impl Drop for InUse<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_most_recently_used_is_taken_and_the_least_is_closed() {
        let pool = Pool::new(2, 3);
        (0..3).for_each(|n| pool.keep(0, n));
        assert_eq!((pool.take(0), pool.take(1)), (Some(2), None));
        pool.keep(0, 2);
        let _in_use = pool.count_one_in_use();
        pool.make_room();
        assert_eq!([pool.take(0), pool.take(0), pool.take(0)], [Some(2), Some(1), None]);
    }

    proptest! {
        #[test]
        fn there_are_never_more_than_there_may_be(
            hosts in 1..5_usize, lanes in 1..6_u32, turns in prop::collection::vec((0..6_u32, 0..5_usize), 0..200),
        ) {
            let (pool, all) = (Pool::new(hosts, lanes), Rc::new(()));
            let mut busy: Vec<Option<(usize, Rc<()>, InUse<'_>)>> = (0..lanes).map(|_| None).collect();
            for (lane, host) in turns {
                let (lane, host) = ((lane % lanes) as usize, host % hosts);
                match busy[lane].take() {
                    Some((host, connection, in_use)) => {
                        pool.keep(host, connection);
                        drop(in_use);
                    }
                    None => {
                        let in_use = pool.count_one_in_use();
                        let connection = pool.take(host).unwrap_or_else(|| {
                            pool.make_room();
                            Rc::clone(&all)
                        });
                        busy[lane] = Some((host, connection, in_use));
                    }
                }
                prop_assert!(Rc::strong_count(&all) <= 1 + lanes as usize);
            }
        }
    }
}
