//! Stopping a run: by a signal or by its observer, with a grace for open requests, which another signal ends.
//!
//! Called from the supervisor's step. It must not wait.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::line::ShardLine;
use super::member::ShardFault;
use super::{SHORTEST_SUSPENSION, Stopping, Supervisor};
use crate::clock::{Nanos, duration_ns};
use crate::wire::Control;

/// Time that requests under way have to end when a signal asks the run to stop.
const STOP_GRACE: Duration = Duration::from_secs(1);

/// Signals within this time of the first are the same request to stop: `timeout` sends its signal to the process and then to
/// the process group, and a terminal to the group.
const SAME_STOP: Duration = Duration::from_millis(200);

/// A shard that has not ended this long after the grace is ended: a stopped run reports within two seconds.
const STOP_MARGIN: Duration = Duration::from_millis(500);

/// A stop that was asked for.
#[derive(Debug)]
pub(super) struct Stop {
    /// By a signal; by the observer when there is none.
    pub(super) signal: Option<i32>,
    pub(super) at: Nanos,
    /// Last request to stop: `at`, or a later signal.
    asked_at: Nanos,
    /// True once the grace was ended by another signal.
    is_hurried: bool,
    kill_at: Nanos,
}

impl Stop {
    /// State of the stop, for observers of the run.
    pub(super) const fn state(&self) -> Stopping {
        match self {
            Self { is_hurried: true, .. } => Stopping::AtOnce,
            Self { signal: Some(_), .. } => Stopping::BySignal,
            Self { signal: None, .. } => Stopping::ByObserver,
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
            None => self.stop(Some(signal), now),
            Some(stop) if now.since(stop.asked_at) <= duration_ns(SAME_STOP) => {}
            Some(stop) if stop.is_hurried => stop.kill_at = now,
            Some(stop) => {
                (stop.asked_at, stop.is_hurried) = (now, true);
                stop.kill_at = stop.kill_at.min(now.plus(STOP_MARGIN));
                self.stop_shards(now);
            }
        }
        self.check_deadlines(now);
    }

    /// Asks the shards to start nothing more, and to cut off at `until` what is under way.
    fn stop_shards(&mut self, until: Nanos) {
        self.members.iter_mut().filter(|m| m.is_speaking()).for_each(|m| m.tell(Control::Stop(until)));
    }

    /// The run goes on after it was stopped for so long, in which nobody could be silent or late.
    pub(super) fn resumed(&mut self, gap: Duration) {
        self.members.iter_mut().for_each(|member| member.resumed(gap));
        if let Some(stop) = &mut self.stop {
            stop.kill_at = stop.kill_at.plus(gap);
        }
        if self.start.is_some() && gap >= SHORTEST_SUSPENSION {
            self.suspended += gap;
        }
    }

    /// Asks the shards to start nothing more and to end what is under way.
    pub(super) fn stop(&mut self, signal: Option<i32>, now: Nanos) {
        let until = now.plus(STOP_GRACE);
        let kill_at = until.plus(STOP_MARGIN);
        self.stop = Some(Stop { signal, at: now, asked_at: now, is_hurried: false, kill_at });
        self.stop_shards(until);
    }

    pub(super) fn check_deadlines(&mut self, now: Nanos) {
        let overdue = self.stop.as_ref().is_some_and(|stop| now >= stop.kill_at);
        for member in &mut self.members {
            if overdue && member.is_speaking() {
                member.give_up(ShardFault::Overdue, now);
            }
            member.check_alive(now, self.shard_deadline);
        }
    }
}
