//! Distribution of the times of answers, second by second: it shows what percentiles hide, such as two modes or a stall.

use super::canvas::{Head, Key, Mark, sheet};
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, Panel};
use super::scale::{Scale, time, trimmed};
use super::seconds::{Gathered, LEAST_S, Seconds};
use super::{Plot, counted};
use crate::run::report::{CELLS_PER_DECADE, Report, Spread};
use crate::show::text::times::unfinished;
use crawlmark_harness::units::rounded_percent;

const FIELD: f64 = 240.0;

/// The most columns: four pixels each, and a file that a page can bear.
const MOST_COLUMNS: u64 = 136;

/// The share of a column's answers from which a level begins.
const LEVELS: [(f64, &str); 6] =
    [(0.0, "below 0.3 %"), (0.003, "0.3 %"), (0.01, "1 %"), (0.03, "3 %"), (0.1, "10 %"), (0.3, "30 % or more")];

/// A column: from when to when, and its counts from cell 0 on.
struct Column {
    from_s: f64,
    to_s: f64,
    counts: Vec<u64>,
}

/// Cells of a level beside each other.
#[derive(Clone, Copy)]
struct Run {
    from_s: f64,
    to_s: f64,
    level: usize,
}

/// None without a good answer.
pub(super) fn plot(report: &Report) -> Option<Plot> {
    let seconds = Seconds::in_at_most(MOST_COLUMNS, report);
    let columns: Vec<Column> = seconds.gathered().iter().map(Column::of).collect();
    let what = if report.schedule.is_some() { "response" } else { "service" };
    let cells = cells(&columns)?;
    let used = LEVELS.iter().zip(Ink::HEAT).map(|((_, label), ink)| Key::new(label, Mark::Area(ink)));
    let head = Head {
        name: "heat",
        title: if what == "response" { "Response times, second by second" } else { "Service times, second by second" },
        caption: caption(report, &columns, &seconds),
        keys: used.collect(),
    };
    Some(sheet(head, ABOVE + FIELD + BELOW, |canvas, top| {
        let top = top + ABOVE;
        let [low, high] = cells;
        let y = Scale::Log(Spread::starts_us(low), Spread::starts_us(high));
        let panel = Panel::between(canvas, [top, top + FIELD], [seconds.scale(), y]);
        panel.vertical(&Axis { unit: "latency (log scale), by the share of the answers of each step", label: &time });
        let unit_s = seconds.unit().0;
        for cell in low..high {
            for run in runs(&columns, cell) {
                let heights = [Spread::starts_us(cell), Spread::starts_us(cell + 1)];
                panel.cell([run.from_s / unit_s, run.to_s / unit_s], heights, Ink::HEAT[run.level]);
            }
        }
        panel.horizontal(&Axis { unit: &seconds.axis_name("all of"), label: &trimmed });
    }))
}

impl Column {
    fn of(gathered: &Gathered<'_>) -> Self {
        let mut counts: Vec<u64> = Vec::new();
        for spread in gathered.rows.iter().filter_map(|row| row.spread.as_ref()) {
            // No answer takes a million seconds; a file that says so is not followed.
            let first = (spread.first.min(12 * CELLS_PER_DECADE)) as usize;
            counts.resize(counts.len().max(first + spread.counts.len()), 0);
            counts[first..].iter_mut().zip(&spread.counts).for_each(|(all, one)| *all += one);
        }
        Self { from_s: gathered.from_s, to_s: gathered.to_s, counts }
    }

    /// The level of a cell; none of an empty one.
    fn level(&self, cell: usize) -> Option<usize> {
        let count = *self.counts.get(cell).filter(|count| **count > 0)?;
        let part = count as f64 / self.counts.iter().sum::<u64>() as f64;
        LEVELS.iter().rposition(|(least, _)| part >= *least)
    }
}

/// The cells from the first to behind the last that has any, and at least half a decade of them.
fn cells(columns: &[Column]) -> Option<[u32; 2]> {
    let has = |n: &usize| columns.iter().any(|column| column.counts.get(*n).is_some_and(|count| *count > 0));
    let longest = columns.iter().map(|column| column.counts.len()).max()?;
    let first = (0..longest).find(has)?;
    let (first, end) = (u32::try_from(first).ok()?, u32::try_from(longest).ok()?);
    let low = first.saturating_sub(1);
    Some([low, (end + 1).max(low + CELLS_PER_DECADE)])
}

/// The cells of one height. A sliver of a second at the end has too few answers for shares of them, and is left out.
fn runs(columns: &[Column], cell: u32) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for column in columns.iter().filter(|column| column.to_s - column.from_s >= LEAST_S || columns.len() == 1) {
        let Some(level) = column.level(cell as usize) else { continue };
        match runs.last_mut() {
            Some(run) if run.level == level && run.to_s >= column.from_s => run.to_s = column.to_s,
            _ => runs.push(Run { from_s: column.from_s, to_s: column.to_s, level }),
        }
    }
    runs
}

fn caption(report: &Report, columns: &[Column], seconds: &Seconds<'_>) -> String {
    let what = if report.schedule.is_some() { "response" } else { "service" };
    let mut all: Vec<u64> = Vec::new();
    for column in columns {
        all.resize(all.len().max(column.counts.len()), 0);
        all.iter_mut().zip(&column.counts).for_each(|(all, one)| *all += one);
    }
    let total: u64 = all.iter().sum();
    let fullest = all.iter().enumerate().max_by_key(|(_, count)| **count).filter(|(_, count)| **count > 0);
    let Some((cell, count)) = fullest else {
        return format!("No {what} time is known.");
    };
    let cell = u32::try_from(cell).unwrap_or(0);
    let slowest = all.iter().rposition(|count| *count > 0).unwrap_or(0);
    let has_it = |column: &&Column| column.counts.get(slowest).is_some_and(|count| *count > 0);
    let first_s = columns.iter().find(has_it).map_or(0.0, |column| column.from_s);
    format!(
        "Of {}{} {} had a {what} time between {} and {}, more than in any other band; the slowest took {} or more, first at {}{}.",
        counted(total, if report.ledger.not_found > 0 { "good or not-found answer" } else { "good answer" }),
        if seconds.warmup_s > 0.0 { ", those of the warm-up included," } else { "" },
        rounded_percent(*count as f64 / total as f64),
        band(cell),
        band(cell + 1),
        band(u32::try_from(slowest).unwrap_or(0)),
        seconds.spoken(first_s),
        match report.latency(report.main_series()).map_or(0, |latency| latency.censored) {
            0 => String::new(),
            n => format!("; {} that {} are not shown", counted(n, "request"), unfinished(report)),
        },
    )
}

/// The edge of a cell in words.
fn band(cell: u32) -> String {
    crawlmark_harness::units::micros(Spread::starts_us(cell))
}
