//! The pairs of a comparison: how far the candidate is from the base in each of them, and the interval that they make.

use super::Plot;
use super::canvas::{Head, Key, Lettering, Mark, sheet};
use super::palette::Ink;
use super::panel::{ABOVE, Axis, BELOW, LEFT, Panel, RIGHT};
use super::scale::{Scale, trimmed};
use crate::studies::compare::{
    Contest, Disturbance, Evidence, Finding, Metric, change, contest_headline, metric_words,
};

/// The height of a metric's field.
const FIELD: f64 = 84.0;

/// Between two fields, for the next one's name.
const GAP: f64 = 30.0;

/// Reach of the axes to either side, percent, times a power of ten: their ticks are round, and one of them is 0.
const REACHES: [f64; 3] = [1.0, 2.0, 4.0];

/// Part of the axis that is free beyond the outermost dot, for half of it.
const AIR: f64 = 0.02;

/// The plot of a contest.
#[must_use]
pub fn pairs(contest: &Contest) -> Plot {
    let lanes: Vec<Lane> =
        contest.comparison.findings.iter().filter_map(|finding| Lane::of(contest, finding)).collect();
    let reach = reach(&lanes);
    let keys = vec![
        Key::new("a pair", Mark::Dot(Ink::Blue)),
        Key::new("estimate and interval, 95 %", Mark::Line(Ink::Text, 3.0)),
        Key::new("a loss that counts", Mark::Area(Ink::Heat(0))),
    ];
    let head = Head { name: "pairs", title: "Pairs", caption: contest_headline(contest), keys };
    let height = ABOVE + lanes.len().max(1) as f64 * (FIELD + GAP) - GAP + BELOW;
    sheet(head, height, |canvas, top| {
        let mut top = top + ABOVE;
        let x = Scale::Linear(-reach, reach);
        for (number, lane) in lanes.iter().enumerate() {
            let y = Scale::Linear(0.0, lane.changes.len() as f64 + 2.0);
            let panel = Panel::between(canvas, [top, top + FIELD], [x, y]);
            lane.draw(&panel, reach);
            if number + 1 == lanes.len() {
                let label =
                    |percent: f64| if percent > 0.0 { format!("+{}", trimmed(percent)) } else { trimmed(percent) };
                panel.horizontal(&Axis { unit: "candidate against base, percent", label: &label });
            }
            top += FIELD + GAP;
        }
        if lanes.is_empty() {
            let middle = (f64::midpoint(LEFT, RIGHT), top + FIELD / 2.0);
            canvas.text(
                "no pair was read",
                middle,
                Lettering::label(Ink::Text, plotters::style::text_anchor::HPos::Center),
            );
        }
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
        let changes =
            contest.rounds.chunks(2).filter(|pair| pair.iter().all(|round| round.disturbance == Disturbance::None));
        let changes = changes.filter_map(|pair| {
            let [base, candidate] =
                [crate::studies::compare::Arm::Base, crate::studies::compare::Arm::Candidate].map(|arm| {
                    pair.iter()
                        .find(|round| round.arm == arm)
                        .and_then(|round| round.readings.of(finding.metric).value())
                });
            Some((candidate? / base? - 1.0) * 100.0).filter(|percent| percent.is_finite())
        });
        Some(Self { metric: finding.metric, changes: changes.collect(), evidence: finding.evidence? })
    }

    fn draw(&self, panel: &Panel<'_, '_>, reach: f64) {
        let (metric, rows) = (self.metric, self.changes.len() as f64 + 2.0);
        // Where it would be a regression, to the end of the axis.
        let loss = metric.toward_worse(metric.loss(metric.smallest_effect())).exp_m1() * 100.0;
        let (from, to) = if loss > 0.0 { (loss.min(reach), reach) } else { (-reach, loss.max(-reach)) };
        panel.cell([from, to], [0.0, rows], Ink::Heat(0));
        panel.line_at(0.0, Ink::Quiet);
        for (number, percent) in self.changes.iter().enumerate() {
            let y = rows - 1.0 - number as f64;
            panel.dot(*percent, y);
        }
        let y = 0.8;
        if let Some(interval) = self.evidence.ratio_interval {
            let ends = [interval.low, interval.high].map(|ratio| (ratio - 1.0) * 100.0);
            panel.curve(&[(ends[0], y), (ends[1], y)], Ink::Text, 3.0);
        }
        panel.mark((self.evidence.ratio - 1.0) * 100.0, y, Ink::Text);
        panel.base();
        panel.unit(&format!("{}: {}", metric_words(metric), change(&self.evidence)));
    }
}

/// As far as all pairs, estimates and intervals are.
fn reach(lanes: &[Lane]) -> f64 {
    let ends = lanes.iter().flat_map(|lane| {
        let interval = lane.evidence.ratio_interval.map(|interval| [interval.low, interval.high]);
        let ratios = interval.into_iter().flatten().chain([lane.evidence.ratio]);
        lane.changes.iter().copied().chain(ratios.map(|ratio| (ratio - 1.0) * 100.0))
    });
    // A loss that counts has to be seen, too.
    let wanted = ends.filter(|end| end.is_finite()).fold(4.0, |most: f64, end| most.max(end.abs() * (1.0 + AIR)));
    let decade = 10_f64.powf(wanted.log10().floor());
    REACHES.into_iter().map(|reach| reach * decade).find(|reach| *reach >= wanted).unwrap_or(10.0 * decade)
}
