//! Scenarios side by side: a panel of bars for each figure, a bar for each scenario. Beside published
//! rates, which differ by factors, rates are on an axis that goes up by tens, and the first lies at
//! the bottom, so that the bars are steps.

use super::{ScenarioFigure, ScenarioReport, Scenarios};
use crate::show::chart::{Axis, Bar, Block, Chart, Format, Mark, Panel, Range, Role, Shape};
use crate::show::text::decimal;

/// Height of a row with two bars, CSS pixels.
const STEP: f64 = 40.0;

/// The chart of scenarios.
pub(super) fn chart(of: &Scenarios) -> Chart {
    let list = of.list.list();
    let panels = if of.scenarios.iter().any(|of| of.published.is_some()) {
        vec![steps(&of.scenarios)]
    } else {
        let figures = list.figures.iter();
        figures
            .filter_map(|figure| bars(figure, &of.scenarios))
            .collect()
    };
    Chart {
        name: "scenarios",
        title: list.title,
        caption: String::new(),
        panels,
    }
}

/// The panel of a figure; none where it is not known or 0 throughout.
fn bars(figure: &ScenarioFigure, all: &[ScenarioReport]) -> Option<Panel> {
    let (label, role) = figure.panel?;
    let bars = all.iter().map(|of| Bar {
        name: of.name.clone(),
        role,
        value: (figure.value)(of).unwrap_or(0.0),
        text: figure.shown(of),
    });
    let bars: Vec<Bar> = bars.collect();
    let is_known = bars.iter().any(|bar| bar.value > 0.0);
    is_known.then(|| Panel::bars(label, bars))
}

/// The panel of measured and published rates.
fn steps(all: &[ScenarioReport]) -> Panel {
    let published = all.iter().filter_map(|of| of.published);
    let rates = all
        .iter()
        .map(|of| of.readings.ok_per_s)
        .chain(published.map(|rate| rate.high_per_s))
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
        if let Some(rate) = of.published {
            let (to, text) = (rate.high_per_s.max(low), rate.to_string());
            published.push(Block::row(row, [0.56, 0.86], [low, to], text));
        }
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
