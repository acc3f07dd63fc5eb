//! Timer of a connection's exchanges: it fires at the deadline of the present exchange or of an earlier one, and is set again only
//! then. That is one timer operation per timeout instead of two per request.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use tokio::time::Sleep;

/// Deadline of an exchange.
#[derive(Debug)]
pub(super) struct Deadline {
    alarm: Pin<Box<Sleep>>,
    /// Waker that the alarm has; none if it was set again since.
    waker: Option<Waker>,
    at: Nanos,
}

impl Deadline {
    /// Timer for exchanges that may take `timeout`.
    pub(super) fn new(timeout: Duration) -> Self {
        Self { alarm: Box::pin(tokio::time::sleep(timeout)), waker: None, at: Nanos::default() }
    }

    /// Make sure that the alarm fires by `at`. It is set to an earlier time already, unless the connection is new or a slower exchange
    /// used it last.
    pub(super) fn arm(&mut self, at: Nanos, clock: Clock) {
        self.at = at;
        if self.alarm.deadline() > clock.instant(at) {
            self.set(clock);
        }
    }

    /// True if the deadline has passed.
    pub(super) fn has_passed(&self, clock: Clock) -> bool {
        clock.now() >= self.at
    }

    /// Return true if the deadline has passed; otherwise make sure that the task is woken by then. Call before the task waits.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, clock: Clock) -> bool {
        // Mostly the same task polled it for an earlier exchange, and it has not fired since.
        if !self.alarm.is_elapsed() && self.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
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
        self.waker = None;
    }
}
