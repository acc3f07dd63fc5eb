//! The Git repository: its commits between two revisions, and a worktree for each that is measured.
//!
//! The worktree of the user is never touched. Git notes a worktree in the repository until it is
//! removed. Hooks are not run: a checkout for a measurement is none of theirs.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crawlmark_results::studies::bisect::Commit;

use crate::error::Error;
use crate::study::usage;

/// Fields of a commit, one a line.
const FIELDS: &str = "--format=%H%n%an%n%aI%n%s";

/// A repository.
#[derive(Debug)]
pub(super) struct Repository {
    top: PathBuf,
}

impl Repository {
    /// The repository that a directory lies in.
    ///
    /// # Errors
    /// When it lies in none, or Git is not there.
    pub(super) fn at(directory: &Path) -> Result<Self, Error> {
        let found = Self {
            top: directory.to_owned(),
        };
        match found.git(["rev-parse", "--show-toplevel"]) {
            Ok(top) => Ok(Self { top: top.into() }),
            Err(why) => usage(format!("{}: {why}", directory.display())),
        }
    }

    /// Its top directory.
    pub(super) fn top(&self) -> &Path {
        &self.top
    }

    /// The commits from a good revision to a bad one along first parents, the good one first: a merge
    /// is one commit.
    ///
    /// # Errors
    /// When one is no revision, or the good one is no ancestor of the bad one.
    pub(super) fn between(&self, good: &str, bad: &str) -> Result<Vec<Commit>, Error> {
        let [from, to] = [("--good", good), ("--bad", bad)].map(|(flag, revision)| {
            let name = format!("{revision}^{{commit}}");
            self.git([
                "rev-parse",
                "--verify",
                "--quiet",
                "--end-of-options",
                &name,
            ])
            .or_else(|_| {
                usage(format!(
                    "{flag} {revision}: no commit of {} has this name",
                    self.top.display()
                ))
            })
        });
        let (from, to) = (from?, to?);
        if from == to {
            return usage(format!("--good {good} and --bad {bad} are the same commit"));
        }
        if self
            .git(["merge-base", "--is-ancestor", &from, &to])
            .is_err()
        {
            return usage(format!(
                "--good {good} is no ancestor of --bad {bad}: choose a good commit that the bad one is built on, such as \
                 `git merge-base {good} {bad}`"
            ));
        }
        let range = format!("{from}..{to}");
        let first = self.git(["show", "--no-patch", FIELDS, &from]);
        let mut commits = parsed(&first.map_err(Error::Git)?);
        let later = self.git(["log", "--first-parent", "--reverse", FIELDS, &range]);
        commits.extend(parsed(&later.map_err(Error::Git)?));
        Ok(commits)
    }

    /// Check a commit out into a new directory.
    pub(super) fn check_out(&self, commit: &Commit, directory: &Path) -> Result<(), Error> {
        // One that was removed by hand is still noted.
        self.forget_removed();
        let words: [&OsStr; 7] = [
            "worktree".as_ref(),
            "add".as_ref(),
            "--quiet".as_ref(),
            "--detach".as_ref(),
            "--force".as_ref(),
            directory.as_ref(),
            commit.commit.as_ref(),
        ];
        self.git(words).map(drop).map_err(Error::Git)
    }

    /// Have Git forget the worktrees whose directories are gone.
    pub(super) fn forget_removed(&self) {
        // What it still notes does no harm.
        let _ = self.git(["worktree", "prune"]);
    }

    /// Remove a directory that a commit was checked out into.
    pub(super) fn remove(&self, directory: &Path) {
        let words: [&OsStr; 4] = [
            "worktree".as_ref(),
            "remove".as_ref(),
            "--force".as_ref(),
            directory.as_ref(),
        ];
        // What is left is in the cache, which its user may remove.
        let _ = self.git(words);
    }

    /// Run Git, and return what it prints; what it says if it fails.
    fn git<S: AsRef<OsStr>>(&self, arguments: impl AsRef<[S]>) -> Result<String, String> {
        let mut command = Command::new("git");
        command.arg("-C").arg(&self.top);
        command.args(["-c", "core.hooksPath=/dev/null"]);
        let output = command
            .args(arguments.as_ref())
            .output()
            .map_err(|error| format!("git: {error}"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout)
                .trim_end()
                .to_owned());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let line = errors.lines().find(|line| !line.trim().is_empty());
        Err(line.unwrap_or("git failed").to_owned())
    }
}

/// Commits of an output with [`FIELDS`].
fn parsed(output: &str) -> Vec<Commit> {
    let mut lines = output.split('\n');
    let mut commits = Vec::new();
    while let (Some(commit), Some(author), Some(date)) = (lines.next(), lines.next(), lines.next())
    {
        commits.push(Commit {
            commit: commit.to_owned(),
            author: author.to_owned(),
            date: date.to_owned(),
            subject: lines.next().unwrap_or_default().to_owned(),
        });
    }
    commits
}
