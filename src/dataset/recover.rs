//! Brings the segments of a saved crawl to their whole frames, so that the crawl can go on: after a
//! process that died, before `--resume`, and at the end of a session.
//!
//! A segment that has no end, because its process died, or holds damaged frames is replaced by a
//! copy of its whole frames with an end: what lies between or beyond them is gone, and its items
//! are crawled again. Where items have several records, only frames before the first damage are
//! kept, so that each item that ended has all of its own. No other process may write the crawl.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind, Read, Seek};

use clap::ValueEnum;

use super::disk::{Disk, DiskError, put};
use super::item_set::ItemSet;
use super::line::ItemState;
use super::records::Records;
use super::segment::{Frames, SegmentEncoder, SegmentName, end};

/// State of a saved crawl.
#[derive(Debug, Default)]
pub struct Recovered {
    /// Items that are not asked for again: finished ones, and those that [`Retry`] leaves out.
    pub finished: ItemSet,
    /// Items among them that failed or were abandoned.
    pub left_out: u64,
    /// Records of each session, and bytes of its segments.
    pub sessions: BTreeMap<u32, SessionRecords>,
    /// Sentences about what was damaged.
    pub notes: Vec<String>,
}

/// Records of a session.
#[derive(Debug, Clone, Default)]
pub struct SessionRecords {
    /// Its records.
    pub records: Records,
    /// Bytes of its segments.
    pub bytes: u64,
}

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
            ItemState::UnderWay => true,
            ItemState::Good | ItemState::NotModified | ItemState::NotFound | ItemState::Skipped => {
                false
            }
        }
    }
}

/// Recover all segments of a crawl. The sessions before `since` finish nothing.
///
/// # Errors
/// When the start of a segment is damaged or the system refuses. Nothing that is whole was changed;
/// recovering again is safe.
pub fn recover<D: Disk>(disk: &D, since: u32, retry: Retry) -> Result<Recovered, DiskError> {
    let mut recovered = Recovered::default();
    let (mut all, mut fresh) = (Records::default(), ItemSet::default());
    for (name, state) in segments(disk, 0, Reading::Frames)? {
        fresh.merge(&state.records.fresh());
        if name.session >= since {
            all.merge(&state.records);
        }
        let session = recovered.sessions.entry(name.session).or_default();
        session.bytes += state.bytes;
        if let Some(damage) = state.damage {
            let (file, kept) = (disk.path(&name.segment()), state.records.count());
            recovered.notes.push(format!(
                "{}: {damage}. Its {kept} records in whole frames were kept; its other items are crawled again",
                file.display()
            ));
        }
        session.records.merge(&state.records);
    }
    // One that is not modified, and whose record was lost since, has to be fetched.
    let lost = all
        .not_modified
        .ranges()
        .flat_map(|range| fresh.gaps(range));
    for range in lost.collect::<Vec<_>>() {
        all.finished.remove(range);
    }
    let finished = all.finished.len();
    recovered.finished = all.finished;
    for (items, state) in [
        (&all.failed, ItemState::Failed),
        (&all.abandoned, ItemState::Abandoned),
    ] {
        if !retry.asks_for(state) {
            recovered.finished.merge(items);
        }
    }
    recovered.left_out = recovered.finished.len() - finished;
    Ok(recovered)
}

/// Recover the segments of a session that is over, and return its records. Only those whose
/// processes died are read as a whole.
///
/// # Errors
/// As [`recover`].
pub fn recover_session<D: Disk>(disk: &D, session: u32) -> Result<SessionRecords, DiskError> {
    let mut all = SessionRecords::default();
    for state in segments(disk, session, Reading::Indexes)?.values() {
        all.records.merge(&state.records);
        all.bytes += state.bytes;
    }
    Ok(all)
}

/// Return the records of a segment by its indexes: none of one that was not begun. Changes nothing,
/// and reads no frame: it takes a moment for one of many GB.
///
/// # Errors
/// When the system refuses.
pub fn records_of<D: Disk>(disk: &D, name: SegmentName) -> io::Result<Records> {
    match disk.open(&name.segment()) {
        Ok(file) => Ok(read(&mut Frames::open(file)?, Reading::Indexes, |_| Ok(()))?.records),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Records::default()),
        Err(error) => Err(error),
    }
}

/// State of a segment.
#[derive(Debug, Default)]
pub(super) struct SegmentState {
    /// Records of its whole frames.
    pub(super) records: Records,
    /// Number of these frames.
    frames: u32,
    /// Bytes of the segment.
    bytes: u64,
    is_closed: bool,
    /// First thing that is damaged.
    damage: Option<String>,
}

/// What is read of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reading {
    Frames,
    Indexes,
}

/// Read the rest of a segment, and call `each` after each whole frame.
fn read<R: Read + Seek>(
    frames: &mut Frames<R>,
    reading: Reading,
    mut each: impl FnMut(&Frames<R>) -> io::Result<()>,
) -> io::Result<SegmentState> {
    let mut state = SegmentState::default();
    loop {
        let next = match reading {
            Reading::Frames => frames.next_frame(),
            Reading::Indexes => frames.skip_frame(),
        };
        match next {
            Ok(Some(records)) if reading == Reading::Frames && !frames.is_whole() => {
                state.damage.get_or_insert_with(|| {
                    format!("the frame at byte {} is damaged", frames.start())
                });
                // An item that ends in a later frame may have records in this one.
                if state.records.has_steps() || records.has_steps() {
                    break;
                }
            }
            Ok(Some(records)) => {
                state.records.merge(&records);
                state.frames += 1;
                each(frames)?;
            }
            Ok(None) => break,
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => break,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                state.damage.get_or_insert_with(|| error.to_string());
                break;
            }
            Err(error) => return Err(error),
        }
    }
    (state.bytes, state.is_closed) = (frames.at(), frames.is_closed());
    Ok(state)
}

/// Recover the segments of the sessions from `first` on.
fn segments<D: Disk>(
    disk: &D,
    first: u32,
    reading: Reading,
) -> Result<BTreeMap<SegmentName, SegmentState>, DiskError> {
    // A rename whose sync failed is seen, and may not be on the disk.
    disk.sync_names().map_err(DiskError::of(disk, "sync", ""))?;
    let mut segments = BTreeMap::new();
    for file in disk.list().map_err(DiskError::of(disk, "list", ""))? {
        let whole = file.strip_suffix(SegmentName::NEW).unwrap_or(&file);
        let Some(name) = SegmentName::of_segment(whole).filter(|name| name.session >= first) else {
            continue;
        };
        if whole != file {
            disk.remove(&file)
                .map_err(DiskError::of(disk, "remove", &file))?;
            continue;
        }
        let state = disk
            .open(&file)
            .and_then(Frames::open)
            .and_then(|mut frames| read(&mut frames, reading, |_| Ok(())));
        segments.insert(name, state.map_err(DiskError::of(disk, "read", &file))?);
    }
    for (name, state) in &mut segments {
        if !state.is_closed || state.damage.is_some() {
            let file = name.segment();
            match copy(disk, disk, *name) {
                Ok(copied) => {
                    *state = SegmentState {
                        damage: state.damage.take().or(copied.damage),
                        ..copied
                    };
                }
                // The disk may be full; it is for the next session.
                Err(_) if reading == Reading::Indexes => {
                    let _ = disk.remove(&SegmentName::new_file(&file));
                }
                Err(error) => return Err(DiskError::of(disk, "copy", &file)(error)),
            }
        }
    }
    Ok(segments)
}

/// Copy the whole frames of a segment, with an end, and return the state of the copy. After a
/// failed fsync(2) the system may show bytes that the disk does not have, and that no later
/// fsync(2) writes: only a copy is sure to be on the disk.
pub(super) fn copy(
    from: &impl Disk,
    to: &impl Disk,
    name: SegmentName,
) -> io::Result<SegmentState> {
    let place = name.segment();
    let mut frames = Frames::open(from.open(&place)?)?;
    let mut file = to.create(&SegmentName::new_file(&place))?;
    let mut bytes = Vec::new();
    SegmentEncoder::begin(frames.header(), &mut bytes)?;
    to.append(&mut file, &bytes)?;
    let mut length = bytes.len();
    let mut state = read(&mut frames, Reading::Frames, |frames| {
        frames.bytes().into_iter().try_for_each(|part| {
            length += part.len();
            to.append(&mut file, part)
        })
    })?;
    bytes.clear();
    end(state.frames, &mut bytes)?;
    to.append(&mut file, &bytes)?;
    put(to, &file, &place)?;
    state.bytes = (length + bytes.len()) as u64;
    Ok(state)
}
