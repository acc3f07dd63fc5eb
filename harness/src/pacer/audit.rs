//! Audit of a budget: the window with the greatest use, found from the times of the requests that
//! were sent.
//!
//! Called for each request; it must share no code with the pacer, whose work it checks.

use serde::{Deserialize, Serialize};

use crate::clock::Nanos;
use crate::plan::Budget;

/// The window in which most of a budget was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorstWindow {
    /// Its width, ns.
    pub width_ns: u64,
    /// Number of requests sent in it.
    pub admitted: u64,
    /// Number of requests allowed: `burst + floor(width / interval)`.
    pub allowed: u64,
}

/// Watches requests as they are sent and finds, of all windows of all widths, the one with the
/// greatest excess over the rate.
///
/// The backlog `tat - now`, where each request sets `tat = max(tat, now) + interval`, is at every
/// request the greatest over all windows ending there of `sent * interval - width` (the arrival
/// curve of a leaky bucket, Cruz 1991). One comparison per request therefore audits every window;
/// none exceeds `burst * interval` when the promise was kept.
#[derive(Debug, Clone)]
pub struct BudgetAudit {
    budget: Budget,
    tat: Nanos,
    /// In the budget's own time.
    busy_since: Nanos,
    /// By the clock.
    busy_since_clock: Nanos,
    busy_sent: u64,
    pub(super) worst_excess_ns: u64,
    worst: WorstWindow,
}

impl BudgetAudit {
    /// An audit of `budget`.
    pub fn new(budget: Budget) -> Self {
        Self {
            budget,
            tat: Nanos::default(),
            busy_since: Nanos::default(),
            busy_since_clock: Nanos::default(),
            busy_sent: 0,
            worst_excess_ns: 0,
            worst: WorstWindow {
                width_ns: 0,
                admitted: 0,
                allowed: budget.burst,
            },
        }
    }

    /// Allow `burst` at once from now on.
    pub(super) const fn grow(&mut self, burst: u64) {
        self.budget.burst = burst;
    }

    /// Counts a request sent at `own` of the budget's own time, which is `clock` by the clock. They
    /// come in the order of time.
    pub fn sent(&mut self, own: Nanos, clock: Nanos) {
        if self.tat <= own {
            (
                self.tat,
                self.busy_since,
                self.busy_since_clock,
                self.busy_sent,
            ) = (own, own, clock, 0);
        }
        self.tat = Nanos(self.tat.0.saturating_add(self.budget.interval_ns));
        self.busy_sent += 1;
        let excess = self.tat.since(own);
        if excess > self.worst_excess_ns {
            self.worst_excess_ns = excess;
            self.worst = WorstWindow {
                width_ns: clock.since(self.busy_since_clock),
                admitted: self.busy_sent,
                allowed: self.budget.burst + own.since(self.busy_since) / self.budget.interval_ns,
            };
        }
    }

    /// The window with the greatest excess.
    pub fn worst(&self) -> WorstWindow {
        self.worst
    }

    /// True if every window of every width held at most `burst + width / interval` requests.
    pub fn kept(&self) -> bool {
        self.worst_excess_ns <= self.budget.interval_ns.saturating_mul(self.budget.burst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_notices_a_broken_promise() {
        let mut audit = BudgetAudit::new(Budget {
            interval_ns: 10,
            burst: 2,
            at_start: 2,
            phase_ns: 0,
            apart_ns: 0,
        });
        for at in [0, 0, 10, 11] {
            audit.sent(Nanos(at), Nanos(at));
        }
        assert!(!audit.kept());
        assert_eq!(
            audit.worst(),
            WorstWindow {
                width_ns: 11,
                admitted: 4,
                allowed: 3
            }
        );
    }
}
