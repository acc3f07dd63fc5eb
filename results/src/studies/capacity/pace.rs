//! An offered rate in whole steps, so that two probes of one rate are probes of the same rate.

use std::fmt;

use serde::{Deserialize, Serialize};

use crawlmark_harness::units::Rate;

/// Seconds in a minute.
const MINUTE: u64 = 60;

/// From this many a second on, rates are whole numbers per second.
const WHOLE_FROM: f64 = 100.0;

/// Requests per minute, at least 1; from 100/s on, whole ones per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Pace(u64);

impl Pace {
    /// The step nearest to so many requests per second.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "rates are far below 2^53, and positive"
    )]
    pub fn nearest(per_s: f64) -> Self {
        let per_min = if per_s >= WHOLE_FROM {
            per_s.round() * MINUTE as f64
        } else {
            (per_s * MINUTE as f64).round()
        };
        Self((per_min as u64).max(1))
    }

    /// The step nearest to a rate.
    #[must_use]
    pub fn of(rate: Rate) -> Self {
        Self::nearest(rate.per_second())
    }

    /// The greatest step that is no more than a rate; none below one a minute.
    #[must_use]
    pub fn at_most(rate: Rate) -> Option<Self> {
        Self::within(rate.per_second())
    }

    /// The greatest step that is no more than so many requests per second; none below one a minute.
    #[must_use]
    pub fn within(per_s: f64) -> Option<Self> {
        let nearest = Self::nearest(per_s);
        let step = if nearest.per_s() > WHOLE_FROM {
            MINUTE
        } else {
            1
        };
        let is_more = nearest.per_s() > per_s * (1.0 + 1e-9);
        let within = if is_more {
            nearest.0.saturating_sub(step)
        } else {
            nearest.0
        };
        (within > 0).then_some(Self(within))
    }

    /// Requests per second.
    #[must_use]
    pub fn per_s(self) -> f64 {
        self.0 as f64 / MINUTE as f64
    }

    /// The step in the middle between two, by their ratio.
    #[must_use]
    pub fn between(self, other: Self) -> Self {
        Self::nearest((self.per_s() * other.per_s()).sqrt())
    }

    /// Twice as much.
    #[must_use]
    pub const fn doubled(self) -> Self {
        Self(self.0.saturating_mul(2))
    }

    /// Return the ratio of this rate to another.
    #[must_use]
    pub fn over(self, other: Self) -> f64 {
        self.0 as f64 / other.0 as f64
    }
}

/// As `--rate` takes it: `4040/s`, `1330/min`.
impl fmt::Display for Pace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_multiple_of(MINUTE) {
            write!(f, "{}/s", self.0 / MINUTE)
        } else {
            write!(f, "{}/min", self.0)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_rate_is_written_as_it_is_typed() {
        for (per_s, text) in [
            (4_040.4, "4040/s"),
            (100.0, "100/s"),
            (22.17, "1330/min"),
            (0.001, "1/min"),
        ] {
            assert_eq!(Pace::nearest(per_s).to_string(), text);
        }
    }

    #[test]
    fn a_bound_is_never_exceeded() {
        let at_most =
            |rate: &str| Pace::at_most(rate.parse().unwrap()).map(|pace| pace.to_string());
        for (rate, expected) in [
            ("90/h", Some("1/min")),
            ("6031/min", Some("100/s")),
            ("500/s", Some("500/s")),
            ("1/h", None),
        ] {
            assert_eq!(at_most(rate).as_deref(), expected, "{rate}");
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same_rate(per_s in 0.02..1e7f64) {
            let pace = Pace::nearest(per_s);
            let rate: Rate = pace.to_string().parse().unwrap();
            prop_assert_eq!(Pace::of(rate), pace);
            prop_assert!((pace.per_s() / per_s - 1.0).abs() < 0.5);
        }

        #[test]
        fn the_middle_lies_between(a in 1.0..1e6f64, b in 1.0..1e6f64) {
            let (a, b) = (Pace::nearest(a.min(b)), Pace::nearest(a.max(b)));
            let middle = a.between(b);
            prop_assert!(a <= middle && middle <= b);
        }
    }
}
