//! `latency.hlog`: a histogram per shard, series and second, as any HDR histogram tool reads it.
//!
//! Written while the run goes on, a few lines a second for each shard. Read for a part of the run:
//! it is foreign by then, and no line of it takes more memory than a histogram of the run.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, BufWriter, Cursor, Read as _, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use hdrhistogram::serialization::{Deserializer, Serializer as _, V2DeflateSerializer};

use super::{ReadError, ResultError, foreign};
use crawlmark_harness::files::Root;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Bounds, Series};
use crawlmark_harness::supervisor::Interval;
use crawlmark_harness::wire::{EncodedTiming, v2};

/// The name of the file.
pub const LOG: &str = "latency.hlog";

/// The series that it has.
fn series() -> impl Iterator<Item = Series> {
    Series::PER_INTERVAL.into_iter().chain([Series::DropAge])
}

/// Suffix of tags whose lines hold the ages of requests that were cut off.
const CENSORED: &str = "_censored";

/// Divisor of a line's greatest value, stated for the tools: that value is in ms.
const MAX_DIVISOR: f64 = 1e6;

/// The open file of `latency.hlog`.
pub struct LogFile {
    path: PathBuf,
    file: BufWriter<File>,
}

impl LogFile {
    /// Opens it.
    pub(super) fn create(directory: &Path) -> Result<Self, ResultError> {
        let path = directory.join(LOG);
        match Root::new(directory).create(LOG) {
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
            serializer: V2DeflateSerializer::new(),
            packed: Vec::new(),
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
    serializer: V2DeflateSerializer,
    packed: Vec<u8>,
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
            for series in series() {
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
            self.line(&read(&told.v2)?, start, tag)?;
        }
        match ages(told)? {
            Some(ages) => self.line(&ages, start, &format!("{tag}{CENSORED}")),
            None => Ok(()),
        }
    }

    /// A line of the log, as `HistogramLogWriter` of the format's authors writes it.
    fn line(&mut self, times: &Histogram<u64>, start: Duration, tag: &str) -> io::Result<()> {
        // Compress first: a partial line would corrupt the next one.
        self.packed.clear();
        let packed = self.serializer.serialize(times, &mut self.packed);
        packed.map_err(io::Error::other)?;
        writeln!(
            self.file,
            "Tag={tag},{:.3},{:.3},{:.3},{}",
            start.as_secs_f64(),
            INTERVAL.as_secs_f64(),
            times.max() as f64 / MAX_DIVISOR,
            STANDARD.encode(&self.packed)
        )
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

/// Return the ages of the attempts that were cut off; none when none was. An age beyond the bounds
/// is in the topmost cell: there, too, the time was no less. So is what was dropped: it comes to no
/// response.
fn ages(told: &EncodedTiming) -> io::Result<Option<Histogram<u64>>> {
    if told.exact.censored == 0 {
        return Ok(None);
    }
    let mut ages = match &told.ages {
        Some(v2) => read(v2)?,
        None => Histogram::new_from(&read(&told.v2)?),
    };
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

/// Times by series: those of what ended, and the ages of what was cut off.
pub type LoggedTimes = BTreeMap<Series, [Histogram<u64>; 2]>;

/// The longest line: see `LONGEST_HISTOGRAM` of `foreign`.
const LONGEST_LINE: u64 = 1 << 22;

/// Bytes before the deflated form of a histogram: its cookie and its length.
const DEFLATED_HEADER: usize = 8;

/// Read the times of some seconds, over all shards, from the log in `directory` of a run with these
/// bounds.
///
/// # Errors
/// When there is none, or a line is not one of such a run.
pub fn read_log(
    directory: &Path,
    bounds: Bounds,
    seconds: &Range<u64>,
) -> Result<LoggedTimes, ReadError> {
    let path = directory.join(LOG);
    let mut log = BufReader::new(foreign::open(&path).map_err(ReadError::io(&path))?);
    let (mut logged, mut text) = (LoggedTimes::new(), Vec::new());
    for line in 1.. {
        text.clear();
        let mut rest = log.by_ref().take(LONGEST_LINE);
        if rest
            .read_until(b'\n', &mut text)
            .map_err(ReadError::io(&path))?
            == 0
        {
            break;
        }
        let text = str::from_utf8(&text).ok();
        text.and_then(|text| add_line(text, bounds, seconds, &mut logged))
            .ok_or_else(|| ReadError::Bounds {
                path: path.clone(),
                wrong: format!("line {line} is not a histogram of this run"),
            })?;
    }
    Ok(logged)
}

/// Add the values of a line, if it is of these seconds; none if it is not whole, or of another form.
fn add_line(
    line: &str,
    bounds: Bounds,
    seconds: &Range<u64>,
    logged: &mut LoggedTimes,
) -> Option<()> {
    let line = line.strip_suffix('\n')?;
    if line.starts_with(['#', '"']) {
        return Some(());
    }
    let mut fields = line.strip_prefix("Tag=shard-")?.splitn(5, ',');
    let (_, name) = fields.next()?.split_once('.')?;
    let second = fields.next()?.strip_suffix(".000")?.parse().ok()?;
    let histogram = fields.nth(2)?;
    let times = name.strip_suffix(CENSORED);
    let is_age = usize::from(times.is_some());
    let name = times.unwrap_or(name);
    let series = series().find(|series| series.name() == name)?;
    if !seconds.contains(&second) {
        return Some(());
    }
    let packed = STANDARD.decode(histogram).ok()?;
    // The plain form of a histogram: a header, and at most nine bytes for each cell.
    let most = 40 + 9 * bounds.cells() as u64;
    let mut plain = Vec::new();
    let inflated = ZlibDecoder::new(packed.get(DEFLATED_HEADER..)?).take(most);
    { inflated }.read_to_end(&mut plain).ok()?;
    v2::check_header(&plain).ok()?;
    let sums = logged
        .entry(series)
        .or_insert_with(|| [bounds.histogram(), bounds.histogram()]);
    sums[is_age].add(read(&plain).ok()?).ok()
}
