//! All parts of a crawl at a glance, from what their attempts write: which are done, running,
//! waiting or lost, and their total rate.
//!
//! Called by `watch`, look by look. It reads no clock: its caller gives the time, of a clock that
//! only goes forward. It writes nothing.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::status::{AttemptState, AttemptStatus};
use super::{AttemptRecord, PartsDirectory, PlanFile};

/// Statuses of an attempt that its rate is computed over, a second apart.
const STATUSES: usize = 10;

/// Time without a status after which nothing is known of the last second of an attempt: a few of
/// those that it writes each second. One beside a published one is dead then: nothing depends on it
/// any more.
const ADVANCING: Duration = Duration::from_secs(5);

/// States of attempts: what one does says more of its part than the death of another one.
const BY_RANK: [PartState; 5] = [
    PartState::Running,
    PartState::Starting,
    PartState::Waiting,
    PartState::Unfinished,
    PartState::Lost,
];

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

impl PartCounts {
    /// Return the number of parts in a state.
    pub fn of(&mut self, state: PartState) -> &mut u32 {
        match state {
            PartState::Lost => &mut self.lost,
            PartState::Unfinished => &mut self.unfinished,
            PartState::Running => &mut self.running,
            PartState::Starting => &mut self.starting,
            PartState::Waiting => &mut self.waiting,
            PartState::NotBegun => &mut self.not_begun,
            PartState::Done => &mut self.done,
        }
    }
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
    /// Directory or file of one that is damaged, or has failed for the longest time.
    pub path: PathBuf,
    /// Its last error.
    pub error: String,
    /// Time since its first one, s.
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
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
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
}

impl PartsWatch {
    /// A watch over `directory`. An attempt that writes nothing for `lost_after` is lost.
    pub fn new(directory: PartsDirectory, plan: PlanFile, lost_after: Duration) -> Self {
        let parts = (0..plan.nodes).map(|_| PartSeen::default()).collect();
        Self {
            directory,
            plan,
            lost_after,
            parts,
        }
    }

    /// Read all parts that may change, and return their number. A part that cannot be read, or whose
    /// result cannot, stays as it was ([`PartsOverview::unread`]).
    pub fn look(&mut self, now: Duration) -> usize {
        let mut read = 0;
        for part in 0..self.plan.nodes {
            if !self.parts[part as usize].is_settled(self.lost_after) {
                self.read(part, now);
                read += 1;
            }
        }
        read
    }

    fn read(&mut self, part: u32, now: Duration) {
        let seen = &mut self.parts[part as usize];
        let before = seen.failing.take();
        let since = before.map_or(now, |before| before.since);
        let failing = |path, error| Some(Failing { since, path, error });
        let names = match self.directory.attempts(part) {
            Ok(names) => names,
            Err(error) => {
                seen.failing = failing(self.directory.part(part), error);
                return;
            }
        };
        seen.at = Some(now);
        for name in names {
            let directory = self.directory.attempt(part, &name);
            // A file server may be unable to show a file that is replaced just now.
            let status = AttemptStatus::read(&directory.join(PartsDirectory::STATUS))
                .ok()
                .flatten();
            let known = seen.attempts.iter().position(|one| one.name == name);
            let at = known.unwrap_or_else(|| {
                seen.attempts.push(AttemptSeen::new(name.clone(), now));
                seen.attempts.len() - 1
            });
            let attempt = &mut seen.attempts[at];
            attempt.record(status, now);
            attempt.has_ended = attempt.status.state == AttemptState::Ended
                && directory.join(PartsDirectory::ATTEMPT).exists();
        }
        if seen.published.is_none() {
            let path = self.directory.result(part);
            match AttemptRecord::read(&path) {
                Ok(record) => seen.published = record.map(|record| record.attempt),
                Err(error) => seen.failing = failing(path, error),
            }
        }
    }

    /// True if each part was read, and has a result or attempts that look dead or were seen to move
    /// or to end.
    pub fn is_certain(&self) -> bool {
        self.parts
            .iter()
            .all(|part| part.is_certain(self.lost_after))
    }

    /// Return all parts at a glance.
    pub fn overview(&self, now: Duration) -> PartsOverview {
        let plan = &self.plan;
        let mut all = PartsOverview {
            run_id: plan.run_id.clone(),
            parts: PartCounts {
                planned: plan.nodes,
                ..PartCounts::default()
            },
            items_planned: plan.crawl.ids.len(),
            budget_per_s: plan.crawl.rate.map(|rate| rate.per_second()),
            slots: plan.slots,
            ..PartsOverview::default()
        };
        let mut slots = BTreeSet::new();
        for (part, seen) in (0..).zip(&self.parts) {
            let (state, attempt) = seen.state(self.lost_after);
            *all.parts.of(state) += 1;
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
                all.rows.push(PartRow {
                    part,
                    state,
                    attempt: attempt.name.clone(),
                    silent_s: now.saturating_sub(attempt.moved_at).as_secs_f64(),
                    finished_before: attempt.finished_before(plan.ids(part).len()),
                    status: attempt.status.clone(),
                });
            }
        }
        let failing: Vec<&Failing> = self
            .parts
            .iter()
            .filter_map(|part| part.failing.as_ref())
            .collect();
        let worst = failing
            .iter()
            .max_by_key(|one| (one.is_damaged(), now.saturating_sub(one.since)));
        all.unread = worst.map(|worst| UnreadParts {
            parts: u32::try_from(failing.len()).unwrap_or(u32::MAX),
            path: worst.path.clone(),
            error: worst.error.to_string(),
            for_s: now.saturating_sub(worst.since).as_secs_f64(),
            is_damaged: worst.is_damaged(),
        });
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

/// A part, as it was read last.
#[derive(Debug, Default)]
struct PartSeen {
    /// Time of the last look at it that did not fail.
    at: Option<Duration>,
    /// Name of the attempt that counts.
    published: Option<String>,
    attempts: Vec<AttemptSeen>,
    /// First of its failures, since which all looks failed.
    failing: Option<Failing>,
}

/// Failure to read a part.
#[derive(Debug)]
struct Failing {
    since: Duration,
    path: PathBuf,
    error: io::Error,
}

/// An attempt, as it was read last.
#[derive(Debug, Clone)]
struct AttemptSeen {
    name: String,
    status: AttemptStatus,
    /// Time at which its beat was first seen to be what it is.
    moved_at: Duration,
    /// True once it was seen to move.
    has_moved: bool,
    /// True if it left an `attempt.json`.
    has_ended: bool,
    /// Times by its own clock, µs, and items that had ended by then.
    course: VecDeque<(u64, u64)>,
}

impl Failing {
    fn is_damaged(&self) -> bool {
        self.error.kind() == io::ErrorKind::InvalidData
    }
}

impl PartSeen {
    /// True if an attempt has been silent for too long, as of the last look.
    fn is_lost(&self, attempt: &AttemptSeen, lost_after: Duration) -> bool {
        let most = if self.published.is_some() {
            lost_after.min(ADVANCING)
        } else {
            lost_after
        };
        self.at.unwrap_or_default().saturating_sub(attempt.moved_at) >= most
    }

    /// True if an attempt wrote a status lately, as of the last look.
    fn is_moving(&self, attempt: &AttemptSeen) -> bool {
        self.at.unwrap_or_default().saturating_sub(attempt.moved_at) < ADVANCING
    }

    /// Attempts that may move.
    fn alive(&self, lost_after: Duration) -> impl Iterator<Item = &AttemptSeen> {
        self.attempts
            .iter()
            .filter(move |attempt| !attempt.has_ended && !self.is_lost(attempt, lost_after))
    }

    /// Attempts that go on: beside one that is published, those that were seen to move.
    fn going_on(&self, lost_after: Duration) -> impl Iterator<Item = &AttemptSeen> {
        self.alive(lost_after)
            .filter(|attempt| self.published.is_none() || attempt.has_moved)
    }

    fn is_alive(&self, lost_after: Duration) -> bool {
        self.alive(lost_after).next().is_some()
    }

    /// True if nothing about it will change.
    fn is_settled(&self, lost_after: Duration) -> bool {
        self.published.is_some() && !self.is_alive(lost_after)
    }

    /// True if it was read, and has a result or attempts that look dead or were seen to move or to
    /// end.
    fn is_certain(&self, lost_after: Duration) -> bool {
        self.at.is_some()
            && self.failing.is_none()
            && (self.published.is_some()
                || self
                    .attempts
                    .iter()
                    .all(|seen| seen.has_moved || seen.has_ended || self.is_lost(seen, lost_after)))
    }

    /// Return its state, and the attempt that says so; none if that is unknown.
    fn state(&self, lost_after: Duration) -> (PartState, Option<&AttemptSeen>) {
        if let Some(name) = &self.published {
            return (
                PartState::Done,
                self.attempts.iter().find(|attempt| attempt.name == *name),
            );
        }
        let states = self.attempts.iter().map(|attempt| {
            let state = match attempt.status.state {
                _ if attempt.has_ended => PartState::Unfinished,
                _ if self.is_lost(attempt, lost_after) => PartState::Lost,
                AttemptState::Waiting if attempt.status.slot.is_some() => PartState::Starting,
                AttemptState::Waiting => PartState::Waiting,
                AttemptState::Running | AttemptState::Ended => PartState::Running,
            };
            (state, Some(attempt))
        });
        // The newest one of the first rank: it may be the last that is still there.
        BY_RANK
            .into_iter()
            .find_map(|wanted| {
                states
                    .clone()
                    .filter(|(state, _)| *state == wanted)
                    .max_by_key(|(_, attempt)| attempt.map(|attempt| attempt.moved_at))
            })
            .unwrap_or((PartState::NotBegun, None))
    }
}

impl AttemptSeen {
    fn new(name: String, now: Duration) -> Self {
        let status = AttemptStatus::default();
        Self {
            name,
            status,
            moved_at: now,
            has_moved: false,
            has_ended: false,
            course: VecDeque::new(),
        }
    }

    /// Record a status that was read now; none if there is none.
    fn record(&mut self, status: Option<AttemptStatus>, now: Duration) {
        let Some(status) =
            status.filter(|status| status.beat != self.status.beat || self.course.is_empty())
        else {
            return;
        };
        self.has_moved = !self.course.is_empty();
        self.moved_at = now;
        self.course.push_back((status.at_us, status.items));
        if self.course.len() > STATUSES {
            self.course.pop_front();
        }
        self.status = status;
    }

    /// Return the items of its part of `items` that an earlier attempt had saved: those that it
    /// does not crawl. 0 before its first status.
    fn finished_before(&self, items: u64) -> u64 {
        if self.course.is_empty() {
            0
        } else {
            items.saturating_sub(self.status.planned)
        }
    }

    fn items_per_s(&self) -> Option<f64> {
        let ((first_us, first), (last_us, last)) = (self.course.front()?, self.course.back()?);
        let time_us = last_us
            .checked_sub(*first_us)
            .filter(|time_us| *time_us > 0)?;
        Some(last.saturating_sub(*first) as f64 * 1e6 / time_us as f64)
    }
}

#[cfg(test)]
mod tests;
