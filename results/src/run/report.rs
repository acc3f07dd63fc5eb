//! `Report`: the merged result of a run, as it is saved in `result.json` (schema
//! `crawlmark.result/1`).
//!
//! Made from a [`RunRecord`] once the run is over; everything shown to anybody is rendered from it.
//! Integers are exact, durations carry their unit in the key, and what could not be read is `null`,
//! never 0.
//!
//! | room | for |
//! |---|---|
//! | `totals` | counts |
//! | `traits` | what the slowest responses have in common |
//! | `failures`, `groups` | failed requests by cause; counts and times by host, URL template, source address and stage |
//! | `gate` | results of thresholds |
//! | `latency`, `distribution`, `spread` | percentiles, histograms, data of the heat map |
//! | `interval`, `course`, `shard` | figures per second, in columns from 20 ms on, per shard |
//! | `connections` | readings of TCP connections, closed connections, parts of response times, slowest requests |
//! | `schedule`, `budget`, `limit`, `throttling` | open loop, rate budgets, limits that requests waited for, pauses and waits |
//! | `environment` | machine |
//! | `target` | CPU, waits and memory of the target's processes |
//! | `crawl` | recorded command line; saved crawl; rules of robots.txt; merged parts |

mod budget;
mod connections;
mod course;
mod crawl;
mod diagnosis;
mod distribution;
mod environment;
mod failures;
mod gate;
mod groups;
mod interval;
mod latency;
mod limit;
mod schedule;
mod shard;
mod spread;
mod target;
mod throttling;
mod totals;
mod traits;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

pub(crate) use self::budget::offered;
pub use self::budget::{Audit, BudgetReport, WindowReport};
pub use self::connections::{ClosedBy, ConnectionsReport, SlowRow, Split, SplitPart, TcpReport};
pub use self::course::{Course, HeatColumn, Seconds, ShardCourse};
pub use self::crawl::{
    CommandLine, MergedReport, OtherAttempt, RobotsHost, RobotsOutcome, RobotsReport, SavedReport,
    SavedSession,
};
pub use self::diagnosis::{Change, Experiment, InStep};
pub use self::distribution::Distribution;
pub use self::environment::{Environment, Placement};
pub use self::failures::{FailureReport, failures};
pub use self::gate::GateReport;
pub use self::groups::{EXCEEDED_BY, Group, GroupNames, GroupRow, HostLimits, stage_name};
pub use self::interval::IntervalRow;
pub use self::latency::{Detail, Latency};
pub(crate) use self::limit::{LimitEvidence, is_full};
pub use self::schedule::{ScheduleReport, WarmUpCounts, WarmUpReport};
pub use self::shard::{ShardReport, UsageReport};
pub use self::spread::{CELLS_PER_DECADE, Spread};
pub use self::target::{BusiestReport, QueueReport, ServiceSplit, TargetReport, TargetSecond};
pub use self::throttling::{BindingReport, ThrottlingReport};
pub(crate) use self::totals::is_endless;
pub use self::totals::{Got, Ledger, Totals};
pub use self::traits::{TraitKind, TraitRow};
pub use crate::judge::findings::{Event, Finding};
pub use crate::judge::limit::Limit;
pub use crate::judge::verdict::{Validity, Verdict};
use crate::show::text::{decimal, grouped};
use crawlmark_harness::clock::Nanos;
use crawlmark_harness::plan::{Arrivals, RunPlan};
use crawlmark_harness::stats::{
    Bounds, ConnectionCounts, Counters, Series, ShardStats, SplitSums, TcpCounts, TlsCounts,
};
use crawlmark_harness::supervisor::{Moved, RunRecord, Stopped};
use crawlmark_harness::target_usage::TargetRecord;
use crawlmark_harness::wire::{BindingTimes, Usage};

/// The name of the format.
pub const SCHEMA: &str = "crawlmark.result/1";

/// Name and labels that the user gives the run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Labels {
    /// A short name; part of the directory's name.
    pub name: String,
    /// Free labels.
    pub tags: BTreeMap<String, String>,
}

/// A whole result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version that measured.
    pub crawlmark_version: String,
    /// Unique to the run: its start and its supervisor's process ID.
    pub run_id: String,
    /// See [`Labels::name`].
    pub name: String,
    /// See [`Labels::tags`].
    pub tags: BTreeMap<String, String>,
    /// RFC 3339, UTC.
    pub started_at: String,
    /// RFC 3339, UTC.
    pub finished_at: String,
    /// True if a signal, a gate, throttling alone or a failure to store results stopped it early.
    pub interrupted: bool,
    /// The signal's number.
    pub interrupted_by: Option<i32>,
    /// Time for which the run was suspended after its start (Ctrl-Z), s: times and rates include
    /// it.
    pub suspended_s: f64,
    /// The expression of the gate that stopped it; of a run that a signal stopped, null.
    pub stopped_by: Option<String>,
    /// Time in which the target only throttled, s, if that stopped the run. Absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub only_throttled_s: Option<f64>,
    /// Failure to store results, and what to do about it; it stopped the run unless something else
    /// had. Absent without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage_failure: Option<String>,
    /// The plan as resolved.
    pub plan: Plan,
    /// Command line that repeats the plan; null of a run that no command line started.
    pub command: Option<CommandLine>,
    /// The machine.
    pub environment: Environment,
    /// IDs of the plan that earlier sessions of a saved crawl had finished: no items of this run.
    /// Absent of a run that resumed none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_before: Option<u64>,
    /// Good items of those that were wanted.
    pub got: Got,
    /// Each planned item in exactly one state.
    pub ledger: Ledger,
    /// Counts of the run.
    pub totals: Totals,
    /// Failed requests by cause, keyed as in `rejected_by_status` and `errors_by_kind`, or
    /// `soft_blocked`: when each was seen, and an example. Of a shard that died, those until its
    /// last report.
    pub failures: BTreeMap<String, FailureReport>,
    /// Counts and times by host, of a crawl of several. Without those of a shard that died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_host: Vec<GroupRow>,
    /// Counts and times by URL template, of a crawl of several. Without those of a shard that died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_template: Vec<GroupRow>,
    /// Counts and times by source address (`--local-ips`), of several. Without those of a shard
    /// that died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_source: Vec<GroupRow>,
    /// Counts and times by stage of the rate, of several. Without those of a shard that died.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub by_stage: Vec<GroupRow>,
    /// Connections opened and closed before the start to check that hosts can be reached; not in
    /// `connections_opened`. Absent where nothing was checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub check_connections: Option<u64>,
    /// Saved crawl that the run is a session of. Absent without `--save` or `--resume`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub saved: Option<SavedReport>,
    /// Rules of robots.txt that the run obeyed. Absent if it obeyed none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub robots: Option<RobotsReport>,
    /// Parts that the report was merged from: its shards. Absent unless `merge` made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merged: Option<MergedReport>,
    /// TLS handshakes. Absent without any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsCounts>,
    /// Use of the budget; null without one.
    pub budget: Option<BudgetReport>,
    /// Use of the budgets of the hosts; null without them.
    pub host_budget: Option<Audit>,
    /// Adherence of an open loop to its timetable; null in a closed loop.
    pub schedule: Option<ScheduleReport>,
    /// Counts of the warm-up; null without a warm-up.
    pub warmup: Option<WarmUpReport>,
    /// Requests that met the objectives. Absent without any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goodput: Option<GoodputReport>,
    /// Throttling: pauses, waits that the target asked for, and recoveries.
    pub throttling: ThrottlingReport,
    /// Rate that was sent over the rate that was asked for: in an open loop, requests sent over those
    /// that were due; else the mean rate until the last request was sent over that of the plan. None
    /// without a rate, and of a recording.
    pub rate_ratio: Option<f64>,
    /// Limits that held the shards back, as parts of their time.
    pub binding: BindingReport,
    /// Work and budget moved between the shards.
    pub moved: Moved,
    /// Times over all shards, by series.
    pub latency: BTreeMap<String, Latency>,
    /// Readings of the TCP connections.
    pub tcp: TcpReport,
    /// Connections that ended before the run did.
    pub connections: ConnectionsReport,
    /// Parts of the mean response time; null without a reading, of fewer than 50 sampled responses,
    /// and of a run within one second.
    pub split: Option<Split>,
    /// The 20 requests with the longest response time after the warm-up, the slowest first, and then
    /// those of the five slowest with a recorded trace that are not among them.
    pub slowest: Vec<SlowRow>,
    /// Values of traits that the slowest hundredth, or tenth, of the good and not-found responses
    /// have at least three times as often as the others, the most telling first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub traits: Vec<TraitRow>,
    /// Each shard.
    pub shards: Vec<ShardReport>,
    /// Each second.
    pub intervals: Vec<IntervalRow>,
    /// All shards over time, in shorter steps. Absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub course: Option<Course>,
    /// Resources that the supervisor used.
    pub supervisor: SupervisorReport,
    /// Growth of counters of the whole machine during the run, in this network namespace; without
    /// those that it does not give.
    pub host: BTreeMap<String, u64>,
    /// The target's processes. Absent if no probe was started: see `--target-probe`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<TargetReport>,
    /// Clocks that the responses were in step with; null without responses.
    pub in_step: Option<InStep>,
    /// Experiments of `--diagnose`. Absent without any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experiments: Vec<Experiment>,
    /// Findings, the most severe first, without those that others make redundant.
    #[serde(serialize_with = "crate::judge::findings::serialize")]
    pub findings: Vec<Finding>,
    /// Validity of the result.
    pub validity: Validity,
    /// Thresholds and their results. Empty until a
    /// [`LiveThresholds`](crate::run::gates::LiveThresholds) closes the report.
    pub gates: Vec<GateReport>,
    /// The target's own counts, when they could be read: the second witness.
    pub witness: Option<Witness>,
}

/// The plan and a hash of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The plan.
    #[serde(flatten)]
    pub run: RunPlan,
    /// Equal for equal plans (FNV-1a over the plan's JSON).
    pub config_hash: String,
}

impl Plan {
    fn new(plan: &RunPlan) -> Self {
        Self {
            run: plan.clone(),
            config_hash: config_hash(plan),
        }
    }
}

/// Resources that the supervisor used.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct SupervisorReport {
    /// User and system CPU.
    pub cpu_s: f64,
    /// CPU over duration.
    pub cpu_share: f64,
    /// Largest resident set.
    pub max_rss_bytes: u64,
    /// From the start of the program to the common start of the shards, by the clock that the
    /// program read first: the kernel's part before that is not in it.
    pub start_ms: Option<f64>,
    /// Looking up names before the run; null where there was none to look up.
    pub lookup_ms: Option<f64>,
    /// From the start of the program to the first request, of those that ended by themselves; null
    /// when none did.
    pub first_request_ms: Option<f64>,
}

impl SupervisorReport {
    /// Build the report from the record. The supervisor works for longer than the shards, `ran_s`: it
    /// starts them, and receives their results.
    fn new(record: &RunRecord, ran_s: f64) -> Self {
        let wall = record.finished_at.duration_since(record.started_at);
        let worked_s = wall.map_or(0.0, |wall| wall.as_secs_f64()).max(ran_s);
        let cpu_s = cpu_s(&record.supervisor);
        let first_sent = record.shards.iter().filter_map(|shard| shard.first_sent);
        Self {
            cpu_s,
            cpu_share: share(cpu_s, worked_s),
            max_rss_bytes: record.supervisor.max_rss_bytes,
            start_ms: (record.stopped != Stopped::BeforeStart).then(|| in_ms(record.start)),
            lookup_ms: None,
            first_request_ms: first_sent.min().map(in_ms),
        }
    }
}

/// Requests that met all objectives of the run (`--objective`), after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct GoodputReport {
    /// Per second.
    pub per_s: f64,
    /// Over attempts and requests that were due and never went; 0 of none.
    pub share: f64,
}

impl GoodputReport {
    fn of(report: &Report) -> Option<Self> {
        let requests = report.measured().requests;
        (!report.plan.run.objectives.is_empty()).then(|| Self {
            per_s: share(requests.met as f64, report.measured_s()),
            share: share(
                requests.met as f64,
                (requests.attempts + requests.dropped) as f64,
            ),
        })
    }
}

/// Comparison of the target's own counts with the client's.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Witness {
    /// True if the target counted the same attempts, statuses and IDs; null when a shard, or a
    /// process of the target, did not live to tell.
    pub agrees: Option<bool>,
    /// Requests that may or may not have arrived, because they were cut off: the counts may differ
    /// by so many.
    pub cut_off: u64,
    /// Differences between the two counts.
    pub differences: Vec<String>,
    /// Its counts.
    pub ledger: serde_json::Value,
}

/// Inputs of a report.
#[derive(Debug)]
pub struct Source<'a> {
    /// Plan of the run.
    pub plan: &'a RunPlan,
    /// Name and labels that the user gives it.
    pub labels: &'a Labels,
    /// Record of the run.
    pub record: &'a RunRecord,
    /// Record of the target's probe; none without one.
    pub target: Option<TargetRecord>,
    /// Each second.
    pub intervals: Seconds,
    /// Machine and system on which it ran.
    pub environment: Environment,
    /// What else is known of the run.
    pub facts: RunFacts,
}

/// Facts of a run that its record does not hold.
#[derive(Debug, Default)]
pub struct RunFacts {
    /// Names of its groups of requests.
    pub names: GroupNames,
    /// Rules of robots.txt that it obeyed; none if it obeyed none.
    pub robots: Option<RobotsReport>,
    /// Time in which the target only throttled, if that stopped the run.
    pub only_throttled: Option<Duration>,
}

/// End of a run that waited with items left, s after the common start: when it was stopped, or else
/// when its duration was over, although a throttle pause, a quota or a budget may have kept it from
/// sending for a while before. 0 when nothing was left.
fn waited_until_s(plan: &RunPlan, record: &RunRecord) -> f64 {
    let has_rest = record.shards.iter().any(|shard| {
        // Items that are to be tried again are begun: they are not among the remaining IDs.
        let again = shard.stats.counters.items.unfinished;
        shard.fault.is_none() && shard.remaining.saturating_add(again) > 0
    });
    let end_s = record
        .stopped_at
        .map(|at| at.since(record.start) as f64 / 1e9)
        .or_else(|| plan.duration.map(|duration| duration.as_secs_f64()));
    end_s.filter(|_| has_rest).unwrap_or(0.0)
}

/// What the shards of a run counted, merged.
struct Merged {
    shards: Vec<ShardReport>,
    ledger: Ledger,
    stats: ShardStats,
    warmup: Counters,
    binding: BindingTimes,
    tcp: TcpCounts,
    split: SplitSums,
    connections: ConnectionCounts,
    duration_s: f64,
    sent_until_s: f64,
    peak_in_flight: u64,
}

impl Merged {
    fn of(plan: &RunPlan, record: &RunRecord, mut courses: BTreeMap<u32, ShardCourse>) -> Self {
        let waited_until_s = waited_until_s(plan, record);
        let mut run = Self {
            shards: Vec::new(),
            ledger: Ledger::default(),
            stats: ShardStats::new(Bounds::for_timeout(plan.timeout)),
            warmup: Counters::default(),
            binding: BindingTimes::default(),
            tcp: TcpCounts::default(),
            split: SplitSums::default(),
            connections: ConnectionCounts::default(),
            duration_s: waited_until_s,
            sent_until_s: waited_until_s,
            peak_in_flight: 0,
        };
        for own in &record.shards {
            let shard = ShardReport {
                course: courses.remove(&own.plan.shard).unwrap_or_default(),
                ..ShardReport::new(own, record)
            };
            own.stats.add_to(&mut run.stats);
            run.warmup.merge(&own.warmup);
            run.tcp.merge(&own.tcp);
            run.split.merge(&own.split);
            run.connections.merge(&own.connections);
            run.binding = run.binding.plus(&own.binding);
            run.peak_in_flight += u64::from(own.peak_in_flight);
            run.duration_s = run.duration_s.max(shard.totals.duration_s);
            run.sent_until_s = run.sent_until_s.max(shard.totals.sent_until_s);
            run.ledger = run.ledger.plus(shard.ledger);
            run.shards.push(shard);
        }
        run
    }

    fn totals(&self, plan: &RunPlan) -> Totals {
        let counters = &self.stats.counters;
        let warmup_s = plan.warmup.as_secs_f64();
        Totals {
            sent_until_s: self.sent_until_s,
            ..Totals::new(counters, self.duration_s, self.peak_in_flight).without_warmup(
                counters,
                &self.warmup,
                warmup_s,
            )
        }
    }
}

/// Failure to store results, in words.
fn storage_failure(record: &RunRecord) -> Option<String> {
    let failure = record.failure.as_ref()?;
    Some(format!(
        "shard {} could not store its results: {}",
        failure.shard, failure.why
    ))
}

impl Report {
    /// Seconds that it is of: of a part of a run, without what was before that.
    pub(crate) fn shown_s(&self) -> f64 {
        let from_s = self.intervals.first().map_or(0, |row| row.start_s);
        (self.totals.duration_s - from_s as f64).max(0.0)
    }

    /// Return the requests of an open loop that were due and never sent, whatever held them back or
    /// whether their shard had died, and their share of those due; none if all were sent.
    pub(crate) fn never_sent(&self) -> Option<(u64, f64)> {
        let schedule = self.schedule.as_ref()?;
        let unsent = schedule.dropped + schedule.postponed + schedule.unscheduled;
        let due = self.totals.attempts + unsent;
        (unsent > 0).then(|| (unsent, unsent as f64 / due as f64))
    }

    /// The part of the time of its slots in which parts ran; all of a run without parts.
    pub(crate) fn ran(&self) -> f64 {
        self.merged.as_ref().map_or(1.0, |merged| merged.slots_used)
    }

    /// The rate of good items, in words; of a single request, which has none, their number.
    pub(crate) fn good_rate(&self) -> String {
        if self.totals.attempts == 1 {
            return grouped(self.measured().items.ok);
        }
        format!("{}/s", decimal(self.totals.ok_per_s))
    }

    /// Return how many thresholds held (`Some(true)`), failed, or were decided by nothing (`None`).
    pub fn thresholds(&self, ok: Option<bool>) -> usize {
        self.gates.iter().filter(|gate| gate.ok == ok).count()
    }

    /// Return the word for an entry of `shards`: of a merged report, each is a part of the crawl.
    pub const fn shard_word(&self) -> &'static str {
        if self.merged.is_some() {
            "part"
        } else {
            "shard"
        }
    }

    /// Merge what happened; nothing is judged yet.
    pub(crate) fn unjudged(source: Source<'_>) -> Self {
        let Source {
            plan,
            labels,
            record,
            target,
            intervals: mut seconds,
            environment,
            facts,
        } = source;
        let mut intervals = std::mem::take(&mut seconds.rows);
        intervals.sort_by_key(|row| row.start_s);
        let run = Merged::of(plan, record, course::take(&mut intervals));
        let totals = run.totals(plan);
        let duration_s = totals.duration_s;
        // The rate of a recording is its mean, and no second's.
        if plan.rate.is_some() && plan.arrivals != Arrivals::Replay {
            intervals = intervals
                .into_iter()
                .map(|row| row.with_offer(plan, duration_s))
                .collect();
        }
        let finished_before = plan.ids.len() - plan.items();
        let items = run.ledger.ok + run.ledger.not_found;
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            crawlmark_version: env!("CARGO_PKG_VERSION").to_owned(),
            run_id: format!("{}-{}", rfc3339(record.started_at), std::process::id()),
            name: labels.name.clone(),
            tags: labels.tags.clone(),
            started_at: rfc3339(record.started_at),
            finished_at: rfc3339(record.finished_at),
            interrupted: record.was_stopped(),
            interrupted_by: record.interrupted,
            suspended_s: record.suspended.as_secs_f64(),
            failures: FailureReport::all(record),
            by_host: GroupRow::all(record, |shard| &shard.hosts, Group::Host),
            by_template: GroupRow::all(record, |shard| &shard.templates, Group::Template),
            by_source: GroupRow::all(record, |shard| &shard.sources, Group::Source),
            by_stage: GroupRow::stages(record, plan, duration_s),
            check_connections: None,
            saved: None,
            robots: facts.robots,
            merged: None,
            stopped_by: None,
            only_throttled_s: facts.only_throttled.map(|time| time.as_secs_f64()),
            plan: Plan::new(plan),
            command: None,
            throttling: ThrottlingReport::new(record, &intervals, &totals, items),
            rate_ratio: None,
            goodput: None,
            binding: BindingReport::new(&run.binding),
            storage_failure: storage_failure(record),
            moved: record.moved,
            finished_before: Some(finished_before).filter(|ids| *ids > 0),
            got: Got::new(&run.ledger, plan, finished_before),
            ledger: run.ledger,
            tls: Some(run.stats.counters.tls.clone()).filter(|tls| *tls != TlsCounts::default()),
            budget: BudgetReport::new(plan, record, &totals),
            host_budget: Audit::of_hosts(plan, record),
            schedule: ScheduleReport::new(plan, record, &totals),
            warmup: WarmUpReport::new(plan, &run.warmup),
            latency: Latency::all(&run.stats, Series::of(plan.arrivals)[0], Detail::Histogram),
            tcp: TcpReport::new(run.tcp, &run.stats),
            connections: ConnectionsReport::from(&run.connections),
            split: None,
            slowest: SlowRow::all(plan, record),
            traits: TraitRow::all(record, &intervals),
            supervisor: SupervisorReport::new(record, duration_s),
            host: record.host.clone(),
            target: None,
            in_step: InStep::of(record),
            experiments: Vec::new(),
            findings: Vec::new(),
            validity: Validity::default(),
            gates: Vec::new(),
            environment,
            totals,
            shards: run.shards,
            intervals,
            course: seconds.course(duration_s),
            witness: None,
        };
        report.split = report.calibrated(&run.split);
        report.goodput = GoodputReport::of(&report);
        report.name_groups(&facts.names);
        if let Some(target) = target {
            target::add(&mut report, &target, record.start);
        }
        report
    }

    /// The parts of the mean response time, of a sample of it.
    fn calibrated(&self, sample: &SplitSums) -> Option<Split> {
        let seconds: Vec<&Split> = self
            .intervals
            .iter()
            .filter_map(|row| row.split.as_ref())
            .collect();
        let service_us = self.mean_us(Series::ServiceOk)?;
        Split::of(sample)?.calibrated(&seconds, service_us, self.mean_us(Series::ResponseOk))
    }

    /// The hosts, URL templates, source addresses and stages.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &GroupRow> {
        self.by_host
            .iter()
            .chain(&self.by_template)
            .chain(&self.by_source)
            .chain(&self.by_stage)
    }

    /// Name the hosts, URL templates and source addresses.
    fn name_groups(&mut self, names: &GroupNames) {
        for row in self
            .by_host
            .iter_mut()
            .chain(&mut self.by_template)
            .chain(&mut self.by_source)
        {
            row.name = names.get(&row.group).cloned();
        }
        for row in &mut self.traits {
            row.name_group(names);
        }
    }

    /// Count items that earlier sessions of the parts of a merged crawl had finished.
    pub(crate) fn add_finished(&mut self, ids: u64) {
        self.finished_before = Some(ids).filter(|ids| *ids > 0);
        self.got = Got::new(&self.ledger, &self.plan.run, ids);
    }

    /// Attempts per second while requests were due, to hold against the rate that was asked for:
    /// see [`ScheduleReport::achieved_per_s`] and [`BudgetReport::achieved_per_s`]. The average of
    /// the run, which all that is shown has, is [`Totals::attempts_per_s`].
    pub fn achieved_per_s(&self) -> f64 {
        match (&self.schedule, &self.budget) {
            (Some(schedule), _) => schedule.achieved_per_s,
            (None, Some(budget)) => budget.achieved_per_s,
            (None, None) => self.totals.attempts_per_s,
        }
    }

    /// End of the time in which requests were due, s: later, only the last answers are missing.
    pub(crate) fn due_until_s(&self) -> f64 {
        let planned = self.plan.run.duration;
        let planned_s = planned.map_or(f64::INFINITY, |planned| planned.as_secs_f64());
        self.totals.duration_s.min(planned_s)
    }

    /// CPU of the shards per request, us, over those that reported it; none when none did, and
    /// without requests.
    pub fn cpu_us_per_attempt(&self) -> Option<f64> {
        let (mut attempts, mut cpu_s) = (0_u64, 0.0);
        for shard in &self.shards {
            if let Some(used_s) = shard.usage.cpu_s() {
                attempts += shard.totals.attempts;
                cpu_s += used_s;
            }
        }
        (attempts > 0).then(|| cpu_s * 1e6 / attempts as f64)
    }

    /// CPU of the target's processes per request, us; none if it is not known.
    pub fn target_cpu_us_per_attempt(&self) -> Option<f64> {
        self.target.as_ref()?.cpu_us_per_attempt
    }

    /// CPUs that the target's processes used on average; none if it is not known.
    pub fn target_cores(&self) -> Option<f64> {
        Some(share(
            self.target.as_ref()?.cpu_us? / 1e6,
            self.measured_s(),
        ))
    }

    /// True if connections served more than two requests each, in the mean.
    pub(crate) fn keeps_connections(&self) -> bool {
        self.totals.attempts > self.totals.connections_opened.saturating_mul(2)
    }

    /// Time from the end of the warm-up to that of the last attempt, s.
    pub fn measured_s(&self) -> f64 {
        let warmup_s = self.plan.run.warmup.as_secs_f64();
        (self.totals.duration_s - warmup_s).max(0.0)
    }

    /// Counts of items and attempts that ended after the warm-up.
    pub fn measured(&self) -> Counters {
        WarmUpReport::measured(self.warmup.as_ref(), &self.ledger, &self.totals)
    }

    pub(crate) fn mean_us(&self, series: Series) -> Option<f64> {
        self.latency(series)?.mean_us
    }

    /// The times of a series over all shards.
    pub fn latency(&self, series: Series) -> Option<&Latency> {
        self.latency.get(series.name())
    }
}

/// A time since the start of the program, ms.
const fn in_ms(at: Nanos) -> f64 {
    at.0 as f64 / 1e6
}

/// User and system CPU, s.
fn cpu_s(usage: &Usage) -> f64 {
    (usage.cpu_user_us + usage.cpu_system_us) as f64 / 1e6
}

/// A part of a whole; 0 of nothing.
pub(crate) fn share(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

/// A calendar time as reports write it: RFC 3339, UTC, to the millisecond.
pub fn rfc3339(time: SystemTime) -> String {
    humantime::format_rfc3339_millis(time).to_string()
}

/// Hash a plan: FNV-1a, 64 bit, over its JSON; stable over versions and machines, which the
/// standard library's hasher is not.
pub fn config_hash(plan: &RunPlan) -> String {
    let mut plan = plan.clone();
    plan.workload = plan.workload.without_origin();
    let json = serde_json::to_string(&plan).unwrap_or_default();
    let hash = json.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}
