//! HTTP/2 (RFC 9113): many requests at once on one connection, each on a stream of its own.
//!
//! A connection is opened by the crawl and gives as many `StreamSlot`s as it may have streams; a
//! slot carries one request at a time and rests in the pool between two, as an HTTP/1.1 connection
//! does. One task drives each connection. A connection that closes gives no slot back; requests
//! that the target had not begun go again.
//!
//! Built on `h2`, the library below hyper's client: that does not say which requests a target
//! refused before it began them.

mod exchange;
mod failure;
mod meter;
mod request;

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::io;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::Bytes;
use crawlmark_harness::clock::Clock;
use crawlmark_harness::sample::{ClosedBy, ClosedConnection};
use crawlmark_harness::workload::Flight;
use h2::client::{Builder, SendRequest};
use tokio::task::{JoinHandle, spawn_local};

pub(crate) use self::exchange::StreamSlot;
pub(crate) use self::failure::most_resends;
use self::meter::{Meter, Metered};
pub(crate) use self::request::Requests;
use super::connect::{
    pool::{Lease, Left},
    stream::Stream,
    tcp_info::TcpReadings,
};
use super::response::fields::MOST_HEAD_BYTES;

/// Content that a target may send on a stream before this client has read it: more than most items
/// have, so that the window never delays one.
const STREAM_WINDOW: u32 = 2 << 20;

/// Most content that a target may send on all streams of a connection before this client has read
/// it. It is read at once.
const MOST_WINDOW: u32 = 64 << 20;

/// Bytes of a frame's header (RFC 9113, 4.1). The first frame of a target holds its settings (3.4).
const FRAME_HEADER_BYTES: u64 = 9;

/// State that the streams of a connection share. Dropped with the last of them, it closes the
/// connection.
#[derive(Debug)]
struct Shared {
    meter: Rc<Meter>,
    left: Cell<Left>,
    /// Requests that it was given.
    requests: Cell<u64>,
    tcp: Cell<TcpReadings>,
    /// True if no further request may begin on it.
    is_closing: Cell<bool>,
    /// Possessions, of which its place is given back when it closes.
    lease: RefCell<Lease>,
    driver: JoinHandle<()>,
}

impl Shared {
    /// Begin no further request on it, which `by` closes. Another connection may take its place.
    fn retire(&self, by: ClosedBy, flight: &Flight) {
        if !self.is_closing.replace(true) {
            let requests = self.requests.get();
            flight.closed(ClosedConnection { by, requests });
        }
        drop(self.lease.borrow_mut().place.take());
    }

    fn is_closing(&self) -> bool {
        self.is_closing.get() || self.meter.is_over() || self.left.get().is_none()
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A connection whose target has greeted.
#[derive(Debug)]
pub(crate) struct Greeted {
    sender: SendRequest<Bytes>,
    meter: Rc<Meter>,
    driver: JoinHandle<()>,
    streams: u32,
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
    let meter = Rc::new(Meter::default());
    let failed = |error: h2::Error| io::Error::from(failure::of_greeting(&error, &meter));
    let window = STREAM_WINDOW.saturating_mul(streams).min(MOST_WINDOW);
    let handshake = Builder::new()
        .enable_push(false)
        // None before the target's settings, so that their arrival shows.
        .initial_max_send_streams(0)
        .initial_window_size(STREAM_WINDOW)
        .initial_connection_window_size(window)
        .max_header_list_size(u32::try_from(MOST_HEAD_BYTES).unwrap_or(u32::MAX))
        // Responses that break the protocol fail by themselves, however many they are.
        .max_local_error_reset_streams(None)
        .handshake(Metered::new(stream, &meter, clock));
    let (sender, connection) = handshake.await.map_err(failed)?;
    let mut connection = Box::pin(connection);
    let allowed = poll_fn(|cx| {
        let polled = connection.as_mut().poll(cx);
        match (polled, sender.current_max_send_streams()) {
            (Poll::Ready(Err(error)), _) => Poll::Ready(Err(failed(error))),
            (Poll::Ready(Ok(())), _) => Poll::Ready(Err(failure::of_silence().into())),
            (Poll::Pending, 0) => {
                has_settings.set(meter.passed()[1] >= FRAME_HEADER_BYTES);
                Poll::Pending
            }
            (Poll::Pending, allowed) => Poll::Ready(Ok(allowed)),
        }
    })
    .await?;
    let over = Rc::clone(&meter);
    let driver = spawn_local(async move {
        let connection = pin!(connection);
        // Each stream has its share of an error.
        drop(connection.await);
        over.end();
    });
    let streams = u32::try_from(allowed).unwrap_or(u32::MAX).min(streams);
    Ok(Greeted {
        sender,
        meter,
        driver,
        streams,
    })
}

impl Greeted {
    /// Return a slot for each stream: the first one, and the others.
    pub(crate) fn slots(
        self,
        left: Left,
        lease: Lease,
        tcp: TcpReadings,
    ) -> (StreamSlot, impl Iterator<Item = StreamSlot>) {
        let Self {
            sender,
            meter,
            driver,
            streams,
        } = self;
        let shared = Rc::new(Shared {
            meter,
            left: Cell::new(left),
            requests: Cell::new(0),
            tcp: Cell::new(tcp),
            is_closing: Cell::new(false),
            lease: RefCell::new(lease),
            driver,
        });
        let first = StreamSlot::new(sender.clone(), Rc::clone(&shared));
        (
            first,
            (1..streams).map(move |_| StreamSlot::new(sender.clone(), Rc::clone(&shared))),
        )
    }
}
