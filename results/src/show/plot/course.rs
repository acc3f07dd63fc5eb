//! Throughput and response times of a run in the short steps of its course: a stall is a hole, and
//! the burst after it a peak.

use super::answers;
use super::cells::{Cell, Levels, SHARES};
use super::over_time::OverTime;
use super::seconds::{Seconds, TimeAxis};
use crate::run::report::{Course, HeatColumn, IntervalRow, Report};
use crate::show::chart::{
    Axis, Chart, Dash, Face, Format, Mark, Note, Panel, Range, Role, Shape, Step, short,
};

/// The most columns of areas, two pixels each, and of a heat map, four pixels each.
const AREAS: usize = 280;
const HEAT: usize = 140;

/// The part of the columns that an axis shows whole, and how much higher than these a peak has to be
/// to be clipped.
const WHOLE: f64 = 0.98;
const PEAK: f64 = 2.5;

/// Air above the highest column that is shown whole.
const AIR: f64 = 1.3;

/// Responses of a column from which on it has a median.
const FOR_MEDIAN: u64 = 20;

/// Counts of a course by outcome, from the bottom of the stack.
type Outcome = (&'static str, Role, fn(&Course) -> &[u64]);

const OUTCOMES: [Outcome; 4] = [
    ("good", Role::Good, |it| &it.good),
    ("not found", Role::NotFound, |it| &it.not_found),
    ("throttled", Role::Throttled, |it| &it.throttled),
    ("failed or cut off", Role::Failed, |it| &it.failed),
];

/// A course, some of whose columns are one.
struct Columns<'a> {
    course: &'a Course,
    /// Columns in one.
    each: usize,
    axis: TimeAxis,
    end_s: f64,
}

impl<'a> Columns<'a> {
    /// None of a run without a course.
    fn of(report: &'a Report, most: usize) -> Option<Self> {
        let course = report.course.as_ref()?;
        let axis = TimeAxis::of([report]);
        let is_known = course.step_ms > 0 && !course.good.is_empty();
        is_known.then(|| Self {
            course,
            each: course.good.len().div_ceil(most).max(1),
            axis,
            end_s: Seconds::of(report, axis).end_s,
        })
    }

    /// Start and end of a column, s.
    fn ends(&self, column: usize) -> [f64; 2] {
        let step_ms = self.course.step_ms * self.each as u64;
        let from_ms = self.course.start_ms + column as u64 * step_ms;
        [from_ms, from_ms + step_ms].map(|ms| (ms as f64 / 1e3).min(self.end_s))
    }

    /// Counts as rates, on top of those below them.
    fn rates(&self, counts: &[u64], tops: &mut Vec<f64>) -> Vec<Step> {
        let columns = counts.chunks(self.each).enumerate();
        let mut steps = Vec::new();
        for (n, counts) in columns {
            let [from, to] = self.ends(n);
            tops.resize(tops.len().max(n + 1), 0.0);
            let whole_s = self.course.step_ms as f64 * counts.len() as f64 / 1e3;
            let per_s = counts.iter().sum::<u64>() as f64 / whole_s;
            steps.push(Step {
                from: self.axis.at(from),
                to: self.axis.at(to),
                value: (from < to).then_some(per_s),
                base: tops[n],
            });
            tops[n] += per_s;
        }
        steps
    }
}

/// The counts of the responses of a column, from cell 0 on.
fn counts(column: &[Option<HeatColumn>]) -> Vec<u64> {
    let mut counts: Vec<u64> = Vec::new();
    for one in column.iter().flatten() {
        let first = one.first.min(LAST_CELL) as usize;
        counts.resize(counts.len().max(first + one.counts.len()), 0);
        for (all, one) in counts[first..].iter_mut().zip(&one.counts) {
            *all += one;
        }
    }
    counts
}

/// No file has a cell above this one.
const LAST_CELL: u32 = 1_000;

/// Throughput by outcome; none without a course.
pub(super) fn throughput(report: &Report) -> Option<Chart> {
    let columns = Columns::of(report, AREAS)?;
    let mut chart = OverTime::named("throughput")?.chart(report)?;
    let panel = chart.panels.first_mut()?;
    let mut tops = Vec::new();
    let mut areas = Vec::new();
    for (name, role, counts) in OUTCOMES {
        let steps = columns.rates(counts(columns.course), &mut tops);
        areas.push(Mark::new(role, name, Shape::Areas(steps)));
    }
    areas.retain(Mark::is_above_zero);
    panel
        .marks
        .retain(|mark| !matches!(mark.shape, Shape::Areas(_)));
    areas.append(&mut panel.marks);
    panel.marks = areas;
    clip(panel, &columns, &tops);
    Some(chart)
}

/// End the axis above the columns that are not peaks, and say how high those are.
fn clip(panel: &mut Panel, columns: &Columns<'_>, tops: &[f64]) {
    let mut sorted = tops.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a place among the columns"
    )]
    let high = sorted
        .get((sorted.len() as f64 * WHOLE) as usize)
        .copied()
        .unwrap_or(0.0)
        * AIR;
    let Some((column, most)) = tops
        .iter()
        .copied()
        .enumerate()
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
    else {
        return;
    };
    if high > 0.0 && most > high / AIR * PEAK {
        panel.y.range = Range::Between(0.0, high);
        let at = (columns.axis.at(columns.ends(column)[0]), f64::INFINITY);
        let note = Note::new(format!("▲ {}", short(most)), at, [-4.0, 12.0]);
        panel
            .marks
            .push(Mark::notes(vec![note.of(Role::Good, Face::Value)]));
    }
}

/// Response times as a heat map, with the median of each column and the 99th percentile of each
/// second; none without a course, or a response.
pub(super) fn latency(report: &Report) -> Option<Chart> {
    let columns = Columns::of(report, HEAT)?;
    let cells: Vec<Vec<u64>> = columns
        .course
        .heat
        .chunks(columns.each)
        .map(counts)
        .collect();
    let longest = cells.iter().map(Vec::len).max()?;
    let first =
        (0..longest).find(|n| cells.iter().any(|of| of.get(*n).is_some_and(|it| *it > 0)))?;
    let [low, high] =
        [first.saturating_sub(1), longest].map(|n| u32::try_from(n).unwrap_or(LAST_CELL));
    let mut levels = Levels::default();
    for cell in low..high {
        let mut row = Vec::new();
        for (n, counts) in cells.iter().enumerate() {
            let count = counts.get(cell as usize).copied().unwrap_or(0);
            let [from_s, to_s] = columns.ends(n);
            if count > 0 && from_s < to_s {
                let value = count as f64 / counts.iter().sum::<u64>() as f64;
                row.push(Cell {
                    from_s,
                    to_s,
                    value,
                });
            }
        }
        let y = [cell, cell + 1].map(HeatColumn::starts_us);
        levels.add(&row, y, &SHARES, columns.axis);
    }
    let mut marks = levels.marks();
    marks.extend(medians(&columns, &cells));
    marks.extend(tails(report, &columns));
    let others = OverTime::named("latency")
        .and_then(|it| it.chart(report))
        .into_iter()
        .flat_map(|chart| chart.panels)
        .next()
        .into_iter()
        .flat_map(|panel| panel.marks);
    marks.extend(others.filter(|mark| matches!(mark.shape, Shape::Across(_) | Shape::Upright(_))));
    let range = Range::LogBetween(HeatColumn::starts_us(low), HeatColumn::starts_us(high));
    let panel = Panel {
        x: columns.axis.axis(),
        y: Axis::new("", range, Format::Micros),
        height: 240.0,
        marks,
        cells: Vec::new(),
    };
    let title = "Latency over time";
    Some(answers::chart(
        ["latency", title],
        answers::heat,
        report,
        vec![panel],
    ))
}

/// The median of each column that has enough responses, on a casing of paper.
fn medians(columns: &Columns<'_>, cells: &[Vec<u64>]) -> [Mark; 2] {
    let steps = cells.iter().enumerate().map(|(n, counts)| {
        let [from, to] = columns.ends(n).map(|s| columns.axis.at(s));
        let value = median_us(counts).filter(|_| from < to);
        Step {
            from,
            to,
            value,
            base: 0.0,
        }
    });
    let line = Shape::Steps(steps.collect());
    [
        Mark::new(Role::Casing, "", line.clone()).wide(4.5),
        Mark::new(Role::Reference, "p50", line).wide(2.0),
    ]
}

/// The middle one of a column's responses, us, between the ends of its cell.
fn median_us(counts: &[u64]) -> Option<f64> {
    let all: u64 = counts.iter().sum();
    if all < FOR_MEDIAN {
        return None;
    }
    let (middle, mut below) = (all as f64 / 2.0, 0.0);
    for (cell, count) in (0_u32..).zip(counts) {
        let count = *count as f64;
        if below + count >= middle {
            let [low, high] = [cell, cell + 1].map(HeatColumn::starts_us);
            return Some(low * (high / low).powf((middle - below) / count));
        }
        below += count;
    }
    None
}

/// The 99th percentile of each second that has one.
fn tails(report: &Report, columns: &Columns<'_>) -> Option<Mark> {
    let of = |row: &IntervalRow| {
        let us = row.response_p99_us.or(row.p99_us);
        us.filter(|us| *us > 0.0)
    };
    let steps: Vec<Step> = report
        .intervals
        .iter()
        .map(|row| {
            let [from, to] = [row.start_s, row.start_s + 1]
                .map(|s| (s as f64).min(columns.end_s))
                .map(|s| columns.axis.at(s));
            Step {
                from,
                to,
                value: of(row).filter(|_| from < to),
                base: 0.0,
            }
        })
        .collect();
    let is_short = steps.len() <= AREAS && steps.iter().any(|step| step.value.is_some());
    is_short.then(|| {
        Mark::new(Role::Reference, "p99", Shape::Steps(steps))
            .dashed(Dash::Dashed)
            .wide(1.75)
    })
}
