//! What a protocol does for the crawl: it carries one request at a time.
//!
//! Implemented by each protocol, of which `protocols` has the table; called for each request. It
//! must not know what a response means.

use std::cell::RefCell;
use std::fmt::Debug;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{Attempt, ClosedConnection, ErrorKind, TcpReading};
use crawlmark_harness::workload::Flight;

use super::connect::{
    pool::{Lease, Left},
    proxy::Hop,
    tcp_info::TcpReadings,
};
use super::requests::{host::Host, request::Item};
use super::response::cookies::{Jar, LentJar, SharedJar};
use super::response::exchange::{ExchangeFailure, Traffic, Watch};
use super::response::expect::Expected;

/// What carries one request at a time: a connection, or a stream of one that has several.
pub(crate) trait Carry: Debug {
    /// Maker of its requests, one for all carriers of a shard.
    type Requests;

    /// Write the next request where it is sent from.
    fn write<'a>(
        &mut self,
        requests: &'a Self::Requests,
        wanted: &Wanted<'_>,
        flight: &Flight,
    ) -> Written<'a>;

    /// Send the request that was written, and receive the whole response before the deadline of
    /// `watch`, which ends `attempt`.
    ///
    /// # Errors
    /// When there was no whole response: with what was sent of the request.
    async fn exchange(
        &mut self,
        written: &Written<'_>,
        expected: &mut Expected,
        watch: &Watch<'_>,
        attempt: &mut Attempt,
    ) -> Result<(), ExchangeFailure>;

    /// Return the traffic of the last request.
    fn traffic(&self) -> &Traffic;

    /// Read the state of its connection at the end of a request that was sent at `sent`.
    fn read_tcp(&mut self, sent: Nanos, now: Nanos) -> Option<TcpReading>;

    /// As [`Lease::source`].
    fn source(&self) -> Option<(u32, bool)>;

    /// True if another request may be sent on it, right after one.
    fn is_reusable(&self, flight: &Flight) -> bool;

    /// Return the reason why it cannot carry another request after a rest; none if it can.
    fn unusable(&mut self, flight: &Flight) -> Option<ErrorKind> {
        (!self.is_reusable(flight)).then_some(ErrorKind::Closed)
    }

    /// Look again if its connection is open before the request is sent: time has passed since.
    fn recheck(&mut self) {}

    /// Describe the end of its connection; none if that is noted already.
    fn closed(&self, end: End) -> Option<ClosedConnection> {
        let _ = end;
        None
    }

    /// Return when the target may close it, as it said; none of one whose connection may carry
    /// others.
    fn closes_at(&self) -> Option<Nanos> {
        None
    }

    /// Return when its last exchange ended; none of one whose connection may carry others.
    fn idle_since(&self) -> Option<Nanos> {
        None
    }
}

/// A request to write.
#[derive(Debug)]
pub(crate) struct Wanted<'a> {
    pub(crate) item: Item<'a>,
    pub(crate) host: &'a Host,
    /// Cookies to send in the place of those of its connection.
    pub(crate) jar: Option<&'a SharedJar>,
}

/// Parts of a request beside those that its carrier has.
#[derive(Debug, Default)]
pub(crate) struct Written<'a> {
    /// Part of its body to send behind them.
    pub(crate) body: &'a [u8],
    /// Cookies that it has.
    pub(crate) jar: Option<SharedJar>,
}

impl Written<'_> {
    /// The cookies of its connection, where those are kept.
    pub(crate) fn cookies(&self) -> Option<&RefCell<Jar>> {
        self.jar.as_deref()
    }
}

/// End of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    /// It cannot be used after a rest, because of this.
    AtRest(ErrorKind),
    /// It is not used after an exchange, which failed if there is a failure.
    After(Option<ExchangeFailure>),
}

/// Terms on which a connection was opened.
#[derive(Debug)]
pub(crate) struct Terms {
    /// Requests that it may carry.
    pub(crate) left: Left,
    pub(crate) lease: Lease,
    /// Proxy that it goes through.
    pub(crate) hop: Option<Hop>,
    /// Its cookies, where they are kept.
    pub(crate) jar: Option<LentJar>,
    pub(crate) tcp: TcpReadings,
}
