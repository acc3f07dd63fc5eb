//! The supervisor: forks the shards, gives the common start, reads their frames, and owns the run
//! until its end.
//!
//! Called by the commands. Synchronous for its whole life: one `poll(2)` loop over a `signalfd`, a
//! `timerfd` and the bell that shards ring; each time it wakes it looks into the shards' pipes. It
//! starts no thread and builds no runtime, so that it may fork at any time. One place,
//! `Supervisor::step`, changes the state of a run.
//!
//! | room | for |
//! |---|---|
//! | `member`, `line` | one shard: its process, pipes and reports, its final one too, or the fault when that never comes (`view` makes the record; `results/src/run/report/totals.rs` counts lost items) |
//! | `waking`, `signals`, `stop` | poll loop, Ctrl-C and other signals, the end of a run |
//! | `replacements` | processes that take the place of those that died |
//! | `moves`, `ranges` | pauses and IDs that move between shards |
//! | `timeline`, `times`, `windows` | seconds, histograms and the audit of rate limits, merged over shards |
//! | [`parts`] | parts of a crawl on several machines, as streams of frames, and their merge |
//! | `view` | live view ([`Live`]) and record of a run ([`RunRecord`]) |
//! | `rehearsal` | whole runs in virtual time, for tests |

mod line;
mod member;
mod moves;
pub mod parts;
mod ranges;
#[cfg(feature = "virtual-time")]
#[path = "supervisor/tests/rehearsal.rs"]
mod rehearsal;
mod replacements;
mod signals;
mod stop;
#[cfg(test)]
mod tests;
mod timeline;
mod times;
mod view;
mod waking;
mod windows;

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::Signal;
use nix::unistd::pipe2;

use self::line::{Pipes, Process, ShardLine};
pub use self::member::Left;
use self::member::Member;
use self::ranges::Ranges;
#[cfg(feature = "virtual-time")]
pub(crate) use self::rehearsal::{Stage, conduct};
pub use self::replacements::Workloads;
pub use self::signals::{HeldSignals, HeldSuspension};
use self::stop::{Stop, StopCause};
use self::timeline::{Measuring, Timeline};
pub use self::times::{Recent, ShardTimes};
pub use self::view::{
    Interval, Live, LivePause, LiveShard, LiveState, Moved, Observer, PastLife, RunRecord,
    ShardFault, ShardRecord, ShardSecond, Stopped, Stopping, WorkloadFailure,
};
use self::waking::{Event, Wakers};
pub use self::windows::BusiestWindow;
use self::windows::Windows;
use crate::clock::{Clock, Nanos, duration_ns, wall_time};
use crate::machine::{Counters, Proc, growth};
use crate::pacer::Growth;
use crate::plan::{RunPlan, ShardPlan};
use crate::process::{ForkError, Role, SharedWords, fork, own_usage};
use crate::shard::{self, Bell, INTERVAL, ShardLink};
use crate::stats::Bounds;
use crate::wire::{Control, Frame, PauseOrder, Usage};

/// From the last `ready` to the common start: long enough for every shard to read its `go`, which
/// costs each of them well under a millisecond.
const LEAD: Duration = Duration::from_millis(2);

/// A stop of the whole run that is shorter is not counted: a shard that is as late notices nothing.
const SHORTEST_SUSPENSION: Duration = Duration::from_millis(10);

/// Time added to the lead for each shard beyond the first: they wake one after another when there
/// are more of them than CPUs.
const LEAD_PER_SHARD: Duration = Duration::from_micros(100);

/// Reason why there is no run to report.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// A process could not be made.
    #[error("{0}")]
    Fork(#[from] ForkError),
    /// The kernel refused a descriptor.
    #[error("set up the supervisor: {0}")]
    System(#[from] Errno),
    /// A shard could not build its workload.
    #[error("start shard {shard}: {why}")]
    Refused {
        /// Which.
        shard: u32,
        /// Error that it reported.
        why: String,
    },
    /// A shard ended before the start.
    #[error("start shard {shard}: it {why}")]
    Lost {
        /// Which.
        shard: u32,
        /// Exit of its process, in words.
        why: String,
    },
}

/// Runs `plan` to its end. `workloads` is called inside each shard's process to build what the
/// shard does with an ID. A shard that dies is replaced if it can say what is left, unless the loop
/// is open.
///
/// # Errors
/// When the run could not start. A shard that fails later is part of the record.
pub fn supervise<O: Observer>(
    plan: &RunPlan,
    clock: Clock,
    workloads: &impl Workloads,
    observer: &mut O,
) -> Result<RunRecord, SuperviseError> {
    let (_held, suspension) = (HeldSignals::hold()?, HeldSuspension::hold()?);
    let usage_before = own_usage();
    let bell = Bell::new()?;
    let mut supervisor = Supervisor::new(plan, clock, lead(plan.shards));
    supervisor.machine = Some(Proc::default());
    supervisor.words = words(plan)?;
    for shard in plan.split(&workloads.cpus()) {
        let process = supervisor.fork_shard(&shard, &bell, workloads)?;
        supervisor.take_in(shard, process);
    }
    let wakers = Wakers::open(bell.clone())?;
    let mut started = None;
    while !supervisor.is_over() {
        let mut event = supervisor.wait(&wakers)?;
        if event.take_suspension() {
            supervisor.suspend(&suspension);
        }
        supervisor.step(&event, observer)?;
        for shard in supervisor.due_replacements(|plan, held| workloads.left(plan, held)) {
            match supervisor.fork_shard(&shard, &bell, workloads) {
                Ok(process) => supervisor.replace(shard, process),
                Err(_) => supervisor.members[shard.shard as usize].go_without(),
            }
        }
        if supervisor.start.is_some() {
            started.get_or_insert_with(|| (wall_time(), clock.now()));
        }
    }
    supervisor.finish(observer);
    let usage = own_usage().since(usage_before);
    // The calendar clock may have been set since the start.
    let (started_at, start) = started.unwrap_or_else(|| (wall_time(), clock.now()));
    let finished_at = started_at + Duration::from_nanos(clock.now().since(start));
    Ok(supervisor.into_record([started_at, finished_at], usage))
}

/// Return the words by which several shards keep their requests apart: one of the run and one of
/// each host.
///
/// # Errors
/// When the kernel has no room for them.
pub(crate) fn words(plan: &RunPlan) -> Result<Option<SharedWords>, Errno> {
    let is_shared = plan.shards > 1 && (plan.has_budget() || plan.per_host.rate.is_some());
    let count = 1 + plan.per_host.hosts as usize;
    is_shared.then(|| SharedWords::new(count)).transpose()
}

/// From the last `ready` to the common start of so many shards.
fn lead(shards: u32) -> Duration {
    LEAD + LEAD_PER_SHARD * shards.saturating_sub(1)
}

#[derive(Debug)]
struct Supervisor<L = Process> {
    clock: Clock,
    /// From the last `ready` to the common start.
    lead: Duration,
    shard_deadline: Duration,
    members: Vec<Member<L>>,
    ready: usize,
    start: Option<Nanos>,
    stop: Option<Stop>,
    /// The first failure of a shard's workload.
    failure: Option<WorkloadFailure>,
    /// For how long the whole run was stopped after its start.
    suspended: Duration,
    timeline: Timeline,
    ranges: Ranges,
    /// Requests sent under the limits of the run and of its hosts.
    windows: Windows,
    /// Number of hosts of the target.
    hosts: u32,
    /// When shards may send next under the limits of the run and of its hosts; none of one shard.
    words: Option<SharedWords>,
    /// By host, the last pause that it asked for.
    pauses_in_force: BTreeMap<u32, PauseOrder>,
    /// End of the longest wait that a host asked for.
    asked_until: Nanos,
    /// When the run's budget ceases to be its own, as the shards were told; none if it is its own
    /// to the end.
    lease: Option<Nanos>,
    /// Growth of the shares of the budget, as told last.
    growth: Option<Growth>,
    moved: Moved,
    pauses: u64,
    live: Live,
    /// The machine whose counters are read; none when it is not the machine's time that passes.
    machine: Option<Proc>,
    /// Its counters at the common start.
    counters: Counters,
}

impl Supervisor {
    fn fork_shard(
        &mut self,
        plan: &ShardPlan,
        bell: &Bell,
        workloads: &impl Workloads,
    ) -> Result<Process, SuperviseError> {
        let (frames_above, frames_below) = pipe2(OFlag::O_CLOEXEC)?;
        let (control_below, control_above) = pipe2(OFlag::O_CLOEXEC)?;
        let above = Pipes {
            frames: frames_above,
            control: control_above,
        };
        let below = ShardLink {
            frames: frames_below,
            control: control_below,
            bell: bell.clone(),
            words: self.words.clone(),
        };
        let (members, clock) = (&mut self.members, self.clock);
        let mut below = Some(below);
        let mut above = Some(above);
        let child = fork(&format!("crawlmark-s{}", plan.shard), Role::Part, || {
            // This is the child's copy of memory: dropping closes here what belongs to the
            // supervisor, so that each pipe ends when its two owners do. The members must not be
            // dropped, that would end the other shards.
            drop(above.take());
            for member in std::mem::take(members) {
                member.line.forget();
            }
            below.take().map_or(1, |link| {
                shard::run(plan, clock, link, |plan| workloads.build(plan))
            })
        })?;
        drop(below);
        let pipes = above.ok_or(Errno::EBADF)?;
        Ok(Process::new(child, pipes)?)
    }

    /// Stops all shards and this process, until this process is continued: then all go on.
    fn suspend(&mut self, suspension: &HeldSuspension) {
        let since = self.clock.now();
        self.members
            .iter()
            .for_each(|member| member.line.signal(Signal::SIGSTOP));
        suspension.suspend();
        self.members
            .iter()
            .for_each(|member| member.line.signal(Signal::SIGCONT));
        self.resumed(Duration::from_nanos(self.clock.now().since(since)));
    }

    /// Waits until there is something to do.
    fn wait(&self, wakers: &Wakers) -> Result<Event, SuperviseError> {
        let speaking = self
            .speaking()
            .into_iter()
            .map(|i| (i, self.members[i].line.pipe()));
        Ok(wakers.wait(&speaking.collect::<Vec<_>>())?)
    }
}

impl<L: ShardLine> Supervisor<L> {
    /// The supervisor of `plan` before it has any shards.
    fn new(plan: &RunPlan, clock: Clock, lead: Duration) -> Self {
        let shards = plan.shards as usize;
        Self {
            clock,
            lead,
            shard_deadline: plan.shard_deadline,
            members: Vec::with_capacity(shards),
            ready: 0,
            start: None,
            stop: None,
            failure: None,
            suspended: Duration::ZERO,
            timeline: Timeline::new(Bounds::for_timeout(plan.timeout)),
            ranges: Ranges::of(plan.arrivals),
            windows: Windows::new(shards),
            hosts: plan.per_host.hosts,
            words: None,
            pauses_in_force: BTreeMap::new(),
            asked_until: Nanos::default(),
            lease: None,
            growth: None,
            moved: Moved::default(),
            pauses: 0,
            live: Live::default(),
            machine: None,
            counters: Counters::new(),
        }
    }

    /// Takes in a shard that has been started.
    fn take_in(&mut self, plan: ShardPlan, line: L) {
        self.live.shards.push(LiveShard::new(&plan, line.pid()));
        self.members.push(Member::new(plan, line, self.clock.now()));
    }

    fn is_over(&self) -> bool {
        self.members.iter().all(Member::is_over)
    }

    /// The shards that may still say something.
    fn speaking(&self) -> Vec<usize> {
        (0..self.members.len())
            .filter(|i| self.members[*i].is_speaking())
            .collect()
    }

    /// Return the record of the run, between the calendar times of the common start and the end.
    fn into_record(self, [started_at, finished_at]: [SystemTime; 2], usage: Usage) -> RunRecord {
        let Self {
            clock,
            start,
            stop,
            failure,
            suspended,
            windows,
            moved,
            pauses,
            asked_until,
            members,
            machine,
            counters,
            ..
        } = self;
        RunRecord {
            started_at,
            finished_at,
            start: start.unwrap_or_else(|| clock.now()),
            interrupted: match stop {
                Some(Stop {
                    cause: StopCause::Signal(number),
                    ..
                }) => Some(number),
                _ => None,
            },
            stopped_at: stop.as_ref().map(|stop| stop.at),
            suspended,
            stopped: match stop {
                Some(_) if start.is_none() => Stopped::BeforeStart,
                Some(Stop {
                    cause: StopCause::Observer,
                    ..
                }) => Stopped::ByObserver,
                Some(Stop {
                    cause: StopCause::Workload,
                    ..
                }) => Stopped::ByWorkload,
                _ => Stopped::No,
            },
            failure,
            moved,
            pauses,
            wait_left: Duration::from_nanos(asked_until.since(clock.now())),
            busiest: windows.busiest(),
            shards: members.into_iter().map(Member::into_record).collect(),
            supervisor: usage,
            host: machine.map_or_else(Counters::new, |proc| growth(&proc.counters(), &counters)),
        }
    }

    /// The only place that changes the state of a run.
    fn step<O: Observer>(&mut self, event: &Event, observer: &mut O) -> Result<(), SuperviseError> {
        let now = self.clock.now();
        for i in &event.readable {
            self.receive(*i, now)?;
        }
        for signal in &event.signals {
            self.signalled(*signal, now);
        }
        if event.death {
            self.members.iter_mut().for_each(Member::reap);
        }
        if self.start.is_none() {
            self.renew_lease(now, observer);
            self.start_when_ready()?;
        } else {
            self.note_silence();
            self.share_budget();
            self.feed();
        }
        self.report_intervals(observer);
        // What all shards have told the end of is over, and not stopped.
        let is_on = self.stop.is_none() && self.members.iter().any(Member::is_at_work);
        if is_on && observer.has_enough() {
            self.stop(StopCause::Observer, now);
        }
        if event.tick {
            self.check_deadlines(now);
            self.members.iter_mut().for_each(Member::flush);
            self.renew_lease(now, observer);
            self.refresh(now);
            observer.progress(&self.live);
        }
        Ok(())
    }

    fn receive(&mut self, i: usize, now: Nanos) -> Result<(), SuperviseError> {
        let shard = self.members[i].plan.shard;
        for frame in self.members[i].read(now) {
            match frame {
                Frame::Ready => match self.start {
                    Some(start) => self.begin_late(i, start, now),
                    None => self.ready += 1,
                },
                Frame::Refused(why) if self.start.is_some() => {
                    self.members[i].give_up(ShardFault::Refused(why), now);
                }
                Frame::Refused(why) => return Err(SuperviseError::Refused { shard, why }),
                Frame::Interval(frame) => self.timeline.add(shard, *frame),
                Frame::Sends(sends) => self.windows.add(i, &sends),
                Frame::Pause(order) => self.pause_others(i, order),
                Frame::Idle(received) => {
                    if self.ranges.idle(i, received, self.members[i].given) {
                        self.members[i].progress.remaining = 0;
                    }
                }
                Frame::Shed(range) => self.hand_over(i, range),
                Frame::Failed(why) => {
                    self.failure.get_or_insert(WorkloadFailure { shard, why });
                    if self.stop.is_none() {
                        self.stop(StopCause::Workload, now);
                    }
                }
                // The member keeps these.
                Frame::Progress(_) | Frame::Open(_) | Frame::Finishing | Frame::Final(_) => {}
            }
        }
        Ok(())
    }

    fn start_when_ready(&mut self) -> Result<(), SuperviseError> {
        // Stopped before the start: the shards end as they are.
        if self.stop.is_some() {
            return Ok(());
        }
        if let Some(lost) = self
            .members
            .iter()
            .find(|member| member.fault.is_some() && member.exit.is_some())
        {
            let exit = lost.exit.unwrap_or_default();
            let fault = lost.fault.clone().unwrap_or_default();
            let why = fault.end_in_words(exit);
            return Err(SuperviseError::Lost {
                shard: lost.plan.shard,
                why,
            });
        }
        if self.ready == self.members.len() {
            let start = self.clock.now().plus(self.lead);
            self.members
                .iter_mut()
                .for_each(|member| member.tell(Control::Go { start, from: start }));
            self.start = Some(start);
            // While the shards read when to start.
            self.counters = self
                .machine
                .as_ref()
                .map(Proc::counters)
                .unwrap_or_default();
        }
        Ok(())
    }

    /// Tell the shards until when they may send, if that has changed.
    fn renew_lease<O: Observer>(&mut self, now: Nanos, observer: &mut O) {
        let lease = observer.lease(now);
        if lease == self.lease {
            return;
        }
        self.lease = lease;
        let end = lease.unwrap_or(Nanos(u64::MAX));
        self.tell_all(Control::Lease(end));
    }

    fn report_intervals<O: Observer>(&mut self, observer: &mut O) {
        if self.timeline.is_empty() {
            return;
        }
        let (measuring, until) = (self.measuring(), self.may_be_repeated());
        let (intervals, junk) = self.timeline.take_complete(&measuring, until);
        for (shard, error) in junk {
            let now = self.clock.now();
            self.members[shard as usize].give_up(ShardFault::Junk(error.to_string()), now);
        }
        for interval in intervals {
            self.live.update(&interval);
            observer.interval(&interval);
        }
    }

    /// The shards that have more seconds to tell.
    fn measuring(&self) -> Vec<Measuring> {
        self.members
            .iter()
            .filter(|member| member.is_at_work())
            .filter_map(|member| {
                Some(Measuring {
                    shard: member.plan.shard,
                    first: member.first_second?,
                })
            })
            .collect()
    }

    /// The index of the first second that may be reported again: this one while a shard may die, or
    /// has died, and another process may take its place.
    fn may_be_repeated(&self) -> u64 {
        let may_return = self
            .members
            .iter()
            .any(|member| member.is_speaking() && member.last.is_none() || member.may_return());
        match self.start {
            Some(start) if may_return => self.clock.now().since(start) / duration_ns(INTERVAL),
            _ => u64::MAX,
        }
    }

    fn refresh(&mut self, now: Nanos) {
        self.live.elapsed = Duration::from_nanos(self.start.map_or(0, |start| now.since(start)));
        self.live.stopping = self.stop.as_ref().map(Stop::state);
        self.live.at = now;
        let pauses: Vec<Nanos> = self
            .pauses_in_force
            .values()
            .map(|order| order.until)
            .collect();
        self.live.pause = LivePause::at(now, &pauses, self.hosts);
        for (live, member) in self.live.shards.iter_mut().zip(&self.members) {
            member.show(live);
        }
    }

    fn finish<O: Observer>(&mut self, observer: &mut O) {
        // Of those that were given up a moment ago.
        self.note_silence();
        self.report_intervals(observer);
        self.refresh(self.clock.now());
        observer.progress(&self.live);
    }
}
