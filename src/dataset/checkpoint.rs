//! Checkpoint of a segment: bytes of it that are committed, items that they finish, and counts of
//! them.
//!
//! ```text
//! magic: 7 bytes | version: u8 | length: u32 LE | postcard payload | CRC-32 of all before it: u32 LE
//! ```
//!
//! Written by the writer each second, read by recovery and `verify`. It may be damaged: decoding it
//! returns an error, and allocates nothing that its length fields claim before the bytes are there.
//! It must not touch files.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use crawlmark_harness::stats::SIGNIFICANT_DIGITS;
use crawlmark_harness::units::IdRange;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::finished::Finished;
use super::line::ItemState;

const MAGIC: [u8; 7] = *b"CMSAVED";
const VERSION: u8 = 1;
/// Magic, version and length.
const HEAD: usize = 12;
/// CRC-32.
const TAIL: usize = 4;

/// Longest latency that is told from longer ones, µs: an hour.
const LONGEST_US: u64 = 3_600_000_000;

/// State of a segment at a commit.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Checkpoint {
    /// Committed bytes of the segment, from its start.
    pub committed: u64,
    /// SHA-256 of these bytes.
    pub digest: [u8; 32],
    /// True after a clean end: the segment has a seek table and is never longer.
    pub is_closed: bool,
    /// Items that have a record in these bytes, whatever its outcome; before `--shuffle`.
    pub finished: Finished,
    /// Counts of these records.
    pub tally: RecordCounts,
}

/// Counts of records. A field that is not saved counts nothing in a tally that was made from
/// records.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordCounts {
    /// Records by outcome.
    pub outcomes: BTreeMap<String, u64>,
    /// Requests for their items, in this session.
    pub attempts: u64,
    /// Bytes of their lines, uncompressed.
    pub line_bytes: u64,
    /// Times of the first and the last request, µs since 1970 in UTC.
    pub at_us: Option<(u64, u64)>,
    /// Latency of each item that was sent, µs. One beyond an hour counts as an hour.
    pub latency_us: Histogram<u64>,
}

/// Reason why bytes are no checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CheckpointError {
    /// Another file.
    #[error("it does not begin as a checkpoint")]
    Magic,
    /// Another version.
    #[error("it has version {0}, this program reads version {VERSION}")]
    Version(u8),
    /// Cut or continued.
    #[error("it has {have} bytes and should have {claimed}")]
    Length {
        /// Bytes that are there.
        have: usize,
        /// Bytes that it claims.
        claimed: u64,
    },
    /// The checksum differs.
    #[error("its checksum does not match its bytes")]
    Checksum,
    /// The payload does not decode, or contradicts itself.
    #[error("it does not decode: {0}")]
    Payload(String),
}

/// The payload.
#[derive(Serialize, Deserialize)]
struct Payload {
    committed: u64,
    digest: [u8; 32],
    is_closed: bool,
    /// Ranges: items between the end of the last one and the start, and items in it.
    finished: Vec<(u64, u64)>,
    outcomes: BTreeMap<String, u64>,
    attempts: u64,
    line_bytes: u64,
    at_us: Option<(u64, u64)>,
    /// Cells of the histogram that are not empty: distance of their values, and count.
    latency_us: Vec<(u64, u64)>,
}

impl Default for RecordCounts {
    fn default() -> Self {
        Self {
            outcomes: BTreeMap::new(),
            attempts: 0,
            line_bytes: 0,
            at_us: None,
            latency_us: histogram(),
        }
    }
}

/// Empty histogram of latencies, which grows up to [`LONGEST_US`]: 200 KiB.
fn histogram() -> Histogram<u64> {
    match Histogram::new(SIGNIFICANT_DIGITS) {
        Ok(histogram) => histogram,
        Err(_) => unreachable!("digits are 3: always valid"),
    }
}

impl RecordCounts {
    /// Count a record but for its line: the outcome of its item, the requests for it, the time of
    /// the last one (µs since 1970), and its latency (µs).
    pub fn record(
        &mut self,
        outcome: &str,
        attempts: u32,
        at_us: Option<u64>,
        latency_us: Option<u64>,
    ) {
        match self.outcomes.get_mut(outcome) {
            Some(count) => *count += 1,
            None => drop(self.outcomes.insert(outcome.to_owned(), 1)),
        }
        self.attempts += u64::from(attempts);
        if let Some(at) = at_us {
            self.at_us = Some(
                self.at_us
                    .map_or((at, at), |(first, last)| (first.min(at), last.max(at))),
            );
        }
        if let Some(latency_us) = latency_us {
            // It grows as far as that.
            let _ = self.latency_us.record(latency_us.min(LONGEST_US));
        }
    }

    /// Return the number of records whose items are never requested again.
    #[must_use]
    pub fn finished(&self) -> u64 {
        self.outcomes
            .iter()
            .filter(|(outcome, _)| ItemState::of(outcome).is_finished())
            .map(|(_, count)| count)
            .sum()
    }

    /// Count the records of another tally.
    pub fn merge(&mut self, other: Self) {
        let Self {
            outcomes,
            attempts,
            line_bytes,
            at_us,
            latency_us,
        } = other;
        for (outcome, count) in outcomes {
            *self.outcomes.entry(outcome).or_default() += count;
        }
        self.attempts += attempts;
        self.line_bytes += line_bytes;
        self.at_us = match (self.at_us, at_us) {
            (Some((first, last)), Some((other_first, other_last))) => {
                Some((first.min(other_first), last.max(other_last)))
            }
            (one, other) => one.or(other),
        };
        // It grows as far as the other.
        let _ = self.latency_us.add(latency_us);
    }
}

impl Checkpoint {
    /// Return the number of records.
    #[must_use]
    pub const fn records(&self) -> u64 {
        self.finished.len()
    }

    /// Encode the checkpoint as the bytes of its file.
    ///
    /// # Errors
    /// When it takes 4 GiB.
    pub fn encode(&self) -> Result<Vec<u8>, CheckpointError> {
        let (mut end, mut value) = (0, 0);
        let ranges = self.finished.ranges();
        let cells = self.tally.latency_us.iter_recorded();
        let payload = Payload {
            committed: self.committed,
            digest: self.digest,
            is_closed: self.is_closed,
            finished: ranges
                .map(|range| {
                    (
                        range.start - std::mem::replace(&mut end, range.end),
                        range.len(),
                    )
                })
                .collect(),
            outcomes: self.tally.outcomes.clone(),
            attempts: self.tally.attempts,
            line_bytes: self.tally.line_bytes,
            at_us: self.tally.at_us,
            latency_us: cells
                .map(|cell| {
                    let at = cell.value_iterated_to().min(LONGEST_US);
                    (
                        at - std::mem::replace(&mut value, at),
                        cell.count_at_value(),
                    )
                })
                .collect(),
        };
        Self::seal(
            &postcard::to_stdvec(&payload)
                .map_err(|error| CheckpointError::Payload(error.to_string()))?,
        )
    }

    /// Put a payload between its head and its checksum.
    pub(super) fn seal(payload: &[u8]) -> Result<Vec<u8>, CheckpointError> {
        let length = u32::try_from(payload.len())
            .map_err(|error| CheckpointError::Payload(error.to_string()))?;
        let mut bytes = [&MAGIC[..], &[VERSION], &length.to_le_bytes(), payload].concat();
        let sum = crc32fast::hash(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        Ok(bytes)
    }

    /// Decode the bytes of a file.
    ///
    /// # Errors
    /// When they are not those of a whole checkpoint of this version.
    pub fn decode(bytes: &[u8]) -> Result<Self, CheckpointError> {
        if !bytes.starts_with(&MAGIC) && !MAGIC.starts_with(bytes) {
            return Err(CheckpointError::Magic);
        }
        let length = |claimed| CheckpointError::Length {
            have: bytes.len(),
            claimed,
        };
        let short = (HEAD + TAIL) as u64;
        let (head, rest) = bytes
            .split_first_chunk::<HEAD>()
            .ok_or_else(|| length(short))?;
        if head[MAGIC.len()] != VERSION {
            return Err(CheckpointError::Version(head[MAGIC.len()]));
        }
        let claimed = head
            .last_chunk()
            .map_or(0, |length| u32::from_le_bytes(*length));
        let (payload, sum) = rest
            .split_last_chunk::<TAIL>()
            .ok_or_else(|| length(short))?;
        if payload.len() as u64 != u64::from(claimed) {
            return Err(length(u64::from(claimed) + short));
        }
        if crc32fast::hash(&bytes[..HEAD + payload.len()]) != u32::from_le_bytes(*sum) {
            return Err(CheckpointError::Checksum);
        }
        let payload = postcard::from_bytes(payload)
            .map_err(|error| CheckpointError::Payload(error.to_string()))?;
        Self::of(payload)
            .ok_or_else(|| CheckpointError::Payload("it contradicts itself".to_owned()))
    }

    /// Checkpoint of a payload; none of one that contradicts itself.
    fn of(payload: Payload) -> Option<Self> {
        let Payload {
            committed,
            digest,
            is_closed,
            finished,
            outcomes,
            attempts,
            line_bytes,
            at_us,
            latency_us,
        } = payload;
        let (ranges, cells) = (finished, latency_us);
        let (mut finished, mut end) = (Finished::default(), 0_u64);
        for (gap, len) in ranges {
            let start = end.checked_add(gap)?;
            end = start.checked_add(len)?;
            finished.add(IdRange { start, end }).ok()?;
        }
        let (mut latency_us, mut value) = (histogram(), 0_u64);
        for (distance, count) in cells {
            value = value
                .checked_add(distance)
                .filter(|value| *value <= LONGEST_US)?;
            // A cell without a count is never written: recorded, it would move the extremes.
            latency_us
                .record_n(value, NonZeroU64::new(count)?.get())
                .ok()?;
        }
        let records = outcomes
            .values()
            .try_fold(0_u64, |records, count| records.checked_add(*count))?;
        let tally = RecordCounts {
            outcomes,
            attempts,
            line_bytes,
            at_us,
            latency_us,
        };
        let adds_up = records == finished.len() && tally.latency_us.len() <= records;
        adds_up.then_some(Self {
            committed,
            digest,
            is_closed,
            finished,
            tally,
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dataset::finished::tests::any_finished;

    fn any_checkpoint() -> impl Strategy<Value = Checkpoint> {
        let times = prop::collection::vec(
            (
                any::<u32>(),
                any::<u64>(),
                prop::option::of(0..2 * LONGEST_US),
            ),
            60,
        );
        (any_finished(), times, any::<(u64, [u8; 32], bool, u64)>()).prop_map(
            |(finished, times, rest)| {
                let (committed, digest, is_closed, line_bytes) = rest;
                let mut tally = RecordCounts {
                    line_bytes,
                    ..RecordCounts::default()
                };
                for ((attempts, at_us, latency_us), _) in times.into_iter().zip(0..finished.len()) {
                    tally.record(
                        ["ok", "not_found", "reset"][(at_us % 3) as usize],
                        attempts,
                        Some(at_us),
                        latency_us,
                    );
                }
                Checkpoint {
                    committed,
                    digest,
                    is_closed,
                    finished,
                    tally,
                }
            },
        )
    }

    #[test]
    fn a_cell_without_a_count_is_refused() {
        let decoded = |latency_us| {
            let (finished, outcomes) = (vec![(0, 1)], BTreeMap::from([("ok".to_owned(), 1)]));
            let (committed, digest, is_closed, attempts, line_bytes, at_us) =
                (0, [0; 32], false, 1, 0, None);
            let payload = Payload {
                committed,
                digest,
                is_closed,
                finished,
                outcomes,
                attempts,
                line_bytes,
                at_us,
                latency_us,
            };
            Checkpoint::decode(&Checkpoint::seal(&postcard::to_stdvec(&payload).unwrap()).unwrap())
                .is_ok()
        };
        assert!(decoded(vec![(4, 1)]));
        assert!(!decoded(vec![(4, 1), (1 << 20, 0)]));
    }

    proptest! {
        #[test]
        fn it_is_decoded_as_it_was_encoded_and_no_other_way(
            checkpoint in any_checkpoint(), at: prop::sample::Index, flip in 1..=255_u8,
        ) {
            let bytes = checkpoint.encode().unwrap();
            prop_assert_eq!(Checkpoint::decode(&bytes), Ok(checkpoint));
            let at = at.index(bytes.len());
            prop_assert!(Checkpoint::decode(&bytes[..at]).is_err());
            prop_assert!(Checkpoint::decode(&[&bytes[..], &[0]].concat()).is_err());
            let mut damaged = bytes;
            damaged[at] ^= flip;
            prop_assert!(Checkpoint::decode(&damaged).is_err());
        }
    }
}
