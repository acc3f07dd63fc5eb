//! Axes as coordinates of `plotters`: from values to places, the values at which there are ticks,
//! and their labels.

use std::ops;

use crawlmark_harness::units::place;
use plotters::coord::combinators::{IntoLogRange, LogCoord};
use plotters::coord::ranged1d::{BoldPoints, KeyPointHint, NoDefaultFormatting, Ranged};
use plotters::coord::types::RangedCoordf64;

use super::{Format, Range};
use crate::show::text::grouped_f64;

/// The most ticks of an axis: more would crowd the labels.
pub(super) const MOST_TICKS: usize = 6;

/// Ticks beyond the most that an axis by factors may have before only powers of ten have some.
const MORE: usize = 2;

/// The least and the most above 0 that an axis shows: `plotters` finds no end of ticks far beyond
/// them.
const LEAST: f64 = 1e-30;
const MOST: f64 = 1e30;

/// Scale that maps values to places.
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
        let values = values.map(|value| match value {
            above if above > 0.0 => above.clamp(LEAST, MOST),
            other => other.max(-MOST),
        });
        match range {
            Range::FromZero => Self::from_zero(values),
            Range::UpTo(most) => Self::from_zero(std::iter::once(*most)),
            Range::Between(low, high) => Self::Linear(*low, *high),
            Range::Log => Self::log(values),
            Range::LogBetween(low, high) => Self::Log(*low, *high),
            Range::LogAround(least, most) => Self::around(*least, *most),
            Range::Decades(least, most) => Self::decades(*least, *most),
            Range::Nines(samples) => Self::Linear(0.0, samples.max(10.0).log10()),
            Range::Rows(names) => Self::Rows(names.len().max(1) as f64),
        }
    }

    /// From 0 to a round value no less than the greatest, with a little air above, so that a line is
    /// not taken for the frame; to 1 when there is none above 0.
    fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let top = values.filter(|v| v.is_finite()).fold(0.0, f64::max) * 1.02;
        let above = Self::Linear(0.0, top * 2.0).ticks(2 * MOST_TICKS);
        let high = above.into_iter().find(|tick| top > 0.0 && *tick >= top);
        Self::Linear(0.0, high.unwrap_or(1.0))
    }

    /// Over all values above 0, from a round one to a round one; over a decade when there is none.
    fn log(values: impl Iterator<Item = f64>) -> Self {
        let (least, top) = values
            .filter(|v| v.is_finite() && *v > 0.0)
            .fold((f64::INFINITY, 0.0), |(least, top), v| {
                (v.min(least), v.max(top))
            });
        if !least.is_finite() {
            return Self::Log(1e3, 1e4);
        }
        let around = round_factors(least / 10.0, top * 10.0, &[1.0, 2.0, 5.0, 10.0]);
        let low = around.iter().rev().find(|tick| **tick <= least);
        let (low, high) = (
            low.copied().unwrap_or(least),
            // At least a factor of four, so that there are two ticks, and a little air.
            around
                .iter()
                .find(|tick| **tick >= top.max(least * 4.0) * 1.02),
        );
        Self::Log(low, high.copied().unwrap_or(top))
    }

    /// Around these values with a twelfth of its length on the left and half of that on the right,
    /// where names stand; around a single one by a factor of two.
    fn around(least: f64, most: f64) -> Self {
        let margin = match most / least {
            length if length > 1.0 => length.powf(1.0 / 12.0),
            _ => 2.0,
        };
        Self::Log(least / margin, most * margin.sqrt())
    }

    /// Between powers of ten.
    fn decades(least: f64, most: f64) -> Self {
        let [least, most] = [least, most].map(|value| value.clamp(LEAST, MOST));
        let around = round_factors(least / 10.0, most * 10.0, &[1.0, 10.0]);
        let low = around.iter().rev().find(|tick| **tick <= least);
        let high = around.iter().find(|tick| **tick >= most);
        Self::Log(low.copied().unwrap_or(least), high.copied().unwrap_or(most))
    }

    /// The values of the axis that have ticks, not many more than `most`.
    pub(super) fn ticks(self, most: usize) -> Vec<f64> {
        self.key_points(BoldPoints(most))
    }

    /// The place of a value between the ends: 0 to 1.
    pub(super) fn place(self, value: f64) -> f64 {
        const FINE: i32 = 100_000;
        f64::from(self.map(&value, (0, FINE))) / f64::from(FINE)
    }

    /// Its ends; of rows, the bottom and the top of all.
    pub(super) const fn ends(self) -> ops::Range<f64> {
        match self {
            Self::Linear(low, high) | Self::Log(low, high) => low..high,
            Self::Rows(count) => count..0.0,
        }
    }
}

/// What `plotters` needs of an axis. What is beyond an end is drawn at it.
impl Ranged for Scale {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let ops::Range { start, end } = self.ends();
        let value = if value.is_nan() { start } else { *value };
        let held = value.clamp(start.min(end), end.max(start));
        match self {
            Self::Linear(..) | Self::Rows(_) => RangedCoordf64::from(start..end).map(&held, limit),
            Self::Log(..) => LogCoord::from((start..end).log_scale()).map(&held, limit),
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Linear(low, high) => RangedCoordf64::from(*low..*high).key_points(hint),
            Self::Log(low, high) => {
                let most = hint.bold_points();
                let all = round_factors(*low, *high, &[1.0, 2.0, 5.0, 10.0]);
                if all.len() <= most + MORE {
                    return all;
                }
                let decades = round_factors(*low, *high, &[1.0, 10.0]);
                let step = decades.len().div_ceil(most.max(1) + MORE);
                decades.into_iter().step_by(step).collect()
            }
            Self::Rows(_) => Vec::new(),
        }
    }

    fn range(&self) -> ops::Range<f64> {
        self.ends()
    }
}

/// At most so many values in equal round steps above 0, the last one no more than `top`.
pub(in crate::show) fn round_values(top: f64, most: usize) -> Vec<f64> {
    let mut ticks = Scale::Linear(0.0, top).ticks(most + 1);
    ticks.retain(|tick| *tick > 0.0);
    ticks
}

/// The values of so many times a power of ten from `low` to `high`, both included.
fn round_factors(low: f64, high: f64, times: &[f64]) -> Vec<f64> {
    // A decade below, whose points reach into the range.
    let axis = LogCoord::from((low / 10.0..high * 1.001).log_scale());
    // Ten points for each decade are all of its whole multiples.
    let decades = (1..).take_while(|n| low * 10f64.powi(*n) <= high * 100.0);
    let points = axis.key_points(BoldPoints(20 * decades.count()));
    let mut round: Vec<f64> = points
        .into_iter()
        .filter(|value| {
            let leading = value / 10f64.powf(value.log10().floor());
            times.iter().any(|round| (leading - round).abs() < 1e-6)
        })
        .filter(|value| *value >= low * 0.999 && *value <= high * 1.001)
        .collect();
    round.sort_by(f64::total_cmp);
    round.dedup_by(|a, b| (*a / *b - 1.0).abs() < 1e-6);
    round
}

impl Format {
    /// Return the label of a value; empty where an axis of whole steps has no word for what lies
    /// between them.
    pub(crate) fn label(self, value: f64) -> String {
        match self {
            Self::Number => short(value),
            Self::Micros => time(value),
            Self::Percent => format!("{} %", trimmed(value * 100.0)),
            Self::Change if value < 0.0 => format!("\u{2212}{} %", trimmed(-value)),
            Self::Change => format!("{}{} %", if value > 0.0 { "+" } else { "" }, trimmed(value)),
            Self::Nines => nines(value),
        }
    }
}

/// A count or a rate, short enough for an axis: `0`, `0.5`, `1,200`, `25k`, `3M`.
pub(in crate::show) fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", trimmed(v / 1e6)),
        v if v >= 1e4 => format!("{}k", trimmed(v / 1e3)),
        v if v >= 1e3 => grouped_f64(v),
        v => trimmed(v),
    }
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
fn nines(count: f64) -> String {
    if (count - count.round()).abs() > 1e-6 {
        return String::new();
    }
    let decimals = place(count.round()).saturating_sub(2);
    format!("{:.decimals$} %", 100.0 - 100.0 * 10f64.powf(-count))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn axes_end_at_round_values_with_room_for_all() {
        for top in [1.0, 97.0, 99.0, 1_234.0, 6e6] {
            let Scale::Linear(low, high) = Scale::from_zero([top].into_iter()) else {
                panic!("linear")
            };
            assert!(
                low == 0.0 && (1.02..2.1).contains(&(high / top)),
                "{top}: {high}"
            );
        }
        assert_eq!(
            Scale::from_zero(std::iter::empty()),
            Scale::Linear(0.0, 1.0)
        );
        assert_eq!(Scale::log(std::iter::empty()), Scale::Log(1e3, 1e4));
        let Scale::Log(low, high) = Scale::log([340.0, 81_000.0].into_iter()) else {
            panic!("logarithmic")
        };
        assert!(
            (low / 200.0 - 1.0).abs() < 1e-9 && (high / 1e5 - 1.0).abs() < 1e-9,
            "{low} {high}"
        );
    }

    #[test]
    fn the_axis_of_any_numbers_has_an_end() {
        for values in [[f64::MIN_POSITIVE, f64::MAX], [1.0, 1e307], [1e302; 2]] {
            for range in [Range::Log, Range::FromZero] {
                let ticks = Scale::of(&range, values.into_iter()).ticks(MOST_TICKS);
                assert!(ticks.len() <= 13, "{range:?}: {ticks:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn ticks_rise_are_few_and_lie_on_the_axis(a in 1e-3..1e9f64, factor in 1.0..1e6f64) {
            for scale in [Scale::from_zero([a].into_iter()), Scale::log([a, a * factor].into_iter())] {
                let ops::Range { start: low, end: high } = scale.ends();
                let ticks = scale.ticks(MOST_TICKS);
                prop_assert!(ticks.is_sorted() && (2..=13).contains(&ticks.len()), "{scale:?}: {ticks:?}");
                prop_assert!(ticks.iter().all(|t| *t >= low * 0.999 && *t <= high * 1.001), "{scale:?}: {ticks:?}");
                prop_assert!(scale.place(a) >= 0.0 && scale.place(a) <= 1.0);
            }
        }

        #[test]
        fn levels_are_few_round_values_up_to_the_greatest(top in 1e-3..1e9f64) {
            let levels = round_values(top, 5);
            prop_assert!((1..=5).contains(&levels.len()) && levels.is_sorted(), "{levels:?}");
            prop_assert!(levels[0] > 0.0 && levels.iter().all(|level| *level <= top * 1.001), "{levels:?}");
        }

        #[test]
        fn decades_are_the_nearest_powers_of_ten_around_the_values(least in 1e-3..1e6f64, factor in 1.001..1e6f64) {
            let Scale::Log(low, high) = Scale::decades(least, least * factor) else { panic!("logarithmic") };
            let is_power = |value: f64| (value.log10() - value.log10().round()).abs() < 1e-6;
            prop_assert!(is_power(low) && is_power(high), "{low} {high}");
            prop_assert!(low <= least * 1.001 && low * 10.001 > least, "{low} {least}");
            prop_assert!(high >= least * factor * 0.999 && high < least * factor * 10.001, "{high}");
        }

        #[test]
        fn a_greater_value_is_no_lower(a in 0.0..1e9f64, b in 0.0..1e9f64) {
            for scale in [Scale::from_zero([a, b].into_iter()), Scale::log([a, b].into_iter())] {
                prop_assert_eq!(a <= b || scale.place(a) >= scale.place(b), true);
                prop_assert_eq!(a >= b || scale.place(a) <= scale.place(b), true);
            }
        }
    }
}
