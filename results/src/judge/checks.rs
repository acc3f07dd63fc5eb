//! The checks of a run, one table. Each yields findings, or why it cannot be made.
#![expect(
    clippy::unnecessary_wraps,
    reason = "a check has one signature, whether it can be unavailable or not"
)]

use std::collections::{BTreeMap, BTreeSet};

use super::faults::{self, causes};
use super::findings::Finding;
use super::stalls::Stalls;
use super::thresholds as limits;
use super::verdict::{Missing, Verdict};
use crate::run::report::{
    Audit, Course, Event, GroupRow, IntervalRow, Latency, Limit, LimitEvidence, Report,
    ShardReport, is_endless, is_full, offered, share,
};
use crawlmark_harness::machine::{QUOTA_PERIODS, QUOTA_THROTTLED_PERIODS, QUOTA_THROTTLED_US};
use crawlmark_harness::plan::{Arrivals, OnThrottle, Pacing, TlsTrust};
use crawlmark_harness::process::ShardExit;
use crawlmark_harness::sample::ErrorKind;
use crawlmark_harness::shard::INTERVAL;
use crawlmark_harness::stats::{Counters, Series};
use crawlmark_harness::supervisor::ShardFault;

type Found = Result<Vec<Finding>, Missing>;

/// When the report of a run holds what a check needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum When {
    /// While it goes on: the seconds and the counts so far.
    Always,
    /// What only the shards tell, at their ends.
    AtEnd,
}
use When::{Always, AtEnd};

/// A check: its name, when it can be made, and what it finds.
pub(super) type Check = (&'static str, When, fn(&Report) -> Found);

/// Every check that is made of what the run itself saw. What others know (counts and processes of
/// the target, thresholds, leases) is noted by them.
pub(super) const OF_RUN: [Check; 28] = [
    ("start", AtEnd, start),
    ("shard exits", AtEnd, ends),
    ("totals", AtEnd, sums),
    ("budgets", AtEnd, budgets),
    ("stored results", Always, storage),
    ("measured time", AtEnd, measured_time),
    ("failed requests", Always, failed),
    ("hosts", AtEnd, hosts),
    ("time without a good response", Always, dead),
    ("silence at the end", AtEnd, |report| some(silent(report))),
    ("stalls", Always, |report| {
        some(Stalls::of(report).finding())
    }),
    ("requests cut off at the end", AtEnd, cut_off),
    ("throttling", Always, throttling),
    ("items", Always, items),
    ("interruptions", AtEnd, interruptions),
    ("TCP retransmits", AtEnd, retransmits),
    ("requests that timed out", AtEnd, timeouts),
    ("closed connections", AtEnd, closed),
    ("requests never sent", AtEnd, never_sent),
    ("waits of an open loop", AtEnd, open_loop_waits),
    ("requested rate", AtEnd, pace),
    ("connections", Always, connections),
    ("CPU and queues of the target", AtEnd, faults::target_side),
    ("delayed acknowledgements", AtEnd, |report| {
        some(faults::delayed_ack(report))
    }),
    ("requests worked on at a time", AtEnd, |report| {
        let found = [faults::ceiling(report), faults::mostly_one_part(report)];
        Ok(found.into_iter().flatten().collect())
    }),
    ("limits that refuse", AtEnd, |report| {
        some(faults::refusal(report))
    }),
    ("clocks of the target", AtEnd, |report| {
        some(faults::clock(report))
    }),
    ("traits of the slowest responses", AtEnd, |report| {
        some(faults::in_common(report))
    }),
];

/// Those that are about this machine: parts that were merged were judged where they ran.
pub(super) const OF_MACHINE: [Check; 8] = [
    ("CPU use of each shard", AtEnd, cpu_use),
    ("wait for a CPU", AtEnd, run_delay),
    ("event-loop delay", AtEnd, loop_lag),
    ("send delay", AtEnd, sched_lag),
    ("receive delay", AtEnd, receive_delay),
    ("CPU steal", AtEnd, steal),
    ("CPU speed", AtEnd, speed),
    ("local ports and descriptors", Always, local_lacks),
];

fn some(finding: Option<Finding>) -> Found {
    Ok(finding.into_iter().collect())
}

fn start(report: &Report) -> Found {
    let totals = &report.totals;
    let has_died = report.shards.iter().any(|shard| shard.fault.is_some());
    let stopped = report.interrupted_by.is_some();
    let is_idle = totals.attempts == 0 && (stopped || totals.dropped == 0 && !has_died);
    some(is_idle.then_some(Finding::NothingSent { stopped }))
}

/// Shards that did not report everything, or that failed after they had.
fn ends(report: &Report) -> Found {
    let shards = report.shards.iter();
    Ok(shards.filter_map(|shard| end(report, shard)).collect())
}

fn end(report: &Report, shard: &ShardReport) -> Option<Finding> {
    let exit = shard.exit;
    let (number, ledger) = (shard.shard, &shard.ledger);
    let Some(fault) = &shard.fault else {
        return (exit != ShardExit::Clean).then_some(Finding::ShardExitFailed {
            shard: number,
            exit,
        });
    };
    if *fault == ShardFault::Missing {
        return Some(Finding::PartMissing {
            part: number,
            items: ledger.not_attempted,
        });
    }
    let has_reported = shard.has_reported();
    Some(Finding::ShardDied {
        shard: number,
        fault: fault.clone(),
        exit,
        at_s: has_reported.then_some(shard.totals.duration_s),
        lost: has_reported.then_some(ledger.lost),
        // Most of a range that no time can use up would not have been tried anyway.
        not_attempted: if is_endless(&report.plan.run) {
            0
        } else {
            ledger.not_attempted
        },
    })
}

/// Shards whose items, or scheduled requests, are not all in one state.
fn sums(report: &Report) -> Found {
    let mut found = Vec::new();
    for shard in &report.shards {
        let (ledger, totals) = (&shard.ledger, &shard.totals);
        let items = ledger.items.dealt() + ledger.not_attempted + ledger.lost;
        let requests = totals.attempts + totals.dropped + shard.postponed.unwrap_or(0);
        let sums = [(Some(ledger.planned), items), (shard.scheduled, requests)];
        for (planned, counted) in sums {
            let planned = planned.filter(|planned| *planned != counted);
            found.extend(planned.map(|planned| Finding::SumsDiffer {
                shard: shard.shard,
                planned,
                counted,
            }));
        }
    }
    Ok(found)
}

/// Budgets that were exceeded, each with its fullest window.
fn budgets(report: &Report) -> Found {
    let found = report
        .budget
        .iter()
        .map(|budget| &budget.audit)
        .chain(&report.host_budget)
        .filter(|audit| !audit.kept)
        .filter_map(Audit::fullest)
        .map(|window| Finding::BudgetExceeded {
            sent: window.admitted,
            allowed: window.allowed,
            width_ms: window.width_ms,
            host: window.host,
        });
    Ok(found.collect())
}

fn storage(report: &Report) -> Found {
    let failed = report
        .storage_failure
        .clone()
        .map(|reason| Finding::StorageFailed { reason });
    let share = report.binding.storage;
    let slow = (share > limits::STORAGE).then_some(Finding::StorageSlow { share });
    Ok(failed.into_iter().chain(slow).collect())
}

/// A run of which nothing was measured.
fn measured_time(report: &Report) -> Found {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let (requests, duration_s) = (totals.attempts, totals.duration_s);
    let is_all_skipped = requests == 0
        && ledger.skipped > 0
        && ledger.skipped + ledger.not_attempted == ledger.planned;
    let warmup_s = report.plan.run.warmup.as_secs_f64();
    let mut lags = report
        .shards
        .iter()
        .filter_map(|it| times(it, Series::SchedLag));
    let is_warm = requests > unsendable(report) && warmup_s > 0.0 && lags.all(|lag| lag.count == 0);
    some(if is_all_skipped {
        let items = ledger.skipped;
        Some(Finding::AllSkipped { items })
    } else {
        is_warm.then_some(Finding::WithinWarmUp {
            requests,
            duration_s,
            warmup_s,
        })
    })
}

/// Attempts of a run that sent no request at all, because settings of client and target do not fit,
/// such as a certificate that the client does not trust: neither side was measured.
fn unsendable(report: &Report) -> u64 {
    let totals = &report.totals;
    totals
        .errors_by_kind
        .iter()
        .filter(|(kind, _)| kind.is_lasting() && totals.attempts_sent == 0)
        .map(|(_, count)| count)
        .sum()
}

fn is_open_loop(report: &Report) -> bool {
    report.plan.run.arrivals.gaps().is_some()
}

/// Requests that failed, without the failures that are this machine's own, as a part of all after
/// the warm-up.
fn failed_share(report: &Report) -> f64 {
    let Counters { requests, .. } = report.measured();
    let own: u64 = ErrorKind::LOCAL
        .map(|kind| requests.errors_of(kind))
        .iter()
        .sum();
    let failed = requests.failed().saturating_sub(own + unsendable(report));
    share(failed as f64, requests.attempts as f64)
}

fn failed(report: &Report) -> Found {
    let (share, counted) = (failed_share(report), report.measured());
    let is_none_good = counted.items.ok + counted.items.not_found == 0;
    let unsendable = unsendable(report);
    let has_failed_all = is_none_good && share >= limits::MOST_FAILED;
    some(if unsendable > 0 || has_failed_all {
        Some(Finding::AllFailed {
            requests: counted.requests.attempts.max(unsendable),
            sent: unsendable == 0,
            causes: causes(report),
        })
    } else if share < limits::FAILED {
        None
    } else {
        Some(Finding::RequestsFailed {
            share,
            causes: causes(report),
            is_open_loop: is_open_loop(report),
            events: periods(report, |course| &course.failed),
        })
    })
}

/// Times of a run in which requests had an outcome.
fn periods(report: &Report, of: fn(&Course) -> &[u64]) -> Vec<Event> {
    let course = report.course.as_ref();
    course.map_or_else(Vec::new, |course| course.periods(of(course)))
}

/// Hosts without a good response, beside others that failed no request.
fn hosts(report: &Report) -> Found {
    let hosts = report
        .robots
        .as_ref()
        .map_or(0, |robots| robots.unreachable);
    let unreachable = (hosts > 0).then_some(Finding::RobotsUnreachable { hosts });
    let (down, up): (Vec<&GroupRow>, Vec<&GroupRow>) =
        report.by_host.iter().partition(|row| is_down(row));
    // Those of a row for many hosts may not all be down.
    let names: Option<Vec<String>> = down.iter().map(|row| row.name.clone()).collect();
    let share = failed_share(report);
    let down = names
        .filter(|names| {
            let have_others_failed = up.iter().any(|row| row.errors > 0);
            !names.is_empty() && !have_others_failed && share >= limits::FAILED
        })
        .map(|hosts| Finding::HostsDown {
            hosts,
            of: report.plan.run.per_host.hosts,
            requests: down.iter().map(|row| row.errors).sum(),
            share,
            causes: causes(report),
            is_open_loop: is_open_loop(report),
        });
    Ok(unreachable.into_iter().chain(down).collect())
}

const fn is_down(row: &GroupRow) -> bool {
    row.errors > 0 && row.ok + row.not_found + row.throttled == 0
}

/// Seconds after the warm-up in which no good answer came, and none was under way, from one on in
/// which a request failed or was under way to a failure.
#[derive(Debug, Default)]
struct DeadTime {
    /// All of them, s.
    s: f64,
    /// The longest contiguous ones, from and to.
    longest: (f64, f64),
    /// The ones that last until the end, from and to.
    last: Option<(f64, f64)>,
}

/// Sum the time without a good answer. Pauses that the target asked for are left out.
fn dead_time(report: &Report, end_s: f64) -> DeadTime {
    let rows = &report.intervals;
    let mut dead = DeadTime::default();
    // Failures under way. Those of this machine's own end here and are never due, so the sum may be
    // negative.
    let (mut is_dead, mut failing) = (false, 0_i128);
    for (row, is_answered) in rows.iter().zip(IntervalRow::answered(rows)) {
        failing += i128::from(row.scheduled_failed.unwrap_or(0));
        is_dead = !is_answered && (is_dead || failing > 0);
        let from_s = row.start_s as f64;
        let part_s = (end_s - from_s).clamp(0.0, INTERVAL.as_secs_f64());
        if !is_dead {
            dead.last = None;
        } else if row.binding.pause < limits::PAUSED
            && row.is_after(report.plan.run.warmup)
            && part_s > 0.0
        {
            dead.s += part_s;
            let (first_s, _) = dead.last.unwrap_or((from_s, from_s));
            dead.last = Some((first_s, from_s + part_s));
            if from_s + part_s - first_s > dead.longest.1 - dead.longest.0 {
                dead.longest = (first_s, from_s + part_s);
            }
        }
        let others = row.ok + row.not_found + row.throttled + row.aborted;
        failing -= i128::from(row.attempts.saturating_sub(others));
    }
    dead
}

/// A target that was dead for a notable part of the run, however few requests failed in the
/// meantime: each may take a timeout, or the backoff before the next one.
fn dead(report: &Report) -> Found {
    let plan = &report.plan.run;
    let Some(first) = report
        .intervals
        .iter()
        .find(|row| row.is_after(plan.warmup))
    else {
        return Ok(Vec::new());
    };
    let end_s = report.due_until_s();
    let of_s = (end_s - first.start_s as f64).max(0.0);
    let DeadTime { s, longest, last } = dead_time(report, end_s);
    // However short the run was.
    let long_s = limits::LEAST_DEAD_S.min(of_s * limits::DEAD);
    let is_long = |from_s: f64, to_s: f64| to_s > from_s && to_s - from_s >= long_s;
    let is_much = s >= limits::LEAST_PARTLY_DEAD_S && s >= of_s * limits::PARTLY_DEAD;
    let last = last.filter(|(from_s, to_s)| is_long(*from_s, to_s.ceil()));
    let (from_s, to_s) = last.unwrap_or(longest);
    let is_dead = last.is_some() || is_much || is_long(from_s, to_s);
    some(is_dead.then(|| Finding::NoGoodResponse {
        from_s,
        to_s,
        at_end: last.is_some(),
        dead_s: s,
        of_s,
        causes: causes(report),
    }))
}

/// A target that gave no answer any more, however few requests waited for one when the run ended.
/// Not one whose answers take as long, and not one that had asked for the pause.
fn silent(report: &Report) -> Option<Finding> {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let (rows, shards) = (&report.intervals, &report.shards);
    let last_s = rows
        .iter()
        .rev()
        .find(|row| row.ok + row.not_found + row.throttled + row.failed > 0)
        .map_or(0.0, |row| row.start_s as f64 + 1.0);
    let silent_s = totals.duration_s - last_s;
    let is_paused = rows
        .iter()
        .filter(|row| row.start_s as f64 >= last_s)
        .any(|row| row.binding.pause >= limits::PAUSED);
    let slowest_s = shards
        .iter()
        .filter_map(|shard| times(shard, Series::ServiceOk)?.slowest_us())
        .fold(0.0, f64::max)
        / 1e6;
    // Of few requests, only a long silence says something.
    let missed = silent_s * totals.attempts as f64 / totals.duration_s;
    let is_long = silent_s >= limits::LEAST_DEAD_S
        && silent_s > slowest_s * limits::LONGER_THAN_SLOWEST
        && (silent_s >= report.measured_s() * limits::DEAD || missed >= limits::MOST_MISSED);
    // However short the run was.
    let is_all = totals.attempts > 0 && ledger.aborted == totals.attempts;
    let is_silent = ledger.aborted > 0 && !rows.is_empty() && !is_paused && (is_long || is_all);
    is_silent.then_some(Finding::Silent {
        silent_s,
        of_s: totals.duration_s,
        cut_off: ledger.aborted,
    })
}

/// Requests that were cut off, where a reader has to know; those of a silence are its own.
fn cut_off(report: &Report) -> Found {
    let counted = report.measured();
    let count = counted.items.aborted;
    let share = share(count as f64, counted.requests.attempts as f64);
    let is_open_loop = is_open_loop(report);
    let least = if is_open_loop {
        limits::FAILED
    } else {
        limits::CUT_OFF_CLOSED
    };
    some(
        (share >= least && silent(report).is_none()).then_some(Finding::CutOff {
            share,
            count,
            is_open_loop,
        }),
    )
}

fn throttling(report: &Report) -> Found {
    let (counted, totals) = (report.measured(), &report.totals);
    let quota = match Limit::Quota.in_run(&report.plan.run, totals.throttled) {
        Limit::Quota => report.binding.target,
        _ => 0.0,
    };
    let held_share = report.binding.pause + quota;
    let good = counted.items.ok + counted.items.not_found;
    let [throttled, good_share] = [counted.requests.throttled, good]
        .map(|n| share(n as f64, counted.requests.attempts as f64));
    let is_held = held_share >= limits::NOTABLE || throttled >= limits::FAILED;
    let throttled_at_first = totals.sources_throttled_at_first;
    let sources = (throttled_at_first > 0).then_some(Finding::SourcesThrottled {
        sources: totals.sources_used,
        throttled: throttled_at_first,
    });
    let found = is_held.then(|| Finding::Throttled {
        share: throttled,
        good_share,
        held_share,
        waits: report.plan.run.throttling.on_throttle == OnThrottle::Honor,
        is_adaptive: report.plan.run.throttling.adaptive.is_some(),
        taken_per_s: report.throttling.taken_per_s,
        events: periods(report, |course| &course.throttled),
    });
    Ok(found.into_iter().chain(sources).collect())
}

/// Items that came to nothing, or ended early, although no request failed.
fn items(report: &Report) -> Found {
    let counted = report.measured();
    let count = counted.items.not_found;
    let share = share(count as f64, counted.requests.attempts as f64);
    let is_much = share >= limits::NOT_FOUND;
    let is_own = report.plan.run.workload.bundled.is_none();
    let verdict = (share > limits::MOST_FAILED && is_own).then_some(Verdict::Errors);
    let not_found = is_much.then_some(Finding::NotFound {
        share,
        count,
        verdict,
    });
    let held = counted.requests.not_modified;
    let not_modified = (held > 0).then(|| Finding::NotModified {
        share: crate::run::report::share(held as f64, counted.items.completed() as f64),
        count: held,
    });
    let totals = &report.totals;
    let named = totals.pages_followed + totals.pages_repeated + totals.pages_cut;
    let mut found: Vec<Finding> = not_found.into_iter().chain(not_modified).collect();
    if let count @ 1.. = totals.shared_failed {
        found.push(Finding::SharedFailed { count });
    }
    if let count @ 1.. = totals.pages_repeated {
        found.push(Finding::PagesRepeated { count });
    }
    if let count @ 1.. = totals.pages_cut {
        found.push(Finding::PagesCut { count });
    }
    if let (0, count @ 1..) = (named, totals.pages_without_next) {
        found.push(Finding::NextNotFound { count });
    }
    Ok(found)
}

/// What was done to a run from outside.
fn interruptions(report: &Report) -> Found {
    let planned = report.plan.run.duration;
    let mut found = Vec::new();
    found.extend(report.interrupted_by.map(|signal| Finding::Interrupted {
        signal,
        after_s: report.totals.duration_s,
        planned_s: planned.map(|planned| planned.as_secs_f64()),
    }));
    let throttled = report.only_throttled_s;
    found.extend(throttled.map(|throttled_s| Finding::OnlyThrottled { throttled_s }));
    found.extend((report.suspended_s > 0.0).then_some(Finding::Suspended {
        suspended_s: report.suspended_s,
    }));
    for shard in report.shards.iter().filter(|shard| shard.was_replaced()) {
        found.push(Finding::ShardReplaced {
            shard: shard.shard,
            times: shard.died.len() as u64,
            died: shard.died.clone(),
        });
    }
    Ok(found)
}

/// The greatest of readings, none of which is NaN, if it is beyond a limit.
fn beyond(limit: f64, readings: impl IntoIterator<Item = f64>) -> Option<f64> {
    let greatest = readings.into_iter().max_by(f64::total_cmp);
    greatest.filter(|reading| *reading > limit)
}

/// A reading of each shard that gave one and ran for so long.
///
/// # Errors
/// When no shard did.
fn readings(
    report: &Report,
    shortest_s: f64,
    reading: fn(&ShardReport) -> Option<f64>,
) -> Result<Vec<f64>, Missing> {
    let readings: Vec<f64> = report
        .shards
        .iter()
        .filter(|shard| shard.usage.measured_s.is_some_and(|s| s >= shortest_s))
        .filter_map(reading)
        .collect();
    Some(readings)
        .filter(|all| !all.is_empty())
        .ok_or(Missing::NotGiven)
}

/// A distribution of a shard; none of one with a fault.
fn times(shard: &ShardReport, series: Series) -> Option<&Latency> {
    shard.latency.get(series.name())
}

/// The 99th percentile; of fewer than a thousand values, which have none, the 90th.
fn highest_known(latency: &Latency) -> Option<f64> {
    latency.p99_us.or(latency.p90_us)
}

/// True if the shards together used less than [`limits::LITTLE_CPU`] of the CPUs that they could
/// run on; false if that is not known.
fn is_little_used(report: &Report) -> bool {
    let used: Vec<f64> = report
        .shards
        .iter()
        .filter_map(|shard| shard.usage.cpu_share)
        .collect();
    let cpus = used.len().min(report.environment.cores) as f64;
    !used.is_empty() && used.iter().sum::<f64>() < limits::LITTLE_CPU * cpus
}

/// The CPU use of a shard that used all of its CPU. One that spins burns what it does not need;
/// whether it came in time, its lateness tells.
fn full(report: &Report) -> Result<Option<f64>, Missing> {
    let used = readings(report, limits::SHORTEST_S, |shard| shard.usage.cpu_share)?;
    let is_spinning = report.plan.run.pacing == Pacing::Spin;
    Ok(beyond(limits::CPU_USE, used).filter(|_| !is_spinning))
}

/// Stops of the client by its CPU quota, if they are many, or took half of the time for which
/// something was late: the rest is what it has to make up for.
fn quota(report: &Report) -> Option<Finding> {
    let [periods, stopped, stopped_us] =
        [QUOTA_PERIODS, QUOTA_THROTTLED_PERIODS, QUOTA_THROTTLED_US]
            .map(|name| report.host.get(name).copied().unwrap_or(0));
    let is_much = share(stopped as f64, periods as f64) >= limits::THROTTLED_PERIODS;
    let explains = [late_read(report), late_sent(report)]
        .into_iter()
        .flatten()
        .map(|(_, us)| us)
        .filter(|_| is_much)
        .chain(longest_pause(report))
        .any(|us| us <= 2.0 * stopped_us as f64);
    (is_much && stopped >= limits::LEAST_THROTTLED || explains)
        .then_some(Finding::ClientThrottled { stopped, periods })
}

/// True if a lack of CPU is the client's own: a shard used all of one, or all that it may use.
fn is_own_lack(report: &Report) -> bool {
    matches!(full(report), Ok(Some(_))) || quota(report).is_some()
}

/// True if lateness is due to others: the shards used little CPU, and one of them waited for one.
fn is_starved(report: &Report) -> bool {
    let waits = readings(report, limits::SHORTEST_S, |shard| {
        shard.usage.run_delay_share
    });
    !is_own_lack(report)
        && is_little_used(report)
        && beyond(limits::RUN_DELAY, waits.unwrap_or_default()).is_some()
}

fn cpu_use(report: &Report) -> Found {
    some(full(report)?.map(|share| Finding::CpuFull { share }))
}

/// Ready to run, and stopped by a quota, or something else ran. A client that used little is judged
/// by what the wait did, where that is known.
fn run_delay(report: &Report) -> Found {
    if let Some(stopped) = quota(report) {
        return Ok(vec![stopped]);
    }
    let waits = if is_little_used(report) {
        readings(report, limits::SHORTEST_S, |shard| {
            let received = times(shard, Series::ReceiveDelay).and_then(highest_known);
            let waited = shard.usage.run_delay_share?;
            Some(received.map_or(waited, |_| 0.0))
        })
    } else {
        readings(report, limits::SHORTEST_S, |shard| {
            shard.usage.run_delay_share
        })
    };
    some(
        beyond(limits::RUN_DELAY, waits?).map(|share| Finding::CpuWait {
            share,
            is_disturbed: is_starved(report),
        }),
    )
}

/// The longest high percentile of a series that is beyond its limit, `least_us` or a part of the
/// median service time of the shard; and one in how many is beyond it.
fn latest(report: &Report, series: Series, least_us: f64) -> Option<(u32, f64)> {
    report
        .shards
        .iter()
        .filter_map(|shard| late_in_shard(shard, series, least_us))
        .max_by(|a, b| a.1.total_cmp(&b.1))
}

fn late_in_shard(shard: &ShardReport, series: Series, least_us: f64) -> Option<(u32, f64)> {
    let delays = times(shard, series)?;
    let us = highest_known(delays)?;
    let limit_us = times(shard, Series::ServiceOk)
        .and_then(|service| service.p50_us)
        .unwrap_or(0.0)
        * limits::SCHED_LAG_OF_SERVICE;
    let one_in = delays.p99_us.map_or(10, |_| 100);
    (us > least_us.max(limit_us)).then_some((one_in, us))
}

fn late_read(report: &Report) -> Option<(u32, f64)> {
    latest(report, Series::ReceiveDelay, limits::RECEIVE_DELAY_US)
}

fn late_sent(report: &Report) -> Option<(u32, f64)> {
    let late = latest(report, Series::SchedLag, limits::SCHED_LAG_US);
    late.filter(|_| report.plan.run.rate.is_some())
}

/// Responses that lay unread in the client.
fn receive_delay(report: &Report) -> Found {
    let series = Series::ReceiveDelay;
    let mut delays = report
        .shards
        .iter()
        .filter_map(|shard| times(shard, series));
    if delays.all(|delay| delay.count == 0) {
        return Err(Missing::NoStamps);
    }
    some(
        late_read(report).map(|(one_in, late_us)| Finding::ReadLate {
            one_in,
            late_us,
            is_disturbed: is_starved(report),
        }),
    )
}

/// Requests of a paced run that went late. A run without a budget has nothing to be late for.
fn sched_lag(report: &Report) -> Found {
    some(
        late_sent(report).map(|(one_in, late_us)| Finding::SentLate {
            one_in,
            late_us,
            is_disturbed: is_starved(report),
        }),
    )
}

/// The longest time for which a loop did not get to run, if it is long. A pause in a suspension of
/// the run is no finding of its own; a shard reads the clock a little later than the supervisor.
fn longest_pause(report: &Report) -> Option<f64> {
    let explained_us = report.suspended_s * 1e6 + limits::FREEZE_US;
    let longest = report
        .shards
        .iter()
        .filter_map(|shard| times(shard, Series::LoopLag)?.max_us);
    beyond(explained_us, longest)
}

fn loop_lag(report: &Report) -> Found {
    some(longest_pause(report).map(|us| Finding::ShardPaused {
        paused_s: us / 1e6,
        is_disturbed: is_starved(report),
    }))
}

/// Time that a hypervisor gave to others.
fn steal(report: &Report) -> Found {
    let stolen = readings(report, limits::SHORTEST_FOR_STEAL_S, |shard| {
        shard.usage.steal_share
    })?;
    some(beyond(limits::STEAL, stolen).map(|share| Finding::CpuSteal { share }))
}

/// A CPU that was not as fast after the run as before it.
fn speed(report: &Report) -> Found {
    let (before_us, after_us) = report
        .shards
        .iter()
        .filter_map(|shard| shard.usage.speed_before_us.zip(shard.usage.speed_after_us))
        .filter(|(before_us, after_us)| *before_us > 0.0 && *after_us > 0.0)
        .max_by(|a, b| slowdown(a.0, a.1).total_cmp(&slowdown(b.0, b.1)))
        .ok_or(Missing::NotGiven)?;
    let is_much = slowdown(before_us, after_us) > limits::SPEED;
    some(is_much.then(|| Finding::CpuSpeed {
        before_us,
        after_us,
        is_disturbed: !is_own_lack(report),
    }))
}

/// By how much the longer of two times is longer, as a part of the shorter one.
fn slowdown(before: f64, after: f64) -> f64 {
    before.max(after) / before.min(after) - 1.0
}

/// Requests for which this machine had no port or descriptor left.
fn local_lacks(report: &Report) -> Found {
    let [ports, files] = [ErrorKind::AddressUnavailable, ErrorKind::TooManyFiles]
        .map(|kind| Some(report.totals.errors_of(kind)).filter(|requests| *requests > 0));
    let ports = ports.map(|requests| Finding::NoLocalPort { requests });
    let files = files.map(|requests| Finding::NoDescriptor { requests });
    Ok(ports.into_iter().chain(files).collect())
}

/// Responses that waited for a retransmission, and connections that a listen queue had no room for:
/// they opened after a retransmission, or their first request was never acknowledged. Many more of
/// these than of later requests are no loss on the way.
fn retransmits(report: &Report) -> Found {
    let (tcp, connections) = (&report.tcp, &report.connections);
    let opened = report.totals.connections_opened;
    let responses = report
        .latency(Series::ServiceOk)
        .map_or(0, |times| times.count);
    let counts = &tcp.counts;
    let (slow, first_slow) = (counts.slow_with_retransmit, counts.first_with_retransmit);
    let late = connections.opened_after_retransmit + counts.first_unacknowledged;
    let requests = responses + counts.timeouts_unacknowledged;
    let all_waited = slow + counts.timeouts_unacknowledged;
    let first = first_slow + counts.first_unacknowledged;
    // Where each request has a connection of its own, there are no later ones to compare with.
    let usual = if requests > opened.saturating_mul(2) {
        share(all_waited.saturating_sub(first) as f64, requests as f64)
    } else {
        share(first as f64, opened as f64)
    };
    let late_share = share(late as f64, opened as f64);
    let is_queue = late >= limits::LEAST_LATE && late_share > usual * limits::MORE_OFTEN;
    let queue = is_queue.then_some(Finding::ListenQueueFull {
        connections: late,
        of: opened,
    });
    let waited = if is_queue {
        slow.saturating_sub(first_slow)
    } else {
        slow
    };
    let share = share(waited as f64, responses as f64);
    let is_lost = waited >= limits::LEAST_LATE && share >= limits::RETRANSMITS;
    let lost = is_lost.then_some(Finding::PacketLoss {
        waited,
        responses,
        share,
        p99_us: tcp.p99_us,
        p99_without_us: tcp.p99_without_us,
    });
    Ok(queue.into_iter().chain(lost).collect())
}

/// Requests that timed out, by whether they reached the target's kernel.
fn timeouts(report: &Report) -> Found {
    let counts = &report.tcp.counts;
    let is_proxied = report.plan.run.workload.proxy.is_some();
    let mut found = Vec::new();
    if let requests @ limits::LEAST_LATE.. = counts.timeouts_unacknowledged {
        found.push(Finding::NeverReceived {
            requests,
            is_proxied,
        });
    }
    if let requests @ limits::LEAST_LATE.. = counts.timeouts_acknowledged {
        found.push(Finding::NotAnswered {
            requests,
            is_proxied,
        });
    }
    Ok(found)
}

/// A target that closes connections after a number of requests, where that costs: another one is
/// opened for each so many requests, or requests fail because it does not say so.
fn closed(report: &Report) -> Found {
    let closed_by = &report.connections.closed_by;
    let closed = closed_by.announced + closed_by.target;
    let limit = report
        .connections
        .served_max
        .filter(|most| report.connections.served_median == Some(*most))
        .filter(|most| *most > 1 || closed_by.target > 0)
        .filter(|most| *most <= limits::KEEP_ALIVE || closed_by.target > 0)
        .filter(|_| closed >= limits::LEAST_CLOSED);
    some(limit.map(|requests| Finding::KeepAliveLimit {
        requests,
        closed,
        announced: closed_by.announced,
    }))
}

/// Requests that were due and never went, by the limit that held them back.
fn never_sent(report: &Report) -> Found {
    let mut by_limit: BTreeMap<Limit, u64> = BTreeMap::new();
    let (mut scheduled, mut postponed) = (0, 0);
    for shard in &report.shards {
        scheduled += shard.scheduled.unwrap_or(0);
        postponed += shard.postponed.unwrap_or(0);
        let evidence = LimitEvidence::shard(report, shard);
        let limit = shard.dropped_by.map(|last| evidence.dropped(last));
        *by_limit
            .entry(limit.unwrap_or(Limit::Connections))
            .or_default() += shard.totals.dropped;
    }
    let deadline_us = report.plan.run.deadline.map(|it| it.as_secs_f64() * 1e6);
    let oldest_us = report.latency(Series::DropAge).and_then(|it| it.max_us);
    // What the end of the run dropped had not waited for so long.
    let by_deadline = deadline_us.is_some() && oldest_us >= deadline_us;
    let much = |count: u64| {
        Some(share(count as f64, scheduled as f64)).filter(|share| *share > limits::DROPPED)
    };
    let mut found: Vec<Finding> = by_limit
        .into_iter()
        .filter_map(|(limit, count)| {
            Some(Finding::NeverSent {
                share: much(count)?,
                count,
                limit,
                by_deadline,
            })
        })
        .collect();
    found.extend(much(postponed).map(|share| Finding::Postponed {
        share,
        count: postponed,
    }));
    Ok(found)
}

/// Waits of an open loop for a connection while all were in use, and for another limit than the
/// timetable: of each, that of the shard with the longest one that is a notable part of the response
/// time.
fn open_loop_waits(report: &Report) -> Found {
    let mut found = Vec::new();
    for series in [Series::PoolWait, Series::BudgetWait] {
        let longest = report
            .shards
            .iter()
            .filter_map(|shard| notable_wait(report, shard, series))
            .max_by(|a, b| a.1.us.total_cmp(&b.1.us));
        found.extend(longest.map(|(limit, wait)| Finding::Waited {
            one_in: wait.one_in,
            waited_us: wait.us,
            response_us: wait.response_us,
            limit,
        }));
    }
    Ok(found)
}

/// The wait of a shard that is a notable part of the response time, and the limit that it was for.
fn notable_wait(report: &Report, shard: &ShardReport, series: Series) -> Option<(Limit, Wait)> {
    let evidence = LimitEvidence::shard(report, shard);
    let limit = match series {
        Series::PoolWait => evidence.for_connection(),
        _ => evidence.before_connection(),
    };
    let is_opening = series == Series::PoolWait && limit != Limit::Connections;
    let wait = wait(report, shard, series).filter(|_| !is_opening)?;
    let least_us = limits::WAIT_US.max(wait.response_us * limits::WAIT_OF_RESPONSE);
    (wait.us > least_us).then_some((limit, wait))
}

/// A wait and the response time at the highest percentile that both have, and one in how many
/// requests is beyond it.
struct Wait {
    us: f64,
    response_us: f64,
    one_in: u32,
}

/// A percentile, and one in how many values is beyond it.
type OneIn = (u32, fn(&Latency) -> Option<f64>);

/// The wait of a shard. Where each request takes a new connection, opening it is what is measured,
/// and no wait.
fn wait(report: &Report, shard: &ShardReport, series: Series) -> Option<Wait> {
    let workload = &report.plan.run.workload;
    let is_opening = series == Series::PoolWait && workload.requests_per_connection.is_some();
    let (waited, response) = (times(shard, series)?, times(shard, Series::ResponseOk)?);
    let percentiles: [OneIn; 2] = [(100, |times| times.p99_us), (10, |times| times.p90_us)];
    percentiles.into_iter().find_map(|(one_in, percentile)| {
        let opened: f64 = [Series::Connect, Series::Tunnel, Series::Tls]
            .into_iter()
            .filter(|_| is_opening)
            .filter_map(|series| percentile(times(shard, series)?))
            .sum();
        Some(Wait {
            us: percentile(waited)? - opened,
            response_us: percentile(response)?,
            one_in,
        })
    })
}

/// The requested rate, per second; of one that changes, the mean over the measured time. None of a
/// run without one, or of a recording.
fn requested_per_s(report: &Report) -> Option<f64> {
    let plan = &report.plan.run;
    plan.shaped_rate()
        .filter(|_| plan.arrivals != Arrivals::Replay)?;
    if let Some(per_s) = plan.steady_rate() {
        return Some(per_s);
    }
    let (from_s, to_s) = (plan.warmup.as_secs_f64(), report.totals.sent_until_s);
    (to_s > from_s).then(|| offered(plan, from_s, to_s) / (to_s - from_s))
}

/// [`Report::rate_ratio`].
pub(super) fn rate_ratio(report: &Report) -> Option<f64> {
    let asked_per_s = requested_per_s(report).filter(|per_s| *per_s > 0.0)?;
    Some(match &report.schedule {
        Some(schedule) => schedule.sent_share,
        None => report.achieved_per_s() / asked_per_s,
    })
}

/// What set the pace: the limit that held longest, and whether a requested rate was reached.
fn pace(report: &Report) -> Found {
    let totals = &report.totals;
    let sent_per_s = report.achieved_per_s();
    let sending_s = totals.sent_until_s - report.plan.run.warmup.as_secs_f64();
    let answered = totals.attempts_per_s * report.measured_s();
    let answered_per_s = share(answered, sending_s);
    let asked = requested_per_s(report);
    let missed_per_s = asked.filter(|asked| {
        sent_per_s < asked * limits::REACHED || answered_per_s < asked * limits::ANSWERED_PART
    });
    let is_used = report
        .shards
        .iter()
        .any(|shard| is_full(&report.plan.run, shard));

    let held = Limit::of(report)
        .into_iter()
        .filter(|(part, _)| *part >= limits::NOTABLE)
        .find(|(_, limit)| match limit {
            Limit::Rate => missed_per_s.is_none(),
            Limit::Connections => is_used,
            limit => *limit != Limit::Idle,
        });
    let limited = held.map(|(share, limit)| Finding::LimitedBy { limit, share });
    let missed = missed_per_s.map(|asked_per_s| Finding::RateMissed {
        got_per_s: sent_per_s.min(answered_per_s),
        asked_per_s,
        limit: held.map(|(_, limit)| limit),
        share: held.map_or(0.0, |(share, _)| share),
    });
    let shared = shared_cpus(report).map(|cpus| Finding::CpusShared { cpus });
    let plan = &report.plan.run;
    let streams = report
        .connections
        .streams_allowed
        .map(|allowed| Finding::FewStreams {
            allowed,
            streams: plan.streams,
            connections: plan.in_flight().div_ceil(allowed.max(1)),
        });
    let found = [missed, limited, streams, shared];
    Ok(found.into_iter().flatten().collect())
}

/// Return the number of CPUs that the target has, if the shards may use each of them at once.
/// Without a probe, a target on this machine may run on all of its CPUs. A shard that is on no CPU
/// of its own may run on those of the run.
fn shared_cpus(report: &Report) -> Option<usize> {
    let target = report.target.as_ref().filter(|target| target.is_here);
    let Some(cpus) = target
        .map(|target| &target.cpus)
        .filter(|cpus| !cpus.is_empty())
    else {
        let machine = &report.environment;
        let cpus = machine.machine_cpus.unwrap_or(machine.cores);
        let is_shared = machine.colocated && report.shards.len().min(machine.cores) >= cpus;
        return is_shared.then_some(cpus);
    };
    let pinned: BTreeSet<usize> = report.shards.iter().filter_map(|shard| shard.cpu).collect();
    let anywhere = report.shards.iter().filter(|shard| shard.cpu.is_none());
    let usable = &report.environment.cpus;
    let (own, others): (Vec<usize>, Vec<usize>) = cpus.iter().partition(|cpu| pinned.contains(cpu));
    let reached = others
        .iter()
        .filter(|cpu| usable.is_empty() || usable.contains(cpu));
    let used = own.len() + anywhere.count().min(reached.count());
    (used >= cpus.len()).then_some(cpus.len())
}

/// Connections that were not kept as they should be, or whose certificates were not verified.
fn connections(report: &Report) -> Found {
    let plan = &report.plan.run;
    let (opened, requests) = (report.totals.connections_opened, report.totals.attempts);
    // Each host may have as many as there are requests in flight, and a few may be lost.
    let usual = u64::from(plan.connections) * 2 * u64::from(plan.per_host.hosts.max(1));
    let is_meant = plan.workload.requests_per_connection.is_some();
    let is_lost = opened > usual && opened.saturating_mul(10) > requests && !is_meant;
    let lost = is_lost.then_some(Finding::ConnectionsNotKept { opened, requests });
    let is_unverified = plan.workload.tls_trust == Some(TlsTrust::Unverified);
    let unverified = is_unverified.then_some(Finding::CertificatesUnverified {});
    Ok(lost.into_iter().chain(unverified).collect())
}
