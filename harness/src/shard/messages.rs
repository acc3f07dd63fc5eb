//! Urgent frames from a shard's gate to the supervisor, on their way to the reporter.
//!
//! One thread: a list and the reader that waits for it.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

use crate::wire::Frame;

/// Frames that were not taken yet.
#[derive(Default)]
pub(super) struct Messages {
    pending: RefCell<Vec<Frame>>,
    reader: Cell<Option<Waker>>,
}

impl Messages {
    /// Adds a frame.
    pub(super) fn send(&self, frame: Frame) {
        self.pending.borrow_mut().push(frame);
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    /// The frames that were not taken yet.
    pub(super) fn take(&self) -> Vec<Frame> {
        self.pending.take()
    }

    /// The frames that were sent since the last call, once there is one. Dropping the future loses
    /// nothing.
    pub(super) async fn next(&self) -> Vec<Frame> {
        poll_fn(|cx| {
            let pending = self.take();
            if pending.is_empty() {
                self.reader.set(Some(cx.waker().clone()));
                return Poll::Pending;
            }
            Poll::Ready(pending)
        })
        .await
    }
}
