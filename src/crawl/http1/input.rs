//! Read buffer of a connection: bytes that are not decoded yet.
//!
//! It grows only for a long head, which the decoder refuses at
//! [`MOST_HEAD_BYTES`]. A connection has a buffer only while a response is on its way: most are read
//! at once, in the buffer of the one before, which is in the caches. With 1,024 connections, a buffer
//! each took 8 MiB.

use std::cell::RefCell;
use std::io;
use std::task::{Context, Poll, ready};

use crate::crawl::connect::stream::{Arrived, Stream};
use crate::crawl::response::fields::MOST_HEAD_BYTES;

/// Size of a new buffer: more than most responses need.
const FIRST_BYTES: usize = 8 << 10;

/// Largest buffer for content, and for an idle connection: the bytes that one turn reads.
const MOST_BYTES: usize = 64 << 10;

/// Size for the longest head, and for what one turn reads behind it.
const LONGEST: usize = MOST_HEAD_BYTES + MOST_BYTES;

thread_local! {
    /// Buffers that no connection has, the one used last at the end.
    static SPARE: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

/// Read buffer of a connection.
#[derive(Debug)]
pub(crate) struct Input {
    /// Empty while it has no buffer.
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Input {
    pub(crate) fn new() -> Self {
        Self {
            bytes: Vec::new(),
            start: 0,
            end: 0,
        }
    }

    /// Bytes that are not decoded yet.
    #[inline]
    pub(crate) fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Drop the first `bytes` bytes.
    #[inline]
    pub(crate) fn consume(&mut self, bytes: usize) {
        self.start += bytes;
    }

    /// Have the next read begin where the first one did, as all that was read is decoded: a buffer
    /// that was full is long enough where the rest is not read.
    pub(crate) fn rewind(&mut self) {
        debug_assert!(self.unread().is_empty(), "content is decoded as it arrives");
        (self.start, self.end) = (0, 0);
    }

    /// Append at most `most` bytes from the stream. Return their number, 0 at its end, and how long
    /// the last of them lay unread in the kernel, ns, if the read `is_stamped` and that is known.
    #[inline(always)]
    pub(crate) fn poll_read<S: Stream>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        most: usize,
        is_stamped: bool,
    ) -> Poll<io::Result<Arrived>> {
        // Mostly it waits first: nothing is made ready for that.
        ready!(stream.poll_readable(cx))?;
        self.poll_append(stream, cx, most, is_stamped)
    }

    #[inline(always)]
    fn poll_append<S: Stream>(
        &mut self,
        stream: &mut S,
        cx: &mut Context<'_>,
        most: usize,
        is_stamped: bool,
    ) -> Poll<io::Result<Arrived>> {
        self.make_room();
        let room = (self.bytes.len() - self.end).min(most);
        let part = &mut self.bytes[self.end..self.end + room];
        let arrived = ready!(stream.poll_read_stamped(cx, part, is_stamped))?;
        self.end += arrived.0;
        Poll::Ready(Ok(arrived))
    }

    /// Give the buffer back after a response, and free it if only that needed so much.
    #[inline]
    pub(crate) fn give_back(&mut self) {
        if !self.unread().is_empty() {
            return;
        }
        let Self { bytes, .. } = std::mem::replace(self, Self::new());
        if (1..=MOST_BYTES).contains(&bytes.len()) {
            SPARE.with_borrow_mut(|spare| spare.push(bytes));
        }
    }

    #[inline]
    fn make_room(&mut self) {
        if self.end < self.bytes.len() {
            if self.start == self.end {
                (self.start, self.end) = (0, 0);
            }
        } else if self.bytes.is_empty() {
            let spare = SPARE.with_borrow_mut(Vec::pop);
            self.bytes = spare.unwrap_or_else(|| vec![0; FIRST_BYTES]);
        } else {
            self.make_more_room();
        }
    }

    /// Make room in a full buffer.
    #[cold]
    fn make_more_room(&mut self) {
        let length = self.end - self.start;
        if length > 0 && self.start > 0 {
            self.bytes.copy_within(self.start..self.end, 0);
        } else if length > 0 || self.bytes.len() < MOST_BYTES {
            // Too small for the head, or for what arrives in one read. A head that is this long is
            // rare, and each step to its largest size would leave its memory to the allocator.
            let twice = 2 * self.bytes.len();
            let larger = if twice > MOST_BYTES {
                twice.max(LONGEST)
            } else {
                twice
            };
            self.bytes.resize(larger, 0);
        }
        (self.start, self.end) = (0, length);
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use proptest::prelude::*;

    use super::*;

    impl Stream for std::io::Cursor<Vec<u8>> {}

    proptest! {
        #[test]
        fn nothing_is_lost_and_memory_is_bounded(steps in prop::collection::vec((0..40_000_usize, 0..40_000_usize), 1..60)) {
            let (mut input, mut kept, mut next) = (Input::new(), Vec::<u8>::new(), 0_u8);
            let mut cx = Context::from_waker(Waker::noop());
            let mut most_kept = 0;
            for (read, used) in steps {
                let part: Vec<u8> = (0..read).map(|_| { next = next.wrapping_add(1); next }).collect();
                kept.extend(&part);
                let mut stream = std::io::Cursor::new(part);
                while stream.position() < read as u64 {
                    let polled = input.poll_read(&mut stream, &mut cx, 64 << 10, false);
                    prop_assert!(matches!(polled, Poll::Ready(Ok((1.., None)))));
                }
                most_kept = most_kept.max(kept.len());
                prop_assert_eq!(input.unread(), &kept);
                let used = used.min(kept.len());
                input.consume(used);
                kept.drain(..used);
                let most = if most_kept < MOST_BYTES { MOST_BYTES } else { (2 * most_kept).max(LONGEST) };
                prop_assert!(input.bytes.len() <= most);
            }
            input.consume(kept.len());
            input.give_back();
            prop_assert!(input.bytes.is_empty());
            SPARE.with_borrow(|spare| {
                prop_assert!(spare.iter().all(|bytes| (1..=MOST_BYTES).contains(&bytes.len())));
                Ok(())
            })?;
        }
    }
}
