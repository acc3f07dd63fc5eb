//! One segment and its checkpoint, as they are written.
//!
//! ```text
//! lines -> frame -> segment -> [sync] -> NAME.checkpoint.new -> [sync] -> rename -> [sync of the names] -> committed
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
use sha2::{Digest as _, Sha256};

use super::batch::Item;
use super::checkpoint::Checkpoint;
use super::disk::{Disk, DiskError};
use super::line::{LineWriter, outcome_name};
use super::manifest::{Durability, Saved};
use super::recover::RecoverError;
use super::segment::{Header, SegmentEncoder, SegmentName};

/// Level of zstd.
const LEVEL: i32 = 3;

/// Amounts at which a log acts by itself.
#[derive(Debug, Clone, Copy)]
pub struct Steps {
    /// Lines of a frame, bytes.
    pub frame: usize,
    /// Bytes of the segment between two checkpoints.
    pub commit: u64,
    /// Time between two checkpoints while records come.
    pub every: Duration,
}

impl Default for Steps {
    /// As a crawl is saved: frames of 1 MiB, a checkpoint each second or 16 MiB.
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
    /// The segment of an earlier process, which died, cannot be recovered.
    #[error(transparent)]
    Earlier(#[from] RecoverError),
    /// An item that has a record ended again.
    #[error(
        "item {0} ended twice, which is a bug of crawlmark. What is committed is whole: go on with --resume"
    )]
    Twice(u64),
}

/// Writer of a segment and its checkpoint.
pub struct SegmentLog<D: Disk> {
    disk: D,
    name: SegmentName,
    durability: Durability,
    steps: Steps,
    file: D::File,
    encoder: SegmentEncoder,
    line: LineWriter,
    /// Lines that are in no frame yet.
    lines: Vec<u8>,
    /// Bytes on their way to the disk.
    bytes: Vec<u8>,
    /// Digest of the bytes of the segment.
    digest: Sha256,
    /// Next checkpoint, of all that was written; its digest is that of the last one.
    next: Checkpoint,
    /// Records and bytes of the segment at the last commit.
    committed: (u64, u64),
    committed_at: Nanos,
}

impl<D: Disk> SegmentLog<D> {
    /// Create the segment of a writer, with a checkpoint of no records.
    ///
    /// # Errors
    /// When the system refuses, or the writer has a segment already.
    pub fn create(disk: D, header: &Header, saved: &Saved, steps: Steps) -> Result<Self, LogError> {
        let segment = header.name.segment();
        let mut bytes = Vec::new();
        let mut start = || {
            let mut encoder = SegmentEncoder::new(LEVEL)?;
            encoder.begin(header, &mut bytes)?;
            let new = SegmentName::new_file(&segment);
            let mut file = disk.create(&new)?;
            disk.append(&mut file, &bytes)?;
            put(&disk, &file, (&new, &segment), saved.durability)?;
            Ok((encoder, file))
        };
        // No segment is without its header.
        let (encoder, file) = start().map_err(DiskError::of(&disk, "create", &segment))?;
        let mut log = Self {
            disk,
            name: header.name,
            durability: saved.durability,
            steps,
            file,
            encoder,
            line: LineWriter::new(saved.fields),
            lines: Vec::new(),
            digest: Sha256::new_with_prefix(&bytes),
            next: Checkpoint {
                committed: bytes.len() as u64,
                ..Checkpoint::default()
            },
            bytes: Vec::new(),
            committed: (0, 0),
            committed_at: Nanos::default(),
        };
        log.commit(false)?;
        Ok(log)
    }

    /// Add the record of an item.
    ///
    /// # Errors
    /// When the system refuses, or the item has a record.
    pub fn push(&mut self, item: &Item<'_>) -> Result<(), LogError> {
        self.next
            .finished
            .insert(item.number)
            .map_err(LogError::Twice)?;
        self.next.tally.record(
            outcome_name(item.outcome),
            item.attempts,
            Some(item.at_us),
            item.latency_us,
        );
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
        let (records, length) = self.committed;
        let left = self
            .steps
            .every
            .saturating_sub(Duration::from_nanos(now.since(self.committed_at)));
        let has_more = self.next.records() > records;
        if has_more && left.is_zero() || self.next.committed - length >= self.steps.commit {
            self.write_frame()?;
            self.commit(false)?;
            self.committed_at = now;
            return Ok(self.steps.every);
        }
        Ok(if has_more { left } else { self.steps.every })
    }

    /// Write what is left, the seek table and the last checkpoint.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn close(mut self) -> Result<(), LogError> {
        self.write_frame()?;
        self.encoder.end(&mut self.bytes).map_err(DiskError::of(
            &self.disk,
            "write",
            &self.name.segment(),
        ))?;
        self.append()?;
        self.commit(true)
    }

    /// Write the lines that are in no frame yet.
    fn write_frame(&mut self) -> Result<(), LogError> {
        if self.lines.is_empty() {
            return Ok(());
        }
        let encoded = self.encoder.frame(&self.lines, &mut self.bytes);
        encoded.map_err(DiskError::of(
            &self.disk,
            "compress lines for",
            &self.name.segment(),
        ))?;
        self.next.tally.line_bytes += self.lines.len() as u64;
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
        written.map_err(DiskError::of(&self.disk, "write", &self.name.segment()))?;
        self.digest.update(&self.bytes);
        self.next.committed += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }

    /// Commit all records that are in frames.
    fn commit(&mut self, is_closed: bool) -> Result<(), LogError> {
        if self.durability == Durability::Power {
            self.disk.sync(&self.file).map_err(DiskError::of(
                &self.disk,
                "sync",
                &self.name.segment(),
            ))?;
        }
        self.next.digest = self.digest.clone().finalize().into();
        self.next.is_closed = is_closed;
        put_checkpoint(&self.disk, self.name, &self.next, self.durability)?;
        self.committed = (self.next.records(), self.next.committed);
        Ok(())
    }
}

/// Put a checkpoint in the place of the one before.
///
/// # Errors
/// When the system refuses.
pub(super) fn put_checkpoint<D: Disk>(
    disk: &D,
    name: SegmentName,
    checkpoint: &Checkpoint,
    durability: Durability,
) -> Result<(), DiskError> {
    let place = name.checkpoint();
    let write = || {
        let bytes = checkpoint.encode().map_err(io::Error::other)?;
        let new = SegmentName::new_file(&place);
        let mut file = disk.create(&new)?;
        disk.append(&mut file, &bytes)?;
        put(disk, &file, (&new, &place), durability)
    };
    write().map_err(DiskError::of(disk, "write", &place))
}

/// Put a file that was written in its place.
///
/// # Errors
/// When the system refuses.
pub(super) fn put<D: Disk>(
    disk: &D,
    file: &D::File,
    (new, place): (&str, &str),
    durability: Durability,
) -> io::Result<()> {
    if durability == Durability::Process {
        return disk.rename(new, place);
    }
    disk.sync(file)?;
    disk.rename(new, place)?;
    disk.sync_names()
}
