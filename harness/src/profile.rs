//! Functions of other processes that use the CPU: samples of what runs, taken by the kernel
//! ([`perf_event_open(2)`](https://man7.org/linux/man-pages/man2/perf_event_open.2.html), its
//! software clock, so that virtual machines have it, too).
//!
//! A [`Profiler`] samples programs that this process starts from then on, or threads that run, with
//! all that they start. Each [`PERIOD`] of CPU time is a sample of the instruction that runs. Its
//! function is where the time counts (self time); in a program that compiles at run time and writes
//! `/tmp/perf-PID.map`, such as Node with `--perf-basic-prof` or Python with `-X perf`, it is the
//! innermost function of that map, on whose behalf an interpreter works.
//!
//! | room | for |
//! |---|---|
//! | `spaces` | what is mapped where in each process |
//! | `symbols` | names of functions, of files and of maps |
//! | `counters` | counters of the CPU |
//! | `unwind` | return addresses of programs without frame pointers |

mod counters;
mod spaces;
mod symbols;
mod unwind;

use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

use nix::libc;
use nix::unistd::{SysconfVar, sysconf};
use perf_event::data::Record;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use serde::{Deserialize, Serialize};

use crate::clock::duration_ns;

pub use self::counters::HardwareCounters;
use self::spaces::{Place, Spaces};
use self::symbols::Names;
pub use self::symbols::UNKNOWN;
use self::unwind::{REGISTERS, Unwinders};

/// CPU time between two samples of a thread. With a stack of 2 KiB, a sample cost 9 to 35 µs on two
/// virtual machines, of which 9 µs are the timer's: 0.3 to 1.2 % of a busy CPU, in place of 1.6 to
/// 3.8 % at a millisecond. Not three, lest it runs in step with timers. Of programs that are started
/// it is the mean: see [`Profiler::count_for`].
pub const PERIOD: Duration = Duration::from_micros(2_993);

/// Time after which a buffer has to be read, lest samples get lost: a third of what fits into it.
pub const READ_EVERY: Duration = Duration::from_millis(50);

/// Bytes of a buffer, one for each thread and CPU: 55 samples of at most 2.3 kB. An unprivileged
/// user may lock 516 KiB for each CPU (`perf_event_mlock_kb`), and as much as `ulimit -l` says.
const BUFFER: usize = 128 << 10;

/// Most buffers. Threads beyond are counted as not sampled.
const MOST_BUFFERS: usize = 512;

/// Return addresses of a sample at most. Without frame pointers in the program, they end early or
/// are none.
const FRAMES: u16 = 16;

/// Bytes of a stack that are unwound. The frame of `CPython`'s loop has 400 bytes.
const STACK: u32 = 2048;

/// Different places that are counted at most; samples of others count as unknown.
const MOST_PLACES: usize = 100_000;

/// Functions that a profile has at most, and the length of their names, bytes: a profile crosses a
/// pipe in a line of 128 KiB.
const MOST_FUNCTIONS: usize = 150;
const LONGEST_NAME: usize = 150;

/// The function that stands for all of the kernel.
pub const KERNEL: &str = "[kernel]";

/// Marks in a chain of addresses begin here (`PERF_CONTEXT_MAX`).
const MARKS: u64 = (-4095_i64).cast_unsigned();

/// Kind of a sample that was taken in the kernel (`PERF_RECORD_MISC_KERNEL`), and its mask.
const IN_KERNEL: u16 = 1;
const KINDS: u16 = 7;

/// Functions that used the CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// Samples, each of [`PERIOD`] on a CPU.
    pub samples: u64,
    /// Samples that got lost because their buffer was full.
    pub lost: u64,
    /// Threads and processes that began meanwhile. Each is first sampled after [`PERIOD`] of its own
    /// CPU time, so that what short ones do at first is seen too little.
    #[serde(default)]
    pub started: u64,
    /// Threads that are not sampled: the kernel refused, or there are too many.
    #[serde(default)]
    pub not_sampled: u64,
    /// True if the kernel allows to sample itself; then [`KERNEL`] is a function. Otherwise there
    /// are samples of user space only.
    pub has_kernel: bool,
    /// Functions by their samples, the most first, at most 150. Samples of others are in `samples`
    /// alone.
    pub functions: Vec<FunctionSamples>,
}

/// Samples that a thread or a process needs on average: each is first sampled after a period of its
/// own CPU time, so that of short ones always the same part is seen.
const LEAST_OF_EACH: u64 = 5;

impl Profile {
    /// Part of `all_us` of CPU time in user space, 0 to 1; 1 where the kernel is sampled as a function.
    /// Otherwise the kernel has the time that no sample accounts for.
    pub fn in_user(&self, all_us: f64) -> f64 {
        if self.has_kernel || all_us <= 0.0 {
            return 1.0;
        }
        let seen = self.samples + self.lost;
        (seen as f64 * PERIOD.as_secs_f64() * 1e6 / all_us).min(1.0)
    }
}

/// True if so many threads and processes that `started` lived long enough to be sampled evenly.
pub const fn is_even(samples: u64, started: u64) -> bool {
    started * LEAST_OF_EACH <= samples
}

/// A function, and how often it ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionSamples {
    /// Its name, or [`KERNEL`] or [`UNKNOWN`].
    pub name: String,
    /// Name of the file that it is in; empty of one compiled at run time, and of the kernel.
    pub object: String,
    /// Samples in it.
    pub samples: u64,
    /// The function that called it most often; null where the program has no frame pointers.
    pub caller: Option<String>,
}

/// Reason why functions cannot be sampled.
#[derive(Debug, thiserror::Error)]
pub enum NotProfiled {
    /// The kernel forbids it to this user.
    #[error(
        "the kernel forbids to sample functions (perf_event_paranoid is {paranoid}). Run `sudo sysctl kernel.perf_event_paranoid=2`, or give the program CAP_PERFMON"
    )]
    Forbidden {
        /// Content of `/proc/sys/kernel/perf_event_paranoid`.
        paranoid: String,
    },
    /// The kernel allows to sample processes of this user only.
    #[error(
        "the kernel allows a user to sample own processes only: run it as the user of the target, or as root"
    )]
    OfOther,
    /// It failed for another reason.
    #[error("sample functions: {0}")]
    Failed(io::Error),
    /// Each thread takes a buffer for each CPU.
    #[error("it takes a buffer for each thread and CPU, and {MOST_BUFFERS} are the most")]
    TooMany,
}

impl NotProfiled {
    fn of(error: io::Error) -> Self {
        let is_forbidden = matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM));
        if !is_forbidden {
            return Self::Failed(error);
        }
        let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
        let paranoid = paranoid.unwrap_or_else(|_| "unknown".to_owned());
        let paranoid = paranoid.trim().to_owned();
        if paranoid.parse().is_ok_and(|level: i32| level <= 2) {
            return Self::OfOther;
        }
        Self::Forbidden { paranoid }
    }
}

/// A sample without its time: where it was taken, the compiled code that it worked for, and the
/// caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sampled {
    leaf: Place,
    compiled: Option<Place>,
    caller: Option<Place>,
}

/// Samples by their places.
#[derive(Debug, Default)]
struct Counts {
    places: BTreeMap<Sampled, u64>,
    kernel: u64,
    unknown: u64,
    lost: u64,
    started: u64,
}

/// Samples processes.
#[derive(Default)]
pub struct Profiler {
    buffers: Vec<Sampler>,
    has_kernel: bool,
    spaces: Spaces,
    unwinders: Unwinders,
    /// By the number of the side.
    sides: BTreeMap<usize, Counts>,
    /// Side that samples count for; none if they are left out.
    side: Option<usize>,
    /// This process, if its children are sampled.
    left_out: Option<u32>,
    not_sampled: u64,
    /// Sides that children were counted for, one after another.
    starts: u64,
}

impl std::fmt::Debug for Profiler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let buffers = self.buffers.len();
        f.debug_struct("Profiler")
            .field("buffers", &buffers)
            .finish_non_exhaustive()
    }
}

/// The registers of a sample, and the top of its stack.
struct Top {
    registers: Vec<u64>,
    stack: Vec<u8>,
}

/// What a buffer says, in the order of time.
enum Event {
    Mapped {
        process: u32,
        start: u64,
        length: u64,
        offset: u64,
        path: Vec<u8>,
    },
    /// A process began, or, if both are one, a thread.
    Forked {
        parent: u32,
        child: u32,
    },
    Sample {
        process: u32,
        in_kernel: bool,
        chain: Vec<u64>,
        top: Top,
    },
    Lost(u64),
}

/// Threads to sample.
#[derive(Clone, Copy)]
enum Of {
    /// Programs that this thread starts.
    Children,
    /// This thread.
    Thread(i32),
}

impl Profiler {
    /// Sample programs that this thread starts from now on, and what they start. They are left out
    /// until [`Profiler::count_for`] names a side.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn of_children() -> Result<Self, NotProfiled> {
        let mut profiler = Self {
            left_out: Some(std::process::id()),
            ..Self::default()
        };
        profiler.add(Of::Children, true)?;
        Ok(profiler)
    }

    /// Sample these threads, each given with its process, and what they start, for side 0.
    ///
    /// # Errors
    /// When the kernel refuses all of them.
    pub fn of_threads(threads: &[(i32, i32)]) -> Result<Self, NotProfiled> {
        let mut profiler = Self {
            side: Some(0),
            ..Self::default()
        };
        // Only looked at: what is mapped before the buffers are open is read again afterwards.
        let mut before = Spaces::default();
        for (process, _) in threads {
            before.know(process.cast_unsigned());
        }
        let unwinds = before.may_compile();
        for (process, thread) in threads {
            match profiler.add(Of::Thread(*thread), unwinds) {
                Err(why) if profiler.buffers.is_empty() => return Err(why),
                Err(_) => profiler.not_sampled += 1,
                Ok(()) => {}
            }
            profiler.spaces.know(process.cast_unsigned());
        }
        Ok(profiler)
    }

    /// Open a buffer for each CPU. What a thread starts is written to its buffers.
    fn add(&mut self, of: Of, unwinds: bool) -> Result<(), NotProfiled> {
        let configured = sysconf(SysconfVar::_NPROCESSORS_CONF).ok().flatten();
        let cpus = usize::try_from(configured.unwrap_or(1)).unwrap_or(1);
        if self.buffers.len() + cpus > MOST_BUFFERS {
            return Err(NotProfiled::TooMany);
        }
        let mut has_kernel = self.has_kernel || self.buffers.is_empty();
        let period_ns = self.period_ns();
        for cpu in 0..cpus {
            let mut opened = open(of, cpu, has_kernel, unwinds, period_ns);
            let refused = |error: &io::Error| {
                matches!(error.raw_os_error(), Some(libc::EACCES | libc::EPERM))
            };
            if has_kernel && opened.as_ref().is_err_and(refused) {
                has_kernel = false;
                opened = open(of, cpu, false, unwinds, period_ns);
            }
            match opened {
                Ok(buffer) => self.buffers.push(buffer),
                // A CPU that is off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(NotProfiled::of(error)),
            }
        }
        self.has_kernel = has_kernel;
        Ok(())
    }

    /// Take in what the buffers hold.
    pub fn read(&mut self) {
        let mut events = Vec::new();
        for buffer in &mut self.buffers {
            while let Some(record) = buffer.next_record() {
                let in_kernel = record.misc() & KINDS == IN_KERNEL;
                let bytes = record.to_contiguous();
                // The kernel ends each record but a sample with its time: `sample_id`, of which
                // TID and TIME are chosen.
                let end = bytes.last_chunk().copied().map(u64::from_ne_bytes);
                if let Ok(parsed) = record.parse_record() {
                    events.extend(event(&parsed, in_kernel, end.unwrap_or(0)));
                }
            }
        }
        // Each buffer is in order; a program is mapped on one CPU and sampled on another.
        events.sort_by_key(|(at, _)| *at);
        for (_, event) in events {
            self.take(event);
        }
    }

    /// Count what runs from now on for this side, or leave it out.
    ///
    /// Programs that are started are sampled from their start on, so one that does the same each
    /// time would be sampled at the same points each time; and a function that does more would move
    /// samples between those that follow it. Hence another period for each side: 0.8 to 1.33 times
    /// [`PERIOD`], of which its inverse is the mean.
    ///
    /// # Errors
    /// When the kernel refuses now what it did not before.
    pub fn count_for(&mut self, side: Option<usize>) -> Result<(), NotProfiled> {
        self.read();
        self.side = side;
        if side.is_some() && self.left_out.is_some() {
            self.starts += 1;
            self.buffers.clear();
            self.add(Of::Children, self.spaces.may_compile())?;
        }
        Ok(())
    }

    /// Nanoseconds between two samples of what is started now: multiples of the golden ratio lie
    /// evenly between two whole numbers (Weyl).
    fn period_ns(&self) -> u64 {
        const GOLDEN: f64 = 0.618_033_988_749_895;
        let faster = match self.starts {
            0 => 1.0,
            starts => 0.75 + 0.5 * (starts as f64 * GOLDEN).fract(),
        };
        duration_ns(PERIOD.div_f64(faster))
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Mapped {
                process,
                start,
                length,
                offset,
                path,
            } => self.spaces.map(process, [start, length, offset], &path),
            Event::Forked { parent, child } => {
                if let Some(side) = self.side {
                    self.sides.entry(side).or_default().started += 1;
                }
                if parent != child {
                    self.spaces.fork(parent, child);
                }
            }
            Event::Lost(count) => {
                if let Some(side) = self.side {
                    self.sides.entry(side).or_default().lost += count;
                }
            }
            Event::Sample {
                process,
                in_kernel,
                chain,
                top,
            } => {
                let is_own = self.left_out == Some(process);
                let Some(side) = self.side.filter(|_| !is_own) else {
                    return;
                };
                let sampled = (!in_kernel).then(|| self.sampled(process, &chain, &top));
                let counts = self.sides.entry(side).or_default();
                match sampled {
                    None => counts.kernel += 1,
                    Some(Some(it))
                        if counts.places.len() < MOST_PLACES || counts.places.contains_key(&it) =>
                    {
                        *counts.places.entry(it).or_default() += 1;
                    }
                    Some(_) => counts.unknown += 1,
                }
            }
        }
    }

    /// Return the places of a sample, by its chain of frame pointers, or by its registers and the
    /// top of its stack; none without an address.
    fn sampled(&mut self, process: u32, chain: &[u64], top: &Top) -> Option<Sampled> {
        let mut addresses = chain.iter().copied().filter(|address| *address < MARKS);
        let leaf = self.spaces.place(process, addresses.next()?);
        // A return address is that of the instruction after the call.
        let above: Vec<Place> = addresses
            .map(|address| self.spaces.place(process, address.wrapping_sub(1)))
            .collect();
        let mut compiled = above.iter().copied().find(Place::is_compiled);
        if compiled.is_none() && !leaf.is_compiled() && self.spaces.compiles(process) {
            let unwinders = &mut self.unwinders;
            let unwound = unwinders.above(&self.spaces, process, &top.registers, &top.stack);
            compiled = unwound
                .into_iter()
                .map(|address| self.spaces.place(process, address.wrapping_sub(1)))
                .find(Place::is_compiled);
        }
        Some(Sampled {
            leaf,
            compiled: compiled.filter(|_| !leaf.is_compiled()),
            caller: above.first().copied().filter(Place::is_known),
        })
    }

    /// Return the functions sampled so far for a side by name, and begin again.
    pub fn take_profile(&mut self, side: usize) -> Profile {
        self.read();
        let all = self.sides.remove(&side).unwrap_or_default();
        let counts = all.places;
        let places = |it: &Sampled| [Some(it.leaf), it.compiled, it.caller];
        let names = Names::of(&self.spaces, counts.keys().flat_map(places).flatten());
        let mut functions = BTreeMap::<(String, String), Callers>::new();
        for (sampled, count) in &counts {
            let compiled = sampled.compiled.and_then(|place| names.of_compiled(place));
            let own = compiled.unwrap_or_else(|| names.function(sampled.leaf));
            let callers = functions.entry(own).or_default();
            callers.samples += count;
            if let Some(caller) = sampled.caller {
                *callers.by_name.entry(names.function(caller).0).or_default() += count;
            }
        }
        let alone = [(KERNEL, all.kernel), (UNKNOWN, all.unknown)];
        for (name, count) in alone.into_iter().filter(|(_, count)| *count > 0) {
            let key = (name.to_owned(), String::new());
            functions.entry(key).or_default().samples += count;
        }
        let mut functions: Vec<FunctionSamples> = functions
            .into_iter()
            .map(|((name, object), callers)| FunctionSamples {
                samples: callers.samples,
                caller: callers.most_frequent(),
                name: cut(name),
                object: cut(object),
            })
            .collect();
        functions.sort_by_key(|it| std::cmp::Reverse(it.samples));
        let samples = functions.iter().map(|it| it.samples).sum();
        functions.truncate(MOST_FUNCTIONS);
        Profile {
            samples,
            lost: all.lost,
            started: all.started,
            not_sampled: self.not_sampled,
            has_kernel: self.has_kernel,
            functions,
        }
    }
}

/// Samples of a function by the name of its caller.
#[derive(Debug, Default)]
struct Callers {
    samples: u64,
    by_name: BTreeMap<String, u64>,
}

impl Callers {
    fn most_frequent(self) -> Option<String> {
        let known = self.by_name.into_iter().filter(|(name, _)| name != UNKNOWN);
        known.max_by_key(|(_, count)| *count).map(|it| cut(it.0))
    }
}

/// Shorten a name to [`LONGEST_NAME`].
fn cut(mut name: String) -> String {
    if name.len() > LONGEST_NAME {
        let end = (0..=LONGEST_NAME - 3)
            .rev()
            .find(|at| name.is_char_boundary(*at));
        name.truncate(end.unwrap_or(0));
        name.push('…');
    }
    name
}

/// Open a buffer. `unwinds` if stacks are copied: one costs as much as the rest of a sample, and only
/// code that is compiled at run time is looked for in it.
fn open(
    of: Of,
    cpu: usize,
    has_kernel: bool,
    unwinds: bool,
    period_ns: u64,
) -> io::Result<Sampler> {
    let mut builder = Builder::new(Software::CPU_CLOCK);
    builder
        .one_cpu(cpu)
        .inherit(true)
        .exclude_kernel(!has_kernel)
        .exclude_callchain_kernel(true)
        .sample_period(period_ns)
        .sample(SampleFlag::TID | SampleFlag::TIME | SampleFlag::CALLCHAIN)
        .sample_max_stack(FRAMES)
        .sample_id_all(true)
        .mmap(true)
        .mmap2(true)
        .task(true);
    if unwinds {
        builder
            .sample(SampleFlag::REGS_USER | SampleFlag::STACK_USER)
            .sample_regs_user(REGISTERS)
            .sample_stack_user(STACK);
    }
    match of {
        // Not from `exec` on (`enable_on_exec`): the kernel swaps the events of a process with those
        // of its child where they are equal, and then later children begin without.
        Of::Children => builder.observe_self(),
        Of::Thread(thread) => builder.observe_pid(thread),
    };
    builder.enabled(true);
    builder.build()?.sampled(BUFFER)
}

/// Read a record, with its time, which is `end` of all but samples.
fn event(record: &Record<'_>, in_kernel: bool, end: u64) -> Option<(u64, Event)> {
    Some(match record {
        Record::Sample(sample) => (
            sample.time()?,
            Event::Sample {
                process: sample.pid()?,
                in_kernel,
                chain: sample.callchain().unwrap_or_default().to_vec(),
                top: Top {
                    registers: sample
                        .regs_user()
                        .map_or_else(Vec::new, |it| it.regs.to_vec()),
                    stack: sample.stack_user().unwrap_or_default().to_vec(),
                },
            },
        ),
        Record::Fork(fork) => (
            end,
            Event::Forked {
                parent: fork.ppid,
                child: fork.pid,
            },
        ),
        Record::Mmap2(mapped) => (
            end,
            Event::Mapped {
                process: mapped.pid,
                start: mapped.addr,
                length: mapped.len,
                offset: mapped.pgoff,
                path: mapped.filename.to_vec(),
            },
        ),
        Record::Lost(lost) => (end, Event::Lost(lost.lost)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use nix::unistd::gettid;

    use super::*;
    use crate::clock::thread_cpu_ns;

    #[inline(never)]
    fn spin_until(end_ns: u64) -> u64 {
        let mut rounds = 0;
        while thread_cpu_ns().unwrap() < end_ns {
            let end = rounds + 100_000;
            while rounds < end {
                rounds = std::hint::black_box(rounds) + 1;
            }
        }
        rounds
    }

    #[test]
    fn the_function_that_spins_is_named_with_its_time() {
        let process = i32::try_from(std::process::id()).unwrap();
        let own = (process, gettid().as_raw());
        let mut profiler = match Profiler::of_threads(&[own]) {
            Ok(profiler) => profiler,
            Err(why) => return eprintln!("skipped: {why}"),
        };
        let start = thread_cpu_ns().unwrap();
        let mut end = start;
        for _ in 0..10 {
            end += 20_000_000;
            spin_until(end);
            profiler.read();
        }
        let profile = profiler.take_profile(0);
        let used = thread_cpu_ns().unwrap() - start;
        // Without optimization, `black_box` is a function, too.
        let is_named = |it: &&FunctionSamples| it.name.ends_with("spin_until");
        let spinning = profile.functions.iter().find(is_named);
        assert!(
            spinning.is_some_and(|it| it.samples * 10 > profile.samples),
            "{profile:?}"
        );
        let expected = used as f64 / PERIOD.as_nanos() as f64;
        let all = (profile.samples + profile.lost) as f64;
        assert!(
            (all / expected - 1.0).abs() < 0.2,
            "{all} of {expected}: {profile:?}"
        );
    }

    #[test]
    fn threads_beyond_the_buffers_are_counted() {
        let process = i32::try_from(std::process::id()).unwrap();
        let threads = vec![(process, gettid().as_raw()); MOST_BUFFERS + 1];
        match Profiler::of_threads(&threads) {
            Ok(mut profiler) => assert!(profiler.take_profile(0).not_sampled > 0),
            Err(why) => eprintln!("skipped: {why}"),
        }
    }

    #[test]
    fn periods_differ_and_their_inverse_has_the_mean_of_the_period() {
        const STARTS: u32 = 1_000;
        let mut sum = 0.0;
        let mut last = 0;
        for starts in 1..=STARTS {
            let profiler = Profiler {
                starts: starts.into(),
                ..Profiler::default()
            };
            let period_ns = profiler.period_ns();
            assert!(period_ns.abs_diff(last) > 100_000, "{starts}: {period_ns}");
            last = period_ns;
            sum += 1.0 / period_ns as f64;
        }
        let mean = f64::from(STARTS) / sum;
        let expected = PERIOD.as_nanos() as f64;
        assert!((mean / expected - 1.0).abs() < 0.002, "{mean}");
    }
}
