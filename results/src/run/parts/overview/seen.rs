//! A part and its attempts, as they were read last.

use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::PartState;
use crate::run::parts::status::{AttemptState, AttemptStatus};

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

/// A part, as it was read last.
#[derive(Debug, Default)]
pub(super) struct PartSeen {
    /// Time of the last look at it that did not fail.
    pub(super) at: Option<Duration>,
    /// Name of the attempt that counts.
    pub(super) published: Option<String>,
    pub(super) attempts: Vec<AttemptSeen>,
    /// First of its failures, since which all looks failed.
    pub(super) failing: Option<Failing>,
}

/// Failure to read a part.
#[derive(Debug)]
pub(super) struct Failing {
    pub(super) since: Duration,
    pub(super) path: PathBuf,
    pub(super) error: io::Error,
}

/// An attempt, as it was read last.
#[derive(Debug, Clone)]
pub(super) struct AttemptSeen {
    pub(super) name: String,
    pub(super) status: AttemptStatus,
    /// Time at which its beat was first seen to be what it is.
    pub(super) moved_at: Duration,
    /// True once it was seen to move.
    pub(super) has_moved: bool,
    /// True if it left an `attempt.json`.
    pub(super) has_ended: bool,
    /// Times by its own clock, µs, and items that had ended by then.
    course: VecDeque<(u64, u64)>,
}

impl PartSeen {
    /// True if an attempt has been silent for too long, as of the last look.
    pub(super) fn is_lost(&self, attempt: &AttemptSeen, lost_after: Duration) -> bool {
        let most = if self.published.is_some() {
            lost_after.min(ADVANCING)
        } else {
            lost_after
        };
        self.at.unwrap_or_default().saturating_sub(attempt.moved_at) >= most
    }

    /// True if an attempt wrote a status lately, as of the last look.
    pub(super) fn is_moving(&self, attempt: &AttemptSeen) -> bool {
        self.at.unwrap_or_default().saturating_sub(attempt.moved_at) < ADVANCING
    }

    /// Attempts that may move.
    fn alive(&self, lost_after: Duration) -> impl Iterator<Item = &AttemptSeen> {
        self.attempts
            .iter()
            .filter(move |attempt| !attempt.has_ended && !self.is_lost(attempt, lost_after))
    }

    /// Attempts that go on: beside one that is published, those that were seen to move.
    pub(super) fn going_on(&self, lost_after: Duration) -> impl Iterator<Item = &AttemptSeen> {
        self.alive(lost_after)
            .filter(|attempt| self.published.is_none() || attempt.has_moved)
    }

    pub(super) fn is_alive(&self, lost_after: Duration) -> bool {
        self.alive(lost_after).next().is_some()
    }

    /// True if nothing about it will change.
    pub(super) fn is_settled(&self, lost_after: Duration) -> bool {
        self.published.is_some() && !self.is_alive(lost_after)
    }

    /// True if it was read, and has a result or attempts that look dead or were seen to move or to
    /// end.
    pub(super) fn is_certain(&self, lost_after: Duration) -> bool {
        let is_certain =
            |seen: &AttemptSeen| seen.has_moved || seen.has_ended || self.is_lost(seen, lost_after);
        self.at.is_some()
            && self.failing.is_none()
            && (self.published.is_some() || self.attempts.iter().all(is_certain))
    }

    /// Return its state, and the attempt that says so; none if that is unknown.
    pub(super) fn state(&self, lost_after: Duration) -> (PartState, Option<&AttemptSeen>) {
        if let Some(name) = &self.published {
            return (
                PartState::Done,
                self.attempts.iter().find(|attempt| attempt.name == *name),
            );
        }
        let state = |attempt: &AttemptSeen| match attempt.status.state {
            _ if attempt.has_ended => PartState::Unfinished,
            _ if self.is_lost(attempt, lost_after) => PartState::Lost,
            AttemptState::Waiting if attempt.status.slot.is_some() => PartState::Starting,
            AttemptState::Waiting => PartState::Waiting,
            AttemptState::Running | AttemptState::Ended => PartState::Running,
        };
        BY_RANK
            .into_iter()
            .find_map(|wanted| {
                // The newest one: it may be the last that is still there.
                let of_it = self
                    .attempts
                    .iter()
                    .filter(|attempt| state(attempt) == wanted);
                of_it
                    .max_by_key(|attempt| attempt.moved_at)
                    .map(|attempt| (wanted, Some(attempt)))
            })
            .unwrap_or((PartState::NotBegun, None))
    }
}

impl AttemptSeen {
    pub(super) fn new(name: String, now: Duration) -> Self {
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
    pub(super) fn record(&mut self, status: Option<AttemptStatus>, now: Duration) {
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
    pub(super) fn finished_before(&self, items: u64) -> u64 {
        if self.course.is_empty() {
            0
        } else {
            items.saturating_sub(self.status.planned)
        }
    }

    pub(super) fn items_per_s(&self) -> Option<f64> {
        let ((first_us, first), (last_us, last)) = (self.course.front()?, self.course.back()?);
        let time_us = last_us
            .checked_sub(*first_us)
            .filter(|time_us| *time_us > 0)?;
        Some(last.saturating_sub(*first) as f64 * 1e6 / time_us as f64)
    }
}
