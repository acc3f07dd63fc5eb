//! A run whose every attempt is known: drawn from a seed, counted as shards count, saved as runs
//! are.
#![expect(clippy::unwrap_used, reason = "a test without its run is over")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crawlmark_harness::clock::Nanos;
use crawlmark_harness::machine::HostRecord;
use crawlmark_harness::plan::{Arrivals, RunPlan, ShardPlan};
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::sample::{Advice, Attempt, ErrorKind, Fate, Outcome, Permit, Sample};
use crawlmark_harness::stats::{Bounds, Series, ShardStats, Unfinished};
use crawlmark_harness::supervisor::{
    Interval, Moved, RunRecord, ShardRecord, ShardSecond, ShardTimes, Stopped, SupervisorCpu,
};
use crawlmark_harness::units::{IdRange, Rate};
use crawlmark_harness::wire::{
    BindingTimes, CpuHealth, EncodedStats, Scheduled, SecondFigures, ShardOutcome, Usage,
};
use crawlmark_harness::workload::InFlight;
use crawlmark_results::run::report::{Environment, IntervalRow, Labels, Report, Source};
use crawlmark_results::run::result_dir::ResultDir;
use tempfile::TempDir;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// How large a run is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) shards: u32,
    pub(crate) seconds: u64,
    /// Of each shard in each second.
    pub(crate) attempts: u64,
    pub(crate) warmup: Duration,
}

/// A saved run.
pub(crate) struct Saved {
    pub(crate) report: Report,
    place: TempDir,
}

impl Saved {
    pub(crate) fn directory(&self) -> PathBuf {
        self.place.path().join("result")
    }
}

pub(crate) fn plan(size: Size) -> RunPlan {
    let ids = IdRange {
        start: 0,
        end: u64::from(size.shards) * size.seconds * size.attempts,
    };
    RunPlan {
        shards: size.shards,
        connections: size.shards * 4,
        rate: Some(Rate {
            permits: u64::from(size.shards) * size.attempts,
            period_ns: S,
        }),
        arrivals: Arrivals::Constant,
        warmup: size.warmup,
        grace: Duration::from_secs(1),
        timeout: Duration::from_secs(1),
        ..RunPlan::new("http://127.0.0.1:8080/items/{id}", ids)
    }
}

/// Attempt `id`, scheduled in `second`, with an outcome and times that `random` draws.
pub(crate) fn sample(id: u64, second: u64, random: &mut fastrand::Rng) -> Sample {
    let (outcome, status) = match random.u32(0..100) {
        0..3 => (Outcome::Throttled, Some(429)),
        3..5 => (Outcome::Rejected, Some(500)),
        5 => (Outcome::Error(ErrorKind::Timeout), None),
        6..8 => (Outcome::NotFound, Some(404)),
        _ => (Outcome::Ok, Some(200)),
    };
    let intended = Nanos(second * S + random.u64(0..S));
    let sent = Nanos(intended.0 + random.u64(0..50 * MS));
    let took = if status.is_none() {
        1_000 * MS
    } else {
        random.u64(50_000..900 * MS)
    };
    Sample {
        permit: Permit {
            id,
            attempt: 0,
            first_intended: intended,
            intended,
            ready: intended,
            admitted: intended,
        },
        attempt: Attempt {
            sent: Some(sent),
            first_byte: status.map(|_| Nanos(sent.0 + took / 2)),
            done: Nanos(sent.0 + took),
            bytes_sent: 90,
            bytes_received: 119,
            status,
            outcome,
            advice: Advice::default(),
        },
        fate: Fate::Ended,
    }
}

/// A second of some shards, merged.
pub(crate) fn interval(index: u64, shards: &[(u32, ShardStats)]) -> Interval {
    let bounds = shards
        .first()
        .map_or(Bounds::for_timeout(Duration::from_secs(1)), |(_, stats)| {
            stats.bounds()
        });
    let mut merged = ShardStats::new(bounds);
    for (_, stats) in shards {
        merged.merge(stats);
    }
    let of = |(shard, stats): &(u32, ShardStats)| ShardSecond {
        shard: *shard,
        attempts: stats.counters.requests.attempts,
        max_sched_lag_ns: 700_000 + index * 1_000 + u64::from(*shard),
        cpu_us: 20 * stats.counters.requests.attempts,
    };
    Interval {
        figures: SecondFigures {
            index,
            in_flight: 3,
            cpu_us: 20 * merged.counters.requests.attempts,
            max_sched_lag_ns: 700_000,
            binding: BindingTimes {
                rate_ns: 3 * S,
                concurrency_ns: S,
                ..BindingTimes::default()
            },
            scheduled: Scheduled {
                requests: merged.counters.requests.attempts,
                ..Scheduled::default()
            },
            ..SecondFigures::default()
        },
        seconds: shards.iter().map(of).collect(),
        merged,
        shards: shards
            .iter()
            .map(|(shard, stats)| (*shard, ShardTimes::of(stats).unwrap()))
            .collect(),
    }
}

pub(crate) fn record(plan: ShardPlan, stats: &ShardStats, seconds: u64) -> ShardRecord {
    ShardRecord {
        pid: 4_000,
        exit: ShardExit::Clean,
        fault: None,
        ids: plan.ids.clone(),
        past: Vec::new(),
        outcome: ShardOutcome {
            peak_in_flight: 4,
            last_done: Nanos(seconds * S),
            last_ended: Some(Nanos(seconds * S)),
            usage: Some(Usage {
                cpu_user_us: 9_000,
                cpu_system_us: 1_000,
                ..Usage::default()
            }),
            cpu: Some(CpuHealth {
                measured_ns: seconds * S,
                ..CpuHealth::default()
            }),
            binding: BindingTimes {
                rate_ns: 3 * S,
                concurrency_ns: S,
                ..BindingTimes::default()
            },
            ..ShardOutcome::new(EncodedStats::of(stats).unwrap())
        },
        plan,
    }
}

pub(crate) fn report(
    plan: &RunPlan,
    shards: Vec<ShardRecord>,
    intervals: Vec<IntervalRow>,
) -> Report {
    let started_at = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
    let record = RunRecord {
        started_at,
        finished_at: started_at + Duration::from_secs(intervals.len() as u64),
        start: Nanos(0),
        interrupted: None,
        stopped_at: None,
        stopped: Stopped::No,
        failure: None,
        suspended: Duration::ZERO,
        moved: Moved::default(),
        pauses: 0,
        busiest: BTreeMap::new(),
        shards,
        supervisor: Usage::default(),
        effort: SupervisorCpu::default(),
        host: HostRecord {
            watched_ns: S,
            ..HostRecord::default()
        },
    };
    let environment = Environment {
        cpu_model: None,
        cores: 2,
        kernel: None,
        cpu_governor: None,
        memory_bytes: None,
        nofile: None,
        local_ports: None,
        colocated: false,
        git_revision: None,
    };
    Report::new(Source {
        plan,
        labels: &Labels::default(),
        record: &record,
        intervals,
        environment,
    })
}

/// A run of this size, drawn from `seed`, saved with its log.
pub(crate) fn saved(size: Size, seed: u64) -> Saved {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = plan(size);
    let bounds = Bounds::for_timeout(plan.timeout);
    let [kept, per_interval] = Series::of(plan.arrivals);
    let mut totals = vec![ShardStats::new(bounds); size.shards as usize];
    let place = tempfile::tempdir().unwrap();
    let directory = ResultDir::create(&place.path().join("result")).unwrap();
    let mut file = directory.log().unwrap();
    let mut log = file.begin(SystemTime::UNIX_EPOCH).unwrap();
    let (mut rows, mut id) = (Vec::new(), 0);
    for second in 0..size.seconds {
        let mut shards = Vec::new();
        for (shard, total) in (0..).zip(&mut totals) {
            let mut stats = ShardStats::new(bounds);
            let timed = second >= size.warmup.as_secs();
            for _ in 0..size.attempts {
                id += 1;
                let sample = sample(id, second, &mut random);
                stats.record_only(&sample, per_interval);
                total.record_only(&sample, if timed { kept } else { &[] });
            }
            // Cut off: once within the bounds, once beyond them.
            for response_ns in [random.u64(0..S), 5 * S] {
                let now = Nanos(10 * S);
                let intended = Some(Nanos(now.0 - response_ns));
                let in_flight = Some(InFlight {
                    sent: now,
                    first_byte: None,
                    bytes_sent: 0,
                    bytes_received: 0,
                });
                let rest = Unfinished {
                    now,
                    intended,
                    in_flight,
                    ..Unfinished::default()
                };
                stats.cut_off(per_interval, &rest);
                total.cut_off(if timed { kept } else { &[] }, &rest);
            }
            shards.push((shard, stats));
        }
        let interval = interval(second, &shards);
        log.append(&interval);
        rows.push(IntervalRow::new(&interval));
    }
    log.end().unwrap();
    file.close().unwrap();
    let shards = plan.split(&[]).into_iter().zip(totals);
    let shards = shards
        .map(|(plan, stats)| record(plan, &stats, size.seconds))
        .collect();
    let report = report(&plan, shards, rows);
    directory.finish(&report).unwrap();
    Saved { report, place }
}
