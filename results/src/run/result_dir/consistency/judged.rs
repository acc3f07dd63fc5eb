//! Judgements: the verdict, the gates, the target's counts, the plan's hash, and the calendar.

use std::net::{IpAddr, SocketAddr};

use crawlmark_harness::plan::RunPlan;

use super::{counts_until_the_end, equal};
use crate::run::gates::{Breach, Condition, Measured, Metric, Objective, Quantity, of_condition, of_report};
use crate::run::report::{GateReport, Report, SUSPENSION, TARGET_PROCESSES, Validity, Verdict, config_hash};

pub(super) fn check(report: &Report) -> Result<(), String> {
    let noted = report.validity.checked.iter().any(|name| name == SUSPENSION);
    if noted != (report.suspended_s > 0.0) {
        let is = report.suspended_s;
        return Err(format!(
            "`suspended_s` is {is}, but validity.checked has {} suspension",
            if noted { "a" } else { "no" }
        ));
    }
    let Report { interrupted_by, stopped_by, storage_failure, .. } = report;
    let stopped = interrupted_by.is_some() || stopped_by.is_some() || storage_failure.is_some();
    equal("interrupted", report.interrupted, "interrupted_by, stopped_by or storage_failure", stopped)?;
    if report.plan.config_hash != config_hash(&report.plan.run) && counts_until_the_end(report) {
        let (is, wanted) = (&report.plan.config_hash, config_hash(&report.plan.run));
        return Err(format!("`plan.config_hash` is {is}, but that of the plan is {wanted}"));
    }
    placement(report)?;
    verdict(report)?;
    for (i, gate) in report.gates.iter().enumerate() {
        self::gate(report, gate).map_err(|why| format!("`gates[{i}]` {why}"))?;
    }
    witness(report)
}

/// The bundled target is on this machine, and so is one with a loopback address. Of other addresses, and of names, only the machine that
/// ran knows.
fn placement(report: &Report) -> Result<(), String> {
    let RunPlan { workload, target, .. } = &report.plan.run;
    let because = match () {
        () if workload.contains_key(TARGET_PROCESSES) => "the plan has the bundled target, which is on this machine",
        () if has_loopback_address(target) => "the address of plan.target is on this machine",
        () => return Ok(()),
    };
    if report.environment.colocated { Ok(()) } else { Err(format!("`environment.colocated` is false, but {because}")) }
}

fn has_loopback_address(url: &str) -> bool {
    let authority =
        url.split_once("://").map_or(url, |(_, rest)| rest).split(['/', '?', ' ']).next().unwrap_or_default();
    let ip = authority.parse().map(|address: SocketAddr| address.ip());
    ip.or_else(|_| authority.trim_matches(['[', ']']).parse()).is_ok_and(|ip: IpAddr| ip.is_loopback())
}

/// The target counted what the run did, but for what was cut off or refused.
fn witness(report: &Report) -> Result<(), String> {
    let Some(witness) = &report.witness else { return Ok(()) };
    let of_target = |name: &str| witness.ledger.get(name).and_then(serde_json::Value::as_u64);
    if let (Some(true), Some(requests)) = (witness.agrees, of_target("requests")) {
        let most = witness.cut_off.saturating_add(of_target("connections_refused").unwrap_or_default());
        let (sent, name) = (report.totals.attempts_sent, "witness.ledger.requests");
        if sent.abs_diff(requests) > most {
            return Err(format!("`{name}` is {requests}, but totals.attempts_sent is {sent}, and {most} were cut off"));
        }
    }
    match witness.agrees {
        Some(agrees) => {
            equal("witness.agrees", agrees, "the absence of witness.differences", witness.differences.is_empty())
        }
        None => Ok(()),
    }
}

/// Wall-clock time from start to end, s; none when a time is none, or the clock was set back.
pub(super) fn wall_s(report: &Report) -> Option<f64> {
    let [start, end] = [&report.started_at, &report.finished_at].map(|time| humantime::parse_rfc3339(time).ok());
    Some(end?.duration_since(start?).ok()?.as_secs_f64())
}

/// The run has a start and an end, and is named by its start, or by its plan if it was merged. The clock may have been set back in the meantime.
pub(super) fn calendar(report: &Report) -> Result<(), String> {
    let Report { run_id, started_at, finished_at, .. } = report;
    if report.merged.is_none() && !run_id.starts_with(started_at.as_str()) {
        return Err(format!("`started_at` is {}, but run_id says {}", quoted(started_at), quoted(run_id)));
    }
    for (field, time) in [("started_at", started_at), ("finished_at", finished_at)] {
        if humantime::parse_rfc3339(time).is_err() {
            return Err(format!("`{field}` is {}, which is not a time of the form 2026-01-31T12:00:00Z", quoted(time)));
        }
    }
    Ok(())
}

/// The begin of a foreign text, on one line.
fn quoted(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_default).collect()
}

/// The verdict is the gravest of the findings.
fn verdict(report: &Report) -> Result<(), String> {
    let Validity { verdict, verdicts, reasons, checked, unavailable, .. } = &report.validity;
    if (*verdict == Verdict::Valid) != reasons.is_empty() {
        let (name, findings) = (verdict.name(), reasons.len());
        return Err(format!("`validity.verdict` is {name}, but validity.reasons holds {findings} findings"));
    }
    if verdicts.last().is_some_and(|gravest| gravest != verdict) {
        return Err(format!("`validity.verdict` is {}, which is not the last of validity.verdicts", verdict.name()));
    }
    let again = Validity::of_figures(report);
    // Another version makes other checks, with other limits.
    let is_ours = report.crawlmark_version == env!("CARGO_PKG_VERSION")
        && again
            .checked
            .iter()
            .chain(&again.unavailable)
            .all(|name| checked.contains(name) || unavailable.contains(name));
    // The target's counts and its processes are found beside the report: there may be more findings than here, not fewer.
    let is_graver = *verdict > again.verdict && reasons.len() > again.reasons.len();
    let is_in_older_order = match (*verdict, again.verdict) {
        (Verdict::Disturbed, Verdict::TargetLimited) => verdicts.is_empty(),
        (Verdict::Disturbed, Verdict::ClientLimited) => true,
        _ => false,
    };
    if is_ours && *verdict != again.verdict && !is_graver && !is_in_older_order {
        let (is, wanted) = (verdict.name(), again.verdict.name());
        return Err(format!(
            "`validity.verdict` is {is}, but the checks come to {wanted} by the numbers of the report"
        ));
    }
    if is_ours && reasons.len() < again.reasons.len() {
        let (is, wanted) = (reasons.len(), again.reasons.len());
        return Err(format!("`validity.reasons` holds {is} findings, but the checks make {wanted}"));
    }
    Ok(())
}

/// The value of a figure that older versions count otherwise: attempts that were cut off were no errors, and their items not among those
/// that a share is of; requests that found the queue full bounded no time.
fn older(metric: Metric, report: &Report) -> Option<Measured> {
    let (failed, attempts) = (report.totals.failed(&report.ledger) as f64, report.totals.attempts as f64);
    match metric {
        Metric::Of(Quantity::Errors) => Some(Measured::Exactly(failed)),
        Metric::Of(Quantity::ErrorRate) if attempts > 0.0 => Some(Measured::Exactly(failed / attempts)),
        Metric::Of(Quantity::OkRate) => {
            let items = report.measured().items;
            (items.completed() > 0).then(|| Measured::Exactly(items.ok as f64 / items.completed() as f64))
        }
        Metric::Time(..) => match of_report(metric, report) {
            Measured::Without(value, _) => Some(Measured::Exactly(value)),
            _ => None,
        },
        Metric::Of(_) => None,
    }
}

/// A gate is judged by its expression and its value, and its value is that of the report unless it was seen in a part of the run.
fn gate(report: &Report, gate: &GateReport) -> Result<(), String> {
    let Ok(condition) = gate.expression.parse::<Condition>() else {
        return Err("has an expression that cannot be read".to_owned());
    };
    let breach = if gate.kind == Breach::Stops.name() { Breach::Stops } else { Breach::Fails };
    let objective = Objective { condition, breach };
    let seen = match (gate.value, gate.at_least) {
        _ if condition.window.is_none() && gate.until_s.is_none() && counts_until_the_end(report) => {
            of_condition(&condition, report)
        }
        (Some(value), false) => Measured::Exactly(value),
        (Some(value), true) => Measured::AtLeast(value),
        (None, _) => Measured::Unknown(gate.why.clone().unwrap_or_default()),
    };
    let (windows, until_s) = (gate.windows, gate.until_s);
    // Earlier versions wrote shares as parts of one.
    let expression = || gate.expression.clone();
    let row = |seen: &Measured| GateReport {
        expression: expression(),
        windows,
        until_s,
        why: gate.why.clone(),
        ..objective.row(seen)
    };
    let wanted = row(&seen);
    // Earlier versions left every percentile of few samples undecided.
    let is_undecided = || gate.ok.is_none() && *gate == row(&of_report(condition.metric, report));
    if *gate == wanted || older(condition.metric, report).is_some_and(|seen| *gate == row(&seen)) || is_undecided() {
        return Ok(());
    }
    let told = |gate: &GateReport| {
        let value = gate.value.map_or_else(|| "unknown".to_owned(), |value| value.to_string());
        format!("{} with the value {value} and the limit {}", gate.verdict(), gate.limit)
    };
    Err(format!("is {}, but `{:.80}` comes to {}", told(gate), gate.expression, told(&wanted)))
}
