//! From values to places along an axis, the round values at which it has ticks, and their labels.

use std::ops;

use crawlmark_harness::units::grouped;

use super::{Format, Range};

/// The most ticks of an axis: more would crowd the labels.
pub(super) const MOST_TICKS: f64 = 6.0;

/// Scale that maps values to places between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// In equal steps from the first to the second.
    Linear(f64, f64),
    /// In equal factors from the first to the second, both above 0.
    Log(f64, f64),
    /// Rows from the top down: their number.
    Rows(f64),
}

impl Scale {
    /// Choose the scale of a range around these values.
    pub(super) fn of(range: &Range, values: impl Iterator<Item = f64>) -> Self {
        match range {
            Range::FromZero => Self::from_zero(values),
            Range::Between(low, high) => Self::Linear(*low, *high),
            Range::Log => Self::log(&values.collect::<Vec<_>>()),
            Range::LogBetween(low, high) => Self::Log(*low, *high),
            Range::Rows(names) => Self::Rows(names.len().max(1) as f64),
        }
    }

    /// From 0 to a round value no less than the greatest; to 1 when there is none above 0.
    fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let top = greatest(values);
        if top <= 0.0 {
            return Self::Linear(0.0, 1.0);
        }
        // A little air above, so that the line is not taken for the frame.
        let step = round_above(top * 1.02 / MOST_TICKS);
        Self::Linear(0.0, (top * 1.02 / step).ceil().max(1.0) * step)
    }

    /// Over all values above 0, from a round one to a round one; over a decade when there is none.
    fn log(values: &[f64]) -> Self {
        let top = greatest(values.iter().copied());
        let least = values
            .iter()
            .copied()
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold(f64::INFINITY, f64::min);
        if !least.is_finite() {
            return Self::Log(1e3, 1e4);
        }
        let (low, high) = (round_below(least), round_above(top));
        if high / low < 4.0 {
            Self::Log(round_below(low * 0.99), round_above(high * 1.01))
        } else {
            Self::Log(low, high)
        }
    }

    /// The place of a value, held between 0 and 1.
    pub(super) fn place(self, value: f64) -> f64 {
        let place = match self {
            Self::Linear(low, high) => (value - low) / (high - low),
            Self::Log(low, high) => (value.max(low) / low).ln() / (high / low).ln(),
            Self::Rows(count) => 1.0 - value / count,
        };
        if place.is_finite() {
            place.clamp(0.0, 1.0)
        } else {
            0.0
        }
    }

    /// The round values of the axis, ends included where they are round: not many more than `most`.
    pub(super) fn ticks(self, most: f64) -> Vec<f64> {
        match self {
            Self::Linear(low, high) => {
                let step = round_above((high - low) / most);
                // Without 0.0, a range from 0 would begin with -0.
                let (first, last) = (
                    (low / step - 1e-9).ceil() + 0.0,
                    (high / step + 1e-9).floor(),
                );
                std::iter::successors(Some(first), |n| Some(n + 1.0))
                    .take_while(|n| *n <= last)
                    .map(|n| n * step)
                    .collect()
            }
            Self::Log(low, high) => {
                let fine = high / low <= 101.0;
                let from = low.log10().floor();
                let decades = std::iter::successors(Some(from), |e| Some(e + 1.0))
                    .take_while(|e| *e <= high.log10());
                let in_decade: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let values = decades.flat_map(|e| in_decade.iter().map(move |m| m * 10f64.powf(e)));
                values
                    .filter(|v| *v >= low * 0.999 && *v <= high * 1.001)
                    .collect()
            }
            Self::Rows(_) => Vec::new(),
        }
    }

    /// Its ends; of rows, the bottom and the top of all.
    pub(super) const fn ends(self) -> ops::Range<f64> {
        match self {
            Self::Linear(low, high) | Self::Log(low, high) => low..high,
            Self::Rows(count) => count..0.0,
        }
    }
}

impl Format {
    /// Return the label of a value; empty where an axis of whole steps has no word for what lies
    /// between them.
    pub(crate) fn label(self, value: f64) -> String {
        match self {
            Self::Number => short(value),
            Self::Micros => time(value),
            Self::Percent => format!("{} %", trimmed(value * 100.0)),
            Self::Change => format!("{}{} %", if value > 0.0 { "+" } else { "" }, trimmed(value)),
            Self::Nines => nines(value),
        }
    }
}

fn greatest(values: impl IntoIterator<Item = f64>) -> f64 {
    values
        .into_iter()
        .filter(|v| v.is_finite())
        .fold(0.0, f64::max)
}

/// The least of 1, 2 and 5 times a power of ten that is no less.
pub(in crate::show) fn round_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|f| f * decade >= value * (1.0 - 1e-9))
        .unwrap_or(10.0);
    factor * decade
}

/// The greatest of 1, 2 and 5 times a power of ten that is no greater: these are each other's
/// reciprocals.
fn round_below(value: f64) -> f64 {
    1.0 / round_above(1.0 / value)
}

/// A count or a rate, short enough for an axis: `0`, `0.5`, `1,200`, `25k`, `3M`.
pub(in crate::show) fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", trimmed(v / 1e6)),
        v if v >= 1e4 => format!("{}k", trimmed(v / 1e3)),
        v if v >= 1e3 => whole(v),
        v => trimmed(v),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "counts are far below 2^53, and none is below 0"
)]
fn whole(value: f64) -> String {
    grouped(value.round() as u64)
}

/// Up to three significant decimals, without zeros at the end.
pub(in crate::show) fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time on an axis, from microseconds: `20 µs`, `5 ms`, `1 s`.
fn time(us: f64) -> String {
    match us {
        v if v <= 0.0 => "0".to_owned(),
        v if v >= 1e6 * 0.999 => format!("{} s", short(v / 1e6)),
        v if v >= 1e3 * 0.999 => format!("{} ms", trimmed(v / 1e3)),
        v => format!("{} µs", trimmed(v)),
    }
}

/// The percentile that so many nines stand for: `0 %`, `90 %`, `99.9 %`; empty between them.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "from 0 to 12"
)]
fn nines(count: f64) -> String {
    if (count - count.round()).abs() > 1e-6 {
        return String::new();
    }
    let decimals = (count.round() as usize).saturating_sub(2);
    format!("{:.decimals$} %", 100.0 - 100.0 * 10f64.powf(-count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn axes_end_at_round_values_with_room_for_all() {
        for (top, want) in [
            (0.0, 1.0),
            (1.0, 1.2),
            (97.0, 100.0),
            (99.0, 120.0),
            (1_234.0, 1_500.0),
            (6e6, 8e6),
        ] {
            let Scale::Linear(low, high) = Scale::from_zero([top]) else {
                panic!("linear")
            };
            assert!(
                low == 0.0 && (high - want).abs() < want * 1e-9,
                "{top}: {high}"
            );
        }
        assert_eq!(Scale::log(&[340.0, 81_000.0]), Scale::Log(200.0, 100_000.0));
        assert_eq!(Scale::log(&[]), Scale::Log(1e3, 1e4));
    }

    proptest! {
        #[test]
        fn ticks_rise_are_few_and_lie_on_the_axis(a in 1e-3..1e9f64, factor in 1.0..1e6f64) {
            for scale in [Scale::from_zero([a]), Scale::log(&[a, a * factor])] {
                let ops::Range { start: low, end: high } = scale.ends();
                let ticks = scale.ticks(MOST_TICKS);
                prop_assert!(ticks.is_sorted() && (2..=9).contains(&ticks.len()), "{scale:?}: {ticks:?}");
                prop_assert!(ticks.iter().all(|t| *t >= low * 0.999 && *t <= high * 1.001), "{scale:?}: {ticks:?}");
                prop_assert!(scale.place(a) >= 0.0 && scale.place(a) <= 1.0);
            }
        }

        #[test]
        fn a_greater_value_is_no_lower(a in 0.0..1e9f64, b in 0.0..1e9f64) {
            for scale in [Scale::from_zero([a, b]), Scale::log(&[a, b])] {
                prop_assert_eq!(a <= b || scale.place(a) >= scale.place(b), true);
                prop_assert_eq!(a >= b || scale.place(a) <= scale.place(b), true);
            }
        }
    }
}
