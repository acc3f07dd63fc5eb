//! Bars of scenarios, from the top down in the order in which they ran: the ladder beside published
//! rates, by factors; the patterns with their other figures under each bar.

use super::{Published, ScenarioFigure, ScenarioReport};
use crate::show::chart::{
    Axis, Block, Dash, Face, Format, Mark, Note, Panel, Range, Role, RowName, Shape,
};
use crate::studies::{StudyFinding, rate};

/// Heights of a row: of the ladder, and of patterns.
const RUNG: f64 = 39.0;
const PATTERN: f64 = 56.0;

/// The part of a row that a bar of 20 px has, and that a stroke over it has.
const BAR: [f64; 2] = [0.244, 0.756];
const STROKE: [f64; 2] = [0.14, 0.86];

/// From the end of a bar to its text, and the base line of the second one.
const AFTER: f64 = 8.0;
const SECOND: f64 = 14.0;

/// Figures in a line under a bar, and its height.
const A_LINE: usize = 3;
const LINE: f64 = 15.0;

/// Letters of a rate are about so wide.
const LETTER: f64 = 7.5;

/// The panel of measured and published rates.
pub(super) fn ladder(all: &[ScenarioReport]) -> Panel {
    let (least, most) = all
        .iter()
        .flat_map(|of| {
            let published = of.published.map(Published::middle_per_s);
            [Some(of.readings.ok_per_s), published]
        })
        .flatten()
        .filter(|rate| *rate > 0.0)
        .fold((1.0_f64, 10.0_f64), |(least, most), rate| {
            (least.min(rate), most.max(rate))
        });
    let (mut measured, mut chosen, mut strokes, mut notes) = (vec![], vec![], vec![], vec![]);
    for (row, of) in all.iter().enumerate() {
        let per_s = of.readings.ok_per_s;
        let is_chosen = matches!(of.limit, StudyFinding::OwnBudget { .. });
        let bars = if is_chosen {
            &mut chosen
        } else {
            &mut measured
        };
        bars.push(Block::row(row, BAR, [0.0, per_s]));
        let published = of.published.map(Published::middle_per_s);
        strokes.extend(published.map(|per_s| stroke(row, per_s)));
        let end = (published.unwrap_or(0.0).max(per_s), row as f64 + 0.5);
        let text = rate(of.readings.ok_per_s);
        if let Some(published) = of.published.filter(|_| row == 0) {
            let away = AFTER + (text.len() as f64 + 1.0) * LETTER;
            let text = format!("‹ published: {published}");
            let note = Note::new(text, end, [away, -1.0]);
            notes.push(note.of(Role::Throttled, Face::Value));
        }
        let note = Note::new(text, end, [AFTER, -1.0]);
        notes.push(note.of(Role::Reference, Face::Value));
        let limit = of.limit.limit_in_words();
        notes.push(Note::new(limit, end, [AFTER, SECOND]));
    }
    let mut marks = vec![
        Mark::new(Role::Good, "", Shape::Blocks(measured)),
        Mark::new(Role::Asked, "", Shape::Blocks(chosen)),
    ];
    marks.extend(strokes);
    marks.push(Mark::notes(notes));
    panel(all, RUNG, Range::Decades(least, most), marks)
}

/// The stroke of a published rate over the bar of a row.
fn stroke(row: usize, per_s: f64) -> Mark {
    let line = STROKE.map(|part| (per_s, row as f64 + part)).to_vec();
    let mark = Mark::new(Role::Throttled, "", Shape::Line(line));
    mark.dashed(Dash::Solid).wide(3.0)
}

/// The panel of the rates of patterns, with their other figures as a line under each.
pub(super) fn patterns(all: &[ScenarioReport], others: &[ScenarioFigure]) -> Panel {
    let (mut bars, mut notes) = (Vec::new(), Vec::new());
    // Some length if all are 0.
    let most = all
        .iter()
        .map(|of| of.readings.ok_per_s)
        .fold(f64::MIN_POSITIVE, f64::max);
    for (row, of) in all.iter().enumerate() {
        let per_s = of.readings.ok_per_s;
        bars.push(Block::row(row, [0.06, 0.36], [0.0, per_s]));
        let note = Note::new(rate(per_s), (per_s, row as f64 + 0.21), [AFTER, 4.0]);
        notes.push(note.of(Role::Reference, Face::Value));
        for (line, part) in others
            .iter()
            .filter_map(|(name, value, text)| Some(format!("{name} {}", text(value(of)?))))
            .collect::<Vec<_>>()
            .chunks(A_LINE)
            .enumerate()
        {
            let down = LINE * (line + 1) as f64;
            notes.push(Note::new(
                part.join(" · "),
                (0.0, row as f64 + 0.36),
                [1.0, down],
            ));
        }
    }
    let marks = vec![
        Mark::new(Role::Good, "", Shape::Blocks(bars)),
        Mark::notes(notes),
    ];
    panel(all, PATTERN, Range::Between(0.0, most), marks)
}

fn panel(all: &[ScenarioReport], row: f64, range: Range, marks: Vec<Mark>) -> Panel {
    let names = all.iter().map(|of| RowName {
        number: of.number.to_string(),
        name: of.name.to_string(),
        detail: String::new(),
    });
    Panel {
        x: Axis::new("", range, Format::Number),
        y: Axis::new("", Range::Rows(names.collect()), Format::Number),
        height: row * all.len() as f64,
        marks,
        cells: Vec::new(),
    }
}
