//! CPU time and waits of a set of processes that come and go.
//!
//! The CPU time of the set never counts a process twice and never falls. A process that ends is
//! either waited for by its parent, whose `stat` then holds its time (to 10 ms), or is gone without
//! a trace. Which of them, `/proc` does not say: so a parent counts for the greater of what it has
//! waited for and what its children that are gone had used when they were last read.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::unix::fs::FileExt;

use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;

use super::Busiest;
use super::find::{self, Stat};
use crate::clock::duration_ns;

/// Nanoseconds in the unit of `stat`.
const TICK_NS: u64 = 10_000_000;

/// Moment at which a process or a thread began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Began {
    /// Before it was found: what it had used by then is not this probe's.
    Before,
    /// Since the last look: all that it used counts.
    Since,
}

/// A value that grows.
#[derive(Debug, Clone, Copy, Default)]
struct Growth {
    first: u64,
    last: u64,
}

impl Growth {
    const fn new(value: u64, began: Began) -> Self {
        let first = match began {
            Began::Before => value,
            Began::Since => 0,
        };
        Self { first, last: value }
    }

    /// Take in a reading; a lower one is of another process with the same ID.
    fn read(&mut self, value: u64) {
        self.last = self.last.max(value);
    }

    const fn grown(self) -> u64 {
        self.last.saturating_sub(self.first)
    }
}

#[derive(Debug)]
struct Thread {
    /// `schedstat`, kept open: opening it costs ten times as much as reading it.
    file: File,
    ran: Growth,
    delayed: Growth,
}

#[derive(Debug)]
struct Process {
    pid: i32,
    parent: i32,
    name: String,
    clock: ClockId,
    /// `stat`, kept open: the file of a process that is gone cannot be read.
    stat: File,
    cpu: Growth,
    /// CPU time of children that it waited for, ns.
    waited_ns: u64,
    /// The same, or what those that are gone had used, whichever is known, ns.
    owed_ns: u64,
    /// True if it has had children.
    is_parent: bool,
    threads: BTreeMap<i32, Thread>,
    /// Waits of threads that are gone, ns.
    past_delay_ns: u64,
}

/// The processes of a target.
#[derive(Debug, Default)]
pub(super) struct Tracked {
    /// Parents before their children.
    processes: Vec<Process>,
    /// CPU time of processes that are gone and had no parent here, less that of processes from
    /// before they were found, ns.
    past_cpu_ns: i128,
    /// CPU time as it was read last, ns.
    cpu_ns: u64,
    past_delay_ns: u64,
    /// The thread that waited most, of those that are gone, too.
    longest_delay_ns: u64,
    /// Name of the thread that was busiest when it was last named.
    named: Busiest,
    /// True once processes were found: what is found below them later began since.
    has_looked: bool,
    buffer: Vec<u8>,
}

/// Readings of the set.
#[derive(Debug, Clone, Default)]
pub(super) struct Readings {
    pub(super) processes: u32,
    pub(super) threads: u32,
    pub(super) cpu_ns: u64,
    /// None if no thread has a `schedstat`.
    pub(super) run_delay_ns: Option<u64>,
    pub(super) longest_delay_ns: Option<u64>,
    pub(super) busiest_process: Option<Busiest>,
    pub(super) busiest_thread: Option<Busiest>,
}

impl Tracked {
    pub(super) fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    pub(super) fn pids(&self) -> impl Iterator<Item = i32> {
        self.processes.iter().map(|process| process.pid)
    }

    /// Return the names of the processes, each once.
    pub(super) fn names(&self) -> Vec<String> {
        self.processes
            .iter()
            .map(|process| process.name.clone())
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect()
    }

    /// Return all threads, each with its process.
    pub(super) fn threads(&self) -> impl Iterator<Item = (i32, i32)> {
        self.processes
            .iter()
            .flat_map(|it| it.threads.keys().map(|thread| (it.pid, *thread)))
    }

    /// Add processes, then look for new threads and for children of all, but for those in `others`
    /// and what they started.
    pub(super) fn look(&mut self, found: &[i32], others: &BTreeSet<i32>) {
        for pid in found {
            if !self.pids().any(|own| own == *pid)
                && let Some(process) = self.open(*pid, None)
            {
                self.past_cpu_ns -= i128::from(process.total_ns());
                self.processes.push(process);
            }
        }
        let mut known: BTreeSet<i32> = self.pids().collect();
        let mut at = 0;
        while at < self.processes.len() {
            let pid = self.processes[at].pid;
            let (process, buffer) = (&mut self.processes[at], &mut self.buffer);
            process.look(buffer);
            // Each look at a thread takes microseconds: those of a process that has had no children
            // are not asked for any, but for the first one.
            let asked: Vec<i32> = process
                .threads
                .keys()
                .copied()
                .filter(|it| *it == pid || process.is_parent)
                .collect();
            for thread in asked {
                for child in find::children(pid, thread) {
                    self.processes[at].is_parent = true;
                    if !others.contains(&child)
                        && known.insert(child)
                        && let Some(child) = self.open(child, Some(pid))
                    {
                        self.processes.push(child);
                    }
                }
            }
            at += 1;
        }
        self.has_looked |= at > 0;
    }

    /// Open the files of a process: one that was found by itself, or a child. None of one that is
    /// gone.
    fn open(&mut self, pid: i32, parent: Option<i32>) -> Option<Process> {
        let clock = clock_getcpuclockid(Pid::from_raw(pid)).ok()?;
        let stat = File::open(format!("/proc/{pid}/stat")).ok()?;
        let facts = read(&stat, &mut self.buffer).and_then(Stat::parse)?;
        let began = if parent.is_some() && self.has_looked {
            Began::Since
        } else {
            Began::Before
        };
        let waited_ns = facts.waited_ticks.saturating_mul(TICK_NS);
        let threads = find::threads(pid).into_iter().filter_map(|thread| {
            let opened = Thread::open(pid, thread, began, &mut self.buffer)?;
            Some((thread, opened))
        });
        Some(Process {
            threads: threads.collect(),
            pid,
            parent: parent.unwrap_or(facts.parent),
            name: find::name(pid).unwrap_or_default(),
            clock,
            stat,
            cpu: Growth::new(cpu_ns(clock)?, began),
            waited_ns,
            owed_ns: waited_ns,
            is_parent: waited_ns > 0,
            past_delay_ns: 0,
        })
    }

    /// Read all of them. `is_thorough` reads what children have used of processes that have had
    /// none so far, too.
    pub(super) fn read(&mut self, is_thorough: bool) -> Readings {
        let mut gone = Vec::new();
        // Parents first: a child that is waited for in between is then missing in this reading
        // rather than counted twice.
        for (at, process) in self.processes.iter_mut().enumerate() {
            if !process.read(is_thorough, &mut self.buffer) {
                gone.push(at);
            }
        }
        for at in gone.into_iter().rev() {
            self.bury(at);
        }
        self.readings()
    }

    /// Remove a process that is gone. Its time is its parent's from now on.
    fn bury(&mut self, at: usize) {
        let process = self.processes.remove(at);
        self.past_delay_ns += process.delay_ns();
        self.longest_delay_ns = self.longest_delay_ns.max(process.longest_delay_ns());
        let parent = process.parent;
        match self.processes.iter_mut().find(|it| it.pid == parent) {
            Some(parent) => parent.owed_ns += process.total_ns(),
            None => self.past_cpu_ns += i128::from(process.total_ns()),
        }
    }

    fn readings(&mut self) -> Readings {
        let present: i128 = self
            .processes
            .iter()
            .map(|it| i128::from(it.total_ns()))
            .sum();
        let cpu = u64::try_from(present + self.past_cpu_ns).unwrap_or(0);
        // Up to 10 ms of a child are lost in its parent's `stat`, until others make up for them.
        self.cpu_ns = self.cpu_ns.max(cpu);
        let threads: Vec<_> = self.processes.iter().flat_map(|it| &it.threads).collect();
        let busiest = threads
            .iter()
            .max_by_key(|(_, it)| it.ran.grown())
            .map(|(id, it)| (**id, it.ran.grown()));
        let has_delay = !threads.is_empty() || self.past_delay_ns > 0;
        let delays = self.processes.iter().map(Process::delay_ns).sum::<u64>();
        let longest = self
            .processes
            .iter()
            .map(Process::longest_delay_ns)
            .max()
            .unwrap_or(0)
            .max(self.longest_delay_ns);
        let process = self.processes.iter().max_by_key(|it| it.cpu.grown());
        Readings {
            processes: u32::try_from(self.processes.len()).unwrap_or(u32::MAX),
            threads: u32::try_from(threads.len()).unwrap_or(u32::MAX),
            cpu_ns: self.cpu_ns,
            run_delay_ns: has_delay.then_some(delays + self.past_delay_ns),
            longest_delay_ns: has_delay.then_some(longest),
            busiest_process: process.map(|it| Busiest {
                id: it.pid,
                name: it.name.clone(),
                cpu_ns: it.cpu.grown(),
            }),
            busiest_thread: busiest.map(|(id, cpu_ns)| self.named(id, cpu_ns)),
        }
    }

    fn named(&mut self, id: i32, cpu_ns: u64) -> Busiest {
        if self.named.id != id {
            self.named.id = id;
            self.named.name = find::name(id).unwrap_or_default();
        }
        self.named.cpu_ns = cpu_ns;
        self.named.clone()
    }
}

impl Process {
    /// Return the CPU time of it and of its children that are gone, ns.
    fn total_ns(&self) -> u64 {
        self.cpu.last + self.waited_ns.max(self.owed_ns)
    }

    fn delay_ns(&self) -> u64 {
        self.threads
            .values()
            .map(|it| it.delayed.grown())
            .sum::<u64>()
            + self.past_delay_ns
    }

    fn longest_delay_ns(&self) -> u64 {
        self.threads
            .values()
            .map(|it| it.delayed.grown())
            .max()
            .unwrap_or(0)
    }

    /// Open the files of new threads, if the number of threads has changed.
    fn look(&mut self, buffer: &mut Vec<u8>) {
        let threads = read(&self.stat, buffer).and_then(Stat::parse);
        if threads.is_none_or(|it| it.threads == self.threads.len() as u64) {
            return;
        }
        for thread in find::threads(self.pid) {
            if !self.threads.contains_key(&thread)
                && let Some(opened) = Thread::open(self.pid, thread, Began::Since, buffer)
            {
                self.threads.insert(thread, opened);
            }
        }
    }

    /// Read its clocks. False if it is gone.
    fn read(&mut self, is_thorough: bool, buffer: &mut Vec<u8>) -> bool {
        if is_thorough || self.is_parent {
            let Some(facts) = read(&self.stat, buffer).and_then(Stat::parse) else {
                return false;
            };
            self.waited_ns = facts.waited_ticks.saturating_mul(TICK_NS);
            self.is_parent |= self.waited_ns > 0;
        }
        let Some(cpu_ns) = cpu_ns(self.clock) else {
            return false;
        };
        self.cpu.read(cpu_ns);
        let past = &mut self.past_delay_ns;
        self.threads.retain(|_, thread| {
            let is_there = thread.read(buffer);
            if !is_there {
                *past += thread.delayed.grown();
            }
            is_there
        });
        true
    }
}

impl Thread {
    fn open(pid: i32, thread: i32, began: Began, buffer: &mut Vec<u8>) -> Option<Self> {
        let file = File::open(format!("/proc/{pid}/task/{thread}/schedstat")).ok()?;
        let [ran, delayed] = schedstat(read(&file, buffer)?)?;
        Some(Self {
            file,
            ran: Growth::new(ran, began),
            delayed: Growth::new(delayed, began),
        })
    }

    fn read(&mut self, buffer: &mut Vec<u8>) -> bool {
        let Some([ran, delayed]) = read(&self.file, buffer).and_then(schedstat) else {
            return false;
        };
        self.ran.read(ran);
        self.delayed.read(delayed);
        true
    }
}

/// Parse a `schedstat`: time on a CPU, and time of waiting for one, ns.
fn schedstat(text: &str) -> Option<[u64; 2]> {
    let mut fields = text.split_whitespace().map(str::parse);
    Some([fields.next()?.ok()?, fields.next()?.ok()?])
}

/// Read the CPU clock of a process; none if it is gone.
fn cpu_ns(clock: ClockId) -> Option<u64> {
    let time = clock_gettime(clock).ok()?;
    Some(duration_ns(time.into()))
}

/// Read a file of `/proc` that is open, from its beginning.
fn read<'a>(file: &File, buffer: &'a mut Vec<u8>) -> Option<&'a str> {
    buffer.resize(1 << 10, 0);
    let length = file.read_at(buffer, 0).ok()?;
    std::str::from_utf8(buffer.get(..length)?).ok()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::os::fd::AsFd;
    use std::process::{Command, Stdio};
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, poll};
    use nix::sys::resource::{UsageWho, getrusage};

    use super::*;

    /// CPU time of all children of this process that have ended.
    fn of_children() -> Duration {
        let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
        let time = |time: nix::sys::time::TimeVal| {
            let (seconds, micros) = (time.tv_sec(), time.tv_usec());
            Duration::from_micros(u64::try_from(seconds * 1_000_000 + micros).unwrap())
        };
        time(usage.user_time()) + time(usage.system_time())
    }

    /// A shell that does `work` for each line, followed from the outside until it has used `least`:
    /// its CPU time as tracked, and as the kernel counts it when the shell has ended.
    fn followed(work: &str, least: Duration) -> [Duration; 2] {
        let before = of_children();
        let script = format!(
            "burn() {{ i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; }}; while read x; do {work}; echo; done"
        );
        let mut shell = Command::new("sh")
            .args(["-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        let mut output = BufReader::new(shell.stdout.take().unwrap());
        let mut tracked = Tracked::default();
        tracked.look(&[i32::try_from(shell.id()).unwrap()], &BTreeSet::new());
        let mut seen_ns = tracked.read(true).cpu_ns;
        while Duration::from_nanos(seen_ns) < least {
            writeln!(input).unwrap();
            loop {
                tracked.look(&[], &BTreeSet::new());
                let read_ns = tracked.read(false).cpu_ns;
                assert!(read_ns >= seen_ns, "{read_ns} after {seen_ns}");
                seen_ns = read_ns;
                let mut files = [PollFd::new(output.get_ref().as_fd(), PollFlags::POLLIN)];
                if poll(&mut files, 2_u8).unwrap() > 0 {
                    break;
                }
            }
            output.read_line(&mut String::new()).unwrap();
        }
        let tracked = tracked.read(true).cpu_ns;
        drop(input);
        assert!(shell.wait().unwrap().success());
        [
            Duration::from_nanos(tracked),
            of_children().saturating_sub(before),
        ]
    }

    #[test]
    fn cpu_time_is_the_kernels_of_a_process_and_of_children_that_come_and_go() {
        for work in [
            "burn",
            "(burn)",
            "(burn)& (burn)& ( (burn); burn )& (burn; burn; burn; burn)& wait",
        ] {
            let [tracked, kernels] = followed(work, Duration::from_millis(600));
            let apart = tracked.abs_diff(kernels);
            // Ticks of 10 ms, and the start and the end of the shell.
            let most = kernels.mul_f64(0.03) + Duration::from_millis(15);
            assert!(apart <= most, "{work}: {tracked:?} and {kernels:?}");
        }
    }
}
