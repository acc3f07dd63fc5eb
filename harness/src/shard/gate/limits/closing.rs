//! Admissions that are taken back, requests that a full queue drops, and requests that are left
//! when the gate closes: dropped, postponed past the end by a pause, or waiting for a retry.
//!
//! Called by the gate. It must not read a clock.

use std::time::Duration;

use super::Limits;
use crate::clock::{Nanos, duration_ns};
use crate::sample::Permit;
use crate::shard::gate::lateness::Going;
use crate::shard::supply::Again;
use crate::wire::{Binding, TimetableUse};

/// A request of an open loop that was due and did not go.
#[derive(Debug, Clone, Copy)]
pub(in crate::shard) struct Dropped {
    pub(in crate::shard) intended: Nanos,
    /// Begin of its wait for a connection; none where it waited for another limit.
    pub(in crate::shard) admitted: Option<Nanos>,
}

/// Rest of an open loop's timetable when the gate was closed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftOver {
    postponed: u64,
    dropped_by: Option<Binding>,
    shifted_ns: u64,
}

impl Limits {
    /// Takes back what was let through and not sent at `now`, after the gate was closed. True if
    /// the timetable had scheduled it by then: a pause of the only host moves it past the end.
    pub(in crate::shard::gate) fn take_back(&mut self, permit: &Permit, now: Nanos) -> bool {
        self.under_way -= 1;
        self.host(permit.host).under_way -= 1;
        self.returned += u64::from(permit.attempt == 0);
        let is_paused = self.host(permit.host).pauses.resume() > now;
        let is_held = self.clearance(permit.host, now, false).is_none();
        let Some(table) = self.limiter.pacer.timetable() else {
            return false;
        };
        let is_postponed = is_paused && self.hosts.len() == 1;
        if is_postponed {
            table.leave_out();
            self.left_over.postponed += 1;
        } else {
            let held_by = match (is_paused, is_held) {
                (true, _) => Binding::Pause,
                (false, true) => Binding::Rate,
                (false, false) => Binding::Idle,
            };
            self.left_over.dropped_by.get_or_insert(held_by);
        }
        !is_postponed
    }

    /// Drops what was due before `now`, when `queue` requests waited already. Nothing has gone or
    /// ended since the last time.
    pub(super) fn bound_queue(&mut self, queue: usize, now: Nanos) {
        // Those that a free lane is about to take do not wait for one.
        let free = self.plan.lanes().saturating_sub(self.under_way as usize);
        let room = queue.saturating_add(free);
        if self.work() > room as u64
            && let Some(table) = self.limiter.pacer.timetable()
        {
            let before = self.dropped.len();
            let dropped = table.overflow(now, room);
            self.dropped.extend(dropped.map(|due| (due, due)));
            self.note_dropped(before);
        }
    }

    /// Drops what was due more than `deadline` before `now`, as far as there was something to do for
    /// it.
    pub(super) fn expire(&mut self, deadline: Duration, now: Nanos) {
        let work = usize::try_from(self.work()).unwrap_or(usize::MAX);
        let until = Nanos(now.0.saturating_sub(duration_ns(deadline)));
        if let Some(table) = self.limiter.pacer.timetable() {
            let before = self.dropped.len();
            let dropped = table.drain_due(until).take(work);
            self.dropped.extend(dropped.map(|due| (due, now)));
            self.note_dropped(before);
        }
    }

    /// Note what held those back that were dropped after the first `before`, if any were.
    fn note_dropped(&mut self, before: usize) {
        if self.dropped.len() == before {
            return;
        }
        let has_free = (self.under_way as usize) < self.plan.lanes();
        let held_by = match self.timeline.binding() {
            _ if !has_free => Binding::Concurrency,
            // With a free connection and no other limit, the client did not run.
            Binding::Rate if self.plan.per_host.budget.is_none() => Binding::Idle,
            other => other,
        };
        self.left_over.dropped_by.get_or_insert(held_by);
    }

    /// Drops what a bounded queue had no room for, before an attempt that ended at `done` makes
    /// some.
    pub(in crate::shard::gate) fn drop_overflow(&mut self, done: Nanos) {
        if self.plan.queue.is_some() {
            self.update_timetable(done);
        }
    }

    /// Empties the timetable, and returns each request that was due before `now` and did not go, as
    /// far as there was something to do for it. Notes those that would have been due without a
    /// pause.
    pub(in crate::shard::gate) fn drop_due(&mut self, now: Nanos) -> Vec<Dropped> {
        self.update_timetable(now);
        let work = self.work();
        let shifted_ns = match &mut self.hosts[..] {
            [host] => host.pauses.counts(now).paused_ns,
            // Of several hosts, the others go on.
            _ => 0,
        };
        let held_by = self.timeline.binding();
        let Some(table) = self.limiter.pacer.timetable() else {
            return Vec::new();
        };
        let most = usize::try_from(work).unwrap_or(usize::MAX);
        let due: Vec<Nanos> = table.drain_due(now).take(most).collect();
        let postponed = table.postponed(now, work - due.len() as u64);
        let dropped_by = if due.is_empty() {
            self.left_over.dropped_by
        } else {
            Some(held_by)
        };
        self.left_over = LeftOver {
            postponed,
            dropped_by,
            shifted_ns,
        };
        // With a free connection, it was a limit on their host that they waited for.
        let waits_for_connection =
            matches!(held_by, Binding::Concurrency | Binding::Idle) && self.waiting.is_empty();
        let dropped = due.into_iter().map(|intended| {
            let going = Going {
                intended,
                free: now,
                allowed: now,
                now,
            };
            let admitted = waits_for_connection.then(|| going.stamps(&mut self.stalls).admitted);
            Dropped { intended, admitted }
        });
        dropped.collect()
    }

    /// The use of the timetable; none in a closed loop.
    pub(in crate::shard) fn timetable_use(&mut self) -> Option<TimetableUse> {
        let LeftOver {
            postponed,
            dropped_by,
            shifted_ns,
        } = self.left_over;
        let taken = self.limiter.pacer.timetable()?.taken();
        Some(TimetableUse {
            scheduled: taken + postponed,
            postponed,
            dropped_by,
            shifted_ns,
        })
    }

    /// Gives up on whatever waits for another attempt, which it returns, and puts the rest back.
    pub(in crate::shard::gate) fn give_up(&mut self) -> Vec<Again> {
        let mut given_up: Vec<Again> = self.supply.give_up().collect();
        for host in &self.behind {
            given_up.extend(self.hosts[*host as usize].deferred.give_up());
        }
        let hosts = &self.hosts;
        self.behind
            .retain(|host| !hosts[*host as usize].deferred.is_empty());
        given_up
    }
}
