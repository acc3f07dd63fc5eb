//! Directories of results that were never finished: left by a run that was killed, or that failed after it had measured.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use super::{LOG, RESULT};
use crate::studies::capacity::JOURNAL;

/// The ending of a directory's name until it is finished.
pub(super) const PARTIAL: &str = ".partial";

/// The ending of a file of what the processes of a round said.
const OUTPUT: &str = ".log";

/// Marks the directory as in use until the returned file is closed; none where the file system has no locks.
pub(super) fn lock(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    file.try_lock().ok()?;
    Some(file)
}

/// True if `directory` holds anything measured: a result, a probe of a search, a second of a run. A file that cannot be told
/// from one counts as one.
#[must_use]
pub fn holds_measurements(directory: &Path) -> bool {
    fs::read_dir(directory).into_iter().flatten().flatten().any(|entry| {
        let (path, name) = (entry.path(), entry.file_name());
        match name.to_str() {
            _ if path.is_dir() => holds_measurements(&path),
            Some(RESULT) => true,
            // Before the first second there are comments.
            Some(LOG) => has_line(&path, |_, line| line.starts_with("Tag=")),
            // The first line names the search.
            Some(JOURNAL) => has_line(&path, |number, _| number > 0),
            // What the processes of a round said.
            Some(name) if name.ends_with(OUTPUT) => false,
            // A file whose writing failed.
            Some(name) if name.ends_with(PARTIAL) => false,
            _ => true,
        }
    })
}

/// True if a line, by its number from 0 on, is such a one.
fn has_line(path: &Path, is_one: impl Fn(usize, &str) -> bool) -> bool {
    let Ok(file) = File::open(path) else { return true };
    BufReader::new(file).lines().map_while(Result::ok).enumerate().any(|(number, line)| is_one(number, &line))
}

/// Unfinished directories in `runs` that no process writes any more, in order of their names.
#[must_use]
pub fn left_over(runs: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let mut left: Vec<PathBuf> = entries
        .filter(|entry| {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // `.NAME.PID.partial`
            let process = name
                .strip_prefix('.')
                .and_then(|name| name.strip_suffix(PARTIAL))
                .and_then(|name| name.rsplit_once('.'));
            process.is_some_and(|(_, pid)| pid.parse::<u32>().is_ok()) && entry.path().is_dir()
        })
        .map(|entry| entry.path())
        // The lock of a running process, or a file system without locks, leaves it out.
        .filter(|path| lock(path).is_some())
        .collect();
    left.sort_unstable();
    left
}
