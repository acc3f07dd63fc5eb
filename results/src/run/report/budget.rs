//! Use of the budgets of the run and of its hosts, and the proof that they were kept.
//!
//! The audit uses the times at which requests were written, not those at which they were let
//! through.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::totals::reads_as;
use super::{Totals, share};
use crawlmark_harness::pacer::Curve;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::{BusiestWindow, RunRecord};
use crawlmark_harness::units::{Rate, whole};
use crawlmark_harness::wire::Scope;

/// A budget and its audit: of the run, or of each host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Audit {
    /// As asked, for people.
    pub rate: String,
    /// As asked, per second; the highest one when it changes.
    pub rate_per_s: f64,
    /// Requests at once over all shards; to one host, of a budget of the hosts.
    pub burst: u64,
    /// True if no window of any width, in any shard that reported, held more than its burst plus its
    /// rate times the width.
    pub kept: bool,
    /// Shards that ended before they could report.
    pub unaudited_shards: usize,
    /// The window of a shard that came closest.
    pub worst_window: Option<WindowReport>,
    /// The busiest windows of 10 ms, 100 ms and 1 s over all shards together, wherever they begin.
    /// Counted in slots of 10 us: no window held more, and one that is wider by 10 us at most held
    /// as many; what is allowed is allowed in that time.
    pub busiest: Vec<WindowReport>,
}

/// Use of the run's budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// The budget and its audit.
    #[serde(flatten)]
    pub audit: Audit,
    /// Attempts per second, each with the time that its place in the budget takes: `N` requests
    /// that are one period apart take `N` periods. No more than was asked while the budget was
    /// kept.
    pub achieved_per_s: f64,
    /// Attempts over what was allowed at once at the start and what the rate came to while requests
    /// were to be sent, at most 1.
    pub utilisation: f64,
}

reads_as!(BudgetReport, audit: Audit);

/// A window in which a budget was used hard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// Number of the shard; null of all shards together.
    pub shard: Option<u32>,
    /// The number of its host, from 0; absent of the run's budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// Its width.
    pub width_ms: f64,
    /// Requests sent in it.
    pub admitted: u64,
    /// Requests allowed in it.
    pub allowed: u64,
}

impl WindowReport {
    /// Requests sent, as a part of those allowed.
    pub(crate) fn used(&self) -> f64 {
        self.admitted as f64 / self.allowed.max(1) as f64
    }
}

/// The number of the host that a limit is for; none of the run.
const fn number(scope: Scope) -> Option<u32> {
    match scope {
        Scope::Run => None,
        Scope::Host(host) => Some(host),
    }
}

/// A rate limit to audit.
#[derive(Debug, Clone)]
struct AuditedLimit {
    rate: Rate,
    curve: Curve,
    burst: u64,
    is_within: fn(Scope) -> bool,
}

impl AuditedLimit {
    fn audit(&self, rate: String, record: &RunRecord) -> Audit {
        let (mut kept, mut worst_window) = (true, None::<WindowReport>);
        let mut unaudited_shards = 0;
        for shard in &record.shards {
            unaudited_shards += usize::from(shard.fault.is_some() || !shard.past.is_empty());
            for (scope, used) in shard.budgets.iter().filter(|(it, _)| (self.is_within)(*it)) {
                kept &= used.kept;
                let window = WindowReport {
                    shard: Some(shard.plan.shard),
                    host: number(*scope),
                    width_ms: used.worst.width_ns as f64 / 1e6,
                    admitted: used.worst.admitted,
                    allowed: used.worst.allowed,
                };
                if worst_window.is_none_or(|worst| worst.used() <= window.used()) {
                    worst_window = Some(window);
                }
            }
        }
        let busiest = self.busiest(record);
        kept &= busiest
            .iter()
            .all(|window| window.admitted <= window.allowed);
        Audit {
            rate,
            rate_per_s: self.rate.per_second(),
            burst: self.burst,
            kept,
            unaudited_shards,
            worst_window,
            busiest,
        }
    }

    /// For each width, the window of all shards together with most requests.
    fn busiest(&self, record: &RunRecord) -> Vec<WindowReport> {
        let mut busiest: BTreeMap<Duration, WindowReport> = BTreeMap::new();
        for (scope, windows) in record
            .busiest
            .iter()
            .filter(|(it, _)| (self.is_within)(**it))
        {
            for window in windows {
                let report = WindowReport {
                    shard: None,
                    host: number(*scope),
                    width_ms: window.width.as_secs_f64() * 1e3,
                    admitted: window.sent,
                    allowed: self.burst + self.allowed_in(window),
                };
                let most = busiest.entry(window.width).or_insert(report);
                if most.admitted < report.admitted {
                    *most = report;
                }
            }
        }
        busiest.into_values().collect()
    }

    /// Requests that the rate allows in the whole window.
    fn allowed_in(&self, window: &BusiestWindow) -> u64 {
        let Range { start, end } = window.counted();
        let by_rate = self
            .rate
            .permits_in(self.curve.at(end) - self.curve.at(start));
        // In windows, what comes a window's requests later is that much later, wherever the time
        // begins.
        let apart_ns = self.curve.apart_ns();
        apart_ns.map_or(by_rate, |apart_ns| {
            by_rate.min(self.burst * ((end - start) / apart_ns))
        })
    }
}

impl Audit {
    /// The window that held most of what was allowed in it; none when none is known.
    pub(crate) fn fullest(&self) -> Option<WindowReport> {
        self.worst_window
            .iter()
            .chain(&self.busiest)
            .copied()
            .max_by(|a, b| a.used().total_cmp(&b.used()))
    }

    /// Audit the budgets of the hosts; none without them.
    pub(super) fn of_hosts(plan: &RunPlan, record: &RunRecord) -> Option<Self> {
        let (rate, burst) = plan.per_host.rate.zip(plan.per_host.at_once(plan.shards))?;
        let limit = AuditedLimit {
            rate,
            curve: Curve::Flat,
            burst,
            is_within: |scope| scope != Scope::Run,
        };
        Some(limit.audit(rate.to_string(), record))
    }
}

impl BudgetReport {
    pub(super) fn new(plan: &RunPlan, record: &RunRecord, totals: &Totals) -> Option<Self> {
        let rate = plan.rate.filter(|_| plan.has_budget())?;
        let limit = AuditedLimit {
            rate,
            curve: Curve::of(&plan.shape, plan.duration),
            burst: plan.burst,
            is_within: |scope| scope == Scope::Run,
        };
        let audit = limit.audit(plan.shaped_rate()?.to_string(), record);
        let warm: u64 = record
            .shards
            .iter()
            .map(|shard| shard.warmup.requests.attempts)
            .sum();
        let sending_s = (totals.sent_until_s - plan.warmup.as_secs_f64()).max(0.0);
        let at_once = plan.at_once_at_start() as f64;
        // The last request of a number of them has its gap, too; a time is over at its end.
        let planned_s = plan.duration.map(|planned| planned.as_secs_f64());
        let gap_s = if planned_s.is_some_and(|planned_s| totals.sent_until_s >= planned_s) {
            0.0
        } else {
            at_once / rate.per_second()
        };
        let achieved_per_s = share(
            totals.attempts.saturating_sub(warm) as f64,
            sending_s + gap_s,
        );
        // Those at once are the first window's, if there are any.
        let at_start = if plan.has_windows() { 0.0 } else { at_once };
        let sent_until_s = planned_s.map_or(totals.sent_until_s, |s| s.min(totals.sent_until_s));
        let allowed = at_start + offered(plan, 0.0, sent_until_s);
        // In windows, more of them may begin in the time than are over.
        let until_s = totals.sent_until_s;
        let offered_per_s = share(offered(plan, until_s - sending_s, until_s), sending_s);
        let most_per_s = rate.per_second().max(offered_per_s);
        Some(Self {
            // What a late shard makes up for after the warm-up was offered before.
            achieved_per_s: if audit.kept {
                achieved_per_s.min(most_per_s)
            } else {
                achieved_per_s
            },
            // What falls due at the very end cannot be used any more.
            utilisation: share(totals.attempts as f64, (allowed.ceil() - 1.0).max(1.0)).min(1.0),
            audit,
        })
    }
}

/// Requests that the budget offers from one moment of a run to another, in seconds since its start;
/// nothing without one.
pub(crate) fn offered(plan: &RunPlan, from_s: f64, to_s: f64) -> f64 {
    let Some(rate) = plan.rate else { return 0.0 };
    let curve = Curve::of(&plan.shape, plan.duration);
    let [from, to] = [from_s, to_s].map(|s| curve.due_before(whole(s * 1e9)) as f64 / 1e9);
    rate.per_second() * (to - from)
}
