//! An attempt: its request is chosen, carried to a connection, cleared, sent and answered; then it is
//! settled (`next`). Each state has what is known in it.

use std::rc::Rc;
use std::sync::Arc;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ErrorKind, TcpReading};
use crawlmark_harness::workload::{Clearance, Flight};

use super::Crawl;
use super::carrier::Past;
use super::carry::{Carry, End, Wanted, Written};
use super::connect::dial::Dial;
use super::connect::receive_stamps::ReceiveStamps;
use super::flows::{Begun, ItemProgress, Turn};
use super::http2;
use super::protocols::Carrier;
use super::redirects::Redirected;
use super::requests::flow::Flow;
use super::requests::request::Item;
use super::response::cookies::SharedJar;
use super::response::exchange::{ExchangeFailure, Progress, Watch};
use super::response::expect::Expected;
use crate::dataset::known::KnownItem;

/// The request of an attempt, which is on no connection yet.
pub(super) struct Chosen<'a> {
    /// Number of the item.
    pub(super) number: u64,
    /// ID that is crawled for it.
    id: u64,
    /// Requests of its line, if those are several.
    pub(super) flow: Option<&'a Arc<Flow>>,
    /// The item, if its request is not the first of its line as it is.
    pub(super) progress: Option<Rc<ItemProgress>>,
    /// The turn, if the request is one that is sent once for a shard.
    pub(super) turn: Option<Turn>,
    redirected: Option<Rc<Redirected>>,
    host: usize,
    /// The response of an earlier crawl that may still hold.
    pub(super) known: Option<&'a KnownItem>,
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
            known: self.known,
        }
    }

    /// Return the cookies of the connection that carried the request before, if its item goes on:
    /// this one may go on another connection.
    fn jar(&self) -> Option<&SharedJar> {
        let of_chain = self.redirected.as_ref().and_then(|it| it.jar.as_ref());
        of_chain.or_else(|| self.progress.as_ref()?.jar.as_ref())
    }
}

/// A request on a connection, which may not be sent yet.
struct Carried<'a, C> {
    carrier: C,
    past: Past,
    written: Written<'a>,
    /// True if it is the first one from its source address.
    is_first: bool,
}

/// A request on a connection, which may be sent.
struct Cleared<'a, C> {
    request: Carried<'a, C>,
    expected: Box<Expected>,
    /// When it was cleared.
    sent: Nanos,
    /// True if its connection is read however it ends.
    is_sampled: bool,
}

impl<C: Carry> Cleared<'_, C> {
    /// Send it, and receive the response into `ended`.
    #[inline]
    fn exchange(
        &mut self,
        watch: &Watch<'_>,
        ended: &mut Attempt,
    ) -> impl Future<Output = Result<(), ExchangeFailure>> {
        let (request, expected) = (&mut self.request, &mut self.expected);
        let carrier = &mut request.carrier;
        carrier.exchange(&request.written, expected, watch, ended)
    }
}

/// A request that was sent, and its response, unless it failed.
pub(super) struct Answered {
    pub(super) expected: Box<Expected>,
    /// Cookies of its connection.
    pub(super) jar: Option<SharedJar>,
    pub(super) reading: Option<TcpReading>,
    /// True if it was the first one from its source address.
    pub(super) is_first: bool,
    failed: Option<(ExchangeFailure, Past)>,
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
    /// Perform item `number` once, into `ended`. None if nothing is sent any more.
    #[inline]
    pub(super) async fn attempt(
        &self,
        number: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        flight.sent_from(u32::MAX);
        let flow = self.spec.targets.flow_of(self.id(number));
        let mut item = Begun::default();
        if let Some(flow) = flow {
            item = match self.begin(number, flow, flight).await {
                Ok(item) => item,
                Err(kind) => return kind.map(|kind| *ended = self.unsent(kind)),
            };
        }
        let chosen = self.choose(number, flow, item);
        let mut unbegun = Unbegun::default();
        let answered = loop {
            let (carrier, past) = match self.carriers.at_rest(chosen.host, flight) {
                Some(carrier) => (carrier, Past::Kept),
                // Boxed, for it is larger than all that is needed for a request on a kept
                // connection.
                None => match Box::pin(self.carriers.obtain(chosen.host, flight)).await {
                    Ok(obtained) => obtained,
                    Err(kind) => {
                        *ended = self.unsent(kind);
                        break None;
                    }
                },
            };
            let mut request = self.carry(&chosen, carrier, past, flight);
            let sent = if let Some(sent) = self.carriers.cleared_at_once(clearance) {
                sent
            } else {
                let (carrier, is_counted) = (&mut request.carrier, &mut unbegun.is_counted);
                let cleared = self.carriers.cleared(carrier, clearance, is_counted);
                cleared.await?
            };
            let mut cleared = self.clear(&chosen, request, sent, flight);
            let watch = self.watch(&cleared, &unbegun, flight);
            let exchanged = cleared.exchange(&watch, ended).await;
            let answered = self.answer(&chosen, cleared, exchanged.err(), &watch, ended);
            let after = answered
                .failed
                .map_or(AfterFailure::Ended, |(failed, past)| {
                    self.fail(failed, past, &mut unbegun, ended, flight)
                });
            match after {
                AfterFailure::Again => {}
                AfterFailure::Unsent => break None,
                AfterFailure::Ended => break Some(answered),
            }
        };
        ended.bytes_sent += unbegun.bytes_sent;
        self.settle(&chosen, answered, ended, flight);
        Some(())
    }

    /// Choose the request of an attempt at item `number`, of a line with these requests.
    #[inline(always)]
    fn choose<'a>(&'a self, number: u64, flow: Option<&'a Arc<Flow>>, begun: Begun) -> Chosen<'a> {
        let Begun { progress, turn } = begun;
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
        let mut chosen = Chosen {
            number,
            id,
            flow,
            progress,
            turn,
            redirected,
            host,
            known: None,
        };
        if let Some(known) = &self.known {
            chosen.known = known
                .of(number)
                .filter(|known| self.is_of(known, chosen.item()));
        }
        chosen
    }

    /// Write a request where its carrier sends it from.
    #[inline(always)]
    fn carry(
        &self,
        chosen: &Chosen<'_>,
        mut carrier: Carrier<D::Stream>,
        past: Past,
        flight: &Flight,
    ) -> Carried<'_, Carrier<D::Stream>> {
        let trace = self
            .traces
            .map(|traces| traces.request(chosen.id, flight.attempt()).header());
        let wanted = Wanted {
            item: Item {
                trace: trace.as_ref(),
                ..chosen.item()
            },
            host: &self.spec.targets.hosts()[chosen.host],
            jar: chosen.jar(),
        };
        let written = carrier.write(&self.requests, &wanted, flight);
        Carried {
            is_first: self.carriers.note_source(&carrier, flight),
            carrier,
            past,
            written,
        }
    }

    /// Get ready to send a request that was cleared at `sent`.
    #[inline(always)]
    fn clear<'a>(
        &self,
        chosen: &Chosen<'_>,
        request: Carried<'a, Carrier<D::Stream>>,
        sent: Nanos,
        flight: &Flight,
    ) -> Cleared<'a, Carrier<D::Stream>> {
        Cleared {
            request,
            expected: self.receiver(chosen, flight),
            sent,
            is_sampled: self.sampler.takes_next(),
        }
    }

    /// Note in `ended` the exchange of a request, and let go of its carrier.
    #[inline(always)]
    fn answer(
        &self,
        chosen: &Chosen<'_>,
        cleared: Cleared<'_, Carrier<D::Stream>>,
        failed: Option<ExchangeFailure>,
        watch: &Watch<'_>,
        ended: &mut Attempt,
    ) -> Answered {
        let Cleared {
            request,
            expected,
            sent,
            is_sampled,
        } = cleared;
        let Carried {
            mut carrier,
            past,
            written,
            is_first,
        } = request;
        let traffic = carrier.traffic();
        (ended.sent, ended.first_byte) = (Some(watch.sent), traffic.first_byte);
        (ended.bytes_sent, ended.bytes_received) = (traffic.sent, traffic.received);
        let done = failed.is_none().then_some(ended.done);
        let reading = self.read_tcp(&mut carrier, sent, done, is_sampled);
        self.release(chosen.host, carrier, failed, watch.flight);
        Answered {
            expected,
            jar: written.jar,
            reading,
            is_first,
            failed: failed.map(|failed| (failed, past)),
        }
    }

    /// Lend a receiver for the response to a request.
    #[inline(always)]
    fn receiver(&self, chosen: &Chosen<'_>, flight: &Flight) -> Box<Expected> {
        let lent = self.receivers.borrow_mut().pop();
        let mut expected = lent.unwrap_or_else(|| Expected::new(&self.checker));
        let takes = chosen.flow.map(|flow| {
            let progress = chosen.progress.as_deref();
            flow.takes(progress.map_or(0, |it| it.request.number))
        });
        expected.restart(chosen.id, takes);
        if expected.has_events() {
            flight.await_events();
        }
        expected
    }

    /// Return the times of an exchange: it began when the target held it first and did not begin it,
    /// if it did.
    #[inline(always)]
    fn watch<'a, C>(
        &self,
        cleared: &Cleared<'_, C>,
        unbegun: &Unbegun,
        flight: &'a Flight,
    ) -> Watch<'a> {
        let began = unbegun.first_sent.unwrap_or(cleared.sent);
        let is_stamped = cleared.is_sampled || cleared.expected.has_events();
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
    #[inline(always)]
    fn release(
        &self,
        host: usize,
        carrier: Carrier<D::Stream>,
        failed: Option<ExchangeFailure>,
        flight: &Flight,
    ) {
        if carrier.is_reusable(flight) {
            self.carriers.keep(host, carrier);
        } else if let Some(closed) = carrier.closed(End::After(failed)) {
            flight.closed(closed);
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
    #[inline(always)]
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
