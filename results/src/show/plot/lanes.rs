//! Every shard over time, one below the other, and the one that lagged behind.

use super::flight;
use super::seconds::{LEAST_S, PICTURE, Seconds};
use crate::run::report::{Course, Report, ShardReport};
use crate::show::chart::scale::spoken;
use crate::show::chart::{Axis, Block, Chart, Format, Mark, Panel, Range, Role, Shape};
use crate::show::text::capital;
use crawlmark_harness::stats;
use crawlmark_harness::units::{grouped, micros, rounded_percent};

/// The most lanes: each is at least three pixels high.
const MOST_LANES: usize = 64;

/// The most cells of a panel, which bound the file.
const MOST_CELLS: usize = 4_800;

/// The most columns, four pixels each.
const MOST_COLUMNS: usize = 136;

/// A shard that made less than this part of the median's attempts lags.
const LAGS_BELOW: f64 = 0.9;

/// A lateness that explains something.
const LATE_US: f64 = 10_000.0;

/// Lateness in the levels of the heat map, us.
const LAGS: [f64; 5] = [100.0, 1e3, 1e4, 1e5, 1e6];

/// Parts of a CPU in the levels of the heat map.
const CPU: [f64; 5] = [0.1, 0.3, 0.5, 0.7, 0.9];

/// Widths of a level of rates, times a power of ten: their multiples are round.
const WIDTHS: [f64; 9] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 8.0];

/// Measure that a panel shows, from a step of a course: none where nothing is known.
struct Measure {
    unit: &'static str,
    of: fn(&Course, &[usize], f64) -> Option<f64>,
    level: fn(f64, f64) -> usize,
    /// Value from which each colour begins, given the greatest value.
    from: fn(f64) -> [String; 6],
}

const MEASURES: [Measure; 3] = [
    Measure {
        unit: "requests per second",
        of: |course, steps, time_s| Some(sum(&course.attempts, steps)? / time_s),
        level: |value, top| {
            (1..6_u32)
                .filter(|n| value >= f64::from(*n) * width(top))
                .count()
        },
        from: |top| [0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(|n| spoken(n * width(top))),
    },
    Measure {
        unit: "longest send delay",
        of: |course, steps, _| {
            steps
                .iter()
                .filter_map(|n| course.max_sched_lag_us.get(*n).copied().flatten())
                .reduce(f64::max)
        },
        level: |value, _| LAGS.iter().filter(|least| value >= **least).count(),
        from: |_| {
            [
                "below 100 µs",
                "100 µs",
                "1 ms",
                "10 ms",
                "100 ms",
                "1 s or more",
            ]
            .map(str::to_owned)
        },
    },
    Measure {
        unit: "share of one CPU",
        of: |course, steps, time_s| Some(sum(&course.cpu_us, steps)? / 1e6 / time_s),
        level: |value, _| CPU.iter().filter(|least| value >= **least).count(),
        from: |_| ["below 10 %", "10 %", "30 %", "50 %", "70 %", "90 % or more"].map(str::to_owned),
    },
];

/// None without a shard that reported a second.
pub(super) fn chart(report: &Report) -> Option<Chart> {
    let seconds = Seconds::of(report, PICTURE);
    let lagging = lagging(report);
    let lanes = lanes(report, lagging);
    // A shard that died in its first second has no course.
    let first = lanes
        .iter()
        .max_by_key(|shard| shard.course.attempts.len())?;
    let step_s = first.course.step_s.max(1);
    let groups = groups(first.course.attempts.len(), lanes.len());
    let all_s = groups.first()?.len() as u64 * step_s;
    let height = (150.0 / lanes.len() as f64).clamp(3.0, 20.0) * lanes.len() as f64;
    let emphasis = lanes.iter().position(|shard| Some(shard.shard) == lagging);
    let name = |(n, shard): (usize, &&ShardReport)| {
        if Some(n) == emphasis {
            format!("\u{25b8} {}", shard.shard)
        } else {
            shard.shard.to_string()
        }
    };
    let range = Range::Rows {
        names: lanes.iter().enumerate().map(name).collect(),
        emphasis,
    };
    let cells = Cells {
        groups: &groups,
        step_s,
        seconds: &seconds,
    };
    let last = MEASURES.len() - 1;
    let panel = |(n, measure): (usize, &Measure)| {
        let time = Axis::new(
            format!("{} since start", seconds.unit()),
            Range::Between(0.0, seconds.at(seconds.end_s)),
            Format::Number,
        );
        let time = match all_s {
            _ if n < last => Axis::hidden(time.range),
            1 => time,
            all => Axis {
                label: format!("{} (each cell: {all} s)", time.label),
                ..time
            },
        };
        let y = Axis::new(
            format!("{}, by {}", measure.unit, report.shard_word()),
            range.clone(),
            Format::Number,
        );
        Panel {
            x: time,
            y,
            height,
            marks: cells.marks(measure, &lanes),
        }
    };
    let panels = MEASURES.iter().enumerate().map(panel).collect();
    let title = if report.merged.is_some() {
        "Parts side by side"
    } else {
        "Shards side by side"
    };
    Some(Chart {
        name: "shards",
        title,
        caption: caption(report, lagging),
        panels,
    })
}

/// Neighbouring steps of the courses in groups of one size, as few as there is room for.
fn groups(steps: usize, lanes: usize) -> Vec<Vec<usize>> {
    let columns = (MOST_CELLS / lanes.max(1)).clamp(1, MOST_COLUMNS);
    let all: Vec<usize> = (0..steps).collect();
    all.chunks(steps.div_ceil(columns).max(1))
        .map(<[usize]>::to_vec)
        .collect()
}

/// Division of time into cells.
struct Cells<'a> {
    groups: &'a [Vec<usize>],
    step_s: u64,
    seconds: &'a Seconds<'a>,
}

impl Cells<'_> {
    /// From when to when a group lasts; none when that is after the end.
    fn span(&self, group: &[usize]) -> Option<[f64; 2]> {
        let at = |n: usize| (n as u64 * self.step_s) as f64;
        let (from_s, to_s) = (
            at(*group.first()?),
            at(*group.last()? + 1).min(self.seconds.end_s),
        );
        (from_s < to_s).then_some([from_s, to_s])
    }

    /// The value of a shard in a group; none in a sliver of a second at the end, which has no rate.
    fn value(
        &self,
        measure: &Measure,
        shard: &ShardReport,
        group: &[usize],
    ) -> Option<([f64; 2], f64)> {
        let [from_s, to_s] = self.span(group)?;
        let is_long = to_s - from_s >= LEAST_S.min(self.seconds.end_s);
        let value = (measure.of)(&shard.course, group, to_s - from_s).filter(|_| is_long)?;
        Some(([from_s, to_s], value))
    }

    /// Cells of a measure by level: neighbours of a level are one cell.
    fn marks(&self, measure: &Measure, lanes: &[&ShardReport]) -> Vec<Mark> {
        let values: Vec<Vec<([f64; 2], f64)>> = lanes
            .iter()
            .map(|shard| {
                self.groups
                    .iter()
                    .filter_map(|group| self.value(measure, shard, group))
                    .collect()
            })
            .collect();
        let top = values
            .iter()
            .flatten()
            .map(|(_, value)| *value)
            .fold(0.0, f64::max);
        let top = if top > 0.0 { top } else { 1.0 };
        let mut levels: [Vec<Block>; 6] = Default::default();
        for (row, lane) in values.iter().enumerate() {
            let level = |value: f64| (measure.level)(value, top).min(5);
            let alike = |a: &([f64; 2], f64), b: &([f64; 2], f64)| {
                level(a.1) == level(b.1) && a.0[1] >= b.0[0]
            };
            for run in lane.chunk_by(alike) {
                let (Some(([from_s, _], value)), Some(([_, to_s], _))) = (run.first(), run.last())
                else {
                    continue;
                };
                let x = (self.seconds.at(*from_s), self.seconds.at(*to_s));
                levels[level(*value)].push(Block {
                    x,
                    y: (row as f64, row as f64 + 1.0),
                    text: String::new(),
                });
            }
        }
        let marks = levels.into_iter().zip((measure.from)(top)).enumerate();
        marks
            .map(|(n, (blocks, legend))| Mark::new(Role::Level(n), legend, Shape::Blocks(blocks)))
            .collect()
    }
}

/// The lanes in the order of their numbers: all shards, or those with the fewest attempts when
/// there are too many.
fn lanes(report: &Report, lagging: Option<u32>) -> Vec<&ShardReport> {
    let mut shards: Vec<&ShardReport> = report.shards.iter().collect();
    if shards.len() > MOST_LANES {
        shards.sort_by_key(|shard| {
            (
                Some(shard.shard) != lagging,
                shard.totals.attempts,
                shard.shard,
            )
        });
        shards.truncate(MOST_LANES);
    }
    shards.sort_by_key(|shard| shard.shard);
    shards
}

/// The first shard that died, or that with the fewest attempts when they are markedly fewer than
/// the median shard's.
fn lagging(report: &Report) -> Option<u32> {
    if let Some(dead) = report.shards.iter().find(|shard| shard.fault.is_some()) {
        return Some(dead.shard);
    }
    if report.merged.is_some() {
        // Parts of a crawl run at different times, and may have taken over finished items.
        return None;
    }
    let least = report
        .shards
        .iter()
        .min_by_key(|shard| shard.totals.attempts)?;
    ((least.totals.attempts as f64) < LAGS_BELOW * median(report)).then_some(least.shard)
}

/// The attempts of the median shard; of an even number, the mean of the middle two.
fn median(report: &Report) -> f64 {
    let mut attempts: Vec<f64> = report
        .shards
        .iter()
        .map(|shard| shard.totals.attempts as f64)
        .collect();
    stats::median(&mut attempts).unwrap_or(0.0)
}

fn caption(report: &Report, lagging: Option<u32>) -> String {
    let word = report.shard_word();
    let shown = match report.shards.len() {
        n if n > MOST_LANES => {
            format!(
                " Shown: the {MOST_LANES} of {} {word}s with the fewest requests.",
                grouped(n as u64)
            )
        }
        _ => String::new(),
    };
    if let [only] = &report.shards[..] {
        return format!(
            "One {word} ({}) made all {} requests.",
            only.shard,
            grouped(only.totals.attempts)
        );
    }
    let found = lagging.and_then(|number| report.shards.iter().find(|shard| shard.shard == number));
    if let Some(shard) = found {
        let part = rounded_percent(shard.totals.attempts as f64 / median(report));
        let ended = shard.fault.as_deref().unwrap_or("lagged");
        return format!(
            "{} {} {ended}: {part} of the median {word}'s requests{}.{shown}",
            capital(word),
            shard.shard,
            cause(report, shard)
        );
    }
    let latest = report
        .shards
        .iter()
        .filter_map(|shard| Some((shard.shard, greatest_lag(&shard.course)?)));
    let latest = latest.reduce(|a, b| if b.1 > a.1 { b } else { a });
    // Without a budget nothing has a time at which it could be late.
    let late = latest
        .filter(|(_, us)| *us > 0.0)
        .map_or_else(String::new, |(shard, us)| {
            format!(" Longest send delay: {} ({word} {shard}).", micros(us))
        });
    match &report.merged {
        Some(merged) => {
            let [parts, slots] = [merged.parts, merged.slots].map(|n| grouped(n.into()));
            format!("{parts} parts, at most {slots} at once.{late}{shown}")
        }
        None => format!("Shards were balanced.{late}{shown}"),
    }
}

/// Explain from a shard's own figures why it was slow.
fn cause(report: &Report, shard: &ShardReport) -> String {
    if shard.fault.is_some() {
        return String::new();
    }
    let (cpu, waited) = (
        shard.usage.cpu_share.unwrap_or(0.0),
        shard.usage.run_delay_share.unwrap_or(0.0),
    );
    match shard.totals.attempts {
        _ if waited > 0.05 => format!(
            "; it waited for a CPU for {} of the time",
            rounded_percent(waited)
        ),
        _ if cpu > 0.85 => format!("; it used {} of a CPU", rounded_percent(cpu)),
        n if n > 0 && shard.totals.throttled * 20 > n => {
            format!(
                "; {} of its requests were throttled",
                rounded_percent(shard.totals.throttled as f64 / n as f64)
            )
        }
        _ => match (
            greatest_lag(&shard.course),
            flight::foremost(report, &shard.binding),
        ) {
            (Some(us), _) if us >= LATE_US => format!("; its send delay was up to {}", micros(us)),
            (_, Some(("idle", part))) => format!(", idle {} of the time", rounded_percent(part)),
            (_, Some((limit, part))) => {
                format!(
                    ", mostly ({} of the time) limited by {limit}",
                    rounded_percent(part)
                )
            }
            _ => String::new(),
        },
    }
}

fn greatest_lag(course: &Course) -> Option<f64> {
    course
        .max_sched_lag_us
        .iter()
        .flatten()
        .copied()
        .reduce(f64::max)
}

fn sum(column: &[Option<u64>], steps: &[usize]) -> Option<f64> {
    let values = || {
        steps
            .iter()
            .filter_map(|n| column.get(*n).copied().flatten())
    };
    values().next()?;
    Some(values().sum::<u64>() as f64)
}

/// Return the width of a level of rates, of which six reach `top`.
fn width(top: f64) -> f64 {
    let decade = 10_f64.powf((top / 6.0).log10().floor());
    WIDTHS
        .into_iter()
        .map(|width| width * decade)
        .find(|width| *width * 6.0 >= top)
        .unwrap_or(10.0 * decade)
}
