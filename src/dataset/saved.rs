//! A saved crawl, opened for reading: its description, its segments, and what else lies in its
//! directory. Called by `verify` and `export`. It must not change anything.

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use super::manifest::{LOCK, MANIFEST, Manifest, take_lock};
use super::segment::{Frames, SegmentName};

/// A saved crawl. No other process writes to it while this lives.
#[derive(Debug)]
pub(crate) struct SavedCrawl {
    /// Its directory.
    pub(crate) place: PathBuf,
    /// Its description.
    pub(crate) manifest: Manifest,
    /// Its segments, in the order in which they were written.
    pub(crate) segments: Vec<SavedSegment>,
    /// Names of the other files, sorted.
    pub(crate) others: Vec<String>,
    /// Sessions that counted their requests.
    pub(super) counted: Vec<u32>,
    _lock: Option<File>,
}

/// A segment of a saved crawl.
#[derive(Debug)]
pub(crate) struct SavedSegment {
    /// Its writer.
    pub(crate) name: SegmentName,
    /// Its file.
    pub(crate) path: PathBuf,
    /// Length of the file, bytes.
    pub(crate) length: u64,
}

/// Reason why a saved crawl cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SavedError {
    /// A crawl writes to it.
    #[error("read {}: a crawl is writing to it. Wait for its end, or stop it", .0.display())]
    InUse(PathBuf),
    /// The system refused.
    #[error("read {}: {error}", path.display())]
    Io {
        /// File or directory.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

impl SavedCrawl {
    /// Open the saved crawl in the directory `place`, which this describes.
    ///
    /// # Errors
    /// When a crawl is writing to it, or the system refuses.
    pub(crate) fn open(place: &Path, manifest: Manifest) -> Result<Self, SavedError> {
        let lock = lock(place)?;
        Ok(Self {
            _lock: lock,
            ..Self::locked(place, manifest)?
        })
    }

    /// Open a saved crawl that this process has locked.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn locked(place: &Path, manifest: Manifest) -> Result<Self, SavedError> {
        let (mut segments, mut counted, mut others) = (Vec::new(), Vec::new(), Vec::new());
        for entry in fs::read_dir(place).map_err(failed(place))? {
            let name = entry.map_err(failed(place))?.file_name();
            let file = name.to_string_lossy().into_owned();
            if let Some(name) = SegmentName::of_segment(&file) {
                let path = place.join(file);
                let length = fs::metadata(&path).map_err(failed(&path))?.len();
                segments.push(SavedSegment { name, path, length });
            } else if let Some(session) = SegmentName::session_of_requests(&file) {
                counted.push(session);
            } else if file != MANIFEST && file != LOCK {
                others.push(file);
            }
        }
        segments.sort_unstable_by_key(|segment| segment.name);
        others.sort_unstable();
        Ok(Self {
            place: place.to_owned(),
            manifest,
            segments,
            others,
            counted,
            _lock: None,
        })
    }

    /// Return the number of bytes of all segments.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// Return the number of sessions that it was crawled in.
    pub(crate) fn sessions(&self) -> u32 {
        self.segments
            .last()
            .map_or(0, |segment| segment.name.session)
    }
}

impl SavedSegment {
    /// Open it for reading.
    ///
    /// # Errors
    /// When the system refuses, or it does not begin as a segment.
    pub(crate) fn frames(&self) -> io::Result<Frames<File>> {
        Frames::open(File::open(&self.path)?)
    }
}

/// Lock the crawl against writers; none where it has no lock.
fn lock(place: &Path) -> Result<Option<File>, SavedError> {
    let path = place.join(LOCK);
    let file = match File::open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(failed(&path))?,
    };
    match take_lock(&file, File::try_lock_shared) {
        Err(TryLockError::WouldBlock) => Err(SavedError::InUse(place.to_owned())),
        // A file system without locks.
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(file)),
    }
}

pub(super) fn failed(path: &Path) -> impl Fn(io::Error) -> SavedError {
    move |error| SavedError::Io {
        path: path.to_owned(),
        error,
    }
}
