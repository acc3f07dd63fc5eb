//! One round at one size, as it is read from its report; and the order in which sizes run.

use std::time::Duration;

use crawlmark_harness::stats::Series;
use serde::{Deserialize, Serialize};

use super::size::Size;
use crate::judge::Finding;
use crate::judge::thresholds::{LITTLE_CPU, RUN_DELAY};
use crate::run::report::{BindingReport, Report, ShardReport, Verdict};
use crate::studies::compare::{CPU_PER_ATTEMPT, readings_of_run};
use crate::studies::{RoundRun, TargetUse};

/// The part of all CPUs from which on they are scarce. Below a half, who wants one mostly finds one
/// free.
const MUCH_CPU: f64 = 0.5;

/// A round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// The repeat that it belongs to, counted from 1.
    pub replicate: usize,
    /// Size of the round.
    #[serde(flatten)]
    pub size: Size,
    /// Its run.
    #[serde(flatten)]
    pub run: RoundRun,
    /// Requests that could be under way.
    pub in_flight: u32,
    /// Good items per second.
    pub items_per_s: f64,
    /// Limits that held its shards back, as parts of their time.
    pub binding: BindingReport,
    /// User and system CPU of the shards, us.
    pub cpu_us_per_attempt: Option<f64>,
    /// Mean of the shards' times for an item over the greatest; none when no shard did one.
    pub balance: Option<f64>,
    /// Median of the service time.
    pub p50_us: Option<f64>,
    /// 99th percentile of the service time.
    pub p99_us: Option<f64>,
    /// The part of its time that a shard waited for a CPU, of the one that waited longest.
    pub run_delay_share: Option<f64>,
    /// CPU over time and CPUs, of all processes of the round: the shards, their supervisor, and the
    /// target that it started; of a target that it did not start, of everything on the machine.
    pub machine_cpu_share: Option<f64>,
    /// What the target used and ran out of; none without a probe.
    pub target: Option<TargetUse>,
}

impl Round {
    /// The round of `replicate` at `size`, whose run has this report, saved in `result`. `cpu` is
    /// what all of its processes used.
    pub fn new(
        report: &Report,
        replicate: usize,
        size: Size,
        result: String,
        cpu: Option<Duration>,
    ) -> Self {
        let readings = readings_of_run(report);
        let service = report.latency(Series::ServiceOk);
        let cpus_s = report.environment.cores as f64 * report.totals.duration_s;
        Self {
            replicate,
            size,
            run: RoundRun::of(report, result),
            in_flight: report.plan.run.in_flight(),
            items_per_s: report.totals.ok_per_s,
            binding: report.binding,
            cpu_us_per_attempt: readings.of(CPU_PER_ATTEMPT).value(),
            balance: balance(&report.shards),
            p50_us: service.and_then(|times| times.p50_us),
            p99_us: service.and_then(|times| times.p99_us),
            run_delay_share: report
                .shards
                .iter()
                .filter_map(|shard| shard.usage.run_delay_share)
                .max_by(f64::total_cmp),
            machine_cpu_share: cpu
                .map(|cpu| cpu.as_secs_f64() / cpus_s)
                .filter(|share| share.is_finite()),
            target: TargetUse::of(report),
        }
    }

    /// True if it is the answer of this client at this size. A client that is its own limit is one.
    pub fn counts(&self) -> bool {
        self.run.validity <= Verdict::ClientLimited
    }

    /// The finding for which it does not count; none when it does.
    pub fn left_out_by(&self) -> Option<&Finding> {
        self.run
            .findings
            .iter()
            .find(|finding| !self.counts() && finding.effect() == Some(self.run.validity))
    }

    /// True if its processes may have taken the CPUs from each other: they used half of all CPUs or
    /// more, or a quarter while a shard waited for one for more than 5 % of its time, or the
    /// machine does not say. A wait beside less than that is due to other programs.
    pub fn lacked_cpu(&self) -> bool {
        let has_waited = self.run_delay_share.is_none_or(|waited| waited > RUN_DELAY);
        self.machine_cpu_share
            .is_none_or(|used| used >= MUCH_CPU || (used >= LITTLE_CPU && has_waited))
    }
}

/// The mean of the times that shards need for an item, over the greatest of them. One that did none
/// would need for ever.
fn balance(shards: &[ShardReport]) -> Option<f64> {
    let rates: Vec<f64> = shards.iter().map(|it| it.totals.items_per_s).collect();
    let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
    if !rates.iter().any(|rate| *rate > 0.0) {
        return None;
    }
    if least <= 0.0 {
        return Some(0.0);
    }
    let mean = rates.iter().map(|rate| 1.0 / rate).sum::<f64>() / shards.len() as f64;
    Some((mean * least).min(1.0))
}

/// For each of `repeats` repeats an order of `sizes` sizes, by their places: a random permutation
/// of its own. The same seed gives the same orders.
pub fn order(seed: u64, sizes: usize, repeats: usize) -> Vec<Vec<usize>> {
    let mut draw = fastrand::Rng::with_seed(seed);
    std::iter::repeat_with(|| {
        let mut places: Vec<usize> = (0..sizes).collect();
        draw.shuffle(&mut places);
        places
    })
    .take(repeats)
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_is_an_order_for_good_and_each_replicate_has_every_size() {
        // What was recorded can be run again: a generator that changes breaks that, and is to be
        // noticed.
        assert_eq!(order(1, 4, 3), [[3, 2, 1, 0], [2, 1, 0, 3], [0, 1, 3, 2]]);
        assert_ne!(order(1, 4, 9), order(2, 4, 9));
        for mut replicate in order(3, 9, 50) {
            replicate.sort_unstable();
            assert!(replicate.into_iter().eq(0..9));
        }
    }
}
