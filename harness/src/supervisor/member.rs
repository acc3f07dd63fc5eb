//! One shard as its supervisor sees it: the line to it, and what it has reported.

use std::fmt;
use std::io::ErrorKind;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::line::{Process, ShardLine};
use super::replacements::{Past, PastLife, Successor};
use super::shares::User;
use super::timeline::Rest;
use super::times::ReceivedStats;
use crate::clock::{Nanos, duration_ns};
use crate::plan::{ShardPlan, micros, without};
use crate::process::ShardExit;
use crate::shard::INTERVAL;
use crate::stats::{Bounds, Counters};
use crate::units::IdRange;
use crate::wire::{
    Control, FinalFrame, Frame, FrameDecoder, IntervalFrame, PauseOrder, Progress, Sends,
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

/// Reason why a shard's result is not whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShardFault {
    /// Its pipe ended before its final frame.
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

/// Event from a shard's pipe.
#[derive(Debug)]
pub(super) enum PipeEvent {
    /// The workload stands.
    Ready,
    /// The workload could not be built.
    Refused(String),
    /// An interval is complete.
    Interval(Box<IntervalFrame>),
    /// Seconds of its are over and not complete.
    /// Requests it sent.
    Sends(Sends),
    /// The target asks for a pause.
    Pause(PauseOrder),
    /// The shard has nothing left to do.
    Idle,
    /// The shard gave these IDs away.
    Shed(IdRange),
    /// The shard keeps within this share.
    Share(u32),
    /// Its workload takes no more results, or could not finish them.
    Failed(String),
}

/// The final frame, and what it held of times.
#[derive(Debug)]
pub(super) struct Last {
    pub(super) frame: FinalFrame,
    pub(super) stats: ReceivedStats,
}

/// One shard.
#[derive(Debug)]
pub(super) struct Member<L = Process> {
    pub(super) plan: ShardPlan,
    /// The IDs that it holds: those of its plan, without what it gave away, with what it was given.
    pub(super) ids: Vec<IdRange>,
    /// IDs that it was given, whether it has read of them or not.
    given: u64,
    /// The line to it.
    pub(super) line: L,
    /// True if it may still say something.
    speaks: bool,
    pub(super) progress: Progress,
    /// Counts of the seconds that it reported, and the index after the last of them.
    reported: Counters,
    next_second: u64,
    /// Most items that it started between two reports; none before the first.
    busiest: Option<u64>,
    /// True once its attempts are over and its workload finishes.
    is_finishing: bool,
    pub(super) last: Option<Last>,
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
    /// A shard of which nothing has been heard at `now`.
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
            reported: Counters::default(),
            next_second: 0,
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
            fault,
            exit,
            successor,
            mut past,
            ..
        } = dead;
        let Successor::At(_, left) = successor else {
            return;
        };
        past.counters.merge(&Counters {
            items: left.items,
            ..progress.counters
        });
        past.failures.merge(&progress.failures);
        past.binding.merge(&progress.binding);
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
    /// that it reported.
    pub(super) fn go_without(&mut self) {
        if let Successor::At(_, left) = std::mem::replace(&mut self.successor, Successor::None) {
            self.progress.counters.items = left.items;
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

    /// When it last said something.
    pub(super) const fn heard_at(&self) -> Nanos {
        self.heard_at
    }

    /// Reads what there is.
    pub(super) fn read(&mut self, now: Nanos) -> Vec<PipeEvent> {
        let mut heard = Vec::new();
        let mut buffer = [0; 16 << 10];
        while self.speaks {
            match self.line.read(&mut buffer) {
                Ok(0) => self.end_of_pipe(now),
                Ok(read) => {
                    self.heard_at = now;
                    self.decoder.push(&buffer[..read]);
                    if let Err(error) = self.decode(&mut heard) {
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
        heard
    }

    fn decode(&mut self, heard: &mut Vec<PipeEvent>) -> Result<(), WireError> {
        while let Some(frame) = self.decoder.next_frame()? {
            match frame {
                Frame::Ready => heard.push(PipeEvent::Ready),
                Frame::Refused(why) => heard.push(PipeEvent::Refused(why)),
                Frame::Progress(progress) => {
                    let started = progress.started().saturating_sub(self.progress.started());
                    self.busiest = Some(self.busiest.unwrap_or(0).max(started));
                    self.progress = *progress;
                }
                Frame::Interval(interval) => {
                    self.reported.merge(&interval.counters);
                    self.next_second = self.next_second.max(interval.figures.index + 1);
                    heard.push(PipeEvent::Interval(interval));
                }
                Frame::Sends(sends) => heard.push(PipeEvent::Sends(sends)),
                Frame::Pause(order) => heard.push(PipeEvent::Pause(order)),
                Frame::Idle => heard.push(PipeEvent::Idle),
                Frame::Shed(range) => heard.push(PipeEvent::Shed(range)),
                Frame::Share(share) => heard.push(PipeEvent::Share(share)),
                Frame::Failed(why) => heard.push(PipeEvent::Failed(why)),
                Frame::Finishing => self.is_finishing = true,
                Frame::Final(mut frame) => {
                    let timings = std::mem::take(&mut frame.timings);
                    let stats = ReceivedStats::hear(self.bounds, frame.counters.clone(), timings)?;
                    self.progress = Progress {
                        at: frame.last_done,
                        counters: frame.counters.clone(),
                        in_flight: 0,
                        remaining: frame.remaining,
                        waiting_again: 0,
                        behind_ms: 0,
                        binding: frame.binding,
                        failures: frame.failures.clone(),
                    };
                    self.last = Some(Last {
                        frame: *frame,
                        stats,
                    });
                }
            }
        }
        Ok(())
    }

    /// Take what a shard that died had counted and is in none of its seconds, once, as a part of
    /// the second of its last report in a run that began at `start`; none if there is nothing.
    pub(super) fn take_unreported(&mut self, start: Nanos) -> Option<Rest> {
        if self.speaks || self.last.is_some() {
            return None;
        }
        let counters = self.progress.counters.clone().without(&self.reported);
        if counters == Counters::default() {
            return None;
        }
        self.reported.merge(&counters);
        let is_warmup = self.progress.at < start.plus(self.plan.warmup);
        let index = self.progress.at.since(start) / duration_ns(INTERVAL);
        Some(Rest {
            // A second that it reported may have been handed on.
            index: index.max(self.next_second),
            warmup: if is_warmup {
                counters.clone()
            } else {
                Counters::default()
            },
            counters,
        })
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

    /// IDs that it was given and that it never read of: it had ended.
    pub(super) fn unread(&self) -> u64 {
        self.last
            .as_ref()
            .map_or(0, |last| self.given.saturating_sub(last.frame.received))
    }

    /// IDs that a shard without a final frame cannot have started: those left at its last report,
    /// less as many as it can have started since.
    pub(super) fn never_started(&self) -> u64 {
        let since = self
            .busiest
            .map_or(MOST_STARTED, |most| most.saturating_mul(UNREPORTED));
        self.progress.remaining.saturating_sub(since)
    }

    /// Return the shard's use of its share of the budget.
    pub(super) fn as_user(&self) -> User<'_> {
        if self.exit.is_some() || self.is_finishing {
            User::Gone
        } else {
            User::Works(&self.progress)
        }
    }
}
