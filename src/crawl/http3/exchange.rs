//! One request and its response on a stream of a connection. The hot path.
//!
//! Times are those of HTTP/2: a request is sent when it is handed over, and its response arrives when
//! the socket is read, however long its task then waits for its turn. Where several responses arrive
//! together, it is the last read before that turn.

use std::cell::Cell;
use std::fmt;
use std::future::{pending, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

use bytes::{Buf, Bytes};
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ClosedBy, ErrorKind};
use crawlmark_harness::workload::Flight;
use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use h3_quinn::{OpenStreams, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HeaderMap};
use tokio::select;

use super::bounded::{Bounded, Streams};
use super::request::Output;
use super::{CANCELLED, Shared};
use crate::crawl::connect::failure::Failure;
use crate::crawl::response::{
    exchange::{Deadline, ExchangeFailure, Progress, Traffic, Watch},
    expect::Expected,
    fields::lent_map,
    head::HeadFacts,
};
use crate::crawl::streams::{failed, note};

/// A stream of a connection: carries one request at a time.
pub(crate) struct StreamSlot {
    shared: Rc<Shared>,
    sender: SendRequest<Streams<OpenStreams>, Bytes>,
    deadline: Deadline,
    /// Number of its last request among those of the connection.
    nth: u64,
    /// The next request, until its exchange begins; none if it cannot be written.
    pub(crate) output: Option<Output>,
    /// Bytes and times since the last exchange began.
    pub(crate) traffic: Traffic,
}

/// What has come of a response.
#[derive(Debug, Default)]
struct Seen {
    is_sent: Cell<bool>,
    head: Cell<Option<HeadFacts>>,
    first_byte: Cell<Option<Nanos>>,
    content_bytes: Cell<u64>,
}

impl StreamSlot {
    pub(super) fn new(
        shared: Rc<Shared>,
        sender: SendRequest<Streams<OpenStreams>, Bytes>,
    ) -> Self {
        Self {
            shared,
            sender,
            deadline: Deadline::new(),
            nth: 0,
            output: None,
            traffic: Traffic::default(),
        }
    }

    /// True if another request may be sent on it.
    pub(crate) fn is_reusable(&self, flight: &Flight) -> bool {
        self.shared.is_usable(flight)
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
        let Some(output) = self.output.take() else {
            let details = "the URL or a header cannot be written in HTTP/3".to_owned();
            watch.flight.explain(ErrorKind::Io, details);
            let (kind, progress) = (ErrorKind::Io, Progress::Sent(None));
            return Err(ExchangeFailure { kind, progress });
        };
        let [_, received_before] = self.shared.connected.socket.passed();
        let seen = Seen::default();
        note(watch, None);
        let ended = {
            let carried = carry(
                &mut self.sender,
                &self.shared,
                output,
                &seen,
                expected,
                watch,
            );
            let (mut carried, deadline) = (pin!(carried), &mut self.deadline);
            poll_fn(|cx| match carried.as_mut().poll(cx) {
                Poll::Pending if deadline.poll(cx, watch.clock) => Poll::Ready(Err(None)),
                polled => polled.map_err(Some),
            })
            .await
        };
        let ended = match (ended, seen.head.get()) {
            (Ok(done), Some(head)) => {
                attempt.done = done;
                expected.judge(&head, watch.flight, attempt);
                Ok(())
            }
            (ended, _) => {
                let failure = ended.err().flatten();
                Err(self.failed(failure, &seen, received_before, watch.flight))
            }
        };
        let [sent, received] = self.shared.take_passed();
        self.traffic = Traffic {
            sent,
            received,
            first_byte: seen.first_byte.get(),
        };
        ended
    }

    /// Return the failure of a request; without one, its time is over. `received_before` are the
    /// bytes that had come before it.
    fn failed(
        &self,
        failure: Option<Failure>,
        seen: &Seen,
        received_before: u64,
        flight: &Flight,
    ) -> ExchangeFailure {
        let shared = &*self.shared;
        let status = seen.head.get().map(|head| head.status);
        let kind = failure.as_ref().map_or(ErrorKind::Timeout, |it| it.kind);
        if !shared.is_usable(flight) {
        } else if kind == ErrorKind::Http3Refused && !seen.is_sent.get() {
            shared.used.retire(ClosedBy::Announced, flight);
        } else if failure.is_none() && shared.connected.socket.passed()[1] == received_before {
            shared.used.retire(ClosedBy::Client, flight);
        }
        let is_sent = seen.is_sent.get() || failure.is_none() || !shared.used.is_closing();
        let failure = failed(failure, is_sent, status, seen.content_bytes.get(), flight);
        if !matches!(failure.progress, Progress::Sent(_)) {
            shared.used.uncount();
        }
        failure
    }
}

impl fmt::Debug for StreamSlot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamSlot").finish_non_exhaustive()
    }
}

/// The request's half of a stream. Dropped before it is finished, it is reset, lest a part of a
/// request looks whole.
struct Sending {
    stream: RequestStream<SendStream<Bytes>, Bytes>,
    is_finished: bool,
}

impl Sending {
    async fn send(&mut self, body: Bytes) -> Result<(), StreamError> {
        if !body.is_empty() {
            self.stream.send_data(body).await?;
        }
        self.stream.finish().await?;
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Sending {
    fn drop(&mut self) {
        if !self.is_finished {
            self.stream.stop_stream(CANCELLED);
        }
    }
}

/// Carry a request and its response. Return the time at which the last of it arrived.
async fn carry(
    sender: &mut SendRequest<Streams<OpenStreams>, Bytes>,
    shared: &Shared,
    output: Output,
    seen: &Seen,
    expected: &mut Expected,
    watch: &Watch<'_>,
) -> Result<Nanos, Failure> {
    let is_head = output.is_head();
    let opened = sender.send_request(output.head).await;
    let (stream, receiving) = opened.map_err(|error| shared.failure(&error))?.split();
    seen.is_sent.set(true);
    let mut sending = Sending {
        stream,
        is_finished: false,
    };
    let receiving = Receiving {
        stream: receiving,
        shared,
        seen,
        watch,
        is_head,
    };
    select! {
        biased;
        ended = receiving.receive(expected) => ended,
        // A target that wants no more of a request may answer it all the same, and one that is gone
        // ends the response, too.
        ended = async {
            drop(sending.send(output.body).await);
            pending().await
        } => ended,
    }
}

/// The response's half of a stream.
struct Receiving<'a> {
    stream: RequestStream<Bounded<RecvStream>, Bytes>,
    shared: &'a Shared,
    seen: &'a Seen,
    watch: &'a Watch<'a>,
    /// True if the response has no content, whatever its head says.
    is_head: bool,
}

impl Receiving<'_> {
    async fn receive(mut self, expected: &mut Expected) -> Result<Nanos, Failure> {
        let (seen, watch) = (self.seen, self.watch);
        let head = loop {
            let head = self
                .stream
                .recv_response()
                .await
                .map_err(|error| self.shared.failure(&error))?;
            if !head.status().is_informational() {
                break head;
            }
        };
        seen.first_byte.set(Some(self.arrived()));
        let status = head.status().as_u16();
        let facts = lent_map(head.headers(), |fields| expected.head(status, fields));
        seen.head.set(Some(facts));
        note(watch, seen.first_byte.get());
        let has_content = !self.is_head && !matches!(status, 204 | 304);
        let declared = declared(head.headers()).filter(|_| has_content);
        let mut count = 0;
        loop {
            let content = poll_fn(|cx| self.stream.poll_recv_data(cx)).await;
            let Some(mut content) = content.map_err(|error| self.shared.failure(&error))? else {
                break;
            };
            while content.has_remaining() {
                let part = content.chunk();
                let bytes = part.len();
                expected.take(part);
                count += bytes as u64;
                content.advance(bytes);
            }
            seen.content_bytes.set(count);
            let arrived = expected.arrived(self.arrived(), watch.flight);
            arrived.map_err(|kind| Failure::new(kind, ""))?;
            if declared.is_some_and(|declared| count > declared) {
                break;
            }
        }
        if let Some(declared) = declared.filter(|declared| *declared != count) {
            let details =
                format!("at least {count} bytes of content, of a content-length of {declared}");
            return Err(Failure::new(ErrorKind::Http3Protocol, &details));
        }
        let trailers = self
            .stream
            .recv_trailers()
            .await
            .map_err(|error| self.shared.failure(&error))?;
        if expected.has_events() {
            let head = (count == 0).then_some(head.headers());
            if let Some(fields) = trailers.as_ref().or(head) {
                lent_map(fields, |fields| expected.end_call(fields));
            }
        }
        Ok(self.arrived())
    }

    /// Time of the last read.
    fn arrived(&self) -> Nanos {
        self.shared.connected.socket.read_at().max(self.watch.sent)
    }
}

/// Length of the content as the head has it.
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
