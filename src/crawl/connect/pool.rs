//! Connections at rest, and what each has while it is open: its possessions, its place among those of
//! its host, and the requests that it may still carry.
//!
//! Called by the crawl on the hot path; it opens and closes nothing itself. A request without a stream
//! takes a [`Place`] and opens a connection, or waits until a stream, a place or a failure is passed
//! to it: of those that wait for the streams of one connection, one opens it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::num::NonZeroU64;
use std::rc::Rc;

use crawlmark_harness::sample::ErrorKind;
use tokio::sync::oneshot;

use super::local_ips::{ConnectionSlot, CountedSource};

/// Connections at rest for each lane, at most. Lanes go from host to host; two for each lane are
/// enough for two hosts never to need a new one, and keep a crawl of very many hosts from keeping a
/// connection to each.
pub(crate) const RESTING_PER_LANE: usize = 2;

/// The connections of one shard that are not in use.
#[derive(Debug)]
pub(crate) struct Pool<C> {
    /// Per host, the most recently used last: it is the one whose state is still in the caches.
    idle: RefCell<Vec<Vec<C>>>,
    resting: Cell<usize>,
    most: usize,
    /// The host that was last looked at for a connection to close.
    closed_of: Cell<usize>,
}

impl<C> Pool<C> {
    /// An empty pool for so many hosts and lanes.
    pub(crate) fn new(hosts: usize, lanes: u32) -> Self {
        Self {
            idle: RefCell::new((0..hosts).map(|_| Vec::new()).collect()),
            resting: Cell::new(0),
            most: (lanes as usize).saturating_mul(RESTING_PER_LANE),
            closed_of: Cell::new(0),
        }
    }

    /// Take the connections to `host` that were unused for longest, as long as they are `old`.
    pub(crate) fn expire(&self, host: usize, old: impl Fn(&C) -> bool) -> Vec<C> {
        let mut idle = self.idle.borrow_mut();
        let expired = idle[host]
            .iter()
            .take_while(|connection| old(connection))
            .count();
        self.resting.set(self.resting.get() - expired);
        idle[host].drain(..expired).collect()
    }

    /// A connection to `host`, if one is at rest.
    #[inline]
    pub(crate) fn take(&self, host: usize) -> Option<C> {
        let connection = self.idle.borrow_mut()[host].pop()?;
        self.resting.set(self.resting.get() - 1);
        Some(connection)
    }

    /// Keeps a connection to `host` for later. Beyond what may rest, another one is closed; the
    /// hosts give one in turn.
    #[inline]
    pub(crate) fn keep(&self, host: usize, connection: C) {
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

/// Possessions of a connection while it is open.
#[derive(Debug, Default)]
pub(crate) struct Lease {
    /// Its place among the connections of its host, where those are counted.
    pub(crate) place: Option<Place>,
    /// Its connection slot, where that decides its source address.
    pub(crate) _slot: Option<ConnectionSlot>,
    /// Its source address, where those were given.
    pub(crate) source: Option<CountedSource>,
}

impl Lease {
    /// Return the number of its source address, where those were given, and true for the first call
    /// of a source that was not used before.
    pub(crate) fn source(&self) -> Option<(u32, bool)> {
        self.source
            .as_ref()
            .map(|source| (source.number, source.is_new.take()))
    }
}

/// The places of a host.
#[derive(Debug)]
pub(crate) struct Places {
    most: u32,
    taken: Cell<u32>,
    waiting: RefCell<VecDeque<oneshot::Sender<Signal>>>,
}

/// Message to a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A stream was put aside for it.
    Reserved,
    /// A place is free.
    Free,
    /// The connection that it waited for did not open.
    Failed(ErrorKind),
}

impl Places {
    /// Places for so many connections.
    pub(crate) fn new(most: u32) -> Rc<Self> {
        Rc::new(Self {
            most: most.max(1),
            taken: Cell::new(0),
            waiting: RefCell::default(),
        })
    }

    /// Take a place, if there is one.
    pub(crate) fn take(self: &Rc<Self>) -> Option<Place> {
        let is_free = self.taken.get() < self.most;
        is_free.then(|| {
            self.taken.set(self.taken.get() + 1);
            Place(Rc::clone(self))
        })
    }

    /// Wait for a message.
    pub(crate) async fn wait(&self) -> Signal {
        let (sender, receiver) = oneshot::channel();
        self.waiting.borrow_mut().push_back(sender);
        receiver.await.unwrap_or(Signal::Free)
    }

    /// Pass a message to the request that has waited longest; false if none waits.
    pub(crate) fn signal(&self, signal: Signal) -> bool {
        loop {
            let Some(next) = self.waiting.borrow_mut().pop_front() else {
                return false;
            };
            // One that stopped waiting has left its entry behind.
            if next.send(signal).is_ok() {
                return true;
            }
        }
    }
}

/// A place of a host, free again once it is dropped.
#[derive(Debug)]
pub(crate) struct Place(Rc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.set(self.0.taken.get() - 1);
        self.0.signal(Signal::Free);
    }
}

/// Number of requests that a connection carries before this client closes it. The target may close
/// it earlier.
///
/// The last one says `connection: close`, as clients do that are told not to keep connections (Go's
/// `net/http` with `DisableKeepAlives`, which is hey's `-disable-keepalive` and k6's
/// `noConnectionReuse`). The header alone decides nothing: a target may leave it unheeded. So this
/// client closes the connection, too, as soon as the answer is there.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reuse {
    /// As many as the target lets it.
    #[default]
    Unbounded,
    /// Closed after that many requests; 1 is a new connection for every request.
    Requests(NonZeroU64),
}

impl Reuse {
    /// For a connection that is opened now.
    pub(crate) const fn begin(self) -> Left {
        match self {
            Self::Unbounded => Left(u64::MAX),
            Self::Requests(requests) => Left(requests.get()),
        }
    }
}

impl fmt::Display for Reuse {
    /// `unbounded`, or the number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unbounded => f.write_str("unbounded"),
            Self::Requests(requests) => requests.fmt(f),
        }
    }
}

/// Number of requests that a connection may still carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Left(u64);

impl Left {
    /// Takes one of them, and says what becomes of the connection after it. There is one, or the
    /// connection was closed.
    pub(crate) const fn take(&mut self) -> After {
        self.0 = self.0.saturating_sub(1);
        if self.0 == 0 {
            After::Close
        } else {
            After::Keep
        }
    }

    /// True if there is none.
    pub(crate) const fn is_none(self) -> bool {
        self.0 == 0
    }
}

/// State of a connection after a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// Open for the next request.
    Keep,
    /// Closed.
    Close,
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

#[cfg(test)]
mod lease_tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    #[test]
    fn places_are_counted_and_those_who_wait_are_served_in_order_without_those_who_left() {
        let places = Places::new(2);
        let mut cx = Context::from_waker(Waker::noop());
        let taken = [places.take().unwrap(), places.take().unwrap()];
        assert!(
            places.take().is_none() && !places.signal(Signal::Reserved),
            "nobody waits"
        );
        let (mut first, mut last) = (pin!(places.wait()), pin!(places.wait()));
        assert!(first.as_mut().poll(&mut cx).is_pending());
        {
            let mut left = pin!(places.wait());
            assert!(left.as_mut().poll(&mut cx).is_pending());
        }
        assert!(last.as_mut().poll(&mut cx).is_pending());
        drop(taken);
        assert_eq!(first.as_mut().poll(&mut cx), Poll::Ready(Signal::Free));
        assert_eq!(last.as_mut().poll(&mut cx), Poll::Ready(Signal::Free));
        assert!(!places.signal(Signal::Reserved));
        assert!(places.take().is_some());
    }
}

#[cfg(test)]
mod reuse_tests {
    use super::*;

    #[test]
    fn the_last_request_closes_its_connection() {
        let after = |reuse: Reuse| {
            let mut left = reuse.begin();
            [left.take(), left.take(), left.take()]
        };
        let requests = |n| Reuse::Requests(NonZeroU64::new(n).unwrap());
        assert_eq!(after(Reuse::Unbounded), [After::Keep; 3]);
        assert_eq!(after(requests(3)), [After::Keep, After::Keep, After::Close]);
        assert_eq!(after(requests(1))[0], After::Close);
        assert_eq!(
            [Reuse::Unbounded.to_string(), requests(20).to_string()],
            ["unbounded", "20"]
        );
    }
}
