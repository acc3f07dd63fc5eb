//! Engines that are stopped: the grace is for sent requests only, and no item ends in a state that
//! it did not reach.

use super::open_loop::timed;
use super::*;

/// A target that throttles the first item for an hour, while the requests for the others wait for
/// their connections.
struct Throttling {
    clock: Clock,
}

impl Workload for Throttling {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        if id > 0 {
            tokio::time::sleep(10 * MS).await;
        }
        flight.opened(OPENED_NS);
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, SENT, RECEIVED));
        tokio::time::sleep(5 * MS).await;
        let (outcome, advice) = again(Outcome::Throttled, Some(Duration::from_hours(1)));
        let done = self.clock.now();
        *ended = Attempt {
            advice,
            ..attempt_of(sent, done, outcome)
        };
        Some(())
    }
}

#[test]
fn an_item_whose_last_attempt_is_throttled_in_the_grace_stays_unfinished() {
    virtual_time().block_on(async {
        let clock = Clock::start();
        let engine = Engine::new(Throttling { clock }, &shard(1, 1, None), clock, clock.now());
        let mut run = Box::pin(Rc::clone(&engine).run(Alarm::runtime(clock)));
        tokio::select! {
            () = &mut run => unreachable!("nobody closed it"),
            () = tokio::time::sleep(2 * MS) => engine.close(clock.now()),
        }
        run.await;
        engine.totals(|stats, _, _| {
            let Counters {
                items, requests, ..
            } = &stats.counters;
            assert_eq!(
                (
                    requests.attempts,
                    requests.throttled,
                    items.gave_up,
                    items.unfinished
                ),
                (1, 1, 0, 1)
            );
            assert_eq!(stats.timing(Series::Item).unwrap().exact().censored, 1);
        });
    });
}

#[test]
fn requests_that_were_due_while_the_shard_did_not_run_until_its_grace_was_over_are_dropped() {
    let open = timed(4, Duration::from_secs(10));
    virtual_time().block_on(async {
        let clock = Clock::start();
        let target = SimulatedTarget::new(clock, |_, _, _| GOOD);
        let engine = Engine::new(target, &open, clock, clock.now());
        let mut run = Box::pin(Rc::clone(&engine).run(Alarm::runtime(clock)));
        tokio::select! {
            () = &mut run => unreachable!("nobody closed it"),
            () = tokio::time::sleep(100 * MS) => {}
        }
        // As if the process had been stopped: what is due goes when it is closed, and nothing is
        // polled after it.
        tokio::time::advance(1_000 * MS).await;
        engine.close(clock.now());
        drop(run);
        engine.abort_rest();
        let progress = engine.progress();
        let (requests, table) = (
            &progress.counters.requests,
            engine.gate().limits().timetable_use().unwrap(),
        );
        assert!(requests.dropped > 0, "{requests:?}");
        assert_eq!(
            table.scheduled,
            requests.attempts + requests.dropped + table.postponed
        );
        assert_eq!(
            progress.remaining + progress.counters.items.ended(),
            1 << 40
        );
    });
}

#[test]
fn requests_that_a_pause_holds_back_end_at_once_and_items_to_be_tried_again_stay_unfinished() {
    let open = ShardPlan {
        ids: vec![IdRange { start: 0, end: 100 }],
        ..timed(4, Duration::from_secs(10))
    };
    for (plan, grace) in [
        (shard(100, 4, None), true),
        (shard(100, 4, None), false),
        (open.clone(), true),
        (open, false),
    ] {
        virtual_time().block_on(async {
            let clock = Clock::start();
            let engine = Engine::new(Throttling { clock }, &plan, clock, clock.now());
            let mut run = Box::pin(Rc::clone(&engine).run(Alarm::runtime(clock)));
            tokio::select! {
                () = &mut run => unreachable!("nobody closed it"),
                () = tokio::time::sleep(100 * MS) => engine.close(clock.now()),
            }
            if grace {
                run.await;
            } else {
                drop(run);
                engine.abort_rest();
            }
            assert_eq!(
                clock.now(),
                Nanos(100_000_000),
                "nothing is on the wire, so there is nothing to wait for"
            );
            let progress = engine.progress();
            let counters = &progress.counters;
            assert_eq!(
                (
                    counters.requests.attempts,
                    counters.requests.throttled,
                    counters.requests.attempts_sent
                ),
                (1, 1, 1)
            );
            // Of the four lanes, three had opened a connection and sent nothing on it.
            assert_eq!(
                (
                    counters.requests.connections_opened,
                    counters.requests.connections_unused
                ),
                (4, 3)
            );
            assert_eq!(
                (
                    counters.items.ended(),
                    counters.items.unfinished,
                    progress.remaining,
                    progress.in_flight
                ),
                (0, 1, 99, 0)
            );
            if let Some(table) = engine.gate().limits().timetable_use() {
                assert_eq!(
                    table.scheduled,
                    counters.requests.attempts + counters.requests.dropped + table.postponed
                );
                assert!(
                    table.postponed > 3,
                    "those of the lanes, and those that were never let through: {table:?}"
                );
            }
            let rows = engine.intervals(|intervals| intervals.take_all(Meters::default()));
            let scheduled: u64 = rows.iter().map(|row| row.figures.scheduled.requests).sum();
            assert_eq!(
                scheduled,
                counters.requests.attempts + counters.requests.dropped
            );
        });
    }
}
