//! Several runs side by side as a document: their figures first, with the differences to the first
//! run, then what differs between them, how far each can be relied on, and plots. It describes;
//! single runs allow no verdict.

mod differences;
mod figures;

pub use self::differences::labels;
use self::differences::{Difference, differences};
use super::words::outcome;
use super::words::validity::{meaning, qualified, severity, without_repeats};
use crate::show::doc::{Column, Doc, Severity, Status, Table};
use crate::show::plot::Plot;
use crate::show::plot::overlay::{Clocked, KINDS, Run};

/// Note on a table in which open and closed loops stand beside each other.
const MIXED: &str = "Some of these runs are open loops and some closed loops. A closed loop waits for its target, so its service times \
    exclude what users would have waited; an open loop has response times, which include that. Both have service \
    times, so the plots show those.";

/// Warning that single runs give no verdict.
const DESCRIPTION: &str = "This page describes single runs and gives no verdict. Even identical runs vary; use `crawlmark ab` to \
    decide which is better.";

/// Several runs, with their plots, as a document.
#[must_use]
pub fn doc(runs: &[Run<'_>], plots: &[Plot]) -> Doc {
    let left_out = if plots.len() < KINDS {
        "Plots for which no run has data are left out."
    } else {
        ""
    };
    let mixed = if Clocked::of(runs) == Clocked::ServiceAlthough {
        MIXED
    } else {
        ""
    };
    Doc::new(format!("{} runs side by side", runs.len()))
        .about(runs.iter().map(|run| run.label.to_owned()).collect())
        .status(Status::new(Severity::Warning, DESCRIPTION))
        .section("figures", "Figures", figures::parts(runs, mixed))
        .section("differences", "Differences", differing(runs))
        .section(
            "validity",
            "Validity",
            Doc::default().beside(runs.iter().map(validity).fold(Doc::default(), Doc::status)),
        )
        .section("plots", "Plots", Doc::default().plots(plots).note(left_out))
}

fn differing(runs: &[Run<'_>]) -> Doc {
    let doc = Doc::default();
    let found = differences(runs);
    let Some(first) = found.first() else {
        return doc
            .text("Plans, machines (as far as known) and versions of crawlmark are identical.");
    };
    let names: Vec<&str> = found.iter().map(|difference| &*difference.name).collect();
    let doc = match names.len() {
        1 => doc.text(format!("They differ in one thing: {}.", first.name)),
        several => doc.text(format!(
            "They differ in {several} things: {}. With several differences, no single one can be credited.",
            names.join(", ")
        )),
    };
    let row = |Difference {
                   group,
                   name,
                   values,
               }: &Difference| {
        [format!("{name} ({group})")]
            .into_iter()
            .chain(values.iter().cloned())
            .collect()
    };
    doc.table(side_by_side(runs, found.iter().map(row).collect()))
        .note("Everything else (plan, machine, version) is identical.")
}

/// A run's verdict and findings.
fn validity(run: &Run<'_>) -> Status {
    let (validity, outcome) = (&run.report.validity, outcome(run.report));
    let severity = severity(validity.verdict).max(outcome.severity);
    let stopped = if run.report.interrupted {
        ", stopped early"
    } else {
        ""
    };
    Status {
        text: format!("{}. {}", outcome.title, meaning(run.report)),
        list: without_repeats(&validity.reasons),
        ..Status::new(
            severity,
            format!("{}: {}{stopped}", run.label, qualified(run.report)),
        )
    }
}

/// A column per run. The first cell of each row names it.
fn side_by_side(runs: &[Run<'_>], rows: Vec<Vec<String>>) -> Table {
    let columns = runs.iter().map(|run| Column::words(run.label.to_owned()));
    Table {
        columns: [Column::words("")].into_iter().chain(columns).collect(),
        rows,
        ..Table::default()
    }
}
