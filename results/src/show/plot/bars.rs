//! Charts of bars: causes of errors, and the audit of the budget.

use crate::run::report::{Audit, Report, WindowReport};
use crate::run::words;
use crate::show::chart::scale::trimmed;
use crate::show::chart::{Axis, Bar, Chart, Format, Mark, Panel, Range, Role, Shape, figures};
use crate::show::text::{counted, rate_in_words};
use crawlmark_harness::stats::Counters;
use crawlmark_harness::units::{grouped, rounded_percent};

/// The most causes that are listed one by one.
const MOST_CAUSES: usize = 8;

/// Failed requests by cause, and those that were cut off, the commonest first; none without any.
pub(super) fn causes(report: &Report) -> Option<Chart> {
    let counters = Counters {
        items: report.ledger.items,
        requests: report.totals.requests.clone(),
        ..Counters::default()
    };
    let mut causes = words::errors(&counters);
    if causes.len() > MOST_CAUSES {
        let rest = causes.split_off(MOST_CAUSES - 1);
        let count = rest.iter().map(|(_, count)| count).sum();
        causes.push((counted(rest.len() as u64, "other cause"), count));
    }
    let all: u64 = causes.iter().map(|(_, count)| count).sum();
    let share = rounded_percent(all as f64 / report.totals.attempts.max(1) as f64);
    let attempts = grouped(report.totals.attempts);
    let bars: Vec<Bar> = causes
        .into_iter()
        .map(|(name, count)| Bar {
            name,
            role: Role::Failed,
            value: count as f64,
            text: grouped(count),
        })
        .collect();
    (!bars.is_empty()).then(|| Chart {
        name: "causes",
        title: "Causes of errors",
        caption: figures([(
            "failed or cut off",
            Some(format!("{} of {attempts} requests ({share})", grouped(all))),
        )]),
        panels: vec![Panel::bars("requests", bars)],
    })
}

/// The busiest windows beside what was allowed in them; none without a budget, or without a window
/// of one.
pub(super) fn budget(report: &Report) -> Option<Chart> {
    let budget = report.budget.as_ref()?;
    let bars = windows(budget, report.shard_word());
    let most = bars.iter().map(|bar| bar.value).reduce(f64::max)?;
    let limit = Mark::new(Role::Reference, "the limit", Shape::Upright(1.0));
    let mut panel = Panel::bars("", bars);
    panel.marks.insert(0, limit);
    panel.x = Axis::new(
        "requests in the busiest windows, share of the limit",
        Range::Between(0.0, most.max(1.0)),
        Format::Percent,
    );
    let unaudited = budget.unaudited_shards as u64;
    Some(Chart {
        name: "budget",
        title: "Budget audit",
        caption: figures([
            ("limit", Some(rate_in_words(&budget.rate))),
            (
                "exceeded",
                Some(if budget.kept { "never" } else { "YES" }.to_owned()),
            ),
            ("used", Some(rounded_percent(budget.utilisation))),
            (
                "not checked",
                (unaudited > 0).then(|| counted(unaudited, report.shard_word())),
            ),
        ]),
        panels: vec![panel],
    })
}

fn windows(audit: &Audit, word: &str) -> Vec<Bar> {
    let all = audit.busiest.iter().chain(&audit.worst_window);
    all.map(|window| window_bar(window, word)).collect()
}

fn window_bar(window: &WindowReport, word: &str) -> Bar {
    let of = window
        .shard
        .map_or_else(|| format!("all {word}s"), |shard| format!("{word} {shard}"));
    let value = window.used();
    Bar {
        name: format!("{of}, {}", width(window.width_ms)),
        role: if value > 1.0 {
            Role::Failed
        } else {
            Role::Good
        },
        value,
        text: format!(
            "{} of {}",
            grouped(window.admitted),
            grouped(window.allowed)
        ),
    }
}

fn width(ms: f64) -> String {
    if ms >= 1_000.0 {
        format!("{} s", trimmed(ms / 1e3))
    } else {
        format!("{} ms", trimmed((ms * 10.0).round() / 10.0))
    }
}
