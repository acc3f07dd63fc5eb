//! `Quota`: what a target says is left, for slowing down before it has to refuse.
//!
//! It must not know how that was written.

use std::cmp::{Ordering, Reverse};
use std::time::Duration;

/// What is left of a quota of requests.
///
/// It promises nothing: other clients may use it too, and a target may refuse for other reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Requests that are left.
    pub remaining: u64,
    /// How many there are in all, if told.
    pub limit: Option<u64>,
    /// After how long there will be more, counted from when the answer came, if told.
    pub resets_in: Option<Duration>,
}

impl Quota {
    /// The requests per second at which what is left lasts until there is more: 0 when nothing is left, none when
    /// nothing bounds it.
    #[must_use]
    pub fn pace_per_s(&self) -> Option<f64> {
        match (self.remaining, self.resets_in) {
            (0, _) => Some(0.0),
            (remaining, Some(within)) if !within.is_zero() => Some(remaining as f64 / within.as_secs_f64()),
            _ => None,
        }
    }

    /// The one of two that allows less: the slower pace; of two equal ones the longer wait, then what has less left.
    pub(super) fn stricter(self, other: Self) -> Self {
        let pace = |quota: &Self| quota.pace_per_s().unwrap_or(f64::INFINITY);
        let rest = |quota: &Self| (Reverse(quota.resets_in), quota.remaining, quota.limit);
        match pace(&self).total_cmp(&pace(&other)).then_with(|| rest(&self).cmp(&rest(&other))) {
            Ordering::Less | Ordering::Equal => self,
            Ordering::Greater => other,
        }
    }
}

/// The strictest of several.
pub(super) fn strictest(quotas: impl IntoIterator<Item = Quota>) -> Option<Quota> {
    quotas.into_iter().reduce(Quota::stricter)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quota(remaining: u64, resets_in: Option<u64>) -> Quota {
        Quota { remaining, limit: None, resets_in: resets_in.map(Duration::from_secs) }
    }

    #[test]
    fn the_slowest_pace_is_the_strictest() {
        let (burst, daily) = (quota(10, Some(1)), quota(50, Some(80_000)));
        assert_eq!(strictest([burst, daily]), Some(daily));
        assert_eq!(strictest([daily, quota(0, Some(1))]), Some(quota(0, Some(1))));
        assert_eq!(strictest([quota(0, Some(1)), quota(0, Some(9)), quota(0, None)]), Some(quota(0, Some(9))));
        assert_eq!(strictest([quota(1, None), quota(1_000, Some(1))]), Some(quota(1_000, Some(1))));
        assert_eq!(strictest([]), None);
        assert_eq!((burst.pace_per_s(), quota(5, Some(0)).pace_per_s()), (Some(10.0), None));
    }

    proptest! {
        #[test]
        fn the_strictest_does_not_depend_on_the_order(
            a in (0..5_u64, proptest::option::of(0..5_u64)), b in (0..5_u64, proptest::option::of(0..5_u64)),
        ) {
            let (a, b) = (quota(a.0, a.1), quota(b.0, b.1));
            prop_assert_eq!(a.stricter(b), b.stricter(a));
        }
    }
}
