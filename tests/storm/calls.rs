//! Calls of the system that can fail, and the errors that are plausible for each.

use std::collections::BTreeMap;
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
    call("link", &["EPERM", "ENOSPC"]),
    call("unlink", &["EACCES", "EIO"]),
    call("rmdir", &["EACCES"]),
    call("mkdir", &["EACCES", "EDQUOT"]),
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

/// How often processes make a call.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Count {
    /// Calls of the loader in the first process.
    pub(crate) loader: usize,
    /// Calls of the first process.
    pub(crate) first: usize,
    /// Calls of that other process which makes most.
    pub(crate) others: usize,
}

/// Flags of a trace of all calls.
pub(crate) fn all_calls() -> String {
    let names: Vec<&str> = CALLS.iter().map(|call| call.name).collect();
    format!("trace={},sigaltstack", names.join(","))
}

/// Count the calls in a trace.
pub(crate) fn counts(trace: &str) -> BTreeMap<&'static str, Count> {
    let mut by_process: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut counts: BTreeMap<&'static str, Count> = BTreeMap::new();
    let (mut first, mut is_loaded) = (None, false);
    for line in trace.lines() {
        let Some((pid, said)) = line.split_once(' ') else {
            continue;
        };
        let first = *first.get_or_insert(pid);
        let said = said.trim_start();
        if pid == first && !is_loaded && said.starts_with(AFTER_LOADER) {
            is_loaded = true;
            for call in CALLS {
                let loader = by_process.get(&(pid, call.name)).copied();
                counts.entry(call.name).or_default().loader = loader.unwrap_or(0);
            }
        }
        let Some(call) = said
            .split_once('(')
            .and_then(|(name, _)| CALLS.iter().find(|call| call.name == name))
        else {
            continue;
        };
        let made = by_process.entry((pid, call.name)).or_default();
        *made += 1;
        let count = counts.entry(call.name).or_default();
        let most = if pid == first {
            &mut count.first
        } else {
            &mut count.others
        };
        *most = (*most).max(*made);
    }
    counts
}
