//! The times of a second: of each shard as it told them, and what there is to show of them.
//!
//! Made by the timeline from what shards told, without a histogram of each. It must not decide anything.

use crate::stats::{Bounds, Cells, Percentile, Series, ShardStats, Timing};
use crate::wire::{EncodedTiming, WireError, encode_timings};

/// The times of a shard in a second.
#[derive(Debug, Clone)]
pub struct ShardTimes {
    /// The distributions, as the shard told them. They decode.
    pub told: Vec<EncodedTiming>,
    /// What there is to show of them; none when nothing was answered.
    pub recent: Option<Recent>,
}

/// Times in the last complete second: of an open loop response times, of a closed one service times.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recent {
    /// Which of the two they are.
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
    /// Those of `stats`, as a shard would tell them.
    ///
    /// # Errors
    /// When a histogram cannot be written, which a run's bounds rule out.
    pub fn of(stats: &ShardStats) -> Result<Self, WireError> {
        Ok(Self { told: encode_timings(stats)?, recent: Recent::of(stats) })
    }
}

impl Recent {
    /// In an open loop, what its users wait is what there is to see.
    const OF: [Series; 2] = [Series::ResponseOk, Series::ServiceOk];

    pub(super) fn of(stats: &ShardStats) -> Option<Self> {
        let (of, times) = Self::OF.into_iter().find_map(|series| Some((series, stats.timing(series)?)))?;
        let [p50, p90, p99] = QUANTILES.map(|q| times.percentile(q));
        Some(Self { of, p50, p90, p99, max_ns: times.exact().max_ns })
    }

    /// Of what a shard told, with the cells of it.
    pub(super) fn told<'a>(
        bounds: Bounds,
        told: impl Iterator<Item = (&'a EncodedTiming, &'a (Cells, Option<Cells>))>,
    ) -> Option<Self> {
        let rank = |timing: &EncodedTiming| Self::OF.iter().position(|series| *series == timing.series);
        let (_, timing, cells) =
            told.filter_map(|(timing, cells)| Some((rank(timing)?, timing, cells))).min_by_key(|(rank, ..)| *rank)?;
        let percentiles = match cells {
            (times, None) => QUANTILES.map(|q| times.percentile(q, &timing.exact, bounds)),
            // Of what was cut off there is more to know than one list of cells says.
            (times, Some(ages)) => {
                let mut all = Timing::new(bounds);
                all.add_cells(times, Some(ages), &timing.exact);
                QUANTILES.map(|q| all.percentile(q))
            }
        };
        let [p50, p90, p99] = percentiles;
        Some(Self { of: timing.series, p50, p90, p99, max_ns: timing.exact.max_ns })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::tests::{any_sample, bounds};

    proptest! {
        #[test]
        fn what_a_shard_told_shows_as_what_it_is(samples in prop::collection::vec(any_sample(), 0..400)) {
            let mut stats = ShardStats::new(bounds());
            samples.iter().for_each(|sample| stats.record(sample));
            let told = encode_timings(&stats).unwrap();
            let cells: Vec<_> = told.iter().map(|timing| timing.cells(bounds()).unwrap()).collect();
            prop_assert_eq!(Recent::told(bounds(), told.iter().zip(&cells)), Recent::of(&stats));
        }
    }
}
