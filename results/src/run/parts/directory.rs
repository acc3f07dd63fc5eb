//! Names in the directory that the parts of a crawl share.

use std::io;
use std::path::{Path, PathBuf};

use crate::show::text::shell_word;

/// The directory that the parts of a crawl share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartsDirectory {
    path: PathBuf,
    /// Flags that are not taken from its plan, as a shell has them.
    typed: String,
}

impl PartsDirectory {
    /// Name of the plan's file.
    pub const PLAN: &str = "plan.json";
    /// Name of an attempt's file with its seconds and its end.
    pub const FRAMES: &str = "frames";
    /// Name of an attempt's file with what it says of itself at its end.
    pub const ATTEMPT: &str = "attempt.json";
    /// Name of an attempt's file with its state, written again each second.
    pub const STATUS: &str = "status.json";
    /// Name of an attempt's file with the number of requests that each of its shards has sent.
    pub const REQUESTS: &str = "requests";
    /// Name of an attempt's result directory.
    pub const RESULT_DIR: &str = "result";
    /// Name of the file that says which attempt counts.
    const RESULT: &str = "RESULT";
    /// Start of the name of a part's directory.
    const PART: &str = "part-";

    /// The directory at `path`, which need not exist.
    pub fn at(path: &Path) -> Self {
        Self {
            path: path.to_owned(),
            typed: String::new(),
        }
    }

    /// Have the command of each part end with these flags, as a shell has them.
    #[must_use]
    pub fn typing(self, typed: String) -> Self {
        Self { typed, ..self }
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the path of the plan.
    pub fn plan(&self) -> PathBuf {
        self.path.join(Self::PLAN)
    }

    /// Return the command that crawls a part.
    pub fn command(&self, part: u32, of: u32) -> String {
        let [plan, into] =
            [self.plan(), self.path.clone()].map(|path| shell_word(&path.display().to_string()));
        let command = format!("crawlmark run --plan {plan} --node {part}/{of} --into {into} ");
        (command + &self.typed).trim_end().to_owned()
    }

    /// Return the directory of the slots' leases.
    pub fn slots(&self) -> PathBuf {
        self.path.join("slots")
    }

    /// Return the directory of a part.
    pub fn part(&self, part: u32) -> PathBuf {
        self.path.join(format!("{}{part:05}", Self::PART))
    }

    /// Return the path of the file that says which attempt at a part counts.
    pub fn result(&self, part: u32) -> PathBuf {
        self.part(part).join(Self::RESULT)
    }

    /// Return the directory of an attempt at a part.
    pub fn attempt(&self, part: u32, attempt: &str) -> PathBuf {
        self.part(part).join(attempt)
    }

    /// Return the names of all attempts at a part, sorted; none of a part that nobody has begun.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn attempts(&self, part: u32) -> io::Result<Vec<String>> {
        let entries = match std::fs::read_dir(self.part(part)) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_name(&name) && entry.file_type()?.is_dir() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }
}

/// True if `name` may be the name of an attempt: it stays within the directory of its part.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 200
        && !name.starts_with('.')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}
