//! Types that cross the pipes: `Frame` up, `Control` down, and the parts of both.
//!
//! Everything that is counted is cumulative or sent exactly once; the doc of each frame says which.
//! It must not know how it is written.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::EncodedStats;
use crate::adaptive::ControllerState;
use crate::clock::Nanos;
use crate::machine::CpuTicks;
use crate::pacer::{Growth, WorstWindow};
use crate::sample::{ErrorKind, Outcome};
use crate::stats::{
    Alike, ConnectionCounts, Counters, Failures, Groups, Phases, SecondCourse, Slowest, SplitSums,
    TcpCounts, Traits, counters,
};
use crate::units::IdRange;

/// Message from a shard to its supervisor.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Frame {
    /// The workload stands; the shard waits for [`Control::Go`].
    Ready,
    /// The workload could not be built.
    Refused(String),
    /// Progress of the shard. Cumulative. With the seconds before it, it is one report.
    Progress(Box<Progress>),
    /// One interval, complete. Sent once.
    Interval(Box<IntervalFrame>),
    /// Counts of an interval that is not complete, in place of those sent before: all that is known
    /// of it if the shard dies.
    Open(Box<IntervalFrame>),
    /// Requests sent under a rate limit, by [slot](SLOT). Told once for each slot.
    Sends(Sends),
    /// The target asks for a pause, which concerns every shard that it takes for the same client.
    Pause(PauseOrder),
    /// Everything that it had to do is done, all of so many IDs that it was given by
    /// [`Control::Take`]; it waits for more, or for [`Control::Finish`].
    Idle(u64),
    /// The answer to [`Control::Shed`]: these IDs are not the shard's any more; perhaps none.
    Shed(IdRange),
    /// The workload takes no more results, or could not finish them: why, in a sentence for people.
    /// The run is to be stopped.
    Failed(String),
    /// All attempts are over; the workload finishes, which may take long.
    Finishing,
    /// Everything. The last frame.
    Final(Box<ShardOutcome>),
}

/// Message from a supervisor to its shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Start.
    Go {
        /// The common start.
        start: Nanos,
        /// When this shard begins: at the common start, or later in the place of one that died.
        from: Nanos,
    },
    /// Start no more items; what is under way has until this moment.
    Stop(Nanos),
    /// Wait as the target told another shard.
    Pause(PauseOrder),
    /// Give away the upper half of the IDs that are not started.
    Shed,
    /// Crawl these IDs, too.
    Take(IdRange),
    /// Send no request from this time on, unless a later time arrives first.
    Lease(Nanos),
    /// Use this much more of the budget than at the start: shards that had the rest are gone.
    Grow(Growth),
    /// There is nothing more to do.
    Finish,
}

/// Reason why a shard is to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum PauseCause {
    /// A request was refused.
    Refused,
    /// A request was refused, as half of them were: all shards learn the rate from this one on.
    Limited,
    /// The target said that nothing is left, before it had to refuse.
    UsedUp,
}

/// Pause that the target asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PauseOrder {
    /// The number of the host that is the target.
    pub host: u32,
    /// Reason for the pause.
    pub cause: PauseCause,
    /// When the target asked for it.
    pub at: Nanos,
    /// Nothing goes before this moment.
    pub until: Nanos,
    /// The shards resume one after another within so many nanoseconds after it.
    pub spread_ns: u64,
    /// End of the wait that the target asked for: later than `until` if `--max-pause` cut that,
    /// `at` if the target named no time.
    pub promised: Nanos,
}

/// Scope of a rate limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Scope {
    /// All requests of the run.
    Run,
    /// Those to the host of this number.
    Host(u32),
}

/// The length of a slot in which requests are counted as they are sent: a thousandth of the
/// shortest window that is reported. It bounds the memory of a second, at any rate.
pub const SLOT: Duration = Duration::from_micros(10);

/// Requests sent in slots of [`SLOT`] since the common start.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sends {
    /// By limit, the slots in which any were sent, in order: how far each is from the one before it
    /// (the first: from the start), and how many were sent in it.
    pub slots: Vec<(Scope, Vec<(u64, u32)>)>,
    /// The slot before which there will be no more.
    pub complete: u64,
}

/// Limit that holds a shard back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Binding {
    /// The budget: a connection is free and waits for it.
    Rate,
    /// The connections: all of them are in use, and the budget would allow more.
    Concurrency,
    /// A pause that the target asked for.
    Pause,
    /// Limited by what the target sustains, or by its remaining quota: fewer requests in flight, or
    /// a slower pace, than was asked for.
    Target,
    /// The workload, which has no room for more results until it has stored those that it has.
    Storage,
    /// Nothing: there is nothing to do, or only later.
    Idle,
}

counters! {
    /// Time for which each limit held a shard back.
    #[derive(Copy)]
    pub struct BindingTimes {
        /// The budget, ns.
        rate_ns: u64,
        /// The connections, ns.
        concurrency_ns: u64,
        /// A pause, ns.
        pause_ns: u64,
        /// Limited by the target's quota or by adaptation, ns.
        target_ns: u64,
        /// No room for more results, ns.
        storage_ns: u64,
        /// Nothing to do, ns.
        idle_ns: u64,
    }
}

impl BindingTimes {
    /// The time of one limit.
    pub(crate) const fn of_mut(&mut self, binding: Binding) -> &mut u64 {
        match binding {
            Binding::Rate => &mut self.rate_ns,
            Binding::Concurrency => &mut self.concurrency_ns,
            Binding::Pause => &mut self.pause_ns,
            Binding::Target => &mut self.target_ns,
            Binding::Storage => &mut self.storage_ns,
            Binding::Idle => &mut self.idle_ns,
        }
    }

    /// All of it.
    pub fn sum_ns(&self) -> u64 {
        self.iter().map(|(_, ns)| ns).sum()
    }
}

counters! {
    /// Counts of a shard's throttle pauses and retries. Promises and pauses are counted by each
    /// shard that knew of them.
    #[derive(Copy)]
    pub struct ThrottlingCounts {
        /// Throttled answers that said how long to wait.
        promises: u64,
        /// The longest of them, ns.
        longest_promise_ns: u64 [max],
        /// Waits that the target asked for and that were kept: nothing went before they were over.
        honoured: u64,
        /// Waits in which something went.
        violated: u64,
        /// Attempts that went in such waits.
        early_attempts: u64,
        /// Waits that were cut to the longest pause allowed.
        cut_pauses: u64,
        /// Time in which nothing was allowed to go because the target had asked for that, ns.
        paused_ns: u64,
        /// Number of times that good answers came again after throttling.
        recoveries: u64,
        /// From a throttled answer to the shard's first good one after the pause, summed over them,
        /// ns.
        recovery_sum_ns: u64,
        /// The longest of them, ns.
        recovery_max_ns: u64 [max],
        /// Items that were not tried again: the retry budget was empty, or as many waited already
        /// as may.
        retries_denied: u64,
    }
}

/// Progress of a shard.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// Time of these readings.
    pub at: Nanos,
    /// Everything counted so far.
    pub counters: Counters,
    /// Requests under way.
    pub in_flight: u32,
    /// IDs not yet started.
    pub remaining: u64,
    /// IDs that it was given by [`Control::Take`] so far: it has yet to read of others.
    pub received: u64,
    /// The most requests under way at once so far.
    pub peak_in_flight: u32,
    /// Items that wait for another attempt.
    pub waiting_again: u64,
    /// In an open loop, for how long the next request to go has been due, ms: 0 when it is not. 0
    /// in a closed one.
    pub behind_ms: u32,
    /// Times for which each limit has held it back so far.
    pub binding: BindingTimes,
    /// Failures by cause so far.
    pub failures: Failures,
}

impl Progress {
    /// Merge what an earlier process of the shard had reported; the rest is that of the last one.
    pub(crate) fn merge(&mut self, past: &Self) {
        self.counters.merge(&past.counters);
        self.failures.merge(&past.failures);
        self.binding.merge(&past.binding);
        self.peak_in_flight = self.peak_in_flight.max(past.peak_in_flight);
    }

    /// Items that were started.
    pub(crate) const fn started(&self) -> u64 {
        self.counters
            .items
            .dealt()
            .saturating_add(self.in_flight as u64)
            .saturating_add(self.waiting_again)
    }
}

counters! {
    /// Requests scheduled in a second, and their results, whenever they ended.
    #[derive(Copy)]
    pub struct Scheduled {
        /// Requests: attempts, and those of an open loop that never went.
        requests: u64,
        /// Scheduled requests with a good or not-found answer.
        good: u64,
        /// Scheduled requests that failed: rejected, challenged, or without a valid answer. Not
        /// those for which this machine had no port or descriptor.
        failed: u64,
    }
}

impl Scheduled {
    /// Requests of a shard that died, of which only the counters are known.
    pub(crate) fn of(counters: &Counters) -> Self {
        let Counters {
            items, requests, ..
        } = counters;
        let local = ErrorKind::LOCAL.map(|kind| requests.errors_of(kind));
        Self {
            requests: requests.attempts + requests.dropped,
            good: items.ok + items.not_found + requests.steps,
            failed: requests.failed().saturating_sub(local.iter().sum()),
        }
    }

    /// Counts what requests came to.
    pub(crate) fn add(&mut self, alike: &Alike) {
        match alike.ending.outcome {
            Outcome::Ok | Outcome::NotModified | Outcome::NotFound | Outcome::Stepped => {
                self.good += alike.count;
            }
            Outcome::Error(kind) if kind.is_local() => {}
            Outcome::SoftBlocked | Outcome::Rejected | Outcome::Error(_) => {
                self.failed += alike.count;
            }
            Outcome::Throttled | Outcome::Redirected => {}
        }
    }
}

/// Figures of one second of a shard, or of all shards together.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct SecondFigures {
    /// Its index: 0 is the second after the common start.
    pub index: u64,
    /// Requests under way at its end.
    pub in_flight: u32,
    /// CPU used by the client during it, user and system, us.
    pub cpu_us: u64,
    /// Time that the client was ready to run and had no CPU in it, ns; none when the kernel does not
    /// say.
    pub run_delay_ns: Option<u64>,
    /// The client's greatest lateness in it, ns.
    pub max_sched_lag_ns: u64,
    /// The greatest event-loop delay of a shard in it, ns.
    pub max_loop_lag_ns: u64,
    /// Times for which each limit held the client back in it.
    pub binding: BindingTimes,
    /// Limit and pace at its end; none unless adaptive.
    pub controller: Option<ControllerState>,
    /// Parts of the response times of a sample of what was scheduled in it.
    pub split: SplitSums,
    /// Requests scheduled in it.
    pub scheduled: Scheduled,
    /// Its course in steps.
    pub course: SecondCourse,
}

impl SecondFigures {
    /// Add the figures of a shard in the same second.
    pub(crate) fn add(&mut self, shard: &Self) {
        let Self {
            index: _,
            in_flight,
            cpu_us,
            run_delay_ns,
            max_sched_lag_ns,
            max_loop_lag_ns,
            binding,
            controller,
            split,
            scheduled,
            course,
        } = shard;
        self.in_flight += in_flight;
        self.cpu_us += cpu_us;
        self.run_delay_ns = either(self.run_delay_ns, *run_delay_ns, u64::saturating_add);
        self.max_sched_lag_ns = self.max_sched_lag_ns.max(*max_sched_lag_ns);
        self.max_loop_lag_ns = self.max_loop_lag_ns.max(*max_loop_lag_ns);
        self.binding.merge(binding);
        self.controller = match (self.controller, *controller) {
            (Some(all), Some(one)) => Some(all.plus(one)),
            (all, one) => all.or(one),
        };
        self.split.merge(split);
        self.scheduled.merge(scheduled);
        self.course.merge(course);
    }
}

/// One second of a shard on the common clock.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct IntervalFrame {
    /// Its figures.
    pub figures: SecondFigures,
    /// Counts of what ended in it, and of what was due in it and never went; the distributions of
    /// what was intended in it.
    pub stats: EncodedStats,
}

/// Everything that is known of a shard at its end: all of it from the shard itself, or little of one
/// that died.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ShardOutcome {
    /// Its counters and distributions; of a shard that died, the counters of its last report.
    pub stats: EncodedStats,
    /// IDs that it never started: by its own count, and those given to it after its end. Of one
    /// that died, those that it cannot have started, by its last report.
    pub remaining: u64,
    /// IDs that it was given by [`Control::Take`]: what was sent after its end, it never read.
    pub received: u64,
    /// The most requests under way at once.
    pub peak_in_flight: u32,
    /// When its first request was sent; none when none was, and of a shard of which a process
    /// died.
    pub first_sent: Option<Nanos>,
    /// When its last request was sent, the start when there was none; of one that died, when it was
    /// last received.
    pub last_sent: Nanos,
    /// When its last attempt ended, the start when there was none; of one that died, when it was
    /// last received.
    pub last_done: Nanos,
    /// The hardest-used window of each limit that any request was sent under, and whether every
    /// window kept to it.
    pub budgets: Vec<(Scope, BudgetUse)>,
    /// Use of the timetable of an open loop; none in a closed one.
    pub timetable: Option<TimetableUse>,
    /// Longest time that it chose to wait for more responses before it slept; none of one that died.
    pub longest_linger: Option<Duration>,
    /// Counts of what ended in the warm-up.
    pub warmup: Counters,
    /// Counts of readings of connections, without those of the warm-up.
    pub tcp: TcpCounts,
    /// Parts of the response times of a sample, without those of the warm-up.
    pub split: SplitSums,
    /// Connections that were closed.
    pub connections: ConnectionCounts,
    /// The slowest requests, without those of the warm-up.
    pub slowest: Slowest,
    /// Failures by cause.
    pub failures: Failures,
    /// Counts and times by host; none of a crawl of one.
    pub hosts: Groups,
    /// Counts and times by URL template; none of a crawl of one.
    pub templates: Groups,
    /// Counts and times by source address; none without several.
    pub sources: Groups,
    /// Counts and times by stage of the rate.
    pub stages: Groups,
    /// Times by the values of traits.
    pub traits: Traits,
    /// Times for which each limit held it back.
    pub binding: BindingTimes,
    /// Counts of throttle pauses and retries.
    pub throttling: ThrottlingCounts,
    /// Its answers after the warm-up by phase; none of one that died.
    pub phases: Phases,
    /// Resource usage of its process since the start; none of one that died.
    pub usage: Option<Usage>,
    /// Readings of its CPU; none of one that died.
    pub cpu: Option<CpuHealth>,
}

impl ShardOutcome {
    /// The outcome of a shard of which nothing but these are known.
    pub fn new(stats: EncodedStats) -> Self {
        Self {
            stats,
            remaining: 0,
            received: 0,
            peak_in_flight: 0,
            first_sent: None,
            last_sent: Nanos::default(),
            last_done: Nanos::default(),
            budgets: Vec::new(),
            timetable: None,
            longest_linger: None,
            warmup: Counters::default(),
            tcp: TcpCounts::default(),
            split: SplitSums::default(),
            connections: ConnectionCounts::default(),
            slowest: Slowest::default(),
            failures: Failures::default(),
            hosts: Groups::default(),
            templates: Groups::default(),
            sources: Groups::default(),
            stages: Groups::default(),
            traits: Traits::default(),
            binding: BindingTimes::default(),
            throttling: ThrottlingCounts::default(),
            phases: Phases::default(),
            usage: None,
            cpu: None,
        }
    }

    /// Merge the outcome of another shard of the run into this one, except for the distributions,
    /// which are not decoded for each.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.remaining += other.remaining;
        self.peak_in_flight += other.peak_in_flight;
        self.first_sent = either(self.first_sent, other.first_sent, Nanos::min);
        self.last_sent = self.last_sent.max(other.last_sent);
        self.last_done = self.last_done.max(other.last_done);
        for (scope, used) in &other.budgets {
            match self.budgets.iter_mut().find(|(known, _)| known == scope) {
                Some((_, known)) => *known = known.harder(*used),
                None => self.budgets.push((*scope, *used)),
            }
        }
        self.timetable = either(self.timetable, other.timetable, TimetableUse::plus);
        self.longest_linger = self.longest_linger.max(other.longest_linger);
        self.warmup.merge(&other.warmup);
        self.tcp.merge(&other.tcp);
        self.split.merge(&other.split);
        self.connections.merge(&other.connections);
        self.slowest.merge(&other.slowest);
        self.failures.merge(&other.failures);
        self.hosts.merge(&other.hosts);
        self.templates.merge(&other.templates);
        self.sources.merge(&other.sources);
        self.stages.merge(&other.stages);
        self.traits.merge(&other.traits);
        self.binding.merge(&other.binding);
        self.throttling.merge(&other.throttling);
        self.phases.merge(&other.phases);
        self.usage = either(self.usage, other.usage, Usage::plus);
        self.cpu = either(self.cpu, other.cpu, CpuHealth::plus);
    }

    /// Move all moments to another clock.
    pub(crate) fn shift(&mut self, clock: impl Fn(Nanos) -> Nanos) {
        self.failures.shift(&clock);
        self.slowest.shift(&clock);
        self.first_sent = self.first_sent.map(&clock);
        self.last_sent = clock(self.last_sent);
        self.last_done = clock(self.last_done);
    }
}

/// Both, merged; or the one that there is.
fn either<T>(one: Option<T>, other: Option<T>, merge: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(merge(one, other)),
        (one, other) => one.or(other),
    }
}

/// Use of an open loop's timetable by a shard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TimetableUse {
    /// Requests that the timetable held until the end, whether they went, were dropped or
    /// postponed; as the timetable counts them.
    pub scheduled: u64,
    /// Scheduled requests that throttle pauses moved past the end, so that they never went.
    pub postponed: u64,
    /// The limit that dropped requests waited for; none when none was dropped.
    pub dropped_by: Option<Binding>,
    /// Total delay of the schedule by throttle pauses, ns.
    pub shifted_ns: u64,
}

impl TimetableUse {
    fn plus(self, other: Self) -> Self {
        Self {
            scheduled: self.scheduled + other.scheduled,
            postponed: self.postponed + other.postponed,
            dropped_by: self.dropped_by.or(other.dropped_by),
            shifted_ns: self.shifted_ns.max(other.shifted_ns),
        }
    }
}

/// Use of a budget by a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetUse {
    /// The window with the greatest excess.
    pub worst: WorstWindow,
    /// True if no window of any width exceeded its allowance.
    pub kept: bool,
}

impl BudgetUse {
    /// Return the use that was closer to its limit, kept if both were.
    fn harder(self, other: Self) -> Self {
        let [own, others] =
            [self, other].map(|it| it.worst.admitted as f64 / it.worst.allowed.max(1) as f64);
        let harder = if others > own { other } else { self };
        Self {
            kept: self.kept && other.kept,
            ..harder
        }
    }
}

/// Resource usage of a process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// User CPU, us.
    pub cpu_user_us: u64,
    /// System CPU, us.
    pub cpu_system_us: u64,
    /// Largest resident set, bytes.
    pub max_rss_bytes: u64,
    /// Time spent runnable without a CPU, ns; none when the kernel does not say.
    pub run_delay_ns: Option<u64>,
}

impl Usage {
    /// Return the usage since `earlier`. The largest resident set is that of the whole life.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            cpu_user_us: self.cpu_user_us.saturating_sub(earlier.cpu_user_us),
            cpu_system_us: self.cpu_system_us.saturating_sub(earlier.cpu_system_us),
            max_rss_bytes: self.max_rss_bytes,
            run_delay_ns: self
                .run_delay_ns
                .zip(earlier.run_delay_ns)
                .map(|(now, then)| now.saturating_sub(then)),
        }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            cpu_user_us: self.cpu_user_us + other.cpu_user_us,
            cpu_system_us: self.cpu_system_us + other.cpu_system_us,
            max_rss_bytes: self.max_rss_bytes.max(other.max_rss_bytes),
            run_delay_ns: either(self.run_delay_ns, other.run_delay_ns, u64::saturating_add),
        }
    }

    /// User and system CPU, us.
    pub const fn cpu_us(&self) -> u64 {
        self.cpu_user_us + self.cpu_system_us
    }
}

/// Readings of a shard's CPU while it measured: of its own one, or of all of them when it was not
/// kept on one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CpuHealth {
    /// From the start to its end, over which everything here and in its [`Usage`] was read, ns.
    pub measured_ns: u64,
    /// The CPU's time in that; none when the kernel does not say.
    pub ticks: Option<CpuTicks>,
    /// A fixed piece of work before the start, ns of CPU time; none when the kernel does not say,
    /// or when another shard on the same CPU probes it.
    pub speed_before_ns: Option<u64>,
    /// CPU time of the same piece of work after the end, ns.
    pub speed_after_ns: Option<u64>,
}

impl CpuHealth {
    /// Of pieces of work on different CPUs, no sum says anything.
    fn plus(self, other: Self) -> Self {
        Self {
            measured_ns: self.measured_ns + other.measured_ns,
            ticks: either(self.ticks, other.ticks, CpuTicks::plus),
            speed_before_ns: None,
            speed_after_ns: None,
        }
    }
}
