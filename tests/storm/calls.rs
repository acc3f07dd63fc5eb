//! Calls of the system that can fail, and the errors that are plausible for each.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};

/// A call and its errors.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) errors: &'static [&'static str],
}

const fn call(name: &'static str, errors: &'static [&'static str]) -> Call {
    Call { name, errors }
}

/// Every call whose failure is tried. A call that finds nothing to read where there is something
/// (EAGAIN of recvfrom) is none: the kernel does not do so.
pub(crate) const CALLS: &[Call] = &[
    call("openat", &["EMFILE", "EACCES", "ENOSPC", "EIO"]),
    call("write", &["ENOSPC", "EIO", "EINTR"]),
    call("read", &["EIO", "EINTR"]),
    call("fsync", &["EIO", "ENOSPC"]),
    call("fdatasync", &["EIO", "EDQUOT"]),
    call("ftruncate", &["EIO", "ENOSPC"]),
    call("lseek", &["EIO"]),
    call("rename", &["EACCES", "ENOSPC", "EIO"]),
    call("renameat", &["EACCES", "ENOSPC", "EIO"]),
    call("link", &["EPERM", "ENOSPC"]),
    call("unlink", &["EACCES", "EIO"]),
    call("unlinkat", &["EACCES"]),
    call("rmdir", &["EACCES"]),
    call("mkdir", &["EACCES", "EDQUOT"]),
    call("mkdirat", &["EACCES", "EDQUOT"]),
    call("statx", &["EACCES", "EIO"]),
    call("newfstatat", &["EACCES"]),
    call("getdents64", &["EIO"]),
    call("readlink", &["EACCES"]),
    call("getcwd", &["ENOENT"]),
    call("flock", &["ENOLCK", "EINTR"]),
    call("fcntl", &["EMFILE"]),
    call("pipe2", &["EMFILE", "ENFILE"]),
    call("clone", &["EAGAIN", "ENOMEM"]),
    call("clone3", &["EAGAIN"]),
    call("vfork", &["EAGAIN"]),
    call("execve", &["ENOMEM"]),
    call("wait4", &["EINTR"]),
    call("waitid", &["EINTR"]),
    call("poll", &["EINTR", "ENOMEM"]),
    call("epoll_create1", &["EMFILE"]),
    call("epoll_ctl", &["ENOMEM", "ENOSPC"]),
    call("epoll_wait", &["EINTR"]),
    call("eventfd2", &["EMFILE"]),
    call("timerfd_create", &["EMFILE"]),
    call("timerfd_settime", &["EINVAL"]),
    call("signalfd4", &["EMFILE"]),
    call("mmap", &["ENOMEM"]),
    call("getrandom", &["EINTR"]),
    call("sched_setaffinity", &["EINVAL"]),
    call("setpgid", &["EPERM"]),
    call("prlimit64", &["EPERM"]),
    call("socket", &["EMFILE", "ENOBUFS"]),
    call("connect", &["ECONNREFUSED", "EADDRNOTAVAIL", "ENETUNREACH"]),
    call("accept4", &["EMFILE", "ECONNABORTED"]),
    call("bind", &["EADDRINUSE"]),
    call("listen", &["EADDRINUSE"]),
    call("setsockopt", &["ENOPROTOOPT"]),
    call("getsockopt", &["ENOBUFS"]),
    call("sendto", &["EPIPE", "ENOBUFS"]),
    call("recvfrom", &["ECONNRESET", "EINTR"]),
    call("recvmsg", &["ECONNRESET"]),
    call("shutdown", &["ENOTCONN"]),
];

/// The last call before the program's own: what fails earlier fails in the loader, or in the start
/// of the language's runtime.
const AFTER_LOADER: &str = "sigaltstack({";

/// True if the system never fails this call so: a pipe, an event or a timer has no disk that is full
/// or broken, and what does not wait for it cannot be interrupted.
pub(crate) fn is_impossible(hit: &str) -> bool {
    let is_file_call = ["write(", "read("].iter().any(|call| hit.contains(call));
    let is_no_file = ["<pipe:[", "<anon_inode:", "<socket:["];
    is_file_call && is_no_file.iter().any(|kind| hit.contains(kind))
}

/// True if `strace` can be run here.
pub(crate) fn has_strace() -> bool {
    let mut strace = Command::new("strace");
    let probe = strace.args(["-f", "--seccomp-bpf", "-o", "/dev/null", "true"]);
    let quiet = probe.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.status().is_ok_and(|status| status.success())
}

/// The calls of one kind that can fail, by their number among those of their process.
#[derive(Debug, Default)]
pub(crate) struct Made {
    /// Of the first process.
    pub(crate) first: BTreeSet<usize>,
    /// Of the other processes, each of which fails once; in none of them this is impossible.
    pub(crate) others: BTreeSet<usize>,
}

/// Flags of a trace of all calls.
pub(crate) fn all_calls() -> String {
    let names: Vec<&str> = CALLS.iter().map(|call| call.name).collect();
    format!("trace={},sigaltstack", names.join(","))
}

/// Find the calls of a trace that can fail.
pub(crate) fn calls_made(trace: &str) -> BTreeMap<&'static str, Made> {
    let mut by_process: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut made: BTreeMap<&'static str, Made> = BTreeMap::new();
    let mut impossible: BTreeSet<(&str, usize)> = BTreeSet::new();
    // Processes whose program is being loaded.
    let mut loading: BTreeSet<&str> = BTreeSet::new();
    let mut first = None;
    for line in trace.lines() {
        let Some((pid, said)) = line.split_once(' ') else {
            continue;
        };
        if first.is_none() {
            loading.insert(pid);
        }
        let is_first = pid == *first.get_or_insert(pid);
        let said = said.trim_start();
        if said.starts_with(AFTER_LOADER) {
            loading.remove(pid);
        }
        let Some(call) = said
            .split_once('(')
            .and_then(|(name, _)| CALLS.iter().find(|call| call.name == name))
        else {
            continue;
        };
        let n = by_process.entry((pid, call.name)).or_default();
        *n += 1;
        if loading.contains(pid) || is_impossible(said) {
            impossible.insert((call.name, *n));
        } else {
            let made = made.entry(call.name).or_default();
            let numbers = if is_first {
                &mut made.first
            } else {
                &mut made.others
            };
            numbers.insert(*n);
        }
        if call.name == "execve" {
            loading.insert(pid);
        }
    }
    for (name, made) in &mut made {
        made.others.retain(|n| !impossible.contains(&(*name, *n)));
    }
    made
}

/// New files that have to be on the disk, by the starts of their names. The state of a part for those that
/// watch it need not be, nor what a result's other files are made from again.
const DURABLE: [&str; 3] = [".attempt.json.", ".plan.json.", ".crawl.json."];

fn name_of(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or_default()
}

/// The new files of a trace that were put in their place before the disk had them.
pub(crate) fn unsynced(trace: &str) -> Vec<&str> {
    let (mut synced, mut early) = (BTreeSet::new(), Vec::new());
    for line in trace.lines() {
        if let Some((_, file)) = line.split_once("sync(").and_then(|it| it.1.split_once('<')) {
            synced.extend(file.split_once('>').map(|(path, _)| name_of(path)));
        } else if let Some((_, names)) = line.split_once("rename")
            && let Some(from) = names.split('"').nth(1).map(name_of)
        {
            let is_segment = from.strip_suffix(".new").is_some() && !from.starts_with("slots.");
            let is_durable = is_segment || DURABLE.iter().any(|it| from.starts_with(it));
            if is_durable && !synced.contains(from) {
                early.push(from);
            }
        }
    }
    early
}
