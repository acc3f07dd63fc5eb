//! Outcome of a run: thresholds, who stopped it, and how it ended.

use super::failures::failed_share;
use super::finding::finding;
use super::gates::{brief, seen};
use super::rows::is_unsent;
use crate::run::report::{GateReport, Report, Verdict, thresholds};
use crate::show::doc::{Severity, Status};
use crate::show::text::{capital, counted, seconds};
use crawlmark_harness::units::rounded_percent;

/// Number of the signal that Ctrl-C sends.
const SIGINT: i32 = 2;

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
    let failed = failed_share(report).unwrap_or(0.0);
    let is_without_answer = !is_unsent(report) && report.ledger.ok + report.ledger.not_found == 0;
    match () {
        () if !gates(report, Some(false)).is_empty() || verdict == Verdict::Incomplete => Severity::Bad,
        () if failed >= thresholds::MOST_FAILED || is_without_answer => Severity::Bad,
        () if !gates(report, None).is_empty() || verdict != Verdict::Valid => Severity::Warning,
        () if report.interrupted || is_unsent(report) => Severity::Warning,
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
    let limit = time_limit(report).map_or_else(String::new, |limit| format!(" ({limit})"));
    let end = match (report.interrupted_by, &report.stopped_by) {
        (Some(SIGINT), _) => stopped(" by Ctrl-C"),
        (Some(signal), _) => stopped(&format!(" by signal {signal}")),
        // The title begins with it.
        (None, Some(_)) if has_failed => format!("stopped after {after}"),
        (None, Some(threshold)) => stopped(&format!(" by --stop-if '{threshold}'")),
        (None, None) if is_unsent(report) => "nothing was sent".to_owned(),
        (None, None) => format!("finished after {after}{limit}"),
    };
    let clauses = [missing(report), Some(end), failures(report).filter(|_| !has_failed)];
    clauses.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Clause on the missing part of a run.
fn missing(report: &Report) -> Option<String> {
    if report.validity.verdict != Verdict::Incomplete {
        return None;
    }
    let died = report.shards.iter().filter(|shard| shard.fault.is_some()).count() as u64;
    let parts = [(died, "shard", "died"), (report.ledger.lost, "item", "lost")];
    let parts = parts.iter().filter(|(n, ..)| *n > 0).map(|(n, what, end)| format!("{} {end}", counted(*n, what)));
    let parts = parts.collect::<Vec<_>>().join(", ");
    Some(if parts.is_empty() { "INCOMPLETE".to_owned() } else { format!("INCOMPLETE: {parts}") })
}

/// Clause on failed requests.
fn failures(report: &Report) -> Option<String> {
    match failed_share(report) {
        Some(failed) if failed >= 1.0 => Some("every request failed".to_owned()),
        Some(failed) if failed >= thresholds::FAILED => Some(format!("{} of requests failed", rounded_percent(failed))),
        _ => None,
    }
}

/// The flag that ended a run whose items were not all tried.
pub(super) fn time_limit(report: &Report) -> Option<String> {
    let is_over = !report.interrupted && report.ledger.not_attempted > 0;
    let planned = report.plan.run.duration.filter(|_| is_over)?;
    Some(format!("-d {}", humantime::format_duration(planned)))
}
