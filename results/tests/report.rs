//! The report and its renderings, from a run whose every number is known.
//!
//! The golden files are in `tests/golden`;
//! `INSTA_UPDATE=always cargo test -p crawlmark-results --test report` writes them again when a
//! change is meant.

use std::collections::{BTreeMap, HashSet};
use std::iter;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crawlmark_harness::adaptive::ControllerState;
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::fixtures::{attempt_of, permit_at};
use crawlmark_harness::machine::CpuTicks;
use crawlmark_harness::pacer::WorstWindow;
use crawlmark_harness::plan::{RunPlan, ShardPlan, WorkloadSettings};
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::sample::{Attempt, ErrorKind, Fate, Outcome, Permit, Sample};
use crawlmark_harness::stats::{Bounds, Failures, Series, ShardStats};
use crawlmark_harness::supervisor::{
    BusiestWindow, Interval, Moved, RunRecord, ShardFault, ShardRecord, ShardSecond, Stopped,
};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_harness::wire::{
    BindingTimes, BudgetUse, CpuHealth, EncodedStats, Scheduled, Scope, SecondFigures,
    ShardOutcome, ThrottlingCounts, Usage,
};
use crawlmark_harness::workload::Opened;
use crawlmark_results::export;
use crawlmark_results::run::gates::{Breach, LiveThresholds, Objective};
use crawlmark_results::run::report::{
    Environment, Labels, Report, RunFacts, Source, Verdict, Witness,
};
use crawlmark_results::run::result_dir::{
    RESULT, ResultDir, ResultError, left_over, made_from, read,
};
use crawlmark_results::run::words;
use crawlmark_results::show::plot;
use proptest::prelude::*;

use crate::golden;

const MS: u64 = 1_000_000;

fn plan() -> RunPlan {
    RunPlan {
        workload: WorkloadSettings {
            method: Some("GET".to_owned()),
            ..WorkloadSettings::default()
        },
        shards: 2,
        connections: 8,
        rate: Some(Rate {
            permits: 2_000,
            period_ns: 1_000_000_000,
        }),
        burst: 10,
        at_start: 10,
        ..RunPlan::new(
            "http://127.0.0.1:8080/items/{id}",
            IdRange {
                start: 0,
                end: 4_000,
            },
        )
    }
}

/// Attempt `id`: sent `id` milliseconds after the start, served in one to ten milliseconds.
fn sample(id: u64) -> Sample {
    let (outcome, status) = match id % 500 {
        0 => (Outcome::Rejected, Some(500)),
        1 => (Outcome::Throttled, Some(429)),
        2 => (Outcome::NotFound, Some(404)),
        3 => (Outcome::Error(ErrorKind::Timeout), None),
        4 => (Outcome::SoftBlocked, Some(403)),
        _ => (Outcome::Ok, Some(200)),
    };
    let sent = Nanos(id * MS);
    Sample {
        permit: Permit {
            id,
            ..permit_at(sent)
        },
        attempt: Attempt {
            first_byte: Some(Nanos(sent.0 + MS / 2)),
            bytes_sent: 90,
            bytes_received: 119,
            status,
            ..attempt_of(sent, Nanos(sent.0 + MS + id % 10 * MS), outcome)
        },
        fate: Fate::Ended,
    }
}

/// Records attempt `id`, and the connection that one in a thousand opens.
fn record(stats: &mut ShardStats, id: u64) {
    stats.record(&sample(id));
    if id % 1_000 == 7 {
        stats.open_connection(
            &Opened {
                connect_ns: 80_000,
                tunnel_ns: None,
                handshake: None,
                protocol: None,
                allowed: None,
            },
            &Series::ALL,
        );
    }
}

fn throttling() -> ThrottlingCounts {
    ThrottlingCounts {
        promises: 9,
        longest_promise_ns: 1_500_000_000,
        honoured: 3,
        paused_ns: 1_050 * MS,
        recoveries: 3,
        recovery_sum_ns: 1_200 * MS,
        recovery_max_ns: 450 * MS,
        ..ThrottlingCounts::default()
    }
}

/// Failures of the shard of `plan`.
fn failures(plan: &ShardPlan) -> Failures {
    let mut failures = Failures::default();
    for id in plan.span().start..plan.span().end {
        let Attempt { status, .. } = sample(id).attempt;
        let body = format!(
            "{{\"error\": \"status {}\",\n \"id\": {id}, \"a|b\": \"<i>\"}}",
            status.unwrap_or(0)
        );
        failures.record(&sample(id).attempt, None, || Some(body));
    }
    failures
}

#[expect(clippy::unwrap_used, reason = "what a test is made of must be there")]
fn shard(plan: ShardPlan, fault: Option<ShardFault>) -> ShardRecord {
    let mut stats = ShardStats::new(Bounds::for_timeout(plan.timeout));
    let ids = plan.span().start..plan.span().end - u64::from(fault.is_some()) * 500;
    for id in ids {
        record(&mut stats, id);
    }
    if fault.is_some() {
        // Of a shard that died, the supervisor has counters only.
        stats = ShardStats::from_parts(stats.bounds(), stats.counters, BTreeMap::new());
    }
    let whole = fault.is_none();
    ShardRecord {
        pid: 4_000 + i32::try_from(plan.shard).unwrap_or(0),
        exit: if whole {
            ShardExit::Clean
        } else {
            ShardExit::Signal(9)
        },
        fault,
        ids: plan.ids.clone(),
        past: Vec::new(),
        outcome: ShardOutcome {
            peak_in_flight: if whole { 4 } else { 0 },
            remaining: if whole { 0 } else { 480 },
            first_sent: whole.then_some(Nanos(3 * MS)),
            last_sent: Nanos(if whole { 2_000 * MS } else { 1_750 * MS }),
            last_done: Nanos(if whole { 2_000 * MS } else { 1_750 * MS }),
            failures: if whole {
                failures(&plan)
            } else {
                Failures::default()
            },
            budgets: whole
                .then_some(BudgetUse {
                    worst: WorstWindow {
                        width_ns: 14 * MS,
                        admitted: 11,
                        allowed: 12,
                    },
                    kept: true,
                })
                .map(|used| (Scope::Run, used))
                .into_iter()
                .collect(),
            usage: whole.then_some(Usage {
                cpu_user_us: 9_000,
                cpu_system_us: 11_000,
                max_rss_bytes: 12 << 20,
                run_delay_ns: None,
            }),
            cpu: whole.then_some(CpuHealth {
                measured_ns: 2_000 * MS,
                ticks: Some(CpuTicks {
                    stolen: 1,
                    all: 200,
                }),
                speed_before_ns: Some(1_520_000),
                speed_after_ns: Some(1_550_000),
            }),
            binding: BindingTimes {
                rate_ns: 1_800 * MS,
                concurrency_ns: 150 * MS,
                pause_ns: 50 * MS,
                ..BindingTimes::default()
            },
            throttling: if whole {
                throttling()
            } else {
                ThrottlingCounts::default()
            },
            ..ShardOutcome::new(EncodedStats::of(&stats).unwrap())
        },
        plan,
    }
}

/// The first second of the run.
fn first_second() -> Interval {
    let mut merged = ShardStats::new(Bounds::for_timeout(plan().timeout));
    (0..1_000).for_each(|id| record(&mut merged, id));
    Interval {
        figures: SecondFigures {
            index: 0,
            in_flight: 7,
            cpu_us: 9_000,
            max_sched_lag_ns: 1_500,
            binding: BindingTimes {
                rate_ns: 1_700 * MS,
                target_ns: 300 * MS,
                ..BindingTimes::default()
            },
            controller: Some(ControllerState {
                limit: 12,
                pace_per_s: Some(990.0),
            }),
            scheduled: Scheduled {
                requests: 1_000,
                good: merged.counters.items.ok + merged.counters.items.not_found,
                failed: merged.counters.items.failed,
            },
            ..SecondFigures::default()
        },
        merged,
        shards: Vec::new(),
        seconds: [0, 1]
            .map(|shard| ShardSecond {
                shard,
                attempts: 500,
                max_sched_lag_ns: 1_500,
                max_loop_lag_ns: 0,
                cpu_us: 4_500,
            })
            .to_vec(),
    }
}

fn report(fault: Option<ShardFault>, interrupted: Option<i32>) -> Report {
    let plan = plan();
    let mut parts = plan.split(&[]);
    let last = parts.remove(1);
    let record = RunRecord {
        stopped_at: None,
        started_at: SystemTime::UNIX_EPOCH + Duration::from_hours(500_000),
        finished_at: SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_002),
        start: Nanos(0),
        interrupted,
        stopped: Stopped::No,
        failure: None,
        suspended: Duration::ZERO,
        moved: Moved { ranges: 1, ids: 20 },
        pauses: 3,
        wait_left: Duration::from_secs(7),
        busiest: BTreeMap::from([(
            Scope::Run,
            vec![
                BusiestWindow {
                    width: Duration::from_millis(10),
                    sent: 28,
                    end_ns: 80 * MS,
                },
                BusiestWindow {
                    width: Duration::from_millis(100),
                    sent: 209,
                    end_ns: 130 * MS,
                },
                BusiestWindow {
                    width: Duration::from_secs(1),
                    sent: 2_001,
                    end_ns: 1_510 * MS,
                },
            ],
        )]),
        shards: vec![shard(parts.remove(0), None), shard(last, fault)],
        supervisor: Usage {
            cpu_user_us: 4_000,
            cpu_system_us: 6_000,
            max_rss_bytes: 8 << 20,
            ..Usage::default()
        },
        host: [("tcp_retransmits".to_owned(), 1)].into(),
    };
    let environment = Environment {
        cpu_model: Some("Example 9000".to_owned()),
        cores: 2,
        cpus: Vec::new(),
        machine_cpus: None,
        kernel: Some("Linux 6.1".to_owned()),
        cpu_governor: None,
        memory_bytes: Some(8 << 30),
        nofile: Some(20_000),
        local_ports: Some([32_768, 60_999]),
        colocated: true,
        git_revision: None,
    };
    let labels = Labels {
        name: "golden".to_owned(),
        tags: BTreeMap::from([("branch".to_owned(), "main".to_owned())]),
    };
    let intervals = [&first_second()].into_iter().collect();
    let mut report = Report::new(Source {
        target: None,
        plan: &plan,
        labels: &labels,
        record: &record,
        intervals,
        environment,
        facts: RunFacts::default(),
    });
    // The rest of the identity is this process.
    report.run_id = format!("{}-1", report.started_at);
    "0.0.0".clone_into(&mut report.crawlmark_version);
    report
}

/// A condition and what follows when it is broken.
#[expect(clippy::unwrap_used, reason = "a test whose condition is none is over")]
fn objective((text, breach): (&str, Breach)) -> Objective {
    Objective {
        condition: text.parse().unwrap(),
        breach,
    }
}

/// The report with a gate for each of these, of a run without seconds.
fn gated(mut report: Report, conditions: &[(&str, Breach)]) -> Report {
    let objectives: Vec<Objective> = conditions.iter().copied().map(objective).collect();
    LiveThresholds::new(&objectives, &plan()).close(&mut report);
    report
}

#[test]
fn a_whole_run_reads_as_it_did() {
    let mut report = report(None, None);
    report.add_witness(Witness {
        agrees: Some(true),
        cut_off: 0,
        differences: Vec::new(),
        ledger: serde_json::Value::Null,
    });
    let report = gated(
        report,
        &[
            ("service_p90 < 250ms", Breach::Fails),
            ("rate[10s] > 1500", Breach::Stops),
        ],
    );
    golden("whole.xml", &export::export(&report, export::Format::Junit));
    golden("whole.txt", &words::doc(&report, &[]).terminal(100));
    golden(
        "whole.md",
        &words::doc(&report, &plot::all(&report)).markdown(),
    );
    golden(
        "whole.json",
        &serde_json::to_string_pretty(&report).unwrap(),
    );
    assert_eq!(report.validity.verdict, Verdict::Valid);
}

#[test]
fn a_run_that_lost_a_shard_says_what_is_missing() {
    let conditions = [
        "service_p90 < 10ms",
        "throttled_rate < 0.1%",
        "item_p(99.9) < 1s",
        "valid == true",
        "rate > 2k",
    ];
    let report = gated(
        report(Some(ShardFault::Died), Some(2)),
        &conditions.map(|text| (text, Breach::Fails)),
    );
    golden(
        "incomplete.xml",
        &export::export(&report, export::Format::Junit),
    );
    golden("incomplete.txt", &words::doc(&report, &[]).terminal(100));
    golden(
        "incomplete.md",
        &words::doc(&report, &plot::all(&report)).markdown(),
    );
    assert_eq!(report.validity.verdict, Verdict::Incomplete);
    assert_eq!((report.ledger.lost, report.ledger.not_attempted), (20, 480));
    let states = report.ledger;
    assert_eq!(
        states.ended() + states.not_attempted + states.lost,
        states.planned
    );
}

#[test]
fn books_that_differ_make_a_run_incomplete() {
    let heard = |agrees| {
        let mut report = report(None, None);
        report.add_witness(Witness {
            agrees,
            cut_off: 0,
            differences: vec!["requests".to_owned()],
            ledger: serde_json::Value::Null,
        });
        report.validity.verdict
    };
    assert_eq!(
        [Some(true), None, Some(false)].map(heard),
        [Verdict::Valid, Verdict::Valid, Verdict::Incomplete]
    );
}

#[test]
fn a_gate_that_stopped_a_run_is_named_and_one_that_came_too_late_is_not() {
    let stop = [objective(("errors[1s] < 5", Breach::Stops))];
    let closed = |interrupted| {
        let mut report = report(None, None);
        report.interrupted = interrupted;
        let mut thresholds = LiveThresholds::new(&stop, &plan());
        let mut later = first_second();
        later.figures.index = 1;
        thresholds.add(&first_second());
        thresholds.add(&later);
        assert!(thresholds.has_enough());
        thresholds.close(&mut report);
        assert_eq!(
            (report.gates[0].ok, report.gates[0].until_s),
            (Some(false), Some(1))
        );
        report
    };
    let stopped = closed(true);
    assert_eq!(stopped.stopped_by.as_deref(), Some("errors[1s] < 5"));
    assert!(
        words::doc(&stopped, &[])
            .terminal(200)
            .contains("this stopped the run")
    );
    assert!(
        words::doc(&stopped, &plot::all(&stopped))
            .markdown()
            .contains("Threshold failed: errors\\[1s\\] ")
    );
    assert_eq!(closed(false).stopped_by, None);
}

#[test]
fn a_report_survives_json() {
    let report = gated(
        report(None, None),
        &[
            ("rate > 5", Breach::Fails),
            ("item_p999 < 5ms", Breach::Fails),
        ],
    );
    let json = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
}

#[test]
fn a_result_is_never_overwritten_and_never_left_half_made() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("result");
    let report = report(None, None);
    ResultDir::create(&path).unwrap().finish(&report).unwrap();
    let summary = std::fs::read_to_string(path.join("summary.md")).unwrap();
    for plot in plot::all(&report) {
        assert_eq!(
            std::fs::read_to_string(path.join("plots").join(plot.name).with_extension("svg"))
                .unwrap(),
            plot.svg
        );
        assert!(summary.contains(&format!("(plots/{}.svg): ", plot.name)));
    }
    assert!(matches!(
        ResultDir::create(&path),
        Err(ResultError::Exists(_))
    ));
    drop(ResultDir::create(&home.path().join("other/one")).unwrap());
    let left: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, ["result"]);
    let empty = home.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    ResultDir::create(&empty).unwrap().finish(&report).unwrap();
    assert!(
        empty.join("result.json").exists(),
        "an empty directory may become a result"
    );
}

#[test]
fn a_result_whose_name_was_taken_meanwhile_is_kept() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("result");
    let mine = ResultDir::create(&path).unwrap();
    std::fs::create_dir(&path).unwrap();
    std::fs::write(path.join("other"), "somebody else's").unwrap();
    let Err(ResultError::Rename { kept, .. }) = mine.finish(&report(None, None)) else {
        panic!("the name is taken")
    };
    assert!(kept.join("result.json").exists());
}

/// Where an unfinished result of `path` lies.
fn unfinished(path: &Path) -> PathBuf {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    path.with_file_name(format!(".{name}.{}.partial", std::process::id()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// A disk that takes some of the files and not the others costs those and nothing else,
    /// whichever they are.
    #[test]
    fn a_file_that_cannot_be_written_costs_no_other(blocked in prop::collection::vec(any::<prop::sample::Index>(), 1..4)) {
        // A true one: what is read back has to add up.
        let report: Report = serde_json::from_str(include_str!("../../results/example/result.json")).unwrap();
        let names: Vec<String> =
            iter::once(RESULT.to_owned()).chain(made_from(&report).into_iter().map(|(name, _)| name)).collect();
        let blocked: HashSet<&String> = blocked.iter().map(|index| index.get(&names)).collect();
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("result");
        let directory = ResultDir::create(&path).unwrap();
        std::fs::write(directory.place().join("latency.hlog"), "#[comment]\nTag=shard-0.service,0.000,1.000,1,x\n").unwrap();
        for name in &blocked {
            // Nothing can be renamed to a directory that is not empty.
            std::fs::create_dir_all(directory.place().join(name).join("x")).unwrap();
        }
        let error = directory.finish(&report).unwrap_err();
        let place = if blocked.contains(&RESULT.to_owned()) { unfinished(&path) } else { path.clone() };
        prop_assert_eq!(error.place(), Some(&*place));
        let said = error.to_string();
        prop_assert!(blocked.iter().any(|name| said.starts_with(&format!("write {name}: "))), "{said}");
        prop_assert!(said.contains(&format!("Kept in {}: latency.hlog", place.display())), "{said}");
        prop_assert!(place.join("latency.hlog").is_file());
        if place == path {
            prop_assert!(said.contains(&format!("`crawlmark report {}`", path.display())), "{said}");
            for name in &names {
                prop_assert_eq!(place.join(name).is_file(), !blocked.contains(name), "{}", name);
            }
            prop_assert_eq!(read(&path).err().map(|error| error.to_string()), None);
            prop_assert!(!unfinished(&path).exists());
        }
    }
}

#[test]
fn what_was_measured_outlives_whoever_gives_up() {
    for (file, text, is_measured) in [
        ("latency.hlog", "#[comment]\n", false),
        (
            "latency.hlog",
            "#[comment]\nTag=shard-0.service,0.000,1.000,1,x\n",
            true,
        ),
        ("rounds/001-base.log", "error: no such host\n", false),
        ("rounds/001-base/result.json", "{}", true),
        (
            "rounds/.001-base.7.partial/latency.hlog",
            "Tag=shard-0.service,0.000,1.000,1,x\n",
            true,
        ),
        ("unheard-of", "", true),
    ] {
        for by in [
            |directory: ResultDir| drop(directory),
            |directory: ResultDir| drop(directory.leave()),
        ] {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("result");
            let directory = ResultDir::create(&path).unwrap();
            let file = directory.place().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, text).unwrap();
            by(directory);
            assert_eq!(file.exists(), is_measured, "{}", file.display());
            assert_eq!(unfinished(&path).exists(), is_measured);
        }
    }
}

#[test]
fn a_directory_is_left_over_once_nobody_is_at_it() {
    let home = tempfile::tempdir().unwrap();
    let left = |pid: u32| home.path().join(format!(".old.{pid}.partial"));
    // This process lives, and yet it was another of its number that left that.
    for place in [
        left(4_294_967),
        left(std::process::id()),
        home.path().join(".not-ours.partial"),
    ] {
        std::fs::create_dir(place).unwrap();
    }
    let mine = ResultDir::create(&home.path().join("result")).unwrap();
    let mut expected = [left(4_294_967), left(std::process::id())];
    expected.sort_unstable();
    assert_eq!(
        left_over(home.path()),
        expected,
        "what is in use is left out"
    );
    drop(mine);
    assert_eq!(
        left_over(&home.path().join("nowhere")),
        Vec::<PathBuf>::new()
    );
}

#[test]
fn runs_of_one_second_have_names_of_their_own() {
    let home = tempfile::tempdir().unwrap();
    let next = || ResultDir::create_in(home.path(), SystemTime::UNIX_EPOCH, "crawl").unwrap();
    let (first, second) = (next(), next());
    let paths = [first.path().to_owned(), second.path().to_owned()];
    assert_ne!(paths[0], paths[1]);
    assert_eq!(first.finish(&report(None, None)).unwrap(), paths[0]);
    drop(second);
    assert_eq!(next().path(), paths[1]);
}
