//! Each commit that was measured with its interval, and below it the probability of each commit.

use super::{Bisect, ChangeReport};
use crate::show::chart::{
    Axis, Block, Dash, Dot, Face, Format, Mark, Note, Panel, Range, Role, Shape, least_and_most,
};
use crate::studies::compare::{Interval, change_in_two};

/// Part of the distance between the least and the greatest value that is free beyond both.
const AIR: f64 = 0.15;

/// Heights of the panels.
const CHANGES: f64 = 190.0;
const PROBABILITIES: f64 = 60.0;

/// Ticks of the commits.
const TICKS: usize = 8;

/// The panels of a search; none of one that has measured nothing.
pub(super) fn panels(of: &Bisect) -> Vec<Panel> {
    let last = of.commits.len() - 1;
    if of.blocks.is_empty() {
        return Vec::new();
    }
    let step = last.div_ceil(TICKS).max(1);
    let mut ticks: Vec<(f64, String)> = (0..=last)
        .step_by(step)
        .filter(|at| *at == 0 || at + step / 2 < last)
        .map(|at| (at as f64, at.to_string()))
        .collect();
    ticks.push((last as f64, last.to_string()));
    let range = Range::Between(-0.5, last as f64 + 0.5);
    let commits = Axis::new("commit", range, Format::Number).ticks(ticks);
    let changes = Panel {
        x: commits.clone(),
        y: Axis::new("change from the good end", span(of), Format::Change),
        height: CHANGES,
        marks: changes(of),
        cells: Vec::new(),
    };
    let likely = Panel {
        x: commits,
        y: Axis::new(
            "probability of the first that is worse",
            Range::Between(0.0, 1.0),
            Format::Percent,
        )
        .ticks(vec![(0.0, "0".to_owned()), (1.0, "100 %".to_owned())]),
        height: PROBABILITIES,
        marks: vec![Mark::new(Role::Failed, "", Shape::Blocks(bars(of)))],
        cells: Vec::new(),
    };
    Panel::below_each_other(vec![changes, likely])
}

/// A change in percent.
fn percent(ratio: f64) -> f64 {
    (ratio - 1.0) * 100.0
}

fn dot(at: usize, change: &ChangeReport) -> Dot {
    Dot {
        at: (at as f64, percent(change.ratio)),
        interval: change
            .interval
            .map(|Interval { low, high }| (percent(low), percent(high))),
    }
}

/// A dashed line at a value.
fn level(role: Role, [from, to]: [f64; 2], value: f64) -> Mark {
    let line = Shape::Line(vec![(from, value), (to, value)]);
    Mark::new(role, "", line).dashed(Dash::Dashed)
}

/// Commits before the step, and after it, with the levels of both ends.
fn changes(of: &Bisect) -> Vec<Mark> {
    let last = of.commits.len() - 1;
    let first = of.step.map(|(_, first)| first);
    let mut sides = [vec![Dot::at(0.0, 0.0)], Vec::new()];
    for (at, commit) in of.commits.iter().enumerate() {
        if let Some(change) = &commit.change {
            let is_worse = first.map_or(at == last, |first| at >= first);
            sides[usize::from(is_worse)].push(dot(at, change));
        }
    }
    let [good, bad] = sides;
    let mut marks = Vec::new();
    let end = percent(of.loss.ratio);
    if let Some((from, to)) = of.step {
        let (from, to) = (from as f64 - 1.0, to as f64);
        marks.push(Mark::new(Role::Highlight, "", Shape::Band(from, to)));
        marks.push(level(Role::Good, [0.0, from], 0.0));
        marks.push(level(Role::Failed, [to, last as f64], end));
        let [text, _] = change_in_two(of.loss.ratio, None);
        let commit = of.commits[of.step.map_or(last, |(_, last)| last)]
            .commit
            .short();
        marks.push(Mark::notes(vec![
            Note::new(commit, (to, f64::INFINITY), [-7.0, 12.0]).of(Role::Failed, Face::Value),
            Note::new(text, (f64::INFINITY, end), [8.0, 4.0]).of(Role::Failed, Face::Strong),
        ]));
    }
    marks.push(Mark::new(Role::Good, "", Shape::Dots(good)));
    marks.push(Mark::new(Role::Failed, "", Shape::Dots(bad)));
    let crosses: Vec<Dot> = of
        .commits
        .iter()
        .enumerate()
        .filter(|(_, commit)| commit.builds == Some(false))
        .map(|(at, _)| Dot::at(at as f64, 0.0))
        .collect();
    marks.push(Mark::new(Role::CutOff, "left out", Shape::Crosses(crosses)));
    marks.retain(Mark::is_known);
    marks
}

fn bars(of: &Bisect) -> Vec<Block> {
    let mut bars = Vec::new();
    for (place, commit) in of.commits.iter().enumerate() {
        let at = place as f64;
        bars.extend(commit.probability.filter(|p| *p >= 0.001).map(|p| Block {
            x: (at - 0.4, at + 0.4),
            y: (0.0, p),
        }));
    }
    bars
}

/// Axis around all intervals.
fn span(of: &Bisect) -> Range {
    let mut values = vec![0.0];
    for change in of.commits.iter().filter_map(|commit| commit.change) {
        let Dot { at, interval } = dot(0, &change);
        values.push(at.1);
        values.extend(interval.map(|ends| [ends.0, ends.1]).into_iter().flatten());
    }
    let (least, most) = least_and_most(values.into_iter());
    let air = ((most - least) * AIR).max(0.5);
    Range::Between(least - air, most + air)
}
