//! The pairs of a comparison: how far the candidate is from the base in each of them, and the
//! interval that they make.

use super::Plot;
use crate::show::chart::{Axis, Chart, Dot, Format, Mark, Panel, Range, Role, Shape, Ticks};
use crate::studies::compare::{
    Arm, Contest, Disturbance, Evidence, Finding, Metric, change, contest_headline, metric_words,
};

/// Reach of the axes to either side, percent, times a power of ten: their ticks are round, and one
/// of them is 0.
const REACHES: [f64; 3] = [1.0, 2.0, 4.0];

/// Part of the axis that is free beyond the outermost dot, for half of it.
const AIR: f64 = 0.02;

/// The plot of a contest.
#[must_use]
pub fn pairs(contest: &Contest) -> Plot {
    let lanes: Vec<Lane> = contest
        .comparison
        .findings
        .iter()
        .filter_map(|finding| Lane::of(contest, finding))
        .collect();
    let reach = reach(&lanes);
    let has_pairs = lanes.iter().any(|lane| !lane.changes.is_empty());
    let lanes = if has_pairs { lanes } else { Vec::new() };
    let mut panels: Vec<Panel> = lanes.iter().map(|lane| lane.panel(reach)).collect();
    if let Some(last) = panels.last_mut() {
        last.x = Axis::new(
            "candidate against base",
            Range::Between(-reach, reach),
            Format::Change,
        );
    }
    Plot::of(&Chart {
        name: "pairs",
        title: "Pairs",
        caption: contest_headline(contest),
        panels,
    })
}

/// A metric's field.
struct Lane {
    metric: Metric,
    /// Change of each undisturbed pair, percent.
    changes: Vec<f64>,
    evidence: Evidence,
}

impl Lane {
    fn of(contest: &Contest, finding: &Finding) -> Option<Self> {
        let changes = contest.rounds.chunks(2).filter(|pair| {
            pair.iter()
                .all(|round| round.disturbance == Disturbance::None)
        });
        let changes = changes.filter_map(|pair| {
            let read = |arm| {
                pair.iter()
                    .find(|round| round.arm == arm)?
                    .readings
                    .of(finding.metric)
                    .value()
            };
            let change = (read(Arm::Candidate)? / read(Arm::Base)? - 1.0) * 100.0;
            Some(change).filter(|percent| percent.is_finite())
        });
        Some(Self {
            metric: finding.metric,
            changes: changes.collect(),
            evidence: finding.evidence?,
        })
    }

    fn panel(&self, reach: f64) -> Panel {
        let (metric, rows) = (self.metric, self.changes.len() as f64 + 2.0);
        // Where it would be a regression, to the end of the axis.
        let loss = metric
            .toward_worse(metric.loss(metric.smallest_effect()))
            .exp_m1()
            * 100.0;
        let (from, to) = if loss > 0.0 {
            (loss.min(reach), reach)
        } else {
            (-reach, loss.max(-reach))
        };
        let percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let dot = |at| Dot {
            at,
            interval: None,
            hollow: false,
        };
        let pair = |(number, change): (usize, &f64)| dot((*change, rows - 1.0 - number as f64));
        let interval = self.evidence.ratio_interval.map(|interval| {
            let ends = vec![(percent(interval.low), 0.8), (percent(interval.high), 0.8)];
            Mark::new(
                Role::Reference,
                "estimate and interval, 95 %",
                Shape::Line(ends),
            )
        });
        // With an interval, its line has the name of both.
        let estimate = if interval.is_some() { "" } else { "estimate" };
        let marks = [
            Mark::new(Role::Highlight, "a loss that counts", Shape::Band(from, to)),
            Mark::new(Role::Reference, "", Shape::Upright(0.0)),
            Mark::new(
                Role::Good,
                "a pair",
                Shape::Dots(self.changes.iter().enumerate().map(pair).collect()),
            ),
            Mark::new(
                Role::Reference,
                estimate,
                Shape::Dots(vec![dot((percent(self.evidence.ratio), 0.8))]),
            ),
        ];
        Panel {
            x: Axis::hidden(Range::Between(-reach, reach)),
            y: Axis::new(
                format!("{}: {}", metric_words(metric), change(&self.evidence)),
                Range::Between(0.0, rows),
                Format::Number,
            )
            .ticks(Ticks::None),
            height: 84.0,
            marks: marks.into_iter().chain(interval).collect(),
        }
    }
}

/// As far as all pairs, estimates and intervals are.
fn reach(lanes: &[Lane]) -> f64 {
    let ends = lanes.iter().flat_map(|lane| {
        let interval = lane
            .evidence
            .ratio_interval
            .map(|interval| [interval.low, interval.high]);
        let ratios = interval.into_iter().flatten().chain([lane.evidence.ratio]);
        lane.changes
            .iter()
            .copied()
            .chain(ratios.map(|ratio| (ratio - 1.0) * 100.0))
    });
    // A loss that counts has to be seen, too.
    let wanted = ends
        .filter(|end| end.is_finite())
        .fold(4.0, |most: f64, end| most.max(end.abs() * (1.0 + AIR)));
    let decade = 10_f64.powf(wanted.log10().floor());
    REACHES
        .into_iter()
        .map(|reach| reach * decade)
        .find(|reach| *reach >= wanted)
        .unwrap_or(10.0 * decade)
}
