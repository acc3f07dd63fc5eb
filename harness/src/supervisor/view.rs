//! State of a run that the supervisor shows while it goes on, and the record that it hands over at
//! its end.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::times::{Recent, ShardTimes};
use super::windows::BusiestWindow;
use crate::adaptive::ControllerState;
use crate::clock::Nanos;
use crate::machine::Counters as MachineCounters;
use crate::plan::{ShardPlan, micros};
use crate::process::ShardExit;
use crate::stats::{ShardStats, counters};
use crate::units::IdRange;
use crate::wire::{Progress, Scope, SecondFigures, ShardOutcome, Usage};

/// Watches a run. Called from the supervisor's loop, so it must be quick and start no thread.
pub trait Observer {
    /// The run stands as `live` says. Called about ten times a second.
    fn progress(&mut self, live: &Live);

    /// A second is complete over all shards. Called once for each.
    fn interval(&mut self, interval: &Interval);

    /// Return the end of the lease on the budget, asked at `now`: no shard sends a request after
    /// it, even if this process dies. None if the budget has no lease. Called before the start and
    /// about ten times a second.
    fn lease(&mut self, now: Nanos) -> Option<Nanos> {
        let _ = now;
        None
    }

    /// True if the run is to be stopped as by a signal: nothing new is started, what is under way
    /// may end. Asked after seconds were told.
    fn has_enough(&self) -> bool {
        false
    }
}

/// State of a run.
#[derive(Debug, Clone, Default)]
pub struct Live {
    /// Since the common start.
    pub elapsed: Duration,
    /// Each shard.
    pub shards: Vec<LiveShard>,
    /// Now, on the clock of `LiveShard`.
    pub at: Nanos,
    /// The index of the last second that all shards have told the end of; in an open loop that
    /// takes as long as its answers do. None before the first.
    pub last_second: Option<u64>,
    /// The times over all shards in that second; none when nothing was answered in it.
    pub recent: Option<Recent>,
    /// Limit and pace of adaptive shards at the end of that second, summed over them; none unless
    /// they are adaptive.
    pub controller: Option<ControllerState>,
    /// Throttle pause of the target; none when no host of it asks for one.
    pub pause: Option<LivePause>,
    /// State of the stop that the run has been asked for; none before.
    pub stopping: Option<Stopping>,
}

/// State of a stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopping {
    /// The observer stopped the run: open requests have a grace, which a signal ends.
    ByObserver,
    /// The workload of a shard did: open requests have a grace, which a signal ends.
    ByWorkload,
    /// A signal did: open requests have a grace, which another signal ends.
    BySignal,
    /// The grace was ended; another signal kills the shards.
    AtOnce,
}

/// Throttle pause that the target asked for, in effect now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LivePause {
    /// Number of its hosts that asked for a pause; at least 1.
    pub hosts: u32,
    /// Number of its hosts.
    pub of: u32,
    /// Time until requests to the first of those hosts may be sent again. From then on the shards
    /// resume one after another.
    pub left: Duration,
}

/// State of a shard.
#[derive(Debug, Clone)]
pub struct LiveShard {
    /// Its process.
    pub pid: i32,
    /// Its IDs.
    pub planned: u64,
    /// Its last report, with what earlier processes of it had reported.
    pub progress: Progress,
    /// Its times in the last complete second.
    pub recent: Option<Recent>,
    /// Its greatest lateness in that second; none while there is no such second.
    pub lag: Option<Duration>,
    /// Progress of the shard.
    pub state: LiveState,
    /// Number of times that it was replaced, and the exit of the process that was last; none of one
    /// that never was.
    pub replaced: Option<(usize, ShardExit)>,
}

impl std::ops::Deref for LiveShard {
    type Target = Progress;

    fn deref(&self) -> &Progress {
        &self.progress
    }
}

impl std::ops::DerefMut for LiveShard {
    fn deref_mut(&mut self) -> &mut Progress {
        &mut self.progress
    }
}

/// Progress of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LiveState {
    /// At work.
    Running,
    /// Its final frame is here.
    Done,
    /// Over, without a final frame.
    Lost,
    /// Over, without a final frame; another process will take its place.
    Restarting,
}

/// One second of a run, merged over the shards that reported it.
#[derive(Debug, Clone)]
pub struct Interval {
    /// Its figures, over all shards.
    pub figures: SecondFigures,
    /// All shards together. The counters: what ended in it, and what was due in it and never went.
    /// The distributions: of what was scheduled in it.
    pub merged: ShardStats,
    /// The times of each shard, by its number.
    pub shards: Vec<(u32, ShardTimes)>,
    /// Figures of each shard in it.
    pub seconds: Vec<ShardSecond>,
}

impl std::ops::Deref for Interval {
    type Target = SecondFigures;

    fn deref(&self) -> &SecondFigures {
        &self.figures
    }
}

/// A second of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShardSecond {
    /// Its number.
    pub shard: u32,
    /// Attempts that ended in it or were cut off.
    pub attempts: u64,
    /// Its greatest lateness, ns.
    pub max_sched_lag_ns: u64,
    /// Its greatest event-loop delay, ns.
    pub max_loop_lag_ns: u64,
    /// CPU that it used, user and system, us.
    pub cpu_us: u64,
}

/// A run that is over, as it was.
#[derive(Debug)]
pub struct RunRecord {
    /// Calendar time at the common start.
    pub started_at: SystemTime,
    /// Calendar time at the end.
    pub finished_at: SystemTime,
    /// The common start; see [`Stopped::BeforeStart`] for a run without one.
    pub start: Nanos,
    /// The number of the signal that stopped the run early.
    pub interrupted: Option<i32>,
    /// Moment at which a signal, the observer or a workload stopped the run.
    pub stopped_at: Option<Nanos>,
    /// What else stopped the run early.
    pub stopped: Stopped,
    /// The first failure of a shard's workload; none without any. It stopped the run unless
    /// something else had.
    pub failure: Option<WorkloadFailure>,
    /// Time for which the whole run was suspended after its start, by Ctrl-Z (SIGTSTP).
    pub suspended: Duration,
    /// Counts of moves between the shards.
    pub moved: Moved,
    /// Number of times that the target made all shards wait.
    pub pauses: u64,
    /// Rest of the longest wait that the target had asked for, when the run was over.
    pub wait_left: Duration,
    /// The busiest windows over all shards of each limit that requests were sent under.
    pub busiest: BTreeMap<Scope, Vec<BusiestWindow>>,
    /// Each shard.
    pub shards: Vec<ShardRecord>,
    /// Resource usage of the supervisor itself, from the fork to the end.
    pub supervisor: Usage,
    /// Growth of the machine's counters during the run.
    pub host: MachineCounters,
}

impl RunRecord {
    /// True if a signal, the observer or a workload stopped the run early.
    pub fn was_stopped(&self) -> bool {
        self.interrupted.is_some()
            || matches!(self.stopped, Stopped::ByObserver | Stopped::ByWorkload)
    }
}

/// Failure of a shard's workload: it took no more results, or could not finish them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFailure {
    /// Its shard.
    pub shard: u32,
    /// The failure and what to do about it, in a sentence for people.
    pub why: String,
}

/// The stop of a run by its observer or a workload, or before it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Stopped {
    /// Not stopped by the observer or a workload before the run was over or a signal stopped it.
    #[default]
    No,
    /// Stopped by the observer, which had seen enough.
    ByObserver,
    /// Stopped by the workload of a shard, which took no more results or could not finish them.
    ByWorkload,
    /// A signal stopped it before the common start: it has no requests, and its start is when it
    /// was over.
    BeforeStart,
}

counters! {
    /// IDs moved between the shards while the run went on.
    #[derive(Copy)]
    pub struct Moved {
        /// Ranges of IDs that went from a shard to another that was done.
        ranges: u64,
        /// The IDs in them.
        ids: u64,
    }
}

/// Reason why a shard's result is not whole.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardFault {
    /// Its pipe ended before its final frame.
    #[default]
    Died,
    /// Silence for too long; the shard was ended.
    #[serde(rename = "silent_us", with = "micros")]
    Silent(Duration),
    /// Bytes that are no frame; the shard was ended.
    Junk(String),
    /// Still running when the grace after a stop was over; the shard was ended.
    Overdue,
    /// Its workload could not be built in the place of one that died.
    Refused(String),
    /// A part of a crawl on several machines that left no result.
    Missing,
}

impl fmt::Display for ShardFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Died => write!(f, "died before its final report"),
            Self::Silent(limit) => write!(
                f,
                "was silent for {} and was ended",
                humantime::format_duration(*limit)
            ),
            Self::Junk(error) => write!(
                f,
                "sent a frame that cannot be read ({error}) and was ended"
            ),
            Self::Refused(why) => write!(f, "could not be replaced ({why})"),
            Self::Missing => write!(f, "left no result"),
            Self::Overdue => write!(
                f,
                "had not ended when the grace after the stop was over, and was ended"
            ),
        }
    }
}

impl ShardFault {
    /// How a process ended: by itself, or why it was ended.
    pub fn end_in_words(&self, exit: ShardExit) -> String {
        match self {
            Self::Died => exit.to_string(),
            fault => fault.to_string(),
        }
    }
}

/// Process of a shard that died and was replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastLife {
    /// Its process.
    pub pid: i32,
    /// Exit of its process.
    pub exit: ShardExit,
    /// Reason why it told no end.
    pub fault: ShardFault,
}

/// Record of a shard that is over.
#[derive(Debug)]
pub struct ShardRecord {
    /// Its part of the plan.
    pub plan: ShardPlan,
    /// The IDs that it held at the end: those of its plan, without what it gave away, with what it
    /// was given.
    pub ids: Vec<IdRange>,
    /// Its earlier processes, which died and were replaced, the oldest first. If there are any,
    /// what follows is of the last one, except that the counters, failures and limits are those of
    /// all, with the requests of each until its last report.
    pub past: Vec<PastLife>,
    /// Its process.
    pub pid: i32,
    /// Exit of its process.
    pub exit: ShardExit,
    /// Reason why its result is not whole; none when it is.
    pub fault: Option<ShardFault>,
    /// What is known of it.
    pub outcome: ShardOutcome,
}

impl std::ops::Deref for ShardRecord {
    type Target = ShardOutcome;

    fn deref(&self) -> &ShardOutcome {
        &self.outcome
    }
}

impl std::ops::DerefMut for ShardRecord {
    fn deref_mut(&mut self) -> &mut ShardOutcome {
        &mut self.outcome
    }
}

impl LiveShard {
    /// In an open loop, for how long the next request to go has been due; zero when it is not.
    pub fn behind(&self) -> Duration {
        Duration::from_millis(self.behind_ms.into())
    }

    /// A shard that has reported nothing.
    pub(super) fn new(plan: &ShardPlan, pid: i32) -> Self {
        Self {
            pid,
            planned: plan.items(),
            progress: Progress::default(),
            recent: None,
            lag: None,
            state: LiveState::Running,
            replaced: None,
        }
    }
}

impl Live {
    /// True if all shards have ended.
    pub fn is_over(&self) -> bool {
        self.shards
            .iter()
            .all(|shard| matches!(shard.state, LiveState::Done | LiveState::Lost))
    }

    /// Takes in a second that is complete over all shards.
    pub(super) fn update(&mut self, interval: &Interval) {
        self.last_second = Some(interval.index);
        self.recent = Recent::of(&interval.merged);
        self.controller = interval.controller;
        for (shard, times) in &interval.shards {
            self.shards[*shard as usize].recent = times.recent;
        }
        for second in &interval.seconds {
            self.shards[second.shard as usize].lag =
                Some(Duration::from_nanos(second.max_sched_lag_ns));
        }
    }
}

impl LivePause {
    /// Return the pause at `now` of a target with `of` hosts, given the end of the last pause of
    /// each that asked; none when none is paused.
    pub(super) fn at(now: Nanos, ends: &[Nanos], of: u32) -> Option<Self> {
        let paused: Vec<&Nanos> = ends.iter().filter(|until| **until > now).collect();
        let left = Duration::from_nanos(paused.iter().min()?.since(now));
        Some(Self {
            hosts: u32::try_from(paused.len()).unwrap_or(u32::MAX),
            of,
            left,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pause_lasts_until_the_first_of_the_hosts_that_asked_for_it_may_be_asked_again() {
        let s = |s: u64| Nanos(s * 1_000_000_000);
        let at = |now| LivePause::at(s(now), &[s(5), s(9), s(4)], 4);
        let paused = |hosts, left| {
            Some(LivePause {
                hosts,
                of: 4,
                left: Duration::from_secs(left),
            })
        };
        assert_eq!(
            [at(3), at(4), at(8), at(9)],
            [paused(3, 1), paused(2, 1), paused(1, 1), None]
        );
    }
}
