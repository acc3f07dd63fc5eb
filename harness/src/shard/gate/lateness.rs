//! Cause of the lateness of a request of an open loop: the connections, a limit, or the client.
//!
//! Called by the gate's limits when a request goes. It must not read a clock.

use std::collections::VecDeque;

use crate::clock::Nanos;

/// Stalls that are remembered at once: of more, the oldest are taken for waits for a connection.
const MOST: usize = 1024;

/// When the client did not run at all: stopped, without a CPU, or in code that did not give way.
///
/// A request that had a connection waiting for it shows that by itself. One that found all
/// connections in use does not: they might have been free in time, had the client run.
#[derive(Debug, Default)]
pub(super) struct Stalls(VecDeque<(Nanos, Nanos)>);

impl Stalls {
    /// Notes that the client did not run from `from` to `to`. Stalls come in the order of time.
    pub(super) fn note(&mut self, from: Nanos, to: Nanos) {
        if self.0.len() == MOST {
            self.0.pop_front();
        }
        self.0.push_back((from, to));
    }

    /// For how long it did not run between two moments, ns.
    fn within(&self, from: Nanos, to: Nanos) -> u64 {
        self.0
            .iter()
            .map(|(began, ended)| to.min(*ended).since(from.max(*began)))
            .sum()
    }

    /// Forgets what was over before `at`.
    fn forget_before(&mut self, at: Nanos) {
        while self.0.front().is_some_and(|(_, ended)| *ended <= at) {
            self.0.pop_front();
        }
    }
}

/// A request of an open loop that goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Going {
    /// When it was scheduled.
    pub(super) intended: Nanos,
    /// Since when there has been a connection for it.
    pub(super) free: Nanos,
    /// Since when every other limit has allowed it.
    pub(super) allowed: Nanos,
    /// When it goes.
    pub(super) now: Nanos,
}

/// When the pacer let it go, and when the limits did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamps {
    pub(super) ready: Nanos,
    pub(super) admitted: Nanos,
}

impl Going {
    /// Its stamps, which say how long it waited for whom: `ready - intended` for the client,
    /// `admitted - ready` for a limit, and from `admitted` on for a connection. The waits may have
    /// come in another order; their sum is the time that passed.
    pub(super) fn stamps(&self, stalls: &mut Stalls) -> Stamps {
        let Self {
            intended,
            free,
            allowed,
            now,
        } = *self;
        let connected = free.max(intended).min(now);
        let able = connected.max(allowed).min(now);
        stalls.forget_before(intended);
        let lag = now.since(able) + stalls.within(intended, connected);
        let ready = Nanos(intended.0 + lag);
        Stamps {
            ready,
            admitted: Nanos(ready.0 + able.since(connected)),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn waits(stalls: &[(u64, u64)], intended: u64, [free, allowed, now]: [u64; 3]) -> [u64; 3] {
        let mut noted = Stalls::default();
        for (from, to) in stalls {
            noted.note(Nanos(*from), Nanos(*to));
        }
        let going = Going {
            intended: Nanos(intended),
            free: Nanos(free),
            allowed: Nanos(allowed),
            now: Nanos(now),
        };
        let Stamps { ready, admitted } = going.stamps(&mut noted);
        [
            ready.since(going.intended),
            admitted.since(ready),
            going.now.since(admitted),
        ]
    }

    #[test]
    fn each_wait_is_booked_to_whom_it_was_for() {
        for (stalls, [free, allowed, now], [client, limit, connection]) in [
            // It had all it needed at 100 and went at 107.
            (vec![], [50, 0, 107], [7, 0, 0]),
            // A connection was free at 130.
            (vec![], [130, 0, 131], [1, 0, 30]),
            // A limit allowed it at 140, ten after it had its connection.
            (vec![], [130, 140, 142], [2, 10, 30]),
            // The client did not run from 90 to 120, or it is not known when the connection would
            // have been free.
            (vec![(90, 120)], [130, 0, 130], [20, 0, 10]),
            (
                vec![(10, 20), (90, 120), (125, 128)],
                [130, 0, 130],
                [23, 0, 7],
            ),
            // It had its connection all the time: the stall is seen once.
            (vec![(100, 130)], [50, 0, 130], [30, 0, 0]),
        ] {
            assert_eq!(
                waits(&stalls, 100, [free, allowed, now]),
                [client, limit, connection],
                "{stalls:?} {free}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_waits_add_up_to_the_time_that_passed(
            gaps in prop::collection::vec((0..50_u64, 0..50_u64), 0..6), intended in 0..300_u64, free in 0..400_u64,
            allowed in 0..400_u64, later in 0..200_u64,
        ) {
            let (mut at, mut stalls) = (0, Vec::new());
            for (gap, length) in gaps {
                stalls.push((at + gap, at + gap + length));
                at += gap + length;
            }
            let now = intended.max(free).max(allowed) + later;
            prop_assert_eq!(waits(&stalls, intended, [free, allowed, now]).iter().sum::<u64>(), now - intended);
        }
    }
}
