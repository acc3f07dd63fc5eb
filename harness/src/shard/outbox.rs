//! The shard's end of the pipe up: whole frames, whatever is dropped in between.
//!
//! The reporter's future is dropped when the crawl ends, perhaps in the middle of a frame. What it had queued stays here
//! and goes out first, so the supervisor never sees a frame cut in two.

use std::io;

use tokio::io::{AsyncWrite, AsyncWriteExt};

use crate::wire::{Frame, WireError, encode};

/// Frames on their way up.
#[derive(Debug)]
pub(super) struct Outbox<W> {
    pipe: W,
    pending: Vec<u8>,
    written: usize,
}

impl<W: AsyncWrite + Unpin> Outbox<W> {
    /// An outbox that writes to `pipe`.
    pub(super) const fn new(pipe: W) -> Self {
        Self { pipe, pending: Vec::new(), written: 0 }
    }

    /// Adds a frame to what goes out.
    pub(super) fn queue(&mut self, frame: &Frame) -> Result<(), WireError> {
        self.pending.extend_from_slice(&encode(frame)?);
        Ok(())
    }

    /// Writes what is queued. Dropping the future loses nothing.
    pub(super) async fn flush(&mut self) -> io::Result<()> {
        while self.written < self.pending.len() {
            self.written += self.pipe.write(&self.pending[self.written..]).await?;
        }
        self.pending.clear();
        self.written = 0;
        Ok(())
    }
}
