//! Figures of a row, from the runs of an attempt. Pure: the true values, the tolerances, and the
//! rule of which runs count.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crawlmark_harness::stats::Series;
use crawlmark_results::run::report::Verdict;
use crawlmark_results::studies::compare::Pair;
use serde::{Deserialize, Serialize};

use super::figure::{Allowed, SelftestFigure, Unit};
use super::form::{FREEZE, HOLD, PER_S, SLOW_HOLD, Scene};
use super::pairs;
use super::seen::ObservedRun;
use crate::cli::Row;

/// Runs of an experiment, to be judged.
#[derive(Debug, Clone)]
pub(super) enum ExperimentRuns {
    /// Two holds, told apart by ID.
    Modes {
        /// The run.
        run: ObservedRun,
        /// The items that the target was to hold for long.
        slow: u64,
    },
    /// Runs through a stall.
    Stall {
        /// Timing of the stall and of the loops.
        scene: Scene,
        /// The open loop.
        open: ObservedRun,
        /// The closed one, where a row asks for it.
        closed: Option<ObservedRun>,
    },
    /// One shard, and two.
    Shards {
        /// One.
        one: ObservedRun,
        /// Two.
        two: ObservedRun,
    },
    /// A shard that was stopped.
    Freeze {
        /// The run.
        run: ObservedRun,
        /// Time for which it was stopped, by the clock of the process that stopped it; none when it
        /// never was.
        stopped: Option<Duration>,
    },
    /// Two targets.
    Pairs {
        /// The pairs of runs, those that were disturbed among them.
        pairs: Vec<Pair>,
        /// Causes of the disturbances.
        troubles: Vec<String>,
    },
}

/// One attempt at a row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    /// Reason why it does not count; nothing when it does.
    pub(crate) disturbed_by: Vec<String>,
    /// Measured figures.
    pub(crate) figures: Vec<SelftestFigure>,
}

impl Attempt {
    /// True if it says anything.
    pub(super) fn counts(&self) -> bool {
        self.disturbed_by.is_empty()
    }

    /// True if it counts, and every figure is within tolerance.
    pub(super) fn passes(&self) -> bool {
        self.counts() && self.figures.iter().all(|figure| figure.met)
    }

    /// True if it shows what no noise can, and so counts whatever disturbed it.
    pub(super) fn is_impossible(&self) -> bool {
        self.figures.iter().any(|figure| figure.impossible)
    }
}

/// Judges a row by what its experiment showed; none when that was another experiment.
///
/// An attempt counts when its runs were valid: noise only ever makes times longer, so that what a
/// quiet machine shows is the truth, and what a busy one shows is its own. A run whose parts do not
/// add up is not noise, and counts; so does a time that is shorter than can be.
pub(super) fn judge(row: Row, evidence: &ExperimentRuns) -> Option<Attempt> {
    match (row, evidence) {
        (Row::R1, ExperimentRuns::Modes { run, slow }) => Some(attempt(&[run], modes(run, *slow))),
        (Row::R2, ExperimentRuns::Modes { run, .. }) => Some(attempt(&[run], overhead(run))),
        (Row::R3, ExperimentRuns::Stall { scene, open, .. }) => {
            Some(attempt(&[open], open_loop(scene, open)))
        }
        (
            Row::R4,
            ExperimentRuns::Stall {
                scene,
                open,
                closed: Some(closed),
            },
        ) => Some(attempt(&[open, closed], closed_loop(scene, open, closed))),
        (Row::R5, ExperimentRuns::Stall { scene, open, .. }) => {
            Some(attempt(&[open], achieved(scene, open)))
        }
        (Row::R6, ExperimentRuns::Shards { one, two }) => {
            Some(attempt(&[one, two], scaling(one, two)))
        }
        (Row::R7, ExperimentRuns::Freeze { run, stopped }) => Some(freeze(run, *stopped)),
        (Row::R8, ExperimentRuns::Pairs { pairs, troubles }) => {
            Some(pairs::attempt(pairs, troubles))
        }
        _ => None,
    }
}

/// An attempt of runs that have to be valid.
fn attempt(runs: &[&ObservedRun], figures: Vec<SelftestFigure>) -> Attempt {
    let disturbed_by = runs.iter().flat_map(|run| run.troubles());
    let broken = runs.iter().filter(|run| run.verdict == Verdict::Incomplete);
    let broken = broken
        .map(|run| SelftestFigure::word("counts", "add up", &run.reasons.join("; ")).never_other());
    weighed(disturbed_by.collect(), broken.chain(figures).collect())
}

/// Create an attempt. Percentiles with too few samples mark it as disturbed, unless it already is
/// or another figure failed.
fn weighed(mut disturbed_by: Vec<String>, figures: Vec<SelftestFigure>) -> Attempt {
    if disturbed_by.is_empty()
        && figures
            .iter()
            .all(|figure| figure.met || figure.measured.is_none())
    {
        let unknown = figures.iter().filter(|figure| figure.measured.is_none());
        disturbed_by.extend(unknown.map(|figure| format!("{}: too few responses", figure.what)));
    }
    Attempt {
        disturbed_by,
        figures,
    }
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn ms(ms: f64) -> f64 {
    ms * 1e3
}

fn modes(run: &ObservedRun, slow: u64) -> Vec<SelftestFigure> {
    let time = |what, q, expected, high_ms| {
        let allowed = Allowed::between(us(expected), ms(high_ms));
        SelftestFigure::number(
            what,
            (Unit::Us, us(expected)),
            run.quantile_us(Series::ServiceOk, q),
            allowed,
        )
        .never_less()
    };
    let counted = run.above(Series::ServiceOk, SLOW_HOLD / 2) as f64;
    vec![
        SelftestFigure::number(
            "slow responses",
            (Unit::Count, slow as f64),
            Some(counted),
            Allowed::exactly(slow as f64),
        ),
        time("service p50", 0.5, HOLD, 25.0),
        time("service p97", 0.97, HOLD, 60.0),
        time("service p99", 0.99, SLOW_HOLD, 540.0),
    ]
}

fn overhead(run: &ObservedRun) -> Vec<SelftestFigure> {
    let time = |what, q, high_ms| {
        SelftestFigure::number(
            what,
            (Unit::Us, 0.0),
            run.quantile_us(Series::Overhead, q),
            Allowed::between(0.0, ms(high_ms)),
        )
    };
    let exactly = |what, expected: u64, counted: u64| {
        let (expected, counted) = (expected as f64, counted as f64);
        SelftestFigure::number(
            what,
            (Unit::Count, expected),
            Some(counted),
            Allowed::exactly(expected),
        )
        .never_other()
    };
    vec![
        exactly(
            "responses with a hold",
            run.count(Series::ServiceOk),
            run.count(Series::Overhead),
        ),
        exactly("shorter than held", 0, run.at_zero(Series::Overhead)),
        time("service - hold p50", 0.5, 1.5),
        time("service - hold p99", 0.99, 15.0),
    ]
}

/// Return the tolerance for times of the open loop, 10 ms below to 60 ms above the truth: noise
/// shortens them by a request or two at most.
fn about(expected_s: f64) -> Allowed {
    Allowed::between(
        ms(expected_s.mul_add(1e3, -10.0)),
        ms(expected_s.mul_add(1e3, 60.0)),
    )
}

fn open_loop(scene: &Scene, open: &ObservedRun) -> Vec<SelftestFigure> {
    let time = |what, q, measured| {
        let expected_s = scene.response_s(q);
        SelftestFigure::number(
            what,
            (Unit::Us, expected_s * 1e6),
            measured,
            about(expected_s),
        )
    };
    vec![
        time(
            "response p95",
            0.95,
            open.quantile_us(Series::ResponseOk, 0.95),
        ),
        time(
            "response p99",
            0.99,
            open.quantile_us(Series::ResponseOk, 0.99),
        ),
        time("response max", 1.0, open.max_us(Series::ResponseOk)),
    ]
}

fn closed_loop(scene: &Scene, open: &ObservedRun, closed: &ObservedRun) -> Vec<SelftestFigure> {
    let p99 = closed.quantile_us(Series::ServiceOk, 0.99);
    let ratio = open
        .quantile_us(Series::ResponseOk, 0.99)
        .zip(p99)
        .map(|(open, closed)| open / closed);
    let expected = scene.response_s(0.99) / HOLD.as_secs_f64();
    vec![
        SelftestFigure::number(
            "service p99",
            (Unit::Us, us(HOLD)),
            p99,
            Allowed::between(us(HOLD), ms(80.0)),
        )
        .never_less(),
        SelftestFigure::number(
            "open to closed p99",
            (Unit::Ratio, expected),
            ratio,
            Allowed::at_least(8.0),
        ),
    ]
}

fn achieved(scene: &Scene, open: &ObservedRun) -> Vec<SelftestFigure> {
    let allowed = Allowed::between(0.995, 1.005);
    let asked = open.asked as f64 / scene.scheduled();
    let reported = open.achieved_per_s.map(|per_s| per_s / PER_S as f64);
    vec![
        SelftestFigure::number("as reported", (Unit::Ratio, 1.0), reported, allowed),
        SelftestFigure::number("target's count", (Unit::Ratio, 1.0), Some(asked), allowed),
    ]
}

fn scaling(one: &ObservedRun, two: &ObservedRun) -> Vec<SelftestFigure> {
    let ratio = (one.items_per_s > 0.0).then(|| two.items_per_s / one.items_per_s);
    vec![SelftestFigure::number(
        "items/s, 2 to 1",
        (Unit::Ratio, 2.0),
        ratio,
        Allowed::between(1.94, 2.06),
    )]
}

/// Here the run has to be found out: an attempt does not count when something graver was found than
/// that, or when the shard was not stopped.
fn freeze(run: &ObservedRun, stopped: Option<Duration>) -> Attempt {
    let expected = us(stopped.unwrap_or(FREEZE));
    let allowed = Allowed::between(expected - ms(50.0), expected + ms(200.0));
    let figures = vec![
        SelftestFigure::number(
            "sched_lag max",
            (Unit::Us, expected),
            run.max_us(Series::SchedLag),
            allowed,
        ),
        SelftestFigure::word("verdict", Verdict::ClientLimited.name(), run.verdict.name()),
    ];
    let mut disturbed_by = if matches!(run.verdict, Verdict::TargetLimited | Verdict::Disturbed) {
        run.reasons.clone()
    } else {
        Vec::new()
    };
    if stopped.is_none() {
        disturbed_by.push("the run was over before the shard could be stopped".to_owned());
    }
    weighed(disturbed_by, figures)
}
