//! Permission to write a request that has its connection.
//!
//! Called by the gate. It must not read a clock.

use super::{Limits, State};
use crate::clock::Nanos;
use crate::pacer::Pace;
use crate::sample::Permit;
use crate::wire::Binding;

impl Limits {
    /// Number of the held requests to look at: what holds for one request of a single host holds
    /// for all.
    pub(in crate::shard::gate) fn held_to_ask(&self) -> usize {
        if self.hosts.len() > 1 {
            self.sending.len()
        } else {
            self.sending.len().min(1)
        }
    }

    /// Ask if a request for `id` that has its connection may be written at `now`; none if it may
    /// not and the gate is closed: only what is on the wire has a grace. The budgets are not asked
    /// about one that was counted.
    pub(in crate::shard::gate) fn clearance(
        &self,
        id: u64,
        now: Nanos,
        is_counted: bool,
    ) -> Option<Pace> {
        let host = &self.hosts[self.host_of(id)];
        let pace = if now >= self.lease {
            Pace::Wait(Nanos(u64::MAX))
        } else if host.resume() > now {
            Pace::Wait(host.resume())
        } else if is_counted {
            Pace::Go(now)
        } else {
            match (self.limiter.peek_send(now), host.limiter.peek_send(now)) {
                (Pace::Wait(one), Pace::Wait(other)) => Pace::Wait(one.max(other)),
                (wait @ Pace::Wait(_), _) | (_, wait) => wait,
            }
        };
        Some(pace).filter(|pace| self.state != State::Closed || matches!(pace, Pace::Go(_)))
    }

    /// Return the limit that requests wait for which have their connection; `Idle` if there are
    /// none.
    pub(in crate::shard::gate) fn holds_sending(&self, now: Nanos) -> Binding {
        match self.sending.front() {
            None => Binding::Idle,
            Some((_, id)) if self.hosts[self.host_of(*id)].resume() > now => Binding::Pause,
            Some(_) => Binding::Rate,
        }
    }

    /// Has a lane wait to be called, as the first if it `has_waited` already.
    pub(in crate::shard::gate) fn hold(&mut self, lane: usize, id: u64, has_waited: bool) {
        self.host(id).held += 1;
        if has_waited {
            self.sending.push_front((lane, id));
        } else {
            self.sending.push_back((lane, id));
        }
    }

    /// Has a lane wait to be called no more.
    pub(in crate::shard::gate) fn release(&mut self, at: usize) {
        if let Some((_, id)) = self.sending.remove(at) {
            self.host(id).held -= 1;
        }
    }

    /// Forget the request of a lane for `id`, which will not be written.
    pub(in crate::shard::gate) fn unsent(&mut self, lane: usize, id: u64) {
        self.host(id).started();
        if let Some(at) = self.sending.iter().position(|held| held.0 == lane) {
            self.release(at);
        }
    }

    /// Intends a request later that a pause of the only host held back for `ns` after it had its
    /// connection, as the pause does with all requests of an open loop that were not let through:
    /// the wait is not the target's latency.
    pub(in crate::shard::gate) fn put_off(&mut self, permit: &mut Permit, ns: u64) {
        if self.hosts.len() == 1 && self.limiter.pacer.timetable().is_some() {
            permit.first_intended.0 += if permit.attempt == 0 { ns } else { 0 };
            permit.intended.0 += ns;
            permit.ready.0 += ns;
        }
    }

    /// Counts a request for `id` that is written at `now`.
    pub(in crate::shard::gate) fn sent(&mut self, id: u64, now: Nanos) {
        let host = self.host(id);
        host.started();
        host.brake().sent(now);
        self.limiters(id)
            .into_iter()
            .for_each(|limiter| limiter.sent(now));
    }
}
