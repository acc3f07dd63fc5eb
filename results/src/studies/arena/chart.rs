//! Rates with their intervals, and a line beside those that were not shown to differ; latency over the
//! offered rate; CPU beside latency.

use super::{Arena, ArenaEntry, CurvePoint, StandingState};
use crate::show::chart::{
    Axis, Dash, Dot, Face, Format, Mark, Note, Panel, Range, Role, RowName, Shape, least_and_most,
};
use crate::show::text::decimal;

/// Heights: of a row, and of the other fields.
const ROW: f64 = 34.0;
const FIELD: f64 = 198.0;

/// Part of the axis between two lines of groups.
const BESIDE: f64 = 0.03;

/// Groups that have a line at most: of more, the letters in the table tell.
const MOST_LINES: usize = 8;

/// Percentile of a point of a curve.
type Quantile = (&'static str, fn(&CurvePoint) -> Option<f64>);

/// The highest that all points have is drawn.
const QUANTILES: [Quantile; 3] = [
    ("p99", |point| point.p99_us),
    ("p90", |point| point.p90_us),
    ("p50", |point| point.p50_us),
];

/// The panels of an arena; none without a rate.
pub(super) fn panels(arena: &Arena) -> Vec<Panel> {
    let rows: Vec<&ArenaEntry> = arena
        .entries
        .iter()
        .filter(|of| of.standing.per_s.is_some())
        .collect();
    if rows.is_empty() {
        return Vec::new();
    }
    let others = [curves(&arena.entries), costs(&arena.entries)];
    [rates(&rows)]
        .into_iter()
        .chain(others.into_iter().flatten())
        .collect()
}

/// Both ends of the interval of its rate.
fn interval(of: &ArenaEntry) -> [f64; 2] {
    let per_s = of.standing.per_s.unwrap_or(1.0);
    of.standing
        .per_s_interval
        .map_or([per_s; 2], |of| [of.low, of.high])
}

fn rates(rows: &[&ArenaEntry]) -> Panel {
    let (low, high) = least_and_most(rows.iter().flat_map(|of| interval(of)));
    let span = (high - low).max(high * 0.05);
    let (mut marks, mut notes, mut names) = (Vec::new(), Vec::new(), Vec::new());
    for (row, of) in rows.iter().enumerate() {
        let y = row as f64 + 0.5;
        let (per_s, name) = (of.standing.per_s.unwrap_or(1.0), of.entry.name.clone());
        let role = Role::Run(row);
        let ends = interval(of).map(|end| (end, y)).to_vec();
        marks.push(
            Mark::new(role, "", Shape::Line(ends))
                .dashed(Dash::Solid)
                .wide(4.0),
        );
        let dots = vec![Dot::at(per_s, y)];
        let is_ranked = of.standing.state == StandingState::Ranked;
        let shape = if is_ranked {
            Shape::Dots(dots)
        } else {
            Shape::Rings(dots)
        };
        marks.push(Mark::new(role, "", shape));
        let at_least = match of.standing.state {
            StandingState::ClientLimited => "\u{2265} ",
            _ => "",
        };
        let text = format!("{at_least}{}/s", decimal(per_s));
        notes.push(Note::new(text, (f64::INFINITY, y), [18.0, 4.0]).of(role, Face::Value));
        names.push(RowName {
            number: of
                .standing
                .rank
                .map_or_else(|| "-".to_owned(), |rank| rank.to_string()),
            name,
            detail: match &*of.standing.groups {
                "" => String::new(),
                letters => format!("group {letters}"),
            },
        });
    }
    let lines = lines(rows, high, span);
    let beside = BESIDE * (lines.len() + 2) as f64;
    marks.extend(lines);
    marks.push(Mark::notes(notes));
    Panel {
        x: Axis::new(
            "/s",
            Range::Between(low - span * BESIDE, high + span * beside),
            Format::Number,
        ),
        y: Axis::new("", Range::Rows(names), Format::Number),
        height: ROW * rows.len() as f64,
        marks,
        cells: Vec::new(),
    }
}

/// A line beside the entries of each group of several.
fn lines(rows: &[&ArenaEntry], high: f64, span: f64) -> Vec<Mark> {
    let mut letters: Vec<char> = rows
        .iter()
        .flat_map(|of| of.standing.groups.chars())
        .collect();
    letters.sort_unstable();
    letters.dedup();
    let mut lines = Vec::new();
    for letter in letters {
        let members = (0..rows.len()).filter(|row| rows[*row].standing.groups.contains(letter));
        let (first, last) = least_and_most(members.map(|row| row as f64));
        if first < last && lines.len() < MOST_LINES {
            let x = high + span * BESIDE * (lines.len() + 2) as f64;
            let ends = vec![(x, first + 0.25), (x, last + 0.75)];
            lines.push(Mark::new(Role::Reference, "", Shape::Line(ends)).wide(2.0));
        }
    }
    lines
}

/// Latency over the offered rate.
fn curves(entries: &[ArenaEntry]) -> Option<Panel> {
    let points: Vec<&CurvePoint> = entries.iter().flat_map(|of| &of.entry.curve).collect();
    let (name, of) = QUANTILES
        .iter()
        .find(|(_, of)| points.iter().all(|point| of(point).is_some()))
        .or(QUANTILES.last())?;
    let (least, most) = least_and_most(points.iter().map(|point| point.offered_per_s));
    let mut marks = Vec::new();
    for (row, entry) in entries.iter().enumerate() {
        let line: Vec<(f64, f64)> = entry
            .entry
            .curve
            .iter()
            .filter_map(|point| Some((point.offered_per_s, of(point)?)))
            .collect();
        let dots = line.iter().map(|(x, y)| Dot::at(*x, *y)).collect();
        let role = Role::Run(row);
        marks
            .push(Mark::new(role, entry.entry.name.clone(), Shape::Line(line)).dashed(Dash::Solid));
        marks.push(Mark::new(role, "", Shape::Dots(dots)));
    }
    marks.retain(Mark::is_known);
    (!marks.is_empty()).then(|| Panel {
        x: Axis::new("offered/s", Range::LogAround(least, most), Format::Number),
        y: Axis::new(
            format!("response time, {name}"),
            around(points.into_iter().filter_map(of)),
            Format::Micros,
        ),
        height: FIELD,
        marks,
        cells: Vec::new(),
    })
}

/// The range of an axis around these values: by factors if the greatest is much the greatest.
fn around(values: impl Iterator<Item = f64>) -> Range {
    let (least, most) = least_and_most(values);
    let air = (most - least).max(most * 0.1) * 0.2;
    if most > 10.0 * least {
        Range::Log
    } else {
        Range::Between(least - air, most + air)
    }
}

/// CPU per request beside the median time, at the rate that all entries get.
fn costs(entries: &[ArenaEntry]) -> Option<Panel> {
    let (mut marks, mut all) = (Vec::new(), Vec::new());
    for (row, of) in entries.iter().enumerate() {
        let fixed = of.entry.fixed.as_ref();
        let known = fixed.and_then(|of| Some((of.cpu_us_per_request?, of.p50_us?)));
        if let Some((cpu_us, p50_us)) = known {
            // Named at the right end, where names of dots that lie together have room.
            let (name, dots) = (of.entry.name.clone(), vec![Dot::at(cpu_us, p50_us)]);
            marks.push(Mark::new(Role::Run(row), name, Shape::Dots(dots)));
            all.push((cpu_us, p50_us));
        }
    }
    (!marks.is_empty()).then(|| Panel {
        x: Axis::new(
            "CPU per request",
            around(all.iter().map(|(cpu_us, _)| *cpu_us)),
            Format::Micros,
        ),
        y: Axis::new(
            "response time, p50",
            around(all.iter().map(|(_, p50_us)| *p50_us)),
            Format::Micros,
        ),
        height: FIELD,
        marks,
        cells: Vec::new(),
    })
}
