//! Parts of a merged crawl in words: what was merged, and what was sent beside it.

use std::fmt::Write as _;

use crate::run::report::{MergedReport, OtherAttempt, Report};
use crate::show::doc::{Column, Table};
use crate::show::text::{counted, grouped, micros};
use crawlmark_harness::units::rounded_percent;

/// Return the row of the summary.
pub(super) fn row(merged: &MergedReport) -> String {
    let MergedReport {
        parts,
        missing_parts,
        slots,
        machines,
        ..
    } = *merged;
    let (merged_parts, slots) = (
        grouped((parts - missing_parts.min(parts)).into()),
        grouped(slots.into()),
    );
    let of = match missing_parts {
        0 => format!("{merged_parts} merged"),
        missing => format!(
            "{merged_parts} of {} merged, {} missing",
            grouped(parts.into()),
            grouped(missing.into())
        ),
    };
    let mut row = format!(
        "{of}; at most {slots} at once, on {}",
        counted(machines.into(), "machine")
    );
    if let Some(used) = merged.partly_used() {
        let _ = write!(row, "; slots in use {} of the time", rounded_percent(used));
    }
    row += &merged.aligned_within_us.map_or_else(
        || "\nthe error of a machine's clock is unknown, so seconds may not be aligned".to_owned(),
        |us| format!("\nseconds aligned to within {}", micros(us as f64)),
    );
    if let Some(us) = merged.clock_error_us {
        let _ = write!(row, "; clocks within {} of UTC", micros(us as f64));
    }
    if let Some((late, us)) = merged
        .late_parts
        .zip(merged.last_start_us)
        .filter(|(late, _)| *late > 0)
    {
        let _ = write!(
            row,
            "\n{} started over 1 s after --start-at, the last one {} after it",
            counted(late.into(), "part"),
            micros(us as f64)
        );
    }
    if merged.robots_requests > 0 {
        let _ = write!(
            row,
            "\n{} for robots.txt before the parts began",
            counted(merged.robots_requests, "request")
        );
    }
    if let Some(additional) = merged.additional() {
        let _ = write!(row, "\n{additional}");
    }
    row
}

/// Count the parts that a report is of: `2 parts`, `1 of 2 parts`.
pub(super) fn parts(merged: &MergedReport) -> String {
    let parts = counted(merged.parts.into(), "part");
    match merged.missing_parts {
        0 => parts,
        missing => format!(
            "{} of {parts}",
            grouped(merged.parts.saturating_sub(missing).into())
        ),
    }
}

/// Describe the parts without a result: `1 part never began`, `2 parts without a result`; none
/// without any.
pub(super) fn missing(report: &Report) -> Option<String> {
    let merged = report
        .merged
        .as_ref()
        .filter(|merged| merged.missing_parts > 0)?;
    let parts = counted(merged.missing_parts.into(), "part");
    // Not all attempts are named.
    let may_have_begun = merged.others.len() < merged.other_attempts as usize
        || merged
            .others
            .iter()
            .any(|other| merged.missing.contains(&other.part))
        || merged.missing.len() < merged.missing_parts as usize && merged.other_attempts > 0;
    Some(
        parts
            + if may_have_begun {
                " without a result"
            } else {
                " never began"
            },
    )
}

/// Explain a rate that was not reached because slots were idle; none where they were in use.
pub(super) fn idle_slots(report: &Report) -> Option<String> {
    let used = partly_used(report)?;
    Some(format!(
        "slots were in use {} of the time",
        rounded_percent(used)
    ))
}

fn partly_used(report: &Report) -> Option<f64> {
    report.merged.as_ref().and_then(MergedReport::partly_used)
}

/// Explain a budget that was not used up because slots were idle; empty otherwise.
pub(crate) fn idle_budget(report: &Report, used: f64) -> String {
    match (
        idle_slots(report),
        partly_used(report).filter(|in_use| *in_use > 0.0),
    ) {
        (Some(idle), Some(in_use)) => {
            format!(
                ": {idle} and used {} of their share",
                rounded_percent((used / in_use).min(1.0))
            )
        }
        _ => String::new(),
    }
}

/// True if slots were idle for a notable part of the time.
pub(super) fn is_partly_used(report: &Report) -> bool {
    partly_used(report).is_some()
}

/// Return what the shares of time refer to.
pub(crate) fn time(report: &Report) -> &'static str {
    if is_partly_used(report) {
        "the time in which parts ran"
    } else {
        "the time"
    }
}

/// Name items that were finished before the run; none without any.
pub(super) fn finished_before(report: &Report) -> Option<(u64, &'static str)> {
    report
        .finished_before
        .filter(|items| *items > 0)
        .map(|items| (items, "saved before"))
}

/// Return a row for each attempt that was not merged, as far as the report names them.
pub(super) fn others(report: &Report) -> Table {
    let row = |other: &OtherAttempt| {
        let sent = if other.is_counted {
            grouped(other.requests)
        } else {
            format!(">= {}", grouped(other.requests))
        };
        let end = if other.has_ended {
            "ended, not published"
        } else {
            "no end reported"
        };
        vec![
            other.part.to_string(),
            other.attempt.clone(),
            sent,
            end.to_owned(),
        ]
    };
    let others = report.merged.iter().flat_map(|merged| &merged.others);
    let columns = ["part", "attempt not merged", "requests", "end"];
    Table {
        columns: columns.into_iter().map(Column::words).collect(),
        rows: others.map(row).collect(),
        ..Table::default()
    }
}
