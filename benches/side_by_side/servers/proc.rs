//! Resources of a running server, from `/proc`: its first process and all that came from it.

use std::fs;
use std::io;

use crate::error::Error;

/// The unit of CPU times in `/proc`: `USER_HZ` is 100 on every architecture that Rust's Linux targets run on.
const US_PER_TICK: f64 = 10_000.0;

/// Resources that the processes running just now have used so far.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Usage {
    /// CPU time in user mode, us.
    pub(super) user_us: f64,
    /// CPU time in the kernel, us.
    pub(super) system_us: f64,
    /// The most resident memory that one of them ever had (`VmHWM`).
    pub(super) peak_bytes: u64,
}

/// Fields of `/proc/PID/stat` of one process.
#[derive(Debug, Clone, Copy)]
struct Stat {
    pid: u32,
    parent: u32,
    user_ticks: f64,
    system_ticks: f64,
}

impl Usage {
    /// Return the usage of `pid` and its descendants.
    pub(super) fn of(pid: u32) -> Result<Self, Error> {
        let everybody = everybody()?;
        let mut family = vec![pid];
        let mut next = 0;
        while let Some(parent) = family.get(next).copied() {
            family.extend(everybody.iter().filter(|stat| stat.parent == parent).map(|stat| stat.pid));
            next += 1;
        }
        let mut usage = Self::default();
        for stat in everybody.iter().filter(|stat| family.contains(&stat.pid)) {
            usage.user_us += stat.user_ticks * US_PER_TICK;
            usage.system_us += stat.system_ticks * US_PER_TICK;
            usage.peak_bytes = usage.peak_bytes.max(peak_bytes(stat.pid).unwrap_or(0));
        }
        Ok(usage)
    }
}

/// All processes. Those that end in the meantime are left out.
fn everybody() -> io::Result<Vec<Stat>> {
    let entries = fs::read_dir("/proc")?;
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
    Ok(pids.filter_map(|pid| stat(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)).collect())
}

/// `1234 (name) S 1 ..`: the name may hold anything, so it is looked for from the end. Fields as in `proc_pid_stat(5)`.
fn stat(pid: u32, text: &str) -> Option<Stat> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    Some(Stat { pid, parent, user_ticks: fields.get(11)?.parse().ok()?, system_ticks: fields.get(12)?.parse().ok()? })
}

/// `VmHWM:    1234 kB`.
fn peak_bytes(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
