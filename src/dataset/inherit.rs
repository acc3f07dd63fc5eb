//! Copy of what another process has committed of a saved crawl, for one that goes on with it in a
//! directory of its own.
//!
//! The other process may be dead, stopped or still writing: nothing of its directory is changed,
//! and no file is shared with it. Called when a part of a crawl is run again.

use std::io;
use std::path::Path;

use super::disk::{Directory, Disk};
use super::manifest::Manifest;
use super::recover::{copy, records_of};
use super::segment::SegmentName;

/// Segments of a saved crawl that hold finished items, with their numbers of them.
#[derive(Debug)]
pub(crate) struct Committed {
    manifest: Manifest,
    segments: Vec<(u64, SegmentName)>,
}

impl Committed {
    /// Read the indexes of the crawl in the directory `place`; none if it has no crawl, or no
    /// finished item. Segments that cannot be read are left out.
    pub(crate) fn read(place: &Path) -> Option<Self> {
        let manifest = Manifest::read(place).ok()?;
        let disk = Directory::new(place);
        let names = disk
            .list()
            .ok()?
            .into_iter()
            .filter_map(|file| SegmentName::of_segment(&file));
        let counted =
            names.filter_map(|name| Some((records_of(&disk, name).ok()?.finished.len(), name)));
        let mut segments: Vec<_> = counted.filter(|(finished, _)| *finished > 0).collect();
        segments.sort_unstable();
        let committed = Self { manifest, segments };
        Some(committed.with_rest()).filter(|committed| !committed.segments.is_empty())
    }

    /// Leave a segment out if all items are finished: a session without an item has no result.
    fn with_rest(mut self) -> Self {
        if self.items() >= self.manifest.ids.len() {
            self.segments.remove(0);
        }
        self
    }

    /// Return the number of items that are finished: no item is in two segments.
    pub(crate) fn items(&self) -> u64 {
        self.segments.iter().map(|(finished, _)| finished).sum()
    }

    /// Copy the crawl in the directory `from`, of which this is, to the directory `to`, to files of
    /// this mode, and return the number of finished items.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn copy(mut self, from: &Path, to: &Path, mode: u32) -> io::Result<u64> {
        self.manifest.saved.mode = mode;
        let [from, own] = [from, to].map(|place| Directory::with_mode(place, mode));
        let mut items = 0;
        for (_, name) in &self.segments {
            items += copy(&from, &own, *name)?.records.finished.len();
        }
        self.manifest.write(to)?;
        Ok(items)
    }
}
