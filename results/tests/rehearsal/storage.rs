//! Runs whose workload stores its results, in virtual time: slowly, long after the last request, or
//! not at all.

use std::cell::Cell;

use crawlmark_harness::supervisor::{ShardFault, Stopped};
use crawlmark_results::run::report::Verdict;

use super::*;

/// Results that may wait to be stored.
const MOST: u64 = 10;

/// A target that answers after a millisecond, and a store that takes its time for each result, one
/// after another.
#[derive(Clone)]
struct Storing {
    clock: Clock,
    takes: Duration,
    /// When all results are stored that there are.
    stored: Rc<Cell<Nanos>>,
    /// The most results that waited.
    most: Rc<Cell<u64>>,
    /// When no more results can be stored; never if none.
    fails: Option<Nanos>,
    /// Time to finish once all are stored, and what it comes to.
    finish: (Duration, Result<(), String>),
    finished: Rc<Cell<u32>>,
}

impl Storing {
    fn new(clock: Clock, takes: Duration) -> Self {
        let (stored, most, finished) = Default::default();
        Self {
            clock,
            takes,
            stored,
            most,
            fails: None,
            finish: (Duration::ZERO, Ok(())),
            finished,
        }
    }

    fn waiting(&self) -> u64 {
        let ns = self.stored.get().since(self.clock.now());
        ns.div_ceil(u64::try_from(self.takes.as_nanos()).unwrap().max(1))
    }

    async fn until(&self, at: Nanos) {
        tokio::time::sleep_until(self.clock.instant(at)).await;
    }
}

impl Workload for Storing {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let target = Target {
            clock: self.clock,
            shard: 0,
            takes: |_, _| MS,
            answer: |_, _| GOOD,
        };
        target.perform(id, flight, clearance, ended).await
    }

    fn booked(&self, _: &Sample) {
        assert_eq!(self.finished.get(), 0, "a result after the end");
        self.stored
            .set(self.stored.get().max(self.clock.now()).plus(self.takes));
        self.most.set(self.most.get().max(self.waiting()));
    }

    fn has_room(&self) -> bool {
        self.waiting() < MOST
    }

    async fn room(&self) {
        while !self.has_room() {
            tokio::time::sleep(MS).await;
        }
    }

    async fn finish(&self) -> Result<(), String> {
        self.until(self.stored.get().plus(self.finish.0)).await;
        self.finished.set(self.finished.get() + 1);
        self.finish.1.clone()
    }

    async fn failed(&self) -> String {
        match self.fails {
            Some(at) => self.until(at).await,
            None => std::future::pending().await,
        }
        "write DIR/0001-s01.jsonl.zst: no space left. Free some, then add --resume DIR".to_owned()
    }
}

/// Runs `plan` with a store for each shard, which `change` makes special.
fn store(
    plan: &RunPlan,
    incidents: &[Incident],
    takes: Duration,
    change: impl Fn(u32, &mut Storing),
) -> (Rehearsal, Vec<Storing>) {
    let stores = RefCell::new(Vec::new());
    let rehearsal = rehearse(plan, incidents, |shard: &ShardPlan, clock| {
        let mut store = Storing::new(clock, takes);
        change(shard.shard, &mut store);
        stores.borrow_mut().push(store.clone());
        store
    });
    (rehearsal.unwrap(), stores.into_inner())
}

#[test]
fn a_run_whose_results_are_stored_slowly_goes_at_that_pace_and_says_so() {
    // Two lanes of a millisecond would do 2,000/s, and a store 500/s.
    for rate in [None, Some(per_s(3_000))] {
        let mut plan = RunPlan {
            duration: Some(10 * S),
            ..run_of(2, 4, 1 << 40)
        };
        (plan.rate, plan.burst, plan.at_start) =
            (rate, rate.map_or(0, |_| 20), rate.map_or(0, |_| 2));
        let (rehearsal, stores) = store(&plan, &[], 2 * MS, |_, _| {});
        let ok = ok(&rehearsal);
        assert!((9_900..=10_030).contains(&ok), "{ok}");
        // What was under way when there was no more room is the most beyond it.
        assert!(
            stores
                .iter()
                .all(|store| store.most.get() <= MOST + 1 && store.finished.get() == 1)
        );
        let report = rehearsal.report(&plan);
        assert!(report.binding.storage > 0.5, "{:?}", report.binding);
        assert!(
            report.intervals[1..9]
                .iter()
                .all(|row| row.binding.storage > 0.5)
        );
        assert_eq!(report.validity.verdict, Verdict::ClientLimited);
        assert_eq!(report.validity.verdicts, [Verdict::ClientLimited]);
        assert!(kinds(&report).contains(&FindingKind::StorageSlow));
        assert_eq!(limited_by(&report), Some(Limit::Storage));
    }
}

#[test]
fn results_that_cannot_be_stored_stop_the_run_and_the_report_says_why() {
    let plan = run_of(2, 4, 1 << 40);
    let fails = Nanos::default().plus(3 * S);
    let (rehearsal, stores) = store(&plan, &[], MS / 10, |shard, store| {
        store.fails = Some(fails).filter(|_| shard == 1);
    });
    let failure = rehearsal.record.failure.clone().unwrap();
    assert_eq!(
        (rehearsal.record.stopped, failure.shard),
        (Stopped::ByWorkload, 1)
    );
    for (shard, store) in rehearsal.record.shards.iter().zip(&stores) {
        assert_eq!(
            (&shard.fault, shard.exit, store.finished.get()),
            (&None, ShardExit::Clean, 1)
        );
        assert!(
            shard.last_done < fails.plus(10 * MS),
            "{:?}",
            shard.last_done
        );
    }
    let report = rehearsal.report(&plan);
    assert_eq!(
        (report.interrupted, report.validity.verdict),
        (true, Verdict::Incomplete)
    );
    let why = format!("shard 1 could not store its results: {}", failure.why);
    assert_eq!(report.storage_failure.as_ref(), Some(&why));
    assert_eq!(kinds(&report)[0], FindingKind::StorageFailed);
}

#[test]
fn a_shard_that_takes_long_to_finish_its_results_is_waited_for() {
    let mut plan = run_of(2, 4, 10_000);
    plan.shard_deadline = S;
    let signal = |ms: u32| Incident::Signal {
        at: ms * MS,
        number: 2,
    };
    let finish = |_, store: &mut Storing| store.finish.0 = 30 * S;
    for incidents in [&[][..], &[signal(1_000)], &[signal(1_000), signal(1_500)]] {
        let (rehearsal, stores) = store(&plan, incidents, MS / 10, finish);
        for (shard, store) in rehearsal.record.shards.iter().zip(&stores) {
            assert_eq!(
                (&shard.fault, shard.exit, store.finished.get()),
                (&None, ShardExit::Clean, 1),
                "{incidents:?}"
            );
            assert!(
                shard.last_done <= Nanos::default().plus(2_500 * MS),
                "the time to finish is no part of the run"
            );
        }
        let report = rehearsal.report(&plan);
        assert_eq!(
            report.validity.verdict,
            Verdict::Valid,
            "{:?}",
            report.findings
        );
        assert!(
            report.totals.duration_s < 2.6,
            "{}",
            report.totals.duration_s
        );
    }
    // A third Ctrl-C waits for nothing.
    let (rehearsal, _) = store(
        &plan,
        &[signal(1_000), signal(1_500), signal(2_000)],
        MS / 10,
        finish,
    );
    assert!(
        rehearsal
            .record
            .shards
            .iter()
            .all(|shard| shard.fault == Some(ShardFault::Overdue))
    );
}
