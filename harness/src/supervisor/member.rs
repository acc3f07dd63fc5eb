//! One shard as its supervisor sees it: the line to it, and what it has reported.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::time::Duration;

use super::line::{Process, ShardLine};
use super::ranges::give_away;
use super::view::{LiveShard, LiveState, PastLife, ShardFault, ShardRecord};
use crate::clock::{Nanos, duration_ns};
use crate::plan::{ShardPlan, without};
use crate::process::ShardExit;
use crate::shard::INTERVAL;
use crate::stats::{Bounds, Counters, ItemCounts};
use crate::units::IdRange;
use crate::wire::{
    Control, EncodedStats, Frame, FrameDecoder, IntervalFrame, Progress, Scheduled, ShardOutcome,
    WireError, encode,
};

/// Time that a shard whose pipe has ended may take to end itself.
const EXIT_GRACE: Duration = Duration::from_secs(1);

/// Most items that a shard without a report can have started: a million per second in the time of
/// [`UNREPORTED`] reports.
const MOST_STARTED: u64 = 500_000;

/// Reports in whose time a shard that ended can have started items that it did not report: it ended
/// before its next one, which may have been late.
const UNREPORTED: u64 = 2;

/// IDs that the process of a shard left when it died, and those that it had finished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Left {
    /// The IDs to crawl again, in order and disjoint: of those that it held, all that are not
    /// finished.
    pub ids: Vec<IdRange>,
    /// The finished ones by state: as many as it held and are not left.
    pub items: ItemCounts,
}

fn count(ranges: &[IdRange]) -> u64 {
    ranges.iter().map(IdRange::len).sum()
}

impl Left {
    /// True if the IDs are of those in `held`, and the items as many as the others.
    pub(super) fn fits(&self, held: &[IdRange]) -> bool {
        let finished = count(&without(held, &self.ids));
        let is_in_order = self.ids.is_sorted_by(|a, b| a.end <= b.start);
        is_in_order && finished + count(&self.ids) == count(held) && finished == self.items.ended()
    }
}

/// Successor of a process that died.
#[derive(Debug, Default)]
pub(super) enum Successor {
    /// Not decided.
    #[default]
    Unasked,
    /// There will be none.
    None,
    /// To be started at this moment, with what is left.
    At(Nanos, Left),
}

/// Records of the earlier processes of a shard.
#[derive(Debug, Default)]
pub(super) struct Past {
    /// Plan of the first one; none if the shard was never replaced.
    pub(super) plan: Option<ShardPlan>,
    pub(super) lives: Vec<PastLife>,
    /// The IDs that they finished.
    pub(super) finished: Vec<IdRange>,
    /// Their finished items, and their requests, failures and limits until the last report of each.
    pub(super) progress: Progress,
    /// Those of their counts that are of the warm-up.
    warmup: Counters,
}

/// One shard.
#[derive(Debug)]
pub(super) struct Member<L = Process> {
    pub(super) plan: ShardPlan,
    /// The IDs that it holds: those of its plan, without what it gave away, with what it was given.
    pub(super) ids: Vec<IdRange>,
    /// IDs that it was given, whether it has read of them or not.
    pub(super) given: u64,
    /// The line to it.
    pub(super) line: L,
    /// True if it may still say something.
    speaks: bool,
    pub(super) progress: Progress,
    /// Seconds of a report whose totals, a progress or the final frame, have yet to arrive.
    report: Vec<Frame>,
    /// Counts of the seconds that it has not reported, by index.
    open: BTreeMap<u64, IntervalFrame>,
    /// Requests scheduled in the seconds that it reported.
    scheduled: Scheduled,
    /// Counts of the seconds of the warm-up.
    warmup: Counters,
    /// Most items that it started between two reports; none before the first.
    busiest: Option<u64>,
    /// True once its attempts are over and its workload finishes.
    is_finishing: bool,
    pub(super) last: Option<ShardOutcome>,
    pub(super) fault: Option<ShardFault>,
    pub(super) exit: Option<ShardExit>,
    pub(super) successor: Successor,
    /// Earlier processes of the shard, which died.
    pub(super) past: Past,
    /// Index of the first second that it reports; none before it begins in the place of another
    /// one.
    pub(super) first_second: Option<u64>,
    bounds: Bounds,
    /// Control frames that the pipe had no room for: of a shard that does not read.
    unsent: Vec<u8>,
    decoder: FrameDecoder,
    heard_at: Nanos,
    ended_at: Option<Nanos>,
}

impl<L: ShardLine> Member<L> {
    /// A shard of which nothing has been received at `now`.
    pub(super) fn new(plan: ShardPlan, line: L, now: Nanos) -> Self {
        let progress = Progress {
            remaining: plan.items(),
            ..Progress::default()
        };
        Self {
            successor: Successor::Unasked,
            past: Past::default(),
            first_second: (plan.life == 0).then_some(0),
            bounds: Bounds::for_timeout(plan.timeout),
            ids: plan.ids.clone(),
            given: 0,
            plan,
            line,
            speaks: true,
            progress,
            report: Vec::new(),
            open: BTreeMap::new(),
            scheduled: Scheduled::default(),
            warmup: Counters::default(),
            busiest: None,
            is_finishing: false,
            last: None,
            fault: None,
            exit: None,
            unsent: Vec::new(),
            decoder: FrameDecoder::default(),
            heard_at: now,
            ended_at: None,
        }
    }

    /// Takes the place of `dead`, with what is known of it.
    pub(super) fn follow(&mut self, dead: Self) {
        let Self {
            plan,
            ids,
            line,
            progress,
            warmup,
            fault,
            exit,
            successor,
            mut past,
            ..
        } = dead;
        let Successor::At(_, left) = successor else {
            return;
        };
        past.progress.merge(&Progress {
            counters: Counters {
                items: left.items,
                ..progress.counters
            },
            ..progress
        });
        past.warmup.merge(&warmup);
        past.finished.extend(without(&ids, &left.ids));
        past.lives.push(PastLife {
            pid: line.pid(),
            exit: exit.unwrap_or(ShardExit::Unknown),
            fault: fault.unwrap_or(ShardFault::Died),
        });
        past.plan.get_or_insert(plan);
        (self.past, self.progress.at) = (past, self.heard_at);
    }

    /// Forgoes another process in its place. Its finished items are those that it stored, not those
    /// that it reported; what it cut off was not stored, and its requests are counted.
    pub(super) fn go_without(&mut self) {
        if let Successor::At(_, left) = std::mem::replace(&mut self.successor, Successor::None) {
            let not_stored = count(&left.ids);
            let Progress {
                remaining,
                counters: Counters { items, .. },
                ..
            } = &mut self.progress;
            *remaining = not_stored.min(*remaining);
            *items = ItemCounts {
                aborted: items.aborted.min(not_stored - *remaining),
                ..left.items
            };
        }
    }

    /// True if the process is gone and everything it said has been read, and no other one will take
    /// its place.
    pub(super) fn is_over(&self) -> bool {
        !self.speaks && self.exit.is_some() && !self.returns()
    }

    /// True if it died, and everything it said has been read.
    pub(super) fn has_died(&self) -> bool {
        !self.speaks && self.exit.is_some() && self.fault.is_some()
    }

    /// True if it died, and no other process will take its place.
    pub(super) fn is_lost(&self) -> bool {
        self.has_died() && !self.may_return()
    }

    /// True if another process will take its place.
    pub(super) fn returns(&self) -> bool {
        matches!(self.successor, Successor::At(..))
    }

    /// True if it died, and it is not decided that no other process will take its place.
    pub(super) const fn may_return(&self) -> bool {
        self.fault.is_some() && !matches!(self.successor, Successor::None)
    }

    /// True if it may still say something.
    pub(super) fn is_speaking(&self) -> bool {
        self.speaks
    }

    /// True if it has more attempts to make, or may have.
    pub(super) const fn is_at_work(&self) -> bool {
        self.speaks && self.last.is_none() && !self.is_finishing
    }

    /// True if its attempts are over, and its workload finishes.
    pub(super) const fn is_finishing(&self) -> bool {
        self.is_finishing
    }

    /// Reads what there is.
    pub(super) fn read(&mut self, now: Nanos) -> Vec<Frame> {
        let mut received = Vec::new();
        let mut buffer = [0; 16 << 10];
        while self.speaks {
            match self.line.read(&mut buffer) {
                Ok(0) => self.end_of_pipe(now),
                Ok(read) => {
                    self.heard_at = now;
                    self.decoder.push(&buffer[..read]);
                    if let Err(error) = self.decode(&mut received) {
                        self.give_up(ShardFault::Junk(error.to_string()), now);
                    }
                    // There is no more for now. What comes in the meantime, and the end, is looked
                    // for again.
                    if read < buffer.len() {
                        break;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => self.end_of_pipe(now),
            }
        }
        received
    }

    fn decode(&mut self, received: &mut Vec<Frame>) -> Result<(), WireError> {
        while let Some(frame) = self.decoder.next_frame()? {
            match frame {
                Frame::Interval(_) | Frame::Open(_) => self.report.push(frame),
                Frame::Progress(mut progress) => {
                    let unread = self.given.saturating_sub(progress.received);
                    progress.remaining = progress.remaining.saturating_add(unread);
                    let started = progress.started().saturating_sub(self.progress.started());
                    self.busiest = Some(self.busiest.unwrap_or(0).max(started));
                    self.progress = *progress;
                    self.take_report(received);
                }
                Frame::Shed(range) => {
                    self.shed(range);
                    received.push(frame);
                }
                Frame::Finishing => self.is_finishing = true,
                Frame::Final(outcome) => {
                    outcome.stats.check(self.bounds)?;
                    self.progress = Progress {
                        at: outcome.last_done,
                        counters: outcome.stats.counters.clone(),
                        remaining: outcome.remaining,
                        binding: outcome.binding,
                        failures: outcome.failures.clone(),
                        ..Progress::default()
                    };
                    self.last = Some(*outcome);
                    self.take_report(received);
                }
                frame => received.push(frame),
            }
        }
        Ok(())
    }

    /// Take the seconds of a report whose totals are here. Those of one that was cut off are dropped:
    /// the totals before it do not hold them.
    fn take_report(&mut self, received: &mut Vec<Frame>) {
        for frame in std::mem::take(&mut self.report) {
            match frame {
                Frame::Open(interval) => {
                    self.open.insert(interval.figures.index, *interval);
                }
                frame => {
                    if let Frame::Interval(interval) = &frame {
                        self.open.remove(&interval.figures.index);
                        self.scheduled.merge(&interval.figures.scheduled);
                        self.note_warmup(interval);
                    }
                    received.push(frame);
                }
            }
        }
    }

    /// Count a second that is within the warm-up.
    fn note_warmup(&mut self, interval: &IntervalFrame) {
        let end_ns = (interval.figures.index + 1) * duration_ns(INTERVAL);
        if end_ns <= duration_ns(self.plan.warmup) {
            self.warmup.merge(&interval.stats.counters);
        }
    }

    /// Take the seconds that a shard that died did not report, as far as it had counted, once. When
    /// their requests were scheduled is not known: they are in the last one.
    pub(super) fn take_open(&mut self) -> Vec<IntervalFrame> {
        if self.speaks || self.last.is_some() {
            return Vec::new();
        }
        let mut open: Vec<IntervalFrame> = std::mem::take(&mut self.open).into_values().collect();
        for interval in &mut open {
            self.note_warmup(interval);
            interval.figures.scheduled = Scheduled::default();
        }
        if let Some(last) = open.last_mut() {
            let all = Scheduled::of(&self.progress.counters);
            last.figures.scheduled = all.without(&self.scheduled);
        }
        open
    }

    fn end_of_pipe(&mut self, now: Nanos) {
        self.speaks = false;
        self.progress.in_flight = 0;
        self.ended_at = Some(now);
        if self.last.is_none() {
            self.fault.get_or_insert(ShardFault::Died);
        }
    }

    /// Ends the process and notes why. What it had said before stays.
    pub(super) fn give_up(&mut self, fault: ShardFault, now: Nanos) {
        self.fault.get_or_insert(fault);
        self.line.kill();
        self.end_of_pipe(now);
    }

    /// Ends a shard that has been silent for `limit`, or that closed its pipe and does not go away.
    pub(super) fn check_alive(&mut self, now: Nanos, limit: Duration) {
        if self.exit.is_some() {
            return;
        }
        match self.ended_at {
            Some(ended) if now > ended.plus(EXIT_GRACE) => self.line.kill(),
            None if now > self.heard_at.plus(limit) => self.give_up(ShardFault::Silent(limit), now),
            _ => {}
        }
    }

    /// Extend its deadline by the time for which it was stopped and could not report.
    pub(super) fn resumed(&mut self, gap: Duration) {
        self.heard_at = self.heard_at.plus(gap);
        self.ended_at = self.ended_at.map(|ended| ended.plus(gap));
    }

    /// Notes the end of the process, if it has come.
    pub(super) fn reap(&mut self) {
        if self.exit.is_none() {
            self.exit = self.line.try_wait();
        }
    }

    /// Sends a control frame. A shard that is gone is noticed elsewhere.
    pub(super) fn tell(&mut self, control: Control) {
        if let Ok(bytes) = encode(&control) {
            self.unsent.extend_from_slice(&bytes);
            self.flush();
        }
    }

    /// Sends what the pipe had no room for before. It never blocks: one shard that does not read
    /// must not hold up the others.
    pub(super) fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.line.write(&self.unsent) {
                Ok(written) => {
                    self.unsent.drain(..written);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.unsent.clear(),
            }
        }
    }

    /// Gives it IDs to crawl.
    pub(super) fn give(&mut self, range: IdRange) {
        // What was given away and came back closes its gap.
        match self.ids.iter_mut().find(|held| held.end == range.start) {
            Some(held) => held.end = range.end,
            None => self.ids.push(range),
        }
        self.given += range.len();
        self.progress.remaining += range.len();
        self.tell(Control::Take(range));
    }

    /// Takes out IDs that it does not hold any more, before what it says later of the rest. That is
    /// an estimate until then: what it can have left at most.
    fn shed(&mut self, range: IdRange) {
        give_away(&mut self.ids, range);
        let remaining = &mut self.progress.remaining;
        *remaining = remaining.saturating_sub(range.len());
        if range.is_empty() {
            *remaining = 0;
        }
    }

    /// Return its state for the live view.
    pub(super) fn show(&self, live: &mut LiveShard) {
        live.progress.clone_from(&self.progress);
        live.progress.merge(&self.past.progress);
        let held = self.ids.iter().chain(&self.past.finished);
        live.planned = held.map(IdRange::len).sum();
        let lives = &self.past.lives;
        live.replaced = lives.last().map(|life| (lives.len(), life.exit));
        live.state = match (&self.last, &self.fault) {
            (_, Some(_)) if self.returns() => LiveState::Restarting,
            (_, Some(_)) => LiveState::Lost,
            (Some(_), None) => LiveState::Done,
            (None, None) => LiveState::Running,
        };
    }

    /// Return its record.
    pub(super) fn into_record(self) -> ShardRecord {
        // What came too late for it was never started; of what was left at its last report, a shard
        // that died may have started twice as much as ever between two reports.
        let since = self
            .busiest
            .map_or(MOST_STARTED, |most| most.saturating_mul(UNREPORTED));
        let (mut outcome, fault) = match (self.last, self.fault) {
            (Some(mut last), None) => {
                last.remaining += self.given.saturating_sub(last.received);
                (last, None)
            }
            (_, fault) => {
                let counted = EncodedStats::counted(self.bounds, self.progress.counters);
                let known = ShardOutcome {
                    remaining: self.progress.remaining.saturating_sub(since),
                    last_sent: self.heard_at,
                    last_done: self.heard_at,
                    peak_in_flight: self.progress.peak_in_flight,
                    failures: self.progress.failures,
                    binding: self.progress.binding,
                    warmup: self.warmup,
                    ..ShardOutcome::new(counted)
                };
                (known, Some(fault.unwrap_or(ShardFault::Died)))
            }
        };
        let Past {
            plan,
            lives,
            finished,
            progress,
            warmup,
        } = self.past;
        if plan.is_some() {
            outcome.first_sent = None;
            outcome.stats.counters.merge(&progress.counters);
            outcome.warmup.merge(&warmup);
            outcome.failures.merge(&progress.failures);
            outcome.binding.merge(&progress.binding);
            outcome.peak_in_flight = outcome.peak_in_flight.max(progress.peak_in_flight);
        }
        ShardRecord {
            plan: plan.unwrap_or(self.plan),
            ids: [self.ids, finished].concat(),
            past: lives,
            pid: self.line.pid(),
            exit: self.exit.unwrap_or(ShardExit::Unknown),
            fault,
            outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::plan::RunPlan;

    /// A shard that has said this, and reads everything.
    struct Said(Vec<u8>);

    impl ShardLine for Said {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let read = io::Read::read(&mut &self.0[..], buffer)?;
            self.0.drain(..read);
            if read == 0 {
                return Err(ErrorKind::WouldBlock.into());
            }
            Ok(read)
        }

        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            Ok(bytes.len())
        }

        fn kill(&mut self) {}

        fn try_wait(&mut self) -> Option<ShardExit> {
            None
        }

        fn pid(&self) -> i32 {
            0
        }
    }

    fn says(member: &mut Member<Said>, frames: &[Frame]) -> u64 {
        member.line.0 = frames.iter().flat_map(|it| encode(it).unwrap()).collect();
        member.read(Nanos::default());
        member.progress.remaining
    }

    #[test]
    fn what_is_left_of_a_shard_is_by_its_last_word_and_what_it_has_yet_to_read() {
        let range = |start, end| IdRange { start, end };
        let report = |remaining, received| {
            Frame::Progress(Box::new(Progress {
                remaining,
                received,
                ..Progress::default()
            }))
        };
        let plan = RunPlan::new("test", range(0, 100))
            .validate()
            .unwrap()
            .split(&[])
            .remove(0);
        let mut member = Member::new(plan, Said(Vec::new()), Nanos::default());
        let shed = Frame::Shed(range(50, 100));
        assert_eq!(says(&mut member, &[report(95, 0), shed, report(40, 0)]), 40);
        assert_eq!(member.ids, [range(0, 50)]);
        member.give(range(200, 230));
        assert_eq!(says(&mut member, &[report(35, 0)]), 65);
        assert_eq!(says(&mut member, &[report(64, 30)]), 64);
    }
}
