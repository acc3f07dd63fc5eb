//! `Scaling`: growth of throughput with the shards, or with the connections. Judges rounds that ran
//! at several sizes.
//!
//! Called by `scale` with all rounds that it ran. Pure: it runs nothing, reads no clock, draws no
//! number but the [`order()`].
//!
//! | file | holds |
//! |---|---|
//! | `round` | one round, and the order in which the sizes of a repeat run |
//! | `curve` | the rounds of one size, all sizes |
//! | `estimate` | median of repeats, with its interval |
//! | `document` | findings, table and facts |
//!
//! # Method
//!
//! A *repeat* is one round of each size, in an order drawn at random ([`order()`]), so that what
//! drifts falls on all sizes alike. Ratios are formed within a repeat, where both rounds were the
//! machine's neighbours:
//!
//! ```text
//! X(N)   good items per second                       of a round
//! S(N) = X(N) / X(base)                              of a repeat; base is the smallest size
//! E(N) = S(N) / (N / base)                           1: twice the shards do twice as much
//! W(N) = CPU per attempt at base / at N              1: an attempt costs what it cost
//! e(N) = (1/S - 1/N) / (1 - 1/N)                     Karp and Flatt's serial fraction, of a base of 1
//! ```
//!
//! The figure shown is the median over the repeats, with the interval of [`Estimate`]: exact, and
//! without an assumption about noise.
//!
//! The *balance* of a round is the mean of its shards' times over the greatest: 1 when none lags
//! behind. Rounds end by the clock, so all shards run equally long, and their wall time tells
//! nothing. The time of a shard is therefore what it needs for an item,
//! `1 / (its items per second)`: of equal shares of work, the slowest shard's would take that many
//! times longer. CPU time is no such measure, for a shard that waits for its CPU uses less of it.
//!
//! # What counts
//!
//! A round whose verdict is graver than `client_limited` is left out, and so is one that was
//! interrupted. `client_limited` stays: how much a client can do is a fair question, and the size
//! is marked ([`Point::client_limited`]).
//!
//! Where shards and target processes together exceed the CPUs, a size is *colocated*. It counts
//! none the less when CPU was not scarce ([`Round::lacked_cpu`]): its rounds used less than half of
//! all CPUs, and no shard waited for one for more than 5 % of its time. Such a round is limited by
//! the wait for answers, and a process that sleeps uses no CPU. This is measured and not taken from
//! the mode that was asked for: a latency-bound crawl with too many connections is as colocated as
//! any other.
//!
//! # Sources
//!
//! Karp, A. H. and Flatt, H. P. (1990), *Measuring parallel processor performance*, CACM 33,
//! 539-543. David, H. A. and Nagaraja, H. N. (2003), *Order Statistics*, 7.1.

mod curve;
mod document;
mod estimate;
mod round;
#[cfg(test)]
mod tests;

use serde::{Deserialize, Serialize};

pub use self::curve::{Axis, Curve, FixedQuantity, Point};
pub use self::document::ScaleFinding;
pub use self::estimate::{Estimate, LEVEL};
pub use self::round::{Attempts, Round, Size, order};
use crate::run::report::Environment;
use crate::studies::Header;

/// Result of the study, whole, as it is saved in `scale.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Settings and environment of the rounds.
    #[serde(flatten)]
    pub circumstances: ScaleContext,
    /// Growth of throughput, by curve.
    pub curves: Vec<Curve>,
    /// Every round, in the order in which they ran.
    pub rounds: Vec<Round>,
}

/// Settings and environment of the rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ScaleContext {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// Target that was crawled, in words.
    pub target: String,
    /// The longest that a round took to send, s.
    pub round_s: f64,
    /// Replicates that were asked for.
    pub repeats: usize,
    /// Seed of the order of the rounds.
    pub seed: u64,
    /// The machine.
    pub environment: Environment,
    /// Processes of the target on this machine; of one that `scale` did not start at least 1. 0
    /// elsewhere.
    pub target_processes: u32,
}

impl Scaling {
    /// Build the result of these rounds, given in the order in which they ran. `held` names what
    /// each curve holds fixed.
    #[must_use]
    pub fn new(rounds: Vec<Round>, held: &[FixedQuantity], circumstances: ScaleContext) -> Self {
        let room = Room {
            cores: circumstances.environment.cores,
            target_processes: circumstances.target_processes,
        };
        let curve = |held: &FixedQuantity| Curve::new(*held, &rounds, room);
        Self {
            curves: held.iter().map(curve).collect(),
            circumstances,
            rounds,
        }
    }
}

/// Limits by which sizes are judged.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// CPUs of this machine.
    pub cores: usize,
    /// Processes of the target on it.
    pub target_processes: u32,
}
