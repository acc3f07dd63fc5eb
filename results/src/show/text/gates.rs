//! Thresholds before a run, and their results after it: for a terminal and for Markdown.

use super::{decimal, grouped_f64, micros, write_row};
use crate::run::gates::{Breach, Objective};
use crate::run::report::{GateReport, Report};
use crate::show::doc::{Column, Table};

/// Return the thresholds of the run that is about to begin, a row each, for a terminal of `columns` columns.
#[must_use]
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

/// A row per gate, for a terminal of so many columns.
pub(super) fn write_text(out: &mut String, report: &Report, columns: usize) {
    for gate in &report.gates {
        let stopped = if is_what_stopped(gate, report) { "; this stopped the run" } else { "" };
        let row = format!("{}: {}: {}{stopped}", gate.verdict(), gate.expression, seen(gate));
        write_row(out, "threshold", &row, columns);
    }
}

/// The gates with this verdict in one line, each with what was seen: `error_rate < 0.01 (50.0 %, 4,900 % above)`.
#[must_use]
pub fn gates_line(report: &Report, ok: Option<bool>) -> String {
    let such = report.gates.iter().filter(|gate| gate.ok == ok);
    such.map(|gate| format!("{} ({})", gate.expression, seen(gate))).collect::<Vec<_>>().join("; ")
}

/// A table of the thresholds.
pub(super) fn table(report: &Report) -> Table {
    let row = |gate: &GateReport| {
        let Words { value, margin, notes, .. } = Words::of(gate, report);
        vec![gate.expression.clone(), gate.verdict().to_owned(), value, margin, notes]
    };
    Table {
        columns: vec![
            Column::words("threshold"),
            Column::words("verdict"),
            Column::numbers("value"),
            Column::numbers("margin"),
            Column::sentences("details"),
        ],
        rows: report.gates.iter().map(row).collect(),
        ..Table::default()
    }
}

/// A gate's figures as people read them, for the cells of a table; `-` where there is none.
pub(crate) struct Words {
    pub(crate) value: String,
    pub(crate) limit: String,
    pub(crate) margin: String,
    /// Reason why nothing can be said, where it was seen, what came of it.
    pub(crate) notes: String,
}

impl Words {
    pub(crate) fn of(gate: &GateReport, report: &Report) -> Self {
        let mut notes: Vec<String> = gate.why.iter().cloned().chain(where_seen(gate)).collect();
        if is_what_stopped(gate, report) {
            notes.push("this stopped the run".to_owned());
        }
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        Self {
            value: or_none(value(gate)),
            limit: in_unit(gate, gate.limit),
            margin: or_none(margin(gate)),
            notes: notes.join("; "),
        }
    }
}

/// Return the finding in words: the value, its distance from the limit, the window; or why nothing can be said.
pub(crate) fn seen(gate: &GateReport) -> String {
    let parts = [value(gate), margin(gate), where_seen(gate), gate.why.clone()];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// True if the run was stopped by this gate.
fn is_what_stopped(gate: &GateReport, report: &Report) -> bool {
    gate.kind == Breach::Stops.name() && gate.ok == Some(false) && report.stopped_by.as_ref() == Some(&gate.expression)
}

/// The value in its unit, as people read it.
fn value(gate: &GateReport) -> Option<String> {
    let text = in_unit(gate, gate.value?);
    Some(if gate.at_least { format!(">= {text}") } else { text })
}

/// A value or a limit in the unit of the gate.
fn in_unit(gate: &GateReport, value: f64) -> String {
    match gate.unit.as_str() {
        "us" => micros(value),
        "per_s" => format!("{}/s", decimal(value)),
        "share" => format!("{} %", decimal(value * 100.0)),
        "bool" => (value > 0.0).to_string(),
        _ => grouped_f64(value),
    }
}

/// On which side of the limit the value is, and how far.
fn margin(gate: &GateReport) -> Option<String> {
    gate.margin?;
    let (value, limit) = (gate.value?, gate.limit);
    let part = decimal((value - limit).abs() / limit * 100.0);
    Some(match value.total_cmp(&limit) {
        std::cmp::Ordering::Less | std::cmp::Ordering::Greater if gate.ok == Some(true) => format!("{part} % headroom"),
        std::cmp::Ordering::Less => format!("{part} % below"),
        std::cmp::Ordering::Equal => "on the limit".to_owned(),
        std::cmp::Ordering::Greater => format!("{part} % above"),
    })
}

/// Return the window of the value, and the number of windows judged.
fn where_seen(gate: &GateReport) -> Option<String> {
    let end = gate.until_s?;
    let Some(length) = gate.window_s else { return Some(format!("after {end} s")) };
    let which = match gate.windows {
        Some(judged) if judged > 1 => format!("the worst of {judged} windows"),
        _ => "the only window evaluated".to_owned(),
    };
    Some(format!("in {which} ({}-{end} s)", end.saturating_sub(length)))
}
