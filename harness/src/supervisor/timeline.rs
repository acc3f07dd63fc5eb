//! The run's series of seconds, merged over the shards as they report them.

use std::collections::BTreeMap;

use super::times::{Recent, ShardTimes};
use super::view::{Interval, ShardSecond};
use crate::stats::{Bounds, ShardStats};
use crate::wire::{EncodedStats, IntervalFrame, SecondFigures, WireError};

/// A shard that has more seconds to report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measuring {
    pub(super) shard: u32,
    /// The index of the first of its process.
    pub(super) first: u64,
}

/// Intervals that some shard has yet to report.
#[derive(Debug)]
pub(super) struct Timeline {
    bounds: Bounds,
    pending: BTreeMap<u64, Vec<(u32, IntervalFrame)>>,
    /// Counts of shards that died, of seconds that they did not report. They complete none: another
    /// process may report the same second for the shard.
    rests: BTreeMap<u64, Vec<(u32, IntervalFrame)>>,
}

impl Timeline {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            pending: BTreeMap::new(),
            rests: BTreeMap::new(),
        }
    }

    /// True if every interval that was reported has been taken.
    pub(super) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Takes what a shard reports.
    pub(super) fn add(&mut self, shard: u32, frame: IntervalFrame) {
        self.pending
            .entry(frame.figures.index)
            .or_default()
            .push((shard, frame));
    }

    /// Takes what a shard that died had counted in a second that it did not report.
    pub(super) fn add_rest(&mut self, shard: u32, frame: IntervalFrame) {
        let index = frame.figures.index;
        self.pending.entry(index).or_default();
        self.rests.entry(index).or_default().push((shard, frame));
    }

    /// A process begins in second `first` in the place of one of `shard` that died, and reports that
    /// second, too: the report of the other one does not complete it.
    pub(super) fn begin_again(&mut self, shard: u32, first: u64) {
        for (index, frames) in self.pending.range_mut(first..) {
            let rests = frames.extract_if(.., |(reporter, _)| *reporter == shard);
            self.rests.entry(*index).or_default().extend(rests);
        }
    }

    /// The intervals before second `until` that every shard in `speaking` has reported, merged, the
    /// oldest first; and whose part of one does not decode, and is left out.
    pub(super) fn take_complete(
        &mut self,
        speaking: &[Measuring],
        until: u64,
    ) -> (Vec<Interval>, Vec<(u32, WireError)>) {
        let complete: Vec<u64> = self
            .pending
            .range(..until)
            .filter(|(index, frames)| is_reported(**index, frames, speaking))
            .map(|(index, _)| *index)
            .collect();
        let mut junk = Vec::new();
        let taken: Vec<_> = complete
            .into_iter()
            .filter_map(|index| Some((index, self.pending.remove(&index)?)))
            .collect();
        let mut intervals = Vec::new();
        for (index, mut frames) in taken {
            frames.extend(self.rests.remove(&index).unwrap_or_default());
            intervals.push(self.merge(index, frames, &mut junk));
        }
        (intervals, junk)
    }

    /// Create the interval of a second, to which nothing was added yet.
    pub(super) fn empty(&self, index: u64) -> Interval {
        Interval {
            figures: SecondFigures {
                index,
                ..SecondFigures::default()
            },
            merged: ShardStats::new(self.bounds),
            shards: Vec::new(),
            seconds: Vec::new(),
        }
    }

    fn merge(
        &self,
        index: u64,
        frames: Vec<(u32, IntervalFrame)>,
        junk: &mut Vec<(u32, WireError)>,
    ) -> Interval {
        let mut interval = self.empty(index);
        for (shard, frame) in frames {
            if let Err(error) = self.add_shard(&mut interval, shard, frame) {
                junk.push((shard, error));
            }
        }
        interval
    }

    /// Adds a shard's part, all of it or, when that does not decode, nothing. Many shards have few
    /// answers each in a second: no histogram is made of them but the one that they are merged in.
    ///
    /// # Errors
    /// When a histogram of it does not decode.
    pub(super) fn add_shard(
        &self,
        interval: &mut Interval,
        shard: u32,
        frame: IntervalFrame,
    ) -> Result<(), WireError> {
        let EncodedStats {
            counters, timings, ..
        } = frame.stats;
        let cells = timings
            .iter()
            .map(|timing| timing.cells(self.bounds))
            .collect::<Result<Vec<_>, _>>()?;
        let told = timings.iter().zip(&cells);
        for (timing, (times, ages)) in told.clone() {
            interval
                .merged
                .add_cells(timing.series, times, ages.as_ref(), &timing.exact);
        }
        let recent = Recent::told(self.bounds, told);
        interval.merged.counters.merge(&counters);
        interval.figures.add(&frame.figures);
        interval.seconds.push(ShardSecond {
            shard,
            attempts: counters.requests.attempts,
            max_sched_lag_ns: frame.figures.max_sched_lag_ns,
            max_loop_lag_ns: frame.figures.max_loop_lag_ns,
            cpu_us: frame.figures.cpu_us,
        });
        interval.shards.push((
            shard,
            ShardTimes {
                told: timings,
                recent,
            },
        ));
        Ok(())
    }
}

/// True if every shard in `speaking` that has second `index` reported it.
fn is_reported(index: u64, frames: &[(u32, IntervalFrame)], speaking: &[Measuring]) -> bool {
    let mut due = speaking.iter().filter(|shard| shard.first <= index);
    // Counted first: mostly some are still missing, which is to cost nothing.
    frames.len() >= due.clone().count()
        && due.all(|due| frames.iter().any(|(shard, _)| *shard == due.shard))
}
