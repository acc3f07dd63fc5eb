//! The result directory: written under a temporary name beside its own, renamed once it is whole; and read back.

pub mod foreign;
pub mod laws;
mod log;
mod logged;
mod made;
mod read;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use self::log::{IntervalLog, LOG, LogFile};
pub use self::logged::{LogError, Reading, Wrong, recut};
pub use self::made::{Overlaid, PAGE, made_from, overlaid, pictures, remake};
pub use self::read::{ReadError, read, read_contest};
use crate::plot::PngError;
use crate::report::Report;

/// The name of the file that everything else is made from.
pub const RESULT: &str = "result.json";

/// Why a result cannot be saved.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// Something is there already.
    #[error("--out {0} exists already and is no empty directory: a result is never overwritten, choose another name")]
    Exists(PathBuf),
    /// The working directory itself, or a path that ends in nothing.
    #[error("--out {0} cannot be replaced by a result: name a directory inside it")]
    NoName(PathBuf),
    /// The system refused.
    #[error("write {path}: {error}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What it said.
        error: io::Error,
    },
    /// The finished result cannot have its name.
    #[error("rename the result, which lies in {kept}, to {path}: {error}")]
    Rename {
        /// Where it is.
        kept: PathBuf,
        /// Where it should be.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// A plot cannot be drawn.
    #[error("{0}")]
    Png(#[from] PngError),
    /// The report is no JSON.
    #[error("write result.json: {0}")]
    Json(#[from] serde_json::Error),
}

/// A result directory in the making. Dropped unfinished, it removes what it wrote.
#[derive(Debug)]
pub struct ResultDir {
    path: PathBuf,
    temporary: PathBuf,
    /// The directories above that did not exist before, the innermost first.
    made_for_it: Vec<PathBuf>,
    finished: bool,
}

impl ResultDir {
    fn check(path: &Path) -> Result<(), ResultError> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(ResultError::Io { path: path.to_owned(), error }),
            Ok(_) if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) => Ok(()),
            Ok(_) => Err(ResultError::Exists(path.to_owned())),
        }
    }

    /// Makes the directory under its temporary name, so that a place that cannot be written to is known before the run.
    ///
    /// # Errors
    /// When `path` exists and is not an empty directory, is the working directory, or cannot be written to.
    pub fn create(path: &Path) -> Result<Self, ResultError> {
        Self::check(path)?;
        // An empty directory may be reached by a link or another name; a result takes the place of the real one.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if std::env::current_dir().is_ok_and(|here| here == *path) || path.file_name().is_none() {
            return Err(ResultError::NoName(path.clone()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let temporary = path.with_file_name(format!(".{name}.{}.partial", std::process::id()));
        let missing = |dir: &&Path| !dir.as_os_str().is_empty() && !dir.exists();
        let made_for_it = temporary.ancestors().skip(1).take_while(missing).map(Path::to_owned).collect();
        let made = fs::create_dir_all(&temporary);
        made.map_err(|error| ResultError::Io { path: path.to_owned(), error })?;
        Ok(Self { path: path.to_owned(), temporary, made_for_it, finished: false })
    }

    /// Where it lies until it is finished: for what is put into it by others.
    #[must_use]
    pub fn place(&self) -> &Path {
        &self.temporary
    }

    /// Opens the log of histograms per shard and interval.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn log(&self) -> Result<LogFile, ResultError> {
        LogFile::create(self.temporary.join(LOG))
    }

    /// Saves the report and gives the directory its name, as [`ResultDir::finish_with`] does.
    ///
    /// # Errors
    /// When a file cannot be written, or something has taken the directory's place meanwhile.
    pub fn finish(mut self, report: &Report) -> Result<PathBuf, ResultError> {
        self.finished = true;
        let json = serde_json::to_string_pretty(report)? + "\n";
        let made = made_from(report);
        let mut files = vec![(RESULT, &*json)];
        files.extend(made.iter().map(|(name, text)| (&**name, &**text)));
        self.finish_with(&files)
    }

    /// Saves files by their names and gives the directory its name. Whatever goes wrong, nothing that was measured is removed: the
    /// error says where it lies.
    ///
    /// # Errors
    /// When a file cannot be written, or something has taken the directory's place meanwhile.
    pub fn finish_with(mut self, files: &[(&str, &str)]) -> Result<PathBuf, ResultError> {
        self.finished = true;
        files.iter().try_for_each(|(name, text)| self.write(name, text))?;
        match fs::rename(&self.temporary, &self.path) {
            Ok(()) => Ok(self.path.clone()),
            Err(error) => Err(ResultError::Rename { kept: self.temporary.clone(), path: self.path.clone(), error }),
        }
    }

    /// Writes a file of this name, which may lie in a folder.
    fn write(&self, name: &str, text: &str) -> Result<(), ResultError> {
        let path = self.temporary.join(name);
        let folder = path.parent().map_or(Ok(()), fs::create_dir_all);
        folder.and_then(|()| fs::write(&path, text)).map_err(|error| ResultError::Io { path, error })
    }
}

impl Drop for ResultDir {
    fn drop(&mut self) {
        if !self.finished {
            let _ = fs::remove_dir_all(&self.temporary);
            for directory in &self.made_for_it {
                // Somebody else may have put something there meanwhile; then it stays.
                let _ = fs::remove_dir(directory);
            }
        }
    }
}

/// A path in `runs` for a result that has none: UTC time to the second, the run's name, and a number when another run has
/// that or is about to.
#[must_use]
pub fn default_path(runs: &Path, started_at: SystemTime, name: &str) -> PathBuf {
    let time = humantime::format_rfc3339_seconds(started_at).to_string().replace(':', "-");
    let names: Vec<_> = fs::read_dir(runs).into_iter().flatten().flatten().map(|entry| entry.file_name()).collect();
    let taken = |wanted: &String| {
        let partial = format!(".{wanted}.");
        names.iter().map(|name| name.to_string_lossy()).any(|name| name == *wanted || name.starts_with(&partial))
    };
    let first = format!("{time}-{name}");
    let numbered = (2..).map(|number| format!("{first}-{number}"));
    let free = std::iter::once(first.clone()).chain(numbered).find(|wanted| !taken(wanted));
    runs.join(free.unwrap_or(first))
}
