//! CPU cost of the supervisor itself: until the start of the shards, and while they ran.

use std::time::Duration;

use super::view::SupervisorCpu;
use crate::clock::Nanos;

/// CPU that was used by two moments of a run, us, and when they were.
#[derive(Debug, Default)]
pub(super) struct Phases {
    start: Option<(u64, Nanos)>,
    /// None before the first shard told its end.
    closing: Option<(u64, Nanos)>,
}

impl Phases {
    /// The shards start: until now this much CPU was used.
    pub(super) const fn begin(&mut self, used_us: u64, now: Nanos) {
        self.start = Some((used_us, now));
    }

    pub(super) const fn have_begun(&self) -> bool {
        self.start.is_some()
    }

    /// The first shard told its end. Later ones change nothing.
    pub(super) fn close(&mut self, used_us: impl FnOnce() -> u64, now: Nanos) {
        self.closing.get_or_insert_with(|| (used_us(), now));
    }

    pub(super) fn effort(self) -> SupervisorCpu {
        let Some((starting_us, began)) = self.start else {
            return SupervisorCpu::default();
        };
        let (used_us, ended) = self.closing.unwrap_or((starting_us, began));
        let running = Duration::from_nanos(ended.since(began));
        SupervisorCpu {
            starting_us,
            running_us: used_us.saturating_sub(starting_us),
            running,
        }
    }
}
