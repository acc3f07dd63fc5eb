//! Sum of the lines of a log: counts by cell, and the distribution that they form.

use hdrhistogram::Histogram;

use super::{Entry, Kind};
use crawlmark_harness::stats::{Bounds, Exact, Timing};

/// Counts by cell of histograms of the same bounds. Adding a line costs no more than the cells that
/// it fills.
#[derive(Debug, Clone, Default)]
pub(super) struct CellCounts {
    times: Vec<u64>,
    ages: Vec<u64>,
}

impl CellCounts {
    /// Adds a line, whose cells are within the run's bounds. Counts that no run reaches stay at the
    /// most there can be.
    pub(super) fn add(&mut self, entry: &Entry) {
        let cells = match entry.kind {
            Kind::Times => &mut self.times,
            Kind::Ages => &mut self.ages,
        };
        for (cell, count) in &entry.cells {
            if cells.len() <= *cell {
                cells.resize(cell + 1, 0);
            }
            cells[*cell] = cells[*cell].saturating_add(*count);
        }
    }

    /// Return the number of times.
    pub(super) fn count(&self) -> u64 {
        sum(&self.times)
    }

    /// Return the number of attempts that were cut off.
    pub(super) fn censored(&self) -> u64 {
        sum(&self.ages)
    }

    /// The distribution, to which may belong `astray` values of which nothing is known.
    ///
    /// Least, greatest and mean are those of the cells, so within 0.1 %. A value that may be
    /// missing counts as if it had been cut off at no age: the percentiles that it could change are
    /// then only known to be no less.
    pub(super) fn timing(&self, bounds: Bounds, astray: u64) -> Timing {
        let histogram = filled(bounds, &self.times);
        let ages = (self.censored() > 0 || astray > 0).then(|| {
            let mut ages = filled(bounds, &self.ages);
            // 0 has a cell in any histogram.
            let _ = ages.record_n(0, astray);
            ages
        });
        let values = histogram.iter_recorded();
        let sum_ns = values.map(|cell| {
            let middle = histogram.median_equivalent(cell.value_iterated_to());
            u128::from(middle) * u128::from(cell.count_since_last_iteration())
        });
        let exact = Exact {
            count: histogram.len(),
            min_ns: if histogram.is_empty() {
                u64::MAX
            } else {
                histogram.min()
            },
            max_ns: histogram.max(),
            sum_ns: sum_ns.fold(0, u128::saturating_add),
            overflow: 0,
            censored: ages.as_ref().map_or(0, Histogram::len),
            oldest_ns: ages.as_ref().map_or(0, Histogram::max),
            ages_ns: ages.as_ref().map_or(0, least_sum),
        };
        Timing::from_parts(bounds, &histogram, ages.as_ref(), exact)
    }
}

/// The least that the values of a histogram can add up to.
fn least_sum(histogram: &Histogram<u64>) -> u128 {
    let least = histogram.iter_recorded().map(|cell| {
        u128::from(histogram.lowest_equivalent(cell.value_iterated_to()))
            * u128::from(cell.count_since_last_iteration())
    });
    least.fold(0, u128::saturating_add)
}

fn sum(cells: &[u64]) -> u64 {
    cells
        .iter()
        .fold(0, |all, count| all.saturating_add(*count))
}

/// A histogram with these counts, in the order of its cells.
fn filled(bounds: Bounds, cells: &[u64]) -> Histogram<u64> {
    let empty = bounds.histogram();
    let mut filled = bounds.histogram();
    for (cell, count) in empty.iter_all().zip(cells).filter(|(_, count)| **count > 0) {
        // Its own values are within its bounds.
        let _ = filled.record_n(cell.value_iterated_to(), *count);
    }
    filled
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crawlmark_harness::stats::{Percentile, Series};

    fn entry(kind: Kind, cells: Vec<(usize, u64)>) -> Entry {
        let count = cells.iter().map(|(_, count)| count).sum();
        Entry {
            shard: 0,
            series: Series::ServiceOk,
            kind,
            second: 0,
            cells,
            count,
        }
    }

    #[test]
    fn a_value_that_may_be_missing_blurs_only_the_percentiles_it_could_move() {
        let bounds = Bounds::for_timeout(Duration::from_secs(1));
        let mut pile = CellCounts::default();
        pile.add(&entry(Kind::Times, vec![(10, 90_000), (900, 10_000)]));
        assert_eq!(
            pile.timing(bounds, 0).percentile(0.899_9),
            Percentile::Exact(10)
        );
        assert_eq!(
            pile.timing(bounds, 0).percentile(0.999),
            Percentile::Exact(900)
        );
        let blurred = pile.timing(bounds, 50);
        assert_eq!(blurred.percentile(0.5), Percentile::Exact(10));
        assert_eq!(blurred.percentile(0.899_9), Percentile::AtLeast(10));
        assert_eq!(
            (blurred.exact().count, blurred.exact().censored),
            (100_000, 50)
        );
    }

    #[test]
    fn counts_that_no_run_reaches_do_not_wrap() {
        let mut pile = CellCounts::default();
        pile.add(&entry(Kind::Times, vec![(10, u64::MAX)]));
        pile.add(&Entry {
            count: 2,
            cells: vec![(10, 2)],
            ..entry(Kind::Times, Vec::new())
        });
        assert_eq!(pile.count(), u64::MAX);
        assert_eq!(
            pile.timing(Bounds::for_timeout(Duration::from_secs(1)), 0)
                .exact()
                .count,
            u64::MAX
        );
    }
}
