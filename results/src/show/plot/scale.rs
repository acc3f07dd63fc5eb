//! From values to places along an axis, and the round values at which it has ticks.

use crawlmark_harness::units::grouped;

/// The most ticks of an axis: more would crowd the labels.
const MOST_TICKS: f64 = 6.0;

/// Scale that maps values to places between 0 and 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scale {
    /// In equal steps from the first to the second.
    Linear(f64, f64),
    /// In equal factors from the first to the second, both above 0.
    Log(f64, f64),
}

impl Scale {
    /// From 0 to a round value no less than the greatest; to 1 when there is none above 0.
    pub(super) fn from_zero(values: impl IntoIterator<Item = f64>) -> Self {
        let top = greatest(values);
        if top <= 0.0 {
            return Self::Linear(0.0, 1.0);
        }
        // A little air above, so that the line is not taken for the frame.
        let step = round_step(top * 1.02 / MOST_TICKS);
        Self::Linear(0.0, (top * 1.02 / step).ceil().max(1.0) * step)
    }

    /// Over all values above 0, from a round one to a round one; over a decade when there is none.
    pub(super) fn log(values: impl IntoIterator<Item = f64> + Clone) -> Self {
        let top = greatest(values.clone());
        let least = values.into_iter().filter(|v| v.is_finite() && *v > 0.0).fold(f64::INFINITY, f64::min);
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
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The round values of the axis, ends included where they are round.
    pub(super) fn ticks(self) -> Vec<f64> {
        match self {
            Self::Linear(low, high) => {
                let step = round_step((high - low) / MOST_TICKS);
                let count = ((high - low) / step + 1e-9).floor();
                std::iter::successors(Some(0.0), |n| Some(n + 1.0))
                    .take_while(|n| *n <= count)
                    .map(|n| low + n * step)
                    .collect()
            }
            Self::Log(low, high) => {
                let fine = high / low <= 101.0;
                let from = low.log10().floor();
                let decades = std::iter::successors(Some(from), |e| Some(e + 1.0)).take_while(|e| *e <= high.log10());
                let in_decade: &[f64] = if fine { &[1.0, 2.0, 5.0] } else { &[1.0] };
                let values = decades.flat_map(|e| in_decade.iter().map(move |m| m * 10f64.powf(e)));
                values.filter(|v| *v >= low * 0.999 && *v <= high * 1.001).collect()
            }
        }
    }
}

fn greatest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// The least of 1, 2 and 5 times a power of ten that is no less.
fn round_step(least: f64) -> f64 {
    round_above(least)
}

fn round_above(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let factor = [1.0, 2.0, 5.0, 10.0].into_iter().find(|f| f * decade >= value * (1.0 - 1e-9)).unwrap_or(10.0);
    factor * decade
}

fn round_below(value: f64) -> f64 {
    let decade = 10f64.powf(value.log10().floor());
    let factor = [5.0, 2.0, 1.0].into_iter().find(|f| f * decade <= value * (1.0 + 1e-9)).unwrap_or(1.0);
    factor * decade
}

/// A count or a rate, short enough for an axis: `0`, `0.5`, `1,200`, `25k`, `3M`.
pub(super) fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{}M", trimmed(v / 1e6)),
        v if v >= 1e4 => format!("{}k", trimmed(v / 1e3)),
        v if v >= 1e3 => whole(v),
        v => trimmed(v),
    }
}

/// A count or a rate in a sentence: whole with separators from 100 on, with a decimal below.
pub(super) fn spoken(value: f64) -> String {
    match value {
        v if v >= 100.0 => whole(v),
        v if v >= 10.0 => trimmed((v * 10.0).round() / 10.0),
        v => trimmed((v * 100.0).round() / 100.0),
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
pub(super) fn trimmed(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A time on an axis, from microseconds: `20 µs`, `5 ms`, `1 s`.
pub(super) fn time(us: f64) -> String {
    match us {
        v if v >= 1e6 * 0.999 => format!("{} s", short(v / 1e6)),
        v if v >= 1e3 * 0.999 => format!("{} ms", trimmed(v / 1e3)),
        v => format!("{} µs", trimmed(v)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn axes_end_at_round_values_with_room_for_all() {
        for (top, want) in [(0.0, 1.0), (1.0, 1.2), (97.0, 100.0), (99.0, 120.0), (1_234.0, 1_500.0), (6e6, 8e6)] {
            let Scale::Linear(low, high) = Scale::from_zero([top]) else { panic!("linear") };
            assert!(low == 0.0 && (high - want).abs() < want * 1e-9, "{top}: {high}");
        }
        assert_eq!(Scale::log([340.0, 81_000.0]), Scale::Log(200.0, 100_000.0));
        assert_eq!(Scale::log([]), Scale::Log(1e3, 1e4));
    }

    #[test]
    fn labels_are_short() {
        assert_eq!([0.0, 0.5, 30.0, 1_200.0, 25_000.0, 3e6].map(short), ["0", "0.5", "30", "1,200", "25k", "3M"]);
        assert_eq!([0.5, 20.0, 1e3, 2e5, 5e6].map(time), ["0.5 µs", "20 µs", "1 ms", "200 ms", "5 s"]);
    }

    proptest! {
        #[test]
        fn ticks_rise_are_few_and_lie_on_the_axis(a in 1e-3..1e9f64, factor in 1.0..1e6f64) {
            for scale in [Scale::from_zero([a]), Scale::log([a, a * factor])] {
                let (Scale::Linear(low, high) | Scale::Log(low, high)) = scale;
                let ticks = scale.ticks();
                prop_assert!(ticks.is_sorted() && (2..=9).contains(&ticks.len()), "{scale:?}: {ticks:?}");
                prop_assert!(ticks.iter().all(|t| *t >= low * 0.999 && *t <= high * 1.001), "{scale:?}: {ticks:?}");
                prop_assert!(scale.place(a) >= 0.0 && scale.place(a) <= 1.0);
            }
        }

        #[test]
        fn a_greater_value_is_no_lower(a in 0.0..1e9f64, b in 0.0..1e9f64) {
            for scale in [Scale::from_zero([a, b]), Scale::log([a, b])] {
                prop_assert_eq!(a <= b || scale.place(a) >= scale.place(b), true);
                prop_assert_eq!(a >= b || scale.place(a) <= scale.place(b), true);
            }
        }
    }
}
