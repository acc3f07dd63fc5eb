//! A run's time in columns: requests by outcome, times and requests in flight in steps of the
//! course, and everything else in seconds, gathered where there are many.

use crate::run::report::{self, Course, IntervalRow, Report};
use crawlmark_harness::stats::CELLS_PER_DECADE as FINE_CELLS;

/// The most steps of what is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Most {
    /// Of a line.
    lines: u32,
    /// Columns of cells.
    cells: usize,
}

impl Most {
    pub(in crate::show) const PAGE: Self = Self {
        lines: 600,
        cells: usize::MAX,
    };

    /// What a narrow page shows without a scroll bar.
    pub(crate) const CHARACTERS: Self = Self {
        lines: 60,
        cells: 0,
    };

    /// Two pixels and more for each.
    pub(in crate::show) const PICTURE: Self = Self {
        lines: 300,
        cells: 160,
    };
}

/// A step of which less than this part was in the run has no rate: a single request would be a peak.
const LEAST: f64 = 0.2;

/// Values in steps of equal length, the first of which begins at the start of the axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Steps {
    pub(in crate::show) step_s: f64,
    pub(crate) values: Vec<Option<f64>>,
}

impl Steps {
    /// The greatest value.
    pub(in crate::show) fn highest(&self) -> f64 {
        self.values.iter().flatten().copied().fold(0.0, f64::max)
    }

    /// The least value.
    pub(in crate::show) fn lowest(&self) -> f64 {
        self.values
            .iter()
            .flatten()
            .copied()
            .reduce(f64::min)
            .unwrap_or(0.0)
    }

    /// The mean of the values that are known.
    pub(in crate::show) fn mean(&self) -> Option<f64> {
        let known: Vec<f64> = self.values.iter().flatten().copied().collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }

    /// True if a value is above 0.
    pub(in crate::show) fn is_any(&self) -> bool {
        self.highest() > 0.0
    }

    /// One value all the time.
    pub(in crate::show) fn constant(value: f64, columns: &Columns<'_>) -> Self {
        Self {
            step_s: columns.end_s - columns.from_s,
            values: vec![Some(value)],
        }
    }
}

/// Time of a run.
pub(crate) struct Columns<'a> {
    /// Start of the axis, s since the common start: 0 but of a part of a run.
    pub(in crate::show) from_s: f64,
    /// End of what is known of it.
    pub(in crate::show) to_s: f64,
    /// End of the axis: of a run that goes on, that of its plan.
    pub(in crate::show) end_s: f64,
    rows: &'a [IntervalRow],
    /// Length of a step of what is known by the second, s.
    second_s: f64,
    most: Most,
    /// What is known in shorter columns; none of a part of a run whose columns are longer.
    fine: Option<Fine>,
    /// [`Choice::has_medians`], once it was chosen.
    has_medians: Option<bool>,
}

/// Times of a column: the number of the first cell, and counts from there on.
pub(in crate::show) type Cells = Option<(u32, Vec<u64>)>;

/// Counts, times and requests in flight in columns of the course, or in several of these together.
struct Fine {
    step_s: f64,
    /// By outcome, in the order of [`Outcome`].
    counts: [Vec<u64>; 4],
    in_flight: Vec<u64>,
    heat: Vec<Cells>,
}

/// Requests of a column in the mean, at least, and its length at most, ms: with fewer, columns
/// would show chance.
const LEAST_OF_COLUMN: (u64, u64) = (20, 1_000);

/// What is chosen of a run that goes on only now and then: a line whose steps change each second
/// would have to be sent as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// Columns of the course that are one.
    together: usize,
    /// True if the medians of the columns are drawn, and not those of the seconds.
    has_medians: bool,
}

/// Columns together.
const TOGETHER: [usize; 6] = [1, 2, 5, 10, 25, 50];

/// Counts of the columns of a course, in the order of [`Outcome`].
fn outcomes(course: &Course) -> [&[u64]; 4] {
    [
        &course.good,
        &course.not_found,
        &course.throttled,
        &course.failed,
    ]
}

impl Fine {
    /// None without a course from the start of the axis on.
    fn of(report: &Report, from_s: f64, most: Most, together: Option<usize>) -> Option<Self> {
        let course = report.course.as_ref()?;
        let is_here = (course.start_ms as f64 / 1e3 - from_s).abs() < 1e-6;
        if !is_here || course.step_ms == 0 || course.good.is_empty() {
            return None;
        }
        let by = together.unwrap_or_else(|| Self::together(course, most));
        let heat = course.heat.chunks(by).map(|part| {
            merged(
                part.iter()
                    .flatten()
                    .map(|column| (column.first, &column.counts[..])),
            )
        });
        Some(Self {
            step_s: course.step_ms as f64 / 1e3 * by as f64,
            counts: outcomes(course).map(|counts| {
                counts
                    .chunks(by)
                    .map(|part| part.iter().fold(0, |a: u64, b| a.saturating_add(*b)))
                    .collect::<Vec<u64>>()
            }),
            in_flight: course
                .in_flight
                .chunks(by)
                .filter_map(|part| part.iter().copied().max())
                .collect(),
            heat: heat.collect(),
        })
    }

    /// The columns of a course to draw as one, so that each has some requests.
    fn together(course: &Course, most: Most) -> usize {
        let all: u64 = outcomes(course)
            .into_iter()
            .flatten()
            .fold(0, |a, b| a.saturating_add(*b));
        let (least, longest_ms) = LEAST_OF_COLUMN;
        let columns = course.good.len().max(1);
        let short: Vec<usize> = TOGETHER
            .into_iter()
            .filter(|by| course.step_ms.saturating_mul(*by as u64) <= longest_ms)
            .collect();
        let enough = short.iter().find(|by| {
            all.saturating_mul(**by as u64) / columns as u64 >= least
                && columns.div_ceil(**by) <= most.lines as usize
        });
        enough.or(short.last()).copied().unwrap_or(1)
    }
}

impl<'a> Columns<'a> {
    pub(in crate::show) fn of(report: &'a Report) -> Self {
        Self::at_most(report, Most::PAGE)
    }

    pub(crate) fn at_most(report: &'a Report, most: Most) -> Self {
        let rows = &report.intervals[..];
        let first = rows.first().map_or(0, |row| row.start_s);
        let last = rows
            .iter()
            .rev()
            .find(|row| row.attempts > 0)
            .map_or(first, |row| row.start_s);
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
            end_s: to_s,
            rows,
            second_s: ((to_s - from_s) / f64::from(most.lines)).ceil().max(1.0),
            most,
            fine: Fine::of(report, from_s, most, None),
            has_medians: None,
        }
    }

    /// The part of the time of a run that goes on which is shown; what was chosen stays as it is.
    pub(super) fn so_far(
        report: &'a Report,
        [from_s, end_s]: [f64; 2],
        chosen: Option<Choice>,
    ) -> Self {
        let rows = &report.intervals[..];
        let shown = rows.partition_point(|row| (row.start_s as f64) < from_s);
        Self {
            from_s,
            to_s: rows.last().map_or(from_s, |row| (row.start_s + 1) as f64),
            end_s,
            rows: &rows[shown..],
            second_s: ((end_s - from_s) / f64::from(Most::PAGE.lines))
                .ceil()
                .max(1.0),
            most: Most::PAGE,
            fine: Fine::of(report, from_s, Most::PAGE, chosen.map(|it| it.together)),
            has_medians: chosen.map(|it| it.has_medians),
        }
    }

    /// What the steps are chosen by.
    pub(super) fn choice(&self, report: &Report) -> Choice {
        Choice {
            together: report
                .course
                .as_ref()
                .map_or(1, |course| Fine::together(course, self.most)),
            has_medians: self.medians().is_some(),
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
        Steps {
            step_s: self.second_s,
            values: self
                .gathered()
                .into_iter()
                .map(|(rows, length_s)| {
                    let is_known = !rows.is_empty() && length_s >= least_s;
                    let value = is_known.then(|| value(rows, length_s)).flatten();
                    value.filter(|value| value.is_finite())
                })
                .collect(),
        }
    }

    /// Counts of each second, per second.
    pub(in crate::show) fn rate(&self, count: impl Fn(&IntervalRow) -> Option<f64>) -> Steps {
        self.steps(|rows, length_s| {
            let known: Vec<f64> = rows.iter().filter_map(&count).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / length_s)
        })
    }

    /// The greatest of each step.
    pub(in crate::show) fn most(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Steps {
        self.steps(|rows, _| rows.iter().filter_map(&value).reduce(f64::max))
    }

    /// The mean of each step.
    pub(crate) fn mean(&self, value: impl Fn(&IntervalRow) -> Option<f64>) -> Steps {
        self.steps(|rows, _| {
            let known: Vec<f64> = rows.iter().filter_map(&value).collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
    }

    /// Requests of an outcome, in all columns.
    pub(in crate::show) fn count(&self, outcome: Outcome) -> u64 {
        match &self.fine {
            Some(fine) => fine.counts[outcome as usize].iter().sum(),
            None => self.rows.iter().map(|row| outcome.of(row)).sum(),
        }
    }

    /// Requests per second by outcome, in columns.
    pub(in crate::show) fn outcome(&self, outcome: Outcome) -> Steps {
        let Some(fine) = &self.fine else {
            return self.rate(|row| Some(outcome.of(row) as f64));
        };
        let values = fine.counts[outcome as usize]
            .iter()
            .enumerate()
            .map(|(column, count)| {
                let rest_s = self.to_s - self.from_s - column as f64 * fine.step_s;
                let is_whole = rest_s >= LEAST * fine.step_s;
                is_whole.then(|| *count as f64 / rest_s.min(fine.step_s))
            });
        Steps {
            step_s: fine.step_s,
            values: values.collect(),
        }
    }

    /// Requests in flight, the most of each column.
    pub(in crate::show) fn in_flight(&self, report: &Report) -> Steps {
        let Some(fine) = &self.fine else {
            return self.most(|row| {
                let is_whole = (row.start_s + 1) as f64 <= report.totals.duration_s + 0.01;
                is_whole.then(|| f64::from(row.in_flight))
            });
        };
        Steps {
            step_s: fine.step_s,
            values: fine
                .in_flight
                .iter()
                .map(|most| Some(*most as f64))
                .collect(),
        }
    }

    /// Times of good responses: length of a column, cells in a factor of ten, and the columns.
    pub(in crate::show) fn heat(&self) -> (f64, usize, Vec<Cells>) {
        let (step_s, per_decade, known) = if let Some(fine) = &self.fine {
            (fine.step_s, FINE_CELLS, fine.heat.clone())
        } else {
            let spreads = self.gathered().into_iter().map(|(rows, _)| {
                let spreads = rows.iter().filter_map(|row| row.spread.as_ref());
                merged(spreads.map(|spread| (spread.first, &spread.counts[..])))
            });
            let per_decade = report::CELLS_PER_DECADE as usize;
            (self.second_s, per_decade, spreads.collect())
        };
        let (mut by, mut columns) = (1, known.clone());
        while columns.len() > self.most.cells || count_cells(&columns) > MOST_OF_HEAT {
            by *= 2;
            let parts = known.chunks(by);
            columns = parts.map(|part| merged(borrowed(part))).collect();
        }
        (step_s * by as f64, per_decade, columns)
    }

    /// Medians of the columns, us, to the width of a cell; none where too many columns have too
    /// few.
    pub(in crate::show) fn medians(&self) -> Option<Steps> {
        let fine = self.fine.as_ref()?;
        let medians: Vec<Option<f64>> = fine.heat.iter().map(median).collect();
        let known = medians.iter().flatten().count();
        let used = fine.heat.iter().flatten().count();
        self.has_medians
            .unwrap_or(known * 2 > used)
            .then_some(Steps {
                step_s: fine.step_s,
                values: medians,
            })
    }
}

/// The most cells of a heat map: a page has room for so many.
const MOST_OF_HEAT: usize = 14_000;

/// Samples of a column that its median takes: ten on either side.
const LEAST_FOR_MEDIAN: u64 = 20;

/// The median of a column, us, as if the times of a cell were spread over it.
fn median(column: &Cells) -> Option<f64> {
    let (first, counts) = column.as_ref()?;
    let all: u64 = counts.iter().fold(0, |a, b| a.saturating_add(*b));
    if all < LEAST_FOR_MEDIAN {
        return None;
    }
    let middle = all as f64 / 2.0;
    let mut below = 0.0;
    for (cell, count) in (*first..).zip(counts) {
        let count = *count as f64;
        if below + count >= middle {
            let cells = f64::from(cell) + (middle - below) / count;
            return Some(10f64.powf(cells / FINE_CELLS as f64));
        }
        below += count;
    }
    None
}

fn borrowed(columns: &[Cells]) -> impl Iterator<Item = (u32, &[u64])> {
    columns
        .iter()
        .flatten()
        .map(|(first, counts)| (*first, &counts[..]))
}

/// Cells beyond any time: a file may say anything.
const MOST_CELLS: usize = 256;

fn count_cells(columns: &[Cells]) -> usize {
    columns
        .iter()
        .flatten()
        .map(|(_, counts)| counts.len())
        .sum()
}

/// Counts of several distributions in one.
fn merged<'s>(parts: impl Iterator<Item = (u32, &'s [u64])>) -> Cells {
    let parts: Vec<(u32, &[u64])> = parts
        .filter(|(first, counts)| {
            let end = (*first as usize).saturating_add(counts.len());
            end <= MOST_CELLS && !counts.is_empty()
        })
        .collect();
    let start = parts.iter().map(|(first, _)| *first).min()?;
    let ends = parts
        .iter()
        .map(|(first, counts)| *first as usize + counts.len());
    let mut cells = vec![0u64; ends.max()? - start as usize];
    for (first, counts) in parts {
        for (cell, count) in cells[(first - start) as usize..].iter_mut().zip(counts) {
            *cell = cell.saturating_add(*count);
        }
    }
    Some((start, cells))
}

/// Outcome of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::show) enum Outcome {
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
