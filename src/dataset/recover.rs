//! Brings the segments of a saved crawl to what is committed, so that the crawl can go on: after a
//! process that died, before `--resume`.
//!
//! Each segment is checked against its checkpoint, and what lies beyond the committed bytes is
//! removed: its items are crawled again. A segment without a checkpoint gets one from its whole
//! frames. Items that failed or were abandoned are told from finished ones by their records, so
//! that a segment which has some is read. A checkpoint or segment that is damaged is refused, with
//! the remedy. No other process may write the crawl.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::PathBuf;

use clap::ValueEnum;
use sha2::{Digest as _, Sha256};

use super::checkpoint::{Checkpoint, CheckpointError, RecordCounts};
use super::disk::{Disk, DiskError};
use super::finished::Finished;
use super::line::ItemState;
use super::log::{put, put_checkpoint};
use super::manifest::Durability;
use super::record::SavedRecord;
use super::segment::{FrameError, Frames, SegmentName};

/// State of a saved crawl.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Items that are not asked for again: finished ones, and those that [`Retry`] leaves out.
    pub finished: Finished,
    /// Items among them that failed or were abandoned.
    pub left_out: u64,
    /// Counts of the records.
    pub tally: RecordCounts,
    /// Number of the last session; 0 without any.
    pub sessions: u32,
    /// Sentences about what was rebuilt.
    pub notes: Vec<String>,
}

/// Next step when committed bytes of a segment are damaged.
pub(crate) const DAMAGE_REMEDY: &str = "Restore the file from a backup, or move its checkpoint elsewhere: `crawlmark run --resume` then \
     keeps the records before the damage and crawls the other items again. If `crawlmark verify` still names the file, move both, so that all \
     of its items are crawled again";

/// Next step when a checkpoint is damaged.
pub(crate) const CHECKPOINT_REMEDY: &str = "Restore the checkpoint from a backup, or move it elsewhere: `crawlmark run --resume` then rebuilds it from its segment";

/// Reason why a saved crawl cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The system refused an operation.
    #[error(transparent)]
    Disk(#[from] DiskError),
    /// The checkpoint is damaged.
    #[error("{} cannot be used: {why}. {CHECKPOINT_REMEDY}", path.display())]
    Checkpoint {
        /// The checkpoint.
        path: PathBuf,
        /// Details.
        why: CheckpointError,
    },
    /// The segment is not the one that the checkpoint is about.
    #[error("{} is damaged: {why}. {DAMAGE_REMEDY}", path.display())]
    Segment {
        /// The segment.
        path: PathBuf,
        /// Details.
        why: String,
    },
    /// The segment has no checkpoint, and does not hold the records of this crawl alone.
    #[error(
        "{} has no checkpoint, and none can be made: {why}. Restore the checkpoint from a backup, or move the segment elsewhere: its items \
         are then crawled again", path.display()
    )]
    Foreign {
        /// The segment.
        path: PathBuf,
        /// Details.
        why: String,
    },
    /// A segment has a record of an item that an earlier one says is finished.
    #[error(
        "{} has a record of item {item}, which was finished before. Move this one and its checkpoint elsewhere: items that are in no other \
         are then crawled again", path.display()
    )]
    Twice {
        /// The later segment.
        path: PathBuf,
        /// Number of the item.
        item: u64,
    },
}

/// Bytes that are read at a time.
const BUFFER: usize = 256 << 10;

/// Items that a resumed session asks for again, of those whose last record is not good, not found
/// or skipped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Retry {
    /// Failed ones.
    Failed,
    /// Abandoned ones: throttled until the end.
    Abandoned,
    /// Both.
    #[default]
    All,
    /// None.
    None,
}

impl Retry {
    const fn asks_for(self, state: ItemState) -> bool {
        match state {
            ItemState::Failed => matches!(self, Self::Failed | Self::All),
            ItemState::Abandoned => matches!(self, Self::Abandoned | Self::All),
            ItemState::Good | ItemState::NotFound | ItemState::Skipped => false,
        }
    }
}

/// Recover all segments of a crawl. `item_of` returns the number of the item with an ID, or the
/// reason why that cannot be known.
///
/// # Errors
/// When a file is damaged or the system refuses. Nothing that is committed was changed; recovering
/// again is safe.
pub fn recover<D: Disk>(
    disk: &D,
    item_of: impl Fn(u64) -> Result<u64, String>,
    retry: Retry,
) -> Result<Recovered, RecoverError> {
    let files = Files::list(disk)?;
    let names = files.lengths.keys().filter_map(|file| {
        let file = file.strip_suffix(SegmentName::NEW).unwrap_or(file);
        SegmentName::of_segment(file).or_else(|| SegmentName::of_checkpoint(file))
    });
    let mut names: Vec<SegmentName> = names.collect();
    names.sort_unstable();
    names.dedup();
    let mut recovered = Recovered {
        sessions: names.last().map_or(0, |name| name.session),
        ..Recovered::default()
    };
    // By their last record.
    let mut left_out = Finished::default();
    for name in names {
        let Some((checkpoint, note)) = files.recover(name, Check::Digest, &item_of)? else {
            continue;
        };
        let twice = |item| RecoverError::Twice {
            path: disk.path(&name.segment()),
            item,
        };
        for range in checkpoint.finished.ranges() {
            if let Some(again) = recovered.finished.common(range).next() {
                return Err(twice(again.start));
            }
            left_out.remove(range);
        }
        let (finished, not_asked) = if checkpoint.tally.finished() == checkpoint.records() {
            (checkpoint.finished, Finished::default())
        } else {
            files.sorted(name, checkpoint.committed, (&item_of, retry))?
        };
        finished
            .ranges()
            .try_for_each(|range| recovered.finished.add(range))
            .map_err(twice)?;
        not_asked
            .ranges()
            .try_for_each(|range| left_out.add(range))
            .map_err(twice)?;
        recovered.tally.merge(checkpoint.tally);
        recovered.notes.extend(note);
    }
    recovered.left_out = left_out.len();
    // Disjoint: nothing is left out once it is finished.
    let _ = left_out
        .ranges()
        .try_for_each(|range| recovered.finished.add(range));
    Ok(recovered)
}

/// Return the last checkpoint of a process that died; none if it had not written any. Changes
/// nothing, and reads no segment: it takes as long for one of many GB. The next [`recover`] checks
/// the digest.
///
/// # Errors
/// When the checkpoint is damaged, its segment is shorter, or the system refuses.
pub fn last_checkpoint<D: Disk>(
    disk: &D,
    name: SegmentName,
) -> Result<Option<Checkpoint>, RecoverError> {
    Files::list(disk)?.checkpoint(name)
}

/// Recover the segments of the processes whose place this one takes, without a look at what is
/// committed.
///
/// # Errors
/// As for [`last_checkpoint`].
pub fn recover_earlier_lives<D: Disk>(disk: &D, name: SegmentName) -> Result<(), RecoverError> {
    let files = Files::list(disk)?;
    // A log begins with a checkpoint: without one, its segment has no records.
    let never = |_| Err("its process died before the first record".to_owned());
    (0..name.life).try_for_each(|life| {
        files
            .recover(SegmentName { life, ..name }, Check::Length, &never)
            .map(drop)
    })
}

/// Property of a committed segment that is checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Its length.
    Length,
    /// Its length and its digest, for which it is read.
    Digest,
}

/// Files of a saved crawl, with their lengths in bytes.
struct Files<'a, D> {
    disk: &'a D,
    lengths: BTreeMap<String, u64>,
}

impl<'a, D: Disk> Files<'a, D> {
    fn list(disk: &'a D) -> Result<Self, RecoverError> {
        let files = disk.list().map_err(DiskError::of(disk, "list", ""))?;
        Ok(Self {
            disk,
            lengths: files.into_iter().collect(),
        })
    }

    /// Bring a segment to what is committed. Return its checkpoint, with a note if it was rebuilt;
    /// none without any of its files.
    fn recover(
        &self,
        name: SegmentName,
        check: Check,
        item_of: &impl Fn(u64) -> Result<u64, String>,
    ) -> Result<Option<(Checkpoint, Option<String>)>, RecoverError> {
        let disk = self.disk;
        let (segment, place) = (name.segment(), name.checkpoint());
        let new = [&segment, &place].map(|file| SegmentName::new_file(file));
        for new in new.iter().filter(|new| self.lengths.contains_key(*new)) {
            disk.remove(new)
                .map_err(DiskError::of(disk, "remove", new))?;
        }
        let length = self.lengths.get(&segment).copied();
        let Some(checkpoint) = self.checkpoint(name)? else {
            return length.map_or(Ok(None), |length| rebuild(disk, name, length, item_of));
        };
        let committed = checkpoint.committed;
        if check == Check::Digest {
            let digest = digest_of(disk, &segment, committed)
                .map_err(DiskError::of(disk, "read", &segment))?;
            if digest != checkpoint.digest {
                let why = format!(
                    "its first {committed} bytes are not those that its checkpoint says are committed"
                );
                return Err(self.damaged(name, why));
            }
            // Its rename may be one of which the directory's fsync failed: the system shows it, and
            // the disk may have an older one.
            put_checkpoint(disk, name, &checkpoint, Durability::Power)?;
        }
        if length > Some(committed) {
            disk.truncate(&segment, committed)
                .map_err(DiskError::of(disk, "truncate", &segment))?;
        }
        Ok(Some((checkpoint, None)))
    }

    /// Read the checkpoint of a segment, which is at least as long as it says; none if there is no
    /// checkpoint.
    fn checkpoint(&self, name: SegmentName) -> Result<Option<Checkpoint>, RecoverError> {
        let (disk, place) = (self.disk, name.checkpoint());
        if !self.lengths.contains_key(&place) {
            return Ok(None);
        }
        let mut bytes = Vec::new();
        let read = disk
            .open(&place)
            .and_then(|mut file| file.read_to_end(&mut bytes));
        read.map_err(DiskError::of(disk, "read", &place))?;
        let checkpoint = Checkpoint::decode(&bytes).map_err(|why| RecoverError::Checkpoint {
            path: disk.path(&place),
            why,
        })?;
        let (length, committed) = (
            self.lengths.get(&name.segment()).copied().unwrap_or(0),
            checkpoint.committed,
        );
        if length < committed {
            let why = format!(
                "it has {length} bytes, and its checkpoint says that {committed} are committed"
            );
            return Err(self.damaged(name, why));
        }
        Ok(Some(checkpoint))
    }

    /// Return the items of a segment that are finished, and the others that are not asked for
    /// again.
    fn sorted(
        &self,
        name: SegmentName,
        committed: u64,
        (item_of, retry): (&impl Fn(u64) -> Result<u64, String>, Retry),
    ) -> Result<(Finished, Finished), RecoverError> {
        let segment = name.segment();
        let file = self
            .disk
            .open(&segment)
            .map_err(DiskError::of(self.disk, "read", &segment))?;
        let (mut finished, mut not_asked) = (Finished::default(), Finished::default());
        let damaged = |why| self.damaged(name, why);
        let mut frames =
            Frames::open(file.take(committed)).map_err(|error| damaged(error.to_string()))?;
        let end = each_record(&mut frames, |record, _| {
            let set = match record.state() {
                state if state.is_finished() => &mut finished,
                state if retry.asks_for(state) => return Ok(()),
                _ => &mut not_asked,
            };
            set.insert(item_of(record.id)?)
                .map_err(|_| format!("it holds ID {} twice", record.id))
        });
        match end.map_err(damaged)? {
            None => Ok((finished, not_asked)),
            Some(error) => Err(damaged(error.to_string())),
        }
    }

    fn damaged(&self, name: SegmentName, why: String) -> RecoverError {
        RecoverError::Segment {
            path: self.disk.path(&name.segment()),
            why,
        }
    }
}

/// Make the checkpoint of a segment of this length from its whole frames, and remove what follows
/// them. The segment is copied.
fn rebuild<D: Disk>(
    disk: &D,
    name: SegmentName,
    length: u64,
    item_of: &impl Fn(u64) -> Result<u64, String>,
) -> Result<Option<(Checkpoint, Option<String>)>, RecoverError> {
    let segment = name.segment();
    let refused = |error| RecoverError::Disk(DiskError::of(disk, "read", &segment)(error));
    let foreign = |why| RecoverError::Foreign {
        path: disk.path(&segment),
        why,
    };
    let mut checkpoint = Checkpoint::default();
    let mut frames = match Frames::open(disk.open(&segment).map_err(refused)?) {
        Ok(frames) => frames,
        Err(FrameError::Io(error)) => return Err(refused(error)),
        // No record was in it.
        Err(FrameError::Cut { .. }) => {
            disk.remove(&segment)
                .map_err(DiskError::of(disk, "remove", &segment))?;
            return Ok(None);
        }
        Err(error @ FrameError::Damaged { .. }) => return Err(foreign(error.to_string())),
    };
    let counted = each_record(&mut frames, |record, line| {
        let item = item_of(record.id)?;
        checkpoint
            .finished
            .insert(item)
            .map_err(|_| format!("it holds ID {} twice", record.id))?;
        let tally = &mut checkpoint.tally;
        tally.record(
            &record.outcome.0,
            record.attempts.unwrap_or(0),
            record.at_us()?,
            record.latency_us,
        );
        tally.line_bytes += line.len() as u64 + 1;
        Ok(())
    });
    if let Some(FrameError::Io(error)) = counted.map_err(foreign)? {
        return Err(refused(error));
    }
    (checkpoint.committed, checkpoint.is_closed) = (frames.at(), frames.is_closed());
    checkpoint.digest = rewrite(disk, &segment, checkpoint.committed)
        .map_err(DiskError::of(disk, "copy", &segment))?;
    put_checkpoint(disk, name, &checkpoint, Durability::Power)?;
    let note = format!(
        "rebuilt the checkpoint of {}: {} records in {} of {length} bytes",
        disk.path(&segment).display(),
        checkpoint.records(),
        checkpoint.committed
    );
    Ok(Some((checkpoint, Some(note))))
}

/// Replace a file by a copy of its first bytes, and return their SHA-256. After a failed fsync(2)
/// the system may show bytes that the disk does not have, and that no later fsync(2) writes: only a
/// copy is sure to be on the disk before a checkpoint of it.
fn rewrite<D: Disk>(disk: &D, name: &str, length: u64) -> io::Result<[u8; 32]> {
    let new = SegmentName::new_file(name);
    let mut copy = disk.create(&new)?;
    let digest = digest_each(disk, name, length, |bytes| disk.append(&mut copy, bytes))?;
    put(disk, &copy, (&new, name), Durability::Power)?;
    Ok(digest)
}

/// Return the SHA-256 of the first bytes of a file.
fn digest_of<D: Disk>(disk: &D, name: &str, length: u64) -> io::Result<[u8; 32]> {
    digest_each(disk, name, length, |_| Ok(()))
}

/// Call `each` for the first bytes of a file, piece by piece, and return their SHA-256.
fn digest_each<D: Disk>(
    disk: &D,
    name: &str,
    length: u64,
    mut each: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<[u8; 32]> {
    let (mut file, mut digest, mut buffer) = (
        disk.open(name)?.take(length),
        Sha256::new(),
        vec![0; BUFFER],
    );
    loop {
        match file.read(&mut buffer) {
            Ok(0) => return Ok(digest.finalize().into()),
            Ok(read) => {
                digest.update(&buffer[..read]);
                each(&buffer[..read])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Call `each` for the records of all whole frames, with their lines. Return the error that ended
/// the reading; none at the end.
fn each_record<R: Read>(
    frames: &mut Frames<R>,
    mut each: impl FnMut(&SavedRecord<'_>, &str) -> Result<(), String>,
) -> Result<Option<FrameError>, String> {
    loop {
        let frame = match frames.next_frame() {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(None),
            Err(error) => return Ok(Some(error)),
        };
        let lines = str::from_utf8(frame.lines).map_err(|error| error.to_string())?;
        for line in lines.split_terminator('\n') {
            let record = SavedRecord::parse(line);
            each(
                &record.map_err(|error| format!("it holds a line that is no record: {error}"))?,
                line,
            )?;
        }
    }
}
