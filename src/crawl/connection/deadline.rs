//! Timer of a connection's exchanges: it fires at the deadline of the present exchange or of an
//! earlier one, and is set again only then. That is one timer operation per timeout instead of two
//! per request.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use tokio::time::Sleep;

use super::exchange::Watch;

/// Deadline of an exchange.
#[derive(Debug)]
pub(in crate::crawl) struct Deadline {
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
    pub(in crate::crawl) fn new() -> Self {
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
    pub(in crate::crawl) fn arm(&mut self, exchange: &Watch<'_>) {
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
    pub(in crate::crawl) fn poll(&mut self, cx: &mut Context<'_>, clock: Clock) -> bool {
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
