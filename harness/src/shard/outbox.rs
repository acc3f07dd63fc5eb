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
    haste: Urgency,
}

/// Urgency of what is queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Urgency {
    /// Not urgent: progress and measurements.
    Waits,
    /// Urgent: another shard, or the end of the run, waits for it.
    Rings,
}

impl Urgency {
    const fn of(frame: &Frame) -> Self {
        match frame {
            Frame::Progress(_) | Frame::Interval(_) | Frame::Sends(_) => Self::Waits,
            Frame::Ready
            | Frame::Refused(_)
            | Frame::Pause(_)
            | Frame::Idle
            | Frame::Shed(_)
            | Frame::Failed(_)
            | Frame::Finishing
            | Frame::Final(_) => Self::Rings,
        }
    }
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// An outbox that writes to `pipe` and rings `bell`.
    pub(super) const fn new(pipe: W, bell: Option<Bell>) -> Self {
        Self {
            pipe,
            bell,
            pending: Vec::new(),
            written: 0,
            haste: Urgency::Waits,
        }
    }

    /// Adds a frame to what goes out.
    pub(super) fn queue(&mut self, frame: &Frame) -> Result<(), WireError> {
        self.pending.extend_from_slice(&encode(frame)?);
        if Urgency::of(frame) == Urgency::Rings {
            self.haste = Urgency::Rings;
        }
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
        if self.haste == Urgency::Rings {
            self.haste = Urgency::Waits;
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
