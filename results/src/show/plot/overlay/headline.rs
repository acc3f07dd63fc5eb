//! The few figures that runs are remembered by, as bars below each other.

use super::{Clocked, Drawn};
use crate::run::report::Report;
use crate::run::words::cpu_us_per_attempt;
use crate::show::chart::scale::spoken;
use crate::show::chart::{Axis, BAR, Block, Chart, Mark, Panel, ROW, Range, Role, Shape};
use crawlmark_harness::units::micros;

/// Figure that is compared, and its format.
struct ComparedFigure {
    unit: String,
    of: fn(&Report, Clocked) -> Option<f64>,
    said: fn(f64) -> String,
    /// True if it is only known to be no less.
    is_at_least: fn(&Report, Clocked) -> bool,
}

pub(super) fn chart(drawn: &[Drawn<'_>], clocked: Clocked) -> Chart {
    let figures = [
        ComparedFigure {
            unit: "items per second".to_owned(),
            of: |report, _| Some(report.totals.items_per_s),
            said: spoken,
            is_at_least: |_, _| false,
        },
        ComparedFigure {
            unit: "client CPU per request".to_owned(),
            of: |report, _| cpu_us_per_attempt(report),
            said: micros,
            is_at_least: |_, _| false,
        },
        ComparedFigure {
            unit: format!("p99 of the {} times", clocked.name()),
            of: |report, clocked| report.latency(clocked.series())?.p99_us,
            said: micros,
            is_at_least: |report, clocked| {
                report
                    .latency(clocked.series())
                    .is_some_and(|latency| latency.is_at_least("p99_us"))
            },
        },
    ];
    Chart {
        name: "figures",
        title: "Headline figures",
        caption: "Each group has its own scale, starting at 0.".to_owned(),
        panels: figures
            .iter()
            .map(|figure| figure.panel(drawn, clocked))
            .collect(),
    }
}

impl ComparedFigure {
    fn panel(&self, drawn: &[Drawn<'_>], clocked: Clocked) -> Panel {
        let mark = |(n, one): (usize, &Drawn<'_>)| {
            let report = one.run.report;
            let block = match (self.of)(report, clocked).filter(|value| value.is_finite()) {
                Some(value) => {
                    let sign = if (self.is_at_least)(report, clocked) {
                        ">= "
                    } else {
                        ""
                    };
                    Block::bar(n, BAR, value, format!("{sign}{}", (self.said)(value)))
                }
                None => Block::bar(n, BAR, 0.0, "not known"),
            };
            Mark::new(Role::Run(one.number), "", Shape::Blocks(vec![block]))
        };
        Panel {
            x: Axis::hidden(Range::FromZero),
            y: Axis::rows(
                &*self.unit,
                drawn.iter().map(|one| one.run.label.to_owned()).collect(),
            ),
            height: drawn.len() as f64 * ROW,
            marks: drawn.iter().enumerate().map(mark).collect(),
        }
    }
}
