//! Waking the one task of a gate that lets waiting lanes through.
//!
//! One thread. It must not decide who is let through.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::clock::Nanos;

/// The task that lets waiting lanes through, as seen by those who may have to wake it.
#[derive(Default)]
pub(super) struct Keeper {
    waker: Cell<Option<Waker>>,
    /// Until when it sleeps unless it is called; the end of time when it waits to be called.
    pub(super) asleep_until: Cell<Option<Nanos>>,
    called: Cell<bool>,
}

impl Keeper {
    /// Wakes the keeper if it would sleep beyond `due`.
    pub(super) fn call_before(&self, due: Nanos) {
        if self.asleep_until.get().is_some_and(|until| until >= due) {
            self.call();
        }
    }

    /// Has the keeper look again.
    pub(super) fn call(&self) {
        self.called.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    pub(super) async fn called(&self) {
        poll_fn(|cx| {
            if self.called.replace(false) {
                return Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
