//! One sample of all that is read of a target.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use nix::errno::Errno;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::{Pid, SysconfVar, sysconf};

use super::find;
use super::sockets::{Diag, Listener};
use super::track::Tracked;
use super::{AcceptQueue, Port, PressureOf, Selection, TargetFound, TargetSample};
use crate::clock::{duration_ns, monotonic_ns, thread_cpu_ns};
use crate::machine::cgroup::{Cgroup, Hierarchies, pressure_us, read};

/// Interval between looks for new processes and threads, which cost more than a sample.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Parts of a CPU that looks, and readings of all processes and threads, may use, as reciprocals:
/// 0.05 % and 0.1 %. They are made less often of a target that has many.
const LOOK_CPU_PARTS: u64 = 2_000;
const READING_CPU_PARTS: u64 = 1_000;

/// Depth of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Depth {
    /// All readings.
    Full,
    /// The accept queue; all else only if its CPU time can be afforded.
    Affordable,
}

/// Processes that the first line of a probe lists.
const LISTED: usize = 64;

/// Reason why there is no target to sample.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// Nothing listens.
    #[error(
        "no process listens on port {}. Start the target first; name one in a container or in another network namespace with --pid or --cgroup",
        listed(.0)
    )]
    Ports(Vec<Port>),
    /// Nothing listens on the Unix socket.
    #[error("no process listens on the Unix socket {0}")]
    UnixSocket(String),
    /// There is no such process.
    #[error("no process has the ID {0}")]
    Pid(i32),
    /// There is no such cgroup, or it is empty.
    #[error(
        "no process is in the cgroup {0}. Write its path as in /proc/PID/cgroup, or its directory below /sys/fs/cgroup"
    )]
    Cgroup(String),
}

fn listed(ports: &[Port]) -> String {
    let ports: Vec<String> = ports.iter().map(Port::to_string).collect();
    ports.join(", ")
}

/// Samples a target.
#[derive(Debug)]
pub struct Sampler {
    selection: Selection,
    hierarchies: Hierarchies,
    tracked: Tracked,
    /// This process and those that it descends from.
    own_line: BTreeSet<i32>,
    diag: Result<Diag, Errno>,
    /// Its listening sockets.
    inodes: BTreeSet<u32>,
    /// Families of these sockets: IPv4, IPv6.
    is_v6: BTreeSet<bool>,
    cgroup: Cgroup,
    /// Pressure of the machine, where that of the cgroup is not known.
    machine_pressure: Option<File>,
    next_look_ns: u64,
    next_reading_ns: u64,
    page_bytes: u64,
}

impl Sampler {
    /// Find a target, and return its first sample.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(selection: Selection) -> Result<(Self, TargetFound, TargetSample), NotFound> {
        let mut sampler = Self {
            hierarchies: Hierarchies::parse(
                &fs::read_to_string("/proc/self/mountinfo").unwrap_or_default(),
            ),
            tracked: Tracked::default(),
            own_line: find::own_line(),
            diag: Diag::open(),
            inodes: BTreeSet::new(),
            is_v6: BTreeSet::new(),
            cgroup: Cgroup::default(),
            machine_pressure: None,
            next_look_ns: 0,
            next_reading_ns: 0,
            page_bytes: page_bytes(),
            selection,
        };
        let listeners = sampler.listeners(true);
        sampler.look(&listeners);
        let is_found = !sampler.tracked.is_empty() || !sampler.inodes.is_empty();
        match &sampler.selection {
            _ if is_found => {}
            Selection::Ports(ports) => return Err(NotFound::Ports(ports.clone())),
            Selection::UnixSocket(path) => {
                return Err(NotFound::UnixSocket(path.display().to_string()));
            }
            Selection::Pid(pid) => return Err(NotFound::Pid(*pid)),
            Selection::Cgroup(path) => return Err(NotFound::Cgroup(path.display().to_string())),
        }
        sampler.open_cgroup();
        let sample = sampler.sample(Depth::Full);
        let found = sampler.found(&sample);
        Ok((sampler, found, sample))
    }

    fn open_cgroup(&mut self) {
        let first = self.tracked.pids().next();
        self.cgroup = match &self.selection {
            Selection::Cgroup(path) => {
                let path = self.hierarchies.path(path);
                let members = self.hierarchies.members(&path);
                let has_probe = members.iter().any(|pid| self.own_line.contains(pid));
                let mut cgroup = Cgroup::named(&self.hierarchies, &path);
                // The cgroup's CPU time is the target's alone if this probe is not in it.
                cgroup.usage.take_if(|_| has_probe);
                cgroup
            }
            _ => first.map_or_else(Cgroup::default, |pid| {
                let membership = fs::read_to_string(format!("/proc/{pid}/cgroup"));
                Cgroup::of_process(&self.hierarchies, &membership.unwrap_or_default())
            }),
        };
        if self.cgroup.pressure_us().is_none() {
            self.machine_pressure = File::open("/proc/pressure/cpu").ok();
        }
    }

    /// List listening sockets: all, or those of the families that the target has.
    fn listeners(&mut self, is_thorough: bool) -> Vec<Listener> {
        let Ok(diag) = &mut self.diag else {
            return Vec::new();
        };
        let families: Vec<bool> = [false, true]
            .into_iter()
            .filter(|is_v6| is_thorough || self.is_v6.contains(is_v6))
            .collect();
        match diag.listeners(&families) {
            Ok(listeners) => listeners,
            Err(error) => {
                self.diag = Err(error);
                Vec::new()
            }
        }
    }

    /// Look for processes, threads and sockets that are new.
    fn look(&mut self, listeners: &[Listener]) {
        let found = match &self.selection {
            Selection::Ports(ports) => {
                let inodes = listeners
                    .iter()
                    .filter(|it| ports.iter().any(|port| port.is_of(it.address, it.port)))
                    .map(|it| it.inode)
                    .collect();
                self.owners(inodes)
            }
            Selection::UnixSocket(path) => {
                let inodes = find::unix_listeners(path);
                self.owners(inodes)
            }
            Selection::Pid(pid) => vec![*pid],
            Selection::Cgroup(path) => {
                let members = self.hierarchies.members(&self.hierarchies.path(path));
                members
                    .iter()
                    .filter(|pid| !self.own_line.contains(pid))
                    .copied()
                    .collect()
            }
        };
        self.tracked.look(&found, &self.own_line);
        if self.inodes.is_empty() {
            let held: BTreeSet<u32> = self.tracked.pids().flat_map(find::sockets).collect();
            let listening = listeners.iter().map(|it| it.inode);
            self.inodes = listening.filter(|inode| held.contains(inode)).collect();
        }
        let own = listeners
            .iter()
            .filter(|it| self.inodes.contains(&it.inode));
        self.is_v6 = own.map(|it| it.is_v6).collect();
    }

    /// Return the processes that hold the target's sockets, if those have changed: going through the
    /// descriptors of all processes takes milliseconds.
    fn owners(&mut self, inodes: BTreeSet<u32>) -> Vec<i32> {
        let is_new = inodes != self.inodes || self.tracked.is_empty();
        self.inodes = inodes;
        if is_new {
            find::owners(&self.inodes)
        } else {
            Vec::new()
        }
    }

    /// Return the threads of the target, each with its process.
    pub fn threads(&self) -> Vec<(i32, i32)> {
        self.tracked.threads().collect()
    }

    /// Take a sample.
    pub fn sample(&mut self, depth: Depth) -> TargetSample {
        let at_ns = monotonic_ns();
        let is_thorough = at_ns >= self.next_look_ns;
        let listeners = self.listeners(is_thorough);
        if depth == Depth::Affordable && at_ns < self.next_reading_ns {
            return TargetSample {
                at_ns,
                accept_queue: accept_queue(&listeners, &self.inodes),
                ..TargetSample::default()
            };
        }
        let used_before = thread_cpu_ns();
        let sample = self.read(at_ns, is_thorough, &listeners);
        let used_ns = thread_cpu_ns()
            .zip(used_before)
            .map_or(0, |(now, before)| now.saturating_sub(before));
        if is_thorough {
            let least_ns = duration_ns(LOOK_EVERY);
            self.next_look_ns = at_ns + least_ns.max(used_ns.saturating_mul(LOOK_CPU_PARTS));
        } else {
            self.next_reading_ns = at_ns + used_ns.saturating_mul(READING_CPU_PARTS);
        }
        sample
    }

    /// Read all processes and threads; `is_thorough` looks for new ones first.
    fn read(&mut self, at_ns: u64, is_thorough: bool, listeners: &[Listener]) -> TargetSample {
        if is_thorough {
            self.look(listeners);
        }
        let read = self.tracked.read(is_thorough);
        let is_known = !self.tracked.is_empty() || read.cpu_ns > 0;
        let throttling = self.cgroup.throttling();
        let machine = self
            .machine_pressure
            .as_ref()
            .and_then(|file| pressure_us(&self::read(file)?));
        TargetSample {
            at_ns,
            processes: Some(read.processes),
            threads: Some(read.threads),
            cpu_ns: self.cgroup.usage_ns().or(is_known.then_some(read.cpu_ns)),
            run_delay_ns: read.run_delay_ns,
            longest_delay_ns: read.longest_delay_ns,
            throttled_ns: throttling.map(|it| it.throttled_ns),
            periods: throttling.map(|it| it.periods),
            throttled_periods: throttling.map(|it| it.throttled_periods),
            pressure_us: self.cgroup.pressure_us().or(machine),
            rss_bytes: self.sum(is_thorough, |pid| Some(rss_pages(pid)? * self.page_bytes)),
            fds: self.sum(is_thorough, open_descriptors),
            accept_queue: accept_queue(listeners, &self.inodes),
            busiest_process: read.busiest_process,
            busiest_thread: read.busiest_thread,
        }
    }

    /// Sum a value over the processes; none if it is not time, or no process has it.
    fn sum(&self, is_time: bool, of: impl Fn(i32) -> Option<u64>) -> Option<u64> {
        self.tracked
            .pids()
            .filter(|_| is_time)
            .filter_map(of)
            .fold(None, |sum, own| Some(sum.unwrap_or(0) + own))
    }

    fn found(&self, sample: &TargetSample) -> TargetFound {
        let pressure_of = if self.machine_pressure.is_some() {
            PressureOf::Machine
        } else {
            PressureOf::Cgroup
        };
        TargetFound {
            names: self.tracked.names(),
            pids: self.tracked.pids().take(LISTED).collect(),
            cgroup: self.cgroup.path.clone(),
            cpus: cpus(self.tracked.threads().map(|(_, thread)| thread)),
            boot_id: boot_id(),
            pressure_of: sample.pressure_us.map(|_| pressure_of),
            unavailable: self.unavailable(sample),
        }
    }

    fn unavailable(&self, sample: &TargetSample) -> BTreeMap<String, String> {
        let of_other_user = self.tracked.is_empty();
        let processes = if of_other_user && find::is_contained() {
            "its processes are outside of this container: give it the processes of the machine (--pid host), or run the probe beside the target (--target-probe)"
        } else if of_other_user {
            "its processes are not visible: run the probe as their user or as root, or name one (--pid)"
        } else {
            "the kernel does not say"
        };
        let accept_queue = match &self.diag {
            Err(error) => format!("the kernel refuses to list sockets: {}", error.desc()),
            Ok(_) => "it has no listening TCP socket in the probe's network namespace".to_owned(),
        };
        let rows = [
            ("cpu", sample.cpu_ns.is_none(), processes),
            ("run_delay", sample.run_delay_ns.is_none(), processes),
            (
                "throttled",
                sample.throttled_ns.is_none(),
                if of_other_user {
                    processes
                } else {
                    "no CPU quota applies to its cgroup"
                },
            ),
            (
                "pressure",
                sample.pressure_us.is_none(),
                "the kernel has no pressure information (PSI)",
            ),
            ("rss", sample.rss_bytes.is_none(), processes),
            (
                "fds",
                sample.fds.is_none(),
                "the probe may not see its descriptors, or the kernel is older than Linux 6.2",
            ),
            (
                "accept_queue",
                sample.accept_queue.is_none(),
                accept_queue.as_str(),
            ),
        ];
        rows.into_iter()
            .filter(|(_, is_missing, _)| *is_missing)
            .map(|(field, _, why)| (field.to_owned(), why.to_owned()))
            .collect()
    }
}

/// Sum the accept queues of listening sockets; none without any.
fn accept_queue(listeners: &[Listener], inodes: &BTreeSet<u32>) -> Option<AcceptQueue> {
    let mut sum = None;
    for it in listeners.iter().filter(|it| inodes.contains(&it.inode)) {
        let queue = sum.get_or_insert(AcceptQueue {
            drops: Some(0),
            ..AcceptQueue::default()
        });
        queue.length += u64::from(it.length);
        queue.limit += u64::from(it.limit);
        queue.drops = queue
            .drops
            .zip(it.drops)
            .map(|(sum, own)| sum + u64::from(own));
    }
    sum
}

/// Return the CPUs that any of these threads may run on.
fn cpus(threads: impl Iterator<Item = i32>) -> Vec<usize> {
    let allowed: Vec<CpuSet> = threads
        .filter_map(|thread| sched_getaffinity(Pid::from_raw(thread)).ok())
        .collect();
    (0..CpuSet::count())
        .filter(|cpu| allowed.iter().any(|set| set.is_set(*cpu) == Ok(true)))
        .collect()
}

/// Read the identity of this machine since it booted.
pub fn boot_id() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

fn page_bytes() -> u64 {
    let size = sysconf(SysconfVar::PAGE_SIZE);
    size.ok()
        .flatten()
        .and_then(|size| u64::try_from(size).ok())
        .unwrap_or(4096)
}

fn rss_pages(pid: i32) -> Option<u64> {
    let statm = fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    statm.split(' ').nth(1)?.parse().ok()
}

/// Return the number of open descriptors: the size of the directory that lists them, since Linux
/// 6.2; before that it is 0, which no server has.
fn open_descriptors(pid: i32) -> Option<u64> {
    let path = format!("/proc/{pid}/fd");
    let size = fs::metadata(Path::new(&path)).ok()?.len();
    Some(size).filter(|size| *size > 0)
}
