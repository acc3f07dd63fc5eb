//! The gate in virtual time.

use std::pin::Pin;
use std::task::Context;
use std::time::Duration;

use super::*;
use crate::fixtures::{plan, virtual_time};
use crate::plan::Budget;
use crate::wire::PauseCause;

const MS: Duration = Duration::from_millis(1);

fn poll_once<T>(future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    future.poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn what_was_admitted_before_a_pause_is_not_sent_before_its_end() {
    virtual_time().block_on(async {
        let clock = Clock::start();
        let mut run = plan();
        (run.shards, run.connections) = (1, 3);
        let gate = Gate::new(clock, &run.split(&[])[0], clock.now(), Box::new(|_| 0));
        let permit = gate.admit(0, clock.now()).await.unwrap();
        let at = clock.now();
        gate.pause(PauseOrder {
            host: 0,
            cause: PauseCause::Refused,
            at,
            until: at.plus(100 * MS),
            spread_ns: 0,
            promised: at.plus(100 * MS),
        });
        let mut sent = pin!(gate.clear_to_send(0, permit.host));
        for _ in 0..10 {
            assert!(poll_once(sent.as_mut()).is_pending());
            gate.call_sender();
            tokio::time::advance(10 * MS).await;
        }
        gate.call_sender();
        assert!(poll_once(sent.as_mut()).is_ready());
        assert_eq!(gate.limits().throttling(clock.now()).early_attempts, 0);
    });
}

#[test]
fn a_request_that_has_its_connection_and_waits_for_the_budget_is_held_back_by_the_rate() {
    // With a lane that waits for an item that there is not, and without one.
    for is_asked in [true, false] {
        virtual_time().block_on(async {
            let clock = Clock::start();
            let mut run = plan();
            (run.shards, run.connections, run.ids) =
                (1, 2, crate::units::IdRange { start: 0, end: 2 });
            let mut shard = run.split(&[]).remove(0);
            shard.budget = Some(Budget {
                interval_ns: 10_000_000,
                burst: 1,
                at_start: 1,
                phase_ns: 0,
                apart_ns: 0,
            });
            let gate = Gate::new(clock, &shard, clock.now(), Box::new(|_| 0));
            let first = gate.admit(0, clock.now()).await.unwrap();
            tokio::time::advance(10 * MS).await;
            let second = gate.admit(1, clock.now()).await.unwrap();
            // The connections take 25 ms and 16 ms to open: the second request may be written 10 ms
            // after the first.
            tokio::time::advance(15 * MS).await;
            gate.clear_to_send(0, first.host).await;
            tokio::time::advance(MS).await;
            let mut next = pin!(gate.admit(0, clock.now()));
            assert!(!is_asked || poll_once(next.as_mut()).is_pending());
            gate.grant_due();
            let before = gate.limits().timeline.times(clock.now());
            let mut held = pin!(gate.clear_to_send(1, second.host));
            assert!(poll_once(held.as_mut()).is_pending());
            gate.grant_due();
            tokio::time::advance(9 * MS).await;
            gate.call_sender();
            gate.grant_due();
            assert!(poll_once(held.as_mut()).is_ready());
            tokio::time::advance(5 * MS).await;
            let times = gate.limits().timeline.times(clock.now()).without(&before);
            assert_eq!(
                (times.rate_ns, times.sum_ns()),
                (9_000_000, 14_000_000),
                "{is_asked}: {times:?}"
            );
        });
    }
}
