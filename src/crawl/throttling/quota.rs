//! The strictest of the quotas that a target announces, so that the crawl slows down before it is
//! refused.
//!
//! It must not know how that was written.

use std::cmp::{Ordering, Reverse};

use crawlmark_harness::sample::Quota;

/// The one of two that allows less: the slower pace; of two equal ones the longer wait, then what
/// has less left.
fn stricter(one: Quota, other: Quota) -> Quota {
    let pace = |quota: &Quota| quota.pace_per_s().unwrap_or(f64::INFINITY);
    let rest = |quota: &Quota| (Reverse(quota.resets_in), quota.remaining, quota.limit);
    match pace(&one)
        .total_cmp(&pace(&other))
        .then_with(|| rest(&one).cmp(&rest(&other)))
    {
        Ordering::Less | Ordering::Equal => one,
        Ordering::Greater => other,
    }
}

/// The strictest of several.
pub(super) fn strictest(quotas: impl IntoIterator<Item = Quota>) -> Option<Quota> {
    quotas.into_iter().reduce(stricter)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn quota(remaining: u64, resets_in: Option<u64>) -> Quota {
        Quota {
            remaining,
            limit: None,
            resets_in: resets_in.map(Duration::from_secs),
        }
    }

    #[test]
    fn the_slowest_pace_is_the_strictest() {
        let (burst, daily) = (quota(10, Some(1)), quota(50, Some(80_000)));
        assert_eq!(strictest([burst, daily]), Some(daily));
        assert_eq!(
            strictest([daily, quota(0, Some(1))]),
            Some(quota(0, Some(1)))
        );
        assert_eq!(
            strictest([quota(0, Some(1)), quota(0, Some(9)), quota(0, None)]),
            Some(quota(0, Some(9)))
        );
        assert_eq!(
            strictest([quota(1, None), quota(1_000, Some(1))]),
            Some(quota(1_000, Some(1)))
        );
        assert_eq!(strictest([]), None);
        assert_eq!(
            (burst.pace_per_s(), quota(5, Some(0)).pace_per_s()),
            (Some(10.0), None)
        );
    }

    proptest! {
        #[test]
        fn the_strictest_does_not_depend_on_the_order(
            a in (0..5_u64, proptest::option::of(0..5_u64)), b in (0..5_u64, proptest::option::of(0..5_u64)),
        ) {
            let (a, b) = (quota(a.0, a.1), quota(b.0, b.1));
            prop_assert_eq!(stricter(a, b), stricter(b, a));
        }
    }
}
