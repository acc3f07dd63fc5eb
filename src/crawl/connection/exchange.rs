//! State of one request and its response on a connection.
//!
//! Advanced by the connection; it must not know how bytes are read and written.

use std::cell::RefCell;

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::workload::Flight;

use crate::crawl::codec::{Malformed, Received, Repetition, Sink};
use crate::crawl::compressed::Coding;
use crate::crawl::cookies::Jar;
use crate::crawl::expect::Expected;
use crate::crawl::head::HeadFacts;
use crate::crawl::header_fields::HeaderFields;
use crate::crawl::redirects;
use crate::crawl::{Content, HoldHeader};

/// Bytes that one turn of a task may read and write: two milliseconds at the worst case of some 30
/// ns each.
pub(super) const TURN_BYTES: usize = 64 << 10;

/// Bytes that a read or a write counts for at least, so that a turn has at most 64 of them. Tokio's
/// budget is 128, so the timer of the deadline is always polled.
const STEP_BYTES: usize = 1 << 10;

/// The times of an exchange.
#[derive(Debug, Clone, Copy)]
pub(in crate::crawl) struct Watch<'a> {
    pub(in crate::crawl) clock: Clock,
    /// Start of the exchange.
    pub(in crate::crawl) sent: Nanos,
    /// End of its time limit.
    pub(in crate::crawl) deadline: Nanos,
    /// Progress, read when the exchange is cut off.
    pub(in crate::crawl) flight: &'a Flight,
    /// True if the kernel's receive time stamps of the answer are to be read.
    pub(in crate::crawl) is_sampled: bool,
}

/// Reason why there is no complete answer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::crawl) enum ExchangeFailure {
    /// Nothing of the request was written.
    NotSent(Unusable),
    /// The target did not begin the request, and said so.
    NotBegun(ErrorKind),
    /// The request was sent at least in part, and its answer is incomplete.
    Broken(Broken),
}

/// Reason why a connection cannot carry a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::crawl) enum Unusable {
    /// The target closed it, or it failed.
    Ended(ErrorKind),
    /// The target sent bytes that no request had asked for.
    Spoke,
}

/// An exchange without a complete answer.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::crawl) struct Broken {
    pub(in crate::crawl) kind: ErrorKind,
    /// Status of the answer; none if its head did not arrive.
    pub(in crate::crawl) status: Option<u16>,
}

/// A request on its way and its response.
pub(super) struct Exchange<'a, 'b> {
    /// The part of the request's body that is not in the connection's buffer.
    pub(super) body: &'a [u8],
    pub(super) writing: Writing,
    pub(super) expected: &'a mut Expected<'b>,
    /// The rule that the response broke.
    pub(super) malformed: Option<Malformed>,
    /// True once the head of the response has arrived.
    pub(super) has_head: bool,
    pub(super) watch: &'a Watch<'a>,
    /// Bytes that this turn may still read and write.
    pub(super) left: usize,
}

/// Progress of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Writing {
    On,
    /// Everything is written, but a TLS stream may still buffer some of it.
    Flushing,
    Done,
    /// Writing failed; a response may still arrive.
    Failed(ErrorKind),
}

/// Receiver of a response.
pub(super) struct Response<'a, 'b> {
    /// The last head on this connection.
    pub(super) head: &'a mut Option<HeadFacts>,
    pub(super) has_head: &'a mut bool,
    pub(super) expected: &'a mut Expected<'b>,
    pub(super) held: HoldHeader,
    pub(super) content: Content,
    /// Jar for cookies, with the request; none where they are not kept.
    pub(super) cookies: Option<(&'a RefCell<Jar>, &'a [u8])>,
    /// Place for the `Location` of a redirect; none where redirects are not followed.
    pub(super) location: Option<&'a mut Option<Vec<u8>>>,
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
    pub(super) fn spend(&mut self, bytes: usize) {
        self.left = self.left.saturating_sub(bytes.max(STEP_BYTES));
    }

    /// Return a failure of this kind, or of the write error if the connection closed before a
    /// response. Notes its details: the rule that the response broke, or the content that arrived.
    pub(super) fn broken(
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
