//! Holds the counts of many records, and their items by final state ([`Records`]); `log` fills it.
//!
//! It is of a frame, a segment or a session, and holds no record itself (`line` writes one,
//! `record` reads one). `segment` writes it to the index before each frame, so that a reader need
//! not parse records to know which items they finish. It must not touch files.

use std::collections::BTreeMap;

use crawlmark_harness::sample::Outcome;
use crawlmark_harness::stats::SIGNIFICANT_DIGITS;
use crawlmark_harness::units::IdRange;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::item_set::ItemSet;
use super::line::ItemState;

/// Longest latency that is told from longer ones, µs: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// Items that ended, before `--shuffle`, and counts of the records. A field that is not
/// saved counts nothing in counts that were made from lines.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Records {
    /// Items that are never requested again: good, not found or skipped.
    pub finished: ItemSet,
    /// Items among them whose record of an earlier session still holds.
    pub not_modified: ItemSet,
    /// Items among them that robots.txt forbids.
    pub skipped: ItemSet,
    /// Items whose last attempt failed.
    pub failed: ItemSet,
    /// Items whose last attempt was throttled.
    pub abandoned: ItemSet,
    /// Records by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests for the items that ended, in this session.
    pub attempts: u64,
    /// Bytes of the lines, uncompressed.
    pub line_bytes: u64,
    /// Times of the first and the last request, µs since 1970 in UTC.
    pub at_us: Option<(u64, u64)>,
    /// Latency of the last request of each item that was sent, µs. One beyond an hour counts as an hour.
    #[serde(with = "cells")]
    pub latency_us: Histogram<u64>,
}

impl Default for Records {
    fn default() -> Self {
        Self {
            finished: ItemSet::default(),
            not_modified: ItemSet::default(),
            skipped: ItemSet::default(),
            failed: ItemSet::default(),
            abandoned: ItemSet::default(),
            outcomes: BTreeMap::new(),
            attempts: 0,
            line_bytes: 0,
            at_us: None,
            latency_us: cells::histogram(),
        }
    }
}

/// What a record says of its item.
#[derive(Debug, Clone, Copy)]
pub struct RecordedItem<'a> {
    /// Number of the item.
    pub item: u64,
    /// Outcome.
    pub outcome: &'a str,
    /// Requests for it.
    pub attempts: u32,
    /// Time of the last one, µs since 1970.
    pub at_us: Option<u64>,
    /// Its latency, µs.
    pub latency_us: Option<u64>,
}

impl Records {
    /// Count a record but for its line.
    pub fn add(&mut self, record: &RecordedItem<'_>) {
        match self.outcomes.get_mut(record.outcome) {
            Some(count) => *count += 1,
            None => drop(self.outcomes.insert(record.outcome.to_owned(), 1)),
        }
        self.at_us = widest(self.at_us, record.at_us.map(|at| (at, at)));
        let items = match ItemState::of(record.outcome) {
            ItemState::UnderWay => return,
            ItemState::NotModified => {
                let _ = self.not_modified.insert(record.item);
                &mut self.finished
            }
            ItemState::Skipped => {
                let _ = self.skipped.insert(record.item);
                &mut self.finished
            }
            ItemState::Failed => &mut self.failed,
            ItemState::Abandoned => &mut self.abandoned,
            ItemState::Good | ItemState::NotFound => &mut self.finished,
        };
        // An item that has a record is for its caller to find.
        let _ = items.insert(record.item);
        self.attempts += u64::from(record.attempts);
        if let Some(latency_us) = record.latency_us {
            // It grows as far as that.
            let _ = self.latency_us.record(latency_us.min(LONGEST_US));
        }
    }

    /// Return the number of records.
    pub fn count(&self) -> u64 {
        self.outcomes
            .values()
            .fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// True if an item ended.
    pub fn has_end_of(&self, item: u64) -> bool {
        [&self.finished, &self.failed, &self.abandoned]
            .iter()
            .any(|items| items.has(item))
    }

    /// True if some records are of responses before the last of their item.
    pub fn has_steps(&self) -> bool {
        self.outcomes.contains_key(Outcome::Stepped.name())
    }

    /// Return the items that the target answered for good: not those whose earlier record holds, nor
    /// those that it was not asked for.
    pub fn fresh(&self) -> ItemSet {
        let mut fresh = self.finished.clone();
        for range in [&self.not_modified, &self.skipped]
            .into_iter()
            .flat_map(ItemSet::ranges)
        {
            fresh.remove(range);
        }
        fresh
    }

    /// Return the items that ended, range by range.
    pub fn items(&self) -> impl Iterator<Item = IdRange> {
        [&self.finished, &self.failed, &self.abandoned]
            .into_iter()
            .flat_map(ItemSet::ranges)
    }

    /// Add later records: an item that has one ended as that says.
    pub fn merge(&mut self, later: &Self) {
        let Self {
            finished,
            not_modified,
            skipped,
            failed,
            abandoned,
            outcomes,
            attempts,
            line_bytes,
            at_us,
            latency_us,
        } = later;
        for range in later.items() {
            self.failed.remove(range);
            self.abandoned.remove(range);
        }
        self.finished.merge(finished);
        self.not_modified.merge(not_modified);
        self.skipped.merge(skipped);
        self.failed.merge(failed);
        self.abandoned.merge(abandoned);
        for (outcome, count) in outcomes {
            let sum = self.outcomes.entry(outcome.clone()).or_default();
            *sum = sum.saturating_add(*count);
        }
        self.attempts = self.attempts.saturating_add(*attempts);
        self.line_bytes = self.line_bytes.saturating_add(*line_bytes);
        self.at_us = widest(self.at_us, *at_us);
        // It grows as far as the other.
        let _ = self.latency_us.add(latency_us);
    }
}

/// Return the first and the last time of two spans.
fn widest(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((first, last)), Some((other_first, other_last))) => {
            Some((first.min(other_first), last.max(other_last)))
        }
        (one, other) => one.or(other),
    }
}

/// A histogram as its cells that are not empty: distance of their values, and count.
mod cells {
    use serde::{Deserializer, Serializer, de::Error};

    use super::{Deserialize, Histogram, LONGEST_US, SIGNIFICANT_DIGITS, Serialize};

    /// Return an empty histogram of latencies, which grows up to [`LONGEST_US`]: 200 KiB.
    pub(super) fn histogram() -> Histogram<u64> {
        match Histogram::new(SIGNIFICANT_DIGITS) {
            Ok(histogram) => histogram,
            Err(_) => unreachable!("digits are 3: always valid"),
        }
    }

    pub(super) fn serialize<S: Serializer>(
        times: &Histogram<u64>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let (mut value, mut cells) = (0, Vec::new());
        for cell in times.iter_recorded() {
            let at = cell.value_iterated_to().min(LONGEST_US);
            cells.push((
                at - std::mem::replace(&mut value, at),
                cell.count_at_value(),
            ));
        }
        cells.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Histogram<u64>, D::Error> {
        let (mut times, mut value) = (histogram(), 0_u64);
        for (distance, count) in Vec::<(u64, u64)>::deserialize(from)? {
            value = value.saturating_add(distance);
            // Recorded, a cell without a count would move the extremes.
            if value > LONGEST_US || count == 0 || times.record_n(value, count).is_err() {
                return Err(D::Error::custom("a latency that no item has"));
            }
        }
        Ok(times)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Records of items below 100.
    pub(in crate::dataset) fn any_records() -> impl Strategy<Value = Records> {
        let ends = (
            0..100_u64,
            0..5_usize,
            any::<(u32, u64)>(),
            prop::option::of(0..2 * LONGEST_US),
        );
        prop::collection::vec(ends, 0..60).prop_map(|ends| {
            let (mut records, mut items) = (Records::default(), ItemSet::default());
            for (item, outcome, (attempts, at), latency_us) in ends {
                let outcome = ["ok", "not_found", "throttled", "reset", "skipped"][outcome];
                if items.insert(item).is_ok() {
                    records.add(&RecordedItem {
                        item,
                        outcome,
                        attempts,
                        at_us: Some(at),
                        latency_us,
                    });
                }
            }
            records
        })
    }

    proptest! {
        #[test]
        fn they_are_decoded_as_they_were_encoded(records in any_records()) {
            let bytes = postcard::to_stdvec(&records).unwrap();
            prop_assert_eq!(postcard::from_bytes::<Records>(&bytes).unwrap(), records);
        }

        #[test]
        fn the_last_record_of_an_item_counts(first in any_records(), later in any_records()) {
            let mut both = first.clone();
            both.merge(&later);
            prop_assert_eq!(both.count(), first.count() + later.count());
            for item in 0..100 {
                let last = if later.items().any(|range| range.start <= item && item < range.end) { &later } else { &first };
                prop_assert_eq!(both.failed.has(item), last.failed.has(item));
                prop_assert_eq!(both.finished.has(item), first.finished.has(item) || later.finished.has(item));
            }
        }
    }
}
