//! Heat map: distribution of the times of answers, second by second. It shows what percentiles
//! hide, such as two modes or a stall.

use super::counted;
use super::seconds::{Gathered, LEAST_S, PICTURE, Seconds};
use crate::run::report::{CELLS_PER_DECADE, Report, Spread};
use crate::run::words::unfinished;
use crate::show::chart::{Axis, Block, Chart, Format, Mark, Panel, Range, Role, Shape};
use crawlmark_harness::units::{grouped, micros, rounded_percent};

/// The share of a column's answers from which a level begins.
const LEVELS: [(f64, &str); 6] = [
    (0.0, "below 0.3 %"),
    (0.003, "0.3 %"),
    (0.01, "1 %"),
    (0.03, "3 %"),
    (0.1, "10 %"),
    (0.3, "30 % or more"),
];

/// A column: from when to when, and its counts from cell 0 on.
struct HeatColumn {
    from_s: f64,
    to_s: f64,
    counts: Vec<u64>,
}

/// None without a good answer.
pub(super) fn chart(report: &Report) -> Option<Chart> {
    let seconds = Seconds::of(report, PICTURE);
    let columns: Vec<HeatColumn> = seconds.gathered().iter().map(HeatColumn::of).collect();
    let [low, high] = cells(&columns)?;
    let mut levels: [Vec<Block>; 6] = Default::default();
    for cell in low..high {
        for (level, [from_s, to_s]) in runs(&columns, cell) {
            let block = Block {
                x: (seconds.at(from_s), seconds.at(to_s)),
                y: (Spread::starts_us(cell), Spread::starts_us(cell + 1)),
                text: String::new(),
            };
            levels[level].push(block);
        }
    }
    let marks = levels.into_iter().zip(LEVELS).enumerate();
    let marks = marks
        .map(|(n, (blocks, (_, label)))| Mark::new(Role::Level(n), label, Shape::Blocks(blocks)));
    let is_open = report.schedule.is_some();
    let what = if is_open { "response" } else { "service" };
    let range = Range::LogBetween(Spread::starts_us(low), Spread::starts_us(high));
    let label = format!("{what} time (log scale); colour = share of that second's responses");
    Some(Chart {
        name: "heat",
        title: if is_open {
            "Response times, second by second"
        } else {
            "Service times, second by second"
        },
        caption: caption(report, what, &columns, &seconds),
        panels: vec![Panel {
            x: seconds.axis("all"),
            y: Axis::new(label, range, Format::Micros),
            height: 240.0,
            marks: marks.collect(),
        }],
    })
}

impl HeatColumn {
    fn of(gathered: &Gathered<'_>) -> Self {
        let mut counts: Vec<u64> = Vec::new();
        for spread in gathered.rows().filter_map(|row| row.spread.as_ref()) {
            // No answer takes a million seconds; a file that says so is not followed.
            let first = (spread.first.min(12 * CELLS_PER_DECADE)) as usize;
            counts.resize(counts.len().max(first + spread.counts.len()), 0);
            counts[first..]
                .iter_mut()
                .zip(&spread.counts)
                .for_each(|(all, one)| *all += one);
        }
        Self {
            from_s: gathered.from_s,
            to_s: gathered.to_s,
            counts,
        }
    }

    /// The level of a cell; none of an empty one.
    fn level(&self, cell: usize) -> Option<usize> {
        let count = *self.counts.get(cell).filter(|count| **count > 0)?;
        let part = count as f64 / self.counts.iter().sum::<u64>() as f64;
        LEVELS.iter().rposition(|(least, _)| part >= *least)
    }
}

/// The cells from the first to behind the last that has any, and at least half a decade of them.
fn cells(columns: &[HeatColumn]) -> Option<[u32; 2]> {
    let has = |n: &usize| {
        columns
            .iter()
            .any(|column| column.counts.get(*n).is_some_and(|count| *count > 0))
    };
    let longest = columns.iter().map(|column| column.counts.len()).max()?;
    let first = (0..longest).find(has)?;
    let (first, end) = (u32::try_from(first).ok()?, u32::try_from(longest).ok()?);
    let low = first.saturating_sub(1);
    Some([low, (end + 1).max(low + CELLS_PER_DECADE)])
}

/// The cells of one height: their levels, each with its time. A sliver of a second at the end has
/// too few answers for shares of them, and is left out.
fn runs(columns: &[HeatColumn], cell: u32) -> Vec<(usize, [f64; 2])> {
    let mut runs: Vec<(usize, [f64; 2])> = Vec::new();
    for column in columns
        .iter()
        .filter(|column| column.to_s - column.from_s >= LEAST_S || columns.len() == 1)
    {
        let Some(level) = column.level(cell as usize) else {
            continue;
        };
        match runs.last_mut() {
            Some((last, time)) if *last == level && time[1] >= column.from_s => {
                time[1] = column.to_s;
            }
            _ => runs.push((level, [column.from_s, column.to_s])),
        }
    }
    runs
}

fn caption(report: &Report, what: &str, columns: &[HeatColumn], seconds: &Seconds<'_>) -> String {
    let mut all: Vec<u64> = Vec::new();
    for column in columns {
        all.resize(all.len().max(column.counts.len()), 0);
        all.iter_mut()
            .zip(&column.counts)
            .for_each(|(all, one)| *all += one);
    }
    let total: u64 = all.iter().sum();
    let fullest = all
        .iter()
        .enumerate()
        .max_by_key(|(_, count)| **count)
        .filter(|(_, count)| **count > 0);
    let Some((cell, count)) = fullest else {
        return format!("No {what} time is known.");
    };
    let edge = |cell: usize| micros(Spread::starts_us(u32::try_from(cell).unwrap_or(0)));
    let slowest = all.iter().rposition(|count| *count > 0).unwrap_or(0);
    let has_it = |column: &&HeatColumn| column.counts.get(slowest).is_some_and(|count| *count > 0);
    let first_s = columns
        .iter()
        .find(has_it)
        .map_or(0.0, |column| column.from_s);
    format!(
        "The most common band is {} to {} ({} of {} responses{}). The slowest band, {} and up, first appears at {}{}.",
        edge(cell),
        edge(cell + 1),
        rounded_percent(*count as f64 / total as f64),
        grouped(total),
        if seconds.has_warmup() {
            ", warm-up included"
        } else {
            ""
        },
        edge(slowest),
        seconds.spoken(seconds.at(first_s)),
        match report
            .latency(report.main_series())
            .map_or(0, |latency| latency.censored)
        {
            0 => String::new(),
            n => format!(
                "; {} that {} are not shown",
                counted(n, "request"),
                unfinished(report)
            ),
        },
    )
}
