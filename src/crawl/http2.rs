//! HTTP/2 (RFC 9113): many requests at once on one connection, each on a stream of its own.
//!
//! A connection is opened by the crawl and gives as many `StreamSlot`s as it may have streams; a
//! slot carries one request at a time and rests in the pool between two, as an HTTP/1.1 connection
//! does. A request queues its frames; one task for each connection writes all that are queued at
//! once, reads, and wakes the requests whose responses have come. A connection that closes gives no
//! slot back; requests that the target had not begun go again.
//!
//! | file | for |
//! |---|---|
//! | `hpack` | header fields as bytes |
//! | `connection` | the state of a connection, without input and output |
//! | `exchange` | a request and its response on a stream |
//! | `request`, `failure` | what is sent; what goes wrong |
//!
//! A client of its own: with the crate `h2`, which tests have as the other side, a request took
//! 32,700 instructions over 8 connections of 16 streams, of which more than 20,000 were that
//! library's (15,100 reading and writing, 3,900 sending, 1,800 dropping a stream). This one takes
//! 6,600 in all.

mod connection;
mod exchange;
mod failure;
mod hpack;
#[cfg(any(test, fuzzing))]
#[path = "http2/tests/laws.rs"]
pub mod laws;
mod request;
#[cfg(test)]
mod tests;

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crawlmark_harness::clock::Clock;
use tokio::task::{JoinHandle, spawn_local};

use self::connection::{Connection, MOST_QUEUED};
pub(crate) use self::failure::most_resends;
pub(crate) use self::request::Requests;
use super::carry::Terms;
use super::connect::{failure::Failure, stream::Stream};
use super::http1::Input;
use super::streams::{self, slots};

/// A stream of a connection: carries one request at a time.
pub(crate) type StreamSlot = streams::StreamSlot<Rc<RefCell<Connection>>>;

/// Bytes that one turn of the task reads: two milliseconds at the worst case of some 30 ns each.
const TURN_BYTES: usize = 64 << 10;

/// Bytes that a read counts for at least, so that a turn has at most 64 of them.
const STEP_BYTES: usize = 1 << 10;

/// Reads and writes for a connection.
#[derive(Debug)]
struct Driver<S: Stream> {
    stream: S,
    input: Input,
    connection: Rc<RefCell<Connection>>,
    clock: Clock,
}

impl<S: Stream> Driver<S> {
    /// Take a turn. Ready once the connection has ended.
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Rc::clone(&self.connection);
        let connection = &mut *shared.borrow_mut();
        connection.driver = Some(cx.waker().clone());
        let read = self.read(cx, connection);
        // What is queued is an error of the connection, if that has failed.
        let written = self.write(cx, connection);
        match read.and_then(|is_over| written.map(|()| is_over)) {
            Err(failure) => {
                connection.fail(failure);
                Poll::Ready(())
            }
            Ok(is_over) => {
                if !is_over && connection.queued().len() <= MOST_QUEUED {
                    cx.waker().wake_by_ref();
                }
                Poll::Pending
            }
        }
    }

    /// Read and decode what has come. Return false if there may be more.
    fn read(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Result<bool, Failure> {
        let mut left = TURN_BYTES;
        // A target that does not read what it is sent is not read either.
        while left > 0 && connection.queued().len() <= MOST_QUEUED {
            let polled = self.input.poll_read(&mut self.stream, cx, left, false);
            let Poll::Ready(read) = polled else {
                return Ok(true);
            };
            let (bytes, _) = read.map_err(|error| failure::of_io(&error))?;
            if bytes == 0 {
                return Err(failure::of_end());
            }
            connection.passed[1] += bytes as u64;
            let used = connection.receive(self.input.unread(), self.clock.now())?;
            self.input.consume(used);
            left = left.saturating_sub(bytes.max(STEP_BYTES));
        }
        Ok(false)
    }

    /// Write what is queued, as far as the target takes it.
    fn write(&mut self, cx: &mut Context<'_>, connection: &mut Connection) -> Result<(), Failure> {
        loop {
            connection.queue_content();
            if connection.queued().is_empty() {
                break;
            }
            let written = Pin::new(&mut self.stream).poll_write(cx, connection.queued());
            match written.map_err(|error| failure::of_io(&error))? {
                Poll::Pending => break,
                Poll::Ready(0) => return Err(failure::of_end()),
                Poll::Ready(bytes) => connection.wrote(bytes),
            }
        }
        match Pin::new(&mut self.stream).poll_flush(cx) {
            Poll::Ready(Err(error)) => Err(failure::of_io(&error)),
            _ => Ok(()),
        }
    }
}

impl<S: Stream> Drop for Driver<S> {
    /// The number of the socket may be another descriptor's from now on.
    fn drop(&mut self) {
        self.connection.borrow_mut().socket = None;
    }
}

/// A connection whose target has greeted.
#[derive(Debug)]
pub(crate) struct Greeted {
    connection: Rc<RefCell<Connection>>,
    driver: JoinHandle<()>,
    /// Requests that it carries at once.
    pub(crate) streams: u32,
}

/// Greet the target at the other end of `stream` for so many streams, and wait for settings that
/// allow one; note in `has_settings` that others came.
///
/// # Errors
/// When the target answers anything else.
pub(crate) async fn greet<S: Stream>(
    stream: S,
    streams: u32,
    clock: Clock,
    has_settings: &Cell<bool>,
) -> io::Result<Greeted> {
    let connection = Connection::new(streams, stream.socket());
    let connection = Rc::new(RefCell::new(connection));
    let mut driver = Driver {
        stream,
        input: Input::new(),
        connection: Rc::clone(&connection),
        clock,
    };
    poll_fn(|cx| {
        let polled = driver.poll(cx);
        let connection = connection.borrow();
        has_settings.set(connection.has_settings);
        match (&connection.end, polled) {
            (Some(failure), _) => {
                let failure = failure::of_greeting(failure.clone());
                Poll::Ready(Err(io::Error::from(failure)))
            }
            (None, Poll::Pending) if connection.has_settings && connection.allowed > 0 => {
                Poll::Ready(Ok(()))
            }
            (None, _) => Poll::Pending,
        }
    })
    .await?;
    let streams = connection.borrow().allowed.min(streams);
    let driver = spawn_local(async move { poll_fn(|cx| driver.poll(cx)).await });
    Ok(Greeted {
        connection,
        driver,
        streams,
    })
}

impl Greeted {
    /// Return a slot for each stream.
    pub(crate) fn slots(self, terms: Terms) -> impl Iterator<Item = StreamSlot> {
        let requests = Rc::clone(&self.connection.borrow().requests);
        let streams = (0..self.streams as usize).map(exchange::Stream::new);
        slots(self.connection, self.driver, requests, terms, streams)
    }
}
