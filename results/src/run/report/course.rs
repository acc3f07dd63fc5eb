//! Course of each shard over time, in few enough steps to be saved for every shard of a long run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::IntervalRow;

/// The most steps of a course: as many as a wide plot can show.
const MOST_STEPS: u64 = 600;

/// Course of a shard over time, by columns. Null where it reported nothing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Course {
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
pub(super) fn take(rows: &mut [IntervalRow]) -> BTreeMap<u32, Course> {
    let seconds = rows.last().map_or(0, |row| row.start_s + 1);
    let step_s = seconds.div_ceil(MOST_STEPS).max(1);
    let length = usize::try_from(seconds.div_ceil(step_s)).unwrap_or(0);
    let mut courses: BTreeMap<u32, Course> = BTreeMap::new();
    for row in rows {
        let at = usize::try_from(row.start_s / step_s).unwrap_or(usize::MAX);
        for second in std::mem::take(&mut row.shards) {
            let course = courses
                .entry(second.shard)
                .or_insert_with(|| Course::empty(step_s, length));
            let lag_us = second.max_sched_lag_ns as f64 / 1e3;
            merge(&mut course.attempts, at, second.attempts, |a, b| a + b);
            merge(&mut course.max_sched_lag_us, at, lag_us, f64::max);
            merge(&mut course.cpu_us, at, second.cpu_us, |a, b| a + b);
        }
    }
    courses
}

impl Course {
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

    fn second(shard: u32, attempts: u64) -> ShardSecond {
        ShardSecond {
            shard,
            attempts,
            max_sched_lag_ns: attempts * 1_000,
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
