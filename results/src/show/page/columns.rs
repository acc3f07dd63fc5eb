//! A run's time in columns: requests by outcome, times and requests in flight in steps of the
//! course, and everything else in seconds, gathered where there are many.

use crate::run::report::{CELLS_PER_DECADE, IntervalRow, Report, Spread};

/// The most steps of a line.
const MOST: f64 = 600.0;

/// A step of which less than this part was in the run has no rate: a single request would be a peak.
const LEAST: f64 = 0.2;

/// Values in steps of equal length, the first of which begins at the start of the axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Steps {
    pub(super) step_s: f64,
    pub(super) values: Vec<Option<f64>>,
}

impl Steps {
    /// The greatest value.
    pub(super) fn highest(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// The least value.
    pub(super) fn lowest(&self) -> f64 {
        let values = self.values.iter().flatten().copied();
        values.reduce(f64::min).unwrap_or(0.0)
    }

    /// The mean of the values that are known.
    pub(super) fn mean(&self) -> Option<f64> {
        let known: Vec<f64> = self.values.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// True if a value is above 0.
    pub(super) fn is_any(&self) -> bool {
        self.highest() > 0.0
    }

    /// One value all the time.
    pub(super) fn constant(value: f64, columns: &Columns<'_>) -> Self {
        Self {
            step_s: columns.to_s - columns.from_s,
            values: vec![Some(value)],
        }
    }
}

/// Time of a run.
pub(super) struct Columns<'a> {
    /// Start of the axis, s since the common start: 0 but of a part of a run.
    pub(super) from_s: f64,
    /// End of the axis.
    pub(super) to_s: f64,
    rows: &'a [IntervalRow],
    /// Length of a step of what is known by the second, s.
    second_s: f64,
}

/// Times of a column: the number of the first cell, and counts from there on.
pub(super) type Cells = Option<(u32, Vec<u64>)>;

impl<'a> Columns<'a> {
    pub(super) fn of(report: &'a Report) -> Self {
        let rows = &report.intervals[..];
        let first = rows.first().map_or(0, |row| row.start_s);
        let last = rows.iter().rev().find(|row| row.attempts > 0);
        let last = last.map_or(first, |row| row.start_s);
        let known_s = report.totals.duration_s;
        let to_s = if known_s.is_finite() && known_s > last as f64 {
            known_s
        } else {
            (last + 1) as f64
        };
        let from_s = first as f64;
        Self {
            from_s,
            to_s,
            rows,
            second_s: ((to_s - from_s) / MOST).ceil().max(1.0),
        }
    }

    /// The rows of each step, and the length of the part of the step that was in the run.
    fn gathered(&self) -> Vec<(&'a [IntervalRow], f64)> {
        let (mut steps, mut from_s, mut rest) = (Vec::new(), self.from_s, self.rows);
        while from_s < self.to_s {
            let end_s = from_s + self.second_s;
            let before = rest.partition_point(|row| (row.start_s as f64) < end_s);
            let (rows, later) = rest.split_at(before);
            steps.push((rows, end_s.min(self.to_s) - from_s));
            (from_s, rest) = (end_s, later);
        }
        steps
    }

    /// A value of the rows of each step and its length; none of one that has too little.
    fn steps(&self, value: impl Fn(&[IntervalRow], f64) -> Option<f64>) -> Steps {
        let least_s = LEAST.min(self.to_s - self.from_s);
        let of = |(rows, length_s): (&[IntervalRow], f64)| {
            let is_known = !rows.is_empty() && length_s >= least_s;
            let value = is_known.then(|| value(rows, length_s)).flatten();
            value.filter(|value| value.is_finite())
        };
        Steps {
            step_s: self.second_s,
            values: self.gathered().into_iter().map(of).collect(),
        }
    }

    /// Counts of each second, per second.
    pub(super) fn rate(&self, count: impl Fn(&IntervalRow) -> Option<f64>) -> Steps {
        self.steps(|rows, length_s| {
            let known: Vec<f64> = rows.iter().filter_map(&count).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / length_s)
        })
    }

    /// The greatest of each step.
    pub(super) fn most(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Steps {
        self.steps(|rows, _| rows.iter().filter_map(&value).reduce(f64::max))
    }

    /// The mean of each step.
    pub(super) fn mean(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Steps {
        self.steps(|rows, _| {
            let known: Vec<f64> = rows.iter().filter_map(&value).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
    }

    /// Requests per second by outcome, in columns.
    pub(super) fn outcome(&self, outcome: Outcome) -> Steps {
        self.rate(|row| Some(outcome.of(row) as f64))
    }

    /// Requests in flight, the most of each column.
    pub(super) fn in_flight(&self, report: &Report) -> Steps {
        self.most(|row| {
            let is_whole = (row.start_s + 1) as f64 <= report.totals.duration_s + 0.01;
            is_whole.then(|| f64::from(row.in_flight))
        })
    }

    /// Times of good responses, in columns, and the length of one.
    pub(super) fn heat(&self) -> (f64, Vec<Cells>) {
        let steps = self.gathered().into_iter();
        let spreads =
            steps.map(|(rows, _)| merged(rows.iter().filter_map(|row| row.spread.as_ref())));
        (self.second_s, spreads.collect())
    }

    /// Cells in a factor of ten.
    pub(super) const fn cells_per_decade() -> u32 {
        CELLS_PER_DECADE
    }
}

/// Cells beyond any time: a file may say anything.
const MOST_CELLS: usize = 256;

/// Counts of several distributions in one.
fn merged<'s>(spreads: impl Iterator<Item = &'s Spread>) -> Cells {
    let sane = |spread: &&Spread| {
        let end = (spread.first as usize).saturating_add(spread.counts.len());
        end <= MOST_CELLS && !spread.counts.is_empty()
    };
    spreads.filter(sane).fold(None, |sum, spread| {
        let Some((first, counts)) = sum else {
            return Some((spread.first, spread.counts.clone()));
        };
        let start = first.min(spread.first);
        let ends = [(first, &counts), (spread.first, &spread.counts)];
        let end = ends.map(|(from, all)| from as usize + all.len());
        let mut cells = vec![0u64; end[0].max(end[1]) - start as usize];
        for (from, all) in ends {
            for (cell, count) in cells[(from - start) as usize..].iter_mut().zip(all) {
                *cell = cell.saturating_add(*count);
            }
        }
        Some((start, cells))
    })
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Good,
    NotFound,
    Throttled,
    Failed,
}

impl Outcome {
    /// Requests of a second with it. Those that were cut off at the end failed.
    fn of(self, row: &IntervalRow) -> u64 {
        match self {
            Self::Good => row.ok,
            Self::NotFound => row.not_found,
            Self::Throttled => row.throttled,
            Self::Failed => row
                .attempts
                .saturating_sub(row.ok + row.not_found + row.throttled),
        }
    }
}
