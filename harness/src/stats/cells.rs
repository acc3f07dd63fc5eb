//! The cells of a histogram, without the histogram.
//!
//! Where times are recorded, every cell is there ([`AllCells`]): a value costs as little as adding
//! one to a number. Where they travel and are stored, only those that are not empty ([`Cells`]): a
//! second of a shard fills a few hundred of 27,000. Finding a rank among these takes as long as
//! there are such cells, and no memory beyond theirs.

use hdrhistogram::Histogram;

/// Cells of a histogram of [3 digits](super::SIGNIFICANT_DIGITS) that a power of two adds: half of
/// 2,048, the first one that tells values apart that differ by a thousandth.
const HALF: usize = 1 << 10;

/// Bits that number the first 2,048 cells, twice `HALF`.
const CELL_BITS: u32 = 11;

/// Cells that are looked at together.
const BLOCK: usize = 64;

/// Cells that are not empty by their number, in order, and how many values each holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cells(pub Vec<(usize, u64)>);

impl Cells {
    /// Return the number of values; at most `u64::MAX`.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0
            .iter()
            .fold(0, |all, (_, count)| all.saturating_add(*count))
    }

    /// The greatest value of the cell that so high a rank is in; none above all of them.
    pub(super) fn value_at(&self, rank: u64) -> Option<u64> {
        value_at(self.0.iter().copied(), rank)
    }
}

/// Every cell of a histogram of the bounds of a run, by its number, and how many values it holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AllCells(Vec<u64>);

impl AllCells {
    /// So many empty cells.
    pub(super) fn new(count: usize) -> Self {
        Self(vec![0; count])
    }

    /// The cells of a histogram that has so many.
    pub(super) fn of(histogram: &Histogram<u64>, count: usize) -> Self {
        let mut cells = Self::new(count);
        histogram
            .iter_recorded()
            .for_each(|cell| cells.record(cell.value_iterated_to(), cell.count_at_value()));
        cells
    }

    /// Record a value, which must be within the bounds, `count` times.
    #[inline]
    pub(super) fn record(&mut self, value: u64, count: u64) {
        // Within the bounds: what adds up here was counted one by one.
        if let Some(all) = self.0.get_mut(cell_of(value)) {
            *all += count;
        }
    }

    #[inline]
    fn add(&mut self, cell: usize, count: u64) {
        debug_assert!(
            cell < self.0.len(),
            "all values and histograms of one run share their bounds"
        );
        if let Some(all) = self.0.get_mut(cell) {
            *all = all.saturating_add(count);
        }
    }

    /// Add values of the same bounds.
    pub(super) fn add_cells(&mut self, cells: &Cells) {
        cells
            .0
            .iter()
            .for_each(|(cell, count)| self.add(*cell, *count));
    }

    /// Add all values of the same bounds.
    pub(super) fn merge(&mut self, other: &Self) {
        self.0
            .iter_mut()
            .zip(&other.0)
            .for_each(|(own, other)| *own = own.saturating_add(*other));
    }

    /// Subtract values of the same bounds, which are among these.
    pub(super) fn subtract(&mut self, part: &Self) {
        self.0
            .iter_mut()
            .zip(&part.0)
            .for_each(|(own, part)| *own = own.saturating_sub(*part));
    }

    /// Cells that are not empty. Most are, and are passed many at a time.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0
            .chunks(BLOCK)
            .enumerate()
            .filter(|(_, counts)| counts.iter().fold(0, |any, count| any | count) > 0)
            .flat_map(|(n, counts)| (n * BLOCK..).zip(counts.iter().copied()))
            .filter(|(_, count)| *count > 0)
    }

    /// Values, each as the greatest one of its cell, and how many are in it.
    pub(super) fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.filled()
            .map(|(cell, count)| (highest_beside(lowest_in(cell)), count))
    }

    /// As a histogram, from an empty one of the same bounds.
    pub(super) fn filled_into(&self, mut histogram: Histogram<u64>) -> Histogram<u64> {
        for (cell, count) in self.filled() {
            let recorded = histogram.record_n(lowest_in(cell), count);
            debug_assert!(recorded.is_ok(), "histograms of one run share their bounds");
        }
        histogram
    }

    /// The greatest value of the cell that so high a rank is in; none above all of them. No rank is
    /// below the first.
    pub(super) fn value_at(&self, rank: u64) -> Option<u64> {
        value_at(self.filled(), rank)
    }
}

/// The greatest value of the cell that so high a rank is in; none above all of them. No rank is
/// below the first.
fn value_at(mut filled: impl Iterator<Item = (usize, u64)>, rank: u64) -> Option<u64> {
    let mut below = 0_u64;
    filled
        .find(|(_, count)| {
            below = below.saturating_add(*count);
            below >= rank
        })
        .map(|(cell, _)| highest_beside(lowest_in(cell)))
}

/// Return the number of the cell that a value lies in.
#[expect(
    clippy::cast_possible_truncation,
    reason = "below 2,048 after the shift"
)]
const fn cell_of(value: u64) -> usize {
    // With the first cells' bits set, it has as many digits as a value of the last of them at least.
    let doublings = (value | (2 * HALF as u64 - 1)).ilog2() + 1 - CELL_BITS;
    doublings as usize * HALF + (value >> doublings) as usize
}

/// The least value that lies in a cell.
pub(crate) const fn lowest_in(cell: usize) -> u64 {
    // The first 2,048 cells hold one value each; each 1,024 further ones twice as many as those
    // before them.
    let doublings = (cell / HALF).saturating_sub(1);
    ((cell - doublings * HALF) as u64) << doublings
}

/// Return the number of cells of a histogram whose greatest value is `highest`.
pub(super) const fn count_up_to(highest: u64) -> usize {
    let bits = u64::BITS - highest.leading_zeros();
    (2 + bits.saturating_sub(CELL_BITS) as usize) * HALF
}

/// The greatest value that lies in the same cell as `value`.
#[must_use]
pub const fn highest_beside(value: u64) -> u64 {
    let bits = u64::BITS - value.leading_zeros();
    value | ((1 << bits.saturating_sub(CELL_BITS)) - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::Timing;
    use super::super::tests::bounds;
    use super::*;

    /// The cells of a histogram, by a walk through all of it.
    fn cells_of(histogram: &hdrhistogram::Histogram<u64>) -> Cells {
        let all = histogram
            .iter_all()
            .map(|cell| cell.count_at_value())
            .enumerate();
        Cells(all.filter(|(_, count)| *count > 0).collect())
    }

    #[test]
    fn a_cell_holds_what_the_histograms_cell_does() {
        let histogram = bounds().histogram();
        for (cell, step) in histogram.iter_all().enumerate() {
            let highest = step.value_iterated_to();
            assert_eq!(
                lowest_in(cell),
                histogram.lowest_equivalent(highest),
                "cell {cell}"
            );
            assert_eq!(highest_beside(lowest_in(cell)), highest, "cell {cell}");
            assert_eq!(highest_beside(highest), highest, "cell {cell}");
            assert_eq!([lowest_in(cell), highest].map(cell_of), [cell; 2]);
        }
    }

    #[test]
    fn there_are_as_many_cells_as_the_histogram_has() {
        for highest in [
            2,
            2_047,
            2_048,
            4_095,
            4_096,
            2_000_000_000,
            120_000_000_000,
            u64::MAX >> 2,
        ] {
            let histogram = hdrhistogram::Histogram::<u64>::new_with_bounds(1, highest, 3).unwrap();
            assert_eq!(
                count_up_to(highest),
                histogram.distinct_values(),
                "{highest}"
            );
        }
    }

    proptest! {
        #[test]
        fn percentiles_of_cells_are_those_of_the_distribution_and_so_is_what_they_add_up_to(
            values in prop::collection::vec(0..2_100_000_000_u64, 0..400), q in 0.01..0.999_f64,
        ) {
            let (mut timing, mut histogram) = (Timing::new(bounds()), bounds().histogram());
            for ns in &values {
                timing.record(*ns);
                if *ns <= bounds().highest_ns() {
                    histogram.record(*ns).unwrap();
                }
            }
            prop_assert_eq!(&timing.histogram(), &histogram);
            let cells = cells_of(&histogram);
            prop_assert_eq!(cells.count() + timing.exact().overflow, values.len() as u64);
            prop_assert_eq!(cells.percentile(q, timing.exact(), bounds()), timing.percentile(q));

            let mut added = Timing::new(bounds());
            added.record(77);
            let mut merged = added.clone();
            merged.merge(&timing);
            added.add_cells(&cells, None, timing.exact());
            prop_assert_eq!(added, merged);
        }
    }
}
