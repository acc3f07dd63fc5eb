//! Order statistics: the median, the rank of a quantile, and how many samples a quantile takes.
//!
//! Used wherever a percentile is printed or judged. A quantile is a decimal fraction, and
//! `100 * (1 - 0.9)` is a little less than 10 in floating point; here it is a whole number of
//! parts, so that ranks and limits are exact.

/// Parts of 1 in which a quantile is counted: p99.9999999 is the highest that can be told from 1.
const PARTS: u64 = 1_000_000_000;

/// A quantile, `0 < q < 1`, in [`PARTS`].
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between 0 and PARTS"
)]
fn parts(q: f64) -> u128 {
    u128::from(((q * PARTS as f64).round() as u64).min(PARTS - 1))
}

/// The rank, from 1 on, of the `q`-th quantile of `all` samples: the least that is no less than
/// `q * all`.
#[must_use]
pub fn rank(q: f64, all: u64) -> u64 {
    let rank = (parts(q) * u128::from(all)).div_ceil(u128::from(PARTS));
    u64::try_from(rank).unwrap_or(u64::MAX)
}

/// The fewest samples of which `beyond` lie beyond the `q`-th quantile.
#[must_use]
pub fn samples_for(q: f64, beyond: u64) -> u64 {
    let samples = (u128::from(beyond) * u128::from(PARTS)).div_ceil(u128::from(PARTS) - parts(q));
    u64::try_from(samples).unwrap_or(u64::MAX)
}

/// The median, of an even number the mean of the middle two; none of none. Changes the order of the
/// values.
pub fn median(values: &mut [f64]) -> Option<f64> {
    let half = values.len() / 2;
    if values.is_empty() {
        return None;
    }
    let odd = !values.len().is_multiple_of(2);
    let (below, above, _) = values.select_nth_unstable_by(half, f64::total_cmp);
    let below = if odd {
        *above
    } else {
        below.iter().copied().max_by(f64::total_cmp)?
    };
    Some(f64::midpoint(below, *above))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn as_many_lie_beyond_as_are_asked_for_and_no_fewer(millionths in 1..1_000_000_u64, beyond in 1..1_000_u64) {
            // By whole numbers: so many of all, less the part that is not beyond.
            let lie_beyond = |all: u64| u128::from(all) * u128::from(1_000_000 - millionths) / 1_000_000;
            let least = samples_for(millionths as f64 / 1e6, beyond);
            prop_assert!(lie_beyond(least) >= u128::from(beyond) && lie_beyond(least - 1) < u128::from(beyond));
        }

        #[test]
        fn a_rank_leaves_no_more_beyond_than_it_may(millionths in 1..1_000_000_u64, all in 1..100_000_000_u64) {
            let rank = rank(millionths as f64 / 1e6, all);
            let least = u128::from(millionths) * u128::from(all);
            prop_assert!(u128::from(rank) * 1_000_000 >= least && u128::from(rank - 1) * 1_000_000 < least);
        }
    }

    #[test]
    fn a_median_lies_in_the_middle() {
        for (mut values, expected) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![4.0, 1.0], Some(2.5)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
            (vec![9.0, 1.0, 2.0, 4.0], Some(3.0)),
        ] {
            assert_eq!(median(&mut values), expected);
        }
    }
}
