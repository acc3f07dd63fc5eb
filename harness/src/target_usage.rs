//! The target's side of a run: readings of the processes that serve it.
//!
//! A *probe* is a process beside the target, on its machine: `crawlmark probe`. It finds the
//! target's processes, samples them about ten times a second, writes a JSON line for each sample to
//! standard output, and answers each line on standard input with its clock. A run starts one, for a
//! target on the same machine or, through a command such as `ssh`, for any other, and keeps what it
//! writes in a [`TargetRecord`]. There is no open port and no authentication of its own.
//!
//! Reads nothing of processes that are not the target's, beyond the links in `/proc/PID/fd` that
//! show who holds a listening socket. A reading that the machine does not give is absent, with a
//! reason in [`TargetFound::unavailable`], and never 0.
//!
//! | room | for |
//! |---|---|
//! | `find` | processes by port, process ID or cgroup |
//! | `track` | CPU time and waits of a set of processes that come and go |
//! | `sockets` | listening sockets and their accept queues |
//! | `sampler` | all of these in one sample |
//! | `probe` | the loop of the probe |
//! | `line` | the lines between a probe and a run |

mod find;
mod line;
mod probe;
mod sampler;
mod sockets;
mod track;

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::profile::Profile;

pub use self::line::{ASK_FOR_PROFILE, Line, Lines, Pong};
pub use self::probe::serve;
pub use self::sampler::{Depth, NotFound, Sampler, boot_id};

/// Choice of the processes of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    /// Those that listen on one of these TCP ports, with their children.
    Ports(Vec<Port>),
    /// Those that listen on this Unix socket, with their children.
    UnixSocket(PathBuf),
    /// This process, with its children.
    Pid(i32),
    /// Those in this cgroup and in the cgroups below it: a directory, or a path as in
    /// `/proc/PID/cgroup`.
    Cgroup(PathBuf),
}

/// A TCP port on which a target listens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Port {
    /// Address of this machine on which it does; any without one. A socket that listens on all
    /// addresses is one of each.
    pub address: Option<IpAddr>,
    /// The port.
    pub number: u16,
}

impl Port {
    /// True if connections to it may come to a socket that listens there.
    fn is_of(self, address: IpAddr, number: u16) -> bool {
        self.number == number
            && self
                .address
                .is_none_or(|wanted| address.is_unspecified() || address.to_canonical() == wanted)
    }
}

impl FromStr for Port {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let whole: Option<SocketAddr> = text.parse().ok();
        let number = whole.map_or_else(|| text.parse().ok(), |whole| Some(whole.port()));
        let address = whole.map(|whole| whole.ip().to_canonical());
        number
            .filter(|number| *number > 0)
            .map(|number| Self { address, number })
            .ok_or("not a port: write 8080, or 127.0.0.1:8080 for that address alone")
    }
}

impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.address {
            Some(address) => SocketAddr::new(address, self.number).fmt(f),
            None => self.number.fmt(f),
        }
    }
}

/// A target that a probe has found. The first line of a probe.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFound {
    /// Names of its processes, each once.
    pub names: Vec<String>,
    /// Its processes, at most 64 of them.
    pub pids: Vec<i32>,
    /// Cgroup of the first of them, or the nearest one above it that has a CPU quota.
    pub cgroup: Option<String>,
    /// CPUs that its threads may run on.
    pub cpus: Vec<usize>,
    /// Identity of the machine since it booted: equal if probe and client are on one machine.
    pub boot_id: Option<String>,
    /// Processes that the CPU pressure is of.
    pub pressure_of: Option<PressureOf>,
    /// Fields of [`TargetSample`] that cannot be read, each with the reason.
    pub unavailable: BTreeMap<String, String>,
}

/// Processes that a CPU pressure is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PressureOf {
    /// Those of the target's cgroup.
    Cgroup,
    /// All of the target's machine.
    Machine,
}

/// Readings of a target at one time. Counts and times grow from an arbitrary origin, so only their
/// differences say something. Of a target with many threads, most samples have the accept queue
/// alone: reading the others costs CPU time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetSample {
    /// Time of the sample, ns: of the probe's `CLOCK_MONOTONIC` on the line, and of the run's clock
    /// in a [`TargetRecord`].
    pub at_ns: u64,
    /// Processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processes: Option<u32>,
    /// Threads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<u32>,
    /// CPU time, ns, with that of children that ended and were waited for, to 10 ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_ns: Option<u64>,
    /// Time for which its threads were ready to run and had no CPU, ns, summed over the threads.
    /// Throttled time is in it. Of threads that live for less than a second, it may be missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run_delay_ns: Option<u64>,
    /// The same of the thread that waited most since the probe began, from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_delay_ns: Option<u64>,
    /// Time for which its cgroup was throttled by its CPU quota, ns, summed over the CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_ns: Option<u64>,
    /// Periods of the quota in which the cgroup had work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub periods: Option<u64>,
    /// Periods in which it was throttled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throttled_periods: Option<u64>,
    /// Time in which a thread was ready to run and had no CPU (PSI, `some`), us; see
    /// [`TargetFound::pressure_of`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pressure_us: Option<u64>,
    /// Resident memory, bytes, summed over the processes: pages that they share count for each.
    /// Once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss_bytes: Option<u64>,
    /// Open descriptors. Once a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fds: Option<u64>,
    /// Accept queues of its listening sockets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accept_queue: Option<AcceptQueue>,
    /// The process that used most CPU since the probe began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_process: Option<Busiest>,
    /// The thread that used most CPU since the probe began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub busiest_thread: Option<Busiest>,
}

/// What a target used in the last second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TargetNow {
    /// CPUs in use.
    pub cpus: Option<f64>,
    /// Threads that were ready to run and had no CPU, in the mean.
    pub waiting: Option<f64>,
    /// Part of the periods of its CPU quota in which it was throttled; none without a quota.
    pub throttled: Option<f64>,
}

impl TargetNow {
    /// Read it from samples, in order.
    pub fn of(samples: &[TargetSample]) -> Self {
        let per_time = |of| grown(samples, of).map(|(grown, passed_ns)| grown / passed_ns);
        let throttled = grown(samples, |it| it.throttled_periods);
        let periods = grown(samples, |it| it.periods);
        Self {
            cpus: per_time(|it| it.cpu_ns),
            waiting: per_time(|it| it.run_delay_ns),
            throttled: throttled
                .zip(periods)
                .map(|((of, _), (all, _))| of / all.max(1.0)),
        }
    }
}

/// Return the growth of a counter to its last reading from the latest that is a second older, and the
/// time between them, ns.
fn grown(samples: &[TargetSample], of: fn(&TargetSample) -> Option<u64>) -> Option<(f64, f64)> {
    let mut read = samples
        .iter()
        .rev()
        .filter_map(|it| Some((it.at_ns, of(it)?)));
    let (at_ns, last) = read.next()?;
    let (then_ns, first) = read.find(|(then, _)| at_ns.saturating_sub(*then) >= SECOND_NS)?;
    let grown = last.saturating_sub(first) as f64;
    Some((grown, at_ns.saturating_sub(then_ns) as f64))
}

/// A second.
const SECOND_NS: u64 = 1_000_000_000;

/// Accept queues, summed over listening sockets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AcceptQueue {
    /// Connections that wait to be accepted.
    pub length: u64,
    /// Connections that may wait.
    pub limit: u64,
    /// Connections and segments that the sockets dropped. Absent if the kernel does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drops: Option<u64>,
}

/// A process or a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Busiest {
    /// Its ID.
    pub id: i32,
    /// Its name.
    pub name: String,
    /// CPU time since the probe began, ns.
    pub cpu_ns: u64,
}

/// What a probe wrote over a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TargetRecord {
    /// Choice of the probe, as `port 8080`, or the first word of its command.
    pub source: String,
    /// True if it ran on the machine of the run.
    pub is_here: bool,
    /// Target that it found; none if it found none.
    pub found: Option<TargetFound>,
    /// Its samples, in order, on the clock of the run.
    pub samples: Vec<TargetSample>,
    /// Lines that could not be read.
    pub bad_lines: u64,
    /// Reason why it ended before the run; none if it did not.
    pub ended: Option<String>,
    /// Functions that used the CPU; none of a probe that does not sample them.
    pub profile: Option<Profile>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_second_of_a_steady_target_is_its_rate_however_seldom_it_is_read() {
        for each in [1, 3, 10] {
            let samples: Vec<TargetSample> = (0..=40)
                .map(|tenth| TargetSample {
                    at_ns: tenth * 100_000_000,
                    cpu_ns: (tenth % each == 0).then_some(tenth * 150_000_000),
                    throttled_periods: Some(tenth / 2),
                    periods: Some(tenth),
                    ..TargetSample::default()
                })
                .collect();
            let now = TargetNow::of(&samples);
            assert!((now.cpus.unwrap() - 1.5).abs() < 1e-9);
            assert!((now.throttled.unwrap() - 0.5).abs() < 1e-9);
            assert_eq!(now.waiting, None);
            assert_eq!(TargetNow::of(&samples[..10]), TargetNow::default());
        }
    }
}
