//! An exchange of a request and its response, of either version of HTTP: its times, its traffic, its
//! deadline and its failures.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::workload::Flight;
use tokio::time::Sleep;

/// The times of an exchange.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Watch<'a> {
    pub(crate) clock: Clock,
    /// Start of the exchange.
    pub(crate) sent: Nanos,
    /// End of its time limit.
    pub(crate) deadline: Nanos,
    /// Progress, read when the exchange is cut off.
    pub(crate) flight: &'a Flight,
    /// True if the kernel's receive time stamps of the answer are to be read.
    pub(crate) is_stamped: bool,
}

/// An exchange without a complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExchangeFailure {
    pub(crate) kind: ErrorKind,
    pub(crate) progress: Progress,
}

/// Progress of an exchange that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing of the request was written.
    NotSent,
    /// The target did not begin the request, and said so.
    NotBegun,
    /// The request was sent at least in part. With the status of its answer; none if its head did
    /// not arrive.
    Sent(Option<u16>),
}

/// True if the target had not begun the request (RFC 9113, 8.7; RFC 9114, 4.1.1).
pub(crate) const fn was_not_begun(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Http2GoAway | ErrorKind::Http2Refused | ErrorKind::Http3Refused
    )
}

/// Traffic of an exchange.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Traffic {
    /// Bytes written.
    pub(crate) sent: u64,
    /// Bytes read.
    pub(crate) received: u64,
    /// Time of the first byte read, which may be that of an interim answer.
    pub(crate) first_byte: Option<Nanos>,
}

/// Deadline of a connection's exchanges: a timer that fires at the deadline of the present exchange
/// or of an earlier one, and is set again only then. That is one timer operation per timeout instead
/// of two per request.
#[derive(Debug)]
pub(crate) struct Deadline {
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
    pub(crate) fn new() -> Self {
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
    #[inline]
    pub(crate) fn arm(&mut self, exchange: &Watch<'_>) {
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
    pub(crate) fn has_passed(&self, clock: Clock) -> bool {
        clock.now() >= self.at
    }

    /// Return true if the deadline has passed; otherwise make sure that the task is woken by then.
    /// Call before the task waits.
    #[inline]
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, clock: Clock) -> bool {
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
        self.poll_alarm(cx, clock)
    }

    #[cold]
    fn poll_alarm(&mut self, cx: &mut Context<'_>, clock: Clock) -> bool {
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
