//! Fork, pin, name and wait for child processes; counters that outlive them; what a process used of
//! the machine. The only `unsafe` of this crate.
//!
//! Called by the supervisor for its shards and by the commands for the bundled target's processes.
//!
//! # Why forking is safe here
//!
//! `fork` copies only the thread that calls it. A lock that another thread held at that moment
//! stays locked in the child for ever; a timer thread of a library is simply gone. So:
//!
//! 1. nothing starts a thread before the fork, and [`fork`] counts the threads and refuses when
//!    there is more than one;
//! 2. the parent stays single-threaded for its whole life, so that it can fork again;
//! 3. the child sets the signal mask of its [`Role`], leaves the parent's process group (Ctrl-C at
//!    a terminal reaches the supervisor alone), asks to be killed when its parent dies, and checks
//!    that it has not died already;
//! 4. the child never returns: it leaves through `_exit`, which runs no `atexit` handler and
//!    flushes no buffer of the parent's.

use std::cell::Cell;
use std::ffi::CString;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::ops::Deref;
use std::os::fd::{BorrowedFd, OwnedFd, RawFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::ptr::NonNull;
use std::rc::Rc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::files::Root;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::libc;
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::sys::mman::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use nix::sys::prctl;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, rlim_t, setrlimit};
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, killpg, pthread_sigmask};
use nix::sys::socket::{SockType, getsockopt, sockopt};
use nix::sys::time::TimeVal;
use nix::sys::wait::{Id, WaitPidFlag, WaitStatus, waitid};
use nix::unistd::{ForkResult, Pid, SysconfVar, getpid, getppid, setpgid, setsid, sysconf};
use serde::{Deserialize, Serialize};

use crate::wire::Usage;

/// A child process of this one. All signals to processes that were started go through it: once the
/// child was waited for, its number may be another's, and none is sent. A number is free once the
/// child was waited for, and only its `Child` waits, so that no pidfd is needed.
#[derive(Debug)]
pub struct Child {
    pid: Pid,
    exit: Cell<Option<ShardExit>>,
}

/// Session and process group of a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A part of the parent: SIGINT, SIGTERM, SIGHUP and SIGTSTP never arrive, since a sender to
    /// all processes at once means the parent, which ends its parts in order.
    Part,
    /// A program of its own, with a process group of its own.
    Program,
    /// A process group and session of its own, to which everything belongs that it starts and does
    /// not put into another one.
    Session,
}

/// Exit of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardExit {
    /// Code 0.
    Clean,
    /// Another code.
    Code(i32),
    /// A signal, by number.
    Signal(i32),
    /// Not known: other code already waited for the process.
    #[default]
    Unknown,
}

impl ShardExit {
    /// None of a process that goes on.
    const fn of(status: WaitStatus) -> Option<Self> {
        match status {
            WaitStatus::Exited(_, 0) => Some(Self::Clean),
            WaitStatus::Exited(_, code) => Some(Self::Code(code)),
            WaitStatus::Signaled(_, signal, _) => Some(Self::Signal(signal as i32)),
            _ => None,
        }
    }
}

impl fmt::Display for ShardExit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Clean => write!(f, "exited cleanly"),
            Self::Code(code) => write!(f, "exited with code {code}"),
            Self::Signal(number) => write!(f, "was ended by {}", signal_in_words(*number)),
            Self::Unknown => write!(f, "is gone"),
        }
    }
}

/// Return the name of a signal, as people read it everywhere: `SIGTERM`, `SIGINT (Ctrl-C)`.
pub fn signal_in_words(number: i32) -> String {
    match Signal::try_from(number) {
        Ok(Signal::SIGINT) => "SIGINT (Ctrl-C)".to_owned(),
        Ok(Signal::SIGXCPU) => "SIGXCPU (limit on CPU time, ulimit -t)".to_owned(),
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    }
}

/// What a process used of the machine, with the processes that it waited for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// CPU time, user and system.
    pub cpu: Duration,
    /// Peak memory of the largest of them, bytes. That of this process at the fork is the least
    /// that Linux reports.
    pub peak_memory: u64,
    /// How often one of them lost its CPU, or gave it up.
    pub context_switches: u64,
    /// Page faults, with and without a read from a disk.
    pub page_faults: u64,
}

/// Reason why there is no child.
#[derive(Debug, thiserror::Error)]
pub enum ForkError {
    /// A second thread exists.
    #[error("fork a process: {0} threads exist where exactly one may (a library started one)")]
    Threads(usize),
    /// The threads cannot be counted.
    #[error("count the threads in /proc/self/task: {0}")]
    Count(std::io::Error),
    /// The kernel refused.
    #[error("fork a process: {0}")]
    Fork(Errno),
}

/// Have a write beyond the limit on file sizes (`ulimit -f`) fail with `EFBIG`, as on a full disk,
/// where it would end this process by SIGXFSZ. Call before anything is written; [`Role::Part`] and
/// [`Role::Program`] keep it.
pub fn report_large_files() {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGXFSZ);
    let _ = pthread_sigmask(SigmaskHow::SIG_BLOCK, Some(&blocked), None);
}

/// Limit on core dumps before [`prevent_core_dumps`].
static CORE_LIMIT: OnceLock<(rlim_t, rlim_t)> = OnceLock::new();

/// Keep the memory of this process and of its parts, which holds credentials, out of core dumps.
/// Programs that it starts have the limit that it was started with.
///
/// Not by `PR_SET_DUMPABLE`: the files of such a process in `/proc` are root's, and the probe of a
/// target could not find the bundled one.
pub fn prevent_core_dumps() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_CORE) else {
        return;
    };
    // 0 is no limit for a `core_pattern` that is a pipe; with 1, the kernel starts none (core(5)).
    if setrlimit(Resource::RLIMIT_CORE, hard.min(1), hard).is_ok() {
        let _ = CORE_LIMIT.set((soft, hard));
    }
    // A pipe gets a dump without memory where 1 is not allowed.
    if hard == 0 {
        let _ = fs::write("/proc/self/coredump_filter", "0");
    }
}

/// Return the number of threads of this process.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn thread_count() -> std::io::Result<usize> {
    let mut threads = fs::read_dir("/proc/self/task")?;
    threads.try_fold(0, |count, thread| thread.map(|_| count + 1))
}

/// Runs `body` in a child process named `name` (15 bytes are shown by `ps`) of this role, whose
/// exit code is what it returns. The child never returns from here; a panic in `body` ends it by
/// `SIGABRT`.
///
/// `body` runs on a copy of this process's memory: what it drops is closed in the child alone.
///
/// # Errors
/// When this process has more than one thread, or the kernel refuses.
#[expect(unsafe_code, reason = "fork and _exit have no safe form")]
pub fn fork(name: &str, role: Role, body: impl FnOnce() -> u8) -> Result<Child, ForkError> {
    let threads = thread_count().map_err(ForkError::Count)?;
    if threads != 1 {
        return Err(ForkError::Threads(threads));
    }
    let parent = getpid();
    // SAFETY: this process has one thread (checked above), so the child's copy of memory has no
    // lock held by a thread that does not exist there, and may allocate and run any code.
    match unsafe { nix::unistd::fork() }.map_err(ForkError::Fork)? {
        ForkResult::Parent { child } => {
            if role != Role::Session {
                // Both sides set the group, so that it is set whichever runs first; the child may
                // have done it and be gone.
                let _ = setpgid(child, child);
            }
            Ok(Child {
                pid: child,
                exit: Cell::new(None),
            })
        }
        ForkResult::Child => {
            let code = if enter_child(name, role, parent) {
                // A panic must not unwind into the parent's half of the program.
                catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| std::process::abort())
            } else {
                ORPHANED
            };
            // SAFETY: `_exit` has no precondition; it ends this process without running the
            // parent's exit handlers.
            unsafe { libc::_exit(i32::from(code)) }
        }
    }
}

/// Take over the channel of messages (`SOCK_SEQPACKET`) that this process inherited under a number,
/// which the programs that it starts do not; none where the number is no such channel.
#[expect(unsafe_code, reason = "a number has no safe form")]
pub fn inherited_channel(number: RawFd) -> Option<OwnedFd> {
    if number < 0 || !Path::new(&format!("/proc/self/fd/{number}")).exists() {
        return None;
    }
    // SAFETY: it is open, as /proc says, and this process has one thread, which closes nothing
    // before this returns.
    let inherited = unsafe { BorrowedFd::borrow_raw(number) };
    let kind = getsockopt(&inherited, sockopt::SockType).ok()?;
    fcntl(inherited, FcntlArg::F_SETFD(FdFlag::FD_CLOEXEC)).ok()?;
    let channel = inherited.try_clone_to_owned().ok();
    channel.filter(|_| kind == SockType::SeqPacket)
}

/// The exit code of a child whose parent was gone before it began. No process waits for it.
const ORPHANED: u8 = 1;

/// Makes a fresh child its own process. False when the parent is gone already.
fn enter_child(name: &str, role: Role, parent: Pid) -> bool {
    let (blocked, _) = match role {
        Role::Part => {
            let blocked = [
                Signal::SIGINT,
                Signal::SIGTERM,
                Signal::SIGHUP,
                Signal::SIGTSTP,
                Signal::SIGXFSZ,
            ];
            (blocked.into_iter().collect(), setpgid_self())
        }
        Role::Program => ([Signal::SIGXFSZ].into_iter().collect(), setpgid_self()),
        Role::Session => (SigSet::empty(), setsid().map(drop)),
    };
    let _ = pthread_sigmask(SigmaskHow::SIG_SETMASK, Some(&blocked), None);
    if let (Role::Program | Role::Session, Some((soft, hard))) = (role, CORE_LIMIT.get()) {
        let _ = setrlimit(Resource::RLIMIT_CORE, *soft, *hard);
    }
    if let Ok(name) = CString::new(name) {
        let _ = prctl::set_name(&name);
    }
    let _ = prctl::set_pdeathsig(Signal::SIGKILL);
    // The parent may have died between the fork and the request to be told of it.
    getppid() == parent
}

fn setpgid_self() -> nix::Result<()> {
    setpgid(Pid::from_raw(0), Pid::from_raw(0))
}

impl Child {
    /// The process ID.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    /// Sends `signal`. A child that is gone is no error.
    pub fn signal(&self, signal: Signal) {
        if self.exit.get().is_none() {
            let _ = kill(self.pid, signal);
        }
    }

    /// Sends `signal` to the process group of the child, whose number is taken until it is waited
    /// for.
    pub fn signal_group(&self, signal: Signal) {
        if self.exit.get().is_none() {
            let _ = killpg(self.pid, signal);
        }
    }

    /// Sends `signal` to the processes of the session of a [`Role::Session`] that have not ended;
    /// false if there are none.
    pub fn signal_session(&self, signal: Signal) -> bool {
        if self.exit.get().is_some() {
            return false;
        }
        let members = session_members(self.pid());
        for member in &members {
            // One that has ended in the meantime is no error.
            let _ = kill(*member, signal);
        }
        !members.is_empty()
    }

    /// Return the exit of the child, if it has ended. Once this has returned one, the child no
    /// longer exists.
    pub fn try_wait(&self) -> Option<ShardExit> {
        self.wait_with(libc::WNOHANG);
        self.exit.get()
    }

    /// True if the child has ended. Leaves it to be waited for.
    pub fn has_ended(&self) -> bool {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
        let seen = waitid(Id::Pid(self.pid), flags);
        self.exit.get().is_some() || !matches!(seen, Ok(WaitStatus::StillAlive) | Err(Errno::EINTR))
    }

    /// Waits until the child has ended.
    pub fn wait(&self) -> ShardExit {
        self.wait_used().0
    }

    /// Waits until the child has ended, and return what it used; nothing of one that was waited for.
    pub fn wait_used(&self) -> (ShardExit, ProcessUse) {
        let used = self.wait_with(0);
        (self.exit.get().unwrap_or_default(), used)
    }

    /// Asks the child to end with SIGTERM and, after `grace`, makes it.
    pub fn end(&self, grace: Duration) -> ShardExit {
        const STEP: Duration = Duration::from_millis(2);
        self.signal(Signal::SIGTERM);
        for _ in 0..grace.as_millis() / STEP.as_millis() {
            if let Some(exit) = self.try_wait() {
                return exit;
            }
            std::thread::sleep(STEP);
        }
        self.signal(Signal::SIGKILL);
        self.wait()
    }

    #[expect(unsafe_code, reason = "wait4 has no safe form")]
    fn wait_with(&self, flags: i32) -> ProcessUse {
        let mut status = 0;
        // SAFETY: a structure of integers, for which zeros are a value.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        while self.exit.get().is_none() {
            // SAFETY: both pointers are to live variables of the types that the call writes.
            match unsafe { libc::wait4(self.pid(), &raw mut status, flags, &raw mut usage) } {
                0 => break,
                -1 if Errno::last() == Errno::EINTR => {}
                -1 => self.exit.set(Some(ShardExit::Unknown)),
                _ => {
                    let status = WaitStatus::from_raw(self.pid, status).ok();
                    let exit = status.and_then(ShardExit::of).unwrap_or_default();
                    self.exit.set(Some(exit));
                }
            }
        }
        let [in_user, in_kernel] = [usage.ru_utime, usage.ru_stime].map(|time| micros(time.into()));
        let switches = usage.ru_nvcsw + usage.ru_nivcsw;
        let faults = usage.ru_minflt + usage.ru_majflt;
        ProcessUse {
            cpu: Duration::from_micros(in_user + in_kernel),
            // In KiB.
            peak_memory: u64::try_from(usage.ru_maxrss).unwrap_or(0) * 1024,
            context_switches: u64::try_from(switches).unwrap_or(0),
            page_faults: u64::try_from(faults).unwrap_or(0),
        }
    }
}

/// The processes of a session that have not ended.
fn session_members(session: i32) -> Vec<Pid> {
    fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| live_session(*pid) == Some(session))
        .map(Pid::from_raw)
        .collect()
}

/// The session of a process that has not ended. What `stat` has after the name, which is in
/// brackets and may hold anything, begins with the state, the parent, the group and the session.
fn live_session(pid: i32) -> Option<i32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let is_live = !matches!(fields.next()?, "Z" | "X");
    fields.nth(2)?.parse().ok().filter(|_| is_live)
}

/// Memory that a process shares with those that it forks later: `count` values, each valid if all
/// of its bytes are 0, and changed through atomic integers only.
#[derive(Debug)]
struct Mapping<T> {
    values: NonNull<T>,
    count: NonZeroUsize,
}

/// Moments that processes share, all 0 at first.
#[derive(Debug, Clone)]
pub struct SharedWords(Rc<Mapping<AtomicU64>>);

impl SharedWords {
    /// Share `count` of them.
    ///
    /// # Errors
    /// When the kernel has no room for them.
    #[expect(unsafe_code, reason = "memory that forked processes share is mapped")]
    pub fn new(count: usize) -> Result<Self, Errno> {
        let (length, count) = Mapping::<AtomicU64>::length(count).ok_or(Errno::ENOMEM)?;
        let access = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let address = unsafe { mmap_anonymous(None, length, access, MapFlags::MAP_SHARED) }?;
        Ok(Self(Rc::new(Mapping {
            values: address.cast(),
            count,
        })))
    }
}

impl Deref for SharedWords {
    type Target = [AtomicU64];

    fn deref(&self) -> &[AtomicU64] {
        self.0.values()
    }
}

impl<T> Mapping<T> {
    /// Bytes of `count` values, at least one, and their number; none if there are too many.
    fn length(count: usize) -> Option<(NonZeroUsize, NonZeroUsize)> {
        let count = NonZeroUsize::new(count).unwrap_or(NonZeroUsize::MIN);
        let length = count.get().checked_mul(size_of::<T>());
        length.and_then(NonZeroUsize::new).zip(Some(count))
    }

    #[expect(unsafe_code, reason = "a mapping is reached through a pointer")]
    fn values(&self) -> &[T] {
        // SAFETY: the pointer comes from a successful mmap of `count` values, readable and
        // writable, aligned to pages, and so to a value, which stays mapped for as long as `self`
        // lives, as the reference does. All of its bytes were 0, which is a value, and every change,
        // also by other processes, is made through atomic integers. Should it be a file that is
        // truncated or unreadable by now, an access ends the process by SIGBUS: its shard is lost,
        // and no memory is.
        unsafe { NonNull::slice_from_raw_parts(self.values, self.count.get()).as_ref() }
    }
}

impl<T> Drop for Mapping<T> {
    #[expect(unsafe_code, reason = "what was mapped is unmapped")]
    fn drop(&mut self) {
        // SAFETY: the range is exactly what was mapped, and only this drop unmaps it. No reference
        // into it outlives `self`. In a forked process the range is that process's own view.
        let unmapped = unsafe { munmap(self.values.cast(), self.count.get() * size_of::<T>()) };
        debug_assert_eq!(
            unmapped,
            Ok(()),
            "the only failure is a range that is no mapping"
        );
    }
}

/// Counters in a mapped file, of which each process adds to its own. While the machine runs, the
/// file holds what was counted until the end, however a process ends: the kernel writes it. After a
/// power cut, up to 30 s may be missing, by the kernel's default.
#[derive(Debug)]
pub struct FileCounters {
    counters: Mapping<FileCounter>,
    /// Open for as long as it is mapped: a network file system sends what was counted to its server
    /// when the last descriptor is closed.
    _file: File,
}

/// A counter with a cache line of its own: its value and the one before, each with its check, so
/// that a changed bit is seen or changes no count, and a process that dies between two stores
/// leaves none that seems changed. Value `n` is in slot `n % 2`, and counts once its check is
/// stored.
#[repr(C, align(64))]
#[derive(Debug)]
struct FileCounter([[AtomicU64; 2]; 2]);

impl FileCounter {
    /// Return the check of a value: another one for each value, and 0 for 0.
    const fn check(value: u64) -> u64 {
        value.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Return the value of a counter with these slots; none if some of it was changed.
    fn value(slots: [[u64; 2]; 2]) -> Option<u64> {
        let newer = (0..2)
            .filter(|slot| slots[*slot][1] == Self::check(slots[*slot][0]))
            .filter(|slot| slots[*slot][0] % 2 == *slot as u64)
            .max_by_key(|slot| slots[*slot][0])?;
        let (value, other) = (slots[newer][0], slots[1 - newer]);
        let before = value.saturating_sub(1);
        // The next value may be there already, without its check.
        let is_older =
            [before, value.wrapping_add(1)].contains(&other[0]) && other[1] == Self::check(before);
        is_older.then_some(value)
    }
}

impl FileCounters {
    /// Create the file `path` below `root` with `count` counters, all 0. A failure leaves no file.
    ///
    /// # Errors
    /// When the file exists, or cannot be written or mapped.
    pub fn create(root: &Root, path: &Path, count: u32) -> io::Result<Self> {
        let (length, count) =
            Mapping::<FileCounter>::length(count as usize).ok_or(io::ErrorKind::InvalidInput)?;
        let file = root.create(path)?;
        Self::map(file, length, count).inspect_err(|_| drop(fs::remove_file(path)))
    }

    #[expect(unsafe_code, reason = "a file can only be mapped through a pointer")]
    fn map(mut file: File, length: NonZeroUsize, count: NonZeroUsize) -> io::Result<Self> {
        // Written and synced: most file systems, also of the network, report a full disk here. One
        // that copies on write may still end a process by SIGBUS when it adds.
        file.write_all(&vec![0; length.get()])?;
        file.sync_all()?;
        let protection = ProtFlags::PROT_READ | ProtFlags::PROT_WRITE;
        // SAFETY: no address is asked for, so no existing mapping is replaced.
        let address = unsafe { mmap(None, length, protection, MapFlags::MAP_SHARED, &file, 0) }?;
        Ok(Self {
            counters: Mapping {
                values: address.cast(),
                count,
            },
            _file: file,
        })
    }

    /// Add 1 to the counter `index`, below the number of counters; no other process may add to it
    /// at the same time.
    pub fn add(&self, index: usize) {
        let counters = self.counters.values();
        debug_assert!(
            index < counters.len(),
            "counter {index} of {}",
            counters.len()
        );
        if let Some(FileCounter(slots)) = counters.get(index) {
            // One writer: no need of an instruction that locks the bus.
            let value = slots
                .iter()
                .map(|[value, _]| value.load(Ordering::Relaxed))
                .max()
                .unwrap_or(0)
                .wrapping_add(1);
            let [newer, check] = &slots[usize::from(value % 2 == 1)];
            newer.store(value, Ordering::Release);
            check.store(FileCounter::check(value), Ordering::Release);
        }
    }

    /// Return the sum of the counters in a file with these bytes, of the same machine's byte order.
    ///
    /// # Errors
    /// When the file does not hold whole counters, or their sum is no number that was counted.
    pub fn sum(bytes: &[u8]) -> Result<u64, CountersError> {
        let (counters, rest) = bytes.as_chunks::<{ size_of::<FileCounter>() }>();
        if counters.is_empty() || !rest.is_empty() {
            return Err(CountersError::Length(bytes.len()));
        }
        counters.iter().try_fold(0_u64, |sum, counter| {
            let (words, _) = counter.as_chunks::<{ size_of::<u64>() }>();
            let mut words = words.iter().map(|word| u64::from_ne_bytes(*word));
            let mut next = || words.next().unwrap_or(0);
            let value = FileCounter::value([[next(), next()], [next(), next()]])
                .filter(|_| words.all(|zero| zero == 0))
                .ok_or(CountersError::Value)?;
            sum.checked_add(value).ok_or(CountersError::Value)
        })
    }
}

/// Fault of a file that should hold counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CountersError {
    /// Its length.
    #[error("{0} bytes are not a whole number of counters")]
    Length(usize),
    /// A value that is none of a counter.
    #[error("it holds bytes that are no counter's")]
    Value,
}

/// The CPUs that this process may use, in order; empty when the kernel does not say.
pub fn usable_cpus() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else {
        return Vec::new();
    };
    (0..CpuSet::count())
        .filter(|cpu| set.is_set(*cpu).unwrap_or(false))
        .collect()
}

/// The number of CPUs of this machine that are online; none when the kernel does not say.
pub fn online_cpus() -> Option<usize> {
    let online = sysconf(SysconfVar::_NPROCESSORS_ONLN).ok()??;
    usize::try_from(online).ok()
}

/// Keep the calling thread, and those that it starts from now on, on these CPUs.
///
/// # Errors
/// When none of them exists and is this process's to use.
pub fn pin_to(cpus: &[usize]) -> Result<(), Errno> {
    let mut set = CpuSet::new();
    cpus.iter().try_for_each(|cpu| set.set(*cpu))?;
    sched_setaffinity(Pid::from_raw(0), &set)
}

/// Keeps transparent huge pages away from this process and its children. A shard touches a few
/// hundred kilobytes here and there; in pages of 2 MiB the kernel would clear, and count as
/// resident, many times what is used.
pub fn prefer_small_pages() {
    // An old kernel that knows no such setting costs memory, nothing else.
    let _ = prctl::set_thp_disable(true);
}

/// Raises the limit on open descriptors to what this process may have, for itself and the children
/// it forks from now on. Returns the limit then; none when the kernel does not say.
pub fn raise_descriptor_limit() -> Option<u64> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    // A refusal leaves the lower limit in force.
    let raised = soft == hard || setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok();
    Some(if raised { hard } else { soft })
}

/// Return the resource usage of this process so far.
pub fn own_usage() -> Usage {
    let run_delay_ns = std::fs::read_to_string("/proc/self/schedstat")
        .ok()
        .as_deref()
        .and_then(run_delay);
    let Ok(usage) = getrusage(UsageWho::RUSAGE_SELF) else {
        return Usage {
            run_delay_ns,
            ..Usage::default()
        };
    };
    Usage {
        cpu_user_us: micros(usage.user_time()),
        cpu_system_us: micros(usage.system_time()),
        max_rss_bytes: std::fs::read_to_string("/proc/self/status")
            .ok()
            .as_deref()
            .and_then(peak_memory)
            .unwrap_or(0),
        run_delay_ns,
    }
}

/// Return the kernel's bound on the error of the calendar clock; none if it is not synchronized by
/// NTP or PTP. Source: adjtimex(2).
#[expect(unsafe_code, reason = "adjtimex has no safe form")]
pub fn clock_error() -> Option<Duration> {
    // SAFETY: `timex` consists of integers, for which zero is a valid value.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: `modes` is 0, so the kernel changes nothing, and writes into `state` alone, which
    // lives throughout the call.
    let answer = unsafe { libc::adjtimex(&raw mut state) };
    let is_kept = answer >= 0 && answer != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0;
    u64::try_from(state.maxerror)
        .ok()
        .filter(|_| is_kept)
        .map(Duration::from_micros)
}

/// CPU of all children that have ended and been waited for, and of theirs, user and system; none
/// when the system does not say.
pub fn ended_children_cpu() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).ok()?;
    Some(Duration::from_micros(
        micros(usage.user_time()) + micros(usage.system_time()),
    ))
}

/// Parse the run delay in `schedstat`, ns. The text holds the time on a CPU, the time ready to run
/// without one, both in ns, and the number of times that the process was given a CPU. A kernel that
/// does not count writes zeroes; a process that can read this has been given a CPU at least once.
fn run_delay(text: &str) -> Option<u64> {
    let mut fields = text
        .split_whitespace()
        .map(|field| field.parse::<u64>().ok());
    let (_, waited, times) = (fields.next()??, fields.next()??, fields.next()??);
    (times > 0).then_some(waited)
}

/// Parse the largest resident set of `/proc/self/status`, bytes. That of getrusage(2) outlives an
/// exec: it may be the largest of a program that started this one.
fn peak_memory(text: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    // In KiB, which Linux calls kB.
    Some(
        value
            .trim()
            .strip_suffix("kB")?
            .trim()
            .parse::<u64>()
            .ok()?
            .saturating_mul(1024),
    )
}

fn micros(time: TimeVal) -> u64 {
    u64::try_from(time.tv_sec()).unwrap_or(0) * 1_000_000
        + u64::try_from(time.tv_usec()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_was_waited_for_gets_no_signal() {
        // Its number is another's now: that of this process, which a signal would end.
        let gone = Child {
            pid: getpid(),
            exit: Cell::new(Some(ShardExit::Clean)),
        };
        for signal in [Signal::SIGKILL, Signal::SIGTERM] {
            gone.signal(signal);
            gone.signal_group(signal);
            assert!(!gone.signal_session(signal));
            assert_eq!(gone.end(Duration::ZERO), ShardExit::Clean);
        }
        assert_eq!(gone.try_wait(), Some(ShardExit::Clean));
    }

    #[test]
    fn a_process_is_a_member_of_its_session() {
        let own = std::process::id().cast_signed();
        let session = live_session(own).unwrap();
        assert!(session_members(session).contains(&Pid::from_raw(own)));
        assert_eq!(session_members(-1), []);
    }

    #[test]
    fn the_file_holds_what_was_counted_while_it_is_mapped_and_after() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("counters");
        let counters = FileCounters::create(&Root::new(home.path()), &path, 3).unwrap();
        for index in [0, 2, 2] {
            counters.add(index);
        }
        assert_eq!(FileCounters::sum(&std::fs::read(&path).unwrap()), Ok(3));
        drop(counters);
        let mut bytes = std::fs::read(&path).unwrap();
        assert_eq!((FileCounters::sum(&bytes), bytes.len()), (Ok(3), 192));
        assert!(
            FileCounters::create(&Root::new(home.path()), &path, 1).is_err(),
            "another process's counters"
        );
        assert_eq!(
            std::fs::read(&path).unwrap(),
            bytes,
            "and they are left alone"
        );
        for length in [0, 8, 191] {
            assert_eq!(
                FileCounters::sum(&bytes[..length]),
                Err(CountersError::Length(length))
            );
        }
        for at in 0..bytes.len() * 8 {
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(
                [Err(CountersError::Value), Ok(3)].contains(&FileCounters::sum(&bytes)),
                "bit {at}"
            );
            bytes[at / 8] ^= 1 << (at % 8);
        }
    }

    #[test]
    fn a_counter_is_whole_between_any_two_stores() {
        let mut slots = [[0_u64; 2]; 2];
        for value in 1..9 {
            let slot = usize::from(value % 2 == 1);
            slots[slot][0] = value;
            assert_eq!(FileCounter::value(slots), Some(value - 1));
            slots[slot][1] = FileCounter::check(value);
            assert_eq!(FileCounter::value(slots), Some(value));
        }
    }

    #[test]
    fn a_kernel_that_does_not_count_is_not_one_that_never_lets_wait() {
        assert_eq!(run_delay("801055 73250 2\n"), Some(73_250));
        assert_eq!(run_delay("801055 0 1\n"), Some(0));
        assert_eq!(
            [run_delay("0 0 0\n"), run_delay(""), run_delay("1 2")],
            [None; 3]
        );
    }
}
