//! One request and its response on a stream of a connection. The hot path.

use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::os::fd::RawFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{ClosedBy, ErrorKind};

use super::connection::Connection;
use super::failure;
use super::request::{Output, Requests};
use crate::crawl::connect::failure::Failure;
use crate::crawl::requests::request::Item;
use crate::crawl::response::{fields::lent, head::HeadFacts};
use crate::crawl::streams::{Multiplex, Receiver};

/// A stream of a connection.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its position among those of the connection.
    at: usize,
    /// The next request, until its exchange begins.
    output: Output,
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

impl Stream {
    /// The stream at a position.
    pub(super) fn new(at: usize) -> Self {
        Self {
            at,
            output: Output::default(),
            known: None,
        }
    }

    /// Read what has arrived of the response. Return the time at which the last of it did.
    fn read(
        &mut self,
        connection: &mut Connection,
        cx: &mut Context<'_>,
        receiver: &mut Receiver<'_>,
    ) -> Poll<Result<Nanos, Failure>> {
        let watch = receiver.watch;
        let stream = &mut connection.streams[self.at];
        if let (Some(status), None) = (stream.status, &receiver.seen.head) {
            let number = stream.fields.number;
            let known = self.known.filter(|known| known.number == number);
            let facts = match known {
                Some(KnownHead { facts, .. }) => {
                    receiver.expected.begin(&facts);
                    facts
                }
                None => lent(stream.fields.iter(), |fields| {
                    receiver.expected.head(status, fields)
                }),
            };
            let is_general = facts.signals.is_none()
                && facts.held_ns.is_none()
                && !receiver.expected.keeps_head();
            self.known = is_general.then_some(KnownHead { number, facts });
            receiver.begin(facts, stream.head_at.max(watch.sent));
        }
        let Receiver { seen, expected, .. } = receiver;
        seen.content_bytes = stream.content_bytes;
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
}

impl Multiplex for Rc<RefCell<Connection>> {
    type Requests = Requests;
    type Stream = Stream;
    const UNCOUNTS: bool = true;

    #[inline]
    fn write(requests: &Requests, item: Item<'_>, stream: &mut Stream) {
        requests.write(item, &mut stream.output);
    }

    #[inline]
    fn carry(
        &self,
        stream: &mut Stream,
        mut receiver: Receiver<'_>,
    ) -> impl Future<Output = Result<Nanos, Failure>> {
        self.borrow_mut().begin(stream.at, &mut stream.output);
        poll_fn(move |cx| {
            let connection = &mut *self.borrow_mut();
            stream.read(connection, cx, &mut receiver)
        })
    }

    #[inline]
    fn release(&self, stream: &mut Stream) {
        self.borrow_mut().release(stream.at);
    }

    #[inline]
    fn passed(&self) -> [u64; 2] {
        self.borrow().passed
    }

    fn socket(&self) -> Option<RawFd> {
        self.borrow().socket
    }

    #[inline]
    fn closing(&self) -> Option<ClosedBy> {
        self.borrow().closing()
    }

    fn late(&self) -> Failure {
        self.borrow().end.clone().unwrap_or_else(failure::of_late)
    }

    fn is_sent(&self, stream: &Stream, kind: ErrorKind, _: bool) -> bool {
        let is_end = matches!(kind, ErrorKind::Closed | ErrorKind::Reset | ErrorKind::Io);
        !is_end || self.borrow().is_sent(stream.at)
    }
}
