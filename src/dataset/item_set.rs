//! Set of items, as ranges: those of a shard that ended are one range with a hole for each that is
//! in flight or waiting.
//!
//! Called for each record. It must not know what an item is.

use std::collections::BTreeMap;

use crawlmark_harness::units::IdRange;
use serde::{Deserialize, Serialize};

/// Set of items. Its size in memory is that of its ranges.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "Vec<(u64, u64)>", try_from = "Vec<(u64, u64)>")]
pub struct ItemSet {
    /// End of each range, by its start; no two of them overlap or touch.
    ranges: BTreeMap<u64, u64>,
    /// Number of items.
    len: u64,
}

impl ItemSet {
    /// Return the number of items.
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// True if the set has no item.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Return the ranges, sorted; no two of them overlap or touch.
    pub fn ranges(&self) -> impl Iterator<Item = IdRange> {
        self.ranges.iter().map(|(start, end)| IdRange {
            start: *start,
            end: *end,
        })
    }

    /// Add a range that is disjoint from the set.
    ///
    /// # Errors
    /// When it is not: with one item that both have. The set is as before.
    pub fn add(&mut self, range: IdRange) -> Result<(), u64> {
        let IdRange { mut start, mut end } = range;
        if range.is_empty() {
            return Ok(());
        }
        if let Some(common) = self.common(range).next() {
            return Err(common.start);
        }
        self.len += range.len();
        if let Some(after_end) = self.ranges.remove(&end) {
            end = after_end;
        }
        // The range before ends where this one begins, or earlier.
        let before = self
            .ranges
            .range(..start)
            .next_back()
            .filter(|(_, end)| **end == start);
        start = before.map_or(start, |(before, _)| *before);
        self.ranges.insert(start, end);
        Ok(())
    }

    /// Add the items of another set, of which this one may have any.
    pub fn merge(&mut self, other: &Self) {
        for gap in other
            .ranges()
            .flat_map(|range| self.gaps(range))
            .collect::<Vec<_>>()
        {
            let _ = self.add(gap);
        }
    }

    /// Remove the items of a range, of which the set may have any.
    pub fn remove(&mut self, range: IdRange) {
        let common: Vec<IdRange> = self.common(range).collect();
        for IdRange { start, end } in common {
            self.len -= end - start;
            let Some((first, last)) = self
                .ranges
                .range(..=start)
                .next_back()
                .map(|(first, last)| (*first, *last))
            else {
                continue;
            };
            self.ranges.remove(&first);
            self.ranges.extend(
                [(first, start), (end, last)]
                    .into_iter()
                    .filter(|(start, end)| start < end),
            );
        }
    }

    /// Return the parts of `range` that are in the set, sorted.
    pub fn common(&self, range: IdRange) -> impl Iterator<Item = IdRange> {
        let before = self.ranges.range(..range.start).next_back();
        let within = self.ranges.range(range.start..range.end.max(range.start));
        before
            .into_iter()
            .chain(within)
            .map(move |(start, end)| IdRange {
                start: range.start.max(*start),
                end: range.end.min(*end),
            })
            .filter(|common| !common.is_empty())
    }

    /// True if the set has the item.
    pub fn has(&self, item: u64) -> bool {
        self.ranges
            .range(..=item)
            .next_back()
            .is_some_and(|(_, end)| item < *end)
    }

    /// Add an item.
    ///
    /// # Errors
    /// When the set has it, with the item; or when it is 2^64 - 1, which is no item.
    pub fn insert(&mut self, item: u64) -> Result<(), u64> {
        // Most items follow the one before, or fill the hole behind it.
        let end = item.checked_add(1).ok_or(item)?;
        self.add(IdRange { start: item, end })
    }

    /// Return the ranges of `range` that are not in the set, sorted.
    pub fn gaps(&self, range: IdRange) -> Vec<IdRange> {
        let (mut gaps, mut start) = (Vec::new(), range.start);
        for items in self.common(range) {
            gaps.push(IdRange {
                start,
                end: items.start,
            });
            start = items.end;
        }
        gaps.push(IdRange {
            start,
            end: range.end,
        });
        gaps.retain(|gap| !gap.is_empty());
        gaps
    }
}

/// Ranges: items between the end of the last one and the start, and items in it.
impl From<ItemSet> for Vec<(u64, u64)> {
    fn from(items: ItemSet) -> Self {
        let mut end = 0;
        let ranges = items.ranges();
        ranges
            .map(|range| {
                (
                    range.start - std::mem::replace(&mut end, range.end),
                    range.len(),
                )
            })
            .collect()
    }
}

impl TryFrom<Vec<(u64, u64)>> for ItemSet {
    type Error = &'static str;

    fn try_from(ranges: Vec<(u64, u64)>) -> Result<Self, Self::Error> {
        const BEYOND: &str = "a range beyond the last item";
        let (mut items, mut end) = (Self::default(), 0_u64);
        for (gap, len) in ranges {
            let start = end.checked_add(gap).ok_or(BEYOND)?;
            end = start.checked_add(len).ok_or(BEYOND)?;
            let _ = items.add(IdRange { start, end });
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_holds_what_a_set_of_numbers_holds(
            ranges in prop::collection::vec((0..60_u64, 0..5_u64), 0..60), within in (0..70_u64, 0..70_u64),
        ) {
            let (mut items, mut model) = (ItemSet::default(), BTreeSet::new());
            for (start, len) in ranges {
                let range = IdRange { start, end: start + len };
                match items.add(range) {
                    Ok(()) => prop_assert!((start..range.end).all(|item| model.insert(item))),
                    Err(item) => prop_assert!(model.contains(&item) && (start..range.end).contains(&item)),
                }
            }
            let numbers = |ranges: Vec<IdRange>| ranges.iter().flat_map(|range| range.start..range.end).collect::<Vec<_>>();
            let ranges: Vec<IdRange> = items.ranges().collect();
            prop_assert!(ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            prop_assert_eq!((numbers(ranges), items.len()), (model.iter().copied().collect(), model.len() as u64));
            let within = IdRange { start: within.0, end: within.0 + within.1 };
            let missing = (within.start..within.end).filter(|item| !model.contains(item));
            prop_assert_eq!(numbers(items.gaps(within)), missing.collect::<Vec<_>>());
        }
    }
}
