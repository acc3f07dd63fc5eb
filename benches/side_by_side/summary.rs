//! Medians over the rounds, and ratios within them. Pure.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rounds::{Run, Who};

/// Summary of all rounds.
#[derive(Debug, Serialize)]
pub(crate) struct Summary {
    /// The fastest first.
    #[serde(rename = "clients")]
    pub(crate) lines: Vec<SummaryRow>,
}

/// Summary of one client or server.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct SummaryRow {
    /// Measured client or server.
    #[serde(flatten)]
    pub(crate) who: Who,
    /// Median over the rounds.
    pub(crate) requests_per_s: f64,
    /// The slowest round and the fastest.
    pub(crate) requests_per_s_range: [f64; 2],
    /// Median over the rounds, user and system.
    pub(crate) cpu_us_per_request: f64,
    /// Median over the rounds, user alone.
    pub(crate) cpu_user_us_per_request: f64,
    /// Against the yardstick; null without it.
    pub(crate) ratio: Option<Ratio>,
    /// Requests without a good answer, over all rounds.
    pub(crate) failed: u64,
}

/// Medians over the rounds of the ratio within the round, in which drift cancels.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Ratio {
    /// Requests per second over the yardstick's.
    pub(crate) requests_per_s: f64,
    /// The least and the greatest of any round.
    pub(crate) requests_per_s_range: [f64; 2],
    /// CPU per request over the yardstick's.
    pub(crate) cpu_per_request: f64,
    /// The least and the greatest of any round.
    pub(crate) cpu_per_request_range: [f64; 2],
    /// 95 % interval of the median of each, requests per second first; null with fewer than six rounds.
    pub(crate) intervals: Option<[[f64; 2]; 2]>,
}

impl Summary {
    /// Summarize all runs, with ratios to those of `yardstick`.
    pub(crate) fn of(runs: &[Run], yardstick: &str) -> Self {
        let mut by_name: BTreeMap<Who, Vec<&Run>> = BTreeMap::new();
        for run in runs {
            by_name.entry(run.who).or_default().push(run);
        }
        let yardstick: BTreeMap<u32, &Run> =
            runs.iter().filter(|run| run.who.name() == yardstick).map(|run| (run.round, run)).collect();
        let mut lines: Vec<SummaryRow> =
            by_name.into_iter().filter_map(|(who, runs)| SummaryRow::of(who, &runs, &yardstick)).collect();
        lines.sort_by(|a, b| b.requests_per_s.total_cmp(&a.requests_per_s));
        Self { lines }
    }

    /// Return the line of the client or server `name`.
    pub(crate) fn line(&self, name: &str) -> Option<&SummaryRow> {
        self.lines.iter().find(|line| line.who.name() == name)
    }
}

impl SummaryRow {
    fn of(who: Who, runs: &[&Run], yardstick: &BTreeMap<u32, &Run>) -> Option<Self> {
        let over = |figure: fn(&Run) -> f64| -> Vec<f64> { runs.iter().map(|run| figure(run)).collect() };
        let ratio = |figure: fn(&Run) -> f64| {
            let pairs = runs.iter().filter_map(|run| Some(figure(run) / figure(yardstick.get(&run.round)?)));
            let pairs: Vec<f64> = pairs.collect();
            Some((range(&pairs), interval(pairs.clone()), median(pairs)?))
        };
        let speeds = over(|run| run.requests_per_s);
        let ratio = match (ratio(|run| run.requests_per_s), ratio(|run| run.cpu_us_per_request)) {
            (
                Some((requests_per_s_range, speed, requests_per_s)),
                Some((cpu_per_request_range, cost, cpu_per_request)),
            ) => {
                let intervals = speed.zip(cost).map(|(speed, cost)| [speed, cost]);
                Some(Ratio { requests_per_s, requests_per_s_range, cpu_per_request, cpu_per_request_range, intervals })
            }
            _ => None,
        };
        Some(Self {
            who,
            requests_per_s_range: range(&speeds),
            requests_per_s: median(speeds)?,
            cpu_us_per_request: median(over(|run| run.cpu_us_per_request))?,
            cpu_user_us_per_request: median(over(|run| run.cpu_user_us_per_request))?,
            ratio,
            failed: runs.iter().map(|run| run.failed).sum(),
        })
    }
}

/// The least and the greatest.
fn range(values: &[f64]) -> [f64; 2] {
    [values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(0.0, f64::max)]
}

/// The 95 % interval of the median, by order statistics (sign test), whatever the distribution; none of fewer than six values.
fn interval(mut values: Vec<f64>) -> Option<[f64; 2]> {
    const OUTSIDE_EACH_SIDE: f64 = 0.025;
    values.sort_by(f64::total_cmp);
    let n = values.len();
    // Chance that the median lies below the k-th value: that at most k of n fair coins are heads.
    let (mut term, mut chance, mut k) = (0.5_f64.powi(i32::try_from(n).ok()?), 0.0, 0);
    while chance + term <= OUTSIDE_EACH_SIDE {
        chance += term;
        term *= (n - k) as f64 / (k + 1) as f64;
        k += 1;
    }
    let low = k.checked_sub(1)?;
    Some([*values.get(low)?, *values.get(n - 1 - low)?])
}

/// The middle value, or the mean of the two in the middle; none of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let (low, high) = (values.len().checked_sub(1)? / 2, values.len() / 2);
    Some(f64::midpoint(*values.get(low)?, *values.get(high)?))
}
