//! The climb: what each rung measured beside what was published for it, on an axis that goes up by
//! tens. The first rung lies at the bottom, so that the bars are steps.

use super::Plot;
use crate::show::chart::{Axis, Block, Chart, Format, Mark, Panel, Range, Role, Shape};
use crate::show::text::decimal;
use crate::studies::ladder::{Ladder, ladder_headline, published};

/// Height of a rung with two bars, CSS pixels.
const RUNG: f64 = 40.0;

/// The picture of a climb.
#[must_use]
pub fn climb(ladder: &Ladder) -> Plot {
    let (mut names, mut rates) = (Vec::new(), Vec::new());
    for rung in ladder.rungs.iter().rev() {
        names.push(format!("{}. {}", rung.rung, rung.name));
        rates.extend([rung.reading.ok_per_s, rung.published.high_per_s]);
    }
    let least = rates.iter().filter(|rate| **rate > 0.0);
    let least = least.copied().fold(1.0, f64::min);
    let low = 10f64.powf(least.log10().floor());
    let high = rates.iter().copied().fold(10.0, f64::max);
    let end = |rate: f64| (low, rate.max(low));
    let (mut measured, mut public) = (Vec::new(), Vec::new());
    for (n, rung) in ladder.rungs.iter().rev().enumerate() {
        let rate = rung.reading.ok_per_s;
        let text = format!("{}/s, limited by {}", decimal(rate), rung.limit.by.name());
        measured.push(Block::row(n, (0.06, 0.5), end(rate), text));
        let text = published(rung.published);
        let end = end(rung.published.high_per_s);
        public.push(Block::row(n, (0.56, 0.86), end, text));
    }
    let panel = Panel {
        x: Axis::new(
            "good items per second (log scale)",
            Range::LogBetween(low, high),
            Format::Number,
        ),
        height: names.len() as f64 * RUNG,
        y: Axis::new("", Range::Rows(names, None), Format::Number),
        marks: vec![
            Mark::new(Role::Good, "measured", Shape::Blocks(measured)),
            Mark::new(Role::Limit, "published", Shape::Blocks(public)),
        ],
    };
    Plot::of(&Chart {
        name: "climb",
        title: "The ladder: from one at a time to all the CPU can do",
        caption: ladder_headline(ladder),
        panels: Vec::from_iter((!ladder.rungs.is_empty()).then_some(panel)),
    })
}
