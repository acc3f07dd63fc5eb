//! Files of a saved crawl: the few operations that the log and recovery are built from, and their
//! errors.
//!
//! [`Directory`] is the real one; tests have another, which fails and loses power at any call. It
//! must not know what the files hold.

#[cfg(test)]
pub(super) mod tests;

use std::fs::{self, File};
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};

use crawlmark_harness::files::{PRIVATE, Root};

use super::segment::SegmentName;

/// Files in one directory, by name.
///
/// A process that is killed keeps what was written and renamed. A power cut keeps the bytes before
/// the last [`sync`](Self::sync) of a file and the names before the last
/// [`sync_names`](Self::sync_names), and any part of the rest.
pub trait Disk {
    /// File that is being written.
    type File;

    /// Create an empty file.
    ///
    /// # Errors
    /// When there is one of this name, or the system refuses.
    fn create(&self, name: &str) -> io::Result<Self::File>;

    /// Write behind the last byte.
    ///
    /// # Errors
    /// When the system refuses. A part may have been written.
    fn append(&self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;

    /// Wait until the disk has the bytes of a file.
    ///
    /// # Errors
    /// When the system refuses. Any part since the last time may be lost, and asking again proves
    /// nothing.
    fn sync(&self, file: &Self::File) -> io::Result<()>;

    /// Wait until the disk has the names of all files.
    ///
    /// # Errors
    /// When the system refuses.
    fn sync_names(&self) -> io::Result<()>;

    /// Give a file another name; a file that had it is gone.
    ///
    /// # Errors
    /// When the system refuses.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Remove a file.
    ///
    /// # Errors
    /// When the system refuses.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Open a file for reading.
    ///
    /// # Errors
    /// When there is none, or the system refuses.
    fn open(&self, name: &str) -> io::Result<impl Read + Seek>;

    /// Return the names of all files. Those that another process renames at this moment may be
    /// missing.
    ///
    /// # Errors
    /// When the system refuses.
    fn list(&self) -> io::Result<Vec<String>>;

    /// Return the path of a file, for messages.
    fn path(&self, name: &str) -> PathBuf;
}

/// Directory of a saved crawl.
#[derive(Debug, Clone)]
pub struct Directory {
    path: PathBuf,
    mode: u32,
}

impl Directory {
    /// Name a directory, which must be there.
    pub fn new(path: &Path) -> Self {
        Self::with_mode(path, PRIVATE)
    }

    /// Name a directory whose new files have these permissions.
    pub fn with_mode(path: &Path, mode: u32) -> Self {
        let path = path.to_owned();
        Self { path, mode }
    }
}

impl Disk for Directory {
    type File = File;

    fn create(&self, name: &str) -> io::Result<File> {
        Root::with_mode(&self.path, self.mode).create(name)
    }

    fn append(&self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&self, file: &File) -> io::Result<()> {
        file.sync_data()
    }

    fn sync_names(&self) -> io::Result<()> {
        File::open(&self.path)?.sync_all()
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.path(name))
    }

    fn open(&self, name: &str) -> io::Result<impl Read + Seek> {
        File::open(self.path(name))
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            // Other names are not ours.
            files.extend(entry?.file_name().into_string());
        }
        Ok(files)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

/// Put a file that was written under its [new name](SegmentName::new_file) in its place: it is on
/// the disk when this returns.
///
/// # Errors
/// When the system refuses.
pub(super) fn put<D: Disk>(disk: &D, file: &D::File, place: &str) -> io::Result<()> {
    disk.sync(file)?;
    disk.rename(&SegmentName::new_file(place), place)?;
    disk.sync_names()
}

/// An operation that the system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} {}: {source}. {}", path.display(), remedy(source))]
pub struct DiskError {
    /// Verb of the operation.
    pub action: &'static str,
    /// The file.
    pub path: PathBuf,
    /// Error of the system.
    pub source: io::Error,
}

impl DiskError {
    /// Name the operation and the file of an error.
    pub(super) fn of<D: Disk>(
        disk: &D,
        action: &'static str,
        name: &str,
    ) -> impl FnOnce(io::Error) -> Self {
        let path = disk.path(name);
        move |source| Self {
            action,
            path,
            source,
        }
    }
}

/// Return the advice for an error of the system.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "Free space there, then go on with --resume"
        }
        ErrorKind::FileTooLarge => {
            "Raise the limit of the file size (ulimit -f), then go on with --resume"
        }
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => {
            "Make the directory writable, then go on with --resume"
        }
        ErrorKind::AlreadyExists => {
            "Another process writes this crawl, or wrote it since it was read: go on with --resume"
        }
        ErrorKind::InvalidData => {
            "Restore the file from a backup, or move it elsewhere: --resume then crawls its items again"
        }
        _ => "Check the disk, then go on with --resume",
    }
}
