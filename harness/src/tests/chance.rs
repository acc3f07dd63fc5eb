//! Draws of a rehearsal: whatever may happen in one order or another is drawn from one seed, so that
//! the same seed makes the same record.
//!
//! For tests (feature `virtual-time`). Used at the seams that a rehearsal has: the life of a
//! process, its alarm, its pipe. Without a seed nothing is drawn: first come, first served. It must
//! not decide what an engine or a supervisor does.

use std::cell::RefCell;
use std::rc::Rc;

use fastrand::Rng;

/// A source of draws, or none. Clones draw from the same one.
#[derive(Debug, Clone, Default)]
pub struct Chance(Option<Rc<RefCell<Rng>>>);

impl Chance {
    /// Draws from `seed`.
    pub fn seeded(seed: u64) -> Self {
        Self(Some(Rc::new(RefCell::new(Rng::with_seed(seed)))))
    }

    /// True once in `n` draws on average; never without a seed.
    pub fn one_in(&self, n: u64) -> bool {
        self.0.is_some() && self.below(n) == 0
    }

    /// A number below `n`, which is not 0; 0 without a seed.
    pub fn below(&self, n: u64) -> u64 {
        let draw = self.0.as_ref().map(|rng| rng.borrow_mut().u64(..n));
        draw.unwrap_or(0)
    }

    /// Let other tasks that are due at this instant go first, or not.
    pub async fn postpone(&self) {
        while self.one_in(2) {
            tokio::task::yield_now().await;
        }
    }
}
