//! Whole runs in virtual time, in one thread: from the plan to the record, exactly, in
//! milliseconds.
//!
//! For tests (feature `virtual-time`). Each shard is a task that lives the whole life of a shard; a
//! supervisor receives its frames, relays its pauses, moves IDs and budget and merges what it
//! measured, by the code that does so between processes. The differences: there are no processes
//! and no kernel pipes, reading and writing take no time, CPU and memory are not reported, and the
//! alarm of the gate has a resolution of 1 ms.
//!
//! The same plan, workload and incidents make the same record, byte for byte. Tasks that are due at
//! the same instant run in the order in which they were woken, or in one that
//! [`Incident::Disorder`] draws from its seed. Each report of a shard is checked before it leaves.
//! It must not measure anything itself.

#[path = "process.rs"]
mod process;
#[path = "reports.rs"]
mod reports;

use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::time::Duration;

use tokio::io::duplex;
use tokio::runtime::{Builder, LocalOptions};
use tokio::task::spawn_local;

use self::process::{CutStream, Lives, Process, isolated};
use crate::chance::Chance;
use crate::clock::{Clock, Nanos};
use crate::plan::{RunPlan, ShardPlan};
use crate::sample::{Attempt, Sample};
use crate::shard::{self, Alarm, RehearsedLink};
use crate::supervisor::{
    Interval, Left, Live, Observer, RunRecord, Stage, SuperviseError, conduct, words,
};
use crate::units::IdRange;
use crate::workload::{Clearance, Flight, Workload};

/// As many bytes as a pipe of the kernel's holds.
const PIPE_BYTES: usize = 64 << 10;

/// Something that happens to the client in the course of a rehearsal. Times count from the common
/// start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incident {
    /// Nothing of the client runs for so long: no shard, no supervisor. Targets that are tasks of
    /// the same thread do not run either; what falls due in the meantime is there when it is over.
    Block {
        /// When it begins.
        at: Duration,
        /// Duration; whole milliseconds, because timers of virtual time have no finer unit.
        lasts: Duration,
    },
    /// A signal asks the run to stop.
    Signal {
        /// When it comes.
        at: Duration,
        /// Its number.
        number: i32,
    },
    /// A shard dies without a word: the process that it has then.
    Death {
        /// When it dies.
        at: Duration,
        /// Its number.
        shard: u32,
    },
    /// A process is stopped and goes on later (SIGSTOP, SIGCONT), or has no CPU: nothing of it runs,
    /// and what it is sent waits.
    Stop {
        /// When it begins.
        at: Duration,
        /// Duration; whole milliseconds.
        lasts: Duration,
        /// Number of the shard; none is the supervisor.
        shard: Option<u32>,
    },
    /// A process of a shard dies once it has written so many bytes to its supervisor, perhaps in the
    /// middle of a frame.
    Cut {
        /// Number of the shard.
        shard: u32,
        /// Number of the process among those that the shard has one after another, from 0 on.
        life: u32,
        /// Bytes that arrive.
        bytes: u64,
    },
    /// The pipes between shards and supervisor hold no more than so many bytes, so that frames
    /// arrive in pieces and writers wait.
    NarrowPipes {
        /// Bytes; at least 1.
        bytes: usize,
    },
    /// What may happen in one order or another is drawn: who runs first of what is due at the same
    /// instant, and which alarms ring early or late.
    Disorder {
        /// Seed of the draws.
        seed: u64,
    },
}

/// Result of a rehearsed run.
#[derive(Debug)]
pub struct Rehearsal {
    /// Record made by the supervisor. The calendar starts at the Unix epoch.
    pub record: RunRecord,
    /// Each second.
    pub intervals: Vec<Interval>,
    /// Every attempt that ended, over all shards, in the order in which they were counted.
    pub samples: Vec<Sample>,
}

/// Reason why a rehearsal could not start.
#[derive(Debug, thiserror::Error)]
pub enum RehearseError {
    /// There is no runtime.
    #[error("make a runtime of virtual time: {0}")]
    Runtime(#[from] io::Error),
    /// The run could not start.
    #[error("{0}")]
    Supervise(#[from] SuperviseError),
}

/// Runs `plan` to its end in virtual time, while `incidents` happen. `workload` is called once for
/// each shard, inside the runtime, with a clock whose epoch is the common start.
///
/// # Errors
/// When the run could not start.
///
/// # Panics
/// When a workload does, and inside another runtime.
pub fn rehearse<W: Workload>(
    plan: &RunPlan,
    incidents: &[Incident],
    workload: impl FnMut(&ShardPlan, Clock) -> W,
) -> Result<Rehearsal, RehearseError> {
    rehearse_before(plan, incidents, workload, &mut Nobody)
}

/// Observer that looks away.
#[derive(Debug)]
pub struct Nobody;

impl Observer for Nobody {
    fn progress(&mut self, _: &Live) {}
    fn interval(&mut self, _: &Interval) {}
}

/// Rehearse a run as [`rehearse`] does, watched by `observer`.
///
/// # Errors
/// When the run could not start.
///
/// # Panics
/// When a workload does, and inside another runtime.
pub fn rehearse_before<W: Workload, O: Observer>(
    plan: &RunPlan,
    incidents: &[Incident],
    workload: impl FnMut(&ShardPlan, Clock) -> W,
    observer: &mut O,
) -> Result<Rehearsal, RehearseError> {
    rehearse_replacing(plan, incidents, workload, |_, _| None, observer)
}

/// Rehearse a run as [`rehearse_before`] does, in which shards that die are replaced: `left` is
/// [`Workloads::left`](crate::supervisor::Workloads::left).
///
/// # Errors
/// When the run could not start.
///
/// # Panics
/// When a workload does, and inside another runtime.
pub fn rehearse_replacing<W: Workload, O: Observer>(
    plan: &RunPlan,
    incidents: &[Incident],
    mut workload: impl FnMut(&ShardPlan, Clock) -> W,
    left: impl Fn(&ShardPlan, &[IdRange]) -> Option<Left>,
    observer: &mut O,
) -> Result<Rehearsal, RehearseError> {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build_local(LocalOptions::default())?;
    let samples = Rc::default();
    let mut seconds = SecondsObserver {
        intervals: Vec::new(),
        observer,
    };
    let seed = incidents.iter().find_map(|incident| match incident {
        Incident::Disorder { seed } => Some(*seed),
        _ => None,
    });
    let chance = seed.map(Chance::seeded).unwrap_or_default();
    let room = incidents.iter().find_map(|incident| match incident {
        Incident::NarrowPipes { bytes } => Some(*bytes),
        _ => None,
    });
    let words = words(plan).map_err(SuperviseError::from)?;
    let record = runtime.block_on(async {
        let clock = Clock::start();
        let lives = Lives::default();
        let (own, samples) = (lives.clone(), Rc::clone(&samples));
        let spawn = |shard: &ShardPlan| {
            let (above, below) = duplex(room.unwrap_or(PIPE_BYTES));
            let workload = Watched {
                workload: workload(shard, clock),
                samples: Rc::clone(&samples),
                chance: chance.clone(),
            };
            let alarm = Alarm::drawn(clock, chance.clone());
            let below = CutStream::new(below, shard, cut(incidents, shard), own.clone());
            let link = RehearsedLink {
                stream: below,
                words: words.clone(),
            };
            let life = shard::rehearse(shard.clone(), alarm, workload, link);
            let stops = stops(incidents, Some(shard.shard));
            let life = Process::new(isolated(life), clock, stops, chance.clone());
            let life = spawn_local(life);
            own.begin(shard.shard, life.abort_handle());
            (above, life)
        };
        let mut stage = Stage {
            clock,
            spawn,
            left,
            signals: Vec::new(),
        };
        for incident in incidents {
            match *incident {
                Incident::Block { at, lasts } => drop(spawn_local(block(clock, at, lasts))),
                Incident::Death { at, shard } => {
                    let lives = lives.clone();
                    drop(spawn_local(async move {
                        tokio::time::sleep_until(clock.instant(Nanos::default().plus(at))).await;
                        lives.end(shard);
                    }));
                }
                Incident::Signal { at, number } => {
                    stage.signals.push((Nanos::default().plus(at), number));
                }
                Incident::Stop { .. }
                | Incident::Cut { .. }
                | Incident::NarrowPipes { .. }
                | Incident::Disorder { .. } => {}
            }
        }
        let supervisor = conduct(plan, stage, &mut seconds);
        Process::new(supervisor, clock, stops(incidents, None), chance.clone()).await
    })?;
    // What is left of the target is gone with the runtime, and nothing else holds the samples then.
    drop(runtime);
    Ok(Rehearsal {
        record,
        intervals: seconds.intervals,
        samples: samples.take(),
    })
}

/// The times at which the process of `shard`, or the supervisor, is stopped and goes on.
fn stops(incidents: &[Incident], of: Option<u32>) -> Vec<(Nanos, Nanos)> {
    let stops = incidents.iter().filter_map(|incident| match *incident {
        Incident::Stop { at, lasts, shard } if shard == of => {
            let at = Nanos::default().plus(at);
            Some((at, at.plus(lasts)))
        }
        _ => None,
    });
    stops.collect()
}

/// The bytes after which the process of `plan` dies, if it does.
fn cut(incidents: &[Incident], plan: &ShardPlan) -> Option<u64> {
    incidents.iter().find_map(|incident| match *incident {
        Incident::Cut { shard, life, bytes } if (shard, life) == (plan.shard, plan.life) => {
            Some(bytes)
        }
        _ => None,
    })
}

/// Moves the clock on in one step: whatever was due in the meantime comes to run afterwards, and
/// finds that it is late.
async fn block(clock: Clock, at: Duration, lasts: Duration) {
    tokio::time::sleep_until(clock.instant(Nanos::default().plus(at))).await;
    tokio::time::advance(lasts).await;
}

/// A workload, and a list of what it did.
struct Watched<W> {
    workload: W,
    samples: Rc<RefCell<Vec<Sample>>>,
    chance: Chance,
}

impl<W: Workload> Workload for Watched<W> {
    fn host(&self, id: u64) -> u32 {
        self.workload.host(id)
    }

    fn templates(&self) -> u32 {
        self.workload.templates()
    }

    fn template(&self, id: u64) -> u32 {
        self.workload.template(id)
    }

    async fn perform(
        &self,
        id: u64,
        flight: &Flight,
        clearance: &impl Clearance,
        ended: &mut Attempt,
    ) -> Option<()> {
        self.chance.postpone().await;
        let cleared = async || {
            self.chance.postpone().await;
            clearance.wait().await
        };
        let performed = self.workload.perform(id, flight, &cleared, ended).await;
        self.chance.postpone().await;
        performed
    }

    fn booked(&self, sample: &Sample) {
        self.workload.booked(sample);
        self.samples.borrow_mut().push(sample.clone());
    }

    fn has_room(&self) -> bool {
        self.workload.has_room()
    }

    async fn room(&self) {
        self.workload.room().await;
    }

    async fn finish(&self) -> Result<(), String> {
        self.workload.finish().await
    }

    async fn failed(&self) -> String {
        self.workload.failed().await
    }
}

/// An observer, and the seconds that it is passed.
#[derive(Debug)]
struct SecondsObserver<'a, O> {
    intervals: Vec<Interval>,
    observer: &'a mut O,
}

impl<O: Observer> Observer for SecondsObserver<'_, O> {
    fn progress(&mut self, live: &Live) {
        self.observer.progress(live);
    }

    fn interval(&mut self, interval: &Interval) {
        self.intervals.push(interval.clone());
        self.observer.interval(interval);
    }

    fn lease(&mut self, now: Nanos) -> Option<Nanos> {
        self.observer.lease(now)
    }

    fn has_enough(&self) -> bool {
        self.observer.has_enough()
    }
}
