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
//! | `usl` | the Universal Scalability Law of a curve |
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
pub(super) mod estimate;
mod round;
pub(super) mod size;
#[cfg(test)]
mod tests;
pub(super) mod usl;

use serde::{Deserialize, Serialize};

pub use self::curve::*;
pub use self::estimate::*;
pub use self::round::*;
pub use self::size::*;
pub use self::usl::*;
use super::findings::factor;
use super::{
    Conclusion, Header, Picture, RoundRun, StudyFinding, StudyResult, figure, in_rounds, load,
    or_dash, rate,
};
use crate::run::report::Environment;
use crate::show::doc::{Column, Doc, Figure, Table};
use crate::show::text::{decimal, grouped_f64, micros};
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
        let curves = held.iter().map(|held| Curve::new(*held, &rounds, room));
        Self {
            curves: curves.collect(),
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

/// Compare the largest size of a curve with the smallest.
fn answer(curve: &Curve) -> StudyFinding {
    let told = curve.base().zip(curve.told());
    let Some((base, point, speedup, efficiency)) =
        told.and_then(|(base, point)| Some((base, point, point.speedup?, point.efficiency?)))
    else {
        return StudyFinding::NothingToCompare {};
    };
    let (held, sizes) = (curve.held, [curve.n(base), curve.n(point)]);
    if !curve.is_answer(point) {
        return StudyFinding::CpuScarce {
            held,
            sizes,
            speedup,
        };
    }
    let work = point.cpu_work_efficiency;
    StudyFinding::Grew {
        held,
        sizes,
        speedup,
        efficiency,
        cost: work
            .filter(|work| work.is_above(1.0) || work.inverse().is_above(1.0))
            .map(Estimate::inverse),
    }
}

/// The law that a curve follows, if it has sizes enough.
fn law(curve: &Curve) -> Option<StudyFinding> {
    let Usl {
        contention,
        coherency,
        peak,
        ..
    } = curve.usl?;
    Some(StudyFinding::Law {
        held: curve.held,
        contention,
        coherency,
        peak,
    })
}

impl StudyResult for Scaling {
    const SCHEMA: &'static str = "crawlmark.scale/1";

    const FILE: &'static str = "scale.json";

    fn chart(&self) -> [&'static str; 2] {
        ["scaling", "How throughput grows"]
    }

    fn header(&self) -> &Header {
        &self.circumstances.header
    }

    fn environment(&self) -> Option<&Environment> {
        Some(&self.circumstances.environment)
    }

    fn findings(&self) -> Vec<StudyFinding> {
        let mut found: Vec<_> = self.curves.iter().map(answer).collect();
        found.extend(self.curves.iter().filter_map(law));
        let steps = self
            .curves
            .first()
            .map(|curve| curve.load_steps(&self.rounds));
        found.extend(load::limits(&steps.unwrap_or_default()));
        let runs: Vec<&RoundRun> = self.rounds.iter().map(|round| &round.run).collect();
        found.extend(in_rounds("", &runs));
        found
    }

    fn main_figures(&self) -> Vec<Figure> {
        let curve = self.curves.first();
        let ends = curve.and_then(|curve| Some((curve, curve.base()?, curve.told()?)));
        let Some((curve, base, most)) = ends else {
            return Vec::new();
        };
        let [least_n, most_n] = [base, most].map(|point| curve.n(point));
        let figures: [EstimateFigure; 4] = [
            (format!("Rate at {most_n}"), most.items_per_s, rate),
            (format!("Times that at {least_n}"), most.speedup, |times| {
                format!("{}\u{d7}", decimal(times))
            }),
            ("Efficiency".to_owned(), most.efficiency, percent),
            (
                "CPU per request".to_owned(),
                most.cpu_us_per_attempt,
                micros,
            ),
        ];
        figures
            .into_iter()
            .filter_map(|(name, estimate, format)| {
                let [value, interval] = estimate?.texts(format);
                figure(name, Some(value), interval.trim_start().to_owned())
            })
            .collect()
    }

    fn fill(&self, doc: Doc) -> Doc {
        self.curves
            .iter()
            .map(table)
            .fold(doc, Doc::table)
            .facts(facts(self))
    }

    fn short_table(&self, _columns: usize) -> Option<Table> {
        match &self.curves[..] {
            [curve] => Some(sizes_beside_each_other(curve)),
            _ => None,
        }
    }

    fn picture(&self) -> Option<Picture> {
        let of = &self.circumstances;
        let held = match &self.curves[..] {
            [curve] => format!("{} · ", curve.held),
            _ => String::new(),
        };
        let mut points = self.curves.iter().flat_map(|curve| &curve.points);
        let hollow = if points.all(Point::counts) {
            ""
        } else {
            " · hollow: client and target competed for CPUs"
        };
        Some(Picture {
            subtitle: format!(
                "good items per second · {held}medians of {} rounds, bars their intervals{hollow}",
                of.repeats
            ),
            command: "scale",
            of: vec![of.target.clone()],
            panels: chart::panels(self),
        })
    }

    fn conclusion(&self) -> Conclusion {
        let mut answers = self.curves.iter().map(answer);
        if answers.any(|answer| matches!(answer, StudyFinding::Grew { .. })) {
            Conclusion::Done
        } else {
            Conclusion::Inconclusive
        }
    }
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

/// A figure of a study: its name, its estimate, and the form of a number.
type EstimateFigure = (String, Option<Estimate>, fn(f64) -> String);

/// A figure of a size: its name, and its text.
type SizeFigure = (&'static str, fn(&Point) -> String);

/// The main figures of a curve: a column for each size.
fn sizes_beside_each_other(curve: &Curve) -> Table {
    let figures: [SizeFigure; 6] = [
        ("items/s", |point| {
            or_dash(median(point.items_per_s), decimal)
        }),
        ("efficiency", |point| {
            or_dash(median(point.efficiency), percent)
        }),
        ("CPU/request", |point| {
            or_dash(median(point.cpu_us_per_attempt), micros)
        }),
        ("p99", |point| or_dash(point.p99_us, micros)),
        ("rounds left out", |point| match point.left_out {
            0 => String::new(),
            left_out => format!("{left_out} of {}", point.rounds),
        }),
        ("does not count", |point| {
            let is_scarce = point.colocated && point.lacked_cpu;
            String::from(if is_scarce { "scarce CPU" } else { "" })
        }),
    ];
    let points = &curve.points;
    let sizes = points
        .iter()
        .map(|point| Column::numbers(grouped_f64(curve.n(point))));
    let rows = figures.into_iter().filter_map(|(name, value)| {
        let values: Vec<String> = points.iter().map(value).collect();
        let is_known = values.iter().any(|value| !value.is_empty());
        is_known.then(|| [name.to_owned()].into_iter().chain(values).collect())
    });
    Table {
        columns: [Column::words(curve.held.axis().name())]
            .into_iter()
            .chain(sizes)
            .collect(),
        rows: rows.collect(),
        ..Table::default()
    }
}

fn row(point: &Point) -> Vec<String> {
    // The smallest beside itself has no ratio.
    let beside = |ratio: Option<Estimate>| {
        let ratio = ratio.filter(|_| point.factor > 1.0);
        ratio.map_or_else(String::new, |ratio| ratio.texts(factor).concat())
    };
    // Noise, or a target that throttles, makes what is no fraction.
    let serial = point
        .serial_fraction
        .filter(|fraction| (0.0..=1.0).contains(&fraction.median));
    let (limit, share) = (point.limited_by.name(), point.limited_share);
    let counted = point.rounds.saturating_sub(point.left_out);
    let notes = [
        (point.left_out > 0).then(|| format!("{counted} of {} rounds", point.rounds)),
        (point.colocated && point.lacked_cpu).then(|| "does not count: CPU was scarce".to_owned()),
        point.client_limited.then(|| "client limited".to_owned()),
    ];
    vec![
        point.size.shards.to_string(),
        grouped(u64::from(point.size.connections)),
        or_dash(median(point.items_per_s), decimal),
        beside(point.speedup),
        or_dash(median(point.efficiency), percent),
        or_dash(median(point.cpu_us_per_attempt), micros),
        beside(point.cpu_work_efficiency.map(Estimate::inverse)),
        // Figures of the target, which no size has without a probe.
        median(point.target_cpu_us_per_attempt).map_or_else(String::new, micros),
        median(point.target_cpus_used).map_or_else(String::new, decimal),
        median(serial).map_or_else(String::new, percent),
        or_dash(median(point.balance), percent),
        or_dash(point.p50_us, micros),
        or_dash(point.p99_us, micros),
        format!("{limit} ({})", rounded_percent(share)),
        notes.into_iter().flatten().collect::<Vec<_>>().join(", "),
    ]
}

fn median(estimate: Option<Estimate>) -> Option<f64> {
    Some(estimate?.median)
}

fn facts(scaling: &Scaling) -> Vec<(&'static str, String)> {
    let of = &scaling.circumstances;
    let least_level = scaling
        .curves
        .iter()
        .flat_map(|curve| &curve.points)
        .filter(|point| point.factor > 1.0)
        .filter_map(|point| point.speedup?.level)
        .reduce(f64::min);
    let confidence = least_level.map_or_else(String::new, |level| {
        format!("; confidence of intervals at least {}", percent(level))
    });
    let rounds = format!(
        "{} of {} s in random order (seed {}), {} of each size planned{confidence}",
        grouped(scaling.rounds.len() as u64),
        of.round_s,
        of.seed,
        of.repeats
    );
    vec![("target", of.target.clone()), ("rounds", rounds)]
}
