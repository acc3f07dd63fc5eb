//! What a machine and its user allow to be done to a command, and how: an uptime of its own (a time
//! namespace), a user of its own, whose processes are limited, and a calendar clock that is stepped.
//!
//! Nobody can step the clock of one process: the machine's is stepped, or the process is told
//! another time. The second is done, by a library that is preloaded. What a machine lacks is left out.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use super::laws::files;
use crate::scene::PROGRAM;

/// Whoever begins so has an uptime of his own: `{}` more seconds.
const UPTIME: &str =
    "unshare --time --monotonic {} --boottime {} -- nsenter --time=/proc/self/ns/time_for_children";

/// Whoever begins so is this user.
const USER: &str = "setpriv --reuid {} --regid {} --clear-groups";

/// Users that nobody else is: the first one, and one for each seed after it.
const FIRST_USER: u64 = 1_000_000;

static MEANS: LazyLock<Means> = LazyLock::new(Means::find);

/// What is there.
#[derive(Debug)]
pub(crate) struct Means {
    has_uptime: bool,
    has_users: bool,
    /// The library that moves the calendar clock.
    clock: Option<PathBuf>,
}

impl Means {
    pub(crate) fn get() -> &'static Self {
        &MEANS
    }

    fn find() -> Self {
        Self {
            has_uptime: works(&format!("{} true", UPTIME.replace("{}", "9"))),
            has_users: works(&format!(
                "{} test -x {PROGRAM}",
                USER.replace("{}", "1000000")
            )),
            clock: library(),
        }
    }

    /// What a command begins with that has been up for so many seconds more.
    pub(crate) fn uptime(&self, more_s: u64) -> String {
        let is_wanted = self.has_uptime && more_s > 0;
        let begin = UPTIME.replace("{}", &more_s.to_string());
        if is_wanted { begin } else { String::new() }
    }

    /// What a command begins with that is a user of its own, who owns `work`. Root has no limit of
    /// processes; another user shares it with all that he runs.
    pub(crate) fn user(&self, seed: u64, work: &Path) -> String {
        if !self.has_users {
            return String::new();
        }
        let user = FIRST_USER + seed % FIRST_USER;
        let id = u32::try_from(user).unwrap();
        let owned = files(work).into_iter().chain([work.to_owned()]);
        for path in owned.chain(directories(work)) {
            chown(&path, Some(id), Some(id)).unwrap();
        }
        USER.replace("{}", &user.to_string())
    }

    /// Have the calendar clock of `command` follow the file `moved`.
    pub(crate) fn move_clock(&self, command: &mut Command, moved: &Path) {
        if let Some(library) = &self.clock {
            fs::write(moved, [0; 8]).unwrap();
            command.env("LD_PRELOAD", library).env("CLOCK_MOVED", moved);
        }
    }
}

/// Step the calendar clock that follows the file `moved`.
pub(crate) fn step(moved: &Path, by_s: i64) {
    // In place: a program that reads the clock while its mapped file is empty ends by SIGBUS.
    if let Ok(file) = File::options().write(true).open(moved) {
        let moved_ns = (by_s * 1_000_000_000).to_ne_bytes();
        file.write_all_at(&moved_ns, 0).unwrap();
    }
}

fn directories(below: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(below).unwrap().flatten();
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    all.retain(|path| path.is_dir());
    let inner: Vec<PathBuf> = all.iter().flat_map(|path| directories(path)).collect();
    [all, inner].concat()
}

fn works(line: &str) -> bool {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", line])
        .stderr(Stdio::null())
        .stdout(Stdio::null());
    shell.status().is_ok_and(|status| status.success())
}

/// Build the library that moves the clock; none without a C compiler.
fn library() -> Option<PathBuf> {
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (source, library) = (place.join("clock.c"), place.join("clock.so"));
    fs::write(&source, include_str!("clock.c")).ok()?;
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .arg(&source);
    let is_built = compiler.status().is_ok_and(|status| status.success());
    is_built.then_some(library)
}
