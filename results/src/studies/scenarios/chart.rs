//! Measured beside published rates, which differ by factors: on an axis that goes up by tens, the first
//! at the bottom, so that the bars are steps.

use super::{ScenarioReport, Scenarios};
use crate::show::chart::{Axis, Block, Chart, Format, Mark, Panel, Range, Role, Shape};
use crate::show::text::decimal;

/// Height of a row with two bars, CSS pixels.
const STEP: f64 = 40.0;

/// The chart of scenarios.
pub(super) fn chart(of: &Scenarios) -> Chart {
    Chart {
        name: "scenarios",
        title: "Published and measured rates",
        caption: String::new(),
        panels: vec![steps(&of.scenarios)],
    }
}

/// The panel of measured and published rates.
fn steps(all: &[ScenarioReport]) -> Panel {
    let published = all.iter().map(|of| of.published.high_per_s);
    let rates = all
        .iter()
        .map(|of| of.readings.ok_per_s)
        .chain(published)
        .filter(|rate| *rate > 0.0);
    let (least, high) = rates.fold((1.0_f64, 10.0_f64), |(least, high), rate| {
        (least.min(rate), high.max(rate))
    });
    let low = 10f64.powf(least.log10().floor());
    let (mut names, mut measured, mut published) = (Vec::new(), Vec::new(), Vec::new());
    for (row, of) in all.iter().rev().enumerate() {
        names.push(format!("{}. {}", of.number, of.name));
        let rate = of.readings.ok_per_s;
        let text = format!("{}/s, limited by {}", decimal(rate), of.limit.name());
        measured.push(Block::row(row, [0.06, 0.5], [low, rate.max(low)], text));
        let (to, text) = (of.published.high_per_s.max(low), of.published.to_string());
        published.push(Block::row(row, [0.56, 0.86], [low, to], text));
    }
    Panel {
        x: Axis::new(
            "good items per second (log scale)",
            Range::LogBetween(low, high),
            Format::Number,
        ),
        height: names.len() as f64 * STEP,
        y: Axis::new("", Range::Rows(names), Format::Number),
        marks: vec![
            Mark::new(Role::Good, "measured", Shape::Blocks(measured)),
            Mark::new(Role::Limit, "published", Shape::Blocks(published)),
        ],
    }
}
