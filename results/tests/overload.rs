//! Overloads of queues that are simulated in virtual time: their verdicts are those of queueing
//! theory, whatever the seed.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test all overload` writes them again when
//! a change is meant.

#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the times and counts of a simulation are small"
)]

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use crawlmark_results::judge::{Finding, Limit};
use crawlmark_results::run::report::Verdict;
use crawlmark_results::studies::overload::{
    HeldBy, LOADS, Overload, OverloadFailure, OverloadOutcome, OverloadQuestion, OverloadSecond,
    OverloadVerdict,
};
use crawlmark_results::studies::{Conclusion, Header, RoundRun, StudyFinding, StudyResult};

use crate::{ended, golden, saved};

const MS: u64 = 1_000_000;
const S: u64 = 1_000 * MS;

/// Four workers that take 20 ms each.
const WORKERS: usize = 4;
const SERVICE_NS: u64 = 20 * MS;
const CAPACITY: f64 = 200.0;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Queue {
    Fifo,
    Lifo,
    Bounded(usize),
}

/// A queue and its clients.
#[derive(Debug, Clone, Copy)]
struct Case {
    queue: Queue,
    timeout_ns: u64,
    /// Retries per request at most, of which all requests together earn one each.
    retries: u32,
    stages_s: [u64; 3],
    is_poisson: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The n-th attempt of a request.
    Send(u32),
    Served(usize),
    GiveUp(usize),
}

struct Attempt {
    sent_ns: u64,
    number: u32,
    is_over: bool,
}

struct Simulation {
    case: Case,
    draw: fastrand::Rng,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    order: u64,
    attempts: Vec<Attempt>,
    waiting: VecDeque<usize>,
    busy: usize,
    budget: u64,
    open: u32,
    seconds: Vec<OverloadSecond>,
    times_us: Vec<Vec<f64>>,
}

impl Simulation {
    /// The seconds of a run.
    fn run(case: Case, seed: u64) -> Vec<OverloadSecond> {
        let length: u64 = case.stages_s.iter().sum();
        let mut all = Self {
            case,
            draw: fastrand::Rng::with_seed(seed),
            events: BinaryHeap::new(),
            order: 0,
            attempts: Vec::new(),
            waiting: VecDeque::new(),
            busy: 0,
            budget: 100,
            open: 0,
            seconds: (0..length)
                .map(|start_s| OverloadSecond {
                    start_s,
                    ..OverloadSecond::default()
                })
                .collect(),
            times_us: vec![Vec::new(); length as usize],
        };
        let mut from_s = 0;
        for (load, s) in LOADS.iter().zip(case.stages_s) {
            let per_s = load * CAPACITY;
            // Even gaps begin at a random part of one.
            let mut at_s = from_s as f64 + all.draw.f64() / per_s;
            while at_s < (from_s + s) as f64 {
                all.at((at_s * 1e9) as u64, Event::Send(0));
                at_s += if case.is_poisson {
                    -(1.0 - all.draw.f64()).ln() / per_s
                } else {
                    1.0 / per_s
                };
            }
            from_s += s;
        }
        let mut second = 0;
        while let Some(Reverse((now_ns, _, event))) = all.events.pop() {
            while second < length && now_ns >= (second + 1) * S {
                all.seconds[second as usize].in_flight = all.open;
                second += 1;
            }
            if second == length {
                break;
            }
            all.happen(now_ns, event);
        }
        for (of, mut times) in all.seconds.iter_mut().zip(all.times_us) {
            times.sort_by(f64::total_cmp);
            of.response_p50_us = times.get(times.len() / 2).copied();
        }
        all.seconds
    }

    fn at(&mut self, ns: u64, event: Event) {
        self.order += 1;
        self.events.push(Reverse((ns, self.order, event)));
    }

    fn happen(&mut self, now_ns: u64, event: Event) {
        let second = (now_ns / S) as usize;
        match event {
            Event::Send(number) => {
                let attempt = self.attempts.len();
                self.attempts.push(Attempt {
                    sent_ns: now_ns,
                    number,
                    is_over: false,
                });
                self.open += 1;
                self.seconds[second].sent += 1;
                if number == 0 {
                    self.seconds[second].offered += 1.0;
                    self.budget = (self.budget + 1).min(1_000);
                } else {
                    self.seconds[second].retries += 1;
                }
                let waiting = self.waiting.len();
                if matches!(self.case.queue, Queue::Bounded(places) if self.busy == WORKERS && waiting >= places)
                {
                    self.seconds[second].refused += 1;
                    self.fail(now_ns, attempt);
                    return;
                }
                self.waiting.push_back(attempt);
                self.at(now_ns + self.case.timeout_ns, Event::GiveUp(attempt));
                if self.busy < WORKERS {
                    self.serve(now_ns);
                }
            }
            Event::Served(attempt) => {
                self.busy -= 1;
                let of = &mut self.attempts[attempt];
                if !of.is_over {
                    of.is_over = true;
                    self.open -= 1;
                    self.seconds[second].good += 1;
                    let time_us = (now_ns - of.sent_ns) as f64 / 1e3;
                    self.times_us[(of.sent_ns / S) as usize].push(time_us);
                }
                self.serve(now_ns);
            }
            Event::GiveUp(attempt) if !self.attempts[attempt].is_over => {
                self.seconds[second].timed_out += 1;
                self.fail(now_ns, attempt);
            }
            Event::GiveUp(_) => {}
        }
    }

    /// Begin the next request, whether its client is there or not.
    fn serve(&mut self, now_ns: u64) {
        let next = match self.case.queue {
            Queue::Lifo => self.waiting.pop_back(),
            Queue::Fifo | Queue::Bounded(_) => self.waiting.pop_front(),
        };
        if let Some(next) = next {
            self.busy += 1;
            self.at(now_ns + SERVICE_NS, Event::Served(next));
        }
    }

    fn fail(&mut self, now_ns: u64, attempt: usize) {
        let of = &mut self.attempts[attempt];
        of.is_over = true;
        self.open -= 1;
        let number = of.number + 1;
        if number <= self.case.retries && self.budget > 0 {
            self.budget -= 1;
            let most_ns = (100 * MS) << (number - 1);
            let wait_ns = self.draw.u64(0..most_ns);
            self.at(now_ns + wait_ns, Event::Send(number));
        }
    }
}

fn question(stages_s: [u64; 3], within_s: u64) -> OverloadQuestion {
    let line = "crawlmark overload http://127.0.0.1:8080/items/{id} --capacity 200/s";
    OverloadQuestion {
        command: line.split(' ').map(str::to_owned).collect(),
        capacity_per_s: CAPACITY,
        searched: false,
        offered_per_s: LOADS.map(|load| load * CAPACITY),
        stages_s,
        within_s,
        connections: 1_000,
        objectives: Vec::new(),
    }
}

fn judged(case: Case, within_s: u64, seed: u64) -> OverloadOutcome {
    let seconds = Simulation::run(case, seed);
    OverloadOutcome::of(&question(case.stages_s, within_s), &seconds, &[])
}

const FIFO: Case = Case {
    queue: Queue::Fifo,
    timeout_ns: 300 * MS,
    retries: 3,
    stages_s: [3, 4, 8],
    is_poisson: false,
};

/// The verdicts of both kinds of arrivals and ten seeds.
fn all_of(case: Case, within_s: u64, check: impl Fn(&OverloadOutcome) -> bool) {
    for is_poisson in [false, true] {
        let case = Case { is_poisson, ..case };
        for seed in 0..10 {
            let outcome = judged(case, within_s, seed);
            assert!(check(&outcome), "{case:?}, seed {seed}: {outcome:#?}");
        }
    }
}

#[test]
fn a_bounded_queue_refuses_and_recovers_at_once() {
    let case = Case {
        queue: Queue::Bounded(20),
        ..FIFO
    };
    all_of(case, 1, |of| {
        let is_kept = of.stages[1].good_per_s > 0.95 * CAPACITY;
        is_kept
            && of.verdict == Some(OverloadVerdict::Recovers)
            && of.failure == Some(OverloadFailure::Refuses)
    });
}

#[test]
fn the_latest_first_recovers_at_once_while_the_others_time_out() {
    let case = Case {
        queue: Queue::Lifo,
        ..FIFO
    };
    all_of(case, 2, |of| {
        of.verdict == Some(OverloadVerdict::Recovers)
            && of.failure == Some(OverloadFailure::TimesOut)
    });
}

#[test]
fn a_queue_without_a_bound_is_stuck_by_its_retries() {
    all_of(FIFO, 4, |of| {
        of.verdict == Some(OverloadVerdict::Stuck)
            && of.failure == Some(OverloadFailure::Collapses)
            && of.held_by == Some(HeldBy::Retries)
            && of.drain_s.is_none()
    });
}

#[test]
fn without_retries_it_drains_in_the_time_that_theory_gives() {
    // 0.5 C for 4 s are 2 s of work; at 0.3 C, 300 ms of it are left after (2 - 0.3) / 0.3 = 5.7 s.
    let case = Case {
        retries: 0,
        stages_s: [3, 4, 12],
        ..FIFO
    };
    for (within_s, verdict) in [(4, OverloadVerdict::Slow), (7, OverloadVerdict::Recovers)] {
        all_of(case, within_s, |of| {
            let all_s = of.drain_s.unwrap();
            of.verdict == Some(verdict)
                && of.recovery_s.is_some_and(|s| (5..=7).contains(&s))
                && (4.5..9.0).contains(&all_s)
        });
    }
    // A run that ends before is not told from one that never recovers, but for what holds it.
    let case = Case {
        stages_s: [3, 4, 4],
        ..case
    };
    all_of(case, 4, |of| {
        of.verdict == Some(OverloadVerdict::Stuck) && of.held_by == Some(HeldBy::Queue)
    });
}

#[test]
fn patient_clients_see_a_queue() {
    let case = Case {
        timeout_ns: 60 * S,
        ..FIFO
    };
    all_of(case, 1, |of| {
        of.verdict == Some(OverloadVerdict::Recovers) && of.failure == Some(OverloadFailure::Queues)
    });
}

/// The seconds of a target that sends each response so long after its request, or after what it
/// serves in turn before.
fn answered(
    stages_s: [u64; 3],
    is_poisson: bool,
    latency_s: impl Fn(usize) -> f64,
    turn_s: f64,
) -> Vec<OverloadSecond> {
    let mut draw = fastrand::Rng::with_seed(7);
    let mut times: Vec<[f64; 2]> = Vec::new();
    let (mut from_s, mut free_s) = (0.0, 0.0_f64);
    for (load, s) in LOADS.iter().zip(stages_s) {
        let per_s = load * CAPACITY;
        let mut at_s = from_s + draw.f64() / per_s;
        from_s += s as f64;
        while at_s < from_s {
            free_s = free_s.max(at_s) + turn_s;
            times.push([at_s, free_s + latency_s(times.len())]);
            at_s += if is_poisson {
                -(1.0 - draw.f64()).ln() / per_s
            } else {
                1.0 / per_s
            };
        }
    }
    let second = |start_s: u64| {
        let is_in = |s: f64| s as u64 == start_s;
        let end_s = (start_s + 1) as f64;
        let sent = times.iter().filter(|of| is_in(of[0]));
        let mut times_us: Vec<f64> = sent.map(|[at, end]| (end - at) * 1e6).collect();
        times_us.sort_by(f64::total_cmp);
        let in_flight = times.iter().filter(|of| of[0] < end_s && of[1] >= end_s);
        OverloadSecond {
            start_s,
            offered: times_us.len() as f64,
            sent: times_us.len() as u64,
            good: times.iter().filter(|of| is_in(of[1])).count() as u64,
            in_flight: in_flight.count() as u32,
            response_p50_us: times_us.get(times_us.len() / 2).copied(),
            ..OverloadSecond::default()
        }
    };
    (0..stages_s.iter().sum()).map(second).collect()
}

#[test]
fn a_target_that_answers_everything_is_neither_overloaded_nor_unsteady() {
    let first =
        |seconds: Vec<OverloadSecond>, stages_s| study(question(stages_s, 2), seconds, Vec::new());
    for is_poisson in [false, true] {
        for stages_s in [[2, 2, 2], [3, 4, 4], [5, 2, 2], [10, 10, 20]] {
            for latency_s in [0.001, 0.2, 0.8, 1.5, 1.9] {
                let all = answered(stages_s, is_poisson, |_| latency_s, 0.0);
                let of = first(all, stages_s);
                let found = of.findings();
                assert!(
                    matches!(found[..], [StudyFinding::KeptUp { .. }]),
                    "{latency_s} s, {stages_s:?}, {is_poisson}: {found:#?}"
                );
            }
        }
        // Half of the responses are fast.
        let stages_s = [5, 4, 4];
        let all = answered(stages_s, is_poisson, |of| [0.02, 2.0][of % 2], 0.0);
        let found = first(all, stages_s).findings();
        assert!(
            matches!(found[..], [StudyFinding::KeptUp { .. }]),
            "{found:#?}"
        );
        // Patient clients of a queue wait for all, too: for what it serves, not for its latency.
        for latency_s in [0.02, 0.8] {
            for (turn_s, is_before) in [(1.0 / 110.0, true), (1.0 / CAPACITY, false)] {
                let stages_s = [6, 6, 6];
                let all = answered(stages_s, is_poisson, |_| latency_s, turn_s);
                let found = first(all, stages_s).findings();
                let is_queue = matches!(found[0], StudyFinding::NotSteady { .. }) == is_before
                    && !found
                        .iter()
                        .any(|of| matches!(of, StudyFinding::KeptUp { .. }));
                assert!(is_queue, "{latency_s} s, {turn_s} s: {found:#?}");
            }
        }
    }
}

#[test]
fn what_is_late_before_the_overload_is_blamed_on_objective_or_client() {
    let mut seconds = answered([3, 4, 4], false, |_| 0.02, 0.0);
    for good in [0, 20] {
        for of in &mut seconds {
            let ended = of.good + of.late;
            (of.good, of.late) = (good, ended - good);
        }
        let of = |findings| study(question([3, 4, 4], 4), seconds.clone(), findings).findings();
        let late = of(Vec::new())[0].notice();
        assert!(late.title.starts_with("Late"), "{late:?}");
        assert!(late.remedy.contains("--objective"), "{late:?}");
        let starved = Finding::CpuFull { share: 0.99 };
        let found = of(vec![starved.clone()]);
        assert!(
            matches!(&found[..], [StudyFinding::InRounds { finding, .. }] if *finding == starved),
            "{found:#?}"
        );
    }
}

/// A study of these seconds.
fn study(
    question: OverloadQuestion,
    seconds: Vec<OverloadSecond>,
    findings: Vec<Finding>,
) -> Overload {
    let report = saved();
    let times = ["2026-11-30T10:00:00.000Z", "2026-11-30T10:00:15.000Z"];
    Overload {
        outcome: OverloadOutcome::of(&question, &seconds, &findings),
        header: Header::new::<Overload>("overload", times),
        question,
        environment: report.environment,
        run: RoundRun {
            result: Some("rounds/overload".to_owned()),
            started_at: times[0].to_owned(),
            finished_at: times[1].to_owned(),
            validity: Verdict::TargetLimited,
            findings,
        },
        seconds,
    }
}

fn stuck() -> Overload {
    study(
        question(FIFO.stages_s, 4),
        Simulation::run(FIFO, 1),
        Vec::new(),
    )
}

#[test]
fn a_study_is_said_drawn_and_saved() {
    let stuck = stuck();
    assert_eq!(stuck.conclusion(), Conclusion::Failed);
    let json = stuck.json().unwrap();
    let back: Overload = serde_json::from_str(&json).unwrap();
    assert_eq!(back, stuck);
    let plots = stuck.plots();
    assert!(!plots[0].is_empty);
    golden("overload.txt", &ended(&stuck));
    golden("overload.md", &stuck.doc().markdown());
    golden("overload.svg", &plots[0].svg);
}

/// Studies with every finding.
pub(crate) fn with_findings() -> Vec<Overload> {
    let stuck = stuck();
    let mut limited = stuck.clone();
    limited.run.findings = vec![Finding::CpuFull { share: 0.99 }];
    let mut kept_up = stuck.seconds.clone();
    let mut low = stuck.seconds.clone();
    for of in &mut kept_up {
        (of.good, of.response_p50_us) = (of.offered as u64, Some(20_000.0));
    }
    for of in &mut low {
        of.good = 50;
    }
    vec![
        study(stuck.question.clone(), kept_up, Vec::new()),
        study(stuck.question.clone(), low, Vec::new()),
        limited,
        stuck,
    ]
}

#[test]
fn responses_that_miss_an_objective_are_late_and_no_goodput() {
    // Patient clients of an unbounded queue: without an objective, it only queues and recovers.
    let case = Case {
        timeout_ns: 60 * S,
        stages_s: [3, 4, 5],
        ..FIFO
    };
    let question = |objectives| OverloadQuestion {
        objectives,
        ..question(case.stages_s, 4)
    };
    let mut seconds = Simulation::run(case, 1);
    let without = OverloadOutcome::of(&question(Vec::new()), &seconds, &[]);
    assert_eq!(without.verdict, Some(OverloadVerdict::Recovers));
    for of in &mut seconds {
        if of.response_p50_us.is_none_or(|us| us >= 200_000.0) {
            (of.good, of.late) = (0, of.good);
        }
    }
    let late = study(
        question(vec!["response < 200ms".parse().unwrap()]),
        seconds,
        Vec::new(),
    );
    assert_eq!(late.outcome.verdict, Some(OverloadVerdict::Stuck));
    assert_eq!(late.outcome.failure, Some(OverloadFailure::Collapses));
    let text = late.doc().markdown();
    assert!(
        text.contains("objectives") && text.contains("late/s"),
        "{text}"
    );
    // Some that miss it, beside fewer that fail, are a queue.
    let mut seconds = late.seconds.clone();
    for of in &mut seconds[3..7] {
        (of.good, of.late, of.timed_out) = (120, 80, 10);
    }
    let queues = OverloadOutcome::of(&late.question, &seconds, &[]);
    assert_eq!(queues.failure, Some(OverloadFailure::Queues));
}

#[test]
fn a_run_that_was_interrupted_has_what_is_known_and_no_verdict() {
    let report = saved();
    let header = Header {
        interrupted: true,
        ..Header::new::<Overload>("overload", ["2026-11-30T10:00:00.000Z"; 2])
    };
    let length = report.intervals.len() as u64;
    // All that there is came before the overload.
    let question = question([length, 4, 8], 4);
    let cut = Overload::new(header, question, &report, "rounds/overload".to_owned());
    let outcome = &cut.outcome;
    assert_eq!((outcome.verdict, outcome.failure), (None, None));
    assert!(outcome.stages[0].good_per_s > 0.0, "{outcome:#?}");
    assert_eq!(cut.conclusion(), Conclusion::Inconclusive);
    let shown: Vec<_> = cut.shown().iter().map(StudyFinding::kind).collect();
    assert_eq!(shown.first(), Some(&"Interrupted"), "{shown:?}");
    let text = ended(&cut);
    assert!(
        text.contains("\n  before ") && !text.contains("\n  after "),
        "{text}"
    );
}

#[test]
fn a_load_that_is_none_has_no_verdict() {
    let all = with_findings();
    for of in &all[..2] {
        assert_eq!(
            (of.outcome.verdict, of.conclusion()),
            (None, Conclusion::Inconclusive)
        );
    }
    assert!(matches!(all[0].findings()[0], StudyFinding::KeptUp { .. }));
    assert!(matches!(
        all[1].findings()[0],
        StudyFinding::NotSteady { .. }
    ));
}

#[test]
fn a_client_that_was_the_limit_gives_no_verdict() {
    let stuck = stuck();
    for limit in [Limit::Connections, Limit::PerHostConnections] {
        let finding = Finding::NeverSent {
            share: 0.7,
            count: 1_299,
            limit,
            by_deadline: false,
        };
        let limited = study(
            stuck.question.clone(),
            stuck.seconds.clone(),
            vec![Finding::CpuFull { share: 0.99 }, finding.clone()],
        );
        let outcome = &limited.outcome;
        assert_eq!(
            (outcome.verdict, outcome.failure, outcome.recovery_s),
            (None, None, None)
        );
        assert_eq!(limited.conclusion(), Conclusion::Inconclusive);
        let found = limited.findings();
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(matches!(&found[0], StudyFinding::InRounds { finding: of, .. } if *of == finding));
        assert!(!found[0].notice().remedy.is_empty());
    }
}

#[test]
fn a_target_is_stuck_only_if_it_was_watched_for_the_limit() {
    for after in 0..8_u64 {
        let seconds = Simulation::run(FIFO, 1);
        let watched = &seconds[..7 + after as usize];
        let outcome = OverloadOutcome::of(&question(FIFO.stages_s, 4), watched, &[]);
        let is_stuck = outcome.verdict == Some(OverloadVerdict::Stuck);
        assert_eq!(is_stuck, after >= 4, "{after}: {outcome:#?}");
    }
}

#[test]
fn a_figure_is_the_one_that_was_judged() {
    // 140/s before; 200/s in the first half of the overload, and nothing in the second.
    let mut seconds = stuck().seconds;
    for (of, good) in seconds[3..7].iter_mut().zip([200, 200, 0, 0]) {
        of.good = good;
    }
    let study = study(question(FIFO.stages_s, 4), seconds, Vec::new());
    assert_eq!(study.outcome.failure, Some(OverloadFailure::Collapses));
    let of_failure = |of: &StudyFinding| match of {
        StudyFinding::FailsBy { good_per_s, .. } => Some(good_per_s[1]),
        _ => None,
    };
    assert_eq!(study.findings().iter().find_map(of_failure), Some(0.0));
}

#[test]
fn without_a_good_response_nothing_is_said_of_the_capacity() {
    let mut seconds = stuck().seconds;
    for of in &mut seconds {
        (of.good, of.response_p50_us) = (0, None);
    }
    let none = study(question(FIFO.stages_s, 4), seconds, Vec::new());
    let found = none.findings();
    assert_eq!((none.outcome.verdict, found.len()), (None, 1));
    let low = &with_findings()[1];
    assert_ne!(found[0].notice().remedy, low.findings()[0].notice().remedy);
    assert_eq!(
        [none.main_figures().len(), low.main_figures().len()],
        [1; 2]
    );
}

#[test]
fn what_holds_a_target_is_told_apart() {
    let stuck = stuck();
    let of = |question: OverloadQuestion, change: fn(&mut OverloadSecond)| {
        let mut seconds = stuck.seconds.clone();
        seconds[7..].iter_mut().for_each(change);
        OverloadOutcome::of(&question, &seconds, &[])
    };
    let broken = of(stuck.question.clone(), |of| {
        (of.sent, of.in_flight, of.good) = (140, 1, 0);
    });
    assert_eq!(broken.held_by, Some(HeldBy::Failures));
    assert_eq!(broken.verdict, Some(OverloadVerdict::Stuck));
    // A second that is back between others is none.
    let mut seconds = stuck.seconds.clone();
    seconds[10].good = 140;
    let outcome = OverloadOutcome::of(&stuck.question, &seconds, &[]);
    assert_eq!(outcome.recovery_s, None);
    // One that is not, of many that are, does not count.
    seconds[9..].iter_mut().for_each(|of| of.good = 140);
    let last = seconds[14].clone();
    seconds.extend((15..30).map(|start_s| OverloadSecond {
        start_s,
        ..last.clone()
    }));
    seconds[20].good = 20;
    let outcome = OverloadOutcome::of(&stuck.question, &seconds, &[]);
    assert_eq!(outcome.recovery_s, Some(2));
    // Neither a goodput that comes and goes, nor one that stays a little below.
    for good in [[270, 10], [100, 100]] {
        for (of, good) in seconds[7..].iter_mut().zip(good.into_iter().cycle()) {
            of.good = good;
        }
        let outcome = OverloadOutcome::of(&stuck.question, &seconds, &[]);
        assert_eq!(outcome.recovery_s, None, "{good:?}");
    }
}

#[test]
fn a_target_that_keeps_up_later_and_later_queues() {
    let mut seconds = with_findings()[0].seconds.clone();
    for (ms, failure) in [(50.0, None), (100.0, Some(OverloadFailure::Queues))] {
        for of in &mut seconds[3..7] {
            (of.timed_out, of.response_p50_us) = (0, Some(ms * 1e3));
        }
        let outcome = OverloadOutcome::of(&question(FIFO.stages_s, 4), &seconds, &[]);
        assert_eq!(outcome.failure, failure, "{ms} ms");
    }
}
