//! `Scaling`: growth of throughput with the shards, or with the connections. Judges rounds that ran
//! at several sizes.
//!
//! Called by `scale` with all rounds that it ran. Pure: it runs nothing, reads no clock, draws no
//! number but the [`order()`].
//!
//! | room | for |
//! |---|---|
//! | `order` | order in which the sizes of a repeat run |
//! | `round`, `point`, `curve` | one round, the rounds of one size, all sizes |
//! | `estimate` | median of repeats, with its interval |
//! | `usl` | fit of the Universal Scalability Law |
//! | `words` | scaling as a headline, a table and notes |
//! | `tests` | results of known rounds |
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
//! is marked ([`Point::limited_by_this_side`]).
//!
//! Where shards and target processes together exceed the CPUs, a size is *colocated*. It counts
//! none the less when CPU was not scarce ([`Round::lacked_cpu`]): its rounds used less than half of
//! all CPUs, and no shard waited for one for more than 5 % of its time. Such a round is limited by
//! the wait for answers, and a process that sleeps uses no CPU. This is measured and not taken from
//! the mode that was asked for: a latency-bound crawl with too many connections is as colocated as
//! any other.
//!
//! # The Universal Scalability Law
//!
//! `X(N) = lambda N / (1 + sigma (N - 1) + kappa N (N - 1))`: see [`Fit`], and when there is one.
//!
//! # Sources
//!
//! Gunther, N. J. (2007), *Guerrilla Capacity Planning*, chapters 4 to 6. Karp, A. H. and Flatt, H.
//! P. (1990), *Measuring parallel processor performance*, CACM 33, 539-543. David, H. A. and
//! Nagaraja, H. N. (2003), *Order Statistics*, 7.1. Lawson, C. L. and Hanson, R. J. (1974),
//! *Solving Least Squares Problems*, chapter 23.

mod curve;
mod estimate;
mod order;
mod point;
mod round;
#[cfg(test)]
mod tests;
mod usl;
mod words;

use serde::{Deserialize, Serialize};

pub use self::curve::{Axis, Curve, FixedQuantity};
pub use self::estimate::{Estimate, LEVEL};
pub use self::order::order;
pub use self::point::Point;
pub use self::round::{Attempts, Round, Size};
pub use self::usl::{Fit, NoFit, Peak};
pub use self::words::scaling_headline;
use crate::run::report::{Environment, Verdict};
use crate::studies::Header;

/// The name of the file.
pub const FILE: &str = "scale.json";

/// Part of the ceiling from which on a size is limited by this client: what is left is no more than
/// rounds of a busy machine differ by.
pub const NEAR_CEILING: f64 = 0.8;

/// Result of the study, whole, as it is saved in `scale.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scaling {
    /// Settings and environment of the rounds.
    #[serde(flatten)]
    pub circumstances: ScaleContext,
    /// Ceiling of the client.
    pub ceiling: Option<Ceiling>,
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

/// Rate of the same client against a target that answers at once: the most that this client could
/// do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// At this size: the largest.
    #[serde(flatten)]
    pub size: Size,
    /// Good items per second.
    pub items_per_s: f64,
    /// Verdict on the round.
    pub validity: Verdict,
    /// The directory of its result.
    pub result: String,
}

impl Ceiling {
    /// The rate that it marks, good items per second: none where nothing good came, or where the
    /// round's verdict is graver than `client_limited`, for then something else than this client
    /// may have held it back.
    #[must_use]
    pub fn per_s(&self) -> Option<f64> {
        (self.items_per_s > 0.0 && self.validity <= Verdict::ClientLimited)
            .then_some(self.items_per_s)
    }
}

impl Scaling {
    /// Build the result of these rounds, given in the order in which they ran. `held` names what
    /// each curve holds fixed.
    #[must_use]
    pub fn new(
        rounds: Vec<Round>,
        held: &[FixedQuantity],
        ceiling: Option<Ceiling>,
        circumstances: ScaleContext,
    ) -> Self {
        let ceiling_per_s = ceiling.as_ref().and_then(Ceiling::per_s);
        let room = Room {
            cores: circumstances.environment.cores,
            target_processes: circumstances.target_processes,
            ceiling_per_s,
        };
        Self {
            curves: held
                .iter()
                .map(|held| Curve::new(*held, &rounds, room))
                .collect(),
            circumstances,
            ceiling,
            rounds,
        }
    }

    /// True if any size that counts can be compared with the smallest.
    #[must_use]
    pub fn says_something(&self) -> bool {
        self.curves
            .iter()
            .any(|curve| curve.told().is_some_and(|point| curve.is_answer(point)))
    }

    /// True if a size does more than [`NEAR_CEILING`] of what the client could.
    #[must_use]
    pub fn is_near_ceiling(&self, point: &Point) -> bool {
        self.ceiling
            .as_ref()
            .and_then(Ceiling::per_s)
            .is_some_and(|per_s| point.is_near(per_s))
    }
}

/// Limits by which sizes are judged.
#[derive(Debug, Clone, Copy)]
pub struct Room {
    /// CPUs of this machine.
    pub cores: usize,
    /// Processes of the target on it.
    pub target_processes: u32,
    /// Ceiling of this client, good items per second.
    pub ceiling_per_s: Option<f64>,
}
