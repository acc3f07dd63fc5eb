//! The engine of one shard: as many lanes as it has connections, each performing one item after
//! another.
//!
//! Generic over the [`Workload`]; knows the gate and the counts, not the pipes. Runs on tokio's
//! clock, so that it runs in virtual time as well.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::alarm::Alarm;
use super::gate::{Closed, Dropped, Gate};
use super::intervals::Intervals;
use super::lanes::Lanes;
use super::supply::Again;
use crate::clock::{Clock, Nanos};
use crate::plan::{RequestObjective, ShardPlan};
use crate::sample::{Attempt, ErrorKind, Fate, Outcome, Permit, Sample, TcpReading};
use crate::stats::{
    Bounds, ConnectionCounts, Counters, Failures, GroupTimes, Groups, Noted, Nth, Series,
    SeriesSet, ShardStats, Slowest, SplitSums, TcpCounts, TraitCounter, TraitSample, Unfinished,
};
use crate::trace::Traces;
use crate::wire::{CpuHealth, EncodedStats, Frame, Progress, ShardOutcome, Usage, WireError};
use crate::workload::{Asides, Clearance, Flight, Opened, Workload};

/// One shard's engine.
pub(super) struct Engine<W> {
    workload: Rc<W>,
    clock: Clock,
    gate: Gate,
    statistics: RefCell<Statistics>,
    /// Per lane, the attempt under way.
    under_way: Vec<Cell<Option<UnderWay>>>,
    /// Per lane, how far that is.
    flights: Vec<Flight>,
    /// The times that its users wait.
    waited: Series,
    /// True if requests are counted by host, template, source address or stage as well.
    has_groups: bool,
    objectives: Vec<RequestObjective>,
    /// When the shard begins.
    begins: Cell<Nanos>,
    /// When the shard's loop is to look up next; never before its [loop-delay
    /// probe](super::loop_delay) began.
    next_beat: Cell<Nanos>,
}

/// Interval between two beats of the shard's loop, by which its event-loop delay is measured.
const BEAT: Duration = Duration::from_millis(10);

/// Sentinel: never.
const NEVER: Nanos = Nanos(u64::MAX);

/// An attempt under way.
#[derive(Debug, Clone, Copy)]
struct UnderWay {
    /// The interval in which it counts.
    interval: u64,
    permit: Permit,
    /// True if it has opened a connection.
    has_opened: bool,
    /// True if that has TLS.
    has_tls: bool,
}

/// Permission of the request of a lane to be written.
struct LaneClearance<'a, W> {
    engine: &'a Engine<W>,
    lane: usize,
    host: u32,
}

impl<W: Workload> Clearance for LaneClearance<'_, W> {
    #[inline]
    fn at_once(&self) -> Option<Nanos> {
        self.engine.book_connection(self.lane);
        self.engine.gate.clear_at_once(self.lane)
    }

    async fn wait(&self) -> Option<Nanos> {
        self.engine.book_connection(self.lane);
        self.engine.gate.clear_to_send(self.lane, self.host).await
    }
}

/// When each stage of the rate but the first begins.
fn stage_begins(plan: &ShardPlan, start: Nanos) -> Vec<Nanos> {
    let stages = plan.shape.stages();
    stages
        .iter()
        .filter_map(|stage| stage.length_ns)
        .scan(start.0, |at, length| {
            *at = at.saturating_add(length);
            Some(Nanos(*at))
        })
        .take(stages.len().saturating_sub(1))
        .collect()
}

/// The stage of a request that was due at `intended`, from 0.
fn stage_at(begins: &[Nanos], intended: Nanos) -> u32 {
    u32::try_from(begins.partition_point(|begin| *begin <= intended)).unwrap_or(u32::MAX)
}

#[derive(Debug)]
struct Statistics {
    stats: ShardStats,
    /// The distributions that the loop has.
    kept: &'static [Series],
    /// Set of them, for the hot path.
    kept_set: SeriesSet,
    /// Times that are not among those yet.
    noted: Noted,
    /// End of the warm-up: what is scheduled before it is counted and not timed.
    measured_from: Nanos,
    tcp: TcpCounts,
    split: SplitSums,
    connections: ConnectionCounts,
    slowest: Slowest,
    /// Of a run whose target is asked to record some.
    traces: Option<Traces>,
    failures: Failures,
    hosts: Groups,
    templates: Groups,
    sources: Groups,
    stages: Groups,
    /// Begin of each stage of the rate but the first.
    stage_begins: Vec<Nanos>,
    traits: TraitCounter,
    intervals: Intervals,
    /// [`NEVER`] before the first.
    first_sent: Nanos,
    last_sent: Nanos,
    last_done: Nanos,
}

impl<W: Workload> Engine<W> {
    /// An engine for `plan` that starts at `start`.
    pub(super) fn new(workload: W, plan: &ShardPlan, clock: Clock, start: Nanos) -> Rc<Self> {
        let bounds = Bounds::for_timeout(plan.timeout);
        let lanes = plan.lanes();
        let [kept, per_interval] = Series::of(plan.arrivals);
        let statistics = Statistics {
            stats: ShardStats::with_series(bounds, kept),
            kept,
            kept_set: SeriesSet::of(kept),
            noted: Noted::new(bounds),
            measured_from: start.plus(plan.warmup),
            tcp: TcpCounts::default(),
            split: SplitSums::default(),
            connections: ConnectionCounts::default(),
            slowest: Slowest::default(),
            traces: workload.traces().filter(Traces::are_recorded),
            failures: Failures::default(),
            hosts: Groups::new(plan.per_host.hosts),
            templates: Groups::new(workload.templates()),
            sources: Groups::new(workload.sources()),
            stages: Groups::new(u32::try_from(plan.shape.stages().len()).unwrap_or(u32::MAX)),
            stage_begins: stage_begins(plan, start),
            traits: TraitCounter::new(workload.trait_headers().len(), clock.epoch_ns()),
            intervals: Intervals::new(start, start.plus(plan.warmup), bounds, per_interval),
            first_sent: NEVER,
            last_sent: start,
            last_done: start,
        };
        let groups = [
            &statistics.hosts,
            &statistics.templates,
            &statistics.sources,
            &statistics.stages,
        ];
        let has_groups = groups.iter().any(|groups| !groups.as_slice().is_empty());
        let workload = Rc::new(workload);
        let hosts = Rc::clone(&workload);
        let engine = Self {
            workload,
            clock,
            gate: Gate::new(clock, plan, start, Box::new(move |id| hosts.host(id))),
            statistics: RefCell::new(statistics),
            under_way: (0..lanes).map(|_| Cell::new(None)).collect(),
            flights: (0..lanes).map(|_| Flight::default()).collect(),
            waited: Series::waited(plan.arrivals),
            has_groups,
            objectives: plan.objectives.clone(),
            begins: Cell::new(start),
            next_beat: Cell::new(NEVER),
        };
        if engine.workload.forbids_some() {
            let workload = Rc::clone(&engine.workload);
            engine
                .gate
                .skip_unless(Box::new(move |id| workload.may_request(id)));
        }
        Rc::new(engine)
    }

    /// Begins at `from`, after the common start, in the place of a shard that died. Call before
    /// [`Engine::run`].
    pub(super) fn begin_late(&self, from: Nanos) {
        self.begins.set(from);
        self.statistics.borrow_mut().intervals.begin_late(from);
        self.gate.limits().begin_late(from);
    }

    /// Paced by `alarm`, performs items until the engine is closed and what was under way has
    /// ended. Dropping the future drops what is under way; [`Engine::abort_rest`] then counts it.
    pub(super) async fn run(self: Rc<Self>, mut alarm: Alarm) {
        let mut tasks = JoinSet::new();
        let lanes = (0..self.under_way.len()).map(|lane| Rc::clone(&self).lane(lane));
        // Without tokio's budget, which is meant for one connection: each limits its own turn.
        tasks.spawn_local(tokio::task::unconstrained(Lanes::new(lanes)));
        // A task of its own: what else the shard watches need not be looked at each time that the
        // alarm rings.
        tasks.spawn_local(async move { self.gate.keep(&mut alarm).await });
        while let Some(ended) = tasks.join_next().await {
            // tokio catches a task's panic; where panics unwind, a lane that vanished would look
            // like one that is done.
            if let Err(error) = ended
                && let Ok(panic) = error.try_into_panic()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }

    async fn lane(self: Rc<Self>, lane: usize) {
        let mut free = self.clock.now();
        let flight = &self.flights[lane];
        while let Some(permit) = self.gate.admit(lane, free).await {
            self.count_skipped();
            // Filled in place, for it is larger than all else that moves with a request.
            let mut sample = Sample {
                attempt: Attempt::unsent(ErrorKind::Io, permit.admitted),
                permit,
                fate: Fate::Ended,
            };
            let interval = self.begin(lane, &sample.permit);
            let clearance = LaneClearance {
                engine: &self,
                lane,
                host: sample.permit.host,
            };
            let (id, attempt) = (sample.permit.id, &mut sample.attempt);
            let performed = self.workload.perform(id, flight, &clearance, attempt);
            if performed.await.is_none() {
                self.close(self.clock.now());
                return self.take_back(lane, None);
            }
            free = sample.attempt.done;
            if free >= self.next_beat.get().plus(BEAT) {
                // The client did not run for a while, which is to be known before what waited in
                // the meantime goes.
                self.beat(free);
            }
            sample.fate = self.gate.settle(lane, &mut sample.permit, &sample.attempt);
            self.finish(lane, interval, &sample);
            self.workload.booked(&sample);
            if self.is_hopeless(&sample.attempt) {
                self.close(sample.attempt.done);
            }
            if !self.workload.has_room() {
                self.gate.fill();
            }
            if sample.attempt.sent.is_none() {
                // Without a descriptor or a port it may have failed without a wait, and so may all
                // that follow: what else the thread has to do, such as saying that it lives, comes
                // first.
                tokio::task::yield_now().await;
            }
        }
    }

    /// True if no request was ever sent, and what this attempt failed of, such as a certificate or
    /// a login, would fail all others.
    fn is_hopeless(&self, attempt: &Attempt) -> bool {
        let Attempt {
            sent: None,
            outcome: Outcome::Error(kind),
            ..
        } = attempt
        else {
            return false;
        };
        kind.is_lasting()
            && self.workload.has_one_route()
            && self.statistics.borrow().first_sent == NEVER
    }

    /// Has the gate admit again whenever the workload has room again. Returns why the workload
    /// takes no more results, if it says so.
    pub(super) async fn watch_workload(&self) -> String {
        let mut failed = pin!(self.workload.failed());
        loop {
            tokio::select! {
                biased;
                why = &mut failed => return why,
                () = self.gate.filled() => {}
                () = self.gate.skipped() => {
                    self.count_skipped();
                    continue;
                }
            }
            tokio::select! {
                biased;
                why = &mut failed => return why,
                () = self.workload.room() => self.gate.empty(),
            }
        }
    }

    /// Lets the workload finish, and tells the supervisor if it could not.
    pub(super) async fn finish_workload(&self) {
        if let Err(why) = self.workload.finish().await {
            self.gate.messages.send(Frame::Failed(why));
        }
    }

    /// Count the start of an attempt, and return the interval in which it counts.
    fn begin(&self, lane: usize, permit: &Permit) -> u64 {
        self.flights[lane].begin(permit.attempt);
        let mut statistics = self.statistics.borrow_mut();
        let interval = statistics.intervals.begin(permit.intended, permit.admitted);
        drop(statistics);
        self.under_way[lane].set(Some(UnderWay {
            interval,
            permit: *permit,
            has_opened: false,
            has_tls: false,
        }));
        interval
    }

    /// Count the connections that the attempt under way has closed for unsolicited bytes, how often
    /// it was sent once more, and the connection that it has opened.
    #[inline]
    fn book_connection(&self, lane: usize) {
        if self.flights[lane].has_notes() {
            self.book_notes(lane);
        }
    }

    fn book_notes(&self, lane: usize) {
        self.statistics
            .borrow_mut()
            .note(self.clock.now(), &self.flights[lane]);
        let Some((opened, under_way)) = self.flights[lane]
            .take_opened()
            .zip(self.under_way[lane].get())
        else {
            return;
        };
        self.under_way[lane].set(Some(UnderWay {
            has_opened: true,
            has_tls: opened.handshake.is_some(),
            ..under_way
        }));
        self.statistics.borrow_mut().open_connection(
            under_way.permit.intended,
            self.clock.now(),
            &opened,
        );
    }

    fn finish(&self, lane: usize, interval: u64, sample: &Sample) {
        self.book_connection(lane);
        let flight = &self.flights[lane];
        let statistics = &mut *self.statistics.borrow_mut();
        let is_met = !self.objectives.is_empty() && sample.meets(&self.objectives);
        statistics.record(sample, interval, is_met);
        let reading = if flight.has_notes() {
            statistics.record_notes(sample, interval, flight)
        } else {
            None
        };
        let is_measured = sample.permit.intended >= statistics.measured_from;
        if is_measured && statistics.slowest.takes(sample.response_ns()) {
            let id = self.workload.known_as(sample.permit.id);
            let traces = statistics.traces;
            let is_recorded = traces.map(|it| it.request(id, sample.permit.attempt).is_recorded);
            let (nth, reading) = (flight.nth(), reading.as_ref());
            statistics
                .slowest
                .record(sample, id, is_recorded, nth, reading);
        }
        if !sample.attempt.outcome.is_answer() {
            let details = flight.take_explanation();
            statistics.failures.record(&sample.attempt, details, || {
                self.workload.excerpt(sample.permit.id)
            });
        }
        let is_answer = sample.attempt.outcome.is_answer();
        let took = is_answer.then(|| self.group_times(sample));
        let timed = took.filter(|_| is_measured);
        if let Some(GroupTimes { waited_ns, .. }) = timed
            && let us = waited_ns / 1_000
            && let weight = statistics.traits.weight(us)
            && (weight > 0 || reading.is_some())
        {
            let counted = TraitSample {
                us,
                intended: sample.permit.intended,
                nth: Nth::of(flight.nth(), || {
                    self.under_way[lane].get().is_some_and(|it| it.has_tls)
                }),
                status: sample.attempt.status,
                response: flight.traits(),
                reading: reading.as_ref(),
            };
            statistics.traits.record(&counted, weight);
        }
        self.under_way[lane].set(None);
        if self.has_groups {
            let (id, attempt) = (sample.permit.id, &sample.attempt);
            let Statistics {
                hosts,
                templates,
                sources,
                stages,
                stage_begins,
                ..
            } = statistics;
            hosts.record(attempt, is_met, timed, || sample.permit.host);
            templates.record(attempt, is_met, timed, || self.workload.template(id));
            sources.record(attempt, is_met, timed, || flight.source());
            stages.record(attempt, is_met, took, || {
                stage_at(stage_begins, sample.permit.intended)
            });
        }
        if sample.fate == Fate::Again && self.gate.is_closed() {
            statistics.leave_item(sample.permit.first_intended, sample.attempt.done);
        }
    }

    /// Return the times of an attempt by which its groups are timed.
    #[inline]
    fn group_times(&self, sample: &Sample) -> GroupTimes {
        let service_ns = sample.service_ns();
        let is_open = self.waited == Series::ResponseOk;
        GroupTimes {
            waited_ns: if is_open {
                sample.response_ns()
            } else {
                service_ns
            },
            service_ns: is_open.then_some(service_ns),
        }
    }

    /// From now on the shard's loop is to look up, every 10 ms from its begin on.
    pub(super) fn begin_beats(&self) {
        self.next_beat.set(self.begins.get().plus(BEAT));
    }

    /// Counts how late the shard's loop looks up at `now`, for each time that it was to, and
    /// returns when it is to do so next.
    ///
    /// The times are fixed from the start on, and one that was missed counts as late as it was:
    /// half a second in which the process did not run is fifty looks, from half a second late to
    /// not at all. The gate is told of the time between.
    pub(super) fn beat(&self, now: Nanos) -> Nanos {
        let mut due = self.next_beat.get();
        if now >= due.plus(BEAT) {
            self.gate.limits().stalled(due, now);
        }
        let mut statistics = self.statistics.borrow_mut();
        // Nothing waits for a shard that is done: its looks are late for nothing.
        let is_done = statistics.intervals.in_flight == 0
            && self.gate.remaining() == 0
            && self.gate.limits().waiting_again() == 0;
        let needed_until = if is_done { statistics.last_done } else { now };
        while due <= now {
            let late_ns = needed_until.max(due).since(due);
            statistics.stats.record_one(Series::LoopLag, late_ns);
            let longest_ns = &mut statistics.intervals.max_loop_lag_ns;
            *longest_ns = late_ns.max(*longest_ns);
            due = due.plus(BEAT);
        }
        self.next_beat.set(due);
        due
    }

    /// Counts how late the shard's loop looks up for the last time, at `now`: a stall that lasted
    /// to the end counts.
    pub(super) fn end_beats(&self, now: Nanos) {
        self.beat(now);
        self.next_beat.set(NEVER);
    }

    /// The clock that it runs on.
    pub(super) const fn clock(&self) -> Clock {
        self.clock
    }

    /// Starts nothing more; nothing was to start from `end` on. An item that would have been tried
    /// again stays unfinished, and a request of an open loop that was due is dropped.
    pub(super) fn close(&self, end: Nanos) {
        let Closed { given_up, dropped } = self.gate.close(end);
        self.count_dropped();
        self.count_skipped();
        let mut statistics = self.statistics.borrow_mut();
        let now = self.clock.now();
        // The items that were to be tried again were due first.
        let again = given_up.len();
        for Again { first_intended, .. } in given_up {
            statistics.leave_item(first_intended, now);
        }
        for (n, Dropped { intended, admitted }) in dropped.into_iter().enumerate() {
            let first_intended = (n >= again).then_some(intended);
            statistics.drop_request(first_intended, Dropped { intended, admitted }, end);
        }
    }

    /// Count the items that were skipped because they may not be requested.
    #[inline]
    fn count_skipped(&self) {
        if self.workload.forbids_some() {
            self.count_some_skipped();
        }
    }

    fn count_some_skipped(&self) {
        let skipped = self.gate.take_skipped();
        if !skipped.is_empty() {
            let (mut statistics, now) = (self.statistics.borrow_mut(), self.clock.now());
            statistics.stats.counters.items.skipped += skipped.len() as u64;
            statistics.intervals.counters_at(now).items.skipped += skipped.len() as u64;
        }
        for id in skipped {
            self.workload.skipped(id);
        }
        if !self.workload.has_room() {
            self.gate.fill();
        }
    }

    /// Counts the requests that were dropped because the queue was full, or they were too old.
    fn count_dropped(&self) {
        let dropped = std::mem::take(&mut self.gate.limits().dropped);
        for (intended, at) in dropped {
            let dropped = Dropped {
                intended,
                admitted: None,
            };
            self.statistics.borrow_mut().drop_request(None, dropped, at);
        }
    }

    /// In an open loop, when the oldest request was scheduled that has yet to go; the end of time
    /// when there is none, and in a closed one.
    pub(super) fn yet_to_go(&self, now: Nanos) -> Nanos {
        let yet_to_go = self.gate.yet_to_go(now);
        self.count_dropped();
        yet_to_go
    }

    /// Takes back what the closed gate had let through on a lane and did not send, as if it had not
    /// begun; `unbegun` is the permit of an attempt that has not.
    fn take_back(&self, lane: usize, unbegun: Option<Permit>) {
        self.book_connection(lane);
        let under_way = self.under_way[lane].take();
        let Some(permit) = under_way.map(|it| it.permit).or(unbegun) else {
            return;
        };
        let (now, is_retry) = (self.clock.now(), permit.attempt > 0);
        let is_dropped = self.gate.take_back(&permit, now);
        let mut statistics = self.statistics.borrow_mut();
        if let Some(under_way) = under_way {
            statistics.intervals.withdraw(under_way.interval);
            statistics.stats.counters.requests.connections_unused +=
                u64::from(under_way.has_opened);
        }
        if is_retry {
            statistics.leave_item(permit.first_intended, now);
        }
        if is_dropped {
            let first_intended = (!is_retry).then_some(permit.first_intended);
            let dropped = Dropped {
                intended: permit.intended,
                admitted: None,
            };
            statistics.drop_request(first_intended, dropped, now);
        }
    }

    /// The gate, for what comes from the supervisor.
    pub(super) const fn gate(&self) -> &Gate {
        &self.gate
    }

    /// Counts everything still under way as aborted. Call after the future of [`Engine::run`] was
    /// dropped.
    pub(super) fn abort_rest(&self) {
        // Those that have not begun were let through when the grace was over already: the shard did
        // not run until then.
        for (lane, unbegun) in self.gate.take_waiting() {
            self.take_back(lane, unbegun);
        }
        let mut statistics = self.statistics.borrow_mut();
        let now = self.clock.now();
        for (under_way, flight) in self.under_way.iter().zip(&self.flights) {
            let Some(UnderWay {
                interval, permit, ..
            }) = under_way.take()
            else {
                continue;
            };
            let Permit {
                attempt, intended, ..
            } = permit;
            statistics.note(now, flight);
            if let Some(opened) = flight.take_opened() {
                statistics.open_connection(intended, now, &opened);
            }
            let in_flight = flight.take();
            let sent = in_flight.map(|in_flight| in_flight.sent);
            statistics.record_events(flight, intended, sent, Some(now));
            let rest = Unfinished {
                now,
                is_dropped: false,
                first_intended: Some(permit.first_intended),
                intended: Some(intended),
                admitted: Some(permit.admitted),
                limited: None,
                opening: flight.take_opening(),
                in_flight,
            };
            statistics.stats.counters.abort(attempt, in_flight);
            statistics.hosts.abort(|| permit.host);
            statistics
                .templates
                .abort(|| self.workload.template(permit.id));
            statistics.sources.abort(|| flight.source());
            let stage = stage_at(&statistics.stage_begins, intended);
            statistics.stages.abort(|| stage);
            statistics.cut_off(intended, &rest);
            statistics.intervals.abort(interval, attempt, &rest);
            statistics.note_sent(in_flight.map(|in_flight| in_flight.sent));
            statistics.last_done = statistics.last_done.max(now);
        }
    }

    /// Return the progress of the shard.
    pub(super) fn progress(&self) -> Progress {
        self.count_skipped();
        let (mut statistics, now) = (self.statistics.borrow_mut(), self.clock.now());
        let (remaining, behind_ms) = (self.gate.remaining(), self.gate.behind_ms(now));
        let limits = self.gate.limits();
        Progress {
            at: now,
            counters: statistics.counters().clone(),
            in_flight: statistics.intervals.in_flight,
            peak_in_flight: self.gate.peak_in_flight(),
            remaining,
            received: limits.received(),
            waiting_again: limits.waiting_again(),
            behind_ms,
            binding: limits.timeline.times(now),
            failures: statistics.failures.clone(),
        }
    }

    /// Looks at or changes the intervals.
    pub(super) fn intervals<T>(&self, look: impl FnOnce(&mut Intervals) -> T) -> T {
        look(&mut self.statistics.borrow_mut().intervals)
    }

    /// Everything that is known at the end, with what its process used until `ended`.
    ///
    /// # Errors
    /// When a distribution cannot be encoded, which a run's bounds rule out.
    pub(super) fn outcome(
        &self,
        ended: Nanos,
        usage: Usage,
        cpu: CpuHealth,
    ) -> Result<ShardOutcome, WireError> {
        let remaining = self.progress().remaining;
        let mut statistics = self.statistics.borrow_mut();
        let stats = EncodedStats::of(statistics.stats())?;
        let mut limits = self.gate.limits();
        let mut hosts = statistics.hosts.clone();
        hosts.add_limits(&limits.host_times(ended));
        Ok(ShardOutcome {
            stats,
            remaining,
            received: limits.received(),
            peak_in_flight: self.gate.peak_in_flight(),
            first_sent: Some(statistics.first_sent).filter(|sent| *sent != NEVER),
            last_sent: statistics.last_sent,
            last_done: statistics.last_done,
            budgets: limits.budget_uses(),
            timetable: limits.timetable_use(),
            longest_linger: None,
            warmup: statistics.intervals.warmup.clone(),
            tcp: statistics.tcp,
            split: statistics.split,
            connections: statistics.connections.clone(),
            slowest: statistics.slowest.clone(),
            failures: statistics.failures.clone(),
            hosts,
            templates: statistics.templates.clone(),
            sources: statistics.sources.clone(),
            stages: statistics.stages.clone(),
            traits: statistics
                .traits
                .named(self.workload.trait_headers(), |header, number| {
                    self.workload.trait_value(header, number)
                }),
            binding: limits.timeline.times(ended),
            throttling: limits.throttling(ended),
            phases: statistics.intervals.phases.clone(),
            usage: Some(usage),
            cpu: Some(cpu),
        })
    }

    #[cfg(test)]
    pub(super) fn totals<T>(&self, look: impl FnOnce(&ShardStats, u32, Nanos) -> T) -> T {
        let mut statistics = self.statistics.borrow_mut();
        let last_done = statistics.last_done;
        look(statistics.stats(), self.gate.peak_in_flight(), last_done)
    }
}

impl Statistics {
    /// Record an attempt that ended and counts in this interval.
    #[inline]
    fn record(&mut self, sample: &Sample, interval: u64, is_met: bool) {
        let Attempt { sent, done, .. } = sample.attempt;
        // Of most attempts, all times follow from one.
        let read_at_once = sample.read_at_once_ns();
        if sample.permit.intended >= self.measured_from {
            self.stats.record_held(sample);
            match read_at_once {
                Some(ns) => {
                    let noted = &mut self.noted;
                    self.stats.note(sample, ns, self.kept_set, noted);
                }
                None => self.stats.record_times(sample, self.kept_set),
            }
        }
        self.intervals
            .finish(interval, sample, read_at_once, is_met);
        self.note_sent(sent);
        self.last_done = self.last_done.max(done);
    }

    fn note_sent(&mut self, sent: Option<Nanos>) {
        self.first_sent = self.first_sent.min(sent.unwrap_or(NEVER));
        self.last_sent = self.last_sent.max(sent.unwrap_or_default());
    }

    /// Record what an attempt that ended noted of its connection, and return the reading of that.
    fn record_notes(
        &mut self,
        sample: &Sample,
        interval: u64,
        flight: &Flight,
    ) -> Option<TcpReading> {
        let (reading, receive_delay_ns) = (flight.take_reading(), flight.take_receive_delay());
        let Permit { intended, .. } = sample.permit;
        if intended >= self.measured_from {
            if let Some(ns) = receive_delay_ns {
                self.stats.record_one(Series::ReceiveDelay, ns);
            }
            if let Some(reading) = &reading {
                self.read_connection(sample, reading, flight.nth(), receive_delay_ns, interval);
            }
        }
        let Attempt {
            sent,
            done,
            outcome,
            ..
        } = sample.attempt;
        let is_cut_off = matches!(outcome, Outcome::Error(kind) if kind.is_censored());
        self.record_events(flight, intended, sent, is_cut_off.then_some(done));
        if let Some(opening) = flight.take_opening()
            && sample.attempt.outcome == Outcome::Error(ErrorKind::ConnectTimeout)
        {
            let rest = Unfinished {
                now: sample.attempt.done,
                opening: Some(opening),
                ..Unfinished::default()
            };
            self.cut_off(intended, &rest);
        }
        reading
    }

    /// Record the events of the answer to a request that was due at `intended` and sent at `sent`.
    fn record_events(
        &mut self,
        flight: &Flight,
        intended: Nanos,
        sent: Option<Nanos>,
        cut_off_at: Option<Nanos>,
    ) {
        let is_measured = intended >= self.measured_from;
        flight.take_events(|events| {
            if let Some(sent) = sent.filter(|_| is_measured) {
                self.stats.record_events(events, sent, cut_off_at);
            }
        });
    }

    /// Counters of everything so far.
    fn counters(&mut self) -> &Counters {
        self.stats.counters.merge(&self.intervals.take_ended());
        &self.stats.counters
    }

    /// Counters and distributions of everything so far.
    fn stats(&mut self) -> &ShardStats {
        self.counters();
        let nothing = Noted::new(self.stats.bounds());
        let noted = std::mem::replace(&mut self.noted, nothing);
        self.stats.add_noted(&noted);
        &self.stats
    }

    fn open_connection(&mut self, intended: Nanos, now: Nanos, opened: &Opened) {
        let kept = if intended < self.measured_from {
            &[]
        } else {
            self.kept
        };
        self.stats.open_connection(opened, kept);
        self.connections.open(opened);
        self.intervals.counters_at(now).open_connection(opened);
    }

    /// Count what an attempt noted beside its connection.
    fn note(&mut self, now: Nanos, flight: &Flight) {
        let asides = flight.take_asides();
        if asides != Asides::default() {
            self.stats.counters.add_asides(asides);
            self.intervals.counters_at(now).add_asides(asides);
            self.connections.opened_after_retransmit += asides.opened_after_retransmit;
        }
        for closed in flight.take_closed() {
            self.connections.record(closed);
        }
    }

    /// Record what the kernel says of the connection of an attempt that ended: the `nth` of that,
    /// whose answer lay unread for `receive_delay_ns`, and which counts in `interval`.
    fn read_connection(
        &mut self,
        sample: &Sample,
        reading: &TcpReading,
        nth: Option<u64>,
        receive_delay_ns: Option<u64>,
        interval: u64,
    ) {
        self.tcp.record(sample, reading, nth);
        if !sample.attempt.outcome.is_answer() {
            return;
        }
        if reading.retransmits > 0 {
            let waited = Series::ServiceRetransmitted;
            self.stats.record_one(waited, sample.service_ns());
        }
        if let Some(network_ns) = reading.network_ns.filter(|_| reading.is_sampled) {
            self.stats.record_one(Series::Network, network_ns);
            let split = SplitSums::of(sample, network_ns, receive_delay_ns);
            self.split.merge(&split);
            self.intervals.add_split(interval, &split);
        }
    }

    /// Counts an item that is to be tried again, and will not be, at the age that it has reached by
    /// `now`.
    fn leave_item(&mut self, first_intended: Nanos, now: Nanos) {
        self.stats.counters.items.unfinished += 1;
        self.cut_off(
            first_intended,
            &Unfinished {
                now,
                first_intended: Some(first_intended),
                ..Unfinished::default()
            },
        );
    }

    /// Counts a request of an open loop that was due and had not gone at `now`, and its item if it
    /// has a `first_intended`.
    fn drop_request(&mut self, first_intended: Option<Nanos>, dropped: Dropped, now: Nanos) {
        let Dropped { intended, admitted } = dropped;
        let rest = Unfinished {
            now,
            is_dropped: true,
            first_intended,
            intended: Some(intended),
            admitted,
            limited: admitted.is_none().then_some(intended),
            ..Unfinished::default()
        };
        self.stats.counters.requests.dropped += 1;
        if intended >= self.measured_from {
            let age_ns = now.since(intended);
            self.stats.record_one(Series::DropAge, age_ns);
        }
        let stage = stage_at(&self.stage_begins, intended);
        self.stages.drop_request(|| stage);
        self.cut_off(intended, &rest);
        self.intervals.drop_request(intended, &rest);
    }

    fn cut_off(&mut self, intended: Nanos, rest: &Unfinished) {
        if intended >= self.measured_from {
            self.stats.cut_off(self.kept, rest);
        }
    }
}

#[cfg(test)]
mod tests;
