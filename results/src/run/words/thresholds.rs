//! Thresholds before a run, and their results after it.

use super::tables::or_dash;
use crate::run::gates::{Breach, Objective};
use crate::run::report::{GateReport, Report};
use crate::show::doc::{Column, Table};
use crate::show::text::{decimal, in_unit, write_row};

/// Return the thresholds of the run that is about to begin, a row each, for a terminal of `columns`
/// columns.
pub fn must_hold(objectives: &[Objective], columns: usize) -> String {
    let mut out = String::new();
    for Objective { condition, breach } in objectives {
        let or = match breach {
            Breach::Fails => "",
            Breach::Stops => " (stops the run if broken)",
        };
        write_row(&mut out, "threshold", &format!("{condition}{or}"), columns);
    }
    out
}

/// A table of the thresholds, those that did not pass first.
pub(super) fn table(report: &Report) -> Table {
    let mut gates: Vec<&GateReport> = report.gates.iter().collect();
    gates.sort_by_key(|gate| {
        [Some(false), None, Some(true)]
            .iter()
            .position(|ok| *ok == gate.ok)
    });
    Table {
        columns: vec![
            Column::words("threshold"),
            Column::words("verdict"),
            Column::numbers("value"),
            Column::numbers("limit").leaving(1),
            Column::numbers("margin").leaving(2),
            Column::sentences("details"),
        ],
        rows: gates
            .into_iter()
            .map(|gate| {
                let stopped =
                    is_what_stopped(gate, report).then(|| "this stopped the run".to_owned());
                let details: Vec<String> = [
                    gate.why.clone(),
                    where_seen(gate),
                    correction(gate),
                    stopped,
                ]
                .into_iter()
                .flatten()
                .collect();
                vec![
                    gate.expression.clone(),
                    gate.verdict().to_owned(),
                    or_dash(value(gate)),
                    in_unit(&gate.unit, gate.limit),
                    or_dash(margin(gate)),
                    details.join("; "),
                ]
            })
            .collect(),
        ..Table::default()
    }
}

/// The thresholds with this verdict in one line, each with what was measured and where.
pub fn thresholds_line(report: &Report, ok: Option<bool>) -> String {
    report
        .gates
        .iter()
        .filter(|gate| gate.ok == ok)
        .map(|gate| format!("{} ({})", gate.expression, seen(gate)))
        .collect::<Vec<_>>()
        .join("; ")
}

/// Return the finding in words: the value, its distance from the limit, the window; or why nothing
/// can be said.
pub(crate) fn seen(gate: &GateReport) -> String {
    let parts = [
        value(gate),
        margin(gate),
        where_seen(gate),
        correction(gate),
        gate.why.clone(),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Say that a time is not corrected; none of one that is, and of other metrics.
fn correction(gate: &GateReport) -> Option<String> {
    let is_not = gate.corrected == Some(false);
    is_not.then(|| "not corrected for coordinated omission".to_owned())
}

/// True if the run was stopped by this gate.
fn is_what_stopped(gate: &GateReport, report: &Report) -> bool {
    gate.kind == Breach::Stops.name()
        && gate.ok == Some(false)
        && report.stopped_by.as_ref() == Some(&gate.expression)
}

/// The value in its unit, as people read it.
fn value(gate: &GateReport) -> Option<String> {
    let text = in_unit(&gate.unit, gate.value?);
    Some(if gate.at_least {
        format!(">= {text}")
    } else {
        text
    })
}

/// On which side of the limit the value is, and how far; none while that is undecided.
fn margin(gate: &GateReport) -> Option<String> {
    gate.margin?;
    let part = decimal((gate.value? - gate.limit).abs() / gate.limit * 100.0);
    let side = if gate.ok? { "better" } else { "worse" };
    Some(format!("{part} % {side}"))
}

/// Return the window of the value, and the number of windows judged.
fn where_seen(gate: &GateReport) -> Option<String> {
    let end = gate.until_s?;
    let Some(length) = gate.window_s else {
        return Some(format!("after {end} s"));
    };
    let which = match gate.windows {
        Some(judged) if judged > 1 => format!("the worst of {judged} windows"),
        _ => "the only window evaluated".to_owned(),
    };
    Some(format!(
        "in {which} ({}-{end} s)",
        end.saturating_sub(length)
    ))
}
