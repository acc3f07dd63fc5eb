//! Use of the budgets of the run and of its hosts, and the proof that they were kept.
//!
//! The audit uses the times at which requests were written, not those at which they were let
//! through.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::{Totals, share};
use crawlmark_harness::pacer::Curve;
use crawlmark_harness::plan::RunPlan;
use crawlmark_harness::supervisor::{BusiestWindow, RunRecord, ShardRecord};
use crawlmark_harness::units::Rate;
use crawlmark_harness::wire::{BudgetUse, Scope};

/// Use of a budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// As asked, for people.
    pub rate: String,
    /// As asked, per second; the highest one when it changes.
    pub rate_per_s: f64,
    /// Requests at once over all shards.
    pub burst: u64,
    /// Attempts per second, each with the time that its place in the budget takes: `N` requests
    /// that are one period apart take `N` periods. No more than was asked while the budget was
    /// kept.
    pub achieved_per_s: f64,
    /// Attempts over what was allowed at once at the start and what the rate came to in the
    /// duration, at most 1.
    pub utilisation: f64,
    /// True if no window of any width, in any shard that told, held more than its burst plus its
    /// rate times the width.
    pub kept: bool,
    /// Shards that ended before they could tell.
    pub unaudited_shards: usize,
    /// The window of a shard that came closest.
    pub worst_window: Option<WindowReport>,
    /// The busiest windows of 10 ms, 100 ms and 1 s over all shards together, wherever they begin.
    pub busiest: Vec<BusiestReport>,
}

/// The busiest window of a width over all shards together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BusiestReport {
    /// Its width.
    pub width_ms: u64,
    /// The number of its host, from 0; absent of the run's budget.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<u32>,
    /// The most requests sent in any window of this width. Counted in slots of 10 us: no window
    /// held more, and one that is wider by 10 us at most held as many.
    pub admitted: u64,
    /// Requests allowed in the time that was counted: the burst, and the rate times the width and
    /// 10 us.
    pub allowed: u64,
}

/// A window in which a budget was used hard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// Number of the shard.
    pub shard: u32,
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

/// Use of the budgets of the hosts, one by one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct HostBudgetReport {
    /// As asked, for people.
    pub rate: String,
    /// As asked, per second.
    pub rate_per_s: f64,
    /// Requests at once to one host, over all shards.
    pub burst: u64,
    /// True if no window of any width, at any host and in any shard that reported, held more than
    /// its burst plus its rate times the width.
    pub kept: bool,
    /// Shards that ended before they could tell.
    pub unaudited_shards: usize,
    /// The window of a shard at a host that came closest.
    pub worst_window: Option<WindowReport>,
    /// The busiest windows at any host over all shards together; see [`BudgetReport::busiest`].
    pub busiest: Vec<BusiestReport>,
}

/// A rate limit that is audited.
#[derive(Debug, Clone, Copy)]
struct AuditedLimit {
    rate: Rate,
    curve: Curve,
    /// Requests at once over all shards.
    burst: u64,
    is_within: fn(Scope) -> bool,
}

/// Result of the audit of a limit.
struct Audit {
    kept: bool,
    unaudited_shards: usize,
    worst_window: Option<WindowReport>,
    busiest: Vec<BusiestReport>,
}

impl AuditedLimit {
    fn audit(&self, record: &RunRecord) -> Audit {
        let uses = || {
            let of = |shard: &ShardRecord| (shard.plan.shard, shard.budgets.clone());
            let all = record
                .shards
                .iter()
                .map(of)
                .flat_map(|(shard, uses)| uses.into_iter().map(move |used| (shard, used)));
            all.filter(|(_, (scope, _))| (self.is_within)(*scope))
        };
        let window = |(shard, (scope, BudgetUse { worst, .. }))| WindowReport {
            shard,
            host: number(scope),
            width_ms: worst.width_ns as f64 / 1e6,
            admitted: worst.admitted,
            allowed: worst.allowed,
        };
        let windows = record
            .busiest
            .iter()
            .filter(|(scope, _)| (self.is_within)(**scope));
        let mut busiest: Vec<BusiestReport> = Vec::new();
        for (scope, window) in
            windows.flat_map(|(scope, windows)| windows.iter().map(move |window| (*scope, window)))
        {
            let window = BusiestReport {
                width_ms: u64::try_from(window.width.as_millis()).unwrap_or(u64::MAX),
                host: number(scope),
                admitted: window.sent,
                allowed: self.burst + self.allowed_in(window),
            };
            match busiest
                .iter_mut()
                .find(|known| known.width_ms == window.width_ms)
            {
                Some(known) if known.admitted < window.admitted => *known = window,
                Some(_) => {}
                None => busiest.push(window),
            }
        }
        Audit {
            kept: uses().all(|(_, (_, used))| used.kept)
                && busiest
                    .iter()
                    .all(|window| window.admitted <= window.allowed),
            unaudited_shards: record
                .shards
                .iter()
                .filter(|shard| shard.fault.is_some() || !shard.past.is_empty())
                .count(),
            worst_window: uses()
                .map(window)
                .max_by(|a, b| a.used().total_cmp(&b.used())),
            busiest,
        }
    }

    /// Requests that the rate allows in the whole window.
    fn allowed_in(&self, window: &BusiestWindow) -> u64 {
        let Range { start, end } = window.counted();
        let by_rate = self
            .rate
            .permits_in(self.curve.at(end) - self.curve.at(start));
        // In windows, what comes a window's requests later is that much later, wherever the time
        // begins.
        let apart_ns = self.curve.shape().apart_ns();
        apart_ns.map_or(by_rate, |apart_ns| {
            by_rate.min(self.burst * ((end - start) / apart_ns))
        })
    }
}

/// The number of the host that a limit is for; none of the run.
const fn number(scope: Scope) -> Option<u32> {
    match scope {
        Scope::Run => None,
        Scope::Host(host) => Some(host),
    }
}

impl WindowReport {
    fn used(&self) -> f64 {
        self.admitted as f64 / self.allowed as f64
    }
}

impl BudgetReport {
    pub(super) fn new(plan: &RunPlan, record: &RunRecord, totals: &Totals) -> Option<Self> {
        let warm: u64 = record
            .shards
            .iter()
            .map(|shard| shard.warmup.requests.attempts)
            .sum();
        let rate = plan.rate.filter(|_| plan.has_budget())?;
        let curve = Curve::of(plan.shape, plan.duration);
        let limit = AuditedLimit {
            rate,
            curve,
            burst: plan.burst,
            is_within: |scope| scope == Scope::Run,
        };
        let Audit {
            kept,
            unaudited_shards,
            worst_window,
            busiest,
        } = limit.audit(record);
        Some(Self {
            rate: plan.shaped_rate()?.to_string(),
            rate_per_s: rate.per_second(),
            burst: limit.burst,
            achieved_per_s: achieved_per_s((plan, rate), warm, totals, kept),
            utilisation: utilisation(plan, totals),
            kept,
            unaudited_shards,
            worst_window,
            busiest,
        })
    }
}

/// [`BudgetReport::achieved_per_s`] of a budget that was kept or was not, in a run that made so
/// many attempts in its warm-up.
fn achieved_per_s((plan, rate): (&RunPlan, Rate), warm: u64, totals: &Totals, kept: bool) -> f64 {
    let measured_s = (totals.duration_s - plan.warmup.as_secs_f64()).max(0.0);
    let at_once_s = plan.at_once_at_start() as f64 / rate.per_second();
    let achieved_per_s = share(
        totals.attempts.saturating_sub(warm) as f64,
        measured_s + at_once_s,
    );
    // What a late shard makes up for after the warm-up was offered before.
    if kept {
        achieved_per_s.min(rate.per_second())
    } else {
        achieved_per_s
    }
}

/// [`BudgetReport::utilisation`].
fn utilisation(plan: &RunPlan, totals: &Totals) -> f64 {
    let allowed = plan.at_once_at_start() as f64 + offered(plan, 0.0, totals.duration_s);
    // What falls due at the very end cannot be used any more.
    share(totals.attempts as f64, (allowed.ceil() - 1.0).max(1.0)).min(1.0)
}

impl HostBudgetReport {
    pub(super) fn new(plan: &RunPlan, record: &RunRecord) -> Option<Self> {
        let (rate, burst) = plan.per_host.rate.zip(plan.per_host.at_once(plan.shards))?;
        let limit = AuditedLimit {
            rate,
            curve: Curve::FLAT,
            burst,
            is_within: |scope| scope != Scope::Run,
        };
        let Audit {
            kept,
            unaudited_shards,
            worst_window,
            busiest,
        } = limit.audit(record);
        let (text, rate_per_s) = (rate.to_string(), rate.per_second());
        Some(Self {
            rate: text,
            rate_per_s,
            burst,
            kept,
            unaudited_shards,
            worst_window,
            busiest,
        })
    }
}

/// Requests that the budget offers from one moment of a run to another, in seconds since its start;
/// nothing without one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a run is far shorter than 2^63 ns"
)]
pub(crate) fn offered(plan: &RunPlan, from_s: f64, to_s: f64) -> f64 {
    let Some(rate) = plan.rate else { return 0.0 };
    let curve = Curve::of(plan.shape, plan.duration);
    let own_s = |s: f64| curve.due_before((s.max(0.0) * 1e9) as u64) as f64 / 1e9;
    rate.per_second() * (own_s(to_s) - own_s(from_s))
}
