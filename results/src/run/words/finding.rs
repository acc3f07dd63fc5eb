//! Finding of a run in one sentence: what went wrong or set its pace, from the times that were limited.

use super::failures::{causes, causes_in_words, failed_share};
use super::rows::{budget_flag, ended_in_warmup, is_unsent, limits};
use super::stalls::stalls;
use crate::run::report::{IntervalRow, Report, ShardReport, Verdict, thresholds};
use crate::show::text::{capital, decimal, grouped, micros, seconds};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::{RateShape, rounded_percent};

/// Part of the time in which the target's quota or its pauses held the run back, from which on they are the finding.
const THROTTLED: f64 = 0.1;

/// Time without a good answer that is no gap between two slow ones, in whole seconds.
const LEAST_GAP_S: u64 = 2;

/// The finding in one sentence.
pub(super) fn finding(report: &Report) -> String {
    let candidates: [fn(&Report) -> Option<String>; 7] =
        [nothing, without_success, silence, failures, client, throttling, stalls];
    candidates.into_iter().find_map(|candidate| candidate(report)).unwrap_or_else(|| limit(report)) + "."
}

/// A run without a figure.
fn nothing(report: &Report) -> Option<String> {
    if is_unsent(report) {
        return Some("No request was sent, so there are no figures".to_owned());
    }
    ended_in_warmup(report).map(|ended| format!("Nothing was measured: {ended}"))
}

/// A run in which nothing succeeded.
fn without_success(report: &Report) -> Option<String> {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let all = grouped(totals.attempts);
    match (totals.attempts, ledger.ok, ledger.not_found) {
        (0, ..) => Some("No request got a connection".to_owned()),
        (attempts, 0, not_found) if not_found == attempts => {
            Some(format!("None of {all} items was found (404 or 410)"))
        }
        (attempts, 0, 0) if totals.throttled == attempts => Some(format!("All {all} requests were throttled")),
        (attempts, 0, 0) => match &causes(report)[..] {
            [(cause, n)] if *n == attempts => Some(format!("All {all} requests failed: {cause}")),
            _ => {
                let throttled = (totals.throttled > 0).then(|| format!("{} throttled", grouped(totals.throttled)));
                let open = (ledger.aborted > 0).then(|| format!("{} open at the end", grouped(ledger.aborted)));
                let causes: Vec<String> = [causes_in_words(report), throttled, open].into_iter().flatten().collect();
                Some(format!("None of {all} requests succeeded: {}", causes.join(", ")))
            }
        },
        _ => None,
    }
}

/// A target that gave no good answer for some time, although requests failed or waited for one.
fn silence(report: &Report) -> Option<String> {
    // A slow target has good answers to what was sent in a second, whenever they come.
    let is_answered = |row: &&IntervalRow| row.scheduled_good.unwrap_or(row.ok + row.not_found) > 0;
    let is_bad = |row: &IntervalRow| row.failed > 0 || row.scheduled_failed.unwrap_or(0) > 0 || row.aborted > 0;
    let is_asked_to_wait = |row: &IntervalRow| row.binding.pause + row.binding.target >= thresholds::PAUSED;
    let gaps = report.intervals.chunk_by(|a, b| is_answered(&a) == is_answered(&b)).filter(|rows| {
        !rows.iter().any(|row| is_answered(&row)) && rows.iter().any(is_bad) && !rows.iter().any(is_asked_to_wait)
    });
    let longest = gaps.max_by_key(|rows| rows.len())?;
    let (first, last) = (longest.first()?.start_s, longest.last()?.start_s + 1);
    if last - first < LEAST_GAP_S || first == 0 {
        return None;
    }
    let causes = causes_in_words(report).map_or_else(String::new, |causes| format!(" ({causes})"));
    let is_last = report.intervals.last()?.start_s < last;
    let end = seconds(report.totals.duration_s);
    Some(if is_last {
        format!("The target stopped answering at {first} s of {end}{causes}")
    } else {
        format!("The target did not answer from {first} s to {last} s{causes}")
    })
}

fn failures(report: &Report) -> Option<String> {
    let failed = failed_share(report).filter(|failed| *failed >= thresholds::FAILED)?;
    let causes = causes_in_words(report).map_or_else(String::new, |causes| format!(": {causes}"));
    Some(format!("{} of requests failed{causes}", capital(&rounded_percent(failed))))
}

/// A client that was too slow.
fn client(report: &Report) -> Option<String> {
    if report.validity.verdict != Verdict::ClientLimited {
        return None;
    }
    let worst = |of: &dyn Fn(&ShardReport) -> Option<f64>, least: f64| {
        let known = report.shards.iter().filter_map(|shard| Some((of(shard)?, shard.shard)));
        known.max_by(|a, b| a.0.total_cmp(&b.0)).filter(|(most, _)| *most >= least)
    };
    let late = |shard: &ShardReport| shard.latency.get(Series::SchedLag.name())?.p99_us;
    let paused = |shard: &ShardReport| shard.latency.get(Series::LoopLag.name())?.max_us;
    let what = if let Some((part, shard)) = worst(&|shard| shard.usage.cpu_share, thresholds::CPU_USE) {
        format!("shard {shard} used {} of a CPU", rounded_percent(part))
    } else if let Some((part, shard)) = worst(&|shard| shard.usage.run_delay_share, thresholds::RUN_DELAY) {
        format!("shard {shard} waited for a CPU {} of the time", rounded_percent(part))
    } else if let Some((us, shard)) = worst(&late, thresholds::SCHED_LAG_US) {
        format!("shard {shard} sent 1 % of its requests at least {} late", micros(us))
    } else if let Some((us, shard)) = worst(&paused, thresholds::FREEZE_US) {
        format!("shard {shard} was paused for {}", micros(us))
    } else {
        "see Validity".to_owned()
    };
    Some(format!("{}: limited by this client ({what})", rate(report)))
}

fn throttling(report: &Report) -> Option<String> {
    let is_target_s = report.binding.target + report.binding.pause >= THROTTLED;
    let named = limits(&report.binding, budget_flag(report));
    let (part, by) = named.into_iter().find(|(_, by)| ["the target's quota", "throttle pauses"].contains(by))?;
    is_target_s.then(|| limited(report, by, part))
}

/// The limit that held longest.
fn limit(report: &Report) -> String {
    let [(part, by), ..] = limits(&report.binding, budget_flag(report));
    let connections = || format!("the {} connections", grouped(u64::from(report.plan.run.connections)));
    match by {
        _ if part <= 0.0 => format!("{} good", rate(report)),
        "connections" => limited(report, &connections(), part),
        "idle" => format!("{} good: idle {} of the time", rate(report), rounded_percent(part)),
        by => limited(report, by, part),
    }
}

fn limited(report: &Report, by: &str, part: f64) -> String {
    format!("{}: limited by {by} {} of the time", rate(report), rounded_percent(part))
}

/// The rate of good responses, and the rate that was asked for.
fn rate(report: &Report) -> String {
    let plan = &report.plan.run;
    let asked = plan.shaped_rate().filter(|rate| rate.shape == RateShape::Constant);
    let asked = asked.map_or_else(String::new, |rate| format!(" of {}/s", decimal(rate.peak.per_second())));
    format!("{}/s{asked}", decimal(report.totals.good_per_s(&report.ledger)))
}
