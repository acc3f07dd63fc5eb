//! Choice of the next item for a free lane: an item of a host that allows a request, retries first.
//!
//! Called when the budget allows an attempt. It must not read a clock.

use super::{Limits, SKIP_PAUSE, Waits};
use crate::clock::Nanos;
use crate::shard::host::Refusal;
use crate::shard::supply::{Next, Task};
use crate::wire::Binding;

/// Answer when there is nothing to do.
const NOTHING: Refusal = Refusal::blocked(Binding::Idle);

impl Limits {
    /// Return the refusal of an attempt that the budget allows no sooner than `next`. The limit
    /// that it names is not the budget if there is nothing to do, or if a host would not allow the
    /// attempt then.
    pub(super) fn refused(&mut self, next: Nanos, now: Nanos) -> Refusal {
        if self.hosts.len() > 1 {
            // What one of them wants says nothing of the others.
            return Refusal::at(next, Binding::Rate);
        }
        match self.supply.next(now) {
            Next::Now => {}
            Next::At(due) => return Refusal::at(due.max(next), Binding::Idle),
            Next::Nothing => return NOTHING,
        }
        match self.hosts[0].permission(now) {
            Err(later) if later.until > next => later,
            // A pause puts the timetable off, which is why nothing is due before its end.
            Err(Refusal {
                binding: Binding::Pause,
                ..
            }) if self.limiter.pacer.timetable().is_some() => Refusal::at(next, Binding::Pause),
            Err(_) | Ok(_) => Refusal::at(next, Binding::Rate),
        }
    }

    /// Take the task for the turn of an open loop that is scheduled at `due`, and the moment since
    /// which its host has allowed it; the refusal if its host does not allow it at `now`.
    ///
    /// No other item goes first: the turn would be given to another host's item, and the wait would
    /// belong to no item.
    pub(super) fn next_in_turn(
        &mut self,
        due: Nanos,
        now: Nanos,
    ) -> Result<(Task, Nanos), Refusal> {
        let Some(id) = self.supply.peek(due) else {
            return Err(match self.supply.next(now) {
                // A turn of this very moment, before what is to be tried again is due.
                Next::At(again) => Refusal::at(again, Binding::Idle),
                Next::Now | Next::Nothing => NOTHING,
            });
        };
        let since = self.permission(self.host_of(id), now)?;
        // What the turn before it waited for, it waited for as well.
        self.in_turn_since = self.in_turn_since.max(since);
        let task = self.supply.take(due).ok_or(NOTHING)?;
        Ok((task, self.in_turn_since))
    }

    /// The next thing to do whose host allows it at `now`, and since when it does; or what all of
    /// them wait for.
    pub(super) fn choose(&mut self, now: Nanos) -> Result<(Task, Nanos), Refusal> {
        if let [host] = &mut self.hosts[..] {
            // No other host can go first.
            return match self.supply.next(now) {
                Next::Now => {
                    let since = host.permission(now)?;
                    Ok((self.supply.take(now).ok_or(NOTHING)?, since))
                }
                Next::At(due) => Err(Refusal::at(due, Binding::Idle)),
                Next::Nothing => Err(NOTHING),
            };
        }
        while let Some(again) = self.supply.take_due(now) {
            let host = self.host_of(again.id);
            self.fall_behind(host);
            self.hosts[host].deferred.again(again);
        }
        let mut refusal = NOTHING;
        if let Some(chosen) = self.choose_deferred(now, &mut refusal) {
            return Ok(chosen);
        }
        // Nothing overtakes what was deferred for the same host, so there is no reason to look
        // further once every host has something.
        while self.behind.len() < self.hosts.len() {
            if !self.skip_forbidden() {
                refusal = refusal.sooner(Refusal::at(now.plus(SKIP_PAUSE), Binding::Idle));
                break;
            }
            let stretch = self.supply.stretch();
            let Some(id) = self.supply.take_first() else {
                if let Next::At(due) = self.supply.next(now) {
                    refusal = refusal.sooner(Refusal::at(due, Binding::Idle));
                }
                break;
            };
            let number = self.host_of(id);
            // A host that is behind has refused already.
            if self.hosts[number].deferred.is_empty() {
                match self.permission(number, now) {
                    Ok(since) => return Ok((Task::First(id), since)),
                    Err(other) => refusal = self.refused_by_both(refusal, other),
                }
                self.fall_behind(number);
            }
            self.hosts[number].deferred.first(id, stretch);
        }
        Err(refusal)
    }

    /// Notes that something is about to be deferred for that host.
    fn fall_behind(&mut self, host: usize) {
        if self.hosts[host].deferred.is_empty() {
            self.behind
                .push_back(u32::try_from(host).unwrap_or(u32::MAX));
        }
    }

    /// Take a deferred task that may go at `now`, and the moment since which its host has allowed
    /// it.
    fn choose_deferred(&mut self, now: Nanos, refusal: &mut Refusal) -> Option<(Task, Nanos)> {
        for at in 0..self.behind.len() {
            let number = self.behind[at] as usize;
            match self.permission(number, now) {
                Ok(since) => {
                    let (count, host_of) = (self.hosts.len(), &self.host_of);
                    let host = &mut self.hosts[number];
                    let task = host
                        .deferred
                        .take(|id| host_of(id) as usize % count == number);
                    let is_behind = !host.deferred.is_empty();
                    if let Some(number) = self.behind.remove(at).filter(|_| is_behind) {
                        self.behind.push_back(number);
                    }
                    return task.map(|task| (task, since));
                }
                Err(other) => *refusal = self.refused_by_both(*refusal, other),
            }
        }
        None
    }

    /// Return the refusal that may end sooner, of several hosts and one more.
    fn refused_by_both(&mut self, several: Refusal, other: Refusal) -> Refusal {
        if other.is_blocked() {
            self.waits = Waits::ForAnEnd;
        }
        if several == NOTHING {
            other
        } else {
            several.sooner(other)
        }
    }
}
