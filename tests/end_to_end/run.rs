//! `crawlmark run` as a child of the test, in an empty directory of its own.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::Signal;
use tempfile::TempDir;

use crate::process::{
    children, end_with_children, share_the_machine, signal, wait_for, working_in,
};
use crate::report::Report;

/// The program, for a test that may start it now.
pub(crate) fn program() -> &'static Path {
    share_the_machine();
    Path::new(env!("CARGO_BIN_EXE_crawlmark"))
}

/// Flags for tests of what one attempt comes to: an item gets no other, and no answer makes anybody
/// wait.
pub(crate) const ONE_ATTEMPT: &str = "--retries 0 --on-throttle count";

/// Where a run does what it does.
struct Place {
    root: TempDir,
}

impl Place {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("work")).unwrap();
        fs::create_dir(root.path().join("results")).unwrap();
        Self { root }
    }

    /// The working directory, free of links, as `/proc` shows it.
    fn work(&self) -> PathBuf {
        self.root.path().join("work").canonicalize().unwrap()
    }

    /// The directory that the result directory is made in.
    fn results(&self) -> PathBuf {
        self.root.path().join("results")
    }

    fn stdout(&self) -> PathBuf {
        self.root.path().join("stdout")
    }

    fn stderr(&self) -> PathBuf {
        self.root.path().join("stderr")
    }
}

/// A run that may still be going on. Dropped, it is ended.
pub(crate) struct Run {
    child: Child,
    place: Place,
}

/// A run that is over.
pub(crate) struct Ended {
    status: ExitStatus,
    place: Place,
}

impl Run {
    /// Starts `crawlmark run` with `args`, the report as JSON on standard output.
    pub(crate) fn start(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let place = Place::new();
        let stdout = Stdio::from(File::create(place.stdout()).unwrap());
        Self::start_in(place, Command::new(program()), args, stdout)
    }

    /// The same, started by `launcher`, whose last argument is to be the program's name.
    pub(crate) fn start_by(
        mut launcher: Command,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        let place = Place::new();
        let stdout = Stdio::from(File::create(place.stdout()).unwrap());
        launcher.arg(program());
        Self::start_in(place, launcher, args, stdout)
    }

    /// The same with nobody to read its standard output: the pipe is closed before anything can be
    /// written.
    pub(crate) fn start_unread(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut run = Self::start_in(Place::new(), Command::new(program()), args, Stdio::piped());
        drop(run.child.stdout.take());
        run
    }

    fn start_in(
        place: Place,
        mut program: Command,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        stdout: Stdio,
    ) -> Self {
        let child = program
            .arg("run")
            .args(args)
            .args(["--json", "--quiet", "--out"])
            .arg(place.results().join("result"))
            .current_dir(place.work())
            .stdin(Stdio::null())
            .stdout(stdout)
            .stderr(File::create(place.stderr()).unwrap())
            .spawn()
            .unwrap();
        Self { child, place }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, number: Signal) {
        signal(self.pid(), number);
    }

    /// Its supervisor.
    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// The process of a shard, once it is there.
    pub(crate) fn shard(&self, number: u32) -> i32 {
        let name = format!("crawlmark-s{number}");
        wait_for(&name, || {
            children(self.pid())
                .into_iter()
                .find(|(_, comm)| *comm == name)
                .map(|(pid, _)| pid)
        })
    }

    /// Its processes, the supervisor included.
    pub(crate) fn processes(&self) -> Vec<i32> {
        working_in(&self.place.work())
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let status = wait_for("the end of the run", || self.child.try_wait().unwrap());
        let place = std::mem::replace(&mut self.place, Place::new());
        Ended { status, place }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

impl Ended {
    /// The exit code, as a shell would show it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The signal that ended it.
    pub(crate) fn killed_by(&self) -> Option<i32> {
        self.status.signal()
    }

    /// What it printed.
    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.place.stdout()).unwrap()
    }

    /// What it complained about.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.place.stderr()).unwrap()
    }

    /// The result directory.
    pub(crate) fn result(&self) -> PathBuf {
        self.place.results().join("result")
    }

    /// What it left where the result directory is made.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.results()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }

    /// Waits until no process of it is left. Where it ended by itself, there is nothing to wait
    /// for.
    pub(crate) fn wait_for_its_processes(&self) {
        wait_for("the end of its processes", || {
            working_in(&self.place.work()).is_empty().then_some(())
        });
    }

    /// The saved report of a run that ended with `code`, or with 1 without a good response whatever
    /// else it was judged by, which left nothing else behind.
    #[track_caller]
    pub(crate) fn report(&self, code: i32) -> Report {
        let saved = self.result().join("result.json");
        let is_judged = saved.exists() && {
            let report = Report::read(&saved);
            let (is_cut, verdict) = (
                report.at("/interrupted_by").is_number(),
                report.text("/validity/verdict"),
            );
            report.count("/got/ok") == 0 && !is_cut && verdict != "incomplete"
        };
        let code = if is_judged { 1 } else { code };
        assert_eq!(
            self.code(),
            Some(code),
            "killed by {:?}, said {}",
            self.killed_by(),
            self.stderr()
        );
        assert_eq!(
            working_in(&self.place.work()),
            Vec::<i32>::new(),
            "a process is left"
        );
        assert_eq!(self.left(), ["result"]);
        assert_eq!(
            fs::read_dir(self.place.work()).unwrap().count(),
            0,
            "it wrote into its working directory"
        );
        Report::read(&self.result().join("result.json"))
    }
}

/// Runs to the end, and returns the report of a run that must exit with 0.
#[track_caller]
pub(crate) fn crawl(line: &str) -> Report {
    Run::start(line.split_whitespace()).end().report(0)
}

/// The same with [one attempt](ONE_ATTEMPT) for each item.
#[track_caller]
pub(crate) fn crawl_once(line: &str) -> Report {
    crawl(&format!("{line} {ONE_ATTEMPT}"))
}
