//! The program as a child of the test, in `work/` of a directory of its own, and its output.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{DEADLINE, end_with_children, signal, wait_for, working_in};
use crate::run::program;
use crate::schema;

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

/// The words of a line, as a shell reads them.
pub(crate) fn words(line: &str) -> Vec<String> {
    shlex::split(line).unwrap()
}

/// Start the program with the arguments in `line`.
pub(crate) fn start(line: &str) -> Started {
    let words = words(line);
    Started::new(&words.iter().map(String::as_str).collect::<Vec<_>>())
}

/// Run the program with the arguments in `line` to its end.
pub(crate) fn run(line: &str) -> Done {
    start(line).end()
}

impl Started {
    /// Start the program with these arguments.
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::with(args, &[])
    }

    /// Start the program with these arguments and variables.
    pub(crate) fn with(args: &[&str], variables: &[(&str, &Path)]) -> Self {
        let mut command = Command::new(program());
        command.args(args).envs(variables.iter().copied());
        Self::launch(command, tempfile::tempdir().unwrap(), None)
    }

    /// Start `command` in `work/` of `place`. Its output goes to files there, unless `stdout` is
    /// given.
    pub(crate) fn launch(mut command: Command, place: TempDir, stdout: Option<Stdio>) -> Self {
        fs::create_dir(place.path().join("work")).unwrap();
        let file = |name: &str| File::create(place.path().join(name)).unwrap();
        let own = file("stdout");
        let child = command
            .current_dir(place.path().join("work"))
            .stdin(Stdio::null())
            .stdout(stdout.unwrap_or_else(|| own.into()))
            .stderr(file("stderr"))
            .spawn()
            .unwrap();
        Self { child, place }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn interrupt(&self) {
        signal(self.pid(), Signal::SIGINT);
    }

    /// Its working directory, without symbolic links.
    pub(crate) fn work(&self) -> PathBuf {
        self.place.path().join("work").canonicalize().unwrap()
    }

    /// Return the text that it has written to standard error.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.place.path().join("stderr")).unwrap()
    }

    /// Wait for its end.
    pub(crate) fn wait(mut self) -> Done {
        let status = wait_for("the end of the command", || self.child.try_wait().unwrap());
        let place = std::mem::replace(&mut self.place, tempfile::tempdir().unwrap());
        let text = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
        Done {
            status,
            code: status.code(),
            stdout: text("stdout"),
            stderr: text("stderr"),
            place,
        }
    }

    /// Wait for its end, and check that no process of it is left.
    pub(crate) fn end(self) -> Done {
        let work = self.work();
        let done = self.wait();
        assert_eq!(working_in(&work), Vec::<i32>::new(), "a process is left");
        done
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

impl Done {
    pub(crate) fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    /// The directory that `--out out` names.
    pub(crate) fn out(&self) -> PathBuf {
        self.work().join("out")
    }

    /// Read a saved file, and check it against its schema.
    #[track_caller]
    pub(crate) fn saved(&self, file: &str) -> Value {
        let saved = json(&self.out().join(file));
        let schema = schema::of(file.trim_end_matches(".json"));
        assert_eq!(complaints(&schema, &saved), Vec::<String>::new());
        saved
    }

    /// The JSON that was printed.
    #[track_caller]
    pub(crate) fn printed(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap()
    }

    /// Check that it ended with one of these codes.
    #[track_caller]
    pub(crate) fn code(self, expected: &[i32]) -> Self {
        let Self {
            code,
            stdout,
            stderr,
            ..
        } = &self;
        assert!(
            code.is_some_and(|code| expected.contains(&code)),
            "{code:?}\n{stdout}{stderr}"
        );
        self
    }
}

/// Read a JSON file.
#[track_caller]
pub(crate) fn json(path: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The violations of a schema.
pub(crate) fn complaints(schema: &Validator, value: &Value) -> Vec<String> {
    schema
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}

/// The output of a command that has ended.
pub(crate) struct Said {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Run a command to its end.
pub(crate) fn said(command: Command) -> Said {
    let output = assert_cmd::Command::from_std(command)
        .timeout(DEADLINE)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Said {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    }
}

/// Run the program with `args` in `directory`.
pub(crate) fn call(directory: &Path, args: &[&str]) -> Said {
    let mut command = Command::new(program());
    command.args(args).current_dir(directory);
    said(command)
}

/// Run the program with the arguments in `line` in `directory`.
pub(crate) fn call_line(directory: &Path, line: &str) -> Said {
    let mut command = Command::new(program());
    command.args(words(line)).current_dir(directory);
    said(command)
}
