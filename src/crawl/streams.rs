//! Connections that carry many requests at once, each on a stream of its own: what HTTP/2 and HTTP/3
//! have in common.
//!
//! It must not know how either is written.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::sample::{ClosedBy, ClosedConnection, ErrorKind};
use crawlmark_harness::workload::{Flight, InFlight};

use super::connect::{
    failure::Failure,
    pool::{After, Lease, Left},
};
use super::response::exchange::{ExchangeFailure, Progress, Watch, was_not_begun};

/// Use of a connection that its streams share.
#[derive(Debug)]
pub(super) struct Use {
    left: Cell<Left>,
    /// Requests that it was given, without those that the target did not begin.
    requests: Rc<Cell<u64>>,
    is_closing: Cell<bool>,
    /// Possessions, of which its place is given back when it closes.
    lease: RefCell<Lease>,
}

impl Use {
    pub(super) fn new(left: Left, lease: Lease, requests: Rc<Cell<u64>>) -> Self {
        Self {
            left: Cell::new(left),
            requests,
            is_closing: Cell::new(false),
            lease: RefCell::new(lease),
        }
    }

    /// Begin no further request on it, which `by` closes. Another connection may take its place.
    pub(super) fn retire(&self, by: ClosedBy, flight: &Flight) {
        if !self.is_closing.replace(true) {
            let requests = self.requests.get();
            flight.closed(ClosedConnection { by, requests });
        }
        drop(self.lease.borrow_mut().place.take());
    }

    /// True if no further request may begin on it.
    pub(super) fn is_closing(&self) -> bool {
        self.is_closing.get() || self.left.get().is_none()
    }

    /// As [`Lease::source`].
    pub(super) fn source(&self) -> Option<(u32, bool)> {
        self.lease.borrow().source()
    }

    /// Count a request that is about to be sent, and return its number.
    pub(super) fn count_request(&self, flight: &Flight) -> u64 {
        let mut left = self.left.get();
        let after = left.take();
        self.left.set(left);
        let nth = self.requests.get() + 1;
        self.requests.set(nth);
        if after == After::Close {
            self.retire(ClosedBy::Client, flight);
        }
        nth
    }

    /// Take back the count of a request that was not begun.
    pub(super) fn uncount(&self) {
        self.requests.set(self.requests.get().saturating_sub(1));
    }
}

/// Note the progress of a request, whose first byte of a response came at `first_byte`.
pub(super) fn note(watch: &Watch<'_>, first_byte: Option<Nanos>) {
    watch.flight.note(InFlight {
        sent: watch.sent,
        first_byte,
        bytes_sent: 0,
        bytes_received: 0,
    });
}

/// Return the failure of a request, explained in `flight`; without one, its time is over. `status` is
/// that of its response, if a head came, and `content_bytes` the content behind it.
pub(super) fn failed(
    failure: Option<Failure>,
    is_sent: bool,
    status: Option<u16>,
    content_bytes: u64,
    flight: &Flight,
) -> ExchangeFailure {
    let kind = failure.as_ref().map_or(ErrorKind::Timeout, |it| it.kind);
    let progress = match status {
        _ if !is_sent => Progress::NotSent,
        None if was_not_begun(kind) => Progress::NotBegun,
        status => Progress::Sent(status),
    };
    let kind = match kind {
        ErrorKind::Closed if status.is_some() => ErrorKind::Incomplete,
        kind => kind,
    };
    let is_cut = matches!(
        kind,
        ErrorKind::Incomplete | ErrorKind::Reset | ErrorKind::Timeout
    );
    if status.is_some() && is_cut {
        flight.explain(kind, format!("{content_bytes} bytes of content"));
    } else if let Some(failure) = failure.filter(|failure| !failure.details.is_empty()) {
        flight.explain(kind, failure.details);
    }
    ExchangeFailure { kind, progress }
}
