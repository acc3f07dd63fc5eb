//! Median of a few repeats, with its interval, without an assumption about their noise.
//!
//! The interval from the `(k+1)`-th smallest to the `(k+1)`-th greatest of `n` independent values
//! of one continuous distribution, whatever it is, holds that distribution's median with a
//! probability of exactly `1 - 2 P(B <= k)`, B being binomial with `n` and 1/2 (Thompson 1936;
//! David and Nagaraja 2003, *Order Statistics*, 7.1). Taken is the narrowest of at least [`LEVEL`]:
//!
//! | n | 2 | 3 | 4 | 5 | 6 | 7 | 8 | 9 | 10 |
//! |---|---|---|---|---|---|---|---|---|---|
//! | from the | least | least | least | least | least | least | 2nd | 2nd | 2nd |
//! | level, % | 50 | 75 | 87.5 | 93.8 | 96.9 | 98.4 | 93.0 | 96.1 | 97.9 |
//!
//! For fewer than five values it is the whole range, with the level that this has. A bootstrap of
//! so few values would pretend to know more: its percentiles cannot lie outside of them either, and
//! its 95 % of five are about 83 %.

use serde::{Deserialize, Serialize};

use crate::studies::compare::Interval;
use crawlmark_harness::stats::median;

/// The least level of an interval, where there are enough values for it.
pub const LEVEL: f64 = 0.9;

/// Estimate of the value that some values vary around.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Estimate {
    /// Their median.
    pub median: f64,
    /// Interval that holds the true median with a probability of `level`; none of a single value.
    pub interval: Option<Interval>,
    /// See `interval`.
    pub level: Option<f64>,
    /// Number of values.
    pub count: usize,
}

impl Estimate {
    /// Estimate from finite values, in any order; none of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values
            .into_iter()
            .filter(|value| value.is_finite())
            .collect();
        let count = values.len();
        let median = median(&mut values)?;
        let left_away = left_away(count);
        values.sort_by(f64::total_cmp);
        let interval = (count > 1).then(|| Interval {
            low: values[left_away],
            high: values[count - 1 - left_away],
        });
        Some(Self {
            median,
            interval,
            level: interval.map(|_| level(count, left_away)),
            count,
        })
    }

    /// The estimate of the inverse of the value: the ends of its interval change places.
    #[must_use]
    pub fn inverse(self) -> Self {
        let interval = self.interval.map(|of| Interval {
            low: 1.0 / of.high,
            high: 1.0 / of.low,
        });
        Self {
            median: 1.0 / self.median,
            interval,
            ..self
        }
    }

    /// The value and its interval, `7.92` and ` (7.84 to 8.01)`, which is empty of a single value.
    /// Both are rounded alike, so the one is within the other.
    pub fn texts(&self, format: impl Fn(f64) -> String) -> [String; 2] {
        let interval = self.interval.map_or_else(String::new, |between| {
            format!(" ({} to {})", format(between.low), format(between.high))
        });
        [format(self.median), interval]
    }

    /// The estimate of a value that is claimed to be above `most` only where chance is excluded.
    #[must_use]
    pub fn at_most(mut self, most: f64) -> Self {
        if !self.is_above(most) {
            self.median = self.median.min(most);
            if let Some(interval) = &mut self.interval {
                interval.low = interval.low.min(most);
            }
        }
        self
    }

    /// True if its interval is above `value` with at least [`LEVEL`]: what is not known is not
    /// above.
    pub fn is_above(&self, value: f64) -> bool {
        self.level.is_some_and(|level| level >= LEVEL)
            && self.interval.is_some_and(|interval| interval.low > value)
    }
}

/// The probability that the median lies between the `(k+1)`-th smallest and the `(k+1)`-th greatest
/// of `n`.
fn level(n: usize, k: usize) -> f64 {
    let mut term = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut below = 0.0;
    for i in 0..=k {
        below += term;
        term *= (n - i) as f64 / (i + 1) as f64;
    }
    1.0 - 2.0 * below
}

/// Return the number of values of `n` that may be left away at either end.
fn left_away(n: usize) -> usize {
    (1..n.div_ceil(2))
        .take_while(|k| level(n, *k) >= LEVEL)
        .last()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::studies::StudyFinding;
    use crate::studies::scale::FixedQuantity;

    proptest! {
        #[test]
        fn a_value_is_within_its_interval_as_it_is_printed(
            efficiencies in prop::collection::vec(0.9..1.1_f64, 2..12), spread in 0.0..1.0_f64, shards in 2_u32..64,
        ) {
            let near = |e: &f64| 0.985 + (e - 0.985) * spread.powi(3);
            let efficiency = Estimate::of(efficiencies.iter().map(near)).unwrap();
            let speedup = Estimate::of(efficiencies.iter().map(|e| near(e) * f64::from(shards))).unwrap();
            let text = StudyFinding::Grew {
                held: FixedQuantity::ConnectionsPerShard(1),
                sizes: [1.0, f64::from(shards)],
                speedup,
                efficiency,
                cost: Some(speedup.inverse()),
            }
            .notice()
            .title;
            // Of each estimate: its value, and the two of its interval.
            let words = text.replace(['(', ')', ',', 'x', '%', '>'], " ");
            let words: Vec<&str> = words.split_whitespace().collect();
            let within: Vec<[f64; 2]> = words
                .windows(3)
                .filter_map(|it| (it[1] == "to").then_some([it[0].parse().ok()?, it[2].parse().ok()?]))
                .collect();
            let number = |after: &str| words[words.iter().position(|it| *it == after).unwrap() + 1].parse::<f64>().unwrap();
            let values = [number("are"), number("shard:"), number("at")];
            prop_assert_eq!(within.len(), 3, "{}", text);
            for (value, [low, high]) in values.into_iter().zip(within) {
                prop_assert!(low <= value && value <= high, "{}", text);
            }
        }
    }

    #[test]
    fn levels_are_those_of_the_table() {
        let expected = [
            (2, 0, 0.5),
            (3, 0, 0.75),
            (4, 0, 0.875),
            (5, 0, 0.9375),
            (6, 0, 0.968_75),
            (7, 0, 0.984_375),
        ];
        let later = [
            (8, 1, 0.929_687_5),
            (9, 1, 0.960_937_5),
            (10, 1, 0.978_515_625),
            (11, 2, 0.934_570_312_5),
        ];
        for (n, k, expected) in expected.into_iter().chain(later) {
            assert_eq!((left_away(n), level(n, left_away(n))), (k, expected), "{n}");
        }
    }

    #[test]
    fn a_median_has_the_interval_of_its_order_statistics() {
        let of = |values: &[f64]| Estimate::of(values.iter().copied());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[f64::NAN]), None);
        assert_eq!(
            of(&[3.0]),
            Some(Estimate {
                median: 3.0,
                interval: None,
                level: None,
                count: 1
            })
        );
        let interval = |low, high| Some(Interval { low, high });
        let five = of(&[5.0, 1.0, 4.0, 2.0, 3.0]).unwrap();
        assert_eq!(
            (five.median, five.interval, five.count),
            (3.0, interval(1.0, 5.0), 5)
        );
        let eight = of(&[8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]).unwrap();
        assert_eq!((eight.median, eight.interval), (4.5, interval(2.0, 7.0)));
    }

    #[test]
    fn it_holds_the_median_as_often_as_it_says() {
        let mut draw = fastrand::Rng::with_seed(7);
        for n in [3, 5, 8, 10] {
            // Skewed, with a median of ln 2.
            let holds = (0..20_000).filter(|_| {
                let estimate = Estimate::of((0..n).map(|_| -(1.0 - draw.f64()).ln())).unwrap();
                estimate.interval.unwrap().contains(std::f64::consts::LN_2)
            });
            let (seen, said) = (holds.count() as f64 / 20_000.0, level(n, left_away(n)));
            // Four standard deviations.
            assert!(
                (seen - said).abs() < 4.0 * (said * (1.0 - said) / 20_000.0).sqrt(),
                "{n}: {seen} and {said}"
            );
        }
    }

    #[test]
    fn what_is_known_to_be_above_needs_the_level() {
        assert!(!Estimate::of([1.0; 4]).unwrap().is_above(0.0));
        assert!(Estimate::of([1.0; 5]).unwrap().is_above(0.0));
        assert!(
            !Estimate::of([1.0, 1.0, 1.0, 1.0, 0.0])
                .unwrap()
                .is_above(0.0)
        );
    }
}
