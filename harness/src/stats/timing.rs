//! A distribution of times: fixed-bound histogram and exact figures, percentiles that know what was
//! cut off.

use std::time::Duration;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use super::cells::{AllCells, Cells, count_up_to};
use super::order::{rank, samples_for};
use crate::clock::duration_ns;

/// Significant decimal digits of every histogram: a relative error of 0.1 % at most, 216 KiB at a
/// limit of a minute.
pub const SIGNIFICANT_DIGITS: u8 = 3;

/// Samples that must lie beyond a percentile before it is printed.
pub const SAMPLES_BEYOND: u64 = 10;

/// Two values this close are the same for a reader.
pub const CLOSE: f64 = 1.01;

/// The bounds of every histogram of a run: 1 ns to twice the timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    highest_ns: u64,
}

impl Bounds {
    /// The bounds for attempts that may take `timeout`.
    #[must_use]
    pub fn for_timeout(timeout: Duration) -> Self {
        Self {
            highest_ns: duration_ns(timeout).saturating_mul(2).max(2),
        }
    }

    /// The greatest value that a histogram of these bounds takes, ns.
    #[must_use]
    pub const fn highest_ns(&self) -> u64 {
        self.highest_ns
    }

    /// Return the number of cells of a histogram with these bounds.
    #[must_use]
    pub const fn cells(self) -> usize {
        count_up_to(self.highest_ns)
    }

    /// An empty histogram of these bounds.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        match Histogram::new_with_bounds(1, self.highest_ns, SIGNIFICANT_DIGITS) {
            Ok(histogram) => histogram,
            Err(_) => unreachable!("bounds are 1 to at least 2, digits are 3: always valid"),
        }
    }
}

/// A percentile, or why there is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Percentile {
    /// Fewer than ten samples lie beyond it.
    TooFew,
    /// Its value, ns: at most 0.1 % too high, or 1 % where attempts were cut off.
    Exact(u64),
    /// Lower bound, ns: too many attempts were cut off to know more.
    AtLeast(u64),
}

impl Percentile {
    /// Its value, or the least that it can be, us.
    #[must_use]
    pub fn least_us(self) -> Option<f64> {
        match self {
            Self::Exact(ns) | Self::AtLeast(ns) => Some(ns as f64 / 1e3),
            Self::TooFew => None,
        }
    }
}

/// Exact figures of a distribution of times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exact {
    /// Values recorded, those beyond the histogram's bounds included.
    pub count: u64,
    /// Least value, ns; `u64::MAX` when empty.
    pub min_ns: u64,
    /// Greatest value, ns; 0 when empty.
    pub max_ns: u64,
    /// Sum, ns.
    pub sum_ns: u128,
    /// Values beyond the histogram's bounds.
    pub overflow: u64,
    /// Attempts whose time is only known to be no less than their age when they were cut off: timed
    /// out, under way at the end of the run, or never sent.
    pub censored: u64,
    /// The greatest age of these, ns; 0 without any.
    pub oldest_ns: u64,
    /// The sum of their ages, ns.
    pub ages_ns: u128,
}

impl Exact {
    pub(crate) const EMPTY: Self = Self {
        count: 0,
        min_ns: u64::MAX,
        max_ns: 0,
        sum_ns: 0,
        overflow: 0,
        censored: 0,
        oldest_ns: 0,
        ages_ns: 0,
    };

    /// The greatest time, ns, and of those that were cut off the greatest age; none when empty.
    #[must_use]
    pub fn greatest_ns(&self) -> Option<u64> {
        (self.count + self.censored > 0).then(|| self.max_ns.max(self.oldest_ns))
    }

    /// The least that the mean of all can be, ns: each attempt that was cut off took at least its
    /// age. None when empty.
    #[must_use]
    pub fn least_mean_ns(&self) -> Option<f64> {
        let all = self.count + self.censored;
        (all > 0).then(|| (self.sum_ns + self.ages_ns) as f64 / all as f64)
    }

    /// Counts an attempt that was cut off, or has not ended, at this age.
    pub(crate) fn censor(&mut self, age_ns: u64) {
        self.censored += 1;
        self.oldest_ns = self.oldest_ns.max(age_ns);
        self.ages_ns += u128::from(age_ns);
    }

    /// The rank of the `q`-th quantile, from 1 on, the censored attempts included; none with too
    /// few samples beyond it.
    pub(super) fn rank(&self, q: f64) -> Option<u64> {
        let all = self.count + self.censored;
        (all >= samples_for(q, SAMPLES_BEYOND)).then(|| rank(q, all))
    }

    fn merge(&mut self, other: &Self) {
        let Self {
            count,
            min_ns,
            max_ns,
            sum_ns,
            overflow,
            censored,
            oldest_ns,
            ages_ns,
        } = *other;
        self.count += count;
        self.min_ns = self.min_ns.min(min_ns);
        self.max_ns = self.max_ns.max(max_ns);
        self.sum_ns += sum_ns;
        self.overflow += overflow;
        self.censored += censored;
        self.oldest_ns = self.oldest_ns.max(oldest_ns);
        self.ages_ns += ages_ns;
    }
}

/// A distribution of times: an HDR histogram, and exact figures beside it.
#[derive(Debug, Clone, PartialEq)]
pub struct Timing {
    bounds: Bounds,
    /// Values within the bounds.
    times: AllCells,
    /// Ages of what was cut off; none until something is. Ages beyond the bounds, and those of
    /// dropped requests, are left out.
    ages: Option<AllCells>,
    exact: Exact,
}

impl Timing {
    /// An empty distribution.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            times: AllCells::new(bounds.cells()),
            ages: None,
            exact: Exact::EMPTY,
        }
    }

    /// A distribution from its parts, as they came over a pipe or from a file.
    #[must_use]
    pub fn from_parts(
        bounds: Bounds,
        histogram: &Histogram<u64>,
        ages: Option<&Histogram<u64>>,
        exact: Exact,
    ) -> Self {
        let times = AllCells::of(histogram, bounds.cells());
        Self {
            bounds,
            times,
            ages: ages.map(|ages| AllCells::of(ages, bounds.cells())),
            exact,
        }
    }

    /// The exact figures.
    #[must_use]
    pub const fn exact(&self) -> &Exact {
        &self.exact
    }

    /// Return the histogram, without the values that overflowed.
    #[must_use]
    pub fn histogram(&self) -> Histogram<u64> {
        self.times.filled_into(self.bounds.histogram())
    }

    /// Return the values that did not overflow, each at most 0.1 % too high, and how many of each.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, u64)> {
        self.times.recorded()
    }

    /// Return the ages of what was cut off, without those beyond the bounds and of dropped requests;
    /// none when there are no others.
    #[must_use]
    pub fn ages(&self) -> Option<Histogram<u64>> {
        self.ages
            .as_ref()
            .map(|ages| ages.filled_into(self.bounds.histogram()))
    }

    /// Records one value.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.exact.count += 1;
        self.exact.min_ns = self.exact.min_ns.min(ns);
        self.exact.max_ns = self.exact.max_ns.max(ns);
        self.exact.sum_ns += u128::from(ns);
        // A value beyond the bounds is counted, not clipped: clipping hides the very outliers that
        // matter.
        if ns > self.bounds.highest_ns {
            self.exact.overflow += 1;
        } else {
            self.times.record(ns, 1);
        }
    }

    /// Records the least value, 0 ns, `count` times.
    pub(crate) fn record_zeros(&mut self, count: u64) {
        self.exact.count += count;
        self.exact.min_ns = 0;
        self.times.record(0, count);
    }

    /// Counts an attempt that was cut off after `age_ns`: its true time is not known, only that it
    /// is no less.
    pub fn censor(&mut self, age_ns: u64) {
        self.exact.censor(age_ns);
        // Beyond the bounds it is left out, and ranks above all that are not.
        if age_ns <= self.bounds.highest_ns {
            self.ages
                .get_or_insert_with(|| AllCells::new(self.bounds.cells()))
                .record(age_ns, 1);
        }
    }

    /// Counts a request that was dropped at `age_ns`: it ranks above all others, since it never
    /// comes to a response.
    pub(crate) fn censor_dropped(&mut self, age_ns: u64) {
        self.exact.censor(age_ns);
    }

    /// Adds `other`, which must have the same bounds: all histograms of one run do.
    pub fn merge(&mut self, other: &Self) {
        let Self {
            bounds: _,
            times,
            ages,
            exact,
        } = other;
        self.times.merge(times);
        if let Some(ages) = ages {
            self.ages
                .get_or_insert_with(|| AllCells::new(self.bounds.cells()))
                .merge(ages);
        }
        self.exact.merge(exact);
    }

    /// Return this distribution without the times of `part`, which are among them. The greatest
    /// time stays.
    #[must_use]
    pub fn without(mut self, part: &Self) -> Self {
        self.times.subtract(&part.times);
        self.exact.count = self.exact.count.saturating_sub(part.exact.count);
        self.exact.sum_ns = self.exact.sum_ns.saturating_sub(part.exact.sum_ns);
        self.exact.overflow = self.exact.overflow.saturating_sub(part.exact.overflow);
        self
    }

    /// Adds a distribution of the same bounds that is known by its cells: its times, how old those
    /// were that were cut off, its exact figures.
    pub(crate) fn add_cells(&mut self, times: &Cells, ages: Option<&Cells>, exact: &Exact) {
        self.times.add_cells(times);
        if let Some(ages) = ages {
            self.ages
                .get_or_insert_with(|| AllCells::new(self.bounds.cells()))
                .add_cells(ages);
        }
        self.exact.merge(exact);
    }

    /// The least that the `q`-th quantile can be, ns, with each attempt that was cut off at its
    /// age; none with too few samples.
    fn least_percentile_ns(&self, q: f64) -> Option<u64> {
        let rank = self.exact.rank(q)?;
        let mut known = self.times.clone();
        self.ages.iter().for_each(|ages| known.merge(ages));
        let greatest = self.exact.max_ns.max(self.exact.oldest_ns);
        Some(
            known
                .value_at(rank)
                .unwrap_or(self.bounds.highest_ns)
                .min(greatest),
        )
    }

    /// The arithmetic mean, ns; none when empty.
    #[must_use]
    pub fn mean_ns(&self) -> Option<f64> {
        (self.exact.count > 0).then(|| self.exact.sum_ns as f64 / self.exact.count as f64)
    }

    /// The `q`-th quantile, `0 < q < 1`, by rank `ceil(q * n)` over all attempts, the censored ones
    /// included.
    ///
    /// The true time of a censored attempt is its age or more. So the quantile is no less than that
    /// of values and ages together, and no more than that of the values with all censored ones
    /// above them. Where the two differ by more than 1 %, only the lower one is known. Dropped
    /// requests are above all in both: of a quantile among them it is known that it is no less than
    /// the greatest time or age.
    #[must_use]
    pub fn percentile(&self, q: f64) -> Percentile {
        let Some(rank) = self.exact.rank(q) else {
            return Percentile::TooFew;
        };
        let most = self
            .times
            .value_at(rank)
            .map(|value| value.min(self.exact.max_ns));
        if self.exact.censored == 0 {
            return most.map_or(
                Percentile::AtLeast(self.bounds.highest_ns),
                Percentile::Exact,
            );
        }
        match (self.least_percentile_ns(q).unwrap_or_default(), most) {
            (least, Some(most)) if most as f64 <= least as f64 * CLOSE => Percentile::Exact(most),
            // Of nothing but attempts cut off at unknown ages, nothing is known.
            (0, None) if self.exact.count == 0 => Percentile::TooFew,
            (least, _) => Percentile::AtLeast(least),
        }
    }
}

impl Cells {
    /// Return the percentile of the values in these cells, of which nothing was cut off, as
    /// [`Timing::percentile`] does.
    pub fn percentile(&self, q: f64, exact: &Exact, bounds: Bounds) -> Percentile {
        let Some(rank) = exact.rank(q) else {
            return Percentile::TooFew;
        };
        self.value_at(rank)
            .map(|value| value.min(exact.max_ns))
            .map_or(Percentile::AtLeast(bounds.highest_ns()), Percentile::Exact)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::tests::bounds;

    #[test]
    fn a_percentile_is_the_exact_one_or_at_most_a_thousandth_above() {
        let mut values: Vec<u64> = (0..100_000_u64)
            .map(|i| 1_000 + i * i % 1_900_000_000)
            .collect();
        let mut timing = Timing::new(bounds());
        for ns in &values {
            timing.record(*ns);
        }
        values.sort_unstable();
        for (q, rank) in [
            (0.5, 50_000),
            (0.9, 90_000),
            (0.99, 99_000),
            (0.999, 99_900),
        ] {
            let exact = values[rank - 1];
            let Percentile::Exact(got) = timing.percentile(q) else {
                panic!("p{q} is known")
            };
            assert!(
                got >= exact && (got - exact) as f64 <= exact as f64 * 0.000_977,
                "p{q}: {got} for {exact}"
            );
        }
    }

    #[test]
    fn ten_samples_beyond_are_ten_for_every_percentile() {
        for (q, needed) in [
            (0.5, 20),
            (0.7, 34),
            (0.75, 40),
            (0.9, 100),
            (0.95, 200),
            (0.99, 1_000),
            (0.999, 10_000),
        ] {
            let mut timing = Timing::new(bounds());
            (1..needed).for_each(|_| timing.record(5));
            assert_eq!(
                timing.percentile(q),
                Percentile::TooFew,
                "{q} of {}",
                needed - 1
            );
            timing.record(5);
            assert_eq!(
                timing.percentile(q),
                Percentile::Exact(5),
                "{q} of {needed}"
            );
        }
    }

    #[test]
    fn censored_attempts_push_a_percentile_out_of_sight() {
        let mut timing = Timing::new(bounds());
        (0..980).for_each(|_| timing.record(7));
        (1..=20).for_each(|n| timing.censor(n * 100));
        assert_eq!(timing.percentile(0.5), Percentile::Exact(7));
        // The 990th of all: that of the tenth age at least.
        assert_eq!(timing.percentile(0.99), Percentile::AtLeast(1_000));
    }

    #[test]
    fn attempts_cut_off_at_an_unknown_age_blur_only_the_percentiles_they_could_move() {
        let mut timing = Timing::new(bounds());
        (1..=100_000).for_each(|i| timing.record(i * 1_000));
        (0..64).for_each(|_| timing.censor(0));
        let Percentile::Exact(p50) = timing.percentile(0.5) else {
            panic!("64 of 100,000 cannot move the median")
        };
        assert!(p50.abs_diff(50_032_000) <= 50_000, "{p50}");
        // All of the first 1,000 fast, the cut ones anywhere: the 99.9th may be any value above the
        // 36th from the top.
        let mut timing = Timing::new(bounds());
        (0..99_900).for_each(|_| timing.record(1_000));
        (0..100).for_each(|_| timing.record(900_000_000));
        (0..64).for_each(|_| timing.censor(0));
        assert_eq!(timing.percentile(0.999), Percentile::AtLeast(1_000));
    }

    #[test]
    fn what_was_dropped_ranks_above_all_others() {
        let mut timing = Timing::new(bounds());
        (1..=400).for_each(|us| timing.record(us * 1_000));
        (0..600).for_each(|_| timing.censor_dropped(0));
        let Percentile::Exact(p30) = timing.percentile(0.3) else {
            panic!("300 of 1,000 took no longer")
        };
        assert!(p30.abs_diff(300_000) <= 300, "{p30}");
        assert_eq!(timing.percentile(0.5), Percentile::AtLeast(400_000));
        timing.censor(3_000_000);
        assert_eq!(timing.percentile(0.9), Percentile::AtLeast(3_000_000));
    }

    #[test]
    fn a_value_beyond_the_bounds_is_counted_and_not_clipped() {
        let mut timing = Timing::new(bounds());
        (0..100).for_each(|_| timing.record(9_000_000_000));
        assert_eq!(
            (
                timing.exact().overflow,
                timing.exact().max_ns,
                timing.histogram().len()
            ),
            (100, 9_000_000_000, 0)
        );
        assert_eq!(
            timing.percentile(0.5),
            Percentile::AtLeast(bounds().highest_ns())
        );
    }
}
