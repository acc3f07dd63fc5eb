//! A small distribution of times: cells of 1.6 %, as many as its greatest time takes. Recorded
//! where a full histogram each would take too much memory: for hosts, URL templates and source
//! addresses.

use serde::{Deserialize, Serialize};

use super::table::Count;
use super::{SAMPLES_BEYOND, rank, samples_for};

/// Leading binary digits that are kept of a time, which is at most 1.6 % too low then.
const DIGITS: u32 = 7;

/// Cells that a power of two adds.
const HALF: usize = 1 << (DIGITS - 1);

/// Number of times in each cell, up to the last that has any.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoarseTimes(Vec<u64>);

impl CoarseTimes {
    /// Record one time, us.
    pub(crate) fn record(&mut self, us: u64) {
        self.record_at(cell(us), 1);
    }

    /// Record so many times in this cell.
    #[inline]
    pub(super) fn record_at(&mut self, cell: usize, count: u64) {
        if self.0.len() <= cell {
            self.0.resize(cell + 1, 0);
        }
        self.0[cell] += count;
    }

    /// Merge with `other`.
    pub fn merge(&mut self, other: &Self) {
        self.add(other);
    }

    /// Return the cell of the `q`-th quantile, whose times are equal to it; none with too few times.
    #[must_use]
    pub fn percentile_cell(&self, q: f64) -> Option<usize> {
        let count = self.count();
        let rank = (count >= samples_for(q, SAMPLES_BEYOND)).then(|| rank(q, count))?;
        let mut below = 0_u64;
        self.0.iter().position(|count| {
            below = below.saturating_add(*count);
            below >= rank
        })
    }

    /// Return the longest time that `count` times or more exceed, us, at most 1.6 % too low; none with
    /// no more than that.
    #[must_use]
    pub fn exceeded_by_us(&self, count: u64) -> Option<u64> {
        let (mut above, mut cells) = (0_u64, (0..self.0.len()).rev());
        let cell = cells.find(|cell| {
            let is_exceeded = above >= count && self.0[*cell] > 0;
            above = above.saturating_add(self.0[*cell]);
            is_exceeded
        });
        cell.map(lowest_in)
    }

    /// Return the number of times in this cell and above it.
    #[must_use]
    pub fn count_from(&self, cell: usize) -> u64 {
        let above = self.0.get(cell..).unwrap_or_default();
        above
            .iter()
            .fold(0, |all, count| all.saturating_add(*count))
    }

    /// Return the number of times.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count_from(0)
    }

    /// Return the `q`-th quantile, us, at most 1.6 % too low; none with too few times.
    #[must_use]
    pub fn percentile_us(&self, q: f64) -> Option<u64> {
        self.percentile_cell(q).map(lowest_in)
    }
}

impl Count for CoarseTimes {
    fn add(&mut self, other: &Self) {
        self.0.add(&other.0);
    }

    fn subtract(&mut self, part: &Self) {
        self.0.subtract(&part.0);
    }
}

/// The cell of a time: the first 128 hold one value each, each 64 further ones twice as many as
/// those before them.
#[expect(clippy::cast_possible_truncation, reason = "below 128 after the shift")]
pub(super) const fn cell(us: u64) -> usize {
    let shift = (u64::BITS - us.leading_zeros()).saturating_sub(DIGITS);
    shift as usize * HALF + (us >> shift) as usize
}

/// The least time in a cell, us.
const fn lowest_in(cell: usize) -> u64 {
    let shift = (cell / HALF).saturating_sub(1);
    ((cell - shift * HALF) as u64) << shift
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_percentile_is_that_of_the_times_less_its_last_digits(
            mut us in prop::collection::vec(0..1_u64 << 40, 20..200), cut in 0..20_usize,
        ) {
            let mut parts = [CoarseTimes::default(), CoarseTimes::default()];
            for (n, us) in us.iter().enumerate() {
                parts[usize::from(n < cut)].record(*us);
            }
            let [mut all, rest] = parts;
            all.add(&rest);
            us.sort_unstable();
            let exact = us[usize::try_from(rank(0.5, us.len() as u64)).unwrap() - 1];
            let shown = all.percentile_us(0.5).unwrap();
            prop_assert!(shown <= exact && exact - shown <= exact / 64, "{shown} of {exact}");
            prop_assert_eq!(all.percentile_us(0.99), None, "too few");
            let of_ten = us[us.len() - 11];
            let exceeded = all.exceeded_by_us(10).unwrap();
            let above = us.iter().filter(|us| **us > exceeded).count();
            prop_assert!(exceeded <= of_ten && above >= 10, "{exceeded} of {of_ten}");
            prop_assert_eq!(all.exceeded_by_us(us.len() as u64), None);
        }
    }
}
