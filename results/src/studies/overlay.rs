//! Single runs over each other: the rate and the times of each second, and their totals. They ran at
//! different times, so there is no verdict.

use serde::{Deserialize, Serialize};

use super::{Conclusion, Header, Picture, StudyFinding, StudyResult, or_dash, rate};
use crate::run::report::{Report, Verdict};
use crate::show::chart::{Axis, Format, Mark, Panel, Range, Role, Shape};
use crate::show::doc::{Column, Doc, Table};
use crate::show::text::{counted, micros};
use crawlmark_harness::stats::Series;
use crawlmark_harness::units::percent;

/// Part of a whole second that a run may lack at its end, s.
const NEARLY: f64 = 0.01;

/// Height of a panel, CSS pixels.
const HEIGHT: f64 = 168.0;

/// Runs over each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Overlay {
    /// Fields of every study.
    #[serde(flatten)]
    pub header: Header,
    /// The runs, as they were named.
    pub runs: Vec<OverlaidRun>,
}

/// A run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlaidRun {
    /// Name of its result.
    pub name: String,
    /// Verdict on its measurement.
    pub validity: Verdict,
    /// Good items per second.
    pub ok_per_s: f64,
    /// Median of the times, µs: response times of an open loop, service times of a closed one.
    pub p50_us: Option<f64>,
    /// Their 99th percentile, µs.
    pub p99_us: Option<f64>,
    /// Names of those percentiles that are only known to be no less than their value.
    #[serde(default)]
    pub at_least: Vec<String>,
    /// Failed requests as a part of all.
    pub error_share: f64,
    /// Throttled requests as a part of all.
    pub throttled_share: f64,
    /// Its whole seconds, and the first one.
    pub seconds: Vec<OverlaidSecond>,
}

/// A second of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverlaidSecond {
    /// Its start since the start of the run, s.
    pub start_s: u64,
    /// Good items in it.
    pub ok: u64,
    /// The 99th percentile of the times, µs; null without times.
    pub p99_us: Option<f64>,
}

impl OverlaidRun {
    /// The run of a report, under a name.
    pub fn new(name: String, report: &Report) -> Self {
        let series = Series::waited(report.plan.run.arrivals);
        let times = report.latency(series);
        let is_open = report.schedule.is_some();
        let counted = report.measured();
        let [error_share, throttled_share] = [counted.errors(), counted.requests.throttled]
            .map(|part| part as f64 / counted.requests.attempts.max(1) as f64);
        let end_s = report.totals.duration_s + NEARLY;
        let seconds = report
            .intervals
            .iter()
            .filter(|row| row.start_s == 0 || (row.start_s + 1) as f64 <= end_s)
            .map(|row| OverlaidSecond {
                start_s: row.start_s,
                ok: row.counts.ok,
                p99_us: if is_open {
                    row.response_p99_us
                } else {
                    row.p99_us
                },
            });
        Self {
            name,
            validity: report.validity.verdict,
            ok_per_s: report.totals.ok_per_s,
            p50_us: times.and_then(|times| times.p50_us),
            p99_us: times.and_then(|times| times.p99_us),
            at_least: ["p50_us", "p99_us"]
                .into_iter()
                .filter(|key| times.is_some_and(|times| times.is_at_least(key)))
                .map(str::to_owned)
                .collect(),
            error_share,
            throttled_share,
            seconds: seconds.collect(),
        }
    }

    fn time(&self, key: &str, us: Option<f64>) -> String {
        let is_at_least = self.at_least.iter().any(|name| name == key);
        let at_least = if is_at_least { ">= " } else { "" };
        or_dash(us, |us| format!("{at_least}{}", micros(us)))
    }

    fn row(&self) -> Vec<String> {
        vec![
            self.name.clone(),
            rate(self.ok_per_s),
            self.time("p50_us", self.p50_us),
            self.time("p99_us", self.p99_us),
            percent(self.error_share),
            percent(self.throttled_share),
            self.validity.name().to_owned(),
        ]
    }
}

impl Overlay {
    /// A panel in which each run has a line of these values of its seconds.
    fn panel(&self, y: Axis, value: fn(&OverlaidSecond) -> Option<f64>) -> Panel {
        let end_s = self
            .runs
            .iter()
            .flat_map(|run| &run.seconds)
            .map(|second| second.start_s + 1)
            .max()
            .unwrap_or(1);
        Panel {
            x: Axis::new("s", Range::Between(0.0, end_s as f64), Format::Number),
            y,
            height: HEIGHT,
            marks: self
                .runs
                .iter()
                .enumerate()
                .map(|(number, run)| {
                    let points = run
                        .seconds
                        .iter()
                        .filter_map(|second| Some((second.start_s as f64 + 0.5, value(second)?)));
                    Mark::new(Role::Run(number), &run.name, Shape::Line(points.collect()))
                })
                .collect(),
            cells: Vec::new(),
        }
    }
}

impl StudyResult for Overlay {
    const SCHEMA: &'static str = "crawlmark.overlay/1";

    const FILE: &'static str = "overlay.json";

    fn chart(&self) -> [&'static str; 2] {
        ["overlay", "Runs over each other"]
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn findings(&self) -> Vec<StudyFinding> {
        vec![StudyFinding::Unpaired {}]
    }

    fn fill(&self, doc: Doc) -> Doc {
        doc.table(Table {
            columns: vec![
                Column::words("run"),
                Column::numbers("good items"),
                Column::numbers("p50"),
                Column::numbers("p99"),
                Column::numbers("failed").leaving(2),
                Column::numbers("throttled").leaving(1),
                Column::words("verdict").leaving(3),
            ],
            rows: self.runs.iter().map(OverlaidRun::row).collect(),
            ..Table::default()
        })
    }

    fn picture(&self) -> Option<Picture> {
        let rates = Axis::new("good items per second", Range::FromZero, Format::Number);
        let mut panels = vec![self.panel(rates, |second| Some(second.ok as f64))];
        // A second has seldom the thousand responses that a p99 takes.
        let has_lines = self.runs.iter().any(|run| {
            run.seconds
                .windows(2)
                .any(|two| two.iter().all(|of| of.p99_us.is_some()))
        });
        if has_lines {
            let times = Axis::new("p99", Range::Log, Format::Micros);
            panels.push(self.panel(times, |second| second.p99_us));
        }
        Some(Picture {
            subtitle: format!(
                "good items per second of {}, from the start of each · whole seconds",
                counted(self.runs.len() as u64, "run")
            ),
            command: "compare",
            of: self.runs.iter().map(|run| run.name.clone()).collect(),
            panels: Panel::below_each_other(panels),
        })
    }

    fn conclusion(&self) -> Conclusion {
        Conclusion::Inconclusive
    }
}
