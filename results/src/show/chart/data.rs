//! Description of a chart as JSON, for the script of a page.
//!
//! Values are rounded as in the text of a page, so that the value under the pointer is that of the tables.

use serde_json::{Value, json};

use super::svg::pen;
use super::{Axis, Block, Chart, Format, Mark, Panel, Range, Role, Shape, Step, Ticks};

impl Chart {
    /// Return the chart as JSON; none of a chart of bars, which shows its values beside them.
    pub(in crate::show) fn json(&self) -> Option<String> {
        let is_bar =
            |mark: &Mark| matches!(&mark.shape, Shape::Blocks(all) if all.iter().any(|one| !one.text.is_empty()));
        let has_bars = |panel: &Panel| panel.marks.iter().any(is_bar);
        if self.panels.is_empty() || self.panels.iter().any(has_bars) {
            return None;
        }
        let panel = |(n, panel): (usize, &Panel)| {
            // A panel without a label shares the axis of the next one with a label.
            let x = self.panels.iter().skip(n).map(|panel| &panel.x).find(|x| !x.label.is_empty());
            let marks: Vec<Value> = panel.marks.iter().map(|mark| mark.json([&panel.x, &panel.y])).collect();
            json!({ "x": x.unwrap_or(&panel.x).json(), "y": panel.y.json(), "bare": panel.x.label.is_empty(),
                "height": panel.height, "marks": marks })
        };
        Some(json!(self.panels.iter().enumerate().map(panel).collect::<Vec<_>>()).to_string())
    }
}

impl Axis {
    fn json(&self) -> Value {
        let (log, ends, rows) = match &self.range {
            Range::FromZero => (false, None, None),
            Range::Between(low, high) => (false, Some([low, high]), None),
            Range::Log => (true, None, None),
            Range::LogBetween(low, high) => (true, Some([low, high]), None),
            Range::Rows { names, .. } => (false, None, Some(names)),
        };
        let ticks = match &self.ticks {
            Ticks::Round => None,
            Ticks::None => Some(&[][..]),
            Ticks::At(values) => Some(&values[..]),
        };
        json!({ "label": self.label, "format": self.format, "log": log, "ends": ends, "rows": rows, "ticks": ticks })
    }
}

impl Mark {
    fn json(&self, [x, y]: [&Axis; 2]) -> Value {
        let (width, dash) = pen(self);
        let shape = match &self.shape {
            Shape::Steps(all) => json!({ "steps": steps(all, y.format) }),
            Shape::Areas { steps: all, .. } => json!({ "areas": steps(all, y.format) }),
            Shape::Line(points) => {
                let [x, y] = columns(points.iter().copied(), [x.format, y.format]);
                json!({ "line": { "x": x, "y": y } })
            }
            Shape::Dots(dots) => {
                let [at_x, at_y] = columns(dots.iter().map(|dot| dot.at), [x.format, y.format]);
                let interval =
                    |dot: &super::Dot| dot.interval.map(|(low, high)| [y.format.rounded(low), y.format.rounded(high)]);
                let intervals: Vec<_> = dots.iter().map(interval).collect();
                let hollow = dots.first().is_some_and(|dot| dot.hollow);
                json!({ "dots": { "x": at_x, "y": at_y, "intervals": intervals, "hollow": hollow } })
            }
            Shape::Blocks(all) => json!({ "blocks": blocks(all), "level": matches!(self.role, Role::Level(_)) }),
            Shape::Band(from, to) => json!({ "band": [from, to] }),
            Shape::Across(at) => json!({ "across": at }),
            Shape::Upright(at) => json!({ "upright": at }),
        };
        json!({ "ink": self.role.ink().class(), "dash": dash.lengths(), "width": width, "legend": self.legend, "shape": shape })
    }
}

impl Format {
    /// Round a value as the text of a page does.
    fn rounded(self, value: f64) -> f64 {
        let to = |unit: f64| (value / unit).round() * unit;
        match self {
            Self::Number | Self::PerSecond if value >= 100.0 => value.round(),
            Self::Number | Self::PerSecond | Self::Change => (value * 1e3).round() / 1e3,
            // Three digits, or whole seconds.
            Self::Micros if value > 0.0 && value < 1e9 => format!("{value:.2e}").parse().unwrap_or(value),
            Self::Micros => to(1e6),
            Self::Percent | Self::Nines => (value * 1e5).round() / 1e5,
        }
    }
}

fn columns(points: impl Iterator<Item = (f64, f64)>, [x, y]: [Format; 2]) -> [Vec<f64>; 2] {
    let (xs, ys) = points.map(|point| (x.rounded(point.0), y.rounded(point.1))).unzip();
    [xs, ys]
}

/// Encode steps as start, width, end and values; `[n]` repeats the value before it `n` times.
fn steps(steps: &[Step], format: Format) -> Value {
    let Some((first, last)) = steps.first().zip(steps.last()) else { return Value::Null };
    let values: Vec<Value> =
        steps.iter().map(|step| json!(step.value.map(|value| short(format.rounded(value))))).collect();
    let mut packed: Vec<Value> = Vec::new();
    for run in values.chunk_by(|a, b| a == b) {
        packed.extend(run.first().cloned());
        if run.len() > 1 {
            packed.push(json!([run.len() - 1]));
        }
    }
    json!({ "from": first.from, "width": first.to - first.from, "end": last.to, "y": packed })
}

/// Encode rectangles as four indices each, into the sorted edges: left, right, bottom, top.
fn blocks(blocks: &[Block]) -> Value {
    let sorted = |edges: fn(&Block) -> (f64, f64)| {
        let mut all: Vec<f64> = blocks.iter().map(edges).flat_map(|(low, high)| [low, high].map(fine)).collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    };
    let (x, y) = (sorted(|block| block.x), sorted(|block| block.y));
    let place = |all: &[f64], edge: f64| all.partition_point(|other| *other < fine(edge));
    let four = |b: &Block| [place(&x, b.x.0), place(&x, b.x.1), place(&y, b.y.0), place(&y, b.y.1)];
    let at: Vec<usize> = blocks.iter().flat_map(four).collect();
    json!({ "x": x.iter().map(|n| short(*n)).collect::<Vec<_>>(), "y": y.iter().map(|n| short(*n)).collect::<Vec<_>>(), "at": at })
}

/// Round an edge to a ten-thousandth.
fn fine(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Encode a whole number without `.0`.
#[expect(clippy::cast_possible_truncation, reason = "checked to be the same")]
fn short(value: f64) -> Value {
    let whole = value as i64;
    if (whole as f64 - value).abs() < f64::EPSILON { json!(whole) } else { json!(value) }
}
