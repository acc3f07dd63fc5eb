//! The records of a saved crawl as JSON lines: of each item, those of the last session in which the
//! target answered for good, or else of the last one in which it ended. Called by the command `export`, which opens the output.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Write};

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

/// Write the committed records of each item of a crawl that ended, by the session that counts.
///
/// # Errors
/// When it is damaged, or cannot be written.
pub(crate) fn export(crawl: &SavedCrawl, output: &mut impl Write) -> Result<(), CrawlExportError> {
    each_counting(crawl, |_, _, line| {
        output.write_all(line.as_bytes())?;
        Ok(output.write_all(b"\n")?)
    })
}

/// Call `each` with each record that counts, the number of its item, and its line.
///
/// # Errors
/// When the crawl is damaged, or `each` fails.
pub(super) fn each_counting(
    crawl: &SavedCrawl,
    mut each: impl FnMut(u64, &SavedRecord<'_>, &str) -> Result<(), CrawlExportError>,
) -> Result<(), CrawlExportError> {
    let counting = counting(crawl)?;
    for segment in &crawl.segments {
        if let Some(items) = counting.get(&segment.name.session) {
            each_of_segment(crawl, segment, items, &mut each)?;
        }
    }
    Ok(())
}

/// Call `each` with the records of a segment that are of items for which its session counts, and
/// that ended in it. A segment without an end ends with its last whole frame.
fn each_of_segment(
    crawl: &SavedCrawl,
    segment: &SavedSegment,
    items: &ItemSet,
    each: &mut impl FnMut(u64, &SavedRecord<'_>, &str) -> Result<(), CrawlExportError>,
) -> Result<(), CrawlExportError> {
    let shuffle = crawl.manifest.shuffle();
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
            if items.has(item) && own.has_end_of(item) {
                each(item, &record, line)?;
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

/// Return the items for which each session counts: its final records, the later ones first, and
/// others, such as those of items that a refresh may not ask for any more, only of items without any.
fn counting(crawl: &SavedCrawl) -> Result<BTreeMap<u32, ItemSet>, SavedError> {
    let mut sessions = BTreeMap::<u32, [ItemSet; 2]>::new();
    let disk = Directory::new(&crawl.place);
    for SavedSegment { name, path, .. } in &crawl.segments {
        let records = records_of(&disk, *name).map_err(failed(path))?;
        let [fresh, ended] = sessions.entry(name.session).or_default();
        // Twice in a session is for `verify` to find.
        fresh.merge(&records.fresh());
        ended.merge(&records.skipped);
        ended.merge(&records.failed);
        ended.merge(&records.abandoned);
    }
    let (mut taken, mut counting) = (ItemSet::default(), BTreeMap::<u32, ItemSet>::new());
    for of in [0, 1] {
        for (session, items) in sessions.iter().rev() {
            let free = items[of].ranges().flat_map(|range| taken.gaps(range));
            for range in free.collect::<Vec<_>>() {
                let _ = taken.add(range);
                let _ = counting.entry(*session).or_default().add(range);
            }
        }
    }
    Ok(counting)
}
