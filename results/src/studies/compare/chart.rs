//! The pairs of a comparison: how far the candidate is from the base in each of them, and the
//! interval that they make.

use super::{Arm, Contest, Disturbance, Evidence, Metric};
use crate::show::chart::{Axis, Dot, Format, Mark, Panel, Range, Role, Shape, least_and_most};

/// Part of the axis that is free beyond the outermost dots.
const AIR: f64 = 0.06;

/// Height of the estimate over the axis, where a pair has 1.
const ESTIMATE: f64 = 0.8;

/// A panel for each metric.
pub(super) fn panels(contest: &Contest) -> Vec<Panel> {
    let metrics = contest.comparison.metrics.iter();
    let panels = metrics.filter_map(|one| {
        let changes = changes(contest, &one.metric);
        let evidence = one.evidence.as_ref().filter(|_| !changes.is_empty())?;
        Some(panel(&one.metric, evidence, &changes))
    });
    panels.collect()
}

/// Change of each undisturbed pair, percent.
fn changes(contest: &Contest, metric: &Metric) -> Vec<f64> {
    let mut changes = Vec::new();
    for pair in contest.rounds.chunks(2) {
        let [base, candidate] = [Arm::Base, Arm::Candidate].map(|arm| {
            let mut rounds = pair.iter().map(|round| &round.round);
            let round = rounds.find(|of| of.arm == arm && of.disturbance == Disturbance::None)?;
            round.readings.of(&metric.name).value()
        });
        changes.extend(
            candidate
                .zip(base)
                .map(|(candidate, base)| percent(candidate / base)),
        );
    }
    changes.retain(|change| change.is_finite());
    changes
}

fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

/// The field of a metric, as wide as its values are.
fn panel(metric: &Metric, evidence: &Evidence, changes: &[f64]) -> Panel {
    let rows = changes.len() as f64 + 2.0;
    let estimate = percent(evidence.ratio);
    let interval = evidence
        .ratio_interval
        .map(|it| (percent(it.low), percent(it.high)));
    let loss = metric.toward_worse(metric.loss(metric.smallest_effect));
    let loss = loss.exp_m1() * 100.0;
    // A loss that counts has to be seen, too.
    let ends = interval.map_or([estimate; 2], |(low, high)| [low, high]);
    let values = changes.iter().copied().chain(ends).chain([0.0, 2.0 * loss]);
    let (least, most) = least_and_most(values);
    let air = (most - least) * AIR;
    let (low, high) = (least - air, most + air);
    let band = if loss > 0.0 {
        (loss, high)
    } else {
        (low, loss)
    };
    let pairs = changes.iter().enumerate();
    let pairs = pairs.map(|(n, change)| Dot::at(*change, rows - 1.0 - n as f64));
    let mut marks = vec![
        Mark::new(
            Role::Highlight,
            "a loss that counts",
            Shape::Band(band.0, band.1),
        ),
        Mark::new(Role::Reference, "", Shape::Upright(0.0)),
        Mark::new(Role::Good, "a pair", Shape::Dots(pairs.collect())),
        Mark::new(
            Role::Reference,
            "estimate",
            Shape::Dots(vec![Dot::at(estimate, ESTIMATE)]),
        ),
    ];
    marks.extend(interval.map(|(low, high)| {
        let line = vec![(low, ESTIMATE), (high, ESTIMATE)];
        Mark::new(Role::Reference, "interval, 95 %", Shape::Line(line))
    }));
    Panel {
        x: Axis::new(
            "candidate against base",
            Range::Between(low, high),
            Format::Change,
        ),
        y: Axis::new(
            format!("{}: {}", metric.title, evidence.change()),
            Range::Between(0.0, rows),
            Format::Number,
        )
        .hidden(),
        height: 84.0,
        marks,
    }
}
