//! Time for which each limit held a shard back, so that a report can name the limit: the rate, the
//! connections, a pause, a quota, or no work.
//!
//! Called by the gate. It must not read a clock.

use crate::clock::Nanos;
use crate::stats::HostTimes;
use crate::wire::{Binding, BindingTimes};

/// Record of the limits that have held the shard back so far.
#[derive(Debug)]
pub(super) struct LimitHistory {
    now: Binding,
    since: Nanos,
    times: BindingTimes,
}

impl LimitHistory {
    /// Begins at `start`. Until something else is said, it is the connections that there are not
    /// more of.
    pub(super) fn new(start: Nanos) -> Self {
        Self {
            now: Binding::Concurrency,
            since: start,
            times: BindingTimes::default(),
        }
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

/// Record of the limits that have held back one of several hosts: its own, and while none of these
/// did, those of the run.
#[derive(Debug)]
pub(super) struct HostHistory {
    /// Its own limits; `Idle` while none holds it back.
    own: LimitHistory,
    /// Times of the run's limits while none of its own held it back, but for the stretch that goes
    /// on.
    free: BindingTimes,
    /// Times of the run's limits at the start of that stretch.
    before: BindingTimes,
}

impl HostHistory {
    /// Begin at `start`, held back by nothing.
    pub(super) fn new(start: Nanos) -> Self {
        let mut own = LimitHistory::new(start);
        own.set(Binding::Idle, start);
        Self {
            own,
            free: BindingTimes::default(),
            before: BindingTimes::default(),
        }
    }

    /// Note that its own limit `binding` holds it back from `now` on, or none (`Idle`). `run` is
    /// the record of the run.
    pub(super) fn set(&mut self, binding: Binding, run: &LimitHistory, now: Nanos) {
        if binding == self.own.binding() {
            return;
        }
        self.free = self.free_until(run, now);
        self.before = run.times(now);
        self.own.set(binding, now);
    }

    /// Return the times up to `now`.
    pub(super) fn times(&self, run: &LimitHistory, now: Nanos) -> HostTimes {
        let BindingTimes {
            rate_ns,
            concurrency_ns,
            pause_ns,
            target_ns,
            storage_ns: _,
            idle_ns: _,
        } = self.own.times(now);
        let free = self.free_until(run, now);
        HostTimes {
            own_rate_ns: rate_ns,
            own_connections_ns: concurrency_ns,
            pause_ns,
            quota_ns: target_ns,
            rate_ns: free.rate_ns,
            connections_ns: free.concurrency_ns,
        }
    }

    fn free_until(&self, run: &LimitHistory, now: Nanos) -> BindingTimes {
        if self.own.binding() == Binding::Idle {
            self.free.plus(&run.times(now).without(&self.before))
        } else {
            self.free
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_the_times_of_its_own_limits_and_of_the_runs_while_none_of_these_held() {
        let mut run = LimitHistory::new(Nanos(0));
        let mut host = HostHistory::new(Nanos(0));
        // Connections of the run until 10; then its own pause until 40, whatever the run waits for.
        host.set(Binding::Pause, &run, Nanos(10));
        run.set(Binding::Rate, Nanos(30));
        host.set(Binding::Idle, &run, Nanos(40));
        // The rate of the run until 60, and connections again.
        run.set(Binding::Concurrency, Nanos(60));
        host.set(Binding::Rate, &run, Nanos(65));
        let times = host.times(&run, Nanos(100));
        let expected = HostTimes {
            connections_ns: 15,
            pause_ns: 30,
            rate_ns: 20,
            own_rate_ns: 35,
            ..HostTimes::default()
        };
        assert_eq!(times, expected);
        host.set(Binding::Idle, &run, Nanos(100));
        assert_eq!(
            host.times(&run, Nanos(107)),
            HostTimes {
                connections_ns: 22,
                ..expected
            }
        );
    }

    #[test]
    fn all_time_is_some_limits_time() {
        let mut timeline = LimitHistory::new(Nanos(10));
        timeline.set(Binding::Rate, Nanos(15));
        timeline.set(Binding::Rate, Nanos(20));
        timeline.set(Binding::Pause, Nanos(40));
        let times = timeline.times(Nanos(100));
        assert_eq!(
            times,
            BindingTimes {
                concurrency_ns: 5,
                rate_ns: 25,
                pause_ns: 60,
                ..BindingTimes::default()
            }
        );
        assert_eq!(times.sum_ns(), 90);
        // A lane that was free in the past is no reason to count backwards.
        timeline.set(Binding::Rate, Nanos(39));
        assert_eq!(timeline.times(Nanos(100)).sum_ns(), 90);
    }
}
