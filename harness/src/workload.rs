//! `Workload`: what a shard does with an ID. The crawl implements it over HTTP; tests implement it over nothing.

use std::cell::Cell;
use std::future::Future;

use crate::clock::Nanos;
use crate::sample::{Attempt, Sample};

/// Performs IDs. It is made inside the shard's process, after the fork, inside its runtime, and is dropped there.
///
/// The engine calls [`Workload::perform`] from as many tasks as the shard has connections, on one thread; nothing has
/// to be `Send`. A future may be dropped before it ends, when the run is stopped and its grace is over.
pub trait Workload: 'static {
    /// The number of the host that `id` is asked of, below [`hosts`](crate::plan::PerHost::hosts) of the plan. The same for
    /// the same ID.
    fn host(&self, id: u64) -> u32 {
        let _ = id;
        0
    }

    /// Performs one attempt for `id` and says what happened. Failures are outcomes. A connection that was opened for it is
    /// noted in `flight` at once; once something was sent, how far the attempt is has to be noted there whenever it waits.
    ///
    /// `clear_to_send` is to be awaited once the connection is in hand, right before the first byte of the request is
    /// written: it waits until the budgets allow that, and returns when it was, which is [`Attempt::sent`]. A request of which
    /// nothing could be written goes on another connection: it awaits this again, and is counted once.
    fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clear_to_send: impl AsyncFn() -> Nanos,
    ) -> impl Future<Output = Attempt>;

    /// Hears of each of its attempts that ended, as it was booked. One that was dropped is not among them.
    fn booked(&self, sample: &Sample) {
        let _ = sample;
    }
}

/// Progress of an attempt, for when it is cut off. The engine has one per lane.
#[derive(Debug, Default)]
pub struct Flight {
    progress: Cell<Option<InFlight>>,
    opening: Cell<Option<Nanos>>,
    connect_ns: Cell<Option<u64>>,
}

/// Progress of a request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InFlight {
    /// When the first byte of the request was written.
    pub sent: Nanos,
    /// When the first byte of the answer was read.
    pub first_byte: Option<Nanos>,
    /// Bytes of the request that were written.
    pub bytes_sent: u64,
    /// Bytes of the answer that were read.
    pub bytes_received: u64,
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

    /// Notes that a connection is opened for the attempt from `began` on, until [`Flight::opened`] is called or the attempt ends.
    pub fn opening(&self, began: Nanos) {
        self.opening.set(Some(began));
    }

    /// Returns since when a connection is opened, if one is, and forgets it.
    pub(crate) fn take_opening(&self) -> Option<Nanos> {
        self.opening.take()
    }

    /// Returns what was noted last; none of an attempt of which nothing was sent.
    pub(crate) fn get(&self) -> Option<InFlight> {
        self.progress.get()
    }

    /// Notes that a connection was opened for the attempt, in this many nanoseconds. Call once it is open, before
    /// `clear_to_send`: the engine counts it then, however the attempt ends.
    pub fn opened(&self, connect_ns: u64) {
        self.opening.set(None);
        self.connect_ns.set(Some(connect_ns));
    }

    /// Returns how long the connection took that was noted last, ns, and forgets it.
    pub(crate) fn take_opened(&self) -> Option<u64> {
        self.connect_ns.take()
    }
}
