//! `latency.hlog`: a histogram per shard, series and second, as any HDR histogram tool reads it.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriter, IntervalLogWriterBuilder, Tag};

use super::ResultError;
use crate::recut::CENSORED;
use crate::shard::INTERVAL;
use crate::stats::{Series, Timing};
use crate::supervisor::Interval;

/// The name of the file.
pub const LOG: &str = "latency.hlog";

/// The open file of `latency.hlog`.
pub struct LogFile {
    path: PathBuf,
    file: BufWriter<File>,
    serializer: V2DeflateSerializer,
}

impl LogFile {
    /// Opens it.
    pub(super) fn create(path: PathBuf) -> Result<Self, ResultError> {
        match File::create(&path) {
            Ok(file) => Ok(Self { path, file: BufWriter::new(file), serializer: V2DeflateSerializer::new() }),
            Err(error) => Err(ResultError::Io { path, error }),
        }
    }

    /// Begins the log.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn begin(&mut self, started_at: SystemTime) -> Result<IntervalLog<'_>, ResultError> {
        let path = self.path.clone();
        IntervalLogWriterBuilder::new()
            .add_comment("[Histogram log format version 1.2]")
            .add_comment("[Values are nanoseconds; one tag per shard and series, one line per second]")
            .add_comment("[Tags in _censored: how old those were that were cut off]")
            .with_start_time(started_at)
            .with_base_time(started_at)
            .with_max_value_divisor(1e6)
            .begin_log_with(&mut self.file, &mut self.serializer)
            .map(|writer| IntervalLog { path: path.clone(), writer, failed: None })
            .map_err(|error| ResultError::Io { path, error })
    }

    /// Puts everything on its way to the disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn close(mut self) -> Result<(), ResultError> {
        self.file.flush().map_err(|error| ResultError::Io { path: self.path, error })
    }
}

/// The log of histograms, as HDR histogram tools read it: V2-deflate, tagged `shard-0.service`.
pub struct IntervalLog<'a> {
    path: PathBuf,
    writer: IntervalLogWriter<'a, 'a, BufWriter<File>, V2DeflateSerializer>,
    failed: Option<io::Error>,
}

impl IntervalLog<'_> {
    /// Appends an interval. A failure to write is kept for [`IntervalLog::end`]: it must not stop the run.
    pub fn append(&mut self, interval: &Interval) {
        let start = INTERVAL.saturating_mul(u32::try_from(interval.index).unwrap_or(u32::MAX));
        for (shard, stats) in &interval.shards {
            for series in Series::PER_INTERVAL {
                let Some(timing) = stats.timing(series) else { continue };
                let tag = format!("shard-{shard}.{}", series.name());
                if timing.exact().count > 0 {
                    self.write(timing.histogram(), start, &tag);
                }
                if let Some(ages) = ages(timing) {
                    self.write(&ages, start, &(tag + CENSORED));
                }
            }
        }
    }

    fn write(&mut self, histogram: &Histogram<u64>, start: Duration, tag: &str) {
        if let Err(error) = self.writer.write_histogram(histogram, start, INTERVAL, Tag::new(tag)) {
            self.failed.get_or_insert_with(|| io::Error::other(error.to_string()));
        }
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first failure to write, if there was one.
    pub fn end(self) -> Result<(), ResultError> {
        self.failed.map_or(Ok(()), |error| Err(ResultError::Io { path: self.path, error }))
    }
}

/// How old those were that were cut off; none when none was. An age beyond the bounds is in the topmost cell: that the time
/// was no less holds of it, too.
fn ages(timing: &Timing) -> Option<Histogram<u64>> {
    let mut ages = timing.ages()?.clone();
    let beyond = timing.exact().censored.saturating_sub(ages.len());
    let highest = ages.high();
    // The highest value has a cell.
    let _ = ages.record_n(highest, beyond);
    Some(ages)
}
