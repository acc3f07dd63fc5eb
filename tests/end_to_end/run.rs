//! Crawls by `crawlmark run`, whose result is `out` in their working directory.

use std::process::Command;

use crate::command::{Done, Started, program, words};
use crate::report::Report;

/// Flags for tests of what one attempt comes to: an item gets no other, and no answer makes anybody
/// wait.
pub(crate) const ONE_ATTEMPT: &str = "--retries 0 --on-throttle count";

/// Start a crawl with the arguments in `line`, its report on standard output.
pub(crate) fn start(line: &str) -> Started {
    start_by(Command::new("env"), line)
}

/// Start it by `launcher`, to which the program's name is added.
pub(crate) fn start_by(mut launcher: Command, line: &str) -> Started {
    launcher.arg(program()).arg("run").args(words(line));
    launcher.args(["--json", "--quiet", "--out", "out"]);
    Started::new(launcher)
}

/// Crawl to the end.
pub(crate) fn ended(line: &str) -> Done {
    start(line).end()
}

/// Crawl to the end, and return the report of a run that must exit with 0.
#[track_caller]
pub(crate) fn crawl(line: &str) -> Report {
    ended(line).report(0)
}

/// The same with [one attempt](ONE_ATTEMPT) for each item.
#[track_caller]
pub(crate) fn crawl_once(line: &str) -> Report {
    crawl(&format!("{line} {ONE_ATTEMPT}"))
}
