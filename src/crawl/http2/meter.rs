//! Byte stream of a connection that counts what passes, and notes when. It must not know what the
//! bytes mean, but for the start of an answer of HTTP/1.

use std::cell::{Cell, RefCell};
use std::io::{self, IoSlice};
use std::os::fd::RawFd;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::ErrorKind;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::crawl::connect::{
    failure::{Failure, failure_of},
    stream::Stream,
};

/// Start of an answer of HTTP/1. No frame begins with it: it would be too long.
const HTTP_1: &[u8] = b"HTTP/1";

/// Counts of a connection.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Bytes written and read.
    passed: Cell<[u64; 2]>,
    /// Those of them that belong to a request.
    taken: Cell<[u64; 2]>,
    last_read: Cell<Nanos>,
    /// Failure of the byte stream, which the library above it does not pass on.
    failure: RefCell<Option<Failure>>,
    is_over: Cell<bool>,
    /// The socket of the connection while it is open.
    socket: Cell<Option<RawFd>>,
}

impl Meter {
    /// Bytes written and read so far.
    pub(crate) fn passed(&self) -> [u64; 2] {
        self.passed.get()
    }

    /// Take the bytes written and read that belong to no request yet: those of a connection are
    /// those of its requests, as they end.
    pub(crate) fn take(&self) -> [u64; 2] {
        let [written, read] = self.passed.get();
        let before = self.taken.replace([written, read]);
        [written - before[0], read - before[1]]
    }

    fn add(&self, written: usize, read: usize) {
        let before = self.passed.get();
        self.passed
            .set([before[0] + written as u64, before[1] + read as u64]);
    }

    /// Time of the last read that found something.
    pub(crate) fn last_read(&self) -> Nanos {
        self.last_read.get()
    }

    /// The socket of the connection; none once it is closed.
    pub(crate) fn socket(&self) -> Option<RawFd> {
        self.socket.get()
    }

    pub(crate) fn failure(&self) -> Option<Failure> {
        self.failure.borrow().clone()
    }

    /// Note that the connection has ended.
    pub(crate) fn end(&self) {
        self.is_over.set(true);
    }

    pub(crate) fn is_over(&self) -> bool {
        self.is_over.get()
    }

    fn fail(&self, error: io::Error) -> io::Error {
        if let Some(failure) = failure_of(&error) {
            *self.failure.borrow_mut() = Some(failure.clone());
        }
        error
    }
}

/// A stream with its counts.
#[derive(Debug)]
pub(crate) struct Metered<S: Stream> {
    stream: S,
    meter: Rc<Meter>,
    clock: Clock,
}

impl<S: Stream> Metered<S> {
    pub(crate) fn new(stream: S, meter: &Rc<Meter>, clock: Clock) -> Self {
        meter.socket.set(stream.socket());
        Self {
            stream,
            meter: Rc::clone(meter),
            clock,
        }
    }

    fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        if let Poll::Ready(Ok(bytes)) = written {
            self.meter.add(bytes, 0);
        }
        written.map_err(|error| self.meter.fail(error))
    }
}

impl<S: Stream> Drop for Metered<S> {
    /// Its number may be another descriptor's from now on.
    fn drop(&mut self) {
        self.meter.socket.set(None);
    }
}

impl<S: Stream> AsyncRead for Metered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, buf));
        read.map_err(|error| self.meter.fail(error))?;
        let new = &buf.filled()[before..];
        if new.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if self.meter.passed()[1] == 0 && new.starts_with(&HTTP_1[..HTTP_1.len().min(new.len())]) {
            let details = "the target answered with HTTP/1";
            return Poll::Ready(Err(self
                .meter
                .fail(Failure::new(ErrorKind::Http2NotOffered, details).into())));
        }
        self.meter.add(0, new.len());
        self.meter.last_read.set(self.clock.now());
        Poll::Ready(Ok(()))
    }
}

impl<S: Stream> AsyncWrite for Metered<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wrote(written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wrote(written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream)
            .poll_flush(cx)
            .map_err(|error| self.meter.fail(error))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
