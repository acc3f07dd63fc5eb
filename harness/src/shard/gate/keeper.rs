//! Waking the one task of a gate that lets waiting lanes through, and others that wait for a call.
//!
//! One thread. It must not decide who is let through.

use std::cell::Cell;
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::clock::Nanos;

/// The task that lets waiting lanes through, as seen by those who may have to wake it.
#[derive(Default)]
pub(super) struct Keeper {
    /// Until when it sleeps unless it is called; the end of time when it waits to be called.
    pub(super) asleep_until: Cell<Option<Nanos>>,
    call: Call,
}

/// A call that one task waits for. One that no task waits for yet is kept.
#[derive(Default)]
pub(super) struct Call {
    waker: Cell<Option<Waker>>,
    is_made: Cell<bool>,
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
        self.call.make();
    }

    pub(super) async fn called(&self) {
        self.call.made().await;
    }
}

impl Call {
    /// Wakes the task.
    pub(super) fn make(&self) {
        self.is_made.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Return once it is made.
    pub(super) async fn made(&self) {
        poll_fn(|cx| {
            if self.is_made.replace(false) {
                return Poll::Ready(());
            }
            self.waker.set(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }
}
