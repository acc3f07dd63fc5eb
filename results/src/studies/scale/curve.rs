//! Growth of throughput over sizes that differ in one quantity: shards or connections.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::Room;
use super::estimate::Estimate;
use super::round::Round;
use super::size::{FixedQuantity, Size};
use super::usl::Usl;
use crate::run::report::{BindingReport, Limit, Verdict};
use crate::show::text::counted;
use crate::studies::LoadStep;

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
    /// Limit that held the shards back most.
    pub limited_by: Limit,
    /// Part of the time for which it did, in the mean of the rounds.
    pub limited_share: f64,
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
    /// CPU time of the target, us.
    pub target_cpu_us_per_attempt: Option<Estimate>,
    /// CPUs that the target used, in the mean.
    pub target_cpus_used: Option<Estimate>,
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
    /// In most of its rounds a shard lacked CPU, or sent or read late.
    pub client_limited: bool,
}

impl Point {
    /// Summarize `rounds` at `size`, `base` being those of the smallest size.
    fn new(
        size: Size,
        held: FixedQuantity,
        rounds: &[&Round],
        base: &[&Round],
        room: Room,
    ) -> Self {
        let used: Vec<&Round> = rounds.iter().copied().filter(|it| it.counts()).collect();
        let least = held.n(base.first().map_or(size, |round| round.size));
        let factor = held.n(size) / least;
        // Each round that counts beside the one of the smallest size in its repeat, where that
        // counts, too.
        let mut pairs = Vec::new();
        for own in &used {
            let beside = base
                .iter()
                .filter(|base| base.replicate == own.replicate)
                .find(|base| base.counts() && base.items_per_s > 0.0);
            pairs.extend(beside.map(|base| (*own, *base)));
        }
        let over = |value: fn(&Round) -> Option<f64>| {
            Estimate::of(used.iter().filter_map(|round| value(round)))
        };
        let speedups = pairs
            .iter()
            .map(|(own, base)| own.items_per_s / base.items_per_s);
        let has_serial = least <= 1.0 && factor > 1.0;
        let serial = speedups
            .clone()
            .filter(|_| has_serial)
            .map(|s| (1.0 / s - 1.0 / factor) / (1.0 - 1.0 / factor));
        let work = pairs
            .iter()
            .filter_map(|(own, base)| Some(base.cpu_us_per_attempt? / own.cpu_us_per_attempt?));
        let part = |of: fn(&BindingReport) -> f64| {
            rounds.iter().map(|round| of(&round.binding)).sum::<f64>() / rounds.len().max(1) as f64
        };
        let binding = BindingReport {
            rate: part(|of| of.rate),
            concurrency: part(|of| of.concurrency),
            pause: part(|of| of.pause),
            target: part(|of| of.target),
            storage: part(|of| of.storage),
            idle: part(|of| of.idle),
        };
        let [(limited_share, limited_by), ..] = Limit::sorted(&binding, Limit::Rate);
        let most =
            |is: fn(&Round) -> bool| used.iter().filter(|round| is(round)).count() * 2 > used.len();
        Self {
            size,
            factor,
            rounds: rounds.len(),
            left_out: rounds.len() - used.len(),
            limited_by,
            limited_share,
            items_per_s: over(|round| Some(round.items_per_s)),
            speedup: Estimate::of(speedups.clone()),
            efficiency: Estimate::of(speedups.map(|s| s / factor)),
            cpu_us_per_attempt: over(|round| round.cpu_us_per_attempt),
            cpu_work_efficiency: Estimate::of(work),
            target_cpu_us_per_attempt: over(|round| round.target.as_ref()?.cpu_us_per_attempt),
            target_cpus_used: over(|round| round.target.as_ref()?.cpus_used),
            balance: over(|round| round.balance),
            p50_us: over(|round| round.p50_us).map(|times| times.median),
            p99_us: over(|round| round.p99_us).map(|times| times.median),
            serial_fraction: Estimate::of(serial),
            // Of a target elsewhere, shards can take the CPUs from each other alone.
            colocated: room.target_processes > 0
                && (size.shards + room.target_processes) as usize > room.cores,
            lacked_cpu: most(Round::lacked_cpu),
            client_limited: most(|round| round.run.validity == Verdict::ClientLimited),
        }
    }

    /// Return it as a step of a load on the target; none if this client limited its rate.
    fn load_step(&self, rounds: &[Round]) -> Option<LoadStep> {
        if self.client_limited || !self.counts() || self.limited_by != Limit::Connections {
            return None;
        }
        let round = rounds
            .iter()
            .rev()
            .filter(|round| round.size == self.size)
            .find(|round| round.counts())?;
        Some(LoadStep {
            name: counted(self.size.connections.into(), "connection"),
            target: round.target.clone(),
            fails: false,
        })
    }

    /// True if it says something about scaling: client and target did not take the CPUs from each
    /// other.
    pub const fn counts(&self) -> bool {
        self.left_out < self.rounds && !(self.colocated && self.lacked_cpu)
    }
}

/// A curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Quantity that all of its sizes have in common.
    pub held: FixedQuantity,
    /// Its sizes, the smallest first.
    pub points: Vec<Point>,
    /// The law that the sizes that count follow; none of fewer than four.
    pub usl: Option<Usl>,
}

impl Curve {
    /// Build the curve from the rounds of its sizes.
    pub fn new(held: FixedQuantity, rounds: &[Round], room: Room) -> Self {
        let mut by_size: BTreeMap<Size, Vec<&Round>> = BTreeMap::new();
        for round in rounds.iter().filter(|round| held.has(round.size)) {
            by_size.entry(round.size).or_default().push(round);
        }
        let base = by_size.values().next().cloned().unwrap_or_default();
        let points: Vec<Point> = by_size
            .iter()
            .map(|(size, own)| Point::new(*size, held, own, &base, room))
            .collect();
        let rounds = points
            .iter()
            .filter(|point| point.counts())
            .filter_map(|point| by_size.get(&point.size))
            .flatten()
            .filter(|round| round.counts());
        let usl = Usl::of(rounds.map(|it| (it.replicate, held.n(it.size), it.items_per_s)));
        Self { held, points, usl }
    }

    /// Return its sizes as steps of a load on the target, without those whose rate this client limited.
    pub(super) fn load_steps(&self, rounds: &[Round]) -> Vec<LoadStep> {
        self.points
            .iter()
            .filter_map(|point| point.load_step(rounds))
            .collect()
    }

    /// Return the position of one of its points on the axis.
    pub fn n(&self, point: &Point) -> f64 {
        self.held.n(point.size)
    }

    /// The smallest size.
    pub fn base(&self) -> Option<&Point> {
        self.points.first()
    }

    /// The point that answers: the largest that counts where its base does, too, or else the
    /// largest that can be compared with it.
    pub fn told(&self) -> Option<&Point> {
        let beyond: Vec<&Point> = self
            .points
            .iter()
            .skip(1)
            .rev()
            .filter(|point| point.speedup.is_some())
            .collect();
        let answer = beyond.iter().find(|point| self.is_answer(point));
        answer.or(beyond.first()).copied()
    }

    /// True if a point is told apart as one that says nothing about scaling.
    pub fn is_answer(&self, point: &Point) -> bool {
        point.counts() && self.base().is_some_and(Point::counts)
    }
}
