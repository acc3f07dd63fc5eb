//! Directories of results that were never finished: left by a run that was killed, or that failed
//! after it had measured.

use std::fs::{self, File, TryLockError};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crawlmark_harness::files::{PARTIAL, Root};

use super::{LOG, RESULT, foreign};

/// Name of an empty file in an unfinished directory that was announced to users.
const ANNOUNCED: &str = "announced";

/// The ending of a file of what the processes of a round said.
const OUTPUT: &str = ".log";

/// Name of the directory of a result until it is finished. The kernel gives a number again, so
/// another run that was killed may have left one of the same process.
pub(super) fn partial_name(name: &str, process: u32) -> String {
    format!(".{name}.{process}{PARTIAL}")
}

/// Marks the directory as in use until the returned file is closed; none where the file system has
/// no locks. The lock of another directory is only held for as long as it takes to look.
pub(super) fn lock(directory: &Path) -> Option<File> {
    let file = File::open(directory).ok()?;
    file.lock().ok()?;
    Some(file)
}

/// True if a running process has locked the directory.
fn is_locked(directory: &Path) -> bool {
    File::open(directory).is_ok_and(|file| matches!(file.try_lock(), Err(TryLockError::WouldBlock)))
}

/// The unfinished directory in which another process is writing the result `path`; `own` is not
/// meant.
pub(super) fn in_use(path: &Path, own: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_string_lossy();
    unfinished(parent(path))
        .into_iter()
        .filter(|(of, _)| *of == name)
        .map(|(_, partial)| partial)
        .find(|partial| partial.file_name() != own.file_name() && is_locked(partial))
}

fn parent(path: &Path) -> &Path {
    path.parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Unfinished directories in `runs`, with the names that they were to have.
fn unfinished(runs: &Path) -> Vec<(String, PathBuf)> {
    fs::read_dir(runs)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            let (of, process) = name
                .strip_prefix('.')?
                .strip_suffix(PARTIAL)?
                .rsplit_once('.')?;
            process
                .parse::<u32>()
                .is_ok()
                .then(|| (of.to_owned(), entry.path()))
                .filter(|(_, path)| path.is_dir())
        })
        .collect()
}

/// True if `directory` holds anything measured: a result, a probe of a search, a second of a run. A
/// file that cannot be told from one counts as one.
pub fn holds_measurements(directory: &Path) -> bool {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .any(|entry| {
            let (path, name) = (entry.path(), entry.file_name());
            match name.to_str() {
                _ if path.is_dir() => holds_measurements(&path),
                Some(RESULT) => true,
                Some(ANNOUNCED) => false,
                // Before the first second there are comments.
                Some(LOG) => has_line(&path, |line| line.starts_with("Tag=")),
                // What the processes of a round said.
                Some(name) if name.ends_with(OUTPUT) => false,
                // A file whose writing failed.
                Some(name) if name.ends_with(PARTIAL) => false,
                _ => true,
            }
        })
}

/// True if a line is such a one.
fn has_line(path: &Path, is_one: impl Fn(&str) -> bool) -> bool {
    let Ok(file) = foreign::open(path) else {
        return true;
    };
    BufReader::new(file)
        .lines()
        .map_while(Result::ok)
        .any(|line| is_one(&line))
}

/// True if users were told of an unfinished directory.
pub fn is_announced(directory: &Path) -> bool {
    directory.join(ANNOUNCED).exists()
}

/// Remember that users were told of an unfinished directory. Where nothing can be written, they
/// will be told again.
pub fn mark_announced(directory: &Path) {
    let _ = Root::new(directory).create(ANNOUNCED);
}

/// Unfinished directories in `runs` that no process writes any more, in order of their names.
pub fn left_over(runs: &Path) -> Vec<PathBuf> {
    // A file system without locks does not tell one that is in use from one that was left.
    let mut left: Vec<PathBuf> = unfinished(runs)
        .into_iter()
        .map(|(_, path)| path)
        .filter(|path| File::open(path).is_ok_and(|file| file.try_lock().is_ok()))
        .collect();
    left.sort_unstable();
    left
}
