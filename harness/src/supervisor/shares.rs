//! Shares of the budget that move from shards that cannot use theirs to shards that could use more.
//!
//! At no moment do the shares add up to more than the whole: a share is raised only after the
//! shards that give up theirs have confirmed it. Called by the supervisor's loop; it must not send
//! to shards itself.

use std::time::Duration;

use crate::pacer::Share;
use crate::plan::split_share;
use crate::wire::Progress;

/// A shard is judged by what it did in at least this long: shorter looks see bursts.
const LOOK: Duration = Duration::from_millis(500);

/// A shard that waited for its budget for more than this part of a look could use more of it. With
/// few connections most of its time goes into requests, whatever its budget.
const STARVED: f64 = 0.1;

/// A shard that waited for its budget for less than this part of a look has more of it than it
/// uses.
const SATED: f64 = 0.02;

/// Multiple of its use that a shard keeps if it does not use its whole share: what it used, and a
/// fifth for what it might.
const ROOM: f64 = 1.2;

/// A change smaller than this part of an equal share is not worth a message.
const WORTH_MOVING: f64 = 0.1;

/// Every shard that works keeps this part of an equal share: enough to show that it could use more.
const LEAST: f64 = 0.05;

/// The shares of a budget.
#[derive(Debug)]
pub(super) struct Shares {
    given: Vec<u32>,
    looked: Vec<Option<Progress>>,
    moving: Option<Move>,
    moves: u64,
}

/// A move of shares that has begun.
#[derive(Debug)]
struct Move {
    target: Vec<u32>,
    /// Shards that were told to use less and have not confirmed it.
    awaited: Vec<usize>,
}

/// Demand of a shard for its share.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Demand {
    /// The shard could use more.
    More,
    /// The shard uses no more than this.
    AtMost(u32),
}

/// New share of a shard, to be sent to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ShareUpdate {
    /// Number of the shard.
    pub(super) shard: usize,
    /// Its share from now on.
    pub(super) share: u32,
}

/// A shard as far as its budget is concerned.
#[derive(Debug)]
pub(super) enum User<'a> {
    /// At work; the progress that it reported last.
    Works(&'a Progress),
    /// Its process is gone or has no more attempts to make: nothing of it can send any more.
    Gone,
}

impl Shares {
    /// Equal shares for `shards`.
    pub(super) fn new(shards: usize) -> Self {
        let (whole, parts) = (u64::from(Share::WHOLE.0), shards as u64);
        let equal = |i| u32::try_from(split_share(whole, parts, i)).unwrap_or(u32::MAX);
        Self {
            given: (0..parts).map(equal).collect(),
            looked: vec![None; shards],
            moving: None,
            moves: 0,
        }
    }

    /// Return the number of times that shares were moved.
    pub(super) const fn moves(&self) -> u64 {
        self.moves
    }

    /// Shard `i` keeps within `share` now. Returns whom to tell what.
    pub(super) fn kept(&mut self, i: usize, share: u32) -> Vec<ShareUpdate> {
        self.given[i] = share;
        if let Some(moving) = &mut self.moving
            && moving.target[i] == share
        {
            moving.awaited.retain(|awaited| *awaited != i);
        }
        self.raise()
    }

    /// Shard `i` is gone, and keeps within anything.
    fn gone(&mut self, i: usize) {
        if let Some(Move { target, awaited }) = &mut self.moving
            && awaited.contains(&i)
        {
            awaited.retain(|awaited| *awaited != i);
            self.given[i] = target[i];
        }
    }

    /// Another process takes the place of shard `i`, which is gone. Returns the share that it has
    /// to keep within.
    pub(super) fn replaced(&mut self, i: usize) -> u32 {
        self.gone(i);
        self.looked[i] = None;
        self.given[i]
    }

    /// Looks at what the shards do with their shares. Returns whom to tell what; `per_s` is the
    /// whole budget's rate.
    pub(super) fn look(&mut self, users: &[User<'_>], per_s: f64) -> Vec<ShareUpdate> {
        if self.moving.is_some() {
            (0..users.len())
                .filter(|i| matches!(users[*i], User::Gone))
                .for_each(|i| self.gone(i));
            return self.raise();
        }
        let Some(demands) = self.demands(users, per_s) else {
            return Vec::new();
        };
        if !demands.contains(&Demand::More) {
            return Vec::new();
        }
        let target = fill(&demands);
        let worth = f64::from(Share::WHOLE.0) / self.given.len() as f64 * WORTH_MOVING;
        let changes = |i: &usize| f64::from(target[*i].abs_diff(self.given[*i])) > worth;
        if !(0..target.len()).any(|i| changes(&i)) {
            return Vec::new();
        }
        self.moves += 1;
        let lower: Vec<usize> = (0..target.len())
            .filter(|i| target[*i] < self.given[*i])
            .collect();
        let awaited: Vec<usize> = lower
            .iter()
            .copied()
            .filter(|i| matches!(users[*i], User::Works(_)))
            .collect();
        for i in lower.iter().filter(|i| !awaited.contains(i)) {
            self.given[*i] = target[*i];
        }
        let mut tell: Vec<ShareUpdate> = awaited
            .iter()
            .map(|i| ShareUpdate {
                shard: *i,
                share: target[*i],
            })
            .collect();
        self.moving = Some(Move { target, awaited });
        tell.extend(self.raise());
        tell
    }

    /// Return the demand of each shard; none as long as one has not been looked at for long enough.
    fn demands(&mut self, users: &[User<'_>], per_s: f64) -> Option<Vec<Demand>> {
        let mut demands = Vec::with_capacity(users.len());
        for (looked, user) in self.looked.iter_mut().zip(users) {
            if let User::Works(progress) = user {
                looked.get_or_insert_with(|| (*progress).clone());
            }
        }
        for (i, user) in users.iter().enumerate() {
            let (User::Works(progress), Some(before)) = (user, &self.looked[i]) else {
                demands.push(Demand::AtMost(0));
                continue;
            };
            let looked_ns = progress.at.since(before.at);
            if looked_ns < u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX) {
                return None;
            }
            demands.push(demand(before, progress, per_s, self.given[i], users.len()));
        }
        for (looked, user) in self.looked.iter_mut().zip(users) {
            if let User::Works(progress) = user {
                *looked = Some((*progress).clone());
            }
        }
        Some(demands)
    }

    /// Raises shares once everybody who pays for it has said so.
    fn raise(&mut self) -> Vec<ShareUpdate> {
        let Some(moving) = self.moving.take_if(|moving| moving.awaited.is_empty()) else {
            return Vec::new();
        };
        let raised = (0..self.given.len()).filter(|i| moving.target[*i] > self.given[*i]);
        let tell: Vec<ShareUpdate> = raised
            .map(|shard| ShareUpdate {
                shard,
                share: moving.target[shard],
            })
            .collect();
        for ShareUpdate { shard, share } in &tell {
            self.given[*shard] = *share;
        }
        tell
    }
}

fn demand(before: &Progress, now: &Progress, per_s: f64, given: u32, shards: usize) -> Demand {
    let looked = now.at.since(before.at) as f64;
    let held = now.binding.without(&before.binding);
    let starved = held.rate_ns as f64 / looked;
    if starved > STARVED {
        return Demand::More;
    }
    // A shard that waits because the target said so shows nothing about what it could use.
    if starved > SATED || held.pause_ns > 0 {
        return Demand::AtMost(given);
    }
    let attempts = now
        .counters
        .requests
        .attempts
        .saturating_sub(before.counters.requests.attempts) as f64;
    let whole = f64::from(Share::WHOLE.0);
    let used = attempts / (looked / 1e9) / per_s * whole;
    let least = whole / shards as f64 * LEAST;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "between nothing and what is given"
    )]
    Demand::AtMost((used * ROOM).max(least).min(f64::from(given)) as u32)
}

/// Shares that add up to the whole: everybody gets what it can use at most, and those that could
/// use more get equal shares of the rest, but no less than those that can use less (max-min
/// fairness).
fn fill(demands: &[Demand]) -> Vec<u32> {
    // A shard that was never told anything has an equal share exactly, which may be a fraction more
    // than a whole number.
    let mut rest = u64::from(Share::WHOLE.0) - demands.len() as u64;
    let mut open: Vec<usize> = (0..demands.len()).collect();
    let mut filled = vec![0; demands.len()];
    loop {
        let level = rest / open.len().max(1) as u64;
        let (sated, hungry): (Vec<usize>, Vec<usize>) = open.iter().partition(
            |i| matches!(demands[**i], Demand::AtMost(most) if u64::from(most) <= level),
        );
        for i in &sated {
            if let Demand::AtMost(most) = demands[*i] {
                filled[*i] = most;
                rest -= u64::from(most);
            }
        }
        if sated.is_empty() {
            for (k, i) in hungry.iter().enumerate() {
                filled[*i] = u32::try_from(split_share(rest, hungry.len() as u64, k as u64))
                    .unwrap_or(u32::MAX);
            }
            return filled;
        }
        open = hungry;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Nanos;
    use crate::wire::BindingTimes;

    const WHOLE: u32 = Share::WHOLE.0;

    fn progress(ms: u64, rate_ms: u64, attempts: u64) -> Progress {
        let mut progress = Progress {
            at: Nanos(ms * 1_000_000),
            ..Progress::default()
        };
        progress.binding = BindingTimes {
            rate_ns: rate_ms * 1_000_000,
            ..BindingTimes::default()
        };
        progress.counters.requests.attempts = attempts;
        progress
    }

    #[test]
    fn what_one_shard_cannot_use_goes_to_the_others_after_it_said_so() {
        let mut shares = Shares::new(4);
        let look = |shares: &mut Shares, now: &[Progress]| {
            let users: Vec<User<'_>> = now.iter().map(User::Works).collect();
            shares.look(&users, 1_000.0)
        };
        let start = vec![progress(0, 0, 0); 4];
        assert_eq!(look(&mut shares, &start), []);
        let mut then = vec![progress(1_000, 900, 250); 4];
        then[0] = progress(1_000, 0, 100);
        let tenth = WHOLE / 10;
        let told = look(&mut shares, &then);
        assert_eq!(
            told.len(),
            1,
            "nobody is raised before shard 0 keeps within less"
        );
        assert_eq!(
            (told[0].shard, told[0].share / 1_000),
            (0, tenth * 12 / 10 / 1_000)
        );
        assert_eq!(look(&mut shares, &then), []);
        let raised = shares.kept(0, told[0].share);
        assert_eq!(
            raised.iter().map(|tell| tell.shard).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert_eq!(
            told[0].share + raised.iter().map(|tell| tell.share).sum::<u32>(),
            WHOLE - 4
        );
        // Once it could use more, it gets its part back.
        let after: Vec<Progress> = then
            .iter()
            .map(|p| progress(2_000, p.binding.rate_ns / 1_000_000 + 900, 500))
            .collect();
        let lowered = look(&mut shares, &after);
        assert_eq!(
            lowered.iter().map(|tell| tell.shard).collect::<Vec<_>>(),
            [1, 2, 3]
        );
        assert_eq!(
            lowered
                .iter()
                .flat_map(|tell| shares.kept(tell.shard, tell.share))
                .count(),
            1
        );
        assert_eq!(shares.moves(), 2);
    }

    #[test]
    fn equals_are_left_alone_and_the_dead_leave_their_share() {
        let mut shares = Shares::new(2);
        let (start, then) = (progress(0, 0, 0), progress(1_000, 990, 500));
        shares.look(&[User::Works(&start), User::Works(&start)], 1_000.0);
        assert_eq!(
            shares.look(&[User::Works(&then), User::Works(&then)], 1_000.0),
            []
        );
        let later = progress(2_000, 1_980, 1_000);
        let told = shares.look(&[User::Works(&later), User::Gone], 1_000.0);
        assert_eq!(
            told,
            [ShareUpdate {
                shard: 0,
                share: WHOLE - 2
            }]
        );
    }

    proptest! {
        #[test]
        fn shares_never_add_up_to_more_than_the_whole(
            wants in prop::collection::vec(prop::option::of(0..=WHOLE), 1..20),
        ) {
            let demands: Vec<Demand> = wants.iter().map(|w| w.map_or(Demand::More, Demand::AtMost)).collect();
            let filled = fill(&demands);
            let sum: u64 = filled.iter().map(|share| u64::from(*share)).sum();
            prop_assert!(sum + demands.len() as u64 <= u64::from(WHOLE));
            if demands.contains(&Demand::More) {
                prop_assert_eq!(sum + demands.len() as u64, u64::from(WHOLE));
            }
            for (demand, share) in demands.iter().zip(&filled) {
                match demand {
                    Demand::AtMost(most) => prop_assert!(share <= most),
                    Demand::More => prop_assert!(filled.iter().all(|other| *other <= share + 1)),
                }
            }
        }
    }
}
