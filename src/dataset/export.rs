//! The records of a saved crawl as JSON lines: those of each item's last session, once it ended. Called by the
//! command `export`, which opens the output.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};
use std::ops::Bound;

use super::disk::Directory;
use super::item_set::ItemSet;
use super::record::SavedRecord;
use super::recover::records_of;
use super::saved::{SavedCrawl, SavedError, SavedSegment, failed};

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
}

/// Write the committed records of each item of a crawl that ended, by the last session in which it
/// did.
///
/// # Errors
/// When it is damaged, or cannot be written.
pub(crate) fn export(crawl: &SavedCrawl, output: &mut impl Write) -> Result<(), CrawlExportError> {
    let later = recorded(crawl)?;
    for segment in &crawl.segments {
        write_segment(crawl, segment, &later, output)?;
    }
    Ok(())
}

/// Write the records of the items that ended in a segment, of which those of failed items count
/// unless a later session has one. A segment without an end ends with its last whole frame.
fn write_segment(
    crawl: &SavedCrawl,
    segment: &SavedSegment,
    recorded: &BTreeMap<u32, ItemSet>,
    output: &mut impl Write,
) -> Result<(), CrawlExportError> {
    let shuffle = crawl.manifest.shuffle();
    let later = (Bound::Excluded(segment.name.session), Bound::Unbounded);
    let Some(mut frames) = unless_cut(segment, segment.frames().map(Some))? else {
        return Ok(());
    };
    let own = records_of(&Directory::new(&crawl.place), segment.name)
        .map_err(|error| of_read(segment, error))?;
    while unless_cut(segment, frames.next_frame())?.is_some() {
        let start = frames.start();
        let lines = frames.lines().map_err(|error| of_read(segment, error))?;
        for line in lines.split_terminator('\n') {
            let record = SavedRecord::parse(line)
                .map_err(|error| damaged(segment, format!("the frame at byte {start}: {error}")))?;
            let item = shuffle.map_or(record.id, |shuffle| shuffle.item(record.id));
            let is_replaced = || recorded.range(later).any(|(_, items)| items.has(item));
            if own.finished.has(item) || own.has_end_of(item) && !is_replaced() {
                output.write_all(line.as_bytes())?;
                output.write_all(b"\n")?;
            }
        }
    }
    Ok(())
}

fn damaged(segment: &SavedSegment, what: String) -> CrawlExportError {
    CrawlExportError::Damaged {
        file: segment.path.display().to_string(),
        what,
    }
}

/// Damage of the segment, or the system's refusal to read it.
fn of_read(segment: &SavedSegment, error: io::Error) -> CrawlExportError {
    match error.kind() {
        ErrorKind::InvalidData => damaged(segment, error.to_string()),
        _ => failed(&segment.path)(error).into(),
    }
}

/// Return nothing of a segment that was cut before the next frame.
fn unless_cut<T>(
    segment: &SavedSegment,
    read: io::Result<Option<T>>,
) -> Result<Option<T>, CrawlExportError> {
    match read {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        read => read.map_err(|error| of_read(segment, error)),
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
