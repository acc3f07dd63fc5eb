//! Measured beside published rates, which differ by factors: on an axis that goes up by tens, the first
//! at the bottom, so that the bars are steps.

use super::ScenarioReport;
use crate::show::chart::{Axis, Block, Format, Mark, Panel, Range, Role, Shape};
use crate::studies::rate;

/// Height of a row with two bars, CSS pixels.
const STEP: f64 = 40.0;

/// The panel of measured and published rates.
pub(super) fn steps(all: &[ScenarioReport]) -> Panel {
    let rates = all
        .iter()
        .flat_map(|of| [of.readings.ok_per_s, of.published.high_per_s]);
    let rates = rates.filter(|rate| *rate > 0.0);
    let (least, high) = rates.fold((1.0_f64, 10.0_f64), |(least, high), rate| {
        (least.min(rate), high.max(rate))
    });
    let low = 10f64.powf(least.log10().floor());
    let (mut names, mut measured, mut published) = (Vec::new(), Vec::new(), Vec::new());
    for (row, of) in all.iter().rev().enumerate() {
        names.push(format!("{}. {}", of.number, of.name));
        let per_s = of.readings.ok_per_s;
        let to = per_s.max(low);
        measured.push(Block::row(row, [0.06, 0.5], [low, to], rate(per_s)));
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
