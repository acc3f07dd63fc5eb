//! A capacity from saved runs: when a probe speaks for or against its target, what the probes say
//! together, and the document.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test all capacity` writes them again when
//! a change is meant.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use std::time::Duration;

use base64::Engine;
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::SecondCounts;
use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{IntervalRow, Report, Verdict};
use crawlmark_results::studies::capacity::search::{
    Bounds, Pace, ProbeKind, ProbeResult, RateState, SearchStep,
};
use crawlmark_results::studies::capacity::{
    Capacity, ProbePlan, ProbeReport, Question, Refusals, SearchOutcome, judge, next_step,
};
use crawlmark_results::studies::{Header, StudyFinding, StudyResult, TargetUse};
use proptest::prelude::*;

use crate::golden;

/// A run of an open loop as it was saved once, of which a test changes what it is about: 5 seconds,
/// the first of them warm-up, in which all went well.
fn saved() -> Report {
    let mut report = crate::saved();
    let row = report
        .intervals
        .iter()
        .find(|row| row.attempts > 0)
        .unwrap()
        .clone();
    let row = |start_s| IntervalRow {
        start_s,
        counts: SecondCounts {
            attempts: 1_000,
            items: 1_000,
            ok: 1_000,
            not_found: 0,
            failed: 0,
            throttled: 0,
            aborted: 0,
            ..row.counts.clone()
        },
        scheduled: Some(1_000),
        ..row.clone()
    };
    report.intervals = (0..5).map(row).collect();
    report.plan.run.warmup = Duration::from_secs(1);
    report.plan.run.arrivals = Arrivals::Constant;
    report.schedule = None;
    report.stopped_by = None;
    report.totals.attempts = 5_000;
    report.totals.errors_by_kind.clear();
    report.totals.duration_s = 5.0;
    report.validity.verdict = Verdict::Valid;
    report.validity.verdicts.clear();
    let service = report.latency["service"].clone();
    report.latency.insert("response".to_owned(), service);
    if let Some(lag) = report.latency.get_mut("sched_lag") {
        (lag.p50_us, lag.p90_us, lag.p99_us) = (Some(10.0), Some(20.0), Some(50.0));
    }
    report
}

/// Replace a distribution by so many values of so many ns each.
fn set_times(report: &mut Report, series: &str, values: [(u64, u64); 2]) {
    let mut times = hdrhistogram::Histogram::<u64>::new(3).unwrap();
    for (ns, count) in values {
        times.record_n(ns, count).unwrap();
    }
    let mut bytes = Vec::new();
    let mut v2 = hdrhistogram::serialization::V2Serializer::new();
    hdrhistogram::serialization::Serializer::serialize(&mut v2, &times, &mut bytes).unwrap();
    let entry = report.latency.get_mut(series).unwrap();
    (entry.count, entry.censored) = (times.len(), 0);
    entry.hdr = Some(base64::engine::general_purpose::STANDARD.encode(bytes));
}

/// What was asked of a simulated target.
fn question(objectives: &[&str]) -> Question {
    Question {
        what: "--target-limit 4000/s:burst=100 | <b>".to_owned(),
        objectives: objectives
            .iter()
            .map(|text| text.parse().unwrap())
            .collect(),
        by_default: false,
        arrivals: Arrivals::Constant,
        bounds: Bounds {
            least: Pace::nearest(500.0),
            greatest: Pace::nearest(100_000.0),
            precision: 0.02,
        },
        warmup_s: 1.0,
        probe_s: 4.0,
        seed: 1,
    }
}

const SHARES: [&str; 2] = ["throttled_rate < 1%", "error_rate < 1%"];

fn judged(report: &Report, objectives: &[&str]) -> (ProbeResult, Vec<StudyFinding>) {
    judge(report, &question(objectives), true)
}

fn seen(report: &Report, objectives: &[&str]) -> ProbeResult {
    judged(report, objectives).0
}

/// Cause of the failure of a probe.
fn cause(report: &Report, objectives: &[&str]) -> Option<String> {
    let (seen, reasons) = judged(report, objectives);
    let reason = reasons.into_iter().next().filter(|_| seen.fails())?;
    Some(match reason {
        StudyFinding::Stopped { objective }
        | StudyFinding::Broken { objective, .. }
        | StudyFinding::TooSlow { objective, .. } => objective.metric.to_string(),
        StudyFinding::NoConnection { .. } => "connections".to_owned(),
        other => format!("{other:?}"),
    })
}

/// True if a probe failed by this metric.
fn fails_by(report: &Report, objectives: &[&str], metric: &str) -> bool {
    cause(report, objectives).as_deref() == Some(metric)
}

#[test]
fn shares_are_judged_after_the_warm_up_and_of_the_later_half() {
    let mut report = saved();
    assert_eq!(seen(&report, &SHARES), ProbeResult::Pass);
    // What a limit lets through at once is used up in the warm-up, or refuses there.
    report.intervals[0].throttled = 900;
    assert_eq!(seen(&report, &SHARES), ProbeResult::Pass, "warm-up");
    report.intervals[1].throttled = 30;
    assert_eq!(seen(&report, &SHARES), ProbeResult::Pass, "0.75 % of all");
    report.intervals[1].throttled = 0;
    report.intervals[4].throttled = 30;
    assert!(
        fails_by(&report, &SHARES, "throttled_rate"),
        "1.5 % of the later half"
    );
    let row = &mut report.intervals[4];
    (row.throttled, row.ok, row.failed) = (0, 900, 100);
    assert!(fails_by(&report, &SHARES, "error_rate"));
}

#[test]
fn a_share_that_met_the_objectives_of_each_request_is_an_objective_of_a_capacity() {
    const MET: [&str; 1] = ["goodput_share > 99%"];
    let mut report = saved();
    report.plan.run.objectives = vec!["response < 50ms".parse().unwrap()];
    report
        .intervals
        .iter_mut()
        .for_each(|row| row.counts.met = 995);
    assert_eq!(seen(&report, &MET), ProbeResult::Pass);
    // The later half alone.
    report.intervals[4].counts.met = 950;
    assert!(fails_by(&report, &MET, "goodput_share"));
    // Of a client that was disturbed, how many would have met them is not known.
    report.validity.verdict = Verdict::Disturbed;
    assert_eq!(seen(&report, &MET), ProbeResult::Void);
    report.intervals[4].counts.met = 995;
    assert_eq!(seen(&report, &MET), ProbeResult::Pass);
}

#[test]
fn what_this_side_may_have_done_says_nothing_of_the_target() {
    let slow = ["response_p50 < 1us"];
    let mut report = saved();
    report.environment.colocated = true;
    assert!(fails_by(&report, &slow, "response_p50"));
    for verdict in [
        Verdict::ClientLimited,
        Verdict::Disturbed,
        Verdict::BudgetLimited,
    ] {
        report.validity.verdict = verdict;
        assert_eq!(seen(&report, &slow), ProbeResult::Void, "{verdict:?}");
        let good_enough = seen(&report, &["response_p50 < 1h"]);
        assert_eq!(good_enough, ProbeResult::Pass, "{verdict:?}");
    }
    // A graver finding does not hide that.
    report.validity.verdict = Verdict::TargetLimited;
    assert_eq!(seen(&report, &slow), ProbeResult::Fail);
    report.validity.verdicts = vec![Verdict::ClientLimited, Verdict::TargetLimited];
    assert_eq!(seen(&report, &slow), ProbeResult::Void);
    // A refusal is the target's, however busy this machine was.
    report.intervals[4].throttled = 500;
    assert_eq!(seen(&report, &SHARES), ProbeResult::Fail);
    // But not of requests that came late, all at once.
    report.latency.get_mut("sched_lag").unwrap().p99_us = Some(1e9);
    assert_eq!(seen(&report, &SHARES), ProbeResult::Void);
    report.stopped_by = Some("error_rate < 50%".to_owned());
    assert_eq!(
        seen(&report, &SHARES),
        ProbeResult::Collapse,
        "not pushed again"
    );
    assert!(fails_by(&report, &SHARES, "error_rate"));
    let errors = &mut report.totals.errors_by_kind;
    errors.insert(ErrorKind::TooManyFiles, 3);
    assert_eq!(seen(&report, &SHARES), ProbeResult::Void);
}

#[test]
fn refusals_of_what_this_client_sent_in_bunches_say_nothing_of_the_target() {
    let mut report = saved();
    // Of 1,000 requests 50 came 40 ms late.
    set_times(&mut report, "sched_lag", [(10_000, 950), (40_000_000, 50)]);
    report.latency.get_mut("sched_lag").unwrap().p99_us = Some(40_000.0);
    let wanted = ["response_p99 < 1h", "throttled_rate < 1%"];
    // 10 % of the later half were refused, and 5 % came late.
    report.intervals[4].throttled = 200;
    let (seen_of, why) = judged(&report, &wanted);
    assert_eq!(seen_of, ProbeResult::Void);
    assert!(matches!(why[0], StudyFinding::Bunches { .. }), "{why:?}");
    report.intervals[4].throttled = 300;
    assert_eq!(seen(&report, &wanted), ProbeResult::Fail, "more than that");
}

#[test]
fn timeouts_may_be_of_a_busy_machine_and_other_failures_are_the_targets() {
    let wanted = ["response_p99 < 1h", "error_rate < 1%"];
    let mut report = saved();
    for row in &mut report.intervals {
        (row.ok, row.failed) = (900, 100);
    }
    report.validity.verdict = Verdict::TargetLimited;
    report.totals.errors_by_kind.insert(ErrorKind::Timeout, 500);
    assert!(fails_by(&report, &wanted, "error_rate"));
    report.validity.verdicts = vec![Verdict::ClientLimited, Verdict::TargetLimited];
    assert_eq!(seen(&report, &wanted), ProbeResult::Void);
    for kind in [ErrorKind::Closed, ErrorKind::ConnectRefused] {
        report.totals.errors_by_kind.clear();
        report.totals.errors_by_kind.insert(kind, 500);
        assert!(fails_by(&report, &wanted, "error_rate"), "{kind:?}");
    }
}

#[test]
fn an_objective_of_few_requests_is_broken_by_how_many() {
    let mut report = saved();
    // No more than three digits are kept: these may be 500 ms or less.
    set_times(
        &mut report,
        "response",
        [(20_000_000, 95), (499_900_000, 5)],
    );
    let entry = report.latency.get_mut("response").unwrap();
    (entry.p99_us, entry.max_us) = (None, Some(499_900.0));
    let (seen, why) = judged(&report, &["response_p99 < 499.9ms"]);
    assert_eq!(seen, ProbeResult::Fail);
    let StudyFinding::TooSlow {
        slow, all, allowed, ..
    } = why[0]
    else {
        unreachable!("{why:?}")
    };
    assert_eq!((slow, all, allowed), (5, 100, 1));
}

#[test]
fn a_lack_of_connections_is_the_targets_if_there_were_enough() {
    let mut report = saved();
    report.validity.verdict = Verdict::ConcurrencyLimited;
    let slow = ["response_p50 < 1us"];
    assert!(fails_by(&report, &slow, "connections"));
    let bounded = |report: &Report| judge(report, &question(&slow), false).0;
    assert_eq!(bounded(&report), ProbeResult::Void);
    // 200/s of 238/s: fewer answers than requests are the target's doing.
    for row in &mut report.intervals {
        (row.scheduled, row.attempts, row.items, row.ok) = (Some(238), 200, 200, 200);
    }
    assert_eq!(bounded(&report), ProbeResult::Fail);
}

#[test]
fn a_target_that_falls_behind_fails_before_its_times_are_too_long() {
    let wanted = ["response_p99 < 1h", "throttled_rate < 1%"];
    let mut report = saved();
    let answers = |report: &mut Report, each: u64| {
        for row in &mut report.intervals {
            (row.attempts, row.ok) = (each, each);
        }
    };
    answers(&mut report, 995);
    assert_eq!(
        seen(&report, &wanted),
        ProbeResult::Pass,
        "within the precision"
    );
    answers(&mut report, 970);
    let (seen_of, why) = judged(&report, &wanted);
    assert_eq!(
        (seen_of, why),
        (
            ProbeResult::Fail,
            vec![StudyFinding::FellBehind { per_s: 30.0 }]
        )
    );
    let probe = probe(1, 1_000.0, &report, &question(&wanted));
    assert!(
        (probe.accepted_per_s - 970.0).abs() < 1e-9,
        "what it answered"
    );
    report.validity.verdict = Verdict::Disturbed;
    (report.environment.colocated, report.target) = (true, None);
    assert_eq!(
        seen(&report, &wanted),
        ProbeResult::Void,
        "it may get slower, too"
    );
    for shard in &mut report.shards {
        shard.usage.cpu_share = Some(0.1);
    }
    report.environment.colocated = false;
    assert_eq!(seen(&report, &wanted), ProbeResult::Fail, "it is elsewhere");
    report.validity.verdict = Verdict::Valid;
    // The seconds after the last request was due only empty the queue, and the warm-up fills it.
    report.plan.run.duration = Some(Duration::from_secs(4));
    assert_eq!(
        seen(&report, &wanted),
        ProbeResult::Pass,
        "three seconds are too few"
    );
}

fn plan(number: usize, per_s: f64) -> ProbePlan {
    ProbePlan::new(number, Pace::nearest(per_s), ProbeKind::Full, true)
}

fn probe(number: usize, per_s: f64, report: &Report, question: &Question) -> ProbeReport {
    let result = format!("rounds/{number:03}");
    ProbeReport::new(plan(number, per_s), report, result, question)
}

/// A full probe, as its number, rate and result say.
fn probe_at(number: usize, per_s: f64, seen: ProbeResult) -> ProbeReport {
    let wanted = question(&SHARES);
    let reason = StudyFinding::Stopped {
        objective: wanted.objectives[0].clone(),
    };
    let reasons = Some(reason).filter(|_| seen != ProbeResult::Pass);
    ProbeReport {
        seen,
        reasons: reasons.into_iter().collect(),
        accepted_per_s: per_s,
        ..probe(number, per_s, &saved(), &wanted)
    }
}

/// A search of a target that sustains 4,000/s and whose times grow with the rate.
fn probes(question: &Question) -> (Vec<ProbeReport>, SearchOutcome) {
    let mut probes: Vec<ProbeReport> = Vec::new();
    loop {
        let (pace, kind) = match next_step(question, &probes) {
            SearchStep::Done(ending) => return (probes, ending),
            SearchStep::Probe(pace, kind) => (pace, kind),
        };
        let (number, rate) = (probes.len() + 1, pace.per_s());
        let void = StudyFinding::Late {
            share: 0.01,
            us: 5_000.0,
        };
        let broken = StudyFinding::Broken {
            objective: question.objectives[1].clone(),
            value: 0.031,
            at_least: false,
        };
        let (seen, reason) = match () {
            () if kind == ProbeKind::Random => (ProbeResult::Pass, None),
            () if number == 5 => (ProbeResult::Void, Some(void)),
            () if rate <= 4_000.0 => (ProbeResult::Pass, None),
            () if rate > 7_000.0 => (ProbeResult::Collapse, Some(broken)),
            () => (ProbeResult::Fail, Some(broken)),
        };
        let us = 1e6 / (4_400.0 - rate.min(4_350.0));
        probes.push(ProbeReport {
            plan: ProbePlan::new(number, pace, kind, true),
            reasons: reason.into_iter().collect(),
            response_p50_us: Some(us / 2.0),
            response_p99_us: Some(us),
            response_p99_at_least: false,
            ..probe_at(number, rate, seen)
        });
    }
}

fn concluded(question: Question, probes: Vec<ProbeReport>, end: Option<SearchOutcome>) -> Capacity {
    let header = Header {
        crawlmark_version: "0.1.0".to_owned(),
        ..Header::new::<Capacity>("nightly", ["2026-11-22T10:00:00.000Z"; 2])
    };
    Capacity::new(header, question, saved().environment, probes, end)
}

fn capacity() -> Capacity {
    let question = question(&["response_p99 < 50ms", "throttled_rate < 1%"]);
    let (probes, ending) = probes(&question);
    concluded(question, probes, Some(ending))
}

/// The first caveat of a capacity.
fn caveat(capacity: &Capacity) -> StudyFinding {
    capacity.findings().swap_remove(1)
}

#[test]
fn a_search_is_told_in_text_and_markdown() {
    let capacity = capacity();
    assert_eq!(capacity.outcome, SearchOutcome::Found);
    let (pass, fail) = (
        capacity.capacity_per_s.unwrap(),
        capacity.fails_at_per_s.unwrap(),
    );
    assert!(
        pass <= 4_000.0 && 4_000.0 < fail && fail / pass <= 1.02,
        "{pass} to {fail}"
    );
    golden("capacity.txt", &crate::ended(&capacity));
    golden("capacity.md", &capacity.doc().markdown());
}

#[test]
fn not_found_responses_are_no_good_ones() {
    let mut report = saved();
    let question = question(&SHARES);
    for (missing, accepted) in [(250, 3_000.0), (1_000, 0.0)] {
        for row in &mut report.intervals {
            (row.ok, row.not_found) = (1_000 - missing, missing);
        }
        let probes = (1..=3).map(|number| probe(number, 4_000.0, &report, &question));
        let end = Some(SearchOutcome::NotReached);
        let capacity = concluded(question.clone(), probes.collect(), end);
        let share = missing as f64 / 1_000.0;
        assert_eq!(caveat(&capacity), StudyFinding::NotFound { share });
        let expected = Some(accepted).filter(|accepted| *accepted > 0.0);
        assert_eq!(capacity.capacity_per_s, expected);
        let is_confirmed = capacity.outcome == SearchOutcome::NotReached;
        assert_eq!(is_confirmed, expected.is_some());
    }
}

/// A probe that was refused after its first second, and let so many through per second then.
fn refused(number: usize, per_s: f64, let_through: u64) -> ProbeReport {
    ProbeReport {
        error_share: 0.9,
        refusals: Some(Refusals {
            by_s: 1.0,
            let_through,
            seconds: 1.0,
        }),
        ..probe_at(number, per_s, ProbeResult::Fail)
    }
}

#[test]
fn a_limit_is_what_most_refused_probes_agree_on() {
    let limit = |readings: &[(f64, u64)]| {
        let probes = readings.iter().zip(1..);
        let probes = probes.map(|((per_s, read), number)| refused(number, *per_s, *read));
        concluded(question(&SHARES), probes.collect(), None).limit_per_s
    };
    // A sliding window of 30 s, read with a probe of 5 s.
    let window = [
        (800.0, 0),
        (566.0, 50),
        (476.0, 97),
        (436.0, 109),
        (418.0, 0),
        (228.0, 97),
    ];
    assert_eq!(limit(&window), None);
    assert_eq!(
        limit(&[(800.0, 150), (566.0, 150), (476.0, 100)]),
        Some(149.0)
    );
}

/// A search that was refused everything at a rate below one that passed.
fn used_up(per_s: f64) -> Capacity {
    let mut last = probe_at(3, per_s, ProbeResult::Collapse);
    (last.counted.throttled, last.counted.good) = (last.counted.attempts, 0);
    let passed = [(1, 500.0), (2, 1_000.0)];
    let mut probes = passed
        .map(|(number, per_s)| probe_at(number, per_s, ProbeResult::Pass))
        .to_vec();
    probes.push(last);
    concluded(question(&SHARES), probes, None)
}

#[test]
fn requests_that_are_all_refused_after_others_passed_tell_of_a_longer_limit() {
    let tells = |per_s| matches!(caveat(&used_up(per_s)), StudyFinding::LongerPeriod { .. });
    assert!(tells(900.0));
    assert!(!tells(2_000.0), "none passed at that rate");
}

/// Searches that have every finding of a search, and those of a load on the target.
pub(crate) fn with_findings() -> Vec<Capacity> {
    let mut question = question(&["response_p99 < 50ms", "throttled_rate < 1%"]);
    let (mut probes, ending) = probes(&question);
    for probe in &mut probes {
        probe.counted.not_found = probe.counted.attempts / 2;
        probe.throttled_share = 0.5;
    }
    probes[0] = ProbeReport {
        throttled_share: 0.5,
        ..refused(1, 100.0, 9)
    };
    probes[0].plan.kind = ProbeKind::Random;
    (question.arrivals, question.bounds.precision) = (Arrivals::Poisson, 1e-3);
    let mut doubtful = concluded(question, probes, Some(ending));
    (doubtful.out_of_time, doubtful.header.interrupted) = (true, true);
    let drops = Finding::ListenDrops { drops: 9, limit: 8 };
    vec![doubtful, used_up(900.0), loaded(&[drops]), loaded(&[])]
}

/// Kinds of reasons for a probe that is no pass, whether judged above or made here.
pub(crate) fn reasons() -> [&'static str; 12] {
    [
        "NoPort",
        "Late",
        "SentTooFew",
        "Disturbed",
        "Bunches",
        "Burst",
        "Stopped",
        "NoConnection",
        "Broken",
        "TooSlow",
        "Unmeasured",
        "FellBehind",
    ]
}

/// A search of a target that ran out of this.
fn loaded(ran_out: &[Finding]) -> Capacity {
    let question = question(&["response_p99 < 50ms", "throttled_rate < 1%"]);
    let (mut probes, ending) = probes(&question);
    for probe in &mut probes {
        probe.target = Some(TargetUse {
            ran_out: ran_out.to_vec(),
            ..TargetUse::default()
        });
    }
    concluded(question, probes, Some(ending))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Whatever a target does: what is stated follows from the rows of the table. What passed all
    /// of its probes is not above the capacity that is stated, and what fails is not below it.
    #[test]
    fn a_capacity_never_contradicts_its_probes(
        limit in 20..5_000_u32, seed in any::<u64>(), noise in 0.0..0.3_f64, burst in 0.0..0.5_f64,
    ) {
        let mut draw = fastrand::Rng::with_seed(seed);
        let mut question = question(&SHARES);
        question.bounds.least = Pace::nearest(10.0);
        let mut probes: Vec<ProbeReport> = Vec::new();
        let end = loop {
            let (pace, kind) = match next_step(&question, &probes) {
                SearchStep::Done(ending) => break Some(ending),
                SearchStep::Probe(..) if probes.len() == 80 => break None,
                SearchStep::Probe(pace, kind) => (pace, kind),
            };
            let rate = pace.per_s();
            let is_above = rate > f64::from(limit) * (1.0 + burst * draw.f64());
            let seen = match draw.f64() {
                x if x < noise / 3.0 => ProbeResult::Void,
                x if x < noise => [ProbeResult::Pass, ProbeResult::Fail][draw.usize(..2)],
                _ if is_above => ProbeResult::Fail,
                _ => ProbeResult::Pass,
            };
            let number = probes.len() + 1;
            let spread = u64::from(limit) / 50;
            let read = u64::from(limit) - spread / 2 + draw.u64(..=spread);
            let read = if is_above { read } else { 0 };
            let probe = match seen {
                _ if kind == ProbeKind::Random => probe_at(number, rate, ProbeResult::Pass),
                ProbeResult::Fail => refused(number, rate, read),
                seen => probe_at(number, rate, seen),
            };
            let plan = ProbePlan::new(number, pace, kind, true);
            probes.push(ProbeReport { plan, ..probe });
        };
        let capacity = concluded(question, probes, end);
        let text = capacity.doc().terminal(200);
        let settled = [SearchOutcome::Found, SearchOutcome::Unconfirmed, SearchOutcome::NotReached];
        if let Some(passes_at) = capacity.passes_at_per_s {
            let found = capacity.capacity_per_s.unwrap();
            prop_assert!(found <= passes_at && found >= passes_at * 0.97, "{text}");
            prop_assert!(capacity.fails_at_per_s.is_none_or(|fails_at| passes_at < fails_at), "{text}");
            for rate in &capacity.rates {
                let all_pass = rate.tally.passes > 0 && rate.tally.fails + rate.tally.voids == 0;
                let is_settled = settled.contains(&capacity.outcome);
                prop_assert!(!all_pass || rate.rate_per_s <= passes_at || !is_settled, "{text}");
                let leans_to_fail = matches!(rate.state, RateState::SeemsToFail | RateState::Fails);
                prop_assert!(!leans_to_fail || rate.rate_per_s > passes_at, "{text}");
            }
        }
    }
}
