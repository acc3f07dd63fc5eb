//! A forest plot of a comparison: all metrics on one axis in percent, each with its pairs, its
//! estimate and interval, and the losses that count.

use crawlmark_harness::stats::median;
use crawlmark_harness::units::micros;

use super::contest::Contest;
use super::design::Arm;
use super::judgement::{Evidence, MetricResult, MetricVerdict, Overall};
use super::profile::{FunctionResult, ProfileResult};
use super::statistics::{change_in_two, time_change};
use crate::metrics::{FAR, Metric, log_change};
use crate::show::chart::{
    Axis, Block, Dash, Dot, Face, Format, Mark, Note, Panel, Range, Role, RowName, Shape,
    least_and_most,
};
use crate::studies::or_dash;

/// Height of a row, CSS pixels.
const ROW: f64 = 70.0;

/// Parts of the height of a row: its ground, its pairs, and its estimate.
const GROUND: [f64; 2] = [0.13, 0.87];
const PAIRS: [f64; 2] = [0.22, 0.52];
const ESTIMATE: f64 = 0.7;

/// From the end of the axis to the change, and from there to the verdict.
const CHANGE: f64 = 18.0;
const VERDICT: f64 = 82.0;

/// Part of the axis that is free beyond what it has to show.
const AIR: f64 = 0.08;

/// The axis reaches no further than so many times the greatest change, but at least so far, in
/// percent: an interval without information would make the others a point.
const FARTHEST: f64 = 4.0;
const NEAREST: f64 = 20.0;

/// Heights of pairs in a row step by this part of it, so that neighbours lie apart.
const STEP: f64 = 0.618_034;

/// A metric with what is drawn of it, in percent.
struct Row<'a> {
    one: &'a MetricResult,
    evidence: &'a Evidence,
    pairs: Vec<f64>,
    estimate: f64,
    interval: [f64; 2],
    /// The smallest loss that counts, below 0 of a yield.
    loss: f64,
}

/// The panel of a comparison; none without a metric that was read in both sides of a pair.
pub(super) fn panels(contest: &Contest) -> Vec<Panel> {
    let mut rows: Vec<Row<'_>> = contest
        .comparison
        .metrics
        .iter()
        .filter_map(|one| Row::of(contest, one))
        .collect();
    // What decides before what is only shown.
    rows.sort_by_key(|row| row.one.verdict.weight().is_none());
    if rows.is_empty() {
        return Vec::new();
    }
    let [low, high] = ends(&rows);
    let mut marks = Vec::new();
    for (n, row) in rows.iter().enumerate() {
        marks.extend(row.ground(n, [low, high]));
    }
    marks.push(Mark::new(Role::Reference, "", Shape::Upright(0.0)));
    let mut notes = vec![Note::new("no change", (0.0, 0.0), [0.0, -6.0])];
    for (n, row) in rows.iter().enumerate() {
        marks.extend(row.marks(n, [low, high]));
        notes.extend(row.notes(n, [low, high]));
    }
    marks.push(Mark::notes(notes));
    let names = rows.iter().map(|row| row.name(contest));
    let metrics = Panel {
        x: Axis::new("", Range::Between(low, high), Format::Change),
        y: Axis::new("", Range::Rows(names.collect()), Format::Number),
        height: ROW * rows.len() as f64,
        marks,
        cells: Vec::new(),
    };
    let functions = contest.profile.as_ref().map(functions);
    [metrics].into_iter().chain(functions).collect()
}

/// Height of the row of a function, and the parts of it that its bar takes.
const FUNCTION_ROW: f64 = 36.0;
const BAR: [f64; 2] = [0.2, 0.8];

/// Functions that are drawn at most.
const MOST_FUNCTIONS: usize = 8;

/// Bars of the change of CPU time by function, those that differ in the colour of a loss.
fn functions(profile: &ProfileResult) -> Panel {
    let drawn: Vec<&FunctionResult> = profile.functions.iter().take(MOST_FUNCTIONS).collect();
    let ends = drawn.iter().flat_map(|it| {
        let interval = it.interval_us.map(|it| [it.low, it.high]);
        [0.0, it.change_us]
            .into_iter()
            .chain(interval.into_iter().flatten())
    });
    let (least, most) = least_and_most(ends);
    let air = ((most - least) * AIR).max(0.1);
    let (mut marks, mut notes) = (Vec::new(), Vec::new());
    for (n, it) in drawn.iter().enumerate() {
        let role = match it.differs {
            true if it.change_us > 0.0 => Role::Failed,
            true => Role::Good,
            false => Role::Asked,
        };
        let bar = [0.0_f64.min(it.change_us), 0.0_f64.max(it.change_us)];
        let y = n as f64 + 0.5;
        marks.push(Mark::new(
            role,
            "",
            Shape::Blocks(vec![Block::row(n, BAR, bar)]),
        ));
        if let Some(interval) = it.interval_us {
            let ends = vec![(interval.low, y), (interval.high, y)];
            marks.push(Mark::new(Role::Reference, "", Shape::Line(ends)).wide(2.0));
        }
        let text = time_change(it.change_us, None);
        let end = (f64::INFINITY, y);
        notes.push(if it.differs {
            Note::new(text, end, [CHANGE, 4.0]).of(role, Face::Strong)
        } else {
            Note::new(text, end, [CHANGE, 4.0])
        });
    }
    marks.push(Mark::new(Role::Reference, "", Shape::Upright(0.0)));
    marks.push(Mark::notes(notes));
    let names = drawn.iter().map(|it| RowName {
        number: String::new(),
        name: shortened(&it.function),
        detail: format!("{} → {}", micros(it.base_us), micros(it.candidate_us)),
    });
    Panel {
        x: Axis::new(
            "µs",
            Range::Between(least - air, most + air),
            Format::Number,
        ),
        y: Axis::new("", Range::Rows(names.collect()), Format::Number),
        height: FUNCTION_ROW * drawn.len() as f64,
        marks,
        cells: Vec::new(),
    }
}

/// Characters of a function's name that are drawn: its end says most.
const NAME: usize = 24;

fn shortened(function: &str) -> String {
    let count = function.chars().count();
    if count <= NAME {
        return function.to_owned();
    }
    let end: String = function.chars().skip(count - NAME + 1).collect();
    format!("…{end}")
}

/// Ends of the axis: around all estimates, intervals and losses that count, as far as it reaches.
fn ends(rows: &[Row<'_>]) -> [f64; 2] {
    let farthest = rows
        .iter()
        .map(|row| row.estimate.abs())
        .fold(0.0, f64::max);
    let far = (farthest * FARTHEST).max(NEAREST);
    let values = rows.iter().flat_map(|row| {
        let [low, high] = row.interval;
        [0.0, row.estimate, low, high, 2.0 * row.loss]
    });
    let (least, most) = least_and_most(values.map(|value| value.clamp(-far, far)));
    let air = (most - least) * AIR;
    [least - air, most + air]
}

impl<'a> Row<'a> {
    /// None where the change of a metric is no ratio.
    fn of(contest: &Contest, one: &'a MetricResult) -> Option<Self> {
        let pairs = changes(contest, &one.metric);
        let evidence = one.evidence.as_ref().filter(|it| it.has_ratio())?;
        let in_percent = |ratio: f64| (ratio - 1.0) * 100.0;
        let estimate = in_percent(evidence.ratio);
        let interval = evidence.shown_interval().map(|it| it.map(in_percent));
        let metric = &one.metric;
        let loss = metric.toward_worse(metric.loss(metric.smallest_effect));
        (!pairs.is_empty()).then_some(Self {
            one,
            evidence,
            pairs,
            estimate,
            interval: interval.map_or([estimate; 2], |it| [it.low, it.high]),
            loss: loss.exp_m1() * 100.0,
        })
    }

    fn role(&self) -> Role {
        match self.one.verdict {
            MetricVerdict::Regression => Role::Failed,
            _ => Role::Reference,
        }
    }

    /// Name and medians.
    fn name(&self, contest: &Contest) -> RowName {
        let metric = &self.one.metric;
        let medians = [Arm::Base, Arm::Candidate].map(|arm| {
            let value = median(&mut contest.values(arm, metric));
            or_dash(value, |value| metric.in_unit(value))
        });
        RowName {
            number: String::new(),
            name: metric.title.to_string(),
            detail: medians.join(" → "),
        }
    }

    /// The losses that count.
    fn ground(&self, row: usize, [low, high]: [f64; 2]) -> [Mark; 2] {
        let side = if self.loss > 0.0 {
            [self.loss, high]
        } else {
            [low, self.loss]
        };
        let edge = GROUND.map(|part| (self.loss, row as f64 + part)).to_vec();
        [
            Mark::new(
                Role::Highlight,
                "",
                Shape::Blocks(vec![Block::row(row, GROUND, side)]),
            ),
            Mark::new(Role::Failed, "", Shape::Line(edge))
                .dashed(Dash::Short)
                .wide(1.0),
        ]
    }

    fn marks(&self, row: usize, [low, high]: [f64; 2]) -> Vec<Mark> {
        let role = self.role();
        let y = row as f64 + ESTIMATE;
        let [top, bottom] = PAIRS;
        let pairs = self
            .pairs
            .iter()
            .enumerate()
            .filter(|(_, change)| (low..=high).contains(*change))
            .map(|(n, change)| {
                let part = top + (bottom - top) * (n as f64 * STEP).fract();
                Dot::at(*change, row as f64 + part)
            });
        let interval = self.interval.map(|end| (end, y)).to_vec();
        let estimate = Dot {
            at: (self.estimate, y),
            interval: Some((y, y)),
        };
        vec![
            Mark::new(Role::Asked, "a pair", Shape::Specks(pairs.collect())),
            Mark::new(role, "", Shape::Line(interval)).wide(4.0),
            Mark::new(role, "", Shape::Dots(vec![estimate])),
        ]
    }

    /// Change, verdict and interval; and a sign where pairs lie beyond the axis.
    fn notes(&self, row: usize, [low, high]: [f64; 2]) -> Vec<Note> {
        let role = self.role();
        let end = (f64::INFINITY, row as f64 + 0.5);
        let [change, interval] = change_in_two(self.evidence.ratio, self.evidence.shown_interval());
        let verdict = self.one.verdict.weight();
        let mut notes = vec![
            Note::new(change, end, [CHANGE, -2.0]).of(role, Face::Strong),
            Note::new(
                verdict.map_or(self.one.verdict.name(), Overall::name),
                end,
                [VERDICT, -2.0],
            ),
            Note::new(interval, end, [CHANGE, 15.0]),
        ];
        if role == Role::Failed {
            notes[1].role = role;
            notes[1].face = Face::Value;
        }
        let beyond = |is: &dyn Fn(f64) -> bool| {
            self.pairs
                .iter()
                .chain(&self.interval)
                .filter(|change| is(**change))
                .count()
        };
        let y = row as f64 + 0.37;
        if beyond(&|change| change < low) > 0 {
            notes.push(Note::new("‹", (f64::NEG_INFINITY, y), [2.0, 4.0]));
        }
        if beyond(&|change| change > high) > 0 {
            notes.push(Note::new("›", (f64::INFINITY, y), [-2.0, 4.0]));
        }
        notes
    }
}

/// Change of each undisturbed pair, percent.
fn changes(contest: &Contest, metric: &Metric) -> Vec<f64> {
    contest
        .rounds
        .chunks(2)
        .filter(|pair| pair[0].counts())
        .filter_map(|pair| {
            let [base, candidate] = [Arm::Base, Arm::Candidate].map(|arm| {
                let round = &pair.iter().find(|of| of.round.arm == arm)?.round;
                round.readings.of(&metric.name).value()
            });
            Some(log_change([base?, candidate?])).filter(|change| change.abs() < FAR)
        })
        .map(|change| change.exp_m1() * 100.0)
        .collect()
}
