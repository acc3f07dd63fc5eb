//! The frames that cross the two pipes of a shard: `Frame` up to the supervisor, `Control` down to
//! the shard.
//!
//! ```text
//! length: u32 LE | CRC-32 of the body: u32 LE | body = version: u8, postcard payload
//! ```
//!
//! Counters are cumulative, so a progress frame that is skipped changes nothing; the final frame is
//! authoritative. An interval frame is sent exactly once per interval. Histograms travel as HDR V2
//! without compression, which costs tens of microseconds. A decoder that is fed junk returns a
//! [`WireError`]: it never panics, and never allocates what a length field claims before the bytes
//! are there.
//!
//! What a shard knows at its end is one struct, [`ShardOutcome`]: on the wire, in the record of the
//! run and in the file of a part. `shard/reports.rs` writes it, `supervisor/member.rs` reads it.

mod message;
pub mod v2;

use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use self::message::{
    Binding, BindingTimes, BudgetUse, Control, CpuHealth, Frame, IntervalFrame, PauseCause,
    PauseOrder, Progress, SLOT, Scheduled, Scope, SecondFigures, Sends, ShardOutcome,
    ThrottlingCounts, TimetableUse, Usage,
};
use self::v2::read_cells;
use crate::stats::{Bounds, Cells, Counters, Exact, Series, ShardStats};

/// The version of the layout; both ends are one binary, so it only guards against mistakes.
const VERSION: u8 = 1;

/// Length and checksum.
const HEADER: usize = 8;

/// More than a final frame with every histogram full needs (21 of 27,000 cells of at most 9 bytes),
/// and its groups and traits, which take two megabytes at most.
const MAX_BODY: usize = 8 << 20;

/// A [`Timing`](crate::stats::Timing) in transit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedTiming {
    /// Distribution that it encodes.
    pub series: Series,
    /// The exact figures.
    pub exact: Exact,
    /// The histogram, HDR V2.
    pub v2: Vec<u8>,
    /// Histogram of the ages of what was cut off, when anything but dropped requests was.
    pub ages: Option<Vec<u8>>,
}

/// Reason why bytes are no frame.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// A length beyond any frame's.
    #[error("a frame claims {0} bytes, more than any frame has")]
    TooLong(usize),
    /// The checksum differs.
    #[error("a frame's checksum does not match its bytes")]
    Checksum,
    /// Another version.
    #[error("a frame has version {0}, this is version {VERSION}")]
    Version(u8),
    /// The payload does not decode.
    #[error("a frame does not decode: {0}")]
    Payload(#[from] postcard::Error),
    /// A histogram does not decode, or has other bounds than the run's.
    #[error("a histogram does not decode: {0}")]
    Histogram(String),
}

/// `message` as a frame.
///
/// # Errors
/// When it is larger than any frame may be.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, WireError> {
    let mut out = vec![0; HEADER];
    out.push(VERSION);
    let mut out = postcard::to_extend(message, out)?;
    let body = out.len() - HEADER;
    if body > MAX_BODY {
        return Err(WireError::TooLong(body));
    }
    let crc = crc32fast::hash(&out[HEADER..]);
    out[..4].copy_from_slice(&u32::try_from(body).unwrap_or(u32::MAX).to_le_bytes());
    out[4..HEADER].copy_from_slice(&crc.to_le_bytes());
    Ok(out)
}

/// Cuts a stream of bytes into frames.
#[derive(Debug, Default)]
pub struct FrameDecoder {
    buffer: Vec<u8>,
    read: usize,
}

impl FrameDecoder {
    /// Takes bytes as they come from the pipe.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.drain(..self.read);
        self.read = 0;
        self.buffer.extend_from_slice(bytes);
    }

    /// True if every byte was part of a frame that was taken.
    pub fn is_empty(&self) -> bool {
        self.read == self.buffer.len()
    }

    /// The next whole frame, or none when more bytes are needed.
    ///
    /// # Errors
    /// When the bytes are no frame. The stream cannot be used any further.
    pub fn next_frame<T: DeserializeOwned>(&mut self) -> Result<Option<T>, WireError> {
        let rest = &self.buffer[self.read..];
        let Some((header, rest)) = rest.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let [l0, l1, l2, l3, c0, c1, c2, c3] = *header;
        let length = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if length > MAX_BODY {
            return Err(WireError::TooLong(length));
        }
        let Some(body) = rest.get(..length) else {
            return Ok(None);
        };
        if crc32fast::hash(body) != u32::from_le_bytes([c0, c1, c2, c3]) {
            return Err(WireError::Checksum);
        }
        let (version, payload) = body.split_first().ok_or(WireError::Version(0))?;
        if *version != VERSION {
            return Err(WireError::Version(*version));
        }
        let message = postcard::from_bytes(payload)?;
        self.read += HEADER + length;
        Ok(Some(message))
    }
}

/// Counters and distributions, encoded: a few kilobytes, where one distribution takes 216 kB.
/// Decoded, those of 64 shards would be more memory than everything else together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EncodedStats {
    bounds: Bounds,
    /// Counts of items, attempts, connections and bytes.
    pub counters: Counters,
    /// The distributions.
    pub timings: Vec<EncodedTiming>,
}

impl EncodedStats {
    /// Counters without distributions.
    pub const fn counted(bounds: Bounds, counters: Counters) -> Self {
        Self {
            bounds,
            counters,
            timings: Vec::new(),
        }
    }

    /// Encode `stats`.
    ///
    /// # Errors
    /// When a histogram cannot be written, which a run's bounds rule out.
    pub fn of(stats: &ShardStats) -> Result<Self, WireError> {
        let mut serializer = V2Serializer::new();
        let mut encoded = Self::counted(stats.bounds(), stats.counters.clone());
        for (series, timing) in stats.timings() {
            encoded.timings.push(EncodedTiming {
                series,
                exact: *timing.exact(),
                v2: written(&mut serializer, &timing.histogram())?,
                ages: timing
                    .ages()
                    .map(|ages| written(&mut serializer, &ages))
                    .transpose()?,
            });
        }
        Ok(encoded)
    }

    /// Check that all distributions decode and have the bounds of the run.
    ///
    /// # Errors
    /// When one does not.
    pub fn check(&self, bounds: Bounds) -> Result<(), WireError> {
        if self.bounds != bounds {
            let why = "its bounds are not those of this run";
            return Err(WireError::Histogram(why.to_owned()));
        }
        self.timings
            .iter()
            .try_for_each(|timing| timing.cells(bounds).map(drop))
    }

    /// Decode everything that decodes, which is all of what was [checked](Self::check).
    pub fn unpacked(&self) -> ShardStats {
        let mut stats = ShardStats::new(self.bounds);
        self.add_to(&mut stats);
        stats
    }

    /// Add everything that decodes to `stats`.
    pub fn add_to(&self, stats: &mut ShardStats) {
        stats.counters.merge(&self.counters);
        for timing in &self.timings {
            if let Ok((times, ages)) = timing.cells(self.bounds) {
                stats.add_cells(timing.series, &times, ages.as_ref(), &timing.exact);
            }
        }
    }

    /// Exact figures of a series; none without times of it.
    pub fn exact(&self, series: Series) -> Option<&Exact> {
        let mut timings = self.timings.iter();
        Some(&timings.find(|timing| timing.series == series)?.exact)
    }
}

impl EncodedTiming {
    /// The cells of its histograms: of the times, and of the ages of what was cut off. No number in
    /// it makes this take more memory than histograms of these bounds have cells.
    ///
    /// # Errors
    /// When one does not decode or has other bounds than `bounds`.
    pub fn cells(&self, bounds: Bounds) -> Result<(Cells, Option<Cells>), WireError> {
        let read =
            |v2: &[u8]| read_cells(v2, bounds).map_err(|why| WireError::Histogram(why.to_owned()));
        let (times, ages) = (read(&self.v2)?, self.ages.as_deref().map(read).transpose()?);
        let censored = ages.as_ref().map_or(0, Cells::count);
        if times.count().checked_add(self.exact.overflow) != Some(self.exact.count)
            || censored > self.exact.censored
        {
            return Err(WireError::Histogram(
                "its cells do not add up to its count".to_owned(),
            ));
        }
        Ok((times, ages))
    }
}

fn written(
    serializer: &mut V2Serializer,
    histogram: &Histogram<u64>,
) -> Result<Vec<u8>, WireError> {
    let mut v2 = Vec::new();
    let written = serializer.serialize(histogram, &mut v2);
    written.map_err(|error| WireError::Histogram(error.to_string()))?;
    Ok(v2)
}

#[cfg(test)]
mod tests {
    use crate::stats::{STEPS, SecondCourse, SplitSums};
    use proptest::prelude::*;

    use super::*;
    use crate::adaptive::ControllerState;
    use crate::stats::tests::{any_sample, bounds};

    fn interval(samples: &[crate::sample::Sample]) -> (ShardStats, Frame) {
        let mut stats = ShardStats::new(bounds());
        for sample in samples {
            stats.record(sample);
        }
        let frame = IntervalFrame {
            figures: SecondFigures {
                index: 3,
                in_flight: 7,
                cpu_us: 11,
                run_delay_ns: Some(12),
                max_sched_lag_ns: 13,
                max_loop_lag_ns: 14,
                binding: BindingTimes {
                    rate_ns: 17,
                    ..BindingTimes::default()
                },
                controller: Some(ControllerState {
                    limit: 19,
                    pace_per_s: Some(23.5),
                }),
                split: SplitSums {
                    requests: 31,
                    ..SplitSums::default()
                },
                scheduled: Scheduled {
                    requests: 29,
                    good: 27,
                    failed: 2,
                },
                course: samples.iter().enumerate().fold(
                    SecondCourse::default(),
                    |mut course, (n, sample)| {
                        course.add(n % STEPS, sample.attempt.outcome, true, 1);
                        course
                    },
                ),
            },
            stats: EncodedStats::of(&stats).unwrap(),
        };
        (stats, Frame::Interval(Box::new(frame)))
    }

    proptest! {
        #[test]
        fn junk_is_an_error_or_a_wait_and_never_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..2_000)) {
            let mut decoder = FrameDecoder::default();
            decoder.push(&bytes);
            let _ = decoder.next_frame::<Frame>();
            let _ = decoder.next_frame::<Control>();
        }

        #[test]
        fn a_payload_behind_a_valid_checksum_may_still_be_junk(payload in prop::collection::vec(any::<u8>(), 0..500)) {
            let body = [&[VERSION][..], &payload].concat();
            let mut bytes = u32::try_from(body.len()).unwrap().to_le_bytes().to_vec();
            bytes.extend_from_slice(&crc32fast::hash(&body).to_le_bytes());
            bytes.extend_from_slice(&body);
            let mut decoder = FrameDecoder::default();
            decoder.push(&bytes);
            if let Ok(Some(Frame::Interval(frame))) = decoder.next_frame::<Frame>() {
                let _ = frame.stats.unpacked();
            }
        }
    }

    proptest! {
        // Each case packs megabytes of histograms.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn c5_stats_cross_the_pipe_unchanged_however_it_is_cut(
            samples in prop::collection::vec(any_sample(), 0..100), cut in 1..5_000_usize,
        ) {
            let (stats, frame) = interval(&samples);
            let bytes = [encode(&Frame::Ready).unwrap(), encode(&frame).unwrap()].concat();
            let (mut decoder, mut frames) = (FrameDecoder::default(), Vec::new());
            for chunk in bytes.chunks(cut) {
                decoder.push(chunk);
                while let Some(frame) = decoder.next_frame::<Frame>().unwrap() {
                    frames.push(frame);
                }
            }
            prop_assert_eq!(&frames[..], &[Frame::Ready, frame][..]);
            let Frame::Interval(got) = frames.pop().unwrap() else { unreachable!() };
            prop_assert_eq!(got.stats.unpacked(), stats);
        }

        #[test]
        fn one_wrong_byte_never_passes(
            samples in prop::collection::vec(any_sample(), 1..20), at: prop::sample::Index, flip in 1..=255_u8,
        ) {
            let (_, frame) = interval(&samples);
            let mut bytes = encode(&frame).unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= flip;
            let mut decoder = FrameDecoder::default();
            decoder.push(&bytes);
            // A length that grew waits for bytes that never come; everything else is refused.
            prop_assert!(matches!(decoder.next_frame::<Frame>(), Err(_) | Ok(None)));
        }

        #[test]
        fn a_corrupt_histogram_is_an_error_and_asks_for_no_memory(
            samples in prop::collection::vec(any_sample(), 1..20), at: prop::sample::Index, byte: u8,
        ) {
            let (stats, _) = interval(&samples);
            let mut stats = EncodedStats::of(&stats).unwrap();
            let v2 = &mut stats.timings[0].v2;
            let at = at.index(v2.len());
            v2[at] = byte;
            let _ = stats.unpacked();
            stats.timings[0].v2.truncate(at);
            prop_assert!(stats.check(bounds()).is_err());
        }
    }

    #[test]
    fn a_length_that_lies_is_refused_before_its_bytes_are_awaited() {
        let mut decoder = FrameDecoder::default();
        decoder.push(&[0xff; HEADER]);
        assert!(matches!(
            decoder.next_frame::<Frame>(),
            Err(WireError::TooLong(_))
        ));
    }
}
