//! Permission to write a request that has its connection: the limits, and the turns of the shards.
//!
//! Called by the gate. It must not read a clock.

use super::Limits;
use crate::clock::Nanos;
use crate::pacer::Pace;
use crate::sample::Permit;
use crate::wire::{Binding, Scope};

/// Answer to a request that has its connection and wants to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::shard::gate) enum Clearance {
    /// The request may be written now.
    Go,
    /// Not before this moment.
    At(Nanos),
    /// Not before it is this shard's turn.
    NeedsTurn(Scope),
}

/// A turn to send under a limit that keeps any two requests apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Turn {
    scope: Scope,
    /// True once it is the shard's.
    is_held: bool,
}

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

    /// Ask if a request for `id` that has its connection may be written at `now`. The turn is the
    /// last thing to ask for: who has it keeps the other shards waiting.
    pub(in crate::shard::gate) fn clearance(&self, id: u64, now: Nanos) -> Clearance {
        if !self.may_resume(id, now) {
            return Clearance::At(if now < self.lease {
                self.resume(id)
            } else {
                Nanos(u64::MAX)
            });
        }
        match (self.peek_send(id, now), self.turn_of(id)) {
            (Pace::Wait(due), _) => Clearance::At(due),
            (Pace::Go(_), Some(scope))
                if !self.turns.contains(&Turn {
                    scope,
                    is_held: true,
                }) =>
            {
                Clearance::NeedsTurn(scope)
            }
            (Pace::Go(_), _) => Clearance::Go,
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

    /// The limit whose turn a request for `id` takes; none where requests are not kept apart. Under
    /// that of the run, no other shard sends to any host.
    fn turn_of(&self, id: u64) -> Option<Scope> {
        if self.limiter.has_turns() {
            return Some(Scope::Run);
        }
        let host = self.host_of(id);
        self.hosts[host]
            .limiter
            .has_turns()
            .then(|| Scope::Host(u32::try_from(host).unwrap_or(u32::MAX)))
    }

    /// Notes that the turn is needed. True if it has to be asked for.
    pub(in crate::shard::gate) fn needs_turn(&mut self, scope: Scope) -> bool {
        let is_new = self.turns.iter().all(|turn| turn.scope != scope);
        if is_new {
            self.turns.push(Turn {
                scope,
                is_held: false,
            });
        }
        is_new
    }

    /// Takes note that it is this shard's turn.
    pub(in crate::shard::gate) fn got_turn(&mut self, scope: Scope) {
        self.turns.retain(|turn| turn.scope != scope);
        self.turns.push(Turn {
            scope,
            is_held: true,
        });
    }

    /// Ends the turn that a request for `id` was sent in, and says which.
    pub(in crate::shard::gate) fn end_turn(&mut self, id: u64) -> Option<Scope> {
        let scope = self.turn_of(id)?;
        self.turns.retain(|turn| turn.scope != scope);
        Some(scope)
    }

    /// Ends a turn that no waiting request needs any more, and says which.
    pub(in crate::shard::gate) fn end_unused_turn(&mut self) -> Option<Scope> {
        let is_unused = |turn: &Turn| {
            turn.is_held
                && self
                    .sending
                    .iter()
                    .all(|(_, id)| self.turn_of(*id) != Some(turn.scope))
        };
        let unused = self.turns.iter().position(is_unused)?;
        Some(self.turns.remove(unused).scope)
    }

    /// Ask if the limits allow a request for `id` that has its connection to be written at `now`,
    /// or when.
    fn peek_send(&self, id: u64, now: Nanos) -> Pace {
        let host = &self.hosts[self.host_of(id)].limiter;
        match (self.limiter.peek_send(now), host.peek_send(now)) {
            (Pace::Wait(one), Pace::Wait(other)) => Pace::Wait(one.max(other)),
            (wait @ Pace::Wait(_), _) | (_, wait) => wait,
        }
    }

    /// A request for `id` that was let through has its connection.
    pub(in crate::shard::gate) fn connected(&mut self, id: u64) {
        self.limiters(id)
            .into_iter()
            .for_each(|(_, limiter)| limiter.connected());
    }

    /// A request for `id` that has its connection will never be written.
    pub(in crate::shard::gate) fn never_written(&mut self, id: u64) {
        self.limiters(id)
            .into_iter()
            .for_each(|(_, limiter)| limiter.withdrawn());
    }

    /// A request for `id` that was let through will have no connection.
    pub(in crate::shard::gate) fn never_connected(&mut self, id: u64) {
        self.limiters(id)
            .into_iter()
            .for_each(|(_, limiter)| limiter.never_connected());
    }

    /// Counts a request for `id` that is written at `now`. Returns from what limits the other
    /// shards have to be told of it.
    pub(in crate::shard::gate) fn sent(
        &mut self,
        id: u64,
        now: Nanos,
    ) -> impl Iterator<Item = (Scope, Nanos)> {
        self.host(id).brake().sent(now);
        let told = self
            .limiters(id)
            .map(|(scope, limiter)| Some((scope, limiter.sent(now)?)));
        told.into_iter().flatten()
    }
}
