//! The program as a child of the test, in a directory of its own, and what it leaves.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{
    children, end_with_children, share_the_machine, signal, sockets, wait_for, working_in,
};
use crate::report::Report;
use crate::schema;

/// The program, for a test that may start it now.
pub(crate) fn program() -> &'static Path {
    share_the_machine();
    Path::new(env!("CARGO_BIN_EXE_crawlmark"))
}

/// The words of a line, as a shell reads them.
pub(crate) fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap()
}

/// The program with the arguments in `line`.
fn command(line: &str) -> Command {
    let mut command = Command::new(program());
    command.args(words(line));
    command
}

/// Start the program with the arguments in `line`.
pub(crate) fn start(line: &str) -> Started {
    Started::new(command(line))
}

/// Run the program with the arguments in `line` to its end.
pub(crate) fn run(line: &str) -> Done {
    start(line).end()
}

/// Run the program with `args` in `directory`.
pub(crate) fn call(directory: &Path, args: &[&str]) -> Done {
    let mut command = Command::new(program());
    command.args(args).current_dir(directory);
    said(command)
}

/// Run the program with the arguments in `line` in `directory`.
pub(crate) fn call_line(directory: &Path, line: &str) -> Done {
    let mut command = command(line);
    command.current_dir(directory);
    said(command)
}

/// Run a command to its end.
pub(crate) fn said(command: Command) -> Done {
    Started::new(command).end()
}

/// A command that is running. Dropped, it is ended.
pub(crate) struct Started {
    pub(crate) child: Child,
    place: TempDir,
}

/// A command that has ended.
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) place: TempDir,
}

impl Started {
    /// Start `command`, in `work/` of a directory of its own unless it has another one.
    pub(crate) fn new(mut command: Command) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("work")).unwrap();
        if command.get_current_dir().is_none() {
            command.current_dir(place.path().join("work"));
        }
        let file = |name: &str| File::create(place.path().join(name)).unwrap();
        command.stdin(Stdio::null()).stdout(file("stdout"));
        let child = command.stderr(file("stderr")).spawn().unwrap();
        Self { child, place }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    /// Send it a signal.
    pub(crate) fn signal(&self, number: Signal) {
        signal(self.pid(), number);
    }

    /// Its working directory, without symbolic links.
    pub(crate) fn work(&self) -> PathBuf {
        self.place.path().join("work").canonicalize().unwrap()
    }

    /// Its processes, the first included.
    pub(crate) fn processes(&self) -> Vec<i32> {
        working_in(&self.work())
    }

    /// The process of a shard, once it is there and has so many sockets.
    pub(crate) fn shard(&self, number: u32, connections: usize) -> i32 {
        let name = format!("crawlmark-s{number}");
        wait_for(&name, || {
            let mut children = children(self.pid()).into_iter();
            let (pid, _) = children.find(|(_, comm)| *comm == name)?;
            (sockets(pid) >= connections).then_some(pid)
        })
    }

    /// What it has written to standard output.
    pub(crate) fn stdout(&self) -> String {
        fs::read_to_string(self.place.path().join("stdout")).unwrap()
    }

    /// What it has written to standard error.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.place.path().join("stderr")).unwrap()
    }

    /// Wait for its end.
    pub(crate) fn end(mut self) -> Done {
        let status = wait_for("the end of the command", || self.child.try_wait().unwrap());
        let (stdout, stderr) = (self.stdout(), self.stderr());
        let place = std::mem::replace(&mut self.place, tempfile::tempdir().unwrap());
        Done {
            status,
            code: status.code(),
            stdout,
            stderr,
            place,
        }
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

impl Done {
    pub(crate) fn work(&self) -> PathBuf {
        self.place.path().join("work").canonicalize().unwrap()
    }

    /// The directory that `--out out` names.
    pub(crate) fn out(&self) -> PathBuf {
        self.work().join("out")
    }

    /// The text of a file of the result.
    #[track_caller]
    pub(crate) fn file(&self, name: &str) -> String {
        fs::read_to_string(self.out().join(name)).unwrap()
    }

    /// Read a saved file, and check it against its schema.
    #[track_caller]
    pub(crate) fn saved(&self, file: &str) -> Value {
        let saved = json(&self.out().join(file));
        assert_fits(file.trim_end_matches(".json"), &saved);
        saved
    }

    /// The JSON that was printed.
    #[track_caller]
    pub(crate) fn printed(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Wait until no process of it is left. After one that ended by itself there is none.
    pub(crate) fn wait_for_its_processes(&self) {
        wait_for("the end of its processes", || {
            working_in(&self.work()).is_empty().then_some(())
        });
    }

    /// Check that it ended by itself, with one of these codes, and left no process.
    #[track_caller]
    pub(crate) fn code(self, expected: &[i32]) -> Self {
        self.assert_code(expected);
        self
    }

    #[track_caller]
    fn assert_code(&self, expected: &[i32]) {
        assert!(
            self.code.is_some_and(|code| expected.contains(&code)),
            "{:?}, signal {:?}\n{}{}",
            self.code,
            self.status.signal(),
            self.stdout,
            self.stderr
        );
        assert_eq!(working_in(&self.work()), [0; 0], "a process is left");
    }

    /// The saved report of a crawl that ended with `code`, or with 1 without a good response
    /// whatever else it was judged by, which left nothing else behind.
    #[track_caller]
    pub(crate) fn report(&self, code: i32) -> Report {
        let report = Report::read(&self.out().join("result.json"));
        let is_judged = report.count("/got/ok") == 0
            && report.at("/interrupted_by").is_null()
            && report.text("/validity/verdict") != "incomplete";
        self.assert_code(&[if is_judged { 1 } else { code }]);
        assert_eq!(names(&self.work()), ["out"]);
        report
    }
}

/// The names in a directory, sorted.
pub(crate) fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap();
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

/// Read a JSON file.
#[track_caller]
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// Check a value against the schema of a saved file.
#[track_caller]
pub(crate) fn assert_fits(name: &str, value: &Value) {
    assert_eq!(schema::of(name).complaint(value), None);
}
