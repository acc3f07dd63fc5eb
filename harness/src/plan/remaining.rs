//! IDs that are left to crawl: those of the range that no earlier run of the same crawl has
//! finished, and each shard's part of them.
//!
//! Pure. Called by the plan when it is validated and split.

use std::ops::Range;

use super::{Arrivals, PlanError, RunPlan, split_point};
use crate::units::IdRange;

impl RunPlan {
    /// Return the number of IDs to crawl: those of the range without the finished ones.
    #[must_use]
    pub fn items(&self) -> u64 {
        self.ids.len()
            - self
                .finished
                .iter()
                .map(IdRange::len)
                .sum::<u64>()
                .min(self.ids.len())
    }

    /// Return the ranges of IDs to crawl, in order: all of `ids` unless some are finished.
    pub(super) fn remaining(&self) -> Vec<IdRange> {
        without(&[self.ids], &self.finished)
    }

    pub(super) fn validate_finished(&self) -> Result<(), PlanError> {
        let mut next = self.ids.start;
        for range in &self.finished {
            if range.is_empty() || range.start < next || range.end > self.ids.end {
                return Err(PlanError::Finished {
                    finished: *range,
                    ids: self.ids,
                });
            }
            next = range.end;
        }
        if self.arrivals == Arrivals::Replay && !self.finished.is_empty() {
            return Err(PlanError::FinishedReplay);
        }
        if self.items() == 0 {
            Err(PlanError::NothingLeft(self.ids))
        } else {
            Ok(())
        }
    }
}

/// Return the IDs in `ranges` that are not in `taken`, which is in order and disjoint.
pub(crate) fn without(ranges: &[IdRange], taken: &[IdRange]) -> Vec<IdRange> {
    let mut left = Vec::new();
    for range in ranges {
        let mut start = range.start;
        let first = taken.partition_point(|hole| hole.end <= range.start);
        for hole in taken[first..]
            .iter()
            .take_while(|hole| hole.start < range.end)
        {
            left.push(IdRange {
                start,
                end: hole.start,
            });
            start = hole.end;
        }
        left.push(IdRange {
            start,
            end: range.end,
        });
    }
    left.retain(|range| !range.is_empty());
    left
}

/// Return the parts `own` of `parts` of the IDs in `ranges`, which are in order and disjoint, by
/// the split laws over all of them.
pub(super) fn part(ranges: &[IdRange], parts: u64, own: Range<u64>) -> Vec<IdRange> {
    let total = ranges.iter().map(IdRange::len).sum();
    let (first, end) = (
        split_point(total, parts, own.start),
        split_point(total, parts, own.end),
    );
    let mut before = 0;
    let within = ranges.iter().map(|range| {
        let id = |rank: u64| range.start + rank.saturating_sub(before).min(range.len());
        let part = IdRange {
            start: id(first),
            end: id(end),
        };
        before += range.len();
        part
    });
    within.filter(|part| !part.is_empty()).collect()
}
