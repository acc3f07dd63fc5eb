//! One HTTP/1.1 connection: writes a request and reads its response through the codec, in the task
//! that awaits it. The hot path: one write and one read per request, and no allocation.
//!
//! Bytes that arrive while none of a request is written are unsolicited: they close the connection
//! and answer no request. A response may begin once the first byte of its request is written; if it
//! ends before its request does, it counts, and the connection closes.
//!
//! It limits the work that a target can cause in one turn of its task; the codec limits the rest.
//! It must not know what a response means.

mod input;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crawlmark_harness::clock::{Nanos, wall_time};
use crawlmark_harness::sample::{Attempt, ErrorKind, Outcome};
use crawlmark_harness::workload::{Flight, InFlight};

use self::input::Input;
use super::answer;
use super::codec::{Cut, Decoder, Malformed, Received, Repetition, RequestKind, Sink};
use super::compressed::{Coding, Content};
use super::cookies::{Jar, LentJar, SharedJar};
use super::exchange::failure_of;
use super::exchange::{Broken, Deadline, ExchangeFailure, Traffic, Unusable, Watch};
use super::expect::Expected;
use super::head::{HeadFacts, HoldHeader};
use super::header_fields::HeaderFields;
use super::host::Scheme;
use super::pool::Lease;
use super::pool::{After, Left};
use super::proxy::{Absolute, Hop, Way};
use super::redirects;
use super::spec::CrawlSpec;
use super::stream::Stream;

/// Bytes that one turn of a task may read and write: two milliseconds at the worst case of some 30
/// ns each.
const TURN_BYTES: usize = 64 << 10;

/// Bytes that a read or a write counts for at least, so that a turn has at most 64 of them. Tokio's
/// budget is 128, so the timer of the deadline is always polled.
const STEP_BYTES: usize = 1 << 10;

/// Status with which a proxy asks for credentials. No target may send it (RFC 9110, 15.5.8).
const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;

/// A connection that is open.
#[derive(Debug)]
pub(super) struct Connection<S: Stream> {
    stream: S,
    input: Input,
    /// The current request, or the last one.
    output: Vec<u8>,
    decoder: Decoder,
    /// Head of the current response, or of the last one.
    head: Option<HeadFacts>,
    held: HoldHeader,
    content: Content,
    traffic: Traffic,
    deadline: Deadline,
    left: Left,
    /// True if the connection was seen to be open, so that the next exchange need not look.
    is_seen_open: bool,
    /// True if the connection may carry another request: the last response is complete and did not
    /// close it.
    is_kept_alive: bool,
    /// Parts of its requests to a proxy that forwards them; none of a connection to the target.
    absolute: Option<Absolute>,
    /// True if redirects are followed.
    is_following: bool,
    /// `Location` of the last redirect, where redirects are followed.
    location: Option<Vec<u8>>,
    /// Its cookies, where they are kept.
    jar: Option<LentJar>,
    /// Time at which its last exchange ended, where that counts.
    idle_since: Nanos,
    lease: Lease,
}

impl<S: Stream> Connection<S> {
    /// Start with a stream that has just been opened.
    pub(super) fn new(stream: S, spec: &CrawlSpec) -> Self {
        Self {
            stream,
            input: Input::new(),
            output: Vec::new(),
            decoder: Decoder::new(RequestKind::Other),
            head: None,
            held: spec.held,
            content: spec.options.content,
            traffic: Traffic::default(),
            deadline: Deadline::new(),
            left: spec.reuse.begin(),
            is_seen_open: false,
            is_kept_alive: true,
            absolute: None,
            is_following: spec.options.follow > 0,
            location: None,
            jar: None,
            idle_since: Nanos::default(),
            lease: Lease::default(),
        }
    }

    /// Attach the proxy that it goes through, and what it keeps while it is open.
    pub(super) fn with(self, hop: Option<Hop>, lease: Lease) -> Self {
        let absolute = hop.and_then(|hop| match hop.way {
            Way::Absolute(absolute) => Some(absolute),
            Way::Tunnel(_) => None,
        });
        Self {
            absolute,
            lease,
            ..self
        }
    }

    /// Buffer that the next request is written to, and its parts for a proxy that forwards it.
    pub(super) const fn output(&mut self) -> (&mut Vec<u8>, Option<&Absolute>) {
        (&mut self.output, self.absolute.as_ref())
    }

    /// Keep the cookies of its responses in a jar, and send them.
    pub(super) fn with_cookies(self, jar: Option<LentJar>) -> Self {
        Self { jar, ..self }
    }

    /// Add cookies to the request in [`output`](Self::output), where they are kept.
    pub(super) fn add_cookies(&mut self, scheme: Scheme) {
        if let Some(jar) = &self.jar {
            jar.jar()
                .borrow()
                .add_to(&mut self.output, scheme, wall_time());
        }
    }

    /// Its cookies, where they are kept.
    pub(super) fn jar(&self) -> Option<SharedJar> {
        self.jar.as_ref().map(|lent| Rc::clone(lent.jar()))
    }

    /// Use another jar, where cookies are kept. Return the one before it.
    pub(super) fn swap_jar(&mut self, jar: SharedJar) -> Option<SharedJar> {
        self.jar.as_mut().map(|lent| lent.swap(jar))
    }

    /// Take the `Location` of the last response, if it was a redirect and redirects are followed.
    pub(super) const fn take_location(&mut self) -> Option<Vec<u8>> {
        self.location.take()
    }

    /// Note the time from which it is idle.
    pub(super) const fn rest(&mut self, since: Nanos) {
        self.idle_since = since;
    }

    /// Time from which it is idle.
    pub(super) const fn idle_since(&self) -> Nanos {
        self.idle_since
    }

    /// Bytes and times since the last exchange began.
    pub(super) const fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Count a request that is about to be sent, and return the fate of the connection after it.
    pub(super) const fn count_request(&mut self) -> After {
        self.left.take()
    }

    /// Return the reason why a connection at rest cannot carry another request; none if it can. The
    /// next exchange then does not look again, unless [`recheck`](Self::recheck) is called. Makes
    /// no system call unless the runtime has seen an event.
    pub(super) fn unusable(&mut self, cx: &mut Context<'_>, flight: &Flight) -> Option<Unusable> {
        let unusable = self.poll_unusable(cx, flight);
        self.is_seen_open = unusable.is_none();
        unusable
    }

    /// As [`Lease::source`].
    pub(super) fn source(&self) -> Option<(u32, bool)> {
        self.lease.source()
    }

    /// Have the next exchange look again if the connection is open: time has passed since.
    pub(super) const fn recheck(&mut self) {
        self.is_seen_open = false;
    }

    /// True if another request may be sent on it.
    pub(super) fn is_reusable(&self) -> bool {
        self.is_kept_alive && !self.left.is_none()
    }

    /// Read while there must be nothing to read, and note unsolicited bytes in `flight`.
    fn poll_unusable(&mut self, cx: &mut Context<'_>, flight: &Flight) -> Option<Unusable> {
        if !self.stream.may_be_readable() {
            return None;
        }
        match self.input.poll_read(&mut self.stream, cx, TURN_BYTES) {
            Poll::Pending => None,
            Poll::Ready(Ok(0)) => Some(Unusable::Ended(ErrorKind::Closed)),
            Poll::Ready(Err(error)) => Some(Unusable::Ended(classify(&error, flight))),
            Poll::Ready(Ok(_)) => {
                flight.unsolicited();
                Some(Unusable::Spoke)
            }
        }
    }

    /// Send the request in [`output`](Self::output), then `body`, and read the whole answer before
    /// the deadline of `watch`.
    pub(super) async fn exchange(
        &mut self,
        body: &[u8],
        expected: &mut Expected<'_>,
        watch: &Watch<'_>,
    ) -> Result<Attempt, ExchangeFailure> {
        (self.traffic, self.is_kept_alive) = (Traffic::default(), false);
        self.deadline.arm(watch);
        let is_head = self.output.starts_with(b"HEAD ");
        self.decoder.restart_for(if is_head {
            RequestKind::Head
        } else {
            RequestKind::Other
        });
        let mut exchange = Exchange {
            body,
            writing: Writing::On,
            expected,
            malformed: None,
            has_head: false,
            watch,
            left: 0,
        };
        let done = poll_fn(|cx| self.turn(cx, &mut exchange)).await?;
        let Some(head) = &self.head else {
            return Err(self.broken(&exchange, ErrorKind::Malformed));
        };
        let mut attempt = answer::judge(head, exchange.expected.verdict(head), watch.flight);
        if let Some(Absolute { proxy, .. }) = &self.absolute
            && head.status == PROXY_AUTHENTICATION_REQUIRED
        {
            watch.flight.explain(
                ErrorKind::ProxyAuth,
                format!("{proxy}: it answered with status {}", head.status),
            );
            attempt.outcome = Outcome::Error(ErrorKind::ProxyAuth);
        }
        // After surplus bytes, or an answer to a request that was not sent to its end, the next
        // answer could not be attributed.
        let may_keep =
            self.decoder.keeps_alive() && exchange.writing == Writing::Done && !self.left.is_none();
        let has_surplus = !self.input.unread().is_empty();
        self.is_kept_alive = may_keep && !has_surplus;
        if may_keep && has_surplus {
            watch.flight.unsolicited();
        }
        self.input.shrink();
        Ok(Attempt { done, ..attempt })
    }

    /// Write and read as much as one turn of the task may. Return the time of the last read once
    /// the response is complete.
    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_, '_>,
    ) -> Poll<Result<Nanos, ExchangeFailure>> {
        exchange.left = TURN_BYTES;
        let flight = exchange.watch.flight;
        let is_new = self.traffic.sent == 0 && exchange.writing == Writing::On;
        if is_new
            && !std::mem::take(&mut self.is_seen_open)
            && let Some(unusable) = self.poll_unusable(cx, flight)
        {
            return Poll::Ready(Err(ExchangeFailure::NotSent(unusable)));
        }
        self.write(cx, exchange);
        match exchange.writing {
            Writing::On if self.traffic.sent == 0 => return self.wait(cx, exchange),
            // The end of the connection says more than the failure to write, such as the alert of a
            // TLS target.
            Writing::Failed(kind) if self.traffic.sent == 0 => {
                let unusable = match self.poll_unusable(cx, flight) {
                    None | Some(Unusable::Ended(ErrorKind::Closed)) => Unusable::Ended(kind),
                    Some(unusable) => unusable,
                };
                return Poll::Ready(Err(ExchangeFailure::NotSent(unusable)));
            }
            _ => {}
        }
        match self.read(cx, exchange) {
            Poll::Ready(Ok(done)) => Poll::Ready(Ok(done)),
            Poll::Ready(Err(kind)) => Poll::Ready(Err(self.broken(exchange, kind))),
            Poll::Pending if exchange.left == 0 => {
                cx.waker().wake_by_ref();
                self.wait(cx, exchange)
            }
            Poll::Pending => self.wait(cx, exchange),
        }
    }

    fn write(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange<'_, '_>) {
        while exchange.left > 0 {
            let written = match exchange.writing {
                Writing::On => {
                    let sent = usize::try_from(self.traffic.sent).unwrap_or(usize::MAX);
                    let part = self.output.get(sent..).unwrap_or_default();
                    let part = if part.is_empty() {
                        &exchange.body[sent - self.output.len()..]
                    } else {
                        part
                    };
                    Pin::new(&mut self.stream).poll_write(cx, part)
                }
                Writing::Flushing => Pin::new(&mut self.stream).poll_flush(cx).map_ok(|()| 0),
                Writing::Done | Writing::Failed(_) => return,
            };
            exchange.writing = match (written, exchange.writing) {
                (Poll::Pending, _) => return,
                (Poll::Ready(Err(error)), _) => {
                    Writing::Failed(classify(&error, exchange.watch.flight))
                }
                (Poll::Ready(Ok(_)), Writing::Flushing) => Writing::Done,
                (Poll::Ready(Ok(0)), _) => Writing::Failed(ErrorKind::Io),
                (Poll::Ready(Ok(bytes)), _) => {
                    exchange.spend(bytes);
                    self.traffic.sent += bytes as u64;
                    let is_whole =
                        self.traffic.sent == (self.output.len() + exchange.body.len()) as u64;
                    if is_whole {
                        Writing::Flushing
                    } else {
                        Writing::On
                    }
                }
            };
        }
    }

    /// Read and decode until the response is complete, there is nothing to read, or the turn is
    /// over. Return the time of the last read.
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_, '_>,
    ) -> Poll<Result<Nanos, ErrorKind>> {
        let clock = exchange.watch.clock;
        while exchange.left > 0 {
            let polled = if exchange.watch.is_sampled {
                self.input
                    .poll_read_stamped(&mut self.stream, cx, exchange.left)
            } else {
                self.input
                    .poll_read(&mut self.stream, cx, exchange.left)
                    .map_ok(|bytes| (bytes, None))
            };
            let (bytes, unread_ns) = std::task::ready!(polled).map_err(|error| {
                match classify(&error, exchange.watch.flight) {
                    ErrorKind::Closed if exchange.has_head => ErrorKind::Incomplete,
                    kind => kind,
                }
            })?;
            exchange.spend(bytes);
            // Most responses arrive in one read: its time is that of the first and of the last
            // byte.
            let mut read_at = None;
            let Exchange {
                expected,
                has_head,
                malformed,
                ..
            } = exchange;
            let mut response = Response {
                head: &mut self.head,
                has_head,
                expected,
                held: self.held,
                content: self.content,
                cookies: self.jar.as_ref().map(|jar| (&**jar.jar(), &*self.output)),
                location: self.is_following.then_some(&mut self.location),
            };
            let mut broken = |rule| {
                *malformed = Some(rule);
                ErrorKind::Malformed
            };
            if bytes == 0 {
                self.decoder
                    .end(self.input.unread(), &mut response)
                    .map_err(|cut| match cut {
                        Cut::Malformed(rule) => broken(rule),
                        Cut::InContent => ErrorKind::Incomplete,
                        Cut::BeforeHead => ErrorKind::Closed,
                    })?;
            } else {
                self.traffic.received += bytes as u64;
                if self.traffic.first_byte.is_none() {
                    read_at = Some(clock.now());
                    self.traffic.first_byte = read_at;
                }
                let decoded = self.decoder.decode(self.input.unread(), &mut response);
                self.input.consume(decoded.map_err(broken)?);
            }
            if self.decoder.is_done() {
                if let Some(ns) = unread_ns {
                    exchange.watch.flight.read_late(ns);
                }
                return Poll::Ready(Ok(read_at.unwrap_or_else(|| clock.now())));
            }
        }
        Poll::Pending
    }

    /// Return ready once the deadline has passed; otherwise make sure that the task is woken by
    /// then. Call before the task waits.
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &Exchange<'_, '_>,
    ) -> Poll<Result<Nanos, ExchangeFailure>> {
        let Watch {
            clock,
            sent,
            flight,
            ..
        } = *exchange.watch;
        let Traffic {
            sent: bytes_sent,
            received: bytes_received,
            first_byte,
        } = self.traffic;
        if bytes_sent > 0 {
            flight.note(InFlight {
                sent,
                first_byte,
                bytes_sent,
                bytes_received,
            });
        }
        // While there is always more to read, the runtime checks its timers late.
        if exchange.left == 0 && self.deadline.has_passed(clock) || self.deadline.poll(cx, clock) {
            return Poll::Ready(Err(self.broken(exchange, ErrorKind::Timeout)));
        }
        Poll::Pending
    }

    /// Return a failure of this kind, with the status of the response if its head has arrived.
    fn broken(&self, exchange: &Exchange<'_, '_>, kind: ErrorKind) -> ExchangeFailure {
        let status = self
            .head
            .filter(|_| exchange.has_head)
            .map(|head| head.status);
        exchange.broken(kind, status, self.decoder.received())
    }
}

/// A request on its way and its response.
struct Exchange<'a, 'b> {
    /// The part of the request's body that is not in the connection's buffer.
    body: &'a [u8],
    writing: Writing,
    expected: &'a mut Expected<'b>,
    /// The rule that the response broke.
    malformed: Option<Malformed>,
    /// True once the head of the response has arrived.
    has_head: bool,
    watch: &'a Watch<'a>,
    /// Bytes that this turn may still read and write.
    left: usize,
}

/// Progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Writing {
    On,
    /// Everything is written, but a TLS stream may still buffer some of it.
    Flushing,
    Done,
    /// Writing failed; a response may still arrive.
    Failed(ErrorKind),
}

/// Receiver of a response.
struct Response<'a, 'b> {
    /// The last head on this connection.
    head: &'a mut Option<HeadFacts>,
    has_head: &'a mut bool,
    expected: &'a mut Expected<'b>,
    held: HoldHeader,
    content: Content,
    /// Jar for cookies, with the request; none where they are not kept.
    cookies: Option<(&'a RefCell<Jar>, &'a [u8])>,
    /// Place for the `Location` of a redirect; none where redirects are not followed.
    location: Option<&'a mut Option<Vec<u8>>>,
}

impl Sink for Response<'_, '_> {
    fn head(&mut self, status: u16, fields: HeaderFields<'_>) -> Repetition {
        let head = self.head.insert(HeadFacts::read(status, fields, self.held));
        *self.has_head = true;
        self.expected.begin(status);
        head.content_type = self.expected.content_type(fields);
        if self.content == Content::Decoded {
            head.coding = Coding::of(fields);
            self.expected.decode(head.coding);
        }
        // Both are of the moment.
        let mut is_repeatable = head.signals.is_none() && self.held == HoldHeader::Ignored;
        if let Some(location) = &mut self.location
            && redirects::is_redirect(status)
        {
            **location = fields.all("location").next().map(<[u8]>::to_vec);
            is_repeatable = false;
        }
        if let Some((jar, request)) = self.cookies {
            is_repeatable &= !jar.borrow_mut().store(fields, request, wall_time());
        }
        if is_repeatable {
            Repetition::Allowed
        } else {
            Repetition::Refused
        }
    }

    fn repeated_head(&mut self) {
        *self.has_head = true;
        if let Some(head) = self.head {
            self.expected.begin(head.status);
            if self.content == Content::Decoded {
                self.expected.decode(head.coding);
            }
        }
    }

    fn content(&mut self, part: &[u8]) {
        self.expected.take(part);
    }
}

impl Exchange<'_, '_> {
    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes.max(STEP_BYTES));
    }

    /// Return a failure of this kind, or of the write error if the connection closed before a
    /// response. Notes its details: the rule that the response broke, or the content that arrived.
    fn broken(
        &self,
        kind: ErrorKind,
        status: Option<u16>,
        received: Option<Received>,
    ) -> ExchangeFailure {
        let kind = match self.writing {
            Writing::Failed(failed) if kind == ErrorKind::Closed => failed,
            _ => kind,
        };
        let is_cut = matches!(
            kind,
            ErrorKind::Incomplete | ErrorKind::Reset | ErrorKind::Timeout
        );
        let of_content = || {
            received
                .filter(|_| is_cut)
                .map(|received| received.to_string())
        };
        if let Some(details) = self
            .malformed
            .map(|rule| rule.to_string())
            .or_else(of_content)
        {
            self.watch.flight.explain(kind, details);
        }
        ExchangeFailure::Broken(Broken { kind, status })
    }
}

/// Reason why an open connection fails. Details are noted in `flight`: in TLS 1.3, the alert about
/// a missing client certificate comes after the handshake.
fn classify(error: &io::Error, flight: &Flight) -> ErrorKind {
    if let Some(failure) = failure_of(error) {
        flight.explain(failure.kind, failure.details.clone());
        return failure.kind;
    }
    match error.kind() {
        io::ErrorKind::ConnectionReset
        | io::ErrorKind::BrokenPipe
        | io::ErrorKind::ConnectionAborted => ErrorKind::Reset,
        // A TLS stream that ends without `close_notify`.
        io::ErrorKind::UnexpectedEof => ErrorKind::Closed,
        _ => {
            flight.explain(ErrorKind::Io, error.to_string());
            ErrorKind::Io
        }
    }
}
