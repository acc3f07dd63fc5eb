//! Patterns of crawls side by side: a panel of bars for each figure, a bar for each pattern.

use super::Plot;
use crate::show::chart::{Bar, Chart, Panel, Role};
use crate::studies::patterns::{PatternReport, Patterns, figures, patterns_headline};

/// Label, meaning and value of a figure.
type Figure = (&'static str, Role, fn(&PatternReport) -> f64);

/// Each figure, in the order of [`figures`].
const FIGURES: [Figure; 5] = [
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
    let mut panels = Vec::new();
    for (n, (label, role, value)) in FIGURES.into_iter().enumerate() {
        let bar = |one: &PatternReport| Bar {
            name: one.pattern.clone(),
            role,
            value: value(one),
            text: figures(one)[n].clone(),
        };
        let bars: Vec<Bar> = patterns.patterns.iter().map(bar).collect();
        if bars.iter().any(|bar| bar.value > 0.0) {
            panels.push(Panel::bars(label, bars));
        }
    }
    Plot::of(&Chart {
        name: "patterns",
        title: "Patterns of crawls on one target",
        caption: patterns_headline(patterns),
        panels,
    })
}
