//! One request and its response on a stream of a connection. The hot path.
//!
//! Times: a request is sent when it is handed over, and its response arrives when the connection
//! reads it, however long its task then waits for its turn.

use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use bytes::Bytes;
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ClosedBy, ErrorKind, InFlight, TcpReading};
use crawlmark_harness::workload::Flight;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use http::header::CONTENT_LENGTH;

use super::Shared;
use super::failure::classify;
use crate::crawl::connect::pool::After;
use crate::crawl::response::{
    exchange::{Deadline, ExchangeFailure, Progress, Traffic, Watch, was_not_begun},
    expect::Expected,
    fields::lent,
    head::HeadFacts,
};

/// A stream of a connection: carries one request at a time.
#[derive(Debug)]
pub(crate) struct StreamSlot {
    sender: SendRequest<Bytes>,
    shared: Rc<Shared>,
    deadline: Deadline,
    /// Number of its last request among those of the connection.
    nth: u64,
    /// Bytes and times since the last exchange began.
    pub(crate) traffic: Traffic,
}

/// A response on its way.
struct Incoming<'a, 'b> {
    part: ResponsePart,
    head: Option<HeadFacts>,
    content_bytes: u64,
    /// `Content-Length`, bytes.
    declared: Option<u64>,
    expected: &'a mut Expected<'b>,
}

/// Part of a response that is awaited.
enum ResponsePart {
    Head(ResponseFuture),
    Content(RecvStream),
}

impl StreamSlot {
    pub(super) fn new(sender: SendRequest<Bytes>, shared: Rc<Shared>) -> Self {
        Self {
            sender,
            shared,
            deadline: Deadline::new(),
            nth: 0,
            traffic: Traffic::default(),
        }
    }

    /// Return the reason why no further request may begin on it; none if one may.
    pub(crate) fn unusable(&mut self, cx: &mut Context<'_>, flight: &Flight) -> Option<ErrorKind> {
        let error = match self.sender.poll_ready(cx) {
            Poll::Ready(Err(error)) => Some(error),
            _ => None,
        };
        let is_gone = error.is_some() || self.shared.is_closing();
        is_gone.then(|| {
            self.shared.retire(closed_by(error.as_ref()), flight);
            ErrorKind::Closed
        })
    }

    /// Read the state of the connection at the end of a request that was sent at `sent`.
    pub(crate) fn read_tcp(&self, sent: Nanos, now: Nanos) -> Option<TcpReading> {
        let mut tcp = self.shared.tcp.get();
        let reading = tcp.read(self.shared.meter.socket(), sent, now);
        self.shared.tcp.set(tcp);
        reading
    }

    /// As [`Lease::source`](crate::crawl::connect::pool::Lease::source).
    pub(crate) fn source(&self) -> Option<(u32, bool)> {
        self.shared.lease.borrow().source()
    }

    /// Count a request that is about to be sent.
    pub(crate) fn count_request(&mut self, flight: &Flight) {
        let mut left = self.shared.left.get();
        let after = left.take();
        self.shared.left.set(left);
        self.nth = self.shared.requests.get() + 1;
        self.shared.requests.set(self.nth);
        if after == After::Close {
            self.shared.retire(ClosedBy::Client, flight);
        }
    }

    /// True if another request may be sent on it.
    pub(crate) fn is_reusable(&self) -> bool {
        !self.shared.is_closing()
    }

    /// Send `request`, then `body`, and read the whole response before the deadline of `watch`.
    pub(crate) async fn exchange(
        &mut self,
        request: Request<()>,
        body: &Bytes,
        expected: &mut Expected<'_>,
        watch: &Watch<'_>,
    ) -> Result<Attempt, ExchangeFailure> {
        self.traffic = Traffic::default();
        watch.flight.carried(self.nth);
        self.deadline.arm(watch);
        let before = self.shared.meter.passed();
        let response = match self.sender.send_request(request, body.is_empty()) {
            Ok((response, mut content)) => {
                if !body.is_empty() {
                    // The window paces it; an error is that of the response, too.
                    let _ = content.send_data(body.clone(), true);
                }
                response
            }
            Err(error) => {
                self.shared.retire(closed_by(Some(&error)), watch.flight);
                return Err(ExchangeFailure {
                    kind: self.explained(&error, watch.flight),
                    progress: Progress::NotSent,
                });
            }
        };
        self.note(watch);
        let mut incoming = Incoming {
            part: ResponsePart::Head(response),
            head: None,
            content_bytes: 0,
            declared: None,
            expected,
        };
        let ended = std::future::poll_fn(|cx| match self.read(cx, &mut incoming, watch) {
            Poll::Pending if self.deadline.poll(cx, watch.clock) => Poll::Ready(Err(None)),
            polled => polled.map_err(Some),
        })
        .await;
        [self.traffic.sent, self.traffic.received] = self.shared.meter.take();
        match (ended, incoming.head) {
            (Ok(()), Some(head)) => {
                let attempt = incoming.expected.judge(&head, watch.flight);
                Ok(Attempt {
                    done: self.last_read(watch),
                    ..attempt
                })
            }
            (Ok(()), None) => Err(ExchangeFailure {
                kind: ErrorKind::Http2Protocol,
                progress: Progress::Sent(None),
            }),
            (Err(error), _) => Err(self.failed(error.as_ref(), before, &incoming, watch.flight)),
        }
    }

    /// Read what has arrived of the response.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        incoming: &mut Incoming<'_, '_>,
        watch: &Watch<'_>,
    ) -> Poll<Result<(), h2::Error>> {
        loop {
            match &mut incoming.part {
                ResponsePart::Head(response) => {
                    let response = std::task::ready!(Pin::new(response).poll(cx))?;
                    self.traffic.first_byte = Some(self.last_read(watch));
                    self.note(watch);
                    let status = response.status().as_u16();
                    incoming.head = Some(lent(response.headers(), |fields| {
                        incoming.expected.head(status, fields)
                    }));
                    let declared = response.headers().get(CONTENT_LENGTH);
                    incoming.declared =
                        declared.and_then(|value| value.to_str().ok()?.parse().ok());
                    incoming.part = ResponsePart::Content(response.into_body());
                }
                ResponsePart::Content(content) => match std::task::ready!(content.poll_data(cx)) {
                    None => return Poll::Ready(Ok(())),
                    Some(part) => {
                        let part = part?;
                        incoming.content_bytes += part.len() as u64;
                        if !part.is_empty() {
                            incoming.expected.take(&part);
                        }
                        content.flow_control().release_capacity(part.len())?;
                    }
                },
            }
        }
    }

    /// Return the time of the last read, which brought what is seen now.
    fn last_read(&self, watch: &Watch<'_>) -> Nanos {
        self.shared.meter.last_read().max(watch.sent)
    }

    fn note(&self, watch: &Watch<'_>) {
        let first_byte = self.traffic.first_byte;
        watch.flight.note(InFlight {
            sent: watch.sent,
            first_byte,
            bytes_sent: 0,
            bytes_received: 0,
        });
    }

    /// Return the kind of an error, and note its details.
    fn explained(&self, error: &h2::Error, flight: &Flight) -> ErrorKind {
        let failure = classify(error, &self.shared.meter);
        if !failure.details.is_empty() {
            flight.explain(failure.kind, failure.details);
        }
        failure.kind
    }

    /// Return the failure of a request; without an error, its time is over. `before` are the bytes
    /// that had passed before it.
    fn failed(
        &self,
        error: Option<&h2::Error>,
        before: [u64; 2],
        incoming: &Incoming<'_, '_>,
        flight: &Flight,
    ) -> ExchangeFailure {
        let Incoming {
            head,
            content_bytes,
            declared,
            ..
        } = incoming;
        let ([written, read], [written_before, read_before]) = (self.shared.meter.passed(), before);
        let kind = error.map_or(ErrorKind::Timeout, |error| self.explained(error, flight));
        let is_of_connection = error.map_or(read == read_before, |error| {
            error.is_io() || error.is_go_away()
        });
        if is_of_connection {
            let by = error.map_or(ClosedBy::Client, |error| closed_by(Some(error)));
            self.shared.retire(by, flight);
        }
        let is_end = matches!(kind, ErrorKind::Closed | ErrorKind::Reset | ErrorKind::Io);
        let progress = match head {
            Some(head) => Progress::Sent(Some(head.status)),
            None if was_not_begun(kind) => Progress::NotBegun,
            None => Progress::Sent(None),
        };
        if is_end && written == written_before {
            return ExchangeFailure {
                kind,
                progress: Progress::NotSent,
            };
        }
        let kind = match kind {
            ErrorKind::Closed if head.is_some() => ErrorKind::Incomplete,
            kind => kind,
        };
        let is_cut = matches!(
            kind,
            ErrorKind::Incomplete | ErrorKind::Reset | ErrorKind::Timeout
        );
        if head.is_some() && is_cut {
            flight.explain(kind, format!("{content_bytes} bytes of content"));
        }
        // The library does not say that the length is what is wrong.
        if let (ErrorKind::Http2Protocol, Some(error), Some(declared)) = (kind, error, declared) {
            let details = format!(
                "{error}; at least {content_bytes} bytes of content, of a content-length of {declared}"
            );
            flight.explain(kind, details);
        }
        ExchangeFailure { kind, progress }
    }
}

/// Return the side that closed a connection, given the error of its last request, if any.
fn closed_by(error: Option<&h2::Error>) -> ClosedBy {
    match error {
        Some(error) if error.is_go_away() && error.is_remote() => ClosedBy::Announced,
        _ => ClosedBy::Target,
    }
}
