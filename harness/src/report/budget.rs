//! How the budget was used, and the proof that it was kept.

use serde::{Deserialize, Serialize};

use super::{Totals, share};
use crate::clock::duration_ns;
use crate::pacer::Curve;
use crate::plan::RunPlan;
use crate::supervisor::{BusiestWindow, RunRecord};
use crate::wire::SLOT;

/// How a budget was used.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BudgetReport {
    /// As asked, for people.
    pub rate: String,
    /// As asked, per second; the highest one when it changes.
    pub rate_per_s: f64,
    /// Requests at once over all shards.
    pub burst: u64,
    /// Attempts per second.
    pub achieved_per_s: f64,
    /// Attempts over what was allowed at once at the start and what the rate came to in the duration, at most 1.
    pub utilisation: f64,
    /// Whether no window of any width, in any shard that told, held more than its burst plus its rate times the width.
    pub kept: bool,
    /// Shards that ended before they could tell.
    pub unaudited_shards: usize,
    /// The window of a shard that came closest.
    pub worst_window: Option<WindowReport>,
    /// The busiest windows of 10 ms, 100 ms and 1 s over all shards together, in steps of 10 ms.
    pub busiest: Vec<BusiestReport>,
}

/// The busiest window of a width over all shards together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BusiestReport {
    /// Its width.
    pub width_ms: u64,
    /// Requests admitted in it.
    pub admitted: u64,
    /// Requests allowed in it: the burst and the rate times the width.
    pub allowed: u64,
}

/// A window in which a budget was used hard.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct WindowReport {
    /// In which shard.
    pub shard: u32,
    /// Its width.
    pub width_ms: f64,
    /// Requests admitted in it.
    pub admitted: u64,
    /// Requests allowed in it.
    pub allowed: u64,
}

impl BudgetReport {
    pub(super) fn new(plan: &RunPlan, record: &RunRecord, totals: &Totals) -> Option<Self> {
        let rate = plan.rate.filter(|_| plan.has_budget())?;
        let uses = || record.shards.iter().filter_map(|shard| Some((shard, shard.budget?)));
        let closeness = |admitted: u64, allowed: u64| admitted as f64 / allowed as f64;
        let worst = uses().max_by(|(_, a), (_, b)| {
            closeness(a.worst.admitted, a.worst.allowed).total_cmp(&closeness(b.worst.admitted, b.worst.allowed))
        });
        let width_ms = |window: &BusiestWindow| window.slots as u64 * u64::try_from(SLOT.as_millis()).unwrap_or(0);
        let busiest: Vec<BusiestReport> = record
            .busiest
            .iter()
            .map(|window| BusiestReport {
                width_ms: width_ms(window),
                admitted: window.admitted,
                allowed: plan.at_once() + allowed_in(plan, window),
            })
            .collect();
        let allowed = plan.at_once_at_start() as f64 + offered(plan, 0.0, totals.duration_s);
        Some(Self {
            rate: plan.shaped_rate()?.to_string(),
            rate_per_s: rate.per_second(),
            burst: plan.at_once(),
            achieved_per_s: totals.attempts_per_s,
            utilisation: share(totals.attempts as f64, allowed).min(1.0),
            kept: uses().all(|(_, budget)| budget.kept)
                && busiest.iter().all(|window| window.admitted <= window.allowed),
            unaudited_shards: record.shards.len() - uses().count(),
            worst_window: worst.map(|(shard, budget)| WindowReport {
                shard: shard.plan.shard,
                width_ms: budget.worst.width_ns as f64 / 1e6,
                admitted: budget.worst.admitted,
                allowed: budget.worst.allowed,
            }),
            busiest,
        })
    }
}

/// Requests that the budget offers from one moment of a run to another, in seconds since its start; nothing without one.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a run is far shorter than 2^63 ns")]
pub(crate) fn offered(plan: &RunPlan, from_s: f64, to_s: f64) -> f64 {
    let Some(rate) = plan.rate else { return 0.0 };
    let curve = Curve::of(plan.shape, plan.duration);
    let own_s = |s: f64| curve.at((s.max(0.0) * 1e9) as u64) as f64 / 1e9;
    rate.per_second() * (own_s(to_s) - own_s(from_s))
}

/// What the rate comes to in a window of 10 ms slots.
fn allowed_in(plan: &RunPlan, window: &BusiestWindow) -> u64 {
    let Some(rate) = plan.rate else { return 0 };
    let slot_ns = duration_ns(SLOT);
    let end = (window.last_slot + 1) * slot_ns;
    let curve = Curve::of(plan.shape, plan.duration);
    rate.permits_in(curve.at(end) - curve.at(end.saturating_sub(window.slots as u64 * slot_ns)))
}
