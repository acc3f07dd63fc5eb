//! Replacement of shards that die: what is left of their IDs, when another process takes their
//! place, and how often.
//!
//! Called by the supervisor's loop, which starts the processes. It must not start one itself.

use std::fmt::Display;
use std::time::Duration;

use super::Supervisor;
use super::line::ShardLine;
use super::member::{Left, Member, Successor};
use crate::clock::{Nanos, duration_ns};
use crate::plan::ShardPlan;
use crate::process::usable_cpus;
use crate::shard::INTERVAL;
use crate::units::IdRange;
use crate::wire::Control;
use crate::workload::Workload;

/// Replacements of a shard at most: one that dies again and again has a cause that another process
/// does not remove.
const MOST_REPLACEMENTS: u32 = 3;

/// Wait before the first replacement of a shard, twice as long before each further one.
const BACKOFF: Duration = Duration::from_millis(100);

/// Builds the workload of each process of a run, and says what is left of the IDs of one that died.
/// A function that builds a workload from a plan is one that replaces no shard.
pub trait Workloads {
    /// The workload.
    type Workload: Workload;
    /// Reason why one could not be built.
    type Error: Display;

    /// Build the workload of `plan`: called inside the shard's process, in its runtime.
    ///
    /// # Errors
    /// The run does not start, or the shard is not replaced.
    fn build(&self, plan: &ShardPlan) -> Result<Self::Workload, Self::Error>;

    /// Return the CPUs that the shards are pinned to, round robin, if the plan pins them; empty to
    /// leave their places to the kernel.
    fn cpus(&self) -> Vec<usize> {
        usable_cpus()
    }

    /// Return what is left of the IDs in `held` of the process of `plan`, which died: called once
    /// in the supervisor's process, which waits for it, also if no other process will take its
    /// place. None to go on without the shard, as is done too if the answer does not fit `held`;
    /// its items are then those that it reported.
    fn left(&self, plan: &ShardPlan, held: &[IdRange]) -> Option<Left> {
        let _ = (plan, held);
        None
    }
}

impl<F, W, E> Workloads for F
where
    F: Fn(&ShardPlan) -> Result<W, E>,
    W: Workload,
    E: Display,
{
    type Workload = W;
    type Error = E;

    fn build(&self, plan: &ShardPlan) -> Result<W, E> {
        self(plan)
    }
}

impl<L: ShardLine> Supervisor<L> {
    /// Asks what is left of each shard that has died since, and returns the plans of the processes
    /// that are to take the place of dead ones now. In an open loop, whose timetable goes on, and
    /// once the run is stopped or its time is over, no shard is replaced; its items count as they
    /// are stored all the same.
    pub(super) fn due_replacements(
        &mut self,
        left: impl Fn(&ShardPlan, &[IdRange]) -> Option<Left>,
    ) -> Vec<ShardPlan> {
        let now = self.clock.now();
        let is_on = self.stop.is_none() && self.start.is_some();
        let mut due = Vec::new();
        for member in self.members.iter_mut().filter(|member| member.has_died()) {
            if matches!(member.successor, Successor::Unasked) {
                let left = left(&member.plan, &member.ids).filter(|left| left.fits(&member.ids));
                let at = now.plus(BACKOFF * (1 << member.plan.life));
                member.successor = left.map_or(Successor::None, |left| Successor::At(at, left));
            }
            let ends = self
                .start
                .zip(member.plan.duration)
                .map(|(start, duration)| start.plus(duration));
            let may_return = is_on
                && member.plan.timetable.is_none()
                && member.plan.life < MOST_REPLACEMENTS
                && ends.is_none_or(|end| now < end);
            match &member.successor {
                Successor::At(..) if !may_return => member.go_without(),
                Successor::At(at, left) if now >= *at => {
                    due.push(ShardPlan {
                        life: member.plan.life + 1,
                        ids: left.ids.clone(),
                        ..member.plan.clone()
                    });
                }
                _ => {}
            }
        }
        due
    }

    /// Puts the process of `plan` in the place of the shard's dead one.
    pub(super) fn replace(&mut self, plan: ShardPlan, line: L) {
        let i = plan.shard as usize;
        self.windows.again(i);
        self.live.shards[i].pid = line.pid();
        let dead = std::mem::replace(
            &mut self.members[i],
            Member::new(plan, line, self.clock.now()),
        );
        self.members[i].follow(dead);
    }

    /// Has a process begin that takes the place of a dead one, with its share of the budget as
    /// it is now, and told of the pauses in force. Its first request goes an interval later, which keeps its
    /// distance from all that were sent before it was there to be told of them.
    pub(super) fn begin_late(&mut self, i: usize, start: Nanos, now: Nanos) {
        let pauses = self
            .pauses_in_force
            .values()
            .filter(|order| order.until > now)
            .map(|order| Control::Pause(*order));
        let lease = self.lease.map(Control::Lease);
        pauses
            .chain(self.growth.map(Control::Grow))
            .chain(lease)
            .chain([Control::Go { start, from: now }])
            .for_each(|control| self.members[i].tell(control));
        let first = now.since(start) / duration_ns(INTERVAL);
        self.timeline.begin_again(self.members[i].plan.shard, first);
        self.members[i].first_second = Some(first);
    }
}
