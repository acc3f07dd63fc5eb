//! Times of a shard in a second, as it reported them, and the figures of them that are shown.
//!
//! Made by the timeline. It must not decide anything.

use crate::stats::{Bounds, Cells, Percentile, Series, ShardStats, Timing};
use crate::wire::{EncodedStats, EncodedTiming, WireError};

/// The times of a shard in a second.
#[derive(Debug, Clone)]
pub struct ShardTimes {
    /// The distributions, as the shard told them. They decode.
    pub told: Vec<EncodedTiming>,
    /// Figures of them to show; none when nothing was answered.
    pub recent: Option<Recent>,
}

/// Times in the last complete second: of an open loop response times, of a closed one service
/// times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recent {
    /// Series that they belong to.
    pub of: Series,
    /// The median.
    pub p50: Percentile,
    /// The 90th percentile.
    pub p90: Percentile,
    /// The 99th percentile.
    pub p99: Percentile,
    /// The longest, ns; of what was cut off, nothing is known here.
    pub max_ns: u64,
}

/// The quantiles of it.
const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];

impl ShardTimes {
    /// Encode the times of `stats`, as a shard reports them.
    ///
    /// # Errors
    /// When a histogram cannot be written, which a run's bounds rule out.
    pub fn of(stats: &ShardStats) -> Result<Self, WireError> {
        Ok(Self {
            told: EncodedStats::of(stats)?.timings,
            recent: Recent::of(stats),
        })
    }
}

impl Recent {
    /// In an open loop, what its users wait is what there is to see.
    const OF: [Series; 2] = [Series::ResponseOk, Series::ServiceOk];

    pub(super) fn of(stats: &ShardStats) -> Option<Self> {
        let (of, times) = Self::OF
            .into_iter()
            .find_map(|series| Some((series, stats.timing(series)?)))?;
        let [p50, p90, p99] = QUANTILES.map(|q| times.percentile(q));
        Some(Self {
            of,
            p50,
            p90,
            p99,
            max_ns: times.exact().max_ns,
        })
    }

    /// Compute the times from a shard's encoded timings and their cells; none when nothing was
    /// answered.
    pub(super) fn told<'a>(
        bounds: Bounds,
        told: impl Iterator<Item = (&'a EncodedTiming, &'a (Cells, Option<Cells>))>,
    ) -> Option<Self> {
        let rank =
            |timing: &EncodedTiming| Self::OF.iter().position(|series| *series == timing.series);
        let (_, timing, (times, ages)) = told
            .filter_map(|(timing, cells)| Some((rank(timing)?, timing, cells)))
            .min_by_key(|(rank, ..)| *rank)?;
        let [p50, p90, p99] = if timing.exact.censored == 0 {
            QUANTILES.map(|q| times.percentile(q, &timing.exact, bounds))
        } else {
            // Of what was cut off there is more to know than one list of cells says.
            let mut all = Timing::new(bounds);
            all.add_cells(times, ages.as_ref(), &timing.exact);
            QUANTILES.map(|q| all.percentile(q))
        };
        Some(Self {
            of: timing.series,
            p50,
            p90,
            p99,
            max_ns: timing.exact.max_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::clock::Nanos;
    use crate::stats::Unfinished;
    use crate::stats::tests::{any_sample, bounds};

    proptest! {
        // Each case packs and merges megabytes of histograms.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn what_was_told_adds_up_as_what_it_is(
            [one, other] in [prop::collection::vec(any_sample(), 0..60), prop::collection::vec(any_sample(), 0..60)],
        ) {
            let [one, other] = [one, other].map(|samples| {
                let mut stats = ShardStats::new(bounds());
                for sample in &samples {
                    stats.record(sample);
                }
                stats
            });
            let told = EncodedStats::of(&one).unwrap();
            prop_assert_eq!(told.unpacked(), one.clone());
            let (mut added, mut merged) = (other.clone(), other);
            told.add_to(&mut added);
            merged.merge(&one);
            prop_assert_eq!(added, merged);
        }

        #[test]
        fn what_a_shard_told_shows_as_what_it_is(
            samples in prop_oneof![Just(Vec::new()), prop::collection::vec(any_sample(), 0..400)],
            answered in 1..100, dropped in 0..200,
        ) {
            let mut stats = ShardStats::new(bounds());
            for sample in &samples {
                stats.record(sample);
            }
            for _ in 0..answered {
                stats.record_one(Series::ResponseOk, 5_000_000);
            }
            for _ in 0..dropped {
                let rest = Unfinished { is_dropped: true, intended: Some(Nanos(0)), ..Unfinished::default() };
                stats.cut_off(&[Series::ResponseOk], &rest);
            }
            let told = EncodedStats::of(&stats).unwrap().timings;
            let cells: Vec<_> = told.iter().map(|timing| timing.cells(bounds()).unwrap()).collect();
            prop_assert_eq!(Recent::told(bounds(), told.iter().zip(&cells)), Recent::of(&stats));
        }
    }
}
