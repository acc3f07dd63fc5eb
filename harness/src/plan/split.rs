//! Splits: parts of a number, and of ranges of IDs. Pure.

use std::ops::Range;

use crate::units::IdRange;

/// Return the start of part `i` of `total` over `parts`; `i == parts` gives the end of the last
/// part.
///
/// `parts` of 0 counts as 1.
pub fn split_point(total: u64, parts: u64, i: u64) -> u64 {
    let point = u128::from(i) * u128::from(total) / u128::from(parts.max(1));
    u64::try_from(point).unwrap_or(u64::MAX)
}

/// The size of part `i` of `total` over `parts`.
pub fn split_share(total: u64, parts: u64, i: u64) -> u64 {
    split_point(total, parts, i + 1) - split_point(total, parts, i)
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
pub(super) fn part_of(ranges: &[IdRange], parts: u64, own: Range<u64>) -> Vec<IdRange> {
    let total = ranges.iter().map(IdRange::len).sum();
    let ends = [own.start, own.end].map(|part| split_point(total, parts, part));
    let mut before = 0;
    let mut parts_of_ranges = Vec::new();
    for range in ranges {
        let [start, end] =
            ends.map(|rank| range.start + rank.saturating_sub(before).min(range.len()));
        let part = IdRange { start, end };
        if !part.is_empty() {
            parts_of_ranges.push(part);
        }
        before += range.len();
    }
    parts_of_ranges
}
