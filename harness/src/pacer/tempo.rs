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

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::{Nanos, duration_ns};
use crate::units::RateShape;

/// Course of a rate over a run, relative to its peak.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Curve {
    /// One that does not change.
    Flat,
    /// All of a window at its start.
    Windows {
        /// Time of each window, ns.
        every_ns: u64,
        /// Length of the run, ns; 0 if it has none.
        length_ns: u64,
    },
    /// Stage after stage, and then the last rate. The first one begins at the start.
    Stages {
        /// The stages.
        stages: Arc<[Segment]>,
        /// The highest rate, permits; at least 1.
        peak: u64,
    },
}

/// A stage, in the numbers of its integral: twice the permits, times nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    start: u64,
    /// Integral of all before it.
    before: u128,
    /// Permits at its start, at its end.
    from: u128,
    to: u128,
    /// At least 1 ns.
    length: u128,
}

impl Segment {
    /// The integral until `t` ns after its start, which is no later than its end, rounded down.
    fn until(&self, t: u64) -> u128 {
        let t = u128::from(t);
        let steady = self.before + 2 * self.from * t;
        // At most a day of a ramp: it fits into 123 bits.
        let bend = self.to.abs_diff(self.from) * t * t;
        if self.to >= self.from {
            steady + bend / self.length
        } else {
            steady - bend.div_ceil(self.length)
        }
    }

    /// The first moment, ns after the start of the run, at which the integral is `wanted`, which is
    /// no less than that of all before it.
    fn reaches(&self, wanted: u128) -> u64 {
        let after = if self.from == self.to {
            let needed = (self.from > 0).then(|| (wanted - self.before).div_ceil(2 * self.from));
            needed
                .and_then(|ns| u64::try_from(ns).ok())
                .unwrap_or(u64::MAX)
        } else {
            let (mut low, mut high) = (0, u64::try_from(self.length).unwrap_or(u64::MAX));
            while high - low > 1 {
                let middle = low + (high - low) / 2;
                if self.until(middle) >= wanted {
                    high = middle;
                } else {
                    low = middle;
                }
            }
            high
        };
        self.start.saturating_add(after)
    }
}

impl Curve {
    /// The curve of a rate that changes so in a run of this length; a ramp without one does not
    /// climb.
    pub fn of(shape: &RateShape, duration: Option<Duration>) -> Self {
        let length_ns = duration.map_or(0, duration_ns);
        let stages = match shape {
            RateShape::Constant => return Self::Flat,
            RateShape::Windows { every_ns } => {
                return Self::Windows {
                    every_ns: (*every_ns).max(1),
                    length_ns,
                };
            }
            RateShape::Stages(stages) => stages,
        };
        let mut all = Vec::with_capacity(stages.len() + 1);
        let (mut start, mut before, mut last) = (0_u64, 0, 0);
        for stage in stages {
            let [from, to] = [stage.from, stage.to].map(|rate| u128::from(rate.permits));
            let rest = length_ns.saturating_sub(start);
            let length = stage.length_ns.unwrap_or(rest).max(1);
            let segment = Segment {
                start,
                before,
                from,
                to,
                length: length.into(),
            };
            all.push(segment);
            start = start.saturating_add(length);
            before += (from + to) * segment.length;
            last = to;
        }
        all.push(Segment {
            start,
            before,
            from: last,
            to: last,
            length: 1,
        });
        Self::Stages {
            stages: all.into(),
            peak: shape.peak().map_or(1, |peak| peak.permits.max(1)),
        }
    }

    /// As [`RateShape::apart_ns`].
    pub fn apart_ns(&self) -> Option<u64> {
        match *self {
            Self::Windows { every_ns, .. } => RateShape::Windows { every_ns }.apart_ns(),
            Self::Flat | Self::Stages { .. } => None,
        }
    }

    /// The budget's own time `t` ns after the start, ns; never more than `t`.
    pub fn at(&self, t: u64) -> u64 {
        match self {
            Self::Flat => t,
            Self::Windows {
                every_ns,
                length_ns,
            } => {
                // No window begins at the end.
                let t = t.min(length_ns.wrapping_sub(1));
                t - t % every_ns
            }
            Self::Stages { stages, peak } => {
                let begun = stages.partition_point(|stage| stage.start <= t);
                let stage = &stages[begun.saturating_sub(1)];
                let whole = stage.until(t - stage.start) / (2 * u128::from(*peak));
                u64::try_from(whole).unwrap_or(u64::MAX)
            }
        }
    }

    /// When a request of a timetable is due, ns after the start, whose place in it is `own`: with
    /// its window, all of which are due when that begins; at the end of a stage, in the next one
    /// that has a rate. No request is due in a break.
    pub fn due(&self, own: u64) -> u64 {
        match self {
            Self::Flat => own,
            Self::Windows { every_ns, .. } => own - own % every_ns,
            Self::Stages { stages, peak } => {
                let ns = 2 * u128::from(*peak);
                let wanted = u128::from(own) * ns;
                // Places are rounded down, by less than a nanosecond.
                let begun = stages.partition_point(|stage| stage.before < wanted + ns);
                let stage = &stages[begun.saturating_sub(1)];
                stage.reaches(wanted.max(stage.before))
            }
        }
    }

    /// The budget's own time of what is due before `t` ns after the start, ns: of windows, all that
    /// have begun.
    pub fn due_before(&self, t: u64) -> u64 {
        match self {
            Self::Windows { every_ns, .. } => t.div_ceil(*every_ns).saturating_mul(*every_ns),
            _ => self.at(t),
        }
    }

    /// The first moment, ns after the start, at which the budget's own time is `own` or more.
    pub fn reaches(&self, own: u64) -> u64 {
        match self {
            _ if own == 0 => 0,
            Self::Flat => own,
            Self::Windows {
                every_ns,
                length_ns,
            } => {
                let begins = own.div_ceil(*every_ns).saturating_mul(*every_ns);
                // No window begins at the end.
                let is_over = *length_ns > 0 && begins >= *length_ns;
                if is_over { u64::MAX } else { begins }
            }
            Self::Stages { stages, peak } => {
                let wanted = u128::from(own) * 2 * u128::from(*peak);
                let begun = stages.partition_point(|stage| stage.before < wanted);
                stages[begun.saturating_sub(1)].reaches(wanted)
            }
        }
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
    use crate::units::{Rate, ShapedRate, Stage};

    const S: u64 = 1_000_000_000;

    #[test]
    fn no_window_begins_at_the_end() {
        let shape = RateShape::Windows { every_ns: S };
        for length_s in 1..5 {
            let curve = Curve::of(&shape, Some(Duration::from_secs(length_s)));
            assert_eq!(curve.at(length_s * S), (length_s - 1) * S);
            assert_eq!(curve.reaches(length_s * S), u64::MAX);
        }
    }

    fn curve(text: &str, run_s: u64) -> Curve {
        let shape = text.parse::<ShapedRate>().unwrap().shape;
        Curve::of(&shape, Some(Duration::from_secs(run_s)))
    }

    #[test]
    fn own_time_is_the_integral_of_the_rate() {
        let ms = |curve: &Curve, t: u64| curve.at(t * S) / 1_000_000;
        // 0 to 100 in 10 s: half of the peak in the mean; then at the peak.
        let up = curve("0:100", 10);
        assert_eq!([5, 10, 12].map(|t| ms(&up, t)), [1_250, 5_000, 7_000]);
        let down = curve("100:50", 10);
        assert_eq!([10, 12].map(|t| ms(&down, t)), [7_500, 8_500], "exactly");
        // 10, 14, 18, 20, 20 ... for 5 s each.
        let steps = curve("10:20:4@5s", 0);
        assert_eq!(
            [5, 10, 15, 17, 20].map(|t| ms(&steps, t)),
            [2_500, 6_000, 10_500, 12_500, 15_500]
        );
        // 20, 16, 12, 10, 10 ...
        let falling = curve("20:10:4@5s", 0);
        assert_eq!(
            [5, 10, 15, 20].map(|t| ms(&falling, t)),
            [5_000, 9_000, 12_000, 14_500]
        );
    }

    #[test]
    fn no_request_is_due_in_a_break() {
        // At 3/s beside a peak of 7/s, the places of requests are rounded down.
        let curve = curve("3/s@1s, 0/s@10s, 7/s@1s, 0/s@5s", 17);
        let due = |number: u64| curve.due(number * S / 7) / 1_000_000;
        assert_eq!([0, 1, 2, 3, 4].map(due), [0, 333, 666, 11_000, 11_142]);
        assert_eq!((due(9), curve.due(10 * S / 7)), (11_857, u64::MAX));
        let late = super::tests::curve("0/s@5s, 10/s", 10);
        assert_eq!(late.due(0), 5 * S);
    }

    fn any_shape() -> impl Strategy<Value = RateShape> {
        let rate = |permits| Rate {
            permits,
            period_ns: S,
        };
        let stage = (0..1_000_u64, any::<bool>(), 0..1_000_u64, 1..500_u64);
        let stages = (prop::collection::vec(stage, 1..7), any::<bool>());
        let stages = stages.prop_map(move |(all, is_open)| {
            let count = all.len();
            let stage = |(n, (from, is_steady, to, length_ns))| Stage {
                from: rate(from),
                to: rate(if is_steady { from } else { to }),
                length_ns: Some(length_ns).filter(|_| !is_open || n + 1 < count),
            };
            RateShape::Stages(all.into_iter().enumerate().map(stage).collect())
        });
        let windows = (1..500_u64).prop_map(|every_ns| RateShape::Windows { every_ns });
        prop_oneof![Just(RateShape::Constant), stages, windows]
    }

    /// Area below the rates of the stages until `t`, by the trapezoid of each, permits times ns.
    fn area(shape: &RateShape, length_ns: u64, t: u64) -> f64 {
        let (mut from_ns, mut sum, mut last) = (0, 0.0, 0.0);
        for stage in shape.stages() {
            let [from, to] = [stage.from, stage.to].map(|rate| rate.permits as f64);
            let rest = length_ns.saturating_sub(from_ns).max(1);
            let length = stage.length_ns.unwrap_or(rest);
            let inside = t.saturating_sub(from_ns).min(length) as f64;
            let at_end = from + (to - from) * inside / length as f64;
            sum += inside * f64::midpoint(from, at_end);
            (from_ns, last) = (from_ns + length, to);
        }
        sum + last * t.saturating_sub(from_ns) as f64
    }

    proptest! {
        #[test]
        fn own_time_never_runs_backwards_nor_faster_than_the_clock(
            shape in any_shape(), length_ns in 1..2_000_u64, t in 0..5_000_u64, later in 0..5_000_u64,
        ) {
            let curve = Curve::of(&shape, Some(Duration::from_nanos(length_ns)));
            let (one, other) = (curve.at(t), curve.at(t + later));
            if let Some(peak) = shape.peak() {
                let own = area(&shape, length_ns, t) / peak.permits.max(1) as f64;
                prop_assert!(one as f64 <= own + 1e-6 && own < one as f64 + 1.001, "{one} {own}");
            }
            // Rounding down may hold back a nanosecond, which is then made up for; a window all of
            // its time.
            let held_back = if let RateShape::Windows { every_ns } = shape { every_ns } else { 1 };
            prop_assert!(one <= other && other <= t + later && other - one <= later + held_back, "{one} {other}");
        }

        #[test]
        fn a_moment_is_named_exactly(
            shape in any_shape(), length_ns in 1..2_000_u64, ahead in 0..4_000_u64, grows in 0..2_000_u64, kept in 1..4_u64, lost in 0..4_u64,
        ) {
            let mut tempo = Tempo::new(Curve::of(&shape, Some(Duration::from_nanos(length_ns))), Nanos(11));
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
