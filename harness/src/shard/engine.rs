//! The engine of one shard: as many lanes as it has connections, each performing one item after another.
//!
//! Generic over the [`Workload`]; knows the gate and the books, not the pipes. Runs on tokio's clock, so that it runs in
//! virtual time as well.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use tokio::task::JoinSet;

use super::alarm::Alarm;
use super::gate::Gate;
use super::intervals::Intervals;
use crate::clock::{Clock, Nanos};
use crate::pacer::Pacer;
use crate::plan::ShardPlan;
use crate::sample::{Permit, Sample};
use crate::stats::{Bounds, Series, ShardStats};
use crate::wire::{BudgetUse, Progress};
use crate::workload::Workload;

/// One shard's engine.
pub(super) struct Engine<W> {
    workload: W,
    clock: Clock,
    gate: Gate,
    books: RefCell<Books>,
    /// Per lane, the interval in which the attempt under way counts.
    under_way: Vec<Cell<Option<u64>>>,
}

#[derive(Debug)]
struct Books {
    stats: ShardStats,
    intervals: Intervals,
    peak_in_flight: u32,
    last_done: Nanos,
}

impl<W: Workload> Engine<W> {
    /// An engine for `plan` that starts at `start`.
    pub(super) fn new(workload: W, plan: &ShardPlan, clock: Clock, start: Nanos) -> Rc<Self> {
        let bounds = Bounds::for_timeout(plan.timeout);
        let lanes = plan.connections as usize;
        let books = Books {
            stats: ShardStats::with_series(bounds, &Series::ALL),
            intervals: Intervals::new(start, bounds),
            peak_in_flight: 0,
            last_done: start,
        };
        Rc::new(Self {
            workload,
            clock,
            gate: Gate::new(clock, plan.ids, Pacer::new(plan.budget, start), lanes),
            books: RefCell::new(books),
            under_way: (0..lanes).map(|_| Cell::new(None)).collect(),
        })
    }

    /// Paced by `alarm`, performs items until there are no more or the engine is closed, and what was under way has ended. Dropping the
    /// future drops what is under way; [`Engine::abort_rest`] then books it.
    pub(super) async fn run(self: Rc<Self>, mut alarm: Alarm) {
        let mut lanes = JoinSet::new();
        for lane in 0..self.under_way.len() {
            lanes.spawn_local(Rc::clone(&self).lane(lane));
        }
        let keeper = async {
            self.gate.keep(&mut alarm).await;
            std::future::pending::<()>().await;
        };
        let all_done = async {
            while let Some(ended) = lanes.join_next().await {
                // tokio catches a task's panic; where panics unwind, a lane that vanished would look like one that is done.
                if let Err(error) = ended
                    && let Ok(panic) = error.try_into_panic()
                {
                    std::panic::resume_unwind(panic);
                }
            }
        };
        tokio::select! {
            () = all_done => {}
            () = keeper => {}
        }
    }

    async fn lane(self: Rc<Self>, lane: usize) {
        let mut free = self.clock.now();
        while let Some(permit) = self.gate.admit(lane, free).await {
            self.begin(lane, &permit);
            let attempt = self.workload.perform(permit.id).await;
            free = attempt.done;
            self.finish(lane, &Sample { permit, attempt });
        }
    }

    fn begin(&self, lane: usize, permit: &Permit) {
        let mut books = self.books.borrow_mut();
        self.under_way[lane].set(Some(books.intervals.begin(permit.intended)));
        books.peak_in_flight = books.peak_in_flight.max(books.intervals.in_flight());
    }

    fn finish(&self, lane: usize, sample: &Sample) {
        let mut books = self.books.borrow_mut();
        books.stats.record(sample);
        if let Some(interval) = self.under_way[lane].take() {
            books.intervals.finish(interval, sample);
        }
        books.last_done = books.last_done.max(sample.attempt.done);
    }

    /// The clock that it runs on.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Starts no more items.
    pub(super) fn close(&self) {
        self.gate.close();
    }

    /// Books everything still under way as aborted. Call after the future of [`Engine::run`] was dropped.
    pub(super) fn abort_rest(&self) {
        let mut books = self.books.borrow_mut();
        let now = self.clock.now();
        for interval in self.under_way.iter().filter_map(Cell::take) {
            books.stats.abort();
            books.intervals.abort(interval);
            books.last_done = books.last_done.max(now);
        }
    }

    /// How far it is.
    pub(super) fn progress(&self) -> Progress {
        let books = self.books.borrow();
        Progress {
            at: self.clock.now(),
            counters: books.stats.counters.clone(),
            in_flight: books.intervals.in_flight(),
            remaining: self.gate.remaining(),
        }
    }

    /// Looks at or changes the intervals.
    pub(super) fn intervals<T>(&self, look: impl FnOnce(&mut Intervals) -> T) -> T {
        look(&mut self.books.borrow_mut().intervals)
    }

    /// Looks at the totals: the stats, the most requests under way at once, the end of the last attempt.
    pub(super) fn totals<T>(&self, look: impl FnOnce(&ShardStats, u32, Nanos) -> T) -> T {
        let books = self.books.borrow();
        look(&books.stats, books.peak_in_flight, books.last_done)
    }

    /// How the budget was used; none without one.
    pub(super) fn budget_use(&self) -> Option<BudgetUse> {
        self.gate.budget_use()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

    use super::*;
    use crate::plan::{Budget, tests::plan};
    use crate::sample::{Attempt, Outcome};
    use crate::units::{IdRange, Rate};

    /// A target in virtual time: each request takes a millisecond, except in a stall.
    struct Target {
        clock: Clock,
        /// Requests sent in this time end at its end, a millisecond later.
        stall: Option<(Nanos, Nanos)>,
        /// The sum of the IDs performed.
        performed: Rc<Cell<u64>>,
        /// When requests were sent.
        sent: Rc<RefCell<Vec<Nanos>>>,
    }

    const MS: Duration = Duration::from_millis(1);

    impl Workload for Target {
        async fn perform(&self, id: u64) -> Attempt {
            let sent = self.clock.now();
            self.sent.borrow_mut().push(sent);
            let until = self.stall.filter(|(from, to)| (*from..*to).contains(&sent)).map_or(sent, |(_, to)| to);
            tokio::time::sleep_until(self.clock.instant(until.plus(MS))).await;
            self.performed.set(self.performed.get() + id);
            Attempt {
                sent: Some(sent),
                first_byte: None,
                done: self.clock.now(),
                connect_ns: None,
                bytes_sent: 0,
                bytes_received: 0,
                status: Some(200),
                outcome: Outcome::Ok,
            }
        }
    }

    fn virtual_time() -> LocalRuntime {
        let mut builder = Builder::new_current_thread();
        builder.enable_time().start_paused(true).build_local(LocalOptions::default()).unwrap()
    }

    fn shard(ids: u64, connections: u32, budget: Option<Budget>) -> ShardPlan {
        let mut run = plan();
        (run.shards, run.connections, run.ids) = (1, connections, IdRange { start: 0, end: ids });
        let mut shard = run.split(&[]).remove(0);
        shard.budget = budget;
        shard
    }

    /// An engine that has run, for inspection.
    struct Ran {
        engine: Rc<Engine<Target>>,
        sent: Vec<Nanos>,
        ended: Nanos,
    }

    impl std::ops::Deref for Ran {
        type Target = Engine<Target>;

        fn deref(&self) -> &Engine<Target> {
            &self.engine
        }
    }

    impl Ran {
        fn ran_for(&self) -> Duration {
            Duration::from_nanos(self.ended.0)
        }
    }

    /// Runs a shard until `ends`, in virtual time. Returns it and the sum of the IDs it performed.
    fn run(plan: &ShardPlan, stall: Option<(Nanos, Nanos)>, ends: Duration) -> (Ran, u64) {
        virtual_time().block_on(async {
            let clock = Clock::start();
            let performed = Rc::new(Cell::new(0));
            let sent = Rc::default();
            let target = Target { clock, stall, performed: Rc::clone(&performed), sent: Rc::clone(&sent) };
            let engine = Engine::new(target, plan, clock, clock.now());
            let mut run = std::pin::pin!(Rc::clone(&engine).run(Alarm::runtime(clock)));
            tokio::select! {
                () = &mut run => {}
                () = tokio::time::sleep(ends) => {
                    engine.close();
                    run.await;
                }
            }
            (Ran { engine, sent: sent.take(), ended: clock.now() }, performed.get())
        })
    }

    #[test]
    fn v7_a_budget_is_used_whole_and_never_exceeded() {
        // 100/s, burst 10, 10 s, greedy: 10 + 1,000, and the first cell beyond the end must not go.
        let budget = Budget { interval_ns: 10_000_000, burst: 10, phase_ns: 0 };
        let (engine, _) = run(&shard(1 << 40, 64, Some(budget)), None, Duration::from_secs(10));
        let attempts = engine.totals(|stats, _, _| stats.counters.attempts);
        assert!((1_009..=1_010).contains(&attempts), "{attempts}");
        let used = engine.budget_use().unwrap();
        assert!(used.kept && used.worst.admitted <= used.worst.allowed);
    }

    #[test]
    fn v8_shards_share_a_budget_as_one_limiter_would() {
        for shards in [1, 2, 3, 7] {
            let mut whole = plan();
            (whole.shards, whole.connections, whole.ids.end) = (shards, 64, 1 << 40);
            (whole.rate, whole.burst) = (Some(Rate { permits: 100, period_ns: 1_000_000_000 }), 10);
            let attempts = |plan: &ShardPlan| {
                run(plan, None, Duration::from_secs(10)).0.totals(|stats, _, _| stats.counters.attempts)
            };
            let all: u64 = whole.split(&[]).iter().map(attempts).sum();
            assert!(all.abs_diff(1_010) <= u64::from(shards), "{shards} shards: {all}");
        }
    }

    #[test]
    fn v2_a_closed_loop_hides_a_stall_from_all_but_its_lanes() {
        let at = |ms: u64| Nanos(ms * 1_000_000);
        let (engine, _) = run(&shard(1 << 40, 10, None), Some((at(10_000), at(11_000))), Duration::from_secs(30));
        engine.totals(|stats, peak, _| {
            let service = stats.timing(Series::ServiceOk).unwrap();
            let slow = service.histogram().iter_recorded().filter(|step| step.value_iterated_to() > 100_000_000);
            assert_eq!(slow.map(|step| step.count_at_value()).sum::<u64>(), 10);
            assert_eq!(service.percentile(0.999), crate::stats::Percentile::Exact(1_000_447));
            assert_eq!(peak, 10);
        });
    }

    #[test]
    fn every_id_is_performed_once_and_the_rest_of_the_lanes_end() {
        for (ids, lanes) in [(0, 3), (1, 3), (1_000, 3), (1_000, 64)] {
            for budget in [None, Some(Budget { interval_ns: 500_000, burst: 1, phase_ns: 7 })] {
                let (engine, sum) = run(&shard(ids, lanes, budget), None, Duration::from_secs(100));
                assert_eq!(sum, (0..ids).sum::<u64>(), "{ids} IDs, {lanes} lanes");
                assert_eq!(engine.totals(|stats, _, _| stats.counters.ok), ids);
                assert_eq!(engine.progress().remaining, 0);
                if budget.is_none() {
                    let rounds = ids.div_ceil(u64::from(lanes));
                    let last_done = engine.totals(|_, _, last_done| last_done);
                    assert_eq!(last_done.0, rounds * 1_000_000, "{ids} IDs, {lanes} lanes");
                }
            }
        }
    }

    #[test]
    fn closing_wakes_lanes_that_wait_for_a_far_away_budget() {
        let budget = Budget { interval_ns: 3_600_000_000_000, burst: 1, phase_ns: 0 };
        let (engine, _) = run(&shard(100, 4, Some(budget)), None, Duration::from_secs(1));
        let progress = engine.progress();
        assert_eq!((progress.counters.ok, progress.remaining, progress.in_flight), (1, 99, 0));
        // Virtual time would have jumped to the far-away moment if anybody had waited for it.
        assert!(engine.ran_for() < Duration::from_secs(2), "{:?}", engine.ran_for());
    }

    #[test]
    fn closing_wakes_whoever_waits_for_the_kernel() {
        let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default()).unwrap();
        runtime.block_on(async {
            let clock = Clock::start();
            let target = Target { clock, stall: None, performed: Rc::default(), sent: Rc::default() };
            let budget = Budget { interval_ns: 3_600_000_000_000, burst: 1, phase_ns: 0 };
            let engine = Engine::new(target, &shard(100, 4, Some(budget)), clock, clock.now());
            let mut run = std::pin::pin!(Rc::clone(&engine).run(Alarm::kernel(clock).unwrap()));
            tokio::select! {
                () = &mut run => panic!("the budget is an hour away"),
                () = tokio::time::sleep(20 * MS) => engine.close(),
            }
            tokio::time::timeout(Duration::from_secs(30), run).await.expect("nobody was told");
            let progress = engine.progress();
            assert_eq!((progress.counters.ok, progress.remaining, progress.in_flight), (1, 99, 0));
        });
    }

    #[test]
    fn shards_of_a_low_rate_take_turns() {
        for (permits, per_s) in [(3, 1), (500, 60), (10, 3_600)] {
            let period_ns = per_s * 1_000_000_000;
            let mut whole = plan();
            (whole.shards, whole.connections, whole.ids.end) = (8, 8, 1 << 40);
            (whole.rate, whole.burst) = (Some(Rate { permits, period_ns }), 8);
            let rounds = Duration::from_nanos(period_ns / permits * 40);
            let mut sent: Vec<Nanos> =
                whole.split(&[]).iter().flat_map(|shard| run(shard, None, rounds).0.sent).collect();
            sent.sort_unstable();
            assert!((40..=41).contains(&sent.len()), "{permits} in {per_s} s: {}", sent.len());
            for pair in sent.windows(2) {
                // The timer of virtual time has whole milliseconds, and a shard that has one burst forgets that it was late.
                let off = pair[1].since(pair[0]).abs_diff(period_ns / permits);
                assert!(off <= 6_000_000, "{permits} in {per_s} s: {off} ns off");
            }
        }
    }

    #[test]
    fn lateness_is_booked_against_the_moment_the_budget_allowed() {
        // The timer has whole milliseconds, the budget half ones: every other request is half a millisecond late.
        let budget = Budget { interval_ns: 2_500_000, burst: 2, phase_ns: 0 };
        let (engine, _) = run(&shard(100, 4, Some(budget)), None, Duration::from_secs(1));
        engine.totals(|stats, _, _| {
            let lag = stats.timing(Series::SchedLag).unwrap().exact();
            assert_eq!((lag.min_ns, lag.max_ns), (0, 500_000));
            assert_eq!(stats.timing(Series::BudgetWait).unwrap().exact().max_ns, 0);
        });
    }
}
