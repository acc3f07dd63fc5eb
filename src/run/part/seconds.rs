//! Seconds of a part, as they are written while it runs, and the end of it.

use std::fs::File;
use std::time::Duration;

use crawlmark_harness::clock::{Clock, Nanos};
use crawlmark_harness::supervisor::parts::{PartError, PartWriter};
use crawlmark_harness::supervisor::{Interval, RunRecord};
use crawlmark_results::run::parts::{AttemptRecord, AttemptState, PartsDirectory};
use crawlmark_results::run::report::{IntervalRow, Report};

use super::PartRun;
use super::slot::{PartSlot, SLOT_LOST, unfinished};
use crate::cluster::attempt::{Publication, unix_us};
use crate::error::Error;
use crate::terminal::Voice;

/// Interval at which a part that runs looks for the result of another attempt: its own would be of
/// no use then.
const RESULT_LOOK: Duration = Duration::from_secs(2);

/// End of a part.
#[derive(Debug, Clone, Copy)]
pub(in crate::run) struct PartOutcome {
    /// True if it ended by itself, with all that its shards know.
    whole: bool,
    /// Slot that it held.
    slot: u32,
    /// True if another attempt took the slot.
    lost_slot: bool,
    /// Time in which its lease had ended, and nothing was sent.
    pub(in crate::run) lapsed: Duration,
    start: Nanos,
    started_at_us: u64,
    finished_at_us: u64,
}

impl PartOutcome {
    /// Publish the result, and say what came of it.
    ///
    /// # Errors
    /// When a file cannot be written, or the attempt is not whole and the part has no other result.
    pub(in crate::run) fn publish(
        &self,
        run: &PartRun,
        report: &Report,
        clock: Clock,
        voice: Voice,
    ) -> Result<Publication, Error> {
        let part = run.attempt.part();
        let record = AttemptRecord {
            slot: self.slot,
            saved: run.saved.clone(),
            started_at_us: self.started_at_us,
            finished_at_us: self.finished_at_us,
            ..AttemptRecord::of(report, self.whole)
        };
        let publication = run
            .attempt
            .publish(record, self.start, clock)?
            .ok_or_else(|| {
                let why = if self.lost_slot {
                    SLOT_LOST
                } else {
                    "it was stopped, or a shard was lost"
                };
                unfinished(part, why)
            })?;
        voice.say(&match publication {
            Publication::Counts => format!("Part {part} is published.\n"),
            Publication::Lost => format!(
                "Part {part} was published by another attempt: the requests of this one are counted as additional.\n"
            ),
        });
        Ok(publication)
    }
}

/// The seconds of a part, as they are written.
pub(in crate::run) struct PartSeconds<'a> {
    slot: PartSlot<'a>,
    /// When the result of another attempt is looked for.
    look_at: Nanos,
    /// True if another attempt has published one.
    is_published: bool,
    frames: Option<PartWriter<File>>,
    /// The first failure.
    failed: Option<PartError>,
}

impl<'a> PartSeconds<'a> {
    /// Begin to write the seconds of the part that holds `slot`, of so many items.
    ///
    /// # Errors
    /// When the file cannot be made.
    pub(in crate::run) fn begin(mut slot: PartSlot<'a>, planned: u64) -> Result<Self, Error> {
        (slot.status.state, slot.status.planned) = (AttemptState::Running, planned);
        let frames = Some(slot.attempt.frames()?);
        Ok(Self {
            slot,
            look_at: Nanos::default(),
            is_published: false,
            frames,
            failed: None,
        })
    }

    /// Renew the lease if that is due, and return its end.
    pub(in crate::run) fn lease(&mut self, now: Nanos) -> Nanos {
        let end = self.slot.held.renew(now);
        if now >= self.look_at {
            self.look_at = now.plus(RESULT_LOOK);
            let attempt = self.slot.attempt;
            self.is_published = attempt.directory().result(attempt.part().part).exists();
        }
        end
    }

    /// True if nothing more is to be sent: another attempt has taken the slot, or published its
    /// result, or the seconds could not be written, without which nothing is published.
    pub(in crate::run) const fn is_over(&self) -> bool {
        self.slot.held.is_lost() || self.is_published || self.failed.is_some()
    }

    /// Write a second, and the status after it.
    pub(in crate::run) fn second(&mut self, interval: &Interval, row: &IntervalRow) {
        if let Some(frames) = &mut self.frames
            && let Err(error) = frames.second(interval)
        {
            self.failed.get_or_insert(error);
            self.frames = None;
        }
        let status = &mut self.slot.status;
        status.items += row.counts.items;
        status.requests += row.counts.attempts;
        status.failed += row.counts.failed;
        status.requests_per_s = row.counts.attempts;
        (status.p50_us, status.p99_us) = (row.p50_us, row.p99_us);
        self.slot.report();
    }

    /// Write the end, which is now.
    ///
    /// # Errors
    /// When a second or the end could not be written.
    pub(in crate::run) fn end(
        mut self,
        record: &RunRecord,
        now: Nanos,
    ) -> Result<PartOutcome, Error> {
        let path = self.slot.attempt.place().join(PartsDirectory::FRAMES);
        let io =
            |error: PartError| Error::unwritable(&path)(std::io::Error::other(error.to_string()));
        let written = match (self.failed.take(), self.frames.take()) {
            (Some(error), _) => Err(io(error)),
            (None, Some(frames)) => frames
                .end(record)
                .map_err(io)
                .and_then(|file| file.sync_all().map_err(Error::unwritable(&path))),
            (None, None) => Ok(()),
        };
        self.slot.status.state = AttemptState::Ended;
        self.slot.report();
        let held = &self.slot.held;
        let (slot, lost_slot, lapsed) = (held.slot(), held.is_lost(), held.lapsed());
        // The shards' processes are gone.
        drop(self.slot);
        // The machine's clock may have been set during the crawl.
        let (started_at_us, ran_us) = (unix_us(record.started_at), now.since(record.start) / 1_000);
        written.map(|()| PartOutcome {
            whole: !record.was_stopped() && record.shards.iter().all(|shard| shard.fault.is_none()),
            slot,
            lost_slot,
            lapsed,
            start: record.start,
            started_at_us,
            finished_at_us: started_at_us.saturating_add(ran_us),
        })
    }
}
