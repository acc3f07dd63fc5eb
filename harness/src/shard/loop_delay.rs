//! Event-loop delay of a shard: a timer fires every 10 ms, and [`Engine::beat`] records its
//! lateness.
//!
//! A late loop was not run by the kernel, or was held up by code that does not yield; requests in
//! flight then look slower than the target was. The runtime's timer rounds up to whole
//! milliseconds, so up to 1 ms of the delay is its own. It must not do anything else.

use std::rc::Rc;

use tokio::task::{JoinHandle, spawn_local};

use super::engine::Engine;
use crate::workload::Workload;

/// A pulse. Dropped, it ends.
#[derive(Debug)]
pub(super) struct LoopDelayProbe(JoinHandle<()>);

impl LoopDelayProbe {
    /// The pulse of `engine`, a task of its own in the current runtime.
    pub(super) fn start<W: Workload>(engine: &Rc<Engine<W>>) -> Self {
        engine.begin_beats();
        let engine = Rc::clone(engine);
        Self(spawn_local(async move {
            let clock = engine.clock();
            loop {
                let next = engine.beat(clock.now());
                tokio::time::sleep_until(clock.instant(next)).await;
            }
        }))
    }
}

impl Drop for LoopDelayProbe {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Clock;
    use crate::fixtures::{plan, virtual_time};
    use crate::sample::Attempt;
    use crate::shard::intervals::Meters;
    use crate::stats::{Exact, Series};
    use crate::workload::{Clearance, Flight};

    struct Nothing;

    impl Workload for Nothing {
        async fn perform(
            &self,
            _: u64,
            _: &Flight,
            _: &impl Clearance,
            _: &mut Attempt,
        ) -> Option<()> {
            std::future::pending().await
        }
    }

    /// Return the event-loop delay of an engine over a second of virtual time in which the process
    /// did not run for `stopped`, and the number of delays of 100 ms to 1 s.
    fn lag(stopped: Duration) -> (Exact, u64) {
        virtual_time().block_on(async {
            let clock = Clock::start();
            let engine = Engine::new(Nothing, &plan().split(&[]).remove(0), clock, clock.now());
            let pulse = LoopDelayProbe::start(&engine);
            tokio::time::sleep_until(clock.instant(clock.now().plus(Duration::from_millis(405))))
                .await;
            // Nothing runs while time goes on.
            tokio::time::advance(stopped).await;
            tokio::time::sleep(Duration::from_millis(595).saturating_sub(stopped)).await;
            drop(pulse);
            tokio::time::sleep(Duration::from_secs(1)).await;
            let seconds = engine.intervals(|intervals| {
                intervals.cut(clock.now(), Meters::default());
                intervals.take_all(Meters::default())
            });
            let longest_ns = seconds.iter().map(|second| second.figures.max_loop_lag_ns);
            let longest_ns = longest_ns.max().unwrap();
            engine.totals(|stats, _, _| {
                let lag = stats.timing(Series::LoopLag).unwrap();
                assert_eq!(longest_ns, lag.exact().max_ns, "of the seconds");
                (
                    *lag.exact(),
                    lag.histogram().count_between(100_000_000, 1_000_000_000),
                )
            })
        })
    }

    #[test]
    fn a_shard_that_runs_is_never_late() {
        let (lag, late) = lag(Duration::ZERO);
        assert_eq!((lag.max_ns, late), (0, 0));
        assert!(
            (99..=100).contains(&lag.count),
            "{}: it ended with the pulse",
            lag.count
        );
    }

    #[test]
    fn every_look_that_a_stop_made_late_counts_as_late_as_it_was() {
        let (lag, late) = lag(Duration::from_millis(500));
        // Due at 410, 420 ... 900 ms, and looked up at 905.
        assert_eq!((lag.max_ns, late), (495_000_000, 40));
        assert!((99..=100).contains(&lag.count), "{}", lag.count);
    }
}
