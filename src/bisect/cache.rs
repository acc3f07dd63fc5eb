//! The cache of a search: worktrees with their builds, and the readings so far. The same search finds
//! it again; it is removed when the search has ended.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crawlmark_results::studies::bisect::BlockReport;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::error::Error;
use crate::study::usage;

/// What a line of the file of readings holds.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    /// A block.
    Block(BlockReport),
    /// The place of a commit that does not build.
    Broken(usize),
}

/// Folder of a file for each commit that is built.
const BUILT: &str = "built";

/// Folder of the worktrees.
const COMMITS: &str = "commits";

/// What says which search it is of.
const SEARCH: &str = "search";

/// The file of readings.
const READINGS: &str = "readings.jsonl";

/// The file that is locked.
const LOCK: &str = "lock";

/// Cache of a search.
#[derive(Debug)]
pub(super) struct Cache {
    directory: PathBuf,
    readings: File,
    /// Held while the search runs.
    _lock: File,
}

impl Cache {
    /// The cache in `directory`, or else that of the search which these words describe; and its
    /// readings.
    ///
    /// # Errors
    /// When it cannot be made or read, or another search uses it.
    pub(super) fn open(
        directory: Option<&Path>,
        words: &[&str],
    ) -> Result<(Self, Vec<Line>), Error> {
        let directory = match directory {
            Some(directory) => {
                std::path::absolute(directory).map_err(Error::unwritable(directory))?
            }
            None => home()?.join(key(words)),
        };
        made(&directory)?;
        let name = directory.join(SEARCH);
        let mut others = fs::read_dir(&directory).map_err(Error::unwritable(&directory))?;
        if !name.exists() && others.next().is_some() {
            return usage(format!(
                "--cache {}: it has files that are not of a search, and is removed at the end: name a directory that is new or empty",
                directory.display()
            ));
        }
        let opened = |name: &str| {
            let path = directory.join(name);
            let mut options = OpenOptions::new();
            let file = options.create(true).append(true).open(&path);
            file.map_err(Error::unwritable(&path))
        };
        let lock = opened(LOCK)?;
        if lock.try_lock().is_err() {
            return usage(format!(
                "{} is used by another search: wait until it has ended, or use another --cache",
                directory.display()
            ));
        }
        // Not the words: commands and headers may have secrets.
        let described = key(words);
        match fs::read_to_string(&name) {
            Ok(other) if other != described => {
                return usage(format!(
                    "{} has the readings of another search: use another --cache, or remove it",
                    directory.display()
                ));
            }
            Ok(_) => {}
            Err(_) => fs::write(&name, described).map_err(Error::unwritable(&name))?,
        }
        let readings = opened(READINGS)?;
        let path = directory.join(READINGS);
        let text = fs::read_to_string(&path).map_err(Error::unwritable(&path))?;
        // A line that was cut off by a full disk or a kill is measured again.
        let lines: Vec<Line> = text
            .lines()
            .map_while(|line| serde_json::from_str(line).ok())
            .collect();
        let whole = text.split_inclusive('\n').take(lines.len());
        let length: usize = whole.map(str::len).sum();
        readings
            .set_len(length as u64)
            .map_err(Error::unwritable(&path))?;
        Ok((
            Self {
                directory,
                readings,
                _lock: lock,
            },
            lines,
        ))
    }

    /// Keep a line.
    pub(super) fn keep(&mut self, line: &Line) -> Result<(), Error> {
        let text = serde_json::to_string(line).map_err(|error| Error::Output(error.into()))?;
        let written = self.readings.write_all((text + "\n").as_bytes());
        written.map_err(Error::unwritable(&self.directory))
    }

    /// Where a commit is checked out and built.
    pub(super) fn worktree(&self, commit: &str) -> PathBuf {
        self.directory.join(COMMITS).join(commit)
    }

    /// True if a commit is built.
    pub(super) fn is_built(&self, commit: &str) -> bool {
        self.built(commit).exists()
    }

    /// Note that a commit is built.
    pub(super) fn note_built(&self, commit: &str) -> Result<(), Error> {
        let path = self.built(commit);
        made(&self.directory.join(BUILT))?;
        fs::write(&path, "").map_err(Error::unwritable(&path))
    }

    fn built(&self, commit: &str) -> PathBuf {
        self.directory.join(BUILT).join(commit)
    }

    /// Its place.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Remove it, and nothing else that lies there.
    pub(super) fn remove(self) {
        // What is left costs room, and no search is of it.
        for folder in [COMMITS, BUILT] {
            let _ = fs::remove_dir_all(self.directory.join(folder));
        }
        for file in [READINGS, SEARCH, LOCK] {
            let _ = fs::remove_file(self.directory.join(file));
        }
        let _ = fs::remove_dir(&self.directory);
    }
}

/// Make a directory that nobody else may write to: what is built in it is executed.
fn made(directory: &Path) -> Result<(), Error> {
    let mut builder = DirBuilder::new();
    let made = builder.recursive(true).mode(0o700).create(directory);
    made.map_err(Error::unwritable(directory))
}

/// Where caches are.
fn home() -> Result<PathBuf, Error> {
    let [caches, home] = ["XDG_CACHE_HOME", "HOME"].map(|name| {
        let value = std::env::var_os(name).filter(|value| !value.is_empty());
        value.map(PathBuf::from)
    });
    let home = caches.or_else(|| Some(home?.join(".cache")));
    match home.filter(|home| home.is_absolute()) {
        Some(home) => Ok(home.join("crawlmark/bisect")),
        None => usage(
            "there is no home directory for builds and readings: name a directory with --cache",
        ),
    }
}

/// The name of a search.
fn key(words: &[&str]) -> String {
    let hash = Sha256::digest(words.join("\n"));
    let first = hash
        .iter()
        .take(8)
        .fold(0_u64, |all, byte| all << 8 | u64::from(*byte));
    format!("{first:016x}")
}
