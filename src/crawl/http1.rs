//! One HTTP/1.1 connection: writes a request and reads its response through the codec, in the task
//! that awaits it. The hot path: one write and one read per request, and no allocation.
//!
//! Bytes that arrive while none of a request is written are unsolicited: they close the connection
//! and answer no request. A response may begin once the first byte of its request is written; if it
//! ends before its request does, it counts, and the connection closes.
//!
//! It limits the work that a target can cause in one turn of its task; the codec limits the rest.
//! It must not know what a response means.

pub mod codec;
mod input;
pub(crate) mod request;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crawlmark_harness::clock::{Nanos, wall_time};
use crawlmark_harness::sample::{
    Attempt, ClosedBy, ClosedConnection, ErrorKind, Outcome, TcpReading,
};
use crawlmark_harness::workload::{Flight, InFlight};

use self::codec::{ContentAhead, Cut, Decoder, Malformed, Received, Repetition, RequestKind, Sink};
pub(crate) use self::input::Input;
use self::request::{Output, Writer};
use super::carry::{Carry, End, Terms, Wanted, Written};
use super::connect::{
    failure::failure_of,
    pool::{Lease, Left},
    proxy::{Absolute, Way},
    stream::{Arrived, Stream},
    tcp_info::TcpReadings,
};
use super::response::{
    cookies::{Jar, LentJar},
    exchange::{Deadline, ExchangeFailure, Progress, Traffic, Watch},
    expect::Expected,
    fields::HeaderFields,
    head::HeadFacts,
};

/// Bytes that one turn of a task may read and write: two milliseconds at the worst case of some 30
/// ns each.
const TURN_BYTES: usize = 64 << 10;

/// Bytes that a read or a write counts for at least, so that a turn has at most 64 of them: the
/// runtime's budget does not limit a lane.
const STEP_BYTES: usize = 1 << 10;

/// Content ahead that is worth discarding: of a chunk, that takes a system call more, as what is
/// behind it is read by another one.
const LEAST_DISCARDED: u64 = 4 << 10;

/// Bytes that are read at first of a response whose content is likely to be discarded: those of most
/// heads.
const SKIMMED_BYTES: usize = 1 << 10;

/// Status with which a proxy asks for credentials. No target may send it (RFC 9110, 15.5.8).
const PROXY_AUTHENTICATION_REQUIRED: u16 = 407;

/// A connection that is open.
#[derive(Debug)]
pub(crate) struct Connection<S: Stream> {
    stream: S,
    input: Input,
    /// The next request, until its exchange ends.
    output: Output,
    decoder: Decoder,
    /// Head of the current response, or of the last one.
    head: Option<HeadFacts>,
    /// Bytes and times since the last exchange began.
    traffic: Traffic,
    deadline: Deadline,
    /// Requests that it may still carry, of which the next one takes one.
    left: Left,
    /// True if the connection was seen to be open, so that the next exchange need not look.
    is_seen_open: bool,
    /// True if content of the last response was discarded.
    skims: bool,
    /// True if the connection may carry another request: the last response is complete and did not
    /// close it.
    is_kept_alive: bool,
    /// Parts of its requests to a proxy that forwards them; none of a connection to the target.
    absolute: Option<Absolute>,
    /// Its cookies, where they are kept.
    jar: Option<LentJar>,
    /// Time at which its last exchange ended.
    idle_since: Nanos,
    lease: Lease,
    /// Requests that it was given.
    requests: u64,
    tcp: TcpReadings,
}

impl<S: Stream> Connection<S> {
    /// Start with a stream that has just been opened.
    pub(crate) fn new(stream: S, terms: Terms) -> Self {
        Self {
            stream,
            input: Input::new(),
            output: Output::default(),
            decoder: Decoder::new(RequestKind::Other),
            head: None,
            traffic: Traffic::default(),
            deadline: Deadline::new(),
            left: terms.left,
            is_seen_open: false,
            skims: false,
            is_kept_alive: true,
            absolute: terms.hop.and_then(|hop| match hop.way {
                Way::Absolute(absolute) => Some(absolute),
                Way::Tunnel(_) => None,
            }),
            jar: terms.jar,
            idle_since: Nanos::default(),
            lease: terms.lease,
            requests: 0,
            tcp: terms.tcp,
        }
    }

    /// Return the reason why the connection cannot carry another request, if it has become unusable.
    #[inline]
    fn poll_unusable(&mut self, cx: &mut Context<'_>, flight: &Flight) -> Option<ErrorKind> {
        if self.stream.may_be_readable() {
            self.poll_unsolicited(cx, flight)
        } else {
            None
        }
    }

    /// Read while there must be nothing to read, and note unsolicited bytes in `flight`.
    #[cold]
    fn poll_unsolicited(&mut self, cx: &mut Context<'_>, flight: &Flight) -> Option<ErrorKind> {
        match self
            .input
            .poll_read(&mut self.stream, cx, TURN_BYTES, false)
        {
            Poll::Pending => None,
            Poll::Ready(Ok((0, _))) => Some(ErrorKind::Closed),
            Poll::Ready(Err(error)) => Some(classify(&error, flight)),
            Poll::Ready(Ok(_)) => {
                flight.unsolicited();
                Some(ErrorKind::Malformed)
            }
        }
    }

    /// Write and read as much as one turn of the task may. Return the time of the last read once
    /// the response is complete.
    #[inline]
    fn turn(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Poll<Result<Nanos, ExchangeFailure>> {
        exchange.left = TURN_BYTES;
        let flight = exchange.watch.flight;
        let is_new = self.traffic.sent == 0 && exchange.writing == Writing::On;
        if is_new
            && !std::mem::take(&mut self.is_seen_open)
            && let Some(unusable) = self.poll_unusable(cx, flight)
        {
            return Poll::Ready(Err(not_sent(unusable)));
        }
        self.write(cx, exchange);
        match exchange.writing {
            Writing::On if self.traffic.sent == 0 => return self.wait(cx, exchange),
            // The end of the connection says more than the failure to write, such as the alert of a
            // TLS target.
            Writing::Failed(kind) if self.traffic.sent == 0 => {
                let said = self.poll_unusable(cx, flight);
                let kind = said
                    .filter(|said| *said != ErrorKind::Closed)
                    .unwrap_or(kind);
                return Poll::Ready(Err(not_sent(kind)));
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

    #[inline]
    fn write(&mut self, cx: &mut Context<'_>, exchange: &mut Exchange<'_>) {
        while exchange.writing == Writing::On && exchange.left > 0 {
            let sent = usize::try_from(self.traffic.sent).unwrap_or(usize::MAX);
            let output = &self.output.bytes;
            let part = match output.get(sent..) {
                Some(part @ [_, ..]) => part,
                _ => &exchange.body[sent - output.len()..],
            };
            exchange.writing = match Pin::new(&mut self.stream).poll_write(cx, part) {
                Poll::Pending => return,
                Poll::Ready(Err(error)) => Writing::Failed(classify(&error, exchange.watch.flight)),
                Poll::Ready(Ok(0)) => Writing::Failed(ErrorKind::Io),
                Poll::Ready(Ok(bytes)) => {
                    exchange.spend(bytes);
                    self.traffic.sent += bytes as u64;
                    if sent + bytes == output.len() + exchange.body.len() {
                        Writing::Flushing
                    } else {
                        Writing::On
                    }
                }
            };
        }
        if exchange.writing == Writing::Flushing {
            exchange.writing = match Pin::new(&mut self.stream).poll_flush(cx) {
                Poll::Pending => return,
                Poll::Ready(Ok(())) => Writing::Done,
                Poll::Ready(Err(error)) => Writing::Failed(classify(&error, exchange.watch.flight)),
            };
        }
    }

    /// Read and decode until the response is complete, there is nothing to read, or the turn is
    /// over. Return the time of the last read.
    #[inline]
    fn read(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Poll<Result<Nanos, ErrorKind>> {
        let clock = exchange.watch.clock;
        while exchange.left > 0 {
            let (left, is_stamped) = (exchange.left, exchange.watch.is_stamped);
            let skims = self.skims && !exchange.has_head;
            let most = if skims { left.min(SKIMMED_BYTES) } else { left };
            let polled = match self.poll_discard(cx, exchange) {
                Some(discarded) => discarded,
                None => self.input.poll_read(&mut self.stream, cx, most, is_stamped),
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
            let mut response = Response {
                head: &mut self.head,
                has_head: &mut exchange.has_head,
                expected: exchange.expected,
                jar: exchange.jar,
                request: &self.output.bytes,
            };
            if bytes == 0 {
                let ended = self.decoder.end(self.input.unread(), &mut response);
                ended.map_err(|cut| match cut {
                    Cut::Malformed(rule) => exchange.refuse(rule),
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
                self.input
                    .consume(decoded.map_err(|rule| exchange.refuse(rule))?);
            }
            if exchange.expected.has_events() {
                // Bytes that lay unread in the kernel arrived before they were read.
                let read_at = *read_at.get_or_insert_with(|| clock.now());
                let arrived = Nanos(read_at.0.saturating_sub(unread_ns.unwrap_or(0)));
                let arrived = arrived.max(exchange.watch.sent);
                exchange.expected.arrived(arrived, exchange.watch.flight)?;
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

    /// Discard content that nobody looks at, as much as has arrived: in the kernel, which then need
    /// not copy it. The bytes count as those that are read do. None if the next ones are to be read.
    #[inline]
    fn poll_discard(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &mut Exchange<'_>,
    ) -> Option<Poll<io::Result<Arrived>>> {
        if !exchange.has_head {
            return None;
        }
        let ContentAhead { bytes, is_last } = self.decoder.ahead()?;
        if bytes < LEAST_DISCARDED || !exchange.expected.ignores_body() {
            return None;
        }
        // One byte more shows that the target sent too much; and less than was asked for is all
        // that there is, which saves a read that would find nothing.
        let most = bytes.saturating_add(u64::from(is_last));
        let is_stamped = exchange.watch.is_stamped;
        let polled = self.stream.poll_discard(cx, most, is_stamped)?;
        if let Poll::Ready(Ok((arrived, _))) = polled {
            let content = bytes.min(arrived as u64);
            exchange.has_surplus = content < arrived as u64;
            exchange.has_discarded |= arrived > 0;
            self.decoder.pass(content);
            exchange.expected.pass(arrived);
            self.input.rewind();
        }
        Some(polled)
    }

    /// Return ready once the deadline has passed; otherwise make sure that the task is woken by
    /// then. Call before the task waits.
    #[inline]
    fn wait(
        &mut self,
        cx: &mut Context<'_>,
        exchange: &Exchange<'_>,
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
    fn broken(&self, exchange: &Exchange<'_>, kind: ErrorKind) -> ExchangeFailure {
        let status = self
            .head
            .filter(|_| exchange.has_head)
            .map(|head| head.status);
        exchange.broken(kind, status, self.decoder.received())
    }
}

impl<S: Stream> Carry for Connection<S> {
    type Requests = Writer;

    #[inline]
    fn write<'a>(&mut self, writer: &'a Writer, wanted: &Wanted<'_>, _: &Flight) -> Written<'a> {
        let (after, output) = (self.left.take(), &mut self.output);
        let body = writer.write(wanted.item, after, output, self.absolute.as_ref());
        let Some(lent) = &self.jar else {
            return Written { body, jar: None };
        };
        let jar = Rc::clone(wanted.jar.unwrap_or(&lent.jar));
        jar.borrow()
            .add_to(output.edit(), wanted.host.scheme, wall_time());
        Written {
            body,
            jar: Some(jar),
        }
    }

    async fn exchange(
        &mut self,
        written: &Written<'_>,
        expected: &mut Expected,
        watch: &Watch<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), ExchangeFailure> {
        (self.traffic, self.is_kept_alive) = (Traffic::default(), false);
        self.requests += 1;
        watch.flight.carried(self.requests);
        self.deadline.arm(watch);
        self.decoder.restart_for(match *self.output.bytes {
            [b'H', b'E', b'A', b'D', b' ', ..] => RequestKind::Head,
            _ => RequestKind::Other,
        });
        let mut exchange = Exchange {
            body: written.body,
            jar: written.cookies(),
            writing: Writing::On,
            expected,
            malformed: None,
            has_head: false,
            has_discarded: false,
            has_surplus: false,
            watch,
            left: 0,
        };
        attempt.done = poll_fn(|cx| self.turn(cx, &mut exchange)).await?;
        let Some(head) = &self.head else {
            return Err(self.broken(&exchange, ErrorKind::Malformed));
        };
        exchange.expected.judge(head, watch.flight, attempt);
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
        let has_surplus = exchange.has_surplus || !self.input.unread().is_empty();
        self.is_kept_alive = may_keep && !has_surplus;
        if may_keep && has_surplus {
            watch.flight.unsolicited();
        }
        self.skims = exchange.has_discarded;
        self.input.give_back();
        self.idle_since = attempt.done;
        Ok(())
    }

    #[inline]
    fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    fn read_tcp(&mut self, sent: Nanos, now: Nanos) -> Option<TcpReading> {
        self.tcp.read(self.stream.socket(), sent, now)
    }

    fn source(&self) -> Option<(u32, bool)> {
        self.lease.source()
    }

    #[inline]
    fn is_reusable(&self, _: &Flight) -> bool {
        self.is_kept_alive && !self.left.is_none()
    }

    /// The next exchange does not look again, unless it is [told](Self::recheck) to. Makes no system
    /// call unless the runtime has seen an event.
    #[inline]
    fn unusable(&mut self, flight: &Flight) -> Option<ErrorKind> {
        let unusable = self.poll_unusable(&mut Context::from_waker(Waker::noop()), flight);
        self.is_seen_open = unusable.is_none();
        unusable
    }

    fn recheck(&mut self) {
        self.is_seen_open = false;
    }

    fn closed(&self, end: End) -> Option<ClosedConnection> {
        let (by, is_unanswered) = match end {
            End::AtRest(kind) => (closed_by(kind), false),
            End::After(Some(ExchangeFailure { kind, progress })) => (
                closed_by(kind),
                matches!(progress, Progress::NotSent | Progress::Sent(None)),
            ),
            End::After(None) if self.decoder.keeps_alive() || self.left.is_none() => {
                (ClosedBy::Client, false)
            }
            End::After(None) => (ClosedBy::Announced, false),
        };
        let requests = self.requests - u64::from(is_unanswered);
        Some(ClosedConnection { by, requests })
    }

    /// A tenth before that, for the way of a request.
    #[inline]
    fn closes_at(&self) -> Option<Nanos> {
        /// Less than a second is written as 0, as by Node.
        const LEAST: Duration = Duration::from_millis(100);
        let kept = Duration::from_secs(self.decoder.kept_s?.into());
        Some(self.idle_since.plus((kept * 9 / 10).max(LEAST)))
    }

    fn idle_since(&self) -> Option<Nanos> {
        Some(self.idle_since)
    }
}

/// A request on its way and its response.
struct Exchange<'a> {
    /// The part of the request's body that is not in the connection's buffer.
    body: &'a [u8],
    /// Jar for cookies; none where they are not kept.
    jar: Option<&'a RefCell<Jar>>,
    writing: Writing,
    expected: &'a mut Expected,
    /// The rule that the response broke.
    malformed: Option<Malformed>,
    /// True once the head of the response has arrived.
    has_head: bool,
    /// True if content was discarded.
    has_discarded: bool,
    /// True if bytes behind the response were discarded with its content.
    has_surplus: bool,
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
struct Response<'a> {
    /// The last head on this connection.
    head: &'a mut Option<HeadFacts>,
    has_head: &'a mut bool,
    expected: &'a mut Expected,
    jar: Option<&'a RefCell<Jar>>,
    request: &'a [u8],
}

impl Sink for Response<'_> {
    fn head(&mut self, status: u16, fields: HeaderFields<'_>) -> Repetition {
        let head = self.head.insert(self.expected.head(status, fields));
        *self.has_head = true;
        let has_cookies = self
            .jar
            .is_some_and(|jar| jar.borrow_mut().store(fields, self.request, wall_time()));
        // What a header says about this response alone is read again.
        let is_own = head.signals.is_some() || head.held_ns.is_some() || has_cookies;
        if is_own || self.expected.keeps_head() {
            Repetition::Refused
        } else {
            Repetition::Allowed
        }
    }

    #[inline]
    fn repeated_head(&mut self) {
        *self.has_head = true;
        if let Some(head) = self.head {
            self.expected.begin(head);
        }
    }

    #[inline]
    fn content(&mut self, part: &[u8]) {
        self.expected.take(part);
    }
}

impl Exchange<'_> {
    #[inline]
    fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes.max(STEP_BYTES));
    }

    /// Note the rule that the response broke.
    fn refuse(&mut self, rule: Malformed) -> ErrorKind {
        self.malformed = Some(rule);
        ErrorKind::Malformed
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
        let received = received.filter(|_| is_cut);
        let rule = self.malformed.map(|rule| rule.to_string());
        if let Some(details) = rule.or_else(|| received.map(|received| received.to_string())) {
            self.watch.flight.explain(kind, details);
        }
        ExchangeFailure {
            kind,
            progress: Progress::Sent(status),
        }
    }
}

/// Return the side that closed a connection because of `kind`.
const fn closed_by(kind: ErrorKind) -> ClosedBy {
    match kind {
        ErrorKind::Closed | ErrorKind::Incomplete | ErrorKind::Reset => ClosedBy::Target,
        _ => ClosedBy::Client,
    }
}

/// Return the failure of a request of which nothing was written.
const fn not_sent(kind: ErrorKind) -> ExchangeFailure {
    ExchangeFailure {
        kind,
        progress: Progress::NotSent,
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
