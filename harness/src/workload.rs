//! `Workload`: what a shard does with an ID. The crawl implements it over HTTP; tests implement it over nothing.

use std::future::Future;

use crate::sample::{Attempt, Sample};

/// Performs IDs. It is made inside the shard's process, after the fork, inside its runtime, and is dropped there.
///
/// The engine calls [`Workload::perform`] from as many tasks as the shard has connections, on one thread; nothing has
/// to be `Send`. A future may be dropped before it ends, when the run is stopped and its grace is over.
pub trait Workload: 'static {
    /// The number of the host that `id` is asked of, below [`hosts`](crate::plan::PerHost::hosts) of the plan. The same for
    /// the same ID.
    fn host(&self, id: u64) -> u32 {
        let _ = id;
        0
    }

    /// Performs one attempt for `id` and says what happened. Failures are outcomes.
    fn perform(&self, id: u64) -> impl Future<Output = Attempt>;

    /// Hears of each of its attempts that ended, as it was booked. One that was dropped is not among them.
    fn booked(&self, sample: &Sample) {
        let _ = sample;
    }
}
