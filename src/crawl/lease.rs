//! Possessions of an open connection; limit on the connections to a host, and the requests that wait for one of its streams.
//!
//! A request without a stream takes a [`Place`] and opens a connection, or waits until a stream, a
//! place or a failure is passed to it: of those that wait for the streams of one connection, one
//! opens it. It opens nothing itself.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use crawlmark_harness::sample::ErrorKind;

use super::source_addresses::{ConnectionSlot, CountedSource};

/// Possessions of a connection while it is open.
#[derive(Debug, Default)]
pub(super) struct Lease {
    /// Its place among the connections of its host, where those are counted.
    pub(super) place: Option<Place>,
    /// Its connection slot, where that decides its source address.
    pub(super) _slot: Option<ConnectionSlot>,
    /// Its source address, where those were given.
    pub(super) source: Option<CountedSource>,
}

impl Lease {
    /// Return the number of its source address, where those were given, and true for the first call
    /// of a source that was not used before.
    pub(super) fn source(&self) -> Option<(u32, bool)> {
        self.source
            .as_ref()
            .map(|source| (source.number, source.is_new.take()))
    }
}

/// The places of a host.
#[derive(Debug)]
pub(super) struct Places {
    most: u32,
    taken: Cell<u32>,
    waiting: RefCell<VecDeque<Rc<Waiter>>>,
}

/// Message to a request that waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signal {
    /// A stream was put aside for it.
    Reserved,
    /// A place is free.
    Free,
    /// The connection that it waited for did not open.
    Failed(ErrorKind),
}

#[derive(Debug, Default)]
struct Waiter {
    signal: Cell<Option<Signal>>,
    waker: RefCell<Option<Waker>>,
}

impl Places {
    /// Places for so many connections.
    pub(super) fn new(most: u32) -> Rc<Self> {
        Rc::new(Self {
            most: most.max(1),
            taken: Cell::new(0),
            waiting: RefCell::default(),
        })
    }

    /// Take a place, if there is one.
    pub(super) fn take(self: &Rc<Self>) -> Option<Place> {
        let is_free = self.taken.get() < self.most;
        is_free.then(|| {
            self.taken.set(self.taken.get() + 1);
            Place(Rc::clone(self))
        })
    }

    /// Wait for a message.
    pub(super) async fn wait(&self) -> Signal {
        let waiter = Rc::new(Waiter::default());
        self.waiting.borrow_mut().push_back(Rc::clone(&waiter));
        poll_fn(|cx| {
            if let Some(signal) = waiter.signal.take() {
                return Poll::Ready(signal);
            }
            *waiter.waker.borrow_mut() = Some(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Pass a message to the request that has waited longest; false if none waits.
    pub(super) fn signal(&self, signal: Signal) -> bool {
        let mut waiting = self.waiting.borrow_mut();
        // One that stopped waiting has left its entry behind.
        let next =
            std::iter::from_fn(|| waiting.pop_front()).find(|waiter| Rc::strong_count(waiter) > 1);
        let Some(waiter) = next else { return false };
        waiter.signal.set(Some(signal));
        let waker = waiter.waker.take();
        if let Some(waker) = waker {
            waker.wake();
        }
        true
    }
}

/// A place of a host, free again once it is dropped.
#[derive(Debug)]
pub(super) struct Place(Rc<Places>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.taken.set(self.0.taken.get() - 1);
        self.0.signal(Signal::Free);
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

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
