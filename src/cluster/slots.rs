//! Slots of the budget: each is an equal share of the rate and of the connections, and one attempt
//! at a time holds it, on a lease.
//!
//! A slot is one empty file in the directory that all parts share. Its name has the slot's number,
//! a generation that only grows, and its holder: `slot-00003.0000000017.HOLDER`, or `.free` for
//! none. Every change of a slot is a rename(2) of that file to its next generation: the holder
//! renews its lease, frees the slot, or another attempt takes it over. One of several renames of
//! the same file succeeds, and the others find it gone.
//!
//! No two attempts send in the same slot:
//! 1. A holder reads its monotonic clock, renames the file to generation g, and sends nothing from
//!    [`LEASE`] after that reading on. Its shards know this moment and obey it by themselves,
//!    whatever became of their supervisor, of the directory or of the network.
//! 2. Another attempt renames generation g only after it has known for [`TAKEOVER`], by its own
//!    monotonic clock, that g exists: longer than the lease that began before g did. No clocks of
//!    two machines are compared; each measures only how long something lasts.
//! 3. If that rename succeeds, the holder has not renewed its lease: g would be gone. It never
//!    will: g is gone, and no name comes twice.
//! 4. The directory of the slots appears with all of its files by one rename, once.
//!
//! Assumptions: renames are atomic and kept by the file server; the directory is not removed while
//! a part runs; clocks pass the time of a lease alike, to a sixth. A virtual machine that is paused
//! together with its clock breaks the last one. A process that is stopped between its last look at
//! the clock and the system call that sends may send that one request when it goes on, one for each
//! shard. Connections of such a process stay open until it ends; nothing is sent on them.
//!
//! The slot is lost to all for [`TAKEOVER`] if its holder dies; the attempt that waits for it takes
//! it then. An attempt whose slot was taken ends, and is to be run again. One that waits tolerates
//! a directory that fails for [`TOLERANCE`].

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crawlmark_harness::clock::{Nanos, duration_ns};
use crawlmark_harness::files::Root;

use super::tolerance::TOLERANCE;

/// Time for which a holder may send without renewing: long enough for a file server that hesitates,
/// short beside a part.
pub(crate) const LEASE: Duration = Duration::from_secs(10);

/// Time for which others leave a slot alone that is not renewed. A fifth longer than the lease, for
/// clocks that differ in speed and for a request that was on its way to the system when the lease
/// ended.
pub(crate) const TAKEOVER: Duration = Duration::from_secs(12);

/// Interval of renewals: a lease survives four that fail.
const RENEWAL: Duration = Duration::from_secs(2);

/// Interval between two tries of a renewal that failed.
const RETRY: Duration = Duration::from_millis(500);

/// Holder's part of the name of a free slot.
const FREE: &str = "free";

/// A state of a slot: a name that its file has once.
#[derive(Debug, Clone, PartialEq, Eq)]
struct SlotState {
    slot: u32,
    generation: u64,
    /// None if it is free.
    holder: Option<String>,
}

/// A directory of slots that could not be used for too long. Reads after "failed to".
#[derive(Debug, thiserror::Error)]
#[error(
    "take a slot in {}: {error}, tried for {}. Check the file system that the parts share, and run the part again",
    place.display(), humantime::format_duration(*tried)
)]
pub(crate) struct SlotsError {
    /// Directory of the slots.
    place: PathBuf,
    /// The last error.
    error: io::Error,
    /// Time for which every try failed.
    tried: Duration,
}

/// The slots, as an attempt sees them that waits for one.
#[derive(Debug)]
pub(crate) struct Slots {
    place: PathBuf,
    count: u32,
    attempt: String,
    /// True once the directory was seen. It is not made again: others may still hold slots of one
    /// that was removed.
    is_made: bool,
    /// The last state of each slot, and the time from which on it is known to exist.
    known: BTreeMap<u32, (SlotState, Nanos)>,
    /// Time at which the last state of each slot was last listed.
    listed: BTreeMap<u32, Nanos>,
    /// Time of the first of the failures since the last success, and the last one.
    failing: Option<(Nanos, io::Error)>,
}

/// A slot that this attempt holds.
#[derive(Debug)]
pub(crate) struct HeldSlot {
    place: PathBuf,
    state: SlotState,
    /// End of the lease.
    end: Nanos,
    /// Time of the next renewal.
    due: Nanos,
    /// Time of the first try of a renewal that may have succeeded without an answer.
    tried: Option<Nanos>,
    was_used: bool,
    is_lost: bool,
    /// Time in which there was no lease, until `counted`.
    lapsed: Duration,
    counted: Nanos,
    /// The last reading of the clock.
    seen: Nanos,
}

impl SlotState {
    fn name(&self) -> String {
        let Self {
            slot,
            generation,
            holder,
        } = self;
        format!(
            "slot-{slot:05}.{generation:010}.{}",
            holder.as_deref().unwrap_or(FREE)
        )
    }

    fn parse(name: &str) -> Option<Self> {
        let (slot, rest) = name.strip_prefix("slot-")?.split_once('.')?;
        let (generation, holder) = rest.split_once('.')?;
        let holder = (holder != FREE).then(|| holder.to_owned());
        Some(Self {
            slot: slot.parse().ok()?,
            generation: generation
                .parse()
                .ok()
                .filter(|generation| *generation < u64::MAX)?,
            holder,
        })
    }

    /// Rename the file to its next generation; none if it is not in this state any more.
    fn advance(&self, place: &Path, holder: Option<&str>) -> io::Result<Option<Self>> {
        let next = Self {
            generation: self.generation + 1,
            holder: holder.map(str::to_owned),
            ..*self
        };
        let to = place.join(next.name());
        match fs::rename(place.join(self.name()), &to) {
            Ok(()) => Ok(Some(next)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // The answer of a file server may have been lost, and the request repeated.
                if to.try_exists()? {
                    return Ok(Some(next));
                }
                // The whole share is away for a moment, as when it is mounted again: others cannot
                // take the slot in it either.
                if let Some(share) = place
                    .parent()
                    .filter(|share| share.components().next().is_some())
                    && !share.try_exists()?
                {
                    return Err(error);
                }
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }
}

impl Slots {
    /// The slots in the directory `place`, which is made with `count` of them unless it exists.
    /// `attempt` is the name of this attempt, unique to it.
    pub(crate) fn new(place: &Path, count: u32, attempt: &str) -> Self {
        Self {
            place: place.to_owned(),
            count,
            attempt: attempt.to_owned(),
            is_made: false,
            known: BTreeMap::new(),
            listed: BTreeMap::new(),
            failing: None,
        }
    }

    /// Take a slot if one is free or was abandoned, the one with the number `first` before others.
    /// `now` reads the clock.
    ///
    /// # Errors
    /// When the directory has failed for [`TOLERANCE`].
    pub(crate) fn take(
        &mut self,
        first: u32,
        now: impl Fn() -> Nanos,
    ) -> Result<Option<HeldSlot>, SlotsError> {
        let began = now();
        let error = match self.try_take(first, &now) {
            Ok(taken) => {
                self.failing = None;
                return Ok(taken);
            }
            Err(error) => error,
        };
        let since = self.failing.as_ref().map_or(began, |(since, _)| *since);
        let tried = Duration::from_nanos(now().since(since));
        if tried < TOLERANCE {
            self.failing = Some((since, error));
            return Ok(None);
        }
        let (place, tried) = (self.place.clone(), Duration::from_secs(tried.as_secs()));
        Err(SlotsError {
            place,
            error,
            tried,
        })
    }

    /// Return the time since which every try failed, and the last failure; none after a success.
    pub(crate) const fn failing(&self) -> Option<&(Nanos, io::Error)> {
        self.failing.as_ref()
    }

    fn try_take(&mut self, first: u32, now: &impl Fn() -> Nanos) -> io::Result<Option<HeldSlot>> {
        self.make()?;
        self.list(now)?;
        let (before, after) = self
            .known
            .values()
            .partition::<Vec<_>, _>(|(state, _)| state.slot < first);
        for (found, since) in after.into_iter().chain(before) {
            let began = now();
            // One that is its own it has taken without an answer.
            let is_others = found
                .holder
                .as_ref()
                .is_some_and(|holder| *holder != self.attempt);
            if is_others && began.since(*since) < duration_ns(TAKEOVER) {
                continue;
            }
            if let Some(state) = found.advance(&self.place, Some(&self.attempt))? {
                return Ok(Some(HeldSlot {
                    place: self.place.clone(),
                    state,
                    end: began.plus(LEASE),
                    due: began.plus(RENEWAL),
                    tried: None,
                    was_used: found.generation > 0,
                    is_lost: false,
                    lapsed: Duration::ZERO,
                    counted: began,
                    seen: began,
                }));
            }
        }
        Ok(None)
    }

    /// Make the directory with its files, unless it exists or did.
    fn make(&mut self) -> io::Result<()> {
        if !self.is_made && !self.place.try_exists()? {
            let new = self
                .place
                .with_file_name(format!("slots.{}.new", self.attempt));
            // What a try has left that failed.
            let _ = fs::remove_dir_all(&new);
            let root = Root::new(self.place.parent().unwrap_or(Path::new("")));
            for slot in 0..self.count {
                let state = SlotState {
                    slot,
                    generation: 0,
                    holder: None,
                };
                root.create(new.join(state.name()))?;
            }
            let renamed = fs::rename(&new, &self.place);
            // Another attempt may have been faster: a directory with files in it is not replaced.
            let _ = fs::remove_dir_all(&new);
            if let Err(error) = renamed
                && !self.place.try_exists()?
            {
                return Err(error);
            }
        }
        self.is_made = true;
        Ok(())
    }

    /// Note the states that exist now.
    fn list(&mut self, now: &impl Fn() -> Nanos) -> io::Result<()> {
        let mut states = Vec::new();
        for entry in fs::read_dir(&self.place)? {
            let state = entry?.file_name().to_str().and_then(SlotState::parse);
            states.extend(state.filter(|state| state.slot < self.count));
        }
        if states.is_empty() {
            // A directory of slots is never left empty.
            let why = "the files of the slots are gone. When no part is running or waiting, remove the directory: it is made again";
            return Err(io::Error::other(why));
        }
        let listed = now();
        for state in states {
            let last = self.listed.get(&state.slot);
            let is_away = last.is_none_or(|last| listed.since(*last) > duration_ns(TAKEOVER));
            match self.known.get(&state.slot) {
                Some((known, _)) if *known == state => {}
                // A renewal during the listing may show both names, and a client of a file server
                // an old one. If the newer one stays away, the directory was restored, or removed
                // and made again.
                Some((known, _)) if known.generation >= state.generation && !is_away => continue,
                _ => drop(self.known.insert(state.slot, (state.clone(), listed))),
            }
            self.listed.insert(state.slot, listed);
        }
        Ok(())
    }
}

impl HeldSlot {
    /// Its number.
    pub(crate) const fn slot(&self) -> u32 {
        self.state.slot
    }

    /// True if another attempt has held it before, and may have used all of its burst a moment ago.
    pub(crate) const fn was_used(&self) -> bool {
        self.was_used
    }

    /// True if another attempt has taken it: nothing may be sent any more.
    pub(crate) const fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Return the time in which the lease had ended and was not taken by another attempt.
    pub(crate) fn lapsed(&self) -> Duration {
        let open = if self.is_lost {
            0
        } else {
            self.seen.since(self.end.max(self.counted))
        };
        self.lapsed + Duration::from_nanos(open)
    }

    /// Renew the lease if that is due, and return its end. `now` is a reading of the clock before
    /// this call.
    pub(crate) fn renew(&mut self, now: Nanos) -> Nanos {
        self.seen = now;
        if self.is_lost || now < self.due {
            return self.end;
        }
        // The lease counts from the first try: that may be the one which succeeded.
        let tried = *self.tried.get_or_insert(now);
        let holder = self.state.holder.clone();
        match self.state.advance(&self.place, holder.as_deref()) {
            Ok(Some(state)) => {
                self.lapsed += Duration::from_nanos(now.since(self.end.max(self.counted)));
                (self.state, self.tried, self.counted) = (state, None, now);
                self.end = tried.plus(LEASE);
                // A renewal that took longer than the lease left none.
                self.due = if self.end > now {
                    now.plus(RENEWAL)
                } else {
                    now
                };
            }
            Ok(None) => (self.is_lost, self.end) = (true, Nanos::default()),
            Err(_) => self.due = now.plus(RETRY),
        }
        self.end
    }
}

/// Frees the slot for other attempts: drop it when nothing is sent any more. A failure leaves it
/// until its lease is over.
impl Drop for HeldSlot {
    fn drop(&mut self) {
        if self.is_lost {
            return;
        }
        let freed = self.state.advance(&self.place, None);
        if matches!(freed, Ok(None)) && self.tried.is_some() {
            // The renewal that had no answer has succeeded.
            let renewed = SlotState {
                generation: self.state.generation + 1,
                ..self.state.clone()
            };
            let _ = renewed.advance(&self.place, None);
        }
    }
}

#[cfg(test)]
mod tests;
