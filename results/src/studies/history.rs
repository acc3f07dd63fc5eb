//! Changes in a history of single runs: advice on where to look, and never a verdict.
//!
//! Runs that are days apart differ by the machine, its neighbours and its kernel as well as by what
//! was measured. A change that is found here says between which two results the conditions changed;
//! which of them, only pairs can say.
//!
//! # Method
//!
//! E-divisive means with hierarchical bisection (Matteson, D. S. and James, N. A. (2014), *A
//! nonparametric approach for multiple change point analysis of multivariate data*, JASA 109,
//! 334-345), as used on histories of benchmarks by Daly, D. et al. (2020), *The use of change point
//! detection to identify software performance regressions in a continuous integration system*,
//! ICPE. A segment of `n` logarithms is parted where the energy distance of its parts, weighted by
//! their lengths,
//!
//! ```text
//! Q = m k / (m + k) * ( 2/(m k) sum |x_i - y_j| - 2/(m (m-1)) sum |x_i - x_j| - 2/(k (k-1)) sum |y_i - y_j| )
//! ```
//!
//! is greatest. Whether that is more than chance is tested by permutations of the segment:
//! `p = (1 + those with a Q no less) / (1 + permutations)`. Each part is then looked at by itself.
//! Changes by less than 2 % are left out.

use serde::{Deserialize, Serialize};

use super::compare::{MICROSECONDS, Metric, Readings, SHARE, readings_of_run, run_metrics};
use super::differences::differences;
use super::{Conclusion, Header, Notice, StudyResult};
use crate::run::report::Report;
use crate::run::words::moment;
use crate::show::chart::{Axis, Chart, Dash, Dot, Format, Mark, Panel, Range, Role, Shape};
use crate::show::doc::{Column, Doc, Severity, Table};
use crate::show::text::{capital, counted};
use crawlmark_harness::stats::median;

/// The fewest results on either side of a change: of fewer, one bad day is a change.
const SHORTEST: usize = 5;

/// The fewest results in which a change can be found.
const NEEDED: usize = 2 * SHORTEST;

/// Permutations of each test: p is known to 0.5 %.
const PERMUTATIONS: u32 = 199;

/// A change is more than chance from here on.
const SIGNIFICANT: f64 = 0.01;

/// The smallest change worth a look, as a part of what was before.
const SMALLEST: f64 = 0.02;

/// The most results that are looked at, the latest: the work grows with the square of their number.
pub const LONGEST: usize = 400;

/// A change in a history.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ChangePoint {
    /// The first result after it, counted from 0.
    pub at: usize,
    /// The median of what was before, since the last change.
    pub before: f64,
    /// The median of what came after, until the next one.
    pub after: f64,
    /// Probability that chance alone parts a segment so well.
    pub p: f64,
}

/// Results of one plan on one machine over time, and where they changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Fields of every study; the name is that of each of its results.
    #[serde(flatten)]
    pub header: Header,
    /// The results, the oldest first.
    pub results: Vec<PastResult>,
    /// Results that were left out: of another plan, machine or name than the latest, or beyond the
    /// [`LONGEST`] history.
    pub left_out: usize,
    /// The fewest results in which a change can be found: of fewer, `metrics` says nothing.
    pub results_needed: usize,
    /// Each metric that every result has.
    pub metrics: Vec<MetricHistory>,
}

/// A result of a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastResult {
    /// RFC 3339, UTC.
    pub started_at: String,
    /// Path of the result.
    pub result: String,
    /// Readings of the result.
    pub readings: Readings,
}

/// A metric over a history.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MetricHistory {
    /// The metric.
    pub metric: Metric,
    /// Changes, in order.
    pub changes: Vec<ChangePoint>,
}

impl History {
    /// The history that the latest of these results belongs to; none of none.
    #[must_use]
    pub fn of(mut found: Vec<(String, Report)>) -> Option<Self> {
        // RFC 3339 in UTC sorts as text.
        found.sort_by(|(_, a), (_, b)| a.started_at.cmp(&b.started_at));
        let all = found.len();
        let latest = found.last().map(|(_, report)| report.clone())?;
        let mut kept: Vec<_> = found
            .into_iter()
            .filter(|(_, report)| is_like(report, &latest))
            .collect();
        kept.drain(..kept.len().saturating_sub(LONGEST));
        let past = |(result, report): (String, Report)| PastResult {
            started_at: report.started_at.clone(),
            result,
            readings: readings_of_run(&report),
        };
        let results: Vec<PastResult> = kept.into_iter().map(past).collect();
        let metrics = run_metrics().into_iter().filter_map(|metric| {
            let values: Option<Vec<f64>> = results
                .iter()
                .map(|past| past.readings.of(&metric.name).value())
                .collect();
            Some(MetricHistory {
                metric,
                changes: changes(&values?, SEED),
            })
        });
        Some(Self {
            header: Header::new::<Self>(
                &latest.name,
                [&results[0].started_at, &latest.finished_at],
            ),
            left_out: all - results.len(),
            results_needed: NEEDED,
            metrics: metrics.collect(),
            results,
        })
    }

    /// True if there are enough results to find a change in.
    #[must_use]
    pub const fn is_enough(&self) -> bool {
        self.results.len() >= self.results_needed
    }
}

/// True if two results are of one plan, whatever the target's port was, on one kind of machine.
fn is_like(one: &Report, other: &Report) -> bool {
    let tells_apart = |what: &str| {
        (what.starts_with("plan.") && what != "plan.target")
            || ["environment.cpu_model", "environment.cores"].contains(&what)
    };
    one.name == other.name
        && !differences(one, other)
            .iter()
            .any(|difference| tells_apart(&difference.what))
}

/// Seed of the permutations: the same history always has the same changes.
const SEED: u64 = 1;

/// Find the changes in a history of positive values, in order. The same seed gives the same answer.
#[must_use]
pub fn changes(values: &[f64], seed: u64) -> Vec<ChangePoint> {
    let logarithms: Vec<f64> = values.iter().map(|value| value.ln()).collect();
    if logarithms.iter().any(|value| !value.is_finite()) {
        return Vec::new();
    }
    let level = |values: &[f64]| median(&mut values.to_vec()).unwrap_or(f64::NAN);
    let mut found = Vec::new();
    part(
        &logarithms,
        0,
        &mut fastrand::Rng::with_seed(seed),
        &mut found,
    );
    found.sort_by_key(|(at, _)| *at);
    let ends: Vec<usize> = std::iter::once(0)
        .chain(found.iter().map(|(at, _)| *at))
        .chain([values.len()])
        .collect();
    let change = |(number, (at, p)): (usize, &(usize, f64))| ChangePoint {
        at: *at,
        before: level(&values[ends[number]..*at]),
        after: level(&values[*at..ends[number + 2]]),
        p: *p,
    };
    let changes = found.iter().enumerate().map(change);
    changes
        .filter(|change| (change.after / change.before - 1.0).abs() >= SMALLEST)
        .collect()
}

/// Parts a segment that begins at `start`, and its parts.
fn part(segment: &[f64], start: usize, draw: &mut fastrand::Rng, found: &mut Vec<(usize, f64)>) {
    let Some((at, greatest)) = best(segment) else {
        return;
    };
    let mut shuffled = segment.to_vec();
    let as_good = (0..PERMUTATIONS).filter(|_| {
        draw.shuffle(&mut shuffled);
        best(&shuffled).is_some_and(|(_, by_chance)| by_chance >= greatest)
    });
    let p = (1.0 + as_good.count() as f64) / (1.0 + f64::from(PERMUTATIONS));
    if p > SIGNIFICANT {
        return;
    }
    found.push((start + at, p));
    part(&segment[..at], start, draw, found);
    part(&segment[at..], start + at, draw, found);
}

/// Return the place where the parts of a segment are furthest from each other, and their distance;
/// none when the segment is too short to be parted.
fn best(segment: &[f64]) -> Option<(usize, f64)> {
    let n = segment.len();
    let distance =
        |one: f64, others: &[f64]| -> f64 { others.iter().map(|other| (one - other).abs()).sum() };
    // All to the right; one after the other goes to the left.
    let (mut left, mut between) = (0.0, 0.0);
    let mut right: f64 = (0..n)
        .map(|i| distance(segment[i], &segment[i + 1..]))
        .sum();
    let mut best: Option<(usize, f64)> = None;
    for at in 1..n {
        let (to_left, to_right) = (
            distance(segment[at - 1], &segment[..at - 1]),
            distance(segment[at - 1], &segment[at..]),
        );
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        if at < SHORTEST || n - at < SHORTEST {
            continue;
        }
        let (m, k) = (at as f64, (n - at) as f64);
        let energy =
            2.0 * between / (m * k) - 2.0 * left / (m * (m - 1.0)) - 2.0 * right / (k * (k - 1.0));
        let q = m * k / (m + k) * energy;
        if best.is_none_or(|(_, greatest)| q > greatest) {
            best = Some((at, q));
        }
    }
    best
}

/// Fact about a history, with its numbers.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum HistoryFinding {
    /// Too few results to find a change in.
    TooFewResults {
        /// Results.
        results: usize,
        /// Results needed.
        needed: usize,
    },
    /// No metric changed.
    NoChange {
        /// Results.
        results: usize,
    },
    /// The last change of a metric.
    Changed {
        /// The metric.
        metric: Metric,
        /// The change.
        change: ChangePoint,
    },
}

impl History {
    /// Start of the first result after a change.
    fn since(&self, change: &ChangePoint) -> String {
        self.results
            .get(change.at)
            .map_or_else(|| "-".to_owned(), |past| moment(&past.started_at))
    }

    /// The table of changes.
    fn changes(&self) -> Table {
        let mut rows = Vec::new();
        for MetricHistory { metric, changes } in &self.metrics {
            for change in changes {
                let first_after = self.results.get(change.at);
                rows.push(vec![
                    metric.column.clone().into_owned(),
                    percent(change),
                    self.since(change),
                    metric.in_unit(change.before),
                    metric.in_unit(change.after),
                    format!("{:.3}", change.p),
                    first_after.map_or_else(String::new, |past| past.result.clone()),
                ]);
            }
        }
        Table {
            columns: vec![
                Column::words("metric"),
                Column::numbers("change"),
                Column::words("since"),
                Column::numbers("before").leaving(2),
                Column::numbers("after").leaving(3),
                Column::numbers("p").leaving(1),
                Column::sentences("first result after it"),
            ],
            rows,
            ..Table::default()
        }
    }
}

impl StudyResult for History {
    type Finding = HistoryFinding;

    const SCHEMA: &'static str = "crawlmark.history/1";

    const FILE: &'static str = "history.json";

    fn header(&self) -> &Header {
        &self.header
    }

    fn outcome(&self) -> &'static str {
        "history"
    }

    /// The surest change first.
    fn findings(&self) -> Vec<HistoryFinding> {
        let results = self.results.len();
        if !self.is_enough() {
            let needed = self.results_needed;
            return vec![HistoryFinding::TooFewResults { results, needed }];
        }
        let mut last: Vec<(&Metric, ChangePoint)> = self
            .metrics
            .iter()
            .filter_map(|of| Some((&of.metric, *of.changes.last()?)))
            .collect();
        last.sort_by(|(_, a), (_, b)| a.p.total_cmp(&b.p));
        if last.is_empty() {
            return vec![HistoryFinding::NoChange { results }];
        }
        last.into_iter()
            .map(|(metric, change)| HistoryFinding::Changed {
                metric: metric.clone(),
                change,
            })
            .collect()
    }

    fn notice(&self, finding: &HistoryFinding) -> Notice {
        match finding {
            HistoryFinding::TooFewResults { results, needed } => Notice::new(
                Severity::Warning,
                format!("Too few results to find a change: {results} of {needed}"),
            ),
            HistoryFinding::NoChange { results } => {
                let results = counted(*results as u64, "result");
                Notice::new(Severity::Neutral, format!("No metric changed in {results}"))
            }
            HistoryFinding::Changed { metric, change } => {
                let worse = metric.toward_worse((change.after / change.before).ln());
                let severity = if worse > 0.0 {
                    Severity::Warning
                } else {
                    Severity::Neutral
                };
                let (title, by, since) = (&metric.title, percent(change), self.since(change));
                Notice::new(severity, capital(&format!("{title} {by} since {since}")))
                    .with("The machine may have changed: compare the versions with `crawlmark ab`.")
            }
        }
    }

    fn fill(&self, doc: Doc) -> Doc {
        let [first, latest] = [self.results.first(), self.results.last()].map(|past| {
            past.map_or_else(String::new, |past| {
                format!("{}, {}", moment(&past.started_at), past.result)
            })
        });
        let mut facts = vec![
            ("results", counted(self.results.len() as u64, "result")),
            ("first", first),
            ("latest", latest),
        ];
        if self.left_out > 0 {
            let left_out = counted(self.left_out as u64, "result");
            facts.push((
                "left out",
                format!("{left_out} with another plan, machine or name"),
            ));
        }
        doc.facts(facts).table(self.changes())
    }

    fn conclusion(&self) -> Conclusion {
        if self.is_enough() {
            Conclusion::Done
        } else {
            Conclusion::Inconclusive
        }
    }

    /// Each result, the level between changes, and the changes; empty with too few results.
    fn chart(&self) -> Option<Chart> {
        let metrics = self.metrics.iter().filter(|_| self.is_enough());
        let panels = metrics.map(|found| panel(self, found)).collect();
        Some(Chart {
            name: "history",
            title: "Metrics over time",
            caption: String::new(),
            panels: Panel::below_each_other(panels),
        })
    }
}

fn percent(change: &ChangePoint) -> String {
    format!("{:+.1} %", (change.after / change.before - 1.0) * 100.0)
}

/// Part of the distance between the least and the greatest value that is free beyond both.
const AIR: f64 = 0.1;

/// Least distance that an axis shows, as a part of the greatest value: less would make noise look
/// like a change.
const LEAST_SPAN: f64 = 0.1;

/// The field of a metric.
fn panel(history: &History, found: &MetricHistory) -> Panel {
    let metric = &found.metric;
    let count = history.results.len();
    let mut dots = Vec::new();
    for (number, past) in (1_u32..).zip(&history.results) {
        let value = past.readings.of(&metric.name).value();
        dots.extend(value.map(|value| Dot::at(f64::from(number), value)));
    }
    let y = Axis::new(&*metric.title, span(metric, &dots), format(metric));
    let mut marks = Vec::new();
    for (n, change) in found.changes.iter().enumerate() {
        let at = change.at as f64 + 0.5;
        let end = found.changes.get(n + 1).map_or(count, |next| next.at) as f64 + 0.5;
        if n == 0 {
            marks.push(level([0.5, at], change.before));
        }
        marks.push(level([at, end], change.after));
        marks.push(Mark::new(Role::Failed, "change", Shape::Upright(at)).dashed(Dash::Short));
    }
    marks.push(Mark::new(Role::Good, "a result", Shape::Dots(dots)));
    Panel {
        x: Axis::new(
            "result, the oldest first",
            Range::Between(0.5, count as f64 + 0.5),
            Format::Number,
        ),
        y,
        height: 110.0,
        marks,
    }
}

fn level(ends: [f64; 2], value: f64) -> Mark {
    let line = ends.map(|x| (x, value)).to_vec();
    Mark::new(Role::Reference, "median between changes", Shape::Line(line))
}

fn format(metric: &Metric) -> Format {
    match &*metric.unit {
        SHARE => Format::Percent,
        MICROSECONDS => Format::Micros,
        _ => Format::Number,
    }
}

/// Axis around all values. It does not begin at 0: a change by 2 % has to be seen.
fn span(metric: &Metric, dots: &[Dot]) -> Range {
    let ys = || dots.iter().map(|dot| dot.at.1);
    let least = ys().fold(f64::INFINITY, f64::min);
    let most = ys().fold(f64::NEG_INFINITY, f64::max);
    let missing = (most * LEAST_SPAN - (most - least)).max(0.0) / 2.0 + (most - least) * AIR;
    let bound = if metric.unit == SHARE {
        1.0
    } else {
        f64::INFINITY
    };
    if least <= most {
        Range::Between((least - missing).max(0.0), (most + missing).min(bound))
    } else {
        Range::FromZero
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gaussian noise of 2 % around a level.
    fn history(seed: u64, levels: &[(usize, f64)]) -> Vec<f64> {
        let mut draw = fastrand::Rng::with_seed(seed);
        let mut gaussian = || (0..12).map(|_| draw.f64()).sum::<f64>() - 6.0;
        levels
            .iter()
            .flat_map(|(count, level)| std::iter::repeat_n(*level, *count))
            .map(|level| level * (1.0 + 0.02 * gaussian()))
            .collect()
    }

    #[test]
    fn a_step_of_5_percent_is_found_where_it_is() {
        let (mut found, mut near) = (0, 0);
        for seed in 0..100 {
            let changes = changes(&history(seed, &[(20, 1_000.0), (20, 950.0)]), seed);
            found += usize::from(!changes.is_empty());
            near += usize::from(changes.iter().any(|change| change.at.abs_diff(20) <= 2));
            for change in changes {
                assert!(change.p <= SIGNIFICANT && change.before > change.after * 0.9);
            }
        }
        assert!(found >= 98 && near >= 85, "{found}, {near}");
    }

    #[test]
    fn the_level_of_an_even_number_of_results_is_the_mean_of_the_middle_two() {
        let values = [
            100.0, 104.0, 100.0, 104.0, 100.0, 104.0, 200.0, 208.0, 200.0, 208.0, 200.0, 208.0,
        ];
        let [change] = changes(&values, 1)[..] else {
            panic!("one change")
        };
        assert_eq!((change.at, change.before, change.after), (6, 102.0, 204.0));
    }

    #[test]
    fn a_history_without_a_change_has_none_in_98_of_100() {
        let alarms = (0..300)
            .filter(|seed| !changes(&history(*seed, &[(40, 1_000.0)]), *seed).is_empty())
            .count();
        assert!(alarms <= 6, "{alarms}");
    }

    #[test]
    fn two_changes_are_told_apart_and_one_bad_day_is_none() {
        let twice = changes(&history(3, &[(15, 100.0), (15, 120.0), (15, 100.0)]), 3);
        assert_eq!(twice.len(), 2, "{twice:?}");
        assert!((twice[0].after - 120.0).abs() < 4.0 && (twice[1].after - 100.0).abs() < 4.0);
        let mut bad_day = history(4, &[(30, 100.0)]);
        bad_day[12] = 40.0;
        assert_eq!(changes(&bad_day, 4), []);
        for hopeless in [&[][..], &[1.0; 9], &[0.0; 20], &[f64::NAN; 20]] {
            assert_eq!(changes(hopeless, 1), []);
        }
    }
}
