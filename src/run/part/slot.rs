//! Wait of a part for a slot and for the common start, and the slot that it holds.
//!
//! Called before the crawl. An attempt says in its status that it is alive while it waits, and in
//! words what it waits for.

use std::rc::Rc;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos, wall_time};
use crawlmark_harness::plan::{RunPlan, SlotShare};
use crawlmark_harness::supervisor::HeldSignals;
use crawlmark_harness::units::Rate;
use crawlmark_results::run::parts::AttemptStatus;

use super::PartRun;
use crate::cluster::attempt::{Attempt, has_result, unix_us};
use crate::cluster::node::Part;
use crate::cluster::slots::{HeldSlot, Slots};
use crate::cluster::tolerance::TOLERANCE;
use crate::error::Error;
use crate::run::resolve::Resolved;
use crate::terminal::Voice;

/// Interval at which a part that waits looks for a slot.
const LOOK: Duration = Duration::from_millis(500);

/// Interval at which an attempt writes its status while nothing is sent.
const BEAT: Duration = Duration::from_secs(1);

/// Wait before the first request that is worth a line.
const NOTABLE_WAIT: Duration = Duration::from_secs(1);

/// Reason for the end of a part that lost its slot.
pub(super) const SLOT_LOST: &str = "its lease expired and another attempt took its slot";

/// The error of a part without a result.
pub(super) const fn unfinished(part: Part, why: &'static str) -> Error {
    let Part { part, of } = part;
    Error::PartUnfinished { part, of, why }
}

/// A slot that a part holds, and the status of its attempt.
#[derive(Debug)]
pub(in crate::run) struct PartSlot<'a> {
    pub(super) attempt: &'a Attempt,
    pub(super) held: HeldSlot,
    pub(super) status: AttemptStatus,
    /// Time of the next status while nothing is sent.
    beat_at: Nanos,
}

impl PartSlot<'_> {
    /// Return its number, and that of all slots.
    pub(in crate::run) const fn share(&self) -> SlotShare {
        SlotShare {
            slot: self.held.slot(),
            of: self.attempt.plan.slots,
        }
    }

    /// Renew the lease if that is due, say that the attempt is alive, and return the end of the
    /// lease. For the time in which no seconds are written.
    fn renew(&mut self, now: Nanos) -> Nanos {
        let end = self.held.renew(now);
        if now >= self.beat_at {
            self.beat_at = now.plus(BEAT);
            self.report();
        }
        end
    }

    /// Write the status.
    pub(super) fn report(&mut self) {
        report(self.attempt, &mut self.status);
    }
}

/// What may end the time before a run: a signal, or the loss of the slot of a part, whose lease is
/// renewed.
pub(in crate::run) struct Watch<'a, 'b> {
    pub(in crate::run) held: &'a HeldSignals,
    pub(in crate::run) slot: Option<&'a mut PartSlot<'b>>,
    pub(in crate::run) clock: Clock,
}

impl Watch<'_, '_> {
    /// Wait, or look once if the time is 0.
    ///
    /// # Errors
    /// When a signal came, or another attempt has the slot.
    pub(in crate::run) fn wait(&mut self, time: Duration) -> Result<(), Error> {
        let end = self.clock.now().plus(time);
        loop {
            if let Some(slot) = &mut self.slot {
                slot.renew(self.clock.now());
                if slot.held.is_lost() {
                    return Err(unfinished(slot.attempt.part(), SLOT_LOST));
                }
            }
            let left = Duration::from_nanos(end.since(self.clock.now()));
            wait(self.held, left.min(LOOK))?;
            if left.is_zero() {
                return Ok(());
            }
        }
    }
}

/// Write the next status of an attempt.
fn report(attempt: &Attempt, status: &mut AttemptStatus) {
    status.beat += 1;
    status.at_us = unix_us(wall_time());
    attempt.report(status);
}

/// Say what a part waits for, and what it does about it.
fn waits(slots: &Slots, attempt: &Attempt) -> String {
    let why = if let Some((_, fault)) = slots.failing() {
        format!(
            "{} cannot be used: {fault}. The part gives up after {}",
            attempt.directory().slots().display(),
            humantime::format_duration(TOLERANCE)
        )
    } else {
        let all = attempt.plan.slots;
        format!("{all} of {all} are in use")
    };
    format!("Part {} waits for a slot: {why}.\n", attempt.part())
}

impl PartRun {
    /// Wait for a slot and for the common start, and give the crawl the slot's share of the budget.
    ///
    /// # Errors
    /// When a signal ends the wait, the slot is lost, the directory cannot be used, or another
    /// attempt publishes its result.
    pub(in crate::run) fn wait_for_slot(
        &self,
        resolved: &mut Resolved,
        held: &HeldSignals,
        clock: Clock,
        voice: Voice,
    ) -> Result<PartSlot<'_>, Error> {
        self.waits.set(true);
        let attempt = &self.attempt;
        let (part, slots) = (attempt.part().part, attempt.plan.slots);
        let (result, place) = (
            attempt.directory().result(part),
            attempt.directory().slots(),
        );
        let mut status = AttemptStatus {
            planned: resolved.plan.items(),
            ..AttemptStatus::default()
        };
        resolved.spec.options.sent = attempt.counters(resolved.plan.shards).map(Rc::new);
        let mut look = Slots::new(&place, slots, attempt.name());
        // If the last line was about a directory that fails.
        let mut said: Option<bool> = None;
        let taken = loop {
            if result.exists() {
                attempt.leave();
                return Err(has_result(&result));
            }
            if let Some(slot) = look.take(part % slots, || clock.now())? {
                break slot;
            }
            let fails = look.failing().is_some();
            if said.replace(fails) != Some(fails) {
                voice.say(&waits(&look, attempt));
            }
            report(attempt, &mut status);
            wait(held, LOOK)?;
        };
        status.slot = Some(taken.slot());
        let mut slot = PartSlot {
            attempt,
            held: taken,
            status,
            beat_at: clock.now(),
        };
        if said.is_some() {
            let SlotShare { slot, of } = slot.share();
            voice.say(&format!("Part {} has slot {slot}/{of}.\n", attempt.part()));
        }
        self.share(&slot, resolved)?;
        // An attempt that held the slot before may have used all of its burst until a moment ago.
        let plan = &resolved.plan;
        let rests = if slot.held.was_used() {
            interval(plan.rate).max(interval(plan.per_host.rate))
        } else {
            Duration::ZERO
        };
        attempt.read_clock(clock);
        let ahead = rests.max(attempt.until_start(clock.now()));
        if ahead > NOTABLE_WAIT {
            let ahead = humantime::format_duration(Duration::from_secs(ahead.as_secs()));
            voice.say(&format!(
                "Part {} waits {ahead} until it may send.\n",
                attempt.part()
            ));
        }
        let mut watch = Watch {
            held,
            slot: Some(&mut slot),
            clock,
        };
        watch.wait(ahead)?;
        Ok(slot)
    }

    /// Give the crawl the share of `slot`.
    ///
    /// # Errors
    /// When the share makes no crawl.
    fn share(&self, slot: &PartSlot<'_>, resolved: &mut Resolved) -> Result<(), Error> {
        let Some(whole) = &self.whole else {
            return Ok(());
        };
        let (ids, share, shards) = (self.attempt.ids(), slot.share(), resolved.plan.shards);
        let own = whole.part(ids, share, shards, resolved.burst);
        let plan = RunPlan {
            at_start: if slot.held.was_used() {
                own.at_start.min(own.shards.into())
            } else {
                own.at_start
            },
            finished: std::mem::take(&mut resolved.plan.finished),
            ..own
        };
        resolved.plan = plan.validate().map_err(Error::usage)?;
        Ok(())
    }
}

/// Return the time between two requests.
pub(in crate::run) fn interval(rate: Option<Rate>) -> Duration {
    Duration::from_nanos(rate.map_or(0, |rate| rate.period_ns.div_ceil(rate.permits.max(1))))
}

/// Wait, unless a signal asks to stop.
fn wait(held: &HeldSignals, most: Duration) -> Result<(), Error> {
    match held.asks_to_stop(most).map_err(Error::Signal)? {
        Some(signal) => Err(Error::StoppedBeforeRun(signal)),
        None => Ok(()),
    }
}
