//! Scaling in words: a headline, a table, and notes.

use std::collections::BTreeMap;

use crawlmark_harness::units::{grouped, percent, rounded_percent};

use super::{
    Attempts, Axis, Curve, Estimate, FILE, Fit, FixedQuantity, LEVEL, Point, Round, Scaling, Size,
};
use crate::run::report::{Limit, Verdict};
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::plot::{self, Plot};
use crate::show::text::{decimal, micros};
use crate::studies::compare::Interval;
use crate::studies::{Conclusion, StudyResult};

/// Part of the attempts that were throttled, or not found, from which on the table has a column of
/// them.
const NOTABLE: f64 = 0.01;

/// Speedup from which on more shards did help.
const GREW: f64 = 1.1;

/// Headline of a study in which every response was 404 or 410.
const NOTHING_FOUND: &str = "No result: every request was not found (404 or 410), so there is no throughput to compare. Choose \
    --ids that exist, or accept these responses (--expect status:200,404).";

/// The headline: a sentence for each curve.
#[must_use]
pub fn scaling_headline(scaling: &Scaling) -> String {
    let all = scaling
        .rounds
        .iter()
        .fold(Attempts::default(), |all, round| all.plus(round.attempts));
    if all.all > 0 && all.not_found == all.all {
        return NOTHING_FOUND.to_owned();
    }
    let several = scaling.curves.len() > 1;
    let sentence = |curve: &Curve| {
        if several {
            format!("With {}: {}", curve.held, answer(curve))
        } else {
            answer(curve)
        }
    };
    scaling
        .curves
        .iter()
        .map(sentence)
        .collect::<Vec<_>>()
        .join(" ")
}

/// Compare the largest size with the smallest in a sentence.
fn answer(curve: &Curve) -> String {
    let (Some(base), Some(point)) = (curve.base(), curve.told()) else {
        return "Nothing to compare: no size has a valid round together with the smallest size."
            .to_owned();
    };
    let (Some(speedup), Some(efficiency)) = (point.speedup, point.efficiency) else {
        return String::new();
    };
    let (axis, least) = (curve.held.axis().name(), curve.n(base));
    let limit = throttled(curve).or_else(|| too_few_connections(curve));
    let limit = limit.map_or_else(String::new, |limit| format!(" {limit}"));
    let (n, fast) = (
        curve.n(point),
        format!(
            "{}x as fast as {least}{}",
            factor(speedup.median),
            range(&speedup, factor)
        ),
    );
    if curve.is_answer(point) {
        return format!(
            "{n} {axis} are {fast}: {}{}.{limit}",
            efficient(&efficiency),
            clear_cost(point)
        );
    }
    format!(
        "No size counts beside the smallest, because client and target competed for the CPUs: {n} {axis} were {fast}, which does \
         not show how the target scales. Run the target on another machine, or lower the load (fewer connections; \
         --latency-bound, with the bundled target).{limit}"
    )
}

/// Warn that throttling set the pace at most sizes.
fn throttled(curve: &Curve) -> Option<String> {
    let points: Vec<&Point> = curve
        .points
        .iter()
        .filter(|point| point.is_throttled())
        .collect();
    if points.len() * 2 <= curve.points.len() {
        return None;
    }
    let all = points
        .iter()
        .fold(Attempts::default(), |all, point| all.plus(point.attempts));
    let paused = points
        .iter()
        .map(|point| point.paused_share)
        .fold(0.0, f64::max);
    let paused = if paused > 0.0 {
        format!(
            ", and pauses took up to {} of the time",
            rounded_percent(paused)
        )
    } else {
        String::new()
    };
    Some(format!(
        "The target throttled {} of the requests at {}{paused}: this is the scaling of the target's limit, not of \
         the client. Raise that limit, or use another target.",
        rounded_percent(all.throttled_share()),
        at(curve, &points)
    ))
}

/// Name the connections in all as the limit, where they were at every size and more shards did not
/// help.
fn too_few_connections(curve: &Curve) -> Option<String> {
    let FixedQuantity::Connections(connections) = curve.held else {
        return None;
    };
    let grew = curve
        .points
        .iter()
        .filter_map(|point| point.speedup)
        .any(|speedup| speedup.median > GREW);
    // A client without CPU has all connections in use as well; of few sizes that may be noise of
    // the machine.
    let free = curve
        .points
        .iter()
        .filter(|point| point.counts() && !point.limited_by_this_side)
        .count();
    let is_limit = !grew
        && free > 1
        && free * 2 > curve.points.len()
        && curve.points.iter().all(Point::is_full);
    is_limit.then(|| {
        format!(
            "All connections were in use at every count, so their number ({connections}) or the target was the limit. {}",
            Limit::Connections.remedy().unwrap_or_default()
        )
    })
}

/// List the sizes of these points: `1, 2 and 4 shards`.
fn at(curve: &Curve, points: &[&Point]) -> String {
    let sizes: Vec<String> = points
        .iter()
        .map(|point| curve.n(point).to_string())
        .collect();
    let axis = curve.held.axis().name();
    match sizes.split_last() {
        Some((last, [])) if last == "1" => format!("{last} {}", axis.trim_end_matches('s')),
        Some((last, [])) => format!("{last} {axis}"),
        Some((last, others)) => format!("{} and {last} {axis}", others.join(", ")),
        None => String::new(),
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

/// `97 % efficient (96.0 to 99.0 %)`. More than 100 % is claimed only where chance is excluded.
fn efficient(efficiency: &Estimate) -> String {
    let share = rounded_percent(efficiency.median);
    let range = match efficiency.interval {
        Some(between) => format!(
            " ({:.1} to {:.1} %)",
            between.low * 100.0,
            between.high * 100.0
        ),
        None => " (a single round, so no interval)".to_owned(),
    };
    if efficiency.median > 1.0 && !efficiency.is_above(1.0) {
        return format!("no loss of efficiency seen, {share}{range}");
    }
    format!("{share} efficient{range}")
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

/// `, at 0.63x the CPU per request (0.60 to 0.70)`; nothing where chance is not excluded.
fn clear_cost(point: &Point) -> String {
    let (Some(work), Some(cost)) = (point.cpu_work_efficiency, cost(point)) else {
        return String::new();
    };
    if !work.is_above(1.0) && !cost.is_above(1.0) {
        return String::new();
    }
    format!(
        ", at {}x the CPU per request{}",
        times(cost.median),
        range(&cost, times)
    )
}

/// ` (x 0.60 to 0.70)`: the interval, because the median of the ratios of repeats is not the ratio
/// of the medians beside it.
fn cost_range(point: &Point) -> String {
    let Some(cost) = cost(point).filter(|_| point.factor > 1.0) else {
        return String::new();
    };
    match cost.interval {
        Some(between) => format!(" (x {} to {})", times(between.low), times(between.high)),
        None => format!(" (x {})", times(cost.median)),
    }
}

impl StudyResult for Scaling {
    const SCHEMA: &'static str = "crawlmark.scale/1";

    const FILE: &'static str = FILE;

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

    fn doc(&self) -> Doc {
        let is_answered = |curve: &Curve| curve.told().is_some_and(|point| curve.is_answer(point));
        let severity = if self.curves.iter().all(is_answered) {
            Severity::Neutral
        } else {
            Severity::Warning
        };
        let doc = Doc::new(self.circumstances.header.name.clone())
            .headline(severity, &scaling_headline(self));
        let doc = self
            .curves
            .iter()
            .fold(doc, |doc, curve| doc.table(table(self, curve)));
        doc.facts(notes(self))
            .in_files()
            .plot("scaling", "Throughput by size")
            .text(format!(
                "{} rounds, each in processes of its own; medians over the repeats. {}",
                grouped(self.rounds.len() as u64),
                self.circumstances.header.made_by()
            ))
    }
}

/// The table of a curve: a row for each size.
fn table(scaling: &Scaling, curve: &Curve) -> Table {
    let beside = curve
        .base()
        .map_or_else(String::new, |base| format!("times {}", curve.n(base)));
    let connections = Column::numbers("connections");
    let columns = vec![
        Column::numbers("shards"),
        // Without it, sizes that differ in it would look the same.
        if curve.held.axis() == Axis::Shards {
            connections.leaving(2)
        } else {
            connections
        },
        Column::numbers("items/s"),
        Column::numbers(beside),
        Column::numbers("efficiency"),
        Column::numbers("CPU per request").leaving(6),
        Column::numbers("balance").leaving(4),
        Column::numbers("p50").leaving(1),
        Column::numbers("p99").leaving(3),
        Column::numbers("throttled").leaving(8),
        Column::numbers("not found").leaving(7),
        Column::words("note").leaving(5),
    ];
    let estimate = |estimate: Option<Estimate>, format: &dyn Fn(&Estimate) -> String| {
        estimate.map_or_else(|| "-".to_owned(), |estimate| format(&estimate))
    };
    let shares = |of: fn(Attempts) -> f64| {
        let is_shown = curve
            .points
            .iter()
            .any(|point| of(point.attempts) >= NOTABLE);
        move |point: &Point| {
            if is_shown {
                percent(of(point.attempts))
            } else {
                String::new()
            }
        }
    };
    let [throttled, not_found] = [Attempts::throttled_share, Attempts::not_found_share].map(shares);
    let time = |us: Option<f64>| us.map_or_else(|| "-".to_owned(), micros);
    let row = |point: &Point| {
        let cost = cost_range(point);
        // The smallest beside itself has no interval.
        let beside = |s: &Estimate| {
            times(s.median)
                + &Some(range(s, times))
                    .filter(|_| point.factor > 1.0)
                    .unwrap_or_default()
        };
        vec![
            point.size.shards.to_string(),
            grouped(u64::from(point.size.connections)),
            estimate(point.items_per_s, &|x| decimal(x.median)),
            estimate(point.speedup, &beside),
            estimate(point.efficiency, &|e| percent(e.median)),
            estimate(point.cpu_us_per_attempt, &|cpu| {
                format!("{}{cost}", micros(cpu.median))
            }),
            estimate(point.balance, &|balance| percent(balance.median)),
            time(point.p50_us),
            time(point.p99_us),
            throttled(point),
            not_found(point),
            marks(scaling, point),
        ]
    };
    Table {
        caption: curve.held.to_string(),
        columns,
        rows: curve.points.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Return the caveats on a size, in a few words.
fn marks(scaling: &Scaling, point: &Point) -> String {
    let mut marks = Vec::new();
    if point.left_out > 0 {
        marks.push(format!(
            "{} of {} rounds",
            point.rounds - point.left_out,
            point.rounds
        ));
    }
    if point.colocated && point.lacked_cpu {
        marks.push("colocated".to_owned());
    }
    if scaling.is_near_ceiling(point) {
        marks.push("near the ceiling".to_owned());
    } else if point.limited_by_this_side {
        marks.push("client limited".to_owned());
    }
    marks.join(", ")
}

/// Return the notes.
fn notes(scaling: &Scaling) -> Vec<(&'static str, String)> {
    let circumstances = &scaling.circumstances;
    let mut notes = vec![
        ("target", circumstances.target.clone()),
        ("rounds", rounds(scaling)),
    ];
    notes.extend(left_out(&scaling.rounds).map(|told| ("left out", told)));
    notes.extend(ceiling(scaling).map(|told| ("ceiling", told)));
    for curve in &scaling.curves {
        notes.push(law(curve));
        notes.extend(client_limited(scaling, curve).map(|told| ("client", told)));
        notes.extend(colocated(scaling, curve).map(|told| ("colocated", told)));
    }
    let [items, failed] =
        [|round: &Round| round.items, |round: &Round| round.failed].map(|count| {
            scaling
                .rounds
                .iter()
                .map(count)
                .map(|count| count as f64)
                .sum::<f64>()
        });
    if failed > 0.0 {
        let throttled = scaling
            .rounds
            .iter()
            .any(|round| round.attempts.throttled > 0);
        let or_abandoned = if throttled {
            " or were abandoned (throttled)"
        } else {
            ""
        };
        notes.push((
            "failures",
            format!(
                "{} of the items failed{or_abandoned}; rates are those of good items",
                percent(failed / items)
            ),
        ));
    }
    if circumstances.header.interrupted {
        notes.push(("note", "interrupted before all rounds were run".to_owned()));
    }
    notes
}

fn rounds(scaling: &Scaling) -> String {
    let circumstances = &scaling.circumstances;
    // The smallest beside itself has no interval that is shown.
    let points = scaling
        .curves
        .iter()
        .flat_map(|curve| &curve.points)
        .filter(|point| point.factor > 1.0);
    let level = points
        .filter_map(|point| point.speedup?.level)
        .reduce(f64::min);
    let level = level.map_or_else(String::new, |level| {
        format!("; confidence of intervals at least {}", percent(level))
    });
    format!(
        "{} of {} s, {} in random order (seed {}); ratios within a repeat, one round of each size{level}",
        grouped(scaling.rounds.len() as u64),
        decimal_or_whole(circumstances.round_s),
        of_each_size(scaling),
        circumstances.seed
    )
}

/// Rounds of each size that were run, and how many were planned where they are fewer.
fn of_each_size(scaling: &Scaling) -> String {
    let mut by_size: BTreeMap<Size, usize> = BTreeMap::new();
    for round in &scaling.rounds {
        *by_size.entry(round.size).or_default() += 1;
    }
    let planned = scaling.circumstances.repeats;
    let (least, most) = (
        by_size.values().min().copied(),
        by_size.values().max().copied(),
    );
    match least.zip(most) {
        Some((least, most)) if least == most && least == planned => {
            format!("{planned} of each size")
        }
        Some((least, most)) if least == most => {
            format!("{least} of each size that was run ({planned} planned)")
        }
        Some((least, most)) => {
            format!("{least} to {most} of each size that was run ({planned} planned)")
        }
        None => format!("none of each size ({planned} planned)"),
    }
}

fn decimal_or_whole(value: f64) -> String {
    if value.fract() == 0.0 {
        format!("{value:.0}")
    } else {
        decimal(value)
    }
}

/// Return the number of rounds that do not count, and why: of each size, the reason of the first.
fn left_out(rounds: &[Round]) -> Option<String> {
    let mut by_size: Vec<(Size, usize, String)> = Vec::new();
    for (round, why) in rounds
        .iter()
        .filter_map(|round| Some((round, round.why_left_out()?)))
    {
        match by_size.iter_mut().find(|(size, ..)| *size == round.size) {
            Some((_, count, _)) => *count += 1,
            None => by_size.push((round.size, 1, why)),
        }
    }
    by_size.sort_by_key(|(size, ..)| *size);
    let lines = by_size
        .iter()
        .map(|(size, count, why)| format!("{count} at {}: {why}", in_words(*size)));
    Some(lines.collect::<Vec<_>>().join("\n")).filter(|lines| !lines.is_empty())
}

fn in_words(
    Size {
        shards,
        connections,
    }: Size,
) -> String {
    let plural = |n: u32| if n == 1 { "" } else { "s" };
    let (connections, of) = (grouped(u64::from(connections)), plural(connections));
    format!(
        "{shards} shard{} and {connections} connection{of}",
        plural(shards)
    )
}

/// Compare the ceiling of this client with the most that it did.
fn ceiling(scaling: &Scaling) -> Option<String> {
    let ceiling = scaling.ceiling.as_ref()?;
    let points = scaling.curves.iter().flat_map(|curve| &curve.points);
    let most = points
        .filter_map(|point| point.items_per_s)
        .map(|x| x.median)
        .fold(0.0, f64::max);
    let (could, size) = (decimal(ceiling.items_per_s), in_words(ceiling.size));
    let Some(per_s) = ceiling.per_s() else {
        let verdict = ceiling.validity;
        let why = if verdict > Verdict::ClientLimited {
            verdict.name()
        } else {
            "without a good item"
        };
        return Some(format!("no ceiling: its round, with {size}, was {why}"));
    };
    let share = rounded_percent(most / per_s);
    let beside = (most > 0.0).then(|| format!(": the fastest size reached {share} of it"));
    Some(format!(
        "{could} items/s with {size}, against a target that responds at once{}",
        beside.unwrap_or_default()
    ))
}

/// The law that a curve follows, or what can be said without one.
fn law(curve: &Curve) -> (&'static str, String) {
    match (&curve.fit, &curve.no_fit) {
        (Some(fit), _) => ("USL", fitted(fit, curve.held.axis())),
        (None, why) => {
            let why = why.map_or_else(String::new, |why| why.to_string());
            let points = curve.points.iter().filter(|point| curve.is_answer(point));
            let fractions = points.filter_map(|point| {
                // Noise, or a target that throttles, makes what is no fraction.
                let fraction = point
                    .serial_fraction
                    .filter(|of| (0.0..=1.0).contains(&of.median))?;
                let format = |part: f64| format!("{:.1}", part * 100.0);
                Some(format!(
                    "{} %{} at {}",
                    format(fraction.median),
                    range(&fraction, format),
                    curve.n(point)
                ))
            });
            let fractions: Vec<String> = fractions.collect();
            let serial = if fractions.is_empty() {
                String::new()
            } else {
                format!(
                    "serial fraction (Karp and Flatt): {}; ",
                    fractions.join(", ")
                )
            };
            ("law", format!("{serial}no fit: {why}"))
        }
    }
}

fn fitted(fit: &Fit, axis: Axis) -> String {
    // The intervals are of fits without bounds, and may leave out a value that is at its bound, or
    // one beside it.
    let by = |value: f64, estimate: Option<Estimate>, format: &dyn Fn(f64) -> String| {
        let Some(estimate) = estimate else {
            return String::new();
        };
        let range = range(&estimate, format);
        let is_outside = estimate
            .interval
            .is_some_and(|interval| value < interval.low || value > interval.high);
        if is_outside {
            range.replace('(', "(unconstrained fit: ")
        } else {
            range
        }
    };
    let parts = |part: f64| format!("{:.2}", part * 100.0);
    let small = |part: f64| format!("{part:.5}");
    let peak = match fit.peak {
        Some(peak) => format!(
            "peak at {} {}, {} items/s: more are slower",
            decimal(peak.n),
            axis.name(),
            decimal(peak.items_per_s)
        ),
        None if fit.kappa > 0.0
            && fit
                .kappa_by_replicate
                .is_some_and(|kappa| kappa.is_above(0.0)) =>
        {
            "no peak reported: it is too far beyond the sizes measured".to_owned()
        }
        // What is known with less than that is no sign of either.
        None if fit
            .kappa_by_replicate
            .and_then(|kappa| kappa.level)
            .is_none_or(|level| level < LEVEL) =>
        {
            "no peak reported: too few complete repeats".to_owned()
        }
        None => "no peak found".to_owned(),
    };
    format!(
        "sigma {} %{}, kappa {}{}; {peak}; fit error {}",
        parts(fit.sigma),
        by(fit.sigma, fit.sigma_by_replicate, &parts),
        small(fit.kappa),
        by(fit.kappa, fit.kappa_by_replicate, &small),
        percent(fit.misfit)
    )
}

/// Report the sizes near the ceiling of this client, and those of which most rounds were
/// `client_limited`.
fn client_limited(scaling: &Scaling, curve: &Curve) -> Option<String> {
    let limited = curve
        .points
        .iter()
        .filter(|point| point.limited_by_this_side);
    let (near, late): (Vec<&Point>, Vec<&Point>) =
        limited.partition(|point| scaling.is_near_ceiling(point));
    let near = (!near.is_empty()).then(|| {
        format!(
            "near the ceiling at {}: the client was the limit",
            at(curve, &near)
        )
    });
    let late = (!late.is_empty()).then(|| {
        format!(
            "client limited at {}: in most rounds a shard lacked CPU, or sent or read late",
            at(curve, &late)
        )
    });
    let told: Vec<String> = near.into_iter().chain(late).collect();
    (!told.is_empty()).then(|| format!("{}; the target may be faster", told.join("; ")))
}

/// Explain the meaning of colocated sizes, and the remedies.
fn colocated(scaling: &Scaling, curve: &Curve) -> Option<String> {
    let of: Vec<&Point> = curve
        .points
        .iter()
        .filter(|point| point.colocated && point.left_out < point.rounds)
        .collect();
    let largest = of.last()?;
    let (cores, target) = (
        scaling.circumstances.environment.cores,
        scaling.circumstances.target_processes,
    );
    let (processes, cpus) = (
        if target == 1 { "process" } else { "processes" },
        if cores == 1 { "CPU" } else { "CPUs" },
    );
    let more = format!("shards + {target} target {processes} share {cores} {cpus}");
    if of.iter().any(|point| point.lacked_cpu) {
        let sizes: Vec<String> = of
            .iter()
            .filter(|point| point.lacked_cpu)
            .map(|point| curve.n(point).to_string())
            .collect();
        return Some(format!(
            "{} {more}; CPU was scarce, so these sizes do not count (hollow in the plot, excluded from the fit)",
            sizes.join(", ")
        ));
    }
    Some(format!(
        "{} {more}; CPU was not scarce, so these sizes count",
        largest.size.shards
    ))
}
