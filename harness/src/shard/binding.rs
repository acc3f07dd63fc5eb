//! Time for which each limit held a shard back: rate and concurrency are two things, and a report has to say which of them was binding
//! when.
//!
//! Called by the gate, which knows. It must not read a clock.

use crate::clock::Nanos;
use crate::wire::{Binding, BindingTimes};

/// Record of the limits that have held the shard back so far.
#[derive(Debug)]
pub(super) struct LimitHistory {
    now: Binding,
    since: Nanos,
    times: BindingTimes,
}

impl LimitHistory {
    /// Begins at `start`. Until something else is said, it is the connections that there are not more of.
    pub(super) fn new(start: Nanos) -> Self {
        Self { now: Binding::Concurrency, since: start, times: BindingTimes::default() }
    }

    /// Notes that `binding` holds the shard back from `now` on.
    pub(super) fn set(&mut self, binding: Binding, now: Nanos) {
        if binding != self.now {
            *self.times.of_mut(self.now) += now.since(self.since);
            (self.now, self.since) = (binding, self.since.max(now));
        }
    }

    /// The limit that holds the shard back now.
    pub(super) const fn binding(&self) -> Binding {
        self.now
    }

    /// The times up to `now`.
    pub(super) fn times(&self, now: Nanos) -> BindingTimes {
        let mut times = self.times;
        *times.of_mut(self.now) += now.since(self.since);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_time_is_some_limits_time() {
        let mut ribbon = LimitHistory::new(Nanos(10));
        ribbon.set(Binding::Rate, Nanos(15));
        ribbon.set(Binding::Rate, Nanos(20));
        ribbon.set(Binding::Pause, Nanos(40));
        let times = ribbon.times(Nanos(100));
        assert_eq!(times, BindingTimes { concurrency_ns: 5, rate_ns: 25, pause_ns: 60, ..BindingTimes::default() });
        assert_eq!(times.sum_ns(), 90);
        // A lane that was free in the past is no reason to count backwards.
        ribbon.set(Binding::Rate, Nanos(39));
        assert_eq!(ribbon.times(Nanos(100)).sum_ns(), 90);
    }
}
