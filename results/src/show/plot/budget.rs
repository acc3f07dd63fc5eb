//! The audit of the budget: the busiest windows beside what was allowed in them.

use crate::run::report::{BudgetReport, Report};
use crate::run::words;
use crate::show::chart::scale::trimmed;
use crate::show::chart::{Axis, BAR, Block, Chart, Format, Mark, Panel, ROW, Range, Role, Shape};
use crate::show::text::rate_in_words;
use crawlmark_harness::units::{grouped, rounded_percent};

/// None without a budget, or without a window of one.
pub(super) fn chart(report: &Report) -> Option<Chart> {
    let budget = report.budget.as_ref()?;
    let windows = windows(budget, report.shard_word());
    let bars = |is_broken: bool| {
        let bar = |(n, (_, part, text)): (usize, &(String, f64, String))| {
            ((*part > 1.0) == is_broken).then(|| Block::bar(n, BAR, *part, text))
        };
        Shape::Blocks(windows.iter().enumerate().filter_map(bar).collect())
    };
    let marks = [
        Mark::new(Role::Good, "", bars(false)),
        Mark::new(Role::Failed, "above the limit", bars(true)),
    ];
    let most = windows
        .iter()
        .map(|(_, part, _)| *part)
        .reduce(f64::max)?
        .max(1.0);
    let panel = Panel {
        x: Axis::new(
            "requests in the busiest windows, share of the limit",
            Range::Between(0.0, most),
            Format::Percent,
        ),
        y: Axis::rows("", windows.iter().map(|(name, ..)| name.clone()).collect()),
        height: windows.len() as f64 * ROW,
        marks: [Mark::new(Role::Reference, "", Shape::Upright(1.0))]
            .into_iter()
            .chain(marks.into_iter().filter(Mark::is_known))
            .collect(),
    };
    Some(Chart {
        name: "budget",
        title: "Budget audit",
        caption: caption(report, budget),
        panels: vec![panel],
    })
}

/// Each window's name, what was used of what was allowed, and both in words.
fn windows(budget: &BudgetReport, word: &str) -> Vec<(String, f64, String)> {
    let row = |name: String, admitted: u64, allowed: u64| {
        let part = admitted as f64 / (allowed.max(1)) as f64;
        (
            name,
            part,
            format!("{} of {}", grouped(admitted), grouped(allowed)),
        )
    };
    let width = |ms: u64| {
        if ms >= 1_000 {
            format!("{} s", trimmed(ms as f64 / 1e3))
        } else {
            format!("{ms} ms")
        }
    };
    let all = budget.busiest.iter().map(|w| {
        row(
            format!("all {word}s, {}", width(w.width_ms)),
            w.admitted,
            w.allowed,
        )
    });
    let one = budget.worst_window.iter().map(|w| {
        let wide = trimmed((w.width_ms * 10.0).round() / 10.0);
        let name = if wide == "0" {
            format!("{word} {}, at once", w.shard)
        } else {
            format!("{word} {}, {wide} ms", w.shard)
        };
        row(name, w.admitted, w.allowed)
    });
    all.chain(one).collect()
}

fn caption(report: &Report, budget: &BudgetReport) -> String {
    let kept = if budget.kept {
        "was never exceeded, in any window checked"
    } else {
        "WAS exceeded"
    };
    let unaudited = words::unaudited(report, budget.unaudited_shards);
    let unaudited = unaudited.map_or_else(String::new, |unaudited| format!("; {unaudited}"));
    format!(
        "The {} limit {kept}; {} of it was used{}{unaudited}.",
        rate_in_words(&budget.rate),
        rounded_percent(budget.utilisation),
        words::idle_budget(report, budget.utilisation)
    )
}
