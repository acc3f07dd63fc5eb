use std::collections::BTreeMap;
use std::future::poll_fn;

use super::*;
use crate::plan::tests::plan;
use crate::process::ShardExit;
use crate::sample::{Advice, Outcome, Repeat};
use crate::units::{IdRange, Rate};
use crate::workload::InFlight;

const MS: Duration = Duration::from_millis(1);
const S: Duration = Duration::from_secs(1);

/// A target in memory: how long each item of each shard takes, and what it comes to.
struct Target {
    clock: Clock,
    shard: u32,
    takes: fn(u32, Nanos) -> Duration,
    answer: fn(u32, Nanos) -> (Outcome, Advice),
}

impl Workload for Target {
    async fn perform(&self, _: u64, flight: &Flight) -> Attempt {
        let sent = self.clock.now();
        flight.note(InFlight { sent, bytes_sent: 0, bytes_received: 0 });
        tokio::time::sleep((self.takes)(self.shard, sent)).await;
        let (outcome, advice) = (self.answer)(self.shard, sent);
        Attempt {
            sent: Some(sent),
            first_byte: None,
            done: self.clock.now(),
            connect_ns: None,
            bytes_sent: 0,
            bytes_received: 0,
            status: None,
            outcome,
            advice,
        }
    }
}

const GOOD: (Outcome, Advice) = (Outcome::Ok, Advice { repeat: Repeat::Never, wait: None, quota: None, held_ns: None });

fn run(plan: &RunPlan, incidents: &[Incident], takes: fn(u32, Nanos) -> Duration) -> Rehearsal {
    run_against(plan, incidents, takes, |_, _| GOOD)
}

fn run_against(
    plan: &RunPlan,
    incidents: &[Incident],
    takes: fn(u32, Nanos) -> Duration,
    answer: fn(u32, Nanos) -> (Outcome, Advice),
) -> Rehearsal {
    let target = |shard: &ShardPlan, clock| Target { clock, shard: shard.shard, takes, answer };
    rehearse(plan, incidents, target).unwrap()
}

fn run_of(shards: u32, connections: u32, ids: u64) -> RunPlan {
    RunPlan { shards, connections, ids: IdRange { start: 0, end: ids }, ..plan() }
}

fn ok(rehearsal: &Rehearsal) -> u64 {
    rehearsal.record.shards.iter().map(|shard| shard.stats.counters.ok).sum()
}

#[test]
fn every_item_is_done_once_and_the_seconds_add_up_to_the_whole() {
    // Two lanes of a millisecond each for two shards: 4,000 items a second.
    let plan = run_of(2, 4, 10_000);
    let rehearsal = run(&plan, &[], |_, _| MS);
    let mut ids: Vec<u64> = rehearsal.samples.iter().map(|sample| sample.permit.id).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..10_000).collect::<Vec<_>>());
    let report = rehearsal.report(&plan);
    assert_eq!((report.totals.attempts, report.ledger.ok, report.intervals.len()), (10_000, 10_000, 3));
    assert_eq!(rehearsal.intervals.iter().map(|row| row.ok).collect::<Vec<_>>(), [4_000, 4_000, 2_000]);
    assert!(rehearsal.record.shards.iter().all(|shard| shard.last_done == Nanos::default().plus(2_500 * MS)));
    assert_eq!(report.latency["service"].max_us, Some(1_000.0));
    for shard in &rehearsal.record.shards {
        assert_eq!((shard.exit, &shard.fault, shard.remaining), (ShardExit::Clean, &None, 0));
    }
    for shard in &report.shards {
        assert_eq!(shard.course.attempts, [Some(2_000), Some(2_000), Some(1_000)], "as the seconds have it");
    }
    let spread = report.intervals.iter().flat_map(|row| &row.spread).flat_map(|spread| &spread.counts);
    assert_eq!(spread.sum::<u64>(), 10_000);
}

#[test]
fn items_move_to_a_shard_that_is_done() {
    // Alone, the slow shard would take 5,000 x 10 ms / 2 lanes = 25 s.
    let plan = run_of(2, 4, 10_000);
    let rehearsal = run(&plan, &[], |shard, _| if shard == 0 { 10 * MS } else { MS });
    assert_eq!(ok(&rehearsal), 10_000);
    assert!(rehearsal.record.moved.ids > 3_000, "{:?}", rehearsal.record.moved);
    let ended = rehearsal.record.shards.iter().map(|shard| shard.last_done).max().unwrap();
    assert!(ended < Nanos::default().plus(5 * S), "{ended:?}");
    let plots = crate::plot::all(&rehearsal.report(&plan));
    assert!(plots.iter().any(|plot| plot.caption.starts_with("Shard 0 straggled")), "its plots name it");
}

#[test]
fn a_shard_that_cannot_use_its_share_of_the_budget_gives_it_up() {
    let mut plan = run_of(2, 20, 1 << 40);
    (plan.rate, plan.burst, plan.at_start) = (Some(Rate { permits: 200, period_ns: 1_000_000_000 }), 2, 2);
    plan.duration = Some(10 * S);
    // Ten lanes of a second each leave nine tenths of 100/s unused: 1,100 requests if nothing moved.
    let rehearsal = run(&plan, &[], |shard, _| if shard == 0 { S } else { MS });
    assert!(rehearsal.record.moved.shares > 0);
    assert!(ok(&rehearsal) > 1_250, "{}", ok(&rehearsal));
    assert!(rehearsal.record.shards.iter().all(|shard| shard.budget.is_some_and(|used| used.kept)));
}

#[test]
fn what_one_shard_is_told_all_shards_keep() {
    let mut plan = run_of(3, 6, 1 << 40);
    plan.duration = Some(10 * S);
    let rehearsal = run_against(
        &plan,
        &[],
        |_, _| MS,
        |shard, sent| {
            let refused = shard == 0 && sent == Nanos::default().plus(3 * S);
            if refused {
                (Outcome::Throttled, Advice { repeat: Repeat::MayHelp, wait: Some(2 * S), quota: None, held_ns: None })
            } else {
                GOOD
            }
        },
    );
    let told = Nanos::default().plus(3 * S + MS);
    let early =
        rehearsal.samples.iter().map(Sample::sent).filter(|sent| (Nanos(told.0 + 1)..told.plus(2 * S)).contains(sent));
    assert_eq!(early.count(), 0);
    assert_eq!(rehearsal.record.moved.pauses, 1);
    assert!(rehearsal.samples.iter().any(|sample| sample.sent() > told.plus(2 * S)));
}

#[test]
fn a_signal_ends_the_run_and_what_is_under_way_has_a_second() {
    // From the third second on nothing is answered for an hour.
    let plan = run_of(2, 10, 1 << 40);
    let stuck = |_, sent: Nanos| if sent >= Nanos::default().plus(3 * S) { 3_600 * S } else { MS };
    let rehearsal = run(&plan, &[Incident::Signal { at: 5 * S, number: 2 }], stuck);
    let report = rehearsal.report(&plan);
    assert_eq!((rehearsal.record.interrupted, report.ledger.ok, report.ledger.aborted), (Some(2), 30_000, 10));
    assert_eq!(rehearsal.record.shards.iter().map(|shard| shard.last_done).max(), Some(Nanos::default().plus(6 * S)));
}

/// A target whose requests note when they are looked at.
struct Noted {
    clock: Clock,
    looks: Rc<RefCell<BTreeMap<Nanos, u64>>>,
}

impl Workload for Noted {
    async fn perform(&self, id: u64, flight: &Flight) -> Attempt {
        let target = Target { clock: self.clock, shard: 0, takes: |_, _| MS, answer: |_, _| GOOD };
        let mut attempt = std::pin::pin!(target.perform(id, flight));
        poll_fn(|cx| {
            *self.looks.borrow_mut().entry(self.clock.now()).or_default() += 1;
            attempt.as_mut().poll(cx)
        })
        .await
    }
}

#[test]
fn nothing_runs_while_the_client_is_blocked() {
    let mut plan = run_of(2, 10, 1 << 40);
    plan.duration = Some(2 * S);
    let looks = Rc::default();
    let blocked = Incident::Block { at: S, lasts: 300 * MS };
    let noted = |_: &ShardPlan, clock| Noted { clock, looks: Rc::clone(&looks) };
    let rehearsal = rehearse(&plan, &[blocked], noted).unwrap();
    let (from, to) = (Nanos::default().plus(S), Nanos::default().plus(1_300 * MS));
    let looks = looks.take();
    let within = looks.range(Nanos(from.0 + 1)..to).count();
    assert_eq!(within, 0, "something ran");
    assert!(looks.contains_key(&to) && looks.contains_key(&Nanos(from.0 - 1_000_000)));
    // Each lane had one attempt under way, and that one took as long as the block; every other one a millisecond.
    let slow: Vec<u64> = rehearsal.samples.iter().map(Sample::service_ns).filter(|ns| *ns > 1_000_000).collect();
    assert_eq!(slow.len(), 10);
    assert!(slow.iter().all(|ns| (300_000_000..=301_000_000).contains(ns)), "{slow:?}");
}
