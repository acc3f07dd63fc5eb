//! Copy of what another process has committed of a saved crawl, for one that goes on with it in a
//! directory of its own.
//!
//! The other process may be dead, stopped or still writing: nothing of its directory is changed,
//! and no file is shared with it. A checkpoint is replaced as a whole after its bytes were written,
//! so that the checkpoint read first and then these bytes are a state that was committed. Called
//! when a part of a crawl is run again.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

use super::checkpoint::Checkpoint;
use super::manifest::Manifest;
use super::segment::SegmentName;

/// Bytes that are copied at a time.
const BUFFER: usize = 256 << 10;

/// Committed segments of a saved crawl, as their checkpoints were at one moment each.
#[derive(Debug)]
pub(crate) struct Committed {
    manifest: Manifest,
    segments: Vec<(SegmentName, Checkpoint, Vec<u8>)>,
}

impl Committed {
    /// Read the checkpoints of the crawl in the directory `place`; none if it has no crawl, or no
    /// finished item. Damaged ones are left out.
    pub(crate) fn read(place: &Path) -> Option<Self> {
        let manifest = Manifest::read(place).ok()?;
        let names = fs::read_dir(place)
            .ok()?
            .flatten()
            .map(|entry| entry.file_name());
        let names = names.filter_map(|name| SegmentName::of_checkpoint(name.to_str()?));
        let read = |name: SegmentName| {
            let bytes = fs::read(place.join(name.checkpoint())).ok()?;
            let checkpoint = Checkpoint::decode(&bytes).ok()?;
            (checkpoint.tally.finished() > 0).then_some((name, checkpoint, bytes))
        };
        let mut segments: Vec<_> = names.filter_map(read).collect();
        segments.sort_unstable_by_key(|(_, checkpoint, _)| checkpoint.tally.finished());
        if Self::finished(&segments) >= manifest.ids.len() {
            // A crawl needs something to do: a session without an item has no result.
            segments.remove(0);
        }
        (!segments.is_empty()).then_some(Self { manifest, segments })
    }

    /// Return the number of items that are finished: no item is in two segments.
    fn finished(segments: &[(SegmentName, Checkpoint, Vec<u8>)]) -> u64 {
        segments
            .iter()
            .map(|(_, checkpoint, _)| checkpoint.tally.finished())
            .sum()
    }

    /// Return the number of items that are finished.
    pub(crate) fn items(&self) -> u64 {
        Self::finished(&self.segments)
    }

    /// Copy the crawl in the directory `from`, of which this is, to the directory `to`, and return
    /// the number of finished items. Segments that are not what their checkpoints say are left out.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn copy(self, from: &Path, to: &Path) -> io::Result<u64> {
        fs::create_dir_all(to)?;
        let mut items = 0;
        for (name, checkpoint, bytes) in &self.segments {
            let path = to.join(name.segment());
            let digest = copy(&from.join(name.segment()), &path, checkpoint.committed)?;
            if digest == checkpoint.digest {
                let mut file = File::create_new(to.join(name.checkpoint()))?;
                file.write_all(bytes)?;
                file.sync_all()?;
                items += checkpoint.tally.finished();
            } else {
                fs::remove_file(path)?;
            }
        }
        if items > 0 {
            self.manifest.write(to)?;
        } else {
            fs::remove_dir(to)?;
        }
        Ok(items)
    }
}

/// Copy the first bytes of a file, and return their SHA-256.
fn copy(from: &Path, to: &Path, length: u64) -> io::Result<[u8; 32]> {
    let (mut from, mut to) = (File::open(from)?.take(length), File::create_new(to)?);
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; BUFFER]);
    loop {
        match from.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => {
                digest.update(&buffer[..read]);
                to.write_all(&buffer[..read])?;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    to.sync_all()?;
    Ok(digest.finalize().into())
}
