//! A reported distribution at any percentile: its histogram read back, and how little it says of
//! what was cut off.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;

use super::latency::REPORTED;
use super::{Latency, Report};
use crawlmark_harness::stats::{CLOSE, Percentile, SAMPLES_BEYOND, Series, rank, samples_for};
use crawlmark_harness::units::whole;
use crawlmark_harness::wire::v2;

/// A distribution of times with its histogram.
#[derive(Debug)]
pub struct Distribution<'a> {
    latency: &'a Latency,
    histogram: Histogram<u64>,
}

impl Report {
    /// The series that the run is about: response times in an open loop, service times in a closed
    /// one.
    pub const fn main_series(&self) -> Series {
        if self.schedule.is_some() {
            Series::ResponseOk
        } else {
            Series::ServiceOk
        }
    }
}

impl Latency {
    /// The distribution; none where the report holds no histogram, or one that cannot be read.
    pub fn distribution(&self) -> Option<Distribution<'_>> {
        let bytes = STANDARD.decode(self.hdr.as_deref()?).ok()?;
        v2::check_header(&bytes).ok()?;
        let histogram = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .ok()?;
        Some(Distribution {
            latency: self,
            histogram,
        })
    }
}

impl Distribution<'_> {
    /// The values that have a cell, ns.
    pub const fn histogram(&self) -> &Histogram<u64> {
        &self.histogram
    }

    /// Values and what was cut off, those beyond the histogram's bounds included.
    pub const fn all(&self) -> u64 {
        self.latency.count.saturating_add(self.latency.censored)
    }

    /// Nines at the last sample that has a value, which stands for as many as there are samples; none
    /// of a histogram without one.
    pub(crate) fn nines(&self) -> Option<f64> {
        let (inside, all) = (self.histogram.len(), self.all());
        let is_known = inside > 0 && all >= inside;
        is_known.then(|| (all as f64 / (all - inside).max(1) as f64).log10())
    }

    /// The times at these nines, in rising order, us: one pass over the histogram. What overflowed or
    /// was cut off ranks last: it is slower than what the histogram holds, as far as is known.
    pub(crate) fn us_at(&self, nines: impl IntoIterator<Item = f64>) -> Vec<f64> {
        let (all, inside) = (self.all() as f64, self.histogram.len().max(1) as f64);
        let quantiles = nines
            .into_iter()
            .map(|nines| (all * (1.0 - 10f64.powf(-nines)) / inside).clamp(0.0, 1.0));
        let values = self.histogram.value_at_quantiles(quantiles);
        values.map(|ns| ns as f64 / 1e3).collect()
    }

    /// The `q`-th quantile, `0 < q < 1`, ns. Those that the report names are as it has them. Of
    /// others, how old those were that were cut off is not known: they may rank anywhere, so less
    /// may be known than of a percentile with a name. But those with a name, lower and higher, hold
    /// it between them.
    #[must_use]
    pub fn percentile(&self, q: f64) -> Percentile {
        let figures = self.latency.figures();
        let named = REPORTED.iter().zip(figures);
        // The percentiles with a name, lower and higher, hold it between them.
        let (mut floor, mut ceiling) = (0, u64::MAX);
        for ((named, _), (_, key, us)) in named {
            let is_bound = self.latency.is_at_least(key);
            if (named - q).abs() < 1e-9 {
                return match us.map(nanos) {
                    None => Percentile::TooFew,
                    Some(least) if is_bound => Percentile::AtLeast(least),
                    Some(value) => Percentile::Exact(value),
                };
            }
            match us.map(nanos) {
                Some(value) if *named < q => floor = floor.max(value),
                Some(value) if !is_bound => ceiling = ceiling.min(value),
                _ => {}
            }
        }
        let (all, inside) = (self.all(), self.histogram.len());
        if inside == 0 || all < samples_for(q, SAMPLES_BEYOND) {
            return Percentile::TooFew;
        }
        let rank = rank(q, all);
        let greatest = self.latency.slowest_us().map_or(u64::MAX, nanos);
        // Half a rank lower the quotient is of that rank, however it is rounded.
        let [least, most] = [rank.saturating_sub(self.latency.censored), rank].map(|rank| {
            let quantile = (rank.max(1) as f64 - 0.5) / inside as f64;
            (rank <= inside).then(|| self.histogram.value_at_quantile(quantile).min(greatest))
        });
        let least = least.unwrap_or_else(|| self.histogram.high()).max(floor);
        let most = most.unwrap_or(u64::MAX).min(ceiling).max(floor);
        if most < u64::MAX && most as f64 <= least as f64 * CLOSE {
            Percentile::Exact(most)
        } else {
            Percentile::AtLeast(least)
        }
    }
}

fn nanos(us: f64) -> u64 {
    whole((us * 1e3).round())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::run::report::Detail;
    use crawlmark_harness::stats::{Bounds, Counters, ShardStats, Timing};

    /// Service times of 1 to `count` us, and so many that were cut off.
    fn latency(count: u64, cut_off: u64) -> Latency {
        let bounds = Bounds::for_timeout(Duration::from_secs(1));
        let mut timing = Timing::new(bounds);
        (1..=count).for_each(|us| timing.record(us * 1_000));
        (0..cut_off).for_each(|_| timing.censor(0));
        let stats = ShardStats::from_parts(
            bounds,
            Counters::default(),
            [(Series::ServiceOk, timing)].into_iter().collect(),
        );
        Latency::of(&stats, Series::ServiceOk, Detail::Histogram)
    }

    #[test]
    fn any_percentile_is_known_with_ten_samples_beyond_it() {
        let whole = latency(100_000, 0);
        let whole = whole.distribution().unwrap();
        for (q, us) in [
            (0.5, 50_000.0),
            (0.75, 75_000.0),
            (0.999, 99_900.0),
            (0.9999, 99_990.0),
        ] {
            let Percentile::Exact(ns) = whole.percentile(q) else {
                panic!("{q} is known")
            };
            assert!((ns as f64 / 1e3 / us - 1.0).abs() < 0.001, "{q}: {ns}");
        }
        assert_eq!(whole.percentile(0.999_95), Percentile::TooFew);
        let empty = latency(0, 50);
        assert_eq!(
            empty.distribution().unwrap().percentile(0.75),
            Percentile::TooFew
        );
    }

    #[test]
    fn percentiles_never_run_backwards() {
        let bounds = Bounds::for_timeout(Duration::from_secs(9));
        for (ended, unfinished) in [
            (305, 592),
            (402, 398),
            (1_150, 50),
            (20, 2_000),
            (2_000, 20),
            (9_000, 1_000),
        ] {
            let mut timing = Timing::new(bounds);
            (1..=ended).for_each(|us| timing.record(us * 1_000));
            (1..=unfinished).for_each(|n| timing.censor(n * 2_880_000_000 / unfinished));
            let latency = Latency::of_timing(&timing, Detail::Histogram);
            let distribution = latency.distribution().unwrap();
            let (mut least, mut said) = (0, Vec::new());
            for q in [0.3, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999] {
                let percentile = distribution.percentile(q);
                said.push(percentile);
                if let Percentile::Exact(ns) | Percentile::AtLeast(ns) = percentile {
                    assert!(ns >= least, "{ended} ended, {unfinished} cut off: {said:?}");
                    assert!(ns as f64 <= latency.max_us.unwrap() * 1e3, "{said:?}");
                    least = ns;
                }
                // No less is true than of the ages themselves, and what is exact is as there.
                match (percentile, timing.percentile(q)) {
                    (
                        Percentile::AtLeast(said),
                        Percentile::Exact(real) | Percentile::AtLeast(real),
                    ) => {
                        assert!(said as f64 <= real as f64 * CLOSE, "{q}: {said} of {real}");
                    }
                    (Percentile::Exact(said), Percentile::Exact(real)) => {
                        assert!(
                            (said as f64 / real as f64 - 1.0).abs() <= CLOSE - 1.0,
                            "{q}: {said} of {real}"
                        );
                    }
                    (said, real) => assert_eq!(said, real, "{q}"),
                }
            }
        }
    }
}
