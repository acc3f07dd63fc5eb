//! One request and its response on a stream of a connection. The hot path.
//!
//! Where several responses arrive together, each arrives at the last read before its task's turn.

use std::fmt;
use std::future::{Future, pending, poll_fn};
use std::os::fd::RawFd;

use bytes::{Buf, Bytes};
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{ClosedBy, ErrorKind};
use h3::client::{RequestStream, SendRequest};
use h3::error::StreamError;
use h3_quinn::{OpenStreams, RecvStream, SendStream};
use http::header::{CONTENT_LENGTH, HeaderMap};
use tokio::select;

use super::bounded::{Bounded, Streams};
use super::request::{Output, Requests};
use super::{CANCELLED, Connected};
use crate::crawl::connect::failure::Failure;
use crate::crawl::requests::request::Item;
use crate::crawl::response::fields::lent_map;
use crate::crawl::streams::{Multiplex, Receiver};

/// A stream of a connection.
pub(crate) struct Stream {
    sender: SendRequest<Streams<OpenStreams>, Bytes>,
    /// The next request, until its exchange begins; none if it cannot be written.
    output: Option<Output>,
    /// True if the present request has a stream.
    is_sent: bool,
}

impl Stream {
    pub(super) const fn new(sender: SendRequest<Streams<OpenStreams>, Bytes>) -> Self {
        Self {
            sender,
            output: None,
            is_sent: false,
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

impl Multiplex for Connected {
    type Requests = Requests;
    type Stream = Stream;
    const UNCOUNTS: bool = false;

    fn write(requests: &Requests, item: Item<'_>, stream: &mut Stream) {
        (stream.output, stream.is_sent) = (requests.output(item), false);
    }

    fn carry(
        &self,
        stream: &mut Stream,
        receiver: Receiver<'_>,
    ) -> impl Future<Output = Result<Nanos, Failure>> {
        // Boxed, for the library's futures are larger than all others.
        Box::pin(carry(self, stream, receiver))
    }

    fn release(&self, _: &mut Stream) {}

    fn passed(&self) -> [u64; 2] {
        self.socket.passed()
    }

    fn socket(&self) -> Option<RawFd> {
        None
    }

    fn closing(&self) -> Option<ClosedBy> {
        self.quic.close_reason().map(|_| ClosedBy::Target)
    }

    fn late(&self) -> Failure {
        self.end()
            .unwrap_or_else(|| Failure::new(ErrorKind::Closed, ""))
    }

    fn closing_after(&self, stream: &Stream, kind: ErrorKind) -> Option<ClosedBy> {
        let is_announced = kind == ErrorKind::Http3Refused && !stream.is_sent;
        let announced = is_announced.then_some(ClosedBy::Announced);
        self.closing().or(announced)
    }

    fn is_sent(&self, stream: &Stream, _: ErrorKind, is_closing: bool) -> bool {
        stream.is_sent || !is_closing
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
    connected: &Connected,
    stream: &mut Stream,
    receiver: Receiver<'_>,
) -> Result<Nanos, Failure> {
    let Some(output) = stream.output.take() else {
        let details = "the URL or a header cannot be written in HTTP/3";
        return Err(Failure::new(ErrorKind::Io, details));
    };
    let is_head = output.is_head();
    let opened = stream.sender.send_request(output.head).await;
    let (sending, receiving) = opened.map_err(|error| connected.failure(&error))?.split();
    stream.is_sent = true;
    let mut sending = Sending {
        stream: sending,
        is_finished: false,
    };
    let receiving = Receiving {
        stream: receiving,
        connected,
        receiver,
        is_head,
    };
    select! {
        biased;
        ended = receiving.receive() => ended,
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
    connected: &'a Connected,
    receiver: Receiver<'a>,
    /// True if the response has no content, whatever its head says.
    is_head: bool,
}

impl Receiving<'_> {
    async fn receive(mut self) -> Result<Nanos, Failure> {
        let head = loop {
            let head = self
                .stream
                .recv_response()
                .await
                .map_err(|error| self.connected.failure(&error))?;
            if !head.status().is_informational() {
                break head;
            }
        };
        let (at, status) = (self.arrived(), head.status().as_u16());
        let facts = lent_map(head.headers(), |fields| {
            self.receiver.expected.head(status, fields)
        });
        self.receiver.begin(facts, at);
        let has_content = !self.is_head && !matches!(status, 204 | 304);
        let declared = declared(head.headers()).filter(|_| has_content);
        let mut count = 0;
        loop {
            let content = poll_fn(|cx| self.stream.poll_recv_data(cx)).await;
            let Some(mut content) = content.map_err(|error| self.connected.failure(&error))? else {
                break;
            };
            while content.has_remaining() {
                let part = content.chunk();
                let bytes = part.len();
                self.receiver.expected.take(part);
                count += bytes as u64;
                content.advance(bytes);
            }
            self.receiver.seen.content_bytes = count;
            let at = self.arrived();
            let Receiver {
                expected, watch, ..
            } = &mut self.receiver;
            let arrived = expected.arrived(at, watch.flight);
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
            .map_err(|error| self.connected.failure(&error))?;
        if self.receiver.expected.has_events() {
            let head = (count == 0).then_some(head.headers());
            if let Some(fields) = trailers.as_ref().or(head) {
                lent_map(fields, |fields| self.receiver.expected.end_call(fields));
            }
        }
        Ok(self.arrived())
    }

    /// Time of the last read.
    fn arrived(&self) -> Nanos {
        self.connected
            .socket
            .read_at()
            .max(self.receiver.watch.sent)
    }
}

/// Length of the content as the head has it.
fn declared(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
