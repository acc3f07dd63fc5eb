//! Experiments of `--diagnose`: which one what is known by now leaves to make, and its plan.

use std::time::Duration;

use crawlmark_harness::plan::{Arrivals, RunPlan, default_burst};
use crawlmark_harness::units::{Rate, RateShape};

use super::thresholds as limits;
use crate::run::report::{Change, Report};

/// Time that an experiment measures.
const MEASURED: Duration = Duration::from_secs(2);

/// The experiment that what is known by now leaves to make; none after a run that was stopped, or
/// that had too few answers to judge by.
pub fn next_experiment(report: &Report) -> Option<Change> {
    let lacks = |change: &Change| report.experiment(*change).is_none();
    if report.interrupted || report.answered_per_s() < limits::ANSWERED_PER_S {
        return None;
    }
    if report
        .body_us()
        .is_some_and(|us| limits::DELAYED_ACK_US.contains(&us))
        && lacks(&Change::ImmediateAcks)
    {
        return Some(Change::ImmediateAcks);
    }
    if reaches_its_rate(report) {
        return None;
    }
    let both = [Change::OneConnection, Change::TwiceTheConnections];
    if let Some(change) = both.into_iter().find(lacks) {
        return Some(change);
    }
    let at_a_time = report.worked_on_at_a_time()?;
    let ticks = report.in_step.map_or(0.0, |in_step| in_step.of_10_ms);
    let is_few = at_a_time < limits::SEVERAL;
    let third = (is_few || ticks >= limits::IN_STEP).then_some(Change::ThirdOfTheRate);
    let waves = (!is_few && has_queue(report)).then_some(Change::Waves);
    third.into_iter().chain(waves).find(lacks)
}

/// The plan of an experiment after the run of this plan; none if it would be no valid one.
pub fn experiment_plan(run: &RunPlan, change: Change, report: &Report) -> Option<RunPlan> {
    let mut plan = run.clone();
    (plan.duration, plan.warmup) = (Some(MEASURED), Duration::ZERO);
    plan.finished.clear();
    if change == Change::ImmediateAcks {
        return plan.validate().ok();
    }
    plan.arrivals = Arrivals::Asap;
    match change {
        Change::OneConnection => plan.connections = 1,
        Change::TwiceTheConnections => plan.connections = plan.connections.checked_mul(2)?,
        Change::ThirdOfTheRate => {
            plan.arrivals = Arrivals::Poisson;
            plan.rate = Some(per_second(report.answered_per_s() / 3.0)?);
        }
        Change::Waves => {
            plan.arrivals = Arrivals::Waves;
            plan.connections = whole(report.worked_on_at_a_time()?)?.max(2);
        }
        Change::ImmediateAcks => {}
    }
    if plan.connections == 1 || change == Change::Waves {
        (plan.streams, plan.shards) = (1, 1);
    }
    plan.shards = plan.shards.min(plan.connections);
    plan.queue = None;
    plan.shape = RateShape::Constant;
    (plan.burst, plan.at_start) = match plan.rate {
        Some(rate) if plan.arrivals.gaps().is_none() => {
            (default_burst(&rate, plan.shards), u64::from(plan.shards))
        }
        _ => (0, 0),
    };
    plan.validate().ok()
}

/// True if the run got the rate that it asked for, which leaves nothing to explain.
pub(super) fn reaches_its_rate(report: &Report) -> bool {
    let rate = report.plan.run.rate.map(|rate| rate.per_second());
    rate.is_some_and(|rate| report.answered_per_s() >= rate * limits::REACHED)
}

/// True if requests waited at the target for each other: they took longer there than one that is
/// alone. Those that a limit of this client holds back do not.
pub(super) fn has_queue(report: &Report) -> bool {
    let alone = report.experiment(Change::OneConnection);
    let alone_us = alone.and_then(|alone| alone.mean_us);
    alone_us
        .zip(report.at_target_us())
        .is_some_and(|(alone_us, us)| alone_us <= us * limits::QUEUES)
}

/// A rate; none of one that is none.
fn per_second(per_s: f64) -> Option<Rate> {
    format!("{}/h", (per_s * 3_600.0).round()).parse().ok()
}

/// The nearest whole number.
fn whole(number: f64) -> Option<u32> {
    format!("{number:.0}").parse().ok()
}
