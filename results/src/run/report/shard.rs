//! One shard: the same figures as the run's, its process, and what it used of the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{BindingReport, Detail, Latency, Ledger, ShardCourse, Totals, cpu_s, share};
use crawlmark_harness::clock::{seconds, us};
use crawlmark_harness::plan::ShardPlan;
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::stats::Series;
use crawlmark_harness::supervisor::{PastLife, RunRecord, ShardFault, ShardRecord};
use crawlmark_harness::units::IdRange;
use crawlmark_harness::wire::{Binding, CpuHealth, Usage};

/// One shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// Its number.
    pub shard: u32,
    /// Its process; 0 for a part of a merged crawl, which was several.
    pub pid: i32,
    /// The CPU it was pinned to.
    pub cpu: Option<usize>,
    /// From the first to the last of the IDs that it was planned to crawl, end excluded. Where the
    /// run resumed a saved crawl, IDs in between may have been finished before.
    pub id_range: IdRange,
    /// The IDs that it held at the end: without what it gave to shards that were done, with what it
    /// was given.
    pub held: Vec<IdRange>,
    /// Its requests in flight at most.
    pub connections: u32,
    /// End of its process, the last one if others died and were replaced.
    pub exit: ShardExit,
    /// Its processes that died and were replaced, the oldest first. Its requests and limits are
    /// those of all processes, with those of each that died until its last report, its times those
    /// of the last one.
    pub died: Vec<PastLife>,
    /// Reason why its result is not whole.
    pub fault: Option<ShardFault>,
    /// Limits that held it back, as parts of its time.
    pub binding: BindingReport,
    /// Its items by state.
    pub ledger: Ledger,
    /// Requests that its part of an open loop's timetable held; null in a closed loop.
    pub scheduled: Option<u64>,
    /// Scheduled requests that throttle pauses moved past the end; see
    /// [`ScheduleReport::postponed`](super::ScheduleReport::postponed). Null in a closed loop.
    pub postponed: Option<u64>,
    /// The limit that its dropped requests waited for; null when none was dropped.
    pub dropped_by: Option<Binding>,
    /// Longest time that it chose to wait for more responses before it slept (--linger), us; 0 if it
    /// never waited, null of a shard with a fault.
    pub longest_linger_us: Option<f64>,
    /// Its counts.
    pub totals: Totals,
    /// Its course over time.
    pub course: ShardCourse,
    /// Its times, by series; empty of a shard with a fault.
    pub latency: BTreeMap<String, Latency>,
    /// Resources that it used.
    #[serde(flatten)]
    pub usage: UsageReport,
}

/// Resources of the machine that a shard used. All null of a shard with a fault, and of one that
/// was replaced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// User CPU.
    pub cpu_user_s: Option<f64>,
    /// System CPU.
    pub cpu_system_s: Option<f64>,
    /// User and system CPU per attempt, us.
    pub cpu_us_per_attempt: Option<f64>,
    /// CPU over `measured_s`.
    pub cpu_share: Option<f64>,
    /// Runnable without a CPU; null when the kernel does not say.
    pub run_delay_s: Option<f64>,
    /// `run_delay_s` over `measured_s`.
    pub run_delay_share: Option<f64>,
    /// Largest resident set.
    pub max_rss_bytes: Option<u64>,
    /// From the common start to the shard's end, over which all of these were read.
    pub measured_s: Option<f64>,
    /// The part of its CPU's time that the machine below gave to others; of all CPUs' when it was
    /// not kept on one. Null when the kernel does not say.
    pub steal_share: Option<f64>,
    /// CPU time of a fixed piece of work before the start; null when the kernel does not say, and
    /// where another shard on the same CPU does the work.
    pub speed_before_us: Option<f64>,
    /// CPU time of the same piece of work after the end; null when the kernel does not say.
    pub speed_after_us: Option<f64>,
}

impl ShardReport {
    /// True if it ended well, and all of its requests are counted: none of its processes died.
    pub fn is_whole(&self) -> bool {
        self.fault.is_none() && !self.was_replaced()
    }

    /// True if a process of it died and was replaced.
    pub fn was_replaced(&self) -> bool {
        !self.died.is_empty()
    }

    /// True if counts of it are known: it ended well, or reported some before it did not.
    pub(crate) fn has_reported(&self) -> bool {
        self.fault.is_none() || self.totals.attempts > 0 || self.ledger.lost == 0
    }

    pub(super) fn new(record: &ShardRecord, run: &RunRecord) -> Self {
        let ShardPlan {
            shard,
            connections,
            cpu,
            warmup,
            arrivals,
            ..
        } = record.plan;

        let is_whole = record.fault.is_none();
        let usage = record
            .usage
            .zip(record.cpu)
            .filter(|_| record.past.is_empty());
        let duration_s = seconds(record.last_done.since(run.start));
        let counters = &record.stats.counters;
        let whole = Totals::new(counters, duration_s, u64::from(record.peak_in_flight));
        let totals = Totals {
            sent_until_s: seconds(record.last_sent.since(run.start)),
            ..whole.without_warmup(counters, &record.warmup, warmup.as_secs_f64())
        };
        Self {
            shard,
            pid: record.pid,
            cpu,
            id_range: record.plan.span(),
            held: record.ids.clone(),
            binding: BindingReport::new(&record.binding),
            connections,
            exit: record.exit,
            died: record.past.clone(),
            fault: record.fault.clone(),
            ledger: Ledger::of(record),
            scheduled: record.timetable.map(|used| used.scheduled),
            postponed: record.timetable.map(|used| used.postponed),
            dropped_by: record.timetable.and_then(|used| used.dropped_by),
            longest_linger_us: record
                .longest_linger
                .map(|linger| linger.as_nanos() as f64 / 1e3),
            latency: if is_whole {
                let kept = Series::of(arrivals)[0];
                Latency::all(&record.stats.unpacked(), kept, Detail::Figures)
            } else {
                BTreeMap::new()
            },
            usage: usage.map_or_else(UsageReport::default, |(usage, cpu)| {
                UsageReport::new(&usage, &cpu, totals.attempts)
            }),
            totals,
            course: ShardCourse::default(),
        }
    }
}

impl UsageReport {
    fn new(usage: &Usage, health: &CpuHealth, attempts: u64) -> Self {
        let (cpu, measured_s) = (cpu_s(usage), seconds(health.measured_ns));
        let run_delay_s = usage.run_delay_ns.map(seconds);

        Self {
            cpu_user_s: Some(usage.cpu_user_us as f64 / 1e6),
            cpu_system_s: Some(usage.cpu_system_us as f64 / 1e6),
            cpu_us_per_attempt: (attempts > 0).then(|| cpu * 1e6 / attempts as f64),
            cpu_share: Some(share(cpu, measured_s)),
            run_delay_s,
            run_delay_share: run_delay_s.map(|waited| share(waited, measured_s)),
            max_rss_bytes: Some(usage.max_rss_bytes),
            measured_s: Some(measured_s),
            // Without a single tick nothing is known.
            steal_share: health
                .ticks
                .filter(|ticks| ticks.all > 0)
                .map(|t| share(t.stolen as f64, t.all as f64)),
            speed_before_us: health.speed_before_ns.map(us),
            speed_after_us: health.speed_after_ns.map(us),
        }
    }

    /// User and system CPU, s.
    pub fn cpu_s(&self) -> Option<f64> {
        Some(self.cpu_user_s? + self.cpu_system_s?)
    }
}
