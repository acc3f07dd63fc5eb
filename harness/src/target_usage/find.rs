//! Processes of a target: who holds a listening socket, and whose children they are.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The process that starts all others of the machine. Where it is systemd, it holds the sockets of
/// services that it starts on demand. In a container, it is the program that the container is for.
const INIT: i32 = 1;

/// Flags in `/proc/net/unix` of a socket that listens.
const ACCEPTS_CONNECTIONS: &str = "00010000";

/// Forwards ports of containers: what it uses is not the target's.
const FORWARDER: &str = "docker-proxy";

/// Return the processes that hold one of these sockets, without the first one of the machine. Of
/// processes of other users, only root sees that.
pub(super) fn owners(inodes: &BTreeSet<u32>) -> Vec<i32> {
    // Unless this process was started by it, as the probe of a run that a container is for.
    let may_be_first = is_contained() && !own_line().contains(&INIT);
    numbers(Path::new("/proc"))
        .into_iter()
        .filter(|pid| (*pid != INIT || may_be_first) && name(*pid).as_deref() != Some(FORWARDER))
        .filter(|pid| sockets(*pid).any(|inode| inodes.contains(&inode)))
        .collect()
}

/// Return the sockets that listen on a Unix socket's path, by their inodes.
pub(super) fn unix_listeners(path: &Path) -> BTreeSet<u32> {
    let listed = fs::read_to_string("/proc/net/unix").unwrap_or_default();
    let whole = fs::canonicalize(path).unwrap_or_default();
    listed
        .lines()
        .filter_map(|line| {
            // Num RefCount Protocol Flags Type St Inode Path
            let mut fields = line.split_ascii_whitespace();
            let is_listening = fields.nth(3)? == ACCEPTS_CONNECTIONS;
            let inode = fields.nth(2)?.parse().ok()?;
            let own = Path::new(fields.next()?);
            (is_listening && (own == path || own == whole)).then_some(inode)
        })
        .collect()
}

/// Return the sockets that a process holds, by their inodes.
pub(super) fn sockets(pid: i32) -> impl Iterator<Item = u32> {
    fs::read_dir(format!("/proc/{pid}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let link = fs::read_link(entry.path()).ok()?;
            let inode = link.as_os_str().as_bytes().strip_prefix(b"socket:[")?;
            std::str::from_utf8(inode.strip_suffix(b"]")?)
                .ok()?
                .parse()
                .ok()
        })
}

/// Return the threads of a process.
pub(super) fn threads(pid: i32) -> Vec<i32> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// Return the children of a thread.
pub(super) fn children(pid: i32, thread: i32) -> Vec<i32> {
    fs::read_to_string(format!("/proc/{pid}/task/{thread}/children"))
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|child| child.parse().ok())
        .collect()
}

/// Return the name of a process.
pub(super) fn name(pid: i32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// Return this process and those that it descends from: not the target's, unless they serve.
pub(super) fn own_line() -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut next = i32::try_from(std::process::id()).ok();
    while let Some(pid) = next.filter(|pid| *pid >= INIT && line.insert(*pid)) {
        next = fs::read_to_string(format!("/proc/{pid}/stat"))
            .ok()
            .and_then(|stat| Stat::parse(&stat))
            .map(|stat| stat.parent);
    }
    line
}

/// True if this process sees the processes of its own PID namespace only, as in a container.
pub(super) fn is_contained() -> bool {
    // The number of the machine's own: PROC_PID_INIT_INO in include/linux/proc_ns.h of the kernel.
    fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own != Path::new("pid:[4026531836]"))
}

fn numbers(directory: &Path) -> Vec<i32> {
    fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// Fields of `/proc/PID/stat` (`proc_pid_stat(5)`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stat {
    pub(super) parent: i32,
    /// CPU time of children that ended and were waited for, in hundredths of a second.
    pub(super) waited_ticks: u64,
    pub(super) threads: u64,
}

impl Stat {
    /// Parse the file. The second field is a name in parentheses, which may hold anything.
    pub(super) fn parse(stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(')')?;
        let fields: Vec<&str> = fields.split_whitespace().collect();
        let [user, system] = [13, 14].map(|at| fields.get(at)?.parse::<u64>().ok());
        Some(Self {
            parent: fields.get(1)?.parse().ok()?,
            waited_ticks: user?.saturating_add(system?),
            threads: fields.get(17)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;
    use crate::target_usage::sockets::Diag;

    #[test]
    fn the_holder_of_a_listening_socket_is_found() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = socket.local_addr().unwrap().port();
        let listeners = Diag::open().unwrap().listeners(&[false]).unwrap();
        let inodes: BTreeSet<u32> = listeners
            .iter()
            .filter(|it| it.port == port)
            .map(|it| it.inode)
            .collect();
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(owners(&inodes), [own]);
        assert!(own_line().contains(&own));
    }

    #[test]
    fn the_holder_of_a_unix_socket_is_found_whatever_the_path_is_written_like() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let listener = UnixListener::bind(&path).unwrap();
        let _client = UnixStream::connect(&path).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        for path in [path, folder.path().join(".").join("a.sock")] {
            let inodes = unix_listeners(&path);
            assert_eq!((inodes.len(), owners(&inodes)), (1, vec![own]));
        }
        drop(listener);
        assert!(unix_listeners(&folder.path().join("a.sock")).is_empty());
    }

    #[test]
    fn a_name_may_look_like_fields() {
        let stat = Stat::parse("7 (a) S 9) R 3 7 7 0 -1 0 0 0 0 0 1 2 30 4 20 0 1 0 0");
        assert_eq!(
            stat,
            Some(Stat {
                parent: 3,
                waited_ticks: 34,
                threads: 1,
            })
        );
    }
}
