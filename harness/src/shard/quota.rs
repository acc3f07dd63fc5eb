//! Pace at which the rest of a quota lasts until its renewal, so that the target need not refuse
//! requests.
//!
//! Called by `ThrottlePauses`. It must not read a clock.

use std::time::Duration;

use crate::clock::{Nanos, duration_ns};
use crate::pacer::{Gcra, Pace};
use crate::sample::Quota;

/// Quotas smaller than this are no quotas to plan with: what is left of them is refilled before it
/// could be spread.
const SMALLEST_QUOTA: u64 = 10;

/// A reset this near says little of a small quota: it is told in whole seconds, and a bucket of one
/// request that fills a hundred times a second has nothing left after each.
const ROUNDED: Duration = Duration::from_secs(1);

/// Lateness up to which a request under a quota's pace does not cost a later one its place.
const CATCH_UP_NS: u64 = 10_000_000;

/// True if there is more of `quota` within a second, as far as it says: a target that lets 200
/// requests through in that time says so as well. An adaptive run finds out how many; a pause or a
/// pace would keep it from trying.
pub(super) fn is_renewed_at_once(quota: &Quota) -> bool {
    quota
        .resets_in
        .is_some_and(|resets_in| resets_in <= ROUNDED)
}

/// The pace at which what is left of a quota lasts until there is more.
///
/// The first half is free: a quota that is hardly used needs no pace. From there on what is left is
/// spread over the time that it has to last, each shard taking its part.
#[derive(Debug)]
pub(super) struct QuotaPace {
    /// Number of shards that share it.
    siblings: u32,
    /// The longest that it may keep a request waiting.
    longest: Duration,
    /// The most that was ever left, for targets that do not tell how many there are in all.
    most: u64,
    interval: Duration,
    until: Nanos,
    schedule: Gcra,
}

impl QuotaPace {
    /// None yet, of a quota that so many shards share.
    pub(super) const fn new(siblings: u32, longest: Duration) -> Self {
        Self {
            siblings,
            longest,
            most: 0,
            interval: Duration::ZERO,
            until: Nanos(0),
            schedule: Gcra::new(Nanos(0)),
        }
    }

    /// Takes in what is left. Some when nothing is, and for how long.
    pub(super) fn update(&mut self, at: Nanos, quota: Quota) -> Option<Duration> {
        self.most = self.most.max(quota.limit.unwrap_or(quota.remaining));
        let most = quota.limit.unwrap_or(self.most);
        let resets_in = quota.resets_in.filter(|resets_in| !resets_in.is_zero())?;
        let left = u32::try_from(quota.remaining).unwrap_or(u32::MAX);
        if left == 0 {
            let is_small = quota.limit.is_some_and(|limit| limit < SMALLEST_QUOTA);
            return (!is_small || resets_in > ROUNDED).then_some(resets_in);
        }
        if most < SMALLEST_QUOTA {
            return None;
        }
        if quota.remaining.saturating_mul(2) > most {
            self.until = at;
        } else {
            self.interval = (resets_in / left)
                .saturating_mul(self.siblings)
                .min(self.longest);
            self.until = at.plus(resets_in.min(self.longest));
        }
        None
    }

    /// When the next request may go, or since when. Going is not charged.
    pub(super) fn poll(&self, now: Nanos) -> Pace {
        let due = self.schedule.allowed_since(CATCH_UP_NS).min(self.until);
        if due <= now {
            Pace::Go(due)
        } else {
            Pace::Wait(due)
        }
    }

    /// Counts a request that goes at `now`.
    pub(super) fn admitted(&mut self, now: Nanos) {
        if now < self.until {
            self.schedule.admit(now, duration_ns(self.interval));
        }
    }
}
