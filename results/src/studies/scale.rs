//! `Scaling`: growth of throughput with the shards, or with the connections. Judges rounds that ran
//! at several sizes.
//!
//! Called by `scale` with all rounds that it ran. Pure: it runs nothing, reads no clock, draws no
//! number but the [`order()`].
//!
//! | file | holds |
//! |---|---|
//! | `round` | one round, and the order in which the sizes of a repeat run |
//! | `curve` | the rounds of one size, all sizes |
//! | `estimate` | median of repeats, with its interval |
//! | `chart` | the chart |
//!
//! # Method
//!
//! A *repeat* is one round of each size, in an order drawn at random ([`order()`]), so that what
//! drifts falls on all sizes alike. Ratios are formed within a repeat, where both rounds were the
//! machine's neighbours:
//!
//! ```text
//! X(N)   good items per second                       of a round
//! S(N) = X(N) / X(base)                              of a repeat; base is the smallest size
//! E(N) = S(N) / (N / base)                           1: twice the shards do twice as much
//! W(N) = CPU per attempt at base / at N              1: an attempt costs what it cost
//! e(N) = (1/S - 1/N) / (1 - 1/N)                     Karp and Flatt's serial fraction, of a base of 1
//! ```
//!
//! The figure shown is the median over the repeats, with the interval of [`Estimate`]: exact, and
//! without an assumption about noise.
//!
//! The *balance* of a round is the mean of its shards' times over the greatest: 1 when none lags
//! behind. Rounds end by the clock, so all shards run equally long, and their wall time tells
//! nothing. The time of a shard is therefore what it needs for an item,
//! `1 / (its items per second)`: of equal shares of work, the slowest shard's would take that many
//! times longer. CPU time is no such measure, for a shard that waits for its CPU uses less of it.
//!
//! # What counts
//!
//! A round whose verdict is graver than `client_limited` is left out, and so is one that was
//! interrupted. `client_limited` stays: how much a client can do is a fair question, and the size
//! is marked ([`Point::client_limited`]).
//!
//! Where shards and target processes together exceed the CPUs, a size is *colocated*. It counts
//! none the less when CPU was not scarce ([`Round::lacked_cpu`]): its rounds used less than half of
//! all CPUs, and no shard waited for one for more than 5 % of its time. Such a round is limited by
//! the wait for answers, and a process that sleeps uses no CPU. This is measured and not taken from
//! the mode that was asked for: a latency-bound crawl with too many connections is as colocated as
//! any other.
//!
//! # Sources
//!
//! Karp, A. H. and Flatt, H. P. (1990), *Measuring parallel processor performance*, CACM 33,
//! 539-543. David, H. A. and Nagaraja, H. N. (2003), *Order Statistics*, 7.1.

mod chart;
mod curve;
mod estimate;
mod round;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::curve::{Axis, Curve, FixedQuantity, Point};
pub use self::estimate::{Estimate, LEVEL};
pub use self::round::{Round, Size, order};
use crate::run::report::Environment;
use crate::show::chart::Chart;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::text::{decimal, micros};
use crate::studies::compare::Interval;
use crate::studies::{Conclusion, Header, LoadStep, Notice, RoundsOf, StudyResult, or_dash};
use crawlmark_harness::units::{grouped, percent, rounded_percent};

/// Result of the study, whole, as it is saved in `scale.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Settings and environment of the rounds.
    #[serde(flatten)]
    pub circumstances: ScaleContext,
    /// Growth of throughput, by curve.
    pub curves: Vec<Curve>,
    /// Every round, in the order in which they ran.
    pub rounds: Vec<Round>,
}

/// Settings and environment of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScaleContext {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// Target that was crawled, in words.
    pub target: String,
    /// The longest that a round took to send, s.
    pub round_s: f64,
    /// Replicates that were asked for.
    pub repeats: usize,
    /// Seed of the order of the rounds.
    pub seed: u64,
    /// The machine.
    pub environment: Environment,
    /// Processes of the target on this machine; of one that `scale` did not start at least 1. 0
    /// elsewhere.
    pub target_processes: u32,
}

impl Scaling {
    /// Build the result of these rounds, given in the order in which they ran. `held` names what
    /// each curve holds fixed.
    pub fn new(rounds: Vec<Round>, held: &[FixedQuantity], circumstances: ScaleContext) -> Self {
        let room = Room {
            cores: circumstances.environment.cores,
            target_processes: circumstances.target_processes,
        };
        let held = held.iter();
        Self {
            curves: held.map(|held| Curve::new(*held, &rounds, room)).collect(),
            circumstances,
            rounds,
        }
    }
}

/// Limits by which sizes are judged.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// CPUs of this machine.
    pub cores: usize,
    /// Processes of the target on it.
    pub target_processes: u32,
}

/// Answer of a curve: its largest size beside the smallest.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum ScaleFinding {
    /// No size has a valid round together with the smallest size.
    NothingToCompare {},
    /// The largest size that counts.
    Grew {
        /// Quantity that all sizes have in common.
        held: FixedQuantity,
        /// The smallest and the largest size.
        sizes: [f64; 2],
        /// Times as fast.
        speedup: Estimate,
        /// The same for each part of it.
        efficiency: Estimate,
        /// Times the CPU per request, where chance is excluded.
        cost: Option<Estimate>,
    },
    /// No size counts beside the smallest: client and target competed for the CPUs.
    CpuScarce {
        /// Quantity that all sizes have in common.
        held: FixedQuantity,
        /// The smallest and the largest size.
        sizes: [f64; 2],
        /// Times as fast.
        speedup: Estimate,
    },
}

/// Compare the largest size with the smallest.
fn answer(curve: &Curve) -> ScaleFinding {
    let told = curve.base().zip(curve.told());
    let Some((base, point, speedup, efficiency)) =
        told.and_then(|(base, point)| Some((base, point, point.speedup?, point.efficiency?)))
    else {
        return ScaleFinding::NothingToCompare {};
    };
    let (held, sizes) = (curve.held, [curve.n(base), curve.n(point)]);
    if !curve.is_answer(point) {
        return ScaleFinding::CpuScarce {
            held,
            sizes,
            speedup,
        };
    }
    let is_clear = point
        .cpu_work_efficiency
        .is_some_and(|work| work.is_above(1.0));
    ScaleFinding::Grew {
        held,
        sizes,
        speedup,
        efficiency,
        cost: cost(point).filter(|cost| is_clear || cost.is_above(1.0)),
    }
}

impl StudyResult for Scaling {
    type Finding = ScaleFinding;

    const SCHEMA: &'static str = "crawlmark.scale/1";

    const FILE: &'static str = "scale.json";

    fn header(&self) -> &Header {
        &self.circumstances.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.circumstances.environment)
    }

    fn findings(&self) -> Vec<ScaleFinding> {
        self.curves.iter().map(answer).collect()
    }

    fn notice(&self, finding: &ScaleFinding) -> Notice {
        match finding {
            ScaleFinding::NothingToCompare {} => Notice::new(
                Severity::Warning,
                "No size has a valid round together with the smallest size, so there is nothing to compare",
            ),
            ScaleFinding::Grew {
                held,
                sizes: [least, largest],
                speedup,
                efficiency,
                cost,
            } => {
                // More than 100 % is claimed only where chance is excluded.
                let is_more = efficiency.is_above(1.0);
                let share = if is_more {
                    efficiency.median
                } else {
                    efficiency.median.min(1.0)
                };
                let cost = cost.map_or_else(String::new, |cost| {
                    let range = range(&cost, times);
                    format!(", at {}x the CPU per request{range}", times(cost.median))
                });
                let title = format!(
                    "{largest} {} are {}x as fast as {least}{} with {held}: {} efficient{}{cost}",
                    held.axis().name(),
                    factor(speedup.median),
                    range(speedup, factor),
                    rounded_percent(share),
                    range(efficiency, percent)
                );
                Notice::new(Severity::Neutral, title)
            }
            ScaleFinding::CpuScarce {
                held,
                sizes: [least, largest],
                speedup,
            } => {
                let (name, factor) = (held.axis().name(), factor(speedup.median));
                Notice::new(Severity::Warning, format!(
                    "No size counts, because client and target competed for the CPUs: {largest} {name} were {factor}x as fast as {least}",
                ))
                .with("Run the target on another or lower the load (fewer connections; --latency-bound, with the bundled target).")
            }
        }
    }

    fn rounds(&self) -> Vec<RoundsOf<'_>> {
        let findings = self.rounds.iter().map(|round| &*round.findings).collect();
        vec![RoundsOf { side: "", findings }]
    }

    fn load_steps(&self) -> Vec<LoadStep> {
        let curve = self.curves.first();
        curve.map_or_else(Vec::new, |curve| curve.load_steps(&self.rounds))
    }

    fn fill(&self, doc: Doc) -> Doc {
        let tables = self.curves.iter().map(table);
        tables.fold(doc, Doc::table).facts(facts(self))
    }

    fn chart(&self) -> Option<Chart> {
        Some(chart::chart(self))
    }

    fn conclusion(&self) -> Conclusion {
        let mut findings = self.findings().into_iter();
        if findings.any(|finding| matches!(finding, ScaleFinding::Grew { .. })) {
            Conclusion::Done
        } else {
            Conclusion::Inconclusive
        }
    }
}

/// Format a speedup: `15.8`, `1.98`.
fn factor(speedup: f64) -> String {
    if speedup < 9.95 {
        times(speedup)
    } else {
        format!("{speedup:.1}")
    }
}

/// Format a ratio.
fn times(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// ` (7.84 to 8.01)`; nothing of a single value.
fn range(estimate: &Estimate, format: impl Fn(f64) -> String) -> String {
    let Some(between) = estimate.interval else {
        return String::new();
    };
    format!(" ({} to {})", format(between.low), format(between.high))
}

/// Return the CPU cost of an attempt as a multiple of that at the smallest size. The ends of its
/// interval change places.
fn cost(point: &Point) -> Option<Estimate> {
    let work = point.cpu_work_efficiency?;
    let interval = work.interval.map(|of| Interval {
        low: 1.0 / of.high,
        high: 1.0 / of.low,
    });
    Some(Estimate {
        median: 1.0 / work.median,
        interval,
        ..work
    })
}

/// The table of a curve: a row for each size.
fn table(curve: &Curve) -> Table {
    let least = curve.base().map_or(1.0, |base| curve.n(base));
    let connections = Column::numbers("connections");
    Table {
        caption: curve.held.to_string(),
        columns: vec![
            Column::numbers("shards"),
            // Without it, sizes that differ in it would look the same.
            if curve.held.axis() == Axis::Shards {
                connections.leaving(3)
            } else {
                connections
            },
            Column::numbers("items/s"),
            Column::numbers(format!("times {least}")),
            Column::numbers("efficiency"),
            Column::numbers("CPU per request").leaving(7),
            Column::numbers(format!("CPU, times {least}")).leaving(4),
            Column::numbers("target CPU per request").leaving(3),
            Column::numbers("target CPUs").leaving(3),
            Column::numbers("serial fraction").leaving(1),
            Column::numbers("balance").leaving(6),
            Column::numbers("p50").leaving(2),
            Column::numbers("p99").leaving(5),
            Column::words("limited by").leaving(9),
            Column::words("note").leaving(8),
        ],
        rows: curve.points.iter().map(row).collect(),
        ..Table::default()
    }
}

fn row(point: &Point) -> Vec<String> {
    // Noise, or a target that throttles, makes what is no fraction.
    let serial = point.serial_fraction;
    let serial = serial.filter(|fraction| (0.0..=1.0).contains(&fraction.median));
    vec![
        point.size.shards.to_string(),
        grouped(u64::from(point.size.connections)),
        median(point.items_per_s, decimal),
        beside(point, point.speedup),
        median(point.efficiency, percent),
        median(point.cpu_us_per_attempt, micros),
        beside(point, cost(point)),
        if_read(point.target_cpu_us_per_attempt, micros),
        if_read(point.target_cpus_used, decimal),
        serial.map_or_else(String::new, |fraction| percent(fraction.median)),
        median(point.balance, percent),
        or_dash(point.p50_us, micros),
        or_dash(point.p99_us, micros),
        format!(
            "{} ({})",
            point.limited_by.name(),
            rounded_percent(point.limited_share)
        ),
        marks(point),
    ]
}

fn median(estimate: Option<Estimate>, format: fn(f64) -> String) -> String {
    or_dash(estimate.map(|estimate| estimate.median), format)
}

/// A figure of the target, which no size has without a probe.
fn if_read(estimate: Option<Estimate>, format: fn(f64) -> String) -> String {
    estimate.map_or_else(String::new, |estimate| format(estimate.median))
}

/// A ratio to the smallest size, with its interval; the smallest beside itself has none.
fn beside(point: &Point, estimate: Option<Estimate>) -> String {
    let estimate = estimate.filter(|_| point.factor > 1.0);
    estimate.map_or_else(String::new, |estimate| {
        times(estimate.median) + &range(&estimate, times)
    })
}

/// Return the caveats on a size, in a few words.
fn marks(point: &Point) -> String {
    let counted = point.rounds - point.left_out;
    let marks = [
        (point.left_out > 0).then(|| format!("{counted} of {} rounds", point.rounds)),
        (point.colocated && point.lacked_cpu).then(|| "does not count: CPU was scarce".to_owned()),
        point.client_limited.then(|| "client limited".to_owned()),
    ];
    marks.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn facts(scaling: &Scaling) -> Vec<(&'static str, String)> {
    let ScaleContext {
        target,
        round_s,
        repeats,
        seed,
        ..
    } = &scaling.circumstances;
    // The smallest beside itself has no interval that is shown.
    let points = scaling.curves.iter().flat_map(|curve| &curve.points);
    let levels = points.filter(|point| point.factor > 1.0);
    let level = levels
        .filter_map(|point| point.speedup?.level)
        .reduce(f64::min);
    let level = level.map_or_else(String::new, |level| {
        format!("; confidence of intervals at least {}", percent(level))
    });
    let rounds = grouped(scaling.rounds.len() as u64);
    vec![
        ("target", target.clone()),
        (
            "rounds",
            format!(
                "{rounds} of {round_s} s in random order (seed {seed}), {repeats} of each size planned{level}"
            ),
        ),
    ]
}
