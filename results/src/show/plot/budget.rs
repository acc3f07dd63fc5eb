//! The audit of the budget: the busiest windows beside what was allowed in them.

use plotters::style::text_anchor::HPos;

use super::Plot;
use super::bars::{self, Bar, ROW};
use super::canvas::{Head, Lettering, sheet};
use super::palette::Ink;
use super::panel::ABOVE;
use super::scale::trimmed;
use crate::run::report::{BudgetReport, Report};
use crawlmark_harness::units::{grouped, rounded_percent};

/// Below the bars, for the scale.
const SCALE: f64 = 44.0;

pub(super) fn plot(report: &Report) -> Option<Plot> {
    let budget = report.budget.as_ref()?;
    let windows = windows(budget);
    let highest = windows.iter().map(|(_, part, _)| *part).fold(1.0, f64::max);
    let bar = |(name, part, value): &(String, f64, String)| Bar {
        name: name.clone(),
        part: part / highest,
        value: value.clone(),
        ink: if *part > 1.0 { Ink::Vermilion } else { Ink::Blue },
    };
    let bars: Vec<Bar> = windows.iter().map(bar).collect();
    let head = Head { name: "budget", title: "Budget audit", caption: caption(budget), keys: Vec::new() };
    Some(sheet(head, ABOVE + (bars.len().max(1)) as f64 * ROW + SCALE, |canvas, top| {
        let quiet = |hold| Lettering::label(Ink::Quiet, hold);
        canvas.text(
            "requests in the busiest windows, as a share of what was allowed in them",
            (16.0, top + 8.0),
            quiet(HPos::Left),
        );
        let top = top + ABOVE;
        if bars.is_empty() {
            canvas.text("no shard lived to tell", (16.0, top + ROW / 2.0), Lettering::label(Ink::Text, HPos::Left));
            return;
        }
        let (left, length) = bars::field(&bars);
        let bottom = top + bars.len() as f64 * ROW + 4.0;
        for (label, part) in [("0 %", 0.0), ("50 %", 0.5), ("100 %", 1.0)] {
            let x = left + length * part / highest;
            canvas.line(&[(x, top), (x, bottom)], Ink::Grid, 1.0);
            canvas.text(label, (x, bottom + 14.0), quiet(HPos::Center));
        }
        bars::draw(canvas, &bars, top);
        let x = left + length / highest;
        canvas.line(&[(x, top), (x, bottom)], Ink::Text, 1.5);
    }))
}

/// Each window's name, what was used of what was allowed, and both in words.
fn windows(budget: &BudgetReport) -> Vec<(String, f64, String)> {
    let row = |name: String, admitted: u64, allowed: u64| {
        let part = admitted as f64 / (allowed.max(1)) as f64;
        (name, part, format!("{} of {}", grouped(admitted), grouped(allowed)))
    };
    let width = |ms: u64| if ms >= 1_000 { format!("{} s", trimmed(ms as f64 / 1e3)) } else { format!("{ms} ms") };
    let all = budget.busiest.iter().map(|w| row(format!("all shards, {}", width(w.width_ms)), w.admitted, w.allowed));
    let one = budget.worst_window.iter().map(|w| {
        let wide = trimmed((w.width_ms * 10.0).round() / 10.0);
        let name =
            if wide == "0" { format!("shard {}, at once", w.shard) } else { format!("shard {}, {wide} ms", w.shard) };
        row(name, w.admitted, w.allowed)
    });
    all.chain(one).collect()
}

fn caption(budget: &BudgetReport) -> String {
    let kept = if budget.kept {
        "was kept in every window of every width that was looked at"
    } else {
        "was NOT kept in every window"
    };
    let untold = match budget.unaudited_shards {
        0 => String::new(),
        n => format!("; {n} of the shards did not live to tell"),
    };
    format!("The budget of {} {kept}, and {} of it was used{untold}.", budget.rate, rounded_percent(budget.utilisation))
}
