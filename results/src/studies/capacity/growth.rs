//! Detect a target that fell behind while it was probed: response times that grow for as long as a
//! probe lasts.
//!
//! A target that queues whatever it does not manage answers later and later: offered a rate `R`
//! beyond its capacity `C`, the wait is `(R/C - 1) t` after a time `t`. A probe may end before that
//! reaches what is wanted, so the end of the wait is not asked for but its slope: by the line of
//! least squares through the medians of the seconds, and a one-sided t-test of its slope (N. R.
//! Draper, H. Smith, *Applied Regression Analysis*, 1.4). What is tested is not that it is above 0
//! but that it is above half of the precision: a slope of less is no overload that a search of this
//! precision would tell from none.

use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::run::report::IntervalRow;

/// Seconds that a line needs: with fewer, a third or a sixth of all orders of them rise.
pub(super) const LEAST_SECONDS: usize = 4;

/// Confidence required.
const LEVEL: f64 = 0.99;

/// Growth of the median response time of good answers over the seconds of a probe.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Growth {
    /// Increase per second: seconds per second, which is the part of what is offered that the
    /// target does not manage.
    pub slope: f64,
    /// The standard error of that.
    error: f64,
    /// Seconds less the two that a line takes.
    degrees: f64,
}

impl Growth {
    /// Fit the growth over these seconds; none of fewer than four that have a median.
    #[must_use]
    pub fn of<'a>(rows: impl Iterator<Item = &'a IntervalRow>) -> Option<Self> {
        let medians = rows.filter_map(|row| Some((row.start_s as f64, row.response_p50_us? / 1e6)));
        Self::through(&medians.collect::<Vec<_>>())
    }

    /// The line through points of a time, s, and how long a response took, s.
    fn through(points: &[(f64, f64)]) -> Option<Self> {
        if points.len() < LEAST_SECONDS {
            return None;
        }
        let count = points.len() as f64;
        let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
        let (mean_t, mean_s) = (mean(|point| point.0), mean(|point| point.1));
        let spread: f64 = points.iter().map(|(t, _)| (t - mean_t).powi(2)).sum();
        let slope = points
            .iter()
            .map(|(t, s)| (t - mean_t) * (s - mean_s))
            .sum::<f64>()
            / spread;
        let left: f64 = points
            .iter()
            .map(|(t, s)| (s - mean_s - slope * (t - mean_t)).powi(2))
            .sum();
        let degrees = count - 2.0;
        Some(Self {
            slope,
            error: (left / degrees / spread).sqrt(),
            degrees,
        })
    }

    /// True if it grew, surely, by more than this part of each second.
    #[must_use]
    pub fn is_above(&self, part: f64) -> bool {
        let Ok(student) = StudentsT::new(0.0, 1.0, self.degrees) else {
            return false;
        };
        self.slope - student.inverse_cdf(LEVEL) * self.error > part
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(seconds: u32, at: impl FnMut(f64) -> f64) -> Growth {
        let points: Vec<(f64, f64)> = (1..=seconds)
            .map(f64::from)
            .zip((1..=seconds).map(f64::from).map(at))
            .collect();
        Growth::through(&points).unwrap()
    }

    #[test]
    fn a_queue_without_an_end_grows_by_the_excess() {
        let growth = line(4, |t| 0.02 + 0.03 * t);
        assert!((growth.slope - 0.03).abs() < 1e-12);
        assert!(growth.is_above(0.01) && growth.is_above(0.029) && !growth.is_above(0.031));
    }

    #[test]
    fn noise_is_taken_for_growth_once_in_a_hundred() {
        let mut draw = fastrand::Rng::with_seed(7);
        let mut normal = || (0..12).map(|_| draw.f64()).sum::<f64>() - 6.0;
        for seconds in [4, 8, 30] {
            let trials = 20_000;
            let fooled = (0..trials)
                .filter(|_| line(seconds, |_| 1.0 + normal()).is_above(0.0))
                .count();
            let share = fooled as f64 / f64::from(trials);
            assert!(
                (0.007..=0.013).contains(&share),
                "{share} of {seconds} seconds"
            );
        }
    }

    #[test]
    fn a_jump_is_no_growth_and_neither_is_what_gets_faster() {
        assert!(
            !line(6, |t| if t < 3.5 { 0.02 } else { 0.12 }).is_above(0.01),
            "it rose, and stayed"
        );
        assert!(!line(6, |t| 0.5 - 0.05 * t).is_above(0.01));
        assert_eq!(Growth::through(&[(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)]), None);
    }
}
