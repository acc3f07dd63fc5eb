//! An exchange of a request and its response, of either version of HTTP: its times, its traffic, its
//! deadline and its failures.
//!
//! A [`Failure`] of TLS, a proxy or dialing has a kind of its own. It passes as an [`io::Error`]
//! through layers that know nothing of it; [`failure_of`] recovers its kind.

use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::workload::Flight;
use tokio::time::Sleep;

/// The times of an exchange.
#[derive(Debug, Clone, Copy)]
pub(super) struct Watch<'a> {
    pub(super) clock: Clock,
    /// Start of the exchange.
    pub(super) sent: Nanos,
    /// End of its time limit.
    pub(super) deadline: Nanos,
    /// Progress, read when the exchange is cut off.
    pub(super) flight: &'a Flight,
    /// True if the kernel's receive time stamps of the answer are to be read.
    pub(super) is_sampled: bool,
}

/// Reason why there is no complete answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ExchangeFailure {
    /// Nothing of the request was written.
    NotSent(Unusable),
    /// The target did not begin the request, and said so.
    NotBegun(ErrorKind),
    /// The request was sent at least in part, and its answer is incomplete.
    Broken(Broken),
}

/// Reason why a connection cannot carry a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unusable {
    /// The target closed it, or it failed.
    Ended(ErrorKind),
    /// The target sent bytes that no request had asked for.
    Spoke,
}

/// An exchange without a complete answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Broken {
    pub(super) kind: ErrorKind,
    /// Status of the answer; none if its head did not arrive.
    pub(super) status: Option<u16>,
}

/// Traffic of an exchange.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Traffic {
    /// Bytes written.
    pub(super) sent: u64,
    /// Bytes read.
    pub(super) received: u64,
    /// Time of the first byte read, which may be that of an interim answer.
    pub(super) first_byte: Option<Nanos>,
}

/// Deadline of a connection's exchanges: a timer that fires at the deadline of the present exchange
/// or of an earlier one, and is set again only then. That is one timer operation per timeout instead
/// of two per request.
#[derive(Debug)]
pub(super) struct Deadline {
    alarm: Pin<Box<Sleep>>,
    /// Time that the alarm is set to. Kept here, so that most exchanges do not touch the alarm's
    /// memory.
    alarm_at: Nanos,
    /// Waker that the alarm has; none if it was set again since.
    waker: Option<Waker>,
    at: Nanos,
    /// True if the alarm had not fired when the exchange began, and was not polled since: had it
    /// fired in the meantime, it would wake the task again.
    is_fresh: bool,
}

impl Deadline {
    /// Timer for exchanges, not set yet.
    pub(super) fn new() -> Self {
        let alarm = Box::pin(tokio::time::sleep(Duration::ZERO));
        Self {
            alarm,
            alarm_at: Nanos::default(),
            waker: None,
            at: Nanos::default(),
            is_fresh: false,
        }
    }

    /// Make sure that the alarm fires by the deadline of an exchange. It is set to an earlier time
    /// already, unless the connection is new or a slower exchange used it last.
    pub(super) fn arm(&mut self, exchange: &Watch<'_>) {
        let Watch {
            clock,
            sent,
            deadline,
            ..
        } = *exchange;
        self.at = deadline;
        if self.alarm_at > deadline || self.alarm_at <= sent {
            self.set(clock);
        }
        self.is_fresh = true;
    }

    /// True if the deadline has passed.
    pub(super) fn has_passed(&self, clock: Clock) -> bool {
        clock.now() >= self.at
    }

    /// Return true if the deadline has passed; otherwise make sure that the task is woken by then.
    /// Call before the task waits.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, clock: Clock) -> bool {
        // Mostly the same task polled it for an earlier exchange, and it has not fired since.
        let is_running = std::mem::take(&mut self.is_fresh) || !self.alarm.is_elapsed();
        if is_running
            && self
                .waker
                .as_ref()
                .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            return false;
        }
        while self.alarm.as_mut().poll(cx).is_ready() {
            if self.has_passed(clock) {
                return true;
            }
            self.set(clock);
        }
        self.waker = Some(cx.waker().clone());
        false
    }

    fn set(&mut self, clock: Clock) {
        self.alarm.as_mut().reset(clock.instant(self.at));
        self.alarm_at = self.at;
        self.waker = None;
    }
}

/// Most characters of details: the target chooses the names of its certificate.
const MOST_DETAILS: usize = 200;

/// A failure with a kind of its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{details}")]
pub(super) struct Failure {
    pub(super) kind: ErrorKind,
    pub(super) details: String,
}

impl Failure {
    /// Create a failure. Control characters in its details are replaced, and the rest is cut to a
    /// bounded length.
    pub(super) fn new(kind: ErrorKind, details: &str) -> Self {
        let shown = details
            .chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .take(MOST_DETAILS);
        Self {
            kind,
            details: shown.collect(),
        }
    }
}

impl From<Failure> for io::Error {
    fn from(failure: Failure) -> Self {
        Self::new(io::ErrorKind::InvalidData, failure)
    }
}

/// Return the [`Failure`] that an error is.
pub(super) fn failure_of(error: &io::Error) -> Option<&Failure> {
    error.get_ref()?.downcast_ref()
}

#[cfg(test)]
mod failure_tests {
    use super::*;

    #[test]
    fn details_are_bounded_and_printable() {
        let failure = Failure::new(
            ErrorKind::TlsWrongName,
            &("\u{1b}[2J".to_owned() + &"x".repeat(10_000)),
        );
        assert_eq!(failure.details.chars().count(), MOST_DETAILS);
        assert!(!failure.details.contains('\u{1b}'), "{}", failure.details);
    }
}
