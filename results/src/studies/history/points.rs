//! Results as points of a history, and the file that keeps them: one JSON object a line.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crawlmark_harness::stats::median;
use serde::{Deserialize, Serialize};

use crate::import::{ImportError, Imported};
use crate::run::report::{Environment, Report, Verdict};
use crate::run::result_dir::foreign::{self, one_line, read_text};
use crate::studies::compare::{
    Arm, Contest, Metric, Worse, command_metrics, readings_of_run, run_metrics,
};
use crate::studies::differences::plan_key;

/// The name of the format, which each line has in `schema`.
pub const POINT: &str = "crawlmark.point/1";

/// Figures of one result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// [`POINT`].
    pub schema: String,
    /// RFC 3339, UTC: when it was measured.
    pub time: String,
    /// Commit that was measured; empty if it is not known.
    pub commit: String,
    /// Machine that measured; empty if it is not known.
    pub machine: String,
    /// Name of the run, comparison or benchmark.
    pub name: String,
    /// Checksum of the plan without its target; empty if it has none. Only equal plans make a
    /// history.
    pub plan: String,
    /// Its figures, by the name of their metric.
    pub metrics: BTreeMap<String, PointValue>,
}

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PointValue {
    /// The figure.
    pub value: f64,
    /// Its unit: `us`, `bytes`, `1/s`, `share`, or any other word.
    pub unit: String,
    /// Direction in which it gets worse.
    pub worse: Worse,
}

/// Reason why a run is no point of a history, as it follows "the run".
pub fn unfit(report: &Report) -> Option<&'static str> {
    match report.validity.verdict {
        Verdict::NothingMeasured => Some("measured nothing"),
        Verdict::Incomplete => Some("is incomplete"),
        Verdict::TargetLimited => Some(
            "has too many requests that failed, were throttled, cut off at the end or never sent",
        ),
        _ => report.interrupted.then_some("was stopped early"),
    }
}

impl PointValue {
    /// The metric with this name that it is of.
    pub(super) fn metric(&self, name: &str) -> Metric {
        run_metrics()
            .into_iter()
            .chain(command_metrics())
            .find(|metric| metric.name == name)
            .unwrap_or_else(|| Metric::named(name, &self.unit, self.worse))
    }
}

/// Name of a machine in a history.
pub fn machine_name(machine: &Environment) -> String {
    let cpu = machine.cpu_model.as_deref().unwrap_or("unknown CPU");
    format!("{cpu}, {} cores", machine.cores)
}

impl Point {
    fn new(time: &str, name: &str, values: Vec<(Metric, f64)>) -> Self {
        let metrics = values.into_iter().map(|(metric, value)| {
            let Metric {
                name, unit, worse, ..
            } = metric;
            let unit = unit.into_owned();
            (name.into_owned(), PointValue { value, unit, worse })
        });
        Self {
            schema: POINT.to_owned(),
            time: time.to_owned(),
            commit: String::new(),
            machine: String::new(),
            name: name.to_owned(),
            plan: String::new(),
            metrics: metrics.collect(),
        }
    }

    /// The point of a run.
    pub fn of_run(report: &Report) -> Self {
        let readings = readings_of_run(report);
        let values = run_metrics().into_iter().filter_map(|metric| {
            let value = readings.of(&metric.name).value()?;
            Some((metric, value))
        });
        Self {
            commit: report.environment.git_revision.clone().unwrap_or_default(),
            machine: machine_name(&report.environment),
            plan: plan_key(report),
            ..Self::new(&report.started_at, &report.name, values.collect())
        }
    }

    /// The point of a comparison: the medians of its candidate.
    pub fn of_contest(contest: &Contest) -> Self {
        let header = &contest.context.header;
        let values = contest.metrics().into_iter().filter_map(|metric| {
            let value = median(&mut contest.values(Arm::Candidate, &metric))?;
            Some((metric, value))
        });
        Self {
            // What runs, so that comparisons of other things under one name are other histories.
            plan: contest.context.candidate.what.clone(),
            ..Self::new(&header.started_at, &header.name, values.collect())
        }
    }

    /// The points of another tool's results, one for each benchmark: the medians of its values.
    pub fn of_import(imported: &Imported, time: &str) -> Vec<Self> {
        let mut benchmarks = BTreeMap::<&str, Vec<(Metric, f64)>>::new();
        for one in &imported.series {
            let name = if one.benchmark.is_empty() {
                imported.tool
            } else {
                &one.benchmark
            };
            let value = median(&mut one.values.clone()).map(|value| (one.metric.clone(), value));
            benchmarks.entry(name).or_default().extend(value);
        }
        benchmarks
            .into_iter()
            .map(|(name, values)| Self::new(time, name, values))
            .collect()
    }
}

/// Read a file of points.
///
/// # Errors
/// Names the line that is none.
pub fn read_points(path: &Path) -> Result<Vec<Point>, ImportError> {
    let text = read_text(path).map_err(|error| ImportError::new(path, 0, error.to_string()))?;
    parse_points(path, &text)
}

fn parse_point(line: &str) -> Result<Point, String> {
    let point: Point = foreign::from_str(line).map_err(|error| one_line(&error))?;
    if point.schema != POINT {
        let found = foreign::short(&point.schema);
        return Err(format!("has the format `{found}`, and `{POINT}` is needed"));
    }
    if humantime::parse_rfc3339(&point.time).is_err() {
        let found = foreign::short(&point.time);
        return Err(format!(
            "`time` is `{found}`, expected one like 2026-01-31T12:00:00Z"
        ));
    }
    Ok(point)
}

/// Parse the text of a file of points; `path` is for errors.
///
/// # Errors
/// As [`read_points`].
pub fn parse_points(path: &Path, text: &str) -> Result<Vec<Point>, ImportError> {
    let mut points = Vec::new();
    for (number, line) in (1..)
        .zip(text.lines())
        .filter(|(_, line)| !line.trim().is_empty())
    {
        let point = parse_point(line).map_err(|why| {
            let why = format!(
                "{why}. Each line is one result, as `crawlmark history FILE --add RESULT` writes it"
            );
            ImportError::new(path, number, why)
        })?;
        points.push(point);
    }
    Ok(points)
}

/// Add points to a file, which is made if it is missing.
///
/// # Errors
/// When it cannot be written.
pub fn add_points(path: &Path, points: &[Point]) -> io::Result<()> {
    let mut text = String::new();
    // A line that an editor left without an end.
    if fs::read(path).is_ok_and(|bytes| bytes.last().is_some_and(|last| *last != b'\n')) {
        text.push('\n');
    }
    for point in points {
        text += &serde_json::to_string(point)?;
        text.push('\n');
    }
    let mut file = OpenOptions::new().create(true).append(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}
