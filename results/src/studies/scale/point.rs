//! Results of the rounds of one size, beside those of the smallest.

use serde::{Deserialize, Serialize};

use super::curve::FixedQuantity;
use super::estimate::Estimate;
use super::round::{Attempts, Round, Size};
use super::{NEAR_CEILING, Room};
use crate::run::report::Verdict;

/// Part of the time in pauses, or of the attempts that were throttled, from which on throttling
/// sets the pace.
const BY_THROTTLING: f64 = 0.5;

/// Part of the time with all connections in use from which on nothing else held the shards back.
const FULL: f64 = 0.9;

/// A size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The size.
    #[serde(flatten)]
    pub size: Size,
    /// Size as a multiple of the smallest.
    pub factor: f64,
    /// Rounds that were run.
    pub rounds: usize,
    /// Rounds that do not count.
    pub left_out: usize,
    /// Attempts of all its rounds.
    #[serde(default)]
    pub attempts: Attempts,
    /// Median over the rounds of the part of the time in which a throttle pause held the shards
    /// back.
    #[serde(default)]
    pub paused_share: f64,
    /// Median over the rounds of the part of the time in which all connections were in use.
    #[serde(default)]
    pub full_share: f64,
    /// `X`: good items per second.
    pub items_per_s: Option<Estimate>,
    /// `S`: how many times what the smallest does.
    pub speedup: Option<Estimate>,
    /// `E`: the same for each part of it; 1 is linear.
    pub efficiency: Option<Estimate>,
    /// User and system CPU of the shards, us.
    pub cpu_us_per_attempt: Option<Estimate>,
    /// `W`: CPU per attempt at the smallest over that at this size.
    pub cpu_work_efficiency: Option<Estimate>,
    /// Mean of the shards' times for an item over the greatest.
    pub balance: Option<Estimate>,
    /// Median over the rounds of the median service time, us.
    pub p50_us: Option<f64>,
    /// Median over the rounds of the 99th percentile of the service time, us.
    pub p99_us: Option<f64>,
    /// Karp and Flatt's serial fraction; none at a base that is not 1.
    pub serial_fraction: Option<Estimate>,
    /// Shards and target processes exceed the CPUs.
    pub colocated: bool,
    /// Most of its rounds may have lacked CPU.
    pub lacked_cpu: bool,
    /// Most of its rounds were limited by the client, or it does more than [`NEAR_CEILING`] of what
    /// the client could.
    pub limited_by_this_side: bool,
}

impl Point {
    /// Summarize `rounds` at `size`, `base` being those of the smallest size.
    pub(super) fn new(
        size: Size,
        held: FixedQuantity,
        (rounds, base): (&[&Round], &[&Round]),
        room: Room,
    ) -> Self {
        let used: Vec<&Round> = rounds
            .iter()
            .copied()
            .filter(|round| round.counts())
            .collect();
        let smallest = base.first().map_or(size, |round| round.size);
        let (n, least) = (held.n(size), held.n(smallest));
        let factor = n / least;
        let pairs = pairs(&used, base);
        let over_pairs = |value: &dyn Fn(&Round, &Round) -> Option<f64>| {
            Estimate::of(pairs.iter().filter_map(|(own, base)| value(own, base)))
        };
        let over = |value: &dyn Fn(&Round) -> Option<f64>| {
            Estimate::of(used.iter().filter_map(|round| value(round)))
        };
        let speedup = |own: &Round, base: &Round| Some(own.items_per_s / base.items_per_s);
        let serial = |own: &Round, base: &Round| {
            let s = own.items_per_s / base.items_per_s;
            (least <= 1.0 && factor > 1.0)
                .then_some((1.0 / s - 1.0 / factor) / (1.0 - 1.0 / factor))
        };
        let of_all = |value: &dyn Fn(&Round) -> f64| {
            Estimate::of(rounds.iter().map(|round| value(round)))
                .map_or(0.0, |shares| shares.median)
        };
        let items_per_s = over(&|round| Some(round.items_per_s));
        let most = |is: &dyn Fn(&Round) -> bool| {
            used.iter().filter(|round| is(round)).count() * 2 > used.len()
        };
        let near = |ceiling| is_near(items_per_s, ceiling);
        Self {
            size,
            factor,
            rounds: rounds.len(),
            left_out: rounds.len() - used.len(),
            attempts: rounds
                .iter()
                .fold(Attempts::default(), |all, round| all.plus(round.attempts)),
            paused_share: of_all(&|round| round.binding.pause),
            full_share: of_all(&|round| round.binding.concurrency),
            items_per_s,
            speedup: over_pairs(&speedup),
            efficiency: over_pairs(&|own, base| Some(speedup(own, base)? / factor)),
            cpu_us_per_attempt: over(&|round| round.cpu_us_per_attempt),
            cpu_work_efficiency: over_pairs(&|own, base| {
                Some(base.cpu_us_per_attempt? / own.cpu_us_per_attempt?)
            }),
            balance: over(&|round| round.balance),
            p50_us: over(&|round| round.p50_us).map(|times| times.median),
            p99_us: over(&|round| round.p99_us).map(|times| times.median),
            serial_fraction: over_pairs(&serial),
            // Of a target elsewhere, shards can take the CPUs from each other alone.
            colocated: room.target_processes > 0
                && size.shards as usize + room.target_processes as usize > room.cores,
            lacked_cpu: most(&|round| round.lacked_cpu()),
            limited_by_this_side: most(&|round| round.validity == Verdict::ClientLimited)
                || room.ceiling_per_s.is_some_and(near),
        }
    }

    /// True if throttling set its pace: the shards paused for half of the time or longer, or half
    /// of the attempts were throttled.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        self.attempts.throttled > 0
            && self.paused_share.max(self.attempts.throttled_share()) >= BY_THROTTLING
    }

    /// True if all connections were in use nearly all the time, and throttling did not set the
    /// pace.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.full_share >= FULL && !self.is_throttled()
    }

    /// True if it does more than [`NEAR_CEILING`] of this ceiling, good items per second.
    pub(super) fn is_near(&self, ceiling: f64) -> bool {
        is_near(self.items_per_s, ceiling)
    }

    /// True if it says something about scaling: client and target did not take the CPUs from each
    /// other.
    #[must_use]
    pub const fn counts(&self) -> bool {
        self.left_out < self.rounds && !(self.colocated && self.lacked_cpu)
    }
}

fn is_near(items_per_s: Option<Estimate>, ceiling: f64) -> bool {
    items_per_s.is_some_and(|x| x.median > ceiling * NEAR_CEILING)
}

/// Each round that counts beside the one of the smallest size in its repeat, where that counts,
/// too.
fn pairs<'a>(used: &[&'a Round], base: &[&'a Round]) -> Vec<(&'a Round, &'a Round)> {
    let beside = |own: &&'a Round| {
        let base = base.iter().find(|base| {
            base.replicate == own.replicate && base.counts() && base.items_per_s > 0.0
        });
        base.map(|base| (*own, *base))
    };
    used.iter().filter_map(beside).collect()
}
