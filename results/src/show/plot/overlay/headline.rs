//! The few figures that runs are remembered by, as bars below each other.

use plotters::style::text_anchor::HPos;

use super::super::Plot;
use super::super::bars::{self, Bar, ROW};
use super::super::canvas::{Head, Lettering, sheet};
use super::super::palette::Ink;
use super::super::panel::ABOVE;
use super::super::scale::spoken;
use super::{Clocked, Drawn};
use crate::run::report::Report;
use crate::show::text::cpu_us_per_attempt;
use crawlmark_harness::units::micros;

/// Below each group of bars.
const BELOW: f64 = 14.0;

/// Figure that is compared, and its format.
struct Figure {
    unit: String,
    of: fn(&Report, Clocked) -> Option<f64>,
    said: fn(f64) -> String,
    /// True if it is only known to be no less.
    is_at_least: fn(&Report, Clocked) -> bool,
}

pub(super) fn plot(drawn: &[Drawn<'_>], clocked: Clocked) -> Plot {
    let figures = [
        Figure {
            unit: "items per second".to_owned(),
            of: |report, _| Some(report.totals.items_per_s),
            said: spoken,
            is_at_least: |_, _| false,
        },
        Figure {
            unit: "CPU of the client per attempt".to_owned(),
            of: |report, _| cpu_us_per_attempt(report),
            said: micros,
            is_at_least: |_, _| false,
        },
        Figure {
            unit: format!("p99 of the {} times", clocked.name()),
            of: |report, clocked| report.latency(clocked.series())?.p99_us,
            said: micros,
            is_at_least: |report, clocked| {
                report.latency(clocked.series()).is_some_and(|latency| latency.is_at_least("p99_us"))
            },
        },
    ];
    let groups: Vec<(&str, Vec<Bar>)> =
        figures.iter().map(|figure| (&*figure.unit, figure.bars(drawn, clocked))).collect();
    let caption = "Each figure of each run; every group of bars has a scale of its own, which begins at 0.";
    let head = Head { name: "figures", title: "Headline figures", caption: caption.to_owned(), keys: Vec::new() };
    let group = ABOVE + drawn.len() as f64 * ROW + BELOW;
    sheet(head, groups.len() as f64 * group, |canvas, top| {
        for (n, (unit, bars)) in groups.iter().enumerate() {
            let top = top + n as f64 * group;
            canvas.text(unit, (16.0, top + 12.0), Lettering::label(Ink::Quiet, HPos::Left));
            bars::draw(canvas, bars, top + ABOVE);
        }
    })
}

impl Figure {
    fn bars(&self, drawn: &[Drawn<'_>], clocked: Clocked) -> Vec<Bar> {
        let value = |one: &Drawn<'_>| (self.of)(one.run.report, clocked).filter(|value| value.is_finite());
        let top = drawn.iter().filter_map(value).fold(0.0, f64::max);
        let bar = |one: &Drawn<'_>| {
            let name = one.run.label.to_owned();
            match value(one) {
                Some(value) => {
                    let part = if top > 0.0 { value / top } else { 0.0 };
                    let sign = if (self.is_at_least)(one.run.report, clocked) { ">= " } else { "" };
                    Bar { name, part, value: format!("{sign}{}", (self.said)(value)), ink: one.ink }
                }
                // Nothing to see, and the reason in its place.
                None => Bar { name, part: 0.0, value: "not known".to_owned(), ink: Ink::Paper },
            }
        };
        drawn.iter().map(bar).collect()
    }
}
