//! Every kind of finding and every check has fired: a run for each kind that has it.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::json;

use super::{Audit, Run, WindowReport, at_once, throttle, times};
use crate::judge::{
    Finding, FindingKind, Verdict,
    checks::{OF_MACHINE, OF_RUN},
};
use crate::run::parts::{AttemptRecord, judge_merged};
use crate::run::report::{
    Change, Experiment, GateReport, Group, GroupRow, InStep, MergedReport, QueueReport, Report,
    RobotsReport, ServiceSplit, TraitKind, TraitRow, Witness,
};
use crawlmark_harness::plan::{Arrivals, TlsTrust};
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::stats::{Counters, ItemCounts, Series};
use crawlmark_harness::supervisor::{PastLife, ShardFault};

/// A good second, and one in which nothing came.
const GOOD: (u64, u64) = (100, 0);
const NONE: (u64, u64) = (0, 0);

/// A quiet run, changed so.
fn run(change: impl FnOnce(&mut Run)) -> Report {
    let mut run = Run::quiet();
    change(&mut run);
    run.judge()
}

/// The report of a quiet run, changed so.
fn report(change: impl FnOnce(&mut Report)) -> Report {
    let mut report = Run::quiet().judge();
    change(&mut report);
    report.judge();
    report
}

/// The report of a quiet run to which something is added once it is judged.
fn noted(add: impl FnOnce(&mut Report)) -> Report {
    let mut report = Run::quiet().judge();
    add(&mut report);
    report
}

fn nothing_sent(run: &mut Run) {
    (run.counters, run.ledger.items) = (Counters::default(), ItemCounts::default());
}

fn gate(ok: Option<bool>) -> GateReport {
    GateReport {
        expression: "p99<1ms".to_owned(),
        kind: "latency".to_owned(),
        metric: "p99".to_owned(),
        group: None,
        window_s: None,
        unit: "us".to_owned(),
        limit: 1_000.0,
        value: Some(2_000.0),
        at_least: false,
        corrected: None,
        margin: None,
        ok,
        why: None,
        windows: None,
        until_s: None,
    }
}

fn experiment(change: Change, mean_us: f64) -> Experiment {
    Experiment {
        change,
        connections: 1,
        rate_per_s: None,
        duration_s: 2.0,
        answered: 200,
        failed: 0,
        answered_per_s: 100.0,
        mean_us: Some(mean_us),
        p50_us: Some(mean_us),
        body_us: 0.0,
        in_step: None,
    }
}

/// A closed loop at 100 responses/s, whether 8 connections or 16: alone, a request takes `alone_us`.
fn with_ceiling(report: &mut Report, alone_us: f64) {
    report.plan.run.rate = None;
    report.plan.run.connections = 8;
    let times = report.latency.get_mut(Series::ServiceOk.name()).unwrap();
    times.mean_us = Some(80_000.0);
    report.experiments = vec![
        experiment(Change::OneConnection, alone_us),
        experiment(Change::TwiceTheConnections, 160_000.0),
    ];
}

/// Responses in step with clocks of 10 and of 100 ms, so far.
fn in_step(report: &mut Report, short: f64, long: f64) {
    report.plan.run.arrivals = Arrivals::Poisson;
    report.in_step = Some(InStep {
        answers: 1_000,
        of_10_ms: short,
        of_100_ms: long,
    });
}

/// Nearly all of the slowest responses have a header that few others have.
fn in_common(report: &mut Report) {
    report.traits = vec![TraitRow {
        kind: TraitKind::Header,
        name: "x-cache".to_owned(),
        value: "MISS".to_owned(),
        group: None,
        slowest: 0.01,
        of_slow: 100,
        slow: 94,
        slow_share: 0.94,
        of_others: 9_900,
        others: 297,
        others_share: 0.03,
        p_value: 1e-9,
    }];
}

fn split(report: &mut Report, run_queue_us: f64, throttled_us: f64) {
    let target = report.target.as_mut().unwrap();
    target.split = Some(ServiceSplit {
        service_us: 10_000.0,
        cpu_us: 100.0,
        run_queue_us: Some(run_queue_us),
        throttled_us,
        rest_us: 100.0,
    });
}

fn queue(report: &mut Report, mean: f64, drops: u64) {
    report.target.as_mut().unwrap().accept_queue = Some(QueueReport {
        mean,
        max: 8,
        limit: 8,
        drops: Some(drops),
    });
}

fn host(number: u32, ok: u64, errors: u64) -> GroupRow {
    GroupRow {
        group: Group::Host(Some(number)),
        name: Some(format!("{number}.test")),
        attempts: ok + errors,
        ok,
        not_found: 0,
        throttled: 0,
        errors,
        p50_us: None,
        p99_us: None,
        at_least: Vec::new(),
        service_p50_us: None,
        service_p99_us: None,
        exceeded_us: None,
        service_exceeded_us: None,
        dropped: None,
        met: None,
        lasted_s: None,
        limited_by: None,
    }
}

/// A merged run of two parts, of which one was client-limited, and another attempt at a part.
fn merged() -> Report {
    noted(|it| {
        let attempt = json!({
            "schema": "crawlmark.part/1", "plan": "", "part": 1, "attempt": "", "slot": 0, "host": "",
            "started_at_us": 0, "finished_at_us": 0, "clock": null, "clock_error_us": null,
            "finished_before": 0, "items": it.ledger.items, "requests": 0, "robots_requests": 0,
            "crawl_delay_s": null, "whole": true, "verdict": Verdict::ClientLimited, "reasons": [],
            "files": {}, "saved": null, "environment": it.environment,
        });
        let attempt: AttemptRecord = serde_json::from_value(attempt).unwrap();
        let merged = MergedReport {
            parts: 2,
            additional_requests: 9,
            ..MergedReport::default()
        };
        judge_merged(it, &merged, &[attempt]);
    })
}

/// A run that has a finding of this kind.
fn with(kind: FindingKind) -> Report {
    use FindingKind as Is;
    match kind {
        Is::NothingSent => run(nothing_sent),
        Is::ShardDied => run(|it| it.shards[1].fault = Some(ShardFault::Died)),
        Is::PartMissing => run(|it| it.shards[1].fault = Some(ShardFault::Missing)),
        Is::ShardExitFailed => run(|it| it.shards[0].exit = ShardExit::Signal(11)),
        Is::SumsDiffer => run(|it| it.shards[0].ledger.ok -= 1),
        Is::StorageFailed => report(|it| it.storage_failure = Some("full".to_owned())),
        Is::CountsDiffer => noted(|it| {
            it.add_witness(Witness {
                agrees: Some(false),
                cut_off: 0,
                differences: vec!["requests".to_owned()],
                ledger: serde_json::Value::Null,
            });
        }),
        Is::BudgetExceeded => report(|it| {
            it.host_budget = Some(Audit {
                rate: "5/s".to_owned(),
                rate_per_s: 5.0,
                burst: 1,
                kept: false,
                unaudited_shards: 0,
                worst_window: Some(WindowReport {
                    shard: None,
                    host: None,
                    width_ms: 20.0,
                    admitted: 3,
                    allowed: 2,
                }),
                busiest: Vec::new(),
            });
        }),
        Is::AllSkipped => run(|it| {
            nothing_sent(it);
            it.ledger.items.skipped = 1_000;
        }),
        Is::WithinWarmUp => run(|it| {
            it.plan.warmup = Duration::from_secs(10);
            it.shards.iter_mut().for_each(|shard| shard.latency.clear());
        }),
        Is::AllFailed => run(|it| it.fail(ErrorKind::ConnectRefused, 1_000)),
        Is::RequestsFailed => run(|it| it.fail(ErrorKind::ConnectRefused, 100)),
        Is::Silent => run(|it| {
            it.intervals = at_once(&[NONE; 10]);
            (it.ledger.ok, it.ledger.aborted) = (0, 1_000);
        }),
        Is::NoGoodResponse => run(|it| {
            it.intervals = at_once(&[GOOD, GOOD, (0, 1), NONE, NONE, GOOD, GOOD, GOOD, GOOD, GOOD]);
        }),
        Is::ThresholdFailed | Is::ThresholdUndecided => noted(|it| {
            it.gates = vec![gate(Some(false)), gate(None)];
            it.note_thresholds();
        }),
        Is::WaitsLeftOut => noted(|it| {
            let finding = Finding::WaitsLeftOut {
                expression: "service_p99 < 1ms".to_owned(),
                metric: "response_p99".to_owned(),
                us: 9e5,
            };
            it.validity.add(&mut it.findings, finding);
        }),
        Is::Interrupted => report(|it| it.interrupted_by = Some(2)),
        Is::OnlyThrottled => report(|it| it.only_throttled_s = Some(86_400.0)),
        Is::Suspended => report(|it| it.suspended_s = 1.0),
        Is::ShardReplaced => run(|it| {
            it.shards[1].died = vec![PastLife {
                pid: 1,
                exit: ShardExit::Signal(9),
                fault: ShardFault::Died,
            }];
        }),
        Is::HostsDown => {
            let mut report = run(|it| it.fail(ErrorKind::ConnectRefused, 500));
            report.plan.run.per_host.hosts = 2;
            report.by_host = vec![host(0, 500, 0), host(1, 0, 500)];
            report.judge();
            report
        }
        Is::SlowestInCommon => report(in_common),
        Is::RobotsUnreachable => report(|it| {
            it.robots = Some(RobotsReport {
                requests: 1,
                crawl_delay_s: None,
                with_rules: 0,
                unreachable: 1,
                hosts: Vec::new(),
            });
        }),
        Is::ClientThrottled => report(|it| throttle(it, 34, 34, 0)),
        Is::TargetThrottled => report(|it| {
            split(it, 0.0, 5_000.0);
            it.target.as_mut().unwrap().throttled_periods_share = Some(0.9);
        }),
        Is::TargetWaits => report(|it| split(it, 5_000.0, 0.0)),
        Is::TargetCpuFull => report(|it| {
            let target = it.target.as_mut().unwrap();
            (target.cpus, target.cpu_us) = (vec![3], Some(9.9e6));
        }),
        Is::ConnectionsNotAccepted => report(|it| queue(it, 7.0, 0)),
        Is::ListenDrops => report(|it| queue(it, 0.0, 9)),
        Is::Stalled => serde_json::from_str(include_str!("../../../example/result.json")).unwrap(),
        Is::DelayingLimit => report(|it| {
            with_ceiling(it, 10_000.0);
            it.experiments
                .push(experiment(Change::ThirdOfTheRate, 1_000.0));
        }),
        Is::WorksOnFew => report(|it| {
            with_ceiling(it, 10_000.0);
            it.experiments
                .push(experiment(Change::ThirdOfTheRate, 10_000.0));
        }),
        Is::DelayedAck => report(|it| {
            it.latency
                .insert(Series::Body.name().to_owned(), times(40_000.0));
            it.experiments = vec![experiment(Change::ImmediateAcks, 1_000.0)];
        }),
        Is::RefusingLimit => run(|it| {
            it.reject(429, 500);
            it.intervals = at_once(&[
                (90, 50),
                (50, 50),
                (50, 60),
                (50, 40),
                (50, 50),
                (50, 90),
                (50, 10),
                (50, 50),
                (50, 50),
                (50, 50),
            ]);
        }),
        Is::InStep => report(|it| in_step(it, 0.9, 0.1)),
        Is::CutOff => run(|it| (it.ledger.aborted, it.ledger.ok) = (200, 800)),
        Is::Throttled => run(|it| (it.counters.requests.throttled, it.ledger.ok) = (600, 400)),
        Is::NotModified => run(|it| it.counters.requests.not_modified = 1),
        Is::PagesCut => report(|it| it.totals.pages_cut = 1),
        Is::NextNotFound => report(|it| it.totals.pages_without_next = 1),
        Is::SharedFailed => report(|it| it.totals.shared_failed = 1),
        Is::PagesRepeated => report(|it| it.totals.pages_repeated = 1),
        Is::SourcesThrottled => report(|it| it.totals.sources_throttled_at_first = 1),
        Is::NoLocalPort => run(|it| it.fail(ErrorKind::AddressUnavailable, 1)),
        Is::NoDescriptor => run(|it| it.fail(ErrorKind::TooManyFiles, 1)),
        Is::CpuFull => run(|it| it.usage().cpu_share = Some(0.99)),
        Is::CpuWait => run(|it| it.usage().run_delay_share = Some(0.5)),
        Is::ShardPaused => run(|it| it.times(Series::LoopLag).max_us = Some(1e6)),
        Is::SentLate => run(|it| it.times(Series::SchedLag).p99_us = Some(1e5)),
        Is::ReadLate => run(|it| it.times(Series::ReceiveDelay).p99_us = Some(1e5)),
        Is::StorageSlow => report(|it| it.binding.storage = 0.5),
        Is::NeverSent => run(|it| {
            let shard = &mut it.shards[1];
            (shard.scheduled, shard.totals.dropped) = (Some(1_000), 1_000);
        }),
        Is::Postponed => run(|it| {
            let shard = &mut it.shards[1];
            (shard.scheduled, shard.postponed) = (Some(1_000), Some(1_000));
        }),
        Is::Waited => run(|it| {
            it.times(Series::PoolWait).p99_us = Some(5e4);
            it.times(Series::ResponseOk).p99_us = Some(1e5);
        }),
        Is::RateMissed => report(|it| it.totals.attempts_per_s = 10.0),
        Is::CpuSteal => run(|it| it.usage().steal_share = Some(0.5)),
        Is::CpuSpeed => run(|it| it.usage().speed_after_us = Some(9_000.0)),
        Is::PacketLoss => run(|it| it.tcp.slow_with_retransmit = 10),
        Is::ListenQueueFull => run(|it| it.closed.opened_after_retransmit = 3),
        Is::NeverReceived => run(|it| it.tcp.timeouts_unacknowledged = 3),
        Is::NotAnswered => run(|it| it.tcp.timeouts_acknowledged = 3),
        Is::KeepAliveLimit => run(|it| {
            it.closed.requests = [(100, 9)].into();
            it.closed.announced = 9;
        }),
        Is::LookupSlow => noted(|it| {
            it.add_lookup(Duration::from_secs(5), Duration::from_secs(5));
        }),
        Is::NotFound => run(|it| (it.ledger.not_found, it.ledger.ok) = (200, 800)),
        Is::ConnectionsNotKept => run(|it| it.counters.requests.connections_opened = 1_000),
        Is::CertificatesUnverified => run(|it| {
            it.plan.workload.tls_trust = Some(TlsTrust::Unverified);
        }),
        Is::FewStreams => run(|it| {
            it.plan.streams = 10;
            it.closed.allowed = [(3, 1)].into();
        }),
        Is::MostlyOnePart => report(|it| {
            it.plan.run.rate = None;
            it.target = None;
            let service = it.latency[Series::ServiceOk.name()].clone();
            it.latency.insert(Series::Body.name().to_owned(), service);
        }),
        Is::LimitedBy => report(|it| it.binding.rate = 0.9),
        Is::CpusShared => report(|it| {
            let target = it.target.as_mut().unwrap();
            (target.is_here, target.cpus) = (true, vec![0]);
        }),
        Is::TargetProcessLost => noted(|it| it.add_lost_process(Some("killed".to_owned()))),
        Is::LeaseLapsed => noted(|it| it.add_lapse(Duration::from_secs(1))),
        Is::HostUnreached => noted(|it| it.add_unreached(Some("refused".to_owned()))),
        Is::OtherAttempts | Is::PartsJudged => merged(),
    }
}

#[test]
fn every_kind_of_finding_and_every_check_fires() {
    let checks = OF_RUN.iter().chain(&OF_MACHINE);
    let mut silent: BTreeSet<&str> = checks.clone().map(|(name, ..)| *name).collect();
    let mut missing = Vec::new();
    for kind in FindingKind::ALL {
        let report = with(*kind);
        let mut found: Vec<FindingKind> = report.findings.iter().map(Finding::kind).collect();
        for (name, _, look) in checks.clone() {
            // Also those that others cover.
            let of_check = look(&report).unwrap_or_default();
            if !of_check.is_empty() {
                silent.remove(name);
            }
            found.extend(of_check.iter().map(Finding::kind));
        }
        if !found.contains(kind) {
            missing.push((kind, found));
        }
    }
    assert_eq!((missing, silent), (Vec::new(), BTreeSet::new()));
}
