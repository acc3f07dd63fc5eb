//! Course of a run over time, in few enough columns to be saved of a run of any length: of all shards
//! in columns from 20 ms on, and of each shard in seconds.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Event, IntervalRow};
use crawlmark_harness::stats::{CELLS, CELLS_PER_DECADE, STEPS, StepCounts};
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::units::place;

/// The most columns of a course: as many as a wide plot can show.
const MOST_COLUMNS: usize = 600;

/// The most steps that are kept while a run goes on: as many as five columns of each take.
const MOST_STEPS: usize = 5 * MOST_COLUMNS;

/// Steps that become one when there are too many.
const FOLD: usize = 10;

/// Time without any from which on what happens is another period, s.
const APART_S: f64 = 0.5;

/// The most periods that are told apart: more are a part of the run, whose charts show them.
const MOST_PERIODS: usize = 20;

/// Length of a step, ms.
const STEP_MS: u64 = 1_000 / STEPS as u64;

/// Course of a run. All columns are equally long, and there are at most 600.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Course {
    /// Start of the first column since the common start, ms: 0 but of a part of a run.
    pub start_ms: u64,
    /// Length of a column, ms: the shortest of 20, 40, 100, 200, 400, 1,000 and so on.
    pub step_ms: u64,
    /// Good answers by when they ended.
    pub good: Vec<u64>,
    /// Answers by when they ended that the target has no such item.
    pub not_found: Vec<u64>,
    /// Throttled answers by when they ended.
    pub throttled: Vec<u64>,
    /// Requests that were rejected, challenged, without a valid answer, or cut off, by when.
    pub failed: Vec<u64>,
    /// The most requests under way at once, at least: the sum over the shards of their greatest
    /// numbers within 20 ms.
    pub in_flight: Vec<u64>,
    /// Times of good and not-found answers by when they were due: response times in an open loop,
    /// service times in a closed one. Null where there was none.
    pub heat: Vec<Option<HeatColumn>>,
}

/// Number of times by cell, of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatColumn {
    /// The number of the first cell that has any. Cell `n` holds from 10^(n/16) to below
    /// 10^((n+1)/16) us; cell 0 what was faster as well, and cell 143 what was slower.
    pub first: u32,
    /// Number of times in it and in each cell above, up to the last that has any.
    pub counts: Vec<u64>,
}

impl HeatColumn {
    /// The least time of a cell, us.
    pub fn starts_us(cell: u32) -> f64 {
        10f64.powf(f64::from(cell) / CELLS_PER_DECADE as f64)
    }

    fn of(cells: &BTreeMap<usize, u64>) -> Option<Self> {
        let (first, last) = (*cells.first_key_value()?.0, *cells.last_key_value()?.0);
        let mut counts = vec![0; last - first + 1];
        for (cell, count) in cells {
            counts[cell - first] = *count;
        }
        Some(Self {
            first: u32::try_from(first).unwrap_or(u32::MAX),
            counts,
        })
    }
}

impl Course {
    /// True if a run of at most `longest_ms` can have it, as what is read of a file has to be.
    pub(crate) fn is_possible(&self, longest_ms: u64) -> bool {
        let columns = self.good.len();
        let counts = [&self.not_found, &self.throttled, &self.failed];
        let are_equal = [&self.in_flight]
            .into_iter()
            .chain(counts)
            .all(|all| all.len() == columns);
        let mut heat = self.heat.iter().flatten();
        columns <= MOST_COLUMNS
            && are_equal
            && self.heat.len() == columns
            && heat.all(|of| of.first as usize <= CELLS && of.counts.len() <= CELLS)
            && (1..=longest_ms).contains(&self.step_ms)
            && self.start_ms <= longest_ms
    }

    /// Start of a column, in seconds since that of the run.
    fn start_s(&self, column: usize) -> f64 {
        (self.start_ms + self.step_ms * column as u64) as f64 / 1e3
    }

    /// Times in which there were any of these counts; none if they are most of it, or too many.
    pub(crate) fn periods(&self, counts: &[u64]) -> Vec<Event> {
        let apart_s = APART_S.max(self.start_s(2) - self.start_s(0));
        let mut periods: Vec<Event> = Vec::new();
        for (column, _) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (from_s, to_s) = (self.start_s(column), self.start_s(column + 1));
            match periods.last_mut() {
                Some(last) if from_s - last.to_s < apart_s => last.to_s = to_s,
                _ => periods.push(Event { from_s, to_s }),
            }
        }
        let total_s: f64 = periods.iter().map(Event::length_s).sum();
        if periods.len() > MOST_PERIODS
            || total_s > (self.start_s(counts.len()) - self.start_s(0)) / 2.0
        {
            periods.clear();
        }
        periods
    }

    /// The part from one second to another: the columns that are in it.
    pub(crate) fn part(&self, from_s: u64, to_s: u64) -> Self {
        let step_ms = self.step_ms.max(1);
        let [first, end] = [from_s, to_s.max(from_s)].map(|s| {
            let at = (s * 1_000).saturating_sub(self.start_ms).div_ceil(step_ms);
            usize::try_from(at)
                .unwrap_or(usize::MAX)
                .min(self.good.len())
        });
        Self {
            start_ms: self.start_ms + first as u64 * step_ms,
            step_ms,
            good: self.good[first..end].to_vec(),
            not_found: self.not_found[first..end].to_vec(),
            throttled: self.throttled[first..end].to_vec(),
            failed: self.failed[first..end].to_vec(),
            in_flight: self.in_flight[first..end].to_vec(),
            heat: self.heat[first..end].to_vec(),
        }
    }
}

/// Seconds of a run as they come: a row of each, and the course of all of them.
#[derive(Debug, Clone, Default)]
pub struct Seconds {
    /// Each of them, in the order in which they came.
    pub rows: Vec<IntervalRow>,
    /// Steps of the run, each so many of 20 ms as `scale` says.
    steps: Vec<Step>,
    scale: usize,
    /// The first second that the steps are of.
    from_s: u64,
}

/// What happened in a step.
#[derive(Debug, Clone, Default)]
struct Step {
    counts: StepCounts,
    times: BTreeMap<usize, u64>,
}

impl Step {
    fn is_empty(&self) -> bool {
        self.counts == StepCounts::default() && self.times.is_empty()
    }

    /// Add a step that follows: what was in flight in it was not in addition.
    fn append(&mut self, next: &Self) {
        let in_flight = self.counts.in_flight.max(next.counts.in_flight);
        self.counts.merge(&next.counts);
        self.counts.in_flight = in_flight;
        for (cell, count) in &next.times {
            let sum = self.times.entry(*cell).or_default();
            *sum = sum.saturating_add(*count);
        }
    }
}

fn folded(steps: &[Step], by: usize) -> Vec<Step> {
    steps
        .chunks(by)
        .map(|parts| {
            let mut column = Step::default();
            for part in parts {
                column.append(part);
            }
            column
        })
        .collect()
}

impl Seconds {
    /// Seconds of a run that goes on, of which `shown_s` are shown in the end: in the steps of that
    /// course, of `least_ms` at least, so that what was shown of a second stays as it is.
    pub(crate) fn shown(shown_s: f64, least_ms: u64) -> Self {
        let least_ms = (shown_s * 1e3 / MOST_COLUMNS as f64).max(least_ms as f64);
        let mut scales = (0..15).flat_map(|n| [1, 2, 5].map(|by| by * FOLD.pow(n)));
        Self {
            scale: scales
                .find(|scale| (STEP_MS * *scale as u64) as f64 >= least_ms)
                .unwrap_or(1),
            ..Self::default()
        }
    }

    /// Add a second, and return its row.
    pub fn add(&mut self, interval: &Interval) -> &mut IntervalRow {
        self.add_steps(interval);
        self.rows.push(IntervalRow::new(interval));
        let last = self.rows.len() - 1;
        &mut self.rows[last]
    }

    fn add_steps(&mut self, interval: &Interval) {
        let Some(index) = interval.index.checked_sub(self.from_s) else {
            return;
        };
        let begin = usize::try_from(index).unwrap_or(usize::MAX / STEPS) * STEPS;
        self.scale = self.scale.max(1);
        while (begin + STEPS).div_ceil(self.scale) > MOST_STEPS {
            self.steps = folded(&self.steps, FOLD);
            self.scale *= FOLD;
        }
        let mut own = vec![Step::default(); STEPS];
        for (step, counts) in own.iter_mut().zip(interval.course.steps()) {
            step.counts = counts;
        }
        for (step, cell, count) in interval.course.times() {
            own[step].times.insert(cell.min(CELLS - 1), count);
        }
        for (at, step) in (begin..).zip(&own) {
            let at = at / self.scale;
            if self.steps.len() <= at {
                self.steps.resize(at + 1, Step::default());
            }
            self.steps[at].append(step);
        }
    }

    /// Forget the steps before a second, if a second has some of its own.
    pub(crate) fn forget_before(&mut self, second: u64) {
        let (seconds, scale) = (second.saturating_sub(self.from_s), self.scale.max(1));
        if STEPS.is_multiple_of(scale) && seconds > 0 {
            let steps = usize::try_from(seconds).unwrap_or(usize::MAX / STEPS) * STEPS / scale;
            self.steps.drain(..steps.min(self.steps.len()));
            self.from_s = second;
        }
    }

    /// The course of a run of so many seconds; none without one.
    pub(crate) fn course(&self, duration_s: f64) -> Option<Course> {
        self.course_in_steps(duration_s, |length| {
            [1, 2, 5]
                .into_iter()
                .find(|by| length.div_ceil(*by) <= MOST_COLUMNS)
                .unwrap_or(FOLD)
        })
    }

    /// The course of so many seconds in the steps that are kept.
    pub(crate) fn course_so_far(&self, shown_s: f64) -> Option<Course> {
        self.course_in_steps(shown_s, |_| 1)
    }

    /// The course in steps that are the more of those that are kept as `together` says, of so many.
    fn course_in_steps(
        &self,
        duration_s: f64,
        together: impl Fn(usize) -> usize,
    ) -> Option<Course> {
        let known = self.steps.iter().rposition(|step| !step.is_empty())? + 1;
        let step_ms = STEP_MS * self.scale as u64;
        let lasted = place((duration_s * 1e3 / step_ms as f64).ceil());
        let length = known.max(lasted).min(self.steps.len());
        let by = together(length);
        let steps = &self.steps[..length];
        let columns: Cow<'_, [Step]> = match by {
            1 => steps.into(),
            by => folded(steps, by).into(),
        };
        let count = |of: fn(&StepCounts) -> u64| columns.iter().map(|it| of(&it.counts)).collect();
        Some(Course {
            start_ms: self.from_s * 1_000,
            step_ms: step_ms * by as u64,
            good: count(|it| it.good),
            not_found: count(|it| it.not_found),
            throttled: count(|it| it.throttled),
            failed: count(|it| it.failed),
            in_flight: count(|it| it.in_flight),
            heat: columns.iter().map(|it| HeatColumn::of(&it.times)).collect(),
        })
    }
}

impl<'a> FromIterator<&'a Interval> for Seconds {
    fn from_iter<T: IntoIterator<Item = &'a Interval>>(intervals: T) -> Self {
        let mut seconds = Self::default();
        for interval in intervals {
            seconds.add(interval);
        }
        seconds
    }
}

/// Course of a shard over time, by columns. Null where it reported nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct ShardCourse {
    /// Seconds in a step; 0 without a step.
    pub step_s: u64,
    /// Attempts.
    pub attempts: Vec<Option<u64>>,
    /// The greatest lateness.
    pub max_sched_lag_us: Vec<Option<f64>>,
    /// CPU, user and system.
    pub cpu_us: Vec<Option<u64>>,
}

/// Takes what the seconds know of each shard out of them.
pub(super) fn take(rows: &mut [IntervalRow]) -> BTreeMap<u32, ShardCourse> {
    let seconds = rows.last().map_or(0, |row| row.start_s + 1);
    let step_s = seconds.div_ceil(MOST_COLUMNS as u64).max(1);
    let length = usize::try_from(seconds.div_ceil(step_s)).unwrap_or(0);
    let mut courses: BTreeMap<u32, ShardCourse> = BTreeMap::new();
    for row in rows {
        let at = usize::try_from(row.start_s / step_s).unwrap_or(usize::MAX);
        for second in std::mem::take(&mut row.shards) {
            let course = courses
                .entry(second.shard)
                .or_insert_with(|| ShardCourse::empty(step_s, length));
            let lag_us = second.max_sched_lag_ns as f64 / 1e3;
            merge(&mut course.attempts, at, second.attempts, |a, b| a + b);
            merge(&mut course.max_sched_lag_us, at, lag_us, f64::max);
            merge(&mut course.cpu_us, at, second.cpu_us, |a, b| a + b);
        }
    }
    courses
}

impl ShardCourse {
    fn empty(step_s: u64, length: usize) -> Self {
        Self {
            step_s,
            attempts: vec![None; length],
            max_sched_lag_us: vec![None; length],
            cpu_us: vec![None; length],
        }
    }
}

fn merge<T: Copy>(column: &mut [Option<T>], at: usize, value: T, how: impl Fn(T, T) -> T) {
    if let Some(cell) = column.get_mut(at) {
        *cell = Some(cell.map_or(value, |before| how(before, value)));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crawlmark_harness::stats::{Bounds, ShardStats};
    use crawlmark_harness::supervisor::{Interval, ShardSecond};
    use crawlmark_harness::wire::SecondFigures;

    fn row(index: u64, seconds: Vec<ShardSecond>) -> IntervalRow {
        IntervalRow::new(&Interval {
            figures: SecondFigures {
                index,
                ..SecondFigures::default()
            },
            merged: ShardStats::new(Bounds::for_timeout(Duration::from_secs(1))),
            shards: Vec::new(),
            seconds,
        })
    }

    /// A second in which as many requests as its number says were good in one step, and were in
    /// flight and took a time of a cell of that number.
    fn interval(index: u64, step: usize, number: u64) -> Interval {
        let mut steps = vec![StepCounts::default(); STEPS];
        (steps[step].good, steps[step].in_flight) = (number, number);
        let course = json!({"steps": steps, "times": [[(step * CELLS) as u64 + number, number]]});
        Interval {
            figures: SecondFigures {
                index,
                course: serde_json::from_value(course).unwrap(),
                ..SecondFigures::default()
            },
            merged: ShardStats::new(Bounds::for_timeout(Duration::from_secs(1))),
            shards: Vec::new(),
            seconds: Vec::new(),
        }
    }

    proptest! {
        #[test]
        fn a_course_of_any_length_is_that_of_its_steps_in_any_order(
            seconds in prop::collection::vec((0..1_u64 << 22, 0..22, 0..STEPS, 1..99_u64), 1..12), cut in 0..12_usize,
        ) {
            let mut seconds: Vec<(u64, usize, u64)> = seconds
                .into_iter()
                .map(|(index, shift, step, number)| (index >> shift, step, number))
                .collect();
            let all = |seconds: &[(u64, usize, u64)]| {
                let intervals: Vec<_> = seconds.iter().map(|it| interval(it.0, it.1, it.2)).collect();
                intervals.iter().collect::<Seconds>().course(0.0).unwrap()
            };
            let course = all(&seconds);
            let end_ms = seconds.iter().map(|(index, step, _)| index * 1_000 + *step as u64 * STEP_MS + STEP_MS).max().unwrap();
            let columns = |ms: u64| end_ms.div_ceil(ms);
            prop_assert_eq!(course.good.len() as u64, columns(course.step_ms));
            prop_assert!(course.good.len() <= MOST_COLUMNS, "{}", course.good.len());
            let shorter = course.step_ms * 2 / if course.step_ms.to_string().starts_with('1') { 5 } else { 4 };
            prop_assert!(course.step_ms == STEP_MS || columns(shorter) > MOST_COLUMNS as u64, "{}", course.step_ms);
            for (at, good) in course.good.iter().enumerate() {
                let own = seconds.iter().filter(|(index, step, _)| (index * 1_000 + *step as u64 * STEP_MS) / course.step_ms == at as u64);
                prop_assert_eq!(own.clone().map(|it| it.2).sum::<u64>(), *good);
                prop_assert_eq!(own.clone().map(|it| it.2).max().unwrap_or(0), course.in_flight[at]);
                for (cell, count) in course.heat[at].iter().flat_map(|heat| (u64::from(heat.first)..).zip(&heat.counts)) {
                    prop_assert_eq!(own.clone().filter(|it| it.2 == cell).map(|it| it.2).sum::<u64>(), *count);
                }
            }
            let at = cut.min(seconds.len());
            seconds.rotate_left(at);
            prop_assert_eq!(all(&seconds), course);
        }
    }

    fn second(shard: u32, attempts: u64) -> ShardSecond {
        ShardSecond {
            shard,
            attempts,
            max_sched_lag_ns: attempts * 1_000,
            max_loop_lag_ns: 0,
            cpu_us: 2 * attempts,
        }
    }

    #[test]
    fn a_shard_that_says_nothing_has_a_gap() {
        let mut rows = vec![
            row(0, vec![second(0, 5), second(1, 7)]),
            row(2, vec![second(0, 6)]),
        ];
        let courses = take(&mut rows);
        assert_eq!(courses[&0].attempts, [Some(5), None, Some(6)]);
        assert_eq!(courses[&1].cpu_us, [Some(14), None, None]);
        assert!(rows.iter().all(|row| row.shards.is_empty()));
    }

    #[test]
    fn a_long_run_is_gathered_and_loses_nothing() {
        let mut rows: Vec<_> = (0..3_601)
            .map(|index| row(index, vec![second(0, index)]))
            .collect();
        let course = take(&mut rows).remove(&0).unwrap();
        assert_eq!((course.step_s, course.attempts.len()), (7, 515));
        assert_eq!(
            course.attempts.iter().flatten().sum::<u64>(),
            3_600 * 3_601 / 2
        );
        assert_eq!(course.max_sched_lag_us[0], Some(6.0));
    }
}
