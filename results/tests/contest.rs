//! A comparison from saved runs: what a run reads as a round, what may be compared, and what is
//! said and drawn of it.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test contest` writes them again when a
//! change is meant.

#![expect(clippy::unwrap_used, reason = "a test may stop at the first surprise")]

use crawlmark_results::judge::Finding;
use crawlmark_results::run::report::{Report, TargetReport, Verdict};
use crawlmark_results::studies::compare::{
    Arm, CPU_PER_ATTEMPT, Contest, ContestContext, Disturbance, Execution, Metric, MetricVerdict,
    OK_SHARE, OrderSchedule, Overall, Per, Reading, Readings, Round, RoundProfile, RoundReport,
    SERVICE_P50, SERVICE_P99, Side, TARGET_CPU_PER_ATTEMPT, THROUGHPUT, Worse, readings_of_run,
    run_metrics,
};
use crawlmark_results::studies::differences::{Difference, comparable, differences};
use crawlmark_results::studies::scale::{self, Size};
use crawlmark_results::studies::scenarios::ScenarioReadings;
use crawlmark_results::studies::{Header, RoundRun, StudyFinding, StudyResult};

use crate::{golden, saved};

fn reading(value: f64) -> Reading {
    Reading::Gating(value)
}

fn coarse(value: f64) -> Reading {
    Reading::Coarse {
        value: Some(value),
        longer: 1.25,
    }
}

/// Rounds of pairs whose candidate takes `loss` more of everything, with a little noise that
/// repeats.
fn rounds(pairs: usize, loss: f64) -> Vec<RoundReport> {
    let round = |pair: usize, arm: Arm, noise: f64| {
        let factor = noise
            * if arm == Arm::Candidate {
                1.0 + loss
            } else {
                1.0
            };
        RoundReport {
            pair,
            executions: Vec::new(),
            profile: None,
            shape: None,
            measured_s: Some(30.0),
            run: RoundRun {
                result: Some(format!("rounds/{pair:03}-{arm}")),
                started_at: format!("2026-01-01T00:{:02}:00.000Z", pair % 60),
                finished_at: format!("2026-01-01T00:{:02}:30.000Z", pair % 60),
                validity: Verdict::Valid,
                findings: Vec::new(),
            },
            round: Round {
                arm,
                disturbance: Disturbance::None,
                readings: Readings::from_iter([
                    (CPU_PER_ATTEMPT, reading(20.0 * noise)),
                    (THROUGHPUT, reading(1_000.0 / factor)),
                    (OK_SHARE, reading(1.0)),
                    (SERVICE_P50, reading(20_000.0 * factor)),
                    (SERVICE_P99, coarse(30_000.0 * factor)),
                ]),
            },
        }
    };
    let mut rounds = Vec::new();
    for (number, first) in OrderSchedule::new(3).take(pairs).enumerate() {
        for arm in first.and_other() {
            let seed = 2 * number + arm as usize;
            rounds.push(round(number + 1, arm, 1.0 + (seed * 7 % 11) as f64 * 1e-3));
        }
    }
    rounds
}

/// Start and end of a comparison.
const TIMES: [&str; 2] = ["2026-01-01T00:00:00.000Z"; 2];

fn contest(rounds: Vec<RoundReport>) -> Contest {
    let side = |name: &str, what: &str| Side {
        name: name.to_owned(),
        what: what.to_owned(),
    };
    let circumstances = ContestContext {
        header: Header::new::<Contest>("nightly", TIMES),
        base: side("base", "--target-latency 20ms"),
        candidate: side("candidate", "a | b <c>"),
        differences: vec![Difference {
            what: "plan.connections".to_owned(),
            base: "8".to_owned(),
            candidate: "9".to_owned(),
        }],
        noise_floor: None,
        not_profiled: None,
    };
    Contest::new(&run_metrics(), rounds, circumstances).unwrap()
}

#[test]
fn what_surely_got_worse_is_told_before_what_varies() {
    let mut rounds = rounds(20, 0.0);
    for of in &mut rounds {
        let varying = [0.8, 1.3][(of.pair + of.round.arm as usize) % 2];
        let readings = &mut of.round.readings;
        readings.set(THROUGHPUT, reading(1_000.0 * varying));
        let worse = [1.0, 1.5][of.round.arm as usize];
        readings.set(SERVICE_P99, coarse(30_000.0 * worse));
    }
    let findings = contest(rounds).findings();
    let StudyFinding::Comparison {
        verdict, metrics, ..
    } = &findings[0]
    else {
        panic!("{findings:?}")
    };
    let names: Vec<&str> = metrics.iter().map(|one| &*one.metric.name).collect();
    assert_eq!(
        (*verdict, &names[..]),
        (Overall::Inconclusive, &[SERVICE_P99, THROUGHPUT][..])
    );
}

#[test]
fn a_run_reads_as_its_good_items_its_cpu_and_its_times() {
    let mut report = saved();
    report.shards[0].usage.cpu_user_s = Some(0.1);
    let read = readings_of_run(&report);
    assert!(
        report.totals.ok_per_s < report.totals.items_per_s,
        "some failed"
    );
    assert_eq!(read.of(THROUGHPUT).value(), Some(report.totals.ok_per_s));
    assert_eq!(
        read.of(SERVICE_P50).value(),
        report.latency["service"].p50_us
    );
    assert!(matches!(read.of(CPU_PER_ATTEMPT), Reading::Gating(us) if us > 0.0));
    assert_eq!(read.of(TARGET_CPU_PER_ATTEMPT), Reading::Absent);
    // Known, the target's CPU decides in place of the client's: no more than four metrics may.
    let each = 200_000.0 / report.totals.attempts as f64;
    report.plan.run.workload.bundled = None;
    report.target = Some(TargetReport {
        cpu_us: Some(200_000.0),
        cpu_us_per_attempt: Some(each),
        ..TargetReport::default()
    });
    let read = readings_of_run(&report);
    assert_eq!(read.of(TARGET_CPU_PER_ATTEMPT), Reading::Gating(each));
    assert!(matches!(
        read.of(CPU_PER_ATTEMPT),
        Reading::Informational(_)
    ));
    report.target = None;
    // What a process costs beside its requests is too much of a few milliseconds.
    report
        .shards
        .iter_mut()
        .for_each(|shard| shard.usage.cpu_user_s = Some(0.001));
    let read = readings_of_run(&report);
    assert!(matches!(
        read.of(CPU_PER_ATTEMPT),
        Reading::Coarse { value: Some(us), longer } if us > 0.0 && longer > 1.0
    ));
    // What is only known to be no less decides nothing; what was not measured is absent.
    let service = report.latency.get_mut("service").unwrap();
    service.at_least = vec!["p50_us".to_owned()];
    service.p99_us = None;
    let read = readings_of_run(&report);
    assert!(
        matches!(read.of(SERVICE_P50), Reading::Informational(_))
            && matches!(read.of(SERVICE_P99), Reading::Coarse { value: None, .. })
    );
}

#[test]
fn an_item_that_was_not_found_is_not_good_in_any_rate() {
    let mut report = saved();
    let half = report.ledger.ok / 2;
    report.ledger.ok -= half;
    report.ledger.not_found += half;
    let ended = (report.ledger.ended() - report.ledger.aborted) as f64;
    let good_per_s = report.totals.items_per_s * report.ledger.ok as f64 / ended;
    report.totals.ok_per_s = good_per_s;
    let readings = readings_of_run(&report);
    let size = Size {
        shards: 1,
        connections: 1,
    };
    let scaled = scale::Round::new(&report, 1, size, String::new(), None).items_per_s;
    let climbed = ScenarioReadings::of(&report, None).ok_per_s;
    for rate in [readings.of(THROUGHPUT).value().unwrap(), scaled, climbed] {
        assert!((rate - good_per_s).abs() < 1e-9, "{rate}, not {good_per_s}");
    }
}

#[test]
fn a_candidate_without_a_good_answer_is_a_regression_and_says_what_came() {
    let arms = |pairs: usize, without: &[Arm]| {
        let mut rounds = rounds(pairs, 0.0);
        for round in rounds
            .iter_mut()
            .filter(|of| without.contains(&of.round.arm))
        {
            for metric in [THROUGHPUT, OK_SHARE] {
                round.round.readings.set(metric, reading(0.0));
            }
            for metric in [SERVICE_P50, SERVICE_P99] {
                round.round.readings.set(metric, Reading::Absent);
            }
            round.run.findings = vec![Finding::NotFound {
                share: 1.0,
                count: 100,
                verdict: None,
            }];
        }
        contest(rounds)
    };
    for (pairs, without, verdict) in [
        (16, &[Arm::Candidate][..], Overall::Regression),
        (2, &[Arm::Candidate], Overall::Regression),
        (1, &[Arm::Candidate], Overall::Inconclusive),
        (16, &[Arm::Base], Overall::Inconclusive),
        (16, &[Arm::Base, Arm::Candidate], Overall::Inconclusive),
    ] {
        let contest = arms(pairs, without);
        assert_eq!(contest.comparison.verdict, verdict, "{pairs} {without:?}");
        let titles: Vec<String> = contest.notices().into_iter().map(|of| of.title).collect();
        for arm in without {
            let says = format!("In {pairs} of {pairs} round");
            let side = format!(" of the {arm}: ");
            assert!(
                titles
                    .iter()
                    .any(|title| title.starts_with(&says) && title.contains(&side)),
                "{titles:?}"
            );
        }
        let share = contest.comparison.of(OK_SHARE).unwrap();
        assert!(share.evidence.is_none() && share.verdict != MetricVerdict::Pass);
    }
}

#[test]
fn a_pair_is_disturbed_by_what_differs_between_its_rounds_and_is_smaller_than_their_effect() {
    type Spoil = fn(&mut Report);
    fn freeze(report: &mut Report, us: f64) {
        let mut lag = report.latency["service"].clone();
        lag.max_us = Some(us);
        report.latency.insert("loop_lag".to_owned(), lag);
    }
    let slow: Spoil = |report| {
        for shard in &mut report.shards {
            (shard.usage.speed_before_us, shard.usage.speed_after_us) =
                (Some(2_000.0), Some(2_000.0));
        }
    };
    let stolen: Spoil = |report| {
        let usage = &mut report.shards[0].usage;
        (usage.steal_share, usage.measured_s) = (Some(0.03), Some(2.0));
    };
    let frozen: Spoil = |report| freeze(report, 150_000.0);
    let kinds = [
        (Disturbance::SpeedProbe, slow),
        (Disturbance::Steal, stolen),
        (Disturbance::RunQueue, frozen),
    ];
    for (kind, spoil) in kinds {
        for effect in [1.0, 0.7, 0.05] {
            let mut one = saved();
            freeze(&mut one, 1_000.0);
            let mut other = one.clone();
            other.totals.ok_per_s = one.totals.ok_per_s * effect;
            assert_eq!(Disturbance::of_runs([&one, &other]), Disturbance::None);
            spoil(&mut other);
            // An effect that no disturbance explains counts.
            let expected = if effect < 0.5 {
                Disturbance::None
            } else {
                kind
            };
            assert_eq!(Disturbance::of_runs([&one, &other]), expected, "{effect}");
            assert_eq!(
                Disturbance::of_runs([&other, &one]),
                expected,
                "whichever arm it was"
            );
            // Both alike do not differ by it.
            spoil(&mut one);
            assert_eq!(Disturbance::of_runs([&one, &other]), Disturbance::None);
        }
    }
}

#[test]
fn what_differs_is_told_and_two_loads_are_refused() {
    let base = saved();
    assert_eq!(differences(&base, &base), []);
    let mut other = base.clone();
    other.plan.run.connections = 9;
    other.plan.config_hash = "other".to_owned();
    let found = differences(&base, &other);
    assert_eq!(
        found
            .iter()
            .map(|d| (&*d.what, &*d.base, &*d.candidate))
            .collect::<Vec<_>>(),
        [("plan.connections", "8", "9")]
    );
    assert_eq!(comparable(&base, &other), Ok(()));
    other.plan.run.rate = None;
    let refusal = comparable(&base, &other).unwrap_err().to_string();
    assert!(
        refusal.contains("plan.rate") && refusal.contains("different loads"),
        "{refusal}"
    );
    let mut elsewhere = base.clone();
    elsewhere.environment.cores += 1;
    assert!(
        comparable(&base, &elsewhere)
            .unwrap_err()
            .to_string()
            .contains("two machines")
    );
}

#[test]
fn a_loss_is_told_in_every_form() {
    let contest = contest(rounds(16, 0.05));
    assert_eq!(contest.comparison.verdict, Overall::Regression);
    golden("contest.txt", &crate::ended(&contest));
    golden("contest.md", &contest.doc().markdown());
    golden("contest.xml", &contest.exports()[0].1);
    let svg = &contest.plots()[0].svg;
    // Sixteen pairs and the estimate of each of the four metrics that were read.
    assert_eq!(svg.matches("<circle").count(), 4 * (16 + 1));
    assert!(svg.contains("candidate against base") && !svg.contains("NaN"));
}

#[test]
fn a_pair_beyond_the_axis_is_said() {
    for factor in [1.001, 1.4, 7.0, 300.0] {
        let mut rounds = rounds(16, 0.0);
        let mut candidates = rounds.iter_mut();
        let outlier = candidates.find(|of| of.round.arm == Arm::Candidate);
        let readings = &mut outlier.unwrap().round.readings;
        readings.set(THROUGHPUT, reading(1_000.0 * factor));
        let svg = &contest(rounds).plots()[0].svg;
        let beyond = usize::from(factor > 1.3);
        assert_eq!(svg.matches("<circle").count(), 4 * (16 + 1) - beyond);
        assert_eq!(svg.matches('›').count(), beyond, "{factor}");
    }
}

#[test]
fn equal_arms_pass_and_what_fails_more_does_not() {
    let equal = contest(rounds(16, 0.0));
    assert_eq!(equal.comparison.verdict, Overall::Pass);
    // Nobody failed: then it is no metric, and takes no share of the error.
    assert_eq!(equal.comparison.of(OK_SHARE), None);
    // One of 110 is less than the limit of 1 %, two are more.
    for (bad, verdict) in [(1.0, MetricVerdict::Pass), (2.0, MetricVerdict::Regression)] {
        let mut failing = rounds(16, 0.0);
        for round in &mut failing {
            let failed = if round.round.arm == Arm::Candidate {
                bad
            } else {
                0.0
            };
            round
                .round
                .readings
                .set(OK_SHARE, reading(1.0 - failed / 110.0));
        }
        let failing = contest(failing);
        let of = |metric| failing.comparison.of(metric).unwrap().verdict;
        assert_eq!(of(OK_SHARE), verdict, "{bad}");
        assert_eq!(of(THROUGHPUT), MetricVerdict::Pass);
        let fails = failing.exports()[0].1.contains("<failure");
        assert_eq!(fails, verdict == MetricVerdict::Regression);
    }
}

/// Rounds of commands that print one number, of 16 pairs.
fn printed(of: impl Fn(Arm, usize) -> f64, exit_code: Option<i32>) -> Vec<RoundReport> {
    let mut rounds = Vec::new();
    for (number, first) in OrderSchedule::new(3).take(16).enumerate() {
        for arm in first.and_other() {
            let is_failed = arm == Arm::Candidate && number % 4 == 0;
            let execution = Execution {
                wall_us: 1.0,
                cpu_us: 1.0,
                peak_memory: 1,
                exit_code: if is_failed { exit_code } else { Some(0) },
                values: [("n".to_owned(), of(arm, number))].into(),
                ..Execution::default()
            };
            let times = TIMES.map(str::to_owned);
            let executions = vec![execution; 3];
            rounds.push(RoundReport::of_command(executions, number + 1, arm, times));
        }
    }
    rounds
}

fn contest_of_numbers(worse: Worse, rounds: Vec<RoundReport>) -> Contest {
    let context = contest(self::rounds(2, 0.0)).context;
    Contest::new(&[Metric::named("n", "", worse)], rounds, context).unwrap()
}

#[test]
fn numbers_of_any_sign_are_judged_by_their_order() {
    let numbers = [-8.0, -5.0, -0.1, 0.0, 0.1, 5.0, 8.0];
    for base in numbers {
        for candidate in numbers {
            for worse in [Worse::More, Worse::Less] {
                let of = |arm, _| if arm == Arm::Base { base } else { candidate };
                let contest = contest_of_numbers(worse, printed(of, Some(0)));
                let is_worse = match worse {
                    Worse::More => candidate > base,
                    Worse::Less => candidate < base,
                };
                let verdict = if is_worse {
                    Overall::Regression
                } else {
                    Overall::Pass
                };
                let said = contest.doc().terminal(100);
                assert_eq!(
                    contest.comparison.verdict, verdict,
                    "{base} {candidate} {said}"
                );
                let svg = contest
                    .plots()
                    .iter()
                    .map(|plot| plot.svg.clone())
                    .collect::<String>();
                for text in [said, svg] {
                    let wrong = ["NaN", "inf", "e+", "0000 %"];
                    assert!(!wrong.iter().any(|it| text.contains(it)), "{text}");
                }
                let saved = serde_json::to_string(&contest).unwrap();
                assert!(serde_json::from_str::<Contest>(&saved).is_ok(), "{saved}");
            }
        }
    }
    // Noise around 0 is no equality.
    let noise = |arm, number: usize| {
        let number = if arm == Arm::Base {
            number
        } else {
            number * 5 + 2
        };
        (number % 7) as f64 - 3.0
    };
    let contest = contest_of_numbers(Worse::More, printed(noise, Some(0)));
    assert_eq!(contest.comparison.verdict, Overall::Inconclusive);
}

#[test]
fn executions_that_failed_are_counted_for_their_side() {
    for exit_code in [Some(4), None] {
        let contest = contest_of_numbers(Worse::More, printed(|_, _| 1.0, exit_code));
        let found = contest.findings();
        assert!(found.contains(&StudyFinding::ExecutionsFailed {
            arm: Arm::Candidate,
            failed: 12,
            of: 48,
            exit_codes: exit_code.into_iter().collect(),
        }));
        let kinds = found.iter().filter(|one| one.kind() == "ExecutionsFailed");
        assert_eq!(kinds.count(), 1);
    }
}

/// A comparison that has every finding.
pub(crate) fn with_findings() -> Vec<Contest> {
    let lost = contest(rounds(16, 0.05));
    let mut weak = rounds(40, 0.0);
    for of in &mut weak[..2] {
        of.round.disturbance = Disturbance::SpeedProbe;
    }
    // Ten pairs are slow, ten are fast: neighbours are alike.
    for of in &mut weak {
        of.run.findings = vec![Finding::NotFound {
            share: 1.0,
            count: 9,
            verdict: None,
        }];
        if of.round.arm == Arm::Candidate {
            let mood = if of.pair / 10 % 2 == 0 { 1.0 } else { 1.05 };
            let throughput = reading(1_000.0 * mood);
            of.round.readings.set(THROUGHPUT, throughput);
        }
    }
    let mut weak = contest(weak);
    weak.context.noise_floor = Some(lost.comparison);
    let mut wide = contest(rounds(16, 0.0));
    for of in &mut wide.rounds {
        let is_slow = of.round.arm == Arm::Candidate;
        let far = if is_slow { 0.5 } else { 0.2 };
        of.shape = Some([-0.1, -0.05, 0.05, far]);
        let us = if is_slow { 9.0 } else { 6.0 };
        of.profile = Some(RoundProfile {
            samples: 2_000,
            lost: 0,
            started: 0,
            per: Per::Request,
            functions: [("json::parse", us), ("main", 20.0)]
                .map(|(name, us)| (name.to_owned(), us))
                .into(),
        });
    }
    let mut wide = contest(wide.rounds);
    wide.context.not_profiled = Some("the kernel forbids it".to_owned());
    let mut short = wide.rounds.clone();
    for of in &mut short {
        if let Some(profile) = &mut of.profile {
            profile.started = profile.samples;
        }
    }
    vec![
        contest(short),
        wide,
        weak,
        contest_of_numbers(Worse::More, printed(|_, _| 1.0, Some(4))),
    ]
}
