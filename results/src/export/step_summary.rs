//! The run as GitHub's Markdown for `$GITHUB_STEP_SUMMARY`: whether it may be believed, its figures, its gates, its course.
//!
//! GitHub refuses a step's summary above 1 MiB as a whole, so every list here has an end that says how much it leaves out,
//! and every text of somebody else's a greatest length. Such text cannot become markup. There are no pictures, which a
//! summary has no place for: what can be drawn with characters is.

mod cells;
mod sparkline;

use std::fmt::Write;

use self::cells::{cell, more};
use self::sparkline::sparkline;
use crate::run::report::{IntervalRow, Report, Verdict, error_in_words};
use crate::show::text::{decimal, good_part, grouped, grouped_f64, micros, percent, seconds, seen, spectrum};
use crawlmark_harness::stats::Series;

/// Rows of a list at most.
const ROWS: usize = 100;

/// The summary.
pub(super) fn step_summary(report: &Report) -> String {
    let mut out = String::new();
    write_validity(&mut out, report);
    write_figures(&mut out, report);
    write_gates(&mut out, report);
    write_course(&mut out, report);
    write_origin(&mut out, report);
    out
}

fn write_validity(out: &mut String, report: &Report) {
    let name = if report.name.is_empty() { "crawl" } else { &report.name };
    let partial = match (&report.stopped_by, report.interrupted) {
        (Some(_), _) => ", stopped by a threshold, partial",
        (None, true) => ", interrupted, partial",
        (None, false) => "",
    };
    let _ = writeln!(out, "## {}{partial}\n", cell(name));
    let validity = &report.validity;
    let verdict = validity.verdict.name();
    let _ = match validity.verdict {
        Verdict::Valid => {
            writeln!(out, "**The measurement is valid**: none of {} checks found anything.\n", validity.checked.len())
        }
        _ => writeln!(
            out,
            "> [!WARNING]\n> **The measurement is not valid: `{verdict}`.** Its figures mean something else:\n>"
        ),
    };
    for reason in validity.reasons.iter().take(ROWS) {
        let _ = writeln!(out, "> - {}", cell(reason));
    }
    let rest = validity.reasons.len().saturating_sub(ROWS);
    if rest > 0 {
        let _ = writeln!(out, "> - and {}", more(rest));
    }
    if validity.verdict != Verdict::Valid {
        out.push('\n');
    }
}

fn write_figures(out: &mut String, report: &Report) {
    out.push_str("| | |\n|---|---|\n");
    for (name, value) in figures(report) {
        let _ = writeln!(out, "| {name} | {} |", cell(&value));
    }
}

fn figures(report: &Report) -> Vec<(&'static str, String)> {
    let (totals, ledger) = (&report.totals, &report.ledger);
    let states = ledger.states().filter(|(.., count)| *count > 0);
    let mut rows = vec![
        ("target", report.plan.run.target.clone()),
        ("items", list(states.map(|(_, state, count)| format!("{} {state}", grouped(count))))),
        (
            "rate",
            format!(
                "{} items/s{} over {}",
                decimal(totals.items_per_s),
                good_part(totals).map_or_else(String::new, |part| format!(", {part} of it good,")),
                seconds(totals.duration_s)
            ),
        ),
        ("attempts", format!("{}, {}/s", grouped(totals.attempts), decimal(totals.attempts_per_s))),
    ];
    for (name, series) in [("response times", Series::ResponseOk), ("service times", Series::ServiceOk)] {
        let known = report.latency(series).filter(|latency| latency.count + latency.censored > 0);
        rows.extend(known.map(|latency| (name, spectrum(latency).replace("  ", ", "))));
    }
    if let Some(budget) = &report.budget {
        let kept = if budget.kept { "never exceeded" } else { "EXCEEDED" };
        rows.push(("budget", format!("{}, {} used, {kept}", budget.rate, percent(budget.utilisation))));
    }
    let counted = |mut counts: Vec<(String, u64)>| {
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        list(counts.into_iter().map(|(name, count)| format!("{name}: {}", grouped(count))))
    };
    if !totals.attempts_by_status.is_empty() {
        rows.push((
            "statuses",
            counted(totals.attempts_by_status.iter().map(|(status, count)| (status.to_string(), *count)).collect()),
        ));
    }
    if !totals.errors_by_kind.is_empty() {
        let named = totals.errors_by_kind.iter().map(|(kind, count)| (error_in_words(*kind), *count));
        rows.push(("errors", counted(named.collect())));
    }
    if totals.throttled > 0 {
        rows.push(("throttled", format!("{} of the attempts", percent(report.manners.throttled_share))));
    }
    rows
}

/// The gates, those that did not pass first.
fn write_gates(out: &mut String, report: &Report) {
    if report.gates.is_empty() {
        return;
    }
    let mut gates: Vec<_> = report.gates.iter().collect();
    gates.sort_by_key(|gate| match gate.ok {
        Some(false) => 0,
        None => 1,
        Some(true) => 2,
    });
    let count = |ok| grouped(gates.iter().filter(|gate| gate.ok == ok).count() as u64);
    let (passed, failed, undecided) = (count(Some(true)), count(Some(false)), count(None));
    let _ = writeln!(out, "\n### Thresholds: {passed} passed, {failed} failed, {undecided} undecided\n");
    out.push_str("| | threshold | measured |\n|---|---|---|\n");
    for gate in gates.iter().take(ROWS) {
        let mark = match gate.ok {
            Some(true) => "✅ passed",
            Some(false) => "❌ FAILED",
            None => "❔ undecided",
        };
        let _ = writeln!(out, "| {mark} | {} | {} |", cell(&gate.expression), cell(&seen(gate)));
    }
    let rest = gates.len().saturating_sub(ROWS);
    if rest > 0 {
        let _ = writeln!(out, "| | and {} | |", more(rest));
    }
}

/// Write the course of the run, second by second, in characters.
fn write_course(out: &mut String, report: &Report) {
    let end = report.intervals.iter().map(|row| row.start_s + 1).max().unwrap_or(0);
    let row = |of: fn(&IntervalRow) -> Option<f64>| {
        sparkline(report.intervals.iter().filter_map(|row| Some((row.start_s, of(row)?))), end)
    };
    let is_open = report.schedule.is_some();
    let p90 = if is_open { row(|row| row.response_p90_us) } else { row(|row| row.p90_us) };
    let rows = [
        ("attempts/s", row(|row| Some(row.attempts as f64)), (|value| grouped_f64(value)) as fn(f64) -> String),
        (if is_open { "response p90" } else { "service p90" }, p90, micros),
        ("throttled/s", row(|row| Some(row.throttled as f64)), |value| grouped_f64(value)),
        ("failed/s", row(|row| Some(row.failed as f64)), |value| grouped_f64(value)),
    ];
    let drawn: Vec<_> = rows.into_iter().filter_map(|(name, line, unit)| Some((name, line?, unit))).collect();
    if drawn.is_empty() {
        return;
    }
    out.push_str("\n| over time | from 0 to the greatest | greatest |\n|---|---|---|\n");
    for (name, line, unit) in drawn {
        let _ = writeln!(out, "| {name} | `{}` | {} |", line.drawn, unit(line.greatest));
    }
}

fn write_origin(out: &mut String, report: &Report) {
    let tags = report.tags.iter().map(|(key, value)| format!("{}={}", cells::short(key), cells::short(value)));
    let tags = list(tags);
    let tags = if tags.is_empty() { tags } else { format!(", {tags}") };
    let machine = report.environment.cpu_model.as_deref().unwrap_or("an unknown CPU");
    let shared = if report.environment.colocated { ", shared with the target" } else { "" };
    let cores = report.environment.cores;
    let version = &report.crawlmark_version;
    let origin = format!("{}, crawlmark {version}, {cores} cores of {machine}{shared}{tags}", report.started_at);
    let _ = writeln!(out, "\n<sub>{}</sub>", cell(&origin));
}

/// The first of a number of things, and how many more there are.
fn list(things: impl Iterator<Item = String>) -> String {
    const SHOWN: usize = 12;
    let mut all: Vec<String> = things.collect();
    let rest = all.len().saturating_sub(SHOWN);
    all.truncate(SHOWN);
    if rest > 0 {
        all.push(more(rest));
    }
    all.join(", ")
}
