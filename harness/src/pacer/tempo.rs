//! `Tempo`: the time scale of a budget. It runs slower than the clock while the rate is lower than
//! its peak.
//!
//! On this scale a budget is always one request per interval, however its rate changes, so one
//! limiter and one audit serve all shapes. With `r(t)` the rate at `t` and `p` its peak, the time is
//!
//! ```text
//! v(t) = integral from the start to t of r(u) / p du
//! ```
//!
//! in whole nanoseconds, rounded down: a window holds no more than it may, to within a nanosecond.
//! With a constant rate, `v(t)` is exactly `t`. With a rate per
//! window it stands still until the next window begins. Once shards of the run are gone for good,
//! it runs faster by what their shares add to this one's ([`Growth`]). Pure; called by the pacer
//! and by the report.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Nanos, duration_ns};
use crate::units::RateShape;

/// Course of a rate over a run, relative to its peak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Curve {
    shape: RateShape,
    /// Length of the run, over which a ramp goes, ns; 0 if it has none.
    length_ns: u64,
}

impl Curve {
    /// One that does not change.
    pub const FLAT: Self = Self {
        shape: RateShape::Constant,
        length_ns: 0,
    };

    /// The curve of a rate that changes so in a run of this length; a ramp without one does not
    /// climb.
    pub fn of(shape: RateShape, duration: Option<Duration>) -> Self {
        Self {
            shape,
            length_ns: duration.map_or(0, duration_ns),
        }
    }

    /// Course of the rate.
    pub const fn shape(&self) -> RateShape {
        self.shape
    }

    /// True if it does not change.
    pub const fn is_flat(&self) -> bool {
        matches!(self.shape, RateShape::Constant)
    }

    /// The budget's own time `t` ns after the start, ns; never more than `t`.
    pub fn at(&self, t: u64) -> u64 {
        let permits = match self.shape {
            RateShape::Constant => return t,
            RateShape::Windows { every_ns } => {
                // No window begins at the end.
                let t = t.min(self.length_ns.wrapping_sub(1));
                return t - t % every_ns.max(1);
            }
            RateShape::Ramp { from, to } => {
                let ramp = u128::from(self.length_ns.max(1));
                let (climbing, rest) =
                    (u128::from(t).min(ramp), u128::from(t).saturating_sub(ramp));
                let (from, to) = (u128::from(from.permits), u128::from(to.permits));
                // from * t + (to - from) * t^2 / (2 * ramp), where t^2 <= t * ramp keeps it
                // positive.
                let square = climbing * climbing / (2 * ramp);
                let falls = from.saturating_sub(to) * square + u128::from(from > to);
                (from * climbing + to.saturating_sub(from) * square).saturating_sub(falls)
                    + to * rest
            }
            RateShape::Steps {
                from,
                to,
                step,
                every_ns,
            } => {
                let (from, to, step) = (
                    u128::from(from.permits),
                    u128::from(to.permits),
                    u128::from(step.permits).max(1),
                );
                let every = u128::from(every_ns.max(1));
                // How many rates there are before the last one, and how many of them are over.
                let rates = from.abs_diff(to).div_ceil(step);
                let over = (u128::from(t) / every).min(rates);
                let added = step * (over * over.saturating_sub(1) / 2);
                let (whole, rate) = if to > from {
                    (from * over + added, (from + step * over).min(to))
                } else {
                    let rate = from.saturating_sub(step * over);
                    (from * over - added, rate.max(to))
                };
                every * whole + rate * (u128::from(t) - every * over)
            }
        };
        u64::try_from(permits / u128::from(self.peak().max(1))).unwrap_or(u64::MAX)
    }

    fn peak(&self) -> u64 {
        self.shape.peak().map_or(1, |peak| peak.permits)
    }

    /// When a request of a timetable is due, ns after the start, whose place in it is `own`: with
    /// its window, all of which are due when that begins.
    pub fn due(&self, own: u64) -> u64 {
        match self.shape {
            RateShape::Windows { every_ns } => own - own % every_ns.max(1),
            _ => self.reaches(own),
        }
    }

    /// The budget's own time of what is due before `t` ns after the start, ns: of windows, all that
    /// have begun.
    pub fn due_before(&self, t: u64) -> u64 {
        match self.shape {
            RateShape::Windows { every_ns } => t.div_ceil(every_ns.max(1)).saturating_mul(every_ns),
            _ => self.at(t),
        }
    }

    /// The first moment, ns after the start, at which the budget's own time is `own` or more.
    pub fn reaches(&self, own: u64) -> u64 {
        if self.is_flat() || own == 0 {
            return own;
        }
        // Never faster than the clock: it takes at least so long. Twice as long is enough sooner or
        // later.
        let (mut low, mut high) = (0, own);
        while self.at(high) < own && high < u64::MAX {
            (low, high) = (high, high.saturating_mul(2));
        }
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if self.at(middle) >= own {
                high = middle;
            } else {
                low = middle;
            }
        }
        high
    }
}

/// How much larger each share of a budget is than at the start, as `whole / kept`: the shards that
/// are left share what all of them had.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Growth {
    /// Shares at the start.
    pub whole: u64,
    /// Shares that are left, at least 1.
    pub kept: u64,
}

impl Growth {
    /// What `share` has become, rounded down: all together are never more than the whole.
    pub fn of(self, share: u64) -> u64 {
        let grown = u128::from(share) * u128::from(self.whole) / u128::from(self.kept.max(1));
        u64::try_from(grown).unwrap_or(u64::MAX)
    }

    /// The least share that has become `grown`.
    pub fn needed(self, grown: u64) -> u64 {
        let share =
            (u128::from(grown) * u128::from(self.kept)).div_ceil(u128::from(self.whole.max(1)));
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// Time scale of a budget.
#[derive(Debug)]
pub(super) struct Tempo {
    curve: Curve,
    start: Nanos,
    grown: Option<Grown>,
}

/// A share that has grown.
#[derive(Debug, Clone, Copy)]
struct Grown {
    /// When it grew: the curve's time, and the budget's own.
    at: u64,
    own: u64,
    growth: Growth,
}

impl Tempo {
    /// The tempo of a budget that starts at `start`.
    pub(super) const fn new(curve: Curve, start: Nanos) -> Self {
        Self {
            curve,
            start,
            grown: None,
        }
    }

    /// The budget's own time at `now`: never runs backwards.
    pub(super) fn own(&self, now: Nanos) -> Nanos {
        let at = self.curve.at(now.since(self.start));
        let own = self.grown.map_or(at, |grown| {
            grown
                .own
                .saturating_add(grown.growth.of(at.saturating_sub(grown.at)))
        });
        Nanos(self.start.0.saturating_add(own))
    }

    /// The first moment at which the budget's own time is `own` or more; of a moment before the
    /// share grew, when it grew.
    pub(super) fn when(&self, own: Nanos) -> Nanos {
        let own = own.since(self.start);
        let at = self.grown.map_or(own, |grown| {
            grown
                .at
                .saturating_add(grown.growth.needed(own.saturating_sub(grown.own)))
        });
        Nanos(self.start.0.saturating_add(self.curve.reaches(at)))
    }

    /// From `now` on the share is this much larger than at the start.
    pub(super) fn grow(&mut self, growth: Growth, now: Nanos) {
        self.grown = Some(Grown {
            at: self.curve.at(now.since(self.start)),
            own: self.own(now).since(self.start),
            growth,
        });
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::units::{Rate, ShapedRate};

    const S: u64 = 1_000_000_000;

    #[test]
    fn no_window_begins_at_the_end() {
        let shape = RateShape::Windows { every_ns: S };
        for length_s in 1..5 {
            let curve = Curve::of(shape, Some(Duration::from_secs(length_s)));
            assert_eq!(curve.at(length_s * S), (length_s - 1) * S);
            assert_eq!(curve.reaches(length_s * S), u64::MAX);
        }
    }

    fn curve(text: &str, ramp_s: u64) -> Curve {
        let shape = text.parse::<ShapedRate>().unwrap().shape;
        Curve {
            shape,
            length_ns: ramp_s * S,
        }
    }

    #[test]
    fn own_time_is_the_integral_of_the_rate() {
        let ms = |curve: Curve, t: u64| curve.at(t * S) / 1_000_000;
        // 0 to 100 in 10 s: half of the peak in the mean; then at the peak.
        let up = curve("0:100", 10);
        assert_eq!([5, 10, 12].map(|t| ms(up, t)), [1_250, 5_000, 7_000]);
        let down = curve("100:50", 10);
        assert_eq!(
            [10, 12].map(|t| ms(down, t)),
            [7_499, 8_499],
            "rounded down"
        );
        // 10, 14, 18, 20, 20 ... for 5 s each.
        let steps = curve("10:20:4@5s", 0);
        assert_eq!(
            [5, 10, 15, 17, 20].map(|t| ms(steps, t)),
            [2_500, 6_000, 10_500, 12_500, 15_500]
        );
        // 20, 16, 12, 10, 10 ...
        let falling = curve("20:10:4@5s", 0);
        assert_eq!(
            [5, 10, 15, 20].map(|t| ms(falling, t)),
            [5_000, 9_000, 12_000, 14_500]
        );
    }

    fn any_shape() -> impl Strategy<Value = RateShape> {
        let rate = |permits| Rate {
            permits,
            period_ns: S,
        };
        let ramp = (0..1_000_u64, 1..1_000_u64).prop_map(move |(a, b)| RateShape::Ramp {
            from: rate(a),
            to: rate(b),
        });
        let steps = (1..1_000_u64, 1..1_000_u64, 1..300_u64, 1..500_u64).prop_map(
            move |(a, b, c, every_ns)| RateShape::Steps {
                from: rate(a),
                to: rate(b),
                step: rate(c),
                every_ns,
            },
        );
        let windows = (1..500_u64).prop_map(|every_ns| RateShape::Windows { every_ns });
        prop_oneof![Just(RateShape::Constant), ramp, steps, windows]
    }

    proptest! {
        #[test]
        fn own_time_never_runs_backwards_nor_faster_than_the_clock(
            shape in any_shape(), length_ns in 1..2_000_u64, t in 0..5_000_u64, later in 0..5_000_u64,
        ) {
            let curve = Curve { shape, length_ns };
            let (one, other) = (curve.at(t), curve.at(t + later));
            // Rounding down may hold back a nanosecond, which is then made up for; a window all of
            // its time.
            let held_back = if let RateShape::Windows { every_ns } = shape { every_ns } else { 1 };
            prop_assert!(one <= other && other <= t + later && other - one <= later + held_back, "{one} {other}");
        }

        #[test]
        fn a_moment_is_named_exactly(
            shape in any_shape(), length_ns in 1..2_000_u64, ahead in 0..4_000_u64, grows in 0..2_000_u64, kept in 1..4_u64, lost in 0..4_u64,
        ) {
            let mut tempo = Tempo::new(Curve { shape, length_ns }, Nanos(11));
            let now = Nanos(11 + grows);
            let before = tempo.own(now);
            tempo.grow(Growth { whole: kept + lost, kept }, now);
            prop_assert_eq!(tempo.own(now), before, "growth earns nothing at once");
            let wanted = Nanos(before.0 + ahead);
            let when = tempo.when(wanted);
            if when < Nanos(u64::MAX) {
                prop_assert!(tempo.own(when) >= wanted, "never early");
                if when > now {
                    prop_assert!(tempo.own(Nanos(when.0 - 1)) < wanted, "never late");
                }
            }
        }
    }
}
