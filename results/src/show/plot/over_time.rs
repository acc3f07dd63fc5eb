//! Charts over time: the panels of a page as pictures.

use super::answers::{self, Answer};
use super::cells;
use super::time::TimeAxis;
use crate::judge::Severity;
use crate::show::chart::{
    Axis, Chart, Dash, Face, Format, Mark, Note, Panel, Range, Role, Shape, Step, short,
};
use crate::show::page::events::Events;
use crate::show::page::panels::{self, Drawn, Row, Run, Series};
use crate::show::text::seconds;
use crawlmark_harness::units::place;

/// The part of the columns that an axis shows whole, and how much higher than these a peak has to be
/// to be clipped.
const WHOLE: f64 = 0.98;
const PEAK: f64 = 2.5;

/// Height of a panel, of that on a page.
const HEIGHT: f64 = 1.4;

/// A picture of panels; none unless the first of them has something to say.
pub(super) fn chart(
    words: [&'static str; 2],
    answer: Answer,
    rows: &[Row],
    run: &Run<'_>,
) -> Option<Chart> {
    let (first, others) = rows.split_first()?;
    let first = first(run)?;
    let step_s = first.series.first().map_or(1.0, |one| one.steps.step_s);
    let others = others.iter().filter_map(|row| row(run));
    let axis = TimeAxis::of(run.columns);
    let events = Events::of(run.report, run.columns);
    let panels = std::iter::once(first)
        .chain(others)
        .map(|described| panel(&described, axis, &events))
        .collect();
    let stacked = Panel::below_each_other(panels);
    let mut chart = answers::chart(words, answer, run.report, stacked);
    if step_s > 1.0 {
        chart
            .subtitle
            .extend([format!(" · steps of {}", seconds(step_s))]);
    }
    Some(chart)
}

fn panel(described: &panels::Panel, axis: TimeAxis, events: &Events) -> Panel {
    let heat = described
        .heat
        .as_ref()
        .and_then(|heat| cells::heat(heat, axis));
    let mut tops: Vec<f64> = Vec::new();
    let (mut behind, mut lines) = (Vec::new(), Vec::new());
    for series in &described.series {
        let mut steps = axis.steps(&series.steps);
        if series.drawn == Drawn::Area {
            stack(&mut steps, &mut tops);
            behind.push(Mark::new(series.role, &series.name, Shape::Areas(steps)));
        } else {
            lines.extend(line(series, steps));
        }
    }
    let range = match (&heat, described.top) {
        (Some((_, range)), _) => range.clone(),
        (None, Some(top)) => Range::Between(0.0, top),
        (None, None) if described.format == panels::Format::Micros && behind.is_empty() => {
            Range::Log
        }
        (None, None) => Range::FromZero,
    };
    let has_heat = heat.is_some();
    behind.extend(heat.into_iter().flat_map(|(marks, _)| marks));
    behind.retain(Mark::is_above_zero);
    lines.retain(|mark| mark.role == Role::Casing || mark.is_above_zero());
    // Events are not hidden by areas, and hide neither cells nor a line.
    let events =
        marks(events, axis).filter(|mark| !has_heat || matches!(mark.shape, Shape::Upright(_)));
    let hint = Some(&*described.hint).filter(|hint| !hint.is_empty());
    let label = [described.title].into_iter().chain(hint);
    let mut panel = Panel {
        x: axis.axis(),
        y: Axis::new(
            label.collect::<Vec<_>>().join(", "),
            range,
            match described.format {
                panels::Format::Rate | panels::Format::Count => Format::Number,
                panels::Format::Micros => Format::Micros,
                panels::Format::Share => Format::Percent,
            },
        ),
        height: f64::from(described.height[0]) * HEIGHT,
        marks: behind.into_iter().chain(events).chain(lines).collect(),
        cells: Vec::new(),
    };
    if described.format == panels::Format::Rate {
        let step_s = described
            .series
            .first()
            .map_or(1.0, |first| first.steps.step_s);
        clip(&mut panel, &tops, |column| axis.ends(column, step_s)[0]);
    }
    panel
}

fn line(series: &Series, steps: Vec<Step>) -> Vec<Mark> {
    // A value that does not change is said beside its name.
    let name = match &*series.total {
        total if steps.len() == 1 && !total.is_empty() => format!("{} {total}", series.name),
        _ => series.name.clone(),
    };
    let line = Mark::new(series.role, name, Shape::Steps(steps));
    match series.drawn {
        Drawn::Hidden => Vec::new(),
        Drawn::Cased => {
            let casing = Mark::new(Role::Casing, "", line.shape.clone());
            vec![casing.wide(4.5), line.wide(2.0)]
        }
        Drawn::Broken => vec![line.dashed(Dash::Dashed).wide(1.75)],
        Drawn::Dash => vec![line.dashed(Dash::Dashed)],
        Drawn::Area | Drawn::Line | Drawn::Level => vec![line],
    }
}

/// Bands of what lasted, and lines of what happened at a moment.
fn marks(events: &Events, axis: TimeAxis) -> impl Iterator<Item = Mark> {
    events
        .marks
        .iter()
        .filter(|event| event.is_shaded)
        .map(move |event| {
            let [from, to] = [event.from, event.to].map(|s| axis.at(s));
            if from >= to {
                let line = Mark::new(Role::Failed, &event.what, Shape::Upright(from));
                return line.dashed(Dash::Short);
            }
            let role = match event.severity {
                Severity::Info => Role::Shade,
                Severity::Warning => Role::Paused,
                Severity::Error => Role::Highlight,
            };
            Mark::new(role, &event.what, Shape::Band(from, to))
        })
}

/// Put steps on top of those before them.
fn stack(steps: &mut [Step], tops: &mut Vec<f64>) {
    tops.resize(steps.len(), 0.0);
    for (step, top) in steps.iter_mut().zip(tops) {
        step.base = *top;
        *top += step.value.unwrap_or(0.0);
    }
}

/// End the axis above the columns that are not peaks, and say how high those are.
fn clip(panel: &mut Panel, tops: &[f64], start: impl Fn(usize) -> f64) {
    let mut sorted = tops.to_vec();
    sorted.sort_by(f64::total_cmp);
    let high = sorted
        .get(place(sorted.len() as f64 * WHOLE))
        .copied()
        .unwrap_or(0.0);
    let Some((column, most)) = tops
        .iter()
        .copied()
        .enumerate()
        .max_by(|(_, a), (_, b)| a.total_cmp(b))
    else {
        return;
    };
    if high > 0.0 && most > high * PEAK {
        panel.y.range = Range::UpTo(high);
        let at = (start(column), f64::INFINITY);
        let note = Note::new(format!("▲ {}", short(most)), at, [-4.0, 12.0]);
        panel
            .marks
            .push(Mark::notes(vec![note.of(Role::Good, Face::Value)]));
    }
}
