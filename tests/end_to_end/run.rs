//! `crawlmark run` as a child of the test, in an empty directory of its own.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;

use crate::command::{Done, Started, words};
use crate::process::{children, share_the_machine, signal, sockets, wait_for, working_in};
use crate::report::Report;

/// The program, for a test that may start it now.
pub(crate) fn program() -> &'static Path {
    share_the_machine();
    Path::new(env!("CARGO_BIN_EXE_crawlmark"))
}

/// Flags for tests of what one attempt comes to: an item gets no other, and no answer makes anybody
/// wait.
pub(crate) const ONE_ATTEMPT: &str = "--retries 0 --on-throttle count";

/// A run that may still be going on. Dropped, it is ended.
pub(crate) struct Run(Started);

/// A run that is over.
pub(crate) struct Ended(Done);

impl Run {
    /// Start `crawlmark run` with `args`, the report as JSON on standard output.
    pub(crate) fn start(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        Self::launch(Command::new(program()), args, None)
    }

    /// Start it by `launcher`, to which the program's name is added.
    pub(crate) fn start_by(
        mut launcher: Command,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Self {
        launcher.arg(program());
        Self::launch(launcher, args, None)
    }

    /// Start it with nobody to read its standard output: the pipe is closed before anything can be
    /// written.
    pub(crate) fn start_unread(args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        let mut run = Self::launch(Command::new(program()), args, Some(Stdio::piped()));
        drop(run.0.child.stdout.take());
        run
    }

    fn launch(
        mut command: Command,
        args: impl IntoIterator<Item = impl AsRef<OsStr>>,
        stdout: Option<Stdio>,
    ) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("results")).unwrap();
        command.arg("run").args(args);
        command.args(["--json", "--quiet", "--out"]);
        command.arg(place.path().join("results/result"));
        Self(Started::launch(command, place, stdout))
    }

    /// Send it a signal.
    pub(crate) fn signal(&self, number: Signal) {
        signal(self.pid(), number);
    }

    /// Its supervisor.
    pub(crate) fn pid(&self) -> i32 {
        self.0.pid()
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

    /// The process of a shard, once it has so many connections.
    pub(crate) fn connected_shard(&self, number: u32, connections: usize) -> i32 {
        let pid = self.shard(number);
        wait_for("connections", || {
            (sockets(pid) >= connections).then_some(pid)
        })
    }

    /// Its processes, the supervisor included.
    pub(crate) fn processes(&self) -> Vec<i32> {
        working_in(&self.0.work())
    }

    /// Wait for its end.
    pub(crate) fn end(self) -> Ended {
        Ended(self.0.wait())
    }
}

impl Ended {
    /// The exit code, as a shell would show it.
    pub(crate) fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// The signal that ended it.
    pub(crate) fn killed_by(&self) -> Option<i32> {
        self.0.status.signal()
    }

    pub(crate) fn stdout(&self) -> &str {
        &self.0.stdout
    }

    pub(crate) fn stderr(&self) -> &str {
        &self.0.stderr
    }

    fn results(&self) -> PathBuf {
        self.0.place.path().join("results")
    }

    /// The result directory.
    pub(crate) fn result(&self) -> PathBuf {
        self.results().join("result")
    }

    /// The text of a file of the result.
    #[track_caller]
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.result().join(name)).unwrap()
    }

    /// The names in the directory that the result directory is made in.
    pub(crate) fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.results()).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .collect()
    }

    fn work(&self) -> PathBuf {
        self.0.work().canonicalize().unwrap()
    }

    /// Wait until no process of it is left. After a run that ended by itself there is none.
    pub(crate) fn wait_for_its_processes(&self) {
        wait_for("the end of its processes", || {
            working_in(&self.work()).is_empty().then_some(())
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
            working_in(&self.work()),
            Vec::<i32>::new(),
            "a process is left"
        );
        assert_eq!(self.left(), ["result"]);
        assert_eq!(
            fs::read_dir(self.work()).unwrap().count(),
            0,
            "it wrote into its working directory"
        );
        Report::read(&self.result().join("result.json"))
    }
}

/// Start a run with the arguments in `line`.
pub(crate) fn start(line: &str) -> Run {
    Run::start(words(line))
}

/// Run to the end.
pub(crate) fn ended(line: &str) -> Ended {
    start(line).end()
}

/// Run to the end, and return the report of a run that must exit with 0.
#[track_caller]
pub(crate) fn crawl(line: &str) -> Report {
    ended(line).report(0)
}

/// The same with [one attempt](ONE_ATTEMPT) for each item.
#[track_caller]
pub(crate) fn crawl_once(line: &str) -> Report {
    crawl(&format!("{line} {ONE_ATTEMPT}"))
}
