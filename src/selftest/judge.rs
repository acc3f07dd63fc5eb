//! Figures of a row, from the runs of an attempt. Pure: the true values, the tolerances, and the
//! rule of which runs count.

#[cfg(test)]
mod tests;

use std::time::Duration;

use crawlmark_harness::stats::Series;
use crawlmark_results::run::report::Verdict;
use crawlmark_results::studies::compare::{Comparison, Overall, THROUGHPUT};
use serde::Serialize;

use super::experiment::{CANDIDATE_HOLD, FREEZE, HOLD, ObservedRun, PER_S, SLOW_HOLD, Scene};

/// Unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Unit {
    /// Microseconds.
    Us,
    /// Things.
    Count,
    /// Parts of each other.
    Ratio,
    /// 1 if it holds, 0 if not.
    Flag,
}

/// A figure of a row: its true value, its measured value, and the tolerance between them.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Figure {
    /// Name of the measured quantity.
    pub(crate) what: String,
    /// Unit of the values.
    pub(crate) unit: Unit,
    /// The truth.
    pub(crate) expected: f64,
    /// None when there was too little to tell.
    pub(crate) measured: Option<f64>,
    /// The least that is within tolerance.
    pub(crate) low: f64,
    /// The most; none when nothing is too much.
    pub(crate) high: Option<f64>,
    /// True if it is within tolerance.
    pub(crate) met: bool,
    /// True if it is what no noise can make of the truth, such as an answer before its hold is
    /// over.
    pub(crate) impossible: bool,
}

impl Figure {
    /// A number that may lie from the first of `within` to the second, both included.
    pub(super) fn number(
        what: impl Into<String>,
        unit: Unit,
        expected: f64,
        measured: Option<f64>,
        [low, high]: [f64; 2],
    ) -> Self {
        Self {
            what: what.into(),
            unit,
            expected,
            measured,
            low,
            high: Some(high).filter(|high| high.is_finite()),
            met: measured.is_some_and(|value| value >= low && value <= high),
            impossible: false,
        }
    }

    /// A count that has to be exact.
    fn count(what: &str, expected: u64, measured: u64) -> Self {
        let (expected, measured) = (expected as f64, measured as f64);
        Self::number(what, Unit::Count, expected, Some(measured), [expected; 2])
    }

    /// Something that has to hold.
    fn holds(what: impl Into<String>, holds: bool) -> Self {
        Self::number(what, Unit::Flag, 1.0, Some(f64::from(holds)), [1.0; 2])
    }

    /// Mark the figure as impossible if it is missed: noise cannot change it.
    fn certain(self) -> Self {
        Self {
            impossible: !self.met,
            ..self
        }
    }

    /// Mark the figure as impossible if it is below the tolerance: noise can only add to it.
    fn never_less(self) -> Self {
        Self {
            impossible: self.measured.is_some_and(|measured| measured < self.low),
            ..self
        }
    }
}

/// One attempt at a row.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Attempt {
    /// Reasons why it does not count; nothing when it does.
    pub(crate) disturbed_by: Vec<String>,
    /// Measured figures.
    pub(crate) figures: Vec<Figure>,
}

impl Attempt {
    /// An attempt of runs that have to be valid.
    ///
    /// Noise only ever makes times longer, so that what a quiet machine shows is the truth, and
    /// what a busy one shows is its own. A run whose parts do not add up is not noise, and counts;
    /// so does a time that is shorter than can be.
    fn of(runs: &[&ObservedRun], figures: Vec<Figure>) -> Self {
        let broken = runs
            .iter()
            .filter(|run| run.verdict == Verdict::Incomplete)
            .map(|run| Figure::holds(format!("sums: {}", run.reasons.join("; ")), false).certain());
        let disturbed_by = runs.iter().flat_map(|run| run.troubles()).collect();
        Self::weighed(disturbed_by, broken.chain(figures).collect())
    }

    /// Percentiles with too few samples mark an attempt as disturbed, unless it already is or
    /// another figure failed.
    fn weighed(mut disturbed_by: Vec<String>, figures: Vec<Figure>) -> Self {
        let mut missed = figures.iter().filter(|it| !it.met);
        if disturbed_by.is_empty() && missed.all(|it| it.measured.is_none()) {
            let few = figures.iter().filter(|it| it.measured.is_none());
            disturbed_by.extend(few.map(|figure| format!("{}: too few responses", figure.what)));
        }
        Self {
            disturbed_by,
            figures,
        }
    }

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

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// R1: two holds, told apart by ID, of which `slow` items have the long one.
pub(super) fn modes(run: &ObservedRun, slow: u64) -> Attempt {
    let counted = run.above(Series::ServiceOk, SLOW_HOLD / 2);
    let mut figures = vec![Figure::count("slow responses", slow, counted)];
    for (what, q, expected, most_us) in [
        ("service p50", 0.5, HOLD, 25e3),
        ("service p97", 0.97, HOLD, 60e3),
        ("service p99", 0.99, SLOW_HOLD, 540e3),
    ] {
        let (expected, measured) = (us(expected), run.quantile_us(Series::ServiceOk, q));
        let within = [expected, most_us];
        figures.push(Figure::number(what, Unit::Us, expected, measured, within).never_less());
    }
    Attempt::of(&[run], figures)
}

/// R2: service time minus the hold that the target reports.
pub(super) fn overhead(run: &ObservedRun) -> Attempt {
    let [all, _] = run.counts(Series::ServiceOk);
    let [held, early] = run.counts(Series::Overhead);
    let mut figures = vec![
        Figure::count("responses with a hold", all, held).certain(),
        Figure::count("shorter than held", 0, early).certain(),
    ];
    for (what, q, most_us) in [
        ("service - hold p50", 0.5, 1.5e3),
        ("service - hold p99", 0.99, 15e3),
    ] {
        let (measured, within) = (run.quantile_us(Series::Overhead, q), [0.0, most_us]);
        figures.push(Figure::number(what, Unit::Us, 0.0, measured, within));
    }
    Attempt::of(&[run], figures)
}

/// R3: an open loop through a stall. Its times may lie 10 ms below to 60 ms above the truth: noise
/// shortens them by a request or two at most.
pub(super) fn open_loop(scene: &Scene, open: &ObservedRun) -> Attempt {
    let ok = Series::ResponseOk;
    let times = [
        ("response p95", 0.95, open.quantile_us(ok, 0.95)),
        ("response p99", 0.99, open.quantile_us(ok, 0.99)),
        ("response max", 1.0, open.max_us(ok)),
    ];
    let figures = times.map(|(what, q, measured)| {
        let expected = scene.response_s(q) * 1e6;
        let within = [expected - 10e3, expected + 60e3];
        Figure::number(what, Unit::Us, expected, measured, within)
    });
    Attempt::of(&[open], figures.into())
}

/// R4: a closed loop through the same stall, which hides it.
pub(super) fn closed_loop(scene: &Scene, open: &ObservedRun, closed: &ObservedRun) -> Attempt {
    let (hold, p99) = (us(HOLD), closed.quantile_us(Series::ServiceOk, 0.99));
    let ratio = open
        .quantile_us(Series::ResponseOk, 0.99)
        .zip(p99)
        .map(|(open, closed)| open / closed);
    let expected = scene.response_s(0.99) / HOLD.as_secs_f64();
    let at_least = [8.0, f64::INFINITY];
    Attempt::of(
        &[open, closed],
        vec![
            Figure::number("service p99", Unit::Us, hold, p99, [hold, 80e3]).never_less(),
            Figure::number("open to closed p99", Unit::Ratio, expected, ratio, at_least),
        ],
    )
}

/// R5: requests of the open loop as scheduled, reported and counted.
pub(super) fn achieved(scene: &Scene, open: &ObservedRun) -> Attempt {
    let reported = open.achieved_per_s.map(|per_s| per_s / PER_S as f64);
    let counted = open.asked as f64 / scene.scheduled();
    let ratios = [("as reported", reported), ("target's count", Some(counted))];
    let figures = ratios
        .map(|(what, measured)| Figure::number(what, Unit::Ratio, 1.0, measured, [0.995, 1.005]));
    Attempt::of(&[open], figures.into())
}

/// R6: two shards against one.
pub(super) fn scaling(one: &ObservedRun, two: &ObservedRun) -> Attempt {
    let ratio = (one.items_per_s > 0.0).then(|| two.items_per_s / one.items_per_s);
    let figure = Figure::number("items/s, 2 to 1", Unit::Ratio, 2.0, ratio, [1.94, 2.06]);
    Attempt::of(&[one, two], vec![figure])
}

/// R7: a shard that was stopped for as long as `stopped`. Here the run has to be found out: an
/// attempt does not count when something graver was found than that, or when the shard was not
/// stopped.
pub(super) fn freeze(run: &ObservedRun, stopped: Option<Duration>) -> Attempt {
    let (expected, lag) = (us(stopped.unwrap_or(FREEZE)), run.max_us(Series::SchedLag));
    let within = [expected - 50e3, expected + 200e3];
    let figures = vec![
        Figure::number("sched_lag max", Unit::Us, expected, lag, within),
        Figure::holds(
            "verdict client_limited",
            run.verdict == Verdict::ClientLimited,
        ),
    ];
    let mut disturbed_by = if matches!(run.verdict, Verdict::TargetLimited | Verdict::Disturbed) {
        run.reasons.clone()
    } else {
        Vec::new()
    };
    if stopped.is_none() {
        disturbed_by.push("the run was over before the shard could be stopped".to_owned());
    }
    Attempt::weighed(disturbed_by, figures)
}

/// R8: what `ab` says of two targets that differ by 5 %. It does not count when more than a quarter
/// of its pairs were disturbed.
pub(super) fn pairs(comparison: &Comparison) -> Attempt {
    if comparison.look.is_none() {
        let disturbed = comparison.disturbed_pairs;
        return Attempt {
            disturbed_by: vec![format!(
                "{disturbed} pairs of runs were disturbed, more than a quarter"
            )],
            figures: Vec::new(),
        };
    }
    let throughput = comparison.of(THROUGHPUT);
    let ratio = throughput
        .and_then(|finding| finding.evidence)
        .map(|evidence| evidence.ratio);
    let expected = HOLD.as_secs_f64() / CANDIDATE_HOLD.as_secs_f64();
    // Up to 1.2 ms of every request are not the target's hold, and make the two more alike; and a
    // hundredth either way.
    let within = [0.952 - 0.01, 0.955 + 0.01];
    Attempt {
        disturbed_by: Vec::new(),
        figures: vec![
            Figure::number("throughput", Unit::Ratio, expected, ratio, within),
            Figure::holds(
                "verdict regression",
                comparison.verdict == Overall::Regression,
            ),
        ],
    }
}
