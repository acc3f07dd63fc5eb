//! All parts of a crawl at a glance, from what their attempts write: which are done, running, waiting or lost, and their total rate.
//!
//! Called by `watch`, look by look. It reads no clock: its caller gives the time, of a clock that only goes forward. It writes nothing.

use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;

use super::status::{AttemptState, AttemptStatus};
use super::{AttemptRecord, PartsDirectory, PlanFile};

/// Most parts that one look reads, of a few small files each. A file server answers thousands of requests a second for all of its users.
pub const MOST_READ: usize = 500;

/// Statuses of an attempt that its rate is computed over, a second apart.
const STATUSES: usize = 10;

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
    /// An attempt waits for a slot or for the common start.
    Waiting,
    /// There is no attempt yet.
    NotBegun,
    /// A part with a result.
    Done,
}

impl PartState {
    /// Name in JSON and in words.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::Unfinished => "unfinished",
            Self::Running => "running",
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
    /// Parts that wait for a slot or for the common start.
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
    /// Its last status.
    pub status: AttemptStatus,
}

/// The highest percentile of the running parts.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct HighestTime {
    /// The part that it is of.
    pub part: u32,
    /// The percentile of its last second, µs.
    pub us: f64,
}

/// All parts at a glance.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PartsOverview {
    /// See [`PlanFile`].
    pub run_id: String,
    /// Numbers of parts.
    pub parts: PartCounts,
    /// Items of the crawl.
    pub items_planned: u64,
    /// Items that have ended, of the attempts that count or may.
    pub items: u64,
    /// Failed ones of these.
    pub items_failed: u64,
    /// Items that end per second, over up to ten seconds of each running attempt; null if none is known for two.
    pub items_per_s: Option<f64>,
    /// Requests per second of all attempts, in the last second of each.
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
    /// Age of the oldest figure, s; null until each part was read.
    pub oldest_s: Option<f64>,
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

/// States of attempts: what one does says more of its part than the death of another one.
const BY_RANK: [PartState; 4] = [PartState::Running, PartState::Waiting, PartState::Unfinished, PartState::Lost];

/// A part, as it was read last.
#[derive(Debug, Clone, Default)]
struct PartSeen {
    /// Time of the last look at it.
    at: Option<Duration>,
    /// Name of the attempt that counts.
    published: Option<String>,
    attempts: Vec<AttemptSeen>,
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

impl PartsWatch {
    /// A watch over `directory`. An attempt that writes nothing for `lost_after` is lost.
    #[must_use]
    pub fn new(directory: PartsDirectory, plan: PlanFile, lost_after: Duration) -> Self {
        let parts = vec![PartSeen::default(); plan.nodes as usize];
        Self { directory, plan, lost_after, parts, next: [0; 2] }
    }

    /// Read up to `most` parts, at least 1: a quarter of them may be of those that nobody crawls.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn look(&mut self, now: Duration, most: usize) -> Result<(), (PathBuf, io::Error)> {
        let (alive, others): (Vec<usize>, Vec<usize>) = (0..self.parts.len())
            .filter(|part| !self.parts[*part].is_settled(self.lost_after))
            .partition(|part| self.parts[*part].is_alive(self.lost_after));
        // Each kind leaves the other what it does not need.
        let for_others = most.div_ceil(4).max(most.saturating_sub(alive.len())).min(others.len());
        let for_alive = most - for_others;
        for (kind, (parts, most)) in [(alive, for_alive), (others, for_others)].into_iter().enumerate() {
            let from = parts.partition_point(|part| *part < self.next[kind]);
            for part in parts[from..].iter().chain(&parts[..from]).take(most) {
                self.read(*part, now)?;
                self.next[kind] = part + 1;
            }
        }
        Ok(())
    }

    fn read(&mut self, part: usize, now: Duration) -> Result<(), (PathBuf, io::Error)> {
        let number = u32::try_from(part).unwrap_or(u32::MAX);
        let place = self.directory.part(number);
        let names = self.directory.attempts(number).map_err(|error| (place, error))?;
        let seen = &mut self.parts[part];
        seen.at = Some(now);
        for name in names {
            let file = |file| self.directory.attempt(number, &name).join(file);
            // A file server may be unable to show a file that is replaced just now.
            let status = AttemptStatus::read(&file(PartsDirectory::STATUS)).ok().flatten();
            let known = seen.attempts.iter().position(|attempt| attempt.name == name);
            let at = known.unwrap_or(seen.attempts.len());
            if known.is_none() {
                seen.attempts.push(AttemptSeen::new(name.clone(), now));
            }
            let attempt = &mut seen.attempts[at];
            attempt.hear(status, now);
            attempt.has_ended = attempt.status.state == AttemptState::Ended && file(PartsDirectory::ATTEMPT).exists();
        }
        if seen.published.is_none() {
            let path = self.directory.result(number);
            seen.published = match AttemptRecord::read(&path) {
                Ok(record) => record.map(|record| record.attempt),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err((path, error)),
                // A file server that hesitates is asked again.
                Err(_) => None,
            };
        }
        Ok(())
    }

    /// True if each part was read, and each attempt that does not look dead was seen to move or to end.
    #[must_use]
    pub fn is_certain(&self) -> bool {
        let is_certain = |seen: &AttemptSeen, at| seen.has_moved || seen.has_ended || seen.is_lost(at, self.lost_after);
        self.parts.iter().all(|part| {
            part.at.is_some_and(|at| part.published.is_some() || part.attempts.iter().all(|seen| is_certain(seen, at)))
        })
    }

    /// Return all parts at a glance.
    #[must_use]
    pub fn overview(&self, now: Duration) -> PartsOverview {
        let plan = &self.plan;
        let mut all = PartsOverview {
            run_id: plan.run_id.clone(),
            parts: PartCounts { planned: plan.nodes, ..PartCounts::default() },
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
            oldest_s: Some(0.0),
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
                PartState::Waiting => &mut counts.waiting,
                PartState::NotBegun => &mut counts.not_begun,
                PartState::Done => &mut counts.done,
            };
            *count += 1;
            match (state, attempt) {
                (PartState::Done, counts) => {
                    all.items += plan.ids(part).len();
                    all.items_failed += counts.map_or(0, |attempt| attempt.status.failed);
                }
                (PartState::Running, Some(attempt)) => {
                    // Those of its part that it does not crawl were saved by an earlier attempt.
                    let saved = plan.ids(part).len().saturating_sub(attempt.status.planned);
                    all.items = all.items.saturating_add(saved.saturating_add(attempt.status.items));
                    all.items_failed = all.items_failed.saturating_add(attempt.status.failed);
                    if let Some(rate) = attempt.items_per_s() {
                        *all.items_per_s.get_or_insert(0.0) += rate;
                    }
                }
                _ => {}
            }
            for alive in seen.alive(self.lost_after) {
                all.requests_per_s = all.requests_per_s.saturating_add(alive.status.requests_per_s);
                slots.extend(alive.status.slot);
                let is_other = attempt.is_none_or(|attempt| attempt.name != alive.name);
                all.additional_attempts += u32::from(is_other && alive.status.state == AttemptState::Running);
                highest(&mut all.highest_p50, part, alive.status.p50_us);
                highest(&mut all.highest_p99, part, alive.status.p99_us);
            }
            if let (Some(attempt), true) = (attempt, state != PartState::Done) {
                let (name, status) = (attempt.name.clone(), attempt.status.clone());
                let silent_s = now.saturating_sub(attempt.moved_at).as_secs_f64();
                all.rows.push(PartRow { part, state, attempt: name, silent_s, status });
            }
            if !seen.is_settled(self.lost_after) {
                let age_s = seen.at.map(|at| now.saturating_sub(at).as_secs_f64());
                all.oldest_s = all.oldest_s.zip(age_s).map(|(oldest, age)| oldest.max(age));
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

impl PartSeen {
    /// Attempts that move. One that is lost was last read so long after it moved.
    fn alive(&self, lost_after: Duration) -> impl Iterator<Item = &AttemptSeen> {
        let at = self.at.unwrap_or_default();
        self.attempts.iter().filter(move |attempt| !attempt.has_ended && !attempt.is_lost(at, lost_after))
    }

    fn is_alive(&self, lost_after: Duration) -> bool {
        self.alive(lost_after).next().is_some()
    }

    /// True if nothing about it will change.
    fn is_settled(&self, lost_after: Duration) -> bool {
        self.published.is_some() && !self.is_alive(lost_after)
    }

    /// Return its state, and the attempt that says so; none if that is unknown.
    fn state(&self, lost_after: Duration) -> (PartState, Option<&AttemptSeen>) {
        if let Some(name) = &self.published {
            return (PartState::Done, self.attempts.iter().find(|attempt| attempt.name == *name));
        }
        let at = self.at.unwrap_or_default();
        let state = |attempt: &AttemptSeen| match attempt.status.state {
            _ if attempt.has_ended => PartState::Unfinished,
            _ if attempt.is_lost(at, lost_after) => PartState::Lost,
            AttemptState::Waiting => PartState::Waiting,
            AttemptState::Running | AttemptState::Ended => PartState::Running,
        };
        BY_RANK
            .into_iter()
            .find_map(|wanted| {
                // The newest one: it may be the last that is still there.
                let of_it = self.attempts.iter().filter(|attempt| state(attempt) == wanted);
                of_it.max_by_key(|attempt| attempt.moved_at).map(|attempt| (wanted, Some(attempt)))
            })
            .unwrap_or((PartState::NotBegun, None))
    }
}

impl AttemptSeen {
    fn new(name: String, now: Duration) -> Self {
        let status = AttemptStatus::default();
        Self { name, status, moved_at: now, has_moved: false, has_ended: false, course: VecDeque::new() }
    }

    /// Take in a status that was read now; none if there is none.
    fn hear(&mut self, status: Option<AttemptStatus>, now: Duration) {
        let Some(status) = status.filter(|status| status.beat != self.status.beat || self.course.is_empty()) else {
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

    /// True if, at a look at this time, it had written nothing for too long.
    fn is_lost(&self, at: Duration, lost_after: Duration) -> bool {
        at.saturating_sub(self.moved_at) >= lost_after
    }

    fn items_per_s(&self) -> Option<f64> {
        let ((first_us, first), (last_us, last)) = (self.course.front()?, self.course.back()?);
        let time_us = last_us.checked_sub(*first_us).filter(|time_us| *time_us > 0)?;
        Some(last.saturating_sub(*first) as f64 * 1e6 / time_us as f64)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use crawlmark_harness::fixtures;
    use crawlmark_harness::plan::RunPlan;
    use crawlmark_harness::units::IdRange;
    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    const LOST_AFTER: Duration = Duration::from_secs(30);

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    /// A crawl of ten items in each part.
    fn crawl(parts: u32) -> (TempDir, PartsWatch) {
        let home = tempfile::tempdir().unwrap();
        let ids = IdRange { start: 0, end: u64::from(parts) * 10 };
        let plan = PlanFile::new(RunPlan { ids, ..fixtures::plan() }, parts, 2.min(parts));
        let watch = PartsWatch::new(PartsDirectory::at(home.path()), plan, LOST_AFTER);
        (home, watch)
    }

    fn status(state: AttemptState, beat: u64) -> AttemptStatus {
        let (at_us, items, requests_per_s) = (beat * 1_000_000, beat, 7);
        let slot = (state == AttemptState::Running).then_some(1);
        AttemptStatus {
            state,
            at_us,
            beat,
            slot,
            planned: 8,
            items,
            requests_per_s,
            p99_us: Some(beat as f64),
            ..Default::default()
        }
    }

    fn write(home: &TempDir, (part, attempt): (u32, &str), status: &AttemptStatus) {
        let place = PartsDirectory::at(home.path()).attempt(part, attempt);
        fs::create_dir_all(&place).unwrap();
        fs::write(place.join(PartsDirectory::STATUS), serde_json::to_string(status).unwrap()).unwrap();
    }

    fn states(watch: &PartsWatch) -> Vec<(u32, PartState)> {
        watch.overview(seconds(0)).rows.iter().map(|row| (row.part, row.state)).collect()
    }

    #[test]
    fn a_part_is_lost_when_its_beat_stays_and_not_because_of_its_clock() {
        let (home, mut watch) = crawl(4);
        write(&home, (0, "a"), &status(AttemptState::Running, 5));
        write(&home, (1, "b"), &status(AttemptState::Running, 5));
        write(&home, (2, "c"), &status(AttemptState::Waiting, 5));
        watch.look(seconds(0), 100).unwrap();
        assert!(!watch.is_certain(), "nothing moved yet");
        assert_eq!(states(&watch), [(0, PartState::Running), (1, PartState::Running), (2, PartState::Waiting)]);
        for at in [10, 29, 31] {
            // The clock of its machine stands still, and that says nothing.
            write(&home, (0, "a"), &AttemptStatus { at_us: 1, ..status(AttemptState::Running, at) });
            watch.look(seconds(at), 100).unwrap();
        }
        assert_eq!(states(&watch), [(1, PartState::Lost), (2, PartState::Lost), (0, PartState::Running)]);
        assert!(watch.is_certain());
        let all = watch.overview(seconds(31));
        assert_eq!((all.parts.lost, all.parts.running, all.parts.not_begun, all.slots_in_use), (2, 1, 1, 1));
        // Two of its ten items were saved before.
        assert_eq!((all.items, all.requests_per_s, all.highest_p99), (33, 7, Some(HighestTime { part: 0, us: 31.0 })));

        // Another attempt takes the part over, and then the first one is there again.
        write(&home, (1, "d"), &status(AttemptState::Running, 1));
        watch.look(seconds(32), 100).unwrap();
        assert_eq!(watch.overview(seconds(32)).additional_attempts, 0);
        write(&home, (1, "b"), &status(AttemptState::Running, 6));
        watch.look(seconds(33), 100).unwrap();
        let all = watch.overview(seconds(33));
        assert_eq!((all.parts.lost, all.parts.running, all.additional_attempts, all.requests_per_s), (1, 2, 1, 21));
    }

    #[test]
    fn a_part_whose_attempt_ended_has_a_result_or_is_unfinished() {
        let (home, mut watch) = crawl(3);
        for part in 0..2 {
            write(&home, (part, "a"), &AttemptStatus { failed: 3, ..status(AttemptState::Ended, 9) });
        }
        watch.look(seconds(0), 100).unwrap();
        assert_eq!(states(&watch), [(0, PartState::Running), (1, PartState::Running)], "they still write");
        let directory = PartsDirectory::at(home.path());
        fs::write(directory.attempt(0, "a").join(PartsDirectory::ATTEMPT), "{}").unwrap();
        watch.look(seconds(1), 100).unwrap();
        assert_eq!(states(&watch), [(0, PartState::Unfinished), (1, PartState::Running)]);
        fs::write(directory.result(0), "{}").unwrap();
        let (path, _) = watch.look(seconds(2), 100).unwrap_err();
        assert_eq!(path, directory.result(0), "a damaged result is not passed over");
    }

    #[test]
    fn the_rate_of_items_is_that_of_the_last_ten_seconds() {
        let (home, mut watch) = crawl(1);
        assert_eq!(watch.overview(seconds(0)).items_per_s, None);
        for beat in 1..=20 {
            let items = beat.min(15) * 4;
            write(&home, (0, "a"), &AttemptStatus { items, ..status(AttemptState::Running, beat) });
            watch.look(seconds(beat), 1).unwrap();
        }
        assert_eq!(watch.overview(seconds(20)).items_per_s, Some(16.0 / 9.0));
    }

    proptest! {
        #[test]
        fn each_look_reads_a_bounded_number_of_parts_and_none_is_forgotten(
            parts in 1..60_u32, alive in 0..60_u32, most in 1..30_usize,
        ) {
            let (home, mut watch) = crawl(parts);
            let alive = alive.min(parts);
            for part in 0..alive {
                write(&home, (part, "a"), &status(AttemptState::Running, 1));
            }
            // Three quarters are kept for what is alive, one for the rest.
            let looks = (parts as usize).div_ceil(most) * 5 + 5;
            for look in 1..=looks {
                let now = Duration::from_millis(look as u64);
                watch.look(now, most).unwrap();
                let read = watch.parts.iter().filter(|part| part.at == Some(now)).count();
                prop_assert!(read <= most, "{} of {}", read, most);
            }
            prop_assert!(watch.parts.iter().all(|part| part.at.is_some()), "{} looks", looks);
            prop_assert_eq!(watch.overview(seconds(1)).parts.running, alive);
        }
    }
}
