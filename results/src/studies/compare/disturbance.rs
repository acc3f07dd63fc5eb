//! Whether the machine was disturbed in one of the two rounds of a pair.
//!
//! It is judged without a look at which arm is which: a machine that is called disturbed because of
//! what the candidate did to it would be a way to choose the result.

use crawlmark_harness::stats::Series;
use serde::{Deserialize, Serialize};

use super::metric::{Metric, Readings, Statistic};
use super::runs::{readings_of_run, run_metrics};
use crate::judge::thresholds::{FREEZE_US, SHORTEST_FOR_STEAL_S, SPEED, STEAL};
use crate::run::report::Report;

/// Difference in the state of the machine between the rounds of a pair: it decides if the pair
/// counts. Other findings of a round, such as a CPU wait or a retransmission, may be the arm's own
/// doing, so that leaving them out would choose the result; they are counted. To be judged without
/// knowing which arm ran: otherwise it is a way to choose the result.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Disturbance {
    /// Nothing was noticed.
    #[default]
    None,
    /// The fixed work before and after took more time in one of the rounds.
    SpeedProbe,
    /// The hypervisor took more time away from one of the rounds.
    Steal,
    /// In one of the rounds, a shard was not run for longer.
    RunQueue,
}

impl Disturbance {
    /// The reason in words; empty without one.
    pub const fn words(self) -> &'static str {
        match self {
            Self::None => "",
            Self::SpeedProbe => "the CPU changed its speed",
            Self::Steal => "CPU time was stolen",
            Self::RunQueue => "a shard froze",
        }
    }
}

/// Factor by which a reading has to differ for a disturbance not to explain it: more than a change
/// of the CPU's speed, stolen time or a freeze in one of the rounds does.
pub(super) const BEYOND: f64 = 1.5;

/// State of the machine during a round, as far as it can be measured.
#[derive(Debug, Clone, Copy, Default)]
pub struct MachineState {
    /// Mean time of the fixed work before and after, µs; 0 if that is unknown.
    pub work_us: f64,
    /// The greatest part of a CPU's time that was stolen; 0 of a round shorter than 1 s, in which
    /// that cannot be told.
    pub stolen: f64,
    /// The longest time in which a shard did not run, µs.
    pub frozen_us: f64,
}

impl MachineState {
    /// The state during a run.
    pub fn of_run(report: &Report) -> Self {
        let usages = || report.shards.iter().map(|shard| &shard.usage);
        let works: Vec<f64> = usages()
            .flat_map(|usage| [usage.speed_before_us, usage.speed_after_us])
            .flatten()
            .collect();
        let long =
            usages().filter(|usage| usage.measured_s.is_some_and(|s| s >= SHORTEST_FOR_STEAL_S));
        Self {
            work_us: works.iter().sum::<f64>() / works.len().max(1) as f64,
            stolen: long
                .filter_map(|usage| usage.steal_share)
                .fold(0.0, f64::max),
            frozen_us: report
                .latency(Series::LoopLag)
                .and_then(|lag| lag.max_us)
                .unwrap_or(0.0),
        }
    }

    /// The disturbance by which this round differs from another one.
    fn beside(self, other: Self) -> Disturbance {
        let slower = self.work_us.max(other.work_us) / self.work_us.min(other.work_us);
        match () {
            // NaN or infinite if either is unknown.
            () if slower.is_finite() && slower > 1.0 + SPEED => Disturbance::SpeedProbe,
            () if (self.stolen - other.stolen).abs() > STEAL => Disturbance::Steal,
            () if (self.frozen_us - other.frozen_us).abs() > FREEZE_US => Disturbance::RunQueue,
            () => Disturbance::None,
        }
    }
}

impl Disturbance {
    /// Find the disturbance of a pair in its two rounds: that by which they differ. None if both
    /// were disturbed alike, or if one is better or worse than the other by more than a disturbance
    /// explains. Neither looks at which arm is which, so under the hypothesis of equal arms the
    /// differences of the pairs that count stay as likely of either sign.
    pub fn of_pair(
        states: [MachineState; 2],
        readings: [&Readings; 2],
        metrics: &[Metric],
    ) -> Self {
        let mut typical = metrics
            .iter()
            .filter(|metric| metric.statistic != Statistic::Tail);
        if typical.any(|metric| {
            let values = readings.map(|of| of.of(&metric.name).value());
            matches!(values, [Some(one), Some(other)] if one.max(other) > one.min(other) * BEYOND)
        }) {
            Self::None
        } else {
            states[0].beside(states[1])
        }
    }

    /// The disturbance of a pair of runs: see [`Disturbance::of_pair`].
    pub fn of_runs(runs: [&Report; 2]) -> Self {
        let readings = runs.map(readings_of_run);
        Self::of_pair(
            runs.map(MachineState::of_run),
            readings.each_ref(),
            &run_metrics(),
        )
    }
}
