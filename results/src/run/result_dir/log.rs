//! `latency.hlog`: a histogram per shard, series and second, as any HDR histogram tool reads it.
//!
//! Written while the run goes on, so it must be quick: what a shard told is V2 already and goes
//! into the file deflated, as it came. No histogram is made of it.

use std::fs::File;
use std::io::{self, BufWriter, Cursor, Write};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::{Compress, Compression, FlushCompress, Status};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use hdrhistogram::serialization::{
    Deserializer, Serializer as _, V2DeflateSerializer, V2Serializer,
};

use super::ResultError;
use crate::run::cut::CENSORED;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Series, highest_beside};
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::wire::EncodedTiming;
use crawlmark_harness::wire::v2::{DEFLATED_COOKIE, DEFLATED_HEADER};

/// The name of the file.
pub const LOG: &str = "latency.hlog";

/// Divisor of a line's greatest value, stated for the tools: that value is in ms.
const MAX_DIVISOR: f64 = 1e6;

/// The open file of `latency.hlog`.
pub struct LogFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl LogFile {
    /// Opens it.
    pub(super) fn create(path: PathBuf) -> Result<Self, ResultError> {
        match File::create(&path) {
            Ok(file) => Ok(Self {
                path,
                file: BufWriter::new(file),
            }),
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
            .add_comment(
                "[Values are nanoseconds; one tag per shard and series, one line per second]",
            )
            .add_comment("[Tags in _censored: how old those were that were cut off]")
            .with_start_time(started_at)
            .with_base_time(started_at)
            .with_max_value_divisor(MAX_DIVISOR)
            .begin_log_with(&mut self.file, &mut V2DeflateSerializer::new())
            .map(drop)
            .map_err(|error| ResultError::Io {
                path: path.clone(),
                error,
            })?;
        Ok(IntervalLog {
            path,
            file: &mut self.file,
            packer: Packer::new(),
            failed: None,
        })
    }

    /// Puts everything on its way to the disk.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn close(mut self) -> Result<(), ResultError> {
        self.file.flush().map_err(|error| ResultError::Io {
            path: self.path,
            error,
        })
    }
}

/// The log of histograms, as HDR histogram tools read it: V2-deflate, tagged `shard-0.service`.
pub struct IntervalLog<'a> {
    path: PathBuf,
    file: &'a mut BufWriter<File>,
    packer: Packer,
    failed: Option<io::Error>,
}

impl IntervalLog<'_> {
    /// Append an interval and hand it to the kernel: a supervisor that is killed leaves all
    /// intervals up to then. A failure to write is kept for [`IntervalLog::end`]: it must not stop
    /// the run. Nothing is appended after it, so that the file holds the beginning of the log.
    pub fn append(&mut self, interval: &Interval) {
        if self.failed.is_none() {
            self.failed = self.lines(interval).and_then(|()| self.file.flush()).err();
        }
    }

    fn lines(&mut self, interval: &Interval) -> io::Result<()> {
        let start = INTERVAL.saturating_mul(u32::try_from(interval.index).unwrap_or(u32::MAX));
        for (shard, times) in &interval.shards {
            for series in Series::PER_INTERVAL {
                let Some(told) = times.told.iter().find(|told| told.series == series) else {
                    continue;
                };
                self.write(told, start, &format!("shard-{shard}.{}", series.name()))?;
            }
        }
        Ok(())
    }

    fn write(&mut self, told: &EncodedTiming, start: Duration, tag: &str) -> io::Result<()> {
        if told.exact.count > 0 {
            self.line(&told.v2, max(told)?, start, tag)?;
        }
        if let Some(ages) = ages(told)? {
            let mut v2 = Vec::new();
            V2Serializer::new()
                .serialize(&ages, &mut v2)
                .map_err(io::Error::other)?;
            self.line(&v2, ages.max(), start, &format!("{tag}{CENSORED}"))?;
        }
        Ok(())
    }

    /// A line of the log, as `HistogramLogWriter` of the format's authors writes it.
    fn line(&mut self, v2: &[u8], max_ns: u64, start: Duration, tag: &str) -> io::Result<()> {
        let (start, length, max) = (
            start.as_secs_f64(),
            INTERVAL.as_secs_f64(),
            max_ns as f64 / MAX_DIVISOR,
        );
        // First what may fail: half a line would take the next one with it.
        let packed = self.packer.pack(v2)?;
        write!(self.file, "Tag={tag},{start:.3},{length:.3},{max:.3},")?;
        self.file.write_all(packed.as_bytes())?;
        self.file.write_all(b"\n")
    }

    /// Ends the log.
    ///
    /// # Errors
    /// The first failure to write, if there was one.
    pub fn end(self) -> Result<(), ResultError> {
        self.failed.map_or(Ok(()), |error| {
            Err(ResultError::Io {
                path: self.path,
                error,
            })
        })
    }
}

/// Deflates histograms one after another. To begin again takes longer than to deflate the few
/// hundred bytes of a second of one shard of many, so that is done once, and at the level that
/// begins with the least.
struct Packer {
    deflate: Compress,
    packed: Vec<u8>,
    text: String,
}

impl Packer {
    fn new() -> Self {
        Self {
            deflate: Compress::new(Compression::fast(), true),
            packed: Vec::new(),
            text: String::new(),
        }
    }

    /// A histogram in V2 encoding as one in V2-deflate encoding, in base64.
    fn pack(&mut self, v2: &[u8]) -> io::Result<&str> {
        // What cannot be made smaller grows by a few bytes for every few thousand.
        const SPARE: usize = 64;
        self.packed.clear();
        self.packed
            .reserve(DEFLATED_HEADER + v2.len() + v2.len() / 8 + SPARE);
        self.packed
            .extend_from_slice(&DEFLATED_COOKIE.to_be_bytes());
        self.packed.extend_from_slice(&[0; 4]);
        self.deflate.reset();
        let status = self
            .deflate
            .compress_vec(v2, &mut self.packed, FlushCompress::Finish)?;
        if status != Status::StreamEnd {
            return Err(io::Error::other("a histogram does not deflate"));
        }
        let length =
            u32::try_from(self.packed.len() - DEFLATED_HEADER).map_err(io::Error::other)?;
        self.packed[4..DEFLATED_HEADER].copy_from_slice(&length.to_be_bytes());
        self.text.clear();
        STANDARD.encode_string(&self.packed, &mut self.text);
        Ok(&self.text)
    }
}

/// The greatest value that the histogram may hold: that of its topmost cell.
fn max(told: &EncodedTiming) -> io::Result<u64> {
    // What lies beyond the bounds is in no cell, so that the exact figure is not the histogram's
    // then.
    if told.exact.overflow == 0 {
        Ok(highest_beside(told.exact.max_ns))
    } else {
        Ok(read(&told.v2)?.max())
    }
}

/// Return the ages of the attempts that were cut off; none when none was. An age beyond the bounds
/// is in the topmost cell: there, too, the time was no less.
fn ages(told: &EncodedTiming) -> io::Result<Option<Histogram<u64>>> {
    let Some(v2) = &told.ages else {
        return Ok(None);
    };
    let mut ages = read(v2)?;
    let beyond = told.exact.censored.saturating_sub(ages.len());
    let highest = ages.high();
    // The highest value has a cell.
    let _ = ages.record_n(highest, beyond);
    Ok(Some(ages))
}

fn read(v2: &[u8]) -> io::Result<Histogram<u64>> {
    Deserializer::new()
        .deserialize(&mut Cursor::new(v2))
        .map_err(io::Error::other)
}
