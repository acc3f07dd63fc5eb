//! Every shard over time, one below the other, and the one that kept the others waiting.

use plotters::style::FontStyle;
use plotters::style::text_anchor::HPos;

use super::canvas::{Canvas, Head, LABEL, Lettering, sheet, text_width};
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, LEFT, Panel, RIGHT};
use super::scale::{Scale, spoken, trimmed};
use super::seconds::{LEAST_S, Seconds};
use super::{Plot, flight};
use crate::run::report::{Course, Report, ShardReport};
use crawlmark_harness::stats;
use crawlmark_harness::units::{grouped, micros, rounded_percent};

/// The most lanes: each is at least three pixels high.
const MOST_LANES: usize = 64;

/// The most cells of a panel, which bound the file.
const MOST_CELLS: usize = 4_800;

/// The most columns, four pixels each.
const MOST_COLUMNS: usize = 136;

/// A shard that made less than this part of the median's attempts is a straggler.
const STRAGGLES: f64 = 0.9;

/// A lateness that explains something.
const LATE_US: f64 = 10_000.0;

/// Lateness in the levels of the heat map, us.
const LAGS: [f64; 5] = [100.0, 1e3, 1e4, 1e5, 1e6];

/// Measure that a panel shows, from a step of a course: none where nothing is known.
struct Measure {
    unit: &'static str,
    of: fn(&Course, &[usize], f64) -> Option<f64>,
    level: fn(f64, f64) -> usize,
    /// The ends of the colours, given the greatest value.
    ends: fn(f64) -> [String; 2],
}

const MEASURES: [Measure; 3] = [
    Measure {
        unit: "attempts per second, by shard",
        of: |course, steps, time_s| Some(sum(&course.attempts, steps)? / time_s),
        level: |value, top| sixth(value / top),
        ends: |top| ["0".to_owned(), spoken(top)],
    },
    Measure {
        unit: "greatest lateness, by shard",
        of: |course, steps, _| {
            steps.iter().filter_map(|n| course.max_sched_lag_us.get(*n).copied().flatten()).reduce(f64::max)
        },
        level: |value, _| LAGS.iter().filter(|least| value >= **least).count(),
        ends: |_| ["below 100 µs".to_owned(), "1 s or more".to_owned()],
    },
    Measure {
        unit: "CPU, by shard",
        of: |course, steps, time_s| Some(sum(&course.cpu_us, steps)? / 1e6 / time_s),
        // By the greatest, as the attempts: many shards on few cores all have little, and may differ all the same.
        level: |value, top| sixth(value / top),
        ends: |top| ["0 %".to_owned(), format!("{} of one", rounded_percent(top))],
    },
];

pub(super) fn plot(report: &Report) -> Option<Plot> {
    let seconds = Seconds::of(report);
    let straggler = straggler(report);
    let lanes = lanes(report, straggler);
    let first = lanes.first()?;
    let step_s = first.course.step_s.max(1);
    let gathered = gathered(first.course.attempts.len(), lanes.len());
    let row = (150.0 / lanes.len() as f64).clamp(3.0, 20.0);
    let field = row * lanes.len() as f64;
    let head =
        Head { name: "shards", title: "Shards side by side", caption: caption(report, straggler), keys: Vec::new() };
    let height = MEASURES.len() as f64 * (ABOVE + field + 12.0) + BELOW;
    Some(sheet(head, height, |canvas, top| {
        for (n, measure) in MEASURES.iter().enumerate() {
            let top = top + ABOVE + n as f64 * (field + 12.0 + ABOVE);
            let y = Scale::Linear(0.0, lanes.len() as f64);
            let panel = Panel::between(canvas, [top, top + field], [seconds.scale(), y]);
            panel.unit(measure.unit);
            let table = Table::of(measure, &lanes, &Steps { groups: &gathered, step_s, end_s: seconds.end_s });
            colours(canvas, &(measure.ends)(table.top), top - 15.0);
            table.draw(&panel, &seconds, measure);
            names(&panel, &lanes, (row, straggler));
            if n + 1 == MEASURES.len() {
                let name = match gathered.first().map_or(0, Vec::len) as u64 * step_s {
                    0 | 1 => seconds.axis_name(""),
                    all => format!("time since the start, {} (each cell is {all} s)", seconds.unit().1),
                };
                panel.horizontal(&Axis { unit: &name, label: &trimmed });
            } else {
                panel.base();
            }
            if gathered.is_empty() {
                panel.note("no second was reported");
            }
        }
    }))
}

/// Neighbouring steps of the courses in groups of one size, as few as there is room for.
fn gathered(steps: usize, lanes: usize) -> Vec<Vec<usize>> {
    let columns = (MOST_CELLS / lanes.max(1)).clamp(1, MOST_COLUMNS);
    let all: Vec<usize> = (0..steps).collect();
    all.chunks(steps.div_ceil(columns).max(1)).map(<[usize]>::to_vec).collect()
}

/// Division of time into steps.
struct Steps<'a> {
    groups: &'a [Vec<usize>],
    step_s: u64,
    end_s: f64,
}

impl Steps<'_> {
    /// From when to when a group lasts; none when that is after the end.
    fn span(&self, group: &[usize]) -> Option<[f64; 2]> {
        let at = |n: usize| (n as u64 * self.step_s) as f64;
        let (from_s, to_s) = (at(*group.first()?), at(*group.last()? + 1).min(self.end_s));
        (from_s < to_s).then_some([from_s, to_s])
    }
}

/// A measure of every lane, by column.
struct Table {
    spans: Vec<[f64; 2]>,
    lanes: Vec<Vec<Option<f64>>>,
    /// The greatest value; 1 without one above 0.
    top: f64,
}

impl Table {
    fn of(measure: &Measure, lanes: &[&ShardReport], steps: &Steps<'_>) -> Self {
        let groups = || steps.groups.iter().filter_map(|group| Some((group, steps.span(group)?)));
        let value = |shard: &ShardReport, group: &[usize], [from_s, to_s]: [f64; 2]| {
            // A sliver of a second at the end has no rate.
            if to_s - from_s < LEAST_S.min(steps.end_s) {
                None
            } else {
                (measure.of)(&shard.course, group, to_s - from_s)
            }
        };
        let lane = |shard: &&ShardReport| groups().map(|(group, span)| value(shard, group, span)).collect();
        let lanes: Vec<Vec<Option<f64>>> = lanes.iter().map(lane).collect();
        let top = lanes.iter().flatten().flatten().copied().fold(0.0, f64::max);
        Self { spans: groups().map(|(_, span)| span).collect(), lanes, top: if top > 0.0 { top } else { 1.0 } }
    }

    fn draw(&self, panel: &Panel<'_, '_>, seconds: &Seconds<'_>, measure: &Measure) {
        let unit_s = seconds.unit().0;
        let count = self.lanes.len();
        for (n, lane) in self.lanes.iter().enumerate() {
            let heights = [(count - n - 1) as f64, (count - n) as f64];
            let mut run: Option<([f64; 2], usize)> = None;
            let paint = |run: Option<([f64; 2], usize)>| {
                if let Some(([from_s, to_s], level)) = run {
                    panel.cell([from_s / unit_s, to_s / unit_s], heights, Ink::HEAT[level.min(5)]);
                }
            };
            for (span, value) in self.spans.iter().zip(lane) {
                let level = value.map(|value| (measure.level)(value, self.top));
                match (&mut run, level) {
                    (Some((whole, before)), Some(level)) if *before == level => whole[1] = span[1],
                    _ => {
                        paint(run.take());
                        run = level.map(|level| (*span, level));
                    }
                }
            }
            paint(run);
        }
    }
}

/// The scale of the colours, at the right above a panel.
fn colours(canvas: &Canvas<'_>, [low, high]: &[String; 2], y: f64) {
    let label = |hold| Lettering::label(Ink::Quiet, hold);
    let right = RIGHT - text_width(high, LABEL) - 6.0;
    let left = right - 6.0 * 16.0;
    canvas.text(high, (RIGHT, y), label(HPos::Right));
    for (ink, x) in Ink::HEAT.into_iter().zip(std::iter::successors(Some(left), |x| Some(x + 16.0))) {
        canvas.area([x, y - 6.0, x + 16.0, y + 6.0], ink);
    }
    canvas.text(low, (left - 6.0, y), label(HPos::Right));
}

/// The numbers of the shards at the left: all that there is room for, the straggler's in any case.
fn names(panel: &Panel<'_, '_>, lanes: &[&ShardReport], (row, straggler): (f64, Option<u32>)) {
    let every = (16.0 / row).ceil();
    let mut place = 0.0;
    let special = lanes.iter().position(|shard| Some(shard.shard) == straggler);
    for (n, shard) in lanes.iter().enumerate() {
        let y = panel.y_of(lanes.len() as f64 - n as f64 - 0.5);
        let lettering = Lettering::label(Ink::Quiet, HPos::Right);
        let near = special.is_some_and(|at| (at as f64 - n as f64).abs() < every);
        if Some(n) == special {
            let bold = Lettering { ink: Ink::Vermilion, weight: FontStyle::Bold, ..lettering };
            panel.canvas.text(&format!("\u{25b8} {}", shard.shard), (LEFT - 8.0, y), bold);
        } else if n as f64 >= place && !near {
            panel.canvas.text(&shard.shard.to_string(), (LEFT - 8.0, y), lettering);
        }
        if n as f64 >= place {
            place += every;
        }
    }
}

/// The lanes in the order of their numbers: all shards, or those with the fewest attempts when there are too many.
fn lanes(report: &Report, straggler: Option<u32>) -> Vec<&ShardReport> {
    let mut shards: Vec<&ShardReport> = report.shards.iter().collect();
    if shards.len() > MOST_LANES {
        shards.sort_by_key(|shard| (Some(shard.shard) != straggler, shard.totals.attempts, shard.shard));
        shards.truncate(MOST_LANES);
    }
    shards.sort_by_key(|shard| shard.shard);
    shards
}

/// The shard with the fewest attempts, when they are markedly fewer than the median shard's.
fn straggler(report: &Report) -> Option<u32> {
    let least = report.shards.iter().min_by_key(|shard| shard.totals.attempts)?;
    ((least.totals.attempts as f64) < STRAGGLES * median(report)).then_some(least.shard)
}

/// The attempts of the median shard; of an even number, the mean of the middle two.
fn median(report: &Report) -> f64 {
    let mut attempts: Vec<f64> = report.shards.iter().map(|shard| shard.totals.attempts as f64).collect();
    stats::median(&mut attempts).unwrap_or(0.0)
}

fn caption(report: &Report, straggler: Option<u32>) -> String {
    let shown = match report.shards.len() {
        n if n > MOST_LANES => format!(" (shown are {MOST_LANES} of {}, those with the fewest)", grouped(n as u64)),
        _ => String::new(),
    };
    if let [only] = &report.shards[..] {
        return format!("The only shard, {}, made {} attempts.", only.shard, grouped(only.totals.attempts));
    }
    let median = median(report);
    let found = straggler.and_then(|number| report.shards.iter().find(|shard| shard.shard == number));
    if let Some(shard) = found {
        let part = rounded_percent(shard.totals.attempts as f64 / median);
        return format!(
            "Shard {} straggled: it made {part} of the attempts of the median shard{}{shown}.",
            shard.shard,
            why(shard)
        );
    }
    let latest = report.shards.iter().filter_map(|shard| Some((shard.shard, greatest_lag(&shard.course)?)));
    let latest = latest.reduce(|a, b| if b.1 > a.1 { b } else { a });
    // Without a budget nothing has a time at which it could be late.
    let late = latest
        .filter(|(_, us)| *us > 0.0)
        .map_or_else(String::new, |(shard, us)| format!("; the greatest lateness was shard {shard}'s, {}", micros(us)));
    let least = report.shards.iter().map(|shard| shard.totals.attempts).min().unwrap_or(0);
    let part = if median > 0.0 { least as f64 / median } else { 1.0 };
    format!(
        "No shard straggled: the slowest made {} of the attempts of the median one{late}{shown}.",
        rounded_percent(part)
    )
}

/// Explain from a shard's own figures why it was slow.
fn why(shard: &ShardReport) -> String {
    if let Some(fault) = &shard.fault {
        return format!(" ({fault})");
    }
    let (cpu, waited) = (shard.usage.cpu_share.unwrap_or(0.0), shard.usage.run_delay_share.unwrap_or(0.0));
    match shard.totals.attempts {
        _ if waited > 0.05 => {
            format!("; it was ready to run without a CPU for {} of its time", rounded_percent(waited))
        }
        _ if cpu > 0.85 => format!("; it used {} of a CPU", rounded_percent(cpu)),
        n if n > 0 && shard.totals.throttled * 20 > n => {
            format!("; {} of its attempts were throttled", rounded_percent(shard.totals.throttled as f64 / n as f64))
        }
        _ => match (greatest_lag(&shard.course), flight::foremost(&shard.binding)) {
            (Some(us), _) if us >= LATE_US => format!("; it was late by up to {}", micros(us)),
            (_, Some((limit, part))) => {
                format!("; what held it back most was {limit}, for {} of its time", rounded_percent(part))
            }
            _ => String::new(),
        },
    }
}

fn greatest_lag(course: &Course) -> Option<f64> {
    course.max_sched_lag_us.iter().flatten().copied().reduce(f64::max)
}

fn sum(column: &[Option<u64>], steps: &[usize]) -> Option<f64> {
    let values = || steps.iter().filter_map(|n| column.get(*n).copied().flatten());
    values().next()?;
    Some(values().sum::<u64>() as f64)
}

/// Return the sixth of a whole in which a part lies, from 0.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "held between 0 and 5")]
fn sixth(part: f64) -> usize {
    (part * 6.0).floor().clamp(0.0, 5.0) as usize
}
