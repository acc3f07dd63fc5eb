//! Messages of the supervisor that move pauses, IDs and shares of the budget between shards during a
//! run.
//!
//! Decisions about IDs are made in `ranges`; this module sends them. Called by the
//! supervisor's step alone.

use super::Supervisor;
use super::line::ShardLine;
use super::member::Member;
use super::ranges::{RangeMessage, RemainingIds};
use crate::pacer::Growth;
use crate::units::{IdRange, RateShape};
use crate::wire::{Control, PauseOrder};

impl<L: ShardLine> Supervisor<L> {
    /// A shard that no longer reports, or has no more attempts to make, takes part in no move.
    pub(super) fn note_silence(&mut self) {
        let silent: Vec<usize> = (0..self.members.len())
            .filter(|i| !self.members[*i].is_at_work())
            .collect();
        for i in silent {
            self.ranges.gone(i);
            self.windows.over(i);
            let shard = self.members[i].plan.shard;
            for frame in self.members[i].take_open() {
                self.timeline.add_rest(shard, frame);
            }
        }
    }

    /// Shares what shards had that are gone for good among those that are left. A dead process sends
    /// nothing more, so nobody has to agree.
    pub(super) fn share_budget(&mut self) {
        // In windows a share is a whole number, and shares may differ by one.
        let share = |member: &Member<L>| match (&member.plan.shape, member.plan.budget) {
            (RateShape::Windows { .. }, Some(budget)) => budget.burst,
            _ => 1,
        };
        let left = self.members.iter().filter(|member| !member.is_lost());
        let growth = Growth {
            whole: self.members.iter().map(share).sum(),
            kept: left.clone().map(share).max().unwrap_or(0) * left.count() as u64,
        };
        // Whole numbers may leave nothing to add.
        if growth.kept < growth.whole && self.growth.replace(growth) != Some(growth) {
            self.tell_all(Control::Grow(growth));
        }
    }

    /// A quota that one shard met is shared by all: the target takes them for one client.
    pub(super) fn pause_others(&mut self, i: usize, order: PauseOrder) {
        self.asked_until = self.asked_until.max(order.until).max(order.promised);
        let before = self
            .pauses_in_force
            .get(&order.host)
            .map(|before| before.until)
            .unwrap_or_default();
        if order.at >= before {
            self.pauses += 1;
        }
        if order.until <= before {
            return;
        }
        self.pauses_in_force.insert(order.host, order);
        self.members
            .iter_mut()
            .enumerate()
            .filter(|(k, member)| *k != i && member.is_speaking())
            .for_each(|(_, member)| member.tell(Control::Pause(order)));
    }

    pub(super) fn tell_all(&mut self, control: Control) {
        self.members
            .iter_mut()
            .filter(|member| member.is_speaking())
            .for_each(|member| member.tell(control));
    }

    /// Hands `range` from shard `i`, which does not hold it any more, to the one that it was asked
    /// for; back to `i` when that one is gone.
    pub(super) fn hand_over(&mut self, i: usize, range: IdRange) {
        // Whose process is known to be over is gone, though the end of its pipe may not have been
        // read yet.
        for over in (0..self.members.len()).filter(|k| self.members[*k].exit.is_some()) {
            self.ranges.gone(over);
        }
        let Some(RangeMessage::Take(thief, range)) = self.ranges.shed(i, range) else {
            return;
        };
        self.members[thief].give(range);
        // What comes back to the donor has not moved.
        if thief != i {
            self.moved.ranges += 1;
            self.moved.ids += range.len();
        }
    }

    /// Gives shards that are done something to do, or sends them home.
    pub(super) fn feed(&mut self) {
        if self.stop.is_some() {
            return;
        }
        let rests: Vec<RemainingIds> = self
            .members
            .iter()
            .map(|member| RemainingIds {
                ids: member.progress.remaining,
                works: member.is_at_work(),
                returns: member.returns(),
            })
            .collect();
        for say in self.ranges.feed(&rests) {
            match say {
                RangeMessage::Shed(i) => self.members[i].tell(Control::Shed),
                RangeMessage::Take(i, range) => self.members[i].give(range),
                RangeMessage::Finish(i) => self.members[i].tell(Control::Finish),
            }
        }
    }
}
