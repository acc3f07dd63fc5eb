//! One request and its response on a stream of a connection. The hot path.
//!
//! Times: a request is sent when it is handed over, and its response arrives when the connection
//! reads it, however long its task then waits for its turn.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ClosedBy, ErrorKind, TcpReading};
use crawlmark_harness::workload::Flight;

use super::request::Output;
use super::{Shared, failure};
use crate::crawl::connect::failure::Failure;
use crate::crawl::response::{
    exchange::{Deadline, ExchangeFailure, Traffic, Watch},
    expect::Expected,
    fields::lent,
    head::HeadFacts,
};
use crate::crawl::streams::{failed, note};

/// A stream of a connection: carries one request at a time.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    /// Its position among those of the connection.
    at: usize,
    shared: Rc<Shared>,
    deadline: Deadline,
    /// Number of its last request among those of the connection.
    nth: u64,
    /// The next request, until its exchange begins.
    pub(crate) output: Output,
    /// Bytes and times since the last exchange began.
    pub(crate) traffic: Traffic,
    /// True while a request is on its way.
    is_busy: bool,
    /// The last head, if it says nothing about its response alone.
    known: Option<KnownHead>,
}

/// A head that was read before.
#[derive(Debug, Clone, Copy)]
struct KnownHead {
    /// Number of its fields.
    number: u64,
    facts: HeadFacts,
}

impl StreamSlot {
    pub(super) fn new(at: usize, shared: Rc<Shared>) -> Self {
        Self {
            at,
            shared,
            deadline: Deadline::new(),
            nth: 0,
            output: Output::default(),
            traffic: Traffic::default(),
            is_busy: false,
            known: None,
        }
    }

    /// True if another request may be sent on it.
    pub(crate) fn is_reusable(&self, flight: &Flight) -> bool {
        let connection = self.shared.connection.borrow();
        if let Some(by) = connection.closing() {
            self.shared.used.retire(by, flight);
        }
        !self.shared.used.is_closing()
    }

    /// Read the state of the connection at the end of a request that was sent at `sent`.
    pub(crate) fn read_tcp(&self, sent: Nanos, now: Nanos) -> Option<TcpReading> {
        let mut tcp = self.shared.tcp.get();
        let reading = tcp.read(self.shared.connection.borrow().socket, sent, now);
        self.shared.tcp.set(tcp);
        reading
    }

    /// As [`Lease::source`](crate::crawl::connect::pool::Lease::source).
    pub(crate) fn source(&self) -> Option<(u32, bool)> {
        self.shared.used.source()
    }

    /// Count a request that is about to be sent.
    pub(crate) fn count_request(&mut self, flight: &Flight) {
        self.nth = self.shared.used.count_request(flight);
    }

    /// Send the request in `output`, and read the whole response before the deadline of `watch`,
    /// which ends `attempt`.
    pub(crate) async fn exchange(
        &mut self,
        expected: &mut Expected,
        watch: &Watch<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), ExchangeFailure> {
        self.traffic = Traffic::default();
        watch.flight.carried(self.nth);
        self.deadline.arm(watch);
        let read_before = {
            let connection = &mut *self.shared.connection.borrow_mut();
            // It may have ended while the request waited to be allowed.
            if let Some(by) = connection.closing() {
                self.shared.used.uncount();
                self.shared.used.retire(by, watch.flight);
                let failure = connection.end.clone().unwrap_or_else(failure::of_late);
                return Err(failed(Some(failure), false, None, 0, watch.flight));
            }
            connection.begin(self.at, &mut self.output);
            connection.passed[1]
        };
        self.is_busy = true;
        note(watch, None);
        let mut head = None;
        let ended = poll_fn(|cx| match self.read(cx, &mut head, expected, watch) {
            Poll::Pending if self.deadline.poll(cx, watch.clock) => Poll::Ready(Err(None)),
            polled => polled.map_err(Some),
        })
        .await;
        let ended = match (ended, head) {
            (Ok(done), Some(head)) => {
                attempt.done = done;
                expected.judge(&head, watch.flight, attempt);
                Ok(())
            }
            (ended, _) => Err(self.failed(ended.err().flatten(), read_before, watch.flight)),
        };
        self.release();
        let passed = self.shared.connection.borrow_mut().take_passed();
        [self.traffic.sent, self.traffic.received] = passed;
        ended
    }

    /// Read what has arrived of the response. Return the time at which the last of it did.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        head: &mut Option<HeadFacts>,
        expected: &mut Expected,
        watch: &Watch<'_>,
    ) -> Poll<Result<Nanos, Failure>> {
        let shared = Rc::clone(&self.shared);
        let connection = &mut *shared.connection.borrow_mut();
        let stream = &mut connection.streams[self.at];
        if let (Some(status), None) = (stream.status, &head) {
            let number = stream.fields.number;
            let known = self
                .known
                .filter(|known| known.number == number && !expected.takes_values());
            let facts = match known {
                Some(KnownHead { facts, .. }) => {
                    expected.begin(&facts);
                    facts
                }
                None => lent(stream.fields.iter(), |fields| expected.head(status, fields)),
            };
            let is_general = facts.signals.is_none() && facts.held_ns.is_none();
            self.known = is_general.then_some(KnownHead { number, facts });
            *head = Some(facts);
            self.traffic.first_byte = Some(stream.head_at.max(watch.sent));
            note(watch, self.traffic.first_byte);
        }
        if !stream.content.is_empty() {
            expected.take(&stream.content);
            stream.content.clear();
            let arrived = stream.read_at.max(watch.sent);
            if let Err(kind) = expected.arrived(arrived, watch.flight) {
                return Poll::Ready(Err(Failure::new(kind, "")));
            }
        }
        if let Some(end) = stream.end.take() {
            if expected.has_events() {
                // A response without content may have them in its head.
                let head = (stream.content_bytes == 0).then_some(&stream.fields);
                if let Some(fields) = stream.trailers.as_ref().or(head) {
                    lent(fields.iter(), |fields| expected.end_call(fields));
                }
            }
            return Poll::Ready(end.map(|()| stream.read_at.max(watch.sent)));
        }
        match &mut stream.waker {
            Some(waker) => waker.clone_from(cx.waker()),
            none => *none = Some(cx.waker().clone()),
        }
        connection.confirm(self.at);
        Poll::Pending
    }

    /// Return the failure of a request; without one, its time is over. `read_before` are the bytes
    /// that had been read before it.
    fn failed(
        &self,
        failure: Option<Failure>,
        read_before: u64,
        flight: &Flight,
    ) -> ExchangeFailure {
        let connection = self.shared.connection.borrow();
        if failure.is_none() && connection.passed[1] == read_before {
            self.shared.used.retire(ClosedBy::Client, flight);
        }
        let stream = &connection.streams[self.at];
        let is_end = failure.as_ref().is_some_and(|failure| {
            matches!(
                failure.kind,
                ErrorKind::Closed | ErrorKind::Reset | ErrorKind::Io
            )
        });
        let is_sent = !is_end || connection.is_sent(self.at);
        failed(
            failure,
            is_sent,
            stream.status,
            stream.content_bytes,
            flight,
        )
    }

    fn release(&mut self) {
        if std::mem::take(&mut self.is_busy) {
            self.shared.connection.borrow_mut().release(self.at);
        }
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        self.release();
    }
}
