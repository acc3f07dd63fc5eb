//! Outcome of a run: thresholds, who stopped it, and how it ended.

use super::failures::{clause, error_share};
use super::finding::{event, finding, limit};
use super::gates::{brief, seen};
use super::rows::{budget_flag, ended_in_warmup, is_unsent};
use super::stalls::Stalls;
use super::validity::word;
use crate::run::report::{GateReport, Report, ShardReport, Verdict, thresholds};
use crate::show::doc::{Severity, Status};
use crate::show::text::{capital, counted, decimal, seconds};
use crawlmark_harness::units::{RateShape, rounded_percent};

/// Number of the signal that Ctrl-C sends.
const SIGINT: i32 = 2;

/// Part of the requested rate below which a run fell short of it.
const REACHED: f64 = 0.5;

/// The outcome in a box, with the finding.
pub(super) fn status(report: &Report) -> Status {
    let (failed, undecided) = (gates(report, Some(false)), gates(report, None));
    let named = |gates: &[&GateReport], named: fn(&GateReport) -> String| match gates {
        [gate] => named(gate),
        gates => format!("{} of {} thresholds", gates.len(), report.gates.len()),
    };
    let mut clauses = vec![ending(report)];
    match (failed.is_empty(), undecided.is_empty(), report.gates.len()) {
        (_, _, 0) => {}
        (false, ..) => clauses.insert(0, format!("FAILED: {}", named(&failed, threshold))),
        (true, false, _) => clauses.push(format!("undecided: {}", named(&undecided, |gate| gate.expression.clone()))),
        (true, true, passed) => clauses.push(format!("{} passed", counted(passed as u64, "threshold"))),
    }
    let list = match &failed[..] {
        [] => undecided,
        // A single one is in the title.
        [_] => Vec::new(),
        _ => failed,
    };
    Status {
        id: Some("outcome"),
        text: finding(report),
        list: list.into_iter().map(threshold).collect(),
        ..Status::new(severity(report), capital(&clauses.join("; ")))
    }
}

/// The thresholds with this verdict in one line, each with what was measured and where.
#[must_use]
pub fn thresholds_line(report: &Report, ok: Option<bool>) -> String {
    let line = |gate: &GateReport| format!("{} ({})", gate.expression, seen(gate));
    gates(report, ok).into_iter().map(line).collect::<Vec<_>>().join("; ")
}

/// A threshold with what was measured: `error_rate < 0.01 (50.0 %, 4,900 % above)`.
fn threshold(gate: &GateReport) -> String {
    format!("{} ({})", gate.expression, brief(gate))
}

fn gates(report: &Report, ok: Option<bool>) -> Vec<&GateReport> {
    report.gates.iter().filter(|gate| gate.ok == ok).collect()
}

fn severity(report: &Report) -> Severity {
    let verdict = report.validity.verdict;
    let failed = error_share(report).unwrap_or(0.0);
    let is_without_answer = !is_unsent(report) && report.ledger.ok + report.ledger.not_found == 0;
    match () {
        () if !gates(report, Some(false)).is_empty() || verdict == Verdict::Incomplete => Severity::Bad,
        () if failed >= thresholds::MOST_FAILED || is_without_answer => Severity::Bad,
        () if event(report).is_some_and(|event| event.is_down) => Severity::Bad,
        () if !gates(report, None).is_empty() || verdict != Verdict::Valid => Severity::Warning,
        () if Stalls::of(report).is_notable() => Severity::Warning,
        () if report.interrupted || is_unsent(report) || shortfall(report).is_some() => Severity::Warning,
        () => Severity::Good,
    }
}

/// The end of the run.
fn ending(report: &Report) -> String {
    let after = seconds(report.totals.duration_s);
    let planned = report.plan.run.duration.map(|planned| planned.as_secs_f64());
    let of = planned.filter(|planned_s| *planned_s > report.totals.duration_s);
    let of = of.map_or_else(String::new, |planned_s| format!(" of {}", seconds(planned_s)));
    let stopped = |by: &str| format!("stopped{by} after {after}{of} (partial result)");
    let has_failed = !gates(report, Some(false)).is_empty();
    let event = event(report).filter(|_| !has_failed).map(|event| event.title);
    let short = shortfall(report).filter(|_| event.is_none());
    let is_clear = event.is_none() && short.is_none();
    let limit = time_limit(report).filter(|_| is_clear).map_or_else(String::new, |limit| format!(" ({limit})"));
    let end = match (report.interrupted_by, &report.stopped_by) {
        (Some(SIGINT), _) => stopped(" by Ctrl-C"),
        (Some(signal), _) => stopped(&format!(" by signal {signal}")),
        // The title begins with it.
        (None, Some(_)) if has_failed => format!("stopped after {after}"),
        (None, Some(threshold)) => stopped(&format!(" by --stop-if '{threshold}'")),
        (None, None) if is_unsent(report) => "nothing was sent".to_owned(),
        (None, None) => format!("finished after {after}{limit}"),
    };
    // A run that ended within its warm-up has its end in the event.
    let is_told = event.is_some() && ended_in_warmup(report).is_some() && !report.interrupted;
    let end = Some(end).filter(|_| !is_told);
    let clauses = [missing(report), event, short, end, doubt(report).filter(|_| is_clear)];
    clauses.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Clause on the missing part of a run.
fn missing(report: &Report) -> Option<String> {
    if report.validity.verdict != Verdict::Incomplete {
        return None;
    }
    let died = report.shards.iter().filter(|shard| shard.fault.is_some()).count() as u64;
    // Of a run by the clock, items are left as a rule.
    let is_by_count = report.plan.run.duration.is_none() && !report.interrupted;
    let not_attempted = if is_by_count { report.ledger.not_attempted } else { 0 };
    let parts =
        [(died, "shard", "died"), (report.ledger.lost, "item", "lost"), (not_attempted, "item", "not attempted")];
    let parts = parts.iter().filter(|(n, ..)| *n > 0).map(|(n, what, end)| {
        // What a shard had open when it died is known to be no more than that.
        let at_most = if *end == "lost" { "up to " } else { "" };
        format!("{at_most}{} {end}", counted(*n, what))
    });
    let parts = parts.collect::<Vec<_>>().join(", ");
    Some(if parts.is_empty() { "INCOMPLETE".to_owned() } else { format!("INCOMPLETE: {parts}") })
}

/// Clause on figures that are not those of the target.
fn doubt(report: &Report) -> Option<String> {
    let verdict = report.validity.verdict;
    let is_client = matches!(verdict, Verdict::ClientLimited | Verdict::ConcurrencyLimited | Verdict::Disturbed);
    let is_failure = error_share(report).is_some_and(|failed| failed >= thresholds::MOST_FAILED);
    (is_client && !is_failure).then(|| word(verdict))
}

/// Describe a run whose rate of responses was less than half of the requested one: `1/s instead of 500/s (the target's quota 93 % of the
/// time)`. None of any other run.
pub(super) fn shortfall(report: &Report) -> Option<String> {
    let has_failed = clause(report).is_some();
    if is_unsent(report) || ended_in_warmup(report).is_some() || has_failed {
        return None;
    }
    let requested = report.plan.run.shaped_rate().filter(|rate| rate.shape == RateShape::Constant)?.peak.per_second();
    let ledger = &report.ledger;
    let answered = (ledger.ok + ledger.not_found) as f64 / ledger.completed().max(1) as f64;
    let answered_per_s = report.totals.items_per_s * answered;
    let by = limit(report).filter(|(_, by)| *by != budget_flag(report));
    let by = by.map_or_else(String::new, |(part, by)| format!(" ({by} {} of the time)", rounded_percent(part)));
    (answered_per_s < requested * REACHED)
        .then(|| format!("{}/s instead of {}/s{by}", decimal(answered_per_s), decimal(requested)))
}

/// The flag that ended a run whose items were not all tried.
pub(super) fn time_limit(report: &Report) -> Option<String> {
    let had_more = |shard: &ShardReport| shard.fault.is_none() && shard.ledger.not_attempted > 0;
    let is_over = !report.interrupted && report.shards.iter().any(had_more);
    let planned = report.plan.run.duration.filter(|_| is_over)?;
    Some(format!("-d {}", humantime::format_duration(planned)))
}
