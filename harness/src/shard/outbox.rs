//! The shard's end of the pipe to the supervisor: sends a shard's frames up, whole, whatever is
//! dropped in between.
//!
//! The reporter's future is dropped when the crawl ends, perhaps in the middle of a frame. What it
//! had queued stays here and goes out first, so the supervisor never sees a frame cut in two.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Poll, ready};

use tokio::io::AsyncWrite;

use super::wakeup::Bell;
use crate::wire::{Frame, WireError, encode};

/// Frames on their way up.
#[derive(Debug)]
pub(super) struct Outbox<W> {
    pipe: W,
    /// None where the supervisor sees what is written.
    bell: Option<Bell>,
    pending: Vec<u8>,
    written: usize,
    /// True if some of it is urgent.
    is_urgent: bool,
}

/// True if another shard, or the end of the run, waits for a frame.
const fn is_urgent(frame: &Frame) -> bool {
    !matches!(
        frame,
        Frame::Progress(_) | Frame::Interval(_) | Frame::Open(_) | Frame::Sends(_)
    )
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// An outbox that writes to `pipe` and rings `bell`.
    pub(super) const fn new(pipe: W, bell: Option<Bell>) -> Self {
        Self {
            pipe,
            bell,
            pending: Vec::new(),
            written: 0,
            is_urgent: false,
        }
    }

    /// Adds a frame to what goes out.
    pub(super) fn queue(&mut self, frame: &Frame) -> Result<(), WireError> {
        self.pending.extend_from_slice(&encode(frame)?);
        self.is_urgent |= is_urgent(frame);
        Ok(())
    }

    /// Writes what is queued. Dropping the future loses nothing.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.written < self.pending.len() {
            self.written += poll_fn(|cx| {
                let written =
                    Pin::new(&mut self.pipe).poll_write(cx, &self.pending[self.written..]);
                if written.is_pending() {
                    // There is no room until the supervisor looks.
                    self.ring();
                }
                Poll::Ready(ready!(written))
            })
            .await?;
        }
        self.pending.clear();
        self.written = 0;
        if std::mem::take(&mut self.is_urgent) {
            self.ring();
        }
        Ok(())
    }

    fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}
