//! One shard: the same figures as the run's, its process, and what it used of the machine.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::totals::Window;
use super::{BindingReport, Detail, Latency, Ledger, Totals, cpu_s, share};
use crate::plan::ShardPlan;
use crate::stats::Series;
use crate::supervisor::{RunRecord, ShardRecord};
use crate::units::IdRange;
use crate::wire::Usage;

/// One shard.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardReport {
    /// Its number.
    pub shard: u32,
    /// Its process.
    pub pid: i32,
    /// The CPU it was pinned to.
    pub cpu: Option<usize>,
    /// The IDs that it was planned to crawl, end excluded.
    pub id_range: IdRange,
    /// The IDs that it held at the end: without what it gave to shards that were done, with what it was given.
    pub held: Vec<IdRange>,
    /// Its requests in flight at most.
    pub connections: u32,
    /// How its processes ended: one, as long as none is replaced.
    pub exits: Vec<String>,
    /// Why its result is not whole.
    pub fault: Option<String>,
    /// What held it back.
    pub binding: BindingReport,
    /// Its items by state.
    pub ledger: Ledger,
    /// Requests that its part of an open loop's timetable held; null in a closed loop.
    pub scheduled: Option<u64>,
    /// What it counted.
    pub totals: Totals,
    /// Its times, by series; empty of a shard with a fault.
    pub latency: BTreeMap<String, Latency>,
    /// What it used.
    #[serde(flatten)]
    pub usage: UsageReport,
}

/// What a shard used of the machine. All null of a shard with a fault.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct UsageReport {
    /// User CPU.
    pub cpu_user_s: Option<f64>,
    /// System CPU.
    pub cpu_system_s: Option<f64>,
    /// User and system CPU per attempt, us.
    pub cpu_us_per_attempt: Option<f64>,
    /// CPU over duration.
    pub cpu_share: Option<f64>,
    /// Runnable without a CPU; null when the kernel does not say.
    pub run_delay_s: Option<f64>,
    /// Largest resident set.
    pub max_rss_bytes: Option<u64>,
    /// Times that the kernel took the CPU away.
    pub involuntary_switches: Option<u64>,
}

impl ShardReport {
    pub(super) fn new(record: &ShardRecord, run: &RunRecord) -> Self {
        let ShardPlan { shard, ids, connections, cpu, arrivals, warmup, duration, .. } = record.plan;
        let duration_s = record.last_done.since(run.start) as f64 / 1e9;
        let totals = Totals::new(&record.stats.counters, duration_s, u64::from(record.peak_in_flight))
            .measured(Window { arrivals, warmup, duration }, record.warmup);
        Self {
            shard,
            pid: record.pid,
            cpu,
            id_range: ids,
            held: record.ids.clone(),
            binding: BindingReport::new(record.binding),
            connections,
            exits: vec![record.exit.to_string()],
            fault: record.fault.as_ref().map(ToString::to_string),
            ledger: Ledger::of(record),
            scheduled: record.timetable.map(|used| used.scheduled),
            latency: if record.fault.is_none() {
                Latency::all(&record.stats, Series::of(record.plan.arrivals)[0], Detail::Figures)
            } else {
                BTreeMap::new()
            },
            usage: UsageReport::new(record.usage.as_ref(), &totals),
            totals,
        }
    }
}

impl UsageReport {
    fn new(usage: Option<&Usage>, totals: &Totals) -> Self {
        let cpu = usage.map(cpu_s);
        Self {
            cpu_user_s: usage.map(|usage| usage.cpu_user_us as f64 / 1e6),
            cpu_system_s: usage.map(|usage| usage.cpu_system_us as f64 / 1e6),
            cpu_us_per_attempt: cpu.filter(|_| totals.attempts > 0).map(|cpu| cpu * 1e6 / totals.attempts as f64),
            cpu_share: cpu.map(|cpu| share(cpu, totals.duration_s)),
            run_delay_s: usage.and_then(|usage| usage.run_delay_ns).map(|ns| ns as f64 / 1e9),
            max_rss_bytes: usage.map(|usage| usage.max_rss_bytes),
            involuntary_switches: usage.map(|usage| usage.involuntary_switches),
        }
    }

    /// User and system CPU, s.
    #[must_use]
    pub fn cpu_s(&self) -> Option<f64> {
        Some(self.cpu_user_s? + self.cpu_system_s?)
    }
}
