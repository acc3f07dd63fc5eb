//! State of a run that the supervisor shows while it goes on, and the record that it hands over at
//! its end.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use super::line::ShardLine;
use super::member::{Member, ShardFault};
use super::replacements::{Past, PastLife};
use super::times::{ReceivedStats, Recent, ShardTimes};
use super::windows::BusiestWindow;
use crate::adaptive::ControllerState;
use crate::clock::Nanos;
use crate::machine::HostRecord;
use crate::plan::ShardPlan;
use crate::process::ShardExit;
use crate::stats::{AnswerBins, Bins, Bounds, Counters, Failures, Groups, ShardStats};
use crate::units::IdRange;
use crate::wire::{
    BindingTimes, BudgetUse, CpuHealth, Progress, Scheduled, Scope, SecondFigures,
    ThrottlingCounts, TimetableUse, Usage,
};

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
    /// Now, on the clock of [`LiveShard::at`].
    pub at: Nanos,
    /// The index of the last second that all shards have told the end of; in an open loop that
    /// takes as long as its answers do. None before the first.
    pub last_second: Option<u64>,
    /// The times over all shards in that second; none when nothing was answered in it.
    pub recent: Option<Recent>,
    /// Limit and pace of adaptive shards at the end of that second, summed over them; none unless
    /// they are adaptive.
    pub standing: Option<ControllerState>,
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
    /// Time of its last progress report.
    pub at: Nanos,
    /// Everything counted so far.
    pub counters: Counters,
    /// Failures by cause so far.
    pub failures: Failures,
    /// Requests under way.
    pub in_flight: u32,
    /// Items that wait for another attempt.
    pub waiting_again: u64,
    /// In an open loop, for how long the next request to go has been due; zero when it is not.
    pub behind: Duration,
    /// Times for which each limit has held it back so far.
    pub binding: BindingTimes,
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
    /// Counts of what ended in it and was scheduled in the warm-up.
    pub warmup: Counters,
    /// Requests scheduled in it.
    pub scheduled: Scheduled,
    /// Answers in each bin of it.
    pub answers: AnswerBins,
    /// Counts and times of its bins; empty but in the first seconds of a short run.
    pub bins: Bins,
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ShardSecond {
    /// Its number.
    pub shard: u32,
    /// Attempts that ended in it or were cut off.
    pub attempts: u64,
    /// Its greatest lateness, ns.
    pub max_sched_lag_ns: u64,
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
    /// True if the observer or a workload did, or a signal did before the common start.
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
    /// The busiest windows over all shards of each limit that requests were sent under.
    pub busiest: BTreeMap<Scope, Vec<BusiestWindow>>,
    /// Each shard.
    pub shards: Vec<ShardRecord>,
    /// Resource usage of the supervisor itself, from the fork to the end.
    pub supervisor: Usage,
    /// Breakdown of that CPU.
    pub effort: SupervisorCpu,
    /// Counts of the machine during the run.
    pub host: HostRecord,
}

impl RunRecord {
    /// True if a signal, the observer or a workload stopped the run early.
    #[must_use]
    pub fn was_stopped(&self) -> bool {
        self.interrupted.is_some()
            || matches!(self.stopped, Stopped::ByObserver | Stopped::ByWorkload)
    }
}

/// CPU time of the supervisor, by phase. The rest of its CPU time was for reading the final
/// reports.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SupervisorCpu {
    /// From the first fork until the common start was sent, µs. It grows with the number of shards.
    pub starting_us: u64,
    /// From then until the first final report of a shard, µs. It grows with the duration of the
    /// run.
    pub running_us: u64,
    /// Duration of the time that `running_us` covers.
    pub running: Duration,
}

/// Failure of a shard's workload: it took no more results, or could not finish them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadFailure {
    /// Its shard.
    pub shard: u32,
    /// The failure and what to do about it, in a sentence for people.
    pub why: String,
}

/// True if a run was stopped by its observer or a workload, or before it began.
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

/// IDs and budget moved between the shards while the run went on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moved {
    /// Ranges of IDs that went from a shard to another that was done.
    pub ranges: u64,
    /// The IDs in them.
    pub ids: u64,
    /// Number of times that shares of the budget were moved.
    pub shares: u64,
}

impl Moved {
    /// Add the moves of another run.
    pub(super) const fn plus(self, other: Self) -> Self {
        let Self {
            ranges,
            ids,
            shares,
        } = other;
        Self {
            ranges: self.ranges + ranges,
            ids: self.ids + ids,
            shares: self.shares + shares,
        }
    }
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
    /// Its final stats; of a shard with a fault, the counters of its last progress frame and no
    /// distributions.
    pub stats: ReceivedStats,
    /// IDs that it never started: by its own count, and those that were given to it after its end.
    /// Of a shard with a fault, those that it cannot have started, by its last report.
    pub remaining: u64,
    /// The most requests under way at once.
    pub peak_in_flight: u32,
    /// When its first request was sent; none when none was, or of a shard with a fault or an
    /// earlier process.
    pub first_sent: Option<Nanos>,
    /// When its last attempt ended; of a shard with a fault, when it was last heard.
    pub last_done: Nanos,
    /// When its last attempt ended that was not cut off, the start when there was none; none of a
    /// shard with a fault.
    pub last_ended: Option<Nanos>,
    /// Use of its budgets, those of hosts included; empty for a shard with a fault.
    pub budgets: Vec<(Scope, BudgetUse)>,
    /// Use of the timetable of an open loop; none in a closed one, or of a shard with a fault.
    pub timetable: Option<TimetableUse>,
    /// Longest slack that its pacing used; none of a shard with a fault.
    pub longest_slack: Option<Duration>,
    /// Counts of its warm-up; zero for a shard with a fault.
    pub warmup: Counters,
    /// Failures by cause; of a shard with a fault, until its last report.
    pub failures: Failures,
    /// Counts and times by host; none of a crawl of one, or of a shard with a fault.
    pub hosts: Groups,
    /// Counts and times by URL template; none of a crawl of one, or of a shard with a fault.
    pub templates: Groups,
    /// Counts and times by source address; none without several, or of a shard with a fault.
    pub sources: Groups,
    /// Times for which each limit held it back; of a shard with a fault, until its last report.
    pub binding: BindingTimes,
    /// Counts of throttle pauses and retries; zero for a shard with a fault.
    pub courtesy: ThrottlingCounts,
    /// Resource usage of its process; none of a shard with a fault.
    pub usage: Option<Usage>,
    /// Readings of its CPU; none of a shard with a fault.
    pub cpu: Option<CpuHealth>,
}

impl LiveShard {
    pub(super) fn new(plan: &ShardPlan, pid: i32) -> Self {
        Self {
            pid,
            planned: plan.items(),
            at: Nanos::default(),
            counters: crate::stats::Counters::default(),
            failures: Failures::default(),
            in_flight: 0,
            waiting_again: 0,
            behind: Duration::ZERO,
            binding: BindingTimes::default(),
            recent: None,
            lag: None,
            state: LiveState::Running,
            replaced: None,
        }
    }

    /// Takes in what it last said.
    pub(super) fn refresh<L: ShardLine>(&mut self, member: &Member<L>) {
        let Progress {
            at,
            counters,
            in_flight,
            remaining: _,
            waiting_again,
            behind_ms,
            binding,
            failures,
        } = &member.progress;
        let Past {
            lives,
            finished,
            counters: past,
            failures: past_failures,
            binding: past_binding,
            ..
        } = &member.past;
        self.at = *at;
        self.planned = member.ids.iter().chain(finished).map(IdRange::len).sum();
        self.counters.clone_from(counters);
        self.counters.merge(past);
        self.failures.clone_from(failures);
        self.failures.merge(past_failures);
        self.replaced = lives.last().map(|life| (lives.len(), life.exit));
        self.in_flight = *in_flight;
        self.waiting_again = *waiting_again;
        self.behind = Duration::from_millis((*behind_ms).into());
        self.binding = binding.plus(past_binding);
        self.state = match (&member.last, &member.fault) {
            (_, Some(_)) if member.returns() => LiveState::Restarting,
            (_, Some(_)) => LiveState::Lost,
            (Some(_), None) => LiveState::Done,
            (None, None) => LiveState::Running,
        };
    }
}

impl Live {
    /// True if all shards have ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.shards
            .iter()
            .all(|shard| matches!(shard.state, LiveState::Done | LiveState::Lost))
    }

    /// Takes in a second that is complete over all shards.
    pub(super) fn hear(&mut self, interval: &Interval) {
        self.last_second = Some(interval.index);
        self.recent = Recent::of(&interval.merged);
        self.standing = interval.standing;
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
        let paused = || ends.iter().filter(|until| **until > now);
        let left = Duration::from_nanos(paused().min()?.since(now));
        Some(Self {
            hosts: u32::try_from(paused().count()).unwrap_or(u32::MAX),
            of,
            left,
        })
    }
}

impl ShardRecord {
    /// Create the record of `member`, which is over.
    pub(super) fn of<L: ShardLine>(mut member: Member<L>) -> Self {
        let bounds = Bounds::for_timeout(member.plan.timeout);
        let exit = member.exit.unwrap_or(ShardExit::Unknown);
        let (pid, plan) = (member.line.pid(), member.plan.clone());
        let (unread, never_started) = (member.unread(), member.never_started());
        let ids = std::mem::take(&mut member.ids);
        let past = std::mem::take(&mut member.past);
        let record = match member.last.take() {
            Some(last) if member.fault.is_none() => ShardRecord {
                plan,
                ids,
                past: Vec::new(),
                pid,
                exit,
                fault: None,
                stats: last.stats,
                // What came too late for it was never started.
                remaining: last.frame.remaining + unread,
                peak_in_flight: last.frame.peak_in_flight,
                first_sent: last.frame.first_sent,
                last_done: last.frame.last_done,
                last_ended: Some(last.frame.last_ended),
                budgets: last.frame.budgets,
                timetable: last.frame.timetable,
                longest_slack: Some(last.frame.longest_slack),
                warmup: last.frame.warmup,
                failures: last.frame.failures,
                hosts: last.frame.hosts,
                templates: last.frame.templates,
                sources: last.frame.sources,
                binding: last.frame.binding,
                courtesy: last.frame.courtesy,
                usage: Some(last.frame.usage),
                cpu: Some(last.frame.cpu),
            },
            _ => {
                let stats =
                    ReceivedStats::counted(bounds, std::mem::take(&mut member.progress.counters));
                let fault = member.fault.take().unwrap_or(ShardFault::Died);
                ShardRecord {
                    plan,
                    ids,
                    past: Vec::new(),
                    pid,
                    exit,
                    fault: Some(fault),
                    stats,
                    remaining: never_started,
                    peak_in_flight: 0,
                    first_sent: None,
                    last_done: member.heard_at(),
                    last_ended: None,
                    budgets: Vec::new(),
                    timetable: None,
                    longest_slack: None,
                    warmup: Counters::default(),
                    failures: member.progress.failures,
                    hosts: Groups::default(),
                    templates: Groups::default(),
                    sources: Groups::default(),
                    binding: member.progress.binding,
                    courtesy: ThrottlingCounts::default(),
                    usage: None,
                    cpu: None,
                }
            }
        };
        record.after(past)
    }

    /// Adds what is known of earlier processes.
    fn after(mut self, past: Past) -> Self {
        let Past {
            plan,
            lives,
            finished,
            counters,
            failures,
            binding,
        } = past;
        let Some(plan) = plan else { return self };
        (self.plan, self.past, self.first_sent) = (plan, lives, None);
        self.ids.extend(finished);
        self.stats.counters.merge(&counters);
        self.failures.merge(&failures);
        self.binding.merge(&binding);
        self
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
