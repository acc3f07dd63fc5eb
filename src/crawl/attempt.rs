//! An attempt: its request is chosen, carried to a connection, cleared, sent and answered.

use std::rc::Rc;
use std::sync::Arc;

use crawlmark_harness::clock::{Nanos, wall_time};
use crawlmark_harness::sample::{Attempt, ErrorKind, TcpReading};
use crawlmark_harness::workload::{Clearance, Flight};

use super::Crawl;
use super::carrier::{Carrier, Past};
use super::connect::dial::Dial;
use super::connect::receive_stamps::ReceiveStamps;
use super::flows::ItemProgress;
use super::http2;
#[cfg(feature = "http3")]
use super::http3;
use super::redirects::Redirected;
use super::response::cookies::SharedJar;
use super::response::exchange::{ExchangeFailure, Progress, Watch};
use super::response::expect::Expected;
use super::target::flow::Flow;
use super::target::request::Item;

/// The request of an attempt, which is on no connection yet.
pub(super) struct Chosen<'a> {
    /// Number of the item.
    pub(super) number: u64,
    /// ID that is crawled for it.
    id: u64,
    /// Requests of its line, if those are several.
    pub(super) flow: Option<&'a Flow>,
    /// The item, if its request is not the first of its line as it is.
    pub(super) progress: Option<Rc<ItemProgress>>,
    redirected: Option<Rc<Redirected>>,
    host: usize,
}

impl Chosen<'_> {
    /// Return the request, without a trace.
    #[inline]
    pub(super) fn item(&self) -> Item<'_> {
        Item {
            id: self.id,
            chain: self.redirected.as_deref().map(|it| &it.chain),
            step: self.progress.as_deref().map(|it| &it.request),
            trace: None,
        }
    }

    /// Return the cookies of the connection that carried the request before, if its item goes on:
    /// this one may go on another connection.
    fn jar(&self) -> Option<&SharedJar> {
        let of_chain = self.redirected.as_ref().and_then(|it| it.jar.as_ref());
        of_chain.or_else(|| self.progress.as_ref()?.jar.as_ref())
    }
}

/// Exchanges of an attempt that the target did not begin.
#[derive(Debug, Default)]
struct Unbegun {
    resends: u32,
    bytes_sent: u64,
    /// When the first of them was sent, if the target held it before it said so: it has taken that
    /// time.
    first_sent: Option<Nanos>,
    /// True if the attempt is counted as sent.
    is_counted: bool,
}

/// What follows an exchange that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AfterFailure {
    /// The attempt ended with it.
    Ended,
    /// The attempt ended, and nothing of it was sent.
    Unsent,
    /// Nothing was attempted: the request goes once more.
    Again,
}

impl<D: Dial> Crawl<D> {
    /// Perform item `number` once, into `attempt`. False if nothing is sent any more.
    #[inline]
    pub(super) async fn attempt(
        &self,
        number: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        attempt: &mut Attempt,
    ) -> bool {
        flight.sent_from(u32::MAX);
        let flow = self.spec.targets.flow_of(self.id(number));
        let once = flow.filter(|_| self.flows.of(number).is_none());
        let once = once.and_then(|flow| self.flows.shared(flow));
        let (mut progress, mut turn) = (None, None);
        if flow.is_some() {
            (progress, turn) = match self.begin(number, once.as_deref(), flight).await {
                Ok(begun) => begun,
                Err(kind) => return kind.map(|kind| *attempt = self.unsent(kind)).is_some(),
            };
        }
        let chosen = self.choose(number, flow.map(Arc::as_ref), progress);
        let mut unbegun = Unbegun::default();
        loop {
            let (mut carrier, past) = match self.carriers.at_rest(chosen.host, flight) {
                Some(carrier) => (carrier, Past::Kept),
                // Boxed, for it is larger than all that is needed for a request on a kept
                // connection.
                None => match Box::pin(self.carriers.obtain(chosen.host, flight)).await {
                    Ok(obtained) => obtained,
                    Err(kind) => {
                        *attempt = self.unsent(kind);
                        break;
                    }
                },
            };
            let (body, jar) = self.write(&chosen, &mut carrier, flight);
            let is_first = self.carriers.note_source(&carrier, flight);
            let mut cleared = self.carriers.cleared_at_once(clearance);
            if cleared.is_none() {
                let counted = &mut unbegun.is_counted;
                cleared = self
                    .carriers
                    .cleared(&mut carrier, clearance, counted)
                    .await;
            }
            let Some(sent) = cleared else {
                return false;
            };
            let mut expected = self.receiver(&chosen, flight);
            let is_sampled = self.sampler.takes_next();
            let began = unbegun.first_sent.unwrap_or(sent);
            let watch = self.watch(began, is_sampled || expected.has_events(), flight);
            let exchange = carrier.exchange(body, jar.as_deref(), &mut expected, &watch, attempt);
            let failed = exchange.await.err();
            (attempt.sent, attempt.first_byte) = (Some(began), carrier.traffic().first_byte);
            attempt.bytes_sent = carrier.traffic().sent;
            attempt.bytes_received = carrier.traffic().received;
            let done = failed.is_none().then_some(attempt.done);
            let reading = self.read_tcp(&mut carrier, sent, done, is_sampled);
            self.release(chosen.host, carrier, failed, flight);
            if let Some(failed) = failed {
                match self.fail(failed, past, &mut unbegun, attempt, flight) {
                    AfterFailure::Again => continue,
                    AfterFailure::Unsent => break,
                    AfterFailure::Ended => {}
                }
            }
            if let Some(reading) = reading {
                flight.read_tcp(reading);
            }
            if self.follows_up {
                self.follow_up(&chosen, &mut expected, jar, attempt, flight);
            }
            if is_first {
                flight.first_from_source(attempt.outcome);
            }
            self.receivers.borrow_mut().push(expected);
            break;
        }
        attempt.bytes_sent += unbegun.bytes_sent;
        self.judge(&chosen, attempt);
        if flow.is_some() {
            let once = once.as_deref().filter(|_| turn.is_some());
            self.note_shared(number, once, attempt, flight);
        }
        drop(turn);
        true
    }

    /// Choose the request of an attempt at item `number`, which has made this progress.
    #[inline]
    fn choose<'a>(
        &self,
        number: u64,
        flow: Option<&'a Flow>,
        progress: Option<Rc<ItemProgress>>,
    ) -> Chosen<'a> {
        let id = self.id(number);
        let redirected = if self.spec.options.follow > 0 {
            self.redirects.of(number)
        } else {
            None
        };
        let host = match (&redirected, &progress) {
            (Some(redirected), _) => redirected.chain.host,
            (None, Some(progress)) => progress.request.host,
            (None, None) => self.spec.targets.host_of(id) as usize,
        };
        if let Some(progress) = &progress {
            progress.perform();
        }
        Chosen {
            number,
            id,
            flow,
            progress,
            redirected,
            host,
        }
    }

    /// Write a request where its carrier sends it from. Return the part of its body to send behind
    /// that, and the cookies that it has.
    #[inline]
    fn write(
        &self,
        chosen: &Chosen<'_>,
        carrier: &mut Carrier<D::Stream>,
        flight: &Flight,
    ) -> (&[u8], Option<SharedJar>) {
        let trace = self
            .traces
            .map(|traces| traces.request(chosen.id, flight.attempt()).header());
        let wanted = Item {
            trace: trace.as_ref(),
            ..chosen.item()
        };
        match carrier {
            Carrier::Connection(connection) => {
                let (after, output) = (connection.left.take(), &mut connection.output);
                let absolute = connection.absolute.as_ref();
                let body = self.writer.write(wanted, after, output, absolute);
                let Some(lent) = &connection.jar else {
                    return (body, None);
                };
                let used = Rc::clone(chosen.jar().unwrap_or(&lent.jar));
                let scheme = self.spec.targets.hosts()[chosen.host].scheme;
                used.borrow().add_to(output, scheme, wall_time());
                (body, Some(used))
            }
            Carrier::Stream(stream) => {
                stream.count_request(flight);
                self.requests.write(wanted, &mut stream.output);
                (&[], None)
            }
            #[cfg(feature = "http3")]
            Carrier::Quic(stream) => {
                stream.count_request(flight);
                let spec = &self.spec;
                stream.output = http3::Output::new(&spec.targets, &spec.request, wanted);
                (&[], None)
            }
        }
    }

    /// Lend a receiver for the response to a request.
    #[inline]
    fn receiver(&self, chosen: &Chosen<'_>, flight: &Flight) -> Box<Expected> {
        let lent = self.receivers.borrow_mut().pop();
        let mut expected = lent.unwrap_or_else(|| Expected::new(&self.checker));
        let step = chosen.item().step.map_or(0, |step| step.number);
        expected.restart(chosen.id, chosen.flow.map(|flow| flow.takes(step)));
        if expected.has_events() {
            flight.await_events();
        }
        expected
    }

    /// Return the times of an exchange that `began` then, and the stamps that are wanted of it if
    /// not those of all are.
    #[inline]
    fn watch<'a>(&self, began: Nanos, is_stamped: bool, flight: &'a Flight) -> Watch<'a> {
        Watch {
            clock: self.clock,
            sent: began,
            deadline: began.plus(self.spec.timeout),
            flight,
            is_stamped: match self.spec.options.receive_stamps {
                ReceiveStamps::All => true,
                ReceiveStamps::Sampled => is_stamped,
                ReceiveStamps::Off => false,
            },
        }
    }

    /// Keep the carrier of a request for another one, unless its connection ended.
    #[inline]
    fn release(
        &self,
        host: usize,
        carrier: Carrier<D::Stream>,
        failed: Option<ExchangeFailure>,
        flight: &Flight,
    ) {
        if carrier.is_reusable(flight) {
            self.carriers.keep(host, carrier);
        } else if let Carrier::Connection(connection) = &carrier {
            flight.closed(connection.closed(failed));
        }
    }

    /// Decide what follows an exchange that failed: note that in the attempt, whose traffic is known,
    /// or in those that the target did not begin.
    #[cold]
    fn fail(
        &self,
        ExchangeFailure { kind, progress }: ExchangeFailure,
        past: Past,
        unbegun: &mut Unbegun,
        attempt: &mut Attempt,
        flight: &Flight,
    ) -> AfterFailure {
        let may_resend = unbegun.resends < http2::most_resends(kind);
        let before = std::mem::replace(attempt, self.unsent(kind));
        match progress {
            // The target closed a connection at rest before any of the request went out: nothing
            // was attempted.
            Progress::NotSent if past == Past::Kept => AfterFailure::Again,
            Progress::NotSent | Progress::NotBegun if may_resend => {
                unbegun.resends += 1;
                unbegun.bytes_sent += before.bytes_sent;
                if progress == Progress::NotBegun {
                    unbegun.first_sent = before.sent;
                }
                flight.resent();
                AfterFailure::Again
            }
            Progress::NotSent => {
                if kind == ErrorKind::Malformed {
                    let details = "the target sent bytes before the request";
                    flight.explain(kind, details.to_owned());
                }
                AfterFailure::Unsent
            }
            Progress::NotBegun | Progress::Sent(_) => {
                let status = match progress {
                    Progress::Sent(status) => status,
                    _ => None,
                };
                attempt.status = status;
                (attempt.sent, attempt.first_byte) = (before.sent, before.first_byte);
                attempt.bytes_sent = before.bytes_sent;
                attempt.bytes_received = before.bytes_received;
                AfterFailure::Ended
            }
        }
    }

    /// Read the connection of a request that was sent at `sent` and is `done`, unless it failed: if
    /// it is of the sample, was slow, or failed.
    #[inline]
    fn read_tcp(
        &self,
        carrier: &mut Carrier<D::Stream>,
        sent: Nanos,
        done: Option<Nanos>,
        is_sampled: bool,
    ) -> Option<TcpReading> {
        let is_slow = done.is_some_and(|done| self.slow_limit.is_beyond(done.since(sent)));
        if !is_sampled && !is_slow && done.is_some() {
            return None;
        }
        Some(TcpReading {
            is_slow,
            is_sampled,
            ..carrier.read_tcp(sent, self.clock.now())?
        })
    }
}
