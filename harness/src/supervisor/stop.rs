//! Stopping a run: by a signal or by its observer, with a grace for open requests, which another
//! signal ends.
//!
//! Called from the supervisor's step. It must not wait.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::line::ShardLine;
use super::view::ShardFault;
use super::{SHORTEST_SUSPENSION, Stopping, Supervisor};
use crate::clock::{Nanos, duration_ns};
use crate::wire::Control;

/// Time that requests under way have to end when a signal asks the run to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Signals within this time of the first are the same request to stop: `timeout` sends its signal
/// to the process and then to the process group, and a terminal to the group.
const SAME_STOP: Duration = Duration::from_millis(200);

/// A shard that has not ended this long after the grace is ended: a stopped run reports within two
/// seconds. One whose workload finishes has as long as that takes: what is not stored yet would be
/// lost.
const STOP_MARGIN: Duration = Duration::from_millis(500);

/// Cause of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopCause {
    /// A signal of this number.
    Signal(i32),
    /// The observer, which has seen enough.
    Observer,
    /// The workload of a shard, which takes no more results or could not finish them.
    Workload,
}

/// A stop that was asked for.
#[derive(Debug)]
pub(super) struct Stop {
    pub(super) cause: StopCause,
    pub(super) at: Nanos,
    /// Last request to stop: `at`, or a later signal.
    asked_at: Nanos,
    /// True once the grace was ended by another signal.
    is_hurried: bool,
    kill_at: Nanos,
    /// True once yet another signal ends even shards whose workload finishes.
    is_forced: bool,
}

impl Stop {
    /// State of the stop, for observers of the run.
    pub(super) const fn state(&self) -> Stopping {
        match self {
            Self {
                is_hurried: true, ..
            } => Stopping::AtOnce,
            Self {
                cause: StopCause::Signal(_),
                ..
            } => Stopping::BySignal,
            Self {
                cause: StopCause::Observer,
                ..
            } => Stopping::ByObserver,
            Self {
                cause: StopCause::Workload,
                ..
            } => Stopping::ByWorkload,
        }
    }
}

impl<L: ShardLine> Supervisor<L> {
    pub(super) fn signalled(&mut self, signal: i32, now: Nanos) {
        // SIGCHLD only wakes the loop, which then looks who has ended.
        if signal == Signal::SIGCHLD as i32 {
            return;
        }
        match &mut self.stop {
            None => self.stop(StopCause::Signal(signal), now),
            Some(stop) if now.since(stop.asked_at) <= duration_ns(SAME_STOP) => {}
            Some(stop) if stop.is_hurried => (stop.kill_at, stop.is_forced) = (now, true),
            Some(stop) => {
                (stop.asked_at, stop.is_hurried) = (now, true);
                stop.kill_at = stop.kill_at.min(now.plus(STOP_MARGIN));
                self.tell_all(Control::Stop(now));
            }
        }
        self.check_deadlines(now);
    }

    /// The run goes on after it was stopped for so long, in which no shard could be silent or late.
    pub(super) fn resumed(&mut self, gap: Duration) {
        self.members
            .iter_mut()
            .for_each(|member| member.resumed(gap));
        if let Some(stop) = &mut self.stop {
            stop.kill_at = stop.kill_at.plus(gap);
        }
        if self.start.is_some() && gap >= SHORTEST_SUSPENSION {
            self.suspended += gap;
        }
    }

    /// Asks the shards to start nothing more and to end what is under way.
    pub(super) fn stop(&mut self, cause: StopCause, now: Nanos) {
        let until = now.plus(STOP_GRACE);
        let kill_at = until.plus(STOP_MARGIN);
        self.stop = Some(Stop {
            cause,
            at: now,
            asked_at: now,
            is_hurried: false,
            kill_at,
            is_forced: false,
        });
        self.tell_all(Control::Stop(until));
    }

    pub(super) fn check_deadlines(&mut self, now: Nanos) {
        let overdue = self.stop.as_ref().filter(|stop| now >= stop.kill_at);
        let is_forced = overdue.is_some_and(|stop| stop.is_forced);
        for member in &mut self.members {
            if overdue.is_some() && member.is_speaking() && (is_forced || !member.is_finishing()) {
                member.give_up(ShardFault::Overdue, now);
            }
            member.check_alive(now, self.shard_deadline);
        }
    }
}
