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

    /// Ask if a request to a host that has its connection may be written at `now`; none if it may
    /// not and the gate is closed: only what is on the wire has a grace. The budgets are not asked
    /// about one that was counted.
    pub(in crate::shard::gate) fn clearance(
        &self,
        host: u32,
        now: Nanos,
        is_counted: bool,
    ) -> Option<Pace> {
        let host = &self.hosts[host as usize % self.hosts.len()];
        let pace = if now >= self.lease {
            Pace::Wait(Nanos(u64::MAX))
        } else if host.pauses.resume() > now {
            Pace::Wait(host.pauses.resume())
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
            Some((_, host))
                if self.hosts[*host as usize % self.hosts.len()]
                    .pauses
                    .resume()
                    > now =>
            {
                Binding::Pause
            }
            Some(_) => Binding::Rate,
        }
    }

    /// Has a lane wait to be called, as the first if it `has_waited` already.
    pub(in crate::shard::gate) fn hold(&mut self, lane: usize, host: u32, has_waited: bool) {
        self.host(host).held += 1;
        if has_waited {
            self.sending.push_front((lane, host));
        } else {
            self.sending.push_back((lane, host));
        }
    }

    /// Has a lane wait to be called no more.
    pub(in crate::shard::gate) fn release(&mut self, at: usize) {
        if let Some((_, host)) = self.sending.remove(at) {
            self.host(host).held -= 1;
        }
    }

    /// Forget the request of a lane to a host, which will not be written.
    pub(in crate::shard::gate) fn unsent(&mut self, lane: usize, host: u32) {
        self.host(host).started();
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

    /// Counts a request to a host that is written at `now`, after its clearance; false if another
    /// shard sent one instead.
    pub(in crate::shard::gate) fn sent(&mut self, host: u32, now: Nanos) -> bool {
        let mut limiters = self.limiters(host);
        if !limiters.iter_mut().all(|limiter| limiter.claim(now)) {
            return false;
        }
        for limiter in limiters {
            limiter.sent(now);
        }
        let limits = self.host(host);
        limits.started();
        limits.pauses.sent(now);
        true
    }
}
