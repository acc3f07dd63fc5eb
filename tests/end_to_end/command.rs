//! A command that is driven from outside, in a directory of its own, and what it came to.
#![expect(
    clippy::unwrap_used,
    reason = "a test whose program cannot be started is over"
)]

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use jsonschema::Validator;
use nix::sys::signal::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::process::{end_with_children, signal, wait_for, working_in};
use crate::run::program;

/// A command that goes on, in `work/` of a directory of its own. Dropped, it is ended.
pub(crate) struct Started {
    pub(crate) child: Child,
    place: TempDir,
}

/// What one came to.
pub(crate) struct Done {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) place: TempDir,
}

impl Started {
    /// Runs the program with these arguments.
    pub(crate) fn new(args: &[&str]) -> Self {
        Self::with(args, &[])
    }

    /// Runs the program with these arguments, and these variables beside those of the test.
    pub(crate) fn with(args: &[&str], variables: &[(&str, &Path)]) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("work")).unwrap();
        Self {
            child: spawn((args, variables), &place),
            place,
        }
    }

    pub(crate) fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap()
    }

    pub(crate) fn interrupt(&self) {
        signal(self.pid(), Signal::SIGINT);
    }

    /// Where it runs, as the kernel names it.
    pub(crate) fn work(&self) -> PathBuf {
        self.place.path().join("work").canonicalize().unwrap()
    }

    /// Return the text that it has written to standard error.
    pub(crate) fn stderr(&self) -> String {
        fs::read_to_string(self.place.path().join("stderr")).unwrap()
    }

    /// Waits for its end, and holds that nothing of it is left.
    pub(crate) fn end(mut self) -> Done {
        let status = wait_for("the end of the command", || self.child.try_wait().unwrap());
        assert_eq!(
            working_in(&self.work()),
            Vec::<i32>::new(),
            "a process is left"
        );
        let place = self.leave();
        let text = |name: &str| fs::read_to_string(place.path().join(name)).unwrap();
        Done {
            code: status.code(),
            stdout: text("stdout"),
            stderr: text("stderr"),
            place,
        }
    }

    fn leave(&mut self) -> TempDir {
        std::mem::replace(&mut self.place, tempfile::tempdir().unwrap())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        end_with_children(&mut self.child);
    }
}

fn spawn((args, variables): (&[&str], &[(&str, &Path)]), place: &TempDir) -> Child {
    let file = |name: &str| File::create(place.path().join(name)).unwrap();
    Command::new(program())
        .args(args)
        .envs(variables.iter().copied())
        .current_dir(place.path().join("work"))
        .stdin(Stdio::null())
        .stdout(file("stdout"))
        .stderr(file("stderr"))
        .spawn()
        .unwrap()
}

impl Done {
    pub(crate) fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    /// What `--out out` names.
    pub(crate) fn out(&self) -> PathBuf {
        self.work().join("out")
    }

    /// A file of what was saved, which fits its schema.
    #[track_caller]
    pub(crate) fn saved(&self, file: &str, schema: &Validator) -> Value {
        let saved: Value =
            serde_json::from_str(&fs::read_to_string(self.out().join(file)).unwrap()).unwrap();
        assert_eq!(complaints(schema, &saved), Vec::<String>::new());
        saved
    }

    /// It ended with one of these codes.
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

/// What a schema finds wrong.
pub(crate) fn complaints(schema: &Validator, value: &Value) -> Vec<String> {
    schema
        .iter_errors(value)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect()
}
