//! A distribution of times as it is reported.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::serialization::{Serializer as _, V2Serializer};
use serde::{Deserialize, Serialize};

use crate::show::text::micros;
use crawlmark_harness::stats::{Percentile, Series, ShardStats, Timing};

/// The percentiles that every report carries, with the names of their keys.
pub(super) const REPORTED: [(f64, &str); 4] = [
    (0.5, "p50_us"),
    (0.9, "p90_us"),
    (0.99, "p99_us"),
    (0.999, "p999_us"),
];

/// Choice to report the histogram itself as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The figures alone.
    Figures,
    /// The histogram too.
    Histogram,
}

/// A distribution in microseconds. A percentile with fewer than ten samples beyond it is absent.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Number of values.
    pub count: u64,
    /// The least; absent when there is none.
    pub min_us: Option<f64>,
    /// The arithmetic mean, without those that were cut off.
    pub mean_us: Option<f64>,
    /// The least that the mean of all can be, where some were cut off: each of these took at least
    /// its age.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_at_least_us: Option<f64>,
    /// The median.
    pub p50_us: Option<f64>,
    /// The 90th percentile.
    pub p90_us: Option<f64>,
    /// The 99th percentile.
    pub p99_us: Option<f64>,
    /// The 99.9th percentile.
    pub p999_us: Option<f64>,
    /// The greatest; of those that were cut off, the greatest age.
    pub max_us: Option<f64>,
    /// The greatest of those that ended, where others were cut off.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_max_us: Option<f64>,
    /// The percentiles above, and the greatest, of which is only known that they are no less: so
    /// many attempts were cut off.
    pub at_least: Vec<String>,
    /// Values beyond the histogram's bounds.
    pub overflow: u64,
    /// Attempts that were cut off before their time was known.
    pub censored: u64,
    /// The histogram in nanoseconds, HDR V2, base64.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hdr: Option<String>,
}

impl Latency {
    /// Summarize a series of `stats`; empty when nothing was recorded.
    pub fn of(stats: &ShardStats, series: Series, detail: Detail) -> Self {
        match stats.timing(series) {
            Some(timing) => Self::of_timing(timing, detail),
            None => Self::of_timing(&Timing::new(stats.bounds()), detail),
        }
    }

    /// Summarize these series of `stats`, by name, and those that only some reports have if there
    /// were any.
    pub fn all(stats: &ShardStats, kept: &[Series], detail: Detail) -> BTreeMap<String, Self> {
        let optional = Series::OPTIONAL
            .iter()
            .filter(|series| stats.timing(**series).is_some());
        kept.iter()
            .chain(optional)
            .map(|series| (series.name().to_owned(), Self::of(stats, *series, detail)))
            .collect()
    }

    /// Summarize a distribution.
    pub(crate) fn of_timing(timing: &Timing, detail: Detail) -> Self {
        let exact = timing.exact();
        let has_censored = exact.censored > 0;

        let known = REPORTED.map(|(q, name)| (name, timing.percentile(q)));
        let us = known.map(|(_, known)| known.least_us());
        let bounds = known
            .into_iter()
            .filter(|(_, known)| matches!(known, Percentile::AtLeast(_)));
        // What was cut off may have taken longer than anything that ended.
        let slowest = has_censored.then(|| "max_us".to_owned());
        let least_mean_ns = exact.least_mean_ns().filter(|_| has_censored);
        Self {
            count: exact.count,
            min_us: (exact.count > 0).then_some(exact.min_ns as f64 / 1e3),
            mean_us: timing.mean_ns().map(|ns| ns / 1e3),
            mean_at_least_us: least_mean_ns.map(|ns| ns / 1e3),
            p50_us: us[0],
            p90_us: us[1],
            p99_us: us[2],
            p999_us: us[3],
            max_us: exact.greatest_ns().map(|ns| ns as f64 / 1e3),
            ended_max_us: (exact.count > 0 && has_censored).then_some(exact.max_ns as f64 / 1e3),
            at_least: bounds
                .map(|(name, _)| name.to_owned())
                .chain(slowest)
                .collect(),
            overflow: exact.overflow,
            censored: exact.censored,
            hdr: match detail {
                Detail::Histogram => encode(timing),
                Detail::Figures => None,
            },
        }
    }

    /// Its percentiles and the greatest, each with its name and its key.
    pub const fn figures(&self) -> [(&'static str, &'static str, Option<f64>); 5] {
        [
            ("p50", "p50_us", self.p50_us),
            ("p90", "p90_us", self.p90_us),
            ("p99", "p99_us", self.p99_us),
            ("p99.9", "p999_us", self.p999_us),
            ("max", "max_us", self.max_us),
        ]
    }

    /// The greatest of those that ended; none when none did.
    pub fn slowest_us(&self) -> Option<f64> {
        self.ended_max_us.or(self.max_us).filter(|_| self.count > 0)
    }

    /// The figure `name` (`p99.9`) as text; none when it is not known.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let (_, key, us) = self.figures().into_iter().find(|(of, ..)| *of == name)?;
        self.shown(key, us)
    }

    /// The figure `key` (`p99_us`), whose value is `us`, as text; none when it is not known.
    pub(crate) fn shown(&self, key: &str, us: Option<f64>) -> Option<String> {
        let at_least = if self.is_at_least(key) { ">= " } else { "" };
        us.map(|us| format!("{at_least}{}", micros(us)))
    }

    /// True if percentile `key` (`p99_us`) is only known to be no less than its value.
    pub fn is_at_least(&self, key: &str) -> bool {
        self.at_least.iter().any(|name| name == key)
    }
}

fn encode(timing: &Timing) -> Option<String> {
    let mut v2 = Vec::new();
    V2Serializer::new()
        .serialize(&timing.histogram(), &mut v2)
        .ok()?;
    Some(STANDARD.encode(v2))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crawlmark_harness::fixtures::bounds;

    proptest! {
        #[test]
        fn no_figure_exceeds_the_maximum_and_bounds_hold_whatever_the_unfinished_would_have_taken(
            ended in prop::collection::vec(1..3_000_000_000_u64, 0..300),
            unfinished in prop::collection::vec((1..3_000_000_000_u64, 0..1_000_000_000_u64), 0..300),
        ) {
            let mut timing = Timing::new(bounds());
            for ns in &ended {
                timing.record(*ns);
            }
            for (age, _) in &unfinished {
                timing.censor(*age);
            }
            let latency = Latency::of_timing(&timing, Detail::Figures);
            let max_us = latency.max_us.unwrap_or(0.0);
            for figure in [latency.p50_us, latency.p90_us, latency.p99_us, latency.mean_at_least_us] {
                prop_assert!(figure.is_none_or(|us| us <= max_us), "{latency:?}");
            }
            let all = || ended.iter().copied().chain(unfinished.iter().map(|(age, more)| age + more));
            let greatest = all().max().unwrap_or(0) as f64 / 1e3;
            let is_bound = max_us <= greatest + 1e-6;
            prop_assert!(is_bound && (!unfinished.is_empty() || max_us >= greatest - 1e-6), "{latency:?}");
            let mean = all().map(|ns| ns as f64 / 1e3).sum::<f64>() / all().count().max(1) as f64;
            prop_assert!(latency.mean_at_least_us.is_none_or(|least| least <= mean * (1.0 + 1e-9)), "{latency:?}");
            prop_assert_eq!(latency.slowest_us().is_some(), !ended.is_empty());
            prop_assert_eq!(latency.is_at_least("max_us"), !unfinished.is_empty());
        }
    }
}
