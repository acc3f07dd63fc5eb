//! The result directory: written under a temporary name beside its own, renamed once it is
//! complete; and read back.
//!
//! [`ResultDir::finish`] writes `result.json`, then the page, the summary and the plots that `made`
//! makes of it.
//!
//! | room | for |
//! |---|---|
//! | `log`, `made` | `latency.hlog`, written and read; writing: page, summary, plots and `junit.xml` |
//! | `left` | unfinished directories of earlier runs, and their locks |
//! | [`foreign`], `read` | reading: bounds of saved files, results |

pub mod foreign;
mod left;
mod log;
mod made;
mod read;

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

pub use self::left::{holds_measurements, is_announced, left_over, mark_announced};
pub use self::log::{IntervalLog, LOG, LogFile, LoggedTimes, read_log};
pub(super) use self::made::files_of;
use self::made::replace;
pub use self::made::{PAGE, made_from, remake};
pub use self::read::{ReadError, file_of, parse_report, read};
pub(crate) use self::read::{parse, read_saved};
use crate::run::report::Report;
use crate::show::text::shell_word;
use crawlmark_harness::clock::wall_time;
use crawlmark_harness::files::make_directory;

/// The name of the file that everything else is made from.
pub const RESULT: &str = "result.json";

/// Reason why a result cannot be saved.
#[derive(Debug, thiserror::Error)]
pub enum ResultError {
    /// Something is there already.
    #[error(
        "--out {0} already exists and is not an empty directory. Results are never overwritten: choose another name"
    )]
    Exists(PathBuf),
    /// The working directory itself, or a path that ends in nothing.
    #[error("--out {0} cannot be replaced by a result: name a directory inside it")]
    NoName(PathBuf),
    /// Another run is about to put its result there.
    #[error("--out {path} is in use: another run writes to it, in {}. Wait for its end, or name another directory", partial.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Directory in which the other run writes until it is over.
        partial: PathBuf,
    },
    /// The directory cannot be made.
    #[error(
        "make the result directory {path}: {error}. {}Name a directory that can be written to with --out",
        is_full(error).map_or_else(String::new, |step| format!("{step}, or name another directory with --out"))
    )]
    Make {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The system refused.
    #[error("write {path}: {error}. {}", step(error))]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A file of a result could not be written; what is there stays.
    #[error("write {file}: {error}. Kept in {place}: {}. {}", kept.join(", "), remedy(error, kept, place))]
    Part {
        /// The first file that is missing, by its name in the result.
        file: String,
        /// Error of the system.
        error: io::Error,
        /// The directory of what is there.
        place: PathBuf,
        /// The files and folders that are there.
        kept: Vec<String>,
    },
    /// The finished result cannot have its name.
    #[error("rename the result, which is in {kept}, to {path}: {error}")]
    Rename {
        /// Path where it is.
        kept: PathBuf,
        /// Path where it should be.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// The report is no JSON.
    #[error("write result.json: {0}")]
    Json(#[from] serde_json::Error),
}

/// Default parent directory of results.
const RUNS: &str = "results/runs";

/// A result directory in the making. Dropped unfinished, it is removed, unless it holds
/// [measurements](holds_measurements).
#[derive(Debug)]
pub struct ResultDir {
    path: PathBuf,
    temporary: PathBuf,
    /// The directories above that did not exist before, the innermost first.
    made_for_it: Vec<PathBuf>,
    finished: bool,
    /// Held for as long as the process lives: tells a directory in use from [one that was
    /// left](left_over). None where the file system has no locks.
    _lock: Option<File>,
}

impl ResultError {
    /// The directory that holds what was measured all the same; none when there is none.
    pub fn place(&self) -> Option<&Path> {
        match self {
            Self::Part { place, .. } | Self::Rename { kept: place, .. } => Some(place),
            _ => None,
        }
    }
}

/// The next step where something is used up.
fn is_full(error: &io::Error) -> Option<&'static str> {
    match error.kind() {
        io::ErrorKind::StorageFull => Some("Free some space"),
        io::ErrorKind::QuotaExceeded => Some("Free some of your disk quota"),
        io::ErrorKind::FileTooLarge => Some("Raise the limit on the size of files (ulimit -f)"),
        _ => None,
    }
}

/// The next step after a file could not be written.
fn step(error: &io::Error) -> &'static str {
    is_full(error).unwrap_or("Check that its directory exists and can be written to")
}

/// The next step for a result that lacks a file.
fn remedy(error: &io::Error, kept: &[String], place: &Path) -> String {
    let step = step(error);
    if kept.iter().any(|name| name == RESULT) {
        format!(
            "{step}; `crawlmark report {}` then makes what is missing",
            shell_word(&place.display().to_string())
        )
    } else {
        format!("{step} before the next run")
    }
}

impl ResultDir {
    fn check(path: &Path) -> Result<(), ResultError> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(ResultError::Make {
                path: path.to_owned(),
                error,
            }),
            Ok(_) if fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none()) => Ok(()),
            Ok(_) => Err(ResultError::Exists(path.to_owned())),
        }
    }

    /// Makes the directory under its temporary name, so that a place that cannot be written to is
    /// known before the run.
    ///
    /// # Errors
    /// When `path` exists and is not an empty directory, is the working directory, is what another
    /// run writes to, or cannot be written to.
    pub fn create(path: &Path) -> Result<Self, ResultError> {
        Self::check(path)?;
        // An empty directory may be reached by a link or another name; a result takes the place of
        // the real one.
        let path = &fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        if std::env::current_dir().is_ok_and(|here| here == *path) || path.file_name().is_none() {
            return Err(ResultError::NoName(path.clone()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let mut temporary = path.with_file_name(left::partial_name(&name, std::process::id()));
        let made_for_it = temporary
            .ancestors()
            .skip(1)
            .take_while(|dir| !dir.as_os_str().is_empty() && !dir.exists())
            .map(Path::to_owned)
            .collect();
        let failed = |error| ResultError::Make {
            path: path.to_owned(),
            error,
        };
        temporary
            .parent()
            .map_or(Ok(()), |parent| make_directory(parent, 0o777))
            .map_err(failed)?;
        for number in std::process::id().. {
            temporary.set_file_name(left::partial_name(&name, number));
            match fs::create_dir(&temporary) {
                // Left by a process that had the same number.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => {
                    made.map_err(failed)?;
                    break;
                }
            }
        }
        let lock = left::lock(&temporary);
        let directory = Self {
            path: path.to_owned(),
            temporary,
            made_for_it,
            finished: false,
            _lock: lock,
        };
        // Looked for with the own one in its place: of two at the same moment, both see the other,
        // and none takes its place.
        match left::in_use(path, &directory.temporary) {
            Some(partial) => Err(ResultError::InUse {
                path: path.to_owned(),
                partial,
            }),
            None => Ok(directory),
        }
    }

    /// Makes the directory of a result without a given name: in `runs`, by the time in UTC and the
    /// run's name, and a number when another run has that or is about to.
    ///
    /// # Errors
    /// As [`ResultDir::create`].
    pub fn create_in(runs: &Path, started_at: SystemTime, name: &str) -> Result<Self, ResultError> {
        const MOST: u32 = 1_000;
        let time = humantime::format_rfc3339_seconds(started_at).to_string();
        let first = runs.join(format!("{}-{name}", time.replace(':', "-")));
        let mut made = Self::create(&first);
        for number in 2..MOST {
            let is_taken = matches!(
                made,
                Err(ResultError::InUse { .. } | ResultError::Exists(_))
            );
            if !is_taken {
                break;
            }
            made = Self::create(&PathBuf::from(format!("{}-{number}", first.display())));
        }
        made
    }

    /// Begins the directory of a result: `out`, or one of this name in `results/runs`.
    ///
    /// # Errors
    /// As [`ResultDir::create`].
    pub fn begin(out: Option<&Path>, name: &str) -> Result<Self, ResultError> {
        match out {
            Some(path) => Self::create(path),
            None => Self::create_in(Path::new(RUNS), wall_time(), name),
        }
    }

    /// Path of the finished result.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the directory that holds the result until it is finished, for callers that add files
    /// to it.
    pub fn place(&self) -> &Path {
        &self.temporary
    }

    /// Opens the log of histograms per shard and interval.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn log(&self) -> Result<LogFile, ResultError> {
        LogFile::create(&self.temporary)
    }

    /// Saves the report, then what is made from it, and gives the directory its name. Nothing that
    /// was measured is removed, whatever fails.
    ///
    /// # Errors
    /// When a file cannot be written (the others are there then), or something has taken the
    /// directory's place.
    pub fn finish(self, report: &Report) -> Result<PathBuf, ResultError> {
        let json = serde_json::to_string_pretty(report)? + "\n";
        self.save(RESULT, &json, || made_from(report))
    }

    /// Saves files by their names, of which the first holds what the others show, and gives the
    /// directory its name. Nothing that was measured is removed, whatever fails.
    ///
    /// # Errors
    /// As [`ResultDir::finish`].
    pub fn finish_with(self, files: Vec<(String, String)>) -> Result<PathBuf, ResultError> {
        let mut files = files.into_iter();
        match files.next() {
            Some((first, text)) => self.save(&first, &text, || files.collect()),
            None => self.rename(),
        }
    }

    /// Saves the first file before the others are made of it.
    fn save(
        self,
        first: &str,
        text: &str,
        others: impl FnOnce() -> Vec<(String, String)>,
    ) -> Result<PathBuf, ResultError> {
        if let Err(error) = replace(&self.temporary, first, text.as_bytes()) {
            return Err(match self.leave() {
                Some(place) => part(first, error, place),
                None => error,
            });
        }
        // One that does not fit says nothing about the next one, which may be smaller.
        let mut failed = None;
        for (name, text) in others() {
            if let Err(error) = replace(&self.temporary, &name, text.as_bytes()) {
                failed.get_or_insert((name, error));
            }
        }
        let place = self.rename()?;
        match failed {
            Some((name, error)) => Err(part(&name, error, place)),
            None => Ok(place),
        }
    }

    fn rename(mut self) -> Result<PathBuf, ResultError> {
        self.finished = true;
        match fs::rename(&self.temporary, &self.path) {
            Ok(()) => Ok(self.path.clone()),
            Err(error) => Err(ResultError::Rename {
                kept: self.temporary.clone(),
                path: self.path.clone(),
                error,
            }),
        }
    }

    /// Gives it up: removes it, or returns where it lies when it holds measurements or cannot be
    /// removed.
    pub fn leave(mut self) -> Option<PathBuf> {
        self.give_up()
    }

    fn give_up(&mut self) -> Option<PathBuf> {
        if std::mem::replace(&mut self.finished, true) {
            return None;
        }
        if holds_measurements(&self.temporary) || fs::remove_dir_all(&self.temporary).is_err() {
            return Some(self.temporary.clone());
        }
        for directory in &self.made_for_it {
            // Another program may have put something there; then it stays.
            let _ = fs::remove_dir(directory);
        }
        None
    }
}

impl Drop for ResultDir {
    fn drop(&mut self) {
        self.give_up();
    }
}

/// The failure to write a file of the result in `place`.
fn part(file: &str, error: ResultError, place: PathBuf) -> ResultError {
    match error {
        ResultError::Io { error, .. } => {
            let mut kept: Vec<String> = fs::read_dir(&place)
                .into_iter()
                .flatten()
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect();
            kept.sort_unstable();
            ResultError::Part {
                file: file.to_owned(),
                error,
                place,
                kept,
            }
        }
        other => other,
    }
}
