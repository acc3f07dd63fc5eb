//! Findings of a scaling, and the document: a table of each curve, and facts.

use std::collections::BTreeMap;

use crawlmark_harness::units::{grouped, percent, rounded_percent};

use super::{
    Attempts, Axis, Curve, Estimate, FixedQuantity, Point, Round, ScaleContext, Scaling, Size,
};
use crate::judge::{Finding, FindingKind};
use crate::run::report::Limit;
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{capital, counted, decimal, micros};
use crate::studies::compare::Interval;
use crate::studies::{Conclusion, Notice, StudyResult, doc_of};

/// Part of the attempts that were throttled, or not found, from which on the table has a column of
/// them.
const NOTABLE: f64 = 0.01;

/// Speedup from which on more shards did help.
const GREW: f64 = 1.1;

/// Fact about a scaling, with its numbers.
#[derive(Debug, Clone, PartialEq)]
pub enum ScaleFinding {
    /// Every response was 404 or 410.
    NothingFound {},
    /// No size has a valid round together with the smallest size.
    NothingToCompare {},
    /// The largest size beside the smallest.
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
    /// Throttling set the pace at most sizes.
    TargetThrottled {
        /// Throttled requests at these sizes, as a part of all.
        share: f64,
        /// The greatest part of the time in throttle pauses.
        paused_share: f64,
    },
    /// All connections were in use at every size, and more shards did not help.
    ConnectionsFull {
        /// Connections.
        connections: u32,
    },
    /// The client was the limit at some sizes.
    ClientLimited {
        /// Quantity that all sizes have in common.
        held: FixedQuantity,
        /// The sizes.
        sizes: Vec<f64>,
    },
    /// Client and target competed for the CPUs at some sizes, which do not count.
    SizesLeftOut {
        /// Quantity that all sizes have in common.
        held: FixedQuantity,
        /// The sizes.
        sizes: Vec<f64>,
        /// Processes of the target.
        target_processes: u32,
        /// CPUs.
        cores: usize,
    },
    /// Rounds that do not count for one reason.
    RoundsLeftOut {
        /// The finding of the first of them.
        finding: Finding,
        /// Number of them.
        count: usize,
        /// All rounds.
        of: usize,
    },
    /// Items failed or were given up.
    ItemsFailed {
        /// Part of all.
        share: f64,
    },
    /// Not all rounds were run.
    Interrupted {},
}

impl Scaling {
    /// The findings, the answers first.
    #[must_use]
    pub fn findings(&self) -> Vec<ScaleFinding> {
        let all = Attempts::of(&self.rounds);
        let mut found = if all.all > 0 && all.not_found == all.all {
            vec![ScaleFinding::NothingFound {}]
        } else {
            self.curves.iter().map(answer).collect()
        };
        for curve in &self.curves {
            found.extend(throttled(curve).or_else(|| too_few_connections(curve)));
            let limited = sizes(curve, |point| point.client_limited);
            found.extend(limited.map(|sizes| ScaleFinding::ClientLimited {
                held: curve.held,
                sizes,
            }));
            let scarce = sizes(curve, |point| {
                point.left_out < point.rounds && point.colocated && point.lacked_cpu
            });
            found.extend(scarce.map(|sizes| ScaleFinding::SizesLeftOut {
                held: curve.held,
                sizes,
                target_processes: self.circumstances.target_processes,
                cores: self.circumstances.environment.cores,
            }));
        }
        let mut left_out: BTreeMap<FindingKind, (&Finding, usize)> = BTreeMap::new();
        for finding in self
            .rounds
            .iter()
            .filter_map(|round| round.left_out.first())
        {
            left_out.entry(finding.kind()).or_insert((finding, 0)).1 += 1;
        }
        for (finding, count) in left_out.into_values() {
            found.push(ScaleFinding::RoundsLeftOut {
                finding: finding.clone(),
                count,
                of: self.rounds.len(),
            });
        }
        let sum = |of: fn(&Round) -> u64| self.rounds.iter().map(|one| of(one) as f64).sum::<f64>();
        let share = sum(|round| round.failed) / sum(|round| round.items).max(1.0);
        if share > 0.0 {
            found.push(ScaleFinding::ItemsFailed { share });
        }
        if self.circumstances.header.interrupted {
            found.push(ScaleFinding::Interrupted {});
        }
        found
    }

    /// True if any size that counts can be compared with the smallest.
    #[must_use]
    pub fn says_something(&self) -> bool {
        self.curves
            .iter()
            .any(|curve| matches!(answer(curve), ScaleFinding::Grew { .. }))
    }
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

/// Throttling set the pace at most sizes.
fn throttled(curve: &Curve) -> Option<ScaleFinding> {
    let points = || curve.points.iter().filter(|point| point.is_throttled());
    let (mut throttled, mut all, mut paused_share) = (0.0, 0.0, 0.0_f64);
    for point in points() {
        throttled += point.attempts.throttled as f64;
        all += point.attempts.all as f64;
        paused_share = paused_share.max(point.paused_share);
    }
    let is_most = points().count() * 2 > curve.points.len();
    is_most.then_some(ScaleFinding::TargetThrottled {
        share: throttled / all,
        paused_share,
    })
}

/// The connections in all are the limit, where they were at every size and more shards did not
/// help.
fn too_few_connections(curve: &Curve) -> Option<ScaleFinding> {
    let FixedQuantity::Connections(connections) = curve.held else {
        return None;
    };
    let mut speedups = curve.points.iter().filter_map(|point| point.speedup);
    let grew = speedups.any(|speedup| speedup.median > GREW);
    // A client without CPU has all connections in use as well; of few sizes that may be noise of
    // the machine.
    let free = curve
        .points
        .iter()
        .filter(|point| point.counts() && !point.client_limited)
        .count();
    let is_limit = !grew
        && free > 1
        && free * 2 > curve.points.len()
        && curve.points.iter().all(Point::is_full);
    is_limit.then_some(ScaleFinding::ConnectionsFull { connections })
}

/// The sizes of the points that are so; none without one.
fn sizes(curve: &Curve, is_so: impl Fn(&Point) -> bool) -> Option<Vec<f64>> {
    let points = curve.points.iter().filter(|point| is_so(point));
    Some(points.map(|point| curve.n(point)).collect()).filter(|all: &Vec<f64>| !all.is_empty())
}

impl ScaleFinding {
    /// The finding as it is shown.
    #[must_use]
    pub fn notice(&self) -> Notice {
        let warning = |title: String| Notice::new(Severity::Warning, title);
        match self {
            Self::NothingFound {} => warning("Every request was not found (404 or 410), so there is no throughput to compare".to_owned())
                .with("Choose --ids that exist, or accept these responses (--expect status:200,404)."),
            Self::NothingToCompare {} => {
                warning("No size has a valid round together with the smallest size, so there is nothing to compare".to_owned())
            }
            Self::Grew {
                held,
                sizes: [least, largest],
                speedup,
                efficiency,
                cost,
            } => {
                // More than 100 % is claimed only where chance is excluded.
                let is_more = efficiency.is_above(1.0);
                let share = if is_more { efficiency.median } else { efficiency.median.min(1.0) };
                let cost = cost.map_or_else(String::new, |cost| {
                    format!(", at {}x the CPU per request{}", times(cost.median), range(&cost, times))
                });
                Notice::new(
                    Severity::Neutral,
                    format!(
                        "{largest} {} are {}x as fast as {least}{} with {held}: {} efficient{}{cost}",
                        held.axis().name(),
                        factor(speedup.median),
                        range(speedup, factor),
                        rounded_percent(share),
                        range(efficiency, percent)
                    ),
                )
            }
            Self::CpuScarce {
                held,
                sizes: [least, largest],
                speedup,
            } => warning(format!(
                "No size counts, because client and target competed for the CPUs: {largest} {} were {}x as fast as {least}",
                held.axis().name(),
                factor(speedup.median)
            ))
            .with(
                "Run the target on another machine, or lower the load (fewer connections; --latency-bound, with the bundled target).",
            ),
            Self::TargetThrottled {
                share,
                paused_share,
            } => warning(format!(
                "The target throttled {} of the requests, and pauses took up to {} of the time: this is the scaling of the target's \
                 limit, not of the client",
                rounded_percent(*share),
                rounded_percent(*paused_share)
            ))
            .with("Raise that limit, or use another target."),
            Self::ConnectionsFull { connections } => warning(format!(
                "All connections were in use at every size, so their number ({connections}) or the target was the limit"
            ))
            .with(Limit::Connections.remedy().unwrap_or_default()),
            Self::ClientLimited { held, sizes } => warning(format!(
                "The client was the limit at {}: in most rounds a shard lacked CPU, or sent or read late; the target may be faster",
                listed(sizes, *held)
            )),
            Self::SizesLeftOut {
                held,
                sizes,
                target_processes,
                cores,
            } => warning(format!(
                "{} do not count: shards and {} share {}, and CPU was scarce",
                capital(&listed(sizes, *held)),
                counted((*target_processes).into(), "target process"),
                counted(*cores as u64, "CPU")
            )),
            Self::RoundsLeftOut { finding, count, of } => warning(format!(
                "{count} of {} left out: {}",
                counted(*of as u64, "round"),
                finding.title()
            )),
            Self::ItemsFailed { share } => warning(format!(
                "{} of the items failed or were abandoned; rates are those of good items",
                percent(*share)
            )),
            Self::Interrupted {} => warning("Interrupted before all rounds were run".to_owned()),
        }
    }
}

/// `1, 2 and 4 shards`.
fn listed(sizes: &[f64], held: FixedQuantity) -> String {
    let sizes: Vec<String> = sizes.iter().map(ToString::to_string).collect();
    format!("{} {}", sizes.join(", "), held.axis().name())
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

impl StudyResult for Scaling {
    const SCHEMA: &'static str = "crawlmark.scale/1";

    const FILE: &'static str = "scale.json";

    fn conclusion(&self) -> Conclusion {
        if self.says_something() {
            Conclusion::Done
        } else {
            Conclusion::Inconclusive
        }
    }

    fn plots(&self) -> Vec<Plot> {
        vec![plot::scaling(self)]
    }

    fn notices(&self) -> Vec<Notice> {
        self.findings().iter().map(ScaleFinding::notice).collect()
    }

    fn doc(&self) -> Doc {
        let header = &self.circumstances.header;
        let doc = doc_of(header.title(), &self.notices());
        self.curves
            .iter()
            .fold(doc, |doc, curve| doc.table(table(curve)))
            .facts(facts(self))
            .in_files()
            .plot("scaling", "Throughput by size")
            .text(format!(
                "{} rounds; medians over the repeats. {}",
                grouped(self.rounds.len() as u64),
                header.made_by()
            ))
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
            Column::numbers("serial fraction").leaving(1),
            Column::numbers("balance").leaving(6),
            Column::numbers("p50").leaving(2),
            Column::numbers("p99").leaving(5),
            Column::numbers("throttled").leaving(10),
            Column::numbers("not found").leaving(9),
            Column::words("note").leaving(8),
        ],
        rows: curve.points.iter().map(row).collect(),
        ..Table::default()
    }
}

fn row(point: &Point) -> Vec<String> {
    let median = |estimate: Option<Estimate>, format: &dyn Fn(f64) -> String| {
        estimate.map_or_else(|| "-".to_owned(), |estimate| format(estimate.median))
    };
    // The smallest beside itself has no interval.
    let beside = |estimate: Option<Estimate>| {
        let estimate = estimate.filter(|_| point.factor > 1.0);
        estimate.map_or_else(String::new, |estimate| {
            times(estimate.median) + &range(&estimate, times)
        })
    };
    // Noise, or a target that throttles, makes what is no fraction.
    let serial = point.serial_fraction;
    let serial = serial.filter(|fraction| (0.0..=1.0).contains(&fraction.median));
    let notable = |share: f64| {
        if share >= NOTABLE {
            percent(share)
        } else {
            String::new()
        }
    };
    let time = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
    vec![
        point.size.shards.to_string(),
        grouped(u64::from(point.size.connections)),
        median(point.items_per_s, &decimal),
        beside(point.speedup),
        median(point.efficiency, &percent),
        median(point.cpu_us_per_attempt, &micros),
        beside(cost(point)),
        serial.map_or_else(String::new, |fraction| percent(fraction.median)),
        median(point.balance, &percent),
        time(point.p50_us),
        time(point.p99_us),
        notable(point.attempts.throttled_share()),
        notable(point.attempts.not_found_share()),
        marks(point),
    ]
}

/// Return the caveats on a size, in a few words.
fn marks(point: &Point) -> String {
    let counted = point.rounds - point.left_out;
    let marks = [
        (point.left_out > 0).then(|| format!("{counted} of {} rounds", point.rounds)),
        (point.colocated && point.lacked_cpu).then(|| "colocated".to_owned()),
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

/// `2 shards and 8 connections`.
impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let shards = counted(self.shards.into(), "shard");
        let connections = counted(self.connections.into(), "connection");
        write!(f, "{shards} and {connections}")
    }
}
