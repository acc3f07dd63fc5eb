//! Rates and shares: counts over times, and parts of wholes.

use super::{ROUNDING, at_most, close, counts_until_the_end, equal, is_whole};
use crate::run::report::{
    BindingReport, BudgetReport, Ledger, Report, ScheduleReport, ShardReport, Totals, WarmUpCounts, WarmUpReport,
    budget_achieved_per_s, offered, schedule_achieved_per_s, utilisation,
};
use crawlmark_harness::plan::Arrivals;
use crawlmark_harness::stats::{ItemCounts, RequestCounts};

/// The wall clock of a report is in whole milliseconds, s.
const WALL_CLOCK_S: f64 = 2e-3;

pub(super) fn check(report: &Report) -> Result<(), String> {
    duration(report)?;
    let Report { plan, totals, ledger, shards, .. } = report;
    let plan = &plan.run;
    if let Some(warmup) = &report.warmup {
        close("warmup.duration_s", warmup.duration_s, "plan.warmup_us", plan.warmup.as_secs_f64())?;
        at_most("warmup.attempts", warmup.attempts, "totals.attempts", totals.attempts)?;
        at_most("warmup.items", warmup.items, "the number of items that ended", ledger.completed())?;
        if let Some(counted) = &warmup.counted {
            warm_counts(warmup, counted, report)?;
        }
    }
    if report.warmup.is_some() == plan.warmup.is_zero() {
        return Err("`warmup` is there without plan.warmup_us, or missing with it".to_owned());
    }
    if counts_until_the_end(report) {
        rates("totals", totals, ledger, Warm::of(report.warmup.as_ref()))?;
        for (i, shard) in shards.iter().enumerate() {
            let warm =
                report.warmup.as_ref().map_or(Warm::NONE, |warmup| Warm { least: [0; 2], ..Warm::of(Some(warmup)) });
            rates(&format!("shards[{i}].totals"), &shard.totals, &shard.ledger, warm)?;
        }
        schedule(report)?;
        budget(report)?;
        offers(report)?;
    }
    for (i, shard) in shards.iter().enumerate() {
        usage(&format!("shards[{i}]"), shard)?;
        let (last_s, duration_s) = (shard.last_ended_s.unwrap_or(0.0), shard.totals.duration_s);
        if !(0.0..=duration_s).contains(&last_s) {
            return Err(format!(
                "`shards[{i}].last_ended_s` is {last_s}, but shards[{i}].totals.duration_s is {duration_s}"
            ));
        }
        binding(&format!("shards[{i}].binding"), shard.binding)?;
    }
    for (i, row) in report.intervals.iter().enumerate() {
        binding(&format!("intervals[{i}].binding"), row.binding)?;
    }
    binding("binding", report.binding)?;
    throttling(report)?;
    let wall_s = super::judged::wall_s(report).unwrap_or(0.0).max(totals.duration_s);
    let supervisor = report.supervisor;
    if wall_s > 0.0 {
        let (least, most) =
            (supervisor.cpu_s / (wall_s + WALL_CLOCK_S), supervisor.cpu_s / (wall_s - WALL_CLOCK_S).max(1e-9));
        if !(least * (1.0 - ROUNDING)..=most * (1.0 + ROUNDING)).contains(&supervisor.cpu_share) {
            let is = supervisor.cpu_share;
            return Err(format!(
                "`supervisor.cpu_share` is {is}, but supervisor.cpu_s over the time of the run is {most}"
            ));
        }
    }
    Ok(())
}

/// Check that the counts of the warm-up are parts of those of the run, and add up.
fn warm_counts(warmup: &WarmUpReport, counted: &WarmUpCounts, report: &Report) -> Result<(), String> {
    let Report { ledger, totals, .. } = report;
    let counts = |items: &ItemCounts, requests: &RequestCounts| items.iter().chain(requests.iter());
    let parts = counts(&counted.items, &counted.requests).zip(counts(ledger, totals));
    for ((counter, part), (_, whole)) in parts {
        at_most(format_args!("warmup.counted.{}", counter.name), part, "that of the whole run", whole)?;
    }
    equal("warmup.items", warmup.items, "the sum of the states in warmup.counted", counted.items.completed())
}

/// The part of the counts that was in the warm-up, at least and at most: attempts, items.
#[derive(Debug, Clone, Copy)]
struct Warm {
    duration_s: f64,
    least: [u64; 2],
    most: [u64; 2],
}

impl Warm {
    const NONE: Self = Self { duration_s: 0.0, least: [0; 2], most: [0; 2] };

    fn of(warmup: Option<&WarmUpReport>) -> Self {
        warmup.map_or(Self::NONE, |&WarmUpReport { duration_s, attempts, items, .. }| Self {
            duration_s,
            least: [attempts, items],
            most: [attempts, items],
        })
    }
}

/// The run lasted until its last shard did, or waited until the end of its duration, or until it was stopped.
fn duration(report: &Report) -> Result<(), String> {
    let last_s = report.shards.iter().map(|shard| shard.totals.duration_s).fold(0.0, f64::max);
    let duration_s = report.totals.duration_s;
    at_most("shards[].totals.duration_s", last_s, "totals.duration_s", duration_s)?;
    let planned_s = report.plan.run.duration.map(|duration| duration.as_secs_f64());
    let waited = planned_s.is_some_and(|planned_s| close("", duration_s, "", planned_s).is_ok());
    if waited {
        Ok(())
    } else if let (true, Some(wall_s)) = (report.interrupted, super::judged::wall_s(report)) {
        // To the tick of a wall clock.
        at_most("totals.duration_s", duration_s, "the time from started_at to finished_at", wall_s.max(last_s) + 0.01)
    } else {
        close("totals.duration_s", duration_s, "the greatest of shards[].totals.duration_s", last_s)
    }
}

fn rates(place: &str, totals: &Totals, ledger: &Ledger, warm: Warm) -> Result<(), String> {
    let measured_s = (totals.duration_s - warm.duration_s).max(0.0);
    let per_s =
        |count: u64, warm: u64| if measured_s > 0.0 { count.saturating_sub(warm) as f64 / measured_s } else { 0.0 };
    let [least, most] = [warm.least, warm.most];
    // How many of the items in the warm-up were good is not in the report.
    let good = if warm.duration_s > 0.0 { 0 } else { least[1] };
    // Older versions count what was cut off.
    let uncut = most[0].saturating_add(ledger.aborted);
    let rates = [
        ("attempts_per_s", totals.attempts_per_s, totals.attempts, least[0], uncut),
        ("items_per_s", totals.items_per_s, ledger.completed(), least[1], most[1]),
        ("ok_per_s", totals.ok_per_s.unwrap_or_default(), ledger.ok, good, most[1]),
    ];
    for (name, is, count, fewest, most) in rates {
        let (lowest, highest) = (per_s(count, most), per_s(count, fewest));
        let field = format!("{place}.{name}");
        if is < lowest {
            close(field, is, "the count over the time after the warm-up", lowest)?;
        } else if is > highest {
            close(field, is, "the count over the time after the warm-up", highest)?;
        }
    }
    Ok(())
}

/// Check `schedule` against the counts and the plan.
fn schedule(report: &Report) -> Result<(), String> {
    let (plan, totals) = (&report.plan.run, &report.totals);
    let rate = plan.shaped_rate().filter(|_| !plan.has_budget());
    let Some(schedule) = &report.schedule else {
        return if rate.is_none() { Ok(()) } else { Err("`schedule` is null, but the plan has a schedule".to_owned()) };
    };
    let Some(rate) = rate else { return Err("`schedule` is there, but the plan has none".to_owned()) };
    let ScheduleReport { arrivals, rate: asked, rate_per_s, scheduled, dropped, postponed, unscheduled, .. } = schedule;
    equal("schedule.arrivals", arrivals.as_str(), "plan.arrivals", plan.arrivals.name())?;
    equal("schedule.rate", asked.as_str(), "plan.rate", &rate.to_string())?;
    close("schedule.rate_per_s", *rate_per_s, "plan.rate", rate.peak.per_second())?;
    equal("schedule.dropped", *dropped, "totals.dropped", totals.dropped)?;
    let sum = |of: fn(&ShardReport) -> Option<u64>| report.shards.iter().filter_map(of).sum::<u64>();
    equal("schedule.scheduled", *scheduled, "the sum of shards[].scheduled", sum(|shard| shard.scheduled))?;
    at_most("schedule.dropped_by", schedule.dropped_by.values().sum(), "(the sum) schedule.dropped", *dropped)?;
    equal("schedule.postponed", *postponed, "the sum of shards[].postponed", sum(|shard| shard.postponed))?;
    equal("schedule.unscheduled", *unscheduled, "the sum of shards[].unscheduled", sum(|shard| shard.unscheduled))?;
    // A shard that died had told of its attempts, and not of its timetable.
    let untold = || report.shards.iter().filter(|shard| shard.scheduled.is_none());
    let known: u64 = untold().map(|shard| shard.totals.attempts + shard.totals.dropped).sum();
    let all = scheduled + known + unscheduled;
    let ScheduleReport { sent_share, achieved_per_s, untold_shards, .. } = schedule;
    equal("schedule.untold_shards", *untold_shards, "the number of shards without `scheduled`", untold().count())?;
    let sent = if all > 0 { totals.attempts_sent as f64 / all as f64 } else { 1.0 };
    close("schedule.sent_share", *sent_share, "totals.attempts_sent over all that was due", sent)?;
    let warm = report.warmup.as_ref().map_or(0, |warmup| warmup.attempts);
    let wanted = schedule_achieved_per_s(plan, warm, totals);
    close("schedule.achieved_per_s", *achieved_per_s, "attempts over the time of the schedule", wanted)
}

/// Check the use of the budget against the counts and the plan.
fn budget(report: &Report) -> Result<(), String> {
    let (plan, totals) = (&report.plan.run, &report.totals);
    let died = report.shards.iter().filter(|shard| !shard.is_whole()).count();
    if let Some(host) = &report.host_budget {
        let rate = plan.per_host.rate.ok_or("`host_budget` is there, but plan.per_host.rate is null")?;
        close("host_budget.rate_per_s", host.rate_per_s, "plan.per_host.rate", rate.per_second())?;
        let burst = plan.per_host.at_once(plan.shards).unwrap_or(host.burst);
        equal("host_budget.burst", host.burst, "that of the plan", burst)?;
        equal("host_budget.unaudited_shards", host.unaudited_shards, "the number of shards that died", died)?;
        windows("host_budget", host.kept, host.busiest.iter().map(|window| (window.admitted, window.allowed)))?;
        windows("host_budget", host.kept, host.worst_window.iter().map(|window| (window.admitted, window.allowed)))?;
    }
    let rate = plan.rate.filter(|_| plan.has_budget());
    let (rate, budget) = match (rate, &report.budget) {
        (Some(rate), Some(budget)) => (rate, budget),
        (None, None) => return Ok(()),
        _ => return Err("`budget` is there without one in the plan, or missing with one".to_owned()),
    };
    let BudgetReport { rate: asked, rate_per_s, burst, kept, busiest, worst_window, .. } = budget;
    let shaped = plan.shaped_rate().map(|rate| rate.to_string()).unwrap_or_default();
    equal("budget.rate", asked, "plan.rate", &shaped)?;
    close("budget.rate_per_s", *rate_per_s, "plan.rate", rate.per_second())?;
    equal("budget.burst", *burst, "that of the plan", plan.at_once())?;
    equal("budget.unaudited_shards", budget.unaudited_shards, "the number of shards that died", died)?;
    windows("budget", *kept, busiest.iter().map(|window| (window.admitted, window.allowed)))?;
    windows("budget", *kept, worst_window.iter().map(|window| (window.admitted, window.allowed)))?;
    let warm = report.warmup.as_ref().map_or(0, |warmup| warmup.attempts);
    let achieved = budget_achieved_per_s((plan, rate), warm, totals, *kept);
    close("budget.achieved_per_s", budget.achieved_per_s, "totals.attempts as the budget counts them", achieved)?;
    close("budget.utilisation", budget.utilisation, "totals.attempts over what was allowed", utilisation(plan, totals))
}

/// A budget that was kept let no window hold more than was allowed.
fn windows(name: &str, kept: bool, mut windows: impl Iterator<Item = (u64, u64)>) -> Result<(), String> {
    match windows.find(|(admitted, allowed)| kept && admitted > allowed) {
        Some((admitted, allowed)) => {
            Err(format!("`{name}.kept` is true, but a window holds {admitted} requests, and {allowed} are allowed"))
        }
        None => Ok(()),
    }
}

/// Check that the rate offered in each second is that of the plan; without shards that died, whose part is missing.
fn offers(report: &Report) -> Result<(), String> {
    let (plan, duration_s) = (&report.plan.run, report.totals.duration_s);
    if !is_whole(report) || plan.rate.is_none() || plan.arrivals == Arrivals::Replay {
        return Ok(());
    }
    report.intervals.iter().enumerate().try_for_each(|(i, row)| {
        let start_s = row.start_s as f64;
        let wanted = offered(plan, start_s, (start_s + 1.0).min(duration_s).max(start_s));
        close(
            format_args!("intervals[{i}].offered"),
            row.offered.unwrap_or_default(),
            "what plan.rate offers in it",
            wanted,
        )
    })
}

/// Check the usage of a shard, per attempt and per time.
fn usage(place: &str, shard: &ShardReport) -> Result<(), String> {
    let usage = shard.usage;
    let named = |name: &str| format!("{place}.{name}");
    let over = |part: Option<f64>, whole: f64| part.map(|part| if whole > 0.0 { part / whole } else { 0.0 });
    let measured_s = usage.measured_s.unwrap_or(0.0);
    let per_attempt = over(usage.cpu_s(), shard.totals.attempts as f64).filter(|_| shard.totals.attempts > 0);
    let figures = [
        ("cpu_us_per_attempt", usage.cpu_us_per_attempt, "CPU over attempts", per_attempt.map(|s| s * 1e6)),
        ("cpu_share", usage.cpu_share, "CPU over measured_s", over(usage.cpu_s(), measured_s)),
        ("run_delay_share", usage.run_delay_share, "run_delay_s over measured_s", over(usage.run_delay_s, measured_s)),
    ];
    figures.into_iter().try_for_each(|(name, is, other, wanted)| match (is, wanted) {
        (Some(is), Some(wanted)) => close(named(name), is, other, wanted),
        (None, None) => Ok(()),
        _ => Err(format!("`{}` is null, or is not and should be", named(name))),
    })
}

/// The parts of the time of each limit add up to all of it, or to nothing.
fn binding(place: &str, binding: BindingReport) -> Result<(), String> {
    let BindingReport { rate, concurrency, pause, target, storage, idle } = binding;
    let parts = [rate, concurrency, pause, target, storage, idle];
    let sum: f64 = parts.iter().sum();
    if parts.iter().all(|part| *part == 0.0) {
        Ok(())
    } else {
        close(place, sum, "(the sum of its parts) the whole", 1.0)
    }
}

/// Shares of what was throttled, and of what brought no item.
fn throttling(report: &Report) -> Result<(), String> {
    let (throttling, totals, ledger) = (&report.throttling, &report.totals, &report.ledger);
    let share = |part: u64| if totals.attempts > 0 { part as f64 / totals.attempts as f64 } else { 0.0 };
    let wasted = totals.attempts.saturating_sub(ledger.ok + ledger.not_found);
    close(
        "manners.throttled_share",
        throttling.throttled_share,
        "totals.throttled over attempts",
        share(totals.throttled),
    )?;
    close("manners.wasted_share", throttling.wasted_share, "attempts without an item over attempts", share(wasted))?;
    at_most("manners.promises", throttling.promises, "totals.throttled", totals.throttled)?;
    at_most("manners.violated", throttling.violated, "manners.early_attempts", throttling.early_attempts)?;
    if throttling.violated == 0 {
        equal("manners.early_attempts", throttling.early_attempts, "manners.violated", 0)?;
    }
    let recoveries = [throttling.recovery_mean_s, throttling.recovery_max_s];
    if recoveries.iter().any(|figure| figure.is_some() != (throttling.recoveries > 0)) {
        let count = throttling.recoveries;
        return Err(format!(
            "`manners.recoveries` is {count}, which does not fit manners.recovery_mean_s and recovery_max_s"
        ));
    }
    let [mean, longest] = recoveries.map(Option::unwrap_or_default);
    at_most("manners.recovery_mean_s", mean, "manners.recovery_max_s", longest * (1.0 + ROUNDING))
}
