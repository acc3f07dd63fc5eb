//! Processes as `/proc` shows them.

use std::fs;
use std::path::Path;
use std::process::Child;

/// A process, its parent, its name and its state.
#[derive(Debug)]
struct Process {
    pid: i32,
    parent: i32,
    state: char,
}

/// The number of a child.
pub(crate) fn pid_of(child: &Child) -> i32 {
    i32::try_from(child.id()).unwrap()
}

fn all() -> Vec<i32> {
    let entries = fs::read_dir("/proc").unwrap();
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect()
}

fn process(pid: i32) -> Option<Process> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut words = stat.rsplit_once(") ")?.1.split_whitespace();
    Some(Process {
        pid,
        state: words.next()?.chars().next()?,
        parent: words.next()?.parse().ok()?,
    })
}

fn children_in(parent: i32, is_wanted: impl Fn(char) -> bool) -> Vec<i32> {
    let processes = all().into_iter().filter_map(process);
    processes
        .filter(|process| process.parent == parent && is_wanted(process.state))
        .map(|process| process.pid)
        .collect()
}

/// The children of a process that run or are stopped.
pub(crate) fn children(parent: i32) -> Vec<i32> {
    children_in(parent, |state| state != 'Z')
}

/// The children of a process that have ended, and were not waited for.
pub(crate) fn zombies(parent: i32) -> Vec<i32> {
    children_in(parent, |state| state == 'Z')
}

/// True if a process waits for something to happen: it is neither stopped nor short of a CPU.
pub(crate) fn is_waiting(pid: i32) -> bool {
    process(pid).is_some_and(|process| process.state == 'S')
}

/// The processes that work in `directory`.
pub(crate) fn working_in(directory: &Path) -> Vec<i32> {
    let mut pids = all();
    pids.retain(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == directory));
    pids
}
