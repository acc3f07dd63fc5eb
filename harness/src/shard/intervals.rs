//! A shard's series of seconds: times by the second in which a request was scheduled, counts by the
//! second in which it ended.
//!
//! An interval stays open while an attempt that was scheduled in it is under way, or in an open
//! loop has yet to go, and is then handed over exactly once. Mostly only a handful are open: one
//! per second that an attempt still under way was scheduled in. Those that only wait for what has
//! yet to go have no times yet, and take little memory.

use std::collections::VecDeque;
use std::time::Duration;

use crate::adaptive::ControllerState;
use crate::clock::{Nanos, duration_ns};
use crate::sample::Sample;
use crate::stats::{
    Alike, Bounds, Counters, Ending, Phases, STEP, Series, SeriesSet, ShardStats, SplitSums,
    StepTimes, Unfinished, step_of,
};
use crate::wire::{BindingTimes, SecondFigures, Usage};

/// The length of an interval.
pub const INTERVAL: Duration = Duration::from_secs(1);

/// Limit on the intervals that are open at once; beyond it the newest takes what belongs to newer
/// ones. It bounds the memory of a shard whose supervisor does not read; counts stay exact.
const MOST_OPEN: usize = 64;

/// The most intervals that wait for requests that have yet to go; an older one is handed over
/// without them, and the oldest that is left takes them.
const MOST_WAITING: u64 = 3_600;

/// The open intervals.
#[derive(Debug)]
pub(super) struct Intervals {
    blank: Blank,
    /// End of the warm-up: what ends before it is counted there.
    measured_from: Nanos,
    /// The distributions that each has.
    kept: &'static [Series],
    /// Set of them, for the hot path.
    kept_set: SeriesSet,
    /// True if the response time is one of them.
    has_responses: bool,
    first: u64,
    open: VecDeque<Option<ShardInterval>>,
    pub(super) in_flight: u32,
    /// The most in flight in the step that ends at `step_ends`.
    most: u32,
    step_ends: Nanos,
    /// Attempts that are not counted yet.
    uncounted: Option<Uncounted>,
    /// Counters of the attempts that ended by themselves, until they are taken.
    ended: Counters,
    /// Counters of the attempts that ended in the warm-up.
    pub(super) warmup: Counters,
    /// Meters at the last cut.
    pub(super) at_cut: Meters,
    /// Greatest event-loop delay since then, ns.
    pub(super) max_loop_lag_ns: u64,
    /// Answers by phase, over all intervals.
    pub(super) phases: Phases,
}

/// Attempts that ended alike within one step, which are counted together: most have the
/// status of those before them.
#[derive(Debug)]
struct Uncounted {
    alike: Alike,
    is_warmup: bool,
    /// The interval in which they began.
    interval: u64,
    /// End of the first one.
    at: Nanos,
    /// End of their step.
    until: Nanos,
}

/// Properties of an empty interval.
#[derive(Debug, Clone, Copy)]
struct Blank {
    /// Start of the run.
    start: Nanos,
    bounds: Bounds,
}

/// Meters that only ever grow, read at a cut; and the limit and the pace that the shard has then.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Meters {
    /// Resource usage of the process.
    pub(super) used: Usage,
    /// Times for which each limit has held the shard back.
    pub(super) binding: BindingTimes,
    /// Limit and pace of the shard; none unless it is adaptive.
    pub(super) controller: Option<ControllerState>,
}

/// One interval.
#[derive(Debug)]
pub(super) struct ShardInterval {
    /// Its figures.
    pub(super) figures: SecondFigures,
    /// The counters: what ended in it, and requests that were due in it and never went. The
    /// distributions: of what was scheduled in it.
    pub(super) stats: ShardStats,
    /// Times of what was scheduled in it, by step: of good answers, as users wait for them.
    pub(super) times: StepTimes,
    begins: Nanos,
    pending: u32,
    over: bool,
}

impl Intervals {
    pub(super) fn new(
        start: Nanos,
        measured_from: Nanos,
        bounds: Bounds,
        kept: &'static [Series],
    ) -> Self {
        Self {
            blank: Blank { start, bounds },
            measured_from,
            kept,
            kept_set: SeriesSet::of(kept),
            has_responses: kept.contains(&Series::ResponseOk),
            first: 0,
            open: VecDeque::new(),
            in_flight: 0,
            most: 0,
            step_ends: start.plus(STEP),
            uncounted: None,
            ended: Counters::default(),
            warmup: Counters::default(),
            at_cut: Meters::default(),
            max_loop_lag_ns: 0,
            phases: Phases::default(),
        }
    }

    /// Leaves out the seconds before that of `from`, in which the shard begins.
    pub(super) fn begin_late(&mut self, from: Nanos) {
        self.first = from.since(self.blank.start) / duration_ns(INTERVAL);
        self.step_ends = self.step_end(from);
    }

    /// End of the step that `now` lies in.
    fn step_end(&self, now: Nanos) -> Nanos {
        let (start, step) = (self.blank.start, duration_ns(STEP));
        Nanos(start.0 + (now.since(start) / step + 1) * step)
    }

    /// Note what was in flight in the steps before that of `now`. Time does not go back far enough
    /// to matter.
    #[inline]
    fn pass(&mut self, now: Nanos) {
        if now >= self.step_ends {
            self.pass_steps(now);
        }
    }

    #[cold]
    fn pass_steps(&mut self, now: Nanos) {
        while self.step_ends <= now {
            self.note_most();
            // Through a step in which nothing begins or ends, all stays in flight.
            self.most = self.in_flight;
            self.step_ends = self.step_ends.plus(STEP);
        }
    }

    /// Note what was in flight in the step that ends at `step_ends`.
    fn note_most(&mut self) {
        let most = u64::from(self.most);
        let begins = Nanos(self.step_ends.0 - duration_ns(STEP));
        let second = begins.since(self.blank.start) / duration_ns(INTERVAL);
        if most == 0 || second < self.first {
            return;
        }
        let interval = self.at(begins);
        // One that was handed out, or for which there is no room, has no course.
        if interval.figures.index == second {
            let step = step_of(interval.begins, begins);
            let counts = interval.figures.course.at(step);
            counts.in_flight = counts.in_flight.max(most);
        }
    }

    /// Counts the start of an attempt at `now` and says in which interval it counts.
    #[inline]
    pub(super) fn begin(&mut self, intended: Nanos, now: Nanos) -> u64 {
        self.pass(now);
        self.in_flight += 1;
        self.most = self.most.max(self.in_flight);
        let interval = self.at(intended);
        interval.pending += 1;
        interval.figures.scheduled.requests += 1;
        interval.figures.index
    }

    /// Counts the end of an attempt that began in interval `index`, and was read at once in so many ns
    /// if it was.
    pub(super) fn finish(
        &mut self,
        index: u64,
        sample: &Sample,
        read_at_once: Option<u64>,
        is_met: bool,
    ) {
        self.pass(sample.attempt.done);
        self.in_flight -= 1;
        let (kept, has_responses) = (self.kept_set, self.has_responses);
        if let Some(interval) = self.get(index) {
            interval.pending -= 1;
            let waited_ns = if has_responses {
                sample.response_ns()
            } else {
                sample.service_ns()
            };
            if let Some(ns) = read_at_once {
                interval.stats.record_one(Series::ServiceOk, ns);
                if has_responses {
                    interval.stats.record_one(Series::ResponseOk, waited_ns);
                }
            } else {
                interval.stats.record_times(sample, kept);
            }
            if sample.attempt.outcome.is_answer() {
                let step = step_of(interval.begins, sample.permit.intended);
                interval.times.record(step, waited_ns);
            }
            interval.figures.max_sched_lag_ns =
                interval.figures.max_sched_lag_ns.max(sample.sched_lag_ns());
        }
        let done = sample.attempt.done;
        let ending = Ending::of(sample, is_met);
        let is_warmup = done < self.measured_from;
        if !is_warmup && ending.is_answer() {
            self.phases.record(done.since(self.blank.start));
        }
        match &mut self.uncounted {
            Some(uncounted)
                if uncounted.alike.ending == ending
                    && uncounted.is_warmup == is_warmup
                    && uncounted.interval == index
                    && (uncounted.at..uncounted.until).contains(&done) =>
            {
                uncounted.alike.add(&sample.attempt);
            }
            _ => {
                self.count();
                let until = self.step_end(done);
                self.uncounted = Some(Uncounted {
                    alike: Alike::of(sample, ending),
                    is_warmup,
                    interval: index,
                    at: done,
                    until,
                });
            }
        }
    }

    /// Count the attempts that are not counted yet.
    fn count(&mut self) {
        let Some(Uncounted {
            alike,
            is_warmup,
            interval,
            at,
            ..
        }) = self.uncounted.take()
        else {
            return;
        };
        self.ended.add(&alike);
        if let Some(interval) = self.get(interval) {
            interval.figures.scheduled.add(&alike);
        }
        let ended = self.at(at);
        ended.stats.counters.add(&alike);
        let Ending { outcome, .. } = alike.ending;
        let (step, is_answer) = (step_of(ended.begins, at), alike.ending.is_answer());
        let course = &mut ended.figures.course;
        course.add(step, outcome, is_answer, alike.count);
        if is_warmup {
            self.warmup.add(&alike);
        }
    }

    /// Take the counters of the attempts that ended by themselves, each once.
    pub(super) fn take_ended(&mut self) -> Counters {
        self.count();
        std::mem::take(&mut self.ended)
    }

    /// Counts an attempt that began in interval `index` and was cut off; its item had been
    /// attempted `attempt` times before.
    pub(super) fn abort(&mut self, index: u64, attempt: u32, rest: &Unfinished) {
        self.pass(rest.now);
        self.in_flight -= 1;
        let kept = self.kept;
        if let Some(interval) = self.get(index) {
            interval.pending -= 1;
            interval.stats.cut_off(kept, rest);
        }
        let is_warmup = rest.now < self.measured_from;
        let ended = self.at(rest.now);
        ended.stats.counters.abort(attempt, rest.in_flight);
        let step = step_of(ended.begins, rest.now);
        ended.figures.course.at(step).failed += 1;
        if is_warmup {
            self.warmup.abort(attempt, rest.in_flight);
        }
    }

    /// Add the parts of an answer that began in interval `index`.
    pub(super) fn add_split(&mut self, index: u64, split: &SplitSums) {
        if let Some(interval) = self.get(index) {
            interval.figures.split.merge(split);
        }
    }

    /// Return the counters of the interval of `now`.
    pub(super) fn counters_at(&mut self, now: Nanos) -> &mut Counters {
        &mut self.at(now).stats.counters
    }

    /// Records a request of an open loop that was intended and never went.
    pub(super) fn drop_request(&mut self, intended: Nanos, rest: &Unfinished) {
        let kept = self.kept;
        let interval = self.at(intended);
        interval.figures.scheduled.requests += 1;
        interval.stats.counters.requests.dropped += 1;
        let age_ns = rest.now.since(intended);
        interval.stats.record_one(Series::DropAge, age_ns);
        interval.stats.cut_off(kept, rest);
    }

    /// Takes an attempt back that began in interval `index` and was not sent.
    pub(super) fn withdraw(&mut self, index: u64) {
        self.in_flight -= 1;
        if let Some(interval) = self.get(index) {
            interval.pending -= 1;
            interval.figures.scheduled.requests -= 1;
        }
    }

    /// When the interval that `now` lies in ends.
    pub(super) fn next_cut(&self, now: Nanos) -> Nanos {
        let length = duration_ns(INTERVAL);
        Nanos(self.blank.start.0 + (now.since(self.blank.start) / length + 1) * length)
    }

    /// Notes that the intervals before `now` are over, with what the meters show. Every second gets
    /// its interval, also one in which nothing was scheduled.
    pub(super) fn cut(&mut self, now: Nanos, meters: Meters) {
        self.count();
        self.pass(now);
        let index = now.since(self.blank.start) / duration_ns(INTERVAL);
        while self.first + (self.open.len() as u64) < index && self.has_room() {
            self.push();
        }
        let (in_flight, before) = (self.in_flight, self.at_cut);
        let mut newest = None;
        for interval in self
            .open
            .iter_mut()
            .flatten()
            .filter(|interval| !interval.over && interval.figures.index < index)
        {
            (interval.over, interval.figures.in_flight) = (true, in_flight);
            newest = Some(interval);
        }
        if let Some(interval) = newest {
            interval.meter(before, meters);
            interval.figures.max_loop_lag_ns = std::mem::take(&mut self.max_loop_lag_ns);
            self.at_cut = meters;
        }
    }

    /// The intervals that are over and complete, when all that was scheduled before `yet_to_go` has
    /// gone. Each is handed out once.
    pub(super) fn take_complete(&mut self, yet_to_go: Nanos) -> Vec<ShardInterval> {
        self.count();
        let waits = yet_to_go.since(self.blank.start) / duration_ns(INTERVAL);
        let waits = waits.max((self.first + self.open.len() as u64).saturating_sub(MOST_WAITING));
        let mut complete = Vec::new();
        for slot in &mut self.open {
            if slot
                .as_ref()
                .is_some_and(|interval| interval.has_ended() && interval.figures.index < waits)
            {
                complete.extend(slot.take());
            }
        }
        self.drop_handed_out();
        complete
    }

    /// Counts, without times, of the seconds that were not handed out, from the one before that of
    /// `since` on. What ended may be counted a little later.
    pub(super) fn open_since(&self, since: Nanos) -> Vec<ShardInterval> {
        let second = since.since(self.blank.start) / duration_ns(INTERVAL);
        self.open
            .iter()
            .flatten()
            .filter(|interval| interval.figures.index + 1 >= second)
            .map(|interval| {
                let mut stats = ShardStats::new(self.blank.bounds);
                stats.counters = interval.stats.counters.clone();
                ShardInterval {
                    figures: interval.figures.clone(),
                    stats,
                    times: StepTimes::default(),
                    ..*interval
                }
            })
            .collect()
    }

    /// All that is left, complete or not. For the end of a run.
    pub(super) fn take_all(&mut self, meters: Meters) -> Vec<ShardInterval> {
        self.count();
        self.note_most();
        let before = self.at_cut;
        self.first += self.open.len() as u64;
        let mut rest: Vec<ShardInterval> = self.open.drain(..).flatten().collect();
        if let Some(last) = rest.last_mut() {
            let lag_ns = std::mem::take(&mut self.max_loop_lag_ns);
            last.figures.max_loop_lag_ns = last.figures.max_loop_lag_ns.max(lag_ns);
            if !last.over {
                last.meter(before, meters);
            }
        }
        rest
    }

    /// The interval of `moment`; the next one still open when its own was handed out already, the
    /// newest when too many are open.
    fn at(&mut self, moment: Nanos) -> &mut ShardInterval {
        let wanted = moment.since(self.blank.start) / duration_ns(INTERVAL);
        if self.get(wanted).is_none() {
            return self.at_other(wanted);
        }
        let slot = usize::try_from(wanted - self.first).unwrap_or(usize::MAX);
        let (index, blank) = (wanted, self.blank);
        self.open[slot].get_or_insert_with(|| ShardInterval::new(index, blank))
    }

    /// The interval of a moment whose own is not open.
    #[cold]
    fn at_other(&mut self, wanted: u64) -> &mut ShardInterval {
        let mut slot = usize::try_from(wanted.saturating_sub(self.first)).unwrap_or(usize::MAX);
        while self.open.get(slot).is_some_and(Option::is_none) {
            slot += 1;
        }
        while self.open.len() <= slot && self.has_room() {
            self.push();
        }
        // Without room the newest is open: only what was handed out lies before it.
        let slot = slot.min(self.open.len().saturating_sub(1));
        let (index, blank) = (self.first + slot as u64, self.blank);
        self.open[slot].get_or_insert_with(|| ShardInterval::new(index, blank))
    }

    /// True if another interval may be opened. What was handed out while an older one was still
    /// open takes no memory to speak of, and neither does what waits for requests that have yet to
    /// go.
    fn has_room(&self) -> bool {
        let open = self
            .open
            .iter()
            .flatten()
            .filter(|interval| !interval.has_ended())
            .count();
        open < MOST_OPEN || self.open.back().is_none_or(Option::is_none)
    }

    fn push(&mut self) {
        let index = self.first + self.open.len() as u64;
        self.open
            .push_back(Some(ShardInterval::new(index, self.blank)));
    }

    fn get(&mut self, index: u64) -> Option<&mut ShardInterval> {
        let slot = usize::try_from(index.checked_sub(self.first)?).ok()?;
        self.open.get_mut(slot)?.as_mut()
    }

    fn drop_handed_out(&mut self) {
        while self.open.front().is_some_and(Option::is_none) {
            self.open.pop_front();
            self.first += 1;
        }
    }
}

impl ShardInterval {
    fn new(index: u64, Blank { start, bounds }: Blank) -> Self {
        Self {
            figures: SecondFigures {
                index,
                ..SecondFigures::default()
            },
            begins: Nanos(start.0 + index * duration_ns(INTERVAL)),
            stats: ShardStats::new(bounds),
            times: StepTimes::default(),
            pending: 0,
            over: false,
        }
    }

    /// True if it is over and nothing of it is under way.
    const fn has_ended(&self) -> bool {
        self.over && self.pending == 0
    }

    fn meter(&mut self, before: Meters, after: Meters) {
        let used = after.used.since(before.used);
        (self.figures.cpu_us, self.figures.run_delay_ns) = (used.cpu_us(), used.run_delay_ns);
        self.figures.binding = after.binding.without(&before.binding);
        self.figures.controller = after.controller;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::sample::{Fate, Outcome};
    use crate::stats::tests::{attempt_of, bounds, permit_at};

    fn sample(intended: Nanos, done: Nanos) -> Sample {
        Sample {
            permit: permit_at(intended),
            attempt: attempt_of(intended, done, Outcome::Ok),
            fate: Fate::Ended,
        }
    }

    fn used(cpu_user_us: u64) -> Meters {
        Meters {
            used: Usage {
                cpu_user_us,
                ..Usage::default()
            },
            ..Meters::default()
        }
    }

    fn begin(intervals: &mut Intervals, at: Nanos) -> u64 {
        intervals.begin(at, at)
    }

    const S: u64 = 1_000_000_000;

    /// No request has yet to go.
    const NOTHING: Nanos = Nanos(u64::MAX);

    fn finish(intervals: &mut Intervals, index: u64, sample: &Sample) {
        intervals.finish(index, sample, sample.read_at_once_ns(), false);
    }

    #[test]
    fn a_slow_attempt_holds_only_its_own_second_open() {
        let mut intervals = Intervals::new(Nanos(5), Nanos(5), bounds(), &Series::PER_INTERVAL);
        let slow = begin(&mut intervals, Nanos(5 + S / 2));
        let quick = begin(&mut intervals, Nanos(5 + S + 1));
        finish(
            &mut intervals,
            quick,
            &sample(Nanos(5 + S + 1), Nanos(5 + S + 2)),
        );
        intervals.cut(Nanos(5 + 4 * S), used(70));
        let complete: Vec<u64> = intervals
            .take_complete(NOTHING)
            .iter()
            .map(|interval| interval.figures.index)
            .collect();
        assert_eq!(complete, [1, 2, 3]);
        finish(
            &mut intervals,
            slow,
            &sample(Nanos(5 + S / 2), Nanos(5 + 4 * S)),
        );
        let late = intervals.take_complete(NOTHING);
        assert_eq!(
            (late.len(), late[0].figures.index, late[0].figures.in_flight),
            (1, 0, 1)
        );
        assert_eq!(
            begin(&mut intervals, Nanos(6)),
            4,
            "a second that was handed out is not opened again"
        );
    }

    #[test]
    fn what_was_used_before_the_start_is_in_no_second() {
        let mut intervals = Intervals::new(Nanos(0), Nanos(0), bounds(), &Series::PER_INTERVAL);
        intervals.at_cut = used(900);
        intervals.cut(Nanos(S), used(970));
        intervals.cut(Nanos(2 * S), used(1_000));
        let used: Vec<u64> = intervals
            .take_complete(NOTHING)
            .iter()
            .map(|interval| interval.figures.cpu_us)
            .collect();
        assert_eq!(used, [70, 30]);
    }

    #[test]
    fn a_second_waits_for_what_was_intended_in_it_and_has_yet_to_go_for_an_hour_at_most() {
        let mut intervals = Intervals::new(Nanos(5), Nanos(5), bounds(), &Series::PER_INTERVAL);
        let mut taken = |at: u64, yet_to_go: u64| -> Vec<u64> {
            (1..=at).for_each(|second| intervals.cut(Nanos(5 + second * S), Meters::default()));
            intervals
                .take_complete(Nanos(5 + yet_to_go))
                .iter()
                .map(|interval| interval.figures.index)
                .collect()
        };
        assert_eq!(taken(3, S - 1), [0; 0]);
        assert_eq!(taken(3, S), [0]);
        assert_eq!(taken(200, 2 * S), [1]);
        assert_eq!(taken(3_602, 2 * S), [0; 0]);
        assert_eq!(taken(3_603, 2 * S), [2]);
        assert_eq!(
            begin(&mut intervals, Nanos(5 + 2 * S)),
            3,
            "the oldest that is left"
        );
        finish(
            &mut intervals,
            3,
            &sample(Nanos(5 + 2 * S), Nanos(5 + 3_000 * S)),
        );
        assert_eq!(begin(&mut intervals, Nanos(5 + 3_000 * S)), 3_000);
    }

    proptest! {
        // Each case has a histogram for every second of minutes.
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn each_second_comes_once_with_the_counts_of_what_ended_and_the_times_of_what_was_intended_in_it(
            attempts in prop::collection::vec((0..40_u64 * S, 0..20_u64 * S), 1..60), warmup in 0..40_u64,
        ) {
            let mut events: Vec<(u64, bool, usize)> = Vec::new();
            for (i, (at, took)) in attempts.iter().enumerate() {
                events.push((*at, false, i));
                events.push((at + took, true, i));
            }
            events.sort_unstable();
            let mut intervals = Intervals::new(Nanos(0), Nanos(warmup * S), bounds(), &Series::PER_INTERVAL);
            let (mut out, mut began) = (Vec::new(), vec![0; attempts.len()]);
            for (at, ends, i) in events {
                intervals.cut(Nanos(at), Meters::default());
                out.extend(intervals.take_complete(NOTHING));
                if ends {
                    finish(&mut intervals, began[i], &sample(Nanos(attempts[i].0), Nanos(at)));
                } else {
                    began[i] = begin(&mut intervals, Nanos(at));
                }
            }
            out.extend(intervals.take_all(Meters::default()));
            let indices: BTreeSet<u64> = out.iter().map(|interval| interval.figures.index).collect();
            prop_assert_eq!((indices.len(), intervals.in_flight), (out.len(), 0));
            prop_assert_eq!(out.iter().map(|i| i.stats.counters.items.ok).sum::<u64>(), attempts.len() as u64);
            let warm: u64 = out.iter().filter(|interval| interval.figures.index < warmup).map(|interval| interval.stats.counters.requests.attempts).sum();
            prop_assert_eq!(intervals.warmup.requests.attempts, warm);
            for interval in &out {
                let second = interval.figures.index * S..(interval.figures.index + 1) * S;
                let ended = attempts.iter().filter(|(at, took)| second.contains(&(at + took))).count() as u64;
                let due = attempts.iter().filter(|(at, _)| second.contains(at)).count() as u64;
                let counters = &interval.stats.counters;
                prop_assert_eq!((counters.requests.attempts, counters.items.ok), (ended, ended));
                prop_assert_eq!((interval.figures.scheduled.requests, interval.figures.scheduled.good), (due, due));
                let timed = interval.stats.timing(Series::ServiceOk).map_or(0, |timing| timing.exact().count);
                prop_assert_eq!(timed, due);
            }
        }
    }
}
