//! Growth of throughput over sizes that differ in one quantity: shards or connections.

use std::collections::BTreeSet;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Room;
use super::point::Point;
use super::round::{Round, Size};
use super::usl::{self, Fit, NoFit};

/// Quantity in which sizes differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Axis {
    /// Shards.
    Shards,
    /// Connections.
    Connections,
}

impl Axis {
    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shards => "shards",
            Self::Connections => "connections",
        }
    }
}

/// Quantity that all sizes of a curve have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FixedQuantity {
    /// Connections for each shard: the load grows with the shards.
    ConnectionsPerShard(u32),
    /// Connections over all shards: the same load on more shards.
    Connections(u32),
    /// Number of shards.
    Shards(u32),
}

impl FixedQuantity {
    /// Return the quantity in which the sizes differ.
    #[must_use]
    pub const fn axis(self) -> Axis {
        match self {
            Self::ConnectionsPerShard(_) | Self::Connections(_) => Axis::Shards,
            Self::Shards(_) => Axis::Connections,
        }
    }

    /// Return the position of a size on the axis.
    pub(super) fn n(self, size: Size) -> f64 {
        match self.axis() {
            Axis::Shards => f64::from(size.shards),
            Axis::Connections => f64::from(size.connections),
        }
    }

    /// True if a size is one of its curve.
    #[must_use]
    pub const fn has(self, size: Size) -> bool {
        match self {
            Self::ConnectionsPerShard(each) => {
                size.connections as u64 == size.shards as u64 * each as u64
            }
            Self::Connections(all) => size.connections == all,
            Self::Shards(shards) => size.shards == shards,
        }
    }
}

impl fmt::Display for FixedQuantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plural = |n: &u32| if *n == 1 { "" } else { "s" };
        match self {
            Self::ConnectionsPerShard(n) => write!(f, "{n} connection{} for each shard", plural(n)),
            Self::Connections(n) => write!(f, "{n} connection{} in all", plural(n)),
            Self::Shards(n) => write!(f, "{n} shard{}", plural(n)),
        }
    }
}

/// A curve.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Curve {
    /// Quantity that all of its sizes have in common.
    pub held: FixedQuantity,
    /// Its sizes, the smallest first.
    pub points: Vec<Point>,
    /// The law that it follows.
    pub fit: Option<Fit>,
    /// Reason why there is none.
    pub no_fit: Option<NoFit>,
}

impl Curve {
    /// Build the curve from the rounds of its sizes.
    #[must_use]
    pub fn new(held: FixedQuantity, rounds: &[Round], room: Room) -> Self {
        let own: Vec<&Round> = rounds.iter().filter(|round| held.has(round.size)).collect();
        let sizes: BTreeSet<Size> = own.iter().map(|round| round.size).collect();
        let at = |size: Size| {
            own.iter()
                .copied()
                .filter(|round| round.size == size)
                .collect::<Vec<_>>()
        };
        let base = sizes.first().map(|size| at(*size)).unwrap_or_default();
        let points: Vec<Point> = sizes
            .iter()
            .map(|size| Point::new(*size, held, (&at(*size), &base), room))
            .collect();
        let counted: Vec<Size> = points
            .iter()
            .filter(|point| point.counts())
            .map(|point| point.size)
            .collect();
        let data = own
            .iter()
            .filter(|round| round.counts() && counted.contains(&round.size));
        let data = data.map(|round| usl::Datum {
            replicate: round.replicate,
            n: held.n(round.size),
            x: round.items_per_s,
        });
        let (fit, no_fit) = match usl::fit(data.collect()) {
            Ok(fit) => (Some(fit), None),
            Err(why) => (None, Some(why)),
        };
        Self {
            held,
            points,
            fit,
            no_fit,
        }
    }

    /// Return the position of one of its points on the axis.
    #[must_use]
    pub fn n(&self, point: &Point) -> f64 {
        self.held.n(point.size)
    }

    /// The smallest size.
    #[must_use]
    pub fn base(&self) -> Option<&Point> {
        self.points.first()
    }

    /// The point that answers: the largest that counts where its base does, too, or else the
    /// largest that can be compared with it.
    #[must_use]
    pub fn told(&self) -> Option<&Point> {
        let beyond = || {
            self.points
                .iter()
                .skip(1)
                .rev()
                .filter(|point| point.speedup.is_some())
        };
        let base_counts = self.base().is_some_and(Point::counts);
        beyond()
            .find(|point| base_counts && point.counts())
            .or_else(|| beyond().next())
    }

    /// True if a point is told apart as one that says nothing about scaling.
    #[must_use]
    pub fn is_answer(&self, point: &Point) -> bool {
        point.counts() && self.base().is_some_and(Point::counts)
    }
}
