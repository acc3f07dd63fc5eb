//! All parts of a crawl at a glance, from what their attempts write: which are done, running,
//! waiting or lost, and their total rate.
//!
//! Called by `watch`, look by look. It reads no clock: its caller gives the time, of a clock that
//! only goes forward. It writes nothing.

mod seen;

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use self::seen::{AttemptSeen, Failing, PartSeen};
use super::status::{AttemptState, AttemptStatus};
use super::{AttemptRecord, PartsDirectory, PlanFile};

/// Most parts that one look reads, of a few small files each. A file server answers thousands of
/// requests a second for all of its users.
pub const MOST_READ: usize = 500;

/// State of a part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PartState {
    /// No attempt is alive, and the last ones died or are out of sight: they write nothing.
    Lost,
    /// Its attempts ended without a result.
    Unfinished,
    /// An attempt crawls.
    Running,
    /// An attempt has a slot, and waits for the common start or for robots.txt.
    Starting,
    /// An attempt waits for a slot.
    Waiting,
    /// There is no attempt yet.
    NotBegun,
    /// A part with a result.
    Done,
}

impl PartState {
    /// Name in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unfinished => "unfinished",
            Self::Running => "running",
            Self::Starting => "starting",
            Self::Waiting => "waiting",
            Self::NotBegun => "not begun",
            Self::Done => "done",
        }
    }
}

/// Numbers of parts, by their states.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct PartCounts {
    /// All parts.
    pub planned: u32,
    /// Parts with a result.
    pub done: u32,
    /// Parts that are crawled.
    pub running: u32,
    /// Parts that have a slot, and wait for the common start or for robots.txt.
    pub starting: u32,
    /// Parts that wait for a slot.
    pub waiting: u32,
    /// Parts whose attempts write nothing any more.
    pub lost: u32,
    /// Parts whose attempts ended without a result.
    pub unfinished: u32,
    /// Parts without an attempt.
    pub not_begun: u32,
}

/// A part that is neither done nor still to begin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartRow {
    /// Its number, from 0.
    pub part: u32,
    /// Its state.
    pub state: PartState,
    /// Name of the attempt that this is about.
    pub attempt: String,
    /// Time since the attempt last wrote something, s.
    pub silent_s: f64,
    /// Items that an earlier attempt had saved: not in `status`.
    pub finished_before: u64,
    /// Its last status.
    pub status: AttemptStatus,
}

/// Parts that could not be read at the last look.
#[derive(Debug, Clone, PartialEq)]
pub struct UnreadParts {
    /// Number of parts; what is shown of them is what was read before.
    pub parts: u32,
    /// Directory or file of the one that has failed for the longest time.
    pub path: PathBuf,
    /// Its last error.
    pub error: String,
    /// Time since then, s.
    pub for_s: f64,
    /// True if a file is damaged, so that waiting does not help.
    pub is_damaged: bool,
}

/// The highest percentile of the running parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HighestTime {
    /// The part that it is of.
    pub part: u32,
    /// The percentile of its last second, µs.
    pub us: f64,
}

/// All parts at a glance. The key `schema` has the name of the format.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "schema", rename = "crawlmark.watch/1")]
pub struct PartsOverview {
    /// See [`PlanFile`].
    pub run_id: String,
    /// Numbers of parts.
    pub parts: PartCounts,
    /// Items of the crawl.
    pub items_planned: u64,
    /// Items that have ended, of the attempts that count or may: not those of lost and unfinished
    /// parts.
    pub items: u64,
    /// Failed ones of these.
    pub items_failed: u64,
    /// Items that end per second, over up to ten seconds of each running attempt that wrote lately;
    /// null if none is known for two.
    pub items_per_s: Option<f64>,
    /// Requests per second of all attempts that wrote lately, in the last second of each.
    pub requests_per_s: u64,
    /// Requests per second that the plan allows; null without a budget.
    pub budget_per_s: Option<f64>,
    /// Slots of the plan.
    pub slots: u32,
    /// Slots that attempts hold.
    pub slots_in_use: u32,
    /// Attempts that go on beside one that counts or is newer: their requests come in addition.
    pub additional_attempts: u32,
    /// The highest median of the running parts.
    pub highest_p50: Option<HighestTime>,
    /// The highest 99th percentile of the running parts.
    pub highest_p99: Option<HighestTime>,
    /// Parts that could not be read at the last look; none if all could, as in each snapshot.
    #[serde(skip)]
    pub unread: Option<UnreadParts>,
    /// Parts that are neither done nor still to begin: lost and unfinished ones first.
    pub rows: Vec<PartRow>,
}

/// Looks at the parts of a crawl, again and again.
#[derive(Debug)]
pub struct PartsWatch {
    directory: PartsDirectory,
    plan: PlanFile,
    lost_after: Duration,
    parts: Vec<PartSeen>,
    /// Turns of the parts that are alive, and of the others.
    next: [usize; 2],
}

impl PartsWatch {
    /// A watch over `directory`. An attempt that writes nothing for `lost_after` is lost.
    #[must_use]
    pub fn new(directory: PartsDirectory, plan: PlanFile, lost_after: Duration) -> Self {
        let parts = (0..plan.nodes).map(|_| PartSeen::default()).collect();
        Self {
            directory,
            plan,
            lost_after,
            parts,
            next: [0; 2],
        }
    }

    /// Read up to `most` parts, at least 1: a quarter of them may be of those that are not being
    /// crawled. A part that cannot be read, or whose result cannot, stays as it was
    /// ([`PartsOverview::unread`]).
    pub fn look(&mut self, now: Duration, most: usize) {
        let (alive, others): (Vec<usize>, Vec<usize>) = (0..self.parts.len())
            .filter(|part| !self.parts[*part].is_settled(self.lost_after))
            .partition(|part| self.parts[*part].is_alive(self.lost_after));
        // Each kind leaves the other what it does not need.
        let for_others = most
            .div_ceil(4)
            .max(most.saturating_sub(alive.len()))
            .min(others.len());
        let for_alive = most - for_others;
        for (kind, (parts, most)) in [(alive, for_alive), (others, for_others)]
            .into_iter()
            .enumerate()
        {
            let from = parts.partition_point(|part| *part < self.next[kind]);
            for part in parts[from..].iter().chain(&parts[..from]).take(most) {
                self.read(*part, now);
                self.next[kind] = part + 1;
            }
        }
    }

    fn read(&mut self, part: usize, now: Duration) {
        let number = u32::try_from(part).unwrap_or(u32::MAX);
        let seen = &mut self.parts[part];
        let since = seen
            .failing
            .take()
            .map_or(now, |failed_before| failed_before.since);
        let failing = |path, error| Some(Failing { since, path, error });
        let names = match self.directory.attempts(number) {
            Ok(names) => names,
            Err(error) => {
                seen.failing = failing(self.directory.part(number), error);
                return;
            }
        };
        seen.at = Some(now);
        for name in names {
            let file = |file| self.directory.attempt(number, &name).join(file);
            // A file server may be unable to show a file that is replaced just now.
            let status = AttemptStatus::read(&file(PartsDirectory::STATUS))
                .ok()
                .flatten();
            let known = seen
                .attempts
                .iter()
                .position(|attempt| attempt.name == name);
            let at = known.unwrap_or(seen.attempts.len());
            if known.is_none() {
                seen.attempts.push(AttemptSeen::new(name.clone(), now));
            }
            let attempt = &mut seen.attempts[at];
            attempt.record(status, now);
            attempt.has_ended = attempt.status.state == AttemptState::Ended
                && file(PartsDirectory::ATTEMPT).exists();
        }
        if seen.published.is_none() {
            let path = self.directory.result(number);
            match AttemptRecord::read(&path) {
                Ok(record) => seen.published = record.map(|record| record.attempt),
                Err(error) => seen.failing = failing(path, error),
            }
        }
    }

    /// True if each part was read, and has a result or attempts that look dead or were seen to move
    /// or to end.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        self.parts
            .iter()
            .all(|part| part.is_certain(self.lost_after))
    }

    /// Return all parts at a glance.
    #[must_use]
    pub fn overview(&self, now: Duration) -> PartsOverview {
        let plan = &self.plan;
        let mut all = PartsOverview {
            run_id: plan.run_id.clone(),
            parts: PartCounts {
                planned: plan.nodes,
                ..PartCounts::default()
            },
            items_planned: plan.crawl.ids.len(),
            items: 0,
            items_failed: 0,
            items_per_s: None,
            requests_per_s: 0,
            budget_per_s: plan.crawl.rate.map(|rate| rate.per_second()),
            slots: plan.slots,
            slots_in_use: 0,
            additional_attempts: 0,
            highest_p50: None,
            highest_p99: None,
            unread: None,
            rows: Vec::new(),
        };
        let mut slots = BTreeSet::new();
        for (part, seen) in (0..).zip(&self.parts) {
            let (state, attempt) = seen.state(self.lost_after);
            let counts = &mut all.parts;
            let count = match state {
                PartState::Lost => &mut counts.lost,
                PartState::Unfinished => &mut counts.unfinished,
                PartState::Running => &mut counts.running,
                PartState::Starting => &mut counts.starting,
                PartState::Waiting => &mut counts.waiting,
                PartState::NotBegun => &mut counts.not_begun,
                PartState::Done => &mut counts.done,
            };
            *count += 1;
            match (state, attempt) {
                (PartState::Done, counts) => {
                    all.items = all.items.saturating_add(plan.ids(part).len());
                    let failed = counts.map_or(0, |attempt| attempt.status.failed);
                    all.items_failed = all.items_failed.saturating_add(failed);
                }
                (PartState::Running | PartState::Starting | PartState::Waiting, Some(attempt)) => {
                    let before = attempt.finished_before(plan.ids(part).len());
                    all.items = all
                        .items
                        .saturating_add(before.saturating_add(attempt.status.items));
                    all.items_failed = all.items_failed.saturating_add(attempt.status.failed);
                    if let Some(rate) = attempt.items_per_s().filter(|_| seen.is_moving(attempt)) {
                        *all.items_per_s.get_or_insert(0.0) += rate;
                    }
                }
                _ => {}
            }
            for alive in seen.going_on(self.lost_after) {
                slots.extend(alive.status.slot);
                let is_other = attempt.is_none_or(|attempt| attempt.name != alive.name);
                all.additional_attempts +=
                    u32::from(is_other && alive.status.state == AttemptState::Running);
                if seen.is_moving(alive) {
                    all.requests_per_s = all
                        .requests_per_s
                        .saturating_add(alive.status.requests_per_s);
                    highest(&mut all.highest_p50, part, alive.status.p50_us);
                    highest(&mut all.highest_p99, part, alive.status.p99_us);
                }
            }
            if let (Some(attempt), true) = (attempt, state != PartState::Done) {
                let (name, status) = (attempt.name.clone(), attempt.status.clone());
                let silent_s = now.saturating_sub(attempt.moved_at).as_secs_f64();
                let finished_before = attempt.finished_before(plan.ids(part).len());
                all.rows.push(PartRow {
                    part,
                    state,
                    attempt: name,
                    silent_s,
                    finished_before,
                    status,
                });
            }
            if let Some(Failing { since, path, error }) = &seen.failing {
                let for_s = now.saturating_sub(*since).as_secs_f64();
                let is_damaged = error.kind() == io::ErrorKind::InvalidData;
                let unread = || UnreadParts {
                    parts: 0,
                    path: path.clone(),
                    error: error.to_string(),
                    for_s,
                    is_damaged,
                };
                let longest = all.unread.get_or_insert_with(unread);
                if longest.for_s < for_s {
                    *longest = UnreadParts {
                        parts: longest.parts,
                        ..unread()
                    };
                }
                longest.parts += 1;
            }
        }
        all.slots_in_use = u32::try_from(slots.len()).unwrap_or(u32::MAX);
        all.rows.sort_by_key(|row| (row.state, row.part));
        all
    }
}

fn highest(highest: &mut Option<HighestTime>, part: u32, us: Option<f64>) {
    if let Some(us) = us.filter(|us| highest.is_none_or(|highest| highest.us < *us)) {
        *highest = Some(HighestTime { part, us });
    }
}

#[cfg(test)]
mod tests;
