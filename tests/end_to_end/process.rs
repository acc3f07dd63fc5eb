//! Looks at processes from outside, through `/proc`, and waits for events.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Child;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use crawlmark_harness::clock::{Clock, duration_ns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Only a hang takes this long, on any machine.
pub(crate) const DEADLINE: Duration = Duration::from_mins(2);

/// How often an event that announces itself to nobody is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Looks until there is something to see.
pub(crate) fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let clock = Clock::start();
    loop {
        if let Some(seen) = look() {
            return seen;
        }
        assert!(
            clock.now().0 <= duration_ns(DEADLINE),
            "waited in vain for {what}"
        );
        std::thread::sleep(LOOK_EVERY);
    }
}

/// The machine: tests that start processes share it, and one may have it alone.
static MACHINE: RwLock<()> = RwLock::new(());

/// A test's use of the machine, until its thread ends.
#[expect(dead_code, reason = "a guard is held, and not looked at")]
enum Turn {
    Shared(RwLockReadGuard<'static, ()>),
    Alone(RwLockWriteGuard<'static, ()>),
}

thread_local! {
    static TURN: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// Wait until no other test has the machine to itself. Called for the name of the program, which all
/// need who start it: in one thread of a test, or one waits for the other for ever.
pub(crate) fn share_the_machine() {
    TURN.with_borrow_mut(|turn| {
        turn.get_or_insert_with(|| {
            Turn::Shared(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
        });
    });
}

/// Wait until no other test runs a process, and have none start one until this test ends: for what
/// is judged to the last request or the last 100 us, which other work on the machine takes from it.
pub(crate) fn have_the_machine_alone() {
    TURN.with_borrow_mut(|turn| {
        *turn = None;
        *turn = Some(Turn::Alone(
            MACHINE.write().unwrap_or_else(PoisonError::into_inner),
        ));
    });
}

/// Sends a signal. A process that is gone is no error.
pub(crate) fn signal(pid: i32, signal: Signal) {
    let _ = kill(Pid::from_raw(pid), signal);
}

/// Ends a program that is still running, and its children: those should die with it, but a program
/// that is broken there must not leave them to the machine.
pub(crate) fn end_with_children(program: &mut Child) {
    if !matches!(program.try_wait(), Ok(None)) {
        return;
    }
    let orphans = i32::try_from(program.id())
        .map(children)
        .unwrap_or_default();
    let _ = program.kill();
    for (pid, _) in orphans {
        signal(pid, Signal::SIGKILL);
    }
    let _ = program.wait();
}

/// The children of a process, with their names.
pub(crate) fn children(pid: i32) -> Vec<(i32, String)> {
    let children =
        fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let name = |pid: i32| {
        Some((
            pid,
            fs::read_to_string(format!("/proc/{pid}/comm"))
                .ok()?
                .trim()
                .to_owned(),
        ))
    };
    children
        .split_whitespace()
        .filter_map(|pid| name(pid.parse().ok()?))
        .collect()
}

/// The sockets that a process has open, by the kernel's names.
pub(crate) fn socket_names(pid: i32) -> BTreeSet<String> {
    let fds = fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten();
    fds.filter_map(|fd| fs::read_link(fd.ok()?.path()).ok())
        .map(|link| link.to_string_lossy().into_owned())
        .filter(|link| link.starts_with("socket:"))
        .collect()
}

/// The number of sockets that a process has open.
pub(crate) fn sockets(pid: i32) -> usize {
    socket_names(pid).len()
}

/// The processes that work in `directory`: those that were started there and what they forked,
/// whatever their parent is now. The dead have no directory.
pub(crate) fn working_in(directory: &Path) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else {
        panic!("/proc cannot be read")
    };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    pids.filter(|pid| fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == directory))
        .collect()
}

/// Whether `signal` has been sent to the process and not been taken by it yet.
pub(crate) fn is_pending(pid: i32, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let sets = status.lines().filter_map(|line| {
        let (name, bits) = line.split_once(':')?;
        let bits = u64::from_str_radix(bits.trim(), 16).ok();
        bits.filter(|_| ["SigPnd", "ShdPnd"].contains(&name))
    });
    sets.fold(0, |all, bits| all | bits) >> (signal as i32 - 1) & 1 == 1
}

/// Whether the process is stopped.
pub(crate) fn is_stopped(pid: i32) -> bool {
    state(pid) == Some('T')
}

/// Whether the process has ended and waits to be reaped.
pub(crate) fn is_ended(pid: i32) -> bool {
    state(pid) == Some('Z')
}

/// The letter that the kernel shows for the process's state.
fn state(pid: i32) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(')').next()?.trim_start().chars().next()
}
