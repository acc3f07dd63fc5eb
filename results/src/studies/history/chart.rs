//! The results of each series: a dot each, the median between changes, and where each change may have
//! begun.

use super::Series;
use super::changes::ChangePoint;
use crate::show::chart::{
    Axis, Dash, Dot, Face, Format, Mark, Note, Panel, Range, Role, Shape, least_and_most,
};
use crate::show::plot::date;
use crate::studies::compare::{MICROSECONDS, Metric, SHARE, change_in_two};

/// Part of the distance between the least and the greatest value that is free beyond both.
const AIR: f64 = 0.1;

/// Least distance that an axis shows, as a part of the greatest value: less would make noise look
/// like a change.
const LEAST_SPAN: f64 = 0.1;

/// Heights of a panel that is alone, and of one of several.
const ALONE: f64 = 210.0;
const OF_SEVERAL: f64 = 96.0;

/// Dates under a panel.
const DATES: usize = 4;

/// A panel for each series.
pub(super) fn panels(all: &[&Series]) -> Vec<Panel> {
    let height = if all.len() > 1 { OF_SEVERAL } else { ALONE };
    let mut panels: Vec<Panel> = all.iter().map(|one| panel(one, height)).collect();
    let is_common = panels.windows(2).all(|two| two[0].x == two[1].x);
    if is_common {
        panels = Panel::below_each_other(panels);
    }
    panels
}

fn panel(one: &Series, height: f64) -> Panel {
    let count = one.results.len() as f64;
    let dots: Vec<Dot> = (1_u32..)
        .zip(&one.results)
        .map(|(number, past)| Dot::at(f64::from(number), past.value))
        .collect();
    let label = match format(&one.metric) {
        Format::Number if !one.metric.unit.is_empty() => {
            format!("{}, {}", one.title, one.metric.unit)
        }
        _ => one.title.clone(),
    };
    let range = Range::Between(0.5, count + 0.5);
    Panel {
        x: Axis::new("", range, Format::Number).ticks(dates(one)),
        y: Axis::new(label, span(&one.metric, &dots), format(&one.metric)),
        height,
        marks: marks(one, &dots),
        cells: Vec::new(),
    }
}

/// Results at equal distances, with their dates.
fn dates(one: &Series) -> Vec<(f64, String)> {
    let last = one.results.len().saturating_sub(1);
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for n in 0..=DATES {
        let at = last * n / DATES;
        let label = date(&one.results[at].time);
        let is_new = ticks.last().is_none_or(|(_, before)| *before != label);
        if is_new {
            ticks.push((at as f64 + 1.0, label));
        }
    }
    ticks
}

fn marks(one: &Series, dots: &[Dot]) -> Vec<Mark> {
    let changes = &one.changes;
    let place = |at: usize| at as f64 + 0.5;
    let mut bands = Vec::new();
    let mut lines = Vec::new();
    let mut notes = Vec::new();
    let mut from = 0;
    for n in 0..=changes.len() {
        let before = n.checked_sub(1).map(|n| &changes[n]);
        let next = changes.get(n);
        let to = next.map_or(dots.len(), |next| next.at);
        let role = role(&one.metric, before);
        let dots = dots[from..to].to_vec();
        lines.push(Mark::new(role, "a result", Shape::Specks(dots)));
        let level = before.map(|it| it.shift.after);
        if let Some(level) = level.or_else(|| next.map(|it| it.shift.before)) {
            let ends = [place(from), place(to)].map(|x| (x, level)).to_vec();
            let line = Mark::new(role, "", Shape::Line(ends));
            lines.push(line.dashed(Dash::Solid).wide(3.0));
        }
        if let Some(change) = next {
            let [first, at, last] = [change.earliest, change.at, change.latest].map(place);
            bands.push(Mark::new(Role::Highlight, "", Shape::Band(first, last)));
            let line = Mark::new(Role::Failed, "", Shape::Upright(at));
            lines.push(line.dashed(Dash::Dashed));
            let top = (at, f64::INFINITY);
            let commit = Note::new(one.result(change.at), top, [-7.0, 12.0]);
            notes.push(commit.of(Role::Failed, Face::Value));
            let day = date(&one.results[change.at].time);
            notes.push(Note::new(day, top, [-7.0, 27.0]));
        }
        from = to;
    }
    notes.extend(at_the_end(one));
    bands.extend(lines);
    bands.push(Mark::notes(notes));
    bands
}

/// The last change: the medians after and before it, and the change.
fn at_the_end(one: &Series) -> Vec<Note> {
    let Some(change) = one.changes.last() else {
        return Vec::new();
    };
    let (shift, metric) = (change.shift, &one.metric);
    let role = role(metric, Some(change));
    let after = Note::new(
        metric.in_unit(shift.after),
        (f64::INFINITY, shift.after),
        [8.0, 2.0],
    );
    let by = shift.ratio.map(|ratio| {
        let [by, _] = change_in_two(ratio, None);
        Note::new(by, (f64::INFINITY, shift.after), [8.0, 17.0]).of(role, Face::Value)
    });
    let text = format!("{} before", metric.in_unit(shift.before));
    let before = Note::new(text, (f64::INFINITY, shift.before), [8.0, 4.0]);
    let mut notes = vec![after.of(role, Face::Strong)];
    notes.extend(by);
    notes.push(before.of(Role::Good, Face::Value));
    notes
}

/// Results after a loss are red.
fn role(metric: &Metric, before: Option<&ChangePoint>) -> Role {
    let lost = before.is_some_and(|it| metric.toward_worse(it.shift.after - it.shift.before) > 0.0);
    if lost { Role::Failed } else { Role::Good }
}

fn format(metric: &Metric) -> Format {
    match &*metric.unit {
        SHARE => Format::Percent,
        MICROSECONDS => Format::Micros,
        _ => Format::Number,
    }
}

/// Axis around all values. It does not begin at 0: a change by 2 % has to be seen.
fn span(metric: &Metric, dots: &[Dot]) -> Range {
    let (least, most) = least_and_most(dots.iter().map(|dot| dot.at.1));
    let greatest = least.abs().max(most.abs());
    let missing = (greatest * LEAST_SPAN - (most - least)).max(0.0) / 2.0 + (most - least) * AIR;
    let is_share = metric.unit == SHARE;
    let bound = if is_share { 1.0 } else { f64::INFINITY };
    let floor = if least < 0.0 { -f64::INFINITY } else { 0.0 };
    Range::Between((least - missing).max(floor), (most + missing).min(bound))
}
