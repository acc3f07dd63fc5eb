//! One segment, as it is written.
//!
//! ```text
//! lines -> frame with its index -> segment -> [sync]: committed
//! ```
//!
//! The syncs are for [`Durability::Power`]. Called by the writer's thread; tests run it over a disk
//! that fails anywhere. After an error nothing more may be written: what is committed stays as it
//! is. It must not read clocks.

#[cfg(test)]
mod tests;

use std::io;
use std::time::Duration;

use crawlmark_harness::clock::Nanos;

use super::batch::Item;
use super::disk::{Disk, DiskError, put};
use super::item_set::ItemSet;
use super::line::{ItemState, LineWriter, outcome_name};
use super::manifest::{Durability, Saved};
use super::records::{RecordedItem, Records};
use super::segment::{Header, SegmentEncoder, SegmentName};

/// Amounts at which a log acts by itself.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// Lines of a frame, bytes.
    pub frame: usize,
    /// Bytes of the segment between two commits.
    pub commit: u64,
    /// Time between two commits while records come.
    pub every: Duration,
}

impl Default for Steps {
    /// As a crawl is saved: frames of 1 MiB, a commit each second or 16 MiB.
    fn default() -> Self {
        Self {
            frame: 1 << 20,
            commit: 16 << 20,
            every: Duration::from_secs(1),
        }
    }
}

/// Reason why a log cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system refused an operation.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// An item that has a record ended again.
    #[error(
        "item {0} ended twice, which is a bug of crawlmark. What is committed is whole: go on with --resume"
    )]
    Twice(u64),
}

/// Writer of a segment.
pub struct SegmentLog<D: Disk> {
    disk: D,
    name: SegmentName,
    durability: Durability,
    steps: Steps,
    file: D::File,
    encoder: SegmentEncoder,
    line: LineWriter,
    /// Lines that are in no frame yet, and their records.
    lines: Vec<u8>,
    records: Records,
    /// All items that ended in the segment.
    items: ItemSet,
    /// Bytes on their way to the disk.
    bytes: Vec<u8>,
    /// Bytes that were written since the last commit.
    uncommitted: u64,
    committed_at: Nanos,
}

impl<D: Disk> SegmentLog<D> {
    /// Create the segment of a writer, without records.
    ///
    /// # Errors
    /// When the system refuses, or the writer has a segment already.
    pub fn create(disk: D, header: &Header, saved: &Saved, steps: Steps) -> Result<Self, LogError> {
        let segment = header.name.segment();
        let begun = begin(&disk, header);
        let (encoder, file) = begun.map_err(DiskError::of(&disk, "create", &segment))?;
        Ok(Self {
            disk,
            name: header.name,
            durability: saved.durability,
            steps,
            file,
            encoder,
            line: LineWriter::new(saved.fields),
            lines: Vec::new(),
            records: Records::default(),
            items: ItemSet::default(),
            bytes: Vec::new(),
            uncommitted: 0,
            committed_at: Nanos::default(),
        })
    }

    /// Add a record.
    ///
    /// # Errors
    /// When the system refuses, or the item ended before.
    pub fn push(&mut self, item: &Item<'_>) -> Result<(), LogError> {
        let outcome = outcome_name(item.outcome);
        if ItemState::of(outcome).is_end() {
            self.items.insert(item.number).map_err(LogError::Twice)?;
        }
        self.records.add(&RecordedItem {
            item: item.number,
            outcome,
            attempts: item.attempts,
            at_us: Some(item.at_us),
            latency_us: item.latency_us,
        });
        self.line.append(item, &mut self.lines);
        if self.lines.len() >= self.steps.frame {
            self.write_frame()
        } else {
            Ok(())
        }
    }

    /// Commit if it is time to. Return the time until the next time.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn commit_if_due(&mut self, now: Nanos) -> Result<Duration, LogError> {
        let since = Duration::from_nanos(now.since(self.committed_at));
        let left = self.steps.every.saturating_sub(since);
        let has_more = !self.lines.is_empty() || self.uncommitted > 0;
        if has_more && left.is_zero() || self.uncommitted >= self.steps.commit {
            self.write_frame()?;
            self.commit()?;
            self.committed_at = now;
            return Ok(self.steps.every);
        }
        Ok(if has_more { left } else { self.steps.every })
    }

    /// Write what is left, and the end.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn close(mut self) -> Result<(), LogError> {
        self.write_frame()?;
        // Before the end: whoever finds that trusts what lies before it.
        self.commit()?;
        let ended = self.encoder.end(&mut self.bytes);
        self.checked("write", ended)?;
        self.append()?;
        self.commit()
    }

    /// Write the lines that are in no frame yet.
    fn write_frame(&mut self) -> Result<(), LogError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let records = std::mem::take(&mut self.records);
        let encoded = self.encoder.frame(&self.lines, records, &mut self.bytes);
        self.checked("compress lines for", encoded)?;
        self.lines.clear();
        // Not what a few long bodies needed.
        self.lines.shrink_to(2 * self.steps.frame);
        self.append()?;
        self.bytes.shrink_to(2 * self.steps.frame);
        Ok(())
    }

    /// Write `bytes` to the segment.
    fn append(&mut self) -> Result<(), LogError> {
        let written = self.disk.append(&mut self.file, &self.bytes);
        self.checked("write", written)?;
        self.uncommitted += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// Commit all records that are in frames.
    fn commit(&mut self) -> Result<(), LogError> {
        if self.durability == Durability::Power {
            let synced = self.disk.sync(&self.file);
            self.checked("sync", synced)?;
        }
        self.uncommitted = 0;
        Ok(())
    }

    /// Name the operation and the segment of an error.
    fn checked(&self, action: &'static str, done: io::Result<()>) -> Result<(), DiskError> {
        done.map_err(DiskError::of(&self.disk, action, &self.name.segment()))
    }
}

/// Put a segment in its place with its header: none is without it.
fn begin<D: Disk>(disk: &D, header: &Header) -> io::Result<(SegmentEncoder, D::File)> {
    let (segment, mut bytes) = (header.name.segment(), Vec::new());
    let encoder = SegmentEncoder::begin(header, &mut bytes)?;
    let mut file = disk.create(&SegmentName::new_file(&segment))?;
    disk.append(&mut file, &bytes)?;
    put(disk, &file, &segment)?;
    Ok((encoder, file))
}
