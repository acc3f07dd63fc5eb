//! Sizes of rounds, and the quantity in which those of a curve differ.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::show::text::counted;

/// Size of a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Size {
    /// Processes that crawl.
    pub shards: u32,
    /// Connections, over all of them.
    pub connections: u32,
}

/// `2 shards and 8 connections`.
impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shards = counted(self.shards.into(), "shard");
        let connections = counted(self.connections.into(), "connection");
        write!(f, "{shards} and {connections}")
    }
}

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
        let (n, what, rest) = match *self {
            Self::ConnectionsPerShard(n) => (n, "connection", " for each shard"),
            Self::Connections(n) => (n, "connection", " in all"),
            Self::Shards(n) => (n, "shard", ""),
        };
        write!(f, "{}{rest}", counted(n.into(), what))
    }
}
