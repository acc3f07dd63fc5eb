//! Histogram of times for a terminal: over a logarithmic axis, as high as the square root of each
//! count, so that a tail of 0.1 % shows.

use super::line::{Display, Line, Tone};
use super::text::BLOCKS;
use crate::run::report::Latency;
use crawlmark_harness::units::place;

/// The fewest samples of a shape.
const FEWEST: u64 = 20;

/// The least ratio of the two ends of the axis: a narrower one would show the cells of the counting.
const LEAST_RATIO: f64 = 3.0;

/// Columns of the widest one.
const WIDEST: usize = 76;

/// Columns of the terminal beside it.
const BESIDE: usize = 10;

/// Columns to the right of the axis that the last tick may take.
const OVERHANG: usize = 6;

/// The narrowest terminal that has one.
const NARROWEST: usize = 40;

/// Times of a run over a logarithmic axis.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    /// Middle of each cell, µs, and its count.
    cells: Vec<(f64, u64)>,
    /// Ends of the axis, µs.
    ends: [f64; 2],
    /// Percentiles that are named, µs.
    marks: Vec<(&'static str, f64)>,
}

impl Histogram {
    /// The histogram of a series; none of one with too few samples, or whose cells are not known.
    pub(crate) fn of(latency: &Latency) -> Option<Self> {
        let distribution = latency.distribution().filter(|_| latency.count >= FEWEST)?;
        let histogram = distribution.histogram();
        let mut recorded: Vec<([f64; 2], u64)> = Vec::new();
        for step in histogram.iter_recorded() {
            let at = step.value_iterated_to();
            let ends = [
                histogram.lowest_equivalent(at),
                histogram.highest_equivalent(at),
            ];
            let ends_us = ends.map(|ns| ns.max(1) as f64 / 1e3);
            recorded.push((ends_us, step.count_since_last_iteration()));
        }
        let ends = [recorded.first()?.0[0], recorded.last()?.0[1]];
        let middle = (ends[0] * ends[1]).sqrt();
        let is_wide = ends[1] >= ends[0] * LEAST_RATIO;
        let marks = latency
            .figures()
            .into_iter()
            .filter(|(name, ..)| ["p50", "p99", "max"].contains(name));
        Some(Self {
            ends: if is_wide {
                ends
            } else {
                [middle / 2.0, middle * 2.0]
            },
            marks: marks
                .filter_map(|(name, _, us)| Some((name, us?)))
                .collect(),
            cells: recorded
                .into_iter()
                .map(|([from, to], count)| (f64::midpoint(from, to), count))
                .collect(),
        })
    }

    /// The histogram in so many rows over two of the axis; nothing on a terminal without room.
    pub(crate) fn lines(&self, rows: usize, display: Display) -> Vec<Line> {
        if rows == 0 || display.columns < NARROWEST {
            return Vec::new();
        }
        let room = (display.columns - BESIDE).min(WIDEST);
        let heights = self.heights(room, rows);
        let line = |text: String, tone| Line::of(display.shown(text.trim_end()), tone);
        let bars = (0..rows).rev().map(|row| {
            let cells = heights
                .iter()
                .map(|height| cell(height.saturating_sub(row * 8).min(8), display));
            line(format!("  {}", cells.collect::<String>()), Tone::Bars)
        });
        let axis = [
            line(format!("  {}", self.axis(room)), Tone::Plain),
            line(format!("  {}", self.ticks(room, display)), Tone::Quiet),
        ];
        bars.chain(axis).collect()
    }

    /// The column of a time on an axis of so many.
    fn column(&self, us: f64, room: usize) -> usize {
        let [from, to] = self.ends;
        let part = (us.max(from) / from).ln() / (to / from).ln();
        place(part * room as f64).min(room - 1)
    }

    /// The heights of the columns, in eighths of a row: nothing but no sample is 0.
    fn heights(&self, room: usize, rows: usize) -> Vec<usize> {
        let mut counts = vec![0_u64; room];
        for (us, count) in &self.cells {
            counts[self.column(*us, room)] += count;
        }
        let most = counts.iter().max().copied().unwrap_or(1).max(1) as f64;
        counts
            .into_iter()
            .map(|count| {
                let height = (rows as f64 * 8.0 * (count as f64 / most).sqrt()).round();
                place(height).max(usize::from(count > 0))
            })
            .collect()
    }

    /// The axis, with those marks that do not overlap.
    fn axis(&self, room: usize) -> String {
        let mut axis = vec!['─'; room];
        for (name, us) in &self.marks {
            let width = name.len() + 1;
            let at = self.column(*us, room).min(room - width);
            let is_free = axis[at.saturating_sub(1)..at + width]
                .iter()
                .all(|c| *c == '─');
            if is_free {
                let mark = ['┴'].into_iter().chain(name.chars());
                axis.splice(at..at + width, mark);
            }
        }
        axis.into_iter().collect()
    }

    /// Times below the axis: 1, 2 and 5 of each power of ten, or the powers alone.
    fn ticks(&self, room: usize, display: Display) -> String {
        let (all, fits) = self.ticks_of(&[1, 2, 5], room, display);
        if fits {
            all
        } else {
            self.ticks_of(&[1], room, display).0
        }
    }

    /// These steps of each power of ten, and whether there was room for all of them.
    fn ticks_of(&self, steps: &[u64], room: usize, display: Display) -> (String, bool) {
        let (mut row, mut fits) = (vec![' '; room + OVERHANG + 2], true);
        for us in (0..9)
            .map(|power| 10_u64.pow(power))
            .flat_map(|power| steps.iter().map(move |step| step * power))
        {
            let time = us as f64;
            if time < self.ends[0] || time > self.ends[1] {
                continue;
            }
            let text = display.shown(&round_time(us)).into_owned();
            let (at, width) = (self.column(time, room), text.chars().count());
            let around = at.saturating_sub(2)..(at + width + 1).min(row.len());
            if at + width > room + OVERHANG || row[around].iter().any(|c| *c != ' ') {
                fits = false;
            } else {
                row.splice(at..at + width, text.chars());
            }
        }
        (row.into_iter().collect(), fits)
    }
}

/// A cell of so many eighths.
fn cell(eighths: usize, display: Display) -> char {
    match (eighths, display.has_unicode) {
        (0, _) => ' ',
        (_, true) => BLOCKS[eighths - 1],
        (1..=2, _) => '.',
        (3..=5, _) => ':',
        _ => '#',
    }
}

/// A round time without decimals: `500 µs`, `2 s`.
fn round_time(us: u64) -> String {
    match us {
        1_000_000.. => format!("{} s", us / 1_000_000),
        1_000.. => format!("{} ms", us / 1_000),
        _ => format!("{us} µs"),
    }
}
