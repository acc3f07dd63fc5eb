//! A saved crawl in another format: JSON lines, CSV, Parquet or WARC, record by record. Called by
//! the command `export`, which opens the output.
//!
//! | format | holds |
//! |---|---|
//! | `csv` | the fields of a record as columns, RFC 4180 |
//! | `parquet` | the same with types, bodies as bytes |
//! | `warc` | each saved body as a `resource` record, gzip per record |

mod csv;
#[cfg(feature = "parquet")]
mod parquet;
mod warc;

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::ops::Bound;

use super::disk::Directory;
use super::item_set::ItemSet;
use super::manifest::Manifest;
use super::record::SavedRecord;
use super::recover::records_of;
use super::saved::{SavedCrawl, SavedError, SavedSegment, failed};
use crate::cli::CrawlFormat;
use crate::crawl::target::ids::Shuffle;

/// Reason why a saved crawl cannot be exported.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CrawlExportError {
    /// Unreadable crawl.
    #[error("{0}")]
    Read(#[from] SavedError),
    /// The output cannot be written.
    #[error("{0}")]
    Write(#[from] io::Error),
    /// Damaged crawl.
    #[error(
        "read {file}: {what}. Run `crawlmark verify` on the crawl to see what is damaged and what to do"
    )]
    Damaged {
        /// Name of the file.
        file: String,
        /// First thing that is wrong.
        what: String,
    },
    /// The format lacks something that this crawl did not save.
    #[error("{0}")]
    Lacking(String),
}

/// Counts of an export.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Exported {
    /// Records that were written.
    pub(crate) written: u64,
    /// Records that the format has no place for.
    pub(crate) left_out: u64,
}

/// Use of a record by a format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Written,
    LeftOut,
}

/// Writer of a format.
trait Sink {
    /// Write a record, which `line` holds.
    fn record(&mut self, record: &SavedRecord<'_>, line: &str) -> Result<Use, SinkError>;

    /// Write the end.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Reason why a record cannot be written.
#[derive(Debug)]
enum SinkError {
    Read(io::Error),
    Write(io::Error),
    /// Contradiction in the record.
    Record(String),
}

impl SinkError {
    /// Damage of the segment, or the system's refusal to read it.
    fn of(error: io::Error) -> Self {
        match error.kind() {
            ErrorKind::InvalidData => Self::Record(error.to_string()),
            _ => Self::Read(error),
        }
    }
}

impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

impl From<String> for SinkError {
    fn from(why: String) -> Self {
        Self::Record(why)
    }
}

/// JSON lines as they were saved, in one file.
struct JsonLines<W>(W);

impl<W: Write> Sink for JsonLines<W> {
    fn record(&mut self, _: &SavedRecord<'_>, line: &str) -> Result<Use, SinkError> {
        self.0.write_all(line.as_bytes())?;
        self.0.write_all(b"\n")?;
        Ok(Use::Written)
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        self.0.flush()
    }
}

/// Export that is being written: the records of a crawl, or of its parts one after another.
pub(crate) struct CrawlExport {
    sink: Box<dyn Sink>,
    exported: Exported,
    /// Bytes of the segments that were read.
    read: u64,
}

impl CrawlExport {
    /// Begin the export of the crawl that `manifest` describes.
    ///
    /// # Errors
    /// When the crawl lacks something that the format needs, or the output cannot be written.
    pub(crate) fn begin(
        manifest: &Manifest,
        format: CrawlFormat,
        output: impl Write + Send + 'static,
    ) -> Result<Self, CrawlExportError> {
        Ok(Self {
            sink: sink(manifest, format, output)?,
            exported: Exported::default(),
            read: 0,
        })
    }

    /// Write the last committed record of each item of a crawl. `progress` is called with the
    /// number of bytes read so far of all [`SavedCrawl::bytes`].
    ///
    /// # Errors
    /// When it is damaged, or cannot be written.
    pub(crate) fn add(
        &mut self,
        crawl: &SavedCrawl,
        mut progress: impl FnMut(u64),
    ) -> Result<(), CrawlExportError> {
        let later = recorded(crawl)?;
        for segment in &crawl.segments {
            let added = self.segment(segment, crawl.manifest.shuffle(), &later, &mut progress);
            added.map_err(|error| match error {
                SinkError::Write(error) => CrawlExportError::Write(error),
                SinkError::Read(error) => failed(&segment.path)(error).into(),
                SinkError::Record(what) => CrawlExportError::Damaged {
                    file: segment.path.display().to_string(),
                    what,
                },
            })?;
            self.read += segment.length;
        }
        Ok(())
    }

    /// Write the records of a segment, of which those of failed items count unless a later session
    /// has one. A segment without an end ends with its last whole frame.
    fn segment(
        &mut self,
        segment: &SavedSegment,
        shuffle: Option<Shuffle>,
        recorded: &BTreeMap<u32, ItemSet>,
        mut progress: impl FnMut(u64),
    ) -> Result<(), SinkError> {
        let later = (Bound::Excluded(segment.name.session), Bound::Unbounded);
        let Some(mut frames) = unless_cut(segment.frames().map(Some))? else {
            return Ok(());
        };
        while unless_cut(frames.next_frame())?.is_some() {
            let (start, read) = (frames.start(), frames.at());
            progress(self.read + read);
            for line in frames
                .lines()
                .map_err(SinkError::of)?
                .split_terminator('\n')
            {
                let wrong =
                    |why: String| SinkError::Record(format!("the frame at byte {start}: {why}"));
                let record = SavedRecord::parse(line).map_err(|error| wrong(error.to_string()))?;
                let item = shuffle.map_or(record.id, |shuffle| shuffle.item(record.id));
                let is_replaced = || recorded.range(later).any(|(_, items)| items.has(item));
                if !record.state().is_finished() && is_replaced() {
                    continue;
                }
                match self.sink.record(&record, line) {
                    Ok(Use::Written) => self.exported.written += 1,
                    Ok(Use::LeftOut) => self.exported.left_out += 1,
                    Err(SinkError::Record(why)) => {
                        return Err(wrong(format!("ID {}: {why}", record.id)));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    /// Write the end.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn finish(self) -> Result<Exported, CrawlExportError> {
        self.sink.finish()?;
        Ok(self.exported)
    }
}

/// Return nothing of a segment that was cut before the next frame.
fn unless_cut<T>(read: io::Result<Option<T>>) -> Result<Option<T>, SinkError> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        read => read.map_err(SinkError::of),
    }
}

/// Return the items that have a record, by session; nothing of a single one, which has one record
/// of each. A record of an item that failed or was abandoned is replaced by that of a later
/// session.
fn recorded(crawl: &SavedCrawl) -> Result<BTreeMap<u32, ItemSet>, CrawlExportError> {
    let mut sessions = BTreeMap::<u32, ItemSet>::new();
    let disk = Directory::new(&crawl.place);
    let later = crawl.segments.iter().filter(|one| one.name.session > 1);
    for SavedSegment { name, path, .. } in later {
        let records = records_of(&disk, *name).map_err(failed(path))?;
        let items = sessions.entry(name.session).or_default();
        // Twice in a session is for `verify` to find.
        for range in records.items() {
            let _ = items.add(range);
        }
    }
    Ok(sessions)
}

fn sink<W: Write + Send + 'static>(
    manifest: &Manifest,
    format: CrawlFormat,
    output: W,
) -> Result<Box<dyn Sink>, CrawlExportError> {
    Ok(match format {
        CrawlFormat::Jsonl => Box::new(JsonLines(output)),
        CrawlFormat::Csv => Box::new(csv::Csv::new(manifest, output)?),
        #[cfg(feature = "parquet")]
        CrawlFormat::Parquet => Box::new(parquet::Parquet::new(manifest, output)?),
        #[cfg(not(feature = "parquet"))]
        CrawlFormat::Parquet => {
            let why = "--to parquet: this program was built without Parquet. Build crawlmark with `--features parquet`, or use --to csv \
                       and DuckDB: duckdb -c \"COPY (FROM 'crawl.csv') TO 'crawl.parquet' (FORMAT parquet)\"";
            return Err(CrawlExportError::Lacking(why.to_owned()));
        }
        CrawlFormat::Warc => Box::new(warc::Warc::new(manifest, output)?),
    })
}
