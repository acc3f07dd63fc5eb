//! Coarse distribution of the times of a second's answers: the data of a heat map.

use serde::{Deserialize, Serialize};

use crawlmark_harness::stats::Timing;
use crawlmark_harness::units::place;

/// Cells in a factor of ten: each is a quarter wider than the one below.
pub const CELLS_PER_DECADE: u32 = 10;

/// Counts by time, in cells of a tenth of a decade.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// The number of the first cell. Cell `n` holds what took from 10^(n/10) us to below
    /// 10^((n+1)/10) us; cell 0 holds what was faster as well.
    pub first: u32,
    /// Number of answers in it and in each cell above, up to the last that has any.
    pub counts: Vec<u64>,
}

impl Spread {
    /// None without a value within the histogram's bounds.
    pub(super) fn of(timing: &Timing) -> Option<Self> {
        let mut all: Vec<u64> = Vec::new();
        for (ns, count) in timing.recorded() {
            let cell = cell(ns);
            if all.len() <= cell {
                all.resize(cell + 1, 0);
            }
            all[cell] += count;
        }
        let first = all.iter().position(|count| *count > 0)?;
        Some(Self {
            first: u32::try_from(first).unwrap_or(u32::MAX),
            counts: all.split_off(first),
        })
    }

    /// The least time of a cell, us.
    pub fn starts_us(cell: u32) -> f64 {
        10f64.powf(f64::from(cell) / f64::from(CELLS_PER_DECADE))
    }
}

fn cell(ns: u64) -> usize {
    let us = (ns as f64 / 1e3).max(1.0);
    place(us.log10() * f64::from(CELLS_PER_DECADE))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crawlmark_harness::stats::Bounds;

    proptest! {
        #[test]
        fn every_value_lies_in_its_cell(values in prop::collection::vec(0..20_000_000_000_u64, 1..50)) {
            let mut timing = Timing::new(Bounds::for_timeout(Duration::from_secs(10)));
            for ns in &values {
                timing.record(*ns);
            }
            let Some(Spread { first, counts }) = Spread::of(&timing) else { panic!("there are values") };
            prop_assert_eq!(counts.iter().sum::<u64>(), values.len() as u64);
            let least = *values.iter().min().unwrap() as f64 / 1e3;
            // The histogram knows a value to 0.1 %.
            prop_assert!(first == 0 || Spread::starts_us(first) <= least * 1.002);
            prop_assert!(Spread::starts_us(first + 1) >= least * 0.998);
        }
    }
}
