//! The stream below HTTP: counts what goes over it, stamps an answer's first byte, and bounds what a target can make the
//! client read: per turn of its task, before an answer's head is complete, and as framing of its body.
//!
//! Used by the connection. It must not know HTTP beyond what tells an interim answer (1xx) from a final one.

use std::cell::Cell;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crawlmark_harness::clock::{Clock, Nanos};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Bytes that one turn of a task may read. At the worst some 30 ns each, so two milliseconds.
const TURN_BYTES: usize = 64 << 10;

/// The least that a read or a frame costs of these: a turn has 64 steps at most. It is less than tokio's budget of 128
/// steps, so that the timer of the deadline is always looked at.
const STEP_BYTES: usize = 1 << 10;

/// Bytes that may come before a final head is complete, interim answers included. What hyper allows a single head.
const MOST_HEAD_BYTES: u64 = 400 << 10;

/// Interim answers, and blank lines, that may come before the final head. Servers send one or two.
const MOST_INTERIM: u32 = 64;

/// Bytes of framing per byte of content that a body may have. A body in chunks of a single byte needs 5.
const FRAMING_PER_BYTE: u64 = 8;

/// Bytes of framing that a body may have beyond these: what a turn may read, twice.
const FRAMING_BYTES: u64 = 128 << 10;

/// A stream with its meter.
#[derive(Debug)]
pub(super) struct Metered<S> {
    stream: S,
    meter: Rc<Meter>,
}

/// Bytes that went over a stream since the exchange [began](Meter::begin), and what may still come.
#[derive(Debug)]
pub(super) struct Meter {
    clock: Clock,
    sent: Cell<u64>,
    received: Cell<u64>,
    first_byte: Cell<Option<Nanos>>,
    /// Received when the final head was complete; none until then.
    at_head: Cell<Option<u64>>,
    interim: Cell<Interim>,
    /// Bytes that this turn may still read.
    left: Cell<usize>,
}

impl<S> Metered<S> {
    pub(super) fn new(stream: S, clock: Clock) -> (Self, Rc<Meter>) {
        let meter = Rc::new(Meter {
            clock,
            sent: Cell::new(0),
            received: Cell::new(0),
            first_byte: Cell::new(None),
            at_head: Cell::new(None),
            interim: Cell::default(),
            left: Cell::new(TURN_BYTES),
        });
        (Self { stream, meter: Rc::clone(&meter) }, meter)
    }
}

impl Meter {
    /// Begins an exchange.
    pub(super) fn begin(&self) {
        self.sent.set(0);
        self.received.set(0);
        self.first_byte.set(None);
        self.at_head.set(None);
        self.interim.set(Interim::default());
    }

    /// Begins a turn of the task. Call whenever it is polled.
    pub(super) fn begin_turn(&self) {
        self.left.set(TURN_BYTES);
    }

    /// Counts a frame that was read. True if the turn is over; the task is woken for another one then.
    pub(super) fn ends_turn(&self, cx: &Context<'_>) -> bool {
        let is_over = self.is_spent();
        self.spend(STEP_BYTES);
        if is_over {
            cx.waker().wake_by_ref();
        }
        is_over
    }

    /// True if this turn may read no more.
    pub(super) fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    /// Notes that the final head is complete.
    pub(super) fn end_head(&self) {
        self.at_head.set(Some(self.received.get()));
    }

    /// True if a body of which `content` bytes came has more framing than any target needs. Call when all that was
    /// received has been decoded.
    pub(super) fn is_padded(&self, content: u64) -> bool {
        let framing = self.received.get().saturating_sub(self.at_head.get().unwrap_or(0)).saturating_sub(content);
        framing > FRAMING_BYTES.saturating_add(content.saturating_mul(FRAMING_PER_BYTE))
    }

    /// Bytes written.
    pub(super) fn sent(&self) -> u64 {
        self.sent.get()
    }

    /// Bytes read.
    pub(super) fn received(&self) -> u64 {
        self.received.get()
    }

    /// Time of the first byte read, of an interim answer too.
    pub(super) fn first_byte(&self) -> Option<Nanos> {
        self.first_byte.get()
    }

    fn spend(&self, bytes: usize) {
        self.left.set(self.left.get().saturating_sub(bytes.max(STEP_BYTES)));
    }

    /// Counts what was read.
    fn count(&self, read: &[u8]) -> io::Result<()> {
        self.spend(read.len());
        if read.is_empty() {
            return Ok(());
        }
        if self.first_byte.get().is_none() {
            self.first_byte.set(Some(self.clock.now()));
        }
        let before = self.received.get();
        self.received.set(before + read.len() as u64);
        if self.at_head.get().is_some() {
            return Ok(());
        }
        let mut interim = self.interim.get();
        interim.read(read);
        self.interim.set(interim);
        if before >= MOST_HEAD_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the head is too long"));
        }
        if interim.blank_lines > MOST_INTERIM {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "too many interim answers"));
        }
        Ok(())
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Metered<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let Self { stream, meter } = self.get_mut();
        let left = meter.left.get();
        if left == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        if buf.remaining() <= left {
            std::task::ready!(Pin::new(stream).poll_read(cx, buf))?;
        } else {
            let mut part = ReadBuf::new(buf.initialize_unfilled_to(left));
            std::task::ready!(Pin::new(stream).poll_read(cx, &mut part))?;
            let read = part.filled().len();
            buf.advance(read);
        }
        Poll::Ready(meter.count(&buf.filled()[before..]))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Metered<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let Self { stream, meter } = self.get_mut();
        let written = std::task::ready!(Pin::new(stream).poll_write(cx, buf))?;
        meter.sent.set(meter.sent.get() + written as u64);
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().stream).poll_shutdown(cx)
    }
}

/// Counts interim answers by the blank lines that end them, until the status line of the final head. No header line can
/// begin as one.
#[derive(Debug, Clone, Copy, Default)]
struct Interim {
    blank_lines: u32,
    at: At,
}

/// Position of the next byte in the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum At {
    /// In a line, after so many bytes of [`STATUS_LINE`] where that may be one.
    Line(usize),
    /// In or behind a final head.
    Final,
}

/// Start of a status line, up to the first digit of its status. A dot stands for any byte.
const STATUS_LINE: &[u8] = b"HTTP/1.. ";

impl Default for At {
    fn default() -> Self {
        Self::Line(0)
    }
}

impl Interim {
    /// Takes in the next bytes. Those of a final head and what follows are not looked at.
    fn read(&mut self, bytes: &[u8]) {
        const OTHER: usize = usize::MAX;
        let At::Line(mut matched) = self.at else { return };
        // Nearly every answer: its first bytes are the status line of a final head.
        if let (0, [b'H', b'T', b'T', b'P', b'/', b'1', b'.', _, b' ', first, ..]) = (matched, bytes)
            && *first != b'1'
            && !bytes[..10].contains(&b'\n')
        {
            self.at = At::Final;
            return;
        }
        for &byte in bytes {
            matched = match STATUS_LINE.get(matched) {
                _ if byte == b'\n' => {
                    self.blank_lines += u32::from(matched == 0);
                    0
                }
                Some(_) if byte == b'\r' && matched == 0 => 0,
                Some(&expected) if expected == byte || expected == b'.' => matched + 1,
                None if matched == STATUS_LINE.len() && byte != b'1' => {
                    self.at = At::Final;
                    return;
                }
                _ => OTHER,
            };
        }
        self.at = At::Line(matched);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interim_answers_are_counted_up_to_the_final_one() {
        for (text, blank_lines, is_final) in [
            ("HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 100 Continue\r\n", 0, true),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 103\r\nlink: HTTP/1.1 100\r\n\r\nHTTP/1.1 404 No", 2, true),
            ("\r\n\nHTTP/1.1 100\n\nHTTP/1.1 1", 3, false),
            ("HTTP/2 100\r\n\r\nxHTTP/1.1 200", 1, false),
        ] {
            let mut whole = Interim::default();
            whole.read(text.as_bytes());
            assert_eq!((whole.blank_lines, whole.at == At::Final), (blank_lines, is_final), "{text:?}");
            let mut bytewise = Interim::default();
            text.bytes().for_each(|byte| bytewise.read(&[byte]));
            assert_eq!((bytewise.blank_lines, bytewise.at), (whole.blank_lines, whole.at), "{text:?}");
        }
    }
}
