//! Patterns of crawls side by side: a panel of bars for each figure, a bar for each pattern.

use super::Plot;
use crate::show::chart::{Axis, BAR, Block, Chart, Mark, Panel, ROW, Range, Role, Shape};
use crate::studies::patterns::{PatternReport, Patterns, figures, patterns_headline};

/// Label, meaning and value of a figure.
type PatternPanel = (&'static str, Role, fn(&PatternReport) -> f64);

/// Each figure, in the order of [`figures`].
const FIGURES: [PatternPanel; 5] = [
    ("good items per second", Role::Good, |one| one.ok_per_s),
    ("p99 of the service time", Role::P99, |one| {
        one.service_p99_us.unwrap_or(0.0)
    }),
    ("throttled requests", Role::Throttled, |one| {
        one.throttled_share
    }),
    ("peak in flight", Role::P90, |one| one.peak_in_flight as f64),
    ("memory of this client", Role::Limit, |one| {
        one.memory_bytes.unwrap_or(0) as f64
    }),
];

/// The picture of patterns.
#[must_use]
pub fn patterns(patterns: &Patterns) -> Plot {
    let all = &patterns.patterns;
    let is_known =
        |(_, (.., value)): &(usize, PatternPanel)| all.iter().any(|one| value(one) > 0.0);
    let panel = |(figure, (label, role, value)): (usize, PatternPanel)| {
        let bar = |(n, one): (usize, &PatternReport)| {
            Block::bar(n, BAR, value(one), figures(one)[figure].clone())
        };
        Panel {
            x: Axis::hidden(Range::FromZero),
            y: Axis::rows(label, all.iter().map(|one| one.pattern.clone()).collect()),
            height: all.len() as f64 * ROW,
            marks: vec![Mark::new(
                role,
                "",
                Shape::Blocks(all.iter().enumerate().map(bar).collect()),
            )],
        }
    };
    Plot::of(&Chart {
        name: "patterns",
        title: "Patterns of crawls on one target",
        caption: patterns_headline(patterns),
        panels: FIGURES
            .into_iter()
            .enumerate()
            .filter(is_known)
            .map(panel)
            .collect(),
    })
}
