//! Load of a run: its shards, its budget, and the times of a recording.

use crawlmark_harness::plan::{Arrivals, PerHost, Recorded, RunPlan, default_burst, most_shards};
use crawlmark_harness::units::{Rate, RateShape};

use crate::cli::{Auto, RunArgs};
use crate::crawl::{Targets, dealt};

/// Return the shards of a run of this plan, as typed, or as many as `cores` cores and its limits
/// suggest.
pub(super) fn choose_shards(args: &RunArgs, plan: &RunPlan, cores: usize) -> u32 {
    match args.shards {
        Auto::Auto if plan.arrivals == Arrivals::Waves => 1,
        Auto::Auto => {
            let budget = plan
                .rate
                .filter(|_| plan.has_budget() && window(args).is_none());
            fitting_shards(cores, plan.connections, plan.per_host, own_burst(args))
                .min(budget.as_ref().map_or(u32::MAX, most_shards))
        }
        Auto::Exactly(shards) => shards,
    }
}

/// Set the burst of a plan, whose rate and shards are known. What the requests of an open loop may
/// do at once is up to its timetable.
pub(super) fn set_burst(args: &RunArgs, plan: &mut RunPlan) {
    let own = own_burst(args);
    let budget = plan.rate.filter(|_| plan.has_budget());
    plan.burst = own
        .or_else(|| budget.map(|rate| default_burst(&rate, plan.shards)))
        .unwrap_or(0);
    plan.at_start = budget.map_or(0, |_| own.unwrap_or(u64::from(plan.shards)));
}

/// Return the burst that the flags say.
fn own_burst(args: &RunArgs) -> Option<u64> {
    args.burst.or_else(|| window(args))
}

/// Return the requests of a window, which may have all of them at once, and saves nothing for the
/// next one; none of a rate without windows, or of an open loop, whose requests have times.
fn window(args: &RunArgs) -> Option<u64> {
    let rate = args.rate.as_ref()?;
    let is_window = matches!(rate.shape, RateShape::Windows { .. });
    (is_window && args.arrivals().gaps().is_none()).then_some(rate.peak.permits)
}

/// Each shard needs a connection, one to each host, a burst, and a share of each host's rate that
/// is worth having; one more than there are cores only waits for the others.
fn fitting_shards(cores: usize, connections: u32, per_host: PerHost, burst: Option<u64>) -> u32 {
    let burst = burst.map_or(u32::MAX, |burst| u32::try_from(burst).unwrap_or(u32::MAX));
    let of_host = per_host.connections.unwrap_or(u32::MAX).max(1);
    u32::try_from(cores)
        .unwrap_or(u32::MAX)
        .min(connections.max(1))
        .min(of_host)
        .min(burst)
        .min(per_host.rate.as_ref().map_or(u32::MAX, most_shards))
}

/// Have `shards` shards take turns with the lines of a recording, which are sent at `times`.
pub(super) fn deal(targets: Targets, times: &[u64], shards: u32) -> (Targets, Recorded) {
    let count = times.len() as u64;
    (
        targets.dealt(shards),
        Recorded(
            (0..count)
                .filter_map(|id| {
                    usize::try_from(dealt(id, count, shards))
                        .ok()
                        .and_then(|line| times.get(line).copied())
                })
                .collect(),
        ),
    )
}

/// Return the mean rate of a recording with these times.
pub(super) fn mean_rate(times: &[u64]) -> Rate {
    const MS: u64 = 1_000_000;
    let span = times.last().copied().unwrap_or(0);
    Rate {
        permits: times.len().max(1) as u64,
        period_ns: span.max(1).next_multiple_of(MS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_of_a_recording_is_its_mean_whatever_its_length() {
        for (count, span_ms) in [(100, 2_400), (7, 999), (30_000, 3_601_001)] {
            let times: Vec<u64> = (1..=count)
                .map(|at| at * span_ms * 1_000_000 / count)
                .collect();
            let per_s = count as f64 * 1_000.0 / span_ms as f64;
            assert!((mean_rate(&times).per_second() / per_s - 1.0).abs() < 0.001);
        }
    }
}
