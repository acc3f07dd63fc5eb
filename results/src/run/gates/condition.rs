//! A parsed condition, and its text.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::measured::SAMPLES_LIVE;
use super::metric::Share;
use super::{Measured, Metric, Quantile, Stat, Unit};
use crawlmark_harness::clock::duration_ns;
use crawlmark_harness::stats::Series;

/// `metric{group}[window] op limit`: what must hold of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    /// Metric to compare.
    pub metric: Metric,
    /// Name of the host, URL template or source address whose requests count, as in the result; none
    /// for all requests.
    pub group: Option<String>,
    /// Over how long; none for the whole run.
    pub window: Option<Window>,
    /// Comparison with the limit.
    pub op: Op,
    /// With what, in the metric's unit: finite and not negative.
    pub limit: f64,
}

/// A sliding window: so many whole seconds, 1 to [`Window::LONGEST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window(u8);

/// Comparison of a figure with its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    More,
    /// `>=`
    AtLeast,
    /// `==`
    Equal,
    /// `!=`
    Unequal,
}

impl Window {
    /// The longest: the histograms of each of its seconds are kept.
    pub const LONGEST: u64 = 60;

    /// A window of so many seconds.
    pub fn new(seconds: u64) -> Option<Self> {
        let seconds = Some(seconds).filter(|seconds| (1..=Self::LONGEST).contains(seconds))?;
        u8::try_from(seconds).ok().map(Self)
    }

    /// Its length.
    pub fn seconds(self) -> u64 {
        self.0.into()
    }

    /// Return the number of seconds of a history that the window covers.
    pub(super) fn len(self) -> usize {
        self.0.into()
    }
}

impl Op {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::Less,
        Self::AtMost,
        Self::More,
        Self::AtLeast,
        Self::Equal,
        Self::Unequal,
    ];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Less => "<",
            Self::AtMost => "<=",
            Self::More => ">",
            Self::AtLeast => ">=",
            Self::Equal => "==",
            Self::Unequal => "!=",
        }
    }

    /// True if it bounds from above.
    const fn is_ceiling(self) -> bool {
        matches!(self, Self::Less | Self::AtMost)
    }

    #[expect(
        clippy::float_cmp,
        reason = "`==` is what was asked for; counts and flags are whole"
    )]
    fn holds(self, value: f64, limit: f64) -> bool {
        match self {
            Self::Less => value < limit,
            Self::AtMost => value <= limit,
            Self::More => value > limit,
            Self::AtLeast => value >= limit,
            Self::Equal => value == limit,
            Self::Unequal => value != limit,
        }
    }
}

impl Condition {
    /// Condition that the 99th percentile of `series` is no more than `most`.
    pub fn p99_at_most(series: Series, most: Duration) -> Self {
        let metric = Metric::Time(series, Stat::Percentile(Quantile::P99));
        Self {
            metric,
            group: None,
            window: None,
            op: Op::AtMost,
            limit: duration_ns(most) as f64 / 1e3,
        }
    }

    /// Evaluate it: true if it holds; none when what was measured does not say.
    pub fn judge(&self, seen: &Measured) -> Option<bool> {
        let (op, limit) = (self.op, self.limit);
        match *seen {
            Measured::Exactly(value) => Some(op.holds(value, limit)),
            // The true value is this or any greater one: sure only of what all of them have in
            // common.
            Measured::AtLeast(value) => match op {
                Op::Less | Op::AtMost => (!op.holds(value, limit)).then_some(false),
                Op::More | Op::AtLeast => op.holds(value, limit).then_some(true),
                Op::Equal => (value > limit).then_some(false),
                Op::Unequal => (value > limit).then_some(true),
            },
            Measured::Unknown(_) => None,
        }
    }

    /// True if a share breaks it however good the rest were, had there been as many as it takes to
    /// judge one.
    pub(super) fn is_broken_by_few(&self, share: Share) -> bool {
        let rest = SAMPLES_LIVE.saturating_sub(share.whole);
        let good = match self.op {
            Op::Less | Op::AtMost => 0,
            Op::More | Op::AtLeast => rest,
            Op::Equal | Op::Unequal => return false,
        };
        let best = Share {
            part: share.part + good,
            whole: share.whole + rest,
        };
        best.value()
            .is_some_and(|best| !self.op.holds(best, self.limit))
            && share.whole > 0
    }

    /// True if a second that was cut short would be judged wrongly: a number per second, and a
    /// number that is not to be small.
    pub const fn needs_whole_seconds(&self) -> bool {
        match self.metric.unit() {
            Unit::PerS => true,
            Unit::Count => !self.op.is_ceiling(),
            Unit::Us | Unit::Share | Unit::Flag => false,
        }
    }

    /// True if it holds of a target that has nearly no load, false if it never can; none where that
    /// depends on the rate.
    pub fn holds_at_rest(&self) -> Option<bool> {
        Some(self.op.holds(self.metric.at_rest()?, self.limit))
    }

    /// Return the distance of `value` from the limit, as a part of the limit: negative beyond it.
    /// None where nearer is no better.
    pub fn margin(&self, value: f64) -> Option<f64> {
        let sign = match self.op {
            Op::Less | Op::AtMost => 1.0,
            Op::More | Op::AtLeast => -1.0,
            Op::Equal | Op::Unequal => return None,
        };
        (self.limit > 0.0).then(|| sign * (self.limit - value) / self.limit)
    }

    /// True if `value` is nearer to breaking it than `other`, or breaks it more. For `==` and `!=`,
    /// whether it breaks it.
    pub fn is_worse(&self, value: f64, other: f64) -> bool {
        match self.op {
            Op::Equal | Op::Unequal => !self.op.holds(value, self.limit),
            op if op.is_ceiling() => value > other,
            _ => value < other,
        }
    }
}

impl fmt::Display for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            metric,
            ref group,
            window,
            op,
            limit,
        } = *self;
        write!(f, "{metric}")?;
        if let Some(group) = group {
            write!(f, "{{{group}}}")?;
        }
        if let Some(window) = window {
            write!(f, "[{}s]", window.seconds())?;
        }
        write!(f, " {} ", op.name())?;
        match metric.unit() {
            Unit::Us => f.write_str(&time(limit)),
            Unit::Flag => write!(f, "{}", limit > 0.0),
            Unit::Share => f.write_str(&share(limit)),
            Unit::PerS | Unit::Count => write!(f, "{limit}"),
        }
    }
}

impl Serialize for Condition {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse()
            .map_err(|_| de::Error::custom(format!("`{text}` is not a condition")))
    }
}

/// Microseconds in the largest unit in which they are written as they are.
fn time(us: f64) -> String {
    let written = [(6, "s"), (3, "ms")]
        .into_iter()
        .find_map(|(digits, unit)| {
            let number = us / 10_f64.powi(digits);
            let same = format!("{number}e{digits}").parse() == Ok(us);
            (number >= 1.0 && same).then(|| format!("{number}{unit}"))
        });
    written.unwrap_or_else(|| format!("{us}us"))
}

/// A share in percent, if it is written as it is in that.
fn share(part: f64) -> String {
    // Without the digits that are an artefact of the product.
    let percent = (part * 1e12).round() / 1e10;
    let is_same = format!("{percent}e-2").parse() == Ok(part);
    if is_same {
        format!("{percent}%")
    } else {
        part.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(text: &str) -> Condition {
        text.parse().unwrap()
    }

    #[test]
    fn what_is_only_known_to_be_no_less_breaks_or_leaves_open() {
        let judged = |text, value| condition(text).judge(&Measured::AtLeast(value));
        for (text, below, on, above) in [
            ("service_p99 < 5us", None, Some(false), Some(false)),
            ("service_p99 <= 5us", None, None, Some(false)),
            ("service_p99 > 5us", None, None, Some(true)),
            ("service_p99 >= 5us", None, Some(true), Some(true)),
            ("service_p99 == 5us", None, None, Some(false)),
            ("service_p99 != 5us", None, None, Some(true)),
        ] {
            assert_eq!(
                [4.0, 5.0, 6.0].map(|value| judged(text, value)),
                [below, on, above],
                "{text}"
            );
        }
    }

    #[test]
    fn the_worst_is_the_one_that_breaks_first() {
        assert!(
            condition("errors < 5").is_worse(3.0, 2.0)
                && !condition("errors < 5").is_worse(2.0, 3.0)
        );
        assert!(
            condition("rate > 5").is_worse(2.0, 3.0) && !condition("rate > 5").is_worse(3.0, 2.0)
        );
        assert!(
            condition("errors == 5").is_worse(4.0, 5.0)
                && !condition("errors == 5").is_worse(5.0, 5.0)
        );
    }
}
