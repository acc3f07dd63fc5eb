//! `Workload`: what a shard does with an ID. The crawl implements it over HTTP; tests implement it
//! over nothing.
//!
//! `Flight` carries the progress of an attempt to the engine: bytes, the opened connection and its
//! TLS handshake, which `stats/counters.rs` counts.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending, ready};

use crate::clock::Nanos;
pub use crate::sample::{Asides, EventTimes, Handshake, InFlight, Opened, Opening, ResponseTraits};
use crate::sample::{Attempt, ClosedConnection, ErrorKind, Outcome, Sample, TcpReading};
use crate::trace::Traces;

/// Performs IDs. It is made inside the shard's process, after the fork, inside its runtime, and is
/// dropped there.
///
/// The engine calls [`Workload::perform`] from as many tasks as the shard has connections, on one
/// thread; nothing has to be `Send`. A future may be dropped before it ends, when the run is
/// stopped and its grace is over.
pub trait Workload: 'static {
    /// Return the number of the host that the next request for `id` goes to, below
    /// [`hosts`](crate::plan::PerHost::hosts) of the plan. The same until an attempt for `id` ends.
    fn host(&self, id: u64) -> u32 {
        let _ = id;
        0
    }

    /// Number of URL templates.
    fn templates(&self) -> u32 {
        1
    }

    /// Return the number of the URL template of `id`, below [`templates`](Self::templates). The
    /// same for the same ID.
    fn template(&self, id: u64) -> u32 {
        let _ = id;
        0
    }

    /// True if all requests go the same way to one host: what makes one connection impossible makes
    /// all of them so.
    fn has_one_route(&self) -> bool {
        false
    }

    /// True if some IDs may not be requested: then [`Workload::may_request`] is called for each.
    fn forbids_some(&self) -> bool {
        false
    }

    /// True if `id` may be requested. A forbidden ID uses no budget. The answer must not change
    /// between calls for the same ID.
    fn may_request(&self, id: u64) -> bool {
        let _ = id;
        true
    }

    /// Record that `id` was skipped because it may not be requested. Called once for each.
    fn skipped(&self, id: u64) {
        let _ = id;
    }

    /// Return the ID that users know `id` by.
    fn known_as(&self, id: u64) -> u64 {
        id
    }

    /// Return the trace ids that its requests have; none if they have none.
    fn traces(&self) -> Option<Traces> {
        None
    }

    /// Number of source addresses that are counted one by one; 0 if none are.
    fn sources(&self) -> u32 {
        0
    }

    /// Return the names of the headers whose values are [counted](ResponseTraits::values).
    fn trait_headers(&self) -> &[String] {
        &[]
    }

    /// Return the value of the header of this place that has this number, for people.
    fn trait_value(&self, header: usize, number: u8) -> String {
        let _ = (header, number);
        String::new()
    }

    /// Perform one attempt for `id`, and write what happened into `ended`, which need not be moved
    /// then. Failures are outcomes. A connection that was opened for it is noted in `flight` at once;
    /// once something was sent, how far the attempt is has to be noted there whenever it waits.
    ///
    /// `clearance` is to be asked once the connection is in hand, right before the first byte of the
    /// request is written. A request of which nothing could be written goes on another connection: it
    /// asks again, and is counted once. None if it was not cleared before the end; before the end,
    /// that says that the workload sends nothing more: the shard ends, and its other items stay as
    /// they are.
    fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> impl Future<Output = Option<()>>;

    /// Return the start of the body of the last attempt's answer, for people and without secrets;
    /// none without a body. Called right after a failed attempt, which was for `id`, for the first
    /// of each cause.
    fn excerpt(&self, id: u64) -> Option<String> {
        let _ = id;
        None
    }

    /// Receives each of its attempts that ended, as it was counted. One that was dropped is not
    /// among them.
    fn booked(&self, sample: &Sample) {
        let _ = sample;
    }

    /// True if there is room for the results of more attempts: asked after each
    /// [`booked`](Self::booked). While there is none, no attempt is admitted; those under way end,
    /// and are booked.
    fn has_room(&self) -> bool {
        true
    }

    /// Return once [`has_room`](Self::has_room) is true. Awaited after it was false; may be dropped
    /// and awaited again.
    fn room(&self) -> impl Future<Output = ()> {
        ready(())
    }

    /// Finish what was booked: awaited once, after the last attempt. It may take long; it must not
    /// block the thread.
    ///
    /// # Errors
    /// The failure and what to do about it, in a sentence for people. The run is stopped, and its
    /// report says so.
    fn finish(&self) -> impl Future<Output = Result<(), String>> {
        ready(Ok(()))
    }

    /// Return why no results can be taken any more, in a sentence for people that says what to do
    /// about it; never while they can. The run is then stopped: nothing more is admitted, attempts
    /// under way may end, and the workload [finishes](Self::finish).
    fn failed(&self) -> impl Future<Output = String> {
        pending()
    }
}

/// Permission for a request to be written.
pub trait Clearance {
    /// Return the time at which it may be, if that is now and nothing limits any request; otherwise
    /// [`wait`](Self::wait).
    fn at_once(&self) -> Option<Nanos> {
        None
    }

    /// Wait until the budgets allow it, and return when they did, which is [`Attempt::sent`]; none if
    /// they did not before the end.
    fn wait(&self) -> impl Future<Output = Option<Nanos>>;
}

impl<F: AsyncFn() -> Option<Nanos>> Clearance for F {
    async fn wait(&self) -> Option<Nanos> {
        self().await
    }
}

/// Progress of an attempt, for when it is cut off. The engine has one per lane.
// The first cache line is all that most attempts touch.
#[repr(C, align(64))]
#[derive(Debug, Default)]
pub struct Flight {
    /// True if anything but the progress was noted since the attempt began.
    has_notes: Cell<bool>,
    attempt: Cell<u32>,
    progress: Cell<Option<InFlight>>,
    nth: Cell<u64>,
    traits: Cell<ResponseTraits>,
    opening: Cell<Option<Opening>>,
    tunnel_ns: Cell<Option<u64>>,
    handshake: Cell<Option<Handshake>>,
    connect_ns: Cell<Option<u64>>,
    explanation: RefCell<Option<(ErrorKind, String)>>,
    asides: Cell<Asides>,
    source: Cell<u32>,
    protocol: Cell<Option<&'static str>>,
    receive_delay_ns: Cell<Option<u64>>,
    reading: Cell<Option<TcpReading>>,
    closed: RefCell<Vec<ClosedConnection>>,
    allowed: Cell<Option<u32>>,
    events: RefCell<EventTimes>,
}

impl Flight {
    /// Notes how far the attempt is.
    pub fn note(&self, in_flight: InFlight) {
        self.progress.set(Some(in_flight));
    }

    /// Returns what was noted last, and forgets it; none of an attempt of which nothing was sent.
    pub fn take(&self) -> Option<InFlight> {
        self.progress.take()
    }

    /// Notes that a connection is opened for the attempt from `began` on, until [`Flight::opened`]
    /// is called or the attempt ends.
    pub fn opening(&self, began: Nanos) {
        self.has_notes.set(true);
        self.opening.set(Some(Opening::Tcp(began)));
        self.tunnel_ns.set(None);
        self.handshake.set(None);
        self.protocol.set(None);
        self.allowed.set(None);
    }

    /// Note that a tunnel through a proxy is being opened since `began`.
    pub fn tunnelling(&self, began: Nanos) {
        self.opening.set(Some(Opening::Tunnel(began)));
    }

    /// Note that the tunnel is open, after so many ns.
    pub fn tunnelled(&self, ns: u64) {
        self.tunnel_ns.set(Some(ns));
    }

    /// Note the start of the TLS handshake of the connection that is being opened.
    pub fn shaking_hands(&self, began: Nanos) {
        self.opening.set(Some(Opening::Tls(began)));
    }

    /// Note the protocol of the connection that is being opened, whose greeting begins at `began`.
    pub fn greeting(&self, protocol: &'static str, began: Nanos) {
        self.protocol.set(Some(protocol));
        self.opening.set(Some(Opening::Protocol(began)));
    }

    /// Note that the target allows so many requests at once on the connection that is being opened,
    /// fewer than were wanted.
    pub fn allowed(&self, requests: u32) {
        self.allowed.set(Some(requests));
    }

    /// Return the phase of the connection that is being opened, if one is.
    pub fn phase(&self) -> Option<Opening> {
        self.opening.get()
    }

    /// Note a complete TLS handshake of the connection that is being opened.
    pub fn shook_hands(&self, handshake: Handshake) {
        self.handshake.set(Some(handshake));
    }

    /// Note the details of a failure of this kind, for people. They must hold no secret.
    pub fn explain(&self, kind: ErrorKind, details: String) {
        self.has_notes.set(true);
        *self.explanation.borrow_mut() = Some((kind, details));
    }

    /// Take the details that were noted last.
    pub fn take_explanation(&self) -> Option<(ErrorKind, String)> {
        self.explanation.take()
    }

    /// Note a connection that was closed because bytes arrived on it that no request had asked for.
    pub fn unsolicited(&self) {
        self.aside(|asides| asides.unsolicited += 1);
    }

    /// Note for how long the answer lay unread in the kernel, ns.
    pub fn read_late(&self, ns: u64) {
        self.has_notes.set(true);
        self.receive_delay_ns.set(Some(ns));
    }

    /// Take the time for which the answer lay unread; none unless it was noted.
    pub(crate) fn take_receive_delay(&self) -> Option<u64> {
        self.receive_delay_ns.take()
    }

    /// Note that the answer is to be a stream of events.
    pub fn await_events(&self) {
        self.has_notes.set(true);
        self.events.borrow_mut().is_awaited = true;
    }

    /// Note that `count` events of the answer, at least one, arrived together at `at`.
    pub fn events(&self, count: u64, at: Nanos) {
        self.events.borrow_mut().arrive(count, at);
        self.aside(|asides| asides.events += count);
    }

    /// Lend the arrivals of events to `use_them`, and forget them; none where none are awaited.
    pub(crate) fn take_events(&self, use_them: impl FnOnce(&EventTimes)) {
        let events = &mut *self.events.borrow_mut();
        if events.is_awaited {
            use_them(events);
            events.clear();
        }
    }

    /// Note the number of the request among those of its connection, from 1 on.
    pub fn carried(&self, nth: u64) {
        self.nth.set(nth);
    }

    /// Return the number of the request among those of its connection; none if it was not noted.
    pub(crate) fn nth(&self) -> Option<u64> {
        Some(self.nth.get()).filter(|nth| *nth > 0)
    }

    /// Note the traits of the response.
    #[inline]
    pub fn has_traits(&self, traits: ResponseTraits) {
        self.traits.set(traits);
    }

    /// Return the traits of the response that were noted last.
    pub(crate) fn traits(&self) -> ResponseTraits {
        self.traits.get()
    }

    /// Note a reading of the connection of the request that has just ended.
    pub fn read_tcp(&self, reading: TcpReading) {
        self.has_notes.set(true);
        self.reading.set(Some(reading));
    }

    /// Take the reading of the connection; none unless it was noted.
    pub(crate) fn take_reading(&self) -> Option<TcpReading> {
        self.reading.take()
    }

    /// Note a connection that was closed.
    pub fn closed(&self, closed: ClosedConnection) {
        self.has_notes.set(true);
        self.closed.borrow_mut().push(closed);
    }

    /// Take the connections that were closed.
    pub(crate) fn take_closed(&self) -> Vec<ClosedConnection> {
        self.closed.take()
    }

    /// Note that the connection that was opened had to send something again.
    pub fn opened_after_retransmit(&self) {
        self.aside(|asides| asides.opened_after_retransmit += 1);
    }

    /// Note that the request is sent once more, because the target had not begun it.
    pub fn resent(&self) {
        self.aside(|asides| asides.resent += 1);
    }

    /// Note that a name was looked up again.
    pub fn looked_up(&self) {
        self.aside(|asides| asides.lookups += 1);
    }

    /// Note that a name was looked up again, and no address found that may be used.
    pub fn lookup_failed(&self) {
        self.aside(|asides| {
            (asides.lookups, asides.lookups_failed) =
                (asides.lookups + 1, asides.lookups_failed + 1);
        });
    }

    /// Note the number of the source address of the attempt, below [`Workload::sources`], or a
    /// higher one if it has none.
    pub fn sent_from(&self, source: u32) {
        self.source.set(source);
    }

    /// Return the number of the source address that was noted last.
    pub(crate) fn source(&self) -> u32 {
        self.source.get()
    }

    /// Note the end of the first request from a source address, and if it was throttled.
    pub fn first_from_source(&self, outcome: Outcome) {
        self.aside(|asides| {
            asides.sources_used += 1;
            asides.sources_throttled_at_first += u64::from(outcome == Outcome::Throttled);
        });
    }

    /// Note events beside the attempt.
    pub fn aside(&self, count: impl FnOnce(&mut Asides)) {
        self.has_notes.set(true);
        let mut asides = self.asides.get();
        count(&mut asides);
        self.asides.set(asides);
    }

    /// Take the number of events beside the attempts since they were last taken.
    pub fn take_asides(&self) -> Asides {
        self.asides.take()
    }

    /// True if anything but the progress was noted since the attempt began: most attempts have
    /// nothing else.
    pub(crate) fn has_notes(&self) -> bool {
        self.has_notes.get()
    }

    /// Return the number of earlier attempts of the item.
    pub fn attempt(&self) -> u32 {
        self.attempt.get()
    }

    /// Begin an attempt, of whose item there were so many before: forget what the last one noted of
    /// itself.
    pub(crate) fn begin(&self, attempt: u32) {
        self.attempt.set(attempt);
        self.progress.set(None);
        self.nth.set(0);
        if self.has_notes.replace(false) {
            self.opening.set(None);
            self.explanation.take();
        }
    }

    /// Take the phase of the connection that is being opened, if one is.
    pub(crate) fn take_opening(&self) -> Option<Opening> {
        self.opening.take()
    }

    /// Note that a connection was opened for the attempt, in `connect_ns`, which includes its
    /// tunnel and TLS handshake. Call once it is open, before it is cleared: the engine counts it
    /// then, however the attempt ends.
    pub fn opened(&self, connect_ns: u64) {
        self.has_notes.set(true);
        self.opening.set(None);
        self.connect_ns.set(Some(connect_ns));
    }

    /// Take the connection that was noted last.
    pub(crate) fn take_opened(&self) -> Option<Opened> {
        let (connect_ns, tunnel_ns, handshake) = (
            self.connect_ns.take()?,
            self.tunnel_ns.take(),
            self.handshake.take(),
        );
        let later_ns = tunnel_ns.unwrap_or(0) + handshake.map_or(0, |shaken| shaken.ns);
        Some(Opened {
            connect_ns: connect_ns.saturating_sub(later_ns),
            tunnel_ns,
            handshake,
            protocol: self.protocol.take(),
            allowed: self.allowed.take(),
        })
    }
}
