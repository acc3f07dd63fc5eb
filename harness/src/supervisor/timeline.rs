//! The run's series of seconds, merged over the shards as they report them.

use std::collections::BTreeMap;

use super::times::{Recent, ShardTimes};
use super::view::{Interval, OpenInterval, ShardSecond};
use crate::stats::{AnswerBins, Bins, Bounds, Counters, ShardStats};
use crate::wire::{IntervalFrame, OpenSecond, Scheduled, SecondFigures, WireError};

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
    /// Seconds that shards have yet to report, as they last told of them.
    open: BTreeMap<u64, BTreeMap<u32, OpenSecond>>,
    /// True if that changed since it was last taken.
    has_news: bool,
}

impl Timeline {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            pending: BTreeMap::new(),
            open: BTreeMap::new(),
            has_news: false,
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

    /// Takes what a shard tells of seconds that it has yet to report.
    pub(super) fn open(&mut self, shard: u32, seconds: Vec<OpenSecond>) {
        self.has_news = true;
        for second in seconds {
            self.open
                .entry(second.index)
                .or_default()
                .insert(shard, second);
        }
    }

    /// Return the intervals that every shard in `speaking` has reported or told of, merged, the
    /// oldest first; none when that is not new.
    pub(super) fn take_open(&mut self, speaking: &[Measuring]) -> Vec<OpenInterval> {
        if !std::mem::take(&mut self.has_news) {
            return Vec::new();
        }
        let is_known = |index: &u64, open: &BTreeMap<u32, OpenSecond>| {
            let reported = self.pending.get(index);
            let has_reported = |shard| {
                reported.is_some_and(|frames| frames.iter().any(|(reporter, _)| reporter == shard))
            };
            let mut due = speaking.iter().filter(|shard| shard.first <= *index);
            due.all(|Measuring { shard, .. }| open.contains_key(shard) || has_reported(shard))
        };
        let known = self
            .open
            .iter()
            .filter(|(index, open)| is_known(index, open));
        known
            .map(|(index, open)| self.merge_open(*index, open))
            .collect()
    }

    fn merge_open(&self, index: u64, open: &BTreeMap<u32, OpenSecond>) -> OpenInterval {
        let mut least = ShardStats::new(self.bounds);
        let reported = self
            .pending
            .get(&index)
            .map(Vec::as_slice)
            .unwrap_or_default();
        for (_, frame) in reported {
            for timing in &frame.timings {
                // One that does not decode is told when the interval is complete.
                if let Ok((times, ages)) = timing.cells(self.bounds) {
                    least.add_cells(timing.series, (&times, ages.as_ref()), &timing.exact);
                }
            }
            least
                .counters
                .merge(&frame.counters.clone().without(&frame.warmup));
        }
        for (shard, second) in open {
            if reported.iter().all(|(reporter, _)| reporter != shard) {
                second
                    .least
                    .iter()
                    .for_each(|bound| least.add_lower_bound(bound));
                least.counters.merge(&second.counters);
            }
        }
        OpenInterval { index, least }
    }

    /// Lower bounds of the times of each shard in an interval that it has yet to report.
    pub(super) fn open_recents(
        &self,
        index: u64,
    ) -> impl Iterator<Item = (u32, Option<Recent>)> + '_ {
        self.open
            .get(&index)
            .into_iter()
            .flatten()
            .map(|(shard, second)| {
                let mut own = ShardStats::new(self.bounds);
                second
                    .least
                    .iter()
                    .for_each(|bound| own.add_lower_bound(bound));
                (*shard, Recent::at_least(&own))
            })
    }

    /// The intervals that every shard in `speaking` has reported, merged, the oldest first; and
    /// whose part of one does not decode, and is left out.
    pub(super) fn take_complete(
        &mut self,
        speaking: &[Measuring],
    ) -> (Vec<Interval>, Vec<(u32, WireError)>) {
        let reported = |index: u64, frames: &[(u32, IntervalFrame)]| {
            let due = || speaking.iter().filter(|shard| shard.first <= index);
            // Counted first: mostly some are still missing, which is to cost nothing.
            frames.len() >= due().count()
                && due().all(|due| frames.iter().any(|(shard, _)| *shard == due.shard))
        };
        let complete: Vec<u64> = self
            .pending
            .iter()
            .filter(|(index, frames)| reported(**index, frames))
            .map(|(index, _)| *index)
            .collect();
        let mut junk = Vec::new();
        let taken = complete
            .into_iter()
            .filter_map(|index| Some((index, self.pending.remove(&index)?)));
        let taken: Vec<_> = taken.collect();
        for (index, _) in &taken {
            self.open.remove(index);
        }
        (
            taken
                .into_iter()
                .map(|(index, frames)| self.merge(index, frames, &mut junk))
                .collect(),
            junk,
        )
    }

    /// Create the interval of a second, to which nothing was added yet.
    pub(super) fn empty(&self, index: u64) -> Interval {
        Interval {
            figures: SecondFigures {
                index,
                ..SecondFigures::default()
            },
            merged: ShardStats::new(self.bounds),
            warmup: Counters::default(),
            scheduled: Scheduled::default(),
            answers: AnswerBins::default(),
            bins: Bins::default(),
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
        let cells = frame
            .timings
            .iter()
            .map(|timing| timing.cells(self.bounds))
            .collect::<Result<Vec<_>, _>>()?;
        let told = || frame.timings.iter().zip(&cells);
        for (timing, (times, ages)) in told() {
            interval
                .merged
                .add_cells(timing.series, (times, ages.as_ref()), &timing.exact);
        }
        let recent = Recent::told(self.bounds, told());
        interval.merged.counters.merge(&frame.counters);
        interval.warmup.merge(&frame.warmup);
        interval.scheduled.merge(&frame.scheduled);
        interval.figures.add(&frame.figures);
        interval.answers.merge(&frame.answers);
        interval.bins.merge(&frame.bins);
        interval.seconds.push(ShardSecond {
            shard,
            attempts: frame.counters.requests.attempts,
            max_sched_lag_ns: frame.figures.max_sched_lag_ns,
            cpu_us: frame.figures.cpu_us,
        });
        interval.shards.push((
            shard,
            ShardTimes {
                told: frame.timings,
                recent,
            },
        ));
        Ok(())
    }
}
