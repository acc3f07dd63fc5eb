//! Permission to write a request that has its connection.
//!
//! Called by the gate. It must not read a clock.

use super::Limits;
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

    /// True if any request that has its connection may be written at once, and nothing has to be
    /// noted of it.
    pub(in crate::shard::gate) fn sends_at_once(&self) -> bool {
        self.is_unlimited() && self.sending.is_empty()
    }

    /// Ask if a request for `id` that has its connection may be written at `now`.
    pub(in crate::shard::gate) fn clearance(&self, id: u64, now: Nanos) -> Pace {
        if now >= self.lease {
            return Pace::Wait(Nanos(u64::MAX));
        }
        if self.resume(id) > now {
            return Pace::Wait(self.resume(id));
        }
        let host = &self.hosts[self.host_of(id)].limiter;
        match (self.limiter.peek_send(now), host.peek_send(now)) {
            (Pace::Wait(one), Pace::Wait(other)) => Pace::Wait(one.max(other)),
            (wait @ Pace::Wait(_), _) | (_, wait) => wait,
        }
    }

    /// Return the limit that requests wait for which have their connection; `Idle` if there are
    /// none.
    pub(in crate::shard::gate) fn holds_sending(&self, now: Nanos) -> Binding {
        match self.sending.front() {
            None => Binding::Idle,
            Some((_, id)) if self.resume(*id) > now => Binding::Pause,
            Some(_) => Binding::Rate,
        }
    }

    /// Before this moment the host of `id` is not to receive anything, as it asked.
    pub(in crate::shard::gate) fn resume(&self, id: u64) -> Nanos {
        self.hosts[self.host_of(id)].resume()
    }

    /// True if neither the host of `id` nor the end of the lease forbids every request at `now`.
    pub(in crate::shard::gate) fn may_resume(&self, id: u64, now: Nanos) -> bool {
        now < self.lease && self.resume(id) <= now
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
        host.let_go();
        host.brake().sent(now);
        self.limiters(id)
            .into_iter()
            .for_each(|limiter| limiter.sent(now));
    }
}
