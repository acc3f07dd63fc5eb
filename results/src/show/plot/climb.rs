//! The climb: what each rung measured beside what was published for it, on an axis that goes up by
//! tens.
//!
//! The first rung lies at the bottom, so that the bars are steps.

use super::Plot;
use crate::show::chart::{Axis, Block, Chart, Format, Mark, Panel, Range, Role, Shape};
use crate::show::text::decimal;
use crate::studies::ladder::{Ladder, RungReport};
use crate::studies::ladder::{ladder_headline, published};

/// A rung with two bars.
const RUNG: f64 = 40.0;

/// Parts of a rung's height that its bars take.
const MEASURED: (f64, f64) = (0.06, 0.5);
const PUBLISHED: (f64, f64) = (0.56, 0.86);

/// The picture of a climb.
#[must_use]
pub fn climb(ladder: &Ladder) -> Plot {
    let rungs: Vec<&RungReport> = ladder.rungs.iter().rev().collect();
    let rates = rungs
        .iter()
        .flat_map(|rung| [rung.reading.ok_per_s, rung.published.high_per_s]);
    let (low, high) = rates
        .filter(|rate| *rate > 0.0)
        .fold((1.0_f64, 10.0_f64), |(low, high), rate| {
            (low.min(rate), high.max(rate))
        });
    let low = 10f64.powf(low.log10().floor());
    let bars = |parts: (f64, f64), of: fn(&RungReport) -> (f64, String)| {
        let bar = |(n, rung): (usize, &&RungReport)| {
            let (rate, text) = of(rung);
            Block {
                x: (low, rate.max(low)),
                ..Block::bar(n, parts, rate, text)
            }
        };
        Shape::Blocks(rungs.iter().enumerate().map(bar).collect())
    };
    let measured = |rung: &RungReport| {
        let rate = rung.reading.ok_per_s;
        (
            rate,
            format!("{}/s, limited by {}", decimal(rate), rung.limit.by.name()),
        )
    };
    let marks = vec![
        Mark::new(Role::Good, "measured", bars(MEASURED, measured)),
        Mark::new(
            Role::Limit,
            "published",
            bars(PUBLISHED, |rung| {
                (rung.published.high_per_s, published(rung.published))
            }),
        ),
    ];
    let panel = Panel {
        x: Axis::new(
            "good items per second (log scale)",
            Range::LogBetween(low, high),
            Format::PerSecond,
        ),
        y: Axis::rows(
            "",
            rungs
                .iter()
                .map(|rung| format!("{}. {}", rung.rung, rung.name))
                .collect(),
        ),
        height: rungs.len() as f64 * RUNG,
        marks,
    };
    Plot::of(&Chart {
        name: "climb",
        title: "The ladder: from one at a time to all the CPU can do",
        caption: ladder_headline(ladder),
        panels: if rungs.is_empty() {
            Vec::new()
        } else {
            vec![panel]
        },
    })
}
