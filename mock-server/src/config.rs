//! What a target does: the one description that every serving process is given.
//!
//! It must not hold state: everything that changes while serving lives in `shared`.

use crate::fault::Faults;
use crate::latency::Latency;
use crate::limit::Limit;

/// How the target behaves. The default is the null target: every item at once, no limit, no faults.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Config {
    /// What all draws start from: two targets with one seed serve the same items, delays and faults.
    pub seed: u64,
    /// How long answers are held back.
    pub latency: Latency,
    /// How many requests of one client address are let through; none means all.
    pub limit: Option<Limit>,
    /// Which answers go wrong.
    pub faults: Faults,
}
