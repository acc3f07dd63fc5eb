//! Connections that carry many requests at once, each on a stream of its own: what HTTP/2 and HTTP/3
//! have in common.
//!
//! Times: a request is sent when it is handed over, and its response arrives when the connection
//! reads it, however long its task then waits for its turn. It must not know how either is written.

use std::cell::{Cell, RefCell};
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::os::fd::RawFd;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ClosedBy, ClosedConnection, ErrorKind, TcpReading};
use crawlmark_harness::workload::{Flight, InFlight};
use tokio::task::JoinHandle;

use super::carry::{Carry, Terms, Wanted, Written};
use super::connect::{
    failure::Failure,
    pool::{After, Lease, Left},
    tcp_info::TcpReadings,
};
use super::requests::request::Item;
use super::response::{
    exchange::{Deadline, ExchangeFailure, Progress, Traffic, Watch, was_not_begun},
    expect::Expected,
    head::HeadFacts,
};

/// A connection that carries many requests at once. Dropped, it closes.
pub(crate) trait Multiplex: Debug + 'static {
    /// Maker of its requests.
    type Requests;
    /// State of a stream, with its next request.
    type Stream: Debug;
    /// True if it takes back the count of requests that were not begun by itself.
    const UNCOUNTS: bool;

    /// Write the next request of a stream.
    fn write(requests: &Self::Requests, item: Item<'_>, stream: &mut Self::Stream);

    /// Carry that request and its response. Return the time at which the last of that arrived.
    fn carry(
        &self,
        stream: &mut Self::Stream,
        receiver: Receiver<'_>,
    ) -> impl Future<Output = Result<Nanos, Failure>>;

    /// End the exchange of a stream: what remains of it is not sent, and not read.
    fn release(&self, stream: &mut Self::Stream);

    /// Bytes written and read.
    fn passed(&self) -> [u64; 2];

    /// The socket, while it is open, if it is TCP's.
    fn socket(&self) -> Option<RawFd>;

    /// Return the side that closes it, if no further request may begin on it.
    fn closing(&self) -> Option<ClosedBy>;

    /// Failure of a request that may not begin on it any more.
    fn late(&self) -> Failure;

    /// As [`closing`](Self::closing), as far as the failure of a request says so.
    fn closing_after(&self, stream: &Self::Stream, kind: ErrorKind) -> Option<ClosedBy> {
        let _ = (stream, kind);
        self.closing()
    }

    /// True if some of the present request of a stream may have been sent, which failed because of
    /// `kind` on a connection that `is_closing`.
    fn is_sent(&self, stream: &Self::Stream, kind: ErrorKind, is_closing: bool) -> bool;
}

/// Parts of a response that have arrived.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(super) head: Option<HeadFacts>,
    pub(super) first_byte: Option<Nanos>,
    pub(super) content_bytes: u64,
}

/// Receiver of a response.
#[derive(Debug)]
pub(crate) struct Receiver<'a> {
    pub(super) seen: &'a mut Seen,
    pub(super) expected: &'a mut Expected,
    pub(super) watch: &'a Watch<'a>,
}

impl Receiver<'_> {
    /// Note the head of the response, which arrived at `at`.
    pub(super) fn begin(&mut self, head: HeadFacts, at: Nanos) {
        (self.seen.head, self.seen.first_byte) = (Some(head), Some(at));
        note(self.watch, self.seen.first_byte);
    }
}

/// State that the streams of a connection share.
#[derive(Debug)]
struct Shared<M> {
    connection: M,
    used: Use,
    tcp: Cell<TcpReadings>,
    /// Bytes sent and received that belong to a request.
    taken: Cell<[u64; 2]>,
    /// Task that reads and writes.
    driver: JoinHandle<()>,
}

impl<M> Drop for Shared<M> {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A stream of a connection: carries one request at a time.
#[derive(Debug)]
pub(crate) struct StreamSlot<M: Multiplex> {
    shared: Rc<Shared<M>>,
    stream: M::Stream,
    deadline: Deadline,
    /// Number of its last request among those of the connection.
    nth: u64,
    /// Bytes and times since the last exchange began.
    traffic: Traffic,
    /// True while a request is on its way.
    is_busy: bool,
}

/// Return a slot for each of these streams of a connection, to which it has given so many
/// `requests`, and which `driver` drives.
pub(super) fn slots<M: Multiplex>(
    connection: M,
    driver: JoinHandle<()>,
    requests: Rc<Cell<u64>>,
    terms: Terms,
    streams: impl Iterator<Item = M::Stream>,
) -> impl Iterator<Item = StreamSlot<M>> {
    let shared = Rc::new(Shared {
        connection,
        used: Use::new(terms.left, terms.lease, requests),
        tcp: Cell::new(terms.tcp),
        taken: Cell::default(),
        driver,
    });
    streams.map(move |stream| StreamSlot {
        shared: Rc::clone(&shared),
        stream,
        deadline: Deadline::new(),
        nth: 0,
        traffic: Traffic::default(),
        is_busy: false,
    })
}

impl<M: Multiplex> StreamSlot<M> {
    /// Carry the request, and note its response in `seen`. Return the failure; none if its time is
    /// over.
    #[inline]
    async fn carry(
        &mut self,
        seen: &mut Seen,
        expected: &mut Expected,
        watch: &Watch<'_>,
    ) -> Result<Nanos, Option<Failure>> {
        let (connection, deadline) = (&self.shared.connection, &mut self.deadline);
        let receiver = Receiver {
            seen,
            expected,
            watch,
        };
        let mut carried = pin!(connection.carry(&mut self.stream, receiver));
        poll_fn(|cx| match carried.as_mut().poll(cx) {
            Poll::Pending if deadline.poll(cx, watch.clock) => Poll::Ready(Err(None)),
            polled => polled.map_err(Some),
        })
        .await
    }

    /// Return the failure of a request; without one, its time is over. `received_before` are the
    /// bytes that had been read before it.
    #[cold]
    fn failed(
        &self,
        failure: Option<Failure>,
        seen: &Seen,
        received_before: u64,
        flight: &Flight,
    ) -> ExchangeFailure {
        let Shared {
            connection, used, ..
        } = &*self.shared;
        let kind = failure.as_ref().map_or(ErrorKind::Timeout, |it| it.kind);
        if let Some(by) = connection.closing_after(&self.stream, kind) {
            used.retire(by, flight);
        } else if failure.is_none() && connection.passed()[1] == received_before {
            used.retire(ClosedBy::Client, flight);
        }
        let is_sent =
            failure.is_none() || connection.is_sent(&self.stream, kind, used.is_closing());
        let status = seen.head.map(|head| head.status);
        let failed = failed(failure, is_sent, status, seen.content_bytes, flight);
        if !M::UNCOUNTS && !matches!(failed.progress, Progress::Sent(_)) {
            used.uncount();
        }
        failed
    }

    #[inline]
    fn release(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            self.shared.connection.release(&mut self.stream);
        }
    }
}

impl<M: Multiplex> Drop for StreamSlot<M> {
    fn drop(&mut self) {
        self.release();
    }
}

impl<M: Multiplex> Carry for StreamSlot<M> {
    type Requests = M::Requests;

    #[inline]
    fn write<'a>(
        &mut self,
        requests: &'a M::Requests,
        wanted: &Wanted<'_>,
        flight: &Flight,
    ) -> Written<'a> {
        self.nth = self.shared.used.count_request(flight);
        M::write(requests, wanted.item, &mut self.stream);
        Written::default()
    }

    async fn exchange(
        &mut self,
        _: &Written<'_>,
        expected: &mut Expected,
        watch: &Watch<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), ExchangeFailure> {
        self.traffic = Traffic::default();
        watch.flight.carried(self.nth);
        self.deadline.arm(watch);
        // It may have ended while the request waited to be allowed.
        if let Some(by) = self.shared.connection.closing() {
            self.shared.used.uncount();
            self.shared.used.retire(by, watch.flight);
            let late = self.shared.connection.late();
            return Err(failed(Some(late), false, None, 0, watch.flight));
        }
        let [_, received_before] = self.shared.connection.passed();
        self.is_busy = true;
        note(watch, None);
        let mut seen = Seen::default();
        let carried = self.carry(&mut seen, expected, watch).await;
        let ended = match (carried, &seen.head) {
            (Ok(done), Some(head)) => {
                attempt.done = done;
                expected.judge(head, watch.flight, attempt);
                Ok(())
            }
            (carried, _) => Err(self.failed(
                carried.err().flatten(),
                &seen,
                received_before,
                watch.flight,
            )),
        };
        self.release();
        // The bytes of a connection are those of its requests, as they end.
        let [sent, received] = self.shared.connection.passed();
        let [sent_before, received_before] = self.shared.taken.replace([sent, received]);
        self.traffic = Traffic {
            sent: sent - sent_before,
            received: received - received_before,
            first_byte: seen.first_byte,
        };
        ended
    }

    fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn read_tcp(&mut self, sent: Nanos, now: Nanos) -> Option<TcpReading> {
        let mut tcp = self.shared.tcp.get();
        let reading = tcp.read(self.shared.connection.socket(), sent, now);
        self.shared.tcp.set(tcp);
        reading
    }

    fn source(&self) -> Option<(u32, bool)> {
        self.shared.used.lease.borrow().source()
    }

    #[inline]
    fn is_reusable(&self, flight: &Flight) -> bool {
        if let Some(by) = self.shared.connection.closing() {
            self.shared.used.retire(by, flight);
        }
        !self.shared.used.is_closing()
    }
}

/// Use of a connection that its streams share.
#[derive(Debug)]
struct Use {
    left: Cell<Left>,
    /// Requests that it was given, without those that the target did not begin.
    requests: Rc<Cell<u64>>,
    is_closing: Cell<bool>,
    /// Possessions, of which its place is given back when it closes.
    lease: RefCell<Lease>,
}

impl Use {
    fn new(left: Left, lease: Lease, requests: Rc<Cell<u64>>) -> Self {
        Self {
            left: Cell::new(left),
            requests,
            is_closing: Cell::new(false),
            lease: RefCell::new(lease),
        }
    }

    /// Begin no further request on it, which `by` closes. Another connection may take its place.
    fn retire(&self, by: ClosedBy, flight: &Flight) {
        if !self.is_closing.replace(true) {
            let requests = self.requests.get();
            flight.closed(ClosedConnection { by, requests });
        }
        drop(self.lease.borrow_mut().place.take());
    }

    /// True if no further request may begin on it.
    fn is_closing(&self) -> bool {
        self.is_closing.get() || self.left.get().is_none()
    }

    /// Count a request that is about to be sent, and return its number.
    fn count_request(&self, flight: &Flight) -> u64 {
        let mut left = self.left.get();
        let after = left.take();
        self.left.set(left);
        let nth = self.requests.get() + 1;
        self.requests.set(nth);
        if after == After::Close {
            self.retire(ClosedBy::Client, flight);
        }
        nth
    }

    /// Take back the count of a request that was not begun.
    fn uncount(&self) {
        self.requests.set(self.requests.get().saturating_sub(1));
    }
}

/// Note the progress of a request, whose first byte of a response came at `first_byte`.
fn note(watch: &Watch<'_>, first_byte: Option<Nanos>) {
    watch.flight.note(InFlight {
        sent: watch.sent,
        first_byte,
        bytes_sent: 0,
        bytes_received: 0,
    });
}

/// Return the failure of a request, explained in `flight`; without one, its time is over. `status` is
/// that of its response, if a head came, and `content_bytes` the content behind it.
fn failed(
    failure: Option<Failure>,
    is_sent: bool,
    status: Option<u16>,
    content_bytes: u64,
    flight: &Flight,
) -> ExchangeFailure {
    let kind = failure.as_ref().map_or(ErrorKind::Timeout, |it| it.kind);
    let progress = match status {
        _ if !is_sent => Progress::NotSent,
        None if was_not_begun(kind) => Progress::NotBegun,
        status => Progress::Sent(status),
    };
    let kind = match kind {
        ErrorKind::Closed if status.is_some() => ErrorKind::Incomplete,
        kind => kind,
    };
    let is_cut = matches!(
        kind,
        ErrorKind::Incomplete | ErrorKind::Reset | ErrorKind::Timeout
    );
    if status.is_some() && is_cut {
        flight.explain(kind, format!("{content_bytes} bytes of content"));
    } else if let Some(failure) = failure.filter(|failure| !failure.details.is_empty()) {
        flight.explain(kind, failure.details);
    }
    ExchangeFailure { kind, progress }
}
