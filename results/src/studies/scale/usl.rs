//! Gunther's Universal Scalability Law, fitted to the rounds of a curve.
//!
//! ```text
//! X(N) = l N / (1 + s (N - 1) + k N (N - 1))     s contention, k coherency, l what one does
//! ```
//!
//! The time of an item, `ln(N / X)`, of each repeat is fitted by least squares: its noise is a part
//! of it, and what a repeat's machine was slower than another's is no scaling, so each has a level of
//! its own. `s` and `k` are not below 0. An interval has the values whose least squares, all others
//! free, are not greater than `1 + t^2 / degrees` times the least, `t` being Student's quantile
//! (Bates, D. M. and Watts, D. G. (1988), *Nonlinear Regression Analysis*, 6.1).
//!
//! Gunther, N. J. (2007), *Guerrilla Capacity Planning*, 4 to 6; Gunther, N. J. (2008), *A General
//! Theory of Computational Scalability Based on Rational Functions*, arXiv:0808.1431.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::studies::compare::Interval;

/// The fewest sizes that tell two coefficients from noise.
const SIZES: usize = 4;

/// Probability of an interval.
const LEVEL: f64 = 0.95;

/// Times the greatest size that a peak is told of: farther away, it follows from the noise of the
/// coherency alone.
const FARTHEST: f64 = 4.0;

/// Steps of a search, each of which leaves 0.62 of a range: a coefficient of 0.001 is known to 1 in
/// 30,000.
const STEPS: u32 = 28;

/// Steps of a search of an end, each of which halves a range.
const HALVES: u32 = 20;

/// The part of a range that is left (Kiefer, J. (1953), *Sequential minimax search for a maximum*).
const GOLDEN: f64 = 0.618_033_988_749_894_9;

/// The law of a curve.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usl {
    /// Part of an item's time that only one can do at a time.
    pub contention: Fitted,
    /// Part of it that each pays for each other one.
    pub coherency: Fitted,
    /// Size with the highest throughput; none if none is known, up to four times the greatest size.
    pub peak: Option<Fitted>,
    /// Good items per second of a size of 1.
    pub alone_per_s: f64,
}

/// A value with the interval that holds it with a probability of 95 %.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// The likeliest value.
    pub value: f64,
    /// The interval.
    pub interval: Interval,
}

impl Fitted {
    pub(in crate::studies) fn text(&self, format: fn(f64) -> String) -> String {
        let Interval { low, high } = self.interval;
        format!(
            "{} ({} to {})",
            format(self.value),
            format(low),
            format(high)
        )
    }
}

impl Usl {
    /// Fit the law to rounds: the repeat, the size, and the good items per second of each. None of
    /// fewer than four sizes.
    pub(super) fn of(rounds: impl IntoIterator<Item = (usize, f64, f64)>) -> Option<Self> {
        let mut repeats: BTreeMap<usize, Vec<[f64; 2]>> = BTreeMap::new();
        for (repeat, n, per_s) in rounds.into_iter().filter(|of| of.2 > 0.0) {
            repeats
                .entry(repeat)
                .or_default()
                .push([n, (n / per_s).ln()]);
        }
        let fit = Fit::new(repeats.into_values().collect());
        let mut sizes: Vec<f64> = fit.rounds().map(|[n, _]| *n).collect();
        // A level of each repeat, and two coefficients.
        let free = sizes.len().checked_sub(fit.0.len() + 2)?;
        sizes.sort_by(f64::total_cmp);
        sizes.dedup();
        let greatest = *sizes.get(SIZES - 1..)?.last()?;
        let degrees = Some(free as f64).filter(|free| *free > 0.0)?;
        let t = StudentsT::new(0.0, 1.0, degrees).ok()?;
        let within = 1.0 + t.inverse_cdf(f64::midpoint(1.0, LEVEL)).powi(2) / degrees;

        let contention = fitted(within, |s| least(|k| fit.squares(s, k)).1);
        let coherency = fitted(within, |k| least(|s| fit.squares(s, k)).1);
        // By its inverse, which is 0 where there is none.
        let inverse = fitted(within, |v| least(|s| fit.squares(s, (1.0 - s) * v * v)).1);
        let peak = Fitted {
            value: 1.0 / inverse.value,
            interval: Interval {
                low: 1.0 / inverse.interval.high,
                high: 1.0 / inverse.interval.low,
            },
        };
        let has_peak = peak.interval.high.is_finite() && peak.value <= greatest * FARTHEST;
        Some(Self {
            contention,
            coherency,
            peak: has_peak.then_some(peak),
            alone_per_s: (-fit.level(contention.value, coherency.value)).exp(),
        })
    }

    /// Good items per second of a size.
    pub fn per_s(&self, n: f64) -> f64 {
        self.alone_per_s * n / slowdown(self.contention.value, self.coherency.value, n)
    }
}

/// How many times longer an item takes at a size.
fn slowdown(s: f64, k: f64, n: f64) -> f64 {
    1.0 + s * (n - 1.0) + k * n * (n - 1.0)
}

/// Sizes and times of an item, by repeat.
struct Fit(Vec<Vec<[f64; 2]>>);

impl Fit {
    /// In the order of their values: sums are the same whatever order the rounds had.
    fn new(mut repeats: Vec<Vec<[f64; 2]>>) -> Self {
        for rounds in &mut repeats {
            rounds.sort_by(|one, other| one[1].total_cmp(&other[1]));
        }
        repeats.sort_by(|one, other| one[0][1].total_cmp(&other[0][1]));
        Self(repeats)
    }

    fn rounds(&self) -> impl Iterator<Item = &[f64; 2]> {
        self.0.iter().flatten()
    }

    /// The squares that these coefficients leave.
    fn squares(&self, s: f64, k: f64) -> f64 {
        let beyond = |[n, time]: &[f64; 2]| time - slowdown(s, k, *n).ln();
        self.0
            .iter()
            .map(|rounds| {
                let level = rounds.iter().map(beyond).sum::<f64>() / rounds.len() as f64;
                rounds
                    .iter()
                    .map(|of| (beyond(of) - level).powi(2))
                    .sum::<f64>()
            })
            .sum()
    }

    /// The level that they leave, in the mean of the rounds.
    fn level(&self, s: f64, k: f64) -> f64 {
        self.rounds()
            .map(|[n, time]| time - slowdown(s, k, *n).ln())
            .sum::<f64>()
            / self.rounds().count() as f64
    }
}

/// The value from 0 to 1 that leaves the least squares, and those that leave `within` as much.
fn fitted(within: f64, squares: impl Fn(f64) -> f64) -> Fitted {
    let (value, fewest) = least(&squares);
    let most = fewest * within + f64::EPSILON;
    let is_within = |at: f64| squares(at) <= most;
    Fitted {
        value,
        interval: Interval {
            low: end(value, 0.0, is_within),
            high: end(value, 1.0, is_within),
        },
    }
}

/// The last place from one that is within something to one that may not be, by halves of the fourth
/// root.
fn end(inside: f64, outside: f64, is_within: impl Fn(f64) -> bool) -> f64 {
    if is_within(outside) {
        return outside;
    }
    let (mut near, mut far) = (root(inside), root(outside));
    for _ in 0..HALVES {
        let middle = f64::midpoint(near, far);
        if is_within(middle.powi(4)) {
            near = middle;
        } else {
            far = middle;
        }
    }
    near.powi(4)
}

/// The place from 0 to 1 of the least value, and that value, of a function that falls and then
/// rises. Small places are as exact as great ones: it is searched by the fourth root.
fn least(of: impl Fn(f64) -> f64) -> (f64, f64) {
    let value = |at: f64| of(at.powi(4));
    let [mut low, mut high] = [0.0, 1.0];
    let [mut left, mut right] = [1.0 - GOLDEN, GOLDEN];
    let [mut at_left, mut at_right] = [left, right].map(&value);
    for _ in 0..STEPS {
        if at_left <= at_right {
            (high, right, at_right) = (right, left, at_left);
            left = high - GOLDEN * (high - low);
            at_left = value(left);
        } else {
            (low, left, at_left) = (left, right, at_right);
            right = low + GOLDEN * (high - low);
            at_right = value(right);
        }
    }
    let found = [0.0, f64::midpoint(low, high), 1.0].map(|at| (at.powi(4), value(at)));
    let [first, ..] = found;
    found.into_iter().fold(
        first,
        |least, other| if other.1 < least.1 { other } else { least },
    )
}

fn root(value: f64) -> f64 {
    value.sqrt().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [f64; 6] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0];

    /// Fits of curves of these coefficients with a noise of this part.
    fn fits(s: f64, k: f64, noise: f64, repeats: usize, trials: u64) -> Vec<Usl> {
        let mut draw = fastrand::Rng::with_seed(7);
        let mut normal = || (0..12).map(|_| draw.f64()).sum::<f64>() - 6.0;
        let mut curve = || {
            let mut rounds = Vec::new();
            for repeat in 0..repeats {
                // A repeat's machine is faster or slower than another's.
                let machine = (0.2 * normal()).exp();
                for n in SIZES {
                    let per_s = 1_000.0 * machine * n / slowdown(s, k, n);
                    rounds.push((repeat, n, per_s * (noise * normal()).exp()));
                }
            }
            Usl::of(rounds).unwrap()
        };
        (0..trials).map(|_| curve()).collect()
    }

    #[test]
    fn known_coefficients_and_peaks_are_within_their_intervals_in_95_of_100() {
        const TRIALS: u64 = 80;
        let holds = |fitted: &Fitted, value: f64| {
            fitted.interval.low <= value && value <= fitted.interval.high
        };
        for (s, k, noise, repeats) in [
            (0.05, 0.001, 0.01, 5),
            (0.02, 0.004, 0.03, 3),
            (0.2, 0.0, 0.02, 5),
        ] {
            let fits = fits(s, k, noise, repeats, TRIALS);
            let mut all = vec![
                fits.iter().filter(|it| holds(&it.contention, s)).count(),
                fits.iter().filter(|it| holds(&it.coherency, k)).count(),
            ];
            if k > 0.0 {
                let peak = ((1.0 - s) / k).sqrt();
                let told = fits
                    .iter()
                    .filter(|it| it.peak.is_some_and(|it| holds(&it, peak)));
                all.push(told.count());
            }
            // 95 % less three standard deviations of so many trials.
            assert!(all.iter().all(|held| *held >= 70), "{s} {k}: {all:?}");
        }
    }

    #[test]
    fn a_linear_curve_has_no_peak() {
        for noise in [0.001, 0.03] {
            let fits = fits(0.0, 0.0, noise, 5, 50);
            assert!(fits.iter().all(|it| it.peak.is_none()), "{noise}");
            assert!(fits.iter().all(|it| it.contention.interval.low <= 0.01));
        }
    }

    #[test]
    fn what_has_no_noise_is_found_and_three_sizes_are_too_few() {
        let per_s = |n: f64| 700.0 * n / slowdown(0.1, 0.002, n);
        let of = |sizes: &[f64]| Usl::of(sizes.iter().map(|n| (1, *n, per_s(*n))));
        assert_eq!(of(&SIZES[..3]), None);
        let fit = of(&SIZES).unwrap();
        let close = |one: f64, other: f64| (one - other).abs() <= 1e-3 * other;
        assert!(
            close(fit.contention.value, 0.1) && close(fit.coherency.value, 0.002),
            "{fit:?}"
        );
        assert!(close(fit.alone_per_s, 700.0) && close(fit.per_s(20.0), per_s(20.0)));
        assert!(close(fit.peak.unwrap().value, (0.9_f64 / 0.002).sqrt()));
    }
}
