//! Description of a chart as JSON, for the script of a page.
//!
//! Values are rounded as in the text of a page, so that the value under the pointer is that of the
//! tables.

use std::sync::LazyLock;

use serde_json::{Value, json};

use super::svg::pen;
use super::{Axis, Block, Chart, Format, Mark, Panel, Range, Role, Shape, Step, Ticks};

impl Chart {
    /// Return the chart as JSON; none of a chart of bars, which shows its values beside them.
    pub(in crate::show) fn json(&self) -> Option<String> {
        let is_bar = |mark: &Mark| matches!(&mark.shape, Shape::Blocks(all) if all.iter().any(|one| !one.text.is_empty()));
        let has_bars = |panel: &Panel| panel.marks.iter().any(is_bar);
        if self.panels.is_empty() || self.panels.iter().any(has_bars) {
            return None;
        }
        let panel = |(n, panel): (usize, &Panel)| {
            // A panel without a label shares the axis of the next one with a label.
            let x = self
                .panels
                .iter()
                .skip(n)
                .map(|panel| &panel.x)
                .find(|x| !x.label.is_empty());
            let marks: Vec<Value> = panel
                .marks
                .iter()
                .map(|mark| mark.json([&panel.x, &panel.y]))
                .collect();
            json!({ "x": x.unwrap_or(&panel.x).json(), "y": panel.y.json(), "bare": panel.x.label.is_empty(),
                "height": panel.height, "marks": marks })
        };
        Some(
            json!(
                self.panels
                    .iter()
                    .enumerate()
                    .map(panel)
                    .collect::<Vec<_>>()
            )
            .to_string(),
        )
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
                let [x, y] = columns(points.iter().copied(), [x.format, y.format])
                    .map(|values| column(&values.into_iter().map(Some).collect::<Vec<_>>()));
                json!({ "line": { "x": x, "y": y } })
            }
            Shape::Dots(dots) => {
                let [at_x, at_y] = columns(dots.iter().map(|dot| dot.at), [x.format, y.format]);
                let interval = |dot: &super::Dot| {
                    dot.interval
                        .map(|(low, high)| [y.format.rounded(low), y.format.rounded(high)])
                };
                let intervals: Vec<_> = dots.iter().map(interval).collect();
                let hollow = dots.first().is_some_and(|dot| dot.hollow);
                json!({ "dots": { "x": at_x, "y": at_y, "intervals": intervals, "hollow": hollow } })
            }
            Shape::Blocks(all) => {
                json!({ "blocks": blocks(all), "level": matches!(self.role, Role::Level(_)) })
            }
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
            Self::Micros if value > 0.0 && value < 1e9 => {
                format!("{value:.2e}").parse().unwrap_or(value)
            }
            Self::Micros => to(1e6),
            Self::Percent | Self::Nines => (value * 1e5).round() / 1e5,
        }
    }
}

fn columns(points: impl Iterator<Item = (f64, f64)>, [x, y]: [Format; 2]) -> [Vec<f64>; 2] {
    let (xs, ys) = points
        .map(|point| (x.rounded(point.0), y.rounded(point.1)))
        .unzip();
    [xs, ys]
}

/// Encode steps as start, width, end and values.
fn steps(steps: &[Step], format: Format) -> Value {
    let Some((first, last)) = steps.first().zip(steps.last()) else {
        return Value::Null;
    };
    let values: Vec<Option<f64>> = steps
        .iter()
        .map(|step| step.value.map(|value| format.rounded(value)))
        .collect();
    json!({ "from": first.from, "width": first.to - first.from, "end": last.to, "y": column(&values) })
}

/// Encode values in the shortest way: [`packed`], with or without the last one, or listed, where
/// `[n]` repeats the value before it `n` times. The rate of a part of a second at the end has more
/// decimals than all before it.
fn column(values: &[Option<f64>]) -> Value {
    let mut listed: Vec<Value> = Vec::new();
    for run in values.chunk_by(|a, b| a == b) {
        listed.extend(run.first().map(|value| json!(value.map(short))));
        if run.len() > 1 {
            listed.push(json!([run.len() - 1]));
        }
    }
    let listed = Value::from(listed);
    let but_last = values.split_last().and_then(|(last, others)| {
        let mut column = packed(others)?;
        column["last"] = json!(last.map(short));
        Some(column)
    });
    let all = [Some(listed), packed(values), but_last];
    all.into_iter()
        .flatten()
        .min_by_key(|column| column.to_string().len())
        .unwrap_or_default()
}

/// Encode values as whole numbers of `digits` digits each, in units of a power of ten and from
/// `least` on; 0 is no value. None for values that have no common unit.
fn packed(values: &[Option<f64>]) -> Option<Value> {
    let known = || values.iter().flatten().copied();
    // A power of ten of a negative exponent is not exact.
    let by = |exponent: i32| 10_f64.powi(exponent.abs());
    let units = |value: f64, exponent: i32| {
        let units = if exponent < 0 {
            value * by(exponent)
        } else {
            value / by(exponent)
        };
        units.round()
    };
    let is_kept = |value: f64, exponent: i32| {
        let whole = units(value, exponent);
        let again = if exponent < 0 {
            whole / by(exponent)
        } else {
            whole * by(exponent)
        };
        again.total_cmp(&value).is_eq()
    };
    let exponent = (-6..=9)
        .rev()
        .find(|exponent| known().all(|value| is_kept(value, *exponent)))?;
    let least = known()
        .map(|value| units(value, exponent))
        .reduce(f64::min)?;
    let most = known()
        .map(|value| units(value, exponent) - least)
        .fold(0.0, f64::max);
    let digits = (1..=4).find(|digits| most + 1.0 < (DIGITS.len() as f64).powi(*digits))?;
    let code =
        |value: &Option<f64>| value.map_or(0.0, |value| units(value, exponent) - least + 1.0);
    let text: String = values
        .iter()
        .flat_map(|value| written(code(value), digits.unsigned_abs()))
        .collect();
    Some(json!({ "least": least, "exponent": exponent, "digits": digits, "text": text }))
}

/// Digits of packed numbers, by their value: every visible character that neither JSON nor a page
/// writes as several.
static DIGITS: LazyLock<Vec<char>> = LazyLock::new(|| {
    ('#'..='~')
        .filter(|digit| !"&<>\\".contains(*digit))
        .collect()
});

/// Write a number below `DIGITS.len()` to the power of `digits`, its greatest digit first.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a whole number of at most four digits"
)]
fn written(number: f64, digits: u32) -> impl Iterator<Item = char> {
    let base = DIGITS.len();
    (0..digits)
        .rev()
        .map(move |place| DIGITS[number as usize / base.pow(place) % base])
}

/// Encode rectangles as four indices each, into the sorted edges: left, right, bottom, top.
fn blocks(blocks: &[Block]) -> Value {
    let sorted = |edges: fn(&Block) -> (f64, f64)| {
        let mut all: Vec<f64> = blocks
            .iter()
            .map(edges)
            .flat_map(|(low, high)| [low, high].map(fine))
            .collect();
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    };
    let (x, y) = (sorted(|block| block.x), sorted(|block| block.y));
    let place = |all: &[f64], edge: f64| all.partition_point(|other| *other < fine(edge)) as f64;
    let four = |b: &Block| {
        [
            place(&x, b.x.0),
            place(&x, b.x.1),
            place(&y, b.y.0),
            place(&y, b.y.1),
        ]
        .map(Some)
    };
    let at: Vec<Option<f64>> = blocks.iter().flat_map(four).collect();
    let edges = |all: &[f64]| column(&all.iter().copied().map(Some).collect::<Vec<_>>());
    json!({ "x": edges(&x), "y": edges(&y), "at": column(&at) })
}

/// Round an edge to a ten-thousandth.
fn fine(value: f64) -> f64 {
    (value * 1e4).round() / 1e4
}

/// Encode a whole number without `.0`.
#[expect(clippy::cast_possible_truncation, reason = "checked to be the same")]
fn short(value: f64) -> Value {
    let whole = value as i64;
    if (whole as f64 - value).abs() < f64::EPSILON {
        json!(whole)
    } else {
        json!(value)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Decode a column as the script of a page does.
    fn decoded(column: &Value) -> Vec<Option<f64>> {
        let Some(text) = column["text"].as_str() else {
            let mut values: Vec<Option<f64>> = Vec::new();
            for one in column.as_array().into_iter().flatten() {
                let (repeated, last) = (
                    one[0].as_u64().unwrap_or(0),
                    values.last().copied().flatten(),
                );
                values.extend((0..repeated).map(|_| last));
                values.extend((!one.is_array()).then(|| one.as_f64()));
            }
            return values;
        };
        let whole = |key: &str| column[key].as_f64().unwrap_or(f64::NAN);
        let power = 10_f64.powf(whole("exponent").abs());
        let place = |digit: &char| {
            DIGITS
                .iter()
                .position(|one| one == digit)
                .unwrap_or(usize::MAX) as f64
        };
        let digits: Vec<char> = text.chars().collect();
        let code = |digits: &[char]| {
            digits
                .iter()
                .fold(0.0, |code, digit| code * DIGITS.len() as f64 + place(digit))
        };
        let value = |units: f64| {
            if whole("exponent") < 0.0 {
                units / power
            } else {
                units * power
            }
        };
        let length = column["digits"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(1);
        let codes = digits.chunks(length).map(code);
        let values = codes.map(|code| (code > 0.0).then(|| value(whole("least") + code - 1.0)));
        values
            .chain(column.get("last").map(Value::as_f64))
            .collect()
    }

    proptest! {
        #[test]
        fn a_column_has_the_values_that_the_text_of_a_page_has(
            values in prop::collection::vec(prop::option::weighted(0.9, prop_oneof![0.0..100.0, 0.0..2e9_f64, Just(0.0), Just(3.0)]), 0..400),
            format in prop::sample::select(vec![Format::Number, Format::PerSecond, Format::Micros, Format::Percent]),
        ) {
            let rounded: Vec<Option<f64>> = values.iter().map(|value| value.map(|value| format.rounded(value))).collect();
            let column = column(&rounded);
            prop_assert_eq!(decoded(&column), rounded, "{}", column);
            prop_assert!(!column.to_string().contains(['<', '>', '&']));
        }
    }

    #[test]
    fn noise_takes_two_characters_a_value() {
        let noise = (0..3_600_u64)
            .map(|n| Some(20_000.0 + ((n * 7_919) % 6_000) as f64))
            .collect::<Vec<_>>();
        let with_a_part = [&noise[..], &[Some(3.061)]].concat();
        for values in [noise, with_a_part] {
            assert!(column(&values).to_string().len() < 3_600 * 2 + 100);
        }
    }
}
