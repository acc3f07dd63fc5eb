//! A saved crawl, opened for reading: its description, its segments with their checkpoints, and
//! what else lies in its directory. Called by `verify` and `export`. It must not change anything.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Take};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::checkpoint::{Checkpoint, CheckpointError};
use super::manifest::{LOCK, MANIFEST, Manifest};
use super::segment::{FrameError, Frames, SegmentName};
use super::session::sent;

/// A saved crawl. No crawl writes to it while this lives.
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
    /// Its checkpoint; none if there is none.
    pub(crate) checkpoint: Option<Result<Checkpoint, CheckpointError>>,
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

/// Reader of the committed bytes of a segment, which makes their digest.
pub(crate) struct CommittedBytes {
    file: Take<File>,
    digest: Sha256,
    /// Bytes that were read.
    pub(crate) read: u64,
}

impl SavedCrawl {
    /// Open the saved crawl in the directory `place`, which this describes.
    ///
    /// # Errors
    /// When a crawl is writing to it, or the system refuses.
    pub(crate) fn open(place: &Path, manifest: Manifest) -> Result<Self, SavedError> {
        let lock = lock(place)?;
        let (mut segments, mut others) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(place).map_err(failed(place))? {
            let file = entry
                .map_err(failed(place))?
                .file_name()
                .to_string_lossy()
                .into_owned();
            match SegmentName::of_segment(&file) {
                Some(name) => segments.push(SavedSegment::open(place, name)?),
                None => others.push(file),
            }
        }
        segments.sort_unstable_by_key(|segment| segment.name);
        let counted = others
            .iter()
            .filter_map(|file| SegmentName::session_of_requests(file))
            .collect();
        let is_known = |file: &str| {
            let of_segment = |name| {
                segments
                    .binary_search_by_key(&name, |segment| segment.name)
                    .is_ok()
            };
            let is_count = SegmentName::session_of_requests(file).is_some();
            file == MANIFEST
                || file == LOCK
                || is_count
                || SegmentName::of_checkpoint(file).is_some_and(of_segment)
        };
        others.retain(|file| !is_known(file));
        others.sort_unstable();
        Ok(Self {
            place: place.to_owned(),
            manifest,
            segments,
            others,
            counted,
            _lock: lock,
        })
    }

    /// Return the number of bytes that a reader of all segments reads.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(SavedSegment::committed).sum()
    }

    /// Return the requests that all sessions sent; none if those of a session are not known.
    pub(crate) fn sent(&self) -> Option<u64> {
        let mut sessions: BTreeMap<u32, u64> =
            self.counted.iter().map(|session| (*session, 0)).collect();
        for segment in &self.segments {
            let checkpoint = segment
                .checkpoint
                .as_ref()
                .and_then(|checkpoint| checkpoint.as_ref().ok());
            let requests = checkpoint.map_or(0, |checkpoint| checkpoint.tally.attempts);
            *sessions.entry(segment.name.session).or_default() += requests;
        }
        let mut sent = sessions
            .into_iter()
            .map(|(session, requests)| sent(&self.place, session, requests));
        sent.try_fold(0_u64, |sum, sent| Some(sum.saturating_add(sent?)))
    }

    /// Return the number of sessions that it was crawled in.
    pub(crate) fn sessions(&self) -> u32 {
        self.segments
            .last()
            .map_or(0, |segment| segment.name.session)
    }
}

impl SavedSegment {
    fn open(place: &Path, name: SegmentName) -> Result<Self, SavedError> {
        let path = place.join(name.segment());
        let length = fs::metadata(&path).map_err(failed(&path))?.len();
        let checkpoint = place.join(name.checkpoint());
        let checkpoint = match fs::read(&checkpoint) {
            Ok(bytes) => Some(Checkpoint::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                return Err(SavedError::Io {
                    path: checkpoint,
                    error,
                });
            }
        };
        Ok(Self {
            name,
            path,
            length,
            checkpoint,
        })
    }

    /// Return the number of its bytes that belong to the crawl: those before its end or the commit
    /// of its checkpoint.
    pub(crate) fn committed(&self) -> u64 {
        match &self.checkpoint {
            Some(Ok(checkpoint)) => checkpoint.committed.min(self.length),
            Some(Err(_)) | None => self.length,
        }
    }

    /// Open these bytes for reading.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn read(&self) -> Result<CommittedBytes, SavedError> {
        let file = File::open(&self.path)
            .map_err(failed(&self.path))?
            .take(self.committed());
        Ok(CommittedBytes {
            file,
            digest: Sha256::new(),
            read: 0,
        })
    }

    /// Return the error of a frame: that of the system, or else its place and the reason.
    pub(crate) fn frame_error(&self, error: FrameError) -> Result<(u64, String), SavedError> {
        match error {
            FrameError::Io(error) => Err(SavedError::Io {
                path: self.path.clone(),
                error,
            }),
            FrameError::Cut { at } => Ok((at, "the file ends within a frame".to_owned())),
            FrameError::Damaged { at, why } => Ok((at, format!("the frame is damaged: {why}"))),
        }
    }
}

impl CommittedBytes {
    /// Return the frames in the bytes.
    ///
    /// # Errors
    /// When they do not begin as a segment.
    pub(crate) fn frames(&mut self) -> Result<Frames<&mut Self>, FrameError> {
        Frames::open(self)
    }

    /// Return the SHA-256 of the bytes that were read.
    pub(crate) fn digest(self) -> [u8; 32] {
        self.digest.finalize().into()
    }
}

impl Read for CommittedBytes {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.digest.update(&buffer[..count]);
        self.read += count as u64;
        Ok(count)
    }
}

/// Lock the crawl against writers; none where it has no lock.
fn lock(place: &Path) -> Result<Option<File>, SavedError> {
    let Ok(file) = File::open(place.join(LOCK)) else {
        return Ok(None);
    };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Err(SavedError::InUse(place.to_owned())),
        // A file system without locks.
        Err(TryLockError::Error(_)) => Ok(None),
        Ok(()) => Ok(Some(file)),
    }
}

fn failed(path: &Path) -> impl Fn(io::Error) -> SavedError {
    move |error| SavedError::Io {
        path: path.to_owned(),
        error,
    }
}
