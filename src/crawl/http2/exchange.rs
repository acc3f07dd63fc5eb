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
use crawlmark_harness::sample::{Attempt, ErrorKind, InFlight};
use crawlmark_harness::workload::Flight;
use h2::RecvStream;
use h2::client::{ResponseFuture, SendRequest};
use http::Request;
use http::header::{CONTENT_LENGTH, LOCATION};

use super::Shared;
use super::failure::{classify, was_not_begun};
use crate::crawl::answer;
use crate::crawl::compressed::{Coding, Content};
use crate::crawl::exchange::{Broken, Deadline, ExchangeFailure, Traffic, Unusable, Watch};
use crate::crawl::expect::Expected;
use crate::crawl::head::HeadFacts;
use crate::crawl::header_fields::lent;
use crate::crawl::pool::After;
use crate::crawl::redirects;

/// A stream of a connection: carries one request at a time.
#[derive(Debug)]
pub(in crate::crawl) struct StreamSlot {
    sender: SendRequest<Bytes>,
    shared: Rc<Shared>,
    deadline: Deadline,
    traffic: Traffic,
    /// `Location` of the last redirect, where redirects are followed.
    location: Option<Vec<u8>>,
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
            traffic: Traffic::default(),
            location: None,
        }
    }

    /// Return the reason why no further request may begin on it; none if one may.
    pub(in crate::crawl) fn unusable(&mut self, cx: &mut Context<'_>) -> Option<Unusable> {
        let is_gone =
            self.shared.is_closing() || matches!(self.sender.poll_ready(cx), Poll::Ready(Err(_)));
        is_gone.then(|| {
            self.shared.retire();
            Unusable::Ended(ErrorKind::Closed)
        })
    }

    /// As [`Lease::source`](crate::crawl::pool::Lease::source).
    pub(in crate::crawl) fn source(&self) -> Option<(u32, bool)> {
        self.shared.lease.borrow().source()
    }

    /// Take the `Location` of the last response, if it was a redirect and redirects are followed.
    pub(in crate::crawl) const fn take_location(&mut self) -> Option<Vec<u8>> {
        self.location.take()
    }

    /// Count a request that is about to be sent.
    pub(in crate::crawl) fn count_request(&self) {
        let mut left = self.shared.left.get();
        let after = left.take();
        self.shared.left.set(left);
        if after == After::Close {
            self.shared.retire();
        }
    }

    /// True if another request may be sent on it.
    pub(in crate::crawl) fn is_reusable(&self) -> bool {
        !self.shared.is_closing()
    }

    /// Bytes and times since the last exchange began.
    pub(in crate::crawl) const fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Send `request`, then `body`, and read the whole response before the deadline of `watch`.
    pub(in crate::crawl) async fn exchange(
        &mut self,
        request: Request<()>,
        body: &Bytes,
        expected: &mut Expected<'_>,
        watch: &Watch<'_>,
    ) -> Result<Attempt, ExchangeFailure> {
        (self.traffic, self.location) = (Traffic::default(), None);
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
                self.shared.retire();
                return Err(ExchangeFailure::NotSent(Unusable::Ended(
                    self.explained(&error, watch.flight),
                )));
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
                let attempt = answer::judge(&head, incoming.expected.verdict(&head), watch.flight);
                Ok(Attempt {
                    done: self.last_read(watch),
                    ..attempt
                })
            }
            (Ok(()), None) => Err(ExchangeFailure::Broken(Broken {
                kind: ErrorKind::Http2Protocol,
                status: None,
            })),
            (Err(error), head) => Err(self.failed(
                error.as_ref(),
                before,
                head,
                incoming.content_bytes,
                incoming.declared,
                watch.flight,
            )),
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
                    let (held, content) = (self.shared.held, self.shared.content);
                    let facts = lent(response.headers(), |fields| {
                        let coding = if content == Content::Decoded {
                            Coding::of(fields)
                        } else {
                            Coding::Identity
                        };
                        let content_type = incoming.expected.content_type(fields);
                        HeadFacts {
                            content_type,
                            coding,
                            ..HeadFacts::read(status, fields, held)
                        }
                    });
                    if self.shared.is_following && redirects::is_redirect(status) {
                        self.location = response
                            .headers()
                            .get(LOCATION)
                            .map(|location| location.as_bytes().to_vec());
                    }
                    let declared = response
                        .headers()
                        .get(CONTENT_LENGTH)
                        .and_then(|value| value.to_str().ok());
                    incoming.declared = declared.and_then(|value| value.parse().ok());
                    incoming.expected.begin(status);
                    if content == Content::Decoded {
                        incoming.expected.decode(facts.coding);
                    }
                    incoming.head = Some(facts);
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
        head: Option<HeadFacts>,
        content_bytes: u64,
        declared: Option<u64>,
        flight: &Flight,
    ) -> ExchangeFailure {
        let ([written, read], [written_before, read_before]) = (self.shared.meter.passed(), before);
        let kind = error.map_or(ErrorKind::Timeout, |error| self.explained(error, flight));
        let is_of_connection = error.map_or(read == read_before, |error| {
            error.is_io() || error.is_go_away()
        });
        if is_of_connection {
            self.shared.retire();
        }
        let is_end = matches!(kind, ErrorKind::Closed | ErrorKind::Reset | ErrorKind::Io);
        if was_not_begun(kind) && head.is_none() {
            return ExchangeFailure::NotBegun(kind);
        }
        if is_end && written == written_before {
            return ExchangeFailure::NotSent(Unusable::Ended(kind));
        }
        let kind = if kind == ErrorKind::Closed && head.is_some() {
            ErrorKind::Incomplete
        } else {
            kind
        };
        if head.is_some()
            && matches!(
                kind,
                ErrorKind::Incomplete | ErrorKind::Reset | ErrorKind::Timeout
            )
        {
            flight.explain(kind, format!("{content_bytes} bytes of content"));
        }
        // The library does not say that the length is what is wrong.
        if let (ErrorKind::Http2Protocol, Some(error), Some(declared)) = (kind, error, declared) {
            let details = format!(
                "{error}; at least {content_bytes} bytes of content, of a content-length of {declared}"
            );
            flight.explain(kind, details);
        }
        ExchangeFailure::Broken(Broken {
            kind,
            status: head.map(|head| head.status),
        })
    }
}
