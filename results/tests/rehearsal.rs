//! Whole runs in virtual time: everything is done once, and the report adds up.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose rehearsal cannot run is over"
)]

mod course;
mod cut;
mod diagnoses;
mod findings;
mod lease;
mod outcomes;
mod parts;
mod replaced;
mod spacing;
mod stages;
mod stalls;
mod storage;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs;
use std::rc::Rc;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::fixtures::{attempt_of, in_flight, plan};
use crawlmark_harness::plan::{Arrivals, RunPlan, ShardPlan, most_shards};
use crawlmark_harness::rehearse::{
    Incident, Nobody, Rehearsal, rehearse, rehearse_before, rehearse_replacing,
};
use crawlmark_harness::stats::SecondCounts;
use crawlmark_harness::supervisor::{Interval, Live, Observer};
use crawlmark_harness::target_usage::{TargetRecord, TargetSample};
use crawlmark_results::judge::{Finding, FindingKind};
use crawlmark_results::run::gates::{
    Breach, Condition, LiveThresholds, Measured, Objective, of_report,
};
use crawlmark_results::run::report::{
    Environment, HeatColumn, Labels, Ledger, Limit, Placement, Report, RunFacts, Source, Verdict,
};
use crawlmark_results::run::result_dir::{self, RESULT};
use crawlmark_results::run::words;

use proptest::prelude::*;

use crawlmark_harness::process::ShardExit;
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Outcome, Repeat, Sample};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_harness::workload::{Clearance, Flight, Workload};

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
    async fn perform(
        &self,
        _: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, 0, 0));
        tokio::time::sleep((self.takes)(self.shard, sent)).await;
        let answer = (self.answer)(self.shard, sent);
        *ended = attempt(Some(sent), self.clock.now(), answer);
        Some(())
    }
}

fn attempt(sent: Option<Nanos>, done: Nanos, (outcome, advice): (Outcome, Advice)) -> Attempt {
    Attempt {
        sent,
        status: (outcome == Outcome::Rejected).then_some(503),
        advice,
        ..attempt_of(done, done, outcome)
    }
}

/// A refusal, with the wait that it asks for.
fn throttled(wait: Option<Duration>) -> (Outcome, Advice) {
    let asks = Advice {
        repeat: Repeat::MayHelp,
        wait,
        ..Advice::default()
    };
    (Outcome::Throttled, asks)
}

const GOOD: (Outcome, Advice) = (
    Outcome::Ok,
    Advice {
        repeat: Repeat::Never,
        wait: None,
        quota: None,
        held_ns: None,
    },
);

trait Reported {
    /// The report, which the program accepts when it reads it again.
    fn report(&self, plan: &RunPlan) -> Report;
    /// The report of a record that a test made up.
    fn as_it_is(&self, plan: &RunPlan) -> Report;
    /// The report of a run whose target was watched by a probe.
    fn report_with(&self, plan: &RunPlan, target: Option<TargetRecord>) -> Report;
}

/// Whatever happened, the program reads what it saved.
fn read_back(report: Report) -> Report {
    let home = tempfile::tempdir().unwrap();
    fs::write(
        home.path().join(RESULT),
        serde_json::to_string(&report).unwrap(),
    )
    .unwrap();
    assert_eq!(
        result_dir::read(home.path())
            .err()
            .map(|error| error.to_string()),
        None
    );
    report
}

/// The course has each request once, as the seconds have.
fn course_adds_up(report: &Report) {
    let Some(course) = &report.course else { return };
    let sum = |all: &[u64]| all.iter().sum::<u64>();
    let mut counts = SecondCounts::default();
    report
        .intervals
        .iter()
        .for_each(|row| counts.merge(&row.counts));
    let known = [&course.good, &course.not_found, &course.throttled].map(|all| sum(all));
    assert_eq!(known, [counts.ok, counts.not_found, counts.throttled]);
    assert_eq!(
        known.iter().sum::<u64>() + sum(&course.failed),
        counts.attempts
    );
    let heat = course.heat.iter().flatten();
    let times: u64 = heat.map(|column| sum(&column.counts)).sum();
    // A spread is without times beyond the histogram; of a shard that died, only counts are known.
    let spreads = report
        .intervals
        .iter()
        .filter_map(|row| row.spread.as_ref());
    let spread: u64 = spreads.map(|spread| sum(&spread.counts)).sum();
    let good = report.intervals.iter().filter_map(|row| row.scheduled_good);
    assert!(
        (spread..=good.sum()).contains(&times),
        "{times} of {spread}"
    );
}

impl Reported for Rehearsal {
    fn report(&self, plan: &RunPlan) -> Report {
        let report = read_back(self.as_it_is(plan));
        course_adds_up(&report);
        report
    }

    fn as_it_is(&self, plan: &RunPlan) -> Report {
        self.report_with(plan, None)
    }

    fn report_with(&self, plan: &RunPlan, target: Option<TargetRecord>) -> Report {
        Report::new(Source {
            target,
            plan,
            labels: &Labels::default(),
            record: &self.record,
            intervals: self.intervals.iter().collect(),
            environment: Environment::read(Placement::Apart),
            facts: RunFacts::default(),
        })
    }
}

fn run(plan: &RunPlan, incidents: &[Incident], takes: fn(u32, Nanos) -> Duration) -> Rehearsal {
    run_against(plan, incidents, takes, |_, _| GOOD)
}

fn run_against(
    plan: &RunPlan,
    incidents: &[Incident],
    takes: fn(u32, Nanos) -> Duration,
    answer: fn(u32, Nanos) -> (Outcome, Advice),
) -> Rehearsal {
    let target = |shard: &ShardPlan, clock| Target {
        clock,
        shard: shard.shard,
        takes,
        answer,
    };
    rehearse(plan, incidents, target).unwrap()
}

fn run_of(shards: u32, connections: u32, ids: u64) -> RunPlan {
    RunPlan {
        shards,
        connections,
        ids: IdRange { start: 0, end: ids },
        // One request at once for each shard, the least that there can be.
        burst: shards.into(),
        at_start: shards.into(),
        ..plan()
    }
}

fn ok(rehearsal: &Rehearsal) -> u64 {
    rehearsal
        .record
        .shards
        .iter()
        .map(|shard| shard.stats.counters.items.ok)
        .sum()
}

#[test]
fn every_item_is_done_once_and_the_seconds_add_up_to_the_whole() {
    // Two lanes of a millisecond each for two shards: 4,000 items a second.
    let plan = run_of(2, 4, 10_000);
    let rehearsal = run(&plan, &[], |_, _| MS);
    let mut ids: Vec<u64> = rehearsal
        .samples
        .iter()
        .map(|sample| sample.permit.id)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..10_000).collect::<Vec<_>>());
    let report = rehearsal.report(&plan);
    assert_eq!(
        (
            report.totals.attempts,
            report.ledger.ok,
            report.intervals.len()
        ),
        (10_000, 10_000, 3)
    );
    // What ends at the full second is in the next one.
    assert_eq!(
        report
            .intervals
            .iter()
            .map(|row| row.ok)
            .collect::<Vec<_>>(),
        [3_996, 4_000, 2_004]
    );
    let scheduled: Vec<_> = report.intervals.iter().map(|row| row.scheduled).collect();
    assert_eq!(scheduled, [Some(4_000), Some(4_000), Some(2_000)]);
    assert!(
        rehearsal
            .record
            .shards
            .iter()
            .all(|shard| shard.last_done == Nanos::default().plus(2_500 * MS))
    );
    assert_eq!(report.latency["service"].max_us, Some(1_000.0));
    for shard in &rehearsal.record.shards {
        assert_eq!(
            (shard.exit, &shard.fault, shard.remaining),
            (ShardExit::Clean, &None, 0)
        );
    }
    for shard in &report.shards {
        assert_eq!(
            shard.course.attempts,
            [Some(1_998), Some(2_000), Some(1_002)],
            "as the seconds have it"
        );
    }
    let spread = report
        .intervals
        .iter()
        .flat_map(|row| &row.spread)
        .flat_map(|spread| &spread.counts);
    assert_eq!(spread.sum::<u64>(), 10_000);
}

#[test]
fn a_run_that_is_resumed_does_what_is_left_and_nothing_else() {
    // Shard 0 is slow, so that ranges between finished ones move.
    let finished = (0..200)
        .map(|n| IdRange {
            start: n * 50,
            end: n * 50 + n % 50,
        })
        .filter(|range| !range.is_empty());
    let mut plan = RunPlan {
        finished: finished.collect(),
        ..run_of(2, 4, 20_000)
    }
    .validate()
    .unwrap();
    let is_left = |id: &u64| {
        plan.finished
            .iter()
            .all(|range| *id < range.start || *id >= range.end)
    };
    let left: Vec<u64> = (0..20_000).filter(is_left).collect();
    let rehearsal = run(&plan, &[], |shard, _| if shard == 0 { 10 * MS } else { MS });
    let mut ids: Vec<u64> = rehearsal
        .samples
        .iter()
        .map(|sample| sample.permit.id)
        .collect();
    ids.sort_unstable();
    assert_eq!(ids, left);
    assert!(
        rehearsal.record.moved.ids > 3_000,
        "{:?}",
        rehearsal.record.moved
    );
    let ended = rehearsal
        .record
        .shards
        .iter()
        .map(|shard| shard.last_done)
        .max()
        .unwrap();
    assert!(
        ended < Nanos::default().plus(8 * S),
        "{ended:?}: one slow shard did not keep its ranges"
    );
    let report = rehearsal.report(&plan);
    let items = (
        report.ledger.planned,
        report.ledger.ok,
        report.ledger.not_attempted,
        report.finished_before,
    );
    assert_eq!(items, (15_100, 15_100, 0, Some(4_900)));
    assert_eq!(
        report.validity.verdict,
        Verdict::Valid,
        "{:?}",
        report.findings
    );
    // One that is stopped leaves the rest, which holds nothing that was finished.
    plan.duration = Some(S);
    let ledger = run(&plan, &[], |_, _| MS).report(&plan).ledger;
    assert_eq!(ledger.ok + ledger.not_attempted, 15_100);
    assert!(ledger.not_attempted > 10_000, "{ledger:?}");
}

#[test]
fn a_signal_ends_the_run_and_what_is_under_way_has_a_second() {
    // From the third second on nothing is answered for an hour.
    let plan = run_of(2, 10, 1 << 40);
    let stuck = |_, sent: Nanos| {
        if sent >= Nanos::default().plus(3 * S) {
            3_600 * S
        } else {
            MS
        }
    };
    let rehearsal = run(
        &plan,
        &[Incident::Signal {
            at: 5 * S,
            number: 2,
        }],
        stuck,
    );
    let report = rehearsal.report(&plan);
    assert_eq!(
        (
            rehearsal.record.interrupted,
            report.ledger.ok,
            report.ledger.aborted
        ),
        (Some(2), 30_000, 10)
    );
    assert_eq!(
        rehearsal
            .record
            .shards
            .iter()
            .map(|shard| shard.last_done)
            .max(),
        Some(Nanos::default().plus(6 * S))
    );
}

/// A target that answers in a millisecond, but hangs for the first requests: each in another part
/// of an attempt.
struct Hanging(Clock);

impl Hanging {
    /// The first 20 IDs hang: 0 to 3 while the connection opens, 4 to 7 before the first byte, 8 to
    /// 11 after it. 12 to 15 have no connection after 200 ms, 16 to 19 no answer.
    const PART: u64 = 4;
}

impl Workload for Hanging {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let Self(clock) = self;
        let (part, limit, hang) = (id / Self::PART, 200 * MS, 3_600 * S);
        flight.opening(clock.now());
        match part {
            0 => tokio::time::sleep(hang).await,
            3 => tokio::time::sleep(limit).await,
            _ => tokio::time::sleep(MS).await,
        }
        let failed = |sent, kind| {
            let error = (Outcome::Error(kind), Advice::default());
            attempt(sent, clock.now(), error)
        };
        if part == 3 {
            *ended = failed(None, ErrorKind::ConnectTimeout);
            return Some(());
        }
        flight.opened(1_000_000);
        let sent = clearance.wait().await?;
        let mut in_flight = in_flight(sent, 0, 0);
        flight.note(in_flight);
        match part {
            1 => tokio::time::sleep(hang).await,
            4 => tokio::time::sleep(limit).await,
            _ => tokio::time::sleep(MS).await,
        }
        if part == 4 {
            *ended = failed(Some(sent), ErrorKind::Timeout);
            return Some(());
        }
        in_flight.first_byte = Some(clock.now());
        flight.note(in_flight);
        if part == 2 {
            tokio::time::sleep(hang).await;
        }
        *ended = Attempt {
            first_byte: in_flight.first_byte,
            ..attempt(Some(sent), clock.now(), GOOD)
        };
        Some(())
    }
}

/// Of each series that a hanging target can hold up, the times that are known and those that were
/// cut off.
fn known_and_cut_off<const N: usize>(report: &Report, series: [&str; N]) -> [(u64, u64); N] {
    series.map(|series| {
        (
            report.latency[series].count,
            report.latency[series].censored,
        )
    })
}

#[test]
fn no_time_leaves_out_what_a_target_that_hangs_did_not_end() {
    const PART: u64 = Hanging::PART;
    for rate in [None, Some(per_s(1_000))] {
        let mut plan = run_of(1, 30, 2_000);
        plan.duration = Some(2_500 * MS);
        (plan.rate, plan.arrivals) = (
            rate,
            if rate.is_some() {
                Arrivals::Constant
            } else {
                Arrivals::Asap
            },
        );
        let report = rehearse(&plan, &[], |_: &ShardPlan, clock| Hanging(clock))
            .unwrap()
            .report(&plan);
        let good = 2_000 - 5 * PART;
        assert_eq!(
            (
                report.ledger.ok,
                report.ledger.aborted,
                report.ledger.failed
            ),
            (good, 3 * PART, 2 * PART)
        );
        let parts = known_and_cut_off(&report, ["connect", "pool_wait", "ttfb", "item", "service"]);
        let expected = [
            // Those that hang while they open, and those that timed out.
            (good + 3 * PART, 2 * PART),
            (good + 3 * PART, 2 * PART),
            (good + PART, 2 * PART),
            (good, 5 * PART),
            (good, 3 * PART),
        ];
        assert_eq!(parts, expected, "{rate:?}");
        if rate.is_some() {
            assert_eq!(known_and_cut_off(&report, ["response"]), [(good, 5 * PART)]);
        }
        // All that ended took a few milliseconds; what hangs was 2.5 s old.
        for series in ["connect", "pool_wait", "ttfb", "item"] {
            let seen = |stat| {
                let limit: Condition = format!("{series}_{stat} < 1s").parse().unwrap();
                of_report(limit.metric, &report)
            };
            assert!(
                matches!(seen("max"), Measured::AtLeast(us) if us > 2_400_000.0),
                "{series}: {:?}",
                seen("max")
            );
            assert!(
                matches!(seen("p50"), Measured::Exactly(us) if us < 3_000.0),
                "{series}: {:?}",
                seen("p50")
            );
        }
    }
}

/// Hosts whose connections take time to open, each request a new one: ID `i` is asked of host `i`
/// modulo their number.
struct Cold {
    clock: Clock,
    hosts: u32,
    delays_ms: Rc<Vec<u64>>,
    /// How long the connection of each ID took to open, ns.
    opened: Rc<RefCell<BTreeMap<u64, u64>>>,
}

impl Workload for Cold {
    fn host(&self, id: u64) -> u32 {
        u32::try_from(id % u64::from(self.hosts)).unwrap()
    }

    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        let began = self.clock.now();
        let delay_ms = self.delays_ms[usize::try_from(id).unwrap() % self.delays_ms.len()];
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
        let connect_ns = self.clock.now().since(began);
        flight.opened(connect_ns);
        self.opened.borrow_mut().insert(id, connect_ns);
        let sent = clearance.wait().await?;
        tokio::time::sleep(MS).await;
        *ended = attempt(Some(sent), self.clock.now(), GOOD);
        Some(())
    }
}

/// A target whose first request is refused for 2 s after 200 ms, while the connections of the
/// others open: they take 500 ms.
struct Opening(Clock);

impl Workload for Opening {
    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        if id > 0 && self.0.now() < Nanos::default().plus(500 * MS) {
            tokio::time::sleep(500 * MS).await;
            flight.opened(500_000_000);
        }
        let sent = clearance.wait().await?;
        flight.note(in_flight(sent, 0, 0));
        let is_first = sent < Nanos::default().plus(100 * MS);
        tokio::time::sleep(if is_first { 200 * MS } else { MS }).await;
        let answer = if is_first {
            throttled(Some(2 * S))
        } else {
            GOOD
        };
        *ended = attempt(Some(sent), self.0.now(), answer);
        Some(())
    }
}

#[test]
fn a_request_whose_connection_opens_while_a_pause_begins_is_held_back_until_it_is_over() {
    let closed = RunPlan {
        duration: Some(5 * S),
        ..run_of(1, 10, 100)
    };
    for plan in [closed, timed(10, 50, 5 * S)] {
        let rehearsal = rehearse(&plan, &[], |_, clock| Opening(clock)).unwrap();
        let told = Nanos::default().plus(200 * MS);
        let until = told.plus(2 * S);
        let early = sends(&rehearsal.samples)
            .into_iter()
            .filter(|sent| (told.0 + 1..until.0).contains(sent));
        assert_eq!(early.count(), 0, "{:?}", plan.arrivals);
        let report = rehearsal.report(&plan);
        let (throttling, held) = (report.throttling, |sample: &&Sample| {
            sample.permit.admitted >= until
        });
        assert_eq!(
            (
                throttling.honoured,
                throttling.violated,
                throttling.early_attempts
            ),
            (1, 0, 0),
            "{:?}",
            plan.arrivals
        );
        assert!(
            rehearsal.samples.iter().filter(held).count() > 9,
            "{:?}",
            plan.arrivals
        );
        let slowest = rehearsal
            .samples
            .iter()
            .filter(|_| plan.arrivals != Arrivals::Asap)
            .map(Sample::response_ns)
            .max();
        assert!(
            slowest.unwrap_or_default() < 1_000_000_000,
            "the pause is no latency: {slowest:?}"
        );
    }
}

/// The report, the samples by when they were sent, and how long the connection of each ID took to
/// open, ns.
fn run_cold(plan: &RunPlan, delays_ms: &[u64]) -> (Report, Vec<Sample>, BTreeMap<u64, u64>) {
    let (hosts, delays_ms) = (plan.per_host.hosts, Rc::new(delays_ms.to_vec()));
    let opened = Rc::default();
    let cold = |_: &ShardPlan, clock| Cold {
        clock,
        hosts,
        delays_ms: Rc::clone(&delays_ms),
        opened: Rc::clone(&opened),
    };
    let rehearsal = rehearse(plan, &[], cold).unwrap();
    let report = rehearsal.report(plan);
    let mut samples = rehearsal.samples;
    samples.sort_by_key(Sample::sent);
    (report, samples, opened.take())
}

/// When these were sent, ns after the start, which is what the report counts from.
fn sends<'a>(samples: impl IntoIterator<Item = &'a Sample>) -> Vec<u64> {
    samples.into_iter().map(|sample| sample.sent().0).collect()
}

/// True if every window of every width holds at most a burst and what the rate comes to in it.
fn conforms(sent: &[u64], rate: Rate, burst: u64) -> bool {
    let allowed = |first: usize, last: usize| burst + rate.permits_in(sent[last] - sent[first]);
    (0..sent.len()).all(|first| {
        (first..sent.len()).all(|last| (last - first + 1) as u64 <= allowed(first, last))
    })
}

/// The most requests in any window of a width, wherever it begins.
fn most_in(sent: &[u64], width_ns: u64) -> u64 {
    let from = |first: usize| {
        sent[first..]
            .iter()
            .take_while(|at| **at < sent[first] + width_ns)
            .count()
    };
    (0..sent.len()).map(from).max().unwrap_or(0) as u64
}

const fn per_s(permits: u64) -> Rate {
    Rate {
        permits,
        period_ns: 1_000_000_000,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn however_long_connections_take_a_budget_is_kept_by_what_is_sent(
        shards in 1..4_u32, rate in 1..400_u64, burst in 0..60_u64, ids in 1..160_u64,
        delays_ms in prop::collection::vec(prop_oneof![Just(0), 0..30_u64, 0..900_u64], 1..40),
    ) {
        let mut plan = run_of(shards, 40 * shards, ids);
        let burst = burst.max(u64::from(shards));
        (plan.rate, plan.burst, plan.at_start) = (Some(per_s(rate)), burst, burst);
        let (report, samples, opened) = run_cold(&plan, &delays_ms);
        prop_assert_eq!(report.ledger.ok, ids);
        prop_assert_eq!(report.totals.connections_opened, ids);
        let sent = sends(&samples);
        prop_assert!(conforms(&sent, per_s(rate), plan.burst), "{sent:?}");
        let budget = report.budget.unwrap();
        prop_assert!(budget.kept, "{budget:?}");
        for window in &budget.busiest {
            let width_ns = u64::try_from(Duration::from_secs_f64(window.width_ms / 1e3).as_nanos()).unwrap();
            let range = most_in(&sent, width_ns)..=most_in(&sent, width_ns + 10_000);
            prop_assert!(range.contains(&window.admitted), "{window:?}, where it is {range:?}");
        }
        for sample in &samples {
            let (permit, attempt) = (sample.permit, sample.attempt.clone());
            let in_order = [permit.intended, permit.ready, permit.admitted, sample.sent(), attempt.done];
            prop_assert!(in_order.is_sorted(), "no part is negative: {in_order:?}");
            let parts = sample.sched_lag_ns() + sample.budget_wait_ns() + sample.pool_wait_ns() + sample.service_ns();
            prop_assert_eq!(parts, sample.response_ns());
            prop_assert_eq!(sample.pool_wait_ns(), opened[&permit.id], "what the budget held back is its own");
        }
    }

    #[test]
    fn each_host_is_kept_from_more_than_its_rate(
        shards in 1..9_u32, rate in 1..300_u64, hosts in 1..4_u32, ids in 1..60_u64,
        delays_ms in prop::collection::vec(prop_oneof![Just(0), 0..30_u64, 0..900_u64], 1..20),
    ) {
        let shards = shards.min(most_shards(&per_s(rate)));
        let mut plan = run_of(shards, 10 * shards, ids);
        (plan.per_host.hosts, plan.per_host.rate) = (hosts, Some(per_s(rate)));
        let (report, samples, _) = run_cold(&plan, &delays_ms);
        prop_assert_eq!(report.ledger.ok, ids);
        let at_once = plan.per_host.at_once(shards).unwrap();
        let mut most = 0;
        for host in 0..u64::from(hosts) {
            let sent = sends(samples.iter().filter(|sample| sample.permit.id % u64::from(hosts) == host));
            prop_assert!(conforms(&sent, per_s(rate), at_once), "{at_once} at once: {sent:?}");
            most = most.max(most_in(&sent, 1_000_000_000));
        }
        let budget = report.host_budget.unwrap();
        prop_assert!(budget.kept && budget.burst == at_once, "{budget:?}");
        prop_assert!(budget.worst_window.is_some_and(|window| window.host < Some(hosts)), "{budget:?}");
        let [.., second] = &budget.busiest[..] else { unreachable!("{budget:?}") };
        prop_assert_eq!((second.width_ms, second.admitted >= most), (1_000.0, true), "{:?}, {}", second, most);
    }
}

#[test]
fn a_run_that_is_over_sends_nothing_that_its_limit_holds_back_and_does_not_wait_for_it() {
    // Forty at once at the start and ten a second after them, whose connections all open a moment
    // before the end.
    let mut plan = run_of(1, 80, 1 << 40);
    (plan.rate, plan.burst, plan.at_start, plan.duration) = (Some(per_s(10)), 40, 40, Some(S));
    let delays_ms: Vec<u64> = [900; 40]
        .into_iter()
        .chain((0..9).rev().map(|tenths| tenths * 100))
        .collect();
    let (report, samples, _) = run_cold(&plan, &delays_ms);
    let sent = sends(&samples);
    assert!(
        sent.len() < 48 && sent.last() <= Some(&1_000_000_000) && conforms(&sent, per_s(10), 40),
        "{sent:?}"
    );
    let Ledger {
        planned,
        items,
        not_attempted,
        ..
    } = report.ledger;
    assert_eq!(
        (items.ok, not_attempted),
        (sent.len() as u64, planned - items.ok)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_a_shard_had_reported_when_it_died_is_in_the_seconds_in_which_it_ended(
        takes_ms in 1..2_500_u32, reports in 1..16_u64, after_ms in 1..250_u64, warmup_s in 0..3_u32, is_open: bool,
    ) {
        let mut plan = timed(30, 200, 6 * S);
        plan.warmup = warmup_s * S;
        if !is_open {
            plan.arrivals = Arrivals::Asap;
        }
        let target = |_: &ShardPlan, clock| Target {
            clock,
            shard: takes_ms,
            takes: |ms, _| ms * MS,
            answer: |_, _| GOOD,
        };
        let at = Duration::from_millis(250 * reports + after_ms);
        let rehearsal = rehearse(&plan, &[Incident::Death { at, shard: 0 }], target).unwrap();
        let last = Nanos::default().plus(Duration::from_millis(250 * reports));
        // What ends at the time of a report may be in it.
        let ended = |from_ms: u64, to_ms: u64, is_within: &dyn Fn(Nanos) -> bool| {
            let done = rehearsal.samples.iter().map(|it| it.attempt.done);
            done.filter(|done| (from_ms..to_ms).contains(&(done.0 / 1_000_000)) && is_within(*done)).count() as u64
        };
        let range = |from_ms, to_ms| ended(from_ms, to_ms, &|done| done < last)..=ended(from_ms, to_ms, &|done| done <= last);
        let mut all = 0;
        for interval in &rehearsal.intervals {
            let from_ms = interval.index * 1_000;
            let counted = interval.merged.counters.requests.attempts;
            prop_assert!(range(from_ms, from_ms + 1_000).contains(&counted), "{}: {counted}", interval.index);
            all += counted;
        }
        let report = rehearsal.report(&plan);
        prop_assert_eq!(report.totals.attempts, all);
        let measured = report.measured().requests.attempts;
        prop_assert!(range(u64::from(warmup_s) * 1_000, 7_000).contains(&measured), "{measured}");
    }
}

/// A target that takes so long for an item, and counts the items of each shard.
struct CountingTarget {
    clock: Clock,
    shard: u32,
    takes: Duration,
    started: Rc<RefCell<[u64; 2]>>,
}

impl Workload for CountingTarget {
    async fn perform(
        &self,
        _: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        self.started.borrow_mut()[self.shard as usize] += 1;
        let takes = |_, _| Duration::ZERO;
        let target = Target {
            clock: self.clock,
            shard: self.shard,
            takes,
            answer: |_, _| GOOD,
        };
        tokio::time::sleep(self.takes).await;
        target.perform(0, flight, clearance, ended).await
    }
}

#[test]
fn a_shard_that_dies_loses_what_it_may_have_started_and_nothing_that_it_would_not_have_reached() {
    for (at, takes) in [
        (40, 1),
        (260, 1),
        (499, 3),
        (1_240, 7),
        (2_001, 400),
        (2_900, 1),
    ] {
        let plan = RunPlan {
            duration: Some(3 * S),
            ..run_of(2, 20, 1 << 40)
        };
        let (at, takes, started) = (at * MS, takes * MS, Rc::<RefCell<[u64; 2]>>::default());
        let target = |plan: &ShardPlan, clock| CountingTarget {
            clock,
            shard: plan.shard,
            takes,
            started: Rc::clone(&started),
        };
        let rehearsal = rehearse(&plan, &[Incident::Death { at, shard: 1 }], target).unwrap();
        let report = rehearsal.report(&plan);
        let [alive, dead] = &report.shards[..] else {
            panic!("two shards")
        };
        assert!(alive.ledger.adds_up() && alive.ledger.lost == 0 && dead.ledger.adds_up());
        let scheduled: Option<u64> = report.intervals.iter().map(|row| row.scheduled).sum();
        assert_eq!(scheduled, Some(report.totals.attempts), "{at:?}");
        assert_eq!(
            dead.totals.peak_in_flight > 0,
            at >= 250 * MS,
            "{at:?}: {:?}",
            dead.totals
        );
        let Ledger {
            planned,
            items,
            not_attempted,
            lost,
        } = dead.ledger;
        assert!(
            planned - not_attempted >= started.borrow()[1],
            "{at:?}: {not_attempted} were not attempted"
        );
        let in_a_report = 10 * (250 / u64::try_from(takes.as_millis()).unwrap() + 1);
        let most = if at < Duration::from_millis(250) {
            500_000
        } else {
            3 * in_a_report + 10
        };
        assert!(
            items.begun() + lost > 0 && lost <= most,
            "{at:?}: {lost} of at most {most} are lost"
        );
    }
}

/// One shard of an open loop at so many requests per second, for so long.
/// A run that conditions may stop.
struct Stoppable(LiveThresholds);

impl Observer for Stoppable {
    fn progress(&mut self, _: &Live) {}

    fn interval(&mut self, interval: &Interval) {
        self.0.add(interval);
    }

    fn has_enough(&self) -> bool {
        self.0.has_enough()
    }
}

/// The report of a run that `condition` may stop, of a target that answers after a millisecond
/// until it hangs from `hangs` on.
fn stopped_by(condition: &str, plan: &RunPlan, takes: fn(u32, Nanos) -> Duration) -> Report {
    stopped_by_answers(condition, plan, takes, |_, _| GOOD)
}

fn stopped_by_answers(
    condition: &str,
    plan: &RunPlan,
    takes: fn(u32, Nanos) -> Duration,
    answer: fn(u32, Nanos) -> (Outcome, Advice),
) -> Report {
    let objective = Objective {
        condition: condition.parse().unwrap(),
        breach: Breach::Stops,
    };
    let mut stoppable = Stoppable(LiveThresholds::new(&[objective], plan));
    let target = |_: &ShardPlan, clock| Target {
        clock,
        shard: 0,
        takes,
        answer,
    };
    let rehearsal = rehearse_before(plan, &[], target, &mut stoppable).unwrap();
    let mut report = rehearsal.as_it_is(plan);
    stoppable.0.close(&mut report);
    read_back(report)
}

#[test]
fn failures_of_the_warm_up_alone_break_no_threshold_and_no_rate() {
    fn fails_until(sent: Nanos, end: Duration) -> (Outcome, Advice) {
        if sent < Nanos::default().plus(end) {
            (Outcome::Error(ErrorKind::Closed), GOOD.1)
        } else {
            GOOD
        }
    }
    let plan = RunPlan {
        warmup: 2 * S,
        arrivals: Arrivals::Asap,
        ..timed(4, 200, 5 * S)
    };
    let conditions = [
        "error_rate < 1%",
        "errors < 5",
        "failed < 5",
        "ok_rate > 99%",
        "items < 700",
        "attempts < 700",
    ];
    let judged = |answer| {
        conditions.map(|condition| {
            let report = stopped_by_answers(condition, &plan, |_, _| MS, answer);
            let failed = FindingKind::RequestsFailed;
            let failed = kinds(&report).into_iter().find(|kind| *kind == failed);
            (report.gates[0].ok, report.stopped_by.is_some(), failed)
        })
    };
    assert_eq!(
        judged(|_, sent| fails_until(sent, 1_200 * MS)),
        [const { (Some(true), false, None) }; 6]
    );
    // A part of what was measured failed: that is what is said, without the warm-up's.
    let [rate, errors, .., attempts] = judged(|_, sent| fails_until(sent, 2_400 * MS));
    assert_eq!(
        (rate.0, rate.1, errors.0, errors.1, attempts.0),
        (Some(false), true, Some(false), true, Some(true))
    );
    assert!(attempts.2.as_ref().is_some(), "{attempts:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn rates_count_what_ended_after_the_warm_up_and_times_what_was_due_after_it(
        rate in 20..400_u64, connections in 1..20_u32, takes_ms in 1..300_u32, warmup_ms in 1..2_500_u64,
        is_open: bool,
    ) {
        let mut plan = timed(connections, rate, 3 * S);
        plan.warmup = Duration::from_millis(warmup_ms);
        if !is_open {
            plan.arrivals = Arrivals::Asap;
        }
        let target = |_: &ShardPlan, clock| Target {
            clock,
            shard: takes_ms,
            takes: |ms, _| ms * MS,
            answer: |_, _| GOOD,
        };
        let rehearsal = rehearse(&plan, &[], target).unwrap();
        // A run in which the budget has nothing left to send lasts for its whole time.
        let duration_s = rehearsal.report_with(&plan, None).totals.duration_s;
        let end = Nanos::default().plus(Duration::from_secs_f64(duration_s));
        prop_assert!(end >= rehearsal.record.shards[0].last_done);
        // A target that is at work all the time.
        let sample = |at_ns| TargetSample { at_ns, cpu_ns: Some(at_ns), ..TargetSample::default() };
        let target = TargetRecord { samples: vec![sample(0), sample(end.0)], ..TargetRecord::default() };
        let report = rehearsal.report_with(&plan, Some(target));
        let from = Nanos::default().plus(plan.warmup);
        let count = |of: fn(&Sample) -> Nanos| {
            rehearsal.samples.iter().filter(|it| of(it) >= from).count() as u64
        };
        let (ended, timed) = (count(|it| it.attempt.done), count(|it| it.permit.intended));
        let measured_s = end.since(from) as f64 / 1e9;
        prop_assert!((report.totals.attempts_per_s * measured_s - ended as f64).abs() < 1e-6);
        prop_assert_eq!(report.latency["service"].count, timed);
        let per_attempt = report.target_cpu_us_per_attempt().unwrap_or(0.0);
        prop_assert!((per_attempt * ended as f64 - measured_s * 1e6).abs() < 1.0 || ended == 0);
        let sent = rehearsal.samples.len() as u64 + report.ledger.aborted;
        prop_assert_eq!(report.totals.attempts, sent);
    }
}

/// Answers after a millisecond, and from the fifth second on after two seconds.
fn slows_at_five(_: u32, sent: Nanos) -> Duration {
    if sent >= Nanos::default().plus(5 * S) {
        2 * S
    } else {
        MS
    }
}

#[test]
fn a_target_that_turns_slow_stops_a_run_when_its_answers_have_come() {
    // Of the open loop at 300/s, requests due from 5 s on wait for 2 s.
    let open = RunPlan {
        duration: Some(60 * S),
        ..timed(2_000, 300, 60 * S)
    };
    let closed = RunPlan {
        duration: Some(60 * S),
        ..run_of(2, 20, 1 << 40)
    };
    let cases = [
        ("rate[1s] > 50", &closed),
        ("response_p50[1s] < 500ms", &open),
        ("response_mean[1s] < 1s", &open),
        ("response_max[1s] < 1800ms", &open),
        ("service_max[1s] < 500ms", &closed),
    ];
    for (condition, plan) in cases {
        let report = stopped_by(condition, plan, slows_at_five);
        let gate = &report.gates[0];
        assert_eq!(
            (gate.ok, report.stopped_by.is_some()),
            (Some(false), true),
            "{condition}: {gate:?}"
        );
        assert!(
            report.totals.duration_s <= 12.0,
            "{condition}: {}",
            report.totals.duration_s
        );
        assert!(
            gate.until_s.is_some_and(|until| (5..=9).contains(&until)),
            "{condition}: {gate:?}"
        );
    }
}

#[test]
fn a_hang_that_empties_the_windows_of_a_share_does_not_pass() {
    /// Answers for two seconds, then never.
    fn hangs_at_two(_: u32, sent: Nanos) -> Duration {
        if sent >= Nanos::default().plus(2 * S) {
            3_600 * S
        } else {
            MS
        }
    }
    let plan = RunPlan {
        arrivals: Arrivals::Asap,
        ..timed(10, 120, 6 * S)
    };
    for condition in [
        "error_rate[1s] < 5%",
        "error_rate[2s] < 5%",
        "error_rate[3s] <= 9%",
    ] {
        let report = stopped_by(condition, &plan, hangs_at_two);
        assert_eq!(report.ledger.aborted, 10);
        assert_eq!(
            report.gates[0].ok,
            Some(false),
            "{condition}: {:?}",
            report.gates
        );
    }
}

fn timed(connections: u32, per_s: u64, duration: Duration) -> RunPlan {
    RunPlan {
        rate: Some(self::per_s(per_s)),
        arrivals: Arrivals::Constant,
        duration: Some(duration),
        ..run_of(1, connections, 1 << 40)
    }
}

/// The seconds whose rows hold other requests than those that were scheduled in them, in an open
/// loop that sent all.
fn seconds_that_hold_others(rehearsal: &Rehearsal, report: &Report) -> Vec<String> {
    let mut wrong = Vec::new();
    for row in &report.intervals {
        let of_row = |sample: &&Sample| sample.permit.intended.0 / 1_000_000_000 == row.start_s;
        let mut response: Vec<u64> = rehearsal
            .samples
            .iter()
            .filter(of_row)
            .map(Sample::response_ns)
            .collect();
        response.sort_unstable();
        let told = (row.scheduled, row.response_p50_us);
        let middle = response
            .get(response.len().saturating_sub(1) / 2)
            .map(|ns| *ns as f64 / 1e3);
        let is_near = match (middle, told.1) {
            (Some(is), Some(told)) => (is - told).abs() <= 1_000.0 + is / 500.0,
            (is, told) => is.is_none() == told.is_none(),
        };
        if told.0 != Some(response.len() as u64) || !is_near {
            wrong.push(format!(
                "second {}: {told:?} for {} with {middle:?}",
                row.start_s,
                response.len()
            ));
        }
    }
    wrong
}

#[test]
fn what_goes_after_its_second_is_in_the_second_in_which_it_was_due() {
    // Ten connections carry 50/s of the 100/s until 3.5 s, and all that waits soon after.
    let slow = |_, sent: Nanos| {
        if sent < Nanos::default().plus(3_500 * MS) {
            200 * MS
        } else {
            5 * MS
        }
    };
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        for shards in [1, 2] {
            let plan = RunPlan {
                shards,
                arrivals,
                ..timed(10, 100, 8 * S)
            };
            let rehearsal = run(&plan, &[], slow);
            let report = rehearsal.report(&plan);
            assert_eq!(
                seconds_that_hold_others(&rehearsal, &report),
                [""; 0],
                "{arrivals:?} over {shards}"
            );
        }
    }
}

#[test]
fn what_never_went_is_in_the_second_in_which_it_was_due() {
    // From 2 s on nothing is answered: 20 requests are cut off, and all that is due after them
    // never goes.
    let stuck = |_, sent: Nanos| {
        if sent >= Nanos::default().plus(2 * S) {
            3_600 * S
        } else {
            MS
        }
    };
    for shards in [1, 2] {
        let plan = RunPlan {
            shards,
            grace: 500 * MS,
            ..timed(20, 200, 4 * S)
        };
        let report = run(&plan, &[], stuck).report(&plan);
        assert_eq!((report.ledger.aborted, report.totals.dropped), (20, 380));
        let scheduled: Vec<_> = report
            .intervals
            .iter()
            .filter_map(|row| row.scheduled)
            .collect();
        assert_eq!(scheduled, [200, 200, 200, 200, 0], "over {shards}");
        let good: Vec<_> = report
            .intervals
            .iter()
            .filter_map(|row| row.scheduled_good)
            .collect();
        assert_eq!(good, [200, 200, 0, 0, 0]);
    }
}

#[test]
fn a_wait_of_minutes_leaves_every_second_its_requests_and_its_answers() {
    // Nine tenths of what is due is still waiting when the target wakes, 90 s late.
    let stall = |_, sent: Nanos| {
        let over = Nanos::default().plus(100 * S + MS);
        if sent >= Nanos::default().plus(10 * S) {
            Duration::from_nanos(over.since(sent)).max(MS)
        } else {
            MS
        }
    };
    let plan = RunPlan {
        timeout: 200 * S,
        ..timed(10, 20, 120 * S)
    };
    let rehearsal = run(&plan, &[], stall);
    let report = rehearsal.report(&plan);
    assert_eq!(seconds_that_hold_others(&rehearsal, &report), [""; 0]);
    let items: Vec<u64> = report.intervals.iter().map(|row| row.items).collect();
    assert!(
        items[10..100].iter().all(|n| *n <= 1) && items[100] > 1_700,
        "{items:?}"
    );
}

/// Throttles what comes from a second on, and asks for an hour of patience.
fn throttled_from_a_second_on(_: u32, sent: Nanos) -> (Outcome, Advice) {
    if sent >= Nanos::default().plus(S) {
        throttled(Some(3_600 * S))
    } else {
        GOOD
    }
}

#[test]
fn a_pause_to_the_end_leaves_the_rest_of_the_schedule_unsent_and_the_report_says_so() {
    for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
        let mut plan = RunPlan {
            arrivals,
            ..timed(20, 100, 6 * S)
        };
        (plan.shards, plan.throttling.max_pause) = (2, 7_200 * S);
        let whole = run(&plan, &[], |_, _| MS).report(&plan).schedule.unwrap();
        let report = run_against(&plan, &[], |_, _| MS, throttled_from_a_second_on).report(&plan);
        let schedule = report.schedule.clone().unwrap();
        let attempts = report.totals.attempts;
        assert!((80..=125).contains(&attempts), "{attempts}");
        assert_eq!(
            (schedule.scheduled, schedule.dropped),
            (whole.scheduled, 0),
            "the timetable is the same"
        );
        assert_eq!(schedule.postponed, schedule.scheduled - attempts);
        assert!(
            (schedule.sent_share - attempts as f64 / schedule.scheduled as f64).abs() < 1e-9,
            "{schedule:?}"
        );
        assert!((4.8..=5.0).contains(&schedule.shifted_s), "{schedule:?}");
        assert!(
            (schedule.achieved_per_s - attempts as f64 / 6.0).abs() < 1e-9,
            "{schedule:?}"
        );
        assert_eq!(
            report.validity.verdict,
            Verdict::TargetLimited,
            "{:?}",
            report.validity
        );
        let kinds = kinds(&report);
        assert!(kinds.contains(&FindingKind::Postponed), "{kinds:?}");
        assert!(!kinds.contains(&FindingKind::SumsDiffer), "{kinds:?}");
    }
}

#[test]
fn requests_that_a_paused_host_held_back_are_not_blamed_on_connections() {
    // Of two hosts, the timetable goes on during the pause of one, and waits for it.
    let mut plan = timed(20, 100, 6 * S);
    (plan.per_host.hosts, plan.throttling.max_pause) = (2, 7_200 * S);
    let report = run_against(&plan, &[], |_, _| MS, throttled_from_a_second_on).report(&plan);
    let schedule = report.schedule.clone().unwrap();
    assert!(schedule.dropped > 400, "{schedule:?}");
    assert_eq!(
        (
            schedule.scheduled,
            schedule.dropped_by[&crawlmark_harness::wire::Binding::Pause]
        ),
        (600, schedule.dropped)
    );
    assert_eq!(
        report.validity.verdict,
        Verdict::TargetLimited,
        "{:?}",
        report.validity
    );
    assert_eq!(never_sent_for(&report), [Limit::Pause]);
}

#[test]
fn two_signals_of_one_stop_are_one_and_a_later_one_cuts_off_open_requests_and_loses_nothing() {
    // `timeout` signals the program and then its group. What is under way takes half a second more.
    let plan = run_of(2, 4, 1 << 40);
    let stopped = |millis: [u32; 2]| {
        let incidents = millis.map(|ms| Incident::Signal {
            at: ms * MS,
            number: 15,
        });
        let record = run(&plan, &incidents, |_, _| 900 * MS).record;
        assert!(
            record.shards.iter().all(|shard| shard.fault.is_none()),
            "{:?}",
            record.shards
        );
        let aborted = record
            .shards
            .iter()
            .map(|shard| shard.stats.counters.items.aborted)
            .sum::<u64>();
        (record.interrupted, aborted)
    };
    assert_eq!(stopped([1_000, 1_150]), (Some(15), 0));
    assert_eq!(stopped([1_000, 1_250]), (Some(15), 4));
}

/// Kinds of the findings of a run, the first to know first.
fn kinds(report: &Report) -> Vec<FindingKind> {
    report.findings.iter().map(Finding::kind).collect()
}

/// Limits that requests which were never sent waited for.
fn never_sent_for(report: &Report) -> Vec<Limit> {
    let limit = |finding: &Finding| match finding {
        Finding::NeverSent { limit, .. } => Some(*limit),
        _ => None,
    };
    report.findings.iter().filter_map(limit).collect()
}

/// Limits that requests of an open loop waited for.
fn waited_for(report: &Report) -> Vec<Limit> {
    let limit = |finding: &Finding| match finding {
        Finding::Waited { limit, .. } => Some(*limit),
        _ => None,
    };
    report.findings.iter().filter_map(limit).collect()
}

/// The limit that a run is said to be limited by.
fn limited_by(report: &Report) -> Option<Limit> {
    report.findings.iter().find_map(|finding| match finding {
        Finding::LimitedBy { limit, .. } => Some(*limit),
        Finding::RateMissed { limit, .. } => *limit,
        _ => None,
    })
}

#[test]
fn waits_while_connections_were_free_name_the_limit_on_their_host() {
    fn hangs(_: u32, sent: Nanos) -> Duration {
        let second = Nanos::default().plus(S)..Nanos::default().plus(3 * S);
        if second.contains(&sent) {
            Duration::from_nanos(second.end.since(sent))
        } else {
            MS
        }
    }
    let mut plan = timed(50, 50, 4 * S);
    plan.per_host.connections = Some(1);
    let report = run(&plan, &[], hangs).report(&plan);
    assert_eq!(waited_for(&report), [Limit::PerHostConnections]);
    assert_eq!(
        report.validity.verdict,
        Verdict::BudgetLimited,
        "{:?}",
        report.findings
    );
    let [pool, budget] = ["pool_wait", "budget_wait"].map(|series| &report.latency[series]);
    assert_eq!(
        (pool.max_us, pool.censored),
        (Some(0.0), 0),
        "a connection was free all the time"
    );
    assert!(budget.max_us > Some(1_900_000.0), "{budget:?}");
    // With all connections in use, they are the limit.
    let mut plan = timed(2, 50, 4 * S);
    plan.per_host.connections = None;
    let report = run(&plan, &[], hangs).report(&plan);
    assert_eq!(waited_for(&report), [Limit::Connections]);
}

#[test]
fn a_rate_for_each_host_is_the_limit_where_the_rate_is_not_used_up() {
    let closed = |rate: u64, per_host: u64| {
        let mut plan = RunPlan {
            duration: Some(4 * S),
            ..run_of(1, 10, 1 << 40)
        };
        (plan.rate, plan.burst, plan.at_start) = (Some(per_s(rate)), 1, 1);
        plan.per_host.rate = Some(per_s(per_host));
        run(&plan, &[], |_, _| MS).report(&plan)
    };
    assert_eq!(limited_by(&closed(5_000, 10)), Some(Limit::PerHostRate));
    assert_eq!(limited_by(&closed(10, 5_000)), Some(Limit::Rate));
    let open = |rate: u64, per_host: u64| {
        let mut plan = timed(10, rate, 4 * S);
        plan.per_host.rate = Some(per_s(per_host));
        run(&plan, &[], |_, _| MS).report(&plan)
    };
    let held = open(100, 10);
    assert_eq!(limited_by(&held), Some(Limit::PerHostRate));
    let limits = [waited_for(&held), never_sent_for(&held)].concat();
    assert!(
        limits.iter().all(|limit| *limit == Limit::PerHostRate),
        "{limits:?}"
    );
    assert_eq!(limited_by(&open(100, 500)), Some(Limit::Rate));
}

#[test]
fn a_run_that_was_stopped_before_its_first_request_says_that_nothing_was_sent() {
    let mut plan = run_of(2, 4, 1 << 40);
    plan.duration = Some(10 * S);
    let mut rehearsal = run(&plan, &[Incident::Signal { at: S, number: 15 }], |_, _| MS);
    for shard in &mut rehearsal.record.shards {
        (shard.stats.counters, shard.last_done) = (
            crawlmark_harness::stats::Counters::default(),
            rehearsal.record.start,
        );
    }
    let report = rehearsal.as_it_is(&plan);
    assert_eq!(kinds(&report)[0], FindingKind::NothingSent);
}

#[test]
fn a_suspension_is_the_one_reason_for_a_shard_that_was_paused_by_it() {
    let mut plan = run_of(1, 4, 1 << 40);
    plan.duration = Some(4 * S);
    let mut rehearsal = run(
        &plan,
        &[Incident::Block {
            at: S,
            lasts: 1_600 * MS,
        }],
        |_, _| MS,
    );
    let paused = FindingKind::ShardPaused;
    assert!(kinds(&rehearsal.report(&plan)).contains(&paused));
    rehearsal.record.suspended = 1_590 * MS;
    let suspended = kinds(&rehearsal.report(&plan));
    assert!(suspended.contains(&FindingKind::Suspended) && !suspended.contains(&paused));
    rehearsal.record.suspended = 300 * MS;
    assert!(
        kinds(&rehearsal.report(&plan)).contains(&paused),
        "a longer one has another cause"
    );
}
