//! Changes in a history of results: advice on where to look, and never a verdict.
//!
//! Results that are days apart differ by the machine, its neighbours and its kernel as well as by what
//! was measured. A change that is found here says between which results the conditions changed; which
//! of them, only pairs can say.
//!
//! | file | holds |
//! |---|---|
//! | `points` | results as points, and the file that keeps them |
//! | `changes` | change points of a series: the method and its error |
//! | `chart` | the results of each series over each other |

mod changes;
mod chart;
mod points;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::changes::ChangePoint;
use self::changes::Search;
pub use self::points::{
    POINT, Point, PointValue, add_points, machine_name, parse_points, read_points, unfit,
};
use super::compare::Metric;
use super::shift::Shift;
use super::{Conclusion, Header, Picture, StudyFinding, StudyResult};
use crate::run::words::moment;
use crate::show::chart::least_and_most;
use crate::show::doc::{Column, Doc, Table};
use crate::show::plot::date;
use crate::show::text::{block, counted};

/// The most results of a series, the latest: the work grows with their number.
const LONGEST: usize = 400;

/// The most series that are drawn: those that changed, then others.
const DRAWN: usize = 12;

/// Correlation of neighbours from which on it is named, if it is also three times its standard error.
const CORRELATED: f64 = 0.25;

/// The most changes that are named; the table has all.
const NAMED: usize = 6;

/// Characters of the line of a series at most.
const LINE: usize = 60;

/// Characters of a commit that are shown.
const COMMIT: usize = 10;

/// Results over time, and where they changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct History {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// Results.
    pub results: usize,
    /// The fewest results in which a change of these series can be found.
    pub results_needed: usize,
    /// Series with fewer results, which are left out.
    pub too_short: usize,
    /// The others.
    pub series: Vec<Series>,
}

/// A metric of one benchmark or plan on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Name, with the benchmark and the machine where there are several.
    pub title: String,
    /// Name of the run, comparison or benchmark.
    pub name: String,
    /// Machine.
    pub machine: String,
    /// The metric.
    #[serde(flatten)]
    pub metric: Metric,
    /// Correlation of neighbours between changes; 0 if each result is independent of the one before.
    pub correlation: f64,
    /// The smallest lasting change in its middle that would have been found in 95 of 100 histories, as
    /// a fraction of the value before it; null where there are changes, or values are not above 0.
    pub smallest_found: Option<f64>,
    /// Changes, in order.
    pub changes: Vec<ChangePoint>,
    /// The results, the oldest first.
    pub results: Vec<PastResult>,
}

/// A result in a series.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PastResult {
    /// RFC 3339, UTC.
    pub time: String,
    /// Commit; empty if it is not known.
    pub commit: String,
    /// Value of the metric.
    pub value: f64,
}

impl History {
    /// The history of these results; none of none.
    pub fn of(mut points: Vec<Point>, name: &str) -> Option<Self> {
        points.sort_by_key(|point| humantime::parse_rfc3339(&point.time).ok());
        // The same result, added by two steps of a workflow or kept by a merge of two branches.
        points = distinct(points);
        let header = Header::new::<Self>(name, [&points.first()?.time, &points.last()?.time]);
        let several =
            |of: fn(&Point) -> &str| points.iter().map(of).collect::<BTreeSet<_>>().len() > 1;
        let (names, machines) = (
            several(|point| &point.name),
            several(|point| &point.machine),
        );
        let mut all = BTreeMap::new();
        for point in &points {
            let (name, machine) = (&point.name, &point.machine);
            for (metric, value) in &point.metrics {
                let key = (name, &point.plan, machine, metric);
                let series = all.entry(key).or_insert_with(|| {
                    let metric = value.metric(metric);
                    let of = if names {
                        format!("{name}: ")
                    } else {
                        String::new()
                    };
                    let on = if machines {
                        format!(", on {machine}")
                    } else {
                        String::new()
                    };
                    Series {
                        title: format!("{of}{}{on}", metric.title),
                        name: name.clone(),
                        machine: machine.clone(),
                        metric,
                        correlation: 0.0,
                        smallest_found: None,
                        changes: Vec::new(),
                        results: Vec::new(),
                    }
                });
                series.results.push(PastResult {
                    time: point.time.clone(),
                    commit: point.commit.clone(),
                    value: value.value,
                });
            }
        }
        let total = all.len();
        let mut series: Vec<Series> = all.into_values().collect();
        // Each that is looked at takes its share of the error, which all need more results for.
        let mut results_needed = changes::needed(1);
        loop {
            series.retain(|one| one.results.len() >= results_needed);
            let needed = changes::needed(series.len());
            if needed <= results_needed {
                break;
            }
            results_needed = needed;
        }
        let search = Search::new(series.len());
        for one in &mut series {
            one.look(search);
        }
        Some(Self {
            header,
            results: points.len(),
            results_needed,
            too_short: total - series.len(),
            series,
        })
    }
}

/// Leave out what equals a point before it, of points in order of time.
fn distinct(points: Vec<Point>) -> Vec<Point> {
    let mut kept: Vec<Point> = Vec::with_capacity(points.len());
    for point in points {
        let mut same = kept.iter().rev().take_while(|one| one.time == point.time);
        if same.all(|one| *one != point) {
            kept.push(point);
        }
    }
    kept
}

impl Series {
    /// Find the changes, and leave out those that are surely too small to count.
    fn look(&mut self, search: Search) {
        self.results
            .drain(..self.results.len().saturating_sub(LONGEST));
        let values: Vec<f64> = self.results.iter().map(|past| past.value).collect();
        self.changes = search.changes(&values);
        self.correlation = changes::correlation(&values, &self.changes);
        let smallest = self.metric.smallest_effect;
        self.changes.retain(|change| {
            let Shift {
                ratio,
                ratio_interval,
                ..
            } = change.shift;
            let ends = ratio_interval.map(|interval| [interval.low, interval.high]);
            let mut may_be = ratio.into_iter().chain(ends.into_iter().flatten());
            ratio.is_none() || may_be.any(|ratio| (ratio - 1.0).abs() >= smallest)
        });
        if self.changes.is_empty() {
            let found = search.smallest_found(&values);
            self.smallest_found = found.map(|change| change.max(smallest));
        }
    }

    /// True if neighbours are more alike than chance makes them.
    fn wanders(&self) -> bool {
        self.correlation >= CORRELATED.max(3.0 / (self.results.len() as f64).sqrt())
    }

    /// The commit of a result, or else its time.
    fn result(&self, at: usize) -> String {
        let past = &self.results[at];
        if past.commit.is_empty() {
            return moment(&past.time);
        }
        past.commit.chars().take(COMMIT).collect()
    }

    /// The results as a line of characters, from the least to the most, with a bar before each
    /// change; each character is the mean of as many results where there are too many.
    fn line(&self) -> String {
        let values = self.results.iter().map(|past| past.value);
        let (least, most) = least_and_most(values);
        let per_character = self.results.len().div_ceil(LINE).max(1);
        let mut line = String::new();
        for (at, some) in self.results.chunks(per_character).enumerate() {
            let from = at * per_character;
            let within = from..from + some.len();
            if self
                .changes
                .iter()
                .any(|change| within.contains(&change.at))
            {
                line.push('\u{2502}');
            }
            let mean = some.iter().map(|past| past.value).sum::<f64>() / some.len() as f64;
            line.push(block((mean - least) / (most - least)));
        }
        line
    }

    /// The same in a sentence.
    fn since(&self, at: usize) -> String {
        let is_known = !self.results[at].commit.is_empty();
        let of = if is_known { "commit " } else { "" };
        format!("{of}{}", self.result(at))
    }
}

impl StudyResult for History {
    const SCHEMA: &'static str = "crawlmark.history/1";

    const FILE: &'static str = "history.json";

    fn chart(&self) -> [&'static str; 2] {
        ["history", "Metrics over time"]
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn outcome(&self) -> String {
        "history".to_owned()
    }

    /// Losses first, and the latest of them.
    fn findings(&self) -> Vec<StudyFinding> {
        let needed = self.results_needed;
        if self.series.is_empty() {
            let results = self.results;
            return vec![StudyFinding::TooFewResults { results, needed }];
        }
        let mut changed: Vec<_> = self
            .series
            .iter()
            .filter_map(|one| {
                let change = one.changes.last()?;
                let shift = change.shift;
                let is_worse = one.metric.toward_worse(shift.after - shift.before) > 0.0;
                Some((is_worse, &one.results[change.at].time, one, *change))
            })
            .collect();
        changed.sort_by_key(|(is_worse, time, ..)| Reverse((*is_worse, *time)));
        changed.truncate(NAMED);
        let mut found: Vec<StudyFinding> = changed
            .into_iter()
            .map(|(is_worse, _, one, change)| StudyFinding::Changed {
                title: one.title.clone(),
                since: one.since(change.at),
                is_worse,
                change,
            })
            .collect();
        if found.is_empty() {
            let known = self.series.iter().filter_map(|one| one.smallest_found);
            let (least, most) = least_and_most(known);
            found.push(StudyFinding::NoChange {
                results: self.results,
                series: self.series.len(),
                smallest_found: (least <= most).then_some([least, most]),
            });
        }
        let wandering = self.series.iter().filter(|one| one.wanders());
        found.extend(wandering.map(|one| StudyFinding::Wanders {
            title: one.title.clone(),
            correlation: one.correlation,
        }));
        if self.too_short > 0 {
            let series = self.too_short;
            found.push(StudyFinding::TooShort { series, needed });
        }
        found
    }

    fn fill(&self, doc: Doc) -> Doc {
        let header = &self.header;
        let period = [&header.started_at, &header.finished_at].map(|time| moment(time));
        let machines: BTreeSet<&str> = self.series.iter().map(|one| &*one.machine).collect();
        let doc = doc.facts([
            (
                "results",
                format!("{}, {} to {}", self.results, period[0], period[1]),
            ),
            ("machine", Vec::from_iter(machines).join("; ")),
        ]);
        doc.table(self.changes())
    }

    fn short_table(&self, _columns: usize) -> Option<Table> {
        let mut shown: Vec<&Series> = self.series.iter().collect();
        shown.sort_by_key(|one| one.changes.is_empty());
        let rows = shown.into_iter().take(NAMED).map(|one| {
            let results = counted(one.results.len() as u64, "result");
            vec![one.title.clone(), one.line(), results]
        });
        Some(Table {
            columns: vec![
                Column::words("metric"),
                Column::words("from the least to the most, \u{2502} a change"),
                Column::numbers(""),
            ],
            rows: rows.collect(),
            ..Table::default()
        })
    }

    fn conclusion(&self) -> Conclusion {
        if self.series.is_empty() {
            Conclusion::Inconclusive
        } else {
            Conclusion::Done
        }
    }

    fn picture(&self) -> Option<Picture> {
        let header = &self.header;
        let [from, to] = [&header.started_at, &header.finished_at].map(|time| date(time));
        let machines: BTreeSet<&str> = self.series.iter().map(|one| &*one.machine).collect();
        let mut drawn: Vec<&Series> = self.series.iter().collect();
        drawn.sort_by_key(|one| one.changes.is_empty());
        drawn.truncate(DRAWN);
        Some(Picture {
            subtitle: format!(
                "one dot a result · {}, {from} to {to} · lines: medians between changes · tinted: where a change may have begun (95 %)",
                counted(self.results as u64, "result")
            ),
            command: "history",
            of: vec![Vec::from_iter(machines).join("; ")],
            panels: chart::panels(&drawn),
        })
    }
}

impl History {
    fn changes(&self) -> Table {
        let rows = self.series.iter().flat_map(|one| {
            one.changes.iter().map(|change| {
                let within = [change.earliest, change.latest].map(|at| one.result(at));
                vec![
                    one.title.clone(),
                    change.shift.words(),
                    one.metric.in_unit(change.shift.before),
                    one.metric.in_unit(change.shift.after),
                    one.result(change.at),
                    within.join(" .. "),
                ]
            })
        });
        Table {
            columns: vec![
                Column::words("metric"),
                Column::numbers("change (95 %)"),
                Column::numbers("before").leaving(1),
                Column::numbers("after").leaving(2),
                Column::words("since"),
                Column::sentences("began within (95 %)"),
            ],
            rows: rows.collect(),
            ..Table::default()
        }
    }
}
