//! Outcome of a run: thresholds, who stopped it, and how it ended.

use super::failures::{causes_in_words, causes_named, clause, error_share, suspect};
use super::finding::{
    RunEvent, client_fault, event, finding, is_client_slow, limit, requested, starved,
};
use super::gates::{brief, margin, parts, seen, value};
use super::merged;
use super::rows::{ended_in_warmup, is_unsent};
use super::stalls::Stalls;
use crate::run::report::{CommandLine, GateReport, Report, ShardReport, Verdict, thresholds};
use crate::show::doc::{Severity, Status};
use crate::show::text::{capital, counted, decimal, seconds};
use crawlmark_harness::process::signal_in_words;
use crawlmark_harness::supervisor::ShardFault;
use crawlmark_harness::units::rounded_percent;

/// Cause of a stop because results could not be stored.
pub(super) const STORAGE_FAILURE: &str = "a failure to store results";

/// Part of the requested rate below which a run fell short of it.
const REACHED: f64 = 0.5;

/// The outcome in a box, with the finding.
pub(crate) fn status(report: &Report) -> Status {
    let (failed, undecided) = (gates(report, Some(false)), gates(report, None));
    let named = |gates: &[&GateReport]| match (gates, report.gates.len()) {
        ([gate], 1) => threshold(gate) + &cause(report, gate),
        ([gate], all) => format!(
            "1 of {all} thresholds, {}",
            threshold(gate) + &cause(report, gate)
        ),
        (gates, all) => format!("{} of {all} thresholds", gates.len()),
    };
    let mut clauses: Vec<String> = Some(ending(report))
        .filter(|end| !end.is_empty())
        .into_iter()
        .collect();
    match (failed.is_empty(), undecided.is_empty(), report.gates.len()) {
        (_, _, 0) => {}
        (false, ..) if report.stopped_by.is_some() => {
            let end = end(report, "stopped");
            clauses.insert(0, format!("FAILED, {end}: {}", named(&failed)));
        }
        (false, ..) => clauses.insert(0, format!("FAILED: {}", named(&failed))),
        (true, false, _) => clauses.insert(0, format!("UNDECIDED: {}", named(&undecided))),
        (true, true, passed) => {
            clauses.push(format!("{} passed", counted(passed as u64, "threshold")));
        }
    }
    let severity = severity(report);
    let mut text = finding(report);
    if severity == Severity::Good && !text.is_empty() && !text.contains("; ") {
        let (first, advice) = text
            .split_once(". ")
            .unwrap_or((text.trim_end_matches('.'), ""));
        clauses.insert(0, first.to_owned());
        text = String::from(advice);
    }
    let list = if failed.is_empty() { undecided } else { failed };
    // A single one is in the title.
    let list = if list.len() == 1 { Vec::new() } else { list };
    Status {
        id: Some("outcome"),
        text,
        list: list.into_iter().map(threshold).collect(),
        ..Status::new(severity, capital(&clauses.join("; ")))
    }
}

/// The thresholds with this verdict in one line, each with what was measured and where.
#[must_use]
pub fn thresholds_line(report: &Report, ok: Option<bool>) -> String {
    let line = |gate: &GateReport| format!("{} ({})", gate.expression, seen(gate));
    gates(report, ok)
        .into_iter()
        .map(line)
        .collect::<Vec<_>>()
        .join("; ")
}

/// A threshold with what was measured: `service_p95 is 138 ms, must be < 100ms (38 % worse)`.
fn threshold(gate: &GateReport) -> String {
    match (parts(gate), value(gate)) {
        (Some((metric, limit)), Some(value)) if gate.ok == Some(false) => {
            let margin = margin(gate).map_or_else(String::new, |margin| format!(" ({margin})"));
            format!("{metric} is {value}, must be {limit}{margin}")
        }
        _ => format!("{} ({})", gate.expression, brief(gate)),
    }
}

/// True of a failed threshold of errors.
fn counts_errors(gate: &GateReport) -> bool {
    gate.ok == Some(false) && gate.expression.trim_start().starts_with("error")
}

/// Cause of a failed threshold of errors, or the exoneration of this client for one of times; empty
/// for others.
fn cause(report: &Report, gate: &GateReport) -> String {
    if gate.ok == Some(false) && gate.unit == "us" && report.validity.verdict == Verdict::Valid {
        return ", while this client kept up".to_owned();
    }
    // Those of the worst window are not counted apart.
    let causes = if gate.window_s.is_some() {
        causes_named(report)
    } else {
        causes_in_words(report)
    };
    let causes = causes.filter(|_| counts_errors(gate));
    causes.map_or_else(String::new, |causes| {
        format!(": {causes}{}", suspect(report))
    })
}

fn gates(report: &Report, ok: Option<bool>) -> Vec<&GateReport> {
    report.gates.iter().filter(|gate| gate.ok == ok).collect()
}

fn severity(report: &Report) -> Severity {
    let verdict = report.validity.verdict;
    let failed = error_share(report).unwrap_or(0.0);
    let is_without_answer = !is_unsent(report) && report.ledger.ok == 0;
    match () {
        () if !gates(report, Some(false)).is_empty() || verdict == Verdict::Incomplete => {
            Severity::Bad
        }
        () if failed >= thresholds::MOST_FAILED || is_without_answer => Severity::Bad,
        () if event(report).is_some_and(|event| event.is_down) => Severity::Bad,
        () if !gates(report, None).is_empty() || verdict != Verdict::Valid => Severity::Warning,
        () if Stalls::of(report).is_notable() => Severity::Warning,
        () if report.interrupted || is_unsent(report) || shortfall(report).is_some() => {
            Severity::Warning
        }
        () => Severity::Good,
    }
}

/// The end of the run.
fn ending(report: &Report) -> String {
    let after = seconds(report.totals.duration_s);
    let stopped = |by: &str| end(report, &format!("stopped{by}")) + " (partial result)";
    let has_failed = !gates(report, Some(false)).is_empty();
    // A failed threshold of errors has their causes.
    let is_said = |event: &RunEvent| !event.is_cause && report.gates.iter().any(counts_errors);
    let event = event(report).filter(|event| !is_said(event));
    let short = shortfall(report).filter(|_| event.as_ref().is_none_or(|event| !event.is_cause));
    let event = event.map(|event| event.title);
    let is_clear = event.is_none() && short.is_none();
    let limit = time_limit(report)
        .filter(|_| is_clear)
        .map_or_else(String::new, |limit| format!(" ({limit})"));
    let end = match (report.interrupted_by, &report.stopped_by) {
        (Some(signal), _) => stopped(&format!(" by {}", signal_in_words(signal))),
        (None, None) if report.storage_failure.is_some() => {
            stopped(&format!(" by {STORAGE_FAILURE}"))
        }
        (None, Some(threshold)) => stopped(&format!(" by --stop-if '{threshold}'")),
        (None, None) if is_unsent(report) && report.ledger.skipped > 0 => {
            "nothing was sent because of robots.txt".to_owned()
        }
        (None, None) if is_unsent(report) => "nothing was sent".to_owned(),
        (None, None) => format!("finished after {after}{limit}"),
    };
    // A run that ended within its warm-up has its end in the event.
    let is_told = event.is_some() && ended_in_warmup(report).is_some() && !report.interrupted;
    // The title of a run that a failed threshold stopped begins with it.
    let is_told =
        is_told || has_failed && report.stopped_by.is_some() && report.interrupted_by.is_none();
    let end = Some(end).filter(|_| !is_told);
    // The user who stopped a run knows that, and reads it first.
    let (first, last) = if report.interrupted {
        (end, None)
    } else {
        (None, end)
    };
    // An event and a shortfall have their causes; for a threshold of times or rates this client may
    // be another.
    let is_blurred = gates(report, Some(false))
        .iter()
        .any(|gate| ["us", "per_s"].contains(&gate.unit.as_str()));
    let is_disturbed = report.validity.verdict == Verdict::Disturbed;
    let doubt = doubt(report).filter(|_| is_clear || is_blurred || is_disturbed);
    let clauses = [missing(report), first, short, event, doubt, last];
    clauses.into_iter().flatten().collect::<Vec<_>>().join("; ")
}

/// Describe an early end with its time and the planned one: `stopped after 4.00 s of 10.0 s`.
fn end(report: &Report, verb: &str) -> String {
    let planned = report
        .plan
        .run
        .duration
        .map(|planned| planned.as_secs_f64());
    let of = planned.filter(|planned_s| *planned_s > report.totals.duration_s);
    let of = of.map_or_else(String::new, |planned_s| {
        format!(" of {}", seconds(planned_s))
    });
    format!("{verb} after {}{of}", seconds(report.totals.duration_s))
}

/// Clause on the missing part of a run.
fn missing(report: &Report) -> Option<String> {
    if report.validity.verdict != Verdict::Incomplete {
        return None;
    }
    let dead: Vec<(&ShardReport, &str)> = report
        .shards
        .iter()
        .filter_map(|shard| Some((shard, shard.fault.as_deref()?)))
        .collect();
    let dead_in_words = match &dead[..] {
        [] => None,
        _ if report.merged.is_some() => merged::missing(report),
        [(shard, fault)] => Some(death(shard, fault)),
        several => Some(counted(several.len() as u64, "shard") + " died"),
    };
    // Of a run by the clock, items are left as a rule.
    let is_by_count = report.plan.run.duration.is_none() && !report.interrupted;
    let not_attempted = if is_by_count {
        report.ledger.not_attempted
    } else {
        0
    };
    // What a shard had open when it died is known to be no more than that.
    let is_bounded = report.ledger.lost > 0 && dead.iter().all(|(shard, _)| shard.has_reported());
    let lost = is_bounded.then(|| format!("up to {} lost", counted(report.ledger.lost, "item")));
    let times = (!dead.is_empty() && report.merged.is_none()).then_some(if dead.len() == 1 {
        "its times left out"
    } else {
        "their times left out"
    });
    let left = (not_attempted > 0).then(|| counted(not_attempted, "item") + " not attempted");
    let witness = report
        .witness
        .as_ref()
        .filter(|witness| witness.agrees == Some(false));
    let differs = witness.and_then(|witness| {
        Some(format!(
            "the target's own counts differ ({})",
            witness.differences.first()?
        ))
    });
    let parts = [
        dead_in_words,
        lost,
        times.map(str::to_owned),
        left,
        report.storage_failure.clone(),
        differs,
    ]
    .into_iter()
    .flatten()
    .collect::<Vec<_>>()
    .join(", ");
    Some(if parts.is_empty() {
        "INCOMPLETE".to_owned()
    } else {
        format!("INCOMPLETE: {parts}")
    })
}

/// The end of a shard that died: `client shard 1 was ended by SIGKILL at 4.78 s`.
fn death(shard: &ShardReport, fault: &str) -> String {
    let exit = shard
        .exits
        .last()
        .filter(|_| fault == ShardFault::Died.to_string());
    let end = exit.map_or(fault, String::as_str);
    let when = if shard.has_reported() {
        format!("at {}", seconds(shard.totals.duration_s))
    } else {
        "before its first report".to_owned()
    };
    format!("client shard {} {end} {when}", shard.shard)
}

/// Clause on figures that are not those of the target, with the cause.
fn doubt(report: &Report) -> Option<String> {
    match report.validity.verdict {
        _ if is_client_slow(report) => {
            Some(format!("this client was slow ({})", client_fault(report)))
        }
        Verdict::ConcurrencyLimited => {
            Some("all connections were in use, so requests waited for one".to_owned())
        }
        Verdict::Disturbed if report.merged.is_some() => {
            Some("parts were disturbed or crawled more than once (see Validity)".to_owned())
        }
        Verdict::Disturbed => Some("this machine was disturbed (see Validity)".to_owned()),
        _ => None,
    }
}

/// Describe a run whose rate of responses was less than half of the requested one:
/// `1/s instead of 500/s: the target's quota 93 % of the time`. None of any other run.
pub(super) fn shortfall(report: &Report) -> Option<String> {
    if is_unsent(report) || ended_in_warmup(report).is_some() {
        return None;
    }
    let requested = requested(report)?;
    let ledger = &report.ledger;
    let answered = (ledger.ok + ledger.not_found) as f64 / ledger.completed().max(1) as f64;
    let answered_per_s = report.totals.items_per_s * answered;
    // Failures are a finding of their own: they explain no more than their part.
    let failed = clause(report).and(error_share(report)).unwrap_or(0.0);
    if answered_per_s >= requested.per_s * REACHED * (1.0 - failed) {
        return None;
    }
    let by = limit(report).filter(|(_, by)| *by != "--rate");
    let by = by.map_or_else(String::new, |(part, by)| {
        let what = match (by, starved(report)) {
            ("throttle pauses", _) => "the target throttled, so this client paused",
            ("connections", Some(short)) => return format!(": {short}"),
            ("connections", None) => "all connections were in use",
            _ => by,
        };
        format!(": {what} {} of the time", rounded_percent(part))
    });
    Some(format!(
        "{}/s instead of {}{by}",
        decimal(answered_per_s),
        requested.words
    ))
}

/// The flag that ended a run whose items were not all tried.
pub(super) fn time_limit(report: &Report) -> Option<String> {
    let had_more = |shard: &ShardReport| shard.fault.is_none() && shard.ledger.not_attempted > 0;
    let is_over = !report.interrupted && report.shards.iter().any(had_more);
    let planned = report.plan.run.duration.filter(|_| is_over)?;
    let is_given = |command: &CommandLine| {
        command
            .arguments
            .iter()
            .any(|argument| argument == "--duration")
    };
    let is_default = report
        .command
        .as_ref()
        .is_some_and(|command| command.is_of_run() && !is_given(command));
    let default = if is_default { ", the default" } else { "" };
    Some(format!(
        "-d {}{default}",
        humantime::format_duration(planned)
    ))
}
