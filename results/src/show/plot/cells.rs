//! Charts whose colours are levels: the times of responses, and the shards below each other.

use super::answers;
use super::time::TimeAxis;
use crate::run::report::{Report, ShardCourse, ShardReport};
use crate::show::chart::{
    Axis, Block, Chart, Format, Mark, Panel, Range, Role, RowName, Shape, round_values,
};
use crate::show::page::panels::{Heat, Run};
use crate::show::text::counted;
use crawlmark_harness::stats;
use crawlmark_harness::units::rounded_percent;

/// A step of which less than this was part of the run has no value: a single attempt would be a
/// peak.
const LEAST_S: f64 = 0.2;

/// The share of a column's responses from which a level begins.
const SHARES: [f64; 5] = [0.003, 0.01, 0.03, 0.1, 0.3];

/// Part of the median's requests from which on a shard made as many.
const EVEN: f64 = 0.99;

/// The most rows of shards: each is at least three pixels high.
const MOST_ROWS: usize = 64;

/// The most cells of a panel of shards, which bound the file.
const MOST_CELLS: usize = 4_800;

/// The most columns of shards, four pixels each.
const MOST_COLUMNS: usize = 136;

/// A value, and the ends of the part of the time that it is of, on its axis.
struct Cell {
    ends: [f64; 2],
    value: f64,
}

impl Cell {
    fn level(&self, bounds: &[f64]) -> usize {
        bounds.iter().filter(|bound| self.value >= **bound).count()
    }
}

/// Cells by their levels.
#[derive(Default)]
struct Levels([Vec<Block>; 6]);

impl Levels {
    /// Add the cells of one height: neighbours of a level are one. A level begins at each of
    /// `bounds`, and one below them.
    fn add(&mut self, cells: &[Cell], y: [f64; 2], bounds: &[f64]) {
        for run in
            cells.chunk_by(|a, b| a.level(bounds) == b.level(bounds) && a.ends[1] >= b.ends[0])
        {
            let (first, last) = (&run[0], &run[run.len() - 1]);
            self.0[first.level(bounds)].push(Block {
                x: (first.ends[0], last.ends[1]),
                y: y.into(),
            });
        }
    }

    fn marks(self) -> Vec<Mark> {
        self.0
            .into_iter()
            .enumerate()
            .map(|(n, cells)| Mark::new(Role::Level(n), "", Shape::Blocks(cells)))
            .collect()
    }
}

/// Times of responses by columns, which show what percentiles hide, such as two modes or a stall,
/// and the range of their axis; none without a response.
pub(super) fn heat(heat: &Heat, axis: TimeAxis) -> Option<(Vec<Mark>, Range)> {
    let known: Vec<_> = heat.columns.iter().flatten().collect();
    let low = known
        .iter()
        .map(|(first, _)| *first)
        .min()?
        .saturating_sub(1);
    let high = known
        .iter()
        .map(|(first, counts)| first + u32::try_from(counts.len()).unwrap_or(0))
        .max()?;
    let starts_us = |cell: u32| 10f64.powf(f64::from(cell) / heat.per_decade as f64);
    let mut levels = Levels::default();
    for cell in low..high {
        let cells: Vec<Cell> = heat
            .columns
            .iter()
            .enumerate()
            .filter_map(|(n, column)| {
                let (first, counts) = column.as_ref()?;
                let count = counts.get(cell.checked_sub(*first)? as usize)?;
                let all: u64 = counts.iter().sum();
                (*count > 0).then(|| Cell {
                    ends: axis.ends(n, heat.step),
                    value: *count as f64 / all as f64,
                })
            })
            .collect();
        levels.add(&cells, [cell, cell + 1].map(starts_us), &SHARES);
    }
    let range = Range::LogBetween(starts_us(low), starts_us(high));
    Some((levels.marks(), range))
}

/// Measure of shards that a panel shows.
struct Measure {
    unit: &'static str,
    /// One value of several that took this time.
    gather: fn(&[f64], f64) -> f64,
    /// Values of the steps of a course.
    column: fn(&ShardCourse) -> Vec<Option<f64>>,
    /// Value that each level but the lowest begins at, given the greatest value.
    least: fn(f64) -> Vec<f64>,
    format: Format,
}

const MEASURES: [Measure; 3] = [
    Measure {
        unit: "requests per second",
        gather: rate,
        column: |course| counts_of(&course.attempts, 1.0),
        least: |top| round_values(top, 5),
        format: Format::Number,
    },
    Measure {
        unit: "longest send delay",
        gather: most,
        column: |course| course.max_sched_lag_us.clone(),
        least: |_| vec![100.0, 1e3, 1e4, 1e5, 1e6],
        format: Format::Micros,
    },
    Measure {
        unit: "share of one CPU",
        gather: rate,
        column: |course| counts_of(&course.cpu_us, 1e6),
        least: |_| vec![0.1, 0.3, 0.5, 0.7, 0.9],
        format: Format::Percent,
    },
];

fn rate(counts: &[f64], time_s: f64) -> f64 {
    counts.iter().sum::<f64>() / time_s
}

fn most(values: &[f64], _: f64) -> f64 {
    values.iter().copied().fold(0.0, f64::max)
}

fn counts_of(column: &[Option<u64>], unit: f64) -> Vec<Option<f64>> {
    column.iter().map(|n| n.map(|n| n as f64 / unit)).collect()
}

impl Measure {
    /// What it is, and what its colours stand for.
    fn label(&self, least: &[f64]) -> String {
        let ends = [least.first(), least.last()];
        let [low, high] = ends.map(|value| self.format.label(value.copied().unwrap_or(0.0)));
        format!("{}, from below {low} to {high} and more", self.unit)
    }

    /// The cells of a shard, of so many steps each.
    fn cells(&self, course: &ShardCourse, steps: usize, axis: TimeAxis) -> Vec<Cell> {
        let (mut cells, mut from_s) = (Vec::new(), 0.0);
        for group in (self.column)(course).chunks(steps) {
            let to_s = (from_s + (group.len() as u64 * course.step_s) as f64).min(axis.to_s);
            let values: Vec<f64> = group.iter().flatten().copied().collect();
            // A sliver of a second at the end has no rate.
            if !values.is_empty() && to_s - from_s >= LEAST_S.min(axis.to_s) {
                cells.push(Cell {
                    ends: [from_s, to_s].map(|s| axis.at(s)),
                    value: (self.gather)(&values, to_s - from_s),
                });
            }
            from_s = to_s;
        }
        cells
    }
}

/// The shards below each other; none without one that reported a second.
pub(super) fn shards(name: &'static str, run: &Run<'_>) -> Option<Chart> {
    let (report, axis) = (run.report, TimeAxis::of(run.columns));
    let shards = rows(report);
    let names: Vec<RowName> = shards
        .iter()
        .map(|one| RowName {
            name: one.shard.to_string(),
            ..RowName::default()
        })
        .collect();
    // A shard that died in its first second has no course.
    let all = shards
        .iter()
        .max_by_key(|one| one.course.attempts.len())?
        .course
        .attempts
        .len();
    let columns = (MOST_CELLS / shards.len()).clamp(1, MOST_COLUMNS);
    let ticks = all.div_ceil(columns).max(1);
    // A little apart, where there is room for it.
    let apart = if shards.len() > 24 { 0.0 } else { 0.06 };
    let mut panels = Vec::new();
    for measure in MEASURES.iter().filter(|_| all > 0) {
        let cells: Vec<Vec<Cell>> = shards
            .iter()
            .map(|one| measure.cells(&one.course, ticks, axis))
            .collect();
        let top = cells
            .iter()
            .flatten()
            .map(|cell| cell.value)
            .fold(0.0, f64::max);
        let least = (measure.least)(if top > 0.0 { top } else { 1.0 });
        let mut levels = Levels::default();
        for (n, cells) in cells.iter().enumerate() {
            let (from, to) = (n as f64 + apart, n as f64 + 1.0 - apart);
            levels.add(cells, [from, to], &least);
        }
        panels.push(Panel {
            x: axis.axis(),
            y: Axis::new(
                measure.label(&least),
                Range::Rows(names.clone()),
                Format::Number,
            ),
            height: (150.0 / shards.len() as f64).clamp(3.0, 20.0) * shards.len() as f64,
            marks: levels.marks(),
            cells: Vec::new(),
        });
    }
    let title = if report.merged.is_some() {
        "Parts side by side"
    } else {
        "Shards side by side"
    };
    let stacked = Panel::below_each_other(panels);
    (!stacked.is_empty()).then(|| answers::chart([name, title], answer, report, stacked))
}

/// The shards in order: of too many, those with the fewest requests.
fn rows(report: &Report) -> Vec<&ShardReport> {
    let mut shards: Vec<&ShardReport> = report.shards.iter().collect();
    shards.sort_by_key(|shard| (shard.totals.attempts, shard.shard));
    shards.truncate(MOST_ROWS);
    shards.sort_by_key(|shard| shard.shard);
    shards
}

/// The requests of the median shard.
fn median(report: &Report) -> f64 {
    let mut attempts: Vec<f64> = report
        .shards
        .iter()
        .map(|shard| shard.totals.attempts as f64)
        .collect();
    stats::median(&mut attempts).unwrap_or(0.0)
}

/// How far the shards are apart.
fn answer(report: &Report) -> [String; 2] {
    let (all, word) = (&report.shards, report.shard_word());
    let count = counted(all.len() as u64, word);
    let fewest = all
        .iter()
        .min_by_key(|one| one.totals.attempts)
        .filter(|_| all.len() > 1)
        .map(|one| {
            let part = one.totals.attempts as f64 / median(report).max(1.0);
            if part >= EVEN {
                return " made equally many requests, within 1 %".to_owned();
            }
            format!(
                ": {word} {} made the fewest requests, {} of the median",
                one.shard,
                rounded_percent(part)
            )
        });
    let shown = if all.len() > MOST_ROWS {
        format!(" · the {MOST_ROWS} with the fewest requests")
    } else {
        String::new()
    };
    [
        count + &fewest.unwrap_or_default(),
        format!("each {word} a row, over time · the darker, the more{shown}"),
    ]
}
