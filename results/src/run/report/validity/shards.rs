//! Checks of each shard: its end, its totals, and the CPU time that it got.

use std::fmt::Write as _;
use std::time::Duration;

use super::thresholds::{
    CPU_USE, FREEZE_US, LITTLE_CPU, LOOP_LAG_US, RECEIVE_DELAY_US, RUN_DELAY, SCHED_LAG_OF_SERVICE,
    SCHED_LAG_US, SHORTEST_FOR_STEAL_S, SHORTEST_S, SPEED, STEAL,
};
use super::wording::{Worst, more_room, remedy};
use super::{CheckResult, Evidence, Missing, Verdict};
use crate::run::report::{Latency, Ledger, ShardReport};
use crate::show::text::counted;
use crawlmark_harness::plan::Pacing;
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::stats::Series;
use crawlmark_harness::supervisor::ShardFault;
use crawlmark_harness::units::{grouped, micros, rounded_percent};

/// A shard that did not tell everything, or that failed after it had.
pub(super) fn ends(evidence: &Evidence<'_>) -> CheckResult {
    CheckResult::Findings(
        evidence
            .shards
            .iter()
            .filter_map(|shard| unclean(evidence, shard))
            .collect(),
    )
}

fn unclean(evidence: &Evidence<'_>, shard: &ShardReport) -> Option<String> {
    let (number, exits) = (shard.shard, shard.exits.join(", "));
    if let Some(fault) = &shard.fault {
        let Ledger {
            lost,
            not_attempted,
            ..
        } = shard.ledger;
        if *fault == ShardFault::Missing.to_string() {
            let items = counted(not_attempted, "item");
            return Some(format!(
                "part {number} {fault}, so its {items} are not attempted. Run it, and merge again"
            ));
        }
        // Of a run that the time ends, most of the range would not have been tried anyway.
        let rest = match evidence.plan.duration {
            None if not_attempted > 0 => format!(" and {} not attempted", grouped(not_attempted)),
            _ => String::new(),
        };
        let lost = if shard.has_reported() {
            format!("up to {} of its items are lost", grouped(lost))
        } else {
            "it had reported nothing yet, so the number of its lost items is unknown".to_owned()
        };
        let mut finding = format!(
            "shard {number} {fault} (its process {exits}): {lost}{rest}, its times are left out"
        );
        if let Some(unscheduled) = shard.unscheduled {
            let _ = write!(
                finding,
                "; about {} requests of its part of the schedule were never sent, so the run offered less than the rate",
                grouped(unscheduled)
            );
        }
        if exits.contains("SIGKILL") {
            finding +=
                ". If you did not kill it, check the kernel log (dmesg) for an out-of-memory kill";
        }
        return Some(finding);
    }
    let last = shard
        .exits
        .last()
        .filter(|exit| **exit != ShardExit::Clean.to_string())?;
    Some(format!(
        "shard {number} reported everything, and then its process {last}"
    ))
}

/// Shards whose processes died and were replaced: all of their items are accounted for, and not all
/// of their requests.
pub(super) fn replaced(shards: &[ShardReport]) -> Vec<String> {
    let finding = |shard: &ShardReport| {
        let (_, died) = shard
            .exits
            .split_last()
            .filter(|(_, died)| !died.is_empty())?;
        Some(format!(
            "shard {} died and was replaced {} (its process {}): requests since the last report of a process that died are not counted, \
             and its times and CPU are left out. Check the kernel log (dmesg) for the cause, and run again for complete figures",
            shard.shard,
            counted(died.len() as u64, "time"),
            died.join(", then ")
        ))
    };
    shards.iter().filter_map(finding).collect()
}

/// A shard whose items are not all in one state.
pub(super) fn sums(evidence: &Evidence<'_>) -> CheckResult {
    let shards = || evidence.shards.iter();
    CheckResult::Findings(
        shards()
            .filter_map(out_of_sum)
            .chain(shards().filter_map(out_of_schedule))
            .collect(),
    )
}

/// Report a shard whose scheduled requests are not the sum of those sent, dropped and postponed.
fn out_of_schedule(shard: &ShardReport) -> Option<String> {
    let (scheduled, attempts, dropped) = (
        shard.scheduled?,
        shard.totals.attempts,
        shard.totals.dropped,
    );
    let postponed = shard.postponed.unwrap_or(0);
    (scheduled != attempts + dropped + postponed).then(|| {
        format!(
            "shard {} scheduled {scheduled} requests, of which {attempts} were sent, {dropped} dropped and {postponed} \
             postponed, which does not add up. Report this as a bug",
            shard.shard
        )
    })
}

fn out_of_sum(shard: &ShardReport) -> Option<String> {
    let Ledger {
        planned,
        items,
        not_attempted,
        lost,
    } = shard.ledger;
    (!shard.ledger.adds_up()).then(|| {
        let (ended, unfinished) = (items.ended(), items.unfinished);
        format!(
            "shard {} planned {planned} items, of which {ended} ended, {unfinished} were unfinished, \
             {not_attempted} not attempted and {lost} lost, which does not add up. Report this as a bug",
            shard.shard
        )
    })
}

/// No room left on its CPU.
pub(super) fn cpu_use(evidence: &Evidence<'_>) -> CheckResult {
    if evidence.plan.pacing == Pacing::Spin {
        // It burns what it does not need; whether it came in time, its lateness tells.
        return CheckResult::Findings(Vec::new());
    }
    let used = match readings(evidence, SHORTEST_S, |shard| shard.usage.cpu_share) {
        Ok(used) => used,
        Err(missing) => return CheckResult::Unavailable(missing),
    };
    let beyond = used.into_iter().filter(|(_, used)| *used > CPU_USE);
    CheckResult::perhaps(Worst::of(beyond).map(|worst| {
        let (cores, shards) = (evidence.environment.cores, evidence.shards.len());
        let advice = if shards < cores && !evidence.environment.colocated {
            format!("This machine has {cores} CPUs: use more shards (--shards)")
        } else {
            more_room(evidence)
        };
        format!(
            "{} used {} of a CPU, so the rate is this client's ceiling and times include its own queueing. {advice}",
            worst.who(),
            rounded_percent(worst.reading)
        )
    }))
}

/// True if the shards together used less than [`LITTLE_CPU`] of the CPUs that they could run on;
/// false if that is not known.
pub(crate) fn used_little(shards: &[ShardReport], cores: usize) -> bool {
    let used: Vec<f64> = shards
        .iter()
        .filter_map(|shard| shard.usage.cpu_share)
        .collect();
    !used.is_empty() && used.iter().sum::<f64>() < LITTLE_CPU * used.len().min(cores) as f64
}

/// Return the verdict that a lack of CPU leads to: the client's limit where a shard used all of a
/// CPU, and a disturbance where the shards used little and one of them waited for a CPU. None
/// elsewhere: each check has its own.
pub(super) fn blame(evidence: &Evidence<'_>) -> Option<Verdict> {
    let waits =
        readings(evidence, SHORTEST_S, |shard| shard.usage.run_delay_share).unwrap_or_default();
    if matches!(cpu_use(evidence), CheckResult::Findings(found) if !found.is_empty()) {
        return Some(Verdict::ClientLimited);
    }
    let is_starved = waits.iter().any(|(_, waited)| *waited > RUN_DELAY);
    (is_starved && used_little(evidence.shards, evidence.environment.cores))
        .then_some(Verdict::Disturbed)
}

/// Ready to run, and something else ran. A client that used little is judged by what the wait did,
/// where that is known.
pub(super) fn run_delay(evidence: &Evidence<'_>) -> CheckResult {
    let waits = match readings(evidence, SHORTEST_S, |shard| shard.usage.run_delay_share) {
        Ok(waits) => waits,
        Err(missing) => return CheckResult::Unavailable(missing),
    };
    let used_little = used_little(evidence.shards, evidence.environment.cores);
    let is_harmless = |shard| {
        used_little
            && times(shard, Series::ReceiveDelay)
                .and_then(highest_known)
                .is_some()
    };
    let long = waits
        .into_iter()
        .filter(|(shard, waited)| *waited > RUN_DELAY && !is_harmless(shard));
    CheckResult::perhaps(Worst::of(long).map(|worst| {
        format!(
            "{} spent {} of the run waiting for a CPU, so {} and look slower than they were. {}",
            worst.who(),
            rounded_percent(worst.reading),
            read_late(worst.shard),
            more_room(evidence)
        )
    }))
}

/// Say how late responses were read: measured by the kernel's receive time stamps where there are
/// enough.
fn read_late(shard: &ShardReport) -> String {
    let measured = times(shard, Series::ReceiveDelay).and_then(highest_known);
    measured.map_or_else(
        || "some responses were read late".to_owned(),
        |(us, part)| {
            format!(
                "{part} of its responses were read at least {} late",
                micros(us)
            )
        },
    )
}

/// Responses that lay unread in the client.
pub(super) fn receive_delay(evidence: &Evidence<'_>) -> CheckResult {
    if none_reported(evidence) {
        return CheckResult::Unavailable(Missing::NoShard);
    }
    let delay = |shard| times(shard, Series::ReceiveDelay).filter(|delay| delay.count > 0);
    if evidence.shards.iter().all(|shard| delay(shard).is_none()) {
        return CheckResult::Unavailable(Missing::NoStamps);
    }
    let late = evidence.shards.iter().filter_map(|shard| {
        let (us, _) = highest_known(delay(shard)?)?;
        (us > late_us(shard, RECEIVE_DELAY_US)).then_some((shard, us))
    });
    CheckResult::perhaps(Worst::of(late).map(|worst| {
        let (who, late) = (worst.who(), read_late(worst.shard));
        format!(
            "in {who}, {late} (time stamps of the kernel), which is in their latency. {}",
            more_room(evidence)
        )
    }))
}

/// Return the lateness from which on a finding is due, µs: `least_us`, or a part of the median
/// service time of the shard.
fn late_us(shard: &ShardReport, least_us: f64) -> f64 {
    let service = times(shard, Series::ServiceOk)
        .and_then(|service| service.p50_us)
        .unwrap_or(0.0);
    least_us.max(service * SCHED_LAG_OF_SERVICE)
}

/// Requests of a paced run that went late.
pub(super) fn sched_lag(evidence: &Evidence<'_>) -> CheckResult {
    if none_reported(evidence) {
        return CheckResult::Unavailable(Missing::NoShard);
    }
    // A run without a budget has nothing to be late for.
    let paced = evidence.plan.rate.is_some();
    let late = evidence
        .shards
        .iter()
        .filter(|_| paced)
        .filter_map(|shard| {
            let (us, _) = highest_known(times(shard, Series::SchedLag)?)?;
            (us > late_us(shard, SCHED_LAG_US)).then_some((shard, us))
        });
    CheckResult::perhaps(Worst::of(late).map(|worst| {
        format!(
            "{} sent {} of its requests at least {} late, because this client did not keep the pace. {}",
            worst.who(),
            part_beyond(worst.shard, Series::SchedLag),
            micros(worst.reading),
            more_room(evidence)
        )
    }))
}

/// Causes of a paused shard, as far as it sees them itself.
const STARVED: &str = " (stopped, or starved of CPU)";

/// A loop that did not get to run when it was to.
pub(super) fn loop_lag(evidence: &Evidence<'_>) -> CheckResult {
    if none_reported(evidence) {
        return CheckResult::Unavailable(Missing::NoShard);
    }
    let lag = |shard| times(shard, Series::LoopLag);
    let frozen = evidence
        .shards
        .iter()
        .filter_map(|shard| Some((shard, lag(shard)?.max_us?)))
        .filter(|(_, us)| *us > FREEZE_US);
    if let Some(worst) = Worst::of(frozen) {
        return CheckResult::Findings(vec![format!(
            "{} did not run for {}{STARVED}, so requests in flight look slower by that. Run again. If it recurs, {}",
            worst.who(),
            micros(worst.reading),
            remedy(evidence)
        )]);
    }
    let late = evidence
        .shards
        .iter()
        .filter_map(|shard| Some((shard, highest_known(lag(shard)?)?.0)));
    CheckResult::perhaps(
        Worst::of(late.filter(|(_, us)| *us > LOOP_LAG_US)).map(|worst| {
            format!(
                "{} read events at least {} late {} of the time (event-loop delay), so {}. {}",
                worst.who(),
                micros(worst.reading),
                part_beyond(worst.shard, Series::LoopLag),
                read_late(worst.shard),
                more_room(evidence)
            )
        }),
    )
}

/// Takes the advice out of the finding on paused shards when the suspension of the run explains all
/// of their pause.
pub(super) fn blame_suspension(
    reasons: &mut [String],
    suspended: Duration,
    shards: &[ShardReport],
) {
    let paused_us = shards
        .iter()
        .filter_map(|shard| times(shard, Series::LoopLag)?.max_us)
        .fold(0.0, f64::max);
    // A shard reads the clock a little later than the supervisor.
    if paused_us > suspended.as_secs_f64() * 1e6 + FREEZE_US {
        return;
    }
    for reason in reasons {
        if let Some((paused, _)) = reason.split_once(STARVED) {
            *reason = format!(
                "{paused}, because the run was suspended; requests in flight look slower by that"
            );
        }
    }
}

/// Time that a hypervisor gave to others.
pub(super) fn steal(evidence: &Evidence<'_>) -> CheckResult {
    let stolen = match readings(evidence, SHORTEST_FOR_STEAL_S, |shard| {
        shard.usage.steal_share
    }) {
        Ok(stolen) => stolen,
        Err(missing) => return CheckResult::Unavailable(missing),
    };
    CheckResult::perhaps(Worst::of(stolen.into_iter().filter(|(_, stolen)| *stolen > STEAL)).map(|worst| {
        let cpu = worst.shard.cpu.map_or_else(|| "its CPUs'".to_owned(), |cpu| format!("CPU {cpu}'s"));
        format!(
            "{} lost {} of {cpu} time to other virtual machines of the host, so rates are too low and times too long. Run \
             again at a quieter time, or on a dedicated machine",
            worst.who(),
            rounded_percent(worst.reading)
        )
    }))
}

/// A CPU that was not as fast after the run as before it.
pub(super) fn speed(evidence: &Evidence<'_>) -> CheckResult {
    let ratio = |shard: &ShardReport| {
        let (before, after) = (shard.usage.speed_before_us?, shard.usage.speed_after_us?);
        (before > 0.0 && after > 0.0).then(|| before.max(after) / before.min(after) - 1.0)
    };
    let changed = match readings(evidence, 0.0, ratio) {
        Ok(changed) => changed,
        Err(missing) => return CheckResult::Unavailable(missing),
    };
    CheckResult::perhaps(Worst::of(changed.into_iter().filter(|(_, change)| *change > SPEED)).map(|worst| {
        let shown = |us: Option<f64>| us.map(micros).unwrap_or_default();
        format!(
            "{}: the same work took {} of CPU time before the run and {} after it, so the speed of the CPU changed during the \
             run (its clock, a neighbour on its core, or the host of a virtual machine). Run again",
            worst.who(),
            shown(worst.shard.usage.speed_before_us),
            shown(worst.shard.usage.speed_after_us)
        )
    }))
}

/// A reading of each shard that gave one and ran for so long.
///
/// # Errors
/// When no shard did, with why.
fn readings<'a>(
    evidence: &Evidence<'a>,
    shortest_s: f64,
    reading: impl Fn(&ShardReport) -> Option<f64>,
) -> Result<Vec<(&'a ShardReport, f64)>, Missing> {
    if none_reported(evidence) {
        return Err(Missing::NoShard);
    }
    let long_enough: Vec<&ShardReport> = evidence
        .shards
        .iter()
        .filter(|shard| shard.usage.measured_s.is_some_and(|s| s >= shortest_s))
        .collect();
    if long_enough.is_empty() {
        return Err(Missing::TooShort(shortest_s));
    }
    let readings: Vec<_> = long_enough
        .into_iter()
        .filter_map(|shard| Some((shard, reading(shard)?)))
        .collect();
    if readings.is_empty() {
        Err(Missing::NotGiven)
    } else {
        Ok(readings)
    }
}

/// True if every shard ended before it reported its times and what it used.
fn none_reported(evidence: &Evidence<'_>) -> bool {
    evidence.shards.iter().all(|shard| shard.fault.is_some())
}

/// A distribution of a shard; none of one with a fault.
pub(super) fn times(shard: &ShardReport, series: Series) -> Option<&Latency> {
    shard.latency.get(series.name())
}

/// The 99th percentile and the part of the values beyond it; of fewer than a thousand values, which
/// have none, the 90th.
fn highest_known(latency: &Latency) -> Option<(f64, &'static str)> {
    latency
        .p99_us
        .map(|us| (us, "1 %"))
        .or_else(|| latency.p90_us.map(|us| (us, "10 %")))
}

/// The part of the values beyond the percentile that [`highest_known`] gives.
fn part_beyond(shard: &ShardReport, series: Series) -> &'static str {
    times(shard, series)
        .and_then(highest_known)
        .map_or("1 %", |(_, part)| part)
}
